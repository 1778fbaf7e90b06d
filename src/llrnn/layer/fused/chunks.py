"""Positions chunk by chunk: the logits of one chunk, and the gradients as they grow.

x[n, s] = h_n · (Φ W)_s                 in a buffer that the next chunk takes over
D takes the place of x                  dh = D Φ W,   d(Φ W) = Dᵀ h,   db = Dᵀ 1
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from llrnn.layer.fused import kernels, twin
from llrnn.layer.fused.sparse import Sparse

_CHUNK_BYTES = 1 << 26  # of logits: half of them stay in the second-level cache of an H200
_FEWEST_ROWS = 4096  # in a chunk: shorter products leave processors idle


class Plan(NamedTuple):
    """How it is computed: the type of the logits and their factors, that of D and its factors, positions in a chunk."""

    logits: torch.dtype
    gradients: torch.dtype
    rows: int


class Problem(NamedTuple):
    """The constants: Φ, the log-mass of every class (G,), and the class that is asked for at each position (N,)."""

    phi: Sparse
    log_mass: Tensor
    klass: Tensor


class Composed(NamedTuple):
    """h as it came, Φ W in the type of the logits, and the bias of every class."""

    h: Tensor  # (N, H)
    weight: Tensor  # (G, H)
    bias: Tensor  # (G,)


class Gradients(NamedTuple):
    """D Φ W, Dᵀ h and Dᵀ 1."""

    h: Tensor  # (N, H)
    weight: Tensor  # (G, H)
    bias: Tensor  # (G,)


def plan_for(h: Tensor, n_classes: int, *, exact: bool = False) -> Plan:
    """Half precision on the GPU unless exact; chunks of logits that fit its cache."""
    half = h.is_cuda and not exact and h.dtype != torch.float64
    logits, gradients = (torch.float16, torch.bfloat16) if half else (h.dtype, h.dtype)
    return Plan(logits, gradients, max(_FEWEST_ROWS, _CHUNK_BYTES // (n_classes * logits.itemsize)))


class Chunks:
    """Positions chunk by chunk, and the buffer that holds the logits of one. What else depends on the position (log b
    of (position, class) pairs, say) has its place in `logits`, where they are made."""

    def __init__(self, composed: Composed, klass: Tensor, plan: Plan) -> None:
        self.composed, self.klass, self.plan, self.ops = composed, klass, plan, ops_for(composed.bias)
        self._rows = min(plan.rows, len(composed.h))
        self._h = converted(composed.h, plan.logits)
        self._buffer = self._h.new_empty(self._rows, len(composed.weight))

    def __iter__(self) -> Iterator[slice]:
        N = len(self.composed.h)
        with _true_float32():
            for start in range(0, N, self._rows):
                yield slice(start, min(start + self._rows, N))

    def logits(self, part: slice) -> Tensor:
        """x of a chunk, in the buffer."""
        return _product(self._h[part], self.composed.weight.t(), self.current(part))

    def current(self, part: slice) -> Tensor:
        return self._buffer[: part.stop - part.start]

    def log_sums(self, part: slice, log_sum: Tensor, score: Tensor) -> None:
        self.ops.log_sums(self.logits(part), self.composed.bias, self.klass[part], log_sum[part], score[part])


class Totals:
    """The gradients as they grow chunk by chunk; D takes the place of the logits."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        h, weight, bias = chunks.composed
        self._h, self._weight = (converted(factor, chunks.plan.gradients) for factor in (h, weight))
        self._columns = bias.new_zeros(kernels.PARTS if chunks.ops is kernels else 1, len(bias))
        self._d_h, self._d_weight = torch.empty_like(self._h), torch.empty_like(weight, dtype=bias.dtype)

    def add(self, part: slice, log_sum: Tensor, g_sum: Tensor, g_score: Tensor | None) -> None:
        """What a chunk adds, once its logits are in the buffer; g_score is −g_sum if not given."""
        chunks, x = self._chunks, self._chunks.current(part)
        d = x.view(self._h.dtype)  # of the same size
        of_chunk = (chunks.klass[part], log_sum[part], g_sum[part], None if g_score is None else g_score[part])
        chunks.ops.gradients(x, chunks.composed.bias, *of_chunk, d, self._columns)
        _product(d, self._weight, self._d_h[part])
        _product(d.t(), self._h[part], self._d_weight, adding=part.start > 0)

    def finished(self) -> Gradients:
        return Gradients(self._d_h, self._d_weight, self._columns.sum(0))


def ops_for(tensor: Tensor) -> ModuleType:
    """The kernels where they can run, else their twin."""
    return kernels if tensor.is_cuda and kernels.available and tensor.dtype != torch.float64 else twin


def converted(tensor: Tensor, dtype: torch.dtype, factor: Tensor | None = None) -> Tensor:
    """The tensor, times the factor if there is one, in the given dtype."""
    if tensor.dtype == dtype and factor is None:
        return tensor
    out = torch.empty_like(tensor, dtype=dtype)
    ops_for(tensor).convert(tensor, factor, out)
    return out


def _product(left: Tensor, right: Tensor, out: Tensor, *, adding: bool = False) -> Tensor:
    """left @ right into out, or added to it, summed in float32 whatever the type of the factors."""
    if out.dtype == left.dtype:
        return torch.addmm(out, left, right, out=out) if adding else torch.mm(left, right, out=out)
    if not out.is_cuda:
        product = left.to(out.dtype) @ right.to(out.dtype)
        return out.add_(product) if adding else out.copy_(product)
    if adding:
        return torch.addmm(out, left, right, out_dtype=out.dtype, out=out)
    return torch.mm(left, right, out_dtype=out.dtype, out=out)


@contextmanager
def _true_float32() -> Iterator[None]:
    """float32 products in float32, and half-precision ones summed in float32, whatever the program allows elsewhere."""
    settings = torch.backends.cuda.matmul
    names = ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    before = {name: getattr(settings, name) for name in names}
    for name in names:
        setattr(settings, name, False)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)
