"""`llrnn compare`: every language model of the field on one text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli.options import Device, device_named, make_output_folder
from llrnn.ground.errors import ConfigError
from llrnn_lab.cli.experiment import tell


def compare_verb(
    corpus: Annotated[list[Path], typer.Argument(help="Text files, CoNLL-U or plain, one sentence a line.")],
    out: Annotated[Path, typer.Option(help="The folder for runs, table and plot.")],
    valid: Annotated[Path | None, typer.Option(help="The validation text; by default a tenth of CORPUS.")] = None,
    test: Annotated[Path | None, typer.Option(help="The test; by default the last tenth of CORPUS.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Only this row of the table; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of the rows that are compared closely.")] = 3,
    tries: Annotated[
        int, typer.Option(min=1, max=3, help="Settings that each row may try on the validation text.")
    ] = 2,
    hidden: Annotated[int, typer.Option(min=4, help="Units of every network, a multiple of 8 for attention.")] = 128,
    epochs: Annotated[int, typer.Option(min=1, help="At most.")] = 10,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer words are <unk>, for all rows.")] = 2,
    folds: Annotated[int, typer.Option(min=2, help="LL-RNN: the expert's folds; fewer are estimated sooner.")] = 10,
    lowercase: Annotated[bool, typer.Option(help="Lowercase every word.")] = True,
    sentences: Annotated[int | None, typer.Option(min=20, help="Cut every text short, for a trial.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Words in a batch.")] = 512,
    parallel: Annotated[int, typer.Option(min=1, help="Runs side by side, each with one thread.")] = 1,
    seconds: Annotated[float | None, typer.Option(help="Begin no row after so many seconds.")] = None,
    device: Device = "cpu",
) -> None:
    """Compare every language model of the field on one text.

    N-grams, networks, class-based outputs, caches, mixtures and LL-RNNs: a table and a plot.

    What was done is not done again: the same command goes on.

    Example: llrnn compare novel.txt --out runs/compare --seeds 1 --tries 1
    """
    from llrnn_lab.studies.compare import Settings, Texts, compare, table

    device_named(device)
    for path in (one for one in (*corpus, valid, test) if one is not None):
        if parallel > 1 and not path.is_file():
            raise ConfigError(f"--parallel has every process read the texts, found {path}; give files, or leave it out")
    make_output_folder(out)
    settings = Settings(
        hidden=hidden,
        epochs=epochs,
        words=batch,
        tries=tries,
        seeds=seeds,
        min_count=min_count,
        folds=folds,
        device=device,
    )
    texts = Texts.read(corpus, valid, test, min_count=min_count, sentences=sentences, lowercase=lowercase)
    typer.echo(table(compare(texts, out, settings, only=only or (), seconds=seconds, parallel=parallel, tell=tell)))
