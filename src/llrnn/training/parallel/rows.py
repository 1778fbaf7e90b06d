"""The batches of which one process has its rows, for scoring a text together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llrnn.knowledge.sequences import Batch
from llrnn.model.batches import Batching, Lazy
from llrnn.text.ids import Text


@dataclass(frozen=True)
class OwnRows(Batching):
    """The rows of one process in every batch."""

    of: Batching
    rows: slice

    @property
    def carries_state(self) -> bool:  # type: ignore[override]
        return self.of.carries_state

    def plan(self, text: Text, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        return Lazy(self.of.plan(text, seed=seed, epoch=epoch), lambda batch: batch.select(self.rows))
