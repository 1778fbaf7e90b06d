"""Why this word? Exactly, and adding up.

log p(x | K) = log b(K, x) + Σ_k a_k·φ_k(K, x) − log Z(K)

A background that is a product, or primed by the condition, shows each factor: log b = Σ_i log b_i.

Of one that is a mixture, b = Σ_i λ_i b_i, each part has its share λ_i b_i(x) / b(x).

A word that is not listed is explained by its cell: log b(x) = log b(c) + log q(x) / Q'(c), and φ(x) = φ(c).

log p(x) − log p(y) = [log b(x) − log b(y)] + Σ_k a_k·(φ_k(x) − φ_k(y))         log Z cancels

Which features of which earlier words moved this weight? Gradient × input.

    a_k = W_k h + c_k,        h a function of ψ_1 … ψ_T,        ψ_t = Σ_j ψ_j(x_t)·E_j

    share(t, j) = ψ_j(x_t) · E_j · ∂a_k/∂ψ_t            Σ_j share(t, j) = ψ_t · ∂a_k/∂ψ_t

A first-order account of a network that is not linear: the shares say in which direction each feature of each word
pushes the weight, here, and how strongly. They need not add up to a_k, unlike the terms of an
explanation (`llrnn.explain`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.ground.rendering import (
    Bar,
    BarChart,
    Breakdown,
    Chartable,
    Part,
    Sheet,
    Strong,
    Term,
    TextTable,
    log_text,
    shortened,
)
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.distribution import Distribution
from llrnn.layer.mixed import MixedDistribution
from llrnn.layer.priors import MINUS_INFINITY, DensePrior, Prior
from llrnn.model.controllers import evaluating
from llrnn.model.decode import read_prefix
from llrnn.model.network import LLRNN
from llrnn.text.vocabulary import EOS

_SAID = 0.1  # a value of a contextual feature from which on explanations say what it is due to


@dataclass(frozen=True)
class MixturePart:
    """One part of a mixture p(x) = Σ_i λ_i b_i(x), and how much of the probability of one word x is due to it.

    `name`: of the part; `weight`: λ_i, 0 to 1; `log_b`: log b_i(x); `share`: λ_i b_i(x) / p(x), the posterior
    probability of the part given the word.
    """

    name: str
    weight: float
    log_b: float
    share: float


@dataclass(frozen=True)
class Explanation(Chartable):
    """log p of a word after a prefix as an exact sum, `log_b` + Σ share of `terms` − `log_z`; prints as a table.

    `log_b`: of the prior; `log_z`: of the normaliser; `prefix`, `word`: words as strings; `log_p`: the sum, in nats
    like all logarithms here; `terms`: a tuple with a `Term` for each feature of the word: `name`, `weight`, `value` and
    their product, `share`, largest first in size; `factors`: (name, log b) of each factor, if the prior is a product;
    `parts`: a `MixturePart` for each part of a mixture, else (); `chart()`: the sum as a waterfall chart. A word
    outside the vocabulary has a `cell`, the symbol of the set of strings that it belongs to (such as all 4-digit
    numbers), and `log_inside`, its log-probability within that set.

        print(explain(model, "la petite", word="maison"))
    """

    prefix: tuple[str, ...]
    word: str
    log_p: float
    log_b: float
    log_z: float
    terms: tuple[Term, ...]  # largest share first, by magnitude
    cell: str | None = None  # for a word that is not listed: the cell that it belongs to
    log_inside: float = 0.0  # and log q(x) / Q'(c), its share of the cell, which `log_b` includes
    factors: tuple[tuple[str, float], ...] = ()  # of a background that has several: each by name, and its log b
    parts: tuple[MixturePart, ...] = ()  # of a background that is a mixture, or a mixed model
    remarks: tuple[tuple[str, str], ...] = ()  # of terms by name: what their value is due to, such as who governs
    text: tuple[str, str] | None = None  # prefix and word as they are written, where words have their blanks in them

    @property
    def heading(self) -> tuple[str, str]:
        """The prefix and the word as two strings that are one text."""
        return self.text or ("".join(f"{word} " for word in self.prefix), self.word)

    @property
    def total(self) -> float:
        """The sum `log_b` + Σ share of the terms − `log_z`, in nats; equals `log_p` up to rounding."""
        return self.log_b + sum(term.share for term in self.terms) - self.log_z

    @property
    def forbidden_by(self) -> tuple[str, ...]:
        """Names of the factors of the prior b(K, x) that give the word b = 0, so that p = 0; () for a possible word.

        A prior that is no product is one factor.
        """
        return tuple(name for name, log_b in self.factors if log_b == MINUS_INFINITY)

    @property
    def verdict(self) -> str:
        if self.forbidden_by:
            return f"forbidden by {' and by '.join(self.forbidden_by)}, p = 0"
        return f"log p = {self.log_p:.4f}, p = {math.exp(self.log_p):.4g}"

    def sheet(self) -> Sheet:
        line = (self.heading[0], Strong(self.heading[1]), f": {self.verdict}")
        return Sheet((line, *self.told(), self.chart(), self._sum().table("value φ"), *self._mixture()))

    def told(self) -> list[tuple[str, ...]]:
        """Return remarks on why contextual features have their values on this word, such as which noun governs it.

        Each is a line of text, a tuple of one string, "WORD: remark"; equal ones come once, [] if there is none.
        """
        return [(f"{self.word}: {remark}",) for remark in dict.fromkeys(remark for _, remark in self.remarks)]

    def _mixture(self) -> tuple[TextTable, ...]:
        rows = tuple((one.name, f"{one.weight:.4f}", log_text(one.log_b), f"{one.share:.1%}") for one in self.parts)
        return (TextTable(("part of the mixture", "weight λ", "log b", "share"), rows),) if rows else ()

    def chart(self) -> BarChart:
        return self._sum().waterfall("log p", "".join(self.heading))

    def _sum(self) -> Breakdown:
        """Return the sum as a `Breakdown` for table and chart: log b, the features' terms, − log Z, and the total.

        For a word outside the vocabulary log b is two parts: that of its symbol (a set of strings), and that of the
        string within it.
        """
        parts: tuple[Part, ...] = (Part("log b (background)", self.log_b, factors=self.factors),)
        if self.cell is not None:
            of_cell = Part(f"log b of {self.cell}", self.log_b - self.log_inside, factors=self.factors)
            parts = (of_cell, Part(f"{self.word} among its strings", self.log_inside))
        return Breakdown(parts, in_blocks(self.terms), (Part("− log Z (normalisation)", -self.log_z),), self.total)


@dataclass(frozen=True)
class Comparison(Chartable):
    """log p(chosen) − log p(rival) of two words after one prefix as an exact sum over features; prints as a table.

    `chosen`, `rival`: the explanations of the two words; `terms`: the features on which they differ, with the
    difference of their values.

    print(explain(model, "la petite", word="maison", rival="maisons"))
    """

    chosen: Explanation
    rival: Explanation
    terms: tuple[Term, ...]  # features on which the two words differ; `value` is φ(word) − φ(rival)

    @property
    def log_ratio(self) -> float:
        """log p(chosen) − log p(rival), in nats; above 0 if the chosen word is the more probable one.

        Where the prior forbids both words it is `total`: the differences in features, and in those factors of the prior
        that do not forbid both.
        """
        both = self.chosen.forbidden_by and self.rival.forbidden_by
        return self.total if both else self.chosen.log_p - self.rival.log_p

    @property
    def log_b_difference(self) -> float:
        if self.chosen.log_b == self.rival.log_b == MINUS_INFINITY:
            return sum(difference for _, difference in self.factors)
        return self.chosen.log_b - self.rival.log_b

    @property
    def factors(self) -> tuple[tuple[str, float], ...]:
        """(name, log b_i(chosen) − log b_i(rival)) of each factor b_i, where the prior b is a product of several.

        0 where a factor forbids both words. () where the prior has one factor, or the explanations list different ones.
        """
        if len(self.chosen.factors) != len(self.rival.factors):  # one background, which forbids one of the two
            return ()
        return tuple(
            (name, 0.0 if ours == theirs == MINUS_INFINITY else ours - theirs)
            for (name, ours), (_, theirs) in zip(self.chosen.factors, self.rival.factors, strict=True)
        )

    @property
    def total(self) -> float:
        """The sum of the difference in log b and of all `terms`, in nats; equals `log_ratio` up to rounding."""
        return self.log_b_difference + sum(term.share for term in self.terms)

    def sheet(self) -> Sheet:
        chosen, rival = self.chosen, self.rival
        line = (
            chosen.heading[0], Strong(chosen.heading[1]), f" rather than {rival.heading[1]}: "
            f"log p {chosen.log_p:.4f} against {rival.log_p:.4f}, difference {log_text(self.log_ratio)}",
        )  # fmt: skip
        return Sheet((*self._notes(), line, self.chart(), self._sum().table("Δφ")))

    def chart(self) -> BarChart:
        word, rival = self.chosen.heading[1].strip(), self.rival.heading[1].strip()
        title = f"{''.join(self.chosen.heading)} rather than {rival}"
        label = f"nats for “{shortened(word)}” (right) or “{shortened(rival)}” (left)"
        return self._sum().balance(title, label)

    def _notes(self) -> list[tuple[str, ...]]:
        sides = (self.chosen, self.rival)
        notes = [f"{one.word} is not listed: a string of the cell {one.cell}" for one in sides if one.cell is not None]
        notes += [f"{one.word} is {one.verdict}" for one in sides if one.forbidden_by]
        if all(one.forbidden_by for one in sides):
            notes.append("both are forbidden: neither is possible, whatever the features say")
        return [*((note,) for note in notes), *self.chosen.told(), *self.rival.told()]

    def _sum(self) -> Breakdown:
        background = Part("log b (background)", self.log_b_difference, factors=self.factors)
        return Breakdown((background,), in_blocks(self.terms), (), self.total)


@overload
def explain(
    model: LLRNN, prefix: str | tuple[str, ...] = "", *, word: str, rival: None = None, condition: object = None
) -> Explanation: ...
@overload
def explain(
    model: LLRNN, prefix: str | tuple[str, ...] = "", *, word: str, rival: str, condition: object = None
) -> Comparison: ...
def explain(
    model: LLRNN, prefix: str | tuple[str, ...] = "", *, word: str, rival: str | None = None, condition: object = None
) -> Explanation | Comparison:
    """Explain log p(word | prefix) as a sum of feature terms, or why a word is more probable than a rival.

    `prefix`: a text, or the tuple of its words; `word`: the word to explain; `rival`: a word to compare with;
    `condition`: the input that the text is generated from, for models that have one. Returns an `Explanation`, or with
    a rival a `Comparison`. Raises UnknownWordError for a word that the model cannot write, and VocabularyError for one
    that its tokeniser cuts in two.

        print(explain(model, "la petite", word="maison", rival="maisons"))
    """
    prefix_words = model.read(prefix) if isinstance(prefix, str) else prefix
    with torch.no_grad(), evaluating(model):
        distribution, state = read_prefix(model, prefix_words, [condition])
        words = [model.read_word(one) for one in (word, rival) if one is not None]
        return explain_next(model, distribution, state, prefix_words, *words)


def explain_next(
    model: LLRNN,
    distribution: Distribution,
    state: ModelState,
    prefix: tuple[str, ...],
    word: str,
    rival: str | None = None,
) -> Explanation | Comparison:
    """Return the `Explanation` of a word under a next-word distribution that was computed already, or a `Comparison`.

    `distribution`: at one position; `state`: the model's state that came with it; `prefix`: the words before, only for
    the text of the explanation; `rival`: another word to compare with, None for none. `explain` does it from a prefix.
    """
    here = state.knowledge[0][0]
    factors, parts = model.background.factors(here), model.background.shares(here)
    if isinstance(distribution, MixedDistribution):  # the parts, and how much each is answerable; p_0 is one of them
        names = ("log-linear", *map(repr, model.mixed))
        said = zip(names, distribution.log_weights[0].tolist(), distribution.parts, strict=True)
        parts = [(name, log_weight, DensePrior(part.log_probs())) for name, log_weight, part in said]
        factors = [("mixture", distribution.prior)]
    own = zip(model.contextual, state.knowledge[1:], strict=False)
    remarks = {name: told for one, states in own for name, told in one.remarks(states[0], prefix).items()}
    chosen = _explanation(model, distribution, factors, parts, prefix, word, remarks)
    if rival is None:
        return chosen
    return compare(chosen, _explanation(model, distribution, factors, parts, prefix, rival, remarks))


def compare(chosen: Explanation, rival: Explanation) -> Comparison:
    """Return the difference of the explanations of two words after one prefix, feature by feature, as a `Comparison`.

    Its terms have the feature's weight and the value φ(chosen) − φ(rival), largest |weight · value| first; features
    with equal values are left out.
    """
    ours, theirs = ({term.name: term for term in side.terms} for side in (chosen, rival))
    none = Term("", 0.0, 0.0)
    differences = {name: ours.get(name, none).value - theirs.get(name, none).value for name in ours | theirs}
    terms = (Term(name, (ours | theirs)[name].weight, value) for name, value in differences.items() if value)
    return Comparison(chosen, rival, _largest_first(terms))


def _explanation(
    model: LLRNN,
    distribution: Distribution,
    factors: Sequence[tuple[str, Prior]],
    parts: Sequence[tuple[str, float, Prior]],
    prefix: tuple[str, ...],
    word: str,
    remarks: Mapping[str, str],
) -> Explanation:
    vocabulary = model.vocabulary
    located, inside = vocabulary.locate([word], place="word")
    symbol, log_inside = int(located[0]), float(inside[0])
    asked, terms = torch.tensor([symbol], device=model.device), _terms(model, distribution, symbol)
    said = tuple((term.name, remarks[term.name]) for term in terms if term.name in remarks and term.value >= _SAID)
    return Explanation(
        prefix=prefix,
        word=word,
        log_p=float(distribution.require_mass().log_prob(asked)[0]) + log_inside,
        log_b=float(distribution.log_b(asked)[0]) + log_inside,
        log_z=float(distribution.log_z[0]),
        terms=terms,
        cell=vocabulary.symbols[symbol] if symbol >= len(vocabulary.words) else None,
        log_inside=log_inside,
        factors=_factors(factors, symbol),
        parts=_parts(parts, symbol, log_inside),
        remarks=said,
        text=(model.write(prefix), model.piece((*prefix, word))) if model.tokeniser.has_blanks else None,
    )


def _parts(parts: Sequence[tuple[str, float, Prior]], symbol: int, log_inside: float) -> tuple[MixturePart, ...]:
    own = [_log_b(prior, symbol) for _, _, prior in parts]
    terms = torch.tensor([log_weight + log_b for (_, log_weight, _), log_b in zip(parts, own, strict=True)])
    shares = torch.softmax(terms, 0).nan_to_num(0.0).tolist()  # of none where all parts forbid the word
    return tuple(
        MixturePart(name, math.exp(log_weight), log_b + log_inside, share)
        for (name, log_weight, _), log_b, share in zip(parts, own, shares, strict=True)
    )


def _log_b(prior: Prior, symbol: int) -> float:
    first = torch.zeros(1, dtype=torch.long)
    return float(prior.to(torch.device("cpu")).at(first, first + symbol)[0])


def _factors(factors: Sequence[tuple[str, Prior]], symbol: int) -> tuple[tuple[str, float], ...]:
    """Return (name, log b_i of the symbol) for each factor of the prior; () for a single one that allows the symbol.

    `factors`: names and priors at one position.
    """
    found = [(name, _log_b(prior, symbol)) for name, prior in factors]
    return tuple(found) if len(found) > 1 or found[0][1] == MINUS_INFINITY else ()


def _terms(model: LLRNN, distribution: Distribution, symbol: int) -> tuple[Term, ...]:
    """Return a `Term` (name, weight, value) for every feature of the symbol, largest |weight · value| first.

    Features with weight 0 are left out. () for a mixture of distributions, which has no feature weights.
    `distribution`: at one position.
    """
    if isinstance(distribution, MixedDistribution):
        return ()
    a = (distribution.given.adaptor() * distribution.scale)[0]
    weights = dict(zip(model.feature_names, a.tolist(), strict=True))
    static = a.new_zeros(1, model.output_features.n_features)
    for name, value in model.output_features.row(symbol).items():
        static[0, model.output_features.column_of[name]] = value
    other = distribution.context_values(torch.tensor([symbol], device=model.device))
    values = distribution.given.joined(other, static)[0].tolist()
    context = {name: value for name, value in zip(model.context_names, values, strict=True) if value}
    fires = [*model.output_features.row(symbol).items(), *context.items()]
    return _largest_first(Term(name, weights[name], value) for name, value in fires if weights[name] != 0.0)


_COMPONENT = re.compile(r"(.+):pc[0-9]+")  # of the vectors of `features.Vectors`, which nobody reads one by one


def in_blocks(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Merge the components of each word-vector feature (`NAME:pc1`, `NAME:pc2`, …) into one term called `NAME`.

    Its value is the norm ‖φ‖ of the vector and its weight a·φ / ‖φ‖, so that the product is unchanged; other terms
    stay. The result is sorted, largest |weight · value| first.
    """
    blocks: dict[str, list[Term]] = {}
    for term in terms:
        found = _COMPONENT.fullmatch(term.name)
        blocks.setdefault(found[1] if found else term.name, []).append(term)
    return _largest_first(own[0] if own[0].name == name else _block(name, own) for name, own in blocks.items())


def _block(name: str, terms: Sequence[Term]) -> Term:
    length = math.hypot(*(term.value for term in terms))
    return Term(name, sum(term.share for term in terms) / length, length)


def _largest_first(terms: Iterable[Term]) -> tuple[Term, ...]:
    return tuple(sorted(terms, key=lambda term: (-abs(term.share), term.name)))


# Which features of which earlier words moved this weight? Gradient × input.


START = "<s>"  # how the boundary that is fed first is written here


@dataclass(frozen=True)
class Push:
    """What one input feature of one earlier word contributed to the weight of an output feature.

    `word`: the earlier word; `position`: the index of the word in the prefix, −1 for the start of the sentence; `name`,
    `value`: of the input feature; `share`: its contribution to the weight, to first order (gradient × input).
    """

    position: int  # in the prefix, from 0; -1 is the start of the sentence
    word: str
    name: str
    value: float
    share: float


@dataclass(frozen=True)
class Influence(Chartable):
    """How input features of earlier words moved the weight of one output feature (gradient × input); prints as a table.

    `weight`: that of the output feature `feature` after `prefix`; `prefix`: a tuple of words; `terms`: a tuple of
    `Push`, the contributions, in the order of the prefix and largest first at each word, which are first-order and need
    not add up to the weight.

        print(influence(model, "les petites", feature="Number:Plur"))
    """

    prefix: tuple[str, ...]
    feature: str
    weight: float
    terms: tuple[Push, ...]  # in the order of the prefix, largest first at each word

    def of_word(self, position: int) -> float:
        """Return the summed contributions of the word at this index of the prefix; −1 is the start of the sentence."""
        return sum(term.share for term in self.terms if term.position == position)

    def sheet(self) -> Sheet:
        line = (f"{word} " for word in self.prefix)
        rows = [(term.word, term.name, f"{term.value:.4g}", f"{term.share:+.4f}") for term in self.terms]
        weight = (*line, Strong("…"), f" the weight of {self.feature} is {self.weight:+.4f}; what moved it:")
        return Sheet((weight, self.chart(), TextTable(("word", "feature", "value ψ", "share"), tuple(rows))))

    def chart(self) -> BarChart:
        """Return a bar chart with a bar for the start and each word of the prefix: its contributions to the weight."""
        bars = [Bar(word, self.of_word(t - 1)) for t, word in enumerate((START, *self.prefix))]
        return BarChart(tuple(bars), f"what moved {self.feature}", "added to the weight, to first order")


def influence(model: LLRNN, prefix: str | tuple[str, ...] = "", *, feature: str, condition: object = None) -> Influence:
    """Return how far input features of the words before moved the weight of one output feature, as an `Influence`.

    The method is gradient × input, of the weight after the prefix. `prefix`: a text, or the tuple of its words;
    `feature`: the name of the output feature; `condition`: the input that the text is generated from, for models that
    have one. Raises ConfigError for a feature that the model does not have.

        print(influence(model, "les petites", feature="Number:Plur"))
    """
    words = model.read(prefix) if isinstance(prefix, str) else prefix
    ids = model.vocabulary.ids((EOS, *words), place="prefix")
    if feature not in model.feature_names:
        raise ConfigError(
            f"the name of one feature of the model is required, found {feature!r}; names look like "
            f"{', '.join(map(repr, model.feature_names[:3]))}"
        )
    k = model.feature_names.index(feature)
    with evaluating(model):
        weight, gradient, numbers = _gradient(model, torch.tensor(ids, device=model.device), k, condition)
    terms = []
    for t, (word, symbol) in enumerate(zip((START, *words), ids, strict=True)):
        fires = model.input_features.row(symbol)
        columns = [model.input_features.column_of[name] for name in fires]
        slopes = (model.embedding.weight.detach()[columns] @ gradient[t]).tolist()
        pushes = [
            Push(t - 1, word, name, value, value * slope)
            for (name, value), slope in zip(fires.items(), slopes, strict=True)
        ]
        if numbers is not None and model.input_weight is not None:
            said, shares = numbers[t].tolist(), (numbers[t] * (model.input_weight.detach() @ gradient[t])).tolist()
            told = zip(model.input_names, said, shares, strict=True)
            pushes += [Push(t - 1, word, name, value, share) for name, value, share in told if value != 0]
        terms += sorted(pushes, key=lambda push: (-abs(push.share), push.name))
    return Influence(words, feature, weight, tuple(terms))


def _gradient(model: LLRNN, ids: Tensor, k: int, condition: object) -> tuple[float, Tensor, Tensor | None]:
    """Return the weight of output feature k after T symbols `ids`, and its gradient in their input vectors, (T, D).

    `ids` (T,) begin with the end-of-sentence symbol, which stands for the start; D is the size of an input vector. k is
    an index into the model's `feature_names`. The third result has the values of contextual inputs at each position,
    (T, number of inputs), or is None where the model has none. `condition`: the input that the text is generated from,
    or None.
    """
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN has no gradient outside of training
        state, v = model.start([condition]), None
        psi = model.embedding(ids[None])
        if model.input_weight is not None:
            v, _ = model.input_numbers(Batch(ids[None], ids[None], torch.ones_like(ids[None]) > 0), state)
            psi = psi + v @ model.input_weight
        psi = psi.detach().requires_grad_()
        h, _ = model.controller.scan(psi, state.controller)
        last = h[:, -1]
        a = model.layer.weights().full_adaptor(last)[0, k]
        (gradient,) = torch.autograd.grad(a, psi)
    return float(a.detach()), gradient[0], None if v is None else v[0]
