// The same sum as a table: every part, the running total, the sum, and the model's own log p to compare it with.

import { el } from "./dom.js";
import { percent, plain, signed } from "./numbers.js";

/**
 * `chosen(feature)` opens the influence on a feature's weight; `unfold()` shows the smaller ones, or folds them again,
 * where `expanded` is not null.
 */
export function sumTable(parts, { marked, chosen, expanded, unfold, isComparison }) {
  const names = ["part", "weight a", isComparison ? "value Δφ" : "value φ", "share", "running sum"];
  const head = names.map((text, i) => el("th", { scope: "col", class: i ? "number" : null, text }));
  return el(
    "table",
    { class: "sum" },
    el("caption", { text: `${parts.title}, part by part, in nats` }),
    el("thead", {}, el("tr", {}, ...head)),
    el("tbody", {}, ...parts.rows.map((row) => line(row, marked, chosen, unfold))),
    el("tfoot", {}, ...closing(parts, isComparison), expanded ? foldAgain(unfold) : null),
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
  if (row.kind === "fold") {
    return folder(row.label, "false", unfold);
  }
  if (!row.feature) return el("span", { text: row.label, title: row.hint });
  return el("button", {
    type: "button",
    class: "text feature",
    "aria-pressed": String(row.feature === marked),
    title: `which earlier words moved the weight of ${row.feature}?`,
    text: row.label,
    onclick: () => chosen(row.feature),
  });
}

function closing(parts, isComparison) {
  const { sum, total, what } = parts;
  const p = total === null ? 0 : Math.exp(total);
  const meaning = isComparison ? `${times(p)} as likely` : `p = ${percent(p)}`;
  return [
    el(
      "tr",
      { class: "sum-row" },
      el("th", { scope: "row", colspan: 4, text: "sum of the parts" }),
      cell(plain(sum), sum, "sum"),
    ),
    el(
      "tr",
      { class: "total-row" },
      el("th", { scope: "row", colspan: 4 }, `${what} `, el("span", { class: "meaning", text: meaning })),
      cell(plain(total), total, "total"),
    ),
  ];
}

function times(ratio) {
  if (ratio >= 1e6 || ratio < 1e-3) return `${ratio.toExponential(2)} times`;
  return `${ratio.toFixed(3)} times`;
}

function foldAgain(unfold) {
  return el("tr", {}, el("td", { colspan: 5 }, folder("fold the smaller ones", "true", unfold)));
}

function folder(text, expanded, unfold) {
  return el("button", { type: "button", class: "text fold", "aria-expanded": expanded, text, onclick: unfold });
}

function cell(text, value, kind = "") {
  return el("td", { class: `number ${kind}`.trim(), "data-value": value ?? null, text });
}
