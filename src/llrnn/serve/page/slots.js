// The slots of the condition, to be ticked on and off: inform(name=alamo;food=thai), or a record in JSON.

import { byId, el } from "./dom.js";
import { store } from "./state.js";

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

function box(slot, place) {
  const tick = el("input", { type: "checkbox", "data-slot": place });
  tick.checked = whole.on[place];
  tick.addEventListener("change", () => {
    whole.on[place] = tick.checked;
    store.change({ condition: said(whole) });
    byId("slots").querySelector(`[data-slot="${place}"]`)?.focus();
    byId("writing-form").requestSubmit();
  });
  return el("label", { class: "check" }, tick, ` ${slot}`);
}
