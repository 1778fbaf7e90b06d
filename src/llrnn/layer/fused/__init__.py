"""The log-sum over classes and its gradients without an N × G matrix: chunk by chunk, in half precision on the GPU.

log_sum_and_score     for any gradients of its results            weighted_loss     for weights that are known before
graphed               a module as two CUDA graphs                 plan_for          precision and size of the chunks
product               Φ W, by the same kernels

On a CPU, and for log-probabilities: `chosen`, which asks `layer.costs` for one of the ways of `by_rows`.
"""

from __future__ import annotations

from llrnn.layer.fused.chunks import Plan, Problem, plan_for
from llrnn.layer.fused.graphed import graphed
from llrnn.layer.fused.layer import log_sum_and_score, weighted_loss
from llrnn.layer.fused.products import product
from llrnn.layer.fused.sparse import Sparse, sparse
from llrnn.layer.fused.weighing import Pairs

__all__ = [
    "Pairs",
    "Plan",
    "Problem",
    "Sparse",
    "graphed",
    "log_sum_and_score",
    "plan_for",
    "product",
    "sparse",
    "weighted_loss",
]
