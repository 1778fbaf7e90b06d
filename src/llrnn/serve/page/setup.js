// What stands above the results: the words before, with completion of the one being typed; condition, models and
// backgrounds.

import { debounced } from "./api.js";
import { combobox } from "./combobox.js";
import { byId, counted, el, nearButtons, say, set } from "./dom.js";
import { addedWords, conditionOf, wordsLike } from "./lexicon.js";
import { showSlots } from "./slots.js";
import { store } from "./state.js";
import { added, isToken, labelOf } from "./words.js";

const NAMES = 20; // of acts or slots that are listed
const PAUSE = 180; // milliseconds without a key, before the text is read

const BACKGROUNDS = { own: "its own", uniform: "all words alike", unigram: "how frequent words are" };
const TIP = "While you type, words are offered here.";

/** The text before: at first the model's own example, if that is a word at all; none where a condition says enough. */
export function textOf(state, model) {
  const example = model.examples[0]?.prefix ?? model.example;
  return state.prefix ?? (model.conditions !== "required" && /\p{L}/u.test(example) ? example : "");
}

const NOTHING = { word: "", rival: "", view: "both" };

export class Setup {
  #prefix = byId("prefix");
  #condition = byId("condition");
  #add = byId("add");
  #models;
  // of another text nothing was asked yet: what was compared is cleared
  #typed = debounced(() => store.change({ ...NOTHING, prefix: this.#prefix.value }, "typing"), PAUSE);
  #given = debounced(() => this.#give(), PAUSE);
  #told = debounced(() => store.change({ condition: this.#condition.value }, "condition"), PAUSE);

  constructor(models) {
    this.#models = models;
    combobox(this.#prefix, {
      label: "words that begin so",
      find: (text) => this.#complete(text),
      take: (word) => this.#take(word),
      place: byId("under"),
    });
    const first = () => store.change({ condition: this.#condition.placeholder });
    byId("condition-example").addEventListener("click", first);
    this.#prefix.addEventListener("input", () => this.#typed());
    this.#condition.addEventListener("input", () => this.#told());
    this.#add.addEventListener("input", () => this.#given());
    this.#add.addEventListener("keydown", (event) => event.key === "Enter" && this.#given.now());
    this.#prefix.addEventListener("keydown", (event) => event.key === "Enter" && this.#typed.now());
    for (const [side, suffix] of ["", "2"].entries()) {
      byId(`model${suffix}`).addEventListener("change", ({ target }) =>
        store.changeSide(side, { model: target.value, background: "own", changes: [], influence: "" }));
      byId(`background${suffix}`).addEventListener("change", ({ target }) =>
        store.changeSide(side, { background: target.value }));
    }
  }

  /** Fields as the state has them; a field that is being typed in is left alone. */
  show(state, [first, second]) {
    const text = textOf(state, first);
    if (!this.#typed.waits() && this.#prefix.value !== text) this.#prefix.value = text;
    const taking = [first, second].find((model) => model && model.conditions !== "none") ?? first;
    const condition = conditionOf(state, taking);
    if (!this.#told.waits() && this.#condition.value !== condition) this.#condition.value = condition;
    showSlots(condition);
    if (!this.#given.waits() && this.#add.value !== state.add) this.#add.value = state.add;
    byId("add-field").hidden = first.new_word === null;
    byId("condition-field").hidden = [first, second].every((model) => !model || model.conditions === "none");
    const isRequired = first.conditions === "required";
    set(this.#condition, "required", isRequired);
    byId("condition-field").classList.toggle("wide", isRequired);
    say(byId("condition-label"), isRequired ? "Condition (required)" : "Condition (optional)");
    this.#hint(condition, taking);
    const names = this.#models.map((model) => ({ value: model.name, text: nameOf(model) }));
    options(byId("model"), names, first.name);
    const others = names.filter(({ value }) => value !== first.name);
    options(byId("model2"), [{ value: "", text: "no other" }, ...others], second?.name ?? "");
    byId("background2-field").hidden = !second;
    backgrounds(byId("background"), first, state.sides[0].background);
    if (second) backgrounds(byId("background2"), second, state.sides[1].background);
  }

  /** Words to add: the last one is explained at once. */
  #give() {
    const add = this.#add.value;
    store.change({ ...NOTHING, add, word: addedWords({ add }).at(-1) ?? "" }, "adding");
  }

  /** Which names conditions may have, and one to begin with as long as there is none. */
  #hint(given, { condition: { acts, slots, example } }) {
    const named = (what, names) => (names.length ? `${what}: ${names.slice(0, NAMES).join(", ")}. ` : "");
    const kinds = "A dialog act, JSON or plain text, as in training.";
    say(byId("condition-hint"), `${named("Acts", acts)}${named("Slots", slots)}` || kinds);
    set(this.#condition, "placeholder", example || null);
    byId("condition-example").hidden = !example || given.trim() !== "";
    say(byId("condition-example"), `Try ${example}`);
  }

  /** What was read of the text: `unfinished`, its last word, and what is `near` it; `sides`, what each model has. */
  showReading({ unfinished, near, sides: [{ words, left }] }) {
    set(this.#prefix, "aria-invalid", left.length ? "true" : null);
    const parts = unfinished ? unfinishedHint(unfinished, near, (word) => this.replace(unfinished, word)) : [];
    const text = words.length ? TIP : "Nothing before: this is how a sentence starts.";
    const told = parts.length ? parts : left.length ? [] : [text];
    const key = JSON.stringify([unfinished, near, left.length, text]);
    if (byId("prefix-hint").dataset.key === key) return; // so that it is spoken once
    byId("prefix-hint").dataset.key = key;
    byId("prefix-hint").replaceChildren(...told);
  }

  /** Another word in the place of one that is not known, wherever it stands. */
  replace(lost, word) {
    const isLost = (one) => one.toLowerCase() === lost.toLowerCase();
    const words = this.#prefix.value.split(/\s+/);
    const [text, at] = [this.#prefix.value, this.#prefix.value.toLowerCase().lastIndexOf(lost.toLowerCase())];
    const inside = at < 0 ? text : `${text.slice(0, at)}${word}${text.slice(at + lost.length)}`; // of l'homme
    this.#write(words.some(isLost) ? words.map((one) => (isLost(one) ? word : one)).join(" ") : inside);
  }

  append(word) {
    this.#write(`${this.#prefix.value.trimEnd()}${added(word)}`.trimStart());
  }

  #write(text) {
    store.change({ ...NOTHING, prefix: text });
  }

  /** An error that is about the words before marks their field. */
  refuse({ code }) {
    if (["unknown_word", "prefix_too_long", "impossible"].includes(code)) set(this.#prefix, "aria-invalid", "true");
  }

  get #model() {
    return this.#models.find((model) => model.name === byId("model").value);
  }

  async #complete(text) {
    const [typed] = /\S*$/.exec(text);
    if (!typed) return [];
    const { words } = await wordsLike(this.#model, typed);
    return words.filter((word) => word !== typed).slice(0, 8).map((value) => ({ value, label: labelOf(value) }));
  }

  #take(word) {
    const [form, blank] = isToken(word) ? [added(word).trimStart(), ""] : [word, " "];
    this.#prefix.value = `${this.#prefix.value.replace(/\S*$/, "")}${form}${blank}`;
    this.#typed.now();
  }
}

const nameOf = ({ name, language, words }) =>
  `${name} (${[language, counted(words, "word")].filter(Boolean).join(", ")})`;

function unfinishedHint(unfinished, near, replace) {
  const text = `“${unfinished}” is not in the vocabulary yet; below is what comes before it is finished.`;
  return [text, ...nearButtons(near, replace)];
}

function options(select, wanted, chosen) {
  const now = [...select.options].map((option) => option.value);
  if (now.join("\n") !== wanted.map((one) => one.value).join("\n")) {
    select.replaceChildren(...wanted.map((one) => el("option", one)));
  }
  select.value = chosen;
}

function backgrounds(select, model, chosen) {
  const wanted = model.backgrounds.map(({ name, description }) => ({
    value: name,
    text: BACKGROUNDS[name] ?? name,
    title: description,
  }));
  options(select, wanted, chosen);
  select.title = model.backgrounds.find((one) => one.name === chosen)?.description ?? "";
}
