"""Exact samples and exact top-k from a log-linear distribution, without touching V.

Sampling: a class of the rest or an exception, by their probabilities; then a word of the class by its alias table,
drawn again while the word is an exception (which has left the class). Where nothing depends on the context, a class is
drawn by its cumulated weights B_s exp(a·φ_s), and every word of it will do: some passes over G numbers.

Top-k: the best words of the rest lie in the k + |E(n)| classes whose best member scores highest, since every class that
ranks above brings its own best word, unless that is one of the |E(n)| exceptions. A heap walks down those classes. A
vocabulary of some ten thousand words is written out instead: that is faster than a walk in Python.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from llrnn.ground.arrays import Floats
from llrnn.layer.masses import Classes, ClassMass, Left
from llrnn.layer.numerics import MINUS_INFINITY
from llrnn.layer.priors import Knowledge, SparsePrior

_ROUNDS_OF_REJECTION = 64
Word = tuple[float, int]  # log p, or a score, and the word


class Parts(NamedTuple):
    """The probabilities of classes and of single words at N positions, from which words are drawn exactly.

    `rest` (N, G) float64: the summed probability of the words of each class that are no exceptions; `own` (E,) float64:
    the probability of each exception, a word whose prior or features differ at a position; `known`: a `Knowledge` that
    lists the E exceptions by `position` and `word`; `left`: a `Left`, the (position, class) pairs that they belong to;
    `classes`: the sets of words with equal features; `prior`: the `SparsePrior` in proportion to which a word of a
    class is drawn. Use: `Parts(...).sample(count, generator)`.
    """

    classes: Classes
    known: Knowledge
    left: Left
    prior: SparsePrior
    rest: Tensor  # (N, G) float64
    own: Tensor  # (E,) float64

    def sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Draw `count` words independently at each of N positions; return their ids, (count, N).

        `generator`: the source of random numbers, None for torch's global one. Ids are int64.
        """
        rest, n = self.rest, len(self.rest)
        position = torch.arange(n, device=rest.device).expand(count, -1).reshape(-1)
        own_total = rest.new_zeros(n).index_add(0, self.known.position, self.own)
        u = torch.rand(len(position), dtype=rest.dtype, generator=generator, device=rest.device)
        u = u * (rest.sum(-1) + own_total)[position]
        word = torch.empty_like(position)
        is_own = u < own_total[position]
        word[is_own] = self._exceptions(own_total, position[is_own], u[is_own])
        word[~is_own] = self._of_rest(position[~is_own], generator)
        return word.view(count, n)

    def _exceptions(self, own_total: Tensor, position: Tensor, u: Tensor) -> Tensor:
        """Return an exception for each of n draws, word ids (n,), by inverting cumulated probabilities.

        Exceptions are words whose prior or features differ at a position. `own_total` (N,): their summed probability at
        each position; `position` (n,): of each draw; `u` (n,): a random number from 0 to that sum for each.
        """
        before = torch.cat([own_total.new_zeros(1), own_total.cumsum(0)[:-1]])
        index = torch.searchsorted(self.own.cumsum(0), before[position] + u, right=True)
        known = self.known.position.contiguous()
        first, last = torch.searchsorted(known, position), torch.searchsorted(known, position, right=True) - 1
        return self.known.word[torch.maximum(torch.minimum(index, last), first)]

    def _of_rest(self, position: Tensor, generator: torch.Generator | None) -> Tensor:
        if len(position) == 0:
            return position
        klass = _draw_classes(self.rest, position, generator)
        table = self._tables(position, klass, generator)
        word = torch.full_like(position, -1)
        waiting = torch.arange(len(position), device=position.device)
        masses = [self.classes.mass(one) for one in self.prior.tables]
        for _ in range(_ROUNDS_OF_REJECTION):
            for k, mass in enumerate(masses):
                now = waiting[table[waiting] == k]
                word[now] = mass.words.draw(klass[now], generator)
            waiting = waiting[self._is_exception(position[waiting], word[waiting])]
            if len(waiting) == 0:
                return word
        for index in waiting.tolist():  # exceptions hold nearly all of the class: look at its members
            mass = masses[int(table[index])]
            word[index] = self._member(mass, int(position[index]), int(klass[index]), generator)
        return word

    def _tables(self, position: Tensor, klass: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draw which table of the prior each of n words is to come from, indices (n,).

        The prior is a sum of K tables; table k is drawn in proportion to its part of the prior summed over the words of
        the drawn class that are no exceptions at the position. An index is from 0 to K − 1; always 0 where K = 1.
        `position`, `klass` (n,): of the draws, `klass` an index of a set of words with equal features.
        """
        if len(self.prior.tables) == 1:
            return torch.zeros_like(position)
        n, left, shares = len(self.rest), self.left, []
        shift = self.prior.shift.expand(n, -1)
        for k, table in enumerate(self.prior.tables):
            mass = self.classes.mass(table)
            whole = mass.log_mass.expand(n, -1).clone()
            whole[left.position, left.klass] = mass.without(self.known.word, left).log_mass
            shares.append(whole[position, klass] + shift[position, k])
        weights = torch.softmax(torch.stack(shares, -1), -1)
        return torch.multinomial(weights, 1, generator=generator).view(-1)

    def _is_exception(self, position: Tensor, word: Tensor) -> Tensor:
        V = self.prior.n_symbols
        return torch.isin(position * V + word, self.known.position * V + self.known.word)

    def _member(self, mass: ClassMass, position: int, klass: int, generator: torch.Generator | None) -> Tensor:
        members = self.classes.members_of(klass)
        members = members[~torch.isin(members, self.known.word[self.known.position == position])]
        weights = torch.softmax(mass.log_b[members], 0)
        return members[torch.multinomial(weights, 1, generator=generator)][0]


def _draw_classes(rest: Tensor, position: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw a column of `rest`, a class of words, for each of n draws, class indices (n,).

    `rest` (N, G): the unnormalised probabilities of the classes at each position; `position` (n,): the row of each
    draw. `generator`: the source of random numbers, None for torch's global one. Classes of weight 0 are never drawn.
    """
    counts = torch.bincount(position, minlength=len(rest))
    klass = torch.zeros_like(position)
    wanted = torch.nonzero(counts).view(-1)
    drawn = torch.multinomial(rest[wanted], int(counts.max()), replacement=True, generator=generator)
    order = torch.argsort(position, stable=True)
    row = torch.searchsorted(wanted, position[order])
    within = torch.arange(len(order), device=order.device) - torch.searchsorted(position[order], position[order])
    klass[order] = drawn[row, within]
    return klass


def inverted(weights: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """Draw `count` columns in each row in proportion to their weights, (N, G) -> column indices (count, N).

    Each draw inverts the cumulated weights at one random number; a column of weight 0 is never drawn. `generator`: None
    for torch's global one.
    """
    ends = weights.double().cumsum(-1)
    total = ends[:, -1:].contiguous()
    u = torch.rand(len(weights), count, dtype=torch.float64, generator=generator, device=weights.device) * total
    found = torch.searchsorted(ends, u, right=True)  # right: what has no weight is never met
    last = torch.searchsorted(ends, total)  # where rounding made u the total
    return torch.minimum(found, last).t()


def one_by_one(rows: Floats, mass: ClassMass, count: int, generator: torch.Generator | None) -> Tensor:
    """Draw `count` words at each of N positions, ids (count, N), in plain Python, faster for a step of decoding.

    `rows` (N, G): running sums of the weights of the classes (sets of words with equal features), float64; `mass`: the
    prior, by which a word of a class is drawn. From the same random numbers, the classes are those that `inverted`
    draws. `generator`: None for torch's global one.
    """
    u = torch.rand(len(rows), count, dtype=torch.float64, generator=generator).tolist()
    found = [[_where(row, x) for x in own] for row, own in zip(rows, u, strict=True)]
    words = mass.words.draw_few([row[i] for i in range(count) for row in found], generator)
    return torch.tensor(words, dtype=torch.long).view(count, len(rows))


def _where(ends: Floats, u: float) -> int:
    total = float(ends[-1])
    return int(ends.searchsorted(u * total, "right" if u * total < total else "left"))


def largest(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest values of each row and their column indices, (N, V) -> two tensors (N, k), largest first.

    Of equal values the one with the smaller index comes first.
    """
    values, words = weights.topk(k, -1)
    least = values[:, -1:]
    tied = (values[:, 1:] == values[:, :-1]).any(-1) | ((weights >= least).sum(-1) > k)
    tied &= (values[:, :1] > MINUS_INFINITY)[:, 0]
    for n in torch.nonzero(tied).view(-1).tolist():
        above = torch.nonzero((weights[n] >= least[n]) & (weights[n] > MINUS_INFINITY)).view(-1)
        order = torch.sort(weights[n, above], descending=True, stable=True).indices[:k]
        words[n, : len(order)], values[n, : len(order)] = above[order], weights[n, above[order]]
    return values, words


def best_words(mass: ClassMass, scores: Tensor, shift: list[float], own: list[list[Word]], k: int) -> list[list[Word]]:
    """Return the k most probable words of each of N positions as (log p, word id), best first: N lists of k pairs.

    `mass`: the prior and its sums over classes of words; `scores` (N, G) float64: a·φ_s of each class s; `shift`: for
    each position log p − a·φ − log b, the same for all words; `own`: for each position (log p, word id) of its
    exceptions, words whose prior or features differ there. Ties go to the smaller id.
    """
    bound = scores + mass.best_log_b  # (N, G)
    rows = []
    for n, alone in enumerate(own):
        gone = {word for _, word in alone}
        # of classes whose best words tie, which one comes in would be left to chance: all of them have to
        least = bound[n].topk(min(k + len(alone), bound.shape[1])).values[-1]
        classes = torch.nonzero(bound[n] >= least).view(-1)
        walk = _walk(mass, classes.tolist(), scores[n, classes].tolist())
        rest = ((score + shift[n], word) for score, word in walk if word not in gone)
        rows.append(list(islice(heapq.merge(rest, sorted(alone, key=_falling), key=_falling), k)))
    return rows


def _falling(pair: Word) -> Word:
    return -pair[0], pair[1]


def _walk(mass: ClassMass, classes: list[int], static: list[float]) -> Iterator[Word]:
    """Yield (score + log b, word id) of all words of some classes, highest first, ties by id.

    `mass`: the prior, which gives log b; `classes`: indices of sets of words with equal features; `static`: the score
    a·φ of each class.
    """
    ranked = [mass.ranked(klass) for klass in classes]
    heap = [(-(static[i] + log_b[0]), words[0], i, 0) for i, (words, log_b) in enumerate(ranked)]
    heapq.heapify(heap)
    while heap:
        negative, word, i, rank = heap[0]
        yield -negative, word
        words, log_b = ranked[i]
        if rank + 1 < len(words):
            heapq.heapreplace(heap, (-(static[i] + log_b[rank + 1]), words[rank + 1], i, rank + 1))
        else:
            heapq.heappop(heap)
