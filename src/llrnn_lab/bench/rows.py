"""One row of `llrnn bench`: ours against a named peer that does the same work in the same run, and the floor of each.

    ratio            how many times faster than the peer (`faster`), or what share of the peer's (`share`)
    floor            max(operations / rate of products, bytes / rate of memory): the least that a count allows
    times floor      the seconds that were measured by those of the floor

What is in the cache comes faster than by the rate of memory, so a figure may lie below a floor of bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from llrnn_lab.bench.machine import Speeds

Unit = Literal["s", "words/s", "bytes", "nats"]


class Count(NamedTuple):
    """Operations (a multiplication and an addition are two), and bytes that are read or written once."""

    operations: float
    bytes: float

    def floor(self, speeds: Speeds) -> Floor:
        seconds = max(self.operations / speeds.products, self.bytes / speeds.memory)
        return Floor(self.operations, self.bytes, seconds)

    def by(self, parts: float) -> Count:
        """Of one part of so many: of a word of a batch, of a process of a team."""
        return Count(self.operations / parts, self.bytes / parts)


@dataclass(frozen=True)
class Floor:
    """A count, and the least seconds that it takes at the rates that were measured in the same run."""

    operations: float
    bytes: float
    seconds: float


@dataclass(frozen=True)
class Row:
    """A comparison. `ours` and `theirs` are seconds, words a second, bytes or nats; floors are of one step or word."""

    name: str
    what: str  # a sentence
    peer: str
    setting: Mapping[str, Any]
    ours: float
    theirs: float
    ratio: float
    unit: Unit = "s"
    bar: float | None = None
    at_least: bool = True  # the ratio has to reach the bar; otherwise it may not exceed it
    floor: Floor | None = None
    peers_floor: Floor | None = None

    def __post_init__(self) -> None:
        figures = (self.ours, self.theirs, self.ratio)
        if not all(map(math.isfinite, figures)):
            raise ValueError(f"{self.name}: the figures of a row are finite, found {figures}")

    @property
    def met(self) -> bool | None:
        """None where nothing was promised."""
        if self.bar is None:
            return None
        return self.ratio >= self.bar if self.at_least else self.ratio <= self.bar

    @property
    def times_floor(self) -> float | None:
        return self._by_floor(self.ours, self.floor)

    @property
    def peers_times_floor(self) -> float | None:
        return self._by_floor(self.theirs, self.peers_floor)

    def _by_floor(self, figure: float, floor: Floor | None) -> float | None:
        if floor is None or not floor.seconds:
            return None
        return (figure if self.unit == "s" else 1 / figure) / floor.seconds

    def to_json(self) -> dict[str, Any]:
        """Flat but for the floors; what is computed stands there, too."""
        own = {name: getattr(self, name) for name in ("name", "what", "peer", "unit", "ours", "theirs", "ratio")}
        floors = {
            side: None if floor is None else {**vars(floor), "times": times}
            for side, floor, times in (
                ("ours", self.floor, self.times_floor),
                ("theirs", self.peers_floor, self.peers_times_floor),
            )
        }
        bar = {"bar": self.bar, "at_least": self.at_least, "met": self.met}
        return {**own, "setting": dict(self.setting), **bar, "floor": floors}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        computed = ("met", "floor")
        floors = [_floor(data["floor"][side]) for side in ("ours", "theirs")]
        given = {name: value for name, value in data.items() if name not in computed}
        return cls(**given, floor=floors[0], peers_floor=floors[1])


def _floor(data: Mapping[str, float] | None) -> Floor | None:
    return None if data is None else Floor(data["operations"], data["bytes"], data["seconds"])


@dataclass(frozen=True)
class Compared:
    """What a row says of a measurement, but for the figures."""

    name: str
    what: str
    peer: str
    setting: Mapping[str, Any]
    counts: tuple[Count | None, Count | None] = (None, None)  # ours, theirs
    speeds: Speeds | None = None

    def faster(
        self,
        ours: float,
        theirs: float,
        *,
        unit: Unit = "s",
        ratio: float | None = None,
        bar: float | None = None,
    ) -> Row:
        """How many times; a ratio that is given is the median of the rounds' own ones."""
        times = theirs / ours if unit == "s" else ours / theirs
        return self._row(ours, theirs, times if ratio is None else ratio, unit, bar, at_least=True)

    def share(self, ours: float, theirs: float, *, unit: Unit = "s", bar: float | None = None) -> Row:
        """Ours by theirs: the less, the better."""
        return self._row(ours, theirs, ours / theirs, unit, bar, at_least=False)

    def _row(self, ours: float, theirs: float, ratio: float, unit: Unit, bar: float | None, *, at_least: bool) -> Row:
        floors = [None if count is None or self.speeds is None else count.floor(self.speeds) for count in self.counts]
        return Row(
            self.name,
            self.what,
            self.peer,
            self.setting,
            ours,
            theirs,
            ratio,
            unit,
            bar,
            at_least,
            floors[0],
            floors[1],
        )
