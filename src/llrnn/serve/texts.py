"""A text that is being written on the server, word by word: many of them take each step together.

    texts = chosen(texts, p, state)      a word for each, drawn by the text's own strategy and generator
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

from llrnn.knowledge.sequences import ModelState
from llrnn.layer.loglinear import Distribution
from llrnn.model.decode import Strategy
from llrnn.model.network import LLRNN
from llrnn.serve.computing import Asked, steered
from llrnn.serve.served import refusal


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


def chosen(texts: Sequence[Text], p: Distribution, state: ModelState) -> list[Any]:
    """Every text with its next word; one that cannot go on has an exception in its place."""
    drawn = [_drawn(text, _row(p, n)) for n, text in enumerate(texts)]
    symbols = torch.tensor([0 if isinstance(one, Exception) else one for one in drawn], device=p.h.device)
    log_p = p.log_prob(symbols).tolist()
    return [
        one if isinstance(one, Exception) else replace(text, state=state.select([n]), symbol=one, log_p=log_p[n])
        for n, (text, one) in enumerate(zip(texts, drawn, strict=True))
    ]


def _row(p: Distribution, n: int) -> Distribution:
    """One position, with what was computed for all of them at once."""
    alone = p.row(n)
    alone.scores, alone.log_total = p.scores[n : n + 1], p.log_total[n : n + 1]
    return alone


def _drawn(text: Text, p: Distribution) -> int | Exception:
    try:
        (symbol,) = text.strategy.choose(p.possible(), text.generator)
    except Exception as error:
        return refusal(error)
    return symbol


@torch.no_grad()
def step(texts: Sequence[Text]) -> list[Any]:
    """One model step for all texts, which are of one model; then each chooses."""
    model = texts[0].model
    state = ModelState.joined([text.state for text in texts], model.device)
    layer = steered(model, [text.asked.steering for text in texts])
    p, after = model.step(state, [text.symbol for text in texts], layer=layer)
    return chosen(texts, p, after)
