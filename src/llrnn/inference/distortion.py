"""How much a constraint changes a model: what it has to take away at every step of a text.

    q(x | K) = p(x | K) c(K, x) / C,      C = Σ_x p(x | K) c(K, x) = Z_constrained / Z_free         both from the same h
    KL(q ‖ p) = E_q log c − log C         −log(1 − forbidden mass), where c is 1 or 0
    forbidden mass = Σ_{x outside the language} p(x | K)

p is the free model: the model itself, or, where the constraint is a factor of its background, the model without that
factor. So a model that was trained without a constraint and one that was trained with it can be compared: how much
does each put on what is forbidden? Sentences outside the language are left out; in a soft constraint they stay in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import ZeroMassError
from llrnn.knowledge.backgrounds.base import multiply
from llrnn.knowledge.backgrounds.constraint import Constraint, without
from llrnn.knowledge.process import Batch
from llrnn.layer.loglinear import Distribution
from llrnn.layer.numerics import MINUS_INFINITY
from llrnn.layer.priors import DensePrior, Prior
from llrnn.model.batches import Sentences
from llrnn.model.network import LLRNN
from llrnn.model.scoring import score, walk
from llrnn.model.steering import swap
from llrnn.text.corpus import Corpus
from llrnn.text.ids import EncodedText

_AT_ONCE = 4_000_000  # numbers of a batch that may be written out: positions times symbols


@dataclass(frozen=True)
class Outside:
    """A sentence that is not in the language, and why."""

    sentence: str
    reason: str


@dataclass(frozen=True, eq=False)
class PositionDistortion:
    """One entry for each position, sentence by sentence, ends of sentences included."""

    sentence: Ints  # (N,) which sentence of the corpus
    place: Ints  # (N,) which symbol of it, counted from 0
    target: Ints  # (N,)
    forbidden: Floats  # (N,) the mass that p puts on symbols outside the language
    divergence: Floats  # (N,) KL(q ‖ p), nats
    best_is_forbidden: Ints  # (N,) 1 where the most probable symbol of p is outside
    log_p: Floats  # (N,) of the target
    log_q: Floats  # (N,)


@dataclass(frozen=True)
class Distortion:
    """What a constraint does to a model on a text: means over the positions of the sentences that count."""

    held: bool  # whether the constraint is a factor of the model's own background; then p is the model without it
    sentences: int  # that count
    words: int  # of them, with ends of sentences
    forbidden: float
    divergence: float
    best_is_forbidden: float
    log_perplexity_free: float
    log_perplexity_constrained: float
    log_perplexity_of_all: float  # free, with the sentences outside the language
    outside: tuple[Outside, ...]
    soft: bool  # then sentences outside the language count too
    steps: PositionDistortion


def measure_distortion(model: LLRNN, corpus: Corpus, constraint: Constraint) -> Distortion:
    """The figures of a text; a text of which no sentence is in the language is an error with the first reason.

    measure_distortion(model, Corpus.from_text("test.txt"), backgrounds.Grammar.from_file("json.lark")).forbidden
    """
    # where the background is no product with the constraint, the free model is the model itself
    left = without(model.background, constraint)
    free = model if left is model.background else swap(model, background=left)
    bound = constraint.bind(model.vocabulary)
    text = EncodedText.encode(corpus, model.vocabulary)
    outside = _outside(corpus, text, bound)
    counted = [i for i in range(len(corpus)) if constraint.violation or i not in outside]
    if not counted:
        first = "".join(f"; {one.sentence}: {one.reason}" for one in [*outside.values()][:1])
        raise ZeroMassError(f"at least one sentence must be in the language, found none of {len(corpus)}{first}")
    steps = _steps(free, text, counted, bound)
    every = steps.log_p if len(counted) == len(corpus) else score(free, text).log_probs.numpy()
    return Distortion(
        held=free is not model,
        sentences=len(counted),
        words=len(steps.target),
        forbidden=float(steps.forbidden.mean()),
        divergence=float(steps.divergence.mean()),
        best_is_forbidden=float(steps.best_is_forbidden.mean()),
        log_perplexity_free=_nats(steps.log_p),
        log_perplexity_constrained=_nats(steps.log_q),
        log_perplexity_of_all=_nats(every),
        outside=tuple(outside.values()),
        soft=constraint.violation > 0,
        steps=steps,
    )


def _nats(log_p: Floats) -> float:
    """The log-perplexity; 0 and not −0 where everything is certain."""
    return float(0.0 - log_p.mean())


def _outside(corpus: Corpus, text: EncodedText, constraint: Constraint) -> dict[int, Outside]:
    """The sentences that are not in the language, by number."""
    strict, found = constraint.strict(), dict[int, Outside]()
    for number, (sentence, symbols) in enumerate(zip(corpus, text.sentences, strict=True)):
        reason = strict.objection(sentence.condition, symbols.tolist())
        if reason is not None:
            found[number] = Outside(sentence.name or f"sentence {number + 1}", reason)
    return found


@torch.no_grad()
def _steps(free: LLRNN, text: EncodedText, counted: list[int], constraint: Constraint) -> PositionDistortion:
    """By growing length, as batches are made, and then in the order of the text."""
    chosen = sorted(counted, key=lambda i: len(text.sentences[i]))
    inside = None if text.inside is None else tuple(text.inside[i] for i in chosen)
    sentences, conditions = [text.sentences[i] for i in chosen], [text.conditions[i] for i in chosen]
    some = EncodedText(sentences, conditions, text.eos, None, inside)
    words = max(1, _AT_ONCE // len(free.vocabulary))
    parts = [_of_batch(free, *found, constraint) for found in walk(free, some, Sentences(min(1024, words)))]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    number = np.repeat(chosen, some.lengths)
    place = np.concatenate([np.arange(length) for length in some.lengths])
    order = np.argsort(number, kind="stable")
    return PositionDistortion(number[order], place[order], *(column[order] for column in columns))


def _of_batch(free: LLRNN, batch: Batch, p: Distribution, constraint: Constraint) -> list[np.ndarray]:
    """The columns of `PositionDistortion` after the first two."""
    conditions = batch.conditions if batch.conditions is not None else [None] * len(batch.inputs)
    states, _ = constraint.follow([constraint.initial(one) for one in conditions], batch)
    factor, allowed = constraint.prior(states).to(p.h.device), constraint.allows(states).to(p.h.device)
    q, forbidden = _times(p, factor), _times(p, DensePrior((~allowed).double().log()))
    best = p.top(1)[1]
    columns = [
        batch.picked(batch.targets),
        (forbidden.log_z.double() - p.log_z.double()).exp(),
        (_expected(q, factor) - q.log_z.double() + p.log_z.double()).clamp(min=0.0),
        (~allowed).gather(1, best)[:, 0].long(),
        free.targets_log_prob(p, batch).double(),
        free.targets_log_prob(q, batch).double(),
    ]
    return [column.cpu().numpy() for column in columns]


def _times(p: Distribution, factor: Prior) -> Distribution:
    """The same h under another background."""
    return Distribution(p.layer, p.h, multiply(p.prior, factor), p.values)


def _expected(q: Distribution, factor: Prior) -> Tensor:
    """E_q log c, (N,): 0 where c is 1 wherever q is not 0."""
    log_c = factor.dense(q.n).log_b.double()
    possible = log_c > MINUS_INFINITY
    if not bool(log_c[possible].any()):
        return log_c.new_zeros(q.n)
    return (q.log_probs().double().exp() * log_c.where(possible, 0.0)).sum(-1)
