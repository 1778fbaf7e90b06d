"""The log-probability of every word of a text: what validation and evaluation add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llrnn.batches import Batching, Sentences
from llrnn.domain import Floats
from llrnn.errors import CorpusError
from llrnn.features.matrix import Ints
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
        if (
            not batch.mask.any()
        ):  # the share of a process that has no rows, or only such as the text has come to an end in
            continue
        placed = batch.to(model.device)
        distribution, after = model.scan(placed, state)
        state = after if batching.carries_state else None
        yield placed, distribution


@torch.no_grad()
def score(model: LLRNN, text: Text, batching: Batching | None = None) -> Scores:
    """log p of every target."""
    if not text.sentences:
        raise CorpusError("at least one sentence is required to score a model on, found none; give a text")
    targets, log_probs = [torch.zeros(0, dtype=torch.long)], [torch.zeros(0, dtype=torch.double)]
    for batch, distribution in walk(model, text, batching):
        targets.append(batch.targets[batch.mask].cpu())
        log_probs.append(model.targets_log_prob(distribution, batch).double().cpu())
    return Scores(torch.cat(targets), torch.cat(log_probs))


@dataclass(frozen=True)
class Tally:
    """−log p of a text, summed for each symbol as target: all that figures need, whatever the length of the text."""

    words: Ints  # (V,) how often each symbol is a target
    nats: Floats  # (V,)

    @property
    def log_perplexity(self) -> float:
        """Nats for a word."""
        return float(self.nats.sum() / self.words.sum())


@torch.no_grad()
def tally(model: LLRNN, text: Text, batching: Batching | None = None) -> Tally:
    """The same sums as of `score`, in the memory of a batch and of V."""
    if not text.sentences:
        raise CorpusError("at least one sentence is required to score a model on, found none; give a text")
    V = len(model.vocabulary)
    words, nats = np.zeros(V, dtype=np.int64), np.zeros(V)
    for batch, distribution in walk(model, text, batching):
        targets = batch.targets[batch.mask].cpu().numpy()
        losses = -model.targets_log_prob(distribution, batch).double().cpu().numpy()
        words += np.bincount(targets, minlength=V)
        nats += np.bincount(targets, weights=losses, minlength=V)
    return Tally(words, nats)
