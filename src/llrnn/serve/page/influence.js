// Which earlier word did it: the words of the prefix and, below each, its features that moved a weight, with numbers.

import { el, meaning, plain, signed } from "./dom.js";
import { labelAt } from "./words.js";

const SHOWN = 5; // features of a word; smaller ones are summed up
const START = -1;
const LITTLE = 0.05; // what moves a weight by less is no reason

/** The words that moved the weight most, up and down: { feature, raises, lowers }, each { label, distance } or null. */
export function decidedBy(answer) {
  const kind = `${answer.feature.split(":")[0]}:`; // words that say something of this kind themselves come first
  const read = byWord(answer).filter(({ position }) => position !== START);
  const own = read.map((word) => ({ ...word, sum: total(word.terms.filter(({ name }) => name.startsWith(kind))) }));
  const words = own.some(({ sum }) => Math.abs(sum) > LITTLE) ? own : read;
  const told = (word) => word && { label: word.label, distance: answer.prefix.length - word.position };
  const [raises, lowers] = [1, -1].map((sign) => told(largest(words.filter(({ sum }) => sign * sum > LITTLE))));
  return { feature: answer.feature, raises, lowers };
}

const total = (terms) => terms.reduce((sum, { share }) => sum + share, 0);

const largest = (words) =>
  words.reduce((best, word) => (Math.abs(word.sum) > Math.abs(best?.sum ?? 0) ? word : best), null);

/** The answer of /v1/influence as a list of words, and a sentence that names the strongest. */
export function influenceView(answer) {
  const words = byWord(answer);
  const strongest = largest(words);
  const scale = Math.max(...words.flatMap((word) => word.terms.map((term) => Math.abs(term.share))), 1e-12);
  return el(
    "div",
    { class: "influence" },
    el(
      "p",
      { class: "lead" },
      "The weight of ",
      bold(answer.feature),
      ` is a = ${plain(answer.weight, 3)} here. `,
      ...(strongest ? ["The word that moved it most: ", bold(strongest.label), ` (${signed(strongest.sum, 3)}).`] : []),
      strongest ? null : "Nothing before it moved it.",
    ),
    el("ol", { class: "moved" }, ...words.map((word) => column(word, scale, word === strongest))),
    el("p", {
      class: "note",
      text: "Gradient times input: the effect of each feature of each word on this weight, to first order.",
    }),
  );
}

const bold = (text) => el("b", {}, el("bdi", { text }));

function byWord({ prefix, terms }) {
  const labels = ["start", ...prefix.map(labelAt)];
  const words = labels.map((label, place) => ({ label, position: place - 1, terms: [], sum: 0 }));
  for (const term of terms) {
    const word = words[term.position + 1];
    if (!word) continue;
    word.terms.push(term);
    word.sum += term.share;
  }
  for (const word of words) word.terms.sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
  return words.filter((word) => word.terms.length || word.position !== START);
}

function column({ label, position, terms, sum }, scale, isStrongest) {
  const most = terms.length === SHOWN + 1 ? SHOWN + 1 : SHOWN;
  const rest = terms.slice(most);
  const rows = terms.slice(0, most).map((term) => row(term.name, term.share, scale));
  if (rest.length) rows.push(row(`${rest.length} others`, total(rest), scale));
  return el(
    "li",
    { class: isStrongest ? "strongest" : null, "data-position": position },
    el("p", { class: "word" }, el("bdi", { text: label }), el("span", { class: "number", text: signed(sum, 3) })),
    el("ul", {}, ...rows),
  );
}

function row(name, share, scale) {
  const found = el(
    "li",
    { class: share < 0 ? "lowers" : "raises", "data-value": share, ...(/others$/.test(name) ? {} : meaning(name)) },
    el("bdi", { text: name }),
    el("span", { class: "number", text: signed(share, 3) }),
  );
  found.style.setProperty("--shade", Math.min(0.3, (0.3 * Math.abs(share)) / scale));
  return found;
}
