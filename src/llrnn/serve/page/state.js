// The state of the page, all of it in the link: `#prefix=la+maison+est&word=grande&change=1,0.5,Gender:Fem`.
// Whoever opens the link sees the same numbers; back and forward go through the steps.

import { debounced } from "./api.js";

export const OFFSETS = { least: -5, most: 5 };
export const SCALES = { least: -1, most: 3 };

const SUFFIXES = ["", "2"]; // of the fields of the first and of the second model

const asIs = (text) => text;
const oneOf = (...allowed) => (text, usual) => (allowed.includes(text) ? text : usual);
const numberIn = (least, most, whole = false) => (text, usual) => {
  const value = text.trim() === "" ? NaN : Number(text);
  return value >= least && value <= most && (!whole || Number.isInteger(value)) ? value : usual;
};
const scaleIn = numberIn(SCALES.least, SCALES.most);
const offsetIn = numberIn(OFFSETS.least, OFFSETS.most);

// of each field what it usually is, which no link says, and how it is read and written
const FIELDS = {
  prefix: { usual: null, read: asIs }, // null: nothing was said yet, and the model's own example is shown
  condition: { usual: null, read: asIs }, // null: nothing was said yet, and a model that needs one shows its example
  add: { usual: "", read: asIs }, // words that the model is given, with blanks or commas between them
  word: { usual: "", read: asIs }, // "": the most probable word is explained
  rival: { usual: "", read: asIs },
  view: { usual: "both", read: oneOf("word", "rival") }, // of two words: "both", "word" or "rival"
  beam: { usual: true, read: (text) => text !== "0", write: () => "0" }, // search, where there is a condition
  seed: { usual: 0, read: numberIn(0, Number.MAX_SAFE_INTEGER, true) },
  temperature: { usual: 1, read: numberIn(0.05, 10) },
  top_p: { usual: 1, read: numberIn(0.05, 1) },
  greedy: { usual: false, read: (text) => text === "1", write: () => "1" },
  most: { usual: 40, read: numberIn(1, 500, true) }, // words to write
  written: { usual: null, read: requestOf, write: JSON.stringify }, // the request that wrote the sentence on show
};
const SIDE = {
  model: { usual: "", read: asIs },
  background: { usual: "own", read: asIs },
  influence: { usual: "", read: asIs },
};

/** The state as the part of a link after `#`. */
function encoded(state) {
  const fields = new URLSearchParams();
  const put = (table, values, suffix) => {
    for (const [name, { usual, write = String }] of Object.entries(table)) {
      if (values[name] !== usual) fields.append(name + suffix, write(values[name]));
    }
  };
  put(FIELDS, state, "");
  state.sides.forEach((one, index) => {
    put(SIDE, one, SUFFIXES[index]);
    for (const { feature, scale, offset } of one.changes) {
      fields.append(`change${SUFFIXES[index]}`, `${scale},${offset},${feature}`);
    }
  });
  return fields.toString();
}

/** And back. Links come from anywhere: what is no sensible value is left out. */
function decoded(text) {
  const fields = new URLSearchParams(text);
  const taken = (table, suffix) =>
    Object.fromEntries(
      Object.entries(table).map(([name, { usual, read }]) => {
        const found = fields.get(name + suffix);
        return [name, found === null ? usual : read(found, usual)];
      }),
    );
  const changes = (suffix) => fields.getAll(`change${suffix}`).flatMap(changeOf);
  const sides = SUFFIXES.map((suffix) => ({ ...taken(SIDE, suffix), changes: changes(suffix) }));
  return { ...taken(FIELDS, ""), sides };
}

function changeOf(text) {
  const [, scale, offset, feature] = /^([^,]*),([^,]*),(.+)$/s.exec(text) ?? [];
  return feature === undefined ? [] : [{ feature, scale: scaleIn(scale, 1), offset: offsetIn(offset, 0) }];
}

function requestOf(text) {
  try {
    const found = JSON.parse(text);
    return found !== null && typeof found === "object" && Array.isArray(found.prefix) ? found : null;
  } catch {
    return null;
  }
}

/** Holds the state, tells the one who listens, and keeps the link in step. */
class Store {
  state = decoded(location.hash.slice(1));
  listener = () => {}; // told of every change
  #group = null;
  #later = debounced(() => this.#write(false), 250); // browsers refuse a link that changes too often

  constructor() {
    addEventListener("popstate", () => {
      this.#group = null;
      this.state = decoded(location.hash.slice(1));
      this.listener(this.state);
    });
  }

  /** One step, and what the listener returns; steps of the same group, such as letters of a word, are one. */
  change(patch, group = null) {
    const same = group !== null && group === this.#group;
    if (!same && this.#later.waits()) this.#later.now();
    this.state = { ...this.state, ...patch };
    if (same) this.#later();
    else this.#write(true);
    this.#group = group;
    return this.listener(this.state);
  }

  /** Likewise, of what belongs to one of the two models; `others` are changed with it. */
  changeSide(index, patch, group = null, others = {}) {
    const sides = this.state.sides.map((one, i) => (i === index ? { ...one, ...patch } : one));
    this.change({ ...others, sides }, group);
  }

  /** Another state altogether: what is not named is as usual. */
  open(fields, sides) {
    const fresh = decoded("");
    return this.change({ ...fresh, ...fields, sides: fresh.sides.map((one, index) => ({ ...one, ...sides[index] })) });
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
}

export const store = new Store();
