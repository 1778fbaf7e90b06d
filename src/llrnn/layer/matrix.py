"""Features compiled for a vocabulary: a sparse matrix Φ and its classes.

    words with equal rows form a class s;   φ(x) = Φ_G[class_of[x]]        G rows instead of |V|

Everything that the log-linear layer does costs G, not |V|; `class_of` and `members` lead to classes and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llrnn.ground.arrays import Floats, Ints


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
