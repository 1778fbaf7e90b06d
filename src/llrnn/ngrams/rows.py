"""Whole next-word distributions on CPU, one row after the other: each is one pass over V.

    row = unigrams + back-off, overwritten by the continuations of the contexts, shortest first

Continuations stand side by side in memory, so a context is one slice. The frequent last words (`the`, a comma) have
thousands of them and come again and again: the rows that they alone would give are kept, up to a limit.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llrnn.ngrams.trie import Trie

Row = NDArray[np.float32]

_MANY = 64  # continuations from which on keeping a row pays
_BYTES_KEPT = 128_000_000


class DenseRows:
    """log p of every word after given states, in float32."""

    def __init__(self, trie: Trie) -> None:
        self._trie = trie
        self._word, self._backoff = trie.word.numpy(), trie.backoff.float().numpy()
        self._log_prob = trie.log_prob.float().numpy()
        self._first, self._children = trie.first_child.numpy(), trie.children.numpy()
        self._unigrams = self._log_prob[: trie.n_words]
        self._kept: dict[int, Row] = {}
        self._at_most = _BYTES_KEPT // (4 * trie.n_words)

    def fill(self, states: Tensor, out: Tensor) -> None:
        """`out[n] = log p(· | states[n])`, (N,), (N, V)."""
        rows = out.numpy()
        contexts = torch.stack(self._trie.suffix_of_level(states), 1).tolist() if self._trie.order > 1 else []
        for row, state, chain in zip(rows, states.tolist(), contexts or [[]] * len(rows), strict=True):
            if not chain:
                row[:] = self._unigrams
                continue
            total = self._backoff[state]
            np.add(self._shortest(chain[0]), total - self._backoff[chain[0]], out=row)
            for context in chain[1:]:
                if context < 0:
                    break
                self._overwrite(row, context, total - self._backoff[context])

    def _overwrite(self, row: Row, context: int, shift: np.float32) -> None:
        listed = slice(self._first[context], self._first[context] + self._children[context])
        row[self._word[listed]] = self._log_prob[listed] + shift

    def _shortest(self, word: int) -> Row:
        """The row after one word."""
        if word in self._kept:
            return self._kept[word]
        row: Row = self._unigrams + self._backoff[word]
        self._overwrite(row, word, np.float32(0.0))
        if self._children[word] >= _MANY and len(self._kept) < self._at_most:
            self._kept[word] = row
        return row
