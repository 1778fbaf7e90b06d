"""The log-probability of every word of a text: what validation and evaluation add up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import CorpusError
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer import ways
from llrnn.layer.loglinear import Distribution
from llrnn.model.batches import Batching, Sentences, distinct_pasts
from llrnn.model.network import LLRNN
from llrnn.text.ids import EncodedText


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
def walk(model: LLRNN, text: EncodedText, batching: Batching | None = None) -> Iterator[tuple[Batch, Distribution]]:
    """The batches of a text in its own order, each with the distributions at the positions that count."""
    batching = batching or Sentences()
    state: ModelState | None = None
    for batch in batching.plan(text):
        if not batch.mask.any():  # a process's share without rows, or only of strips whose text has ended
            continue
        placed = batch.to(model.device)
        distribution, after = model.scan(placed, state)
        state = after if batching.carries_state else None
        yield placed, distribution


@torch.no_grad()
def log_probs(model: LLRNN, batch: Batch) -> Tensor:
    """log p of the targets of rows that start afresh, (N,); positions with the same past are computed once."""
    pasts = distinct_pasts(batch) if batch.sentences is None else None
    if pasts is None or not ways.sharing_pays(pasts.repeated, model.layer.phi.n_classes, model.layer.weight.shape[1]):
        return model.log_prob(batch)
    distribution, _ = model.scan(replace(batch, mask=pasts.mask))
    targets, order = batch.picked(batch.targets), torch.argsort(pasts.at, stable=True)
    log_p = torch.empty_like(targets, dtype=distribution.h.dtype)
    log_p[order] = distribution.log_prob(targets[order], pasts.at[order])
    if not torch.isfinite(log_p).all():
        return model.log_prob(batch)  # which names the word
    return log_p if batch.inside is None else log_p + batch.picked(batch.inside)


@torch.no_grad()
def _scored(model: LLRNN, text: EncodedText, batching: Batching | None) -> Iterator[tuple[Tensor, Tensor]]:
    """The targets of each batch and their log p, float64, both on the CPU."""
    if not text.sentences:
        raise CorpusError("at least one sentence is required to score a model on, found none; give a text")
    batching = batching or Sentences()
    if batching.carries_state:
        found = ((batch, model.targets_log_prob(p, batch)) for batch, p in walk(model, text, batching))
    else:
        placed = (batch.to(model.device) for batch in batching.plan(text) if batch.mask.any())
        found = ((batch, log_probs(model, batch)) for batch in placed)
    for batch, log_p in found:
        yield batch.picked(batch.targets).cpu(), log_p.double().cpu()


def score(model: LLRNN, text: EncodedText, batching: Batching | None = None) -> Scores:
    """log p of every target of a text, in the order of its batches (whole sentences by default).

    score(model, EncodedText.encode(corpus, model.vocabulary)).log_perplexity
    """
    none = torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.double)
    targets, log_p = zip(none, *_scored(model, text, batching), strict=True)
    return Scores(torch.cat(targets), torch.cat(log_p))


@dataclass(frozen=True)
class Tally:
    """−log p of a text, summed for each symbol as target: all that figures need, whatever the length of the text."""

    words: Ints  # (V,) how often each symbol is a target
    nats: Floats  # (V,)

    @property
    def log_perplexity(self) -> float:
        """Nats for a word."""
        return float(self.nats.sum() / self.words.sum())


def tally(model: LLRNN, text: EncodedText, batching: Batching | None = None) -> Tally:
    """The same sums as of `score`, in the memory of a batch and of V."""
    V = len(model.vocabulary)
    words, nats = np.zeros(V, dtype=np.int64), np.zeros(V)
    for targets, log_p in _scored(model, text, batching):
        words += np.bincount(targets.numpy(), minlength=V)
        nats -= np.bincount(targets.numpy(), weights=log_p.numpy(), minlength=V)
    return Tally(words, nats)
