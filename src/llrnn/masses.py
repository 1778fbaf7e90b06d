"""How much of a static table lies in each class, and how much is left when exceptions leave.

    B_s = Σ_{x∈s} b(x)                              once per table
    B_s^rest = B_s − Σ_{x∈s∩E} b(x)                 per position and class that an exception leaves

The subtraction is done in float64 on shares of B_s. When no member with mass is left the rest is exactly nothing; when
less than a millionth is left, the members that stay are summed anew, since subtraction would have lost their digits.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from llrnn.features.matrix import FeatureMatrix
from llrnn.numerics import MINUS_INFINITY, log_matmul, segment_logsumexp
from llrnn.priors import DensePrior, SparsePrior, Table

_SUM_ANEW_BELOW = 1e-6


class Left(NamedTuple):
    """The (position, class) pairs that exceptions leave, and to which of them each exception belongs."""

    position: Tensor  # (C,)
    klass: Tensor  # (C,)
    of_exception: Tensor  # (E,)


class Remainder(NamedTuple):
    """What is left in each cell: its log-mass, and the mean of log b over it."""

    log_mass: Tensor  # (C,)
    mean_log_b: Tensor  # (C,)


class Classes(torch.nn.Module):
    """The partition of V into classes, on the device of the model, with the masses of the tables that came by."""

    class_of: Tensor
    members: Tensor
    member_offsets: Tensor

    def __init__(self, features: FeatureMatrix) -> None:
        super().__init__()
        self.count = features.n_classes
        self.register_buffer("class_of", torch.from_numpy(features.class_of), persistent=False)
        self.register_buffer("members", torch.from_numpy(features.members), persistent=False)
        self.register_buffer("member_offsets", torch.from_numpy(features.member_offsets), persistent=False)
        self._masses: WeakKeyDictionary[Table, ClassMass] = WeakKeyDictionary()

    def mass(self, table: Table) -> ClassMass:
        if table not in self._masses:
            self._masses[table] = ClassMass(table.log_b, self)
        return self._masses[table]

    def left_by(self, position: Tensor, word: Tensor) -> Left:
        key = position * self.count + self.class_of[word]
        unique, inverse = torch.unique(key, return_inverse=True)
        return Left(unique // self.count, unique % self.count, inverse)

    def log_mass(self, prior: SparsePrior) -> Tensor:
        """The log-mass of every class with nothing removed, (N, G) or (1, G)."""
        masses = torch.stack([self.mass(table).log_mass for table in prior.tables])  # (K, G)
        if prior.active is not None:
            return masses[prior.active] + prior.shift.gather(1, prior.active[:, None])
        blended = log_matmul(prior.shift, masses)
        vanished = (blended == MINUS_INFINITY).any(0) & (masses > MINUS_INFINITY).any(0)  # (G,)
        if vanished.any():  # too small beside the others for a product: one by one
            few = masses[:, vanished]
            blended[:, vanished] = torch.logsumexp(prior.shift.unsqueeze(-1) + few, 1)
        return blended

    def log_rest(self, prior: SparsePrior, word: Tensor, left: Left) -> Tensor:
        """The log-mass that is left in each cell when the exceptional words have gone, (C,)."""
        shift = prior.shift[left.position] if prior.n > 1 else prior.shift.expand(len(left.position), -1)
        parts = [self.mass(table).without(word, left).log_mass + shift[:, k] for k, table in enumerate(prior.tables)]
        return parts[0] if len(parts) == 1 else torch.logsumexp(torch.stack(parts), 0)

    def log_mass_dense(self, prior: DensePrior, position: Tensor, word: Tensor) -> Tensor:
        """The log-mass of every class, the exceptions left out, of a prior that lists all of V, (N, G)."""
        log_b = prior.log_b
        if len(position):
            log_b = log_b.index_put((position, word), log_b.new_tensor(MINUS_INFINITY))
        N = len(log_b)
        segment = (torch.arange(N, device=log_b.device)[:, None] * self.count + self.class_of).view(-1)
        return segment_logsumexp(log_b.reshape(-1), segment, N * self.count).view(N, self.count)

    def members_of(self, klass: int) -> Tensor:
        return self.members[self.member_offsets[klass] : self.member_offsets[klass + 1]]


class ClassMass:
    """One table seen by classes: masses, means, the best members first, and alias tables for drawing."""

    def __init__(self, log_b: Tensor, classes: Classes) -> None:
        self.log_b = log_b  # (V,)
        self._class_of, self._offsets = classes.class_of, classes.member_offsets
        self._members = classes.members
        G = classes.count
        self.log_mass = segment_logsumexp(log_b, self._class_of, G)  # (G,)
        log_share = log_b - self.log_mass[self._class_of]
        self.log_share = log_share.masked_fill(log_b == MINUS_INFINITY, MINUS_INFINITY)  # (V,) log b(x) / B_s
        self._share = self.log_share.exp()  # 0 where it underflows, though its logarithm does not
        self._share_log_b = torch.where(self._share > 0, self._share * log_b, 0.0)
        self.mean_log_b = self._per_class(self._share_log_b)  # (G,)
        self._alive = self._per_class((log_b > MINUS_INFINITY).to(torch.float64))

    def _per_class(self, values: Tensor) -> Tensor:
        return values.new_zeros(len(self.log_mass)).index_add(0, self._class_of, values)

    def without(self, word: Tensor, left: Left) -> Remainder:
        """What is left in each cell when the exceptional words, `word` (E,), have gone."""

        def gone(values: Tensor) -> Tensor:
            return values.new_zeros(len(left.klass)).index_add(0, left.of_exception, values[word])

        share = 1.0 - gone(self._share)
        alive = self._alive[left.klass] - gone((self.log_b > MINUS_INFINITY).to(torch.float64))
        log_mass = self.log_mass[left.klass] + share.clamp(min=_SUM_ANEW_BELOW).log()
        mean = (self.mean_log_b[left.klass] - gone(self._share_log_b)) / share.clamp(min=_SUM_ANEW_BELOW)
        empty = alive < 0.5
        log_mass, mean = log_mass.masked_fill(empty, MINUS_INFINITY), mean.masked_fill(empty, 0.0)
        for cell in torch.nonzero((share < _SUM_ANEW_BELOW) & ~empty).view(-1).tolist():
            stays = self._staying(int(left.klass[cell]), word[left.of_exception == cell])
            log_mass[cell] = torch.logsumexp(stays, 0)
            mean[cell] = (torch.softmax(stays, 0) * stays).sum()
        return Remainder(log_mass, mean)

    def _staying(self, klass: int, gone: Tensor) -> Tensor:
        members = self._members[self._offsets[klass] : self._offsets[klass + 1]]
        stays = self.log_b[members[~torch.isin(members, gone)]]
        return stays[stays > MINUS_INFINITY]

    @cached_property
    def best_first(self) -> Tensor:
        """The members of each class by falling b, in the place of `classes.members`, (V,)."""
        by_mass = torch.argsort(self.log_b[self._members], descending=True, stable=True)
        by_class = torch.argsort(self._class_of[self._members][by_mass], stable=True)
        return self._members[by_mass][by_class]

    @cached_property
    def best_log_b(self) -> Tensor:
        """log b of the best member of each class, (G,)."""
        return self.log_b[self.best_first[self._offsets[:-1]]]

    @cached_property
    def alias(self) -> tuple[Tensor, Tensor]:
        """Walker's alias tables of all classes, one after the other: keep-probability and alias, each (V,)."""
        share = self._share[self._members].tolist()
        offsets = self._offsets.tolist()
        keep, alias = [1.0] * len(share), list(range(len(share)))
        for start, stop in pairwise(offsets):
            _fill_alias(share, keep, alias, start, stop)
        device = self.log_b.device
        return torch.tensor(keep, dtype=torch.float64, device=device), torch.tensor(alias, device=device)

    def draw(self, klass: Tensor, *, generator: torch.Generator | None) -> Tensor:
        """A word of each class, with probability b(x) / B_s: two uniform numbers each, whatever the class size."""
        keep, alias = self.alias
        start = self._offsets[klass]
        size = self._offsets[klass + 1] - start
        u = torch.rand(2, len(klass), dtype=torch.float64, generator=generator, device=klass.device)
        slot = start + torch.minimum((u[0] * size).long(), size - 1)
        return self._members[torch.where(u[1] < keep[slot], slot, alias[slot])]


def _fill_alias(share: list[float], keep: list[float], alias: list[int], start: int, stop: int) -> None:
    """Vose's method on one class: every slot holds 1/size, of its own word first and of one other for what is left."""
    size = stop - start
    scaled = {slot: share[slot] * size for slot in range(start, stop)}
    small = [slot for slot in scaled if scaled[slot] < 1.0]
    large = [slot for slot in scaled if scaled[slot] >= 1.0]
    while small and large:
        little, much = small.pop(), large[-1]
        keep[little], alias[little] = scaled[little], much
        scaled[much] -= 1.0 - scaled[little]
        if scaled[much] < 1.0:
            small.append(large.pop())
    # what rounding left over is a whole slot; but a word without mass is never drawn
    empty = [slot for slot in small if share[slot] == 0.0 and size > 1]
    most = max(range(start, stop), key=share.__getitem__) if empty else start  # once: a whole class may be forbidden
    for slot in empty:
        keep[slot], alias[slot] = 0.0, most
