"""Options for conditions: one on the command line, or many in a file, of which a bad one does not stop the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import print_json
from llrnn.ground.errors import CorpusError, LLRNNError
from llrnn.model.decode import Generated
from llrnn.model.network import LLRNN
from llrnn.model.writing import read_condition, warn_of_unknown_names
from llrnn.text.conditions import lowercased
from llrnn.text.source import read_lines

Condition = Annotated[
    str | None,
    typer.Option("--condition", help="What to write from, as in training: a text, JSON, or a dialog act."),
]
ConditionFile = Annotated[
    Path | None,
    typer.Option("--conditions", help='Many of them: a file with one a line, or .jsonl with {"condition": ...}.'),
]


@dataclass(frozen=True)
class Outcome:
    """What came of one line of a file: a text, or the reason why there is none."""

    place: str
    condition: str
    found: Generated | None = None
    problem: str | None = None


def write_lines(model: LLRNN, path: Path, write: Callable[[list[object]], list[Generated]]) -> list[Outcome]:
    """A text for every line of a file; a line that cannot be read or written from is told, the others go on."""
    read: list[tuple[str, str, object]] = []
    outcomes: dict[str, Outcome] = {}
    for place, text in _lines(path):
        try:
            read.append((place, text, _condition(model, path, text)))
            outcomes[place] = Outcome(place, text)
        except LLRNNError as error:
            outcomes[place] = Outcome(place, text, problem=str(error))
    warn_of_unknown_names(model, [condition for *_, condition in read])
    for (place, text, _), found in zip(read, _each(write, [condition for *_, condition in read]), strict=True):
        problem = str(found) if isinstance(found, LLRNNError) else None
        outcomes[place] = Outcome(place, text, None if isinstance(found, LLRNNError) else found, problem)
    return list(outcomes.values())


def _each(write: Callable[[list[object]], list[Generated]], conditions: list[object]) -> list[Generated | LLRNNError]:
    """All at once; only where that fails one by one, to find out which it was."""
    try:
        return [*write(conditions)] if conditions else []
    except LLRNNError as problem:
        if len(conditions) == 1:
            return [problem]
        return [found for condition in conditions for found in _each(write, [condition])]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in read_lines(path):
        if line.strip():
            yield f"{path}:{number}", line


def _condition(model: LLRNN, path: Path, text: str) -> object:
    if not path.name.removesuffix(".gz").endswith(".jsonl"):
        return read_condition(model, text)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"JSON is required, found a line that is none ({error})") from None
    if not isinstance(record, dict) or record.get("condition") is None:
        raise CorpusError('an object with the key "condition" is required; write {"condition": ...}')
    condition = record["condition"]
    if isinstance(condition, str):
        return read_condition(model, condition)
    return lowercased(condition) if model.reads_lowercase else condition


def print_outcomes(outcomes: list[Outcome], *, as_json: bool) -> int:
    """Each text on a line, each problem on a line of the other stream; the exit code."""
    if as_json:
        print_json([asdict(one) for one in outcomes])
    for one in outcomes:
        if one.problem is not None:
            show.err.print(f"error: {one.place}: {' '.join(one.problem.split())}", markup=False)
        elif one.found is not None and not as_json:
            show.out.print(" ".join((*one.found.prefix, *one.found.words)), markup=False)
    return 2 if any(one.problem is not None for one in outcomes) else 0
