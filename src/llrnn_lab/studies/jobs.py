"""Models side by side: each is a process of its own, and a folder that says when it is done.

A job trains one configuration, evaluates it on every test text and on the minimal pairs, and writes `result.json`. Jobs
that have a result are not run again; jobs that were cut off go on from their checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from llrnn.config import Config, read_config
from llrnn.config.project import Project
from llrnn.ground.bundle import has_bundle
from llrnn.ground.errors import TrainingError
from llrnn.ground.files import write_atomically
from llrnn.inference.evaluation import Evaluation, evaluate
from llrnn.inference.pairs import read_pairs, score_pairs
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus
from llrnn.training.loop import train
from llrnn_lab.studies.processes import Command, Processes


@dataclass(frozen=True)
class Job:
    """One model: a configuration, changes to it, and a seed."""

    name: str
    config: Path
    changes: tuple[str, ...] = ()
    seed: int = 0
    study: str = "language-model"  # what tests it once it is trained: see `llrnn experiment model --study`
    data: Path | None = None  # its own, where jobs of one study read different texts

    def folder(self, out: Path) -> Path:
        return out / f"{self.name}.seed{self.seed}"

    def result(self, out: Path) -> dict[str, Any] | None:
        path = self.folder(out) / "result.json"
        return json.loads(path.read_bytes()) if path.exists() else None


@dataclass(frozen=True)
class Trained:
    """A model that a job has trained, and what it was made from."""

    config: Config
    project: Project
    model: LLRNN
    summary: dict[str, Any]  # what every result begins with
    started: float

    def write(self, folder: Path, found: dict[str, Any]) -> dict[str, Any]:
        """The result of a job, also as the file that says that it is done."""
        result = {**self.summary, **found, "seconds": time.perf_counter() - self.started}
        write_atomically(folder / "result.json", json.dumps(result, ensure_ascii=False, indent=1).encode())
        return result


def trained(job: Job, *, data: Path, out: Path, device: torch.device) -> Trained:
    """Train the model of a job, or go on training it."""
    folder, started = job.folder(out), time.perf_counter()
    config = read_config(job.config, [*job.changes, f"training.seed={job.seed}"], data=data)
    project = Project.from_config(config)
    model = project.model().to(device)
    *_, last = train(
        model,
        project.corpora["train"],
        valid=project.corpora.get("valid"),
        others=project.others,
        settings=config.training,
        folder=folder,
        resume=has_bundle(folder, "training"),
    )
    summary: dict[str, Any] = {
        "name": job.name,
        "seed": job.seed,
        "config": str(job.config),
        "changes": list(job.changes),
        "epochs": last.epoch,
        "words_per_second": last.words_per_second,
        "valid": last.best,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    return Trained(config, project, model, summary, started)


def run_job(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train (or go on training), test, and write the result."""
    found = trained(job, data=data, out=out, device=device)
    config, model = found.config, found.model
    batching = config.training.batches.make()
    texts = {Path(path).stem: Corpus.from_file(path, lowercase=True) for path in config.corpus.test}
    of, train = f"{job.name}, seed {job.seed}", found.project.corpora["train"][:1000]
    evaluations = {
        name: evaluate(model, corpus, batching=batching).sound(f"{of}, {name}") for name, corpus in texts.items()
    }
    result: dict[str, Any] = {
        "train": evaluate(model, train, batching=batching).sound(f"{of}, training text").log_perplexity,
        "symbols": model.output_features.n_symbols,
        "features": model.output_features.n_features,
        "classes": model.output_features.n_classes,
        "tests": {name: _summary(test) for name, test in evaluations.items()},
    }
    if (data / "pairs.jsonl").exists():
        result["pairs"] = score_pairs(model, read_pairs(data / "pairs.jsonl")).summary()
    return found.write(job.folder(out), result)


def _summary(found: Evaluation) -> dict[str, Any]:
    return {
        "log_perplexity": found.log_perplexity,
        "bits_per_character": found.bits_per_character,
        "words": found.words,
        "contract": asdict(found.contract),
        "by_frequency": {name: asdict(part) for name, part in found.by_frequency.items()},
        "audit": asdict(found.audit),
        "problems": found.audit.problems(),
    }


def run_jobs(
    jobs: Sequence[Job],
    *,
    data: Path,
    out: Path,
    device: str,
    parallel: int,
    tell: Callable[[str], None],
    deadline: float | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Run what has no result yet, `parallel` at a time, and return the results of all seeds by the name of the job.

    After `deadline` (seconds) nothing new is begun; jobs without a result are left out. Raises TrainingError if a job
    that was begun has no result.
    """
    out.mkdir(parents=True, exist_ok=True)
    commands = {_command(job, data, out, device): job for job in jobs if job.result(out) is None}
    waiting, failed, processes, started = list(commands), list[str](), Processes(), time.monotonic()
    try:
        while waiting or len(processes):
            if deadline is not None and time.monotonic() - started > deadline:
                waiting.clear()
            while waiting and len(processes) < parallel:
                processes.start(waiting.pop(0))
            for command, reason in processes.ended():
                tell(_outcome(job := commands[command], out, reason, command.log))
                failed += [job.name] if job.result(out) is None else []
    finally:
        processes.kill()
    if failed:
        raise TrainingError(f"these models failed: {', '.join(failed)}; see output.log in their folders under {out}")
    return results(jobs, out)


def results(jobs: Sequence[Job], out: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the results that the folder `out` has of these jobs: those of all seeds, by the name of the job."""
    found: dict[str, list[dict[str, Any]]] = {}
    for job in jobs:
        if (result := job.result(out)) is not None:
            found.setdefault(job.name, []).append(result)
    return found


def _command(job: Job, data: Path, out: Path, device: str) -> Command:
    """What trains and tests a model, in a process of its own."""
    arguments = ["experiment", "model", str(job.config), "--study", job.study]
    arguments += ["--name", job.name, "--seed", str(job.seed)]
    arguments += [word for change in job.changes for word in ("--set", change)]
    arguments += ["--data", str(job.data or data), "--out", str(out), "--device", device]
    return Command(tuple(arguments), job.folder(out) / "output.log")


def _outcome(job: Job, out: Path, reason: str, log: Path) -> str:
    result = job.result(out)
    if result is None:
        reason = reason or "ended without a result"
        return f"{job.name}, seed {job.seed}: {reason}, {log} ends with: {_last_line(log)}"
    tests = [f"{name} {_figure(found)}" for name, found in result["tests"].items()]
    figures = [f"valid {result['valid']:.3f}", *tests, f"{result['seconds']:.0f} s"]
    return f"{job.name}, seed {job.seed}: {', '.join(figures)}"


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf8", errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")


def _figure(found: dict[str, Any]) -> str:
    """The one figure of a test that tells how a job went."""
    if "slot_error_rate" in found:
        return f"{100 * found['slot_error_rate']:.2f} % slot errors"
    if "right" in found:
        return f"{100 * found['right']['all']['right'] / max(1, found['right']['all']['said']):.1f} % right"
    return f"{found['log_perplexity']:.3f}"
