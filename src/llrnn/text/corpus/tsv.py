"""Two columns, `condition TAB target`: the plainest file of what is to be said, and how it was said.

    formal	could you help me
    inform(name=x;food=thai)	x serves thai food

The target is split at whitespace; one without a word is an error. A condition may be empty: then there is none. Blank
lines are skipped. With `conditions="act"` every condition must be a dialog act, and is read as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import fspath

from llrnn.ground.errors import CorpusError
from llrnn.text.corpus.acts import Conditions, act_at, check_conditions, lowercased
from llrnn.text.corpus.source import StrPath, read_lines
from llrnn.text.corpus.text import PlainTokens
from llrnn.text.corpus.types import Sentence

__all__ = ["read_tsv"]


def read_tsv(path: StrPath, *, lowercase: bool = False, conditions: Conditions = "plain") -> Iterator[Sentence]:
    """The sentences of a file with two columns; `lowercase` writes both of them small."""
    check_conditions(conditions)
    tokens = PlainTokens()
    for number, line in read_lines(path):
        if "\t" not in line and not line.strip():
            continue
        text, target = _columns(path, number, line)
        words = (target.lower() if lowercase else target).split()
        if not words:
            reason = "the target must have a word, found none; write it behind the TAB, or remove the line"
            raise CorpusError(reason, path=path, line=number, column=len(text) + 2)
        condition = _act(path, number, text) if conditions == "act" else text.strip() or None
        condition = lowercased(condition) if lowercase else condition
        yield Sentence(tuple([tokens[word] for word in words]), condition, f"{fspath(path)}:{number}")


def _columns(path: StrPath, number: int, line: str) -> tuple[str, str]:
    columns = line.split("\t")
    if len(columns) != 2:
        column = len("\t".join(columns[:2])) + 1
        reason = f"2 columns (condition TAB target) are required, found {len(columns)}; keep these two"
        raise CorpusError(reason, path=path, line=number, column=column)
    return columns[0], columns[1]


def _act(path: StrPath, number: int, text: str) -> object:
    if not text.strip():
        reason = "a dialog act is required before the TAB, such as inform(food=thai), found none; give one"
        raise CorpusError(reason, path=path, line=number, column=1)
    return act_at(text, path, number, 1)
