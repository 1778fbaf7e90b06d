"""The verbs of `llrnn experiment` in which models write from a condition."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli.options import Device, device_named, make_output_folder
from llrnn.ground.errors import ConfigError
from llrnn_lab.cli.experiment import experiment_app
from llrnn_lab.cli.experiment_options import Address, Data, EngineName, Out, Parallel, Seeds, engine_named, tell
from llrnn_lab.studies import char_nlg, knowledge_base, nlg, semantic_parsing, sp_data
from llrnn_lab.studies.nlg_data import SHARES


@experiment_app.command("nlg")
def nlg_verb(
    data: Data,
    out: Out,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path("configs/nlg"),
    systems: Annotated[list[str] | None, typer.Option("--system", help="Only these systems.")] = None,
    shares: Annotated[list[int] | None, typer.Option("--share", min=1, max=100, help="% of the training text.")] = None,
    seeds: Seeds = 1,
    parallel: Parallel = 1,
    engine: EngineName = "local",
    address: Address = None,
    device: Device = "cpu",
) -> None:
    """Sentences from dialog acts: BLEU and slot errors of five systems, on little and much text, and on unseen values.

    Example: llrnn experiment nlg --data ../shared/data --out runs/nlg
    """
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
        engine=engine_named(engine, address, device),
        tell=tell,
    )
    typer.echo(nlg.table(found))


@experiment_app.command("knowledge-base")
def knowledge_base_verb(
    data: Data,
    out: Out,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path("configs/knowledge-base"),
    seeds: Seeds = 1,
    parallel: Parallel = 1,
    engine: EngineName = "local",
    address: Address = None,
    device: Device = "cpu",
) -> None:
    """System turns from a dialogue and a table of venues: how often is what is stated the table's, before and after
    the table is changed?

    Example: llrnn experiment knowledge-base --data ../shared/data --out runs/knowledge-base
    """
    make_output_folder(out)
    place = engine_named(engine, address, device)
    found = knowledge_base.run(
        data, out, configs=configs, seeds=seeds, parallel=parallel, device=device, engine=place, tell=tell
    )
    typer.echo(knowledge_base.table(found))


@experiment_app.command("semantic-parsing")
def semantic_parsing_verb(
    data: Data,
    out: Out,
    datasets: Annotated[list[str] | None, typer.Option("--dataset", help="Only these; all five by default.")] = None,
    systems: Annotated[
        list[str] | None, typer.Option("--system", help="softmax (and masked), strict, grammar, primed.")
    ] = None,
    shares: Annotated[list[int] | None, typer.Option("--share", min=1, max=100, help="% of the training text.")] = None,
    whole: Annotated[bool, typer.Option("--all", help="Also train on train and valid text together.")] = False,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path(
        "configs/semantic-parsing"
    ),
    seeds: Seeds = 1,
    parallel: Parallel = 1,
    engine: EngineName = "local",
    address: Address = None,
    device: Device = "cpu",
) -> None:
    """Logical forms from questions: exact match and well-formedness with a grammar of the forms, and with a lexicon.

    Example: llrnn experiment semantic-parsing --data ../shared/data --out runs/semantic-parsing --dataset geo
    """
    make_output_folder(out)
    chosen = {"--dataset": (datasets, sp_data.DATASETS), "--system": (systems, semantic_parsing.SYSTEMS)}
    for option, (given, known) in chosen.items():
        for name in given or ():
            if name not in known:
                raise ConfigError(f"{option} must be one of {', '.join(known)}, found {name!r}")
    found = semantic_parsing.run(
        data,
        out,
        configs=configs,
        datasets=datasets or sp_data.DATASETS,
        systems=systems or semantic_parsing.SYSTEMS,
        shares=[*(shares or sp_data.SHARES), *([semantic_parsing.ALL] if whole else [])],
        seeds=seeds,
        parallel=parallel,
        device=device,
        engine=engine_named(engine, address, device),
        tell=tell,
    )
    typer.echo(semantic_parsing.table(found))


@experiment_app.command("char-nlg")
def char_nlg_verb(
    data: Data,
    out: Out,
    configs: Annotated[Path, typer.Option(help="The configurations of the systems.")] = Path("configs/char-nlg"),
    seeds: Seeds = 1,
    parallel: Parallel = 1,
    engine: EngineName = "local",
    address: Address = None,
    device: Device = "cpu",
) -> None:
    """Sentences from dialog acts, character by character: non-words and slot errors with an automaton of the words.

    Example: llrnn experiment char-nlg --data ../shared/data --out runs/char-nlg
    """
    device_named(device)
    make_output_folder(out)
    place = engine_named(engine, address, device)
    found = char_nlg.run(
        data, out, configs=configs, seeds=seeds, parallel=parallel, device=device, engine=place, tell=tell
    )
    typer.echo(char_nlg.table(found))
