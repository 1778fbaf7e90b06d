"""Seconds of a training step of several configurations, interleaved, medians, and their ratio to the first.

    python scripts/time_configs.py --data runs/table4/prepared configs/table4/best.toml configs/table4/expert.toml
    python scripts/time_configs.py --data … --device cuda --steps 40 A.toml A.toml@training.objective.precision=full

Steps are those of `train` itself: with its optimizer, average and CUDA graphs. What follows an @ is a change, as of
`--set`; several are separated by ~. A turn takes `--steps` steps of each configuration, and the first does not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.training.loop import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    runs = {name: Training(name, given.data, given.device, given.steps) for name in given.configs}
    for _ in range(given.turns + 1):
        for run in runs.values():
            run.turn()
    steps = {name: statistics.median(run.seconds[1:]) for name, run in runs.items()}
    first = runs[given.configs[0]].seconds[1:]
    found = {
        name: {
            "classes": run.classes,
            "seconds": steps[name],
            "words_per_second": statistics.median(run.speeds[1:]),
            "ratio": statistics.median(own / other for own, other in zip(run.seconds[1:], first, strict=True)),
        }
        for name, run in runs.items()
    }
    print(json.dumps(found, indent=1))  # noqa: T201


class Training:
    """One model in training."""

    def __init__(self, name: str, data: str, device: str, steps: int) -> None:
        path, _, changes = name.partition("@")
        config = read_config(path, changes.split("~") if changes else [], data=data)
        project = Project.from_config(config)
        model = project.model().to(device)
        self.classes = model.output_features.n_classes
        settings = config.training.changed(log_every=steps, epochs=1_000, patience=None)
        self._records, self._step = train(model, project.corpora["train"], settings=settings), 0
        self.seconds: list[float] = []
        self.speeds: list[float] = []

    def turn(self) -> None:
        """The next steps, up to a record of the log; without validation nothing else happens between epochs."""
        begun = time.perf_counter()
        record = next(self._records)
        seconds, taken = time.perf_counter() - begun, record.step - self._step
        if taken == 0:
            return self.turn()
        self._step = record.step
        self.seconds.append(seconds / taken)
        self.speeds.append(record.words_per_second)
        return None


if __name__ == "__main__":
    main()
