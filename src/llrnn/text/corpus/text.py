"""Plain text: one sentence a line, tokens separated by whitespace."""

from __future__ import annotations

from collections.abc import Iterator
from os import fspath
from sys import intern

from llrnn.text.corpus.source import StrPath, read_lines
from llrnn.text.corpus.types import Sentence, Token

__all__ = ["PlainTokens", "read_text"]


class PlainTokens(dict[str, Token]):
    """form -> the one token that all its occurrences share: without annotation they do not differ."""

    def __missing__(self, form: str) -> Token:
        token = self[form] = Token(intern(str(form)))
        return token


def read_text(path: StrPath, *, lowercase: bool = False) -> Iterator[Sentence]:
    """The sentences of a text file, one a line. Blank lines are layout, not sentences: they are skipped.

    Whitespace is what Unicode calls so, the no-break space included.
    """
    tokens = PlainTokens()
    place = fspath(path)
    for number, line in read_lines(path):
        words = (line.lower() if lowercase else line).split()
        if words:
            yield Sentence(tuple([tokens[word] for word in words]), name=f"{place}:{number}")
