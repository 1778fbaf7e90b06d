"""Sampling, log Z and the best words where nothing at a position stands out: one static table, no exceptions.

    P(s) ∝ B_s exp(a·φ_s)         a class by its cumulated weights; a word of it by its alias table
    log Z = logsumexp_s(a·φ_s + log B_s)
    the best k words lie in the k classes whose best member scores highest

This is what a static background costs at every step of decoding: some passes over G numbers. `drawing` has the general
way, with the same results (samples: of the same law).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from llrnn.layer.masses import Classes, ClassMass
from llrnn.layer.numerics import log_sums, shifted_sums
from llrnn.layer.priors import ContextValues, Prior

_FEW = 4  # draws: so few are made faster one by one than by operations on tensors (measured on CPU)
_cumulated: WeakKeyDictionary[Any, npt.NDArray[np.float64]] = WeakKeyDictionary()  # as long as the distribution lives


class Plain(Protocol):
    """What is asked of a distribution at N positions; see `loglinear.Distribution`."""

    prior: Prior
    values: Sequence[ContextValues]
    classes: Classes

    @property
    def n(self) -> int: ...
    @property
    def centred(self) -> tuple[Prior, Tensor]: ...
    @property
    def scores(self) -> Tensor: ...  # (N, G)
    @property
    def log_total(self) -> Tensor: ...  # (N,) float64
    def possible(self) -> Any: ...


def table_of(p: Plain) -> ClassMass | None:
    """The table that says all, seen by classes; None where something else has a say."""
    alone = p.prior.is_static and len(p.prior.tables) == 1 and not p.values and p.centred[0] is p.prior
    return p.classes.mass(p.prior.tables[0]) if alone else None


def terms(p: Plain, mass: ClassMass) -> tuple[Tensor, Tensor | None]:
    """a·φ_s + log B_s, (N, G), but for what is the same for all words; and what was subtracted, (N,)."""
    return shifted_sums(p.scores.detach(), mass.log_mass_in(p.scores.dtype))


def log_total(p: Plain, mass: ClassMass) -> Tensor:
    """log Z, float64 (N,)."""
    return _shift(p) + log_sums(*terms(p, mass))[0]


def _shift(p: Plain) -> Tensor:
    """A static prior has one for every position, and usually it is 0."""
    shift: Tensor = p.prior.shift[:, 0]  # type: ignore[union-attr]
    return shift


def sample(p: Plain, mass: ClassMass, count: int, generator: torch.Generator | None) -> Tensor:
    """Words drawn from p, (count, N)."""
    if count * p.n <= _FEW and p.scores.device.type == "cpu":
        return _few(_ends(p, mass), mass, count, generator)
    klass = inverted(_weights(p, mass), count, generator)
    return mass.draw(klass.reshape(-1), generator=generator).view(count, p.n)


def _weights(p: Plain, mass: ClassMass) -> Tensor:
    """Of the classes, the largest is 1, (N, G)."""
    logs, _ = terms(p, mass)
    largest = logs.amax(-1, keepdim=True)
    if not bool(torch.isfinite(largest).all()):
        p.possible()  # which says where
    return (logs - largest).exp()


def _ends(p: Plain, mass: ClassMass) -> npt.NDArray[np.float64]:
    """The cumulated weights, (N, G), remembered: who draws a word may draw another."""
    if p not in _cumulated:
        _cumulated[p] = _weights(p, mass).double().cumsum(-1).numpy()
    return _cumulated[p]


def inverted(weights: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """Columns drawn by their weights, (N, G) -> (count, N): where a uniform number falls among the cumulated ones."""
    ends = weights.double().cumsum(-1)
    total = ends[:, -1:].contiguous()
    u = torch.rand(len(weights), count, dtype=torch.float64, generator=generator, device=weights.device) * total
    found = torch.searchsorted(ends, u, right=True)  # right: what has no weight is never met
    last = torch.searchsorted(ends, total)  # where rounding made u the total
    return torch.minimum(found, last).t()


def _few(rows: npt.NDArray[np.float64], mass: ClassMass, count: int, generator: torch.Generator | None) -> Tensor:
    """The same words of the same random numbers, one by one, (count, N): a step of decoding draws one."""
    u = torch.rand(len(rows), count, dtype=torch.float64, generator=generator).tolist()
    found = [[_where(row, x) for x in own] for row, own in zip(rows, u, strict=True)]
    words = mass.words.draw_few([row[i] for i in range(count) for row in found], generator)
    return torch.tensor(words, dtype=torch.long).view(count, len(rows))


def _where(ends: npt.NDArray[np.float64], u: float) -> int:
    total = float(ends[-1])
    return int(ends.searchsorted(u * total, "right" if u * total < total else "left"))


def top(p: Plain, mass: ClassMass, k: int) -> tuple[Tensor, Tensor]:
    """The k most probable words at each position, log p and words (N, k); of words that tie, the first ones."""
    shift = (_shift(p) - p.possible().log_total.detach()).expand(p.n).tolist()
    scores = p.scores.detach().double()
    bound = scores + mass.best_log_b
    best = bound.topk(min(k, bound.shape[1]), -1)
    classes: list[list[int]] = best.indices.tolist()
    static: list[list[float]] = scores.gather(1, best.indices).tolist()
    # of classes whose best words tie, which one comes in would be left to chance: all of them have to
    tied = (bound >= best.values[:, -1:]).sum(-1).tolist()
    rows = []
    for n in range(p.n):
        if tied[n] > len(classes[n]):
            own = torch.nonzero(bound[n] >= best.values[n, -1]).view(-1)
            classes[n], static[n] = own.tolist(), scores[n, own].tolist()
        rows.append(_walk(mass, classes[n], static[n], k))
    log_p = [[score + shift[n] for score, _ in row] for n, row in enumerate(rows)]
    like = p.scores
    words = torch.tensor([[word for _, word in row] for row in rows], device=like.device)
    return torch.tensor(log_p, dtype=like.dtype, device=like.device), words


def _walk(mass: ClassMass, classes: list[int], static: list[float], k: int) -> list[tuple[float, int]]:
    """The best words of some classes by falling score: a heap holds the next member of each."""
    heap: list[tuple[float, int, int, int]] = []
    ranked = [mass.ranked(klass) for klass in classes]
    for i, (words, log_b) in enumerate(ranked):
        heap.append((-(static[i] + log_b[0]), words[0], i, 0))
    heapq.heapify(heap)
    found: list[tuple[float, int]] = []
    while heap and len(found) < k:
        negative, word, i, rank = heap[0]
        found.append((-negative, word))
        words, log_b = ranked[i]
        if rank + 1 < len(words):
            heapq.heapreplace(heap, (-(static[i] + log_b[rank + 1]), words[rank + 1], i, rank + 1))
        else:
            heapq.heappop(heap)
    return found
