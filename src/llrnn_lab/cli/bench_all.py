"""`llrnn bench` without a verb: every benchmark in one run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import AsJson, make_output_folder, print_json
from llrnn.ground.errors import ConfigError, LLRNNError
from llrnn_lab import bench as benchmarks
from llrnn_lab.bench.page import markdown
from llrnn_lab.bench.suite import QUICK, Asked, Sizes
from llrnn_lab.bench.suites import SUITES, chosen
from llrnn_lab.studies.prepare import prepare

_FRENCH = {"french", "french-gpu", "adaptive", "adaptive-gpu"}  # what needs prepared text


def bench_all(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="The folder for bench.json, bench.md and the plots.")] = None,
    data: Annotated[Path, typer.Option(help="Where the corpora are.")] = Path("../shared/data"),
    prepared: Annotated[
        Path, typer.Option(help="The French of `llrnn experiment prepare`; made of the data where it is not there.")
    ] = Path("runs/prepared"),
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"One benchmark, or several: {', '.join(one.name for one in SUITES)}."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Interleaved repetitions; each benchmark has a number of its own.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, few rounds: a look, no figures to quote.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Begin anew, whatever the folder holds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure, always against a peer that does the same work in the same run.

    Without a verb: every benchmark that this machine can run, one after the other, each row a ratio to a named peer
    with its floor. A run that was stopped goes on with the same command.

    Example: llrnn bench --out runs/bench
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    if out is None:
        raise ConfigError("a verb is required, or --out FOLDER to run all; `llrnn bench --help` lists the verbs")
    suites = chosen(only)
    make_output_folder(out)
    asked = Asked(QUICK if quick else Sizes(), rounds, data, prepared, quick)
    if _FRENCH & {suite.name for suite in suites}:
        _prepare(asked)
    run = benchmarks.everything(out, suites, asked, command=_command(out, only, asked), again=again, tell=_tell)
    if as_json:
        print_json({"rows": [row.to_json() for row in run.rows()], "left out": run.reasons()})
    else:
        show.out.print(markdown(run), markup=False)


def _refuse_options(context: typer.Context) -> None:
    """Those of the whole run, before a verb, would be lost."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            verb = context.invoked_subcommand
            raise ConfigError(f"`llrnn bench` takes options or a verb; write those of {verb} after it")


def _prepare(asked: Asked) -> None:
    """Where it is not possible, the rows that need it say so."""
    if not (asked.prepared / "manifest.json").exists() and (asked.data / "ud_french_gsd").is_dir():
        _tell(f"French is prepared in {asked.prepared} …")
        try:
            prepare(asked.data, asked.prepared, tell=_tell)
        except LLRNNError as error:
            _tell(f"French cannot be prepared: {error}")


def _command(out: Path, only: list[str] | None, asked: Asked) -> str:
    """As it is written into the results."""
    options = [option for name in only or () for option in ("--only", name)]
    options += [] if asked.rounds is None else ["--rounds", str(asked.rounds)]
    options += ["--quick"] if asked.quick else []
    folders = ["--out", str(out), "--data", str(asked.data), "--prepared", str(asked.prepared)]
    return shlex.join(["llrnn", "bench", *folders, *options])


def _tell(line: str) -> None:
    show.err.print(line, markup=False)
