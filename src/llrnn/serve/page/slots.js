// The slots of the condition, to be ticked on and off: inform(name=alamo;food=thai), or a record in JSON.

import { debounced } from "./api.js";
import { byId, el } from "./dom.js";
import { store } from "./state.js";

const NEEDS_QUOTES = /[\s;,()]/;
const PAUSE = 250; // milliseconds without a key
let whole = null; // the condition that all slots are of: { slots: [text], on: [bool], join }

/** What a condition consists of, and how its parts are put together again; null for plain text. */
export function parsed(text) {
  const [, act, inside] = /^\s*(\??[\w-]+)\s*\((.*)\)\s*$/s.exec(text) ?? [];
  if (act !== undefined) {
    const slots = (inside.match(/[^;=]+=\s*(?:'.*?'|".*?")\s*(?=;|$)|[^;]+/gs) ?? []).map((slot) => slot.trim());
    return { slots, join: (some) => `${act}(${some.join(";")})` };
  }
  try {
    const record = JSON.parse(text);
    const slots = Object.entries(record).map((pair) => JSON.stringify(Object.fromEntries([pair])).slice(1, -1));
    return record.act || Array.isArray(record) ? null : { slots, join: (some) => `{${some.join(", ")}}` };
  } catch {
    return null;
  }
}

const said = ({ slots, on, join }) => join(slots.filter((_, place) => on[place]));

/** The boxes of a condition; of one that came about by a tick, those that are off stay. */
export function showSlots(condition) {
  if (whole === null || said(whole) !== condition) {
    const found = parsed(condition);
    whole = found && { ...found, on: found.slots.map(() => true) };
  }
  byId("slots").hidden = !whole || whole.slots.length < 2;
  byId("slots").replaceChildren(...(whole?.slots ?? []).map(box));
}

/** A slot to be ticked off, and its value to be changed: what is written follows. */
function box(slot, place) {
  const tick = el("input", { type: "checkbox", "data-slot": place });
  tick.checked = whole.on[place];
  tick.addEventListener("change", () => {
    whole.on[place] = tick.checked;
    follow(`[data-slot="${place}"]`);
  });
  const [, before, quote, value] = /^([^=:]*[=:]\s*)(['"]?)(.*)\2$/s.exec(slot) ?? [];
  if (value === undefined) return el("label", { class: "check" }, tick, ` ${slot}`);
  const input = el("input", { type: "text", "data-value": place, autocomplete: "off", spellcheck: "false" });
  input.value = value;
  const changed = debounced(() => {
    const mark = quote || (NEEDS_QUOTES.test(input.value) ? "'" : "");
    whole.slots[place] = `${before}${mark}${input.value}${mark}`;
    follow(`[data-value="${place}"]`);
  }, PAUSE);
  input.addEventListener("input", () => changed());
  const name = before.replace(/[=:"\s]+/g, "");
  return el("div", { class: "slot" }, el("label", { class: "check" }, tick, ` ${name}`), input);
}

/** What is said has changed: it is written anew. */
function follow(selector) {
  const at = document.activeElement?.selectionStart;
  store.change({ condition: said(whole) }, "slots");
  const field = byId("slots").querySelector(selector);
  field?.focus();
  if (Number.isInteger(at) && field?.type === "text") field.setSelectionRange(at, at);
  byId("writing-form").requestSubmit();
}
