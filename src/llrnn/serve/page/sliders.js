// Weights by hand: a_k becomes scale · a_k + offset. A row for each term of the explained word, for whatever was
// changed, and for features found by name. Rows keep their places while a slider moves. On top stands a row for each
// list of terms: it moves all features of the list that have the list's weight.

import { combobox } from "./combobox.js";
import { button, count, el, field, keyed, meaning, plain, say, set, signed } from "./dom.js";
import { featuresLike } from "./lexicon.js";
import { OFFSETS, SCALES } from "./state.js";

const SHOWN = 6;
const OF_LIST = /:(whole|continues|completes)$/;
const KINDS = {
  offset: { ...OFFSETS, usual: 0, step: 0.1, written: (value) => signed(value, 1) },
  scale: { ...SCALES, usual: 1, step: 0.05, written: (value) => `× ${plain(value, 2)}` },
};

export class Sliders {
  #list = el("ul", { class: "sliders" });
  #search = el("input", { type: "text" });
  #all = button("Reset all", null, () => this.#change([], null));
  #found = []; // features searched for, in that order
  #order = []; // the rows
  #about = null; // what the rows are about: a prefix and a word
  #model = null;
  #changes = [];
  #terms = [];
  #change;
  element;

  /** `change(changes, group)` is called with the new list of changes; `group` joins the steps of one drag. */
  constructor(change) {
    this.#change = change;
    const find = field("Find a feature (* stands for anything)", this.#search);
    this.element = el("div", {}, el("div", { class: "tools" }, find, this.#all), this.#list);
    combobox(this.#search, {
      label: "features",
      find: (text) => this.#proposals(text),
      take: (name) => this.#add(name),
    });
  }

  /** `terms` of the explained words: [{ name, weight }]; `about` names prefix and words. */
  show(model, changes, terms, about) {
    if (model !== this.#model) this.#found = [];
    this.#model = model;
    this.#changes = changes;
    this.#terms = terms;
    this.#all.disabled = changes.length === 0;
    const weights = new Map(terms.map((term) => [term.name, term.weight]));
    const largest = terms.slice(0, SHOWN).map((term) => term.name);
    const lists = listsOf(model);
    const offsets = (names) => new Set(names.map((name) => this.#changeOf(name).offset));
    const moved = lists.map(({ features }) => features).filter((names) => offsets(names).size === 1).flat();
    const single = changes.map((one) => one.feature).filter((name) => !moved.includes(name));
    const fresh = [...new Set([...this.#found, ...single, ...largest])];
    const stay = about === this.#about ? this.#order.filter((name) => weights.has(name) || fresh.includes(name)) : [];
    this.#about = about;
    this.#order = [...stay, ...fresh.filter((name) => !stay.includes(name))];
    keyed(
      this.#list,
      [...lists, ...this.#order.map((name) => ({ name, features: [name], weights: [weights.get(name)] }))],
      (row) => `${row.name}\n${row.kind ?? this.#model.contextual.includes(row.name)}`,
      (row) => this.#row(row),
      (element, row) => this.#fill(element, row),
    );
  }

  #row({ name, features, kind = "" }) {
    const reset = button("reset", "reset", () => this.#reset(features), { "aria-label": `reset ${name}` });
    const kinds = this.#model.contextual.includes(name) ? ["offset", "scale"] : ["offset"];
    return el(
      "li",
      { class: `slider ${kind}`.trim() },
      el("span", { class: "name", ...meaning(name) }, el("bdi", { text: name }), el("span", { class: "weight" })),
      ...kinds.map((one) => this.#slider(name, features, one)),
      reset,
    );
  }

  #slider(name, features, kind) {
    const { least, most, step } = KINDS[kind];
    const about = { "aria-label": `${kind} of ${name}`, ...meaning(name) };
    const range = el("input", { type: "range", min: least, max: most, step, ...about });
    range.addEventListener("input", () => this.#moved(features, kind, Number(range.value), name));
    return el("label", { class: `range ${kind}` }, el("span", { text: kind }), range, el("output"));
  }

  #fill(element, { features, weights, kind: what = "" }) {
    const change = this.#changeOf(features[0]);
    const own = what ? weights.map((weight, n) => changed(weight, this.#changeOf(features[n]))) : weights;
    const numbers = [...new Set(own.filter((weight) => weight !== undefined).map((weight) => plain(weight, 3)))];
    say(element.querySelector(".weight"), numbers.length ? `${what} a = ${numbers.join(", ")}`.trim() : "");
    for (const [kind, { written }] of Object.entries(KINDS)) {
      const range = element.querySelector(`.${kind} input`);
      if (range === null) continue;
      if (Number(range.value) !== change[kind]) range.value = String(change[kind]);
      set(range, "aria-valuetext", written(change[kind]));
      element.querySelector(`.${kind} output`).textContent = written(change[kind]);
    }
    const isChanged = this.#changes.includes(change);
    element.classList.toggle("changed", isChanged);
    element.querySelector(".reset").disabled = !isChanged;
  }

  #changeOf(name) {
    return this.#changes.find((one) => one.feature === name) ?? { feature: name, scale: 1, offset: 0 };
  }

  #moved(features, kind, value, name) {
    const byName = new Map(this.#changes.map((one) => [one.feature, one]));
    for (const one of features) byName.set(one, { ...this.#changeOf(one), [kind]: value }); // which keeps its place
    const list = [...byName.values()].filter((one) => one.scale !== 1 || one.offset !== 0);
    this.#change(list, `${kind} of ${name}`);
  }

  #reset(features) {
    const row = [...this.#list.children].find((element) => element.contains(document.activeElement));
    this.#change(this.#changes.filter((one) => !features.includes(one.feature)), null);
    row?.querySelector("input").focus(); // the button is disabled now
  }

  async #proposals(text) {
    if (!text.trim()) return [];
    if (text.includes("*")) return [{ value: text.trim(), note: "all that match" }];
    const { features, matching } = await featuresLike(this.#model, text.trim());
    const notes = features.map((one) => (one.contextual ? "contextual" : one.group));
    if (matching > features.length) notes[features.length - 1] += `, and ${count(matching - features.length)} more`;
    return features.map((one, place) => ({ value: one.name, note: notes[place] }));
  }

  #add(name) {
    this.#search.value = "";
    this.#found = [name, ...this.#found.filter((one) => one !== name)];
    this.#order = [name, ...this.#order.filter((one) => one !== name)];
    this.show(this.#model, this.#changes, this.#terms, this.#about);
    const row = [...this.#list.children].find((element) => element.dataset.key.startsWith(`${name}\n`));
    row?.querySelector("input").focus();
  }
}

const changed = (weight, { scale, offset }) => scale * weight + offset;

/** The lists of a model: the features that have a list's weight, and these weights. */
function listsOf(model) {
  return Object.entries(model?.lists ?? {}).map(([name, weights]) => {
    const features = Object.keys(weights).filter((feature) => OF_LIST.test(feature));
    return { name, features, weights: features.map((feature) => weights[feature]), kind: "list" };
  });
}
