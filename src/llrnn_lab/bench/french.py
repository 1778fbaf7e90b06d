"""Training on French against a softmax RNN with the same body: the models of `configs/table4`, whole steps, in turns.

continuous   the text runs through 64 rows, 32 words at a time, and the state is carried on: 2,048 words a step
windows      the paper's protocol: every word from the 8 words before it, so that a word costs eight of the LSTM's steps

On a GPU both are measured with eight times the rows as well. Peers: the plain torch model with `cross_entropy`, with
`linear_cross_entropy`, on a GPU as one CUDA graph, and our own softmax model. What a step has to do at least, N words
predicted from N' words read, L layers of H units, P parameters:

    operations   3 · 2 · (8 L H² N' + G H N)       forward, and twice that backward; G is V for a softmax
    bytes        28 P                              RMSprop: the gradient written, read for its norm and for the update,
                                                   the parameter and its mean square read and written, in float32
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from llrnn.config import read_config
from llrnn.config.keys import ControllerConfig
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError
from llrnn.text.encoded import EncodedText
from llrnn.training.graphs import CudaGraphs
from llrnn.training.loop import train
from llrnn.training.runs import Record
from llrnn.training.settings import TrainingSettings
from llrnn_lab.bench import torch_peer
from llrnn_lab.bench.medians import medians

CONFIGS = Path("configs/table4")
CONTINUOUS = 'training.batches={kind="continuous", rows=64, length=32}'
WAYS: dict[str, tuple[str, ...]] = {"continuous": (CONTINUOUS,), "windows": ()}
LARGE_WAYS: dict[str, tuple[str, ...]] = {  # for a GPU
    "continuous, 512 rows": ('training.batches={kind="continuous", rows=512, length=32}',),
    "windows, 4,096 rows": ('training.batches={kind="sliding", length=8, rows=4096}',),
}
_STEPS = {"cpu": 1, "cuda": 20}  # of a turn: a GPU works while the next step is prepared
_WARM_UP = {"cpu": 1, "cuda": 3}  # turns: by then all of ours has been recorded
_MODELS = ("llrnn", "rnn")
Turn = Callable[[], object]  # so many steps, back to back


def french(
    data: Path, *, configs: Path = CONFIGS, rounds: int = 7, device: torch.device | None = None
) -> dict[str, Any]:
    """Words per second of whole training steps; `data` is what `llrnn experiment prepare` made."""
    require_prepared(data)
    device = device or torch.device("cpu")
    projects = {name: Project.from_config(read_config(configs / f"{name}.toml", data=data)) for name in _MODELS}
    ways = WAYS if device.type == "cpu" else {**WAYS, **LARGE_WAYS}
    found = {}
    for way, changes in ways.items():
        read = {name: read_config(configs / f"{name}.toml", changes, data=data) for name in _MODELS}
        found[way] = _one_way(_Task(projects, {name: each.training for name, each in read.items()}, device), rounds)
    return {"threads": torch.get_num_threads(), "device": device.type, **found}


def require_prepared(data: Path) -> None:
    """A folder without the prepared text is refused with the command that makes one."""
    if not (data / "manifest.json").exists():
        raise ConfigError(
            f"{data}: a folder with prepared French is required, found no manifest.json there; make one with "
            "`llrnn experiment prepare --data ../shared/data --out FOLDER`"
        )


@dataclass(frozen=True)
class _Contender:
    turn: Turn
    module: nn.Module
    outputs: int  # G, or V


@dataclass(frozen=True)
class _Task:
    """The two models and how they are trained, by name."""

    projects: Mapping[str, Project]
    settings: Mapping[str, TrainingSettings]
    device: torch.device

    @property
    def controller(self) -> ControllerConfig:
        return self.projects["rnn"].config.controller

    @cached_property
    def text(self) -> EncodedText:
        """As the softmax models read it; ours has the same words."""
        return EncodedText.encode(self.projects["rnn"].corpora["train"], self.projects["rnn"].vocabulary)

    def ours(self, name: str) -> _Contender:
        project = self.projects[name]
        model = project.model().to(self.device)
        settings = self.settings[name].changed(log_every=_STEPS[self.device.type], epochs=1000, patience=None)
        turns = only_steps(train(model, project.corpora["train"], settings=settings))  # a record after so many
        return _Contender(partial(next, turns), model, model.output_features.n_classes)

    def peer(self, make: type[torch_peer.Dense], *, graphed: bool = False) -> _Contender:
        V, H = len(self.projects["rnn"].vocabulary), self.controller.hidden
        rank, settings = torch_peer.ranks(self.text, V), self.settings["rnn"]
        model = torch_peer.TorchModel(rank, H, self.controller.layers, make(V, H)).to(self.device)
        if graphed:
            steps = torch_peer.graphed_steps(model, self.text, settings, CudaGraphs())
        else:
            steps = chain.from_iterable(torch_peer.training_epochs(model, self.text, settings))
        return _Contender(lambda: list(islice(steps, _STEPS[self.device.type])), model, V)


def _one_way(task: _Task, rounds: int) -> dict[str, Any]:
    contenders = _contenders(task)
    turns = {name: contender.turn for name, contender in contenders.items()}
    found: dict[str, Any] = taking_turns(turns, rounds, task.device)
    batch = task.settings["rnn"].batches.make().plan(task.text, seed=0)[0]
    positions, read, H, L = batch.n_positions, batch.inputs.numel(), task.controller.hidden, task.controller.layers
    for name, contender in contenders.items():
        found[name]["words per second"] = positions / found[name]["seconds"]
        found[name]["operations"] = 6 * (8 * L * H * H * read + contender.outputs * H * positions)
        found[name]["bytes"] = 28 * sum(weight.numel() for weight in contender.module.parameters())
        found[name]["outputs"] = contender.outputs
    ratio = min(figures["times ours"] for name, figures in found.items() if name != "llrnn")
    return {"words in a step": positions, "H": H, "layers": L, "contenders": found, "ratio": ratio}


def _contenders(task: _Task) -> dict[str, _Contender]:
    made = {"llrnn": task.ours("llrnn"), "softmax in llrnn": task.ours("rnn"), "softmax": task.peer(torch_peer.Dense)}
    if hasattr(F, "linear_cross_entropy"):
        made["softmax, linear_cross_entropy"] = task.peer(torch_peer.LinearCrossEntropy)
    if task.device.type == "cuda":
        made["softmax, one graph"] = task.peer(torch_peer.Dense, graphed=True)
    return made


def only_steps(records: Iterator[Record]) -> Iterator[Record]:
    return (record for record in records if record.event == "step")


def taking_turns(turns: Mapping[str, Turn], rounds: int, device: torch.device) -> dict[str, dict[str, float]]:
    """Median seconds of a step by the clock, and the median of the rounds' own ratios to the first."""
    for turn in turns.values():
        for _ in range(_WARM_UP[device.type]):
            turn()
    times: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(rounds):
        for name, turn in turns.items():
            times[name].append(_timed(turn, device) / _STEPS[device.type])
    return medians(times)


def _timed(turn: Turn, device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    turn()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
