"""A language, read letter by letter: the seam between automata or grammars and the background that they make.

    node = root;   node = after(node, column)                       None: no string of the language begins so
    weight of the next letter x at a node: weights(node)[column(x)],  of the end: end(node)

Boolean languages weigh 1 what keeps the string completable and 0 what does not. Weighted ones say how probable it is,
with all that can still follow counted in: Σ over letters + end = 1. A letter with weight above 0 is never a dead end.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.text.automata import DIGIT, KINDS, LOWER, SIGN, SPACE, UPPER, kind

# Letters: what automata and grammars read one by one, and which of them are told apart.
#
#     over symbols       a letter is a symbol of the vocabulary, and every symbol is one letter
#     over characters    a letter is a character, and a symbol spells some of them
#
# An atom is a set of letters. Letters that the atoms of an automaton or grammar do not tell apart share a column, so
# that a grammar of forty terminals has some forty columns, whatever the vocabulary.

Over = Literal["symbols", "characters"]
Bools = NDArray[np.bool_]
UNREAD = -1  # the column of letters that no atom holds
PROPERTIES = {"lower": LOWER, "upper": UPPER, "digit": DIGIT, "space": SPACE, "sign": SIGN}  # as in \p{lower}


class Atom(ABC):
    """A set of letters."""

    @abstractmethod
    def holds(self, letter: str) -> bool:
        """Whether a letter is in the set."""

    def held(self, letters: Sequence[str]) -> Bools:
        """Which letters are in the set, (letters,)."""
        return np.fromiter(map(self.holds, letters), dtype=np.bool_, count=len(letters))


@dataclass(frozen=True)
class Letter(Atom):
    """This letter."""

    text: str

    def holds(self, letter: str) -> bool:
        return letter == self.text

    def __str__(self) -> str:
        return self.text if self.text.isalnum() else f'"{self.text}"'


@dataclass(frozen=True)
class OneOf(Atom):
    """Single characters: of some ranges and categories; or all others."""

    ranges: tuple[tuple[str, str], ...] = ()
    categories: tuple[str, ...] = ()  # as regular expressions write them: r"\d", r"\p{lower}"
    negated: bool = False
    flags: str = ""  # "i": case is ignored, "a": categories are those of ASCII

    def holds(self, letter: str) -> bool:
        return len(letter) == 1 and _character_class(self.ranges, self.categories, self.flags)(letter) != self.negated

    def __str__(self) -> str:
        spans = "".join(first if first == last else f"{first}-{last}" for first, last in self.ranges)
        return f"[{'^' * self.negated}{spans}{''.join(self.categories)}]"


@lru_cache(maxsize=4096)
def _character_class(
    ranges: tuple[tuple[str, str], ...], categories: tuple[str, ...], flags: str
) -> Callable[[str], bool]:
    """Whether a character is of a class; Python's own `re` says what its categories and flags mean."""
    kinds = set[int]()
    for category in categories:
        if category[1] in "pP":
            own = {PROPERTIES[category[3:-1]]}
            kinds |= own if category[1] == "p" else set(range(len(KINDS))) - own
    inner = "".join(f"\\U{ord(first):08x}-\\U{ord(last):08x}" for first, last in ranges)
    inner += "".join(category for category in categories if category[1] not in "pP")
    regex = re.compile(f"(?{flags}:[{inner}])") if inner else None
    return lambda letter: bool((regex and regex.match(letter)) or (kinds and kind(letter) in kinds))


class LetterColumns:
    """The letters, sorted into columns by a set of atoms."""

    def __init__(self, letters: Sequence[str], atoms: Iterable[Atom], over: Over) -> None:
        self.letters, self.over = tuple(letters), over
        self._place = {letter: place for place, letter in enumerate(self.letters)}
        distinct = list(dict.fromkeys(atoms))
        named = [self._place[atom.text] for atom in distinct if isinstance(atom, Letter) and atom.text in self._place]
        sets = [atom for atom in distinct if not isinstance(atom, Letter)]
        held = np.array([atom.held(self.letters) for atom in sets], dtype=np.bool_).reshape(-1, len(self.letters))
        self.of_letter = _numbered(held, named)  # (letters,)
        self.count = int(self.of_letter.max(initial=UNREAD)) + 1
        self.sizes = np.bincount(self.of_letter[self.of_letter >= 0], minlength=self.count)  # (columns,)
        first = {column: place for place, column in reversed(list(enumerate(self.of_letter.tolist())))}
        self._examples: list[str] = [self.letters[first[column]] for column in range(self.count)]
        self._held = {
            atom: tuple(np.unique(self.of_letter[own]).tolist()) for atom, own in zip(sets, held, strict=True)
        }

    def held(self, atom: Atom) -> tuple[int, ...]:
        """The columns of the letters that an atom holds; it must not tell apart what shares a column."""
        if isinstance(atom, Letter):
            return (int(self.of_letter[self._place[atom.text]]),) if atom.text in self._place else ()
        if atom not in self._held:
            self._held[atom] = tuple(np.flatnonzero(atom.held(self._examples)).tolist())
        return self._held[atom]

    def column(self, letter: str) -> int:
        """The column of a letter, UNREAD where nobody reads it or there is no such letter."""
        place = self._place.get(letter)
        return UNREAD if place is None else int(self.of_letter[place])

    def example(self, column: int) -> str:
        """The first letter of a column, for messages."""
        return self._examples[column]

    def spelled(self, text: str) -> list[str]:
        """A text as letters: its characters, or its words."""
        return list(text) if self.over == "characters" else text.split()


def _numbered(held: Bools, named: list[int]) -> Ints:
    """A column for each letter: named letters have their own, others share one if the same atoms hold them."""
    n = held.shape[1]
    shared, of_letter = np.unique(held, axis=1, return_inverse=True)
    key = of_letter.reshape(-1).astype(np.int64) if n else np.zeros(0, dtype=np.int64)
    key[~held.any(0)] = UNREAD
    own = sorted(set(named))
    key[own] = shared.shape[1] + np.arange(len(own))
    read = key >= 0
    columns = np.full(n, UNREAD, dtype=np.int64)
    columns[read] = np.unique(key[read], return_inverse=True)[1].reshape(-1)
    return columns


Node: TypeAlias = Any  # whatever a language makes of a prefix; hashable, and equal ones go on alike


class Language(ABC):
    """What a constraint asks of an automaton or a grammar."""

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
