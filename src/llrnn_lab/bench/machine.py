"""The machine that a benchmark runs on: what it is, how fast it multiplies and copies, what memory a step takes.

    rate of products    2 n³ / seconds of a float32 product of n × n matrices
    rate of memory      bytes read and written / seconds of a copy that no cache holds

Both with the threads of the benchmark whose floor they give, just before it runs; the best of some turns, since a floor
is the least that is possible.

Threads are kept to as many cores. On aarch64 that is needed: products that torch hands to oneDNN there, h Wᵀ among
them, take every core that they find, however many threads torch was told to use.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

import llrnn

_CPU_INFO, _TASKS = Path("/proc/cpuinfo"), Path("/proc/self/task")
_given = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()  # the cores, before any is left out


class Speeds(NamedTuple):
    """Operations a second of float32 products, bytes a second of memory, and with how many threads."""

    products: float
    memory: float
    threads: int


def described() -> dict[str, Any]:
    """What has to be the same for figures to be of one run."""
    return {
        "processor": _processor(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "llrnn": llrnn.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    """By the kernel, or by `lscpu`, which knows the names of Arm's parts too."""
    lines = _CPU_INFO.read_text(encoding="utf8").splitlines() if _CPU_INFO.exists() else []
    with suppress(OSError, subprocess.CalledProcessError):
        lines += subprocess.run(["lscpu"], capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.lower().startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


@contextmanager
def threads_of(count: int, *, spreads: bool = False) -> Iterator[None]:
    """So many threads in the block, and those of before after it; on as many cores, unless what is done `spreads`."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with all_cores() if spreads else _cores(lambda given: set(sorted(given)[:count])):
            yield
    finally:
        torch.set_num_threads(before)


def all_cores() -> AbstractContextManager[None]:
    """For a block that starts processes of its own, which say themselves what they use."""
    return _cores(lambda given: given)


@contextmanager
def _cores(choose: Callable[[set[int]], set[int]]) -> Iterator[None]:
    """Every thread of this process, those of libraries too, is kept to some of the cores that it was given."""
    if not hasattr(os, "sched_setaffinity") or not _TASKS.is_dir():
        yield
        return
    before = os.sched_getaffinity(0)
    _keep_to(choose(_given or before))
    try:
        yield
    finally:
        _keep_to(before)


def _keep_to(chosen: set[int]) -> None:
    for task in _TASKS.iterdir():
        with suppress(ProcessLookupError):  # a thread that has ended meanwhile
            os.sched_setaffinity(int(task.name), chosen)


def measured_speeds(size: int, copied: int, rounds: int = 9) -> Speeds:
    """By products of size × size matrices, and copies of so many numbers, with the threads at hand."""
    matrix, numbers = torch.randn(size, size), torch.randn(copied)
    product, copy = torch.empty_like(matrix), torch.empty_like(numbers)
    tasks: dict[str, Callable[[], object]] = {
        "products": lambda: torch.mm(matrix, matrix, out=product),
        "memory": lambda: copy.copy_(numbers),
    }
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            begun = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - begun)
    seconds = {name: min(found) for name, found in times.items()}
    return Speeds(2 * size**3 / seconds["products"], 2 * 4 * copied / seconds["memory"], torch.get_num_threads())


def peak_bytes(step: Callable[[], object]) -> int:
    """The most bytes of tensors at one time while a step runs, beyond those that were there before.

    torch's profiler notes every tensor that is made and every one that is given back; their sum is followed. What a
    library below torch takes for itself (a packed copy of a matrix in a product) is not among it.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise it writes to standard error when it begins and ends
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as noted:
        step()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        noted.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text(encoding="utf8"))["traceEvents"]
    changes = sorted(
        (one["ts"], one["args"]["Addr"], one["args"]["Bytes"]) for one in events if one["name"] == "[memory]"
    )
    held: dict[int, int] = {}
    peak = 0
    for _, address, change in changes:
        if change > 0:
            held[address] = change
        else:
            held.pop(address, None)  # None: it was there before, and somebody has just collected garbage
        peak = max(peak, sum(held.values()))
    return peak
