"""What was changed on a page of print, and why: what was seen, and what the model expected.

A change is a word of Tesseract's that is read otherwise. Its reason has two parts, each the log of a ratio of what is
read now to what Tesseract wrote: the channel's, over the word's columns, and the model's, background and features.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

from llrnn.ground.errors import LLRNNError
from llrnn.ground.rendering import Heading, Renderable, Sheet, TextTable
from llrnn.inference.explanation import Comparison, explain
from llrnn.inference.reading.channel import OTHER, Channel, Outcomes
from llrnn.inference.reading.decoding import ReadLine
from llrnn.model.network import LLRNN

_FEATURES = 3  # of a reason, the largest


@dataclass(frozen=True)
class WordChange:
    """A word that is read otherwise. `line`: its number from 1; `seen`: log-ratio of the channel; `why`: the model's.

    `before`, `after`: what Tesseract wrote and what is read; `why` is None where a whole word is not to be compared.
    """

    line: int
    before: str
    after: str
    seen: float
    why: Comparison | None

    def as_dict(self) -> dict[str, object]:
        """Return the change as data for JSON, the model's log-ratio with its background and its largest features."""
        own: dict[str, object] = {"line": self.line, "before": self.before, "after": self.after, "channel": self.seen}
        if self.why is None:
            return own
        features = {term.name: round(term.share, 4) for term in self.why.terms[:_FEATURES]}
        return {**own, "model": self.why.log_ratio, "background": self.why.log_b_difference, "features": features}

    def row(self) -> tuple[str, ...]:
        numbers = ["", "", ""]
        if self.why is not None:
            terms = "; ".join(f"{term.name} {term.share:+.2f}" for term in self.why.terms[:_FEATURES])
            numbers = [f"{self.why.log_ratio:+.2f}", f"{self.why.log_b_difference:+.2f}", terms]
        return (str(self.line), self.before or "–", self.after or "–", f"{self.seen:+.2f}", *numbers)


@dataclass(frozen=True)
class PageReport(Renderable):
    """A page that was read: its `name`, its lines and what was changed. `kept`: lines where Tesseract's text stays."""

    name: str
    lines: tuple[ReadLine, ...]
    changes: tuple[WordChange, ...]

    @cached_property
    def kept(self) -> int:
        return sum(not line.outcomes for line in self.lines)

    def as_dict(self) -> dict[str, object]:
        """Return the report as data for JSON."""
        words = sum(len(line.text.split()) for line in self.lines)
        own = {"page": self.name, "lines": len(self.lines), "words": words, "lines without choices": self.kept}
        return {**own, "changes": [change.as_dict() for change in self.changes]}

    def sheet(self) -> Sheet:
        said = f"{len(self.lines)} lines, {len(self.changes)} words changed, {self.kept} lines without choices"
        header = ("line", "Tesseract", "read as", "seen", "model", "of which background", "features")
        table = TextTable(header, tuple(change.row() for change in self.changes), text_columns=3)
        return Sheet(((Heading(self.name),), (said,), table))


def report(model: LLRNN, channel: Channel, name: str, lines: Sequence[ReadLine]) -> PageReport:
    """Return what was changed on a page, each change with its reason. `report(model, channel, "page 1", lines)`"""
    changes, text = list[WordChange](), ""
    for number, line in enumerate(lines, 1):
        outcomes = channel.outcomes(line.line) if line.outcomes else []
        begun = 0
        for before, after, end in zip(line.line.text.split(), places(line), line.line.ends, strict=False):
            if before != after:
                seen = _seen(line, outcomes, begun, end)
                changes.append(WordChange(number, before, after, seen, _why(model, text, before, after)))
            begun, text = end, f"{text} {after}"[-500:]
    return PageReport(name, tuple(lines), tuple(changes))


def places(line: ReadLine) -> list[str]:
    """Return what is read in the place of each of Tesseract's words: "", one word, or several."""
    if not line.outcomes:
        return line.line.text.split()
    spelled = ["".join(parts) for parts in line.outcomes]
    starts = (0, *line.line.ends[:-1])
    return [" ".join("".join(spelled[i:j]).split()) for i, j in zip(starts, line.line.ends, strict=True)]


def _seen(line: ReadLine, outcomes: Sequence[Outcomes], begun: int, end: int) -> float:
    total = 0.0
    for t in range(begun, end):
        (text, added), one = line.outcomes[t], outcomes[t]
        total += one.log_of[text] + one.log_inserted_of[added]
        total -= one.log_of.get(line.line.columns[t].written, one.log_of[OTHER]) + one.log_inserted_of[""]
    return total


def _why(model: LLRNN, text: str, before: str, after: str) -> Comparison | None:
    """Compare the first words on which two chunks differ, after the sentence so far; None where no word is another."""
    old, new = model.read(before), model.read(after)
    place = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    if place is None:
        return None
    sentence = re.split(r"[.!?…]\s", text)[-1]
    try:
        return explain(model, (*model.read(sentence), *new[:place]), word=new[place], rival=old[place])
    except LLRNNError:  # a word that the model cannot write
        return None


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
:root {{ color-scheme: light dark; background: light-dark(#fff, #11151b); color: light-dark(#19212c, #e7ebf1); }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; }}
body > div {{ overflow-x: auto; }}</style></head>
<body><h1>{title}</h1>
<p>The log of a ratio, of what is read to what Tesseract wrote: <b>seen</b> of the channel, <b>model</b> of the language
model with its background and largest features, in nats.</p>
{pages}</body></html>
"""


def page_of(title: str, reports: Sequence[PageReport]) -> str:
    """Return one HTML page that shows all reports."""
    return _PAGE.format(title=escape(title), pages="\n".join(one.sheet().page_html() for one in reports))
