"""The oracles of n-gram models: dictionaries and recursions in pure Python. They share no code with the library.

`KneserNey` is the interpolated formula itself, written with counts; `log_p` walks down a table's back-off weights.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from brute import Array
from llrnn.languages.ngrams import NGramTable
from llrnn.languages.ngrams.table import Level

BOUNDARY = "</s>"  # the end of a sentence as a word, the beginning as a context
FALLBACK = (0.5, 1.0, 1.5)

Gram = tuple[str, ...]
Grams = Mapping[Gram, tuple[float, float]]  # log p, log of the back-off weight


@dataclass
class KneserNey:
    """Modified Kneser-Ney from the equations: adjusted counts, three discounts an order, pruning, interpolation."""

    sentences: Sequence[Sequence[str]]
    words: Sequence[str]
    order: int
    min_counts: Sequence[int] = ()

    def __post_init__(self) -> None:
        lines = [(BOUNDARY, *sentence, BOUNDARY) for sentence in self.sentences]
        self.raw: dict[int, Counter[Gram]] = {}
        for n in range(1, self.order + 1):
            ends = ((line, end) for line in lines for end in range(max(n - 1, 1), len(line)))
            counted = Counter(line[end - n + 1 : end + 1] for line, end in ends)
            if counted:
                self.raw[n] = counted
        self.order = len(self.raw)
        self.adjusted = {n: self._adjusted(n) for n in self.raw}
        self.discounts = {n: self._discounts(n) for n in self.raw}
        self.following: dict[Gram, list[Gram]] = defaultdict(list)
        for n in self.raw:
            for gram in self.adjusted[n]:
                self.following[gram[:-1]].append(gram)
        self._remembered: dict[tuple[Gram, str], float] = {}

    def _adjusted(self, n: int) -> dict[Gram, int]:
        if n == self.order:
            return dict(self.raw[n])
        before: dict[Gram, set[str]] = defaultdict(set)
        for first, *rest in self.raw[n + 1]:
            before[tuple(rest)].add(first)
        return {
            gram: count if n > 1 and gram[0] == BOUNDARY else len(before[gram]) for gram, count in self.raw[n].items()
        }

    def _discounts(self, n: int) -> tuple[float, float, float]:
        t = Counter(self.adjusted[n].values())
        if not all(t[k] for k in (1, 2, 3, 4)):
            return FALLBACK
        y = t[1] / (t[1] + 2 * t[2])
        one, two, three = (k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3))
        return (one, two, three) if 0 < one <= 1 and 0 < two <= 2 and 0 < three <= 3 else FALLBACK

    @cached_property
    def kept(self) -> set[Gram]:
        """The n-grams that pruning leaves, unigrams aside."""
        limits = list(self.min_counts) or [0]
        kept: set[Gram] = set()
        for n, counts in self.raw.items():
            limit = limits[min(n, len(limits)) - 1]
            for gram in (gram for gram, count in counts.items() if count >= limit):
                kept |= {gram[i:j] for i in range(n) for j in range(i + 1, n + 1)}
        return kept

    def _discounted(self, gram: Gram) -> float:
        n, a = len(gram), self.adjusted[len(gram)][gram]
        if a == 0 or (n > 1 and gram not in self.kept):
            return 0.0
        return max(0.0, a - self.discounts[n][min(a, 3) - 1])

    def p(self, context: Gram, word: str) -> float:
        """p(word | context), the context cut to what the order can see."""
        context = context[max(0, len(context) - self.order + 1) :]
        if (context, word) not in self._remembered:
            self._remembered[context, word] = self._p(context, word)
        return self._remembered[context, word]

    def _p(self, context: Gram, word: str) -> float:
        shorter = self.p(context[1:], word) if context else 1.0 / len(self.words)
        grams = self.following.get(context, [])
        total = sum(self.adjusted[len(gram)][gram] for gram in grams)
        if total == 0:
            return shorter
        left = 1.0 - math.fsum(self._discounted(gram) for gram in grams) / total
        gram = (*context, word)
        own = self._discounted(gram) / total if gram in self.adjusted[len(gram)] else 0.0
        return own + left * shorter

    def log_probs(self, context: Gram) -> list[float]:
        """log p of every word."""
        return [math.log(self.p(context, word)) for word in self.words]


def stream_of(sentences: Iterable[Sequence[str]], words: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A text as the estimator takes it: the boundary, a sentence, the boundary, ..."""
    joined = [BOUNDARY] + [word for sentence in sentences for word in (*sentence, BOUNDARY)]
    return np.array([words.index(word) for word in joined])


def contexts(words: Sequence[str], longest: int) -> list[Gram]:
    """Every context of up to so many words."""
    return [context for n in range(longest + 1) for context in product(words, repeat=n)]


def listed(table: NGramTable) -> dict[Gram, tuple[float, float]]:
    """The n-grams of a table with their words written out."""
    found: dict[Gram, tuple[float, float]] = {}
    below: list[Gram] = [()]
    for level in table.levels:
        here: list[Gram] = []
        for context, word, p, weight in zip(level.context, level.word, level.log_prob, level.log_backoff, strict=True):
            here.append((*below[context], table.words[word]))
            found[here[-1]] = (float(p), float(weight))
        assert len(set(here)) == len(here)
        below = here
    return found


def table_of(words: Sequence[str], grams: Grams) -> NGramTable:
    """The inverse: each level sorted by context and word, contexts by their place in the level below."""
    place: dict[Gram, int] = {(): 0}
    levels = []
    for n in range(1, max(len(gram) for gram in grams) + 1):
        here = sorted((gram for gram in grams if len(gram) == n), key=lambda g: (place[g[:-1]], words.index(g[-1])))
        place |= {gram: i for i, gram in enumerate(here)}
        levels.append(
            Level(
                np.array([place[gram[:-1]] for gram in here]),
                np.array([words.index(gram[-1]) for gram in here]),
                np.array([grams[gram][0] for gram in here]),
                np.array([grams[gram][1] for gram in here]),
            )
        )
    return NGramTable(tuple(words), tuple(levels))


def spread_out(grams: Grams, symbols: Sequence[str], unknown: str | None = None) -> dict[Gram, tuple[float, float]]:
    """An ARPA file over other words: those that it lacks are `<unk>`, wherever it stands, one n-gram each.

    As the last word they have equal parts of it. Those that the symbols lack are left out; `unknown` is the symbol that
    `<unk>` becomes, and has a part as well.
    """
    name = unknown or "<unk>"
    listed = {name if gram == ("<unk>",) else gram[0] for gram in grams if len(gram) == 1}
    missing = [word for word in symbols if word not in listed]
    stands_for = {word: [word] for word in symbols if word in listed}
    stands_for["<unk>"] = [*missing, *([name] if name in symbols else [])]
    part = math.log(len(stands_for["<unk>"])) if missing else 0.0
    found: dict[Gram, tuple[float, float]] = {}
    for gram, (p, weight) in grams.items():
        for copy in product(*(stands_for.get(word, []) for word in gram)):
            found[copy] = (p - part if gram[-1] == "<unk>" else p, weight)
    return found


def log_p(grams: Grams, context: Gram, word: str) -> float:
    """Back-off, by its definition."""
    if (*context, word) in grams:
        return grams[*context, word][0]
    return grams.get(context, (0.0, 0.0))[1] + log_p(grams, context[1:], word)


def drawn_grams(words: Sequence[str], order: int, draw: random.Random) -> dict[Gram, tuple[float, float]]:
    """What an ARPA file may list: any n-gram whose context is listed, with any weights; boundaries at its ends."""
    found: dict[Gram, tuple[float, float]] = {}
    here: list[Gram] = [()]
    for n in range(order):
        inner = [gram for gram in here if BOUNDARY not in gram[1:]]
        here = [(*gram, word) for gram in inner for word in words if n == 0 or draw.random() < 0.5]
        found |= {gram: (-3.0 * draw.random() - 0.1, 2.0 * draw.random() - 1.5) for gram in here}
    return {gram: (p, weight if len(gram) < order else 0.0) for gram, (p, weight) in found.items()}


def written_out(grams: Grams, words: Sequence[str], seen: Iterable[Gram]) -> Array:
    """log p of every word after each of the contexts, (N, V)."""
    longest = max(len(gram) for gram in grams) - 1
    cut = (context[max(0, len(context) - longest) :] for context in seen)
    return np.array([[log_p(grams, context, word) for word in words] for context in cut]).reshape(-1, len(words))
