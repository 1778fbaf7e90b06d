"""Expectations under a log-linear distribution, class by class.

E φ = Σ_s P(s) φ_s + Σ_{x∈E} p(x) φ(K, x)                       P(s): the rest of the class
−Σ p log p = log Z − E[a·φ] − E[log b]
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from llrnn.knowledge import Knowledge
from llrnn.masses import Classes, Left
from llrnn.numerics import Cells, finite
from llrnn.priors import DensePrior, SparsePrior


class Distribution(Protocol):
    """What an expectation needs to know of `loglinear.Distribution`."""

    classes: Classes
    layer: Any

    @property
    def known(self) -> Knowledge: ...
    @property
    def n(self) -> int: ...
    @property
    def scores(self) -> Tensor: ...
    @property
    def log_mass(self) -> tuple[Tensor, Cells | None]: ...
    @property
    def parts(self) -> tuple[Tensor, Tensor]: ...
    @property
    def left(self) -> Left: ...
    @property
    def log_z(self) -> Tensor: ...
    @property
    def adaptor(self) -> Tensor: ...
    @property
    def context_adaptor(self) -> Tensor: ...
    def class_probabilities(self) -> Tensor: ...
    def log_probs(self) -> Tensor: ...
    def possible(self) -> Distribution: ...


def parts(p: Distribution) -> tuple[Tensor, Tensor]:
    """The probability of the rest of each class, (N, G), and of each exception, (E,)."""
    known, (whole, cells), scores = p.known, p.log_mass, p.scores
    terms = scores + whole
    if cells is not None:
        terms[cells.position, cells.klass] = scores[cells.position, cells.klass] + cells.log_mass
    own = scores[known.position, p.classes.class_of[known.word]] + known.log_b.to(scores.dtype)
    terms = terms + (p.context_adaptor * known.rest).sum(-1, keepdim=True)
    own = own + (p.context_adaptor[known.position] * known.value).sum(-1)
    log_z = p.possible().log_z
    return (terms - log_z[:, None]).exp(), (own - log_z[known.position]).exp()


def expected_features(p: Distribution) -> Tensor:
    """E_p φ(K, x), static features first, then contextual ones, (N, m + k)."""
    rest, own = p.parts
    static = p.layer.phi.transposed(p.class_probabilities().t().contiguous()).t()
    context = rest.sum(-1, keepdim=True) * p.known.rest
    context = context.index_add(0, p.known.position, own[:, None] * p.known.value)
    return torch.cat([static, context.to(static.dtype)], 1)


def entropy(p: Distribution) -> Tensor:
    """−Σ p log p, in nats, (N,)."""
    prior = p.known.prior
    if isinstance(prior, DensePrior) or len(prior.tables) > 1:
        log_p = finite(p.log_probs())
        return -(log_p.exp() * log_p).sum(-1)
    a = torch.cat([p.adaptor, p.context_adaptor], 1)
    return p.log_z - (a * expected_features(p)).sum(-1) - _expected_log_b(p, prior)


def _expected_log_b(p: Distribution, prior: SparsePrior) -> Tensor:
    """E_p[log b] over the rest by the means of its classes, plus the exceptions one by one, (N,)."""
    rest, own = p.parts
    mass, left = p.classes.mass(prior.tables[0]), p.left
    mean = mass.mean_log_b + prior.shift  # (N, G) or (1, G)
    if len(left.position):
        mean = mean.expand(p.n, -1).clone()
        shift = prior.shift[left.position, 0] if prior.n > 1 else prior.shift[0]
        mean[left.position, left.klass] = mass.without(p.known.word, left).mean_log_b + shift
    own = own * finite(p.known.log_b).to(own.dtype)
    return (rest * finite(mean).to(rest.dtype)).sum(-1).index_add(0, p.known.position, own)
