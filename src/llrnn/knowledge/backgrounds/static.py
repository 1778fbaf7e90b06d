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

import copy
import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Self

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds.base import Background, Static
from llrnn.knowledge.process import Saved, State, States
from llrnn.layer.priors import MINUS_INFINITY, Exceptions, Prior, SparsePrior, Table
from llrnn.text import conditions
from llrnn.text.corpus import Corpus
from llrnn.text.corpus.acts import Act
from llrnn.text.lexicon import read_frequencies
from llrnn.text.vocabulary import EOS, Revision, Vocabulary


class _Unbound(Background):
    """A background that becomes a vector when it is bound."""

    @property
    def is_static(self) -> bool:
        return True

    def prior(self, states: States) -> Prior:
        raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")


class Uniform(_Unbound):
    """1/|V| for every symbol: no prior belief."""

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


class Unigram(_Unbound):
    """Relative frequency, with `smoothing` added to every count (0 leaves unseen symbols without mass)."""

    def __init__(self, counts: Mapping[str, float], *, smoothing: float = 0.0) -> None:
        if not (smoothing >= 0 and math.isfinite(smoothing)):
            raise BackgroundError(f"smoothing must be a finite number of 0 or more, found {smoothing}")
        for symbol, count in counts.items():
            if not (count >= 0 and math.isfinite(count)):
                raise BackgroundError(f"the count of {symbol!r} must be finite and 0 or more, found {count}")
        self._counts, self._smoothing = dict(counts), smoothing

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


class Discounted(_Unbound):
    """Counts that are discounted for the benefit of new words: those of a frequency list, and those of the cells."""

    def __init__(self, counts: Mapping[str, float], frequencies: Mapping[str, float] | None = None) -> None:
        for symbol, count in (*counts.items(), *(frequencies or {}).items()):
            if not (count >= 0 and math.isfinite(count)):
                raise BackgroundError(f"the count of {symbol!r} must be finite and 0 or more, found {count}")
        self._counts, self._frequencies = dict(counts), dict(frequencies or {})

    @classmethod
    def from_corpus(cls, *corpora: Corpus, frequencies: Mapping[str, float] | None = None) -> Discounted:
        """Counts of words, and of ends of sentences, in the corpora."""
        return cls(Unigram.from_corpus(*corpora)._counts, frequencies)

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        n = np.array([self._counts.get(word, 0.0) for word in vocabulary.words])
        f = np.array([self._frequencies.get(word, 0.0) for word in vocabulary.words]) * (n == 0)
        once = {word: 1.0 for word, count in self._counts.items() if count == 1 and word not in self._frequencies}
        seen_once = sum(count == 1 for count in self._counts.values())
        discount = absolute_discount(self._counts)
        taken = np.where(n > 0, np.minimum(discount, n), 0.0)
        outside = {word: count for word, count in self._counts.items() if word not in vocabulary}
        freed = float(taken.sum()) + sum(outside.values())
        share_new = self._share_of_cells(vocabulary, f, len(once), seen_once)
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

    def _share_of_cells(self, vocabulary: Vocabulary, f: Floats, once: int, seen_once: int) -> float:
        """How much of what is new is in no list, by the words that were seen once; all or nothing if one is missing."""
        if not vocabulary.is_open:
            return 0.0
        return (once + 1.0) / (seen_once + 2.0) if f.sum() > 0 else 1.0

    def __repr__(self) -> str:
        return f"Discounted({len(self._counts)} types, {len(self._frequencies)} frequencies)"


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


# Backgrounds that say what may and may not follow, and the factor by which a condition makes words likely.
#
# A mask is 1 or 0; `Priming`, the part of `Primed` that looks at the condition, is any number.


Choice = Collection[str] | Callable[[object, tuple[str, ...]], Iterable[str]]
Evidence = Callable[[object], Mapping[str, float]]


class Mask(Background):
    """1 for what is allowed, 0 for what is forbidden.

    Give either `allowed` or `forbidden`: a set of symbols that holds everywhere, or a function that returns one for
    (condition, words of the sentence so far). Its words are then the exceptions at each position, whatever |V| is.
    """

    def __init__(self, *, allowed: Choice | None = None, forbidden: Choice | None = None) -> None:
        if (allowed is None) == (forbidden is None):
            raise BackgroundError("Mask takes either allowed=... or forbidden=..., one of them")
        self._allows = allowed is not None
        self._choice: Choice = allowed if allowed is not None else forbidden or frozenset()
        self._table: Table | None = None

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

    def initial(self, condition: object = None) -> State:
        return condition, ()

    def advance(self, state: State, symbol: int) -> State:
        condition, prefix = state
        if symbol == self.vocabulary.eos:
            return condition, ()
        return condition, (*prefix, self.vocabulary.symbols[symbol])

    def prior(self, states: States) -> Prior:
        if self._table is None:
            raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        if not callable(self._choice):
            return SparsePrior.static(self._table)
        chosen = [self._choice(condition, prefix) for condition, prefix in states]
        ids = [self.vocabulary.ids(words, place=repr(self)) for words in chosen]
        return SparsePrior.listed(self._table, [dict.fromkeys(row, self._own) for row in ids])

    def saved(self) -> Saved:
        if callable(self._choice):
            return super().saved()
        name = "allowed" if self._allows else "forbidden"
        return Saved("mask", {name: sorted(self._choice)})

    def __repr__(self) -> str:
        name = "allowed" if self._allows else "forbidden"
        if callable(self._choice):
            return f"Mask({name}={getattr(self._choice, '__name__', repr(self._choice))})"
        return f"Mask({name}={len(self._choice)} symbols)"


def words_of(condition: object) -> dict[str, float]:
    """The evidence in a condition by default: every word of a text, of a sequence, of the values of a record or act."""
    if condition is None:
        return {}
    if isinstance(condition, str | Act | Mapping):
        return dict.fromkeys(conditions.words_of(condition), 1.0)
    if isinstance(condition, Iterable):
        return {word: 1.0 for value in condition for word in words_of(value)}
    return {str(condition): 1.0}


class Priming(Background):
    """The factor beside the base: evidence(C)[x] · boost, absent, or 1. Its state is log b of what has evidence."""

    def __init__(
        self, entities: Collection[str], evidence: Evidence, boost: float, absent: float, cells: bool = False
    ) -> None:
        self.entities, self.evidence, self.cells = frozenset(entities), evidence, cells
        self.boost, self.absent = float(boost), float(absent)
        self.ids: dict[str, int] = {}
        self._of_cells: frozenset[int] = frozenset()
        self._table: Table | None = None
        self._last: tuple[Sequence[State], SparsePrior | None] = ((), None)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._last = ((), None)
        bound.ids = self._found(vocabulary)
        bound._of_cells = frozenset(symbol for symbol in bound.ids.values() if symbol >= len(vocabulary.words))
        log_b = torch.zeros(len(vocabulary), dtype=torch.float64)
        log_b[list(bound.ids.values())] = math.log(self.absent) if self.absent else MINUS_INFINITY
        bound._table = Table(log_b)
        return bound

    def _found(self, vocabulary: Vocabulary) -> dict[str, int]:
        """The ids of the entities, words and cells.

        One that is not listed is left out: its cell, or the symbol for unknown words, stands for all the others too.
        """
        n = len(vocabulary.words)
        cells = {name: cell for cell, name in enumerate(vocabulary.symbols[n:], n)}
        words = sorted(self.entities.difference(cells))
        vocabulary.locate(words, place="Primed(entities=...)")  # an error where a word is in no domain either
        listed = {word: vocabulary.id(word) for word in words if word in vocabulary}
        return listed | {name: cell for name, cell in cells.items() if self.cells or name in self.entities}

    def initial(self, condition: object = None) -> State:
        """Settled once for the whole sequence; of several words of one cell, the strongest speaks for it."""
        primed: dict[int, float] = {}
        for symbol, strength in self._with_evidence(self.evidence(condition)):
            if not strength < math.inf:
                word = self.vocabulary.symbols[symbol]
                raise BackgroundError(f"the evidence for {word!r} must be a number below infinity, found {strength}")
            log_b = math.log(strength * self.boost) if strength > 0 else MINUS_INFINITY
            primed[symbol] = max(log_b, primed.get(symbol, MINUS_INFINITY))
        return dict(sorted(primed.items()))

    def _with_evidence(self, found: Mapping[str, float]) -> Iterator[tuple[int, float]]:
        yield from ((self.ids[word], strength) for word, strength in found.items() if word in self.ids)
        others = [word for word in found if word not in self.ids and word not in self.vocabulary]
        if self._of_cells and others:
            cells = zip(self.vocabulary.cells_of(others).tolist(), others, strict=True)
            yield from ((cell, found[word]) for cell, word in cells if cell in self._of_cells)

    def follow(
        self, states: Sequence[State], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[States, Sequence[State]]:
        """No symbol changes a state, so none is looked at."""
        kept = [state for state, n in zip(states, mask.sum(1).tolist(), strict=True) for _ in range(int(n))]
        return kept, states

    def prior(self, states: States) -> Prior:
        """As `SparsePrior.listed`, for states that are sorted and known to be right; the last answer is remembered.

        No word changes a state, so a beam asks the same question at every step.
        """
        assert self._table is not None
        asked, answer = self._last
        if answer is not None and len(asked) == len(states) and all(map(operator.is_, asked, states)):
            return answer
        position = torch.repeat_interleave(torch.tensor([len(state) for state in states], dtype=torch.long))
        word = torch.tensor([symbol for state in states for symbol in state], dtype=torch.long)
        log_b = torch.tensor([log for state in states for log in state.values()], dtype=torch.float64)
        shift = torch.zeros(len(states), 1, dtype=torch.float64)
        answer = SparsePrior((self._table,), shift, Exceptions(position, word, log_b))
        self._last = tuple(states), answer
        return answer

    def revised(self, revision: Revision) -> Self:
        made = copy.copy(self)
        made.entities = self._revised_entities(self.vocabulary, revision.vocabulary)
        return made.bind(revision.vocabulary)

    def _revised_entities(self, old: Vocabulary, new: Vocabulary) -> frozenset[str]:
        """A word that leaves a cell is what the cell is; a name that goes to no cell and no unknown symbol is gone."""
        moved = [word for word in (*old.words, *new.words) if (word in old) != (word in new)]
        cells = dict(zip(moved, old.cells_of(moved).tolist(), strict=True))
        of_cells = {word for word, cell in cells.items() if cell in self._of_cells}
        nowhere = {word for word, cell in cells.items() if cell < 0 and word not in new and new.unknown is None}
        return (self.entities - nowhere - of_cells) | {word for word in of_cells if word in new}
