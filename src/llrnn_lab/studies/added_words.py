"""Words that are added to a trained model without training: what are features and counts worth?

    before                    the word is a string of its cell: it is spelt
    attributes                form and attributes; its prior is that of the string which it was
    attributes and count      the same, and a count: frequency in an outside list × words of the training text
    count                     form and count; nobody says what kind of word it is

The model lists the words of its training text alone. When it is trained, the test texts are opened, and some of their
words that it does not list, but a lexicon knows, are added: an oracle says which, as if somebody had seen which words
were missing. What they are and how frequent they are is said by the lexicon and the outside list, never by the tests.
A count is a whole number of 1 or more, so most of these words, which are rarer than that, get somewhat too much.

Compared are sentences that hold an added word, the added words, the words around them (they see another input), and all
other sentences, whose words lose what the added words gain: they change by the factor of the new Z alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import blake2b
from operator import add as join
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llrnn.config import read_config
from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError
from llrnn.model.checkpoint import load
from llrnn.model.network import LLRNN
from llrnn.model.words import Entry, add
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import Lexicon, read_frequencies
from llrnn_lab.studies import open_data
from llrnn_lab.studies.jobs import Job, run_job
from llrnn_lab.studies.open_vocabulary import word_log_probs
from llrnn_lab.studies.tables import markdown, write_results

LANGUAGE = "fr"
CONFIG = Path("configs/open/added/llrnn.toml")
MOST = 1000  # words to add
BEFORE, ATTRIBUTES, BOTH, COUNT = "before", "attributes", "attributes and count", "count"
PARTS = ("sentences with added words", "added words", "words around them", "other sentences")

Tell = Callable[[str], None]


@dataclass(frozen=True)
class HeldOut:
    """The words to add with all that is known of them, and what had to be left out."""

    entries: tuple[Entry, ...]
    candidates: int
    dropped: Mapping[str, int]  # attributes that the model has no feature for, and how many of the words have each
    expected: Mapping[str, float]  # how often the training text would hold each word, by the list

    def ways(self) -> dict[str, list[Entry]]:
        return {
            ATTRIBUTES: [replace(entry, count=None) for entry in self.entries],
            BOTH: list(self.entries),
            COUNT: [replace(entry, attributes=frozenset()) for entry in self.entries],
        }

    def summary(self) -> dict[str, Any]:
        counts = [entry.count or 0 for entry in self.entries]
        return {
            "candidates": self.candidates,
            "added": len(self.entries),
            "without_attributes_left": sum(not entry.attributes for entry in self.entries),
            "attributes_dropped": dict(self.dropped),
            "counts": {
                "sum": sum(counts),
                "largest": max(counts),
                "expected_sum": math.fsum(self.expected.values()),
                "raised_to_1": sum(value < 0.5 for value in self.expected.values()),
            },
        }


def run(
    data: Path,
    out: Path,
    *,
    seed: int = 0,
    prepared: Path | None = None,
    config: Path = CONFIG,
    most: int = MOST,
    tell: Tell = lambda text: None,
) -> dict[str, Any]:
    """Prepare, train what is not trained yet, and only then open the tests; figures and a table into the folder."""
    started = time.perf_counter()
    source = prepared or out / LANGUAGE
    if prepared is None:
        open_data.prepare(data, source, LANGUAGE, tell=tell)
    model, training = trained(Job("llrnn", config, seed=seed), source, out, tell)
    lexicon, frequencies = Lexicon.from_tsv(source / "lexicon.tsv"), read_frequencies(source / "frequencies.tsv")
    words = Corpus.from_file(source / "train.conllu", lowercase=True).tokens
    texts = open_data.test_corpora(data, LANGUAGE)
    text = reduce(join, texts.values())
    held_out = hold_out(model, text.counts(), lexicon, frequencies, words=words, most=most, seed=seed)
    tell(f"{len(held_out.entries):,} of {held_out.candidates:,} words are added")
    given = "" if prepared is None else f" --prepared {prepared}"
    found: dict[str, Any] = {
        "command": f"llrnn experiment added-words --data {data} --out {out} --seed {seed}{given}",
        "seed": seed,
        "language": LANGUAGE,
        "config": str(config),
        "data": {"prepared": str(source), "training_words": words, "tests": {n: len(t) for n, t in texts.items()}},
        "training": training,
        "words": held_out.summary(),
        "ways": measure(model, text, held_out, tell),
        "seconds": time.perf_counter() - started,
    }
    write_results(out, "added-words", found, report(found))
    return found


def trained(job: Job, prepared: Path, out: Path, tell: Tell) -> tuple[LLRNN, dict[str, Any]]:
    """The model that the configuration describes, and how its training went; trained if it is not there."""
    result = job.result(out)
    if result is None:
        tell(f"training {job.folder(out)}")
        result = run_job(job, data=prepared, out=out, device=torch.device("cpu"))
    model = load(job.folder(out))
    asked = read_config(job.config, [f"training.seed={job.seed}"], data=prepared).model_dump(mode="json")
    if model.provenance.get("config") != asked:
        raise ConfigError(
            f"{job.folder(out)}: a model of {job.config} and {prepared} is required, found one of another "
            "configuration; remove that folder"
        )
    kept = ("epochs", "seconds", "words_per_second", "valid", "symbols", "features", "classes", "parameters")
    return model, {key: result[key] for key in kept}


def hold_out(
    model: LLRNN,
    types: Iterable[str],
    lexicon: Lexicon,
    frequencies: Mapping[str, float],
    *,
    words: int,
    most: int = MOST,
    seed: int = 0,
) -> HeldOut:
    """Types that the model does not list, but the lexicon and the list know; which of them, a hash of each decides."""
    candidates = [form for form in types if form not in model.vocabulary and lexicon(form) and form in frequencies]
    if not candidates:
        raise ConfigError("no word of the tests is left to add: all are listed already, or have no attributes")
    chosen = sorted(sorted(candidates, key=lambda form: _place(form, seed))[:most])
    features = {*model.output_features.names, *model.input_features.names}
    dropped: dict[str, int] = {}
    for attribute in sorted(attribute for form in chosen for attribute in lexicon(form) - features):
        dropped[attribute] = dropped.get(attribute, 0) + 1
    expected = {form: frequencies[form] * words for form in chosen}
    entries = (Entry(form, lexicon(form) & features, max(1, round(expected[form]))) for form in chosen)
    return HeldOut(tuple(entries), len(candidates), dropped, expected)


def _place(form: str, seed: int) -> bytes:
    return blake2b(f"{seed} {form}".encode("utf8", "surrogatepass"), digest_size=8).digest()


def measure(model: LLRNN, text: Corpus, held_out: HeldOut, tell: Tell = lambda text: None) -> dict[str, Any]:
    """The figures of every part of the text, before and after the words are added in each way."""
    forms = {entry.form for entry in held_out.entries}
    before = word_log_probs(model, text)
    found: dict[str, Any] = {BEFORE: {"parts": figures(text, forms, before, before)}}
    for name, entries in held_out.ways().items():
        started = time.perf_counter()
        larger = add(model, entries)
        seconds = time.perf_counter() - started
        found[name] = {"seconds": seconds, "parts": figures(text, forms, before, word_log_probs(larger, text))}
        tell(f"{name}: added in {seconds:.2f} s")
    return found


def figures(
    text: Corpus, forms: Collection[str], before: Sequence[Floats], after: Sequence[Floats]
) -> dict[str, dict[str, Any]]:
    """Log-perplexity of each part, and by how much it changed, with the standard error over sentences."""
    rows: dict[str, list[tuple[int, float, float]]] = {part: [] for part in PARTS}
    for sentence, old, new in zip(text, before, after, strict=True):
        for part, where in _parts(sentence.words, forms):
            rows[part].append((int(where.sum()), -float(new[where].sum()), float(old[where].sum() - new[where].sum())))
    return {part: _figure(np.array(own).reshape(-1, 3)) for part, own in rows.items()}


def _parts(words: Sequence[str], forms: Collection[str]) -> Iterator[tuple[str, np.ndarray]]:
    """The parts of the text that a sentence belongs to, and which of its words and its end count there."""
    added = np.array([*(word in forms for word in words), False])
    everything = np.ones(len(added), dtype=bool)
    if added.any():
        yield from zip(PARTS, (everything, added, ~added), strict=False)
    else:
        yield PARTS[-1], everything


def _figure(rows: Floats) -> dict[str, Any]:
    """Of (words, −Σ log p, change of it) by sentence; the error is that of a ratio of two means."""
    count, nats, change = rows.sum(0).tolist()
    if not count:
        return {"sentences": 0, "words": 0, "log_perplexity": None, "change": None, "error": None}
    ratio = change / count
    error = math.sqrt(float(np.square(rows[:, 2] - ratio * rows[:, 0]).sum())) / count
    return {
        "sentences": len(rows),
        "words": int(count),
        "log_perplexity": nats / count,
        "change": ratio,
        "error": error,
    }


def table(found: Mapping[str, Any]) -> str:
    """Nats a word by way of adding and part of the text."""
    sizes = found["ways"][BEFORE]["parts"]
    header = ["added with", *(f"{part} (n = {sizes[part]['words']:,})" for part in PARTS), "seconds"]
    rows = [
        [name, *(_cell(one["parts"][part]) for part in PARTS), _seconds(one)] for name, one in found["ways"].items()
    ]
    return markdown(header, rows)


def report(found: Mapping[str, Any]) -> str:
    """The table, in nats a word, and what was added."""
    words = found["words"]
    counts, dropped = words["counts"], words["attributes_dropped"]
    said = [
        f"{words['added']:,} words were added, of {words['candidates']:,} that could be; ends of sentences count.",
        f"{sum(dropped.values())} attributes of {len(dropped)} kinds were dropped: the model has no such feature.",
        f"Counts: {counts['sum']:,} in all, where the list expects {counts['expected_sum']:,.1f}; "
        f"{counts['raised_to_1']:,} were raised to 1.",
    ]
    shown = "\n".join(f"- {sentence}" for sentence in said)
    return f"Nats a word (change ± standard error over sentences):\n\n{table(found)}\n{shown}\n"


def _cell(part: Mapping[str, Any]) -> str:
    if part["log_perplexity"] is None:
        return "–"
    change = "" if part["change"] == 0 else f" ({part['change']:+.4f} ± {part['error']:.4f})"
    return f"{part['log_perplexity']:.4f}{change}"


def _seconds(way: Mapping[str, Any]) -> str:
    return f"{way['seconds']:.2f}" if "seconds" in way else "–"
