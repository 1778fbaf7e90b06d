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
    """A background (prior), contextual feature or input in the form that a model folder stores.

    kind        the name under which its class is found again
    fields      a dict of settings as plain data, which JSON can write
    tensors     a dict of its tensors by name
    parts       a tuple of the parts of a combination, such as the factors of a product, each a `Saved`

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
    """Return the method `restored` of the class that another package registers for `saved.kind`: `Saved` -> object.

    group       the entry-point group, such as "backgrounds" or "contextual"
    base        the class of llrnn that the registered one must be a subclass of
    again       how the user gives the object again at loading, for the message

    Raises a CheckpointError if no package registers the kind, if llrnn has dropped it, or if it is "custom": an object
    of an unregistered class.
    """
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
    """A batch of `n` states of a background (prior) or contextual feature in a form of its own, such as a tensor.

    `n`: an int. It stands for a list of states, as argument of `prior`, `values` or `numbers`: `len` works, indexing
    raises a TypeError. Only the process that made it can read it.
    """

    n: int

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(f"the states in {type(self).__name__} cannot be taken one by one")

    def taken(self, places: Sequence[int]) -> PackedStates[S] | None:
        """Return the states at these indices into the batch, in packed form.

        It returns None (the default) if the form does not allow it: the caller must then compute the states again from
        the text.
        """
        return None


@dataclass(frozen=True)
class Parallel(PackedStates[tuple[State, ...]]):
    """A batch of states of several processes, such as the parts of a product: state n is a tuple of one of each.

    `columns`: a sequence with, for each process, its batch (a sequence) of n states.
    """

    columns: tuple[Sequence[State], ...]

    def __getitem__(self, index: Any) -> Any:
        return tuple(column[index] for column in self.columns)


class Process(ABC, Generic[S]):
    """Base class of backgrounds (priors over the next word), contextual features and inputs: they follow a text.

    A state follows from a condition (the input that a text is generated from, or None) and the words so far. A subclass
    has `initial(condition)` and `advance(state, symbol)`, neither where the context plays no part. States are
    immutable: `advance` returns a new one.

        process = process.bind(vocabulary)
        state = process.advance(process.initial(condition), vocabulary.ids(["le"])[0])
    """

    _vocabulary: Vocabulary | None = None
    _error: type[LLRNNError] = LLRNNError  # what its misuse raises
    needs_condition = False  # whether there must be one
    text_before = 0  # how many words before a sentence it looks at, where the condition is a `Before`

    @property
    def is_static(self) -> bool:
        """Whether the results of this process depend on neither condition (input) nor prefix; it then has no states."""
        return False

    @property
    def reads_conditions(self) -> bool:
        """Whether results may depend on the condition, the input that a text is generated from.

        By default it is whether the class defines `initial`.
        """
        return type(self).initial is not Process.initial and not self.is_static

    def bind(self, vocabulary: Vocabulary) -> Self:
        """Return a copy of this process for one vocabulary, without which it cannot be used.

        A model binds all its parts to its own vocabulary.
        """
        bound = copy.copy(self)
        bound._vocabulary = vocabulary
        return bound

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that this process is bound to; raises an LLRNNError, such as a BackgroundError, if unbound."""
        if self._vocabulary is None:
            raise self._unbound()
        return self._vocabulary

    def _unbound(self) -> LLRNNError:
        return self._error(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")

    @property
    def state_key(self) -> object:
        """A hashable key: processes with equal keys have equal states, which a model computes only once.

        By default it is the id of the object, so that no states are shared.
        """
        return id(self)

    def initial(self, condition: object = None) -> S:
        """Return the state before any symbol; `condition`: the input that the text is generated from, or None.

        By default it returns None, for processes that need no state.
        """
        return None  # type: ignore[return-value]  # without a context there is none

    def advance(self, state: S, symbol: int) -> S:
        """Return the state after one more symbol, given by its id in the vocabulary; by default `state` itself."""
        return state

    def scan(self, states: Sequence[S], rows: Sequence[Sequence[int]]) -> list[list[S]]:
        """Return, for each of B rows of symbol ids, the list of the states after each symbol, made by `advance`.

        `states`: the B states before the rows.
        """
        seen: list[list[S]] = []
        for state, row in zip(states, rows, strict=True):
            seen.append([state := self.advance(state, symbol) for symbol in row])
        return seen

    def read_ahead(self, rows: Iterable[tuple[int, ...]], processes: int) -> None:
        """Precompute and cache what `follow` will need for these sentences, in several operating-system processes.

        rows        sentences as symbol ids, each beginning with EOS
        processes   how many processes to use

        Results do not change, `follow` is faster. By default nothing is done.
        """

    def follow(self, states: Sequence[S], batch: Batch) -> tuple[Sequence[S], Sequence[S]]:
        """Return the states after the N inputs that are not padding, row by row, and the B after the last column.

        states      the states of the B rows before the batch
        batch       B rows of symbol ids; `batch.mask` says which positions are not padding

        Where `batch.sentences` is given, in training only, knowledge estimated on the training text must not use what
        it learnt from each sentence itself (`CrossFitted`). The first result is [] for a process without states.
        """
        if self.is_static:
            return [], states
        seen = self.scan(states, batch.read.rows)
        flat, counting = list(chain.from_iterable(seen)), batch.read.counting
        return flat if counting is None else [flat[place] for place in counting], [row[-1] for row in seen]

    def revised(self, revision: Revision) -> Self:
        """Return this process for a vocabulary with words added or removed; results on all other words are unchanged.

        `revision`: the new vocabulary, and for each new word the old symbol whose probability it takes a part of. A
        prior may change by one factor at each context, which normalisation cancels. Raises an LLRNNError where the
        class does not support it, such as for another neural model.
        """
        raise LLRNNError(
            f"words cannot be added to {self!r} or removed from it: it speaks of the words that it was made with, as "
            "another neural model does; unigrams, n-grams, masks, priming, look-ups and what copies can take others"
        )

    def _changed(self, vocabulary: Vocabulary, **attributes: Any) -> Self:
        """Return a copy of this process with these attributes replaced, bound to another vocabulary.

        `attributes`: {name: new value} as keywords; they are set before the copy is bound.
        """
        made = copy.copy(self)
        vars(made).update(attributes)
        return made.bind(vocabulary)

    def saved(self) -> Saved:
        """Return what a model folder stores of this process: kind, settings, tensors and parts, as a `Saved` record.

        `restored` of the class, or a function registered for the kind, makes the object again from it. By default, for
        classes of the user, it holds only their `repr`: such an object must be given again at loading.
        """
        return Saved("custom", {"repr": repr(self)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


# B sequences side by side: what is read of them, and where they stand.


class BatchRead(NamedTuple):
    """The inputs of a batch as Python integers on the CPU, so that reading them does not wait for a GPU.

    `rows`: a list of B lists of T symbol ids; `counting`: a list of flat indices (row · T + column), row by row, of the
    positions that are not padding; None: all of them. `batch.read` is one.
    """

    rows: list[list[int]]  # the inputs
    counting: list[int] | None  # the numbers of the positions that count, row by row; None where all of them do


@dataclass(frozen=True)
class Precomputed:
    """Results that were computed for a batch before its training step; each is None where it was not.

    teacher     (N, V) probabilities of a teacher model at the N positions that are not padding
    numbers     (B, T, k) values of contextual inputs of the network (`LLRNN.precompute`)
    slopes      (N, Σ kᵢ Jᵢ) coefficients of linear contextual features, one after the other; feature i has kᵢ × Jᵢ,
                flattened
    exceptions  (2, E) positions and word ids at which other contextual features differ from their value on most words
    differences (E, k) by how much they differ
    weights     (B, T) of the positions of a batch that was padded to a frequent shape (`Batch.padded`): 1/count, 0 on
                padding
    count       the number of its positions that are not padding
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
        """Whether values of contextual inputs or features were computed before the training step, for its use."""
        return any(part is not None for part in (self.numbers, self.slopes, self.exceptions))


@dataclass(frozen=True)
class Batch:
    """A batch of B rows of text: `inputs` x_t, `targets` x_{t+1}, both symbol ids (B, T), and `mask`, False on padding.

    conditions  for each row, the input that its text is generated from, or None; None: there are none
    sentences   (B, T) in training only, a hash of the sentence of each target (see `Process.follow`)
    inside      (B, T) for an open vocabulary, the log-probability of each target string given its cell, the set of
                unlisted strings that share its symbol
    precomputed results that were computed before; such a batch cannot be divided into rows any more

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
        """Flat indices (of B · T), row by row, of the positions where the mask is True, (N,); None if all are."""
        return None if bool(self.mask.all()) else self.mask.flatten().nonzero().view(-1)

    @cached_property
    def read(self) -> BatchRead:
        """The inputs, and the positions that are not padding, as Python integers; computed once, and kept by `to`."""
        return BatchRead(self.inputs.tolist(), None if self.positions is None else self.positions.tolist())

    @property
    def n_positions(self) -> int:
        """N, the number of positions of the batch where the mask is True."""
        return self.mask.numel() if self.positions is None else len(self.positions)

    @property
    def n_words(self) -> int:
        """The number of targets that are no padding: `n_positions`, or in a batch made by `padded` that before it."""
        return self.n_positions if self.precomputed.count is None else self.precomputed.count

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of `values` (N,), one for each position where the mask is True, as a scalar tensor.

        In a batch made by `padded`, the positions that were added have weight 0.
        """
        weights = self.precomputed.weights
        return values.mean() if weights is None else (values * self.picked(weights).to(values.dtype)).sum()

    def padded(self, rows: int, columns: int, symbol: int) -> Batch:
        """Return a batch of shape (rows, columns) with mask True everywhere, whose `mean` loss is that of this batch.

        New positions have weight 0 in `mean`; `rows`, `columns`: at least those of this batch; `symbol`: the id of the
        input at new positions, whose target is the first target of this batch. Batches of one shape can share a CUDA
        graph.
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
        """Return the values at positions where the mask is True, row by row: (B, T, …) -> (N, …)."""
        flat = values.flatten(0, 1)
        return flat if self.positions is None else flat.index_select(0, self.positions)

    def everywhere(self) -> Batch:
        """Return a copy of this batch whose mask is True everywhere, so that padding is scored too."""
        made = replace(self, mask=torch.ones_like(self.mask))
        vars(made).update(positions=None, read=BatchRead(self.read.rows, None))
        return made

    def tensors(self) -> dict[str, Tensor]:
        """Return {name: tensor} of all tensors of the batch, by the names of its fields, and "positions".

        Those of `precomputed` are among them, by the names of its own fields; what is None, or no tensor, is left out.
        """
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {**own, **vars(self.precomputed), "positions": self.positions}
        return {name: value for name, value in given.items() if isinstance(value, Tensor)}

    def with_tensors(self, tensors: dict[str, Tensor]) -> Batch:
        """Return a copy of this batch backed by `tensors`, for example on another device.

        `tensors`: all that `tensors()` returns, by the same names.
        """
        own = {field.name for field in fields(self)}
        ahead: dict[str, Any] = {name: tensors[name] for name in tensors.keys() - own - {"positions"}}
        given: dict[str, Any] = {name: tensors[name] for name in tensors.keys() & own}
        made = replace(self, **given, precomputed=replace(self.precomputed, **ahead))
        vars(made)["positions"] = tensors.get("positions")  # known already: a GPU need not be asked, and waited for
        return made

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device: itself if it is there, else a copy, asynchronous from pinned memory."""
        if self.mask.device == device:
            return self
        moved = {k: part.to(device, non_blocking=device.type == "cuda") for k, part in self.tensors().items()}
        made = self.with_tensors(moved)
        vars(made)["read"] = self.read
        return made

    def pinned(self) -> Batch:
        """Return a copy of the batch in pinned (page-locked) memory, from which a GPU copies asynchronously."""
        on_cpu = {k: part.contiguous().pin_memory() for k, part in self.tensors().items() if part.device.type == "cpu"}
        return self.with_tensors(self.tensors() | on_cpu)

    def select(self, rows: slice) -> Batch:
        """Return the batch of some of the B rows, given as a slice; only for a batch without `precomputed` results.

        Such results are not divided: the copy would have those of all rows.
        """
        given = ((f.name, getattr(self, f.name)) for f in fields(self) if f.name != "precomputed")
        return replace(self, **{name: value[rows] for name, value in given if value is not None})


@dataclass(frozen=True)
class ModelState:
    """The state of a model after B prefixes: the network's tensors, and the states of backgrounds, features and inputs.

    controller  tensors of the recurrent network, (B, …) each
    knowledge   for each process (background, contextual feature or input), a tuple of B states

    Example:

        state.select([0, 0, 2])          # the hypotheses that a beam search keeps
    """

    controller: tuple[Tensor, ...]
    knowledge: tuple[tuple[State, ...], ...]  # one tuple of B states for each process

    def detached(self) -> ModelState:
        """Return a copy of the state with the network's tensors detached from the gradient graph."""
        return ModelState(tuple(part.detach() for part in self.controller), self.knowledge)

    def select(self, rows: Sequence[int]) -> ModelState:
        """Return the state of these rows (prefixes), indices below B, in this order; rows may be repeated."""
        index = torch.tensor(list(rows), dtype=torch.long)
        controller = tuple(part[index.to(part.device)] for part in self.controller)
        return ModelState(controller, tuple(tuple(states[row] for row in rows) for states in self.knowledge))

    def rows(self) -> list[ModelState]:
        """Return a list of B model states of one prefix each; `joined` is the inverse."""
        parts = [torch.split(part, 1) for part in self.controller]
        controllers = zip(*parts, strict=True) if parts else repeat(())
        knowledge = zip(*self.knowledge, strict=True)
        return [
            ModelState(tuple(own), tuple((state,) for state in known))
            for own, known in zip(controllers, knowledge, strict=False)
        ]

    @staticmethod
    def joined(states: Sequence[ModelState], device: torch.device) -> ModelState:
        """Return one model state of all prefixes of several states, in order, on one device: the inverse of `rows`."""
        controller = zip(*(state.controller for state in states), strict=True)
        knowledge = zip(*(state.knowledge for state in states), strict=True)
        return ModelState(
            tuple(_side_by_side([part.to(device) for part in parts]) for parts in controller),
            tuple(tuple(chain.from_iterable(parts)) for parts in knowledge),
        )


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors (B_i, …) concatenated to (ΣB_i, …); where sizes of axis 1 differ, zeros are put in front.

    So rows of states of unequal length are aligned at their ends.
    """
    if len({part.shape[1:] for part in parts}) > 1:
        S = max(part.shape[1] for part in parts)
        parts = [torch.cat([p.new_zeros(len(p), S - p.shape[1], *p.shape[2:]), p], 1) for p in parts]
    return torch.cat(list(parts))
