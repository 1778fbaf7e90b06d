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
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from llrnn.ground.arrays import Floats
from llrnn.layer import ways
from llrnn.layer.masses import ClassMass
from llrnn.layer.numerics import MINUS_INFINITY, less, shifted_sums
from llrnn.layer.priors import SparsePrior

if TYPE_CHECKING:
    from llrnn.layer.loglinear import Distribution

_ROUNDS_OF_REJECTION = 64
_FEW_DRAWS = 4  # so few are made faster one by one than by operations on tensors (measured on CPU)
_WRITTEN_OUT = 30_000  # words: a row of so many takes as long to write out as the walk (measured on CPU)
_MOST_WRITTEN = 30_000_000  # numbers in all, for memory
Word = tuple[float, int]  # log p, or a score, and the word


def sample(p: Distribution, count: int, generator: torch.Generator | None) -> Tensor:
    """Words drawn from p, (count, N)."""
    mass = ways.static_mass(p)
    if mass is not None:
        return _sample_static(p, mass, count, generator)
    prior = p.known.prior
    if not isinstance(prior, SparsePrior):
        weights = p.log_probs().detach().double().exp()
        return torch.multinomial(weights, count, replacement=True, generator=generator).t()
    rest, own = (part.detach().exp().double() for part in p.log_parts)
    position = torch.arange(p.n, device=rest.device).expand(count, -1).reshape(-1)
    own_total = rest.new_zeros(p.n).index_add(0, p.known.position, own)
    u = torch.rand(len(position), dtype=rest.dtype, generator=generator, device=rest.device)
    u = u * (rest.sum(-1) + own_total)[position]
    word = torch.empty_like(position)
    is_own = u < own_total[position]
    word[is_own] = _draw_exceptions(p, own, own_total, position[is_own], u[is_own])
    word[~is_own] = _draw_rest(p, prior, rest, position[~is_own], generator)
    return word.view(count, p.n)


def _draw_exceptions(p: Distribution, own: Tensor, own_total: Tensor, position: Tensor, u: Tensor) -> Tensor:
    """By inverting the cumulated probabilities; u lies between 0 and the position's total."""
    ends = own.cumsum(0)
    before = torch.cat([own_total.new_zeros(1), own_total.cumsum(0)[:-1]])
    index = torch.searchsorted(ends, before[position] + u, right=True)
    first = torch.searchsorted(p.known.position, position)
    last = torch.searchsorted(p.known.position, position, right=True) - 1
    return p.known.word[torch.maximum(torch.minimum(index, last), first)]


def _draw_rest(
    p: Distribution, prior: SparsePrior, rest: Tensor, position: Tensor, generator: torch.Generator | None
) -> Tensor:
    if len(position) == 0:
        return position
    klass = _draw_classes(rest, position, generator)
    table = _draw_tables(p, prior, position, klass, generator)
    word = torch.full_like(position, -1)
    waiting = torch.arange(len(position), device=position.device)
    for _ in range(_ROUNDS_OF_REJECTION):
        for k in range(len(prior.tables)):
            now = waiting[table[waiting] == k]
            word[now] = p.classes.mass(prior.tables[k]).draw(klass[now], generator=generator)
        waiting = waiting[_is_exception(p, position[waiting], word[waiting])]
        if len(waiting) == 0:
            return word
    for index in waiting.tolist():  # exceptions hold nearly all of the class: look at its members
        mass = p.classes.mass(prior.tables[int(table[index])])
        word[index] = _draw_member(p, mass, int(position[index]), int(klass[index]), generator)
    return word


def _draw_classes(rest: Tensor, position: Tensor, generator: torch.Generator | None) -> Tensor:
    """A class for each wanted draw; `rest` (N, G) holds the weights of each position."""
    counts = torch.bincount(position, minlength=len(rest))
    klass = torch.zeros_like(position)
    wanted = torch.nonzero(counts).view(-1)
    drawn = torch.multinomial(rest[wanted], int(counts.max()), replacement=True, generator=generator)
    order = torch.argsort(position, stable=True)
    row = torch.searchsorted(wanted, position[order])
    within = torch.arange(len(order), device=order.device) - torch.searchsorted(position[order], position[order])
    klass[order] = drawn[row, within]
    return klass


def _draw_tables(
    p: Distribution, prior: SparsePrior, position: Tensor, klass: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Which table of the mixture a draw comes from, by the share of each in what is left of the class."""
    if len(prior.tables) == 1:
        return torch.zeros_like(position)
    shift = prior.shift.expand(p.n, -1)
    shares = []
    for k, table in enumerate(prior.tables):
        mass = p.classes.mass(table)
        whole = mass.log_mass.expand(p.n, -1).clone()
        whole[p.left.position, p.left.klass] = mass.without(p.known.word, p.left).log_mass
        shares.append(whole[position, klass] + shift[position, k])
    weights = torch.softmax(torch.stack(shares, -1), -1)
    return torch.multinomial(weights, 1, generator=generator).view(-1)


def _is_exception(p: Distribution, position: Tensor, word: Tensor) -> Tensor:
    V = p.known.prior.n_symbols
    return torch.isin(position * V + word, p.known.position * V + p.known.word)


def _draw_member(
    p: Distribution, mass: ClassMass, position: int, klass: int, generator: torch.Generator | None
) -> Tensor:
    members = p.classes.members_of(klass)
    gone = p.known.word[p.known.position == position]
    members = members[~torch.isin(members, gone)]
    weights = torch.softmax(mass.log_b[members], 0)
    return members[torch.multinomial(weights, 1, generator=generator)][0]


def _sample_static(p: Distribution, mass: ClassMass, count: int, generator: torch.Generator | None) -> Tensor:
    """Words drawn from p where nothing depends on the context, (count, N)."""
    if count * p.n <= _FEW_DRAWS and p.scores.device.type == "cpu":
        return _few(p.class_ends, mass, count, generator)
    klass = inverted(class_weights(p, mass), count, generator)
    return mass.draw(klass.reshape(-1), generator=generator).view(count, p.n)


def class_weights(p: Distribution, mass: ClassMass) -> Tensor:
    """B_s exp(a·φ_s) of every class, scaled so that the largest is 1, (N, G)."""
    logs, _ = shifted_sums(p.scores.detach(), mass.as_dtype(p.scores.dtype))
    largest = logs.amax(-1, keepdim=True)
    if not bool(torch.isfinite(largest).all()):
        p.require_mass()  # which says where
    return (logs - largest).exp()


def inverted(weights: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """Columns drawn by their weights, (N, G) -> (count, N): where a uniform number falls among the cumulated ones."""
    ends = weights.double().cumsum(-1)
    total = ends[:, -1:].contiguous()
    u = torch.rand(len(weights), count, dtype=torch.float64, generator=generator, device=weights.device) * total
    found = torch.searchsorted(ends, u, right=True)  # right: what has no weight is never met
    last = torch.searchsorted(ends, total)  # where rounding made u the total
    return torch.minimum(found, last).t()


def _few(rows: Floats, mass: ClassMass, count: int, generator: torch.Generator | None) -> Tensor:
    """The same words of the same random numbers, one by one, (count, N): a step of decoding draws one."""
    u = torch.rand(len(rows), count, dtype=torch.float64, generator=generator).tolist()
    found = [[_where(row, x) for x in own] for row, own in zip(rows, u, strict=True)]
    words = mass.words.draw_few([row[i] for i in range(count) for row in found], generator)
    return torch.tensor(words, dtype=torch.long).view(count, len(rows))


def _where(ends: Floats, u: float) -> int:
    total = float(ends[-1])
    return int(ends.searchsorted(u * total, "right" if u * total < total else "left"))


def top(p: Distribution, k: int, way: ways.Way | None = None) -> tuple[Tensor, Tensor]:
    """The k most probable words at each position, log p and words (N, k); of words that tie, the first ones."""
    prior, way = p.centred[0], way or p.layer.way
    k = min(k, prior.n_symbols)
    few = prior.n_symbols <= _WRITTEN_OUT and p.n * prior.n_symbols <= _MOST_WRITTEN
    written_out = way == "words" if way else few
    if written_out or not isinstance(prior, SparsePrior) or len(prior.tables) > 1:
        terms, shift = p.word_terms
        values, words = _largest(terms.detach(), k)
        return less(values, 0.0, (p.require_mass().log_total - shift).detach()[:, None]), words
    rows = _best_words(p, prior, k)
    log_p = torch.tensor([[log for log, _ in row] for row in rows], dtype=p.scores.dtype, device=p.scores.device)
    return log_p, torch.tensor([[word for _, word in row] for row in rows], device=p.scores.device)


def _largest(weights: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """As topk, (N, V) -> (N, k), but ties do not depend on what else is computed: the smallest index comes first."""
    values, words = weights.topk(k, -1)
    least = values[:, -1:]
    tied = (values[:, 1:] == values[:, :-1]).any(-1) | ((weights >= least).sum(-1) > k)
    tied &= (values[:, :1] > MINUS_INFINITY)[:, 0]
    for n in torch.nonzero(tied).view(-1).tolist():
        above = torch.nonzero((weights[n] >= least[n]) & (weights[n] > MINUS_INFINITY)).view(-1)
        order = torch.sort(weights[n, above], descending=True, stable=True).indices[:k]
        words[n, : len(order)], values[n, : len(order)] = above[order], weights[n, above[order]]
    return values, words


def _best_words(p: Distribution, prior: SparsePrior, k: int) -> list[list[Word]]:
    """The k best words of each position: the best of the classes and the exceptions, merged."""
    mass, log_total = p.classes.mass(prior.tables[0]), p.require_mass().log_total.detach()
    shift = (prior.shift[:, 0] - log_total).tolist()
    own = _exceptions(p, log_total)
    scores = p.scores.detach().double()
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


def _exceptions(p: Distribution, log_total: Tensor) -> list[list[Word]]:
    """The exceptions of each position."""
    known, found = p.known, list[list[Word]]([] for _ in range(p.n))
    if len(known.position):
        own, _ = p.own_terms()
        log_p = own.detach().double() + known.log_b - log_total[known.position]
        for n, log, word in zip(known.position.tolist(), log_p.tolist(), known.word.tolist(), strict=True):
            found[n].append((log, word))
    return found


def _falling(pair: Word) -> Word:
    return -pair[0], pair[1]


def _walk(mass: ClassMass, classes: list[int], static: list[float]) -> Iterator[Word]:
    """The words of some classes by falling score: a heap holds the next member of each."""
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
