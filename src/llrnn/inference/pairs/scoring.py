"""How often a model finds the grammatical sentence of a pair more probable.

    right where log p(good, EOS) > log p(bad, EOS)      whole sentences, teacher-forced; a tie counts as half

Shares come with Wilson's 95 % interval. Pairs of one sentence are not independent, which no interval here knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from llrnn.ground.errors import CorpusError
from llrnn.inference.pairs.pair import Pair, Words
from llrnn.model.batches import Sentences
from llrnn.model.network import LLRNN
from llrnn.model.scoring import walk
from llrnn.text.ids import Text

TIE = 1e-5  # nats: less is the rounding of single precision, not an opinion
_Z = 1.959963984540054  # 95 % of a normal distribution lie within
_BANDS = ((1, 1, "1"), (2, 4, "2-4"), (5, math.inf, "5+"))
_DISTRACTORS = ((0, 0, "0"), (1, 1, "1"), (2, math.inf, "2+"))


@dataclass(frozen=True)
class Share:
    """A share of `count` pairs that were right, with its 95 % interval."""

    count: int
    accuracy: float
    low: float
    high: float

    @classmethod
    def of(cls, credits: Sequence[float]) -> Share:
        """Wilson's interval: it stays within 0 and 1, and holds for few pairs."""
        n, share = len(credits), fmean(credits)
        centre = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
        return cls(n, share, max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True)
class PairScores:
    """log p of both sentences of every pair, and what follows from it."""

    pairs: tuple[Pair, ...]
    log_p_good: tuple[float, ...]
    log_p_bad: tuple[float, ...]

    @property
    def credits(self) -> tuple[float, ...]:
        """1 for a pair that is right, 0 for one that is wrong, one half for a tie."""
        return tuple(_credit(good, bad) for good, bad in zip(self.log_p_good, self.log_p_bad, strict=True))

    @property
    def overall(self) -> Share:
        return Share.of(self.credits)

    @property
    def by_group(self) -> dict[str, Share]:
        return self.by(lambda pair: pair.group)

    @property
    def by_distance(self) -> dict[str, Share]:
        """1, 2-4 and 5+ words between the two words that agree; pairs of unknown distance are left out."""
        return self._banded(lambda pair: pair.distance, _BANDS)

    @property
    def by_distractors(self) -> dict[str, Share]:
        """0, 1 and 2+ words in between that suggest the wrong form; pairs of unknown number are left out."""
        return self._banded(lambda pair: pair.distractors, _DISTRACTORS)

    def summary(self) -> dict[str, Any]:
        """All shares as plain data, for JSON."""
        return {
            "overall": asdict(self.overall),
            "by_group": {name: asdict(share) for name, share in self.by_group.items()},
            "by_distance": {name: asdict(share) for name, share in self.by_distance.items()},
            "by_distractors": {name: asdict(share) for name, share in self.by_distractors.items()},
        }

    def by(self, key: Callable[[Pair], str | None]) -> dict[str, Share]:
        """A share for every answer of `key`, sorted; pairs for which it answers None are left out."""
        parts: dict[str, list[float]] = {}
        for pair, credit in zip(self.pairs, self.credits, strict=True):
            name = key(pair)
            if name is not None:
                parts.setdefault(name, []).append(credit)
        return {name: Share.of(parts[name]) for name in sorted(parts)}

    def _banded(
        self, number: Callable[[Pair], int | None], bands: Sequence[tuple[int, float, str]]
    ) -> dict[str, Share]:
        def band(pair: Pair) -> str | None:
            value = number(pair)
            return None if value is None else next(name for low, high, name in bands if low <= value <= high)

        return self.by(band)


def _credit(good: float, bad: float) -> float:
    if good == bad or abs(good - bad) <= TIE:  # the first also for two impossible sentences
        return 0.5
    return float(good > bad)


def score_pairs(model: LLRNN, pairs: Sequence[Pair], *, words: int = 1024) -> PairScores:
    """Score both sentences of every pair, about `words` words in a batch.

    An impossible sentence has log p = −infinity: a grammar as background may well know that the bad one is. A word that
    the vocabulary does not list is an UnknownWordError.
    """
    if not pairs:
        raise CorpusError("at least one pair is required to score a model on, found none; give some")
    sentences = {sentence: i for i, pair in enumerate(pairs, 1) for sentence in (pair.good, pair.bad)}
    log_p = _log_probs(model, sentences, words)
    return PairScores(tuple(pairs), tuple(log_p[p.good] for p in pairs), tuple(log_p[p.bad] for p in pairs))


@torch.no_grad()
def _log_probs(model: LLRNN, sentences: dict[Words, int], words: int) -> dict[Words, float]:
    """log p of each sentence, its end included; `sentences` says in which pair it stands, for messages."""
    # By length, which is the order of the batches, so that rows and sentences come in step.
    ordered = sorted(sentences, key=len)
    ids = (model.vocabulary.ids(sentence, place=f"pair {sentences[sentence]}") for sentence in ordered)
    arrays = tuple(np.array(row, dtype=np.int64) for row in ids)
    text = Text(arrays, (None,) * len(arrays), model.vocabulary.eos)
    sums: list[float] = []
    for batch, distribution in walk(model, text, Sentences(words)):
        log_p = torch.zeros(batch.mask.shape, dtype=torch.float64, device=batch.mask.device)
        log_p[batch.mask] = distribution.log_prob(batch.picked(batch.targets)).double()
        sums += log_p.sum(-1).tolist()
    return dict(zip(ordered, sums, strict=True))


@dataclass(frozen=True)
class Comparison:
    """Two models on the same pairs: who is right where the other is not."""

    count: int
    only_first: int
    only_second: int
    difference: float  # accuracy of the first minus that of the second
    low: float  # 95 % interval of the difference, from the spread over the pairs
    high: float
    p_value: float  # McNemar's exact test, two-sided


def compare(first: PairScores, second: PairScores) -> Comparison:
    """Compare two models pair by pair; the test counts the pairs on which they differ, half credits by their sign."""
    if first.pairs != second.pairs:
        raise CorpusError("two models can only be compared on the same pairs in the same order; score both on one list")
    differences = [one - other for one, other in zip(first.credits, second.credits, strict=True)]
    n, mean = len(differences), fmean(differences)
    half = _Z * stdev(differences) / math.sqrt(n) if n > 1 else 1.0
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return Comparison(n, wins, losses, mean, max(-1.0, mean - half), min(1.0, mean + half), _mcnemar(wins, losses))


def _mcnemar(wins: int, losses: int) -> float:
    """2 · P(at most min of n fair coins), in logarithms: n may be thousands."""
    n = wins + losses
    tail = sum(
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))
        for k in range(min(wins, losses) + 1)
    )
    return min(1.0, 2 * tail)
