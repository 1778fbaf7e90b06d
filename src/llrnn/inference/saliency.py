"""Which features of which earlier words moved this weight? Gradient × input.

    a_k = W_k h + c_k,        h a function of ψ_1 … ψ_T,        ψ_t = Σ_j ψ_j(x_t)·E_j

    share(t, j) = ψ_j(x_t) · E_j · ∂a_k/∂ψ_t            Σ_j share(t, j) = ψ_t · ∂a_k/∂ψ_t

A first-order account of a network that is not linear: the shares say in which direction each feature of each word
pushes the weight, here, and how strongly. They need not add up to a_k, unlike the terms of an
explanation (`llrnn.explain`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from llrnn.ground.charts import Bar, BarChart
from llrnn.ground.errors import ConfigError
from llrnn.ground.rendering import Drawn, Sheet, Strong, Table
from llrnn.model.network import LLRNN
from llrnn.text.vocabulary import EOS

START = "<s>"  # how the boundary that is fed first is written here


@dataclass(frozen=True)
class Push:
    """One feature of one earlier word: its value, and what it adds to the weight, to first order."""

    position: int  # in the prefix, from 0; -1 is the start of the sentence
    word: str
    name: str
    value: float
    share: float


@dataclass(frozen=True)
class Influence(Drawn):
    """What moved the weight of one feature after a prefix."""

    prefix: tuple[str, ...]
    feature: str
    weight: float
    terms: tuple[Push, ...]  # in the order of the prefix, largest first at each word

    def of_word(self, position: int) -> float:
        """All features of one word together."""
        return sum(term.share for term in self.terms if term.position == position)

    def sheet(self) -> Sheet:
        line = (f"{word} " for word in self.prefix)
        rows = [(term.word, term.name, f"{term.value:.4g}", f"{term.share:+.4f}") for term in self.terms]
        weight = (*line, Strong("…"), f" the weight of {self.feature} is {self.weight:+.4f}; what moved it:")
        return Sheet((weight, self.chart(), Table(("word", "feature", "value ψ", "share"), tuple(rows))))

    def chart(self) -> BarChart:
        """What each word did, all its features together."""
        bars = [Bar(word, self.of_word(t - 1)) for t, word in enumerate((START, *self.prefix))]
        return BarChart(tuple(bars), f"what moved {self.feature}", "added to the weight, to first order")


def influence(model: LLRNN, *, feature: str, prefix: str | tuple[str, ...] = "", condition: object = None) -> Influence:
    """What moved a_k, the weight of this feature, after the prefix."""
    words = tuple(prefix.split()) if isinstance(prefix, str) else prefix
    ids = model.vocabulary.ids((EOS, *words), place="prefix")
    k = _coordinate(model, feature)
    weight, gradient = _gradient(model, torch.tensor(ids, device=model.device), k, condition)
    terms = []
    for t, (word, symbol) in enumerate(zip((START, *words), ids, strict=True)):
        fires = model.input_features.row(symbol)
        columns = [model.input_features.column_of[name] for name in fires]
        slopes = (model.embedding.weight.detach()[columns] @ gradient[t]).tolist()
        pushes = [
            Push(t - 1, word, name, value, value * slope)
            for (name, value), slope in zip(fires.items(), slopes, strict=True)
        ]
        terms += sorted(pushes, key=lambda push: (-abs(push.share), push.name))
    return Influence(words, feature, weight, tuple(terms))


def _coordinate(model: LLRNN, feature: str) -> int:
    if feature not in model.feature_names:
        raise ConfigError(
            f"the name of one feature of the model is required, found {feature!r}; names look like "
            f"{', '.join(map(repr, model.feature_names[:3]))}"
        )
    return model.feature_names.index(feature)


def _gradient(model: LLRNN, ids: Tensor, k: int, condition: object) -> tuple[float, Tensor]:
    """a_k after all symbols, and its gradient in ψ of each of them, (T, D)."""
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN has no gradient outside of training
        psi = model.embedding(ids).detach().requires_grad_()
        h, _ = model.controller.scan(psi[None], model.start([condition]).controller)
        last = h[:, -1]
        a = torch.cat([model.layer.adaptor(last), model.layer.context_adaptor(last)], 1)[0, k]
        (gradient,) = torch.autograd.grad(a, psi)
    return float(a.detach()), gradient
