"""Logical forms from questions: what a grammar of the forms is worth, and a lexicon of names, by the size of the text.

    softmax     a sequence-to-sequence model with attention: words in, a softmax over symbols of the form out
    masked      the same trained model; the grammar forbids symbols when it writes, and was not there in training
    strict      the grammar is the background, in training and in writing
    grammar     the same, but what the grammar forbids is a tenth as likely in training; in writing it is impossible
    primed      + names of the lexicon that stand in the question: primed, and copied symbol by symbol
    typed       the same model of geo, which writes with one constraint more: variables have a kind (`sp_types`)

Where a strict grammar leaves one symbol only, which is at most places of a form, the network learns nothing from it; so
from few forms it learns less. Every model is trained on 20, 50 and 100 % of the text, for a number of steps that is
decided by the share alone, and writes by beam search. Exact match and well-formedness (`sp_scores`) on valid and test.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from llrnn.ground.files import write_atomically
from llrnn.knowledge.backgrounds import Grammar
from llrnn.model.decode import write
from llrnn.model.network import LLRNN
from llrnn.model.steering import swap
from llrnn.text.conditions import Conditions
from llrnn.text.corpus import Corpus
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.sp_data import DATASETS, PARTS, SHARES, write_parts
from llrnn_lab.studies.sp_scores import WellFormed, scores
from llrnn_lab.studies.sp_types import Typing
from llrnn_lab.studies.tables import Results, markdown, mean_and_spread, write_results

SYSTEMS = ("softmax", "strict", "grammar", "primed")  # what is trained; `masked` is softmax, written with the grammar
ROWS = ("softmax", "masked", "strict", "grammar", "primed", "typed")
BEAM = 5
LONGEST = 100  # symbols of a form: half as many again as any training form has
WORDS = 256  # positions in a batch
ALL = 101  # a share: the validation text too, as others train on GeoQuery; what it validates then means nothing
STEPS = {20: 1000, 50: 1600, 100: 2600, ALL: 4300}  # a small text is learnt by heart sooner
# more in the way of learning all of it by heart, in so many steps; chosen on GeoQuery's validation text
ALL_CHANGES = ("controller.dropout=0.3", "training.weight_decay=0.1")
NAMES = "geo_names.tsv"
GRAMMAR = "forms.lark"


def run(
    data: Path,
    out: Path,
    *,
    configs: Path,
    datasets: Sequence[str] = DATASETS,
    systems: Sequence[str] = SYSTEMS,
    shares: Sequence[int] = SHARES,
    seeds: int = 1,
    parallel: int = 1,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Write the texts, train what is not trained yet, and gather the results."""
    for dataset in datasets:
        prepare(data, out / "data" / dataset, dataset, shares, configs)
    planned = jobs(configs, out / "data", datasets, systems, shares, seeds)
    found = by_row(
        run_jobs(planned, data=out / "data", out=out / "models", device=device, parallel=parallel, tell=tell)
    )
    write_results(out, "semantic-parsing", found, table(found))
    return found


def prepare(data: Path, folder: Path, dataset: str, shares: Sequence[int], configs: Path) -> None:
    """The texts of a dataset, and the grammar of its forms, in one folder."""
    write_parts(folder, data, dataset, [share for share in shares if share != ALL], known=configs / NAMES)
    shutil.copyfile(configs / f"{dataset}.lark", folder / GRAMMAR)


# --- what is trained


def jobs(
    configs: Path, data: Path, datasets: Sequence[str], systems: Sequence[str], shares: Sequence[int], seeds: int
) -> list[Job]:
    """A model for each dataset, system, share of the text and seed; the largest first, they take longest."""
    return [
        Job(
            f"{dataset}-{system}-{_named(share)}",
            configs / f"{system}.toml",
            tuple(_changes(data / dataset, system, share)),
            seed,
            study="semantic-parsing",
        )
        for share in sorted(shares, reverse=True)
        for seed in range(seeds)
        for dataset in datasets
        for system in systems
    ]


def _named(share: int) -> str:
    return "all" if share == ALL else str(share)


def _changes(folder: Path, system: str, share: int) -> list[str]:
    part = "train" if share == 100 else f"train-{_named(share)}"
    text = f"{part}.linked.jsonl" if system == "primed" else f"{part}.jsonl"
    own = f"{{data}}/{folder.name}"
    changes = [f'corpus.train=["{own}/{text}"]', f'vocabulary.files=["{own}/symbols.txt"]']
    if system != "softmax":
        changes.append(f'background.grammar.file="{own}/{GRAMMAR}"')
    if system == "primed":
        changes.append(f'lexicon.tsv=["{own}/names.tsv"]')
    changes += ALL_CHANGES if share == ALL else ()
    return [*changes, f"training.epochs={_epochs(folder / text, share)}"]


def _epochs(path: Path, share: int) -> int:
    text = _text(path, "plain")
    return math.ceil(STEPS.get(share, STEPS[100]) * WORDS / (text.tokens + len(text)))


def _text(path: Path, conditions: Conditions) -> Corpus:
    return Corpus.from_file(path, conditions=conditions)


# --- one model


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train one model (or go on), let it write, score what it wrote; a softmax also with the grammar."""
    found, folder = trained(job, data=data, out=out, device=device), job.folder(out)
    own = data / job.name.partition("-")[0]
    judge = WellFormed.from_file(own / GRAMMAR)
    linked = ".linked" if found.config.corpus.conditions == "act" else ""
    texts = {part: _text(own / f"{part}{linked}.jsonl", found.config.corpus.conditions) for part in PARTS}

    def tested(model: LLRNN, name: str) -> dict[str, Any]:
        return {part: scored(model, text, judge, folder / f"{part}{name}.txt") for part, text in texts.items()}

    grammar = Grammar.from_file(own / GRAMMAR, longest=LONGEST)
    strict = swap(found.model, background=found.model.background * grammar)
    if found.config.background.grammar is None:
        results = {"tests": tested(found.model, ""), "masked": tested(strict, "-masked")}
    else:
        results = {"tests": tested(strict, "")}
    if job.name.startswith("geo-primed"):
        results["typed"] = tested(swap(found.model, background=strict.background * Typing()), "-typed")
    return found.write(folder, {**results, "valid": results["tests"]["valid"]["exact"]})


def scored(model: LLRNN, text: Corpus, judge: WellFormed, path: Path) -> dict[str, Any]:
    """What a model writes from the questions of a text, and how good that is."""
    found = write(model, [sentence.condition for sentence in text], beam=BEAM, max_words=2 * LONGEST)
    outputs = [one.words for one in found]
    write_atomically(path, "".join(f"{' '.join(words)}\n" for words in outputs).encode())
    return scores([sentence.words for sentence in text], outputs, judge)


# --- results


def by_row(results: Results) -> dict[str, Any]:
    """Return the results of all seeds by dataset, row and share, as `geo-masked-20`, from those by the name of the job.

    `masked` and `typed` are rows of their own.
    """
    found: dict[str, Any] = {}
    for name, seeds in results.items():
        dataset, system, share = name.split("-")
        for row, key in {system: "tests", "masked": "masked", "typed": "typed"}.items():
            if key in seeds[0]:
                found[f"{dataset}-{row}-{share}"] = [
                    {**{about: one[about] for about in ("seed", "epochs", "parameters", "seconds")}, "tests": one[key]}
                    for one in seeds
                ]
    return found


def table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A row for each dataset, share and system: means over seeds, in percent, with their spread."""
    names = sorted(found, key=_place)
    rows = []
    for name in names:
        dataset, system, share = name.split("-")
        tests = [[one["tests"][part] for one in found[name]] for part in PARTS]
        cells = [mean_and_spread([100 * one[what] for one in part], 1) for part in tests for what in _FIGURES]
        rows.append([dataset, share if share == "all" else f"{share} %", system, str(len(found[name])), *cells])
    columns = [f"{what}, {part}" for part in PARTS for what in _FIGURES.values()]
    return markdown(["dataset", "text", "system", "seeds", *columns], rows)


_FIGURES = {"exact": "exact match, %", "well_formed": "well-formed, %"}


def _place(name: str) -> tuple[int, int, int]:
    dataset, system, share = name.split("-")
    return DATASETS.index(dataset), ALL if share == "all" else int(share), ROWS.index(system)
