"""Requests that arrive together go through one model step, and everybody has a turn.

One thread runs a model. While it computes, jobs gather in a queue; when it is done it takes those whose turn it is, up
to `rows` of them and as much work as fits a turn, and hands those with equal keys to one function at once. Nobody waits
for company: a job that comes alone is run alone. Results go back to the event loop in one call for each group.

Whose turn it is (`Turns`): every client pays for the work that it is given, and who will have paid least comes first
(fair queueing). So one who asks for little waits for the turn that is going on and no longer, whatever others want.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

Run = Callable[[Sequence[Any]], Sequence[Any]]  # payloads -> results, or an exception in the place of a result
Client = tuple[str, int]  # address and port: turns go round addresses, and then round the connections of one
CLIENT: ContextVar[Client] = ContextVar("CLIENT", default=("", 0))  # who asks; the guard sets it for every request
TURN = 1000  # work of one turn, in words that are read: about a tenth of a second for models of some thousand classes
_MOST_KNOWN = 10_000  # clients and addresses whose payments are known
THREAD = "llrnn-model"
_PATIENCE = 5.0  # seconds that closing waits for a step that has begun


@dataclass(eq=False)
class Job:
    """Something to compute: jobs with equal keys are computed together by `run`; `cost` is in words that are read."""

    key: Hashable
    run: Run
    payload: Any
    future: asyncio.Future[Any]
    client: Client = ("", 0)
    cost: float = 1.0
    dropped: bool = field(default=False)  # nobody waits for it any more


class Turns:
    """The jobs that wait, by client, and what each client has paid since there was last nobody waiting."""

    def __init__(self) -> None:
        self._lanes: dict[Client, deque[Job]] = {}
        self._paid: dict[Hashable, float] = {}  # of addresses, and of clients
        self._level: dict[str, float] = {}  # where newcomers begin: what the last one served had paid

    def __bool__(self) -> bool:
        return bool(self._lanes)

    def add(self, job: Job) -> None:
        """A newcomer begins where the others are: who was silent has nothing saved up."""
        address, lane = job.client[0], self._lanes.get(job.client)
        if lane is None:
            lane = self._lanes[job.client] = deque()
            for who, level in ((address, ""), (job.client, address)):
                self._paid[who] = max(self._paid.get(who, 0.0), self._level.get(level, 0.0))
        lane.append(job)

    def take(self, rows: int, work: float) -> list[Job]:
        """The jobs of the next turn: at least one, if one waits that somebody wants."""
        taken: list[Job] = []
        cost = 0.0
        while self._lanes and len(taken) < rows:
            client = min(self._lanes, key=self._after)
            job = self._lanes[client][0]
            if taken and not job.dropped and cost + job.cost > work:
                break
            if not job.dropped:
                taken.append(job)
                cost += job.cost
                self._pay(client, job.cost)
            self._remove_first(client)
        if not self._lanes:
            self._paid.clear()
            self._level.clear()
        return taken

    def _after(self, client: Client) -> tuple[float, float]:
        """What a client will have paid with its next job: so among equals the cheapest comes first."""
        cost = self._lanes[client][0].cost
        return self._paid[client[0]] + cost, self._paid[client] + cost

    def _remove_first(self, client: Client) -> None:
        self._lanes[client].popleft()
        if not self._lanes[client]:
            del self._lanes[client]
        if len(self._paid) > _MOST_KNOWN:  # who opens ever new connections is forgotten, not kept for good
            present = {who for client in self._lanes for who in (client, client[0])}
            self._paid = {who: paid for who, paid in self._paid.items() if who in present}

    def _pay(self, client: Client, cost: float) -> None:
        for who, level in ((client[0], ""), (client, client[0])):
            self._level[level] = self._paid[who]
            self._paid[who] += cost


class Batcher:
    """The queue and the thread of a model."""

    def __init__(self, rows: int, observe: Callable[[int, float], None] = lambda rows, seconds: None) -> None:
        self.rows, self.observe = rows, observe
        self._waiting = Turns()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
        self._thread.start()

    async def submit(self, key: Hashable, run: Run, payload: Any, cost: float = 1.0) -> Any:
        """The result for one payload; whoever is cancelled while waiting is taken off the queue."""
        job = Job(key, run, payload, asyncio.get_running_loop().create_future(), CLIENT.get(), cost)
        with self._changed:
            if self._closing:
                raise RuntimeError("the batcher is closed")
            self._waiting.add(job)
            self._changed.notify()
        try:
            return await job.future
        finally:
            job.dropped = True

    async def close(self, patience: float = _PATIENCE) -> None:
        """Answer all that wait, then end the thread; a step that takes longer than one may wait is left behind."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join, patience)

    def _work(self) -> None:
        while (jobs := self._taken()) is not None:
            groups: dict[Hashable, list[Job]] = {}
            for job in jobs:
                groups.setdefault(job.key, []).append(job)
            for group in groups.values():
                self._answer(group)

    def _taken(self) -> list[Job] | None:
        """The jobs of the next turn; None when there is nothing left to come."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return self._waiting.take(self.rows, TURN) if self._waiting else None

    def _answer(self, group: Sequence[Job]) -> None:
        wanted = [job for job in group if not job.dropped]
        if not wanted:
            return
        began = time.perf_counter()
        try:
            results = wanted[0].run([job.payload for job in wanted])
        except Exception as error:
            results = [error] * len(wanted)
        seconds, loop = time.perf_counter() - began, wanted[0].future.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, wanted, results, seconds)

    def _deliver(self, jobs: Sequence[Job], results: Sequence[Any], seconds: float) -> None:
        """In the event loop, which is one thread for all models: so nothing that counts needs a lock."""
        self.observe(len(jobs), seconds)
        _deliver(jobs, results)


def _deliver(jobs: Sequence[Job], results: Sequence[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if job.future.done():  # cancelled
            continue
        if isinstance(result, Exception):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
