"""The log-sum over classes from h and W, with nothing of size N × G kept between forward and backward.

    x[n, s] = h_n · (Φ W)_s        b = Φ c + log B
    log_sum[n] = logsumexp_s(x[n, s] + b[s])              score[n] = x[n, k(n)] + b[k(n)]

    D[n, s] = g_sum[n] · exp(x[n, s] + b[s] − log_sum[n]) + g_score[n] · [s = k(n)]
    dh = D Φ W        dW = Φᵀ (Dᵀ h)        dc = Φᵀ (Dᵀ 1)

The logits x live for one chunk of positions at a time. Two ways to the same gradients:

    log_sum_and_score(...)    for any gradients of its two results: the logits are made again in backward, 4 products
    weighted_loss(...)        Σ_n w_n (log_sum[n] − score[n]) for weights known before: gradients in forward, 3 products

On the GPU x is float16, whose numbers have 11 digits where bfloat16 has 8, and D is bfloat16, whose numbers may be as
small as they like; all sums are float32. Magnitudes of h, Φ W and x must stay below 65504 there.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from llrnn.layer.fused.chunks import Chunks, Composed, Gradients, Plan, Problem, Totals, converted, ops_for, plan_for
from llrnn.layer.fused.sparse import Sparse
from llrnn.layer.numerics import MINUS_INFINITY


def log_sum_and_score(
    h: Tensor, weight: Tensor, bias: Tensor, problem: Problem, plan: Plan | None = None
) -> tuple[Tensor, Tensor]:
    """log_sum and score, each (N,), from h (N, H), W (m, H) and c (m,)."""
    chosen = plan or plan_for(h, problem.phi.rows.n_rows)
    return cast(tuple[Tensor, Tensor], _LogSum.apply(h, weight, bias, problem, chosen))  # type: ignore[no-untyped-call]


def weighted_loss(
    h: Tensor, weight: Tensor, bias: Tensor, problem: Problem, weights: Tensor | None = None, plan: Plan | None = None
) -> tuple[Tensor, Tensor]:
    """Σ_n w_n (log_sum[n] − score[n]), a number, w = 1/N if not given; and log_sum − score (N,), without gradient."""
    chosen = plan or plan_for(h, problem.phi.rows.n_rows)
    return cast(
        tuple[Tensor, Tensor],
        _WeightedLoss.apply(h, weight, bias, problem, weights, chosen),  # type: ignore[no-untyped-call]
    )


class _LogSum(torch.autograd.Function):
    """The logits are made twice, so that the gradients of both results may be anything."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, problem: Problem, plan: Plan
    ) -> tuple[Tensor, Tensor]:
        composed = _compose(h, weight, bias, problem, plan)
        chunks = Chunks(composed, problem.klass, plan)
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
        chunks = Chunks(Composed(*composed), ctx.problem.klass, ctx.plan)
        totals, any_gradients = Totals(chunks), [grad.contiguous() for grad in grads]
        for part in chunks:
            chunks.logits(part)
            totals.add(part, log_sum, *any_gradients)
        return *_decompose(totals.finished(), ctx.problem.phi, None, ctx.dtypes), None, None


class _WeightedLoss(torch.autograd.Function):
    """The gradient of a position is known up to one factor for all, so D is made as soon as the log-sum is."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, problem: Problem, weights: Tensor | None, plan: Plan
    ) -> tuple[Tensor, Tensor]:
        composed = _compose(h, weight, bias, problem, plan)
        chunks = Chunks(composed, problem.klass, plan)
        totals = Totals(chunks) if any(ctx.needs_input_grad[:3]) else None
        log_sum, score = composed.bias.new_empty(2, len(h))
        w = torch.full_like(log_sum, 1 / len(h)) if weights is None else weights.to(log_sum.dtype).contiguous()
        for part in chunks:
            chunks.log_sums(part, log_sum, score)
            if totals is not None:
                totals.add(part, log_sum, w, None)
        if totals is not None:
            ctx.save_for_backward(*totals.finished())
        ctx.phi, ctx.dtypes = problem.phi, (h.dtype, weight.dtype, bias.dtype)
        surprisal = log_sum - score
        ctx.mark_non_differentiable(surprisal)
        return torch.dot(w, surprisal), surprisal

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        found = Gradients(*ctx.saved_tensors)
        return *_decompose(found, ctx.phi, grads[0], ctx.dtypes), None, None, None


def _compose(h: Tensor, weight: Tensor, bias: Tensor, problem: Problem, plan: Plan) -> Composed:
    """Sums are float32, or float64 where h is; classes that fill up have weight 0 and no mass."""
    dtype, rows = torch.promote_types(h.dtype, torch.float32), problem.phi.rows
    h, weight, c, offset = h.contiguous(), weight.contiguous(), bias.to(dtype), problem.log_mass.to(dtype)
    missing = rows.n_rows - len(offset)
    if missing:
        offset = F.pad(offset, (0, missing), value=MINUS_INFINITY)
    if not problem.phi.identity:
        return Composed(h, *ops_for(offset).row_sums(rows, weight, c, offset, None, plan.logits))
    if missing:
        weight, c = F.pad(weight, (0, 0, 0, missing)), F.pad(c, (0, missing))
    return Composed(h, converted(weight, plan.logits), c + offset)


def _decompose(
    found: Gradients, phi: Sparse, factor: Tensor | None, dtypes: tuple[torch.dtype, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradients by classes to those by features, times a factor."""
    d_h = converted(found.h, dtypes[0], factor)
    if phi.identity:
        real = slice(phi.columns.n_rows)
        return d_h, converted(found.weight[real], dtypes[1], factor), converted(found.bias[real], dtypes[2], factor)
    d_weight, d_bias = ops_for(found.bias).row_sums(phi.columns, found.weight, found.bias, None, factor, dtypes[1])
    return d_h, d_weight, d_bias.to(dtypes[2])
