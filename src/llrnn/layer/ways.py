"""The ways to log Z: what each costs, which one is taken, and log Z and the terms of asked words by it.

N positions, V words in G classes, m features, E entries of Φ (G × m), H the size of h. All ways give the same numbers:

    words       Σ_x b(K, x) exp(a·φ(K, x))                   N·V terms: where those are few beside the exceptions
    static      Σ_s exp(a·φ_s + log B_s)                     where nothing depends on the context: log B is in the bias
    adding      Σ_s B_s exp(a·φ_s) + Σ_{x∈E} [b(K, x) exp(a·φ(K, x)) − what x counts for in its class]
    leaving     Σ_s B_s^rest exp(a·φ_s) + Σ_{x∈E} b(K, x) exp(a·φ(K, x))

A way may decline, and the next one in this order is taken: `static` where something depends on the context, or where
scores are so large that a bias has no digits left for log B_s; `adding` where too little is left to subtract from.

The scores a·φ_s have two ways of their own; training makes every product three times (forward, and backward to either
factor) and every sum with Φ twice:

    composed    h (Φ W)ᵀ + Φ c     N·G·H multiplications       E·H additions, once for all positions, or none if cached
                where Φ = S Φ̃      N·(P·H + Σ n_b r_b)         bands of words with features of their own (`matrix`)
    direct      Φ (W h + c)        N·m·H multiplications       N·E additions, in blocks of 128 positions

What is kept for backward, N·G numbers, is a question of its own. Where the gradient of log Z is known before (the mean
loss of a batch), it is made block by block with log Z itself and nothing is kept: on a CPU that is as fast, within
a tenth, for fresh memory is slow. Where it is not known (`Distribution.log_prob`), exponentials are kept, or made again
in backward, at a third more work, where they would take more than `MOST_KEPT` bytes.

The constants are those of one core of the machine that this was written on (Xeon, AMX and AVX-512, 2 MiB of L2):

    python scripts/measure_costs.py          measures them, and each way against what the model predicts of it
    python scripts/measure_costs.py cuda FOLDER FILE     both ways on a GPU, at the sizes of our configurations

A Neoverse N1 takes two to four times as long for multiplications, additions, entries and terms: in the four cases of
the script the way chosen there is the faster one, or within a twentieth of it. Threads divide all but the time of a
block, at the end of whose calls they wait for each other. Those of a GPU are fitted to docs/results/costs-gpu.json (an
H200): calls are what costs there, so that it composes except for many positions with many times more classes than
features. A test holds the choice to that file: at most 1.2 times the better way.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError, quoted
from llrnn.layer import blocks, numerics
from llrnn.layer.blocks import ComposedBlocks, DirectBlocks, MakeBlocks, Pairs, SpreadBlocks
from llrnn.layer.chunked import Problem, plan_for, weighted_loss
from llrnn.layer.masses import ClassMass
from llrnn.layer.matrix import can_be_cached, needs_gradient
from llrnn.layer.priors import ContextValues, FullPrior, SparsePrior
from llrnn.layer.twin import Gains

if TYPE_CHECKING:
    from llrnn.layer.loglinear import Distribution, LogLinear

Way = Literal["words", "static", "adding", "leaving"]
ScoreWay = Literal["composed", "direct"]
Precision = Literal["full", "half"]
WantedPrecision = Literal["auto", "full", "half"]
Found = tuple[Tensor, Tensor]  # log Z (N,) and the terms of the asked words (E,), float64, both less the origin

MOST_KEPT = 1 << 30  # bytes of exponentials, in training
FEW_POSITIONS = 16  # fewer are not worth blocks: their bookkeeping takes longer
FEW_TERMS = 200_000  # N × V: so few are summed faster word by word than class by class
AN_EXCEPTION, MANY_TERMS = 100, 4_000_000  # an exception costs as much as so many terms; no more than these pay
MANY_WORDS = 4  # times as many terms as exceptions: else lists of these take more memory than terms
NO_CLASSES = 1.25  # V / G below this: the features hardly share anything between words


# --- log Z ----------------------------------------------------------------------------------------------------------


@numerics.eager
def log_total_and_terms(p: Distribution, position: Tensor | None, word: Tensor, way: Way | None = None) -> Found:
    """log Z (N,), and log b + a·φ of the asked (position, word) pairs (E,): positions rise, or each has one word."""
    way, mass = way or p.layer.way, static_mass(p)
    if way is None:
        way = "words" if mass is None and prefers_dense_sum(p) else "static"
    found = _static(p, mass, position, word) if way == "static" and mass is not None else None
    if found is not None:
        return found
    position = torch.arange(p.n, device=word.device) if position is None else position
    if way == "words":
        return _by_words(p, position, word)
    if way != "leaving":
        found = _by_classes(p, position, word)
    return _leaving(p, position, word) if found is None else found


def static_mass(p: Distribution) -> ClassMass | None:
    """ClassMass of the only table, or None where anything depends on the context."""
    table = None if p.values else p.prior.only_table
    return None if table is None else p.classes.mass(table)


def prefers_dense_sum(p: Distribution) -> bool:
    """Whether N × V are few terms compared with what exceptions cost: a small vocabulary, or a beam."""
    listed = len(p.prior.exceptions) if isinstance(p.prior, SparsePrior) else 0
    exceptions = listed + sum(len(part.position) for part in p.values)
    return p.n * p.prior.n_symbols <= min(FEW_TERMS + AN_EXCEPTION * exceptions, MANY_TERMS)


def _by_words(p: Distribution, position: Tensor, word: Tensor) -> Found:
    terms, shift = p.word_terms
    log_sum, asked = numerics.class_logsumexp(terms, None, None, position, word)
    return log_sum + shift, asked.double() + shift[position]


def word_terms(p: Distribution) -> tuple[Tensor, Tensor]:
    """log b + a·φ of every word less the origin and a shift, (N, V), and that shift, float64 (N,)."""
    whole, prior = p.scores.index_select(1, p.classes.class_of), p.centred[0]
    weights = torch.split(p.context_adaptor, [part.width for part in p.values], 1) if p.values else ()
    for part, a in zip(p.values, weights, strict=True):
        whole = _with_gains(part, a, whole)  # also of no exceptions: a weight that changes nothing has gradient 0
    terms, shift = numerics.shifted_sums(whole, prior.dense(1 if prior.is_static else p.n, whole.dtype).log_b)
    return terms, terms.new_zeros(p.n, dtype=torch.float64) if shift is None else shift.double()


@numerics.in_full
def _with_gains(part: ContextValues, a: Tensor, whole: Tensor) -> Tensor:
    """The rows with what the exceptions of a source gain."""
    if part.everywhere is not None:  # the same columns in every row
        gained = part.value.view(len(a), -1, part.width) - part.rest.unsqueeze(1)
        return whole.index_add(1, part.everywhere, torch.bmm(gained, a.unsqueeze(2)).squeeze(2))
    gained = (a[part.position] * (part.value - part.rest[part.position])).sum(-1)
    at = part.position * whole.shape[1] + part.word
    return whole.view(-1).index_add(0, at, gained).view_as(whole)


def _static(p: Distribution, mass: ClassMass, position: Tensor | None, word: Tensor) -> Found | None:
    """None also where no word is asked for: then the scores by themselves serve other questions as well."""
    if word.numel() == 0 or p.changes_weights:
        return None
    klass = p.classes.class_of.index_select(0, word)
    log_sum, asked = _class_log_sums(p.layer, p.h, mass.as_dtype(p.h.dtype), position, klass)
    if numerics.are_loud(log_sum):
        return None
    term = asked + mass.log_share_of(word)  # float64, as the shares are
    if p.prior is p.prior.tables[0].everywhere():
        return log_sum, term
    shift = p.prior.shift[0, 0]  # type: ignore[union-attr]  # that of a static prior
    return log_sum + shift, term + shift


def _by_classes(p: Distribution, position: Tensor, word: Tensor) -> Found | None:
    """`adding`: exceptions stay in their classes, and the difference that they make is added."""
    known, prior, dtype = p.known, p.known.prior, p.h.dtype
    rows, columns = _pairs(p, position, word)
    if isinstance(prior, SparsePrior):
        log_mass = p.classes.log_mass(prior, dtype)
        log_sum, score = numerics.class_logsumexp(p.scores, log_mass, None, rows, columns)
    else:
        log_sum, score = _dense_log_sums(p, prior, rows, columns)
    terms, static = _terms(p, position, word, score)
    if len(static) == 0:
        return log_sum, terms
    before = static, known.log_b_before.to(dtype)
    log_total = numerics.add_differences(log_sum, p.own_terms(static), before, known.position)
    return None if log_total is None else (log_total, terms)


def _dense_log_sums(p: Distribution, prior: FullPrior, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Over N × V values; where they sum to one, and most words have the same features, over the other words alone;
    and over none where the layer adds nothing, as in a mixture of models."""
    if prior.sums_to_one and _is_silent(p):
        return p.h.new_zeros(p.n, dtype=torch.float64), p.h.new_zeros(len(rows))
    bulk, few = p.classes.bulk if prior.sums_to_one else (0, None)
    prior = prior.dense(p.n)
    if few is not None:
        log_b = prior.log_b.index_select(1, few).to(p.h.dtype)
        log_sum = numerics.few_words_logsumexp(p.scores, bulk, p.classes.class_of[few], log_b)
        if log_sum is not None:
            return log_sum, p.scores[rows, columns]
    return numerics.word_logsumexp(p.scores, p.classes.class_of, prior.log_b.to(p.h.dtype), rows, columns)


def _is_silent(p: Distribution) -> bool:
    """Whether a = 0 everywhere: no network, no bias, nothing steered and nobody who trains them."""
    layer = p.layer
    is_fixed = layer.weight.shape[1] == 0 and not p.changes_weights and not needs_gradient(layer.bias)
    return is_fixed and not p.values and not bool(layer.bias.any())


def _leaving(p: Distribution, position: Tensor, word: Tensor) -> Found:
    """Exceptions leave their classes, and stand alone."""
    log_rest, score = numerics.class_logsumexp(p.scores, *p.log_mass, *_pairs(p, position, word))
    terms, static = _terms(p, position, word, score)
    own, log_b = p.own_terms(static)
    return torch.logaddexp(log_rest, numerics.segment_logsumexp(own, p.known.position, p.n, log_b)), terms


def _pairs(p: Distribution, position: Tensor, word: Tensor) -> Pairs:
    """The asked words, then the exceptions."""
    words = torch.cat([word, p.known.word])
    return Pairs(torch.cat([position, p.known.position]), p.classes.class_of[words])


def _terms(p: Distribution, position: Tensor, word: Tensor, score: Tensor) -> tuple[Tensor, Tensor]:
    """log b + a·φ of the asked words, and the static scores of the exceptions, from the scores of both."""
    asked, static = score[: len(position)], score[len(position) :]
    if p.values:
        asked = asked + p.gains(p.context_values(word, position), position)
    return asked.double() + p.known.prior.at(position, word), static


# --- sums over classes ----------------------------------------------------------------------------------------------


def _class_log_sums(
    layer: LogLinear, h: Tensor, offset: Tensor, position: Tensor | None, klass: Tensor
) -> tuple[Tensor, Tensor]:
    """log Σ_s exp(a·φ_s + offset_s) (N,), and a·φ_s + offset_s of the asked (E,), for any gradients of both."""
    if h.shape[0] <= FEW_POSITIONS or h.device.type != "cpu":
        return numerics.class_logsumexp(layer.scores(h, offset), None, None, position, klass)
    return _block_log_sums(layer, h, offset, Pairs(torch.arange(len(h)) if position is None else position, klass))


@numerics.in_full
def _block_log_sums(layer: LogLinear, h: Tensor, offset: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    taken = work(layer, h)
    keeps = needs_gradient(h, layer.weight, layer.bias) and may_keep(taken.terms * h.element_size())
    # what is kept anyway need not be cut up
    rows = len(h) if keeps and taken.name == "composed" else taken.block
    return blocks.log_sums(h, *_factors(layer, taken.name, offset, keeps=keeps), pairs, rows, keeps=keeps)


def _factors(
    layer: LogLinear, way: ScoreWay, offset: Tensor, *, keeps: bool = False
) -> tuple[Tensor, Tensor, MakeBlocks]:
    """The weights and biases that h is multiplied with, and the blocks that make scores of them."""
    if way == "direct":
        return layer.weight, layer.bias, partial(DirectBlocks, phi=layer.phi, offset=offset)
    if layer.phi.spreads:
        return *layer.composed(offset), partial(SpreadBlocks, phi=layer.phi, offset=offset, keeps=keeps)
    return *layer.composed(offset), partial(ComposedBlocks, keeps=keeps)


def exact_loss(
    p: Distribution,
    targets: Tensor,
    precision: Precision = "full",
    kept: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """−mean log p of one word a position, (N,), or of those that are kept; `half` as `taken_precision` has it.

    `weights` (N,), that sum to one, make it a weighted mean.
    """
    mass = static_mass(p)
    if mass is None and kept is None and adds_gains(p):
        return gained_loss(p, targets, precision, weights)
    if mass is None or p.changes_weights:
        log_p = p.log_prob(targets)
        return -_mean(log_p if kept is None else log_p[kept], weights)
    h, targets = (p.h, targets) if kept is None else (p.h[kept], targets[kept])
    loss = mean_loss(p.layer, h, mass.as_dtype(h.dtype), p.classes.class_of[targets], precision, weights)
    return loss - _mean(mass.log_share_of(targets), weights).to(loss.dtype)


def taken_precision(p: Distribution, wanted: WantedPrecision, *, auto: Precision = "half") -> Precision:
    """The precision of the loss: what is wanted, or for "auto" the given one where it can be had."""
    if wanted not in get_args(WantedPrecision):
        raise ConfigError(f"precision is one of {', '.join(get_args(WantedPrecision))}; found {quoted(wanted)}")
    taken = auto if wanted == "auto" else wanted
    why_not = why_no_half(p) if taken == "half" else None
    if why_not is not None and wanted == "half":
        raise ConfigError(
            "half precision is for a GPU, a static background and contextual features of few words, found "
            f"{why_not}; leave precision out (in a configuration training.objective.precision)"
        )
    return taken if why_not is None else "full"


def why_no_half(p: Distribution) -> str | None:
    """What stands against half precision, or None."""
    if not p.h.is_cuda:
        return "a model on the CPU"
    if static_mass(p) is None and not adds_gains(p):
        return "a background that follows the text, or features of many words at a time"
    return None


def adds_gains(p: Distribution) -> bool:
    """Whether the loss is to be `gained_loss`: on a GPU, or where lists are filled up; b is one table everywhere."""
    if not p.values or p.prior.only_table is None or p.changes_weights:
        return False
    listed = len(p.values[0].position) if _listed_alike(p) else sum(len(part.position) for part in p.values)
    few = 0 < MANY_WORDS * listed <= p.n * p.classes.count
    return few and (p.h.is_cuda or any(part.filled for part in p.values))


def _listed_alike(p: Distribution) -> bool:
    """Whether contextual values are of one list of words."""
    position, word = p.values[0].position, p.values[0].word
    return all(part.position is position and part.word is word for part in p.values)


def _gains(p: Distribution, mass: ClassMass, targets: Tensor) -> tuple[Gains, Tensor]:
    """Those of all exceptions, and those of the targets, (N,); nothing is asked where values are of one list."""
    a, here = p.context_adaptor.contiguous(), torch.arange(p.n, device=targets.device)
    if _listed_alike(p):
        rest, value = (torch.cat(parts, 1) for parts in zip(*((v.rest, v.value) for v in p.values), strict=True))
        known = ContextValues(rest.expand(p.n, -1), p.values[0].position, p.values[0].word, value)
    else:
        known = ContextValues(p.known.rest.expand(p.n, -1), p.known.position, p.known.word, p.known.value)
    above = known.at(here, targets, p.prior.n_symbols) - known.rest
    if not p.values[0].filled:
        known = replace(known, value=known.value - known.rest.index_select(0, known.position))
    share = mass.log_share_of(known.word).exp().to(a.dtype) * (known.value != 0.0).any(1)  # what fills up has none
    klass = p.classes.class_of.index_select(0, known.word)
    return Gains(known.position, klass, share, known.value.contiguous(), a), (a * above).sum(-1)


def gained_loss(p: Distribution, targets: Tensor, precision: Precision, weights: Tensor | None = None) -> Tensor:
    """−mean log p where contextual features change single words of a static background: by `layer.chunked`."""
    assert p.prior.only_table is not None
    mass = p.classes.mass(p.prior.only_table)
    gains, of_targets = _gains(p, mass, targets)
    klass = p.classes.class_of.index_select(0, targets)
    loss = _chunked_loss(p.layer, p.h, mass.as_dtype(p.h.dtype), klass, precision, weights, gains)
    return loss - _mean(of_targets.double() + mass.log_share_of(targets), weights).to(loss.dtype)


@numerics.in_full
def _chunked_loss(
    layer: LogLinear,
    h: Tensor,
    offset: Tensor,
    klass: Tensor,
    precision: Precision,
    weights: Tensor | None = None,
    gains: Gains | None = None,
) -> Tensor:
    """Always composed: chunk by chunk, by the kernels."""
    problem = Problem(layer.phi.core.for_kernels(layer.weight), offset, klass, layer.phi.spreads)
    plan = plan_for(h, layer.phi.n_classes, exact=precision == "full")
    return weighted_loss(h, layer.weight, layer.bias, problem, weights, plan, gains)[0]


def _mean(values: Tensor, weights: Tensor | None) -> Tensor:
    return values.mean() if weights is None else (values * weights.to(values.dtype)).sum()


@numerics.in_full
def mean_loss(
    layer: LogLinear,
    h: Tensor,
    offset: Tensor,
    klass: Tensor,
    precision: Precision = "full",
    weights: Tensor | None = None,
) -> Tensor:
    """The mean of log_sum − score of one class a position, (N,); nothing of size N × G is kept."""
    if h.is_cuda or precision == "half":
        return _chunked_loss(layer, h, offset, klass, precision, weights)
    pairs = Pairs(torch.arange(len(h), device=h.device), klass)
    if weights is not None:
        log_sum, score = _block_log_sums(layer, h, offset, pairs)
        return _mean(log_sum - score, weights).to(h.dtype)
    taken = work(layer, h, training=True)
    return blocks.mean_loss(h, *_factors(layer, taken.name, offset), pairs, taken.block)


def size_of(layer: LogLinear, positions: int) -> Size:
    """What decides."""
    phi, (m, H) = layer.phi, layer.weight.shape
    bands = BandSize(phi.core.n_classes, phi.core.entries, phi.spread_entries) if phi.spreads else None
    return Size(positions, phi.n_classes, m, phi.entries, H, bands)


def work(layer: LogLinear, h: Tensor, *, training: bool = False) -> Work:
    """The cheaper way to the scores of all classes, (N, H) -> (N, G); in training also where no gradient is needed."""
    weight, bias, size = layer.weight, layer.bias, size_of(layer, len(h))
    cached = can_be_cached(layer.phi.core.n_classes * size.hidden, weight, bias)
    training = training or (not cached and needs_gradient(h, weight, bias))
    costs = unit_costs(h.device.type, torch.get_num_threads())
    return cheapest(size, training=training, cached=cached, costs=costs)


# --- what they cost -------------------------------------------------------------------------------------------------


class UnitCosts(NamedTuple):
    """Seconds of each thing that is counted."""

    multiplication: float  # of a dense product
    byte: float  # of the weights that it reads
    addition: float  # of a sum with Φ
    entry: float  # of Φ, besides its additions
    term: float  # of Z: exponential and sums, forward and backward
    block: float  # of positions: a dozen calls
    turn: float = 0.0  # of a matrix, rows for columns, on the direct way: calls that a GPU waits for
    # positions in a block: on a CPU many for products, as many as fit the cache for sums with Φ; on a GPU all at once
    composed_rows: int = sys.maxsize
    direct_rows: int = sys.maxsize


CPU = UnitCosts(
    multiplication=1.7e-11,
    byte=6.0e-11,
    addition=1.0e-10,
    entry=5.0e-9,
    term=2.0e-9,
    block=1.0e-4,
    composed_rows=512,
    direct_rows=128,
)
_WAITING = 5.0e-4  # a block, with several threads
CUDA = UnitCosts(  # an H200: python scripts/measure_costs.py fit docs/results/costs-gpu.json
    multiplication=5.3e-14, byte=0.0, addition=5.4e-13, entry=3.2e-11, term=8.3e-14, block=1.1e-4, turn=9.4e-5
)


class BandSize(NamedTuple):
    """P rows and the entries of Φ̃, and Σ n_b r_b: where Φ is a product S Φ̃."""

    rows: int
    entries: int
    spread: int


class Size(NamedTuple):
    """N positions, G classes, m features, E entries of Φ (0 where Φ is the identity, which costs nothing), H."""

    positions: int
    classes: int
    features: int
    entries: int
    hidden: int
    bands: BandSize | None = None


@dataclass(frozen=True)
class Work:
    """What one way costs: counted, and in seconds of one core."""

    name: ScoreWay
    multiplications: int
    additions: int  # of the sums with Φ
    entries: int  # of Φ that are read, once for a block
    weight_bytes: int  # that products read, once for a block
    terms: int  # N · G
    blocks: int  # of positions that are computed together
    turns: int  # of a matrix, rows for columns
    block: int  # positions that are computed together

    @property
    def counts(self) -> tuple[int, ...]:
        """What is counted, in the order of the constants of `UnitCosts`."""
        work = self.multiplications, self.weight_bytes, self.additions, self.entries, self.terms
        return *work, self.blocks, self.turns

    def seconds(self, costs: UnitCosts = CPU) -> float:
        return sum(count * constant for count, constant in zip(self.counts, costs, strict=False))


def composed(size: Size, *, training: bool = False, cached: bool = False, costs: UnitCosts = CPU) -> Work:
    """h (Φ W)ᵀ + Φ c; `cached` where Φ W and Φ c are there already."""
    N, G, _, E, H, bands = size
    P, E, spread = bands or (G, E, 0)
    passes, sums = 3 if training else 1, 0 if cached else 2 if training else 1
    rows = min(max(N, 1), costs.composed_rows)
    blocks = -(-N // rows)
    weights = 4 * ((P * H + spread) * passes * blocks + E * H * sums)  # the rows of W that are summed are read as well
    return Work("composed", passes * N * (P * H + spread), sums * E * H, sums * E, weights, N * G, blocks, 0, rows)


def direct(size: Size, *, training: bool = False, cached: bool = False, costs: UnitCosts = CPU) -> Work:
    """Φ (W h + c), of which nothing can be cached."""
    N, G, m, E, H, _ = size
    passes, sums, rows = 3 if training else 1, 2 if training else 1, min(max(N, 1), costs.direct_rows)
    blocks = -(-N // rows)
    weights = 4 * m * H * passes * blocks
    entries, turns = sums * E * blocks, passes * blocks
    return Work("direct", passes * N * m * H, sums * E * N, entries, weights, N * G, blocks, turns, rows)


class WayChoice(NamedTuple):
    """The way that is taken, and the one that is left."""

    taken: Work
    left: Work


def choice(size: Size, *, training: bool = False, cached: bool = False, costs: UnitCosts = CPU) -> WayChoice:
    """The way that takes the least time first."""
    usual, other = (way(size, training=training, cached=cached, costs=costs) for way in (composed, direct))
    return WayChoice(other, usual) if other.seconds(costs) < usual.seconds(costs) else WayChoice(usual, other)


@lru_cache(maxsize=1024)  # asked at every step
def cheapest(size: Size, *, training: bool = False, cached: bool = False, costs: UnitCosts = CPU) -> Work:
    """The way that takes the least time."""
    return choice(size, training=training, cached=cached, costs=costs).taken


@lru_cache(maxsize=16)
def unit_costs(device_type: str, threads: int = 1) -> UnitCosts:
    """The constants of a device, "cpu" or any other; threads share all work, and wait for each other at every call."""
    if device_type != "cpu":
        return CUDA
    shared = {name: getattr(CPU, name) / threads for name in ("multiplication", "byte", "addition", "entry", "term")}
    return CPU if threads == 1 else CPU._replace(**shared, block=_WAITING)


def may_keep(exponentials: int) -> bool:
    """Whether so many bytes, N × G numbers, may be kept for backward."""
    return exponentials <= MOST_KEPT


@dataclass(frozen=True)
class Forecast:
    """Which ways a layer will go, before any training, and the numbers that decide it; all for one core."""

    symbols: int
    classes: int
    positions: int  # of a training batch
    one: WayChoice  # log Z at one position
    batch: WayChoice  # log Z and its gradients in a training batch
    dense: int  # multiplications of a softmax over V in such a batch
    kept: int  # bytes of scores that are kept for backward; 0 if none are

    @property
    def saved(self) -> float:
        """How many times fewer multiplications the batch takes than a softmax over V."""
        return self.dense / self.batch.taken.multiplications

    @property
    def has_classes(self) -> bool:
        """Whether the features share anything worth mentioning between words."""
        return self.symbols >= NO_CLASSES * self.classes


def forecast(size: Size, symbols: int, *, follows: bool) -> Forecast:
    """For a batch of the given size; where background or contextual features follow the text, its scores are kept."""
    one, batch = choice(size._replace(positions=1), cached=True), choice(size, training=True)
    kept = 4 * size.positions * size.classes if follows else 0
    dense = 3 * size.positions * symbols * size.hidden
    return Forecast(symbols, size.classes, size.positions, one, batch, dense, kept)
