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


class Ways(NamedTuple):
    """The ways on from a state, the best first: by any one of the characters of a column, each of the weight `gain`."""

    bound: list[float]  # gain + what may come after it, at most
    gain: list[float]
    column: list[int]


def sorted_ways(gain: Floats, ahead: Floats) -> Ways:
    """The ways on from a state, by what each column weighs and what may come after it, (A,) each."""
    bound = gain + ahead
    order = np.argsort(-bound, kind="stable")[: int((bound > -np.inf).sum())]
    return Ways(bound[order].tolist(), gain[order].tolist(), order.tolist())


def best_first(
    start: S,
    text: str,
    log: float,
    characters: Sequence[str],
    ways: Callable[[S], Ways],
    move: Callable[[S, int], S],
    end: Callable[[S], float],
    slack: Callable[[S], float] = lambda state: 0.0,
    least: float = -np.inf,
) -> Iterator[tuple[float, str]]:
    """The strings that begin with `text`, which has led to `start` and weighs `log`, by falling weight.

    `characters` of each column; `ways` on from a state, and the `move` by a column; `end`: what it adds that a string
    ends there, −∞ where none does; `slack`: what the bounds of all ways on from a state have in common; `least`:
    strings that weigh less do not come.
    """
    order = count()
    # a string that ends has no ways on; else: which way is next, by which of its characters, and the slack
    heap: list[tuple[float, int, S, str, float, Ways | None, int, int, float]] = []

    def reach(state: S, text: str, log: float) -> None:
        last, on = log + end(state), ways(state)
        if last > -np.inf and last >= least:
            heapq.heappush(heap, (-last, next(order), state, text, log, None, 0, 0, 0.0))
        if on.bound:
            wait(state, text, log, on, 0, slack(state))

    def wait(state: S, text: str, log: float, on: Ways, rank: int, common: float) -> None:
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
