"""Bodies of today: attention with a cache, an LSTM whose input and state gate each other, a recurrence without a loop.

    Transformer     x ← x + attention(norm x), x ← x + mlp(norm x); rotary positions, the last `window` words are seen
    Mogrifier       x ← 2σ(Q h)∘x, h ← 2σ(R x)∘h in turns, then a step of an LSTM             (Melis et al. 2020)
    MinGRU          h_t = (1 − z_t)∘h_{t−1} + z_t∘h̃_t,  z_t and h̃_t of x_t alone               (Feng et al. 2024)

A gate of MinGRU does not wait for the state, so that all of a text's products are one, and what is left is a linear
recurrence, h_t = a_t∘h_{t−1} + b_t, which is associative: ⌈log₂ T⌉ passes on a GPU, a loop of T short steps on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from llrnn.ground.errors import ConfigError
from llrnn.model.controllers import (
    Controller,
    Hidden,
    check_sizes,
    init_part,
    register_controller,
    variational_dropout,
)


class Layered(Controller):
    """Layers of one kind; dropout on what enters each layer and on what leaves the last."""

    def __init__(self, hidden: int, layers: int, inputs: int | None, dropout: float) -> None:
        super().__init__()
        check_sizes(self, hidden, layers, inputs, dropout)
        self.hidden, self.inputs, self.dropout, self.n_layers = hidden, inputs or hidden, dropout, layers

    def settings(self) -> dict[str, Any]:
        own = {"hidden": self.hidden, "layers": self.n_layers, "inputs": self.inputs, "dropout": self.dropout}
        return {"kind": type(self).__name__.lower(), **own}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(hidden={self.hidden}, layers={self.n_layers}, dropout={self.dropout})"


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(rows, columns))


# --- attention -------------------------------------------------------------------------------------------------------


class Transformer(Layered):
    """Layers of causal attention to the last `window` words, and a perceptron, each behind a norm.

    `heads` of `hidden / heads` numbers each. The state is what later words look back to: keys and values, at most
    `window` − 1 of each, and which of these count; it grows from nothing, and rows of unequal length stand side by side
    with their ends together.
    """

    def __init__(
        self,
        hidden: int = 256,
        *,
        layers: int = 4,
        heads: int = 4,
        window: int = 128,
        inputs: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(hidden, layers, inputs, dropout)
        if heads < 1 or hidden % (2 * heads) or window < 1:
            raise ConfigError(
                "Transformer needs hidden a multiple of 2 · heads, and a window of 1 or more; found hidden = "
                f"{hidden}, heads = {heads}, window = {window}"
            )
        self.heads, self.window = heads, window
        self.enter = _matrix(hidden, self.inputs) if self.inputs != hidden else None
        self.blocks = nn.ModuleList(_AttentionBlock(hidden, heads, window) for _ in range(layers))
        self.norm = nn.Parameter(torch.empty(hidden))
        init_part(self, list(self.named_parameters()))

    @property
    def state_size(self) -> int:
        return self.n_layers + 1

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        B, like = len(conditions), self.norm
        nothing = (like.new_zeros(B, 0, 2 * self.hidden) for _ in range(self.n_layers))
        return torch.zeros(B, 0, dtype=torch.bool, device=like.device), *nothing

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        counts = torch.cat([state[0], state[0].new_ones(psi.shape[:2])], 1)
        x, sees, after = variational_dropout(psi, self.dropout, generator), self._sees(counts, psi.shape[1]), []
        x = x if self.enter is None else F.linear(x, self.enter)
        for block, seen in zip(self.blocks, state[1:], strict=True):
            x, kept = block(x, seen, sees, self.dropout, generator)
            after.append(kept)
        h = variational_dropout(_normed(x, self.norm), self.dropout, generator)
        return h, (self._last(counts), *after)

    def _sees(self, counts: Tensor, T: int) -> Tensor:
        """Which of the S + T words each of the last T attends to, (B, 1, T, S + T)."""
        n = counts.shape[1]
        back = torch.arange(n - T, n, device=counts.device)[:, None] - torch.arange(n, device=counts.device)
        return (counts[:, None, :] & (back >= 0) & (back < self.window)).unsqueeze(1)

    def _last(self, seen: Tensor) -> Tensor:
        return seen[:, max(0, seen.shape[1] - self.window + 1) :]

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "heads": self.heads, "window": self.window}


class _AttentionBlock(nn.Module):
    """Attention and perceptron."""

    def __init__(self, hidden: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.attention_norm, self.mlp_norm = (nn.Parameter(torch.empty(hidden)) for _ in range(2))
        self.queries_keys_values, self.merge = _matrix(3 * hidden, hidden), _matrix(hidden, hidden)
        self.up, self.down = _matrix(4 * hidden, hidden), _matrix(hidden, 4 * hidden)

    def forward(
        self, x: Tensor, seen: Tensor, sees: Tensor, dropout: float, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """(B, T, D), and the keys and values before them (B, S, 2 D); the same after them."""
        B, T, D = x.shape
        made = F.linear(_normed(x, self.attention_norm), self.queries_keys_values)
        query, fresh = made[..., :D], made[..., D:]
        seen = torch.cat([seen, fresh], 1)
        q, k, v = (
            part.view(B, -1, self.heads, D // self.heads).transpose(1, 2) for part in (query, *seen.chunk(2, -1))
        )
        n = seen.shape[1]
        looked = F.scaled_dot_product_attention(_rotated(q, n - T), _rotated(k, 0), v, attn_mask=sees)
        looked = F.linear(looked.transpose(1, 2).reshape(B, T, D), self.merge)
        x = x + variational_dropout(looked, dropout, generator)
        made = F.linear(F.gelu(F.linear(_normed(x, self.mlp_norm), self.up)), self.down)
        return x + variational_dropout(made, dropout, generator), seen[:, max(0, n - self.window + 1) :]


def _normed(x: Tensor, gain: Tensor) -> Tensor:
    """x over its root mean square, times 1 + gain."""
    return F.rms_norm(x, x.shape[-1:]) * (1.0 + gain)


def _rotated(x: Tensor, first: int) -> Tensor:
    """Pairs of coordinates turned by angles that grow with the place, (B, heads, T, d): products see distances only."""
    T, d = x.shape[2:]
    rates = 10_000.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / d)
    angles = torch.arange(first, first + T, device=x.device, dtype=torch.float64)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, other = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([one * cos - other * sin, one * sin + other * cos], -1)


# --- an LSTM whose input and state gate each other -------------------------------------------------------------------


class Mogrifier(Layered):
    """Layers of a Mogrifier LSTM with so many `rounds` of mutual gating."""

    def __init__(
        self, hidden: int = 256, *, layers: int = 1, rounds: int = 4, inputs: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__(hidden, layers, inputs, dropout)
        if rounds < 0:
            raise ConfigError(f"Mogrifier needs rounds of 0 or more, found {rounds}")
        self.rounds = rounds
        sizes = [self.inputs, *[hidden] * (layers - 1)]
        self.cells = nn.ModuleList(_MogrifierCell(size, hidden, rounds) for size in sizes)
        init_part(self, list(self.named_parameters()))

    @property
    def state_size(self) -> int:
        return 2 * self.n_layers

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        like = next(self.parameters())
        return tuple(like.new_zeros(len(conditions), self.hidden) for _ in range(self.state_size))

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        x, after = psi, list[Tensor]()
        for index, cell in enumerate(self.cells):
            x, own = variational_dropout(x, self.dropout, generator), (state[2 * index], state[2 * index + 1])
            seen = []
            for x_t in x.unbind(1):
                own = cell(x_t, *own)
                seen.append(own[0])
            x = torch.stack(seen, 1) if seen else x.new_zeros(len(x), 0, self.hidden)
            after += own
        return variational_dropout(x, self.dropout, generator), tuple(after)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "rounds": self.rounds}


class _MogrifierCell(nn.Module):
    def __init__(self, inputs: int, hidden: int, rounds: int) -> None:
        super().__init__()
        sizes = [(inputs, hidden), (hidden, inputs)]
        self.gates = nn.ParameterList(_matrix(*sizes[i % 2]) for i in range(rounds))
        self.weight, self.bias = _matrix(4 * hidden, inputs + hidden), nn.Parameter(torch.empty(4 * hidden))

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        for i, gate in enumerate(self.gates):
            if i % 2 == 0:
                x = 2.0 * torch.sigmoid(F.linear(h, gate)) * x
            else:
                h = 2.0 * torch.sigmoid(F.linear(x, gate)) * h
        enter, forget, made, leave = F.linear(torch.cat([x, h], 1), self.weight, self.bias).chunk(4, 1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(made)
        return torch.sigmoid(leave) * torch.tanh(c), c


# --- a recurrence without a loop -------------------------------------------------------------------------------------


class MinGRU(Layered):
    """Layers of h_t = (1 − z_t)∘h_{t−1} + z_t∘h̃_t, and y_t = r_t∘h_t + (1 − r_t)∘x_t.

    z, h̃ and r are of the last `reach` words alone, 1 or 2: with 2 it is quasi-recurrent (Bradbury et al. 2017).
    """

    def __init__(
        self, hidden: int = 256, *, layers: int = 2, reach: int = 2, inputs: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__(hidden, layers, inputs, dropout)
        if reach not in (1, 2):
            raise ConfigError(f"MinGRU needs a reach of 1 or 2 words, found {reach}")
        self.reach = reach
        sizes = [self.inputs, *[hidden] * (layers - 1)]
        self.weights = nn.ParameterList(_matrix((3 if size == hidden else 4) * hidden, reach * size) for size in sizes)
        self.biases = nn.ParameterList(nn.Parameter(torch.empty(3 * hidden)) for _ in sizes)
        init_part(self, list(self.named_parameters()))

    @property
    def state_size(self) -> int:
        return self.reach * self.n_layers

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        like, sizes = self.biases[0], [self.hidden] * self.n_layers
        sizes += [self.inputs, *sizes[1:]] if self.reach == 2 else []
        return tuple(like.new_zeros(len(conditions), size) for size in sizes)

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        x, after, H, L = psi, [*state], self.hidden, self.n_layers
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            seen = variational_dropout(x, self.dropout, generator)
            if self.reach == 2:
                earlier = torch.cat([state[L + i].unsqueeze(1), seen], 1)
                seen, after[L + i] = torch.cat([earlier[:, :-1], seen], -1), earlier[:, -1]
            products = F.linear(seen, weight)
            z, made, r = (products[..., : 3 * H] + bias).chunk(3, -1)
            z = torch.sigmoid(z)
            h = linear_recurrence(1.0 - z, z * torch.tanh(made), state[i])
            below = x if products.shape[-1] == 3 * H else products[..., 3 * H :]
            x, after[i] = below + torch.sigmoid(r) * (h - below), torch.cat([state[i].unsqueeze(1), h], 1)[:, -1]
        return variational_dropout(x, self.dropout, generator), tuple(after)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "reach": self.reach}


def linear_recurrence(a: Tensor, b: Tensor, before: Tensor) -> Tensor:
    """h_t = a_t∘h_{t−1} + b_t with h_0 = before, (B, T, D), (B, T, D), (B, D) -> (B, T, D)."""
    return cast(Tensor, _LinearRecurrence.apply(a, b, before))  # type: ignore[no-untyped-call]


class _LinearRecurrence(torch.autograd.Function):
    """The gradient runs backwards by the same recurrence: g_t ← g_t + a_{t+1}∘g_{t+1}; db = g, da_t = g_t∘h_{t−1}."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, before: Tensor) -> Tensor:
        h = _recur(a, b, before)
        ctx.save_for_backward(a, h, before)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, h, before = ctx.saved_tensors
        if a.shape[1] == 0:
            return torch.zeros_like(a), torch.zeros_like(a), torch.zeros_like(before)
        after = torch.cat([a[:, 1:], torch.zeros_like(a[:, :1])], 1)
        g = _recur(after.flip(1), grads[0].flip(1), torch.zeros_like(before)).flip(1)
        return g * torch.cat([before.unsqueeze(1), h[:, :-1]], 1), g, a[:, 0] * g[:, 0]


def _recur(a: Tensor, b: Tensor, before: Tensor) -> Tensor:
    return _recur_in_passes(a, b, before) if _in_passes(a) else _recur_in_steps(a, b, before)


def _in_passes(a: Tensor) -> bool:
    return a.is_cuda


def _recur_in_passes(a: Tensor, b: Tensor, before: Tensor) -> Tensor:
    """After the pass of distance k, (a, b) at t are those of the 2 k steps up to t as one."""
    T, k = a.shape[1], 1
    b = torch.cat([torch.addcmul(b[:, :1], a[:, :1], before.unsqueeze(1)), b[:, 1:]], 1)
    while k < T:
        b = torch.cat([b[:, :k], torch.addcmul(b[:, k:], a[:, k:], b[:, :-k])], 1)
        a = torch.cat([a[:, :k], a[:, k:] * a[:, :-k]], 1)
        k *= 2
    return b


def _recur_in_steps(a: Tensor, b: Tensor, before: Tensor) -> Tensor:
    h = torch.empty_like(b)
    for t in range(a.shape[1]):
        before = torch.addcmul(b[:, t], a[:, t], before, out=h[:, t])
    return h


for _kind in (Transformer, Mogrifier, MinGRU):
    register_controller(_kind.__name__.lower(), _kind)
