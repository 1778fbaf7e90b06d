"""Reading n-gram models from ARPA files (see `arpa_sections` for the format), plain or gzip.

A table has one word for both boundaries of a sentence. With EOS = `</s>`,

    p(EOS | c) = p(</s> | c)        backoff(EOS) = backoff(<s>)        p(x | EOS ...) = p(x | <s> ...)

which loses nothing, because `<s>` is never predicted and nothing follows `</s>`. Files in which it is otherwise are
refused, as are n-grams whose first n-1 words are not listed, or are listed without a back-off weight. The last n-1
words need not be listed: see `table.completed`. Whether probabilities sum to 1 is not checked here.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from os import fspath
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import BackgroundError, PlacedError
from llrnn.ground.files import StrPath, replacing
from llrnn.languages.ngrams.table import UNKNOWN, Floats, Ints, Level, NGramTable, written_out
from llrnn.text.source import read_lines
from llrnn.text.vocabulary import EOS

# The sections of an ARPA file as arrays, and every fault of a line by its number.
#
#     \data\
#     ngram 1=4                       how many n-grams each section lists
#     ngram 2=2
#
#     \1-grams:
#     -99     <s>     -0.30           log10 p, the words, log10 of the back-off weight; the highest order has none
#     -0.60   </s>
#     -0.48   a       -0.10
#     -0.70   b
#
#     \2-grams:
#     -0.25   <s> a
#     -0.30   a b
#
#     \end\
#
# What files may differ in: text before `\data\`, blank lines, tabs or spaces, the order of the n-grams in a section.
# Only some thousand lines are Python objects at a time; the rest of a section is arrays already.


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


BOS = "<s>"


@dataclass(frozen=True, eq=False)
class _Names:
    """The words as the file numbers them, and their numbers in the table."""

    path: StrPath
    names: tuple[str, ...]
    bos: int  # of no word where the file has none
    eos: int
    number: Ints  # (len(names),) that of <s> is EOS

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name != BOS)

    def refuse(self, wrong: NDArray[np.bool_], section: Section, reason: Callable[[int], str]) -> None:
        """Report the first n-gram that is wrong; `reason` is given its place in the section."""
        if wrong.any():
            first = int(wrong.argmax())
            raise ArpaError(reason(first), path=self.path, line=int(section.line[first]))

    def text(self, words: Ints) -> str:
        return repr(" ".join(self.names[word] for word in words))


@dataclass(frozen=True, eq=False)
class _Placed:
    """A level, in which NaN stands for back-off weights that were not given, and the lines of its n-grams."""

    level: Level
    line: Ints


def read_arpa(path: StrPath) -> NGramTable:
    """The model in an ARPA file, its words in the order of the 1-grams; a fault is a BackgroundError."""
    index: dict[bytes, int] = {}
    sections = read_sections(path, index)
    unigrams = next(sections)
    names = _named(path, tuple(word.decode() for word in index), unigrams)
    placed = [_unigrams(names, unigrams)]
    for section in sections:
        placed.append(_placed(names, section, placed))
    while len(placed[-1].line) == 0:
        placed.pop()
    return NGramTable(names.words, tuple(_weighted(part.level) for part in placed))


def _weighted(level: Level) -> Level:
    """1 for every back-off weight that was not given: nothing follows there."""
    return Level(level.context, level.word, level.log_prob, np.nan_to_num(level.log_backoff, nan=0.0))


def _named(path: StrPath, names: tuple[str, ...], unigrams: Section) -> _Names:
    if EOS not in names:
        reason = f"the 1-grams must list {EOS}, the end of sentences; estimate the model with sentence boundaries"
        raise ArpaError(reason, path=path, line=int(unigrams.line[-1]) if len(unigrams.line) else None)
    bos, eos = names.index(BOS) if BOS in names else len(names), names.index(EOS)
    number = np.cumsum(np.arange(len(names)) != bos) - 1
    number[bos : bos + 1] = number[eos]
    return _Names(path, names, bos, eos, number)


def _unigrams(names: _Names, section: Section) -> _Placed:
    first = section.words[:, 0]
    # a word that was there already has a smaller number than its place
    _refuse_repeated(names, section, first != np.arange(len(first)), first)
    log_backoff, line = section.log_backoff.copy(), section.line.copy()
    given = names.bos < len(names.names)
    log_backoff[names.eos] = log_backoff[names.bos] if given else 0.0
    line[names.eos] = line[names.bos] if given else line[names.eos]
    kept = np.flatnonzero(np.arange(len(names.names)) != names.bos)
    places = np.arange(len(kept))
    return _Placed(Level(np.zeros_like(places), places, section.log_prob[kept], log_backoff[kept]), line[kept])


def _placed(names: _Names, section: Section, below: Sequence[_Placed]) -> _Placed:
    """Find the contexts in the level below, and sort."""
    _refuse_misplaced(names, section)
    words = names.number[section.words]
    V, context = len(names.words), words[:, 0]
    for k in range(1, len(below)):
        context = below[k].level.find(context, words[:, k], V)
    names.refuse(
        context < 0,
        section,
        lambda at: (
            f"the n-gram {names.text(section.words[at])} needs its context {names.text(section.words[at, :-1])}, "
            f"which is not among the {len(below)}-grams; list it there"
        ),
    )
    _refuse_weightless(names, section, context, below[-1])
    key = context * V + words[:, -1]
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
    repeated = np.zeros(len(key), dtype=bool)
    repeated[order[again]] = True
    earlier = np.zeros(len(key), dtype=np.int64)
    earlier[order[again]] = order[again - 1]
    _refuse_repeated(names, section, repeated, earlier)
    level = Level(context[order], words[order, -1], section.log_prob[order], section.log_backoff[order])
    return _Placed(level, section.line[order])


def _refuse_misplaced(names: _Names, section: Section) -> None:
    required = f"{BOS} may only begin an n-gram and {EOS} only end it"
    wrong = (section.words[:, 1:] == names.bos).any(1) | (section.words[:, :-1] == names.eos).any(1)
    names.refuse(wrong, section, lambda at: f"{required}, found {names.text(section.words[at])}; remove it")


def _refuse_repeated(names: _Names, section: Section, repeated: NDArray[np.bool_], earlier: Ints) -> None:
    names.refuse(
        repeated,
        section,
        lambda at: (
            f"the n-gram {names.text(section.words[at])} is listed twice, first in line "
            f"{section.line[earlier[at]]}; remove one of them"
        ),
    )


def _refuse_weightless(names: _Names, section: Section, context: Ints, below: _Placed) -> None:
    """A context without back-off weight is more often a damaged file than a weight of 1."""
    weightless = np.isnan(below.level.log_backoff)[context]
    if weightless.any():
        first = int(weightless.argmax())
        text, line = names.text(section.words[first, :-1]), int(below.line[context[first]])
        raise ArpaError(
            f"the n-gram {text} has continuations (line {section.line[first]}) but no back-off weight; "
            "write 0 if none is meant",
            path=names.path,
            line=line,
        )


# Writing n-gram models as ARPA files (see `arpa_sections` for the format), as KenLM and SRILM read them.
#
# EOS is written as `<s>` where it begins an n-gram, and as `</s>` elsewhere; of the two unigrams, `<s>` has the
# back-off weight and a probability of nought, which is written as 10^-99, like every other. Nine digits, so that
# float32 is exact. Only some thousand n-grams are text at a time.


_NOUGHT = -99.0
_BLOCK_arpa_writer = 1 << 16  # n-grams that are text at a time
_REPLACED = {BOS: "a beginning of sentences", "<UNK>": "<unk>"}  # what a reader would take these words for


def write_arpa(table: NGramTable, path: StrPath) -> None:
    """Write or replace the file, atomically; gzip if its name ends in .gz. The bytes depend on the table alone."""
    table = written_out(table)
    _check_words(table)
    try:
        with replacing(Path(path)) as file:
            packed = gzip.GzipFile("", "wb", 4, file, mtime=0) if fspath(path).endswith(".gz") else None
            for lines in _lines(table):
                (packed or file).write(f"{lines}\n".encode())
            if packed is not None:
                packed.close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BackgroundError(f"{fspath(path)}: the ARPA file cannot be written: {reason or error}") from error


def _check_words(table: NGramTable) -> None:
    if EOS not in table.index:
        raise BackgroundError(f"an ARPA file needs the end of sentences among its words, but the table has no {EOS}")
    for word in table.words:
        as_read = [part.decode() for part in word.encode(errors="replace").split()]
        if as_read != [word]:
            raise BackgroundError(f"an ARPA file needs words of UTF-8 without spaces, found {word!r}; rename it")
        if word in _REPLACED:
            raise BackgroundError(f"the word {word!r} would be read as {_REPLACED[word]}; rename it before writing")


def _lines(table: NGramTable) -> Iterator[str]:
    """Lines, or some thousand of them together."""
    yield "\\data\\"
    for n, level in enumerate(table.levels, 1):
        yield f"ngram {n}={len(level) + (n == 1)}"  # one more: EOS stands for two unigrams
    for n, level in enumerate(table.levels, 1):
        yield f"\n\\{n}-grams:"
        for start in range(0, len(level), _BLOCK_arpa_writer):
            rows = slice(start, min(start + _BLOCK_arpa_writer, len(level)))
            lines = _section_arpa_writer(level, rows, _texts(table, n, rows), _weighted_arpa_writer(table, n, rows))
            yield "\n".join(lines if n > 1 else _with_bos(lines, table, rows))
    yield "\n\\end\\"


def _texts(table: NGramTable, n: int, rows: slice) -> list[str]:
    """The words of n-grams: the last one here, those before it along the contexts."""
    level = table.levels[n - 1]
    columns, context = [[table.words[word] for word in level.word[rows].tolist()]], level.context[rows]
    for below in table.levels[n - 2 :: -1] if n > 1 else ():
        columns.append([table.words[word] for word in below.word[context].tolist()])
        context = below.context[context]
    if n > 1:
        columns[-1] = [BOS if word == EOS else word for word in columns[-1]]
    return [" ".join(words) for words in zip(*reversed(columns), strict=True)]


def _weighted_arpa_writer(table: NGramTable, n: int, rows: slice) -> list[bool]:
    """Which n-grams are written with a back-off weight: those that something follows, or that have one."""
    weighted = np.zeros(rows.stop - rows.start, dtype=bool)
    if n < table.order:
        weighted = table.levels[n - 1].log_backoff[rows] != 0
        contexts = table.levels[n].context
        first, last = np.searchsorted(contexts, [rows.start, rows.stop])
        weighted[contexts[first:last] - rows.start] = True
    found: list[bool] = weighted.tolist()
    return found


def _section_arpa_writer(level: Level, rows: slice, texts: list[str], weighted: list[bool]) -> list[str]:
    figures = zip(_log10(level.log_prob[rows]), texts, _log10(level.log_backoff[rows]), weighted, strict=True)
    return [f"{p:.9g}\t{text}\t{weight:.9g}" if wanted else f"{p:.9g}\t{text}" for p, text, weight, wanted in figures]


def _log10(log: Floats) -> list[float]:
    """-99 for minus infinity; adding 0 turns -0 into 0."""
    found: list[float] = (np.maximum(log / np.log(10.0), _NOUGHT) + 0.0).tolist()
    return found


def _with_bos(unigrams: list[str], table: NGramTable, rows: slice) -> list[str]:
    """<s> before </s>, with its back-off weight."""
    at = table.eos - rows.start
    if not 0 <= at < len(unigrams):
        return unigrams
    p, _, *weight = unigrams[at].split("\t")
    both = ["\t".join((f"{_NOUGHT:g}", BOS, *weight)), f"{p}\t{EOS}"]
    return [*unigrams[:at], *both, *unigrams[at + 1 :]]
