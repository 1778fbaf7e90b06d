"""Φ W for a constant sparse Φ, with its gradient Φᵀ g, on a GPU by the kernels that cut long rows into pieces.

torch's own sums of rows add up a row entry by entry: one feature of two thousand classes takes as long as all others.
"""

from __future__ import annotations

from typing import Any, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from llrnn.fused.chunks import ops_for
from llrnn.fused.sparse import Rows, Sparse
from llrnn.numerics import SparseMatrix

_compiled: WeakKeyDictionary[SparseMatrix, Sparse] = WeakKeyDictionary()


def compiled(phi: SparseMatrix, like: Tensor) -> Sparse:
    """Φ as the kernels read it, made once, for the device and in the numbers of its weights."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    found = _compiled.get(phi)
    if found is None or found.rows.values.device != like.device or found.rows.values.dtype != dtype:
        found = _compiled[phi] = Sparse.of(phi, like)
    return found


def product(phi: SparseMatrix, dense: Tensor) -> Tensor:
    """Φ W, (m, H) -> (G, H)."""
    return by_kernels(phi, dense) if dense.is_cuda and not phi.is_identity else phi @ dense


def by_kernels(phi: SparseMatrix, dense: Tensor) -> Tensor:
    """The same; on a CPU by their twins."""
    whole = _Product.apply(dense, compiled(phi, dense))  # type: ignore[no-untyped-call]
    return cast(Tensor, whole[: phi.n_classes])  # rows come in eights


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, phi: Sparse) -> Tensor:
        ctx.phi = phi
        return _sums(phi.rows, dense)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _sums(ctx.phi.columns, grads[0]), None


def _sums(rows: Rows, dense: Tensor) -> Tensor:
    beside = dense.new_zeros(len(dense))  # the kernels sum a vector on their way
    return cast(Tensor, ops_for(dense).row_sums(rows, dense.contiguous(), beside, None, None, dense.dtype)[0])
