"""n-gram models on a device: states and distributions of whole batches.

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

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llrnn.languages.ngrams.table import EMPTY, NGramScorer, NGramTable


class NGramRows(NamedTuple):
    """Next-word distributions of N states (contexts) of an n-gram model in sparse form; logarithms are natural.

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

    scorer: NGramScorer  # the same in numpy, for the CPU
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
        scorer = NGramScorer(table)
        tensors = {name: torch.from_numpy(array) for name, array in scorer.arrays.items()}
        return cls(scorer, torch.from_numpy(scorer.table.longer.keys), **tensors)

    @property
    def order(self) -> int:
        """Length of the longest n-grams of the model."""
        return self.scorer.table.order

    @property
    def n_words(self) -> int:
        """Number V of words."""
        return len(self.scorer.table.words)

    def to(self, device: torch.device) -> Trie:
        """Return a copy of the trie with its tensors on `device`."""
        moved: dict[str, Any] = {k: value.to(device) for k, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **moved)

    def child(self, node: Tensor, word: Tensor) -> Tensor:
        """Return the node that extends each `node` by `word`, in their common shape; -1 where it is not listed.

        A node is the number of a listed n-gram, -1 the empty context, for which the result is -1 too; a word is given
        by number and stands behind the words of the node.
        """
        asked = node * self.n_words + word  # below 0 for the empty context, as no key is
        if asked.device.type == "cpu":
            place = torch.from_numpy(self.scorer.table.longer.find(asked.reshape(-1).numpy())).view(asked.shape)
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
                    the longest end of the text that matters as a context (it is continued, or has a back-off weight),
                    at least the last word
        words       (B, T) word numbers; words that share the probability of `<unk>` are read as it
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
        words = words if self.read_as is None else self.read_as[words]
        while done < len(states):  # states are found faster than they are written out
            frontier, done = torch.tensor(states[done:]), len(states)
            reached = words.expand(len(frontier), -1)
            for before in self.suffix_of_level(frontier)[: self.order - 2]:  # as `states` does, for each word in turn
                node = self.child(before[:, None], words)
                reached = torch.where((node >= 0) & self.matters[node], node, reached)
            after.append(reached)
            new = [state for state in torch.unique(reached).tolist() if state not in known]
            known.update(new)
            states += new
        return states, torch.cat(after)

    def advance(self, state: int, word: int) -> int:
        """Return the state after one more word, given by its number.

        A state is the number of the listed n-gram that stands for the words so far, -1 for none: the longest end of the
        text that matters as a context, at least the last word.
        """
        return int(self.states(torch.tensor([state]), torch.tensor([[word]]))[0, 0])

    def log_prob_of(self, states: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return log p of words[i] after states[i], and the length of the n-gram used: (N,), (N,) -> (N,), (N,).

        A state is the number of a listed n-gram that stands for the words so far, as `states` returns it; -1: no
        context. The length counts the word itself. Words that share the probability of `<unk>` are not read as it here.
        """
        rest = self.backoff[states]
        log_prob, length = rest + self.log_prob[words], torch.ones_like(words)
        for level, context in enumerate(self.suffix_of_level(states), 2):
            node = self.child(context, words)
            listed = self.log_prob[node] + (rest - self.backoff[context])
            log_prob = torch.where(node >= 0, listed, log_prob)
            length = torch.where(node >= 0, level, length)
        return log_prob, length

    def rows(self, states: Tensor) -> NGramRows:
        """Return the next-word distributions of N states in sparse form: words that differ from shifted unigrams.

        Listed are the words that follow the state's last word in some bigram. Words that share the probability of
        `<unk>` are not treated apart.

        states      (N,) the number of the listed n-gram that stands for the words so far, as `states` returns it
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

        states      the number of the listed n-gram that stands for the words so far, as `states` returns it; -1: no
                    context
        """
        rows = self.rows(states)
        log_p = self.log_prob[: self.n_words] + rows.rest[:, None]
        log_p[rows.position, rows.word] = rows.log_prob
        return log_p


def searched(keys: Tensor, asked: Tensor) -> Tensor:
    """Return the index of each value of `asked` in the sorted `keys`, in the shape of `asked`; -1 if it is not there.

    keys        (n,) distinct integers, ascending
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


Row = NDArray[np.float32]

_MANY = 64  # continuations from which on keeping a row pays
_BYTES_KEPT = 128_000_000


class DenseRows:
    """A computer of next-word log-probabilities of n-gram states over the whole vocabulary, float32 on the CPU.

        DenseRows(trie).fill(states, out)       # (N,), (N, V): writes log p of all V words after each state

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

        The log p written is that of the n-gram, plus `total` less the summed log back-off weight of the context.

        contexts    (N,) the context of each row as a node of the trie (number of an n-gram); -1: the row stays
        total       (N,) summed log back-off weight of each row's state, from the state itself down to its last word
        """
        at = torch.nonzero(contexts >= 0).view(-1)
        context = contexts[at]
        which, node = ranges(self._trie.first_child[context], self._trie.children[context])
        shift = (total[at] - self._backoff[context])[which]
        out[at[which], self._trie.word[node]] = self._log_prob[node] + shift

    def _row_of(self, context: int) -> Row:
        """Return log p of every word after a context, (V,), cached if there is room.

        context     the number of an n-gram; -1: the empty context, whose row are the unigrams
        """
        if context == EMPTY:
            return self._unigrams
        found = self._kept.get(context)
        if found is None:
            found = self._trie.dense(torch.tensor([context]))[0].float().numpy()
            if len(self._kept) < self._at_most:
                self._kept[context] = found
        return found
