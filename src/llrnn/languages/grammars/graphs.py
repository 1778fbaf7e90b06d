"""Graphs, in linear time: what reaches each other (Tarjan), what follows from what, and who can be reached at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Name = TypeVar("Name", bound=Hashable)


def components(first: Sequence[int], target: Sequence[int]) -> Iterator[list[int]]:
    """States that reach each other, those that reach no other first, without recursion.

    The moves of state q go to `target[first[q] : first[q + 1]]`.
    """
    n = len(first) - 1
    order, low = [-1] * n, [0] * n  # when a state was met, and the earliest that it leads back to; n when it is done
    after, waiting, met = list(first[:n]), list[int](), 0
    for root in range(n):
        if order[root] >= 0:
            continue
        path = [root]
        while path:
            state = path[-1]
            if order[state] < 0:
                order[state] = low[state] = met
                met += 1
                waiting.append(state)
            if after[state] < first[state + 1]:
                reached = target[after[state]]
                after[state] += 1
                if order[reached] < 0:
                    path.append(reached)
                else:
                    low[state] = min(low[state], low[reached])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[state])
            if low[state] == order[state]:
                yield _taken(waiting, state, low, n)


def _taken(waiting: list[int], state: int, low: list[int], done: int) -> list[int]:
    """All that waits from this state on; they lead no one back any more."""
    found = list[int]()
    while not found or found[-1] != state:
        found.append(waiting.pop())
        low[found[-1]] = done
    return found


def least_costs(rules: Iterable[tuple[Name, Sequence[Name], float]], known: Iterable[Name] = ()) -> dict[Name, float]:
    """What follows from what is known for nothing, at its least cost: that of a rule and of all its premises (Knuth).

    A rule is a conclusion, its premises and its cost; each is looked at once, when its last premise is found.
    """
    listed, missing, found = list[tuple[Name, Sequence[Name], float]](), list[int](), dict[Name, float]()
    waiting: dict[Name, list[int]] = defaultdict(list)
    ready = [(0.0, number, name) for number, name in enumerate(known)]
    for number, (conclusion, premises, cost) in enumerate(rules):
        listed.append((conclusion, premises, cost))
        missing.append(len(set(premises)))
        for premise in set(premises):
            waiting[premise].append(number)
        if not premises:
            ready.append((cost, len(ready), conclusion))
    heapify(ready)
    later = count(len(ready))  # names need not be comparable
    while ready:
        cost, _, name = heappop(ready)
        if name in found:
            continue
        found[name] = cost
        for number in waiting[name]:
            missing[number] -= 1
            if missing[number] == 0:
                conclusion, premises, own = listed[number]
                heappush(ready, (own + sum(found[premise] for premise in premises), next(later), conclusion))
    return found


def derived(implications: Iterable[tuple[Name, Sequence[Name]]], known: Iterable[Name]) -> set[Name]:
    """What is known, and all that follows."""
    return set(least_costs(((conclusion, premises, 0.0) for conclusion, premises in implications), known))


def reachable(step: NDArray[np.bool_]) -> NDArray[np.float64]:
    """1 where a way leads, however short, (n, n): whole rows as bits, joined once for each step."""
    n = len(step)
    source, target = np.nonzero(step)
    first = np.searchsorted(source, np.arange(n + 1)).tolist()
    own = np.packbits(np.eye(n, dtype=np.bool_), axis=1)
    bits = np.zeros_like(own)
    for group in components(first, target.tolist()):
        after = np.concatenate([target[first[state] : first[state + 1]] for state in group])
        bits[group] = np.bitwise_or.reduce(np.concatenate([bits[after], own[group]]), axis=0)
    return np.unpackbits(bits, axis=1, count=n).astype(np.float64)
