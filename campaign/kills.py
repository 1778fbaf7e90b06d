"""SIGKILL: a command dies at a chosen moment, is run again, and must end where an undisturbed run ends, bit for bit.

Moments are counted, not slept: the command kills itself before the n-th time that it opens a file for writing, syncs,
renames or removes one; n is spread over the whole run. Others are chosen by CPU time, which falls into steps of
training and into the middle of writes. After every kill, whoever reads sees all of a result or nothing of it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import llrnn
from campaign.results import Figure, Finding, Outcome, Setting, rng_of
from campaign.samples import make_samples
from campaign.workers import CPU_SECONDS, cpu_seconds
from llrnn import cli
from llrnn.ground.errors import LLRNNError
from llrnn.languages.ngrams import read_table
from llrnn.text.built import BuiltCorpus

Run = Callable[[Path], int]  # makes `out`, in the folder of the samples; the exit code


def _command(arguments: str, resumable: bool = False) -> Run:
    def run(out: Path) -> int:
        resumes = ["--resume"] if resumable and (out / "training.json").exists() else []
        return cli.run([*(part.replace("{out}", str(out)) for part in arguments.split()), *resumes])

    return run


def _build(out: Path) -> int:
    """A corpus that is there is complete, and is not built again."""
    return 0 if out.exists() else cli.run(["data", "build", "text.txt", "--out", str(out)])


def _save(out: Path) -> int:
    llrnn.load("runs/plain").save(out)
    return 0


@dataclass(frozen=True)
class Job:
    """What is killed."""

    run: Run
    read: Callable[[Path], object]
    out: str = "out"
    before: str | None = None  # a folder of the samples that stands where the result will be
    kills: int = 10


JOBS = {
    "train": Job(_command("train plain.toml --quiet --out {out}", resumable=True), llrnn.load, kills=30),
    "train from acts": Job(
        _command("train acts.toml --quiet --set training.checkpoint_every=1 --out {out}", resumable=True),
        llrnn.load,
        kills=12,
    ),
    "save over a model": Job(_save, llrnn.load, before="runs/spelled", kills=16),
    "data build": Job(_build, lambda out: BuiltCorpus(out).check(), kills=18),
    "n-grams to a folder": Job(_command("ngram estimate text.txt --order 3 --out {out}"), read_table),
    "n-grams to ARPA": Job(_command("ngram estimate text.txt --order 3 --out {out}"), read_table, out="out.arpa.gz"),
    "n-grams on disk": Job(
        _command("ngram estimate text.txt --order 3 --memory 1M --out {out}"), read_table, out="out.arpa", kills=12
    ),
}


@dataclass(frozen=True)
class Kill:
    """The case: which job, and at which part of the way."""

    job: str
    number: int
    of: int
    seed: int

    def __str__(self) -> str:
        return f"{self.job}-{self.number}"


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody killed: its result, and how long the way is."""

    folder: Path
    events: int
    seconds: float


_whole: dict[tuple[str, Path], Undisturbed] = {}


def kill_one(case: Kill, scratch: Path) -> list[Outcome]:
    """Kill, look, run again (perhaps killed again), compare."""
    job, samples, rng = JOBS[case.job], scratch / "samples", rng_of(case.seed, f"kills {case}")
    if (case.job, scratch) not in _whole:
        _whole[case.job, scratch] = _undisturbed(job, samples, scratch / "whole" / case.job)
    whole = _whole[case.job, scratch]
    work = _prepared(job, samples, scratch / "killed")
    by_event = case.number % 4 != 3
    along = (case.number + rng.random()) / case.of
    for kill in range(2 if rng.random() < 0.25 else 1):
        share = along if kill == 0 else rng.random()
        moment = Moment(event=1 + int(share * whole.events)) if by_event else Moment(seconds=share * whole.seconds)
        code = _in_child(job, samples, work, moment)
        if code is None:
            return [_found(case, "hang", f"no end after {CPU_SECONDS:.0f} s of CPU time, {moment}")]
        if code != -signal.SIGKILL and ((by_event and kill == 0) or code != 0):  # or the control would prove nothing
            return [_found(case, "not killed", f"exit code {code}, {moment} of {whole.events}:\n{_said(work)}")]
        if (wrong := _seen_by_readers(job, samples, work, whole)) is not None:
            return [_found(case, "torn", f"after a kill at {moment}: {wrong}")]
    code = _in_child(job, samples, work, Moment())
    if code != 0:
        return [_found(case, "not resumed", f"exit code {code} after a kill at {moment}:\n{_said(work)}")]
    if (other := _difference(work, whole.folder)) is not None:
        return [_found(case, "different", f"after a kill at {moment}: {other}")]
    return [Outcome(case.job, "the same bit for bit")]


def _found(case: Kill, kind: str, detail: str) -> Outcome:
    return Outcome(case.job, kind, Finding(kind, str(case), f"{case.job}: {kind}", detail))


def _prepared(job: Job, samples: Path, work: Path) -> Path:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if job.before is not None:
        shutil.copytree(samples / job.before, work / job.out)
    return work


def _undisturbed(job: Job, samples: Path, work: Path) -> Undisturbed:
    _prepared(job, samples, work)
    before = time.process_time() + sum(os.times()[2:4])
    if _in_child(job, samples, work, Moment(count=True)) != 0:
        raise RuntimeError(f"the job cannot be run at all: {_said(work)}")
    seconds = time.process_time() + sum(os.times()[2:4]) - before
    events = int((work / "events").read_text())
    (work / "events").unlink()
    return Undisturbed(work, events, seconds)


# --- a child that is killed ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """When: before the n-th event, or after so much CPU time; or never, and then events may be counted."""

    event: int | None = None
    seconds: float | None = None
    count: bool = False

    def __str__(self) -> str:
        return f"event {self.event}" if self.event is not None else f"{self.seconds or 0:.3f} s of CPU time"


def _in_child(job: Job, samples: Path, work: Path, moment: Moment) -> int | None:
    """The exit code, -9 for a kill; None where it does not end."""
    child = os.fork()
    if child == 0:
        _be_killed(job, samples, work, moment)
    began, most = cpu_seconds(child), CPU_SECONDS if moment.seconds is None else moment.seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if cpu_seconds(child) - began >= most:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            return None if moment.seconds is None else os.waitstatus_to_exitcode(status)
        time.sleep(0.001)


def _be_killed(job: Job, samples: Path, work: Path, moment: Moment) -> None:
    """The life of the child; it does not return."""
    code = 70
    try:
        said = os.open(work / "said", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        events = _watched(work, moment.event)
        with chdir(samples):
            code = job.run(work / job.out)
        if moment.count:
            (work / "events").write_text(str(events[0]))
        sys.stderr.flush()
    except BaseException as error:  # told, so that it is a finding
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


_FILES = {"open": 0, "os.rename": 0, "os.remove": 0, "os.mkdir": 0, "os.rmdir": 0, "os.chmod": 0, "shutil.rmtree": 0}


def _watched(work: Path, last: int | None) -> list[int]:
    """Count what is done to files below a folder, and die before the last one allowed."""
    events, below = [0], str(work)

    def happens() -> None:
        events[0] += 1
        if events[0] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, arguments: tuple[object, ...]) -> None:
        if event not in _FILES or not str(arguments[_FILES[event]]).startswith(below):
            return
        is_read = event == "open" and isinstance(arguments[2], int) and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not is_read:
            happens()

    synced = os.fsync

    def fsync(descriptor: int) -> None:
        happens()
        synced(descriptor)

    os.fsync = fsync  # type: ignore[assignment]
    sys.addaudithook(audited)
    return events


def _said(work: Path) -> str:
    said = work / "said"
    return said.read_text(encoding="utf8", errors="replace")[-1500:] if said.exists() else ""


# --- what is left ----------------------------------------------------------------------------------------------------


def _seen_by_readers(job: Job, samples: Path, work: Path, whole: Undisturbed) -> str | None:
    """Whoever opens the result after a kill has all of one, the old or the new, or is told that there is none."""
    out = work / job.out
    is_there = out.is_file() or any((out / f"{name}.json").exists() for name in ("model", "corpus", "ngram"))
    if job.before is not None and not is_there:
        return "the model that was there is gone"
    if not is_there:
        return None
    try:
        job.read(out)
    except LLRNNError as error:
        return f"it cannot be read: {error}"
    return None


def _difference(work: Path, whole: Path) -> str | None:
    found, wanted = _contents(work), _contents(whole)
    if found.keys() != wanted.keys():
        return f"files are left or missing: {sorted(found.keys() ^ wanted.keys())}"
    other = [name for name in wanted if found[name] != wanted[name]]
    return f"{other[0]} has other bytes" if other else None


def _contents(folder: Path) -> dict[str, bytes]:
    """Everything but the times in the log, which no two runs share, and locks, which the dead do not hold."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    files = {name: path for name, path in files.items() if name != "said" and path.suffix != ".lock"}
    return {name: _timeless(path) if path.name == "log.jsonl" else path.read_bytes() for name, path in files.items()}


def _timeless(log: Path) -> bytes:
    records = [json.loads(line) for line in log.read_bytes().splitlines()]
    return json.dumps([{**record, "words_per_second": 0} for record in records]).encode()


def kills(setting: Setting) -> Iterator[Outcome | Figure]:
    """Every job, its moments spread over its way."""
    samples = make_samples(setting.out / "samples")
    cases = [
        Kill(name, number, setting.count(job.kills), setting.seed)
        for name, job in JOBS.items()
        for number in range(setting.count(job.kills))
    ]
    yield from setting.pool.run(kill_one, (case for case in cases if setting.wanted(str(case))), samples)
    yield Figure("jobs", len(JOBS))
