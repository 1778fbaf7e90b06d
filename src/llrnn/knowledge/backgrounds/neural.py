"""Another trained model as background: where it ends, the network begins.

    log b(K, x) = log p'(x | K)            p' is frozen: it is asked, and learns nothing

The state of a sequence is the inner model's state before the last word, and that word. So a batch of states is answered
by one step of the inner model, and no state holds a row of |V| numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.process import Process, Saved, State, States
from llrnn.knowledge.sequences import Batch
from llrnn.layer.priors import DensePrior, Prior
from llrnn.text.vocabulary import Vocabulary


class Inner(Protocol):
    """What is asked of the inner model; `llrnn.LLRNN` is one. Its states are its own."""

    vocabulary: Vocabulary
    controller: Any

    @property
    def processes(self) -> tuple[Process, ...]: ...
    @property
    def device(self) -> torch.device: ...
    def start(self, conditions: Sequence[object]) -> Any: ...
    def step(self, state: Any, words: Sequence[int]) -> tuple[Any, Any]: ...
    def scan(self, batch: Any, state: Any) -> tuple[Any, Any]: ...
    def to(self, device: torch.device) -> Any: ...
    def described(self) -> tuple[dict[str, Any], dict[str, Tensor]]: ...


class Place(NamedTuple):
    """Where one sequence stands: the inner state of one row, and the word that it has not been fed yet."""

    before: Any
    word: int | None  # None at the very start


@dataclass(frozen=True, eq=False)
class Answered:
    """A batch of N states of which the answer is known, or how to make it: whoever wants states only pays for none."""

    n: int
    make: Callable[[], Tensor]

    def __len__(self) -> int:
        return self.n

    @cached_property
    def log_b(self) -> Tensor:
        """(N, V)"""
        return self.make()


def _untold(inputs: Tensor, mask: Tensor) -> Batch:
    """Nothing is trained here: there are no targets, and no sentence has to be left out."""
    return Batch(inputs, inputs, mask)


class Model(Background):
    """A trained LLRNN as background, over the same vocabulary.

    It is held and not copied, is no submodule of the model that it serves, and follows that model to its device. In
    training it answers as always: trained on the same text, it is over-confident there, and `CrossFitted` is the cure.
    """

    def __init__(self, model: Inner) -> None:
        self._model = model

    @property
    def model(self) -> Inner:
        """The inner model."""
        return self._model

    def bind(self, vocabulary: Vocabulary) -> Self:
        require_same_symbols(
            repr(self), self._model.vocabulary, vocabulary, "train both models with one vocabulary: model.vocabulary"
        )
        return super().bind(vocabulary)

    @property
    def reads_conditions(self) -> bool:
        parts = (self._model.controller, *self._model.processes)
        return any(part.reads_conditions for part in parts)

    def initial(self, condition: object = None) -> State:
        return Place(self._model.start([condition]), None)

    def advance(self, state: State, symbol: int) -> State:
        return Place(self._fed([state]), symbol)

    @torch.no_grad()
    def follow(
        self, states: Sequence[State], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[States, Sequence[State]]:
        self._move(inputs.device)
        before, pieces = self._fed(states), []
        if inputs.shape[1] > 1:  # all columns but the last, before which the states are kept
            distribution, before = self._model.scan(_untold(inputs[:, :-1], mask[:, :-1]), before)
            pieces.append(distribution)
        pieces.append(self._model.scan(_untold(inputs[:, -1:], mask[:, -1:]), before)[0])
        after = [Place(before.select([row]), word) for row, word in enumerate(inputs[:, -1].tolist())]
        is_last = torch.zeros_like(mask).index_fill(1, torch.tensor(mask.shape[1] - 1, device=mask.device), True)[mask]
        return Answered(len(is_last), lambda: _woven(pieces, is_last)), after

    @torch.no_grad()
    def prior(self, states: States) -> Prior:
        if isinstance(states, Answered):
            return DensePrior(states.log_b)
        if not states:
            return DensePrior(torch.zeros(0, len(self._model.vocabulary), device=self._model.device))
        return DensePrior(self._step(states)[0].log_probs())

    def _move(self, device: torch.device) -> None:
        if self._model.device != device:
            self._model.to(device)

    def _fed(self, states: Sequence[Place]) -> Any:
        """One inner state of all sequences, with their last words fed."""
        waiting = [n for n, state in enumerate(states) if state.word is not None]
        rows = [state.before for state in states]
        if waiting:
            _, after = self._step([states[n] for n in waiting])
            for row, n in enumerate(waiting):
                rows[n] = after.select([row])
        return rows[0].joined(rows, self._model.device)

    @torch.no_grad()
    def _step(self, states: Sequence[Place]) -> tuple[Any, Any]:
        """One step of all sequences; one that has read nothing stands at the boundary of sentences."""
        before = states[0].before.joined([state.before for state in states], self._model.device)
        eos = self._model.vocabulary.eos
        return self._model.step(before, [eos if state.word is None else state.word for state in states])

    def saved(self) -> Saved:
        fields, tensors = self._model.described()
        if fields["controller"]["kind"] == "custom":  # a folder cannot make it: the whole background is given again
            return super().saved()
        # copies: one model may serve twice, and a file of tensors refuses memory that is shared
        return Saved("model", fields, {name: tensor.detach().clone() for name, tensor in tensors.items()})

    def __repr__(self) -> str:
        return f"Model({type(self._model).__name__} over {len(self._model.vocabulary)} symbols)"


@torch.no_grad()
def _woven(pieces: Sequence[Any], is_last: Tensor) -> Tensor:
    """log p of all words, (N, V): `is_last` (N,) tells the positions of the last piece from those of the first."""
    rows = torch.cat([distribution.log_probs() for distribution in pieces])
    return rows[torch.argsort(torch.argsort(is_last.long(), stable=True))]


def require_same_symbols(who: str, own: Vocabulary, given: Vocabulary, advice: str) -> None:
    """A background over a vocabulary of its own serves that one, in its order: numbers stand for the same words."""
    if own.symbols == given.symbols:
        return
    differing = [n for n, (mine, other) in enumerate(zip(own, given, strict=False)) if mine != other]
    count = len(differing) + abs(len(own) - len(given))
    first = differing[0] if differing else min(len(own), len(given))
    mine, other = (v.symbols[first] if first < len(v) else "nothing" for v in (own, given))
    raise BackgroundError(
        f"{who} needs its own vocabulary, the same {len(own)} symbols in the same order, but {count} of the "
        f"{len(given)} given differ: symbol {first} is {mine!r} there and {other!r} here; {advice}"
    )
