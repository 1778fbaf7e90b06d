"""Bodies that are here to be compared only, each a module (B, T, inputs) -> (B, T, hidden) for `from_module`.

    FeedForward     h_t = tanh(U [ψ_{t−n+1}; …; ψ_t] + c)                     n words and no memory (Bengio et al. 2003)
    Jordan          s_t = tanh(U ψ_t + V o_{t−1} + c),  h_t = o_t = tanh(P s_t + d)                    (Jordan 1986)
    Reservoir       h_t = tanh(U ψ_t + V h_{t−1} + c),  U, V, c drawn once,  ρ(V) = radius < 1         (Jaeger 2001)
    MinGRU          h_t = (1 − z_t)∘h_{t−1} + z_t∘h̃_t,  z_t and h̃_t of the last words alone       (Feng et al. 2024)

Before the first word a window holds zeros. A reservoir forgets how it began only if the spectral radius ρ of V is below
1; nothing before its h is trained. A gate of MinGRU does not wait for the state: what is left is a linear recurrence,
h_t = a_t∘h_{t−1} + b_t, which is associative: ⌈log₂ T⌉ passes on a GPU, a loop of T short steps on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from llrnn.model.controllers import Controller, init_part, register_controller
from llrnn.model.own import from_module


class Body(nn.Module):
    """Dropout with one mask for each sequence."""

    weight: Tensor
    bias: Tensor
    read: Tensor
    back: Tensor
    out: Tensor
    out_bias: Tensor

    def __init__(self, hidden: int, inputs: int, dropout: float, **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.hidden, self.inputs, self.dropout = hidden, inputs, dropout
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        init_part(self, list(self.named_parameters()))

    def dropped(self, x: Tensor) -> Tensor:
        return x * F.dropout(x.new_ones(len(x), 1, x.shape[2]), self.dropout, self.training)


class FeedForward(Body):
    """Bengio's network: the last `words` words side by side, through one hidden layer."""

    def __init__(self, hidden: int, inputs: int, dropout: float = 0.0, words: int = 4) -> None:
        super().__init__(hidden, inputs, dropout, weight=(hidden, words * inputs), bias=(hidden,))
        self.words = words

    def forward(self, psi: Tensor) -> Tensor:
        window = F.pad(psi, (0, 0, self.words - 1, 0)).unfold(1, self.words, 1).transpose(2, 3).flatten(2)
        return self.dropped(torch.tanh(F.linear(self.dropped(window), self.weight, self.bias)))


class Jordan(Body):
    """A recurrence through what the network puts out, and not through its hidden layer."""

    def __init__(self, hidden: int, inputs: int, dropout: float = 0.0) -> None:
        square = (hidden, hidden)
        own = {"read": (hidden, inputs), "back": square, "out": square, "bias": (hidden,), "out_bias": (hidden,)}
        super().__init__(hidden, inputs, dropout, **own)

    def forward(self, psi: Tensor) -> Tensor:
        o, said = psi.new_zeros(len(psi), self.hidden), []
        for read in F.linear(self.dropped(psi), self.read, self.bias).unbind(1):
            o = torch.tanh(F.linear(torch.tanh(read + F.linear(o, self.back)), self.out, self.out_bias))
            said.append(o)
        return self.dropped(torch.stack(said, 1))


class Reservoir(Body):
    """An echo state network: drawn from `seed`, scaled to the spectral radius, and left as it is."""

    def __init__(self, hidden: int, inputs: int, dropout: float = 0.0, radius: float = 0.9, seed: int = 0) -> None:
        super().__init__(hidden, inputs, dropout)
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator, dtype=torch.float64) * 2 - 1

        back = drawn(hidden, hidden) * (torch.rand(hidden, hidden, generator=generator) < max(0.1, 8 / hidden))
        self.register_buffer("back", (back * radius / torch.linalg.eigvals(back).abs().max()).float())
        self.register_buffer("read", (drawn(hidden, inputs) * (3 / inputs) ** 0.5).float())
        self.register_buffer("bias", (drawn(hidden) * 0.1).float())

    @torch.no_grad()
    def forward(self, psi: Tensor) -> Tensor:
        """ψ of a word is drawn within 1/√D: brought to entries of about 1."""
        h, said = psi.new_zeros(len(psi), self.hidden), []
        for read in F.linear(psi * (3 * self.inputs) ** 0.5, self.read, self.bias).unbind(1):
            h = torch.tanh(read + F.linear(h, self.back))
            said.append(h)
        return self.dropped(torch.stack(said, 1))


class MinGRU(Body):
    """One layer, y_t = r_t∘h_t + (1 − r_t)∘x_t; z, h̃ and r are of the last `reach` words (2: Bradbury et al. 2017)."""

    def __init__(self, hidden: int, inputs: int, dropout: float = 0.0, reach: int = 2) -> None:
        rows = (3 if inputs == hidden else 4) * hidden
        super().__init__(hidden, inputs, dropout, weight=(rows, reach * inputs), bias=(3 * hidden,))
        self.reach = reach

    def forward(self, x: Tensor) -> Tensor:
        seen, H = self.dropped(x), self.hidden
        if self.reach == 2:
            seen = torch.cat([F.pad(seen, (0, 0, 1, 0))[:, :-1], seen], -1)
        products = F.linear(seen, self.weight)
        z, made, r = (products[..., : 3 * H] + self.bias).chunk(3, -1)
        z, below = torch.sigmoid(z), x if products.shape[-1] == 3 * H else products[..., 3 * H :]
        return below + torch.sigmoid(r) * ((recur_in_passes if x.is_cuda else recur)(1 - z, z * made.tanh()) - below)


def recur(a: Tensor, b: Tensor) -> Tensor:
    """h_t = a_t∘h_{t−1} + b_t from h_0 = 0, (B, T, D)."""
    h = [b[:, 0]]
    for t in range(1, b.shape[1]):
        h.append(torch.addcmul(b[:, t], a[:, t], h[-1]))
    return torch.stack(h, 1)


def recur_in_passes(a: Tensor, b: Tensor) -> Tensor:
    """After the pass of distance k, (a, b) at t are those of the 2 k steps up to t as one."""
    k = 1
    while k < a.shape[1]:
        b = torch.cat([b[:, :k], torch.addcmul(b[:, k:], a[:, k:], b[:, :-k])], 1)
        a = torch.cat([a[:, :k], a[:, k:] * a[:, :-k]], 1)
        k *= 2
    return b


def mingru(hidden: int, inputs: int, dropout: float = 0.0, layers: int = 2, reach: int = 2) -> nn.Module:
    """Layers of MinGRU."""
    sizes = [inputs, *[hidden] * (layers - 1)]
    return nn.Sequential(*(MinGRU(hidden, size, dropout, reach) for size in sizes))


BODIES: dict[str, Callable[..., nn.Module]] = {
    "feedforward": FeedForward,
    "jordan": Jordan,
    "reservoir": Reservoir,
    "mingru": mingru,
}


def body(kind: str, hidden: int = 256, *, inputs: int | None = None, **settings: Any) -> Controller:
    """One of `BODIES` as a controller; a model folder that holds it opens where this file is imported."""
    size = inputs or hidden
    said = {"kind": kind, "hidden": hidden, "inputs": size, **settings}
    return from_module(BODIES[kind](hidden, size, **settings), inputs=size, settings=said)


for _kind in BODIES:
    register_controller(_kind, partial(body, _kind))
