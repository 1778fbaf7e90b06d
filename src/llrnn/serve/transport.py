"""HTTP to a server of ours, with the standard library alone: JSON there and back, and streams of events.

    event: word                         one event: lines `field: value`, and an empty line after them
    data: {"word": "grande", …}

Every connection serves one request, so a client may be used by many threads. Proxies are not asked: a server of ours is
close by. Whatever goes wrong is a `ServerError`.
"""

from __future__ import annotations

import json
import math
import re
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from http.client import (
    BadStatusLine,
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from typing import Any
from urllib.parse import quote, urlsplit

from llrnn.ground.errors import ConfigError, ServerError

_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_BROKEN = (OSError, HTTPException, ValueError, OverflowError)  # the last two: lengths that are none
_LARGEST_ANSWER = 2**28  # bytes
_LONGEST_LINE = 2**22  # bytes of one line of a stream: an event is a word with its features
_RETRY_AFTER = 1.0  # seconds, where a server that is busy does not say how long


class Transport:
    """Requests to one address; `timeout` is how many seconds the server may be silent."""

    def __init__(self, address: str, *, token: str | None, timeout: float, retries: int) -> None:
        self.address = address.rstrip("/")
        host, self._port, path = _parts(self.address)
        self._host, self._base, self._secure = host, quote(path, safe="/%"), self.address.startswith("https:")
        if not (0 < timeout < math.inf and retries >= 0):
            raise ConfigError(
                f"a timeout above 0 and finite and retries of 0 or more are required, found {timeout} and {retries}"
            )
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            raise ConfigError(
                "a token is one line of ASCII without spaces around it; this one is not (it is not shown)"
            )
        self.timeout, self.retries = timeout, retries
        self._headers = {"Accept": "application/json, text/event-stream", "Connection": "close"}
        self._headers |= {"Authorization": f"Bearer {token}"} if token is not None else {}

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, also: int = 200) -> dict[str, Any]:
        """The answer, as JSON has it. `also` is a status that is an answer too."""
        with self._exchange(method, path, body, also) as exchange:
            return exchange.answer()

    def events(self, path: str, body: Mapping[str, Any]) -> Events:
        """The events of an answer that goes on; it has begun when this returns."""
        exchange = self._exchange("POST", path, body, 200)
        found = exchange.response.headers.get_content_type()
        if found != "text/event-stream":
            exchange.close()
            raise ServerError(
                f"{self.address}: a stream of events is required, found {found}; is it `llrnn serve`?",
                code="unreadable",
                status=exchange.response.status,
            )
        return Events(exchange)

    def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None, also: int) -> _Exchange:
        """A request whose answer is good. One that comes too early is made again, as often as `retries` says."""
        for attempt in range(self.retries + 1):
            exchange = self._open(method, path, body)
            if exchange.response.status in (200, also):
                return exchange
            with exchange:
                refusal = exchange.refusal()
            wait = _RETRY_AFTER * 2**attempt if refusal.retry_after is None else refusal.retry_after
            if refusal.status != 429 or attempt == self.retries or wait > self.timeout:
                raise refusal
            time.sleep(wait)
        raise AssertionError("one of the attempts returned or raised")

    def _open(self, method: str, path: str, body: Mapping[str, Any] | None) -> _Exchange:
        kind = HTTPSConnection if self._secure else HTTPConnection
        connection = kind(self._host, self._port, timeout=self.timeout)
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:  # UnicodeError: a host that can have no address
            connection.close()
            raise self.broken(error, connected=False) from None
        try:
            connection.request(method, f"{self._base}{path}", data, headers)
            return _Exchange(self, connection, connection.getresponse())
        except _BROKEN as error:
            connection.close()
            raise self.broken(error) from None

    def broken(self, error: Exception, *, connected: bool = True) -> ServerError:
        """What went wrong on the way, in our words."""
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, TimeoutError):
            found = f"an answer within {self.timeout:g} s is required, found silence"
            return self._error("too_slow", f"{found}; ask for less, or give the client a longer timeout")
        if not connected:
            found = f"a server is required, found none ({why})"
            return self._error("unreachable", f"{found}; start one with `llrnn serve`, or correct the address")
        if isinstance(error, BadStatusLine) and not isinstance(error, RemoteDisconnected):
            return self._error(
                "unreadable", f"an answer in HTTP is required, found another ({why}); is it `llrnn serve`?"
            )
        return self._error("cut_off", f"a whole answer is required, found one that broke off ({why}); ask again")

    def _error(self, code: str, message: str) -> ServerError:
        return ServerError(f"{self.address}: {message}", code=code)


def _parts(address: str) -> tuple[str, int | None, str]:
    """Host, port and path of an address."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number, brackets that do not close
        parts, host, port = urlsplit(""), None, None
    if "@" in parts.netloc:  # which is not repeated: it may be a password
        raise ConfigError("an address without a user and password is required, found one with them; give token=...")
    odd = parts.query or parts.fragment or _CONTROL.search(address)
    if not host or odd or parts.scheme not in ("http", "https"):
        raise ConfigError(
            f"the address of a server is required, such as http://127.0.0.1:8017, found {address!r}; "
            "`llrnn serve` prints its own when it starts"
        )
    return host, port, parts.path


class _Exchange:
    """One request that was sent, and its answer as it arrives."""

    def __init__(self, transport: Transport, connection: HTTPConnection, response: HTTPResponse) -> None:
        self.transport, self.response = transport, response
        # a stream may be dropped halfway: the server learns of it when both are closed
        self.close: Callable[[], object] = weakref.finalize(self, _close, connection, response)

    def __enter__(self) -> _Exchange:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def read(self) -> bytes:
        """All of the answer, piece by piece: the length that it claims is not to be trusted."""
        found = bytearray()
        try:
            while piece := self.response.read(2**16):
                found += piece
                if len(found) > _LARGEST_ANSWER:
                    raise self.unreadable(f"an answer of at most {_LARGEST_ANSWER:,} bytes", "a longer one")
            if self.response.length:
                raise IncompleteRead(b"", self.response.length)
            return bytes(found)
        except _BROKEN as error:
            raise self.transport.broken(error) from None

    def line(self) -> str:
        """One line of a stream with its end, nothing where the stream ends. Characters are whole when the line is."""
        try:
            found = self.response.readline(_LONGEST_LINE)
            return found.decode("utf8")
        except UnicodeDecodeError:
            raise self.unreadable("UTF-8", "other bytes") from None
        except _BROKEN as error:
            raise self.transport.broken(error) from None

    def answer(self) -> dict[str, Any]:
        return self.parsed(self.read())

    def parsed(self, data: str | bytes) -> dict[str, Any]:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.unreadable("JSON", f"{data[:60]!r} ({error})") from None
        if not isinstance(found, dict):
            raise self.unreadable("a JSON object", repr(data[:60]))
        return found

    def refusal(self) -> ServerError:
        """The error of the server, with its status."""
        status = self.response.status
        try:
            found = self.answer()
            code, message = str(found["code"]), str(found["message"])
        except (ServerError, KeyError):
            required = "an answer of `llrnn serve`"
            return self.unreadable(required, f"{status} {self.response.reason}")
        return ServerError(
            message, code=code, status=status, retry_after=_seconds(self.response.getheader("Retry-After"))
        )

    def unreadable(self, required: str, found: str) -> ServerError:
        message = (
            f"{self.transport.address}: {required} is required, found {found}; is it `llrnn serve`, and its address?"
        )
        return ServerError(message, code="unreadable", status=self.response.status)


def _close(connection: HTTPConnection, response: HTTPResponse) -> None:
    response.close()
    connection.close()


def _seconds(header: str | None) -> float | None:
    """Of a `Retry-After` that counts seconds; one that gives a date is as good as none."""
    return float(header) if header is not None and header.isascii() and header.isdigit() else None


class Events:
    """(name, data) of each event of a stream, as it comes; closing it tells the server to stop."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange
        self.address, self.close = exchange.transport.address, exchange.close

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        name, data = "message", list[str]()
        while line := self._exchange.line():
            if not line.endswith("\n"):
                break  # the stream was cut in the middle of a line, or the line has no end
            field, _, value = line.rstrip("\r\n").partition(":")  # no field: a comment, which keeps the line open
            if field == "event":
                name = value.removeprefix(" ")
            elif field == "data":
                data.append(value.removeprefix(" "))
            elif not line.strip("\r\n") and data:
                yield name, self._exchange.parsed("\n".join(data))
                name, data = "message", []
        self.close()

    def cut_off(self) -> ServerError:
        return self._exchange.transport.broken(EOFError("the stream ended before the text did"))
