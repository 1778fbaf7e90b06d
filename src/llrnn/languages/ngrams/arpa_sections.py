r"""The sections of an ARPA file as arrays, and every fault of a line by its number.

    \data\
    ngram 1=4                       how many n-grams each section lists
    ngram 2=2

    \1-grams:
    -99     <s>     -0.30           log10 p, the words, log10 of the back-off weight; the highest order has none
    -0.60   </s>
    -0.48   a       -0.10
    -0.70   b

    \2-grams:
    -0.25   <s> a
    -0.30   a b

    \end\

What files may differ in: text before `\data\`, blank lines, tabs or spaces, the order of the n-grams in a section. Only
some thousand lines are Python objects at a time; the rest of a section is arrays already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import BackgroundError, PlacedError
from llrnn.languages.ngrams.table import UNKNOWN, Floats, Ints
from llrnn.text.corpus.source import StrPath, read_lines

_BLOCK = 10_000  # lines
_SLACK = 1e-6  # by which rounding may lift log10 p above 0
_LOG_10 = np.log(10.0)
_UNKNOWN, _OTHER_UNKNOWN = UNKNOWN.encode(), b"<UNK>"  # some tools write the latter
_COUNT = re.compile(r"ngram ([0-9]{1,3}) ?= ?([0-9]{1,18})")
_DATA, _END = "\\data\\", "\\end\\"

_Index = dict[bytes, int]
_Row = list[bytes]  # the fields of a line


class ArpaError(PlacedError, BackgroundError):
    """A BackgroundError at a place in a file."""


@dataclass(frozen=True, eq=False)
class Section:
    """The n-grams of one order in the order of the file."""

    line: Ints  # (m,)
    words: Ints  # (m, n)
    log_prob: Floats  # (m,) natural
    log_backoff: Floats  # (m,) natural; NaN where none is given


def read_sections(path: StrPath, index: _Index) -> Iterator[Section]:
    """One for each order, lowest first; the first one fills `index` with its words, in their order."""
    lines = _Lines(path)
    header = _header(lines)
    yield _section(lines, header, 1, index)
    known = {**index, _OTHER_UNKNOWN: index.get(_UNKNOWN, -1)}
    for n in range(2, len(header) + 1):
        yield _section(lines, header, n, known)
    _check_end(lines)


class _Lines:
    """The lines of a file in blocks, each up to the next marker: a line that begins with a backslash."""

    def __init__(self, path: StrPath) -> None:
        self.path, self.marker, self.number = path, "", 0  # the last marker, and the number of the last line
        self._lines = read_lines(path, error=ArpaError)

    def skip_to_data(self) -> None:
        for number, line in self._lines:
            self.number = number
            if line.strip() == _DATA:
                self.marker = _DATA
                return
        self.fault(rf"an ARPA file is required, but no line of this one is {_DATA}; was another file meant?")

    def blocks(self) -> Iterator[tuple[list[int], list[_Row]]]:
        """Numbers and fields of the lines that are not blank, up to the next marker."""
        numbers: list[int] = []
        rows: list[_Row] = []
        for number, line in self._lines:
            self.number = number
            row = line.encode().split()  # bytes, because text would be split at no-break spaces in words too
            if not row:
                continue
            if row[0].startswith(b"\\"):
                self.marker = line.strip()
                yield numbers, rows
                return
            numbers.append(number)
            rows.append(row)
            if len(rows) == _BLOCK:
                yield numbers, rows
                numbers, rows = [], []
        self.fault(rf"{_END} is required, but the file ends in the section {self.marker}; was it written to the end?")

    def rest(self) -> Iterator[tuple[int, str]]:
        """Read to the end in any case: the check sum of a gzip file stands there."""
        return ((number, line) for number, line in self._lines if line.strip())

    def fault(self, reason: str, line: int | None = None) -> NoReturn:
        raise ArpaError(reason, path=self.path, line=self.number if line is None else line)


def _header(lines: _Lines) -> list[tuple[int, int]]:
    """(line, count) for each order."""
    lines.skip_to_data()
    found: list[tuple[int, int]] = []
    for numbers, rows in lines.blocks():
        for number, row in zip(numbers, rows, strict=True):
            found.append((number, _count(lines, number, b" ".join(row).decode(), len(found) + 1)))
    if not found:
        lines.fault(f"`ngram 1=COUNT` is required after {_DATA}, found {lines.marker[:40]}; restore the header")
    return found


def _count(lines: _Lines, number: int, text: str, n: int) -> int:
    found = _COUNT.fullmatch(text)
    if found is None or int(found[1]) != n:
        lines.fault(f"`ngram {n}=COUNT` is required in the header, found {text[:60]!r}; correct it", number)
    return int(found[2])


def _check_end(lines: _Lines) -> None:
    if lines.marker != _END:
        lines.fault(f"{_END} is required after the last order of the header, found {lines.marker[:40]}; correct either")
    for number, line in lines.rest():
        lines.fault(f"nothing may follow {_END}, found {line[:40]!r}; are these two files in one?", number)


def _section(lines: _Lines, header: Sequence[tuple[int, int]], n: int, index: _Index) -> Section:
    if lines.marker != f"\\{n}-grams:":
        lines.fault(
            f"\\{n}-grams: is required here, found {lines.marker[:40]}; sections stand in the order of the header"
        )
    highest = n == len(header)
    parts = [_Block(lines, numbers, rows, n, highest).section(index) for numbers, rows in lines.blocks()]
    names = ("line", "words", "log_prob", "log_backoff")
    whole = Section(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    line, promised = header[n - 1]
    if len(whole.line) != promised:
        found = f"the header says {promised} {n}-grams, but the section lists {len(whole.line)}"
        lines.fault(f"{found}; restore the file if it was cut, else correct the number", line)
    return whole


@dataclass(frozen=True, eq=False)
class _Block:
    """Some lines of a section."""

    lines: _Lines
    numbers: list[int]
    rows: list[_Row]
    n: int
    highest: bool

    def section(self, index: _Index) -> Section:
        weighted = self._weighted()
        log_prob = self._floats(0, np.full(len(self.rows), True))
        self._refuse(
            ~(log_prob <= _SLACK), lambda row: f"log10 p must be 0 or less, found {row[0].decode()}; correct it"
        )
        backoff = self._floats(-1, weighted)
        self._refuse(
            weighted & ~np.isfinite(backoff),
            lambda row: f"a back-off weight must be finite, found {row[-1].decode()}; -99 is as good as no mass",
        )
        words = np.stack([self._words(k, index) for k in range(self.n)], 1)
        return Section(
            np.array(self.numbers, dtype=np.int64), words, np.minimum(log_prob, 0.0) * _LOG_10, backoff * _LOG_10
        )

    def _weighted(self) -> NDArray[np.bool_]:
        """Which lines have a back-off weight."""
        width = np.fromiter(map(len, self.rows), dtype=np.int64, count=len(self.rows))
        weighted: NDArray[np.bool_] = width == self.n + 2
        self._refuse((width != self.n + 1) & (self.highest | ~weighted), self._wrong_width)
        return weighted

    def _wrong_width(self, row: _Row) -> str:
        words = "1 word" if self.n == 1 else f"{self.n} words"
        weight = "no back-off weight at the highest order" if self.highest else "perhaps a back-off weight"
        found = f"{len(row)} fields, {b' '.join(row).decode()[:60]!r}"
        return f"log10 p and {words} are required, and {weight}, found {found}; is the order right, has a word spaces?"

    def _floats(self, k: int, there: NDArray[np.bool_]) -> Floats:
        """The numbers in field k of some lines, NaN in others."""
        found = np.full(len(self.rows), np.nan)
        try:
            found[there] = [float(row[k]) for row, take in zip(self.rows, there.tolist(), strict=True) if take]
        except ValueError:
            wrong = np.array([take and not _is_number(row[k]) for row, take in zip(self.rows, there, strict=True)])
            self._refuse(wrong, lambda row: f"a number is required, found {row[k].decode()!r}; correct it")
        return found

    def _words(self, k: int, index: _Index) -> Ints:
        """The numbers of the words in place k; unigrams bring new ones."""
        column = [row[k + 1] for row in self.rows]
        numbers: Iterable[int] = _registered(column, index) if self.n == 1 else map(index.get, column, repeat(-1))
        found = np.fromiter(numbers, dtype=np.int64, count=len(column))
        self._refuse(found < 0, lambda row: f"{row[k + 1].decode()!r} is not among the 1-grams; list it there")
        return found

    def _refuse(self, wrong: NDArray[np.bool_], reason: Callable[[_Row], str]) -> None:
        if wrong.any():
            first = int(wrong.argmax())
            self.lines.fault(reason(self.rows[first]), self.numbers[first])


def _registered(words: list[bytes], index: _Index) -> Iterator[int]:
    """New words get the next number; one that comes again has its old number."""
    return (index.setdefault(_UNKNOWN if word == _OTHER_UNKNOWN else word, len(index)) for word in words)


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
