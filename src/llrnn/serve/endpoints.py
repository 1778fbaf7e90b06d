"""The endpoints under /v1: what each one reads, which method of the engine answers it, and what it may answer.

Bodies are read by `guard.read_body` and validated by pydantic straight from their bytes, and answers are sent as the
engine made them: nothing is parsed or checked twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import FastAPI, Path, Query, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

import llrnn
from llrnn.serve import answers
from llrnn.serve.describing import EVENT_STREAM, OF_FACTS, OF_LISTS, OF_QUESTIONS, errors_of, request_body
from llrnn.serve.guard import HEALTH, ClientGoneError, Gate, json_bytes, read_body
from llrnn.serve.limits import Refused, most
from llrnn.serve.messages import (
    ExplainRequest,
    GenerateRequest,
    InfluenceRequest,
    Message,
    NextRequest,
    ScoreRequest,
    at_most,
    refusal_of_body,
)
from llrnn.serve.metrics import CONTENT_TYPE, Metrics

if TYPE_CHECKING:
    from llrnn.serve.engine import Engine

# Server-sent events: a generation, sent word by word.
#
# Until the first event a refusal is an ordinary answer with its own status; afterwards it is an event `error`. A client
# that goes away ends the generation. One that stays and does not read is waited for no longer than a request may take.


log = logging.getLogger("llrnn.serve")
Events = AsyncIterator[tuple[str, dict[str, Any]]]
Result = TypeVar("Result")

_LAST_WORDS = 1.0  # seconds to take the event that says why a stream ends
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]


def event_bytes(name: str, data: dict[str, Any]) -> bytes:
    """JSON has no line ends of its own, so that one line of data suffices."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json_bytes(data))


async def unless_gone(work: Coroutine[Any, Any, Result], receive: Receive) -> Result:
    """What the work comes to; it is cancelled when the client closes its connection."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def until_gone(receive: Receive) -> None:
    """When the client closes its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def closed(events: Events) -> None:
    """A generation that was left in the middle ends now, and not when somebody finds it."""
    if isinstance(events, AsyncGenerator):
        await events.aclose()


class EventStream(Response):
    """The answer to `generate`."""

    def __init__(self, events: Events, gate: Gate, saw: Callable[[str], None]) -> None:
        super().__init__()
        self.events, self.gate, self.saw = events, gate, saw
        self.has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self.gate.place():
                async with asyncio.timeout(self.gate.limits.seconds):
                    await unless_gone(self._send_all(send), receive)
        except TimeoutError:
            await self._end(self.gate.limits.refused("seconds"), receive, send)
        except Refused as refused:
            await self._end(refused, receive, send)
        except ClientGoneError:
            raise
        except Exception:
            if not self.has_begun:
                raise
            log.exception("a defect of the server, in a stream")
            await self._end(Refused(500, "internal", "the server failed; its log says why"), receive, send)
        finally:
            await closed(self.events)

    async def _send_all(self, send: Send) -> None:
        async for name, data in self.events:
            if not self.has_begun:
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                self.has_begun = True
            self.saw(name)
            await send({"type": "http.response.body", "body": event_bytes(name, data), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _end(self, refused: Refused, receive: Receive, send: Send) -> None:
        """Say why; to a client that does not read nothing can be said, and its connection is cut (`serving`)."""
        if not self.has_begun:
            raise refused
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await send({"type": "http.response.body", "body": event_bytes("error", refused.body())})
        except TimeoutError:
            await until_gone(receive)


Asked = TypeVar("Asked", bound=Message)
Answer = dict[str, Any]
Work = Coroutine[Any, Any, Answer]
_SHORT: dict[str, Any] = {"maxLength": most("characters")}
ModelName = Annotated[str, Path(description="a served model", json_schema_extra=_SHORT), at_most("characters")]
Part = Annotated[str, Query(description="a part of the name", json_schema_extra=_SHORT), at_most("characters")]
Count = Annotated[
    int,
    Query(ge=1, description="how many at most", json_schema_extra={"maximum": most("listing")}),
    at_most("listing", int),
]


_LARGE = 8192  # bytes of a body that takes a millisecond or so to read


class Endpoints:
    """What every endpoint needs."""

    def __init__(self, app: FastAPI, engine: Engine, gate: Gate, metrics: Metrics) -> None:
        self.app, self.engine, self.gate, self.metrics = app, engine, gate, metrics
        self.began = time.monotonic()

    def add_all(self) -> None:
        self._add_question("/v1/next", NextRequest, answers.Next, self.engine.next)
        self._add_question("/v1/explain", ExplainRequest, answers.ExplainAnswer, self.engine.explain)
        self._add_question("/v1/influence", InfluenceRequest, answers.InfluenceAnswer, self.engine.influence)
        self._add_question("/v1/score", ScoreRequest, answers.ScoreAnswer, self.engine.score)
        self._add_post("/v1/generate", GenerateRequest, answers.GenerateAnswer, self.generate, events=True)
        self._add_get("/v1/models", answers.ModelsAnswer, self.models, OF_FACTS)
        self._add_get("/v1/models/{name}/features", answers.FeaturesAnswer, self.features, OF_LISTS)
        self._add_get("/v1/models/{name}/words", answers.WordsAnswer, self.words, OF_LISTS)
        self._add_get(HEALTH, answers.Health, self.health, (400, 500))
        self._add_get("/v1/metrics", None, self.counted, OF_FACTS)

    def _add_question(
        self,
        path: str,
        message: type[Asked],
        answer: type[answers.Answer],
        ask: Callable[[Asked], Coroutine[Any, Any, Answer]],
    ) -> None:
        async def endpoint(request: Request) -> Response:
            asked = await _read(request, message, self.gate)
            return await self._answer(ask(asked))

        self._add_post(path, message, answer, endpoint)

    def _add_post(
        self,
        path: str,
        message: type[Message],
        answer: type[answers.Answer],
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        events: bool = False,
    ) -> None:
        also = {"content": EVENT_STREAM} if events else {}
        self.app.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            summary=message.__doc__,
            operation_id=path.rpartition("/")[2],
            response_model=None,
            responses={200: {"model": answer, "description": answer.__doc__, **also}, **errors_of(OF_QUESTIONS)},
            openapi_extra=request_body(message),
        )

    def _add_get(
        self,
        path: str,
        answer: type[answers.Answer] | None,
        endpoint: Callable[..., Awaitable[Response]],
        errors: tuple[int, ...],
    ) -> None:
        text = {"content": {"text/plain": {"schema": {"type": "string"}}}}
        found = text if answer is None else {"model": answer}
        also: dict[int | str, dict[str, Any]] = {503: {"model": answers.Health}} if path == HEALTH else {}
        self.app.add_api_route(
            path,
            endpoint,
            methods=["GET"],
            summary=endpoint.__doc__,
            operation_id=path.rpartition("/")[2],
            response_model=None,
            response_class=Response if answer is None else JSONResponse,
            responses={200: {"description": endpoint.__doc__, **found}, **errors_of(errors), **also},
        )

    async def generate(self, request: Request) -> Response:
        asked = await _read(request, GenerateRequest, self.gate)
        events = self.engine.generate(asked)
        if asked.stream:
            return EventStream(events, self.gate, self._saw)
        return await self._answer(unless_gone(self._whole(asked, events), request.receive))

    async def _answer(self, work: Work) -> Response:
        """What the work comes to, where there is room for it, and as long as a request may take."""
        try:
            with self.gate.place():
                async with asyncio.timeout(self.gate.limits.seconds):
                    return _json(await work)
        except TimeoutError:
            raise self.gate.limits.refused("seconds") from None
        finally:
            work.close()  # where it did not begin

    def _saw(self, event: str) -> None:
        self.metrics.words.inc(event == "word")

    async def _whole(self, asked: GenerateRequest, events: Events) -> Answer:
        words, end = [], {}
        try:
            async for name, data in events:
                self._saw(name)
                if name == "word":
                    words.append(data)
                else:
                    end = data
        finally:
            await closed(events)
        named = {"model": asked.model or self.engine.names[0], "background": asked.background}
        return {**named, "prefix": list(asked.prefix_words), **end, "words": words}

    async def models(self) -> Response:
        """All models; the first one is the default."""
        return _json(self.engine.models())

    async def features(self, name: ModelName, query: Part = "", limit: Count = 20) -> Response:
        """Features of a model whose names hold a text."""
        return await self._answer(self.engine.features(name, query, limit))

    async def words(self, name: ModelName, query: Part = "", limit: Count = 20) -> Response:
        """Words of a model, for completion."""
        return await self._answer(self.engine.words(name, query, limit))

    async def health(self) -> Response:
        """Is the server there? 503 when it is stopping."""
        stopping = self.gate.stopping
        found = {
            "status": "stopping" if stopping else "ok",
            "version": llrnn.__version__,
            "models": list(self.engine.names),
            "uptime_seconds": time.monotonic() - self.began,
        }
        return _json(found, 503 if stopping else 200)

    async def counted(self) -> Response:
        """What the server has counted, for Prometheus."""
        return Response(self.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


def _json(data: Answer, status: int = 200) -> Response:
    return Response(json_bytes(data), status, media_type="application/json")


async def _read(request: Request, message: type[Asked], gate: Gate) -> Asked:
    body = await read_body(request.scope, request.receive, gate.limits)
    if len(body) <= _LARGE:
        return _validated(body, message)
    async with gate.one_large_body:  # else all that have come would be read in a row, and health would wait for them
        await asyncio.sleep(0)
        return _validated(body, message)


def _validated(body: bytes, message: type[Asked]) -> Asked:
    try:
        return message.model_validate_json(body)
    except ValidationError as error:
        raise refusal_of_body(error) from None
