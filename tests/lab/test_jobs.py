"""How the jobs of a study are gone through, side by side."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from llrnn.cli import run
from llrnn.ground.errors import TrainingError
from llrnn_lab.studies import adaptation, jobs
from llrnn_lab.studies.jobs import Job, run_jobs
from llrnn_lab.studies.processes import PROGRAM, Command, reason_of
from test_knowledge_experiments import fast_settings, run_adaptation, write_prepared


class Scripted:
    """Ends commands as it is told to, and keeps the order in which they were begun."""

    def __init__(self, *endings: list[str]) -> None:
        self._endings = list(endings)
        self.begun: list[Command] = []
        self._running: list[Command] = []
        self.is_killed = False

    def __len__(self) -> int:
        return len(self._running)

    def start(self, command: Command) -> None:
        self.begun.append(command)
        self._running.append(command)

    def ended(self) -> list[tuple[Command, str]]:
        return [(self._running.pop(0), reason) for reason in self._endings.pop(0)]

    def kill(self) -> None:
        self.is_killed = True


class Here(Scripted):
    """Runs commands in this process: to start another one would take most of the time."""

    def ended(self) -> list[tuple[Command, str]]:
        command = self._running.pop(0)
        return [(command, reason_of(run(list(command.arguments))))]


@dataclass
class Study:
    """Some jobs, and what was told of them."""

    out: Path
    names: str
    told: list[str] = field(default_factory=list)
    error: str = ""

    def run(self, processes: Scripted, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        monkeypatch.setattr(jobs, "Processes", lambda: processes)
        planned = [Job(name, Path("x.toml")) for name in self.names]
        try:
            run_jobs(planned, data=self.out, out=self.out, device="cpu", parallel=2, tell=self.told.append, **given)
        except TrainingError as error:
            self.error = str(error)


KILLED = "killed by SIGKILL"


def result_of(out: Path, name: str) -> None:
    (out / f"{name}.seed0").mkdir()
    result = {"name": name, "valid": 1.0, "tests": {}, "seconds": 2.0}
    (out / f"{name}.seed0" / "result.json").write_text(json.dumps(result))


def test_what_is_killed_has_failed_unless_it_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes, study = Scripted([], [KILLED], [KILLED], [""]), Study(tmp_path, "abc")
    start = processes.start

    def write_and_start(command: Command) -> None:
        start(command)
        if "b" in command.arguments:
            result_of(tmp_path, "b")

    monkeypatch.setattr(processes, "start", write_and_start)
    study.run(processes, monkeypatch)
    log = f"{tmp_path / '{}.seed0' / 'output.log'} ends with: nothing"
    assert study.told == [
        f"a, seed 0: killed by SIGKILL, {log.format('a')}",
        "b, seed 0: valid 1.000, 2 s",
        f"c, seed 0: ended without a result, {log.format('c')}",
    ]
    assert "these models failed: a, c;" in study.error
    assert processes.is_killed  # whatever should still run


def test_what_has_a_result_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result_of(tmp_path, "x")
    processes, study = Scripted(), Study(tmp_path, "x")
    study.run(processes, monkeypatch)
    assert (processes.begun, study.told, study.error) == ([], [], "")


def test_after_the_deadline_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", itertools.count().__next__)  # a second whenever somebody looks
    processes, study = Scripted(*([[]] * 20), [KILLED, KILLED]), Study(tmp_path, "abc")
    study.run(processes, monkeypatch, deadline=10)
    assert len(processes.begun) == 2
    assert "these models failed: a, b;" in study.error


def test_exit_codes_are_told() -> None:
    assert [reason_of(code) for code in (0, -9, 2)] == ["", KILLED, "failed with exit code 2"]


def test_a_command_ends_with_whoever_started_it() -> None:
    """Its standard input is a pipe whose other end closes."""
    waiting = PROGRAM.split("from llrnn.cli")[0] + "import time; time.sleep(600)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", waiting], stdin=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 1


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")
def test_the_sizes_of_adaptation_are_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adaptation, "default_settings", fast_settings)
    monkeypatch.setattr(jobs, "Processes", Here)
    told = list[str]()
    for out in ("here", "there"):
        write_prepared(tmp_path / out / "data")
    alone = run_adaptation(Path("here"))
    spread = run_adaptation(Path("there"), parallel=2, tell=told.append)
    assert spread == alone
    assert told[0] == "the base is trained"
    assert [line.split(":")[0] for line in told[1:]] == ["size100, seed 0", "size300, seed 0"]
    assert f"adaptor {alone[0]['adaptor']['test']:.3f}" in told[1]
    assert run_adaptation(Path("there"), parallel=2, tell=told.append) == alone  # nothing is done again
    assert len(told) == 4
