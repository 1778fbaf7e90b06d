"""Training on French against a softmax RNN with the same body: the models of `configs/table4`, whole steps, in turns.

continuous   the text runs through 64 rows, 32 words at a time, and the state is carried on: 2,048 words a step
windows      the paper's protocol: every word from the 8 words before it, so that a word costs eight of the LSTM's steps

Peers: the plain torch model with `cross_entropy`, with `linear_cross_entropy`, and our own softmax model. What a step
has to do at least, N words predicted from N' words read, L layers of H units, P parameters:

    operations   3 · 2 · (8 L H² N' + G H N)       forward, and twice that backward; G is V for a softmax
    bytes        28 P                              RMSprop: the gradient written, read for its norm and for the update,
                                                   the parameter and its mean square read and written, in float32
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from llrnn.bench import torch_peer
from llrnn.bench.medians import medians
from llrnn.config import Config, read_config
from llrnn.errors import ConfigError
from llrnn.project import Project
from llrnn.records import Record
from llrnn.text import Text
from llrnn.training import train

CONFIGS = Path("configs/table4")
CONTINUOUS = 'training.batches={kind="continuous", rows=64, length=32}'
WAYS: dict[str, tuple[str, ...]] = {"continuous": (CONTINUOUS,), "windows": ()}
Step = Callable[[], object]


def french(
    data: Path, *, configs: Path = CONFIGS, rounds: int = 7, device: torch.device | None = None
) -> dict[str, Any]:
    """Words per second of whole training steps; `data` is what `llrnn experiment prepare` made."""
    require_prepared(data)
    device = device or torch.device("cpu")
    found = {way: _one_way(data, configs, changes, rounds, device) for way, changes in WAYS.items()}
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
    step: Step
    module: nn.Module
    outputs: int  # G, or V


def _one_way(data: Path, configs: Path, changes: tuple[str, ...], rounds: int, device: torch.device) -> dict[str, Any]:
    contenders = _contenders(data, configs, changes, device)
    steps = {name: contender.step for name, contender in contenders.items()}
    found: dict[str, Any] = taking_turns(steps, rounds, device)
    config = _config(configs / "llrnn.toml", changes, data)
    batch = config.training.batches.make().plan(_text(config), seed=0)[0]
    positions, read = int(batch.mask.sum()), batch.inputs.numel()
    for name, contender in contenders.items():
        H, L = config.controller.hidden, config.controller.layers
        found[name]["words per second"] = positions / found[name]["seconds"]
        found[name]["operations"] = 6 * (8 * L * H * H * read + contender.outputs * H * positions)
        found[name]["bytes"] = 28 * sum(weight.numel() for weight in contender.module.parameters())
        found[name]["outputs"] = contender.outputs
    ratio = min(figures["times ours"] for name, figures in found.items() if name != "llrnn")
    return {"words in a step": positions, "H": H, "layers": L, "contenders": found, "ratio": ratio}


def _contenders(data: Path, configs: Path, changes: tuple[str, ...], device: torch.device) -> dict[str, _Contender]:
    ours, softmax = (_config(configs / f"{name}.toml", changes, data) for name in ("llrnn", "rnn"))
    made = {"llrnn": _our_contender(ours, device), "softmax in llrnn": _our_contender(softmax, device)}
    text = _text(softmax)
    V, H = made["softmax in llrnn"].outputs, softmax.controller.hidden
    outputs = {"softmax": torch_peer.Dense(V, H)}
    if hasattr(F, "linear_cross_entropy"):
        outputs["softmax, linear_cross_entropy"] = torch_peer.LinearCrossEntropy(V, H)
    for name, output in outputs.items():
        peer = torch_peer.TorchModel(torch_peer.ranks(text, V), H, softmax.controller.layers, output).to(device)
        steps = chain.from_iterable(torch_peer.training_epochs(peer, text, softmax.training))
        made[name] = _Contender(partial(next, steps), peer, V)
    return made


def _our_contender(config: Config, device: torch.device) -> _Contender:
    project = Project.from_config(config)
    model = project.model().to(device)
    settings = config.training.changed(log_every=1, epochs=1000, patience=None)
    steps = only_steps(train(model, project.corpora["train"], settings=settings))
    return _Contender(partial(next, steps), model, model.output_features.n_classes)


def only_steps(records: Iterator[Record]) -> Iterator[Record]:
    return (record for record in records if record.event == "step")


def _config(path: Path, changes: tuple[str, ...], data: Path) -> Config:
    return read_config(path, list(changes), data=data)


def _text(config: Config) -> Text:
    project = Project.from_config(config)
    return Text.encode(project.corpora["train"], project.vocabulary)


def taking_turns(steps: Mapping[str, Step], rounds: int, device: torch.device) -> dict[str, dict[str, float]]:
    """Median seconds of a step by the clock, and the median of the rounds' own ratios to the first."""
    for step in steps.values():
        _timed(step, device)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(_timed(step, device))
    return medians(times)


def _timed(step: Step, device: torch.device) -> float:
    started = time.perf_counter()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started
