"""One way to read a string: sets of states with what each has in hand, as the states of a new automaton (Mohri).

    {q: r(q)}  --x-->  {q': Σ_q r(q)·w(q, x, q') / w}       w = the largest of these sums, the weight of the move

Equal sets are one state; weights in hand are compared to twelve decimals of their logarithm. Every state of a trimmed
automaton can be completed, and so can every set of them. Not every weighted automaton has a finite one of this form:
where two ways to read a string drift apart as it grows longer, sets never come again.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars.machine import log_add
from llrnn.languages.grammars.moves import MOST_MOVES, MOST_STATES, Machine, Moves, as_arrays, merged

DECIMALS = 12
Held: TypeAlias = tuple[tuple[int, float], ...]  # states and their log weights in hand, sorted; the largest is 0
START: Held = ((0, 0.0),)


class TooLargeError(BackgroundError):
    """An automaton whose states, if each string is read in one way, are too many to write out."""


def steps(by_state: list[Moves], held: Held, *, weighted: bool) -> dict[int, tuple[float, Held]]:
    """What follows a set by each column: the weight of the move, and the next set."""
    found: dict[int, dict[int, float]] = {}
    for state, in_hand in held:
        for column, target, log_weight in by_state[state]:
            sums, log = found.setdefault(column, {}), in_hand + log_weight
            sums[target] = log if target not in sums else log_add(sums[target], log) if weighted else 0.0
    return {column: _scaled(sums) for column, sums in found.items()}


def _scaled(sums: dict[int, float]) -> tuple[float, Held]:
    if len(sums) == 1:
        ((state, log),) = sums.items()
        return log, ((state, 0.0),)
    most = max(sums.values())
    return most, tuple(sorted((state, round(log - most, DECIMALS)) for state, log in sums.items()))


def stop_of(machine: Machine, held: Held, *, weighted: bool) -> float:
    """The log weight of ending in a set."""
    log_stop = [in_hand + float(machine.log_stop[state]) for state, in_hand in held]
    return float(np.logaddexp.reduce(log_stop)) if weighted else max(log_stop)


def determinised(
    machine: Machine, *, weighted: bool = True, most_states: int = MOST_STATES, most_moves: int = MOST_MOVES
) -> Machine:
    """The same language, with one move at most by each column from each state; of a trimmed machine."""
    sets, number = [START], {START: 0}
    found: list[tuple[int, int, int, float]] = []
    for here, held in enumerate(sets):  # grows while we read it
        for column, (log_weight, after) in steps(machine.by_state, held, weighted=weighted).items():
            if after not in number:
                number[after] = len(sets)
                sets.append(after)
            found.append((here, column, number[after], log_weight))
        if len(sets) > most_states or len(found) > most_moves:
            raise TooLargeError(
                f"to read every string in one way needs more than {most_states:,} states or {most_moves:,} moves "
                f"(states × columns): {machine.n_states:,} states combine in too many ways"
                + (", or with weights that drift apart as strings grow longer; weighted=False" if weighted else "")
            )
    stops = np.array([stop_of(machine, held, weighted=weighted) for held in sets])
    return merged(machine.columns, as_arrays(found), stops, weighted=weighted)
