"""Kneser-Ney estimation of `kneser_ney` in bounded memory: every stage goes through its arrays block by block.

    counting            `external`: sorted runs and a merge
    adjusted counts     how often an n-gram is a suffix: as many counters as fit, one pass over the order above for each
    discounts           a histogram
    probabilities       blocks of whole contexts, so that every sum is added up in the order of the in-memory path
    pruning             one byte in memory for each n-gram, where something is pruned at all

Between the stages everything is in scratch files that are read by maps. p of the shorter n-gram is looked up in the
order below wherever it is: fast as long as that order (8 bytes an n-gram) fits into what the system has to spare for
its page cache, memory that it can take back. The table that comes out is such maps too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from llrnn.languages.ngrams.counting import Counted
from llrnn.languages.ngrams.external import block_of, count_on_disk
from llrnn.languages.ngrams.kneser_ney import check_order, discounts_of, histogram, smoothed, thresholds, without_empty
from llrnn.languages.ngrams.scratch import Scratch
from llrnn.languages.ngrams.table import Floats, Ints, Level, NGramTable
from llrnn.text.vocabulary import EOS

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
