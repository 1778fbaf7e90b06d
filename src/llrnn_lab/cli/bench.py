"""The verbs `llrnn bench ...`; each imports what it measures when it runs."""

from __future__ import annotations

import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from llrnn.cli.options import AsJson, Changes, Device, device_named, make_output_folder, print_json, say
from llrnn.ground.errors import ConfigError, LLRNNError
from llrnn.ground.files import write_atomically

if TYPE_CHECKING:
    from llrnn_lab.bench.suite import Asked

bench_app = typer.Typer()
Number = TypeVar("Number", int, float)
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
    "own-network-gpu",
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
    from llrnn.cli import show
    from llrnn_lab.bench.everything import everything
    from llrnn_lab.bench.report import markdown
    from llrnn_lab.bench.suite import QUICK, Asked, Sizes
    from llrnn_lab.bench.suites import chosen

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


@bench_app.command("layer")
def bench_layer_verb(
    words: Annotated[int, typer.Option(min=100, help="|V|.")] = 42_592,
    classes: Annotated[int, typer.Option(min=10, help="G.")] = 3_244,
    hidden: Annotated[int, typer.Option(min=1, help="H.")] = 256,
    positions: Annotated[int, typer.Option(min=1, help="N.")] = 1_024,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 9,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """The log-linear layer against a dense softmax over |V|: same probabilities, forward and backward.

    Example: llrnn bench layer
    """
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.bench.neural import layer
    from llrnn_lab.cli import show as shown

    with threads_of(threads, spreads=device != "cpu"):
        results = layer(words, classes, hidden, positions, rounds=rounds, device=device_named(device))
        say(results, as_json, shown.bench_layer)


@bench_app.command("gpu")
def bench_gpu_verb(
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 21,
    as_json: AsJson = False,
) -> None:
    """The layer on a CUDA GPU in half precision against dense softmaxes, compiled and chunked: two to three minutes.

    Example: llrnn bench gpu
    """
    from llrnn_lab.bench.gpu import gpu
    from llrnn_lab.cli import show as shown

    result = {"command": f"llrnn bench gpu --rounds {rounds} --json", **gpu(rounds=rounds)}
    say(result, as_json, shown.bench_gpu)


@bench_app.command("training")
def bench_training_verb(
    words: Annotated[int, typer.Option(min=1000, help="|V| to fill the vocabulary up to.")] = 42_592,
    steps: Annotated[int, typer.Option(min=2, help="Updates to time, interleaved.")] = 20,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Words per second of whole training steps: the LL-RNN against the softmax RNN of the same body.

    Example: llrnn bench training
    """
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.bench.neural import training
    from llrnn_lab.cli import show as shown

    with threads_of(threads, spreads=device != "cpu"):
        result = training(words, steps=steps, device=device_named(device))
        say(result, as_json, shown.bench_training)


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


@bench_app.command("parallel")
def bench_parallel_verb(
    processes: Annotated[int, typer.Option(min=1, help="Started by torchrun, each with one thread.")] = 2,
    hidden: Annotated[int, typer.Option(min=1, help="H, of two layers.")] = 512,
    words: Annotated[int, typer.Option(min=64, help="Positions in a batch, which the processes share.")] = 2_048,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 7,
    as_json: AsJson = False,
) -> None:
    """Training with several processes against one process, on the same batches, in words per second.

    Example: llrnn bench parallel
    """
    from llrnn_lab.bench.parallel import parallel
    from llrnn_lab.cli import show as shown

    result = parallel(processes=processes, hidden=hidden, words=words, rounds=rounds)
    say(result, as_json, partial(shown.bench_parallel, processes=processes))


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


@bench_app.command("beam")
def bench_beam_verb(
    model: Annotated[Path | None, typer.Option(help="A model folder; without it a model is made up.")] = None,
    conditions: Annotated[Path | None, typer.Option(help="What it writes from: .jsonl, as it was trained on.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many of them.")] = 20,
    width: Annotated[int, typer.Option(min=1, help="The width of the beam.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Beam search with experts and priming against the same model without them, per token.

    Example: llrnn bench beam
    """
    from llrnn.model.checkpoint import load
    from llrnn.model.decode import condition_kind, prepared
    from llrnn.text.corpus import Corpus
    from llrnn_lab.bench.beam import beam, made_up
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.cli import show as shown

    with threads_of(threads):
        if (model is None) != (conditions is None):
            raise ConfigError("--model and --conditions go together: give both, or neither")
        if model is None or conditions is None:
            tested, given = made_up()
        else:
            tested = load(model)
            read = Corpus.from_file(conditions, lowercase=True, conditions=condition_kind(tested))
            given = [sentence.condition for sentence in read[:count]]  # type: ignore[misc]
            tested = prepared(tested, given)
        result = beam(tested, given[:count], width=width, rounds=rounds)
        say(result, as_json, shown.bench_beam)


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


@bench_app.command("inference")
def bench_inference_verb(
    words: Annotated[int, typer.Option(min=100, help="|V| of the scoring.")] = 200_000,
    many: Annotated[int, typer.Option(min=100, help="|V| of the sampling and of the folder.")] = 1_000_000,
    classes: Annotated[int, typer.Option(min=10, help="G.")] = 4_000,
    hidden: Annotated[int, typer.Option(min=1, help="H.")] = 256,
    positions: Annotated[int, typer.Option(min=2, help="N; and one.")] = 256,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 7,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Scoring, sampling, and opening a model folder, against a dense softmax that is given its |V| × H matrix.

    Example: llrnn bench inference
    """
    from llrnn_lab.bench.inference import inference
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.cli import show as shown

    with threads_of(threads):
        result = inference(words=words, many=many, classes=classes, hidden=hidden, positions=positions, rounds=rounds)
        say(result, as_json, shown.bench_inference)


Data = Annotated[Path, typer.Option(help="What `llrnn experiment prepare` made of the French text.")]
Configs = Annotated[Path, typer.Option(help="The configurations of the models.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of the processor.")]


@bench_app.command("french")
def bench_french_verb(
    data: Data,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved steps of each.")] = 7,
    configs: Configs = Path("configs/table4"),
    threads: Threads = 1,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Words per second of whole training steps on French, against softmax RNNs with the same body.

    Example: llrnn bench french --data runs/prepared
    """
    from llrnn_lab.bench.french import french
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.cli import show as shown

    with threads_of(threads, spreads=device != "cpu"):
        found = french(data, configs=configs, rounds=rounds, device=device_named(device))
        say(found, as_json, shown.french)


@bench_app.command("adaptive")
def bench_adaptive_verb(
    data: Data,
    seconds: Annotated[float, typer.Option(min=1, help="Training time of each.")] = 120.0,
    changes: Changes = None,
    configs: Configs = Path("configs/table4"),
    threads: Threads = 1,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Perplexity at equal time, and the time of an epoch, against torch's AdaptiveLogSoftmaxWithLoss.

    Example: llrnn bench adaptive --data runs/prepared
    """
    from llrnn_lab.bench.adaptive import adaptive
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.cli import show as shown

    with threads_of(threads, spreads=device != "cpu"):
        found = adaptive(data, configs=configs, seconds=seconds, changes=changes or (), device=device_named(device))
        say(found, as_json, shown.adaptive)


@bench_app.command("curve")
def bench_curve_verb(
    data: Data,
    out: Annotated[Path, typer.Option(help="The folder for curve.json and curve.png.")],
    seconds: Annotated[float, typer.Option(min=1, help="Training time of each.")] = 600.0,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds of training between two validations.")] = 30.0,
    ours: Annotated[str, typer.Option(help="The configuration that has our features.")] = "best",
    classes: Annotated[str, typer.Option(help="Numbers of classes; 0 for all that the features tell apart.")] = (
        "7000,3500"
    ),
    rates: Annotated[str, typer.Option(help="Learning rates that each chooses from.")] = "0.002,0.004",
    pilot: Annotated[float, typer.Option(min=0.1, help="Seconds after which the rate is chosen.")] = 60.0,
    cutoffs: Annotated[str, typer.Option(help="Where the clusters of the adaptive softmax begin.")] = "2000,10000",
    sentences: Annotated[int, typer.Option(min=1, help="Of the validation text.")] = 200,
    changes: Changes = None,
    configs: Configs = Path("configs/table4"),
    threads: Threads = 1,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Perplexity against training time on French: softmax, adaptive softmax, and LL-RNNs with few classes.

    Example: llrnn bench curve --data runs/prepared --out runs/curve --set controller.hidden=256
    """
    from llrnn.cli import show
    from llrnn_lab.bench.curve import TimeCurve, curve
    from llrnn_lab.bench.machine import threads_of

    make_output_folder(out)
    with threads_of(threads, spreads=device != "cpu"):
        found = curve(
            data,
            configs=configs,
            ours=ours,
            classes=_list_of(int, "--classes", classes),
            seconds=seconds,
            every=every,
            rates=_list_of(float, "--rates", rates),
            pilot=pilot,
            cutoffs=_list_of(int, "--cutoffs", cutoffs),
            changes=changes or (),
            sentences=sentences,
            device=device_named(device),
            tell=_tell,
        )
    result = {"command": shlex.join(["llrnn", *sys.argv[1:]]), **found}
    write_atomically(out / "curve.json", json.dumps(result, indent=1).encode())
    TimeCurve(result).figure().savefig(out / "curve.png", dpi=150)
    say(result, as_json, lambda _: show.out.print(TimeCurve(result)))


def _list_of(kind: type[Number], option: str, text: str) -> list[Number]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"{option} {text}: numbers with commas between them are required") from None


@bench_app.command("profile")
def bench_profile_verb(
    data: Data,
    steps: Annotated[int, typer.Option(min=1, help="Steps that are timed.")] = 20,
    configs: Configs = Path("configs/table4"),
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Where the time of a training step on French goes, and how often Python is called in steps of three sizes.

    Example: llrnn bench profile --data runs/prepared
    """
    from llrnn_lab.bench.machine import threads_of
    from llrnn_lab.bench.profile import profile
    from llrnn_lab.cli import show as shown

    with threads_of(threads):
        say(profile(data, configs=configs, steps=steps), as_json, shown.profile)
