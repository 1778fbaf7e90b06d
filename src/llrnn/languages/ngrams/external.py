"""Counting n-grams in bounded memory: the sums of `counting`, with the sorting done on disk.

    text     blocks of M words; the n-grams that end in a block, sorted and each once: a run of (key, count, suffix)
    runs     merged, the same keys added up: the n-grams of the order, sorted
    places   the rank of each n-gram in the whole, back to where it ends in the text: the contexts of the next order

A round of the merge takes a window of every run. Up to the smallest of their last keys nothing is missing, because a
key stands once in a run; so much is sorted together and written. There is no loop over n-grams in Python. Keys, ranks
and counts are those of `count_ngrams`, number by number.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import fspath
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import BackgroundError, CorpusError
from llrnn.ground.files import StrPath
from llrnn.languages.ngrams.kneser_ney import (
    Counted,
    check_order,
    discounts_of,
    histogram,
    smoothed,
    thresholds,
    without_empty,
)
from llrnn.languages.ngrams.table import UNKNOWN, Floats, Ints, Level, NGramTable
from llrnn.text.corpus import Corpus
from llrnn.text.source import read_lines
from llrnn.text.vocabulary import EOS

# Arrays on disk that nobody else sees: files without a name, gone when the process is, whatever ends it.
#
# They are only ever appended to or overwritten by writing, never through a map: a full disk is then an error and not a
# signal. Reading is by maps, whose pages the system takes back when memory is short.


class Scratch:
    """A folder for temporary files, and how much of it was in use at most."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used = self.most = 0

    def column(self, kind: type[np.generic]) -> DiskArray:
        """A new empty array."""
        try:
            file = cast(BinaryIO, tempfile.TemporaryFile(dir=self.folder, prefix=".llrnn-ngram-"))  # noqa: SIM115
        except OSError as error:
            raise self.refused(error) from error
        return DiskArray(self, file, np.dtype(kind))

    def refused(self, error: OSError) -> BackgroundError:
        """What the system said, and what to do."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        state = (
            f"the disk is full ({self.used / 1e6:,.0f} MB of temporary files were written)" if full else error.strerror
        )
        return BackgroundError(f"{self.folder}: {state}; free some room, or name another folder: --temporary")


class DiskArray:
    """An array that grows at its end."""

    def __init__(self, scratch: Scratch, file: BinaryIO, kind: np.dtype[Any]) -> None:
        self._scratch, self._file, self.kind, self._length = scratch, file, kind, 0

    def __del__(self) -> None:
        self._file.close()  # views stay, and with them what is on disk

    def __len__(self) -> int:
        return self._length

    def append(self, piece: NDArray[Any]) -> None:
        self.put(self._length, piece)

    def put(self, place: int, piece: NDArray[Any]) -> None:
        """Write at a place, at the end or before it."""
        left = memoryview(np.ascontiguousarray(piece, dtype=self.kind).data).cast("B")
        at = place * self.kind.itemsize
        try:
            while left:
                written = os.pwrite(self._file.fileno(), left, at)
                left, at = left[written:], at + written
        except OSError as error:
            raise self._scratch.refused(error) from error
        grown = max(place + len(piece) - self._length, 0)
        self._length += grown
        self._scratch.used += grown * self.kind.itemsize
        self._scratch.most = max(self._scratch.most, self._scratch.used)

    def view(self) -> NDArray[Any]:
        """All of it, to read."""
        if not self._length:
            return np.zeros(0, dtype=self.kind)
        return np.memmap(self._file, dtype=self.kind, mode="r", shape=(self._length,))

    def drop(self) -> None:
        """Give the disk back; views end with it."""
        self._file.close()
        self._scratch.used -= self._length * self.kind.itemsize


_BYTES_A_WORD = 96  # that sorting a block or merging windows has in memory for each of their entries
_LEAST = 1024


def block_of(memory: int) -> int:
    """How many entries are worked on together in so many bytes."""
    return max(memory // _BYTES_A_WORD, _LEAST)


@dataclass
class _Runs:
    """The runs of one order, end to end, and which n-gram of its run ends at each place of the text."""

    key: DiskArray
    count: DiskArray
    suffix: DiskArray
    inverse: DiskArray | None  # -1 where none ends; not for the highest order, which is no context
    bounds: list[int]

    def drop(self) -> None:
        for column in (self.key, self.count, self.suffix, self.inverse):
            if column is not None:
                column.drop()


def count_on_disk(
    stream: DiskArray, eos: int, n_words: int, order: int, scratch: Scratch, memory: int
) -> list[Counted]:
    """Counts for the orders 1 to `order` of a text EOS, sentence, EOS, ..., EOS, which is dropped afterwards."""
    words = stream.view()
    if len(words) < 2 or words[0] != eos or words[-1] != eos:
        raise BackgroundError("the text to count must begin and end with the end of a sentence")
    unigrams, counts = np.arange(n_words), _unigram_counts(words, n_words, block_of(memory))
    found = [Counted(np.zeros(n_words, dtype=np.int64), unigrams, counts, unigrams, unigrams == eos)]
    places = stream
    for n in range(2, order + 1):
        runs = _sorted_runs(words, places.view(), eos, n_words, n, n < order, scratch, block_of(memory))
        grams, ranks = _merged(runs, found[-1], n_words, scratch, block_of(memory))
        found.append(grams)
        if places is not stream:
            places.drop()
        if ranks is not None and runs.inverse is not None:
            places = _places(runs, runs.inverse.view(), ranks.view(), scratch, block_of(memory))
            ranks.drop()
        runs.drop()
    stream.drop()
    return found


def _unigram_counts(words: NDArray[Any], n_words: int, size: int) -> Ints:
    counts = np.zeros(n_words, dtype=np.int64)
    for start in range(1, len(words), size):  # the first EOS is predicted by nothing
        counts += np.bincount(words[start : start + size], minlength=n_words)
    return counts


def _sorted_runs(
    words: NDArray[Any],
    places: NDArray[Any],
    eos: int,
    n_words: int,
    n: int,
    goes_on: bool,
    scratch: Scratch,
    size: int,
) -> _Runs:
    inverse = scratch.column(np.int32) if goes_on else None
    runs = _Runs(scratch.column(np.int64), scratch.column(np.int64), scratch.column(np.int64), inverse, [0])
    last_eos = 0  # the last before the block; the text begins with one
    for start in range(0, len(words), size):
        block = words[start : start + size].astype(np.int64)
        distance = _distance(block, eos, start, last_eos)
        last_eos = max(last_eos, start + int(np.flatnonzero(block == eos).max(initial=-start)))
        ends = np.flatnonzero(distance >= n - 1)
        before, here = places[max(start - 1, 0) : start + size], int(start > 0)
        key = before[ends - 1 + here].astype(np.int64) * n_words + block[ends]
        by_key = np.argsort(key)
        key = key[by_key]
        first = np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.zeros(0, dtype=bool)
        begin = np.flatnonzero(first)
        runs.key.append(key[begin])
        runs.count.append(np.diff(begin, append=len(key)))
        runs.suffix.append(before[ends[by_key[begin]] + here])
        runs.bounds.append(len(runs.key))
        if inverse is not None:
            which = np.full(len(block), -1, dtype=np.int32)
            which[ends[by_key]] = np.cumsum(first) - 1
            inverse.append(which)
    return runs


def _distance(block: Ints, eos: int, start: int, last_eos: int) -> Ints:
    """How far back the last EOS before each place of a block is; 0 for the first place of the text."""
    at = np.arange(start, start + len(block))
    last = np.concatenate([[last_eos], np.where(block == eos, at, last_eos)[:-1]])
    return at - np.maximum.accumulate(last)


def _merged(runs: _Runs, below: Counted, n_words: int, scratch: Scratch, size: int) -> tuple[Counted, DiskArray | None]:
    """The n-grams of all runs, and for each of a run its rank among all."""
    context, word, count, suffix = (scratch.column(np.int64) for _ in range(4))
    starts = scratch.column(np.bool_)
    ranks = None if runs.inverse is None else scratch.column(np.int64)
    key, counted, suffixes = runs.key.view(), runs.count.view(), runs.suffix.view()
    at, ends = list(runs.bounds[:-1]), runs.bounds[1:]
    window = max(size // max(len(at), 1), 1)
    while any(place < end for place, end in zip(at, ends, strict=True)):
        taken = _taken(key, at, ends, window)
        rows = np.concatenate([np.arange(place, place + many) for place, many in zip(at, taken, strict=True)])
        keys = key[rows]
        by_key = np.argsort(keys, kind="stable")
        keys = keys[by_key]
        first = np.concatenate([[True], keys[1:] != keys[:-1]])
        begin = np.flatnonzero(first)
        if ranks is not None:
            _put_ranks(ranks, at, taken, by_key, np.cumsum(first) - 1 + len(word))
        unique = keys[begin]
        contexts = unique // n_words
        context.append(contexts)
        word.append(unique - contexts * n_words)
        count.append(np.add.reduceat(counted[rows[by_key]], begin))
        suffix.append(suffixes[rows[by_key[begin]]])
        starts.append(below.starts[contexts])
        at = [place + many for place, many in zip(at, taken, strict=True)]
    return Counted(context.view(), word.view(), count.view(), suffix.view(), starts.view()), ranks


def _taken(key: NDArray[Any], at: list[int], ends: list[int], window: int) -> list[int]:
    """How much of each run is complete: up to the smallest of the last keys that were looked at."""
    stops = [min(place + window, end) for place, end in zip(at, ends, strict=True)]
    cut = [key[stop - 1] for stop, end in zip(stops, ends, strict=True) if stop < end]
    if not cut:
        return [stop - place for place, stop in zip(at, stops, strict=True)]
    return [int(np.searchsorted(key[place:stop], min(cut), "right")) for place, stop in zip(at, stops, strict=True)]


def _put_ranks(ranks: DiskArray, at: list[int], taken: list[int], by_key: Ints, rank: Ints) -> None:
    """The rows of each run lie side by side again, in its own order."""
    of_row = np.empty(len(by_key), dtype=np.int64)
    of_row[by_key] = rank
    done = 0
    for place, many in zip(at, taken, strict=True):
        ranks.put(place, of_row[done : done + many])
        done += many


def _places(runs: _Runs, inverse: NDArray[Any], ranks: NDArray[Any], scratch: Scratch, size: int) -> DiskArray:
    """The place of the n-gram that ends at each place of the text, -1 where none does."""
    places = scratch.column(np.int64)
    for number, start in enumerate(range(0, len(inverse), size)):
        which = inverse[start : start + size]
        own = np.append(ranks[runs.bounds[number] : runs.bounds[number + 1]], -1)
        places.append(own[which])  # the last one, -1, where there is none
    return places


# Kneser-Ney estimation of `kneser_ney` in bounded memory: every stage goes through its arrays block by block.
#
#     counting            `external`: sorted runs and a merge
#   adjusted counts   how often an n-gram is a suffix: as many counters as fit, one pass over the order above for each
#     discounts           a histogram
#     probabilities       blocks of whole contexts, so that every sum is added up in the order of the in-memory path
#     pruning             one byte in memory for each n-gram, where something is pruned at all
#
# Between the stages everything is in scratch files that are read by maps. p of the shorter n-gram is looked up in the
# order below wherever it is: fast as long as that order (8 bytes an n-gram) fits into what the system has to spare for
# its page cache, memory that it can take back. The table that comes out is such maps too.


Bools = NDArray[np.bool_]


def estimate_on_disk(
    text: Iterable[Ints],
    words: Sequence[str],
    *,
    scratch: Scratch,
    memory: int,
    order: int = 5,
    min_counts: Sequence[int] = (),
) -> NGramTable:
    """The same model as `estimate`, of a text that comes in pieces, with working arrays of about `memory` bytes.

    `words` may grow while the text is read; what it holds afterwards counts.
    """
    check_order(order)
    counted, notes = without_empty(_counted(text, words, order, scratch, memory), order)
    size = block_of(memory)
    limits = thresholds(min_counts, len(counted))
    kept = _kept(counted, limits, size) if max(limits) > 1 else None
    levels: list[Level] = []
    for n, grams in enumerate(counted):
        adjusted = _adjusted(counted, n, scratch, size)
        discounts, note = discounts_of(_summed(histogram(adjusted[rows]) for rows in _pieces(len(grams), size)), n + 1)
        notes += [note] if note else []
        own = None if kept is None else kept[n]
        log_prob, log_backoff = _level(grams, adjusted, discounts, own, levels, scratch, size)
        if levels:
            below = levels[-1]
            levels[-1] = Level(below.context, below.word, below.log_prob, log_backoff)
        levels.append(Level(grams.context, grams.word, log_prob, np.broadcast_to(0.0, (len(grams),))))
    table = tuple(levels) if kept is None else _pruned(levels, kept, scratch, size)
    return NGramTable(tuple(words), table, tuple(notes))


def _counted(text: Iterable[Ints], words: Sequence[str], order: int, scratch: Scratch, memory: int) -> list[Counted]:
    """Numbers are on disk before counting begins: only then is it known how many words there are."""
    stream = scratch.column(np.int32)
    for piece in text:
        stream.append(piece)
    return count_on_disk(stream, list(words).index(EOS), len(words), order, scratch, memory)


def _pieces(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _summed(histograms: Iterable[Ints]) -> Ints:
    total = np.zeros(6, dtype=np.int64)
    for one in histograms:
        total += one
    return total


def _adjusted(counted: list[Counted], n: int, scratch: Scratch, size: int) -> Ints:
    """Counts at the highest order; below, how many different words stand before."""
    grams = counted[n]
    if n + 1 == len(counted):
        return grams.count
    found, suffix = scratch.column(np.int64), counted[n + 1].suffix
    for own in _pieces(len(grams), size):
        before = np.zeros(own.stop - own.start, dtype=np.int64)
        for rows in _pieces(len(suffix), size):
            here = suffix[rows] - own.start
            before += np.bincount(here[(here >= 0) & (here < len(before))], minlength=len(before))
        found.append(before if n == 0 else np.where(grams.starts[own], grams.count[own], before))
    return found.view()


def _level(
    grams: Counted,
    adjusted: Ints,
    discounts: Floats,
    kept: Bools | None,
    below: list[Level],
    scratch: Scratch,
    size: int,
) -> tuple[Floats, Floats]:
    """log p of all n-grams of an order, and the log of the back-off weights of the order below."""
    log_prob, log_backoff = scratch.column(np.float64), scratch.column(np.float64)
    contexts = len(below[-1]) if below else 1
    for rows, first, last in _whole_contexts(grams.context, contexts, size):
        if below:
            shorter = np.exp(below[-1].log_prob[grams.suffix[rows]])
        else:
            shorter = np.full(rows.stop - rows.start, 1.0 / len(grams))
        own = np.ones(rows.stop - rows.start, dtype=bool) if kept is None else kept[rows]
        log_p, weights = smoothed(grams.context[rows] - first, last - first, adjusted[rows], discounts, own, shorter)
        log_prob.append(log_p)
        log_backoff.append(weights)
    return log_prob.view(), log_backoff.view()


def _whole_contexts(context: Ints, contexts: int, size: int) -> Iterator[tuple[slice, int, int]]:
    """Rows in blocks, with the first context of each and the first of the next; no context is cut in two."""
    start, first = 0, 0
    while first < contexts:
        stop = min(start + size, len(context))
        if stop < len(context):
            cut = int(np.searchsorted(context, context[stop]))
            stop = cut if cut > start else int(np.searchsorted(context, context[stop], "right"))
        last = int(context[stop]) if stop < len(context) else contexts
        yield slice(start, stop), first, last
        start, first = stop, last


def _kept(counted: list[Counted], limits: list[int], size: int) -> list[Bools]:
    """Which n-grams stay: those counted often enough, and the contexts and suffixes of those that stay."""
    kept = [np.zeros(len(grams), dtype=bool) for grams in counted]
    for n in range(len(counted) - 1, -1, -1):
        grams = counted[n]
        for rows in _pieces(len(grams), size):
            kept[n][rows] |= grams.count[rows] >= limits[n]
            if n:
                kept[n - 1][grams.context[rows][kept[n][rows]]] = True
                kept[n - 1][grams.suffix[rows][kept[n][rows]]] = True
    return kept


def _pruned(levels: list[Level], kept: list[Bools], scratch: Scratch, size: int) -> tuple[Level, ...]:
    """Drop what is not kept, and renumber the contexts."""
    result = [levels[0]]
    place: Ints = np.arange(len(levels[0]))
    for level, own in zip(levels[1:], kept[1:], strict=True):
        columns = [scratch.column(kind) for kind in (np.int64, np.int64, np.float64, np.float64)]
        places = scratch.column(np.int64)
        for rows in _pieces(len(level), size):
            stay = own[rows]
            arrays = (place[level.context[rows]], level.word[rows], level.log_prob[rows], level.log_backoff[rows])
            places.append(np.cumsum(stay) - 1 + len(columns[0]))
            for column, array in zip(columns, arrays, strict=True):
                column.append(array[stay])
        result.append(Level(*(column.view() for column in columns)))
        place = places.view()
    while len(result) > 1 and len(result[-1]) == 0:
        result.pop()
    return tuple(result)


# Text as the array of numbers that counting takes: EOS, sentence, EOS, sentence, ..., EOS.
#
# One sentence a line, words separated by white space (or CoNLL-U, by the name of the file; a space within a word
# becomes a low line); blank lines are layout, as in `corpus.text`. No object is kept for a word or a sentence.


_RESERVED = frozenset({EOS, "<s>"})
_AT_ONCE = 1 << 16  # lines that are turned into numbers together


def read_stream(
    paths: Iterable[StrPath], *, lowercase: bool = False, vocabulary: Sequence[str] | None = None
) -> tuple[Ints, list[str]]:
    """The text of some files and its words by number: EOS, `<unk>`, then by first appearance.

    With a vocabulary those are the words, and all others become `<unk>`.
    """
    words: list[str] = []
    pieces = list(stream_pieces(paths, words, lowercase=lowercase, vocabulary=vocabulary))
    return np.concatenate(pieces), words


def stream_pieces(
    paths: Iterable[StrPath], words: list[str], *, lowercase: bool = False, vocabulary: Sequence[str] | None = None
) -> Iterator[Ints]:
    """The same piece by piece; `words`, an empty list, holds the words when all pieces were read."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    for word in (EOS, UNKNOWN, *(vocabulary or ())):
        numbers[word]
    if vocabulary is not None:
        words += list(numbers)
        numbers.default_factory = lambda: 1  # then put there as <unk>
    yield np.zeros(1, dtype=np.int64)
    for lines in _blocks(paths, lowercase):
        found = [word for line in lines for word in (*line.split(), EOS)]
        yield np.fromiter(map(numbers.__getitem__, found), np.int64, len(found))
    if vocabulary is None:
        words += list(numbers)


def _blocks(paths: Iterable[StrPath], lowercase: bool) -> Iterator[list[str]]:
    for path in paths:
        block: list[str] = []
        for number, line in _lines(path):
            if not line or line.isspace():
                continue
            if ("<s>" in line or EOS in line) and not _RESERVED.isdisjoint(line.split()):
                raise CorpusError(
                    f"{EOS} and <s> mark sentences, which lines do already; remove them", path=path, line=number
                )
            block.append(line.lower() if lowercase else line)
            if len(block) == _AT_ONCE:
                yield block
                block = []
        yield block


def _lines(path: StrPath) -> Iterator[tuple[int, str]]:
    """Numbered sentences of a file."""
    if fspath(path).removesuffix(".gz").endswith(".conllu"):
        sentences = enumerate(Corpus.from_conllu(path), 1)
        return ((number, " ".join("_".join(word.split()) for word in sentence.words)) for number, sentence in sentences)
    return read_lines(path)
