"""An LL-RNN against the same network with torch's `AdaptiveLogSoftmaxWithLoss`: perplexity at equal time, on French.

All train on the same continuous text (`configs/table4`, `french.CONTINUOUS`) with the same optimizer. The one that has
used the least time goes next, an epoch at a time, until each has had its budget, so that all feel the same machine.
Time is that of training steps; on a CPU it is the processor's, which other processes do not lengthen. Reported of each:
the time of an epoch, and the best validation log-perplexity of the epochs that were done when the budget was spent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from llrnn.config import Config, read_config
from llrnn.config.project import Project
from llrnn.model.scoring import score
from llrnn.text.encoded import EncodedText
from llrnn.training.loop import train
from llrnn_lab.bench import torch_peer
from llrnn_lab.bench.french import CONFIGS, CONTINUOUS, require_prepared

CUTOFFS = ((500, 3000, 12000), (2000, 10000), (4000, 20000))
IDENTITIES = (2500, 500)  # how many words have a feature of their own
Point = tuple[float, float]  # seconds of training so far, validation log-perplexity


def adaptive(
    data: Path,
    *,
    configs: Path = CONFIGS,
    seconds: float = 120.0,
    changes: Sequence[str] = (),
    identities: Sequence[int] = IDENTITIES,
    cutoffs: Sequence[Sequence[int]] = CUTOFFS,
    device: torch.device | None = None,
) -> dict[str, Any]:
    """`seconds` is the budget of each; `changes` are changes to the configurations of all, as in `--set`."""
    require_prepared(data)
    device = device or torch.device("cpu")
    common = (CONTINUOUS, *changes)
    ours = {
        f"llrnn, {top:,} identities": _ours(_with_identities(configs, common, data, top), device) for top in identities
    }
    softmax = read_config(configs / "rnn.toml", list(common), data=data)
    theirs = {f"adaptive, {', '.join(map(str, cut))}": _peer(softmax, cut, device) for cut in cutoffs}
    curves = equal_time({**ours, **theirs}, seconds)
    found = {name: _summary(curve, seconds) for name, curve in curves.items()}
    best = min((name for name in theirs), key=lambda name: found[name]["log-perplexity"])
    fastest = min((name for name in theirs), key=lambda name: found[name]["seconds an epoch"])
    for name in found:
        found[name]["an epoch of the fastest peer"] = (
            found[fastest]["seconds an epoch"] / found[name]["seconds an epoch"]
        )
    return {
        "V": Project.from_config(softmax).vocabulary.n_words,
        "H": softmax.controller.hidden,
        "layers": softmax.controller.layers,
        "optimizer": softmax.training.optimizer,
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "device": device.type,
        "contenders": found,
        "best peer": best,
        "fastest peer": fastest,
        "curves": curves,
    }


def _with_identities(configs: Path, common: Sequence[str], data: Path, top: int) -> Config:
    features = f'features.output=[{{kind="identity", top={top}}}, {{kind="attributes"}}]'
    return read_config(configs / "llrnn.toml", [*common, features], data=data)


def equal_time(contenders: Mapping[str, Iterator[Point]], seconds: float) -> dict[str, list[Point]]:
    """The points of each up to the first beyond the budget; whoever has had the least time goes on."""
    curves: dict[str, list[Point]] = {name: [] for name in contenders}
    used = dict.fromkeys(contenders, 0.0)
    while (name := min(used, key=lambda name: used[name])) and used[name] < seconds:
        curves[name].append(next(contenders[name]))
        used[name] = curves[name][-1][0]
    return curves


def _summary(curve: Sequence[Point], seconds: float) -> dict[str, Any]:
    """A budget that is too small for one epoch gives no perplexity, which is worse than any."""
    within = [perplexity for used, perplexity in curve if used <= seconds]
    return {
        "seconds an epoch": curve[-1][0] / len(curve),
        "epochs": len(within),
        "log-perplexity": min(within, default=float("inf")),
    }


def _ours(config: Config, device: torch.device) -> Iterator[Point]:
    project = Project.from_config(config)
    model = project.model().to(device)
    settings = config.training.changed(epochs=1000, patience=None)
    valid, batching = EncodedText.encode(project.corpora["valid"], model.vocabulary), settings.batches.make()
    records, used = train(model, project.corpora["train"], settings=settings), 0.0
    while True:
        started = now(device)
        record = next(records)
        used += now(device) - started
        if record.event == "epoch":
            yield used, score(model, valid, batching).log_perplexity


def _peer(config: Config, cutoffs: Sequence[int], device: torch.device) -> Iterator[Point]:
    project = Project.from_config(config)
    text, valid = (EncodedText.encode(project.corpora[part], project.vocabulary) for part in ("train", "valid"))
    V, controller, settings = len(project.vocabulary), config.controller, config.training
    torch.manual_seed(settings.seed)
    output = torch_peer.Adaptive(V, controller.hidden, cutoffs)
    rank = torch_peer.ranks(text, V)
    model = torch_peer.TorchModel(rank, controller.hidden, controller.layers, output).to(device)
    used = 0.0
    for epoch in torch_peer.training_epochs(model, text, settings):
        started = now(device)
        for _ in epoch:
            pass
        used += now(device) - started
        yield used, torch_peer.log_perplexity(model, valid, settings)


def now(device: torch.device) -> float:
    """Seconds of the processor, or by the clock where a GPU works."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()
