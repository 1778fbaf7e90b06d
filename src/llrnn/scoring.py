"""The log-probability of every word of a text: what validation and evaluation add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from llrnn.batches import Batching, Sentences
from llrnn.errors import CorpusError
from llrnn.loglinear import Distribution
from llrnn.model import LLRNN, Batch, ModelState
from llrnn.text import Text


@dataclass(frozen=True)
class Scores:
    """log p of the targets of a text, in the order of its batches."""

    targets: Tensor  # (N,)
    log_probs: Tensor  # (N,) float64

    @property
    def log_perplexity(self) -> float:
        """−mean log p, natural logarithm: nats for a word."""
        return float(-self.log_probs.mean())


@torch.no_grad()
def walk(model: LLRNN, text: Text, batching: Batching | None = None) -> Iterator[tuple[Batch, Distribution]]:
    """The batches of a text in its own order, each with the distributions at the positions that count."""
    batching = batching or Sentences()
    state: ModelState | None = None
    for batch in batching.plan(text):
        placed = batch.to(model.device)
        distribution, after = model.scan(placed, state)
        state = after if batching.carries_state else None
        yield placed, distribution


@torch.no_grad()
def score(model: LLRNN, text: Text, batching: Batching | None = None) -> Scores:
    """log p of every target."""
    if not text.sentences:
        raise CorpusError("at least one sentence is required to score a model on, found none; give a text")
    targets, log_probs = [], []
    for batch, distribution in walk(model, text, batching):
        targets.append(batch.targets[batch.mask].cpu())
        log_probs.append(model.targets_log_prob(distribution, batch).double().cpu())
    return Scores(torch.cat(targets), torch.cat(log_probs))
