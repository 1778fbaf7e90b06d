"""Weights as values: a = W h + c, the scores a·φ_s of all classes, and sums over them.

    composed    h (Φ W)ᵀ + Φ c               direct    Φ (W h + c)               `layer.costs` says which is cheaper

    scores(h, log B)                a·φ_s + log B_s of every class, (N, G)
    log_sums(h, log B, …)           log Σ_s exp(a·φ_s + log B_s), and single terms, for any gradients of both
    mean_loss(h, log B, …)          the mean of the log-sum less one term a position, gradients made with it

A `LogLinear` hands its parameters on as `LayerWeights`. Others are made of them (in float32, or with more hidden units:
`layer.linear`) by taking other tensors: no module is copied. What is made of weights is cached while no gradient is
asked for, and made anew when a weight has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from llrnn.layer import blocks, costs, numerics
from llrnn.layer.blocks import ComposedBlocks, DirectBlocks, MakeBlocks, Pairs, SpreadBlocks
from llrnn.layer.chunked import Problem, composed, plan_for, product, weighted_loss
from llrnn.layer.costs import LowRankSize, ScoreWay, Size, Work
from llrnn.layer.masses import Classes
from llrnn.layer.matrix import SparseMatrix, WeightCache, can_be_cached, needs_gradient
from llrnn.layer.reference import LogitOffsets

Precision = Literal["full", "half"]


class WeightChange(NamedTuple):
    """A change of the feature weights a at each position, a → scale∘a + offset, for `Distribution.steered`.

    `scale`, `offset`: (N, m + k) for m static and then k contextual features, or (1, m + k) for every position. For a
    change that comes with a request; `model.steering` makes a new model for one that stays.

        p.steered(WeightChange(torch.ones(1, 3), torch.tensor([[0.0, 2.0, 0.0]])))          # add 2 to the second weight
    """

    scale: Tensor  # (N, m + k), static features first, or (1, m + k) for every position
    offset: Tensor

    def changed(self, a: Tensor, first: int) -> Tensor:
        """Return scale∘a + offset for a range of the features, (N, j) -> (N, j).

        `a`: the weights of j features, the first of which is column `first` of `scale` and `offset`.
        """
        columns = slice(first, first + a.shape[1])
        return a * self.scale[:, columns] + self.offset[:, columns]

    def row(self, n: int) -> WeightChange:
        """Return the change at position n alone, with scale and offset (1, m + k)."""
        return self if len(self.scale) == 1 else WeightChange(self.scale[n : n + 1], self.offset[n : n + 1])


class Caches:
    """The caches of products of a layer's weights with its feature matrix, valid while no gradient is needed.

    A `LayerWeights` has one, its `kept`, and fills it; pickles and copies are empty.
    """

    def __init__(self) -> None:
        self.composed = WeightCache[tuple[Tensor, Tensor]]()  # Φ W and Φ c
        self.few = WeightCache[tuple[Tensor, Tensor] | None]()  # (Φ W)ᵀ and Φ c + log B, for few positions
        self.derived = WeightCache[LayerWeights]()  # `LayerWeights.derived`

    def clear(self) -> None:
        """Drop all cached products of the layer's weights."""
        for cache in (self.composed, self.few, self.derived):
            cache.clear()


class LayerWeights(NamedTuple):
    """The weights of a log-linear layer as a tuple, with methods for feature weights, scores and losses from h (N, H).

    `weight`: W (m, H) and `bias`: c (m,) of the m static features; `context_weight` (k, H) and `context_bias` (k,) of k
    contextual ones; `phi`: the feature matrix Φ (G, m); a `SparseMatrix`; `classes`: a `Classes`, the G sets of words
    with equal features; `kept`: the `Caches` of products. Made by `LogLinear.weights()`.
    """

    phi: SparseMatrix
    classes: Classes
    weight: Tensor  # W (m, H)
    bias: Tensor  # c (m,)
    context_weight: Tensor  # (k, H)
    context_bias: Tensor  # (k,)
    kept: Caches

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The four weights: W (m, H) and c (m,) of m static features, then (k, H) and (k,) of k contextual ones."""
        return self.weight, self.bias, self.context_weight, self.context_bias

    @numerics.in_full
    def adaptor(self, h: Tensor) -> Tensor:
        """Return the weights a = W h + c of the m static (context-independent) features, h (N, H) -> (N, m)."""
        return torch.addmm(self.bias, h, self.weight.t())

    @numerics.in_full
    def context_adaptor(self, h: Tensor) -> Tensor:
        """Return the weights of the k contextual features from hidden vectors, h (N, H) -> (N, k).

        Contextual are the features of a word that depend on the text before.
        """
        return torch.addmm(self.context_bias, h, self.context_weight.t())

    def full_adaptor(self, h: Tensor) -> Tensor:
        """Return the weights of all features, m static, then k contextual ones, hidden vectors (N, H) -> (N, m + k)."""
        return torch.cat([self.adaptor(h), self.context_adaptor(h)], 1)

    @numerics.in_full
    def scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """Return the scores a·φ_s + offset_s of every class s of words, h (N, H) -> (N, G), by the cheaper of two ways.

        A class is a set of words with equal features φ_s; a = W h + c are the feature weights; `offset` (G,), or a
        number. The ways are composed, h (Φ W)ᵀ, and direct, Φ (W h).
        """
        if isinstance(offset, Tensor) and h.shape[0] <= costs.FEW_POSITIONS and not torch.is_grad_enabled():
            cached = self.kept.few.get(partial(self._for_few, h, offset), self.weight, self.bias, offset)
            if cached is not None:
                return self.phi.expand(torch.addmm(cached[1], h, cached[0]), offset)
        if self.work(h).name == "direct":
            return self.direct_scores(h) + offset
        return self.composed_scores(h, offset)

    def composed_scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """Return the scores h (Φ W)ᵀ + Φ c + offset of all classes of words, h (N, H) -> (N, G).

        The feature matrix Φ is multiplied into the weights first, once for all positions. `offset` (G,), or a number.
        """
        weight, bias = self.composed(offset)
        return self.phi.expand(torch.addmm(bias, h, weight.t()), offset)

    def direct_scores(self, h: Tensor) -> Tensor:
        """Return the scores Φ (W h + c) of all classes of words, h (N, H) -> (N, G), without multiplying Φ into W.

        Φ is the feature matrix. Cheap for few positions, or few features; on a CPU in blocks of positions that fit the
        cache.
        """
        rows = costs.unit_costs(h.device.type).direct_rows
        return torch.cat([product(self.phi, self.adaptor(x).t().contiguous()).t() for x in torch.split(h, rows)])

    def composed(self, offset: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
        """Return Φ W (G, H) and Φ c + offset (G,), Φ the feature matrix; cached while no gradient is needed.

        `offset` (G,), or a number. Where Φ has low-rank blocks, that is Φ = S Φ̃ with a matrix Φ̃ of fewer rows, the
        results are Φ̃ W (P, H) and Φ̃ c (P,), and `offset` is not added.
        """
        make = partial(composed, self.phi.reduced, self.weight, self.bias)
        weight, bias = self.kept.composed.get(make, self.weight, self.bias) if self.caches else make()
        return weight, bias if self.phi.expansions or (isinstance(offset, float) and not offset) else bias + offset

    def _for_few(self, h: Tensor, offset: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return (Φ W)ᵀ (H, G) and Φ c + offset (G,) for a step of decoding, or None where they should not be used.

        It returns None where the direct way Φ (W h + c) is cheaper for h (N, H), or where nothing can be cached. Φ is
        the feature matrix; where it has low-rank blocks, Φ = S Φ̃, they are (Φ̃ W)ᵀ and Φ̃ c, as for `composed`.
        """
        if not self.caches or self.work(h).name == "direct":
            return None
        weight, bias = self.composed(offset)
        return weight.t(), bias

    @property
    def caches(self) -> bool:
        """Whether the products Φ W and Φ c with the feature matrix are cached between calls.

        They are if no gradient is needed now, the weights are no inference tensors, and Φ W has at most 256 MiB.
        """
        return can_be_cached(self.phi.reduced.n_classes * self.weight.shape[1], self.weight, self.bias)

    def derived(self, key: object, make: Callable[[], LayerWeights]) -> LayerWeights:
        """Return `make()`, other weights that are computed from these; cached while no gradient is needed.

        Only the last result is cached; it is made anew if `key`, which says what is derived, or a weight has changed
        since.
        """
        if needs_gradient(*self.tensors) or not self.caches:
            return make()
        return self.kept.derived.get(make, *self.tensors, key=key)

    def in_float32(self) -> LayerWeights:
        """Return these weights, cast to float32 if they are in half precision (cached while no gradient is needed)."""
        if self.weight.dtype.itemsize >= torch.float32.itemsize:
            return self
        return self.derived("float32", self._widened)

    def _widened(self) -> LayerWeights:
        weight, bias, context_weight, context_bias = (one.float() for one in self.tensors)
        return LayerWeights(self.phi, self.classes, weight, bias, context_weight, context_bias, Caches())

    def size(self, positions: int) -> Size:
        """Return the `Size` of the task of scoring all classes of words at `positions` positions.

        It holds the numbers of positions, classes, features, entries of the feature matrix and hidden units, from which
        costs are estimated.
        """
        phi, (m, H) = self.phi, self.weight.shape
        expand = sum(part.values.numel() for part in phi.expansions)  # dense blocks: so many multiplications a position
        low_rank_blocks = LowRankSize(phi.reduced.n_classes, phi.reduced.entries, expand) if phi.expansions else None
        return Size(positions, phi.n_classes, m, phi.entries, H, low_rank_blocks)

    def work(self, h: Tensor, *, training: bool = False) -> Work:
        """Return the cheaper of two ways to the scores of all classes of words, as a `Work` with its counts.

        The ways are composed, h (Φ W)ᵀ, and direct, Φ (W h), for the feature matrix Φ. `h` (N, H): gives the number of
        positions and the device; `training`: count the backward pass even if no gradient is needed now.
        """
        cached, unit = self.caches, costs.unit_costs(h.device.type, torch.get_num_threads())
        training = training or (not cached and needs_gradient(h, self.weight, self.bias))
        return costs.cheapest(self.size(len(h)), training=training, cached=cached, costs=unit)

    def log_sums(self, h: Tensor, offset: Tensor, position: Tensor | None, klass: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Σ_s exp(a·φ_s + offset_s) over all classes s, (N,) float64, and E single terms.

        A class is a set of words with equal features φ_s; a = W h + c are the feature weights; `offset` (G,). The
        single terms a·φ_s + offset_s, (E,), are those of class `klass[e]` at `position[e]`; positions must rise.
        `position` None: one class at each position. Differentiable.
        """
        if h.shape[0] <= costs.FEW_POSITIONS or h.device.type != "cpu":
            return numerics.class_logsumexp(self.scores(h, offset), None, None, position, klass)
        return self._block_log_sums(h, offset, Pairs(torch.arange(len(h)) if position is None else position, klass))

    @numerics.in_full
    def _block_log_sums(self, h: Tensor, offset: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
        taken = self.work(h)
        keeps = needs_gradient(h, self.weight, self.bias) and taken.terms * h.element_size() <= costs.MOST_KEPT
        # what is kept anyway need not be cut up
        rows = len(h) if keeps and taken.name == "composed" else taken.block
        return blocks.log_sums(h, *self._factors(taken.name, offset, keeps=keeps), pairs, rows, keeps=keeps)

    def _factors(self, way: ScoreWay, offset: Tensor, *, keeps: bool = False) -> tuple[Tensor, Tensor, MakeBlocks]:
        """Return the weight and bias that h is multiplied with, and a function (h, weight, bias) -> `Blocks` of scores.

        `way`: "direct" or "composed"; `offset` (G,): added to the score of each class of words; `keeps`: whether a
        block's scores stay in memory of their own.
        """
        if way == "direct":
            return self.weight, self.bias, partial(DirectBlocks, phi=self.phi, offset=offset)
        if self.phi.expansions:
            return *self.composed(offset), partial(SpreadBlocks, phi=self.phi, offset=offset, keeps=keeps)
        return *self.composed(offset), partial(ComposedBlocks, keeps=keeps)

    @numerics.in_full
    def mean_loss(
        self,
        h: Tensor,
        offset: Tensor,
        klass: Tensor,
        precision: Precision = "full",
        weights: Tensor | None = None,
        logit_offsets: LogitOffsets | None = None,
    ) -> Tensor:
        """Return the cross-entropy over classes of words, a scalar: the mean of log Σ_s exp(x_s) − x_k at N positions.

        x_s = a·φ_s + offset_s is the score of class s, k the target class, `klass` (N,); `offset` (G,): the log of the
        prior summed over each class; `weights` (N,), with sum one: for a weighted mean; `precision`: "full" or "half";
        `logit_offsets`: what contextual features add to the scores of single words, applied in the sum alone, so that
        the caller must subtract those of the targets. Nothing of size N × G is kept. On a GPU, in half precision, or
        with logit offsets, it is computed by `layer.chunked`.
        """
        if h.is_cuda or precision == "half" or logit_offsets is not None:
            problem = Problem(self.phi.for_kernels(self.weight), offset, klass)
            plan = plan_for(h, self.phi.n_classes, exact=precision == "full")
            return weighted_loss(h, self.weight, self.bias, problem, weights, plan, logit_offsets)[0]
        pairs = Pairs(torch.arange(len(h), device=h.device), klass)
        if weights is not None:
            log_sum, score = self._block_log_sums(h, offset, pairs)
            return weighted_mean(log_sum - score, weights).to(h.dtype)
        taken = self.work(h, training=True)
        return blocks.mean_loss(h, *self._factors(taken.name, offset), pairs, taken.block)


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of the values, or Σ values · weights if `weights` (with sum one) are given; a scalar."""
    return values.mean() if weights is None else (values * weights.to(values.dtype)).sum()
