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

`NGramScorer`: log-probabilities of whole texts, with numpy alone; `trie.py` has the same on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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
        """Return the index in this level of each n-gram given by context and last word, (k,), (k,) -> (k,).

        -1 where it is not listed.

        context     indices in the level below; -1: a context that is not listed
        word        numbers of the last words
        n_words     number of words of the model
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

    Their unigrams are listed, with this probability. In a history they are read as `word`.

    word        the number of `<unk>`
    hidden      whether `<unk>` is no symbol of the vocabulary; then it is the last word of the table
    words       (n,) sorted numbers of the words
    log_share   (n,) natural log of the part that each of them has
    """

    word: int
    hidden: bool  # whether `word` itself is none of the vocabulary; then it is the last one of the table
    words: Ints  # sorted
    log_share: Floats


@dataclass(frozen=True, eq=False)
class NGramTable:
    """A back-off n-gram model as arrays: the words, and the n-grams of every order with log p and log back-off weights.

    words       the words by number; EOS is the end of a sentence, and its beginning as a context
    levels      at [n - 1]: the n-grams of order n, where unigram x is that of word x; empty highest orders are removed
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

        A number is that of the (n-1)-gram when the n-grams of all orders are counted from 0, order by order.
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

    Pruned models may list `a b c` without `b c`; what is added has the probability that back-off gives it. The model
    itself is returned if nothing is missing.
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
    """Return the model with `<unk>` among its words; where it had none, it is added with a probability of 10^-99.

    It then has the last number; no other probability changes.
    """
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

    history     (m, k) the numbers of the k words before, the last one nearest; k may be 0, and words further back than
                the model's order - 1 do not matter
    word        (m,) the numbers of the words

    Words of `table.shared` are not read as `<unk>` here (see `written_out`).
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
    and are read as `<unk>` in a history. A BackgroundError if the model has no `<unk>` for them. `<unk>` becomes the
    vocabulary's own unknown symbol, if it has one, which then gets one of the parts.

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

    log p of n-grams that end in a symbol of which `revision` takes a part is lowered accordingly; back-off weights are
    not recomputed.

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

    N-grams with `<unk>` are copied for each word that shares its probability; an `<unk>` beyond the vocabulary is then
    removed. A BackgroundError if more than 20 million n-grams are added. The model itself is returned if it has no
    shared words.
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
    """Return a new level of n-grams, where words that share the probability of `<unk>` have their own, and their rows.

    For each new context it holds the n-grams of the old context that this is a copy of, and nothing else. One that ends
    in `<unk>` stands there once for each of these words, with the word's part of its probability, and once for `<unk>`
    itself unless that is hidden.

    shared      these words with their parts of the probability, and `<unk>`
    level       the n-grams of one order
    of          for each new context, the index of the old context that it is a copy of, its own if it stays

    Rows are the index in `level` of the n-gram that each new one was made of. The new level is not sorted.
    """
    begin, end = np.searchsorted(level.context, of), np.searchsorted(level.context, of, "right")
    context = np.repeat(np.arange(len(of)), end - begin)
    rows = np.arange(len(context)) + (end - np.cumsum(end - begin))[context]
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

    A BackgroundError if the model does not list `<unk>`, or gives it the unigram probability 0.

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

    The result has the levels of order 2, 3, …; unigrams are the caller's.

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

    levels      the n-grams of each order; unigrams are one for each symbol and, last, one for an `<unk>` that is no
                symbol of the vocabulary
    shared      words that divide the probability of `<unk>`, or None
    notes       remarks for the model

    The last unigram is kept only if `shared.hidden` and n-grams use it. The model has no `shared` if no n-gram uses
    `<unk>`, since unigrams then say all.
    """
    if shared is not None and not _is_read(levels, shared.word):
        shared = None  # unigrams say all
    hidden = shared is not None and shared.hidden
    levels[0] = levels[0] if hidden else levels[0].selected(np.arange(len(vocabulary)))
    words = (*vocabulary.symbols, UNKNOWN) if hidden else tuple(vocabulary.symbols)
    return NGramTable(words, tuple(levels), notes, shared)


def _is_read(levels: Sequence[Level], word: int) -> bool:
    """Return whether a word ends an n-gram of order 2 or more, is the context of a bigram, or has a back-off weight.

    word        by number; a back-off weight counts if it is not 1
    """
    follows = len(levels) > 1 and bool((levels[1].context == word).any())
    ends = any((level.word == word).any() for level in levels[1:])
    return ends or follows or bool(levels[0].log_backoff[word] != 0.0)


def _some(words: list[str]) -> str:
    return ", ".join(repr(word) for word in words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")


EMPTY = -1  # the node of the empty context


def own_vocabulary(table: NGramTable) -> Vocabulary:
    """Return a vocabulary of exactly the words that the table lists; `<unk>`, if it has it, is for all other words."""
    return Vocabulary(table.words, unknown=UNKNOWN if UNKNOWN in table.index else None)


class NGramScorer:
    """Log-probabilities of whole texts by a back-off n-gram model, looked up with numpy alone.

    `score(symbols)` returns them. `arrays`: what is known of each node (listed n-gram), by name, such as "log_prob" and
    "suffix", each of shape (nodes + 1,): the last node is the empty context; nodes are numbered level by level, so that
    node x < V is the unigram of word x.

        NGramScorer(for_vocabulary(read_table("model.arpa"), vocabulary)).score([vocabulary.eos, *ids, vocabulary.eos])
    """

    def __init__(self, table: NGramTable) -> None:
        self.table = table = completed(table)
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
        self.arrays = {name: np.append(array, array.dtype.type(0)) for name, array in joined.items()}
        if table.shared is not None:  # (V,) what each word is, where some are read as `<unk>`
            self.arrays["read_as"] = np.arange(V)
            self.arrays["read_as"][table.shared.words] = table.shared.word

    def score(self, symbols: Sequence[int] | Ints) -> tuple[Floats, Ints]:
        """Return log p of every symbol but the first, and the length of the n-gram it was found with, both (n - 1,).

        The logarithm is natural; the length counts the symbol itself, so that it is 1 for a unigram.

        `symbols`: n word numbers of a text EOS, sentence, EOS, sentence, …, EOS.
        """
        text, shared = np.asarray(symbols, dtype=np.int64), self.table.shared
        log_prob, length = self.log_prob_along(text)
        if shared is not None:
            log_share = np.zeros(len(self.table.words))
            log_share[shared.words] = shared.log_share
            log_prob += log_share[text[1:]]
        return log_prob, length

    def log_prob_along(self, text: Ints) -> tuple[Floats, Ints]:
        """Return log p of each word of a text but the first, given those before it, and the length of the n-gram used.

        (T,) -> (T - 1,), (T - 1,); `text` has word numbers. A word that shares the probability of `<unk>` gets the
        whole of it, without its part (`score` has that). The length is 1 for a unigram.
        """
        text = self.arrays["read_as"][text] if "read_as" in self.arrays else text
        word, context = text[1:], text[:-1]
        node, within, state = (
            word.copy(),
            np.full_like(word, EMPTY),
            context,
        )  # longest n-gram, its context, longest one
        at = np.arange(len(word))  # no n-gram is listed without its context and its suffix
        for _ in range(2, self.table.order + 1):
            state = np.where(context >= 0, context, state)
            found = self.table.longer.find(context[at] * len(self.table.words) + word[at])
            listed = np.flatnonzero(found >= 0)
            at, found = at[listed], found[listed] + len(self.table.words)
            node[at], within[at] = found, context[at]
            after = np.full_like(text, EMPTY)
            after[at + 1] = found
            context = after[:-1]
            at = at[context[at] >= 0]
        log_prob, backoff, level = (self.arrays[name] for name in ("log_prob", "backoff", "level"))
        return log_prob[node] + (backoff[state] - backoff[within]), level[node]


def _along_suffixes(table: NGramTable, suffix: Ints, offsets: Ints) -> tuple[Ints, Floats]:
    """Return for each node its last two words as a node, and the sum of log back-off weights along its suffixes.

    A node is the number of an n-gram, over all orders, order by order. The node of one or two words is its own first
    result. The sum is over the node itself, the node without its first word, and so on to its last word; an n-gram of
    the highest order adds no weight of its own.

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

    A node is the number of an n-gram, over all orders, order by order. Those that extend a node by one more word behind
    it have consecutive numbers; where there are none, the first result has no meaning.

    offsets     the first node of each order, and the end
    """
    parents = [level.context + offset for level, offset in zip(table.levels[1:], offsets.tolist(), strict=False)]
    first = np.searchsorted(np.concatenate([*parents, offsets[:0]]), np.arange(offsets[-1] + 1)) + len(table.words)
    return first[:-1], np.diff(first)
