// The state of the page, all of it in the link: `#prefix=la+maison+est&word=grande&change=1,0.5,Gender:Fem`.
// Whoever opens the link sees the same numbers; back and forward go through the steps.

import { debounced } from "./api.js";

export const OFFSETS = { least: -5, most: 5 };
export const SCALES = { least: -1, most: 3 };

const side = (given = {}) => ({ model: "", background: "own", changes: [], influence: "", ...given });

const DEFAULTS = {
  prefix: null, // null: nothing was said yet, and the model's own example is shown
  condition: "",
  word: "", // "": the most probable word is explained
  rival: "",
  view: "both", // of two words: "both", "word" or "rival"
  seed: 0,
  temperature: 1,
  greedy: false,
  most: 40, // words to write
  writer: 0, // which of the two models writes
  written: null, // the request that wrote the sentence on show
};

const blank = () => ({ ...DEFAULTS, sides: [side(), side()] });

/** The state as the part of a link after `#`. */
function encoded(state) {
  const fields = new URLSearchParams();
  const put = (name, value, usual) => value !== usual && fields.append(name, String(value));
  for (const name of ["prefix", "condition", "word", "rival", "view", "seed", "temperature", "most", "writer"]) {
    put(name, state[name], DEFAULTS[name]);
  }
  if (state.greedy) fields.append("greedy", "1");
  state.sides.forEach((one, index) => {
    const suffix = index ? "2" : "";
    put(`model${suffix}`, one.model, "");
    put(`background${suffix}`, one.background, "own");
    for (const { feature, scale, offset } of one.changes) {
      fields.append(`change${suffix}`, `${scale},${offset},${feature}`);
    }
    put(`influence${suffix}`, one.influence, "");
  });
  if (state.written) fields.append("written", JSON.stringify(state.written));
  return fields.toString();
}

/** And back. Links come from anywhere: what is no sensible value is left out. */
function decoded(text) {
  const fields = new URLSearchParams(text);
  const state = blank();
  for (const name of ["prefix", "condition", "word", "rival"]) state[name] = fields.get(name) ?? state[name];
  if (["word", "rival"].includes(fields.get("view"))) state.view = fields.get("view");
  state.seed = number(fields.get("seed"), 0, Number.MAX_SAFE_INTEGER, DEFAULTS.seed, true);
  state.most = number(fields.get("most"), 1, 500, DEFAULTS.most, true);
  state.temperature = number(fields.get("temperature"), 0.05, 10, DEFAULTS.temperature);
  state.greedy = fields.get("greedy") === "1";
  state.writer = fields.get("writer") === "1" ? 1 : 0;
  state.sides = ["", "2"].map((suffix) =>
    side({
      model: fields.get(`model${suffix}`) ?? "",
      background: fields.get(`background${suffix}`) ?? "own",
      changes: fields.getAll(`change${suffix}`).flatMap(changeOf),
      influence: fields.get(`influence${suffix}`) ?? "",
    }),
  );
  state.written = requestOf(fields.get("written"));
  return state;
}

function number(text, least, most, usual, whole = false) {
  const value = text === null || text.trim() === "" ? NaN : Number(text);
  const fits = value >= least && value <= most && (!whole || Number.isInteger(value));
  return fits ? value : usual;
}

function changeOf(text) {
  const [, scale, offset, feature] = /^([^,]*),([^,]*),(.+)$/s.exec(text) ?? [];
  if (feature === undefined) return [];
  return [
    {
      feature,
      scale: number(scale, SCALES.least, SCALES.most, 1),
      offset: number(offset, OFFSETS.least, OFFSETS.most, 0),
    },
  ];
}

function requestOf(text) {
  try {
    const found = JSON.parse(text);
    return found !== null && typeof found === "object" && Array.isArray(found.prefix) ? found : null;
  } catch {
    return null;
  }
}

/** Holds the state, tells whoever listens, and keeps the link in step. */
class Store {
  state = decoded(location.hash.slice(1));
  #listeners = [];
  #group = null;
  #later = debounced(() => this.#write(false), 250); // browsers refuse a link that changes too often

  constructor() {
    addEventListener("popstate", () => {
      this.#group = null;
      this.state = decoded(location.hash.slice(1));
      this.#announce();
    });
  }

  listen(listener) {
    this.#listeners.push(listener);
  }

  /** One step; steps of the same group, such as letters of a word, are one for the back button. */
  change(patch, group = null) {
    const same = group !== null && group === this.#group;
    if (!same && this.#later.waits()) this.#later.now();
    this.state = { ...this.state, ...patch };
    if (same) this.#later();
    else this.#write(true);
    this.#group = group;
    this.#announce();
  }

  changeSide(index, patch, group = null) {
    this.change({ sides: this.state.sides.map((one, i) => (i === index ? { ...one, ...patch } : one)) }, group);
  }

  /** The link to what is shown. */
  link() {
    this.#write(false);
    return location.href;
  }

  #write(push) {
    const hash = `#${encoded(this.state)}`;
    if (hash === location.hash || (hash === "#" && !location.hash)) return;
    if (push) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  }

  #announce() {
    for (const listener of this.#listeners) listener(this.state);
  }
}

export const store = new Store();
