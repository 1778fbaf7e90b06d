// What a model has: words, features, strings of its cells, asked from the server and remembered.

import { ApiError, get, post } from "./api.js";

const LIMIT = 20;
const answers = new Map();

function kept(key, ask) {
  if (!answers.has(key)) {
    answers.set(key, ask());
    answers.get(key).catch(() => answers.delete(key));
  }
  return answers.get(key);
}

function listing(model, kind, parameters) {
  const path = `/v1/models/${encodeURIComponent(model.name)}/${kind}?${new URLSearchParams(parameters)}`;
  return kept(path, () => get(path));
}

/** Words that start with a text, or else hold it. */
export const wordsLike = (model, text) => listing(model, "words", { query: text, limit: LIMIT });

export const featuresLike = (model, text) => listing(model, "features", { query: text, limit: LIMIT });

/** Strings drawn from a cell; another seed draws others. */
export const stringsOf = (model, cell, seed) => listing(model, "strings", { cell, seed, limit: 8 });

/** A word as the model writes it. */
export const spelled = (model, word) => (model.lowercase ? word.toLowerCase() : word);

/** The words of a text as a model reads them, and by word those that it does not have, with some written nearly so. */
async function readBy(state, model, prefix, words) {
  const body = { model: model.name, prefix, words, ...givenTo(state, model) };
  try {
    const found = await kept(JSON.stringify(body), () => post("/v1/read", body));
    const unlisted = found.unlisted.filter(({ near }) => near.length);
    return { read: found.prefix, unlisted, unknown: new Map(found.unknown.map(({ word, near }) => [word, near])) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 401) throw error;
    return byBlanks(model, prefix); // what is wrong with the condition is told where the next words are asked for
  }
}

/**
 * A text as each model reads it. `unfinished`: its last word, where that is typed and no word of the first model yet,
 * and what is `near` it. Of each model `words`, those before that it has; `left`, those that it does not; `spelled`,
 * those that it reads by their letters alone; and the chosen words likewise, `word` and `rival`, or `lost`.
 */
export async function readings(state, models, text) {
  const sides = await Promise.all(models.map((model) => model && reading(state, model, text)));
  const [{ read, unknown }] = sides;
  const isOpen = read.length > 0 && !/\s$/.test(text) && unknown.has(read.at(-1));
  const typed = text.slice(text.length - (read.at(-1)?.length ?? 0)); // with its capitals
  const last = isOpen ? { unfinished: typed, near: unknown.get(read.at(-1)) } : { unfinished: "", near: [] };
  return { ...last, sides: sides.map((one) => one && parted(one, isOpen)) };
}

const byBlanks = (model, text) => ({
  read: text.split(/\s+/).filter(Boolean).map((word) => spelled(model, word)),
  unlisted: [],
  unknown: new Map(),
});

async function reading(state, model, text) {
  const marks = [state.word, state.rival].map((word) => spelled(model, word));
  const isAsked = !wantsCondition(state, model) && [text.trim(), ...marks].some(Boolean);
  const asked = () => readBy(state, model, text, marks.filter(Boolean));
  const found = isAsked ? await asked() : byBlanks(model, text);
  return { marks, ...found };
}

function parted({ read, marks, unknown, unlisted }, isOpen) {
  const whole = isOpen ? read.slice(0, -1) : read;
  const named = (words) => [...new Set(words)].map((word) => ({ word, near: unknown.get(word) }));
  const [word, rival] = marks.map((one) => (unknown.has(one) ? "" : one));
  return {
    words: whole.filter((one) => !unknown.has(one)),
    left: named(whole.filter((one) => unknown.has(one))),
    spelled: unlisted.filter(({ word }) => whole.includes(word)),
    word,
    rival: word && rival !== word ? rival : "",
    lost: named(marks.filter((one) => unknown.has(one))),
  };
}

// From the state to what the API is asked.

/** What the requests share: model, words before, background, changes, and the condition where the model takes one. */
export function queryOf(state, index, model, words) {
  const { background, changes } = state.sides[index];
  return { model: model.name, prefix: words, background, changes, ...givenTo(state, model) };
}

/** What a model is given beside the text, where it takes that: a condition, and words to add. */
function givenTo(state, model) {
  const given = {};
  const condition = conditionOf(state, model);
  if (model.conditions !== "none" && condition.trim()) given.condition = condition;
  const words = addedWords(state).map((word) => spelled(model, word));
  if (model.new_word !== null && words.length) given.new_words = words;
  return given;
}

export const addedWords = ({ add }) => [...new Set(add.split(/[\s,;]+/).filter(Boolean))];

/** The condition: at first the model's own example, if it needs one. */
export const conditionOf = (state, model) =>
  state.condition ?? (model.conditions === "required" ? model.condition.example : "");

/** A model that writes from a condition has nothing to say without one. */
export const wantsCondition = (state, model) => model.conditions === "required" && !conditionOf(state, model).trim();

/** What asks for a sentence of a model that has read some `words`. */
export function writingOf(state, model, words) {
  const query = queryOf(state, 0, model, words);
  const most = state.top_p < 1 ? { top_p: state.top_p } : {};
  const drawn = state.greedy ? { greedy: true } : { temperature: state.temperature, ...most };
  // without more, the server's own way from a condition: a beam search
  const way = state.beam && query.condition ? {} : { ...drawn, seed: state.seed };
  return { ...query, max_words: state.most, ...way, stream: true };
}
