"""A trained model with fewer multiplications in Z: rare words are told apart by a few real features of their own.

    a·φ(x) = m(x)·h + d(x)          m = φ W (H,), d = φ·c

Classes stand in blocks by falling mass, each as large as all before it. In all but the first ones m(x)·h is kept in
the r directions u of h that tell most apart there; over positions of a text, as probable as the block is there, with

    μ = E_b[h],  R Rᵀ = Cov_b(h),  u: the first eigenvectors of Σ_x p(x) (m(x) R)ᵀ (m(x) R)

    m(x)·h ≈ Σ_j (m(x) R u_j) (u_jᵀ R⁻¹ (h − μ)) + m(x)·μ               lost: ½ Σ of the other eigenvalues, in nats

So m(x) R u_j are the features of x, and u_jᵀ R⁻¹ their rows of W; one more feature, of weight 0 and bias 1, is what is
constant. That is an LL-RNN as any other, whose sum takes r (n + H) multiplications for the n classes of a block instead
of n H (`layer.matrix`). The ranks are those that lose least at a given number of multiplications: a direction is taken
while its eigenvalue over n + H is worth it, in whichever block it is.

Nothing of it is merged: every class keeps a score of its own. The network goes on reading words by all their features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.knowledge.contextual.base import LinearFeature
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import NARROW, FeatureMatrix
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Batching, Sentences, score, walk
from llrnn.model.steering import untied
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText

_FIRST = 256  # classes of the first block
_EIGHTS, _WIDE = 8, 128  # features of a block come in eights, since matrix units read 16 bytes, if H is so large
_WORDS = 512  # positions at a time whose probabilities of all classes are written out
_OF_THE_LARGEST = 1e-7  # variances of h below this, of the largest, count as this


def condense(model: LLRNN, fewer: float, *, text: Corpus, batching: Batching | None = None) -> LLRNN:
    """Return a copy of the model that needs `fewer` times fewer multiplications for a prediction than a softmax.

    The softmax would be one over all words with the same hidden size. The output features of rare words are replaced by
    low-rank, real-valued ones, named after the features that they approximate; input features stay as they are, and
    inputs and outputs are no longer tied. `text`: some thousand sentences, on which the network's states vary as they
    will in use; `batching`: how this text is cut to compute log-perplexities before and after, which are in
    `provenance["condensed"]` of the result with the sizes of the low-rank blocks. The result is an LLRNN like any
    other, and `llrnn.train` can train it further. Raises ConfigError where `fewer` is not above 1, or cannot be
    reached.

        small = condense(model, 6.0, text=Corpus.from_file("valid.txt"))
    """
    if fewer <= 1.0:
        raise ConfigError(f"condense(model, N) needs N over 1, times fewer multiplications, found {fewer}")
    if len(text) == 0:
        raise ConfigError("condense needs a text, to see how the network's state varies, found no sentence; give some")
    linear = [name for one in model.contextual if isinstance(one, LinearFeature) for name in one.names]
    if linear:
        raise ConfigError(f"{linear[0]!r} is made of features that rare words would lose: train with fewer features")
    encoded = EncodedText.encode(text, model.vocabulary)
    V, H = model.output_features.n_symbols, model.layer.weight.shape[1]
    blocks = _low_rank_blocks(model, _Moments.of(model, encoded))
    ranks = _ranks(blocks, V, H, fewer)
    made = _with_low_rank_blocks(model, blocks, ranks)
    scores = score(model, encoded, batching), score(made, encoded, batching)
    told = {
        "fewer": V * H / _multiplications(blocks, ranks, H),
        "alone": sum(block.n for block, r in zip(blocks, ranks, strict=True) if r is None),
        "bands": [[block.n, r] for block, r in zip(blocks, ranks, strict=True) if r is not None],
        "log_perplexity": [one.log_perplexity for one in scores],
    }
    made.provenance = {**model.provenance, "condensed": told}
    return made


@dataclass(frozen=True, eq=False)
class _Moments:
    """Statistics of a text: probabilities of classes of words (sets with equal features), and moments of the vectors h.

    The G classes are sorted by falling prior probability, `order`, and cut at `edges` into B blocks. `share` (G,): Σ
    over positions of the probability of each, in this order; `total` (B,), `first` (B, H), `second` (B, H, H): sums of
    1, h and h hᵀ over positions, weighted by the probability of the block there. `order` (G,) int64 class indices;
    `edges`: B + 1 ints from 0 to G; the other arrays are float64. Made by `_Moments.of(model, text)`.
    """

    order: Ints  # (G,) the classes by falling mass
    edges: list[int]  # of the blocks in this order
    share: Floats  # (G,) in this order
    total: Floats  # (B,)
    first: Floats  # (B, H)
    second: Floats  # (B, H, H)

    @classmethod
    @torch.no_grad()
    def of(cls, model: LLRNN, text: EncodedText) -> _Moments:
        class_of, G = model.output_features.class_of, model.output_features.n_classes
        mass = np.bincount(class_of, symbol_mass(model.background, model.vocabulary), G)
        order = np.argsort(-mass, kind="stable")
        edges = [0, *(size for size in (_FIRST << i for i in range(40)) if size < G), G]
        B, H = len(edges) - 1, model.layer.weight.shape[1]
        made = cls(order, edges, np.zeros(G), np.zeros(B), np.zeros((B, H)), np.zeros((B, H, H)))
        placed = torch.from_numpy(order).to(model.device)
        for _, p in walk(model, text, Sentences(_WORDS)):
            made._add(p.h, p.class_probabilities()[:, placed])
        return made

    def _add(self, h: Tensor, probabilities: Tensor) -> None:
        self.share[:] += probabilities.sum(0, dtype=torch.float64).cpu().numpy()
        for b, (start, stop) in enumerate(pairwise(self.edges)):
            own = probabilities[:, start:stop].sum(1).to(h.dtype)  # (N,)
            weighted = h * own[:, None]
            self.total[b] += float(own.sum())
            self.first[b] += weighted.sum(0).double().cpu().numpy()
            self.second[b] += (weighted.t() @ h).double().cpu().numpy()

    def roots(self, b: int) -> tuple[Floats, Floats, Floats]:
        """Return mean μ (H,), a root R (H, H) of the covariance, and R⁻¹, of hidden vectors where block `b` is likely.

        A block is a range of classes of words by falling prior. Each position counts by the probability that the block
        has there. To the sums are added the mean over all blocks, once, and their covariance, H times, since few
        positions may have a rare block; the covariance is R Rᵀ.
        """
        H, total = self.first.shape[1], float(self.total[b])
        everywhere = self.first.sum(0) / self.total.sum()
        common = self.second.sum(0) / self.total.sum() - np.outer(everywhere, everywhere)
        mean = (self.first[b] + everywhere) / (total + 1.0)
        across = np.outer(self.first[b], mean)
        own = self.second[b] - across - across.T + total * np.outer(mean, mean)
        covariance = (own + H * common) / (total + H)
        values, vectors = np.linalg.eigh(covariance)
        root = np.sqrt(np.maximum(values, max(float(values.max()), 1e-30) * _OF_THE_LARGEST))
        return mean, vectors * root, (vectors / root).T


class _RareBlock(NamedTuple):
    """A block of n classes of words (sets with equal features), and directions of h that tell them apart, best first.

    `classes` (n,): their indices; `weight` (n, H), `bias` (n,): from which scores follow, weight · h + bias; `mean`,
    `root`, `inverse`: of h, as `_Moments.roots` returns them; `directions` (H, H): one a row; `nats` (H,): what leaving
    out each would cost.
    """

    classes: Ints  # (n,)
    weight: Floats  # m (n, H)
    bias: Floats  # d (n,)
    mean: Floats  # μ (H,)
    root: Floats  # R (H, H)
    inverse: Floats  # R⁻¹ (H, H)
    directions: Floats  # u (H, H), one a row
    nats: Floats  # (H,) what each is worth, falling

    @property
    def n(self) -> int:
        return len(self.classes)

    def factors(self, r: int) -> tuple[Floats, Floats, Floats]:
        """Return r new features of the n classes: values φ (n, r), weights W (r, H) and biases c (r,) of the layer.

        φ (W h + c) approximates the scores of the block's classes, by its r − 1 best directions. The last feature has
        weight 0 and bias 1: it holds the part of the scores that does not depend on h.
        """
        u = self.directions[: r - 1]
        values, rows = self.weight @ (self.root @ u.T), u @ self.inverse
        size = np.sqrt((values**2).mean(0)) + 1e-30  # as large as other features, so that training takes them alike
        values, rows = values / size, rows * size[:, None]
        constant = self.bias + self.weight @ self.mean - values @ (rows @ self.mean)
        return np.c_[values, constant], np.r_[rows, np.zeros((1, rows.shape[1]))], np.r_[np.zeros(len(u)), 1.0]


def _low_rank_blocks(model: LLRNN, moments: _Moments) -> list[_RareBlock]:
    layer, found = model.layer, list[_RareBlock]()
    weight, bias = ((layer.phi @ part).detach().double().cpu().numpy() for part in (layer.weight, layer.bias))
    share = moments.share / moments.share.sum()
    for b, (start, stop) in enumerate(pairwise(moments.edges)):
        classes = moments.order[start:stop]
        mean, root, inverse = moments.roots(b)
        scaled = (weight[classes] @ root) * np.sqrt(share[start:stop, None])
        values, vectors = np.linalg.eigh(scaled.T @ scaled)
        nats = np.maximum(values[::-1], 0.0) / 2
        found.append(_RareBlock(classes, weight[classes], bias[classes], mean, root, inverse, vectors.T[::-1], nats))
    return found


def _ranks(blocks: Sequence[_RareBlock], V: int, H: int, fewer: float) -> list[int | None]:
    """Return how many low-rank features each block of classes gets, so that scores lose least within a budget.

    The budget is V · H / `fewer` multiplications at a position: `fewer` times fewer than a softmax over V words with H
    hidden units. None for a block that keeps its features. Raises ConfigError where `fewer` cannot be reached.
    """
    low, high = -60.0, 20.0  # of log nats a multiplication
    for _ in range(60):
        middle = (low + high) / 2
        dear = _multiplications(blocks, _ranks_at(blocks, middle, H), H) > V * H / fewer
        low, high = (middle, high) if dear else (low, middle)
    found = _ranks_at(blocks, high, H)
    most = V * H / _multiplications(blocks, found, H)
    if most < fewer:
        raise ConfigError(f"{most:.1f} times fewer multiplications are the most for this model, found {fewer}")
    return found


def _ranks_at(blocks: Sequence[_RareBlock], log_price: float, H: int) -> list[int | None]:
    """Return how many low-rank features each block of classes gets if one multiplication costs exp(log_price) nats.

    One constant feature, and one for each direction that is worth more nats than its n + H multiplications cost; with
    many hidden units rounded down to a multiple of 8, but 8 at least. `H`: hidden units. None for a block that keeps
    its features, since low rank would save nothing.
    """
    found, step = list[int | None](), _EIGHTS if H >= _WIDE else 1
    for block in blocks:
        wanted = 1 + int((block.nats > np.exp(log_price) * (block.n + H)).sum())  # one of them constant
        r = max(step, wanted // step * step)
        found.append(None if r * (block.n + H) >= block.n * H or block.n < NARROW * r else r)
    return found


def _multiplications(blocks: Sequence[_RareBlock], ranks: Sequence[int | None], H: int) -> int:
    return sum(b.n * H if r is None else r * (b.n + H) for b, r in zip(blocks, ranks, strict=True))


def _with_low_rank_blocks(model: LLRNN, blocks: Sequence[_RareBlock], ranks: Sequence[int | None]) -> LLRNN:
    made, old = untied(model), model.layer
    chosen = [(block, r) for block, r in zip(blocks, ranks, strict=True) if r is not None]
    alone = [block.classes for block, r in zip(blocks, ranks, strict=True) if r is None]
    values, weights, biases = zip(*(block.factors(r) for block, r in chosen), strict=True) if chosen else ((), (), ())
    names = [
        _names(model.output_features, b, *of)
        for b, of in enumerate(zip([block for block, _ in chosen], values, strict=True))
    ]
    order = np.concatenate([*alone, *(block.classes for block, _ in chosen)])
    made.output_features = _joined(model.output_features, order, sum(map(len, alone)), names, values)
    made.layer = LogLinear(made.output_features, old.weight.shape[1], len(made.context_names), zero=True)
    weight, bias = (
        torch.cat([before.detach(), *(torch.from_numpy(part).to(before) for part in more)])
        for before, more in ((old.weight, weights), (old.bias, biases))
    )
    made.layer.weight, made.layer.bias = nn.Parameter(weight), nn.Parameter(bias)
    made.layer.context_weight, made.layer.context_bias = (
        nn.Parameter(part.detach().clone(), part.requires_grad) for part in (old.context_weight, old.context_bias)
    )
    return made.to(model.device).train(model.training)


def _joined(
    matrix: FeatureMatrix, order: Ints, alone: int, names: Sequence[Sequence[str]], values: Sequence[Floats]
) -> FeatureMatrix:
    """Return a feature matrix with low-rank blocks: one row for each class (words with equal features), in `order`.

    `order`: all class indices of `matrix`; the class `order[i]` becomes the class i of the result. The first `alone` of
    them keep their rows; the others get the dense rows `values`, an array (n, r) for each block, in new columns with
    the `names` of the block, after the columns of `matrix`, which all stay.
    """
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    rows = [np.arange(*matrix.offsets[s : s + 2]) for s in order[:alone]]
    kept = np.concatenate([*rows, np.zeros(0, dtype=np.int64)])
    columns, widths = [matrix.columns[kept]], [np.array([len(row) for row in rows], dtype=np.int64)]
    first = matrix.n_features
    for part in values:
        n, r = part.shape
        columns.append(np.tile(np.arange(first, first + r), n))
        widths.append(np.full(n, r))
        first += r
    return FeatureMatrix(
        (*matrix.names, *(name for own in names for name in own)),
        (*matrix.groups, *(f"band {b + 1}" for b, own in enumerate(names) for _ in own)),
        place[matrix.class_of],
        np.concatenate([[0], np.cumsum(np.concatenate(widths))]).astype(np.int64),
        np.concatenate(columns).astype(np.int64),
        np.concatenate([matrix.values[kept], *(part.ravel() for part in values)]),
    )


def _names(matrix: FeatureMatrix, number: int, block: _RareBlock, values: Floats) -> list[str]:
    """Return a name for each of the r new features of a block, after the old features most correlated with it.

    A name is "band 1.2 (+Number:Plur -POS:VERB)", with the old features of highest and lowest correlation, and the last
    one "band 1, constant". `matrix`: the old features; `number`: of the block, from 0 (names count from 1); `values`
    (n, r): of the new features on its n classes.
    """
    entries = [np.arange(*matrix.offsets[s : s + 2]) for s in block.classes]
    row = np.repeat(np.arange(block.n), [len(own) for own in entries])
    own = np.concatenate([*entries, np.zeros(0, dtype=np.int64)])
    column, value = matrix.columns[own], matrix.values[own]
    square = np.bincount(column, value**2, matrix.n_features)
    found = list[str]()
    for j in range(values.shape[1] - 1):
        along = np.bincount(column, value * values[row, j], matrix.n_features) / np.sqrt(np.maximum(square, 1e-30))
        up, down = matrix.names[int(along.argmax())], matrix.names[int(along.argmin())]
        found.append(f"band {number + 1}.{j + 1} (+{up} -{down})")
    return [*found, f"band {number + 1}, constant"]
