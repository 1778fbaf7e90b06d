// What is on show as code: the same question to the API by curl and in Python, and on the command line.

import { button, byId, el, say } from "./dom.js";
import { added, isToken, textOfWords } from "./words.js";

const COPIED = 2500; // milliseconds

/** `query` as the API is asked, with the explained word, and perhaps a rival. */
export function showCode(query, word, rival) {
  const prefix = query.prefix.some(isToken) ? textOfWords(query.prefix) : query.prefix;
  const [one, other] = [word, rival].map((form) => (isToken(form) ? added(form) : form));
  const asked = trimmed({ ...query, prefix, word: one, rival: other });
  const boxes = Object.entries({ curl: curl(asked), Python: python(asked), "Command line": shell(asked) });
  const [summary, note] = byId("code").children;
  byId("code").replaceChildren(summary, note, ...boxes.map(([name, text]) => box(name, text)));
}

const USUAL = { word: "", rival: "", background: "own", changes: "" };
const trimmed = (query) =>
  Object.fromEntries(Object.entries(query).filter(([name, value]) => String(value) !== USUAL[name]));

/** For a shell: in single quotes, whatever it holds. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const address = () => location.href.split("#")[0].replace(/\/$/, "");

const curl = (asked) =>
  `curl ${address()}/v1/explain -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(asked))}`;

/** Changes of weights as the client and the command line have them: "Gender:Fem=-2". */
const steps = (changes = []) =>
  changes.flatMap(({ feature, scale, offset }) => [
    ...(scale === 1 ? [] : [`${feature}=*${scale}`]),
    ...(offset === 0 ? [] : [`${feature}=${offset < 0 ? "" : "+"}${offset}`]),
  ]);

function python({ prefix, changes, ...others }) {
  const given = Object.entries({ ...others, ...(changes ? { changes: steps(changes) } : {}) });
  const options = given.map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  const ask = `print(client.explain(${[JSON.stringify(prefix), ...options].join(", ")}))`;
  return `from llrnn import Client\n\nclient = Client(${JSON.stringify(address())})\n${ask}`;
}

function shell({ model, prefix, word, rival, changes, condition, background, new_words: added }) {
  const text = Array.isArray(prefix) ? prefix.join(" ") : prefix;
  const options = [["prefix", text], ["word", word], ["rival", rival], ["condition", condition]];
  const flags = [...options, ...steps(changes).map((step) => ["change", step])].filter(([, value]) => value);
  const asked = flags.map(([name, value]) => `--${name} ${quoted(value)}`).join(" ");
  const listing = added ? `# first llrnn words add, with a list of ${added.join(", ")}\n` : "";
  const other = background ? "# under the model's own background; --background takes the file of another one\n" : "";
  return `${listing}${other}llrnn explain ${quoted(model)} ${text === prefix ? "" : "--tokenised "}${asked}`;
}

function box(name, text) {
  const copy = button("Copy", "near", async () => {
    await navigator.clipboard.writeText(text).then(() => say(copy, "Copied"), () => say(copy, "Select it, and copy"));
    setTimeout(() => say(copy, "Copy"), COPIED);
  }, { "aria-label": `Copy ${name}` });
  return el("div", {}, el("h3", { text: name }), copy, el("pre", { tabindex: 0 }, el("code", { text })));
}
