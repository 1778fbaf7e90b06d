"""A mixture whose weights the network sets at every step (the paper's footnote 21), beside log-linear experts.

    p(x | K) = Σ_k w_k(h) p_k(x | K),      w = softmax(U h + u),      p_0: the log-linear distribution of the same h

Each part is normalised by itself, so that the sum is one whatever the weights. A word that the log-linear part finds
impossible, or an expert does, is as likely as the others say. Expert features, in contrast, multiply: log p_0 has
a_e(h) · log b_e(x), and a word must please everybody. `log_prob` is differentiable, in h and in the weights of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from llrnn.layer.distribution import Distribution
from llrnn.layer.priors import LazyPrior, Prior
from llrnn.layer.weights import LayerWeights


class MixedDistribution(Distribution):
    """A mixture Σ_k w_k p_k of a log-linear model's distributions and others (experts), over V words at N positions.

    `own`: p_0, the model's; `experts`: the others, a sequence of priors, each normalised here; `log_weights`: log w,
    (N, 1 + number of experts); `flat`: the `LayerWeights` of a layer over the same words with no hidden units (H = 0)
    and all weights 0, by which each expert becomes a `Distribution`. `sample`, `entropy` and `top` write out N × V
    values.

        p = MixedDistribution(model, [expert], torch.tensor([[0.7, 0.3]]).log().expand(model.n, 2), flat)
    """

    def __init__(self, own: Distribution, experts: Sequence[Prior], log_weights: Tensor, flat: LayerWeights) -> None:
        nothing = own.h.new_zeros(own.n, 0)
        self.parts = (own, *(Distribution(flat, nothing, prior) for prior in experts))
        self.log_weights = log_weights
        shape = own.n, len(flat.classes.class_of)
        super().__init__(flat, nothing, LazyPrior(shape, self._of_some, self._of_all, own.h))

    def log_prob(self, value: Tensor, position: Tensor | None = None) -> Tensor:
        """Return log Σ_k w_k p_k of one word for each of N positions, word ids (N,) -> (N,), differentiable.

        With `position` (E,), positions in rising order, `value` holds E words, and the result is (E,).
        """
        return self._of_some(position, value)

    def shares(self, word: Tensor) -> Tensor:
        """Return the posterior probability w_k p_k(x) / p(x) of each part of the mixture, for one word x a position.

        Word ids (N,) -> (N, 1 + number of experts), the model first; each row sums to one.
        """
        return torch.softmax(self._said(None, word) + self.log_weights, 1)

    def _said(self, position: Tensor | None, word: Tensor) -> Tensor:
        return torch.stack([part.log_prob(word, position) for part in self.parts], 1)

    def _of_some(self, position: Tensor | None, word: Tensor) -> Tensor:
        weights = self.log_weights if position is None else self.log_weights[position]
        return torch.logsumexp(self._said(position, word) + weights, 1)

    def _of_all(self) -> Tensor:
        rows = zip(self.parts, self.log_weights.unbind(1), strict=True)
        return reduce(torch.logaddexp, (part.log_probs() + weight[:, None] for part, weight in rows))
