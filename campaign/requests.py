"""Requests: anything that fits through a socket, sent to a real `llrnn serve`.

Raw bytes that are hardly HTTP; JSON that is spoiled by someone who knows what should stand in it, over every endpoint;
and what schemathesis makes of the server's own description. Right is an answer of ours: no 500, errors with a code and
a message, nothing in the log, the server alive at the end and not much larger.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import hypothesis
import schemathesis
from hypothesis import HealthCheck

from campaign.mutations import json_spoiled, spoiled
from campaign.results import Figure, Finding, Outcome, Setting, rng_of
from campaign.samples import make_samples
from campaign.server import PATIENCE, Answer, Server, asked, http, posted, serving

RAW, BODIES, DESCRIBED = 5_000, 14_000, 2_000
CLIENTS = 12
GROWTH_MB = 400  # that a server may be larger than before

WORDS = ["la", "maison", "est", "le", "grande", "et", "zzz", "", " ", "\x1b[2J", "é" * 300, "</s>", "\ud7ff", "10 000"]
PATTERNS = ["*" * 30 + "Z", "POS:*", "*", "**", "*a*a*a*a*a*a*a*a*a*a*a*a*b", "Word:la", "?" * 900, "[a-z]*", "(a+)+$"]
CONDITIONS = [
    "inform(name=ritz)",
    "inform(" + "name=x;" * 2000 + ")",
    "inform(name='x'",
    "()",
    "request(area)",
    "{}",
    "[[[[",
]

BODIES_OF: dict[str, Callable[[Random], dict[str, Any]]] = {
    "/v1/next": lambda rng: {"top": rng.randint(0, 20), "words": [rng.choice(WORDS)], **_query(rng)},
    "/v1/explain": lambda rng: {"word": rng.choice(WORDS), "rival": rng.choice(WORDS), **_query(rng)},
    "/v1/influence": lambda rng: {"feature": rng.choice(PATTERNS), **_query(rng)},
    "/v1/generate": lambda rng: {
        "max_words": rng.choice([1, 3, 20]), "seed": rng.randrange(99), "stream": rng.random() < 0.5,
        "strategy": {"temperature": rng.choice([0.01, 1.0, 900.0]), "top_k": rng.choice([None, 1, 5])},
        **_query(rng),
    },
    "/v1/score": lambda rng: {
        "texts": [" ".join(rng.choices(WORDS[:6], k=rng.randint(0, 9))) for _ in range(rng.choice([1, 3, 64]))],
        "changes": _changes(rng),
    },
    "/v1/completions": lambda rng: {
        "prompt": rng.choice([rng.choice(WORDS), rng.choices(WORDS, k=3), ["la"] * 64]), "changes": _changes(rng),
        "max_tokens": rng.choice([1, 3, 500]), "n": rng.choice([1, 2, 64]), "logprobs": rng.choice([None, 0, 5]),
        "temperature": rng.choice([0, 1, 2]), "stop": rng.choice([None, "la", [" "]]), "stream": rng.random() < 0.5,
    },
    "/v1/complete": lambda rng: {
        "letters": rng.choice(WORDS), "k": rng.choice([1, 5, 900]), "mass": rng.random() < 0.5, **_query(rng),
    },
    "/v1/read": lambda rng: {"words": rng.choices(WORDS, k=rng.choice([0, 2, 9])), **_query(rng)},
    "/v1/write": lambda rng: {
        "model": rng.choice(["acts", "plain"]), "conditions": rng.choices(CONDITIONS, k=rng.choice([1, 3])),
        "max_words": rng.choice([1, 5, 500]), "width": rng.choice([1, 5, 100]),
    },
    "/v1/reload": lambda rng: {},
}  # fmt: skip
_LA = {"model": "plain", "prefix": "la"}
VALID: dict[str, tuple[int, dict[str, Any]]] = {  # the control of each: a right request, and the status of its answer
    "/v1/next": (200, _LA),
    "/v1/explain": (200, {**_LA, "word": "maison"}),
    "/v1/influence": (200, {**_LA, "feature": "Word:la"}),
    "/v1/generate": (200, {**_LA, "max_words": 3}),
    "/v1/score": (200, {"model": "plain", "texts": ["la maison"]}),
    "/v1/completions": (200, {"model": "plain", "prompt": "la", "max_tokens": 3}),
    "/v1/complete": (200, {**_LA, "letters": "m"}),
    "/v1/read": (200, _LA),
    "/v1/write": (200, {"model": "acts", "conditions": [CONDITIONS[0]], "max_words": 5}),
    "/v1/reload": (403, {}),  # switched off without a token
}
PATHS = ["/", "/v1/models", "/v1/health", "/v1/metrics", "/v1/openapi.json", "/page/page.js", "/v1/models/plain/words"]
PATHS += [
    "/v1/models/plain/features?query=POS&limit=5",
    "/v1/models/acts/words?query=%00",
    "/page/../app.py",
    "//",
    "/%2e%2e",
]
PATHS += [
    "/v1/models/%ff/words",
    "/v1/models/plain/features?limit=1e400",
    "/v1/next",
    "/v1/" + "a" * 9000,
    "*",
    "/?" + "a=b&" * 2000,
]


def _query(rng: Random) -> dict[str, Any]:
    model = rng.choice(["plain", "plain", "acts", "open"])
    said: dict[str, Any] = {"model": model, "changes": _changes(rng)}
    said["prefix"] = rng.choice(
        [" ".join(rng.choices(WORDS[:6], k=3)), rng.choices(WORDS, k=2), "la " * rng.choice([1, 900])]
    )
    if model == "acts":
        said["condition"] = rng.choice(CONDITIONS)
    if rng.random() < 0.2:
        said["background"] = rng.choice(["own", "kn", "uniform", "nobody"])
    return said


def _changes(rng: Random) -> list[dict[str, Any]]:
    count = rng.choice([0, 0, 1, 2, 200])
    one = [{"feature": rng.choice(PATTERNS), "offset": rng.choice([0.5, -1e6, 1e6]), "scale": rng.choice([1, 0, -1e6])}]
    return one * count


def _as_bytes(data: Any, rng: Random) -> bytes:
    return json.dumps(data, ensure_ascii=rng.random() < 0.5).encode("utf8", "surrogatepass")


def body_of(rng: Random) -> tuple[str, list[bytes]]:
    """A request with a body: as it should be, with a wrong value, or with wrong bytes."""
    path = rng.choice(list(BODIES_OF))
    data = BODIES_OF[path](rng)
    kind = rng.choice(["right", "right", "value", "value", "value", "bytes", "bytes", "deep"])
    if kind == "value":
        data = json_spoiled(data, rng)
    body = _as_bytes(data, rng)
    if kind == "bytes":
        body = spoiled(body, rng)[:200_000]
    elif kind == "deep":
        deep = rng.choice([100, 3_000, 90_000])
        opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
        body = rng.choice([b"", b'{"prefix":']) + opening * deep + closing * rng.choice([0, deep])
    return f"{path}, {kind}", [http("POST", path, body)]


@dataclass(frozen=True)
class Parts:
    """A request as it should be, whole and in parts, for whoever spoils it."""

    rng: Random
    body: bytes

    @property
    def whole(self) -> bytes:
        return http("POST", "/v1/next", self.body)

    @property
    def head(self) -> bytes:
        return self.whole.partition(b"\r\n\r\n")[0]

    def one(self, *choices: bytes) -> bytes:
        return self.rng.choice(choices)

    def replaced(self, part: bytes, *choices: bytes) -> bytes:
        return self.whole.replace(part, self.one(*choices))


def raw_of(rng: Random) -> tuple[str, list[bytes]]:
    """Bytes that are hardly a request."""
    kind, made = rng.choice(list(_RAW.items()))
    return f"raw, {kind}", made(Parts(rng, _as_bytes(BODIES_OF["/v1/next"](rng), rng)))


_METHODS = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW", "get", "P\x00ST", "", "A" * 9000]
_LISTING = "/v1/models/plain/words?limit={}&query={}"
_CHUNKED = b"POST /v1/next HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_CHUNKED += b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
_BAD_CHUNKS = [
    b"5\r\n{}\r\n0\r\n\r\n",
    b"-1\r\n",
    b"f" * 18 + b"\r\n{}",
    b"2\r\n{}\r\n0\r\n\r\n",
    b"2;" + b"x" * 20_000,
]
_UPGRADE = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
_RAW: dict[str, Callable[[Parts], list[bytes]]] = {
    "half": lambda p: [p.whole[: p.rng.randrange(len(p.whole))]],
    "in pieces": lambda p: [p.whole[i : i + 60] for i in range(0, len(p.whole), 60)][:12],
    "spoiled": lambda p: [spoiled(p.whole, p.rng)[:100_000]],
    "noise": lambda p: [p.rng.randbytes(p.rng.choice([1, 100, 5_000]))],
    "method": lambda p: [http(p.rng.choice(_METHODS), p.rng.choice(PATHS))],
    "path": lambda p: [http("GET", p.rng.choice(PATHS))],
    "query": lambda p: [
        http("GET", _LISTING.format(p.rng.choice(["0", "-1", "5", "1e9", "nan"]), quote(p.rng.choice(PATTERNS))))
    ],
    "long header": lambda p: [http("GET", "/", None, "X: " + "x" * p.rng.choice([100, 16_000, 90_000]))],
    "many headers": lambda p: [http("GET", "/", None, *["X: y"] * p.rng.choice([10, 3_000]))],
    "pipelined": lambda p: [p.whole.replace(b"Connection: close", b"X: y") * 5 + p.whole],
    "length": lambda p: [p.replaced(b"h: ", b"h: -", b"h: +", b"h: " + b"9" * 30, b"h: 0x", b"h: 1,")],
    "two lengths": lambda p: [p.head + b"\r\nContent-Length: 3\r\n\r\n" + p.body],
    "length and chunks": lambda p: [p.head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + p.body],
    "chunks": lambda p: [_CHUNKED + p.one(*_BAD_CHUNKS)],
    "host": lambda p: [p.replaced(b"localhost", b"evil.example", b"", b"localhost:99999999", b"[::1", b"\xff")],
    "type": lambda p: [p.replaced(b"application/json", b"text/plain", b"", b"application/json; charset=utf-16")],
    "expect": lambda p: [p.head + b"\r\nExpect: 100-continue\r\n\r\n", p.body],
    "upgrade": lambda p: [http("GET", "/", None, *_UPGRADE)],
    "TLS": lambda p: [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + p.rng.randbytes(200)],
    "HTTP/2": lambda p: [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + p.rng.randbytes(50)],
    "HTTP/1.0": lambda p: [p.replaced(b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/9.9", b"http/1.1")],
    "line ends": lambda p: [p.replaced(b"\r\n", b"\n", b"\r", b"\r\r\n", b"\x00")],
    "large body": lambda p: [http("POST", "/v1/score", b'{"texts":["' + b"a " * p.rng.choice([9_000, 10**6]) + b'"]}')],
}  # fmt: skip
# requests that have no end: we close our half, and the server may close without a word
_UNFINISHED = ("half", "in pieces", "noise", "TLS", "HTTP/2", "spoiled", "line ends", "chunks", "length", "method")


async def _one(server: Server, case: str, made: tuple[str, list[bytes]], rng: Random) -> Outcome:
    """Send it, and judge what comes back."""
    group, pieces = made
    leaves, unfinished = rng.random() < 0.02, group.removeprefix("raw, ") in _UNFINISHED
    slow = group.startswith("raw, in pieces") or rng.random() < 0.01
    try:
        answer = await asked(server.port, *pieces, pause=0.02 if slow else 0.0, leaves=leaves, ends=unfinished)
    except OSError as error:
        return Outcome(
            group, "refused to connect", Finding("no connection", case, f"{type(error).__name__}", str(error))
        )
    if leaves:
        return Outcome(group, "left")
    return judged(group, case, answer, pieces, may_be_silent=unfinished)


def judged(group: str, case: str, answer: Answer | None, pieces: list[bytes], *, may_be_silent: bool) -> Outcome:
    """An outcome by its status; a finding where the answer is wrong."""
    if answer is None:
        return Outcome(group, "no answer", Finding("hang", case, f"{group}: no answer", _shown(pieces)))
    if not answer.raw and not may_be_silent:
        return Outcome(group, "closed", Finding("silent", case, f"{group}: closed without an answer", _shown(pieces)))
    wrong = answer.wrong()
    finding = (
        None
        if wrong is None
        else Finding("status", case, f"{group}: {wrong}", f"{_shown(pieces)}\n{answer.raw[:600]!r}")
    )
    return Outcome(group, str(answer.status or "closed"), finding)


def _shown(pieces: list[bytes]) -> str:
    return repr(b"".join(pieces)[:400])


async def _all(
    server: Server, cases: Iterator[tuple[str, Callable[[Random], tuple[str, list[bytes]]], int]]
) -> list[Outcome]:
    """So many clients, each with its next case as soon as it has its answer."""
    found: list[Outcome] = []

    async def client() -> None:
        for case, make, seed in cases:
            rng = rng_of(seed, f"requests {case}")
            found.append(await _one(server, case, make(rng), rng))
            if found[-1].result == "no answer":
                return  # once no client is answered any more, nothing else is to be learnt of this server

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return found


def described(server: Server, count: int, seed: int) -> list[Outcome]:
    """What schemathesis makes of the description, right and wrong, for every operation."""
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/v1/openapi.json")
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    outcomes: list[Outcome] = []
    for operation, mode in itertools.product(operations, modes):
        group = f"schemathesis, {operation.path}, {mode.value}"
        quick = hypothesis.settings(
            max_examples=max(1, count // (2 * len(operations))),
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        try:
            given: Any = hypothesis.given(operation.as_strategy(generation_mode=mode))
            run: Any = hypothesis.seed(seed)(quick(given(_asking(group, outcomes))))
            run()
        except hypothesis.errors.Unsatisfiable:
            continue  # nothing can be wrong with an operation that takes nothing
    return outcomes


def _asking(group: str, outcomes: list[Outcome]) -> Callable[[Any], None]:
    def ask(case: Any) -> None:
        answer = case.call(timeout=PATIENCE)
        found = Answer(answer.status_code, answer.content, answer.content or b"-")
        outcomes.append(judged(group, f"{group}-{len(outcomes)}", found, [], may_be_silent=True))

    return ask


def requests(setting: Setting) -> Iterator[Outcome | Figure]:
    """All against one server."""
    samples: Path = make_samples(setting.out / "samples")
    raw = ((f"raw-{number}", raw_of, setting.seed) for number in range(setting.count(RAW)))
    bodies = ((f"body-{number}", body_of, setting.seed) for number in range(setting.count(BODIES)))
    cases = (case for case in itertools.chain(raw, bodies) if setting.wanted(case[0]))
    with serving(samples, setting.out / "server.log") as server:
        asyncio.run(asked(server.port, posted("/v1/next", {"prefix": "la"})))
        before = server.resident_mb
        yield from controls(server)
        yield from asyncio.run(_all(server, cases))
        if setting.only is None:
            yield from described(server, setting.count(DESCRIBED, least=20), setting.seed)
        yield from alive(server)
        yield Figure("MB grown", server.resident_mb - before)
        if server.resident_mb - before > GROWTH_MB:
            yield Outcome("memory", "grown", Finding("memory", "log-0", f"the server grew by more than {GROWTH_MB} MB"))
        for finding in server.faults():
            yield Outcome("the server itself", finding.kind, finding)


def controls(server: Server) -> Iterator[Outcome]:
    """Every endpoint that reads a body is asked, and a right request to it has its answer."""
    answer = asyncio.run(asked(server.port, http("GET", "/v1/openapi.json")))
    paths = {path for path, found in json.loads(answer.body if answer else b"{}")["paths"].items() if "post" in found}
    for path in sorted(paths ^ (VALID.keys() & BODIES_OF.keys())):
        yield Outcome("valid", "not asked", Finding("not asked", "valid-0", f"{path} is not in VALID and BODIES_OF"))
    for path, (status, body) in VALID.items():
        answer = asyncio.run(asked(server.port, posted(path, body)))
        well = answer is not None and answer.status == status
        finding = None if well else Finding("must be answered", "valid-0", f"{path}, {status}", repr(answer)[:500])
        yield Outcome(f"{path}, valid", "answered" if well else "not answered", finding)


def alive(server: Server) -> Iterator[Outcome]:
    """It is well, and answers."""
    for request in (http("GET", "/v1/health"), posted("/v1/next", {"prefix": "la"})):
        answer = asyncio.run(asked(server.port, request))
        well = answer is not None and answer.status == 200
        finding = None if well else Finding("hang", "log-0", "not well afterwards", repr(answer)[:500])
        yield Outcome("afterwards", "well" if well else "not well", finding)
