"""`llrnn pairs`: minimal pairs from annotated text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import Seed
from llrnn.inference.agreement import make_pairs
from llrnn.inference.pairs import write_pairs
from llrnn.model.checkpoint import load
from llrnn.text.corpus import Corpus

pairs_app = typer.Typer(help="Minimal pairs: does a model prefer the grammatical sentence?")


@pairs_app.command("make")
def pairs_make_verb(
    corpora: Annotated[list[Path], typer.Argument(help="Annotated texts in CoNLL-U.")],
    out: Annotated[Path, typer.Option(help="The pairs, .tsv or .jsonl.")],
    model: Annotated[Path | None, typer.Option(help="Only words that this model knows.")] = None,
    lowercase: Annotated[bool, typer.Option(help="Write every word small.")] = True,
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
    show.out.print(f"{len(pairs)} pairs: {out}", markup=False)
