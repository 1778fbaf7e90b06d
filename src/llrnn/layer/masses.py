"""How much of a static table lies in each class, and how much is left when exceptions leave.

    B_s = Σ_{x∈s} b(x)                              once per table
    B_s^rest = B_s − Σ_{x∈s∩E} b(x)                 per position and class that an exception leaves

The subtraction is done in float64 on shares of B_s. When no member with mass is left the rest is exactly nothing; when
less than a millionth is left, the members that stay are summed anew, since subtraction would have lost their digits.

A word of a class by its share, in the same time whatever the size of the class: Walker's alias tables.

    every slot of a class of n words holds 1/n: first of its own word, then, for what is left, of one other

    slot = ⌊n u₁⌋;  word = its own if u₂ < keep[slot], else the other one

The tables of a class are made when it is first drawn from, since a text meets few of them. What is not made takes no
memory either: tables start as zeros, which the system hands out when they are written to, and other words are noted
by how far away they stand, so that zeros say of a class of one word what is true.

The mass of each class, summed quickly: what opening a model of a million words waits for.

    log B_s = log Σ_{x∈s} exp(log b(x) − m) + m            m: the largest of all words, not of the class

One m for all saves two passes over V; numpy adds up in pieces that stay in the cache: a quarter of the time. A class
so far below m that digits were lost is summed by its own largest (`segment_logsumexp`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats, Ints
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.numerics import MINUS_INFINITY, log_matmul, segment_logsumexp
from llrnn.layer.priors import DensePrior, SparsePrior, Table


class AliasTables:
    """Walker's alias tables for drawing a word of a given class in constant time, whatever the size of the class.

    A class is a set of words with equal features. `share` (V,): the probability of each word within its class;
    `members` (V,): word ids in the order of their classes, those of class s being `members[offsets[s] : offsets[s +
    1]]`. The table of a class is made when it is first drawn from. Use: `AliasTables(share, members,
    offsets).draw(klass, generator)`.
    """

    def __init__(self, share: Tensor, members: Tensor, offsets: Tensor) -> None:
        self._members, self._offsets = members, offsets  # (V,), (G + 1,)
        self._share = share[members].cpu().numpy()  # by slot: a class is read in one piece
        self._keep, self._other = np.zeros(len(share)), np.zeros(len(share), dtype=np.int64)  # by slot
        self._start = offsets.cpu().numpy()
        self._made: npt.NDArray[np.bool_] = np.diff(self._start) <= 1
        self._words = members.cpu().numpy()
        self._placed = torch.from_numpy(self._keep).to(share.device), torch.from_numpy(self._other).to(share.device)

    def draw(self, klass: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw one word of each of the classes `klass`, class indices (n,) -> word ids (n,), by the words' shares.

        A class is a set of words with equal features. `generator`: the source of random numbers, of which each draw
        takes two; None for torch's global one. Draws are independent.
        """
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
        """Draw one word of each of the `classes` (sets of words with equal features); return the word ids as a list.

        A word has the probability within its class that the tables were made with. `classes`: class indices, one for
        each draw. It is meant for a few draws on a CPU, where tensor operations would take longer.
        `generator`: the source of random numbers, None for torch's global one.
        """
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
    """Return Walker's alias table of a distribution over n words: `keep` and `alias`, each (n,).

    `share` (n,): the probabilities, with sum one. To draw: slot i with probability 1/n each gives word i with
    probability keep[i], else word alias[i].
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


_ENOUGH = 1e-250  # beside so much, terms below the range of float64 (1e-308) count for nothing
_WORDS_AT_ONCE = 32_768


def log_masses(log_b: Tensor, class_of: Tensor, count: int) -> Tensor:
    """Return log B_s, the log of the prior b(x) summed over the words of each class s, (G,) float64; −∞ where it is 0.

    `log_b` (V,): of each word; `class_of` (V,): the index of each word's class; `count`: G, the number of classes.
    """
    largest = float(log_b.amax()) if len(log_b) else MINUS_INFINITY
    if log_b.device.type != "cpu" or largest == MINUS_INFINITY:
        return segment_logsumexp(log_b, class_of, count)
    total = _scaled_sums(log_b.numpy(), class_of.numpy(), count, largest)
    found = total.log() + largest
    lost = total < _ENOUGH
    if lost.any():
        own = lost[class_of]
        found[lost] = segment_logsumexp(log_b[own], class_of[own], count)[lost]
    return found


def _scaled_sums(log_b: Floats, class_of: Ints, count: int, largest: float) -> Tensor:
    """Return Σ exp(log b − largest) over the words of each class, (G,) float64, for prior values `log_b` (V,).

    `class_of` (V,): the index of each word's class; `count`: G, the number of classes; `largest`: the largest log b.
    """
    piece = max(_WORDS_AT_ONCE, 4 * count)
    total, scaled = np.zeros(count), np.empty(min(piece, len(log_b)))
    for start in range(0, len(log_b), piece):
        words = slice(start, start + piece)
        own = np.subtract(log_b[words], largest, out=scaled[: len(log_b[words])])
        total += np.bincount(class_of[words], weights=np.exp(own, out=own), minlength=count)
    return torch.from_numpy(total)


_SUM_ANEW_BELOW = 1e-6


class Left(NamedTuple):
    """The C (position, class) pairs whose class contains exceptions at that position, each pair once.

    A class is a set of words with equal features; an exception is a word whose prior or features at a position differ
    from the general ones. `position`, `klass` (C,): the pairs; `of_exception` (E,): for each of E exceptions the index
    of its pair, 0 … C − 1; all integers. Made by `Classes.left_by(position, word)`.
    """

    position: Tensor  # (C,)
    klass: Tensor  # (C,)
    of_exception: Tensor  # (E,)


class Remainder(NamedTuple):
    """What remains of a class of words at a position without its exceptions, for C (position, class) pairs.

    An exception is a word whose prior or features differ there. `log_mass` (C,): the log of the prior b summed over the
    remaining words, −∞ if none remains; `entropy` (C,): of these words in proportion to b, in nats.
    """

    log_mass: Tensor  # (C,)
    entropy: Tensor  # (C,)


class Masses(WeakKeyDictionary[Table, "ClassMass"]):
    """A cache {`Table` of a prior: `ClassMass`, its sums over classes of words} that does not keep its tables alive.

    An entry goes when its table is no more used elsewhere. Copies and pickles are empty. Use it like a dict:
    `masses[table] = mass`.
    """

    def __reduce__(self) -> tuple[type[Masses], tuple[()]]:
        return Masses, ()

    def __deepcopy__(self, memo: object) -> Masses:
        return Masses()


class Classes(torch.nn.Module):
    """The partition of V words into G classes, sets of words with equal features, as a torch module without parameters.

    `class_of` (V,): the index of each word's class, a buffer that moves with the model. Use: `classes =
    Classes(features)` from a `FeatureMatrix`; `classes.mass(table)` is the `ClassMass` of a prior, its sums of b over
    the classes, cached for each table; `classes.count` is G.
    """

    class_of: Tensor

    def __init__(self, features: FeatureMatrix) -> None:
        super().__init__()
        self.count, self._features = features.n_classes, features
        self._by_class: tuple[Tensor, Tensor] | None = None
        self.register_buffer("class_of", torch.from_numpy(features.class_of), persistent=False)
        self.masses = Masses()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling and copying, without cached arrays."""
        return {**self.__dict__, "_by_class": None}

    @property
    def members(self) -> Tensor:
        """All word ids in the order of their classes (sets of words with equal features), (V,); sorted on first use."""
        return self._partition()[0]

    @property
    def member_offsets(self) -> Tensor:
        """The ends of the classes in `members`, (G + 1,): class s has the words members[offsets[s] : offsets[s + 1]].

        A class is a set of words with equal features.
        """
        return self._partition()[1]

    def _partition(self) -> tuple[Tensor, Tensor]:
        device = self.class_of.device
        if self._by_class is None or self._by_class[0].device != device:
            arrays = self._features.members, self._features.member_offsets
            self._by_class = torch.from_numpy(arrays[0]).to(device), torch.from_numpy(arrays[1]).to(device)
        return self._by_class

    def mass(self, table: Table) -> ClassMass:
        """Return the sums of a prior over classes of words, as a `ClassMass`; cached as long as `table` lives.

        `table`: log b of every word, (V,). A class is a set of words with equal features.
        """
        found = self.masses.get(table)
        if found is None:
            found = self.masses[table] = ClassMass(table.log_b, self)
        return found

    def left_by(self, position: Tensor, word: Tensor) -> Left:
        """Return the (position, class) pairs to which E (position, word) pairs belong, each once, as a `Left`.

        `position`, `word` (E,): the exceptions, words that are summed apart from their class at a position. Of the
        result, `position` and `klass` (C,) are the pairs, sorted by position, then class; `of_exception` (E,) is the
        index of each exception's pair.
        """
        key = position * self.count + self.class_of[word]
        unique, inverse = torch.unique(key, return_inverse=True)
        return Left(unique // self.count, unique % self.count, inverse)

    def log_mass(self, prior: SparsePrior, dtype: torch.dtype) -> Tensor:
        """Return log Σ b(x) over the words of every class at N positions, (N, G), as `dtype`.

        (1, G) for a prior that is the same everywhere. b is by the tables of `prior` alone: words that it lists with
        another log b at a position count with the value of the tables.
        """
        if prior.base_table is not None:
            return self.mass(prior.base_table).as_dtype(dtype)[None]
        return self._blended(prior).to(dtype)

    def _blended(self, prior: SparsePrior) -> Tensor:
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
        """Return log Σ b(x) over the remaining words of each (position, class) pair in `left`, (C,) float64.

        b is by the tables of `prior`. `word` (E,): the exceptions that are left out of the sums, words with a prior or
        features of their own at a position; `left.of_exception` says which pair each belongs to. −∞ if none remains.
        """
        shift = prior.shift[left.position] if prior.n > 1 else prior.shift.expand(len(left.position), -1)
        parts = [self.mass(table).without(word, left).log_mass + shift[:, k] for k, table in enumerate(prior.tables)]
        return parts[0] if len(parts) == 1 else torch.logsumexp(torch.stack(parts), 0)

    def log_mass_dense(self, prior: DensePrior, position: Tensor, word: Tensor) -> Tensor:
        """Return log Σ b(x) over the words of every class at N positions, (N, G), for a prior of N × V values.

        A class is a set of words with equal features. The E words `word` (E,) at the positions `position` (E,) are left
        out of the sums; −∞ where no word is left. The result is float64.
        """
        log_b = prior.log_b
        if len(position):
            log_b = log_b.index_put((position, word), log_b.new_tensor(MINUS_INFINITY))
        N = len(log_b)
        segment = (torch.arange(N, device=log_b.device)[:, None] * self.count + self.class_of).view(-1)
        return segment_logsumexp(log_b.reshape(-1), segment, N * self.count).view(N, self.count)

    def members_of(self, klass: int) -> Tensor:
        return self.members[self.member_offsets[klass] : self.member_offsets[klass + 1]]


class ClassMass:
    """The sums of a prior over classes of words with equal features, and what drawing and ranking words by it need.

    `log_b` (V,): the prior of each word; `log_mass` (G,) float64: the log of its sum over each class. All else is
    computed on first use.
    """

    def __init__(self, log_b: Tensor, classes: Classes) -> None:
        self.log_b, self._classes, self._class_of = log_b, classes, classes.class_of  # (V,)
        self.log_mass = log_masses(log_b, self._class_of, classes.count)  # (G,)
        self._cast: dict[torch.dtype, Tensor] = {}
        self._asked = False

    # Only scoring is needed at once; the rest, some passes over V, when somebody draws, or has exceptions.

    @cached_property
    def log_share(self) -> Tensor:
        """log(b(x) / B_s) of every word x, (V,): its share of the prior B_s summed over its class; −∞ where b = 0.

        B_s is summed class by class here; the last digit may differ from exp(`log_mass`), which is summed in another
        way. Drawing uses this sum, so that a seed goes on to draw the words that it always drew.
        """
        log_mass = segment_logsumexp(self.log_b, self._class_of, len(self.log_mass))
        return self.log_b - _or_zero(log_mass)[self._class_of]

    def log_share_of(self, word: Tensor) -> Tensor:
        """Return log(b(x) / B_s) of the words `word`, ids (E,) -> (E,) float64; −∞ for words with b = 0.

        It is a word's share of the prior B_s summed over its class of words. The first call computes it for the given
        words alone; the second one for all V words, from which later calls are answered.
        """
        if self._asked:
            return self._log_shares.index_select(0, word)
        self._asked = True
        return self.log_b.index_select(0, word) - _or_zero(self.log_mass)[self._class_of.index_select(0, word)]

    @cached_property
    def _log_shares(self) -> Tensor:
        return self.log_b - _or_zero(self.log_mass)[self._class_of]

    def as_dtype(self, dtype: torch.dtype) -> Tensor:
        """Return the log of the prior summed over each class of words, (G,), as `dtype`; cached."""
        if dtype not in self._cast:
            self._cast[dtype] = self.log_mass.to(dtype)
        return self._cast[dtype]

    @cached_property
    def _share(self) -> Tensor:
        return self.log_share.exp()  # 0 where it underflows, though its logarithm does not

    @cached_property
    def _surprise(self) -> Tensor:
        """−q log q of every word, (V,), at least 0: q is its share of the prior summed over its class of words."""
        return torch.where(self._share > 0, -self._share * self.log_share.clamp(max=0.0), 0.0)

    @cached_property
    def entropy(self) -> Tensor:
        """The entropy in nats of the words of each class, drawn in proportion to the prior b, (G,)."""
        return self._per_class(self._surprise)

    @cached_property
    def _alive(self) -> Tensor:
        return self._per_class((self.log_b > MINUS_INFINITY).to(torch.float64))

    def _per_class(self, values: Tensor) -> Tensor:
        return values.new_zeros(len(self.log_mass)).index_add(0, self._class_of, values)

    def without(self, word: Tensor, left: Left) -> Remainder:
        """Return log-sum and entropy of the prior for each (position, class) pair in `left`, without some words.

        `word` (E,): the ids of these words; `left.of_exception` (E,): the pair that each is left out of. The result is
        a `Remainder` of `log_mass` and `entropy` in nats, (C,) each; −∞ and 0 where no word with b > 0 remains. Where
        less than a millionth of the sum remains, the remaining words are summed anew.
        """

        def gone(values: Tensor) -> Tensor:
            return values.new_zeros(len(left.klass)).index_add(0, left.of_exception, values[word])

        share = 1.0 - gone(self._share)
        alive = self._alive[left.klass] - gone((self.log_b > MINUS_INFINITY).to(torch.float64))
        log_mass = self.log_mass[left.klass] + share.clamp(min=_SUM_ANEW_BELOW).log()
        stays = share.clamp(min=_SUM_ANEW_BELOW)  # −Σ (q/r) log (q/r) = log r − Σ (q/r) log q
        entropy = (stays.log() + (self.entropy[left.klass] - gone(self._surprise)) / stays).clamp(min=0.0)
        empty = alive < 0.5
        log_mass, entropy = log_mass.masked_fill(empty, MINUS_INFINITY), entropy.masked_fill(empty, 0.0)
        for cell in torch.nonzero((share < _SUM_ANEW_BELOW) & ~empty).view(-1).tolist():
            few = self._staying(int(left.klass[cell]), word[left.of_exception == cell])
            log_mass[cell] = torch.logsumexp(few, 0)
            entropy[cell] = -(torch.softmax(few, 0) * torch.log_softmax(few, 0)).sum()
        return Remainder(log_mass, entropy)

    def _staying(self, klass: int, gone: Tensor) -> Tensor:
        members = self._classes.members_of(klass)
        stays = self.log_b[members[~torch.isin(members, gone)]]
        return stays[stays > MINUS_INFINITY]

    @cached_property
    def _ranked(self) -> dict[int, tuple[list[int], list[float]]]:
        return {}

    def ranked(self, klass: int) -> tuple[list[int], list[float]]:
        """Return the word ids of class `klass` by falling prior b, ties by id, and their log b, as two lists.

        The result is cached. A class is a set of words with equal features; `klass` is its index.
        """
        if klass not in self._ranked:
            members = self._classes.members_of(klass)
            log_b, order = torch.sort(self.log_b[members], descending=True, stable=True)
            self._ranked[klass] = members[order].tolist(), log_b.tolist()
        return self._ranked[klass]

    @cached_property
    def best_log_b(self) -> Tensor:
        """The largest prior value log b of a word in each class (set of words with equal features), (G,).

        −∞ for a class whose words all have b = 0.
        """
        lowest = torch.full_like(self.log_mass, MINUS_INFINITY)
        return lowest.scatter_reduce(0, self._class_of, self.log_b, "amax")

    @cached_property
    def words(self) -> AliasTables:
        """Alias tables that draw a word of a given class (words with equal features) in proportion to the prior b."""
        return AliasTables(self._share, self._classes.members, self._classes.member_offsets)


def _or_zero(log_mass: Tensor) -> Tensor:
    """Return `log_mass` with 0 in place of −∞, so that log b − log_mass is −∞ and not NaN where both are −∞."""
    return log_mass.masked_fill(log_mass == MINUS_INFINITY, 0.0)
