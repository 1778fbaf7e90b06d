"""The primitives of the fused layer in plain torch: what the kernels are compared with, and the way on CPU.

row_sums    Φ M (rows, H) and Φ v + offset (rows,)
log_sums    logsumexp_s(x[n, s] + b[s]), and x[n, k(n)] + b[k(n)]
convert     factor · M, in another type
gradients   D[n, s] = w[n] · (exp(x[n, s] + b[s] − log_sum[n]) − [s = k(n)]), and its column sums

offset_logits  x[n, s] + log(1 + r[n, s]) in place of x, 1 + r = 1 − Σ q + Σ q exp g, over words with offsets g = a·v
            relative to exp m, where m is the largest offset at a position, or 0, so that nothing overflows
offset_gradients        dg = w[n] · p(s) · q exp(g) / (1 + r),  da[n] = Σ dg v
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from llrnn.layer.matrix import KernelRows
from llrnn.layer.numerics import MINUS_INFINITY

LEAST = 1e-37  # of a float32 that is divided by


def row_sums(
    rows: KernelRows, matrix: Tensor, vector: Tensor, offset: Tensor | None, scale: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return scale · A M (rows, H) as `dtype` and scale · A v + offset (rows,), as `kernels.row_sums` does, in torch.

    `rows`: a sparse matrix A (rows, n), the feature matrix of classes of words or its transpose; `matrix`: M (n, H);
    `vector`: v (n,); `offset` (rows,), or None for 0; `scale`: a scalar tensor, or None for 1.
    """
    product, sums = rows.sums(matrix), rows.sums(vector.unsqueeze(-1)).squeeze(-1)
    if scale is not None:
        product, sums = product * scale, sums * scale
    return product.to(dtype), sums if offset is None else sums + offset


def convert(tensor: Tensor, factor: Tensor | None, out: Tensor) -> None:
    """Fill `out` with factor · tensor, in the dtype of `out`; `factor`: a scalar tensor, or None for 1."""
    out.copy_(tensor if factor is None else tensor * factor)


def log_sums(logits: Tensor, bias: Tensor, klass: Tensor, log_sum: Tensor, score: Tensor) -> None:
    """Fill `log_sum` with log Σ_s exp(x_s + bias_s), and `score` with x_k + bias_k, each (C,).

    `logits`: x (C, G), of G classes s of words at C positions, without bias; `bias` (G,); `klass` (C,): the target
    class k of each position. A class is a set of words with equal features.
    """
    terms = logits.to(bias.dtype) + bias
    largest = terms.amax(1)
    shift = largest.masked_fill(largest == MINUS_INFINITY, 0.0)  # a row of minus infinities has that as its sum
    log_sum.copy_((terms - shift[:, None]).exp_().sum(1).log_() + shift)
    score.copy_(terms.gather(1, klass[:, None])[:, 0])


def gradients(
    logits: Tensor, bias: Tensor, klass: Tensor, log_sum: Tensor, weight: Tensor, out: Tensor, sums: Tensor
) -> None:
    """Fill `out` (C, G) with D, the gradient of the loss by the logits, and add its column sums to `sums[0]` (G,).

    D[n, s] = w[n] · (exp(x[n, s] + b[s] − log_sum[n]) − [s = k(n)]) for class s of words at position n; x = `logits`,
    which `out` may overwrite, `log_sum` (C,) by `log_sums`, w = `weight` (C,), the weight of each position in the loss,
    b = `bias` (G,), k = `klass` (C,), the target classes.
    """
    p = (logits.to(bias.dtype) + (bias - log_sum.unsqueeze(1))).exp_()
    p.masked_fill_((log_sum == MINUS_INFINITY)[:, None], 0.0).mul_(weight[:, None])
    p.scatter_add_(1, klass[:, None], -weight[:, None])
    out.copy_(p)
    sums[0] += p.sum(0)


class LogitOffsets(NamedTuple):
    """What contextual features add to the logits of E single words, g = a·v, at N positions; sorted by position.

    Of each word, (E,): its `position`, its class `klass` (words with equal static features), its `share` of the prior
    summed over that class, and `value` (E, k), the values v of the k features less those of other words there;
    `weights`: a (N, k), of the features, which alone have gradients. Entries at position N, which does not exist, are
    padding.
    """

    position: Tensor  # (E,)
    klass: Tensor  # (E,)
    share: Tensor  # (E,)
    value: Tensor  # (E, k)
    weights: Tensor  # a (N, k)


class OffsetLogits(NamedTuple):
    """The result of logit offsets of E words: `x` (E,), the new logit of each word's class, and `share` (E,).

    `share` is the word's fraction of the unnormalised probability of all words of its class, offsets included. A class
    is a set of words with equal static features.
    """

    x: Tensor  # (E,)
    share: Tensor  # (E,)


def offset_logits(logits: Tensor, logit_offsets: LogitOffsets) -> OffsetLogits:
    """Change the logits (N, G) of classes of words in place, for E single words with offsets.

    The logit of a class becomes x + log(1 − Σ q + Σ q exp g) over its words with offset g and share q of the class's
    prior. Returns, each (E,), the new logit of each word's class, and the fraction that the word has of the class's
    unnormalised probability. Words of equal position and class belong together; those at position N are padding.
    """
    (N, G), (_, klass, share, value, a) = logits.shape, logit_offsets
    n = logit_offsets.position.clamp(max=N - 1)
    offset = (a.index_select(0, n) * value).sum(-1)
    m = offset.new_zeros(N).scatter_reduce(0, n, offset, "amax").index_select(0, n)
    at, becomes = n * G + klass, share * (offset - m).exp()
    gone, become = (offset.new_zeros(N * G).index_add_(0, at, part).index_select(0, at) for part in (share, becomes))
    mass = become.add_((1.0 - gone).clamp_(min=0.0) * (-m).exp()).clamp_(min=LEAST)
    x = logits.view(-1).index_select(0, at).to(offset.dtype) + (mass.log() + m)
    logits.view(-1).scatter_(0, at, x.to(logits.dtype))
    return OffsetLogits(x, becomes / mass)


def offset_gradients(
    logit_offsets: LogitOffsets, found: OffsetLogits, bias: Tensor, log_sum: Tensor, w: Tensor
) -> Tensor:
    """Return the gradient of Σ_n w[n] log_sum[n] by the weights of k contextual features at N positions, (N, k).

    `logit_offsets`: the offsets that these weights gave to single words; `found`: what `offset_logits` returned for
    them; `bias` (G,): of the classes of words; `log_sum` (N,): log-sums over the classes, with the offsets; `w` (N,):
    the weight of each position in the loss.
    """
    n = logit_offsets.position.clamp(max=len(w) - 1)
    d = w[n] * (found.x + bias[logit_offsets.klass] - log_sum[n]).exp() * found.share
    return torch.zeros_like(logit_offsets.weights).index_add_(0, n, d[:, None] * logit_offsets.value)
