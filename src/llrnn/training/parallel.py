"""The processes that train together: each takes rows of every batch, gradients are added up; or one process alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from llrnn.ground.errors import ConfigError, LostWorkerError, TrainingError
from llrnn.knowledge.sequences import Batch
from llrnn.model.batches import Batching, Lazy
from llrnn.model.controllers import Hidden, SomeRows
from llrnn.text.ids import EncodedText

_WHOLE = slice(None)


@dataclass(frozen=True)
class BatchShare:
    """The rows of a batch that one process takes."""

    batch: Batch
    rows: slice
    n_rows: int  # of the whole batch
    positions: int  # of the whole batch that count
    weight: float  # own positions / all positions: what a mean over its own counts in the mean over all

    def generator(self, device: torch.device, seed: int) -> torch.Generator:
        """Draws for its rows what one process would draw for them."""
        made = torch.Generator(device) if self.rows == _WHOLE else SomeRows(device, self.rows, self.n_rows)
        return made.manual_seed(seed)


class Workers:
    """All processes of a training, as one of them sees them; here the only one: all rows are its own."""

    size = 1
    leads = True  # whether this one writes and prints
    command: tuple[str, ...] = ("llrnn",)  # how such processes are started
    exit_code_when_stopped = 130  # as a shell has it for Ctrl-C
    launch: str | None = None  # names what started them; those that are started again by it have the same

    def share(self, batch: Batch) -> BatchShare:
        """What this process takes of a batch."""
        return BatchShare(batch, _WHOLE, len(batch.inputs), batch.n_positions, 1.0)

    def batching(self, batching: Batching) -> Batching:
        """The same batches, of which this process has its rows."""
        return batching

    def add_up(self, parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
        """Gradients become the sums over all processes, and so does the loss that is returned."""
        return loss

    def any(self, flag: bool) -> bool:
        """Whether it is so in any of the processes; all of them ask, and get the same answer."""
        return flag

    def stop(self, wanted: bool) -> bool:
        """Whether to stop before the next step, all at the same: a signal may have reached only one process."""
        return wanted

    def mean(self, values: Tensor) -> float:
        """The mean of all values of all processes, (N_r,) of each."""
        return float(values.mean())

    def whole_state(self, parts: Hidden) -> Hidden:
        """From the states of the rows of each process to the states of all rows."""
        return parts

    def own_state(self, parts: Hidden) -> Hidden:
        """The states of the rows of this process, out of those of all rows."""
        return parts

    def device(self, device: torch.device) -> torch.device:
        """Where this process computes."""
        return device

    def require_same(self, what: str, digest: Callable[[], str]) -> None:
        """All processes must have read the same."""


@dataclass(frozen=True)
class OwnRows(Batching):
    """The rows of one process in every batch."""

    of: Batching
    rows: slice

    @property
    def carries_state(self) -> bool:  # type: ignore[override]
        return self.of.carries_state

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        return Lazy(self.of.plan(text, seed=seed, epoch=epoch), lambda batch: batch.select(self.rows))


class Team(Workers):
    """One of R processes that speak over torch.distributed: gloo between CPUs, NCCL between GPUs."""

    # torchrun takes any other code for a failure, and with --max-restarts starts all processes again
    exit_code_when_stopped = 0

    def __init__(self, store: Store) -> None:
        self._store = store
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.leads = self.rank == 0
        self.launch = _launch()
        self.command = ("torchrun", "--nproc-per-node", os.environ["LOCAL_WORLD_SIZE"], "-m", "llrnn")
        self._rows = slice(self.rank, None, self.size)
        self._wants_to_stop = self._must_stop = False

    def share(self, batch: Batch) -> BatchShare:
        own, positions = batch.select(self._rows), batch.n_positions
        return BatchShare(own, self._rows, len(batch.inputs), positions, own.n_positions / positions)

    def batching(self, batching: Batching) -> Batching:
        return OwnRows(batching, self._rows)

    def add_up(self, parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
        """One message for all: gradients, for each of them whether there is one at all, who wants to stop, the loss.

        A weight that no process has a gradient for must stay as it is: with a gradient of 0 it would still decay.
        """
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
        """The wish travels with the next gradients, so that asking costs no message: all stop one step later."""
        self._wants_to_stop = wanted
        return self._must_stop

    def any(self, flag: bool) -> bool:
        return bool(self._sum(torch.tensor(float(flag))))

    def mean(self, values: Tensor) -> float:
        total, count = self._sum(torch.stack([values.double().sum().cpu(), torch.tensor(float(len(values))).double()]))
        return float(total / count)

    def whole_state(self, parts: Hidden) -> Hidden:
        n_rows = int(self._sum(torch.tensor(len(parts[0]))))
        wholes = tuple(part.new_zeros(n_rows, *part.shape[1:]) for part in parts)
        for whole, part in zip(wholes, parts, strict=True):
            whole[self._rows] = part
            self._sum(whole)
        return wholes

    def own_state(self, parts: Hidden) -> Hidden:
        return tuple(part[self._rows] for part in parts)

    def device(self, device: torch.device) -> torch.device:
        """On GPUs, one for each process of a machine."""
        if device.type != "cuda":
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
        own = torch.tensor(int(digest()[:12], 16))  # 48 bits: their sum is exact
        if int(self._sum(own.clone())) != int(own) * self.size:
            raise TrainingError(
                f"all {self.size} processes must train with the same {what}, found differences; give every machine the "
                "same files, arguments and version of llrnn"
            )

    def _sum(self, tensor: Tensor) -> Tensor:
        """In place; the same to the last bit in every process, so that all of them decide alike."""
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

    def is_first_to_tell(self) -> bool:
        """Of an error that ends all processes, one tells."""
        return bool(self._store.add("llrnn/told", 1) == 1)


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
    team = Team(store)
    try:
        yield team
    except Exception:
        if team.is_first_to_tell():
            raise
        raise SystemExit(2) from None
    dist.destroy_process_group()
