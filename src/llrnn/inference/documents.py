"""A model that follows a document: what came before a sentence counts when it is read.

    cache      p(x) = (1 − λ) p_model(x) + λ · share of x among the last words              (Kuhn & De Mori 1990)
    dynamic    behind every few sentences a step of gradient descent on them, −η ∇ mean(−log p)   (Mikolov et al. 2010)

Both need no training: λ, the length of the cache and η are chosen on a validation text. Ends of sentences count as
words. (`backgrounds.Recent` is a cache that a network is trained with.)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ConfigError
from llrnn.model.controllers import learning_rnns
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences, Tally, sentence_log_probs
from llrnn.text.encoded import EncodedText

__all__ = ["DocumentContext", "recent_log_probs"]

EVERY = 10  # sentences between two steps


@dataclass(frozen=True)
class DocumentContext:
    """Settings for a model that adapts to a document as it reads: by a cache of words, dynamic evaluation, or both.

    `cache`: the weight λ of the cache in the mixture with the model, 0 for none; `words`: how many words it holds;
    `step`: the step size of a gradient step on every ten sentences that were read (dynamic evaluation), 0 for none.
    Raises ConfigError for numbers out of range.

        evaluate(model, corpus, following=DocumentContext(cache=0.1, words=1000, step=0.05))
    """

    cache: float = 0.0
    words: int = 1000
    step: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.cache < 1 or self.words < 1 or not 0 <= self.step < math.inf:
            raise ConfigError(
                "a document is followed with a cache of a share from 0 to below 1, of 1 word or more, and a step of 0 "
                f"or more, found {self.cache:g}, {self.words}, {self.step:g}"
            )

    def log_probs(self, model: LLRNN, text: EncodedText) -> list[Floats]:
        """Return log p in nats of the n words and end of each sentence, given all sentences before: arrays (n + 1,).

        The gradient steps of dynamic evaluation are made on a copy: `model` is not changed. Raises ConfigError for a
        cache with a model that spells words, or gradient steps with n-grams.
        """
        self._check(model)
        found = [own for some, follower in self._parts(model, text) for own in sentence_log_probs(follower, some)]
        if not self.cache:
            return found
        recent = recent_log_probs(text.stream(), self.words)
        mixed = np.logaddexp(math.log1p(-self.cache) + np.concatenate(found), math.log(self.cache) + recent)
        return np.split(mixed, np.cumsum([len(own) for own in found])[:-1])

    def tally(self, model: LLRNN, text: EncodedText) -> Tally:
        """Return how often the text has each symbol of the vocabulary, and the sum of its −log p in nats, as a `Tally`.

        log p of a word is given all sentences before, as `log_probs` computes it.
        """
        targets, V = text.stream()[1:], len(model.vocabulary)
        nats = -np.concatenate(self.log_probs(model, text))
        return Tally(np.bincount(targets, minlength=V), np.bincount(targets, nats, V).astype(np.float64))

    def _parts(self, model: LLRNN, text: EncodedText) -> Iterator[tuple[EncodedText, LLRNN]]:
        """Yield (ten sentences, the model to read them with), where the model was trained on all sentences before.

        The model is one copy, on which the caller's use must end before the next item. Without dynamic evaluation
        (`step` 0) it yields the whole text with `model` itself.
        """
        if not self.step:
            yield text, model
            return
        follower = copy.deepcopy(model).requires_grad_(True).to(model.device)  # for cuDNN: weights in one piece again
        for first in range(0, len(text.sentences), EVERY):
            rows = slice(first, first + EVERY)
            some = EncodedText(text.sentences[rows], text.conditions[rows], text.eos)
            yield some, follower
            _descend(follower, some, self.step)

    def _check(self, model: LLRNN) -> None:
        if self.cache and (model.vocabulary.is_open or model.vocabulary.units is not None):
            raise ConfigError("a cache is over listed words, found a model that spells words; take one with a list")
        if self.step and not model.output_features.n_features:
            raise ConfigError("dynamic evaluation trains a network, found n-grams alone; leave it out, or take a cache")


def _descend(model: LLRNN, text: EncodedText, step: float) -> None:
    model.zero_grad()
    with learning_rnns(model):
        for batch in Sentences(10**9).plan(text):
            (-model.log_prob(batch.to(model.device)).mean()).backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for own in model.parameters():
            if own.grad is not None:
                own.sub_(own.grad, alpha=step)


def recent_log_probs(stream: Ints, length: int) -> Floats:
    """Return the log of the relative frequency of each symbol among the (at most) `length` symbols before it, (T − 1,).

    `stream`: T symbol ids; the first, which has none before it, is left out. −infinity where a symbol is not among
    those before it.
    """
    counts, found = dict[int, int](), np.full(len(stream) - 1, -np.inf)
    for t, symbol in enumerate(stream.tolist()):
        if t and counts.get(symbol, 0):
            found[t - 1] = math.log(counts[symbol] / min(t, length))
        counts[symbol] = counts.get(symbol, 0) + 1
        if t >= length:
            counts[int(stream[t - length])] -= 1
    return found
