"""One update of the weights, from one batch.

    loss = −mean log p(x_{t+1} | K) + α mean h² + β mean (h_t − h_{t−1})²          α, β: 0 unless settings say otherwise
    g = ∇ loss, summed over the processes           g ← g · min(1, clip / ‖g‖)           w ← optimizer(w, g)

Nothing is applied before loss and ‖g‖ have been seen to be finite. Both are looked at together, once the gradients of
all processes are added up, so that all processes go on or none does; it is the one moment at which a GPU is waited for.
What is validated and kept is an average of recent weights (`optimizer.WeightAverage`). `graphs.GraphedUpdater` makes
updates that nobody waits for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.distribution import Distribution
from llrnn.layer.mixed import MixedDistribution
from llrnn.model.controllers import evaluating
from llrnn.model.network import LLRNN
from llrnn.training.objectives import Distilled, ImportanceSampling
from llrnn.training.optimizer import WeightAverage, make_optimizer
from llrnn.training.settings import TrainingSettings
from llrnn.training.workers import Workers


class NotFiniteError(Exception):
    """A loss, gradient or weight is not finite; the message is what it is called, and `train` adds the step.

    Internal: users see a NonFiniteError.
    """


@dataclass(frozen=True)
class Update:
    """The result of one weight update: the number of `words` in the batch, the model's state after it, and its loss.

    `carried`: the state, a `ModelState` or None. `loss()` waits, since a GPU may still be computing, and returns the
    mean loss in nats a word over all processes; it raises NotFiniteError where that is not finite.
    """

    words: int
    carried: ModelState | None
    loss: Callable[[], float]  # blocks; the mean loss per word over all processes; or NotFiniteError


class Updater:
    """Updates the weights of a model batch by batch: loss, gradients, clipping, optimizer, average of weights.

    `workers`: the processes that train together, each of which takes some rows of every batch. Raises BackgroundError
    for a teacher of another vocabulary, ConfigError for a loss that the model cannot have. Use:
    `updater.update(updater.prepared(batch), None, number=1, seed=0).loss()`.
    """

    def __init__(self, model: LLRNN, settings: TrainingSettings, workers: Workers) -> None:
        self.model, self.settings, self.workers = model, settings, workers
        self.objective = settings.objective.make()
        if isinstance(self.objective, Distilled):
            self.objective.require_same_words(model)
        elif isinstance(self.objective, ImportanceSampling):
            self.objective.require_scores(model)
        varies = settings.schedule.kind != "constant"
        rate, decay = settings.learning_rate, settings.weight_decay
        self.optimizer = make_optimizer(model, settings.optimizer, rate, decay, varies=varies)
        self.average = WeightAverage(model, settings.average, at_last=settings.average_last is not None)

    def update(self, batch: Batch, carried: ModelState | None, *, number: int, seed: int) -> Update:
        """Update the weights on one batch; return its number of words, the model's state after it, and its loss.

        `carried`: the state to continue from, None for a fresh one; `number`: of the update, from 1; `seed`: decides
        dropout and samples. Raises NotFiniteError, before any weight is changed, where loss or gradient is not finite.
        """
        own, after, device = self.workers.share(batch), carried, self.model.device
        weight = own.n_positions / batch.n_positions  # of the mean over its own rows in the mean over all
        self.optimizer.zero_grad(set_to_none=True)
        part = torch.zeros((), device=device)  # of the loss that the rows of this process make up
        if weight:
            generator = self.workers.generator(batch, device, seed)
            mean, after = self.backward(self.with_teacher(own).to(device), carried, generator, weight)
            part = mean * weight
        loss = self.workers.sum_gradients(self.model.parameters(), part)
        norm = torch.nn.utils.get_total_norm([gradient for _, gradient in self._gradients()])
        seen, length = torch.stack([loss.to(norm.dtype), norm]).tolist()
        self._require_finite(seen, length, own if weight else None, carried)
        if self.settings.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.settings.clip, norm)
        self.optimizer.step()
        torch.autograd.graph.increment_version(self.model.parameters())  # fused ones do not
        self.average.update(number)
        return Update(batch.n_words, after, lambda: float(seen))

    def prepared(self, batch: Batch) -> Batch:
        """Return the batch in the form that `update` wants; here unchanged, subclasses may pad it or add values.

        A background thread may call this ahead of `update`.
        """
        return batch

    def with_teacher(self, batch: Batch) -> Batch:
        """Return the batch itself; in distillation a copy on the model's device, with the teacher's probabilities.

        These are `precomputed.teacher` of the copy, (N, V) for the V words at the N positions that are not padding.
        """
        return (
            self.objective.with_teacher(batch.to(self.model.device)) if isinstance(self.objective, Distilled) else batch
        )

    def backward(
        self, batch: Batch, carried: ModelState | None, generator: torch.Generator, weight: float = 1.0
    ) -> tuple[Tensor, ModelState]:
        """Compute the gradients of the loss of a batch, times `weight`; return the loss, (), and the model's state.

        The loss is the mean over words; the state is that after the batch. `carried`: the state to continue from, None
        for a fresh one; `generator`: decides dropout and samples.
        """
        distribution, after = self.model.scan(batch, carried, generator=generator)
        loss = self.objective(self.model, distribution, batch, generator)
        whole = loss + self._restraint(distribution, batch)
        (whole * weight).backward()  # type: ignore[no-untyped-call]
        return loss.detach(), after.detached()

    def _restraint(self, p: Distribution, batch: Batch) -> Tensor | float:
        """Return α mean h² + β mean (h_t − h_{t−1})² of the batch's N positions, for `activation` α and `slowness` β.

        Both are sums over coordinates of h that are divided by N · H; a change is one between positions of a row that
        both count. `p`: the distribution of the model at the positions.
        """
        alpha, beta = self.settings.activation, self.settings.slowness
        if not alpha and not beta:
            return 0.0
        h, weights = (p.parts[0] if isinstance(p, MixedDistribution) else p).h, batch.precomputed.weights
        counts = (batch.mask if weights is None else weights > 0).to(h.dtype).unsqueeze(-1)
        if batch.positions is not None:
            h = h.new_zeros(batch.mask.numel(), h.shape[1]).index_copy(0, batch.positions, h)
        dense = h.view(*batch.mask.shape, -1) * counts
        change = (dense[:, 1:] - dense[:, :-1]) * counts[:, 1:] * counts[:, :-1]
        total = alpha * dense.square().sum() + beta * change.square().sum()
        return total / (counts.sum() * h.shape[1])

    def _require_finite(self, loss: float, norm: float, batch: Batch | None, carried: ModelState | None = None) -> None:
        """Raise an error where loss or gradient norm is not finite, naming the cause.

        It is a NotFiniteError for a weight, the loss or a gradient, and a ZeroMassError where the prior b(K, x) gives a
        target of the batch probability 0. `batch`: the rows of this process, None where it has none; `carried`: the
        state that the batch began from.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            return
        self.require_finite_weights()
        if batch is not None:  # the background must give some mass to every word
            placed = batch.to(self.model.device)
            with torch.no_grad(), evaluating(self.model):
                distribution, _ = self.model.scan(placed, carried)
            self.model.refuse_zero_mass(distribution, placed.picked(placed.targets))
        if not math.isfinite(loss):
            raise NotFiniteError("loss")
        for name, gradient in self._gradients():
            if not torch.isfinite(gradient).all():
                raise NotFiniteError(f"gradient of {name}")
        raise NotFiniteError("norm of the gradient")

    def _gradients(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, p.grad) for name, p in self.model.named_parameters() if p.grad is not None)

    def weights(self) -> dict[str, Tensor]:
        """Return the model's weights, and other tensors that are saved with it, by their names in model folders."""
        return self.model.weights()

    def require_finite_weights(self) -> None:
        weights = {name: weight for name, weight in self.weights().items() if name.startswith("weights.")}
        finite = torch.stack([torch.isfinite(weight).all() for weight in weights.values()]).tolist()  # asked once
        for name, is_finite in zip(weights, finite, strict=True):
            if not is_finite:
                raise NotFiniteError(name)
