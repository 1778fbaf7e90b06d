// A text field with a list of proposals under it, after the ARIA pattern: arrows walk through the list, Enter takes the
// one that is marked, Escape closes it. Nothing is marked until an arrow is pressed, so Enter alone means the text.

import { debounced } from "./api.js";
import { el, field, freshId, set } from "./dom.js";
import { wordsLike } from "./lexicon.js";
import { labelOf, tokenOf } from "./words.js";

/**
 * `find(text)` gives the proposals, a promise of [{ value, label, note }], with a `label` where that is shown in the
 * place of the value; `take(value)` is called for the one chosen. The list stands at the end of `place`, behind the
 * field by default, and has room of its own: it covers nothing.
 */
export function combobox(input, { label, find, take, place = null }) {
  const id = freshId("proposals");
  const list = el("ul", { id, class: "proposals", role: "listbox", "aria-label": label, hidden: true });
  const later = debounced(search, 120);
  let options = [];
  let active = -1;
  let round = 0; // answers of earlier rounds are dropped

  function show(found, marked = -1) {
    [options, active] = [found, marked];
    const items = options.map(({ value, label: shown = value, note }, place) => {
      const selected = String(place === active);
      const role = { id: `${id}-${place}`, role: "option", "aria-selected": selected, onclick: () => choose(place) };
      return el("li", role, el("span", { text: shown }), note ? el("small", { text: note }) : null);
    });
    list.replaceChildren(...items);
    list.hidden = !items.length;
    set(input, "aria-expanded", String(items.length > 0));
    set(input, "aria-activedescendant", active < 0 ? null : items[active].id);
    items[active]?.scrollIntoView({ block: "nearest" });
  }

  function close() {
    round += 1;
    show([]);
  }

  async function search() {
    const own = (round += 1);
    const found = await find(input.value).catch(() => []);
    if (own === round && document.activeElement === input) show(found);
  }

  function choose(place) {
    const { value } = options[place];
    close();
    take(value);
  }

  function pressed(event) {
    const many = options.length;
    if (event.key === "ArrowDown" && !many) later.now();
    else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && many) {
      event.preventDefault();
      show(options, event.key === "ArrowDown" ? (active + 1) % many : (active <= 0 ? many : active) - 1);
    } else if (event.key === "Enter" && active >= 0) {
      event.preventDefault();
      event.stopImmediatePropagation();
      choose(active);
    } else if (event.key === "Enter") {
      close();
    } else if (event.key === "Escape" && many) {
      event.preventDefault();
      close();
    }
  }

  const roles = { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": id };
  const attributes = { ...roles, autocomplete: "off", spellcheck: "false" };
  for (const [name, value] of Object.entries(attributes)) set(input, name, value);
  if (place) place.append(list);
  else input.after(list);
  input.addEventListener("input", () => later());
  input.addEventListener("keydown", pressed);
  input.addEventListener("blur", close);
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
}

// A field for any word of a model, with proposals: to explain what is not among the most probable ones.

/** `model()` is the one that is asked; `choose(word)` is told what was typed or taken. */
export function wordField(model, choose) {
  const input = el("input", { type: "text" });
  const take = (word) => {
    input.value = "";
    choose(word);
  };
  const find = async (text) => {
    const { words } = text.trim() ? await wordsLike(model(), text.trim()) : { words: [] };
    return words.map((value) => ({ value, label: labelOf(value) }));
  };
  const search = field("Explain another word", input, "other");
  combobox(input, { label: "words", find, take });
  input.addEventListener("keydown", (event) => {
    const typed = input.value.trim();
    if (event.key === "Enter" && typed) find(typed).catch(() => []).then(() => take(tokenOf(typed)));
  });
  return search;
}
