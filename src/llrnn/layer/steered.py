"""Weights that are changed on the way, position by position: what comes with a request."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from llrnn.layer.linear import placed
from llrnn.layer.loglinear import Distribution, LogLinear
from llrnn.layer.priors import Prior
from llrnn.layer.readout import Values


class Steered(NamedTuple):
    """A layer with weights that are changed on the way, position by position; nothing is copied.

        a → scale∘a + offset         log p(x | K) = log b(K, x) + (scale∘a + offset)·φ(K, x) − log Z(K),  with its own Z

    `model.steering` makes a new model for a change that stays; this is for one that comes with a request.
    """

    layer: LogLinear
    scale: Tensor  # (N, m + k), static features first, or (1, m + k) for every position
    offset: Tensor

    def distribution(self, h: Tensor, prior: Prior, values: Values = ()) -> Distribution:
        """The distributions at the N positions of h (N, H)."""
        return Distribution(self.layer.in_float32(), *placed(h, prior, values), steered=self)

    def changed(self, a: Tensor, first: int) -> Tensor:
        """Some weights, from column `first` on."""
        columns = slice(first, first + a.shape[1])
        return a * self.scale[:, columns] + self.offset[:, columns]

    def row(self, n: int) -> Steered:
        """The change at one position."""
        alone = len(self.scale) == 1
        return self if alone else Steered(self.layer, self.scale[n : n + 1], self.offset[n : n + 1])
