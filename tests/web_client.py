"""A server in a thread, an engine that does as it is told, and a client that may misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from helpers import HANG
from llrnn.serve import app as serving
from llrnn.serve.engine import Engine
from llrnn.serve.messages import ErrorAnswer, ExplainRequest, GenerateRequest, InfluenceRequest, ScoreRequest

PATIENCE = HANG


class FakeEngine(Engine):
    """Takes `seconds` for an answer, and `pause` between two of endless words of `length` letters."""

    names = ("fake",)

    def __init__(self, *, seconds: float = 0.0, pause: float = 0.0, length: int = 4) -> None:
        self.seconds, self.pause, self.length = seconds, pause, length
        self.begun = self.ended = 0
        self.error: Exception | None = None

    def observe_steps(self, observe: Callable[[int, float], None]) -> None:
        pass

    async def next(self, request: object) -> dict[str, Any]:
        self.begun += 1
        try:
            await asyncio.sleep(self.seconds)
            if self.error is not None:
                raise self.error
            return {"answer": 1}
        finally:
            self.ended += 1

    async def read(self, request: object) -> dict[str, Any]:
        return await self.next(request)

    async def complete(self, request: object) -> dict[str, Any]:
        return await self.next(request)

    async def explain(self, request: ExplainRequest) -> dict[str, Any]:
        return await self.next(request)

    async def influence(self, request: InfluenceRequest) -> dict[str, Any]:
        return await self.next(request)

    async def write(self, request: object) -> dict[str, Any]:
        return await self.next(request)

    async def score(self, request: ScoreRequest) -> dict[str, Any]:
        return await self.next(request)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
        self.begun += 1
        try:
            for index in range(request.max_words):
                await asyncio.sleep(self.pause)
                if self.error is not None and index == request.seed:
                    raise self.error
                yield "word", {"index": index, "word": "x" * self.length}
            yield "done", {"text": "", "words": [], "log_prob": 0.0, "finished": False}
        finally:
            self.ended += 1

    def continuations(self, request: Any) -> Any:
        return [self.generate(one) for one in request.continuations()]

    def models(self) -> dict[str, Any]:
        return {"models": []}

    async def features(self, name: str, query: str, limit: int) -> dict[str, Any]:
        return {"features": [], "matching": 0}

    async def words(self, name: str, query: str, limit: int) -> dict[str, Any]:
        return {"words": [], "matching": 0}

    async def strings(self, name: str, cell: str, limit: int, seed: int) -> dict[str, Any]:
        return {"cell": cell, "strings": []}

    async def close(self) -> None:
        assert self.begun == self.ended


def client_of(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://localhost")


def refused(response: Any, status: int, code: str) -> str:
    """The sentence of a refusal, which has its form, its type and the headers of every answer."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    found = ErrorAnswer.model_validate_json(response.content)
    assert found.code == code
    return found.message


@contextmanager
def listening(
    command: Sequence[str], environment: Mapping[str, str], host: str = "127.0.0.1"
) -> Iterator[tuple[subprocess.Popen[str], Address]]:
    """`llrnn serve` as a process of its own, at a free port; it is killed in the end, if it has not ended."""
    process = subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf8", env=environment
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(rf"serving .* at http://{re.escape(host)}:(\d+) \(Ctrl-C stops\)\n", line)
        assert found is not None, (line, process.stderr.read() if process.stderr and not line else "")
        yield process, Address(int(found[1]))
    finally:
        process.kill()
        process.communicate()


@contextmanager
def running(app: FastAPI) -> Iterator[Address]:
    """The application behind a real socket."""
    taken = serving.listener("127.0.0.1", 0)
    address, ready = Address(taken.getsockname()[1]), threading.Event()
    thread = threading.Thread(target=lambda: serving.serve(app, taken, ready=ready.set), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield address
    finally:
        app.state.gate.stopping = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


@dataclass(frozen=True)
class Mentioned:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    port: int

    def ask(self, method: str, path: str, data: Any = None, **headers: str) -> Mentioned:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            given = {"Content-Type": "application/json"} if data is not None else {}
            body = data if isinstance(data, bytes) or data is None else json.dumps(data).encode()
            connection.request(
                method, path, body, {**given, **{name.replace("_", "-"): headers[name] for name in headers}}
            )
            return said_in(connection.getresponse())
        finally:
            connection.close()

    def open(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE, source_address=(source, 0))

    def send(self, *parts: bytes, pause: float = 0.0) -> Mentioned | None:
        """Bytes as they are, piece by piece; None where the server closes without an answer."""
        with self.open() as connection:
            with contextlib.suppress(ConnectionError):  # whoever has answered need not read on
                for part in parts:
                    connection.sendall(part)
                    time.sleep(pause)
            return answer_on(connection)

    def is_well(self) -> bool:
        return self.ask("GET", "/v1/health").status == 200


def answer_on(connection: socket.socket) -> Mentioned | None:
    response = http.client.HTTPResponse(connection)
    try:
        response.begin()
    except http.client.RemoteDisconnected:
        return None
    return said_in(response)


def said_in(response: http.client.HTTPResponse) -> Mentioned:
    return Mentioned(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def post(path: str, length: int, body: bytes = b"") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    return head.encode() + body


def until(happens: Callable[[], bool]) -> None:
    """Wait for it; fail where it does not happen."""
    deadline = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)
