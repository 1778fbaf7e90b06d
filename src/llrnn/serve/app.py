"""The application: the endpoints under /v1, page and guard put together, FastAPI's own errors in our form; its process.

FastAPI routes, and describes the API at /v1/openapi.json. There is no Swagger page: it would load from other servers.
Bodies are read by `guard.read_body` and validated by pydantic straight from their bytes, and answers are sent as the
engine made them: nothing is parsed or checked twice.

SIGINT or SIGTERM: ready is 503, new requests are refused (503), what is present is finished, as long as a
request may take; then the process ends with code 0. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import ExitStack, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePath
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import uvicorn
from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

import llrnn
from llrnn.ground.errors import ConfigError
from llrnn.serve import guard, messages
from llrnn.serve.completions import CompletionWork
from llrnn.serve.guard import HEALTH, READY, Gate, Guard, json_bytes
from llrnn.serve.messages import Limits, Message, Refused, at_most, most
from llrnn.serve.served import THREAD

if TYPE_CHECKING:
    from llrnn.serve.engine import Engine


log = logging.getLogger("llrnn.serve")
Events = AsyncGenerator[tuple[str, dict[str, Any]]]

_LAST_WORDS = 1.0  # seconds to take the event that says why a stream ends
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


class EventStream(Response):
    """An HTTP response that streams a generated text as server-sent events, one for each word and one for the end.

    `events`: an async generator of (event name, data for JSON), closed at the end; `gate`: bounds the number of
    requests that are worked on at once, and the seconds of each. An error before the first event is raised, and becomes
    an ordinary error response; a later one is sent as an event `error`. A client that disconnects ends the generation.
    """

    last = b""  # what stands at the end

    def __init__(self, events: Events, gate: Gate) -> None:
        super().__init__()
        self.events, self.gate, self.has_begun = events, gate, False

    def written(self, name: str, data: dict[str, Any]) -> bytes:
        """Return one server-sent event as UTF-8 bytes: a line `event: NAME`, a line `data: JSON`, and an empty line."""
        return b"event: %s\ndata: %s\n\n" % (name.encode(), json_bytes(data))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self.gate.working(receive):
                await self._send_all(send)
        except Refused as refused:
            await self._end(refused, receive, send)
        except ClientDisconnect:
            raise
        except Exception:
            if not self.has_begun:
                raise
            log.exception("a defect of the server, in a stream")
            await self._end(Refused(500, "internal", "the server failed; its log says why"), receive, send)
        finally:
            await self.events.aclose()

    async def _send_all(self, send: Send) -> None:
        async for name, data in self.events:
            if not self.has_begun:
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                self.has_begun = True
            await send({"type": "http.response.body", "body": self.written(name, data), "more_body": True})
        await send({"type": "http.response.body", "body": self.last})

    async def _end(self, refused: Refused, receive: Receive, send: Send) -> None:
        """Send `refused`, the error that ends the stream, as a last event `error`; raise it where no event was sent.

        Where the client does not take the event within a second, wait until it disconnects, which raises
        ClientDisconnect.
        """
        if not self.has_begun:
            raise refused
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await send({"type": "http.response.body", "body": self.written("error", refused.body())})
        except TimeoutError:
            await guard.until_gone(receive)


class CompletionStream(EventStream):
    """An HTTP response that streams completions as OpenAI's clients read them: events without a name, then `[DONE]`.

    It is made of `events`, an async generator of (name, data for JSON), whose names are ignored, and of the server's
    `gate`.
    """

    last = b"data: [DONE]\n\n"

    def written(self, name: str, data: dict[str, Any]) -> bytes:
        return b"data: %s\n\n" % json_bytes(data)


# --- the OpenAPI description: requests and answers from their models, and every status that an endpoint may have ------

# below /v1: what an endpoint reads, and what it answers
_QUESTIONS: dict[str, tuple[type[Message], type[messages.Answer]]] = {
    "read": (messages.ReadRequest, messages.ReadAnswer),
    "next": (messages.NextRequest, messages.Next),
    "complete": (messages.CompleteRequest, messages.CompleteAnswer),
    "explain": (messages.ExplainRequest, messages.ExplainAnswer),
    "influence": (messages.InfluenceRequest, messages.InfluenceAnswer),
    "score": (messages.ScoreRequest, messages.ScoreAnswer),
    "write": (messages.WriteRequest, messages.WriteAnswer),
    "generate": (messages.GenerateRequest, messages.GenerateAnswer),
    "completions": (messages.CompletionRequest, messages.CompletionAnswer),
    "reload": (messages.ReloadRequest, messages.Reloaded),
}
_ABOUT = "Next words, explanations, scores and texts from Log-Linear RNNs. docs/server.md is the guide."
_SEVERAL = {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}, "required": True}}
_MEANINGS: dict[int, dict[str, Any]] = {
    400: {"description": "malformed_json, wrong_host, unknown_word"},
    401: {"description": "unauthorized"},
    403: {"description": "switched_off"},
    404: {"description": "unknown_model, unknown_background, unknown_feature, unknown_cell"},
    408: {"description": "slow_client"},
    409: {"description": "impossible, condition, reload"},
    413: {"description": "body_too_large"},
    415: {"description": "not_json"},
    422: {"description": "invalid, or the code of a field's limit"},
    429: {"description": "too_many_requests", "headers": _SEVERAL},
    500: {"description": "internal"},
    503: {"description": "stopping, took_too_long", "headers": _SEVERAL},
}
OF_RELOAD = tuple(_MEANINGS)
OF_QUESTIONS = tuple(status for status in _MEANINGS if status != 403)
OF_LISTS = (400, 401, 404, 422, 429, 500, 503)
OF_FACTS = (400, 401, 500, 503)
OF_PROBES = (400, 500)


def request_body(message: type[Message]) -> dict[str, Any]:
    """Return the OpenAPI entry {"requestBody": …} for a required JSON body of the class `message`.

    Its schema is a reference, {"$ref": "#/components/schemas/CLASS"}. For endpoints that parse the body themselves, so
    that FastAPI cannot describe it.
    """
    schema = {"$ref": f"#/components/schemas/{message.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _event(name: str, data: type[messages.Answer]) -> dict[str, Any]:
    """Return the JSON schema, a dict, of a server-sent event: an object with the two properties `event` and `data`.

    `event` is the constant `name`; `data` is a string that holds an answer of the class `data` as JSON.
    """
    schema = {"$ref": f"#/components/schemas/{data.__name__}"}
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {"type": "object", "required": ["event", "data"], "properties": {"event": {"const": name}, "data": text}}


_Event = type[messages.Answer]
EVENTS: dict[str, _Event] = {"word": messages.Written, "done": messages.Finished, "error": messages.ErrorAnswer}
_STREAMS = {
    "generate": {"oneOf": [_event(name, data) for name, data in EVENTS.items()]},
    "completions": {"type": "object", "required": ["data"], "properties": {"data": {"type": "string"}}},
}


def described(app: FastAPI, *, needs_token: bool) -> dict[str, Any]:
    """Return the OpenAPI description of all endpoints of `app` as a dict, with the schemas of requests and answers.

    `needs_token`: the server requires a bearer token; then all endpoints but health and ready say that they need it.
    """
    found = get_openapi(title="llrnn", version=app.version, description=_ABOUT, routes=app.routes)
    models: list[type[BaseModel]] = [*(request for request, _ in _QUESTIONS.values()), messages.Finished]
    place = "#/components/schemas/{model}"
    _, others = models_json_schema([(one, "validation") for one in models], ref_template=place)
    found["components"]["schemas"].update(others["$defs"])
    if needs_token:
        found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in found["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path in (HEALTH, READY) else [{"token": []}]
    return found


# --- the endpoints ----------------------------------------------------------------------------------------------------

Asked = TypeVar("Asked", bound=Message)
Answer = dict[str, Any]
Ask = Callable[[], Awaitable[Answer]]
Endpoint = Callable[..., Awaitable[Response]]
_SHORT: dict[str, Any] = {"maxLength": most("characters")}


def _text(description: str) -> tuple[Any, ...]:
    return Query(description=description, json_schema_extra=_SHORT), at_most("characters")


def _count(limit: str, description: str) -> tuple[Any, ...]:
    return Query(ge=1, description=description, json_schema_extra={"maximum": most(limit)}), at_most(limit, int)


_ModelPath = Path(description="a served model", json_schema_extra=_SHORT)
ModelName = Annotated[str, _ModelPath, at_most("characters")]
Part = Annotated[str, *_text("a part of the name")]
CellName = Annotated[str, *_text("a cell, as next names it")]
Count = Annotated[int, *_count("listing", "how many at most")]
Few = Annotated[int, *_count("strings", "how many are drawn")]
Seed = Annotated[int, Query(ge=0, le=messages.LARGEST_SEED, description="the same seed, the same strings")]

_LARGE = 8192  # bytes of a body that takes a millisecond or so to read


class Endpoints:
    """The endpoints of the HTTP API, as methods that return responses, with what they share.

    Made of the FastAPI application, the engine (the models), the gate (bounds on requests at a time and their seconds)
    and the metrics. `add_all` adds all of them to the application.
    """

    def __init__(self, app: FastAPI, engine: Engine, gate: Gate, metrics: guard.Metrics) -> None:
        self.app, self.engine, self.gate, self.metrics = app, engine, gate, metrics
        self.began = time.monotonic()

    def add_all(self, *, has_operator: bool) -> None:
        """Add all endpoints of the API to the FastAPI application, with their OpenAPI descriptions.

        `has_operator`: the server has a token, so that whoever sends it may reload tables and word lists; else
        /v1/reload answers 403.
        """
        reload = self.engine.reload if has_operator else switched_off
        reloading = self._question(messages.ReloadRequest, lambda _: reload())
        own = {"generate": self.generate, "completions": self.completions, "reload": reloading}
        for name, (message, answer) in _QUESTIONS.items():
            endpoint = own.get(name) or self._question(message, getattr(self.engine, name))
            content = {"text/event-stream": {"itemSchema": _STREAMS[name]}} if name in _STREAMS else None
            errors = OF_RELOAD if name == "reload" else OF_QUESTIONS
            self._add(f"/v1/{name}", answer, endpoint, errors, message, content)
        self._add("/v1/models", messages.ModelsAnswer, self.models, OF_FACTS)
        self._add("/v1/models/{name}", messages.RetrievedModel, self.model, (400, 401, 404, 422, 500, 503))
        self._add("/v1/models/{name}/features", messages.FeaturesAnswer, self.features, OF_LISTS)
        self._add("/v1/models/{name}/words", messages.WordsAnswer, self.words, OF_LISTS)
        self._add("/v1/models/{name}/strings", messages.StringsAnswer, self.strings, OF_LISTS)
        self._add(HEALTH, messages.Health, self.health, OF_PROBES)
        self._add(READY, messages.Ready, self.ready, OF_PROBES)
        self._add("/v1/metrics", None, self.counted, OF_FACTS, content={"text/plain": {"schema": {"type": "string"}}})
        same = {HEALTH: self.health, READY: self.ready, "/v1/metrics": self.counted}
        for path, of in guard.PROBES.items():
            self.app.add_api_route(path, same[of], include_in_schema=False, response_model=None)

    def _question(self, message: type[Asked], ask: Callable[[Asked], Awaitable[Answer]]) -> Endpoint:
        """Return an endpoint, an async function of a request, that answers with `await ask(message)` as JSON.

        The message is the request's JSON body, parsed as an instance of the class `message`; `ask` returns a dict. A
        `Refused`, an error with an HTTP status, is raised for a body that is wrong, and by `ask`.
        """

        async def endpoint(request: Request) -> Response:
            asked = await _read(request, message, self.gate)
            return await self._answer(request, partial(ask, asked))

        return endpoint

    def _add(
        self,
        path: str,
        answer: type[messages.Answer] | None,
        endpoint: Endpoint,
        errors: tuple[int, ...],
        message: type[Message] | None = None,
        content: dict[str, Any] | None = None,
    ) -> None:
        """Add one endpoint at `path` to the application, with its OpenAPI description: POST with a `message`, else GET.

        `answer`: the class of the JSON answer of status 200, None where the answer is not JSON; `content`: the OpenAPI
        descriptions {media type: …} of answers that are not JSON, None for none; `errors`: the HTTP statuses of the
        endpoint's errors; `message`: the class of the request's JSON body, None for a request without one.
        """
        good: dict[str, Any] = {"description": (answer or endpoint).__doc__}
        good |= ({"model": answer} if answer else {}) | ({"content": content} if content else {})
        told: dict[int | str, dict[str, Any]] = {503: {"model": messages.Ready}} if path == READY else {}
        told |= {status: {"model": messages.ErrorAnswer, **_MEANINGS[status]} for status in errors}
        self.app.add_api_route(
            path,
            endpoint,
            methods=["POST" if message else "GET"],
            summary=(message or endpoint).__doc__,
            operation_id=path.rpartition("/")[2].replace("{name}", "model"),
            response_model=None,
            response_class=JSONResponse if answer else Response,
            responses={200: good, **told},
            openapi_extra=request_body(message) if message else None,
        )

    async def generate(self, request: Request) -> Response:
        asked = await _read(request, messages.GenerateRequest, self.gate)
        events = self._counting(self.engine.generate(asked))
        if asked.stream:
            return EventStream(events, self.gate)
        return await self._answer(request, partial(self._whole, asked, events))

    async def completions(self, request: Request) -> Response:
        asked = await _read(request, messages.CompletionRequest, self.gate)
        texts = [self._counting(events) for events in self.engine.continuations(asked)]
        read = self.engine.find(asked.model).model.read
        made = CompletionWork(asked, texts, asked.model or self.engine.names[0], read)
        if asked.stream:
            return CompletionStream(made.chunks(), self.gate)
        return await self._answer(request, made.whole)

    async def _counting(self, events: Events) -> Events:
        """Yield the (name, data) events of a generated text unchanged, and count each "word" in the metrics."""
        async with aclosing(events):
            async for name, data in events:
                self.metrics.words.inc(name == "word")
                yield name, data

    async def _answer(self, request: Request, ask: Ask) -> Response:
        """Return `await ask()`, a dict, as a JSON response with status 200; cancel it when the client disconnects.

        A `Refused`, an error with an HTTP status, is raised where too many requests are worked on (429), or after too
        many seconds (503).
        """
        async with self.gate.working(request.receive):
            return _json(await ask())

    async def _whole(self, asked: messages.GenerateRequest, events: Events) -> Answer:
        """Return a generated text that is not streamed, as a dict with the fields of `messages.GenerateAnswer`.

        They are model, background, prefix, text, words (the data of each "word" event), log_prob, finished, warnings.
        `asked`: the request; `events`: from `Engine.generate`, ("word", data) for each word, then ("done", data); all
        are read.
        """
        words, end = [], {}
        async with aclosing(events):
            async for name, data in events:
                if name == "word":
                    words.append(data)
                else:
                    end = data
        named = {"model": asked.model or self.engine.names[0], "background": asked.background}
        read = self.engine.find(asked.model).model.read(asked.prefix)
        return {**named, "prefix": list(read), **end, "words": words}

    async def models(self) -> Response:
        """Describes all served models (`messages.ModelsAnswer`); the first one answers requests that name none."""
        return _json(self.engine.models())

    async def model(self, name: ModelName) -> Response:
        """Describes one served model (`messages.RetrievedModel`): sizes, features, priors, examples; 404 for none."""
        return _json(self.engine.model(name))

    async def features(self, request: Request, name: ModelName, query: Part = "", limit: Count = 20) -> Response:
        """Lists up to `limit` features (`messages.FeaturesAnswer`) whose names contain the query, in any case."""
        return await self._answer(request, partial(self.engine.features, name, query, limit))

    async def words(self, request: Request, name: ModelName, query: Part = "", limit: Count = 20) -> Response:
        """Lists up to `limit` words (`messages.WordsAnswer`) that contain the query, those that begin with it first."""
        return await self._answer(request, partial(self.engine.words, name, query, limit))

    async def strings(
        self, request: Request, name: ModelName, cell: CellName, limit: Few = 8, seed: Seed = 0
    ) -> Response:
        """Draws `limit` strings from a cell, a symbol for many strings outside the vocabulary; equal ones come once."""
        return await self._answer(request, partial(self.engine.strings, name, cell, limit, seed))

    async def ready(self) -> Response:
        """Whether the server can take a request: 200 and status "ready", else 503 and status "stopping" or "busy"."""
        status = "stopping" if self.gate.stopping else "busy" if self.gate.is_full else "ready"
        return _json({"status": status}, 200 if status == "ready" else 503)

    async def health(self) -> Response:
        """Tells that the server is alive, with status, version, models, uptime (`messages.Health`); always 200."""
        status, seconds = "stopping" if self.gate.stopping else "ok", time.monotonic() - self.began
        found = {"status": status, "version": llrnn.__version__, "models": list(self.engine.names)}
        return _json({**found, "uptime_seconds": seconds})

    async def counted(self) -> Response:
        """Returns counts of requests, refusals, model steps and generated words, in the text format of Prometheus."""
        return Response(self.metrics.text(), headers={"Content-Type": guard.CONTENT_TYPE})


async def switched_off() -> NoReturn:
    """Raise a `Refused` with status 403: what /v1/reload answers on a server that was started without a token."""
    required = "reload is switched off: this server was started without a token"
    raise Refused(403, "switched_off", f"{required}; give it one (--token-file FILE), or send its process SIGHUP")


def _json(data: Answer, status: int = 200) -> Response:
    return Response(json_bytes(data), status, media_type="application/json")


async def _read(request: Request, message: type[Asked], gate: Gate) -> Asked:
    """Return the JSON body of a request as an instance of `message`.

    `gate`: has the limits on bytes and seconds of a body. A `Refused`, an error with an HTTP status, is raised for a
    body that is not sent as JSON (415), is too large (413) or too slow (408), is no JSON (400), or lacks fields, has
    unknown ones or wrong values (422); its message says what is wrong.
    """
    body = await guard.read_body(request, gate.limits)
    # large ones one at a time: else all that have come would be read in a row, and health would wait for them
    async with gate.one_large_body if len(body) > _LARGE else nullcontext():
        await asyncio.sleep(0)
        try:
            return message.model_validate_json(body)
        except ValidationError as error:
            raise messages.refusal_of_body(error) from None


INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """A file of the web page as it is sent: `content`, its bytes, `media_type`, its Content-Type, and `tag`, its ETag.

    The ETag is a digest of the content, in quotes.
    """

    content: bytes
    media_type: str
    tag: str


def page_files(folder: Traversable | None = None) -> dict[str, PageFile]:
    """Return the files of the web page by file name: all HTML, CSS, JavaScript and SVG files directly in `folder`.

    `folder`: None for the page of the package; where there is no such folder, the dict is empty. All are read into
    memory, so that no path from a request ever opens a file.
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
    hosts: Collection[str] = guard.LOCAL_HOSTS,
    page: dict[str, PageFile] | None = None,
    access_log: bool = False,
) -> FastAPI:
    """Return the FastAPI application that serves the models of an engine over HTTP, with its web page.

    `limits`: bounds on requests, None for the usual ones; `token`: what clients must send as `Authorization: Bearer
    TOKEN`, None for nothing; `hosts`: the names allowed in the header Host; `page`: files of the web page by name, None
    for the package's; `access_log`: log a line for each request. `app.state.gate` tells whether it is stopping
    (`stopping`), and how many requests are worked on (`inside`).

        app = create_app(Engine([open_served(Path("runs/mine"))]))
    """
    gate = Gate(limits or Limits())
    metrics = guard.Metrics(lambda: gate.inside)
    engine.observe_steps(metrics.step)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.close()

    app = FastAPI(version=llrnn.__version__, openapi_url=None, redirect_slashes=False, lifespan=lifespan)
    app.state.gate, app.state.metrics, app.state.engine = gate, metrics, engine
    app.add_middleware(Guard, gate=gate, metrics=metrics, hosts=hosts, token=token, access_log=access_log)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(RequestValidationError, _refuse_parameters)
    Endpoints(app, engine, gate, metrics).add_all(has_operator=token is not None)
    schema = described(app, needs_token=token is not None)
    app.openapi = lambda: schema  # type: ignore[method-assign] # FastAPI's way to change it
    description = json_bytes(schema)  # once: doing it in the event loop kept others waiting

    async def describe() -> Response:
        return Response(description, media_type="application/json")

    app.add_api_route("/v1/openapi.json", describe, include_in_schema=False, response_model=None)
    _add_page(app, page_files() if page is None else page)
    return app


def _refuse_http(request: Request, error: Exception) -> NoReturn:
    """Raise an HTTPException of FastAPI in the form of this API: 404 and 405 as a `Refused`, others unchanged.

    An exception handler of the application; `error`: the HTTPException.
    """
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        message = f"this path takes {allowed}, found {request.method}; docs/server.md lists all paths"
        raise Refused(405, "method_not_allowed", message, {"Allow": allowed})
    if error.status_code == 404:
        raise Refused(404, "not_found", "there is nothing at this path; /v1/openapi.json and docs/server.md list all")
    raise error


def _refuse_parameters(request: Request, error: Exception) -> NoReturn:
    """Raise a `Refused` (422) that names the first invalid parameter of a path or query.

    An exception handler of the application; `error`: FastAPI's RequestValidationError.
    """
    assert isinstance(error, RequestValidationError)
    raise messages.refusal_of(error.errors())


def _add_page(app: FastAPI, files: dict[str, PageFile]) -> None:
    """Add GET routes for the web page: "/" is index.html, "/page/NAME" the file NAME of `files`, or else 404.

    Answers have the file's ETag; a request whose If-None-Match is that tag is answered 304.
    """

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
    """Return a TCP socket that is bound to this address but does not listen yet: the server starts that.

    So a port that is in use is known before models are loaded. `port` 0 takes a free one. A ConfigError is raised where
    the address cannot be bound.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as unless_it_is_ours:
            taken = unless_it_is_ours.enter_context(socket.socket(family, kind, protocol))
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(address)
            unless_it_is_ours.pop_all()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot listen at {host} port {port}: {reason}; choose another --host or --port (0 takes a free one)"
        ) from None
    return taken


def address_of(taken: socket.socket) -> str:
    """Return the http URL of a bound socket from its address and port, such as http://127.0.0.1:8017."""
    host, port = taken.getsockname()[:2]
    return f"http://{in_url(host)}:{port}"


def in_url(host: str) -> str:
    """Return a host as it is written in a URL: IPv6 addresses in brackets, others unchanged."""
    return f"[{host}]" if ":" in host else host


def serve(app: FastAPI, taken: socket.socket, *, ready: Callable[[], None]) -> None:
    """Run the application on a bound socket until SIGINT or SIGTERM, finish the requests under way, then return.

    `ready` is called once, when connections are accepted. After the signal requests have a few seconds of grace (the
    module's `_GRACE`) to end; where a model still computes then, the process ends with code 0 instead of returning.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("llrnn.serve.access").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # what clients do wrong is counted, not logged
    logging.getLogger("uvicorn.error").addFilter(_is_no_client_that_left)
    gate: Gate = app.state.gate
    config = uvicorn.Config(
        app,
        http=guard.bounded_protocol(gate.limits, app.state.metrics.refuse),
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
    computing = any(thread.name == THREAD for thread in threading.enumerate())
    if threading.current_thread() is threading.main_thread() and computing:
        sys.stdout.flush()
        os._exit(0)  # a step that has outlived its grace: an ordinary exit would wait for it, or end it by an abort


def _is_no_client_that_left(record: logging.LogRecord) -> bool:
    """Return False, to drop the record, for uvicorn's errors about clients that disconnected too early.

    A filter of the logger; True for all other records.
    """
    return "returned without completing response" not in record.getMessage()


class _Server(uvicorn.Server):
    """uvicorn's server, changed so that it answers health checks while it finishes its requests, and reloads on SIGHUP.

    `gate`: its `stopping` is set by the first signal; `ready`: called once, when connections are accepted.
    """

    def __init__(self, config: uvicorn.Config, gate: Gate, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.gate, self.ready, self.deadline = gate, ready, 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is here now stays: looking through all of it again and again would hold up requests
        if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(
                signal.SIGHUP, lambda: setattr(self, "_reloading", loop.create_task(self._reload()))
            )
        self.ready()

    async def _reload(self) -> None:
        """Read the tables and word lists of all models anew, on SIGHUP, and log that this was done.

        Where a file cannot be read, an error that names it is logged instead, and its model, with those after it, is
        served as before.
        """
        try:
            await self.config.app.state.engine.reload()  # type: ignore[union-attr]
            log.warning("tables and lists of words were read anew")
        except Refused as error:
            log.error("%s", error.message)

    async def on_tick(self, counter: int) -> bool:
        if self.gate.stopping:
            self.deadline = self.deadline or time.monotonic() + self.gate.limits.seconds + _GRACE
            self.should_exit = not self.gate.present or time.monotonic() > self.deadline
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGINT or SIGTERM: the first sets `gate.stopping`, a second ends the process with code 128 + `sig`.

        Unlike uvicorn's handler it does not raise the signal again, since stopping is no failure. `frame` is not used.
        """
        if self.gate.stopping:
            os._exit(128 + sig)  # an ordinary exit would wait for the thread of the models
        self.gate.stopping = True
