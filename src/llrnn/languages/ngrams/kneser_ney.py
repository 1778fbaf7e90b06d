"""Modified Kneser-Ney smoothing, interpolated (Chen and Goodman 1998).

    p(x | c) = max(0, a(c x) − D(a)) / Σ_y a(c y)  +  backoff(c) · p(x | suffix of c)

a is the count at the highest order; below, the number of words that were seen before the n-gram (its count, where it
begins a sentence: nothing can stand before). D is D₁, D₂ or D₃ for a = 1, 2, 3 or more, of each order its own:

    Y = t₁ / (t₁ + 2 t₂)        D_k = k − (k + 1) · Y · t_{k+1} / t_k            t_k: how many n-grams have a = k

backoff(c) is what the discounts, and the pruned n-grams, leave. The unigrams are interpolated with a uniform model over
all words, the unseen ones among them, so that every word has a probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.languages.ngrams.table import Floats, Ints, Level, NGramTable
from llrnn.text.vocabulary import EOS

# Counting n-grams by sorting: no object for each n-gram, one pass over the text for each order.
#
# The text is one array of numbers, EOS before, between and after its sentences. With `d[t]` the distance of t from the
# last EOS before it, an n-gram that ends at t lies in one sentence (begun by EOS) if and only if n - 1 <= d[t]. Its
# key:
#
#     key_n[t] = place_{n-1}[t - 1] · V + word[t]
#
# and the place of an n-gram is the rank of its key, so that the n-grams come out sorted by context and word.


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


_FALLBACK = (0.5, 1.0, 1.5)


def estimate(stream: Ints, words: Sequence[str], *, order: int = 5, min_counts: Sequence[int] = ()) -> NGramTable:
    """A model of the text EOS, sentence, EOS, ..., EOS, given as numbers of `words`.

    `min_counts[n - 1]`: n-grams of order n that were counted less often are pruned (the last number holds for all
    higher orders; unigrams are never pruned).
    """
    check_order(order)
    counted, notes = without_empty(count_ngrams(stream, list(words).index(EOS), len(words), order), order)
    adjusted = [_adjusted(counted, n) for n in range(len(counted))]
    kept = _kept(counted, thresholds(min_counts, len(counted)))
    levels: list[Level] = []
    for n, (grams, counts) in enumerate(zip(counted, adjusted, strict=True)):
        discounts, note = discounts_of(histogram(counts), n + 1)
        notes += [note] if note else []
        below = levels[-1] if levels else None
        level, backoff = _level(grams, counts, discounts, kept[n], below)
        if below is not None:
            levels[-1] = Level(below.context, below.word, below.log_prob, backoff)
        levels.append(level)
    return NGramTable(tuple(words), _pruned(levels, kept), tuple(notes))


def check_order(order: int) -> None:
    if order < 1:
        raise BackgroundError(f"the order of an n-gram model must be 1 or more, found {order}")


def without_empty(counted: list[Counted], order: int) -> tuple[list[Counted], list[str]]:
    """The orders that have n-grams, and a note where no sentence is as long as was asked."""
    kept = [grams for grams in counted if len(grams)]
    return kept, [] if len(kept) == order else [f"no sentence has {order} words: the order is {len(kept)}"]


def _adjusted(counted: list[Counted], n: int) -> Ints:
    """Counts at the highest order; below, how many different words stand before."""
    grams = counted[n]
    if n + 1 == len(counted):
        return grams.count
    before = np.bincount(counted[n + 1].suffix, minlength=len(grams))
    return before if n == 0 else np.where(grams.starts, grams.count, before)


def histogram(adjusted: Ints) -> Ints:
    """How many n-grams have the counts 0 to 4, and 5 or more."""
    return np.bincount(np.minimum(adjusted, 5), minlength=6)


def discounts_of(t: Ints, order: int) -> tuple[Floats, str]:
    """D₁, D₂, D₃ in places 1 to 3, and a note where the text is too small to estimate them."""
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
    grams: Counted,
    adjusted: Ints,
    discounts: Floats,
    kept: np.ndarray[tuple[int], np.dtype[np.bool_]],
    below: Level | None,
) -> tuple[Level, Floats]:
    """The probabilities of one order, and the back-off weights of its contexts."""
    contexts = 1 if below is None else len(below)
    shorter = np.full(len(grams), 1.0 / len(grams)) if below is None else np.exp(below.log_prob)[grams.suffix]
    log_prob, log_backoff = smoothed(grams.context, contexts, adjusted, discounts, kept, shorter)
    return Level(grams.context, grams.word, log_prob, np.zeros(len(grams))), log_backoff


def smoothed(
    context: Ints,
    contexts: int,
    adjusted: Ints,
    discounts: Floats,
    kept: np.ndarray[tuple[int], np.dtype[np.bool_]],
    shorter: Floats,
) -> tuple[Floats, Floats]:
    """log p of n-grams, all those of contexts 0 to `contexts` - 1; and the log of the contexts' back-off weights.

    `shorter`: p of the n-grams without their first words.
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


def thresholds(min_counts: Sequence[int], order: int) -> list[int]:
    """One for each order, unigrams included, which are kept in any case."""
    if any(count < 0 for count in min_counts):
        raise BackgroundError(f"the least counts of n-grams must be 0 or more, found {list(min_counts)}")
    given = list(min_counts) or [0]
    return [0, *(given + [given[-1]] * order)[1:order]]


def _kept(counted: list[Counted], thresholds: list[int]) -> list[np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Which n-grams stay: those counted often enough, and the contexts and suffixes of those that stay."""
    kept = [grams.count >= threshold for grams, threshold in zip(counted, thresholds, strict=True)]
    for n in range(len(counted) - 1, 0, -1):
        kept[n - 1][counted[n].context[kept[n]]] = True
        kept[n - 1][counted[n].suffix[kept[n]]] = True
    return kept


def _pruned(levels: list[Level], kept: list[np.ndarray[tuple[int], np.dtype[np.bool_]]]) -> tuple[Level, ...]:
    """Drop what is not kept, and renumber the contexts."""
    result = [levels[0]]
    for n in range(1, len(levels)):
        place = np.cumsum(kept[n - 1]) - 1 if n > 1 else np.arange(len(levels[0]))
        level = levels[n].selected(np.flatnonzero(kept[n]))
        result.append(Level(place[level.context], level.word, level.log_prob, level.log_backoff))
    while len(result) > 1 and len(result[-1]) == 0:
        result.pop()
    return tuple(result)
