"""A constant sparse matrix in compressed rows, its long rows cut into pieces so that many processors share them.

row i of Φ D = Σ_j values[j] · D[columns[j]],        j from offsets[i] to offsets[i + 1]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from llrnn.layer.numerics import SparseMatrix

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
ALIGNED = 8  # classes come in eights, filled up with empty ones: matrix units read rows of 16 bytes
_LONGEST_PIECE = 64  # entries that one program adds up: a feature of a tenth of all words must not be one long sum


class Pieces(NamedTuple):
    """Rows cut into pieces of at most 64 entries; a row of several pieces is the sum of as many partial sums."""

    offsets: Tensor  # (P + 1,) where the entries of each piece start
    target: Tensor  # (P,) the row whose only piece it is, or −1 − j for partial sum j
    long_rows: Tensor  # (L,) the rows of several pieces
    long_offsets: Tensor  # (L + 1,) where the partial sums of each start
    partial: Tensor  # (Q,) 0, 1, ... : the partial sums as columns
    ones: Tensor  # (Q,)


class Rows(NamedTuple):
    """A sparse matrix on the device that it is multiplied on."""

    n_rows: int
    offsets: Tensor  # (rows + 1,)
    columns: Tensor  # (nnz,)
    values: Tensor  # (nnz,) float32 or float64
    pieces: Pieces


class Sparse(NamedTuple):
    """Φ (G, m) by rows and by columns; `identity` where every class has one feature of its own."""

    rows: Rows
    columns: Rows
    identity: bool

    @classmethod
    def of(cls, phi: SparseMatrix, like: Tensor) -> Sparse:
        """The matrix of a layer, for the device and in the numbers of its weights (float32 where they are shorter)."""
        dtype = torch.promote_types(like.dtype, torch.float32)
        return sparse(*phi.compressed(), phi.n_features, like.device, dtype)


def rows_of(offsets: Ints, columns: Ints, values: Floats, device: torch.device, dtype: torch.dtype) -> Rows:
    def on_device(array: Ints) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    pieces = Pieces(*(on_device(part) for part in _cut(offsets)))
    floats = torch.from_numpy(np.ascontiguousarray(values)).to(device, dtype)
    return Rows(len(offsets) - 1, on_device(offsets), on_device(columns), floats, pieces)


def sparse(
    offsets: Ints, columns: Ints, values: Floats, n_columns: int, device: torch.device, dtype: torch.dtype
) -> Sparse:
    """From the compressed rows of a feature matrix; the rows are filled up with empty ones to a multiple of 8."""
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    by_column = np.argsort(columns, kind="stable")
    ends = np.cumsum(np.bincount(columns, minlength=n_columns))
    identity = len(values) == n_columns == len(offsets) - 1 and bool(
        np.array_equal(columns, np.arange(n_columns)) and np.array_equal(row, columns) and np.all(values == 1.0)
    )
    filled = np.append(offsets, np.full(-(len(offsets) - 1) % ALIGNED, offsets[-1]))
    transposed = np.concatenate([[0], ends]).astype(np.int64)
    return Sparse(
        rows_of(filled, columns, values, device, dtype),
        rows_of(transposed, row[by_column], values[by_column], device, dtype),
        identity,
    )


def _cut(offsets: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    widths = np.diff(offsets)
    pieces = np.maximum(1, -(-widths // _LONGEST_PIECE))  # (rows,), an empty row is one empty piece
    row = np.repeat(np.arange(len(widths)), pieces)
    within = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = np.append(offsets[row] + within * _LONGEST_PIECE, offsets[-1]).astype(np.int64)
    is_long = pieces[row] > 1
    target = np.where(is_long, -np.cumsum(is_long), row).astype(np.int64)
    long_rows = np.nonzero(pieces > 1)[0].astype(np.int64)
    long_offsets = np.concatenate([[0], np.cumsum(pieces[long_rows])]).astype(np.int64)
    partial = np.arange(int(is_long.sum()), dtype=np.int64)
    return starts, target, long_rows, long_offsets, partial, np.ones(len(partial), dtype=np.int64)
