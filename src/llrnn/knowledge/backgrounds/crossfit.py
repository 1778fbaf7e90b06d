"""Cross-fitting: knowledge that was estimated on the training text, without fooling itself.

An n-gram model is over-confident on the text that it was counted on: it has seen every word of it in its context. A
network that trains with such a model at its side learns to trust it too much. So the text is cut into k folds; each
training sentence sees the model that was estimated without its fold, every other text sees the model of the whole.

    b(K, x) at a training sentence s = b_{text without fold(s)}(K, x)          fold(s) = key(s) mod k

The fold follows from the words of the sentence, so that equal sentences share their fold and no order has to be kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor

from llrnn.ground.errors import BackgroundError, EstimationWarning, TrainingError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.process import PackedStates, Saved, State
from llrnn.layer.priors import DensePrior, Exceptions, Prior, SparsePrior
from llrnn.text.corpus import Corpus
from llrnn.text.ids import sentence_key
from llrnn.text.vocabulary import Revision, Vocabulary

_WHOLE = 0  # the part that was estimated on everything; fold f is part f + 1


class FoldState(NamedTuple):
    """Which part answers, its own state, and the condition, with which another part begins."""

    part: int
    own: State
    condition: object


@dataclass(frozen=True)
class FoldedStates(PackedStates[FoldState]):
    """A batch of N states, part by part: the positions that belong to it, and the states of its own there."""

    n: int
    parts: tuple[tuple[int, Tensor, Sequence[State]], ...]  # (part, positions, states)

    def __len__(self) -> int:
        return self.n


class CrossFitted(Background[FoldState]):
    """A background estimated by `make(corpus)`, on everything and without each of `folds` folds.

    CrossFitted(lambda corpus: Unigram.from_corpus(corpus, smoothing=1.0), train, folds=10)
    """

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
    def restored(cls, whole: Background, folds: int) -> CrossFitted:
        """From a model folder, which keeps the model of the whole text only."""
        made = cls.__new__(cls)
        made._folds, made._parts = folds, (whole,)
        return made

    @property
    def whole(self) -> Background:
        """The background that was estimated on all of the text."""
        return self._parts[_WHOLE]

    def bind(self, vocabulary: Vocabulary) -> Self:
        if self._vocabulary is vocabulary:
            return self  # it is large: one is enough for all who share it
        bound = super().bind(vocabulary)
        whole = self.whole.bind(vocabulary)
        with warnings.catch_warnings():  # what there is to say of the folds, the whole has said
            warnings.simplefilter("ignore", EstimationWarning)
            bound._parts = (whole, *(part.bind(vocabulary) for part in self._parts[1:]))
        return bound

    def revised(self, revision: Revision) -> Self:
        return self._changed(revision.vocabulary, _parts=tuple(part.revised(revision) for part in self._parts))

    @property
    def reads_conditions(self) -> bool:
        return self.whole.reads_conditions

    def initial(self, condition: object = None) -> FoldState:
        return FoldState(_WHOLE, self.whole.initial(condition), condition)

    def advance(self, state: FoldState, symbol: int) -> FoldState:
        part, own, condition = state
        return FoldState(part, self._parts[part].advance(own, symbol), condition)

    def follow(
        self, states: Sequence[FoldState], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[Sequence[FoldState], Sequence[FoldState]]:
        which = self._part_of(sentences, inputs)
        number = (mask.reshape(-1).cumsum(0) - 1).view(mask.shape)  # of each position that counts
        found: list[tuple[int, Tensor, Sequence[State]]] = []
        after = list(states)
        for part in torch.unique(which).tolist():
            rows = torch.nonzero((which == part).any(1)).view(-1)
            counts = mask[rows] & (which[rows] == part)
            # a part goes on from its own state, or begins where another part came before
            before = [states[row] for row in rows.tolist()]
            own = [s.own if s.part == part else self._parts[part].initial(s.condition) for s in before]
            seen, last = self._parts[part].follow(own, inputs[rows], counts)
            found.append((part, number[rows][counts], seen))
            for row, state in zip(rows.tolist(), last, strict=True):
                if which[row, -1] == part:
                    after[row] = FoldState(part, state, states[row].condition)
        return FoldedStates(int(mask.sum()), tuple(found)), after

    def _part_of(self, sentences: Tensor | None, inputs: Tensor) -> Tensor:
        """Which part answers at each position, (B, T)."""
        if sentences is None:
            return torch.full_like(inputs, _WHOLE)
        if len(self._parts) == 1:
            raise TrainingError(
                f"{self!r} was estimated on the text of an earlier training, and its folds are not kept in the model "
                "folder; give it again: llrnn.load(folder, background=..., contextual=[...])"
            )
        return sentences % self._folds + 1

    def prior(self, states: Sequence[FoldState]) -> Prior:
        folded = _folded(states)
        return stitched_priors([(at, self._parts[part].prior(own)) for part, at, own in folded.parts], folded.n)

    def saved(self) -> Saved:
        return Saved("crossfitted", {"folds": self._folds}, parts=(self.whole.saved(),))

    def __repr__(self) -> str:
        return f"{self.whole!r} in {self._folds} folds"


def _folded(states: Sequence[FoldState]) -> FoldedStates:
    """States one by one, sorted into the form that `follow` makes."""
    if isinstance(states, FoldedStates):
        return states
    parts = sorted({state.part for state in states}) or [_WHOLE]
    at = {part: [n for n, state in enumerate(states) if state.part == part] for part in parts}
    own = tuple((part, torch.tensor(at[part], dtype=torch.long), [states[n].own for n in at[part]]) for part in parts)
    return FoldedStates(len(states), own)


def stitched_priors(pieces: Sequence[tuple[Tensor, Prior]], n: int) -> Prior:
    """One prior from priors over some positions each: tables side by side, each with mass at its own positions."""
    if len(pieces) == 1 and len(pieces[0][0]) == n:
        return pieces[0][1]
    if any(isinstance(prior, DensePrior) for _, prior in pieces):
        dense = [(at, prior.dense(len(at)).log_b) for at, prior in pieces]
        order = torch.argsort(torch.cat([at for at, _ in dense]))
        return DensePrior(torch.cat([log_b for _, log_b in dense])[order])
    sparse = [(at, prior) for at, prior in pieces if isinstance(prior, SparsePrior)]
    tables = tuple(table for _, prior in sparse for table in prior.tables)
    shift = sparse[0][1].shift.new_full((n, len(tables)), float("-inf"))
    column = 0
    for at, prior in sparse:
        width = len(prior.tables)
        shift[at, column : column + width] = prior.shift.expand(len(at), -1)
        column += width
    position, order = torch.cat([at[prior.exceptions.position] for at, prior in sparse]).sort(stable=True)
    word = torch.cat([prior.exceptions.word for _, prior in sparse])[order]
    log_b = torch.cat([prior.exceptions.log_b for _, prior in sparse])[order]
    return SparsePrior(tables, shift, Exceptions(position, word, log_b))
