"""What backgrounds and contextual features have in common: a state that follows the prefix, symbol by symbol.

A user writes `initial` and `advance` (nothing at all, where the context plays no part); `scan` is their fold.
"""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Sequence
from typing import Any, Self

from llrnn.errors import LLRNNError
from llrnn.vocabulary import Vocabulary

State = Any


class Process(ABC):
    """Something that reads a condition and then a prefix. States are values: `advance` returns a new one."""

    _vocabulary: Vocabulary | None = None

    @property
    def is_static(self) -> bool:
        """Whether neither condition nor prefix matter; then no state is kept and one answer holds everywhere."""
        return False

    def bind(self, vocabulary: Vocabulary) -> Self:
        """This, for one vocabulary; a model binds what it is given."""
        bound = copy.copy(self)
        bound._vocabulary = vocabulary
        return bound

    @property
    def vocabulary(self) -> Vocabulary:
        if self._vocabulary is None:
            raise LLRNNError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        return self._vocabulary

    def initial(self, condition: object = None) -> State:
        """The state before any symbol, given the condition."""
        return None

    def advance(self, state: State, symbol: int) -> State:
        """The state after one more symbol."""
        return state

    def scan(self, states: Sequence[State], rows: Sequence[Sequence[int]]) -> list[list[State]]:
        """For each row of symbols, the states after each of them, starting from its state."""
        return [self._follow(state, row) for state, row in zip(states, rows, strict=True)]

    def _follow(self, state: State, row: Sequence[int]) -> list[State]:
        seen = []
        for symbol in row:
            state = self.advance(state, symbol)
            seen.append(state)
        return seen

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
