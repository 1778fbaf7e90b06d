"""`llrnn model mix`: several models as one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import llrnn
from llrnn.cli import options, show


def mix_verb(
    context: typer.Context,
    models: Annotated[
        list[Path], typer.Argument(help="Model folders over one vocabulary, two or more.", callback=options.a_folder)
    ],
    out: Annotated[Path, typer.Option(help="The folder for the mixed model.")],
    valid: Annotated[
        Path | None, typer.Option(help="A text to fit the weights on, which no model was trained on.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Fixed weights: 0.5,0.3,0.2")] = None,
    lowercase: options.AsTheModel = None,
    format: options.TextFormat = "auto",
    batches: options.Batches = "sentences",
    force: Annotated[bool, typer.Option("--force", help="Replace another model in --out.")] = False,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Mix models into one, with weights fitted on a text.

    Writes a model whose probability of a word is the weighted mean of theirs; `evaluate`, `score`, `generate`,
    `explain` and `serve` open it. Prints the weights and, with --valid, the log-perplexities; exits with 2 where
    vocabularies differ.

    \b
    Example: llrnn model mix runs/a runs/b --valid valid.conllu --out runs/mixed
    Example: llrnn model mix runs/seed0 runs/seed1 --weights 0.7,0.3 --out runs/mixed
    """
    if valid is None:
        options.refuse_idle(context, "without --valid", "lowercase", "format", "batches")
    from llrnn.inference.evaluation import contract_of

    place, names = options.device_named(device), list(map(str, models))
    options.refuse_overwriting(out, None, force)
    members = [llrnn.load(model, device=place) for model in models]
    text = None if valid is None else options.read_for(members[0], valid, format, lowercase)
    batching = None if text is None else options.batching_for(batches, members[0], text)
    shares = None if weights is None else options.numbers_in("--weights", weights)
    mixed = llrnn.mix(members, valid=text, weights=shares, batching=batching, names=names)
    options.make_output_folder(out)
    mixed.save(out)
    told = {} if text is None else {"contract": str(contract_of(mixed, text, batching))}
    found = {"out": str(out), "models": names, **mixed.provenance["mixed"], **told}
    options.say(found, as_json, partial(_show_mixed, valid))


def _show_mixed(valid: Path | None, found: dict[str, Any]) -> None:
    alone = found.get("members", [None] * len(found["models"]))
    rows = [("model", "weight", "log-perplexity alone")] if "members" in found else [("model", "weight")]
    for name, weight, own in zip(found["models"], found["weights"], alone, strict=True):
        rows.append((name, f"{weight:.4f}", *(() if own is None else (f"{own:.4f}",))))
    show.table(*rows)
    mixed = f"log-perplexity {found['log_perplexity']:.4f} on {valid}" if valid else "no --valid, so nothing was fitted"
    show.text("\n".join([f"{found['out']}: {mixed}", *([found["contract"]] if valid else [])]))
