"""Many questions to one model, answered by one pass through the network.

    after_prefixes     B prefixes, padded to one length; p at the last position of each, all in one scan
    read               prefixes of one length, which leave a state to go on from
    score              a few texts; log p of every word, in one scan

Weights that are set by hand differ from row to row: `layer.steered` changes a on its way, row by row. What comes
after the network is asked for one row alone (`Distribution.row`) where rows want different things of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.sequences import Batch, ModelState
from llrnn.layer.loglinear import Distribution
from llrnn.layer.steered import Steered
from llrnn.model.network import LLRNN
from llrnn.model.steering import Change, scale_and_offset
from llrnn.serve.messages import ChangeMessage
from llrnn.serve.refusals import Refused
from llrnn.serve.served import Ready
from llrnn.text.vocabulary import EOS

_ROUND = 8  # lengths are padded to multiples: the recurrent networks of oneDNN prepare code for every shape
Steering = tuple[Tensor, Tensor] | None


@dataclass(frozen=True, eq=False)
class Asked:
    """A prefix as the model reads it: its words, their symbols, the condition, and weights set by hand."""

    words: tuple[str, ...]
    ids: tuple[int, ...]
    condition: object
    steering: Steering


def asked(ready: Ready, words: Sequence[str], steering: Steering) -> Asked:
    """A prefix or a text, looked up; a word that is not there is refused."""
    written = spelled_for(ready.model, words)
    ids = ready.model.vocabulary.ids(written, place="prefix")
    return Asked(written, tuple(ids), ready.condition, steering)


def spelled_for(model: LLRNN, words: Sequence[str]) -> tuple[str, ...]:
    """Words as the model's training text had them: small where all of it was."""
    return tuple(word.lower() for word in words) if model.reads_lowercase else tuple(words)


def steering(ready: Ready, changes: Sequence[ChangeMessage]) -> Steering:
    """Messages of changes as scale and offset of all weights, for a whole request; none where there are none."""
    if not changes:
        return None
    wanted = [Change(one.feature, one.scale, one.offset) for one in changes]
    try:
        return scale_and_offset(ready.model, wanted, ready.names)
    except ConfigError as error:
        raise Refused(404, "unknown_feature", str(error)) from None


def steered(model: LLRNN, rows: Sequence[Steering]) -> Steered | None:
    """The model's layer with a change of its own for each row; None is the layer as it is."""
    if all(row is None for row in rows):
        return None
    if all(row is rows[0] for row in rows):  # as the texts of one request: one row stands for all
        rows = rows[:1]
    like = next(row for row in rows if row is not None)[0]
    plain = torch.ones_like(like), torch.zeros_like(like)
    scale, offset = zip(*(row or plain for row in rows), strict=True)
    return Steered(model.layer, torch.stack(scale), torch.stack(offset))


def after_prefixes(model: LLRNN, rows: Sequence[Asked]) -> Distribution:
    """p of the word after each prefix, whatever their lengths."""
    longest = 1 + max(len(row.ids) for row in rows)
    return _at_the_ends(model, rows, -(-longest // _ROUND) * _ROUND)[0]


def read(model: LLRNN, rows: Sequence[Asked]) -> tuple[Distribution, ModelState]:
    """p of the word after each prefix, all of one length, and where the sequences stand."""
    return _at_the_ends(model, rows, 1 + len(rows[0].ids))


def _at_the_ends(model: LLRNN, rows: Sequence[Asked], length: int) -> tuple[Distribution, ModelState]:
    batch = _padded(model, rows, length)
    last = torch.zeros_like(batch.mask)
    last[torch.arange(len(rows)), torch.tensor([len(row.ids) for row in rows])] = True
    layer = steered(model, [row.steering for row in rows])
    return model.scan(replace(batch, mask=last).to(model.device), layer=layer)


def _padded(model: LLRNN, rows: Sequence[Asked], length: int) -> Batch:
    eos = model.vocabulary.eos
    inputs = torch.tensor([[eos, *row.ids, *[eos] * (length - 1 - len(row.ids))] for row in rows])
    return Batch(inputs, inputs, torch.ones_like(inputs, dtype=torch.bool), [row.condition for row in rows])


def why_not(p: Distribution) -> Refused | None:
    """Of one row: why nothing can follow, if that is so."""
    log_z = float(p.log_z[0])
    if math.isfinite(log_z):
        return None
    why = "the background gives no word any mass there" if log_z == -math.inf else "the changed weights overflow"
    return Refused(409, "impossible", f"nothing can follow this prefix: {why}; change the prefix or the weights")


def best_words(model: LLRNN, p: Distribution, tops: Sequence[int]) -> list[dict[str, Any]]:
    """The most probable words of each row, and what all symbols add up to."""
    most = min(len(model.vocabulary), max(1, *tops))
    log_p, symbols = (part.tolist() for part in p.top(most))
    totals, log_z, entropy = (part.tolist() for part in (p.class_probabilities().sum(-1), p.log_z, p.entropy()))
    return [
        {
            "top": [
                word(model, symbol, log)
                for symbol, log in zip(symbols[n][:top], log_p[n][:top], strict=True)
                if log > -math.inf
            ],
            "total": totals[n],
            "log_z": log_z[n],
            "entropy": entropy[n],
        }
        for n, top in enumerate(tops)
    ]


def word(model: LLRNN, symbol: int, log_p: float, spelled: str | None = None) -> dict[str, Any]:
    """A symbol with its probability; a string of a cell is written as it is spelled."""
    vocabulary = model.vocabulary
    written = vocabulary.symbols[symbol] if spelled is None else spelled
    is_cell = symbol >= len(vocabulary.words)
    return {"word": written, "log_p": finite(log_p), "p": math.exp(log_p), "cell": is_cell}


def score(model: LLRNN, texts: Sequence[Asked]) -> list[dict[str, Any]]:
    """log p of every word of each text, the end of the sentence included."""
    length = max(1 + len(text.ids) for text in texts)
    batch = _padded(model, texts, length)
    mask = torch.tensor([[t <= len(text.ids) for t in range(length)] for text in texts])
    targets = torch.cat([batch.inputs[:, 1:], torch.full((len(texts), 1), model.vocabulary.eos)], 1)
    placed = replace(batch, targets=targets, mask=mask).to(model.device)
    lengths = [1 + len(text.ids) for text in texts]
    layer = steered(model, [text.steering for text in texts for _ in range(1 + len(text.ids))])
    distribution, _ = model.scan(placed, layer=layer)
    log_p = distribution.log_prob(placed.picked(placed.targets)).double().cpu()
    return [_scored(model, text, row) for text, row in zip(texts, torch.split(log_p, lengths), strict=True)]


def _scored(model: LLRNN, text: Asked, log_p: Tensor) -> dict[str, Any]:
    if model.vocabulary.is_open and text.words:
        log_p = log_p.clone()
        log_p[:-1] += torch.from_numpy(model.vocabulary.locate(text.words)[1])
    total = float(log_p.sum())
    return {
        "words": [*text.words, EOS],
        "log_p": [finite(one) for one in log_p.tolist()],
        "log_prob": finite(total),
        "perplexity": finite(_exp(-total / len(log_p))),
    }


def finite(number: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return number if math.isfinite(number) else None


def _exp(number: float) -> float:
    return math.exp(number) if number < 700 else math.inf
