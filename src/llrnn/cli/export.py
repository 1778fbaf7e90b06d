"""`llrnn export`: a model as one small file that other programs read."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from llrnn.cli import show
from llrnn.cli.options import (
    AnyModel,
    AsJson,
    ModelFolder,
    ModelOptions,
    refuse_idle,
    require_output_file,
    say,
    with_model_options,
)
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import STANDARD, write_atomically
from llrnn.inference.keyboard import keyboard_bytes, keyboard_page
from llrnn.inference.openfst import EPSILON, PHI, constraint_fst, ngram_fst, symbols_beside, write_fst
from llrnn.languages.ngrams import read_table
from llrnn.model.checkpoint import holds_ngrams, load, open_model

export_app = typer.Typer()


@export_app.callback()
def _group() -> None:
    """Write a model as one small file that other programs read."""


@export_app.command("keyboard")
def keyboard_verb(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="The file; with --page a page that holds it.")],
    page: Annotated[bool, typer.Option("--page", help="One HTML page that types with it, offline.")] = False,
    words: Annotated[int | None, typer.Option(min=1, help="Only so many words, the most frequent.")] = None,
    as_json: AsJson = False,
) -> None:
    """A keyboard: weights of 8 bits, words, and how words that are not listed are read. Python and JavaScript read it.

    \b
    Example: llrnn export keyboard runs/embedded-open --out french.kb
    Example: llrnn export keyboard runs/embedded-open --page --out typing.html
    """
    require_output_file(out)
    content = keyboard_bytes(load(model), words=words)
    written = keyboard_page(content, title=f"Typing with {model.name}").encode() if page else content
    write_atomically(out, written)
    told = {"out": str(out), "bytes": len(written)}
    say(told, as_json, lambda said: show.text(f"{out}: {len(written) / 1e6:.2f} MB"))


@export_app.command("fst")
@with_model_options
def fst_verb(
    context: typer.Context,
    model: AnyModel,
    options: ModelOptions,
    out: Annotated[Path, typer.Option(help="NAME.fst.txt, or - for standard output.")],
    symbols: Annotated[
        Path | None, typer.Option(help="The table of symbols; by default NAME.syms beside NAME.fst.txt.")
    ] = None,
    backoff: Annotated[
        str, typer.Option(help="The label of back-off arcs: phi (exact, with a phi matcher) or epsilon.")
    ] = "phi",
    as_json: AsJson = False,
) -> None:
    """n-grams, or with --constraint a language over the words of a model, as an automaton in the text of OpenFst.

    \b
    Example: llrnn export fst corpus.arpa --out corpus.fst.txt
    Example: llrnn export fst runs/embedded --constraint 'pattern: la ( petite | grande )+ reine' --out reine.fst.txt
    """
    require_output_file(out)
    if symbols is None and str(out) == STANDARD:
        raise ConfigError("--out - leaves no place for the table of symbols, found no --symbols; name a file for it")
    symbols = symbols or symbols_beside(out)
    require_output_file(symbols)
    idle = (one.name for one in fields(ModelOptions) if one.name not in ("constraint", "over", "longest", "violation"))
    refuse_idle(context, "where an automaton is written", *idle)
    language = options.language()
    if language is not None:
        refuse_idle(context, "with --constraint, which backs off nowhere", "backoff")
        fst = constraint_fst(language.bind(open_model(model).vocabulary))
    elif not holds_ngrams(model):
        open_model(model)  # what is not even a network is told
        raise ConfigError(
            f"{model}: n-grams are required, or --constraint, found a network, which has no end of states; "
            "`llrnn ngram distil` makes n-grams of it"
        )
    elif backoff not in _LABELS:
        raise ConfigError(f"--backoff is phi or epsilon, found {backoff!r}; choose one")
    else:
        fst = ngram_fst(read_table(model), backoff=_LABELS[backoff])
    write_fst(fst, out, symbols)
    found: dict[str, Any] = {"out": str(out), "symbols": str(symbols), "states": fst.states}
    found |= {"arcs": len(fst.arcs), "words": len(fst.words), "backoff": fst.backoff}
    by = "" if fst.backoff is None else f", back-off by {fst.backoff}"
    line = f"{out}: {fst.states:,} states, {len(fst.arcs):,} arcs{by}; {found['symbols']}: {len(fst.words):,} words"
    if str(out) == STANDARD:
        show.note(line)
    else:
        say(found, as_json, lambda _: show.text(line))


_LABELS = {"phi": PHI, "epsilon": EPSILON}
