"""Fewer classes: rows of Φ merged where least is lost, so that a rich model has a cheap sum in Z (`llrnn bench curve`).

A merged class has the mean row of its members, weighted by background mass: only φ is coarser, p sums to one as before,
and within a class words differ by b(x). A cell of an open vocabulary is a member as a word is: its b is the mass of all
its strings, in closed form, and which of them it is costs what it did. To the second order, what merging costs is

    E KL(p ‖ p̄) = ½ Σ_x b(x) E[(a·(φ(x) − φ̄(x)))²] = ½ Σ_x b(x) ‖φ(x) R − φ̄(x) R‖²         R Rᵀ = Cov(a)

where a constant part of a is left out: it moves p of a word in all contexts alike, and how frequent a word is, b says
already. (On French, models coarsened with E[a aᵀ] in the place of Cov(a) lost 0.002 to 0.010 nats more.)

So words are points φ(x) R with masses, and two classes of masses u, v cost ½ u v / (u + v) ‖p − q‖² when they merge:
Ward's criterion. Merging the cheapest pairs first leaves heavy words alone by itself. `Merges` holds the whole tree, so
it answers for every number of classes at once. Before anything is trained nothing is known of a: R is a random
projection, which keeps distances.

Pairs are looked for within buckets of at most 2,048 rows that lie together, found by halving; in each the tree is exact
(chains of nearest neighbours). 42,000 rows take some ten seconds on one core.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from llrnn.ground.arrays import Bools, Floats, Ints
from llrnn.ground.errors import FeatureError
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix

_DIMENSIONS = 256  # of a random projection: distances are right within a tenth
_BUCKET = 2_048  # rows among which pairs are looked for
_POWERS, _ROUNDS = 8, 6  # of the direction in which a bucket is halved, and of the two means
_NO_MERGES = np.zeros(0, dtype=[("cost", "f8"), ("into", "i8"), ("gone", "i8")])
_OF_THE_LIGHTEST = 1e-3  # the mass of a word that b forbids, of the lightest other one's: it may go anywhere


@dataclass(frozen=True, eq=False)
class Merges:
    """The merge tree of G feature classes (sets of words with equal features), cheapest merges first.

    Merge i joins class `gone[i]` into class `into[i]` and costs `cost[i]`, the expected KL divergence in nats where
    points were scaled by the weights of a trained model. Any smaller number of classes is a prefix of the merges.
    """

    n_classes: int
    cost: Floats  # (n,) nats, where points say how much a varies
    into: Ints  # (n,)
    gone: Ints  # (n,)

    @property
    def fewest(self) -> int:
        """The smallest number of classes (sets of words with equal features) that merging can reach."""
        return self.n_classes - len(self.gone)

    def lost(self, classes: int) -> float:
        """Return what merging down to `classes` classes of words loses: an estimate of the KL divergence in nats.

        It is ½ Σ_x b(x) ‖φ(x) R − φ̄(x) R‖² with the prior b and the merged features φ̄ of word x; in nats where the
        scale R came from trained weights. Raises FeatureError below `fewest`.
        """
        return float(self.cost[: self._steps(classes)].sum())

    def new_classes(self, classes: int) -> Ints:
        """Return the new class of each old class of words after merging to `classes`, (G,) integers.

        New classes are numbered in order of appearance. Raises FeatureError if `classes` is below `fewest`.
        """
        steps = self._steps(classes)
        parent = np.arange(self.n_classes)
        parent[self.gone[:steps]] = self.into[:steps]
        while not np.array_equal(parent, parent[parent]):
            parent = parent[parent]
        _, first, of = np.unique(parent, return_index=True, return_inverse=True)
        rank = np.empty_like(first)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.asarray(rank[of], dtype=np.int64)

    def _steps(self, classes: int) -> int:
        if classes < self.fewest:
            raise FeatureError(f"{self.fewest:,} classes or more are needed, found {classes:,}; give more")
        return max(0, self.n_classes - classes)


def coarsened(matrix: FeatureMatrix, classes: int, mass: Floats, *, seed: int = 0) -> FeatureMatrix:
    """Return the feature matrix merged to at most `classes` classes where least is lost.

    Itself if it has no more than that. A merged class has the mean feature row of its members. `mass` (V,): the prior b
    of each word (or other symbol of the vocabulary); `seed`: of the random projection by which rows are compared.
    Raises FeatureError if `mass` is not (V,).

        coarsened(matrix, 4000, mass=unigram_probabilities)
    """
    if classes >= matrix.n_classes:
        return matrix
    if len(mass) != matrix.n_symbols:
        raise FeatureError(f"a mass of each of the {matrix.n_symbols:,} symbols is required, found {len(mass):,}")
    return merged(matrix, mass, merges(matrix, mass, seed=seed).new_classes(classes))


def merges(
    matrix: FeatureMatrix,
    mass: Floats,
    *,
    scale: Floats | None = None,
    seed: int = 0,
) -> Merges:
    """Return the merge tree of the classes (words with equal features) of a matrix over V symbols, by Ward's criterion.

    `mass` (V,): the prior b of each symbol; `scale` (m, k): R, by which feature rows are multiplied before distances
    are taken, for instance from the weights of a trained model; by default a random projection drawn with `seed`.
    """
    if scale is None:
        scale = np.random.default_rng(seed).standard_normal((matrix.n_features, _DIMENSIONS)) / np.sqrt(_DIMENSIONS)
    points = (SparseMatrix(matrix) @ torch.from_numpy(np.asarray(scale, dtype=np.float32))).numpy()
    weights = _class_weights(matrix, mass)
    buckets = _buckets(points, np.arange(matrix.n_classes))
    within = np.concatenate([_tree(points[own], weights[own], own) for own in buckets] or [_NO_MERGES])
    within = within[np.argsort(within["cost"], kind="stable")]
    # at last what is left of each bucket, its first row: only a handful of classes asks for that
    means = [weights[own] @ points[own] / weights[own].sum() for own in buckets]
    masses = [float(weights[own].sum()) for own in buckets]
    first = [own.min() for own in buckets]
    last = _tree(np.array(means), np.array(masses), np.array(first)) if buckets else _NO_MERGES
    found = np.concatenate([within, last])
    return Merges(matrix.n_classes, found["cost"], found["into"], found["gone"])


def merged(matrix: FeatureMatrix, mass: Floats, new: Ints) -> FeatureMatrix:
    """Return the matrix with classes merged: old class s becomes class `new[s]`, `new` (G,) as of `Merges.new_classes`.

    The feature row of a merged class is the mean of the old rows, weighted by `mass` (V,), the prior b of each symbol.
    """
    n = int(new.max()) + 1 if len(new) else 0
    if n == matrix.n_classes:
        return matrix
    weights = _class_weights(matrix, mass)
    share = np.where(np.bincount(new)[new] == 1, 1.0, weights / np.bincount(new, weights)[new])  # (G,)
    widths = np.diff(matrix.offsets)
    key = np.repeat(new, widths) * matrix.n_features + matrix.columns
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    values = np.add.reduceat((matrix.values * np.repeat(share, widths))[order], starts) if len(key) else matrix.values
    row, column = np.divmod(key[order][starts], matrix.n_features)
    kept = values != 0
    return replace(
        matrix,
        class_of=new[matrix.class_of],
        offsets=np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=n))]).astype(np.int64),
        columns=column[kept],
        values=values[kept],
    )


def symbol_weights(mass: Floats) -> Floats:
    """Return the prior b of each symbol divided by its sum, (V,) float64.

    A symbol with b = 0 gets a thousandth of the smallest positive b, so that every weight is positive.
    """
    mass = np.asarray(mass, dtype=np.float64)
    positive = mass[mass > 0]
    lightest = positive.min() if len(positive) else 1.0
    return np.asarray(np.maximum(mass, _OF_THE_LIGHTEST * lightest) / (positive.sum() or 1.0))


def _class_weights(matrix: FeatureMatrix, mass: Floats) -> Floats:
    found = np.bincount(matrix.class_of, symbol_weights(mass), minlength=matrix.n_classes)
    return np.asarray(found, dtype=np.float64)


def _buckets(points: Floats, rows: Ints) -> list[Ints]:
    """Split `rows` (indices into `points`) by two-means until no bucket of similar rows is larger than 2,048."""
    todo, done = [rows] if len(rows) else [], list[Ints]()
    while todo:
        own = todo.pop()
        if len(own) <= _BUCKET:
            done.append(own)
            continue
        side = _halves(points[own])
        todo += [own[side], own[~side]]
    return done


def _halves(x: Floats) -> Bools:
    """Return a mask (n,) of the rows of `x` in the second cluster of two-means, started along the largest variance."""
    centred = x - x.mean(0)
    direction = np.ones(x.shape[1], dtype=x.dtype)
    for _ in range(_POWERS):
        direction = centred.T @ (centred @ direction)
        direction /= np.linalg.norm(direction) or 1.0
    side = centred @ direction > 0
    for _ in range(_ROUNDS):
        if side.all() or not side.any():
            break
        one, other = x[side].mean(0), x[~side].mean(0)
        side = x @ (one - other) > (one @ one - other @ other) / 2
    both = side.any() and not side.all()
    return np.asarray(side if both else np.arange(len(x)) % 2 == 0)


def _tree(points: Floats, weights: Floats, rows: Ints) -> Any:
    """Return Ward's merge tree of some points by nearest-neighbour chains: an array of (cost, into, gone).

    `into` and `gone` are values of `rows`: the one that stays and the one that goes. A chain of nearest neighbours ends
    in two that are nearest to each other; these merge, whatever happens elsewhere.
    """
    order = np.argsort(rows)
    points, w, rows = points[order].astype(np.float64), weights[order].astype(np.float64), rows[order]
    square = (points**2).sum(1)
    cost = np.maximum(square[:, None] + square - 2.0 * (points @ points.T), 0.0)
    cost *= 0.5 * (w[:, None] * w) / (w[:, None] + w)
    np.fill_diagonal(cost, np.inf)
    alive, start = np.ones(len(w), dtype=bool), 0
    found: list[tuple[float, int, int]] = []
    chain: list[int] = []
    while len(found) < len(w) - 1:
        if not chain:
            start += int(alive[start:].argmax())
            chain = [start]
        i = chain[-1]
        nearest = int(cost[i].argmin())
        if len(chain) == 1 or cost[i, nearest] < cost[i, chain[-2]]:
            chain.append(nearest)
            continue
        i, j = sorted(chain[-2:])
        del chain[-2:]
        found.append((cost[i, j], rows[i], rows[j]))
        row = ((w[i] + w) * cost[i] + (w[j] + w) * cost[j] - w * cost[i, j]) / (w[i] + w[j] + w)
        alive[j] = False
        row[~alive] = row[i] = np.inf
        w[i] += w[j]
        cost[j] = cost[:, j] = np.inf
        cost[i] = cost[:, i] = row
    return np.array(found, dtype=_NO_MERGES.dtype)
