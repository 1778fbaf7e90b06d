"""Priming by the condition (paper §4): words that the condition speaks of take their mass from it.

    b(C, K, x) = base(K, x)                              for words that are no entities
    b(C, K, x) = base(K, x) · evidence(C)[x] · boost     for entities with evidence in the condition
    b(C, K, x) = base(K, x) · absent                     for entities without

The base is any background; the factor beside it has one static table, and a few exceptions at each position. Over a
static base the weights can be learnt, `Primed.fitted`: with n₁, n₂ of the n words of a target being entities with and
without evidence, and m₀, m₁(C), m₂(C) the masses of the base on the rest, on entities with and on entities without,

    log-likelihood = Σ_targets n₁ log boost + n₂ log absent − n log(m₀ + boost · m₁(C) + absent · m₂(C)) + constant

is concave in (log boost, log absent).
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import torch

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import BackgroundError, ZeroMassError
from llrnn.knowledge.backgrounds.base import Background, Combined, multiply
from llrnn.knowledge.process import Batch, Saved, State
from llrnn.layer.priors import MINUS_INFINITY, DensePrior, Exceptions, Prior, SparsePrior, Table
from llrnn.text import conditions
from llrnn.text.conditions import Act
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Revision, Vocabulary

Evidence = Callable[[object], Mapping[str, float]]
LogWeights = dict[int, float]  # a state: log b of the words and cells that have evidence, by their ids

LEAST_ABSENT = 1e-6  # a fit never says 0: an entity without evidence that was not seen may still be said one day
_WIDEST = 30.0  # |log weight| is looked for up to here; there is an optimum: all targets end with a word without weight
_HALVINGS = 50  # of an interval of that width: to 1e-13


def words_of(condition: object) -> dict[str, float]:
    """Return the evidence of a condition (the input that a text is generated from) for its words: {word: 1.0}.

    The words are those of a text, of each element of a sequence, or of the values of a record or dialogue act, split at
    white space with capitals as they are; {} for None. A number, or any other object, is one word, its `str`.
    """
    if condition is None:
        return {}
    if isinstance(condition, str | Act | Mapping):
        return dict.fromkeys(conditions.words_of(condition), 1.0)
    if isinstance(condition, Iterable):
        return {word: 1.0 for value in condition for word in words_of(value)}
    return {str(condition): 1.0}


class Priming(Background[LogWeights]):
    """The factor of `Primed`: evidence(condition)[x] · boost for an entity x, `absent` without evidence, 1 on others.

    An entity is a word, or a cell (a set of unlisted strings that share a symbol), that should be used if the condition
    (input of the text) supports it. The state is {symbol id: log factor} of the entities with evidence; the arguments
    `entities`, `evidence`, `boost`, `absent` and `cells` are those of `Primed`.
    """

    _table: Table  # once it is bound

    def __init__(
        self, entities: Collection[str], evidence: Evidence, boost: float, absent: float, cells: bool = False
    ) -> None:
        self.entities, self.evidence, self.cells = frozenset(entities), evidence, cells
        self.boost, self.absent = float(boost), float(absent)
        self.ids: dict[str, int] = {}
        self._of_cells: frozenset[int] = frozenset()
        self._last: tuple[Sequence[LogWeights], SparsePrior | None] = ((), None)  # cached

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
        """Return {entity: symbol id} of the entities that the vocabulary lists: words, and cells by their symbols.

        An entity is what the condition (input of a text) must support; a cell is a set of unlisted strings with one
        symbol. Entities that are words outside the vocabulary are not in the result. Such a word must be in a cell, or
        the vocabulary have a symbol for unknown words; else an UnknownWordError is raised. With `cells`, all cells are
        in the result.
        """
        n = len(vocabulary.words)
        cells = {name: cell for cell, name in enumerate(vocabulary.symbols[n:], n)}
        words = sorted(self.entities.difference(cells))
        vocabulary.locate(words, place="Primed(entities=...)")  # an error where a word is in no domain either
        listed = {word: vocabulary.id(word) for word in words if word in vocabulary}
        return listed | {name: cell for name, cell in cells.items() if self.cells or name in self.entities}

    def initial(self, condition: object = None) -> LogWeights:
        """Return {symbol id: log factor} of the entities with evidence in the condition; it holds for the whole text.

        The condition is the input of the text. The log factor is log(strength · boost), −∞ for a strength of 0 or
        below; ids rise. A cell, a set of unlisted strings with one symbol, takes the largest factor of its words.
        Raises a BackgroundError if a strength is infinite or NaN.
        """
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

    def follow(self, states: Sequence[LogWeights], batch: Batch) -> tuple[Sequence[LogWeights], Sequence[LogWeights]]:
        """Return the state of each position that is not padding, row by row, and the state of each row after the batch.

        `states`: one for each row, {symbol id: log factor}; no symbol changes a state, so that all results are these.
        """
        counts = batch.mask.sum(1).tolist()
        return [state for state, n in zip(states, counts, strict=True) for _ in range(int(n))], states

    def prior(self, states: Sequence[LogWeights]) -> Prior:
        """Return the log of the factor at N states as a sparse prior: a table, and values of entities with evidence.

        The table has log `absent` for all entities and 0 for other words; at each state the entities with evidence have
        their own log factor. The last result is cached, since states stay the same from word to word.
        """
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
        """Return the factor for a vocabulary with words added or removed.

        An entity is a word, or a cell (set of unlisted strings with one symbol), that the condition (input of a text)
        must support. A new word that was in an entity cell becomes an entity; a removed word that the new vocabulary
        cannot read is none any more.
        """
        old, new = self.vocabulary, revision.vocabulary
        moved = [word for word in (*old.words, *new.words) if (word in old) != (word in new)]
        cells = dict(zip(moved, old.cells_of(moved).tolist(), strict=True))
        of_cells = {word for word, cell in cells.items() if cell in self._of_cells}
        nowhere = {word for word, cell in cells.items() if cell < 0 and word not in new and new.unknown is None}
        entities = (self.entities - nowhere - of_cells) | {word for word in of_cells if word in new}
        return self._changed(new, entities=entities)


class Primed(Combined):
    """A prior over the next word in which the probability of certain `entities` depends on the condition (paper §4).

    The condition is the input that the text is generated from. b = base · strength · boost for an entity with evidence,
    base · absent for one without, and base for all other words.

    base        the background to multiply
    entities    words, or cells of an open vocabulary (sets of unlisted strings with one symbol) by their symbols, such
                as `"‹number:digits4›"`
    evidence    a function condition -> {word: strength}; by default 1 for every word of the condition
    boost       the factor of an entity with evidence
    absent      the factor of an entity without
    cells       True: all cells are entities; a cell has evidence where one of its strings does

    A word outside the vocabulary is no entity until it is added; a word taken out of an entity cell becomes one.

        Primed(Unigram.from_corpus(train), entities={"paris", "rome"}, boost=20.0, absent=0.01)
    """

    def __init__(
        self,
        base: Background,
        entities: Collection[str],
        *,
        evidence: Evidence = words_of,
        boost: float = 1.0,
        absent: float = 0.0,
        cells: bool = False,
    ) -> None:
        if not (boost > 0 and absent >= 0 and math.isfinite(boost) and math.isfinite(absent)):
            raise BackgroundError(f"Primed needs boost > 0 and absent >= 0, found {boost} and {absent}")
        if isinstance(entities, str):
            raise BackgroundError(f"Primed(entities=...) must be a collection of words, found the text {entities!r}")
        super().__init__(base, Priming(entities, evidence, boost, absent, cells))
        self.boost, self.absent = float(boost), float(absent)
        self._product: tuple[Prior | None, Prior] = (None, DensePrior(torch.zeros(0, 0)))

    @classmethod
    def fitted(
        cls,
        base: Background,
        corpus: Corpus,
        vocabulary: Vocabulary,
        *,
        slots: Collection[str] | None = None,
        support: float = 0.9,
        cells: bool = False,
    ) -> Self:
        """Return a primed prior with entities, and the likeliest `boost` and `absent`, from sentences with conditions.

        base        a background that does not depend on the context, such as `Unigram`; else a BackgroundError
        slots, support      entities are `entity_words(corpus, slots, support)`
        cells       True: all cells of an open vocabulary are entities too

        Conditions are the inputs that sentences are generated from; a cell is a set of unlisted strings with one
        symbol. `absent` is at least 1e-6, so that no word is impossible only because it was not seen.

            Primed.fitted(Unigram.from_corpus(train), train, vocabulary)
        """
        bound = base.bind(vocabulary)
        if not bound.is_static:
            raise BackgroundError(
                f"the weights of Primed can be fitted over a static base such as Unigram only, found {base!r}; fit "
                "them over one, and give boost=... and absent=... to Primed"
            )
        entities = entity_words(corpus, slots, support)
        factor = Priming(entities, words_of, 1.0, 1.0, cells).bind(vocabulary)
        counts, masses = _counted(bound, factor, corpus)
        if not counts[:, 1].any():
            raise BackgroundError(
                f"no listed word or cell has evidence in its own condition in {support:g} of the cases where the "
                f"targets say it, so there is nothing to fit in {corpus!r}; name other slots, or lower `support`"
            )
        boost, absent = _likeliest(counts, masses)
        return cls(base, entities, boost=boost, absent=absent, cells=cells)

    @property
    def _factor(self) -> Priming:
        factor = self.parts[1]
        assert isinstance(factor, Priming)
        return factor

    @property
    def base(self) -> Background:
        return self.parts[0]

    @property
    def entities(self) -> frozenset[str]:
        """The entities (what the condition, the input, must support) that were given by name: words and cells.

        A cell is a set of unlisted strings with one symbol, whose name is given; with `cells=True`, all cells are
        entities too, and not among these.
        """
        return self._factor.entities

    def prior(self, states: Sequence[tuple[State, ...]]) -> Prior:
        if self._vocabulary is None:
            raise self._unbound()
        base, factor = self._priors(states)
        if not self.base.is_static:  # by what it is: at one position, the prior of a grammar may look static
            return multiply(base, factor)
        if self._product[0] is not factor:  # the factor caches its last answer, so this does
            self._product = factor, multiply(base, factor)
        return self._product[1]

    def factors(self, state: tuple[State, ...]) -> list[tuple[str, Prior]]:
        return [*self.base.factors(state[0]), ("priming", self._factor.prior([state[1]]))]

    def saved(self) -> Saved:
        own = self._factor
        if own.evidence is not words_of:
            return super().saved()
        fields = {"entities": sorted(own.entities), "boost": own.boost, "absent": own.absent, "cells": own.cells}
        return Saved("primed", fields, parts=(self.base.saved(),))

    def __repr__(self) -> str:
        return f"Primed({self.base!r}, {len(self.entities)} entities{' and all cells' if self._factor.cells else ''})"


def entity_words(
    corpus: Corpus, slots: Collection[str] | None = None, support: float = 0.9
) -> dict[str, frozenset[str]]:
    """Return {word: slots} of the words that targets contain because of their conditions.

    A sentence of the corpus is a target, and its condition the input that it is generated from. A word is returned if
    it occurs in a condition and in a target, and at least a share `support` of its occurrences in targets have it in
    their own condition. Its slots are those in whose values it occurs; none for conditions that are texts.

    slots       look at values of these slots only; None: of all. An unknown slot raises a BackgroundError

        entity_words(train, slots=["name", "area"])          # {"trattoria": frozenset({"name"}), …}
    """
    if not 0 < support <= 1:
        raise BackgroundError(f"support must be a share above 0, 1 at most, found {support}")
    known = {slot for sentence in corpus for slot, _ in conditions.fields_of(sentence.condition)}
    if missing := sorted(set(slots or ()) - known):
        raise BackgroundError(
            f"no condition has a slot {missing[0]!r}; there are: {', '.join(sorted(known)) or 'none'}"
        )
    found: dict[str, set[str]] = {}
    said: Counter[str] = Counter()
    supported: Counter[str] = Counter()
    for sentence in corpus:
        for word, slot in _values(sentence.condition):
            if slots is None or slot in slots:
                found.setdefault(word, set()).update(() if slot is None else (slot,))
        evidence = words_of(sentence.condition)
        said.update(sentence.words)
        supported.update(word for word in sentence.words if word in evidence)
    return {w: frozenset(found[w]) for w in sorted(found) if supported[w] and supported[w] / said[w] >= support}


def _values(condition: object) -> Iterator[tuple[str, str | None]]:
    if isinstance(condition, Act | Mapping):
        yield from ((word, value.slot) for value in conditions.values_of(condition) for word in value.words)
    else:
        yield from ((word, None) for word in words_of(condition))


def _counted(base: Background, factor: Priming, corpus: Corpus) -> tuple[Floats, Floats]:
    """Return counts and base probabilities, each (sentences, 3), for the fit of `Primed`.

    The columns are: words that are no entities, entities with evidence in the sentence's condition (its input),
    entities without. Counted are the words of each sentence and its end; a probability is the sum, by the base alone,
    without any context, over all symbols of the vocabulary that are of the column's kind: one for a sentence.
    Raises a ZeroMassError if the base gives a word of the corpus probability 0.
    """
    vocabulary = factor.vocabulary
    mass = torch.softmax(base.prior([]).dense(1).log_b[0], 0).numpy()
    entities = np.array(sorted(factor.ids.values()), dtype=np.int64)
    rest = np.delete(mass, entities).sum()
    counts, masses = [], []
    for sentence in corpus:
        ids = np.append(vocabulary.locate(sentence.words, place=sentence.name)[0], vocabulary.eos)
        if not mass[ids].all():
            word = vocabulary.symbols[int(ids[mass[ids] == 0][0])]
            raise ZeroMassError(
                f"{base!r} gives {word!r} of {sentence.name!r} no mass, whatever the weights; smooth it"
            )
        primed = np.array(sorted(factor.initial(sentence.condition)), dtype=np.int64)
        n, n_primed = int(np.isin(ids, entities).sum()), int(np.isin(ids, primed).sum())
        counts.append((len(ids) - n, n_primed, n - n_primed))
        masses.append((rest, mass[primed].sum(), mass[np.setdiff1d(entities, primed)].sum()))
    return np.array(counts, dtype=np.float64).reshape(-1, 3), np.array(masses).reshape(-1, 3)


def _likeliest(counts: Floats, masses: Floats) -> tuple[float, float]:
    """Return (boost, absent), the factors of entities with and without evidence, that maximise the likelihood.

    counts      (sentences, 3) numbers of words that are no entities, entities with evidence, entities without: n₀, n₁,
                n₂
    masses      (sentences, 3) summed probabilities of these kinds by the base: m₀, m₁, m₂

    The log-likelihood is Σ n₁ log boost + n₂ log absent − (n₀ + n₁ + n₂) log(m₀ + boost · m₁ + absent · m₂) over
    sentences; `absent` is at least 1e-6.
    """
    seen, length = counts.sum(0), counts.sum(1)

    def slope(kind: int, log_boost: float, log_absent: float) -> float:
        """Return the derivative of the log-likelihood: the number of entities that were seen less the expected number.

        `kind`: 1 for entities with evidence (by log boost), 2 without (by log absent).
        """
        weights = np.exp([0.0, log_boost, log_absent])
        return float(seen[kind] - length @ (masses[:, kind] * weights[kind] / (masses @ weights)))

    def best_boost(log_absent: float) -> float:
        return _root(lambda log_boost: slope(1, log_boost, log_absent), -_WIDEST)

    log_absent = _root(lambda log: slope(2, best_boost(log), log), math.log(LEAST_ABSENT))
    return math.exp(best_boost(log_absent)), math.exp(log_absent)


def _root(falling: Callable[[float], float], low: float, high: float = _WIDEST) -> float:
    """Return where a falling function is 0, by bisection between `low` and `high`; `low` if it is 0 or less there."""
    if falling(low) <= 0:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low
