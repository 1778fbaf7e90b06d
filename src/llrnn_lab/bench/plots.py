"""Pictures of a run of `llrnn bench` (the extra `plot`): ratios with their bars, and time by V."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from llrnn.ground.errors import MissingExtraError
from llrnn_lab.bench.document import Document
from llrnn_lab.bench.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
