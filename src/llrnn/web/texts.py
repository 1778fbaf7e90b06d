"""A text that is being written on the server, word by word: many of them take each step together.

    text = chosen(text, p, state)        a word, drawn by the text's own strategy and generator
    texts = step(texts)                  every text is fed its word, and chooses the next

A text has a generator of its own, so that the same seed gives the same words whoever else is writing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from llrnn.decode import Strategy
from llrnn.loglinear import Distribution
from llrnn.model import LLRNN, ModelState
from llrnn.web.computing import Asked, steered
from llrnn.web.served import refusal


@dataclass(frozen=True, eq=False)
class Text:
    """Where it stands, and the word that was chosen last."""

    model: LLRNN
    asked: Asked
    strategy: Strategy
    generator: torch.Generator
    state: ModelState
    symbol: int = -1
    log_p: float = 0.0

    @property
    def has_ended(self) -> bool:
        return self.symbol == self.model.vocabulary.eos

    def written(self, index: int, rng: np.random.Generator) -> dict[str, Any]:
        """The last word as an event: a cell is spelled, and its features are named as `generate --features` does."""
        vocabulary, symbol = self.model.vocabulary, self.symbol
        is_cell = symbol >= len(vocabulary.words)
        word = vocabulary.spelled(symbol, rng) if is_cell else vocabulary.words[symbol]
        log_p = self.log_p + (vocabulary.log_inside(word) if is_cell else 0.0)
        return {
            "index": index,
            "word": word,
            "log_p": log_p,
            "p": math.exp(log_p),
            "features": self.model.output_features.named(symbol),
            "cell": vocabulary.symbols[symbol] if is_cell else None,
        }


def chosen(text: Text, p: Distribution, state: ModelState) -> Text:
    """The next word, from a distribution at one position."""
    (symbol,) = text.strategy.choose(p.possible(), text.generator)
    log_p = float(p.log_prob(torch.tensor([symbol], device=text.model.device))[0])
    return replace(text, state=state, symbol=symbol, log_p=log_p)


@torch.no_grad()
def step(texts: Sequence[Text]) -> list[Any]:
    """One model step for all texts, which are of one model; a text that cannot go on has an exception in its place."""
    model = texts[0].model
    state = ModelState.joined([text.state for text in texts], model.device)
    layer = steered(model, [text.asked.steering for text in texts])
    p, after = model.step(state, [text.symbol for text in texts], layer=layer)
    return [_tried(text, p.row(n), after.select([n])) for n, text in enumerate(texts)]


def _tried(text: Text, p: Distribution, state: ModelState) -> Text | Exception:
    try:
        return chosen(text, p, state)
    except Exception as error:
        return refusal(error)
