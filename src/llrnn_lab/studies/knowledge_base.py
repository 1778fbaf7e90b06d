"""What a system says of restaurants, with a table to consult and without (paper §6).

    softmax     a sequence-to-sequence model that reads the dialogue so far
    reader      the same, which also reads the rows of the table that the experts would look up
    expert      an LL-RNN with `Lookup` experts: the network says when a telephone number is due, the table says which

Each writes every system turn of the test from the dialogue so far; how often is a stated telephone number, address,
postcode, price or area the one of the table (`kb_scores`), and how many of those that people state when they are asked
does it state rightly? Then every venue of the table gets other values, and the expert writes again, with the same
weights; the reader reads the rows of the changed table. All this by beam search, greedily and sampled.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from llrnn.ground.files import write_atomically
from llrnn.inference.evaluation import evaluate
from llrnn.inference.meanings import bleu
from llrnn.knowledge.contextual import Lookup
from llrnn.model.decode import Greedy, Sampling, prepared, write
from llrnn.model.network import LLRNN
from llrnn.model.steering import swap
from llrnn.text.corpus import Corpus
from llrnn.text.tables import KnowledgeBase
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.kb_data import write_parts
from llrnn_lab.studies.kb_scores import COLUMNS, Statement, rates, required, stated
from llrnn_lab.studies.tables import markdown, write_results

SYSTEMS = ("softmax", "reader", "expert")
BEAM = 5


def run(
    data: Path,
    out: Path,
    *,
    configs: Path,
    systems: Sequence[str] = SYSTEMS,
    seeds: int = 1,
    parallel: int = 1,
    device: str = "cpu",
    tell: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Write the dialogues and tables, train what is not trained yet, and gather the results."""
    tell(str(write_parts(out / "data", data / "camrest676")))
    planned = [
        Job(system, configs / f"{system}.toml", (), seed, study="knowledge-base")
        for seed in range(seeds)
        for system in systems
    ]
    found = run_jobs(planned, data=out / "data", out=out / "models", device=device, parallel=parallel, tell=tell)
    write_results(out, "knowledge-base", found, table(found))
    return found


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train one model (or go on), let it answer from the table, and from the changed one if it has a table."""
    found, folder = trained(job, data=data, out=out, device=device), job.folder(out)
    model = found.model
    read = "-read" if found.config.corpus.train[0].endswith("-read.jsonl") else ""  # rows are in the conditions
    files = {"valid": f"valid{read}", "test": f"test{read}", "changed": "changed-read" if read else "test"}
    texts = {part: Corpus.from_file(data / f"{file}.jsonl", lowercase=True) for part, file in files.items()}
    old, new = (KnowledgeBase.from_file(data / f"{name}.json") for name in ("venues", "changed"))
    tests = {part: _answers(model, texts[part], old, new, folder / f"{part}.txt") for part in ("valid", "test")}
    lookups = {one.name: new for one in model.contextual if isinstance(one, Lookup)}
    tests["changed"] = _answers(swap(model, tables=lookups), texts["changed"], new, old, folder / "changed.txt")
    return found.write(folder, {"tests": tests})


def _answers(model: LLRNN, text: Corpus, table: KnowledgeBase, other: KnowledgeBase, path: Path) -> dict[str, Any]:
    """What a model says in every system turn, and how much of it is right by a table; values of both are known."""
    conditions, ways = [sentence.condition for sentence in text], dict[str, Any]()
    for way, strategy in {"beam": None, "greedy": Greedy(), "sampled": Sampling()}.items():
        drawn = {"beam": BEAM} if strategy is None else {"strategy": strategy}
        found = write(model, conditions, **drawn, generator=torch.Generator(model.device).manual_seed(0))
        outputs = [one.words for one in found]
        write_atomically(path.with_suffix(f".{way}.txt"), "".join(f"{' '.join(one)}\n" for one in outputs).encode())
        said = [stated(words, c, table, other) for words, c in zip(outputs, conditions, strict=True)]
        ways[way] = {
            "right": _counts([one for own in said for one in own]),
            "answered": _counts(_answered(text, said, table, other)),
            "bleu": bleu([[sentence.words] for sentence in text], outputs),
        }
    score = evaluate(prepared(model, conditions), text).sound(text.name).log_perplexity
    return ways.pop("beam") | ways | {"log_perplexity": score}


def _answered(text: Corpus, said: Sequence[Sequence[Statement]], *tables: KnowledgeBase) -> Iterator[Statement]:
    """For each value that people state when they are asked, whether a system states the right one in its turn.

    `tables`: the one that people speak of, or whose addresses a system may name, and the other.
    """
    for sentence, own in zip(text, said, strict=True):
        right = {one.column for one in own if one.right}
        for column in sorted(required(sentence.words, sentence.condition, *tables)):
            yield Statement(column, "", column in right)


def _counts(statements: Iterable[Statement]) -> dict[str, dict[str, int]]:
    return {column: {"said": one.said, "right": one.right} for column, one in rates(statements).items()}


def table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A row for each system and table: the share of statements that are right, by column, over all seeds.

    And how much of what people state when they are asked is stated rightly.
    """
    rows = []
    for name, results in found.items():
        for part, what in (("test", "the table"), ("changed", "the changed table")):
            scores = [result["tests"][part] for result in results]
            cells = [_share([score["right"].get(column) for score in scores]) for column in ("all", *COLUMNS)]
            answered = _share([score["answered"]["all"] for score in scores])
            rows.append([name, what, *cells, answered, f"{statistics.fmean(score['bleu'] for score in scores):.1f}"])
    return markdown(["system", "consults, and is judged by", "all", *COLUMNS, "answered", "BLEU"], rows)


def _share(counts: Sequence[Mapping[str, int] | None]) -> str:
    right, said = (sum(count[key] for count in counts if count) for key in ("right", "said"))
    return f"{100 * right / said:.1f} % of {said}" if said else "–"
