"""What backgrounds and contextual features have in common: a state that follows the prefix, symbol by symbol.

    class LastWord(Process[int]):                            # S = int: what a state is
        def initial(self, condition=None) -> int: ...        # before any symbol
        def advance(self, state: int, symbol: int) -> int: ...

A user writes these two (neither, where the context plays no part); `scan` is their fold, and `follow` the scan of a
whole batch. A process that can do better than symbol by symbol (an n-gram model) overrides `follow`, and may keep its
batch of states in a form of its own, a `PackedStates`.
"""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self

from torch import Tensor
from typing_extensions import TypeVar

from llrnn.ground.errors import LLRNNError
from llrnn.text.vocabulary import Revision, Vocabulary

S = TypeVar("S", default=Any)  # what a state is; `Process` alone is a process of any states
State = Any  # of some process, where several kinds of them are kept side by side
States = Sequence[Any]  # of a constraint


@dataclass(frozen=True)
class Saved:
    """A source of knowledge as it stands in a model folder: plain fields, tensors, and the sources it is made of."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    parts: tuple[Saved, ...] = ()


class PackedStates(Sequence[S]):
    """A batch of states in a form that only its process reads, such as a tensor: it has a length, and no elements."""

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(f"the states in {type(self).__name__} cannot be taken one by one")


@dataclass(frozen=True)
class Parallel(PackedStates[tuple[State, ...]]):
    """The states of several processes side by side, each batch in its own form."""

    n: int
    columns: tuple[Sequence[State], ...]

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: Any) -> Any:
        return tuple(column[index] for column in self.columns)


class Process(ABC, Generic[S]):
    """Something that reads a condition and then a prefix. States are values: `advance` returns a new one."""

    _vocabulary: Vocabulary | None = None
    _error: type[LLRNNError] = LLRNNError  # what its misuse raises

    @property
    def is_static(self) -> bool:
        """Whether neither condition nor prefix matter; then no state is kept and one answer holds everywhere."""
        return False

    @property
    def reads_conditions(self) -> bool:
        """Whether a condition can make a difference; one that begins in its own way is taken to read it."""
        return type(self).initial is not Process.initial and not self.is_static

    def bind(self, vocabulary: Vocabulary) -> Self:
        """A copy for one vocabulary; a model binds what it is given."""
        bound = copy.copy(self)
        bound._vocabulary = vocabulary
        return bound

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that it is bound to; an error where there is none."""
        if self._vocabulary is None:
            raise self._unbound()
        return self._vocabulary

    def _unbound(self) -> LLRNNError:
        return self._error(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")

    @property
    def state_key(self) -> object:
        """Processes with equal keys have equal states, which a model computes once."""
        return id(self)

    def initial(self, condition: object = None) -> S:
        """The state before any symbol, given the condition."""
        return None  # type: ignore[return-value]  # without a context there is none

    def advance(self, state: S, symbol: int) -> S:
        """The state after one more symbol."""
        return state

    def scan(self, states: Sequence[S], rows: Sequence[Sequence[int]]) -> list[list[S]]:
        """For each row of symbols, the states after each of them, starting from its state."""
        seen: list[list[S]] = []
        for state, row in zip(states, rows, strict=True):
            seen.append([state := self.advance(state, symbol) for symbol in row])
        return seen

    def follow(
        self, states: Sequence[S], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[Sequence[S], Sequence[S]]:
        """The states at the positions of a batch that count, row by row, and those after its last column.

        `inputs`, `mask` and `sentences` are (B, T). `sentences`, in training only, names the sentence of each position:
        knowledge that was estimated on the training text leaves out what it learnt from it (`CrossFitted`).
        """
        if self.is_static:
            return [], states
        seen = self.scan(states, inputs.tolist())
        kept = [s for row, keep in zip(seen, mask.tolist(), strict=True) for s, k in zip(row, keep, strict=True) if k]
        return kept, [row[-1] for row in seen]

    def revised(self, revision: Revision) -> Self:
        """The same knowledge over a vocabulary with words added or removed; it says of the others what it said.

        Up to one factor at each context, which the log-linear layer cancels. A process that cannot tell what it would
        say of a new word, as another neural model cannot, does not override this.
        """
        raise LLRNNError(
            f"words cannot be added to {self!r} or removed from it: it speaks of the words that it was made with, as "
            "another neural model does; unigrams, n-grams, masks, priming, look-ups and what copies can take others"
        )

    def _changed(self, vocabulary: Vocabulary, **attributes: Any) -> Self:
        """A copy with other attributes, bound to another vocabulary: what `revised` returns."""
        made = copy.copy(self)
        vars(made).update(attributes)
        return made.bind(vocabulary)

    def saved(self) -> Saved:
        """How a model folder holds this; a class of the user's own is named, and given again at loading."""
        return Saved("custom", {"repr": repr(self)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
