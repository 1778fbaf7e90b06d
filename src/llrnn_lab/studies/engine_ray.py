"""The nodes of a Ray cluster as an engine: each command is a Ray task, on a node that has a CPU (and a GPU) free.

A command whose process, worker or node was killed is begun again, on whatever node, and goes on from the checkpoint in
its folder. So all nodes must see the study's folder: a mark that is written there is looked for before each command.
The mark also says when the deadline is over, to commands that Ray has kept waiting until then.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from llrnn.ground.errors import ConfigError, MissingExtraError, TrainingError
from llrnn.ground.files import write_atomically
from llrnn_lab.studies.engines import CLAIM, PROGRAM, SURROUNDINGS, Command, Ending, Engine, Place, Plan

LOG = "ray.log"  # in the study's folder: what Ray prints
_FOREMAN = Path(__file__).with_name("ray_foreman.py")
_PATIENCE = 60  # seconds for Ray to go down; the foreman has less


class Ray(Engine):
    """A cluster at an address, by default the one that RAY_ADDRESS names, else one of this machine for the time."""

    restarts = 3

    def __init__(self, address: str | None = None) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("ray", "ray")
        self.address = address or os.environ.get("RAY_ADDRESS") or None

    @contextmanager
    def open(self, plan: Plan) -> Iterator[Place]:
        """Connects to the cluster; at the end it is left, and taken down if it was started here."""
        if plan.device not in ("cpu", "cuda"):
            raise ConfigError(
                f"--device must be cpu or cuda with --engine ray, found {plan.device}; Ray chooses the GPU"
            )
        out = plan.out.absolute()
        mark = out / f".ray-{secrets.token_hex(8)}"
        write_atomically(mark, b"")
        settings = {
            "address": self.address,
            "parallel": plan.parallel,
            "gpu": plan.device == "cuda",
            "mark": str(mark),
            "folder": os.getcwd(),
            "program": PROGRAM,
            "surroundings": SURROUNDINGS,
            "claim": CLAIM,
        }
        try:
            with (out / LOG).open("ab") as log, _foreman(log, _surroundings(self.address)) as process:
                yield _Cluster(process, settings, mark)
        finally:
            mark.unlink(missing_ok=True)
            if not (out / LOG).stat().st_size:
                (out / LOG).unlink()


def _surroundings(address: str | None) -> dict[str, str]:
    """Ray reads them when it is imported: usage statistics off, token authentication on."""
    quiet = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    if address is not None or "RAY_AUTH_MODE" in quiet:
        return quiet  # of a cluster that is there, Ray finds the secret itself
    return {**quiet, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def _foreman(log: Any, surroundings: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """In a session of its own: Ctrl-C is for us, and we tell it by closing its input."""
    command = [sys.executable, "-P", str(_FOREMAN)]  # -P: our modules are not to be found under their bare names
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "encoding": "utf8"}
    with subprocess.Popen(command, env=surroundings, start_new_session=True, bufsize=1, **pipes) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()  # Ray's processes end with the one that started them


class _Cluster(Place):
    def __init__(self, process: subprocess.Popen[str], settings: dict[str, Any], mark: Path) -> None:
        self._process, self._mark, self._address = process, mark, settings["address"]
        self._commands: dict[int, Command] = {}
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._send(settings)
        threading.Thread(target=self._listen, daemon=True).start()
        self._understood(self._messages.get())

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._messages.put(json.loads(line))
        self._messages.put(None)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # that it is gone is told by what it last said, or by nothing more
            self._process.stdin.write(json.dumps(message) + "\n")

    def _understood(self, message: dict[str, Any] | None) -> dict[str, Any]:
        """A message that lets the study go on."""
        log = self._mark.with_name(LOG)
        if message is None:
            raise TrainingError(f"the Ray cluster was lost, see {log}; run the study again, and it goes on")
        if "error" in message:
            where = f"--address {self._address}" if self._address else "--engine ray"
            raise ConfigError(f"{where}: {_first_line(message['error'])}; see {log}")
        if "unfit" in message:
            raise ConfigError(f"--engine ray: {message['unfit']}; all nodes must have the same files and programs")
        return message

    def start(self, command: Command) -> None:
        number = len(self._commands)
        self._commands[number] = command
        self._send({"start": number, "arguments": command.arguments, "log": str(command.log.absolute())})

    def ended(self) -> list[tuple[Command, Ending]]:
        with suppress(queue.Empty):
            message = self._understood(self._messages.get(timeout=0.2))
            return [(self._commands[message["ended"]], _ending(message))]
        return []

    def begin_no_more(self) -> None:
        write_atomically(self._mark, b"late")


def _ending(message: dict[str, Any]) -> Ending:
    if "late" in message:
        return Ending(begun=False)
    if "lost" in message:
        return Ending(message["lost"], killed=True)
    return Ending.of(message["code"])


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
