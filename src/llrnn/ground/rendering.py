"""One thing said once, and shown three ways: on a terminal (rich), in a notebook (HTML), as a figure (matplotlib).

A `Sheet` holds what there is to say as plain text: lines, tables, a chart. Nothing in it is markup, so no word of a
corpus can become any: whatever renders it escapes all of it. The HTML brings no script, no style sheet and no address,
and takes its colours from the page around it, light or dark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Literal

from llrnn.ground.charts import BarChart, Chart, LineChart, apart, figure, log_text, running, svg, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

AT_MOST = 12  # parts of a sum that are shown one by one
_CELL = "padding:.15em 1.2em .15em 0;border:0;vertical-align:top;"
_NAME = "text-align:left;overflow-wrap:anywhere;"
_NUMBER = "text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;"


class Strong(str):
    """Text that stands out."""


class Heading(Strong):
    """The line above a section."""


class Faint(str):
    """Text that stands back."""


Line = tuple[str, ...]  # one line of text, in pieces


@dataclass(frozen=True)
class TextTable:
    """A header and rows; the first columns are text, at the left, the others numbers, at the right."""

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
        """Leading spaces set a row in: HTML would drop them."""
        made = []
        for index, cell in enumerate(cells):
            side = _NAME if index < self.text_columns else _NUMBER
            inset = f"padding-left:{len(cell) - len(cell.lstrip())}ch;" if not index and cell.startswith(" ") else ""
            made.append(f'<{tag} style="{_CELL}{side}{style}{inset}">{_html_piece(cell)}</{tag}>')
        return f"<tr>{''.join(made)}</tr>"


@dataclass(frozen=True)
class Sheet:
    """What there is to say, from the top; `warnings` come last."""

    blocks: tuple[Line | TextTable | Chart, ...]
    warnings: tuple[str, ...] = ()

    def __rich__(self) -> Group:
        """Charts are left out: a terminal has the table."""
        from rich.console import Group

        blocks = [block for block in self._all() if not isinstance(block, BarChart | LineChart)]
        return Group(*(block if isinstance(block, TextTable) else _rich_line(block) for block in blocks))

    def _repr_html_(self) -> str:
        return f"<div>{''.join(map(_html, self._all()))}</div>"

    def _all(self) -> list[Line | TextTable | Chart]:
        return [*self.blocks, *((Strong("warning"), f": {text}") for text in self.warnings)]


class Renderable(ABC):
    """What prints as tables with rich, and shows as HTML in a notebook."""

    @abstractmethod
    def sheet(self) -> Sheet:
        """What there is to say about it."""

    def __rich__(self) -> Group:
        return self.sheet().__rich__()

    def _repr_html_(self) -> str:
        return self.sheet()._repr_html_()


class Chartable(Renderable):
    """What has a chart too."""

    @abstractmethod
    def chart(self) -> Chart:
        """The chart of its sheet."""

    def figure(self) -> Figure:
        """The chart as a matplotlib figure (the extra `plot`)."""
        return figure(self.chart())


@dataclass(frozen=True)
class Part:
    """One summand: its name, its share, and what the share is the sum of, where that is known."""

    name: str
    share: float
    factors: tuple[tuple[str, float], ...] = ()

    def rows(self) -> list[tuple[str, ...]]:
        of_it = [(Faint(f"  of it {name}"), "", "", Faint(log_text(share))) for name, share in self.factors]
        return [(self.name, "", "", log_text(self.share)), *of_it]


@dataclass(frozen=True)
class Term:
    """One feature's share: its weight a_k at this moment, its value φ_k, and their product."""

    name: str
    weight: float
    value: float

    @property
    def share(self) -> float:
        return self.weight * self.value


@dataclass(frozen=True)
class Breakdown:
    """`before + Σ terms + after = total`, with the largest terms one by one and the small ones as one."""

    before: tuple[Part, ...]
    terms: Sequence[Term]  # largest first
    after: tuple[Part, ...]
    total: float

    @property
    def _rest(self) -> tuple[Part, ...]:
        small = self.terms[AT_MOST:]
        return (Part(f"{len(small)} smaller ones", sum(term.share for term in small)),) if small else ()

    def table(self, value_name: str) -> TextTable:
        large = self.terms[:AT_MOST]
        rows = [row for part in self.before for row in part.rows()]
        rows += [(term.name, f"{term.weight:+.4f}", f"{term.value:+g}", log_text(term.share)) for term in large]
        rows += [row for part in (*self._rest, *self.after) for row in part.rows()]
        rows.append((Strong("sum"), "", "", Strong(log_text(self.total))))
        return TextTable(("part", "weight a", value_name, "share"), tuple(rows))

    def waterfall(self, name: str, title: str) -> BarChart:
        """From 0 by the parts to the sum, which has this name."""
        return running(self._bars(unsaid=1.0), (name, self.total), title=title, x_label="nats")

    def balance(self, title: str, x_label: str) -> BarChart:
        """What speaks for (right) and against (left)."""
        return apart(self._bars(), ("sum", self.total), title=title, x_label=x_label)

    def _bars(self, unsaid: float | None = None) -> list[tuple[str, float]]:
        """(name, share) from the top; a term's name is followed by its value, but for the one that goes unsaid."""
        terms = [
            (term.name if term.value == unsaid else f"{term.name} ({term.value:+g})", term.share)
            for term in self.terms[:AT_MOST]
        ]
        before, after = ([(part.name, part.share) for part in side] for side in (self.before, self._rest + self.after))
        return [*before, *terms, *after]


def _rich_piece(piece: str) -> tuple[str, str]:
    style = "bold" if isinstance(piece, Strong) else "dim" if isinstance(piece, Faint) else ""
    return f"\n{visible(piece)}" if isinstance(piece, Heading) else visible(piece), style


def _rich_line(line: Line) -> Text:
    from rich.text import Text

    return Text.assemble(*map(_rich_piece, line))


def _html(block: Line | TextTable | Chart) -> str:
    if isinstance(block, BarChart | LineChart):
        return svg(block)
    if isinstance(block, TextTable):
        return block._repr_html_()
    return f"<div>{''.join(map(_html_piece, block))}</div>"


def _html_piece(piece: str) -> str:
    text = escape(visible(piece))
    if isinstance(piece, Strong):
        return f"<h2>{text}</h2>" if isinstance(piece, Heading) else f"<b>{text}</b>"
    return f'<span style="opacity:.7">{text}</span>' if isinstance(piece, Faint) else text
