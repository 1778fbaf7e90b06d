"""Contextual features φ(K, x): they depend on the condition and the prefix.

As a background, but with feature values instead of log b: one value for the rest, own values for the exceptions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch

from llrnn.priors import ContextValues
from llrnn.process import Process, State, States


class ContextualFeature(Process):
    """One feature of (context, word): `initial`, `advance`, and for each state its values."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def value(self, state: State) -> tuple[float, Mapping[int, float]]:
        """The feature's value on all words but a few, and on those few by their ids."""

    def values(self, states: States) -> ContextValues:
        """The values for a batch of states."""
        answers = [self.value(state) for state in states]
        rows = [(n, word, own[word]) for n, (_, own) in enumerate(answers) for word in sorted(own)]
        position, word, value = zip(*rows, strict=True) if rows else ((), (), ())
        return ContextValues(
            torch.tensor([[rest] for rest, _ in answers], dtype=torch.float32).view(-1, 1),
            torch.tensor(position, dtype=torch.long),
            torch.tensor(word, dtype=torch.long),
            torch.tensor(value, dtype=torch.float32).view(-1, 1),
        )
