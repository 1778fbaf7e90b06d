"""Deterministic finite automata with labels: every string ends in one state, whose label is the answer.

    state(c_1 … c_n) = moves[state(c_1 … c_{n-1}), column(c_n)],   state("") = 0
    label(string)    = labels[state(string)]                       -1: outside

Some characters are told apart one by one; each has a column. Any other character moves by its kind (small letter,
capital, digit, white space, sign), so that an automaton of a few columns answers for all of Unicode. Kinds are those of
Unicode 3.2, which every Python carries: a label never changes with the version of Python.
"""

from __future__ import annotations

import string as ascii_letters
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import DomainError

__all__ = [
    "DFA",
    "KINDS",
    "anything",
    "check_string",
    "first_of",
    "kind",
    "partition",
    "pattern",
    "permitted",
]


Bools = NDArray[np.bool_]

KINDS = ("small", "capital", "digit", "space", "sign")
SMALL, CAPITAL, DIGIT, SPACE, SIGN = range(len(KINDS))
LINE_BREAKS = frozenset("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")  # where str.splitlines breaks
# what a reader would expect as an example of a kind; other characters are tried after these
EXAMPLES = (
    ascii_letters.ascii_lowercase,
    ascii_letters.ascii_uppercase,
    ascii_letters.digits,
    " ",
    "-!" + ascii_letters.punctuation,
)


def kind(character: str) -> int:
    """The place in KINDS; letters without case and marks count as small."""
    if character.isspace():
        return SPACE
    category = unicodedata.ucd_3_2_0.category(character)
    if category in ("Lu", "Lt"):
        return CAPITAL
    if category[0] in "LM":
        return SMALL
    return DIGIT if category == "Nd" else SIGN


def permitted(character: str) -> bool:
    """Whether a string may hold this character: no line break, no surrogate."""
    return character not in LINE_BREAKS and not "\ud800" <= character <= "\udfff"


def check_string(string: str) -> str | None:
    """Why a string can be no symbol; None if it can."""
    if not string:
        return "it is empty"
    for character in string:
        if not permitted(character):
            what = "a line break" if character in LINE_BREAKS else "a surrogate"
            return f"it holds {what}, {character!r}"
    return "it has white space at an end" if string.strip() != string else None


@lru_cache(maxsize=1024)
def _example(number: int, taken: frozenset[str]) -> str | None:
    """A permitted character of a kind that is not taken; None if all of them are."""
    candidates = chain(EXAMPLES[number], map(chr, range(0x110000)))
    return next((c for c in candidates if c not in taken and kind(c) == number and permitted(c)), None)


@dataclass(frozen=True, eq=False)
class DFA:
    """A total automaton; state 0 is the start."""

    characters: tuple[str, ...]  # sorted: those told apart; any other character moves by its kind
    moves: Ints  # (states, characters + kinds) the next state
    labels: Ints  # (states,) -1: outside

    def __post_init__(self) -> None:
        n, width = len(self.labels), len(self.characters) + len(KINDS)
        if list(self.characters) != sorted(set(self.characters)):
            raise DomainError("the characters of an automaton must be distinct and sorted; sort them")
        for character in self.characters:
            if len(character) != 1 or not permitted(character):
                raise DomainError(f"an automaton tells apart single characters without line breaks, not {character!r}")
        if n == 0 or self.labels.ndim != 1 or self.moves.shape != (n, width):
            raise DomainError(
                "an automaton needs at least one state, and a move for each state and column: "
                f"required ({n}, {width}), found {self.moves.shape}"
            )
        if self.moves.min() < 0 or self.moves.max() >= n:
            raise DomainError(f"moves must lead to one of the states 0 to {n - 1}, found {_stray(self.moves, n)}")
        if self.labels.min() < -1:
            raise DomainError(f"labels must be -1 (outside), 0, 1, 2, ..., found {self.labels.min()}")

    def __repr__(self) -> str:
        return f"DFA({len(self.labels)} states, {len(self.characters)} characters told apart)"

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {character: number for number, character in enumerate(self.characters)}

    @cached_property
    def _examples(self) -> tuple[str | None, ...]:
        """A character for each column; None where all characters of a kind are told apart."""
        taken = [frozenset(c for c in self.characters if kind(c) == number) for number in range(len(KINDS))]
        return (*self.characters, *(_example(number, taken[number]) for number in range(len(KINDS))))

    @property
    def _usable(self) -> Ints:
        return np.array([column for column, example in enumerate(self._examples) if example is not None])

    def column(self, character: str) -> int:
        """The column by which a permitted character moves."""
        found = self._columns.get(character)
        return len(self.characters) + kind(character) if found is None else found

    def label(self, string: str) -> int:
        """The answer; a string with characters that are not permitted is outside."""
        state = 0
        for character in string:
            if not permitted(character):
                return -1
            state = int(self.moves[state, self.column(character)])
        return int(self.labels[state])

    def label_all(self, strings: Sequence[str]) -> Ints:
        """The answers for many strings, one position of all of them at a time."""
        n = len(self.labels)
        moves = np.pad(self.moves, ((0, 1), (0, 1)), constant_values=n)  # one more state for what is not permitted
        lengths = np.array([len(string) for string in strings], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")  # longest first: those that go on are a prefix
        starts, falling = (np.cumsum(lengths) - lengths)[order], -lengths[order]
        columns = self._columns_of("".join(strings))
        states = np.zeros(len(strings), dtype=np.int64)
        for t in range(int(lengths.max(initial=0))):
            on = int(np.searchsorted(falling, -t))
            states[:on] = moves[states[:on], columns[starts[:on] + t]]
        answers = np.empty(len(strings), dtype=np.int64)
        answers[order] = np.append(self.labels, -1)[states]
        return answers

    def _columns_of(self, text: str) -> Ints:
        """The column of every character, one past the last for those that are not permitted."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        column = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
        for character in set(text):
            column[ord(character)] = self.column(character) if permitted(character) else self.moves.shape[1]
        return column[codes]

    def refined(self, characters: Iterable[str]) -> DFA:
        """The same answers, with more characters told apart."""
        told = tuple(sorted({*self.characters, *characters}))
        kinds = range(len(self.characters), self.moves.shape[1])
        return DFA(told, self.moves[:, [*map(self.column, told), *kinds]], self.labels)

    def product(self, other: DFA, combine: Callable[[int, int], int]) -> DFA:
        """Both side by side, with labels from both, minimised."""
        a, b = self.refined(other.characters), other.refined(self.characters)
        n = len(b.labels)  # the pair (s, t) is the number s n + t
        pairs = fresh = np.zeros(1, dtype=np.int64)
        while len(fresh):
            reached = np.unique(a.moves[fresh // n] * n + b.moves[fresh % n])
            fresh = np.setdiff1d(reached, pairs, assume_unique=True)
            pairs = np.union1d(pairs, fresh)
        moves = np.searchsorted(pairs, a.moves[pairs // n] * n + b.moves[pairs % n])
        both = zip(a.labels[pairs // n].tolist(), b.labels[pairs % n].tolist(), strict=True)
        labels = np.array([combine(x, y) for x, y in both], dtype=np.int64)
        return DFA(a.characters, moves, labels).minimised()

    def both(self, other: DFA) -> DFA:
        """The strings inside of both, with the labels of this one."""
        return self.product(other, lambda x, y: x if y >= 0 else -1)

    __and__ = both

    def minus(self, other: DFA) -> DFA:
        """The strings that are outside of the other, with the labels of this one."""
        return self.product(other, lambda x, y: x if y < 0 else -1)

    def minimised(self) -> DFA:
        """The fewest states, numbered breadth first: equal answers and equal `characters` give equal arrays."""
        moves = np.repeat(np.arange(len(self.labels))[:, None], self.moves.shape[1], axis=1)
        moves[:, self._usable] = self.moves[:, self._usable]  # columns without characters stay where they are
        moves, labels = _numbered(moves, self.labels, start=0)
        distinct = np.unique(moves, axis=1)  # equal columns tell the same states apart
        # states with different distances differ: long words are told apart at once, not one character a round
        classes, n = _classes(labels, _distances(distinct, labels >= 0)), 0
        while classes.max() >= n:  # Moore: states part that move into different classes
            n = classes.max() + 1
            classes = _classes(classes, classes[distinct])
        first = np.unique(classes, return_index=True)[1]
        return DFA(self.characters, *_numbered(classes[moves[first]], labels[first], start=classes[0]))

    def witness(self, label: int | None = None) -> str | None:
        """A shortest string with this label, or with any label but -1; None if there is none."""
        wanted = self.labels >= 0 if label is None else self.labels == label
        found: dict[int, str] = {0: ""}
        queue = [0]
        for state in queue:  # grows while we read it: breadth first
            if wanted[state]:
                return found[state]
            for example, after in zip(self._examples, self.moves[state].tolist(), strict=True):
                if example is not None and after not in found:
                    found[after] = found[state] + example
                    queue.append(after)
        return None

    def count(self, label: int) -> int | None:
        """How many strings have this label; None if without bound (a cycle, or a kind, whose characters abound)."""
        small, own = self.minimised(), len(self.characters)
        useful = _distances(small.moves[:, small._usable], small.labels == label) >= 0
        by_kind = small._usable[small._usable >= own]
        if useful[small.moves[useful][:, by_kind]].any():
            return None
        after = {s: [t for t in small.moves[s, :own].tolist() if useful[t]] for s in np.flatnonzero(useful).tolist()}
        try:
            order = list(TopologicalSorter({s: set(t) for s, t in after.items()}).static_order())
        except CycleError:
            return None
        strings: dict[int, int] = {}  # from each state on; the states behind it come first
        for s in order:
            strings[s] = int(small.labels[s] == label) + sum(strings[t] for t in after[s])
        return strings.get(0, 0)

    def strings(self, label: int, limit: int) -> list[str]:
        """The first strings with this label, shortest first, then in the order of characters."""
        total = self.count(label)
        if total is None:
            raise DomainError(
                f"strings can be listed only where they are bounded, but those of label {label} are not; use `witness`"
            )
        own, found = len(self.characters), list[str]()
        exactly = [self.labels == label]  # [k][state]: whether k more characters can lead to the label
        while len(found) < min(limit, total):
            found += self._of_length(exactly, limit - len(found))
            exactly.append(exactly[-1][self.moves[:, :own]].any(1))
        return found

    def _of_length(self, exactly: list[Bools], limit: int) -> list[str]:
        """The first strings as long as the last of `exactly` says; no step is taken in vain."""
        own, found, stack = len(self.characters), list[str](), [(0, "")] if exactly[-1][0] else []
        while stack and len(found) < limit:
            state, string = stack.pop()
            left = len(exactly) - 1 - len(string)
            if left == 0:
                found.append(string)
                continue
            ways = list(zip(self.characters, self.moves[state, :own].tolist(), strict=True))
            stack += [(after, string + c) for c, after in reversed(ways) if exactly[left - 1][after]]
        return found

    def described(self) -> dict[str, Any]:
        """Plain data, for files."""
        return {"characters": list(self.characters), "moves": self.moves.tolist(), "labels": self.labels.tolist()}

    @classmethod
    def restored(cls, data: Mapping[str, Any]) -> DFA:
        """What `described` gave."""
        try:
            characters, moves, labels = (tuple(data["characters"]), np.array(data["moves"]), np.array(data["labels"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DomainError(f"an automaton needs `characters`, `moves` and `labels` as lists: {error!r}") from error
        if moves.dtype.kind != "i" or labels.dtype.kind != "i" or not all(isinstance(c, str) for c in characters):
            raise DomainError("the characters of an automaton must be texts, its moves and labels whole numbers")
        if labels.ndim != 1:
            raise DomainError(f"the labels of an automaton must be one list of numbers, found shape {labels.shape}")
        return cls(characters, moves.astype(np.int64), labels.astype(np.int64))


def _stray(moves: Ints, n: int) -> int:
    return int(moves[(moves < 0) | (moves >= n)][0])


def _classes(*values: Ints) -> Ints:
    """The same number for the same values."""
    return np.unique(np.column_stack(values), axis=0, return_inverse=True)[1].reshape(-1)  # numpy 2.0 gives a column


def _distances(moves: Ints, goal: Bools) -> Ints:
    """How many moves lead from each state to a goal at least; -1 if none do."""
    distances, reached, step = np.where(goal, 0, -1), goal, 0
    while reached.any():
        reached, step = (distances < 0) & reached[moves].any(1), step + 1
        distances[reached] = step
    return distances


def _numbered(moves: Ints, labels: Ints, *, start: int) -> tuple[Ints, Ints]:
    """The states that can be reached, in the order of a breadth-first walk."""
    place = np.full(len(labels), -1)
    place[start] = 0
    levels = [np.array([start])]
    n = 1
    while len(levels[-1]):
        reached = moves[levels[-1]].reshape(-1)
        reached = reached[place[reached] < 0]
        reached = reached[np.sort(np.unique(reached, return_index=True)[1])]  # distinct, first come first
        place[reached] = n + np.arange(len(reached))
        n += len(reached)
        levels.append(reached)
    order = np.concatenate(levels)
    return place[moves[order]], labels[order]


def anything() -> DFA:
    """Every string that `check_string` accepts, with label 0."""
    word, gap, dead = 1, 2, 3  # after a letter, after white space, lost; 0 is the start
    moves = np.full((4, len(KINDS)), word)
    moves[:, SPACE] = [dead, gap, gap, dead]
    moves[dead] = dead
    return DFA((), moves, np.where(np.arange(4) == word, 0, -1))


def nothing() -> DFA:
    """No string at all."""
    return DFA((), np.zeros((1, len(KINDS)), dtype=np.int64), np.array([-1]))


def first_of(automata: Sequence[DFA]) -> DFA:
    """Label i: the first automaton that accepts the string is the i-th."""
    result = nothing()
    for number, automaton in enumerate(automata):
        result = _or_else(result, automaton, number)
    return result


def _or_else(first: DFA, second: DFA, number: int) -> DFA:
    """The first, and `number` for the strings that only the second accepts."""
    return first.product(second, lambda x, y: x if x >= 0 or y < 0 else number)


def partition(named: Mapping[str, DFA], whole: DFA | None = None) -> DFA:
    """Label i: the string is in the i-th cell. Cells may not overlap; with `whole` they fill it and no more."""
    names, result = list(named), nothing()
    for number, (name, cell) in enumerate(named.items()):
        overlap = result.both(cell)
        shared = overlap.witness()
        if shared is not None:
            raise DomainError(
                f"cells must not overlap, but {names[overlap.label(shared)]!r} and {name!r} both hold {shared!r}; "
                "narrow one of them"
            )
        if whole is not None and (stray := cell.minus(whole).witness()) is not None:
            raise DomainError(f"the cell {name!r} holds {stray!r}, which is outside of the whole; narrow the cell")
        result = _or_else(result, cell, number)
    if whole is not None and (missed := whole.minus(result).witness()) is not None:
        raise DomainError(f"the cells miss {missed!r}; add a cell for it, or widen one")
    return result


# Patterns: a small regular-expression language, compiled into automata.
#
#     pattern → tree → automaton with choices (Thompson) → sets of its states → minimised, within `anything()`
#
#     a  \.        the character itself            \l  small letter      \d  one of 0 to 9
#     .            any character                   \u  capital           \D  digit of any script
#     [a-z\d]      one of these                    \s  white space       \p  sign: all else
#     [^a-z]       any but these                   x|y  (x)  x*  x+  x?  x{2}  x{2,}  x{2,5}
#
# A pattern speaks of whole strings. Characters that it names are told apart; `\l` covers those of them that are small.


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

    def determined(self) -> DFA:
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
        return DFA(characters, np.array(moves)[:, group.reshape(-1)], labels)


def _check_size(text: str, found: int) -> None:
    if found > MOST_STATES:
        raise DomainError(f"the pattern {text!r} needs more than {MOST_STATES} states; repeat less, or nest less")


def pattern(text: str) -> DFA:
    """Label 0 where the whole string matches; never where `check_string` refuses the string."""
    return _Choices(text, _Parser(text).whole()).determined().minimised().both(anything())
