"""Several models as one, which is saved, scored, decoded and served as any other.

    mixture     p(x | K) = Σ_i λ_i p_i(x | K)                        one vocabulary; a = 0, so that Z = 1
    gated       p(x | K) = Σ_i λ_i(h) p_i(x | K)                     λ(h) = softmax(V h + v), h of a small network
    product     p(x | K) ∝ b(K, x) · exp(Σ_i w_i a_i·φ(K, x))        one b, one φ: adaptors add up, and Z is one sum

A mixture is a model whose background is the mixture of its members, without a network of its own. It has the features
of its first member, with weight 0: to tell words by them, and to steer by them. A product is an LL-RNN whose network
is the networks of its members side by side: h = (h_1 … h_n), W = (w_1 W_1 … w_n W_n), c = Σ w_i c_i.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.knowledge import backgrounds
from llrnn.knowledge.backgrounds import Background, Mixture, Model
from llrnn.knowledge.backgrounds.base import Combined, Together, mix_models
from llrnn.knowledge.backgrounds.neural import Place, Scanned
from llrnn.knowledge.process import Process, Saved
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import DensePrior, LazyPrior, Prior
from llrnn.model.checkpoint import restore_model
from llrnn.model.controllers import LSTM, Joined, Silent
from llrnn.model.network import LLRNN


def mixture(
    models: Sequence[LLRNN], weights: Sequence[float] | None = None, *, names: Sequence[str] | None = None
) -> LLRNN:
    """p = Σ λ_i p_i of trained models over one vocabulary, which are held and not copied.

    `weights`: λ, above 0 with sum 1, equal ones if not given; `names`: what explanations call the members.

        model = mixture([load("runs/a"), load("runs/b")], [0.6, 0.4])
    """
    names = require_members(models, names)
    if weights is not None:
        require_shares(weights, len(models))
    return background_alone(Mixture(*map(Model, models), weights=weights, names=names), models)


def background_alone(background: Background, models: Sequence[LLRNN]) -> LLRNN:
    """A model that is its background; of the models it has the vocabulary, and the first one's features.

    background_alone(NGram.from_corpus(corpus, folds=0), [model])
    """
    first = models[0]
    features = first.output_features
    made = LLRNN(first.vocabulary, output_features=features, background=background, controller=Silent(), seed=None)
    return inheriting(made, models)


class MixtureGate(Model):
    """A small network that follows the text and says λ. Its model has a feature for each part: their weights
    a = V h + v are asked for, and no probability."""

    @classmethod
    def untrained(cls, first: LLRNN, weights: Sequence[float], *, hidden: int = 64, seed: int = 0) -> MixtureGate:
        """One that reads the input features of a model, and says these weights everywhere."""
        n, V = len(weights), len(first.vocabulary)
        names = tuple(f"part {i + 1}" for i in range(n))
        one_class = FeatureMatrix(names, names, np.zeros(V, np.int64), np.array([0, n]), np.arange(n), np.ones(n))
        model = LLRNN(
            first.vocabulary,
            output_features=one_class,
            input_features=first.input_features,
            controller=LSTM(hidden, dropout=0.3),
            background=backgrounds.Static(torch.zeros(V)),
            word_dropout=0.1,
            seed=seed,
        )
        with torch.no_grad():
            model.layer.weight.zero_()
            model.layer.bias.copy_(torch.tensor(weights).log())
        return cls(model.to(first.device, first.layer.bias.dtype))

    def log_weights(self, states: Sequence[Place]) -> Tensor:
        """log λ of the parts, (N, n)."""
        with torch.no_grad():
            if isinstance(states, Scanned):
                return log_shares(states.gathered(lambda distribution: distribution.adaptor))
            return log_shares(self._step(states)[0].adaptor)

    def saved(self) -> Saved:
        found = super().saved()
        return Saved("gate", found.fields, found.tensors)

    def __repr__(self) -> str:
        return f"MixtureGate({self.model.controller!r})"


def log_shares(a: Tensor) -> Tensor:
    """log λ = log softmax(a), (N, n)."""
    return torch.log_softmax(a, -1)


class Gated(Combined):
    """Σ λᵢ(h) pᵢ(K, x): models whose weights a gate sets at every step; the gate is the last part."""

    constraints = ()

    def __init__(self, *parts: Model, names: Sequence[str]) -> None:
        super().__init__(*parts)
        self.names = list(names)

    def _answers(self, states: Sequence[Together]) -> tuple[list[Prior], Tensor]:
        """The priors of the members, and log λ (N, n)."""
        *members, gate = zip(self._parts, self._by_part(states), strict=True)
        assert isinstance(gate[0], MixtureGate)
        return [part.prior(own) for part, own in members], gate[0].log_weights(gate[1])

    def prior(self, states: Sequence[Together]) -> Prior:
        if not len(states):
            return self._parts[0].prior([])
        priors, log_weights = self._answers(states)
        lazy = [prior for prior in priors if isinstance(prior, LazyPrior)]
        if len(lazy) == len(priors):
            return mix_models(lazy, log_weights)
        rows = (prior.dense(len(states)).log_b for prior in priors)
        terms = [row + own[:, None] for row, own in zip(rows, log_weights.unbind(1), strict=True)]
        return DensePrior(reduce(torch.logaddexp, terms), sums_to_one=True)

    def shares(self, state: Together) -> list[tuple[str, float, Prior]]:
        priors, log_weights = self._answers([state])
        return list(zip(self.names, log_weights[0].tolist(), priors, strict=True))

    def saved(self) -> Saved:
        return Saved("gated", {"names": self.names}, parts=tuple(part.saved() for part in self._parts))

    def __repr__(self) -> str:
        return f"Gated({', '.join(self.names)}; {self._parts[-1]!r})"


backgrounds.register("gate", lambda saved, _: MixtureGate(restore_model(saved)))
backgrounds.register("gated", lambda saved, parts: Gated(*parts, **saved.fields))  # type: ignore[arg-type]


def gated(models: Sequence[LLRNN], gate: MixtureGate, *, names: Sequence[str] | None = None) -> LLRNN:
    """p = Σ λ_i(h) p_i of trained models over one vocabulary, with weights that a gate sets at every step.

    model = gated(models, MixtureGate.untrained(models[0], [0.5, 0.5]))
    """
    names = require_members(models, names)
    return background_alone(Gated(*map(Model, models), gate, names=names), models)


def product(
    models: Sequence[LLRNN], weights: Sequence[float] | None = None, *, names: Sequence[str] | None = None
) -> LLRNN:
    """p ∝ b · exp(Σ w_i a_i·φ) of trained models with one vocabulary, background and set of features: one model.

    `weights`: w, any numbers; 1/n each if not given. The members are copied, and the model can be trained further.

        model = product([load("runs/a"), load("runs/b")])
    """
    names = require_members(models, names)
    weights = [1.0 / len(models)] * len(models) if weights is None else weights
    if len(weights) != len(models) or not all(map(math.isfinite, weights)):
        raise ConfigError(f"a product of {len(models)} models needs as many weights, found {list(weights)}")
    first = models[0]
    for name, model in zip(names[1:], models[1:], strict=True):
        _require_alike(first, model, names[0], name)
    made = LLRNN(
        first.vocabulary,
        output_features=first.output_features,
        input_features=first.input_features,
        background=first.background,
        controller=Joined(*(copy.deepcopy(model.controller) for model in models)),
        contextual=first.contextual,
        contextual_inputs=first.contextual_inputs,
        word_dropout=first.word_dropout,
        seed=None,
    )
    made = inheriting(made, models)
    with torch.no_grad():
        for name, tensor in combined_weights(models, torch.tensor(weights, dtype=torch.float64)).items():
            made.get_parameter(name).copy_(tensor)
        made.embedding.weight.copy_(torch.cat([model.embedding.weight for model in models], 1))
        if made.input_weight is not None:
            inputs: list[Tensor] = [model.input_weight for model in models if model.input_weight is not None]
            made.input_weight.copy_(torch.cat(inputs, 1))
    return made


def combined_weights(models: Sequence[LLRNN], w: Tensor) -> dict[str, Tensor]:
    """W = (w_1 W_1 … w_n W_n) and c = Σ w_i c_i of a product, by the names that the parameters have in a model."""
    factors = w.to(models[0].layer.bias).unbind()
    found = {}
    for name in ("weight", "context_weight"):
        parts = [getattr(model.layer, name).detach() for model in models]
        found[f"layer.{name}"] = torch.cat([part * f for part, f in zip(parts, factors, strict=True)], 1)
    for name in ("bias", "context_bias"):
        parts = [getattr(model.layer, name).detach() for model in models]
        found[f"layer.{name}"] = torch.stack([part * f for part, f in zip(parts, factors, strict=True)]).sum(0)
    return found


def _require_alike(first: LLRNN, other: LLRNN, name: str, other_name: str) -> None:
    """That two models differ in their networks alone."""
    checks = {
        "output features": _same_features(first.output_features, other.output_features),
        "input features": _same_features(first.input_features, other.input_features),
        "background": _same_knowledge(first.background.saved(), other.background.saved()),
        "contextual features": _same_sources(first.contextual, other.contextual),
        "contextual inputs": _same_sources(first.contextual_inputs, other.contextual_inputs),
        "distribution, without mixed parts": not (first.mixed or other.mixed),
    }
    for what, same in checks.items():
        if not same:
            raise ConfigError(
                f"a product needs models with the same {what}, found others in {name} and {other_name}; mix them "
                "without --product, as a sum"
            )


def _same_features(one: FeatureMatrix, other: FeatureMatrix) -> bool:
    arrays = ("class_of", "offsets", "columns", "values")
    return one.names == other.names and all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays)


def _same_sources(ones: Sequence[Process], others: Sequence[Process]) -> bool:
    saved = zip((one.saved() for one in ones), (other.saved() for other in others), strict=False)
    return len(ones) == len(others) and all(_same_knowledge(one, other) for one, other in saved)


def _same_knowledge(one: Saved, other: Saved) -> bool:
    """By all that a folder would hold of it; a class of the user's own by its name."""
    alike = (one.kind, one.fields, one.tensors.keys(), len(one.parts)) == (
        other.kind,
        other.fields,
        other.tensors.keys(),
        len(other.parts),
    )
    return (
        alike
        and all(torch.equal(tensor.cpu(), other.tensors[name].cpu()) for name, tensor in one.tensors.items())
        and all(_same_knowledge(mine, theirs) for mine, theirs in zip(one.parts, other.parts, strict=True))
    )


def member(model: LLRNN, number: int) -> LLRNN:
    """A member of a mixed model by itself, counted from 1; where the mixed model is."""
    parts = model.background.parts if isinstance(model.background, Combined) else ()
    found = [part.model for part in parts if isinstance(part, Model) and not isinstance(part, MixtureGate)]
    if not found:
        raise ConfigError(
            f"only a mixture has members, which `llrnn model mix` makes without --product; found {model.background!r}"
        )
    if not 1 <= number <= len(found):
        raise ConfigError(f"a member between 1 and {len(found)} is required, found {number}")
    one: LLRNN = found[number - 1].to(model.device)
    return one


def require_members(models: Sequence[LLRNN], names: Sequence[str] | None = None) -> list[str]:
    """That there are several models over one vocabulary; their names, or numbers in the place of names."""
    named = [f"model {n + 1}" for n in range(len(models))] if names is None else list(names)
    if len(models) < 2 or len(named) != len(models):
        raise ConfigError(f"two models or more are needed to mix, found {len(models)}; name another one")
    own = models[0].vocabulary.symbols
    for name, model in zip(named[1:], models[1:], strict=True):
        given = model.vocabulary.symbols
        if given != own:
            first = next(
                (n for n, (x, y) in enumerate(zip(own, given, strict=False)) if x != y), min(len(own), len(given))
            )
            x, y = (symbols[first] if first < len(symbols) else "nothing" for symbols in (own, given))
            raise ConfigError(
                f"models to mix must have one vocabulary, found {len(own)} symbols in {named[0]} and {len(given)} in "
                f"{name}: symbol {first} is {x!r} and {y!r}; train both on one list of words ([vocabulary])"
            )
    return named


def require_shares(weights: Sequence[float], n: int) -> None:
    """That weights are shares of n parts."""
    if len(weights) != n or not all(w > 0 for w in weights) or not math.isclose(sum(weights), 1.0, abs_tol=1e-6):
        raise ConfigError(f"{n} weights above 0 that sum to 1 are needed, found {list(weights)}; correct them")


def inheriting(made: LLRNN, models: Sequence[LLRNN]) -> LLRNN:
    """A new model as its members are: in their numbers, where they are, reading texts as they do."""
    first = models[0]
    made.provenance = {"config": first.provenance.get("config", {})}
    made.training_summary = first.training_summary
    return made.to(first.device, first.layer.bias.dtype).eval()
