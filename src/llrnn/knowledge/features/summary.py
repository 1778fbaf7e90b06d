"""What the knowledge amounts to, before any training: what `llrnn features` prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from llrnn.knowledge.features.base import Features
from llrnn.knowledge.features.compiled import compile_features
from llrnn.layer.matrix import FeatureMatrix
from llrnn.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class FeatureSummary:
    """Counts by group, classes against words, and what does no work: dead features, words that nothing tells apart."""

    symbols: int
    features: int
    classes: int
    entries: int  # of the matrix by classes
    by_group: dict[str, int]
    never_fire: tuple[str, ...]
    same_on_all: tuple[str, ...]
    indistinct: tuple[tuple[str, ...], ...]  # the largest classes, most frequent words first
    indistinct_words: int  # words that share their class with another
    without_features: int  # words on which no feature fires
    bytes: int

    @property
    def reduction(self) -> float:
        """|V| / G: how many times smaller the sum in Z has become."""
        return self.symbols / self.classes

    @property
    def shares_nothing(self) -> bool:
        """Whether every word has one feature, its own: the softmax, whose matrix need not be multiplied at all."""
        return self.symbols == self.classes == self.features == self.entries


def summarise(features: Features, vocabulary: Vocabulary, *, largest: int = 5, examples: int = 8) -> FeatureSummary:
    """Compile the features and say what they amount to."""
    matrix = compile_features(features, vocabulary)
    sizes = np.diff(matrix.member_offsets)
    declared = {name for part in features.parts() for name in part.declared()}
    return FeatureSummary(
        symbols=matrix.n_symbols,
        features=matrix.n_features,
        classes=matrix.n_classes,
        entries=len(matrix.columns),
        by_group=dict(Counter(matrix.groups)),
        never_fire=tuple(sorted(declared - set(matrix.names))),
        same_on_all=_same_on_all(matrix),
        indistinct=_largest_classes(matrix, vocabulary, largest, examples),
        indistinct_words=int(sizes[sizes > 1].sum()),
        without_features=int(sizes[np.diff(matrix.offsets) == 0].sum()),
        bytes=matrix.bytes(),
    )


def _same_on_all(matrix: FeatureMatrix) -> tuple[str, ...]:
    """Features with one value on every class: they cancel in the normalisation."""
    fired = np.bincount(matrix.columns, minlength=matrix.n_features)
    lowest, highest = np.full(matrix.n_features, np.inf), np.full(matrix.n_features, -np.inf)
    np.minimum.at(lowest, matrix.columns, matrix.values)
    np.maximum.at(highest, matrix.columns, matrix.values)
    constant = (fired == matrix.n_classes) & (lowest == highest)
    return tuple(matrix.names[column] for column in np.flatnonzero(constant))


def _largest_classes(
    matrix: FeatureMatrix, vocabulary: Vocabulary, largest: int, examples: int
) -> tuple[tuple[str, ...], ...]:
    sizes = np.diff(matrix.member_offsets)
    order = [int(s) for s in np.argsort(-sizes, kind="stable")[:largest] if sizes[s] > 1]
    starts = [int(matrix.member_offsets[s]) for s in order]
    return tuple(
        tuple(vocabulary.symbols[word] for word in matrix.members[start : start + min(examples, int(sizes[s]))])
        for s, start in zip(order, starts, strict=True)
    )
