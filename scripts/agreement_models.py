"""Agreement as knowledge: models without and with it, three seeds each, trained, and their tests.

The figures are those of docs/morphology.md#agreement-at-a-distance.

    python scripts/agreement_models.py french PREPARED PAIRS OUT --device cuda --parallel 16
    python scripts/agreement_models.py turkish PREPARED PAIRS OUT --device cuda

PREPARED: as `scripts/agreement_data.py` leaves it (and `templates.txt` by `llrnn pairs templates --sentences`, for
models that read some of them in every epoch). PAIRS: the files of `shared/data/pairs_french` (or `pairs_turkish`),
`pairs.jsonl` of PREPARED, and `templates-SEED.jsonl` by `llrnn pairs templates --seed SEED`, 101 to 103 and, to develop
on, 9000. A run is a process and a file, OUT/MODEL.KIND.seedN.json, which grows with each test; those that are done are
not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from llrnn import Corpus, load
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.inference.evaluation import evaluate
from llrnn.inference.pairs import read_pairs, score_pairs
from llrnn.model.network import LLRNN
from llrnn.model.steering import Change, steer
from llrnn.training.loop import train
from llrnn_lab.pairs.suites import BETWEEN, read_suite

ROOT = Path(__file__).parents[1]
KEPT = ("overall", "mean_of_groups", "ties", "left_out", "by_group", "by_distance")
TEMPLATES = [f"templates-{seed}.jsonl" for seed in (101, 102, 103)]
FRENCH = ["templates-9000.jsonl", "gender_at_a_distance.tsv.gz", *TEMPLATES, "qfrblimp.jsonl.gz", "pairs.jsonl"]
TURKISH = ["turblimp.tsv.gz"]


@dataclass(frozen=True)
class Run:
    model: str
    kind: str  # without, with, or constructed sentences in training: templates (with it), alone (without)
    config: str
    sets: list[str]
    seed: int
    tests: list[str]
    pairs: list[str]
    factors: list[int] = field(default_factory=lambda: [1])  # how often clashes are counted

    @property
    def name(self) -> str:
        return f"{self.model}.{self.kind}.seed{self.seed}"


def french() -> Iterator[Run]:
    """The knowledge as features and as inputs."""
    mixed = 'corpus.other=[{files=["{data}/templates.txt"], when="mixed", weight=0.02}]'
    kinds = [("with", "agreement", []), ("templates", "agreement", [mixed]), ("without", "table4", [])]
    runs = [(model, *kind) for kind in kinds for model in ("vectors", "best")]
    for model, kind, folder, sets in [*runs, ("best", "alone", "table4", [mixed])]:
        for seed in range(3):
            yield Run(model, kind, f"configs/{folder}/{model}.toml", sets, seed, ["test1", "test2"], FRENCH)


def turkish() -> Iterator[Run]:
    for seed in range(3):
        for kind, sets, factors in (("with", [], [1, 12]), ("without", ["contextual=[]"], [1])):
            yield Run("turkish", kind, "configs/agreement/turkish.toml", sets, seed, [], TURKISH, factors)


def perform(run: Run, data: Path, pairs: Path, out: Path, device: str) -> None:
    found: dict[str, Any] = {"config": run.config, "sets": run.sets, "seed": run.seed}

    def tell(**what: Any) -> None:
        found.update(what)
        (out / f"{run.name}.json").write_text(json.dumps(found), "utf-8")

    config = read_config(ROOT / run.config, [*run.sets, f"training.seed={run.seed}"], data=str(data))
    project = Project.from_config(config)
    model, began = project.model().to(device), time.monotonic()
    folder = out / "models" / run.name
    text, valid = project.corpora["train"], project.corpora["valid"]
    records = train(model, text, valid=valid, others=project.others, settings=config.training, folder=folder)
    speeds = sorted(record.words_per_second for record in records if record.event == "epoch")
    tell(epochs=len(speeds), words_per_second=round(speeds[len(speeds) // 2]), seconds=round(time.monotonic() - began))
    model = load(str(folder)).to(device).eval()
    tell(tests={name: log_perplexity(model, data / f"{name}.conllu") for name in run.tests})
    for factor in run.factors:
        judge = model if factor == 1 else steer(model, [Change("agreement * clashes *", scale=factor)])
        counted = "" if factor == 1 else f", clashes counted {factor} times"
        tell(**{f"valid{counted}": round(evaluate(judge, valid, contexts_checked=0).log_perplexity, 5)})
        for name in run.pairs:
            tell(**{f"{name.split('.')[0]}{counted}": short(scored(judge, pairs / name))})
    tell(done=True)


def scored(model: LLRNN, path: Path) -> dict[str, Any]:
    """Of suites and templates by the words between the two that agree, of treebanks by their distance."""
    own = path.name.startswith(("pairs", "templates"))
    found = score_pairs(model, read_pairs(path) if own else read_suite(path, model), rows=2048)
    return (found if path.name == "pairs.jsonl" else replace(found, bands=BETWEEN)).summary()


def log_perplexity(model: LLRNN, path: Path) -> float:
    return round(evaluate(model, Corpus.from_file(path, lowercase=True), contexts_checked=0).log_perplexity, 5)


def short(scores: dict[str, Any]) -> Any:
    """What tables need, with five digits."""
    kept = {key: scores[key] for key in KEPT}
    return json.loads(json.dumps(kept), parse_float=lambda text: round(float(text), 5))


def side_by_side(runs: list[Run], parallel: int, data: Path, pairs: Path, out: Path, device: str) -> None:
    """A process each, forked after the imports; what goes wrong stands in OUT/NAME.log."""
    running = 0
    for run in runs:
        if running == parallel:
            os.wait()
            running -= 1
        if os.fork() == 0:
            try:
                torch.set_num_threads(1)
                perform(run, data, pairs, out, device)
            except BaseException:  # a child must not go on as the parent
                (out / f"{run.name}.log").write_text(traceback.format_exc(), "utf-8")
                os._exit(1)
            os._exit(0)
        running += 1
    while running:
        os.wait()
        running -= 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=["french", "turkish"])
    for folder in ("data", "pairs", "out"):
        parser.add_argument(folder, type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--parallel", type=int, default=1, help="how many models at a time")
    parser.add_argument("--only", action="append", help="a run by its name, such as best.with.seed0")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    runs = list({"french": french, "turkish": turkish}[options.language]())
    if unknown := set(options.only or ()) - {run.name for run in runs}:
        raise SystemExit(f"no such run: {', '.join(sorted(unknown))}; there are {', '.join(run.name for run in runs)}")
    left = [run for run in runs if not _done(options.out / f"{run.name}.json")]
    left = [run for run in left if not options.only or run.name in options.only]
    side_by_side(left, options.parallel, options.data, options.pairs, options.out, options.device)
    if failed := [run.name for run in left if not _done(options.out / f"{run.name}.json")]:
        raise SystemExit(f"not done, see {options.out}/NAME.log: {', '.join(failed)}")


def _done(path: Path) -> bool:
    return path.exists() and "done" in json.loads(path.read_text("utf-8"))


if __name__ == "__main__":
    main()
