"""An expert: a background that the network may listen to, more or less, at every step (paper §6).

    φ_e(K, x) = log b_e(K, x) − log b_ref(x)

The reference is, by default, what the expert itself says of words in general: the unigrams of an n-gram model. Then the
feature is one number on all words but those that the expert knows of in this context, and its weight a_e says how far
the expert is trusted: 0 not at all, 1 as it is, below 0 against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from llrnn.ground.errors import BackgroundError, FeatureError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.contextual.base import ContextualFeature
from llrnn.knowledge.process import S, Saved
from llrnn.languages.ngrams.table import ranges
from llrnn.layer.priors import ContextValues, DensePrior, SparsePrior
from llrnn.text.vocabulary import Revision, Vocabulary

_LIMIT = 50.0  # nats: a word that the expert forbids has this little, since features are finite


class Expert(ContextualFeature[S]):
    """A background as a feature; `name` is how explanations and `--expert NAME=FACTOR` call it.

    Expert(NGram.from_arpa("legal.arpa"), name="legal")
    """

    def __init__(self, background: Background[S], reference: Background | None = None, *, name: str = "expert") -> None:
        if reference is not None and not reference.is_static:
            raise FeatureError(f"the reference of an expert must not look at the context, found {reference!r}")
        self._background, self._reference, self._name = background, reference, name

    @property
    def name(self) -> str:
        return self._name

    @property
    def background(self) -> Background[S]:
        return self._background

    def with_background(self, background: Background) -> Expert:
        """Another expert in its place: of the same name, and with the same reference where one was given."""
        return Expert(background, self._reference, name=self._name)

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound._background = self._background.bind(vocabulary).as_expert()
        bound._reference = None if self._reference is None else self._reference.bind(vocabulary)
        return bound

    def revised(self, revision: Revision) -> Self:
        """On a new word, of which the expert knows no n-grams, the feature has the value that it has on the rest."""
        reference = None if self._reference is None else self._reference.revised(revision)
        return self._changed(revision.vocabulary, _background=self._background.revised(revision), _reference=reference)

    @property
    def reads_conditions(self) -> bool:
        return self._background.reads_conditions

    def initial(self, condition: object = None) -> S:
        return self._background.initial(condition)

    def advance(self, state: S, symbol: int) -> S:
        return self._background.advance(state, symbol)

    def follow(
        self, states: Sequence[S], inputs: Tensor, mask: Tensor, sentences: Tensor | None = None
    ) -> tuple[Sequence[S], Sequence[S]]:
        if self._background.is_static:  # it keeps no states, but a feature has a value at every position
            return [self.initial()] * int(mask.sum()), states
        return self._background.follow(states, inputs, mask, sentences)

    def value(self, state: S) -> tuple[float, Mapping[int, float]]:
        found = self.values([state])
        return float(found.rest[0, 0]), dict(zip(found.word.tolist(), found.value[:, 0].tolist(), strict=True))

    def values(self, states: Sequence[S]) -> ContextValues:
        prior, n = self._background.prior(states), len(states)
        if isinstance(prior, DensePrior):
            return self._everywhere(prior.dense(n))
        if prior.active is None:
            return self._by_region(prior, n)
        tables, exceptions = torch.stack([table.log_b for table in prior.tables]), prior.exceptions  # (K, V)
        reference = tables if self._reference is None else self._reference_log_b(tables.device).expand_as(tables)
        above = _difference(tables, reference)
        if self._reference is not None and not bool((above == above[:, :1]).all()):
            return self._everywhere(prior.dense(n))
        which = prior.active  # the one table of each position
        rest = (prior.shift.gather(1, which[:, None]) + above[which, :1]).expand(n, -1)
        own = _difference(exceptions.log_b, reference[which.expand(n)[exceptions.position], exceptions.word])
        return _clamped(rest, exceptions.position, exceptions.word, own)

    def _by_region(self, prior: SparsePrior, n: int) -> ContextValues:
        """Each table speaks of words of its own: those of the largest are the rest, others are exceptions.

        But only at positions where they differ from the rest: N times the words of the smaller tables at most.
        """
        if (region := prior.regions) is None:
            return self._everywhere(prior.dense(n))
        tables, V, shift = torch.stack([table.log_b for table in prior.tables]), prior.n_symbols, prior.shift
        general = tables.gather(0, region[None])[0]  # what it says of words in general, (V,)
        reference = general if self._reference is None else self._reference_log_b(tables.device)
        above = _difference(general, reference)
        if not bool((above == above[0]).all()):
            return self._everywhere(prior.dense(n))
        main = torch.bincount(region, minlength=len(tables)).argmax()
        position, word = _differing(shift, region, main)
        exceptions = prior.exceptions
        own = exceptions.position * V + exceptions.word
        key = torch.unique(torch.cat([own, position * V + word]))
        value = shift.new_empty(len(key))
        value[torch.searchsorted(key, position * V + word)] = shift[position, region[word]] + above[0]
        value[torch.searchsorted(key, own)] = _difference(exceptions.log_b, reference[exceptions.word])
        rest = (shift[:, main] + above[0])[:, None].expand(n, -1)
        return _clamped(rest, key // V, key % V, value)

    def _everywhere(self, prior: DensePrior) -> ContextValues:
        """Nothing is constant: every word of every position is an exception. Exact, at the cost of N × V."""
        N, V = prior.log_b.shape
        device = prior.log_b.device
        reference = 0.0 if self._reference is None else self._reference_log_b(device)
        position = torch.arange(N, device=device).repeat_interleave(V)
        word = torch.arange(V, device=device).repeat(N)
        value = (prior.log_b - reference).reshape(-1)
        return _clamped(torch.zeros(N, 1, dtype=value.dtype, device=device), position, word, value)

    def _reference_log_b(self, device: torch.device) -> Tensor:
        assert self._reference is not None
        log_b = self._reference.prior([]).to(device).dense(1).log_b[0]
        if not bool(torch.isfinite(log_b).all()):
            raise BackgroundError(f"the reference {self._reference!r} gives some word no mass; smooth it")
        return log_b

    def saved(self) -> Saved:
        parts = (self._background,) if self._reference is None else (self._background, self._reference)
        return Saved("expert", {"name": self._name}, parts=tuple(part.saved() for part in parts))

    def __repr__(self) -> str:
        return f"Expert({self._background!r}, name={self._name!r})"


def _differing(shift: Tensor, region: Tensor, main: Tensor) -> tuple[Tensor, Tensor]:
    """Positions and words of other regions than the main one, where their weight is another than that of the main."""
    position, table = torch.nonzero(shift != shift[:, main][:, None], as_tuple=True)
    words, count = torch.argsort(region, stable=True), torch.bincount(region, minlength=shift.shape[1])
    which, place = ranges((count.cumsum(0) - count)[table], count[table])
    return position[which], words[place]


def _difference(log_b: Tensor, reference: Tensor) -> Tensor:
    """log b − log ref, and 0 where neither has any mass."""
    return torch.where(log_b == reference, 0.0, log_b - reference)


def _clamped(rest: Tensor, position: Tensor, word: Tensor, value: Tensor) -> ContextValues:
    return ContextValues(rest.clamp(-_LIMIT, _LIMIT), position, word, value.clamp(-_LIMIT, _LIMIT).view(-1, 1))
