// Reads what `llrnn export keyboard` wrote: the same as reader.py, number by number, for pages.
//
//     const keyboard = await Keyboard.read(bytes);
//     keyboard.complete(["la", "reine", "est"], "gr", 3)          // [[word, log p], …]
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
    this.known = []; // of the words so far: [word, state, log of what each class has]
  }

  // The k best words and their log p, best first; of words that tie, the first by spelling.
  complete(prefix, letters = "", k = 3) {
    const small = this.header.lowercase;
    const scores = this.after(prefix.map((word) => (small ? word.toLowerCase() : word)));
    const typed = small ? letters.toLowerCase() : letters;
    const start = this.first((word) => word.slice(0, typed.length) >= typed);
    const stop = this.first((word) => word.slice(0, typed.length) > typed);
    const best = [];
    for (let i = start; i < stop; i++) {
      const logP = scores[this.a.class[i]] + this.logB[i];
      if (best.length === k && logP <= best[k - 1][1]) continue;
      let at = best.length;
      while (at > 0 && best[at - 1][1] < logP) at--;
      best.splice(at, 0, [letters + this.words[i].slice(typed.length), logP]);
      best.length = Math.min(best.length, k);
    }
    return best;
  }

  // The words of a text, and the letters of the last one if it is being typed: a chunk that is not listed (qu'il) is cut
  // next to signs into a listed word, the longest, and the rest.
  split(text) {
    const words = text.split(/\s+/).filter(Boolean).flatMap((chunk) => this.cut(chunk));
    return [words, /\S$/.test(text) ? words.pop() : ""];
  }

  cut(chunk) {
    for (let end = chunk.length; end > 0; end--) {
      const word = chunk.slice(0, end), small = this.header.lowercase ? word.toLowerCase() : word;
      const isBetween = end === chunk.length || !/^[\p{L}\p{M}\p{N}]{2}/u.test(chunk.slice(end - 1));
      if (isBetween && this.words[this.first((one) => one >= small)] === small)
        return end === chunk.length ? [word] : [word, ...this.cut(chunk.slice(end))];
    }
    return [chunk];
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

  // a·φ − log Z of every class after these words; what was read before is not read again.
  after(words) {
    const known = this.known;
    if (!known.length) known.push(["", ...this.step(this.header.state.map((n) => new Float64Array(n)), this.header.eos)]);
    let same = 0;
    while (same < Math.min(words.length, known.length - 1) && known[same + 1][0] === words[same]) same++;
    known.length = same + 1;
    for (const word of words.slice(same)) {
      const [, state, scores] = known[known.length - 1], number = this.inputClass(word);
      known.push([word, ...(number === null ? [state, scores] : this.step(state, number))]);
    }
    return known[known.length - 1][2];
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
    return [after, scores];
  }

  // That of a word, or of the cell that it looks like; null where the model knows neither.
  inputClass(word) {
    const at = this.first((one) => one >= word);
    if (this.words[at] === word) return this.a.input_class[at];
    for (const [n, domain] of this.header.domains.entries()) {
      const moves = this.a[`moves.${n}`], cells = this.a[`cells.${n}`], characters = [...domain.characters];
      let state = 0;
      for (const one of word) state = moves[state * this.width[`moves.${n}`] + column(characters, one)];
      const label = this.a[`labels.${n}`][state] - 1;
      if (label < 0 || !word) continue;
      const band = domain.edges.filter((edge) => [...word].length > edge).length;
      return cells[label * this.width[`cells.${n}`] + band];
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
