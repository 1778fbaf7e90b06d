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
    """Output layer log p(x | K) = log b(K, x) + a·φ(K, x) − log Z, a = W h + c, on top of any network.

    `features`: Φ, as a `FeatureMatrix` or a matrix (V, m), dense or sparse; `hidden`: the size H of h; `contextual`:
    the number k of contextual features, whose values are given with each call; `background`: the prior log b of every
    word, (V,), or a `Prior`, for all calls that give none, uniform by default; `zero`: begin with W = c = 0, so that p
    is the prior at first (by default scores begin as large as those of `nn.Linear(hidden, V)`).

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
        """Draw W and c anew, uniformly within ±1/(√H · r), r the root mean square of ‖φ(x)‖.

        Nothing is drawn for a layer made with `zero=True`; weights of contextual features are left as they are (0 at
        first).
        """
        bound = 1.0 / (self._size * math.sqrt(max(self.weight.shape[1], 1))) if self._size else 0.0
        for parameter in (self.weight, self.bias) if bound else ():
            nn.init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        return f"{self.n_symbols} words in {self.phi.n_classes} classes, features by hidden: {tuple(self.weight.shape)}"

    def weights(self) -> LayerWeights:
        """Return W, c and the feature matrix Φ as `LayerWeights`, with which scores and losses are computed.

        They are cast to float32 where the parameters are in half precision.
        """
        tensors = self.weight, self.bias, self.context_weight, self.context_bias
        if needs_gradient(*tensors):
            self.clear_cache()  # training needs the memory, and some optimizers write without being counted
        return LayerWeights(self.phi, self.classes, *tensors, self._kept).in_float32()

    def clear_cache(self) -> None:
        """Drop the cached products of the feature matrix Φ with the weights, Φ W and Φ c.

        Needed only after a write to the weights that torch does not count, such as one through `weight.data`.
        """
        self._kept.clear()

    @property
    def background(self) -> Prior:
        """The prior log b that is used where a call gives none.

        Uniform (log b = 0) unless one was given to the constructor.
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
        """Return the `Distribution` at the N positions of h (N, H), without checking the arguments.

        `prior`: log b; `values`: of the contextual features; `change`: a → scale∘a + offset; `batch_shape`: the shape
        of the positions, (N,) by default.
        """
        return Distribution(self.weights(), *placed(h, prior, values), change=change, batch_shape=batch_shape)

    @eager
    def forward(self, h: Tensor, background: Background | None = None, values: Values = ()) -> Distribution:
        """Return the `Distribution` over words at the positions of h (…, H).

        `background`: the prior log b, (V,) or (…, V), or a `Prior`, instead of that of the layer; `values`: of the
        contextual features, one entry for each source. Raises InputError or BackgroundError where shapes do not fit.

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

        `h` (…, H); `targets` (…): word ids; `background`, `values`: see `forward`; `precision`: "half" is float16 and
        bfloat16 products with float32 sums, on a GPU, where the prior is the same at all positions; "auto" takes it
        under autocast, or where h or the weights are in half precision; "full" never. Raises InputError where no target
        is left, or one is no id.

            layer.loss(h, targets).backward()
        """
        p: Distribution = self(h, background, values)
        words, kept = readout.words(p.batch_shape, targets, self.n_symbols, ignore_index)
        auto: Precision = "half" if computes_in_half(h, self.weight) else "full"
        return exact_loss(p, words, taken_precision(p, precision, auto=auto), kept)

    @eager
    def log_prob(self, h: Tensor, words: Tensor, background: Background | None = None, values: Values = ()) -> Tensor:
        """Return log p of one word a position, h (…, H), word ids (…) -> (…); `background`, `values`: see `forward`.

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
    """Return −mean log p of one word a position, a scalar; `targets` (N,): word ids.

    `precision`: see `taken_precision`; `kept`: indices of the positions that enter the mean (not padding), all by
    default; `weights`, of these positions and with sum one, make it a weighted mean.
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
    """Return the precision for the loss of `p`: `wanted`, or for "auto" the one in `auto`; "full" where half is
    impossible.

    Raises ConfigError if `wanted` is unknown, or "half" is wanted and impossible (see `why_no_half`).
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
    """Return why the loss of `p` cannot be computed in half precision, as a phrase for a message; None if it can."""
    if not p.h.is_cuda:
        return "a model on the CPU"
    if p.static_mass is None and not adds_logit_offsets(p):
        return "a background that follows the text, or features of many words at a time"
    return None


def adds_logit_offsets(p: Distribution) -> bool:
    """Return whether the loss of `p` adds contextual features to the sum over classes as offsets of single words'
    logits.

    That is on a GPU, or where lists of words are padded, if the prior is one table at all positions and the words with
    contextual values are few beside N × G.
    """
    if not p.values or p.prior.only_table is None or p.changes_weights:
        return False
    listed = len(p.values[0].position) if _listed_alike(p) else sum(len(part.position) for part in p.values)
    few = 0 < MANY_WORDS * listed <= p.n * p.classes.count
    return few and (p.h.is_cuda or any(part.filled for part in p.values))


def _listed_alike(p: Distribution) -> bool:
    """Return whether the values of all contextual features are given for the same (position, word) pairs, as the
    same tensors.
    """
    position, word = p.values[0].position, p.values[0].word
    return all(part.position is position and part.word is word for part in p.values)


def _loss_with_offsets(p: Distribution, targets: Tensor, precision: Precision, weights: Tensor | None) -> Tensor:
    """Return −mean log p, a scalar, where contextual features change the scores of single words.

    The prior is one table. `targets` (N,): word ids; `weights` (N,), with sum one: of the positions.
    """
    assert p.prior.only_table is not None
    mass = p.classes.mass(p.prior.only_table)
    logit_offsets, of_targets = _logit_offsets(p, mass, targets)
    klass = p.classes.class_of.index_select(0, targets)
    loss = p.weights.mean_loss(p.h, mass.as_dtype(p.h.dtype), klass, precision, weights, logit_offsets)
    return loss - weighted_mean(of_targets.double() + mass.log_share_of(targets), weights).to(loss.dtype)


def _logit_offsets(p: Distribution, mass: ClassMass, targets: Tensor) -> tuple[LogitOffsets, Tensor]:
    """Return what contextual features add to the scores of the words that they list, and to those of the targets, (N,).

    `mass`: the prior summed by classes; `targets` (N,): word ids.
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
