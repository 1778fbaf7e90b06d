"""The primitives of the fused layer in plain torch: what the kernels are compared with, and the way on CPU.

row_sums    Φ M (rows, H) and Φ v + offset (rows,)
log_sums    logsumexp_s(x[n, s] + b[s]), and x[n, k(n)] + b[k(n)]
convert     factor · M, in another type
gradients   D[n, s] = g_sum[n] · exp(x[n, s] + b[s] − log_sum[n]) + g_score[n] · [s = k(n)], and its column sums
"""

from __future__ import annotations

import torch
from torch import Tensor

from llrnn.layer.matrix import KernelRows
from llrnn.layer.numerics import MINUS_INFINITY


def row_sums(
    rows: KernelRows, matrix: Tensor, vector: Tensor, offset: Tensor | None, scale: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """scale · Φ M in the given dtype, (n, H) -> (rows, H), and scale · Φ v + offset, (n,) -> (rows,)."""
    product, sums = rows.sums(matrix), rows.sums(vector.unsqueeze(-1)).squeeze(-1)
    if scale is not None:
        product, sums = product * scale, sums * scale
    return product.to(dtype), sums if offset is None else sums + offset


def convert(tensor: Tensor, factor: Tensor | None, out: Tensor) -> None:
    """Fills out with factor · tensor."""
    out.copy_(tensor if factor is None else tensor * factor)


def log_sums(logits: Tensor, bias: Tensor, klass: Tensor, log_sum: Tensor, score: Tensor) -> None:
    """Fills log_sum and score, each (C,), from logits (C, G) that still lack their bias (G,)."""
    terms = logits.to(bias.dtype) + bias
    largest = terms.amax(1)
    shift = largest.masked_fill(largest == MINUS_INFINITY, 0.0)  # a row of minus infinities has that as its sum
    log_sum.copy_((terms - shift[:, None]).exp_().sum(1).log_() + shift)
    score.copy_(terms.gather(1, klass[:, None])[:, 0])


def gradients(
    logits: Tensor,
    bias: Tensor,
    klass: Tensor,
    log_sum: Tensor,
    g_sum: Tensor,
    g_score: Tensor | None,
    out: Tensor,
    sums: Tensor,
) -> None:
    """Fills out (C, G), which may take the place of `logits`, and adds its columns to sums, (n, G), whose rows add up.

    g_score is −g_sum if not given."""
    p = (logits.to(bias.dtype) + (bias - log_sum.unsqueeze(1))).exp_()
    p.masked_fill_((log_sum == MINUS_INFINITY)[:, None], 0.0).mul_(g_sum[:, None])
    p.scatter_add_(1, klass[:, None], (-g_sum if g_score is None else g_score)[:, None])
    out.copy_(p)
    sums[0] += p.sum(0)
