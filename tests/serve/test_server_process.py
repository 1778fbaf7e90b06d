"""`llrnn serve` as a process of its own: it says where it listens, stops without losing anything, refuses mistakes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from fastapi import FastAPI
from starlette.testclient import TestClient

from llrnn import cli
from llrnn.cli import demo, serve
from llrnn.ground import bundle
from llrnn.ground.errors import ConfigError
from llrnn.serve import app as serving
from llrnn.serve.app import create_app
from llrnn.serve.messages import Limits
from llrnn.serve.served import Files, Served
from served_models import PREFIX, saved_tiny_model, tiny_model
from web_client import PATIENCE, Address, FakeEngine, Mentioned, answer_on, listening, post, running, until

LLRNN = str(Path(sys.executable).parent / "llrnn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_tiny_model(tmp_path_factory.mktemp("served") / "tiny")


def served(*arguments: str) -> AbstractContextManager[tuple[subprocess.Popen[str], Address]]:
    return listening([LLRNN, "serve", *arguments], os.environ)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and what was said on standard error."""
    _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err


@contextlib.contextmanager
def streams(address: Address, count: int, words: int = 500) -> Iterator[list[socket.socket]]:
    """Generations that have begun; no sentence ends by itself."""
    asked = {"max_words": words, "changes": [{"feature": "Word:</s>", "offset": -1000}]}
    body = json.dumps(asked).encode()
    with contextlib.ExitStack() as opened:
        found = [opened.enter_context(address.open()) for _ in range(count)]
        for connection in found:
            connection.sendall(post("/v1/generate", len(body), body))
        for connection in found:
            assert connection.recv(1, socket.MSG_PEEK)
        yield found


@pytest.fixture(scope="module")
def shared(folder: Path) -> Iterator[Address]:
    """One server for several tests, which Ctrl-C ends."""
    with served(f"quick={folder}", "--in-flight", "8", "--seconds", "200") as (process, address):
        yield address
        process.send_signal(signal.SIGINT)
        assert ended(process) == (0, "")


def test_a_signal_stops_it_and_what_has_begun_is_finished(folder: Path) -> None:
    """Connections on which nothing is asked do not keep it."""
    with served(str(folder), "--seconds", "200") as (process, address), address.open() as idle, address.open() as asked:
        asked.sendall(post("/v1/next", 2, b"{}"))
        assert answer_on(asked) is not None
        with streams(address, 4, words=150) as opened:
            process.send_signal(signal.SIGTERM)
            until(lambda: address.ask("GET", "/v1/ready").status == 503)
            refused = address.ask("POST", "/v1/next", {})
            found = [answer_on(connection) for connection in opened]
        assert ended(process) == (0, "")
        assert idle.recv(1) == asked.recv(1) == b""
    assert (refused.status, refused.json["code"]) == (503, "stopping")
    for one in found:
        assert one is not None
        assert one.body.count(b"event: word\n") == 150
        assert one.body.count(b"event: done\n") == 1


def test_a_second_signal_ends_it_at_once(folder: Path) -> None:
    with served(str(folder), "--seconds", "200") as (process, address), streams(address, 12):
        process.send_signal(signal.SIGTERM)
        until(lambda: address.ask("GET", "/v1/ready").status == 503)
        process.send_signal(signal.SIGTERM)
        code, _ = ended(process)
    assert code == 128 + signal.SIGTERM


def nobody_is_served(address: Address) -> bool:
    return b"llrnn_requests_in_flight 0.0\n" in address.ask("GET", "/v1/metrics").body


def test_clients_that_vanish_leave_nothing_behind(shared: Address) -> None:
    for _ in range(3):
        with streams(shared, 8):
            pass
        until(lambda: nobody_is_served(shared))
    assert shared.ask("POST", "/v1/next", {}).status == 200


def test_more_than_the_limit_at_a_time_get_429(shared: Address) -> None:
    with streams(shared, 8):
        said = shared.ask("POST", "/v1/next", {})
    assert (said.status, said.json["code"], said.headers["retry-after"]) == (429, "too_many_requests", "1")
    until(lambda: nobody_is_served(shared))
    assert shared.ask("POST", "/v1/next", {}).status == 200


def test_what_the_command_line_says_is_what_is_served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FastAPI] = []
    monkeypatch.setattr(serving, "serve", lambda app, taken, ready: made.append(app))
    monkeypatch.setenv(serve.TOKEN, "a-token")
    options = [
        "--in-flight",
        "3",
        "--seconds",
        "4.5",
        "--allow-host",
        "models.example",
        "--allow-host",
        "::2",
        "--port",
        "0",
    ]
    names = [str(folder), f"other={folder}", str(folder), "--background", f"another={folder}"]
    threads = torch.get_num_threads()
    assert cli.run(["serve", *names, *options]) == 0
    torch.set_num_threads(threads)
    (app,) = made
    assert app.state.gate.limits == Limits(in_flight=3, seconds=4.5)
    with TestClient(app, base_url="http://models.example") as client:
        assert client.get("/v1/health", headers={"Host": "[::2]:80"}).status_code == 200
        assert client.get("/v1/models").status_code == 401
        found = client.get("/v1/models", headers={"Authorization": "Bearer a-token"}).json()["models"]
    assert [one["name"] for one in found] == ["tiny", "other", "tiny-2"]
    assert "another" in [one["name"] for one in found[0]["backgrounds"]]


# --- what the guide shows ------------------------------------------------------------------------------------------


def sent_as_in(command: str, address: Address) -> Mentioned:
    """A curl command of the guide, without curl."""
    words = shlex.split(command)
    (url,) = [word for word in words if word.startswith("http://127.0.0.1:8017/")]
    data = words[words.index("-d") + 1].encode() if "-d" in words else None
    return address.ask("GET" if data is None else "POST", url.removeprefix("http://127.0.0.1:8017"), data)


def test_every_command_of_the_guide_works_and_every_endpoint_has_one(shared: Address) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf8")
    commands = re.findall(r"^curl .*$", guide, re.MULTILINE)
    for command in commands:
        said = sent_as_in(command, shared)
        # this model reads no condition and has no cell, and its server has no token
        other = {"/v1/write": 409, "/v1/reload": 403, "/strings?": 404}
        expected = next((status for path, status in other.items() if path in command), 200)
        assert said.status == expected, (command, said.body)
        assert b"event: error" not in said.body
    asked = {re.sub("/quick(?=/|$)", "/{name}", path) for path in re.findall(r"8017(/v1/[^ ?']*)", " ".join(commands))}
    assert asked == {*create_app(FakeEngine(), token="a-token").openapi()["paths"], "/v1/openapi.json"}


def test_openais_client_completes_and_streams(shared: Address) -> None:
    openai = pytest.importorskip("openai")
    address = f"http://127.0.0.1:{shared.port}/v1"
    with openai.OpenAI(base_url=address, api_key="none is asked for", max_retries=0, timeout=PATIENCE) as client:
        (model,) = client.models.list().data
        assert client.models.retrieve(model.id).id == model.id
        with pytest.raises(openai.NotFoundError, match="no model is named 'other'"):
            client.models.retrieve("other")
        given = {"model": model.id, "prompt": PREFIX, "max_tokens": 6, "seed": 3}
        whole = client.completions.create(**given, logprobs=2)
        text = whole.choices[0].text
        assert whole.usage.completion_tokens == len(text.split()) == len(whole.choices[0].logprobs.tokens)
        chunks = list(client.completions.create(**given, stream=True))
        assert "".join(chunk.choices[0].text for chunk in chunks) == text
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(**{**given, "prompt": "xyzzy"})
        assert refused.value.code == "unknown_word"


def test_a_hang_up_has_lists_read_anew(folder: Path, tmp_path: Path) -> None:
    listed = tmp_path / "words.tsv"
    listed.write_text("cachalot\tPOS:NOUN\t2\n", encoding="utf8")
    with served(str(folder), "--words", str(listed), "--access-log") as (process, address):
        question = {"words": ["narval"]}
        assert address.ask("POST", "/v1/next", question).status == 400
        listed.write_text("narval\tPOS:NOUN\t2\n", encoding="utf8")
        process.send_signal(signal.SIGHUP)
        until(lambda: address.ask("POST", "/v1/next", question).status == 200)
        process.terminate()
        code, said = ended(process)
    assert code == 0
    assert re.search(r"POST /v1/next 400 \d+ ms", said)


# --- mistakes ------------------------------------------------------------------------------------------------------

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, *arguments: str) -> str:
    assert cli.run(["serve", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_mistakes_are_one_line(capsys: Capture, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anywhere = ["--port", "0"]
    assert "serve needs a model folder" in refused(capsys, *anywhere)
    assert "no such folder" in refused(capsys, str(tmp_path / "nowhere"), *anywhere)
    assert "holds no complete model" in refused(capsys, str(tmp_path), *anywhere)
    assert "NAME=DIR" in refused(capsys, f"a/b={folder}", *anywhere)
    assert "each NAME once" in refused(capsys, f"a={folder}", f"a={folder}", *anywhere)
    assert "--background is written NAME=PATH" in refused(capsys, str(folder), "--background", "kn", *anywhere)
    assert "no such file" in refused(capsys, str(folder), "--background", "kn=nowhere", *anywhere)
    assert "are taken" in refused(capsys, str(folder), "--background", f"own={folder}", *anywhere)
    assert "--device" in refused(capsys, str(folder), "--device", "tpu", *anywhere)
    assert "cannot listen" in refused(capsys, str(folder), "--host", "no.such.host.invalid")
    assert "without a port" in refused(capsys, str(folder), "--allow-host", "models.example:80", *anywhere)
    assert "--port" in refused(capsys, str(folder), "--port", "70000")
    assert "--rows" in refused(capsys, str(folder), "--rows", "0", *anywhere)
    assert "--seconds" in refused(capsys, str(folder), "--seconds", "0", *anywhere)
    assert "No such file" in refused(capsys, str(folder), "--token-file", str(tmp_path / "nowhere"), *anywhere)
    token = tmp_path / "token"
    for wrong in ("", "two words", "é"):
        token.write_text(wrong, encoding="utf8")
        assert "one word of printable ASCII" in refused(capsys, str(folder), "--token-file", str(token), *anywhere)
    monkeypatch.setenv(serve.TOKEN, "a-token")
    assert "found both" in refused(capsys, str(folder), "--token-file", str(token), *anywhere)


def test_a_port_that_is_taken_is_one_line(capsys: Capture, folder: Path) -> None:
    with running(create_app(FakeEngine())) as address:
        found = refused(capsys, str(folder), "--port", str(address.port))
    wanted = f"error: cannot listen at 127.0.0.1 port {address.port}: Address already in use; choose another"
    assert found.startswith(wanted)


def test_without_the_extra_its_name_is_said(capsys: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install 'llrnn[serve]'" in refused(capsys, str(folder), "--port", "0")


def test_the_token_of_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token\n")
    assert serve.read_token(tmp_path / "token") == "a-token"
    assert serve.read_token(None) is None


def test_an_empty_variable_is_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv(serve.TOKEN, "")
    assert serve.read_token(None) is None
    assert "LLRNN_TOKEN is empty: no token is asked for" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(ConfigError, match="is empty, and others can reach this server; put a token there, or unset it"):
        serve.read_token(None, local=False)
    (tmp_path / "token").write_text("a-token\n", encoding="utf8")
    assert serve.read_token(tmp_path / "token", local=False) == "a-token"


def test_the_demos_models_are_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(demo, "SENTENCES", 100)
    monkeypatch.setattr(demo, "EPOCHS", 1)
    assert [*serve.demo_models(tmp_path)] == ["fr", "fr-softmax"]  # they are installed here: nothing is trained
    monkeypatch.setattr(bundle, "_installed", lambda name: None)
    found = serve.demo_models(tmp_path)
    assert {name: path.name for name, path in found.items()} == {"ll-rnn": "model", "softmax": "softmax"}
    assert "training the demo's models" in capsys.readouterr().err
    assert serve.demo_models(tmp_path) == found
    assert capsys.readouterr().err == ""


def test_a_folder_may_have_an_equals_sign(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    assert serve.named_folders([str(tmp_path / "a=b"), "c=d"]) == {"a=b": tmp_path / "a=b", "c": Path("d")}


def test_a_list_of_words_is_for_one_model_or_for_all(tmp_path: Path) -> None:
    (tmp_path / "a=b").touch()
    given = [str(tmp_path / "a=b"), "small=own.tsv", "all.tsv"]
    both = [tmp_path / "a=b", Path("all.tsv")]
    found = serve.word_lists(given, ["big", "small"])
    assert found == {"big": both, "small": [both[0], Path("own.tsv"), both[1]]}
    with pytest.raises(
        ConfigError, match=r"--words other=own.tsv: no served model is named 'other'; there are big, small"
    ):
        serve.word_lists(["other=own.tsv"], ["big", "small"])


def test_a_list_that_cannot_be_added_is_refused_with_the_models_name(tmp_path: Path) -> None:
    (tmp_path / "words.tsv").write_text("baleine\tPOS:NOTHING\t2\n", encoding="utf8")
    with pytest.raises(ConfigError, match=r"^model big: .*POS:NOTHING"):
        Served("big", tiny_model(60), files=Files(words=[tmp_path / "words.tsv"]))


def test_raw_paths_open_no_file() -> None:
    with running(create_app(FakeEngine())) as address:
        for path in (
            "/page/../app.py",
            "/../../etc/passwd",
            "//etc/passwd",
            "/page/..",
            "http://localhost/page/../app.py",
        ):
            said = address.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert said is not None
            assert (said.status, said.json["code"]) == (404, "not_found")
        for wrong in (
            b"GET\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        ):
            said = address.send(wrong + b"\r\n\r\n")
            assert said is not None
            assert (said.status, said.json["code"]) == (400, "malformed_http")
        assert address.is_well()
