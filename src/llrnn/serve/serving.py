"""The server as a process: it listens, says where, and stops without losing what it has begun.

SIGINT or SIGTERM: health says `stopping`, new requests are refused (503), what is present is finished, as long as a
request may take; then the process ends with code 0. A second signal ends it at once.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from llrnn.ground.errors import ConfigError
from llrnn.serve.guard import Gate, bounded_protocol
from llrnn.serve.served import THREAD

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
