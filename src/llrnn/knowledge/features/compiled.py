"""Features asked for every symbol of a vocabulary, and numbered: the matrix Φ that the layer takes."""

from __future__ import annotations

import difflib
import fnmatch
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from llrnn.ground.arrays import Ints
from llrnn.ground.caches import ByteCache
from llrnn.ground.errors import ConfigError, FeatureError, quoted
from llrnn.knowledge.features.base import Features, checked, values_of
from llrnn.layer.matrix import FeatureMatrix
from llrnn.text.vocabulary import Vocabulary


def compile_features(features: Features, vocabulary: Vocabulary) -> FeatureMatrix:
    """The matrix Φ: features and classes of words are numbered in the order in which they first appear.

    phi = compile_features(Identity(top=2500) + Suffixes(3), vocabulary)
    """
    columns = _ColumnNumbers()
    rows: list[list[tuple[int, float]]] = [[] for _ in vocabulary]
    for part in features.parts():
        fitted = part.fitted(vocabulary)
        for row, symbol in zip(rows, vocabulary.words, strict=False):
            row += columns.entries(fitted, part.group, symbol)
        for row, entries in zip(rows[len(vocabulary.words) :], _of_cells(columns, fitted, vocabulary), strict=True):
            row += entries
    if not columns.names:
        raise FeatureError(f"no feature of {features!r} fires on any of the {len(vocabulary)} symbols")
    keys = [tuple(row) for row in rows]
    first_seen: dict[tuple[tuple[int, float], ...], int] = {}
    class_of = [first_seen.setdefault(key, len(first_seen)) for key in keys]
    return _matrix(columns, class_of, list(first_seen))


def _of_cells(columns: _ColumnNumbers, fitted: Features, vocabulary: Vocabulary) -> list[list[tuple[int, float]]]:
    """The features of each cell: those of its strings, which must agree, on a few witnesses and where lists deviate."""
    witnesses = {cell: list(strings) for cell, strings in vocabulary.witnesses.items()}
    if witnesses:
        unlisted = [string for string in fitted.deviations() if string not in vocabulary]
        for string, cell in zip(unlisted, vocabulary.cells_of(unlisted).tolist(), strict=True):
            if cell in witnesses:  # a form that no domain holds has no cell
                witnesses[cell].append(string)
    return [_agreed(columns, fitted, vocabulary.symbols[cell], strings) for cell, strings in witnesses.items()]


def _agreed(columns: _ColumnNumbers, fitted: Features, cell: str, strings: Sequence[str]) -> list[tuple[int, float]]:
    found = [columns.entries(fitted, fitted.group, string) for string in strings]
    for string, entries in zip(strings, found, strict=True):
        if entries != found[0]:
            shown = [{columns.name(column): value for column, value in row} for row in (found[0], entries)]
            raise FeatureError(
                f"features must be the same on all strings of a cell, but {fitted!r} has {shown[0]} on {strings[0]!r} "
                f"and {shown[1]} on {string!r}, both in the cell {cell}; list such words in the vocabulary, "
                "cut the cells finer, or keep the features to listed words (.of_listed(), `listed = true`)"
            )
    return found[0] if found else []


class _ColumnNumbers:
    """Feature names, numbered as they come; two groups may not use one name."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.groups: list[str] = []
        self._owner: list[Features] = []

    def entries(self, fitted: Features, group: str, symbol: str) -> list[tuple[int, float]]:
        found = values_of(fitted, symbol)
        if not isinstance(found, Mapping):
            raise FeatureError(f"{group} must give a mapping from names to values for {symbol!r}, found {found!r}")
        return sorted(
            (self._column(fitted, group, name), checked(value, name, symbol))
            for name, value in found.items()
            if value != 0
        )

    def name(self, column: int) -> str:
        return list(self.names)[column]

    def _column(self, fitted: Features, group: str, name: str) -> int:
        column = self.names.setdefault(name, len(self.names))
        if column == len(self.groups):
            self.groups.append(group)
            self._owner.append(fitted)
        if self._owner[column] is not fitted:
            raise FeatureError(
                f"the feature {name!r} is named by {self.groups[column]} and again by {group}: rename one"
            )
        return column


def _matrix(
    columns: _ColumnNumbers, class_of: Sequence[int], rows: Sequence[tuple[tuple[int, float], ...]]
) -> FeatureMatrix:
    entries = [entry for row in rows for entry in row]
    return FeatureMatrix(
        names=tuple(columns.names),
        groups=tuple(columns.groups),
        class_of=np.array(class_of, dtype=np.int64),
        offsets=np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64),
        columns=np.array([column for column, _ in entries], dtype=np.int64),
        values=np.array([value for _, value in entries], dtype=np.float64),
    )


# What the knowledge amounts to, before any training: what `llrnn features` prints.


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


# Features found by name, or by a pattern in which `*` stands for anything. Both come from users and from requests, so
# every answer has its bound: `fnmatch` looks for a pattern from left to right without going back.


STAR = "*"
_REMEMBERED = 4 * 2**20  # bytes of names and patterns that were resolved
_COMPARED = 2000  # names that a mistaken one is compared with: each takes some microseconds
_LONGEST_MISTAKE = 100  # characters


def star_matcher(pattern: str) -> Callable[[str], object]:
    """Whether a name fits a pattern in which only `*` has a meaning."""
    return re.compile(fnmatch.translate(re.sub(r"[?\[]", r"[\g<0>]", pattern))).match


class FeatureNames:
    """The features of a model by their names: which coordinates of a does a name, or a pattern, mean?"""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._place = {name: k for k, name in enumerate(self.names)}
        self._found: ByteCache[str, Ints] = ByteCache(_REMEMBERED, lambda key, rows: sys.getsizeof(key) + rows.nbytes)

    def __len__(self) -> int:
        return len(self.names)

    def is_pattern(self, feature: str) -> bool:
        """Whether all names must be looked through; what some feature is called is that feature, `Word:*` included."""
        return STAR in feature and feature not in self._place

    def rows(self, feature: str) -> Ints:
        """The coordinates that a name or a pattern means, in their order; one that means none is an error."""
        if feature in self._place:
            return np.array([self._place[feature]])
        if STAR in feature:
            found = self._found.get(feature, lambda: self._matching(feature))
            if len(found):
                return found
        what = f"{'matches the pattern' if STAR in feature else 'is named'} {quoted(feature)}"
        raise ConfigError(f"none of the {len(self)} features of this model {what}; {self._advice(feature)}")

    def _matching(self, pattern: str) -> Ints:
        fits = star_matcher(pattern)
        return np.array([k for k, name in enumerate(self.names) if fits(name)], dtype=np.int64)

    def _advice(self, feature: str) -> str:
        small: dict[str, str] = {}  # capitals are what is mistaken most
        for name in self._candidates(feature):
            small.setdefault(name.lower(), name)
        close = [small[name] for name in difflib.get_close_matches(feature.lower(), small)]
        if close:
            return f"did you mean {' or '.join(map(repr, close))}?"
        return f"names look like {', '.join(map(repr, self.names[:3]))}, and patterns need a `*`"

    def _candidates(self, feature: str) -> list[str]:
        """Some names that a mistaken one may stand for: of many, those of its group."""
        if len(feature) > _LONGEST_MISTAKE:
            return []
        if len(self) <= _COMPARED:
            return list(self.names)
        group = feature.partition(":")[0].lower()
        return [name for name in self.names if name.lower().startswith(group)][:_COMPARED]
