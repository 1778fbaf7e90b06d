"""The application: endpoints, page and guard put together, with FastAPI's own errors in our form.

FastAPI routes, and describes the API at /v1/openapi.json. There is no Swagger page: it would load from other servers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import NoReturn

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

import llrnn
from llrnn.serve.describing import Described
from llrnn.serve.endpoints import AnyEngine, Endpoints
from llrnn.serve.guard import LOCAL_HOSTS, Gate, Guard
from llrnn.serve.limits import Limits
from llrnn.serve.messages import refusal_of
from llrnn.serve.metrics import Metrics
from llrnn.serve.page_files import INDEX, PageFile, page_files
from llrnn.serve.refusals import Refused


def create_app(
    engine: AnyEngine,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    hosts: Collection[str] = LOCAL_HOSTS,
    page: dict[str, PageFile] | None = None,
) -> FastAPI:
    """The server's application; `app.state.gate` tells whether it is stopping, and how busy it is."""
    gate = Gate(limits or Limits())
    metrics = Metrics(lambda: gate.inside)
    engine.batches = metrics.step

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.close()

    app = Described(
        version=llrnn.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.needs_token = token is not None
    app.state.gate, app.state.metrics = gate, metrics
    app.add_middleware(Guard, gate=gate, metrics=metrics, hosts=hosts, token=token)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(RequestValidationError, _refuse_parameters)
    Endpoints(app, engine, gate, metrics).add_all()
    app.add_api_route("/v1/openapi.json", _describe, include_in_schema=False, response_model=None)
    _add_page(app, page_files() if page is None else page)
    return app


async def _describe(request: Request) -> Response:
    app: Described = request.app
    return Response(app.openapi_bytes, media_type="application/json")


# FastAPI's own errors become ours: raised again, they reach the guard, which is the one place that answers errors


def _refuse_http(request: Request, error: Exception) -> NoReturn:
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
