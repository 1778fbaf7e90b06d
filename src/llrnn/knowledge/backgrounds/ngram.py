"""n-grams as a background: what was seen after the last few words.

b(K, x) = p(x | last n - 1 words)       listed continuations are exceptions, the rest is back-off · unigram

Its cost follows the continuations of the context and not |V|. Words that the model does not list have a part of
`<unk>`: they are a second static table, whose weight at a position is what `<unk>` has there.

Cross-fitting: knowledge that was estimated on the training text, without fooling itself.

An n-gram model is over-confident on the text that it was counted on: it has seen every word of it in its context. A
network that trains with such a model at its side learns to trust it too much. So the text is cut into k folds; each
training sentence sees the model that was estimated without its fold, every other text sees the model of the whole.

    b(K, x) at a training sentence s = b_{text without fold(s)}(K, x)          fold(s) = key(s) mod k

The fold follows from the words of the sentence, so that equal sentences share their fold and no order has to be kept.

Cross-fitted n-grams as one model: a batch of training sentences from all folds is answered at once.

The models of the whole text and of each fold are put side by side in one trie, in which word x of part p is the word
p · V + x. No n-gram joins words of two parts, so a state says by itself which part it belongs to:

    state after words x y of a sentence that part p answers for = state after p · V + x, p · V + y
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import BackgroundError, EstimationWarning, TrainingError
from llrnn.knowledge.backgrounds.base import Background, UnboundBackground
from llrnn.knowledge.process import Batch, PackedStates, S, Saved
from llrnn.languages.ngrams import table as ngrams
from llrnn.languages.ngrams.arpa import SHARING, described, read_table, table_from
from llrnn.languages.ngrams.kneser_ney import estimate
from llrnn.languages.ngrams.trie import DenseRows, NGramRows, Trie
from llrnn.layer.priors import Exceptions, Prior, SparsePrior, Table
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText, sentence_key
from llrnn.text.vocabulary import Revision, Vocabulary


class FoldNode(NamedTuple):
    """The state of `CrossFitted` n-grams in training: the index of a node in the joint trie of all folds' n-grams.

    A fold is a part of the training text; its n-grams are estimated without it. `node`: the index.
    """

    node: int


@dataclass(frozen=True, eq=False)
class Nodes(PackedStates[S]):
    """A batch of N states of an n-gram model: the indices of nodes in its trie, an integer tensor (N,).

    `nodes`: that tensor; `n`: N.
    """

    nodes: Tensor


class FoldNodes(Nodes[FoldNode]):
    """A batch of N states of `CrossFitted` n-grams in training: indices of nodes in the joint trie of all folds, (N,).

    A fold is a part of the training text; its n-grams are estimated without it.
    """


class CrossFitted(Background[Any]):
    """A background (prior over the next word) of n-grams that is not over-confident on the text they were estimated on.

    The training text is cut into folds. A model that trains on it sees, at each sentence, n-grams that were estimated
    without the sentence's fold; at any other text it sees n-grams of the whole corpus.

    make        a function from a corpus to an unbound background whose `bind` returns an `NGram`;
                `NGram.from_corpus(corpus, folds=10)` makes a `CrossFitted` with the usual one
    corpus      the text that a model with this background trains on
    folds       the number of folds, 2 or more; a sentence's fold follows from a hash of its words

        CrossFitted(lambda part: NGram.from_corpus(part, order=3, folds=0), corpus, folds=5)
    """

    _tables: tuple[Table, ...] = ()
    _tries: dict[torch.device, Trie]

    def __init__(self, make: Callable[[Corpus], Background], corpus: Corpus, *, folds: int = 10) -> None:
        if folds < 2:
            raise BackgroundError(f"cross-fitting needs 2 folds or more, found {folds}")
        fold_of = [sentence_key(sentence.words) % folds for sentence in corpus]
        if len(set(fold_of)) < 2:
            raise BackgroundError(
                f"{folds} folds of {len(corpus)} sentences leave nothing to estimate on; give more text, or folds=0"
            )
        others = ([s for s, own in zip(corpus, fold_of, strict=True) if own != fold] for fold in range(folds))
        without = (Corpus.from_sentences(sentences, name=corpus.name) for sentences in others)
        self._folds, self._parts = folds, tuple(make(part) for part in (corpus, *without))

    @classmethod
    def restored(cls, whole: Background, folds: int) -> Background:
        """Return the background from a model folder, which stores `whole`, the n-grams of all of the text, alone.

        The background is a prior over the next word; it can be used, but training with it raises a TrainingError. A
        `whole` that is no `NGram` is returned itself. `folds`: into how many parts the training text had been cut.
        """
        if not isinstance(whole, NGram):
            return whole  # other backgrounds were cross-fitted too, once
        made = cls.__new__(cls)
        made._folds, made._parts = folds, (whole,)
        return made

    @property
    def whole(self) -> Background:
        """The n-gram background (prior) that was estimated on all of the corpus; used outside training."""
        return self._parts[0]

    def bind(self, vocabulary: Vocabulary) -> Self:
        if self._vocabulary is vocabulary:
            return self  # it is large: one is enough for all who share it
        bound = super().bind(vocabulary)
        whole = self.whole.bind(vocabulary)
        with warnings.catch_warnings():  # what there is to say of the folds, the whole has said
            warnings.simplefilter("ignore", EstimationWarning)
            bound._parts = (whole, *(part.bind(vocabulary) for part in self._parts[1:]))
        if len(self._parts) > 1:
            tables: list[ngrams.NGramTable] = [part.table for part in bound._parts]  # type: ignore[attr-defined]
            bound._tables = tuple(Table(torch.from_numpy(table.levels[0].log_prob)) for table in tables)
            bound._tries = {torch.device("cpu"): Trie.from_table(joined(tables))}
        return bound

    def revised(self, revision: Revision) -> Self:
        return self._changed(revision.vocabulary, _parts=tuple(part.revised(revision) for part in self._parts))

    def _trie(self, device: torch.device) -> Trie:
        if device not in self._tries:
            self._tries[device] = self._tries[torch.device("cpu")].to(device)
        return self._tries[device]

    reads_conditions = False

    def initial(self, condition: object = None) -> Any:
        return self.whole.initial(condition)

    def advance(self, state: Any, symbol: int) -> Any:
        return self.whole.advance(state, symbol)

    def follow(self, states: Sequence[Any], batch: Batch) -> tuple[Sequence[Any], Sequence[Any]]:
        if batch.sentences is None:
            return self.whole.follow(states, batch)
        if len(self._parts) == 1:
            raise TrainingError(
                f"{self!r} was estimated on the text of an earlier training, and its folds are not kept in the model "
                "folder; give it again: llrnn.load(folder, background=..., contextual=[...])"
            )
        inputs = batch.inputs
        # a state of the whole is met before the first word only, when there is nothing to know yet
        before = [state.node if isinstance(state, FoldNode) else ngrams.EMPTY for state in states]
        words = inputs + (batch.sentences % self._folds + 1) * len(self.vocabulary)
        seen = self._trie(inputs.device).states(torch.tensor(before, device=inputs.device), words)
        return FoldNodes(batch.n_positions, seen[batch.mask]), [FoldNode(node) for node in seen[:, -1].tolist()]

    def prior(self, states: Sequence[Any]) -> Prior:
        if not isinstance(states, FoldNodes):
            return self.whole.prior(states)
        nodes = states.nodes
        trie, V = self._trie(nodes.device), len(self.vocabulary)
        rows = trie.rows(nodes)
        part = torch.div(trie.word[nodes], V, rounding_mode="floor")
        shift = rows.rest.new_full((len(nodes), len(self._tables)), float("-inf"))
        shift.scatter_(1, part[:, None], rows.rest[:, None])
        exceptions = Exceptions(rows.position, rows.word - (part * V)[rows.position], rows.log_prob)
        return SparsePrior(tuple(table.to(nodes.device) for table in self._tables), shift, exceptions)

    def saved(self) -> Saved:
        return Saved("crossfitted", {"folds": self._folds}, parts=(self.whole.saved(),))

    def __repr__(self) -> str:
        return f"{self.whole!r} in {self._folds} folds"


def joined(tables: Sequence[ngrams.NGramTable]) -> ngrams.NGramTable:
    """Return one n-gram table that holds several tables over the same V words side by side.

    Word x of table p is word p · V + x of the result; no n-gram has words of two tables. The order of the result is the
    highest of the tables' orders.
    """
    V, order = len(tables[0].words), max(table.order for table in tables)
    levels = []
    for n in range(order):
        own = [table.levels[n] if n < table.order else _EMPTY for table in tables]
        below = [0 if n == 0 else (len(table.levels[n - 1]) if n <= table.order else 0) for table in tables]
        begins = list(accumulate(below, initial=0))[:-1]  # where the contexts of each table begin
        levels.append(
            ngrams.Level(
                np.concatenate([level.context + begin for level, begin in zip(own, begins, strict=True)]),
                np.concatenate([level.word + part * V for part, level in enumerate(own)]),
                np.concatenate([level.log_prob for level in own]),
                np.concatenate([level.log_backoff for level in own]),
            )
        )
    return ngrams.NGramTable(tables[0].words * len(tables), tuple(levels))


_EMPTY = ngrams.Level(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))


class NGram(Background[int]):
    """A background (prior over the next word) of back-off n-grams: b(K, x) = p(x | last n − 1 words).

    A state is the index of a node in the trie of n-grams: the longest end of the text so far that the table lists.

    table       the n-grams
    restrict    False: binding raises an error if the model lists words that the vocabulary does not; True: they are
                dropped

        NGram.from_corpus(train, order=5)
        NGram.from_path("web.arpa.gz", restrict=True)
    """

    def __init__(self, table: ngrams.NGramTable, *, restrict: bool = False) -> None:
        self.table = table
        self._restrict = restrict
        self._tries: dict[torch.device, Trie] = {}
        self._static: tuple[Table, ...] = ()  # unigrams; those of the words that share `<unk>` apart
        self._dense: DenseRows | None = None

    @classmethod
    def from_path(cls, path: str | PathLike[str], *, restrict: bool = False) -> NGram:
        """Return the n-gram background (prior) in an ARPA file (also gzip), or in a folder of `llrnn ngram estimate`.

        `restrict`: drop words that the vocabulary does not list, instead of an error when it is bound to one.
        """
        return cls(read_table(path), restrict=restrict)

    @classmethod
    def from_corpus(
        cls, corpus: Corpus, *, order: int = 5, min_counts: Sequence[int] = (), folds: int = 10, restrict: bool = False
    ) -> Background:
        """Return a prior of modified Kneser-Ney n-grams, which are estimated when it is bound to a vocabulary.

        order       the length of the longest n-grams
        min_counts  min_counts[n − 1] is the count below which n-grams of n words are dropped; the last entry holds for
                    longer ones too; (): none are
        folds       parts for cross-fitting (`CrossFitted`): a model that trains on the same text sees, at each
                    sentence, counts made without it; 0: none, for text that no model trains on
        restrict    False: words that the vocabulary does not list are an error; True: they are counted and then left
                    out

            NGram.from_corpus(train, order=3, folds=0)
        """

        estimated = partial(_Estimated, order=order, min_counts=tuple(min_counts), restrict=restrict)
        return CrossFitted(estimated, corpus, folds=folds) if folds else estimated(corpus)

    @property
    def order(self) -> int:
        return self.table.order

    def bind(self, vocabulary: Vocabulary) -> Self:
        if self._vocabulary is vocabulary:
            return self  # it is large: one is enough for all who share it
        bound = super().bind(vocabulary)
        bound.table = ngrams.for_vocabulary(self.table, vocabulary, restrict=self._restrict)
        bound._static = _static_tables(bound.table)
        bound._dense = None
        bound._tries = {torch.device("cpu"): Trie.from_table(bound.table)}
        return bound

    def revised(self, revision: Revision) -> Self:
        return self._changed(revision.vocabulary, table=ngrams.revised(self.table, revision))

    def trie(self, device: torch.device) -> Trie:
        if not self._tries:
            raise self._unbound()
        if device not in self._tries:
            self._tries[device] = self._tries[torch.device("cpu")].to(device)
        return self._tries[device]

    reads_conditions = False

    def initial(self, condition: object = None) -> int:
        return ngrams.EMPTY

    def advance(self, state: int, symbol: int) -> int:
        return self.trie(torch.device("cpu")).advance(state, symbol)

    def follow(self, states: Sequence[int], batch: Batch) -> tuple[Nodes[int], Sequence[int]]:
        inputs = batch.inputs
        before = torch.tensor(list(states), dtype=torch.long, device=inputs.device)
        seen = self.trie(inputs.device).states(before, inputs)
        return Nodes(batch.n_positions, seen[batch.mask]), seen[:, -1].tolist()

    def rows(self, states: Sequence[int] | Tensor) -> NGramRows:
        """Return the next-word distributions at N states in sparse form, as `NGramRows`.

        These list E words, `position` (index of the state), `word` (id) and `log_prob`, (E,) each; log p of any other
        word is its unigram log p plus `rest` (N,). That does not hold for words of the vocabulary without n-grams,
        which share the probability of `<unk>` (see `prior`). `states`: indices of nodes of the trie, as `advance`
        returns them.
        """
        nodes = _as_tensor(states)
        rows = self.trie(nodes.device).rows(nodes)
        if self.table.shared is None or not self.table.shared.hidden:
            return rows
        seen = rows.word != self.table.shared.word
        return NGramRows(rows.rest, rows.position[seen], rows.word[seen], rows.log_prob[seen])

    def prior(self, states: Sequence[int]) -> Prior:
        nodes = _as_tensor(states)
        rows = self.rows(nodes)
        shift = [rows.rest]
        if self.table.shared is not None:  # log p(<unk> | state) − log p(<unk>): what its words have above unigrams
            trie, word = self.trie(nodes.device), torch.full_like(nodes, self.table.shared.word)
            log_prob, length = trie.log_prob_of(nodes, word)
            shift.append(torch.where(length > 1, log_prob - trie.log_prob[word], rows.rest))  # else exactly as the rest
        tables = tuple(table.to(nodes.device) for table in self._static)
        return SparsePrior(tables, torch.stack(shift, 1), Exceptions(rows.position, rows.word, rows.log_prob))

    def log_probs(self, states: Sequence[int] | Tensor, *, out: Tensor | None = None) -> Tensor:
        """Return log p of every word at N states, (N, V) float32.

        `states`: indices of nodes of the trie, as `advance` returns them; `out`: a tensor to write the result into,
        None for a new one.
        """
        nodes = _as_tensor(states)
        trie = self.trie(nodes.device)
        if self.table.shared is not None:
            written = self.prior(Nodes(len(nodes), nodes)).dense(len(nodes), torch.float32).log_b
            return written if out is None else out.copy_(written)
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

    def score(self, symbols: Sequence[int] | Ints) -> tuple[Tensor, Tensor]:
        """Return log p of every symbol but the first, and the length of the n-gram it was found with, both (n − 1,).

        `symbols`: n ids of a text EOS, sentence, EOS, sentence, …, EOS. The length counts the symbol itself: 1 for a
        unigram, up to `order`. log p is in nats, given the symbols before.

        Example:

            ngram.score([vocabulary.eos, *vocabulary.ids(["le", "chat"]), vocabulary.eos])  # two tensors, (3,)
        """
        log_prob, length = self.trie(torch.device("cpu")).scorer.score(symbols)
        return torch.from_numpy(log_prob), torch.from_numpy(length)

    def saved(self) -> Saved:
        data, arrays = described(self.table)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return Saved("ngram" if self.table.shared is None else SHARING, data, tensors)

    @classmethod
    def restored(cls, saved: Saved) -> NGram:
        """Make the n-gram background (prior over the next word) from what its method `saved` returned."""
        return cls(table_from(saved.fields, {name: tensor.numpy() for name, tensor in saved.tensors.items()}))

    def __repr__(self) -> str:
        return f"NGram(order={self.order}, {self.table.size} n-grams)"


def over_own_words(table: ngrams.NGramTable) -> NGram:
    """Return an n-gram background (prior) bound to a vocabulary of exactly the words that the table lists.

    If the table has `<unk>`, it stands for all other words.
    """
    return NGram(table).bind(ngrams.own_vocabulary(table))


_LISTED, _GAP, _SAMPLED = 0.9, 1.0, 2000  # share of n-grams, nats a word, sentences


def estimated_on(table: ngrams.NGramTable, corpus: Corpus, held_out: Corpus | None = None) -> str | None:
    """Return a message with evidence that n-grams were estimated on `corpus`; None if there is none.

    Evidence is that at least 90 % of the corpus's n-grams of the table's order are listed (looked at for an order above
    2), or that the mean −log p of its words is over 1 nat below that of the words of `held_out` (None: not looked at).

        estimated_on(read_arpa("corpus.arpa"), train, valid)
    """
    ngram = over_own_words(ngrams.with_unknown(table))
    nats, listed = _fit(ngram, corpus)
    if ngram.order > 2 and listed >= _LISTED:
        return f"{listed:.0%} of its {ngram.order}-grams are listed"
    other = _fit(ngram, held_out)[0] if held_out is not None and len(held_out) else nats
    return f"its words have {nats:.2f} nats, those of held-out text {other:.2f}" if other > nats + _GAP else None


def _fit(ngram: NGram, corpus: Corpus) -> tuple[float, float]:
    """Return the mean −log p per listed word, in nats, and the share of full-length n-grams that are listed.

    About 2,000 sentences of the corpus are looked at, evenly spread. The share is, among the known words before which
    at least order − 1 symbols stand (EOS included), of those whose n-gram of length `order` is in the table.
    """
    some = corpus[:: max(1, len(corpus) // _SAMPLED)]
    plain = Corpus.from_sentences([sentence.words for sentence in some])
    text = EncodedText.encode(plain, ngram.vocabulary)
    log_prob, length = ngram.score(text.stream())
    place = np.concatenate([np.arange(n) for n in text.lengths])
    known = torch.from_numpy(np.concatenate([[*(w in ngram.vocabulary for w in s.words), True] for s in plain]))
    deep = torch.from_numpy(place >= ngram.order - 2) & known
    nats = float(-log_prob[known].mean()) if known.any() else 0.0
    return nats, float((length[deep] == ngram.order).double().mean()) if deep.any() else 0.0


def _static_tables(table: ngrams.NGramTable) -> tuple[Table, ...]:
    """Return the unigram log-probabilities of an n-gram model as one table over the vocabulary, (V,), or two.

    Two where words without n-grams share the probability of `<unk>`: the first has all other words, the second these,
    each minus infinity elsewhere. At a position the first is shifted by the log back-off weight of the context, the
    second by log p(`<unk>` | context) less the unigram log p of `<unk>`, so that they cannot be one table.
    """
    log_prob = torch.from_numpy(table.levels[0].log_prob[: len(table.symbols)])
    if table.shared is None:
        return (Table(log_prob),)
    shares = torch.zeros_like(log_prob, dtype=torch.bool)
    shares[table.shared.words] = True
    return tuple(Table(log_prob.masked_fill(without, float("-inf"))) for without in (shares, ~shares))


def _as_tensor(states: Sequence[int] | Tensor) -> Tensor:
    if isinstance(states, Nodes):
        return states.nodes
    return states if isinstance(states, Tensor) else torch.tensor(list(states), dtype=torch.long)


class _Estimated(UnboundBackground):
    """A background (prior) of n-grams of a corpus, which are estimated when it is bound: `bind` returns an `NGram`.

    order       the length of the longest n-grams
    min_counts  min_counts[n − 1] is the count below which n-grams of n words are dropped; the last entry holds for
                longer ones too; (): none are
    restrict    False: words that the vocabulary does not list are an error; True: they are counted and then dropped
    """

    def __init__(self, corpus: Corpus, order: int, min_counts: tuple[int, ...], restrict: bool) -> None:
        self._corpus, self._order, self._min_counts, self._restrict = corpus, order, min_counts, restrict

    def bind(self, vocabulary: Vocabulary) -> NGram:  # type: ignore[override]
        counted = vocabulary
        if self._restrict and vocabulary.unknown is None and not vocabulary.is_open:  # others are left out later
            counted = Vocabulary(dict.fromkeys([*vocabulary.symbols, *self._corpus.counts()]))
        text = EncodedText.to_train_on(self._corpus, counted)
        stream = replace(text, conditions=(None,) * len(text.sentences)).stream()
        table = estimate(stream, counted.symbols, order=self._order, min_counts=self._min_counts)
        for note in table.notes:
            warnings.warn(f"{self!r}: {note}", EstimationWarning, stacklevel=2)
        return NGram(table, restrict=self._restrict).bind(vocabulary)

    def __repr__(self) -> str:
        return f"NGram.from_corpus({len(self._corpus)} sentences, order={self._order})"
