// Which words and features a model has, asked from the server and remembered.

import { get } from "./api.js";

const LIMIT = 20;
const MOST = 1000; // what the server lists at once
const answers = new Map();

function listing(model, kind, query, limit) {
  const path = `/v1/models/${encodeURIComponent(model.name)}/${kind}?${new URLSearchParams({ query, limit })}`;
  if (!answers.has(path)) {
    answers.set(path, get(path));
    answers.get(path).catch(() => answers.delete(path));
  }
  return answers.get(path);
}

/** Words that start with a text, or else hold it. */
export const wordsLike = (model, text, limit = LIMIT) => listing(model, "words", text, limit);

export const featuresLike = (model, text) => listing(model, "features", text, LIMIT);

/**
 * Whether a model can read a word: one that it lists, or of the condition, or any, where its vocabulary is open. Null:
 * so many words hold this text that only the server can tell.
 */
export async function knows(model, word, condition = "") {
  if (model.open_vocabulary || condition.toLowerCase().includes(word.toLowerCase())) return true;
  for (const limit of [LIMIT, MOST]) {
    const { words, matching } = await wordsLike(model, word, limit);
    if (words.includes(word)) return true;
    if (matching <= words.length) return false;
  }
  return null;
}

/** The words among these that a model cannot read. */
export async function unknownOf(model, words, condition) {
  const some = [...new Set(words)].slice(0, LIMIT);
  const known = await Promise.all(some.map((word) => knows(model, word, condition)));
  return some.filter((_, place) => known[place] === false);
}

/** A word as the model writes it. */
export const spelled = (model, word) => (model.lowercase ? word.toLowerCase() : word);

/** The words of a text, and the last one by itself where it is not finished: typed, and no word yet. */
export async function reading(model, text, condition) {
  const words = text.split(/\s+/).filter(Boolean).map((word) => spelled(model, word));
  const isFinished = !words.length || /\s$/.test(text) || (await knows(model, words.at(-1), condition));
  if (isFinished) return { words, unfinished: "" };
  return { words: words.slice(0, -1), unfinished: words.at(-1) };
}

// From the state to what the API is asked.

/** What the requests share: model, words before, background, changes, and the condition where the model takes one. */
export function queryOf(state, index, model, words) {
  const { background, changes } = state.sides[index];
  const query = { model: model.name, prefix: words, background, changes };
  if (model.conditions !== "none" && state.condition.trim()) query.condition = state.condition;
  return query;
}

/** A model that writes from a condition has nothing to say without one. */
export const wantsCondition = (state, model) => model.conditions === "required" && !state.condition.trim();

/** What asks for a sentence, of the one or two models on show. */
export function writingOf(state, models, words) {
  const way = state.greedy ? { greedy: true } : { temperature: state.temperature };
  const index = models[state.writer] ? state.writer : 0;
  const query = queryOf(state, index, models[index], words);
  return { ...query, max_words: state.most, ...way, seed: state.seed, stream: true };
}
