"""The features of a new word, found by their names among those of a trained model.

    φ(x) = {names that the table gives} ∪ {names that the spelling of x shows}, as far as the model has them

The values are those that the features have on the old words, so scaled and balanced groups stay so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import FeatureError
from llrnn.knowledge.features import FeatureMatrix, Numeric, Shape
from llrnn.model.words.table import Entry, some
from llrnn.text.domain import Cell
from llrnn.text.vocabulary import Vocabulary

_FAR = 1e6  # SmallNumber with this limit tells any smaller number to ten digits
_NUMERIC, _SHAPE = Numeric(small=_FAR), Shape()  # made once: a condition may bring hundreds of words

Row = tuple[tuple[int, float], ...]  # columns, sorted, and values


class Columns:
    """The features of a compiled matrix by their names, and which of them a new word has."""

    def __init__(self, matrix: FeatureMatrix, vocabulary: Vocabulary) -> None:
        self._matrix, self._vocabulary = matrix, vocabulary
        self._column = {name: column for column, name in enumerate(matrix.names)}
        self._groups = frozenset(matrix.groups)
        self._pairs: dict[str, list[tuple[frozenset[str], int]]] = {}  # conjunctions by their first side
        sides: set[str] = set()
        for column, (name, group) in enumerate(zip(matrix.names, matrix.groups, strict=True)):
            if " & " in group:
                first, *others = name.split("&")
                self._pairs.setdefault(first, []).append((frozenset(others), column))
                sides |= {first, *others}
        self._sides = frozenset(sides)
        self._longest = max(map(len, matrix.names), default=0)
        self._identities = self._named_identities()

    def _named_identities(self) -> frozenset[str]:
        own = zip(self._matrix.names, self._matrix.groups, strict=True)
        named = {name for name, group in own if group == "Identity"}
        if any("Identity" in re.split(r" [&+] ", group) for group in self._groups if " & " in group):
            named |= {side for side in self._sides if side.startswith(("Word:", "NotAmong:"))}
        return frozenset(named)

    def find(self, attribute: str) -> str | None:
        """The name of a feature, or of a side of conjunctions, that a table means; `Gender=Fem` is `Gender:Fem`."""
        for name in (attribute, attribute.replace("=", ":", 1)):
            if name in self._column or name in self._sides:
                return name
        return None

    def row(self, entry: Entry, cell: Cell | None) -> Row:
        """The features of a new word, as if they had been compiled."""
        given = {name for name in map(self.find, entry.attributes) if name is not None}
        shown = dict(self._shown(entry.form, cell))
        if entry.count is None and cell is not None:
            shown[f"New:{cell.source}"] = "Shown"  # it is as new as it was when its cell stood for it
        if not given & self._identities:
            shown |= dict.fromkeys(self._identity(entry, cell), "Identity")
        columns = {self._column[name] for name in given if name in self._column}
        for name, group in shown.items():
            column = self._column.get(name)
            if column is not None and self._matrix.groups[column] == group:
                columns.add(column)
        fires = given | shown.keys()
        for name in fires & self._pairs.keys():
            columns |= {column for others, column in self._pairs[name] if others <= fires}
        values = ((column, self._value(column, entry)) for column in sorted(columns))
        return tuple((column, value) for column, value in values if value != 0)

    def _shown(self, form: str, cell: Cell | None) -> Iterator[tuple[str, str]]:
        """What the spelling shows: names that may be features, with the groups that give such names."""
        for length in range(1, min(len(form), self._longest + 1)):  # longer ones name no feature
            yield f"Suffix:{form[-length:]}", "Suffixes"
            yield f"Prefix:{form[:length]}", "Prefixes"
        yield from dict.fromkeys(_SHAPE(form), "Shape").items()
        yield from dict.fromkeys(_NUMERIC(form), "Numeric").items()
        yield from dict.fromkeys(() if cell is None else cell.attributes, "Shown").items()

    def _identity(self, entry: Entry, cell: Cell | None) -> list[str]:
        if not self._identities:
            return []
        named = [f"Word:{entry.form}", *self._not_among, *([] if cell is None else [f"Word:‹{cell.name}›"])]
        found = [name for name in named if name in self._identities][:1]
        if not found:
            raise FeatureError(
                f"{entry} cannot be added: the model knows every word by a feature of its own, as a softmax does, and "
                "has no weights for a word that it was not trained on; name a word in the table that it shall be like, "
                f"such as {min(self._identities)}, or train with Identity(top=M) and features that words share"
            )
        return found

    @cached_property
    def _not_among(self) -> list[str]:
        return [name for name in self._identities if name.startswith("NotAmong:")]

    def _value(self, column: int, entry: Entry) -> float:
        name, value = self._matrix.names[column], self._constant[column]
        if self._matrix.groups[column] == "Numeric" and name == "SmallNumber":
            small = _NUMERIC(entry.form).get(name)
            return 0.0 if small is None else max(0.0, self._small(_FAR * (1.0 - small)))
        if np.isnan(value):
            raise FeatureError(
                f"the feature {name!r} has other values on other words, or none at all, so that its value on {entry} "
                "cannot be told; leave it out of the table"
            )
        return float(value)

    @cached_property
    def _constant(self) -> Floats:
        """The one value of each feature, that of its group where no word has it, NaN if there is not one, (m,)."""
        own = _one_value(self._matrix.columns, self._matrix.values, self._matrix.n_features)
        numbers = {group: number for number, group in enumerate(dict.fromkeys(self._matrix.groups))}
        group_of = np.array([numbers[group] for group in self._matrix.groups], dtype=np.int64)
        of_group = _one_value(group_of[self._matrix.columns], self._matrix.values, len(numbers))
        fires = np.bincount(self._matrix.columns, minlength=self._matrix.n_features) > 0
        found: Floats = np.where(fires, own, of_group[group_of])
        return found

    def _small(self, number: float) -> float:
        """SmallNumber lies on a line that falls with the number: two listed numbers show it, scale and all."""
        if self._line is None:
            return 0.0
        (x, y), (other_x, other_y) = self._line
        return y + (other_y - y) / (other_x - x) * (number - x)

    @cached_property
    def _line(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        column, points, measure = self._column["SmallNumber"], {}, _NUMERIC
        values = dict(self._values_of(column))
        for word, klass in zip(self._vocabulary.words, self._matrix.class_of.tolist(), strict=False):
            if klass in values:
                points[_FAR * (1.0 - measure(word).get("SmallNumber", 0.0))] = values[klass]
        return None if len(points) < 2 else ((min(points), points[min(points)]), (max(points), points[max(points)]))

    def _values_of(self, column: int) -> Iterator[tuple[int, float]]:
        """The classes that have a feature, and its value on them."""
        at = np.flatnonzero(self._matrix.columns == column)
        classes = np.searchsorted(self._matrix.offsets, at, side="right") - 1
        return zip(classes.tolist(), self._matrix.values[at].tolist(), strict=True)


def _one_value(key: Ints, values: Floats, count: int) -> Floats:
    """The value that all entries of a key share, NaN where they differ or there is none, (count,)."""
    lowest, highest = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(lowest, key, values)
    np.maximum.at(highest, key, values)
    found: Floats = np.where(lowest == highest, lowest, np.nan)
    return found


def check_attributes(given: Sequence[Entry], sides: Sequence[Columns]) -> None:
    """A typing mistake must not vanish."""
    unknown = {
        attribute: entry
        for entry in reversed(given)
        for attribute in sorted(entry.attributes)
        if all(columns.find(attribute) is None for columns in sides)
    }
    if unknown:
        named = [f"{attribute!r} of {entry}" for attribute, entry in sorted(unknown.items())]
        raise FeatureError(
            f"attributes must be features of the model, found {len(unknown)} that are not: {some(named)}; correct "
            "them, or leave them out: a feature that was not trained has no weight"
        )


def with_rows(matrix: FeatureMatrix, rows: Sequence[Row], first: int) -> FeatureMatrix:
    """The matrix with more symbols, from the place `first` on; words with equal features share a class as before."""
    entries = list(zip(matrix.columns.tolist(), matrix.values.tolist(), strict=True))
    known = {tuple(entries[start:stop]): s for s, (start, stop) in enumerate(pairwise(matrix.offsets.tolist()))}
    new = list(dict.fromkeys(row for row in rows if row not in known))
    known |= {row: s for s, row in enumerate(new, matrix.n_classes)}
    classes = [known[row] for row in rows]
    ends = matrix.offsets[-1] + np.cumsum([len(row) for row in new], dtype=np.int64)
    return replace(
        matrix,
        class_of=np.concatenate([matrix.class_of[:first], np.array(classes, dtype=np.int64), matrix.class_of[first:]]),
        offsets=np.concatenate([matrix.offsets, ends]),
        columns=np.concatenate([matrix.columns, np.array([c for row in new for c, _ in row], dtype=np.int64)]),
        values=np.concatenate([matrix.values, np.array([v for row in new for _, v in row], dtype=np.float64)]),
    )


def of_symbols(matrix: FeatureMatrix, symbols: Ints) -> FeatureMatrix:
    """The matrix over some symbols; classes without members go, features stay even if no symbol has them."""
    used, class_of = np.unique(matrix.class_of[symbols], return_inverse=True)
    sizes = np.diff(matrix.offsets)
    stays = np.repeat(np.isin(np.arange(matrix.n_classes), used), sizes)
    return replace(
        matrix,
        class_of=class_of.astype(np.int64),
        offsets=np.concatenate([[0], np.cumsum(sizes[used])]).astype(np.int64),
        columns=matrix.columns[stays],
        values=matrix.values[stays],
    )
