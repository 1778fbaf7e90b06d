"""Modified Kneser-Ney smoothing, interpolated (Chen and Goodman 1998), in memory or on disk.

    p(x | c) = max(0, a(c x) − D(a)) / Σ_y a(c y)  +  backoff(c) · p(x | suffix of c)

a is the count at the highest order; below, the number of words that were seen before the n-gram (its count, where it
begins a sentence: nothing can stand before). D is D₁, D₂ or D₃ for a = 1, 2, 3 or more, of each order its own:

    Y = t₁ / (t₁ + 2 t₂)        D_k = k − (k + 1) · Y · t_{k+1} / t_k            t_k: how many n-grams have a = k

backoff(c) is what the discounts, and the pruned n-grams, leave. The unigrams are interpolated with a uniform model over
all words, the unseen ones among them, so that every word has a probability.

Every stage goes through its arrays block by block, so that the text may be larger than memory; in memory all of it is
one block. Between the stages arrays are in `Scratch`. p of the shorter n-gram is looked up in the order below wherever
it is: fast as long as that order (8 bytes an n-gram) fits into what the system can spare for its page cache.

`GrowingArray` and `DiskArray`: in memory, or on disk in unnamed files that end with the process.

Files are only ever appended to, never written through a map: a full disk is then an error and not a
signal. Reading is by maps, whose pages the system takes back when memory is short.

`count_ngrams`: by sorting, without an object for each n-gram, one pass over the text for each order.

The text is one array of numbers, EOS before, between and after its sentences. With `d[t]` the distance of t from the
last EOS before it, an n-gram that ends at t lies in one sentence (begun by EOS) if and only if n - 1 <= d[t]. Its
key, whose rank among all is its place, so that n-grams come out sorted by context and word:

    key_n[t] = place_{n-1}[t - 1] · V + word[t]

The n-grams that end in a block of the text are sorted, each once: a run of (key, count, suffix). Runs are merged by
windows: up to the smallest of their last keys nothing is missing, because a key stands once in a run; so much is
sorted together and written. There is no loop over n-grams in Python.

`read_stream`: text as an array of word numbers, EOS, sentence, EOS, sentence, ..., EOS.

One sentence a line, words separated by white space (or CoNLL-U, by the name of the file; a space within a word
becomes a low line); blank lines are layout, as in `text.corpus`. No object is kept for a word or a sentence.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from os import fspath
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Bools, Floats, Ints
from llrnn.ground.errors import BackgroundError, CorpusError
from llrnn.ground.files import StrPath
from llrnn.languages.ngrams.table import UNKNOWN, Level, NGramTable
from llrnn.text.corpus import Corpus
from llrnn.text.readers import read_lines
from llrnn.text.vocabulary import EOS


class Scratch:
    """A factory of growing arrays for the estimation of n-gram models, in temporary files or in memory.

    folder      an existing folder for the temporary files, which vanish with their arrays; None: in memory

    `used` and `most` are the bytes of temporary files now and at most so far.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.used = self.most = 0

    def array(self, dtype: type[np.generic]) -> GrowingArray:
        """Return a new empty one-dimensional array of this dtype that grows at its end.

        It is in memory if `self.folder` is None, else in a temporary file; a BackgroundError if none can be created.
        """
        if self.folder is None:
            return GrowingArray(np.dtype(dtype))
        try:
            file = cast(BinaryIO, tempfile.TemporaryFile(dir=self.folder, prefix=".llrnn-ngram-"))  # noqa: SIM115
        except OSError as error:
            raise self.refused(error) from error
        return DiskArray(self, file, np.dtype(dtype))

    def zeros(self, count: int) -> Floats:
        """Return `count` zeros, float64, which must not be written to; with a folder they take no memory."""
        return np.zeros(count) if self.folder is None else np.broadcast_to(0.0, (count,))

    def refused(self, error: OSError) -> BackgroundError:
        """Return, not raise, the BackgroundError for a failed write to the folder, with the cause and what to do."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        state = (
            f"the disk is full ({self.used / 1e6:,.0f} MB of temporary files were written)" if full else error.strerror
        )
        return BackgroundError(f"{self.folder}: {state}; free some room, or name another folder: --temporary")


class GrowingArray:
    """A one-dimensional array of one dtype, in memory, that grows at its end.

    `Scratch.array(dtype)` makes one; `append(piece)` adds numbers, `view()` returns all so far, `drop()` frees them.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self._array = dtype, np.zeros(0, dtype=dtype)

    def __len__(self) -> int:
        return len(self._array)

    def append(self, piece: NDArray[Any]) -> None:
        """Append a one-dimensional array, converted to the dtype of this one."""
        own = piece.astype(self.dtype, copy=False)
        self._array = np.concatenate([self._array, own]) if len(self._array) else own

    def view(self) -> NDArray[Any]:
        """Return the whole array so far, without a copy; do not write to it."""
        return self._array

    def drop(self) -> None:
        """Empty the array and free its memory, or its file; views of a file must not be used any more."""
        self._array = np.zeros(0, dtype=self.dtype)


class DiskArray(GrowingArray):
    """A one-dimensional array in a temporary file that grows at its end; views of it are memory-mapped.

    scratch     the factory that made it, which counts its bytes
    file        the open temporary file; closed with the array
    """

    def __init__(self, scratch: Scratch, file: BinaryIO, dtype: np.dtype[Any]) -> None:
        self.dtype, self._scratch, self._file, self._length = dtype, scratch, file, 0

    def __del__(self) -> None:
        self._file.close()  # views stay, and with them what is on disk

    def __len__(self) -> int:
        return self._length

    def append(self, piece: NDArray[Any]) -> None:
        left = memoryview(np.ascontiguousarray(piece, dtype=self.dtype).data).cast("B")
        at = self._length * self.dtype.itemsize
        try:
            while left:
                written = os.pwrite(self._file.fileno(), left, at)
                left, at = left[written:], at + written
        except OSError as error:
            raise self._scratch.refused(error) from error
        self._length += len(piece)
        self._scratch.used += len(piece) * self.dtype.itemsize
        self._scratch.most = max(self._scratch.most, self._scratch.used)

    def view(self) -> NDArray[Any]:
        if not self._length:
            return np.zeros(0, dtype=self.dtype)
        return np.memmap(self._file, dtype=self.dtype, mode="r", shape=(self._length,))

    def drop(self) -> None:
        self._file.close()
        self._scratch.used -= self._length * self.dtype.itemsize


_FALLBACK = (0.5, 1.0, 1.5)  # discounts, where there is too little text to estimate them
_BYTES_A_WORD = 96  # that sorting a block or merging windows has in memory for each of their entries
_LEAST = 1024  # entries of a block


def estimate(stream: Ints, words: Sequence[str], *, order: int = 5, min_counts: Sequence[int] = ()) -> NGramTable:
    """Estimate an interpolated modified Kneser-Ney n-gram model from a text in memory.

    Return the model; its `notes` say where the text was too short for the order, or for estimating discounts.

    stream      (T,) word numbers: EOS, sentence, EOS, ..., EOS
    words       the words by number, EOS among them
    order       length of the longest n-gram, 1 or more
    min_counts  at [n - 1]: n-grams of order n that occur less often are pruned (the last entry holds for all higher
                orders; unigrams are never pruned); empty: none are

        table = estimate(*read_stream(["text.txt"]), order=3)
    """
    memory = _BYTES_A_WORD * max(len(stream), len(words))
    return estimate_on_disk([stream], words, scratch=Scratch(), memory=memory, order=order, min_counts=min_counts)


def estimate_on_disk(
    text: Iterable[Ints],
    words: Sequence[str],
    *,
    scratch: Scratch,
    memory: int,
    order: int = 5,
    min_counts: Sequence[int] = (),
) -> NGramTable:
    """Estimate a modified Kneser-Ney n-gram model from a text larger than memory; the result equals that of `estimate`.

    text        the text in pieces, as from `stream_pieces`; joined they are EOS, sentence, EOS, ..., EOS as word
                numbers
    words       the words by number, EOS among them; a list may grow while the text is read
    scratch     where temporary files go: `Scratch(Path("/tmp"))`
    memory      approximate size of the working arrays in bytes
    order       length of the longest n-gram, 1 or more
    min_counts  at [n - 1]: n-grams of order n that occur less often are pruned (the last entry holds for all higher
                orders; unigrams are never pruned); empty: none are

        words = []
        table = estimate_on_disk(stream_pieces(["text.txt"], words), words, scratch=Scratch(Path("/tmp")), memory=2**30)
    """
    if order < 1:
        raise BackgroundError(f"the order of an n-gram model must be 1 or more, found {order}")
    stream, size = scratch.array(np.int32), max(memory // _BYTES_A_WORD, _LEAST)
    for piece in text:  # only when all of it was read is it known how many words there are
        stream.append(piece)
    counted = count_ngrams(stream, list(words).index(EOS), len(words), order, scratch, size)
    counted = [grams for grams in counted if len(grams)]
    notes = [] if len(counted) == order else [f"no sentence has {order} words: the order is {len(counted)}"]
    limits = _thresholds(min_counts, len(counted))
    kept = _kept(counted, limits, size) if max(limits) > 1 else None
    levels: list[Level] = []
    for n, grams in enumerate(counted):
        adjusted = _adjusted(counted, n, scratch, size)
        discounts, note = _discounts(adjusted, size, n + 1)
        notes += [note] if note else []
        own = np.broadcast_to(True, (len(grams),)) if kept is None else kept[n]
        log_prob, log_backoff = _level(grams, adjusted, discounts, own, levels, scratch, size)
        if levels:
            levels[-1] = replace(levels[-1], log_backoff=log_backoff)
        levels.append(Level(grams.context, grams.word, log_prob, scratch.zeros(len(grams))))
    table = levels if kept is None else _pruned(levels, kept, scratch, size)
    return NGramTable(tuple(words), tuple(table), tuple(notes))


def _pieces(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


@dataclass(frozen=True, eq=False)
class Counted:
    """The m distinct n-grams of one order with their counts, as arrays (m,) sorted by context and word.

    context     index, in the order below, of the first n-1 words; 0 for unigrams
    word        number of the last word
    count       how often the n-gram occurs
    suffix      index, in the order below, of the last n-1 words; for unigrams the word's own number
    starts      whether the first word is EOS, the beginning of a sentence
    """

    context: Ints
    word: Ints
    count: Ints
    suffix: Ints  # the place of the last n-1 words in the order below
    starts: Bools  # whether the first word is the beginning of a sentence

    def __len__(self) -> int:
        return len(self.word)


@dataclass
class _Runs:
    """Sorted runs of the n-grams of one order, one run for each block of the text (external merge sort).

    The first three are growing arrays of one length, all runs in turn; run i is at bounds[i] to bounds[i + 1] - 1.

    key         key of each n-gram: index of its context · number of words + last word
    count       how often it occurs in its block
    suffix      index of its last n-1 words in the order below
    inverse     for each text position, the index within its run of the n-gram that ends there; -1: none ends there.
                The array is None for the highest order
    bounds      list of where each run begins, and of the end of the last; [0] before the first
    """

    key: GrowingArray
    count: GrowingArray
    suffix: GrowingArray
    inverse: GrowingArray | None  # -1 where none ends; not for the highest order, which is no context
    bounds: list[int] = field(default_factory=lambda: [0])


def count_ngrams(
    stream: GrowingArray, eos: int, n_words: int, order: int, scratch: Scratch, size: int
) -> list[Counted]:
    """Count the n-grams of orders 1 to `order` in a text, and return one `Counted` for each order.

    stream      the text as word numbers: EOS, sentence, EOS, ..., EOS, else a BackgroundError; its memory is freed
    eos         the number of EOS
    n_words     number of different words
    scratch     where temporary arrays are kept
    size        number of text positions that are sorted together; the result does not depend on it

    N-grams do not cross sentences; a sentence begins with EOS as context. Unigrams are one for each word by number,
    seen or not; the first EOS of the text is not counted among them.
    """
    words = stream.view()
    if len(words) < 2 or words[0] != eos or words[-1] != eos:
        raise BackgroundError("the text to count must begin and end with the end of a sentence")
    unigrams, seen = np.arange(n_words), np.zeros(n_words, dtype=np.int64)
    for start in range(1, len(words), size):  # the first EOS is predicted by nothing
        seen += np.bincount(words[start : start + size], minlength=n_words)
    found = [Counted(np.zeros(n_words, dtype=np.int64), unigrams, seen, unigrams, unigrams == eos)]
    places = stream
    for n in range(2, order + 1):
        key, count, suffix = (scratch.array(np.int64) for _ in range(3))
        runs = _Runs(key, count, suffix, scratch.array(np.int32) if n < order else None)
        last_eos = 0  # the last before the block; the text begins with one
        for start in range(0, len(words), size):
            last_eos = _add_run(runs, words[start : start + size], places.view(), start, n, last_eos, eos, n_words)
        keys = scratch.array(np.int64)
        found.append(_merged(runs, keys, found[-1], n_words, scratch, size))
        if places is not stream:
            places.drop()
        if runs.inverse is not None:
            places = _places(runs, runs.inverse.view(), keys.view(), scratch, size)
        for array in (keys, runs.key, runs.count, runs.suffix, *([runs.inverse] if runs.inverse else [])):
            array.drop()
    stream.drop()
    return found


def _add_run(
    runs: _Runs, words: NDArray[Any], places: NDArray[Any], start: int, n: int, last_eos: int, eos: int, n_words: int
) -> int:
    """Add the n-grams that end in one block of the text to `runs`; return the position of the last EOS so far.

    words       the word numbers of the block, which begins at position `start` of the text
    places      for every text position, the index of the (n-1)-gram that ends there, -1: none
    n           order of the n-grams
    last_eos    position of the last EOS before the block
    eos         the number of EOS
    n_words     number of different words
    """
    block = words.astype(np.int64)
    ends = np.flatnonzero(_distance(block, eos, start, last_eos) >= n - 1)
    before, here = places[max(start - 1, 0) : start + len(block)], int(start > 0)
    key = before[ends - 1 + here].astype(np.int64) * n_words + block[ends]
    by_key = np.argsort(key)
    first = _firsts(key[by_key])
    begin = np.flatnonzero(first)
    runs.key.append(key[by_key[begin]])
    runs.count.append(np.diff(begin, append=len(key)))
    runs.suffix.append(before[ends[by_key[begin]] + here])
    runs.bounds.append(len(runs.key))
    if runs.inverse is not None:
        which = np.full(len(block), -1, dtype=np.int32)
        which[ends[by_key]] = np.cumsum(first) - 1
        runs.inverse.append(which)
    return max(last_eos, start + int(np.flatnonzero(block == eos).max(initial=-start)))


def _firsts(keys: Ints) -> Bools:
    """Return where a key differs from the one before it, (n,), bool; True at index 0."""
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return first


def _distance(block: Ints, eos: int, start: int, last_eos: int) -> Ints:
    """Return how many positions back the previous EOS is, for each position of a block of the text, (block,).

    block       word numbers
    eos         the number of EOS
    start       position of the block in the text
    last_eos    position of the last EOS before the block

    0 at the first position of a text, which has none before it.
    """
    at = np.arange(start, start + len(block))
    last = np.concatenate([[last_eos], np.where(block == eos, at, last_eos)[:-1]])
    return at - np.maximum.accumulate(last)


def _merged(runs: _Runs, all_keys: GrowingArray, below: Counted, n_words: int, scratch: Scratch, size: int) -> Counted:
    """Merge the sorted runs into the distinct n-grams of one order, with their counts summed.

    all_keys    an empty array; the sorted keys, context · n_words + word, are appended to it
    below       the n-grams of the order below
    n_words     number of different words
    scratch     where the result's arrays are made
    size        number of entries that are merged together
    """
    context, word, count, suffix = (scratch.array(np.int64) for _ in range(4))
    starts = scratch.array(np.bool_)
    key, counted, suffixes = runs.key.view(), runs.count.view(), runs.suffix.view()
    at, ends = list(runs.bounds[:-1]), runs.bounds[1:]
    window = max(size // max(len(at), 1), 1)
    while any(place < end for place, end in zip(at, ends, strict=True)):
        taken = _taken(key, at, ends, window)
        rows = np.concatenate([np.arange(place, place + many) for place, many in zip(at, taken, strict=True)])
        keys = key[rows]
        by_key = np.argsort(keys, kind="stable") if len(at) > 1 else np.arange(len(keys))
        begin = np.flatnonzero(_firsts(keys[by_key]))
        unique = keys[by_key[begin]]
        contexts = unique // n_words
        all_keys.append(unique)
        context.append(contexts)
        word.append(unique - contexts * n_words)
        count.append(np.add.reduceat(counted[rows[by_key]], begin))
        suffix.append(suffixes[rows[by_key[begin]]])
        starts.append(below.starts[contexts])
        at = [place + many for place, many in zip(at, taken, strict=True)]
    return Counted(context.view(), word.view(), count.view(), suffix.view(), starts.view())


def _taken(key: NDArray[Any], at: list[int], ends: list[int], window: int) -> list[int]:
    """Return how many entries of each sorted run can be merged now, without a key that also comes later.

    The window of a run is its next `window` entries. Those entries of all windows can be merged whose key is at most
    the smallest last key of a window behind which its run goes on; all of them if no run goes on.

    key         the keys of all runs, one run after the other
    at, ends    where the rest of each run begins and ends in `key`
    window      how many entries of each run are looked at
    """
    stops = [min(place + window, end) for place, end in zip(at, ends, strict=True)]
    cut = [key[stop - 1] for stop, end in zip(stops, ends, strict=True) if stop < end]
    if not cut:
        return [stop - place for place, stop in zip(at, stops, strict=True)]
    return [int(np.searchsorted(key[place:stop], min(cut), "right")) for place, stop in zip(at, stops, strict=True)]


def _places(runs: _Runs, inverse: NDArray[Any], keys: NDArray[Any], scratch: Scratch, size: int) -> GrowingArray:
    """Return the index of the n-gram that ends at each position of the text, -1 where none does, as an int64 array.

    runs        the runs of n-grams, one for each block of `size` positions
    inverse     for each position, the index of the n-gram within its run, -1: none
    keys        the sorted keys of all n-grams of the order; the index is into them
    scratch     where the result is made
    """
    places, key = scratch.array(np.int64), runs.key.view()
    for start, (first, last) in zip(range(0, len(inverse), size), pairwise(runs.bounds), strict=True):
        own = np.append(np.searchsorted(keys, key[first:last]), -1)
        places.append(own[inverse[start : start + size]])  # the last one, -1, where there is none
    return places


def _thresholds(min_counts: Sequence[int], order: int) -> list[int]:
    """Return the least count of n-grams that are kept, at [n - 1] for order n = 1 … `order`; 0 for unigrams.

    min_counts  at [n - 1]: for order n; the last entry holds for all higher orders; empty: 0. A negative one is a
                BackgroundError.
    """
    if any(count < 0 for count in min_counts):
        raise BackgroundError(f"the least counts of n-grams must be 0 or more, found {list(min_counts)}")
    given = list(min_counts) or [0]
    return [0, *(given + [given[-1]] * order)[1:order]]


def _kept(counted: list[Counted], limits: list[int], size: int) -> list[Bools]:
    """Return which n-grams are kept, (n-grams,) bool for each order: frequent ones, contexts and suffixes of kept ones.

    counted     at [n - 1]: the n-grams of order n
    limits      at [n - 1]: n-grams of order n are frequent if they occur at least so often
    size        number of n-grams that are looked at together; the result does not depend on it
    """
    kept = [np.zeros(len(grams), dtype=bool) for grams in counted]
    for n in range(len(counted) - 1, -1, -1):
        grams = counted[n]
        for rows in _pieces(len(grams), size):
            kept[n][rows] |= grams.count[rows] >= limits[n]
            if n:
                kept[n - 1][grams.context[rows][kept[n][rows]]] = True
                kept[n - 1][grams.suffix[rows][kept[n][rows]]] = True
    return kept


def _adjusted(counted: list[Counted], n: int, scratch: Scratch, size: int) -> Ints:
    """Return the Kneser-Ney counts of order n + 1, (n-grams,): how many different words come before each n-gram.

    counted     at [n]: the n-grams of order n + 1
    scratch     where the result is made
    size        number of n-grams that are looked at together; the result does not depend on it

    At the highest order, and for n-grams of two words or more that begin a sentence, it is the count itself.
    """
    grams = counted[n]
    if n + 1 == len(counted):
        return grams.count
    found, suffix = scratch.array(np.int64), counted[n + 1].suffix
    for own in _pieces(len(grams), size):
        before = np.zeros(own.stop - own.start, dtype=np.int64)
        for rows in _pieces(len(suffix), size):
            here = suffix[rows] - own.start
            before += np.bincount(here[(here >= 0) & (here < len(before))], minlength=len(before))
        found.append(before if n == 0 else np.where(grams.starts[own], grams.count[own], before))
    return found.view()


def _discounts(adjusted: Ints, size: int, order: int) -> tuple[Floats, str]:
    """Return the Kneser-Ney discounts of an order, (4,), and a note if the text is too small to estimate them, else "".

    At [k] stands what is subtracted from a count of k, at [3] also from greater ones; 0 at [0]. With t_k the number of
    n-grams of count k, it is k − (k + 1) · t_1 / (t_1 + 2 t_2) · t_{k+1} / t_k; where that cannot be computed or is not
    above 0, there is a note, and the discounts are 0.5, 1 and 1.5.

    adjusted    (n-grams,) the Kneser-Ney counts of the order
    size        number of n-grams that are looked at together
    order       the order, for the note
    """
    t = np.zeros(6, dtype=np.int64)  # how many n-grams have the counts 0 to 4, and 5 or more
    for rows in _pieces(len(adjusted), size):
        t += np.bincount(np.minimum(adjusted[rows], 5), minlength=6)
    if (t[1:5] > 0).all():
        y = float(t[1] / (t[1] + 2 * t[2]))
        found = [k - (k + 1) * y * float(t[k + 1]) / float(t[k]) for k in (1, 2, 3)]
        if all(0 < discount <= k for k, discount in zip((1, 2, 3), found, strict=True)):
            return np.array([0.0, *found]), ""
    note = (
        f"too little text for the Kneser-Ney discounts of order {order} "
        f"({', '.join(f'{int(t[k])} n-grams with count {k}' for k in (1, 2, 3, 4))}): took {_FALLBACK}"
    )
    return np.array([0.0, *_FALLBACK]), note


def _level(
    grams: Counted, adjusted: Ints, discounts: Floats, kept: Bools, below: list[Level], scratch: Scratch, size: int
) -> tuple[Floats, Floats]:
    """Return log p of all n-grams of an order, (n-grams,), and log back-off weights, (n-grams of the order below,).

    The formulas are those of `_smoothed`; for unigrams the shorter distribution is uniform, and there is one weight.

    grams       the n-grams of the order
    adjusted    (n-grams,) Kneser-Ney counts
    discounts   at 1, 2 and 3: what is subtracted from counts of 1, 2, and 3 or more
    kept        (n-grams,) False: the n-gram is pruned, and its probability goes to back-off
    below       the levels of lower orders that are ready; empty for unigrams
    scratch     where the results are made
    size        number of n-grams in a block, if possible
    """
    log_prob, log_backoff = scratch.array(np.float64), scratch.array(np.float64)
    contexts = len(below[-1]) if below else 1
    for rows, first, last in _whole_contexts(grams.context, contexts, size):
        if below:
            shorter = np.exp(below[-1].log_prob[grams.suffix[rows]])
        else:
            shorter = np.full(rows.stop - rows.start, 1.0 / len(grams))
        context = grams.context[rows] - first
        log_p, weights = _smoothed(context, last - first, adjusted[rows], discounts, kept[rows], shorter)
        log_prob.append(log_p)
        log_backoff.append(weights)
    return log_prob.view(), log_backoff.view()


def _whole_contexts(context: Ints, contexts: int, size: int) -> Iterator[tuple[slice, int, int]]:
    """Yield blocks of n-grams as (slice, first context, first context of the next block); no context is split.

    Together they cover all n-grams and, by index, all contexts, those without n-grams too.

    context     (n-grams,) sorted indices of the contexts
    contexts    number of contexts
    size        number of n-grams in a block, if possible
    """
    start, first = 0, 0
    while first < contexts:
        stop = min(start + size, len(context))
        if stop < len(context):
            cut = int(np.searchsorted(context, context[stop]))
            stop = cut if cut > start else int(np.searchsorted(context, context[stop], "right"))
        last = int(context[stop]) if stop < len(context) else contexts
        yield slice(start, stop), first, last
        start, first = stop, last


def _smoothed(
    context: Ints, contexts: int, adjusted: Ints, discounts: Floats, kept: Bools, shorter: Floats
) -> tuple[Floats, Floats]:
    """Return log p of some n-grams, (n,), and the log back-off weights of their contexts, (contexts,).

        p = (count − discount) / total + backoff · shorter        backoff = 1 − Σ (count − discount) / total

    `total` is the sum of the counts of the context; backoff is 1 where it is 0. A pruned n-gram has no first term.

    context     (n,) the index of the context of each, 0 to `contexts` - 1
    adjusted    (n,) Kneser-Ney counts
    discounts   at 1, 2 and 3: what is subtracted from counts of 1, 2, and 3 or more
    kept        (n,) False: the n-gram is pruned, and its mass goes to back-off
    shorter     (n,) p of each n-gram without its first word
    """
    discounted = np.where(kept, np.maximum(adjusted - discounts[np.minimum(adjusted, 3)], 0.0), 0.0)
    total = np.bincount(context, weights=adjusted, minlength=contexts)
    used = np.bincount(context, weights=discounted, minlength=contexts)
    # 1 where nothing was seen: all mass goes to the shorter context
    backoff = np.divide(total - used, total, out=np.ones(contexts), where=total > 0)
    mass = np.divide(discounted, total[context], out=np.zeros(len(context)), where=total[context] > 0)
    p = mass + backoff[context] * shorter
    with np.errstate(divide="ignore"):
        return np.log(p), np.log(backoff)


def _pruned(levels: list[Level], kept: list[Bools], scratch: Scratch, size: int) -> list[Level]:
    """Return the levels with only those n-grams that `kept` marks, with contexts renumbered; unigrams all stay.

    levels      the n-grams of each order
    kept        for each order, (n-grams,) bool
    scratch     where the results are made
    size        number of n-grams that are copied together
    """
    result = [levels[0]]
    place: Ints = np.arange(len(levels[0]))
    for level, own in zip(levels[1:], kept[1:], strict=True):
        columns = [scratch.array(kind) for kind in (np.int64, np.int64, np.float64, np.float64)]
        places = scratch.array(np.int64)
        for rows in _pieces(len(level), size):
            stay = own[rows]
            arrays = (place[level.context[rows]], level.word[rows], level.log_prob[rows], level.log_backoff[rows])
            places.append(np.cumsum(stay) - 1 + len(columns[0]))
            for column, array in zip(columns, arrays, strict=True):
                column.append(array[stay])
        result.append(Level(*(column.view() for column in columns)))
        place = places.view()
    return result


_RESERVED = frozenset({EOS, "<s>"})
_AT_ONCE = 1 << 16  # lines that are turned into numbers together


def read_stream(
    paths: Iterable[StrPath], *, lowercase: bool = False, vocabulary: Sequence[str] | None = None
) -> tuple[Ints, list[str]]:
    """Read text files as one array of word numbers, EOS, sentence, EOS, ..., EOS, for `estimate`.

    paths       text or CoNLL-U files, one sentence a line
    lowercase   whether words are lowercased
    vocabulary  the words to number; all others become `<unk>`. None: every word of the files

    Return the numbers, (T,), and the words by number: EOS, `<unk>`, then those of `vocabulary` in its order or, without
    it, those of the files by first appearance. Words are split at white space; `</s>` or `<s>` as a word is a
    CorpusError.

        stream, words = read_stream(["text.txt"], lowercase=True)
    """
    words: list[str] = []
    pieces = list(stream_pieces(paths, words, lowercase=lowercase, vocabulary=vocabulary))
    return np.concatenate(pieces), words


def stream_pieces(
    paths: Iterable[StrPath], words: list[str], *, lowercase: bool = False, vocabulary: Sequence[str] | None = None
) -> Iterator[Ints]:
    """Yield the word numbers of text files, EOS, sentence, EOS, ..., EOS, in arrays that fit in memory.

    paths       text or CoNLL-U files, one sentence a line
    words       an empty list; it is filled with the words by number once all pieces were read: EOS, `<unk>`, then those
                of `vocabulary` in its order or, without it, those of the files by first appearance
    lowercase   whether words are lowercased
    vocabulary  the words to number; all others become `<unk>`. None: every word of the files

    Words are split at white space; `</s>` or `<s>` as a word is a CorpusError.
    """
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
    """Return an iterator over (number, sentence as text) of a text or CoNLL-U file, words separated by blanks.

    The number, from 1, is that of the line or, of a CoNLL-U file (by its name `.conllu`, also `.gz`), of the sentence.
    """
    if fspath(path).removesuffix(".gz").endswith(".conllu"):
        sentences = enumerate(Corpus.from_file(path), 1)
        return ((number, " ".join("_".join(word.split()) for word in sentence.words)) for number, sentence in sentences)
    return read_lines(path)
