"""Expressions, compiled into automata for the columns of a vocabulary (Glushkov's construction, with weights).

    a part is its first moves, its stops and e, the weight of nothing; moves that were made are never changed again

    a | b     first_a, first_b             stop_a, stop_b           e_a + e_b
    a b       first_a, e_a·first_b         e_b·stop_a, stop_b       e_a·e_b           and moves stop_a·first_b
    a*        f·first_a                    c·stop_a                 c                 and moves stop_a·f·first_a
              c = 1 / (1 − again·e_a) is the geometric series of nothing, f = again·c

No move is ever for nothing, so every weight is exact. Without weights the same holds with 1 + 1 = 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.backward import InfiniteMassError
from llrnn.languages.grammars.contexts import context_machine
from llrnn.languages.grammars.expressions import Expression, parts_of
from llrnn.languages.grammars.letters import Atom, Columns, Letter, Over
from llrnn.languages.grammars.moves import Machine, both, check_size, merged
from llrnn.languages.grammars.showing import shown
from llrnn.languages.ngrams import UNKNOWN
from llrnn.text.vocabulary import EOS

__all__ = ["Machine", "atoms_of", "columns_of", "compiled"]

NEVER = -math.inf  # log 0
_BEFORE = -1  # the state before the first move of a part
_Move: TypeAlias = tuple[tuple[int, ...], int, float]  # columns, target, log weight


def atoms_of(expression: Expression, over: Over) -> list[Atom]:
    """What the letters are told apart by; the letters of listed texts and of n-gram models are among it."""
    found: dict[Atom, None] = {}
    for part in parts_of(expression):
        match part:
            case ex.One(atom):
                found[atom] = None
            case ex.Listed(entries):
                letters = (letter for text, _ in entries for letter in (text if over == "characters" else text.split()))
                found.update((Letter(letter), None) for letter in dict.fromkeys(letters))
            case ex.NGrams(table):
                found.update((Letter(word), None) for word in table.words if word not in (EOS, UNKNOWN))
            case _:
                pass
    return list(found)


def columns_of(expression: Expression, letters: Sequence[str], over: Over) -> Columns:
    """The columns for an expression. Who looks at conditions may be told of any letter: then each has its own."""
    if any(isinstance(part, ex.FromCondition) for part in parts_of(expression)):
        return Columns(letters, [Letter(letter) for letter in letters], over)
    return Columns(letters, atoms_of(expression, over), over)


def compiled(
    expression: Expression, columns: Columns, *, weighted: bool = True, holes: Sequence[ex.FromCondition] = ()
) -> Machine:
    """The automaton of an expression, trimmed. `holes` are read as one letter each, of the columns after all others."""
    builder = _Builder(columns, weighted, {hole: columns.count + number for number, hole in enumerate(holes)})
    try:
        return builder.machine(builder.part(expression))
    except RecursionError:
        raise BackgroundError("an expression may be nested some hundred times, found more: nest less") from None


@dataclass
class _Part:
    """A part under construction."""

    first: list[_Move] = field(default_factory=list)
    stops: dict[int, float] = field(default_factory=dict)
    empty: float = NEVER


class _Builder:
    """All moves so far; parts refer to its states, numbered from 0 (the start comes before them all, in the end)."""

    def __init__(self, columns: Columns, weighted: bool, holes: dict[ex.FromCondition, int]) -> None:
        self.columns, self.weighted, self.holes = columns, weighted, holes
        self.n_states, self.n_moves = 0, 0
        self.moves: list[tuple[int, tuple[int, ...], int, float]] = []

    def log(self, factor: float) -> float:
        return math.log(factor) if self.weighted else 0.0

    def plus(self, left: float, right: float) -> float:
        return log_add(left, right) if self.weighted else max(left, right)

    def state(self) -> int:
        self.n_states += 1
        return self.n_states - 1

    def move(self, source: int, columns: tuple[int, ...], target: int, log_weight: float) -> None:
        self.n_moves += len(columns)
        check_size(self.n_states, self.n_moves, "this expression")
        self.moves.append((source, columns, target, log_weight))

    def part(self, expression: Expression) -> _Part:
        match expression:
            case ex.One(atom):
                return self.one(self.held(atom))
            case ex.Sequence(parts):
                return self.sequence([self.part(part) for part in parts])
            case ex.Choice(parts):
                return self.choice([self.part(part) for part in parts])
            case ex.Repeat(part, again):
                return self.repeated(self.part(part), self.log(again), expression)
            case ex.Times(part, least, most):
                return self.times(part, least, most)
            case ex.Scaled(part, factor):
                return self.scaled(self.part(part), self.log(factor))
            case ex.Both(left, right):
                return self.adopted(both(self.apart(left), self.apart(right)))
            case ex.Listed(entries):
                return self.listed(entries)
            case ex.NGrams(table):
                return self.adopted(context_machine(table, self.columns, weighted=self.weighted))
            case ex.FromCondition():
                return self.one((self.hole(expression),))

    def held(self, atom: Atom) -> tuple[int, ...]:
        columns = self.columns.held(atom)
        if isinstance(atom, Letter) and any(self.columns.sizes[column] != 1 for column in columns):
            raise BackgroundError(
                f"{atom.text!r} must have a column of its own, found one that it shares; "
                "make the columns of the same expression: columns_of(expression, letters, over)"
            )
        return columns

    def hole(self, expression: ex.FromCondition) -> int:
        if expression not in self.holes:
            raise BackgroundError("what comes from the condition is known when a condition is: Conditional compiles it")
        return self.holes[expression]

    def one(self, columns: tuple[int, ...]) -> _Part:
        after = self.state()
        return _Part([(columns, after, 0.0)] if columns else [], {after: 0.0})

    def choice(self, parts: Iterable[_Part]) -> _Part:
        whole = _Part()
        for part in parts:
            whole.first += part.first
            whole.stops |= part.stops
            whole.empty = self.plus(whole.empty, part.empty)
        return whole

    def sequence(self, parts: Sequence[_Part]) -> _Part:
        """From the back: what follows a part is known when the part is joined to it."""
        whole = _Part(empty=0.0)
        for part in reversed(parts):
            whole = self.joined(part, whole)
        return whole

    def joined(self, part: _Part, rest: _Part) -> _Part:
        self.attach(part.stops, rest.first)
        first = part.first + _scaled(rest.first, part.empty)
        stops = rest.stops | {state: log + rest.empty for state, log in part.stops.items() if rest.empty > NEVER}
        return _Part(first, stops, part.empty + rest.empty)

    def attach(self, stops: dict[int, float], first: Sequence[_Move]) -> None:
        for state, log_stop in stops.items():
            for columns, target, log_weight in first:
                self.move(state, columns, target, log_stop + log_weight)

    def repeated(self, part: _Part, log_again: float, expression: Expression) -> _Part:
        nothing = log_again + part.empty
        if self.weighted and nothing >= 0.0:
            raise InfiniteMassError(
                f"{shown(expression)} may repeat nothing for ever, with a factor of {math.exp(nothing):.6g} each time"
            )
        log_c = -math.log1p(-math.exp(nothing)) if self.weighted else 0.0
        first = _scaled(part.first, log_again + log_c)
        self.attach(part.stops, first)
        return _Part(first, {state: log + log_c for state, log in part.stops.items()}, log_c)

    def times(self, expression: Expression, least: int, most: int) -> _Part:
        """From the back: at each time beyond the least one may also stop."""
        whole = _Part(empty=0.0)
        for time in range(most, 0, -1):
            whole = self.joined(self.part(expression), whole)
            if time > least:
                whole.empty = self.plus(whole.empty, 0.0)
        return whole

    def scaled(self, part: _Part, log_factor: float) -> _Part:
        return _Part(_scaled(part.first, log_factor), part.stops, part.empty + log_factor)

    def listed(self, entries: Sequence[tuple[str, float]]) -> _Part:
        """A trie, whose texts all end in one state: what follows them is attached once."""
        end, whole, below = self.state(), _Part(), dict[tuple[int, int], int]()
        whole.stops[end] = 0.0
        spelled = [self.columns.spelled(text) for text, _ in entries]
        held = {letter: self.held(Letter(letter)) for letter in {letter for text in spelled for letter in text}}
        for text, (_, weight) in zip(spelled, entries, strict=True):
            letters = [held[letter] for letter in text]
            if not all(letters):  # a letter that is none here: no string over these letters is this text
                continue
            if not letters:
                whole.empty = self.plus(whole.empty, self.log(weight))
                continue
            node = _BEFORE
            for columns in letters[:-1]:
                key = (node, columns[0])
                if key not in below:
                    below[key] = self.state()
                    self.begin(whole, node, columns, below[key], 0.0)
                node = below[key]
            self.begin(whole, node, letters[-1], end, self.log(weight))
        return whole

    def begin(self, part: _Part, source: int, columns: tuple[int, ...], target: int, log_weight: float) -> None:
        """A move from a state, or one of the first moves of a part."""
        if source == _BEFORE:
            part.first.append((columns, target, log_weight))
        else:
            self.move(source, columns, target, log_weight)

    def apart(self, expression: Expression) -> Machine:
        own = _Builder(self.columns, self.weighted, self.holes)
        return own.machine(own.part(expression))

    def adopted(self, machine: Machine) -> _Part:
        """A machine as a part of this one; its start, to which nothing leads, becomes first moves."""
        offset = self.n_states - 1
        self.n_states += machine.n_states - 1
        part = _Part(empty=float(machine.log_stop[0]))
        for source, moves in enumerate(machine.by_state):
            for column, target, log_weight in moves:
                self.begin(part, source + offset if source else _BEFORE, (column,), target + offset, log_weight)
        stops = np.flatnonzero(machine.log_stop[1:] > NEVER) + 1
        part.stops = {int(state) + offset: float(machine.log_stop[state]) for state in stops}
        return part

    def machine(self, part: _Part) -> Machine:
        """All moves as arrays, with the start in front."""
        for columns, target, log_weight in part.first:
            self.move(_BEFORE, columns, target, log_weight)
        many = np.array([len(columns) for _, columns, _, _ in self.moves], dtype=np.int64)
        column = np.fromiter((c for _, columns, _, _ in self.moves for c in columns), np.int64, int(many.sum()))
        source = np.array([move[0] + 1 for move in self.moves], dtype=np.int64).repeat(many)
        after = np.array([move[2] + 1 for move in self.moves], dtype=np.int64).repeat(many)
        logs = np.array([move[3] for move in self.moves], dtype=np.float64).repeat(many)
        log_stop = np.full(self.n_states + 1, NEVER)
        log_stop[0] = part.empty
        log_stop[[state + 1 for state in part.stops]] = list(part.stops.values())
        return merged(self.columns, (source, column, after, logs), log_stop, weighted=self.weighted).trimmed()


def _scaled(moves: Sequence[_Move], log_factor: float) -> list[_Move]:
    if log_factor == NEVER:
        return []
    return [(columns, target, log_weight + log_factor) for columns, target, log_weight in moves]


def log_add(left: float, right: float) -> float:
    """log(eˡ + eʳ)."""
    high, low = (left, right) if left >= right else (right, left)
    return high if low == NEVER else high + math.log1p(math.exp(low - high))
