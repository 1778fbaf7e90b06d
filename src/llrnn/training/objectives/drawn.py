"""Words drawn from the background, and their scores: what both approximations share.

    q(x | K) = b(K, x) / B(K)          B(K) = Σ_x b(K, x)

The background is the log-linear distribution without features: all of V is one class, a = 0, Z = B. So drawing and B
are those of the library, exact: by alias tables and exceptions, V is touched once for each table, not at each step (a
background that lists N × V values is drawn from in N × V steps, as it was made).

A static background answers alike everywhere: its words are drawn once and shared by all positions of the batch, and
their scores are one matrix product. Any other has words of its own drawn at each position.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.sequences import Batch
from llrnn.layer.loglinear import Distribution, LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import Prior
from llrnn.model.network import LLRNN


@dataclass(frozen=True, eq=False)
class Drawn:
    """The targets of N positions and S words drawn for each, with their scores a·φ; b is that of the positions."""

    targets: Tensor  # (N,)
    word: Tensor  # (1, S) shared by all positions, or (N, S)
    log_total: Tensor  # (1,) or (N,): log B(K)
    target_score: Tensor  # (N,)
    score: Tensor  # (N, S)


class Drawer:
    """Draws S words from the background of a model, and keeps what takes V steps to make."""

    def __init__(self, samples: int) -> None:
        if samples < 1:
            raise ConfigError(f"at least one word has to be drawn, found samples = {samples}; give some hundred")
        self.samples = samples
        self._without_features: WeakKeyDictionary[LLRNN, LogLinear] = WeakKeyDictionary()

    def background(self, model: LLRNN, prior: Prior, n: int) -> Distribution:
        """q(· | K) at n positions, or at one for all where the prior is static."""
        if model not in self._without_features:
            # without gradients, yet not under no_grad, where a few words would be summed one by one at each step
            self._without_features[model] = LogLinear(_one_class(prior.n_symbols), 0).double().requires_grad_(False)
        layer = self._without_features[model].to(model.device)
        h = torch.zeros(1 if prior.is_static else n, 0, dtype=torch.float64, device=model.device)
        made: Distribution = layer(h, prior)
        return made.possible()

    def words(self, model: LLRNN, p: Distribution, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """S words for each position, (1, S) or (N, S), and log B, (1,) or (N,)."""
        q = self.background(model, p.prior, p.n)
        return q.sample(generator=generator, count=self.samples).t(), q.log_z

    def __call__(self, model: LLRNN, p: Distribution, batch: Batch, generator: torch.Generator | None) -> Drawn:
        targets = batch.picked(batch.targets)
        model.refuse_zero_mass(p, targets)
        word, log_total = self.words(model, p, generator)
        target_score = word_scores(model.layer, p, targets[:, None])[:, 0]
        score = shared_scores(model.layer, p, word[0]) if len(word) == 1 else word_scores(model.layer, p, word)
        return Drawn(targets, word, log_total.to(score.dtype), target_score, score)


def _one_class(n_symbols: int) -> FeatureMatrix:
    """One feature that fires on every word; its weight stays 0."""
    class_of, columns = np.zeros(n_symbols, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return FeatureMatrix(("any",), ("any",), class_of, np.arange(2), columns, np.ones(1))


def shared_scores(layer: LogLinear, p: Distribution, word: Tensor) -> Tensor:
    """a·φ(K, x) of the same words at every position, (S,) -> (N, S)."""
    weight, bias = _rows(layer, word)
    return torch.addmm(bias, p.h, weight.t()) + _context_scores(p, word.expand(p.n, -1))


def word_scores(layer: LogLinear, p: Distribution, word: Tensor) -> Tensor:
    """a·φ(K, x) of words of each position, (N, S) -> (N, S); only the rows of these words are composed."""
    unique, inverse = torch.unique(word, return_inverse=True)
    weight, bias = _rows(layer, unique)
    static = torch.bmm(F.embedding(inverse, weight), p.h.unsqueeze(2)).squeeze(2)
    return static + bias[inverse] + _context_scores(p, word)


def _rows(layer: LogLinear, word: Tensor) -> tuple[Tensor, Tensor]:
    """Φ W and Φ c for some words, (S,) -> (S, H) and (S,)."""
    classes = layer.classes.class_of[word]
    return layer.phi.rows(layer.weight, classes), layer.phi.rows(layer.bias[:, None], classes)[:, 0]


def _context_scores(p: Distribution, word: Tensor) -> Tensor | float:
    """What the contextual features add, (N, S): each source is asked by itself, their exceptions are not joined."""
    if not p.values:
        return 0.0
    position = torch.arange(p.n, device=word.device).repeat_interleave(word.shape[1])
    value = torch.cat([part.at(position, word.reshape(-1), p.prior.n_symbols) for part in p.values], 1)
    return torch.bmm(value.view(p.n, word.shape[1], -1), p.context_adaptor.unsqueeze(2)).squeeze(2)
