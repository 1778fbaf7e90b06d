"""Controllers: the recurrent network that follows the prefix, and may look at a condition while it does.

base         the seam: initial(conditions), step, scan              recurrent    Elman, GRU, LSTM, Stacked
encoders     a condition as a memory                                attentive    a look at the memory between two
"""

from __future__ import annotations

from typing import Any

from llrnn.controllers.attentive import Attentive
from llrnn.controllers.base import Controller, Hidden, SomeRows, initialise, unfilled, uniform, variational_dropout
from llrnn.controllers.encoders import Encoder, make_encoder
from llrnn.controllers.recurrent import GRU, LSTM, Elman, Recurrent, Stacked
from llrnn.errors import ConfigError

__all__ = [
    "GRU",
    "LSTM",
    "Attentive",
    "Controller",
    "Elman",
    "Encoder",
    "Hidden",
    "SomeRows",
    "Stacked",
    "initialise",
    "make_controller",
    "unfilled",
    "uniform",
    "variational_dropout",
]


def make_controller(settings: dict[str, Any]) -> Controller:
    """A controller from what `settings()` or a configuration says."""
    given = dict(settings)
    kind = given.pop("kind", "lstm")
    if kind == "stacked":
        return Stacked(*(make_controller(part) for part in given["parts"]))
    if kind == "attentive":
        below, above = make_controller(given["below"]), make_controller(given["above"])
        return Attentive(below, make_encoder(given["encoder"]), above)
    kinds: dict[str, type[Recurrent]] = {"elman": Elman, "gru": GRU, "lstm": LSTM}
    if kind not in kinds:
        raise ConfigError(f"unknown kind of controller {kind!r}: use one of {', '.join(sorted(kinds))}, stacked")
    return kinds[kind](**given)
