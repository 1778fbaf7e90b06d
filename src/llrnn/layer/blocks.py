"""The log-sum over classes in plain torch, block by block of positions: what a CPU does.

    log_sum_n = log Σ_s exp x[n, s]         d log_sum / dx = e / t                  e = exp(x − max), t its sum over s

    composed    x = h Mᵀ + b      M = Φ W (G, H), b = Φ c + log B           dh = f∘(e M),  dM = eᵀ (f∘h),  db = eᵀ f
    spread      x = S y + log B   y = h Mᵀ + b, M = Φ̃ W, Φ = S Φ̃              dy = f∘(e S), then as composed
    direct      x = Φ (W h + c) + log B               da = Φᵀ (f∘e),        dh = daᵀ W,    dW = da hᵀ,     dc = da 1

f = g / t is what a position has in common: composed, it is multiplied into the small matrices, and e stays as it was
made. Composed, a position costs G·H multiplications; direct, m·H and an addition for each entry of Φ, which is much
less for a few hundred features in ten thousand classes. Direct, positions are columns: long rows add up fast.

    log_sums     log_sum and asked scores, for any gradients of both: e is kept, N × G, or made again in backward
    mean_loss    mean (log_sum − asked): its gradients are made with it, and nothing of N × G is kept

On a CPU fresh memory costs more than several passes over it (a page fault for every 4 KiB), and a block that stays in
the cache costs next to nothing: blocks save time besides memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from llrnn.layer.matrix import SparseMatrix
from llrnn.layer.numerics import MINUS_INFINITY


class Pairs(NamedTuple):
    """E (position, class) pairs whose scores a caller asks for, beside log-sums over all classes: (row, klass).

    Pair e is class `klass[e]` at position `row[e]`; both are integer tensors (E,), sorted by position. A class is a set
    of words with equal features.
    """

    row: Tensor  # (E,)
    klass: Tensor  # (E,)


class Block(NamedTuple):
    """What was computed for a block of R positions over G classes of words, from their scores x (R, G).

    `exps`: exp(x − max), max over the classes at each position, (R, G), or (G, R) from `DirectBlocks`; `total`: the
    sums of `exps` over classes, (R,); `log_sum`: log Σ_s exp x, (R,) float64; `asked`: the scores x of the (position,
    class) pairs that the caller asked for, (E,), in the caller's order.
    """

    exps: Tensor
    total: Tensor
    log_sum: Tensor
    asked: Tensor


class Blocks(ABC):
    """Abstract computation of scores of all G classes of words, and of gradients, for one block of positions at a time.

    Use: `blocks = ComposedBlocks(h, weight, bias)`, then `blocks.block(part, pairs)` for slices `part` of the
    positions; for gradients `blocks.start()` and `blocks.add(...)` for each slice. Subclasses differ in how scores x
    follow from hidden vectors `h` (N, H), `weight` and `bias`. After `start` and one `add` for each block, `d_h`,
    `d_weight` and `d_bias` are the gradients of these three.
    """

    _classes = 1  # the dimension of e that they are

    def __init__(self, h: Tensor, weight: Tensor, bias: Tensor) -> None:
        self.h, self.weight, self.bias = h, weight, bias
        self.d_h, self.d_weight, self.d_bias = torch.empty(0), torch.empty(0), torch.empty(0)

    @abstractmethod
    def scores(self, part: slice) -> Tensor:
        """Return the scores x of the positions `part` for all G classes, in memory that the next call may overwrite.

        (R, G) for R positions; `DirectBlocks` returns them transposed, (G, R). A class is a set of words with equal
        features.
        """

    @abstractmethod
    def add(self, part: slice, exps: Tensor, f: Tensor, pairs: Pairs, g_asked: Tensor) -> None:
        """Add what one block of R positions contributes to the gradients `d_h`, `d_weight` and `d_bias`.

        `part`: the slice of its positions; `exps`: exp(x − max) of its scores x, as in its `Block`; `f` (R,): the
        gradient of the log-sum of each position divided by the sum of `exps`; `pairs`: (position, class) pairs,
        positions counted from the block's first; `g_asked`: the gradient of the scores of these pairs. Call it for the
        blocks in order; the first, at position 0, overwrites what `d_weight` held.
        """

    def block(self, part: slice, pairs: Pairs) -> Block:
        """Return the `Block` of the positions `part`: exponentials, their sums, log-sums, and the scores of `pairs`.

        `pairs`: (position, class of words) pairs, positions counted from the first one of the block.
        """
        x = self.scores(part)
        asked = x[(pairs.row, pairs.klass) if self._classes else (pairs.klass, pairs.row)]
        largest = x.amax(self._classes, keepdim=True)
        shift = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
        total = x.sub_(shift).exp_().sum(self._classes)
        return Block(x, total, shift.view(-1).double() + total.double().log(), asked)

    def start(self) -> None:
        """Allocate the gradients `d_h`, `d_weight` and `d_bias`, into which `add` then writes, block by block."""
        self.d_h, self.d_weight = torch.empty_like(self.h), torch.empty_like(self.weight)
        self.d_bias = torch.zeros_like(self.bias)

    def _add_to_weight(self, part: slice, left: Tensor, right: Tensor) -> None:
        if part.start == 0:
            torch.mm(left, right, out=self.d_weight)
        else:
            self.d_weight.addmm_(left, right)


class ComposedBlocks(Blocks):
    """Blocks of scores x = h Mᵀ + b of G classes of words, where features are multiplied into the weights beforehand.

    `weight`: M = Φ W (G, H), Φ the feature matrix; `bias`: b (G,); `keeps`: whether each block has a buffer of its own,
    which stays valid; by default the next block overwrites it.
    """

    def __init__(self, h: Tensor, weight: Tensor, bias: Tensor, *, keeps: bool = False) -> None:
        super().__init__(h, weight, bias)
        self._keeps, self._buffer = keeps, torch.empty(0)

    def scores(self, part: slice) -> Tensor:
        R = part.stop - part.start
        if self._keeps or len(self._buffer) < R:
            self._buffer = self.h.new_empty(R, len(self.weight))
        return torch.addmm(self.bias, self.h[part], self.weight.t(), out=self._buffer[:R])

    def add(self, part: slice, exps: Tensor, f: Tensor, pairs: Pairs, g_asked: Tensor) -> None:
        h, d_h = self.h[part], self.d_h[part]
        torch.mm(exps, self.weight, out=d_h).mul_(f[:, None])
        d_h.index_add_(0, pairs.row, self.weight[pairs.klass] * g_asked[:, None])
        self._add_to_weight(part, exps.t(), h * f[:, None])
        self.d_weight.index_add_(0, pairs.klass, h[pairs.row] * g_asked[:, None])
        self.d_bias.addmv_(exps.t(), f).index_add_(0, pairs.klass, g_asked)


class SpreadBlocks(Blocks):
    """Blocks of scores x = (h Mᵀ + b) Sᵀ + log B of G classes of words, where the feature matrix is a product Φ = S Φ̃.

    `weight`: M = Φ̃ W (P, H); `bias`: b = Φ̃ c (P,); `phi`: Φ with the blocks of S; `offset`: log B (G,), the log of
    the prior summed over each class; `keeps`: whether each block has a buffer of its own, which stays valid; by default
    the next block overwrites it.
    """

    def __init__(
        self, h: Tensor, weight: Tensor, bias: Tensor, *, phi: SparseMatrix, offset: Tensor, keeps: bool = False
    ) -> None:
        super().__init__(h, weight, bias)
        self._parts = [(part.classes, part.inner, part.as_dtype(h.dtype)) for part in phi.expansions]
        self._single = self._parts[0][0].start  # classes outside all blocks
        self._offset, self._keeps, self._buffer = offset, keeps, torch.empty(0)

    def scores(self, part: slice) -> Tensor:
        y, R = torch.addmm(self.bias, self.h[part], self.weight.t()), part.stop - part.start
        if self._keeps or len(self._buffer) < R:
            self._buffer = self.h.new_empty(R, len(self._offset))
        x = self._buffer[:R]
        torch.add(y[:, : self._single], self._offset[: self._single], out=x[:, : self._single])
        for classes, inner, expand in self._parts:
            torch.addmm(self._offset[classes], y[:, inner], expand.t(), out=x[:, classes])
        return x

    def add(self, part: slice, exps: Tensor, f: Tensor, pairs: Pairs, g_asked: Tensor) -> None:
        d_y = exps.new_empty(len(exps), len(self.weight))
        torch.mul(exps[:, : self._single], f[:, None], out=d_y[:, : self._single])
        own = pairs.klass < self._single
        d_y.index_put_((pairs.row[own], pairs.klass[own]), g_asked[own], accumulate=True)
        for classes, inner, expand in self._parts:
            d_block = torch.mm(exps[:, classes], expand).mul_(f[:, None])
            own = (pairs.klass >= classes.start) & (pairs.klass < classes.stop)
            d_block.index_add_(0, pairs.row[own], expand[pairs.klass[own] - classes.start] * g_asked[own, None])
            d_y[:, inner] = d_block
        torch.mm(d_y, self.weight, out=self.d_h[part])
        self._add_to_weight(part, d_y.t(), self.h[part])
        self.d_bias += d_y.sum(0)


class DirectBlocks(Blocks):
    """Blocks of scores x = Φ (W h + c) + log B of G classes of words: feature weights first, then the sparse matrix Φ.

    Scores are transposed, (G, R) for R positions. `weight`: W (m, H); `bias`: c (m,); `phi`: Φ (G, m); `offset`: log B
    (G,), the log of the prior summed over each class.
    """

    _classes = 0

    def __init__(self, h: Tensor, weight: Tensor, bias: Tensor, *, phi: SparseMatrix, offset: Tensor) -> None:
        super().__init__(h, weight, bias)
        self._phi, self._offset = phi, offset[:, None]

    def scores(self, part: slice) -> Tensor:
        a = torch.addmm(self.bias[:, None], self.weight, self.h[part].t())  # (m, R)
        x = self._phi @ a
        return x + self._offset if x is a else x.add_(self._offset)

    def add(self, part: slice, exps: Tensor, f: Tensor, pairs: Pairs, g_asked: Tensor) -> None:
        d_x = (exps * f).index_put_((pairs.klass, pairs.row), g_asked, accumulate=True)
        d_a = self._phi.transposed(d_x)  # (m, R)
        torch.mm(d_a.t(), self.weight, out=self.d_h[part])
        self._add_to_weight(part, d_a, self.h[part])
        self.d_bias += d_a.sum(1)


MakeBlocks = Callable[[Tensor, Tensor, Tensor], Blocks]


def log_sums(
    h: Tensor, weight: Tensor, bias: Tensor, way: MakeBlocks, pairs: Pairs, rows: int, *, keeps: bool
) -> tuple[Tensor, Tensor]:
    """Return log Σ_s exp x[n, s] over all G classes s of words, (N,) float64, and the scores x of the pairs, (E,).

    Differentiable. `h` (N, H), `weight` and `bias`: what the scores x are computed from by the `Blocks` that `way(h,
    weight, bias)` returns; `pairs`: the (position, class) pairs asked for, sorted by position, in whose order the
    second result is; `rows`: how many positions are computed at a time; `keeps`: whether the N × G exponentials are
    kept for backward (else they are computed again there).
    """
    return cast(
        tuple[Tensor, Tensor],
        _LogSums.apply(h, weight, bias, way, pairs, rows, keeps),  # type: ignore[no-untyped-call]
    )


def mean_loss(h: Tensor, weight: Tensor, bias: Tensor, way: MakeBlocks, pairs: Pairs, rows: int) -> Tensor:
    """Return the mean of log Σ_s exp x[n, s] − x[n, k] over the pairs (n, k), a scalar in the dtype of `h`.

    It is the cross-entropy over G classes s of words; gradients are computed in the same pass, so that nothing of size
    N × G is kept. `h` (N, H), `weight` and `bias`: what the scores x are computed from by the `Blocks` that `way(h,
    weight, bias)` returns; `pairs`: one for each position, with its target class k; `rows`: how many positions are
    computed at a time.
    """
    return cast(Tensor, _MeanLoss.apply(h, weight, bias, way, pairs, rows))  # type: ignore[no-untyped-call]


class _LogSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, way: MakeBlocks, pairs: Pairs, rows: int, keeps: bool
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
        made: Blocks = ctx.way(h, weight, bias)
        made.start()
        for i, (part, own, within) in enumerate(_parts(len(h), ctx.rows, ctx.pairs)):
            exps, total = kept[2 * i : 2 * i + 2] if kept else made.block(part, within)[:2]
            made.add(part, exps, _over(grads[0][part].to(h.dtype), total), within, grads[1][own])
        return made.d_h, made.d_weight, made.d_bias, None, None, None, None


class _MeanLoss(torch.autograd.Function):
    """The autograd function of `mean_loss`: loss and gradients in one pass over blocks of positions.

    Backward only multiplies: the gradients of the mean are known in the forward pass up to one factor for all
    positions, so exponentials of scores are used there and not kept.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, way: MakeBlocks, pairs: Pairs, rows: int) -> Tensor:
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
    """Return g / total elementwise, and 0 where `total` is 0: a position at which every word has probability 0."""
    return (g / total).masked_fill_(total == 0.0, 0.0)


def _parts(n: int, rows: int, pairs: Pairs) -> Iterator[tuple[slice, slice, Pairs]]:
    """Yield for each block of `rows` out of n positions: its slice, the slice of its pairs in `pairs`, and these pairs.

    In the yielded pairs positions are counted from the first one of the block. The last block may have fewer positions.
    """
    starts = list(range(0, n, rows))
    firsts = torch.searchsorted(pairs.row, torch.tensor([*starts, n], device=pairs.row.device)).tolist()
    for start, first, last in zip(starts, firsts, firsts[1:], strict=False):
        own = slice(first, last)
        yield slice(start, min(start + rows, n)), own, Pairs(pairs.row[own] - start, pairs.klass[own])
