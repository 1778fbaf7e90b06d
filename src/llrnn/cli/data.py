"""The verbs `llrnn data ...`, corpora, and `llrnn pairs ...`, minimal pairs from annotated text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import Seed, require_output_file
from llrnn.ground.files import write_lines
from llrnn.inference.agreement import make_pairs
from llrnn.inference.pairs import write_pairs
from llrnn.model.checkpoint import load
from llrnn.text import french
from llrnn.text.corpus import Corpus
from llrnn.text.datasets import DATASETS, get

data_app = typer.Typer()
pairs_app = typer.Typer()


@data_app.command("french")
def data_french_verb(
    out: Annotated[Path, typer.Option(help="The CoNLL-U file to write.")],
    sentences: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    skip: Annotated[int, typer.Option(min=0, help="Leave out so many first: another part of the same corpus.")] = 0,
    seed: Seed = 0,
) -> None:
    """Write sentences of the embedded French grammar as CoNLL-U.

    Example: llrnn data french --sentences 2000 --out french.conllu
    """
    require_output_file(out)
    made = list(french.sentences(skip + sentences, seed=seed))[skip:]
    write_lines(out, french.conllu(made))
    show.text(f"{len(made)} sentences, {sum(len(one.tokens) for one in made)} words: {out}")


@data_app.command("get")
def data_get_verb(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(sorted(DATASETS))}.")],
    out: Annotated[Path, typer.Option(help="The folder to put it into.")] = Path("data"),
) -> None:
    """Download a public corpus by its official address and check what came.

    Example: llrnn data get ud-french-v1 --out data
    """
    for path in get(name, out / name):
        show.text(str(path))


@pairs_app.command("make")
def pairs_make_verb(
    corpora: Annotated[list[Path], typer.Argument(help="Annotated texts in CoNLL-U.")],
    out: Annotated[Path, typer.Option(help="The pairs, .tsv or .jsonl.")],
    model: Annotated[Path | None, typer.Option(help="Only words that this model knows.")] = None,
    lowercase: Annotated[bool, typer.Option(help="Lowercase every word.")] = True,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many, chosen by the seed.")] = None,
    seed: Seed = 0,
) -> None:
    """Swap verbs, adjectives and participles for forms that do not agree.

    Example: llrnn pairs make fr_gsd-ud-test.conllu --out pairs.jsonl
    """
    corpus = Corpus.from_conllu(corpora, lowercase=lowercase)
    vocabulary = None if model is None else load(model).vocabulary
    pairs = make_pairs(corpus, vocabulary=vocabulary, seed=seed, limit=limit)
    write_pairs(out, pairs)
    show.text(f"{len(pairs)} pairs: {out}")
