"""Weights averaged along the way: what is validated and kept is the mean of recent weights, which generalises better.

    w̄ ← d·w̄ + (1 − d)·w          after every step, with d = min(decay, (1 + step) / (10 + step))

The ramp of d lets the average forget the random beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """The running average of a model's weights; with no decay, the weights themselves."""

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self._decay = decay
        self._weights = list(model.parameters())
        self._means = [] if decay is None else [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        if self._decay is not None:
            decay = min(self._decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self._means, list(self._weights), 1.0 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with averaged weights, for as long as the block lasts."""
        if self._decay is None:
            yield
            return
        kept = [weight.detach().clone() for weight in self._weights]
        self._fill(self._means)
        try:
            yield
        finally:
            self._fill(kept)

    @torch.no_grad()
    def _fill(self, values: list[Tensor]) -> None:
        for weight, value in zip(self._weights, values, strict=True):
            weight.copy_(value)

    def tensors(self) -> dict[str, Tensor]:
        return {f"average.{number}": mean for number, mean in enumerate(self._means)}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor]) -> None:
        for number, mean in enumerate(self._means):
            mean.copy_(tensors[f"average.{number}"])
