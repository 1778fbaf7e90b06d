"""What stands between the network and the endpoints. Plain ASGI, since every request passes here.

    Guard       checks the name of the host, the token and whether the server is stopping; turns what an endpoint raises
                into an answer; adds the headers of all answers; counts
    Gate        how many requests are worked on at a time and how long, and whether the server is stopping
    Metrics     what is counted, for Prometheus; labels never come from a request, so the number of series is bounded
    read_body   the body of a request, as far as its size, its type and its time allow

A page of another site cannot ask: it may not send JSON without asking first (OPTIONS is 405, and no answer has CORS
headers), and a name that its owner points at this machine (DNS rebinding) is not among the hosts.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import hmac
import importlib.util
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn

import prometheus_client as prometheus
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llrnn.serve.messages import Limits, Refused, require
from llrnn.serve.served import SCOPE, RequestScope, current_scope, first_error

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)

prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The Prometheus metrics of one server: requests, refusals, times, model steps and generated words.

    `in_flight`: a function that returns the number of requests that are worked on, called when metrics are collected.
    """

    def __init__(self, in_flight: Callable[[], float]) -> None:
        own = self.registry = prometheus.CollectorRegistry()
        counter = partial(prometheus.Counter, registry=own)
        histogram = partial(prometheus.Histogram, registry=own)
        self.requests = counter("llrnn_requests", "Requests answered.", ["endpoint", "status"])
        self.seconds = histogram("llrnn_request_seconds", "Seconds to answer.", ["endpoint"], buckets=_SECONDS)
        self.refused = counter("llrnn_refused", "Requests that were refused, by code.", ["code"])
        self.rows = histogram("llrnn_step_rows", "Sequences in a step of a model.", buckets=_ROWS)
        self.step_seconds = histogram("llrnn_step_seconds", "Seconds of a step of a model.", buckets=_SECONDS)
        self.words = counter("llrnn_words_generated", "Words generated.")
        present = prometheus.Gauge("llrnn_requests_in_flight", "Requests that are worked on.", registry=own)
        present.set_function(in_flight)
        prometheus.ProcessCollector(registry=own)

    def refuse(self, code: str) -> None:
        """Count a refused request by `code`, the machine-readable name of its error, such as "too_many_requests"."""
        self.refused.labels(code).inc()

    def step(self, rows: int, seconds: float) -> None:
        """Count a step of a model's network that had `rows` sequences and took `seconds`."""
        self.rows.observe(rows)
        self.step_seconds.observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus (version 0.0.4)."""
        return prometheus.generate_latest(self.registry)


log = logging.getLogger("llrnn.serve")
access = logging.getLogger("llrnn.serve.access")

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
HEALTH, READY = "/v1/health", "/v1/ready"
PROBES = {"/healthz": HEALTH, "/readyz": READY, "/metrics": "/v1/metrics"}  # where others look for them
_ALWAYS_ANSWERED = {HEALTH, READY, "/healthz", "/readyz"}
# styles, scripts, pictures and connections of the page are files of this server, and no other page may frame it
_CSP = b"default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'"
_ALWAYS = [
    (b"content-security-policy", _CSP),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NOT_KEPT = (b"cache-control", b"no-store")
_MOST_READ_PAST, _READ_PAST_SECONDS = 1 << 23, 1.0  # of a body that is refused for its size: bytes, and how long

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def json_bytes(data: Any) -> bytes:
    """Encode data as compact JSON in UTF-8; raise a ValueError for infinities and NaN, which JSON does not have."""
    return _encode(data).encode()


class Gate:
    """The admission of requests to a server: bounds how many are worked on at once, and the seconds of each.

    `gate = Gate(limits)`; work on a request inside `async with gate.working(receive)`. `stopping`: whether the server
    is stopping, set from outside; `present`: number of requests between the end of their headers and the end of their
    answer, which `Guard` counts.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.stopping = limits, False
        self.one_large_body = asyncio.Lock()  # is read at a time
        self._inside_of = collections.Counter[str]()  # requests that are worked on, by the address of the client
        self.present = 0  # between their headers and the end of their answer

    @property
    def inside(self) -> int:
        """Number of requests that are worked on now, of all clients."""
        return self._inside_of.total()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Context manager: count the current request as worked on inside the block; it yields nothing.

        A `Refused` (429) is raised where `limits.in_flight` requests are worked on already. With n client addresses at
        work, this one included, it is also raised where this address has in_flight // (n + 1) of them, or 1 if that
        is 0.
        """
        address, _ = current_scope().client
        own, clients = self._inside_of[address], len(self._inside_of.keys() | {address})
        if self.is_full or own >= max(1, self.limits.in_flight // (clients + 1)):
            raise self.limits.refused("in_flight")
        self._inside_of[address] += 1
        try:
            yield
        finally:
            self._inside_of -= collections.Counter([address])  # who is at zero is forgotten

    @asynccontextmanager
    async def working(self, receive: Receive) -> AsyncIterator[None]:
        """Async context manager: work on a request inside the block, within the limits of number and time.

        A `Refused` is raised where too many are worked on (429), or after too many seconds (503); where the client
        leaves, the work is cancelled and ClientDisconnect raised. `receive`: of the request's ASGI connection.
        """
        try:
            with self.place(), first_error():
                async with asyncio.timeout(self.limits.seconds), asyncio.TaskGroup() as group:
                    leaving = group.create_task(until_gone(receive))
                    yield
                    leaving.cancel()
        except TimeoutError:
            raise self.limits.refused("seconds") from None

    @property
    def is_full(self) -> bool:
        """Whether as many requests are worked on as the server's limit `in_flight` allows."""
        return self.inside >= self.limits.in_flight


async def until_gone(receive: Receive) -> NoReturn:
    """Wait until the client closes its connection, then raise ClientDisconnect; other messages are dropped.

    `receive`: of the ASGI connection.
    """
    while (await receive())["type"] != "http.disconnect":
        pass
    raise ClientDisconnect


def _header(scope: Scope, name: bytes) -> bytes | None:
    """Return the value of an HTTP header (`name` in lowercase), or None where it is missing or comes more than once."""
    found = [value for key, value in scope["headers"] if key == name]
    return found[0] if len(found) == 1 else None


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the bytes of a request's body, whose Content-Type must be JSON, without parsing it.

    A `Refused` is raised for another type (415), for a body that is too large or has too many commas (413; the limits
    body_bytes and body_commas) or too slow (408). One that is too large is still read for up to a second: if the
    connection were
    closed with bytes under way, it would be reset, and the client would never see the answer.
    """
    kind = (_header(request.scope, b"content-type") or b"").split(b";")[0].strip().lower()
    if kind != b"application/json":
        found = ascii(kind.decode("latin1"))[:80] if kind else "none"
        raise Refused(415, "not_json", f"Content-Type must be application/json, found {found}; send JSON")
    declared = _header(request.scope, b"content-length") or b""
    if declared.isdigit() and (size := int(declared[:20])) > limits.body_bytes:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READ_PAST_SECONDS if size <= _MOST_READ_PAST else 0):
                async for _ in request.stream():
                    pass
        raise limits.refused("body_bytes", found=size)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > limits.body_bytes:
                    raise limits.refused("body_bytes")
    except TimeoutError:
        raise limits.refused("body_seconds") from None
    require("body_commas", body.count(b","))  # to read a body holds up all others, a microsecond for each thing in it
    return bytes(body)


class Guard:
    """The outermost ASGI layer of the server: checks host, token and header size, turns errors into answers, counts.

    `app`: the ASGI application inside; `gate`: the limits; `hosts`: names allowed in the header Host; `token`: what
    clients must send as bearer token, None for nothing; `access_log`: log a line for each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        gate: Gate,
        metrics: Metrics,
        hosts: Collection[str],
        token: str | None = None,
        access_log: bool = False,
    ) -> None:
        self.app, self.gate, self.metrics, self.access_log = app, gate, metrics, access_log
        self.hosts = frozenset(host.lower() for host in hosts)
        self.token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        request = RequestScope(tuple(scope.get("client") or ("", 0)))
        SCOPE.set(request)
        is_head = scope["method"] == "HEAD"  # which is answered as GET is, without a body
        scope, answer = {**scope, "method": "GET"} if is_head else scope, _Answer(send, has_body=not is_head)
        self.gate.present += 1
        try:
            await self._answered(scope, receive, answer)
        finally:
            request.ended = True
            self.gate.present -= 1
            endpoint = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - began
            self.metrics.requests.labels(endpoint, answer.status).inc()
            self.metrics.seconds.labels(endpoint).observe(seconds)
            if self.access_log:  # paths without their queries: words of users are no business of a log
                asked = f"{request.client[0]} {scope['method']} {endpoint} {answer.status} {1000 * seconds:.0f} ms"
                access.info(asked)

    async def _answered(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            self._admit(scope)
            await self.app(scope, receive, answer.send)
        except ClientDisconnect:
            return
        except Refused as refused:
            await self._refuse(refused, scope, receive, answer)
        except Exception:
            log.exception("a defect of the server, at %s", getattr(scope.get("route"), "path", "no route"))
            if answer.status == "none":  # what has begun is cut off, which the client can tell from an end
                defect = Refused(500, "internal", "the server failed; its log says why")
                await self._refuse(defect, scope, receive, answer)

    def _admit(self, scope: Scope) -> None:
        size = len(scope["path"]) + len(scope["query_string"])
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > self.gate.limits.header_bytes:
            raise self.gate.limits.refused("header_bytes")
        self._check_host(_header(scope, b"host"))
        path = scope["path"]
        if self.gate.stopping and path not in _ALWAYS_ANSWERED:
            message = "the server is stopping; ask another one, or try again later"
            raise Refused(503, "stopping", message, {"Retry-After": "5", "Connection": "close"})
        is_open = path == "/" or path in _ALWAYS_ANSWERED or path.startswith("/page/")
        if self.token is not None and not is_open:
            self._check_token(_header(scope, b"authorization") or b"")

    def _check_host(self, host: bytes | None) -> None:
        name = (host or b"").decode("latin1").lower()
        if name.rpartition("]")[2].count(":"):
            name = name.rpartition(":")[0]
        if name not in self.hosts:
            raise Refused(
                400, "wrong_host", f"Host must be one of {', '.join(sorted(self.hosts))}, found {ascii(name)[:80]}; "
                "start the server with --allow-host NAME to add one",
            )  # fmt: skip

    def _check_token(self, authorization: bytes) -> None:
        scheme, _, given = authorization.partition(b" ")
        right = hmac.compare_digest(given.strip(), self.token or b"")
        if scheme.lower() != b"bearer" or not right:
            found = "another token" if given else "none"
            message = f"Authorization must be `Bearer TOKEN` with the token of this server, found {found}"
            raise Refused(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})

    async def _refuse(self, refused: Refused, scope: Scope, receive: Receive, answer: _Answer) -> None:
        self.metrics.refuse(refused.code)
        response = Response(json_bytes(refused.body()), refused.status, refused.headers, "application/json")
        with contextlib.suppress(ClientDisconnect):
            await response(scope, receive, answer.send)


class _Answer:
    """A wrapper of `send` of one ASGI response: adds the headers that all answers have, and keeps the status.

    `has_body`: false for HEAD, where the body is dropped. `status`: as a string, "none" until the answer has begun.
    Sending to a closed connection raises ClientDisconnect.
    """

    def __init__(self, send: Send, *, has_body: bool) -> None:
        self._send, self._has_body = send, has_body
        self.status = "none"

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = str(message["status"])
            headers = list(message.get("headers", ()))
            is_kept = any(name == b"cache-control" for name, _ in headers)
            message = {**message, "headers": [*headers, *_ALWAYS, *([] if is_kept else [_NOT_KEPT])]}
        elif not self._has_body:
            message = {**message, "body": b""}
        try:
            await self._send(message)
        except (OSError, RuntimeError) as error:
            # of a connection that is closed asyncio raises an OSError, uvloop an error of no kind that says so in words
            if not (isinstance(error, OSError) or "closed" in str(error)):
                raise
            self.status = "none"
            raise ClientDisconnect from None


_THROWN_AWAY = 64 * 1_048_576  # bytes of a body that was refused; beyond them the connection is cut

if TYPE_CHECKING:  # for the checker any of the two will do
    from uvicorn.protocols.http.h11_impl import H11Protocol as Parser
elif importlib.util.find_spec("httptools") is not None:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Parser
else:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Parser


class BoundedConnection(Parser):
    """uvicorn's HTTP protocol class, of either parser, with a bound on everything before and after a request.

        headers      must be complete in time, and may not be long (uvicorn waits for ever; httptools takes any length)
        a body       that nobody reads any more is thrown away as it comes, for a time: the client sees its answer
        an answer    must be taken in time, or the connection is cut
        connections  are bounded in number, and those of one client too

    `bounded_protocol` makes the subclass that has the limits of a server. A connection beyond a limit is answered with
    an error in JSON and closed.
    """

    limits: Limits
    count: Callable[[str], None]  # told the code of every refusal

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._received = 0  # bytes since the last request was complete
        self._due: dict[str, asyncio.TimerHandle] = {}  # what happens unless it comes in time: headers, an answer

    @property
    def _awaits_headers(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _throws_away(self) -> bool:
        """Whether the last request was answered before all of its body came, so that what comes now is thrown away."""
        return self.cycle is not None and self.cycle.response_complete and self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that one unsent byte is a paused writer, which is timed
        addresses = [(getattr(one, "client", None) or ("", 0))[0] for one in self.connections]
        own = addresses.count((self.client or ("", 0))[0])
        for limit, found in (("connections", len(addresses)), ("client_connections", own)):
            if found > getattr(self.limits, limit):
                self._close_with(self.limits.refused(limit))
        self._start("headers", self.limits.header_seconds, self._headers_are_late)

    def _start(self, what: str, seconds: float, late: Callable[[], None]) -> None:
        """Start a timer that calls `late` after so many seconds; nothing happens where one for `what` is running.

        `what`: what is waited for, "headers" or "answer".
        """
        if what not in self._due:
            self._due[what] = asyncio.get_running_loop().call_later(seconds, late)

    def _stop(self, *waited_for: str) -> None:
        for what in waited_for:
            if what in self._due:
                self._due.pop(what).cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop("headers", "answer")
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._awaits_headers:
            self._received += len(data)
            self._start("headers", self.limits.header_seconds, self._headers_are_late)
        super().data_received(data)
        if not self._awaits_headers:
            self._received = 0
            self._stop("headers")
        elif self._received > (_THROWN_AWAY if self._throws_away else self.limits.header_bytes):
            self._close_with(self.limits.refused("header_bytes"))

    def _headers_are_late(self) -> None:
        if self._received and not self._throws_away:
            self._close_with(self.limits.refused("header_seconds"))
        else:  # nothing was asked, so nothing is answered
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("answer", self.limits.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("answer")

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP with status 400 and this API's JSON error, and close the connection.

        uvicorn calls it; its message `msg` is not used.
        """
        required = "the request must be HTTP/1.1; its first line or headers are not"
        self._close_with(Refused(400, "malformed_http", required))

    def _close_with(self, refused: Refused) -> None:
        """Send the refusal as an HTTP answer, count it, and close the connection; do nothing if it is closing."""
        if self.transport.is_closing():
            return
        type(self).count(refused.code)
        body = json_bytes(refused.body())
        own = {"Content-Type": "application/json", "Content-Length": len(body), "Connection": "close"}
        first = f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}"
        lines = [first, *(f"{name}: {value}" for name, value in {**refused.headers, **own}.items()), "\r\n"]
        self.transport.write("\r\n".join(lines).encode() + body)
        self.transport.close()


def bounded_protocol(limits: Limits, count: Callable[[str], None]) -> type[BoundedConnection]:
    """Return a subclass of `BoundedConnection`, uvicorn's protocol class for connections, with these limits.

    `count` is called with the code of each refusal, for metrics.
    """
    return type("BoundedHere", (BoundedConnection,), {"limits": limits, "count": staticmethod(count)})
