"""Bodies of earlier days, for comparison: a window, feedback from what is put out, a reservoir that is never trained.

    FeedForward     h_t = tanh(U [ψ_{t−n+1}; …; ψ_t] + c)                     n words and no memory (Bengio et al. 2003)
    Jordan          s_t = tanh(U ψ_t + V o_{t−1} + c),  h_t = o_t = tanh(P s_t + d)                    (Jordan 1986)
    Reservoir       h_t = tanh(U ψ_t + V h_{t−1} + c),  U, V, c drawn once,  ρ(V) = radius < 1         (Jaeger 2001)

Before the first word a window holds zeros. A reservoir forgets how it began only if the spectral radius ρ of V is below
1: with more it may run away, and is refused. Nothing before its h is trained, the vectors ψ of words neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from llrnn.ground.errors import ConfigError
from llrnn.model.controllers import Hidden, init_part, register_controller, variational_dropout
from llrnn.model.modern import Layered

_DENSITY = 0.1  # of the connections of a reservoir


class FeedForward(Layered):
    """Bengio's network: the last `words` words side by side, through one hidden layer (and more above it)."""

    def __init__(
        self, hidden: int = 256, *, layers: int = 1, inputs: int | None = None, dropout: float = 0.0, words: int = 4
    ) -> None:
        super().__init__(hidden, layers, inputs, dropout)
        if words < 1:
            raise ConfigError(f"FeedForward needs a window of 1 word or more, found {words}")
        self.words = words
        sizes = [words * self.inputs, *[hidden] * layers]
        self.weight = nn.ParameterList(torch.empty(hidden, size) for size in sizes[:-1])
        self.bias = nn.ParameterList(torch.zeros(hidden) for _ in range(layers))
        init_part(self, list(self.named_parameters()))

    @property
    def state_size(self) -> int:
        return 1

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        return (self.bias[0].new_zeros(len(conditions), self.words - 1, self.inputs),)

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        seen = torch.cat([state[0], psi], 1)  # (B, n − 1 + T, D)
        window = seen.unfold(1, self.words, 1).transpose(2, 3).flatten(2)  # (B, T, n D), the oldest word first
        x = variational_dropout(window, self.dropout, generator)
        for weight, bias in zip(self.weight, self.bias, strict=True):
            x = variational_dropout(torch.tanh(x @ weight.t() + bias), self.dropout, generator)
        return x, (seen[:, seen.shape[1] - self.words + 1 :],)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "words": self.words}


class _OneLayer(Layered):
    """One layer, whose state is one vector."""

    bias: Tensor

    def __init__(self, hidden: int, layers: int, inputs: int | None, dropout: float) -> None:
        super().__init__(hidden, layers, inputs, dropout)
        if layers != 1:
            raise ConfigError(f"{type(self).__name__} has one layer, found layers = {layers}; leave it out")

    @property
    def state_size(self) -> int:
        return 1

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        return (self.bias.new_zeros(len(conditions), self.hidden),)


class Jordan(_OneLayer):
    """A recurrence through what the network puts out, and not through its hidden layer; one layer."""

    def __init__(self, hidden: int = 256, *, layers: int = 1, inputs: int | None = None, dropout: float = 0.0) -> None:
        super().__init__(hidden, layers, inputs, dropout)
        self.read = nn.Parameter(torch.empty(hidden, self.inputs))  # U
        self.back = nn.Parameter(torch.empty(hidden, hidden))  # V
        self.out = nn.Parameter(torch.empty(hidden, hidden))  # P
        self.bias: nn.Parameter = nn.Parameter(torch.zeros(hidden))
        self.out_bias = nn.Parameter(torch.zeros(hidden))
        init_part(self, list(self.named_parameters()))

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        read = variational_dropout(psi, self.dropout, generator) @ self.read.t() + self.bias
        o, said = state[0], list[Tensor]()
        for t in range(psi.shape[1]):
            s = torch.tanh(read[:, t] + o @ self.back.t())
            o = torch.tanh(s @ self.out.t() + self.out_bias)
            said.append(o)
        return variational_dropout(torch.stack(said, 1), self.dropout, generator), (o,)


class Reservoir(_OneLayer):
    """An echo state network: drawn from `seed`, scaled to the spectral radius, and left as it is.

    `radius` must be below 1. Dropout is on what leaves it alone.
    """

    read: Tensor
    back: Tensor

    def __init__(
        self,
        hidden: int = 256,
        *,
        layers: int = 1,
        inputs: int | None = None,
        dropout: float = 0.0,
        radius: float = 0.9,
        seed: int = 0,
    ) -> None:
        super().__init__(hidden, layers, inputs, dropout)
        if not 0 <= radius < 1:
            raise ConfigError(
                f"a reservoir needs a spectral radius of at least 0 and below 1, found {radius}: from 1 on its states "
                "need not forget how they began, and diverge; give radius = 0.9"
            )
        self.radius, self.seed = radius, seed
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, dtype=torch.float64) * 2 - 1

        back = drawn(hidden, hidden) * (torch.rand(hidden, hidden, generator=generator) < max(_DENSITY, 8 / hidden))
        largest = float(torch.linalg.eigvals(back).abs().max())
        self.register_buffer("back", (back * (radius / largest if largest > 0 else 0.0)).float())
        self.register_buffer("read", (drawn(hidden, self.inputs) * (3 / self.inputs) ** 0.5).float())
        self.register_buffer("bias", (drawn(hidden) * 0.1).float())

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        with torch.no_grad():
            # ψ of a word is drawn within 1/√D: brought to entries of about 1
            read = (psi * math.sqrt(3 * self.inputs)) @ self.read.t() + self.bias
            h, said = state[0], list[Tensor]()
            for t in range(psi.shape[1]):
                h = torch.tanh(read[:, t] + h @ self.back.t())
                said.append(h)
        return variational_dropout(torch.stack(said, 1), self.dropout, generator), (h,)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "radius": self.radius, "seed": self.seed}


for _kind in (FeedForward, Jordan, Reservoir):
    register_controller(_kind.__name__.lower(), _kind)
