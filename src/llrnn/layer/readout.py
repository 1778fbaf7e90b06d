"""What a network of one's own hands to the layer, looked at once; and answers in the shape of its h.

    h (…, H), words (…)  ->  N positions in one row  ->  log p (…), words drawn (count, …), the best (…, k)

    loss = −mean log p over the positions that count, as `cross_entropy(logits, targets, ignore_index=…)`

A tensor that does not fit is refused with one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from llrnn.ground.errors import BackgroundError, InputError, quoted
from llrnn.layer import ways
from llrnn.layer.linear import AnyValues
from llrnn.layer.matrix import WeightCache
from llrnn.layer.numerics import computes_in_half, eager
from llrnn.layer.priors import DensePrior, FullPrior, Prior, SparsePrior, Table

if TYPE_CHECKING:
    from llrnn.layer.loglinear import Distribution

Values = Sequence[AnyValues]
Background = Tensor | Prior  # log b of every word, (V,), or of every word at every position, (…, V); or what says so


class Shaped(NamedTuple):
    """The distributions at positions of any shape (…): what a `Distribution` of N positions answers, in that shape."""

    flat: Distribution
    shape: tuple[int, ...]

    def log_prob(self, word: Tensor) -> Tensor:
        """log p of one word a position, (…) -> (…)."""
        return self._shaped(self.flat.log_prob(word.reshape(-1)))

    def log_probs(self) -> Tensor:
        """log p of every word, (…, V)."""
        return self._shaped(self.flat.log_probs())

    @property
    def log_z(self) -> Tensor:
        """float64 (…)"""
        return self._shaped(self.flat.log_z)

    def entropy(self) -> Tensor:
        """In nats, (…)."""
        return self._shaped(self.flat.entropy())

    def expected_features(self) -> Tensor:
        """E_p φ, (…, m + k)."""
        return self._shaped(self.flat.expected_features())

    def tempered(self, temperature: float) -> Shaped:
        """p(x)^(1/temperature), normalised."""
        return Shaped(self.flat.tempered(temperature), self.shape)

    def sample(self, *, generator: torch.Generator | None = None, count: int = 1) -> Tensor:
        """Words drawn from p, (count, …)."""
        return self.flat.sample(generator=generator, count=count).reshape(count, *self.shape)

    def top(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most probable words, log p and words, each (…, k)."""
        log_p, words = self.flat.top(k)
        return self._shaped(log_p), self._shaped(words)

    def _shaped(self, found: Tensor) -> Tensor:
        return found.reshape(self.shape + found.shape[1:])


class Readout(nn.Module):
    """What any network asks of the layer above it: `forward`, `loss`, `log_prob`, `sample`, `top`.

    `background`: that of all calls that give none of their own; uniform if not given.
    """

    weight: Tensor  # (m, H)
    context_weight: Tensor  # (k, H)

    def __init__(self, n_symbols: int, background: Background | None = None) -> None:
        super().__init__()
        self.n_symbols = n_symbols
        self._background = None if background is None else as_prior(background, n_symbols)
        self._given = WeightCache[Prior]()  # of the background that came as a tensor

    def distribution(self, h: Tensor, prior: Prior, values: Values = ()) -> Distribution:
        """The distributions at the N positions of h (N, H)."""
        raise NotImplementedError

    @property
    def background(self) -> Prior:
        """b where a call gives none."""
        if self._background is None:
            self._background = Table(torch.zeros(self.n_symbols)).everywhere()
        return self._background

    @eager
    def forward(self, h: Tensor, background: Background | None = None, values: Values = ()) -> Distribution | Shaped:
        """The distributions at the positions of h (…, H): a `Distribution`, or `Shaped` where h is not (N, H)."""
        flat, prior = self._flat(h), self.background if background is None else self._prior(background)
        self._require_positions(len(flat), prior, values)
        p = self.distribution(flat, prior, values)
        return p if h.dim() == 2 else Shaped(p, tuple(h.shape[:-1]))

    @eager
    def loss(
        self,
        h: Tensor,
        targets: Tensor,
        background: Background | None = None,
        values: Values = (),
        *,
        ignore_index: int = -100,
        precision: ways.WantedPrecision = "auto",
    ) -> Tensor:
        """The mean of −log p of the targets (…) that are not `ignore_index`: as `cross_entropy` has it.

        `precision`: "half" is float16 and bfloat16 products with float32 sums, on a GPU, where the background is
        static; "auto" takes it under autocast, or where h or the weights are in half precision; "full" never.
        """
        p = self(self._flat(h), background, values)
        words, kept = self._words(h, targets, ignore_index)
        auto: ways.Precision = "half" if computes_in_half(h, self.weight) else "full"
        return ways.exact_loss(p, words, ways.taken_precision(p, precision, auto=auto), kept)

    @eager
    def log_prob(self, h: Tensor, words: Tensor, background: Background | None = None, values: Values = ()) -> Tensor:
        """log p of one word a position, (…, H), (…) -> (…)."""
        p: Distribution = self(self._flat(h), background, values)
        return p.log_prob(self._words(h, words)[0]).view(h.shape[:-1])

    @eager
    @torch.no_grad()
    def sample(
        self,
        h: Tensor,
        background: Background | None = None,
        values: Values = (),
        *,
        count: int = 1,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Words drawn from p at each position, exactly, (count, …)."""
        p: Distribution | Shaped = self(h, background, values)
        return p.sample(count=count, generator=generator)

    @eager
    @torch.no_grad()
    def top(
        self, h: Tensor, k: int, background: Background | None = None, values: Values = ()
    ) -> tuple[Tensor, Tensor]:
        """The k most probable words at each position, exactly: log p and words, each (…, k)."""
        p: Distribution | Shaped = self(h, background, values)
        return p.top(k)

    def _prior(self, background: Background) -> Prior:
        make = partial(as_prior, background, self.n_symbols)
        return self._given.get(make, background) if isinstance(background, Tensor) else make()

    def _flat(self, h: Tensor) -> Tensor:
        """h as (N, H)."""
        H = self.weight.shape[1]
        if h.dim() == 0 or h.shape[-1] != H or not h.is_floating_point():
            raise InputError(
                f"the layer takes h of shape (…, {H}), floating point; found {_shown(h)}; give hidden={_last(h)}"
                " when it is made, or h of that size"
            )
        if h.dtype != self.weight.dtype and torch.float64 in (h.dtype, self.weight.dtype):
            raise InputError(
                f"the weights of the layer are {self.weight.dtype} and h is {h.dtype}: convert one of them, with .to()"
            )
        return h if h.dim() == 2 else h.reshape(h.shape[:-1].numel(), H)

    def _require_positions(self, n: int, prior: Prior, values: Values) -> None:
        """That background and contextual values are those of n positions, and of this layer."""
        if prior.n not in (1, n):
            raise BackgroundError(
                f"the background speaks of {prior.n} positions, h has {n}: give one row for each, or one"
            )
        k, found = len(self.context_weight), [(part.n, part.width) for part in values]
        if k != sum(width for _, width in found) or any(rows not in (1, n) for rows, _ in found):
            raise InputError(
                f"the layer needs values of {k} contextual features at {n} positions, found {found}: (positions, "
                "features) of each source"
            )

    def _words(self, h: Tensor, words: Tensor, ignored: int | None = None) -> tuple[Tensor, Tensor | None]:
        """The words in one row, (N,), and which count, None for all: what is `ignored` does not, and becomes word 0."""
        V = self.n_symbols
        if words.shape != h.shape[:-1] or words.dtype.is_floating_point or words.dtype == torch.bool:
            raise InputError(
                f"one word a position is needed, integers of shape {tuple(h.shape[:-1])}; found {_shown(words)}: give "
                "the numbers of the words, in the shape of h without its last dimension"
            )
        words = words.reshape(-1).long()
        without = torch.zeros_like(words, dtype=torch.bool) if ignored is None else words == ignored
        wrong = ~without & ((words < 0) | (words >= V))
        some, every, any_wrong = torch.stack([without.any(), without.all(), wrong.any()]).tolist()  # a GPU waits once
        if ignored is not None and every:
            raise InputError(
                f"no target is left of {len(words)}: {'all are' if len(words) else 'none is given but'} "
                f"ignore_index={ignored}; leave such a batch out"
            )
        if any_wrong:
            found = int(words[wrong][0])
            raise InputError(
                f"words are numbered 0 to {V - 1}, found {found}; give ignore_index={found} if it is no word"
            )
        return (words.masked_fill(without, 0), torch.nonzero(~without).view(-1)) if some else (words, None)


def as_prior(given: Any, n_symbols: int) -> Prior:
    """Log b as a prior: that of every word, (V,), or of every word at every position, (…, V)."""
    if isinstance(given, SparsePrior | FullPrior):
        prior: Prior = given
    else:
        try:
            log_b = torch.as_tensor(given)
        except (RuntimeError, TypeError, ValueError):
            raise BackgroundError(
                f"a background here is a tensor of log b, (V,) or (…, V), or a prior, found {quoted(given)}; those of "
                "llrnn.backgrounds follow the text of a model (llrnn.LLRNN)"
            ) from None
        if log_b.requires_grad or not log_b.is_floating_point() or log_b.dim() == 0:
            raise BackgroundError(
                "a background is constant: log b of every word, floating point, without gradient; found "
                f"{_shown(log_b)}{', with gradient: .detach() it' if log_b.requires_grad else ''}"
            )
        log_b = log_b if log_b.dtype.itemsize >= torch.float32.itemsize else log_b.float()
        static = log_b.dim() == 1
        prior = Table(log_b).everywhere() if static else DensePrior(log_b.reshape(-1, log_b.shape[-1]))
    if prior.n_symbols != n_symbols:
        raise BackgroundError(
            f"the background has log b of {prior.n_symbols} words, the features are of {n_symbols}: give one "
            "value for each word"
        )
    return prior


def _shown(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"


def _last(h: Tensor) -> object:
    return h.shape[-1] if h.dim() else "its size"
