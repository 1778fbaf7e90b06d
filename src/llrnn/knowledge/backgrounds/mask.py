"""Backgrounds that say what may and may not follow, and the factor by which a condition makes words likely.

A mask is 1 or 0; `Priming`, the part of `Primed` that looks at the condition, is any number.
"""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.process import Saved, State, States
from llrnn.layer.priors import MINUS_INFINITY, Exceptions, Prior, SparsePrior, Table
from llrnn.text import conditions
from llrnn.text.corpus.acts import Act
from llrnn.text.revision import Revision
from llrnn.text.vocabulary import Vocabulary

Choice = Collection[str] | Callable[[object, tuple[str, ...]], Iterable[str]]
Evidence = Callable[[object], Mapping[str, float]]


class Mask(Background):
    """1 for what is allowed, 0 for what is forbidden.

    Give either `allowed` or `forbidden`: a set of symbols that holds everywhere, or a function that returns one for
    (condition, words of the sentence so far). Its words are then the exceptions at each position, whatever |V| is.
    """

    def __init__(self, *, allowed: Choice | None = None, forbidden: Choice | None = None) -> None:
        if (allowed is None) == (forbidden is None):
            raise BackgroundError("Mask takes either allowed=... or forbidden=..., one of them")
        self._allows = allowed is not None
        self._choice: Choice = allowed if allowed is not None else forbidden or frozenset()
        self._table: Table | None = None

    @property
    def is_static(self) -> bool:
        return not callable(self._choice)

    @property
    def _own(self) -> float:
        """log b of the chosen words."""
        return 0.0 if self._allows else MINUS_INFINITY

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        log_b = torch.full((len(vocabulary),), MINUS_INFINITY if self._allows else 0.0, dtype=torch.float64)
        if not callable(self._choice):
            log_b[vocabulary.ids(sorted(self._choice), place=repr(self))] = self._own
        bound._table = Table(log_b)
        return bound

    def revised(self, revision: Revision) -> Self:
        """A new word is one of the others: forbidden if only the chosen are allowed, and allowed if they are not."""
        return self.bind(revision.vocabulary)

    def initial(self, condition: object = None) -> State:
        return condition, ()

    def advance(self, state: State, symbol: int) -> State:
        condition, prefix = state
        if symbol == self.vocabulary.eos:
            return condition, ()
        return condition, (*prefix, self.vocabulary.symbols[symbol])

    def prior(self, states: States) -> Prior:
        if self._table is None:
            raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        if not callable(self._choice):
            return SparsePrior.static(self._table)
        chosen = [self._choice(condition, prefix) for condition, prefix in states]
        ids = [self.vocabulary.ids(words, place=repr(self)) for words in chosen]
        return SparsePrior.listed(self._table, [dict.fromkeys(row, self._own) for row in ids])

    def saved(self) -> Saved:
        if callable(self._choice):
            return super().saved()
        name = "allowed" if self._allows else "forbidden"
        return Saved("mask", {name: sorted(self._choice)})

    def __repr__(self) -> str:
        name = "allowed" if self._allows else "forbidden"
        if callable(self._choice):
            return f"Mask({name}={getattr(self._choice, '__name__', repr(self._choice))})"
        return f"Mask({name}={len(self._choice)} symbols)"


def words_of(condition: object) -> dict[str, float]:
    """The evidence in a condition by default: every word of a text, of a sequence, of the values of a record or act."""
    if condition is None:
        return {}
    if isinstance(condition, str | Act | Mapping):
        return dict.fromkeys(conditions.words_of(condition), 1.0)
    if isinstance(condition, Iterable):
        return {word: 1.0 for value in condition for word in words_of(value)}
    return {str(condition): 1.0}


class Priming(Background):
    """The factor beside the base: evidence(C)[x] · boost, absent, or 1. Its state is log b of what has evidence."""

    def __init__(
        self, entities: Collection[str], evidence: Evidence, boost: float, absent: float, cells: bool = False
    ) -> None:
        self.entities, self.evidence, self.cells = frozenset(entities), evidence, cells
        self.boost, self.absent = float(boost), float(absent)
        self.ids: dict[str, int] = {}
        self._of_cells: frozenset[int] = frozenset()
        self._table: Table | None = None
        self._last: tuple[Sequence[State], SparsePrior | None] = ((), None)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._last = ((), None)
        bound.ids = self._found(vocabulary)
        bound._of_cells = frozenset(symbol for symbol in bound.ids.values() if symbol >= len(vocabulary.words))
        log_b = torch.zeros(len(vocabulary), dtype=torch.float64)
        log_b[list(bound.ids.values())] = math.log(self.absent) if self.absent else MINUS_INFINITY
        bound._table = Table(log_b)
        return bound

    def _found(self, vocabulary: Vocabulary) -> dict[str, int]:
        """The ids of the entities, words and cells.

        One that is not listed is left out: its cell, or the symbol for unknown words, stands for all the others too.
        """
        n = len(vocabulary.words)
        cells = {name: cell for cell, name in enumerate(vocabulary.symbols[n:], n)}
        words = sorted(self.entities.difference(cells))
        vocabulary.locate(words, place="Primed(entities=...)")  # an error where a word is in no domain either
        listed = {word: vocabulary.id(word) for word in words if word in vocabulary}
        return listed | {name: cell for name, cell in cells.items() if self.cells or name in self.entities}

    def initial(self, condition: object = None) -> State:
        """Settled once for the whole sequence; of several words of one cell, the strongest speaks for it."""
        primed: dict[int, float] = {}
        for symbol, strength in self._with_evidence(self.evidence(condition)):
            if not strength < math.inf:
                word = self.vocabulary.symbols[symbol]
                raise BackgroundError(f"the evidence for {word!r} must be a number below infinity, found {strength}")
            log_b = math.log(strength * self.boost) if strength > 0 else MINUS_INFINITY
            primed[symbol] = max(log_b, primed.get(symbol, MINUS_INFINITY))
        return dict(sorted(primed.items()))

    def _with_evidence(self, found: Mapping[str, float]) -> Iterator[tuple[int, float]]:
        yield from ((self.ids[word], strength) for word, strength in found.items() if word in self.ids)
        others = [word for word in found if word not in self.ids and word not in self.vocabulary]
        if self._of_cells and others:
            cells = zip(self.vocabulary.cells_of(others).tolist(), others, strict=True)
            yield from ((cell, found[word]) for cell, word in cells if cell in self._of_cells)

    def follow(
        self, states: Sequence[State], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[States, Sequence[State]]:
        """No symbol changes a state, so none is looked at."""
        kept = [state for state, n in zip(states, mask.sum(1).tolist(), strict=True) for _ in range(int(n))]
        return kept, states

    def prior(self, states: States) -> Prior:
        """As `SparsePrior.listed`, for states that are sorted and known to be right; the last answer is remembered.

        No word changes a state, so a beam asks the same question at every step.
        """
        assert self._table is not None
        asked, answer = self._last
        if answer is not None and len(asked) == len(states) and all(map(operator.is_, asked, states)):
            return answer
        position = torch.repeat_interleave(torch.tensor([len(state) for state in states], dtype=torch.long))
        word = torch.tensor([symbol for state in states for symbol in state], dtype=torch.long)
        log_b = torch.tensor([log for state in states for log in state.values()], dtype=torch.float64)
        shift = torch.zeros(len(states), 1, dtype=torch.float64)
        answer = SparsePrior((self._table,), shift, Exceptions(position, word, log_b))
        self._last = tuple(states), answer
        return answer

    def revised(self, revision: Revision) -> Self:
        made = copy.copy(self)
        made.entities = self._revised_entities(self.vocabulary, revision.vocabulary)
        return made.bind(revision.vocabulary)

    def _revised_entities(self, old: Vocabulary, new: Vocabulary) -> frozenset[str]:
        """A word that leaves a cell is what the cell is; a name that goes to no cell and no unknown symbol is gone."""
        moved = [word for word in (*old.words, *new.words) if (word in old) != (word in new)]
        cells = dict(zip(moved, old.cells_of(moved).tolist(), strict=True))
        of_cells = {word for word, cell in cells.items() if cell in self._of_cells}
        nowhere = {word for word, cell in cells.items() if cell < 0 and word not in new and new.unknown is None}
        return (self.entities - nowhere - of_cells) | {word for word in of_cells if word in new}
