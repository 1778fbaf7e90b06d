"""One update of the weights, from one batch.

    loss = −mean log p(x_{t+1} | K) + penalty · mean ‖a‖_p^p
    g = ∇ loss, summed over the processes           g ← g · min(1, clip / ‖g‖)           w ← optimizer(w, g)

Nothing is applied before loss and ‖g‖ have been seen to be finite. Both are looked at together, once the gradients of
all processes are added up, so that all processes go on or none does; it is the one moment at which a GPU is waited for.
`training.captured` has updates that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from llrnn.knowledge.sequences import Batch, ModelState
from llrnn.model.network import LLRNN
from llrnn.training.averaging import WeightAverage
from llrnn.training.optimizers import make_optimizer
from llrnn.training.parallel import Share, Workers
from llrnn.training.settings import TrainingSettings


class NotFiniteError(Exception):
    """Names what is not finite; training says where it stood."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Update:
    """What an update was made from, and where the text goes on."""

    words: int
    carried: ModelState | None
    look: Callable[[], float]  # waits for the loss for a word of all processes, without the penalty; or NotFiniteError


class Updater:
    """The model, the loss, the optimizer, and the average of the weights."""

    def __init__(self, model: LLRNN, settings: TrainingSettings, workers: Workers) -> None:
        self.model, self.settings, self.workers = model, settings, workers
        self.objective = settings.objective.make()
        self.optimizer = make_optimizer(model, settings)
        self.average = WeightAverage(model, settings.average)

    def update(self, batch: Batch, carried: ModelState | None, *, number: int, seed: int) -> Update:
        """The update of this number, counted from 1; `seed` decides what is dropped and drawn."""
        share, after = self.workers.share(batch), carried
        self.optimizer.zero_grad(set_to_none=True)
        if share.weight:
            own, after = self._differentiated(share, carried, seed)
        else:
            own = torch.zeros((), device=self.model.device)
        loss = self.workers.add_up(self.model.parameters(), own)
        norm = torch.nn.utils.get_total_norm([gradient for _, gradient in self._gradients()])
        seen, length = torch.stack([loss.to(norm.dtype), norm]).tolist()
        if not (abs(seen) < float("inf") and length < float("inf")):  # NaN is not below anything
            self._blame(loss, share, carried)
        self._apply(norm)
        self.average.update(number)
        return Update(share.positions, after, lambda: float(seen))

    def _differentiated(self, share: Share, carried: ModelState | None, seed: int) -> tuple[Tensor, ModelState]:
        """Gradients of the part of the loss that the rows of this process make up; that part, and the state after."""
        batch, generator = share.batch.to(self.model.device), share.generator(self.model.device, seed)
        loss, after = self.backward(batch, carried, generator, share.weight)
        return loss * share.weight, after

    def backward(
        self, batch: Batch, carried: ModelState | None, generator: torch.Generator, weight: float = 1.0
    ) -> tuple[Tensor, ModelState]:
        """The loss of a batch, times `weight` in the gradients; and the state after."""
        distribution, after = self.model.scan(batch, carried, generator=generator)
        loss = self.objective(self.model, distribution, batch, generator)
        whole = loss + self._penalty(distribution.h) if self.settings.penalty else loss
        (whole * weight).backward()  # type: ignore[no-untyped-call]
        return loss.detach(), after.detached()

    def _penalty(self, h: Tensor) -> Tensor:
        a = torch.cat([self.model.layer.adaptor(h), self.model.layer.context_adaptor(h)], 1)
        return self.settings.penalty * a.abs().pow(self.settings.penalty_norm).sum(-1).mean()

    def _apply(self, norm: Tensor) -> None:
        """Clips the gradients, whose norm is given, and follows them."""
        if self.settings.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.settings.clip, norm)
        self.optimizer.step()

    def _blame(self, loss: Tensor, share: Share, carried: ModelState | None) -> NoReturn:
        """What came first is named: a weight, then a word without mass, then the loss, then a gradient."""
        self.require_finite_weights()
        if share.weight:
            self.require_mass(share.batch, carried)
        require_finite("loss", loss)
        for name, gradient in self._gradients():
            require_finite(f"gradient of {name}", gradient)
        raise NotFiniteError("norm of the gradient")

    @torch.no_grad()
    def require_mass(self, batch: Batch, carried: ModelState | None = None) -> None:
        """The background must give some mass to every word."""
        placed = batch.to(self.model.device)
        self.model.refuse_zero_mass(self.model.scan(placed, carried)[0], placed.picked(placed.targets))

    def _gradients(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, p.grad) for name, p in self.model.named_parameters() if p.grad is not None)

    def weights(self) -> dict[str, Tensor]:
        """The weights by the names that folders give them."""
        return {f"weights.{name}": parameter.detach() for name, parameter in self.model.named_parameters()}

    def require_finite_weights(self) -> None:
        weights = self.weights()
        if not torch.stack([torch.isfinite(weight).all() for weight in weights.values()]).all():  # asked once
            for name, weight in weights.items():
                require_finite(name, weight)


def require_finite(name: str, tensor: Tensor) -> None:
    if not torch.isfinite(tensor).all():
        raise NotFiniteError(name)
