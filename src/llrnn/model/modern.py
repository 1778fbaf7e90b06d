"""Bodies of today: attention with a cache, an LSTM whose input and state gate each other.

Transformer     x ← x + attention(norm x), x ← x + mlp(norm x); rotary positions, the last `window` words are seen
Mogrifier       x ← 2σ(Q h)∘x, h ← 2σ(R x)∘h in turns, then a step of an LSTM             (Melis et al. 2020)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from llrnn.ground.errors import ConfigError
from llrnn.model.controllers import Hidden, Layered, init_part, register_controller, variational_dropout


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(rows, columns))


# --- attention -------------------------------------------------------------------------------------------------------


class Transformer(Layered):
    """A controller (network of a model): a Transformer decoder that attends to the last `window` words.

    Each layer is causal attention and a perceptron, with a norm before each. `hidden`: size of h; `layers`: how many;
    `heads`: how many heads of attention, with `hidden / heads` numbers each; `window` counts the present word;
    `inputs`: size of the input ψ, `hidden` unless given; `dropout`: the share of coordinates dropped in training. The
    state is a mask of the valid words, and for each layer a cache of keys and values, at most `window` − 1 of each;
    rows of unequal length are aligned at their ends. Raises ConfigError for sizes that do not fit.

        LLRNN(vocabulary, output_features=features.Identity(), controller=Transformer(256, layers=4))
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
        """Return the attention mask (B, 1, T, S + T) bool: which of the S + T words each of the last T attends to.

        `counts` (B, S + T) bool: which of the words are valid (not padding). A word attends to itself and the `window`
        − 1 words before it, as far as they are valid.
        """
        n = counts.shape[1]
        back = torch.arange(n - T, n, device=counts.device)[:, None] - torch.arange(n, device=counts.device)
        return (counts[:, None, :] & (back >= 0) & (back < self.window)).unsqueeze(1)

    def _last(self, seen: Tensor) -> Tensor:
        return seen[:, max(0, seen.shape[1] - self.window + 1) :]

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "heads": self.heads, "window": self.window}


class _AttentionBlock(nn.Module):
    """One layer of a Transformer: causal attention, then a perceptron, each after a norm and added to its input.

    `hidden`: the size D of vectors; `heads`: how many heads of attention; `window`: how many words it attends to, the
    present one included.
    """

    def __init__(self, hidden: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.attention_norm, self.mlp_norm = (nn.Parameter(torch.empty(hidden)) for _ in range(2))
        self.queries_keys_values, self.merge = _matrix(3 * hidden, hidden), _matrix(hidden, hidden)
        self.up, self.down = _matrix(4 * hidden, hidden), _matrix(hidden, 4 * hidden)

    def forward(
        self, x: Tensor, seen: Tensor, sees: Tensor, dropout: float, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """Return the layer's output for T new words, (B, T, D), and its cache with their keys and values added.

        `x` (B, T, D): its input; `seen` (B, S, 2 D): the cached keys and values of S words before; `sees` (B, 1, T, S +
        T): the attention mask, True where a word is attended to; `dropout`: the rate at which outputs of attention and
        perceptron are dropped; `generator`: what dropout draws from, None for no dropout. The new cache is cut to the
        last `window` − 1 words.
        """
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


def _normed(x: Tensor, scale: Tensor) -> Tensor:
    """Return x divided by its root mean square over the last dimension, times 1 + scale."""
    return F.rms_norm(x, x.shape[-1:]) * (1.0 + scale)


def _rotated(x: Tensor, first: int) -> Tensor:
    """Return x (B, heads, T, d) with rotary position embedding, for the positions first … first + T − 1.

    Coordinates i and d/2 + i are rotated by the angle position · 10000^(−2i/d), so that dot products of rotated vectors
    depend on the distance of their positions only. d is even.
    """
    T, d = x.shape[2:]
    rates = 10_000.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / d)
    angles = torch.arange(first, first + T, device=x.device, dtype=torch.float64)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, other = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([one * cos - other * sin, one * sin + other * cos], -1)


# --- an LSTM whose input and state gate each other -------------------------------------------------------------------


class Mogrifier(Layered):
    """A controller (network of a model): the Mogrifier LSTM (Melis et al. 2020).

    Input and state gate each other before every step. `hidden`: size of h; `layers`: how many; `rounds`: how many times
    they gate each other, in turn, the input first; 0 for a plain LSTM; `inputs`: size of the input ψ, `hidden` unless
    given; `dropout`: the share of coordinates dropped in training.

        LLRNN(vocabulary, output_features=features.Identity(), controller=Mogrifier(64, rounds=5))
    """

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


for _kind in (Transformer, Mogrifier):
    register_controller(_kind.__name__.lower(), _kind)
