"""Features compiled for a vocabulary: a sparse matrix Φ and its classes.

    words with equal rows form a class s;   φ(x) = Φ_G[class_of[x]]        G rows instead of |V|

Everything that the log-linear layer does costs G, not |V|; `class_of` and `members` lead to classes and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from llrnn.errors import FeatureError
from llrnn.features.base import Features, checked, values_of
from llrnn.vocabulary import Vocabulary

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureMatrix:
    """Φ by classes, in compressed rows: the row of class s is `columns[offsets[s]:offsets[s + 1]]` with its values."""

    names: tuple[str, ...]
    groups: tuple[str, ...]
    class_of: Ints  # (V,)
    offsets: Ints  # (G + 1,)
    columns: Ints  # (nnz,)
    values: Floats  # (nnz,)

    @property
    def n_symbols(self) -> int:
        return len(self.class_of)

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def n_classes(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def members(self) -> Ints:
        """The words in the order of their classes, (V,)."""
        few = self.n_classes <= 1 << 16  # two bytes are sorted by radix
        return np.argsort(self.class_of.astype(np.uint16) if few else self.class_of, kind="stable")

    @cached_property
    def member_offsets(self) -> Ints:
        """The words of class s are `members[member_offsets[s]:member_offsets[s + 1]]`, (G + 1,)."""
        sizes = np.bincount(self.class_of, minlength=self.n_classes)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def is_identity(self) -> bool:
        """Whether class s has feature s alone, with value 1: the softmax, where Φ need not be multiplied at all."""
        G = self.n_classes
        return (
            self.n_features == G
            and len(self.values) == G
            and np.array_equal(self.offsets, np.arange(G + 1))
            and np.array_equal(self.columns, np.arange(G))
            and bool(np.all(self.values == 1.0))
        )

    @cached_property
    def column_of(self) -> dict[str, int]:
        """Where each name stands."""
        return {name: column for column, name in enumerate(self.names)}

    def row(self, symbol: int) -> dict[str, float]:
        """The features that fire on a word, by name."""
        start, stop = self.offsets[self.class_of[symbol] :][:2]
        return {
            self.names[column]: float(value)
            for column, value in zip(self.columns[start:stop], self.values[start:stop], strict=True)
        }

    def named(self, symbol: int) -> list[str]:
        """The features that fire on a word, as people read them: values only where they are not 1."""
        return [name if value == 1.0 else f"{name}={value:.3g}" for name, value in self.row(symbol).items()]

    def bytes(self) -> int:
        return sum(array.nbytes for array in (self.class_of, self.offsets, self.columns, self.values))

    def __repr__(self) -> str:
        return f"FeatureMatrix({self.n_symbols} symbols, {self.n_features} features, {self.n_classes} classes)"


def compile_features(features: Features, vocabulary: Vocabulary) -> FeatureMatrix:
    """Ask every group for every symbol once; number features and classes in the order in which they first appear."""
    columns = _Columns()
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


def _of_cells(columns: _Columns, fitted: Features, vocabulary: Vocabulary) -> list[list[tuple[int, float]]]:
    """The features of each cell: those of its strings, which must agree, on a few witnesses and where lists deviate."""
    witnesses = {cell: list(strings) for cell, strings in vocabulary.witnesses.items()}
    if witnesses:
        unlisted = [string for string in fitted.deviations() if string not in vocabulary]
        for string, cell in zip(unlisted, vocabulary.cells_of(unlisted).tolist(), strict=True):
            if cell in witnesses:  # a form that no domain holds has no cell
                witnesses[cell].append(string)
    return [_agreed(columns, fitted, vocabulary.symbols[cell], strings) for cell, strings in witnesses.items()]


def _agreed(columns: _Columns, fitted: Features, cell: str, strings: Sequence[str]) -> list[tuple[int, float]]:
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


class _Columns:
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


def _matrix(columns: _Columns, class_of: Sequence[int], rows: Sequence[tuple[tuple[int, float], ...]]) -> FeatureMatrix:
    entries = [entry for row in rows for entry in row]
    return FeatureMatrix(
        names=tuple(columns.names),
        groups=tuple(columns.groups),
        class_of=np.array(class_of, dtype=np.int64),
        offsets=np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64),
        columns=np.array([column for column, _ in entries], dtype=np.int64),
        values=np.array([value for _, value in entries], dtype=np.float64),
    )
