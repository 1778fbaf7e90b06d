"""A Ray cluster of this machine, studies that run on it, and the processes they consist of, for the tests of engines.

Processes are looked up in /proc, so this runs on Linux only.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import HANG
from llrnn.ground.errors import TrainingError
from llrnn_lab.studies.engines import Engine
from llrnn_lab.studies.jobs import Job, run_job, run_jobs
from test_resume import assert_same_run

# --- processes --------------------------------------------------------------------------------------------------------


def until(found: Callable[[], Any], seconds: float = HANG) -> Any:
    begun = time.monotonic()
    while not (value := found()):
        assert time.monotonic() - begun < seconds
        time.sleep(0.002)
    return value


def commands() -> dict[int, list[str]]:
    """The command line of every process; zombies have none."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text(errors="replace").split("\0")[:-1]
        except OSError:
            continue  # it has just ended
        if words:
            found[int(path.parent.name)] = words
    return found


def process_of(out: Path, job: Job) -> int | None:
    named = {"--out", str(out), "--name", job.name, "--seed", str(job.seed)}
    return next((pid for pid, words in commands().items() if named <= set(words) and "model" in words), None)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def below(pid: int) -> set[int]:
    """A process and all that it started, and they."""
    parents = {}
    for one in commands():
        try:
            parents[one] = parent_of(one)
        except OSError:
            continue
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def lines_of(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


# --- a cluster --------------------------------------------------------------------------------------------------------

# nodes come and go by lines of its input
CLUSTER = """
import os, sys, threading
from ray.cluster_utils import Cluster
os.makedirs("/tmp/ray", exist_ok=True)  # where Ray notes the address, wherever its own folder is
small = {"object_store_memory": 100 * 2**20, "include_log_monitor": False}
head = {"num_cpus": int(sys.argv[1]), "temp_dir": sys.argv[2], "include_dashboard": False, "no_monitor": True}
cluster = Cluster(initialize_head=True, head_node_args=head | small)
print("address", cluster.address, flush=True)
nodes = []
for line in sys.stdin:
    if line == "add\\n":
        nodes.append(cluster.add_node(num_cpus=1, **small))
    else:
        cluster.remove_node(nodes.pop(0), allow_graceful=False)
    print("done", flush=True)
last = threading.Timer(20, os._exit, [1])  # its processes end with it
last.daemon = True
last.start()
cluster.shutdown()
"""


@dataclass
class RunningCluster:
    process: subprocess.Popen[str]

    @cached_property
    def address(self) -> str:
        return self._heard("address")

    def ask(self, what: str) -> None:
        assert self.address
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        self._heard("done")

    def _heard(self, word: str) -> str:
        """The line of its output that begins so; Ray prints lines of its own."""
        assert self.process.stdout is not None
        return next(line for line in self.process.stdout if line.startswith(word)).removeprefix(word).strip()


@contextmanager
def running_cluster(cpus: int) -> Iterator[RunningCluster]:
    """It is still starting when it is given: there is other work to do."""
    secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for name, value in secret.items():
            patch.setenv(name, value)
        process = subprocess.Popen([sys.executable, "-c", CLUSTER, str(cpus), folder], text=True, **pipes)
        with process:
            found = RunningCluster(process)
            try:
                yield found
            finally:
                assert found.address  # what has not started cannot be stopped
                process.communicate(timeout=HANG)


# --- studies ----------------------------------------------------------------------------------------------------------


@dataclass
class Study:
    """Some jobs, and what was told of them."""

    out: Path
    jobs: Sequence[Job]
    told: list[str] = field(default_factory=list)
    error: str = ""

    def run(self, engine: Engine, **given: Any) -> None:
        chosen = {"data": self.out, "device": "cpu", "parallel": 2, "tell": self.told.append, **given}
        try:
            run_jobs(self.jobs, out=self.out, engine=engine, **chosen)
        except TrainingError as error:
            self.error = str(error)

    def assert_same(self, other: Study) -> None:
        """The numbers, the weights and the logs, to the last bit; only their speed is their own."""
        for job in self.jobs:
            if job.result(other.out) is None:
                run_job(job, data=other.out, out=other.out, device=torch.device("cpu"))
            one, two = (job.result(study.out) for study in (self, other))
            assert one is not None
            assert two is not None
            for result in (one, two):
                del result["seconds"], result["words_per_second"]
            assert one == two
            assert_same_run(job.folder(self.out), job.folder(other.out))


@dataclass
class Watched:
    """Does something to a job when its log has so many lines, and then watches how short the log is."""

    out: Path
    job: Job
    after: int
    disturb: Callable[[int], None]  # given the process of the job
    shortest: int = sys.maxsize

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        log = self.job.folder(self.out) / "log.jsonl"
        until(lambda: lines_of(log) >= self.after)
        pid = process_of(self.out, self.job)
        assert pid is not None
        self.disturb(pid)
        while self.job.result(self.out) is None:
            self.shortest = min(self.shortest, lines_of(log))
            time.sleep(0.001)

    def went_on(self) -> bool:
        """Whether the job went on from its checkpoint: had it begun at the beginning, so had its log."""
        self.thread.join(HANG)
        return not self.thread.is_alive() and self.after - 5 <= self.shortest


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
