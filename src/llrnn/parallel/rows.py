"""The batches of which one process has its rows, for scoring a text together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from llrnn.batches import Batching
from llrnn.model import Batch
from llrnn.text import Text


@dataclass(frozen=True)
class OwnRows(Batching):
    """The rows of one process in every batch."""

    of: Batching
    rows: slice

    @property
    def carries_state(self) -> bool:  # type: ignore[override]
        return self.of.carries_state

    def plan(self, text: Text, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        return _OwnBatches(self.of.plan(text, seed=seed, epoch=epoch), self.rows)


@dataclass(frozen=True)
class _OwnBatches(Sequence[Batch]):
    """Made when they are asked for, as batches are."""

    of: Sequence[Batch]
    rows: slice

    def __len__(self) -> int:
        return len(self.of)

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | Sequence[Batch]:
        if isinstance(index, slice):
            return _OwnBatches(self.of[index], self.rows)
        return self.of[index].select(self.rows)
