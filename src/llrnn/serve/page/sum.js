// A sum, log p = log b + Σ a·φ − log Z: its rows from the API's explanation, as a table and as a waterfall.

import { button, el, meaning, percent, plain, signed, svg } from "./dom.js";
import { meaningOf } from "./words.js";

const SHOWN = 8; // terms that stand alone; smaller ones are folded into one row

/** The rows that lead to log p of a word. */
export function partsOfWord(explanation, expanded) {
  const { word, log_p, log_b, log_z, log_inside, cell, terms, factors, forbidden_by } = explanation;
  const rows = [
    ...background(log_b, factors, log_inside, cell, "log b"),
    ...folded(terms, expanded),
    { key: "log Z", kind: "normaliser", label: "− log Z", delta: -log_z },
  ];
  const forbidden = log_b === null ? forbidden_by : null;
  return summed(rows, { what: "log p", title: `log p(${word})`, total: log_p, forbidden });
}

/** The rows that lead to log p(word) − log p(rival); log Z cancels. */
export function partsOfComparison(comparison, word, rival, expanded) {
  const { log_ratio, log_b_difference, terms, factors } = comparison;
  const rows = [...background(log_b_difference, factors, 0, null, "log b difference"), ...folded(terms, expanded)];
  const forbidden = log_ratio === null || log_b_difference === null ? [] : null;
  return summed(rows, { what: "log ratio", title: `log p(${word}) − log p(${rival})`, total: log_ratio, forbidden });
}

/** One row for the background, or one for each of its factors, and one for the place of a word within its cell. */
function background(log_b, factors, inside, cell, label) {
  const row = (key, name, delta) => ({ key, kind: "background", label: name, delta });
  const several = factors.length > 1 && factors.every((factor) => factor.log_b !== null);
  const within = log_b === null ? null : log_b - inside;
  const rows = several
    ? factors.map((factor, i) => row(`b${i}`, `${label}: ${factor.name}`, factor.log_b))
    : [row("b", cell === null ? label : `${label} of ${cell}`, within)];
  if (cell !== null) rows.push(row("inside", `log share of ${cell}`, inside));
  return rows;
}

function folded(terms, expanded) {
  const shown = expanded || !folds(terms) ? terms.length : SHOWN;
  const rows = terms.slice(0, shown).map(({ name, weight, value, share }) => {
    return { key: `term:${name}`, kind: "term", label: name, feature: name, weight, value, delta: share };
  });
  const rest = terms.slice(shown);
  if (rest.length) {
    const delta = rest.reduce((sum, term) => sum + term.share, 0);
    rows.push({ key: "fold", kind: "fold", label: `${rest.length} smaller ones`, delta });
  }
  return rows;
}

function summed(rows, about) {
  let running = 0;
  for (const row of rows) {
    row.before = running;
    running = row.delta === null || running === null ? null : running + row.delta;
    row.after = running;
  }
  return { ...about, rows, sum: running, finite: running !== null && about.total !== null };
}

/** Whether there is anything to fold. */
export const folds = (terms) => terms.length > SHOWN + 1;

// The same sum as a table: every part, the running total, the sum, and the model's own log p to compare it with.

/**
 * `chosen(feature)` opens the influence on a feature's weight; `unfold()` shows the smaller ones, or folds them again,
 * where `expanded` is not null.
 */
export function sumTable(parts, { marked, chosen, expanded, unfold, isComparison }) {
  const names = ["part", "weight a", isComparison ? "value Δφ" : "value φ", "share", "running sum"];
  const again = folder("fold the smaller ones", "true", unfold);
  const head = names.map((text, i) => el("th", { scope: "col", class: i ? "number" : null, text }));
  return el(
    "table",
    { class: "sum" },
    el("caption", { text: `${parts.title}, part by part, in nats` }),
    el("thead", {}, el("tr", {}, ...head)),
    el("tbody", {}, ...parts.rows.map((row) => line(row, marked, chosen, unfold))),
    el("tfoot", {}, ...closing(parts, isComparison), expanded ? el("tr", {}, el("td", { colspan: 5 }, again)) : null),
  );
}

function line(row, marked, chosen, unfold) {
  return el(
    "tr",
    { class: row.kind, "data-part": row.key },
    el("th", { scope: "row" }, nameOf(row, marked, chosen, unfold)),
    cell(row.weight === undefined ? "" : plain(row.weight), row.weight),
    cell(row.value === undefined ? "" : plain(row.value), row.value),
    cell(signed(row.delta), row.delta, `share ${row.delta < 0 || row.delta === null ? "lowers" : "raises"}`),
    cell(plain(row.after), row.after, "running"),
  );
}

function nameOf(row, marked, chosen, unfold) {
  if (row.kind === "fold") return folder(row.label, "false", unfold);
  if (!row.feature) return el("span", { text: row.label, ...meaning(row.label) });
  const tip = meaning(row.feature, " Click: which earlier words moved its weight?");
  const pressed = String(row.feature === marked);
  return button(row.label, "text feature", () => chosen(row.feature), { ...tip, "aria-pressed": pressed });
}

function closing(parts, isComparison) {
  const { sum, total, what } = parts;
  const p = total === null ? 0 : Math.exp(total);
  const ratio = p >= 1e6 || p < 1e-3 ? p.toExponential(2) : p.toFixed(3);
  const meaning = isComparison ? `${ratio} times as likely` : `p = ${percent(p)}`;
  const row = (kind, value, ...name) => {
    const head = el("th", { scope: "row", colspan: 4 }, ...name);
    return el("tr", { class: `${kind}-row` }, head, cell(plain(value), value, kind));
  };
  return [
    row("sum", sum, "sum of the parts"),
    row("total", total, `${what} `, el("span", { class: "meaning", text: meaning })),
  ];
}

function folder(text, expanded, unfold) {
  return button(text, "text fold", unfold, { "aria-expanded": expanded });
}

function cell(text, value, kind = "") {
  return el("td", { class: `number ${kind}`.trim(), "data-value": value ?? null, text });
}

// The waterfall: a sum drawn as bars, each starting where the one before it ended. Drawn anew for the width at hand, so
// that its text is never scaled. The table below it has the same numbers; this picture is one image to a screen reader.

const NARROW = 430; // below this width labels stand above their bars
const NUMBERS = 66; // width of the column of numbers
const CHARACTER = 7.3; // about the width of one at this size

/** An SVG of the parts, `width` pixels wide. `chosen(feature)` is called for a click on a feature's row. */
export function waterfall(parts, width, marked, chosen) {
  const narrow = width < NARROW;
  const rows = [...parts.rows, { key: "total", kind: "total", label: parts.what, before: 0, after: parts.total }];
  const longest = 1 + Math.max(...rows.map((row) => row.label.length));
  const labels = narrow ? 0 : Math.min(width * 0.36, Math.max(80, longest * CHARACTER));
  const step = narrow ? 42 : 29;
  const axis = scaleOf(rows, labels + 8, width - NUMBERS - 10);
  const bottom = rows.length * step + 14;
  const named = parts.rows.map((row) => `${row.label} ${signed(row.delta, 3)}`).join(", ");
  const box = { narrow, labels, step, width, axis, bottom };
  return svg(
    "svg",
    { class: "waterfall", role: "img", width, height: bottom + 26, viewBox: `0 0 ${width} ${bottom + 26}` },
    svg("title", { text: `${parts.title} as a sum` }),
    svg("desc", { text: `${named}; together ${plain(parts.total, 3)}. The table below has the same numbers.` }),
    ...grid(box),
    ...rows.map((row, place) => drawn(row, place, rows[place + 1], box, marked, chosen)),
  );
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
    return written("tick", axis.x(value), bottom + 16, "middle", plain(value, axis.decimals));
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
  const sign = row.delta < 0 ? "lowers" : "raises";
  const kind = ["total", "background", "normaliser"].includes(row.kind) ? row.kind : sign;
  const room = Math.floor((narrow ? width - 20 : labels) / CHARACTER);
  const group = svg(
    "g",
    { class: `part ${row.kind}${row.feature ? " feature" : ""}${isMarked ? " marked" : ""}` },
    block("row", 0, top - 3, width, step - 1, 4),
    written("label", narrow ? 2 : labels, top + (narrow ? 11 : 16), narrow ? "start" : "end", shortened(name, room)),
    block(`value ${kind}`, Math.min(from, to), y, Math.max(1.5, Math.abs(to - from)), height, 2),
    written("number", width - 2, y + height - 4, "end", isTotal ? plain(row.after, 3) : signed(row.delta, 3)),
    svg("title", { text: isTotal ? row.label : `${row.label}: ${meaningOf(row.label)}` }),
  );
  if (next && next.kind !== "total") {
    group.append(svg("line", { class: "link", x1: to, x2: to, y1: y + height, y2: y + step }));
  }
  if (row.feature) group.addEventListener("click", () => chosen(row.feature));
  return group;
}

const block = (kind, x, y, width, height, rx) => svg("rect", { class: kind, x, y, width, height, rx });

const written = (kind, x, y, anchor, text) => svg("text", { class: kind, x, y, "text-anchor": anchor, text });

function shortened(text, most) {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, Math.max(1, most - 1)).join("")}…`;
}
