"""Jobs on a Ray cluster: killed workers, lost nodes, stopped studies; always the same results as here."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from helpers import HANG
from llrnn.ground.errors import ConfigError
from llrnn_lab.studies import engine_ray
from llrnn_lab.studies.engine_ray import Ray
from llrnn_lab.studies.engines import CLAIM, Command, Ending, Local, Place, Plan
from llrnn_lab.studies.jobs import Job
from ray_studies import (
    RunningCluster,
    Study,
    Watched,
    below,
    commands,
    kill,
    lines_of,
    parent_of,
    running_cluster,
    until,
)
from test_experiments import embedded_treebank
from test_resume import CONFIG

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None or not Path("/proc/self").exists(),
    reason="needs Linux, and ray: pip install 'llrnn[ray]'",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(2) as found:
        yield found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Two models, trained and tested in this process when they are asked for."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "config.toml").write_text(CONFIG)
    return Study(folder / "here", [Job("good", folder / "config.toml", (), seed) for seed in (0, 1)])


def again(undisturbed: Study, folder: Path, *jobs: Job) -> Study:
    """The same study, not begun yet, with some jobs of it, or all."""
    return Study(folder / "out", jobs or undisturbed.jobs)


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(cluster: RunningCluster, undisturbed: Study, tmp_path: Path) -> None:
    study = again(undisturbed, tmp_path, undisturbed.jobs[0])
    watched = Watched(study.out, study.jobs[0], 50, lambda pid: kill(parent_of(pid)))
    study.run(Ray(cluster.address))
    assert watched.went_on()
    study.assert_same(undisturbed)
    assert study.told[0] == "good, seed 0: its worker died, begun again (1 of 3)"
    assert study.told[1].startswith("good, seed 0: valid")
    assert len(study.told) == 2
    names = {path.name for path in study.out.iterdir()}
    assert names - {engine_ray.LOG} == {"good.seed0"}


@pytest.mark.slow
def test_a_node_that_does_not_see_the_folder_is_named(cluster: RunningCluster, tmp_path: Path) -> None:
    def look(place: Place) -> None:
        (mark,) = tmp_path.glob(".ray-*")
        mark.unlink()  # as if the folder were another one there
        place.start(Command(("--help",), tmp_path / "output.log"))
        until(place.ended, 30)

    wanted = r"the node [\d.]+ does not see the study's folder .*\.ray-\w+: No such file"
    with Ray(cluster.address).open(Plan(tmp_path, "cpu", 1)) as place, pytest.raises(ConfigError, match=wanted):
        look(place)
    assert not (tmp_path / "output.log").exists()


@pytest.mark.slow
def test_what_fails_is_told_and_the_others_go_on(cluster: RunningCluster, undisturbed: Study, tmp_path: Path) -> None:
    """Also when the process of a job is killed, and not the worker that started it."""
    (tmp_path / "bad.toml").write_text("kind = 7\n")
    bad = Job("bad", tmp_path / "bad.toml")
    study = again(undisturbed, tmp_path, bad, *undisturbed.jobs)
    watched = Watched(study.out, study.jobs[1], 50, kill)
    study.run(Ray(cluster.address))
    assert "these models failed: bad; see output.log" in study.error
    (told,) = [text for text in study.told if text.startswith("bad")]
    log = study.out / "bad.seed0" / "output.log"
    assert told.startswith(f"bad, seed 0: failed with exit code 2, {log} ends with: error: {bad.config}: ")
    assert log.read_text().count(": kind:") == 1  # tried once
    assert "good, seed 0: killed by SIGKILL, begun again (1 of 3)" in study.told
    assert watched.went_on()
    again(undisturbed, tmp_path).assert_same(undisturbed)


@pytest.mark.slow
def test_a_lost_node_changes_nothing(undisturbed: Study, tmp_path: Path) -> None:
    study = again(undisturbed, tmp_path, undisturbed.jobs[0])
    with running_cluster(0) as cluster:
        cluster.ask("add")

        def lose_the_node(pid: int) -> None:
            cluster.ask("remove")
            cluster.ask("add")

        watched = Watched(study.out, study.jobs[0], 20, lose_the_node)
        study.run(Ray(cluster.address))
    assert watched.went_on()
    assert [text.split(", begun")[0] for text in study.told][:1] in (
        ["good, seed 0: its node was lost"],
        ["good, seed 0: its worker died"],  # noticed first
    )
    assert len(study.told) == 2
    study.assert_same(undisturbed)


@pytest.mark.slow
def test_what_waits_at_the_deadline_is_not_begun(cluster: RunningCluster, tmp_path: Path) -> None:
    """Two CPUs, three commands: Ray keeps one waiting."""
    asleep = [
        Command(("experiment", "model", "--help", str(number)), tmp_path / f"{number}.log") for number in range(3)
    ]
    with (
        mock.patch.object(engine_ray, "PROGRAM", "import time; time.sleep(600)"),
        Ray(cluster.address).open(Plan(tmp_path, "cpu", 3)) as place,
    ):
        for command in asleep:
            place.start(command)
        begun = until(lambda: [command for command in asleep if command.log.exists()][1:] and process_with(asleep))
        place.begin_no_more()
        kill(begun)
        endings = until(place.ended)
        while len(endings) < 2:  # which of them comes first is Ray's affair
            endings = [*endings, *until(place.ended)]
        (left,) = [command for command in asleep if not command.log.exists()]
        assert (left, Ending(begun=False)) in endings
        assert Ending("killed by SIGKILL", killed=True) in [ending for _, ending in endings]
    until(lambda: process_with(asleep) is None)  # the other one has gone with the engine


def process_with(wanted: Sequence[Command]) -> int | None:
    arguments = [list(command.arguments) for command in wanted]
    return next((pid for pid, words in commands().items() if words[-4:] in arguments and "-c" in words), None)


@pytest.mark.slow
def test_no_cluster_at_an_address(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"--address 127\.0\.0\.1:1: .*see .*ray\.log"),
        Ray("127.0.0.1:1").open(Plan(tmp_path, "cpu", 1)),
    ):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {engine_ray.LOG}


@pytest.mark.slow
def test_a_command_ends_when_another_one_claims_its_folder(tmp_path: Path) -> None:
    """As on a node that is lost to Ray but goes on."""
    claim = tmp_path / ".claim"
    claim.write_text("mine")
    program = "from llrnn_lab.studies.engines import end_with_parent; end_with_parent(); print('up', flush=True)\n"
    program += "import time; time.sleep(600)"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    surroundings = {**os.environ, CLAIM: f"mine {claim}"}
    with subprocess.Popen([sys.executable, "-c", program], env=surroundings, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2.5)  # it looks again, and all is well
        claim.write_text("another's")
        assert process.wait(HANG) == 1


# --- a study that is stopped, on a cluster of its own -----------------------------------------------------------------

STUDY = """
import sys
from pathlib import Path
from llrnn_lab.cli.experiment import engine_named
from llrnn_lab.studies import jobs
def run(engine, config, out):
    planned = [jobs.Job("good", Path(config), (), seed) for seed in (0, 1)]
    jobs.run_jobs(planned, data=Path(out), out=Path(out), device="cpu", parallel=1, tell=print, engine=engine)
try:
    run(engine_named(sys.argv[1], None, "cpu"), *sys.argv[2:])
except KeyboardInterrupt:
    print("stopped")
"""


def _folders_of(pids: set[int]) -> set[Path]:
    """The folders of a cluster, which its processes are told: other tests may have clusters of their own."""
    said = " ".join(word for pid, words in commands().items() if pid in pids for word in words)
    return {Path(found) for found in re.findall(r"/tmp/llrnn-ray-\w+", said)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "how"),
    [
        ("local", signal.SIGKILL),
        ("local", signal.SIGINT),
        ("ray", signal.SIGKILL),
        ("ray", signal.SIGINT),
        ("ray", signal.SIGTERM),
    ],
)
def test_a_stopped_study_leaves_no_process_and_goes_on(
    engine: str, how: signal.Signals, undisturbed: Study, tmp_path: Path
) -> None:
    study, (first, second) = again(undisturbed, tmp_path), undisturbed.jobs
    program = [sys.executable, "-c", STUDY, engine, str(first.config), str(study.out)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(program, text=True, start_new_session=True, **pipes) as process:
        until(lambda: lines_of(second.folder(study.out) / "log.jsonl") >= 30 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        started = below(process.pid) - {process.pid}
        assert len(started) == 1 if engine == "local" else len(started) > 5
        folders = _folders_of(started)
        assert bool(folders) == (engine == "ray")
        if how is signal.SIGINT:
            os.killpg(process.pid, how)  # as a terminal does
        else:
            process.send_signal(how)
        printed, _ = process.communicate(timeout=HANG)
    until(lambda: not started & set(commands()))
    assert printed.splitlines()[0].startswith("good, seed 0: valid")
    assert printed.splitlines()[1:] == (["stopped"] if how is signal.SIGINT else [])
    if how is signal.SIGINT:
        assert not [folder for folder in folders if folder.exists()]
    finished = (first.folder(study.out) / "result.json").stat().st_mtime_ns
    lines = lines_of(second.folder(study.out) / "log.jsonl")
    study.run(Local())
    assert [text.split(":")[0] for text in study.told] == ["good, seed 1"]
    assert (first.folder(study.out) / "result.json").stat().st_mtime_ns == finished
    assert lines >= 30
    study.assert_same(undisturbed)


@pytest.mark.slow
def test_the_verb_says_the_same_on_either_engine(tmp_path: Path) -> None:
    """Nothing of Ray is seen, not even on standard error."""
    configs = tmp_path / "configs"
    configs.mkdir()
    for path in (Path(__file__).parents[2] / "configs" / "table4").glob("*.toml"):
        text = re.sub(r"\bhidden = \d+", "hidden = 16", path.read_text(encoding="utf8"))
        (configs / path.name).write_text(re.sub(r"\bepochs = \d+", "epochs = 1", text), encoding="utf8")
    treebank = embedded_treebank(tmp_path / "treebank")
    options = ["--data", str(treebank), "--configs", str(configs), "--seeds", "1", "--parallel", "2"]
    options += ["--only", "llrnn-10.windows", "--only", "llrnn-500.windows"]
    printed = {}
    for engine in ("local", "ray"):
        command = [sys.executable, "-m", "llrnn", "experiment", "table4", *options]
        command += ["--out", str(tmp_path / engine), "--engine", engine]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        told = (done.stdout + done.stderr).replace(str(tmp_path / engine), "OUT").splitlines()
        printed[engine] = sorted(re.sub(r"\b\d+ s$", "some seconds", line) for line in told)
    assert printed["local"] == printed["ray"]
    assert sum(line.startswith("llrnn-") for line in printed["ray"]) == 2


# --- options ----------------------------------------------------------------------------------------------------------


def test_ray_chooses_the_gpu(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="cpu or cuda with --engine ray, found cuda:1"),
        Ray("x:1").open(Plan(tmp_path, "cuda:1", 1)),
    ):
        pass


def test_gpus_are_shared_so_that_all_fit() -> None:
    ray_foreman = pytest.importorskip("llrnn_lab.studies.ray_foreman")
    assert [ray_foreman.share_of_gpu(4, gpus) for gpus in (1, 2, 3, 4, 8)] == [1 / 4, 1 / 2, 1 / 2, 1, 1]


def test_the_address_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert Ray().address is None
    monkeypatch.setenv("RAY_ADDRESS", "there:1")
    assert Ray().address == "there:1"
    assert Ray("here:2").address == "here:2"
