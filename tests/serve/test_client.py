"""The client against servers of its own on the loopback: good ones, broken ones, slow ones, and none at all."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import llrnn
from helpers import HANG, sentence_log_probs, small_corpus, small_model
from llrnn import LLRNN, Client, contextual, explain, generate, influence
from llrnn.ground.errors import ConfigError, LLRNNError, ServerError
from llrnn.inference.explanation import Comparison, Explanation
from llrnn.knowledge.backgrounds import Mask, Unigram
from llrnn.model.decode import read_prefix
from llrnn.model.steering import Change, steer
from llrnn.serve import transport
from llrnn.text.vocabulary import EOS
from strategies import draws

Answer = Callable[["Handler"], None]
TOKEN = "sesame-0451"


class Handler(BaseHTTPRequestHandler):
    """Notes what was asked, and answers as the test says."""

    protocol_version = "HTTP/1.1"
    server: Loopback

    def do_POST(self) -> None:
        self.answered()

    def do_GET(self) -> None:
        self.answered()

    def answered(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.asked.append((f"{self.command} {self.path}", body, dict(self.headers)))
        try:
            self.server.answer(self)
        except OSError:  # the client has gone
            self.server.gone.set()
        self.close_connection = self.server.closes

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def head(self, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if self.server.closes:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def say(self, data: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        self.head(status, kind, Content_Length=str(len(data)), **headers)
        self.wfile.write(data)

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def stream(self) -> None:
        self.head(kind="text/event-stream; charset=utf-8", Transfer_Encoding="chunked")


class Loopback(ThreadingHTTPServer):
    """A server with one answer for all."""

    daemon_threads = True
    closes = True  # each connection, after one answer

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked: list[tuple[str, Any, dict[str, str]]] = []
        self.gone = threading.Event()
        self.callers: list[int] = []  # ports, one for each connection
        self.ended = threading.Event()  # a connection

    def process_request(self, request: Any, client_address: Any) -> None:
        self.callers.append(client_address[1])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.ended.set()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(answer: Answer) -> Iterator[Loopback]:
    with Loopback(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def saying(data: object, status: int = 200, **headers: str) -> Answer:
    text = data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    return lambda handler: handler.say(text, status, **headers)


def event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


NEXT = {
    "model": "m",
    "background": "own",
    "prefix": ["la", "maison"],
    "top": [
        {"word": "été", "log_p": -0.5, "p": math.exp(-0.5), "cell": False},
        {"word": "<number>", "log_p": -1.5, "p": math.exp(-1.5), "cell": True},
    ],
    "words": [{"word": "jamais", "log_p": None, "p": 0.0, "cell": False}],
    "total": 1.0,
    "log_z": 3.25,
    "entropy": 0.75,
}
HEALTH = {"status": "ok", "version": "0.1.0", "models": ["m"], "uptime_seconds": 1.5}
WORDS = [
    {"index": i, "word": word, "log_p": -1.0 - i, "p": math.exp(-1.0 - i), "features": ["POS:ADJ"], "cell": None}
    for i, word in enumerate(("été", "très", "日本"))
]
DONE = {"text": "la été très 日本", "words": ["été", "très", "日本"], "log_prob": -6.0, "finished": True}


# --- answers -------------------------------------------------------------------------------------------------------


def test_next_is_a_list_of_words() -> None:
    with serving(saying(NEXT)) as server:
        found = Client(server.address).next("la maison", top=2, words=["jamais"])
    assert [str(one) for one in found] == ["été", "<number>"]
    assert len(found) == 2
    assert found[0].p == pytest.approx(math.exp(-0.5))
    assert [one.cell for one in found[:2]] == [False, True]
    assert found.words[0].log_p == -math.inf
    assert (found.prefix, found.total, found.log_z, found.entropy) == (("la", "maison"), 1.0, 3.25, 0.75)
    ((path, body, headers),) = server.asked
    assert path == "POST /v1/next"
    assert body == {"prefix": "la maison", "top": 2, "words": ["jamais"], "changes": []}
    assert "Authorization" not in headers


def test_completions_are_read_as_they_are_said() -> None:
    best = [{"word": "grande", "log_p": -1.0, "p": math.exp(-1.0), "cell": None, "share": 0.5}]
    said = {"model": "m", "background": "own", "prefix": ["la"], "letters": "gr", "best": best, "log_mass": -0.3}
    with serving(saying(said)) as server:
        found = Client(server.address).complete("la", "gr", k=1, mass=True)
    assert [str(one) for one in found.best] == ["grande"]
    assert (found.best[0].share, found.log_mass) == (0.5, -0.3)
    ((path, body, _),) = server.asked
    assert path == "POST /v1/complete"
    assert body == {"prefix": "la", "letters": "gr", "k": 1, "mass": True, "changes": []}


def test_next_is_shown_in_a_notebook_with_every_word_escaped() -> None:
    hostile = {"word": "<img src=x onerror=alert(1)>", "log_p": -0.1, "p": 0.9, "cell": False}
    with serving(saying({**NEXT, "top": [hostile]})) as server:
        html = Client(server.address).next("la")._repr_html_()
    assert "<img" not in html
    assert "&lt;img" in html


def test_what_is_said_with_a_question_is_sent() -> None:
    with serving(saying(NEXT)) as server:
        client = Client(server.address + "/", token=TOKEN)
        client.next(
            ["la", "maison"],
            model="m",
            background="ngram",
            condition="inform(name='x')",
            changes=["POS:VERB=+0.5", "Gender:*=*0", Change("Word:la", 0.5, 1.0)],
        )
        client.next("la", changes={"POS:VERB": "-0.5", "POS:ADJ": "2"}, model=None)
    (_, body, headers), (_, mapped, _) = server.asked
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert body["prefix"] == ["la", "maison"]
    assert (body["model"], body["background"], body["condition"]) == ("m", "ngram", "inform(name='x')")
    assert body["changes"] == [
        {"feature": "POS:VERB", "scale": 1.0, "offset": 0.5},
        {"feature": "Gender:*", "scale": 0.0, "offset": 0.0},
        {"feature": "Word:la", "scale": 0.5, "offset": 1.0},
    ]
    assert mapped["changes"] == [
        {"feature": "POS:VERB", "scale": 1.0, "offset": -0.5},
        {"feature": "POS:ADJ", "scale": 0.0, "offset": 2.0},
    ]
    assert "model" not in mapped


def as_server_writes(found: Explanation) -> dict[str, Any]:
    data = asdict(found)
    del data["prefix"]
    terms = [{**term, "share": term["weight"] * term["value"]} for term in data["terms"]]
    factors = [{"name": name, "log_b": value if math.isfinite(value) else None} for name, value in found.factors]
    logs = {name: data[name] if math.isfinite(data[name]) else None for name in ("log_p", "log_b")}
    total = found.total if math.isfinite(found.total) else None
    return {**data, **logs, "total": total, "terms": terms, "factors": factors, "forbidden_by": [*found.forbidden_by]}


@pytest.mark.parametrize("forbidden", [False, True])
def test_explanations_are_those_of_the_library(forbidden: bool) -> None:
    unigram = Unigram.from_corpus(small_corpus())
    word, rival = [word for word in small_model().vocabulary.words if word.isalpha()][:2]
    model = small_model(background=Mask(forbidden=[rival]) * unigram if forbidden else unigram)
    wanted = explain(model, prefix=word, word=word, rival=rival)
    answer = {
        "model": "m",
        "background": "own",
        "prefix": [word],
        "word": as_server_writes(wanted.chosen),
        "rival": as_server_writes(wanted.rival),
        "comparison": {"terms": [asdict(term) for term in wanted.terms]},
    }
    with serving(saying(answer)) as server:
        found = Client(server.address).explain(word, word=word, rival=rival)
        assert server.asked[0][1] == {"prefix": word, "word": word, "rival": rival, "changes": []}
    assert isinstance(found, Comparison)
    assert found == wanted
    assert found.log_ratio == wanted.log_ratio
    assert (found.log_ratio == math.inf) == forbidden
    with serving(saying({**answer, "rival": None, "comparison": None})) as server:
        alone = Client(server.address).explain(word, word=word)
    assert isinstance(alone, Explanation)
    assert alone == wanted.chosen
    assert "log Z" in alone._repr_html_()


def test_influence_is_that_of_the_library() -> None:
    term = {"position": -1, "word": "<s>", "name": "Word:</s>", "value": 1.0, "share": 0.25}
    answer = {"model": "m", "background": "own", "prefix": ["la"], "feature": "POS:ADJ", "weight": 0.5, "terms": [term]}
    with serving(saying(answer)) as server:
        found = Client(server.address).influence("la", feature="POS:ADJ")
    assert (found.feature, found.weight, found.prefix) == ("POS:ADJ", 0.5, ("la",))
    assert found.of_word(-1) == 0.25
    assert server.asked[0][1]["feature"] == "POS:ADJ"


def test_scores_have_infinities() -> None:
    own = {"kinds": ["listed", "listed"], "contract": "reading:alone|words:2"}
    scores = [
        {"words": ["la", "</s>"], "log_p": [-1.0, -2.0], "log_prob": -3.0, "perplexity": math.exp(1.5), **own},
        {"words": ["le", "</s>"], "log_p": [None, -2.0], "log_prob": None, "perplexity": None, **own},
    ]
    with serving(saying({"model": "m", "background": "own", "scores": scores})) as server:
        possible, impossible = Client(server.address).score(["la", ("le",)], conditions=["x", None], background="own")
    assert possible.log_p == (-1.0, -2.0)
    assert possible.perplexity == pytest.approx(math.exp(1.5))
    assert (impossible.log_p[0], impossible.log_prob, impossible.perplexity) == (-math.inf, -math.inf, math.inf)
    assert server.asked[0][1] == {
        "texts": ["la", ["le"]],
        "conditions": ["x", None],
        "background": "own",
        "changes": [],
    }


MODEL = {
    "name": "le modèle/1",
    "symbols": 10,
    "words": 9,
    "classes": 5,
    "features": 12,
    "groups": {"POS": 4},
    "contextual": ["Repeated"],
    "backgrounds": [{"name": "own", "description": "Unigram"}],
    "conditions": "none",
    "open_vocabulary": False,
    "lowercase": True,
    "parameters": 100,
    "controller": "LSTM",
    "example": "la",
    "of a later version": 1,
}


def test_models_features_words_and_health() -> None:
    def answer(handler: Handler) -> None:
        if handler.path == "/v1/models":
            saying({"models": [MODEL]})(handler)
        elif "/features" in handler.path:
            saying({"features": [{"name": "POS:ADJ", "group": "POS", "contextual": False}], "matching": 1})(handler)
        elif "/strings" in handler.path:
            saying({"cell": "‹number›", "strings": [{"word": "12", "share": 0.5}]})(handler)
        elif handler.path == "/v1/read":
            unknown = [{"word": "étée", "near": ["été"]}]
            saying({"model": "m", "background": "own", "prefix": ["étée"], "unknown": unknown})(handler)
        elif "/words" in handler.path:
            saying({"words": ["été", "étés"], "matching": 2})(handler)
        else:
            saying({**HEALTH, "status": "stopping"}, status=503)(handler)

    with serving(answer) as server:
        client = Client(server.address)
        (model,) = client.models()
        assert client.features("pos") == ("POS:ADJ",)
        assert client.words("é", model="le modèle/1", limit=2) == ("été", "étés")
        assert client.strings("‹number›", model="le modèle/1", limit=1, seed=3) == ("12",)
        assert [(one.word, one.near) for one in client.read("étée").unknown] == [("étée", ("été",))]
        assert client.health().status == "stopping"
    assert (model.name, model.backgrounds, model.contextual) == ("le modèle/1", {"own": "Unigram"}, ("Repeated",))
    paths = [path for path, _, _ in server.asked]
    assert paths[2] == "GET /v1/models/le%20mod%C3%A8le%2F1/features?query=pos&limit=20"
    assert paths[3] == "GET /v1/models/le%20mod%C3%A8le%2F1/words?query=%C3%A9&limit=2"
    cell = "%E2%80%B9number%E2%80%BA"
    assert paths[4] == f"GET /v1/models/le%20mod%C3%A8le%2F1/strings?cell={cell}&limit=1&seed=3"


# --- streams -------------------------------------------------------------------------------------------------------


def whole_stream(handler: Handler) -> None:
    handler.stream()
    for word in WORDS:
        handler.chunk(event("word", word))
    handler.chunk(event("done", DONE))
    handler.chunk(b"")


def test_words_come_one_by_one_then_the_text() -> None:
    with serving(whole_stream) as server:
        writing = Client(server.address).generate("la", seed=7, max_words=5, temperature=0.5, top_k=3)
        assert [word.word for word in writing] == ["été", "très", "日本"]
        assert writing.result is not None
        assert writing.result.text == "la été très 日本"
        assert writing.finish().finished
        assert list(writing) == []
    body = server.asked[0][1]
    assert (body["temperature"], body["top_k"], body["top_p"]) == (0.5, 3, None)
    assert (body["seed"], body["max_words"], body["stream"]) == (7, 5, True)


def test_a_word_is_there_before_the_next_one_is_written() -> None:
    """The server sends the second word only when the client has told the test that it holds the first."""
    told = threading.Event()

    def answer(handler: Handler) -> None:
        handler.stream()
        handler.chunk(event("word", WORDS[0]))
        assert told.wait(HANG)
        handler.chunk(event("done", DONE))
        handler.chunk(b"")

    with serving(answer) as server, Client(server.address).generate("la", greedy=True) as writing:
        assert str(next(writing)) == "été"
        assert writing.result is None
        told.set()
        assert writing.finish().log_prob == -6.0
    assert server.asked[0][1]["greedy"] is True


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_chunks_may_be_split_anywhere_also_inside_a_character(size: int) -> None:
    data = b": hello\r\n\r\n:\n" + b"".join(event("word", word) for word in WORDS).replace(b"\n", b"\r\n")
    data += event("done", DONE)

    def answer(handler: Handler) -> None:
        handler.stream()
        for start in range(0, len(data), size):
            handler.chunk(data[start : start + size])
        handler.chunk(b"")

    with serving(answer) as server:
        writing = Client(server.address).generate("la")
        assert [word.word for word in writing] == ["été", "très", "日本"]


def test_a_stream_without_chunks_ends_with_the_connection() -> None:
    def answer(handler: Handler) -> None:
        handler.head(kind="text/event-stream", Connection="close")
        handler.wfile.write(event("word", WORDS[0]) + event("done", DONE))

    with serving(answer) as server:
        assert Client(server.address).generate("la").finish().words == ("été", "très", "日本")


def cut_between_events(handler: Handler) -> None:
    handler.stream()
    handler.chunk(event("word", WORDS[0]))


def cut_inside_a_line(handler: Handler) -> None:
    handler.stream()
    handler.chunk(event("word", WORDS[0]) + event("word", WORDS[1])[:20])
    handler.chunk(b"")


def cut_inside_a_chunk(handler: Handler) -> None:
    handler.stream()
    handler.chunk(event("word", WORDS[0]))
    handler.wfile.write(b"ff\r\nevent: wo")


def cut_by_nonsense(handler: Handler) -> None:
    handler.stream()
    handler.chunk(event("word", WORDS[0]))
    handler.wfile.write(b"zz\r\nevent: wo")


@pytest.mark.parametrize("answer", [cut_between_events, cut_inside_a_line, cut_inside_a_chunk, cut_by_nonsense])
def test_a_stream_that_breaks_off_is_no_text(answer: Answer) -> None:
    with serving(answer) as server:
        writing = Client(server.address).generate("la")
        assert str(next(writing)) == "été"
        with pytest.raises(ServerError, match="a whole answer is required") as caught:
            next(writing)
        assert caught.value.code == "cut_off"
        assert writing.result is None
        with pytest.raises(ServerError):
            writing.finish()


def test_an_error_inside_a_stream_is_raised() -> None:
    def answer(handler: Handler) -> None:
        handler.stream()
        handler.chunk(event("word", WORDS[0]) + event("error", {"code": "took_too_long", "message": "too long"}))
        handler.chunk(b"")

    with serving(answer) as server:
        writing = Client(server.address).generate("la")
        next(writing)
        with pytest.raises(ServerError, match=r"^too long$") as caught:
            next(writing)
    assert (caught.value.code, caught.value.status) == ("took_too_long", None)


def test_bytes_that_are_no_characters_are_refused() -> None:
    def answer(handler: Handler) -> None:
        handler.stream()
        handler.chunk(b'event: word\ndata: {"word": "\xff\xfe"}\n\n')

    with serving(answer) as server, pytest.raises(ServerError, match="'utf-8' codec can't decode byte 0xff") as caught:
        next(Client(server.address).generate("la"))
    assert caught.value.code == "unreadable"


@pytest.mark.parametrize("way", ["closed", "dropped"])
def test_leaving_a_stream_tells_the_server(way: str) -> None:
    def answer(handler: Handler) -> None:
        handler.stream()
        while True:  # until nobody listens
            handler.chunk(event("word", WORDS[0]))
            time.sleep(0.005)

    with serving(answer) as server:
        writing = Client(server.address).generate("la")
        next(writing)
        if way == "closed":
            writing.close()
            with pytest.raises(ServerError, match="the stream ended before the text did"):
                next(writing)
        else:
            del writing
        assert server.gone.wait(HANG)


# --- what goes wrong -----------------------------------------------------------------------------------------------


def refusal(
    answer: Answer, ask: Callable[[Client], object] = lambda client: client.next("la"), **own: Any
) -> ServerError:
    with serving(answer) as server, pytest.raises(ServerError) as caught:
        ask(Client(server.address, token=TOKEN, **own))
    assert isinstance(caught.value, LLRNNError)
    assert TOKEN not in str(caught.value)
    return caught.value


def test_refusals_keep_status_code_and_message() -> None:
    body = {"code": "unknown_word", "message": "the word 'zzz' is not listed; take another"}
    for ask in (lambda c: c.next("zzz"), lambda c: c.generate("zzz"), lambda c: c.models()):
        error = refusal(saying(body, status=404), ask)
        assert (error.status, error.code, error.message) == (404, "unknown_word", body["message"])
        assert str(error) == body["message"]
        assert error.retry_after is None


def test_a_busy_server_is_waited_for_as_often_as_said() -> None:
    busy = {"code": "too_many_requests", "message": "too many requests; come back later"}
    answers: list[Answer] = []
    answer: Answer = lambda handler: answers.pop(0)(handler)  # noqa: E731
    with serving(answer) as server:
        answers[:] = [saying(busy, 429, Retry_After="0"), saying(busy, 429, Retry_After="0"), saying(NEXT)]
        assert len(Client(server.address, retries=2).next("la")) == 2
        answers[:] = [saying(busy, 429, Retry_After="0"), saying(busy, 429, Retry_After="0"), saying(NEXT)]
        with pytest.raises(ServerError, match="come back later") as caught:
            Client(server.address, retries=1).next("la")
        assert (caught.value.status, caught.value.retry_after, len(answers)) == (429, 0.0, 1)
        answers[:] = [saying(busy, 429, Retry_After="0"), whole_stream]
        assert Client(server.address, retries=1).generate("la").finish().finished


def test_nobody_waits_longer_than_the_timeout_and_only_for_a_busy_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits for {seconds} s"))
    busy = {"code": "too_many_requests", "message": "later"}
    assert refusal(saying(busy, 429, Retry_After="3600"), retries=5).retry_after == 3600.0
    stopping = refusal(saying({"code": "stopping", "message": "bye"}, 503, Retry_After="1"), retries=5)
    assert (stopping.status, stopping.code, stopping.retry_after) == (503, "stopping", 1.0)
    dated = refusal(saying(busy, 429, Retry_After="Sun, 15 Nov 2026 17:00:00 GMT"))
    assert dated.retry_after is None


@pytest.mark.parametrize(
    "answer",
    [
        saying(b"{broken"),
        saying(b"[1, 2]"),
        saying(b"\xff\xfe\x00"),
        saying(b'{"model": ' + b"[" * 10**6),
        saying({}),
        saying({**NEXT, "top": 5}),
        saying({**NEXT, "top": [{"word": "la"}]}),
        saying({**NEXT, "log_z": "much"}),
        lambda handler: handler.say(b"<html>Bad Gateway</html>", 502, "text/html"),
        saying({"error": "in another form"}, 500),
        lambda handler: handler.say(b"", 307, Location="/elsewhere"),
    ],
)
def test_answers_that_are_none_of_ours(answer: Answer) -> None:
    error = refusal(answer)
    assert error.code == "unreadable"
    assert "required, found" in error.message
    assert "llrnn serve" in error.message


def test_a_stream_must_be_one() -> None:
    error = refusal(saying(NEXT), lambda client: client.generate("la"))
    assert error.code == "unreadable"
    assert "a stream of events is required, found application/json" in error.message

    def broken(handler: Handler) -> None:
        handler.stream()
        handler.chunk(b"data: {broken\n\n")

    assert refusal(broken, lambda client: client.generate("la").finish()).code == "unreadable"


def test_an_answer_that_is_shorter_than_it_says() -> None:
    def answer(handler: Handler) -> None:
        handler.head(Content_Length="5000")
        handler.wfile.write(b'{"model":')

    assert refusal(answer).code == "cut_off"
    assert refusal(lambda handler: None).code == "cut_off"


@pytest.mark.parametrize("size", [b"-5", b"-1", b"f" * 20, b"zz"])
def test_chunks_of_impossible_sizes(size: bytes) -> None:
    def answer(handler: Handler) -> None:
        kind = "text/event-stream" if "generate" in handler.path else "application/json"
        handler.head(kind=kind, Transfer_Encoding="chunked")
        handler.wfile.write(size + b"\r\n{}\r\n0\r\n\r\n")

    assert refusal(answer).code == "cut_off"
    assert refusal(answer, lambda client: client.generate("la").finish()).code == "cut_off"


@pytest.mark.parametrize("length", ["5" * 15, "5" * 30])
def test_an_answer_that_claims_to_be_huge_takes_no_memory(length: str) -> None:
    def answer(handler: Handler) -> None:
        handler.head(Content_Length=length)
        handler.wfile.write(b"{}")

    assert refusal(answer).code == "cut_off"


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_LARGEST_ANSWER", 10**6)
    monkeypatch.setattr(transport, "_LONGEST_EVENT", 1000)

    def answer(handler: Handler) -> None:
        handler.head(kind="text/event-stream" if "generate" in handler.path else "application/json")
        handler.wfile.write(b"data: ")
        for _ in range(10**4):
            handler.wfile.write(b" " * 1000)

    assert "at most 1,000,000 bytes is required" in refusal(answer).message
    with serving(answer) as server:
        with pytest.raises(ServerError) as caught:
            next(Client(server.address).generate("la"))
        assert caught.value.code == "cut_off"
        assert server.gone.wait(HANG)


def test_a_slow_server() -> None:
    release = threading.Event()

    def silent(handler: Handler) -> None:
        release.wait(HANG)

    def silent_halfway(handler: Handler) -> None:
        handler.head(Content_Length="5000")
        handler.wfile.flush()
        release.wait(HANG)

    def silent_between_words(handler: Handler) -> None:
        handler.stream()
        handler.chunk(event("word", WORDS[0]))
        release.wait(HANG)

    try:
        for answer in (silent, silent_halfway):
            error = refusal(answer, timeout=0.2)
            assert error.code == "too_slow"
            assert "within 0.2 s is required" in error.message
        assert refusal(silent_between_words, lambda c: c.generate("la").finish(), timeout=0.2).code == "too_slow"
    finally:
        release.set()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which nobody listens: it is taken for as long as the test runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


NOWHERE = [
    "http://127.0.0.1:{}",
    "https://127.0.0.1:{}",
    "http://[::1]:{}",
    "http://no-such.invalid:{}",
    "http://a..b:{}",
]


@pytest.mark.parametrize("address", NOWHERE)
def test_no_server_there(address: str, closed_port: int) -> None:
    with pytest.raises(ServerError, match="a server is required, found none") as caught:
        Client(address.format(closed_port), token=TOKEN).health()
    assert (caught.value.code, caught.value.status) == ("unreachable", None)
    assert "llrnn serve" in caught.value.message
    assert TOKEN not in caught.value.message


@pytest.mark.parametrize(
    ("banner", "required", "code"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "an answer in HTTP", "unreadable"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "a whole answer", "cut_off"),  # for httpx, lines that do not end are no answer
    ],
)
def test_a_server_that_speaks_no_http(banner: bytes, required: str, code: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def speak() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(banner)

        thread = threading.Thread(target=speak)
        thread.start()
        with pytest.raises(ServerError, match=f"{required} is required") as caught:
            Client(f"http://127.0.0.1:{listening.getsockname()[1]}").health()
        thread.join()
    assert caught.value.code == code


HEADS = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 429 Busy\r\n",
    b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n",
    b"HTTP/9",
    b"",
]
PIECES = [
    b"Content-Length: -5\r\n", b"Content-Length: x\r\n", b"Retry-After: -1\r\n", b"Content-Type: text/event-stream\r\n",
    b"\r\n", b"\r\n\r\n", b"-5\r\n", b"5\r\n", b"0\r\n\r\n", b"zz", b"data: {}\n\n", b"event: done\n", b"{}", b"\xff",
    b"\x00", b"x" * 70_000, b"A: b\r\n" * 120,
]  # fmt: skip


@settings(max_examples=draws(40))
@given(st.sampled_from(HEADS), st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)), max_size=8))
def test_whatever_a_server_says_is_an_error_of_ours(head: bytes, pieces: list[bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def speak() -> None:
            for _ in range(2):
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(4096)
                    connection.sendall(head + b"".join(pieces))

        thread = threading.Thread(target=speak)
        thread.start()
        for ask in (Client.models, lambda client: client.generate("la").finish()):
            with pytest.raises(ServerError):  # another client each: a connection that is kept would be asked again
                ask(Client(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=HANG))
        thread.join()


def test_plain_http_where_https_is_expected() -> None:
    with serving(saying(HEALTH)) as server, pytest.raises(ServerError) as caught:
        Client(server.address.replace("http:", "https:"), timeout=HANG).health()
    assert caught.value.code == "unreachable"
    assert "SSL" in caught.value.message


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1:8017",
        "ftp://127.0.0.1",
        "http://",
        "http://host:99999",
        "http://host/?q=1",
        "http://a b",
        "http://[::1",
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigError, match=r"required,.* found|required, found"):
        Client(address)


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="without a user and password") as caught:
        Client(f"http://me:{TOKEN}@127.0.0.1:8017")
    assert TOKEN not in str(caught.value)


def test_a_server_may_stand_behind_a_path() -> None:
    with serving(saying(HEALTH)) as server:
        Client(f"{server.address}/modèles/").health()
    assert server.asked[0][0] == "GET /mod%C3%A8les/v1/health"


@pytest.mark.parametrize("token", ["", " x", "a\r\nX-Evil: 1", "né"])
def test_tokens_that_no_header_can_hold_are_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError, match="token") as caught:
        Client("http://127.0.0.1:8017", token=token)
    assert "Evil" not in str(caught.value)


def test_mistakes_are_told_before_anything_is_sent(closed_port: int) -> None:
    client = Client(f"http://127.0.0.1:{closed_port}", token=TOKEN)
    assert TOKEN not in repr(client)
    mistakes: list[Callable[[], object]] = [
        lambda: client.next("la", changes="POS:VERB=+0.5"),
        lambda: client.next("la", changes=["POS:VERB"]),
        lambda: client.next("la", changes={"POS:VERB": 0.5}),  # type: ignore[dict-item]
        lambda: client.score("la maison"),
        lambda: client.generate("la", greedy=True, temperature=0.5),
        lambda: client.score(["la"], condition="x"),
        lambda: Client("http://127.0.0.1", timeout=0),
        lambda: Client("http://127.0.0.1", retries=-1),
    ]
    for mistake in mistakes:
        with pytest.raises(ConfigError):
            mistake()


def test_many_threads_may_share_a_client() -> None:
    def answer_own(handler: Handler) -> None:
        number = int(handler.headers["Content-Length"])  # another body for each: as long as its prefix
        saying({**NEXT, "log_z": float(number)})(handler)

    with serving(answer_own) as server:
        client = Client(server.address)
        alone = [client.next("x" * i).log_z for i in range(8)]
        found = [0.0] * 8
        threads = [
            threading.Thread(target=lambda i=i: found.__setitem__(i, client.next("x" * i).log_z)) for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == alone
    assert len(set(found)) == 8


def test_one_connection_is_kept() -> None:
    with serving(saying(NEXT)) as server:
        server.closes = False
        client = Client(server.address, timeout=HANG)
        for _ in range(3):
            assert len(client.next("la")) == 2
        assert (len(server.asked), len(server.callers)) == (3, 1)
        with pytest.raises(ServerError):
            client.generate("la")  # an answer that is no stream
        del client
        assert server.ended.wait(HANG)  # closed with the client


def test_a_connection_that_the_server_has_closed_is_not_asked_again() -> None:
    def answer(handler: Handler) -> None:
        saying(NEXT)(handler)
        handler.server.closes = True  # without having said so

    with serving(answer) as server:
        client = Client(server.address, timeout=HANG)
        for _ in range(2):
            server.closes = False
            server.ended.clear()
            assert len(client.next("la")) == 2
            assert server.ended.wait(HANG)
    assert len(server.callers) == 2


def test_httpx_is_an_extra() -> None:
    code = "import sys; sys.modules['httpx2'] = None; from llrnn import *\n"
    code += "try:\n    Client('http://127.0.0.1:1')\nexcept LLRNNError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "this needs httpx2, which is not installed: pip install 'llrnn[client]'\n"


def test_the_client_is_public() -> None:
    assert llrnn.Client is Client


# --- the server itself ---------------------------------------------------------------------------------------------

Running = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="module")
def real() -> Running:
    """`llrnn serve` with a model, its address for as long as a block takes."""
    pytest.importorskip("fastapi")
    from llrnn.serve.app import create_app
    from llrnn.serve.engine import Engine
    from llrnn.serve.messages import Limits
    from llrnn.serve.served import Served
    from web_client import running

    @contextmanager
    def run(model: LLRNN, *, token: str | None = None, **limits: Any) -> Iterator[str]:
        masked = Mask(forbidden=["la"]) * Unigram.from_corpus(small_corpus())
        engine = Engine([Served("small", model, {"masked": masked})])
        with running(create_app(engine, Limits(**limits), token=token)) as address:
            yield f"http://127.0.0.1:{address.port}"

    return run


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return small_model(context=[contextual.Repeated(6)])


@pytest.fixture(scope="module")
def client(real: Running, model: LLRNN) -> Iterator[Client]:
    with real(model, token=TOKEN) as address:
        yield Client(address, token=TOKEN, timeout=HANG)


PREFIX = small_corpus().sentences[3].words[:4]


def near(value: float | list[float]) -> Any:
    return pytest.approx(value, abs=2e-4)


def test_next_of_the_server(client: Client, model: LLRNN) -> None:
    found = client.next(PREFIX, top=7, words=["la"])
    with torch.no_grad():
        distribution, _ = read_prefix(model, PREFIX, [None])
        log_p, best = (part[0].tolist() for part in distribution.top(7))
    assert [one.word for one in found] == [model.vocabulary.symbols[word] for word in best]
    assert [one.log_p for one in found] == near(log_p)
    assert found.total == pytest.approx(1.0, abs=1e-5)
    assert found.words[0].word == "la"
    assert found.prefix == PREFIX
    assert client.next(PREFIX, words=["la"], background="masked").words[0].log_p == -math.inf
    assert found.top[0].word in found._repr_html_()


def test_explanations_of_the_server(client: Client, model: LLRNN) -> None:
    changes = ["Gender:Fem=+0.5", "Suffix:*=*0.8"]
    steered = steer(model, [Change.parse(change) for change in changes])
    for asked, wanted in (
        (client.explain(PREFIX, word="la", rival="le"), explain(model, prefix=PREFIX, word="la", rival="le")),
        (
            client.explain(PREFIX, word="la", rival="le", changes=changes),
            explain(steered, prefix=PREFIX, word="la", rival="le"),
        ),
    ):
        assert isinstance(asked, Comparison)
        assert asked.total == near(asked.log_ratio)
        assert asked.log_ratio == near(wanted.log_ratio)
        assert {term.name: term.value for term in asked.terms} == {term.name: term.value for term in wanted.terms}
        for side, own in ((asked.chosen, wanted.chosen), (asked.rival, wanted.rival)):
            assert (side.word, side.prefix) == (own.word, own.prefix)
            assert [side.log_p, side.log_b, side.log_z, side.total] == near(
                [own.log_p, own.log_b, own.log_z, own.total]
            )
    alone = client.explain(" ".join(PREFIX), word="la")
    assert isinstance(alone, Explanation)
    assert "log Z" in alone._repr_html_()


def test_a_forbidden_word_of_the_server(client: Client) -> None:
    found = client.explain(PREFIX, word="le", rival="la", background="masked")
    assert found.log_ratio == math.inf
    assert found.rival.forbidden_by == ("Mask(forbidden=1 symbols)",)
    assert found.rival.log_p == -math.inf
    assert "rival forbidden" in found._repr_html_()


def test_influence_of_the_server(client: Client, model: LLRNN) -> None:
    found, wanted = client.influence(PREFIX, feature="Repeated"), influence(model, prefix=PREFIX, feature="Repeated")
    assert found.weight == near(wanted.weight)
    shares = {(term.position, term.word, term.name): near(term.share) for term in wanted.terms}
    assert {(term.position, term.word, term.name): term.share for term in found.terms} == shares


def test_texts_of_the_server(client: Client, model: LLRNN) -> None:
    one, again, other = (client.generate(PREFIX, seed=seed, max_words=12) for seed in (1, 1, 2))
    words = list(one)
    assert one.result is not None
    assert one.result.text == again.finish().text != other.finish().text
    assert one.result.log_prob == near(again.finish().log_prob)  # rounded in another company, perhaps
    assert one.result.words == tuple(word.word for word in words)
    assert [word.index for word in words] == list(range(len(words)))
    if not one.result.finished:
        assert one.result.log_prob == near(sum(word.log_p for word in words))
    (best,) = generate(model, PREFIX, greedy=True, max_words=12)
    greedy = client.generate(PREFIX, greedy=True, max_words=12).finish()
    assert greedy.words == best.words
    assert greedy.log_prob == near(best.log_prob)


def test_scores_of_the_server(client: Client, model: LLRNN) -> None:
    text = small_corpus().sentences[5].words
    whole, forbidden = client.score([text, "la"]), client.score(["la"], background="masked")
    assert whole[0].log_p == pytest.approx(sentence_log_probs(model, text), abs=1e-3)
    assert whole[0].words == (*text, EOS)
    assert whole[0].perplexity == pytest.approx(math.exp(-whole[0].log_prob / (len(text) + 1)), rel=1e-4)
    assert (forbidden[0].log_prob, forbidden[0].perplexity) == (-math.inf, math.inf)


def test_what_the_server_has(client: Client, model: LLRNN) -> None:
    (found,) = client.models()
    assert (found.name, found.words) == ("small", len(model.vocabulary.words))
    assert {"own", "masked"} <= found.backgrounds.keys()
    assert found.contextual == ("Repeated",)
    assert "Gender:Fem" in client.features("gender")
    assert client.words("l", model="small", limit=3)[0].startswith("l")
    assert client.health().status == "ok"
    assert client.health().models == ("small",)


@pytest.mark.parametrize(
    ("ask", "status", "code"),
    [
        (lambda c: c.next("zzz"), 400, "unknown_word"),
        (lambda c: c.explain("la", word="zzz"), 400, "unknown_word"),
        (lambda c: c.generate("zzz"), 400, "unknown_word"),
        (lambda c: c.next("la", model="zzz"), 404, "unknown_model"),
        (lambda c: c.next("la", background="zzz"), 404, "unknown_background"),
        (lambda c: c.next("la", changes=["zzz=+1"]), 404, "unknown_feature"),
        (lambda c: c.influence("la", feature="zzz"), 404, "unknown_feature"),
        (lambda c: c.score(["la"], background="masked", conditions=["x", None]), 409, "condition"),
        (lambda c: c.next("la", top=10**6), 422, "top_too_large"),
        (lambda c: c.next("la", top=-1), 422, "invalid"),
        (lambda c: c.words("a", model="zzz"), 404, "unknown_model"),
        (lambda c: c.words("a", model="../health?x="), 404, "not_found"),
    ],
)
def test_refusals_of_the_server(client: Client, ask: Callable[[Client], object], status: int, code: str) -> None:
    with pytest.raises(ServerError) as caught:
        ask(client)
    assert (caught.value.status, caught.value.code) == (status, code)
    assert len(caught.value.message) > 20


def test_the_server_wants_its_token(client: Client) -> None:
    stranger = Client(client._transport.address)
    assert stranger.health().status == "ok"
    with pytest.raises(ServerError) as caught:
        stranger.models()
    assert (caught.value.status, caught.value.code) == (401, "unauthorized")


def test_a_server_that_is_busy(real: Running, model: LLRNN) -> None:
    """A text that is being written is the one request that this server takes at a time; leaving it makes room."""
    with real(model, in_flight=1) as address:
        client = Client(address)
        writing = client.generate("", max_words=200)
        next(writing)
        with pytest.raises(ServerError) as caught:
            client.next("la")
        assert (caught.value.status, caught.value.code) == (429, "too_many_requests")
        assert caught.value.retry_after is not None
        writing.close()
        assert len(Client(address, retries=5).next("la")) == 10
