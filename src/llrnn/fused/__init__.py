"""The log-sum over classes and its gradients without an N × G matrix: chunk by chunk, in half precision on the GPU.

log_sum_and_score     for any gradients of its results            weighted_loss     for weights that are known before
graphed               a module as two CUDA graphs                 plan_for          precision and size of the chunks
"""

from __future__ import annotations

from llrnn.fused.chunks import Plan, Problem, plan_for
from llrnn.fused.graphed import graphed
from llrnn.fused.layer import log_sum_and_score, weighted_loss
from llrnn.fused.sparse import Sparse, sparse

__all__ = ["Plan", "Problem", "Sparse", "graphed", "log_sum_and_score", "plan_for", "sparse", "weighted_loss"]
