"""The verbs `llrnn words ...`: words added to a trained model and removed from it, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import AsJson, ModelFolder, make_output_folder, say
from llrnn.ground.bundle import has_bundle, held_by
from llrnn.ground.errors import ConfigError
from llrnn.model.checkpoint import load
from llrnn.model.network import LLRNN
from llrnn.model.words import add, read_words, remove

words_app = typer.Typer()

Out = Annotated[Path, typer.Option(help="The folder for the new model.")]
Force = Annotated[bool, typer.Option("--force", help="Replace another model in --out.")]


@words_app.command("add")
def add_verb(
    model: ModelFolder,
    words: Annotated[
        Path,
        typer.Argument(help="form TAB attributes TAB count: names of features or _, and how often it is seen."),
    ],
    out: Out,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Add words: known by what their spelling shows and by their attributes, with a count or the mass of their cell.

    The probabilities of all other words change by one factor at every context.

    Example: llrnn words add runs/embedded words.tsv --out runs/more-words
    """
    _refuse_overwriting(out, model, force)
    old = load(model)
    entries = read_words(words, lowercase=old.reads_lowercase)
    _write(add(old, entries), out, "added", len(entries), as_json)


@words_app.command("remove")
def remove_verb(
    model: ModelFolder,
    words: Annotated[Path, typer.Argument(help="The words, in a table as for `add`, or one a line.")],
    out: Out,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Remove words: each is a string of its cell again, or unknown where the vocabulary is closed.

    Example: llrnn words remove runs/more-words words.tsv --out runs/fewer-words
    """
    _refuse_overwriting(out, model, force)
    old = load(model)
    forms = [entry.form for entry in read_words(words, lowercase=old.reads_lowercase)]
    _write(remove(old, forms), out, "removed", len(forms), as_json)


def _refuse_overwriting(out: Path, model: Path, force: bool) -> None:
    """A run could not go on with other words, whatever was meant; a model may be replaced if that is said."""
    found = held_by(out)
    if found is None or (not has_bundle(out, "training") and (force or out.resolve() == model.resolve())):
        return
    replace = "" if has_bundle(out, "training") else ", or replace it with --force"
    raise ConfigError(f"--out {out}: holds {found} already; choose another folder{replace}")


def _write(model: LLRNN, out: Path, done: str, count: int, as_json: bool) -> None:
    make_output_folder(out)
    model.save(out)
    report = {"out": str(out), done: count, "listed": len(model.vocabulary.words)}
    say(report, as_json, lambda said: show.text(f"{out}: {count} words {done}, {said['listed']} listed now"))
