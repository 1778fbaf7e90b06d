"""Contextual features that are linear in static ones: they touch most of V, and log Z stays a sum over classes.

    φ_i(K, x) = Σ_j S_ij(K) φ_j(x)          over some static columns j, J of them

    a·φ(x) + Σ_i a_i(h) φ_i(K, x) = (a + E o)·φ(x)          o_j = Σ_i a_i(h) S_ij(K),  E (m, J) picks the columns

What the network makes of them is an offset o of a few weights at every position. Since a + E o = (W E)(h o) + c, it is
the layer of a network with J more hidden units, of which E are the weights: every way to log Z serves as it is
(`layer.ways`), at J/H more work. Agreement is such a feature: of each verb, at each position (`llrnn_agreement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from llrnn.layer.matrix import WeightCache, needs_gradient
from llrnn.layer.priors import ContextValues, Prior

if TYPE_CHECKING:
    from llrnn.layer.loglinear import LogLinear
    from llrnn.layer.steered import Steered

_ALIGNED = 8  # hidden units: products in half precision are slow on a GPU where rows begin elsewhere


@dataclass(frozen=True, eq=False)
class LinearValues:
    """Values of k contextual features at N positions: φ_i(K_n, x) = Σ_j slope[n, i, j] Φ[x, columns[j]]."""

    slope: Tensor  # (N, k, J)
    columns: tuple[int, ...]  # of Φ: J of them
    steady: bool = False  # whether their weights are c alone, the same whatever h is

    @property
    def width(self) -> int:
        return self.slope.shape[1]

    @property
    def n(self) -> int:
        return len(self.slope)

    def to(self, device: torch.device, dtype: torch.dtype) -> LinearValues:
        """The same values where the layer is, in the numbers that it computes with."""
        if self.slope.device == device and self.slope.dtype == dtype:
            return self
        return replace(self, slope=self.slope.to(device, dtype))

    def row(self, n: int) -> LinearValues:
        """One position alone."""
        return self if self.n == 1 else replace(self, slope=self.slope[n : n + 1])

    def of(self, static: Tensor) -> Tensor:
        """From values of all static features, (N, m), those of these, (N, k): of words, or expected ones."""
        slope = self.slope.expand(len(static), -1, -1)
        return torch.bmm(slope, static[:, list(self.columns)].to(slope.dtype).unsqueeze(2)).squeeze(2)


AnyValues = ContextValues | LinearValues


def placed(h: Tensor, prior: Prior, values: Sequence[AnyValues]) -> tuple[Tensor, Prior, list[AnyValues]]:
    """All where h is, and in its numbers; in float32 where these are shorter."""
    h = h if h.dtype.itemsize >= torch.float32.itemsize else h.float()
    return h, prior.to(h.device), [part.to(h.device, h.dtype) for part in values]


class Given(NamedTuple):
    """What a distribution was asked for, before linear features became offsets."""

    layer: LogLinear
    h: Tensor
    values: Sequence[AnyValues]
    steered: Steered | None

    def row(self, n: int) -> Given:
        """Of one position alone."""
        steered = self.steered and self.steered.row(n)
        return Given(self.layer, self.h[n : n + 1], [part.row(n) for part in self.values], steered)

    def weights(self) -> Tensor:
        """a of all features, contextual ones last, (N, m + k)."""
        a = torch.cat([self.layer.adaptor(self.h), self.layer.context_adaptor(self.h)], 1)
        return a if self.steered is None else self.steered.changed(a, 0)

    def joined(self, other: Tensor, static: Tensor) -> Tensor:
        """Values of all contextual features, (N, k), from those of the others and of all static features."""
        own = iter(torch.split(other, [part.width for part in self.values if isinstance(part, ContextValues)], 1))
        found = [part.of(static) if isinstance(part, LinearValues) else next(own) for part in self.values]
        return torch.cat([part.to(other.dtype) for part in found], 1) if found else other


def folded(given: Given) -> tuple[LogLinear, Tensor, list[ContextValues], Steered | None]:
    """The same distributions without linear features: a layer, h, the other values, and how weights are changed."""
    layer, h, values, steered = given
    others = [part for part in values if isinstance(part, ContextValues)]
    if len(others) == len(values):
        return layer, h, others, steered
    a = layer.context_adaptor(h)
    a = a if steered is None else steered.changed(a, len(layer.weight))
    offset, columns, kept, first = list[Tensor](), list[int](), list[int](), 0
    for part in values:
        own = range(first, first := first + part.width)
        if isinstance(part, LinearValues):
            weights = a[:, own.start : own.stop]
            if part.steady and steered is None:  # their W is 0, and without a gradient stays so
                weights = layer.context_bias[own.start : own.stop].expand_as(weights)
            offset.append(torch.bmm(weights.unsqueeze(1), part.slope.expand(len(h), -1, -1)))
            columns += part.columns
        else:
            kept += own
    o = torch.cat(offset, 2).squeeze(1)  # (N, J)
    if steered is None:
        o = F.pad(o, (0, _aligned(h.shape[1], len(columns)) - len(columns)))
        return _widened(layer, tuple(columns), kept), torch.cat([h, o], 1), others, None
    return _widened(layer, (), kept), h, others, _with_offset(steered, o, columns, kept)


def _with_offset(steered: Steered, o: Tensor, columns: Sequence[int], kept: Sequence[int]) -> Steered:
    m = len(steered.layer.weight)
    picked = torch.tensor([*range(m), *(m + i for i in kept)], device=o.device)
    scale, offset = (part.to(o)[:, picked] for part in (steered.scale, steered.offset))
    offset = offset.expand(len(o), -1).index_add(1, torch.tensor(columns, device=o.device), o)
    return steered._replace(scale=scale, offset=offset)


def _widened(layer: LogLinear, columns: tuple[int, ...], kept: Sequence[int]) -> LogLinear:
    """With J more hidden units, each the weight of one column, or of none; cached while no gradient is asked for."""
    make = partial(_made, layer, columns, tuple(kept))
    if needs_gradient(*layer.parameters()) or not layer.caches:
        return make()
    found = layer.widened.get(lambda: (columns, make()), *layer.parameters())
    if found[0] != columns:
        layer.widened.clear()
        found = layer.widened.get(lambda: (columns, make()), *layer.parameters())
    return found[1]


def _aligned(hidden: int, n: int) -> int:
    """n, or a few more: the units for n columns."""
    return n + -(hidden + n) % _ALIGNED


_PICKS: dict[tuple[object, ...], Tensor] = {}  # few: one for a model and a device


def _picks(columns: tuple[int, ...], like: Tensor) -> Tensor:
    """E, (m, J): which column each of J hidden units is the weight of."""
    m, H = like.shape
    key = columns, m, H, like.device, like.dtype
    if key not in _PICKS:
        if len(_PICKS) > 16:
            _PICKS.clear()
        picks = torch.zeros(m, _aligned(H, len(columns)) if columns else 0, dtype=like.dtype)
        picks[list(columns), range(len(columns))] = 1.0
        _PICKS[key] = picks.to(like.device)
    return _PICKS[key]


def _made(layer: LogLinear, columns: tuple[int, ...], kept: tuple[int, ...]) -> LogLinear:
    picks = _picks(columns, layer.weight)
    # piece by piece: a list of numbers would be copied to a GPU, which no CUDA graph can
    rows = [slice(i, i + 1) for i in kept] or [slice(0)]
    context, bias = (torch.cat([part[row] for row in rows]) for part in (layer.context_weight, layer.context_bias))
    tensors = {
        "weight": torch.cat([layer.weight, picks], 1),
        "bias": layer.bias,
        "context_weight": torch.cat([context, context.new_zeros(len(kept), picks.shape[1])], 1),
        "context_bias": bias,
    }
    made = type(layer).__new__(type(layer))
    made.__dict__.update(layer.__dict__)
    for name, value in layer.__dict__.items():
        if isinstance(value, WeightCache):
            made.__dict__[name] = WeightCache[Any]()
    made._parameters = cast(Any, tensors)
    return made
