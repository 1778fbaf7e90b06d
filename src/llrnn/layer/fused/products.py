"""Φ W for a constant sparse Φ, with its gradient Φᵀ g, on a GPU by the kernels that cut long rows into pieces.

torch's own sums of rows add up a row entry by entry: one feature of two thousand classes takes as long as all others.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from llrnn.layer.fused.chunks import ops_for
from llrnn.layer.fused.sparse import Rows, Sparse
from llrnn.layer.numerics import SparseMatrix

_compiled: WeakKeyDictionary[SparseMatrix, Sparse] = WeakKeyDictionary()


def compiled(phi: SparseMatrix, like: Tensor) -> Sparse:
    """Φ as the kernels read it, made once, for the device and in the numbers of its weights."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    found = _compiled.get(phi)
    if found is None or found.rows.values.device != like.device or found.rows.values.dtype != dtype:
        found = _compiled[phi] = Sparse.of(phi, like)
    return found


def composed(phi: SparseMatrix, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Φ W and Φ c, (m, H), (m,) -> (G, H), (G,)."""
    return by_kernels(phi, weight, bias) if _has_kernels(phi, weight) else (phi @ weight, phi @ bias)


def product(phi: SparseMatrix, dense: Tensor) -> Tensor:
    """Φ W alone."""
    return by_kernels(phi, dense, dense.new_zeros(len(dense)))[0] if _has_kernels(phi, dense) else phi @ dense


def by_kernels(phi: SparseMatrix, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Both in one pass; on a CPU by the twins of the kernels."""
    whole, of_bias = _Product.apply(weight, bias, compiled(phi, weight))  # type: ignore[no-untyped-call]
    return whole[: phi.n_classes], of_bias[: phi.n_classes]  # rows come in eights


def _has_kernels(phi: SparseMatrix, dense: Tensor) -> bool:
    return dense.is_cuda and not phi.is_identity


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor, phi: Sparse) -> tuple[Tensor, Tensor]:
        ctx.phi = phi
        return _sums(phi.rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        return *_sums(ctx.phi.columns, grads[0], grads[1]), None


def _sums(rows: Rows, dense: Tensor, vector: Tensor) -> tuple[Tensor, Tensor]:
    product, sums = ops_for(dense).row_sums(rows, dense.contiguous(), vector.contiguous(), None, None, dense.dtype)
    return product, sums.to(vector.dtype)
