"""Many features of a hypothesis at once: a log-linear model over the members of a list, and the choice of least risk.

    p_w(h | list) ∝ exp(w · f(h))                                f: the scores of a hypothesis and its number of words
    risk(w)       = Σ_lists Σ_h p_w(h) errors(h) / words + l2 |w|²      the expected error rate (Smith & Eisner 2006)

    agreement(h)  = − Σ_h' p(h' | list) distance(h, h')          minimum Bayes risk: the list votes on its own members

`tune` finds a few weights by the exact error surface, one after the other. `learn_weights` is for many: smooth, all
of them together, held small. It begins at the minimum of −Σ_h q(h) log p_w(h), q ∝ exp(−errors), which is convex, so
that what it finds does not depend on a start. Both give `Weights`, and a list may have any score that somebody can
name: its rank, whether a word occurs in it, what a model makes of it, how far the other members agree with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError
from llrnn.inference.nbest import WORDS, NBest, NBestLists, References, count_errors, errors_of_lists
from llrnn.inference.rescoring import ScoreTable, Weights

__all__ = ["agreement", "learn_weights", "pairwise_errors"]

_STEPS = 40  # of L-BFGS, in each of its two turns


def learn_weights(lists: NBestLists, references: References, *, l2: float = 0.03) -> Weights:
    """The weights of least expected word error rate [per cent], with a penalty of l2 times their squares.

        learn_weights(add_scores(lists, scorers), read_references("dev.txt"), l2=0.03)

    Penalties hold for scores in units of their own deviation within lists, so that it does not matter in which unit a
    score comes. Weights may be negative; a score that never differs within a list has weight 0.
    """
    if not 0 <= l2 < float("inf"):
        raise ConfigError(f"l2 must be a number of 0 or more, found {l2}")
    table = ScoreTable.of(lists, errors_of_lists(lists, references))
    given = np.array([len(entry.hypotheses) for entry in lists])
    counts = np.arange(table.values.shape[1]) < given[:, None]  # members, and not what lists are filled up with
    centred = np.where(counts[..., None], table.values, np.nan)
    centred = np.nan_to_num(centred - np.nanmean(centred, 1, keepdims=True))
    deviation = np.sqrt((centred**2).sum((0, 1)) / given.sum())
    unit = np.where(deviation > 0, deviation, 1.0)
    features, errors = torch.from_numpy(centred / unit), torch.from_numpy(table.errors.astype(np.float64))
    outside = torch.from_numpy(~counts)
    words = max(1, sum(len(references[entry.utterance]) for entry in lists))

    def log_p(w: Tensor) -> Tensor:
        return (features @ w).masked_fill(outside, -torch.inf).log_softmax(1)

    wanted = (-errors).masked_fill(outside, -torch.inf).softmax(1)
    start = _minimum(
        lambda w: -(wanted * log_p(w).masked_fill(outside, 0.0)).sum() * (100 / words) + l2 * (w @ w),
        torch.zeros(features.shape[2], dtype=torch.float64),
    )
    found = _minimum(lambda w: (log_p(w).exp() * errors).sum() * (100 / words) + l2 * (w @ w), start)
    weights = np.where(deviation > 0, found.numpy() / unit, 0.0)
    return Weights(dict(zip((*lists.names, WORDS), weights.tolist(), strict=True)))


def _minimum(loss: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """Where L-BFGS ends."""
    w = start.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([w], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        value = loss(w)
        value.backward()  # type: ignore[no-untyped-call]
        return value.item()

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return w.detach()


def pairwise_errors(lists: Sequence[NBest]) -> list[Floats]:
    """Word errors of each member of a list against each other as reference, (N, N) a list; they are symmetric."""
    pairs = [(a.words, b.words) for entry in lists for a in entry.hypotheses for b in entry.hypotheses]
    total = iter(np.array([own.total for own in count_errors(pairs)], dtype=np.float64))
    sizes = [len(entry.hypotheses) for entry in lists]
    return [np.fromiter(total, np.float64, n * n).reshape(n, n) for n in sizes]


def agreement(
    lists: NBestLists, weights: Weights, *, scale: float = 1.0, distances: Sequence[Floats] | None = None
) -> list[list[float]]:
    """Minus the expected word errors of every hypothesis, p ∝ exp(scale · total): a score as any other.

        lists.with_scores("agreement", agreement(lists, weights, scale=0.5))

    The member with the highest one is the choice of minimum Bayes risk. A large scale believes in the member with the
    highest total alone, scale 0 in all alike. `distances`: by `pairwise_errors`, where they are known.
    """
    weights, found = weights.for_scores(lists.names), []
    for entry, distance in zip(lists, distances or pairwise_errors(lists.lists), strict=True):
        totals = scale * weights.totals(entry)
        p = np.exp(totals - totals.max())
        found.append((-(distance @ p) / p.sum()).tolist())
    return found
