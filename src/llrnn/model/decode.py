"""Text from a model: greedy, by sampling, or by beam search. All of it goes through `model.step`.

In an open vocabulary a cell competes as a whole, with the mass of all its strings; where it wins, one is drawn.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from llrnn.ground.errors import ConfigError, ZeroMassError
from llrnn.knowledge.sequences import ModelState
from llrnn.layer.loglinear import Distribution
from llrnn.layer.numerics import require_numbers
from llrnn.model.network import LLRNN

WIDEST_BEAM = 500  # its square is how many hypotheses a step compares
_FROZEN = 1e-6  # a temperature below what float32 can tell apart: only the most probable word is left


@dataclass(frozen=True)
class Generated:
    """Words that follow a prefix; `log_prob` is the model's own log p of them, end included where `finished`."""

    prefix: tuple[str, ...]
    words: tuple[str, ...]
    log_prob: float
    finished: bool

    def __str__(self) -> str:
        return " ".join((*self.prefix, *self.words))


class Strategy(ABC):
    """How the next word is chosen, sequence by sequence."""

    @abstractmethod
    def choose(self, distribution: Distribution, generator: torch.Generator | None) -> list[int]:
        """One word for each position of the distribution."""


@dataclass(frozen=True)
class Greedy(Strategy):
    """The most probable word."""

    def choose(self, distribution: Distribution, generator: torch.Generator | None) -> list[int]:
        words: list[int] = distribution.top(1)[1][:, 0].tolist()
        return words


@dataclass(frozen=True)
class Sampling(Strategy):
    """Exact samples; cooler or hotter by `temperature`, from the `top_k` words or the smallest set of mass `top_p`."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ConfigError(
                f"temperature must be above 0 and finite, found {self.temperature} (greedy is temperature 0)"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k must be 1 or more, found {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, found {self.top_p}")

    def choose(self, distribution: Distribution, generator: torch.Generator | None) -> list[int]:
        if self.temperature < _FROZEN:
            return Greedy().choose(distribution, generator)
        p = distribution.tempered(self.temperature) if self.temperature != 1.0 else distribution
        if self.top_k is None and self.top_p is None:
            drawn: list[int] = p.sample(generator=generator)[0].tolist()
            return drawn
        log_p, words = self._candidates(p)
        index = torch.multinomial(log_p.double().exp(), 1, generator=generator)
        chosen: list[int] = words.gather(1, index)[:, 0].tolist()
        return chosen

    def _candidates(self, p: Distribution) -> tuple[torch.Tensor, torch.Tensor]:
        """The best words, and their log p with minus infinity behind the cut."""
        limit = self.top_k if self.top_k is not None else p.prior.n_symbols
        k = min(limit, 32 if self.top_p is not None else limit)
        log_p, words = p.top(k)
        while self.top_p is not None and k < limit and float(log_p.exp().sum(-1).min()) < self.top_p:
            k = min(2 * k, limit)
            log_p, words = p.top(k)
        if self.top_p is not None:
            mass_before = log_p.exp().cumsum(-1) - log_p.exp()
            mass_before[:, 0] = -1.0  # the best word always stays, however little was asked for
            log_p = log_p.masked_fill(mass_before >= self.top_p, float("-inf"))
        return log_p, words


@torch.no_grad()
def generate(
    model: LLRNN,
    *,
    prefix: str | tuple[str, ...] = "",
    strategy: Strategy | None = None,
    count: int = 1,
    max_words: int = 60,
    condition: object = None,
    generator: torch.Generator | None = None,
) -> list[Generated]:
    """`count` continuations of the prefix, chosen by the strategy (exact samples by default).

    `max_words` ends a text that has not ended by itself; `condition`: what is written from; `generator`: of the draws.

        generate(model, prefix="le chat", strategy=Sampling(temperature=0.7, top_p=0.9), count=3)
    """
    return generate_each(
        model,
        [condition] * count,
        prefix=prefix,
        strategy=strategy,
        max_words=max_words,
        generator=generator,
    )


@torch.no_grad()
def generate_each(
    model: LLRNN,
    conditions: Sequence[object],
    *,
    prefix: str | tuple[str, ...] = "",
    strategy: Strategy | None = None,
    max_words: int = 60,
    generator: torch.Generator | None = None,
) -> list[Generated]:
    """A continuation of the prefix for each condition, all of them side by side."""
    strategy = strategy or Sampling()
    prefix_words = tuple(prefix.split()) if isinstance(prefix, str) else prefix
    distribution, state = read_prefix(model, prefix_words, conditions)
    words: list[list[int]] = [[] for _ in conditions]
    log_probs = [0.0] * len(conditions)
    active = list(range(len(conditions)))
    while active:
        chosen = strategy.choose(distribution.require_mass(), generator)
        gained = distribution.log_prob(torch.tensor(chosen, device=model.device)).tolist()
        for row, word, gain in zip(active, chosen, gained, strict=True):
            words[row].append(word)
            log_probs[row] += gain
        going = [
            i for i, row in enumerate(active) if words[row][-1] != model.vocabulary.eos and len(words[row]) < max_words
        ]
        active = [active[i] for i in going]
        if active:
            distribution, state = model.step(state.select(going), [words[row][-1] for row in active])
    return [_finish(model, prefix_words, row, log, generator) for row, log in zip(words, log_probs, strict=True)]


def beam_search(
    model: LLRNN,
    *,
    prefix: str | tuple[str, ...] = "",
    width: int = 5,
    max_words: int = 60,
    condition: object = None,
) -> list[Generated]:
    """The most probable continuations that a beam of `width` finds, best first."""
    return beam_search_each(model, [condition], prefix=prefix, width=width, max_words=max_words)[0]


@dataclass
class _Beam:
    """The best hypotheses of one sequence, (log p, words): those that go on, and those that have ended."""

    width: int
    going: list[tuple[float, list[int]]] = field(default_factory=lambda: [(0.0, [])])
    done: list[tuple[float, list[int]]] = field(default_factory=list)
    ended: bool = False

    def grow(self, log_p: list[list[float]], words: list[list[int]], eos: int) -> list[int]:
        """Every hypothesis by its best words; the rows of the hypotheses that those which go on have grown from."""
        grown = [
            (log + gain, row, [*before, word])
            for row, (log, before) in enumerate(self.going)
            for gain, word in zip(log_p[row], words[row], strict=True)
            if gain > float("-inf")
        ]
        grown = sorted(grown, key=lambda entry: (-entry[0], entry[2]))[: 2 * self.width]
        ended = [(log, found) for log, _, found in grown if found[-1] == eos]
        self.done = sorted([*self.done, *ended], key=lambda entry: -entry[0])[: self.width]
        kept = [entry for entry in grown if entry[2][-1] != eos][: self.width]
        self.going = [(log, found) for log, _, found in kept]
        # log p only falls as a sequence grows: nothing can get better than a full list of better ones
        full = len(self.done) == self.width
        self.ended = not kept or (full and self.done[-1][0] >= kept[0][0])
        return [] if self.ended else [row for _, row, _ in kept]

    def found(self) -> list[tuple[float, list[int]]]:
        return (self.done or self.going)[: self.width]


@torch.no_grad()
def beam_search_each(
    model: LLRNN,
    conditions: Sequence[object],
    *,
    prefix: str | tuple[str, ...] = "",
    width: int = 5,
    max_words: int = 60,
) -> list[list[Generated]]:
    """What beam search finds for each condition, all of them side by side."""
    if not 1 <= width <= WIDEST_BEAM:
        raise ConfigError(f"the beam must be 1 to {WIDEST_BEAM:,} wide, found {width}; choose another width")
    prefix_words = tuple(prefix.split()) if isinstance(prefix, str) else prefix
    distribution, state = read_prefix(model, prefix_words, conditions)
    beams = active = [_Beam(width) for _ in conditions]
    for _ in range(max_words):
        log_p, words = (part.tolist() for part in distribution.top(width + 1))
        rows, start = [], 0
        for beam in active:
            own = slice(start, start + len(beam.going))
            rows += [start + row for row in beam.grow(log_p[own], words[own], model.vocabulary.eos)]
            start = own.stop
        active = [beam for beam in active if not beam.ended]
        if not active:
            break
        distribution, state, active = _grown(model, state.select(rows), active)
        if not active:
            break
    return [[_finish(model, prefix_words, words, log, None) for log, words in beam.found()] for beam in beams]


def _grown(model: LLRNN, state: ModelState, beams: list[_Beam]) -> tuple[Distribution, ModelState, list[_Beam]]:
    """One step of all hypotheses. Those after which nothing is possible end there; a beam that has no other is refused.

    Backgrounds without dead ends may have some together: what a grammar allows, and nothing that a mask allows next.
    """
    words = [found[-1] for beam in beams for _, found in beam.going]
    distribution, after = model.step(state, words)
    require_numbers(distribution.log_z)
    alive: list[bool] = (distribution.log_z > float("-inf")).tolist()
    if all(alive):
        return distribution, after, beams
    own = iter(alive)
    for beam in beams:
        beam.going = [hypothesis for hypothesis in beam.going if next(own)]
        beam.ended = not beam.going
        if beam.ended and not beam.done:
            distribution.require_mass()  # which says so
    going = [row for row, lives in enumerate(alive) if lives]
    if not going:
        return distribution, after, []
    left = [beam for beam in beams if not beam.ended]
    return (*model.step(state.select(going), [words[row] for row in going]), left)


def read_prefix(model: LLRNN, prefix: tuple[str, ...], conditions: Sequence[object]) -> tuple[Distribution, ModelState]:
    """The distribution after the prefix, for each condition, and the state that it was made from."""
    ids = model.vocabulary.ids(prefix, place="prefix")
    distribution, state = model.step(model.start(conditions), [model.vocabulary.eos] * len(conditions))
    for word in ids:
        distribution, state = model.step(state, [word] * len(conditions))
    reasons = (model.background.refusal(own) for own in state.knowledge[0])
    refused = next((reason for reason in reasons if reason is not None), None)
    if refused is not None:
        raise ZeroMassError(f"nothing can follow the prefix {' '.join(prefix)!r}: {refused}")
    return distribution, state


def _finish(
    model: LLRNN, prefix: tuple[str, ...], words: list[int], log_prob: float, generator: torch.Generator | None
) -> Generated:
    """Cells become strings: which one does not depend on the context, so it can be drawn at the end."""
    finished = bool(words) and words[-1] == model.vocabulary.eos
    spoken = words[:-1] if finished else words
    spelled = [model.vocabulary.symbol(word) for word in spoken]
    if any(word >= model.vocabulary.n_words for word in spoken):
        seed = 0 if generator is None else int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        rng = np.random.default_rng(seed)
        spelled = [model.vocabulary.spelled(word, rng) for word in spoken]
    inside = float(model.vocabulary.locate(spelled)[1].sum()) if model.vocabulary.is_open else 0.0
    return Generated(prefix, tuple(spelled), log_prob + inside, finished)
