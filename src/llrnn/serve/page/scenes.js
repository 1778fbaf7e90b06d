// What the models are for, as cards: each opens one state of the page. A card whose model is not served is not there;
// what it shows comes from the model: a place in a text of its own, a word that it may be given, a condition.

import { button, byId, el } from "./dom.js";
import { parsed } from "./slots.js";
import { store } from "./state.js";
import { labelOf, learnt } from "./words.js";

/** The cards that these models allow. */
export function showScenes(models) {
  const cards = [grammar, words, facts, list].map((scene) => scene(models)).filter(Boolean);
  byId("scenes").replaceChildren(...cards.map(card));
  byId("scenes").hidden = !cards.length;
}

/** An agreement: a word and another form of it, what speaks for it, and what a second model takes. */
function grammar(models) {
  const model = models.find(({ conditions, examples }) => conditions === "none" && exampleOf(examples));
  if (!model) return null;
  const { prefix, word, rival, feature } = exampleOf(model.examples.map(learnt));
  const twin = models.find((one) => one !== model && one.conditions === "none" && one.language === model.language);
  return {
    title: "It knows grammar",
    text: `${prefix} … ${labelOf(word)} or ${labelOf(rival)}?`,
    note: "Which word before decides",
    state: { prefix, word, rival, view: "both" },
    sides: [{ model: model.name, influence: feature }, { model: twin?.name ?? "" }],
  };
}

const exampleOf = (examples) => examples.find(({ rival, feature }) => rival && feature);

/** A word that nobody has listed: it gets what words of its ending have. */
function words(models) {
  const model = models.find(({ new_word: word, conditions, controller }) =>
    word !== null && conditions === "none" && !isLarge({ controller }));
  if (!model) return null;
  const prefix = exampleOf(model.examples)?.prefix ?? model.example;
  const word = model.new_word;
  return {
    title: "It knows your words",
    text: word ? `${prefix} … ${word}` : "Add a word, and find it",
    note: "A new word, its probability, words like it",
    state: { prefix, word, add: word },
    sides: [{ model: model.name }, {}],
    focus: word ? null : "add",
  };
}

/** A text from values: change one, and the sentence follows. */
function facts(models) {
  const model = models.find(({ conditions, condition }) => conditions === "required" && condition.example);
  if (!model) return null;
  return {
    title: "It says only what is true",
    text: parsed(model.condition.example)?.slots.join(", ") ?? model.condition.example,
    note: "Change a value, and the sentence follows",
    state: { condition: model.condition.example, prefix: "" },
    sides: [{ model: model.name }, {}],
    writes: true,
  };
}

/** A list of terms on a language model: with it and without. */
function list(models) {
  const model = models.find((one) => Object.keys(one.lists).length > 0);
  if (!model) return null;
  return {
    title: "Your list on a large model",
    text: Object.keys(model.lists).join(", "),
    note: "The same text with the list and without",
    state: { prefix: model.example, most: 20 },
    sides: [{ model: model.name }, {}],
    writes: true,
  };
}

const isLarge = ({ controller }) => controller.startsWith("Silent");

function card({ title, text, note, state, sides, focus, writes }) {
  const open = async () => {
    await store.open(state, sides);
    byId("text").scrollIntoView({ block: "start" });
    if (writes) byId("writing-form").requestSubmit();
    if (focus) byId(focus).focus();
  };
  const made = button("", "scene", open);
  made.append(el("b", { text: title }), el("bdi", { class: "word", text }), el("small", { text: note }));
  return made;
}
