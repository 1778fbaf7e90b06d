"""/v1/completions in the form of OpenAI-like servers, /v1/write for conditions, and what containers look for."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

import llrnn
from llrnn.model.network import LLRNN
from llrnn.serve.app import create_app
from llrnn.serve.engine import Engine
from llrnn.serve.messages import CompletionAnswer, ErrorAnswer
from llrnn.serve.served import Files, Served
from served_models import PREFIX, tiny_model
from web_client import client_of


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return tiny_model()


@pytest.fixture(scope="module")
def client(model: LLRNN) -> Iterator[TestClient]:
    with client_of(create_app(Engine([Served("tiny", model)]))) as one:
        yield one


def asked(client: TestClient, **given: Any) -> dict[str, Any]:
    found = client.post("/v1/completions", json={"model": "tiny", **given})
    assert found.status_code == 200, found.text
    TypeAdapter(CompletionAnswer).validate_json(found.content)
    return dict(found.json())


def chunks_of(client: TestClient, **given: Any) -> list[dict[str, Any]]:
    found = client.post("/v1/completions", json={"model": "tiny", "stream": True, **given})
    *lines, last = [line for line in found.text.split("\n\n") if line]
    assert last == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_greedy_text_is_that_of_the_library(client: TestClient, model: LLRNN) -> None:
    found = asked(client, prompt=PREFIX, temperature=0, max_tokens=6)
    (expected,) = llrnn.generate(model, PREFIX, greedy=True, max_words=6)
    (choice,) = found["choices"]
    assert choice["text"] == "".join(f" {word}" for word in expected.words)
    assert choice["finish_reason"] == ("stop" if expected.finished else "length")
    written = len(expected.words)
    assert found["usage"] == {"prompt_tokens": 3, "completion_tokens": written, "total_tokens": 3 + written}
    assert found["object"] == "text_completion"
    assert asked(client, prompt=f"{PREFIX} ", temperature=0, max_tokens=1)["choices"][0]["text"][:1] != " "
    assert asked(client, temperature=0, max_tokens=1)["choices"][0]["text"][:1] != " "


def test_the_same_seed_gives_the_same_text_streamed_or_not(client: TestClient) -> None:
    given = {"prompt": [PREFIX, "le"], "n": 2, "seed": 5, "max_tokens": 8, "logprobs": 3}
    whole = asked(client, **given)
    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
    assert len({choice["text"] for choice in whole["choices"]}) > 1
    chunks = chunks_of(client, **given, stream_options={"include_usage": True})
    assert chunks[-1]["usage"] == whole["usage"]
    for choice in whole["choices"]:
        own = [part for chunk in chunks for part in chunk["choices"] if part["index"] == choice["index"]]
        assert "".join(part["text"] for part in own) == choice["text"]
        assert own[-1]["finish_reason"] == choice["finish_reason"]
        assert [x for part in own for x in part["logprobs"]["tokens"]] == choice["logprobs"]["tokens"]


def test_log_probabilities_are_the_models_own(client: TestClient, model: LLRNN) -> None:
    (choice,) = asked(client, prompt=PREFIX, seed=4, max_tokens=4, logprobs=2)["choices"]
    listed, prefix = choice["logprobs"], PREFIX
    assert len(listed["tokens"]) == 4
    for token, log_p, top, begin in zip(
        listed["tokens"], listed["token_logprobs"], listed["top_logprobs"], listed["text_offset"], strict=True
    ):
        assert choice["text"][begin:].startswith(token)
        found = llrnn.explain(model, prefix=prefix, word=token.strip())
        assert log_p == pytest.approx(found.log_p, abs=1e-4)
        assert len(top) in (2, 3)  # the most probable ones, and the one that was drawn
        assert top[token] == log_p
        assert all(one.startswith(" ") for one in top)
        prefix += token
    assert asked(client, prompt=PREFIX, max_tokens=2)["choices"][0]["logprobs"] is None
    (bare,) = asked(client, prompt=PREFIX, seed=4, max_tokens=4, logprobs=0)["choices"]
    assert bare["logprobs"]["token_logprobs"] == listed["token_logprobs"]
    assert bare["logprobs"]["top_logprobs"] == [
        {token: log_p} for token, log_p in zip(listed["tokens"], listed["token_logprobs"], strict=True)
    ]


def test_a_model_is_described_in_both_forms(client: TestClient) -> None:
    (listed,), (named,) = (client.get("/v1/models").json()[name] for name in ("models", "data"))
    assert client.get("/v1/models/tiny").json() == {**listed, **named}
    assert client.get("/v1/models/other").json()["error"]["code"] == "unknown_model"


def test_a_text_ends_before_a_stop_word(client: TestClient) -> None:
    given = {"prompt": PREFIX, "seed": 4, "max_tokens": 12}
    text = asked(client, **given)["choices"][0]["text"]
    words = text.split()
    assert len(words) > 3
    across = f"{words[1][-1]} {words[2][0]}"  # begins in one word and ends in the next
    for stop in (words[2], f" {words[2]}", across, [words[3], words[2]]):
        first = min(text.find(one) for one in ([stop] if isinstance(stop, str) else stop) if one in text)
        (choice,) = asked(client, **given, stop=stop)["choices"]
        assert (choice["text"], choice["finish_reason"]) == (text[:first], "stop")
        streamed = [part for chunk in chunks_of(client, **given, stop=stop) for part in chunk["choices"]]
        assert "".join(part["text"] for part in streamed) == text[:first]
    assert asked(client, **given, stop="never said")["choices"][0]["text"] == text


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({"prompt": "xyzzy"}, 400, "unknown_word"),
        ({"model": "other"}, 404, "unknown_model"),
        ({"presence_penalty": 0.5}, 422, "invalid"),
        ({"logit_bias": {"1": 2}}, 422, "invalid"),
        ({"suffix": "x"}, 422, "invalid"),
        ({"echo": True}, 422, "invalid"),
        ({"frequency": 1}, 422, "invalid"),
        ({"max_tokens": 501}, 422, "too_many_words"),
        ({"n": 65}, 422, "batch_too_large"),
        ({"prompt": "la " * 1001}, 422, "prefix_too_long"),
        ({"logprobs": 21}, 422, "top_too_large"),
        ({"condition": {"act": "inform"}}, 409, "condition"),
    ],
)
def test_mistakes_are_told_in_the_form_of_these_clients(
    client: TestClient, given: dict[str, Any], status: int, code: str
) -> None:
    found = client.post("/v1/completions", json=given)
    assert (found.status_code, found.json()["error"]["code"]) == (status, code)
    TypeAdapter(ErrorAnswer).validate_json(found.content)
    assert next(iter(given)) in found.json()["message"]  # the field, by its name here
    if status != 422:
        assert client.post("/v1/completions", json={**given, "stream": True}).json()["error"]["code"] == code


def test_a_second_place_for_health_and_metrics(client: TestClient) -> None:
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json() == client.get("/v1/ready").json() == {"status": "ready"}
    assert b"llrnn_requests_total" in client.get("/metrics").content
    with client_of(create_app(Engine([Served("tiny", tiny_model())]), token="a-token")) as guarded:
        assert guarded.get("/healthz").status_code == 200
        assert guarded.get("/metrics").status_code == 401


def test_alternatives_beside_every_word(client: TestClient, model: LLRNN) -> None:
    given = {"prefix": PREFIX, "greedy": True, "max_words": 3, "stream": False, "alternatives": 4}
    for word in client.post("/v1/generate", json=given).json()["words"]:
        assert len(word["alternatives"]) == 4
        assert word["alternatives"][0]["word"] == word["word"]
        assert math.isclose(word["alternatives"][0]["log_p"], word["log_p"], abs_tol=1e-5)


# --- what the operator keeps beside the models -----------------------------------------------------------------------

TOKEN = {"Authorization": "Bearer a-token"}


def test_lists_of_words_are_read_anew_for_the_operator_alone(tmp_path: Path) -> None:
    listed = tmp_path / "words.tsv"
    listed.write_text("cachalot\tPOS:NOUN\t2\n", encoding="utf8")
    served = Served("tiny", tiny_model(), files=Files(words=[listed]))
    with client_of(create_app(Engine([served]), token="a-token")) as client:
        client.headers.update(TOKEN)

        def knows(word: str) -> bool:
            return client.post("/v1/next", json={"words": [word]}).status_code == 200

        assert (knows("cachalot"), knows("narval")) == (True, False)
        listed.write_text("narval\tPOS:NOUN\t2\n", encoding="utf8")
        assert not knows("narval")
        assert client.post("/v1/reload", json={}, headers={"Authorization": "Bearer other"}).status_code == 401
        assert client.post("/v1/reload", json={}).json() == {"reloaded": ["tiny"]}
        assert (knows("cachalot"), knows("narval")) == (False, True)
        listed.write_text("baleine\tPOS:NOTHING\t2\n", encoding="utf8")
        refused = client.post("/v1/reload", json={})
        assert (refused.status_code, refused.json()["code"]) == (409, "reload")
        assert refused.json()["message"].startswith("model tiny: ")
        assert knows("narval")
        listed.unlink()
        assert client.post("/v1/reload", json={}).status_code == 409
        assert client.post("/v1/reload", json={"path": "/etc/passwd"}).status_code == 422
    with client_of(create_app(Engine([Served("tiny", tiny_model())]))) as open_to_all:
        said = open_to_all.post("/v1/reload", json={})
        assert (said.status_code, said.json()["code"]) == (403, "switched_off")
        assert "--token-file" in said.json()["message"]
