"""Noise-contrastive estimation: tell the target from S words of the background; Z is never computed.

    log p̃(x) / S q(x) = s(x) − log S         p̃(x) = q(x) e^{s(x)},  q = b/B,  s = a·φ: the background cancels
    loss = softplus(−Δ(x̄)) + Σ_i softplus(Δ(x_i)),    Δ(x) = s(x) − c − log S,   x_i ~ q

p̃ is taken for normalised: c = 0, that is log Z = log B(K) everywhere. The network has to learn this (self-
normalisation); before the first step it nearly is, since a ≈ 0 gives p ≈ q. `normalisation_gap` says how far
log Z − log B is from 0 after training. As S grows the gradient becomes −∂s(x̄) + Σ_x q(x) e^{s(x) − c} ∂s(x), which is
the exact one where c = log Z − log B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from llrnn.knowledge.sequences import Batch
from llrnn.layer.loglinear import Distribution
from llrnn.model.batches import Batching
from llrnn.model.network import LLRNN
from llrnn.model.scoring import walk
from llrnn.text.ids import Text
from llrnn.training.objectives.drawn import Drawer


class NoiseContrastive:
    """The logistic loss of telling the target from `samples` words of the background (shared if it is static)."""

    def __init__(self, samples: int = 256) -> None:
        self._draw = Drawer(samples)

    def __call__(
        self,
        model: LLRNN,
        distribution: Distribution,
        batch: Batch,
        generator: torch.Generator | None,
        log_ratio: Tensor | float = 0.0,
    ) -> Tensor:
        """`log_ratio` is c, a constant for each position (N,) or for all; 0 but in experiments."""
        drawn = self._draw(model, distribution, batch, generator)
        shift = torch.as_tensor(log_ratio).to(drawn.score) + math.log(drawn.score.shape[1])
        noise = F.softplus(drawn.score - shift.view(-1, 1)).sum(1)
        return (F.softplus(shift - drawn.target_score) + noise).mean()


@dataclass(frozen=True)
class Gap:
    """log Z − log B over the positions of a text: 0 and 0 where a model is normalised without Z."""

    mean: float
    deviation: float


@torch.no_grad()
def normalisation_gap(model: LLRNN, text: Text, batching: Batching | None = None) -> Gap:
    """How far the exact log Z is from what noise-contrastive estimation takes it for."""
    draw = Drawer(1)
    found = []
    for _, distribution in walk(model, text, batching):
        log_total = draw.background(model, distribution.prior, distribution.n).log_z
        found.append((distribution.log_z.double() - log_total).cpu())
    gap = torch.cat(found)
    return Gap(float(gap.mean()), float(gap.std(correction=0)))
