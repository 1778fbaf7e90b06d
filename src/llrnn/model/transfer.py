"""Begin with the weights of another model: what has the same name and fits is taken, the rest stays as it was drawn.

    network      tensors of the same name and shape
    features     the rows of E, W and c whose feature has the same name, where the sizes of ψ and h are the same

Names carry what two models share: attributes of universal inventories (`Number:Plur`), endings, words that are spelled
alike. So a body that was trained on one language begins another's, of which there is less text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.model.network import LLRNN


@dataclass
class Transferred:
    """What `transfer` copied: for each part of the model, how many of its tensors or features, and out of how many.

    `parts`: {name of the part: (number copied, number that `model` has)}, such as {"tensors of the network": (4, 4)}.
    It prints as a sentence.
    """

    parts: dict[str, tuple[int, int]]

    def __str__(self) -> str:
        said = (f"{taken:,} of {size:,} {name}" for name, (taken, size) in self.parts.items() if size)
        return f"taken by name: {', '.join(said)}"


@torch.no_grad()
def transfer(model: LLRNN, source: LLRNN) -> Transferred:
    """Copy into `model`, in place, the weights of `source` that have the same name and fit; return what was copied.

    Weights of features and contextual inputs are copied name by name, tensors of the network where both networks are of
    one class and the tensor has one shape in both. The source stays as it is. Raises ConfigError where nothing fits.
    Train afterwards: what is not shared has its initial weights.

        print(transfer(model, load("runs/estonian")))
    """
    found = {"tensors of the network": _same_tensors(model, source)}
    for part, (names, weights) in _rows(model).items():
        theirs, others = _rows(source)[part]
        fits = all(own.shape[1:] == other.shape[1:] for own, other in zip(weights, others, strict=True))
        found[part] = _same_rows(names, theirs if fits else (), weights, others)
    if not any(taken for taken, _ in found.values()):
        raise ConfigError(
            f"nothing of the other model fits: its network is {source.controller!r}, here it is {model.controller!r}; "
            "configure a network of the same kind and sizes"
        )
    return Transferred(found)


def _rows(model: LLRNN) -> dict[str, tuple[Sequence[str], list[Tensor]]]:
    """Return {part of the model: (names of its features, weight tensors with a row for each name)}.

    The keys are "input features", "output features", "contextual features" and "contextual inputs"; tensors are the
    parameters themselves, not copies.
    """
    layer = model.layer
    inputs = torch.zeros(0, model.controller.inputs) if model.input_weight is None else model.input_weight
    return {
        "input features": (model.input_features.names, [model.embedding.weight]),
        "output features": (model.output_features.names, [layer.weight, layer.bias]),
        "contextual features": (model.context_names, [layer.context_weight, layer.context_bias]),
        "contextual inputs": (model.input_names, [inputs]),
    }


def _same_tensors(model: LLRNN, source: LLRNN) -> tuple[int, int]:
    theirs, own = source.controller.state_dict(), model.controller.state_dict()
    fits = type(model.controller) is type(source.controller)
    shared = [name for name in own if fits and name in theirs and theirs[name].shape == own[name].shape]
    for name in shared:
        own[name].copy_(theirs[name])
    return len(shared), len(own)


def _same_rows(
    ours: Sequence[str], theirs: Sequence[str], weights: Sequence[Tensor], others: Sequence[Tensor]
) -> tuple[int, int]:
    """Copy rows of `others` into `weights`, in place, for names that both have; return (names copied, names in `ours`).

    `ours`, `theirs`: the names of the rows of each tensor in `weights`, and in `others`.
    """
    row = {name: number for number, name in enumerate(theirs)}
    into = [place for place, name in enumerate(ours) if name in row]
    for own, other in zip(weights, others, strict=True) if into else ():
        own[into] = other[[row[ours[place]] for place in into]].to(own)
    return len(into), len(ours)
