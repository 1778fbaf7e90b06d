"""The log-linear layer, which stands where other models have a softmax.

    log p(x | K) = log b(K, x) + a(h)ᵀ φ(K, x) − log Z(K)                    a = W h + c

    Z = Σ_x b(K, x) exp(a·φ(K, x)) = Σ_s B_s exp(a·φ_s) + what depends on the context            (`layer.distribution`)

    loss = −mean log p(x̄) over the positions that count, as `cross_entropy(logits, targets, ignore_index=…)`

Sets and sizes: N positions; V words in G classes s of equal static features φ_s (m of them); k contextual features;
H, the size of h. The sum over V is exact, and costs G.

    LogLinear(features, hidden)                            the module: W and c, and the loss
    layer(h, background, values) -> Distribution           log_prob, log_z, entropy, expected_features, sample, top
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from llrnn.ground.errors import ConfigError, quoted
from llrnn.layer import readout
from llrnn.layer.costs import MANY_WORDS
from llrnn.layer.distribution import Distribution, Values
from llrnn.layer.linear import placed
from llrnn.layer.masses import Classes, ClassMass
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix, WeightCache, needs_gradient
from llrnn.layer.numerics import computes_in_half, eager
from llrnn.layer.priors import ContextValues, Prior, Table
from llrnn.layer.readout import Background
from llrnn.layer.reference import LogitOffsets
from llrnn.layer.weights import Caches, LayerWeights, Precision, WeightChange, weighted_mean

WantedPrecision = Literal["auto", "full", "half"]


class LogLinear(nn.Module):
    """Output layer that takes the place of a softmax: log p(x | K) = log b(K, x) + a·φ(K, x) − log Z, with a = W h + c.

    x is a word, K the text before it, h the hidden vector that a network computes from K, b the prior, φ the features
    of a word, a their weights. `features`: a matrix Φ (V words, m features), dense or sparse, or a `FeatureMatrix`;
    `hidden`: the size H of h; `contextual`: the number k of features that depend on K, whose values are given with each
    call; `background`: log b of every word, (V,), or a `Prior`, for all calls that give none, uniform by default;
    `zero`: begin with W = c = 0, so that p is the prior at first (by default scores begin as large as those of
    `nn.Linear(hidden, V)`).

        layer = LogLinear(features, hidden=256)
        layer.loss(h, targets).backward()                     # h (…, 256), targets (…), as for cross_entropy
        layer.log_prob(h, words)
        p = layer(h)                                          # p.sample(), p.top(5), p.entropy(), p.log_probs()

    Φ W and Φ c are cached while no gradient is asked for, and made anew when a weight has changed.
    """

    weight: Tensor  # W (m, H)
    bias: Tensor  # c (m,)
    context_weight: Tensor  # (k, H)
    context_bias: Tensor  # (k,)

    def __init__(
        self,
        features: Any,
        hidden: int,
        contextual: int = 0,
        *,
        background: Background | None = None,
        zero: bool = False,
    ) -> None:
        super().__init__()
        features = features if isinstance(features, FeatureMatrix) else FeatureMatrix.of(features)
        self.n_symbols = features.n_symbols
        self._background = None if background is None else readout.as_prior(background, self.n_symbols)
        self._given = WeightCache[Prior]()  # of the background that came as a tensor
        self.phi, self.classes = SparseMatrix(features), Classes(features)
        self._size = 0.0 if zero else features.size
        self.weight = nn.Parameter(torch.zeros(features.n_features, hidden))
        self.bias = nn.Parameter(torch.zeros(features.n_features))
        # where there are none, nobody waits for their gradient (`DistributedDataParallel` would)
        self.context_weight = nn.Parameter(torch.zeros(contextual, hidden), contextual > 0)
        self.context_bias = nn.Parameter(torch.zeros(contextual), contextual > 0)
        self._kept = Caches()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights W (m, H) and biases c (m,) of the m static features anew, uniformly within ±1/(√H · r).

        H is the size of the hidden vector, r the root mean square over the words of the norm of their feature vectors.
        Nothing is drawn for a layer made with `zero=True`; weights of contextual features stay as they are (0 at
        first).
        """
        bound = 1.0 / (self._size * math.sqrt(max(self.weight.shape[1], 1))) if self._size else 0.0
        for parameter in (self.weight, self.bias) if bound else ():
            nn.init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        return f"{self.n_symbols} words in {self.phi.n_classes} classes, features by hidden: {tuple(self.weight.shape)}"

    def weights(self) -> LayerWeights:
        """Return the layer's parameters and feature matrix as a `LayerWeights` tuple, which computes scores and losses.

        Parameters in half precision are cast to float32; others are the parameters themselves, with their gradients.
        """
        tensors = self.weight, self.bias, self.context_weight, self.context_bias
        if needs_gradient(*tensors):
            self.clear_cache()  # training needs the memory, and some optimizers write without being counted
        return LayerWeights(self.phi, self.classes, *tensors, self._kept).in_float32()

    def clear_cache(self) -> None:
        """Drop the cached products Φ W and Φ c of the feature matrix with the weights; the next call makes them anew.

        It is needed only after a write to the weights that torch does not count, such as one through `weight.data`.
        """
        self._kept.clear()

    @property
    def background(self) -> Prior:
        """The prior log b over words that the layer uses where a call gives none.

        It is the one given to the constructor, or else uniform, log b = 0.
        """
        if self._background is None:
            self._background = Table(torch.zeros(self.n_symbols)).everywhere()
        return self._background

    def distribution(
        self,
        h: Tensor,
        prior: Prior,
        values: Values = (),
        *,
        change: WeightChange | None = None,
        batch_shape: Sequence[int] | None = None,
    ) -> Distribution:
        """Return the `Distribution` over words at N positions of hidden vectors h (N, H), with unchecked arguments.

        `prior`: log b of the words; `values`: one `ContextValues` or `LinearValues` for each source of contextual
        features, none by default; `change`: replaces the feature weights a by scale∘a + offset, None for no change;
        `batch_shape`: the shape in which results list the positions, (N,) by default.
        """
        return Distribution(self.weights(), *placed(h, prior, values), change=change, batch_shape=batch_shape)

    @eager
    def forward(self, h: Tensor, background: Background | None = None, values: Values = ()) -> Distribution:
        """Return the `Distribution` over the V words at each position of hidden vectors h (…, H).

        `background`: log b of the words, (V,) for all positions or (…, V), or a `Prior`, None for that of the layer;
        `values`: one `ContextValues` or `LinearValues` for each source of contextual features, with as many features in
        all as the layer has. Raises InputError (h, values) or BackgroundError where shapes do not fit.

            p = layer(h)
            p = layer(h, background=log_b)
        """
        flat, prior = readout.flat(h, self.weight), self.background if background is None else self._prior(background)
        readout.require_positions(len(flat), prior, values, len(self.context_weight))
        return self.distribution(flat, prior, values, batch_shape=h.shape[:-1])

    def _prior(self, background: Background) -> Prior:
        make = partial(readout.as_prior, background, self.n_symbols)
        return self._given.get(make, background) if isinstance(background, Tensor) else make()

    @eager
    def loss(
        self,
        h: Tensor,
        targets: Tensor,
        background: Background | None = None,
        values: Values = (),
        *,
        ignore_index: int = -100,
        precision: WantedPrecision = "auto",
    ) -> Tensor:
        """Return the mean of −log p of the target words that are not `ignore_index`, a scalar, as `cross_entropy` does.

        `h` (…, H): hidden vectors; `targets` (…): word ids; `background`: log b of the words, (V,) or (…, V), or a
        `Prior`, None for that of the layer; `values`: a `ContextValues` or `LinearValues` for each group of features
        that depend on the position; `precision`: "half" is float16 and bfloat16 products with float32 sums, on a GPU,
        where the prior is the same at all positions; "auto" takes it under autocast, or where h or the weights are in
        half precision; "full" never. Raises InputError where no target is left, or one is no id.

            layer.loss(h, targets).backward()
        """
        p: Distribution = self(h, background, values)
        words, kept = readout.words(p.batch_shape, targets, self.n_symbols, ignore_index)
        auto: Precision = "half" if computes_in_half(h, self.weight) else "full"
        return exact_loss(p, words, taken_precision(p, precision, auto=auto), kept)

    @eager
    def log_prob(self, h: Tensor, words: Tensor, background: Background | None = None, values: Values = ()) -> Tensor:
        """Return log p of one word for each position, h (…, H), word ids (…) -> (…); −∞ for a word with prior 0.

        `background`: log b of the words, (V,) or (…, V), or a `Prior`, None for that of the layer; `values`: a
        `ContextValues` or `LinearValues` for each source of contextual features. Raises InputError for other shapes, or
        ids that are no words.

        Example:

            layer.log_prob(h, words)
        """
        p: Distribution = self(h, background, values)
        return p.log_prob(readout.words(p.batch_shape, words, self.n_symbols)[0])


def exact_loss(
    p: Distribution,
    targets: Tensor,
    precision: Precision = "full",
    kept: Tensor | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """Return the mean of −log p(target) over the N positions of `p`, a scalar with gradient; `targets` (N,): word ids.

    `precision`: "full" or "half", as `taken_precision` returns it; `kept`: indices of the positions that enter the mean
    (for instance those that are no padding), None for all; `weights`: one for each position that enters, with sum one,
    for a weighted mean; None for the plain mean.
    """
    mass = p.static_mass
    if mass is None and kept is None and adds_logit_offsets(p):
        return _loss_with_offsets(p, targets, precision, weights)
    if mass is None or p.changes_weights:
        log_p = p.log_prob(targets).view(-1)
        return -weighted_mean(log_p if kept is None else log_p[kept], weights)
    h, targets = (p.h, targets) if kept is None else (p.h[kept], targets[kept])
    loss = p.weights.mean_loss(h, mass.as_dtype(h.dtype), p.classes.class_of[targets], precision, weights)
    return loss - weighted_mean(mass.log_share_of(targets), weights).to(loss.dtype)


def taken_precision(p: Distribution, wanted: WantedPrecision, *, auto: Precision = "half") -> Precision:
    """Return the precision, "full" or "half", in which the loss of `p` is to be computed.

    It is `wanted` where that is "full" or "half". Where it is "auto", the result is the argument `auto`, or "full"
    where half precision is impossible. Raises ConfigError if `wanted` is unknown, or is "half" and this is impossible
    (see `why_no_half`).
    """
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
    """Return why the loss of `p` cannot be computed in half precision, as a noun phrase for a message; None if it can.

    It cannot on a CPU, with a prior that depends on the context, or with contextual features for which
    `adds_logit_offsets` is False.
    """
    if not p.h.is_cuda:
        return "a model on the CPU"
    if p.static_mass is None and not adds_logit_offsets(p):
        return "a background that follows the text, or features of many words at a time"
    return None


def adds_logit_offsets(p: Distribution) -> bool:
    """Return whether the loss of `p` treats contextual features as offsets on the logits of the words that they list.

    True if the prior is one table at all positions, feature weights are not steered or tempered, contextual features
    list at least one (position, word) pair, and at most a quarter as many as N positions × G classes of words, and p is
    on a GPU or the lists are padded to a fixed length.
    """
    if not p.values or p.prior.only_table is None or p.changes_weights:
        return False
    listed = len(p.values[0].position) if _listed_alike(p) else sum(len(part.position) for part in p.values)
    few = 0 < MANY_WORDS * listed <= p.n * p.classes.count
    return few and (p.h.is_cuda or any(part.filled for part in p.values))


def _listed_alike(p: Distribution) -> bool:
    """Return whether all contextual features of `p` list the same (position, word) pairs, as the same tensors."""
    position, word = p.values[0].position, p.values[0].word
    return all(part.position is position and part.word is word for part in p.values)


def _loss_with_offsets(p: Distribution, targets: Tensor, precision: Precision, weights: Tensor | None) -> Tensor:
    """Return the mean of −log p(target) over N positions, a scalar, with contextual features as offsets of logits.

    The prior must be one table at all positions. `targets` (N,): word ids; `precision`: "full" or "half"; `weights`
    (N,), with sum one: for a weighted mean; None for the plain one.
    """
    assert p.prior.only_table is not None
    mass = p.classes.mass(p.prior.only_table)
    logit_offsets, of_targets = _logit_offsets(p, mass, targets)
    klass = p.classes.class_of.index_select(0, targets)
    loss = p.weights.mean_loss(p.h, mass.as_dtype(p.h.dtype), klass, precision, weights, logit_offsets)
    return loss - weighted_mean(of_targets.double() + mass.log_share_of(targets), weights).to(loss.dtype)


def _logit_offsets(p: Distribution, mass: ClassMass, targets: Tensor) -> tuple[LogitOffsets, Tensor]:
    """Return what contextual features add to scores: `LogitOffsets` for the words they list, and (N,) for the targets.

    From both is subtracted what the features add to all other words at the position. `mass`: the prior summed by
    classes of words with equal static features; `targets` (N,): a word id for each position.
    """
    a, here = p.context_adaptor.contiguous(), torch.arange(p.n, device=targets.device)
    if _listed_alike(p):
        rest, value = (torch.cat(parts, 1) for parts in zip(*((v.rest, v.value) for v in p.values), strict=True))
        known = ContextValues(rest.expand(p.n, -1), p.values[0].position, p.values[0].word, value)
    else:
        known = ContextValues(p.known.rest.expand(p.n, -1), p.known.position, p.known.word, p.known.value)
    above = known.at(here, targets, p.prior.n_symbols) - known.rest
    if not p.values[0].filled:
        known = replace(known, value=known.value - known.rest.index_select(0, known.position))
    share = mass.log_share_of(known.word).exp().to(a.dtype) * (known.value != 0.0).any(1)  # padding has none
    klass = p.classes.class_of.index_select(0, known.word)
    return LogitOffsets(known.position, klass, share, known.value.contiguous(), a), (a * above).sum(-1)
