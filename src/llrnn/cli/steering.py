"""Options that steer a trained model: `--expert NAME=FACTOR` and `--weight NAME=VALUE`, as often as needed."""

from __future__ import annotations

from typing import Annotated

import typer

from llrnn.errors import ConfigError
from llrnn.model import LLRNN
from llrnn.steering import Change, experts, steer

Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        metavar="NAME=VALUE",
        help="Change the weight of a feature, or of all that a pattern names: "
        "POS:VERB=+0.5 or =-0.5 adds, 'POS:*=*0.8' scales, POS:VERB=0.5 clamps.",
    ),
]
Experts = Annotated[
    list[str] | None,
    typer.Option(
        "--expert",
        metavar="NAME=FACTOR",
        help="Scale the weight of a contextual feature; below 0 turns it round. Applied before --weight.",
    ),
]


def steered(model: LLRNN, weights: list[str] | None, expert_factors: list[str] | None) -> LLRNN:
    """The model with the options applied, experts first; the model itself where none is given."""
    changes = [change for option in expert_factors or [] for change in experts(model, _factor(option))]
    changes += [Change.parse(option) for option in weights or []]
    return steer(model, changes) if changes else model


def _factor(option: str) -> dict[str, float]:
    name, _, factor = option.rpartition("=")
    try:
        return {name: float(factor)}
    except ValueError:
        raise ConfigError(f"--expert is written NAME=FACTOR with a number, as kn=0.8; found {option!r}") from None
