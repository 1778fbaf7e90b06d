"""Sentences from dialog acts: what each kind of knowledge is worth, by the size of the training text.

    softmax         a sequence-to-sequence model with attention: words in, a softmax over words out
    delexicalised   the same, with placeholders for values, filled in afterwards
    features        + input features: the words of the act with their slots
    primed          + a background in which words of values need evidence in the act
    copied          + the value of a slot, word by word, until it is said; values have no other identity

Every model is trained on 5, 20 and 100 % of the text and writes, by beam search, from the acts of the test and from the
same acts with names and telephone numbers that nobody has seen. BLEU, slot errors (`nlg_scores`),
log-perplexity. Those with all of the text write once more as published systems do: of the twenty best,
the one with the fewest slot errors.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from llrnn.config import Config
from llrnn.ground.files import write_atomically
from llrnn.inference.evaluation import evaluate
from llrnn.inference.meanings import bleu, references_of
from llrnn.model.decode import Generated, beam_search_each, prepared, spoken, write
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.nlg_data import SHARES, write_parts
from llrnn_lab.studies.nlg_scores import (
    UNCOUNTED,
    Inventory,
    announced,
    placeholder_errors,
    slot_errors,
    sum_of_errors,
)
from llrnn_lab.studies.tables import markdown, write_results

SYSTEMS = ("softmax", "delexicalised", "features", "primed", "copied")
TESTS = ("valid", "test", "unseen")
WRITTEN = ("valid-unseen", *TESTS)  # acts that models write from; the first is to choose by
BEAM = 5
OVERGENERATED = 20  # of which the one with the fewest errors is taken (Wen et al. 2015)
# a small text needs more passes, and less at a time, for as many steps
PACE = {5: (150, 64), 20: (100, 128), 100: (60, 256)}  # share: (epochs, words in a batch)


def jobs(configs: Path, systems: Sequence[str], shares: Sequence[int], seeds: int) -> list[Job]:
    """A model for each system, share of the text and seed; the largest first, they take longest."""
    return [
        Job(f"{system}-{share}", configs / f"{system}.toml", tuple(_changes(share)), seed, study="nlg")
        for share in sorted(shares, reverse=True)
        for seed in range(seeds)
        for system in systems
    ]


def _changes(share: int) -> list[str]:
    part = "train" if share == 100 else f"train-{share}"
    epochs, words = PACE.get(share, PACE[100])
    paced = [f"training.epochs={epochs}", f'training.batches={{kind="sentences", words={words}}}']
    return [f'corpus.train=["{{data}}/{part}.jsonl"]', *paced]


def run(
    data: Path,
    out: Path,
    *,
    configs: Path,
    systems: Sequence[str] = SYSTEMS,
    shares: Sequence[int] = SHARES,
    seeds: int = 1,
    parallel: int = 1,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Write the texts, train what is not trained yet, and gather the results."""
    parts = write_parts(out / "data", data / "rnnlg_restaurant", [*shares, 100])
    for problem in parts.problems:
        tell(problem)
    planned = jobs(configs, systems, shares, seeds)
    found = run_jobs(planned, data=out / "data", out=out / "models", device=device, parallel=parallel, tell=tell)
    write_results(out, "nlg", found, table(found))
    return found


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train one model (or go on), let it write, score what it wrote."""
    found, folder = trained(job, data=data, out=out, device=device), job.folder(out)
    texts = {part: _text(data / f"{part}.jsonl") for part in ("train", *WRITTEN)}
    inventory = Inventory.of(*(texts[part] for part in ("train", *TESTS)), uncounted=UNCOUNTED)
    tests = {
        part: _scored(found.model, found.config, texts[part], inventory, folder / f"{part}.txt") for part in WRITTEN
    }
    if job.name.endswith("-100"):
        reranked = {"test": _reranked(found.model, texts["test"], inventory)}  # nothing is chosen by it
        return found.write(folder, {"tests": tests, "reranked": reranked})
    return found.write(folder, {"tests": tests})


def _reranked(model: LLRNN, text: Corpus, inventory: Inventory) -> dict[str, Any]:
    """Of the twenty best sentences for each act the one with the fewest errors in its placeholders or values."""
    acts = [sentence.condition for sentence in text]
    found = beam_search_each(prepared(model, acts), acts, beam=OVERGENERATED)
    best = [min(some, key=partial(_wrong, act)) for some, act in zip(found, acts, strict=True)]
    outputs = [spoken(model, one, act).words for one, act in zip(best, acts, strict=True)]
    return scores(text, outputs, inventory)


def _wrong(act: object, found: Generated) -> int:
    errors = placeholder_errors(act, found.words)
    return errors.missing + errors.redundant


def _text(path: Path) -> Corpus:
    return Corpus.from_file(path, lowercase=True, conditions="act")


def _scored(model: LLRNN, config: Config, text: Corpus, inventory: Inventory, path: Path) -> dict[str, Any]:
    """What a model writes from the acts of a text, and how good that is."""
    acts = [sentence.condition for sentence in text]
    outputs = [found.words for found in write(model, acts, beam=BEAM)]
    write_atomically(path, "".join(f"{' '.join(words)}\n" for words in outputs).encode())
    comparable = not config.corpus.delexicalised  # placeholders are easier than names
    perplexity = evaluate(prepared(model, acts), text).sound(text.name).log_perplexity if comparable else None
    return {**scores(text, outputs, inventory), "log_perplexity": perplexity}


def scores(text: Corpus, outputs: Sequence[Sequence[str]], inventory: Inventory) -> dict[str, Any]:
    """How good what was written from the acts of a text is."""
    pairs = [(sentence.condition, words) for sentence, words in zip(text, outputs, strict=True)]
    errors = sum_of_errors(slot_errors(act, words, inventory) for act, words in pairs)
    placeholders = sum_of_errors(placeholder_errors(act, words) for act, words in pairs)
    frames = [announced(act, words) for act, words in pairs]
    return {
        "bleu": bleu(references_of(text), outputs),
        "slot_error_rate": errors.rate,
        "slot_errors": errors._asdict(),
        "placeholder_error_rate": placeholders.rate,
        "announced": sum(count for count, _ in frames),
        "misplaced": sum(misplaced for _, misplaced in frames),
        "misplaced_as_read": sum(announced(act, words, as_read=True)[1] for act, words in pairs),
    }


def table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A row for each model: means over seeds."""
    rows = []
    for name, results in found.items():
        system, _, share = name.rpartition("-")
        cells = [_cells([result["tests"][part] for result in results]) for part in TESTS]
        rows.append([f"{share} %", system, str(len(results)), *(cell for part in cells for cell in part)])
    columns = [f"{what}, {part}" for part in TESTS for what in ("slot errors, %", "BLEU", "log-perplexity")]
    return markdown(["text", "system", "seeds", *columns], rows)


def _cells(scores: Sequence[Mapping[str, Any]]) -> list[str]:
    perplexities = [one["log_perplexity"] for one in scores if one["log_perplexity"] is not None]
    return [
        f"{100 * statistics.fmean(one['slot_error_rate'] for one in scores):.2f}",
        f"{statistics.fmean(one['bleu'] for one in scores):.1f}",
        f"{statistics.fmean(perplexities):.3f}" if perplexities else "–",
    ]
