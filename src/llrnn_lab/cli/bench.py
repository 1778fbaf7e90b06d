"""The verbs `llrnn bench ...`; each imports what it measures when it runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from llrnn.cli.options import AsJson, Device, device_named, make_output_folder, print_json, say
from llrnn.ground.errors import ConfigError, LLRNNError

if TYPE_CHECKING:
    from llrnn_lab.bench.suite import Asked

bench_app = typer.Typer()
SUITES = (
    "layer",
    "large-layer",
    "vocabulary",
    "own-classes",
    "memory",
    "scoring",
    "sampling",
    "one-position",
    "opening",
    "training",
    "french",
    "french-gpu",
    "adaptive",
    "adaptive-gpu",
    "parallel",
    "objectives",
    "ngram",
    "constraint",
    "beam",
    "gpu",
    "layers",
)
_FRENCH = {"french", "french-gpu", "adaptive", "adaptive-gpu"}  # what needs prepared text


@bench_app.callback(invoke_without_command=True)
def bench_all(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option(help="The folder for bench.json, bench.md and the plots.")] = None,
    data: Annotated[Path, typer.Option(help="Where the corpora are.")] = Path("../shared/data"),
    prepared: Annotated[
        Path, typer.Option(help="The French of `llrnn experiment prepare`; made of the data where it is not there.")
    ] = Path("runs/prepared"),
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"One benchmark, or several: {', '.join(SUITES)}."),
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
    from llrnn.cli import show
    from llrnn_lab.bench.everything import everything
    from llrnn_lab.bench.report import markdown
    from llrnn_lab.bench.suite import QUICK, Asked, Sizes
    from llrnn_lab.bench.suites import chosen

    if out is None:
        raise ConfigError("a verb is required, or --out FOLDER to run all; `llrnn bench --help` lists the verbs")
    suites = chosen(only)
    make_output_folder(out)
    asked = Asked(QUICK if quick else Sizes(), rounds, data, prepared, quick)
    if _FRENCH & {suite.name for suite in suites}:
        _prepare(asked)
    run = everything(out, suites, asked, command=_command(out, only, asked), again=again, tell=_tell)
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
    from llrnn_lab.studies.prepare import prepare

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
    from llrnn.cli import show

    show.err.print(line, markup=False)


@bench_app.command("bodies")
def bench_bodies_verb(
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 5,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Words per second of the bodies in training, alone and under the layer, against the LSTM; one core, or a GPU.

    Example: llrnn bench bodies
    """
    from llrnn_lab.bench.bodies import bodies
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.cli import show as shown

    with threads_of(1, spreads=device != "cpu"):
        command = f"llrnn bench bodies --rounds {rounds} --device {device} --json"
        say({"command": command, **bodies(rounds=rounds, device=device_named(device))}, as_json, shown.bench_bodies)


@bench_app.command("objectives")
def bench_objectives_verb(
    words: Annotated[int, typer.Option(min=0, help="|V| to fill the vocabulary up to.")] = 10_000,
    sentences: Annotated[int, typer.Option(min=10, help="Sentences of the embedded corpus to train on.")] = 3_000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over them.")] = 8,
    samples: Annotated[int, typer.Option(min=1, help="Words drawn from the background.")] = 256,
    hidden: Annotated[int, typer.Option(min=1, help="H.")] = 64,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Approximations of Z against the exact sum, every word its own class: validation (exact) and words per second.

    Example: llrnn bench objectives
    """
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.bench.objectives import objectives
    from llrnn_lab.cli import show as shown

    with threads_of(threads, spreads=device != "cpu"):
        result = objectives(
            words, sentences=sentences, epochs=epochs, samples=samples, hidden=hidden, device=device_named(device)
        )
        say(result, as_json, shown.bench_objectives)


@bench_app.command("ngram")
def bench_ngram_verb(
    text: Annotated[Path | None, typer.Option(help="One sentence a line; without it a text is drawn.")] = None,
    vocabulary: Annotated[int, typer.Option(min=100, help="|V| of the distributions.")] = 20_000,
    order: Annotated[int, typer.Option(min=1, max=10, help="The order of the models.")] = 5,
    words: Annotated[int, typer.Option(min=10_000, help="Words of the text that is estimated on.")] = 10_000_000,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    as_json: AsJson = False,
) -> None:
    """n-grams: estimation, and whole distributions against KenLM (pip install kenlm) on the same ARPA file.

    Example: llrnn bench ngram
    """
    from llrnn_lab.bench.against_kenlm import ngrams
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.cli import show as shown

    with threads_of(threads):
        result = ngrams(text=text, vocabulary=vocabulary, order=order, words=words, rounds=rounds)
        say(result, as_json, shown.bench_ngram)


@bench_app.command("constraint")
def bench_constraint_verb(
    text: Annotated[Path | None, typer.Option(help="A text to learn tokens from; without it they are drawn.")] = None,
    vocabulary: Annotated[int, typer.Option(min=4_000, help="|V|, in tokens.")] = 128_000,
    count: Annotated[int, typer.Option(min=1, help="Documents to begin with; as many others follow.")] = 20,
    depth: Annotated[int, typer.Option(min=1, max=5, help="Brackets within brackets of the documents.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    as_json: AsJson = False,
) -> None:
    """The next-token distribution under JSON's grammar against llguidance and outlines-core, where installed.

    Example: llrnn bench constraint
    """
    from llrnn_lab.bench.constraint import constraint
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.cli import show as shown

    with threads_of(threads):
        result = constraint(vocabulary=vocabulary, text=text, count=count, depth=depth, rounds=rounds)
        say(result, as_json, shown.bench_constraint)
