"""Trained models as one, with weights fitted on a text that none of them was trained on (`model.ensembles`).

λ_i ← mean over the text of λ_i p_i(x) / p(x)              expectation maximisation
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.model.checkpoint import find_device, load
from llrnn.model.ensembles import mixture, require_members
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
    device: str = "cpu",
) -> LLRNN:
    """Several trained models over one vocabulary as one model: evaluated, generated from, explained, saved as any.

    `models`: model folders or models; `valid`: a text to fit the weights λ of the mixture Σ λ_i p_i on, `weights` in
    its place, or neither for equal ones; `batching`: how that text is read (sentence by sentence unless given);
    `names`: what explanations call the models; `device`: where folders are opened. What was fitted, and
    log-perplexities on the text, are in `provenance["mixed"]`.

        model = mix(["runs/a", "runs/b"], valid=Corpus.from_file("valid.txt"))
        model.save("runs/mixed")
    """
    place = find_device(device)
    if valid is not None and weights is not None:
        raise ConfigError("weights are given or fitted on a text, found both; leave one out")
    members = [one if isinstance(one, LLRNN) else load(one, device=place) for one in models]
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
