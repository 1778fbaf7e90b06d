"""What a campaign yields: outcomes, findings among them, figures; and the JSON and the table that are made of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from campaign.workers import Pool

EXAMPLES = 3  # findings alike that are written out; the others are counted


@dataclass(frozen=True)
class Finding:
    """A fault. `kind` and `signature` say which one it is, `detail` shows it."""

    kind: str  # traceback, untyped, silent, hang, blocked, memory, nan, crash, message, different, status, ...
    case: str  # what --case takes
    signature: str  # equal for equal faults: the error and the line that raised it
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """One case: which group it belongs to, what came of it, how many cases it stands for."""

    group: str
    result: str
    finding: Finding | None = None
    cases: int = 1


@dataclass(frozen=True)
class Figure:
    """Something that was measured besides."""

    name: str
    value: float


@dataclass(frozen=True)
class Setting:
    """What every part is given."""

    seed: int
    scale: float
    out: Path
    pool: Pool
    only: str | None = None  # the one case to run again

    def count(self, full: int, least: int = 1) -> int:
        """How many cases, of so many at full scale."""
        return max(least, round(full * self.scale))

    def wanted(self, case: str) -> bool:
        return self.only is None or self.only == case

    def folder(self, name: str) -> Path:
        made = self.out / name
        made.mkdir(parents=True, exist_ok=True)
        return made


Part = Callable[[Setting], Iterator[Outcome | Figure]]


def rng_of(seed: int, case: str) -> random.Random:
    """The same numbers for the same case, whatever ran before it."""
    return random.Random(f"{seed} {case}")


@dataclass
class Tally:
    """All that one part yielded."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    findings: dict[tuple[str, str], list[Finding]] = field(default_factory=dict)
    repeated: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, found: Outcome | Figure) -> None:
        if isinstance(found, Figure):
            self.figures[found.name] = found.value
            return
        self.counts.setdefault(found.group, Counter())[found.result] += found.cases
        if found.finding is not None:
            key = found.finding.kind, found.finding.signature
            self.repeated[key] += 1
            kept = self.findings.setdefault(key, [])
            if len(kept) < EXAMPLES:
                kept.append(found.finding)

    @property
    def cases(self) -> int:
        return sum(counter.total() for counter in self.counts.values())

    @property
    def n_findings(self) -> int:
        return self.repeated.total()

    def as_json(self) -> dict[str, Any]:
        found = [
            {"times": self.repeated[key], **asdict(examples[0]), "cases": [one.case for one in examples]}
            for key, examples in self.findings.items()
        ]
        return {
            "cases": self.cases,
            "findings": self.n_findings,
            "seconds": round(self.seconds, 1),
            "figures": {name: round(value, 4) for name, value in self.figures.items()},
            "counts": {group: dict(sorted(counter.items())) for group, counter in sorted(self.counts.items())},
            "found": found,
        }


def table(parts: dict[str, dict[str, Any]]) -> str:
    """The parts, a line each, and below them what was found; from the JSON, so that both say the same."""
    lines = [f"{'part':<10} {'cases':>8} {'findings':>9} {'seconds':>8}   figures"]
    for name, part in parts.items():
        figures = ", ".join(f"{key} {value:g}" for key, value in part["figures"].items())
        lines.append(f"{name:<10} {part['cases']:>8,} {part['findings']:>9,} {part['seconds']:>8.0f}   {figures}")
    for name, part in parts.items():
        for found in part["found"]:
            lines.append(f"\n{name}: {found['kind']}, {found['times']} times: {found['signature']}")
            lines.append(f"  again: python -m campaign {name} --case {found['case']}")
            lines += [f"  | {line[:240]}" for line in found["detail"].splitlines()[-12:]]
    return "\n".join(lines)


def tallied(outcomes: Iterable[Outcome | Figure]) -> Tally:
    made = Tally()
    for one in outcomes:
        made.add(one)
    return made
