"""Strongly connected components of a graph, those that reach no other first (Tarjan, without recursion)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def components(first: Sequence[int], target: Sequence[int]) -> Iterator[list[int]]:
    """States that reach each other; the moves of state q go to `target[first[q] : first[q + 1]]`."""
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
