"""The distribution at N positions: log Z by the cheapest of four equal ways, and all that is asked of p.

    log p(x | K) = log b(K, x) + a·φ(K, x) − log Z(K)

N positions, V words in G classes s of equal static features φ_s; E exceptions in all, words that stand alone at a
position; `scores[n, s]` is a_n·φ_s. The ways to Z:

    words       Σ_x b(K, x) exp(a·φ(K, x))                   N·V terms: where those are few beside the exceptions
    static      Σ_s exp(a·φ_s + log B_s)                     where nothing depends on the context: log B is in the bias
    adding      Σ_s B_s exp(a·φ_s) + Σ_{x∈E} [b(K, x) exp(a·φ(K, x)) − what x counts for in its class]
    leaving     Σ_s B_s^rest exp(a·φ_s) + Σ_{x∈E} b(K, x) exp(a·φ(K, x))

A way may decline, and the next one in this order is taken: `static` where something depends on the context, or where
scores are so large that a bias has no digits left for log B_s; `adding` where too little is left to subtract from.

All numbers of a position are relative to its *origin*, what every word has in common (the values of contextual features
on the rest, the scale of the prior), and log Z is float64: so log p keeps its digits however large the scores are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ZeroMassError
from llrnn.layer import costs, drawing, numerics
from llrnn.layer.blocks import Pairs
from llrnn.layer.linear import Given, folded
from llrnn.layer.masses import ClassMass, Left
from llrnn.layer.matrix import needs_gradient
from llrnn.layer.numerics import MINUS_INFINITY, Cells, finite, less
from llrnn.layer.priors import AnyValues, ContextValues, FullPrior, Knowledge, Prior, SparsePrior, join
from llrnn.layer.weights import LayerWeights, WeightChange

Way = Literal["words", "static", "adding", "leaving"]
Values = Sequence[AnyValues]
Found = tuple[Tensor, Tensor]  # log Z (N,) and the terms of the asked words (E,), float64, both less the origin

FEW_TERMS = 200_000  # N × V: so few are summed faster word by word than class by class
AN_EXCEPTION, MANY_TERMS = 100, 4_000_000  # an exception costs as much as so many terms; no more than these pay
_FEW_DRAWS = 4  # so few are made faster one by one than by operations on tensors (measured on CPU)
_WRITTEN_OUT = 30_000  # words: a row of so many takes as long to write out as the walk (measured on CPU)
_MOST_WRITTEN = 30_000_000  # numbers in all, for memory


class Distribution(torch.distributions.Distribution):
    """Distributions p(x | K) ∝ b(K, x) exp(a·φ(K, x)) over V words x at N positions of texts, normalised exactly.

    K is the text before, b the prior, φ the features of a word, a their weights. One of `torch.distributions`: its
    values are word ids, and `batch_shape` is the shape (…) of the positions, by default (N,): that of
    `log_prob(words)`, `entropy()` and `log_z`; `sample((5,))` is (5, …), `log_probs()` is (…, V). N × V arrays are made
    only if small or needed.

    `weights`: W and c of a = W h + c; `h` (N, H): hidden vectors; `prior`: log b; `values`: the values of contextual
    features, those that depend on K; `scale`: a number that multiplies a, one over the temperature (log b must have
    been divided by the temperature, as `tempered` does); `change`: scale and offset of the weights a, position by
    position. A `LogLinear` makes it:

        p = layer(h)
        p.log_prob(words), p.entropy(), p.top(5), p.sample((10,)), p.tempered(0.8).sample()
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}
    way: Way | None = None  # forces one on all sums, for tests: by default the cheapest one is taken

    def __init__(
        self,
        weights: LayerWeights,
        h: Tensor,
        prior: Prior,
        values: Values = (),
        *,
        scale: float = 1.0,
        change: WeightChange | None = None,
        batch_shape: Sequence[int] | None = None,
    ) -> None:
        self.given, self.prior, self.scale, self.n = Given(weights, h, values, change), prior, scale, len(h)
        self.weights, self.h, self.values, self.change = folded(self.given)
        self.classes = weights.classes
        super().__init__(torch.Size((self.n,) if batch_shape is None else batch_shape), validate_args=False)

    def _shaped(self, found: Tensor) -> Tensor:
        """Return `found`, results (N, …) for the N flattened positions, reshaped to `batch_shape` + (…)."""
        return found if len(self.batch_shape) == 1 else found.reshape(self.batch_shape + found.shape[1:])

    # --- log p ------------------------------------------------------------------------------------------------------

    def log_prob(self, value: Tensor, position: Tensor | None = None) -> Tensor:
        """Return log p of the word ids `value`, one for each position, (…) -> (…), in the dtype of the hidden vectors.

        With `position`, indices of positions (E,) in rising order, `value` holds E words, any number at each position,
        and the result is (E,). The result is −∞ for a word with prior 0.

            p.log_prob(words)
            p.log_prob(torch.tensor([4, 9]), position=torch.tensor([0, 0]))          # two words at position 0
        """
        log_total, term = self._sums(position, value if value.dim() == 1 else value.reshape(-1))
        if position is not None:
            return (term - log_total[position]).to(self.h.dtype)
        return self._shaped((term - log_total).to(self.h.dtype))

    def log_probs(self) -> Tensor:
        """Return log p of every word of the vocabulary at each position, `batch_shape` + (V,); −∞ where impossible.

        Raises ZeroMassError at a position where no word is possible.

        Example:

            p.log_probs().exp().sum(-1)          # ones
        """
        if isinstance(self.prior, FullPrior) and self.prior.sums_to_one and self._is_silent():
            return self._shaped(self.prior.dense(self.n, self.h.dtype).log_b)
        terms, shift = self.word_terms
        return self._shaped(less(terms, 0.0, (self.require_mass().log_total - shift)[:, None]))

    @cached_property
    def log_z(self) -> Tensor:
        """The log-normaliser log Z = log Σ_x b(x) exp(a·φ(x)) at each position, float64, of shape `batch_shape`.

        b is the prior of word x, a·φ its score by features; −∞ if every word has b = 0.
        """
        return self._shaped(self.log_total + self.origin)

    @cached_property
    def log_total(self) -> Tensor:
        """The log-normaliser log Z minus `origin` at each of N positions, float64 (N,); −∞ where no word is possible.

        `origin` is the part of log b + a·φ that all words at a position share; sums without it keep more digits.
        """
        return self._sums(*torch.zeros(2, 0, dtype=torch.long, device=self.h.device))[0]

    @cached_property
    def origin(self) -> Tensor:
        """The summand of log b(x) + a·φ(x) that all words x at a position have in common, float64 (N,).

        It is the log of the factor by which `centred` divided the prior at that position, plus the score that
        contextual features give all words for which no value of their own is listed. Other sums are kept relative to
        it, so that they do not lose digits.
        """
        scale = self.centred[1].expand(self.n)
        if not self.values:
            return scale
        rest = torch.cat([part.rest for part in self.values], 1)
        return scale + (self.context_adaptor.double() * rest.double()).sum(-1)

    def require_mass(self) -> Distribution:
        """Return self if some word is possible at every position.

        Raises ZeroMassError where every word has prior b = 0, NumericalError where the log-normaliser is NaN or +∞; the
        message names the first such position.
        """
        numerics.require_numbers(self.log_total)
        nowhere = torch.nonzero(self.log_total == MINUS_INFINITY)
        if len(nowhere):
            where = f"the background gives no symbol any mass at position {int(nowhere[0])}: nothing can follow"
            raise ZeroMassError(f"{where}; allow at least one symbol there")
        return self

    # --- a, and a·φ of classes ---------------------------------------------------------------------------------------

    @property
    def changes_weights(self) -> bool:
        """Whether feature weights differ from the layer's a = W h + c, by a weight change or a temperature not 1."""
        return self.scale != 1.0 or self.change is not None

    @cached_property
    def adaptor(self) -> Tensor:
        """The weights a = W h + c of the m static (context-independent) features at N positions, (N, m).

        A weight change (`steered`) and the temperature are applied.
        """
        a = self.weights.adaptor(self.h)
        return (a if self.change is None else self.change.changed(a, 0)) * self.scale

    @cached_property
    def context_adaptor(self) -> Tensor:
        """The weights of the k contextual features at N positions, (N, k), with weight change and temperature applied.

        Contextual features that are linear in static ones are not counted in k: they are part of the static weights.
        """
        a = self.weights.context_adaptor(self.h)
        return (a if self.change is None else self.change.changed(a, len(self.weights.weight))) * self.scale

    @cached_property
    def scores(self) -> Tensor:
        """The scores a·φ_s of every class s at N positions, (N, G), without the prior and without contextual features.

        A class is a set of words with equal static features φ_s; a are the feature weights.
        """
        if self.change is not None:  # composed weights would be of no use to other rows
            return (self.weights.phi @ self.adaptor.t()).t()
        return self.weights.scores(self.h) * self.scale if self.scale != 1.0 else self.weights.scores(self.h)

    # --- log b, and what depends on the context ----------------------------------------------------------------------

    @cached_property
    def centred(self) -> tuple[Prior, Tensor]:
        """The prior divided by a factor for each position, and the logs of the factors, float64 (N,), or (1,) for all.

        The factor of a position is about the largest b there, so that log b is near 0 and low precision keeps its
        digits; it is 1 (log 0) where b was in range already. Dividing by it does not change p.
        """
        return self.prior.centred(self.h.dtype)

    @cached_property
    def known(self) -> Knowledge:
        """The prior and all contextual feature values, as one `Knowledge` with a common list of exceptions.

        The prior is `centred`, scaled at each position so that log b is near 0. Exceptions are the E (position, word)
        pairs whose log b or feature values differ from those of most words there: `position`, `word`, `log_b` (E,) and
        `value` (E, k) of the result; `rest` (N, k) are the values on other words.
        """
        return join(self.centred[0], self.values, self.n)

    @cached_property
    def static_mass(self) -> ClassMass | None:
        """The prior summed by classes of words, if p depends on the text only through h; else None.

        A class is a set of words with equal static features. None unless b is one table at every position and
        contextual features single out no word; None too while contextual features are given and a weight needs a
        gradient, since their weights then need one.
        """
        listed = any(len(part.position) for part in self.values)
        table = None if listed or (self.values and needs_gradient(*self.weights.tensors)) else self.prior.only_table
        return None if table is None else self.classes.mass(table)

    @cached_property
    def left(self) -> Left:
        """The C (position, class) pairs whose class contains an exception at that position, each once, as a `Left`.

        A class is a set of words with equal static features. An exception is a word whose prior or contextual features
        differ from the general ones at that position; its class is then summed without it. A `Left` has `position` and
        `klass`, (C,) each, and `of_exception` (E,), the index of the pair to which each of the E exceptions belongs.
        """
        return self.classes.left_by(self.known.position, self.known.word)

    @cached_property
    def log_mass(self) -> tuple[Tensor, Cells | None]:
        """The log of the prior summed over each class of words without its exceptions: (whole, cells).

        `whole`, (N, G) or (1, G): of all classes; `cells`: a tuple (position, klass, log_mass), (C,) each, of the
        (position, class) pairs with exceptions, whose log_mass replaces that in `whole`; None if `whole` needs no
        correction. An exception is a word whose prior or contextual features differ from the general ones at that
        position. The prior is the centred one: where its largest value at a position is beyond ±128 it is divided by
        that, a factor which cancels in p. Values have the dtype of h.
        """
        known, prior, dtype = self.known, self.known.prior, self.h.dtype
        if isinstance(prior, FullPrior):
            return self.classes.log_mass_dense(prior.dense(self.n), known.position, known.word).to(dtype), None
        whole = self.classes.log_mass(prior, dtype)
        if len(known.position) == 0:
            return whole, None
        return whole, Cells(*self.left[:2], self.classes.log_rest(prior, known.word, self.left).to(dtype))

    def log_b(self, word: Tensor) -> Tensor:
        """Return the prior log b of one word for each of N positions, word ids (N,) -> (N,) float64; −∞ where b is 0.

        Example:

            p.log_b(words)
        """
        return self.prior.at(torch.arange(self.n, device=word.device), word)

    def own_terms(self, static: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the scores a·φ and the prior log b of the E exceptions in `known`, two tensors (E,) in the dtype of h.

        Exceptions are the (position, word) pairs whose prior or contextual features differ from the general ones. What
        contextual features add to all other words at the position is subtracted from the scores, and log b is that of
        the centred prior. `static` (E,): the exceptions' scores by static features alone, computed here if None. Both
        results are in the order of `known`, by position, then word.
        """
        known = self.known
        static = self.scores[known.position, self.classes.class_of[known.word]] if static is None else static
        own = static + self.logit_offsets(known.value, known.position) if self.values else static
        return own, known.log_b.to(self.h.dtype)

    def logit_offsets(self, values: Tensor, position: Tensor) -> Tensor:
        """Return a·(v − v₀) for E words, (E,): what contextual features add to their scores beyond that of other words.

        `values`: v (E, k), of the k features on these words; `position` (E,): the position of each word; v₀ are the
        values on words that are not listed there, a the features' weights.
        """
        difference = values - self.known.rest.index_select(0, position)
        if difference.is_cuda or difference.requires_grad:
            return (self.context_adaptor[position] * difference).sum(-1)
        some = difference.any(1).nonzero().view(-1)  # most exceptions may be the prior's alone
        offsets = (self.context_adaptor.index_select(0, position[some]) * difference[some]).sum(-1)
        return offsets.new_zeros(len(position)).index_add(0, some, offsets)

    def context_values(self, word: Tensor, position: Tensor | None = None) -> Tensor:
        """Return the values of the k contextual features on one word for each of N positions, word ids (N,) -> (N, k).

        With `position` (E,), indices of positions in any order, `word` holds E words and the result is (E, k). Features
        that are linear in static ones are not counted in k.
        """
        known, at = self.known, torch.arange(self.n, device=word.device) if position is None else position
        values = ContextValues(known.rest, known.position, known.word, known.value)
        return values.at(at, word, known.prior.n_symbols)

    # --- the ways to log Z -------------------------------------------------------------------------------------------

    @numerics.eager
    def _sums(self, position: Tensor | None, word: Tensor) -> Found:
        """Return the log-normaliser (N,), and log b + a·φ of E (position, word) pairs, (E,), each minus `origin`.

        Returned as (log-normaliser, terms), both float64. `origin` is the part that all words at the position share.
        `position` (E,), in rising order; None: one word for each position. Of four exact ways to the normaliser the one
        that the attribute `way` names is taken ("words", "static", "adding" or "leaving"), or the cheapest if that is
        None; where a way is not possible, or would lose digits, the next is.
        """
        way = self.way or ("words" if self.static_mass is None and self._prefers_words() else "static")
        found = self._static(position, word) if way == "static" else None
        if found is not None:
            return found
        position = torch.arange(self.n, device=word.device) if position is None else position
        if way == "words":
            return self._by_words(position, word)
        if way != "leaving":
            found = self._adding(position, word)
        return self._leaving(position, word) if found is None else found

    def _prefers_words(self) -> bool:
        """Return whether one sum over all N × V (position, word) pairs is cheaper than sums over classes of words.

        True if N × V is at most 200,000 + 100 E, and at most 4,000,000, where E is the number of (position, word) pairs
        for which the prior or contextual features list a value.
        """
        listed = len(self.prior.exceptions) if isinstance(self.prior, SparsePrior) else 0
        exceptions = listed + sum(len(part.position) for part in self.values)
        return self.n * self.prior.n_symbols <= min(FEW_TERMS + AN_EXCEPTION * exceptions, MANY_TERMS)

    def _by_words(self, position: Tensor, word: Tensor) -> Found:
        """Return the log-normaliser (N,), and log b + a·φ of E (position, word) pairs, (E,), by a sum over all words.

        Returned as a pair of tensors, both float64 and minus `origin`, what all words at the position share.
        `position`, `word` (E,): the pairs.
        """
        terms, shift = self.word_terms
        log_sum, asked = numerics.class_logsumexp(terms, None, None, position, word)
        return log_sum + shift, asked.double() + shift[position]

    @cached_property
    def word_terms(self) -> tuple[Tensor, Tensor]:
        """The terms log b + a·φ − origin − shift of every word at N positions, (N, V), and the shift, float64 (N,).

        b is the prior, a·φ the score by all features. The shift of a position and its `origin` are the same for all
        words; they are subtracted to keep digits. Terms are in the dtype of h.
        """
        whole, prior = self.scores.index_select(1, self.classes.class_of), self.centred[0]
        weights = torch.split(self.context_adaptor, [part.width for part in self.values], 1) if self.values else ()
        for part, a in zip(self.values, weights, strict=True):
            whole = _with_logit_offsets(part, a, whole)  # of none, too: their gradient is 0
        terms, shift = numerics.shifted_sums(whole, prior.dense(1 if prior.is_static else self.n, whole.dtype).log_b)
        return terms, terms.new_zeros(self.n, dtype=torch.float64) if shift is None else shift.double()

    def _static(self, position: Tensor | None, word: Tensor) -> Found | None:
        """Return the log-normaliser (N,), and log b + a·φ of E (position, word) pairs, (E,), for a static p.

        Both are float64 and minus `origin`, what all words at the position share; static is a p that depends on the
        text only through h. None, for the caller to take another way, where the prior or contextual features single out
        words by position, weights are steered or tempered, no pair is asked for, or scores are so large that digits
        would be lost. `position`, `word` (E,): the pairs, or `position` None for one word at each position.
        """
        mass, prior = self.static_mass, self.prior
        if mass is None or not isinstance(prior, SparsePrior) or word.numel() == 0 or self.changes_weights:
            return None
        klass = self.classes.class_of.index_select(0, word)
        log_sum, asked = self.weights.log_sums(self.h, mass.as_dtype(self.h.dtype), position, klass)
        if numerics.are_large(log_sum):
            return None
        term = asked + mass.log_share_of(word)  # float64, as the shares are
        if prior is prior.tables[0].everywhere():
            return log_sum, term
        shift = prior.shift[0, 0]
        return log_sum + shift, term + shift

    def _adding(self, position: Tensor, word: Tensor) -> Found | None:
        """Return the log-normaliser (N,), and log b + a·φ of E (position, word) pairs, (E,), by sums over classes.

        To the sums over whole classes the difference is added that exceptions make: words whose prior or contextual
        features differ at a position. Both are float64 and minus `origin`, what all words at the position share. None
        where digits would be lost: the caller then takes another way. `position`, `word` (E,): the pairs.
        """
        known, prior, dtype = self.known, self.known.prior, self.h.dtype
        rows, columns = self._pairs(position, word)
        found = self._in_blocks(position, rows, columns)
        if found is not None:
            log_sum, score = found
        elif isinstance(prior, SparsePrior):
            log_mass = self.classes.log_mass(prior, dtype)
            log_sum, score = numerics.class_logsumexp(self.scores, log_mass, None, rows, columns)
        else:
            log_sum, score = self._full_log_sums(prior, rows, columns)
        terms, static = self._terms(position, word, score)
        if len(static) == 0:
            return log_sum, terms
        before = static, known.log_b_before.to(dtype)
        log_total = numerics.add_differences(log_sum, self.own_terms(static), before, known.position)
        return None if log_total is None else (log_total, terms)

    def _in_blocks(self, position: Tensor, rows: Tensor, columns: Tensor) -> Found | None:
        """Return the log-sum over classes of words (N,), and scores a·φ of (position, class) pairs, block by block.

        Returned as (log-sums of b exp(a·φ) by the one table of the prior, exceptions included as any word, float64;
        static scores of the pairs in their order). Exceptions are words whose prior or features differ at a position.
        It is meant for training and validation: None is returned for few positions, where `scores` are known, where
        there are no exceptions, where the prior without them is not one table for all positions, where weights are
        steered or tempered, where a gradient is needed and multiplying features into the weights first is cheaper, or
        where digits would be lost. `rows`, `columns`: position and class of the pairs: first those of the words asked
        for, whose positions are `position`, then those of the exceptions.
        """
        prior, others = self.known.prior, self.known.position
        table = prior.base_table if isinstance(prior, SparsePrior) and len(others) else None
        if table is None or self.changes_weights or self.n <= costs.FEW_POSITIONS or "scores" in vars(self):
            return None
        if needs_gradient(self.h, *self.weights.tensors) and self.weights.work(self.h).name != "direct":
            return None  # composed, a gradient of each pair would be a row of weights
        log_mass = self.classes.mass(table).as_dtype(self.h.dtype)
        # in the order of the positions: the words that are asked for, then the exceptions
        asked = torch.searchsorted(others, position)
        at = torch.cat([asked, torch.bincount(asked, minlength=len(others) + 1).cumsum(0)[:-1]])
        at += torch.cat([torch.arange(len(part), device=at.device) for part in (position, others)])
        pairs = (torch.empty_like(part).index_copy_(0, at, part) for part in (rows, columns))
        log_sum, score = self.weights.log_sums(self.h, log_mass, *pairs)
        score = score.index_select(0, at) - log_mass.index_select(0, columns)
        return None if numerics.are_large(log_sum) else (log_sum, score)

    def _full_log_sums(self, prior: FullPrior, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-sum of b exp(a·φ) over words (N,) float64, and scores a·φ of (position, class) pairs, (E,).

        φ are static features alone; `prior`: one that has a value for each of N × V (position, word) pairs; `rows`,
        `columns` (E,): the pairs, `columns` indices of classes of words. Where the prior sums to one and all feature
        weights are 0, as in a mixture of models, nothing is summed: both results are 0.
        """
        if prior.sums_to_one and self._is_silent():
            return self.h.new_zeros(self.n, dtype=torch.float64), self.h.new_zeros(len(rows))
        words, none = self.scores.index_select(1, self.classes.class_of), rows[:0]
        log_b = prior.dense(self.n, self.h.dtype).log_b
        return numerics.class_logsumexp(words, log_b, None, none, none)[0], self.scores[rows, columns]

    def _is_silent(self) -> bool:
        """Return whether all feature weights a are 0, so that p is the prior.

        That is, there are no hidden units, no contextual features and no weight change, and the bias is 0 and needs no
        gradient.
        """
        bias = self.weights.bias
        is_fixed = self.weights.weight.shape[1] == 0 and not self.changes_weights and not needs_gradient(bias)
        return is_fixed and not self.values and not bool(bias.any())

    def _leaving(self, position: Tensor, word: Tensor) -> Found:
        """Return the log-normaliser (N,), and log b + a·φ of E (position, word) pairs, (E,), exceptions apart.

        Classes of words are summed without their exceptions, words whose prior or contextual features differ at a
        position; these are then added one by one. Both are float64 and minus `origin`, what all words at the position
        share. `position`, `word` (E,): the pairs.
        """
        log_rest, score = numerics.class_logsumexp(self.scores, *self.log_mass, *self._pairs(position, word))
        terms, static = self._terms(position, word, score)
        own, log_b = self.own_terms(static)
        return torch.logaddexp(log_rest, numerics.segment_logsumexp(own, self.known.position, self.n, log_b)), terms

    def _pairs(self, position: Tensor, word: Tensor) -> Pairs:
        """Return the given (position, word) pairs, then the exceptions in `known`, as (position, class) pairs.

        A class is a set of words with equal static features; exceptions are the (position, word) pairs whose prior or
        contextual features differ from the general ones.
        """
        words = torch.cat([word, self.known.word])
        return Pairs(torch.cat([position, self.known.position]), self.classes.class_of.index_select(0, words))

    def _terms(self, position: Tensor, word: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
        """Return log b + a·φ of E (position, word) pairs, (E,) float64 minus `origin`, and scores of the exceptions.

        `origin` is what all words at the position share; `score`: the scores by static features of the given pairs and
        then of the exceptions, in the order of `_pairs`; the second part is returned as it is. Exceptions are
        (position, word) pairs whose prior or contextual features differ from the general ones.
        """
        asked, static = score[: len(position)], score[len(position) :]
        if self.values:
            asked = asked + self.logit_offsets(self.context_values(word, position), position)
        return asked.double() + self.known.prior.at(position, word), static

    # --- expectations ------------------------------------------------------------------------------------------------

    @cached_property
    def log_parts(self) -> tuple[Tensor, Tensor]:
        """log p of each class, summed over its words but the exceptions, (N, G), and log p of each exception, (E,).

        A class is a set of words with equal static features; exceptions are the (position, word) pairs in `known` whose
        prior or contextual features differ from the general ones. Raises ZeroMassError where no word is possible.
        """
        (whole, cells), scores, log_total = self.log_mass, self.scores, self.require_mass().log_total
        rest = less(scores, whole, log_total[:, None])
        if cells is not None:
            where = (cells.position, cells.klass)
            rest = rest.index_put(where, less(scores[where], cells.log_mass, log_total[cells.position]))
        return rest, less(*self.own_terms(), log_total[self.known.position])

    def class_probabilities(self) -> Tensor:
        """Return the summed probability of the words of each class at N positions, (N, G).

        A class is a set of words with equal static features; each row sums to one. In the dtype of h.
        """
        (rest, own), known = self.log_parts, self.known
        return rest.exp().index_put((known.position, self.classes.class_of[known.word]), own.exp(), accumulate=True)

    def expected_features(self) -> Tensor:
        """Return the expected features E_p φ(K, x) at each position, (…, m + k): m static, then k contextual ones.

        In the gradient of log p(x) by the feature weights, φ(x) − E_p φ, it is the second part. It is a sum over
        classes and single words, not over all V. m + k is the number of all features, those that are linear in static
        ones included.

            p.expected_features()
        """
        (rest, own), known = self.log_parts, self.known
        static = self.weights.phi.transposed(self.class_probabilities().t().contiguous()).t()
        context = rest.exp().sum(-1, keepdim=True) * known.rest
        context = context.index_add(0, known.position, own.exp()[:, None] * known.value)
        return self._shaped(torch.cat([static, self.given.joined(context.to(static.dtype), static)], 1))

    def entropy(self) -> Tensor:
        """Return the entropy −Σ p log p over words at each position, in nats, of shape `batch_shape` and h's dtype.

        Computed as Σ_s P(s) [H(s) − log P(s)] − Σ_x p(x) log p(x) over classes s of words with entropy H(s) within, and
        single words x that differ from their class. No part is below 0, and none is a difference of large numbers.
        """
        prior, position = self.known.prior, self.known.position
        if isinstance(prior, FullPrior) or len(prior.tables) > 1:
            return _surprise(self.log_probs()).sum(-1)
        mass, left, (rest, own) = self.classes.mass(prior.tables[0]), self.left, self.log_parts
        within = mass.entropy[None]  # of the words that are left in each class, (1, G) or (N, G)
        if len(position):
            within = mass.entropy.expand(self.n, -1).clone()
            within[left.position, left.klass] = mass.without(self.known.word, left).entropy
        found = (_surprise(rest) + rest.exp() * within.to(rest.dtype)).sum(-1)
        return self._shaped(found.index_add(0, position, _surprise(own)))

    # --- other distributions -----------------------------------------------------------------------------------------

    def row(self, n: int) -> Distribution:
        """Return the distribution at position n alone, with `batch_shape` (1,); n counts flattened positions from 0."""
        weights, h, values, change = self.given.row(n)
        return Distribution(weights, h, self.prior.row(n), values, scale=self.scale, change=change)

    def _copy(self, prior: Prior, scale: float, change: WeightChange | None) -> Distribution:
        weights, h, values, _ = self.given
        return Distribution(weights, h, prior, values, scale=scale, change=change, batch_shape=self.batch_shape)

    def tempered(self, temperature: float) -> Distribution:
        """Return the distribution p(x)^(1/temperature), normalised, with the same positions; `temperature` > 0.

        Example:

            p.tempered(0.7).sample()
        """
        return self._copy(self.prior.powered(1.0 / temperature), self.scale / temperature, self.given.change)

    def steered(self, change: WeightChange) -> Distribution:
        """Return the distribution p(x) ∝ b(K, x) exp((scale∘a + offset)·φ): the same prior b, other feature weights.

        `change`: holds scale and offset, which are applied to a = W h + c before any temperature, and replace those of
        an earlier call.

        Example:

            p.steered(WeightChange(scale, offset))          # each (N, m + k), or (1, m + k)
        """
        return self._copy(self.prior, self.scale, change)

    # --- words: drawn, and the best ----------------------------------------------------------------------------------

    @numerics.eager
    def sample(self, sample_shape: Sequence[int] = torch.Size(), *, generator: torch.Generator | None = None) -> Tensor:
        """Draw words from p at each position, independently and exactly; word ids, shape sample_shape + `batch_shape`.

        `generator`: the source of random numbers, torch's global one by default. Raises ZeroMassError where no word is
        possible.

        Example:

            p.sample()                                                        # (…): one word a position
            p.sample((10,), generator=torch.Generator().manual_seed(1))       # (10, …)
        """
        return self._drawn(math.prod(sample_shape), generator).reshape((*sample_shape, *self.batch_shape))

    def _drawn(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Draw `count` words independently at each of N positions; return their ids, (count, N).

        `generator`: the source of random numbers, None for torch's global one. Raises ZeroMassError where no word is
        possible.
        """
        if self.static_mass is not None:
            return self._drawn_statically(self.static_mass, count, generator)
        prior = self.known.prior
        if not isinstance(prior, SparsePrior):
            weights = self.log_probs().detach().double().exp().reshape(self.n, prior.n_symbols)
            return torch.multinomial(weights, count, replacement=True, generator=generator).t()
        rest, own = (part.detach().exp().double() for part in self.log_parts)
        return drawing.Parts(self.classes, self.known, self.left, prior, rest, own).sample(count, generator)

    def _drawn_statically(self, mass: ClassMass, count: int, generator: torch.Generator | None) -> Tensor:
        """Draw `count` words at each of N positions, word ids (count, N): a class, then a word of it by the prior.

        It is only for priors and features that do not depend on the context. `mass`: the prior summed by classes of
        words with equal features; `generator`: None for torch's global one.
        """
        if count * self.n <= _FEW_DRAWS and self.scores.device.type == "cpu":
            return drawing.one_by_one(self._class_ends, mass, count, generator)
        klass = drawing.inverted(self._class_weights(), count, generator)
        return mass.words.draw(klass.reshape(-1), generator).view(count, self.n)

    @cached_property
    def _class_ends(self) -> Floats:
        """Running sums of `_class_weights` over the classes, a float64 numpy array (N, G); cached for further draws."""
        return self._class_weights().double().cumsum(-1).numpy()

    def _class_weights(self) -> Tensor:
        """Return B_s exp(a·φ_s) of every class s of words at N positions, (N, G), scaled to a largest of 1 a row.

        B_s is the prior summed over the words of the class, φ_s their features. Only where neither prior nor contextual
        features depend on the context. Raises ZeroMassError where every word has b = 0.
        """
        assert self.static_mass is not None
        logs, _ = numerics.shifted_sums(self.scores.detach(), self.static_mass.as_dtype(self.scores.dtype))
        largest = logs.amax(-1, keepdim=True)
        if not bool(torch.isfinite(largest).all()):
            self.require_mass()  # which says where
        return (logs - largest).exp()

    @numerics.eager
    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """Return log p and ids of the k most probable words at each position, two tensors (…, k), best first.

        The result is exact; ties go to the smaller id. k is at most V: all words are returned if it is larger.

        Example:

            log_p, words = p.top(5)
        """
        prior, k = self.centred[0], min(k, self.prior.n_symbols)
        few = prior.n_symbols <= _WRITTEN_OUT and self.n * prior.n_symbols <= _MOST_WRITTEN
        written_out = self.way == "words" if self.way else few
        if written_out or not isinstance(prior, SparsePrior) or len(prior.tables) > 1:
            terms, shift = self.word_terms
            values, words = drawing.largest(terms.detach(), k)
            log_p = less(values, 0.0, (self.require_mass().log_total - shift).detach()[:, None])
        else:
            log_p, words = self._walked(prior, k)
        return self._shaped(log_p), self._shaped(words)

    def _walked(self, prior: SparsePrior, k: int) -> tuple[Tensor, Tensor]:
        """Return log p and ids of the k most probable words, two tensors (N, k), best first, without a look at all V.

        `prior`: the scaled one in `centred`, with one table; a few (position, word) pairs may have values of their own.
        """
        scores, log_total = self.scores.detach(), self.require_mass().log_total.detach()
        known, own = self.known, list[list[drawing.Word]]([] for _ in range(self.n))
        if len(known.position):
            log_p = self.own_terms()[0].detach().double() + known.log_b - log_total[known.position]
            for n, log, word in zip(known.position.tolist(), log_p.tolist(), known.word.tolist(), strict=True):
                own[n].append((log, word))
        shift = (prior.shift[:, 0] - log_total).tolist()
        rows = drawing.best_words(self.classes.mass(prior.tables[0]), scores.double(), shift, own, k)
        best = torch.tensor(rows, dtype=torch.float64, device=scores.device).view(self.n, k, 2)
        return best[..., 0].to(scores.dtype), best[..., 1].long()


def _surprise(log_p: Tensor) -> Tensor:
    """Return −p log p for each log-probability log p; 0 where p is 0, or where rounding made log p positive."""
    return -(log_p.exp() * finite(log_p).clamp(max=0.0))


@numerics.in_full
def _with_logit_offsets(part: ContextValues, a: Tensor, whole: Tensor) -> Tensor:
    """Return the scores `whole` (N, V) of all words plus what contextual features add to the words that they list.

    `part`: the values of k features at N positions; `a` (N, k): their weights. What they add to all words that are not
    listed at a position is subtracted at that position from what is added, so that only listed words change. The result
    is a new tensor (N, V).
    """
    if part.everywhere is not None:  # the same columns in every row
        above = part.value.view(len(a), -1, part.width) - part.rest.unsqueeze(1)
        return whole.index_add(1, part.everywhere, torch.bmm(above, a.unsqueeze(2)).squeeze(2))
    offsets = (a[part.position] * (part.value - part.rest[part.position])).sum(-1)
    at = part.position * whole.shape[1] + part.word
    return whole.view(-1).index_add(0, at, offsets).view_as(whole)
