"""Several models as one, which is saved, scored, decoded and served as any other.

    p(x | K) = Σ_i λ_i p_i(x | K)                        one vocabulary; a = 0, so that Z = 1

The weights are given, equal, or fitted on a text that none of them was trained on, by expectation maximisation:

    λ_i ← mean over the text of λ_i p_i(x) / p(x)

A mixture is a model whose background is the mixture of its members, without a network of its own. It has the features
of its first member, with weight 0: to tell words by them, and to steer by them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.backgrounds import Background, Mixture, Model
from llrnn.knowledge.backgrounds.neural import require_same_symbols
from llrnn.model.checkpoint import load
from llrnn.model.controllers import Silent
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Batching, score
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText

_ROUNDS, _SMALLEST = 200, 1e-4


def mix(
    models: Sequence[LLRNN | str | PathLike[str]],
    *,
    valid: Corpus | None = None,
    weights: Sequence[float] | None = None,
    batching: Batching | None = None,
    names: Sequence[str] | None = None,
) -> LLRNN:
    """Combine trained models over one vocabulary into one model, the mixture p = Σ λ_i p_i.

    `models`: model folders or models; `valid`: a text to fit the weights λ on; `weights`: λ themselves, above 0 with
    sum 1, in its place; neither: equal ones; `batching`: how that text is cut into batches (whole sentences unless
    given); `names`: what explanations call the models. The result is evaluated,
    generated from, explained and saved as any model; the weights, and log-perplexities on the text, are in
    `provenance["mixed"]`. Raises ConfigError for fewer than two models, or for both `valid` and `weights`;
    BackgroundError for different vocabularies.

        model = mix(["runs/a", "runs/b"], valid=Corpus.from_file("valid.txt"))
        model.save("runs/mixed")
    """
    if valid is not None and weights is not None:
        raise ConfigError("weights are given or fitted on a text, found both; leave one out")
    members = [one if isinstance(one, LLRNN) else load(one) for one in models]
    if names is None:
        names = [f"model {n}" if isinstance(one, LLRNN) else str(one) for n, one in enumerate(models, 1)]
    require_members(members, names)
    found: dict[str, Any] = {"weights": [1.0 / len(members)] * len(members) if weights is None else list(weights)}
    text = None if valid is None else EncodedText.encode(valid, members[0].vocabulary)
    if text is not None:
        log_p = log_probs(members, text, batching)
        found = {"members": (-log_p.mean(1)).tolist(), "weights": fitted_shares(log_p)}
    made = mixture(members, found["weights"], names=names)
    if text is not None:
        found["log_perplexity"] = score(made, text, batching).log_perplexity
    made.provenance["mixed"] = found
    return made


def log_probs(models: Sequence[LLRNN], text: EncodedText, batching: Batching | None = None) -> Tensor:
    """Return log p in nats of the N words and ends of sentences of a text under each of n models, (n, N) float64.

    `batching`: how the text is cut into batches, whole sentences by default; words are in the order of the batches.
    """
    return torch.stack([score(model, text, batching).log_probs for model in models])


def fitted_shares(log_p: Tensor) -> list[float]:
    """Return mixture weights λ (n of them, with sum one) that make a text most probable, fitted by EM.

    `log_p` (n, N): log p of the text's N words under each of n parts. No weight is below 1e-4 (but for rounding), so
    that each part stays possible. The result maximises Σ_n log Σ_i λ_i p_i(n), in the order of the rows.

        fitted_shares(log_probs([first, second], text))     # such as [0.62, 0.38]
    """
    shares = torch.full((len(log_p), 1), 1.0 / len(log_p), dtype=torch.float64)
    for _ in range(_ROUNDS):
        shares = torch.softmax(log_p.double() + shares.log(), 0).mean(1, keepdim=True).clamp_min(_SMALLEST)
        shares = shares / shares.sum()
    return [float(share) for share in shares]


def mixture(
    models: Sequence[LLRNN], weights: Sequence[float] | None = None, *, names: Sequence[str] | None = None
) -> LLRNN:
    """Return the model p = Σ λ_i p_i of trained models over one vocabulary, which it holds without a copy.

    `weights`: λ, above 0 with sum 1, equal ones if not given; `names`: what explanations call the members. Raises
    ConfigError for other weights or fewer than two models, BackgroundError for different vocabularies.

        model = mixture([load("runs/a"), load("runs/b")], [0.6, 0.4])
    """
    names = require_members(models, names)
    if weights is not None:
        require_shares(weights, len(models))
    return background_alone(Mixture(*map(Model, models), weights=weights, names=names), models)


def background_alone(background: Background, models: Sequence[LLRNN]) -> LLRNN:
    """Return a model that predicts a background (prior) alone, p = b, with the vocabulary of the first of `models`.

    It has the output features of that model with weight 0, and its device, dtype, configuration and tokeniser; it has
    no network, and is in eval mode. Other models in the list are not looked at.

        background_alone(NGram.from_corpus(corpus, folds=0), [model])
    """
    first = models[0]
    features = first.output_features
    made = LLRNN(first.vocabulary, output_features=features, background=background, controller=Silent(), seed=None)
    return inheriting(made, models)


def member(model: LLRNN, number: int) -> LLRNN:
    """Return member `number` (from 1) of a model that `mix` or `mixture` made, on the device of the mixed model.

    Raises ConfigError for another model, or a number out of range.
    """
    parts = model.background.parts if isinstance(model.background, Mixture) else ()
    found = [part.model for part in parts if isinstance(part, Model)]
    if not found:
        raise ConfigError(f"only a mixture has members, which `llrnn model mix` makes; found {model.background!r}")
    if not 1 <= number <= len(found):
        raise ConfigError(f"a member between 1 and {len(found)} is required, found {number}")
    one: LLRNN = found[number - 1].to(model.device)
    return one


def require_members(models: Sequence[LLRNN], names: Sequence[str] | None = None) -> list[str]:
    """Return the names of models to mix: `names`, or "model 1", "model 2", … by default.

    Raises ConfigError for fewer than two models or another number of names, BackgroundError for vocabularies that
    differ.
    """
    named = [f"model {n + 1}" for n in range(len(models))] if names is None else list(names)
    if len(models) < 2 or len(named) != len(models):
        raise ConfigError(f"two models or more are needed to mix, found {len(models)}; name another one")
    for name, model in zip(named[1:], models[1:], strict=True):
        advice = "models to mix must have one vocabulary: train them on one list of words ([vocabulary])"
        require_same_symbols(name, model.vocabulary, models[0].vocabulary, advice)
    return named


def require_shares(weights: Sequence[float], n: int) -> None:
    """Raise ConfigError unless `weights` are n positive numbers with sum 1."""
    if len(weights) != n or not all(w > 0 for w in weights) or not math.isclose(sum(weights), 1.0, abs_tol=1e-6):
        raise ConfigError(f"{n} weights above 0 that sum to 1 are needed, found {list(weights)}; correct them")


def inheriting(made: LLRNN, models: Sequence[LLRNN]) -> LLRNN:
    """Return `made`, in eval mode, with device, dtype, configuration and tokeniser of the first of `models`.

    It also gets the `training_summary` of that model. `made` is changed in place.
    """
    first = models[0]
    made.provenance = {key: first.provenance[key] for key in ("config", "tokeniser") if key in first.provenance}
    made.training_summary = first.training_summary
    return made.to(first.device, first.layer.bias.dtype).eval()
