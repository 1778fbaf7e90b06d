"""Backgrounds that say what may and may not follow, or what the condition makes likely."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Self

import torch

from llrnn.backgrounds.base import Background, Static
from llrnn.errors import BackgroundError
from llrnn.priors import MINUS_INFINITY, Prior, SparsePrior, Table
from llrnn.process import Saved, State, States
from llrnn.vocabulary import Vocabulary

Choice = Collection[str] | Callable[[object, tuple[str, ...]], Iterable[str]]


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
    """The evidence in a condition by default: every word of a text, of a sequence or of a mapping's values."""
    if condition is None:
        return {}
    if isinstance(condition, str):
        return dict.fromkeys(condition.split(), 1.0)
    if isinstance(condition, Mapping):
        return {word: 1.0 for value in condition.values() for word in words_of(value)}
    if isinstance(condition, Iterable):
        return {word: 1.0 for value in condition for word in words_of(value)}
    return {str(condition): 1.0}


class Primed(Background):
    """A static background in which `entities` depend on the condition (paper §4, condition-based priming).

    b(C, x) = base(x)                              for words that are no entities
    b(C, x) = base(x) · evidence(C)[x] · boost     for entities with evidence in the condition
    b(C, x) = base(x) · absent                     for entities without
    """

    def __init__(
        self,
        base: Background,
        entities: Collection[str],
        *,
        evidence: Callable[[object], Mapping[str, float]] = words_of,
        boost: float = 1.0,
        absent: float = 0.0,
    ) -> None:
        if not (boost > 0 and absent >= 0 and math.isfinite(boost) and math.isfinite(absent)):
            raise BackgroundError(f"Primed needs boost > 0 and absent >= 0, found {boost} and {absent}")
        self._base, self._entities = base, frozenset(entities)
        self._evidence, self._boost, self._absent = evidence, boost, absent
        self._base_log_b: list[float] = []
        self._table: Table | None = None

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        base = self._base.bind(vocabulary)
        if not isinstance(base, Static):
            raise BackgroundError(f"Primed needs a static base such as Unigram, found {self._base!r}")
        log_b = base.log_b.clone()
        bound._base, bound._base_log_b = base, log_b.tolist()
        # an entity that is not listed says nothing of the other words that the unknown symbol stands for
        listed = [word for word in sorted(self._entities) if vocabulary.unknown is None or word in vocabulary]
        entities = vocabulary.ids(listed, place="Primed(entities=...)")
        log_b[entities] += math.log(self._absent) if self._absent else MINUS_INFINITY
        bound._table = Table(log_b)
        return bound

    def initial(self, condition: object = None) -> State:
        """log b of the entities with evidence, settled once for the whole sequence."""
        found = self._evidence(condition)
        return {
            self.vocabulary.id(word): self._primed(self.vocabulary.id(word), strength)
            for word, strength in found.items()
            if word in self._entities and word in self.vocabulary
        }

    def _primed(self, word: int, strength: float) -> float:
        return self._base_log_b[word] + math.log(strength * self._boost) if strength > 0 else MINUS_INFINITY

    def prior(self, states: States) -> Prior:
        if self._table is None:
            raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        return SparsePrior.listed(self._table, states)

    def saved(self) -> Saved:
        if self._evidence is not words_of:
            return super().saved()
        fields = {"entities": sorted(self._entities), "boost": self._boost, "absent": self._absent}
        return Saved("primed", fields, parts=(self._base.saved(),))

    def __repr__(self) -> str:
        return f"Primed({self._base!r}, {len(self._entities)} entities)"
