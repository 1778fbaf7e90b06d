"""One update of the weights, from one batch.

    loss = −mean log p(x_{t+1} | K) + penalty · mean ‖a‖_p^p
    g = ∇ loss, summed over the processes           g ← g · min(1, clip / ‖g‖)           w ← optimizer(w, g)

Nothing is applied before loss and ‖g‖ have been seen to be finite. Both are looked at together, once the gradients of
all processes are added up, so that all processes go on or none does; it is the one moment at which a GPU is waited for.
What is validated and kept is an average of recent weights (`WeightAverage`). `GraphedUpdater` makes
updates that nobody waits for.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from llrnn.ground.errors import CheckpointError, TrainingError, short
from llrnn.knowledge.process import Batch, ModelState
from llrnn.model.controllers import evaluating
from llrnn.model.network import LLRNN
from llrnn.training.objectives import Exact
from llrnn.training.parallel import Workers
from llrnn.training.settings import TrainingSettings

_NUMBER = re.compile("[0-9]{1,9}")
# what each keeps of a parameter besides its momentum; those that are listed count its steps, too
_ENTRIES = {torch.optim.AdamW: ("exp_avg", "exp_avg_sq"), torch.optim.RMSprop: ("square_avg",)}


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise TrainingError(
            "no parameter of the model requires a gradient, so nothing can be trained; call model.requires_grad_()"
        )
    weights, rate = list(model.parameters()), settings.learning_rate
    momentum, decay = settings.momentum, settings.weight_decay
    captured = all(weight.is_cuda for weight in weights)  # may become part of a CUDA graph
    match settings.optimizer:
        case "sgd":
            return torch.optim.SGD(weights, rate, momentum=momentum, weight_decay=decay)
        case "rmsprop":
            return torch.optim.RMSprop(weights, rate, 0.9, momentum=momentum, weight_decay=decay, capturable=captured)
        case "adamw":
            # one pass over the weights instead of a dozen: a fifth of the time, which every process of a team spends
            return torch.optim.AdamW(weights, rate, weight_decay=decay, fused=True, capturable=captured)


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
            number, _, name = key.removeprefix("optimizer.").partition(".")
            if not _NUMBER.fullmatch(number):
                raise _unfit(f"{short(key)} names no parameter by its number")
            state.setdefault(int(number), {})[name] = tensor
    parameters = [(group, parameter) for group in optimizer.param_groups for parameter in group["params"]]
    if not set(state) <= set(range(len(parameters))):
        raise CheckpointError("the saved state of the optimizer is of another model")
    for place, entries in state.items():
        for name, shape in _shapes(optimizer, *parameters[place]).items():
            if name not in entries:
                raise _unfit(f"optimizer.{place}.{name} is missing")
            if entries[name].shape != shape:
                found = tuple(entries[name].shape)
                raise _unfit(f"optimizer.{place}.{name} must be of shape {tuple(shape)}, found {found}")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _shapes(optimizer: torch.optim.Optimizer, group: dict[str, Any], parameter: Tensor) -> dict[str, torch.Size]:
    """The entries that the optimizer keeps of a parameter that it has updated, and their shapes."""
    names = _ENTRIES.get(type(optimizer), ())
    shapes = dict.fromkeys(names, parameter.shape)
    if group.get("momentum"):
        shapes["momentum_buffer"] = parameter.shape
    return {**shapes, "step": torch.Size()} if names else shapes


def _unfit(reason: str) -> CheckpointError:
    return CheckpointError(
        f"the saved state of the optimizer is not whole: {reason}; restore the folder from a copy, "
        "or start anew in another"
    )


# Weights averaged along the way: what is validated and kept is the mean of recent weights, which generalises better.
#
#     w̄ ← d·w̄ + (1 − d)·w          after every step, with d = min(decay, (1 + step) / (10 + step))
#
# The ramp of d lets the average forget the random beginning.


class WeightAverage:
    """The running average of a model's weights; with no decay, the weights themselves."""

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self._decay = decay
        self._weights: list[Tensor] = list(model.parameters())
        self._means = [] if decay is None else [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        if self._decay is not None:
            decay = min(self._decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self._means, self._weights, 1.0 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with averaged weights, for as long as the block lasts."""
        if self._decay is None:
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
            mean.copy_(tensors[f"average.{number}"])


class NotFiniteError(Exception):
    """Names what is not finite; training says where it stood."""


@dataclass(frozen=True)
class Update:
    """What an update was made from, and where the text goes on."""

    words: int
    carried: ModelState | None
    loss: Callable[[], float]  # blocks; the mean loss per word over all processes, without penalty; or NotFiniteError


class Updater:
    """The model, the loss, the optimizer, and the average of the weights."""

    def __init__(self, model: LLRNN, settings: TrainingSettings, workers: Workers) -> None:
        self.model, self.settings, self.workers = model, settings, workers
        self.objective = settings.objective.make()
        self.optimizer = make_optimizer(model, settings)
        self.average = WeightAverage(model, settings.average)

    def update(self, batch: Batch, carried: ModelState | None, *, number: int, seed: int) -> Update:
        """The update of this number, counted from 1; `seed` decides what is dropped and drawn."""
        own, after, device = self.workers.share(batch), carried, self.model.device
        weight = own.n_positions / batch.n_positions  # of the mean over its own rows in the mean over all
        self.optimizer.zero_grad(set_to_none=True)
        part = torch.zeros((), device=device)  # of the loss that the rows of this process make up
        if weight:
            generator = self.workers.generator(batch, device, seed)
            mean, after = self.backward(own.to(device), carried, generator, weight)
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
        return Update(batch.n_positions, after, lambda: float(seen))

    def backward(
        self, batch: Batch, carried: ModelState | None, generator: torch.Generator, weight: float = 1.0
    ) -> tuple[Tensor, ModelState]:
        """The loss of a batch, times `weight` in the gradients; and the state after."""
        distribution, after = self.model.scan(batch, carried, generator=generator)
        loss = self.objective(self.model, distribution, batch, generator)
        whole = loss
        if self.settings.penalty:
            layer, h = self.model.layer, distribution.h
            a = torch.cat([layer.adaptor(h), layer.context_adaptor(h)], 1)
            whole = loss + self.settings.penalty * a.abs().pow(self.settings.penalty_norm).sum(-1).mean()
        (whole * weight).backward()  # type: ignore[no-untyped-call]
        return loss.detach(), after.detached()

    def _require_finite(self, loss: float, norm: float, batch: Batch | None, carried: ModelState | None = None) -> None:
        """What came first is named: a weight, then a word without mass, then the loss, then a gradient."""
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
        """The weights by the names that folders give them."""
        return {f"weights.{name}": parameter.detach() for name, parameter in self.model.named_parameters()}

    def require_finite_weights(self) -> None:
        weights = self.weights()
        finite = torch.stack([torch.isfinite(weight).all() for weight in weights.values()]).tolist()  # asked once
        for name, is_finite in zip(weights, finite, strict=True):
            if not is_finite:
                raise NotFiniteError(name)


# Updates as CUDA graphs: where batches have one shape, one launch in the place of some hundreds.
#
#     ok = loss and ‖g‖ are finite          g ← g · min(1, clip / ‖g‖) if ok, else 0          w ← optimizer(w, g)
#
# All of it, from the forward pass to the weights, is one graph, and nobody waits for it: loss and ‖g‖ are looked at
# when the next update is under way. What a graph reads and writes lies where it lay when it was recorded: batches and
# states are copied to its inputs, and what it found is overwritten by the next replay. `Updater` makes the first
# updates, and those of shapes that come too seldom; the numbers are the same.

_BEFORE = 3  # updates before one is recorded: by then kernels are compiled and the optimizer is set up
_MOST = 4  # shapes; what a graph works with stays allocated
Results = Sequence[Tensor]
Act = Callable[[], Results]
Replay = Callable[[], None]  # does again what was recorded; its results lie where they lay
Shape = tuple[object, ...]


class CudaGraphs:
    """Records acts, functions without arguments, as graphs of the current GPU; a record is replayed before it counts.

    All on one stream, for workspaces of libraries belong to streams.
    """

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def warm_up(self, act: Act) -> None:
        """Does it once, so that whatever is set up once is there."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            act()
        torch.cuda.current_stream().wait_stream(self._stream)

    def record(self, act: Act, generator: torch.Generator | None = None) -> tuple[Results, Replay]:
        """Where its results will lie, and how to get them."""
        graph = torch.cuda.CUDAGraph()
        if generator is not None:
            graph.register_generator_state(generator)
        # other threads may go on meanwhile: one of them brings the next batch
        with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
            found = act()
        return found, graph.replay

    def copy_to_cpu(self, numbers: Tensor) -> Callable[[], list[float]]:
        """Numbers as they are now; what is returned waits for them."""
        copied, done = numbers.to("cpu", non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()

        def waited_for() -> list[float]:
            done.synchronize()
            found: list[float] = copied.tolist()
            return found

        return waited_for


def updater_for(model: LLRNN, settings: TrainingSettings, workers: Workers) -> Updater:
    """The fastest that the model, where it is, and the way it is trained allow."""
    if model.device.type == "cuda" and can_be_captured(model, settings, workers):
        return GraphedUpdater(model, settings, workers, CudaGraphs())
    return Updater(model, settings, workers)


def can_be_captured(model: LLRNN, settings: TrainingSettings, workers: Workers) -> bool:
    """Whether a step is the same sequence of operations on tensors, whatever stands in the batch.

    A background or a feature that follows the text, a condition, words that are drawn or several processes need Python,
    or memory of another size, in the middle of a step.
    """
    return (
        workers.size == 1
        and isinstance(settings.objective.make(), Exact)
        and not model.controller.reads_conditions
        and model.background.is_static
        and not model.contextual
        and model.background.prior([]) is model.background.prior([])  # nothing is made anew, and copied, at every step
    )


class GraphedUpdater(Updater):
    """Updates of which those of frequent shapes are recorded, and replayed."""

    def __init__(self, model: LLRNN, settings: TrainingSettings, workers: Workers, recorder: CudaGraphs) -> None:
        super().__init__(model, settings, workers)
        self.recorder = recorder
        self._seen: Counter[Shape] = Counter()
        self._recorded: dict[Shape, _Recorded] = {}
        self._rate = settings.learning_rate

    def update(self, batch: Batch, carried: ModelState | None, *, number: int, seed: int) -> Update:
        recorded = self._recorded_for(batch, carried)
        if recorded is None:
            return super().update(batch, carried, number=number, seed=seed)
        loss_and_norm, after = recorded.replayed(batch, carried, seed)
        torch.autograd.graph.increment_version(self.model.parameters())  # replays write without torch's knowing
        coming = self.recorder.copy_to_cpu(loss_and_norm)
        self.average.update(number)

        def wait_for_loss() -> float:
            loss, norm = coming()
            self._require_finite(loss, norm, batch)
            return loss

        return Update(batch.n_positions, after, wait_for_loss)

    def _recorded_for(self, batch: Batch, carried: ModelState | None) -> _Recorded | None:
        """None for the first batches, for the first of each shape, and when there are enough shapes already."""
        if self.optimizer.param_groups[0]["lr"] != self._rate:  # a number in the graph
            self._rate = self.optimizer.param_groups[0]["lr"]
            self._recorded.clear()
        shape = (carried is None, *((name, tensor.shape) for name, tensor in batch.tensors().items()))
        again = self._seen[shape] > 0 and self._seen.total() >= _BEFORE
        self._seen[shape] += 1
        if shape not in self._recorded and again and len(self._recorded) < _MOST:
            self._recorded[shape] = _Recorded(self, batch, carried)
        return self._recorded.get(shape)


class _Recorded:
    """An update by batches of one shape."""

    def __init__(self, updater: GraphedUpdater, batch: Batch, carried: ModelState | None) -> None:
        self._updater = updater
        self._generator = torch.Generator(updater.model.device)
        placed = batch.to(updater.model.device)
        self._batch = placed.with_tensors({k: tensor.clone().contiguous() for k, tensor in placed.tensors().items()})
        self._carried = carried and ModelState(tuple(part.clone() for part in carried.controller), carried.knowledge)
        self._record: tuple[Results, Replay] | None = None

    def replayed(self, batch: Batch, carried: ModelState | None, seed: int) -> tuple[Tensor, ModelState]:
        """Loss and ‖g‖, (2,), and the state after; they hold until the next replay."""
        for own, given in zip(self._batch.tensors().values(), batch.tensors().values(), strict=True):
            own.copy_(given, non_blocking=True)
        if self._carried is not None and carried is not None:
            torch._foreach_copy_(list(self._carried.controller), list(carried.controller))
        if self._record is None:
            self._updater.recorder.warm_up(self._backward)
            self._generator.manual_seed(seed)
            self._record = self._updater.recorder.record(self._update, self._generator)
        (loss_and_norm, *after), replay = self._record
        self._generator.manual_seed(seed)
        replay()
        return loss_and_norm, ModelState(tuple(after), self._knowledge)

    def _backward(self) -> Results:
        """The loss, and the controller's state after; parameters have their gradients."""
        self._updater.optimizer.zero_grad(set_to_none=True)
        loss, after = self._updater.backward(self._batch, self._carried, self._generator)
        self._knowledge = after.knowledge  # that of static sources: nothing
        return [loss, *after.controller]

    def _update(self) -> Results:
        """Loss and ‖g‖, and the controller's state after; the weights have followed."""
        loss, *after = self._backward()
        gradients = [p.grad for p in self._updater.model.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        found, clip = torch.stack([loss.to(norm.dtype), norm]), self._updater.settings.clip
        factor = torch.ones_like(norm) if clip is None else (clip / (norm + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.nan_to_num_(0.0, 0.0, 0.0)
        torch._foreach_mul_(gradients, torch.where(found.isfinite().all(), factor, 0.0))
        self._updater.optimizer.step()
        return [found, *after]
