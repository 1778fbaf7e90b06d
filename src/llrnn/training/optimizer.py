"""The optimizer, what a checkpoint keeps of it, and the running average of the weights.

Weights averaged along the way: what is validated and kept is the mean of recent weights, which generalises better.

    w̄ ← d·w̄ + (1 − d)·w          after every step, with d = min(decay, (1 + step) / (10 + step))

The ramp of d lets the average forget the random beginning. From some step on the mean can be that of all weights since:

    w̄ ← w̄ + (w − w̄) / n          n = 1, 2, … steps, in the last part of a training
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from llrnn.ground.errors import CheckpointError, TrainingError, short

_NUMBER = re.compile("[0-9]{1,9}")
# what each keeps of a parameter, besides the number of its steps; SGD keeps nothing
_ENTRIES = {torch.optim.AdamW: ("exp_avg", "exp_avg_sq"), torch.optim.RMSprop: ("square_avg",)}


def make_optimizer(
    model: nn.Module, kind: Literal["sgd", "rmsprop", "adamw"], rate: float, decay: float, *, varies: bool = False
) -> torch.optim.Optimizer:
    """Return a torch optimizer over all weights of a model: SGD, RMSprop or AdamW.

    `rate`: learning rate; `decay`: weight decay; `varies`: whether the rate changes from step to step; it is then a
    tensor beside the weights, which a recorded step reads. Raises TrainingError where no weight requires a gradient.
    """
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise TrainingError(
            "no parameter of the model requires a gradient, so nothing can be trained; call model.requires_grad_()"
        )
    weights = list(model.parameters())
    captured = all(weight.is_cuda for weight in weights)  # may become part of a CUDA graph
    lr = torch.tensor(rate, device=weights[0].device) if varies else rate
    match kind:
        case "sgd":  # the usual one asks for a rate on a GPU
            return torch.optim.SGD(weights, lr, weight_decay=decay, fused=True if lr is not rate else None)
        case "rmsprop":
            return torch.optim.RMSprop(weights, lr, 0.9, weight_decay=decay, capturable=captured)
        case "adamw":
            # one pass over the weights instead of a dozen: a fifth of the time, which every process of a team spends
            return torch.optim.AdamW(weights, lr, weight_decay=decay, fused=True, capturable=captured)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of the optimizer's state for a checkpoint, such as `optimizer.0.exp_avg`.

    The number is the index of the parameter. Empty before the first step.
    """
    state: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"optimizer.{number}.{name}": value
        for number, entries in state.items()
        for name, value in entries.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put tensors that `optimizer_tensors` returned back into an optimizer; keys without `optimizer.` are ignored.

    A parameter that was never updated has no tensors. Raises CheckpointError where a parameter has some of its tensors
    but not all, where a tensor has another shape, or where it is of a parameter that the optimizer does not have.
    """
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            number, _, name = key.removeprefix("optimizer.").partition(".")
            if not _NUMBER.fullmatch(number):
                raise _unfit(f"{short(key)} names no parameter by its number")
            state.setdefault(int(number), {})[name] = tensor
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if not set(state) <= set(range(len(parameters))):
        raise CheckpointError("the saved state of the optimizer is of another model")
    for place, entries in state.items():
        for name, shape in _shapes(optimizer, parameters[place]).items():
            if name not in entries:
                raise _unfit(f"optimizer.{place}.{name} is missing")
            if entries[name].shape != shape:
                found = tuple(entries[name].shape)
                raise _unfit(f"optimizer.{place}.{name} must be of shape {tuple(shape)}, found {found}")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _shapes(optimizer: torch.optim.Optimizer, parameter: Tensor) -> dict[str, torch.Size]:
    """Return the name and shape of each tensor that the optimizer keeps of a parameter after its first update.

    For example {"exp_avg": …, "exp_avg_sq": …, "step": ()} of AdamW; nothing of SGD.
    """
    names = _ENTRIES.get(type(optimizer), ())
    return {**dict.fromkeys(names, parameter.shape), "step": torch.Size()} if names else {}


def _unfit(reason: str) -> CheckpointError:
    return CheckpointError(f"the saved state of the optimizer is not whole: {reason}")


class WeightAverage:
    """An average of a model's weights, used for validation and the kept model: exponential, at last of equal weights.

    `decay`: of the average, 0 to 1, None: no exponential average; `at_last`: whether there will be one of equal weights
    from the step `since` on. Without either `applied` leaves the weights as they are. Call `update(step)` after each
    step; `with average.applied(): ...` uses the average.
    """

    def __init__(self, model: nn.Module, decay: float | None, *, at_last: bool = False) -> None:
        self._decay = decay
        self.since: int | None = None  # the first step of equal weights
        self._weights: list[Tensor] = list(model.parameters())
        self._means = [weight.detach().clone() for weight in self._weights] if at_last or decay is not None else []

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Set the average to d · average + (1 − d) · the model's present weights; nothing where there is no average.

        d is `decay`, but at most (1 + step) / (10 + step), so that the average follows faster in the first steps;
        `step`: the number of updates so far, from 1. From the step `since` on it is the mean of all weights since.
        """
        if self.since is not None and step >= self.since:
            torch._foreach_lerp_(self._means, self._weights, 1.0 / (step - self.since + 1))
        elif self._decay is not None:
            decay = min(self._decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self._means, self._weights, 1.0 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Context manager (yields None): the model has the averaged weights in the block, its own again after it."""
        if self._decay is None and self.since is None:
            yield
            return
        kept = [weight.detach().clone() for weight in self._weights]
        with torch.no_grad():
            torch._foreach_copy_(self._weights, self._means)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(self._weights, kept)

    def tensors(self) -> dict[str, Tensor]:
        return {f"average.{number}": mean for number, mean in enumerate(self._means)}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        for number, mean in enumerate(self._means):
            found = tensors.get(f"average.{number}")
            if found is None or found.shape != mean.shape:
                raise _unfit(f"average.{number} must be of shape {tuple(mean.shape)}")
            mean.copy_(found)
