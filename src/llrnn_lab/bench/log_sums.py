"""The chunked log-sum for any gradients of its two results: the logits are made again in backward, 4 products.

`layer.chunked.weighted_loss`, whose weights are known before, takes 3; what the fourth costs is measured here.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from llrnn.layer.chunked import Chunks, ComposedWeights, Plan, Problem, Totals, compose, decompose, plan_for


def log_sum_and_score(
    h: Tensor, weight: Tensor, bias: Tensor, problem: Problem, plan: Plan | None = None
) -> tuple[Tensor, Tensor]:
    """log_sum and score, each (N,), from h (N, H), W (m, H) and c (m,)."""
    chosen = plan or plan_for(h, problem.phi.rows.n_rows)
    return cast(tuple[Tensor, Tensor], _LogSum.apply(h, weight, bias, problem, chosen))  # type: ignore[no-untyped-call]


class _LogSum(torch.autograd.Function):
    """The logits are made twice, so that the gradients of both results may be anything."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, problem: Problem, plan: Plan
    ) -> tuple[Tensor, Tensor]:
        composed = compose(h, weight, bias, problem, plan)
        chunks = Chunks(composed, problem, plan)
        log_sum, score = composed.bias.new_empty(2, len(h))
        for part in chunks:
            chunks.log_sums(part, log_sum, score)
        ctx.save_for_backward(*composed, log_sum)
        ctx.problem, ctx.plan, ctx.dtypes = problem, plan, (h.dtype, weight.dtype, bias.dtype)
        return log_sum, score

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        *composed, log_sum = ctx.saved_tensors
        chunks = Chunks(ComposedWeights(*composed), ctx.problem, ctx.plan)
        totals, any_gradients = Totals(chunks), [grad.contiguous() for grad in grads]
        for part in chunks:
            chunks.logits(part)
            totals.add(part, log_sum, *any_gradients)
        return *decompose(totals.finished(), ctx.problem.phi, None, ctx.dtypes), None, None
