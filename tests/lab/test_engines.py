"""How the jobs of a study are gone through, on any engine, and how an engine is named."""

from __future__ import annotations

import importlib.util
import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from llrnn.cli import run
from llrnn.ground.errors import MissingExtraError
from llrnn_lab.studies import adaptation
from llrnn_lab.studies.engine_ray import Ray
from llrnn_lab.studies.engines import Command, Ending, Engine, Local, Place, Plan
from llrnn_lab.studies.jobs import Job
from ray_studies import Study
from test_knowledge_experiments import fast_settings, run_adaptation, write_prepared

TABLE4 = ["experiment", "table4", "--data", "nowhere", "--out", "out"]


class Scripted(Engine, Place):
    """Ends commands as it is told to, and keeps the order in which they were begun."""

    restarts = 2

    def __init__(self, *endings: list[Ending]) -> None:
        self._endings = list(endings)
        self.begun: list[Command] = []
        self._running: list[Command] = []
        self.late = False

    @contextmanager
    def open(self, plan: Plan) -> Iterator[Place]:
        yield self

    def start(self, command: Command) -> None:
        self.begun.append(command)
        self._running.append(command)

    def ended(self) -> list[tuple[Command, Ending]]:
        endings = self._endings.pop(0) if self._endings else [Ending("failed")]
        return [(self._running.pop(0), ending) for ending in endings]

    def begin_no_more(self) -> None:
        self.late = True


KILLED = Ending("killed by SIGKILL", killed=True)


def test_what_is_killed_too_often_has_failed(tmp_path: Path) -> None:
    study, engine = Study(tmp_path, [Job("x", Path("x.toml"))]), Scripted([KILLED], [], [KILLED], [KILLED], [KILLED])
    study.run(engine)
    assert len(engine.begun) == 3
    assert [text.split(": ", 1)[1] for text in study.told] == [
        "killed by SIGKILL, begun again (1 of 2)",
        "killed by SIGKILL, begun again (2 of 2)",
        f"killed by SIGKILL, {tmp_path / 'x.seed0' / 'output.log'} ends with: nothing",
    ]
    assert "these models failed: x" in study.error


def test_a_job_that_was_done_when_it_was_killed_is_done(tmp_path: Path) -> None:
    study, engine = Study(tmp_path, [Job("x", Path("x.toml"))]), Scripted([], [KILLED])
    (tmp_path / "x.seed0").mkdir()
    result = {"name": "x", "valid": 1.0, "tests": {}, "seconds": 2.0}
    start = engine.start

    def write_and_start(command: Command) -> None:
        start(command)
        (tmp_path / "x.seed0" / "result.json").write_text(json.dumps(result))

    engine.start = write_and_start  # type: ignore[method-assign]
    study.run(engine)
    assert study.told == ["x, seed 0: valid 1.000, 2 s"]
    assert not study.error


def test_after_the_deadline_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", itertools.count().__next__)  # a second whenever somebody looks
    jobs = [Job(name, Path("x.toml")) for name in "abc"]
    engine = Scripted([], [], *([[]] * 20), [Ending(begun=False), KILLED])
    study = Study(tmp_path, jobs)
    study.run(engine, deadline=10)
    assert engine.late
    assert len(engine.begun) == 2
    assert study.told == [f"b, seed 0: killed by SIGKILL, {tmp_path / 'b.seed0' / 'output.log'} ends with: nothing"]
    assert "these models failed: b;" in study.error
    assert not (tmp_path / "c.seed0").exists()


def test_a_study_that_is_done_needs_no_engine(tmp_path: Path) -> None:
    class Shut(Local):
        def open(self, plan: Plan) -> Any:
            raise AssertionError("opened")

    (tmp_path / "x.seed0").mkdir()
    (tmp_path / "x.seed0" / "result.json").write_text("{}")
    Study(tmp_path, [Job("x", Path("x.toml"))]).run(Shut())


def test_signals_are_told_by_name() -> None:
    assert Ending.of(0) == Ending()
    assert Ending.of(-9) == KILLED
    assert Ending.of(2) == Ending("failed with exit code 2")


class Here(Engine, Place):
    """Runs commands in this process: to start another one would take most of the time."""

    def __init__(self) -> None:
        self._ended: list[tuple[Command, Ending]] = []

    @contextmanager
    def open(self, plan: Plan) -> Iterator[Place]:
        yield self

    def start(self, command: Command) -> None:
        self._ended.append((command, Ending.of(run(list(command.arguments)))))

    def ended(self) -> list[tuple[Command, Ending]]:
        return [self._ended.pop()]

    def begin_no_more(self) -> None:
        raise AssertionError("no deadline was given")


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")
def test_the_sizes_of_adaptation_are_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adaptation, "default_settings", fast_settings)
    told = list[str]()
    for out in ("here", "there"):
        write_prepared(tmp_path / out / "data")
    alone = run_adaptation(Path("here"))
    spread = run_adaptation(Path("there"), engine=Here(), tell=told.append)
    assert spread == alone
    assert told[0] == "the base is trained"
    assert [line.split(":")[0] for line in told[1:]] == ["size100, seed 0", "size300, seed 0"]
    assert f"adaptor {alone[0]['adaptor']['test']:.3f}" in told[1]
    assert run_adaptation(Path("there"), engine=Here(), tell=told.append) == alone  # nothing is done again
    assert len(told) == 4


# --- options ----------------------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run([*TABLE4, *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert refused(capsys, "--engine", "spark") == "error: --engine must be local or ray, found 'spark'"
    assert refused(capsys, "--address", "x:1") == "error: --address x:1: only with --engine ray"


def test_without_ray_one_line_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError):
        Ray()
    assert refused(capsys, "--engine", "ray").endswith("needs ray, which is not installed: pip install 'llrnn[ray]'")
