"""Positions of a batch with the same past, found by their words: what is the same everywhere is computed once.

    elle │ dort │ .            3 rows of 4 positions; those of "elle" and "elle dort" stand in two rows, and the
    elle │ dort │ bien         start in all three: 8 distinct pasts
    il   │ dort │ .

Without dropout the state h and all knowledge are functions of the condition and the words before, so log Z and the
scores at such positions are equal. Rows are sorted by their words; a position is a new past if its row differs from the
row above in some word so far. Only equal words count, never equal numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Ints
from llrnn.knowledge.sequences import Batch


@dataclass(frozen=True, eq=False)
class Pasts:
    """The U distinct pasts of the N positions of a batch that count."""

    mask: Tensor  # (B, T) bool: one position of each, the first; U in all
    at: Tensor  # (N,) which of these each position is like, 0..U-1

    @property
    def repeated(self) -> int:
        """N − U."""
        return len(self.at) - int(self.mask.sum())


def distinct_pasts(batch: Batch) -> Pasts:
    """For rows that start afresh; rows whose conditions cannot be compared by hash share nothing."""
    inputs, counts = batch.inputs.cpu().numpy(), batch.mask.cpu().numpy()
    B, T = inputs.shape
    rows = np.concatenate([_numbered(batch.conditions, B)[:, None], inputs], 1)
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(rows.shape, dtype=bool)
    new[1:] = np.logical_or.accumulate(ordered[1:] != ordered[:-1], 1)
    first = np.maximum.accumulate(np.where(new, np.arange(B)[:, None], 0), 0)[:, 1:]  # the row where this past is new
    past = np.empty((B, T), dtype=np.int64)
    past[order] = first * T + np.arange(T)
    _, where, which = np.unique(past[counts], return_index=True, return_inverse=True)
    rank = np.empty_like(where)
    rank[np.argsort(where)] = np.arange(len(where))
    mask = np.zeros(B * T, dtype=bool)
    mask[np.flatnonzero(counts)[where]] = True
    device = batch.inputs.device
    return Pasts(torch.from_numpy(mask.reshape(B, T)).to(device), torch.from_numpy(rank[which]).to(device))


def _numbered(conditions: Sequence[object] | None, n_rows: int) -> Ints:
    """A number for each row, the same where conditions are equal."""
    if conditions is None:
        return np.zeros(n_rows, dtype=np.int64)
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(_key(condition, row), row) for row, condition in enumerate(conditions)])


def _key(condition: object, row: int) -> object:
    try:
        hash(condition)
    except TypeError:
        return ("row", row)
    return (type(condition), condition)
