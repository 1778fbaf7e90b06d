"""Objectives, what a training step minimises: the exact loss −mean log p(x̄), an approximation of it, distillation.

    −mean log p = mean (log Σ_s B_s exp(a·φ_s) − log B_k exp(a·φ_k) − log b(x̄) / B_k),    k the class of the target

Where the background is one static table and nothing else depends on the position, the gradient is made block by block
with the loss itself, so that nothing of size N × G is kept; `layer.costs` picks the way.

An objective does not look at the loss, for which a GPU would have to be waited for: `updates` does, and says what
is wrong with it.

Distillation: a student p learns from a teacher's whole distribution q over V, and from the targets x̄.

    loss = (1 − α) · (−log p(x̄)) + α · (−Σ_x q(x) log p(x))             the teacher's part is KL(q ‖ p) + H(q)
         = −log p(x̄) + α · Σ_x d(x) (log b(x) + a·φ(x))                 d = 1_x̄ − q:  Σ_x d(x) = 0, so log Z cancels

So log Z is that of the exact loss, by the same ways, and of the teacher only the expectations of φ and log b are
needed. What every word has in common cancels too: contextual features count where words are exceptional.

Importance sampling: Z from words drawn from the background.

    Z = b(x̄) e^{s(x̄)} + Σ_{x≠x̄} b(x) e^{s(x)}                                     s = a·φ, x̄ the target
    Ẑ = b(x̄) e^{s(x̄)} + B/S Σ_i [x_i ≠ x̄] e^{s(x_i)},    x_i ~ b/B                 E Ẑ = Z

    ∂ −log p̂(x̄) = −∂s(x̄) + w_0 ∂s(x̄) + Σ_i w_i ∂s(x_i)       w: the terms of Ẑ, over their sum (self-normalised)

The target counts as what it is, and only the rest is estimated. Without that term a word that is likely here and rare
in the background would hardly ever be drawn, its score could grow for nothing, and the loss would have no bottom.
With it p̂(x̄) ≤ 1. Ẑ is unbiased; log Ẑ, and with it the gradient, is biased by O(1/S).

The background q = b/B is the log-linear distribution without features: all of V is one class, a = 0, Z = B. So
drawing and B are those of the library, exact: by alias tables and exceptions, V is touched once for each table, not
at each step (a background that lists N × V values is drawn from in N × V steps, as it was made).

A static background answers alike everywhere: its words are drawn once and shared by all positions of the batch, and
their scores are one matrix product. Any other has words of its own drawn at each position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from llrnn.ground.errors import ConfigError, warn
from llrnn.knowledge.backgrounds import Background, CrossFitted, Model
from llrnn.knowledge.backgrounds.base import Combined
from llrnn.knowledge.backgrounds.neural import require_same_symbols
from llrnn.knowledge.contextual import Expert
from llrnn.knowledge.process import Batch
from llrnn.layer.chunked import transposed
from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear, WantedPrecision, exact_loss, taken_precision
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.numerics import MINUS_INFINITY, finite
from llrnn.layer.priors import Prior
from llrnn.model.network import LLRNN

# the loss of a batch, a number that can be differentiated; the generator decides whatever is drawn for it
Objective = Callable[[LLRNN, Distribution, Batch, torch.Generator | None], Tensor]


class Exact:
    """The loss −mean log p of the targets of a batch, with Z summed exactly over classes (words with equal features).

    Called as `loss(model, p, batch, generator)`, with p the model's distribution at the batch's N positions, it returns
    a tensor (). `precision`: "half" computes products in float16 or bfloat16 with float32 sums, on a GPU, where the
    prior b(K, x) is static (the same at every position) and contextual features differ on few words at a time; "auto"
    does so where that is possible, "full" never.
    """

    def __init__(self, precision: WantedPrecision = "auto") -> None:
        self.precision = precision

    def __call__(self, model: LLRNN, p: Distribution, batch: Batch, generator: torch.Generator | None) -> Tensor:
        ahead = batch.precomputed.weights
        weights = None if ahead is None else batch.picked(ahead)
        taken = taken_precision(p, self.precision)
        loss = exact_loss(p, batch.picked(batch.targets), taken, weights=weights)
        return loss if batch.inside is None else loss - batch.mean(batch.picked(batch.inside)).to(loss.dtype)


# Distillation: a student p learns from a teacher's whole distribution q over V, and from the targets x̄.


class Distilled(Exact):
    """The loss (1 − α)(−log p(target)) + α · cross-entropy with a teacher's distribution q; α is `share`.

    The teacher is in eval mode and is not trained; words to which the student's prior gives probability 0 are removed
    from q. `temperature` τ: q^(1/τ), normalised; above 1 flattens it. `with_teacher` computes q before the step.
    """

    def __init__(self, teacher: LLRNN, share: float = 0.5, temperature: float = 1.0) -> None:
        super().__init__()
        self.teacher, self.share, self.temperature = teacher.eval().requires_grad_(False), share, temperature
        if found := next(cross_fitted(teacher), None):
            warn(
                f"the teacher has {found!r}, whose folds are not kept in model folders: on the text that it was "
                "estimated on it is nearly certain; distil from teachers without n-grams of that text, or on another"
            )

    def require_same_words(self, student: LLRNN) -> None:
        """Raise BackgroundError, naming the first word that differs, unless teacher and student have one vocabulary."""
        advice = "train the student with the vocabulary of its teacher"
        require_same_symbols("the teacher", self.teacher.vocabulary, student.vocabulary, advice)

    @torch.no_grad()
    def with_teacher(self, batch: Batch) -> Batch:
        """Return the batch with the teacher's probabilities of all V words at its N positions, (N, V), added.

        They are found as `batch.precomputed.teacher`, with the temperature applied.
        """
        if self.teacher.device != batch.inputs.device:
            self.teacher.to(batch.inputs.device)
        # not by sentence: the folds that n-grams of the teacher were estimated in are not kept in its folder
        log_q = self.teacher.scan(replace(batch, sentences=None))[0].log_probs()
        q = log_q.exp() if self.temperature == 1.0 else torch.softmax(log_q / self.temperature, -1)
        return batch.with_tensors(batch.tensors() | {"teacher": q})

    def __call__(self, model: LLRNN, p: Distribution, batch: Batch, generator: torch.Generator | None) -> Tensor:
        loss = super().__call__(model, p, batch, generator)
        q = batch.precomputed.teacher
        q = self.with_teacher(batch).precomputed.teacher if q is None else q
        assert q is not None
        return loss + self.share * self.difference(p, batch, q).to(loss.dtype)

    def difference(self, p: Distribution, batch: Batch, q: Tensor) -> Tensor:
        """Return the mean over positions of log p(target) − Σ_x q(x) log p(x), a tensor ().

        The loss is −mean log p(target) plus α times this. `p`: the student's distribution at the N positions of the
        batch; `q`: the teacher's probabilities, (N, V), which are normalised without the words to which the student's
        prior gives probability 0.
        """
        log_b = p.prior.dense(1 if p.prior.is_static else p.n, p.h.dtype).log_b
        q = q.to(p.h.dtype).masked_fill(log_b == MINUS_INFINITY, 0.0)
        q = q / q.sum(-1, keepdim=True)
        d = (-q).scatter_add_(1, batch.picked(batch.targets)[:, None], torch.ones_like(q[:, :1]))  # (N, V)
        found = (d * finite(log_b)).sum() + (p.adaptor * feature_sums(p, d)).sum()
        weights = torch.split(p.context_adaptor, [part.width for part in p.values], 1) if p.values else ()
        for part, a in zip(p.values, weights, strict=True):
            offset_logits = (a[part.position] * (part.value - part.rest[part.position])).sum(-1)
            found = found + (d[part.position, part.word] * offset_logits).sum()
        return found / p.n


def feature_sums(p: Distribution, d: Tensor) -> Tensor:
    """Return Σ_x d(x) φ(x) over all words x, (N, m), for numbers d (N, V); φ are the m static features of p."""
    classes = p.classes
    by_class = F.embedding_bag(
        classes.members, d.t().contiguous(), classes.member_offsets, mode="sum", include_last_offset=True
    )
    return transposed(p.weights.phi, by_class).t()


def cross_fitted(model: LLRNN) -> Iterator[Background]:
    """Yield the cross-fitted n-gram models among a model's priors and experts, also of models inside it.

    Cross-fitted: n-grams estimated on the training text, each sentence scored by counts of the other folds.
    """
    left = [one.followed if isinstance(one, Expert) else one for one in model.processes]
    while left:
        match left.pop():
            case CrossFitted() as found:
                yield found
            case Model() as inner:
                yield from cross_fitted(inner.model)
            case Combined() as several:
                left += several.parts


# Importance sampling: Z from words drawn from the background.


class ImportanceSampling:
    """The loss −mean log p of the targets, with Z estimated from `samples` words drawn from the prior b(K, x).

    Called as `loss(model, p, batch, generator)`, with p the model's distribution at the batch's positions, it returns a
    tensor (); `generator` decides the draws. Where the prior is static (the same at every position), all positions
    share the words. Raises ConfigError for fewer than one sample.
    """

    def __init__(self, samples: int = 256) -> None:
        if samples < 1:
            raise ConfigError(f"at least one word has to be drawn, found samples = {samples}; give some hundred")
        self.samples = samples
        self._without_features: WeakKeyDictionary[LLRNN, LogLinear] = WeakKeyDictionary()  # which take V steps to make

    @staticmethod
    def require_scores(model: LLRNN) -> None:
        """Raise ConfigError for a model that mixes n-grams in: in a sum of distributions words have no scores a·φ."""
        if model.mixed:
            raise ConfigError(
                f"the objective importance needs scores a·φ of words, found a model that mixes {model.mixed[0]!r} in, "
                "whose sum has none; choose exact or distil, or leave mixed out"
            )

    def background(self, model: LLRNN, prior: Prior, n: int) -> Distribution:
        """Return the prior b(K, x), normalised over words, as a distribution at n positions.

        Where the prior is static (the same everywhere), the distribution has 1 position. `prior`: at the n positions,
        of `model`. Raises ZeroMassError where it is 0 for all words.
        """
        if model not in self._without_features:
            # one feature that fires on every word; its weight stays 0
            class_of, column = np.zeros(prior.n_symbols, dtype=np.int64), np.zeros(1, dtype=np.int64)
            phi = FeatureMatrix(("any",), ("any",), class_of, np.arange(2), column, np.ones(1))
            # without gradients, yet not under no_grad, where a few words would be summed one by one at each step
            self._without_features[model] = LogLinear(phi, 0, zero=True).double().requires_grad_(False)
        layer = self._without_features[model].to(model.device)
        h = torch.zeros(1 if prior.is_static else n, 0, dtype=torch.float64, device=model.device)
        made: Distribution = layer(h, prior)
        return made.require_mass()

    def words(self, model: LLRNN, p: Distribution, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Draw S words from the prior b(K, x) at each of the N positions of p; return them and log Σ_x b(K, x).

        `p`: the distribution of `model` there; `generator`: decides the draws, None for torch's own. Shapes are (N, S),
        indices of words, and (N,). Where the prior is static (the same everywhere), one draw serves all positions: (1,
        S) and (1,). S is `self.samples`.
        """
        q = self.background(model, p.prior, p.n)
        return q.sample((self.samples,), generator=generator).t(), q.log_z

    def log_terms(self, model: LLRNN, p: Distribution, batch: Batch, generator: torch.Generator | None) -> Tensor:
        """Return the logarithms of the terms whose sum estimates Z, (N, 1 + S): the target's, then the S samples'.

        log b + a·φ of the target; a·φ + log(Σ_x b(K, x) / S) of a sample, or −∞ if it is the target. `p`: the
        distribution of `model` at the batch's N positions; `generator`: decides the draws, None for torch's own; S is
        `self.samples`. Raises ZeroMassError where the prior b(K, x) gives a target probability 0.
        """
        self.require_scores(model)
        targets = batch.picked(batch.targets)
        model.refuse_zero_mass(p, targets)
        word, log_total = self.words(model, p, generator)
        target_score, score = word_scores(p, targets[:, None]), word_scores(p, word)
        share = (log_total.to(score.dtype) - math.log(score.shape[1]))[:, None]
        rest = (score + share).masked_fill(word == targets[:, None], MINUS_INFINITY)
        return torch.cat([p.log_b(targets).to(score.dtype)[:, None] + target_score, rest], 1)

    def __call__(self, model: LLRNN, p: Distribution, batch: Batch, generator: torch.Generator | None) -> Tensor:
        log_p = torch.log_softmax(self.log_terms(model, p, batch, generator), 1)[:, 0]
        return -(log_p if batch.inside is None else log_p + batch.picked(batch.inside)).mean()


def word_scores(p: Distribution, word: Tensor) -> Tensor:
    """Return the scores a·φ(K, x), (N, S), of S words at each of the N positions of p, without log b.

    `word`: indices of words, (N, S), or (1, S) for the same words everywhere. Only weights of these words' features are
    computed.
    """
    (unique, inverse), phi = torch.unique(word, return_inverse=True), p.weights.phi
    classes = p.classes.class_of[unique]
    weight, bias = phi.rows(p.weights.weight, classes), phi.rows(p.weights.bias[:, None], classes)[:, 0]
    if len(word) == 1:
        score = torch.addmm(bias, p.h, weight.t())[:, inverse[0]]
    else:
        score = torch.bmm(F.embedding(inverse, weight), p.h.unsqueeze(2)).squeeze(2) + bias[inverse]
    if not p.values:
        return score
    # each source of contextual features is asked by itself: their exceptions are not joined
    word = word.expand(p.n, -1)
    position = torch.arange(p.n, device=word.device).repeat_interleave(word.shape[1])
    value = torch.cat([part.at(position, word.reshape(-1), p.prior.n_symbols) for part in p.values], 1)
    return score + torch.bmm(value.view(p.n, word.shape[1], -1), p.context_adaptor.unsqueeze(2)).squeeze(2)
