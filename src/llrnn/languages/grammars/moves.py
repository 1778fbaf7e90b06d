"""Automata as arrays: moves between states by columns, with weights, and none of them for nothing.

    weight(x_1 ... x_T) = Σ over ways 0 → q_1 → ... → q_T of  w(0, x_1, q_1) ··· w(q_{T-1}, x_T, q_T) · stop(q_T)

The weight of a move by a column is that of each of its letters. State 0 is the start, and no move of a compiled
expression leads back to it. Strings of both automata are the ways of pairs of states, with the product of weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.letters import Columns

MOST_STATES = 500_000
MOST_MOVES = 5_000_000  # no more than states × columns, and stored one by one

Bools = NDArray[np.bool_]
Moves = list[tuple[int, int, float]]  # column, target, log weight


@dataclass(frozen=True, eq=False)
class Machine:
    """Moves sorted by source, column and target, each once; logarithms of weights."""

    columns: Columns
    source: Ints  # (moves,)
    column: Ints
    target: Ints
    log_weight: Floats
    log_stop: Floats  # (states,) minus infinity where no string ends

    @property
    def n_states(self) -> int:
        return len(self.log_stop)

    @property
    def is_empty(self) -> bool:
        """Whether no string at all is in the language; of a trimmed machine."""
        return not bool((self.log_stop > -np.inf).any())

    @cached_property
    def first(self) -> Ints:
        """Where the moves of each state begin, and the end, (states + 1,)."""
        return np.searchsorted(self.source, np.arange(self.n_states + 1))

    @cached_property
    def by_state(self) -> list[Moves]:
        """The moves of each state as plain numbers, for what goes state by state."""
        moves = list(zip(self.column.tolist(), self.target.tolist(), self.log_weight.tolist(), strict=True))
        first = self.first.tolist()
        return [moves[begin:end] for begin, end in pairwise(first)]

    def trimmed(self) -> Machine:
        """Without the states that no string passes through; the start stays."""
        useful = self._reached_from_start() & self.reaches(self.log_stop > -np.inf)
        useful[0] = True
        number = np.cumsum(useful) - 1
        keep = useful[self.source] & useful[self.target]
        found = self.selected(keep)
        return replace(found, source=number[found.source], target=number[found.target], log_stop=self.log_stop[useful])

    def selected(self, keep: Bools) -> Machine:
        """With these moves only."""
        moves = self.source[keep], self.column[keep], self.target[keep], self.log_weight[keep]
        return Machine(self.columns, *moves, self.log_stop)

    def _reached_from_start(self) -> Bools:
        begun = np.zeros(self.n_states, dtype=np.bool_)
        begun[0] = True
        return _spread(begun, self.source, self.target)

    def reaches(self, ends: Bools) -> Bools:
        """The states from which one of these can be reached."""
        return _spread(ends, self.target, self.source)

    def lengths(self, step: Ints | None = None) -> Ints:
        """How many letters there are at least to an end, -1 where there is none; `step`: the letters of each move."""
        far = np.int64(1) << 40
        found = np.where(self.log_stop > -np.inf, 0, far)
        cost = np.ones(len(self.source), dtype=np.int64) if step is None else step
        while True:
            better = found.copy()
            np.minimum.at(better, self.source, found[self.target] + cost)
            if (better == found).all():
                return np.where(found < far, found, -1)
            found = better


def merged(columns: Columns, moves: tuple[Ints, Ints, Ints, Floats], log_stop: Floats, *, weighted: bool) -> Machine:
    """A machine from moves in any order; those that say the same are added up, or are one if weights do not matter."""
    source, column, target, log_weight = moves
    order = np.lexsort((target, column, source))
    source, column, target, log_weight = source[order], column[order], target[order], log_weight[order]
    new = np.ones(len(source), dtype=np.bool_)
    new[1:] = (np.diff(source) != 0) | (np.diff(column) != 0) | (np.diff(target) != 0)
    first = np.flatnonzero(new)
    if len(first) < len(source):
        add = np.logaddexp if weighted else np.maximum
        log_weight = add.reduceat(log_weight, first)
    return Machine(columns, source[first], column[first], target[first], log_weight, log_stop)


def both(left: Machine, right: Machine) -> Machine:
    """The strings of both, with the product of their weights; trimmed."""
    by_column = [_by_column(moves) for moves in right.by_state]
    pairs, number = [(0, 0)], {(0, 0): 0}
    found: list[tuple[int, int, int, float]] = []
    for here, (mine, other) in enumerate(pairs):  # grows while we read it
        theirs = by_column[other]
        for column, target, log_weight in left.by_state[mine]:
            for facing, log_other in theirs.get(column, ()):
                pair = (target, facing)
                if pair not in number:
                    number[pair] = len(pairs)
                    pairs.append(pair)
                found.append((here, column, number[pair], log_weight + log_other))
        check_size(len(pairs), len(found), "the strings of both sides of &")
    stops = np.array([left.log_stop[mine] + right.log_stop[other] for mine, other in pairs])
    return merged(left.columns, as_arrays(found), stops, weighted=True).trimmed()


def as_arrays(moves: list[tuple[int, int, int, float]]) -> tuple[Ints, Ints, Ints, Floats]:
    """Source, column, target and log weight, each as an array."""
    source, column, target, log_weight = zip(*moves, strict=True) if moves else ((), (), (), ())
    whole = [np.array(part, dtype=np.int64) for part in (source, column, target)]
    return whole[0], whole[1], whole[2], np.array(log_weight, dtype=np.float64)


def check_size(states: int, moves: int, what: str) -> None:
    """Refuse what has grown too large."""
    if states > MOST_STATES or moves > MOST_MOVES:
        raise BackgroundError(
            f"{what} needs more than {MOST_STATES:,} states or {MOST_MOVES:,} moves (states × columns), the most that "
            f"an automaton may have: {states:,} states and {moves:,} moves so far; repeat less, or list fewer words"
        )


def _by_column(moves: Moves) -> dict[int, list[tuple[int, float]]]:
    found: dict[int, list[tuple[int, float]]] = {}
    for column, target, log_weight in moves:
        found.setdefault(column, []).append((target, log_weight))
    return found


def _spread(begun: Bools, source: Ints, target: Ints) -> Bools:
    """All states that are reached from some, moves going from source to target."""
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(len(begun) + 1)).tolist()
    after = target[order].tolist()
    seen, stack = begun.tolist(), np.flatnonzero(begun).tolist()
    while stack:
        state = stack.pop()
        for reached in after[first[state] : first[state + 1]]:
            if not seen[reached]:
                seen[reached] = True
                stack.append(reached)
    return np.array(seen, dtype=np.bool_)
