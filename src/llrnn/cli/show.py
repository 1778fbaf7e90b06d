"""What the verbs print: tables for people. All text goes through rich, so that it fits the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from llrnn.ground.rendering import TextTable, visible

if TYPE_CHECKING:  # torch is not needed to print
    from llrnn.inference.evaluation import Evaluation
    from llrnn.inference.pairs import PairScores
    from llrnn.model.decode import Generated
    from llrnn.model.network import LLRNN


class VisibleConsole(Console):
    """A rich console that shows control characters as visible signs, so that no text can control the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or (text.isascii() and text.replace("\n", "").isprintable()):
                yield segment
            else:
                yield Segment("\n".join(map(visible, text.split("\n"))), segment.style)

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, where rich would exit with 1: a reader that stops early (`head`) is no failure."""
        raise BrokenPipeError


_MOST = 12  # of a list that is told
out = VisibleConsole(highlight=False, emoji=False, soft_wrap=True)
err = VisibleConsole(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def text(text: str) -> None:
    """Print text on standard output; square brackets are no markup, and control characters become U+FFFD."""
    out.print(text, markup=False)


def note(text: str) -> None:
    """Print text on standard error; square brackets are no markup, and control characters become U+FFFD."""
    err.print(text, markup=False)


def line(text: str) -> None:
    """Print a line of words on standard output; on a terminal, but not in a file, control characters become U+FFFD."""
    typer.echo(visible(text) if sys.stdout.isatty() else text)


@contextmanager
def only_if(wanted: bool) -> Iterator[None]:
    """Context manager (yields None): unless `wanted`, the functions of this module print nothing within the block.

    It is for several training processes, of which only the first is to print.
    """
    before = out.quiet, err.quiet
    out.quiet, err.quiet = (before[0] or not wanted, before[1] or not wanted)
    try:
        yield
    finally:
        out.quiet, err.quiet = before


def table(header: Sequence[str], *rows: Sequence[str], text_columns: int = 1) -> None:
    """Print a table on standard output; the first `text_columns` columns are aligned left, the others right."""
    out.print(TextTable(tuple(header), tuple(map(tuple, rows)), text_columns))


def facts(found: Mapping[str, Any]) -> None:
    """Print a mapping on standard output, a line "name: value" for each key, with blanks for `_` in names.

    Truth is "yes" or "no", what is empty "none", floats have four decimals, items of lists and dicts are separated by
    commas. Lists of more than 12 items are cut after 12, and followed by "…" and their number in brackets.
    """
    for name, value in found.items():
        text(f"{name.replace('_', ' ') + ':':18} {_told(value)}")


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(one)}" for name, one in value.items()) or "none"
    if isinstance(value, list | tuple):
        more = f", … ({len(value):,})" if len(value) > _MOST else ""
        between = "; " if value and isinstance(value[0], tuple) else ", "
        return (between.join(map(_told, value[:_MOST])) or "none") + more
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value or "none")


def evaluation(name: str, result: Evaluation) -> None:
    """Print the results of an evaluation on standard output, headed `name`, and its warnings on standard error."""
    said = result.sheet(name)
    out.print(replace(said, warnings=()))
    for problem in said.warnings:
        err.print(f"[bold]warning[/]: {escape(problem)}")


def generated(model: LLRNN, found: Sequence[Generated], features: bool = False) -> None:
    """Print generated texts with their log-probabilities, one a line; "…" follows one that was cut before its end.

    `features`: list the words of each with their features, too.
    """
    for result in found:
        tail = "" if result.finished else " …"
        out.print(escape(str(result)) + tail + f"  [dim]log p = {result.log_prob:.2f}[/]")
        if features:
            out.print(words_with_features(model, (*result.prefix, *result.words)))


def words_with_features(model: LLRNN, words: Sequence[str]) -> TextTable:
    """Return a table with a row for each word: the word, and the names of its features that are not 0.

    Values other than 1 are added, "NAME=value". An UnknownWordError is raised for a word that the model cannot read.
    """
    rows = tuple((word, ", ".join(named_features(model, word))) for word in words)
    return TextTable(("word", "features"), rows, text_columns=2)


def named_features(model: LLRNN, word: str) -> list[str]:
    """Return the names of a word's output features φ that are not 0, "NAME=value" where the value is not 1.

    A word outside the vocabulary has the features of its symbol; an UnknownWordError is raised where it has none.
    """
    values = model.output_features.row(model.vocabulary.id(word))
    return [name if value == 1.0 else f"{name}={value:.3g}" for name, value in values.items()]


def pairs(name: str, scores: PairScores) -> None:
    """Print the accuracy on minimal pairs on standard output, headed `name`: overall, and by what the file says."""
    out.print(scores.sheet(name))
