// Words as they are shown, and as they are written in a text: tokens of a language model as the server writes them.

export const END = "</s>";

const APART = /^ (?=[\p{L}\p{N}])/u; // begins a word
const ON = /^(?![\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Thai}])[\p{L}\p{N}\p{M}]/u; // goes on with one
const SIGNS = { " ": "␣", "\n": "↵", "\t": "⇥" };
const written = new Map(); // by token what it adds to a text, with its blank

/** What an answer tells of how tokens are written; the answer itself is returned. */
export function learnt(answer) {
  for (const [token, text] of Object.entries(answer.written ?? {})) written.set(token, text);
  return answer;
}

/** A word as it is shown: of tokens, one that goes on with a word has a hyphen, and a blank that is unusual a sign. */
export function labelOf(word) {
  if (word === END) return "end of sentence";
  const text = written.get(word);
  if (!text) return word;
  const shown = ON.test(text) ? `-${text}` : text.replace(APART, "");
  return shown.replace(/[ \n\t]/g, (sign) => SIGNS[sign]);
}

export const isToken = (word) => written.has(word);

/** What a word adds to a text that goes on with it. */
export const added = (word) => written.get(word) ?? ` ${word}`;

/** Words as one text. */
export const textOfWords = (words) => words.map((word, n) => (n || isToken(word) ? added(word) : word)).join("");

/** A word of a text as it is shown, where `place` words stand before it: the first one goes on with nothing. */
export const labelAt = (word, place) =>
  place === 0 && ON.test(written.get(word) ?? "") ? written.get(word) : labelOf(word);

/** The token that a typed word is where it begins a word, among those that the server has told of; else the word. */
export const tokenOf = (typed) => [...written].find(([, text]) => text === ` ${typed}`)?.[0] ?? typed;
