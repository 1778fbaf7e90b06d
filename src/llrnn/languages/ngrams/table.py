"""A back-off n-gram model as sorted arrays.

    p(x | c) = listed(c x)                          where the n-gram c x is listed
    p(x | c) = backoff(c) · p(x | suffix of c)      otherwise

`levels[n - 1]` holds the n-grams of order n, sorted by context and then by word, so that the continuations of a context
stand side by side. An n-gram is named by its place in its level; the place of a unigram is the word's number. EOS is
the end of sentences as a word, and the beginning as a context (`</s>` and `<s>` of ARPA files).

`for_vocabulary`: an n-gram model over the words of a vocabulary, in its order, each with a probability.

Words of the vocabulary that the model does not list have equal parts of `<unk>`, in every context, and are read as
`<unk>` in a history. They are not listed one by one: `<unk>` stays a word of the table, and `NGramTable.shared` says
who has a part of it. So a bound model has no more n-grams than the one that it was made of, besides the unigrams of
the vocabulary.

`Trie`: an n-gram model on a device, with states and distributions of whole batches without a Python loop.

A node is an n-gram; nodes are numbered level by level, so that node x < V is the unigram of word x, and the empty
context is node -1. The state after some words is the node of their longest suffix that has continuations, or a
back-off weight of its own (a pruned model may have one without the other). For a state with contexts c₁, c₂, ..., c_k
(its suffixes, shortest first):

    p(x | state) = backoff(c_k) ··· backoff(c_1) · p(x)                  for the rest
    p(x | state) = backoff(c_k) ··· backoff(c_{j+1}) · listed(c_j x)     with c_j x the longest that is listed

Since every suffix of an n-gram is listed, the continuations of c₁ hold all others: they are the exceptions, in the
order of their words, and longer contexts only overwrite their values. `bigram[node]` says where.

`DenseRows`: whole next-word distributions on the CPU, row by row, each in one pass over V.

    row = unigrams + back-off, overwritten by the continuations of the contexts, shortest first

Continuations stand side by side in memory, so a context is one slice. The frequent contexts (`the`, `of the`) have
thousands of them and come again and again: their rows are kept, up to a limit, and what follows a longer context
begins from the longest that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.text.vocabulary import EOS, Revision, Vocabulary

UNKNOWN = "<unk>"


_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ / golden ratio, odd: multiplying by it loses nothing
_HALF = np.uint64(32)
_AT_ONCE = 1 << 16  # keys: what is worked on stays in the cache


class HashIndex:
    """A hash table from n distinct non-negative integer keys to their positions 0 … n-1, for look-ups of whole arrays.

    Open addressing, half full. The slots of a key are tried in turn:

        slot r of a key = the upper half of (key + 1) · multiplier^(r + 1) mod 2⁶⁴, times the number of slots

        HashIndex(np.array([3, 5, 8])).find(np.array([5, 6]))  # 1, -1
    """

    def __init__(self, keys: Ints) -> None:
        self.keys = keys
        self._slots = np.full(2 * len(keys) + 1, -1, dtype=np.int32)
        for begin in range(0, len(keys), _AT_ONCE):
            self._insert(np.arange(begin, min(begin + _AT_ONCE, len(keys)), dtype=np.int32))

    def _insert(self, place: NDArray[np.int32]) -> None:
        mixed = _mixed(self.keys[place])
        while len(place):
            slot = self._slot(mixed)
            free = np.flatnonzero(self._slots.take(slot) < 0)
            self._slots[slot[free]] = place[free]
            lost = np.flatnonzero(self._slots.take(slot) != place)  # it was taken, or another one came, too
            place, mixed = place[lost], mixed[lost] * _MULTIPLIER

    def find(self, asked: Ints) -> Ints:
        """Return the position of each key of `asked` in the array that the index was made of, (n,) -> (n,).

        -1 for a key that is not there.
        """
        found = np.full(len(asked), -1)
        for begin in range(0, len(asked) if len(self.keys) else 0, _AT_ONCE):
            part = asked[begin : begin + _AT_ONCE]
            at = np.flatnonzero(part >= 0)
            part, at = part[at], at + begin
            mixed = _mixed(part)
            while len(at):
                place = self._slots.take(self._slot(mixed))
                found[at] = place
                other = np.flatnonzero((place >= 0) & (self.keys.take(place, mode="wrap") != part))
                at, part, mixed = at.take(other), part.take(other), mixed.take(other) * _MULTIPLIER
        return found

    def _slot(self, mixed: NDArray[np.uint64]) -> Ints:
        return ((mixed >> _HALF) * np.uint64(len(self._slots)) >> _HALF).view(np.int64)


def _mixed(keys: Ints) -> NDArray[np.uint64]:
    return (keys + 1).view(np.uint64) * _MULTIPLIER


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one order as parallel arrays sorted by context and word; logarithms are natural.

    context     (m,) the index of the first n-1 words in the level below; 0 for unigrams
    word        (m,) the number of the last word
    log_prob    (m,) log p(word | context)
    log_backoff (m,) log back-off weight of the n-gram as a context; 0 where nothing follows
    """

    context: Ints  # (n,) the place of the first n-1 words in the level below; 0 for unigrams
    word: Ints  # (n,)
    log_prob: Floats  # (n,)
    log_backoff: Floats  # (n,) 0 where nothing follows

    def __len__(self) -> int:
        return len(self.word)

    def keys(self, n_words: int) -> Ints:
        """Return a key for each n-gram, context · n_words + word, (m,); keys ascend, since n-grams are sorted.

        n_words     number of words of the model
        """
        return self.context * n_words + self.word

    def find(self, context: Ints, word: Ints, n_words: int) -> Ints:
        """Return the index of each n-gram given by context and last word, (k,), (k,) -> (k,).

        -1 where it is not listed.

        context     indices in the level below; -1: a context that is not listed
        """
        keys, asked = self.keys(n_words), context * n_words + word
        if len(keys) == 0:
            return np.full(len(asked), -1)
        found = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where((keys[found] == asked) & (context >= 0), found, -1)

    def selected(self, keep: Ints) -> Level:
        """Return a level of only the n-grams at the indices `keep`, in that order; contexts are not renumbered."""
        return Level(self.context[keep], self.word[keep], self.log_prob[keep], self.log_backoff[keep])


@dataclass(frozen=True, eq=False)
class Shared:
    """Words without n-grams of their own, which divide the probability of `<unk>` among them in every context c:

        log p(words[i] | c) = log p(word | c) + log_share[i]

    Their unigrams are listed. In a history they are read as `word`.

    word        the number of `<unk>`
    hidden      whether `<unk>` is no symbol of the vocabulary; then it is the last word of the table
    words       sorted numbers of the words
    log_share   log of the part that each of them has
    """

    word: int
    hidden: bool  # whether `word` itself is none of the vocabulary; then it is the last one of the table
    words: Ints  # sorted
    log_share: Floats


@dataclass(frozen=True, eq=False)
class NGramTable:
    """A back-off n-gram model as arrays: the words, and the n-grams of every order with log p and log back-off weights.

    words       the words by number; EOS is the end of a sentence, and its beginning as a context
    levels      at [n - 1]: the n-grams of order n; empty highest orders are removed
    notes       remarks of the estimation, such as that the text was too short
    shared      words that divide the probability of `<unk>`, after `for_vocabulary`; None: there are none

    For example:

        table = estimate(*read_stream(["text.txt"]), order=3)
        table.words, table.order, table.size
    """

    words: tuple[str, ...]
    levels: tuple[Level, ...]
    notes: tuple[str, ...] = ()  # what its estimation had to do otherwise than usual
    shared: Shared | None = None  # where it was bound to words that it did not list

    def __post_init__(self) -> None:
        if not self.levels or len(self.levels[0]) != len(self.words):
            found = len(self.levels[0]) if self.levels else 0
            raise BackgroundError(
                f"an n-gram model needs one unigram for each of {len(self.words)} words, found {found}"
            )
        levels = self.levels
        while len(levels) > 1 and not len(levels[-1]):
            levels = levels[:-1]
        object.__setattr__(self, "levels", levels)

    @property
    def order(self) -> int:
        """Length of the longest n-grams of the model."""
        return len(self.levels)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The words that can be predicted, by number: `words`, without an `<unk>` that is not in the vocabulary."""
        return self.words[:-1] if self.shared is not None and self.shared.hidden else self.words

    @cached_property
    def index(self) -> dict[str, int]:
        """Word -> its number, the index in `words`."""
        return {word: number for number, word in enumerate(self.words)}

    @property
    def eos(self) -> int:
        """The number of the end-of-sentence symbol; a KeyError if the model has none."""
        return self.index[EOS]

    @property
    def size(self) -> int:
        """Number of n-grams of all orders together."""
        return sum(len(level) for level in self.levels)

    @property
    def bytes(self) -> int:
        """Memory of the n-gram arrays, in bytes."""
        arrays = (array for level in self.levels for array in vars(level).values())
        return sum(array.nbytes for array in arrays)

    @cached_property
    def offsets(self) -> Ints:
        """Number of the first n-gram of each order, counted over all orders in turn; last their total, (order + 1,)."""
        return np.cumsum([0, *(len(level) for level in self.levels)])

    @cached_property
    def longer(self) -> HashIndex:
        """Hash index of the n-grams of order 2 and more by the key (number of the context) · V + (number of the word).

        Contexts are numbered over all orders, order by order. `find` returns the n-gram's number in this numbering
        minus V, the number of words; -1 where it is not listed.
        """
        V, begins = len(self.words), self.offsets.tolist()
        pairs = zip(self.levels[1:], begins, strict=False)
        keys = [(level.context + begin) * V + level.word for level, begin in pairs]
        return HashIndex(np.concatenate([*keys, np.zeros(0, dtype=np.int64)]))

    @cached_property
    def suffixes(self) -> tuple[Ints, ...]:
        """At [n - 2], for n-grams of order n: the number of the last n-1 words of each, (n-grams,); -1 if not listed.

        Numbers count the n-grams of all orders, order by order.
        """
        V, found = len(self.words), [level.word for level in self.levels[1:2]]  # the suffix of a bigram is its word
        for level in self.levels[2:]:  # the suffix of c x is (suffix of c) x
            place = self.longer.find(found[-1][level.context] * V + level.word)
            found.append(np.where(place >= 0, place + V, -1))
        return tuple(found)

    def history(self, n: int) -> Ints:
        """Return the word numbers of every n-gram of order n, (n-grams, n), in the order of `levels[n - 1]`."""
        level = self.levels[n - 1]
        if n == 1:
            return level.word[:, None]
        return np.concatenate([self.history(n - 1)[level.context], level.word[:, None]], 1)

    def __repr__(self) -> str:
        return f"NGramTable({len(self.words)} words, {'/'.join(str(len(level)) for level in self.levels)} n-grams)"


def completed(table: NGramTable) -> NGramTable:
    """Return a model of equal probabilities in which the last n-1 words of every listed n-gram are listed too.

    Pruned models may list `a b c` without `b c`; what is added has the probability that back-off gives it.
    """
    if all((suffix >= 0).all() for suffix in table.suffixes):
        return table
    V, more = len(table.words), np.zeros((0, table.order), dtype=np.int64)
    added = {table.order: more}  # by order: the words of n-grams that are missing
    for n in range(table.order - 1, 1, -1):  # longest first: what is added needs its own context and suffix
        suffixes = table.history(n + 1)[table.suffixes[n - 1] < 0, 1:]
        needed = np.concatenate([suffixes, more[:, 1:], more[:, :-1]])
        more = added[n] = np.unique(needed[places_of(table.levels, needed) < 0], axis=0)
    levels, place = [table.levels[0]], np.arange(V)
    for n, old in enumerate(table.levels[1:], 2):
        history, word = added[n][:, :-1], added[n][:, -1]
        level = Level(
            np.concatenate([place[old.context], places_of(levels, history)]),
            np.concatenate([old.word, word]),
            np.concatenate([old.log_prob, backed_off(table, history, word)]),
            np.concatenate([old.log_backoff, np.zeros(len(word))]),
        )
        level, to = _sorted(level, V)
        levels.append(level)
        place = to[: len(old)]
    return replace(table, levels=tuple(levels))


def with_unknown(table: NGramTable) -> NGramTable:
    """Return the model with `<unk>` among its words; where it had none, it is added with a probability of 10^-99."""
    if UNKNOWN in table.index:
        return table
    V, first = len(table.words), table.levels[0]
    unigrams = Level(
        np.append(first.context, 0),
        np.append(first.word, V),
        np.append(first.log_prob, -99.0 * np.log(10.0)),
        np.append(first.log_backoff, 0.0),
    )
    return NGramTable((*table.words, UNKNOWN), (unigrams, *table.levels[1:]), table.notes)


def places_of(levels: Sequence[Level], words: Ints) -> Ints:
    """Return the index in `levels[k - 1]` of each of m k-grams, given by its word numbers, (m, k) -> (m,).

    -1 where it is not listed. k is 1 or more.
    """
    place = words[:, 0]
    for k in range(1, words.shape[1]):
        place = levels[k].find(place, words[:, k], len(levels[0]))
    return place


def backed_off(table: NGramTable, history: Ints, word: Ints) -> Floats:
    """Return log p(word | history) by the back-off model, (m, k), (m,) -> (m,).

    history     (m, k) the numbers of the k words before, the last one nearest
    word        (m,) the numbers of the words
    """
    history = history[:, max(0, history.shape[1] - table.order + 1) :]  # more words do not matter
    V, total = len(table.words), np.zeros(len(word))
    result = np.full(len(word), np.nan)
    for k in range(history.shape[1], -1, -1):
        context = places_of(table.levels, history[:, history.shape[1] - k :]) if k else np.zeros_like(word)
        place = table.levels[k].find(context, word, V) if k else word
        found = np.isnan(result) & (place >= 0)
        result[found] = total[found] + table.levels[k].log_prob[place[found]]
        if k:
            known = context >= 0
            total[known] += table.levels[k - 1].log_backoff[context[known]]
    return result


MOST_LISTED = 20_000_000  # n-grams that `written_out` adds at most: about a gigabyte
_SHOWN = 5


def for_vocabulary(table: NGramTable, vocabulary: Vocabulary, *, restrict: bool = False) -> NGramTable:
    """Return the model renumbered to the ids of a vocabulary, so that every symbol has a probability in every context.

    Words of the vocabulary that the model does not list get equal parts of the probability of `<unk>` in every context,
    and are read as `<unk>` in a history. A BackgroundError if the model has no `<unk>` for them.

    restrict    True: drop words of the model that the vocabulary does not list, so that the rest is no longer
                normalised (the log-linear layer normalises); False: such words are a BackgroundError

        for_vocabulary(read_arpa("news.arpa"), model.vocabulary, restrict=True)
    """
    if table.symbols == vocabulary.symbols:
        return table
    table = written_out(table)  # it may have been bound before, to another vocabulary
    V, unknown = len(vocabulary), vocabulary.unknown
    renamed = (unknown if word == UNKNOWN and unknown is not None else word for word in table.words)
    number = np.array([vocabulary.id(word) if word in vocabulary else -1 for word in renamed], dtype=np.int64)
    _require_listed(table, number, restrict)
    missing = np.setdiff1d(np.arange(V), number)
    log_factor, shared = np.zeros(V + 1), None
    if len(missing):
        own = _unknown(table, vocabulary, missing)
        hidden = bool(number[own] < 0)
        shared = Shared(V if hidden else int(number[own]), hidden, missing, np.zeros(len(missing)))
        number[own] = shared.word
        log_factor[shared.word] = -np.log(len(missing) + (not hidden))  # it has a part itself where it is a symbol
    log_prob, log_backoff = np.zeros((2, V + 1))
    stays = number >= 0
    log_prob[number[stays]], log_backoff[number[stays]] = (
        array[stays] for array in (table.levels[0].log_prob, table.levels[0].log_backoff)
    )
    log_prob += log_factor
    if shared is not None:
        log_prob[missing] = log_prob[shared.word]
    unigrams = Level(np.zeros(V + 1, dtype=np.int64), np.arange(V + 1), log_prob, log_backoff)
    return _table(vocabulary, [unigrams, *renumbered(table, number, log_factor)], shared, table.notes)


def revised(table: NGramTable, revision: Revision) -> NGramTable:
    """Return the model for a changed vocabulary; new words get a unigram, n-grams with removed words are dropped.

    revision    the change: which symbols stay, and what part of whose probability new words get
    """
    V, unigrams, kept = len(table.symbols), table.levels[0], revision.kept
    number = np.append(revision.new_ids(V), np.full(len(table.words) - V, -1))
    log_factor = np.append(revision.log_share, 0.0)  # a cell that words left has less everywhere
    log_prob = np.append(revision.log_masses(unigrams.log_prob[:V]), 0.0)
    log_backoff = np.append(np.where(kept >= 0, unigrams.log_backoff[kept], 0.0), 0.0)
    shared, former = None, table.shared
    if former is not None and (stays := number[former.words] >= 0).any():
        log_prob[-1], log_backoff[-1] = unigrams.log_prob[former.word], unigrams.log_backoff[former.word]
        hidden, words = bool(number[former.word] < 0), number[former.words[stays]]
        word = number[former.word] = len(kept) if hidden else int(number[former.word])
        shared = Shared(word, hidden, words, former.log_share[stays] + log_factor[words] - log_factor[word])
    first = Level(np.zeros(len(log_prob), dtype=np.int64), np.arange(len(log_prob)), log_prob, log_backoff)
    levels = [first, *renumbered(table, number, log_factor)]
    return _table(revision.vocabulary, levels, shared, table.notes)


def written_out(table: NGramTable) -> NGramTable:
    """Return a model of equal probabilities whose `shared` is None: all words have n-grams of their own.

    N-grams with `<unk>` are copied for each word that shares its probability. A BackgroundError if that takes more than
    20 million n-grams.
    """
    shared, n, added = table.shared, len(table.symbols), 0
    if shared is None:
        return table
    first, of = table.levels[0], np.arange(n)
    of[shared.words] = shared.word  # the n-gram that each new one is a copy of
    levels = [Level(first.context[:n], first.word[:n], first.log_prob[:n], first.log_backoff[of])]
    for below, level in zip(table.levels, table.levels[1:], strict=False):
        added += _copies(shared, len(below), level, of) - len(level)
        if added > MOST_LISTED:
            raise BackgroundError(
                f"{len(shared.words)} words share the mass of {UNKNOWN}; listed one by one they have {added} n-grams, "
                f"and at most {MOST_LISTED} are: use the n-gram model as it was before it was bound to a vocabulary"
            )
        made, rows = _copied(shared, level, of)
        moved, to = _sorted(made, n)
        levels.append(moved)
        of = np.empty_like(rows)
        of[to] = rows
    return NGramTable(table.symbols, tuple(levels), table.notes)


def _copies(shared: Shared, below: int, level: Level, of: Ints) -> int:
    """Return the number of n-grams of the level that `_copied(shared, level, of)` would return.

    below       number of n-grams in the level below
    of          for each new context, the index of the old context that it is a copy of
    """
    times = np.where(level.word == shared.word, len(shared.words) + (not shared.hidden), 1)
    return int(np.bincount(level.context, times, below)[of].sum())


def _copied(shared: Shared, level: Level, of: Ints) -> tuple[Level, Ints]:
    """Return a level with a copy of each n-gram for each word that shares the probability of `<unk>`, and their rows.

    shared      these words
    level       the n-grams of one order
    of          for each new context, the index of the old context that it is a copy of

    Rows are the index in `level` of the n-gram that each copy was made of. The level is not sorted.
    """
    begin, end = np.searchsorted(level.context, of), np.searchsorted(level.context, of, "right")
    context, rows = (part.numpy() for part in ranges(torch.from_numpy(begin), torch.from_numpy(end - begin)))
    parts = np.append(shared.words, [] if shared.hidden else shared.word).astype(np.int64)
    times = np.where(level.word[rows] == shared.word, len(parts), 1)
    context, rows = np.repeat(context, times), np.repeat(rows, times)
    word, log_share = level.word[rows], np.zeros(len(rows))
    at = np.flatnonzero(word == shared.word)
    word[at] = np.resize(parts, len(at))
    log_share[at] = np.resize(np.append(shared.log_share, 0.0)[: len(parts)], len(at))
    return Level(context, word, level.log_prob[rows] + log_share, level.log_backoff[rows]), rows


def _require_listed(table: NGramTable, number: Ints, restrict: bool) -> None:
    gone = [word for word, new in zip(table.words, number.tolist(), strict=True) if new < 0 and word != UNKNOWN]
    if gone and not restrict:
        raise BackgroundError(
            f"the n-gram model lists {len(gone)} words that the vocabulary does not, such as {_some(gone)}; "
            "build the vocabulary from the same text, or leave them out of the model: restrict=True (--restrict)"
        )


def _unknown(table: NGramTable, vocabulary: Vocabulary, missing: Ints) -> int:
    """Return the model's number of `<unk>`, whose probability the missing words share.

    A BackgroundError if it has none.

    missing     ids of the words of the vocabulary that the model does not list, for the error
    """
    unknown = table.index.get(UNKNOWN, -1)
    if unknown < 0 or table.levels[0].log_prob[unknown] == -np.inf:
        words = [vocabulary.symbols[i] for i in missing.tolist()]
        raise BackgroundError(
            f"the n-gram model does not list {len(words)} words of the vocabulary, such as {_some(words)}, and has no "
            f"{UNKNOWN} whose mass they could share; estimate it with {UNKNOWN}, or with this vocabulary"
        )
    return unknown


def renumbered(table: NGramTable, number: Ints, log_factor: Floats) -> list[Level]:
    """Return the levels above the unigrams with new word numbers, sorted again by context and word.

    number      (old words,) the new number of each word; -1: n-grams with it are dropped
    log_factor  (new words,) added to log p of the n-grams that end in each word
    """
    levels, place = [], number  # the place of a unigram is its number
    for level in table.levels[1:]:
        context, word = place[level.context], number[level.word]
        rows = np.flatnonzero((context >= 0) & (word >= 0))
        log_prob = level.log_prob[rows] + log_factor[word[rows]]
        moved, to = _sorted(Level(context[rows], word[rows], log_prob, level.log_backoff[rows]), len(log_factor))
        place = np.full(len(level), -1)
        place[rows] = to
        levels.append(moved)
    return levels


def _sorted(level: Level, n_words: int) -> tuple[Level, Ints]:
    """Return the level sorted by context and word, and for each old index the new one, (n-grams,).

    n_words     number of words of the model
    """
    by_key = np.argsort(level.keys(n_words), kind="stable")
    place = np.empty(len(level), dtype=np.int64)
    place[by_key] = np.arange(len(level))
    return level.selected(by_key), place


def _table(vocabulary: Vocabulary, levels: list[Level], shared: Shared | None, notes: tuple[str, ...]) -> NGramTable:
    """Make the n-gram model of a vocabulary from levels whose word numbers are its ids.

    levels      with a last unigram for `<unk>`, beyond the vocabulary
    shared      words that divide the probability of `<unk>`, or None
    notes       remarks for the model

    The `<unk>` beyond the vocabulary is kept only if words share it and n-grams use it.
    """
    if shared is not None and not _is_read(levels, shared.word):
        shared = None  # unigrams say all
    hidden = shared is not None and shared.hidden
    levels[0] = levels[0] if hidden else levels[0].selected(np.arange(len(vocabulary)))
    words = (*vocabulary.symbols, UNKNOWN) if hidden else tuple(vocabulary.symbols)
    return NGramTable(words, tuple(levels), notes, shared)


def _is_read(levels: Sequence[Level], word: int) -> bool:
    """Return whether a word ends an n-gram of order 2 or more, is the context of one, or has a back-off weight."""
    follows = len(levels) > 1 and bool((levels[1].context == word).any())
    ends = any((level.word == word).any() for level in levels[1:])
    return ends or follows or bool(levels[0].log_backoff[word] != 0.0)


def _some(words: list[str]) -> str:
    return ", ".join(repr(word) for word in words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")


EMPTY = -1  # the node of the empty context


class NGramRows(NamedTuple):
    """Next-word distributions of N states (contexts) of an n-gram model in sparse form.

    rest        (N,) log p of a word that is not listed below is its unigram log p plus this
    position    (E,) the index, 0 … N-1, of the state of each of E listed words; sorted
    word        (E,) the word's number; sorted within a state
    log_prob    (E,) its log p
    """

    rest: Tensor  # (N,)
    position: Tensor  # (E,) sorted
    word: Tensor  # (E,) sorted within a position
    log_prob: Tensor  # (E,)


@dataclass(frozen=True, eq=False)
class Trie:
    """A back-off n-gram model as flat tensors on one device, for look-ups of whole batches.

    A node is a listed n-gram; node x < V is the unigram of word x, and -1 (`EMPTY`) the empty context. A state is the
    node of the longest suffix of the words so far that matters as a context.

    For example:

        trie = Trie.from_table(table)
        trie.dense(trie.states(torch.tensor([EMPTY]), ids)[:, -1])      # (1, V): log p of the word after `ids`, (1, T)
    """

    n_words: int
    offsets: tuple[int, ...]  # where each level begins, and the end
    longer: HashIndex  # of the keys, for the CPU
    keys: Tensor
    word: Tensor
    level: Tensor
    suffix: Tensor
    bigram: Tensor
    first_child: Tensor
    children: Tensor
    matters: Tensor  # whether a node may be a state
    log_prob: Tensor
    backoff: Tensor  # log, summed over the node and its suffixes: from here down to the unigrams
    read_as: Tensor | None = None  # (V,) what each word is, where some are read as `<unk>`

    @classmethod
    def from_table(cls, table: NGramTable) -> Trie:
        """Make the trie of an n-gram model, on the CPU.

        For example:

            trie = Trie.from_table(read_table("model.arpa"))
        """
        table = completed(table)
        V, offsets = len(table.words), table.offsets
        suffix = np.concatenate([np.arange(V), *table.suffixes])
        bigram, backoff = _along_suffixes(table, suffix, offsets)
        first, children = _children(table, offsets)
        weighted = np.concatenate([level.log_backoff != 0 for level in table.levels])
        joined = {
            "word": np.concatenate([level.word for level in table.levels]),
            "level": np.repeat(np.arange(1, table.order + 1), np.diff(offsets)),
            "suffix": suffix,
            "bigram": bigram,
            "first_child": first,
            "children": children,
            "matters": (children > 0) | weighted,
            "log_prob": np.concatenate([level.log_prob for level in table.levels]),
            "backoff": backoff,
        }
        # one node more, which is also node -1: the empty context, of level 0
        tensors = {name: torch.from_numpy(np.append(array, array.dtype.type(0))) for name, array in joined.items()}
        read_as, shared = torch.arange(V), table.shared
        if shared is not None:
            read_as[torch.from_numpy(shared.words)] = shared.word
            tensors["read_as"] = read_as
        return cls(V, tuple(offsets.tolist()), table.longer, torch.from_numpy(table.longer.keys), **tensors)

    @property
    def order(self) -> int:
        """Length of the longest n-grams of the model."""
        return len(self.offsets) - 1

    def to(self, device: torch.device) -> Trie:
        """Return a copy of the trie with its tensors on `device`."""
        moved: dict[str, Any] = {k: value.to(device) for k, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **moved)

    def child(self, node: Tensor, word: Tensor) -> Tensor:
        """Return the node that extends each `node` by `word`, in their common shape; -1 where it is not listed.

        A node is the number of a listed n-gram, -1 the empty context; a word is given by number.
        """
        asked = node * self.n_words + word  # below 0 for the empty context, as no key is
        if asked.device.type == "cpu":
            place = torch.from_numpy(self.longer.find(asked.reshape(-1).numpy())).view(asked.shape)
        else:
            place = searched(self.keys, asked)
        return torch.where(place >= 0, place + self.n_words, -1)

    def suffix_of_level(self, node: Tensor) -> list[Tensor]:
        """At [k - 1], for k from 1 to order - 1: the nodes of the last k words of each node, in the shape of `node`.

        A node is the number of a listed n-gram; -1 where it has fewer than k words.
        """
        found: list[Tensor] = []
        for level in range(self.order - 1, 0, -1):
            here = self.level[node] == level
            found.append(torch.where(here, node, -1))
            node = torch.where(here & (self.level[node] > 1), self.suffix[node], node)
        return found[::-1]

    def states(self, before: Tensor, words: Tensor) -> Tensor:
        """Return the state after each word of B texts: (B,), (B, T) -> (B, T).

        before      (B,) the states in which the texts begin; -1: no context. A state is the number of a listed n-gram,
                    the longest end of the text that matters as a context
        words       (B, T) word numbers

        The node of the last k words is a child of the node of the k - 1 words before; so all positions are looked up at
        once, level by level.
        """
        state = node = words = words if self.read_as is None else self.read_as[words]
        for start in self.suffix_of_level(before)[: self.order - 2]:
            node = self.child(torch.cat([start[:, None], node[:, :-1]], 1), words)
            state = torch.where((node >= 0) & self.matters[node], node, state)
        return state

    def explore(self, start: int, words: Tensor) -> tuple[list[int], Tensor]:
        """Return all S states that sequences of `words` can reach from `start`, which is the first of them.

        Also return the state after each word in each of these states, (S, words). A state is the number of a listed
        n-gram, the longest end of a text that matters as a context.
        """
        states, known, after, done = [start], {start}, list[Tensor](), 0
        while done < len(states):  # states are found faster than they are written out
            frontier, done = torch.tensor(states[done:]), len(states)
            reached = self.states(frontier.repeat_interleave(len(words)), words.repeat(len(frontier))[:, None])
            after.append(reached.view(len(frontier), len(words)))
            new = [state for state in torch.unique(reached).tolist() if state not in known]
            known.update(new)
            states += new
        return states, torch.cat(after)

    def advance(self, state: int, word: int) -> int:
        """Return the state after one more word, given by its number.

        A state is the number of the listed n-gram that stands for the words so far, -1 for none; see `states`.
        """
        return int(self.states(torch.tensor([state]), torch.tensor([[word]]))[0, 0])

    def log_prob_of(self, states: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p of words[i] after states[i], and the length of the n-gram used: (N,), (N,) -> (N,), (N,).

        A state is the number of a listed n-gram that stands for the words so far; see `states`.
        """
        rest = self.backoff[states]
        log_prob, length = rest + self.log_prob[words], torch.ones_like(words)
        for level, context in enumerate(self.suffix_of_level(states), 2):
            node = self.child(context, words)
            listed = self.log_prob[node] + (rest - self.backoff[context])
            log_prob = torch.where(node >= 0, listed, log_prob)
            length = torch.where(node >= 0, level, length)
        return log_prob, length

    def log_prob_along(self, text: Ints) -> tuple[Floats, Ints]:
        """Return log p of each word of a text but the first, given those before it, and the length of the n-gram used.

        text        (T,) word numbers; the results are (T - 1,) each, float64 and int64, on the CPU

        Words that share the probability of `<unk>` get all of it. All positions are looked up at once, level by level.
        """
        text = text if self.read_as is None else self.read_as.numpy()[text]
        word, context = text[1:], text[:-1]
        node, within, state = (
            word.copy(),
            np.full_like(word, EMPTY),
            context,
        )  # longest n-gram, its context, longest one
        at = np.arange(len(word))  # no n-gram is listed without its context and its suffix
        for _ in range(2, self.order + 1):
            state = np.where(context >= 0, context, state)
            found = self.longer.find(context[at] * self.n_words + word[at])
            listed = np.flatnonzero(found >= 0)
            at, found = at[listed], found[listed] + self.n_words
            node[at], within[at] = found, context[at]
            after = np.full_like(text, EMPTY)
            after[at + 1] = found
            context = after[:-1]
            at = at[context[at] >= 0]
        log_prob, backoff, level = self.log_prob.numpy(), self.backoff.numpy(), self.level.numpy()
        return log_prob[node] + (backoff[state] - backoff[within]), level[node]

    def rows(self, states: Tensor) -> NGramRows:
        """Return the next-word distributions of N states in sparse form: words that differ from shifted unigrams.

        states      (N,) the number of the listed n-gram that stands for the words so far; see `states`
        """
        rest = self.backoff[states]
        if self.order == 1:
            none = torch.zeros(0, dtype=torch.long, device=states.device)
            return NGramRows(torch.zeros_like(rest), none, none, rest[none])
        shortest, *longer = self.suffix_of_level(states)
        count = self.children[shortest]
        begin = count.cumsum(0) - count  # where the exceptions of each position begin
        position, node = ranges(self.first_child[shortest], count)
        log_prob = self.log_prob[node] + (rest - self.backoff[shortest])[position]
        for context in longer:
            known = torch.nonzero(context >= 0).view(-1)
            which, child = ranges(self.first_child[context[known]], self.children[context[known]])
            at = known[which]
            place = begin[at] + self.bigram[child] - self.first_child[shortest[at]]
            log_prob[place] = self.log_prob[child] + (rest[known] - self.backoff[context[known]])[which]
        return NGramRows(rest, position, self.word[node], log_prob)

    def dense(self, states: Tensor) -> Tensor:
        """Return log p of every word after each of N states, (N,) -> (N, V).

        states      the number of the listed n-gram that stands for the words so far; see `states`
        """
        rows = self.rows(states)
        log_p = self.log_prob[: self.n_words] + rows.rest[:, None]
        log_p[rows.position, rows.word] = rows.log_prob
        return log_p


def searched(keys: Tensor, asked: Tensor) -> Tensor:
    """Return the index of each value in the sorted `keys`, in the shape of `asked`; -1 where it is not there.

    Binary search, for GPUs.
    """
    if len(keys) == 0:
        return torch.full_like(asked, -1)
    place = torch.searchsorted(keys, asked).clamp(max=len(keys) - 1)
    return torch.where(keys[place] == asked, place, -1)


def ranges(first: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return the integers of the ranges first[i] … first[i] + count[i] - 1, for all i in turn, in one tensor.

    The result is (the i of each, the integers); first and count: (n,).
    """
    row = torch.repeat_interleave(count)
    begin = count.cumsum(0) - count
    return row, torch.arange(len(row), device=count.device) + (first - begin)[row]


def _along_suffixes(table: NGramTable, suffix: Ints, offsets: Ints) -> tuple[Ints, Floats]:
    """Return for each node its last two words as a node, and the sum of log back-off weights along its suffixes.

    A node is the number of an n-gram, over all orders, order by order.

    suffix      for each node, the node without its first word
    offsets     the first node of each order, and the end
    """
    bigram = np.arange(len(suffix))
    backoff = np.concatenate([level.log_backoff for level in table.levels])
    backoff[offsets[-2] :] = 0.0  # no context is so long
    for n in range(1, table.order):
        level = slice(offsets[n], offsets[n + 1])
        backoff[level] += backoff[suffix[level]]
        if n > 1:
            bigram[level] = bigram[suffix[level]]
    return bigram, backoff


def _children(table: NGramTable, offsets: Ints) -> tuple[Ints, Ints]:
    """Return for each node the first n-gram that extends it by a word, as a node, and how many there are.

    A node is the number of an n-gram, over all orders, order by order.

    offsets     the first node of each order, and the end
    """
    parents = [level.context + offset for level, offset in zip(table.levels[1:], offsets.tolist(), strict=False)]
    first = np.searchsorted(np.concatenate([*parents, offsets[:0]]), np.arange(offsets[-1] + 1)) + len(table.words)
    return first[:-1], np.diff(first)


Row = NDArray[np.float32]

_MANY = 64  # continuations from which on keeping a row pays
_BYTES_KEPT = 128_000_000


class DenseRows:
    """A computer of next-word log-probabilities of n-gram states over the whole vocabulary, float32 on the CPU.

    trie        the n-gram model, on the CPU

    Distributions of frequent contexts are cached, up to 128 MB.
    """

    def __init__(self, trie: Trie) -> None:
        self._trie = trie
        self._log_prob, self._backoff = trie.log_prob.float(), trie.backoff.float()
        self._unigrams: Row = self._log_prob[: trie.n_words].numpy()
        self._kept: dict[int, Row] = {}
        self._at_most = _BYTES_KEPT // (4 * trie.n_words)

    def fill(self, states: Tensor, out: Tensor) -> None:
        """Write log p of every word after states[i], a state of the n-gram model (`Trie.states`), into out[i].

        states      (N,)
        out         (N, V) float32, on the CPU
        """
        if self._trie.order == 1:
            out[:] = self._log_prob[: self._trie.n_words]
            return
        contexts = torch.stack(self._trie.suffix_of_level(states), 1)  # (N, order - 1), shortest first, -1 for none
        listed = torch.where(contexts >= 0, self._trie.children[contexts], 0)
        places = torch.arange(1, contexts.shape[1] + 1)
        frequent = torch.where(listed >= _MANY, places, 0).amax(1)  # the length of the longest frequent context, or 0
        begun = torch.where(frequent > 0, contexts.gather(1, (frequent - 1).clamp(min=0)[:, None])[:, 0], EMPTY)
        total = self._backoff[states]
        shifts = (total - self._backoff[begun]).numpy()
        for row, shift, context in zip(out.numpy(), shifts, begun.tolist(), strict=True):
            np.add(self._row_of(context), shift, out=row)
        for level in range(contexts.shape[1]):  # longer ones overwrite shorter ones
            self._overwrite(out, torch.where(level >= frequent, contexts[:, level], EMPTY), total)

    def _overwrite(self, out: Tensor, contexts: Tensor, total: Tensor) -> None:
        """Overwrite in each row of `out`, (N, V), the log p of the words that its context lists; in place.

        contexts    (N,) the context of each row as a node of the trie (number of an n-gram); -1: the row stays
        total       (N,) summed log back-off weight of each row's state
        """
        at = torch.nonzero(contexts >= 0).view(-1)
        context = contexts[at]
        which, node = ranges(self._trie.first_child[context], self._trie.children[context])
        shift = (total[at] - self._backoff[context])[which]
        out[at[which], self._trie.word[node]] = self._log_prob[node] + shift

    def _row_of(self, context: int) -> Row:
        """Return log p of every word after a context, (V,), cached if there is room.

        context     the number of an n-gram that many words follow; -1: the empty context, whose row are the unigrams
        """
        if context == EMPTY:
            return self._unigrams
        found = self._kept.get(context)
        if found is None:
            found = self._trie.dense(torch.tensor([context]))[0].float().numpy()
            if len(self._kept) < self._at_most:
                self._kept[context] = found
        return found
