"""The HTTP API in one process: answers of the real engine, and refusals in one form."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

import llrnn
from llrnn.inference.explanation import Explanation
from llrnn.model.network import LLRNN
from llrnn.serve.app import EVENTS, create_app
from llrnn.serve.engine import Engine
from llrnn.serve.messages import Refused
from llrnn.serve.served import Served
from served_models import PREFIX, tiny_model
from web_client import FakeEngine, client_of, refused

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return tiny_model()


@pytest.fixture(scope="module")
def client(model: LLRNN) -> Iterator[TestClient]:
    with client_of(create_app(Engine([Served("tiny", model)]))) as one:
        yield one


@pytest.fixture(autouse=True)
def it_still_answers(client: TestClient) -> Iterator[None]:
    yield
    assert client.get("/v1/health").json()["status"] == "ok"


# --- answers: those of the library ---------------------------------------------------------------------------------


def test_next_words_are_the_models_own(client: TestClient, model: LLRNN) -> None:
    found = client.post("/v1/next", json={"prefix": PREFIX, "top": 5, "words": ["grande", "grand"]}).json()
    assert found["prefix"] == PREFIX.split()
    assert found["total"] == pytest.approx(1.0, abs=1e-5)
    assert [one["log_p"] for one in found["top"]] == sorted((one["log_p"] for one in found["top"]), reverse=True)
    for one in (*found["top"], *found["words"]):
        wanted = llrnn.explain(model, prefix=PREFIX, word=one["word"])
        assert isinstance(wanted, Explanation)
        assert one["log_p"] == pytest.approx(wanted.log_p, abs=1e-4)
        assert one["p"] == pytest.approx(math.exp(one["log_p"]))
    assert [one["word"] for one in found["words"]] == ["grande", "grand"]


@pytest.mark.parametrize("letters", ["", "gr", "Gr", "qqq"])
def test_completions_are_those_of_the_library(client: TestClient, model: LLRNN, letters: str) -> None:
    asked = {"prefix": PREFIX, "letters": letters, "k": 4}
    found = client.post("/v1/complete", json={**asked, "mass": True}).json()
    wanted = llrnn.complete(model, PREFIX, letters, k=4)
    assert (found["prefix"], found["letters"]) == (PREFIX.split(), letters)
    assert [one["word"] for one in found["best"]] == [one.word for one in wanted]
    assert [one["log_p"] for one in found["best"]] == pytest.approx([one.log_p for one in wanted], abs=1e-4)
    assert [one["share"] for one in found["best"]] == pytest.approx([wanted.share(one) for one in wanted], abs=1e-4)
    assert found["log_mass"] == (pytest.approx(wanted.log_mass, abs=1e-4) if found["best"] else None)
    without = client.post("/v1/complete", json=asked).json()
    assert without == {**found, "log_mass": None, "best": [{**one, "share": None} for one in found["best"]]}
    refused(client.post("/v1/complete", json={**asked, "k": 51}), 422, "top_too_large")


def test_a_prefix_is_a_string_or_a_list(client: TestClient) -> None:
    texts = [f"  {PREFIX}\n", PREFIX.split()]
    first, second = (client.post("/v1/next", json={"prefix": text}).json() for text in texts)
    assert first == second


def test_an_explanation_adds_up(client: TestClient) -> None:
    found = client.post("/v1/explain", json={"prefix": PREFIX, "word": "grande", "rival": "grand"}).json()
    word = found["word"]
    assert word["log_b"] + sum(term["share"] for term in word["terms"]) - word["log_z"] == pytest.approx(
        word["log_p"], abs=1e-4
    )
    assert found["comparison"]["log_ratio"] == pytest.approx(word["log_p"] - found["rival"]["log_p"], abs=1e-4)


def test_a_score_is_the_sum_of_its_words(client: TestClient) -> None:
    (one,) = client.post("/v1/score", json={"texts": [PREFIX]}).json()["scores"]
    assert one["words"] == [*PREFIX.split(), "</s>"]
    assert sum(one["log_p"]) == pytest.approx(one["log_prob"])
    first = client.post("/v1/next", json={"prefix": "", "words": ["la"]}).json()["words"][0]
    assert one["log_p"][0] == pytest.approx(first["log_p"], abs=1e-4)


def test_a_change_moves_a_weight(client: TestClient) -> None:
    asked = {"prefix": PREFIX, "feature": "Gender:Fem"}
    before = client.post("/v1/influence", json=asked).json()["weight"]
    changes = [{"feature": "Gender:*", "scale": 2.0, "offset": 1}]
    after = client.post("/v1/influence", json={**asked, "changes": changes}).json()["weight"]
    assert after == pytest.approx(2 * before + 1, abs=1e-5)


def events_of(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_stream_has_words_and_an_end(client: TestClient) -> None:
    asked = {"prefix": "la maison", "max_words": 6, "seed": 4}
    response = client.post("/v1/generate", json=asked)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = events_of(response.text)
    for name, data in events:
        TypeAdapter(EVENTS[name]).validate_python(data)
    *words, (last, end) = events
    assert last == "done"
    assert [data["word"] for _, data in words] == end["words"]
    assert [data["index"] for _, data in words] == list(range(len(words)))
    assert events == events_of(client.post("/v1/generate", json=asked).text)
    assert events != events_of(client.post("/v1/generate", json={**asked, "seed": 5}).text)
    whole = client.post("/v1/generate", json={**asked, "stream": False}).json()
    assert whole["words"] == [data for _, data in words]
    assert whole["text"] == end["text"]


def test_before_the_first_word_a_refusal_has_its_own_status(client: TestClient) -> None:
    for stream in (True, False):
        response = client.post("/v1/generate", json={"prefix": "zzz", "stream": stream})
        assert "zzz" in refused(response, 400, "unknown_word")


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "data", "status", "code"),
    [
        ("next", {"model": "zzz"}, 404, "unknown_model"),
        ("next", {"background": "zzz"}, 404, "unknown_background"),
        ("next", {"prefix": "zzz"}, 400, "unknown_word"),
        ("next", {"words": ["zzz"]}, 400, "unknown_word"),
        ("next", {"changes": [{"feature": "zzz"}]}, 404, "unknown_feature"),
        ("next", {"changes": [{"feature": "zzz*"}]}, 404, "unknown_feature"),
        ("explain", {"word": "zzz"}, 400, "unknown_word"),
        ("explain", {"word": "la", "rival": "zzz"}, 400, "unknown_word"),
        ("influence", {"feature": "zzz"}, 404, "unknown_feature"),
        ("score", {"texts": ["zzz"]}, 400, "unknown_word"),
        ("next", {"condition": "inform(name=x)"}, 409, "condition"),
        ("score", {"texts": ["la"], "conditions": []}, 409, "condition"),
        ("next", {"prefix": 3}, 422, "invalid"),
        ("next", {"prefix": None}, 422, "invalid"),
        ("next", {"prefix": ["la", 3]}, 422, "invalid"),
        ("next", {"prefix": "la\0"}, 422, "invalid"),
        ("next", {"top": True}, 422, "invalid"),
        ("next", {"top": "3"}, 422, "invalid"),
        ("next", {"top": 2.5}, 422, "invalid"),
        ("next", {"top": -1}, 422, "invalid"),
        ("next", {"unknown": 1}, 422, "invalid"),
        ("next", {"changes": [{"feature": "POS:VERB", "scale": "2"}]}, 422, "invalid"),
        ("next", {"changes": [{"feature": "POS:VERB", "scale": True}]}, 422, "invalid"),
        ("next", {"changes": [{"feature": "POS:VERB", "scale": 1e7}]}, 422, "invalid"),
        ("next", {"changes": [{"scale": 1}]}, 422, "invalid"),
        ("next", [], 422, "invalid"),
        ("explain", {}, 422, "invalid"),
        ("generate", {"max_words": 0}, 422, "invalid"),
        ("generate", {"seed": -1}, 422, "invalid"),
        ("generate", {"stream": 1}, 422, "invalid"),
        ("generate", {"beam": 0}, 422, "invalid"),
        ("generate", {"temperature": 0}, 422, "invalid"),
        ("generate", {"top_p": 1.5}, 422, "invalid"),
        ("score", {"texts": []}, 422, "invalid"),
    ],
)
def test_refusals(client: TestClient, path: str, data: Any, status: int, code: str) -> None:
    assert refused(client.post(f"/v1/{path}", content=json.dumps(data), headers=JSON), status, code)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed_json"),
        (b"{", 400, "malformed_json"),
        (b'{"top": 1} x', 400, "malformed_json"),
        (b'{"prefix": "\xff"}', 400, "malformed_json"),
        (b'{"prefix": "\\ud800"}', 400, "malformed_json"),
        (b'{"\\udfff": 1}', 400, "malformed_json"),
        (b"[" * 100_000, 400, "malformed_json"),
        (b'{"prefix": ' + b"[" * 100_000, 400, "malformed_json"),
        (b'{"top": ' + b"9" * 5000 + b"}", 400, "malformed_json"),
        (b'{"changes": [{"feature": "POS:VERB", "scale": NaN}]}', 422, "invalid"),
        (b'{"changes": [{"feature": "POS:VERB", "offset": Infinity}]}', 422, "invalid"),
        (b'{"changes": [{"feature": "POS:VERB", "offset": 1e999}]}', 422, "invalid"),
        (b'{"prefix": "\\u0000"}', 422, "invalid"),
        (b"null", 422, "invalid"),
        (b'"la"', 422, "invalid"),
    ],
)
def test_bodies_that_are_no_request(client: TestClient, body: bytes, status: int, code: str) -> None:
    message = refused(client.post("/v1/next", content=body, headers=JSON), status, code)
    assert len(message) < 300


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "é"])
def test_a_body_must_be_called_json(client: TestClient, kind: str | None) -> None:
    headers = {} if kind is None else {b"Content-Type": kind.encode()}
    refused(client.post("/v1/next", content=b"{}", headers=headers), 415, "not_json")
    assert client.post(
        "/v1/next", content=b"{}", headers={"Content-Type": "Application/JSON; charset=utf-8"}
    ).is_success


def test_paths_and_methods_that_are_not_there(client: TestClient) -> None:
    for path in ("/v1", "/v1/", "/v2/next", "/v1/next/", "/docs", "/redoc", "/v1/chat/completions", "/openapi.json"):
        refused(client.get(path), 404, "not_found")
    for method, path, allowed in (
        ("GET", "/v1/next", "POST"),
        ("POST", "/v1/health", "GET"),
        ("OPTIONS", "/v1/next", "POST"),
    ):
        response = client.request(method, path)
        refused(response, 405, "method_not_allowed")
        assert response.headers["allow"] == allowed
        assert not any(name.startswith("access-control") for name in response.headers)


def test_head_is_get_without_a_body(client: TestClient) -> None:
    got, head = client.get("/v1/models"), client.head("/v1/models")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    assert client.head("/v1/next").status_code == 405


def test_a_defect_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine()
    engine.error = RuntimeError("a secret")
    with client_of(create_app(engine)) as client, caplog.at_level(logging.ERROR):
        message = refused(client.post("/v1/next", json={}), 500, "internal")
        events = events_of(client.post("/v1/generate", json={"seed": 2}).text)
        first = client.post("/v1/generate", json={"seed": 0})
    assert "secret" not in message
    assert [name for name, _ in events] == ["word", "word", "error"]
    assert events[-1][1]["code"] == "internal"
    refused(first, 500, "internal")
    assert caplog.text.count("RuntimeError: a secret") == 3


def test_what_ends_a_stream_is_told_in_it() -> None:
    engine = FakeEngine()
    engine.error = Refused(409, "impossible", "nothing can follow")
    with client_of(create_app(engine)) as client:
        events = events_of(client.post("/v1/generate", json={"seed": 1}).text)
    assert events[-1] == ("error", engine.error.body())
