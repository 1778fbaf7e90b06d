"""A part of a model as two CUDA graphs, one forward and one backward: two launches a step instead of a hundred.

Shapes are fixed, and so is where the results lie: a replay overwrites those of the one before. That holds for the
gradients, too; the parameters get copies, so that several backward passes add up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn


def graphed(module: nn.Module, *samples: Tensor) -> Callable[..., Tensor]:
    """The module for inputs of the shapes, types and needs of gradients of the samples, on the GPU.

    No gradient of an earlier pass may be alive, and parameters may not be replaced, only changed in place.
    """
    call = torch.cuda.make_graphed_callables(module, samples)
    for parameter in module.parameters():
        # else .grad would be the buffer that the next replay overwrites
        parameter.register_hook(torch.clone)  # type: ignore[no-untyped-call]
    return cast(Callable[..., Tensor], call)
