"""Cross-fitted n-grams as one model: a batch of training sentences from all folds is answered at once.

The models of the whole text and of each fold are put side by side in one trie, in which word x of part p is the word
p · V + x. No n-gram joins words of two parts, so a state says by itself which part it belongs to:

    state after words x y of a sentence that part p answers for = state after p · V + x, p · V + y

`CrossFitted` does the same for any background, part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import numpy as np
import torch
from torch import Tensor

from llrnn.knowledge.backgrounds.crossfit import CrossFitted
from llrnn.knowledge.process import State, States
from llrnn.languages.ngrams import EMPTY, Level, NGramTable, Trie
from llrnn.layer.priors import Exceptions, Prior, SparsePrior, Table
from llrnn.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class _Nodes:
    """Nodes of the joined trie: the states of training."""

    nodes: Tensor

    def __len__(self) -> int:
        return len(self.nodes)


class FoldedNGram(CrossFitted):
    """Cross-fitted n-grams; outside training they are the model of the whole."""

    _tables: tuple[Table, ...]
    _tries: dict[torch.device, Trie]

    def bind(self, vocabulary: Vocabulary) -> Self:
        if self._vocabulary is vocabulary:
            return self  # it is large: one is enough for all who share it
        bound = super().bind(vocabulary)
        tables: list[NGramTable] = [part.table for part in bound._parts]  # type: ignore[attr-defined]
        bound._tables = tuple(Table(torch.from_numpy(table.levels[0].log_prob)) for table in tables)
        bound._tries = {torch.device("cpu"): Trie.from_table(joined(tables))}
        return bound

    def _trie(self, device: torch.device) -> Trie:
        if device not in self._tries:
            self._tries[device] = self._tries[torch.device("cpu")].to(device)
        return self._tries[device]

    def follow(
        self, states: Sequence[State], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[States, Sequence[State]]:
        if sentences is None:
            return super().follow(states, inputs, mask)
        trie = self._trie(inputs.device)
        # a state of the whole is met before the first word only, when there is nothing to know yet
        before = [int(state.nodes) if isinstance(state, _Nodes) else EMPTY for state in states]
        words = inputs + self._part_of(sentences, inputs) * len(self.vocabulary)
        seen = trie.states(torch.tensor(before, device=inputs.device), words)
        return _Nodes(seen[mask]), [_Nodes(last) for last in seen[:, -1].cpu()]

    def prior(self, states: States) -> Prior:
        if not isinstance(states, _Nodes):
            return super().prior(states)
        nodes = states.nodes
        trie, V = self._trie(nodes.device), len(self.vocabulary)
        rows = trie.rows(nodes)
        part = torch.div(trie.word[nodes], V, rounding_mode="floor")
        shift = rows.rest.new_full((len(nodes), len(self._tables)), float("-inf"))
        shift.scatter_(1, part[:, None], rows.rest[:, None])
        exceptions = Exceptions(rows.position, rows.word - (part * V)[rows.position], rows.log_prob)
        return SparsePrior(tuple(table.to(nodes.device) for table in self._tables), shift, exceptions)


def joined(tables: Sequence[NGramTable]) -> NGramTable:
    """One table in which word x of table p is the word p · V + x."""
    V, order = len(tables[0].words), max(table.order for table in tables)
    levels = []
    for n in range(order):
        own = [table.levels[n] if n < table.order else _EMPTY for table in tables]
        below = [0 if n == 0 else (len(table.levels[n - 1]) if n <= table.order else 0) for table in tables]
        begins = list(accumulate(below, initial=0))[:-1]  # where the contexts of each table begin
        levels.append(
            Level(
                np.concatenate([level.context + begin for level, begin in zip(own, begins, strict=True)]),
                np.concatenate([level.word + part * V for part, level in enumerate(own)]),
                np.concatenate([level.log_prob for level in own]),
                np.concatenate([level.log_backoff for level in own]),
            )
        )
    return NGramTable(tables[0].words * len(tables), tuple(levels))


_EMPTY = Level(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
