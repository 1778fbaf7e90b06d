"""Where the jobs of a study run: an engine starts commands, and says how each of them ended.

    Local    processes of this machine, side by side
    Ray      the nodes of a Ray cluster (`engine_ray`); what was killed there is begun again

A command is one `llrnn experiment model ...`. It holds a pipe to whoever started it, and ends when that end closes: a
study that is killed leaves no process behind that would write into the folders of the next one. Where a node may lose
its connection and live on, a command also holds a claim to its folder, and ends when another one has taken it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

# what `python -c` runs in a process of its own; the arguments are those of llrnn
PROGRAM = "from llrnn_lab.studies.engines import end_with_parent; end_with_parent(); from llrnn.cli import main; main()"
SURROUNDINGS = {"OMP_NUM_THREADS": "1"}  # commands share the machine
CLAIM = "LLRNN_CLAIM"  # in the environment of a command: a word and the file that must hold it


@dataclass(frozen=True)
class Command:
    """Arguments of `llrnn`, and the file that everything printed is added to."""

    arguments: tuple[str, ...]
    log: Path


@dataclass(frozen=True)
class Plan:
    """What an engine must know before the first command."""

    out: Path  # the folder that all commands write below
    device: str
    parallel: int  # commands at once, at most


@dataclass(frozen=True)
class Ending:
    """How a command ended; the reason is empty where all went well."""

    reason: str = ""
    killed: bool = False  # by a signal, or with its worker or node: it could go on from its checkpoint
    begun: bool = True  # else the deadline came first

    @classmethod
    def of(cls, code: int) -> Ending:
        """From the exit code of a process; a negative one is the signal that killed it."""
        if code < 0:
            return cls(f"killed by {signal.Signals(-code).name}", killed=True)
        return cls(f"failed with exit code {code}" if code else "")


class Place(ABC):
    """An engine that is open: commands can be started."""

    @abstractmethod
    def start(self, command: Command) -> None:
        """Begin a command, or have it begun as soon as there is room."""

    @abstractmethod
    def ended(self) -> list[tuple[Command, Ending]]:
        """What has ended since the last call; waits a little if nothing has."""

    @abstractmethod
    def begin_no_more(self) -> None:
        """Commands that still wait for room are given back as not begun."""


class Engine(ABC):
    """Where commands can run."""

    restarts = 0  # how often a command that was killed is begun again

    @abstractmethod
    def open(self, plan: Plan) -> AbstractContextManager[Place]:
        """For the time of a `with`; whatever still runs at its end is killed."""


class Local(Engine):
    """Processes of this machine."""

    @contextmanager
    def open(self, plan: Plan) -> Iterator[Place]:
        """Nothing to prepare."""
        place = _Processes()
        try:
            yield place
        finally:
            place.kill()


class _Processes(Place):
    def __init__(self) -> None:
        self._running: dict[Command, subprocess.Popen[bytes]] = {}

    def start(self, command: Command) -> None:
        with command.log.open("ab") as log:
            self._running[command] = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *command.arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **SURROUNDINGS},
            )

    def ended(self) -> list[tuple[Command, Ending]]:
        time.sleep(0.2)
        done = [command for command, process in self._running.items() if process.poll() is not None]
        return [(command, Ending.of(_closed(self._running.pop(command)))) for command in done]

    def begin_no_more(self) -> None:
        pass  # nothing waits here: what was started has begun

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            _closed(process)


def _closed(process: subprocess.Popen[bytes]) -> int:
    """The exit code; nothing of the process is left."""
    assert process.stdin is not None
    process.stdin.close()
    return process.wait()


def end_with_parent() -> None:
    """End this process when the other end of its standard input is closed, by whatever death, or its claim is lost."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    if CLAIM in os.environ:
        word, _, path = os.environ[CLAIM].partition(" ")
        threading.Thread(target=_end_with_claim, args=(word, Path(path)), daemon=True).start()


def _end_with_input() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)  # at once, as if killed: what is on disk is whole at any moment


def _end_with_claim(word: str, path: Path) -> None:
    while path.exists() and path.read_text(encoding="utf8") == word:
        time.sleep(1)
    os._exit(1)
