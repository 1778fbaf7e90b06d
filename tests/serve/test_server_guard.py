"""What stands before the endpoints: token and hosts, the page without a path to any file, metrics."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from llrnn.serve import guard
from llrnn.serve.app import PageFile, create_app, page_files
from llrnn.serve.engine import Engine
from llrnn.serve.guard import Gate, Metrics, _Answer
from llrnn.serve.messages import Limits, Refused
from llrnn.serve.served import SCOPE, RequestScope, Served
from served_models import tiny_model
from web_client import FakeEngine, client_of, refused

PAGE = {
    "index.html": PageFile(b"<!DOCTYPE html>", "text/html; charset=utf-8", '"1"'),
    "page.js": PageFile(b"1", "text/javascript; charset=utf-8", '"2"'),
}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(create_app(FakeEngine(), page=PAGE)) as one:
        yield one


@pytest.fixture(autouse=True)
def it_still_answers(client: TestClient) -> Iterator[None]:
    yield
    assert client.get("/v1/health").json()["status"] == "ok"


# --- who may ask ---------------------------------------------------------------------------------------------------


def test_a_token_is_needed_for_all_but_health_and_the_page() -> None:
    with client_of(create_app(FakeEngine(), token="right", page=PAGE)) as client:
        for path in ("/", "/page/page.js", "/v1/health", "/v1/ready", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        for given in (
            None,
            "Bearer wrong",
            "Bearer",
            "right",
            "Basic right",
            "Bearer right right",
            "Bearer righ",
            "Bearer é",
        ):
            headers = {} if given is None else {b"Authorization": given.encode()}
            for path in ("/v1/models", "/v1/metrics", "/v1/openapi.json", "/v1/nothing", "/v1/models/x/words"):
                response = client.get(path, headers=headers)
                refused(response, 401, "unauthorized")
                assert response.headers["www-authenticate"] == "Bearer"
            refused(client.post("/v1/next", json={}, headers=headers), 401, "unauthorized")
        twice = client.get("/v1/models", headers=[("Authorization", "Bearer right"), ("Authorization", "Bearer right")])
        refused(twice, 401, "unauthorized")
        for given in ("Bearer right", "bearer right"):
            assert client.get("/v1/models", headers={"Authorization": given}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::2]", "a:b:c"]
)
def test_other_hosts_are_refused(client: TestClient, host: str) -> None:
    for path in ("/", "/v1/health", "/v1/models"):
        refused(client.get(path, headers={"Host": host}), 400, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8017", "127.0.0.1:1", "[::1]", "[::1]:8017"])
def test_our_own_hosts_are_not(client: TestClient, host: str) -> None:
    assert client.get("/v1/health", headers={"Host": host}).status_code == 200


def test_other_hosts_can_be_allowed() -> None:
    with client_of(create_app(FakeEngine(), hosts={"Models.Example"})) as client:
        assert client.get("/v1/health", headers={"Host": "models.example:80"}).status_code == 200
        refused(client.get("/v1/health"), 400, "wrong_host")


def test_a_stopping_server_says_so() -> None:
    app = create_app(FakeEngine())
    with client_of(app) as client:
        app.state.gate.stopping = True
        health = client.get("/v1/health")
        assert (health.status_code, health.json()["status"]) == (200, "stopping")
        for path in ("/v1/ready", "/readyz"):
            assert (client.get(path).status_code, client.get(path).json()) == (503, {"status": "stopping"})
        response = client.post("/v1/next", json={})
        refused(response, 503, "stopping")
        assert response.headers["retry-after"] == "5"


# --- the page ------------------------------------------------------------------------------------------------------


def test_the_page_and_its_headers(client: TestClient) -> None:
    found = client.get("/")
    assert (found.content, found.headers["content-type"]) == (b"<!DOCTYPE html>", "text/html; charset=utf-8")
    assert "default-src 'self'" in found.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in found.headers["content-security-policy"]
    assert found.headers["referrer-policy"] == "no-referrer"
    assert found.headers["cache-control"] == "no-cache"
    assert client.get("/page/page.js").headers["content-type"] == "text/javascript; charset=utf-8"
    again = client.get("/", headers={"If-None-Match": found.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name",
    [
        "..%2findex.html",
        "%2e%2e/app.py",
        "..%2f..%2fpyproject.toml",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "index.html%00",
        "%00",
        "",
        "index.html/",
        "INDEX.HTML",
        "a" * 3000,
        "..\\app.py",
        "%ff%fe",
    ],
)
def test_no_path_opens_a_file(client: TestClient, name: str) -> None:
    refused(client.get(f"/page/{name}"), 404, "not_found")


def test_only_files_of_known_types_belong_to_the_page(tmp_path: Path) -> None:
    for name in ("index.html", "a.js", "notes.txt", ".hidden"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder.js").mkdir()
    files = page_files(tmp_path)
    assert sorted(files) == ["a.js", "index.html"]
    assert files["a.js"].content == b"a.js"
    assert page_files(tmp_path / "nowhere") == {}


# --- metrics -------------------------------------------------------------------------------------------------------


def sample(text: str, series: str) -> float:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{series} ")]
    return float(line.rpartition(" ")[2])


def test_metrics_count_what_happens() -> None:
    with client_of(create_app(Engine([Served("tiny", tiny_model(60))]))) as client:
        for _ in range(3):
            client.post("/v1/next", json={})
        client.post("/v1/next", json={"prefix": "zzz"})
        client.get("/v1/nothing/at/all")
        words = client.post("/v1/generate", json={"max_words": 4, "stream": False}).json()["words"]
        response = client.get("/v1/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = response.text
    assert sample(text, 'llrnn_requests_total{endpoint="/v1/next",status="200"}') == 3
    assert sample(text, 'llrnn_requests_total{endpoint="/v1/next",status="400"}') == 1
    assert sample(text, 'llrnn_requests_total{endpoint="other",status="404"}') == 1
    assert sample(text, 'llrnn_refused_total{code="unknown_word"}') == 1
    assert sample(text, 'llrnn_request_seconds_count{endpoint="/v1/next"}') == 4
    assert sample(text, 'llrnn_request_seconds_bucket{endpoint="/v1/next",le="+Inf"}') == 4
    assert sample(text, "llrnn_words_generated_total") == len(words)
    assert sample(text, "llrnn_step_rows_count") >= 4
    assert sample(text, "llrnn_requests_in_flight") == 0
    assert 1e6 < sample(text, "process_resident_memory_bytes") < 1e11


def test_one_client_never_has_all_places() -> None:
    gate = Gate(Limits(in_flight=64))
    with ExitStack() as held:

        def places_of(address: str) -> int:
            SCOPE.set(RequestScope((address, 1)))
            before = gate.inside
            with contextlib.suppress(Refused):
                for _ in range(64):
                    held.enter_context(gate.place())
            return gate.inside - before

        assert contextvars.copy_context().run(places_of, "10.0.0.1") == 32
        assert contextvars.copy_context().run(places_of, "10.0.0.2") == 21
        assert gate.inside == 53
    assert gate.inside == 0
    assert not gate._inside_of


def test_eight_clients_leave_room_for_another() -> None:
    gate = Gate(Limits(in_flight=64))
    clients = [f"10.0.0.{n}" for n in range(8)]
    with ExitStack() as held:
        for address in [*clients] * 64:  # each takes what it can get, by turns
            SCOPE.set(RequestScope((address, 1)))
            with contextlib.suppress(Refused):
                held.enter_context(gate.place())
        SCOPE.set(RequestScope(("10.0.0.99", 1)))
        with gate.place():
            pass


@pytest.mark.parametrize("error", [RuntimeError("unable to perform; the handler is closed"), ConnectionResetError()])
def test_a_client_that_leaves_is_no_defect_of_the_server(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(FakeEngine(), page=PAGE)

    async def send(message: object) -> None:
        raise error

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/v1/health", "query_string": b"", "headers": headers}
    asyncio.run(app({**scope, "client": ("127.0.0.1", 1)}, receive, send))
    assert not caplog.records
    assert b'status="none"' in app.state.metrics.text()


def test_a_send_that_fails_otherwise_is_a_defect(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError, match="something else"):
        _Answer(_failing, has_body=True).send({"type": "http.response.body"}).send(None)


async def _failing(message: object) -> None:
    raise RuntimeError("something else")


def test_a_body_that_is_refused_for_its_size_is_read_before_the_answer() -> None:
    """A connection that is closed with bytes on their way is reset, and nobody sees the answer."""
    given = [{"type": "http.request", "body": b"x" * 1000, "more_body": n < 4} for n in range(5)]
    left = iter(given)

    async def receive() -> Any:
        return next(left)

    scope = {"type": "http", "headers": [(b"content-type", b"application/json"), (b"content-length", b"5000")]}
    with pytest.raises(Refused, match="body"):
        asyncio.run(guard.read_body(Request(scope, receive), Limits(body_bytes=100)))
    assert next(left, None) is None


def test_an_answer_to_a_client_that_has_left_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    """Also where the answer is a refusal."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise Refused(422, "wrong", "something is wrong")

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: Any) -> None:
        raise ConnectionResetError

    made = guard.Guard(app, gate=guard.Gate(Limits()), metrics=Metrics(lambda: 0.0), hosts={"localhost"})
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"host", b"localhost")]}
    asyncio.run(made(scope, receive, send))
    assert not caplog.records
