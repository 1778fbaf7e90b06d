// A sentence in a column of its own, written word by word, each word on a card with its features below it. A click on
// a card goes to its place: the words before it become the prefix, and the word is explained.

import { stream } from "./api.js";
import { button, counted, el, meaning, oneStop, percent, plain, say, set } from "./dom.js";
import { store } from "./state.js";
import { END, labelAt, textOfWords } from "./words.js";

const HELPS = /^terms:boundary$|:(starts|opens)( all)?$/; // what features of lists are computed from

export class Sentence {
  #cards;
  #summary;
  #flight = null;
  #words = [];
  #log = 0; // their log p

  /** `cards`: the list that is filled; `summary`: a line below it. */
  constructor(cards, summary) {
    this.#cards = cards;
    this.#summary = summary;
    oneStop(cards);
  }

  clear() {
    this.stop();
    this.#flight = null;
    this.#words = [];
    this.#log = 0;
    this.#cards.replaceChildren();
    say(this.#summary, "");
  }

  stop() {
    this.#flight?.abort();
  }

  /** Write what a request asks for; `tell(error)` is called where that fails. A later one ends it. */
  async write(request, tell) {
    this.clear();
    const flight = (this.#flight = new AbortController());
    set(this.#cards, "aria-busy", "true");
    const given = (word, n) => el("li", { class: "given" }, el("bdi", { class: "word", text: labelAt(word, n) }));
    this.#cards.append(...request.prefix.map(given));
    try {
      await stream("/v1/generate", request, flight.signal, (name, data) => {
        if (this.#flight === flight) this.#event(name, data, request, tell);
      });
    } catch (error) {
      if (this.#flight !== flight) return;
      if (flight.signal.aborted) say(this.#summary, `Stopped after ${counted(this.#words.length, "word")}.`);
      else tell(error);
    }
    if (this.#flight === flight) set(this.#cards, "aria-busy", "false");
  }

  #event(name, data, request, tell) {
    if (name === "word") this.#card(data, request);
    else if (name === "error") tell(data);
    else if (name === "done") {
      if (data.finished) this.#end(data.log_prob, request);
      const end = data.finished ? "and the end of the sentence" : "and no end yet";
      const who = `${request.model} wrote ${counted(data.words.length, "word")} ${end}`;
      say(this.#summary, `${who}: log p = ${plain(data.log_prob, 3)}.`);
    }
  }

  /** The end has no event of its own: its log p is what is left of the whole. */
  #end(total, request) {
    const p = Math.exp(Math.min(0, total - this.#log));
    this.#card({ word: END, p, log_p: 0, features: [], cell: null }, request);
  }

  #card(data, request) {
    const before = [...request.prefix, ...this.#words];
    this.#words.push(data.word);
    this.#log += data.log_p;
    const go = () => store.change({ prefix: textOfWords(before), word: data.word, rival: "", view: "both" });
    const opener = button("", null, go, { title: "why this word here?" });
    opener.append(el("bdi", { class: "word", text: labelAt(data.word, before.length) }));
    opener.append(el("span", { class: "number", text: percent(data.p) }));
    const names = [data.cell, ...data.features].filter((name) => name && !HELPS.test(name));
    const items = names.map((name) => el("li", meaning(name), el("bdi", { text: name })));
    const features = el("ul", { class: "features" }, ...items);
    const about = { "data-p": data.p, "data-place": before.length, "data-word": data.word };
    this.#cards.append(el("li", { class: "card", ...about }, opener, names.length ? features : null));
  }
}
