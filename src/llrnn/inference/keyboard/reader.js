// Reads what `llrnn export keyboard` wrote: the same as reader.py, number by number, for pages.
//
//     const keyboard = await Keyboard.read(bytes);
//     keyboard.complete(["la", "reine", "est"], "gr", 3, ["le", "roi", "dort", "."])          // [[word, log p], …]
const TYPES = { i8: Int8Array, u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array };

class Keyboard {
  static async read(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Keyboard(await new Response(stream).arrayBuffer());
  }

  constructor(raw) {
    let start = 4 + new DataView(raw).getUint32(0, true);
    this.header = JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 4, start - 4)));
    this.a = {}; // arrays as they are, and how wide their rows are
    this.width = {};
    for (const [name, kind, shape] of this.header.arrays) {
      const size = shape.reduce((x, y) => x * y, 1) * TYPES[kind].BYTES_PER_ELEMENT;
      this.a[name] = new TYPES[kind](raw.slice(start, start + size));
      this.width[name] = shape[1];
      start += size;
    }
    this.m = {};
    for (const name of this.header.scaled) {
      const whole = this.a[name], scale = this.a[`${name}.scale`], width = this.width[name];
      const wide = (this.m[name] = new Float64Array(whole.length));
      for (let i = 0, at = 0; i < scale.length; i++) for (let j = 0; j < width; j++, at++) wide[at] = whole[at] * scale[i];
    }
    this.words = new TextDecoder().decode(new Uint8Array(raw, start)).split("\n");
    const [low, step] = this.header.log_b;
    this.logB = new Float64Array(this.words.length);
    for (let i = 0; i < this.words.length; i++) this.logB[i] = low + step * this.a.log_b[i];
    this.known = []; // of the words so far: [word, state, log of what each class has, weights of words that come again]
    this.places = new Map();
  }

  // The k best words and their log p, best first; of words that tie, the first by spelling. The words before the sentence
  // may come again.
  complete(prefix, letters = "", k = 3, before = []) {
    const small = this.header.lowercase;
    [prefix, before] = [prefix, before].map((text) => text.map((word) => (small ? word.toLowerCase() : word)));
    const [scores, weights] = this.after(prefix);
    const [again, logZ] = this.again(before, prefix, scores, weights);
    const typed = small ? letters.toLowerCase() : letters;
    const start = this.first((word) => word.slice(0, typed.length) >= typed);
    const stop = this.first((word) => word.slice(0, typed.length) > typed);
    const best = [];
    const add = (word, logP) => {
      if (best.length === k && logP < best[k - 1][1]) return;
      let at = best.length;
      while (at > 0 && (best[at - 1][1] < logP || (best[at - 1][1] === logP && best[at - 1][0] > word))) at--;
      best.splice(at, 0, [word, logP]);
      best.length = Math.min(best.length, k);
    };
    for (let i = start; i < stop; i++) if (!again.has(this.words[i])) add(this.words[i], scores[this.a.class[i]] + this.logB[i]);
    for (const [word, logP] of again) if (word.startsWith(typed)) add(word, logP);
    return best.map(([word, logP]) => [letters + word.slice(typed.length), logP - logZ]);
  }

  // log p of the words that came, or whose other forms did, and log Z, by which all words are less.
  again(before, prefix, scores, weights) {
    const own = this.header.recent, n = new Map(), found = new Map();
    if (!own) return [found, 0];
    const [text, said] = [before.slice(-own.window), prefix].map((part) => part.filter((word) => this.place(word)));
    const typed = new Set([...text, ...said]), inSentence = new Set(said);
    let total = own.kappa, gone = 0, come = 0;
    const count = (word, weight) => {
      total += weight;
      for (const [form, share] of (this.place(word).forms ??= this.forms(word, own))) n.set(form, (n.get(form) || 0) + weight * share);
    };
    text.forEach((word, i) => count(word, own.fading === null ? 1 : 1 / (1 + (text.length - i) / own.fading)));
    said.forEach((word) => count(word, 1));
    for (const [word, sum] of n) {
      const { output, logB } = this.place(word), b = Math.exp(logB), score = scores[output];
      const isLast = word === prefix[prefix.length - 1];
      const logP = score + isLast * weights[0] + inSentence.has(word) * weights[1] + Math.log(b + (own.mu * sum) / total);
      gone += b * Math.exp(score);
      come += Math.exp(logP);
      if (b || typed.has(word)) found.set(word, logP);
    }
    return [found, Math.log(Math.max(1 - gone, 0) + come)];
  }

  // What a word that was read counts for: itself and, if it is rare, its other forms, as `Inflections` has them.
  forms(word, own) {
    const letters = [...word], rate = new Map(), rare = own.rules && this.place(word).rare;
    for (let size = 0; rare && size <= Math.min(4, letters.length - 4); size++) {
      const stem = letters.slice(0, letters.length - size).join("");
      for (const [other, r] of Object.entries(own.rules[letters.slice(letters.length - size).join("")] || {}))
        rate.set(stem + other, Math.max(r, rate.get(stem + other) || 0));
    }
    const best = [...rate].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).slice(0, 40);
    const total = best.reduce((sum, [, r]) => sum + r, 0);
    const forms = best.filter(([form]) => this.place(form)).map(([form, r]) => [form, (own.share * r) / total]);
    return [...forms, [word, 1 - forms.reduce((sum, [, share]) => sum + share, 0)]];
  }

  // The words of a text, and the letters of the last one if it is being typed: a chunk that is not listed (qu'il) is cut
  // next to signs into a listed word, the longest, and the rest. What ends with an apostrophe and is listed (qu') is done.
  split(text) {
    this.curly ??= this.words.some((word) => word.includes("’"));
    const plain = this.curly ? text : text.replaceAll("’", "'");
    const words = plain.split(/\s+/).filter(Boolean).flatMap((chunk) => this.cut(chunk));
    const last = words.at(-1) ?? "", isDone = !/\S$/.test(text) || (/['’]$/.test(last) && this.lists(last));
    return isDone ? [words, ""] : [words.slice(0, -1), last];
  }

  cut(chunk) {
    for (let end = chunk.length; end > 0; end--) {
      const word = chunk.slice(0, end);
      const isBetween = end === chunk.length || !/^[\p{L}\p{M}\p{N}]{2}/u.test(chunk.slice(end - 1));
      if (isBetween && this.lists(word)) return end === chunk.length ? [word] : [word, ...this.cut(chunk.slice(end))];
    }
    return [chunk];
  }

  lists(word) {
    const small = this.header.lowercase ? word.toLowerCase() : word;
    return this.words[this.first((one) => one >= small)] === small;
  }

  first(holds) {
    let low = 0, high = this.words.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (holds(this.words[middle])) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // a·φ − log Z of every class after these words, and the weights of the word that came last and of words of the sentence;
  // what was read before is not read again.
  after(words) {
    const known = this.known;
    if (!known.length) known.push(["", ...this.step(this.header.state.map((n) => new Float64Array(n)), this.header.eos)]);
    let same = 0;
    while (same < Math.min(words.length, known.length - 1) && known[same + 1][0] === words[same]) same++;
    known.length = same + 1;
    for (const word of words.slice(same)) {
      const [, ...last] = known[known.length - 1], place = this.place(word);
      known.push([word, ...(place === null ? last : this.step(last[0], place.input))]);
    }
    return known[known.length - 1].slice(2);
  }

  step(state, number) {
    const width = this.width.embedding, after = [];
    let x = this.m.embedding.subarray(number * width, (number + 1) * width);
    for (let layer = 0; 2 * layer < state.length; layer++) {
      const h = state[2 * layer], n = h.length, c = Float64Array.from(state[2 * layer + 1]);
      const zx = product(this.m[`input.${layer}`], x), zh = product(this.m[`hidden.${layer}`], h);
      const z = zx, bias = this.a[`bias.${layer}`];
      for (let i = 0; i < z.length; i++) z[i] += zh[i] + bias[i];
      x = new Float64Array(n);
      for (let i = 0; i < n; i++) {
        c[i] = c[i] / (1 + Math.exp(-z[n + i])) + Math.tanh(z[2 * n + i]) / (1 + Math.exp(-z[i]));
        x[i] = Math.tanh(c[i]) / (1 + Math.exp(-z[3 * n + i]));
      }
      after.push(x, c);
    }
    const scores = product(this.m.output, x), { offset, log_mass: mass } = this.a;
    let most = -Infinity, sum = 0;
    for (let i = 0; i < scores.length; i++) most = Math.max(most, (scores[i] += offset[i]) + mass[i]);
    for (let i = 0; i < scores.length; i++) sum += Math.exp(scores[i] + mass[i] - most);
    for (let i = 0; i < scores.length; i++) scores[i] -= most + Math.log(sum);
    const weights = this.m.again ? product(this.m.again, x).map((a, i) => a + this.a.again_offset[i]) : [0, 0];
    return [after, scores, weights];
  }

  // What is known of a word, or of the cell that it looks like; null where the model knows neither.
  place(word) {
    if (!this.places.has(word)) this.places.set(word, this.found(word));
    return this.places.get(word);
  }

  found(word) {
    const at = this.first((one) => one >= word), { class: output, input_class: input, rare } = this.a;
    if (this.words[at] === word) return { input: input[at], output: output[at], logB: this.logB[at], rare: rare && rare[at] };
    for (const [n, domain] of this.header.domains.entries()) {
      const moves = this.a[`moves.${n}`], characters = [...domain.characters];
      let state = 0;
      for (const one of word) state = moves[state * this.width[`moves.${n}`] + column(characters, one)];
      const label = this.a[`labels.${n}`][state] - 1;
      if (label < 0 || !word) continue;
      const band = domain.edges.filter((edge) => [...word].length > edge).length;
      const cell = label * this.width[`cells.${n}`] + band, outputs = this.a[`output_cells.${n}`];
      return { input: this.a[`cells.${n}`][cell], output: outputs && outputs[cell], logB: -Infinity, rare: true };
    }
    return null;
  }
}

function product(matrix, x) {
  const rows = matrix.length / x.length, found = new Float64Array(rows);
  for (let i = 0, at = 0; i < rows; i++) {
    let sum = 0;
    for (let j = 0; j < x.length; j++) sum += matrix[at++] * x[j];
    found[i] = sum;
  }
  return found;
}

// A column for each character told apart, then lowercase, uppercase, digits, white space, signs.
function column(characters, one) {
  const at = characters.indexOf(one);
  if (at >= 0) return at;
  const kind = /\s/u.test(one) ? 3 : /[\p{Lu}\p{Lt}]/u.test(one) ? 1 : /[\p{L}\p{M}]/u.test(one) ? 0 : 4;
  return characters.length + (/\p{Nd}/u.test(one) ? 2 : kind);
}

if (typeof module !== "undefined") module.exports = { Keyboard };
