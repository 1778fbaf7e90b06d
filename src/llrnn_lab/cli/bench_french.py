"""The verbs `llrnn bench french`, `adaptive` and `profile`: training on real French."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llrnn.cli.options import AsJson, Device, device_named, say
from llrnn_lab.bench import adaptive as adaptive_bench
from llrnn_lab.bench import french as french_bench
from llrnn_lab.bench import profile as profile_bench
from llrnn_lab.bench.machine import threads_of
from llrnn_lab.cli import show_french
from llrnn_lab.cli.bench import bench_app

Data = Annotated[Path, typer.Option(help="What `llrnn experiment prepare` made of the French text.")]
Configs = Annotated[Path, typer.Option(help="The configurations of the models.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of the processor.")]


@bench_app.command("french")
def bench_french_verb(
    data: Data,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved steps of each.")] = 7,
    configs: Configs = french_bench.CONFIGS,
    threads: Threads = 1,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Words per second of whole training steps on French, against softmax RNNs with the same body.

    Example: llrnn bench french --data runs/prepared
    """
    with threads_of(threads, spreads=device != "cpu"):
        found = french_bench.french(data, configs=configs, rounds=rounds, device=device_named(device))
        say(found, as_json, show_french.french)


@bench_app.command("adaptive")
def bench_adaptive_verb(
    data: Data,
    seconds: Annotated[float, typer.Option(min=1, help="Training time of each.")] = 120.0,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of every configuration.")
    ] = None,
    configs: Configs = french_bench.CONFIGS,
    threads: Threads = 1,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Perplexity at equal time, and the time of an epoch, against torch's AdaptiveLogSoftmaxWithLoss.

    Example: llrnn bench adaptive --data runs/prepared
    """
    with threads_of(threads, spreads=device != "cpu"):
        found = adaptive_bench.adaptive(
            data, configs=configs, seconds=seconds, changes=changes or (), device=device_named(device)
        )
        say(found, as_json, show_french.adaptive)


@bench_app.command("profile")
def bench_profile_verb(
    data: Data,
    steps: Annotated[int, typer.Option(min=1, help="Steps that are timed.")] = 20,
    configs: Configs = french_bench.CONFIGS,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Where the time of a training step on French goes, and how often Python is called in steps of three sizes.

    Example: llrnn bench profile --data runs/prepared
    """
    with threads_of(threads):
        say(profile_bench.profile(data, configs=configs, steps=steps), as_json, show_french.profile)
