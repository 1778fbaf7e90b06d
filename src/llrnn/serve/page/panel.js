// One model's view of the prefix: the next words, why the chosen one, its weights by hand, and which words moved them.

import { latest } from "./api.js";
import { Bars, isCell } from "./bars.js";
import { wordField } from "./combobox.js";
import { el, freshId, nearButtons, percent, plain, say, set, tell } from "./dom.js";
import { influenceView } from "./influence.js";
import { queryOf, stringsOf, wantsCondition } from "./lexicon.js";
import { Sliders } from "./sliders.js";
import { store } from "./state.js";
import { Why } from "./why.js";
import { labelOf } from "./words.js";

const TOP = 12;
const NOTHING = { word: "", rival: "", view: "both" }; // no word is chosen
const BEFORE = 100; // words whose probability without the changes is kept, to mark it on the bars
const LEGEND = "The marks on the bars show the probabilities without the changes.";
const HINT = "Choose a feature in the sum to see which earlier words moved its weight.";

export class Panel {
  #index;
  #shared; // failed(error): whether it was dealt with; refused(error); announce(index, text); replace; append
  #heading = el("h2", { id: freshId("model") });
  #facts = el("p", { class: "facts" });
  #message = el("p", { class: "message", role: "alert", hidden: true });
  #left = el("div", { class: "message left", role: "status", hidden: true }); // words before that it does not have
  #totals = [el("output", { class: "total" }), el("output", { class: "total" })];
  #entropy = el("span");
  #effect = el("output", { class: "total" }); // p of the explained words, beside the sliders
  #legend = el("p", { class: "note legend", text: LEGEND });
  #influence = el("div");
  #bars = new Bars({
    choose: (word) => store.change({ ...NOTHING, word }),
    compare: (word) => this.#compare(word),
    append: (word) => this.#shared.append(word),
    strings: (cell, seed) => stringsOf(this.#model, cell, seed),
  });
  #why = new Why(wordField(() => this.#model, (word) => store.change({ ...NOTHING, word })), {
    influence: (feature) =>
      store.changeSide(this.#index, { influence: feature === this.#side.influence ? "" : feature }),
    view: (view) => store.change({ view }),
    release: () => store.change(NOTHING),
    choose: (word) => store.change({ ...NOTHING, word }),
  });
  #sliders = new Sliders((changes, group) => this.#steer(changes, group));
  #asked = {
    next: latest("/v1/next", (answer) => this.#showNext(answer), (error) => this.#fail(error)),
    before: latest("/v1/next", (answer) => this.#showBefore(answer), () => {}),
    why: latest("/v1/explain", (answer) => this.#showWhy(answer), (error) => this.#why.fail(this.#reason(error))),
    moved: latest("/v1/influence", (answer) => this.#showMoved(influenceView(answer)), (error) => {
      const text = this.#reason(error);
      this.#showMoved(...(text ? [el("p", { class: "message", text })] : []));
    }),
  };
  #model = null;
  #query = null;
  #view = null; // what answers are about: all of the query but the changes
  #marks = { word: "", rival: "", lost: [] };
  #answer = null; // the last of /v1/next, and its view
  #before = null; // p of words without the changes
  element = this.#built();

  constructor(index, shared) {
    this.#index = index;
    this.#shared = shared;
  }

  /** `read`: the prefix and the chosen words, as far as this model knows them. */
  show(state, model, read) {
    const query = queryOf(state, this.#index, model, read.words);
    const view = JSON.stringify({ ...query, changes: null });
    if (view !== this.#view) this.#before = null;
    this.#model = model;
    this.#query = query;
    this.#view = view;
    this.#marks = read;
    say(this.#heading, model.name);
    say(this.#facts, model.about);
    this.#showLeft(read.left);
    const { word, lost } = read;
    this.#why.settle({ view: state.view, marked: this.#side.influence, isFixed: Boolean(word), lost });
    if (wantsCondition(state, model)) this.#fail(new Error("This model writes from a condition: give one above."));
    else this.#ask();
  }

  /** Ask everything again: a token was given. */
  forget() {
    for (const one of Object.values(this.#asked)) one.forget();
  }

  get #side() {
    return store.state.sides[this.#index];
  }

  #ask() {
    const words = [this.#marks.word, this.#marks.rival].filter(Boolean);
    this.#asked.next.ask({ ...this.#query, top: TOP, words }, this.#view);
    const unchanged = { ...this.#query, changes: [], top: BEFORE, words };
    if (this.#query.changes.length) this.#asked.before.ask(unchanged, this.#view);
    set(this.element, "aria-busy", String(this.#asked.next.busy()));
    this.#askWhy();
    const feature = this.#side.influence;
    if (feature) this.#asked.moved.ask({ ...this.#query, feature }, `${this.#view} ${feature}`);
    else {
      this.#asked.moved.forget();
      this.#showMoved(el("p", { class: "note", text: HINT }));
    }
    this.#redraw();
  }

  /** Which words before are left out, and what is near them. */
  #showLeft(left) {
    const lines = left.map(({ word, near }) => {
      const take = (one) => this.#shared.replace(word, one);
      const said = `“${word}” is no word of this model, and is left out below.`;
      return el("p", {}, said, ...(near.length ? [" Near it: ", ...nearButtons(near, take)] : []));
    });
    this.#left.replaceChildren(...lines);
    this.#left.hidden = !lines.length;
  }

  /** The word to explain: the chosen one, or else a telling one. Of another prefix nothing is known yet. */
  get #best() {
    const { top, telling } = this.#answer?.view === this.#view ? this.#answer : { top: [], telling: null };
    return this.#marks.word || telling || top.find((entry) => !isCell(entry))?.word || "";
  }

  #askWhy() {
    if (!this.#best) return;
    const rival = this.#marks.rival || null;
    this.#asked.why.ask({ ...this.#query, word: this.#best, rival }, `${this.#view} ${this.#best} ${rival}`);
  }

  #showNext(answer) {
    this.#answer = { ...answer, view: this.#view };
    tell(this.#message, null);
    this.element.classList.remove("failed");
    this.#askWhy();
    this.#redraw();
    set(this.element, "aria-busy", "false");
    const best = answer.top.slice(0, 3).map((entry) => `${labelOf(entry.word)} ${(100 * entry.p).toFixed(1)} %`);
    this.#shared.announce(this.#index, `${this.#model.name}, next word: ${best.join(", ")}.`);
  }

  #showBefore(answer) {
    this.#before = probabilities(answer);
    this.#redraw();
  }

  #redraw() {
    if (this.#answer?.view !== this.#view) return;
    const { total, log_z, entropy } = this.#answer;
    const marks = { word: this.#best, rival: this.#marks.rival };
    this.#bars.show(this.#answer, marks, this.#query.changes.length ? this.#before : null);
    for (const output of this.#totals) say(output, `sum of all probabilities: ${plain(total, 6)}`);
    say(this.#entropy, `entropy ${plain(entropy, 3)} nats · log Z ${plain(log_z, 3)}`);
    say(this.#effect, this.#shares(marks));
    this.#legend.hidden = !this.#query.changes.length;
    this.#redrawSliders();
  }

  #shares({ word, rival }) {
    const found = probabilities(this.#answer);
    const named = [word, rival].filter((one) => found.has(one));
    return named.map((one) => `p(${labelOf(one)}) = ${percent(found.get(one))}`).join(", ");
  }

  #redrawSliders() {
    this.#sliders.show(this.#model, this.#query.changes, this.#why.terms, `${this.#view} ${this.#why.words}`);
  }

  #showWhy(answer) {
    this.#why.show(answer);
    this.#redrawSliders();
  }

  #showMoved(...parts) {
    this.#influence.replaceChildren(...parts);
  }

  #fail(error) {
    set(this.element, "aria-busy", "false");
    if (this.#shared.failed(error)) return;
    this.#answer = null;
    this.#shared.refused(error);
    this.element.classList.add("failed");
    this.#empty();
    tell(this.#message, error.message);
  }

  #empty() {
    this.#bars.clear();
    for (const output of [...this.#totals, this.#entropy, this.#effect]) say(output, "");
    this.#why.fail(null);
    this.#asked.why.forget();
    this.#redrawSliders(); // a change that cannot be made can be taken back
  }

  /** Why a part of the panel is empty; null where that is told elsewhere. */
  #reason(error) {
    return this.element.classList.contains("failed") || this.#shared.failed(error) ? null : error.message;
  }

  /** A second word beside the explained one; the same again takes it away. */
  #compare(rival) {
    if (rival === this.#best) return;
    store.change({ word: this.#best, rival: rival === this.#marks.rival ? "" : rival, view: "both" });
  }

  /** Changes of weights hold on to the word that is explained: another may become the most probable one. */
  #steer(changes, group) {
    store.changeSide(this.#index, { changes }, group, { word: store.state.word || this.#best });
  }

  #built() {
    const box = (kind, title, ...parts) => el("section", { class: `box ${kind}` }, el("h3", { text: title }), ...parts);
    const [total, changed] = this.#totals;
    const sums = el("p", { class: "sums" }, total, this.#entropy);
    const next = box("next", "What comes next", this.#bars.element, sums, this.#legend);
    const effect = el("p", { class: "sums" }, this.#effect, changed);
    const steering = box("steering", "Weights by hand", effect, this.#sliders.element);
    const influence = box("moves", "Which words moved a weight", this.#influence);
    const head = el("div", { class: "panel-head" }, this.#heading, this.#facts);
    const reasons = el("div", { class: "reasons" }, this.#why.element, influence);
    const body = el("div", { class: "panel-body" }, next, reasons, steering);
    const parts = [head, this.#left, this.#message, body];
    return el("section", { class: "panel", "aria-labelledby": this.#heading.id }, ...parts);
  }
}

const probabilities = ({ top, words }) => new Map([...top, ...words].map((entry) => [entry.word, entry.p]));
