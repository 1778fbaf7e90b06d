"""The background b(K, x): what is likely or allowed, before the network has its say.

    b ≥ 0, not necessarily normalised;   b = 0 forbids;   with a = 0 the model is b, normalised

`left * right` multiplies backgrounds, `Mixture` interpolates them.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from llrnn.ground.errors import BackgroundError, quoted
from llrnn.knowledge.process import Parallel, Process, S, Saved, State
from llrnn.layer.priors import DensePrior, Exceptions, Prior, SparsePrior, Table
from llrnn.text.vocabulary import Revision, Vocabulary

if TYPE_CHECKING:
    from llrnn.knowledge.backgrounds.constraint import Constraint


class Background(Process[S]):
    """`initial(condition)`, `advance(state, symbol)` and one answer for a batch of states: their prior.

    `Background[S]` says what its states are: `class NoStutter(Background[int])` remembers the last word.
    """

    _error = BackgroundError

    @abstractmethod
    def prior(self, states: Sequence[S]) -> Prior:
        """log b for every state: `SparsePrior.static(table)`, `SparsePrior.listed(...)` or `DensePrior(log_b)`."""

    def factors(self, state: S) -> list[tuple[str, Prior]]:
        """What it is a product of, by name, at one state: an explanation shows the share of each."""
        return [(repr(self), self.prior([state]))]

    def as_expert(self) -> Self:
        """This, as an expert asks it: tables are what it says of words in general, and the rest are exceptions."""
        return self

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The languages that every text is a string of."""
        return ()

    def refusal(self, state: S) -> str | None:
        """Why nothing can follow at a state, if that is so by what came before; None if it is not known."""
        return None

    def __mul__(self, other: Background) -> Product:
        return Product(self, other)


class UnboundBackground(Background[None]):
    """A background that becomes another when it is bound: counts become a vector, a text an n-gram model."""

    def prior(self, states: Sequence[None]) -> Prior:
        raise self._unbound()


class Static(Background[None]):
    """The same log b(x) everywhere, as a vector over the vocabulary: what Uniform and Unigram become when bound."""

    def __init__(self, log_b: Tensor, *, name: str = "Static") -> None:
        if not isinstance(name, str):
            raise BackgroundError(f"the name of a background must be a string, found {quoted(name)}")
        self._table, self._name = Table(log_b), name

    is_static = True

    @property
    def log_b(self) -> Tensor:
        """(V,) float64"""
        return self._table.log_b

    def bind(self, vocabulary: Vocabulary) -> Self:
        if len(vocabulary) != len(self._table):
            raise BackgroundError(
                f"{self!r} is a vector over {len(self._table)} symbols, but the vocabulary lists {len(vocabulary)}: "
                "make both from the same vocabulary"
            )
        return super().bind(vocabulary)

    def revised(self, revision: Revision) -> Self:
        log_b = torch.from_numpy(revision.log_masses(self.log_b.cpu().numpy()))
        return self._changed(revision.vocabulary, _table=Table(log_b))

    def prior(self, states: Sequence[None]) -> Prior:
        return SparsePrior.static(self._table)

    def saved(self) -> Saved:
        return Saved("static", {"name": self._name}, {"log_b": self._table.log_b})

    def __repr__(self) -> str:
        return self._name


class Combined(Background[tuple[State, ...]]):
    """Two or more backgrounds side by side; the state is the tuple of their states."""

    def __init__(self, *parts: Background) -> None:
        self._parts: tuple[Background, ...] = parts

    @property
    def is_static(self) -> bool:
        return all(part.is_static for part in self._parts)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._parts = tuple(part.bind(vocabulary) for part in self._parts)
        return bound

    def revised(self, revision: Revision) -> Self:
        parts = tuple(part.revised(own) for part, own in zip(self._parts, self._revisions(revision), strict=True))
        return self._changed(revision.vocabulary, _parts=parts)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return tuple(constraint for part in self._parts for constraint in part.constraints)

    def as_expert(self) -> Self:
        made = copy.copy(self)
        made._parts = tuple(part.as_expert() for part in self._parts)
        return made

    def refusal(self, state: tuple[State, ...]) -> str | None:
        reasons = (part.refusal(own) for part, own in zip(self._parts, state, strict=True))
        return next((reason for reason in reasons if reason is not None), None)

    def _revisions(self, revision: Revision) -> list[Revision]:
        """What the parts hear of a revision: the same, where their masses add up."""
        return [revision] * len(self._parts)

    @property
    def reads_conditions(self) -> bool:
        return any(part.reads_conditions for part in self._parts)

    def initial(self, condition: object = None) -> tuple[State, ...]:
        return tuple(part.initial(condition) for part in self._parts)

    def advance(self, state: tuple[State, ...], symbol: int) -> tuple[State, ...]:
        return tuple(part.advance(own, symbol) for part, own in zip(self._parts, state, strict=True))

    def follow(
        self, states: Sequence[tuple[State, ...]], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[Sequence[tuple[State, ...]], Sequence[tuple[State, ...]]]:
        by_part = zip(self._parts, self._by_part(states), strict=True)
        followed = [part.follow(own, inputs, mask, sentences) for part, own in by_part]
        after = list(zip(*(last for _, last in followed), strict=True))
        return Parallel(int(mask.sum()), tuple(seen for seen, _ in followed)), after

    def _by_part(self, states: Sequence[tuple[State, ...]]) -> Sequence[Sequence[State]]:
        if isinstance(states, Parallel):
            return states.columns
        return [[state[i] for state in states] for i in range(len(self._parts))]

    def _priors(self, states: Sequence[tuple[State, ...]]) -> list[Prior]:
        return [part.prior(own) for part, own in zip(self._parts, self._by_part(states), strict=True)]


class Product(Combined):
    """b₁(K, x) · b₂(K, x): both must agree; a zero of either forbids."""

    def __init__(self, *parts: Background) -> None:
        flat = [one for part in parts for one in (part._parts if isinstance(part, Product) else (part,))]
        if not flat:
            raise BackgroundError("a product needs at least one background, found none")
        super().__init__(*flat)

    def _revisions(self, revision: Revision) -> list[Revision]:
        """Shares of mass are multiplied too, so one factor makes them and the others do not."""
        others = revision.of_a_factor(len(self.vocabulary))
        return [revision, *([others] * (len(self._parts) - 1))]

    def prior(self, states: Sequence[tuple[State, ...]]) -> Prior:
        return reduce(multiply, self._priors(states))

    def factors(self, state: tuple[State, ...]) -> list[tuple[str, Prior]]:
        return [factor for part, own in zip(self._parts, state, strict=True) for factor in part.factors(own)]

    def saved(self) -> Saved:
        return Saved("product", parts=tuple(part.saved() for part in self._parts))

    def __repr__(self) -> str:
        return " * ".join(repr(part) for part in self._parts)


class Mixture(Combined):
    """Σ wᵢ bᵢ(K, x): each part brings what it knows, with fixed weights."""

    constraints = ()  # what one part forbids, another may allow

    def __init__(self, *parts: Background, weights: Sequence[float] | None = None) -> None:
        super().__init__(*parts)
        if not parts:
            raise BackgroundError("a mixture needs at least one background, found none")
        self._weights = list(weights) if weights is not None else [1.0 / len(parts)] * len(parts)
        if len(self._weights) != len(parts) or not all(w > 0 and math.isfinite(w) for w in self._weights):
            raise BackgroundError(f"a mixture of {len(parts)} needs as many weights above 0, found {self._weights}")
        self._blended: tuple[tuple[Table, ...], Table] | None = None

    def prior(self, states: Sequence[tuple[State, ...]]) -> Prior:
        priors = self._priors(states)
        if self.is_static:  # by what the parts are: at one position, an n-gram may look static and is not
            return SparsePrior.static(self._blend([p for p in priors if isinstance(p, SparsePrior)]))
        return mix(priors, [math.log(weight) for weight in self._weights])

    def _blend(self, priors: list[SparsePrior]) -> Table:
        """Static parts blend into one table, once."""
        tables = tuple(table for prior in priors for table in prior.tables)
        if self._blended is None or self._blended[0] != tables:
            dense = [prior.dense(1).log_b[0] + math.log(w) for prior, w in zip(priors, self._weights, strict=True)]
            self._blended = tables, Table(torch.logsumexp(torch.stack(dense), 0))
        return self._blended[1]

    def saved(self) -> Saved:
        return Saved("mixture", {"weights": self._weights}, parts=tuple(part.saved() for part in self._parts))

    def __repr__(self) -> str:
        parts = ", ".join(repr(part) for part in self._parts)
        return f"Mixture({parts}, weights={self._weights})"


def multiply(left: Prior, right: Prior) -> Prior:
    """The product of two priors: a word that is exceptional to either is exceptional to both."""
    n = _common_n([left, right])
    if isinstance(left, DensePrior) or isinstance(right, DensePrior):
        first, second = _written_out([left, right], n)
        return DensePrior(first + second)
    tables = tuple(mine.times(other) for mine in left.tables for other in right.tables)
    shift = (left.shift.unsqueeze(2) + right.shift.unsqueeze(1)).flatten(1)
    if len(left.exceptions) == 0 or len(right.exceptions) == 0:  # one of them speaks of no word by itself
        own, other = (right, left) if len(left.exceptions) == 0 else (left, right)
        position, word = own.exceptions.position, own.exceptions.word
        return SparsePrior(tables, shift, Exceptions(position, word, own.exceptions.log_b + other.rest(position, word)))
    position, word = _union(left, right)
    log_b = left.at(position, word) + right.at(position, word)
    return SparsePrior(tables, shift, Exceptions(position, word, log_b))


def mix(priors: Sequence[Prior], log_weights: Sequence[float]) -> Prior:
    """Σ wᵢ bᵢ: the tables stand side by side, weighted by position."""
    n = _common_n(priors)
    sparse = [prior for prior in priors if isinstance(prior, SparsePrior)]
    if len(sparse) < len(priors):
        dense = [log_b + w for log_b, w in zip(_written_out(priors, n), log_weights, strict=True)]
        return DensePrior(reduce(torch.logaddexp, dense))
    tables = tuple(table for prior in sparse for table in prior.tables)
    shift = torch.cat([prior.shift.expand(n, -1) + w for prior, w in zip(sparse, log_weights, strict=True)], 1)
    position, word = _union(*sparse)
    own = [prior.at(position, word) + w for prior, w in zip(sparse, log_weights, strict=True)]
    return SparsePrior(tables, shift, Exceptions(position, word, torch.logsumexp(torch.stack(own), 0)))


def _common_n(priors: Sequence[Prior]) -> int:
    """How many positions they speak of (none, perhaps): those with n == 1 hold for every position."""
    return next((prior.n for prior in priors if prior.n != 1), 1)


def _written_out(priors: Sequence[Prior], n: int) -> list[Tensor]:
    """All of them as (N, V), in the place and precision of the dense ones: another model may be on an accelerator."""
    models = [prior.log_b for prior in priors if isinstance(prior, DensePrior)]
    dtype = reduce(torch.promote_types, (log_b.dtype for log_b in models))
    return [prior.to(models[0].device).dense(n, dtype).log_b for prior in priors]


def _union(*priors: SparsePrior) -> tuple[Tensor, Tensor]:
    V = priors[0].n_symbols
    keys = torch.cat([prior.exceptions.position * V + prior.exceptions.word for prior in priors])
    unique = torch.unique(keys)
    return unique // V, unique % V
