"""A model for inference alone: the products with its weights are made once, not at every step.

    a(h)·φ_s = h·(Φ W)_s + (Φ c)_s            Φ W (G × H) and Φ c (G) wait, so that one step is one product with h

`frozen(model)` is a model like any other, with parameters of its own that ask for no gradient; the given one stays as
it is, and may go on training. A composition belongs to the weights that it was made of: before every use it is looked
at whether those are still the same numbers in the same place, and where they are not (a steered copy, another device,
weights that were filled in) it is made anew. So it is never stale, unless somebody writes to `weight.data`, of which
torch itself does not hear.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from llrnn.layer import numerics, plain
from llrnn.layer.join import placed
from llrnn.layer.loglinear import Distribution, LogLinear, Values
from llrnn.layer.numerics import SparseMatrix
from llrnn.layer.priors import Prior
from llrnn.model.network import LLRNN, FeatureEmbedding

_SCORES_AT_ONCE = 1_000_000  # 4 MB; in smaller pieces, what a product does before it begins counts (measured on CPU)


class Composition:
    """Φ W for the weights at hand, remembered for as long as they stay as they are."""

    def __init__(self, phi: SparseMatrix) -> None:
        self._phi = phi
        # the weights (kept, so that no others come to stand in their place), their count of writes, and the product:
        # one value, which other threads see as a whole
        self._kept = (torch.zeros(0), -1, torch.zeros(0))

    def of(self, weight: Tensor) -> Tensor:
        """(m, H) -> (G, H), or (m,) -> (G,)."""
        of, version, made = self._kept
        if version != weight._version or not _is_same(of, weight):
            with torch.inference_mode(False), torch.no_grad():
                of, version = weight.detach(), weight._version
                made = self._phi @ of
            self._kept = of, version, made
        return made


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Whether they are the same memory."""
    return one.data_ptr() == other.data_ptr() and one.dtype == other.dtype and one.shape == other.shape


class Composed(LogLinear):
    """A layer that takes over the parameters of another: the same distributions, by one product."""

    def __init__(self, layer: LogLinear) -> None:
        nn.Module.__init__(self)
        self.phi, self.classes = layer.phi, layer.classes
        self.weight, self.bias = layer.weight, layer.bias
        self.context_weight, self.context_bias = layer.context_weight, layer.context_bias
        self._table, self._offset = Composition(self.phi), Composition(self.phi)
        self._sum: tuple[Tensor, Tensor, Tensor] | None = None  # Φ c, an offset, and both together

    def scores(self, h: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """a·φ_s + offset_s for every class, (N, H) -> (N, G)."""
        weight, bias = self.composed(offset)
        return torch.addmm(bias, h, weight.t())

    def composed(self, offset: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
        """Φ W (G, H) and Φ c + offset (G,)."""
        return self._table.of(self.weight), self._with(self._offset.of(self.bias), offset)

    def _with(self, own: Tensor, offset: Tensor | float) -> Tensor:
        """The sum of last time, if it was of the same two: a background that does not move has one offset for good."""
        if not isinstance(offset, Tensor):
            return own + offset if offset else own
        last = self._sum
        if last is None or last[0] is not own or last[1] is not offset:
            with torch.inference_mode(False), torch.no_grad():
                last = self._sum = own, offset, own + offset
        return last[2]

    def forward(self, h: Tensor, prior: Prior, values: Values = ()) -> Distribution:
        """The distributions at the N positions of h (N, H)."""
        return Read(numerics.wide(self, self.weight), *placed(h, prior, values))


class Read(Distribution):
    """A distribution that nobody trains: what only gradients of weights need is left out."""

    def _static_log_prob(self, word: Tensor, position: Tensor | None) -> Tensor | None:
        """log p of its class, some rows at a time, which stay in the cache; and the word's share in the class."""
        mass = plain.table_of(self)
        if mass is None or self.scale != 1.0 or position is not None:
            return super()._static_log_prob(word, position)
        klass, offset = self.classes.class_of.index_select(0, word), mass.log_mass_in(self.h.dtype)
        times = min(-(-self.n * self.classes.count // _SCORES_AT_ONCE), self.n) if self.h.device.type == "cpu" else 1
        pieces = zip(self.h.tensor_split(max(times, 1)), klass.tensor_split(max(times, 1)), strict=True)
        found = [self._log_p(h, offset, own) for h, own in pieces]
        if any(numerics.are_loud(log_sum) for _, log_sum in found):
            return None
        log_p = found[0][0] if len(found) == 1 else torch.cat([own for own, _ in found])
        return (log_p + mass.log_share_of(word, klass)).to(self.h.dtype)

    def _log_p(self, h: Tensor, offset: Tensor, klass: Tensor) -> tuple[Tensor, Tensor]:
        """log p of a class a position and the log-sum over all, (n, H), (G,), (n,) -> (n,), (n,), both float64."""
        scores = self.layer.scores(h, offset)
        own = scores.gather(1, klass[:, None]).squeeze(1)
        log_sum = numerics.log_sums(scores, None)[0]
        return own.double() - log_sum, log_sum


class ComposedEmbedding(FeatureEmbedding):
    """ψ by looking the class of a word up, whether few words are asked for or many."""

    def __init__(self, embedding: FeatureEmbedding) -> None:
        nn.Module.__init__(self)
        self.psi, self.weight = embedding.psi, embedding.weight
        self.register_buffer("class_of", embedding.class_of, persistent=False)
        self._table = Composition(self.psi)

    def forward(self, words: Tensor) -> Tensor:
        return F.embedding(self.class_of[words], self._table.of(self.weight))

    def few(self, words: Tensor) -> Tensor:
        """(B,) -> (B, D)."""
        return self._table.of(self.weight)[self.class_of[words]]


def frozen(model: LLRNN) -> LLRNN:
    """The same model for inference: faster at every step, and of no use to training, which refuses it."""
    with torch.inference_mode(False):  # tensors that are made within it do not count their writes
        made = copied(model)
    made.layer, made.embedding = Composed(made.layer), ComposedEmbedding(made.embedding)
    return made.requires_grad_(False).eval()


def copied(model: LLRNN) -> LLRNN:
    """The same model with parameters of its own; knowledge is shared, for it is large and never changes."""
    shared = [model.vocabulary, model.output_features, model.input_features, model.background, *model.contextual]
    shared += [model.seen, *model.layer.buffers(), *model.embedding.buffers(), model.layer.classes.masses]
    made = copy.deepcopy(model, {id(part): part for part in shared})
    return made.to(model.device)  # on a GPU this puts the weights of torch's RNNs back into one piece
