"""`llrnn serve` as a process on the loopback address, and a client that may send it anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from campaign.results import Finding

PATIENCE = 60.0  # seconds of wall clock for an answer; the server's own limit is half of it
MODELS = ("plain=runs/plain", "acts=runs/acts", "open=runs/open")


@dataclass(frozen=True)
class Server:
    """A server that listens."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def resident_mb(self) -> float:
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except OSError:
            return 0.0
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def faults(self) -> Iterator[Finding]:
        """What its log, its life and its end say."""
        if self.process.poll() is not None:
            yield Finding("crash", "log-0", f"the server ended with {self.process.returncode}", self._log())
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            yield Finding("hang", "log-0", "SIGTERM does not end the server", self._log())
            return
        if code != 0:
            yield Finding("exit code", "log-0", f"SIGTERM ends the server with {code}", self._log())
        lines = unexpected(self._log())
        if lines:
            first = next((line for line in lines if "Error" in line), None)
            kind, told = ("log", "lines in the log") if first is None else ("traceback", f"log: {first[:120]}")
            yield Finding(kind, "log-0", told, self._log())

    def _log(self) -> str:
        return self.log.read_text(encoding="utf8", errors="replace")[-4000:]


def unexpected(log: str) -> list[str]:
    """Lines that a log should not have: all but one warning for each model, which does not grow with requests."""
    left, seen = [], set()
    for line in log.splitlines():
        found = re.match(r"warning: model (\w+): ", line)
        if line.strip() and (found is None or found[1] in seen):
            left.append(line)
        seen.add(found and found[1])
    return left


@contextlib.contextmanager
def serving(samples: Path, log: Path, *options: str) -> Iterator[Server]:
    """A server of the samples' models."""
    command = [sys.executable, "-m", "llrnn", "serve", *MODELS, "--background", "kn=text.arpa", "--port", "0", *options]
    with log.open("w", encoding="utf8") as errors:
        process = subprocess.Popen(command, cwd=samples, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        if found is None:
            raise RuntimeError(f"the server does not start: {log.read_text(encoding='utf8')}")
        yield Server(process, int(found[1]), log)
    finally:
        process.kill()
        process.communicate()


def http(method: str, path: str, body: bytes | None = None, *headers: str) -> bytes:
    """A request as it should be, after which the connection is closed."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def posted(path: str, data: object, *headers: str) -> bytes:
    return http("POST", path, json.dumps(data).encode(), *headers)


@dataclass(frozen=True)
class Answer:
    """What came back: nothing at all has the status 0."""

    status: int
    body: bytes
    raw: bytes

    @classmethod
    def of(cls, raw: bytes) -> Answer:
        found = re.match(rb"HTTP/1\.[01] (\d{3}) ", raw)
        head, _, body = raw.partition(b"\r\n\r\n")
        length = re.search(
            rb"content-length: (\d+)", head, re.IGNORECASE
        )  # of the first answer, where there are several
        return cls(int(found[1]) if found else 0, body[: int(length[1])] if length else body, raw)

    def wrong(self) -> str | None:
        """What is wrong with it in itself: a status that is a fault, an error that is not in our form."""
        if self.status in (0, 503, 429) and not self.raw:
            return None
        if self.status in (500, 501, 502, 504):
            return f"status {self.status}"
        if self.status == 0:
            return "no HTTP"
        if self.status >= 400:
            try:
                said = json.loads(self.body)
                return None if {"code", "message"} <= said.keys() else "an error without code and message"
            except (ValueError, AttributeError):
                return None if not self.body else f"status {self.status} without JSON"
        return None


async def asked(
    port: int, *pieces: bytes, pause: float = 0.0, leaves: bool = False, ends: bool = False
) -> Answer | None:
    """Send, and read until the server closes; None where it does not answer in time.

    `leaves`: does not wait for an answer. `ends`: says that nothing more will come.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):  # whoever has answered need not read on
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if pause:
                    await asyncio.sleep(pause)
        if leaves:
            return Answer(0, b"", b"")
        if ends:
            with contextlib.suppress(OSError):
                writer.write_eof()
        try:
            raw = await asyncio.wait_for(_all_of(reader), PATIENCE)
        except TimeoutError:
            return None
        return Answer.of(raw)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, OSError):
            await writer.wait_closed()


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    raw = bytearray()
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65_536):
            raw += piece
    return bytes(raw)
