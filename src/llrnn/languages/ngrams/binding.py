"""An n-gram model over the words of a vocabulary: the same words in the same order, each with a probability.

Words of the vocabulary that the model does not list have equal parts of `<unk>`, in every context. They are not listed
one by one: `<unk>` stays a word of the table, and `NGramTable.shared` says who has a part of it. So a bound model has
no more n-grams than the one that it was made of, besides the unigrams of the vocabulary.
"""

from __future__ import annotations

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.languages.ngrams.table import UNKNOWN, Floats, Ints, Level, NGramTable, Shared
from llrnn.text.revision import Revision
from llrnn.text.vocabulary import Vocabulary

MOST_LISTED = 20_000_000  # n-grams that `written_out` adds at most: about a gigabyte
_SHOWN = 5


def for_vocabulary(table: NGramTable, vocabulary: Vocabulary, *, restrict: bool = False) -> NGramTable:
    """Renumber the words. What the model does not list shares the mass of `<unk>`, in every context, in equal parts.

    Words of the model that the vocabulary does not list are refused, or with `restrict` left out: the rest is then not
    normalised any more, which the log-linear layer makes good.
    """
    if table.symbols == vocabulary.symbols:
        return table
    table = written_out(table)  # it may have been bound before, to another vocabulary
    V, number = len(vocabulary), _numbers(table, vocabulary)
    _require_listed(table, number, restrict)
    missing = np.setdiff1d(np.arange(V), number)
    as_last, log_factor, shared = number.copy(), np.zeros(V + 1), None
    if len(missing):
        unknown = _unknown(table, vocabulary, missing)
        hidden = bool(number[unknown] < 0)
        shared = Shared(V if hidden else int(number[unknown]), hidden, missing, np.zeros(len(missing)))
        as_last[unknown] = shared.word
        log_factor[shared.word] = -np.log(len(missing) + (not hidden))  # it has a part itself where it is a symbol
    log_prob, log_backoff = np.zeros((2, V + 1))
    log_prob[as_last[as_last >= 0]] = table.levels[0].log_prob[as_last >= 0]
    log_backoff[number[number >= 0]] = table.levels[0].log_backoff[number >= 0]
    log_prob += log_factor
    if shared is not None:
        log_prob[missing] = log_prob[shared.word]
    levels = [_unigrams(log_prob, log_backoff), *_renumbered(table, number, as_last, log_factor)]
    return _table(vocabulary, levels, shared, table.notes)


def revised(table: NGramTable, revision: Revision) -> NGramTable:
    """New words have a unigram and nothing more; n-grams with a word that is gone, in whatever place, are gone."""
    V, unigrams, kept = len(table.symbols), table.levels[0], revision.kept
    number = np.append(revision.new_ids(V), np.full(len(table.words) - V, -1))
    log_factor = np.append(revision.log_share, 0.0)  # a cell that words left has less everywhere
    log_prob = np.append(revision.log_masses(unigrams.log_prob[:V]), 0.0)
    log_backoff = np.append(np.where(kept >= 0, unigrams.log_backoff[kept], 0.0), 0.0)
    as_last, shared, former = number.copy(), None, table.shared
    if former is not None and (stays := number[former.words] >= 0).any():
        log_prob[-1] = unigrams.log_prob[former.word]
        hidden, words = bool(number[former.word] < 0), number[former.words[stays]]
        word = as_last[former.word] = len(kept) if hidden else int(number[former.word])
        shared = Shared(word, hidden, words, former.log_share[stays] + log_factor[words] - log_factor[word])
    levels = [_unigrams(log_prob, log_backoff), *_renumbered(table, number, as_last, log_factor)]
    return _table(revision.vocabulary, levels, shared, table.notes)


def written_out(table: NGramTable) -> NGramTable:
    """The same distribution without `shared`: each n-gram of `<unk>` is listed for every word that has a part of it."""
    shared, n = table.shared, len(table.symbols)
    if shared is None:
        return table
    copied = [np.flatnonzero(level.word == shared.word) for level in table.levels[1:]]
    count = len(shared.words) * sum(map(len, copied))
    if count > MOST_LISTED:
        raise BackgroundError(
            f"{len(shared.words)} words share the mass of {UNKNOWN}; listed one by one they have {count} n-grams, and "
            f"at most {MOST_LISTED} are: use the n-gram model as it was before it was bound to a vocabulary"
        )
    levels, place = [table.levels[0].selected(np.arange(n))], np.arange(len(table.words))
    for level, unknown in zip(table.levels[1:], copied, strict=True):
        own = np.flatnonzero(level.word < n)
        rows = np.concatenate([own, np.repeat(unknown, len(shared.words))])
        word = np.concatenate([level.word[own], np.tile(shared.words, len(unknown))])
        log_share = np.concatenate([np.zeros(len(own)), np.tile(shared.log_share, len(unknown))])
        log_backoff = np.concatenate([level.log_backoff[own], np.zeros(len(rows) - len(own))])
        made = Level(place[level.context[rows]], word, level.log_prob[rows] + log_share, log_backoff)
        moved, to = _sorted(made, n)
        place = np.full(len(level), -1)
        place[own] = to[: len(own)]
        levels.append(moved)
    return NGramTable(table.symbols, tuple(levels), table.notes)


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


def _unknown(table: NGramTable, vocabulary: Vocabulary, missing: Ints) -> int:
    """The model's number of `<unk>`, whose mass the missing words share."""
    unknown = table.index.get(UNKNOWN, -1)
    if unknown < 0 or table.levels[0].log_prob[unknown] == -np.inf:
        words = [vocabulary.symbols[i] for i in missing.tolist()]
        raise BackgroundError(
            f"the n-gram model does not list {len(words)} words of the vocabulary, such as {_some(words)}, and has no "
            f"{UNKNOWN} whose mass they could share; estimate it with {UNKNOWN}, or with this vocabulary"
        )
    return unknown


def _unigrams(log_prob: Floats, log_backoff: Floats) -> Level:
    places = np.arange(len(log_prob))
    return Level(np.zeros_like(places), places, log_prob, log_backoff)


def _renumbered(table: NGramTable, number: Ints, as_last: Ints, log_factor: Floats) -> list[Level]:
    """The levels above the unigrams with new numbers (-1: gone): `number` within an n-gram, `as_last` at its end.

    `log_factor` is what an n-gram gains that ends in a (new) word. Nothing follows a word that has a number only as the
    last one.
    """
    levels, place = [], number  # the place of a unigram is its number
    for level in table.levels[1:]:
        context, word = place[level.context], as_last[level.word]
        rows = np.flatnonzero((context >= 0) & (word >= 0))
        follows = number[level.word[rows]] >= 0
        log_backoff = np.where(follows, level.log_backoff[rows], 0.0)
        made = Level(context[rows], word[rows], level.log_prob[rows] + log_factor[word[rows]], log_backoff)
        moved, to = _sorted(made, len(log_factor))
        place = np.full(len(level), -1)
        place[rows] = np.where(follows, to, -1)
        levels.append(moved)
    return levels


def _sorted(level: Level, n_words: int) -> tuple[Level, Ints]:
    """The n-grams in the order of their keys, and the new place of each."""
    by_key = np.argsort(level.keys(n_words), kind="stable")
    place = np.empty(len(level), dtype=np.int64)
    place[by_key] = np.arange(len(level))
    return level.selected(by_key), place


def _table(vocabulary: Vocabulary, levels: list[Level], shared: Shared | None, notes: tuple[str, ...]) -> NGramTable:
    """A table of these levels; their last unigram is that of the hidden word, and leaves where there is none."""
    if shared is not None and not any((level.word == shared.word).any() for level in levels[1:]):
        shared = None  # unigrams say all
    hidden = shared is not None and shared.hidden
    levels[0] = levels[0] if hidden else levels[0].selected(np.arange(len(vocabulary)))
    while len(levels) > 1 and len(levels[-1]) == 0:
        levels.pop()
    words = (*vocabulary.symbols, UNKNOWN) if hidden else tuple(vocabulary.symbols)
    return NGramTable(words, tuple(levels), notes, shared)


def _some(words: list[str]) -> str:
    return ", ".join(repr(word) for word in words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")
