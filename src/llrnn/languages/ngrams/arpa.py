r"""n-gram models in ARPA files, plain or gzip, as KenLM and SRILM read and write them.

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
some thousand lines are Python objects at a time. A table has one word for both boundaries of a sentence. With EOS =
`</s>`,

    p(EOS | c) = p(</s> | c)        backoff(EOS) = backoff(<s>)        p(x | EOS ...) = p(x | <s> ...)

which loses nothing, because `<s>` is never predicted and nothing follows `</s>`. Files in which it is otherwise are
refused, as are n-grams whose first n-1 words are not listed, or are listed without a back-off weight. The last n-1
words need not be listed: see `table.completed`. Whether probabilities sum to 1 is not checked here.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, repeat
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.bundle import read_bundle, write_bundle
from llrnn.ground.errors import BackgroundError, CheckpointError, LLRNNError, PlacedError, quoted
from llrnn.ground.files import STANDARD, StrPath, replacing, write_standard
from llrnn.languages.ngrams.table import UNKNOWN, Level, NGramTable, Shared, places_of, written_out
from llrnn.text.readers import read_lines
from llrnn.text.vocabulary import EOS

BOS = "<s>"
_BLOCK = 10_000  # lines that are read together
_SLACK = 1e-6  # by which rounding may lift log10 p above 0
_LOG_10 = np.log(10.0)
_UNKNOWN, _OTHER_UNKNOWN = UNKNOWN.encode(), b"<UNK>"  # some tools write the latter
_COUNT = re.compile(r"ngram ([0-9]{1,3}) ?= ?([0-9]{1,18})")
_SNIFFED = 20  # lines of a file of which is not known what it is
_DATA, _END = "\\data\\", "\\end\\"

_Bools = NDArray[np.bool_]
_Index = dict[bytes, int]
_Row = list[bytes]  # the fields of a line


class ArpaError(PlacedError, BackgroundError):
    """Raised for a fault in an ARPA file; the message names the path and, where there is one, the line."""


@dataclass(frozen=True, eq=False)
class Section:
    """The n-grams of one order as they were read from an ARPA file: m n-grams in parallel arrays.

    line            (m,) the line of each in the file, for error messages
    words           (m, n) the numbers of their words, which are numbered from 0 in the order of the 1-grams
    log_prob        (m,) natural logarithm of p(last word | the words before)
    log_backoff     (m,) natural logarithm of the back-off weight; NaN where the file gives none
    """

    line: Ints  # (m,)
    words: Ints  # (m, n)
    log_prob: Floats  # (m,) natural
    log_backoff: Floats  # (m,) natural; NaN where none is given


def read_arpa(path: StrPath) -> NGramTable:
    """Read a back-off n-gram model from an ARPA file, plain or gzip; a fault is a BackgroundError that names its line.

    Words are numbered in the order of the 1-grams; `<s>` and `</s>` become one end-of-sentence symbol `</s>` with the
    probability of `</s>`, which must be listed, and the back-off weight of `<s>`; `<UNK>` becomes `<unk>`.

        table = read_arpa("corpus.arpa.gz")
    """
    file = _ArpaFile(path)
    header = file.header()
    file.place_unigrams(file.section(header, 1))
    for n in range(2, len(header) + 1):
        file.place(file.section(header, n))
    file.check_end()
    # 1 for every back-off weight that was not given: nothing follows there
    whole = [replace(level, log_backoff=np.nan_to_num(level.log_backoff, nan=0.0)) for level in file.levels]
    return NGramTable(tuple(name for name in file.names if name != BOS), tuple(whole))


def is_arpa(path: StrPath) -> bool:
    r"""Return whether a path is an ARPA file, by its name (`.arpa`, `.arpa.gz`) or by `\data\` among its first lines.

    A file of such a name is not opened; for any other name, False if the file cannot be read.

    >>> is_arpa("corpus.arpa.gz")
    True
    """
    if fspath(path).removesuffix(".gz").endswith(".arpa"):
        return True
    try:
        return any(line.strip() == _DATA for _, line in islice(read_lines(path), _SNIFFED))
    except PlacedError:
        return False


class _ArpaFile:
    """Reader of one ARPA file, section by section; every fault is an ArpaError that names its line.

    Call `header()`, then for n = 1, 2, … `section(header, n)`, whose result `place_unigrams` or `place` stores, then
    `check_end()`. After that `names` is a tuple of the words by number, and `levels[n - 1]` the `Level` of the n-grams
    of order n, with NaN for back-off weights that the file does not give.
    """

    def __init__(self, path: StrPath) -> None:
        self.path, self.marker, self.number = path, "", 0  # the last marker (`\data\`), and the number of the last line
        self._lines = read_lines(path, error=ArpaError)
        self._index: _Index = {}  # the words of the 1-grams, numbered as they come
        self.names: tuple[str, ...] = ()
        self.levels: list[Level] = []  # NaN stands for back-off weights that were not given
        self._line_of: Ints = np.zeros(0, dtype=np.int64)  # of each n-gram of the last level

    def fault(self, reason: str, line: int | None = None) -> NoReturn:
        raise ArpaError(reason, path=self.path, line=self.number if line is None else line)

    def refuse(self, wrong: _Bools, lines: Ints, reason: Callable[[int], str]) -> None:
        """Raise an ArpaError for the first True in `wrong`, (m,), at its line in the file; do nothing if there is none.

        lines       (m,) the line of each entry
        reason      called with the index of the first True; returns the message
        """
        if wrong.any():
            first = int(wrong.argmax())
            self.fault(reason(first), int(lines[first]))

    def blocks(self) -> Iterator[tuple[Ints, list[_Row]]]:
        r"""Yield (line numbers, fields of each line as bytes) of non-blank lines, in blocks, up to the next marker.

        A marker is a line that begins with a backslash, such as `\2-grams:`; after the last block it is in
        `self.marker`. The last block may be empty. A file that ends before a marker is an ArpaError.
        """
        numbers: list[int] = []
        rows: list[_Row] = []
        for number, line in self._lines:
            self.number = number
            row = line.encode().split()  # bytes, because text would be split at no-break spaces in words too
            if not row:
                continue
            if row[0].startswith(b"\\"):
                self.marker = line.strip()
                yield np.array(numbers, dtype=np.int64), rows
                return
            numbers.append(number)
            rows.append(row)
            if len(rows) == _BLOCK:
                yield np.array(numbers, dtype=np.int64), rows
                numbers, rows = [], []
        self.fault(rf"{_END} is required, but the file ends in the section {self.marker}; was it written to the end?")

    def header(self) -> list[tuple[int, int]]:
        """Read up to the first section; return a list of (line, number of n-grams), at [n - 1] for order n.

        The number is what the header promises for the order, the line where it does so. A missing or wrong header is an
        ArpaError.
        """
        for number, line in self._lines:
            self.number = number
            if line.strip() == _DATA:
                self.marker = _DATA
                break
        else:
            self.fault(rf"an ARPA file is required, but no line of this one is {_DATA}; was another file meant?")
        found: list[tuple[int, int]] = []
        for numbers, rows in self.blocks():
            for number, row in zip(numbers.tolist(), rows, strict=True):
                text, n = b" ".join(row).decode(), len(found) + 1
                count = _COUNT.fullmatch(text)
                if count is None or int(count[1]) != n:
                    self.fault(f"`ngram {n}=COUNT` is required in the header, found {text[:60]!r}; correct it", number)
                found.append((number, int(count[2])))
        if not found:
            self.fault(f"`ngram 1=COUNT` is required after {_DATA}, found {self.marker[:40]}; restore the header")
        return found

    def check_end(self) -> None:
        """Raise an ArpaError unless the last marker is `\\end\\` and nothing follows it; read to the end of the file.

        The end is where gzip keeps its checksum.
        """
        if self.marker != _END:
            self.fault(
                f"{_END} is required after the last order of the header, found {self.marker[:40]}; correct either"
            )
        for number, line in self._lines:
            if line.strip():
                self.fault(f"nothing may follow {_END}, found {line[:40]!r}; are these two files in one?", number)

    def section(self, header: list[tuple[int, int]], n: int) -> Section:
        if self.marker != f"\\{n}-grams:":
            self.fault(
                f"\\{n}-grams: is required here, found {self.marker[:40]}; sections stand in the order of the header"
            )
        highest = n == len(header)
        parts = [self._block(lines, rows, n, highest) for lines, rows in self.blocks()]
        whole = Section(*(np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])))
        line, promised = header[n - 1]
        if len(whole.line) != promised:
            found = f"the header says {promised} {n}-grams, but the section lists {len(whole.line)}"
            self.fault(f"{found}; restore the file if it was cut, else correct the number", line)
        return whole

    def _block(self, lines: Ints, rows: list[_Row], n: int, highest: bool) -> Section:
        """Return some lines of the section of order n as arrays; a line with wrong fields or numbers is an ArpaError.

        lines, rows     number and fields of each line: log10 p, n words and, below the highest order, perhaps a log10
                        back-off weight
        highest         whether n is the highest order, whose n-grams have no back-off weight
        """
        width = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        weighted: _Bools = width == n + 2
        wrong = (width != n + 1) & (highest | ~weighted)
        self.refuse(wrong, lines, lambda at: _wrong_width(rows[at], n, highest))
        log_prob = self._floats(lines, rows, 0, np.full(len(rows), True))
        self.refuse(
            ~(log_prob <= _SLACK),
            lines,
            lambda at: f"log10 p must be 0 or less, found {rows[at][0].decode()}; correct it",
        )
        backoff = self._floats(lines, rows, -1, weighted)
        self.refuse(
            weighted & ~np.isfinite(backoff),
            lines,
            lambda at: f"a back-off weight must be finite, found {rows[at][-1].decode()}; -99 is as good as no mass",
        )
        words = np.stack([self._words(lines, [row[k] for row in rows], n) for k in range(1, n + 1)], 1)
        return Section(lines, words, np.minimum(log_prob, 0.0) * _LOG_10, backoff * _LOG_10)

    def _floats(self, lines: Ints, rows: list[_Row], k: int, there: _Bools) -> Floats:
        """Return field k of each line as a number, (lines,), where `there` is True, NaN elsewhere.

        k counts from 0; -1 is the last field.

        lines, rows     number and fields of each line; a field that is no number is an ArpaError
        """
        found = np.full(len(rows), np.nan)
        for at in np.flatnonzero(there).tolist():
            try:
                found[at] = float(rows[at][k])
            except ValueError:
                self.fault(f"a number is required, found {rows[at][k].decode()!r}; correct it", int(lines[at]))
        return found

    def _words(self, lines: Ints, column: list[bytes], n: int) -> Ints:
        """Return the number of each word in `column`, the k-th words of some n-grams of order n, (lines,).

        Words of 1-grams (n = 1) are numbered as they come, `<UNK>` as `<unk>`; at higher orders a word that is not
        among the 1-grams is an ArpaError.

        lines       (lines,) the number of each line, for errors
        """
        index = self._index
        numbers: Iterable[int]
        if n == 1:  # new words get the next number; one that comes again has its old number
            numbers = (index.setdefault(_UNKNOWN if word == _OTHER_UNKNOWN else word, len(index)) for word in column)
        else:
            numbers = map(index.get, column, repeat(-1))
        found = np.fromiter(numbers, dtype=np.int64, count=len(column))
        self.refuse(found < 0, lines, lambda at: f"{column[at].decode()!r} is not among the 1-grams; list it there")
        return found

    def place_unigrams(self, section: Section) -> None:
        """Store the 1-grams in `levels`, and their words in `names`; `<s>` and `</s>` become one 1-gram.

        It has the probability of `</s>` and the back-off weight of `<s>`, 1 if there is no `<s>`. A model without
        `</s>`, and a repeated word, are an ArpaError.
        """
        names = self.names = tuple(word.decode() for word in self._index)
        if EOS not in names:
            reason = f"the 1-grams must list {EOS}, the end of sentences; estimate the model with sentence boundaries"
            raise ArpaError(reason, path=self.path, line=int(section.line[-1]) if len(section.line) else None)
        self._bos, self._eos = names.index(BOS) if BOS in names else len(names), names.index(EOS)
        self._number = np.cumsum(np.arange(len(names)) != self._bos) - 1
        self._number[self._bos : self._bos + 1] = self._number[self._eos]
        first = section.words[:, 0]
        # a word that was there already has a smaller number than its place
        self._refuse_repeated(section, first != np.arange(len(first)), first)
        log_backoff, line, given = section.log_backoff.copy(), section.line.copy(), BOS in names
        log_backoff[self._eos] = log_backoff[self._bos] if given else 0.0
        line[self._eos] = line[self._bos] if given else line[self._eos]
        kept = np.flatnonzero(np.arange(len(names)) != self._bos)
        places = np.arange(len(kept))
        self.levels.append(Level(np.zeros_like(places), places, section.log_prob[kept], log_backoff[kept]))
        self._line_of = line[kept]
        self._index |= {_OTHER_UNKNOWN: self._index.get(_UNKNOWN, -1)}

    def place(self, section: Section) -> None:
        """Link the n-grams of an order to their contexts in the order below, and store them, sorted, in `levels`.

        They are sorted by context and word. A context that is missing or without a back-off weight, and a repeated
        n-gram, are an ArpaError.
        """
        required = f"{BOS} may only begin an n-gram and {EOS} only end it"
        wrong = (section.words[:, 1:] == self._bos).any(1) | (section.words[:, :-1] == self._eos).any(1)
        self.refuse(wrong, section.line, lambda at: f"{required}, found {self._text(section.words[at])}; remove it")
        words, V, below = self._number[section.words], len(self.levels[0]), self.levels[-1]
        context = places_of(self.levels, words[:, :-1])
        self.refuse(
            context < 0,
            section.line,
            lambda at: (
                f"the n-gram {self._text(section.words[at])} needs its context {self._text(section.words[at, :-1])}, "
                f"which is not among the {len(self.levels)}-grams; list it there"
            ),
        )
        # a context without back-off weight is more often a damaged file than a weight of 1
        self.refuse(
            np.isnan(below.log_backoff)[context],
            self._line_of[context],
            lambda at: (
                f"the n-gram {self._text(section.words[at, :-1])} has continuations (line {section.line[at]}) but no "
                "back-off weight; write 0 if none is meant"
            ),
        )
        key = context * V + words[:, -1]
        order = np.argsort(key, kind="stable")
        again = np.flatnonzero(key[order][1:] == key[order][:-1]) + 1
        repeated, earlier = np.zeros(len(key), dtype=bool), np.zeros(len(key), dtype=np.int64)
        repeated[order[again]], earlier[order[again]] = True, order[again - 1]
        self._refuse_repeated(section, repeated, earlier)
        self.levels.append(Level(context[order], words[order, -1], section.log_prob[order], section.log_backoff[order]))
        self._line_of = section.line[order]

    def _refuse_repeated(self, section: Section, repeated: _Bools, earlier: Ints) -> None:
        self.refuse(
            repeated,
            section.line,
            lambda at: (
                f"the n-gram {self._text(section.words[at])} is listed twice, first in line "
                f"{section.line[earlier[at]]}; remove one of them"
            ),
        )

    def _text(self, words: Ints) -> str:
        return repr(" ".join(self.names[word] for word in words))


def _wrong_width(row: _Row, n: int, highest: bool) -> str:
    words = "1 word" if n == 1 else f"{n} words"
    weight = "no back-off weight at the highest order" if highest else "perhaps a back-off weight"
    found = f"{len(row)} fields, {b' '.join(row).decode()[:60]!r}"
    return f"log10 p and {words} are required, and {weight}, found {found}; is the order right, has a word spaces?"


# Writing: EOS is `<s>` where it begins an n-gram, and `</s>` elsewhere; of the two unigrams, `<s>` has the back-off
# weight and a probability of nought, written as 10^-99, like every other. Nine digits, so that float32 is exact.


_NOUGHT = -99.0
_WRITTEN = 1 << 16  # n-grams that are text at a time
_REPLACED = {BOS: "a beginning of sentences", "<UNK>": "<unk>"}  # what a reader would take these words for


def write_arpa(table: NGramTable, path: StrPath) -> None:
    """Write an n-gram model in ARPA format, atomically; equal models give equal bytes.

    A BackgroundError if the file cannot be written, or if words have spaces or are `<s>` or `<UNK>`.

    table       the model
    path        the file; gzip if the name ends in `.gz`, standard output if it is `-`

        write_arpa(table, "corpus.arpa.gz")
    """
    table = written_out(table)
    _check_words(table)
    if fspath(path) == STANDARD:
        for lines in _lines(table):
            write_standard(f"{lines}\n")
        return
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
        with_text_words = [part.decode() for part in word.encode(errors="replace").split()]
        if with_text_words != [word]:
            raise BackgroundError(f"an ARPA file needs words of UTF-8 without spaces, found {word!r}; rename it")
        if word in _REPLACED:
            raise BackgroundError(f"the word {word!r} would be read as {_REPLACED[word]}; rename it before writing")


def _lines(table: NGramTable) -> Iterator[str]:
    """Yield the text of the ARPA file of a model in pieces: a line, or some thousand lines joined by line breaks.

    The line break behind each piece is left to the caller. The model must have no shared words (`written_out`).
    """
    yield "\\data\\"
    for n, level in enumerate(table.levels, 1):
        yield f"ngram {n}={len(level) + (n == 1)}"  # one more: EOS stands for two unigrams
    for n, level in enumerate(table.levels, 1):
        yield f"\n\\{n}-grams:"
        for start in range(0, len(level), _WRITTEN):
            rows = slice(start, min(start + _WRITTEN, len(level)))
            weights = _log10(level.log_backoff[rows]), _has_weight(table, n, rows)
            figures = zip(_log10(level.log_prob[rows]), _texts(table, n, rows), *weights, strict=True)
            lines = [f"{p:.9g}\t{text}" + f"\t{weight:.9g}" * wanted for p, text, weight, wanted in figures]
            yield "\n".join(lines if n > 1 else _with_bos(lines, table, rows))
    yield "\n\\end\\"


def _texts(table: NGramTable, n: int, rows: slice) -> list[str]:
    """Return the words of each n-gram of order n in the slice `rows` of its level, joined by blanks.

    EOS at the beginning of an n-gram is written `<s>`.
    """
    level = table.levels[n - 1]
    columns, context = [[table.words[word] for word in level.word[rows].tolist()]], level.context[rows]
    for below in table.levels[n - 2 :: -1] if n > 1 else ():
        columns.append([table.words[word] for word in below.word[context].tolist()])
        context = below.context[context]
    if n > 1:
        columns[-1] = [BOS if word == EOS else word for word in columns[-1]]
    return [" ".join(words) for words in zip(*reversed(columns), strict=True)]


def _has_weight(table: NGramTable, n: int, rows: slice) -> list[bool]:
    """Return for each n-gram of order n in the slice `rows` of its level whether it is written with a back-off weight.

    These are the contexts of longer n-grams, and those whose weight is not 1; none at the highest order.
    """
    weighted = np.zeros(rows.stop - rows.start, dtype=bool)
    if n < table.order:
        weighted = table.levels[n - 1].log_backoff[rows] != 0
        contexts = table.levels[n].context
        first, last = np.searchsorted(contexts, [rows.start, rows.stop])
        weighted[contexts[first:last] - rows.start] = True
    found: list[bool] = weighted.tolist()
    return found


def _log10(log: Floats) -> list[float]:
    """Return natural logarithms as base-10 logarithms; what is below -99, minus infinity included, becomes -99.

    0.0 stands for -0.0.
    """
    found: list[float] = (np.maximum(log / _LOG_10, _NOUGHT) + 0.0).tolist()
    return found


def _with_bos(unigrams: list[str], table: NGramTable, rows: slice) -> list[str]:
    """Return the lines of some 1-grams with one more, that of `<s>`, before that of `</s>`, if it is among them.

    unigrams    the lines of the 1-grams in the slice `rows` of the table

    `<s>` has the back-off weight of EOS and log10 p = -99.
    """
    at = table.eos - rows.start
    if not 0 <= at < len(unigrams):
        return unigrams
    p, _, *weight = unigrams[at].split("\t")
    both = ["\t".join((f"{_NOUGHT:g}", BOS, *weight)), f"{p}\t{EOS}"]
    return [*unigrams[:at], *both, *unigrams[at + 1 :]]


# n-gram models on disk: ARPA files for other programs, a folder of arrays for us (opens at once, loses no digit).


_ARRAYS = ("context", "word", "log_prob", "log_backoff")
SHARING = "ngram with shared words"  # as older readers do not know it


def described(table: NGramTable) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return an n-gram model as JSON-compatible data, and numpy arrays by name, from which `table_from` makes it again.

    Nothing is lost, unlike in an ARPA file.
    """
    data = {"words": list(table.words), "order": table.order, "notes": list(table.notes)}
    levels, shared = enumerate(table.levels), table.shared
    arrays = {f"{name}.{n}": getattr(level, name) for n, level in levels for name in _ARRAYS}
    if shared is not None:
        data["shared"] = {"word": shared.word, "hidden": shared.hidden}
        arrays |= {f"shared.{name}": getattr(shared, name) for name in ("words", "log_share")}
    return data, arrays


def table_from(data: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NGramTable:
    """Make an n-gram model from the data and arrays that `described` returned.

    A CheckpointError if they are incomplete, or indices in them are out of range.
    """
    try:
        levels = [Level(*(arrays[f"{name}.{n}"] for name in _ARRAYS)) for n in range(int(data["order"]))]
        shared = None
        if "shared" in data:
            words, log_share = (arrays[f"shared.{name}"] for name in ("words", "log_share"))
            shared = Shared(int(data["shared"]["word"]), bool(data["shared"]["hidden"]), words, log_share)
        table = NGramTable(_strings(data, "words"), tuple(levels), _strings(data, "notes"), shared)
    except (LookupError, TypeError, ValueError, LLRNNError) as error:
        raise CheckpointError(f"the files of the n-gram model do not fit together ({error})") from error
    if not _is_sound(table):
        raise CheckpointError("the files of the n-gram model do not fit together; estimate it again")
    return table


def _strings(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = data[name]
    wrong = [one for one in found if not isinstance(one, str)] if isinstance(found, list) else [found]
    if wrong:
        raise CheckpointError(f"its {name} must be a list of strings, found {quoted(wrong[0])}")
    return tuple(found)


def _is_sound(table: NGramTable) -> bool:
    """Return whether all indices of a table are in range and its n-grams sorted by context and word, each once.

    Also the arrays of a level must be of one length. Look-ups require all this.
    """
    V, below = len(table.words), 1
    for level in table.levels:
        if len({len(getattr(level, name)) for name in _ARRAYS}) != 1:
            return False
        in_range = (level.context >= 0) & (level.context < below) & (level.word >= 0) & (level.word < V)
        if not (in_range.all() and (np.diff(level.keys(V)) > 0).all()):
            return False
        below = len(level)
    return table.shared is None or _is_sound_share(table.shared, V)


def _is_sound_share(shared: Shared, n_words: int) -> bool:
    words, last = shared.words, n_words - 1
    if not (words.ndim == 1 and words.shape == shared.log_share.shape and len(words) and 0 <= shared.word <= last):
        return False
    in_range = words[0] >= 0 and words[-1] <= last - shared.hidden and bool((np.diff(words) > 0).all())
    placed = shared.word not in words and (not shared.hidden or shared.word == last)
    return bool(in_range and placed and (shared.log_share < np.inf).all())


def write_table(table: NGramTable, path: str | PathLike[str]) -> None:
    """Write an n-gram model as an ARPA file if the name ends in `.arpa` or `.gz` or is `-`, else as a folder of arrays.

    `-` is standard output; `read_table` reads both forms.

    For example:

        write_table(table, "news-ngrams")
    """
    if Path(path).suffix in (".arpa", ".gz") or fspath(path) == STANDARD:
        write_arpa(table, path)
    else:
        write_bundle(path, "ngram", *described(written_out(table)))


def read_table(path: str | PathLike[str]) -> NGramTable:
    """Read an n-gram model from a folder that `write_table` wrote (a fault is a CheckpointError), or from an ARPA file.

    A path that is no folder is read as an ARPA file, of whatever name; a fault there is a BackgroundError.

    For example:

        table = read_table("model.arpa.gz")
    """
    if not Path(path).is_dir():
        return read_arpa(path)
    bundle = read_bundle(path, "ngram")
    try:
        return table_from(bundle.data, bundle.arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
