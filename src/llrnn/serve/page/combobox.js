// A text field with a list of proposals under it, after the ARIA pattern: arrows walk through the list, Enter takes the
// one that is marked, Escape closes it. Nothing is marked until an arrow is pressed, so Enter alone means the text.

import { debounced } from "./api.js";
import { el, field, freshId, set } from "./dom.js";
import { wordsLike } from "./lexicon.js";

export class Combobox {
  #input;
  #list;
  #find;
  #take;
  #options = [];
  #active = -1;
  #round = 0; // answers of earlier rounds are dropped
  #later = debounced(() => this.#search(), 120);

  /** `find(text)` gives the proposals, a promise of [{ value, note }]; `take(value)` is called for the one chosen. */
  constructor(input, { label, find, take }) {
    const id = freshId("proposals");
    this.#input = input;
    this.#find = find;
    this.#take = take;
    this.#list = el("ul", { id, class: "proposals", role: "listbox", "aria-label": label, hidden: true });
    const roles = { role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": id };
    const attributes = { ...roles, autocomplete: "off", spellcheck: "false" };
    for (const [name, value] of Object.entries(attributes)) set(input, name, value);
    input.after(this.#list);
    input.addEventListener("input", () => this.#later());
    input.addEventListener("keydown", (event) => this.#pressed(event));
    input.addEventListener("blur", () => this.close());
    this.#list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  }

  close() {
    this.#round += 1;
    this.#options = [];
    this.#active = -1;
    this.#draw();
  }

  async #search() {
    const round = (this.#round += 1);
    const options = await this.#find(this.#input.value).catch(() => []);
    if (round !== this.#round || document.activeElement !== this.#input) return;
    this.#options = options;
    this.#active = -1;
    this.#draw();
  }

  #draw() {
    const open = this.#options.length > 0;
    const items = this.#options.map(({ value, note }, place) =>
      el(
        "li",
        {
          id: `${this.#list.id}-${place}`,
          role: "option",
          "aria-selected": String(place === this.#active),
          onclick: () => this.#choose(place),
        },
        el("span", { text: value }),
        note ? el("small", { text: note }) : null,
      ),
    );
    this.#list.replaceChildren(...items);
    this.#list.hidden = !open;
    set(this.#input, "aria-expanded", String(open));
    set(this.#input, "aria-activedescendant", this.#active < 0 ? null : `${this.#list.id}-${this.#active}`);
    items[this.#active]?.scrollIntoView({ block: "nearest" });
  }

  #pressed(event) {
    const many = this.#options.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!many) {
        if (event.key === "ArrowDown") this.#later.now();
        return;
      }
      event.preventDefault();
      const down = event.key === "ArrowDown";
      this.#active = down ? (this.#active + 1) % many : this.#active <= 0 ? many - 1 : this.#active - 1;
      this.#draw();
    } else if (event.key === "Enter" && this.#active >= 0) {
      event.preventDefault();
      event.stopImmediatePropagation();
      this.#choose(this.#active);
    } else if (event.key === "Enter") {
      this.close();
    } else if (event.key === "Escape" && many) {
      event.preventDefault();
      this.close();
    }
  }

  #choose(place) {
    const { value } = this.#options[place];
    this.close();
    this.#take(value);
  }
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
    return words.map((value) => ({ value }));
  };
  const search = field("Explain another word", input, "other");
  new Combobox(input, { label: "words", find, take });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && input.value.trim()) take(input.value.trim());
  });
  return search;
}
