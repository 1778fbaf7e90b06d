"""A back-off n-gram model as sorted arrays.

    p(x | c) = listed(c x)                          where the n-gram c x is listed
    p(x | c) = backoff(c) · p(x | suffix of c)      otherwise

`levels[n - 1]` holds the n-grams of order n, sorted by context and then by word, so that the continuations of a context
stand side by side. An n-gram is named by its place in its level; the place of a unigram is the word's number. EOS is
the end of sentences as a word, and the beginning as a context (`</s>` and `<s>` of ARPA files).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import BackgroundError
from llrnn.text.vocabulary import EOS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
UNKNOWN = "<unk>"


@dataclass(frozen=True, eq=False)
class Level:
    """The n-grams of one order; natural logarithms."""

    context: Ints  # (n,) the place of the first n-1 words in the level below; 0 for unigrams
    word: Ints  # (n,)
    log_prob: Floats  # (n,)
    log_backoff: Floats  # (n,) 0 where nothing follows

    def __len__(self) -> int:
        return len(self.word)

    def keys(self, n_words: int) -> Ints:
        """One sorted number for each n-gram."""
        return self.context * n_words + self.word

    def find(self, context: Ints, word: Ints, n_words: int) -> Ints:
        """The places of n-grams, -1 where they are not listed; a context of -1 has no continuations."""
        keys, asked = self.keys(n_words), context * n_words + word
        if len(keys) == 0:
            return np.full(len(asked), -1)
        found = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where((keys[found] == asked) & (context >= 0), found, -1)

    def selected(self, keep: Ints) -> Level:
        return Level(self.context[keep], self.word[keep], self.log_prob[keep], self.log_backoff[keep])


@dataclass(frozen=True, eq=False)
class Shared:
    """Words that have no n-grams of their own but a part of those that end in `word`, in every context c:

        log p(words[i] | c) = log p(word | c) + log_share[i]

    Their unigrams are listed. In a history they are words of which nothing is known.
    """

    word: int
    hidden: bool  # whether `word` itself is none of the vocabulary; then it is the last one of the table
    words: Ints  # sorted
    log_share: Floats


@dataclass(frozen=True, eq=False)
class NGramTable:
    """The words, and the n-grams of every order."""

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

    @property
    def order(self) -> int:
        return len(self.levels)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The words without the hidden one."""
        return self.words[:-1] if self.shared is not None and self.shared.hidden else self.words

    @cached_property
    def index(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @property
    def eos(self) -> int:
        return self.index[EOS]

    @property
    def size(self) -> int:
        """How many n-grams, of all orders."""
        return sum(len(level) for level in self.levels)

    @property
    def bytes(self) -> int:
        """The memory that the arrays take."""
        arrays = (array for level in self.levels for array in vars(level).values())
        return sum(array.nbytes for array in arrays)

    @cached_property
    def suffixes(self) -> tuple[Ints, ...]:
        """For each n-gram of order 2 and more, the place of its last n-1 words in the level below; -1 if not listed."""
        V = len(self.words)
        found: list[Ints] = []
        for n in range(1, self.order):
            level, below = self.levels[n], self.levels[n - 1]
            # the suffix of c x is (suffix of c) x; the suffix of a bigram is its word
            found.append(level.word if n == 1 else below.find(found[-1][level.context], level.word, V))
        return tuple(found)

    def history(self, n: int) -> Ints:
        """The words of every n-gram of order n, (count, n)."""
        level = self.levels[n - 1]
        if n == 1:
            return level.word[:, None]
        return np.concatenate([self.history(n - 1)[level.context], level.word[:, None]], 1)

    def __repr__(self) -> str:
        return f"NGramTable({len(self.words)} words, {'/'.join(str(len(level)) for level in self.levels)} n-grams)"


def completed(table: NGramTable) -> NGramTable:
    """The same distribution with every suffix of a listed n-gram listed too, as back-off defines it.

    Pruned models may list `a b c` without `b c`. Whoever walks along suffixes need not care afterwards.
    """
    for n in range(table.order, 1, -1):  # longest first: a suffix that is added needs its own suffix
        while n > 2 and (table.suffixes[n - 2] < 0).any():
            table = _with_suffixes(table, n)
    return table


def _with_suffixes(table: NGramTable, n: int) -> NGramTable:
    """Add the missing suffixes of the n-grams of order n, as (n-1)-grams."""
    V, missing = len(table.words), table.suffixes[n - 2] < 0
    tail = table.history(n)[missing, 1:]  # (m, n-1)
    context = _listed(table, tail[:, :-1])
    if (context < 0).any():  # the context of the suffix is missing too: list it first
        shorter = tail[context < 0, :-1]
        return _added(table, shorter[:, :-1], shorter[:, -1], _listed(table, shorter[:, :-1]), V)
    return _added(table, tail[:, :-1], tail[:, -1], context, V)


def _listed(table: NGramTable, words: Ints) -> Ints:
    """The places of n-grams given by their words, (m, k) -> (m,)."""
    place = words[:, 0]
    for k in range(1, words.shape[1]):
        place = table.levels[k].find(place, words[:, k], len(table.words))
    return place


def _added(table: NGramTable, history: Ints, word: Ints, context: Ints, V: int) -> NGramTable:
    """One level with more n-grams, at the probability that back-off gives them; the level above is renumbered."""
    n = history.shape[1] + 1
    if (context < 0).any():
        shorter = history[context < 0]
        return _added(table, shorter[:, :-1], shorter[:, -1], _listed(table, shorter[:, :-1]), V)
    key, first = np.unique(context * V + word, return_index=True)
    log_prob = backed_off(table, history[first], word[first])
    old = table.levels[n - 1]
    keys = np.concatenate([old.keys(V), key])
    order = np.argsort(keys, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    level = Level(
        (keys // V)[order],
        (keys % V)[order],
        np.concatenate([old.log_prob, log_prob])[order],
        np.concatenate([old.log_backoff, np.zeros(len(key))])[order],
    )
    levels = [*table.levels[: n - 1], level]
    for above in table.levels[n : n + 1]:
        moved = Level(place[above.context], above.word, above.log_prob, above.log_backoff)
        levels.append(moved)  # still sorted: the new places keep the old order
    return replace(table, levels=(*levels, *table.levels[n + 1 :]))


def backed_off(table: NGramTable, history: Ints, word: Ints) -> Floats:
    """log p(word | history) by the longest listed n-gram, (m, k), (m,) -> (m,)."""
    history = history[:, max(0, history.shape[1] - table.order + 1) :]  # more words do not matter
    V, total = len(table.words), np.zeros(len(word))
    result = np.full(len(word), np.nan)
    for k in range(history.shape[1], -1, -1):
        context = _listed(table, history[:, history.shape[1] - k :]) if k else np.zeros(len(word), dtype=np.int64)
        place = table.levels[k].find(context, word, V) if k and k < table.order else (word if k == 0 else None)
        open_ = np.isnan(result)
        if place is not None:
            found = open_ & (place >= 0)
            result[found] = total[found] + table.levels[k].log_prob[place[found]]
        if k:
            known = context >= 0
            total[known] += table.levels[k - 1].log_backoff[context[known]]
    return result
