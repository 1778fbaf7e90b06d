"""Running a training from the command line: a progress bar, and a clean stop on Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from threading import Event
from types import FrameType

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from llrnn.cli import show
from llrnn.training.records import Record


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
