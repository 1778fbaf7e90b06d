"""Trained models as one, with weights fitted on a text that none of them was trained on (`model.ensembles`).

mixture     EM:  λ_i ← mean over the text of λ_i p_i(x) / p(x)
gated       −mean log Σ_i λ_i(h) p_i(x), by Adam; a fifth of the text says when to stop
product     −mean log p, which is convex in w, by L-BFGS
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal

import torch
from torch import Tensor
from torch.func import functional_call

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.process import Batch
from llrnn.model.checkpoint import find_device, load
from llrnn.model.ensembles import MixtureGate, combined_weights, gated, log_shares, mixture, product, require_members
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Batching, Sentences, derived_seed, score
from llrnn.model.scoring import log_probs as batch_log_probs
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText

Kind = Literal["mixture", "gated", "product"]
_ROUNDS, _SMALLEST = 200, 1e-4
_EPOCHS, _PATIENCE, _WORDS, _RATE, _DECAY = 60, 5, 512, 0.003, 0.01  # of a gate


def mix(
    models: Sequence[LLRNN | str | PathLike[str]],
    *,
    kind: Kind = "mixture",
    valid: Corpus | None = None,
    weights: Sequence[float] | None = None,
    batching: Batching | None = None,
    names: Sequence[str] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> LLRNN:
    """Several trained models over one vocabulary as one model: evaluated, generated from, explained, saved as any.

    `models`: model folders or models; `kind`: a `mixture` Σ λ_i p_i, `gated`, with λ set by a small network at every
    step, or the `product` of models that share background and features; `valid`: a text to fit the weights on,
    `weights` in its place, or neither for equal ones; `batching`: how that text is read (sentence by sentence unless
    given); `names`: what explanations call the models; `device`: where folders are opened; `seed`: of the gate. What
    was fitted, and log-perplexities on the text, are in `provenance["mixed"]`; `held_out`, of a gate, is that of the
    fixed weights and of the gate on the fifth of the text that it was not trained on.

        model = mix(["runs/a", "runs/b"], valid=Corpus.from_file("valid.txt"))
        model.save("runs/mixed")
    """
    place = find_device(device)
    if kind not in ("mixture", "gated", "product"):
        raise ConfigError(f"the kind must be mixture, gated or product, found {kind!r}")
    if valid is not None and weights is not None:
        raise ConfigError("weights are given or fitted on a text, found both; leave one out")
    if kind == "gated" and valid is None:
        raise ConfigError("a gate is trained on a text, found none; give valid, which no model was trained on")
    members = [one if isinstance(one, LLRNN) else load(one, device=place) for one in models]
    if names is None:
        names = [f"model {n}" if isinstance(one, LLRNN) else str(one) for n, one in enumerate(models, 1)]
    require_members(members, names)
    text = None if valid is None else EncodedText.encode(valid, members[0].vocabulary)
    found: dict[str, Any] = {"kind": kind}
    if kind == "product":
        made = product(members, weights, names=names)
        shares = [1.0 / len(members)] * len(members) if weights is None else list(weights)
        if text is not None:
            shares = fitted_powers(members, made, text, batching)
            made = product(members, shares, names=names)
    else:
        shares = [1.0 / len(members)] * len(members) if weights is None else list(weights)
        if text is not None:
            log_p = log_probs(members, text, batching)
            shares = fitted_shares(log_p)
            found["members"] = (-log_p.mean(1)).tolist()
        made = mixture(members, shares, names=names)
        if kind == "gated" and text is not None:
            gate, *found["held_out"] = fitted_gate(members, shares, text, seed=seed)
            made = gated(members, gate, names=names)
    if text is not None:
        found["log_perplexity"] = score(made, text, batching).log_perplexity
    made.provenance["mixed"] = {**found, "weights": shares}
    return made


def log_probs(models: Sequence[LLRNN], text: EncodedText, batching: Batching | None = None) -> Tensor:
    """log p of every word of a text by each model, float64 (n, N)."""
    return torch.stack([score(model, text, batching).log_probs for model in models])


def fitted_shares(log_p: Tensor) -> list[float]:
    """λ, by EM: the shares under which a text is most probable, from log p of its words by each part, (n, N).

    No part has less than a ten-thousandth, so that each stays possible.
    """
    shares = torch.full((len(log_p), 1), 1.0 / len(log_p), dtype=torch.float64)
    for _ in range(_ROUNDS):
        shares = torch.softmax(log_p.double() + shares.log(), 0).mean(1, keepdim=True).clamp_min(_SMALLEST)
        shares = shares / shares.sum()
    return [float(share) for share in shares]


def fitted_gate(
    models: Sequence[LLRNN], weights: Sequence[float], text: EncodedText, *, seed: int = 0
) -> tuple[MixtureGate, float, float]:
    """A gate that begins with these weights everywhere, and is kept as it was best on a fifth of the text.

    Also the log-perplexity on that fifth, with the weights as they are and with the gate.
    """
    gate = MixtureGate.untrained(models[0], weights, seed=seed)
    plan = Sentences(max(1, min(_WORDS, int(text.lengths.sum()) // 10))).plan(text, seed=seed)
    if len(plan) < 2:
        raise ConfigError(f"a gate needs a text of several sentences to be trained on, found {len(text.sentences)}")
    placed = [batch.to(gate.model.device) for batch in plan]
    said = [(batch, torch.stack([batch_log_probs(model, batch) for model in models], 1)) for batch in placed]
    held_out, rest = said[: max(1, len(said) // 5)], said[max(1, len(said) // 5) :]
    optimizer = torch.optim.AdamW(gate.model.parameters(), lr=_RATE, weight_decay=_DECAY)
    before = best = _gate_loss(gate, held_out)
    kept = {name: tensor.clone() for name, tensor in gate.model.weights().items()}
    since, generator = 0, torch.Generator(gate.model.device)
    for epoch in range(_EPOCHS):
        gate.model.train()
        for place, (batch, log_p) in enumerate(rest):
            generator.manual_seed(derived_seed(seed, epoch, place))
            a = gate.model.scan(batch, generator=generator)[0].adaptor
            loss = -torch.logsumexp(log_shares(a) + log_p, 1).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        found, since = _gate_loss(gate, held_out), since + 1
        if found < best:
            best, since = found, 0
            kept = {name: tensor.clone() for name, tensor in gate.model.weights().items()}
        if since == _PATIENCE:
            break
    gate.model.load_weights(kept)
    return gate, before, best


@torch.no_grad()
def _gate_loss(gate: MixtureGate, said: Sequence[tuple[Batch, Tensor]]) -> float:
    gate.model.eval()
    found = [torch.logsumexp(log_shares(gate.model.scan(batch)[0].adaptor) + log_p, 1) for batch, log_p in said]
    return -float(torch.cat(found).mean())


def fitted_powers(
    models: Sequence[LLRNN], whole: LLRNN, text: EncodedText, batching: Batching | None = None
) -> list[float]:
    """w of a product: its log-likelihood is concave in w, as in every log-linear model."""
    batching = batching or Sentences()
    if batching.carries_state:
        raise ConfigError("a product is fitted on batches that start afresh, found continuous ones; read by sentences")
    batches = [batch.to(whole.device) for batch in batching.plan(text) if batch.mask.any()]
    total = sum(batch.n_positions for batch in batches)
    w = torch.full((len(models),), 1.0 / len(models), dtype=torch.float64, device=whole.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], max_iter=20, line_search_fn="strong_wolfe")
    fixed = {name: parameter.detach() for name, parameter in whole.named_parameters()}

    def closure() -> float:
        optimizer.zero_grad()
        loss = 0.0
        for batch in batches:
            mine = functional_call(whole, {**fixed, **combined_weights(models, w)}, (batch,))
            part = mine * (batch.n_positions / total)
            part.backward()
            loss += float(part.detach())
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return [float(weight) for weight in w.detach()]
