"""Expressions: what an automaton is made of, before it knows its vocabulary.

a + b     one after the other          a | b     either              a & b     strings of both
a.repeated()                           any number of times
a.times(2, 5)                          from twice to five times
words(["new york", "boston"])          a list
from_condition(function)               what a function makes of the condition, at each text anew
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.automaton import (
    Atom,
    FiniteAutomaton,
    Letter,
    LetterColumns,
    Over,
    both,
    check_size,
    merged,
)

MOST_TIMES = 1_000  # of a part that is repeated from so often to so often


@dataclass(frozen=True)
class Expression:
    """A set of strings. Parts are in fields: `parts`, a tuple, or one field each."""

    def __add__(self, other: Expression) -> Expression:
        return Concatenation((*_parts(self, Concatenation), *_parts(other, Concatenation)))

    def __or__(self, other: Expression) -> Expression:
        return Alternation((*_parts(self, Alternation), *_parts(other, Alternation)))

    def __and__(self, other: Expression) -> Expression:
        return Both(self, _checked(other))

    def repeated(self) -> Expression:
        """Any number of times, none at all included."""
        return Repeat(self)

    def times(self, least: int, most: int | None = None) -> Expression:
        """From so often to so often; exactly so often if only one number is given."""
        return Times(self, least, least if most is None else most)

    def optional(self) -> Expression:
        return Alternation((self, NOTHING))

    @property
    def inner(self) -> tuple[Expression, ...]:
        """The parts that it is made of."""
        given = vars(self)
        return given["parts"] if "parts" in given else tuple(v for v in given.values() if isinstance(v, Expression))

    def mapped(self, function: Callable[[Expression], Expression]) -> Expression:
        """The same expression of other parts."""
        made = iter([function(part) for part in self.inner])
        if isinstance(self, Concatenation | Alternation):
            return type(self)(tuple(made))
        return replace(self, **{name: next(made) for name, v in vars(self).items() if isinstance(v, Expression)})


@dataclass(frozen=True)
class One(Expression):
    """One letter out of those that an atom holds."""

    atom: Atom


@dataclass(frozen=True)
class Concatenation(Expression):
    """One after the other; nothing at all if there are no parts."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Alternation(Expression):
    """Any of them."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeat(Expression):
    """Any number of times."""

    part: Expression


@dataclass(frozen=True)
class Times(Expression):
    """From so often to so often."""

    part: Expression
    least: int
    most: int

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most <= MOST_TIMES:
            found = f"found {self.least} and {self.most}"
            raise BackgroundError(f"times takes two numbers, 0 ≤ least ≤ most ≤ {MOST_TIMES}, {found}")


@dataclass(frozen=True)
class Both(Expression):
    """The strings of both."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Listed(Expression):
    """A list of texts; a text is read as its words or its characters, as the automaton does."""

    entries: tuple[str, ...]


@dataclass(frozen=True)
class ConditionExpression(Expression):
    """What a function makes of the condition; None if nothing fits."""

    function: Callable[[object], Expression | None]


NOTHING: Expression = Concatenation(())


def letter(text: str) -> Expression:
    """This one letter, a symbol or a character: `letter("the") + (letter("cat") | letter("dog"))`."""
    return One(Letter(text))


def words(texts: Iterable[str]) -> Expression:
    """Any text of a list: `words(["new york", "boston"])`."""
    if isinstance(texts, Mapping):
        raise BackgroundError("an automaton has no weights: give a list of words, or a grammar with weights")
    found = tuple(sorted(set(texts)))
    if not found:
        raise BackgroundError("a list of words must hold at least one word, found none")
    return Listed(found)


def from_condition(function: Callable[[object], Expression | None]) -> Expression:
    """What a function makes of the condition, at each text anew: `from_condition(lambda condition: words(condition))`.

    `function(condition)` gives an expression, or None if nothing fits.
    """
    if not callable(function):
        raise BackgroundError(f"from_condition takes a function of the condition, found {function!r}")
    return ConditionExpression(function)


def parts_of(expression: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of."""
    stack = [expression]
    while stack:
        yield (found := stack.pop())
        stack += found.inner


def holes_of(expression: Expression) -> tuple[ConditionExpression, ...]:
    """What comes from the condition, each once."""
    return tuple(dict.fromkeys(part for part in parts_of(expression) if isinstance(part, ConditionExpression)))


def _checked(found: object) -> Expression:
    if not isinstance(found, Expression):
        raise BackgroundError(f"expressions are combined with expressions, found {found!r}; for a word: letter('word')")
    return found


def _parts(found: object, of: type[Concatenation | Alternation]) -> tuple[Expression, ...]:
    """The parts, so that a + b + c + ... does not nest as deep as it is long."""
    checked = _checked(found)
    return checked.parts if isinstance(checked, of) else (checked,)


LONGEST_SHOWN, DEEPEST_SHOWN = 60, 6


def shown(expression: Expression) -> str:
    """`(big | small)* cat`, as in `symbolic`; for messages, cut where it is long, and not to be read back."""
    text = _text(expression, DEEPEST_SHOWN)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 4] + " ..."


def _text(expression: Expression, depth: int) -> str:
    if depth == 0:
        return "..."
    match expression:
        case One(atom):
            return str(atom)
        case Concatenation(parts):
            return " ".join(_text(part, depth - 1) for part in parts[:LONGEST_SHOWN]) or "()"
        case Alternation(parts):
            return f"({' | '.join(_text(part, depth - 1) for part in parts[:LONGEST_SHOWN])})"
        case Repeat(part):
            return f"({_text(part, depth - 1)})*"
        case Times(part, least, most):
            return f"({_text(part, depth - 1)}){{{least},{most}}}"
        case Both(left, right):
            return f"({_text(left, depth - 1)} & {_text(right, depth - 1)})"
        case Listed(entries):
            return f"words({', '.join(map(repr, entries[:2]))}{', ...' * (len(entries) > 2)})"
        case ConditionExpression(function):
            return f"from_condition({getattr(function, '__name__', '...')})"
    raise TypeError(f"no expression: {expression!r}")


# Expressions, compiled into automata for the columns of a vocabulary (Glushkov's construction).
#
#     a part is its first moves, its stops, and whether it holds nothing; moves that were made are never changed again
#
#     a | b     first_a, first_b                            stop_a, stop_b
#     a b       first_a, first_b where a may be nothing     stop_b, stop_a where b may be      and moves stop_a first_b
#     a*        first_a                                     stop_a, nothing                    and moves stop_a first_a


_BEFORE = -1  # the state before the first move of a part
_Move: TypeAlias = tuple[tuple[int, ...], int]  # columns, target


def atoms_of(expression: Expression, over: Over) -> list[Atom]:
    """What the letters are told apart by; the letters of listed texts are among it."""
    found: dict[Atom, None] = {}
    for part in parts_of(expression):
        match part:
            case One(atom):
                found[atom] = None
            case Listed(entries):
                letters = (letter for text in entries for letter in (text if over == "characters" else text.split()))
                found.update((Letter(letter), None) for letter in dict.fromkeys(letters))
            case _:
                pass
    return list(found)


def columns_of(expression: Expression, letters: Sequence[str], over: Over) -> LetterColumns:
    """The columns for an expression. Who looks at conditions may be told of any letter: then each has its own."""
    if holes_of(expression):
        return LetterColumns(letters, [Letter(letter) for letter in letters], over)
    return LetterColumns(letters, atoms_of(expression, over), over)


def compiled(
    expression: Expression, columns: LetterColumns, *, holes: Sequence[ConditionExpression] = ()
) -> FiniteAutomaton:
    """The automaton of an expression, trimmed. `holes` are read as one letter each, of the columns after all others."""
    builder = _Builder(columns, {hole: columns.count + number for number, hole in enumerate(holes)})
    try:
        return builder.machine(builder.part(expression))
    except RecursionError:
        raise BackgroundError("an expression may be nested some hundred times, found more: nest less") from None


@dataclass
class _Fragment:
    """A part under construction."""

    first: list[_Move] = field(default_factory=list)
    stops: set[int] = field(default_factory=set)
    empty: bool = False


class _Builder:
    """All moves so far; parts refer to its states, numbered from 0 (the start comes before them all, in the end)."""

    def __init__(self, columns: LetterColumns, holes: dict[ConditionExpression, int]) -> None:
        self.columns, self.holes = columns, holes
        self.n_states, self.n_moves = 0, 0
        self.moves: list[tuple[int, tuple[int, ...], int]] = []

    def state(self) -> int:
        self.n_states += 1
        return self.n_states - 1

    def move(self, source: int, columns: tuple[int, ...], target: int) -> None:
        self.n_moves += len(columns)
        check_size(self.n_states, self.n_moves, "this expression")
        self.moves.append((source, columns, target))

    def part(self, expression: Expression) -> _Fragment:
        match expression:
            case One(atom):
                return self.one(self.held(atom))
            case Concatenation(parts):
                return self.sequence([self.part(part) for part in parts])
            case Alternation(parts):
                return self.choice([self.part(part) for part in parts])
            case Repeat(part):
                again = self.part(part)
                self.attach(again.stops, again.first)
                return _Fragment(again.first, again.stops, True)
            case Times(part, least, most):
                return self.times(part, least, most)
            case Both(left, right):
                return self.adopted(both(self.apart(left), self.apart(right)))
            case Listed(entries):
                return self.listed(entries)
            case ConditionExpression():
                if expression not in self.holes:
                    raise BackgroundError(
                        "what comes from the condition is known when a condition is: Conditional compiles it"
                    )
                return self.one((self.holes[expression],))
        raise TypeError(f"no expression: {expression!r}")

    def held(self, atom: Atom) -> tuple[int, ...]:
        columns = self.columns.held(atom)
        if isinstance(atom, Letter) and any(self.columns.sizes[column] != 1 for column in columns):
            raise BackgroundError(
                f"{atom.text!r} must have a column of its own, found one that it shares; "
                "make the columns of the same expression: columns_of(expression, letters, over)"
            )
        return columns

    def one(self, columns: tuple[int, ...]) -> _Fragment:
        after = self.state()
        return _Fragment([(columns, after)] if columns else [], {after})

    def choice(self, parts: Iterable[_Fragment]) -> _Fragment:
        whole = _Fragment()
        for part in parts:
            whole.first += part.first
            whole.stops |= part.stops
            whole.empty |= part.empty
        return whole

    def sequence(self, parts: Sequence[_Fragment]) -> _Fragment:
        """From the back: what follows a part is known when the part is joined to it."""
        whole = _Fragment(empty=True)
        for part in reversed(parts):
            whole = self.joined(part, whole)
        return whole

    def joined(self, part: _Fragment, rest: _Fragment) -> _Fragment:
        self.attach(part.stops, rest.first)
        first = part.first + (rest.first if part.empty else [])
        stops = rest.stops | part.stops if rest.empty else rest.stops
        return _Fragment(first, stops, part.empty and rest.empty)

    def attach(self, stops: Iterable[int], first: Sequence[_Move]) -> None:
        for state in stops:
            for columns, target in first:
                self.move(state, columns, target)

    def times(self, expression: Expression, least: int, most: int) -> _Fragment:
        """From the back: at each time beyond the least one may also stop."""
        whole = _Fragment(empty=True)
        for time in range(most, 0, -1):
            whole = self.joined(self.part(expression), whole)
            whole.empty |= time > least
        return whole

    def listed(self, entries: Sequence[str]) -> _Fragment:
        """A trie, whose texts all end in one state: what follows them is attached once."""
        end, below = self.state(), dict[tuple[int, int], int]()
        whole = _Fragment(stops={end})
        spelled = [self.columns.spelled(text) for text in entries]
        held = {letter: self.held(Letter(letter)) for letter in {letter for text in spelled for letter in text}}
        for text in spelled:
            letters = [held[letter] for letter in text]
            if not all(letters):  # a letter that is none here: no string over these letters is this text
                continue
            if not letters:
                whole.empty = True
                continue
            node = _BEFORE
            for columns in letters[:-1]:
                key = (node, columns[0])
                if key not in below:
                    below[key] = self.state()
                    self.begin(whole, node, columns, below[key])
                node = below[key]
            self.begin(whole, node, letters[-1], end)
        return whole

    def begin(self, part: _Fragment, source: int, columns: tuple[int, ...], target: int) -> None:
        """A move from a state, or one of the first moves of a part."""
        if source == _BEFORE:
            part.first.append((columns, target))
        else:
            self.move(source, columns, target)

    def apart(self, expression: Expression) -> FiniteAutomaton:
        own = _Builder(self.columns, self.holes)
        return own.machine(own.part(expression))

    def adopted(self, machine: FiniteAutomaton) -> _Fragment:
        """A machine as a part of this one; its start, to which nothing leads, becomes first moves."""
        offset = self.n_states - 1
        self.n_states += machine.n_states - 1
        part = _Fragment(empty=bool(machine.stops[0]))
        for source, moves in enumerate(machine.by_state):
            for column, target in moves:
                self.begin(part, source + offset if source else _BEFORE, (column,), target + offset)
        part.stops = {state + offset for state in np.flatnonzero(machine.stops).tolist() if state}
        return part

    def machine(self, part: _Fragment) -> FiniteAutomaton:
        """All moves as arrays, with the start in front."""
        for columns, target in part.first:
            self.move(_BEFORE, columns, target)
        many = np.array([len(columns) for _, columns, _ in self.moves], dtype=np.int64)
        column = np.fromiter((c for _, columns, _ in self.moves for c in columns), np.int64, int(many.sum()))
        source = np.array([move[0] + 1 for move in self.moves], dtype=np.int64).repeat(many)
        after = np.array([move[2] + 1 for move in self.moves], dtype=np.int64).repeat(many)
        stops = np.zeros(self.n_states + 1, dtype=np.bool_)
        stops[[state + 1 for state in part.stops]] = True
        stops[0] = part.empty
        return merged(self.columns, (source, column, after), stops).trimmed()
