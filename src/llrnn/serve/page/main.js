// Starts the page, and leads every change of the state to those who show it.

import { ApiError, debounced, get, token } from "./api.js";
import { byId, say, set, tell } from "./dom.js";
import { conditionOf, queryOf, readings, wantsCondition, writingOf } from "./lexicon.js";
import { Panel } from "./panel.js";
import { showScenes } from "./scenes.js";
import { Setup, textOf } from "./setup.js";
import { store } from "./state.js";
import { Typing } from "./typing.js";
import { Writing } from "./writing.js";

const QUIET = 900; // milliseconds without news, before a screen reader is told the result

let models = [];
let setup = null;
let writing = null;
let typing = null;
let panel = null;
let sides = []; // the prefix and the chosen words, as each model has read them last
let round = 0;
let news = "";

const speak = debounced(() => say(byId("announce"), news), QUIET);

const shared = {
  failed,
  refused: (error) => setup.refuse(error),
  /** The text with one word in the place of another, or behind it. */
  replace: (lost, word) => setup.replace(lost, word),
  append: (word) => setup.append(word),
  announce(text) {
    news = text;
    speak();
  },
};

/** Whether an error was dealt with here: no one's own, but that of the whole page. */
function failed(error) {
  if (error.name === "AbortError") return true;
  if (!(error instanceof ApiError) || error.status !== 401) return false;
  const isFirst = byId("token-box").hidden;
  byId("token-box").hidden = false;
  if (isFirst) byId("token").focus();
  if (token.get()) say(byId("token-note"), "The server did not take that token. Try another one.");
  return true;
}

function modelsOf(state) {
  const named = (name) => models.find((model) => model.name === name) ?? null;
  const [first, second] = state.sides;
  const unknown = [first, second].find((side) => side.model && !named(side.model));
  const lost = unknown && `The link names the model “${unknown.model}”, which this server does not have.`;
  tell(byId("message"), lost ?? null);
  const one = named(first.model) ?? models[0];
  const other = named(second.model);
  return [one, other === one ? null : other];
}

async function show(state) {
  const now = (round += 1);
  const chosen = modelsOf(state);
  setup.show(state, chosen);
  try {
    const read = await readings(state, chosen, textOf(state, chosen[0]));
    if (now !== round) return;
    sides = read.sides;
    setup.showReading(read);
    panel.show(state, chosen[0], sides[0], secondOf(state, chosen[1], sides[1]));
    writing.show(state, chosen);
    typing.again();
  } catch (error) {
    if (now === round && !failed(error)) tell(byId("message"), error.message);
  }
}

/** The second model, and what it is asked; none where it wants a condition first. */
function secondOf(state, model, read) {
  if (!model || wantsCondition(state, model)) return null;
  return { model, query: queryOf(state, 1, model, read.words), words: [read.word, read.rival].filter(Boolean) };
}

/** What typing asks of the first model; nothing where it wants a condition first. */
function typedQuery() {
  const [model] = modelsOf(store.state);
  return wantsCondition(store.state, model) ? null : queryOf(store.state, 0, model, []);
}

async function start() {
  try {
    ({ models } = await get("/v1/models"));
  } catch (error) {
    if (!failed(error)) tell(byId("message"), error.message);
    return;
  }
  tell(byId("message"), null);
  byId("token-box").hidden = true;
  byId("content").hidden = false;
  if (setup === null) {
    setup = new Setup(models);
    panel = new Panel(shared);
    byId("panels").append(panel.element);
    showScenes(models);
    writing = new Writing((state) => writingOf(state, modelsOf(state)[0], sides[0]?.words ?? []), failed);
    typing = new Typing(typedQuery, failed);
    store.listener = show;
  } else {
    panel.forget();
    writing.again();
  }
  const isBare = !location.hash.slice(1);
  await show(store.state);
  if (isBare && models[0].conditions === "required") byId("writing-form").requestSubmit(); // at first sight: a text
}

// --- the buttons of the header

const THEME = "llrnn-theme";
const COPIED = 2500; // milliseconds
const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = localStorage.getItem(THEME);
  return chosen === null ? system.matches : chosen === "dark";
}

function showTheme() {
  set(document.documentElement, "data-theme", localStorage.getItem(THEME));
  say(byId("theme"), isDark() ? "Switch to light" : "Switch to dark");
}

/** What was left to the server so far becomes part of the state, and so of the link. */
function completeState() {
  if (!models.length) return;
  const [first] = modelsOf(store.state);
  const condition = first.conditions === "required" ? { condition: conditionOf(store.state, first) } : {};
  store.changeSide(0, { model: first.name }, "link", { prefix: textOf(store.state, first), ...condition });
}

// light or dark: as the system says, until the button says otherwise; kept in this browser, not in the link
showTheme();
system.addEventListener("change", showTheme);
byId("theme").addEventListener("click", () => {
  localStorage.setItem(THEME, isDark() ? "light" : "dark");
  showTheme();
});
// into the clipboard where the browser allows it, else into a field to copy from
byId("copy").addEventListener("click", async ({ target }) => {
  completeState();
  byId("link").value = store.link();
  try {
    await navigator.clipboard.writeText(byId("link").value);
    say(target, "Link copied");
    setTimeout(() => say(target, "Copy link"), COPIED);
  } catch {
    byId("link-box").hidden = false;
    byId("link").focus();
    byId("link").select();
  }
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value);
  byId("token").value = "";
  start();
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part after # is the state
  byId("prefix").focus();
});
start();
