"""Features that let a network copy the values of a condition: inform(name='trattoria contadina';pricerange=moderate).

For each value v = v[0] … v[n-1] of the condition, and the words of the sentence so far (those after the last EOS):

    said(v)      whether v occurred among them, word after word
    k(v)         the length of the longest proper prefix of v with which they end
    offers(v)    {v[0], v[k]}: a match of k words may be an accident ("the"), so that v may also begin here

    Copied(x)     1 if some v that is not said offers x
    Continued(x)  1 if x is v[k] of some v that is not said, and k ≥ 1: what a value that was begun demands
    Said(x)       1 if x is v[0] of some v that is said, and Copied(x) is 0
    Unsaid(x)     on EOS, how many v are not said

All are 0 on all other words. A value can be pointed at if the vocabulary lists all of its words; any other is left out,
as if the condition did not have it. In an open vocabulary, where such a word has no symbol but its cell, the words of
the condition are temporarily added (`llrnn.words.add_from_conditions`). Without slots there are no values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import torch

from llrnn.ground.caches import ByteCache
from llrnn.ground.errors import FeatureError
from llrnn.knowledge.contextual.base import ContextualFeature, Value
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.conditions import values_of
from llrnn.text.vocabulary import EOS, Revision

_SAID = -1  # in the place of how many words match: a value that was said is followed no more

Words = tuple[int, ...]
Steps = tuple[Mapping[int, int], ...]
_BYTES_A_WORD = 400  # of a value: a small dictionary for each
# values come again, and conditions come from strangers
_KNOWN: ByteCache[Words, Steps] = ByteCache(32 * 2**20, lambda value, steps: 200 + _BYTES_A_WORD * len(value))


class ConditionValues(NamedTuple):
    """What is to be said, one entry for each value: its words, its slot, how matches go on."""

    values: tuple[Words, ...]
    slots: tuple[str, ...]
    steps: tuple[Steps, ...]
    words: frozenset[int]


class CopyProgress(NamedTuple):
    """The state: how many words of each value match here, or that it was said."""

    plan: ConditionValues
    matched: tuple[int, ...]


def _steps(value: Words) -> Steps:
    """From each number of matched words, where the next word leads; to 0, if it is not there (Knuth, Morris, Pratt)."""
    steps, fallback = [{value[0]: 1}], 0
    for k, word in enumerate(value[1:], 1):
        steps.append({**steps[fallback], word: k + 1})
        fallback = steps[fallback].get(word, 0)
    steps[-1][value[-1]] = _SAID
    return tuple(steps)


class ConditionFeature(ContextualFeature[CopyProgress]):
    """A feature of what was said of the condition: of all of its slots, or only of those that are named."""

    def __init__(self, *slots: str) -> None:
        if not all(isinstance(slot, str) for slot in slots) or len(set(slots)) < len(slots):
            raise FeatureError(f"{type(self).__name__}(...) takes the names of slots, each once, found {slots}")
        self._slots, self._columns = slots, self._numbered(slots)

    def _numbered(self, slots: Sequence[str]) -> dict[str, int]:
        """To which of its features each slot belongs."""
        return dict.fromkeys(slots, 0)

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    @property
    def state_key(self) -> object:
        """All of them follow all values, and look at those of their own slots when they are asked."""
        return ConditionFeature, id(self.vocabulary)

    def initial(self, condition: object = None) -> CopyProgress:
        known = self.vocabulary
        found = [
            (tuple([known.id(word) for word in words]), slot)
            for slot, words in values_of(condition)
            if EOS not in words and all(word in known for word in words)
        ]  # nobody can say a value with EOS in it
        values = tuple([value for value, _ in found])
        plan = ConditionValues(
            values,
            tuple([slot for _, slot in found]),
            tuple([_KNOWN.get(value, partial(_steps, value)) for value in values]),
            frozenset(chain(*values)),
        )
        return CopyProgress(plan, (0,) * len(values))

    def _own(self, state: CopyProgress) -> list[tuple[Words, int, int]]:
        """Its values: their words, the feature that they belong to, and how many words match."""
        plan, columns = state.plan, self._columns
        of_all = zip(plan.values, plan.slots, state.matched, strict=True)
        if not columns:
            return [(value, 0, k) for value, _, k in of_all]
        return [(value, columns[slot], k) for value, slot, k in of_all if slot in columns]

    def advance(self, state: CopyProgress, symbol: int) -> CopyProgress:
        plan, matched = state
        if symbol == self.vocabulary.eos:
            return CopyProgress(plan, (0,) * len(matched))
        if symbol not in plan.words and max(matched, default=0) <= 0:  # most words have nothing to do with it
            return state
        pairs = zip(plan.steps, matched, strict=True)
        return CopyProgress(plan, tuple([k if k == _SAID else steps[k].get(symbol, 0) for steps, k in pairs]))

    def value(self, state: CopyProgress) -> tuple[Value, Mapping[int, Value]]:
        found = self.values([state])
        rest, own = (found.rest, found.value) if len(self.names) > 1 else (found.rest[:, 0], found.value[:, 0])
        return rest[0].tolist(), dict(zip(found.word.tolist(), own.tolist(), strict=True))

    def saved(self) -> Saved:
        if type(self) not in KINDS.values():  # a class of the user's own that is made of one of these
            return super().saved()
        return Saved(type(self).__name__.lower(), {"slots": list(self._slots)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._slots))})"


class Pointing(ConditionFeature):
    """1 on the words that values point at, one feature for all slots or one for each that is named."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}:{slot}" for slot in self._slots) or (self.name,)

    def _numbered(self, slots: Sequence[str]) -> dict[str, int]:
        return {slot: number for number, slot in enumerate(slots)}

    @abstractmethod
    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        """(word, feature) where the value is 1; in any order, and a pair may come again."""

    def values(self, states: Sequence[CopyProgress]) -> ContextValues:
        """Pairs become numbers that sort by position, word and feature; numpy sorts and joins those of one word."""
        V, width = len(self.vocabulary), len(self.names)
        keys = [(n * V + word) * width + column for n, s in enumerate(states) for word, column in self._pointed(s)]
        if not keys:
            return ContextValues.none(len(states), width)
        ones = np.array(keys, dtype=np.int64)
        own, row = np.unique(ones // width, return_inverse=True)
        value = np.zeros((len(own), width), dtype=np.float32)
        value[row, ones % width] = 1.0
        parts = (own // V, own % V, value)
        return ContextValues(torch.zeros(len(states), width), *map(torch.from_numpy, parts))


class Copied(Pointing):
    """1 on the words with which a value that was not said yet begins, or goes on; see the top of this file."""

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        own = self._own(state)
        return [(v[i], column) for v, column, k in own if k != _SAID for i in ((0, k) if k else (0,))]


class Continued(Pointing):
    """1 on the word with which a value that was begun, and not said yet, goes on."""

    def __init__(self) -> None:
        super().__init__()

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        return [(v[k], column) for v, column, k in self._own(state) if k > 0]


class Said(Pointing):
    """1 on the first word of a value that was said, unless one of the same slots that was not said offers it."""

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        if _SAID not in state.matched:
            return []
        own = self._own(state)
        offered = {v[i] for v, _, k in own if k != _SAID for i in (0, k)}
        return [(v[0], column) for v, column, k in own if k == _SAID and v[0] not in offered]


class Unsaid(ConditionFeature):
    """On EOS, how many values were not said yet: what a sentence that ends here leaves out."""

    def values(self, states: Sequence[CopyProgress]) -> ContextValues:
        counts = [sum(k != _SAID for _, _, k in self._own(state)) for state in states]
        if not any(counts):
            return ContextValues.none(len(states), 1)
        left = torch.tensor(counts, dtype=torch.float32)
        position = left.nonzero()[:, 0]
        word = torch.full_like(position, self.vocabulary.eos)
        return ContextValues(torch.zeros(len(states), 1), position, word, left[position, None])


KINDS: dict[str, type[ConditionFeature]] = {made.__name__.lower(): made for made in (Copied, Continued, Said, Unsaid)}
