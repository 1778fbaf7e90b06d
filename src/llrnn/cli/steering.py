"""Options that open a trained model with other knowledge or other weights than it was trained with.

--background PATH      another background: an ARPA file, a folder of `llrnn ngram estimate`, a model folder
--expert NAME=PATH     another expert of this name, or another table where NAME is that of a lookup
--expert NAME=FACTOR   more or less of it, or against it; of a lookup, of all its features
--weight NAME=VALUE    the weight of a feature            --restrict              leave out words that V does not list
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.ground.errors import ConfigError
from llrnn.model.checkpoint import load, open_background
from llrnn.model.network import LLRNN
from llrnn.model.steering import Change, experts, require_experts, steer, swap, tables_of
from llrnn.text.tables import KnowledgeBase

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
        metavar="NAME=FACTOR|PATH",
        help="Scale the weight of a contextual feature (below 0 turns it round), or put another n-gram model "
        "or another table there.",
    ),
]
Swap = Annotated[
    Path | None,
    typer.Option("--background", help="Another background: an ARPA file, an n-gram folder or a model folder."),
]
Restrict = Annotated[
    bool, typer.Option("--restrict", help="Leave out words of those n-gram models that the model does not list.")
]


def open_model(
    folder: Path, weights: list[str] | None, expert_options: list[str] | None, background: Path | None, restrict: bool
) -> LLRNN:
    """The model of a folder, with the options applied: other knowledge first, then experts, then weights."""
    model = load(folder)
    pairs = [_split(option) for option in expert_options or []]
    paths = {name: Path(value) for name, value in pairs if _number(value) is None}
    if restrict and background is None and not paths:
        raise ConfigError("--restrict is for --background PATH and --expert NAME=PATH, found neither; leave it out")
    if background is not None or paths:
        model = _swapped(model, paths, background, restrict)
    return steered(model, weights, [f"{name}={value}" for name, value in pairs if _number(value) is not None])


def _swapped(model: LLRNN, paths: dict[str, Path], background: Path | None, restrict: bool) -> LLRNN:
    """Names are checked before files are read: of a name that is wrong nobody knows what its file should be."""
    tables = {name: path for name, path in paths.items() if name in tables_of(model)}
    others = {name: path for name, path in paths.items() if name not in tables}
    require_experts(model, others)
    small = model.reads_lowercase
    return swap(
        model,
        background=None if background is None else open_background(background, restrict),
        experts={name: open_background(path, restrict) for name, path in others.items()},
        tables={name: KnowledgeBase.from_file(path, lowercase=small) for name, path in tables.items()},
    )


def steered(model: LLRNN, weights: list[str] | None, expert_factors: list[str] | None) -> LLRNN:
    """The model with the options applied, experts first; the model itself where none is given."""
    changes = [change for option in expert_factors or [] for change in experts(model, _factor(option))]
    changes += [Change.parse(option) for option in weights or []]
    return steer(model, changes) if changes else model


def _split(option: str) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    if not (name and equals and value):
        raise ConfigError(f"--expert is written NAME=FACTOR or NAME=PATH, as kn=0.8; found {option!r}")
    return name, value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _factor(option: str) -> dict[str, float]:
    name, value = _split(option)
    factor = _number(value)
    if factor is None:
        raise ConfigError(f"--expert is written NAME=FACTOR with a number, as kn=0.8; found {option!r}")
    return {name: factor}
