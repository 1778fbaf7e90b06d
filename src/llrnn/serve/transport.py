"""HTTP to a server of ours by httpx (extra `client`): requests, refusals, streams of events, and errors in our words.

httpx2 is httpx as it is maintained, by the same names. Only `llrnn.serve.client` imports this module, when it is used.
"""

from __future__ import annotations

import json
import math
import re
import ssl
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from llrnn.ground.errors import ConfigError, MissingExtraError, ServerError
from llrnn.ground.files import parse_json

try:
    import httpx2
except ImportError:
    raise MissingExtraError("httpx2", "client") from None

_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_LARGEST_ANSWER = 2**28  # bytes
_LONGEST_EVENT = 2**22  # bytes of one event of a stream: a word with its features
_RETRY_AFTER = 1.0  # seconds, where a server that is busy does not say how long
_KEPT = httpx2.Limits(max_keepalive_connections=1, keepalive_expiry=5.0)  # seconds; a server of ours waits for 15
_HEADERS = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
Json = Mapping[str, Any]
Read = TypeVar("Read")


class Transport:
    """The HTTP connection of a client to an llrnn server; every failure of it is raised as a `ServerError`.

    `address`: URL of the server; `token`: sent as bearer token, None for none; `timeout`: seconds that the server may
    be silent; `retries`: how often a request is sent again after a 429. It may be used by many threads, and uses no
    proxies. A ConfigError is raised for an address, token, timeout or number of retries that cannot be.
    """

    def __init__(self, address: str, *, token: str | None, timeout: float, retries: int) -> None:
        self.address = address.rstrip("/")
        _require_address(self.address)
        if not (0 < timeout < math.inf and retries >= 0):
            raise ConfigError(
                f"a timeout above 0 and finite and retries of 0 or more are required, found {timeout} and {retries}"
            )
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            raise ConfigError(
                "a token is one line of ASCII without spaces around it; this one is not (it is not shown)"
            )
        self.timeout, self.retries = timeout, retries
        headers = _HEADERS if token is None else {**_HEADERS, "Authorization": f"Bearer {token}"}
        tls = ssl.create_default_context() if address.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._http = httpx2.Client(headers=headers, timeout=timeout, limits=_KEPT, verify=tls, trust_env=False)
        weakref.finalize(self, self._http.close)

    def ask(self, path: str, read: Callable[[Json], Read], body: Json | None = None, *, also: int = 200) -> Read:
        """Send a request and return `read(answer)`, where answer is the JSON object that the server sent.

        `path`: such as "/v1/next"; `body`: sent as JSON by POST, None for GET; `also`: a further HTTP status that is no
        error besides 200. A `ServerError` is raised for any other, and where `read` fails.
        """
        with closing(self.exchange(path, body, also)) as exchange:
            return exchange.parsed(exchange.read(), read)

    def exchange(self, path: str, body: Json | None, also: int = 200) -> Exchange:
        """Send a request and return the exchange, whose answer is not read yet; the caller closes it.

        `path`: such as "/v1/next"; `body`: sent as JSON by POST, None for GET; `also`: a further HTTP status that is no
        error. After a 429 it waits and sends the request again, up to `retries` times; statuses other than 200 and
        `also` raise a `ServerError`.
        """
        for attempt in range(self.retries + 1):
            exchange = self._open(path, body)
            if exchange.response.status_code in (200, also):
                return exchange
            with closing(exchange):
                refusal = exchange.refusal()
            wait = _RETRY_AFTER * 2**attempt if refusal.retry_after is None else refusal.retry_after
            if refusal.status != 429 or attempt == self.retries or wait > self.timeout:
                raise refusal
            time.sleep(wait)
        raise AssertionError("one of the attempts returned or raised")

    def _open(self, path: str, body: Json | None) -> Exchange:
        data = None if body is None else json.dumps(body, allow_nan=False)
        with self.telling():
            request = self._http.build_request("POST" if data else "GET", f"{self.address}{path}", content=data)
            return Exchange(self, self._http.send(request, stream=True))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Context manager (yields None): errors of the network inside the block are raised as a `ServerError`.

        Its code is "unreachable", "too_slow", "cut_off" or "unreadable".
        """
        try:
            yield
        except httpx2.TimeoutException:
            found = f"an answer within {self.timeout:g} s is required, found silence"
            raise self._error("too_slow", f"{found}; ask for less, or give the client a longer timeout") from None
        except (httpx2.ConnectError, httpx2.InvalidURL, ValueError) as error:  # the last two: of a host that is none
            found = f"a server is required, found none ({type(error).__name__}: {error})"
            advice = "start one with `llrnn serve`, or correct the address"
            raise self._error("unreachable", f"{found}; {advice}") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            if "status line" in str(error):
                raise self.unreadable("an answer in HTTP", f"another ({error})") from None
            raise self.cut_off(f"{type(error).__name__}: {error}") from None

    def cut_off(self, why: str) -> ServerError:
        """Return, not raise, the `ServerError` (code "cut_off") for an answer that broke off; `why`: the reason."""
        found = f"a whole answer is required, found one that broke off ({why})"
        return self._error("cut_off", f"{found}; ask again, or correct the address")

    def unreadable(self, required: str, found: str, status: int | None = None) -> ServerError:
        """Return, not raise, the `ServerError` (code "unreadable") for an answer that does not follow this API.

        `required`, `found`: what was expected and what came, for the message; `status`: the HTTP status, None if not
        known.
        """
        advice = "is it `llrnn serve`, of the version of this client?"
        return self._error("unreadable", f"{required} is required, found {found}; {advice}", status)

    def _error(self, code: str, message: str, status: int | None = None) -> ServerError:
        return ServerError(f"{self.address}: {message}", code=code, status=status)


def _require_address(address: str) -> None:
    """Raise a ConfigError unless the address is an http or https URL without user, password, query and fragment."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:  # a port that is no number, brackets that do not close
        parts, host = urlsplit(""), None
    if "@" in parts.netloc:  # which is not repeated: it may be a password
        raise ConfigError("an address without a user and password is required, found one with them; give token=...")
    odd = parts.query or parts.fragment or _CONTROL.search(address)
    if not host or odd or parts.scheme not in ("http", "https"):
        raise ConfigError(
            f"the address of a server is required, such as http://127.0.0.1:8017, found {address!r}; "
            "`llrnn serve` prints its own when it starts"
        )


class Exchange:
    """One request that was sent, and the server's answer, which is read as it arrives; `close()` ends it.

    Read it once, by `read` or `events`. `content_type`: of the answer, without parameters.
    """

    def __init__(self, transport: Transport, response: httpx2.Response) -> None:
        self.transport, self.response = transport, response
        self.content_type = response.headers.get("Content-Type", "no type").partition(";")[0]
        # a stream may be dropped halfway: the server learns of it when it is closed
        self.close: Callable[[], object] = weakref.finalize(self, response.close)

    def read(self) -> bytes:
        """Return the bytes of the whole answer; raise a `ServerError` where it has more than 256 MiB."""
        found = bytearray()
        with self.transport.telling():
            for piece in self.response.iter_raw():
                found += piece
                if len(found) > _LARGEST_ANSWER:
                    raise self.unreadable(f"an answer of at most {_LARGEST_ANSWER:,} bytes", "a longer one")
        return bytes(found)

    def events(self) -> Generator[tuple[str, bytes], None, None]:
        """Yield (name, data as bytes) of each server-sent event as it comes; events without data are skipped.

        An event without a name is called "message". A `ServerError` is raised where the stream breaks off.
        """
        self.response.encoding = "latin-1"  # a character a byte: httpx would replace what is not UTF-8
        with self.transport.telling():
            for event in httpx2.EventSource(self.response, _LONGEST_EVENT):
                if event.data:
                    yield event.event, event.data.encode("latin-1")

    def parsed(self, data: bytes, read: Callable[[Json], Read]) -> Read:
        """Return `read` of the JSON object in `data`; raise a `ServerError` where it cannot be parsed or read."""
        try:
            return read(parse_json(data))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            found = f"{data[:60]!r} ({type(error).__name__}: {error})"
            raise self.unreadable("an answer of `llrnn serve` in JSON", found) from None

    def error(self, data: bytes) -> ServerError:
        """Return, not raise, the `ServerError` that `data`, the JSON of an error answer, describes by code and message.

        Where it cannot be parsed, another `ServerError` is raised.
        """
        return self.parsed(data, lambda found: ServerError(str(found["message"]), code=str(found["code"])))

    def refusal(self) -> ServerError:
        """Read an error answer and return, not raise, its `ServerError`, with HTTP status and seconds to wait.

        `retry_after`: seconds of the header Retry-After, None where it is missing or a date.
        """
        status, after = self.response.status_code, self.response.headers.get("Retry-After", "")
        try:
            error = self.error(self.read())
        except ServerError:
            return self.unreadable("an answer of `llrnn serve`", f"{status} {self.response.reason_phrase}")
        error.status, error.retry_after = status, float(after) if after.isascii() and after.isdigit() else None
        return error

    def unreadable(self, required: str, found: str) -> ServerError:
        """Return, not raise, the `ServerError` for this answer, which does not follow the API.

        `required`, `found`: what was expected and what came, for the message.
        """
        return self.transport.unreadable(required, found, self.response.status_code)
