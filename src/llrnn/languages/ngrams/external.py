"""Counting n-grams in bounded memory: the sums of `counting`, with the sorting done on disk.

    text     blocks of M words; the n-grams that end in a block, sorted and each once: a run of (key, count, suffix)
    runs     merged, the same keys added up: the n-grams of the order, sorted
    places   the rank of each n-gram in the whole, back to where it ends in the text: the contexts of the next order

A round of the merge takes a window of every run. Up to the smallest of their last keys nothing is missing, because a
key stands once in a run; so much is sorted together and written. There is no loop over n-grams in Python. Keys, ranks
and counts are those of `count_ngrams`, number by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import BackgroundError
from llrnn.languages.ngrams.counting import Counted
from llrnn.languages.ngrams.scratch import Column, Scratch
from llrnn.languages.ngrams.table import Ints

_BYTES_A_WORD = 96  # that sorting a block or merging windows has in memory for each of their entries
_LEAST = 1024


def block_of(memory: int) -> int:
    """How many entries are worked on together in so many bytes."""
    return max(memory // _BYTES_A_WORD, _LEAST)


@dataclass
class _Runs:
    """The runs of one order, end to end, and which n-gram of its run ends at each place of the text."""

    key: Column
    count: Column
    suffix: Column
    inverse: Column | None  # -1 where none ends; not for the highest order, which is no context
    bounds: list[int]

    def drop(self) -> None:
        for column in (self.key, self.count, self.suffix, self.inverse):
            if column is not None:
                column.drop()


def count_on_disk(stream: Column, eos: int, n_words: int, order: int, scratch: Scratch, memory: int) -> list[Counted]:
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


def _merged(runs: _Runs, below: Counted, n_words: int, scratch: Scratch, size: int) -> tuple[Counted, Column | None]:
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


def _put_ranks(ranks: Column, at: list[int], taken: list[int], by_key: Ints, rank: Ints) -> None:
    """The rows of each run lie side by side again, in its own order."""
    of_row = np.empty(len(by_key), dtype=np.int64)
    of_row[by_key] = rank
    done = 0
    for place, many in zip(at, taken, strict=True):
        ranks.put(place, of_row[done : done + many])
        done += many


def _places(runs: _Runs, inverse: NDArray[Any], ranks: NDArray[Any], scratch: Scratch, size: int) -> Column:
    """The place of the n-gram that ends at each place of the text, -1 where none does."""
    places = scratch.column(np.int64)
    for number, start in enumerate(range(0, len(inverse), size)):
        which = inverse[start : start + size]
        own = np.append(ranks[runs.bounds[number] : runs.bounds[number + 1]], -1)
        places.append(own[which])  # the last one, -1, where there is none
    return places
