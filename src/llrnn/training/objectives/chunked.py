"""The exact loss where nothing of size N × G may be kept, and on a GPU with products in half precision if asked.

    −mean log p = mean (log Σ_s B_s exp(a·φ_s) − log B_k exp(a·φ_k) − log b(x̄) / B_k),        k the class of the target

It is for backgrounds that are one static table, without contextual features: what depends on the position would need an
N × G matrix again. In full precision the exact objective does the same by itself, and this one is no more than the wish
that it can.
"""

from __future__ import annotations

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.sequences import Batch
from llrnn.layer import plain
from llrnn.layer.fused.chosen import Precision
from llrnn.layer.loglinear import Distribution
from llrnn.model.network import LLRNN
from llrnn.training.objectives.base import exact_objective


class Chunked:
    """−mean log p of the targets; `half`: float16 and bfloat16 products with float32 sums, on a GPU."""

    def __init__(self, precision: Precision = "full") -> None:
        self.precision = precision

    def __call__(
        self, model: LLRNN, distribution: Distribution, batch: Batch, generator: torch.Generator | None
    ) -> Tensor:
        if plain.table_of(distribution) is None:
            found = "contextual features" if distribution.values else "a background that follows the text"
            raise ConfigError(
                f"the chunked objective needs a static background and no contextual features, found {found}; "
                "leave training.objective out for the exact one"
            )
        if self.precision == "half" and not distribution.h.is_cuda:
            raise ConfigError(
                "half precision needs a GPU, found a model on the CPU; train with --device cuda, or in full"
            )
        return exact_objective(distribution, batch, self.precision)
