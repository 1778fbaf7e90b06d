"""What a system says of restaurants, with a table to consult and without (paper §6).

    softmax     a sequence-to-sequence model that reads the dialogue so far
    reader      the same, which also reads the rows of the table that the experts would look up
    expert      an LL-RNN with `Lookup` experts: the network says when a telephone number is due, the table says which

Each writes every system turn of the test from the dialogue so far; how often is a stated telephone number, address,
postcode, price or area the one of the table (`kb_scores`)? Then every venue of the table gets other values, and the
expert writes again, with the same weights; the reader reads the rows of the changed table.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from llrnn.ground.files import write_atomically
from llrnn.inference.evaluation import evaluate
from llrnn.inference.meanings import bleu
from llrnn.knowledge.contextual import Lookup
from llrnn.model.decode import prepared, write
from llrnn.model.network import LLRNN
from llrnn.model.steering import swap
from llrnn.text.corpus import Corpus
from llrnn.text.tables import KnowledgeBase
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.kb_data import write_parts
from llrnn_lab.studies.kb_scores import COLUMNS, rates, stated
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
    conditions = [sentence.condition for sentence in text]
    outputs = [found.words for found in write(model, conditions, beam=BEAM)]
    write_atomically(path, "".join(f"{' '.join(words)}\n" for words in outputs).encode())
    statements = [one for words, c in zip(outputs, conditions, strict=True) for one in stated(words, c, table, other)]
    return {
        "right": {column: {"said": one.said, "right": one.right} for column, one in rates(statements).items()},
        "bleu": bleu([[sentence.words] for sentence in text], outputs),
        "log_perplexity": evaluate(prepared(model, conditions), text).sound(text.name).log_perplexity,
    }


def table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A row for each system and table: the share of statements that are right, by column, over all seeds."""
    rows = []
    for name, results in found.items():
        for part, what in (("test", "the table"), ("changed", "the changed table")):
            scores = [result["tests"][part] for result in results]
            cells = [_share([score["right"].get(column) for score in scores]) for column in ("all", *COLUMNS)]
            rows.append([name, what, *cells, f"{statistics.fmean(score['bleu'] for score in scores):.1f}"])
    return markdown(["system", "consults, and is judged by", "all", *COLUMNS, "BLEU"], rows)


def _share(counts: Sequence[Mapping[str, int] | None]) -> str:
    right, said = (sum(count[key] for count in counts if count) for key in ("right", "said"))
    return f"{100 * right / said:.1f} % of {said}" if said else "–"
