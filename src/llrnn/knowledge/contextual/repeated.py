"""Whether a word occurred before: people repeat themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from llrnn.ground.errors import FeatureError
from llrnn.knowledge.contextual.base import ContextualFeature
from llrnn.knowledge.process import Saved, State
from llrnn.text.revision import Revision


class Repeated(ContextualFeature):
    """1 on the words that occurred among the last `window` symbols of the prefix, 0 on all others."""

    def __init__(self, window: int = 50) -> None:
        if window < 1:
            raise FeatureError(f"Repeated(window=...) must be 1 or more, found {window}")
        self._window = window

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    reads_conditions = False

    def initial(self, condition: object = None) -> State:
        return ()

    def advance(self, state: State, symbol: int) -> State:
        """The boundary of sentences is not a word that anyone repeats."""
        if symbol == self.vocabulary.eos:
            return state
        return (*state[-(self._window - 1) :], symbol) if self._window > 1 else (symbol,)

    def value(self, state: State) -> tuple[float, Mapping[int, float]]:
        return 0.0, dict.fromkeys(state, 1.0)

    def saved(self) -> Saved:
        return Saved("repeated", {"window": self._window})

    def __repr__(self) -> str:
        return f"Repeated(window={self._window})"
