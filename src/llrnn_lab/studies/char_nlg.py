"""Sentences from dialog acts, character by character (Goyal et al. 2016): what an automaton of the words is worth.

    softmax      a sequence-to-sequence model with attention: characters of the act in, a softmax over characters out
    masked       the same trained model; the automaton forbids characters when it writes, and was not there in training
    automaton    the automaton is the background, in training and in writing

The automaton holds texts of dictionary words and of values of the act (`char_data`, `backgrounds.Dictionary`). Where it
spells the values, nothing is left to be learnt from spelling them, and where to look in the act is learnt worse. So all
models of a seed begin as one, without the automaton (softmax.toml), and go on for some epochs, half of them with it
(automaton.toml); the others go on for as long without.

Models write by beam search from the acts of the test, and from the same acts with names and telephone numbers that
nobody has seen. Non-words, slot errors and BLEU (`char_scores`); log-perplexity of a character, on the texts that the
automaton can write. What a step of training costs is measured alone, before models are trained side by side.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch

from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.bundle import has_bundle
from llrnn.ground.files import write_atomically
from llrnn.inference.evaluation import evaluate
from llrnn.model.decode import Generated, beam_search_each
from llrnn.model.network import LLRNN
from llrnn.model.steering import swap
from llrnn.text.corpus import Corpus
from llrnn.training.loop import train
from llrnn.training.settings import TrainingSettings
from llrnn_lab.studies.char_data import in_words, joined, outside_values, read_part, write_parts
from llrnn_lab.studies.char_scores import scores
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.nlg_scores import UNCOUNTED, Inventory
from llrnn_lab.studies.tables import markdown, mean_and_spread, write_results

SYSTEMS = ("softmax", "automaton")  # what is trained, each from its configuration
ROWS = ("softmax", "masked", "automaton")
TESTS = ("valid", "test", "unseen")
BEAM = 5
LONGEST = 300  # characters of a sentence: the longest of the training text has 170
STEPS = 20  # of training that are timed


def run(
    data: Path,
    out: Path,
    *,
    configs: Path,
    seeds: int = 1,
    parallel: int = 1,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Write the texts, train what is not trained yet, and gather the results."""
    parts = write_parts(out / "data", data / "rnnlg_restaurant")
    for problem in parts.problems:
        tell(problem)
    costs = {name: seconds_of_a_step(configs / f"{name}.toml", out / "data", torch.device(device)) for name in SYSTEMS}
    planned = [Job("both", configs / "softmax.toml", seed=seed, study="char-nlg") for seed in range(seeds)]
    results = run_jobs(planned, data=out / "data", out=out / "models", device=device, parallel=parallel, tell=tell)
    found = {"seconds_of_a_step": costs, "systems": by_system(results.get("both", ()))}
    write_results(out, "char-nlg", found, table(found))
    return found


def seconds_of_a_step(path: Path, data: Path, device: torch.device) -> float:
    """What a step of training takes, the median of some; the automaton has read the whole text before."""
    config = read_config(path, data=data)
    project = Project.from_config(config)
    settings = config.training.changed(log_every=1, epochs=3 * STEPS, halve_after=None)
    records = train(project.model().to(device), project.corpora["train"], settings=settings)
    times = [time.perf_counter() for _ in islice((one for one in records if one.event == "step"), 2 * STEPS)]
    return statistics.median(after - before for before, after in pairwise(times[STEPS:]))


# --- the models of one seed


@dataclass(frozen=True)
class Judge:
    """What outputs are measured against: the texts in words, the values there are, the words there are."""

    texts: Mapping[str, Corpus]
    inventory: Inventory
    known: frozenset[str]
    dictionary: frozenset[str]

    @classmethod
    def from_folder(cls, folder: Path) -> Judge:
        texts = {part: in_words(read_part(folder / f"{part}.jsonl")) for part in ("train", *TESTS)}
        known = frozenset(word for sentence in texts["train"] for word in sentence.words)
        return cls(
            texts,
            Inventory.of(*texts.values(), uncounted=UNCOUNTED),
            known,
            frozenset(_lines(folder / "dictionary.txt")),
        )


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train what all models of a seed have in common, go on without and with the automaton, score what they write."""
    begun, folder, judge = trained(job, data=data, out=out, device=device), job.folder(out), Judge.from_folder(data)
    config = read_config(job.config.with_name("automaton.toml"), [f"training.seed={job.seed}"], data=data)
    automaton = Project.from_config(config).background

    def tested(name: str, model: LLRNN) -> dict[str, Any]:
        return {part: scored(model, data, part, judge, folder / f"{part}-{name}.txt") for part in TESTS}

    plain = gone_on(swap(begun.model), begun.project, config.training, folder / "softmax")
    held = gone_on(swap(begun.model, background=automaton), begun.project, config.training, folder / "automaton")
    masked = swap(plain, background=automaton)
    models = {"softmax": plain, "masked": masked, "automaton": held}
    rows = {name: tested(name, model) for name, model in models.items()}
    return begun.write(folder, {"tests": rows["automaton"], "rows": rows})


def gone_on(model: LLRNN, project: Project, settings: TrainingSettings, folder: Path) -> LLRNN:
    """The model after some more training, or after what was left of it."""
    texts, resume = project.corpora, has_bundle(folder, "training")
    for _ in train(model, texts["train"], valid=texts["valid"], settings=settings, folder=folder, resume=resume):
        pass
    return model


def scored(model: LLRNN, data: Path, part: str, judge: Judge, path: Path) -> dict[str, Any]:
    """What a model writes from the acts of a text, and how good that is."""
    text, started = judge.texts[part], time.perf_counter()
    found = write_each(model, [sentence.condition for sentence in text])
    outputs = [joined(one.words) for one in found]
    write_atomically(path, "".join(f"{' '.join(words)}\n" for words in outputs).encode())
    return {
        **scores(text, outputs, judge.inventory, judge.known),
        "cut_off": sum(not one.finished for one in found),
        "seconds": time.perf_counter() - started,
        **perplexity(model, read_part(data / f"{part}.jsonl"), judge),
    }


def write_each(model: LLRNN, acts: Sequence[object]) -> list[Generated]:
    """The best of a beam for each act; the same act is written from once."""
    distinct = {str(act): act for act in acts}
    found = beam_search_each(model, list(distinct.values()), beam=BEAM, max_words=LONGEST)
    best = dict(zip(distinct, (beam[0] for beam in found), strict=True))
    return [best[str(act)] for act in acts]


def perplexity(model: LLRNN, text: Corpus, judge: Judge) -> dict[str, Any]:
    """log-perplexity of a character, on the sentences of dictionary words and values: others have no probability."""
    own = zip(text, in_words(text), strict=True)
    within = [sentence for sentence, words in own if judge.dictionary.issuperset(outside_values(words))]
    found = evaluate(model, Corpus(tuple(within), text.name)).sound(text.name).log_perplexity
    return {"log_perplexity": found, "sentences_within": len(within), "sentences": len(text)}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf8").split()


# --- results


def by_system(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the results of all seeds by system, from those of the jobs, each of which has all systems of a seed."""
    about = ("seed", "epochs", "valid", "parameters", "words_per_second", "seconds")
    return {
        row: [{**{key: result[key] for key in about}, "tests": result["rows"][row]} for result in results]
        for row in ROWS
    }


def table(found: Mapping[str, Any]) -> str:
    """A row for each text and system: means over seeds, with their spread."""
    systems, costs = found["systems"], found["seconds_of_a_step"]
    rows = [
        [part, row, str(len(systems[row])), *_cells([one["tests"][part] for one in systems[row]])]
        for part in TESTS
        for row in ROWS
    ]
    steps = "".join(f"A step of training, {name}: {1000 * seconds:.1f} ms\n" for name, seconds in costs.items())
    return f"{markdown(['text', 'system', 'seeds', *_FIGURES], rows)}\n{steps}"


_FIGURES: dict[str, tuple[str, float, int]] = {  # the column: what, times, decimals
    "non-words, %": ("non_word_share", 100, 3),
    "slot errors, %": ("slot_error_rate", 100, 2),
    "BLEU": ("bleu", 1, 1),
    "log-perplexity": ("log_perplexity", 1, 4),
}


def _cells(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    return [mean_and_spread([times * one[what] for one in tests], digits) for what, times, digits in _FIGURES.values()]
