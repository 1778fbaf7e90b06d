"""Counting n-grams by sorting: no object for each n-gram, one pass over the text for each order.

The text is one array of numbers, EOS before, between and after its sentences. With `d[t]` the distance of t from the
last EOS before it, an n-gram that ends at t lies in one sentence (begun by EOS) if and only if n - 1 <= d[t]. Its key:

    key_n[t] = place_{n-1}[t - 1] · V + word[t]

and the place of an n-gram is the rank of its key, so that the n-grams come out sorted by context and word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.languages.ngrams.table import Ints


@dataclass(frozen=True, eq=False)
class Counted:
    """The n-grams of one order with their counts."""

    context: Ints
    word: Ints
    count: Ints
    suffix: Ints  # the place of the last n-1 words in the order below
    starts: np.ndarray[tuple[int], np.dtype[np.bool_]]  # whether the first word is the beginning of a sentence

    def __len__(self) -> int:
        return len(self.word)


def count_ngrams(stream: Ints, eos: int, n_words: int, order: int) -> list[Counted]:
    """Counts for the orders 1 to `order` of a text EOS, sentence, EOS, sentence, ..., EOS."""
    if len(stream) < 2 or stream[0] != eos or stream[-1] != eos:
        raise BackgroundError("the text to count must begin and end with the end of a sentence")
    distance = _distance(stream, eos)
    unigrams = np.arange(n_words)
    counts = np.bincount(stream[1:], minlength=n_words)
    found = [Counted(np.zeros(n_words, dtype=np.int64), unigrams, counts, unigrams, unigrams == eos)]
    place = stream.astype(np.int64)
    for n in range(2, order + 1):
        ends = np.flatnonzero(distance >= n - 1)
        key = place[ends - 1] * n_words + stream[ends]
        by_key = np.argsort(key)
        key = key[by_key]
        first = np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.zeros(0, dtype=bool)
        starts = np.flatnonzero(first)
        unique = key[starts]
        below, context = found[-1], unique // n_words
        found.append(
            Counted(
                context,
                unique - context * n_words,
                np.diff(starts, append=len(key)),
                place[ends[by_key[starts]]],
                below.starts[context],
            )
        )
        if n < order:
            next_place = np.full(len(stream), -1)
            next_place[ends[by_key]] = np.cumsum(first) - 1
            place = next_place
    return found


def _distance(stream: Ints, eos: int) -> Ints:
    """How far back the last EOS before each place is; 0 for the first place, which nothing precedes."""
    at = np.arange(len(stream))
    last = np.maximum.accumulate(np.where(stream == eos, at, 0))
    distance = np.zeros(len(stream), dtype=np.int64)
    distance[1:] = at[1:] - last[:-1]
    return distance
