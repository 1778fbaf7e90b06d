"""A controller from any `nn.Module`.

    LLRNN(vocabulary, ..., controller=from_module(nn.GRU(64, 128, num_layers=2, batch_first=True)))
    LLRNN(vocabulary, ..., controller=from_module(my_transformer, inputs=64))     # (B, T, 64) -> (B, T, hidden), causal

One of torch's recurrent networks keeps its own state. Any other module is a function of the words so far: the state is
these words, and a step reads all of them again, T² / 2 words for a sentence of T. A network that can go on from a state
of its own is a subclass of `Controller`. Weights stay as they are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from llrnn.ground.errors import ConfigError
from llrnn.model.controllers import Controller, Hidden, mode_generator


def from_module(
    module: nn.Module, *, inputs: int | None = None, settings: dict[str, Any] | None = None
) -> TorchRecurrent | PrefixFunction:
    """Wrap a torch module as a controller (the network of a model), with the weights that it has.

    The module is one of torch's recurrent networks, or any that is called as module(x), x (B, T, inputs), and returns
    (B, T, hidden) without looking ahead. `inputs`: the size of its input vectors, needed for the second kind; the size
    of its output is found by a call. A model folder keeps its weights and buffers, and `load(folder,
    controller=from_module(...))` opens it; `load(folder)` alone does if `settings` name a kind that
    `register_controller` knows: {"kind": "mine", ...}. Raises ConfigError if the module cannot be called so, or is
    bidirectional.

        from_module(nn.LSTM(32, 64, batch_first=True))
    """
    if isinstance(module, nn.RNNBase):
        return TorchRecurrent(module, settings)
    if inputs is None or inputs < 1:
        raise ConfigError(
            f"from_module needs inputs=, the size of what {type(module).__name__} takes in, found {inputs}"
        )
    return PrefixFunction(module, inputs, settings)


class _FromModule(Controller):
    same_operations = False  # a seed is drawn, rows are grouped

    def __init__(self, module: nn.Module, settings: dict[str, Any] | None) -> None:
        super().__init__()
        self.module, self._settings = module, settings

    def settings(self) -> dict[str, Any]:
        return dict(self._settings or {"kind": "custom"})

    def _like(self) -> Tensor:
        """Return a tensor with the device and dtype of the wrapped module's parameters, empty if it has none."""
        return next((p for p in self.module.parameters() if p.is_floating_point()), torch.zeros(0))

    @contextmanager
    def _seeded(self, generator: torch.Generator | None) -> Iterator[None]:
        """Context manager within which torch's global generator is seeded from `generator`; yields None.

        The seed is one random number drawn from `generator`. A wrapped module's dropout draws from torch's global
        generator: so equal generators drop equally, and a training run can be resumed bit for bit. Nothing is done for
        None, or in eval mode; afterwards the global generator is as it was.
        """
        device = self._like().device
        if generator is None or not self.module.training or generator is mode_generator(self, None, device):
            yield
            return
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield

    def __repr__(self) -> str:
        return f"from_module({type(self.module).__name__}, inputs={self.inputs}, hidden={self.hidden})"


class TorchRecurrent(_FromModule):
    """A controller (network of a model) that wraps an `nn.RNN`, `nn.GRU` or `nn.LSTM` with the weights it has.

    Its own dropout is active in train mode. `settings`: what a model folder stores for it, {"kind": registered name,
    …}, None if it is not registered. Raises ConfigError for a bidirectional one. Made by `from_module(nn.LSTM(32, 64,
    batch_first=True))`.
    """

    def __init__(self, module: nn.RNNBase, settings: dict[str, Any] | None = None) -> None:
        super().__init__(module, settings)
        if module.bidirectional:
            raise ConfigError("a language model reads forwards only, found a bidirectional network, which looks ahead")
        self.inputs, self.hidden = module.input_size, module.proj_size or module.hidden_size
        self._layers = module.num_layers
        self._sizes = [self.hidden, module.hidden_size] if module.mode == "LSTM" else [self.hidden]

    @property
    def state_size(self) -> int:
        return len(self._sizes)

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        return tuple(self._like().new_zeros(len(conditions), self._layers, size) for size in self._sizes)

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        first = self.module.batch_first
        own = [part.transpose(0, 1).contiguous() for part in state]
        with self._seeded(generator):
            h, after = self.module(psi if first else psi.transpose(0, 1), tuple(own) if len(own) > 1 else own[0])
        after = (after,) if isinstance(after, Tensor) else after
        return h if first else h.transpose(0, 1), tuple(part.transpose(0, 1) for part in after)


class PrefixFunction(_FromModule):
    """A controller (network of a model) that wraps any causal module (B, T, inputs) -> (B, T, hidden).

    It reads the whole prefix anew at every step. The state is what was read, (B, S, inputs), and a mask (B, S). Rows
    that have read different amounts are read in groups of equal length: the module never sees padding. `settings`: what
    a model folder stores for it, {"kind": registered name, …}, None if it is not registered. Made by
    `from_module(module, inputs=32)`.
    """

    def __init__(self, module: nn.Module, inputs: int, settings: dict[str, Any] | None = None) -> None:
        super().__init__(module, settings)
        self.inputs = inputs
        self.hidden = self._probed()

    def _probed(self) -> int:
        """Return the size of the wrapped module's output vectors, found by a call with zeros.

        Raises ConfigError where the call fails, or its result is not of shape (B, T, hidden).
        """
        psi, name = self._like().new_zeros(2, 3, self.inputs), type(self.module).__name__
        was_training = self.module.training
        try:
            with torch.no_grad():
                found = self.module.eval()(psi)
        except (RuntimeError, TypeError, ValueError, AssertionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ConfigError(f"{name} must take (B, T, {self.inputs}), but a call of it failed: {reason}") from error
        finally:
            self.module.train(was_training)
        if not isinstance(found, Tensor) or found.dim() != 3 or found.shape[:2] != (2, 3):
            said = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ConfigError(f"{name} must give (B, T, hidden), found {said} for (2, 3, {self.inputs})")
        return found.shape[2]

    state_size = 2

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        like, B = self._like(), len(conditions)
        return like.new_zeros(B, 0, self.inputs), torch.zeros(B, 0, dtype=torch.bool, device=like.device)

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        (B, T, _), (before, counted) = psi.shape, state
        read, counts = torch.cat([before, psi], 1), torch.cat([counted, counted.new_ones(B, T)], 1)
        h, lengths = psi.new_empty(B, T, self.hidden), counts.sum(1)
        with self._seeded(generator):
            for length in sorted(set(lengths.tolist())) if T else []:
                rows = (lengths == length).nonzero().view(-1)
                h = h.index_copy(0, rows, self.module(read[rows, -length:])[:, length - T :].to(h.dtype))
        return h, (read, counts)
