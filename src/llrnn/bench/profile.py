"""Where the time of a French training step goes, and that Python does not run once for every word.

The parts are torch's own operations, by name, as its profiler times them; what is left of the clock's seconds is Python
and the profiler. Python's calls are counted by `cProfile` for steps of different sizes: a loop over words, or over the
steps of the recurrent network, would make them more.
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

from llrnn.bench.french import CONFIGS, only_steps, require_prepared
from llrnn.config import read_config
from llrnn.project import Project
from llrnn.records import Record
from llrnn.training import train

SIZES = ((64, 32), (256, 32), (64, 128))  # rows and words of a row
_PARTS = {
    "recurrent network, forward": ("mkldnn_rnn_layer", "_cudnn_rnn", "lstm"),
    "recurrent network, backward": ("mkldnn_rnn_layer_backward", "_cudnn_rnn_backward"),
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
    found = dict.fromkeys([*_PARTS, "other operations"], 0.0)
    for event in profiler.key_averages():
        if event.key.startswith("aten::"):
            found[_part_of(event.key.removeprefix("aten::"))] += event.self_cpu_time_total / 1e6
    found["Python, and the profiler"] = whole - sum(found.values())
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {name: {"seconds": seconds / count, "share": seconds / whole} for name, seconds in ordered}


def _part_of(operation: str) -> str:
    return next((part for part, names in _PARTS.items() if operation in names), "other operations")
