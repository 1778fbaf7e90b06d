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

// What the names of parts and features mean, in plain words, for whoever points at one or comes to it by keyboard.

const MEANINGS = [
  [/^(?:− )?log Z$/, () => "What makes the probabilities of all words sum to one; the same for every word."],
  [/^log b/, () => "The background: how likely the word is before the network has its say."],
  [/^log share of/, () => "How likely this word is among all strings of its kind."],
  [/^NotAmong:(\d+)$/, (n) => `Not one of the ${n} most frequent words.`],
  [/^Word:<\/s>$/, () => "The end of the sentence."],
  [/^Word:(.+)$/s, (word) => `The word “${word}” itself: a weight of its own.`],
  [/^Suffix:(.+)$/s, (letters) => `Ends in “${letters}”.`],
  [/^Prefix:(.+)$/s, (letters) => `Begins with “${letters}”.`],
  [/^POS:(.+)$/, (kind) => `Part of speech: ${KINDS[kind] ?? kind.toLowerCase()}.`],
  [/^Lemma:(.+)$/s, (word) => `A form of “${word}”.`],
  [/^Value:(.+)$/, (slot) => `A value of “${slot}” in the condition.`],
  [/^New:(.+)$/, (kind) => `Not in the vocabulary: read by its spelling (${kind}).`],
  [/^(\w+):(?:whole|continues|completes)$/s, (list) => `Spells, or goes on with, an entry of the list “${list}”.`],
  [/^([A-Z]\w*):(.+)$/s, (name, value) => `${name}: ${VALUES[value] ?? value}.`],
];
const KINDS = {
  ADJ: "adjective", ADP: "preposition", ADV: "adverb", AUX: "auxiliary verb", CCONJ: "conjunction", DET: "article",
  INTJ: "interjection", NOUN: "noun", NUM: "number", PRON: "pronoun", PROPN: "name", PUNCT: "punctuation",
  SCONJ: "conjunction of a clause", VERB: "verb",
};
const VALUES = {
  Fem: "feminine", Masc: "masculine", Neut: "neuter", Sing: "singular", Plur: "plural", Pres: "present", Past: "past",
  Fut: "future", Imp: "imperfect", Fin: "finite", Inf: "infinitive", Part: "participle", Ind: "indicative",
  Sub: "subjunctive", Cnd: "conditional",
};

/** A sentence on a part of the sum, or a feature. */
export function meaningOf(name) {
  for (const [pattern, told] of MEANINGS) {
    const found = pattern.exec(name);
    if (found) return told(...found.slice(1));
  }
  return `“${name}”: a feature of the text so far, with a weight of its own.`;
}
