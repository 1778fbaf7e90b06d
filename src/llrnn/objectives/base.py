"""The seam, and the exact loss: −mean log p(x̄)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from llrnn.loglinear import Distribution
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
        return -model.targets_log_prob(distribution, batch).mean()
