"""Commands of llrnn side by side on this machine, and how each of them ended.

A command is one `llrnn experiment model ...`. It holds a pipe to whoever started it, and ends when that end closes: a
study that is killed leaves no process behind that would write into the folders of the next one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# what `python -c` runs in a process of its own; the arguments are those of llrnn
PROGRAM = (
    "from llrnn_lab.studies.processes import end_with_parent; end_with_parent(); from llrnn.cli import main; main()"
)
SURROUNDINGS = {"OMP_NUM_THREADS": "1"}  # commands share the machine


@dataclass(frozen=True)
class Command:
    """Arguments of `llrnn`, and the file that everything printed is added to."""

    arguments: tuple[str, ...]
    log: Path


class Processes:
    """The commands that run."""

    def __init__(self) -> None:
        self._running: dict[Command, subprocess.Popen[bytes]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, command: Command) -> None:
        """Begin a command."""
        command.log.parent.mkdir(parents=True, exist_ok=True)
        with command.log.open("ab") as log:
            self._running[command] = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *command.arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **SURROUNDINGS},
            )

    def ended(self) -> list[tuple[Command, str]]:
        """Commands that have ended since the last call, each with why it failed, or nothing; waits a little."""
        time.sleep(0.2)
        done = [command for command, process in self._running.items() if process.poll() is not None]
        return [(command, reason_of(_closed(self._running.pop(command)))) for command in done]

    def kill(self) -> None:
        """End whatever still runs."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            _closed(process)


def reason_of(code: int) -> str:
    """What an exit code tells; a negative one is the signal that killed the process."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"failed with exit code {code}" if code else ""


def _closed(process: subprocess.Popen[bytes]) -> int:
    """The exit code; nothing of the process is left."""
    assert process.stdin is not None
    process.stdin.close()
    return process.wait()


def end_with_parent() -> None:
    """End this process when the other end of its standard input is closed, by whatever death."""
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)  # at once, as if killed: what is on disk is whole at any moment
