"""Seconds of a training step of several configurations, interleaved, medians, and their ratio to the first.

python scripts/time_configs.py --data runs/table4/prepared configs/table4/best.toml configs/table4/expert.toml
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.text.corpus import EncodedText
from llrnn.training.settings import TrainingSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    runs = {path: Steps(path, given.data, torch.device(given.device)) for path in given.configs}
    for step in range(given.steps + 1):
        for run in runs.values():
            run.step(step)
    medians = {path: statistics.median(run.seconds[1:]) for path, run in runs.items()}
    first = next(iter(medians.values()))
    result = {path: {"seconds": seconds, "ratio": seconds / first} for path, seconds in medians.items()}
    print(json.dumps(result, indent=1))  # noqa: T201


class Steps:
    """One model in training, on the batches of its first epoch."""

    def __init__(self, path: str, data: str, device: torch.device) -> None:
        config = read_config(path, data=data)
        project = Project.from_config(config)
        self.model, self.device = project.model().to(device), device
        settings: TrainingSettings = config.training
        text = EncodedText.encode(project.corpora["train"], self.model.vocabulary, keyed=True)
        self.plan = settings.batches.make().plan(text, seed=0)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.learning_rate)
        self.seconds: list[float] = []

    def step(self, number: int) -> None:
        batch = self.plan[number].to(self.device)
        generator = torch.Generator(self.device).manual_seed(number)
        begun = time.perf_counter()
        loss = -self.model.log_prob(batch, generator=generator).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        float(loss.detach())  # wait for an accelerator
        self.seconds.append(time.perf_counter() - begun)


if __name__ == "__main__":
    main()
