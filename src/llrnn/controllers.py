"""Controllers: the recurrent network that follows the prefix.

    step(ψ_t, state) -> (h_t, state)              one symbol
    scan(ψ_1..T, state) -> (h_1..T, state)        its fold, in one call

Dropout is drawn from the `generator` that a scan is given, one mask for the whole sequence (variational dropout, Gal
and Ghahramani 2016), and never inside the recurrence. Without a generator there is none: nothing is random by itself.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from llrnn.errors import ConfigError

Hidden = tuple[Tensor, ...]


class Controller(nn.Module):
    """A recurrent network with `inputs` numbers in and `hidden` numbers out; its state is a tuple of tensors (B, …)."""

    inputs: int
    hidden: int

    @abstractmethod
    def initial(self, batch: int) -> Hidden:
        """The state before any symbol, for `batch` sequences."""

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


def variational_dropout(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Drops the same coordinates at every step of a sequence, (B, T, D) -> (B, T, D); nothing without a generator."""
    if generator is None or rate == 0.0:
        return x
    B, _, D = x.shape
    kept = torch.rand(B, 1, D, generator=generator, device=x.device, dtype=x.dtype) >= rate
    return x * kept / (1.0 - rate)


class _Recurrent(Controller):
    """Layers of one of torch's recurrent networks, dropout on what enters each layer and on what leaves the last."""

    _network: Callable[..., nn.RNNBase]
    _tensors_per_layer = 1

    def __init__(self, hidden: int = 256, *, layers: int = 1, inputs: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        if hidden < 1 or layers < 1 or (inputs is not None and inputs < 1):
            raise ConfigError(
                f"{type(self).__name__} needs hidden, layers, inputs of 1 or more, found {hidden}, {layers}, {inputs}"
            )
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"dropout must be at least 0 and below 1, found {dropout}")
        self.hidden, self.inputs, self.dropout = hidden, inputs or hidden, dropout
        sizes = [self.inputs, *[hidden] * layers]
        # made on the meta device, where torch draws nothing from its global generator
        made = [self._network(size, hidden, batch_first=True, device="meta") for size in sizes[:-1]]
        self.layers = nn.ModuleList(layer.to_empty(device="cpu") for layer in made)
        initialise(list(self.named_parameters()), 0)

    def initial(self, batch: int) -> Hidden:
        like = next(self.parameters())
        count = len(self.layers) * self._tensors_per_layer
        return tuple(like.new_zeros(batch, self.hidden) for _ in range(count))

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        x, after = psi, []
        for index, layer in enumerate(self.layers):
            start = index * self._tensors_per_layer
            own = [part.unsqueeze(0).contiguous() for part in state[start : start + self._tensors_per_layer]]
            x = variational_dropout(x, self.dropout, generator)
            x, own_after = layer(x, tuple(own) if len(own) > 1 else own[0])
            after += [own_after] if isinstance(own_after, Tensor) else list(own_after)
        return variational_dropout(x, self.dropout, generator), tuple(part.squeeze(0) for part in after)

    def settings(self) -> dict[str, Any]:
        return {
            "kind": type(self).__name__.lower(),
            "hidden": self.hidden,
            "layers": len(self.layers),
            "inputs": self.inputs,
            "dropout": self.dropout,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}(hidden={self.hidden}, layers={len(self.layers)}, dropout={self.dropout})"


class Elman(_Recurrent):
    """h_t = tanh(U ψ_t + V h_{t-1} + c)."""

    _network = nn.RNN


class GRU(_Recurrent):
    """Gated recurrent units."""

    _network = nn.GRU


class LSTM(_Recurrent):
    """Long short-term memory."""

    _network = nn.LSTM
    _tensors_per_layer = 2


class Stacked(Controller):
    """Controllers on top of each other: what one puts out, the next takes in."""

    def __init__(self, *parts: Controller) -> None:
        super().__init__()
        for below, above in pairwise(parts):
            if below.hidden != above.inputs:
                raise ConfigError(
                    f"a stack needs matching sizes, but {below!r} puts out {below.hidden} "
                    f"and {above!r} takes {above.inputs}"
                )
        if not parts:
            raise ConfigError("a stack needs at least one controller")
        self.parts = nn.ModuleList(parts)
        self.inputs, self.hidden = parts[0].inputs, parts[-1].hidden

    def _controllers(self) -> list[Controller]:
        return [part for part in self.parts if isinstance(part, Controller)]

    def initial(self, batch: int) -> Hidden:
        return tuple(tensor for part in self._controllers() for tensor in part.initial(batch))

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        x, start = psi, 0
        after: list[Tensor] = []
        for part in self._controllers():
            width = len(part.initial(0))
            x, own = part.scan(x, state[start : start + width], generator=generator)
            after += own
            start += width
        return x, tuple(after)

    def settings(self) -> dict[str, Any]:
        return {"kind": "stacked", "parts": [part.settings() for part in self._controllers()]}

    def __repr__(self) -> str:
        return f"Stacked({', '.join(repr(part) for part in self._controllers())})"


def make_controller(settings: dict[str, Any]) -> Controller:
    """A controller from what `settings()` or a configuration says."""
    given = dict(settings)
    kind = given.pop("kind", "lstm")
    if kind == "stacked":
        return Stacked(*(make_controller(part) for part in given["parts"]))
    kinds: dict[str, type[_Recurrent]] = {"elman": Elman, "gru": GRU, "lstm": LSTM}
    if kind not in kinds:
        raise ConfigError(f"unknown kind of controller {kind!r}: use one of {', '.join(sorted(kinds))}, stacked")
    return kinds[kind](**given)


def initialise(parameters: Sequence[tuple[str, nn.Parameter]], seed: int) -> None:
    """Draw all recurrent weights anew from `seed`, uniform within 1/√H, in the order of their names."""
    generator = torch.Generator().manual_seed(seed)
    for _, parameter in sorted(parameters):
        bound = 1.0 / math.sqrt(parameter.shape[-1]) if parameter.dim() > 1 else 0.0
        with torch.no_grad():
            drawn = torch.rand(parameter.shape, generator=generator, dtype=torch.float64) * 2 - 1
            parameter.copy_(drawn * bound)
