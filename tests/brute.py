"""The oracle: the log-linear model summed over V, word by word, in float64. It shares no code with the library.

    log p(x | n) = log_b[n, x] + a[n] · φ(n, x) − log Σ_x' b[n, x'] exp(a[n] · φ(n, x'))

φ(n, x) is the static row of x, as a mapping from names to values, followed by the contextual values of (n, x).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


def log_sum(terms: Sequence[float]) -> float:
    """log Σ exp, with the sum itself exact; minus infinity for nothing."""
    largest = max(terms, default=-math.inf)
    if largest == -math.inf:
        return -math.inf
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))


@dataclass(frozen=True)
class Brute:
    """N positions over V words with m static features (`names`) and k contextual ones."""

    names: Sequence[str]
    rows: Sequence[Mapping[str, float]]  # V mappings from name to value
    log_b: Array  # (N, V)
    values: Array  # (N, V, k)
    a: Array  # (N, m + k)

    @cached_property
    def phi(self) -> Array:
        """(N, V, m + k)"""
        static = np.array([[row.get(name, 0.0) for name in self.names] for row in self.rows])
        static = static.reshape(len(self.rows), len(self.names))
        return np.concatenate([np.broadcast_to(static, (len(self.log_b), *static.shape)), self.values], 2)

    @cached_property
    def scores(self) -> Array:
        """log b + a · φ, (N, V)"""
        dots = [
            [math.fsum(x * y for x, y in zip(a, phi, strict=True)) for phi in page]
            for a, page in zip(self.a.tolist(), self.phi.tolist(), strict=True)
        ]
        scores: Array = self.log_b + np.array(dots)
        return scores

    @cached_property
    def log_z(self) -> Array:
        """(N,)"""
        return np.array([log_sum(row) for row in self.scores.tolist()])

    @cached_property
    def log_probs(self) -> Array:
        """(N, V)"""
        return np.array([row - z for row, z in zip(self.scores, self.log_z, strict=True)])

    @cached_property
    def probs(self) -> Array:
        return np.exp(self.log_probs)

    @cached_property
    def entropy(self) -> Array:
        """(N,)"""
        return np.array(
            [-math.fsum(math.exp(log) * log for log in row if log > -math.inf) for row in self.log_probs.tolist()]
        )

    @cached_property
    def expected_features(self) -> Array:
        """(N, m + k)"""
        return np.array([(p[:, None] * phi).sum(0) for p, phi in zip(self.probs, self.phi, strict=True)])

    def gradient(self, targets: Sequence[int]) -> Array:
        """∂ Σ_n log p(targets_n) / ∂a: observed minus expected features, (N, m + k)."""
        observed = np.array([self.phi[n, x] for n, x in enumerate(targets)])
        return observed - self.expected_features

    def top(self, k: int) -> Array:
        """The k largest log-probabilities of each position, falling, (N, k)."""
        return -np.sort(-self.log_probs, axis=1)[:, :k]
