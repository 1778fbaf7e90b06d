"""Seeded choice: words by Zipf's law, so that few are frequent and many are rare."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")

_EXPONENT = 2.7
_SHIFT = 8.0  # Mandelbrot's shift: the head of a list is flat, its tail steep


class Weighted(Generic[T]):
    """Items drawn in proportion to their weights, by `Random.random` alone: it is the same in every Python."""

    __slots__ = ("_bounds", "_last", "items")

    def __init__(self, items: Sequence[T], weights: Sequence[float]) -> None:
        assert items, "nothing to choose from"
        self.items = items
        self._bounds = tuple(accumulate(weights))
        self._last = len(items) - 1

    def draw(self, random: Random) -> T:
        bounds = self._bounds
        return self.items[bisect(bounds, random.random() * bounds[-1], 0, self._last)]


def zipf_weights(count: int) -> list[float]:
    """The weight of rank 0, 1, ...: 1 / (rank + shift) ** exponent."""
    return [(rank + _SHIFT) ** -_EXPONENT for rank in range(count)]


def zipf(items: Sequence[T]) -> Weighted[T]:
    """Items by rank: the first is the most frequent."""
    return Weighted(items, zipf_weights(len(items)))


def boosted(items: Sequence[T], favoured: Sequence[bool], factor: float) -> Weighted[T]:
    """As `zipf`, with the weights of the favoured items multiplied."""
    weights = zipf_weights(len(items))
    return Weighted(items, [w * factor if liked else w for w, liked in zip(weights, favoured, strict=True)])
