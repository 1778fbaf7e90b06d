"""Contextual features φ(K, x): they depend on the condition and the prefix.

As a background, but with feature values instead of log b: one value for the rest, own values for the exceptions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from llrnn.ground.arrays import LARGEST_FLOAT32
from llrnn.ground.errors import FeatureError
from llrnn.knowledge.process import Process, S, Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.vocabulary import Revision

Value = float | Sequence[float]  # of one feature, or of several that follow the prefix together


class ContextualFeature(Process[S]):
    """A feature of (context, word), or several with one state: `initial`, `advance`, and the values at a state.

    `ContextualFeature[S]` says what its states are, as `Background[S]` does.
    """

    _error = FeatureError

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its features, one for each coordinate of a: usually one."""
        return (self.name,)

    @abstractmethod
    def value(self, state: S) -> tuple[Value, Mapping[int, Value]]:
        """The value on all words but a few, and on those few by their ids; a value for each name, if several."""

    def values(self, states: Sequence[S]) -> ContextValues:
        """The values for a batch of states."""
        answers, width = [self.value(state) for state in states], len(self.names)
        rows = [(n, word, own[word]) for n, (_, own) in enumerate(answers) for word in sorted(own)]
        position, word, value = zip(*rows, strict=True) if rows else ((), (), ())
        return ContextValues(
            self._numbers([rest for rest, _ in answers], width, lambda n: f"the rest at position {n}"),
            torch.tensor(position, dtype=torch.long),
            torch.tensor(word, dtype=torch.long),
            self._numbers(value, width, lambda e: f"{self.vocabulary.symbol(word[e])!r} at position {position[e]}"),
        )

    def _numbers(self, values: Sequence[Value], width: int, place: Callable[[int], str]) -> Tensor:
        """Values as (E, k); what no model can compute with is an error that says where."""
        try:
            made = torch.tensor(values, dtype=torch.float64).view(-1, width)
        except OverflowError:  # an integer of hundreds of digits
            made = torch.tensor([[math.inf] * width for _ in values], dtype=torch.float64).view(-1, width)
        broken = torch.nonzero(~(made.abs() <= LARGEST_FLOAT32))
        if len(broken):
            row, column = broken[0].tolist()
            raise FeatureError(
                f"the feature {self.names[column]!r} must be a finite number of at most {LARGEST_FLOAT32:.1e}, which "
                f"float32 can hold, found {float(made[row, column])} on {place(row)}; scale it, or take its logarithm"
            )
        return made


class Repeated(ContextualFeature[tuple[int, ...]]):
    """1 on the words that occurred among the last `window` symbols of the prefix, 0 on all others."""

    def __init__(self, window: int = 50) -> None:
        if window < 1:
            raise FeatureError(f"Repeated(window=...) must be 1 or more, found {window}")
        self._window = window

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    reads_conditions = False

    def initial(self, condition: object = None) -> tuple[int, ...]:
        return ()

    def advance(self, state: tuple[int, ...], symbol: int) -> tuple[int, ...]:
        """The boundary of sentences is not a word that anyone repeats."""
        if symbol == self.vocabulary.eos:
            return state
        return (*state[-(self._window - 1) :], symbol) if self._window > 1 else (symbol,)

    def value(self, state: tuple[int, ...]) -> tuple[float, Mapping[int, float]]:
        return 0.0, dict.fromkeys(state, 1.0)

    def saved(self) -> Saved:
        return Saved("repeated", {"window": self._window})

    def __repr__(self) -> str:
        return f"Repeated(window={self._window})"
