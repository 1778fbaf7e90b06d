"""Requests that arrive together go through one model step.

One thread runs the model. While it computes, jobs gather in a queue; when it is done it takes all that wait, up to
`rows` of them, and hands those with equal keys to one function at once. Nobody waits for company: a job that comes
alone is run alone. Results go back to the event loop in one call for each group.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

Run = Callable[[Sequence[Any]], Sequence[Any]]  # payloads -> results, or an exception in the place of a result


@dataclass(eq=False)
class Job:
    """Something to compute: jobs with equal keys are computed together by `run`."""

    key: Hashable
    run: Run
    payload: Any
    future: asyncio.Future[Any]
    dropped: bool = field(default=False)  # nobody waits for it any more


class Batcher:
    """The queue and the thread."""

    def __init__(self, rows: int, observe: Callable[[int, float], None] = lambda rows, seconds: None) -> None:
        self.rows, self.observe = rows, observe
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="llrnn-model", daemon=True)
        self._thread.start()

    async def submit(self, key: Hashable, run: Run, payload: Any) -> Any:
        """The result for one payload; whoever is cancelled while waiting is taken off the queue."""
        job = Job(key, run, payload, asyncio.get_running_loop().create_future())
        with self._changed:
            if self._closing:
                raise RuntimeError("the batcher is closed")
            self._waiting.append(job)
            self._changed.notify()
        try:
            return await job.future
        finally:
            job.dropped = True

    async def close(self) -> None:
        """Answer all that wait, then end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while jobs := self._taken():
            groups: dict[Hashable, list[Job]] = {}
            for job in jobs:
                groups.setdefault(job.key, []).append(job)
            for group in groups.values():
                self._answer(group)

    def _taken(self) -> list[Job]:
        """All that wait, up to `rows`, oldest first; none when there is nothing left to come."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return [self._waiting.popleft() for _ in range(min(self.rows, len(self._waiting)))]

    def _answer(self, group: Sequence[Job]) -> None:
        wanted = [job for job in group if not job.dropped]
        if not wanted:
            return
        began = time.perf_counter()
        try:
            results = wanted[0].run([job.payload for job in wanted])
        except Exception as error:
            results = [error] * len(wanted)
        self.observe(len(wanted), time.perf_counter() - began)
        loop = wanted[0].future.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_deliver, wanted, results)


def _deliver(jobs: Sequence[Job], results: Sequence[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if job.future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
