"""Word vectors in files: text of fastText and word2vec, a TSV, our own archive, a spaCy wheel.

    vectors = WordVectors.read("cc.fr.300.vec.gz", only=vocabulary.words)
    vectors.rows_of(["chat", "zzz"])                    # rows of `vectors.table`; -1: no vector

| name ends in | what it is |
| --- | --- |
| `.vec`, `.txt`, also `.gz` | text: an optional line `words dimensions`, then `word number number ...` |
| `.tsv`, also `.gz` | the same with TABs |
| `.npz` | our own: `words`, `rows`, `table`; words may share a row |
| `.whl` | a package of spaCy with vectors: `vocab/vectors`, `vocab/key2row`; nothing of it is executed |
"""

from __future__ import annotations

import io
import lzma
import math
import os
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from os import fspath
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import FeatureError, LexiconError, quoted, shown_number
from llrnn.ground.files import StrPath, open_file, parse_json, read_at_most, replacing, write_lines
from llrnn.text.readers import Line, read_entries, require_file

__all__ = ["WordVectors"]

Table = npt.NDArray[np.float32]
_CHECKED = 100  # lines of a text that are read whether anybody asks for their words or not: is it a file of vectors?
_MOST_DIMENSIONS = 100_000  # of a vector that a file announces
_UNPACKED, _TIMES = 64_000_000, 20  # a part of an archive has at most so many bytes, or so many times those of the file
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# whatever a decoder of one of the formats stumbles over
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, LookupError, ValueError, TypeError, ArithmeticError,
    RuntimeError, MemoryError, SyntaxError, tokenize.TokenError, struct.error,
)  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class WordVectors:
    """Words with vectors: word i has the vector `table[rows[i]]`; several words may share one.

    words       the n words
    rows        (n,) the row of each word in the table
    table       (R, d) the vectors, float32 and finite; a LexiconError otherwise

        WordVectors.read("cc.fr.300.vec.gz", top=100_000)
    """

    words: tuple[str, ...]
    rows: Ints  # (n,)
    table: Table  # (R, d)

    def __post_init__(self) -> None:
        fault = next(self._faults(), None)
        if fault is not None:
            raise LexiconError(fault)

    def _faults(self) -> Iterator[str]:
        shape, rows = np.shape(self.table), self.rows
        if len(shape) != 2 or shape[1] == 0 or self.table.dtype.kind != "f":
            yield f"a matrix of numbers, a row for each word, is required, found {self.table.dtype} of shape {shape}"
        if rows.shape != (len(self.words),) or rows.dtype.kind not in "iu" or rows.min(initial=0) < 0:
            yield f"a row for each of {len(self.words):,} words is required, found {rows.dtype} of shape {rows.shape}"
        if rows.max(initial=-1) >= shape[0]:
            yield f"{rows.max() + 1:,} rows are required, found {shape[0]:,}"
        if not np.isfinite([self.table.min(initial=0.0), self.table.max(initial=0.0)]).all():
            row = int(np.flatnonzero(~np.isfinite(self.table).all(axis=1))[0])
            word = next((word for word, own in zip(self.words, rows, strict=True) if own == row), f"row {row:,}")
            yield f"vectors must be finite numbers (of float32), found NaN or infinity for {quoted(word)}"

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Sequence[float]]) -> WordVectors:
        """Return vectors from a mapping word -> numbers; a LexiconError unless all words have equally many.

        For example:

            WordVectors.from_mapping({"chat": [1.0, 0.0], "chien": [0.9, 0.1]})
        """
        try:
            table = np.array(list(mapping.values()), dtype=np.float32)
        except (ValueError, TypeError) as cause:
            raise LexiconError(f"vectors must be numbers, as many for every word: {cause}") from None
        return cls(tuple(mapping), np.arange(len(mapping)), table)

    @classmethod
    def read(cls, path: StrPath, *, only: Collection[str] | None = None, top: int | None = None) -> WordVectors:
        """Return the word vectors in a file; a repeated word keeps its first vector. Faults are a LexiconError.

        path        the file: text `word number number …` (`.vec` and `.txt` with blanks, perhaps after a first line
                    `words dimensions`, `.tsv` with TABs; also `.gz`), what `save` wrote (`.npz`), or a spaCy wheel
                    (`.whl`)
        only        read these words only; None: all
        top         read the first `top` words of the file only, which are usually the most frequent; None: all

        For a matrix in memory: `WordVectors(words, np.arange(len(words)), matrix)`.

            WordVectors.read("cc.fr.300.vec.gz", top=100_000)
        """
        kind = next((end for end in _READERS if fspath(path).removesuffix(".gz").endswith(end)), None)
        if kind is None:
            require_file(path, error=LexiconError)
            _fail(path, f"a file of vectors is required, that ends in {', '.join(_READERS)}; rename or convert it")
        try:
            return _READERS[kind](path, _Wanted(None if only is None else frozenset(only), top))
        except LexiconError as fault:
            raise fault if fault.path else LexiconError(fault.reason, path=path) from None
        except OSError as cause:
            _fail(path, f"the file cannot be read: {cause.strerror or cause}; check the path")
        except _DAMAGED as cause:
            _fail(path, f"not a whole file of this kind: {str(cause) or type(cause).__name__}; fetch or write it anew")

    @property
    def dimensions(self) -> int:
        """The length d of the vectors."""
        return int(self.table.shape[1])

    @cached_property
    def _row(self) -> dict[str, int]:
        return dict(zip(reversed(self.words), self.rows[::-1].tolist(), strict=True))  # the first of a word counts

    def rows_of(self, words: Iterable[str], *, any_case: bool = False) -> Ints:
        """Return the row of each word in `table`, (n,) integers; -1 for words without a vector.

        any_case    True: look a missing word up in lower case, capitalised, in title case and in upper case too, in
                    this order

            vectors.table[vectors.rows_of(["chat", "chien"])]
        """
        row = self._row
        if not any_case:
            return np.fromiter((row.get(word, -1) for word in words), dtype=np.int64)
        found = (next((row[form] for form in cases(word) if form in row), -1) for word in words)
        return np.fromiter(found, dtype=np.int64)

    def restricted(self, words: Iterable[str], *, any_case: bool = False) -> WordVectors:
        """Return the vectors of those of these words that have one, in a table of only the rows in use.

        Its words are in the given order, each once.

        any_case    True: look a missing word up in other cases too, as `rows_of` does

            WordVectors.read("cc.fr.300.vec").restricted(vocabulary.words).save("mine.npz")
        """
        asked = list(dict.fromkeys(words))
        rows = self.rows_of(asked, any_case=any_case)
        used, kept = np.unique(rows[rows >= 0], return_inverse=True)
        there = tuple(word for word, row in zip(asked, rows.tolist(), strict=True) if row >= 0)
        return WordVectors(there, kept.astype(np.int64), self.table[used])

    def save(self, path: StrPath) -> None:
        """Write a file that `read` reads: `.npz` (shared vectors once), `.vec` or `.tsv` (text, also `.gz`).

        The ending of the name decides; all are exact. A LexiconError for any other name, or if it cannot be written.
        """
        name = fspath(path)
        if name.endswith(".npz"):
            content, text = io.BytesIO(), np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
            np.savez_compressed(content, words=text, rows=self.rows.astype(np.int32), table=self.table)
            try:
                with replacing(Path(path)) as file:
                    file.write(content.getvalue())
            except OSError as cause:
                _fail(path, f"the file cannot be written: {cause.strerror or cause}")
        elif name.removesuffix(".gz").endswith((".vec", ".tsv")):
            separator = "\t" if ".tsv" in name[-7:] else " "
            vectors = (self.table[row].astype(float).tolist() for row in self.rows)
            pairs = zip(self.words, vectors, strict=True)
            lines = (separator.join([word, *map(repr, vector)]) for word, vector in pairs)
            write_lines(path, lines if separator == "\t" else [f"{len(self.words)} {self.dimensions}", *lines])
        else:
            _fail(path, "vectors are written as .npz, .vec or .tsv (also .gz); give such a name")

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"WordVectors({len(self.words):,} words, {self.dimensions} dimensions)"


@dataclass(frozen=True)
class _Wanted:
    """Which words of a file of vectors to read: those in `only`, among the first `top`; None: no such limit.

    `only`: a frozenset of words or None; `top`: a number of words of the file, from its beginning, or None. `word in
    wanted` considers `only` alone; `select` both.
    """

    only: frozenset[str] | None
    top: int | None

    def __contains__(self, word: str) -> bool:
        return self.only is None or word in self.only

    def select(self, words: Sequence[str], rows: Ints, table: Table) -> WordVectors:
        """Return the vectors of those of `words`, given in the order of the file, that are wanted.

        These are the ones among the first `top` that are in `only`.

        `rows`: the row of each word in `table`, (n,). The table of the result has only the rows in use.
        """
        found = WordVectors(tuple(words), rows, table)
        if self.only is None and self.top is None:
            return found
        return found.restricted(word for word in words[: self.top] if word in self)


def cases(word: str) -> dict[str, None]:
    """Return the distinct forms of a word: as given, lower case, capitalised, title case, upper case.

    They are the keys of a dictionary, in this order.
    """
    return dict.fromkeys((word, word.lower(), word.capitalize(), word.title(), word.upper()))


def _fail(path: StrPath, reason: str) -> NoReturn:
    raise LexiconError(reason, path=path)


def _collected(found: Iterable[tuple[str, Table]], path: StrPath, dimensions: int) -> WordVectors:
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        _fail(path, f"vectors have 1 to {_MOST_DIMENSIONS:,} dimensions, found {shown_number(dimensions)}")
    kept: dict[str, Table] = {}
    for word, vector in found:
        kept.setdefault(word, vector)
    table = np.stack([*kept.values()]) if kept else np.zeros((0, dimensions), dtype=np.float32)
    return WordVectors(tuple(kept), np.arange(len(kept)), table)


def _read_text(path: StrPath, wanted: _Wanted) -> WordVectors:
    separator = "\t" if fspath(path).removesuffix(".gz").endswith(".tsv") else " "
    lines = read_entries(path, error=LexiconError)
    first = next(lines, None)
    if first is None:
        _fail(path, "no line in the file has a vector")
    header = re.fullmatch(r"[0-9]+ ([0-9]+) ?", first.text)
    dimensions = int(header[1]) if header else len(first.text.rstrip().split(separator)) - 1
    if dimensions < 1:
        first.fail("a word and its numbers are required, found one column; is this a file of vectors?")
    vectors = _of_lines(lines if header else chain([first], lines), separator, dimensions, wanted)
    return _collected(vectors, path, dimensions)


def _of_lines(lines: Iterator[Line], separator: str, dimensions: int, wanted: _Wanted) -> Iterator[tuple[str, Table]]:
    for number, line in enumerate(lines):
        if number == wanted.top:
            return
        if number < _CHECKED or line.text[: line.text.find(separator)] in wanted:
            word, *numbers = line.text.rstrip(" ").rsplit(separator, dimensions)
            if len(numbers) != dimensions or _ends_in_number(word, separator):
                found = len(line.text.rstrip(" ").split(separator)) - 1
                line.fail(f"a word and {dimensions} numbers are required, found {found} behind the first")
            vector = _numbers(line, numbers)
            if word in wanted:
                yield word, vector


def _ends_in_number(word: str, separator: str) -> bool:
    """Return whether a word, cut off before its vector, still ends in a number: then its line has too many numbers.

    `separator`: what stands between the numbers of a line, and must stand before that number; "12" alone is a word.
    """
    return re.search(re.escape(separator) + r"[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?$", word) is not None


def _numbers(line: Line, numbers: list[str]) -> Table:
    try:
        with np.errstate(over="ignore"):
            vector = np.array(numbers, dtype=np.float32)
    except ValueError as cause:
        line.fail(f"numbers are required behind the word: {cause}")
    if not np.isfinite(vector).all():
        wrong = numbers[int(np.flatnonzero(~np.isfinite(vector))[0])]
        line.fail(f"vectors must be finite numbers (of float32), found {quoted(wrong)}", wrong)
    return vector


def _as_float32(table: npt.NDArray[Any]) -> Table:
    with np.errstate(over="ignore"):  # infinity is refused
        return table.astype(np.float32)


def _array(file: BinaryIO, size: int) -> npt.NDArray[Any]:
    """Return the array in a .npy file of `size` bytes, of integers or floats.

    Its header is checked before memory is allocated; a ValueError if it does not fit the size.
    """
    shape, _, kind = _HEADERS[np.lib.format.read_magic(file)](file)
    if kind.kind not in "iuf":
        raise ValueError(f"a matrix of numbers is required, found {kind}")
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != size - file.tell():
        raise ValueError(f"numbers of the shape {shape} are announced, but {size - file.tell():,} bytes follow")
    file.seek(0)
    found: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return found


class _Archive(zipfile.ZipFile):
    """A zip file that refuses to unpack a member to more than 64 MB or, if that is more, 20 times the file's size.

    It must be opened from a file on disk.
    """

    def part(self, name: str) -> bytes:
        """Return the unpacked bytes of a member; a ValueError if there are too many."""
        assert self.fp is not None
        most = max(_UNPACKED, _TIMES * os.fstat(self.fp.fileno()).st_size)
        with self.open(name) as file:
            found = read_at_most(file, most + 1)  # type: ignore[arg-type]
        if len(found) > most:
            raise ValueError(
                f"{name} has more than {most:,} bytes when it is unpacked, which no vectors of this size do"
            )
        return found

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return a .npy member as an array; a ValueError if it is none."""
        content = self.part(name)
        return _array(io.BytesIO(content), len(content))


def _read_archive(path: StrPath, wanted: _Wanted) -> WordVectors:
    with open_file(path) as file, _Archive(file) as held:
        words, rows, table = (held.array(f"{name}.npy") for name in ("words", "rows", "table"))
    text = words.astype(np.uint8, casting="safe").tobytes().decode()
    return wanted.select(
        text.split("\n") if text else [], rows.astype(np.int64, casting="same_kind"), _as_float32(table)
    )


def _read_wheel(path: StrPath, wanted: _Wanted) -> WordVectors:
    with open_file(path) as file, _Archive(file) as wheel:
        held = {name.rsplit("vocab/", 1)[1]: name for name in wheel.namelist() if "/vocab/" in name}
        if not {"vectors", "key2row"} <= held.keys():
            _fail(path, "vocab/vectors and vocab/key2row are required, as in spaCy's packages with vectors (md, lg)")
        table, row = _as_float32(wheel.array(held["vectors"])), unpack_rows(wheel.part(held["key2row"]))
        words = parse_json(wheel.part(held["strings.json"])) if wanted.only is None else sorted(wanted.only)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        _fail(path, "a list of words is required in vocab/strings.json, found something else; fetch it anew")
    found = {word: row[key] for word in words if (key := murmur64(word.encode("utf-8", "surrogatepass"))) in row}
    kept = tuple(found)[: wanted.top]
    return WordVectors(kept, np.array([found[word] for word in kept], dtype=np.int64), table)


_WIDTHS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}  # of unsigned integers in msgpack


def unpack_rows(content: bytes) -> dict[int, int]:
    """Return the dictionary {hash of a form: row} from a msgpack map of unsigned integers, spaCy's file key2row.

    A ValueError, IndexError or KeyError if the bytes are no such map.
    """
    at = 0

    def number() -> int:
        nonlocal at
        first, at = content[at], at + 1
        if first < 0x80:
            return first
        width, at = _WIDTHS[first], at + _WIDTHS[first]
        return int.from_bytes(content[at - width : at], "big")

    sizes = {0xDE: 3, 0xDF: 5}  # map 16, map 32; else a short map
    at = sizes.get(content[0], 1)
    count = int.from_bytes(content[1:at], "big") if at > 1 else content[0] & 0x0F
    found = {number(): number() for _ in range(count)}
    if at != len(content):
        raise ValueError(f"a map of {count:,} numbers is required in key2row, found {len(content):,} bytes, not {at:,}")
    return found


_M, _MASK = 0xC6A4A7935BD1E995, (1 << 64) - 1


def murmur64(content: bytes, seed: int = 1) -> int:
    """Return the MurmurHash64A of some bytes as an unsigned integer; spaCy identifies forms by it, with seed 1."""
    value, whole = (seed ^ len(content) * _M) & _MASK, len(content) & ~7
    for (k,) in struct.iter_unpack("<Q", content[:whole]):
        k = k * _M & _MASK
        value = (value ^ (k ^ k >> 47) * _M & _MASK) * _M & _MASK
    if whole < len(content):
        value = (value ^ int.from_bytes(content[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 47) * _M & _MASK
    return value ^ value >> 47


_READERS: dict[str, Callable[[StrPath, _Wanted], WordVectors]] = {
    ".vec": _read_text,
    ".txt": _read_text,
    ".tsv": _read_text,
    ".npz": _read_archive,
    ".whl": _read_wheel,
}


def principal_components(table: Any, counts: Ints, components: int | None, place: str = "vectors") -> Floats:
    """Return the principal components of vectors, scaled to a root mean square norm of 1, (R, components), float64.

    table       (R, d) the vectors
    counts      (R,) weight of each row, in mean, covariance and norm: Σ_r c_r |y_r|² / Σ_r c_r = 1 of the result y
    components  how many, the largest variance first; None: as many as there can be, min(d, R − 1)
    place       what to call the vectors in errors

    Vectors are centred by their weighted mean. The sign of each direction makes its entry of largest absolute value
    positive. A FeatureError if too many components are asked for, or all vectors are equal.
    """
    dimensions, most = table.shape[1], min(table.shape[1], len(table) - 1)
    if components is not None and components > most:
        found = f"{dimensions} dimensions" if dimensions == most else f"{len(table):,} different vectors, so {most}"
        raise FeatureError(f"{place}: {components} components are asked for, found {found}; give components = {most}")
    share = counts / counts.sum()
    centred = table.astype(np.float64)
    centred -= share @ centred
    _, directions = np.linalg.eigh((centred * share[:, None]).T @ centred)
    directions = directions[:, ::-1][:, : most if components is None else components]
    directions *= np.sign(directions[np.abs(directions).argmax(0), np.arange(directions.shape[1])])
    found = centred @ directions
    size = math.sqrt(share @ (found**2).sum(1))
    if not size > 0:
        raise FeatureError(f"{place}: vectors that differ are required, found the same one for all words")
    return np.asarray(found / size)
