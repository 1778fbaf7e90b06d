"""The seam of the recurrent network that follows the prefix, and of what it may read first: the condition.

    initial(C) -> state                           one condition for each sequence; most controllers do not look
    step(ψ_t, state) -> (h_t, state)              one symbol
    scan(ψ_1..T, state) -> (h_1..T, state)        its fold, in one call

Dropout is drawn from the `generator` that a call is given, one mask for the whole sequence (variational dropout, Gal
and Ghahramani 2016), and never inside the recurrence. Without a generator there is none: nothing is random by itself.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

Hidden = tuple[Tensor, ...]


class Controller(nn.Module):
    """A recurrent network with `inputs` numbers in and `hidden` numbers out; its state is a tuple of tensors (B, …)."""

    inputs: int
    hidden: int
    reads_conditions = False  # whether every sequence needs one

    def unknown_names(self, condition: object) -> list[str]:
        """The act and the slots of a condition that it has never seen, and ignores."""
        return []

    @property
    def known_names(self) -> frozenset[str]:
        """What acts and slots may be called."""
        return frozenset()

    @property
    @abstractmethod
    def state_size(self) -> int:
        """How many tensors its state is made of."""

    @abstractmethod
    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        """The state before any symbol, a sequence for each condition."""

    @abstractmethod
    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        """All steps of (B, T, inputs) -> (B, T, hidden), and the state after the last."""

    def step(self, psi: Tensor, state: Hidden) -> tuple[Tensor, Hidden]:
        """One step of (B, inputs) -> (B, hidden)."""
        h, state = self.scan(psi.unsqueeze(1), state)
        return h.squeeze(1), state

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What it was made with, as the configuration writes it."""


class SomeRows(torch.Generator):
    """A generator for some rows of a batch: what `uniform` draws for them is what it would draw with all rows there."""

    def __new__(cls, device: torch.device, rows: slice, n_rows: int) -> SomeRows:
        return super().__new__(cls, device)  # type: ignore[call-arg]

    def __init__(self, device: torch.device, rows: slice, n_rows: int) -> None:
        self.rows, self.n_rows = rows, n_rows


def uniform(n_rows: int, *shape: int, generator: torch.Generator, **options: Any) -> Tensor:
    """Numbers between 0 and 1 for the rows of a batch, (B, …)."""
    if isinstance(generator, SomeRows):
        return torch.rand(generator.n_rows, *shape, generator=generator, **options)[generator.rows]
    return torch.rand(n_rows, *shape, generator=generator, **options)


def variational_dropout(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Drops the same coordinates at every step of a sequence, (B, T, D) -> (B, T, D); nothing without a generator."""
    if generator is None or rate == 0.0:
        return x
    B, _, D = x.shape
    kept = uniform(B, 1, D, generator=generator, device=x.device, dtype=x.dtype) >= rate
    return x * kept / (1.0 - rate)


def undrawn(network: Callable[..., nn.RNNBase], inputs: int, hidden: int, **options: Any) -> nn.Module:
    """One of torch's networks, made on the meta device, where torch draws nothing from its global generator."""
    made = network(inputs, hidden, batch_first=True, device="meta", **options)
    for name, parameter in list(made.named_parameters()):  # not by `to_empty`, for which torch imports sympy
        setattr(made, name, nn.Parameter(torch.empty(parameter.shape)))
    return made


_drawing: ContextVar[bool] = ContextVar("drawing", default=True)


@contextmanager
def unfilled() -> Iterator[None]:
    """Weights of what is made within are not drawn, which takes long: for whoever fills them in right after."""
    token = _drawing.set(False)
    try:
        yield
    finally:
        _drawing.reset(token)


def initialise(parameters: Sequence[tuple[str, nn.Parameter]], seed: int) -> None:
    """Draw all weights anew from `seed`, uniform within 1/√H, in the order of their names."""
    if not _drawing.get():
        return
    _require_memory(sum(parameter.numel() * parameter.element_size() for _, parameter in parameters))
    generator = torch.Generator().manual_seed(seed)
    for _, parameter in sorted(parameters):
        bound = 1.0 / math.sqrt(parameter.shape[-1]) if parameter.dim() > 1 else 0.0
        with torch.no_grad():
            drawn = torch.rand(parameter.shape, generator=generator, dtype=torch.float64) * 2 - 1
            parameter.copy_(drawn * bound)


def draw_first(module: nn.Module, parameters: Sequence[tuple[str, nn.Parameter]]) -> None:
    """First weights of one of our own parts, so that it can be used alone; a model draws them anew by its own seed.

    What they were is remembered as a digest: weights that were loaded, trained or written since stay.
    """
    initialise(parameters, 0)
    module.first_weights = tuple(name for name, _ in parameters), _digest(parameters)  # type: ignore[assignment]


def still_first(module: nn.Module) -> list[nn.Parameter]:
    """The parameters of our own parts in it whose weights are still those that `draw_first` drew."""
    found: list[nn.Parameter] = []
    for part in module.modules():
        names, digest = getattr(part, "first_weights", ((), None))
        parameters = [(name, part.get_parameter(name)) for name in names]
        if digest is not None and _digest(parameters) == digest:
            found += [parameter for _, parameter in parameters]
    return found


def _digest(parameters: Sequence[tuple[str, nn.Parameter]]) -> bytes | None:
    """In float32, in which they are drawn: a part moved to float64 has the same. None where nothing is drawn."""
    if not _drawing.get():
        return None
    digest = hashlib.sha256()
    for _, parameter in parameters:
        digest.update(parameter.detach().float().cpu().numpy().data)
    return digest.digest()


def _require_memory(needed: int) -> None:
    """Linux may lend more than there is, and then end the process that uses it."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > found:
        raise MemoryError(f"the weights take {needed / 2**30:,.0f} GiB, and there are {found / 2**30:,.0f} GiB")
