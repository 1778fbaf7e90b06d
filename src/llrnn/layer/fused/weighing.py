"""From h to the scores of the classes and back, by two ways that give the same numbers, for some positions at a time.

    composed    x = h Mᵀ + b      M = Φ W (G, H), b = Φ c + log B           dh = f∘(e M),  dM = eᵀ (f∘h),  db = eᵀ f
    direct      x = Φ (W h + c) + log B               da = Φᵀ (f∘e),        dh = daᵀ W,    dW = da hᵀ,     dc = da 1

e = exp(x − max), and f = g / t is what a position has in common: composed, it is multiplied into the small matrices,
and e stays as it was made. Composed, a position costs G·H multiplications; direct, m·H and an addition for each entry
of Φ, which is much less for a few hundred features in ten thousand classes. Direct, positions are columns: long rows
add up fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from llrnn.layer.numerics import MINUS_INFINITY, SparseMatrix


class Pairs(NamedTuple):
    """Which scores are asked for: those of class `klass[e]` at position `row[e]`; sorted by position."""

    row: Tensor  # (E,)
    klass: Tensor  # (E,)


class Block(NamedTuple):
    """Some positions: e, (R, G) or (G, R), its sums t (R,), log Σ exp x (R,) float64, and the asked scores."""

    exps: Tensor
    total: Tensor
    log_sum: Tensor
    asked: Tensor


class Way(ABC):
    """A way at given h, weight and bias; the gradients of the three add up block by block."""

    _classes = 1  # the dimension of e that they are

    def __init__(self, h: Tensor, weight: Tensor, bias: Tensor) -> None:
        self.h, self.weight, self.bias = h, weight, bias
        self.d_h, self.d_weight, self.d_bias = torch.empty(0), torch.empty(0), torch.empty(0)

    @abstractmethod
    def scores(self, part: slice) -> Tensor:
        """x of some positions, in memory of its own."""

    @abstractmethod
    def add(self, part: slice, exps: Tensor, f: Tensor, pairs: Pairs, g_asked: Tensor) -> None:
        """What a block adds to the gradients."""

    def block(self, part: slice, pairs: Pairs) -> Block:
        x = self.scores(part)
        asked = x[(pairs.row, pairs.klass) if self._classes else (pairs.klass, pairs.row)]
        largest = x.amax(self._classes, keepdim=True)
        shift = largest.masked_fill(largest == MINUS_INFINITY, 0.0)
        total = x.sub_(shift).exp_().sum(self._classes)
        return Block(x, total, shift.view(-1).double() + total.double().log(), asked)

    def start(self) -> None:
        """Gradients that are nothing yet."""
        self.d_h, self.d_weight = torch.empty_like(self.h), torch.empty_like(self.weight)
        self.d_bias = torch.zeros_like(self.bias)

    def _add_to_weight(self, part: slice, left: Tensor, right: Tensor) -> None:
        if part.start == 0:
            torch.mm(left, right, out=self.d_weight)
        else:
            self.d_weight.addmm_(left, right)


class Composed(Way):
    """From M (G, H) and b (G,); x lies in a buffer that the next block takes over, unless it is to be kept."""

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


class Direct(Way):
    """From W (m, H) and c (m,), with the constants Φ and log B (G,)."""

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
