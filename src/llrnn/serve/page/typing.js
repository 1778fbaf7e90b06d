// A text that is typed: before every key the best words that begin with the letters so far, as buttons.
// A click or Tab accepts one, with a space behind it. How many keys that saved is counted.

import { latest } from "./api.js";
import { button, byId, counted, el, percent, say, tell } from "./dom.js";

const SHOWN = 3;

export class Typing {
  #text = byId("typed");
  #box = byId("completions");
  #message = byId("typing-message");
  #questions;
  #query; // () => model, background, changes, condition
  #keys = 0;
  #saved = 0;

  constructor(query, failed) {
    this.#query = query;
    const show = (answer) => this.#show(answer);
    const refused = (error) => failed(error) || tell(this.#message, error.message);
    this.#questions = latest("/v1/complete", show, refused);
    this.#text.addEventListener("input", ({ inputType }) => {
      if (inputType === "insertText") this.#keys += 1;
      this.ask();
    });
    this.#text.addEventListener("keydown", (event) => {
      const first = this.#box.querySelector("button");
      if (event.key !== "Tab" || event.shiftKey || !first || this.#questions.busy()) return;
      event.preventDefault();
      first.click();
    });
  }

  /** The model or its weights have changed: other words may be the best. */
  again() {
    if (this.#text.value) this.ask();
  }

  /** What was typed, under the model and the weights on show. */
  ask() {
    const [letters] = /\S*$/.exec(this.#text.value);
    const prefix = this.#text.value.slice(0, this.#text.value.length - letters.length);
    const query = this.#query();
    if (query) this.#questions.ask({ ...query, prefix, letters, k: SHOWN }, "typing");
  }

  #show({ best, letters }) {
    tell(this.#message, null);
    const accept = (word) => () => {
      const before = this.#text.value.slice(0, this.#text.value.length - letters.length);
      this.#text.value = `${before}${word} `;
      this.#keys += 1;
      this.#saved += word.length - letters.length; // and the space, less the key that accepts it
      this.#text.focus();
      this.ask();
    };
    const offered = best.map(({ word, p, cell }) => {
      const one = button("", null, accept(word), { title: cell ? `not listed: ${cell}` : "accept this word" });
      one.append(el("bdi", { class: "word", text: word }), el("span", { class: "number", text: ` ${percent(p)}` }));
      one.dataset.word = word;
      return one;
    });
    this.#box.replaceChildren(...offered);
    const all = this.#keys + this.#saved;
    say(byId("typing-summary"), all ? `${counted(this.#keys, "key")} typed, ${this.#saved} of ${all} saved.` : "");
  }
}
