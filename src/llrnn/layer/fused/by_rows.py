"""The log-sum over classes in plain torch, block by block of positions: what a CPU does.

    log_sum_n = log Σ_s exp x[n, s]         d log_sum / dx = e / t          (see `fused.weighing`)

    log_sums     log_sum and asked scores, for any gradients of both: e is kept, N × G, or made again in backward
    mean_loss    mean (log_sum − asked): its gradients are made with it, and nothing of N × G is kept

On a CPU fresh memory costs more than several passes over it (a page fault for every 4 KiB), and a block that stays in
the cache costs next to nothing: blocks save time besides memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from llrnn.layer.fused.weighing import Pairs, Way

MakeWay = Callable[[Tensor, Tensor, Tensor], Way]


def log_sums(
    h: Tensor, weight: Tensor, bias: Tensor, way: MakeWay, pairs: Pairs, rows: int, *, keeps: bool
) -> tuple[Tensor, Tensor]:
    """log_sum (N,) and the asked scores (E,); `rows` positions are computed together."""
    return cast(
        tuple[Tensor, Tensor],
        _LogSums.apply(h, weight, bias, way, pairs, rows, keeps),  # type: ignore[no-untyped-call]
    )


def mean_loss(h: Tensor, weight: Tensor, bias: Tensor, way: MakeWay, pairs: Pairs, rows: int) -> Tensor:
    """The mean of log_sum − asked over the pairs, a number."""
    return cast(Tensor, _MeanLoss.apply(h, weight, bias, way, pairs, rows))  # type: ignore[no-untyped-call]


class _LogSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, way: MakeWay, pairs: Pairs, rows: int, keeps: bool
    ) -> tuple[Tensor, Tensor]:
        made, kept = way(h, weight, bias), []
        log_sum, asked = h.new_empty(len(h), dtype=torch.float64), h.new_empty(len(pairs.row))
        for part, own, within in _parts(len(h), rows, pairs):
            block = made.block(part, within)
            log_sum[part], asked[own] = block.log_sum, block.asked
            kept += [block.exps, block.total] if keeps else []
        ctx.save_for_backward(h, weight, bias, *kept)
        ctx.way, ctx.pairs, ctx.rows = way, pairs, rows
        return log_sum, asked

    @staticmethod
    @once_differentiable  # e is a constant here: a second derivative would be wrong
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        h, weight, bias, *kept = ctx.saved_tensors
        made: Way = ctx.way(h, weight, bias)
        made.start()
        for i, (part, own, within) in enumerate(_parts(len(h), ctx.rows, ctx.pairs)):
            exps, total = kept[2 * i : 2 * i + 2] if kept else made.block(part, within)[:2]
            made.add(part, exps, _over(grads[0][part].to(h.dtype), total), within, grads[1][own])
        return made.d_h, made.d_weight, made.d_bias, None, None, None, None


class _MeanLoss(torch.autograd.Function):
    """The gradient of a position is known up to one factor for all, so that its e serves at once, and is forgotten."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, way: MakeWay, pairs: Pairs, rows: int) -> Tensor:
        made, wanted = way(h, weight, bias), any(ctx.needs_input_grad[:3])
        share = 1.0 / len(pairs.row)
        g_sum = torch.bincount(pairs.row, minlength=len(h)).to(h.dtype) * share  # (N,)
        g_asked = torch.full_like(pairs.row, -share, dtype=h.dtype)
        loss = h.new_zeros((), dtype=torch.float64)
        if wanted:
            made.start()
        for part, own, within in _parts(len(h), rows, pairs):
            block = made.block(part, within)
            loss += share * (block.log_sum[within.row] - block.asked.double()).sum()
            if wanted:
                made.add(part, block.exps, _over(g_sum[part], block.total), within, g_asked[own])
        ctx.save_for_backward(made.d_h, made.d_weight, made.d_bias)
        return loss.to(h.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        return *(gradient * grads[0] for gradient in ctx.saved_tensors), None, None, None


def _over(g: Tensor, total: Tensor) -> Tensor:
    """f = g / t; a position where nothing is possible has no gradient."""
    return (g / total).masked_fill_(total == 0.0, 0.0)


def _parts(n: int, rows: int, pairs: Pairs) -> Iterator[tuple[slice, slice, Pairs]]:
    """The blocks of positions; the pairs of each, and these with positions counted from its first."""
    starts = list(range(0, n, rows))
    firsts = torch.searchsorted(pairs.row, torch.tensor([*starts, n], device=pairs.row.device)).tolist()
    for start, first, last in zip(starts, firsts, firsts[1:], strict=False):
        own = slice(first, last)
        yield slice(start, min(start + rows, n)), own, Pairs(pairs.row[own] - start, pairs.klass[own])
