// Elements, made and filled. Data only ever goes in as text: nothing here parses HTML.

import { labelOf, meaningOf } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An HTML element: el("p", { class: "note", text: word }, child, …). What is null or false is left out. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** A button; `kind` is its class. */
export function button(text, kind, onclick, attributes = {}) {
  return el("button", { type: "button", class: kind, text, onclick, ...attributes });
}

/** Words that are written nearly so, to be taken by a click. */
export const nearButtons = (near, take) =>
  near.length ? [" Did you mean: ", ...near.map((word) => button(labelOf(word), "near", () => take(word)))] : [];

/** An element of SVG, likewise. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** An attribute; null and false remove it, true leaves it empty. */
export function set(element, name, value) {
  if (value === null || value === false || value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/** Text, only where it differs, so that live regions speak once. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A message in the page, hidden when there is none. */
export function tell(element, text) {
  say(element, text ?? "");
  element.hidden = !text;
}

/**
 * The children of a list, one for each item and kept by key: elements stay the same, so focus and transitions do too.
 * `make(item)` builds an element, `update(element, item)` fills it.
 */
export function keyed(parent, items, key, make, update) {
  const focused = document.activeElement;
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const wanted = items.map((item) => {
    const name = key(item);
    const element = before.get(name) ?? make(item);
    element.dataset.key = name;
    before.delete(name);
    update(element, item);
    return element;
  });
  for (const gone of before.values()) gone.remove();
  wanted.forEach((element, place) => {
    if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] ?? null);
  });
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/** A labelled field; lists of proposals find their place inside it, and are no part of the label. */
export function field(label, input, kind = "") {
  input.id ||= freshId("field");
  return el("div", { class: `field ${kind}`.trim() }, el("label", { for: input.id, text: label }), input);
}

/** A list is one stop of the tab key: arrows go on from there, by button and by row. */
export function oneStop(list, rows = "li") {
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true });
  const stops = () => [...list.querySelectorAll("button")].filter(isShown);
  const settle = () => {
    const all = stops();
    const on = all.find((one) => one === document.activeElement) ?? all.find((one) => one.tabIndex === 0) ?? all[0];
    for (const one of all) one.tabIndex = one === on ? 0 : -1;
  };
  new MutationObserver(settle).observe(list, { childList: true, subtree: true, attributeFilter: ["hidden"] });
  list.addEventListener("focusin", settle);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.tagName !== "BUTTON") return;
    const row = event.target.closest(rows);
    const isRow = ["ArrowDown", "ArrowUp"].includes(event.key);
    const all = stops();
    const others = isRow ? all.filter((one) => one === event.target || one.closest(rows) !== row) : all;
    const to = others[others.indexOf(event.target) + step];
    const first = isRow && step < 0 ? all.find((one) => one.closest(rows) === to?.closest(rows)) : to;
    event.preventDefault();
    first?.focus();
  });
}

/** What a part means, in plain words, shown beside it to whoever points at it or comes to it by keyboard. */
export const meaning = (name, more = "") => ({ "data-tip": `${meaningOf(name)}${more}` });

let about = null; // what the tip is on

function showTip({ target }) {
  const tip = byId("tip");
  about = target.closest?.("[data-tip]");
  tip.hidden = !about;
  document.querySelector("[aria-describedby=tip]")?.removeAttribute("aria-describedby");
  if (!about) return;
  say(tip, about.dataset.tip);
  if (about === document.activeElement) set(about, "aria-describedby", "tip");
  placeTip();
}

function placeTip() {
  const tip = byId("tip");
  if (tip.hidden) return;
  const { left, bottom, top } = about.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const below = bottom + 6 + height < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
  tip.style.top = `${below ? bottom + 6 : top - height - 6}px`;
}

for (const kind of ["mouseover", "focusin"]) addEventListener(kind, showTip);
addEventListener("keydown", ({ key }) => key === "Escape" && (byId("tip").hidden = true));
addEventListener("scroll", placeTip, { capture: true, passive: true });

let numbers = 0;

/** An id that no other element has. */
export function freshId(stem) {
  numbers += 1;
  return `${stem}-${numbers}`;
}

// How numbers are written: a true minus sign, always as many decimals, so that columns of them line up.

const MINUS = "\u2212";

/** 1.2346, −0.5000; null is minus infinity, the logarithm of nothing. */
export function plain(value, decimals = 4) {
  if (value === null || value === undefined) return `${MINUS}∞`;
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** With its sign: +1.2346, −0.5000. */
export function signed(value, decimals = 4) {
  const text = plain(value, decimals);
  return text.startsWith(MINUS) || Number(text) === 0 ? text : `+${text}`;
}

/** A probability as a percentage; what is not zero never looks like it. */
export function percent(p) {
  if (p > 0 && p < 0.000005) return "< 0.001 %";
  return `${(100 * p).toFixed(3)} %`;
}

/** 3,694 */
export function count(n) {
  return n.toLocaleString("en");
}

/** "1 word", "12 words" */
export function counted(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}
