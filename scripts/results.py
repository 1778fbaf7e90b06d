"""The files of docs/results, and the values in them that the pages quote; `figures.py` says what for."""

from __future__ import annotations

import functools
import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llrnn_lab.bench.curve import TimeCurve
from llrnn_lab.bench.report import times
from llrnn_lab.bench.rows import Row

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
RUNS = {"bench.json": "Neoverse N1", "bench-xeon.json": "Xeon"}  # of `llrnn bench`, and where
DATASETS = ("geo", "calendar", "publications", "recipes", "restaurants")


@functools.cache
def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf8"))


def log_perplexities(model: str, test: str, file: str = "table4.json") -> list[float]:
    """One for each seed of a model of Table 4, or of its experts."""
    found = read(file)
    if "rows" in found:
        return [row["tests"][test] for row in found["rows"] if row["name"] == model]
    return [one["tests"][test]["log_perplexity"] for one in found[model]]


def log_perplexity(model: str, test: str, file: str = "table4.json") -> float:
    return statistics.fmean(log_perplexities(model, test, file))


def over_seeds(runs: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> float:
    return statistics.fmean(value(run) for run in runs)


def bench(name: str, file: str = "bench.json") -> Row:
    """A row of `llrnn bench`, by its name."""
    rows = [row for suite in read(file)["suites"].values() for row in suite["rows"]]
    return Row.from_json(next(row for row in rows if row["name"] == name))


def figures(suite: str, file: str = "bench.json") -> Any:
    return read(file)["suites"][suite]["figures"]


# --- what is quoted in more than one page ---------------------------------------------------------------------------


def ratios(name: str) -> tuple[str, str]:
    """Of a row of `llrnn bench`, on the Neoverse N1 and on the Xeon."""
    here, there = (bench(name, file).ratio for file in RUNS)
    return times(here), times(there)


def version() -> str:
    """Of llrnn in both runs of `llrnn bench`, apart from suites that were run again."""
    (found,) = {read(file)["machine"]["llrnn"] for file in RUNS}
    return str(found)


def adaptive_epochs() -> list[str]:
    """How many times as fast as an adaptive softmax LL-RNN (2500) trains: on the Neoverse N1, the Xeon, an H200."""
    files = (*RUNS, "bench-adaptive-gpu.json")
    speeds = [bench("an epoch, llrnn, 2,500 identities", file).ratio for file in files]
    return [f"{speeds[0]:.2f}", f"{speeds[1]:.2f}", f"{speeds[2]:.1f}"]


def after_seconds() -> dict[str, str]:
    """Log-perplexity by system at the end of the curve of one core: softmax, adaptive softmax, LL-RNNs."""
    found = read("bench-curve.json")
    last = TimeCurve(found).at(found["seconds"] * 1.02)  # a step may end a little later
    return {name: f"{last[name]:.2f}" for name in sorted(last, key=lambda name: last[name])}


def french(model: str, test: str = "test1", digits: int = 2) -> str:
    return f"{log_perplexity(model, test):.{digits}f}"


def classes(model: str) -> str:
    return f"{read('table4.json')[model][0]['classes']:,}"


def agreement(model: str, distance: str | None = "5+") -> str:
    pairs = read("table4.json")[model][0]["pairs"]
    return f"{100 * (pairs['by_distance'][distance] if distance else pairs['overall'])['accuracy']:.1f}"


def novels(system: str) -> str:
    """Perplexity after 10,000 words of each novel, means of the seeds' log-perplexities."""
    runs: dict[str, list[float]] = {}
    for run in read("adaptation-rivals.json"):
        runs.setdefault(run["novel"], []).append(run[system]["test"])
    return " / ".join(f"{math.exp(statistics.fmean(own)):.0f}" for own in runs.values())


def with_knowledge(model: str, test: str = "test1", digits: int = 2) -> str:
    """The log-perplexity of a model that has word vectors, and maybe other texts: mean of its seeds."""
    (row,) = (row for row in read("french-knowledge.json")["rows"] if row["name"] == model)
    return f"{statistics.fmean(row[test]):.{digits}f}"


def bits(language: str, test: str = "test1") -> tuple[float, float]:
    """Bits per character of the LL-RNN, and of the best of the others; "more": French with other texts and vectors."""
    more = language == "more"
    systems = (read("open-vocabulary-more.json") if more else read("open-vocabulary.json")[language])["systems"]
    of = {name: one["tests"][test]["bits_per_character"] for name, one in systems.items()}
    return of.pop("llrnn"), min(of.values())


def without_lists(test: str = "test1") -> float:
    value: float = read("open-vocabulary-seeds.json")["models"]["no-lists.seed0"]["tests"][test]["bits_per_character"]
    return value


def slot_errors(system: str, test: str = "test") -> float:
    return 100 * over_seeds(read("nlg.json")[f"{system}-100"], lambda run: run["tests"][test]["slot_error_rate"])


def misplaced(system: str, test: str = "test") -> float:
    """Of all phrases that announce a value, those that a value of another slot follows, per cent."""
    tests: list[dict[str, int]] = [run["tests"][test] for run in read("nlg.json")[f"{system}-100"]]
    return 100 * sum(one["misplaced"] for one in tests) / sum(one["announced"] for one in tests)


def parsed(system: str) -> str:
    """Exact match with 20 % of the text, mean of the datasets."""
    found = [read("semantic-parsing.json")[f"{data}-{system}-20"] for data in DATASETS]
    means = [over_seeds(runs, lambda run: run["tests"]["test"]["exact"]) for runs in found]
    return f"{100 * sum(means) / len(means):.1f} %"


def stated(system: str, part: str) -> tuple[str, int]:
    """Per cent of the statements that are the table's, and how many there are."""
    counts = [run["tests"][part]["right"]["all"] for run in read("knowledge-base.json")[system]]
    right, said = (sum(count[key] for count in counts) for key in ("right", "said"))
    return f"{100 * right / said:.1f} %", said


def on_running_text() -> list[str]:
    """KenLM's time by ours: asked word by word, and for the sums of sentences. The run on a Xeon is older."""
    return [f"{bench(f'n-grams, {name}').ratio:.2f}" for name in ("text", "sentences")]


def grammar(peer: str, key: str) -> list[float]:
    """The peer's time by ours, on both machines."""
    return [figures("constraint", file)["ratio"][peer][key] for file in RUNS]


def cold_grammar() -> tuple[float, float]:
    """llguidance's time by ours in documents never seen, with the step: right after building, and after others.

    Later than both runs of `llrnn bench` (`grammar`), on the Neoverse N1 while others used it.
    """
    ratio = read("bench-constraint.json")["ratio"]["llguidance"]
    return ratio["first, with the step"], ratio["new, with the step"]


def chosen_of_twenty() -> tuple[str, str]:
    """Slot errors by the measure of the corpus's authors: delexicalised, the best of twenty texts; copied, of one."""
    chosen = [one["reranked"]["test"] for one in read("nlg-rivals.json")["delexicalised-100"]]
    own = [one["tests"]["test"] for one in read("nlg-frames.json")["copied"]]
    rates = (over_seeds(tests, lambda one: one["placeholder_error_rate"]) for tests in (chosen, own))
    theirs, ours = (f"{100 * rate:.2f} %" for rate in rates)
    return theirs, ours


def crossfitted() -> tuple[float, float]:
    """Validation with one 5-gram expert: cross-fitted, and not."""
    (expert,) = (row for row in read("experts.json")["rows"] if row["name"] == "expert")
    return expert["valid"], min(trial("order 5, folds = 0")["valid_by_epoch"])


def trial(name: str) -> dict[str, Any]:
    (found,) = (one for one in read("experts.json")["trials"] if one["name"] == name)
    return dict(found)
