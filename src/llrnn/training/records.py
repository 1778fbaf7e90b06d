"""The records of training: what each says, and the learning curves of all of them.

`records = llrnn.Records(llrnn.train(...))` trains and keeps them; `llrnn.Records.read("runs/x")` has those of a run in
a folder, finished or not.
"""

from __future__ import annotations

import math
from collections import UserList
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from llrnn.ground.charts import LineChart
from llrnn.ground.errors import CheckpointError, TrainingError
from llrnn.ground.files import read_file
from llrnn.ground.rendering import Chartable, Line, Renderable, Sheet, Strong, TextTable

_HEADER = ("record", "step", "train", "valid", "best", "learning rate", "words/s")
_ROWS = 20  # of the table, two more at most


@dataclass(frozen=True)
class Record(Renderable):
    """How training stands. `event` is step, epoch, interrupted or end; log-perplexities are in nats for a word."""

    event: str
    epoch: int
    position: int
    batches: int  # batches in an epoch
    step: int
    train: float | None  # mean since the epoch began, none before its first step
    valid: float | None
    best: float | None
    learning_rate: float
    words_per_second: float

    def __str__(self) -> str:
        losses = [("train", self.train), ("valid", self.valid)]
        if self.event == "end":
            losses = [("best", self.best)]
        said = "".join(f", {name} {value:.4f}" for name, value in losses if value is not None)
        return f"{self.place}{said}, {self.words_per_second:,.0f} words/s, learning rate {self.learning_rate:g}"

    @property
    def place(self) -> str:
        if self.event == "end":
            return f"end, {self.epoch} epochs"
        epoch = f"epoch {self.epoch + 1}"
        at = epoch if self.event == "epoch" else f"{epoch}, batch {self.position} of {self.batches}"
        return f"interrupted in {at}" if self.event == "interrupted" else at

    @property
    def time(self) -> float:
        """In epochs since training began."""
        return self.epoch + 1.0 if self.event == "epoch" else self.epoch + self.position / max(self.batches, 1)

    def sheet(self) -> Sheet:
        return Sheet(((str(self),),))


_adapter = TypeAdapter(Record)


class Records(UserList[Record], Chartable):
    """Records in the order in which they came; a list that shows as a table with learning curves."""

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Records:
        """From the log of a run, or its folder. A last line without an end was still being written: it is left out."""
        path = Path(path)
        try:
            path = path / "log.jsonl" if path.is_dir() else path
            text = read_file(path, limit=1_000_000_000).decode("utf8")
        except FileNotFoundError:
            raise CheckpointError(
                f"{path}: no such file; give the log.jsonl of a run, or the folder of the run"
            ) from None
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise CheckpointError(
                f"{path}:{line}: a log of training is required, this is not UTF-8; remove the line"
            ) from None
        lines = text.split("\n")[:-1]
        return cls(_read(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip())

    @property
    def epochs(self) -> Records:
        return Records(record for record in self if record.event == "epoch")

    @property
    def best(self) -> Record | None:
        """The epoch whose weights were kept: the least loss on validation, the last epoch where there was none."""
        epochs = self.epochs
        judged = [record for record in epochs if record.valid is not None]
        return min(judged, key=lambda record: record.valid or 0.0) if judged else epochs[-1] if epochs else None

    @property
    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """Points (epoch, log-perplexity) by name: at the end of epochs; before the first has ended, at its steps."""
        shown = self.epochs or self
        found: dict[str, list[tuple[float, float]]] = {"train": [], "valid": []}
        for record in shown:
            for name, loss in (("train", record.train), ("valid", record.valid)):
                if loss is not None and math.isfinite(loss):
                    found[name].append((record.time, loss))
        return {name: curve for name, curve in found.items() if curve}

    def chart(self) -> LineChart:
        if not self.curves:
            raise TrainingError(
                f"a learning curve needs a record with a loss, found none among {len(self)} records; "
                "train for at least one step that is logged (log_every), or one epoch"
            )
        return LineChart(self.curves, "training", "epoch", "log-perplexity (nats a word)")

    def sheet(self) -> Sheet:
        blocks: list[Line | TextTable | LineChart] = [(self._summary(),)]
        if self.curves:
            blocks.append(self.chart())
        if self:
            blocks.append(TextTable(_HEADER, tuple(self._row(record) for record in self._shown())))
        return Sheet(tuple(blocks))

    def _shown(self) -> list[Record]:
        """The epochs, or the steps of the first one; of many, some at equal distances, the best and the last."""
        found = self.epochs or self
        apart, last = max(1, math.ceil(len(found) / _ROWS)), len(found) - 1
        return [one for i, one in enumerate(found) if i % apart == 0 or i == last or one == self.best]

    def _summary(self) -> str:
        if not self:
            return "no records"
        last, best = self[-1], self.best
        kept = "" if best is None or best.valid is None else f"; best valid {best.valid:.4f} in epoch {best.epoch + 1}"
        return f"training: {len(self.epochs)} epochs, {last.step:,} steps{kept}; last: {last.place}"

    def _row(self, record: Record) -> tuple[str, ...]:
        losses = ("" if loss is None else f"{loss:.4f}" for loss in (record.train, record.valid, record.best))
        speed = f"{record.words_per_second:,.0f}"
        cells = (record.place, f"{record.step:,}", *losses, f"{record.learning_rate:g}", speed)
        return tuple(map(Strong, cells)) if record == self.best else cells


def _read(line: str, place: str) -> Record:
    try:
        return _adapter.validate_json(line)
    except ValidationError as error:
        found = error.errors()[0]
        field = ".".join(map(str, found["loc"])) or "it"
        wrong = "found no JSON" if found["type"] == "json_invalid" else f"{field}: {found['msg']}"
        raise CheckpointError(
            f"{place}: a record of training is required, {wrong}; found {line[:60]!r}; remove the line"
        ) from None
