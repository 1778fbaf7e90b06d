"""What the server counts, in the text format of Prometheus (version 0.0.4).

A family has one series for each combination of labels. Labels never come from a request: endpoints are the routes of
the server, statuses and codes its own, so the number of series is bounded.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)

Labels = tuple[str, ...]


class _Family(ABC):
    """A name, a line of help, and the names of its labels."""

    kind = ""

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {_escaped_help(self.help)}"
        yield f"# TYPE {self.name} {self.kind}"
        yield from self.series()

    @abstractmethod
    def series(self) -> Iterator[str]:
        """A line for each value."""


class Counter(_Family):
    """What only grows."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        super().__init__(name, help, labels)
        self.values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, by: float = 1.0) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + by

    def series(self) -> Iterator[str]:
        for values, count in sorted(self.values.items()):
            yield f"{self.name}{_labelled(self.labels, values)} {_number(count)}"


class Gauge(_Family):
    """What goes up and down; it is looked up when it is asked for."""

    kind = "gauge"

    def __init__(self, name: str, help: str, read: Callable[[], float]) -> None:
        super().__init__(name, help)
        self.read = read

    def series(self) -> Iterator[str]:
        yield f"{self.name} {_number(self.read())}"


class Histogram(_Family):
    """How many observations are at most as large as each of some bounds, their number and their sum."""

    kind = "histogram"

    def __init__(self, name: str, help: str, bounds: tuple[float, ...], labels: Labels = ()) -> None:
        super().__init__(name, help, labels)
        self.bounds = bounds
        self.counts: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}
        if not labels:
            self._open(())

    def _open(self, labels: Labels) -> list[int]:
        self.sums[labels] = 0.0
        return self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))

    def observe(self, value: float, *labels: str) -> None:
        counts = self.counts.get(labels) or self._open(labels)
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[labels] += value

    def series(self) -> Iterator[str]:
        names = (*self.labels, "le")
        for values, counts in sorted(self.counts.items()):
            so_far = 0
            for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                so_far += count
                yield f"{self.name}_bucket{_labelled(names, (*values, _number(bound)))} {so_far}"
            yield f"{self.name}_sum{_labelled(self.labels, values)} {_number(self.sums[values])}"
            yield f"{self.name}_count{_labelled(self.labels, values)} {so_far}"


class Metrics:
    """All families of the server."""

    def __init__(self, in_flight: Callable[[], float]) -> None:
        self.requests = Counter("llrnn_requests_total", "Requests answered.", ("endpoint", "status"))
        self.seconds = Histogram("llrnn_request_seconds", "Seconds to answer.", _SECONDS, ("endpoint",))
        self.refused = Counter("llrnn_refused_total", "Requests that were refused, by code.", ("code",))
        self.rows = Histogram("llrnn_step_rows", "Sequences in a step of a model.", _ROWS)
        self.step_seconds = Histogram("llrnn_step_seconds", "Seconds of a step of a model.", _SECONDS)
        self.words = Counter("llrnn_words_generated_total", "Words generated.")
        self.in_flight = Gauge("llrnn_requests_in_flight", "Requests that are worked on.", in_flight)
        self.memory = Gauge("process_resident_memory_bytes", "Resident memory of the process.", resident_bytes)

    def step(self, rows: int, seconds: float) -> None:
        """A step of a model was made."""
        self.rows.observe(rows)
        self.step_seconds.observe(seconds)

    def text(self) -> str:
        families: tuple[_Family, ...] = (
            self.requests,
            self.seconds,
            self.refused,
            self.rows,
            self.step_seconds,
            self.words,
            self.in_flight,
            self.memory,
        )
        return "".join(f"{line}\n" for family in families for line in family.lines())


def resident_bytes(process: int | None = None) -> float:
    """Of this process, or of the one with this id; NaN, which is the format's word for unknown, without /proc."""
    try:
        pages = Path(f"/proc/{process or 'self'}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return float("nan")
    return float(pages) * os.sysconf("SC_PAGE_SIZE")


def _labelled(names: Labels, values: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    """Go's spelling, which the format asks for: +Inf, -Inf, NaN."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
