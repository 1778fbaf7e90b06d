"""Connections that wait for nobody: uvicorn's HTTP protocols with a bound on everything before and after a request.

    headers      must be complete in time, and may not be long (uvicorn waits for ever; httptools takes any length)
    a body       that nobody reads any more is thrown away as it comes, for a time, so that the client sees its answer
    an answer    must be taken in time, or the connection is cut
    connections  are bounded in number, and those of one client too

Works for both of uvicorn's parsers: h11, and httptools where it is installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from llrnn.serve.guard import json_bytes
from llrnn.serve.limits import Limits
from llrnn.serve.refusals import Refused

_THROWN_AWAY = 64 * 1_048_576  # bytes of a body that was refused; beyond them the connection is cut

if TYPE_CHECKING:  # for the checker any of the two will do
    from uvicorn.protocols.http.h11_impl import H11Protocol as Parser
elif importlib.util.find_spec("httptools") is not None:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Parser
else:
    from uvicorn.protocols.http.h11_impl import H11Protocol as Parser


class _Timer:
    """Something that happens unless it is stopped in time; starting it twice is starting it once."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None

    def start(self, seconds: float, happens: Callable[[], None]) -> None:
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(seconds, happens)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Bounded(Parser):
    """A connection with bounds; `bounded` makes the class for those of a server."""

    limits: Limits
    count: Callable[[str], None]  # told the code of every refusal

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._received = 0  # bytes since the last request was complete
        self._headers_due, self._answer_due = _Timer(), _Timer()

    @property
    def _awaits_headers(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _throws_away(self) -> bool:
        """The last request was answered before all of its body came."""
        return self.cycle is not None and self.cycle.response_complete and self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that one unsent byte is a paused writer, which is timed
        addresses = [(getattr(one, "client", None) or ("", 0))[0] for one in self.connections]
        of_client = addresses.count((self.client or ("", 0))[0])
        if len(self.connections) > self.limits.connections:
            self._close_with(self.limits.refused("connections"))
        elif of_client > self.limits.client_connections:
            self._close_with(self.limits.refused("client_connections"))
        else:
            self._headers_due.start(self.limits.header_seconds, self._headers_are_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_due.stop()
        self._answer_due.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._awaits_headers:
            self._received += len(data)
            self._headers_due.start(self.limits.header_seconds, self._headers_are_late)
        super().data_received(data)
        if not self._awaits_headers:
            self._received = 0
            self._headers_due.stop()
        elif self._received > (_THROWN_AWAY if self._throws_away else self.limits.header_bytes):
            self._close_with(self.limits.refused("header_bytes"))

    def _headers_are_late(self) -> None:
        if self._received and not self._throws_away:
            self._close_with(self.limits.refused("header_seconds"))
        else:  # nothing was asked, so nothing is answered
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer_due.start(self.limits.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer_due.stop()

    def send_400_response(self, msg: str) -> None:
        """What the parser cannot read; in our form."""
        self._close_with(
            Refused(400, "malformed_http", "the request must be HTTP/1.1; its first line or headers are not")
        )

    def _close_with(self, refused: Refused) -> None:
        if self.transport.is_closing():
            return
        type(self).count(refused.code)
        body = json_bytes(refused.body())
        given = {
            **refused.headers,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        lines = [f"HTTP/1.1 {refused.status} {HTTPStatus(refused.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in given.items()]
        self.transport.write("\r\n".join([*lines, "\r\n"]).encode() + body)
        self.transport.close()


def bounded(limits: Limits, count: Callable[[str], None]) -> type[Bounded]:
    """The class of connections for a server with these bounds, which counts what it refuses."""
    return type("BoundedHere", (Bounded,), {"limits": limits, "count": staticmethod(count)})
