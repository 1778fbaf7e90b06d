"""Importance sampling: Z from words drawn from the background.

    Z = b(x̄) e^{s(x̄)} + Σ_{x≠x̄} b(x) e^{s(x)}                                     s = a·φ, x̄ the target
    Ẑ = b(x̄) e^{s(x̄)} + B/S Σ_i [x_i ≠ x̄] e^{s(x_i)},    x_i ~ b/B                 E Ẑ = Z

    ∂ −log p̂(x̄) = −∂s(x̄) + w_0 ∂s(x̄) + Σ_i w_i ∂s(x_i)       w: the terms of Ẑ, over their sum (self-normalised)

The target counts as what it is, and only the rest is estimated. Without that term a word that is likely here and rare
in the background would hardly ever be drawn, its score could grow for nothing, and the loss would have no bottom. With
it p̂(x̄) ≤ 1. Ẑ is unbiased; log Ẑ, and with it the gradient, is biased by O(1/S).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from llrnn.knowledge.sequences import Batch
from llrnn.layer.loglinear import Distribution
from llrnn.layer.numerics import MINUS_INFINITY
from llrnn.model.network import LLRNN
from llrnn.training.objectives.drawn import Drawer


class ImportanceSampling:
    """−mean log p̂ of the targets, with `samples` words drawn from the background (shared if it is static)."""

    def __init__(self, samples: int = 256) -> None:
        self._draw = Drawer(samples)

    def log_terms(
        self, model: LLRNN, distribution: Distribution, batch: Batch, generator: torch.Generator | None
    ) -> Tensor:
        """The logarithms of the terms of Ẑ, that of the target first, (N, 1 + S)."""
        drawn = self._draw(model, distribution, batch, generator)
        log_b = distribution.log_b(drawn.targets).to(drawn.score.dtype)
        share = (drawn.log_total - math.log(drawn.score.shape[1]))[:, None]
        rest = (drawn.score + share).masked_fill(drawn.word == drawn.targets[:, None], MINUS_INFINITY)
        return torch.cat([(log_b + drawn.target_score)[:, None], rest], 1)

    def __call__(
        self, model: LLRNN, distribution: Distribution, batch: Batch, generator: torch.Generator | None
    ) -> Tensor:
        log_p = torch.log_softmax(self.log_terms(model, distribution, batch, generator), 1)[:, 0]
        return -(log_p if batch.inside is None else log_p + batch.picked(batch.inside)).mean()
