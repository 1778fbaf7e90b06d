"""A model that follows a document: what came before a word counts when it is read.

    cache      p(x_t) = (1 − λ) p_model(x_t) + λ p_cache(x_t)                                  (Grave et al. 2017)
               p_cache(x_t) ∝ Σ_{i<t} [x_i = x_t] exp(θ h_t·h_i)      h_i: what the network had seen before x_i
    dynamic    behind every few words a step of gradient descent on them                       (Krause et al. 2018)
               w ← w − η g / (r + ε) + κ (r / r̄) (w_trained − w)       g = ∇ mean(−log p), r: the root mean square of g

Neither needs training: λ, θ, the length of the cache, η and κ are chosen on a validation text. θ = 0 is the share of a
word among the last ones (Kuhn and De Mori 1990), without r it is plain gradient descent (Mikolov et al. 2010). The text
is read as one, with the state of the network carried on; ends of sentences count as words. (`backgrounds.Recent` is a
cache that a network is trained with.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError
from llrnn.layer.distribution import Distribution
from llrnn.layer.mixed import MixedDistribution
from llrnn.layer.numerics import MINUS_INFINITY
from llrnn.model.controllers import evaluating, learning_rnns
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Batching, Continuous, Tally
from llrnn.text.encoded import EncodedText

__all__ = ["DocumentContext", "ReadText", "cache_log_probs", "gradient_scales", "mixed_with_cache", "read_as_one"]

SEGMENT = 5  # words between two steps
_WINDOW = 500  # words that are read in one call
_BLOCK = 512  # positions whose products with the cache are made together
_LEAST = 0.5  # ε, in terms of the mean of r: weights of words that are not in the text for r have r = 0


@dataclass(frozen=True)
class ReadText:
    """A text of T words and ends that a model has read as one: log p of each, its id, and what the network had seen.

    `log_p` (T,) float64 in nats, `targets` (T,) ids, `h` (T, H) the hidden vectors that the words were predicted from.
    """

    log_p: Tensor
    targets: Tensor
    h: Tensor


def read_as_one(model: LLRNN, text: EncodedText) -> ReadText:
    """Return log p of every word and end of a text that is read as one, on the device of the model, in eval mode.

    A word that the prior forbids has log p −∞.

        read_as_one(model, EncodedText.encode(corpus, model.vocabulary)).log_p.mean()
    """
    with torch.no_grad():
        return _joined(list(_segments(model, text, _WINDOW)))


def _segments(model: LLRNN, text: EncodedText, length: int) -> Iterator[ReadText]:
    """Yield what the model says of `length` words after another, each with the state carried on, in eval mode.

    With gradients, unless they are switched off; weights may be changed between two items.
    """
    state = None
    for batch in Continuous(1, length).plan(text):
        placed = batch.to(model.device)
        with evaluating(model), learning_rnns(model):
            distribution, state = model.scan(placed, state)
            log_p = distribution.log_prob(placed.picked(placed.targets)).double()
        state = state.detached()
        if placed.inside is not None:
            log_p = log_p + placed.picked(placed.inside)
        yield ReadText(
            log_p.nan_to_num(nan=MINUS_INFINITY, neginf=MINUS_INFINITY),
            placed.picked(placed.targets),
            _hidden(distribution).detach(),
        )


def _hidden(p: Distribution) -> Tensor:
    return (p.parts[0] if isinstance(p, MixedDistribution) else p).h


def _joined(parts: list[ReadText]) -> ReadText:
    return ReadText(*(torch.cat([getattr(one, name).detach() for one in parts]) for name in ("log_p", "targets", "h")))


@torch.no_grad()
def cache_log_probs(h: Tensor, targets: Tensor, words: int, sharpness: float = 0.0) -> Tensor:
    """Return log p of each of T words by a cache of the (at most) `words` words before it, (T,) float64, in nats.

    A word of the cache counts exp(θ h·h'), with θ the `sharpness` and h, h' the rows of `h` (T, H) of the two words.
    −∞ where a word is not in the cache. `targets`: ids of the words (T,).

        cache_log_probs(read.h, read.targets, 3800, 0.3)
    """
    found, numbers = [], torch.arange(len(targets), device=targets.device)
    for first in range(0, len(targets), _BLOCK):
        here, kept = numbers[first : first + _BLOCK], numbers[max(0, first - words) : first + _BLOCK]
        apart = here[:, None] - kept
        score = (sharpness * h[here]) @ h[kept].t()
        score = score.double().masked_fill((apart < 1) | (apart > words), MINUS_INFINITY)
        same = score.masked_fill(targets[here][:, None] != targets[kept], MINUS_INFINITY)
        found.append(torch.logsumexp(same, 1) - torch.logsumexp(score, 1))
    return torch.cat(found).nan_to_num(nan=MINUS_INFINITY, neginf=MINUS_INFINITY)  # NaN: the first word of all


def mixed_with_cache(log_p: Tensor, log_cache: Tensor, share: float) -> Tensor:
    """Return log ((1 − λ) p + λ q), (T,), for λ = `share`, log p and log q (T,); where no word is before, log p."""
    if share == 0.0:
        return log_p
    mixed = torch.logaddexp(math.log1p(-share) + log_p, math.log(share) + log_cache)
    mixed[:1] = log_p[:1]
    return mixed


def gradient_scales(model: LLRNN, text: EncodedText, batching: Batching, batches: int = 200) -> dict[str, Tensor]:
    """Return √(mean g²) of each weight over batches of a text, such as the training text, by its name.

    g is the gradient of the mean of −log p of a batch. `batches`: how many are read, from the beginning. Weights that
    have none are left out.

        DocumentContext(step=1e-4, scales=gradient_scales(model, text, Continuous(64, 5)))
    """
    squares: dict[str, Tensor] = {}
    plan, state = batching.plan(text), None
    read = min(batches, len(plan))
    for number in range(read):
        placed = plan[number].to(model.device)
        model.zero_grad()
        with evaluating(model), learning_rnns(model):
            distribution, after = model.scan(placed, state)
            (-model.targets_log_prob(distribution, placed).mean()).backward()  # type: ignore[no-untyped-call]
        state = after.detached() if batching.carries_state else None
        for name, own in model.named_parameters():
            if own.grad is not None:
                squares[name] = squares.get(name, 0.0) + own.grad.square()
    model.zero_grad()
    return {name: (total / read).sqrt() for name, total in squares.items()}


@dataclass(frozen=True)
class DocumentContext:
    """Settings for a model that adapts to a document as it reads: by a cache of words, dynamic evaluation, or both.

    `cache`: the weight λ of the cache in the mixture with the model, 0 for none; `words`: how many words it holds;
    `sharpness`: θ, how much more words count that came where the network had seen alike; `step`: the step size η of a
    gradient step on every five words that were read (dynamic evaluation), 0 for none; `back`: κ, the share of the way
    back to the trained weights that each step goes on average; `scales`: of the gradients, from `gradient_scales`, None
    for plain gradient descent. Raises ConfigError for numbers out of range.

        evaluate(model, corpus, following=DocumentContext(cache=0.1, words=3800, sharpness=0.3))
    """

    cache: float = 0.0
    words: int = 3800
    step: float = 0.0
    sharpness: float = 0.0
    back: float = 0.0
    scales: Mapping[str, Tensor] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.cache < 1 or self.words < 1 or not 0 <= self.step < math.inf:
            raise ConfigError(
                "a document is followed with a cache of a share from 0 to below 1, of 1 word or more, and a step of 0 "
                f"or more, found {self.cache:g}, {self.words}, {self.step:g}"
            )
        if not 0 <= self.sharpness < math.inf or not 0 <= self.back <= 1:
            raise ConfigError(
                "the sharpness of a cache is 0 or more, the way back to the trained weights 0 to 1, found "
                f"{self.sharpness:g}, {self.back:g}"
            )

    def log_probs(self, model: LLRNN, text: EncodedText) -> Floats:
        """Return log p in nats of every word and end of a text, each given all before it, (T,).

        The gradient steps of dynamic evaluation are made on a copy: `model` is not changed. Raises ConfigError for a
        cache with a model that spells words, or gradient steps with n-grams.
        """
        self._check(model)
        read = self._followed(model, text) if self.step else read_as_one(model, text)
        log_p = read.log_p
        if self.cache:
            log_p = mixed_with_cache(
                log_p, cache_log_probs(read.h, read.targets, self.words, self.sharpness), self.cache
            )
        return np.asarray(log_p.cpu().numpy())

    def tally(self, model: LLRNN, text: EncodedText) -> Tally:
        """Return how often the text has each symbol of the vocabulary, and the sum of its −log p in nats, as a `Tally`.

        log p of a word is given all before it, as `log_probs` computes it.
        """
        targets, V = text.stream()[1:], len(model.vocabulary)
        nats = -self.log_probs(model, text)
        return Tally(np.bincount(targets, minlength=V), np.bincount(targets, nats, V).astype(np.float64))

    def _followed(self, model: LLRNN, text: EncodedText) -> ReadText:
        """Return what a copy of the model says of a text, that takes a gradient step behind every segment of it."""
        follower = copy.deepcopy(model).requires_grad_(True).to(model.device)  # for cuDNN: weights in one piece again
        parts = []
        for part in _segments(follower, text, SEGMENT):
            follower.zero_grad()
            (-part.log_p.mean()).backward()  # type: ignore[no-untyped-call]
            parts.append(ReadText(part.log_p.detach(), part.targets, part.h))
            self._descend(follower, model)
        return _joined(parts)

    @torch.no_grad()
    def _descend(self, model: LLRNN, trained: LLRNN) -> None:
        for (name, own), before in zip(model.named_parameters(), trained.parameters(), strict=True):
            if own.grad is None:
                continue
            if self.scales is None:
                own.sub_(own.grad, alpha=self.step).lerp_(before, self.back)
            elif (scale := self.scales.get(name)) is not None and (mean := scale.mean()) > 0:
                own.addcdiv_(own.grad, scale + _LEAST * mean, value=-self.step)
                own.lerp_(before, (self.back * scale / mean).clamp(max=1.0))

    def _check(self, model: LLRNN) -> None:
        if self.cache and (model.vocabulary.is_open or model.vocabulary.units is not None):
            raise ConfigError("a cache is over listed words, found a model that spells words; take one with a list")
        if self.step and not model.output_features.n_features:
            raise ConfigError("dynamic evaluation trains a network, found n-grams alone; leave it out, or take a cache")
