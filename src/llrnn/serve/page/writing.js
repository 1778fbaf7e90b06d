// What a model writes from the prefix (the paper's Table 5, alive), and how. A model with lists of terms writes twice,
// with the lists and without, and anew as soon as weights are changed.

import { debounced } from "./api.js";
import { byId, counted, say, set, tell } from "./dom.js";
import { conditionOf } from "./lexicon.js";
import { Sentence } from "./sentence.js";
import { store } from "./state.js";

const NUMBERS = ["seed", "temperature", "top_p", "most"]; // fields of the state
const PAUSE = 150; // milliseconds for which a slider rests, before the text is written anew

export class Writing {
  #columns = [
    new Sentence(byId("cards"), byId("writing-summary")),
    new Sentence(byId("cards2"), byId("writing-summary2")),
  ];
  #message = byId("writing-message");
  #shown = null; // the request whose sentence is on show, as text
  #wanted = null; // that request
  #lists = []; // the lists of its model
  #later = debounced(() => this.#write(), PAUSE);
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
    byId("stop").addEventListener("click", () => this.#columns.forEach((column) => column.stop()));
    for (const name of NUMBERS) {
      byId(name).addEventListener("change", ({ target }) => {
        if (target.reportValidity() && target.value !== "") store.change({ [name]: Number(target.value) }, name);
      });
    }
    byId("beam").addEventListener("change", (event) => store.change({ beam: event.target.checked }));
    byId("greedy").addEventListener("change", (event) => store.change({ greedy: event.target.checked }));
  }

  /** `models`: the one or two on show. */
  show(state, models) {
    for (const name of NUMBERS) byId(name).value = state[name];
    const there = models.filter(Boolean);
    const isSearched = state.beam && conditionOf(state, there[0]).trim() !== "";
    byId("beam-field").hidden = there.every(({ conditions }) => conditions === "none");
    byId("beam").checked = state.beam;
    byId("seed").disabled = byId("greedy").disabled = isSearched;
    byId("temperature").disabled = byId("top_p").disabled = state.greedy || isSearched;
    byId("greedy").checked = state.greedy;
    const most = state.top_p < 1 ? `, top p ${state.top_p}` : "";
    const drawn = state.greedy ? "always the best word" : `seed ${state.seed}, temperature ${state.temperature}${most}`;
    const way = isSearched ? "beam search, fewest values left out" : drawn;
    say(byId("how-now"), `${way}, ${counted(state.most, "word")} at most`);
    byId("writing").hidden = state.written === null;
    this.#want(state, there);
    this.#mark(state);
  }

  /** A token was given: what failed for want of one is tried again. */
  again() {
    this.#shown = null;
  }

  /** What was asked for; of a model with lists, with the weights of now. */
  #want(state, models) {
    const { written } = state;
    const { lists = {} } = models.find(({ name }) => name === written?.model) ?? {};
    const { model, changes } = this.#request(state);
    const isAnew = Object.keys(lists).length > 0 && model === written.model;
    this.#wanted = isAnew ? { ...written, changes } : written;
    this.#lists = lists;
    const text = JSON.stringify(this.#wanted);
    if (written === null) this.#clear();
    else if (text !== this.#shown) {
      this.#shown = text;
      if (text === JSON.stringify(written)) this.#later.now();
      else this.#later();
    }
  }

  #clear() {
    this.#shown = null;
    this.#columns.forEach((column) => column.clear());
    this.#busy(false);
    tell(this.#message, null);
  }

  /** Both columns at once; what was written before is dropped. */
  async #write() {
    if (this.#wanted === null) return; // by now
    const [text, names] = [this.#shown, Object.keys(this.#lists)];
    const requests = names.length ? [this.#wanted, without(this.#wanted, this.#lists)] : [this.#wanted];
    tell(this.#message, null);
    this.#busy(true);
    for (const part of ["with", "without", "column2"]) byId(part).hidden = !names.length;
    say(byId("with"), `With ${names.join(", ")}`);
    say(byId("without"), `Without ${names.join(", ")}`);
    this.#columns[1].clear();
    const failed = (error) => this.#failed(error) || tell(this.#message, error.message);
    await Promise.all(requests.map((request, place) => this.#columns[place].write(request, failed)));
    if (text === this.#shown) this.#busy(false);
  }

  #busy(busy) {
    byId("write").disabled = busy;
    byId("stop").disabled = !busy;
  }

  /** The card of the word that is explained now, and whether the sentence was written under other settings. */
  #mark(state) {
    const place = this.#request(state).prefix.length; // in the words that the server has read
    for (const card of byId("cards").querySelectorAll(".card")) {
      const isHere = Number(card.dataset.place) === place && card.dataset.word === state.word;
      set(card.querySelector("button"), "aria-pressed", String(isHere));
    }
    const others = (request) => JSON.stringify({ ...request, prefix: [] });
    const differs = state.written !== null && others(this.#request(state)) !== others(this.#wanted);
    byId("writing-stale").hidden = !differs;
  }
}

/** The same request with all weights of lists at 0. */
function without(request, lists) {
  const names = Object.values(lists).flatMap((weights) => Object.keys(weights));
  return { ...request, changes: [...request.changes, ...names.map((feature) => ({ feature, scale: 0, offset: 0 }))] };
}
