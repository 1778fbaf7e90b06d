"""The verbs `llrnn bench ...`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli import show
from llrnn.cli.options import AsJson, Device, device_named, say
from llrnn.ground.errors import ConfigError
from llrnn.model.checkpoint import load
from llrnn.model.writing import condition_kind, prepared
from llrnn.text.corpus import Corpus
from llrnn_lab import bench as benchmarks
from llrnn_lab.bench.machine import threads_of
from llrnn_lab.cli import show_gpu
from llrnn_lab.cli.bench_all import bench_all

bench_app = typer.Typer()
bench_app.callback(invoke_without_command=True)(bench_all)


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
    with threads_of(threads, spreads=device != "cpu"):
        results = benchmarks.layer(words, classes, hidden, positions, rounds=rounds, device=device_named(device))
        say(results, as_json, show.bench_layer)


@bench_app.command("gpu")
def bench_gpu_verb(
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 21,
    as_json: AsJson = False,
) -> None:
    """The layer on a CUDA GPU in half precision against dense softmaxes, compiled and chunked: two to three minutes.

    Example: llrnn bench gpu
    """
    result = {"command": f"llrnn bench gpu --rounds {rounds} --json", **benchmarks.gpu(rounds=rounds)}
    say(result, as_json, show_gpu.bench_gpu)


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
    with threads_of(threads, spreads=device != "cpu"):
        result = benchmarks.training(words, steps=steps, device=device_named(device))
        say(result, as_json, show.bench_training)


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
    with threads_of(threads, spreads=device != "cpu"):
        result = benchmarks.objectives(
            words, sentences=sentences, epochs=epochs, samples=samples, hidden=hidden, device=device_named(device)
        )
        say(result, as_json, show.bench_objectives)


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
    result = benchmarks.parallel(processes=processes, hidden=hidden, words=words, rounds=rounds)
    say(result, as_json, partial(show.bench_parallel, processes=processes))


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
    with threads_of(threads):
        result = benchmarks.ngrams(text=text, vocabulary=vocabulary, order=order, words=words, rounds=rounds)
        say(result, as_json, show.bench_ngram)


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
    with threads_of(threads):
        if (model is None) != (conditions is None):
            raise ConfigError("--model and --conditions go together: give both, or neither")
        if model is None or conditions is None:
            tested, given = benchmarks.made_up()
        else:
            tested = load(model)
            read = Corpus.from_file(conditions, lowercase=True, conditions=condition_kind(tested))
            given = [sentence.condition for sentence in read[:count]]  # type: ignore[misc]
            tested = prepared(tested, given)
        result = benchmarks.beam(tested, given[:count], width=width, rounds=rounds)
        say(result, as_json, show.bench_beam)


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
    with threads_of(threads):
        result = benchmarks.constraint(vocabulary=vocabulary, text=text, count=count, depth=depth, rounds=rounds)
        say(result, as_json, show.bench_constraint)


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
    with threads_of(threads):
        result = benchmarks.inference(
            words=words, many=many, classes=classes, hidden=hidden, positions=positions, rounds=rounds
        )
        say(result, as_json, show.bench_inference)
