"""One thing said once, and shown three ways: on a terminal (rich), in a notebook (HTML), as a picture (SVG).

A `Sheet` holds what there is to say as plain text: lines, tables, a chart. Nothing in it is markup, so no word of a
corpus can become any: whatever renders it escapes all of it. The HTML brings no script, no style sheet and no address,
and takes its colours from the page around it, light or dark.

Charts are data, drawn as SVG (no library, no network, no style sheet):

    waterfall   log b, every a_k·φ_k and −log Z, each from where the last one ended; the sum is log p
    balance     each from 0: to the right for, to the left against
"""

from __future__ import annotations

import io
import math
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text


# each stands out from white and from black; the playground and the documentation have the same
FOR, AGAINST, PRIOR, SUM = "#14897f", "#d2603a", "#808890", "#5b6fd0"
CURVES = ("#5b6fd0", "#b0578f", "#8c7a1f", "#2f86c5")  # of models, which are neither for nor against
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # characters that turn others around


@dataclass(frozen=True)
class Bar:
    """One horizontal bar of a chart, labelled `name`, from `start` to `start + value`, in nats.

    `value` is −∞ where a word is forbidden (probability 0), and +∞ where the word that it is compared with is.
    `is_sum`: it shows the total. `is_prior`: it shows the prior or the normaliser log Z, not a feature. Both decide the
    colour.
    """

    name: str
    value: float
    start: float = 0.0
    is_sum: bool = False
    is_prior: bool = False

    @property
    def bounded(self) -> bool:
        """Whether the bar's `value` is finite."""
        return math.isfinite(self.value)

    @property
    def end(self) -> float:
        return self.start + self.value

    @property
    def label_at(self) -> float:
        """The x, in nats, at which the bar's number is written: the end of the bar, or the start of an infinite one."""
        return self.end if self.bounded else self.start

    @property
    def colour(self) -> str:
        if self.is_sum or self.is_prior:
            return SUM if self.is_sum else PRIOR
        return FOR if self.value >= 0 else AGAINST


@dataclass(frozen=True)
class BarChart:
    """A chart of horizontal `bars`, a tuple of `Bar` from top to bottom, with `title` and `x_label`, drawn by `svg`.

    `linked`: a thin line leads from the end of each bar to the start of the next.
    """

    bars: tuple[Bar, ...]
    title: str
    x_label: str
    linked: bool = False  # whether a thin line leads from the end of each bar to the start of the next

    @property
    def opacity(self) -> float:
        """Opacity of the chart's finite bars, 0 to 1: 0.45 where another bar is infinite, else 1."""
        return 1.0 if all(bar.bounded for bar in self.bars) else 0.45

    def links(self) -> list[tuple[int, float]]:
        """Return the thin lines between bars as (index of the upper bar, x of its end); none unless `self.linked`.

        A bar that is infinite, or is followed by an infinite one, has no line.
        """
        pairs = enumerate(zip(self.bars, self.bars[1:], strict=False))
        return [(row, bar.end) for row, (bar, below) in pairs if self.linked and bar.bounded and below.bounded]

    @property
    def range(self) -> tuple[float, float]:
        """The (least, greatest) finite x of the chart's bars and 0; where equal, widened by 0.5 to either side."""
        ends = [0.0, *(x for bar in self.bars for x in (bar.start, bar.end) if math.isfinite(x))]
        low, high = min(ends), max(ends)
        return (low, high) if high > low else (low - 0.5, high + 0.5)


@dataclass(frozen=True)
class LineChart:
    """A chart of lines, to be drawn by `svg`: `curves` maps the name of each line to its points (x, y), in order.

    `title`, `x_label`, `y_label`: strings. `LineChart({"loss": [(1, 5.2), (2, 4.9)]}, "Training", "epoch", "nats")`
    """

    curves: Mapping[str, Sequence[tuple[float, float]]]
    title: str
    x_label: str
    y_label: str


Chart = BarChart | LineChart


def log_text(value: float) -> str:
    """Format a log-probability or a difference of two with sign and four decimals, "-1.2500" or "+0.5000".

    −∞ is "forbidden", +∞ (of a difference from a rival word) "rival forbidden".
    """
    return f"{value:+.4f}" if math.isfinite(value) else "forbidden" if value < 0 else "rival forbidden"


def visible(text: str) -> str:
    """Replace each control character, lone surrogate and character that reverses text direction by U+FFFD."""
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in _TURNING else c for c in text)


def visible_json(text: str) -> str:
    r"""Return JSON with control characters, lone surrogates and characters that reverse text direction as \uXXXX.

    It parses to the same data.
    """
    return "\n".join("".join(c if visible(c) == c else f"\\u{ord(c):04x}" for c in line) for line in text.split("\n"))


def shortened(text: str, longest: int = 25) -> str:
    """Return the text; one of more than `longest` characters as its first `longest` − 1 and "…", `longest` in all."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers in [low, high], about four to ten, for the marks of an axis; low must be below high.

    They are all multiples of a step there, which is 1, 2 or 5 times a power of ten.
    """
    step = 10.0 ** math.ceil(math.log10(high - low))
    while (high - low) / step < 4:
        step /= 2.5 if f"{step:e}"[0] == "5" else 2
    return [round(i * step, 10) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


_WIDE, _NARROW = 640, 340  # pixels: a page or a notebook, and a phone


_ALL = 'width="100%" height="100%"'
PAPER = "svg{color:#1f2328}.paper{fill:#fff}@media (prefers-color-scheme:dark){svg{color:#e2e4e8}.paper{fill:#1e2129}}"


def svg(chart: Chart, *, narrow: bool = False) -> str:
    """Render the chart as an `<svg>` element 640 pixels wide; with `narrow` 340, for phones, names above their bars."""
    width = _NARROW if narrow else _WIDE
    return _bars(chart, width, narrow) if isinstance(chart, BarChart) else _lines(chart, width, narrow)


def svg_file(chart: Chart) -> str:
    """Render the chart as the content of an SVG file, on white paper, or on dark where the reader's colours are."""
    head, rest = svg(chart).split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{PAPER}</style><rect class="paper" {_ALL}/>{rest}\n'


def _bars(chart: BarChart, width: int, narrow: bool) -> str:
    """Render a bar chart as an `<svg>` element, `width` pixels wide; with `narrow`, names stand above their bars."""
    row, top, left, room, down = (44, 4, 0, 66, 22) if narrow else (24, 10, 210, 70, 4)
    bottom = top + row * len(chart.bars)
    low, high = chart.range

    def x(value: float) -> float:
        if math.isinf(value):
            return left if value < 0 else width
        return left + room + (width - left - 2 * room) * (value - low) / (high - low)

    parts = [_line(x(0), top, x(0), bottom, 0.6)]
    links = [(x(end), top + row * n + down) for n, end in chart.links()]
    parts += [_line(end, y + 15, end, y + row, 0.35) for end, y in links]
    for index, bar in enumerate(chart.bars):
        y = top + row * index
        parts.append(_text(0 if narrow else left - 10, y + 16, bar.name, "start" if narrow else "end", cut=True))
        parts.append(_rectangle(x(bar.start), x(bar.end), y + down, bar, chart.opacity))
        # right of a finite value of 0 or more, and of −∞: the number never covers the bar
        away, anchor = (6, "start") if (bar.value >= 0) == bar.bounded else (-6, "end")
        parts.append(_text(x(bar.label_at) + away, y + down + 12, log_text(bar.value), anchor))
    parts.append(_text((left + width) / 2, bottom + 22, chart.x_label, "middle"))
    return _svg(width, bottom + 32, chart.title, parts)


def _rectangle(start: float, end: float, y: float, bar: Bar, opacity: float) -> str:
    """Render one bar as an SVG `<rect>` from x = `start` to `end`, its top at `y`, in pixels, at least 1 wide.

    `opacity`: of a finite bar, 0 to 1; an infinite one is pale and dashed.
    """
    look = f'fill="{bar.colour}" fill-opacity="{opacity if bar.bounded else 0.25}"'
    if not bar.bounded:
        look += f' stroke="{bar.colour}" stroke-dasharray="5 3"'
    width = max(abs(end - start), 1.0)
    return f'<rect x="{min(start, end):.1f}" y="{y:.1f}" width="{width:.1f}" height="15" {look}/>'


def _lines(chart: LineChart, width: int, narrow: bool) -> str:
    above = 22 * len(chart.curves) if narrow else 34  # the legend stands above the lines, and hides none
    left, right, top, bottom, height = 60, 20, above, 50, 300 + above if narrow else 320
    points = [point for curve in chart.curves.values() for point in curve]
    first, last = _spread([point[0] for point in points], 0.0)
    low, high = _spread([point[1] for point in points], 0.05)

    def x(value: float) -> float:
        return left + (width - left - right) * (value - first) / (last - first)

    def y(value: float) -> float:
        return top + (height - top - bottom) * (high - value) / (high - low)

    parts = [_text(width / 2, height - 10, chart.x_label, "middle")]
    parts.append(f'<text transform="translate(16 {height / 2:.0f}) rotate(-90)" text-anchor="middle">')
    parts.append(f"{_escaped(chart.y_label)}</text>")
    for tick in ticks(low, high):
        parts.append(_line(left, y(tick), width - right, y(tick), 0.15))
        parts.append(_text(left - 8, y(tick) + 4, f"{tick:g}", "end"))
    places = sorted({place for place, _ in points})
    for tick in places if len(places) <= 12 else ticks(first, last):
        parts.append(_text(x(tick), height - bottom + 18, f"{tick:g}", "middle"))
    legend, line = (4, 6) if narrow else (left, 6)
    for index, (name, curve) in enumerate(chart.curves.items()):
        colour = CURVES[index % len(CURVES)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in curve)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3.5" fill="{colour}"/>' for a, b in curve]
        parts.append(f'<rect x="{legend}" y="{line}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(legend + 18, line + 10, shortened(name)))
        legend, line = (legend, line + 20) if narrow else (legend + 42 + 8 * len(shortened(name)), line)
    return _svg(width, height, chart.title, parts)


def _spread(values: Sequence[float], margin: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    beyond = margin * (high - low) if high > low else 0.5
    return low - beyond, high + beyond


def _escaped(text: str) -> str:
    return escape(visible(text))


def _line(x1: float, y1: float, x2: float, y2: float, opacity: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity="{opacity}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", *, cut: bool = False) -> str:
    """Render an SVG `<text>` at (x, y) in pixels; with `cut`, over 25 characters are cut and shown on hover.

    `anchor`: which point of the text stands there, "start", "middle" or "end".
    """
    shown = f"<title>{_escaped(text)}</title>{_escaped(shortened(text))}" if cut else _escaped(text)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{shown}</text>'


def _svg(width: int, height: int, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{_escaped(label)}" fill="currentColor" '
        'font-size="13" font-family="system-ui, sans-serif" '
        f'style="display:block;width:100%;max-width:{width}px;height:auto">{"".join(parts)}</svg>'
    )


AT_MOST = 12  # parts of a sum that are shown one by one
_WIDTH = 120  # characters of a line that `print` writes
_CELL = "padding:.15em 1.2em .15em 0;border:0;vertical-align:top;"
_NAME = "text-align:left;overflow-wrap:anywhere;"
_NUMBER = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;"


class Strong(str):
    """A piece of text that is shown in bold."""


class Heading(Strong):
    """A piece of text that is shown as the heading of a section."""


class Faint(str):
    """A piece of text that is shown dimmed."""


Line = tuple[str, ...]  # one line of text, in pieces


@dataclass(frozen=True)
class TextTable:
    """A table of strings: `header`, a tuple, and `rows`, a tuple of tuples as long, printed with rich or as HTML.

    The first `text_columns` columns (1 by default) are aligned left, as text, the others right, as numbers:
    `TextTable(("word", "p"), (("chat", "0.12"), ("chien", "0.08")))`.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1

    def __rich__(self) -> Table:
        from rich.table import Table

        made = Table(box=None, pad_edge=False, header_style="bold")
        for index, column in enumerate(self.header):
            justify: Literal["left", "right"] = "left" if index < self.text_columns else "right"
            made.add_column(column, justify=justify, overflow="fold", no_wrap=index == 0)
        for row in self.rows:
            made.add_row(*(_rich_line((cell,)) for cell in row))
        return made

    def _repr_html_(self) -> str:
        head = self._html_row("th", self.header, "border-bottom:1px solid;")
        body = "".join(self._html_row("td", row, "") for row in self.rows)
        return f'<table style="border-collapse:collapse;margin:.6em 0">{head}{body}</table>'

    def _html_row(self, tag: str, cells: Sequence[str], style: str) -> str:
        """Render one row as HTML, a `<tr>` element; leading spaces of the first cell become an indentation.

        `tag`: "th" or "td"; `style`: CSS that is added to each cell.
        """
        made = []
        for index, cell in enumerate(cells):
            side = _NAME if index < self.text_columns else _NUMBER
            inset = f"padding-left:{len(cell) - len(cell.lstrip())}ch;" if not index and cell.startswith(" ") else ""
            made.append(f'<{tag} style="{_CELL}{side}{style}{inset}">{_html_piece(cell)}</{tag}>')
        return f"<tr>{''.join(made)}</tr>"


@dataclass(frozen=True)
class Sheet:
    """What is shown of a result, from top to bottom: `blocks`, then `warnings`, a tuple of strings, () by default.

    A block is a line of text (a tuple of strings, its pieces, which may be `Strong`, `Heading` or `Faint`), a
    `TextTable`, a `BarChart` or a `LineChart`.
    """

    blocks: tuple[Line | TextTable | Chart, ...]
    warnings: tuple[str, ...] = ()

    def __rich__(self) -> Group:
        """Return what a terminal shows, as a group of rich: text, tables and warnings, but no charts."""
        from rich.console import Group

        blocks = [block for block in self._all() if not isinstance(block, BarChart | LineChart)]
        return Group(*(block if isinstance(block, TextTable) else _rich_line(block) for block in blocks))

    def _repr_html_(self) -> str:
        return f"<div>{''.join(map(_html, self._all()))}</div>"

    def page_html(self) -> str:
        """Return HTML for a web page, with each chart twice: in a `<div>` of class `wide`, and of class `narrow`.

        The page shows the second on a phone.
        """
        return f"<div>{''.join(_html(block, twice=True) for block in self._all())}</div>"

    def _all(self) -> list[Line | TextTable | Chart]:
        return [*self.blocks, *((Strong("warning"), f": {text}") for text in self.warnings)]


class Renderable(ABC):
    """Base class of results that print as text and tables, and show as HTML in a notebook.

    Subclasses define `sheet`, what is shown.
    """

    @abstractmethod
    def sheet(self) -> Sheet:
        """Return what is shown of the result: lines of text, tables and charts, with warnings."""

    def __rich__(self) -> Group:
        return self.sheet().__rich__()

    def __str__(self) -> str:
        """Return what a terminal shows of the result, without colours, in lines of at most 120 characters."""
        from rich.console import Console

        console = Console(file=io.StringIO(), width=_WIDTH, color_system=None, highlight=False, emoji=False)
        with console.capture() as shown:
            console.print(self)
        return "\n".join(visible(line.rstrip()) for line in shown.get().rstrip().split("\n"))

    def _repr_html_(self) -> str:
        return self.sheet()._repr_html_()


class Chartable(Renderable):
    """Base class of results that print as tables and also have a chart; subclasses define `sheet` and `chart`."""

    @abstractmethod
    def chart(self) -> Chart:
        """Return the bar or line chart that `sheet` contains."""

    def picture(self) -> str:
        """Return the result's chart as the content of an SVG file: `Path("why.svg").write_text(why.picture())`."""
        return svg_file(self.chart())


@dataclass(frozen=True)
class Part:
    """One summand of a log-probability that is not a feature, such as log b or −log Z; `share` is its value in nats.

    `name`: in tables; `factors`: a tuple of (name, value in nats) of what it is itself a sum of, where that is known,
    else ().
    """

    name: str
    share: float
    factors: tuple[tuple[str, float], ...] = ()

    def rows(self) -> list[tuple[str, ...]]:
        """Return table rows of 4 strings, (name, "", "", value in nats): for this summand, then for its factors.

        Values are written by `log_text`; the names of factors begin with "  of it ".
        """
        of_it = [(Faint(f"  of it {name}"), "", "", Faint(log_text(share))) for name, share in self.factors]
        return [(self.name, "", "", log_text(self.share)), *of_it]


@dataclass(frozen=True)
class Term:
    """The contribution of the feature `name` to a log-probability: `weight` a_k(h), `value` φ_k(x), and their product.

    The product, in nats, is the property `share`.
    """

    name: str
    weight: float
    value: float

    @property
    def share(self) -> float:
        return self.weight * self.value


@dataclass(frozen=True)
class Breakdown:
    """A log-probability, or a difference of two, as a sum in nats: `before` + Σ `terms` + `after` = `total`.

    `before` and `after` are tuples of `Part`, summands that are no features (such as log b, −log Z), `terms` a sequence
    of `Term`, those of the features, largest first, `total` a float. Tables and charts show 12 terms one by one, and
    the others as one sum.
    """

    before: tuple[Part, ...]
    terms: Sequence[Term]  # largest first
    after: tuple[Part, ...]
    total: float

    @property
    def _rest(self) -> tuple[Part, ...]:
        small = self.terms[AT_MOST:]
        return (Part(f"{len(small)} smaller ones", sum(term.share for term in small)),) if small else ()

    def table(self, value_name: str) -> TextTable:
        """Return a table of the summands: name, weight a, value (headed `value_name`) and share in nats.

        Rows are `before`, the 12 largest terms, the sum of the other terms, `after`, and last the total.
        """
        large = self.terms[:AT_MOST]
        rows = [row for part in self.before for row in part.rows()]
        rows += [(term.name, f"{term.weight:+.4f}", f"{term.value:+g}", log_text(term.share)) for term in large]
        rows += [row for part in (*self._rest, *self.after) for row in part.rows()]
        rows.append((Strong("sum"), "", "", Strong(log_text(self.total))))
        return TextTable(("part", "weight a", value_name, "share"), tuple(rows))

    def waterfall(self, name: str, title: str) -> BarChart:
        """Return a chart in which each bar starts where the last one ended; the last bar is the total, from 0.

        `name`: of the last bar; `title`: of the chart. Infinite bars move nothing: the next one starts where they
        start.
        """
        bars, at = list[Bar](), 0.0
        for bar in self._bars(unsaid=1.0):
            bars.append(replace(bar, start=at))
            at += bar.value if bar.bounded else 0.0
        return BarChart((*bars, Bar(name, self.total, is_sum=True)), title, "nats", linked=True)

    def balance(self, title: str, x_label: str) -> BarChart:
        """Return a chart in which each summand is a bar from 0, to the right if above 0; the last bar is the total.

        `title`: of the chart; `x_label`: of its axis.
        """
        return BarChart((*self._bars(), Bar("sum", self.total, is_sum=True)), title, x_label)

    def _bars(self, unsaid: float | None = None) -> list[Bar]:
        """Return one bar for each summand of the log-probability, from top to bottom, without the total; all from 0.

        They are `before`, the 12 largest terms, the sum of the other terms, and `after`. Names of features are followed
        by the feature's value in brackets, unless it equals `unsaid`.
        """
        terms = [
            Bar(term.name if term.value == unsaid else f"{term.name} ({term.value:+g})", term.share)
            for term in self.terms[:AT_MOST]
        ]
        before, after = (
            [Bar(one.name, one.share, is_prior=True) for one in side] for side in (self.before, self.after)
        )
        return [*before, *terms, *(Bar(one.name, one.share) for one in self._rest), *after]


def _rich_piece(piece: str) -> tuple[str, str]:
    style = "bold" if isinstance(piece, Strong) else "dim" if isinstance(piece, Faint) else ""
    return f"\n{visible(piece)}" if isinstance(piece, Heading) else visible(piece), style


def _rich_line(line: Line) -> Text:
    from rich.text import Text

    return Text.assemble(*map(_rich_piece, line))


def _html(block: Line | TextTable | Chart, *, twice: bool = False) -> str:
    if isinstance(block, BarChart | LineChart):
        wide = svg(block)
        return f'<div class="wide">{wide}</div><div class="narrow">{svg(block, narrow=True)}</div>' if twice else wide
    if isinstance(block, TextTable):
        return block._repr_html_()
    return f"<div>{''.join(map(_html_piece, block))}</div>"


def _html_piece(piece: str) -> str:
    text = escape(visible(piece))
    if isinstance(piece, Strong):
        return f"<h2>{text}</h2>" if isinstance(piece, Heading) else f"<b>{text}</b>"
    return f'<span style="opacity:.7">{text}</span>' if isinstance(piece, Faint) else text
