"""Recurrent networks: Elman, GRU, LSTM, and controllers on top of each other.

On a GPU, layers without dropout between them are one call of cuDNN, which begins with an upper layer before the one
below has come to the end of the text: for 64 rows of 32 words on an H200 two layers take two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.backends.cudnn.rnn import get_cudnn_mode

from llrnn.ground.errors import ConfigError
from llrnn.model.controllers.base import Controller, Hidden, draw_first, undrawn, variational_dropout
from llrnn.model.controllers.torch_lstm import TorchLSTM


class Recurrent(Controller):
    """Layers of one of torch's recurrent networks, dropout on what enters each layer and on what leaves the last."""

    _network: Callable[..., nn.RNNBase]
    _call: Callable[..., tuple[Tensor, ...]]  # all layers at once
    _mode: str  # what cuDNN calls it
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
        self.layers = nn.ModuleList(undrawn(self._network, size, hidden) for size in sizes[:-1])
        draw_first(self, list(self.named_parameters()))

    @property
    def state_size(self) -> int:
        return len(self.layers) * self._tensors_per_layer

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        like = next(self.parameters())
        return tuple(like.new_zeros(len(conditions), self.hidden) for _ in range(self.state_size))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Wherever the weights are moved: cuDNN wants those of all layers in one piece of memory."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        weights = self._weights()
        if self._is_one_network and all(weight.is_cuda for weight in weights):
            with torch.no_grad():
                mode = get_cudnn_mode(self._mode)  # type: ignore[no-untyped-call]
                sizes = (self.inputs, mode, self.hidden, 0, len(self.layers))
                torch._cudnn_rnn_flatten_weight(weights, 4, *sizes, batch_first=True, bidirectional=False)
        return self

    def _weights(self) -> list[Tensor]:
        return [weight for layer in self.layers for weight in layer.parameters()]

    @property
    def _is_one_network(self) -> bool:
        return self.dropout == 0.0 and len(self.layers) > 1

    def _scan_at_once(self, psi: Tensor, state: Hidden) -> tuple[Tensor, Hidden]:
        kinds = [torch.stack(state[kind :: self._tensors_per_layer]) for kind in range(self._tensors_per_layer)]
        options = (
            True,
            len(self.layers),
            0.0,
            self.training,
            False,
            True,
        )  # biases; no dropout; not both ways; B first
        x, *after = self._call(psi, kinds if len(kinds) > 1 else kinds[0], self._weights(), *options)
        return x, tuple(chain.from_iterable(zip(*after, strict=True)))

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        if psi.is_cuda and self._is_one_network:
            return self._scan_at_once(psi, state)
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


class Elman(Recurrent):
    """h_t = tanh(U ψ_t + V h_{t-1} + c)."""

    _network = nn.RNN
    _call, _mode = torch._VF.rnn_tanh, "RNN_TANH"


class GRU(Recurrent):
    """Gated recurrent units."""

    _network = nn.GRU
    _call, _mode = torch._VF.gru, "GRU"


class LSTM(Recurrent):
    """Long short-term memory."""

    _network = TorchLSTM
    _call, _mode = torch._VF.lstm, "LSTM"
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

    @property
    def state_size(self) -> int:
        return sum(part.state_size for part in self._controllers())

    @property
    def reads_conditions(self) -> bool:  # type: ignore[override]
        return any(part.reads_conditions for part in self._controllers())

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        return tuple(tensor for part in self._controllers() for tensor in part.initial(conditions, generator=generator))

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        x, start = psi, 0
        after: list[Tensor] = []
        for part in self._controllers():
            width = part.state_size
            x, own = part.scan(x, state[start : start + width], generator=generator)
            after += own
            start += width
        return x, tuple(after)

    def settings(self) -> dict[str, Any]:
        return {"kind": "stacked", "parts": [part.settings() for part in self._controllers()]}

    def __repr__(self) -> str:
        return f"Stacked({', '.join(repr(part) for part in self._controllers())})"
