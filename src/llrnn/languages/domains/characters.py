"""A model of characters: Kneser-Ney n-grams over the letters of words, as a table that is walked through.

    p(x) = Π_t p(x_t | last n-1 characters) · p(end | last n-1 characters)

A state is a context that was seen, the longest one that fits; `moves[s, a]` is the state after character column a,
`prob[s, a]` the probability of the column, and the last column is the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.domains.alphabet import Alphabet
from llrnn.languages.ngrams import EMPTY, NGramTable, Trie, estimate
from llrnn.languages.ngrams.store import described, table_from
from llrnn.text.vocabulary import EOS

_LEAST_SHARE = 5e-4  # of the words: a character that fewer of them hold is not told apart from others of its kind


@dataclass(frozen=True, eq=False)
class CharacterModel:
    """All states of a character n-gram model, written out; state 0 is the beginning of a word."""

    alphabet: Alphabet
    table: NGramTable
    moves: Ints  # (S, A)
    prob: Floats  # (S, A + 1)
    last: Ints  # (S,) the column of the last character of a state, -1 for the beginning

    @classmethod
    def estimated(
        cls, words: Sequence[str], *, order: int, min_counts: Sequence[int] = (), told_apart: Iterable[str] = ()
    ) -> CharacterModel:
        """From word types, each counted once. Characters that hardly any of them holds go by their kind alone."""
        if order < 2:
            raise DomainError(f"a model of spelling must look at one character or more: order 2 or more, found {order}")
        holders: dict[str, int] = {}
        for word in words:
            for character in set(word):
                holders[character] = holders.get(character, 0) + 1
        least = max(2, int(_LEAST_SHARE * len(words)))
        alphabet = Alphabet([*(c for c, n in holders.items() if n >= least), *told_apart])
        columns, lengths = alphabet.columns_of(words)
        end = len(alphabet)
        padded = np.concatenate([columns, np.full((len(words), 1), -1)], 1)
        padded[np.arange(len(words)), lengths] = end
        stream = np.concatenate([[end], padded[padded >= 0]])
        names = (*(f"{column}" for column in range(end)), EOS)
        return cls.of(estimate(stream, names, order=order, min_counts=min_counts), alphabet)

    @classmethod
    def of(cls, table: NGramTable, alphabet: Alphabet) -> CharacterModel:
        """Write all states of an n-gram table out, in the order in which they are reached."""
        trie, end = Trie.from_table(table), len(alphabet)
        nodes = [int(trie.states(torch.tensor([EMPTY]), torch.tensor([[end]]))[0, 0])]
        number = {nodes[0]: 0}
        moves: list[Ints] = []
        every = torch.arange(end)
        while len(moves) < len(nodes):  # states are found faster than they are written out
            frontier = torch.tensor(nodes[len(moves) :])
            after = trie.states(frontier.repeat_interleave(end), every.repeat(len(frontier))[:, None])
            for node in torch.unique(after).tolist():
                if node not in number:
                    number[node] = len(nodes)
                    nodes.append(node)
            moves += list(after.view(len(frontier), end).numpy())
        place = np.zeros(len(trie.word), dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        last = trie.word[torch.tensor(nodes)].numpy().copy()
        last[0] = -1
        return cls(alphabet, table, place[np.stack(moves)], _probabilities(trie, torch.tensor(nodes), end), last)

    @cached_property
    def _log_prob(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.prob)

    @property
    def n_states(self) -> int:
        return len(self.moves)

    def log_prob(self, strings: Sequence[str]) -> Floats:
        """log p of whole strings, their ends included, (n,)."""
        columns, lengths = self.alphabet.columns_of(strings)
        log_p, log_share = self._log_prob, self.alphabet.log_share
        state, total = np.zeros(len(strings), dtype=np.int64), np.zeros(len(strings))
        for t in range(columns.shape[1]):
            here = np.flatnonzero(lengths > t)
            column = columns[here, t]
            known = column >= 0
            total[here[~known]] = -np.inf  # a character that no string may hold
            here, column = here[known], column[known]
            total[here] += log_p[state[here], column] + log_share[column]
            state[here] = self.moves[state[here], column]
        log_q: Floats = total + log_p[state, -1]
        return log_q

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data and arrays."""
        plain, tensors = described(self.table)
        return {"characters": list(self.alphabet.characters), "table": plain}, {
            name: tensor.numpy() for name, tensor in tensors.items()
        }

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> CharacterModel:
        """The inverse of `described`."""
        table = table_from(plain["table"], {name: torch.from_numpy(array) for name, array in arrays.items()})
        return cls.of(table, Alphabet(plain["characters"]))


def _probabilities(trie: Trie, nodes: torch.Tensor, end: int) -> Floats:
    """Whole rows, which sum to one but for rounding: that is put right, (S, A + 1)."""
    rows = trie.rows(nodes)
    log_p = trie.log_prob[: end + 1] + rows.rest[:, None]
    log_p[rows.position, rows.word] = rows.log_prob
    prob = log_p.double().exp().numpy()
    return np.asarray(prob / prob.sum(1, keepdims=True), dtype=np.float64)
