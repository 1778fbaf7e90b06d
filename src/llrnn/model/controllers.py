"""The seam of the recurrent network that follows the prefix, and of what it may read first: the condition.

    initial(C) -> state                           one condition for each sequence; most controllers do not look
    step(ψ_t, state) -> (h_t, state)              one symbol
    scan(ψ_1..T, state) -> (h_1..T, state)        its fold, in one call

Dropout is drawn from the `generator` that a call is given, one mask for the whole sequence (variational dropout, Gal
and Ghahramani 2016), and never inside the recurrence, of whose weights some can be left out for a whole batch
(DropConnect, as Merity et al. 2018 do): W_hh · mask / (1 − rate), whose expectation is W_hh. Without a generator there
is none: nothing is random by itself. The model has torch's switch, `train()` and `eval()`, and hands a generator down
in train mode only (`mode_generator`).

torch's LSTM, by the faster of the two ways that torch has on a CPU.

oneDNN    one call for a whole layer: the fastest way on x86-64, where it has kernels for it
torch     its own loop in C++: on aarch64, where oneDNN has a reference only, it takes a quarter of the time for one
          word and little more than half of it for 64 rows of 32 words (Neoverse N1, torch 2.13)

torch asks a switch for all of oneDNN which way to go. It is off while such a layer is called, in all threads; how
many calls are under way is counted, so that the last of them leaves the switch as the first one found it.

Recurrent networks: Elman, GRU, LSTM.

On a GPU, layers without dropout between them are one call of cuDNN, which begins with an upper layer before the one
below has come to the end of the text: for 64 rows of 32 words on an H200 two layers take two thirds of the time.

A condition as a memory that a network can look at.

    e_i = Σ_{f fires on symbol i of C} E_f                  the symbols of C with their input features
    m_1..S = the states of a network that reads e_1..S in both directions, or e_1..S themselves

A `ConditionTokenizer` says what the symbols of a condition are (`text.conditions`). A category is one symbol: its
memory is one row, a learned vector, and to look at it is to read that vector. So conditions of a fixed size need
nothing else.

A controller that looks at the condition while it follows the prefix.

    below_t = f(ψ_t, below_{t-1})                       what was said so far
    α_t = softmax_i( (Q below_t)·m_i / √D )             where to look in the memory of the condition
    h_t = g([below_t; Σ_i α_ti m_i], h_{t-1})           what was said, and what was looked at, then and before

The look stands between two recurrent networks, so a whole sequence is one call of each; the one above remembers what
was looked at, as it would if the last look were fed in again (Luong et al. 2015 call that input feeding).
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import sys
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cached_property
from itertools import accumulate, chain, pairwise
from threading import Lock
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.backends.cudnn.rnn import get_cudnn_mode
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from llrnn.ground.arrays import ByteCache
from llrnn.ground.errors import CheckpointError, ConfigError, LLRNNError, quoted
from llrnn.ground.plugins import find_kind
from llrnn.text.conditions import Act, ConditionTokenizer, Token, fields_of, make_tokenizer

__all__ = [
    "GRU", "LSTM", "Attentive", "Controller", "Elman", "Encoder", "Hidden", "make_controller", "register_controller",
]  # fmt: skip

Hidden = tuple[Tensor, ...]


class Controller(nn.Module):
    """Base class of the networks of a model: they compute hidden vectors h from the text before, symbol by symbol.

    `inputs`: the size of the input vector ψ at each step, the embedding of the symbol read; `hidden`: the size of h.
    The state is a tuple of tensors, each (B, …) with a row for each sequence. Subclasses define `state_size`,
    `initial`, `scan` and `settings`; `testing.check_controller` checks them.

        h, state = controller.scan(psi, controller.initial([None] * B))     # (B, T, inputs) -> (B, T, hidden)
    """

    inputs: int
    hidden: int
    reads_conditions = False  # whether every sequence needs one
    same_operations = True  # whether a scan is the same sequence of operations on tensors, whatever the numbers

    @property
    @abstractmethod
    def state_size(self) -> int:
        """The number of tensors in the state that `initial` and `scan` return."""

    @abstractmethod
    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        """Return the state of B sequences before any symbol, a tuple of tensors with a row for each of B conditions.

        A condition is the input that a text is written from, None where there is none; most controllers ignore it.
        `generator`: what dropout draws from; None drops nothing.
        """

    @abstractmethod
    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        """Run all T steps of B sequences, psi (B, T, inputs) -> h (B, T, hidden); return h and the state after them.

        psi: the embeddings of the symbols; `state`: the state before the first step; `generator`: what dropout draws
        from; None drops nothing.
        """

    def step(self, psi: Tensor, state: Hidden) -> tuple[Tensor, Hidden]:
        """Run a step of B sequences without dropout, psi (B, inputs) -> h (B, hidden); return h and the state after.

        psi: the embeddings of one symbol for each sequence; `state`: the state before the step.
        """
        h, state = self.scan(psi.unsqueeze(1), state)
        return h.squeeze(1), state

    def trimmed(self, state: Hidden) -> Hidden:
        """Return a state that goes on as `state` does, without columns that are padding in all of its rows.

        Such columns are left where a search has taken out the rows of longer sequences. The base class returns the
        state itself. `state`: a tuple of tensors, each with one row for each sequence; the number of rows stays.
        """
        return state

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments as plain data, with the class's registered name as "kind".

        `make_controller` makes the controller again from them.
        """


class SomeRows(torch.Generator):
    """A `torch.Generator` for some rows of a batch, such as those of one process in distributed training.

    `device`: where it draws; `rows`: a slice of row numbers; `n_rows`: the number of rows of the whole batch. It is
    seeded like any generator, with one seed in all processes. `uniform` then draws for `rows` what it would draw for
    them within the whole batch of `n_rows` rows, so that the result does not depend on the number of processes.
    """

    def __new__(cls, device: torch.device, rows: slice, n_rows: int) -> SomeRows:
        return super().__new__(cls, device)  # type: ignore[call-arg]

    def __init__(self, device: torch.device, rows: slice, n_rows: int) -> None:
        self.rows, self.n_rows = rows, n_rows


def uniform(n_rows: int, *shape: int, generator: torch.Generator, **options: Any) -> Tensor:
    """Draw numbers uniformly from [0, 1) for the rows of a batch, (n_rows, *shape); `options`: for `torch.rand`.

    With a `SomeRows` generator, the whole batch is drawn and only the generator's rows are returned.
    """
    if isinstance(generator, SomeRows):
        return torch.rand(generator.n_rows, *shape, generator=generator, **options)[generator.rows]
    return torch.rand(n_rows, *shape, generator=generator, **options)


def variational_dropout(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Return x (B, T, D) with random coordinates zeroed, the same at all T steps of a row, and the others scaled.

    `rate`: the probability of being zeroed; the others are divided by 1 − rate. x itself without a generator.
    """
    if generator is None or rate == 0.0:
        return x
    B, _, D = x.shape
    kept = uniform(B, 1, D, generator=generator, device=x.device, dtype=x.dtype) >= rate
    return x * kept / (1.0 - rate)


def mode_generator(
    module: nn.Module, generator: torch.Generator | None, device: torch.device
) -> torch.Generator | None:
    """Return the random generator for the dropout of `module`: None in eval mode, so that nothing is dropped.

    In train mode it is `generator`, or where that is None torch's global one of `device`. `module.training` says which
    mode it is.
    """
    if not module.training or generator is not None:
        return generator if module.training else None
    if device.type != "cuda":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]


@contextmanager
def _in_mode(training: bool, parts: Iterable[nn.Module]) -> Iterator[None]:
    switched = [part for part in parts if part.training != training]
    for part in switched:
        part.training = training
    try:
        yield
    finally:
        for part in switched:
            part.training = not training


def evaluating(module: nn.Module) -> AbstractContextManager[None]:
    """Return a context manager within which `module` is in eval mode; afterwards each submodule is as it was."""
    return _in_mode(False, module.modules())


def learning_rnns(module: nn.Module) -> AbstractContextManager[None]:
    """Return a context manager within which recurrent networks in `module` are in train mode.

    cuDNN then keeps what gradients need. Other submodules keep the mode they have; afterwards all are as before.
    Dropout does not change, since it depends on the mode of the whole model.
    """
    return _in_mode(True, (part for part in module.modules() if isinstance(part, nn.RNNBase | Recurrent)))


def without_init(network: Callable[..., nn.RNNBase], inputs: int, hidden: int, **options: Any) -> nn.Module:
    """Return one of torch's recurrent networks with uninitialised weights; no random number is drawn.

    `network`: its class; `inputs`, `hidden`: its sizes; `options`: further arguments of it; `batch_first` is set.
    """
    made = network(inputs, hidden, batch_first=True, device="meta", **options)
    for name, parameter in list(made.named_parameters()):  # not by `to_empty`, for which torch imports sympy
        setattr(made, name, nn.Parameter(torch.empty(parameter.shape)))
    return made


_drawing: ContextVar[bool] = ContextVar("drawing", default=True)


@contextmanager
def skip_init() -> Iterator[None]:
    """Context manager within which new controllers leave their weights uninitialised, to be loaded right after.

    Yields None.
    """
    token = _drawing.set(False)
    try:
        yield
    finally:
        _drawing.reset(token)


def initialise(parameters: Sequence[tuple[str, nn.Parameter]], seed: int) -> None:
    """Draw the given (name, parameter) pairs anew, in order of names: uniform within ±1/√(size of last dimension).

    They are written in place, from a generator with this `seed`; parameters of one dimension become 0. Nothing is done
    within `skip_init`. Raises MemoryError where the weights do not fit the machine.
    """
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
    """Initialise the given (name, parameter) pairs of a module with seed 0, so that it can be used alone.

    A digest of these weights is stored on the module. A model that takes the module in draws them again by its own
    seed, unless they were loaded, trained or written since (`untouched_init`).
    """
    initialise(parameters, 0)
    module.init_digest = tuple(name for name, _ in parameters), _digest(parameters)  # type: ignore[assignment]


def untouched_init(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters in a module and its submodules that still have the weights which `init_part` drew.

    Compared is, for each module that `init_part` was called on, a digest of all its parameters: they are returned
    together or not at all.
    """
    found: list[nn.Parameter] = []
    for part in module.modules():
        names, digest = getattr(part, "init_digest", ((), None))
        parameters = [(name, part.get_parameter(name)) for name in names]
        if digest is not None and _digest(parameters) == digest:
            found += [parameter for _, parameter in parameters]
    return found


def _digest(parameters: Sequence[tuple[str, nn.Parameter]]) -> bytes | None:
    """Return the SHA-256 of the values of these parameters, in float32 and in order; None within `skip_init`.

    `parameters`: (name, parameter) pairs, of which names do not count. A cast to float64 does not change the result.
    """
    if not _drawing.get():
        return None
    digest = hashlib.sha256()
    for _, parameter in parameters:
        digest.update(parameter.detach().float().cpu().numpy().data)
    return digest.digest()


def _require_memory(needed: int) -> None:
    """Raise MemoryError if `needed` bytes are more than the machine's physical memory, if that is known."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > found:
        raise MemoryError(f"the weights take {needed / 2**30:,.0f} GiB, and there are {found / 2**30:,.0f} GiB")


# torch's LSTM, by the faster of the two ways that torch has on a CPU.


ONE_DNN_IS_SLOW = platform.machine().lower() in ("aarch64", "arm64")


class WithoutOneDNN:
    """A context manager within which torch does not use oneDNN; several threads may be in it at once.

    Use: `with WithoutOneDNN(): ...`; when the last thread leaves, torch's flag is as it was.
    """

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
    """An `nn.LSTM` that runs without oneDNN on ARM processors, where that is faster; equal outputs, up to rounding."""

    def forward(self, *given: Any) -> Any:
        with _faster:
            return super().forward(*given)


# Recurrent networks: Elman, GRU, LSTM.


class Layered(Controller):
    """Base class of controllers made of `layers` equal layers, which checks and keeps their sizes.

    Subclasses apply `dropout` to the input of each layer and the output of the last. `hidden`: the size of h, the
    output vectors; `inputs`: the size of the input vectors, None for `hidden`; `layers`: how many, 1 or more. Raises
    ConfigError for sizes below 1, or a dropout rate outside [0, 1).
    """

    def __init__(self, hidden: int, layers: int, inputs: int | None, dropout: float) -> None:
        super().__init__()
        if hidden < 1 or layers < 1 or (inputs is not None and inputs < 1):
            name = type(self).__name__
            raise ConfigError(f"{name} needs hidden, layers, inputs of 1 or more, found {hidden}, {layers}, {inputs}")
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"dropout must be at least 0 and below 1, found {dropout}")
        self.hidden, self.inputs, self.dropout, self.n_layers = hidden, inputs or hidden, dropout, layers

    def settings(self) -> dict[str, Any]:
        own = {"hidden": self.hidden, "layers": self.n_layers, "inputs": self.inputs, "dropout": self.dropout}
        return {"kind": type(self).__name__.lower(), **own}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(hidden={self.hidden}, layers={self.n_layers}, dropout={self.dropout})"


class Recurrent(Layered):
    """Base class of the controllers `Elman`, `GRU` and `LSTM`: a stack of torch's recurrent networks.

    `hidden`: size of each layer, and of h unless `last` is given, the size of the last layer; `layers`: how many;
    `inputs`: size of the input ψ, `hidden` unless given. In training `dropout` is the rate between layers, and on the
    first one's input and the last one's output unless `input_dropout` and `output_dropout` say otherwise;
    `weight_dropout`: the rate at which weights of the recurrence are left out, the same ones for a whole batch.
    """

    _network: Callable[..., nn.RNNBase]
    _call: Callable[..., tuple[Tensor, ...]]  # all layers at once
    _mode: str  # what cuDNN calls it
    _tensors_per_layer = 1

    def __init__(
        self,
        hidden: int = 256,
        *,
        layers: int = 1,
        inputs: int | None = None,
        last: int | None = None,
        dropout: float = 0.0,
        input_dropout: float | None = None,
        output_dropout: float | None = None,
        weight_dropout: float = 0.0,
    ) -> None:
        super().__init__(hidden, layers, inputs, dropout)
        optional: dict[str, float | None] = {
            "last": last, "input_dropout": input_dropout, "output_dropout": output_dropout,
            "weight_dropout": weight_dropout or None,
        }  # fmt: skip
        self._more = {name: value for name, value in optional.items() if value is not None}
        if wrong := [name for name, value in self._more.items() if name != "last" and not 0.0 <= value < 1.0]:
            raise ConfigError(f"{wrong[0]} must be at least 0 and below 1, found {self._more[wrong[0]]}")
        self.weight_dropout, self.width, self.hidden = weight_dropout, hidden, last or hidden
        self.sizes = [*[hidden] * (layers - 1), self.hidden]  # of the layers
        before = [self.inputs, *self.sizes]
        self.layers = nn.ModuleList(without_init(self._network, *pair) for pair in pairwise(before))
        init_part(self, list(self.named_parameters()))

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"hidden": self.width} | self._more

    @property
    def input_dropout(self) -> float:
        return self._more.get("input_dropout", self.dropout)

    @property
    def output_dropout(self) -> float:
        return self._more.get("output_dropout", self.dropout)

    @property
    def state_size(self) -> int:
        return len(self.layers) * self._tensors_per_layer

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        like = next(self.layers[0].parameters())  # its own would walk through all modules
        made = (like.new_zeros(len(conditions), size) for size in self.sizes)
        return tuple(zeros for zeros in made for _ in range(self._tensors_per_layer))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply a move or cast of torch (`.to`, `.half`) to the weights, and return self.

        On a GPU the weights of all layers are then put in one piece of memory again, as cuDNN wants them.
        """
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
        rates = (self.dropout, self.input_dropout, self.output_dropout, self.weight_dropout)
        return not any(rates) and len(self.layers) > 1 and self.hidden == self.width

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
            x = variational_dropout(x, self.dropout if index else self.input_dropout, generator)
            given = tuple(own) if len(own) > 1 else own[0]
            if generator is None or self.weight_dropout == 0.0:
                x, own_after = layer(x, given)
                after += [own_after] if isinstance(own_after, Tensor) else list(own_after)
            else:
                x, *own_after = self._with_dropped_weights(layer, x, given, generator)
                after += own_after
        return variational_dropout(x, self.output_dropout, generator), tuple(part.squeeze(0) for part in after)

    def _with_dropped_weights(
        self, layer: nn.Module, x: Tensor, state: Any, generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Run one layer, x (B, T, D), with random weights of its recurrence set to 0 and the others scaled; see `scan`.

        The mask is drawn from `generator`; all rows and steps share it. `state`: of the layer before, as torch has it.
        """
        into, again, *biases = layer.parameters()
        kept = torch.rand(again.shape, generator=generator, device=x.device, dtype=x.dtype) >= self.weight_dropout
        weights = [into, again * kept / (1.0 - self.weight_dropout), *biases]
        with _faster, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "RNN module weights are not part of single contiguous")  # copied, in µs
            return self._call(x, state, weights, True, 1, 0.0, self.training, False, True)


class Elman(Recurrent):
    """A controller (network of a model): the Elman network, h_t = tanh(U ψ_t + V h_{t-1} + c).

    `hidden`: size of h; `layers`: how many; `inputs`: size of the input ψ, `hidden` unless given; `dropout`: the share
    of coordinates dropped in training.

        LLRNN(vocabulary, output_features=features.Identity(), controller=Elman(64))
    """

    _network = nn.RNN
    _call, _mode = torch._VF.rnn_tanh, "RNN_TANH"


class GRU(Recurrent):
    """A controller (network of a model) of gated recurrent units (Cho et al. 2014).

    `hidden`: size of h; `layers`: how many; `inputs`: size of the input ψ, `hidden` unless given; `dropout`: the share
    of coordinates dropped in training.

        LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(64, layers=2))
    """

    _network = nn.GRU
    _call, _mode = torch._VF.gru, "GRU"


class LSTM(Recurrent):
    """A controller (network of a model) with long short-term memory (Hochreiter and Schmidhuber 1997).

    `hidden`: size of h; `layers`: how many; `inputs`: size of the input ψ, `hidden` unless given; `dropout`: the share
    of coordinates dropped in training.

        LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(64, dropout=0.2))
    """

    _network = TorchLSTM
    _call, _mode = torch._VF.lstm, "LSTM"
    _tensors_per_layer = 2


class Silent(Controller):
    """A controller without a network: h is what it reads, of size `hidden`; its state is an empty tuple.

    Use: `Silent()`, as `controller` of an `LLRNN`: h has no coordinates, and feature weights do not depend on the text.
    `Silent(H)`: h is the H numbers of the contextual inputs, such as the state of a language model (`LMState`).
    """

    state_size = 0

    def __init__(self, hidden: int = 0) -> None:
        super().__init__()
        self.inputs = self.hidden = hidden

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        return ()

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        return psi, state

    def settings(self) -> dict[str, Any]:
        return {"kind": "none"} | ({"hidden": self.hidden} if self.hidden else {})

    def __repr__(self) -> str:
        return f"Silent({self.hidden or ''})"


# A condition as a memory that a network can look at.


_OTHER = "Other"  # fires on a symbol of which nothing is known
_END: Token = ("End",)  # behind the last symbol, so that there is always something to look at
_NETWORKS: dict[str, type[nn.RNNBase]] = {"lstm": TorchLSTM, "gru": nn.GRU}
_KNOWN_BYTES = 64 * 2**20  # of conditions whose symbols are kept
_BYTES_A_SYMBOL, _BYTES_A_COLUMN = 80, 8  # of a list, and of a place in it; small numbers are shared


class Encoder(nn.Module):
    """Network that turns conditions, the inputs that texts are written from, into vectors that a controller attends to.

    `reading`: a `ConditionTokenizer`, which turns a condition into tokens, each a tuple of feature names; `names`: the
    features that have an embedding, all others are ignored; a token's vector is the sum of the embeddings of its
    features; `size`: the size of the vectors, even for a network; `kind`: the bidirectional network that reads the
    embedded tokens, "lstm", "gru", or "none" for the embeddings alone; `dropout`: rate in training. Raises ConfigError
    for other kinds or sizes. `vectors, valid = encoder([condition])` gives (B, S, size) and a mask (B, S).
    """

    def __init__(
        self,
        reading: ConditionTokenizer,
        names: Sequence[str],
        size: int = 128,
        *,
        kind: str = "lstm",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kind not in ("none", *_NETWORKS) or size < 1 or (kind != "none" and size % 2):
            raise ConfigError(
                "an encoder is lstm, gru (of an even size: half for each direction) or none, of a size of 1 or more; "
                f"found {quoted(kind)} of size {size}"
            )
        self.reading, self.size, self.kind, self.dropout = reading, size, kind, dropout
        self.names = tuple(dict.fromkeys((_OTHER, *_END, *names)))
        self._column = {name: column for column, name in enumerate(self.names)}
        self._known: ByteCache[str, list[list[int]]] = ByteCache(_KNOWN_BYTES, _bytes_of)
        self.weight = nn.Parameter(torch.zeros(len(self.names), size))
        self.network = None if kind == "none" else without_init(_NETWORKS[kind], size, size // 2, bidirectional=True)
        init_part(self, list(self.named_parameters()))

    @classmethod
    def for_conditions(
        cls,
        reading: ConditionTokenizer,
        conditions: Iterable[object],
        size: int = 128,
        *,
        min_count: int = 1,
        **options: Any,
    ) -> Encoder:
        """Return an encoder whose features are those that the tokens of `conditions` have `min_count` times or more.

        `reading`: turns a condition into tokens, tuples of feature names; `size`: the size of the vectors; `options`:
        further arguments of `Encoder`. Conditions are the inputs that texts are written from, such as dialog acts.
        """
        counts = Counter(name for condition in conditions for token in reading.tokens(condition) for name in token)
        return cls(reading, sorted(name for name, n in counts.items() if n >= min_count), size, **options)

    def forward(self, conditions: Sequence[object], generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the encodings of B conditions, padded to one tensor (B, S, size), and a mask (B, S), True where valid.

        Conditions are the inputs that texts are written from; S is the number of tokens of the longest, where most
        tokenizers add a token for the end. `generator`: what dropout draws from; None drops nothing. Raises ConfigError
        for a condition None.
        """
        rows = [self._columns(condition) for condition in conditions]
        lengths = torch.tensor([len(row) for row in rows])
        counts = torch.arange(int(lengths.max())) < lengths[:, None]
        symbols = self._embedded([symbol for row in rows for symbol in row])
        padded = symbols.new_zeros(*counts.shape, self.size)
        counts = counts.to(symbols.device)
        padded[counts] = symbols
        memory = self._read(variational_dropout(padded, self.dropout, generator), lengths)
        return variational_dropout(memory, self.dropout, generator), counts

    def _embedded(self, symbols: list[list[int]]) -> Tensor:
        device = self.weight.device
        offsets = torch.tensor([0, *accumulate(len(symbol) for symbol in symbols)][:-1], device=device)
        columns = torch.tensor([column for symbol in symbols for column in symbol], device=device)
        return F.embedding_bag(columns, self.weight, offsets, mode="sum")

    def _read(self, symbols: Tensor, lengths: Tensor) -> Tensor:
        if self.network is None:
            return symbols
        packed = pack_padded_sequence(symbols, lengths, batch_first=True, enforce_sorted=False)
        memory, _ = pad_packed_sequence(self.network(packed)[0], batch_first=True)
        return memory

    def _columns(self, condition: object) -> list[list[int]]:
        """Return for each token of a condition the indices of its known features in `names`; cached.

        A token without a known feature has the feature "Other"; a token for the end is added where the tokenizer wants
        one, or there are no others. A condition is the input that a text is written from; raises ConfigError for None.
        """
        if condition is None:
            raise ConfigError("this model writes from a condition, and none was given; give one to every sequence")
        key = condition if isinstance(condition, str) else repr(condition)
        return self._known.get(key, lambda: self._looked_up(condition))

    def _looked_up(self, condition: object) -> list[list[int]]:
        tokens = self.reading.tokens(condition)
        tokens = [*tokens, _END] if self.reading.ends or not tokens else tokens
        known = [[self._column[name] for name in token if name in self._column] for token in tokens]
        return [columns or [self._column[_OTHER]] for columns in known]

    def unknown_names(self, condition: object) -> list[str]:
        """Return the dialog act and slots of a condition whose names no condition in training had: they are ignored.

        A condition is the input that a text is written from; [] if it is neither a dialog act nor a mapping. Each name
        once, in the condition's order.
        """
        if not isinstance(condition, Act | Mapping):
            return []
        given = [*([condition.name] if isinstance(condition, Act) else []), *(slot for slot, _ in fields_of(condition))]
        return [name for name in dict.fromkeys(given) if name and name not in self.known_names]

    def unknown_values(self, condition: object) -> dict[str, list[str]]:
        """Return {slot: words} of a condition's values that its known slots never had in training; {} if none.

        A value is looked at word by word, as the encoder's tokens have it.

        A condition is the input that a text is written from.
        """
        found: dict[str, list[str]] = {}
        for name in dict.fromkeys(name for token in self.reading.tokens(condition) for name in token):
            slot, equals, word = name.partition("=")
            if equals and slot in self.known_names and name not in self._column:
                found.setdefault(slot, []).append(word)
        return found

    def known_values(self, slot: str) -> list[str]:
        """Return the words that values of this slot had in training, sorted; [] for an unknown slot."""
        return sorted(name.partition("=")[2] for name in self.names if name.startswith(f"{slot}="))

    @cached_property
    def known_names(self) -> frozenset[str]:
        """The names that `unknown_names` does not report: `slot_names`, and all words in the conditions of training."""
        words = {name.removeprefix("Word:") for name in self.names if name.startswith("Word:")}
        return frozenset({*self.slot_names, *words})

    @cached_property
    def slot_names(self) -> frozenset[str]:
        """The names of dialog acts and slots in the conditions of training, and of slots that are read elsewhere.

        Conditions are the inputs that texts are written from; slots read elsewhere are those that the encoder passes
        over and other parts of the model read.
        """
        named = {name.partition(":")[2] for name in self.names if name.startswith(("Act:", "Slot:"))}
        slots = {name.partition("=")[0] for name in self.names if "=" in name and not name.startswith("Word:")}
        return frozenset({*named, *slots, *self.reading.passed_over})

    def settings(self) -> dict[str, Any]:
        """Return the encoder's constructor arguments as plain data, from which `make_encoder` makes it again."""
        own = {"size": self.size, "kind": self.kind, "dropout": self.dropout}
        return {"reading": self.reading.settings(), "names": list(self.names), **own}

    def __repr__(self) -> str:
        return f"Encoder({self.reading.kind}, {len(self.names)} features, size={self.size}, kind={self.kind!r})"


def _bytes_of(key: str, symbols: list[list[int]]) -> int:
    return sys.getsizeof(key) + sum(_BYTES_A_SYMBOL + _BYTES_A_COLUMN * len(columns) for columns in symbols)


def make_encoder(settings: dict[str, Any]) -> Encoder:
    """Return an untrained encoder from the data that `Encoder.settings` returned.

    Raises ConfigError where its "names" are not a list of strings.
    """
    given = dict(settings)
    names = given.get("names")
    wrong = [name for name in names if not isinstance(name, str)] if isinstance(names, list | tuple) else [names]
    if wrong:
        raise ConfigError(f"the features of an encoder must be a list of their names, found {quoted(wrong[0])}")
    return Encoder(make_tokenizer(given.pop("reading")), **given)


# A controller that looks at the condition while it follows the prefix.


class Attentive(Controller):
    """A controller (network of a model) with attention to the condition, the input that the text is written from.

    `below` reads the words; its h attends to the vectors that `encoder` makes of the condition, and `above` reads both.
    `above.inputs` must be `below.hidden + encoder.size`, else ConfigError. Use: `Attentive(LSTM(64), encoder, LSTM(64,
    inputs=64 + encoder.size))`, as `controller` of an `LLRNN`.
    """

    reads_conditions = True

    def __init__(self, below: Controller, encoder: Encoder, above: Controller) -> None:
        super().__init__()
        if above.inputs != below.hidden + encoder.size:
            raise ConfigError(
                f"the controller above must take {below.hidden} + {encoder.size} inputs (what is below, and a row of "
                f"the memory), found {above.inputs}"
            )
        self.below, self.encoder, self.above = below, encoder, above
        self.inputs, self.hidden = below.inputs, above.hidden
        self.query = nn.Parameter(torch.zeros(encoder.size, below.hidden))  # Q
        init_part(self, [("query", self.query)])

    @property
    def state_size(self) -> int:
        return 2 + self.below.state_size + self.above.state_size

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        memory, counts = self.encoder(conditions, generator)
        own = (part.initial(conditions, generator=generator) for part in (self.below, self.above))
        return memory, counts, *(tensor for state in own for tensor in state)

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        memory, counts, *own = state
        width = self.below.state_size
        below, below_after = self.below.scan(psi, tuple(own[:width]), generator=generator)
        seen = self.weights(below, memory, counts) @ memory
        h, above_after = self.above.scan(torch.cat([below, seen], -1), tuple(own[width:]), generator=generator)
        return h, (memory, counts, *below_after, *above_after)

    def trimmed(self, state: Hidden) -> Hidden:
        memory, counts, *own = state
        used = counts.any(0)
        return state if bool(used.all()) else (memory[:, used], counts[:, used], *own)

    def weights(self, below: Tensor, memory: Tensor, counts: Tensor) -> Tensor:
        """Return the attention weights over the S encoded tokens at each of T steps, (B, T, S); each row sums to one.

        `below` (B, T, D): hidden vectors of the lower controller; `memory` (B, S, size): the encoded condition;
        `counts` (B, S) bool: which of its vectors are valid (not padding); others get weight 0.
        """
        scores = (below @ self.query.t()) @ memory.transpose(1, 2) / math.sqrt(self.encoder.size)
        return scores.masked_fill(~counts.unsqueeze(1), float("-inf")).softmax(-1)

    def settings(self) -> dict[str, Any]:
        around = {"below": self.below.settings(), "encoder": self.encoder.settings()}
        return {"kind": "attentive", **around, "above": self.above.settings()}

    def __repr__(self) -> str:
        return f"Attentive({self.below!r}, {self.encoder!r}, {self.above!r})"


_kinds: dict[str, Callable[..., Controller]] = {"elman": Elman, "gru": GRU, "lstm": LSTM, "none": Silent}


def register_controller(kind: str, make: Callable[..., Controller]) -> None:
    """Register a controller class under a name, so that `load` can rebuild it from a model folder.

    `kind`: the name, which the controller's `settings()` return as "kind"; `make`: called with the other settings as
    keyword arguments. Register it before `load`. Raises ConfigError for the reserved names "attentive" and "custom".

        register_controller("mine", MyController)
    """
    if kind in ("attentive", "custom"):
        raise ConfigError(f"the kind {kind!r} is one of llrnn's own; choose another name")
    _kinds[kind] = make


_AGAIN = "train again with kind = 'lstm', or give a module of your own to from_module"
_REMOVED = dict.fromkeys(("feedforward", "jordan", "mingru", "reservoir", "stacked"), _AGAIN) | {
    "joined": "mix its members again, which is a sum now: llrnn model mix",
    "first state": "train again with condition = { reading = 'numbers' }, which joins numbers at every step",
}  # which model folders may still hold: what to use instead


def make_controller(settings: dict[str, Any]) -> Controller:
    """Return a controller with new weights from its settings: {"kind": name, …}, the rest arguments of that class.

    "kind" is "lstm" if missing, another of llrnn's, or one that was registered. Raises ConfigError for an unknown kind.

        make_controller({"kind": "lstm", "hidden": 64})
    """
    given = dict(settings)
    kind = given.pop("kind", "lstm")
    if kind == "attentive":
        below, above = make_controller(given["below"]), make_controller(given["above"])
        return Attentive(below, make_encoder(given["encoder"]), above)
    if kind in _REMOVED and kind not in _kinds:
        raise ConfigError(f"this llrnn has no controller {quoted(kind)} any more: {_REMOVED[kind]}")
    make = _kinds.get(kind) or find_kind("controllers", kind, Controller)
    if make is None:
        known = ", ".join(sorted(_kinds))
        raise ConfigError(
            f"unknown kind of controller {quoted(kind)}: use one of {known}; one of your own is named by "
            "register_controller before it is opened, or is in a package that must be installed"
        )
    made: Controller = make(**given)
    return made


def described_controller(controller: Controller) -> dict[str, Any]:
    """Return the settings that a model folder stores for a controller, from which `make_controller` makes it again.

    For a class that `make_controller` cannot make again the result is {"kind": "custom", "class": name}. Raises
    CheckpointError if the controller keeps data that is neither a parameter nor a buffer.
    """
    kept = {name for name, _ in controller.named_parameters(remove_duplicate=False)}
    lost = sorted(controller.state_dict().keys() - kept - dict(controller.named_buffers()).keys())
    if lost:
        raise CheckpointError(
            f"the controller {type(controller).__name__} holds {lost[0]!r}, which is no tensor: a model folder keeps "
            "parameters and buffers only, so it could not be opened again; make it a parameter or a buffer"
        )
    if _can_be_made_again(controller):
        return controller.settings()
    return {"kind": "custom", "class": type(controller).__qualname__}


def _can_be_made_again(controller: Controller) -> bool:
    """Return whether `make_controller(controller.settings())` has the same classes, and weights of the same shapes."""
    try:
        with skip_init():
            made = make_controller(controller.settings())
    except (LLRNNError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return False
    return _structure(made) == _structure(controller)


def _structure(controller: Controller) -> list[object]:
    parts = [(name, type(part), type(getattr(part, "reading", None))) for name, part in controller.named_modules()]
    return [*parts, *((name, parameter.shape) for name, parameter in controller.named_parameters())]
