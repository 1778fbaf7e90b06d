"""A run of `llrnn bench` as Markdown, and the tables of `docs/performance.md`.

Two lines for a row, ours and the peer's: what was measured, what was counted, the floor, how far it is away.

A page says where its tables come from, and everything between the two comments is made:

    <!-- rows: bench.json layer memory -->
    ...
    <!-- end of rows -->

`machine` in place of a suite is what the run was on, `left-out` what could not be measured; names of other files put
the ratios of all runs side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from llrnn_lab.bench.document import Document
from llrnn_lab.bench.rows import Floor, Row

_HEADER = ("", "", "measured", "operations", "bytes", "floor", "times it", "ratio", "bar")
_MARKED = re.compile(r"(<!-- rows: (?P<file>\S+) (?P<names>[^>]*?) -->\n).*?(<!-- end of rows -->)", re.DOTALL)
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def markdown(run: Document) -> str:
    """All of it."""
    parts = ["# llrnn bench", machine(run)]
    for name, one in run.suites.items():
        parts += [f"## {name}: {one['about']}", *rates(run, [name]), table(run.rows([name]))]
    if run.reasons():
        parts += ["## Not measured here", left_out(run)]
    return "\n\n".join(parts) + "\n"


def machine(run: Document) -> str:
    """What the run was on, and how it was called."""
    of = run.machine
    gpu = f", {of['gpu']}" if of["gpu"] else ""
    quick = "; quick: sizes that are no figures to quote" if run.asked["quick"] else ""
    return (
        f"Machine: {of['processor']}, {of['cores']} cores{gpu}; torch {of['torch']}, Python {of['python']}, "
        f'{of["system"]}. Run: "{run.command}", {run.time}{quick}. Seed {run.asked["seed"]}.'
    )


def rates(run: Document, names: Sequence[str]) -> list[str]:
    """Those that the floors of suites with the same threads are made with, if there are floors."""
    if not any(row.floor or row.peers_floor for row in run.rows(names)):
        return []
    name = names[0]
    speeds = run.speeds(name)
    threads = "with 1 thread" if speeds.threads == 1 else f"with {speeds.threads} threads"
    of = "of the GPU" if run.on_card(name) else threads
    return [f"Rates {of}: {scaled(speeds.products, 'FLOP/s')}, {scaled(speeds.memory, 'B/s')}."]


def table(rows: Iterable[Row]) -> str:
    """Ours, then the peer."""
    lines = [_line(_HEADER), _line(["---"] * len(_HEADER))]
    for row in rows:
        ours = [figure(row.ours, row.unit), *_floor(row.floor, row.times_floor)]
        theirs = [figure(row.theirs, row.unit), *_floor(row.peers_floor, row.peers_times_floor)]
        lines.append(_line([f"**{row.name}**", "llrnn", *ours, times(row.ratio), bar(row)]))
        lines.append(_line([setting(row.setting), row.peer, *theirs, "", ""]))
    return "\n".join(lines)


def left_out(run: Document) -> str:
    """Why each benchmark could not run."""
    reasons = run.reasons()
    if not reasons:
        return "Nothing was left out."
    return "\n".join([_line(["not measured", "why"]), _line(["---"] * 2), *(_line(pair) for pair in reasons.items())])


def bar(row: Row) -> str:
    if row.bar is None:
        return ""
    return f"{'≥' if row.at_least else '≤'} {row.bar:g}: {'met' if row.met else '**not met**'}"


def figure(value: float, unit: str) -> str:
    """A measured value as people read it."""
    if unit == "words/s":
        return f"{value:,.0f} words/s"
    return f"{value:.3f} nats" if unit == "nats" else scaled(value, "B" if unit == "bytes" else unit)


def scaled(value: float, unit: str) -> str:
    """Three digits with k, M, G or m, µ, n."""
    scale, sign = next((one for one in _SCALES if abs(value) >= one[0]), _SCALES[-1] if value else (1.0, ""))
    return f"{value / scale:.{_decimals(value / scale)}f} {sign}{unit}"


def times(ratio: float) -> str:
    """A ratio: 1,234, 12.3, 1.234, 0.0123."""
    return f"{ratio:.3g}" if ratio < 1 else f"{ratio:,.{_decimals(ratio) + (ratio < 2)}f}"


def _decimals(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def setting(of: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {_plain(value)}" for name, value in of.items())


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return " / ".join(f"{_plain(one)} ({name})" for name, one in value.items())
    return f"{value:,}" if isinstance(value, int) else str(value)


def _floor(floor: Floor | None, by: float | None) -> list[str]:
    """Operations, bytes, seconds, and how many times that was measured; – where there is nothing to count."""
    if floor is None:
        return ["–"] * 4
    counted = [scaled(floor.operations, "FLOP") if floor.operations else "0", scaled(floor.bytes, "B")]
    return [*counted, scaled(floor.seconds, "s"), "–" if by is None else times(by)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


# --- the page -------------------------------------------------------------------------------------------------------


def filled(text: str, folder: Path) -> str:
    """A page with all tables between its comments made anew from the files of a folder."""

    def made(found: re.Match[str]) -> str:
        run, names = Document.read(folder / found["file"]), found["names"].split()
        others = [Document.read(folder / name) for name in names if name.endswith(".json")]
        part = side_by_side([run, *others]) if others else _part(run, names)
        return f"{found[1]}\n{part}\n\n{found[4]}"

    return _MARKED.sub(made, text)


def side_by_side(runs: Sequence[Document]) -> str:
    """The ratio of every row in every run, – where one does not have it."""
    found = [{row.name: row for row in run.rows()} for run in runs]
    rows = {name: row for one in reversed(found) for name, row in one.items()}
    names = [*found[0], *(name for name in rows if name not in found[0])]
    lines = [_line(["ratio", *(run.machine["processor"] for run in runs), "bar"]), _line(["---"] * (len(runs) + 2))]
    for name in names:
        ratios = [times(one[name].ratio) if name in one else "–" for one in found]
        lines.append(_line([name, *ratios, bar(rows[name]).partition(":")[0]]))
    return "\n".join(lines)


def _part(run: Document, names: Sequence[str]) -> str:
    if names == ["machine"]:
        return machine(run)
    if names == ["left-out"]:
        return left_out(run)
    from llrnn_lab.bench.suites import chosen

    chosen(names)  # a name that nobody knows is refused
    measured = [name for name in names if name in run.suites]
    reasons = [
        f"Not measured: {name}: {run.left_out.get(name, 'it was not asked for')}."
        for name in names
        if name not in measured
    ]
    tables = [table(run.rows(measured))] if measured else []
    return "\n\n".join([*rates(run, measured), *tables, *reasons])
