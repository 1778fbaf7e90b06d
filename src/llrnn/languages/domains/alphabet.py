"""Every character that a string may hold: those told apart one by one, and all others of each kind.

    weight of a character told apart = its own                weight of any other = the weight of its kind / how many

So finitely many columns stand for all of Unicode. Kinds are those of `text.automata`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from llrnn.text.automata import KINDS, kind, permitted


@cache
def of_kind(number: int) -> NDArray[np.int64]:
    """All code points of a kind, sorted; surrogates and line breaks are of none."""
    return _by_kind()[number]


@cache
def _by_kind() -> tuple[NDArray[np.int64], ...]:
    kinds = np.array([kind(chr(code)) if permitted(chr(code)) else -1 for code in range(0x110000)], dtype=np.int8)
    return tuple(np.flatnonzero(kinds == number).astype(np.int64) for number in range(len(KINDS)))


class Alphabet:
    """Columns 0 … n-1 are the characters told apart; then a column for each kind, which stands for all others of it."""

    def __init__(self, characters: Sequence[str]) -> None:
        self.characters = tuple(sorted(set(characters)))
        self._column = {character: column for column, character in enumerate(self.characters)}
        self._others: dict[int, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self.characters) + len(KINDS)

    def column(self, character: str) -> int:
        found = self._column.get(character)
        return len(self.characters) + kind(character) if found is None else found

    def others(self, column: int) -> NDArray[np.int64]:
        """The code points that a column of a kind stands for."""
        if column not in self._others:
            number = column - len(self.characters)
            told_apart = [ord(character) for character in self.characters if kind(character) == number]
            self._others[column] = np.setdiff1d(of_kind(number), told_apart, assume_unique=True)
        return self._others[column]

    @cached_property
    def log_share(self) -> NDArray[np.float64]:
        """log of 1 / how many characters a column stands for, (columns,)."""
        sizes = [1] * len(self.characters) + [
            len(self.others(column)) for column in range(len(self.characters), len(self))
        ]
        return -np.log(np.maximum(sizes, 1).astype(np.float64))

    def draw(self, column: int, rng: np.random.Generator) -> str:
        """A character of a column."""
        if column < len(self.characters):
            return self.characters[column]
        return chr(int(rng.choice(self.others(column))))

    def columns_of(self, strings: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The columns of the characters of strings, one row each, -1 behind the end, and the lengths: (n, T), (n,)."""
        lengths = np.array([len(string) for string in strings], dtype=np.int64)
        joined = np.fromiter((ord(c) for string in strings for c in string), dtype=np.int64, count=int(lengths.sum()))
        distinct, inverse = np.unique(joined, return_inverse=True)
        columns = np.array([self._column_or_none(chr(code)) for code in distinct.tolist()], dtype=np.int64)
        padded = np.full((len(strings), int(lengths.max(initial=0))), -1, dtype=np.int64)
        row = np.repeat(np.arange(len(strings)), lengths)
        within = np.arange(len(joined)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        padded[row, within] = columns[inverse] if len(joined) else joined
        return padded, lengths

    def _column_or_none(self, character: str) -> int:
        return self.column(character) if permitted(character) else -2
