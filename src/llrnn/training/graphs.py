"""Updates as CUDA graphs: where batches have one shape, one launch in the place of some hundreds.

    ok = loss and ‖g‖ are finite          g ← g · min(1, clip / ‖g‖) if ok, else 0          w ← optimizer(w, g)

All of it, from the forward pass to the weights, is one graph, and nobody waits for it: loss and ‖g‖ are looked at
when the next update is under way. What a graph reads and writes lies where it lay when it was recorded: batches and
states are copied to its inputs, and what it found is overwritten by the next replay. `Updater` makes the first
updates, and those of shapes that come too seldom; the numbers are the same.

Batches of whole sentences have as many shapes as there are lengths. They are padded to one of a few dozen (at most
an eighth more rows, an eighth more columns or three), with positions of weight 0. What contextual inputs and features
say is made of the text before the step, by a thread with a stream of its own, and is an input of the graph as well
(`training.precompute`); lists of words that features single out are padded, too. All graphs share their memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from llrnn.knowledge.process import Batch, ModelState
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences
from llrnn.training.precompute import KnowledgeCache
from llrnn.training.settings import DistilObjective, ExactObjective, TrainingSettings
from llrnn.training.updates import Update, Updater
from llrnn.training.workers import Workers

_BEFORE = 3  # updates before one is recorded: by then kernels are compiled and the optimizer is set up
_MOST = 128  # shapes
_SPARE = 0.3  # of the memory of a GPU that is free before training
Results = Sequence[Tensor]
Act = Callable[[], Results]
Replay = Callable[[], None]  # does again what was recorded; its results lie where they lay
Shape = tuple[object, ...]


class CudaGraphs:
    """A recorder of functions without arguments as CUDA graphs of the current GPU, which can be replayed.

    All are recorded on one stream, since workspaces of libraries belong to streams, and share one memory pool: the
    results of a graph are valid after it was replayed, and until any graph is replayed again. Use:
    `graphs.warm_up(act)`, then `results, replay = graphs.record(act)`; each `replay()` fills the tensors `results`.
    """

    def __init__(self) -> None:
        self._stream, self._beside = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()  # nothing that a graph allocates is asked for after the next replay

    def warm_up(self, act: Act) -> None:
        """Run a function without arguments once, on the stream for recording, before `record`.

        So libraries are initialised, which cannot be recorded.
        """
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            act()
        torch.cuda.current_stream().wait_stream(self._stream)

    def record(self, act: Act, generator: torch.Generator | None = None) -> tuple[Results, Replay]:
        """Record a function as a CUDA graph; return the tensors that hold its results, and a function that replays it.

        `act`: a function without arguments that returns tensors. Recording computes nothing: the tensors are filled by
        the first replay, and overwritten by each. `generator`: the random generator that `act` draws from, None if it
        does not.
        """
        graph = torch.cuda.CUDAGraph()
        if generator is not None:
            graph.register_generator_state(generator)
        # other threads may go on meanwhile: one of them brings the next batch
        with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
            found = act()
        return found, graph.replay

    def spare_memory(self) -> int:
        """Return how many bytes of GPU memory may be kept for precomputed values: 30 % of what is free now."""
        free, _ = torch.cuda.mem_get_info()
        return int(free * _SPARE)

    def ahead(self, make: Callable[[], Batch | None]) -> Batch | None:
        """Return `make()`, a batch or None, called on a CUDA stream of its own, so that it does not wait for updates.

        The batch is complete on return, and safe to use on the current stream.
        """
        with torch.cuda.stream(self._beside):
            batch = make()
        self._beside.synchronize()
        for tensor in batch.tensors().values() if batch is not None else ():
            if tensor.is_cuda:
                tensor.record_stream(torch.cuda.current_stream())
        return batch

    def copy_to_cpu(self, numbers: Tensor) -> Callable[[], list[float]]:
        """Start to copy a tensor (n,) from the GPU; return a function that waits for it and returns n floats."""
        copied, done = numbers.to("cpu", non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()

        def waited_for() -> list[float]:
            done.synchronize()
            found: list[float] = copied.tolist()
            return found

        return waited_for


def updater_for(model: LLRNN, settings: TrainingSettings, workers: Workers) -> Updater:
    """Return what updates the model's weights batch by batch: by replayed CUDA graphs, or else step by step.

    CUDA graphs are used for a model on a GPU where `can_be_captured` is true of these arguments; `workers`: the
    processes that train together.
    """
    if model.device.type == "cuda" and can_be_captured(model, settings, workers):
        return GraphedUpdater(model, settings, workers, CudaGraphs())
    return Updater(model, settings, workers)


def can_be_captured(model: LLRNN, settings: TrainingSettings, workers: Workers) -> bool:
    """Whether a training step is a fixed sequence of tensor operations, so that a CUDA graph can record it.

    False with a prior b(K, x) that depends on the text, with conditions, sampled losses, mixed-in n-grams, several
    processes or a user's own network that needs Python during a step. Contextual features and inputs are allowed where
    every batch begins from a fresh state: their values are computed before the step.
    """
    knows = bool(model.contextual or model.contextual_inputs)
    return (
        workers.size == 1
        and isinstance(settings.objective, ExactObjective | DistilObjective)
        and not model.needs_conditions
        and model.background.is_static
        and (_pads(settings) or not knows)
        and not model.mixed
        and model.controller.same_operations
        and model.background.prior([]) is model.background.prior([])  # nothing is made anew, and copied, at every step
        and model.background.prior([]).only_table is not None  # else its numbers decide the way to log Z
    )


class GraphedUpdater(Updater):
    """An `Updater` of weights that records updates for batch shapes that recur as CUDA graphs, and replays them.

    `recorder`: records and replays them. Only for trainings that `can_be_captured` allows. Made by `updater_for(model,
    settings, workers)`, and used like `Updater`.
    """

    def __init__(self, model: LLRNN, settings: TrainingSettings, workers: Workers, recorder: CudaGraphs) -> None:
        super().__init__(model, settings, workers)
        self.recorder = recorder
        self._seen: Counter[Shape] = Counter()
        self._recorded: dict[Shape, _Recorded] = {}
        self._rate = settings.learning_rate
        self._knows = bool(model.contextual or model.contextual_inputs)
        self._pads = _pads(settings)
        self.knowledge = KnowledgeCache(model, recorder.spare_memory(), _with_room)

    def prepared(self, batch: Batch) -> Batch:
        """Return the batch padded to one of a few shapes, with values of contextual features and inputs precomputed.

        The batch itself is returned where batches are not padded (see `_pads`), or it is padded already, or where so
        many words have contextual feature values of their own that listing them would save nothing; after that no
        batch of the training is padded any more.
        """
        if not self._pads or batch.precomputed.weights is not None:
            return batch
        rows, columns = batch.inputs.shape
        shape = _rounded(rows, 1), _rounded(columns, 4)
        if not self._knows:
            return batch.padded(*shape, self.model.vocabulary.eos)
        made = self.recorder.ahead(lambda: self.knowledge.precompute(batch, *shape))
        self._pads = made is not None  # else it speaks of too many words, and no batch is worth the question
        return made or batch

    def update(self, batch: Batch, carried: ModelState | None, *, number: int, seed: int) -> Update:
        batch = self.prepared(batch)
        recorded = self._recorded_for(batch, carried)
        if recorded is None:
            return super().update(batch, carried, number=number, seed=seed)
        loss_and_norm, after = recorded.replayed(self.with_teacher(batch), carried, seed)
        torch.autograd.graph.increment_version(self.model.parameters())  # replays write without torch's knowing
        coming = self.recorder.copy_to_cpu(loss_and_norm)
        self.average.update(number)

        def wait_for_loss() -> float:
            loss, norm = coming()
            self._require_finite(loss, norm, batch)
            return loss

        return Update(batch.n_words, after, wait_for_loss)

    def _recorded_for(self, batch: Batch, carried: ModelState | None) -> _Recorded | None:
        """Return the update recorded for the shape of a batch; a shape is recorded when it comes the second time.

        `carried`: the state that the batch continues from, or None. None is returned, for a plain update, in the first
        3 steps, for a new shape, and where 128 shapes are recorded already. A learning rate that
        is a number and has changed drops all recordings; one that is a tensor is read by them.
        """
        rate = self.optimizer.param_groups[0]["lr"]
        if not isinstance(rate, Tensor) and rate != self._rate:  # a number in the graph
            self._rate = rate
            self._recorded.clear()
        shape = (carried is None, *((name, tensor.shape) for name, tensor in batch.tensors().items()))
        again = (
            self._seen[shape] > 0 and self._seen.total() >= _BEFORE and batch.precomputed.has_knowledge == self._knows
        )
        self._seen[shape] += 1
        if shape not in self._recorded and again and len(self._recorded) < _MOST:
            self._recorded[shape] = _Recorded(self, batch, carried)
        return self._recorded.get(shape)


def _pads(settings: TrainingSettings) -> bool:
    """Whether batches are padded to a few common shapes: only with the exact loss and batches of whole sentences."""
    return isinstance(settings.objective, ExactObjective) and isinstance(settings.batches.make(), Sentences)


def _rounded(size: int, least: int) -> int:
    """Round a size up to a multiple of a step, so that few sizes occur: at most eight between two powers of two.

    The step is the largest power of two that is at most an 8th of `size`, but at least 1 and `least`: `_rounded(33, 1)`
    is 36, and `_rounded(33, 16)` is 48.
    """
    step = max(least, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def _with_room(exceptions: int) -> int:
    """Return the number to which the list of a batch's exceptions is padded: a 16th more, rounded up to few sizes.

    `exceptions`: how many (position, word) pairs have contextual feature values other than most words there. The sizes
    are multiples of the largest power of two that is at most a quarter of the number.
    """
    some = max(exceptions + exceptions // 16, 1)
    return _rounded(some, 1 << max(0, some.bit_length() - 3))


class _Recorded:
    """A weight update recorded as a CUDA graph, for batches of one shape; recorded when it is first replayed.

    `batch` and `carried` (the state that it continues from, or None) give the shapes; their values are not used.
    """

    def __init__(self, updater: GraphedUpdater, batch: Batch, carried: ModelState | None) -> None:
        self._updater = updater
        self._generator = torch.Generator(updater.model.device)
        placed = updater.with_teacher(batch).to(updater.model.device)
        self._batch = placed.with_tensors({k: tensor.clone().contiguous() for k, tensor in placed.tensors().items()})
        self._carried = carried and ModelState(tuple(part.clone() for part in carried.controller), carried.knowledge)
        self._record: tuple[Results, Replay] | None = None

    def replayed(self, batch: Batch, carried: ModelState | None, seed: int) -> tuple[Tensor, ModelState]:
        """Update the weights on a batch by replaying the graph; return [loss, gradient norm], (2,), and the state.

        The state is the model's after the batch. Both are valid until the next replay. `batch`: of the recorded shape;
        `carried`: the state to continue from, None for a fresh one; `seed`: decides dropout.
        """
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
        """Compute the gradients on the recorded batch; return [loss, *tensors of the network's state after it]."""
        self._updater.optimizer.zero_grad(set_to_none=True)
        loss, after = self._updater.backward(self._batch, self._carried, self._generator)
        self._knowledge = after.knowledge  # that of static sources: nothing
        return [loss, *after.controller]

    def _update(self) -> Results:
        """Update the weights on the recorded batch; return [loss and gradient norm (2,), *tensors of the state after].

        Where loss or norm is not finite, the gradients are set to 0 first, so that weights stay finite.
        """
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
