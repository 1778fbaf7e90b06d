"""A client of `llrnn serve`: a model in another process, asked in a few lines.

    client = llrnn.Client("http://127.0.0.1:8017")
    client.next("la maison est", top=5)                                      what comes next
    client.explain("la maison est", word="grande", rival="grand")            the library's own Comparison
    for word in client.generate("la maison", seed=1): ...                    as the words come

Explanations are those of the library, so they add up, print and draw as if the model was here. Weights are changed as
on the command line: `changes=["POS:VERB=+0.5"]`. What the server refuses is a `ServerError` with its status and code.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any, TypedDict, TypeVar, Unpack, overload
from urllib.parse import quote, urlencode, urlsplit

from pydantic import TypeAdapter

from llrnn.ground.errors import ConfigError, ServerError
from llrnn.ground.files import parse_json
from llrnn.ground.rendering import Term
from llrnn.inference.explanation import Comparison, Explanation, Influence
from llrnn.model.decode import chosen_strategy
from llrnn.model.steering import Change
from llrnn.serve.messages import (
    CompleteAnswer,
    ConditionTexts,
    Finished,
    Health,
    Next,
    ReadAnswer,
    Score,
    ServedModel,
    WriteAnswer,
    Written,
)

_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_BROKEN = (OSError, http.client.HTTPException, ValueError, OverflowError)  # the last two: lengths that are none
_LARGEST_ANSWER = 2**28  # bytes
_LONGEST_LINE = 2**22  # bytes of one line of a stream: an event is a word with its features
_RETRY_AFTER = 1.0  # seconds, where a server that is busy does not say how long
Json = Mapping[str, Any]
Prefix = str | Sequence[str]  # words, separated by white space or one by one
Read = TypeVar("Read")


class Transport:
    """HTTP to a server of ours, with the standard library alone; `timeout` is how many seconds it may be silent.

    Every connection serves one request, so a client may be used by many threads. Proxies are not asked: a server of
    ours is close by. Whatever goes wrong is a `ServerError`.
    """

    def __init__(self, address: str, *, token: str | None, timeout: float, retries: int) -> None:
        self.address = address.rstrip("/")
        host, self._port, path = _parts(self.address)
        self._host, self._base, self._secure = host, quote(path, safe="/%"), self.address.startswith("https:")
        if not (0 < timeout < math.inf and retries >= 0):
            raise ConfigError(
                f"a timeout above 0 and finite and retries of 0 or more are required, found {timeout} and {retries}"
            )
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
            raise ConfigError(
                "a token is one line of ASCII without spaces around it; this one is not (it is not shown)"
            )
        self.timeout, self.retries = timeout, retries
        self._headers = {"Accept": "application/json, text/event-stream", "Connection": "close"}
        self._headers |= {"Authorization": f"Bearer {token}"} if token is not None else {}

    def ask(self, path: str, read: Callable[[Json], Read], body: Json | None = None, *, also: int = 200) -> Read:
        """What `read` makes of the answer. Without a body it is a GET; `also` is a status that is an answer too."""
        with closing(self.exchange(path, body, also)) as exchange:
            return exchange.parsed(exchange.read(), read)

    def exchange(self, path: str, body: Json | None, also: int = 200) -> Exchange:
        """A request whose answer is good. One that comes too early is made again, as often as `retries` says."""
        for attempt in range(self.retries + 1):
            exchange = self._open(path, body)
            if exchange.response.status in (200, also):
                return exchange
            with closing(exchange):
                refusal = exchange.refusal()
            wait = _RETRY_AFTER * 2**attempt if refusal.retry_after is None else refusal.retry_after
            if refusal.status != 429 or attempt == self.retries or wait > self.timeout:
                raise refusal
            time.sleep(wait)
        raise AssertionError("one of the attempts returned or raised")

    def _open(self, path: str, body: Json | None) -> Exchange:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection, is_connected = kind(self._host, self._port, timeout=self.timeout), False
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": "application/json"}
        try:
            connection.connect()
            is_connected = True
            connection.request("GET" if data is None else "POST", f"{self._base}{path}", data, headers)
            return Exchange(self, connection, connection.getresponse())
        except _BROKEN as error:  # a host that can have no address is a ValueError, too
            connection.close()
            raise self.broken(error, is_connected=is_connected) from None

    def broken(self, error: Exception, *, is_connected: bool = True) -> ServerError:
        """What went wrong on the way, in our words."""
        why = f"{type(error).__name__}: {error}"
        if isinstance(error, TimeoutError):
            found = f"an answer within {self.timeout:g} s is required, found silence"
            return self._error("too_slow", f"{found}; ask for less, or give the client a longer timeout")
        if not is_connected:
            found = f"a server is required, found none ({why})"
            return self._error("unreachable", f"{found}; start one with `llrnn serve`, or correct the address")
        if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
            return self.unreadable("an answer in HTTP", f"another ({why})")
        return self._error("cut_off", f"a whole answer is required, found one that broke off ({why}); ask again")

    def unreadable(self, required: str, found: str, status: int | None = None) -> ServerError:
        """An answer that is not what the API promises comes from another server, or another version of ours."""
        advice = "is it `llrnn serve`, of the version of this client?"
        return self._error("unreadable", f"{required} is required, found {found}; {advice}", status)

    def _error(self, code: str, message: str, status: int | None = None) -> ServerError:
        return ServerError(f"{self.address}: {message}", code=code, status=status)


def _parts(address: str) -> tuple[str, int | None, str]:
    """Host, port and path of an address."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number, brackets that do not close
        parts, host, port = urlsplit(""), None, None
    if "@" in parts.netloc:  # which is not repeated: it may be a password
        raise ConfigError("an address without a user and password is required, found one with them; give token=...")
    odd = parts.query or parts.fragment or _CONTROL.search(address)
    if not host or odd or parts.scheme not in ("http", "https"):
        raise ConfigError(
            f"the address of a server is required, such as http://127.0.0.1:8017, found {address!r}; "
            "`llrnn serve` prints its own when it starts"
        )
    return host, port, parts.path


class Exchange:
    """One request that was sent, and its answer as it arrives."""

    def __init__(
        self, transport: Transport, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self.transport, self.response = transport, response
        # a stream may be dropped halfway: the server learns of it when both are closed
        self.close: Callable[[], object] = weakref.finalize(self, _close, connection, response)

    def read(self) -> bytes:
        """All of the answer, piece by piece: the length that it claims is not to be trusted."""
        found = bytearray()
        try:
            while piece := self.response.read(2**16):
                found += piece
                if len(found) > _LARGEST_ANSWER:
                    raise self.unreadable(f"an answer of at most {_LARGEST_ANSWER:,} bytes", "a longer one")
            if self.response.length:
                raise http.client.IncompleteRead(b"", self.response.length)
            return bytes(found)
        except _BROKEN as error:
            raise self.transport.broken(error) from None

    def events(self) -> Iterator[tuple[str, str]]:
        """Name and data of each event of a stream, as it comes: lines `field: value`, and an empty line after them."""
        name, data = "message", list[str]()
        while (line := self._line()).endswith("\n"):  # else it was cut in the middle of a line, or the line has no end
            field, _, value = line.rstrip("\r\n").partition(":")  # no field: a comment, which keeps the line open
            if field == "event":
                name = value.removeprefix(" ")
            elif field == "data":
                data.append(value.removeprefix(" "))
            elif not line.strip("\r\n") and data:
                yield name, "\n".join(data)
                name, data = "message", []
        self.close()

    def _line(self) -> str:
        """One line of a stream with its end, nothing where the stream ends. Characters are whole when the line is."""
        try:
            return self.response.readline(_LONGEST_LINE).decode("utf8")
        except UnicodeDecodeError:
            raise self.unreadable("UTF-8", "other bytes") from None
        except _BROKEN as error:
            raise self.transport.broken(error) from None

    def parsed(self, data: str | bytes, read: Callable[[Json], Read]) -> Read:
        """What `read` makes of a JSON object."""
        try:
            return read(parse_json(data))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            found = f"{data[:60]!r} ({type(error).__name__}: {error})"
            raise self.unreadable("an answer of `llrnn serve` in JSON", found) from None

    def refusal(self) -> ServerError:
        """The error of the server, with its status; a `Retry-After` that gives a date is as good as none."""
        status, after = self.response.status, self.response.getheader("Retry-After") or ""
        try:
            error = self.parsed(self.read(), _error)
        except ServerError:
            return self.unreadable("an answer of `llrnn serve`", f"{status} {self.response.reason}")
        error.status, error.retry_after = status, float(after) if after.isascii() and after.isdigit() else None
        return error

    def unreadable(self, required: str, found: str) -> ServerError:
        return self.transport.unreadable(required, found, self.response.status)


def _close(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
    response.close()
    connection.close()


# What a server answers, as Python has it: the models of `answers`, and the library's own explanations.

_EXPLANATION, _INFLUENCE = TypeAdapter(Explanation), TypeAdapter(Influence)
_TERMS = TypeAdapter(tuple[Term, ...])


def _error(found: Json) -> ServerError:
    return ServerError(str(found["message"]), code=str(found["code"]))


def _explained(found: Json) -> Explanation | Comparison:
    """Of an answer to `explain`. What a comparison is the sum of follows from its two sides, but for the terms."""
    chosen = _explanation(found["prefix"], found["word"])
    if found["rival"] is None:
        return chosen
    rival = _explanation(found["prefix"], found["rival"])
    return Comparison(chosen, rival, _TERMS.validate_python(found["comparison"]["terms"]))


def _explanation(prefix: Sequence[str], found: Json) -> Explanation:
    factors = [(factor["name"], _log(factor["log_b"])) for factor in found["factors"]]
    parts = [{**part, "log_b": _log(part["log_b"])} for part in found["parts"]]
    logs = {name: _log(found[name]) for name in ("log_p", "log_b")}
    return _EXPLANATION.validate_python({**found, **logs, "prefix": prefix, "factors": factors, "parts": parts})


def _log(value: float | None) -> float:
    return -math.inf if value is None else value


class QueryOptions(TypedDict, total=False):
    """What may be said with every question; without it the server's first model answers, as it was trained."""

    model: str | None
    background: str | None
    condition: str | None
    changes: Mapping[str, str] | Sequence[str | Change]


class Client:
    """Asks one server. `timeout` is how many seconds it may be silent; `retries` how often a 429 is waited for."""

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 30.0, retries: int = 0) -> None:
        self._transport = Transport(address, token=token, timeout=timeout, retries=retries)

    def __repr__(self) -> str:
        return f"Client({self._transport.address!r})"

    def read(self, prefix: Prefix = "", *, words: Sequence[str] = (), **query: Unpack[QueryOptions]) -> ReadAnswer:
        """Which words of the prefix and of `words` the model does not have, each with some written nearly so."""
        return self._ask("read", ReadAnswer.model_validate, prefix, query, words=list(words))

    def next(
        self, prefix: Prefix = "", *, top: int = 10, words: Sequence[str] = (), **query: Unpack[QueryOptions]
    ) -> Next:
        """The `top` most probable words after the prefix, and the probabilities of `words`."""
        return self._ask("next", Next.model_validate, prefix, query, top=top, words=list(words))

    def complete(
        self, prefix: Prefix = "", letters: str = "", *, k: int = 3, mass: bool = False, **query: Unpack[QueryOptions]
    ) -> CompleteAnswer:
        """The k best words after the prefix that begin with the letters, as `llrnn.complete`.

        `mass`: also the probability that the word begins so, and the share of each word in it.
        """
        return self._ask("complete", CompleteAnswer.model_validate, prefix, query, letters=letters, k=k, mass=mass)

    @overload
    def explain(self, prefix: Prefix = "", *, word: str, **query: Unpack[QueryOptions]) -> Explanation: ...
    @overload
    def explain(self, prefix: Prefix = "", *, word: str, rival: str, **query: Unpack[QueryOptions]) -> Comparison: ...
    def explain(
        self, prefix: Prefix = "", *, word: str, rival: str | None = None, **query: Unpack[QueryOptions]
    ) -> Explanation | Comparison:
        """Why this word, or why rather than a rival; as `llrnn.explain`."""
        return self._ask("explain", _explained, prefix, query, word=word, rival=rival)

    def influence(self, prefix: Prefix = "", *, feature: str, **query: Unpack[QueryOptions]) -> Influence:
        """Which features of which earlier words moved the weight of this one; as `llrnn.influence.influence`."""
        return self._ask("influence", _INFLUENCE.validate_python, prefix, query, feature=feature)

    def generate(
        self,
        prefix: Prefix = "",
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        greedy: bool = False,
        max_words: int = 60,
        seed: int = 0,
        **query: Unpack[QueryOptions],
    ) -> Writing:
        """Words as the model writes them, as `llrnn.generate`; the same seed and question write the same text."""
        strategy = chosen_strategy(greedy=greedy, temperature=temperature, top_k=top_k, top_p=top_p)
        way = {"greedy": greedy} if greedy else asdict(strategy)  # type: ignore[call-overload]
        asked = _query(query, prefix) | {"seed": seed, "max_words": max_words, **way}
        return Writing(self._transport.exchange("/v1/generate", asked | {"stream": True}))

    def write(
        self,
        conditions: Sequence[str | Mapping[str, Any]],
        *,
        beam: int = 5,
        count: int = 1,
        max_words: int = 60,
        model: str | None = None,
        background: str = "own",
    ) -> tuple[ConditionTexts, ...]:
        """The best texts for each condition, by a beam; a condition is text or an object.

        client.write([{"act": "inform", "slots": {"food": "thai"}}])[0].best[0].text
        """
        if isinstance(conditions, str | Mapping):
            raise ConfigError(f"a list of conditions is required, found one: write [{str(conditions)[:40]}]")
        asked = {"conditions": list(conditions), "beam": beam, "count": count, "max_words": max_words}
        asked |= {"model": model, "background": background}
        return self._transport.ask("/v1/write", lambda found: WriteAnswer.model_validate(found).texts, asked)

    def score(
        self, texts: Sequence[Prefix], *, conditions: Sequence[str | None] | None = None, **query: Unpack[QueryOptions]
    ) -> tuple[Score, ...]:
        """log p of every word of each text, the end of the sentence included."""
        if isinstance(texts, str):
            raise ConfigError(f"a list of texts is required, found one string: write [{texts[:40]!r}]")
        if query.pop("condition", None) is not None:
            raise ConfigError("texts have conditions of their own: give one for each text, conditions=[...]")
        written = [text if isinstance(text, str) else list(text) for text in texts]
        asked = _query(query) | {"texts": written, "conditions": None if conditions is None else list(conditions)}
        return self._transport.ask("/v1/score", lambda found: tuple(map(Score.model_validate, found["scores"])), asked)

    def models(self) -> tuple[ServedModel, ...]:
        """The served models; the first one answers where none is named."""
        return self._transport.ask("/v1/models", lambda found: tuple(map(ServedModel.model_validate, found["models"])))

    def features(self, query: str = "", *, model: str | None = None, limit: int = 20) -> tuple[str, ...]:
        """Names of features that hold the query, to change their weights or to ask what moved them."""
        return self._listed("features", lambda one: str(one["name"]), model, query=query, limit=limit)

    def words(self, query: str = "", *, model: str | None = None, limit: int = 20) -> tuple[str, ...]:
        """Words of a model that hold the query, those that begin with it first."""
        return self._listed("words", str, model, query=query, limit=limit)

    def strings(self, cell: str, *, model: str | None = None, limit: int = 8, seed: int = 0) -> tuple[str, ...]:
        """Strings drawn from a cell of an open vocabulary, as `next` names it."""
        return self._listed("strings", lambda one: str(one["word"]), model, cell=cell, limit=limit, seed=seed)

    def health(self) -> Health:
        """Whether the server is there; one that is stopping says so, and is no error."""
        return self._transport.ask("/v1/health", Health.model_validate, also=503)

    def _ask(self, what: str, read: Callable[[Json], Read], prefix: Prefix, query: QueryOptions, **own: Any) -> Read:
        return self._transport.ask(f"/v1/{what}", read, _query(query, prefix) | own)

    def _listed(self, what: str, read: Callable[[Any], str], model: str | None, **asked: str | int) -> tuple[str, ...]:
        name = self.models()[0].name if model is None else model
        path = f"/v1/models/{quote(name, safe='')}/{what}?{urlencode(asked)}"
        return self._transport.ask(path, lambda found: tuple(map(read, found[what])))


class Writing(Iterator[Written]):
    """A text while it is written: iterate over its words, or `finish()` it; dropped early, the server stops writing."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange, self._events = exchange, exchange.events()
        self.result: Finished | None = None  # once the text has ended
        found = exchange.response.headers.get_content_type()
        if found != "text/event-stream":
            self.close()
            raise exchange.unreadable("a stream of events", found)

    def __next__(self) -> Written:
        if self.result is not None:
            raise StopIteration
        for name, data in self._events:
            match name:
                case "word":
                    return self._exchange.parsed(data, Written.model_validate)
                case "done":
                    self.result = self._exchange.parsed(data, Finished.model_validate)
                    self.close()
                    raise StopIteration
                case "error":
                    self.close()
                    raise self._exchange.parsed(data, _error)
                case _:
                    self._exchange.parsed(data, dict)  # of a later version, and JSON all the same
        raise self._exchange.transport.broken(EOFError("the stream ended before the text did"))

    def finish(self) -> Finished:
        """The whole text, when it has ended."""
        for _ in self:
            pass
        assert self.result is not None  # or __next__ would have raised
        return self.result

    def close(self) -> None:
        self._exchange.close()

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _query(query: QueryOptions, prefix: Prefix | None = None) -> dict[str, Any]:
    """The fields that all questions have; what was not said is left to the server."""
    said: dict[str, Any] = {name: value for name, value in query.items() if name != "changes" and value is not None}
    if prefix is not None:
        said["prefix"] = prefix if isinstance(prefix, str) else list(prefix)
    return said | {"changes": [asdict(change) for change in _changes(query.get("changes", ()))]}


def _changes(given: Mapping[str, str] | Sequence[str | Change]) -> list[Change]:
    if isinstance(given, str):
        raise ConfigError(f"a list of changes is required, found one string: write [{given!r}]")
    if not isinstance(given, Mapping):
        return [one if isinstance(one, Change) else Change.parse(one) for one in given]
    for value in given.values():
        if not isinstance(value, str):  # a number would not say whether it is added or set
            raise ConfigError(
                f"a change is written as '+0.5', '-0.5', '*0.5' or '0.5', with its quotes; found {value!r}"
            )
    return [Change.parse(f"{name}={value}") for name, value in given.items()]
