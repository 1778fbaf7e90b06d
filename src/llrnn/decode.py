"""Text from a model: greedy, by sampling, or by beam search. All of it goes through `model.step`.

In an open vocabulary a cell competes as a whole, with the mass of all its strings; where it wins, one is drawn.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from llrnn.errors import ConfigError
from llrnn.loglinear import Distribution
from llrnn.model import LLRNN, ModelState

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
        limit = self.top_k if self.top_k is not None else p.known.prior.n_symbols
        k = min(limit, 32 if self.top_p is not None else limit)
        log_p, words = p.top(k)
        while self.top_p is not None and k < limit and float(log_p.exp().sum(-1).min()) < self.top_p:
            k = min(2 * k, limit)
            log_p, words = p.top(k)
        if self.top_p is not None:
            mass_before = log_p.exp().cumsum(-1) - log_p.exp()
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
    """`count` continuations of the prefix, chosen by the strategy (exact samples by default)."""
    strategy = strategy or Sampling()
    prefix_words = tuple(prefix.split()) if isinstance(prefix, str) else prefix
    distribution, state = read_prefix(model, prefix_words, [condition] * count)
    words: list[list[int]] = [[] for _ in range(count)]
    log_probs = [0.0] * count
    active = list(range(count))
    while active:
        chosen = strategy.choose(distribution.possible(), generator)
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


@torch.no_grad()
def beam_search(
    model: LLRNN,
    *,
    prefix: str | tuple[str, ...] = "",
    width: int = 5,
    max_words: int = 60,
    condition: object = None,
) -> list[Generated]:
    """The most probable continuations that a beam of `width` finds, best first."""
    if width < 1:
        raise ConfigError(f"the beam must be 1 or wider, found {width}")
    prefix_words = tuple(prefix.split()) if isinstance(prefix, str) else prefix
    distribution, state = read_prefix(model, prefix_words, [condition])
    beam: list[tuple[float, list[int]]] = [(0.0, [])]
    done: list[tuple[float, list[int]]] = []
    for _ in range(max_words):
        grown = _grow(beam, distribution.possible(), width)
        ended = [(log, words) for log, _, words in grown if words[-1] == model.vocabulary.eos]
        done = sorted([*done, *ended], key=lambda entry: -entry[0])[:width]
        going = [entry for entry in grown if entry[2][-1] != model.vocabulary.eos][:width]
        beam = [(log, words) for log, _, words in going]
        if not going or (len(done) == width and done[-1][0] >= going[0][0]):
            break  # log p only falls as a sequence grows: nothing in the beam can get better than these
        distribution, state = model.step(
            state.select([row for _, row, _ in going]), [words[-1] for _, _, words in going]
        )
    found = done or beam
    return [_finish(model, prefix_words, words, log, None) for log, words in found[:width]]


def _grow(
    beam: list[tuple[float, list[int]]], distribution: Distribution, width: int
) -> list[tuple[float, int, list[int]]]:
    """Every hypothesis by its best words, best first: (log p, row of the beam, words)."""
    log_p, words = distribution.top(width + 1)
    grown = [
        (log + gain, row, [*before, word])
        for row, (log, before) in enumerate(beam)
        for gain, word in zip(log_p[row].tolist(), words[row].tolist(), strict=True)
        if gain > float("-inf")
    ]
    return sorted(grown, key=lambda entry: (-entry[0], entry[2]))[: 2 * width]


def read_prefix(model: LLRNN, prefix: tuple[str, ...], conditions: list[object]) -> tuple[Distribution, ModelState]:
    """The distribution after the prefix, for each condition, and the state that it was made from."""
    ids = model.vocabulary.ids(prefix, place="prefix")
    distribution, state = model.step(model.start(conditions), [model.vocabulary.eos] * len(conditions))
    for word in ids:
        distribution, state = model.step(state, [word] * len(conditions))
    return distribution, state


def _finish(
    model: LLRNN, prefix: tuple[str, ...], words: list[int], log_prob: float, generator: torch.Generator | None
) -> Generated:
    """Cells become strings: which one does not depend on the context, so it can be drawn at the end."""
    finished = bool(words) and words[-1] == model.vocabulary.eos
    spoken = words[:-1] if finished else words
    spelled = _spelled(model, spoken, generator)
    inside = float(model.vocabulary.locate(spelled)[1].sum()) if model.vocabulary.is_open else 0.0
    return Generated(prefix, tuple(spelled), log_prob + inside, finished)


def _spelled(model: LLRNN, words: list[int], generator: torch.Generator | None) -> list[str]:
    if not any(word >= len(model.vocabulary.words) for word in words):
        return [model.vocabulary.words[word] for word in words]
    seed = 0 if generator is None else int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
    rng = np.random.default_rng(seed)
    return [model.vocabulary.spelled(word, rng) for word in words]
