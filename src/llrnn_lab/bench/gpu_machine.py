"""Where the benchmark of the GPU runs: its clock, its memory, its graphs, and the least time that a count allows.

floor = max(operations of the products / rate of products, bytes / rate of memory)

`Gpu` measures with CUDA events and captures CUDA graphs. `Machine` is its twin for a CPU, for the tests: the host's
clock, no account of memory, and a graph is the function itself.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from llrnn.ground.errors import ConfigError
from llrnn.layer.fused import graphed

T = TypeVar("T")
_WARM_UP = 3


class Rates(NamedTuple):
    """Operations a second of products in half precision and in float32, bytes a second of the memory."""

    half: float
    float32: float
    memory: float
    source: str


# Dense rates: the datasheets print those of half precision with sparsity, which is twice as much.
CARDS = {
    "NVIDIA H200": Rates(989.5e12, 67e12, 4.8e12, "NVIDIA H200 datasheet, SXM: 1,979 / 2 and 67 TFLOP/s, 4.8 TB/s"),
    "NVIDIA H100 80GB HBM3": Rates(
        989.5e12, 67e12, 3.35e12, "NVIDIA H100 datasheet, SXM: 1,979 / 2 and 67 TFLOP/s, 3.35 TB/s"
    ),
}


class Contender:
    """A step, forward and backward, that returns the loss; its inputs; log p of the words, where it can be asked."""

    def __init__(
        self, step: Callable[[], Tensor], leaves: Sequence[Tensor], log_p: Callable[[], Tensor] | None = None
    ) -> None:
        self._step, self.leaves, self.log_p = step, leaves, log_p

    def run(self) -> Tensor:
        self.clear()
        return self._step()

    def clear(self) -> None:
        for leaf in self.leaves:
            leaf.grad = None

    def gradients(self) -> list[Tensor]:
        """Those of the last run."""
        return [leaf.grad for leaf in self.leaves if leaf.grad is not None]


class _Captured(Contender):
    """One graph: every replay writes the loss and the gradients where they were when it was captured."""

    def __init__(self, graph: torch.cuda.CUDAGraph, loss: Tensor, of: Contender) -> None:
        super().__init__(lambda: loss, of.leaves)
        self._graph, self._loss, self._gradients = graph, loss, of.gradients()

    def run(self) -> Tensor:
        self._graph.replay()
        return self._loss

    def gradients(self) -> list[Tensor]:
        return self._gradients


class Machine:
    """A CPU."""

    device = torch.device("cpu")
    name = "cpu"

    def milliseconds(self, run: Callable[[], object]) -> float:
        started = time.perf_counter()
        run()
        return 1000 * (time.perf_counter() - started)

    def with_peak(self, act: Callable[[], T]) -> tuple[T, int]:
        """What it returns, and the most bytes beyond those that were there before."""
        return act(), 0

    def warm_up(self, contender: Contender) -> None:
        """Before it is captured."""
        contender.run()

    def graph(self, contender: Contender) -> Contender:
        """Its step as one graph."""
        return contender

    def graphed(self, module: nn.Module, *samples: Tensor) -> Callable[..., Tensor]:
        """The module as two graphs, forward and backward."""
        return module


class Gpu(Machine):
    """The current CUDA device."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise ConfigError(
                "`llrnn bench gpu` needs a CUDA GPU, and torch found none here; run it on a machine that has one, or "
                "`llrnn bench layer` on this one"
            )
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.name = torch.cuda.get_device_name()
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # one: workspaces belong to streams

    def milliseconds(self, run: Callable[[], object]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    def with_peak(self, act: Callable[[], T]) -> tuple[T, int]:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        found = act()
        torch.cuda.synchronize()
        return found, torch.cuda.max_memory_allocated() - before

    def warm_up(self, contender: Contender) -> None:
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UP):
                contender.run()
        torch.cuda.current_stream().wait_stream(self._stream)

    def graph(self, contender: Contender) -> Contender:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            loss = contender.run()
        captured = _Captured(graph, loss, contender)
        contender.clear()
        return captured

    def graphed(self, module: nn.Module, *samples: Tensor) -> Callable[..., Tensor]:
        return graphed(module, *samples)


def interleaved(
    machine: Machine, runs: Mapping[str, Callable[[], object]], rounds: int, steps: int = 1
) -> dict[str, float]:
    """Median milliseconds of each, taking turns of so many steps, so that a machine that slows down does so for all."""
    for run in runs.values():
        for _ in range(_WARM_UP):
            run()
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(machine.milliseconds(partial(_repeat, run, steps)) / steps)
    return {name: statistics.median(each) for name, each in found.items()}


def _repeat(run: Callable[[], object], steps: int) -> None:
    for _ in range(steps):
        run()


def measured_rates(machine: Machine, size: int, rounds: int) -> Rates:
    """What products of size × size and a copy of 64 times as many bytes get, on random numbers."""
    matrix = torch.randn(size, size, device=machine.device)
    half, long = matrix.to(torch.bfloat16), torch.randn(16 * size, size, device=machine.device)
    out, half_out, copied = torch.empty_like(matrix), torch.empty_like(half), torch.empty_like(long)
    ms = interleaved(
        machine,
        {
            "half": lambda: torch.mm(half, half, out=half_out),
            "float32": lambda: torch.mm(matrix, matrix, out=out),
            "copy": lambda: copied.copy_(long),
        },
        rounds,
    )
    operations, moved = 2 * size**3, 2 * long.numel() * long.itemsize
    half_rate, rate, memory = (
        1000 * count / ms[name] for name, count in (("half", operations), ("float32", operations), ("copy", moved))
    )
    return Rates(half_rate, rate, memory, f"measured: products of {size:,} × {size:,}, and a copy")


class Cost(NamedTuple):
    """What is counted: operations of the products, and bytes with each input read once and each output written once."""

    operations: int
    bytes: int

    def floor(self, rates: Rates, dtype: torch.dtype) -> dict[str, Any]:
        """The least milliseconds, with how they come about."""
        products = 1000 * self.operations / (rates.float32 if dtype == torch.float32 else rates.half)
        memory = 1000 * self.bytes / rates.memory
        return {
            "operations": self.operations,
            "bytes": self.bytes,
            "ms_of_products": products,
            "ms_of_bytes": memory,
            "ms": max(products, memory),
        }
