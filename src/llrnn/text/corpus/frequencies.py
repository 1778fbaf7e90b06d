"""Frequency files, `form TAB count`: what a large corpus says of single words, without the corpus."""

from __future__ import annotations

import math
import re
from typing import NoReturn

from llrnn.ground.errors import LexiconError
from llrnn.text.corpus.source import StrPath, read_lines

__all__ = ["read_frequencies", "two_columns"]

# Narrower than float(), which also takes 1_000, nan and the digits of other scripts.
_COUNT = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read_frequencies(path: StrPath, *, lowercase: bool = False) -> dict[str, float]:
    """form -> frequency from lines `form TAB count` (or separated by spaces, where the form has none).

    A form that comes again adds up, also one that `lowercase` makes the same; blank lines are skipped.
    There are no comments: `#` is a word.
    """
    total: dict[str, float] = {}
    for number, line in read_lines(path, error=LexiconError):
        if line.strip():
            form, count = _frequency(path, number, line)
            form = form.lower() if lowercase else form
            total[form] = total.get(form, 0.0) + count
            if math.isinf(total[form]):
                _fail_on_count(path, number, line, "a sum that is finite")
    if not total:
        raise LexiconError("no frequency in the file: it holds blank lines only", path=path)
    return total


def _frequency(path: StrPath, number: int, line: str) -> tuple[str, float]:
    separated = line if "\t" in line else "\t".join(line.split())
    form, text = two_columns(path, number, separated, "form TAB count")
    count = float(text) if _COUNT.fullmatch(text.strip()) else math.nan
    if not 0 <= count < math.inf:
        _fail_on_count(path, number, line, "a finite number of at least 0")
    return form, count


def _fail_on_count(path: StrPath, number: int, line: str, wanted: str) -> NoReturn:
    text = line.split("\t")[-1].strip() if "\t" in line else line.split()[-1]
    reason = f"the count must be {wanted}, found {text!r}; write the form first, then its count"
    raise LexiconError(reason, path=path, line=number, column=line.rindex(text) + 1)


def two_columns(path: StrPath, number: int, line: str, wanted: str) -> tuple[str, str]:
    columns = line.split("\t")
    if len(columns) != 2:
        column = len("\t".join(columns[:2])) + 1
        reason = f"2 columns ({wanted}) are required, found {len(columns)}; keep these two, separated by one TAB"
        raise LexiconError(reason, path=path, line=number, column=column)
    form, rest = columns
    if not form.strip():
        raise LexiconError("the form must not be empty; write the word", path=path, line=number, column=1)
    return form, rest
