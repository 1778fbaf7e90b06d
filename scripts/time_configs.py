"""Seconds of a training step of several configurations, interleaved, medians, and their ratio to the first.

    python scripts/time_configs.py --data runs/table4/prepared configs/table4/best.toml configs/table4/expert.toml
    python scripts/time_configs.py --data … --device cuda --steps 40 A.toml 'A.toml@training.objective={kind="exact"}'
    python scripts/time_configs.py --data … --processor SOFTMAX.toml adaptive=500,3000,12000:SOFTMAX.toml A.toml

Steps are those of `train` itself: with its optimizer, average and CUDA graphs. What follows an @ is a change, as of
`--set`; several are separated by ~. Every configuration has a process of its own, and they take turns of `--steps`
steps; the first `--warm` turns do not count (with CUDA graphs, take whole epochs: the first of each shape is recorded).
`--processor` counts the time of the processor, which others who use the machine do not lengthen; on a CPU alone.
`--profile` takes one turn more under torch.profiler: for how many seconds of a step the GPU works (`busy`).

Before a configuration there may be the name of an output layer, of the same body in plain torch in its place:

    dense:            `F.cross_entropy` over all words
    adaptive=…:       `AdaptiveLogSoftmaxWithLoss` with these cutoffs
    free:             none that costs anything: what no output layer can go below
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from itertools import chain
from multiprocessing.connection import Connection

import torch
from torch.profiler import ProfilerActivity, profile

from llrnn.config import read_config
from llrnn.config.keys import ControllerConfig
from llrnn.config.project import Project
from llrnn.text.encoded import EncodedText
from llrnn.training.loop import train
from llrnn_lab.bench import torch_peer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--warm", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    runs = {name: start(name, given) for name in given.configs}
    made = {name: run.recv() for name, run in runs.items()}  # all are ready
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.warm):  # side by side: nobody looks at the clock
        for run in runs.values():
            run.send("turn")
        for run in runs.values():
            run.recv()
    for _ in range(given.turns):
        for name, run in runs.items():
            run.send("turn")
            times[name].append(run.recv())
    first = times[given.configs[0]]
    found = {
        name: {
            "classes": classes,
            "seconds": (seconds := statistics.median(times[name])),
            "words_per_second": words / seconds,
            "ratio": statistics.median(own / other for own, other in zip(times[name], first, strict=True)),
        }
        for name, (classes, words) in made.items()
    }
    for name, run in runs.items():
        if given.profile:
            run.send("profile")
            found[name]["busy"] = run.recv()
        run.send("end")
    print(json.dumps(found, indent=1))  # noqa: T201


def start(name: str, given: argparse.Namespace) -> Connection:
    """A process that is made ready, and then takes turns when it is told to."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(theirs, name, given), daemon=True).start()
    return ours


def serve(told: Connection, name: str, given: argparse.Namespace) -> None:
    """Says how many classes a model has, and words a step; then the seconds of a step, whenever it is told."""
    torch.set_num_threads(given.threads)
    clock = time.process_time if given.processor else time.perf_counter
    run = Training(name, given.data, given.device, given.steps)
    told.send((run.classes, run.words))
    while (what := told.recv()) != "end":
        begun = clock()
        found = busy(run) if what == "profile" else run.turn()
        told.send(found if what == "profile" else (clock() - begun) / found)


def busy(run: Training) -> float:
    """Seconds of a step in which kernels run, those of all streams added up."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
        taken = run.turn()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in watched.key_averages()) / 1e6 / taken


class Training:
    """One model in training."""

    def __init__(self, name: str, data: str, device: str, steps: int) -> None:
        layer, _, path = name.rpartition(":")
        path, _, changes = path.partition("@")
        config = read_config(path, changes.split("~") if changes else [], data=data)
        self._project, self._settings, self._device, self._step = (
            Project.from_config(config),
            config.training,
            device,
            0,
        )
        self._text = EncodedText.encode(self._project.corpora["train"], self._project.vocabulary)
        some = self._settings.batches.make().plan(self._text, seed=self._settings.seed)[:20]
        self.words = statistics.mean(batch.n_positions for batch in some)  # of a step
        self.classes, self._numbers = self._peer(layer, config.controller, steps) if layer else self._own(steps)

    def turn(self) -> int:
        """The next steps, and how many they were; without validation nothing else happens between epochs."""
        before = self._step
        while self._step == before:
            self._step = next(self._numbers)
        return self._step - before

    def _own(self, steps: int) -> tuple[int, Iterator[int]]:
        """The classes, and the number of the last step whenever there is a record of it."""
        model = self._project.model().to(self._device)
        settings = self._settings.changed(log_every=steps, epochs=1_000, patience=None)
        records = train(model, self._project.corpora["train"], settings=settings)
        return model.output_features.n_classes, (record.step for record in records)

    def _peer(self, layer: str, controller: ControllerConfig, steps: int) -> tuple[int, Iterator[int]]:
        V, H = len(self._project.vocabulary), controller.hidden
        name, _, cutoffs = layer.partition("=")
        output = {
            "dense": lambda: torch_peer.Dense(V, H),
            "adaptive": lambda: torch_peer.Adaptive(V, H, [int(cut) for cut in cutoffs.split(",")]),
            "free": torch_peer.Free,
        }[name]()
        rank = torch_peer.ranks(self._text, V)
        model = torch_peer.TorchModel(rank, H, controller.layers, output).to(self._device)
        losses = chain.from_iterable(torch_peer.training_epochs(model, self._text, self._settings))
        return V, (number for number, _ in enumerate(losses, 1) if number % steps == 0)


if __name__ == "__main__":
    main()
