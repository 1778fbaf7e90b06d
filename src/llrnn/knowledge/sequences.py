"""B sequences side by side: what is read of them, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from llrnn.knowledge.process import State


@dataclass(frozen=True)
class Batch:
    """B rows of T symbols: inputs x_t, targets x_{t+1}, which positions count, and the condition of each row.

    `sentences`, in training only, names the sentence of each target (see `Process.follow`). `inside` has, for an open
    vocabulary, the log-probability of each target within its cell (see `text.domain`).
    """

    inputs: Tensor  # (B, T)
    targets: Tensor  # (B, T)
    mask: Tensor  # (B, T) bool
    conditions: Sequence[object] | None = None
    sentences: Tensor | None = None  # (B, T)
    inside: Tensor | None = None  # (B, T) float64

    @cached_property
    def positions(self) -> Tensor | None:
        """The numbers of the positions that count, row by row, (N,); None where all of them do."""
        return None if bool(self.mask.all()) else self.mask.flatten().nonzero().view(-1)

    @property
    def n_positions(self) -> int:
        """N"""
        return self.mask.numel() if self.positions is None else len(self.positions)

    def picked(self, values: Tensor) -> Tensor:
        """What stands at the positions that count, (B, T, …) -> (N, …)."""
        flat = values.flatten(0, 1)
        return flat if self.positions is None else flat.index_select(0, self.positions)

    def tensors(self) -> dict[str, Tensor]:
        """All that moves to a device: the fields that are there, and the positions unless all of them count."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: value for k, value in {**given, "positions": self.positions}.items() if isinstance(value, Tensor)}

    def with_tensors(self, tensors: dict[str, Tensor]) -> Batch:
        """The same, of other tensors with the same content."""
        given: dict[str, Any] = {name: tensor for name, tensor in tensors.items() if name != "positions"}
        made = replace(self, **given)
        vars(made)["positions"] = tensors.get("positions")  # known already: a GPU need not be asked, and waited for
        return made

    def to(self, device: torch.device) -> Batch:
        """On a device; to a GPU, pinned memory is copied asynchronously."""
        if self.mask.device == device:
            return self
        moved = {k: part.to(device, non_blocking=device.type == "cuda") for k, part in self.tensors().items()}
        return self.with_tensors(moved)

    def pinned(self) -> Batch:
        """In memory from which a GPU copies by itself."""
        return self.with_tensors({name: tensor.contiguous().pin_memory() for name, tensor in self.tensors().items()})

    def select(self, rows: slice) -> Batch:
        """Some of the rows."""
        given = ((f.name, getattr(self, f.name)) for f in fields(self))
        return replace(self, **{name: value[rows] for name, value in given if value is not None})


@dataclass(frozen=True)
class ModelState:
    """Where B sequences stand: the controller's tensors, and a state for each source of knowledge and sequence."""

    controller: tuple[Tensor, ...]
    knowledge: tuple[tuple[State, ...], ...]  # one tuple of B states for each process

    def detached(self) -> ModelState:
        return ModelState(tuple(part.detach() for part in self.controller), self.knowledge)

    def select(self, rows: Sequence[int]) -> ModelState:
        """The states of some rows, in that order: what beam search and sampling need."""
        index = torch.tensor(list(rows), dtype=torch.long)
        controller = tuple(part[index.to(part.device)] for part in self.controller)
        return ModelState(controller, tuple(tuple(states[row] for row in rows) for states in self.knowledge))

    @staticmethod
    def joined(states: Sequence[ModelState], device: torch.device) -> ModelState:
        """The sequences of several states side by side, on one device: the inverse of selecting them."""
        controller = zip(*(state.controller for state in states), strict=True)
        knowledge = zip(*(state.knowledge for state in states), strict=True)
        return ModelState(
            tuple(_side_by_side([part.to(device) for part in parts]) for parts in controller),
            tuple(tuple(chain.from_iterable(parts)) for parts in knowledge),
        )


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    """Tensors (B_i, …) as one (ΣB_i, …); memories of conditions, (B, S, D) and (B, S), are filled up with nothing."""
    if len({part.shape[1:] for part in parts}) > 1:
        S = max(part.shape[1] for part in parts)
        parts = [torch.cat([p, p.new_zeros(len(p), S - p.shape[1], *p.shape[2:])], 1) for p in parts]
    return torch.cat(list(parts))
