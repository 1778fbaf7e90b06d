"""Contextual features that are linear in static ones: they touch most of V, and log Z stays a sum over classes.

    φ_i(K, x) = Σ_j S_ij(K) φ_j(x)          over some static columns j, J of them

    a·φ(x) + Σ_i a_i(h) φ_i(K, x) = (a + E o)·φ(x)          o_j = Σ_i a_i(h) S_ij(K),  E (m, J) picks the columns

What the network makes of them is an offset o of a few weights at every position. Since a + E o = (W E)(h o) + c, it is
the layer of a network with J more hidden units, of which E are the weights: every way to log Z serves as it is, at J/H
more work. Agreement is such a feature: of each verb, at each position (`llrnn_agreement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from llrnn.layer.priors import AnyValues, ContextValues, LinearValues, Prior
from llrnn.layer.weights import Caches, LayerWeights, WeightChange

_ALIGNED = 8  # hidden units: products in half precision are slow on a GPU where rows begin elsewhere


def placed(h: Tensor, prior: Prior, values: Sequence[AnyValues]) -> tuple[Tensor, Prior, list[AnyValues]]:
    """Return (h, prior, values): the prior and contextual feature values moved to the device of hidden vectors h.

    h is cast to float32 if it is in half precision. Feature values take the dtype of h, the prior keeps its own.
    `values`: a `ContextValues` or `LinearValues` for each source of features.
    """
    h = h if h.dtype.itemsize >= torch.float32.itemsize else h.float()
    return h, prior.to(h.device), [part.to(h.device, h.dtype) for part in values]


class Given(NamedTuple):
    """The arguments that a `Distribution` was made from, before linear contextual features were folded into weights.

    `weights`: the layer's `LayerWeights`; `h` (N, H): hidden vectors; `values`: the values of all contextual features,
    a `ContextValues` or `LinearValues` for each source; `change`: a `WeightChange` of the feature weights, or None.
    """

    weights: LayerWeights
    h: Tensor
    values: Sequence[AnyValues]
    change: WeightChange | None

    def row(self, n: int) -> Given:
        """Return the arguments of the distribution at position n alone, with h (1, H)."""
        change = self.change and self.change.row(n)
        return Given(self.weights, self.h[n : n + 1], [part.row(n) for part in self.values], change)

    def adaptor(self) -> Tensor:
        """Return the weights a of all features, m static, then k contextual ones, (N, m + k), with `change` applied."""
        a = self.weights.full_adaptor(self.h)
        return a if self.change is None else self.change.changed(a, 0)

    def joined(self, other: Tensor, static: Tensor) -> Tensor:
        """Return the values of all k contextual features at N positions, (N, k), in the order of `values`.

        `other` (N, k'): those of the features that are not linear in static ones; `static` (N, m): of all static
        features, from which the linear ones are computed. Both are values on one word at each position; given expected
        values over words, the result is expected values.
        """
        own = iter(torch.split(other, [part.width for part in self.values if isinstance(part, ContextValues)], 1))
        found = [part.of(static) if isinstance(part, LinearValues) else next(own) for part in self.values]
        return torch.cat([part.to(other.dtype) for part in found], 1) if found else other


def folded(given: Given) -> tuple[LayerWeights, Tensor, list[ContextValues], WeightChange | None]:
    """Return (weights, h, values, change) that give the same distributions without any `LinearValues`.

    Contextual features that are linear in static ones become offsets of the static weights: extra columns of h (N, H +
    …) with weights of their own, or part of an existing change. The values are those of the other contextual features;
    the change is None if there was none.
    """
    weights, h, values, change = given
    others = [part for part in values if isinstance(part, ContextValues)]
    if len(others) == len(values):
        return weights, h, others, change
    a = weights.context_adaptor(h)
    a = a if change is None else change.changed(a, len(weights.weight))
    offset, columns, kept, first = list[Tensor](), list[int](), list[int](), 0
    for part in values:
        own = range(first, first := first + part.width)
        if isinstance(part, LinearValues):
            of_part = a[:, own.start : own.stop]
            if part.context_independent and change is None:  # their W is 0, and without a gradient stays so
                of_part = weights.context_bias[own.start : own.stop].expand_as(of_part)
            offset.append(torch.bmm(of_part.unsqueeze(1), part.slope.expand(len(h), -1, -1)))
            columns += part.columns
        else:
            kept += own
    o = torch.cat(offset, 2).squeeze(1)  # (N, J)
    if change is None:
        o = F.pad(o, (0, _aligned(h.shape[1], len(columns)) - len(columns)))
        return _widened(weights, tuple(columns), tuple(kept)), torch.cat([h, o], 1), others, None
    return _widened(weights, (), tuple(kept)), h, others, _with_offset(change, len(weights.weight), o, columns, kept)


def _with_offset(change: WeightChange, m: int, o: Tensor, columns: list[int], kept: list[int]) -> WeightChange:
    picked = torch.tensor([*range(m), *(m + i for i in kept)], device=o.device)
    scale, offset = (part.to(o)[:, picked] for part in change)
    return WeightChange(scale, offset.expand(len(o), -1).index_add(1, torch.tensor(columns, device=o.device), o))


def _widened(weights: LayerWeights, columns: tuple[int, ...], kept: tuple[int, ...]) -> LayerWeights:
    """Return the weights with more hidden units, of which unit j adds 1 to the weight of static feature `columns[j]`.

    `kept`: indices of the contextual features that remain; the others' weights are dropped. Unless `columns` is empty,
    further units with weight 0 are added until the number of hidden units is a multiple of 8.
    """

    def made() -> LayerWeights:
        picks = _picks(columns, *weights.weight.shape, weights.weight.device, weights.weight.dtype)
        # piece by piece: a list of numbers would be copied to a GPU, which no CUDA graph can
        rows = [slice(i, i + 1) for i in kept] or [slice(0)]
        context, bias = (torch.cat([part[row] for row in rows]) for part in weights.tensors[2:])
        return weights._replace(
            weight=torch.cat([weights.weight, picks], 1),
            context_weight=torch.cat([context, context.new_zeros(len(kept), picks.shape[1])], 1),
            context_bias=bias,
            kept=Caches(),
        )

    return weights.derived((columns, kept), made)


def _aligned(hidden: int, n: int) -> int:
    """Return the least number of hidden units, n or more, that make `hidden` plus it a multiple of 8."""
    return n + -(hidden + n) % _ALIGNED


@lru_cache(maxsize=16)  # few: one for a model and a device
def _picks(columns: tuple[int, ...], m: int, H: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a matrix (m, J) of zeros with a 1 at (`columns[j]`, j), for weights of J further hidden units.

    Unit j so adds to the weight of one of m static features. J is the number of columns, rounded up so that H + J is a
    multiple of 8; 0 without columns.
    """
    picks = torch.zeros(m, _aligned(H, len(columns)) if columns else 0, dtype=dtype)
    picks[list(columns), range(len(columns))] = 1.0
    return picks.to(device)
