"""The seam, and the exact loss: −mean log p(x̄).

Where the background is one static table and nothing else depends on the position, the gradient is made block by block
with the loss itself, so that nothing of size N × G is kept; `fused.chosen` picks the way.

An objective does not look at the loss, for which a GPU would have to be waited for: `updates` does, and says what
is wrong with it.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from llrnn.knowledge.sequences import Batch
from llrnn.layer import plain
from llrnn.layer.fused import chosen
from llrnn.layer.fused.chosen import Precision
from llrnn.layer.loglinear import Distribution, LogLinear
from llrnn.model.network import LLRNN


class Objective(Protocol):
    """The loss of a batch, a number that can be differentiated; the generator decides whatever is drawn for it."""

    def __call__(
        self, model: LLRNN, distribution: Distribution, batch: Batch, generator: torch.Generator | None
    ) -> Tensor: ...


class Exact:
    """−mean log p of the targets, summed over the classes; nothing is drawn."""

    def __call__(
        self, model: LLRNN, distribution: Distribution, batch: Batch, generator: torch.Generator | None
    ) -> Tensor:
        return exact_objective(distribution, batch)


def exact_objective(p: Distribution, batch: Batch, precision: Precision = "full") -> Tensor:
    """−mean log p of the targets of a batch, within their cells where the vocabulary is open."""
    loss = exact_loss(p, batch.picked(batch.targets), precision)
    return loss if batch.inside is None else loss - batch.picked(batch.inside).mean().to(loss.dtype)


def exact_loss(p: Distribution, targets: Tensor, precision: Precision = "full") -> Tensor:
    """−mean log p of one word a position, (N,); `half`, on a GPU, holds where nothing but h depends on the position."""
    mass = plain.table_of(p)
    if mass is None or not isinstance(p.layer, LogLinear):
        return -p.log_prob(targets).mean()
    loss = chosen.mean_loss(p.layer, p.h, mass.log_mass_in(p.h.dtype), p.classes.class_of[targets], precision)
    return loss - mass.log_share_of(targets).mean().to(loss.dtype)
