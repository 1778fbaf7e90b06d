"""The process that talks to Ray, for `engine_ray`: a line of JSON for each command, and one for each ending.

    in     {"address": ..., "parallel": 2, ...}        once, see `Settings`
           {"start": 7, "arguments": [...], "log": "/shared/out/x/output.log"}
    out    {"ready": true}                              or {"error": why}
           {"ended": 7, "code": 0}                      the command ran, and this is its exit code
           {"ended": 7, "lost": "its worker died"}      it was killed from outside
           {"ended": 7, "late": true}                   it was not begun
           {"ended": 7, "unfit": why}                   its node cannot do this work

A process of its own keeps what Ray prints, its settings of the environment and its crashes away from the study. It
ends when its input does, after it has taken Ray down; Ray's processes end with it in any case. It imports nothing of
llrnn, and so do the tasks that it sends to the nodes: they are sent by value, being of `__main__`.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import os
import queue
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
import ray.exceptions

_STORE = 100 * 2**20  # bytes for objects that tasks share: exit codes
_PATIENCE = 30  # seconds, for whoever should answer, and for Ray to go down
_LOST = {
    ray.exceptions.WorkerCrashedError: "its worker died",
    ray.exceptions.NodeDiedError: "its node was lost",
    ray.exceptions.OutOfMemoryError: "its node ran out of memory",
    ray.exceptions.ObjectLostError: "its node was lost",
}


@dataclass(frozen=True)
class Settings:
    """What the first line says."""

    address: str | None  # of a cluster; None: one of this machine, for the time
    parallel: int
    gpu: bool
    mark: str  # a file of the study, which every node must see; once it holds anything, nothing is to begin
    folder: str  # from which the study was started
    program: str  # for `python -c`
    surroundings: dict[str, str]
    claim: str  # the variable that names a claim, see `engines`


def task(arguments: list[str], log: str, settings: Settings, version: str) -> dict[str, Any]:
    """Run one command on the node that Ray has chosen."""
    try:
        late = Path(settings.mark).read_bytes()
    except OSError as error:
        return _unfit(f"does not see the study's folder ({settings.mark}: {error.strerror})")
    if late:
        return {"late": True}
    if not Path(settings.folder).is_dir():
        return _unfit(f"does not see {settings.folder}, from which the study was started")
    if (found := installed()) != version:
        return _unfit(f"must have llrnn {version} installed, found {found}")
    return {"code": _run(arguments, Path(log), settings)}


def _unfit(why: str) -> dict[str, Any]:
    return {"unfit": f"the node {ray.util.get_node_ip_address()} {why}"}


def installed() -> str:
    """The version of llrnn on this machine."""
    try:
        return importlib.metadata.version("llrnn")
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _run(arguments: list[str], log: Path, settings: Settings) -> int:
    """In a process, which is taken along if this task is cancelled, and ends by itself if this worker is killed."""
    word, claim = secrets.token_hex(8), log.with_name(".claim")
    claim.write_text(word, encoding="utf8")  # whoever else may still run it, on a node that was lost, ends now
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", settings.program, *arguments],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=file,
            cwd=settings.folder,
            env={**os.environ, **settings.surroundings, settings.claim: f"{word} {claim}"},
        )
    try:
        while process.poll() is None:
            time.sleep(0.1)  # not wait(): being cancelled must get through
    finally:
        process.kill()
        process.wait()
        if claim.exists() and claim.read_text(encoding="utf8") == word:
            claim.unlink()
    return process.returncode


@contextlib.contextmanager
def cluster(settings: Settings) -> Iterator[None]:
    """Connected to the cluster that was named, or to one that lives as long as this; quiet either way."""
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    with tempfile.TemporaryDirectory(prefix="llrnn-ray-", dir=_short_folder(), ignore_cleanup_errors=True) as own:
        if settings.address is not None:
            _require_answer(settings.address)
            ray.init(settings.address, **quiet)
        else:
            sizes = {"num_cpus": settings.parallel, "object_store_memory": _STORE, "_temp_dir": own}
            ray.init("local", include_dashboard=False, **sizes, **quiet)
        try:
            yield
        finally:
            ray.shutdown()


def _require_answer(address: str) -> None:
    """Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit():
        return  # `auto` and the like, which Ray looks up
    try:
        socket.create_connection((host, int(port)), timeout=_PATIENCE).close()
    except OSError as error:
        raise ConnectionError(f"no Ray cluster answers there ({error})") from None


def _short_folder() -> str | None:
    """Ray puts sockets there, whose paths the system limits to some hundred characters."""
    return "/tmp" if os.path.isdir("/tmp") else None


def share_of_gpu(parallel: int, gpus: int) -> float:
    """Of one GPU, so that all commands fit at once if need be: with one GPU, 1 / parallel."""
    return 1 / math.ceil(parallel / gpus)


class Foreman:
    """The commands that were sent out, and what came back."""

    def __init__(self, settings: Settings, say: Callable[[dict[str, Any]], None]) -> None:
        there = ray.cluster_resources()
        cpus, gpus = int(there.get("CPU", 0)), int(there.get("GPU", 0))
        if not cpus or (settings.gpu and not gpus):
            kind = "GPU; say --device cpu, or add a node" if cpus else "CPU; add a node"
            raise ConnectionError(f"the Ray cluster has no {kind}")
        share = share_of_gpu(settings.parallel, gpus) if settings.gpu else 0
        # no retries of Ray's own: the study counts and tells them
        self._task = ray.remote(num_cpus=1, num_gpus=share, max_retries=0, scheduling_strategy="SPREAD")(task)
        self._given = (settings, installed())
        self._sent: dict[Any, int] = {}
        self._say = say

    def start(self, order: dict[str, Any]) -> None:
        """Have Ray run a command where and when there is room."""
        self._sent[self._task.remote(order["arguments"], order["log"], *self._given)] = order["start"]

    def report(self) -> None:
        """Say what has ended, after waiting for it a little."""
        done, _ = ray.wait(list(self._sent), num_returns=1, timeout=0.1)
        for reference in done:
            self._say({"ended": self._sent.pop(reference), **_ending(reference)})

    def cancel(self) -> None:
        """Give tasks the time to take their commands along."""
        for reference in self._sent:
            ray.cancel(reference)
        if self._sent:
            ray.wait(list(self._sent), num_returns=len(self._sent), timeout=5)

    def work(self, orders: queue.Queue[dict[str, Any] | None]) -> None:
        """Until the orders end."""
        while True:
            try:
                order = orders.get(timeout=None if not self._sent else 0.1)
            except queue.Empty:
                self.report()
                continue
            if order is None:
                return
            self.start(order)


def _ending(reference: Any) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ray.get(reference)
    except tuple(_LOST) as error:
        return {"lost": next(reason for kind, reason in _LOST.items() if isinstance(error, kind))}
    except ray.exceptions.RayError as error:  # the log cannot be written, a worker cannot start, ...
        return {"unfit": f"a node could not run a command: {getattr(error, 'cause', error)}"}
    return found


def main() -> None:
    """Standard error is a log file; so is standard output for everybody but us."""
    orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
    lines = os.fdopen(os.dup(0), encoding="utf8")
    told = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf8")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def say(message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # whoever asked is gone, which the end of the input tells too
            told.write(json.dumps(message) + "\n")

    def listen() -> None:
        for line in lines:
            orders.put(json.loads(line))
        orders.put(None)
        time.sleep(_PATIENCE)
        os._exit(1)  # Ray hangs; its processes end with this one

    settings = Settings(**json.loads(lines.readline()))
    threading.Thread(target=listen, daemon=True).start()
    try:
        with cluster(settings):
            foreman = Foreman(settings, say)
            say({"ready": True})
            try:
                foreman.work(orders)
            finally:
                foreman.cancel()
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        say({"error": str(error)})
        raise


if __name__ == "__main__":
    main()
