"""Whole next-word distributions on CPU, one row after the other: each is one pass over V.

    row = unigrams + back-off, overwritten by the continuations of the contexts, shortest first

Continuations stand side by side in memory, so a context is one slice. The frequent contexts (`the`, `of the`) have
thousands of them and come again and again: their rows are kept, up to a limit, and what follows a longer context
begins from the longest that is.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from llrnn.languages.ngrams.trie import EMPTY, Trie, ranges

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
            found = self._made(context)
            if len(self._kept) < self._at_most:
                self._kept[context] = found
        return found

    def _made(self, context: int) -> Row:
        rows = self._trie.rows(torch.tensor([context]))
        made = self._log_prob[: self._trie.n_words] + rows.rest.float()
        made[rows.word] = rows.log_prob.float()
        row: Row = made.numpy()
        return row
