"""`llrnn bias`: lists of words and phrases that a model favours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from llrnn.cli import options, show
from llrnn.ground.errors import ConfigError
from llrnn.text.lexicon import Lexicon
from llrnn.text.readers import read_lines


def bias_verb(
    context: typer.Context,
    model: options.AnyModel,
    lists: Annotated[
        list[Path], typer.Argument(help="Files with a word or phrase a line; each is a group.", callback=options.a_text)
    ],
    out: Annotated[Path, typer.Option(help="The folder for the model with the lists.")],
    weight: Annotated[
        str | None, typer.Option(help="Nats for going on with a term: 3, or a number for each list: 3,1.5")
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="A text with such terms, to learn weights from.", callback=options.a_text)
    ] = None,
    lexicon: Annotated[
        Path | None, typer.Option(help="form TAB attributes: a term stands for all forms with its Lemma:.")
    ] = None,
    capitals: Annotated[bool, typer.Option("--capitals", help="Also with a capital, and in capitals.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace another model in --out.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Favour words and phrases in any model, exactly, and at next to no cost.

    Writes a model that `generate`, `score`, `evaluate`, `explain` and `serve` open. Prints how many terms each list has
    and the weights; exits with 2 on a mistake in the lists or weights.

    \b
    Example: llrnn bias smollm2 products.txt --weight 3 --out runs/products
    Example: llrnn bias smollm2 names.txt --fit letters.txt --out runs/names
    """
    if (weight is None) == (fit is None):
        raise ConfigError("give weights or a text to learn them from: --weight 3, or --fit TEXT, one of the two")
    from llrnn.inference.terms import bias, fit_bias
    from llrnn.knowledge.contextual.terms import expanded
    from llrnn.model.checkpoint import open_model

    names = [path.stem for path in lists]
    if len({*names}) < len(names):
        raise ConfigError(f"lists need names of their own, found {', '.join(map(str, lists))}; rename a file")
    options.refuse_overwriting(out, model, force)
    known = None if lexicon is None else Lexicon.from_tsv(lexicon)
    lines = {path.stem: [line.strip() for _, line in read_lines(path)] for path in lists}
    terms = {name: expanded(of_list, known, capitals=capitals) for name, of_list in lines.items()}
    given = [0.0] if weight is None else options.numbers_in("--weight", weight)
    if len(given) not in (1, len(lists)):
        raise ConfigError(f"--weight {weight}: one number, or one for each of {len(lists)} lists is required")
    weights = dict(zip(names, given * len(lists) if len(given) == 1 else given, strict=True))
    options.make_output_folder(out)
    made = bias(open_model(model), terms, weights)
    if fit is not None:
        fit_bias(made, [line for _, line in read_lines(fit) if line.strip()])
    made.save(out)
    a = dict(zip(made.context_names, made.layer.context_bias.tolist(), strict=True))
    unspelled = made.contextual[0].unspelled()  # type: ignore[attr-defined]
    counts = {name: _counts(lines[name], terms[name], unspelled) for name in names}
    options.say({"out": str(out), "lists": counts, "weights": a}, as_json, partial(_show_bias, out))


def _counts(lines: list[str], terms: list[str], unspelled: set[str]) -> dict[str, int]:
    """Return how many terms a list has, and how many of its lines are empty, repeated, or cannot be spelled."""
    filled = [line for line in lines if line]
    told = {"empty": len(lines) - len(filled), "repeated": len(filled) - len({*filled})}
    return {"terms": len({*terms}), **told, "cannot be spelled": len(unspelled & {*terms})}


def _show_bias(out: Path, found: dict[str, Any]) -> None:
    for name, counts in found["lists"].items():
        show.text(f"{name}: {', '.join(f'{n:,} {what}' for what, n in counts.items() if n or what == 'terms')}")
    show.table(("feature", "weight"), *((name, f"{a:+.3f}") for name, a in found["weights"].items()))
    show.text(f"{out}: written")
