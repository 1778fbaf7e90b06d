r"""Patterns: a small regular-expression language, compiled into automata.

    pattern → tree → automaton with choices (Thompson) → sets of its states → minimised, within `anything()`

    a  \.        the character itself            \l  small letter      \d  one of 0 to 9
    .            any character                   \u  capital           \D  digit of any script
    [a-z\d]      one of these                    \s  white space       \p  sign: all else
    [^a-z]       any but these                   x|y  (x)  x*  x+  x?  x{2}  x{2,}  x{2,5}

A pattern speaks of whole strings. Characters that it names are told apart; `\l` covers those of them that are small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np

from llrnn.ground.errors import DomainError
from llrnn.text.automata.dfa import (
    CAPITAL,
    DIGIT,
    KINDS,
    SIGN,
    SMALL,
    SPACE,
    Automaton,
    Bools,
    anything,
    kind,
    permitted,
)

LONGEST_RANGE = 512
MOST_REPEATS = 64
MOST_STATES = 10_000
DEEPEST = 50  # groups within groups


@dataclass(frozen=True)
class _Atom:
    """One character out of some."""

    characters: frozenset[str] = frozenset()
    kinds: frozenset[int] = frozenset()
    negated: bool = False

    def columns(self, characters: tuple[str, ...]) -> list[bool]:
        """Which columns it covers in an automaton that tells these characters apart."""
        told = [c in self.characters or kind(c) in self.kinds for c in characters]
        return [held != self.negated for held in (*told, *(k in self.kinds for k in range(len(KINDS))))]


@dataclass(frozen=True)
class _Sequence:
    parts: tuple[_Node, ...]


@dataclass(frozen=True)
class _Choice:
    branches: tuple[_Node, ...]


@dataclass(frozen=True)
class _Repeat:
    node: _Node
    least: int
    most: int | None  # None: without end


_Node: TypeAlias = _Atom | _Sequence | _Choice | _Repeat

ESCAPES = {
    "l": _Atom(kinds=frozenset({SMALL})),
    "u": _Atom(kinds=frozenset({CAPITAL})),
    "s": _Atom(kinds=frozenset({SPACE})),
    "p": _Atom(kinds=frozenset({SIGN})),
    "D": _Atom(kinds=frozenset({DIGIT})),
    "d": _Atom(characters=frozenset("0123456789")),
}
REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _Parser:
    """Recursive descent; `at` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def refuse(self, reason: str, at: int | None = None) -> NoReturn:
        place = (self.at if at is None else at) + 1
        raise DomainError(f"the pattern {self.text!r} is wrong at column {place}: {reason}")

    @property
    def next(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def takes(self, character: str) -> bool:
        """Whether the next character is this one, which is then taken."""
        found = self.next == character
        self.at += found
        return found

    def whole(self) -> _Node:
        node = self.choice()
        if self.next:
            self.refuse(r"this ')' closes no group; for the sign write '\)'")
        return node

    def choice(self) -> _Node:
        branches = [self.sequence()]
        while self.takes("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else _Choice(tuple(branches))

    def sequence(self) -> _Node:
        parts = []
        while self.next and self.next not in "|)":
            parts.append(self.repeated())
        return _Sequence(tuple(parts))

    def repeated(self) -> _Node:
        node = self.single()
        if self.next and self.next in "*+?{":
            least, most = self.bounds() if self.takes("{") else REPEATS[self.take()]
            node = _Repeat(node, least, most)
            if self.next and self.next in "*+?{":
                self.refuse("a repeat may not be repeated; put it in a group, as in '(a+)?'")
        return node

    def bounds(self) -> tuple[int, int | None]:
        at = self.at - 1
        least = most = self.number()
        if self.takes(","):
            most = None if self.next == "}" else self.number()
        if least is None or not self.takes("}"):
            self.refuse("a repeat must be '{m}', '{m,}' or '{m,n}'", at)
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            self.refuse(f"a repeat '{{m,n}}' needs m <= n <= {MOST_REPEATS}", at)
        return least, most

    def number(self) -> int | None:
        start = self.at
        while self.next and self.next in "0123456789" and self.at < start + 9:  # more digits are too many anyway
            self.at += 1
        return int(self.text[start : self.at]) if self.at > start else None

    def single(self) -> _Node:
        if self.next == "(":
            return self.group()
        if self.takes("["):
            return self.characters()
        if self.takes("."):
            return _Atom(negated=True)
        if self.next in "*+?{":
            self.refuse(f"there is nothing before {self.next!r} to repeat; for the sign write '\\{self.next}'")
        if self.next in "]}":
            self.refuse(f"{self.next!r} closes nothing; for the sign write '\\{self.next}'")
        if self.next in "^$":
            self.refuse(f"a pattern always matches whole strings; for the sign write '\\{self.next}'")
        return self.character()

    def group(self) -> _Node:
        at, self.depth = self.at, self.depth + 1
        if self.depth > DEEPEST:
            self.refuse(f"groups may stand within groups {DEEPEST} deep, no more")
        self.take()
        node = self.choice()
        if not self.takes(")"):
            self.refuse("this '(' is never closed", at)
        self.depth -= 1
        return node

    def character(self) -> _Atom:
        """A literal, or an escape."""
        at, found = self.at, self.take()
        if found == "\\":
            if not self.next:
                self.refuse(r"a '\' must stand before a character", at)
            found = self.take()
            if found in ESCAPES:
                return ESCAPES[found]
            if found.isalnum():
                self.refuse(f"'\\{found}' means nothing; known are the escapes {' '.join(ESCAPES)}", at)
        if not permitted(found):
            self.refuse(f"no string holds {found!r} (line breaks and surrogates are never permitted)", at)
        return _Atom(frozenset(found))

    def characters(self) -> _Atom:
        """A class, after its '['."""
        at, negated = self.at - 1, self.takes("^")
        found: list[_Atom] = []
        while self.next != "]" or not found:
            if self.next in ("", "]"):
                self.refuse(r"a class must hold a character and end with ']'; for the sign write '\]'", at)
            found.append(self.span())
        self.take()
        characters = frozenset[str]().union(*(atom.characters for atom in found))
        return _Atom(characters, frozenset[int]().union(*(atom.kinds for atom in found)), negated)

    def span(self) -> _Atom:
        """One character or escape of a class, or the range from one to another."""
        at, first = self.at, self.character()
        if self.next != "-" or self.text[self.at + 1 : self.at + 2] in ("", "]"):
            return first
        self.take()
        last = self.character()
        if len(first.characters) != 1 or len(last.characters) != 1:
            self.refuse(r"a range must go from one character to another; for the sign write '\-'", at)
        low, high = (ord(*atom.characters) for atom in (first, last))
        if not 0 <= high - low < LONGEST_RANGE:
            self.refuse(f"a range must go upwards, over at most {LONGEST_RANGE} characters; kinds (\\l) hold more", at)
        return _Atom(frozenset(filter(permitted, map(chr, range(low, high + 1)))))


class _Choices:
    """An automaton that may be in many states at once (Thompson): moves by atoms, and moves for nothing."""

    def __init__(self, text: str, node: _Node) -> None:
        self.text = text
        self.moves: list[list[tuple[_Atom, int]]] = []
        self.free: list[list[int]] = []
        self.start = self.state()
        self.end = self.add(node, self.start)

    def state(self, *before: int) -> int:
        """A new state, which is reached for nothing from those before."""
        _check_size(self.text, len(self.moves))
        self.moves.append([])
        self.free.append([])
        for state in before:
            self.free[state].append(len(self.moves) - 1)
        return len(self.moves) - 1

    def add(self, node: _Node, start: int) -> int:
        """Read the node from `start` on; gives the state after it. No move is ever added into `start`."""
        match node:
            case _Atom():
                end = self.state()
                self.moves[start].append((node, end))
                return end
            case _Sequence(parts):
                for part in parts:
                    start = self.add(part, start)
                return start
            case _Choice(branches):
                return self.state(*[self.add(branch, start) for branch in branches])
            case _Repeat():
                return self.repeat(node, start)

    def repeat(self, node: _Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self.add(node.node, start)
        if node.most is None:
            loop = self.state(start)
            self.free[self.add(node.node, loop)].append(loop)
            return loop
        ends = [start]
        for _ in range(node.most - node.least):
            ends.append(self.add(node.node, ends[-1]))
        return self.state(*ends)

    def closed(self, states: Iterable[int]) -> frozenset[int]:
        """These, and what is reached from them for nothing."""
        found, stack = set(states), list(states)
        while stack:
            fresh = [state for state in self.free[stack.pop()] if state not in found]
            found.update(fresh)
            stack += fresh
        return frozenset(found)

    def determined(self) -> Automaton:
        """The automaton whose states are sets of ours."""
        atoms = {atom: row for row, atom in enumerate({atom: None for moves in self.moves for atom, _ in moves})}
        characters = tuple(sorted(frozenset[str]().union(*(atom.characters for atom in atoms))))
        width = len(characters) + len(KINDS)
        covers: Bools = np.array([a.columns(characters) for a in atoms], dtype=np.bool_).reshape(len(atoms), width)
        groups, group = np.unique(covers, axis=1, return_inverse=True)  # columns that no atom tells apart
        held = groups.T.tolist()
        sets = [self.closed([self.start])]
        number, moves = {sets[0]: 0}, list[list[int]]()
        for states in sets:  # grows while we read it
            _check_size(self.text, len(sets))
            ways = [(atoms[atom], end) for state in states for atom, end in self.moves[state]]
            after = [self.closed({end for row, end in ways if column[row]}) for column in held]
            sets += [new for new in dict.fromkeys(after) if new not in number]
            number.update((new, len(number)) for new in dict.fromkeys(after) if new not in number)
            moves.append([number[new] for new in after])
        labels = np.array([0 if self.end in states else -1 for states in sets])
        return Automaton(characters, np.array(moves)[:, group.reshape(-1)], labels)


def _check_size(text: str, found: int) -> None:
    if found > MOST_STATES:
        raise DomainError(f"the pattern {text!r} needs more than {MOST_STATES} states; repeat less, or nest less")


def pattern(text: str) -> Automaton:
    """Label 0 where the whole string matches; never where `check_string` refuses the string."""
    return _Choices(text, _Parser(text).whole()).determined().minimised().both(anything())
