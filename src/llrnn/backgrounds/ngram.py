"""n-grams as a background: what was seen after the last few words.

b(K, x) = p(x | last n - 1 words)       listed continuations are exceptions, the rest is back-off · unigram

Its cost follows the continuations of the context and not |V|.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Self

import numpy as np
import torch
from torch import Tensor

from llrnn.backgrounds.base import Background
from llrnn.backgrounds.folded import FoldedNGram
from llrnn.corpus import Corpus
from llrnn.domain import Ints
from llrnn.errors import BackgroundError, EstimationWarning
from llrnn.ngrams import (
    EMPTY,
    DenseRows,
    Level,
    NGramTable,
    Rows,
    Trie,
    estimate,
    for_vocabulary,
    read_arpa,
    read_table,
)
from llrnn.ngrams.store import described, table_from
from llrnn.priors import Exceptions, Prior, SparsePrior, Table
from llrnn.process import Revision, Saved, State, States
from llrnn.text import Text
from llrnn.vocabulary import Vocabulary


class NGram(Background):
    """A back-off n-gram model. The state is the longest known suffix of the prefix, as a node of its trie."""

    def __init__(self, table: NGramTable, *, restrict: bool = False) -> None:
        self.table = table
        self._restrict = restrict
        self._tries: dict[torch.device, Trie] = {}
        self._unigrams: Table | None = None
        self._dense: DenseRows | None = None

    @classmethod
    def from_arpa(cls, path: str | PathLike[str], *, restrict: bool = False) -> NGram:
        """From an ARPA file, plain or gzip; `restrict` leaves out words that the vocabulary does not list."""
        return cls(read_arpa(path), restrict=restrict)

    @classmethod
    def from_path(cls, path: str | PathLike[str], *, restrict: bool = False) -> NGram:
        """From what `llrnn ngram estimate` wrote: an ARPA file or a folder."""
        return cls(read_table(path), restrict=restrict)

    @classmethod
    def from_corpus(
        cls,
        corpus: Corpus,
        *,
        order: int = 5,
        min_counts: Sequence[int] = (),
        folds: int = 10,
        restrict: bool = False,
    ) -> Background:
        """Modified Kneser-Ney, estimated when it is bound, over all words of the vocabulary.

        With folds (the default) it is cross-fitted: a model that trains on the same text sees, at each sentence, counts
        that were made without it. `folds=0` switches that off, for text that no model trains on. Words that the
        vocabulary does not list are an error, or with `restrict` counted and then left out.
        """

        def estimated(part: Corpus) -> Background:
            return _Estimated(part, order, tuple(min_counts), restrict)

        return FoldedNGram(estimated, corpus, folds=folds) if folds else estimated(corpus)

    @property
    def order(self) -> int:
        return self.table.order

    def bind(self, vocabulary: Vocabulary) -> Self:
        if self._vocabulary is vocabulary:
            return self  # it is large: one is enough for all who share it
        bound = super().bind(vocabulary)
        bound.table = for_vocabulary(self.table, vocabulary, restrict=self._restrict)
        bound._unigrams = Table(torch.from_numpy(bound.table.levels[0].log_prob))
        bound._dense = None
        bound._tries = {torch.device("cpu"): Trie.from_table(bound.table)}
        return bound

    def revised(self, revision: Revision) -> Self:
        made = copy.copy(self)
        made.table = _revised(self.table, revision)
        return made.bind(revision.vocabulary)

    def trie(self, device: torch.device) -> Trie:
        if not self._tries:
            raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        if device not in self._tries:
            self._tries[device] = self._tries[torch.device("cpu")].to(device)
        return self._tries[device]

    reads_conditions = False

    def initial(self, condition: object = None) -> State:
        return EMPTY

    def advance(self, state: State, symbol: int) -> State:
        return self.trie(torch.device("cpu")).advance(state, symbol)

    def follow(
        self, states: Sequence[State], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[States, Sequence[State]]:
        trie = self.trie(inputs.device)
        seen = trie.states(torch.tensor(list(states), dtype=torch.long, device=inputs.device), inputs)
        return seen[mask], seen[:, -1].tolist()

    def rows(self, states: States) -> Rows:
        """The next-word distributions of a batch of states, in the sparse form."""
        nodes = _as_tensor(states)
        return self.trie(nodes.device).rows(nodes)

    def prior(self, states: States) -> Prior:
        rows = self.rows(states)
        if self._unigrams is None:
            raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        exceptions = Exceptions(rows.position, rows.word, rows.log_prob)
        return SparsePrior((self._unigrams.to(rows.rest.device),), rows.rest.unsqueeze(-1), exceptions)

    def log_probs(self, states: States, *, out: Tensor | None = None) -> Tensor:
        """Whole distributions, log p of every word in float32, (N, V); `out` is filled where it is given."""
        nodes = _as_tensor(states)
        trie = self.trie(nodes.device)
        whole = torch.empty(len(nodes), trie.n_words, device=nodes.device) if out is None else out
        if nodes.device.type == "cpu":
            if self._dense is None:
                self._dense = DenseRows(trie)
            self._dense.fill(nodes, whole)
            return whole
        rows = trie.rows(nodes)
        torch.add(trie.log_prob[: trie.n_words].float(), rows.rest.float().unsqueeze(-1), out=whole)
        whole[rows.position, rows.word] = rows.log_prob.float()
        return whole

    def score(self, symbols: Sequence[int]) -> tuple[Tensor, Tensor]:
        """log p of every symbol of a text EOS, sentence, EOS, ... but the first, and the lengths of their n-grams."""
        trie = self.trie(torch.device("cpu"))
        text = torch.as_tensor(symbols, dtype=torch.long)
        states = trie.states(text[:1], text[None, :-1])[0]
        return trie.log_prob_of(states, text[1:])

    def saved(self) -> Saved:
        return Saved("ngram", *described(self.table))

    @classmethod
    def restored(cls, saved: Saved) -> NGram:
        """The inverse of `saved`."""
        return cls(table_from(saved.fields, saved.tensors))

    def __repr__(self) -> str:
        return f"NGram(order={self.order}, {self.table.size} n-grams)"


def _as_tensor(states: States) -> Tensor:
    return states if isinstance(states, Tensor) else torch.tensor(list(states), dtype=torch.long)


def _revised(table: NGramTable, revision: Revision) -> NGramTable:
    """New words have a unigram and nothing more; n-grams with a word that is gone, in whatever place, are gone."""
    unigrams, kept, ids = table.levels[0], revision.kept, revision.new_ids(len(table.words))
    V = len(kept)
    backoff = np.where(kept >= 0, unigrams.log_backoff[kept], 0.0)
    levels = [Level(np.zeros(V, dtype=np.int64), np.arange(V), revision.log_masses(unigrams.log_prob), backoff)]
    place = ids  # of each unigram
    for level in table.levels[1:]:
        moved, place = _moved(level, place, ids, revision)
        levels.append(moved)
    while len(levels) > 1 and len(levels[-1]) == 0:
        levels.pop()
    return NGramTable(revision.vocabulary.symbols, tuple(levels), table.notes)


def _moved(level: Level, place: Ints, ids: Ints, revision: Revision) -> tuple[Level, Ints]:
    """A level with new numbers, still sorted, and the new place of each old n-gram, -1 for those that are gone."""
    context, word = place[level.context], ids[level.word]
    rows = np.flatnonzero((context >= 0) & (word >= 0))
    log_prob = level.log_prob[rows] + revision.log_share[word[rows]]  # a cell that words left has less everywhere
    new_place = np.full(len(level), -1)
    new_place[rows] = np.arange(len(rows))
    return Level(context[rows], word[rows], log_prob, level.log_backoff[rows]), new_place


class _Estimated(Background):
    """An n-gram model that is estimated when the vocabulary is known."""

    def __init__(self, corpus: Corpus, order: int, min_counts: tuple[int, ...], restrict: bool) -> None:
        self._corpus, self._order, self._min_counts, self._restrict = corpus, order, min_counts, restrict

    def bind(self, vocabulary: Vocabulary) -> NGram:  # type: ignore[override]
        counted = self._counted_words(vocabulary)
        text = Text.to_train_on(self._corpus, counted)
        stream = replace(text, conditions=(None,) * len(text.sentences)).stream()
        table = estimate(stream, counted.symbols, order=self._order, min_counts=self._min_counts)
        for note in table.notes:
            warnings.warn(f"{self!r}: {note}", EstimationWarning, stacklevel=2)
        return NGram(table, restrict=self._restrict).bind(vocabulary)

    def _counted_words(self, vocabulary: Vocabulary) -> Vocabulary:
        """The vocabulary, and where others are left out later, behind it all other words of the text."""
        if not self._restrict or vocabulary.unknown is not None or vocabulary.is_open:
            return vocabulary
        return Vocabulary(dict.fromkeys([*vocabulary.symbols, *self._corpus.counts()]))

    def prior(self, states: States) -> Prior:
        raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")

    def __repr__(self) -> str:
        return f"NGram.from_corpus({len(self._corpus)} sentences, order={self._order})"
