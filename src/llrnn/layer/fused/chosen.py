"""log Z of a layer with a static background, by the way that `layer.costs` picks for its size.

On a GPU the mean loss of a batch is always composed: chunk by chunk, by the kernels of `layer.fused.layer`.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from llrnn.layer import costs, numerics
from llrnn.layer.fused import by_rows
from llrnn.layer.fused.chunks import Problem, plan_for
from llrnn.layer.fused.layer import weighted_loss
from llrnn.layer.fused.products import compiled
from llrnn.layer.fused.weighing import Composed, Direct, Pairs
from llrnn.layer.numerics import SparseMatrix

Precision = Literal["full", "half"]


class Layer(Protocol):
    """What is needed of a layer; see `loglinear.LogLinear`."""

    phi: SparseMatrix
    weight: nn.Parameter  # W (m, H)
    bias: nn.Parameter  # c (m,)

    @property
    def caches(self) -> bool: ...
    def composed(self, offset: Tensor | float = 0.0) -> tuple[Tensor, Tensor]: ...  # (G, H) and (G,)
    def scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor: ...  # (N, G)


def composes(layer: Layer, h: Tensor) -> bool:
    """Whether composed weights are the cheaper way to the scores of all classes, (N, H) -> (N, G)."""
    return _work(layer, h, training=_trains(layer, h)).name == "composed"


def log_sums(layer: Layer, h: Tensor, offset: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """log Σ_s exp(a·φ_s + offset_s) (N,), and a·φ_s + offset_s of the pairs (E,), for any gradients of both."""
    if len(h) <= costs.FEW_POSITIONS or h.device.type != "cpu":
        return numerics.class_logsumexp(layer.scores(h, offset), None, None, *pairs)
    trains = _trains(layer, h)
    work = _work(layer, h, training=trains)
    keeps = trains and costs.may_keep(work.terms * h.element_size())
    if work.name == "direct":
        way = partial(Direct, phi=layer.phi, offset=offset)
        return by_rows.log_sums(h, layer.weight, layer.bias, way, pairs, work.block, keeps=keeps)
    rows = len(h) if keeps else work.block  # what is kept anyway need not be cut up
    return by_rows.log_sums(h, *layer.composed(offset), partial(Composed, keeps=keeps), pairs, rows, keeps=keeps)


def mean_loss(layer: Layer, h: Tensor, offset: Tensor, klass: Tensor, precision: Precision = "full") -> Tensor:
    """The mean of log_sum − score of one class a position, (N,); nothing of size N × G is kept. Half on a GPU only."""
    if h.is_cuda:
        problem = Problem(compiled(layer.phi, layer.weight), offset, klass)
        plan = plan_for(h, layer.phi.n_classes, exact=precision == "full")
        return weighted_loss(h, layer.weight, layer.bias, problem, None, plan)[0]
    pairs = Pairs(torch.arange(len(h), device=h.device), klass)
    work = _work(layer, h, training=True)
    if work.name == "direct":
        way = partial(Direct, phi=layer.phi, offset=offset)
        return by_rows.mean_loss(h, layer.weight, layer.bias, way, pairs, work.block)
    return by_rows.mean_loss(h, *layer.composed(offset), Composed, pairs, work.block)


def _trains(layer: Layer, h: Tensor) -> bool:
    """Whether gradients may be asked for."""
    return torch.is_grad_enabled() and (h.requires_grad or layer.weight.requires_grad or layer.bias.requires_grad)


def _work(layer: Layer, h: Tensor, *, training: bool) -> costs.Work:
    m, H = layer.weight.shape
    size = costs.Size(len(h), layer.phi.n_classes, m, 0 if layer.phi.is_identity else layer.phi.nnz, H)
    machine = costs.machine_for(h.device.type, torch.get_num_threads())
    return costs.cheapest(size, training=training, cached=layer.caches, machine=machine)
