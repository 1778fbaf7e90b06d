// The next words as bars, most probable first: each a button that selects the word, with small ones beside it to
// compare it and to append it; then the words asked for by name, and all others in one, so that the shares add up.

import { button, el, keyed, oneStop, percent, set, tell } from "./dom.js";
import { END, labelOf } from "./words.js";

export class Bars {
  #list = el("ol", { class: "bars" });
  #whole = el("div", { class: "whole", "aria-hidden": "true" });
  #actions;
  element = el("div", {}, this.#list, this.#whole);

  /** `actions`: choose(word), compare(word), append(word), strings(cell, seed). */
  constructor(actions) {
    this.#actions = actions;
    oneStop(this.#list);
  }

  /**
   * `marks`: { word, rival }; `before`: p of words without changes, where there are changes; `beside`: p of words under
   * a second model, where there is one.
   */
  show(answer, marks, before, beside) {
    const listed = new Set(answer.top.map((entry) => entry.word));
    const asked = answer.words.filter((entry) => !listed.has(entry.word));
    const entries = [...answer.top, ...asked.map((entry) => ({ ...entry, extra: true }))];
    const apart = entries.filter((entry) => !entry.extra || !entry.cell); // a word of a cell is counted with its cell
    const rest = Math.max(0, answer.total - apart.reduce((sum, entry) => sum + entry.p, 0));
    entries.push({ word: "all other words", p: rest, others: true });
    const named = entries.filter((entry) => !entry.others);
    const longest = Math.max(...named.flatMap(({ word, p }) => [p, beside?.get(word) ?? 0]), 1e-12);
    this.#list.classList.toggle("beside", Boolean(beside));
    this.#showWhole([...apart, entries.at(-1)], marks.word);
    keyed(
      this.#list,
      entries,
      (entry) => (entry.others ? "others" : `${isCell(entry) ? "cell" : "word"}:${entry.word}`),
      (entry) => (entry.others ? this.#others() : isCell(entry) ? this.#cell(entry.word) : this.#bar(entry.word)),
      (element, entry) => {
        fill(element, entry, longest, marks, before?.get(entry.word));
        if (!entry.others) fillSecond(element, entry.word, longest, beside);
      },
    );
  }

  clear() {
    this.#list.replaceChildren();
    this.#whole.replaceChildren();
  }

  /** One strip for all probabilities: it is always as long as their sum, and that is one. */
  #showWhole(entries, chosen) {
    const kindOf = ({ word, others }) => (others ? "others" : word === chosen ? "chosen" : "");
    keyed(
      this.#whole,
      entries.map((entry, place) => ({ p: entry.p, kind: kindOf(entry), place })),
      (piece) => (piece.kind === "others" ? "others" : String(piece.place)),
      () => el("span"),
      (element, { p, kind }) => {
        element.className = kind;
        element.style.flexGrow = String(p);
      },
    );
  }

  #bar(word) {
    const { choose, compare, append } = this.#actions;
    const pick = (event) => (event.shiftKey ? compare(word) : choose(word));
    return el(
      "li",
      { class: "bar" },
      el("button", { type: "button", class: "pick", onclick: pick }, ...inside(labelOf(word))),
      button("vs", "small versus", () => compare(word)),
      button("+", "small append", () => append(word)),
    );
  }

  /** All strings of a kind in one bar, which opens to show some of them. */
  #cell(name) {
    const { strings, choose } = this.#actions;
    const drawn = el("div", { class: "strings", hidden: true });
    const opener = el("button", { type: "button", class: "pick", "aria-expanded": "false" }, ...inside(name));
    const bar = el("li", { class: "bar cell" }, opener, drawn);
    let seed = 0;
    const draw = async () => {
      const found = await strings(name, seed).catch((error) => ({ message: error.message, strings: [] }));
      const note = el("p", { class: "note" });
      const told = found.strings.length ? "Drawn from it; a click explains one:" : "Nothing is left in it.";
      tell(note, found.message ?? told);
      const share = (one) => percent(Number(bar.dataset.p) * one.share);
      const chips = found.strings.map((one) => button(one.word, "near", () => choose(one.word), { title: share(one) }));
      const again = () => {
        seed += 1;
        draw();
      };
      const more = chips.length ? [button("draw others", "text", again)] : [];
      drawn.replaceChildren(note, ...chips, ...more);
    };
    opener.addEventListener("click", () => {
      drawn.hidden = !drawn.hidden;
      set(opener, "aria-expanded", String(!drawn.hidden));
      if (!drawn.hidden && !drawn.childElementCount) draw();
    });
    return bar;
  }

  #others() {
    const share = el("span", { class: "share" }, el("span", { class: "own" }));
    const parts = [el("span", { class: "word", text: "all other words" }), share];
    return el("li", { class: "bar others" }, el("div", { class: "pick" }, ...parts));
  }
}

function inside(label) {
  return [
    el("span", { class: "word" }, el("span", { class: "mark", "aria-hidden": "true" }), el("bdi", { text: label })),
    el("span", { class: "track", "aria-hidden": "true" }, ...["fill", "fill second", "tick"].map((kind) =>
      el("span", { class: kind }))),
    el("span", { class: "share" }, el("span", { class: "own" }), el("span", { class: "second" })),
    el("span", { class: "hidden role" }),
  ];
}

function fill(element, entry, longest, marks, before) {
  const part = (name) => element.querySelector(`.${name}`);
  element.dataset.p = String(entry.p);
  part("own").textContent = percent(entry.p);
  if (entry.others) return;
  if (isCell(entry)) set(part("pick"), "title", title(entry, before));
  part("fill").style.width = `${(100 * entry.p) / longest}%`;
  part("tick").hidden = before === undefined;
  part("tick").style.left = `${Math.min(100, (100 * (before ?? 0)) / longest)}%`;
  if (isCell(entry)) return;
  const isWord = entry.word === marks.word;
  const isRival = entry.word === marks.rival;
  element.classList.toggle("chosen", isWord);
  element.classList.toggle("rival", isRival);
  element.classList.toggle("extra", Boolean(entry.extra));
  part("mark").textContent = isWord ? "●" : isRival ? "○" : "";
  part("role").textContent = isWord ? ", explained" : isRival ? ", compared" : "";
  set(part("pick"), "aria-pressed", String(isWord));
  set(part("pick"), "title", title(entry, before));
  part("versus").hidden = isWord || !marks.word;
  set(part("versus"), "aria-pressed", String(isRival));
  set(part("versus"), "aria-label", `compare ${labelOf(marks.word)} with ${labelOf(entry.word)}`);
  part("append").hidden = entry.word === END;
  set(part("append"), "aria-label", `append ${labelOf(entry.word)}`);
}

function fillSecond(element, word, longest, beside) {
  const p = beside?.get(word);
  element.querySelector(".fill.second").style.width = `${(100 * (p ?? 0)) / longest}%`;
  const rare = beside ? "rare" : "";
  element.querySelector(".share .second").textContent = p === undefined ? rare : percent(p);
}

/** All words of a kind that are not listed, in one bar. */
export const isCell = (entry) => entry.cell && !entry.extra;

function title(entry, before) {
  const now = `p = ${entry.p.toPrecision(6)}${isCell(entry) ? ", of all words of this kind that are not listed" : ""}`;
  return before === undefined ? now : `${now}, without the changes ${before.toPrecision(6)}`;
}
