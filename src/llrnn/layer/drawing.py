"""Exact samples and exact top-k from a log-linear distribution, without touching V.

Sampling: a class of the rest or an exception, by their probabilities; then a word of the class by its alias table,
drawn again while the word is an exception (which has left the class).

Top-k: the best words of the rest lie in the k + |E(n)| classes whose best member scores highest, since every class that
ranks above brings its own best word, unless that is one of the |E(n)| exceptions. A heap walks down those classes. A
vocabulary of some ten thousand words is written out instead: that is faster than a walk in Python.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from llrnn.layer import costs, plain
from llrnn.layer.join import Knowledge
from llrnn.layer.masses import Classes, ClassMass, Left
from llrnn.layer.numerics import MINUS_INFINITY, SparseMatrix, less, shifted_sums
from llrnn.layer.priors import ContextValues, SparsePrior

_ROUNDS_OF_REJECTION = 64
_WRITTEN_OUT = 30_000  # words: a row of so many takes as long to write out as the walk (measured on CPU)
_MOST_WRITTEN = 30_000_000  # numbers in all, for memory
_FEW_TERMS, _AN_EXCEPTION, _MANY_TERMS = costs.FEW_TERMS, costs.AN_EXCEPTION, costs.MANY_TERMS


class Weighing(Protocol):
    """What weighs features at N positions: a layer, or one whose weights are changed on the way (`layer.steered`)."""

    phi: SparseMatrix
    classes: Classes

    def adaptor(self, h: Tensor) -> Tensor: ...  # (N, m)
    def context_adaptor(self, h: Tensor) -> Tensor: ...  # (N, k)
    def scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor: ...  # (N, G)
    def row(self, n: int) -> Weighing: ...


class Drawable(plain.Plain, Protocol):
    """What drawing needs to know of a distribution at N positions besides; see `loglinear.Distribution`."""

    @property
    def known(self) -> Knowledge: ...
    @property
    def parts(self) -> tuple[Tensor, Tensor]: ...  # (N, G) and (E,)
    @property
    def left(self) -> Left: ...
    @property
    def context_adaptor(self) -> Tensor: ...  # (N, k)
    @property
    def word_terms(self) -> tuple[Tensor, Tensor]: ...  # (N, V) and (N,)
    def log_probs(self) -> Tensor: ...  # (N, V)


def sample(p: Drawable, count: int, generator: torch.Generator | None) -> Tensor:
    """Words drawn from p, (count, N)."""
    alone = plain.table_of(p)
    if alone is not None:
        return plain.sample(p, alone, count, generator)
    prior = p.known.prior
    if not isinstance(prior, SparsePrior):
        weights = p.log_probs().detach().double().exp()
        return torch.multinomial(weights, count, replacement=True, generator=generator).t()
    rest, own = (part.detach().double() for part in p.parts)
    position = torch.arange(p.n, device=rest.device).expand(count, -1).reshape(-1)
    own_total = rest.new_zeros(p.n).index_add(0, p.known.position, own)
    u = torch.rand(len(position), dtype=rest.dtype, generator=generator, device=rest.device)
    u = u * (rest.sum(-1) + own_total)[position]
    word = torch.empty_like(position)
    is_own = u < own_total[position]
    word[is_own] = _draw_exceptions(p, own, own_total, position[is_own], u[is_own])
    word[~is_own] = _draw_rest(p, prior, rest, position[~is_own], generator)
    return word.view(count, p.n)


def _draw_exceptions(p: Drawable, own: Tensor, own_total: Tensor, position: Tensor, u: Tensor) -> Tensor:
    """By inverting the cumulated probabilities; u lies between 0 and the position's total."""
    ends = own.cumsum(0)
    before = torch.cat([own_total.new_zeros(1), own_total.cumsum(0)[:-1]])
    index = torch.searchsorted(ends, before[position] + u, right=True)
    first = torch.searchsorted(p.known.position, position)
    last = torch.searchsorted(p.known.position, position, right=True) - 1
    return p.known.word[torch.maximum(torch.minimum(index, last), first)]


def _draw_rest(
    p: Drawable, prior: SparsePrior, rest: Tensor, position: Tensor, generator: torch.Generator | None
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
    p: Drawable, prior: SparsePrior, position: Tensor, klass: Tensor, generator: torch.Generator | None
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


def _is_exception(p: Drawable, position: Tensor, word: Tensor) -> Tensor:
    V = p.known.prior.n_symbols
    return torch.isin(position * V + word, p.known.position * V + p.known.word)


def _draw_member(p: Drawable, mass: ClassMass, position: int, klass: int, generator: torch.Generator | None) -> Tensor:
    members = p.classes.members_of(klass)
    gone = p.known.word[p.known.position == position]
    members = members[~torch.isin(members, gone)]
    weights = torch.softmax(mass.log_b[members], 0)
    return members[torch.multinomial(weights, 1, generator=generator)][0]


def are_few(p: Drawable) -> bool:
    """Whether N × V are few terms compared with what exceptions cost: a small vocabulary, or a beam."""
    listed = len(p.prior.exceptions) if isinstance(p.prior, SparsePrior) else 0
    exceptions = listed + sum(len(part.position) for part in p.values)
    return p.n * p.prior.n_symbols <= min(_FEW_TERMS + _AN_EXCEPTION * exceptions, _MANY_TERMS)


def written_out(p: Drawable) -> tuple[Tensor, Tensor]:
    """log b + a·φ of every word less the origin and a shift, (N, V), and that shift, float64 (N,)."""
    whole, prior = p.scores.index_select(1, p.classes.class_of), p.centred[0]
    weights = torch.split(p.context_adaptor, [part.width for part in p.values], 1) if p.values else ()
    for part, a in zip(p.values, weights, strict=True):
        whole = _with_gains(whole, part, a)  # also of no exceptions: a weight that changes nothing has gradient 0
    terms, shift = shifted_sums(whole, prior.dense(1 if prior.is_static else p.n, whole.dtype).log_b)
    return terms, terms.new_zeros(p.n, dtype=torch.float64) if shift is None else shift.double()


def _with_gains(whole: Tensor, part: ContextValues, a: Tensor) -> Tensor:
    """The rows with what the exceptions of a source gain."""
    if part.everywhere is not None:  # the same columns in every row
        gained = part.value.view(len(a), -1, part.width) - part.rest.unsqueeze(1)
        return whole.index_add(1, part.everywhere, torch.bmm(gained, a.unsqueeze(2)).squeeze(2))
    gained = (a[part.position] * (part.value - part.rest[part.position])).sum(-1)
    at = part.position * whole.shape[1] + part.word
    return whole.view(-1).index_add(0, at, gained).view_as(whole)


def top(p: Drawable, k: int) -> tuple[Tensor, Tensor]:
    """The k most probable words at each position, log p and words (N, k); of words that tie, the first ones."""
    prior = p.centred[0]
    k = min(k, prior.n_symbols)
    few = prior.n_symbols <= _WRITTEN_OUT and p.n * prior.n_symbols <= _MOST_WRITTEN
    if few or not isinstance(prior, SparsePrior) or len(prior.tables) > 1:
        terms, shift = p.word_terms
        values, words = _largest(terms.detach(), k)
        return less(values, 0.0, (p.possible().log_total - shift).detach()[:, None]), words
    alone = plain.table_of(p)
    if alone is not None:
        return plain.top(p, alone, k)
    p.possible()
    bound = p.scores.detach().double() + p.classes.mass(prior.tables[0]).best_log_b  # (N, G)
    best = [_best_words(p, prior, bound[n], n, k) for n in range(p.n)]
    log_p = torch.tensor([[log for log, _ in row] for row in best], dtype=p.scores.dtype, device=p.scores.device)
    word = torch.tensor([[word for _, word in row] for row in best], device=p.scores.device)
    return log_p, word


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


def _best_words(p: Drawable, prior: SparsePrior, bound: Tensor, n: int, k: int) -> list[tuple[float, int]]:
    known = p.known
    here = known.position == n
    words, context = known.word[here], p.context_adaptor[n].detach().double()
    gone = set(words.tolist())
    log_total = float(p.log_total[n].detach())
    shift = float(prior.shift[n if prior.n > 1 else 0, 0]) - log_total
    own_scores = p.scores[n, p.classes.class_of[words]].detach().double()
    own_scores = own_scores + ((known.value[here] - known.rest[n]).double() * context).sum(-1)
    own_scores = own_scores + known.log_b[here] - log_total
    own = sorted(zip(own_scores.tolist(), words.tolist(), strict=True), key=_falling)
    walk = _walk_down(p, prior, bound, n, min(k + len(gone), len(bound)))
    rest = ((score + shift, word) for score, word in walk if word not in gone)
    merged = heapq.merge(rest, own, key=_falling)
    return [pair for pair, _ in zip(merged, range(k), strict=False)]


def _falling(pair: tuple[float, int]) -> tuple[float, int]:
    return -pair[0], pair[1]


def _walk_down(p: Drawable, prior: SparsePrior, bound: Tensor, n: int, n_classes: int) -> Iterator[tuple[float, int]]:
    """Words of the most promising classes by falling score: a heap holds the next member of each class."""
    mass = p.classes.mass(prior.tables[0])
    tops = bound.topk(n_classes)
    heap = [(-value, klass, 0) for value, klass in zip(tops.values.tolist(), tops.indices.tolist(), strict=True)]
    heapq.heapify(heap)
    scores = p.scores[n].detach()
    while heap:
        negative, klass, rank = heap[0]
        words, log_b = mass.ranked(klass)
        yield -negative, words[rank]
        if rank + 1 < len(words):
            heapq.heapreplace(heap, (-(log_b[rank + 1] + float(scores[klass])), klass, rank + 1))
        else:
            heapq.heappop(heap)
