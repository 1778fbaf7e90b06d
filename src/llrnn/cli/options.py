"""Options and small helpers that several verbs share; a training as a progress bar, with a clean stop on Ctrl-C."""

from __future__ import annotations

import contextlib
import json
import math
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any, TypeVar

import torch
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from llrnn.cli import show
from llrnn.ground.charts import visible_json
from llrnn.ground.errors import ConfigError
from llrnn.model.checkpoint import find_device
from llrnn.training.runs import Record

Result = TypeVar("Result")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of everything that is drawn.")]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Lowercase every word first.")]
TextFormat = Annotated[str, typer.Option("--format", help="auto, conllu, text, jsonl or tsv.")]
ModelFolder = Annotated[Path, typer.Argument(help="A model folder, as `llrnn train --out` writes it.")]
DataFolder = Annotated[Path, typer.Option("--data", help="What {data} stands for in a configuration.")]
ConfigFile = Annotated[Path, typer.Argument(help="A TOML configuration; see configs/ for examples.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key: --set training.epochs=5")
]


def print_json(data: Any) -> None:
    """JSON has no infinity: log p of what is impossible, or a perplexity without bound, is null."""
    typer.echo(visible_json(json.dumps(_finite(data), ensure_ascii=False, indent=1, allow_nan=False)))


def say(result: Result, as_json: bool, show_it: Callable[[Result], None]) -> None:
    """To programs or to people."""
    if as_json:
        print_json(result)
    else:
        show_it(result)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def device_named(name: str) -> torch.device:
    try:
        return find_device(name)
    except ConfigError as error:
        raise ConfigError(f"--{error}") from None


def refuse_idle(context: typer.Context, reason: str, *names: str) -> None:
    """Options that were written on the command line, and would do nothing there."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise ConfigError(f"--{name.replace('_', '-')} does nothing {reason}; leave it out")


def require_models_and_texts(folders: list[Path], files: list[Path], pairs: bool) -> None:
    """What `evaluate` needs; which of its arguments is what, they show themselves."""
    for path in files:
        if not path.exists():
            raise ConfigError(f"{path}: no such file or folder; give model folders first, then texts")
    if not folders:
        listed = ", ".join(map(str, files))
        raise ConfigError(f"a model folder is required, as `llrnn train --out` writes it, found only files: {listed}")
    if not (files or pairs):
        raise ConfigError(f"{folders[-1]}: a text to evaluate on is required behind the models, or --pairs; found none")


def split_option(option: str, required: str) -> tuple[str, str]:
    """NAME=VALUE in two; `required` says how the option is written, in the message about one that is not."""
    name, equals, value = option.partition("=")
    if not (name and equals and value):
        raise ConfigError(f"{required}; found {option!r}")
    return name, value


def require_output_file(out: Path) -> None:
    """A file that can be written; checked before the work that it is to hold."""
    if out.is_dir() or not out.parent.is_dir():
        raise ConfigError(f"--out {out}: a file in a folder that exists is required; name another, or make the folder")


def make_output_folder(folder: Path) -> None:
    """Made before the work that it is to hold, so that no work is lost."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {folder}: cannot be made a folder: {error.strerror}; choose another") from None


@contextlib.contextmanager
def handling(number: int, handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle a signal in a block."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed in the block; a second one ends the program at once."""
    pressed = Event()

    def press(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    with handling(signal.SIGINT, press):
        yield pressed.is_set


def follow(records: Iterable[Record], *, name: str = "training", quiet: bool = False) -> list[Record]:
    """Run the training; a bar with words/s and time left on a terminal, a line for each epoch anywhere."""
    seen = []
    with _bar(quiet) as bar:
        task = bar.add_task(name, total=None, note="")
        for record in records:
            seen.append(record)
            if record.event == "step":
                note = f"{record.train:.3f} nats, {record.words_per_second:,.0f} words/s"
                bar.update(
                    task, total=record.batches, completed=record.position, note=f"epoch {record.epoch + 1}: {note}"
                )
            if record.event == "epoch" and not quiet:
                bar.console.print(f"{name}: {record}", markup=False)
    return seen


def _bar(quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=show.err,
        transient=True,
        disable=quiet or not show.err.is_terminal,
    )
