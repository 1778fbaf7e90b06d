// Why this word, or why not that other one: the waterfall, its table, and the choice between the two words' views.

import { button, el, nearButtons, oneStop, say, tell } from "./dom.js";
import { folds, partsOfComparison, partsOfWord, sumTable, waterfall } from "./sum.js";
import { labelOf } from "./words.js";

const TITLE = "Why this word?";

export class Why {
  #title = el("h3", { text: TITLE });
  #views = el("div", { class: "views", role: "group", "aria-label": "what is explained" });
  #picture = el("div", { class: "picture" });
  #table = el("div", { class: "table" });
  #message = el("p", { class: "message", role: "status", hidden: true });
  #lost = el("div", { class: "message lost", role: "status", hidden: true }); // words that the model does not have
  #alike = el("p", { class: "note alike" });
  #settings = { view: "both", marked: "", isFixed: false, lost: [] };
  #expanded = false;
  answer = null; // of /v1/explain
  #width = 0;
  #actions;
  element;
  numbers; // the same as a table, in a box of its own

  /** `search`: a field for other words; `actions`: influence(feature), view(name), release(), choose(word). */
  constructor(search, actions) {
    this.#actions = actions;
    const head = el("div", { class: "head" }, this.#title, this.#views);
    const parts = [head, this.#lost, this.#message, this.#picture, this.#alike, search];
    this.element = el("section", { class: "box why" }, ...parts);
    this.numbers = el("section", { class: "box numbers" }, el("h3", { text: "The sum in numbers" }), this.#table);
    oneStop(this.#table, "tr");
    new ResizeObserver(() => this.#resized()).observe(this.#picture);
  }

  /** An answer of /v1/explain. */
  show(answer) {
    this.answer = answer;
    this.#draw();
  }

  /**
   * `view` of two words; `marked`: the feature whose influence is on show; `isFixed`: whether a word was chosen;
   * `lost`: words that were chosen, and that this model does not have, with those near them.
   */
  settle(settings) {
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return;
    this.#settings = settings;
    this.#showLost(settings.lost);
    if (this.answer) this.#draw();
  }

  #showLost(lost) {
    const lines = lost.map(({ word, near }) => {
      return el("p", {}, `“${word}” is not in the vocabulary.`, ...nearButtons(near, this.#actions.choose));
    });
    this.#lost.replaceChildren(...lines);
    this.#lost.hidden = !lines.length;
  }

  fail(text) {
    this.answer = null;
    say(this.#title, TITLE);
    tell(this.#message, text);
    for (const part of [this.#views, this.#picture, this.#table, this.#alike]) part.replaceChildren();
  }

  /** The terms of all words on show, once each, largest first. */
  get terms() {
    if (!this.answer) return [];
    const { word, rival, comparison } = this.answer;
    const all = [...(comparison?.terms ?? []), ...word.terms, ...(rival?.terms ?? [])];
    return [...new Map(all.map((term) => [term.name, term])).values()];
  }

  /** Which words are explained. */
  get words() {
    return this.answer ? [this.answer.word.word, this.answer.rival?.word ?? ""] : ["", ""];
  }

  get #view() {
    return this.answer.comparison ? this.#settings.view : "word";
  }

  /** The explanation of one word, as the view asks; of two, the first. */
  get #single() {
    return this.#view === "rival" ? this.answer.rival : this.answer.word;
  }

  #parts() {
    const [word, rival] = this.words.map(labelOf);
    if (this.#view === "both") return partsOfComparison(this.answer.comparison, word, rival, this.#expanded);
    return partsOfWord({ ...this.#single, word: labelOf(this.#single.word) }, this.#expanded);
  }

  #draw() {
    const [word, rival] = this.words.map(labelOf);
    const parts = this.#parts();
    const isComparison = this.#view === "both";
    const { terms } = isComparison ? this.answer.comparison : this.#single;
    say(this.#title, rival ? `Why ${word}, and not ${rival}?` : `Why ${word}?`);
    this.#views.replaceChildren(...this.#buttons(word, rival));
    tell(this.#message, forbidden(parts));
    this.#picture.replaceChildren(...this.#drawing(parts));
    const like = this.answer.alike.map((one) => button(labelOf(one), "near", () => this.#actions.choose(one)));
    this.#alike.replaceChildren(...(like.length ? [`Words with the features of ${word}: `, ...like] : []));
    const focused = this.#table.contains(document.activeElement) && document.activeElement.closest("[data-part]");
    const table = sumTable(parts, {
      marked: this.#settings.marked,
      chosen: this.#actions.influence,
      expanded: this.#expanded && folds(terms),
      unfold: () => this.#unfold(),
      isComparison,
    });
    this.#table.replaceChildren(table);
    if (focused) table.querySelector(`[data-part="${CSS.escape(focused.dataset.part)}"] button`)?.focus();
  }

  #resized() {
    const width = Math.floor(this.#picture.clientWidth);
    if (width === this.#width) return;
    this.#width = width;
    if (this.answer) this.#picture.replaceChildren(...this.#drawing(this.#parts()));
  }

  #drawing(parts) {
    if (!parts.finite || this.#width <= 0) return [];
    return [waterfall(parts, this.#width, this.#settings.marked, this.#actions.influence)];
  }

  #unfold() {
    this.#expanded = !this.#expanded;
    this.#draw();
    this.#table.querySelector("button.fold")?.focus();
  }

  #buttons(word, rival) {
    const choice = (text, name) =>
      button(text, null, () => this.#actions.view(name), { "aria-pressed": String(this.#view === name) });
    const choices = rival ? [choice("both", "both"), choice(word, "word"), choice(rival, "rival")] : [];
    const release = button("choose a word for me", null, this.#actions.release);
    return this.#settings.isFixed ? [...choices, release] : choices;
  }
}

/** With whom a word agrees or clashes, in what, and how far back that is. */
export function governed({ word, remarks = [] }) {
  const values = new Map(); // of each governor
  for (const [, text] of remarks) {
    const [, who, value, where] = /^(.*) \((.*)\)(.*)$/.exec(text) ?? ["", text, null, ""];
    const key = JSON.stringify([who, where]);
    values.set(key, new Set([...(values.get(key) ?? []), ...(value === null ? [] : [value])]));
  }
  const told = (said) => (said.size ? ` (${[...said].join(", ")})` : "");
  return [...values].map(([key, said]) => `${labelOf(word)} ${JSON.parse(key).join(told(said))}.`);
}

function forbidden(parts) {
  if (parts.finite) return null;
  const who = parts.forbidden?.length ? ` by ${parts.forbidden.join(", ")}` : "";
  return `No picture: a word is forbidden here${who}. Its log b is minus infinity, its probability 0.`;
}
