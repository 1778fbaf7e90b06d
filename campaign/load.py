"""Soak and overload: many clients for some time, and more of them than the limits allow."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from campaign.requests import alive
from campaign.results import Figure, Finding, Outcome, Setting, rng_of
from campaign.samples import make_samples
from campaign.server import Answer, Server, asked, http, posted, serving

SOAK_SECONDS, SOAK_CLIENTS = 120.0, 8
OVERLOAD_SECONDS, OVERLOAD_CLIENTS, IN_FLIGHT, CONNECTIONS = 20.0, 48, 4, 600
GROWTH_MB, GROWTH_SHARE = 12.0, 0.05  # from the first third of a soak to its last
TYPED = {200, 413, 422, 429, 503}  # what may be answered under load
SLOW_HEALTH = 5.0  # seconds, on a machine that clients and server share

WORDS = ["la", "maison", "est", "le", "grande", "et"]  # of the samples' text


@dataclass
class Load:
    """What was measured."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # of a plain user
    health: list[float] = field(default_factory=list)
    resident_mb: list[float] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)

    def add(self, answer: Answer | None) -> None:
        status = 0 if answer is None else answer.status
        self.statuses[status] += 1
        problem = "no answer" if answer is None or not answer.raw else answer.wrong()
        if problem is None and status not in TYPED:
            problem = f"status {status}"
        if problem is not None:
            self.wrong[problem] += 1

    def outcomes(self, group: str) -> Iterator[Outcome]:
        for status, count in self.statuses.items():
            yield Outcome(group, str(status), None, count)
        for problem in self.wrong:
            yield Outcome(group, problem, Finding("status", f"{group}-0", f"{group}: {problem}"), cases=0)


def usual(rng: Random) -> bytes:
    """What a user asks."""
    prefix = " ".join(rng.choices(WORDS, k=rng.randint(1, 8)))
    kind = rng.random()
    if kind < 0.6:
        return posted("/v1/next", {"prefix": prefix, "top": 10})
    if kind < 0.75:
        return posted(
            "/v1/generate", {"prefix": prefix, "max_words": 8, "seed": rng.randrange(1000), "stream": kind < 0.7}
        )
    if kind < 0.9:
        changes = [{"feature": "POS:*", "offset": rng.uniform(-1, 1)}]
        return posted("/v1/score", {"texts": [prefix], "changes": changes})
    return posted(
        "/v1/generate",
        {"model": "acts", "condition": f"inform(name=ritz;area=x{rng.randrange(10**6)})", "max_words": 5},
    )


def worst(rng: Random) -> bytes:
    """As much as one request may ask for."""
    changes = [{"feature": f"*{rng.choice('aes')}*", "offset": 0.5} for _ in range(200)]
    kind = rng.randrange(4)
    if kind == 0:
        return posted("/v1/score", {"texts": ["la " * 60] * 64, "changes": changes})
    if kind == 1:
        return posted(
            "/v1/generate", {"model": "acts", "condition": "inform(" + "name=x;" * 2800 + ")", "max_words": 500}
        )
    if kind == 2:
        return posted("/v1/next", {"prefix": "la " * 1000, "top": 1000, "changes": changes, "words": ["la"] * 1000})
    return posted("/v1/generate", {"prefix": "la " * 900, "max_words": 500, "changes": changes, "stream": False})


async def _clients(server: Server, count: int, seconds: float, load: Load, seed: int, *, hard: bool = False) -> None:
    until = time.monotonic() + seconds

    async def client(number: int) -> None:
        rng = rng_of(seed, f"client {number}")
        while time.monotonic() < until:
            with contextlib.suppress(ConnectionError):
                load.add(await asked(server.port, worst(rng) if hard and number % 3 == 0 else usual(rng)))

    async def plain_user() -> None:
        rng = rng_of(seed, "plain user")
        while time.monotonic() < until:
            for request, times in ((http("GET", "/v1/health"), load.health), (usual(rng), load.seconds)):
                began = time.monotonic()
                with contextlib.suppress(ConnectionError):
                    answer = await asked(server.port, request)
                    if times is load.seconds:
                        load.add(answer)
                    elif answer is None or answer.status != 200:
                        load.wrong["health does not answer"] += 1
                times.append(time.monotonic() - began)
            load.resident_mb.append(server.resident_mb)
            await asyncio.sleep(0.2)

    await asyncio.gather(plain_user(), *(client(number) for number in range(count)))


def _p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98] if len(seconds) > 1 else max(seconds, default=0.0)


def soak(setting: Setting) -> Iterator[Outcome | Figure]:
    """Minutes of usual requests; memory does not grow."""
    samples, load = make_samples(setting.out / "samples"), Load()
    with serving(samples, setting.out / "soak.log") as server:
        warm = max(1.0, 0.15 * SOAK_SECONDS * setting.scale)
        asyncio.run(_clients(server, SOAK_CLIENTS, warm, Load(), setting.seed + 1))
        asyncio.run(_clients(server, SOAK_CLIENTS, SOAK_SECONDS * setting.scale, load, setting.seed))
        yield from load.outcomes("soak")
        yield from alive(server)
        third = max(1, len(load.resident_mb) // 3)
        first, last = statistics.median(load.resident_mb[:third]), statistics.median(load.resident_mb[-third:])
        if last > first * (1 + GROWTH_SHARE) + GROWTH_MB:
            grown = Finding("memory", "soak-0", "soak: memory grows", f"from {first:.0f} to {last:.0f} MB")
            yield Outcome("memory", "grows", grown)
        for finding in server.faults():
            yield Outcome("the server itself", finding.kind, finding)
    yield Figure("seconds of load", SOAK_SECONDS * setting.scale)
    yield Figure("MB in the first third", first)
    yield Figure("MB in the last third", last)
    yield Figure("p99 of a user, s", _p99(load.seconds))


def overload(setting: Setting) -> Iterator[Outcome | Figure]:
    """More clients than places, a third of them asking for as much as may be; then more connections than allowed."""
    samples, load = make_samples(setting.out / "samples"), Load()
    with serving(samples, setting.out / "overload.log", "--in-flight", str(IN_FLIGHT)) as server:
        seconds = max(2.0, OVERLOAD_SECONDS * setting.scale)
        asyncio.run(_clients(server, OVERLOAD_CLIENTS, seconds, load, setting.seed, hard=True))
        yield from load.outcomes("overload")
        if _p99(load.health) > SLOW_HEALTH:
            slow = Finding(
                "slow", "overload-0", f"health takes more than {SLOW_HEALTH:.0f} s", f"p99 {_p99(load.health):.2f} s"
            )
            yield Outcome("health", "slow", slow)
        yield from asyncio.run(_flood(server, setting.count(CONNECTIONS, least=20)))
        yield from alive(server)
        for finding in server.faults():
            yield Outcome("the server itself", finding.kind, finding)
    yield Figure("clients", OVERLOAD_CLIENTS)
    yield Figure("requests at a time", IN_FLIGHT)
    yield Figure("p99 of health, s", _p99(load.health))
    yield Figure("refused or answered late", sum(load.statuses[status] for status in (429, 503)))


async def _flood(server: Server, count: int) -> list[Outcome]:
    """Connections on which nothing is asked; beyond the limit they are refused, and health answers all the time."""
    opened, found = [], []
    for _ in range(count):
        with contextlib.suppress(OSError):
            opened.append(await asyncio.open_connection("127.0.0.1", server.port))
    answer = await asked(server.port, http("GET", "/v1/health"))
    typed = answer is not None and (answer.status in (200, 429) or not answer.raw)
    finding = None if typed else Finding("status", "overload-0", "flood of connections", repr(answer)[:300])
    found.append(Outcome("flood of connections", "typed" if typed else "untyped", finding, len(opened)))
    for _, writer in opened:
        writer.close()
    await asyncio.sleep(0.5)
    return found
