"""The log-linear layer with weights that are changed on the way, position by position; nothing is copied.

    a → scale∘a + offset          log p(x | K) = log b(K, x) + (scale∘a + offset)·φ(K, x) − log Z(K),   with its own Z

`model.steering` makes a new model for a change that stays; this is for one that comes with a request, or with a slider.
"""

from __future__ import annotations

from torch import Tensor

from llrnn.layer.join import placed
from llrnn.layer.loglinear import Distribution, LogLinear, Values
from llrnn.layer.priors import Prior


class Steered:
    """Scale and offset of all weights, static ones first: (N, m + k), or (1, m + k) for every position."""

    def __init__(self, layer: LogLinear, scale: Tensor, offset: Tensor) -> None:
        self.layer, self.scale, self.offset = layer, scale, offset
        self.phi, self.classes, self._m = layer.phi, layer.classes, layer.weight.shape[0]

    def adaptor(self, h: Tensor) -> Tensor:
        """The changed weights of the static features, (N, H) -> (N, m)."""
        return self.layer.adaptor(h) * self.scale[:, : self._m] + self.offset[:, : self._m]

    def context_adaptor(self, h: Tensor) -> Tensor:
        """The changed weights of the contextual features, (N, H) -> (N, k)."""
        return self.layer.context_adaptor(h) * self.scale[:, self._m :] + self.offset[:, self._m :]

    def scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """a·φ_s + offset_s for every class, (N, H) -> (N, G); composed weights would be of no use to other rows."""
        return (self.phi @ self.adaptor(h).t()).t() + offset

    def row(self, n: int) -> Steered:
        """The layer at one position."""
        return self if len(self.scale) == 1 else Steered(self.layer, self.scale[n : n + 1], self.offset[n : n + 1])

    def __call__(self, h: Tensor, prior: Prior, values: Values = ()) -> Distribution:
        """The distributions at the N positions of h (N, H)."""
        layer = Steered(self.layer.in_float32(), self.scale, self.offset)
        return Distribution(layer, *placed(h, prior, values))
