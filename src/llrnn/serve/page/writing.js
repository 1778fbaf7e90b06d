// A sentence, written word by word from the prefix, each word with its features below it (the paper's Table 5, alive).
// A click on a word goes to its place: the words before it become the prefix, and the word is explained.

import { stream } from "./api.js";
import { END, labelOf } from "./bars.js";
import { button, byId, counted, el, percent, plain, say, set, tell } from "./dom.js";
import { store } from "./state.js";

const NUMBERS = ["seed", "temperature", "most"]; // fields of the state

export class Writing {
  #cards = byId("cards");
  #message = byId("writing-message");
  #summary = byId("writing-summary");
  #flight = null;
  #shown = null; // the request whose sentence is on show, as text
  #words = [];
  #log = 0; // their log p
  #request; // (state) => what would be sent
  #failed; // (error) => whether someone else has dealt with it

  constructor(request, failed) {
    this.#request = request;
    this.#failed = failed;
    byId("writing-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#shown = null; // write again, also what was written before
      store.change({ written: this.#request(store.state) });
    });
    byId("stop").addEventListener("click", () => this.#flight?.abort());
    for (const name of NUMBERS) {
      byId(name).addEventListener("change", ({ target }) => {
        if (target.reportValidity() && target.value !== "") store.change({ [name]: Number(target.value) }, name);
      });
    }
    byId("greedy").addEventListener("change", (event) => store.change({ greedy: event.target.checked }));
    byId("writer").addEventListener("change", (event) => store.change({ writer: Number(event.target.value) }));
  }

  /** `models`: the one or two on show. */
  show(state, models) {
    for (const name of NUMBERS) byId(name).value = state[name];
    byId("temperature").disabled = state.greedy;
    byId("greedy").checked = state.greedy;
    const there = models.filter(Boolean);
    byId("writer").replaceChildren(...there.map(({ name }, place) => el("option", { value: place, text: name })));
    byId("writer").value = String(Math.min(state.writer, there.length - 1));
    byId("writer-field").hidden = there.length < 2;
    const way = state.greedy ? "always the best word" : `seed ${state.seed}, temperature ${state.temperature}`;
    say(byId("how-now"), `${way}, ${counted(state.most, "word")} at most`);
    byId("writing").hidden = state.written === null;
    const text = JSON.stringify(state.written);
    if (state.written === null) this.#clear();
    else if (text !== this.#shown) this.#write(state.written, text);
    this.#mark(state);
  }

  /** A token was given: what failed for want of one is tried again. */
  again() {
    this.#shown = null;
  }

  #clear() {
    this.#flight?.abort();
    this.#flight = this.#shown = null;
    this.#busy(false);
    this.#words = [];
    this.#log = 0;
    this.#cards.replaceChildren();
    say(this.#summary, "");
    tell(this.#message, null);
  }

  async #write(request, text) {
    this.#clear();
    this.#shown = text;
    const flight = (this.#flight = new AbortController());
    this.#busy(true);
    const given = (word) => el("li", { class: "given" }, el("bdi", { class: "word", text: word }));
    this.#cards.append(...request.prefix.map(given));
    try {
      await stream("/v1/generate", request, flight.signal, (name, data) => {
        if (this.#flight === flight) this.#event(name, data, request);
      });
    } catch (error) {
      if (this.#flight === flight) this.#ended(error, flight);
    }
    if (this.#flight === flight) {
      this.#flight = null;
      this.#busy(false);
    }
  }

  #ended(error, flight) {
    if (flight.signal.aborted) say(this.#summary, `Stopped after ${counted(this.#words.length, "word")}.`);
    else if (!this.#failed(error)) tell(this.#message, error.message);
  }

  #event(name, data, request) {
    if (name === "word") this.#card(data, request);
    else if (name === "error") tell(this.#message, data.message);
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
    const go = () => store.change({ prefix: before.join(" "), word: data.word, rival: "", view: "both" });
    const opener = button("", null, go, { title: "why this word here?" });
    opener.append(el("bdi", { class: "word", text: labelOf(data.word) }));
    opener.append(el("span", { class: "number", text: percent(data.p) }));
    const names = data.cell ? [data.cell, ...data.features] : data.features;
    const features = el("ul", { class: "features" }, ...names.map((name) => el("li", {}, el("bdi", { text: name }))));
    const about = { "data-p": data.p, "data-place": before.length, "data-word": data.word };
    this.#cards.append(el("li", { class: "card", ...about }, opener, features));
  }

  #busy(busy) {
    byId("write").disabled = busy;
    byId("stop").disabled = !busy;
    set(this.#cards, "aria-busy", String(busy));
  }

  /** The card of the word that is explained now, and whether the sentence was written under other settings. */
  #mark(state) {
    const place = this.#request(state).prefix.length; // in the words that the server has read
    for (const card of this.#cards.querySelectorAll(".card")) {
      const isHere = Number(card.dataset.place) === place && card.dataset.word === state.word;
      set(card.querySelector("button"), "aria-pressed", String(isHere));
    }
    const others = (request) => JSON.stringify({ ...request, prefix: [] });
    const differs = state.written !== null && others(this.#request(state)) !== others(state.written);
    byId("writing-stale").hidden = !differs;
  }
}
