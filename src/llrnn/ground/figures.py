"""The charts of `ground.charts`, drawn with matplotlib (the extra `plot`).

A figure belongs to nobody but its owner: pyplot does not know it, so no backend is chosen, no window opens, and nothing
has to be closed. A notebook shows it; `figure.savefig("why.pdf")` writes it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from llrnn.ground.charts import COLOURS, Bar, BarChart, Chart, LineChart, shortened, visible
from llrnn.ground.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LONGEST_TITLE = 60


def figure(chart: Chart) -> Figure:
    """A new figure with the chart in it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None

    class NotebookFigure(Figure):
        """A figure that notebooks show whether or not pyplot was ever imported."""

        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png", dpi=110)
            return written.getvalue()

    height = 1.2 + 0.3 * len(chart.bars) if isinstance(chart, BarChart) else 3.6
    made = NotebookFigure(figsize=(7.2, height), layout="constrained")
    axes = made.add_subplot()
    if isinstance(chart, BarChart):
        _bars(axes, chart)
    else:
        _lines(axes, chart)
    title = visible(chart.title)
    short = title if len(title) <= _LONGEST_TITLE else f"…{title[1 - _LONGEST_TITLE :]}"  # the word stands at the end
    axes.set_title(short, fontsize=11, parse_math=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return made


def _bars(axes: Axes, chart: BarChart) -> None:
    low, high = chart.range
    room = 0.22 * (high - low)  # for the figures at the ends
    axes.set_xlim(low - room, high + room)
    for row, bar in enumerate(chart.bars):
        _bar(axes, row, bar, edges=(low - room, high + room), opacity=chart.opacity)
    for row, end in chart.links():
        axes.plot([end, end], [row, row + 1], color="0.6", linewidth=0.8, zorder=0)
    axes.axvline(0.0, color="0.3", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(chart.bars)), [_plain(bar.name) for bar in chart.bars])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # a word may hold dollar signs
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(visible(chart.x_label), parse_math=False)


def _bar(axes: Axes, row: int, bar: Bar, *, edges: tuple[float, float], opacity: float) -> None:
    """An unbounded bar goes to the edge, pale and dashed; what it means stands at its start."""
    end = bar.end if bar.bounded else edges[bar.value > 0]
    (drawn,) = axes.barh(row, end - bar.start, left=bar.start, height=0.62, color=bar.colour, alpha=opacity)
    if not bar.bounded:
        drawn.set(alpha=0.35, linestyle="--", edgecolor="black")
    to_the_right = (bar.value >= 0) == bar.bounded
    gap = 0.01 * (edges[1] - edges[0]) * (1 if to_the_right else -1)
    at = (bar.end if bar.bounded else bar.start) + gap
    side = "left" if to_the_right else "right"
    axes.text(at, row, bar.figure, va="center", ha=side, fontsize=9, parse_math=False)


def _lines(axes: Axes, chart: LineChart) -> None:
    from matplotlib.ticker import MaxNLocator

    for index, (name, curve) in enumerate(chart.curves.items()):
        xs, ys = [point[0] for point in curve], [point[1] for point in curve]
        axes.plot(xs, ys, marker="o", markersize=4, color=COLOURS[index % len(COLOURS)], label=_plain(name))
    axes.set_xlabel(visible(chart.x_label), parse_math=False)
    axes.set_ylabel(visible(chart.y_label), parse_math=False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, alpha=0.3)
    for text in axes.legend(frameon=False).get_texts():
        text.set_parse_math(False)


def _plain(name: str) -> str:
    return shortened(visible(name), 40)
