"""Options that hold a model to a language, and what `llrnn evaluate` reports of it.

--constraint FILE               a grammar in lark's notation
--constraint 'pattern: ...'     a regular expression: over symbols as `grammars.symbolic` reads it, with blanks
                                between symbols; over characters as Python writes it
--constraint 'weighted: ...'    the same, with the weights that are written in it
--over symbols|characters       what the language reads one by one        --longest N    strings of N of them at most
--violation F                   what is forbidden is possible for a factor F
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from llrnn.cli import show
from llrnn.cli.options import print_json
from llrnn.ground.errors import ConfigError
from llrnn.inference.distortion import Distortion, measure_distortion
from llrnn.knowledge.backgrounds import Automaton, Grammar
from llrnn.knowledge.backgrounds.constraint import Constraint
from llrnn.model.decode import Generated
from llrnn.model.network import LLRNN
from llrnn.model.steering import constrained
from llrnn.model.writing import prepared
from llrnn.text.corpus import Corpus

Constrain = Annotated[
    str | None,
    typer.Option(
        "--constraint",
        metavar="SPEC",
        help="A language to hold to: a grammar file in lark's notation, 'pattern: the ( big | small )* cat', or "
        "'weighted: ...' where the weights in a pattern count.",
    ),
]
OverWhat = Annotated[
    str | None,
    typer.Option("--over", help="What --constraint reads: symbols (the default), or the characters that they spell."),
]
Longest = Annotated[
    int | None, typer.Option("--longest", min=0, help="With --constraint: texts of so many of those at most.")
]
Violation = Annotated[
    float | None, typer.Option(help="With --constraint: what is forbidden is possible, for this factor; 0 by default.")
]
_NAMED = 3  # sentences outside the language that are named


def wanted_constraint(
    spec: str | None, over: str | None, longest: int | None, violation: float | None
) -> Constraint | None:
    """The constraint that the options describe, if any."""
    given = {"over": over, "longest": longest, "violation": violation}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if spec is None:
        if settings:
            raise ConfigError(f"--{next(iter(settings))} goes with --constraint; give one, or leave it out")
        return None
    kind, colon, pattern = spec.partition(":")
    if colon and kind in ("pattern", "weighted"):
        return Automaton(pattern.strip(), weighted=kind == "weighted", **settings)
    if not Path(spec).is_file():
        raise ConfigError(f"--constraint {spec}: no such file; give a grammar in lark's notation, or 'pattern: ...'")
    return Grammar.from_file(spec, **settings)


def held_to(model: LLRNN, spec: str | None, over: str | None, longest: int | None, violation: float | None) -> LLRNN:
    """The model times the constraint; the model itself, where none is given."""
    found = wanted_constraint(spec, over, longest, violation)
    return model if found is None else constrained(model, found)


def tell_cut(spec: str | None, found: Sequence[Generated]) -> None:
    """That texts stop where they need not end."""
    cut = sum(not one.finished for one in found)
    if spec is not None and cut:
        show.err.print(
            f"note: {cut} of {len(found)} texts are cut by --max-words: beginnings of texts of the language; "
            "with --longest N all come to an end",
            markup=False,
        )


@dataclass(frozen=True)
class _Measured:
    """The figures of one model on one text."""

    model: str
    text: str
    found: Distortion
    symbols: Sequence[str]

    @property
    def name(self) -> str:
        return f"{self.model} on {self.text}"

    def plain(self) -> dict[str, Any]:
        """For programs: the means, the sentences outside, and every position."""
        means = {name: value for name, value in vars(self.found).items() if name not in ("outside", "steps")}
        steps = {name: column.tolist() for name, column in vars(self.found.steps).items()}
        steps["target"] = [self.symbols[symbol] for symbol in steps["target"]]
        outside = [asdict(one) for one in self.found.outside]
        return {"model": self.model, "text": self.text, **means, "outside": outside, "positions": steps}


def distortions(
    constraint: Constraint,
    models: Iterable[tuple[Path, LLRNN]],
    files: Sequence[Path],
    read: Callable[[LLRNN, Path], Corpus],
    as_json: bool,
) -> None:
    """Measure each model on each text, and print one table."""
    measured = []
    for folder, model in models:
        for file in files:
            corpus = read(model, file)
            ready = prepared(model, [sentence.condition for sentence in corpus])
            found = measure_distortion(ready, corpus, constraint)
            measured.append(_Measured(str(folder), str(file), found, ready.vocabulary.symbols))
    if as_json:
        print_json([{"constraint": repr(constraint), **one.plain()} for one in measured])
    else:
        _show(constraint, measured)


def _show(constraint: Constraint, measured: Sequence[_Measured]) -> None:
    show.out.print(f"[bold]{escape(repr(constraint))}[/]: means over positions, ends of sentences included; nats")
    rows = show.table("", "positions", "forbidden mass", "best is forbidden", "KL", "without", "with")
    for one in measured:
        found = one.found
        figures = [f"{found.words:,}", f"{found.forbidden:.4f}", f"{found.best_is_forbidden:.1%}"]
        logs = (found.divergence, found.log_perplexity_free, found.log_perplexity_constrained)
        rows.add_row(escape(one.name), *figures, *(f"{log:.4f}" for log in logs))
    show.out.print(rows)
    show.out.print(
        "KL: of the model with the constraint from the one without, at a step; without, with: their log-perplexities"
    )
    for one in measured:
        show.out.print(f"{one.name}: {_case(one.found)}", markup=False)
    for line in dict.fromkeys(line for one in measured for line in _outside(one)):  # once, if it is so for all models
        show.out.print(line, markup=False)


def _case(found: Distortion) -> str:
    if found.held:
        return "the constraint is part of its background; the figures without it are of the model without that factor"
    return "the constraint is no factor of its background; without it, it is the model as it stands"


def _outside(one: _Measured) -> Iterable[str]:
    """How many sentences are outside the language, and the first of them."""
    found = one.found
    if not found.outside:
        yield f"{one.text}: all {found.sentences:,} sentences are in the language"
        return
    total = found.sentences + (0 if found.soft else len(found.outside))
    kept = "they count, at the price of the violation" if found.soft else "left out of all figures above"
    yield f"{one.text}: {len(found.outside):,} of {total:,} sentences are outside the language, {kept}"
    yield from (f"  {each.sentence}: {each.reason}" for each in found.outside[:_NAMED])
    if not found.soft:
        yield f"{one.name}: {found.log_perplexity_of_all:.4f} without the constraint, with those sentences"
