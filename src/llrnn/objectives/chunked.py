"""The exact loss, chunk by chunk: nothing of size N × G is kept, and on a GPU products may be in half precision.

    −mean log p = mean (log Σ_s B_s exp(a·φ_s) − log B_k exp(a·φ_k) − log b(x̄) / B_k),        k the class of the target

`llrnn.fused` has the sums and their gradients. It is for backgrounds that are one static table, without contextual
features: what depends on the position would need an N × G matrix again. On a CPU the exact objective does the same by
itself, and this one is no more than the wish that it can.
"""

from __future__ import annotations

from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from llrnn.errors import ConfigError
from llrnn.fused import Plan, Problem, Sparse, plan_for, weighted_loss
from llrnn.loglinear import Distribution, LogLinear
from llrnn.model import LLRNN, Batch
from llrnn.objectives.base import Exact
from llrnn.priors import Table

Precision = Literal["full", "half"]


class Chunked:
    """−mean log p of the targets; `half`: float16 and bfloat16 products with float32 sums, on a GPU."""

    def __init__(self, precision: Precision = "full") -> None:
        self.precision = precision
        self._compiled: WeakKeyDictionary[LogLinear, Sparse] = WeakKeyDictionary()

    def __call__(
        self, model: LLRNN, distribution: Distribution, batch: Batch, generator: torch.Generator | None
    ) -> Tensor:
        table, plan = _static_table(distribution), self._plan(distribution)
        if not distribution.h.is_cuda:
            return Exact()(model, distribution, batch, generator)
        layer, targets = model.layer, batch.targets[batch.mask]
        mass = layer.classes.mass(table)
        problem = Problem(self._phi(layer), mass.log_mass, layer.classes.class_of[targets])
        loss, _ = weighted_loss(distribution.h, layer.weight, layer.bias, problem, None, plan)
        known = mass.log_share[targets] if batch.inside is None else mass.log_share[targets] + batch.inside[batch.mask]
        found = loss - known.mean().to(loss.dtype)
        if not torch.isfinite(found.detach()):
            model.targets_log_prob(distribution, batch)  # which says why
        return found

    def _plan(self, distribution: Distribution) -> Plan:
        if self.precision == "half" and not distribution.h.is_cuda:
            raise ConfigError(
                "half precision needs a GPU, found a model on the CPU; train with --device cuda, or in full"
            )
        return plan_for(distribution.h, distribution.classes.count, exact=self.precision == "full")

    def _phi(self, layer: LogLinear) -> Sparse:
        """Φ as the kernels read it, made once for each layer, on its device."""
        if layer not in self._compiled or self._compiled[layer].rows.values.device != layer.weight.device:
            self._compiled[layer] = Sparse.of(layer.phi, layer.weight)
        return self._compiled[layer]


def _static_table(distribution: Distribution) -> Table:
    prior = distribution.prior
    if distribution.values or not prior.is_static or len(prior.tables) != 1:
        found = "contextual features" if distribution.values else "a background that follows the text"
        raise ConfigError(
            f"the chunked objective needs a static background and no contextual features, found {found}; "
            "leave training.objective out for the exact one"
        )
    return prior.tables[0]
