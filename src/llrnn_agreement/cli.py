"""`llrnn data agreement`: what the agreement of a language needs, estimated once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import a_text, require_output_file


def agreement_verb(
    rules: Annotated[str, typer.Argument(help="french, estonian, turkish, or a table .toml of one's own.")],
    out: Annotated[Path, typer.Option(help="The file to write, .json.gz: `file` of [[contextual]] names it.")],
    treebanks: Annotated[
        list[Path], typer.Option("--treebank", help="CoNLL-U: readings, and what comes where.", callback=a_text)
    ],
    readings: Annotated[list[Path] | None, typer.Option(help="More: form TAB weight TAB attributes.")] = None,
    lowercase: Annotated[bool, typer.Option(help="Lowercase the words of treebanks.")] = False,
) -> None:
    """Estimate once what the agreement of a language needs, for any number of models.

    Example: llrnn data agreement french --treebank train.conllu --out agreement.json.gz
    """
    from llrnn_agreement.feature import Agreement
    from llrnn_agreement.keys import AgreementKeys

    require_output_file(out)
    known = AgreementKeys(rules=rules, treebanks=list(map(str, treebanks)), readings=list(map(str, readings or [])))
    Agreement.described(lowercase, **known.model_dump(exclude={"context_independent"})).to_file(out)
    show.text(f"{rules}, estimated from {len(treebanks)} treebanks: {out}")
