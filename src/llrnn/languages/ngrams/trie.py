"""An n-gram model on a device: the states of whole batches and the rows of whole distributions, without a Python loop.

A node is an n-gram; nodes are numbered level by level, so that node x < V is the unigram of word x, and the empty
context is node -1. The state after some words is the node of their longest suffix that has continuations, or a back-off
weight of its own (a pruned model may have one without the other). For a state with contexts c₁, c₂, ..., c_k (its
suffixes, shortest first):

    p(x | state) = backoff(c_k) ··· backoff(c_1) · p(x)                  for the rest
    p(x | state) = backoff(c_k) ··· backoff(c_{j+1}) · listed(c_j x)     with c_j x the longest that is listed

Since every suffix of an n-gram is listed, the continuations of c₁ hold all others: they are the exceptions, in the
order of their words, and longer contexts only overwrite their values. `bigram[node]` says where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.languages.ngrams.table import NGramTable, completed

EMPTY = -1  # the node of the empty context


class NGramRows(NamedTuple):
    """Next-word distributions of N states: `rest[n]` shifts the unigrams, the listed words have their own log p."""

    rest: Tensor  # (N,)
    position: Tensor  # (E,) sorted
    word: Tensor  # (E,) sorted within a position
    log_prob: Tensor  # (E,)


@dataclass(frozen=True, eq=False)
class Trie:
    """All nodes of all levels in flat tensors; `keys` are (context · V + word) for each level from the second on."""

    n_words: int
    offsets: tuple[int, ...]  # where each level begins, and the end
    keys: tuple[Tensor, ...]
    word: Tensor
    level: Tensor
    suffix: Tensor
    bigram: Tensor
    first_child: Tensor
    children: Tensor
    matters: Tensor  # whether a node may be a state
    log_prob: Tensor
    backoff: Tensor  # log, summed over the node and its suffixes: from here down to the unigrams

    @classmethod
    def from_table(cls, table: NGramTable) -> Trie:
        table = completed(table)
        V, sizes = len(table.words), [len(level) for level in table.levels]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        suffix = np.concatenate([np.arange(V), *(s + offsets[n] for n, s in enumerate(table.suffixes))])
        bigram, backoff = _along_suffixes(table, suffix, offsets)
        first, children = _children(table, offsets)
        weighted = np.concatenate([level.log_backoff != 0 for level in table.levels])
        keys = tuple(torch.from_numpy(level.keys(V)) for level in table.levels[1:])
        joined = {
            "word": np.concatenate([level.word for level in table.levels]),
            "level": np.repeat(np.arange(1, table.order + 1), sizes),
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
        return cls(V, tuple(offsets.tolist()), keys, **tensors)

    @property
    def order(self) -> int:
        return len(self.offsets) - 1

    def to(self, device: torch.device) -> Trie:
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in moved.items():
            if isinstance(value, Tensor):
                moved[name] = value.to(device)
        return Trie(**{**moved, "keys": tuple(key.to(device) for key in self.keys)})

    def child(self, node: Tensor, word: Tensor, level: int) -> Tensor:
        """The nodes of `level` that extend nodes of the level below by a word, -1 where there are none."""
        keys = self.keys[level - 2]
        if len(keys) == 0:
            return torch.full_like(node, -1)
        asked = (node - self.offsets[level - 2]) * self.n_words + word
        found = torch.searchsorted(keys, asked).clamp(max=len(keys) - 1)
        return torch.where((keys[found] == asked) & (node >= 0), found + self.offsets[level - 1], -1)

    def suffix_of_level(self, node: Tensor) -> list[Tensor]:
        """The suffixes of nodes by level, 1 to order - 1; -1 for levels longer than the node."""
        found: list[Tensor] = []
        for level in range(self.order - 1, 0, -1):
            here = self.level[node] == level
            found.append(torch.where(here, node, -1))
            node = torch.where(here & (self.level[node] > 1), self.suffix[node], node)
        return found[::-1]

    def states(self, before: Tensor, words: Tensor) -> Tensor:
        """The states after each word of B rows, which begin in the states `before`: (B,), (B, T) -> (B, T).

        The node of the last k words is a child of the node of the k - 1 words that end one place before: so all places
        are looked up at once, level by level.
        """
        state = node = words
        for level, start in enumerate(self.suffix_of_level(before)[: self.order - 2], 2):
            node = self.child(torch.cat([start[:, None], node[:, :-1]], 1), words, level)
            state = torch.where((node >= 0) & self.matters[node], node, state)
        return state

    def explore(
        self, start: int, words: Tensor, *, merge: bool = False, check: Callable[[int], None] = lambda found: None
    ) -> tuple[list[int], Tensor]:
        """All states that words lead to from a start, it first; and the state after each word, (states, words).

        `merge`: the empty context stands for states that make no difference; `check` is told how many were found.
        """
        states, known, after, done = [start], {start}, list[Tensor](), 0
        while done < len(states):  # states are found faster than they are written out
            check(len(states))
            frontier, done = torch.tensor(states[done:]), len(states)
            reached = self.states(frontier.repeat_interleave(len(words)), words.repeat(len(frontier))[:, None])
            reached = torch.where(self.matters[reached], reached, EMPTY) if merge else reached
            after.append(reached.view(len(frontier), len(words)))
            new = [state for state in torch.unique(reached).tolist() if state not in known]
            known.update(new)
            states += new
        return states, torch.cat(after)

    def advance(self, state: int, word: int) -> int:
        """One state, one word further."""
        return int(self.states(torch.tensor([state]), torch.tensor([[word]]))[0, 0])

    def log_prob_of(self, states: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """log p of one word after each state, and the length of the n-gram that says so, (N,), (N,) -> (N,), (N,)."""
        rest = self.backoff[states]
        log_prob, length = rest + self.log_prob[words], torch.ones_like(words)
        for level, context in enumerate(self.suffix_of_level(states), 2):
            node = self.child(context, words, level)
            listed = self.log_prob[node] + rest - self.backoff[context]
            log_prob = torch.where(node >= 0, listed, log_prob)
            length = torch.where(node >= 0, level, length)
        return log_prob, length

    def rows(self, states: Tensor) -> NGramRows:
        """The distributions that follow N states."""
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
        """log p of every word after N states, (N, V)."""
        rows = self.rows(states)
        log_p = self.log_prob[: self.n_words] + rows.rest[:, None]
        log_p[rows.position, rows.word] = rows.log_prob
        return log_p


def ranges(first: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """`first[i], first[i] + 1, ...`, `count[i]` of them, for one i after the other; and to which i each belongs."""
    row = torch.repeat_interleave(count)
    begin = count.cumsum(0) - count
    return row, torch.arange(len(row), device=count.device) + (first - begin)[row]


def _along_suffixes(table: NGramTable, suffix: Ints, offsets: Ints) -> tuple[Ints, Floats]:
    """For each node its suffix of two words, and the back-offs summed along its suffixes."""
    bigram = np.arange(len(suffix))
    backoff = np.concatenate([level.log_backoff for level in table.levels])
    for n in range(1, table.order):
        level = slice(offsets[n], offsets[n + 1])
        backoff[level] += backoff[suffix[level]]
        if n > 1:
            bigram[level] = bigram[suffix[level]]
    return bigram, backoff


def _children(table: NGramTable, offsets: Ints) -> tuple[Ints, Ints]:
    """Where the continuations of each node begin, and how many there are: parents rise from node to node."""
    parents = [level.context + offset for level, offset in zip(table.levels[1:], offsets.tolist(), strict=False)]
    first = np.searchsorted(np.concatenate([*parents, offsets[:0]]), np.arange(offsets[-1] + 1)) + len(table.words)
    return first[:-1], np.diff(first)


# Whole next-word distributions on CPU, one row after the other: each is one pass over V.
#
#     row = unigrams + back-off, overwritten by the continuations of the contexts, shortest first
#
# Continuations stand side by side in memory, so a context is one slice. The frequent contexts (`the`, `of the`) have
# thousands of them and come again and again: their rows are kept, up to a limit, and what follows a longer context
# begins from the longest that is.


Row = NDArray[np.float32]

_MANY = 64  # continuations from which on keeping a row pays
_BYTES_KEPT = 128_000_000


class DenseRows:
    """log p of every word after given states, in float32."""

    def __init__(self, trie: Trie) -> None:
        self._trie = trie
        self._log_prob, self._backoff = trie.log_prob.float(), trie.backoff.float()
        self._unigrams: Row = self._log_prob[: trie.n_words].numpy()
        self._kept: dict[int, Row] = {}
        self._at_most = _BYTES_KEPT // (4 * trie.n_words)

    def fill(self, states: Tensor, out: Tensor) -> None:
        """`out[n] = log p(· | states[n])`, (N,), (N, V)."""
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
        """The continuations of one context in each row, none where it is empty."""
        at = torch.nonzero(contexts >= 0).view(-1)
        context = contexts[at]
        which, node = ranges(self._trie.first_child[context], self._trie.children[context])
        shift = (total[at] - self._backoff[context])[which]
        out[at[which], self._trie.word[node]] = self._log_prob[node] + shift

    def _row_of(self, context: int) -> Row:
        """The row after a frequent context, kept while there is room; the unigrams for the empty one."""
        if context == EMPTY:
            return self._unigrams
        found = self._kept.get(context)
        if found is None:
            found = self._trie.dense(torch.tensor([context]))[0].float().numpy()
            if len(self._kept) < self._at_most:
                self._kept[context] = found
        return found
