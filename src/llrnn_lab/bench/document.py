"""`bench.json`: one run of `llrnn bench`, the machine that it was on, and what every suite found.

    {"command", "time", "machine", "asked", "suites": {name: {"rows", "speeds", "figures"}}, "left out": {name: why}}

It is replaced as a whole after every suite, so a run that is killed keeps those that are done; another one with the
same machine and the same wishes goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_atomically
from llrnn_lab.bench.machine import Speeds, described
from llrnn_lab.bench.rows import Row
from llrnn_lab.bench.suite import Asked

NAME = "bench.json"
SEED = 0  # of everything that the benchmarks draw


@dataclass
class Document:
    """What is known of a run so far."""

    command: str
    time: str
    machine: dict[str, Any]
    asked: dict[str, Any]
    suites: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @classmethod
    def begun(cls, asked: Asked, command: str, time: str) -> Document:
        wishes = {"rounds": asked.rounds, "quick": asked.quick, "seed": SEED}
        return cls(command, time, described(), wishes)

    @classmethod
    def read(cls, path: Path) -> Document:
        try:
            data = json.loads(path.read_text(encoding="utf8"))
            left_out = data.pop("left out")
            return cls(**data, left_out=left_out)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                f"{path}: this is no result of `llrnn bench` ({error}); give another folder, or --again"
            ) from None

    def write(self, folder: Path) -> None:
        data = vars(self).copy()
        data["left out"] = data.pop("left_out")
        text = json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
        write_atomically(folder / NAME, text.encode())

    def goes_on(self, before: Document, path: Path) -> None:
        """Takes over what an earlier run has found, if it was the same run."""
        for part in ("machine", "asked"):
            mine, theirs = getattr(self, part), getattr(before, part)
            for key in mine.keys() | theirs.keys():
                if mine.get(key) != theirs.get(key):
                    differ = f"{key}: {theirs.get(key)}, here {mine.get(key)}"
                    raise ConfigError(f"{path} is of another run ({differ}); give another folder, or --again")
        self.suites, self.left_out, self.time = before.suites, before.left_out, before.time

    def add(self, name: str, found: dict[str, Any]) -> None:
        self.suites[name] = found
        self.left_out.pop(name, None)

    def sort(self, names: Sequence[str]) -> None:
        """In this order, whichever was measured first; others follow."""
        known = [name for name in names if name in self.suites]
        self.suites = {
            name: self.suites[name] for name in [*known, *(name for name in self.suites if name not in known)]
        }

    def rows(self, names: Sequence[str] | None = None) -> list[Row]:
        """Of some suites, or of all."""
        return [
            Row.from_json(row)
            for name in (self.suites if names is None else names)
            for row in self.suites.get(name, {"rows": []})["rows"]
        ]

    def speeds(self, name: str) -> Speeds:
        """Those of the floors: the card's own where a suite measured them, else those of the cores."""
        one = self.suites[name]
        return Speeds(*one["figures"]["speeds"]) if self.on_card(name) else Speeds(**one["speeds"])

    def on_card(self, name: str) -> bool:
        """Whether the floors of a suite are those of a GPU."""
        return "speeds" in self.suites[name]["figures"]

    def reasons(self) -> dict[str, str]:
        """Everything that could not be measured, and why: whole suites, and single rows."""
        single = {row: why for one in self.suites.values() for row, why in one["absent"].items()}
        return self.left_out | single
