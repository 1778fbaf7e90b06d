"""Optimizers, and their state as named tensors and plain numbers (torch's own format is a pickle)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from llrnn.errors import CheckpointError, TrainingError
from llrnn.settings import TrainingSettings


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise TrainingError("a frozen model is for inference only; train the model that it was made of")
    rate, decay = settings.learning_rate, settings.weight_decay
    captured = all(parameter.is_cuda for parameter in model.parameters())  # may become part of a CUDA graph
    match settings.optimizer:
        case "sgd":
            return torch.optim.SGD(model.parameters(), lr=rate, momentum=settings.momentum, weight_decay=decay)
        case "rmsprop":
            return torch.optim.RMSprop(
                model.parameters(),
                lr=rate,
                alpha=0.9,
                momentum=settings.momentum,
                weight_decay=decay,
                capturable=captured,
            )
        case "adamw":
            # one pass over the weights instead of a dozen: a fifth of the time, which every process of a team spends
            return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay, fused=True, capturable=captured)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """`optimizer.<number of the parameter>.<name>` for every tensor of the state."""
    state: dict[int, dict[str, Any]] = optimizer.state_dict()["state"]
    return {
        f"optimizer.{number}.{name}": value
        for number, entries in state.items()
        for name, value in entries.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put saved tensors back; those of a parameter that was never updated stay absent."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".", 2)
            state.setdefault(int(number), {})[name] = tensor
    whole = optimizer.state_dict()
    if not set(state) <= set(range(sum(len(group["params"]) for group in whole["param_groups"]))):
        raise CheckpointError("the saved state of the optimizer is of another model")
    optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})
