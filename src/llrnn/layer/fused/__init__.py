"""The log-sum over classes and its gradients without an N × G matrix: chunk by chunk, in half precision on the GPU."""

from __future__ import annotations

from llrnn.layer.fused.chunked import (
    Plan,
    Problem,
    by_kernels,
    composed,
    graphed,
    log_sum_and_score,
    plan_for,
    product,
    weighted_loss,
)

__all__ = [
    "Plan",
    "Problem",
    "by_kernels",
    "composed",
    "graphed",
    "log_sum_and_score",
    "plan_for",
    "product",
    "weighted_loss",
]
