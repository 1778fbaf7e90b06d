"""What a system says of restaurants, with a table to consult and without (paper §6).

    softmax     a sequence-to-sequence model that reads the dialogue so far
    reader      the same, which also reads the rows of the table that the experts would look up
    expert      an LL-RNN with `Lookup` experts: the network says when a telephone number is due, the table says which
    asked       the same, with columns that are asked for as features that all share, and an end that waits for them

Each writes every system turn of the test from the dialogue so far; how often is a stated telephone number, address,
postcode, price or area the one of the table (`kb_scores`), and how many of those that people state when they are asked
does it state rightly? Then every venue of the table gets other values, and the expert writes again, with the same
weights; the reader reads the rows of the changed table. All this by beam search, greedily and sampled.

    asked-without-phone     one that has learnt from turns in which nobody asks for a telephone number or states one;
                            likewise address and postcode. How many questions for it does it answer rightly?
"""

from __future__ import annotations

import json
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
from llrnn.model.steering import Change, steer, swap
from llrnn.text.corpus import Corpus
from llrnn.text.tables import KnowledgeBase
from llrnn_lab.studies.jobs import Job, run_jobs, trained
from llrnn_lab.studies.kb_data import PARTS, unnamed, with_unnamed, write_parts
from llrnn_lab.studies.kb_scores import COLUMNS, Statement, rates, required, stated
from llrnn_lab.studies.tables import markdown, write_results

SYSTEMS = ("softmax", "reader", "expert", "asked")
HELD_OUT = ("phone", "address", "postcode")  # columns
BEAM = 5
# A sentence hardly ends while something is untold, and what is asked for is said rather than anything else. By how
# much: of 3, 5, 6 and 7 what answered most on validation, 180 of 180 by beam search and greedily (seed 0). Of columns
# whose words training never says, which have less mass: of 5 and 8 what answered more of 42 questions for a telephone
INSISTS, OF_UNKNOWN = 5.0, 8.0


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
    for column in HELD_OUT if "asked" in systems else ():
        own = out / f"data-without-{column}"
        if _hold_out(column, out / "data", own):
            planned.append(Job(f"asked-without-{column}", configs / "asked.toml", study="knowledge-base", data=own))
    found = run_jobs(planned, data=out / "data", out=out / "models", device=device, parallel=parallel, tell=tell)
    write_results(out, "knowledge-base", found, table(found))
    return found


def _hold_out(column: str, data: Path, folder: Path) -> int:
    """Write the files of a system that knows nothing of a column: turns without it, and the questions for it.

    Questions are those of all parts that ask for it of a known venue and that people answer; how many is returned.
    """
    table = KnowledgeBase.from_file(data / "venues.json")
    parts = {part: [json.loads(line) for line in (data / f"{part}.jsonl").read_bytes().splitlines()] for part in PARTS}

    def has(line: Mapping[str, Any]) -> bool:
        words, condition = line["target"].split(), line["condition"]
        own = {*condition["asked"], *words, *(one.column for one in stated(words, condition, table))}
        return column in own

    kept = {part: [line for line in lines if not has(line)] for part, lines in parts.items()}
    asked = [
        {**line, "condition": {**unnamed(line, [column])["condition"], "user": line["condition"]["user"]}}
        for lines in parts.values()
        for line in lines
        if column in required(line["target"].split(), line["condition"], table)
    ]
    files = {"train-unnamed": with_unnamed(kept["train"]), "valid": kept["valid"], "questions": asked}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "venues.json", (data / "venues.json").read_bytes())
    for name, lines in files.items():
        write_atomically(folder / f"{name}.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines).encode())
    return len(asked)


def run_one(job: Job, *, data: Path, out: Path, device: torch.device) -> dict[str, Any]:
    """Train one model (or go on), let it answer from the table, and from the changed one if it has a table.

    One that does not know a column answers questions for it only.
    """
    found, folder = trained(job, data=data, out=out, device=device), job.folder(out)
    model, is_unknown = found.model, (data / "questions.jsonl").exists()
    if "venue:asked" in model.feature_names:
        more = Change("venue:asked", offset=OF_UNKNOWN if is_unknown else INSISTS)
        model = steer(model, [Change("venue:untold", scale=0.0, offset=-12.0), more])
    if is_unknown:
        text, column = Corpus.from_file(data / "questions.jsonl", lowercase=True), job.name.rpartition("-")[2]
        venues = KnowledgeBase.from_file(data / "venues.json")
        outputs = [one.words for one in write(model, text.conditions, beam=BEAM)]
        write_atomically(folder / "questions.txt", "".join(f"{' '.join(one)}\n" for one in outputs).encode())
        said = [stated(words, c, venues) for words, c in zip(outputs, text.conditions, strict=True)]
        own = [[one.right for one in turn if one.column == column] for turn in said]
        right = _counts([Statement(column, "", any(turn)) for turn in own])
        wrong = sum(not all(turn) for turn in own)
        return found.write(folder, {"tests": {"questions": {"right": right, "wrong": wrong}}})
    read = "-read" if found.config.corpus.train[0].endswith("-read.jsonl") else ""  # rows are in the conditions
    files = {"test": f"test{read}", "changed": "changed-read" if read else "test"}
    texts = {part: Corpus.from_file(data / f"{file}.jsonl", lowercase=True) for part, file in files.items()}
    old, new = (KnowledgeBase.from_file(data / f"{name}.json") for name in ("venues", "changed"))
    tests = {"test": _answers(model, texts["test"], old, new, folder / "test.txt")}
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
    return {**ways.pop("beam"), **ways, "log_perplexity": score}


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
        if name not in SYSTEMS:
            continue
        for part, what in (("test", "the table"), ("changed", "the changed table")):
            scores = [result["tests"][part] for result in results]
            cells = [_share([score["right"].get(column) for score in scores]) for column in ("all", *COLUMNS)]
            answered = _share([score["answered"]["all"] for score in scores])
            rows.append([name, what, *cells, answered, f"{statistics.fmean(score['bleu'] for score in scores):.1f}"])
    held_out = {name: one["tests"]["questions"] for name, (one, *_) in found.items() if name not in SYSTEMS}
    answers = [[name, _share([one["right"]["all"]])] for name, one in held_out.items()]
    told = f"\n\n{markdown(['system', 'questions for the column'], answers)}" if answers else ""
    return markdown(["system", "consults, and is judged by", "all", *COLUMNS, "answered", "BLEU"], rows) + told


def _share(counts: Sequence[Mapping[str, int] | None]) -> str:
    right, said = (sum(count[key] for count in counts if count) for key in ("right", "said"))
    return f"{100 * right / said:.1f} % of {said}" if said else "–"
