"""An n-gram model over the words of a vocabulary: the same words in the same order, each with a probability."""

from __future__ import annotations

import numpy as np

from llrnn.errors import BackgroundError
from llrnn.ngrams.table import UNKNOWN, Ints, Level, NGramTable
from llrnn.vocabulary import Vocabulary

_SHOWN = 5


def for_vocabulary(table: NGramTable, vocabulary: Vocabulary, *, restrict: bool = False) -> NGramTable:
    """Renumber the words. What the model does not list shares the mass of `<unk>` in equal parts.

    Words of the model that the vocabulary does not list are refused, or with `restrict` left out: the rest is then not
    normalised any more, which the log-linear layer makes good.
    """
    if table.words == vocabulary.symbols:
        return table
    number = _numbers(table, vocabulary)
    _require_listed(table, number, restrict)
    unigrams = _unigrams(table, vocabulary, number)
    levels, place = [unigrams], number
    for level in table.levels[1:]:
        moved, place = _moved(level, place, number, len(vocabulary))
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


def _unigrams(table: NGramTable, vocabulary: Vocabulary, number: Ints) -> Level:
    V, old = len(vocabulary), table.levels[0]
    log_prob, log_backoff = np.full(V, np.nan), np.zeros(V)
    listed = number >= 0
    log_prob[number[listed]] = old.log_prob[listed]
    log_backoff[number[listed]] = old.log_backoff[listed]
    missing = np.isnan(log_prob)
    if missing.any():
        log_prob = _with_shares(table, vocabulary, log_prob, missing)
    return Level(np.zeros(V, dtype=np.int64), np.arange(V), log_prob, log_backoff)


def _with_shares(
    table: NGramTable,
    vocabulary: Vocabulary,
    log_prob: np.ndarray[tuple[int], np.dtype[np.float64]],
    missing: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The mass of `<unk>` in equal shares; where the vocabulary has a symbol for unknown words, that one shares too."""
    words = [vocabulary.symbols[i] for i in np.flatnonzero(missing).tolist()]
    if UNKNOWN not in table.index or table.levels[0].log_prob[table.index[UNKNOWN]] == -np.inf:
        raise BackgroundError(
            f"the n-gram model does not list {len(words)} words of the vocabulary, such as {_some(words)}, and has no "
            f"{UNKNOWN} whose mass they could share; estimate it with {UNKNOWN}, or with this vocabulary"
        )
    sharing = missing.copy()
    if vocabulary.unknown is not None:
        sharing[vocabulary.id(vocabulary.unknown)] = True
    share = table.levels[0].log_prob[table.index[UNKNOWN]] - np.log(sharing.sum())
    return np.where(sharing, share, log_prob)


def _moved(level: Level, place: Ints, number: Ints, n_words: int) -> tuple[Level, Ints]:
    """A level with new numbers, sorted again, and the new place of each old n-gram (-1: left out)."""
    context, word = place[level.context], number[level.word]
    kept = np.flatnonzero((context >= 0) & (word >= 0))
    by_key = kept[np.argsort(context[kept] * n_words + word[kept], kind="stable")]
    moved = Level(context[by_key], word[by_key], level.log_prob[by_key], level.log_backoff[by_key])
    new = np.full(len(level), -1)
    new[by_key] = np.arange(len(by_key))
    return moved, new


def _some(words: list[str]) -> str:
    return ", ".join(repr(word) for word in words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")
