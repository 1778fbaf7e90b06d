"""The processes that train together, each with rows of every batch; or one process alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from llrnn.ground.errors import ConfigError, LostWorkerError, TrainingError
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import Hidden, SomeRows
from llrnn.model.scoring import Batching
from llrnn.text.encoded import EncodedText, Lazy


class OwnRows(Batching):
    """A batching (a way to cut a text into batches) whose batches have only the rows of one of several processes.

    `batching`: makes the whole batches; `rows`: a slice, which rows of each to take. Use: `OwnRows(batching, slice(0,
    None, 2)).plan(text)`.
    """

    def __init__(self, batching: Batching, rows: slice) -> None:
        self._batching, self._rows, self.carries_state = batching, rows, batching.carries_state

    def plan(self, text: EncodedText, *, seed: int | None = None, epoch: int = 0) -> Sequence[Batch]:
        return Lazy(self._batching.plan(text, seed=seed, epoch=epoch), lambda batch: batch.select(self._rows))


class Workers:
    """The processes of a data-parallel training, seen from one of them, `rank` of `size`; `Workers()` is a single one.

    Several are those that torchrun started (`join_workers`), and `store` is their key-value store. They communicate
    over torch.distributed: gloo between CPUs, NCCL between GPUs. `leads`: whether this process writes files and prints
    (rank 0).
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
        """Return a batch of the rows that this process takes: every `size`-th, from `rank` on; may have none."""
        return batch if self.size == 1 else batch.select(self._rows)

    def generator(self, batch: Batch, device: torch.device, seed: int) -> torch.Generator:
        """Return a seeded generator that draws, for this process's rows, what a single process would draw for them.

        `batch`: the whole batch. So dropout does not depend on how many processes train.
        """
        n_rows = len(batch.inputs)
        made = torch.Generator(device) if self.size == 1 else SomeRows(device, self._rows, n_rows)
        return made.manual_seed(seed)

    def batching(self, batching: Batching) -> Batching:
        """Return a batching (a way to cut a text into batches) whose batches hold only the rows of this process.

        `batching`: makes the whole batches; it is returned itself for a single process.
        """
        return batching if self.size == 1 else OwnRows(batching, self._rows)

    def sum_gradients(self, parameters: Iterable[nn.Parameter], loss: Tensor) -> Tensor:
        """Sum the gradients of the parameters, in place, and the loss over all processes; return the summed loss, ().

        One message carries all, also whether a process wants to stop (see `stop`). A weight that has no gradient in any
        process keeps None, since with a gradient of 0 it would still decay. Raises LostWorkerError where another
        process has ended.
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
        """Whether all processes stop before the next step; `wanted`: whether this one has been asked to.

        The wish travels with the next gradients, so all of several processes stop one step later, at the same step.
        """
        self._wants_to_stop = wanted
        return wanted if self.size == 1 else self._must_stop

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process; every process must call it, and gets the same result."""
        return bool(self._sum(torch.tensor(float(flag))))

    def mean(self, values: Tensor) -> float:
        """Return the mean over the values of all processes together; `values`: those of this process, (N,).

        Every process must call it, and gets the same result.
        """
        total, count = self._sum(torch.stack([values.double().sum().cpu(), torch.tensor(float(len(values))).double()]))
        return float(total / count)

    def whole_state(self, parts: Hidden) -> Hidden:
        """Return the network's states of all rows of a batch, gathered from the processes; every process must call it.

        `parts`: a tuple of the state's tensors for the rows of this process, (rows, …). The result is a tuple of
        tensors with all rows, in the order of the whole batch.
        """
        if self.size == 1:
            return parts
        n_rows = int(self._sum(torch.tensor(len(parts[0]))))
        wholes = tuple(part.new_zeros(n_rows, *part.shape[1:]) for part in parts)
        for whole, part in zip(wholes, parts, strict=True):
            whole[self._rows] = part
            self._sum(whole)
        return wholes

    def own_state(self, parts: Hidden) -> Hidden:
        """Return the network's states of the rows of this process; `parts`: those of all rows, from `whole_state`."""
        return tuple(part[self._rows] for part in parts)

    def device(self, device: torch.device) -> torch.device:
        """Return the device on which this process computes: `device`, or with several processes a GPU of its own.

        `device`: what the user asked for; several processes on "cuda" get one GPU of their machine each. Raises
        ConfigError where a machine has fewer GPUs than processes.
        """
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
        """Raise TrainingError unless `digest()` is the same in all processes; every process must call it.

        `what`: what is compared, for the message; `digest`: returns its hash in hexadecimal.
        """
        if self.size == 1:
            return
        own = torch.tensor(int(digest()[:12], 16))  # 48 bits: their sum is exact
        if int(self._sum(own.clone())) != int(own) * self.size:
            raise TrainingError(
                f"all {self.size} processes must train with the same {what}, found differences; give every machine the "
                "same files, arguments and version of llrnn"
            )

    def _sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place; the result is the same in each, bit for bit.

        Raises LostWorkerError where another process has ended.
        """
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
    """Return the core of an error message of gloo (torch.distributed), without source location and advice."""
    return str(error).partition("] ")[2].partition(". ")[0] or str(error)


def _launch() -> str:
    """Return an id of what started this process: torchrun's job id, or "process PID" of the parent without one."""
    job = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    return job if job != "none" else f"process {os.getppid()}"


@contextmanager
def join_workers() -> Iterator[Workers]:
    """Context manager: join the processes that torchrun started, of which this is one, and yield them as `Workers`.

    Without torchrun it yields a single process.

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
