"""Every limit of the server, taken from its table: what lies beyond it gets the status, code and sentence there.

A limit that is added without a way to break it here fails `test_every_limit_is_broken_here`.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from llrnn.ground.errors import ConfigError
from llrnn.serve.app import create_app
from llrnn.serve.messages import LIMITS, Limits, Refused, refusal_of
from web_client import Address, FakeEngine, Mentioned, answer_on, post, running, until

SMALL = Limits(body_bytes=2000, header_bytes=3000, in_flight=4, connections=6, client_connections=5)
# limits of time on a server of their own, so that a busy machine cannot meet them where something else is tested
HURRIED = replace(SMALL, body_seconds=0.8, header_seconds=0.8, seconds=1.5)
SERVER_LIMITS = tuple(one.name for one in fields(Limits))
ASKED = b'{"prefix":""}'


@pytest.fixture(scope="module")
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture(scope="module")
def server(engine: FakeEngine) -> Iterator[Address]:
    with running(create_app(engine)) as address:
        yield address


@pytest.fixture(scope="module")
def slow() -> FakeEngine:
    return FakeEngine(seconds=0.02, pause=0.05)  # 500 words take longer than any test


@pytest.fixture(scope="module")
def small(slow: FakeEngine) -> Iterator[Address]:
    with running(create_app(slow, SMALL)) as address:
        yield address


@pytest.fixture(scope="module")
def hurried(slow: FakeEngine) -> Iterator[Address]:
    with running(create_app(slow, HURRIED)) as address:
        yield address


@pytest.fixture(autouse=True)
def each_server_still_answers(server: Address, small: Address, hurried: Address, slow: FakeEngine) -> Iterator[None]:
    yield
    until(lambda: slow.begun == slow.ended)
    until(server.is_well)
    until(small.is_well)  # as soon as it has seen that other connections were closed
    assert small.ask("POST", "/v1/next", {}).status == 200
    until(lambda: hurried.ask("POST", "/v1/next", {}).status == 200)  # 408 where the machine has no time for us


# --- limits of fields ----------------------------------------------------------------------------------------------

STEER = {"feature": "*"}
# name of the limit: endpoint, what is beyond the limit, what is at it, and what is found beyond
FIELDS: dict[str, tuple[str, dict[str, Any], dict[str, Any], int]] = {
    "prefix_words": ("next", {"prefix": ["a"] * 1001}, {"prefix": ["a"] * 1000}, 1001),
    "prefix_characters": (
        "explain",
        {"prefix": "é" * 20_001, "word": ""},
        {"prefix": "é" * 20_000, "word": ""},
        20_001,
    ),
    "max_words": ("generate", {"max_words": 501}, {"max_words": 500}, 501),
    "words": ("next", {"words": ["a"] * 1001}, {"words": ["a"] * 1000}, 1001),
    "new_words": (
        "next",
        {"new_words": [f"z{n}" for n in range(101)]},
        {"new_words": [f"z{n}" for n in range(100)]},
        101,
    ),
    "top": ("next", {"top": 1001}, {"top": 1000}, 1001),
    "beam": ("write", {"conditions": ["a"], "beam": 21}, {"conditions": ["a"], "beam": 20}, 21),
    "alternatives": ("generate", {"alternatives": 21}, {"alternatives": 20}, 21),
    "completions": ("complete", {"k": 51}, {"k": 50}, 51),
    "texts": ("score", {"texts": ["a"] * 65}, {"texts": ["a"] * 64}, 65),
    "one_text_words": ("score", {"texts": ["a", ["a"] * 1001]}, {"texts": ["a", ["a"] * 1000]}, 1001),
    "influence_words": (
        "influence",
        {"feature": "", "prefix": ["a"] * 201},
        {"feature": "", "prefix": ["a"] * 200},
        201,
    ),
    "text_characters": ("score", {"texts": ["a" * 20_001]}, {"texts": ["a" * 20_000]}, 20_001),
    "condition_characters": ("next", {"condition": "a" * 4001}, {"condition": "a" * 4000}, 4001),
    "changes": ("influence", {"feature": "", "changes": [STEER] * 201}, {"feature": "", "changes": [STEER] * 200}, 201),
    "characters": ("explain", {"word": "a" * 1001}, {"word": "a" * 1000}, 1001),
}


@pytest.mark.parametrize("name", FIELDS)
def test_limits_of_fields(server: Address, name: str) -> None:
    path, beyond, at, found = FIELDS[name]
    row = LIMITS[name]
    said = server.ask("POST", f"/v1/{path}", beyond)
    assert said.status == row.status == 422
    field = next(name for name, value in beyond.items() if value != at[name])
    assert said.json == row.refused(found=found, field=field).body()
    assert f"{row.most:,}" in said.json["message"]
    assert f"{found:,}" in said.json["message"]
    assert server.ask("POST", f"/v1/{path}", at).status == 200


@pytest.mark.parametrize(
    ("path", "data", "limit"),
    [
        ("next", {"prefix": ["a" * 1001]}, "characters"),
        ("next", {"words": ["a" * 1001]}, "characters"),
        ("next", {"model": "a" * 1001}, "characters"),
        ("next", {"background": "a" * 1001}, "characters"),
        ("next", {"changes": [{"feature": "a" * 1001}]}, "characters"),
        ("explain", {"word": "", "rival": "a" * 1001}, "characters"),
        ("influence", {"feature": "a" * 1001}, "characters"),
        ("score", {"texts": ["a" * 20_001]}, "text_characters"),
        ("score", {"texts": [["a" * 1001]]}, "characters"),
        ("score", {"texts": [["a"] * 1001]}, "one_text_words"),
        ("score", {"texts": [""], "conditions": ["a" * 4001]}, "condition_characters"),
        ("explain", {"word": "", "condition": "a" * 4001}, "condition_characters"),
        ("score", {"texts": [""], "conditions": [None] * 65}, "texts"),
    ],
)
def test_a_limit_holds_wherever_its_kind_of_field_stands(
    server: Address, path: str, data: dict[str, Any], limit: str
) -> None:
    said = server.ask("POST", f"/v1/{path}", data)
    assert said.status == 422
    assert said.json["code"] == LIMITS[limit].code
    assert said.json["message"].split(",")[0] == LIMITS[limit].refused(field=[*data][-1]).message.split(",")[0]


@pytest.mark.parametrize(
    ("path", "limit", "name"),
    [("features", "listing", "query"), ("words", "listing", "query"), ("strings", "strings", "cell")],
)
def test_limit_of_listings(server: Address, path: str, limit: str, name: str) -> None:
    row = LIMITS[limit]
    said = server.ask("GET", f"/v1/models/fake/{path}?{name}=a&limit={row.most + 1}")
    assert (said.status, said.json) == (422, row.refused(found=row.most + 1).body())
    assert server.ask("GET", f"/v1/models/fake/{path}?{name}=a&limit={row.most}").status == 200
    assert server.ask("GET", f"/v1/models/fake/{path}?{name}={'a' * 1001}").json["code"] == "text_too_long"


@pytest.mark.parametrize(
    "body",
    [
        b'{"texts":[' + b"[]," * 6001 + b"[]]}",
        b'{"words":[' + b'"a",' * 6001 + b'""]}',
        b'{"prefix":"' + b"," * 6001,
    ],
)
def test_a_body_of_very_many_things_is_not_even_read(server: Address, body: bytes) -> None:
    said = server.ask("POST", "/v1/next", body)
    row = LIMITS["body_commas"]
    assert (said.status, said.json["code"]) == (row.status, row.code) == (413, "body_too_large")
    assert "6,000 commas, found 6,00" in said.json["message"]


def test_of_very_many_mistakes_only_the_number_is_told(server: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[int] = []

    def counted(wrong: Sequence[Any]) -> Refused:
        listed.append(len(wrong))
        return refusal_of(wrong)

    monkeypatch.setattr("llrnn.serve.messages.refusal_of", counted)
    for body in (b"{" + b",".join(b'"f%d":1' % n for n in range(3000)) + b"}", b'{"words":[' + b"1," * 3000 + b"1]}"):
        said = server.ask("POST", "/v1/next", body)
        assert (said.status, said.json["code"]) == (422, "invalid")
    assert listed == [1]  # of a list the first one that is wrong; of fields none


# --- limits of the server ------------------------------------------------------------------------------------------


def too_large_body(small: Address) -> Mentioned | None:
    return small.ask("POST", "/v1/next", b" " * 2001)


def slow_body(hurried: Address) -> Mentioned | None:
    return hurried.send(post("/v1/next", len(ASKED), ASKED[:-1]))


def slow_headers(hurried: Address) -> Mentioned | None:
    return hurried.send(post("/v1/next", len(ASKED), b"")[:-2])


def long_headers(small: Address) -> Mentioned | None:
    return small.ask("GET", "/v1/models", X_Long="x" * 3000)


def slow_answer(hurried: Address) -> Mentioned | None:
    return hurried.ask("POST", "/v1/generate", {"max_words": 500, "stream": False})


def too_many_requests(small: Address) -> Mentioned | None:
    """Two streams are all that one client may have of four; they end when their connections do."""
    body = b'{"max_words":500}'
    with small.open() as one, small.open() as other:
        for connection in (one, other):
            connection.sendall(post("/v1/generate", len(body), body))
            assert connection.recv(1)
        return small.ask("POST", "/v1/next", {})


def too_many_connections(small: Address) -> Mentioned | None:
    with ExitStack() as opened:
        for _ in range(SMALL.client_connections):
            opened.enter_context(small.open())
        opened.enter_context(small.open("127.0.0.2"))
        with small.open("127.0.0.2") as one_more:
            return answer_on(one_more)


def too_many_connections_of_a_client(small: Address) -> Mentioned | None:
    with ExitStack() as opened:
        for _ in range(SMALL.client_connections):
            opened.enter_context(small.open())
        with small.open("127.0.0.2") as another:
            another.sendall(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (answer_on(another) or pytest.fail("another client has its place")).status == 200
        with small.open() as one_more:
            return answer_on(one_more)


SERVER: dict[str, Callable[[Address], Mentioned | None]] = {
    "body_bytes": too_large_body,
    "body_seconds": slow_body,
    "header_seconds": slow_headers,
    "header_bytes": long_headers,
    "seconds": slow_answer,
    "in_flight": too_many_requests,
    "connections": too_many_connections,
    "client_connections": too_many_connections_of_a_client,
}


def test_every_limit_is_broken_here() -> None:
    of_models = {"pattern_names", "work", "text_words"}  # broken in test_engine.py and test_natural_text.py
    assert {*FIELDS, *SERVER, "listing", "strings", "body_commas", *of_models} == set(LIMITS)
    assert set(SERVER) == set(SERVER_LIMITS)


def refused_so_far(address: Address, code: str) -> int:
    """As the metrics count it; while there are too many connections they cannot be asked."""
    found = re.search(rf'llrnn_refused_total{{code="{code}"}} (\d+)', address.ask("GET", "/v1/metrics").body.decode())
    return 0 if found is None else int(found[1])


@pytest.mark.parametrize("name", SERVER)
def test_limits_of_the_server(small: Address, hurried: Address, name: str) -> None:
    row = LIMITS[name]
    limits, address = (HURRIED, hurried) if "seconds" in name else (SMALL, small)
    before = refused_so_far(address, row.code)
    said = SERVER[name](address)
    assert said is not None
    until(lambda: refused_so_far(address, row.code) > before)
    expected = limits.refused(name, found=2001)
    assert (said.status, said.json["code"]) == (row.status, row.code)
    assert said.json["message"] == expected.message
    for header, value in expected.headers.items():
        assert said.headers[header.lower()] == value
    assert ("retry-after" in said.headers) == (row.status in (429, 503))


def test_the_guide_has_every_limit() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf8")
    for row in LIMITS.values():
        assert f"| {row.meaning} | {row.most:,} | {row.status} | `{row.code}` |" in guide


@pytest.mark.parametrize("name", SERVER_LIMITS)
def test_limits_must_be_finite_and_above_zero(name: str) -> None:
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match=name):
            replace(Limits(), **{name: wrong})  # type: ignore[arg-type]


# --- bodies and time, in the ways that clients break them ----------------------------------------------------------


@pytest.mark.parametrize("is_chunked", [False, True])
def test_ten_megabytes_are_refused_and_the_connection_lives(server: Address, is_chunked: bool) -> None:
    size = 10_000_000
    with server.open() as connection:
        if is_chunked:
            head = post("/v1/next", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
            connection.sendall(head + b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n")
        else:
            connection.sendall(post("/v1/next", size, b"x" * size))
        said = answer_on(connection)
        assert said is not None
        assert (said.status, said.json["code"]) == (413, "body_too_large")
        connection.sendall(post("/v1/next", len(ASKED), ASKED))
        again = answer_on(connection)
        assert again is not None
        assert again.status == 200


def test_a_declared_length_is_refused_before_the_body_comes(server: Address) -> None:
    said = server.send(post("/v1/next", 10**15))
    assert said is not None
    assert said.status == 413


def test_a_body_that_drips_is_cut_off(hurried: Address) -> None:
    """Each byte is early enough; all of them are not."""
    with hurried.open() as connection:
        connection.sendall(post("/v1/next", 100))
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.05):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        said = answer_on(connection)
        stop.set()
        thread.join()
    assert said is not None
    assert (said.status, said.json["code"]) == (408, "slow_client")


def test_headers_that_drip_are_cut_off(hurried: Address) -> None:
    assert hurried.send(*(bytes([one]) for one in post("/v1/next", 2)[:30]), pause=0.04) is not None
    assert hurried.send(b"") is None  # nothing asked, nothing answered, but closed


def test_headers_that_never_end_are_cut_off(small: Address) -> None:
    said = small.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 4000)
    assert said is not None
    assert (said.status, said.json["code"]) == (431, "headers_too_large")


def test_a_second_request_on_a_connection_has_its_time_too(hurried: Address) -> None:
    def second_after_an_answer() -> Mentioned | None:
        with hurried.open() as connection:
            connection.sendall(post("/v1/next", 2, b"{}"))
            first = answer_on(connection)
            if first is None or first.status != 200:
                return None  # the machine had no time for us: once more
            connection.sendall(post("/v1/next", 2)[:20])
            return answer_on(connection)

    answers: list[Mentioned | None] = []
    until(lambda: answers.append(second_after_an_answer()) or answers[-1] is not None)  # type: ignore[func-returns-value]
    assert answers[-1] is not None
    assert answers[-1].status == 408


def test_a_stream_that_takes_too_long_ends_with_an_error(hurried: Address) -> None:
    said = hurried.ask("POST", "/v1/generate", {"max_words": 500})
    assert said.status == 200
    *words, last = said.body.decode().strip().split("\n\n")
    assert words
    name, data = last.split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: ")) == HURRIED.refused("seconds").body()


def everything_on(connection: socket.socket) -> bytes:
    """Until the server closes, or resets the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(2**20):
            found += part
    return found


def test_a_client_that_does_not_read_is_cut_off() -> None:
    """Words of 100,000 letters fill every buffer on the way."""
    engine = FakeEngine(length=100_000)
    with running(create_app(engine, replace(SMALL, seconds=1.5))) as address:
        with address.open() as connection:
            connection.sendall(post("/v1/generate", 17, b'{"max_words":500}'))
            until(lambda: engine.begun == 1)
            until(lambda: engine.ended == 1)
            assert not everything_on(connection).endswith(b"0\r\n\r\n")  # cut, which is no end
        assert address.is_well()


def test_a_client_that_vanishes_ends_the_generation(slow: FakeEngine, small: Address) -> None:
    for stream in (True, False):
        body = json.dumps({"max_words": 500, "stream": stream}).encode()
        before = slow.begun
        with small.open() as connection:
            connection.sendall(post("/v1/generate", len(body), body))
            until(lambda before=before: slow.begun > before)  # type: ignore[misc]
        until(lambda: slow.begun == slow.ended)
