"""Graphs, in linear time: what reaches each other (Tarjan), what follows from what, and who can be reached at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
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


def reached(start: Name, after: Mapping[Name, Iterable[Name]]) -> dict[Name, None]:
    """All that one step or more lead to, in the order in which it is found; what has no row leads nowhere."""
    found, stack = dict[Name, None](), [start]
    while stack:
        fresh = [name for name in after.get(stack.pop(), ()) if name not in found]
        found.update(dict.fromkeys(fresh))
        stack += fresh
    return found


def derived(implications: Iterable[tuple[Name, Collection[Name]]], known: Iterable[Name]) -> set[Name]:
    """What is known, and all that follows: a conclusion as soon as its last premise is found."""
    conclusions, missing = list[Name](), list[int]()
    waiting: dict[Name, list[int]] = defaultdict(list)
    found, fresh = set(known), list[Name]()
    for number, (conclusion, premises) in enumerate(implications):
        conclusions.append(conclusion)
        missing.append(len(set(premises)))
        for premise in set(premises):
            waiting[premise].append(number)
        if not premises:
            fresh.append(conclusion)
    fresh += found
    found.update(fresh)
    while fresh:
        for number in waiting.pop(fresh.pop(), ()):
            missing[number] -= 1
            if missing[number] == 0 and conclusions[number] not in found:
                found.add(conclusions[number])
                fresh.append(conclusions[number])
    return found


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
