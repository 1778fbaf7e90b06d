"""An automaton with holes, and what a condition fills them with.

What comes from the condition is a hole, which the automaton that all conditions share reads as if it were one letter.
For a condition the holes are filled with small automata of their own, and a node is a set of places: states of the
shared automaton, and states within a hole together with where the shared one goes on behind it.

    (d)       --x-->  (d')                         and whoever is at d before a hole h is also at the start of h
    (h, d, s) --x-->  (h, d, s')                   and whoever is at an end of h is also at d

Most letters of a text are far from what the condition says. There a node is one state of the shared automaton, a plain
number, and what follows it is the same for all conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from llrnn.ground.arrays import Floats, Ints
from llrnn.languages.grammars import expressions as ex
from llrnn.languages.grammars.base import Language, Node
from llrnn.languages.grammars.determinised import determinised
from llrnn.languages.grammars.expressions import Expression, FromCondition
from llrnn.languages.grammars.finite import EmptyLanguageError, Finite, Recent
from llrnn.languages.grammars.letters import UNREAD, Columns
from llrnn.languages.grammars.machine import compiled

MOST_STEPS = 20_000  # of one condition, from node to node, that are remembered
_MOST_FILLINGS = 64  # ways in which holes are open or closed, or long, that are remembered
_NUMBERS_KEPT = 100_000  # in the rows of one condition

_Place: TypeAlias = tuple[int, int, int]  # hole (-1: none), state of the shared automaton, and that within the hole
_Places: TypeAlias = frozenset[_Place] | int  # a number: this state of the shared automaton, and no more


@dataclass(frozen=True, eq=False)
class Filling:
    """A small automaton without weights; state 0 is its start. Without states it holds no string."""

    moves: list[dict[int, int]]
    ends: list[bool]

    @classmethod
    def of(cls, expression: Expression, columns: Columns) -> Filling:
        """What these letters spell of an expression; lists of words, the usual case, are done by hand."""
        if isinstance(expression, ex.Listed) and (columns.sizes == 1).all():
            return cls._listed(expression.entries, columns)
        machine = compiled(expression, columns, weighted=False)
        if machine.is_empty:
            return cls([], [])
        whole = determinised(machine, weighted=False)
        moves = [{column: target for column, target, _ in own} for own in whole.by_state]
        return cls(moves, (whole.log_stop > -np.inf).tolist())

    @classmethod
    def _listed(cls, entries: Sequence[tuple[str, float]], columns: Columns) -> Filling:
        made = cls([{}], [False])
        for text, _ in entries:
            read = [columns.column(letter) for letter in columns.spelled(text)]
            if UNREAD in read:
                continue
            state = 0
            for column in read:
                if column not in made.moves[state]:
                    made.moves[state][column] = len(made.moves)
                    made.moves.append({})
                    made.ends.append(False)
                state = made.moves[state][column]
            made.ends[state] = True
        return made if any(made.ends) else cls([], [])

    @property
    def is_empty(self) -> bool:
        return not self.ends

    @cached_property
    def lengths(self) -> list[int]:
        """Letters to an end at least, from each state."""
        far = len(self.moves) + 1
        found, settled = [0 if end else far for end in self.ends], False
        while not settled:
            better = [
                min([own, *(found[to] + 1 for to in go.values())]) for own, go in zip(found, self.moves, strict=True)
            ]
            settled, found = better == found, better
        return found


class WithHoles:
    """The automaton that conditions share, each string read in one way; holes are the columns behind the letters'."""

    def __init__(self, expression: Expression, holes: tuple[FromCondition, ...], columns: Columns) -> None:
        machine = determinised(compiled(expression, columns, weighted=False, holes=holes), weighted=False)
        self.columns, self.machine = columns, machine
        self.states = Finite(machine, weighted=False)
        self.lengths = Recent(self._lengths, _MOST_FILLINGS)
        self.leads = Recent(self._leads, _MOST_FILLINGS)
        self.rows = Recent(self._row, 1 + 20 * _NUMBERS_KEPT // max(1, columns.count))
        self.ends: list[bool] = (machine.log_stop > -np.inf).tolist()
        self.holes_at: dict[int, list[tuple[int, int]]] = {}  # state -> holes, and where they lead
        for move in np.flatnonzero(machine.column >= columns.count).tolist():
            hole, lead = int(machine.column[move]) - columns.count, int(machine.target[move])
            self.holes_at.setdefault(int(machine.source[move]), []).append((hole, lead))

    def _lengths(self, shortest: tuple[int, ...]) -> Ints:
        """Letters to an end from each state, -1 if there is none, when holes take so many (-1: cannot be filled)."""
        step = np.ones(len(self.machine.source), dtype=np.int64)
        for hole, length in enumerate(shortest):
            step[self.machine.column == self.columns.count + hole] = length
        return self.machine.selected(step >= 0).lengths(step[step >= 0])

    def _leads(self, is_open: tuple[bool, ...]) -> list[bool]:
        """Whether an end can be reached from each state, when some holes cannot be filled."""
        found: list[bool] = (self.lengths[tuple(1 if one else -1 for one in is_open)] >= 0).tolist()
        return found

    def _row(self, key: tuple[int, tuple[bool, ...]]) -> Floats:
        """What may follow a state, but for its holes."""
        state, is_open = key
        leads, row = self.leads[is_open], np.zeros(self.columns.count)
        for column, target, _ in self.machine.by_state[state]:
            if column < len(row) and leads[target]:
                row[column] = 1.0
        row.flags.writeable = False
        return row


class Filled(Language):
    """The shared automaton with its holes filled, for one condition."""

    def __init__(self, shared: WithHoles, fillings: tuple[Filling, ...]) -> None:
        self.columns, self._shared, self._fillings = shared.columns, shared, fillings
        self._open = tuple(not filling.is_empty for filling in fillings)
        self._leads = shared.leads[self._open]
        self._after: dict[tuple[_Places, int], _Places | None] = {}
        self._rows = Recent(self._row, 1 + _NUMBERS_KEPT // max(1, shared.columns.count))
        root = self._closed([(-1, 0, 0)])
        if root is None:
            raise EmptyLanguageError("no string at all")
        self._root: _Places = root

    @property
    def root(self) -> _Places:
        return self._root

    def _closed(self, places: Iterable[_Place]) -> _Places | None:
        """These places, and those to which holes lead that begin or end here; without those that lead nowhere."""
        found, stack = set[_Place](), list(places)
        while stack:
            place = stack.pop()
            if place not in found and self._leads[place[1]]:
                found.add(place)
                stack += self._free(place)
        if len(found) == 1 and (only := next(iter(found)))[0] < 0:
            return only[1]
        return frozenset(found) if found else None

    def _free(self, place: _Place) -> list[_Place]:
        hole, state, within = place
        if hole >= 0:
            return [(-1, state, 0)] if self._fillings[hole].ends[within] else []
        return [(h, lead, 0) for h, lead in self._shared.holes_at.get(state, ()) if self._open[h]]

    def after(self, node: Node, column: int) -> _Places | None:
        if isinstance(node, int):
            target = self._shared.states.after(node, column)
            if target is None or not self._leads[target]:
                return None
            if target not in self._shared.holes_at:
                return target
        key = (_places(node), column)
        if key not in self._after:
            if len(self._after) >= MOST_STEPS:
                self._after.clear()
            self._after[key] = self._closed(self._moved(node, column))
        return self._after[key]

    def _moved(self, node: Node, column: int) -> list[_Place]:
        found = list[_Place]()
        for hole, state, within in _listed(node):
            if hole >= 0:
                after = self._fillings[hole].moves[within].get(column)
                found += [] if after is None else [(hole, state, after)]
            elif (target := self._shared.states.after(state, column)) is not None:
                found.append((-1, target, 0))
        return found

    def weights(self, node: Node) -> Floats:
        if isinstance(node, int):
            return self._shared.rows[node, self._open]
        return self._rows[_places(node)]

    def _row(self, node: _Places) -> Floats:
        row = np.zeros(self.columns.count)
        for hole, state, within in _listed(node):
            if hole >= 0:
                row[list(self._fillings[hole].moves[within])] = 1.0
            else:
                np.maximum(row, self._shared.rows[state, self._open], out=row)
        row.flags.writeable = False
        return row

    def end(self, node: Node) -> float:
        if isinstance(node, int):
            return float(self._shared.ends[node])
        return float(any(hole < 0 and self._shared.ends[state] for hole, state, _ in _listed(node)))

    @cached_property
    def _lengths(self) -> Ints:
        return self._shared.lengths[tuple(-1 if own.is_empty else own.lengths[0] for own in self._fillings)]

    def shortest(self, node: Node) -> int:
        return min(int(self._lengths[state]) + self._left(hole, within) for hole, state, within in _listed(node))

    def _left(self, hole: int, within: int) -> int:
        return self._fillings[hole].lengths[within] if hole >= 0 else 0


def _places(node: Node) -> _Places:
    assert isinstance(node, int | frozenset)
    return node


def _listed(node: Node) -> Iterable[_Place]:
    places = _places(node)
    return [(-1, places, 0)] if isinstance(places, int) else places
