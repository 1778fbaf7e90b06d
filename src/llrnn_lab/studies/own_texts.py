"""What `llrnn init` writes, against rivals with the same text, lists of words and cache, in bits per character.

A setting is a language, how much of its training text is read, and whether lists of words are given: `tr-20k-lists`.
The LL-RNN has the configuration that `draft_config` writes for it, and nothing else. Its rivals have its budget of
parameters, its layers, batches, rate and averages, and settings of their own that were fixed before:

    softmax       listed words are words of its vocabulary, with the LL-RNN's background as bias; one cell is spelled
    characters    an LSTM over characters, which reads the listed words before its text
    bpe           an LSTM over byte pairs, which does too

Each has a cache of recent words besides: p'(x) ∝ p(x) + μ n(x) / (N + κ), as `backgrounds.Recent` counts n and N, with
μ and κ that are best on the validation text. Nothing else is chosen, so the test is opened once a model is trained.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, islice, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from llrnn.config import read_config
from llrnn.config.draft import draft_config
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_atomically
from llrnn.text import units
from llrnn.text.corpus import Corpus
from llrnn.text.lexicon import read_frequencies
from llrnn.text.units import BytePairs, CharacterUnits
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.open_data import write_units
from llrnn_lab.studies.open_vocabulary import figures, parameters, units_of, widest, word_log_probs
from llrnn_lab.studies.tables import markdown, write_results

Floats = NDArray[np.float64]

STUDY = "own-texts"
SYSTEMS = ("llrnn", "softmax", "characters", "bpe")
CONFIGS = Path("configs/open")
LITTLE = 20_000  # words of a setting `20k`
_VALID = 728  # sentences of French, which has no validation text of its own
_LISTED = 50_000  # words of lists, the most frequent, that rivals without a vocabulary read
_LINE = 10  # listed words in a line of them
_FADING = 20.0  # words, as `init` writes it
_PER_WORD = {"characters": 6, "bpe": 2}  # units
_MU, _KAPPA = (0.03, 0.1, 0.2, 0.3, 0.45, 0.7), (0.0, 5.0, 20.0, 80.0)


@dataclass(frozen=True)
class Language:
    """The folder of a treebank, the names of its parts as patterns, and lists of words as `init --list` takes them."""

    folder: str
    lists: tuple[str, ...] = ()  # {data}: the folder of all data
    train: str = "*-train.conllu*"
    valid: str | None = "*-dev.conllu*"  # None: the last sentences of train
    test: str = "*-test.conllu*"


LANGUAGES = {
    "tr": Language("ud_turkish", ("wordfreq:tr", "/usr/share/hunspell/tr_TR.dic")),
    "et": Language("ud_estonian", ("/usr/share/hunspell/et_EE.dic",)),
    "fr": Language("ud_french_gsd", ("wordfreq:fr",), valid=None),
    "cy": Language(
        "ud_welsh", ("{data}/aspell-cy.txt",)
    ),  # aspell -d cy dump master | aspell -l cy expand, a line each
    "mt": Language("ud_maltese"),
}
SETTINGS = [
    f"{name}-{size}{lists}"
    for size, (name, given) in product(("20k", "whole"), LANGUAGES.items())
    for lists in (("", "-lists") if given.lists else ("",))
]


def prepare(data: Path, out: Path, setting: str) -> None:
    """Write the texts of a setting, the configuration that `init` drafts for them, and what its rivals read."""
    name, size, *lists = setting.split("-")
    given = LANGUAGES[name]
    if (out / "llrnn.toml").exists():
        return
    out.mkdir(parents=True, exist_ok=True)
    train = _blocks(_file(data, given, given.train))
    train, valid = (
        (train, _blocks(_file(data, given, given.valid))) if given.valid else (train[:-_VALID], train[-_VALID:])
    )
    for part, blocks in (("train", train if size == "whole" else _first(train, LITTLE)), ("dev", valid)):
        write_atomically(out / f"x-{part}.conllu", "".join(f"{block}\n\n" for block in blocks).encode())
    found = [one.format(data=data) for one in given.lists] if lists else []
    draft = draft_config([out / "x-train.conllu"], valid=[out / "x-dev.conllu"], out=out / "llrnn.toml", lists=found)
    _write_rivals(out, bool(lists), draft.config.corpus.multiword == "surface")
    write_atomically(out / "test.txt", str(_file(data, given, given.test).resolve()).encode())  # where it lies
    draft.write()  # last: it says that all is there


def _write_rivals(out: Path, listed: bool, surface: bool) -> None:
    texts = {
        part: read_text(out / f"x-{name}.conllu", surface) for part, name in (("train", "train"), ("valid", "dev"))
    }
    train = texts["train"]
    if listed:
        found = read_frequencies(out / "llrnn-data" / "frequencies.tsv")
        words = sorted(found, key=found.__getitem__, reverse=True)[:_LISTED]
        words = np.random.default_rng(0).permutation(np.array(words, dtype=object)).tolist()
        texts["lists"] = Corpus.from_sentences([words[i : i + _LINE] for i in range(0, len(words), _LINE)])
    write_units(out / "characters", CharacterUnits.from_corpus(train), texts)
    write_units(out / "bpe", BytePairs.from_corpus(train, 500 if train.tokens < 30_000 else 2000), texts)


def read_text(path: Path, surface: bool) -> Corpus:
    return Corpus.from_file(path, lowercase=True, surface=surface)


def _file(data: Path, given: Language, pattern: str) -> Path:
    found = sorted((data / given.folder).glob(pattern))
    if len(found) != 1:
        raise ConfigError(f"{data / given.folder}: one file {pattern} is required, found {len(found)}; say --data")
    return found[0]


def _blocks(path: Path) -> list[str]:
    """Return the sentences of a CoNLL-U file as they stand."""
    with gzip.open(path, "rt", encoding="utf8") if path.suffix == ".gz" else path.open(encoding="utf8") as file:
        return file.read().strip().split("\n\n")


def _first(blocks: Sequence[str], words: int) -> list[str]:
    """Return the first sentences, up to the one with which there are so many words."""
    ends = accumulate(len(re.findall(r"^[0-9]+\t", block, re.MULTILINE)) for block in blocks)
    return list(islice(blocks, next((n for n, end in enumerate(ends, 1) if end >= words), len(blocks))))


# --- the systems -----------------------------------------------------------------------------------------------------


def job_of(prepared: Path, system: str, seed: int = 0) -> Job:
    """Return the training of a system: the drafted configuration, or a rival's with as many parameters."""
    name, drafted = f"{prepared.name}.{system}", prepared / "llrnn.toml"
    if system == "llrnn":
        return Job(name, drafted, (), seed, STUDY, prepared)
    config = drafted if system == "softmax" else CONFIGS / f"{system}.toml"
    changes = _changes(prepared, system)
    hidden = widest(Project.from_config(read_config(config, changes, data=prepared)), _budget(drafted))
    return Job(name, config, (*changes, f"controller.hidden={hidden}"), seed, STUDY, prepared)


@cache
def _budget(drafted: Path) -> int:
    ours = Project.from_config(read_config(drafted, ["background.recent='none'"]))  # which has no parameters
    return parameters(ours, ours.config.controller.hidden)


def _changes(prepared: Path, system: str) -> list[str]:
    """Return what a rival's configuration has of the draft, and what was fixed for it."""
    draft = read_config(prepared / "llrnn.toml")
    if system == "softmax":
        seen = read_text(prepared / "x-train.conllu", draft.corpus.multiword == "surface").counts()
        twice = sum(count > 1 for count in seen.values())
        spelling = {"kind": "spelling", "order": 6, "min_counts": draft.domains[1].min_counts, "one_cell": True}  # type: ignore[union-attr]
        return [
            f"features.output=[{{kind='identity', top={twice}}}]",
            f"domains=[{{{', '.join(f'{key}={json.dumps(value)}' for key, value in spelling.items())}}}]",
            "background.recent='none'",
            f"word_dropout={0.5 if draft.controller.layers == 1 else 0.1}",
        ]
    made = [
        f"controller.layers={max(draft.controller.layers, 2 if system == 'characters' else 1)}",
        "controller.dropout=0.5",
        f"training.batches.words={_PER_WORD[system] * draft.training.batches.words}",  # type: ignore[union-attr]
        *(f"training.{key}={getattr(draft.training, key)}" for key in ("learning_rate", "weight_decay", "average")),
        *(f"corpus.{part}=['{{data}}/{system}/{part}.txt']" for part in ("train", "valid")),
        f"vocabulary.files=['{{data}}/{system}/units.txt']",
    ]
    lists = prepared / system / "lists.txt"
    other = f"corpus.other=[{{files=['{lists}'], when='before', epochs=2, run={_LINE * _PER_WORD[system]}}}]"
    return [*made, other] if lists.exists() else made


# --- a cache for everyone --------------------------------------------------------------------------------------------


def recent_counts(corpus: Corpus) -> Iterator[tuple[Floats, float]]:
    """Yield, for each sentence, n of its words and of its end (0), each read after those before it, and N at its start.

    n(x) = Σ 1 / (1 + d / 20) over the earlier places of x, d words before the sentence, and 1 for each in the sentence.
    """
    places: dict[str, list[int]] = {}
    total = [0.0, *accumulate(1 / (1 + d / _FADING) for d in range(1, corpus.tokens + 1))]
    start = 0
    for sentence in corpus:
        found = []
        for number, word in enumerate(sentence.words):
            own = np.array(places.get(word, ()), dtype=np.float64)
            before = own[own < start]
            found.append(float((1 / (1 + (start - before) / _FADING)).sum()) + float(len(own) - len(before)))
            places.setdefault(word, []).append(start + number)
        yield np.array([*found, 0.0]), total[start]
        start += len(sentence.words)


def with_cache(log_probs: Sequence[Floats], corpus: Corpus, mu: float, kappa: float) -> list[Floats]:
    """Return log p' of every word and end: p'(x) = (p(x) + μ n(x) / (N + κ)) / (1 + μ N / (N + κ))."""
    made = []
    for log_p, (n, before) in zip(log_probs, recent_counts(corpus), strict=True):
        total = before + np.arange(len(n))
        share = mu / np.maximum(total + kappa, 1e-9)
        made.append(np.log(np.exp(log_p) + share * n) - np.log1p(share * total))
    return made


def best_cache(log_probs: Sequence[Floats], corpus: Corpus) -> tuple[float, float]:
    """Return μ and κ under which a text is likeliest, of a few; (0, 0) where no cache helps."""
    tried = {(0.0, 0.0): sum(float(one.sum()) for one in log_probs)}
    for mu, kappa in product(_MU, _KAPPA):
        tried[mu, kappa] = sum(float(one.sum()) for one in with_cache(log_probs, corpus, mu, kappa))
    return max(tried, key=tried.__getitem__)


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train a model (or go on training it); its figures on the validation text and on the test, with a cache."""
    found = trained(job, data=data, out=out, device=device)
    surface = read_config(data / "llrnn.toml").corpus.multiword == "surface"
    files = {"valid": data / "x-dev.conllu", "test": Path((data / "test.txt").read_text(encoding="utf8"))}
    texts = {part: read_text(path, surface) for part, path in files.items()}
    own = units_of(found.config)
    cut, model = None if own is None else units.load(data / own / "units.json"), found.model.eval()
    of = {part: word_log_probs(model, text, cut) for part, text in texts.items()}
    found_cache, seen = best_cache(of["valid"], texts["valid"]), read_text(data / "x-train.conllu", surface).counts()
    result = {
        part: {"alone": figures(of[part], text, seen), **figures(with_cache(of[part], text, *found_cache), text, seen)}
        for part, text in texts.items()
    }
    return found.write(
        job.folder(out), {"cache": found_cache, "tests": {"test": result["test"]}, "of valid": result["valid"]}
    )


def run(
    data: Path,
    out: Path,
    settings: Sequence[str] = tuple(SETTINGS),
    systems: Sequence[str] = SYSTEMS,
    *,
    seeds: int = 1,
    processes: int = 1,
    device: str = "cpu",
    deadline: float | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Prepare, train what is missing, and gather all results; what is done already is not done again."""
    if unknown := {*settings} - {*SETTINGS}:
        raise ConfigError(f"settings must be of {', '.join(SETTINGS)}, found {', '.join(sorted(unknown))}")
    with ProcessPoolExecutor(processes) as pool:
        drafted = pool.map(_jobs, *zip(*((data, out / one, systems, seeds) for one in settings), strict=True))
        jobs = sorted((job for own in drafted for job in own), key=lambda job: (job.seed, "fr-whole" not in job.name))
    ended = run_jobs(
        jobs, data=out, out=out / "models", device=device, parallel=processes, deadline=deadline, tell=tell
    )
    made: dict[str, dict[str, Any]] = {}
    for name in sorted(ended, key=lambda name: name.partition(".")[0]):
        setting, _, system = name.rpartition(".")
        made.setdefault(setting, {})[system] = _mean([*map(_summary, ended[name])])
    write_results(out, STUDY, {"settings": made}, table(made))
    return made


def _summary(result: Mapping[str, Any]) -> dict[str, float]:
    """Return a model's size, training and bits per character, with its cache unless it says without."""
    test = result["tests"]["test"]
    return {
        **{key: result[key] for key in ("parameters", "epochs", "seconds")},
        "mu": result["cache"][0],
        "kappa": result["cache"][1],
        "valid": result["of valid"]["bits_per_character"],
        "test": test["bits_per_character"],
        "test without a cache": test["alone"]["bits_per_character"],
        "nats a word": test["log_perplexity"],
        "words": test["words"],
    }


def _mean(seeds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the means of the figures over seeds, and how many there are."""
    return {key: round(sum(one[key] for one in seeds) / len(seeds), 4) for key in seeds[0]} | {"seeds": len(seeds)}


def _jobs(data: Path, prepared: Path, systems: Sequence[str], seeds: int) -> list[Job]:
    prepare(data, prepared, prepared.name)
    return [job_of(prepared, system, seed) for system in systems for seed in range(seeds)]


def table(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return test bits per character of settings in which all systems ended, and ours against the best rival."""
    rows = []
    for setting, systems in found.items():
        if systems.keys() == {*SYSTEMS}:
            bits = [systems[system]["test"] for system in SYSTEMS]
            rows.append([setting, *(f"{one:.3f}" for one in bits), f"{100 * (bits[0] / min(bits[1:]) - 1):+.1f} %"])
    return markdown(["test, bits per character", *SYSTEMS, "against the best rival"], rows)
