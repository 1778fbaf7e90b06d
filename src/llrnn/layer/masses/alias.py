"""A word of a class by its share, in the same time whatever the size of the class: Walker's alias tables.

    every slot of a class of n words holds 1/n: first of its own word, then, for what is left, of one other

    slot = ⌊n u₁⌋;  word = its own if u₂ < keep[slot], else the other one

The tables of a class are made when it is first drawn from, since a text meets few of them. What is not made takes no
memory either: tables start as zeros, which the system hands out when they are written to, and other words are noted by
how far away they stand, so that zeros say of a class of one word what is true.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints


class AliasTables:
    """For words in the order of their classes: class s has `members[offsets[s] : offsets[s + 1]]`."""

    def __init__(self, share: Tensor, members: Tensor, offsets: Tensor) -> None:
        self._members, self._offsets = members, offsets  # (V,), (G + 1,)
        self._share = share[members].cpu().numpy()  # by slot: a class is read in one piece
        self._keep, self._other = np.zeros(len(share)), np.zeros(len(share), dtype=np.int64)  # by slot
        self._start = offsets.cpu().numpy()
        self._made: npt.NDArray[np.bool_] = np.diff(self._start) <= 1
        self._words = members.cpu().numpy()
        self._placed = torch.from_numpy(self._keep).to(share.device), torch.from_numpy(self._other).to(share.device)

    def draw(self, klass: Tensor, generator: torch.Generator | None) -> Tensor:
        """A word of each of some classes, (n,) -> (n,): two uniform numbers each."""
        asked = klass.cpu().numpy()
        for one in set(asked[~self._made[asked]].tolist()):
            self._make(one)
        u = torch.rand(2, len(klass), dtype=torch.float64, generator=generator, device=klass.device)
        keep, other = self._placed
        start = self._offsets[klass]
        size = self._offsets[klass + 1] - start
        slot = start + torch.minimum((u[0] * size).long(), size - 1)
        return self._members[torch.where(u[1] < keep[slot], slot, slot + other[slot])]

    def draw_few(self, classes: Sequence[int], generator: torch.Generator | None) -> list[int]:
        """The same words, one by one: for a few, operations on tensors take longer (on a CPU)."""
        u = torch.rand(2, len(classes), dtype=torch.float64, generator=generator)
        return [self._word(klass, *pair) for klass, pair in zip(classes, u.t().tolist(), strict=True)]

    def _word(self, klass: int, u: float, v: float) -> int:
        if not self._made[klass]:
            self._make(klass)
        start, end = int(self._start[klass]), int(self._start[klass + 1])
        slot = min(start + int(u * (end - start)), end - 1)
        return int(self._words[slot if v < self._keep[slot] else slot + self._other[slot]])

    def _make(self, klass: int) -> None:
        own = slice(int(self._start[klass]), int(self._start[klass + 1]))
        keep, alias = alias_of(self._share[own])
        self._keep[own], self._other[own] = keep, alias - np.arange(len(keep))
        if self._members.device.type != "cpu":  # there the tensors are copies
            for placed, made in zip(self._placed, (self._keep, self._other), strict=True):
                placed[own] = torch.from_numpy(made[own]).to(placed.device)
        self._made[klass] = True


def alias_of(share: Floats) -> tuple[Floats, Ints]:
    """Keep-probabilities and aliases: every slot holds 1/size, of its own word first and of one other for what is left.

    Words above their slot, one after the other, fill up those below; one that has given too much is filled up by the
    next. Who gives to whom is read off the cumulated sums of what they lack and of what they have to give.
    """
    keep, alias = share * len(share), np.arange(len(share))
    lack = 1.0 - keep
    is_below = lack > 0
    below, above = np.flatnonzero(is_below), np.flatnonzero(~is_below)
    if len(below) == 0 or len(above) == 0:  # equal shares, but for rounding
        return np.ones_like(share), alias
    lacked, given = lack.take(below).cumsum(), (-lack.take(above)).cumsum()
    first = lacked.searchsorted(given, side="right")  # the one by whom each has given too much
    used_up = np.bincount(np.minimum(first, len(below) - 1) + 1, minlength=len(below) + 1)[:-1].cumsum()
    alias[below] = above.take(np.minimum(used_up, len(above) - 1))  # so many gave all they had to those before
    gave = first[:-1] < len(below)  # rounding aside, the last one has enough
    keep[above] = 1.0
    giver = above[:-1][gave]
    keep[giver] = 1.0 + given[:-1][gave] - lacked.take(first[:-1][gave])
    alias[giver] = above[1:][gave]
    return keep.clip(0.0, 1.0), alias
