"""Features asked for every symbol of a vocabulary, and numbered: the matrix Φ that the layer takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from llrnn.ground.errors import FeatureError
from llrnn.knowledge.features.base import Features, checked, values_of
from llrnn.layer.matrix import FeatureMatrix
from llrnn.text.vocabulary import Vocabulary


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
