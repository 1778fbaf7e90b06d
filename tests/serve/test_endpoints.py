"""What holds for every endpoint, by its name in the OpenAPI description: work ends with the request, whatever ends it;
it holds a place as long as it works; it costs no more than was allowed; errors have one form.

An endpoint that is added without a row in `ASKED` fails `test_every_endpoint_is_asked_here`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from helpers import HANG, small_corpus
from llrnn import LLRNN, LSTM, Vocabulary, backgrounds, features
from llrnn.languages.domains import Numbers
from llrnn.serve import guard
from llrnn.serve.app import create_app, described
from llrnn.serve.costs import HYPOTHESIS_COST, STEP_COST, cost_of
from llrnn.serve.engine import Engine
from llrnn.serve.messages import CompletionRequest, ErrorAnswer, Limits, NextRequest, Refused, WriteRequest, most
from llrnn.serve.served import SCOPE, Batcher, RequestScope, Served

ENDLESS = {"changes": [{"feature": "Word:</s>", "offset": -1e6}]}
UNKNOWN = "zzzunknownzzz"
# by operation: its path, and a request that is answered; None is a GET. A variant stands behind a blank
ASKED: dict[str, tuple[str, dict[str, Any] | None]] = {
    "read": ("/v1/read", {"prefix": f"la {UNKNOWN}"}),
    "next": ("/v1/next", {"prefix": "la", "words": ["la"], "condition": "la"}),
    "complete": ("/v1/complete", {"prefix": "la", "letters": "l", "mass": True}),
    "explain": ("/v1/explain", {"prefix": "la", "word": "la", "rival": "."}),
    "influence": ("/v1/influence", {"prefix": "la la", "feature": "Word:la"}),
    "score": ("/v1/score", {"texts": ["la " * 400, "la " * 400, "la"]}),
    "write": ("/v1/write", {"conditions": ["la", "le", "la la"], "beam": 3, "max_words": 9}),
    "generate": ("/v1/generate", {"max_words": 12, **ENDLESS}),
    "generate whole": ("/v1/generate", {"max_words": 12, "stream": False, **ENDLESS}),
    "completions": (
        "/v1/completions",
        {"prompt": ["la", "le"], "n": 3, "max_tokens": 12, "condition": "la", **ENDLESS},
    ),
    "completions stream": ("/v1/completions", {"prompt": ["la", "la"], "stream": True, "max_tokens": 12, **ENDLESS}),
    "features": ("/v1/models/any/features", None),
    "words": ("/v1/models/any/words", None),
    "strings": ("/v1/models/any/strings?cell=", None),
    "reload": ("/v1/reload", {}),
    "models": ("/v1/models", None),
    "model": ("/v1/models/any", None),
    "health": ("/v1/health", None),
    "ready": ("/v1/ready", None),
    "metrics": ("/v1/metrics", None),
}
FACTS = ("reload", "models", "model", "health", "ready", "metrics")  # no model is asked
WORKING = [name for name in ASKED if name not in FACTS]
TOKEN = "a-token"


def some_model() -> LLRNN:
    """With cells to draw strings from, and a background that looks at conditions."""
    base = backgrounds.Unigram.from_corpus(small_corpus())
    return LLRNN(
        Vocabulary.from_corpus(small_corpus(), domains=[Numbers()]),
        output_features=features.Identity(),
        background=backgrounds.Primed(base, entities={"la"}, boost=2.0),
        controller=LSTM(4),
    )


@cache
def some_served() -> Served:
    return Served("any", some_model())


@pytest.fixture
def served() -> Served:
    return some_served()


@dataclass
class Counted:
    """What the threads of the models do: runs that have begun, and steps and scans of the network."""

    batches: int = 0
    words: int = 0
    begun: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    defect: bool = False
    scopes: list[RequestScope] = field(default_factory=list)

    def run(self, run: Callable[[Sequence[Any]], Any], payloads: Sequence[Any]) -> Any:
        """A batch that waits until it may go on."""
        self.batches += 1
        self.begun.set()
        assert self.go_on.wait(HANG)
        if self.defect:
            raise RuntimeError("our own defect")
        return run(payloads)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    found, submit = Counted(), Batcher.submit

    async def counting(self: Batcher, key: Any, run: Any, payload: Any, cost: float = 1.0) -> Any:
        return await submit(self, key, lambda payloads: found.run(run, payloads), payload, cost)

    def counts(method: Any) -> Any:
        def wrapped(*given: Any, **named: Any) -> Any:
            found.words += 1
            return method(*given, **named)

        return wrapped

    def scope(*given: Any) -> RequestScope:
        found.scopes.append(RequestScope(*given))
        return found.scopes[-1]

    monkeypatch.setattr(Batcher, "submit", counting)
    monkeypatch.setattr(LLRNN, "step", counts(LLRNN.step))
    monkeypatch.setattr(LLRNN, "scan", counts(LLRNN.scan))
    monkeypatch.setattr(guard, "RequestScope", scope)
    yield found
    found.go_on.set()


@pytest.fixture(scope="module", autouse=True)
def described_once() -> Iterator[None]:
    """The description of the API is three quarters of the work of `create_app`, and the same for all of these apps."""
    found: list[dict[str, Any]] = []

    def once(app: FastAPI, *, needs_token: bool) -> dict[str, Any]:
        assert needs_token  # as every app of this file
        found.extend([] if found else [described(app, needs_token=needs_token)])
        return found[0]

    with mock.patch("llrnn.serve.app.described", once):
        yield


@asynccontextmanager
async def serving(served: Served, limits: Limits | None = None) -> AsyncIterator[FastAPI]:
    engine = Engine([served])
    try:
        yield create_app(engine, limits, token=TOKEN)
    finally:
        await engine.close()


async def ask(
    app: FastAPI, path: str, body: object, leave: asyncio.Event | None = None, method: str = ""
) -> tuple[int, bytes]:
    """Status and body of the answer; the client leaves when it is told to."""
    method, (path, _, query) = method or ("GET" if body is None else "POST"), path.partition("?")
    sent: list[dict[str, Any]] = []
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    parts = iter([{"type": "http.request", "body": b"" if body is None else given, "more_body": False}])

    async def receive() -> dict[str, Any]:
        if (part := next(parts, None)) is not None:
            return part
        await (leave or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    headers += [(b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": headers}
    await app({**scope, "client": ("127.0.0.1", 1)}, receive, send)
    return sent[0]["status"] if sent else 0, b"".join(one.get("body", b"") for one in sent)


def asked(name: str, served: Served) -> tuple[str, Any]:
    path, body = ASKED[name]
    cell = served.model.vocabulary.symbols[served.model.vocabulary.n_words]
    return path + quote(cell) if name == "strings" else path, body


def test_every_endpoint_is_asked_here(served: Served) -> None:
    async def described() -> Any:
        async with serving(served) as app:
            return app.openapi()

    paths = asyncio.run(described())["paths"]
    assert {one["operationId"] for path in paths.values() for one in path.values()} == {n.split()[0] for n in ASKED}


# --- work ends with the request, and holds a place until then ---------------------------------------------------------


async def until(happens: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG):
        while not happens():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("ending", ["left", "late", "defect"])
@pytest.mark.parametrize("name", WORKING)
def test_work_ends_with_the_request(name: str, ending: str, served: Served, counted: Counted) -> None:
    async def main() -> None:
        limits = Limits(seconds=0.2 if ending == "late" else HANG)
        async with serving(served, limits) as app:
            gate, leave, before = app.state.gate, asyncio.Event(), asyncio.all_tasks()
            answer = asyncio.create_task(ask(app, *asked(name, served), leave))
            await until(counted.begun.is_set)
            if ending != "late":
                assert (gate.inside, gate.is_full) == (1, False)
            if ending == "left":
                leave.set()
            if ending == "defect":
                counted.defect = True
                counted.go_on.set()
            status, _ = await answer
            assert status == {"left": 0, "late": 503, "defect": 500}[ending]
            assert gate.inside == 0
            assert asyncio.all_tasks() == before
            await nothing_is_computed(app, counted)

    asyncio.run(main())


async def nothing_is_computed(app: FastAPI, counted: Counted) -> None:
    """After the answer: but for the batch that had begun, which no flag can stop."""
    before, counted.defect = counted.batches, False
    words = counted.words
    counted.go_on.set()
    (batcher,) = app.state.engine._batchers.values()
    await batcher.submit("last", lambda payloads: payloads, "payload")
    await until(lambda: not batcher._waiting)
    assert counted.batches <= before + 1  # that of this question
    assert counted.words <= words + 1


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("completions", {"prompt": ["la"] * 39 + [UNKNOWN], "max_tokens": 40, **ENDLESS}),
        ("completions", {"prompt": [UNKNOWN] + ["la"] * 39, "max_tokens": 40, **ENDLESS}),
        ("completions", {"prompt": ["la", UNKNOWN], "n": 20, "max_tokens": 40, **ENDLESS}),
        ("write", {"conditions": ["la", "{", "le"], "max_words": 40}),
        ("write", {"conditions": ["{", "la", "le"], "max_words": 40}),
        ("score", {"texts": ["la " * 400] * 4 + [UNKNOWN]}),
        ("score", {"texts": [UNKNOWN] + ["la " * 400] * 4}),
    ],
)
def test_work_of_a_request_that_is_refused_in_part_ends(name: str, body: Any, served: Served, counted: Counted) -> None:
    async def main() -> None:
        async with serving(served) as app:
            before = asyncio.all_tasks()
            counted.go_on.set()
            status, said = await asyncio.create_task(ask(app, ASKED[name][0], body))
            assert status in (400, 409), said
            assert app.state.gate.inside == 0
            assert asyncio.all_tasks() == before
            await nothing_is_computed(app, counted)

    asyncio.run(main())


def test_all_prompts_are_read_before_a_text_is_begun(counted: Counted) -> None:
    """Where the words are closed: to end many texts that were begun would hold up others."""
    model = LLRNN(
        Vocabulary.from_corpus(small_corpus()),
        output_features=features.Identity(),
        background=backgrounds.Unigram.from_corpus(small_corpus()),
        controller=LSTM(4),
    )

    async def asked(*prompts: str) -> int:
        async with serving(Served("closed", model)) as app:
            return (await ask(app, "/v1/completions", {"prompt": prompts, "max_tokens": 2}))[0]

    counted.go_on.set()
    assert asyncio.run(asked("la", "la", UNKNOWN)) == 400
    assert not counted.batches
    assert asyncio.run(asked("la", "la")) == 200  # a positive control
    assert counted.batches


def test_a_task_that_outlives_its_request_computes_nothing(served: Served, counted: Counted) -> None:
    """Not even where somebody forgets to wait for it: cancelling is not what ends the work."""

    async def main() -> None:
        engine, scope = Engine([served]), RequestScope()
        token = SCOPE.set(scope)
        job = asyncio.create_task(engine.next(NextRequest()))
        await until(counted.begun.is_set)
        scope.ended = True
        with pytest.raises(Refused, match="has ended"):
            await engine.next(NextRequest())
        SCOPE.reset(token)
        counted.go_on.set()
        await job
        await engine.close()
        assert counted.batches == 1

    asyncio.run(main())


def test_who_is_refused_a_place_leaves_nothing_behind(
    served: Served, counted: Counted, recwarn: pytest.WarningsRecorder
) -> None:
    """`coroutine … was never awaited`."""

    async def main() -> None:
        async with serving(served, Limits(in_flight=1)) as app:
            first = asyncio.create_task(ask(app, *asked("next", served)))
            await until(counted.begun.is_set)
            assert (await ask(app, "/v1/ready", None))[0] == 503
            for name in WORKING:
                assert (await ask(app, *asked(name, served)))[0] == 429, name
            counted.go_on.set()
            assert (await first)[0] == 200

    asyncio.run(main())
    assert not [one for one in recwarn if "never awaited" in str(one.message)]


# --- cost -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKING)
def test_what_is_counted_is_what_the_estimate_says(name: str, served: Served, counted: Counted) -> None:
    async def main() -> int:
        async with serving(served) as app:
            counted.go_on.set()
            return (await ask(app, *asked(name, served)))[0]

    assert asyncio.run(main()) == 200
    (scope,) = counted.scopes
    assert scope.allowed <= most("work")
    if name == "write":  # texts may end, and the first step has one hypothesis
        assert 0 < scope.spent <= scope.allowed
    else:
        assert scope.spent == pytest.approx(scope.allowed)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("completions", {"prompt": ["la"], "n": 64, "max_tokens": 500}),
        ("completions", {"prompt": ["la"] * 64, "max_tokens": 500}),
        ("completions", {"prompt": ["la " * 400] * 64, "max_tokens": 1}),
        ("completions", {"prompt": ["la"] * 32, "n": 2, "max_tokens": 40, "stream": True}),
        ("write", {"conditions": ["la"] * 64, "beam": 20, "max_words": 500}),
        ("write", {"conditions": ["la"] * 64, "count": 20, "max_words": 500}),
        ("score", {"texts": ["la"] * 64, "conditions": [f"{n} {'la ' * 1000}" for n in range(64)]}),
    ],
)
def test_what_costs_more_than_the_limit_is_refused_before_it_runs(
    name: str, body: Any, served: Served, counted: Counted
) -> None:
    async def main() -> tuple[int, bytes]:
        async with serving(served) as app:
            return await ask(app, ASKED[name][0], body)

    status, said = asyncio.run(main())
    assert (status, json.loads(said)["code"]) == (422, "too_much_work")
    assert "at most as much as reading 20,000 words, found" in json.loads(said)["message"]
    assert counted.batches == 0


counts = st.integers(1, most("texts"))


@given(counts, counts, st.integers(1, most("max_words")), st.integers(0, 50))
def test_completions_cost_what_their_texts_do(prompts: int, n: int, steps: int, words: int) -> None:
    n = min(n, most("texts") // prompts)
    whole = CompletionRequest(prompt=("la " * words,) * prompts, n=n, max_tokens=steps)
    texts = whole.continuations()
    assert len(texts) == n * prompts
    served = some_served()
    assert cost_of(served, whole).total == pytest.approx(sum(cost_of(served, one).total for one in texts))
    assert cost_of(served, whole).steps == STEP_COST * n * prompts * steps


@given(counts, st.integers(1, 20), st.integers(1, 20), st.integers(1, most("max_words")))
def test_a_beam_costs_its_hypotheses(conditions: int, beam: int, count: int, steps: int) -> None:
    request = WriteRequest(conditions=("la",) * conditions, beam=beam, count=count, max_words=steps)
    assert cost_of(some_served(), request).steps == HYPOTHESIS_COST * conditions * max(beam, count) * steps


# --- errors -----------------------------------------------------------------------------------------------------------

WRONG: dict[str, Callable[[str, Any], tuple[str, Any, str]]] = {
    "method": lambda path, body: (path, body, "DELETE"),
    "path": lambda path, body: (f"{path.partition('?')[0]}/nothing/here", body, ""),
    "model": lambda path, body: (
        path.replace("any", "other"),
        None if body is None else {**body, "model": "other"},
        "",
    ),
    "field": lambda path, body: (
        f"{path}&limit=x&nothing=1" if body is None else path,
        None if body is None else {"nothing": 1},
        "",
    ),
    "JSON": lambda path, body: (path, None if body is None else b"{", ""),
}


@pytest.mark.parametrize("name", ASKED)
def test_errors_have_one_form(name: str, served: Served, counted: Counted) -> None:
    async def main() -> list[tuple[int, bytes]]:
        counted.go_on.set()
        async with serving(served) as app:
            given = [change(*asked(name, served)) for change in WRONG.values()]
            return [await ask(app, path, body, method=method) for path, body, method in given]

    found = [said for status, said in asyncio.run(main()) if status != 200]
    assert len(found) >= (2 if ASKED[name][1] is None else 4)  # nothing but a method and a path is wrong of a GET
    for said in found:
        told = ErrorAnswer.model_validate_json(said)
        assert set(json.loads(said)) == {"code", "message", "error"}
        assert (told.error.code, told.error.message) == (told.code, told.message)
        assert told.error.type == "invalid_request_error"
        assert "--" not in told.message
