"""What backgrounds and contextual features have in common: a state that follows the prefix, symbol by symbol.

A user writes `initial` and `advance` (nothing at all, where the context plays no part); `scan` is their fold, and
`follow` the scan of a whole batch. A process that can do better than symbol by symbol (an n-gram model) overrides
`follow` and may keep its batch of states in a form of its own, such as a tensor.
"""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from torch import Tensor

from llrnn.ground.errors import LLRNNError
from llrnn.text.vocabulary import Revision, Vocabulary

State = Any
States = Any  # a batch of states: a sequence of them, or the form that a process gives them in `follow`


@dataclass(frozen=True)
class Saved:
    """A source of knowledge as it stands in a model folder: plain fields, tensors, and the sources it is made of."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    parts: tuple[Saved, ...] = ()


@dataclass(frozen=True)
class Parallel(Sequence[State]):
    """The states of several processes that go side by side, each batch in its own form."""

    n: int
    columns: tuple[States, ...]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: Any) -> Any:
        return tuple(column[index] for column in self.columns)

    def __iter__(self) -> Iterator[State]:
        return (self[n] for n in range(self.n))


class Process(ABC):
    """Something that reads a condition and then a prefix. States are values: `advance` returns a new one."""

    _vocabulary: Vocabulary | None = None

    @property
    def is_static(self) -> bool:
        """Whether neither condition nor prefix matter; then no state is kept and one answer holds everywhere."""
        return False

    @property
    def reads_conditions(self) -> bool:
        """Whether a condition can make a difference; one that begins in its own way is taken to read it."""
        return type(self).initial is not Process.initial and not self.is_static

    def bind(self, vocabulary: Vocabulary) -> Self:
        """This, for one vocabulary; a model binds what it is given."""
        bound = copy.copy(self)
        bound._vocabulary = vocabulary
        return bound

    @property
    def vocabulary(self) -> Vocabulary:
        if self._vocabulary is None:
            raise LLRNNError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")
        return self._vocabulary

    @property
    def state_key(self) -> object:
        """What its states are of: processes of which this is equal have equal states, and are followed once."""
        return id(self)

    def initial(self, condition: object = None) -> State:
        """The state before any symbol, given the condition."""
        return None

    def advance(self, state: State, symbol: int) -> State:
        """The state after one more symbol."""
        return state

    def scan(self, states: Sequence[State], rows: Sequence[Sequence[int]]) -> list[list[State]]:
        """For each row of symbols, the states after each of them, starting from its state."""
        return [self._follow(state, row) for state, row in zip(states, rows, strict=True)]

    def follow(
        self, states: Sequence[State], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[States, Sequence[State]]:
        """The states at the positions of a batch that count, row by row, and those after its last column.

        `inputs`, `mask` and `sentences` are (B, T). `sentences`, in training only, names the sentence of each position:
        knowledge that was estimated on the training text leaves out what it learnt from it (`CrossFitted`).
        """
        if self.is_static:
            return [], states
        seen = self.scan(states, inputs.tolist())
        kept = [s for row, keep in zip(seen, mask.tolist(), strict=True) for s, k in zip(row, keep, strict=True) if k]
        return kept, [row[-1] for row in seen]

    def _follow(self, state: State, row: Sequence[int]) -> list[State]:
        seen = []
        for symbol in row:
            state = self.advance(state, symbol)
            seen.append(state)
        return seen

    def revised(self, revision: Revision) -> Self:
        """The same knowledge, bound to a vocabulary with other words in it; it says of those that stay what it said.

        Up to one factor at each context, that is, which the log-linear layer makes good. Who cannot tell what it would
        say of a new word, as another neural model cannot, leaves this as it is.
        """
        raise LLRNNError(
            f"words cannot be added to {self!r} or removed from it: it speaks of the words that it was made with, as "
            "another neural model does; unigrams, n-grams, masks, priming, look-ups and what copies can take others"
        )

    def saved(self) -> Saved:
        """How a model folder holds this; one of the user's own is named, and given again at loading."""
        return Saved("custom", {"repr": repr(self)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
