"""A language, read letter by letter: the seam between automata or grammars and the background that they make.

    node = root;   node = after(node, column)                       None: no string of the language begins so
    weight of the next letter x at a node: weights(node)[column(x)],  of the end: end(node)

Boolean languages weigh 1 what keeps the string completable and 0 what does not. Weighted ones say how probable it is,
with all that can still follow counted in: Σ over letters + end = 1. A letter with weight above 0 is never a dead end.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.languages.grammars.matcher import matcher

# Letters: what automata and grammars read one by one, and which of them are told apart.
#
#     over symbols       a letter is a symbol of the vocabulary, and every symbol is one letter
#     over characters    a letter is a character, and a symbol spells some of them
#
# An atom says which letters it holds. Letters that the atoms of an automaton or grammar do not tell apart share a
# column, so that a grammar of forty terminals has some forty columns, whatever the vocabulary.


Over = Literal["symbols", "characters"]
UNREAD = -1  # the column of letters that no atom holds


@dataclass(frozen=True)
class Letter:
    """This letter."""

    text: str

    def holds(self, letter: str) -> bool:
        return letter == self.text


@dataclass(frozen=True)
class MatchingLetter:
    """Letters that match a regular expression of Python's as a whole."""

    regex: str

    def holds(self, letter: str) -> bool:
        return matcher(self.regex).holds(letter)


@dataclass(frozen=True)
class OneOf:
    """Single characters: of some ranges and of categories as Python's `\\d`, `\\s` and `\\w`; or all others."""

    ranges: tuple[tuple[str, str], ...] = ()
    categories: tuple[str, ...] = ()  # as regular expressions write them: r"\d"
    negated: bool = False

    def holds(self, letter: str) -> bool:
        if len(letter) != 1:
            return False
        among = any(first <= letter <= last for first, last in self.ranges)
        return (among or any(_compiled(c).fullmatch(letter) for c in self.categories)) != self.negated


Atom: TypeAlias = Letter | MatchingLetter | OneOf


@lru_cache(maxsize=4096)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


class LetterColumns:
    """The letters, sorted into columns by a set of atoms."""

    def __init__(self, letters: Sequence[str], atoms: Iterable[Atom], over: Over) -> None:
        self.letters, self.over = tuple(letters), over
        self._place = {letter: place for place, letter in enumerate(self.letters)}
        distinct = dict.fromkeys(atoms)
        named = [self._place[atom.text] for atom in distinct if isinstance(atom, Letter) and atom.text in self._place]
        held = np.array(
            [[atom.holds(letter) for letter in self.letters] for atom in distinct if not isinstance(atom, Letter)],
            dtype=np.bool_,
        ).reshape(-1, len(self.letters))
        self.of_letter = _numbered(held, named)  # (letters,)
        self.count = int(self.of_letter.max(initial=UNREAD)) + 1
        self.sizes = np.bincount(self.of_letter[self.of_letter >= 0], minlength=self.count)  # (columns,)
        self._first = {int(column): place for place, column in reversed(list(enumerate(self.of_letter.tolist())))}
        self._held: dict[Atom, tuple[int, ...]] = {}

    def held(self, atom: Atom) -> tuple[int, ...]:
        """The columns of the letters that an atom holds; it must be one of those that the columns were made with."""
        if atom not in self._held:
            self._held[atom] = tuple(self._columns_of(atom))
        return self._held[atom]

    def _columns_of(self, atom: Atom) -> list[int]:
        if isinstance(atom, Letter):
            return [int(self.of_letter[self._place[atom.text]])] if atom.text in self._place else []
        return [column for column in range(self.count) if atom.holds(self.letters[self._first[column]])]

    def column(self, letter: str) -> int:
        """The column of a letter, UNREAD where nobody reads it or there is no such letter."""
        place = self._place.get(letter)
        return UNREAD if place is None else int(self.of_letter[place])

    def example(self, column: int) -> str:
        """The first letter of a column, for messages."""
        found: str = self.letters[self._first[column]]
        return found

    def spelled(self, text: str) -> list[str]:
        """A text as letters: its characters, or its words."""
        return list(text) if self.over == "characters" else text.split()


def _numbered(held: np.ndarray[tuple[int, int], np.dtype[np.bool_]], named: list[int]) -> Ints:
    """A column for each letter: named letters have their own, others share one if the same atoms hold them."""
    n = held.shape[1]
    shared, of_letter = np.unique(held, axis=1, return_inverse=True)
    of_letter = of_letter.reshape(-1) if n else np.zeros(0, dtype=np.int64)
    key = of_letter.astype(np.int64)
    key[~held.any(0)] = UNREAD
    own = sorted(set(named))
    key[own] = shared.shape[1] + np.arange(len(own))
    read = key >= 0
    columns = np.full(n, UNREAD, dtype=np.int64)
    columns[read] = np.unique(key[read], return_inverse=True)[1].reshape(-1)
    return columns


Node: TypeAlias = Hashable


class Language(ABC):
    """What a constraint asks of an automaton or a grammar. Nodes are values: equal ones go on alike."""

    columns: LetterColumns

    @property
    @abstractmethod
    def root(self) -> Node:
        """Before any letter."""

    @abstractmethod
    def weights(self, node: Node) -> Floats:
        """The weight of each letter of a column, (columns,); 0 forbids."""

    @abstractmethod
    def end(self, node: Node) -> float:
        """The weight of ending here."""

    @abstractmethod
    def after(self, node: Node, column: int) -> Node | None:
        """The node after a letter of this column; None if no string of the language goes on so."""

    @abstractmethod
    def shortest(self, node: Node) -> int:
        """How many letters there must be at least until a string can end."""
