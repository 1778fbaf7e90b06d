"""How far log Z is from what it would be with the true values of real-valued features on the tails of domains.

On a tail cell c a feature k has the middle of its bounds, and its true values lie within r_k of it. So the score of a
string of the tail is off by no more than s = Σ_k |a_k| r_k, and with P the probability of all tails,

    log Z + log(1 − P + P e^{−s})  ≤  log of the true Z  ≤  log Z + log(1 − P + P e^{s})
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from llrnn.layer.loglinear import Distribution
from llrnn.model.network import LLRNN


class Interval(NamedTuple):
    """Between which values the true log Z lies, at N positions."""

    low: Tensor  # (N,)
    high: Tensor  # (N,)

    @property
    def width(self) -> float:
        """The widest of the N."""
        return float((self.high - self.low).max())


def log_z_interval(model: LLRNN, distribution: Distribution) -> Interval:
    """The interval that the bounds of the model's features allow; of width 0 where none are bounded only."""
    log_z = distribution.log_z.detach().double()
    names = model.output_features.names
    radius = torch.tensor([model.radius.get(name, 0.0) for name in names], dtype=torch.float64, device=log_z.device)
    off = distribution.adaptor.detach().double().abs() @ radius  # (N,)
    tails = torch.tensor(sorted(model.vocabulary.tails), dtype=torch.long, device=log_z.device)
    in_tails = _probability(distribution, tails)
    return Interval(log_z + torch.log1p(in_tails * torch.expm1(-off)), log_z + torch.log1p(in_tails * torch.expm1(off)))


def _probability(distribution: Distribution, words: Tensor) -> Tensor:
    """The probability of a few words together, at each position, (N,)."""
    total = torch.zeros(distribution.n, dtype=torch.float64, device=words.device)
    for word in words:
        total += distribution.log_prob(word.expand(distribution.n)).detach().double().exp()
    return total
