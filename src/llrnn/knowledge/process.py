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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain, repeat
from typing import Any, Generic, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import TypeVar

from llrnn.ground.errors import CheckpointError, LLRNNError, quoted
from llrnn.ground.plugins import find_kind
from llrnn.text.vocabulary import Revision, Vocabulary

S = TypeVar("S", default=Any)  # what a state is; `Process` alone is a process of any states
State = Any  # of some process, where several kinds of them are kept side by side


@dataclass(frozen=True)
class Saved:
    """A source of knowledge as a model folder stores it: its kind, plain fields, tensors, and its parts, stored
    likewise.

    Example:

        Saved("static", {"name": "Unigram"}, {"log_b": log_b})
    """

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    parts: tuple[Saved, ...] = ()


# kinds that model folders may still hold: what to use instead
REMOVED = {
    "grammar_state": "hold the model to its grammar by [background] grammar, and train again without this input",
    "pointed_words": "give the same feature as [[contextual]], and train again without this input",
    "gated": "mix its members again with fixed weights: llrnn model mix",
    "opinion": "give the n-grams as [[contextual]] kind = 'expert', and train again without this input",
}


def own_restorer(saved: Saved, group: str, base: type, again: str) -> Callable[[Saved], Any]:
    """Return `restored` of a class that another package registers under this kind; raise if there is none."""
    what = "contextual feature" if group == "contextual" else group.replace("_", " ").removesuffix("s")
    if saved.kind == "custom":
        raise CheckpointError(
            f"the model was saved with a {what} of your own, {saved.fields.get('repr')}: "
            f"give it again at loading, llrnn.load(folder, {again})"
        )
    if saved.kind in REMOVED:
        raise CheckpointError(f"this llrnn has no {what} {quoted(saved.kind)} any more; {REMOVED[saved.kind]}")
    found = find_kind(group, saved.kind, base, CheckpointError)
    if found is None:
        raise CheckpointError(
            f"unknown kind of {what} {quoted(saved.kind)}: it needs a newer llrnn, or the package that has it"
        )
    restored: Callable[[Saved], Any] = found.restored
    return restored


@dataclass(frozen=True, eq=False)
class PackedStates(Sequence[S]):
    """A batch of states in a form that only its process reads, such as a tensor: it has a length, but no elements."""

    n: int

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(f"the states in {type(self).__name__} cannot be taken one by one")

    def taken(self, places: Sequence[int]) -> PackedStates[S] | None:
        """Return the states at some places; None if the process has to compute them anew."""
        return None


@dataclass(frozen=True)
class Parallel(PackedStates[tuple[State, ...]]):
    """States of several processes side by side, each batch in its own form."""

    columns: tuple[Sequence[State], ...]

    def __getitem__(self, index: Any) -> Any:
        return tuple(column[index] for column in self.columns)


class Process(ABC, Generic[S]):
    """Something with a state that reads a condition, then the words of a prefix: a background, feature or input.

    A subclass has `initial(condition)` and `advance(state, symbol)`. States are values: `advance` returns a new one.

        process = process.bind(vocabulary)
        state = process.advance(process.initial(condition), vocabulary.ids(["le"])[0])
    """

    _vocabulary: Vocabulary | None = None
    _error: type[LLRNNError] = LLRNNError  # what its misuse raises
    needs_condition = False  # whether there must be one
    text_before = 0  # how many words before a sentence it looks at, where the condition is a `Before`

    @property
    def is_static(self) -> bool:
        """Whether neither condition nor prefix matter; then no state is kept and one answer holds everywhere."""
        return False

    @property
    def reads_conditions(self) -> bool:
        """Whether a condition can make a difference: by default, whether the class has an `initial` of its own."""
        return type(self).initial is not Process.initial and not self.is_static

    def bind(self, vocabulary: Vocabulary) -> Self:
        """Return a copy for one vocabulary; a model binds what it is given."""
        bound = copy.copy(self)
        bound._vocabulary = vocabulary
        return bound

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that it is bound to; raises if there is none."""
        if self._vocabulary is None:
            raise self._unbound()
        return self._vocabulary

    def _unbound(self) -> LLRNNError:
        return self._error(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")

    @property
    def state_key(self) -> object:
        """A key of its states: processes with equal keys have equal states, which a model computes once."""
        return id(self)

    def initial(self, condition: object = None) -> S:
        """Return the state before any symbol, given the condition."""
        return None  # type: ignore[return-value]  # without a context there is none

    def advance(self, state: S, symbol: int) -> S:
        """Return the state after one more symbol, given by its id."""
        return state

    def scan(self, states: Sequence[S], rows: Sequence[Sequence[int]]) -> list[list[S]]:
        """Return, for each row of symbol ids, the states after each of them, starting from the state of the row."""
        seen: list[list[S]] = []
        for state, row in zip(states, rows, strict=True):
            seen.append([state := self.advance(state, symbol) for symbol in row])
        return seen

    def read_ahead(self, rows: Iterable[tuple[int, ...]], processes: int) -> None:
        """Precompute, in several processes, what `follow` will need for these sentences (ids, each from EOS on).

        Nothing changes but the time that `follow` takes. By default nothing is done.
        """

    def follow(self, states: Sequence[S], batch: Batch) -> tuple[Sequence[S], Sequence[S]]:
        """Return the states at the N positions of a batch that count, row by row, and the states after its last column.

        `states`: those of the B rows before the batch. Where the batch names its sentences, in training only, knowledge
        that was estimated on the training text leaves out what it learnt from each (`CrossFitted`).
        """
        if self.is_static:
            return [], states
        seen = self.scan(states, batch.read.rows)
        flat, counting = list(chain.from_iterable(seen)), batch.read.counting
        return flat if counting is None else [flat[place] for place in counting], [row[-1] for row in seen]

    def revised(self, revision: Revision) -> Self:
        """Return this knowledge for a vocabulary with words added or removed; on all other words it is unchanged.

        Up to one factor at each context, which the log-linear layer cancels. A process that cannot tell what it would
        say of a new word, as another neural model cannot, does not override this.
        """
        raise LLRNNError(
            f"words cannot be added to {self!r} or removed from it: it speaks of the words that it was made with, as "
            "another neural model does; unigrams, n-grams, masks, priming, look-ups and what copies can take others"
        )

    def _changed(self, vocabulary: Vocabulary, **attributes: Any) -> Self:
        """Return a copy with other attributes, bound to another vocabulary, for `revised`."""
        made = copy.copy(self)
        vars(made).update(attributes)
        return made.bind(vocabulary)

    def saved(self) -> Saved:
        """Return what a model folder stores; a class of the user's own is stored by name, and given again at
        loading.
        """
        return Saved("custom", {"repr": repr(self)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


# B sequences side by side: what is read of them, and where they stand.


class BatchRead(NamedTuple):
    """The inputs of a batch as Python numbers, for knowledge to read without waiting for a GPU."""

    rows: list[list[int]]  # the inputs
    counting: list[int] | None  # the numbers of the positions that count, row by row; None where all of them do


@dataclass(frozen=True)
class Precomputed:
    """What was computed for a batch before the training step, each None where it was not.

    `teacher`: log-probabilities of the teacher model at the N positions that count; `numbers`, `slopes`, `exceptions`,
    `differences`: what contextual inputs and features return (`LLRNN.precompute`); `weights`: of the positions of a
    batch that was padded to a frequent shape (`Batch.padded`), 1/count for `count` of them, and 0 for the others.
    """

    teacher: Tensor | None = None  # (N, V)
    numbers: Tensor | None = None  # (B, T, k)
    slopes: Tensor | None = None  # (N, ·), those of one linear feature after those of another
    exceptions: Tensor | None = None  # (2, E): the positions and words on which others have values of their own
    differences: Tensor | None = None  # (E, k): these values, less those of the other words there
    weights: Tensor | None = None  # (B, T)
    count: int | None = None

    @property
    def has_knowledge(self) -> bool:
        """Whether contextual inputs and features are precomputed, so that a step need not compute them."""
        return any(part is not None for part in (self.numbers, self.slopes, self.exceptions))


@dataclass(frozen=True)
class Batch:
    """B rows of T symbols: inputs x_t, targets x_{t+1}, which positions count (`mask`), and the condition of each row.

    `sentences`, in training only: the number of the sentence of each target (see `Process.follow`); `inside`: for an
    open vocabulary, the log-probability of each target within its cell (`text.vocabulary`); `precomputed`: of a batch
    that is not cut into rows any more.

        ids = torch.tensor([[0, 5, 7, 0]])
        Batch(ids[:, :-1], ids[:, 1:], torch.ones(1, 3, dtype=torch.bool))
    """

    inputs: Tensor  # (B, T)
    targets: Tensor  # (B, T)
    mask: Tensor  # (B, T) bool
    conditions: Sequence[object] | None = None
    sentences: Tensor | None = None  # (B, T)
    inside: Tensor | None = None  # (B, T) float64
    precomputed: Precomputed = Precomputed()

    @cached_property
    def positions(self) -> Tensor | None:
        """The flat indices of the positions that count, row by row, (N,); None where all of them do."""
        return None if bool(self.mask.all()) else self.mask.flatten().nonzero().view(-1)

    @cached_property
    def read(self) -> BatchRead:
        """The inputs, and the positions that count, as Python numbers; kept when the batch moves to a device."""
        return BatchRead(self.inputs.tolist(), None if self.positions is None else self.positions.tolist())

    @property
    def n_positions(self) -> int:
        """N, the number of positions that count."""
        return self.mask.numel() if self.positions is None else len(self.positions)

    @property
    def n_words(self) -> int:
        """The number of positions that count, without padding."""
        return self.n_positions if self.precomputed.count is None else self.precomputed.count

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of values over the positions that count, (N,) -> ()."""
        weights = self.precomputed.weights
        return values.mean() if weights is None else (values * self.picked(weights).to(values.dtype)).sum()

    def padded(self, rows: int, columns: int, symbol: int) -> Batch:
        """Return a batch of `rows` × `columns` positions with the same mean loss: those that are new have weight 0.

        `symbol`: the input there. Batches of one shape can share one CUDA graph, whatever their sentences are.
        """
        (B, T), some = self.inputs.shape, int(self.targets[self.mask][0])  # it has mass: 0 · log p must be 0

        def more(tensor: Tensor, value: float) -> Tensor:
            return F.pad(tensor, (0, columns - T, 0, rows - B), value=value)

        return Batch(
            more(self.inputs, symbol),
            more(self.targets.masked_fill(~self.mask, some), some),
            torch.ones(rows, columns, dtype=torch.bool),
            self.conditions and [*self.conditions, *[None] * (rows - B)],
            None if self.sentences is None else more(self.sentences, int(self.sentences[0, 0])),
            None if self.inside is None else more(self.inside, 0.0),
            Precomputed(weights=more(self.mask.double() / self.n_positions, 0.0), count=self.n_positions),
        )

    def picked(self, values: Tensor) -> Tensor:
        """Return the values at the positions that count, (B, T, …) -> (N, …)."""
        flat = values.flatten(0, 1)
        return flat if self.positions is None else flat.index_select(0, self.positions)

    def everywhere(self) -> Batch:
        """Return a copy of this batch in which every position counts."""
        made = replace(self, mask=torch.ones_like(self.mask))
        vars(made).update(positions=None, read=BatchRead(self.read.rows, None))
        return made

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors of the batch by name, to be moved to a device."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {**own, **vars(self.precomputed), "positions": self.positions}
        return {name: value for name, value in given.items() if isinstance(value, Tensor)}

    def with_tensors(self, tensors: dict[str, Tensor]) -> Batch:
        """Copy of this batch backed by `tensors`, for example on another device."""
        own = {field.name for field in fields(self)}
        ahead: dict[str, Any] = {name: tensors[name] for name in tensors.keys() - own - {"positions"}}
        given: dict[str, Any] = {name: tensors[name] for name in tensors.keys() & own}
        made = replace(self, **given, precomputed=replace(self.precomputed, **ahead))
        vars(made)["positions"] = tensors.get("positions")  # known already: a GPU need not be asked, and waited for
        return made

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device; to a GPU, pinned memory is copied asynchronously."""
        if self.mask.device == device:
            return self
        moved = {k: part.to(device, non_blocking=device.type == "cuda") for k, part in self.tensors().items()}
        made = self.with_tensors(moved)
        vars(made)["read"] = self.read
        return made

    def pinned(self) -> Batch:
        """Return the batch in pinned memory, from which a GPU copies asynchronously."""
        on_cpu = {k: part.contiguous().pin_memory() for k, part in self.tensors().items() if part.device.type == "cpu"}
        return self.with_tensors(self.tensors() | on_cpu)

    def select(self, rows: slice) -> Batch:
        """Return the batch of some of the rows."""
        given = ((f.name, getattr(self, f.name)) for f in fields(self) if f.name != "precomputed")
        return replace(self, **{name: value[rows] for name, value in given if value is not None})


@dataclass(frozen=True)
class ModelState:
    """The state of B sequences: the controller's tensors, and for each source of knowledge a state of each sequence.

    Example:

        state.select([0, 0, 2])          # the hypotheses that a beam search keeps
    """

    controller: tuple[Tensor, ...]
    knowledge: tuple[tuple[State, ...], ...]  # one tuple of B states for each process

    def detached(self) -> ModelState:
        """Return the state without gradients."""
        return ModelState(tuple(part.detach() for part in self.controller), self.knowledge)

    def select(self, rows: Sequence[int]) -> ModelState:
        """Return the states of some rows, in that order, as beam search and sampling need them."""
        index = torch.tensor(list(rows), dtype=torch.long)
        controller = tuple(part[index.to(part.device)] for part in self.controller)
        return ModelState(controller, tuple(tuple(states[row] for row in rows) for states in self.knowledge))

    def rows(self) -> list[ModelState]:
        """Return the state of each sequence by itself."""
        parts = [torch.split(part, 1) for part in self.controller]
        controllers = zip(*parts, strict=True) if parts else repeat(())
        knowledge = zip(*self.knowledge, strict=True)
        return [
            ModelState(tuple(own), tuple((state,) for state in known))
            for own, known in zip(controllers, knowledge, strict=False)
        ]

    @staticmethod
    def joined(states: Sequence[ModelState], device: torch.device) -> ModelState:
        """Return the sequences of several states as one state, on one device: the inverse of `rows`."""
        controller = zip(*(state.controller for state in states), strict=True)
        knowledge = zip(*(state.knowledge for state in states), strict=True)
        return ModelState(
            tuple(_side_by_side([part.to(device) for part in parts]) for parts in controller),
            tuple(tuple(chain.from_iterable(parts)) for parts in knowledge),
        )


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors (B_i, …) to (ΣB_i, …); memories (B, S, D) and (B, S) are padded with zeros in front."""
    if len({part.shape[1:] for part in parts}) > 1:
        S = max(part.shape[1] for part in parts)
        parts = [torch.cat([p.new_zeros(len(p), S - p.shape[1], *p.shape[2:]), p], 1) for p in parts]
    return torch.cat(list(parts))
