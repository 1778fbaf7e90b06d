"""The application: endpoints, page and guard put together, with FastAPI's own errors in our form.

FastAPI routes, and describes the API at /v1/openapi.json. There is no Swagger page: it would load from other servers.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePath
from typing import TYPE_CHECKING, NoReturn

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import llrnn
from llrnn.serve.endpoints import Endpoints, described
from llrnn.serve.guard import LOCAL_HOSTS, Gate, Guard, json_bytes
from llrnn.serve.limits import Limits, Refused
from llrnn.serve.messages import refusal_of
from llrnn.serve.metrics import Metrics

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
