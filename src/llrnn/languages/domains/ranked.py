"""Strings in the order of their weight: best-first search (A*) through an automaton whose characters weigh.

    f(u) = log weight of the characters u so far + a bound of what any rest may add      never below the best string u…

A string is given out when nothing that waits has a larger bound, so the order is exact; a bound that is tight looks at
little besides the strings themselves. The ways on from a state are sorted once, and of brothers only the best that has
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


class Way(NamedTuple):
    """A way on from a state: any one of the characters of a column, each of the weight `gain`."""

    bound: float  # gain + what may come after it, at most
    gain: float
    characters: str
    column: int


def sorted_ways(gain: Floats, ahead: Floats, characters: Sequence[str]) -> list[Way]:
    """The ways on from a state, the best first, by what each column weighs and what may come after it, (A,) each."""
    bound = gain + ahead
    order = [a for a in np.argsort(-bound, kind="stable").tolist() if bound[a] > -np.inf]
    return [Way(float(bound[a]), float(gain[a]), characters[a], a) for a in order]


def best_first(
    start: S,
    text: str,
    log: float,
    ways: Callable[[S], Sequence[Way]],
    move: Callable[[S, int], S],
    end: Callable[[S], float],
    slack: Callable[[S], float] = lambda state: 0.0,
    least: float = -np.inf,
) -> Iterator[tuple[float, str]]:
    """The strings that begin with `text`, which has led to `start` and weighs `log`, by falling weight.

    `ways` on from a state, by falling bound, and the `move` by a column; `end`: what it adds that a string ends there,
    −∞ where none does; `slack`: what the bounds of all ways on from a state have in common; `least`: strings that weigh
    less do not come.
    """
    order = count()
    heap: list[tuple[float, int, S, str, float, Sequence[Way], int, int, float]] = []

    def reach(state: S, text: str, log: float) -> None:
        last, on = end(state), ways(state)
        if last > -np.inf:
            heapq.heappush(heap, (-(log + last), next(order), state, text, log, (), 0, 0, 0.0))
        if on and (common := slack(state)) > -np.inf:
            heapq.heappush(heap, (-(log + on[0].bound + common), next(order), state, text, log, on, 0, 0, common))

    reach(start, text, log)
    while heap:
        negative, _, state, text, log, on, rank, which, common = heapq.heappop(heap)
        if -negative < least:
            return
        if not on:
            yield -negative, text
            continue
        way = on[rank]
        if which + 1 < len(way.characters):
            heapq.heappush(heap, (negative, next(order), state, text, log, on, rank, which + 1, common))
        elif rank + 1 < len(on):
            further = -(log + on[rank + 1].bound + common)
            heapq.heappush(heap, (further, next(order), state, text, log, on, rank + 1, 0, common))
        reach(move(state, way.column), text + way.characters[which], log + way.gain)


def best_ahead(end: Floats, gain: Floats, moves: Ints) -> Floats:
    """The weight of the best string from each state on: max-plus, until nothing changes.

    `end` (S, …) of a string that ends there, `gain` (S, A) or (A,) of the columns, `moves` (S, A) -> (S, …)
    """
    gain = np.broadcast_to(gain, moves.shape)
    gain = gain.reshape(*gain.shape, *(1,) * (end.ndim - 1))
    best = end
    while True:
        further = np.maximum(end, (gain + best[moves]).max(1))
        if np.array_equal(further, best):
            return best
        best = further
