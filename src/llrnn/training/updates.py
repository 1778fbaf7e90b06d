"""One update of the weights, from one batch.

    loss = −mean log p(x_{t+1} | K) + penalty · mean ‖a‖_p^p
    g = ∇ loss, summed over the processes           g ← g · min(1, clip / ‖g‖)           w ← optimizer(w, g)

Nothing is applied before loss and ‖g‖ have been seen to be finite. Both are looked at together, once the gradients of
all processes are added up, so that all processes go on or none does; it is the one moment at which a GPU is waited for.
What is validated and kept is an average of recent weights (`WeightAverage`). `GraphedUpdater` makes updates that nobody
waits for. `Workers` are the processes that train together, each with rows of every batch; or one process alone.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from llrnn.ground.errors import CheckpointError, ConfigError, LostWorkerError, TrainingError, short
from llrnn.knowledge.process import Batch, ModelState
from llrnn.model.controllers import Hidden, SomeRows, evaluating
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Batching, Sentences
from llrnn.text.encoded import EncodedText, Lazy
from llrnn.training.hearing import Hearing
from llrnn.training.objectives import Distilled, ImportanceSampling
from llrnn.training.settings import DistilObjective, ExactObjective, TrainingSettings


class OwnRows(Batching):
    """The rows of one process in every batch."""

    def __init__(self, batching: Batching, rows: slice) -> None:
        self._batching, self._rows, self.carries_state = batching, rows, batching.carries_state

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        return Lazy(self._batching.plan(text, seed=seed, epoch=epoch), lambda batch: batch.select(self._rows))


class Workers:
    """The processes of a training, as one of them sees them: `Workers()` is one alone, and has all rows.

    Several are those that torchrun started (`join_workers`), whose `store` is given. They speak over torch.distributed:
    gloo between CPUs, NCCL between GPUs.
    """

    def __init__(self, rank: int = 0, size: int = 1, store: Store | None = None) -> None:
        self.rank, self.size = rank, size
        self.leads = rank == 0  # whether this one writes and prints
        # names what started them; those that are started again by it have the same
        self.launch = None if store is None else _launch()
        # torchrun takes any other code than 0 for a failure, and with --max-restarts starts all processes again
        self.exit_code_when_stopped = 130 if store is None else 0  # a shell has 130 for Ctrl-C
        together = () if store is None else ("torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"], "-m")
        self.command = (*together, "llrnn")  # how such processes are started
        self._rows = slice(rank, None, size)
        self._wants_to_stop = self._must_stop = False

    def share(self, batch: Batch) -> Batch:
        """The rows of a batch that this process takes."""
        return batch if self.size == 1 else batch.select(self._rows)

    def generator(self, batch: Batch, device: torch.device, seed: int) -> torch.Generator:
        """Draws for its share of a batch what one process would draw for these rows."""
        n_rows = len(batch.inputs)
        made = torch.Generator(device) if self.size == 1 else SomeRows(device, self._rows, n_rows)
        return made.manual_seed(seed)

    def batching(self, batching: Batching) -> Batching:
        """The same batches, of which this process has its rows."""
        return batching if self.size == 1 else OwnRows(batching, self._rows)

    def sum_gradients(self, parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
        """Gradients become the sums over all processes, and so does the loss that is returned.

        One message for all: gradients, for each of them whether there is one at all, who wants to stop, the loss. A
        weight that no process has a gradient for must stay as it is: with a gradient of 0 it would still decay.
        """
        if self.size == 1:
            return loss
        weights = list(parameters)
        gradients = [weight.grad if weight.grad is not None else torch.zeros_like(weight) for weight in weights]
        flags = [weight.grad is not None for weight in weights] + [self._wants_to_stop]
        said = torch.tensor(flags, dtype=loss.dtype, device=loss.device)
        flat = self._sum(torch.cat([*(gradient.flatten() for gradient in gradients), said, loss.view(1)]))
        *sums, said, total = torch.split(flat, [*(weight.numel() for weight in weights), len(flags), 1])
        *there, stops = said.tolist()
        for weight, gradient, found in zip(weights, sums, there, strict=True):
            weight.grad = gradient.view_as(weight) if found else None
        self._must_stop = stops > 0
        return total.squeeze(0)

    def stop(self, wanted: bool) -> bool:
        """Whether to stop before the next step, all at the same: a signal may have reached only one process.

        The wish travels with the next gradients, so that asking costs no message: all stop one step later.
        """
        self._wants_to_stop = wanted
        return wanted if self.size == 1 else self._must_stop

    def any(self, flag: bool) -> bool:
        """Whether it is so in any of the processes; all of them ask, and get the same answer."""
        return bool(self._sum(torch.tensor(float(flag))))

    def mean(self, values: Tensor) -> float:
        """The mean of all values of all processes, (N_r,) of each."""
        total, count = self._sum(torch.stack([values.double().sum().cpu(), torch.tensor(float(len(values))).double()]))
        return float(total / count)

    def whole_state(self, parts: Hidden) -> Hidden:
        """From the states of the rows of each process to the states of all rows."""
        if self.size == 1:
            return parts
        n_rows = int(self._sum(torch.tensor(len(parts[0]))))
        wholes = tuple(part.new_zeros(n_rows, *part.shape[1:]) for part in parts)
        for whole, part in zip(wholes, parts, strict=True):
            whole[self._rows] = part
            self._sum(whole)
        return wholes

    def own_state(self, parts: Hidden) -> Hidden:
        """The states of the rows of this process, out of those of all rows."""
        return tuple(part[self._rows] for part in parts)

    def device(self, device: torch.device) -> torch.device:
        """Where this process computes: on GPUs, one for each process of a machine."""
        if device.type != "cuda" or self.size == 1:
            return device
        local, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if local >= there:
            raise ConfigError(
                f"--device cuda needs a GPU for each process, found {there} for {os.environ['LOCAL_WORLD_SIZE']} "
                f"processes on this machine; start torchrun with --nproc-per-node {there}"
            )
        torch.cuda.set_device(local)
        return torch.device("cuda", local)

    def require_same(self, what: str, digest: Callable[[], str]) -> None:
        """All processes must have read the same."""
        if self.size == 1:
            return
        own = torch.tensor(int(digest()[:12], 16))  # 48 bits: their sum is exact
        if int(self._sum(own.clone())) != int(own) * self.size:
            raise TrainingError(
                f"all {self.size} processes must train with the same {what}, found differences; give every machine the "
                "same files, arguments and version of llrnn"
            )

    def _sum(self, tensor: Tensor) -> Tensor:
        """In place; the same to the last bit in every process, so that all of them decide alike."""
        if self.size == 1:
            return tensor
        try:
            dist.all_reduce(tensor)
        except RuntimeError as error:
            if "gloo" not in str(error) and not isinstance(error, dist.DistBackendError):
                raise  # gloo has no exception of its own
            raise LostWorkerError(
                f"another process of this training ended ({_reason(error)}); torchrun with --max-restarts=3 goes on "
                "from the last checkpoint by itself; without, go on with --resume"
            ) from None
        return tensor


def _reason(error: Exception) -> str:
    """What gloo says, without the place in its source and without its advice."""
    return str(error).partition("] ")[2].partition(". ")[0] or str(error)


def _launch() -> str:
    """The job's id; torchrun gives none to one that it runs on one machine, but stays the parent of all its workers."""
    job = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return job if job != "none" else f"process {os.getppid()}"


@contextmanager
def join_workers() -> Iterator[Workers]:
    """The processes that torchrun started, of which this is one; without torchrun, this one alone.

    with join_workers() as workers:
        records = list(train(model, corpus, workers=workers))
    """
    if not dist.is_torchelastic_launched():
        yield Workers()
        return
    # torchrun keeps one store for all restarts, in which the addresses of processes that died still stand
    store, rank, size = next(rendezvous("env://"))
    store = PrefixStore(f"llrnn/{os.environ['TORCHELASTIC_RESTART_COUNT']}/{size}", store)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        yield Workers(rank, size, store)
    except Exception:
        if store.add("llrnn/told", 1) == 1:  # of an error that ends all processes, one tells
            raise
        raise SystemExit(2) from None
    dist.destroy_process_group()


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
    return CheckpointError(f"the saved state of the optimizer is not whole: {reason}")


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
            found = tensors.get(f"average.{number}")
            if found is None or found.shape != mean.shape:
                raise _unfit(f"average.{number} must be of shape {tuple(mean.shape)}")
            mean.copy_(found)


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
        if isinstance(self.objective, Distilled):
            self.objective.require_same_words(model)
        elif isinstance(self.objective, ImportanceSampling):
            self.objective.require_scores(model)
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
            mean, after = self.backward(self.taught(own).to(device), carried, generator, weight)
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
        """A batch as it is updated with; what comes from the text alone can be done ahead."""
        return batch

    def taught(self, batch: Batch) -> Batch:
        """The batch with what a teacher says of it, if there is one; no graph records how that is found."""
        return self.objective.taught(batch.to(self.model.device)) if isinstance(self.objective, Distilled) else batch

    def backward(
        self, batch: Batch, carried: ModelState | None, generator: torch.Generator, weight: float = 1.0
    ) -> tuple[Tensor, ModelState]:
        """The loss of a batch, times `weight` in the gradients; and the state after."""
        distribution, after = self.model.scan(batch, carried, generator=generator)
        loss = self.objective(self.model, distribution, batch, generator)
        whole = loss
        if self.settings.penalty:
            a = distribution.given.weights()
            whole = loss + self.settings.penalty * batch.mean(a.abs().pow(self.settings.penalty_norm).sum(-1))
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
        return self.model.weights()

    def require_finite_weights(self) -> None:
        weights = {name: weight for name, weight in self.weights().items() if name.startswith("weights.")}
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
#
# Batches of whole sentences have as many shapes as there are lengths. They are filled up to one of a few dozen (at most
# an eighth more rows, an eighth more columns or three), with positions of weight 0. What contextual inputs and features
# say is made of the text before the step, by a thread with a stream of its own, and is an input of the graph as well
# (`training.hearing`); lists of words that features single out are filled up, too. All graphs share their memory.

_BEFORE = 3  # updates before one is recorded: by then kernels are compiled and the optimizer is set up
_MOST = 128  # shapes
_SPARE = 0.3  # of the memory of a GPU that is free before training
Results = Sequence[Tensor]
Act = Callable[[], Results]
Replay = Callable[[], None]  # does again what was recorded; its results lie where they lay
Shape = tuple[object, ...]


class CudaGraphs:
    """Records acts, functions without arguments, as graphs of the current GPU; a record is replayed before it counts.

    All on one stream, for workspaces of libraries belong to streams.
    """

    def __init__(self) -> None:
        self._stream, self._beside = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()  # nothing that a graph allocates is asked for after the next replay

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
        with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
            found = act()
        return found, graph.replay

    def spare_memory(self) -> int:
        """Bytes that may be kept for the length of a training: a part of what is free."""
        free, _ = torch.cuda.mem_get_info()
        return int(free * _SPARE)

    def ahead(self, make: Callable[[], Batch | None]) -> Batch | None:
        """What is made on a stream of its own: its questions to the GPU do not wait for updates."""
        with torch.cuda.stream(self._beside):
            batch = make()
        self._beside.synchronize()
        for tensor in batch.tensors().values() if batch is not None else ():
            if tensor.is_cuda:
                tensor.record_stream(torch.cuda.current_stream())
        return batch

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

    A background that follows the text, a condition, words that are drawn, several processes or a module of the user's
    own need Python, or memory of another size, in the middle of a step. Contextual features and inputs do not, where
    every batch begins anew: what they say is found before the step.
    """
    knows = bool(model.contextual or model.contextual_inputs)
    return (
        workers.size == 1
        and isinstance(settings.objective, ExactObjective | DistilObjective)
        and not model.needs_conditions
        and model.background.is_static
        and (_fills(settings) or not knows)
        and not model.mixed
        and model.controller.same_operations
        and model.background.prior([]) is model.background.prior([])  # nothing is made anew, and copied, at every step
        and model.background.prior([]).only_table is not None  # else its numbers decide the way to log Z
    )


class GraphedUpdater(Updater):
    """Updates of which those of frequent shapes are recorded, and replayed."""

    def __init__(self, model: LLRNN, settings: TrainingSettings, workers: Workers, recorder: CudaGraphs) -> None:
        super().__init__(model, settings, workers)
        self.recorder = recorder
        self._seen: Counter[Shape] = Counter()
        self._recorded: dict[Shape, _Recorded] = {}
        self._rate = settings.learning_rate
        self._knows = bool(model.contextual or model.contextual_inputs)
        self._fills = _fills(settings)
        self.hearing = Hearing(model, recorder.spare_memory(), _with_room)

    def prepared(self, batch: Batch) -> Batch:
        """Filled up to a frequent shape, with what knowledge says of it."""
        if not self._fills or batch.weights is not None:
            return batch
        rows, columns = batch.inputs.shape
        shape = _rounded(rows, 1), _rounded(columns, 4)
        if not self._knows:
            return batch.filled(*shape, self.model.vocabulary.eos)
        heard = self.recorder.ahead(lambda: self.hearing.heard(batch, *shape))
        self._fills = heard is not None  # else it speaks of too many words, and no batch is worth the question
        return heard or batch

    def update(self, batch: Batch, carried: ModelState | None, *, number: int, seed: int) -> Update:
        batch = self.prepared(batch)
        recorded = self._recorded_for(batch, carried)
        if recorded is None:
            return super().update(batch, carried, number=number, seed=seed)
        loss_and_norm, after = recorded.replayed(self.taught(batch), carried, seed)
        torch.autograd.graph.increment_version(self.model.parameters())  # replays write without torch's knowing
        coming = self.recorder.copy_to_cpu(loss_and_norm)
        self.average.update(number)

        def wait_for_loss() -> float:
            loss, norm = coming()
            self._require_finite(loss, norm, batch)
            return loss

        return Update(batch.n_words, after, wait_for_loss)

    def _recorded_for(self, batch: Batch, carried: ModelState | None) -> _Recorded | None:
        """None for the first batches, for the first of each shape, and when there are enough shapes already."""
        if self.optimizer.param_groups[0]["lr"] != self._rate:  # a number in the graph
            self._rate = self.optimizer.param_groups[0]["lr"]
            self._recorded.clear()
        shape = (carried is None, *((name, tensor.shape) for name, tensor in batch.tensors().items()))
        again = self._seen[shape] > 0 and self._seen.total() >= _BEFORE and batch.is_heard == self._knows
        self._seen[shape] += 1
        if shape not in self._recorded and again and len(self._recorded) < _MOST:
            self._recorded[shape] = _Recorded(self, batch, carried)
        return self._recorded.get(shape)


def _fills(settings: TrainingSettings) -> bool:
    """Whether batches are whole sentences, whose shapes are many and whose positions nearly all count."""
    return isinstance(settings.objective, ExactObjective) and isinstance(settings.batches.make(), Sentences)


def _rounded(size: int, least: int) -> int:
    """Up, to one of eight sizes between powers of two, and to a multiple of `least`."""
    step = max(least, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def _with_room(exceptions: int) -> int:
    """Up, to one of four sizes between powers of two, some eighths above: the next batch may have a few more."""
    some = max(exceptions + exceptions // 16, 1)
    return _rounded(some, 1 << max(0, some.bit_length() - 3))


class _Recorded:
    """An update by batches of one shape."""

    def __init__(self, updater: GraphedUpdater, batch: Batch, carried: ModelState | None) -> None:
        self._updater = updater
        self._generator = torch.Generator(updater.model.device)
        placed = updater.taught(batch).to(updater.model.device)
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
