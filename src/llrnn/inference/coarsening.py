"""A trained model with fewer classes, and what each number of classes costs (`layer.coarse`).

    lost(N) = ½ Σ_x b(x) E[(a·(φ(x) − φ̄(x)))²]        a = W h + c, so Cov(a) = W Cov(h) Wᵀ, with h on a text

Weights stay as they are: the features have the same names, and words that were merged the mean of their rows. The
network goes on reading every word by its own features.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError
from llrnn.ground.rendering import Chartable, LineChart, Sheet, TextTable
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.layer import coarse, ways
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Batching, score, walk
from llrnn.text.corpus import Corpus, EncodedText


def coarsen(model: LLRNN, classes: int, *, text: Corpus | None = None, batching: Batching | None = None) -> LLRNN:
    """The model with at most so many classes; itself is left as it is.

    `text`: what the network is at its words tells how the weights of features vary there, and so what merging costs;
    without one, all directions of h count alike. `batching`: how it is read. `provenance["coarsened"]` has both numbers
    of classes and, with a text, the log-perplexity before and after. `llrnn.train` trains it on as any other model.

        small = coarsen(model, 4000, text=Corpus.from_file("valid.txt"))
    """
    if classes < 1:
        raise ConfigError(f"coarsen(model, N) needs N of 1 or more, found {classes}")
    encoded = None if text is None else EncodedText.encode(text, model.vocabulary)
    made = with_classes(model, merges_of(model, encoded, batching), classes)
    before, after = model.output_features.n_classes, made.output_features.n_classes
    told: dict[str, object] = {"before": before, "classes": after}
    if encoded is not None:
        of = score(model, encoded, batching), score(made, encoded, batching)
        told["log_perplexity"] = [one.log_perplexity for one in of]
    made.provenance = {**model.provenance, "coarsened": told}
    return made


def merges_of(model: LLRNN, text: EncodedText | None = None, batching: Batching | None = None) -> coarse.Merges:
    """The tree of merges by the weights of a model, and by the text that it reads, if there is one."""
    vocabulary = model.vocabulary
    mass, scale = symbol_mass(model.background, vocabulary), _scale(model, text, batching)
    return coarse.merges(model.output_features, mass, scale=scale, alone=vocabulary.tails)


def with_classes(model: LLRNN, tree: coarse.Merges, classes: int) -> LLRNN:
    """A copy of the model whose output features are merged so far."""
    made, mass = copy.deepcopy(model), symbol_mass(model.background, model.vocabulary)
    fewer = coarse.merged(model.output_features, mass, tree.new_classes(classes))
    if fewer is model.output_features:
        return made
    old = made.layer
    made.layer = LogLinear(fewer, old.weight.shape[1], len(made.context_names), zero=True)
    made.output_features = fewer
    made.layer.weight, made.layer.bias = old.weight, old.bias  # tied weights stay tied
    made.layer.context_weight, made.layer.context_bias = old.context_weight, old.context_bias
    return made.to(model.device).train(model.training)


def _scale(model: LLRNN, text: EncodedText | None, batching: Batching | None) -> Floats:
    """R, (m, H), where R Rᵀ = Cov(a) on a text; without one as if all directions of h varied alike."""
    W = model.layer.weight.detach().double().cpu().numpy()
    if text is None:
        return np.asarray(W)
    H = W.shape[1]
    total, mean, square = 0, np.zeros(H), np.zeros((H, H))
    for _, p in walk(model, text, batching):
        h = p.given.h.double().cpu().numpy()
        total, mean, square = total + len(h), mean + h.sum(0), square + h.T @ h
    mean, square = mean / max(total, 1), square / max(total, 1)
    values, vectors = np.linalg.eigh(square - np.outer(mean, mean))
    return np.asarray(W @ (vectors * np.sqrt(np.maximum(values, 0.0))))


@dataclass(frozen=True)
class ClassCount:
    """What a number of classes costs."""

    classes: int
    fewer: float  # times fewer multiplications in Z than a softmax over V has, with composed weights
    share: float  # of what the features tell apart: lost
    lost: float | None  # nats a word, as estimated; None before anything is trained
    log_perplexity: float | None = None  # on a text, without more training


@dataclass(frozen=True)
class ClassCurve(Chartable):
    """Classes, multiplications, and what is lost."""

    symbols: int
    counts: tuple[ClassCount, ...]

    def sheet(self) -> Sheet:
        header: tuple[str, ...] = ("classes", "multiplications in Z, fewer", "of what features tell apart, lost")
        nats = self.counts[0].lost is not None
        exact = self.counts[0].log_perplexity is not None
        header += ("nats lost, estimate",) * nats + ("log-perplexity",) * exact
        rows = [
            (f"{one.classes:,}", f"{one.fewer:.1f} times", f"{one.share:.2%}")
            + ((f"{one.lost:.4f}",) if one.lost is not None else ())
            + ((f"{one.log_perplexity:.4f}",) if one.log_perplexity is not None else ())
            for one in self.counts
        ]
        return Sheet((TextTable(header, tuple(rows), text_columns=0), self.chart()))

    def chart(self) -> LineChart:
        """What is lost, against the multiplications that are saved."""
        nats = self.counts[0].lost is not None
        points = [(one.fewer, one.lost if one.lost is not None else 100 * one.share) for one in self.counts]
        curves = {"estimate": points}
        first = self.counts[0].log_perplexity
        if first is not None:
            curves["on the text"] = [(one.fewer, (one.log_perplexity or first) - first) for one in self.counts]
        lost = "nats a word, lost" if nats else "per cent of what features tell apart, lost"
        return LineChart(curves, "What fewer classes cost", "times fewer multiplications in Z than a softmax", lost)


def class_curve(
    tree: coarse.Merges, features: FeatureMatrix, size: ways.Size, numbers: Sequence[int] = (), *, nats: bool = False
) -> ClassCurve:
    """What numbers of classes cost; halving again and again by default. `nats`: of a model with a text."""
    dense = ways.composed(size._replace(classes=features.n_symbols)).multiplications
    found = []
    for classes, lost in coarse.curve(tree, numbers):
        fewer = dense / ways.composed(size._replace(classes=classes)).multiplications
        found.append(ClassCount(classes, fewer, lost / (tree.spread or 1.0), lost if nats else None))
    return ClassCurve(features.n_symbols, tuple(found))
