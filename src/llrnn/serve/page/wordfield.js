// A field for any word of a model, with proposals: to explain what is not among the most probable ones.

import { el, field } from "./dom.js";
import { Combobox } from "./combobox.js";
import { wordsLike } from "./lexicon.js";

/** `model()` is the one that is asked; `choose(word)` is told what was typed or taken. */
export function wordField(model, choose) {
  const input = el("input", { type: "text" });
  const take = (word) => {
    input.value = "";
    choose(word);
  };
  const find = async (text) => {
    const { words } = text.trim() ? await wordsLike(model(), text.trim()) : { words: [] };
    return words.map((value) => ({ value }));
  };
  const search = field("Explain another word", input, "other");
  new Combobox(input, { label: "words", find, take });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && input.value.trim()) take(input.value.trim());
  });
  return search;
}
