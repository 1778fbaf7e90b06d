"""The verbs of `llrnn experiment` in which models write from a condition."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.experiment import Data, Out, experiment_app
from llrnn.cli.options import Device, device_named, make_output_folder
from llrnn.errors import ConfigError
from llrnn.experiments import knowledge_base, nlg
from llrnn.experiments.nlg_data import SHARES


def _tell(text: str) -> None:
    show.out.print(text, markup=False)


@experiment_app.command("nlg")
def nlg_verb(
    data: Data,
    out: Out,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path("configs/nlg"),
    systems: Annotated[list[str] | None, typer.Option("--system", help="Only these systems.")] = None,
    shares: Annotated[list[int] | None, typer.Option("--share", min=1, max=100, help="% of the training text.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Models of each kind.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, help="Models side by side.")] = 1,
    device: Device = "cpu",
) -> None:
    """Sentences from dialog acts: BLEU and slot errors of five systems, on little and much text, and on unseen values.

    Example: llrnn experiment nlg --data ../shared/data --out runs/nlg
    """
    device_named(device)
    make_output_folder(out)
    chosen = systems or list(nlg.SYSTEMS)
    missing = [system for system in chosen if not (configs / f"{system}.toml").exists()]
    if missing:
        raise ConfigError(f"{configs / missing[0]}.toml: no such file; --system is one of {', '.join(nlg.SYSTEMS)}")
    found = nlg.run(
        data,
        out,
        configs=configs,
        systems=chosen,
        shares=shares or SHARES,
        seeds=seeds,
        parallel=parallel,
        device=device,
        tell=_tell,
    )
    typer.echo(nlg.table(found))


@experiment_app.command("knowledge-base")
def knowledge_base_verb(
    data: Data,
    out: Out,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path("configs/knowledge-base"),
    seeds: Annotated[int, typer.Option(min=1, help="Models of each kind.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, help="Models side by side.")] = 1,
    device: Device = "cpu",
) -> None:
    """System turns from a dialogue and a table of venues: how often is what is stated the table's, before and after
    the table is changed?

    Example: llrnn experiment knowledge-base --data ../shared/data --out runs/knowledge-base
    """
    device_named(device)
    make_output_folder(out)
    found = knowledge_base.run(data, out, configs=configs, seeds=seeds, parallel=parallel, device=device, tell=_tell)
    typer.echo(knowledge_base.table(found))
