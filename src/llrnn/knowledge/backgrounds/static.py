"""Backgrounds that do not look at the context: all symbols alike, or each by how often it was seen.

Of an open vocabulary (see `text.domain`), a cell has the mass of all its strings that are not listed. How much that is
follows from the words that were seen once (Good and Turing): a word of theirs would have been new, had the text been
one word shorter. `Discounted` takes from each count what it is too high by, and gives it to the words of a frequency
list and to the cells:

    b(x) = (n(x) − D) / N                                        words that were seen
    b(x) = F · (1 − u) · f(x) / Σ f                              words of a list f that were not; F: what D took, over N
    b(c) = F · u · n₁(d) / n₁ · (n₁(c) + κ Q'(c) / Q'(d)) / (n₁(d) + κ)             cells c of domains d
    u = n₁ / (all words seen once)                               n₁: words seen once that f does not list

κ, how many words a domain's own opinion of its cells is worth, is the one under which each of the words seen once is
likeliest given the others. Words that train as new are left out of n₁(c): a model would see them counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import Self

import numpy as np
import torch

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds.base import Background, Static, UnboundBackground
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import MINUS_INFINITY, Prior, SparsePrior, Table
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import read_frequencies
from llrnn.text.vocabulary import EOS, Revision, Vocabulary


class Uniform(UnboundBackground):
    """1/|V| for every symbol: no prior belief."""

    is_static = True

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        if vocabulary.is_open:
            last = len(vocabulary) - 1  # of a spelling, the longest strings
            raise BackgroundError(
                f"a uniform background over an infinite vocabulary has no finite mass: the cell "
                f"{vocabulary.symbols[last]} alone holds {', '.join(map(repr, vocabulary.witnesses[last]))} and so on; "
                "take Unigram or Discounted"
            )
        log_b = torch.full((len(vocabulary),), -math.log(len(vocabulary)), dtype=torch.float64)
        return Static(log_b, name=repr(self)).bind(vocabulary)


class Unigram(UnboundBackground):
    """Relative frequency, with `smoothing` added to every count (0 leaves unseen symbols without mass).

    Unigram.from_corpus(train, smoothing=0.1)
    """

    is_static = True

    def __init__(self, counts: Mapping[str, float], *, smoothing: float = 0.0) -> None:
        if not (smoothing >= 0 and math.isfinite(smoothing)):
            raise BackgroundError(f"smoothing must be a finite number of 0 or more, found {smoothing}")
        self._counts, self._smoothing = _checked(counts), smoothing

    @classmethod
    def from_corpus(cls, *corpora: Corpus, smoothing: float = 0.0) -> Unigram:
        """Counts of words, and of ends of sentences, in the corpora."""
        counts: Counter[str] = Counter()
        for corpus in corpora:
            counts.update(corpus.counts())
            counts[EOS] += len(corpus)
        return cls(counts, smoothing=smoothing)

    @classmethod
    def from_file(cls, path: str | PathLike[str], *, smoothing: float = 0.0) -> Unigram:
        """Counts from a frequency file: a form and its count on each line."""
        return cls(read_frequencies(path), smoothing=smoothing)

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        counts = dict(self._counts)
        if vocabulary.unknown is not None:
            outside = sum(count for symbol, count in counts.items() if symbol not in vocabulary)
            counts[vocabulary.unknown] = counts.get(vocabulary.unknown, 0.0) + outside
        mass = np.array([counts.get(word, 0.0) for word in vocabulary.words]) + self._smoothing
        if vocabulary.is_open:
            seen_once = sum(counts.get(word, 0.0) == 1 for word in vocabulary.words)
            mass = np.concatenate([mass, _cell_mass(vocabulary, counts, extra=max(1.0, seen_once))])
        if not mass.sum() > 0:
            raise BackgroundError(
                f"{self!r} knows none of the {len(vocabulary)} symbols: take counts of the same text, or smoothing"
            )
        return _static(mass, repr(self), vocabulary)

    def __repr__(self) -> str:
        return f"Unigram({len(self._counts)} types, smoothing={self._smoothing:g})"


class Discounted(UnboundBackground):
    """Counts that are discounted for the benefit of new words: those of a frequency list, and those of the cells."""

    is_static = True

    def __init__(self, counts: Mapping[str, float], frequencies: Mapping[str, float] | None = None) -> None:
        self._counts, self._frequencies = _checked(counts), _checked(frequencies or {})

    @classmethod
    def from_corpus(cls, *corpora: Corpus, frequencies: Mapping[str, float] | None = None) -> Discounted:
        """Counts of words, and of ends of sentences, in the corpora."""
        return cls(Unigram.from_corpus(*corpora)._counts, frequencies)

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        n = np.array([self._counts.get(word, 0.0) for word in vocabulary.words])
        f = np.array([self._frequencies.get(word, 0.0) for word in vocabulary.words]) * (n == 0)
        once = {word: 1.0 for word, count in self._counts.items() if count == 1 and word not in self._frequencies}
        seen_once = sum(count == 1 for count in self._counts.values())
        taken = np.minimum(absolute_discount(self._counts), n)
        freed = float(taken.sum()) + sum(count for word, count in self._counts.items() if word not in vocabulary)
        share_new = 0.0  # how much of what is new is in no list: all or nothing if there is no list, or no cell
        if vocabulary.is_open:
            share_new = (len(once) + 1.0) / (seen_once + 2.0) if f.sum() > 0 else 1.0
        mass = n - taken + (freed * (1 - share_new) * f / f.sum() if f.sum() > 0 else 0.0)  # seen words have f = 0
        if vocabulary.is_open:
            mass = np.concatenate([mass, freed * share_new * self._cells(vocabulary, once)])
        return _static(mass, repr(self), vocabulary)

    def _cells(self, vocabulary: Vocabulary, once: Mapping[str, float]) -> Floats:
        """The shares of the cells in what they have together, (C,)."""
        counted = {word: 1.0 for word in once if word not in vocabulary.as_new}
        ends = np.cumsum([len(domain.cells) for domain in vocabulary.domains])[:-1]
        n, opinion = _cell_mass(vocabulary, counted, extra=0.0), _spread(vocabulary)
        shares = []
        for own, spread in zip(np.split(n, ends), np.split(opinion, ends), strict=True):
            worth = _leave_one_out(own, spread)
            within = (own + worth * spread) / (own.sum() + worth)
            shares.append((own.sum() + 0.5) * within if spread.any() else 0.0 * spread)
        whole = np.concatenate(shares)
        return np.asarray(whole / whole.sum(), dtype=np.float64)

    def __repr__(self) -> str:
        return f"Discounted({len(self._counts)} types, {len(self._frequencies)} frequencies)"


def _checked(counts: Mapping[str, float]) -> dict[str, float]:
    for symbol, count in counts.items():
        if not (count >= 0 and math.isfinite(count)):
            raise BackgroundError(f"the count of {symbol!r} must be finite and 0 or more, found {count}")
    return dict(counts)


def _leave_one_out(n: Floats, opinion: Floats) -> float:
    """κ: under which the product of (n(c) − 1 + κ o(c)) / (n − 1 + κ) over all n is largest, from 10 to a million.

    Not below 10: a few words say little about the cells that none of them is in.
    """
    seen = (n > 0) & (opinion > 0)
    if n.sum() < 2:
        return 10.0

    def likelihood(worth: float) -> float:
        left = (n[seen] - 1 + worth * opinion[seen]) / (n.sum() - 1 + worth)
        return float((n[seen] * np.log(left)).sum())

    worths = [float(10.0 ** (k / 10)) for k in range(10, 61)]
    return max(worths, key=likelihood)


def absolute_discount(counts: Mapping[str, float]) -> float:
    """D = n₁ / (n₁ + 2 n₂), the least that makes up for what was not seen (Ney, Essen and Kneser 1994).

    A text too small to have words that were seen twice would lose all that were seen once: D is then 0.5.
    """
    once, twice = (sum(count == k for count in counts.values()) for k in (1, 2))
    return once / (once + 2 * twice) if once and twice else 0.5


def _cell_mass(vocabulary: Vocabulary, counts: Mapping[str, float], *, extra: float) -> Floats:
    """Counts of words by the cells they are in, and `extra` words spread as the domains weigh their cells, (C,)."""
    log_left = np.concatenate(vocabulary.cell_log_mass)
    mass = extra / len(vocabulary.domains) * _spread(vocabulary)
    words = [word for word in counts if word not in (EOS, vocabulary.unknown)]
    cells = vocabulary.cells_of(words) - len(vocabulary.words)
    for cell, word in zip(cells.tolist(), words, strict=True):
        if cell >= 0 and log_left[cell] > -np.inf:
            mass[cell] += counts[word]
    return mass


def _spread(vocabulary: Vocabulary) -> Floats:
    """How each domain spreads its mass over its cells; one for each domain, (C,)."""
    spread = []
    for left in vocabulary.cell_log_mass:
        whole = np.logaddexp.reduce(left)
        spread.append(np.exp(left - whole) if whole > -np.inf else np.zeros(len(left)))  # all of its strings are listed
    return np.concatenate(spread)


def _static(mass: Floats, name: str, vocabulary: Vocabulary) -> Static:
    with np.errstate(divide="ignore"):
        log_b = torch.from_numpy(np.log(mass / mass.sum()))
    return Static(log_b, name=name).bind(vocabulary)


Choice = Collection[str] | Callable[[object, tuple[str, ...]], Iterable[str]]
MaskState = tuple[object, tuple[str, ...]]  # the condition, and the words of the sentence so far


class Mask(Background[MaskState]):
    """1 for what is allowed, 0 for what is forbidden.

    Give either `allowed` or `forbidden`: a set of symbols that holds everywhere, or a function that returns one for
    (condition, words of the sentence so far). Its words are then the exceptions at each position, whatever |V| is.

        Mask(forbidden={"<unk>"})
        Mask(allowed=lambda condition, prefix: ("a", "b") if len(prefix) < 3 else ("</s>",))
    """

    _table: Table  # once it is bound

    def __init__(self, *, allowed: Choice | None = None, forbidden: Choice | None = None) -> None:
        if (allowed is None) == (forbidden is None):
            raise BackgroundError("Mask takes either allowed=... or forbidden=..., one of them")
        self._allows = allowed is not None
        self._choice: Choice = allowed if allowed is not None else forbidden or frozenset()

    @property
    def is_static(self) -> bool:
        return not callable(self._choice)

    @property
    def _own(self) -> float:
        """log b of the chosen words."""
        return 0.0 if self._allows else MINUS_INFINITY

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        log_b = torch.full((len(vocabulary),), MINUS_INFINITY if self._allows else 0.0, dtype=torch.float64)
        if not callable(self._choice):
            log_b[vocabulary.ids(sorted(self._choice), place=repr(self))] = self._own
        bound._table = Table(log_b)
        return bound

    def revised(self, revision: Revision) -> Self:
        """A new word is one of the others: forbidden if only the chosen are allowed, and allowed if they are not."""
        return self.bind(revision.vocabulary)

    def initial(self, condition: object = None) -> MaskState:
        return condition, ()

    def advance(self, state: MaskState, symbol: int) -> MaskState:
        condition, prefix = state
        if symbol == self.vocabulary.eos:
            return condition, ()
        return condition, (*prefix, self.vocabulary.symbols[symbol])

    def prior(self, states: Sequence[MaskState]) -> Prior:
        vocabulary = self.vocabulary
        if not callable(self._choice):
            return SparsePrior.static(self._table)
        chosen = [self._choice(condition, prefix) for condition, prefix in states]
        ids = [vocabulary.ids(words, place=repr(self)) for words in chosen]
        return SparsePrior.listed(self._table, [dict.fromkeys(row, self._own) for row in ids])

    @property
    def _given(self) -> str:
        return "allowed" if self._allows else "forbidden"

    def saved(self) -> Saved:
        return super().saved() if callable(self._choice) else Saved("mask", {self._given: sorted(self._choice)})

    def __repr__(self) -> str:
        if callable(self._choice):
            return f"Mask({self._given}={getattr(self._choice, '__name__', repr(self._choice))})"
        return f"Mask({self._given}={len(self._choice)} symbols)"
