"""The background b(K, x): what is likely or allowed, before the network has its say.

    b ≥ 0, not necessarily normalised;   b = 0 forbids;   with a = 0 the model is b, normalised

`left * right` multiplies backgrounds, `Mixture` interpolates them.

Backgrounds that do not look at the context: all symbols alike, or each by how often it was seen.

Of an open vocabulary (`text.vocabulary`), a cell has the mass of all its strings that are not listed. How much that
is follows from the words that were seen once (Good and Turing): a word of theirs would have been new, had the text
been one word shorter. `Discounted` takes from each count what it is too high by, and gives it to the words of a
frequency list and to the cells:

    b(x) = (n(x) − D) / N                                        words that were seen
    b(x) = F · (1 − u) · f(x) / Σ f                            words of a list f that were not; F: what D took, over N
    b(c) = F · u · n₁(d) / n₁ · (n₁(c) + κ Q'(c) / Q'(d)) / (n₁(d) + κ)             cells c of domains d
    u = n₁ / (all words seen once)                               n₁: words seen once that f does not list

κ, how many words a domain's own opinion of its cells is worth, is the one under which each of the words seen once is
likeliest given the others. Words that train as new are left out of n₁(c): a model would see them counted.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from os import PathLike
from typing import Self

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import BackgroundError, quoted
from llrnn.knowledge.process import Batch, Parallel, Process, S, Saved, State
from llrnn.layer.priors import MINUS_INFINITY, DensePrior, Exceptions, FullPrior, LazyPrior, Prior, SparsePrior, Table
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import read_frequencies
from llrnn.text.vocabulary import EOS, Revision, Vocabulary


class Background(Process[S]):
    """A prior b(K, x) ≥ 0 over the next word x in context K: the model is p(x | K) ∝ b(K, x) · exp(a(h)·φ(K, x)).

    It need not be normalised; b = 0 forbids a word. A subclass has `initial(condition)`, the state before any word
    (`condition`: the input that the text is generated from, or None), `advance(state, symbol)`, the state after the
    word with this id, and `prior(states)`, which returns log b for N states. `Background[S]`: S is the type of its
    states; in the example, the id of the last word, which gets log b = −3 where all other words have 0. `b1 * b2` is
    the product of two.

        class NoStutter(Background[int]):
            def initial(self, condition=None): return self.vocabulary.eos
            def advance(self, state, symbol): return symbol
            def prior(self, states):
                table = Table(torch.zeros(len(self.vocabulary), dtype=torch.float64))
                return SparsePrior.listed(table, [{state: -3.0} for state in states])
    """

    _error = BackgroundError

    @abstractmethod
    def prior(self, states: Sequence[S]) -> Prior:
        """Return log b of all V symbols at N states, as a `Prior`.

        `SparsePrior.static(table)` where all contexts are alike; `SparsePrior.listed(table, [{word id: log b}, …])`
        where in each context a few words have another value than in a common table; `DensePrior(log_b)` for a tensor
        (N, V). `table`: a `Table` of log b for each of the V symbols.
        """

    def factors(self, state: S) -> list[tuple[str, Prior]]:
        """Return the factors of a prior that is a product, as (name, log b at this one state) pairs.

        Explanations of predictions use it; log b is a `Prior` of one position. A background that is no product is its
        only factor, named by its `repr`. `state`: as `initial` and `advance` return it.
        """
        return [(repr(self), self.prior([state]))]

    def shares(self, state: S) -> list[tuple[str, float, Prior]]:
        """Return the parts of a prior that is a mixture, at one state, as (name, log weight, log b) triples.

        Explanations of predictions use it; log b is a `Prior` of one position. The result is [] if the background is no
        mixture. `state`: as `initial` and `advance` return it.
        """
        return []

    def as_expert(self) -> Self:
        """Return a copy whose `prior` returns sparse priors: a table of log b for words in general, few words apart.

        The words that differ from the table in a context are listed with their own log b. The contextual feature
        `Expert`, whose values are those of this prior, needs such a form. By default the background itself is returned.
        """
        return self

    def refusal(self, state: S) -> str | None:
        """Return a message that says why no word can follow at a state, where the prefix is the cause; else None.

        `state`: as `initial` and `advance` return it. By default None.
        """
        return None

    def __mul__(self, other: Background) -> Product:
        return Product(self, other)


class UnboundBackground(Background[None]):
    """Base class of backgrounds whose `bind(vocabulary)` returns an object of another class, which is then used.

    An example are word counts, from which `bind` makes a vector over the vocabulary. Before it is bound, `prior` raises
    a BackgroundError. Use: `bound = background.bind(vocabulary)`, then `bound.prior(states)`.
    """

    def prior(self, states: Sequence[None]) -> Prior:
        raise self._unbound()


class Static(Background[None]):
    """A background (prior over the next word) that is the same in every context: a vector log b(x) over the vocabulary.

    `log_b`: (V,), log b of each symbol by its id, need not be normalised; `name`: what explanations call it, by default
    "Static". `bind` raises a BackgroundError if the vocabulary has another size.

        Static(torch.log(torch.tensor([0.5, 0.3, 0.2])))
    """

    def __init__(self, log_b: Tensor, *, name: str = "Static") -> None:
        if not isinstance(name, str):
            raise BackgroundError(f"the name of a background must be a string, found {quoted(name)}")
        self._table, self._name = Table(log_b), name

    is_static = True

    @property
    def log_b(self) -> Tensor:
        """log b of every symbol of the vocabulary, (V,) float64."""
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


Together = tuple[State, ...]  # the states of several backgrounds


class Combined(Background[Together]):
    """Base class of a background (prior over the next word) made of others, its `parts`: a product or a mixture.

    A state is the tuple of the states of the parts, in order. `parts`: a tuple of backgrounds; they are bound to a
    vocabulary if the combination is. Subclasses define `prior`.
    """

    def __init__(self, *parts: Background) -> None:
        self.parts: tuple[Background, ...] = parts

    @property
    def is_static(self) -> bool:
        return all(part.is_static for part in self.parts)

    def with_parts(self, parts: Iterable[Background]) -> Self:
        """Return a copy of this combination, with the same weights, whose parts are these backgrounds (priors).

        `parts`: as many as the combination has, since weight i belongs to part i.
        """
        made = copy.copy(self)
        made.parts = tuple(parts)
        return made

    def bind(self, vocabulary: Vocabulary) -> Self:
        return super().bind(vocabulary).with_parts(part.bind(vocabulary) for part in self.parts)

    def revised(self, revision: Revision) -> Self:
        parts = tuple(part.revised(own) for part, own in zip(self.parts, self._revisions(revision), strict=True))
        return self._changed(revision.vocabulary, parts=parts)

    def as_expert(self) -> Self:
        return self.with_parts(part.as_expert() for part in self.parts)

    def refusal(self, state: Together) -> str | None:
        reasons = (part.refusal(own) for part, own in zip(self.parts, state, strict=True))
        return next((reason for reason in reasons if reason is not None), None)

    def _revisions(self, revision: Revision) -> list[Revision]:
        """Return for each part the change of the vocabulary that its `revised` is given; by default `revision` itself.

        A revision is a new vocabulary and, for each new word, the old symbol whose probability it takes a part of. A
        list, in the order of `parts`.
        """
        return [revision] * len(self.parts)

    @property
    def reads_conditions(self) -> bool:
        return any(part.reads_conditions for part in self.parts)

    @property
    def text_before(self) -> int:  # type: ignore[override]
        return max(part.text_before for part in self.parts)

    def initial(self, condition: object = None) -> Together:
        return tuple(part.initial(condition) for part in self.parts)

    def advance(self, state: Together, symbol: int) -> Together:
        return tuple(part.advance(own, symbol) for part, own in zip(self.parts, state, strict=True))

    def follow(self, states: Sequence[Together], batch: Batch) -> tuple[Sequence[Together], Sequence[Together]]:
        by_part = zip(self.parts, self._by_part(states), strict=True)
        seen, after = zip(*(part.follow(own, batch) for part, own in by_part), strict=True)
        return Parallel(batch.n_positions, seen), list(zip(*after, strict=True))

    def _by_part(self, states: Sequence[Together]) -> Sequence[Sequence[State]]:
        if isinstance(states, Parallel):
            return states.columns
        return [[state[i] for state in states] for i in range(len(self.parts))]

    def _priors(self, states: Sequence[Together]) -> list[Prior]:
        return [part.prior(own) for part, own in zip(self.parts, self._by_part(states), strict=True)]


class Product(Combined):
    """The product b₁(K, x) · b₂(K, x) · … of backgrounds (priors over the next word).

    A word with b = 0 in one part has 0 in the product.

    It can be written `b1 * b2`. Raises a BackgroundError without parts.

    Example:

        Product(NGram.from_corpus(train), Mask(forbidden={"<unk>"}))
    """

    def __init__(self, *parts: Background) -> None:
        flat = [one for part in parts for one in (part.parts if isinstance(part, Product) else (part,))]
        if not flat:
            raise BackgroundError("a product needs at least one background, found none")
        super().__init__(*flat)

    def _revisions(self, revision: Revision) -> list[Revision]:
        """Return the change of the vocabulary that each part is given in `revised`, one for each.

        A revision is a new vocabulary and, for each new word, the old symbol whose probability it takes a part of. Only
        the first part divides that probability: in the others a new word has the value of the old symbol, else the
        division would be made several times.
        """
        others = revision.of_a_factor(len(self.vocabulary))
        return [revision, *([others] * (len(self.parts) - 1))]

    def prior(self, states: Sequence[Together]) -> Prior:
        return reduce(multiply, self._priors(states))

    def factors(self, state: Together) -> list[tuple[str, Prior]]:
        return [factor for part, own in zip(self.parts, state, strict=True) for factor in part.factors(own)]

    def saved(self) -> Saved:
        return Saved("product", parts=tuple(part.saved() for part in self.parts))

    def __repr__(self) -> str:
        return " * ".join(repr(part) for part in self.parts)


class Mixture(Combined):
    """The mixture Σ wᵢ bᵢ(K, x) of backgrounds (priors over the next word) with fixed weights.

    weights     above 0, one for each part; None: equal, with sum 1
    names       what explanations call the parts; None: the `repr` of each

    Raises a BackgroundError without parts, or with weights that are not above 0 or not as many as parts.

    Example:

        Mixture(Unigram.from_corpus(train), NGram.from_corpus(train), weights=[0.3, 0.7])
    """

    def __init__(
        self, *parts: Background, weights: Sequence[float] | None = None, names: Sequence[str] | None = None
    ) -> None:
        super().__init__(*parts)
        if not parts:
            raise BackgroundError("a mixture needs at least one background, found none")
        self._weights = list(weights) if weights is not None else [1.0 / len(parts)] * len(parts)
        if len(self._weights) != len(parts) or not all(w > 0 and math.isfinite(w) for w in self._weights):
            raise BackgroundError(f"a mixture of {len(parts)} needs as many weights above 0, found {self._weights}")
        self._blended: tuple[tuple[Table, ...], Table] | None = None
        self._names = None if names is None else list(names)

    @property
    def weights(self) -> list[float]:
        """The weights wᵢ of the mixture Σ wᵢ bᵢ, one for each part, in order."""
        return self._weights

    @property
    def names(self) -> list[str]:
        """The names of the parts in explanations: those given, or the `repr` of each part."""
        return list(map(repr, self.parts)) if self._names is None else self._names

    def prior(self, states: Sequence[Together]) -> Prior:
        priors = self._priors(states)
        if self.is_static:  # by what the parts are: at one position, an n-gram may look static and is not
            return SparsePrior.static(self._blend([p for p in priors if isinstance(p, SparsePrior)]))
        return mix(priors, [math.log(weight) for weight in self._weights])

    def shares(self, state: Together) -> list[tuple[str, float, Prior]]:
        return list(zip(self.names, map(math.log, self._weights), self._priors([state]), strict=True))

    def _blend(self, priors: list[SparsePrior]) -> Table:
        """Return one table log Σ wᵢ bᵢ(x), (V,), for parts that do not depend on the context; cached.

        `priors`: for each part of the mixture its sparse prior, which must have tables only, no values for single
        words.
        """
        tables = tuple(table for prior in priors for table in prior.tables)
        if self._blended is None or self._blended[0] != tables:
            dense = [prior.dense(1).log_b[0] + math.log(w) for prior, w in zip(priors, self._weights, strict=True)]
            self._blended = tables, Table(torch.logsumexp(torch.stack(dense), 0))
        return self._blended[1]

    def saved(self) -> Saved:
        named = {} if self._names is None else {"names": self._names}
        return Saved("mixture", {"weights": self._weights, **named}, parts=tuple(part.saved() for part in self.parts))

    def __repr__(self) -> str:
        return f"Mixture({', '.join(self.names)}, weights={self._weights})"


def multiply(left: Prior, right: Prior) -> Prior:
    """Return the product of two priors, log b + log b' at each of N positions, sparse if both are.

    A prior of one position (n == 1) holds for all. A sparse prior is a table over the vocabulary, shifted by a number
    at each position, with some words' values listed by themselves; words that either lists are listed in the product.
    """
    n = _common_n([left, right])
    if isinstance(left, FullPrior) or isinstance(right, FullPrior):
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
    """Return the mixture log Σ wᵢ bᵢ of priors over N positions.

    log_weights     log wᵢ, one for each prior

    A prior of one position holds for all. The result is a `SparsePrior` if all priors are (their tables stay apart,
    each weighted), a `LazyPrior`, which computes single words, if all are and the weights sum to 1, and else a
    `DensePrior` (N, V).
    """
    n = _common_n(priors)
    lazy = [prior for prior in priors if isinstance(prior, LazyPrior)]
    if len(lazy) == len(priors) and math.isclose(sum(map(math.exp, log_weights)), 1):
        return mix_models(lazy, lazy[0].like.new_tensor(log_weights)[None])
    sparse = [prior for prior in priors if isinstance(prior, SparsePrior)]
    if len(sparse) < len(priors):
        dense = [log_b + w for log_b, w in zip(_written_out(priors, n), log_weights, strict=True)]
        all_sum = all(isinstance(prior, FullPrior) and prior.sums_to_one for prior in priors)
        return DensePrior(reduce(torch.logaddexp, dense), all_sum and math.isclose(sum(map(math.exp, log_weights)), 1))
    tables = tuple(table for prior in sparse for table in prior.tables)
    shift = torch.cat([prior.shift.expand(n, -1) + w for prior, w in zip(sparse, log_weights, strict=True)], 1)
    position, word = _union(*sparse)
    own = [prior.at(position, word) + w for prior, w in zip(sparse, log_weights, strict=True)]
    return SparsePrior(tables, shift, Exceptions(position, word, torch.logsumexp(torch.stack(own), 0)))


def with_exceptions(prior: Prior, n: int, position: Tensor, word: Tensor, log_b: Tensor) -> Prior:
    """Return the prior at n positions, with other values for some words at some positions.

    position, word, log_b       (E,) each: at position[e], the word with id word[e] gets log_b[e] in place of the value
                                it had; sorted by position, then by word

    `prior`: a prior of n positions, or of one, which then holds for all n. All other values stay, also those of other
    words that a sparse prior lists. A sparse prior gives a sparse one, any other a dense one.
    """
    if isinstance(prior, FullPrior):
        whole = prior.dense(n).log_b.clone()
        whole[position, word] = log_b.to(whole)
        return DensePrior(whole)
    made = SparsePrior(prior.tables, prior.shift.expand(n, -1), Exceptions(position, word, log_b))
    if not len(prior.exceptions):
        return made
    position, word = _union(prior, made)
    V, old = made.n_symbols, made.exceptions
    log_b = prior.at(position, word)
    log_b[torch.searchsorted(position * V + word, old.position * V + old.word)] = old.log_b
    return SparsePrior(made.tables, made.shift, Exceptions(position, word, log_b))


def mix_models(priors: Sequence[LazyPrior], log_weights: Tensor) -> LazyPrior:
    """Return the mixture Σ wᵢ pᵢ of n models' next-word distributions; only words that are asked for are computed.

    `priors`: n lazy priors over N positions, which hold log pᵢ; `log_weights`: log wᵢ, (1, n) for all positions, or (N,
    n) for N positions; the weights of a position sum to 1.
    """
    like = priors[0].like

    def some(position: Tensor, word: Tensor) -> Tensor:
        own = torch.stack([prior.at(position, word).to(like.device) for prior in priors], 1)
        return torch.logsumexp(own + (log_weights[position] if len(log_weights) > 1 else log_weights), 1)

    def whole() -> Tensor:
        rows = (prior.to(like.device).log_b for prior in priors)
        return reduce(torch.logaddexp, (row + w[:, None] for row, w in zip(rows, log_weights.unbind(1), strict=True)))

    return LazyPrior((priors[0].n, priors[0].n_symbols), some, whole, like)


def _common_n(priors: Sequence[Prior]) -> int:
    """Return the number of positions of the priors; those with n == 1 hold for any, and for them alone it is 1."""
    return next((prior.n for prior in priors if prior.n != 1), 1)


def _written_out(priors: Sequence[Prior], n: int) -> list[Tensor]:
    """Return each prior as a dense tensor log b (n, V), on one device and in one dtype.

    Device and dtype are those of the priors that have N × V values already, of which there must be one (the first one's
    device, their widest dtype). A prior of one position is repeated.
    """
    models = [prior.log_b for prior in priors if isinstance(prior, FullPrior)]
    dtype = reduce(torch.promote_types, (log_b.dtype for log_b in models))
    return [prior.to(models[0].device).dense(n, dtype).log_b for prior in priors]


def _union(*priors: SparsePrior) -> tuple[Tensor, Tensor]:
    V = priors[0].n_symbols
    keys = torch.cat([prior.exceptions.position * V + prior.exceptions.word for prior in priors])
    unique = torch.unique(keys)
    return unique // V, unique % V


class Uniform(UnboundBackground):
    """A background (prior over the next word) of 1/V for every symbol: no preference.

    Binding it to an open vocabulary, of infinitely many words, raises a BackgroundError.

    Example:

        Uniform() * Mask(forbidden={"<unk>"})
    """

    is_static = True

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        if vocabulary.is_open:
            last = len(vocabulary) - 1  # of a spelling, the longest strings
            raise BackgroundError(
                f"a uniform background over an infinite vocabulary has no finite mass: the cell "
                f"{vocabulary.symbols[last]} alone holds {', '.join(map(repr, vocabulary.witnesses[last]))} and so on; "
                "take Discounted or Unigram (background.kind = 'discounted' or 'unigram')"
            )
        log_b = torch.full((len(vocabulary),), -math.log(len(vocabulary)), dtype=torch.float64)
        return Static(log_b, name=repr(self)).bind(vocabulary)


class Unigram(UnboundBackground):
    """A background (prior over the next word) of relative word frequencies, the same in every context.

        b(x) = (count(x) + smoothing) / Σ_y (count(y) + smoothing)            over the words y of the vocabulary

    counts      {word: count}, with "</s>" for ends of sentences; words outside the vocabulary count for its unknown
                symbol
    smoothing   added to the count of every word of the vocabulary, seen or not; with 0, words that were not counted
                have probability 0

        Unigram.from_corpus(train, smoothing=0.1)
    """

    is_static = True

    def __init__(self, counts: Mapping[str, float], *, smoothing: float = 0.0) -> None:
        if not (smoothing >= 0 and math.isfinite(smoothing)):
            raise BackgroundError(f"smoothing must be a finite number of 0 or more, found {smoothing}")
        self._counts, self._smoothing = _checked(counts), smoothing

    @classmethod
    def from_corpus(cls, *corpora: Corpus, smoothing: float = 0.0) -> Unigram:
        """Return a unigram prior of all corpora together: counts of words, and one "</s>" for each sentence.

        `smoothing` (0 or more): added to the count of every word of the vocabulary that the prior is used with, seen or
        not, so that unseen ones get smoothing / Σ_y (count(y) + smoothing); with 0, words that do not occur have
        probability 0.
        """
        counts: Counter[str] = Counter()
        for corpus in corpora:
            counts.update(corpus.counts())
            counts[EOS] += len(corpus)
        return cls(counts, smoothing=smoothing)

    @classmethod
    def from_file(cls, path: str | PathLike[str], *, smoothing: float = 0.0) -> Unigram:
        """Return a unigram prior from a frequency file, lines `form TAB count` (`text.lexicon.read_frequencies`).

        `smoothing` (0 or more): added to the count of every word of the vocabulary that the prior is used with, in the
        file or not; with 0, words that are not in the file have probability 0.
        """
        return cls(read_frequencies(path), smoothing=smoothing)

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        counts = dict(self._counts)
        if vocabulary.unknown is not None:
            outside = sum(count for symbol, count in counts.items() if symbol not in vocabulary)
            counts[vocabulary.unknown] = counts.get(vocabulary.unknown, 0.0) + outside
        mass = np.array([counts.get(word, 0.0) for word in vocabulary.words]) + self._smoothing
        if vocabulary.is_open:
            seen_once = sum(counts.get(word, 0.0) == 1 for word in vocabulary.words)
            mass = np.concatenate([mass, _cell_mass(vocabulary, counts, extra=max(1.0, seen_once))])
        if not mass.sum() > 0:
            raise BackgroundError(
                f"{self!r} knows none of the {len(vocabulary)} symbols: take counts of the same text, or smoothing"
            )
        return _static(mass, repr(self), vocabulary)

    def __repr__(self) -> str:
        return f"Unigram({len(self._counts)} types, smoothing={self._smoothing:g})"


class Discounted(UnboundBackground):
    """A prior over the next word: relative frequencies with absolute discounting, which leaves some for unseen words.

    Each count n becomes n − D, D = `absolute_discount(counts)` (0 if n < D). What is taken off, and the counts of words
    outside the vocabulary, go to words of `frequencies` that the text lacks, in proportion to their counts there, and
    in an open vocabulary to its cells, the sets of unlisted strings that share a symbol. The result is normalised.

    counts          {word: count} in a text, with "</s>" for ends of sentences
    frequencies     {word: count} of a larger frequency list; None: there is none

        Discounted.from_corpus(train)
    """

    is_static = True

    def __init__(self, counts: Mapping[str, float], frequencies: Mapping[str, float] | None = None) -> None:
        self._counts, self._frequencies = _checked(counts), _checked(frequencies or {})

    @classmethod
    def from_corpus(cls, *corpora: Corpus, frequencies: Mapping[str, float] | None = None) -> Discounted:
        """Return the prior from the counts of words, and of one "</s>" for each sentence, in all corpora together.

        `frequencies`: {word: count} of a larger list, whose words get probability though the corpora lack them; None:
        none.
        """
        return cls(Unigram.from_corpus(*corpora)._counts, frequencies)

    def bind(self, vocabulary: Vocabulary) -> Static:  # type: ignore[override]
        n = np.array([self._counts.get(word, 0.0) for word in vocabulary.words])
        f = np.array([self._frequencies.get(word, 0.0) for word in vocabulary.words]) * (n == 0)
        once = {word: 1.0 for word, count in self._counts.items() if count == 1 and word not in self._frequencies}
        seen_once = sum(count == 1 for count in self._counts.values())
        taken = np.minimum(absolute_discount(self._counts), n)
        freed = float(taken.sum()) + sum(count for word, count in self._counts.items() if word not in vocabulary)
        share_new = 0.0  # how much of what is new is in no list: all or nothing if there is no list, or no cell
        if vocabulary.is_open:
            share_new = (len(once) + 1.0) / (seen_once + 2.0) if f.sum() > 0 else 1.0
        mass = n - taken + (freed * (1 - share_new) * f / f.sum() if f.sum() > 0 else 0.0)  # seen words have f = 0
        if vocabulary.is_open:
            mass = np.concatenate([mass, freed * share_new * self._cells(vocabulary, once)])
        return _static(mass, repr(self), vocabulary)

    def _cells(self, vocabulary: Vocabulary, once: Mapping[str, float]) -> Floats:
        """Return the part of the new words' probability that each of the C cells gets, (C,), summing to 1.

        A cell is a set of unlisted strings that share one symbol; the cells of one domain (a kind of string, such as
        numbers) follow each other. `once`: {word: 1.0} of the words that occur once, which new words are taken to be
        like. With n(c) of them in cell c, n in its domain, o(c) the cell's probability in the domain and κ of
        `_leave_one_out`, the part is ∝ (n + 0.5) · (n(c) + κ o(c)) / (n + κ).
        """
        counted = {word: 1.0 for word in once if word not in vocabulary.as_new}
        ends = np.cumsum([len(domain.cells) for domain in vocabulary.domains])[:-1]
        n, opinion = _cell_mass(vocabulary, counted, extra=0.0), _spread(vocabulary)
        shares = []
        for own, spread in zip(np.split(n, ends), np.split(opinion, ends), strict=True):
            worth = _leave_one_out(own, spread)
            within = (own + worth * spread) / (own.sum() + worth)
            shares.append((own.sum() + 0.5) * within if spread.any() else 0.0 * spread)
        whole = np.concatenate(shares)
        return np.asarray(whole / whole.sum(), dtype=np.float64)

    def __repr__(self) -> str:
        return f"Discounted({len(self._counts)} types, {len(self._frequencies)} frequencies)"


def _checked(counts: Mapping[str, float]) -> dict[str, float]:
    for symbol, count in counts.items():
        if not (count >= 0 and math.isfinite(count)):
            raise BackgroundError(f"the count of {symbol!r} must be finite and 0 or more, found {count}")
    return dict(counts)


def _leave_one_out(n: Floats, opinion: Floats) -> float:
    """Return the weight κ, from 10 to a million, that maximises Π_c ((n(c) − 1 + κ o(c)) / (n − 1 + κ))^n(c).

    n           (C,) how many of the words seen once are in each cell c, a set of unlisted strings that share a symbol;
                in the formula, n without argument is their sum
    opinion     (C,) the prior probability o(c) of each cell; cells with o(c) = 0 are left out of the product

    At least 10, since few words say little about the cells that none of them is in; 10 for fewer than two words.
    """
    seen = (n > 0) & (opinion > 0)
    if n.sum() < 2:
        return 10.0

    def likelihood(worth: float) -> float:
        left = (n[seen] - 1 + worth * opinion[seen]) / (n.sum() - 1 + worth)
        return float((n[seen] * np.log(left)).sum())

    worths = [float(10.0 ** (k / 10)) for k in range(10, 61)]
    return max(worths, key=likelihood)


def absolute_discount(counts: Mapping[str, float]) -> float:
    """Return D = n₁ / (n₁ + 2 n₂), the absolute discount of Ney, Essen and Kneser (1994), from {word: count}.

    n₁ and n₂ are the numbers of words counted once and twice; if either is 0, D is 0.5.
    """
    once, twice = (sum(count == k for count in counts.values()) for k in (1, 2))
    return once / (once + 2 * twice) if once and twice else 0.5


def _cell_mass(vocabulary: Vocabulary, counts: Mapping[str, float], *, extra: float) -> Floats:
    """Return the summed counts of the words of each of the C cells, plus `extra` spread over them, (C,).

    A cell is a set of unlisted strings that share a symbol, such as all 4-digit numbers; a domain, such as numbers, is
    divided into cells. `extra` is divided equally among domains, and within a domain by its own probabilities. Words
    that are in no cell are ignored, and so are words of a cell whose strings are all listed in the vocabulary.
    """
    log_left = np.concatenate(vocabulary.cell_log_mass)
    mass = extra / len(vocabulary.domains) * _spread(vocabulary)
    words = [word for word in counts if word not in (EOS, vocabulary.unknown)]
    cells = vocabulary.cells_of(words) - len(vocabulary.words)
    for cell, word in zip(cells.tolist(), words, strict=True):
        if cell >= 0 and log_left[cell] > -np.inf:
            mass[cell] += counts[word]
    return mass


def _spread(vocabulary: Vocabulary) -> Floats:
    """Return the probability of each of the C cells within its domain, given that a string is not listed, (C,).

    A domain is a set of strings with probabilities, such as numbers, divided into cells. The cells of each domain sum
    to 1; those of a domain whose strings are all listed are 0. Cells are in the order of the vocabulary's symbols.
    """
    spread = []
    for left in vocabulary.cell_log_mass:
        whole = np.logaddexp.reduce(left)
        spread.append(np.exp(left - whole) if whole > -np.inf else np.zeros(len(left)))  # all of its strings are listed
    return np.concatenate(spread)


def _static(mass: Floats, name: str, vocabulary: Vocabulary) -> Static:
    with np.errstate(divide="ignore"):
        log_b = torch.from_numpy(np.log(mass / mass.sum()))
    return Static(log_b, name=name).bind(vocabulary)


Choice = Collection[str] | Callable[[object, tuple[str, ...]], Iterable[str]]
MaskState = tuple[object, tuple[str, ...]]  # the condition, and the words of the sentence so far


class Mask(Background[MaskState]):
    """A background (prior over the next word) that is 1 for allowed and 0 for forbidden words.

    Give either `allowed` or `forbidden`: a collection of words that holds everywhere, or a function of (condition,
    tuple of the words of the sentence so far) that returns one. Words that `allowed` does not name are forbidden,
    "</s>" too. The condition is the input that the text is generated from, or None; "</s>" is the end of a sentence. A
    word outside the vocabulary stands for the symbol it is read as, and raises an UnknownWordError if there is none.
    The cost of a function's mask does not depend on the size of the vocabulary.

        Mask(forbidden={"<unk>"})
        Mask(allowed=lambda condition, prefix: ("a", "b") if len(prefix) < 3 else ("</s>",))
    """

    _table: Table  # once it is bound

    def __init__(self, *, allowed: Choice | None = None, forbidden: Choice | None = None) -> None:
        if (allowed is None) == (forbidden is None):
            raise BackgroundError("Mask takes either allowed=... or forbidden=..., one of them")
        self._allows = allowed is not None
        self._choice: Choice = allowed if allowed is not None else forbidden or frozenset()

    @property
    def is_static(self) -> bool:
        return not callable(self._choice)

    @property
    def _own(self) -> float:
        """log b of the words that are named in the mask: 0 if they are allowed, minus infinity if forbidden."""
        return 0.0 if self._allows else MINUS_INFINITY

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        log_b = torch.full((len(vocabulary),), MINUS_INFINITY if self._allows else 0.0, dtype=torch.float64)
        if not callable(self._choice):
            log_b[vocabulary.ids(sorted(self._choice), place=repr(self))] = self._own
        bound._table = Table(log_b)
        return bound

    def revised(self, revision: Revision) -> Self:
        """Return the mask bound to the new vocabulary of `revision`, in which words were added or removed.

        A new word that is not named is forbidden by `allowed=...` and allowed by `forbidden=...`.
        """
        return self.bind(revision.vocabulary)

    def initial(self, condition: object = None) -> MaskState:
        return condition, ()

    def advance(self, state: MaskState, symbol: int) -> MaskState:
        condition, prefix = state
        if symbol == self.vocabulary.eos:
            return condition, ()
        return condition, (*prefix, self.vocabulary.symbols[symbol])

    def prior(self, states: Sequence[MaskState]) -> Prior:
        vocabulary = self.vocabulary
        if not callable(self._choice):
            return SparsePrior.static(self._table)
        chosen = [self._choice(condition, prefix) for condition, prefix in states]
        ids = [vocabulary.ids(words, place=repr(self)) for words in chosen]
        return SparsePrior.listed(self._table, [dict.fromkeys(row, self._own) for row in ids])

    @property
    def _given(self) -> str:
        return "allowed" if self._allows else "forbidden"

    def saved(self) -> Saved:
        return super().saved() if callable(self._choice) else Saved("mask", {self._given: sorted(self._choice)})

    def __repr__(self) -> str:
        if callable(self._choice):
            return f"Mask({self._given}={getattr(self._choice, '__name__', repr(self._choice))})"
        return f"Mask({self._given}={len(self._choice)} symbols)"


def symbol_mass(background: Background, vocabulary: Vocabulary) -> Floats:
    """Return b(x) of every symbol of the vocabulary, (V,), for a prior that does not depend on the context.

    It is not normalised. For a prior that depends on the context, the result is each symbol's count in the text that
    the vocabulary was made from (`vocabulary.counts`), plus one half.
    """
    if not background.is_static:
        return np.asarray(vocabulary.counts) + 0.5
    log_b = background.bind(vocabulary).prior([]).dense(1).log_b[0]
    return np.asarray(log_b.double().exp().cpu().numpy(), dtype=np.float64)
