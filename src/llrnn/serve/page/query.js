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
  const strategy = state.greedy ? { kind: "greedy" } : { kind: "sampling", temperature: state.temperature };
  const index = models[state.writer] ? state.writer : 0;
  const query = queryOf(state, index, models[index], words);
  return { ...query, max_words: state.most, strategy, seed: state.seed, stream: true };
}
