"""The paper's Table 4 (§5): an RNN and eight LL-RNNs, under its protocol and on continuous text, with honest baselines.

Every model is a configuration in `configs/table4/`. `windows` is the paper's way to read the text, as we understand
its "sequence length fixed at 8 words": each word is predicted from the 8 words before it. `continuous` carries the
state on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from llrnn.ground.errors import ConfigError
from llrnn.ground.files import write_atomically
from llrnn.knowledge.backgrounds import NGram
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.studies import tables
from llrnn_lab.studies.jobs import Job, run_jobs
from llrnn_lab.studies.prepare import VECTORS, prepare
from llrnn_lab.studies.tables import write_results

SIZES = (10000, 5000, 3000, 2500, 2000, 1000, 500, 10)
# Dymetman and Xiao (2016), Table 4: log-perplexity on test1 and test2
PAPER = {
    "RNN": (6.07, 6.15),
    10000: (5.17, 5.17),
    5000: (5.13, 5.12),
    3000: (5.11, 5.09),
    2500: (5.08, 5.07),
    2000: (5.11, 5.10),
    1000: (5.13, 5.13),
    500: (5.20, 5.18),
    10: (5.45, 5.44),
}
_CONTINUOUS = ('training.batches={kind="continuous", rows=64, length=32}',)
TESTS = ("test1", "test2")
_KNESER_NEY = Job("kneser-ney", Path())  # estimated here, not trained by a job; its features are n-grams
# best, with n-grams as experts, or trained on other texts too, or with vectors (and where there are none, not)
_MORE = ("expert", "experts", "experts-more", "other", "vectors", "vectors-other", "vectors-other-softmax")


def jobs(configs: Path, *, seeds: int = 3, only: Sequence[str] = ()) -> list[Job]:
    """What is to be trained, what matters most first."""
    found = {path.stem: path for path in sorted(configs.glob("*.toml"))}
    if not found:
        raise ConfigError(f"{configs}: no configuration there; run from the repository, or say --configs")
    missing = [name for name in ("best", "rnn-bias", "rnn", "llrnn") if name not in found]
    if missing:
        raise ConfigError(f"{configs}: the table needs {missing[0]}.toml there, found {', '.join(found)}")
    several = range(seeds)
    made = [Job(name, found[name], (), seed) for name in ("best", "rnn-bias") for seed in several]
    made += [Job(name, found[name], (), seed) for name in _MORE if name in found for seed in several]
    made += _table(found, "windows", (), several)
    made += [Job(name, path) for name, path in found.items() if name.startswith("best-")]
    made += _table(found, "continuous", _CONTINUOUS, several)
    return [job for job in made if not only or any(wanted in job.name for wanted in only)]


def _table(found: Mapping[str, Path], way: str, changes: tuple[str, ...], several: Iterable[int]) -> list[Job]:
    """The rows of the paper's table, read in one way; several seeds for the rows that are compared closely."""
    closely = tuple(several)
    rows = [Job(f"rnn.{way}", found["rnn"], changes, seed) for seed in closely]
    for size in SIZES:
        chosen = (*changes, f"features.output={_features(size)}")
        seeds = closely if size == 2500 else closely[:1]
        rows += [Job(f"llrnn-{size}.{way}", found["llrnn"], chosen, seed) for seed in seeds]
    return rows


def _features(size: int) -> str:
    return f'[{{kind="identity", top={size}}}, {{kind="attributes"}}]'


def run(
    data: Path,
    out: Path,
    *,
    configs: Path,
    only: Sequence[str] = (),
    seeds: int = 3,
    device: str = "cpu",
    parallel: int = 1,
    sentences: int | None = None,
    deadline: float | None = None,
    vectors: Path | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Path:
    """Prepare the data, train what is missing, and write table4.md, table4.json and table4.png; models with word
    vectors are among them where a file of `vectors` is given, or was before."""
    prepared = out / "prepared"
    prepare(data, prepared, tell=tell, sentences=sentences, vectors=vectors)
    kneser_ney(prepared, out)
    wanted = [_KNESER_NEY, *jobs(configs, seeds=seeds, only=only)]
    if not (prepared / VECTORS).exists():
        wanted = [job for job in wanted if not job.name.startswith("vectors")]
    results = run_jobs(wanted, data=prepared, out=out, device=device, parallel=parallel, tell=tell, deadline=deadline)
    return write_tables(results, out)


def kneser_ney(prepared: Path, out: Path, order: int = 5) -> None:
    """The n-gram of every quality table, over the same words; a result as if it were a job's."""
    if _KNESER_NEY.result(out) is not None:
        return
    parts = ("train", "valid", *TESTS)
    texts = {part: Corpus.from_file(prepared / f"{part}.conllu", lowercase=True) for part in parts}
    vocabulary = Vocabulary.from_corpus(*texts.values())
    ngram = NGram.from_corpus(texts["train"], order=order, folds=0).bind(vocabulary)
    assert isinstance(ngram, NGram)

    def log_perplexity(corpus: Corpus) -> float:
        log_prob, _ = ngram.score(EncodedText.encode(corpus, vocabulary).stream())
        return float(-log_prob.mean())

    result = {
        "name": _KNESER_NEY.name,
        "seed": 0,
        "valid": log_perplexity(texts["valid"]),
        "train": log_perplexity(texts["train"][:1000]),
        "symbols": len(vocabulary),
        "features": ngram.table.size,
        "classes": len(vocabulary),
        "tests": {part: {"log_perplexity": log_perplexity(texts[part])} for part in TESTS},
    }
    folder = _KNESER_NEY.folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "result.json", json.dumps(result, indent=1).encode())


def write_tables(results: dict[str, list[dict[str, Any]]], out: Path) -> Path:
    """Write table4.md, .json and .png of results by the name of the job; returns the path of table4.md."""
    if not results:
        raise ConfigError(f"{out}: no model has a result yet")
    text = "\n".join(
        [
            "Log-perplexity, nats a word:\n",
            tables.perplexity_table(results, TESTS),
            "Accuracy on minimal pairs, per cent [95 % interval]:\n",
            tables.agreement_table(results),
        ]
    )
    write_results(out, "table4", results, text)
    _plot(results, out)
    return out / "table4.md"


def _plot(results: dict[str, list[dict[str, Any]]], out: Path) -> None:
    curves: dict[str, list[tuple[int, float]]] = {"paper (its data), test1": [(size, PAPER[size][0]) for size in SIZES]}
    lines: dict[str, float] = {}
    for name, seeds in results.items():
        value = sum(one["tests"]["test1"]["log_perplexity"] for one in seeds) / len(seeds)
        if name.startswith("llrnn-"):
            size, way = name.removeprefix("llrnn-").split(".")
            curves.setdefault(f"LL-RNN, {way}, test1", []).append((int(size), value))
        elif not name.startswith("best-"):  # the ablations have a table of their own
            lines[name] = value
    tables.plot_by_size(curves, lines, out / "table4.png", "French: LL-RNN by the number of identity features")
