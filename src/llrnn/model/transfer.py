"""Begin with the weights of another model: what has the same name and fits is taken, the rest stays as it was drawn.

    network      tensors of the same name and shape
    features     the rows of E, W and c whose feature has the same name, where the sizes of ψ and h are the same

Names carry what two models share: attributes of universal inventories (`Number:Plur`), endings, words that are spelled
alike. So a body that was trained on one language begins another's, of which there is less text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.model.network import LLRNN


@dataclass
class Transferred:
    """What was taken: for each part, how many of its tensors or features, of how many."""

    parts: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        return sum(taken for taken, _ in self.parts.values())

    def __str__(self) -> str:
        said = (f"{taken:,} of {size:,} {name}" for name, (taken, size) in self.parts.items() if size)
        return f"taken by name: {', '.join(said)}"


def transfer(model: LLRNN, source: LLRNN) -> Transferred:
    """Copy into `model`, in place, the weights of `source` that have the same name and fit; the source stays as it is.

    A `ConfigError` says why nothing fits. Train afterwards: of what is not shared nothing is known.

        print(transfer(model, load("runs/estonian")))
    """
    found = Transferred()
    with torch.no_grad():
        found.parts["tensors of the network"] = _same_tensors(model, source)
        same_in, same_out = (
            getattr(model.controller, side) == getattr(source.controller, side) for side in ("inputs", "hidden")
        )
        ours, theirs = model.input_features.names, source.input_features.names
        found.parts["input features"] = _same_rows(
            same_in, ours, theirs, [(model.embedding.weight, source.embedding.weight)]
        )
        ours, theirs = model.output_features.names, source.output_features.names
        pairs = [(model.layer.weight, source.layer.weight), (model.layer.bias, source.layer.bias)]
        found.parts["output features"] = _same_rows(same_out, ours, theirs, pairs)
        found.parts["contextual features"] = _same_rows(
            same_out,
            model.context_names,
            source.context_names,
            [
                (model.layer.context_weight, source.layer.context_weight),
                (model.layer.context_bias, source.layer.context_bias),
            ],
        )
        if model.input_weight is not None and source.input_weight is not None:
            inputs = [(model.input_weight, source.input_weight)]
            found.parts["contextual inputs"] = _same_rows(same_in, model.input_names, source.input_names, inputs)
    if not found.taken:
        raise ConfigError(
            f"nothing of the other model fits: its network is {source.controller!r}, here it is {model.controller!r}; "
            "configure a network of the same kind and sizes"
        )
    return found


def _same_tensors(model: LLRNN, source: LLRNN) -> tuple[int, int]:
    theirs, own, taken = source.controller.state_dict(), model.controller.state_dict(), 0
    fits = type(model.controller) is type(source.controller)
    for name, tensor in own.items():
        if fits and name in theirs and theirs[name].shape == tensor.shape:
            tensor.copy_(theirs[name])
            taken += 1
    return taken, len(own)


def _same_rows(
    fits: bool, ours: Sequence[str], theirs: Sequence[str], pairs: Sequence[tuple[Tensor, Tensor]]
) -> tuple[int, int]:
    """Copy the rows of the names that both have; how many, of how many."""
    row = {name: number for number, name in enumerate(theirs)}
    shared = [(place, row[name]) for place, name in enumerate(ours) if name in row] if fits else []
    if shared:
        into, out = (list(side) for side in zip(*shared, strict=True))
        for own, other in pairs:
            own[into] = other[out].to(own)
    return len(shared), len(ours)
