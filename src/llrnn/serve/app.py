"""The application (endpoints, page and guard put together, FastAPI's own errors in our form), and its process.

FastAPI routes, and describes the API at /v1/openapi.json. There is no Swagger page: it would load from other servers.

SIGINT or SIGTERM: health says `stopping`, new requests are refused (503), what is present is finished, as long as a
request may take; then the process ends with code 0. A second signal ends it at once.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePath
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import llrnn
from llrnn.ground.errors import ConfigError
from llrnn.serve.endpoints import Endpoints, described
from llrnn.serve.guard import LOCAL_HOSTS, Gate, Guard, Metrics, bounded_protocol, json_bytes
from llrnn.serve.messages import Limits, Refused, refusal_of
from llrnn.serve.served import THREAD

if TYPE_CHECKING:
    from llrnn.serve.engine import Engine


INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """A file as it is sent, and a tag that changes with it."""

    content: bytes
    media_type: str
    tag: str


def page_files(folder: Traversable | None = None) -> dict[str, PageFile]:
    """All files of the page by name; what is of no known type is no part of it.

    They are read into memory when the server starts: no path from a request ever opens a file.
    """
    place = resources.files("llrnn.serve") / "page" if folder is None else folder
    found = {}
    for one in place.iterdir() if place.is_dir() else ():
        kind = _TYPES.get(PurePath(one.name).suffix)
        if kind is not None and one.is_file():
            content = one.read_bytes()
            found[one.name] = PageFile(content, kind, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return found


def create_app(
    engine: Engine,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    hosts: Collection[str] = LOCAL_HOSTS,
    page: dict[str, PageFile] | None = None,
) -> FastAPI:
    """The server's application; `app.state.gate` tells whether it is stopping, and how busy it is."""
    gate = Gate(limits or Limits())
    metrics = Metrics(lambda: gate.inside)
    engine.observe_steps(metrics.step)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.close()

    app = FastAPI(version=llrnn.__version__, openapi_url=None, redirect_slashes=False, lifespan=lifespan)
    app.state.gate, app.state.metrics = gate, metrics
    app.add_middleware(Guard, gate=gate, metrics=metrics, hosts=hosts, token=token)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(RequestValidationError, _refuse_parameters)
    Endpoints(app, engine, gate, metrics).add_all()
    schema = described(app, needs_token=token is not None)
    app.openapi = lambda: schema  # type: ignore[method-assign] # FastAPI's way to change it
    description = json_bytes(schema)  # once: doing it in the event loop kept others waiting

    async def describe() -> Response:
        return Response(description, media_type="application/json")

    app.add_api_route("/v1/openapi.json", describe, include_in_schema=False, response_model=None)
    _add_page(app, page_files() if page is None else page)
    return app


def _refuse_http(request: Request, error: Exception) -> NoReturn:
    """FastAPI's own errors become ours: raised again, they reach the guard, the one place that answers errors."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        message = f"this path takes {allowed}, found {request.method}; docs/server.md lists all paths"
        raise Refused(405, "method_not_allowed", message, {"Allow": allowed})
    if error.status_code == 404:
        raise Refused(404, "not_found", "there is nothing at this path; /v1/openapi.json and docs/server.md list all")
    raise error


def _refuse_parameters(request: Request, error: Exception) -> NoReturn:
    assert isinstance(error, RequestValidationError)
    raise refusal_of(error.errors())


def _add_page(app: FastAPI, files: dict[str, PageFile]) -> None:
    """Files are looked up by name in what was read at the start."""

    async def file(request: Request) -> Response:
        found = files.get(request.path_params.get("name", INDEX))
        if found is None:
            raise HTTPException(404)
        headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, headers={**headers, "Content-Type": found.media_type})

    for path in ("/", "/page/{name}"):
        app.add_api_route(path, file, methods=["GET"], include_in_schema=False, response_model=None)


_GRACE = 2.0  # seconds beyond those of a request, for its last bytes
_KEEP_ALIVE = 15  # seconds that a connection may be idle between requests


def listener(host: str, port: int) -> socket.socket:
    """A socket at this address, taken before any model is read; it answers when the server starts."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        taken = socket.socket(family, kind, protocol)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot listen at {host} port {port}: {reason}; choose another --host or --port (0 takes a free one)"
        ) from None
    return taken


def address_of(taken: socket.socket) -> str:
    """The address as a browser takes it."""
    host, port = taken.getsockname()[:2]
    return f"http://{in_url(host)}:{port}"


def in_url(host: str) -> str:
    """An address of version 6 stands in brackets."""
    return f"[{host}]" if ":" in host else host


def serve(app: FastAPI, taken: socket.socket, *, ready: Callable[[], None]) -> None:
    """Answer until a signal comes; `ready` is called when the first connection may come."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # what clients do wrong is counted, not logged
    logging.getLogger("uvicorn.error").addFilter(_is_no_client_that_left)
    gate: Gate = app.state.gate
    config = uvicorn.Config(
        app,
        http=bounded_protocol(gate.limits, app.state.metrics.refuse),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=int(_GRACE),
        h11_max_incomplete_event_size=2 * gate.limits.header_bytes + 2**20,  # `connections` bounds it, with our answer
    )
    _Server(config, gate, ready).run(sockets=[taken])
    if threading.current_thread() is threading.main_thread() and _is_computing():
        sys.stdout.flush()
        os._exit(0)  # a step that has outlived its grace: an ordinary exit would wait for it, or end it by an abort


def _is_computing() -> bool:
    return any(thread.name == THREAD for thread in threading.enumerate())


def _is_no_client_that_left(record: logging.LogRecord) -> bool:
    """uvicorn calls it an error of the application that it does not answer whoever has left."""
    return "returned without completing response" not in record.getMessage()


class _Server(uvicorn.Server):
    """uvicorn's server, which goes on listening while it finishes."""

    def __init__(self, config: uvicorn.Config, gate: Gate, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.gate, self.ready, self.deadline = gate, ready, 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is here now stays: looking through all of it again and again would hold up requests
        self.ready()

    async def on_tick(self, counter: int) -> bool:
        if self.gate.stopping:
            self.deadline = self.deadline or time.monotonic() + self.gate.limits.seconds + _GRACE
            self.should_exit = not self.gate.present or time.monotonic() > self.deadline
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn's own would raise the signal again: a server that was told to stop and did has not failed."""
        if self.gate.stopping:
            os._exit(128 + sig)  # an ordinary exit would wait for the thread of the models
        self.gate.stopping = True
