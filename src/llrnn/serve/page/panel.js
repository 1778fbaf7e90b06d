// What a model says of the prefix: the next words, beside those of a second model, why the chosen one, its weights by
// hand, and which words moved them.

import { latest } from "./api.js";
import { Bars, isCell } from "./bars.js";
import { wordField } from "./combobox.js";
import { showCode } from "./code.js";
import { el, freshId, nearButtons, percent, plain, say, set, tell } from "./dom.js";
import { decidedBy, influenceView } from "./influence.js";
import { queryOf, stringsOf, wantsCondition } from "./lexicon.js";
import { Sliders } from "./sliders.js";
import { store } from "./state.js";
import { governed, Why } from "./why.js";
import { labelOf } from "./words.js";

const TOP = 12;
const NOTHING = { word: "", rival: "", view: "both" }; // no word is chosen
const BEFORE = 100; // words whose probability without the changes is kept, to mark it on the bars
const LEGEND = "The marks on the bars show the probabilities without the changes.";
const HINT = "Choose a feature in the sum to see which earlier words moved its weight.";
const NOTHING_KNOWN = "Nothing of this text is known to the model: below is how a sentence starts.";
const FIRST = 3; // words of the second model that are always shown

export class Panel {
  #shared; // failed(error): whether it was dealt with; refused(error); announce(text); replace; append
  #heading = el("h2", { id: freshId("model") });
  #facts = el("p", { class: "facts" });
  #verdict = el("p", { class: "verdict", role: "status" });
  #names = el("p", { class: "names" }, el("span", { class: "key sum" }), el("span", { class: "key twin" }));
  #message = el("p", { class: "message", role: "alert", hidden: true });
  #left = el("div", { class: "message left", role: "status", hidden: true }); // words before that it does not have
  #total = el("output", { class: "total" });
  #entropy = el("span");
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
      store.changeSide(0, { influence: feature === this.#side.influence ? "" : feature }),
    view: (view) => store.change({ view }),
    release: () => store.change(NOTHING),
    choose: (word) => store.change({ ...NOTHING, word }),
  });
  #sliders = new Sliders((changes, group) => this.#steer(changes, group));
  #asked = {
    next: latest("/v1/next", (answer) => this.#showNext(answer), (error) => this.#fail(error)),
    before: latest("/v1/next", (answer) => this.#showBefore(answer), () => {}),
    beside: latest("/v1/next", (answer) => this.#showBeside(answer), () => this.#showBeside(null)),
    why: latest("/v1/explain", (answer) => this.#showWhy(answer), (error) => this.#why.fail(this.#reason(error))),
    moved: latest("/v1/influence", (answer) => this.#showInfluence(answer), (error) => {
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
  #other = null; // the second model, and what it is asked
  #beside = null; // its answer
  #decided = null; // the words that moved the marked weight most
  element = this.#built();

  constructor(shared) {
    this.#shared = shared;
  }

  /**
   * `read`: the prefix and the chosen words, as far as this model knows them; `second`: { model, query, words },
   * another model that is asked the same, and which of the chosen words it has; or null.
   */
  show(state, model, read, second) {
    const query = queryOf(state, 0, model, read.words);
    const view = JSON.stringify({ ...query, changes: null });
    if (view !== this.#view) this.#before = null;
    this.#model = model;
    this.#query = query;
    this.#view = view;
    this.#marks = read;
    this.#other = second;
    this.#beside = second && this.#beside?.model === second.model.name ? this.#beside : null;
    say(this.#heading, second ? `${model.name} and ${second.model.name}` : model.name);
    say(this.#facts, model.about);
    this.#names.hidden = !second;
    if (second) [model, second.model].forEach(({ name }, place) => say(this.#names.children[place], name));
    this.#showLeft(read);
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
    return store.state.sides[0];
  }

  #ask() {
    const words = [this.#marks.word, this.#marks.rival].filter(Boolean);
    const [other, top] = [this.#other, this.#other ? BEFORE : TOP]; // so that each is found in the other's answer
    this.#asked.next.ask({ ...this.#query, top, words }, this.#view);
    if (other) this.#asked.beside.ask({ ...other.query, top, words: other.words }, JSON.stringify(other.query));
    else this.#asked.beside.forget();
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

  /** Which words before are left out, or read by their letters alone, and what is near them. */
  #showLeft({ left, spelled, words }) {
    const line = (said) => ({ word, near }) => {
      const take = (one) => this.#shared.replace(word, one);
      return el("p", {}, `“${word}” is not in the vocabulary${said}`, ...nearButtons(near, take));
    };
    const lines = [...left.map(line(", and is left out below.")), ...spelled.map(line("; its letters are read."))];
    if (left.length && !words.length) lines.push(el("p", { text: NOTHING_KNOWN }));
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
    this.#shared.announce(`${this.#model.name}, next word: ${best.join(", ")}.`);
  }

  #showBefore(answer) {
    this.#before = probabilities(answer);
    this.#redraw();
  }

  #showBeside(answer) {
    this.#beside = answer;
    this.#redraw();
  }

  /** The answer as far as it is shown: the most probable words, those asked for, and the best of the second model. */
  #shown() {
    const top = this.#answer.top.slice(0, TOP);
    const best = new Set((this.#beside?.top ?? []).slice(0, FIRST).map(({ word }) => word));
    const others = this.#answer.top.slice(TOP).filter((one) => best.has(one.word) && !one.cell);
    const asked = this.#answer.words.filter(({ word }) => !others.some((one) => one.word === word));
    return { ...this.#answer, top, words: [...asked, ...others] };
  }

  #redraw() {
    if (this.#answer?.view !== this.#view) return;
    const { total, log_z, entropy } = this.#answer;
    const marks = { word: this.#best, rival: this.#marks.rival };
    const beside = this.#beside && probabilities(this.#beside);
    this.#bars.show(this.#shown(), marks, this.#query.changes.length ? this.#before : null, beside);
    this.#showVerdict(beside);
    showCode(this.#query, marks.word, marks.rival);
    say(this.#total, `sum of all probabilities: ${plain(total, 6)}`);
    say(this.#entropy, `entropy ${plain(entropy, 3)} nats · log Z ${plain(log_z, 3)}`);
    this.#legend.hidden = !this.#query.changes.length;
    this.#redrawSliders();
  }

  /** In a sentence: what is more likely, what the second model takes, and which words before decide. */
  #showVerdict(beside) {
    const parts = [];
    const { word, rival, comparison } = this.#why.answer ?? {};
    if (comparison?.log_ratio) {
      const [first, second] = (comparison.log_ratio > 0 ? [word, rival] : [rival, word]).map((one) => one.word);
      const ratio = Math.exp(Math.abs(comparison.log_ratio));
      const times = ratio < 1e6 ? `${plain(ratio, 1)} times as likely as` : "possible, unlike";
      parts.push(strong(labelOf(first)), ` is ${times} ${labelOf(second)}.`);
      const [p, q] = [first, second].map((one) => beside?.get(one));
      if (q > p) parts.push(` ${this.#other.model.name} takes `, strong(labelOf(second)), " instead.");
      else if (p > q) parts.push(` So it is for ${this.#other.model.name}.`);
    }
    const told = [word, rival].filter(Boolean).flatMap(governed);
    parts.push(...told.map((text) => ` ${text}`));
    const { feature, raises, lowers } = told.length ? {} : (this.#decided ?? {});
    const place = ({ distance }) => (distance > 1 ? `, ${distance} words before,` : "");
    if (raises) parts.push(" ", strong(raises.label), `${place(raises)} speaks for ${feature}`);
    if (raises && lowers) parts.push(", ", strong(lowers.label), `${place(lowers)} against it`);
    if (raises) parts.push(".");
    if (word && this.#query.new_words?.includes(word.word)) {
      const p = percent(Math.exp(word.log_p));
      parts.unshift(strong(labelOf(word.word)), ` was added: its probability here is ${p}. `);
    }
    const key = parts.map((part) => part.textContent ?? part).join("");
    if (this.#verdict.textContent !== key) this.#verdict.replaceChildren(...parts);
  }

  #showInfluence(answer) {
    this.#showMoved(influenceView(answer));
    this.#decided = decidedBy(answer);
    this.#redraw();
  }

  #redrawSliders() {
    this.#sliders.show(this.#model, this.#query.changes, this.#why.terms, `${this.#view} ${this.#why.words}`);
  }

  #showWhy(answer) {
    this.#why.show(answer);
    this.#redraw();
    this.#redrawSliders();
  }

  #showMoved(...parts) {
    this.#decided = null;
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
    this.#verdict.replaceChildren();
    for (const output of [this.#total, this.#entropy]) say(output, "");
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
    store.changeSide(0, { changes }, group, { word: store.state.word || this.#best });
  }

  #built() {
    const box = (kind, title, ...parts) => el("section", { class: `box ${kind}` }, el("h3", { text: title }), ...parts);
    const sums = el("p", { class: "sums" }, this.#total, this.#entropy);
    const next = box("next", "What comes next", this.#names, this.#bars.element, sums, this.#legend);
    const steering = box("steering", "Weights by hand", this.#sliders.element);
    const influence = box("moves", "Which words moved a weight", this.#influence);
    const head = el("div", { class: "panel-head" }, this.#heading, this.#facts);
    const desk = el("div", { class: "desk" }, next, steering);
    const body = el("div", { class: "panel-body" }, desk, this.#why.element, influence, this.#why.numbers);
    const parts = [this.#left, this.#message, this.#verdict, body, head];
    return el("section", { class: "panel", "aria-labelledby": this.#heading.id }, ...parts);
  }
}

const strong = (text) => el("b", {}, el("bdi", { text }));

const probabilities = ({ top, words }) => new Map([...top, ...words].map((entry) => [entry.word, entry.p]));
