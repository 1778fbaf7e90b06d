"""Small models for the tests of what happens after training: saving, scoring, writing, explaining."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from llrnn import GRU, LLRNN, Corpus, Lexicon, Vocabulary, backgrounds, contextual, features, french
from llrnn.knowledge.backgrounds import Background
from llrnn.knowledge.contextual import ContextualFeature, ContextualInput
from llrnn.knowledge.contextual.base import Following
from llrnn.knowledge.features import Features
from llrnn.layer.distribution import Distribution, Way
from llrnn.layer.matrix import FeatureMatrix
from llrnn.model.controllers import Controller
from llrnn.text.encoded import EncodedText, TrainingSummary
from llrnn.text.vectors import WordVectors
from llrnn.text.vocabulary import EOS

HANG = 1200.0  # seconds after which something hangs: no test measures time, however busy the machine is


def script_environment() -> dict[str, str]:
    """For a test file that is run as a program: it finds what pytest finds, and computes with one thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


torch.set_num_threads(1)  # the tensors are tiny: threads only wait for each other


@cache
def by_way(p: Distribution, way: Way) -> Distribution:
    """The distribution with one way forced on all its sums."""
    p.way = way
    return p


def small_corpus() -> Corpus:
    """Sixty sentences of the embedded French grammar."""
    return Corpus.from_sentences(french.sentences(60)).lowercased()


@cache
def small_vocabulary() -> Vocabulary:
    return Vocabulary.from_corpus(small_corpus())


def small_features() -> Features:
    lexicon = Lexicon.from_corpus(small_corpus())
    return features.Identity(top=30) + features.Attributes(lexicon) + features.Suffixes(2, min_count=3)


def small_vectors(*, components: int | None = 17) -> features.Vectors:
    """Random vectors of all words of the French sentences but every fifth; two words share theirs."""
    words = [word for x, word in enumerate(small_vocabulary()) if x % 5 and word != EOS]
    table = np.random.default_rng(1).normal(size=(len(words), 20)).astype(np.float32)
    rows = np.arange(len(words))
    rows[3] = rows[7]
    return features.Vectors(WordVectors(tuple(words), rows, table), components=components)


class Expected(Following[Any], ContextualInput[Any]):
    """What a background gives the words 2 to 7, as an input: one that follows the states of another process."""

    followed: Background

    def __init__(self, background: Background) -> None:
        self.followed = background

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"expected {x}" for x in range(2, 8))

    def numbers(self, states: Sequence[Any]) -> torch.Tensor:
        return self.followed.prior(states).dense(len(states)).log_b[:, 2:8].exp().float()


def small_model(
    *,
    background: Background | None = None,
    context: Sequence[ContextualFeature] = (),
    mixed: Sequence[Background] = (),
    output_features: Features | FeatureMatrix | None = None,
    input_features: Features | FeatureMatrix | None = None,
    controller: Controller | None = None,
    tied: bool = False,
    loud: float = 3.0,
) -> LLRNN:
    """A model of the French sentences with random weights, `loud` enough that every part shows in the result."""
    model = LLRNN(
        small_vocabulary(),
        output_features=output_features or small_features(),
        input_features=input_features,
        background=background or backgrounds.Unigram.from_corpus(small_corpus()),
        controller=controller or GRU(6),
        contextual=context,
        mixed=mixed,
        tied=tied,
        seed=3,
    )
    shaken(model, loud)
    model.training_summary = TrainingSummary.of(
        EncodedText.encode(small_corpus()[:40], model.vocabulary), len(model.vocabulary)
    )
    return model


def shaken(model: LLRNN, loud: float, seed: int = 0) -> None:
    """Random numbers in every weight, contextual ones and biases included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn * (loud / (1.0 + parameter.shape[-1] ** 0.5)))


def tiny_model(*, words: int = 3, background: Background | None = None, repeated: bool = True) -> LLRNN:
    """A model over a few words, in float64, for brute force."""
    vocabulary = Vocabulary([*(f"w{i}" for i in range(words)), EOS])
    model = LLRNN(
        vocabulary,
        output_features=features.Identity(),
        background=background,
        controller=GRU(4),
        contextual=[contextual.Repeated(5)] if repeated else [],
    ).double()
    shaken(model, 2.0)
    return model


def sentence_log_probs(model: LLRNN, words: Sequence[str], condition: object = None) -> list[float]:
    """log p of each word and of the end, walked by hand through `model.step`."""
    targets = [*model.vocabulary.ids(words), model.vocabulary.eos]
    state = model.start([condition])
    fed, found = model.vocabulary.eos, []
    with torch.no_grad():
        for target in targets:
            distribution, state = model.step(state, [fed])
            found.append(float(distribution.log_probs()[0, target]))
            fed = target
    return found


@torch.no_grad()
def walked(model: LLRNN, words: Sequence[str], *, end: bool = True) -> float:
    """log p of a sentence, step by step."""
    ids = [*model.vocabulary.ids(words), *([model.vocabulary.eos] if end else [])]
    state, fed, total = model.start(), model.vocabulary.eos, 0.0
    for word in ids:
        distribution, state = model.step(state, [fed])
        total += float(distribution.log_probs()[0, word])
        fed = word
    return total


def banded_features(single: int, n_features: int, *bands: tuple[int, int]) -> FeatureMatrix:
    """Words with some sparse features, then bands of words with dense ones of their own; a class for each word."""
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.permutation(n_features)[: 1 + s % 4]) for s in range(single)]
    groups = ["sparse"] * n_features
    for number, (n, r) in enumerate(bands):
        rows += [len(groups) + np.arange(r)] * n
        groups += [f"band {number}"] * r
    columns = np.concatenate(rows)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    names = tuple(f"f{k}" for k in range(len(groups)))
    return FeatureMatrix(names, tuple(groups), np.arange(len(rows)), offsets, columns, rng.normal(size=len(columns)))
