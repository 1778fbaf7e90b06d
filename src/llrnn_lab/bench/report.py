"""`bench.json`: one run of `llrnn bench`, the machine that it was on, and what every suite found.

    {"command", "time", "machine", "asked", "suites": {name: {"rows", "speeds", "figures"}}, "left out": {name: why}}

It is replaced as a whole after every suite, so a run that is killed keeps those that are done; another one with the
same machine and the same wishes goes on where it stopped.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llrnn.ground.errors import ConfigError, MissingExtraError
from llrnn.ground.files import write_atomically
from llrnn_lab.bench.machine import Speeds, described
from llrnn_lab.bench.rows import Floor, Row
from llrnn_lab.bench.suite import Asked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


# A run of `llrnn bench` as Markdown, and the tables of `docs/results/speed.md`.
#
# Two lines for a row, ours and the peer's: what was measured, what was counted, the floor, how far it is away.
#
# A page says where its tables come from, and everything between the two comments is made:
#
#     <!-- rows: bench.json layer memory -->
#     ...
#     <!-- end of rows -->
#
# `machine` in place of a suite is what the run was on, `left-out` what could not be measured; names of other files put
# the ratios of all runs side by side.


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
        f"Machine: {of['processor']}, {of['cores']} cores{gpu}; llrnn {of['llrnn']}, torch {of['torch']}, Python "
        f'{of["python"]}, {of["system"]}. Run: "{run.command}", {run.time}{quick}. Seed {run.asked["seed"]}.'
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


# Pictures of a run of `llrnn bench` (the extra `plot`): ratios with their bars, and time by V.


_COLOURS = {True: "tab:green", False: "tab:red", None: "0.6"}
_MEANING = {True: "the bar is met", False: "the bar is not met", None: "no bar"}


def drawn(run: Document) -> dict[str, bytes]:
    """PNG files by name."""
    return {"bench.png": _png(ratios(run.rows())), "bench-vocabulary.png": _png(by_vocabulary(run))}


def ratios(rows: list[Row]) -> Figure:
    """A horizontal bar for each ratio, from 1; a line where it had to be."""
    made, axes = _figure(height=1.6 + 0.28 * len(rows))
    for at, row in enumerate(rows):
        axes.barh(at, row.ratio - 1, left=1, height=0.6, color=_COLOURS[row.met])
        if row.bar is not None:
            axes.plot([row.bar, row.bar], [at - 0.42, at + 0.42], color="black", linewidth=2)
    axes.set_xscale("log")
    axes.axvline(1, color="0.3", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("times faster than the peer (≥), or ours by the peer's (≤); black: the bar")
    for met in dict.fromkeys(row.met for row in rows):
        axes.barh([0], [0], left=1, color=_COLOURS[met], label=_MEANING[met])
    if rows:
        axes.legend(loc="best", fontsize=8)
    return made


def _label(row: Row) -> str:
    return f"{'≥' if row.at_least else '≤'}  {row.name}"


def by_vocabulary(run: Document) -> Figure:
    """Milliseconds against V, a line for each thing that was asked with G fixed."""
    made, axes = _figure(height=4.2)
    for name, times in times_by_vocabulary(run).items():
        axes.plot(list(times), [1000 * seconds for seconds in times.values()], marker="o", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("V, with G fixed")
    axes.set_ylabel("ms")
    if axes.lines:
        axes.legend(loc="best", fontsize=8)
    return made


def times_by_vocabulary(run: Document) -> dict[str, dict[int, float]]:
    """Seconds by V, from whatever suite measured them."""
    found: dict[str, dict[int, float]] = {}
    figures = {name: one["figures"] for name, one in run.suites.items()}
    if "vocabulary" in figures:
        seconds = figures["vocabulary"]["seconds"]
        found["the layer, forward and backward"] = {int(V): s for V, s in seconds.items()}
    for name, times in figures.get("one-position", {"asked": {}})["asked"].items():
        found[f"{name}, one position"] = {10**4: times["10^4"], 10**6: times["10^6"]}
    for name, one in figures.get("gpu", {"vocabulary": {}})["vocabulary"].items():
        if name != "G":
            found[f"GPU: {name}"] = {int(V): ms / 1000 for V, ms in one["ms"].items()}
    return found


def _figure(height: float) -> tuple[Figure, Axes]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    made = Figure(figsize=(9.6, height), layout="constrained")
    axes = made.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return made, axes


def _png(figure: Figure) -> bytes:
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return written.getvalue()
