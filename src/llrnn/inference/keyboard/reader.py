"""Reads what `llrnn export keyboard` wrote, with numpy alone: the best next words that begin with the letters typed.

    file = deflate( length of the header, header in JSON, arrays one after the other )
    h = LSTM(h, E[class of the word before])            score(x) = h·E[class of x] + c[class of x] + log b(x)
    b(x) + μ n(x) / (N + κ) in the place of b(x)        where words come again (`backgrounds.Recent`)

Weights are whole numbers of 8 bits, with a scale for each row. `reader.js` is the same, for pages.

    Keyboard.read("french.kb").complete(["la", "reine", "est"], "gr", 3)         [(word, log p), …]
"""

from __future__ import annotations

import unicodedata
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import CheckpointError
from llrnn.ground.files import StrPath, parse_json, read_file
from llrnn.text.inflections import Inflections

Floats = NDArray[np.float64]
_FRONT = 10  # words of each class: of all words, the best so many are among them
_LARGEST = 256_000_000  # bytes, unpacked
_TYPES = {"i8": np.int8, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "f32": np.float32}


class _WordPlace(NamedTuple):
    """What a keyboard file knows of a word: its classes as input and as output, its prior, and whether it is rare.

    `input_class`, `output_class`: indices of classes, sets of words with equal features; `log_b`: log of the prior, −∞
    where the word is not listed; `rare`: whether other forms of the word are expected after it, too.
    """

    input_class: int
    output_class: int
    log_b: float
    rare: bool


class Keyboard:
    """A keyboard file opened for completion: a small language model that needs numpy only.

    `content`: the bytes of the file (`Keyboard.read` opens it by its path); `words`: the words that it can propose,
    sorted; `header`: what the file says of itself, a dict.

        Keyboard.read("french.kb").complete(["la", "reine", "est"], "gr", k=3)
    """

    def __init__(self, content: bytes) -> None:
        unpacked = zlib.decompressobj()
        raw = unpacked.decompress(content, _LARGEST)
        if not unpacked.eof:
            raise ValueError(f"it is cut short, or has more than {_LARGEST:,} bytes")
        start = 4 + int.from_bytes(raw[:4], "little")
        self.header: dict[str, Any] = parse_json(raw[4:start])
        found: dict[str, Any] = {}
        for name, kind, shape in self.header["arrays"]:
            size = int(np.prod(shape)) * np.dtype(_TYPES[kind]).itemsize
            found[name] = np.frombuffer(raw, _TYPES[kind], int(np.prod(shape)), start).reshape(shape)
            start += size
        wide = {
            name: found[name] * found[f"{name}.scale"].astype(np.float64)[:, None] for name in self.header["scaled"]
        }
        self._a, self._m = found, wide
        self.words: list[str] = raw[start:].decode().split("\n")
        self._keys = [word.encode("utf-16-be") for word in self.words]
        low, step = self.header["log_b"]
        self._log_b = low + step * found["log_b"].astype(np.float64)
        order = np.lexsort((-self._log_b, found["class"]))
        first = np.searchsorted(found["class"][order], found["class"][order])
        self._front = np.sort(order[np.arange(len(order)) - first < _FRONT])  # the best words of every class
        self._read: list[tuple[str, list[Floats], Floats, Floats]] = []  # word, state, what `_step` returns beside it
        own = self.header.get("recent")
        self._inflections = Inflections((own and own["rules"]) or {})
        self._find, self._counts_for = lru_cache(100_000)(self._place), lru_cache(100_000)(self._forms)

    @classmethod
    def read(cls, path: StrPath) -> Keyboard:
        """Return the keyboard in a file that `llrnn export keyboard` or `export_keyboard` wrote.

        Raises CheckpointError where it is missing, cut short or another file.
        """
        try:
            return cls(read_file(path))
        except (OSError, ValueError, LookupError, TypeError, zlib.error) as cause:
            wanted = "a whole file of `llrnn export keyboard` is required"
            raise CheckpointError(f"{path}: {wanted} ({cause}); write it anew") from None

    def complete(
        self, prefix: Sequence[str], letters: str = "", k: int = 3, before: Sequence[str] = ()
    ) -> list[tuple[str, float]]:
        """Return the k most probable words after `prefix` that begin with `letters`: (word, log p in nats), best first.

        `prefix`: the words of the sentence so far; those that the model does not know are skipped. `before`: the words
        that the user wrote before this sentence, last one last, which may come again. Fewer than k are returned where
        fewer words begin so; equal ones are in the order of their spelling. Letters keep the capitals that were typed.
        """
        small = self.header["lowercase"]
        prefix, before = ([word.lower() if small else word for word in text] for text in (prefix, before))
        scores, weights = self._after(prefix)
        again, log_z = self._again(before, prefix, scores, weights)
        typed = letters.lower() if small else letters
        key = typed.encode("utf-16-be")
        start = bisect_left(self._keys, key, key=lambda one: one[: len(key)])
        stop = bisect_right(self._keys, key, start, key=lambda one: one[: len(key)])
        most = k + len(again)
        at = self._front if not letters and most <= _FRONT else np.arange(start, stop)
        log_p = scores[self._a["class"][at]] + self._log_b[at]
        few = np.flatnonzero(log_p >= np.partition(log_p, -most)[-most]) if len(log_p) > most else np.arange(len(log_p))
        found = {self.words[at[i]]: float(log_p[i]) for i in few}
        found |= {word: log for word, log in again.items() if word.startswith(typed)}
        best = sorted(found.items(), key=lambda one: (-one[1], one[0].encode("utf-16-be")))[:k]
        return [(letters + word[len(typed) :], log - log_z) for word, log in best]

    def _again(
        self, before: Sequence[str], prefix: Sequence[str], scores: Floats, weights: Floats
    ) -> tuple[dict[str, float], float]:
        """Return unnormalised log p of words that came in the text, or whose other forms did, and the log-normaliser.

        The latter, log Z, is to be subtracted from log p of all words; {} and 0.0 for a file in which words do not come
        again. `before`, `prefix`: the words before the sentence, and in it; `scores`, `weights`: what `_after` returns.
        Strings that are neither listed nor were typed count in Z alone.
        """
        own = self.header.get("recent")
        if own is None:
            return {}, 0.0
        text, said = ([word for word in part if self._find(word)] for part in (before[-own["window"] :], prefix))
        fading = np.inf if own["fading"] is None else own["fading"]
        f = [1 / (1 + (len(text) - i) / fading) for i in range(len(text))] + [1.0] * len(said)
        n, typed = dict[str, float](), {*text, *said}
        for word, weight in zip([*text, *said], f, strict=True):
            for form, share in self._counts_for(word).items():
                n[form] = n.get(form, 0.0) + weight * share
        rate, gone, come, found = own["mu"] / (sum(f) + own["kappa"]), 0.0, 0.0, dict[str, float]()
        for word, count in n.items():
            place = self._find(word)
            assert place is not None
            score, b = scores[place.output_class], np.exp(place.log_b)
            new = score + weights @ ([word] == prefix[-1:], word in said) + np.log(b + rate * count)
            gone, come = gone + b * np.exp(score), come + np.exp(new)
            if b or word in typed:
                found[word] = float(new)
        return found, float(np.log(max(1.0 - gone, 0.0) + come))

    def _forms(self, word: str) -> dict[str, float]:
        """Return {form: share} that a word in the text counts for: the word and, if it is rare, its other forms.

        Shares sum to one. Other forms are inflected ones that the file knows; together they have at most the share
        that the file's header states (`header["recent"]["share"]`), and the word itself has the rest.
        """
        place, share = self._find(word), self.header["recent"]["share"]
        rare = self._inflections.forms(word) if place and place.rare else {}
        forms = {form: share * one for form, one in rare.items() if self._find(form)}
        return {**forms, word: 1.0 - sum(forms.values())}

    def _after(self, words: Sequence[str]) -> tuple[Floats, Floats]:
        """Return log p(x) − log b(x) of the words x of each class, (G,), after `words`, and two feature weights, (2,).

        A class is a set of words with equal features, b the prior. The weights are those of being the word that came
        last, and of being a word of the sentence. Unknown words are skipped. States of prefixes are cached: only words
        after the longest common prefix with the last call are read.
        """
        known = self._read
        if not known:
            known.append(("", *self._step([np.zeros(n) for n in self.header["state"]], self.header["eos"])))
        same = 0
        while same < min(len(words), len(known) - 1) and known[same + 1][0] == words[same]:
            same += 1
        del known[same + 1 :]
        for word in words[same:]:
            place = self._find(word)
            known.append((word, *(known[-1][1:] if place is None else self._step(known[-1][1], place.input_class))))
        return known[-1][2:]

    def _step(self, state: list[Floats], number: int) -> tuple[list[Floats], Floats, Floats]:
        x, after = self._m["embedding"][number], []
        for layer in range(len(state) // 2):
            h, c = state[2 * layer], state[2 * layer + 1]
            z = self._m[f"input.{layer}"] @ x + self._m[f"hidden.{layer}"] @ h + self._a[f"bias.{layer}"]
            i, f, g, o = np.split(z, 4)
            c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            x = np.tanh(c) / (1 + np.exp(-o))
            after += [x, c]
        scores = self._m["output"] @ x + self._a["offset"]
        whole = scores + self._a["log_mass"]
        again = self._m["again"] @ x + self._a["again_offset"] if "again" in self._m else np.zeros(2)
        return after, scores - (whole.max() + np.log(np.exp(whole - whole.max()).sum())), again

    def _place(self, word: str) -> _WordPlace | None:
        """Return the classes and log prior of a word, or else of the set of strings that it belongs to (as numbers do).

        None for a word that is neither listed nor in any of these sets.
        """
        key = word.encode("utf-16-be")
        at = bisect_left(self._keys, key)
        if at < len(self._keys) and self._keys[at] == key:
            rare = "rare" in self._a and bool(self._a["rare"][at])
            return _WordPlace(int(self._a["input_class"][at]), int(self._a["class"][at]), float(self._log_b[at]), rare)
        for n, domain in enumerate(self.header["domains"]):
            moves, state = self._a[f"moves.{n}"], 0
            for character in word:
                state = int(moves[state, _column(domain["characters"], character)])
            label = int(self._a[f"labels.{n}"][state]) - 1
            if label >= 0 and word:
                band = sum(len(word) > edge for edge in domain["edges"])
                names = [name for name in (f"cells.{n}", f"output_cells.{n}") if name in self._a]
                own = [int(self._a[name][label, band]) for name in names]
                return _WordPlace(own[0], own[-1], -np.inf, True)
        return None


def _column(characters: str, character: str) -> int:
    """Return the column of a character in an automaton's table: its index in `characters`, or else that of its kind.

    Kinds come after `characters`, in this order: lowercase, uppercase, digits, white space, other signs.
    """
    at, category = characters.find(character), unicodedata.category(character)
    if at >= 0:
        return at
    kind = 3 if character.isspace() else 1 if category in ("Lu", "Lt") else 0 if category[0] in "LM" else 4
    return len(characters) + (2 if category == "Nd" else kind)
