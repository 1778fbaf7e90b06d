"""Controllers: the recurrent network that follows the prefix, and may look at a condition while it does.

recurrent    Controller: initial(conditions), step, scan; Elman, GRU, LSTM, Stacked
encoders     Encoder: a condition as a memory; Attentive: attention to it between two controllers
"""

from __future__ import annotations

from typing import Any

from llrnn.ground.errors import CheckpointError, ConfigError, LLRNNError, quoted
from llrnn.model.controllers.encoders import Attentive, Encoder, make_encoder
from llrnn.model.controllers.recurrent import (
    GRU,
    LSTM,
    Controller,
    Elman,
    Hidden,
    Recurrent,
    SomeRows,
    Stacked,
    initialise,
    skip_init,
    uniform,
    untouched_init,
    variational_dropout,
)

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
    "described_controller",
    "initialise",
    "make_controller",
    "skip_init",
    "uniform",
    "untouched_init",
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
        known = ", ".join(sorted(kinds))
        raise ConfigError(f"unknown kind of controller {quoted(kind)}: use one of {known}, stacked")
    return kinds[kind](**given)


def described_controller(controller: Controller) -> dict[str, Any]:
    """How a model folder holds it: what `make_controller` takes. One of the user's own is named only."""
    kept = {name for name, _ in controller.named_parameters(remove_duplicate=False)}
    lost = sorted(controller.state_dict().keys() - kept)
    if lost:
        raise CheckpointError(
            f"the controller {type(controller).__name__} holds {lost[0]!r}, which is no parameter: a model folder "
            "keeps parameters only, so it could not be opened again; make it an nn.Parameter with requires_grad=False, "
            "or register it as a buffer with persistent=False and compute it when the controller is made"
        )
    if _can_be_made_again(controller):
        return controller.settings()
    return {"kind": "custom", "class": type(controller).__qualname__}


def _can_be_made_again(controller: Controller) -> bool:
    """Whether `make_controller` makes the same of its settings: a class of the user's own may say it is one of ours."""
    try:
        with skip_init():
            made = make_controller(controller.settings())
    except (LLRNNError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return False
    return _structure(made) == _structure(controller)


def _structure(controller: Controller) -> list[object]:
    parts = [(name, type(part), type(getattr(part, "reading", None))) for name, part in controller.named_modules()]
    return [*parts, *((name, parameter.shape) for name, parameter in controller.named_parameters())]
