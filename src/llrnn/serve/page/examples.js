// Three examples to click: what comes next, why this word and not that one, what if a feature counted less. They are
// places in texts that the model itself has written.

import { button, byId, el } from "./dom.js";
import { store } from "./state.js";
import { labelOf, learnt } from "./words.js";

const LESS = -3; // what is added to the weight of a feature
let shown = null; // the model whose examples are on show

/** Those of a model; nothing where it has none. */
export function showExamples(model) {
  if (model === shown) return;
  shown = model;
  const offered = examplesOf(model);
  byId("examples").replaceChildren(...offered.map((one) => card(one, model)));
  byId("examples").hidden = !offered.length;
}

function examplesOf({ examples }) {
  const [first] = examples.map(learnt);
  if (!first) return [];
  const second = [examples[1], ...examples].find((one) => one?.rival);
  const third = [examples[2], ...examples].find((one) => one?.feature);
  const after = ({ prefix }) => (prefix ? `${prefix} …` : "at the start:");
  const text = first.prefix ? after(first) : "at the start";
  const offered = [{ ...first, title: "What comes next?", text, state: {} }];
  if (second) {
    const { word, rival } = second;
    const both = `${after(second)} ${labelOf(word)} or ${labelOf(rival)}?`;
    offered.push({ ...second, title: "Why this word, and not that one?", text: both, state: { word, rival } });
  }
  if (third) {
    const { word, feature } = third;
    const less = `${after(third)} ${labelOf(word)}, with ${feature} turned down`;
    const changes = [{ feature, scale: 1, offset: LESS }];
    offered.push({ ...third, title: "What if a feature counted less?", text: less, state: { word }, changes });
  }
  return offered;
}

function card({ title, text, prefix, state, changes = [] }, model) {
  const open = () => {
    const condition = model.conditions === "none" ? "" : store.state.condition || model.condition.example;
    const others = { word: "", rival: "", view: "both", written: null, ...state, prefix, condition };
    store.changeSide(0, { changes, background: "own", influence: "" }, null, others);
    const below = byId("panels").getBoundingClientRect().top;
    if (below > 0.6 * innerHeight) byId("panels").scrollIntoView({ block: "start" });
  };
  const made = button("", "example", open);
  made.append(el("b", { text: title }), el("bdi", { class: "word", text }));
  return made;
}
