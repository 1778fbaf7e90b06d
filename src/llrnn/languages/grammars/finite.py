"""Automata as languages: states, or sets of states, with the probabilities of what comes next.

    weighted      p(x | q) = w(q, x, q')·β(q') / β(q)        p(end | q) = stop(q) / β(q)        Σ_x p + p(end) = 1
    otherwise     1 for what some string goes on with, 0 for all else

`Finite` is written out: one state at a time, each string read in one way. `Gathered` keeps sets of states and makes
what follows them when it is asked, for automata of which that way of reading is too large, or is not finite.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.backward import InfiniteMassError, backward
from llrnn.languages.grammars.base import Language, Node
from llrnn.languages.grammars.determinised import START, Held, TooLargeError, determinised, steps, stop_of
from llrnn.languages.grammars.expressions import Expression
from llrnn.languages.grammars.letters import Columns
from llrnn.languages.grammars.machine import compiled
from llrnn.languages.grammars.moves import Machine
from llrnn.languages.grammars.reasons import what_is_infinite, why_empty
from llrnn.languages.grammars.showing import shown

MOST_WRITTEN = 20_000  # states, or twice as many as there were: then sets are gathered one by one
_NUMBERS_KEPT = 2_000_000  # of rows that were asked for lately
_LEAST = 1e-300  # what is possible stays possible, however improbable

Key = TypeVar("Key")
Value = TypeVar("Value")


class EmptyLanguageError(BackgroundError):
    """A language without any string."""


class Recent(Generic[Key, Value]):
    """What was made lately, up to a number; the rest is made again."""

    def __init__(self, make: Callable[[Key], Value], most: int) -> None:
        self._make, self._most = make, most
        self._kept: OrderedDict[Key, Value] = OrderedDict()

    def __getitem__(self, key: Key) -> Value:
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._make(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found

    def __len__(self) -> int:
        return len(self._kept)


class Finite(Language):
    """A deterministic automaton, trimmed; nodes are its states."""

    def __init__(self, machine: Machine, *, weighted: bool = True) -> None:
        self.columns, self.machine, self.weighted = machine.columns, machine, weighted
        self._first: list[int] = machine.first.tolist()
        self._column: list[int] = machine.column.tolist()
        self._target: list[int] = machine.target.tolist()
        if weighted:
            self._prob, self._end = _probabilities(machine, backward(machine))
        else:
            self._prob, self._end = np.ones(len(machine.source)), (machine.log_stop > -np.inf).astype(np.float64)
        self._rows = Recent(self._row, 1 + _NUMBERS_KEPT // max(1, machine.columns.count))

    @classmethod
    def of(cls, expression: Expression, columns: Columns, *, weighted: bool = True) -> Finite:
        """The language of an expression, written out: refused if it is empty, too large or of infinite mass."""
        machine = determinised(_not_empty(expression, columns, weighted), weighted=weighted)
        return cls(machine, weighted=weighted)

    @property
    def root(self) -> int:
        return 0

    def weights(self, node: Node) -> Floats:
        return self._rows[_state(node)]

    def _row(self, state: int) -> Floats:
        moves, row = slice(self._first[state], self._first[state + 1]), np.zeros(self.columns.count)
        row[self.machine.column[moves]] = self._prob[moves]
        row.flags.writeable = False
        return row

    def end(self, node: Node) -> float:
        return float(self._end[_state(node)])

    def after(self, node: Node, column: int) -> int | None:
        state = _state(node)
        end = self._first[state + 1]
        place = bisect_left(self._column, column, self._first[state], end)
        return self._target[place] if place < end and self._column[place] == column else None

    @cached_property
    def _shortest(self) -> Ints:
        return self.machine.lengths()

    def shortest(self, node: Node) -> int:
        return int(self._shortest[_state(node)])


class Gathered(Language):
    """Any automaton, trimmed; nodes are sets of states with what each has in hand."""

    def __init__(self, machine: Machine, *, weighted: bool = True) -> None:
        self.columns, self.machine, self.weighted = machine.columns, machine, weighted
        self._beta = backward(machine) if weighted else np.zeros(machine.n_states)
        self._steps = Recent(self._made, 1 + _NUMBERS_KEPT // (4 * max(1, machine.columns.count)))

    @property
    def root(self) -> Held:
        return START

    def _made(self, held: Held) -> tuple[Floats, float, dict[int, tuple[float, Held]]]:
        """The weights of all columns, that of the end, and what follows each column."""
        found = steps(self.machine.by_state, held, weighted=self.weighted)
        row, log_end = np.zeros(self.columns.count), stop_of(self.machine, held, weighted=self.weighted)
        log_row = np.array([log + self._ahead(after) for log, after in found.values()])
        if self.weighted:
            log_sizes = np.log(self.columns.sizes[list(found)])
            total = np.logaddexp.reduce(np.append(log_row + log_sizes, log_end))
            log_row, log_end = log_row - total, log_end - total
        row[list(found)] = np.maximum(np.exp(log_row), _LEAST)
        row.flags.writeable = False
        return row, float(np.exp(log_end)), found

    def _ahead(self, held: Held) -> float:
        """What all that can follow a set weighs."""
        if not self.weighted:
            return 0.0
        return float(np.logaddexp.reduce([in_hand + self._beta[state] for state, in_hand in held]))

    def weights(self, node: Node) -> Floats:
        return self._steps[_held(node)][0]

    def end(self, node: Node) -> float:
        return self._steps[_held(node)][1]

    def after(self, node: Node, column: int) -> Held | None:
        found = self._steps[_held(node)][2].get(column)
        return None if found is None else found[1]

    @cached_property
    def _shortest(self) -> Ints:
        return self.machine.lengths()

    def shortest(self, node: Node) -> int:
        return min(int(self._shortest[state]) for state, _ in _held(node))


def finite(expression: Expression, columns: Columns, *, weighted: bool = True) -> Finite | Gathered:
    """The language of an expression. An empty one is refused, and with weights one whose sum is not finite."""
    machine = _not_empty(expression, columns, weighted)
    try:
        return _written_out(machine, weighted)
    except InfiniteMassError:
        raise BackgroundError(what_is_infinite(expression, columns)) from None


def _not_empty(expression: Expression, columns: Columns, weighted: bool) -> Machine:
    machine = compiled(expression, columns, weighted=weighted)
    if machine.is_empty:
        raise EmptyLanguageError(
            f"the language of {shown(expression)} holds no string at all: {why_empty(expression, columns)}"
        )
    return machine


def _written_out(machine: Machine, weighted: bool) -> Finite | Gathered:
    if weighted:
        backward(machine)  # weights without a sum often drift apart as well: this is the better reason
    most = max(MOST_WRITTEN, 2 * machine.n_states)
    try:
        return Finite(determinised(machine, weighted=weighted, most_states=most), weighted=weighted)
    except TooLargeError:
        return Gathered(machine, weighted=weighted)


def _probabilities(machine: Machine, beta: Floats) -> tuple[Floats, Floats]:
    """Of each move, for one letter, and of each end; rows sum to one but for rounding: that is put right."""
    prob = np.maximum(np.exp(machine.log_weight + beta[machine.target] - beta[machine.source]), _LEAST)
    end = np.exp(machine.log_stop - beta)
    total = end + np.bincount(machine.source, prob * machine.columns.sizes[machine.column], minlength=len(end))
    return prob / total[machine.source], end / total


def _state(node: Node) -> int:
    assert isinstance(node, int)
    return node


def _held(node: Node) -> Held:
    assert isinstance(node, tuple)
    return node
