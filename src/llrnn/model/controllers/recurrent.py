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
import platform
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from itertools import chain, pairwise
from threading import Lock
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.backends.cudnn.rnn import get_cudnn_mode

from llrnn.ground.errors import ConfigError

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


def without_init(network: Callable[..., nn.RNNBase], inputs: int, hidden: int, **options: Any) -> nn.Module:
    """One of torch's networks with uninitialised weights; made on the meta device, torch's global generator stays."""
    made = network(inputs, hidden, batch_first=True, device="meta", **options)
    for name, parameter in list(made.named_parameters()):  # not by `to_empty`, for which torch imports sympy
        setattr(made, name, nn.Parameter(torch.empty(parameter.shape)))
    return made


_drawing: ContextVar[bool] = ContextVar("drawing", default=True)


@contextmanager
def skip_init() -> Iterator[None]:
    """A block in which weights are not initialised, which takes long: they are loaded right after."""
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


def init_part(module: nn.Module, parameters: Sequence[tuple[str, nn.Parameter]]) -> None:
    """Initialise one of our own parts, so that it can be used alone; a model initialises it again by its own seed.

    A digest tells weights that were loaded, trained or written since, which stay.
    """
    initialise(parameters, 0)
    module.init_digest = tuple(name for name, _ in parameters), _digest(parameters)  # type: ignore[assignment]


def untouched_init(module: nn.Module) -> list[nn.Parameter]:
    """The parameters of our own parts in it whose weights are still those of `init_part`."""
    found: list[nn.Parameter] = []
    for part in module.modules():
        names, digest = getattr(part, "init_digest", ((), None))
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


# torch's LSTM, by the faster of the two ways that torch has on a CPU.
#
# oneDNN    one call for a whole layer: the fastest way on x86-64, where it has kernels for it
# torch     its own loop in C++: on aarch64, where oneDNN has a reference only, it takes a quarter of the time for one
#           word and little more than half of it for 64 rows of 32 words (Neoverse N1, torch 2.13)
#
# torch asks a switch for all of oneDNN which way to go. It is off while such a layer is called, in all threads; how
# many calls are under way is counted, so that the last of them leaves the switch as the first one found it.


ONE_DNN_IS_SLOW = platform.machine().lower() in ("aarch64", "arm64")


class WithoutOneDNN:
    """A block in which torch does not ask oneDNN; threads may be in it at the same time."""

    def __init__(self) -> None:
        self._lock, self._calls, self._before = Lock(), 0, True

    def __enter__(self) -> None:
        with self._lock:
            if self._calls == 0:
                self._before = torch._C._get_mkldnn_enabled()
                torch._C._set_mkldnn_enabled(False)
            self._calls += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0:
                torch._C._set_mkldnn_enabled(self._before)


_faster = WithoutOneDNN() if ONE_DNN_IS_SLOW else nullcontext()


class TorchLSTM(nn.LSTM):
    """`nn.LSTM`: the same numbers, up to rounding."""

    def forward(self, *given: Any) -> Any:
        with _faster:
            return super().forward(*given)


# Recurrent networks: Elman, GRU, LSTM, and controllers on top of each other.
#
# On a GPU, layers without dropout between them are one call of cuDNN, which begins with an upper layer before the one
# below has come to the end of the text: for 64 rows of 32 words on an H200 two layers take two thirds of the time.


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
        self.layers = nn.ModuleList(without_init(self._network, size, hidden) for size in sizes[:-1])
        init_part(self, list(self.named_parameters()))

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
        # biases; layers; no dropout; training; not bidirectional; batch first
        options = (True, len(self.layers), 0.0, self.training, False, True)
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
