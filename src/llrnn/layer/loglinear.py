"""The log-linear layer, which stands where other models have a softmax.

    log p(x | K) = log b(K, x) + a(h)ᵀ φ(K, x) − log Z(K)                    a = W h + c

    Z = Σ_s B_s exp(a·φ_s) + Σ_{x∈E} [b(K, x) exp(a·φ(K, x)) − what x counts for in its class]          in general
    Z = Σ_s B_s^rest exp(a·φ_s) + Σ_{x∈E} b(K, x) exp(a·φ(K, x))      where too little would be left to subtract from

Sets and sizes: N positions; V words in G classes s of equal static features φ_s (m of them); k contextual features;
E exceptions in all, words that stand alone at a position; H, the size of h. `scores[n, s]` is a_n·φ_s. The sum over V
is exact, by whichever way `layer.costs` finds the cheapest; word by word where N × V is little beside the exceptions.

All numbers of a position are relative to its *origin*, what every word has in common (the values of contextual features
on the rest, the scale of the prior), and log Z is float64: so log p keeps its digits however large the scores are.

    LogLinear(h, prior, values) -> Distribution          log_prob, log_z, entropy, expected_features, sample, top
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from llrnn.layer import costs, drawing, expectations, numerics, plain
from llrnn.layer.fused import Pairs, chosen, products
from llrnn.layer.join import Knowledge, join, placed
from llrnn.layer.masses import Classes, Left
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.numerics import Cells, SparseMatrix
from llrnn.layer.priors import ContextValues, DensePrior, Prior, SparsePrior

Values = Sequence[ContextValues]


class LogLinear(nn.Module):
    """From h to a distribution over V, given what the background and the contextual features say."""

    def __init__(self, features: FeatureMatrix, hidden: int, contextual: int = 0) -> None:
        super().__init__()
        self.phi = SparseMatrix(features)  # (G, m)
        self.classes = Classes(features)
        self.weight = nn.Parameter(torch.zeros(features.n_features, hidden))  # W (m, H)
        self.bias = nn.Parameter(torch.zeros(features.n_features))  # c (m,)
        self.context_weight = nn.Parameter(torch.zeros(contextual, hidden))  # (k, H)
        self.context_bias = nn.Parameter(torch.zeros(contextual))  # (k,)
        self._float32 = numerics.WeightCache[LogLinear]()
        self._products = numerics.WeightCache[tuple[Tensor, Tensor]]()  # Φ W and Φ c, while no gradient is needed
        self._bias = numerics.WeightCache[Tensor]()  # Φ c + log B of the last background

    def adaptor(self, h: Tensor) -> Tensor:
        """a = W h + c over the static features, (N, H) -> (N, m)."""
        return torch.addmm(self.bias, h, self.weight.t())

    def context_adaptor(self, h: Tensor) -> Tensor:
        """a over the contextual features, (N, H) -> (N, k)."""
        return torch.addmm(self.context_bias, h, self.context_weight.t())

    def scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """a·φ_s + offset_s for every class, (N, H) -> (N, G), by whichever of two equal ways is cheaper."""
        return self.composed_scores(h, offset) if chosen.composes(self, h) else self.direct_scores(h) + offset

    def composed_scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """h (Φ W)ᵀ + Φ c: composes the weights once, then it is the softmax of a G-word vocabulary."""
        weight, bias = self.composed(offset)
        return torch.addmm(bias, h, weight.t())

    def composed(self, offset: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
        """Φ W (G, H) and Φ c + offset (G,)."""
        if not self.caches:
            weight, bias = products.composed(self.phi, self.weight, self.bias)
            return weight, bias + offset
        make = partial(products.composed, self.phi, self.weight, self.bias)
        weight, bias = self._products.get(make, self.weight, self.bias)
        if not isinstance(offset, Tensor):
            return weight, bias + offset if offset else bias
        return weight, self._bias.get(partial(torch.add, bias, offset), bias, offset)

    @property
    def caches(self) -> bool:
        """Whether Φ W and Φ c are kept from one call to the next: while nobody asks for their gradient."""
        return numerics.can_be_cached(self.phi.n_classes * self.weight.shape[1], self.weight, self.bias)

    def clear_cache(self) -> None:
        """Forget Φ W and Φ c. Needed only after a write that torch does not count, as through `weight.data`."""
        self._products.clear()
        self._float32.clear()
        self._bias.clear()

    def direct_scores(self, h: Tensor) -> Tensor:
        """Φ (W h + c), on a CPU as many positions at a time as fit the cache: for few positions, or few features."""
        rows = costs.machine_for(h.device.type).direct_rows
        return torch.cat(
            [products.product(self.phi, self.adaptor(x).t().contiguous()).t() for x in torch.split(h, rows)]
        )

    def row(self, n: int) -> LogLinear:
        """The layer at one position: the same everywhere."""
        return self

    def forward(self, h: Tensor, prior: Prior, values: Values = ()) -> Distribution:
        """The distributions at the N positions of h (N, H)."""
        return Distribution(self.in_float32(), *placed(h, prior, values))

    def in_float32(self) -> LogLinear:
        """This layer, with float32 weights where its own are in half precision: sums over words need the digits."""
        if numerics.needs_gradient(*self.parameters()):
            self.clear_cache()  # training needs the memory, and some optimizers write without being counted
        if self.weight.dtype.itemsize >= torch.float32.itemsize:
            return self
        if not self.caches:
            return numerics.wide(self)
        return self._float32.get(partial(numerics.wide, self), *self.parameters())


class Distribution:
    """p(· | K) at N positions, normalised exactly; nothing of size N × V is made unless it is small, or asked for."""

    def __init__(self, layer: drawing.Weighing, h: Tensor, prior: Prior, values: Values, scale: float = 1.0) -> None:
        self.layer, self.h, self.prior, self.values, self.scale, self.n = layer, h, prior, values, scale, len(h)
        self.classes, self.adding = layer.classes, True  # the sum for Z: words in their classes plus gains, or gone

    @cached_property
    def centred(self) -> tuple[Prior, Tensor]:
        """The prior without its scale, and the scale in log, float64 (N,) or (1,)."""
        return self.prior.centred(self.h.dtype)

    @cached_property
    def known(self) -> Knowledge:
        """What all sources say, over one common set of exceptions; log b without its scale."""
        return join(self.centred[0], self.values, self.n)

    @cached_property
    def scores(self) -> Tensor:
        """a·φ_s, (N, G)."""
        scores = self.layer.scores(self.h)
        return scores if self.scale == 1.0 else scores * self.scale

    @cached_property
    def adaptor(self) -> Tensor:
        """a over the static features, (N, m)."""
        return self.layer.adaptor(self.h) * self.scale

    @cached_property
    def context_adaptor(self) -> Tensor:
        """a over the contextual features, (N, k)."""
        return self.layer.context_adaptor(self.h) * self.scale

    @cached_property
    def origin(self) -> Tensor:
        """What all words have in common, float64 (N,): the scale of b, and a·φ of contextual features on the rest."""
        scale = self.centred[1].expand(self.n)
        if not self.values:
            return scale
        rest = torch.cat([part.rest for part in self.values], 1)
        return scale + (self.context_adaptor.double() * rest.double()).sum(-1)

    @cached_property
    def left(self) -> Left:
        """The (position, class) cells that exceptions leave."""
        return self.classes.left_by(self.known.position, self.known.word)

    @cached_property
    def log_mass(self) -> tuple[Tensor, Cells | None]:
        """log B_s^rest: for whole classes, (N, G) or (1, G), and for the cells that exceptions leave."""
        known, prior, dtype = self.known, self.known.prior, self.h.dtype
        if isinstance(prior, DensePrior):
            return self.classes.log_mass_dense(prior.dense(self.n), known.position, known.word).to(dtype), None
        whole = self.classes.log_mass(prior).to(dtype)
        if len(known.position) == 0:
            return whole, None
        return whole, Cells(*self.left[:2], self.classes.log_rest(prior, known.word, self.left).to(dtype))

    def log_prob(self, word: Tensor, position: Tensor | None = None) -> Tensor:
        """log p of one word a position, (N,) -> (N,), or of words at given positions in rising order, (E,) -> (E,)."""
        if (quick := self._static_log_prob(word, position)) is not None:
            return quick
        at = torch.arange(self.n, device=word.device) if position is None else position
        if drawing.are_few(self):
            log_total, term = numerics.class_logsumexp(self.word_terms[0], None, None, at, word)
            return (term.double() - log_total[at]).to(self.h.dtype)
        log_total, score = self._log_total_and_scores(at, word)
        return (score.double() + self.centred[0].at(at, word) - log_total[at]).to(self.h.dtype)

    def _static_log_prob(self, word: Tensor, position: Tensor | None) -> Tensor | None:
        """Nothing depends on the context: log B_s rides on the bias, so that a pass over N × G is saved.

        None where something does, and where scores are so large that a bias would have no digits left for log B_s.
        """
        if (mass := plain.table_of(self)) is None or self.scale != 1.0 or not isinstance(self.layer, LogLinear):
            return None
        at = torch.arange(self.n, device=word.device) if position is None else position
        klass = self.classes.class_of[word]
        log_sum, term = chosen.log_sums(self.layer, self.h, mass.log_mass_in(self.h.dtype), Pairs(at, klass))
        if numerics.are_loud(log_sum):
            return None
        return (term.double() + mass.log_share_of(word, klass) - log_sum[at]).to(self.h.dtype)

    @cached_property
    def log_z(self) -> Tensor:
        """float64 (N,)"""
        return self.log_total + self.origin

    @cached_property
    def log_total(self) -> Tensor:
        """log Z less the origin, float64 (N,)."""
        if not torch.is_grad_enabled():  # shorter ways than by joining all that is known
            if drawing.are_few(self):
                return numerics.log_sums(*self.word_terms)[0]
            if (alone := plain.table_of(self)) is not None:
                return plain.log_total(self, alone)
        return self._log_total_and_scores(*torch.zeros(2, 0, dtype=torch.long, device=self.h.device))[0]

    def log_b(self, word: Tensor) -> Tensor:
        """log b(K_n, word_n), (N,) -> (N,) float64."""
        return self.prior.at(torch.arange(self.n, device=word.device), word)

    def _log_total_and_scores(self, position: Tensor, word: Tensor) -> tuple[Tensor, Tensor]:
        """log Z (N,), and aᵀφ(K, x) of the asked (position, word) pairs; both less the origin."""
        known = self.known
        rows, words = torch.cat([position, known.position]), torch.cat([word, known.word])
        log_rest, score = self._log_rest_and_scores(rows, self.classes.class_of[words])
        asked, static = score[: len(position)], score[len(position) :]
        own, log_b = self.own_terms(static)
        if self.values:
            asked = asked + self._gains(self.context_values(word, position), position)
        if len(own) == 0:
            return log_rest, asked
        if self.adding:
            before = known.log_b_before.to(self.h.dtype)
            change = numerics.Change((own, log_b), (static, before), known.position)
            if (log_total := numerics.add_differences(log_rest, change)) is not None:
                return log_total, asked
            self.adding = False  # let the words leave
            return self._log_total_and_scores(position, word)
        log_own = numerics.segment_logsumexp(own, known.position, self.n, log_b)
        return torch.logaddexp(log_rest, log_own), asked

    def own_terms(self, static: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Of the exceptions: a·φ with contextual features, less the origin, and log b; each (E,)."""
        known = self.known
        if static is None:
            static = self.scores[known.position, self.classes.class_of[known.word]]
        own = static + self._gains(known.value, known.position) if self.values else static
        return own, known.log_b.to(self.h.dtype)

    def _gains(self, values: Tensor, position: Tensor) -> Tensor:
        """What contextual features add to words beyond the rest, (E, k) -> (E,): 0 where the values are the same."""
        return (self.context_adaptor[position] * (values - self.known.rest[position])).sum(-1)

    def _log_rest_and_scores(self, rows: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        """log Σ over the classes, exceptions in their classes or gone, (N,); and the asked static scores."""
        prior = self.known.prior
        if not self.adding:
            return numerics.class_logsumexp(self.scores, *self.log_mass, rows, classes)
        if isinstance(prior, SparsePrior):
            log_mass = self.classes.log_mass(prior).to(self.h.dtype)
            return numerics.class_logsumexp(self.scores, log_mass, None, rows, classes)
        log_b = prior.dense(self.n).log_b.to(self.h.dtype)
        return numerics.word_logsumexp(self.scores, self.classes.class_of, log_b, rows, classes)

    def context_values(self, word: Tensor, position: Tensor | None = None) -> Tensor:
        """Values of the contextual features on one word a position, or on words at given positions, (E,) -> (E, k)."""
        known, at = self.known, torch.arange(self.n, device=word.device) if position is None else position
        values = ContextValues(known.rest, known.position, known.word, known.value)
        return values.at(at, word, known.prior.n_symbols)

    @cached_property
    def parts(self) -> tuple[Tensor, Tensor]:
        """The probability of the rest of each class, (N, G), and of each exception, (E,)."""
        rest, own = self.log_parts
        return rest.exp(), own.exp()

    @cached_property
    def log_parts(self) -> tuple[Tensor, Tensor]:
        """Their logarithms."""
        return expectations.log_parts(self)

    def possible(self) -> Distribution:
        """This distribution, once it is sure that some word is possible at every position."""
        expectations.require_possible(self.log_total)
        return self

    @cached_property
    def word_terms(self) -> tuple[Tensor, Tensor]:
        """log b + a·φ of every word, (N, V), less the origin and a shift, float64 (N,): for few words, for checks."""
        return drawing.written_out(self)

    def log_probs(self) -> Tensor:
        """log p of every word, (N, V)."""
        terms, shift = self.word_terms
        return numerics.less(terms, 0.0, (self.possible().log_total - shift)[:, None])

    def class_probabilities(self) -> Tensor:
        """The probability of each class with its exceptions, (N, G)."""
        rest, own = self.parts
        return rest.index_put((self.known.position, self.classes.class_of[self.known.word]), own, accumulate=True)

    def expected_features(self) -> Tensor:
        """E_p φ(K, x), static features first, then contextual ones, (N, m + k): what the gradient compares with."""
        return expectations.expected_features(self)

    def entropy(self) -> Tensor:
        """−Σ p log p, in nats, (N,)."""
        return expectations.entropy(self)

    def row(self, n: int) -> Distribution:
        """The distribution at one position alone."""
        values = [part.row(n) for part in self.values]
        return Distribution(self.layer.row(n), self.h[n : n + 1], self.prior.row(n), values, self.scale)

    def tempered(self, temperature: float) -> Distribution:
        """p(x)^(1/temperature), normalised: a and log b both divided by the temperature."""
        prior = self.prior.powered(1.0 / temperature)
        return Distribution(self.layer, self.h, prior, self.values, self.scale / temperature)

    def sample(self, *, generator: torch.Generator | None = None, count: int = 1) -> Tensor:
        """Words drawn from p at each position, exactly, (count, N)."""
        return drawing.sample(self, count, generator)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable words at each position, exactly: log p and words, each (N, k)."""
        return drawing.top(self, k)
