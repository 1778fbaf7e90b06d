// The waterfall: a sum drawn as bars, each starting where the one before it ended. Drawn anew for the width at hand, so
// that its text is never scaled. The table below it has the same numbers; this picture is one image to a screen reader.

import { svg } from "./dom.js";
import { plain, signed } from "./numbers.js";

const NARROW = 430; // below this width labels stand above their bars
const NUMBERS = 66; // width of the column of numbers
const CHARACTER = 7.3; // about the width of one at this size

/** An SVG of the parts, `width` pixels wide. `chosen(feature)` is called for a click on a feature's row. */
export function waterfall(parts, { width, marked = "", chosen }) {
  const narrow = width < NARROW;
  const rows = [...parts.rows, { key: "total", kind: "total", label: parts.what, before: 0, after: parts.total }];
  const longest = 1 + Math.max(...rows.map((row) => row.label.length));
  const labels = narrow ? 0 : Math.min(width * 0.36, Math.max(80, longest * CHARACTER));
  const step = narrow ? 42 : 29;
  const axis = scaleOf(rows, labels + 8, width - NUMBERS - 10);
  const bottom = rows.length * step + 14;
  const box = { narrow, labels, step, width, axis, bottom };
  return svg(
    "svg",
    { class: "waterfall", role: "img", width, height: bottom + 26, viewBox: `0 0 ${width} ${bottom + 26}` },
    svg("title", { text: `${parts.title} as a sum` }),
    svg("desc", { text: `${description(parts)} The table below has the same numbers.` }),
    ...grid(box),
    ...rows.map((row, place) => drawn(row, place, rows[place + 1], box, marked, chosen)),
  );
}

function description(parts) {
  const named = parts.rows.map((row) => `${row.label} ${signed(row.delta, 3)}`);
  return `${named.join(", ")}; together ${plain(parts.total, 3)}.`;
}

/** From numbers to pixels, and round numbers to mark. */
function scaleOf(rows, left, right) {
  const ends = rows.flatMap((row) => [row.before, row.after, 0]);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const span = high - low || 1;
  const x = (value) => left + ((value - low) / span) * (right - left);
  const rough = span / Math.max(3, Math.floor((right - left) / 75));
  const power = 10 ** Math.floor(Math.log10(rough));
  const tick = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const ticks = [];
  for (let n = Math.ceil(low / tick); n * tick <= high + tick * 1e-9; n += 1) ticks.push(n * tick);
  return { x, ticks, decimals: Math.max(0, -Math.floor(Math.log10(tick))) };
}

function grid({ axis, bottom }) {
  const lines = axis.ticks.map((value) => {
    const x = Math.round(axis.x(value)) + 0.5;
    return svg("line", { class: Math.abs(value) < 1e-12 ? "zero" : "grid", x1: x, x2: x, y1: 4, y2: bottom });
  });
  const texts = axis.ticks.map((value) => {
    const place = { x: axis.x(value), y: bottom + 16, "text-anchor": "middle" };
    return svg("text", { class: "tick", ...place, text: plain(value, axis.decimals) });
  });
  return [...lines, ...texts];
}

function drawn(row, place, next, box, marked, chosen) {
  const { narrow, labels, step, width, axis } = box;
  const top = place * step + 6;
  const height = narrow ? 14 : 17;
  const y = top + (narrow ? 20 : 3);
  const [from, to] = [axis.x(row.before), axis.x(row.after)];
  const isTotal = row.kind === "total";
  const isMarked = Boolean(row.feature) && row.feature === marked;
  const name = `${isMarked ? "▸ " : ""}${row.label}`;
  const room = Math.floor((narrow ? width - 20 : labels) / CHARACTER);
  const group = svg(
    "g",
    { class: `part ${row.kind}${row.feature ? " feature" : ""}${isMarked ? " marked" : ""}` },
    svg("rect", { class: "row", x: 0, y: top - 3, width, height: step - 1, rx: 4 }),
    svg("text", {
      class: "label",
      x: narrow ? 2 : labels,
      y: top + (narrow ? 11 : 16),
      "text-anchor": narrow ? "start" : "end",
      text: shortened(name, room),
    }),
    svg("rect", {
      class: `value ${isTotal || row.kind === "background" || row.kind === "normaliser" ? row.kind : sign(row)}`,
      x: Math.min(from, to),
      y,
      width: Math.max(1.5, Math.abs(to - from)),
      height,
      rx: 2,
    }),
    svg("text", {
      class: "number",
      x: width - 2,
      y: y + height - 4,
      "text-anchor": "end",
      text: isTotal ? plain(row.after, 3) : signed(row.delta, 3),
    }),
    svg("title", { text: row.hint ? `${row.label}: ${row.hint}` : row.label }),
  );
  if (next && next.kind !== "total") {
    group.append(svg("line", { class: "link", x1: to, x2: to, y1: y + height, y2: y + step }));
  }
  if (row.feature) group.addEventListener("click", () => chosen(row.feature));
  return group;
}

const sign = (row) => (row.delta < 0 ? "lowers" : "raises");

function shortened(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, Math.max(1, most - 1)).join("")}…`;
}
