"""The seam, and the exact loss: −mean log p(x̄).

Where the background is one static table and nothing else depends on the position, the gradient is made block by block
with the loss itself (`fused.by_rows`), so that nothing of size N × G is kept: on a CPU, where that is no slower, and
elsewhere where it would be large. `llrnn.costs` picks the way to the scores.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from llrnn import costs, plain
from llrnn.fused import Pairs, chosen
from llrnn.loglinear import Distribution, LogLinear
from llrnn.model import LLRNN, Batch


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
        targets = batch.targets[batch.mask]
        loss = exact_loss(distribution, targets)
        if not torch.isfinite(loss.detach()):
            model.refuse_zero_mass(distribution, targets)
        return loss if batch.inside is None else loss - batch.inside[batch.mask].mean().to(loss.dtype)


def exact_loss(p: Distribution, targets: Tensor) -> Tensor:
    """−mean log p of one word a position, (N,)."""
    found = _loss_by_blocks(p, targets) if _blocks_pay(p) else None
    return -p.log_prob(targets).mean() if found is None else found


def _blocks_pay(p: Distribution) -> bool:
    large = not costs.may_keep(p.n * p.classes.count * p.h.element_size())
    return large or p.h.device.type == "cpu"


def _loss_by_blocks(p: Distribution, targets: Tensor) -> Tensor | None:
    """The same; None where something depends on the position besides h."""
    mass = plain.table_of(p)
    if mass is None or not isinstance(p.layer, LogLinear):
        return None
    pairs = Pairs(torch.arange(p.n, device=targets.device), p.classes.class_of[targets])
    loss = chosen.mean_loss(p.layer, p.h, mass.log_mass.to(p.h.dtype), pairs)
    return loss - mass.log_share_of(targets).mean().to(loss.dtype)
