"""Expectations under a log-linear distribution, class by class.

E φ = Σ_s P(s) φ_s + Σ_{x∈E} p(x) φ(K, x)                       P(s): the rest of the class
−Σ p log p = Σ_s P(s) [H(s) − log P(s)] − Σ_{x∈E} p(x) log p(x)         H(s): of the words of the class, by their shares

No part of the entropy is below 0, and none is a difference of large numbers: log Z − E[a·φ] − E[log b] would be.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from llrnn.ground.errors import NumericalError, ZeroMassError
from llrnn.layer.join import Knowledge
from llrnn.layer.masses import Classes, Left
from llrnn.layer.numerics import MINUS_INFINITY, Cells, finite, less
from llrnn.layer.priors import DensePrior, SparsePrior


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
    def log_parts(self) -> tuple[Tensor, Tensor]: ...
    @property
    def parts(self) -> tuple[Tensor, Tensor]: ...
    @property
    def left(self) -> Left: ...
    @property
    def log_total(self) -> Tensor: ...
    def own_terms(self) -> tuple[Tensor, Tensor]: ...
    def class_probabilities(self) -> Tensor: ...
    def log_probs(self) -> Tensor: ...
    def possible(self) -> Distribution: ...


def require_numbers(log_z: Tensor) -> None:
    """That log Z is a number at every position, or minus infinity."""
    broken = torch.nonzero(~(log_z.detach() < math.inf)).view(-1)
    if len(broken):
        n = int(broken[0])
        found = float(log_z[n].detach())
        raise NumericalError(
            f"log Z must be a finite number, found {found} at position {n} of {len(log_z)}: log b or a·φ "
            "there is NaN or too large; look for such values in the background, the contextual features and the weights"
        )


def require_possible(log_z: Tensor) -> None:
    """That some word is possible at every position."""
    require_numbers(log_z)
    nowhere = torch.nonzero(log_z == MINUS_INFINITY)
    if len(nowhere):
        where = f"the background gives no symbol any mass at position {int(nowhere[0])}: nothing can follow"
        raise ZeroMassError(f"{where}; allow at least one symbol there")


def log_parts(p: Distribution) -> tuple[Tensor, Tensor]:
    """log of the probability of the rest of each class, (N, G), and of each exception, (E,)."""
    (whole, cells), scores, log_total = p.log_mass, p.scores, p.possible().log_total
    rest = less(scores, whole, log_total[:, None])
    if cells is not None:
        where = (cells.position, cells.klass)
        rest = rest.index_put(where, less(scores[where], cells.log_mass, log_total[cells.position]))
    return rest, less(*p.own_terms(), log_total[p.known.position])


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
        return _surprise(p.log_probs()).sum(-1)
    rest, own = p.log_parts
    found = (_surprise(rest) + rest.exp() * _within_classes(p, prior).to(rest.dtype)).sum(-1)
    return found.index_add(0, p.known.position, _surprise(own))


def _surprise(log_p: Tensor) -> Tensor:
    """−p log p, 0 for what is impossible; rounding makes no probability larger than 1."""
    return -(log_p.exp() * finite(log_p).clamp(max=0.0))


def _within_classes(p: Distribution, prior: SparsePrior) -> Tensor:
    """The entropy of the words that are left in each class, (1, G) or (N, G)."""
    mass, left = p.classes.mass(prior.tables[0]), p.left
    if len(left.position) == 0:
        return mass.entropy[None]
    found = mass.entropy.expand(p.n, -1).clone()
    found[left.position, left.klass] = mass.without(p.known.word, left).entropy
    return found
