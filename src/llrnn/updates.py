"""One update of the weights, from one batch.

    loss = −mean log p(x_{t+1} | K) + penalty · mean ‖a‖_p^p
    g = ∇ loss, summed over the processes           g ← g · min(1, clip / ‖g‖)           w ← optimizer(w, g)

Nothing is applied before loss and ‖g‖ have been seen to be finite. Both are looked at together, once the gradients of
all processes are added up, so that all processes go on or none does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from llrnn.averaging import WeightAverage
from llrnn.model import LLRNN, Batch, ModelState
from llrnn.optimizers import make_optimizer
from llrnn.parallel import Share, Workers
from llrnn.settings import TrainingSettings


class NotFiniteError(Exception):
    """Names what is not finite; training says where it stood."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Update:
    """What an update was made from, and where the text goes on."""

    loss: float  # without the penalty, for a word of all processes
    words: int
    carried: ModelState | None


class Updater:
    """The model, the loss, the optimizer, and the average of the weights."""

    def __init__(self, model: LLRNN, settings: TrainingSettings, workers: Workers) -> None:
        self.model, self.settings, self.workers = model, settings, workers
        self.objective = settings.objective.make()
        self.optimizer = make_optimizer(model, settings)
        self.average = WeightAverage(model, settings.average)

    def update(self, batch: Batch, carried: ModelState | None, *, number: int, seed: int) -> Update:
        """The update of this number, counted from 1; `seed` decides what is dropped and drawn."""
        share = self.workers.share(batch)
        self.optimizer.zero_grad(set_to_none=True)
        own, after = torch.zeros((), device=self.model.device), carried
        if share.weight:
            own, after = self._backward(share, carried, share.generator(self.model.device, seed))
        loss = self._finite_loss(self.workers.add_up(self.model.parameters(), own))
        self.optimizer.step()
        self.average.update(number)
        return Update(loss, share.positions, after)

    def _backward(
        self, share: Share, carried: ModelState | None, generator: torch.Generator
    ) -> tuple[Tensor, ModelState]:
        """Gradients of the part of the loss that the rows of this process make up; that part, and the state after."""
        batch = share.batch.to(self.model.device)
        distribution, after = self.model.scan(batch, carried, generator=generator)
        loss = self.objective(self.model, distribution, batch, generator)
        whole = loss + self._penalty(distribution.h) if self.settings.penalty else loss
        (whole * share.weight).backward()  # type: ignore[no-untyped-call]
        return loss.detach() * share.weight, after.detached()

    def _penalty(self, h: Tensor) -> Tensor:
        a = torch.cat([self.model.layer.adaptor(h), self.model.layer.context_adaptor(h)], 1)
        return self.settings.penalty * a.abs().pow(self.settings.penalty_norm).sum(-1).mean()

    def _finite_loss(self, loss: Tensor) -> float:
        """The loss, once it and the gradient are seen to be finite; the gradient is clipped."""
        norm = torch.nn.utils.get_total_norm([gradient for _, gradient in self._gradients()])
        seen, length = torch.stack([loss.to(norm.dtype), norm]).tolist()
        if not (abs(seen) < float("inf") and length < float("inf")):  # NaN is not below anything
            self._blame(loss)
        if self.settings.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.settings.clip, norm)
        return float(seen)

    def _blame(self, loss: Tensor) -> None:
        """What came first is named: a weight, then the loss, then a gradient."""
        self.require_finite_weights()
        require_finite("loss", loss)
        for name, gradient in self._gradients():
            require_finite(f"gradient of {name}", gradient)
        raise NotFiniteError("norm of the gradient")

    def _gradients(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, p.grad) for name, p in self.model.named_parameters() if p.grad is not None)

    def weights(self) -> dict[str, Tensor]:
        """The weights by the names that folders give them."""
        return {f"weights.{name}": parameter.detach() for name, parameter in self.model.named_parameters()}

    def require_finite_weights(self) -> None:
        for name, weight in self.weights().items():
            require_finite(name, weight)


def require_finite(name: str, tensor: Tensor) -> None:
    if not torch.isfinite(tensor).all():
        raise NotFiniteError(name)
