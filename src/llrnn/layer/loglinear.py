"""The log-linear layer, which stands where other models have a softmax.

    log p(x | K) = log b(K, x) + a(h)ᵀ φ(K, x) − log Z(K)                    a = W h + c

    Z = Σ_x b(K, x) exp(a·φ(K, x)) = Σ_s B_s exp(a·φ_s) + what depends on the context            (`layer.ways`)

Sets and sizes: N positions; V words in G classes s of equal static features φ_s (m of them); k contextual features;
E exceptions in all, words that stand alone at a position; H, the size of h. `scores[n, s]` is a_n·φ_s. The sum over V
is exact; `layer.ways` says by which ways it can be computed, what each costs, and chooses one.

All numbers of a position are relative to its *origin*, what every word has in common (the values of contextual features
on the rest, the scale of the prior), and log Z is float64: so log p keeps its digits however large the scores are.

    LogLinear(h, background, values) -> Distribution     log_prob, log_z, entropy, expected_features, sample, top
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ZeroMassError
from llrnn.layer import drawing, numerics, ways
from llrnn.layer.chunked import composed, product
from llrnn.layer.linear import Given, folded, placed
from llrnn.layer.masses import Classes, Left
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix, WeightCache, can_be_cached, needs_gradient
from llrnn.layer.numerics import MINUS_INFINITY, Cells, finite, less
from llrnn.layer.priors import ContextValues, FullPrior, Knowledge, Prior, join
from llrnn.layer.readout import Background, Readout, Values

if TYPE_CHECKING:
    from llrnn.layer.steered import Steered


class LogLinear(Readout):
    """From h to a distribution over V, under any network.

    `features`: Φ, as a `FeatureMatrix` or a matrix (V, m), dense or sparse; `hidden`: the size H of h; `contextual`:
    the number k of contextual features; `background`: log b of every word, (V,), or a prior, uniform if not given:

        layer = LogLinear(features, hidden=256)
        layer.loss(h, targets).backward()                     # h (…, 256), targets (…): as cross_entropy
        layer.log_prob(h, words), layer.sample(h), layer.top(h, 5)
        p = layer(h)                                          # all of these, and p.log_z, p.entropy(), p.log_probs()

    Scores begin as large as those of `nn.Linear(hidden, V)`; or `zero`, so that p is the background at first.

    Φ W and Φ c are cached while no gradient is asked for, and made anew when a weight has changed. `way` forces one of
    `ways.Way` on all sums, for tests: by default the cheapest one is taken.
    """

    way: ways.Way | None = None

    def __init__(
        self,
        features: Any,
        hidden: int,
        contextual: int = 0,
        *,
        background: Background | None = None,
        zero: bool = False,
    ) -> None:
        features = features if isinstance(features, FeatureMatrix) else FeatureMatrix.of(features)
        super().__init__(features.n_symbols, background)
        self.phi, self.classes = SparseMatrix(features), Classes(features)
        self._size = 0.0 if zero else features.size
        self.weight = nn.Parameter(torch.zeros(features.n_features, hidden))  # W (m, H)
        self.bias = nn.Parameter(torch.zeros(features.n_features))  # c (m,)
        # where there are none, nobody waits for their gradient (`DistributedDataParallel` would)
        self.context_weight = nn.Parameter(torch.zeros(contextual, hidden), contextual > 0)  # (k, H)
        self.context_bias = nn.Parameter(torch.zeros(contextual), contextual > 0)  # (k,)
        self._float32 = WeightCache[LogLinear]()
        self._products = WeightCache[tuple[Tensor, Tensor]]()  # Φ W and Φ c, while no gradient is needed
        self._few = WeightCache[tuple[Tensor, Tensor] | None]()  # (Φ W)ᵀ and Φ c + log B, for few positions
        self.widened = WeightCache[tuple[tuple[int, ...], LogLinear]]()  # `layer.linear`
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw W and c within 1/√H, over the size of a φ(x); contextual features begin with weight 0."""
        bound = 1.0 / (self._size * math.sqrt(max(self.weight.shape[1], 1))) if self._size else 0.0
        for parameter in (self.weight, self.bias) if bound else ():
            nn.init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        return f"{self.n_symbols} words in {self.phi.n_classes} classes, features by hidden: {tuple(self.weight.shape)}"

    def distribution(self, h: Tensor, prior: Prior, values: Values = ()) -> Distribution:
        """The distributions at the N positions of h (N, H)."""
        return Distribution(self.in_float32(), *placed(h, prior, values))

    @numerics.in_full
    def adaptor(self, h: Tensor) -> Tensor:
        """a = W h + c over the static features, (N, H) -> (N, m)."""
        return torch.addmm(self.bias, h, self.weight.t())

    @numerics.in_full
    def context_adaptor(self, h: Tensor) -> Tensor:
        """a over the contextual features, (N, H) -> (N, k)."""
        return torch.addmm(self.context_bias, h, self.context_weight.t())

    @numerics.in_full
    def scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """a·φ_s + offset_s for every class, (N, H) -> (N, G), by whichever of two equal ways is cheaper."""
        if isinstance(offset, Tensor) and h.shape[0] <= ways.FEW_POSITIONS and not torch.is_grad_enabled():
            cached = self._few.get(partial(self._for_few, h, offset), self.weight, self.bias, offset)
            if cached is not None:
                return self.phi.spread(torch.addmm(cached[1], h, cached[0]), offset)
        if ways.work(self, h).name == "direct":
            return self.direct_scores(h) + offset
        return self.composed_scores(h, offset)

    def composed_scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """S (h (Φ̃ W)ᵀ + Φ̃ c): composes the weights once, then it is the softmax of a G-word vocabulary, if S is 1."""
        weight, bias = self.composed(offset)
        return self.phi.spread(torch.addmm(bias, h, weight.t()), offset)

    def direct_scores(self, h: Tensor) -> Tensor:
        """Φ (W h + c), on a CPU as many positions at a time as fit the cache: for few positions, or few features."""
        rows = ways.unit_costs(h.device.type).direct_rows
        return torch.cat([product(self.phi, self.adaptor(x).t().contiguous()).t() for x in torch.split(h, rows)])

    def composed(self, offset: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
        """Φ W (G, H) and Φ c + offset (G,); where there are bands, Φ̃ W (P, H) and Φ̃ c, without offset."""
        make = partial(composed, self.phi.core, self.weight, self.bias)
        weight, bias = self._products.get(make, self.weight, self.bias) if self.caches else make()
        return weight, bias if self.phi.spreads or (isinstance(offset, float) and not offset) else bias + offset

    def _for_few(self, h: Tensor, offset: Tensor) -> tuple[Tensor, Tensor] | None:
        """What one question to the cache answers at every step of a generation; None where composing does not pay."""
        if not self.caches or ways.work(self, h).name == "direct":
            return None
        weight, bias = self.composed(offset)
        return weight.t(), bias

    @property
    def caches(self) -> bool:
        """Whether Φ W and Φ c are kept from one call to the next: while nobody asks for their gradient."""
        return can_be_cached(self.phi.core.n_classes * self.weight.shape[1], self.weight, self.bias)

    def clear_cache(self) -> None:
        """Forget Φ W and Φ c. Needed only after a write that torch does not count, as through `weight.data`."""
        for cache in (self._products, self._few, self._float32, self.widened):
            cache.clear()

    def in_float32(self) -> LogLinear:
        """This layer, with float32 weights where its own are in half precision: sums over words need the digits."""
        if torch.is_grad_enabled() and needs_gradient(*self.parameters()):
            self.clear_cache()  # training needs the memory, and some optimizers write without being counted
        if self.weight.dtype.itemsize >= torch.float32.itemsize:
            return self
        make = partial(numerics.wide, self)
        return self._float32.get(make, *self.parameters()) if self.caches else make()


class Distribution:
    """p(· | K) at N positions, normalised exactly; nothing of size N × V is made unless it is small, or asked for."""

    def __init__(
        self,
        layer: LogLinear,
        h: Tensor,
        prior: Prior,
        values: Values,
        scale: float = 1.0,
        steered: Steered | None = None,
    ) -> None:
        self.given, self.prior, self.n = Given(layer, h, values, steered), prior, len(h)
        self.classes, self.scale = layer.classes, scale
        self.layer, self.h, self.values, self.steered = folded(self.given)

    def log_prob(self, word: Tensor, position: Tensor | None = None, *, way: ways.Way | None = None) -> Tensor:
        """log p of one word a position, (N,) -> (N,), or of words at given positions in rising order, (E,) -> (E,)."""
        log_total, term = ways.log_total_and_terms(self, position, word, way)
        return (term - (log_total if position is None else log_total[position])).to(self.h.dtype)

    @property
    def changes_weights(self) -> bool:
        """Whether a is not that of the layer: steered, or at another temperature than 1."""
        return self.scale != 1.0 or self.steered is not None

    @cached_property
    def log_z(self) -> Tensor:
        """float64 (N,)"""
        return self.log_total + self.origin

    @cached_property
    def log_total(self) -> Tensor:
        """log Z less the origin, float64 (N,)."""
        return ways.log_total_and_terms(self, *torch.zeros(2, 0, dtype=torch.long, device=self.h.device))[0]

    @cached_property
    def origin(self) -> Tensor:
        """What all words have in common, float64 (N,): the scale of b, and a·φ of contextual features on the rest."""
        scale = self.centred[1].expand(self.n)
        if not self.values:
            return scale
        rest = torch.cat([part.rest for part in self.values], 1)
        return scale + (self.context_adaptor.double() * rest.double()).sum(-1)

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
        if self.steered is not None:  # composed weights would be of no use to other rows
            return (self.layer.phi @ self.adaptor.t()).t()
        return self.layer.scores(self.h) * self.scale if self.scale != 1.0 else self.layer.scores(self.h)

    @cached_property
    def adaptor(self) -> Tensor:
        """a over the static features, (N, m)."""
        a = self.layer.adaptor(self.h)
        return (a if self.steered is None else self.steered.changed(a, 0)) * self.scale

    @cached_property
    def context_adaptor(self) -> Tensor:
        """a over the contextual features, (N, k)."""
        a = self.layer.context_adaptor(self.h)
        return (a if self.steered is None else self.steered.changed(a, len(self.layer.weight))) * self.scale

    @cached_property
    def left(self) -> Left:
        """The (position, class) cells that exceptions leave."""
        return self.classes.left_by(self.known.position, self.known.word)

    @cached_property
    def log_mass(self) -> tuple[Tensor, Cells | None]:
        """log B_s^rest: for whole classes, (N, G) or (1, G), and for the cells that exceptions leave."""
        known, prior, dtype = self.known, self.known.prior, self.h.dtype
        if isinstance(prior, FullPrior):
            return self.classes.log_mass_dense(prior.dense(self.n), known.position, known.word).to(dtype), None
        whole = self.classes.log_mass(prior, dtype)
        if len(known.position) == 0:
            return whole, None
        return whole, Cells(*self.left[:2], self.classes.log_rest(prior, known.word, self.left).to(dtype))

    def log_b(self, word: Tensor) -> Tensor:
        """log b(K_n, word_n), (N,) -> (N,) float64."""
        return self.prior.at(torch.arange(self.n, device=word.device), word)

    def own_terms(self, static: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Of the exceptions: a·φ with contextual features, less the origin, and log b; each (E,)."""
        known = self.known
        static = self.scores[known.position, self.classes.class_of[known.word]] if static is None else static
        own = static + self.gains(known.value, known.position) if self.values else static
        return own, known.log_b.to(self.h.dtype)

    def gains(self, values: Tensor, position: Tensor) -> Tensor:
        """What contextual features add to words beyond the rest, (E, k) -> (E,): 0 where the values are the same."""
        return (self.context_adaptor[position] * (values - self.known.rest[position])).sum(-1)

    def context_values(self, word: Tensor, position: Tensor | None = None) -> Tensor:
        """Values of the contextual features on one word a position, or on words at given positions, (E,) -> (E, k)."""
        known, at = self.known, torch.arange(self.n, device=word.device) if position is None else position
        values = ContextValues(known.rest, known.position, known.word, known.value)
        return values.at(at, word, known.prior.n_symbols)

    def require_mass(self) -> Distribution:
        """Return self; raise where every word has zero mass, or log Z is no number."""
        numerics.require_numbers(self.log_total)
        nowhere = torch.nonzero(self.log_total == MINUS_INFINITY)
        if len(nowhere):
            where = f"the background gives no symbol any mass at position {int(nowhere[0])}: nothing can follow"
            raise ZeroMassError(f"{where}; allow at least one symbol there")
        return self

    @cached_property
    def word_terms(self) -> tuple[Tensor, Tensor]:
        """log b + a·φ of every word, (N, V), less the origin and a shift, float64 (N,): for few words, for checks."""
        return ways.word_terms(self)

    def log_probs(self) -> Tensor:
        """log p of every word, (N, V)."""
        terms, shift = self.word_terms
        return less(terms, 0.0, (self.require_mass().log_total - shift)[:, None])

    @cached_property
    def log_parts(self) -> tuple[Tensor, Tensor]:
        """log p of the rest of each class, (N, G), and of each exception, (E,)."""
        (whole, cells), scores, log_total = self.log_mass, self.scores, self.require_mass().log_total
        rest = less(scores, whole, log_total[:, None])
        if cells is not None:
            where = (cells.position, cells.klass)
            rest = rest.index_put(where, less(scores[where], cells.log_mass, log_total[cells.position]))
        return rest, less(*self.own_terms(), log_total[self.known.position])

    def class_probabilities(self) -> Tensor:
        """The probability of each class with its exceptions, (N, G)."""
        (rest, own), known = self.log_parts, self.known
        return rest.exp().index_put((known.position, self.classes.class_of[known.word]), own.exp(), accumulate=True)

    def expected_features(self) -> Tensor:
        """E_p φ(K, x), static features first, then contextual ones, (N, m + k): what the gradient compares with.

        E φ = Σ_s P(s) φ_s + Σ_{x∈E} p(x) φ(K, x), where P(s) is that of the rest of the class.
        """
        (rest, own), known = self.log_parts, self.known
        static = self.layer.phi.transposed(self.class_probabilities().t().contiguous()).t()
        context = rest.exp().sum(-1, keepdim=True) * known.rest
        context = context.index_add(0, known.position, own.exp()[:, None] * known.value)
        return torch.cat([static, self.given.joined(context.to(static.dtype), static)], 1)

    def entropy(self) -> Tensor:
        """−Σ p log p, in nats, (N,): Σ_s P(s) [H(s) − log P(s)] − Σ_{x∈E} p(x) log p(x), H(s) that within a class.

        No part is below 0, and none is a difference of large numbers: log Z − E[a·φ] − E[log b] would be.
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
        return found.index_add(0, position, _surprise(own))

    def row(self, n: int) -> Distribution:
        """The distribution at one position alone."""
        layer, h, values, steered = self.given.row(n)
        return Distribution(layer, h, self.prior.row(n), values, self.scale, steered)

    def tempered(self, temperature: float) -> Distribution:
        """p(x)^(1/temperature), normalised: a and log b both divided by the temperature."""
        (layer, h, values, steered), prior = self.given, self.prior.powered(1.0 / temperature)
        return Distribution(layer, h, prior, values, self.scale / temperature, steered)

    def sample(self, *, generator: torch.Generator | None = None, count: int = 1) -> Tensor:
        """Words drawn from p at each position, exactly, (count, N)."""
        return drawing.sample(self, count, generator)

    @cached_property
    def class_ends(self) -> Floats:
        """The cumulated weights of the classes where nothing depends on the context, (N, G): for several draws."""
        mass = self.classes.mass(self.prior.tables[0])
        return drawing.class_weights(self, mass).double().cumsum(-1).numpy()

    def top(self, k: int, *, way: ways.Way | None = None) -> tuple[Tensor, Tensor]:
        """The k most probable words at each position, exactly: log p and words, each (N, k)."""
        return drawing.top(self, k, way)


def _surprise(log_p: Tensor) -> Tensor:
    """−p log p, 0 for what is impossible; rounding makes no probability larger than 1."""
    return -(log_p.exp() * finite(log_p).clamp(max=0.0))
