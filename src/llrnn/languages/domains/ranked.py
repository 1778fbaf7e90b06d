"""Strings in the order of their weight: best-first search (A*) through an automaton whose characters weigh.

    f(u) = log weight of the characters u so far + a bound of what any rest may add      never below the best string u…

A string is given out when nothing that waits has a larger bound, so the order is exact; a bound that is tight looks at
little besides the strings themselves. The transitions of a state are sorted once, and of those only the best that has
not been followed waits: each step puts three entries on the heap, whatever the alphabet.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

import numpy as np

from llrnn.ground.arrays import Floats, Ints

S = TypeVar("S", bound=Hashable)


class Transitions(NamedTuple):
    """Outgoing transitions of a state of a character automaton as three lists of one length, the most promising first.

    bound       upper bound of the log weight of what follows this state in any string that takes the transition, its
                own character included; descending
    gain        log weight of each single character that the transition reads
    column      index of the column of the alphabet (a character, or a class of characters) that the transition reads
    """

    bound: list[float]  # gain + what may come after it, at most
    gain: list[float]
    column: list[int]


def sorted_transitions(gain: Floats, ahead: Floats) -> Transitions:
    """Return the transitions of one state of a character automaton, sorted by gain + ahead, the largest first.

    The result has the sums gain + ahead as `bound`, `gain`, and the indices 0 … A-1 as `column`. Transitions of weight
    0 (gain + ahead = −∞) are not in it; equal sums stay in the order of columns.

    gain        (A,) log weight of one character of each of A columns (a column is a character or a class of them)
    ahead       (A,) log weight of the best continuation after each column, its end included
    """
    bound = gain + ahead
    order = np.argsort(-bound, kind="stable")[: int((bound > -np.inf).sum())]
    return Transitions(bound[order].tolist(), gain[order].tolist(), order.tolist())


def best_first(
    start: S,
    text: str,
    log: float,
    characters: Sequence[str],
    transitions: Callable[[S], Transitions],
    move: Callable[[S, int], S],
    end: Callable[[S], float],
    slack: Callable[[S], float] = lambda state: 0.0,
    least: float = -np.inf,
) -> Iterator[tuple[float, str]]:
    """Yield (log weight, string) for all strings that begin with `text`, by descending weight (A* search).

    The log weight of a string is `log`, plus the `gain` of each further character, plus `end` of its last state. States
    are any hashable objects. `text` itself is yielded where a string may end in `start`.

    start, text, log    the state after reading `text`, and the log weight of `text`
    characters          for each column of the alphabet, a string of the characters that it stands for; each of them is
                        tried
    transitions         state -> its sorted transitions
    move                (state, column) -> the next state
    end                 state -> log weight of ending there, −∞ where no string ends
    slack               state -> a log weight to add to the bounds of all its transitions, so that they stay upper
                        bounds
    least               strings of a lower log weight are not yielded

    The iterator may be infinite; strings of weight 0 are never yielded.
    """
    order = count()
    # a string that ends has no transitions; else: which one is next, by which of its characters, and the slack
    heap: list[tuple[float, int, S, str, float, Transitions | None, int, int, float]] = []

    def reach(state: S, text: str, log: float) -> None:
        last, on = log + end(state), transitions(state)
        if last > -np.inf and last >= least:
            heapq.heappush(heap, (-last, next(order), state, text, log, None, 0, 0, 0.0))
        if on.bound:
            wait(state, text, log, on, 0, slack(state))

    def wait(state: S, text: str, log: float, on: Transitions, rank: int, common: float) -> None:
        bound = log + on.bound[rank] + common
        if bound > -np.inf and bound >= least:
            heapq.heappush(heap, (-bound, next(order), state, text, log, on, rank, 0, common))

    reach(start, text, log)
    while heap:
        negative, _, state, text, log, on, rank, which, common = heapq.heappop(heap)
        if on is None:
            yield -negative, text
            continue
        column = on.column[rank]
        if which + 1 < len(characters[column]):
            heapq.heappush(heap, (negative, next(order), state, text, log, on, rank, which + 1, common))
        elif rank + 1 < len(on.column):
            wait(state, text, log, on, rank + 1, common)
        reach(move(state, column), text + characters[column][which], log + on.gain[rank])


def best_ahead(end: Floats, gain: Floats, moves: Ints) -> Floats:
    """Return the log weight of the best continuation from each of S states, (S, …): the maximum over all strings.

    The weight of a continuation counts its characters and its end; −∞ where no string can be completed.

    end         (S, …) log weight of ending in a state, −∞ where no string ends; further axes are separate problems
    gain        (S, A) or (A,) log weight of one character of each of A columns, by state or for all states; −∞ where
                a character cannot follow
    moves       (S, A) the next state, 0 … S-1, after each column, which is a character or a class of characters

    It iterates to the fixed point best = max(end, max over columns of gain + best[moves]); no cycle may gain weight.
    """
    gain = np.broadcast_to(gain, moves.shape)
    gain = gain.reshape(*gain.shape, *(1,) * (end.ndim - 1))
    best = end
    while True:
        further = np.maximum(end, (gain + best[moves]).max(1))
        if np.array_equal(further, best):
            return best
        best = further
