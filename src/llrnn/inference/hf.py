"""llrnn and the `transformers` library: an adaptor on top of a frozen language model.

    log p(x | K) = log p_LM(x | K) + a(h)·φ(K, x) − log Z(K)

An adaptor is an LLRNN whose background is the LM: it trains as any other model, and the LM does not.

    V = hf.vocabulary(tokenizer)
    adaptor = LLRNN(V, output_features=..., background=backgrounds.HuggingFace(lm, tokenizer))
    list(train(adaptor, hf.corpus(tokenizer, lines)))
    lm.generate(..., logits_processor=[hf.LogLinearProcessor(adaptor)])
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError, MissingExtraError
from llrnn.inference.harness import HarnessLM, language_models
from llrnn.knowledge.backgrounds import Background, HuggingFace
from llrnn.knowledge.backgrounds.base import Combined
from llrnn.knowledge.backgrounds.neural import tokenised as corpus
from llrnn.knowledge.backgrounds.neural import vocabulary_of as vocabulary
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.priors import DensePrior, Prior
from llrnn.model.controllers import evaluating
from llrnn.model.network import LLRNN
from llrnn.text.tokenisers import symbol_of, token_of

try:
    from transformers import LogitsProcessor
except ImportError:
    raise MissingExtraError("transformers", "hf") from None

__all__ = ["HarnessLM", "LogLinearProcessor", "corpus", "symbol_of", "token_of", "vocabulary"]


class _Given(Background):
    """A prior whose values log b (N, V) are assigned before each call, as the language model has computed them.

    Use: `given.log_b = tensor`, then `given.prior(states)` is a `DensePrior` of it, whatever the states.
    """

    log_b: Tensor

    def follow(self, states: Sequence[object], batch: Batch) -> tuple[Sequence[object], Sequence[object]]:
        return [], states

    def prior(self, states: Sequence[object]) -> Prior:
        return DensePrior(self.log_b)


def _replaced(background: Background, given: Background) -> Background:
    """Return a prior (product, mixture or single one) with `given` in the place of every Hugging Face model in it."""
    if isinstance(background, Combined):
        return background.with_parts([_replaced(part, given) for part in background.parts])
    return given if isinstance(background, HuggingFace) else background


class LogLinearProcessor(LogitsProcessor):  # type: ignore[misc]
    """A `LogitsProcessor` for `generate()` of `transformers`, which puts a trained llrnn adaptor on top of its LM.

    The prior of `adaptor` is the LM, or a product or mixture with it: `HuggingFace(...) * Mask(...)` writes only what
    the mask allows. The LM runs once for each token: its scores are taken as log b. The adaptor reads EOS and then the
    tokens of a row; bos, eos or padding tokens at the beginning of a row stand for that EOS. Its states are cached by
    prefix, since beam search reorders rows. `condition`: the input that contextual features and constraints of the
    adaptor read. Raises ConfigError where the prior b(K, x) does not have exactly one Hugging Face model.

        lm.generate(**tokenizer("le chat", return_tensors="pt"), logits_processor=[LogLinearProcessor(adaptor)])
    """

    def __init__(self, adaptor: LLRNN, *, condition: object = None) -> None:
        found = language_models(adaptor.background)
        if len(found) != 1:
            raise ConfigError(
                "an adaptor is a model whose background is one language model, backgrounds.HuggingFace(...), or a "
                f"product with it, found {adaptor.background!r}"
            )
        self._boundary, self._condition = found[0].boundary, condition
        self._given = _Given().bind(adaptor.vocabulary)
        self._model = copy.copy(adaptor)  # the same weights, another background
        self._model.background = _replaced(adaptor.background, self._given)
        self._states: dict[tuple[int, ...], ModelState] = {}

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return log p of the adapted model, (B, V'), given the tokens so far (B, L) and the LM's scores (B, V').

        V' may be more than the V tokens of the vocabulary: the rest is −infinity. Raises ConfigError if it is less.
        """
        with torch.no_grad(), evaluating(self._model):
            return self._adapted(input_ids, scores)

    def _adapted(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        V = len(self._model.vocabulary)
        if scores.shape[1] < V:
            raise ConfigError(f"the adaptor is over {V} tokens, but the language model scores {scores.shape[1]}")
        prefixes = [self._prefix(row) for row in input_ids.tolist()]
        before = [self._before(prefix[:-1]) for prefix in prefixes]
        self._given.log_b = torch.log_softmax(scores[:, :V].float(), -1)
        distribution, after = self._model.step(
            ModelState.joined(before, self._model.device), [prefix[-1] for prefix in prefixes]
        )
        self._states = {prefix: after.select([row]) for row, prefix in enumerate(prefixes)}
        adapted = torch.full_like(scores, float("-inf"))  # also where the LM has more scores than tokens
        adapted[:, :V] = distribution.log_probs().to(scores)
        return adapted

    def _prefix(self, row: list[int]) -> tuple[int, ...]:
        """Return a row of token ids with one EOS in the place of all bos, eos and padding tokens at its start."""
        begin = next((n for n, token in enumerate(row) if token not in self._boundary), len(row))
        return (self._model.vocabulary.eos, *row[begin:])

    def _before(self, prefix: tuple[int, ...]) -> ModelState:
        """Return the adaptor's state after a prefix of token ids, from the cache or by reading the prefix anew.

        () has the state before any token.
        """
        if not prefix:
            return self._model.start([self._condition])
        if prefix not in self._states:  # no distribution on the way is asked for
            inputs = torch.tensor([prefix], device=self._model.device)
            self._given.log_b = torch.zeros(0, len(self._model.vocabulary), device=inputs.device)
            batch = Batch(inputs, inputs, torch.zeros_like(inputs, dtype=torch.bool), [self._condition])
            self._states[prefix] = self._model.scan(batch)[1]
        return self._states[prefix]
