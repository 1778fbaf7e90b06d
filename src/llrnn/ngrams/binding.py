"""An n-gram model over the words of a vocabulary: the same words in the same order, each with a probability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from llrnn.errors import BackgroundError
from llrnn.ngrams.table import UNKNOWN, Ints, Level, NGramTable
from llrnn.vocabulary import Vocabulary

_SHOWN = 5


def for_vocabulary(table: NGramTable, vocabulary: Vocabulary, *, restrict: bool = False) -> NGramTable:
    """Renumber the words. What the model does not list shares the mass of `<unk>`, in every context, in equal parts.

    Words of the model that the vocabulary does not list are refused, or with `restrict` left out: the rest is then not
    normalised any more, which the log-linear layer makes good.
    """
    if table.words == vocabulary.symbols:
        return table
    number = _numbers(table, vocabulary)
    _require_listed(table, number, restrict)
    shared = _shared(table, vocabulary, number)
    levels: list[Level] = []
    place = np.zeros(1, dtype=np.int64)  # of the empty context
    for level in table.levels:
        moved, place = _moved(level, place, number, shared, len(vocabulary))
        levels.append(moved)
    while len(levels) > 1 and len(levels[-1]) == 0:
        levels.pop()
    return NGramTable(tuple(vocabulary.symbols), tuple(levels), table.notes)


def _numbers(table: NGramTable, vocabulary: Vocabulary) -> Ints:
    """The vocabulary's number of each word of the model, -1 for a word that it does not list."""
    unknown = vocabulary.unknown
    renamed = [unknown if word == UNKNOWN and unknown is not None else word for word in table.words]
    return np.array([vocabulary.id(word) if word in vocabulary else -1 for word in renamed], dtype=np.int64)


def _require_listed(table: NGramTable, number: Ints, restrict: bool) -> None:
    gone = [word for word, new in zip(table.words, number.tolist(), strict=True) if new < 0 and word != UNKNOWN]
    if gone and not restrict:
        raise BackgroundError(
            f"the n-gram model lists {len(gone)} words that the vocabulary does not, such as {_some(gone)}; "
            "build the vocabulary from the same text, or leave them out of the model: restrict=True (--restrict)"
        )


class _Shared(NamedTuple):
    """How the mass of `<unk>` is shared out."""

    unknown: int  # the model's number of `<unk>`, -1 where nothing is shared
    words: Ints  # the vocabulary's numbers of the words that the model does not list
    log_count: float  # among how many: these, and `<unk>` itself where the vocabulary has a symbol for it


def _shared(table: NGramTable, vocabulary: Vocabulary, number: Ints) -> _Shared:
    missing = np.setdiff1d(np.arange(len(vocabulary)), number)
    if len(missing) == 0:
        return _Shared(-1, missing, 0.0)
    unknown = table.index.get(UNKNOWN, -1)
    if unknown < 0 or table.levels[0].log_prob[unknown] == -np.inf:
        words = [vocabulary.symbols[i] for i in missing.tolist()]
        raise BackgroundError(
            f"the n-gram model does not list {len(words)} words of the vocabulary, such as {_some(words)}, and has no "
            f"{UNKNOWN} whose mass they could share; estimate it with {UNKNOWN}, or with this vocabulary"
        )
    return _Shared(unknown, missing, float(np.log(len(missing) + (number[unknown] >= 0))))


def _moved(level: Level, place: Ints, number: Ints, shared: _Shared, n_words: int) -> tuple[Level, Ints]:
    """A level with new numbers, sorted again, and the new place of each old n-gram (-1: left out).

    An n-gram that ends in `<unk>` is listed for each word that shares in it; nothing follows the new ones.
    """
    context, unknown = place[level.context], level.word == shared.unknown
    log_prob = np.where(unknown, level.log_prob - shared.log_count, level.log_prob)
    kept = np.flatnonzero((context >= 0) & (number[level.word] >= 0))
    of_unknown = np.flatnonzero((context >= 0) & unknown)
    rows = np.concatenate([kept, np.repeat(of_unknown, len(shared.words))])
    word = np.concatenate([number[level.word[kept]], np.tile(shared.words, len(of_unknown))])
    log_backoff = np.concatenate([level.log_backoff[kept], np.zeros(len(rows) - len(kept))])
    by_key = np.argsort(context[rows] * n_words + word, kind="stable")
    new = np.full(len(level), -1)
    new_place = np.empty(len(rows), dtype=np.int64)
    new_place[by_key] = np.arange(len(rows))
    new[kept] = new_place[: len(kept)]
    return Level(context[rows][by_key], word[by_key], log_prob[rows][by_key], log_backoff[by_key]), new


def _some(words: list[str]) -> str:
    return ", ".join(repr(word) for word in words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")
