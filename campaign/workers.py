"""Where cases run: in warm processes that are watched, or here.

A worker is forked from a server that has imported torch and llrnn once. While it works on a case, it is watched from
outside: more than 20 s of CPU time is a hang, 8 s without any is a process that waits for ever, and a death
is a crash; each is a finding that names the case, and the worker is replaced. Address space is bounded, so that a file
that makes us ask for all memory gets a MemoryError and not the machine.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from campaign.results import Finding, Outcome

Cases = Iterable[Any]
Work = Callable[[Any, Path], list[Outcome]]  # a case, and a folder of its own with the samples in it

CPU_SECONDS = 20.0
IDLE_SECONDS = 8.0
MEMORY = 3 * 2**30  # bytes of address space beyond what a worker starts with
_TICK = os.sysconf("SC_CLK_TCK")
_CONTEXT = multiprocessing.get_context("forkserver")


class Pool(Protocol):
    """Runs a function on cases; `str(case)` names a case."""

    peak_mb: float

    def run(self, work: Work, cases: Cases, samples: Path | None = None) -> Iterator[Outcome]: ...


class Here:
    """In this process, one by one: for a single case, and for tests that plant a fault."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.peak_mb = scratch, 0.0

    def run(self, work: Work, cases: Cases, samples: Path | None = None) -> Iterator[Outcome]:
        folder = _fresh(self.scratch, samples)
        for case in cases:
            yield from _outcomes(work, case, folder)
        self.peak_mb = _peak_mb()


class Workers:
    """In processes of their own."""

    def __init__(self, scratch: Path, count: int) -> None:
        self.scratch, self.count, self.peak_mb = scratch, count, 0.0
        _CONTEXT.set_forkserver_preload(["campaign.preloaded"])

    def run(self, work: Work, cases: Cases, samples: Path | None = None) -> Iterator[Outcome]:
        """Outcomes as they come."""
        waiting = iter(cases)
        workers = [_Worker(work, self.scratch / f"worker-{number}", samples) for number in range(self.count)]
        try:
            busy = [worker for worker in workers if worker.begin(next(waiting, None))]
            while busy:
                wait([worker.answers for worker in busy], timeout=0.5)
                for worker in list(busy):
                    found = worker.found()
                    if found is None:
                        continue
                    yield from found
                    if not worker.begin(next(waiting, None)):
                        busy.remove(worker)
        finally:
            for worker in workers:
                self.peak_mb = max(self.peak_mb, worker.end())


class _Worker:
    """One process, the case that it has, and the watch over it."""

    def __init__(self, work: Work, folder: Path, samples: Path | None) -> None:
        self.work, self.folder, self.samples = work, folder, samples
        self.peak_mb = 0.0
        self._start()

    def _start(self) -> None:
        self.answers, theirs = _CONTEXT.Pipe()
        arguments = (theirs, self.work, self.folder, self.samples)
        self.process = _CONTEXT.Process(target=_serve, args=arguments, daemon=False)
        self.process.start()
        theirs.close()
        self.answers.recv()  # ready: imports are no part of a case

    def begin(self, case: Any) -> bool:
        self.case = case
        if case is None:
            return False
        self.answers.send(case)
        self.cpu = self.last_cpu = cpu_seconds(self.process.pid)
        self.moved = time.monotonic()
        return True

    def found(self) -> list[Outcome] | None:
        """What came of the case; None while it runs."""
        if self.answers.poll():
            try:
                outcomes, self.peak_mb = self.answers.recv()
            except EOFError:
                return self._lost("crash", f"the process died (exit code {self._exit_code()})")
            return list(outcomes)
        if not self.process.is_alive():
            return self._lost("crash", f"the process died (exit code {self._exit_code()})")
        used, now = cpu_seconds(self.process.pid), time.monotonic()
        if used > self.last_cpu or _is_running(self.process.pid):
            self.last_cpu, self.moved = used, now
        if used - self.cpu > CPU_SECONDS:
            return self._lost("hang", f"more than {CPU_SECONDS:.0f} s of CPU time")
        if now - self.moved > IDLE_SECONDS:
            return self._lost("blocked", f"{IDLE_SECONDS:.0f} s without any CPU time: it waits for something")
        return None

    def _exit_code(self) -> int | None:
        self.process.join(5)
        return self.process.exitcode

    def _lost(self, kind: str, what: str) -> list[Outcome]:
        name = str(self.case)
        self.end()
        self._start()
        return [Outcome(name.rpartition("-")[0], kind, Finding(kind, name, f"{name.rpartition('-')[0]}: {what}"))]

    def end(self) -> float:
        self.process.kill()
        self.process.join()
        self.answers.close()
        return self.peak_mb


def _serve(answers: Connection, work: Work, folder: Path, samples: Path | None) -> None:
    """The life of a worker."""
    _bound_memory()
    scratch = _fresh(folder, samples)
    answers.send("ready")
    while True:
        try:
            case = answers.recv()
        except EOFError:
            return
        answers.send((_outcomes(work, case, scratch), _peak_mb()))


def _outcomes(work: Work, case: Any, folder: Path) -> list[Outcome]:
    """What escapes from a case is a finding: whoever writes one catches what is allowed."""
    try:
        return work(case, folder)
    except Exception as error:
        return [Outcome(str(case).rpartition("-")[0], "untyped", untyped(error, str(case)))]


def untyped(error: BaseException, case: str, detail: str = "") -> Finding:
    """An error that is none of ours; told by its type and the last line of ours that it passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/llrnn/" in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}" if ours else "nowhere"
    told = "".join(traceback.format_exception(error, limit=-6))
    return Finding("untyped", case, f"{type(error).__name__} at {where}", f"{detail}\n{told}".strip()[-4000:])


def _fresh(folder: Path, samples: Path | None) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if samples is not None:
        shutil.copytree(samples, folder / "samples", symlinks=True)
    return folder


def _bound_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    now = pages * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _stat(process: int | None) -> list[str]:
    """Fields from the third one on: the second is a name in brackets, which may hold anything."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z", *["0"] * 20]


def cpu_seconds(process: int | None) -> float:
    """Of the process alone: a case that starts commands gives each of them its own limit, as `kills` does."""
    return sum(map(int, _stat(process)[11:13])) / _TICK


def _is_running(process: int | None) -> bool:
    return _stat(process)[0] == "R"
