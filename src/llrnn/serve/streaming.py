"""Server-sent events: a generation, sent word by word.

Until the first event a refusal is an ordinary answer with its own status; afterwards it is an event `error`. A client
that goes away ends the generation. One that stays and does not read is waited for no longer than a request may take.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llrnn.serve.guard import ClientGoneError, Gate, json_bytes
from llrnn.serve.refusals import Refused

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
