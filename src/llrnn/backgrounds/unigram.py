"""Backgrounds that do not look at the context: all symbols alike, or each by how often it was seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from os import PathLike

import torch

from llrnn.backgrounds.base import Background, Static
from llrnn.corpus import Corpus
from llrnn.errors import BackgroundError
from llrnn.lexicon import read_frequencies
from llrnn.priors import Prior
from llrnn.process import States
from llrnn.vocabulary import EOS, Vocabulary


class _Unbound(Background):
    """A background that becomes a vector when it is bound."""

    @property
    def is_static(self) -> bool:
        return True

    def prior(self, states: States) -> Prior:
        raise BackgroundError(f"{self!r} must be bound to a vocabulary before it is used: .bind(vocabulary)")


class Uniform(_Unbound):
    """1/|V| for every symbol: no prior belief."""

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        log_b = torch.full((len(vocabulary),), -math.log(len(vocabulary)), dtype=torch.float64)
        return Static(log_b, name=repr(self)).bind(vocabulary)


class Unigram(_Unbound):
    """Relative frequency, with `smoothing` added to every count (0 leaves unseen symbols without mass)."""

    def __init__(self, counts: Mapping[str, float], *, smoothing: float = 0.0) -> None:
        if not (smoothing >= 0 and math.isfinite(smoothing)):
            raise BackgroundError(f"smoothing must be a finite number of 0 or more, found {smoothing}")
        for symbol, count in counts.items():
            if not (count >= 0 and math.isfinite(count)):
                raise BackgroundError(f"the count of {symbol!r} must be finite and 0 or more, found {count}")
        self._counts, self._smoothing = dict(counts), smoothing

    @classmethod
    def from_corpus(cls, *corpora: Corpus, smoothing: float = 0.0) -> Unigram:
        """Counts of words, and of ends of sentences, in the corpora."""
        counts: Counter[str] = Counter()
        for corpus in corpora:
            counts.update(corpus.counts())
            counts[EOS] += len(corpus)
        return cls(counts, smoothing=smoothing)

    @classmethod
    def from_file(cls, path: str | PathLike[str], *, smoothing: float = 0.0) -> Unigram:
        """Counts from a frequency file: a form and its count on each line."""
        return cls(read_frequencies(path), smoothing=smoothing)

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        counts = dict(self._counts)
        if vocabulary.unknown is not None:
            outside = sum(count for symbol, count in counts.items() if symbol not in vocabulary)
            counts[vocabulary.unknown] = counts.get(vocabulary.unknown, 0.0) + outside
        mass = torch.tensor([counts.get(symbol, 0.0) for symbol in vocabulary], dtype=torch.float64)
        mass = mass + self._smoothing
        if not mass.sum() > 0:
            raise BackgroundError(
                f"{self!r} knows none of the {len(vocabulary)} symbols: take counts of the same text, or smoothing"
            )
        return Static((mass / mass.sum()).log(), name=repr(self)).bind(vocabulary)

    def __repr__(self) -> str:
        return f"Unigram({len(self._counts)} types, smoothing={self._smoothing:g})"
