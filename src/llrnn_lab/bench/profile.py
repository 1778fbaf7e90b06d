"""Where the time of a French training step goes, and that Python does not run once for every word.

The parts are torch's own operations as its profiler times them: by name, but all that happens within an LSTM is the
recurrent network, and what backward does for those operations as well (both have the same number in autograd's
sequence). What is left of the clock's seconds is Python and the profiler. Python's calls are counted by `cProfile`
for steps of different sizes: a loop over words, or over the steps of the network, would make them more.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.training.loop import train
from llrnn.training.runs import Record
from llrnn_lab.bench.french import CONFIGS, only_steps, require_prepared

SIZES = ((64, 32), (256, 32), (64, 128))  # rows and words of a row
_FORWARD, _BACKWARD = "recurrent network, forward", "recurrent network, backward"
_OTHER = "other operations"
_PARTS = {
    "products of the layer": ("mm", "addmm", "addmm_", "addmv_"),
    "log-sum over the classes": ("_softmax", "amax", "logsumexp", "exp", "log", "sub_", "exp_"),
    "sparse features": ("_embedding_bag", "_embedding_bag_forward_only", "embedding_dense_backward", "index_select"),
    "optimizer and norm": ("sqrt", "addcdiv_", "addcmul_", "mul_", "linalg_vector_norm", "_fused_adamw_"),
}


def profile(data: Path, *, configs: Path = CONFIGS, steps: int = 20) -> dict[str, Any]:
    """The parts of a step of the LL-RNN (2500) on continuous text, and Python's calls for steps of three sizes."""
    require_prepared(data)
    return {
        "threads": torch.get_num_threads(),
        "steps": steps,
        "parts": parts(our_steps(data, configs, *SIZES[0]), steps),
        "calls": {f"{rows} × {length}": calls(our_steps(data, configs, rows, length)) for rows, length in SIZES},
    }


def our_steps(data: Path, configs: Path, rows: int, length: int) -> Iterator[Record]:
    """Training, step by step."""
    batches = f'training.batches={{kind="continuous", rows={rows}, length={length}}}'
    config = read_config(configs / "llrnn.toml", [batches], data=data)
    project = Project.from_config(config)
    settings = config.training.changed(log_every=1, epochs=1000, patience=None)
    return only_steps(train(project.model(), project.corpora["train"], settings=settings))


def calls(steps: Iterator[Record]) -> int:
    """Python's function calls in one step, the fewest of three: what is made for the first time does not count."""
    next(steps)
    return min(_calls_of_one(steps) for _ in range(3))


def _calls_of_one(steps: Iterator[Record]) -> int:
    profiler = cProfile.Profile(builtins=False)
    profiler.enable()
    next(steps)
    profiler.disable()
    total: int = pstats.Stats(profiler).total_calls  # type: ignore[attr-defined]
    return total


def parts(steps: Iterator[Record], count: int) -> dict[str, dict[str, float]]:
    """Seconds of a step and their share, largest first."""
    next(steps), next(steps)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as profiler:
        started = time.perf_counter()
        for _ in range(count):
            next(steps)
        whole = time.perf_counter() - started
    found = dict.fromkeys([_FORWARD, _BACKWARD, *_PARTS, _OTHER], 0.0)
    events = [event for event in profiler.events() if event.name.startswith("aten::")]
    recurrent = {event.sequence_nr for event in events if _within(event, "aten::lstm")} - {-1}
    for event in events:
        found[_part_of(event, recurrent)] += event.self_cpu_time_total / 1e6
    found["Python, and the profiler"] = whole - sum(found.values())
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {name: {"seconds": seconds / count, "share": seconds / whole} for name, seconds in ordered}


def _part_of(event: Any, recurrent: set[int]) -> str:
    """`recurrent`: the numbers of what an LSTM did forward."""
    if _within(event, "aten::lstm"):
        return _FORWARD
    if any(above.name.startswith("autograd::engine") and above.sequence_nr in recurrent for above in _up_from(event)):
        return _BACKWARD
    operation = event.name.removeprefix("aten::")
    return next((part for part, names in _PARTS.items() if operation in names), _OTHER)


def _within(event: Any, name: str) -> bool:
    return any(above.name == name for above in _up_from(event))


def _up_from(event: Any) -> Iterator[Any]:
    """An operation, the one that called it, and so on."""
    while event is not None:
        yield event
        event = event.cpu_parent
