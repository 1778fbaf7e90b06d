"""Schemathesis against the server's own description, over the real engine: what it allows is answered as it says.

All default checks are on: no server error, only documented statuses, types, headers and bodies; what breaks the schema
is refused, what obeys it is not (400, 404 and 409 apart: well-formed, but of an unknown word, for instance); the token
cannot be left out; undocumented methods are 405.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from helpers import HANG
from llrnn.serve.app import create_app
from llrnn.serve.engine import Engine
from llrnn.serve.messages import Limits
from llrnn.serve.served import Served
from served_models import tiny_model
from strategies import draws

AUTHORIZED = {"Authorization": "Bearer a-token"}
# so that lists which are longer than allowed are refused for that and not for their bytes (413 is not in any schema)
ROOMY = Limits(body_bytes=2**26)


class LastingEngine(Engine):
    """The client starts and ends the application around every single request; the engine outlives them."""

    async def close(self) -> None:
        return None


model = tiny_model()
app = create_app(LastingEngine([Served("tiny", model)]), ROOMY, token="a-token", hosts={"localhost", "testserver"})
Number = (int, float)  # JSON knows no difference: 5.0 is an integer
quick = settings(suppress_health_check=list(HealthCheck))


def described(*modes: schemathesis.GenerationMode) -> schemathesis.BaseSchema:
    found = schemathesis.openapi.from_asgi("/v1/openapi.json", app, headers=AUTHORIZED)
    found.config.generation.update(modes=list(modes))
    found.config.request_timeout = HANG  # the machine may be busy
    refusal = found.config.checks.negative_data_rejection
    refusal.expected_statuses = [*refusal.expected_statuses, "413"]  # too long a list may have too many commas, too
    accepted = found.config.checks.positive_data_acceptance
    accepted.expected_statuses = [*accepted.expected_statuses, "400"]  # a word that the model does not have
    return found


everything = described(schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
known = described(schemathesis.GenerationMode.POSITIVE)
# values at the edges are of `everything`; in known words, too, with every case of the property tests
known.config.phases.coverage.enabled = settings.get_current_profile_name() == "all"


@everything.hook("map_body")
def cheap_enough(context: Any, body: Any) -> Any:
    """So that beams and texts are refused for what breaks the schema, and not for their work."""
    if not isinstance(body, dict):
        return body
    if isinstance(body.get("max_tokens"), Number) and 5 < body["max_tokens"] <= 500:
        body = {**body, "max_tokens": 5}
    short = "conditions" in body and "texts" not in body
    if short and all(isinstance(body.get(name, 1), Number) for name in ("beam", "count", "max_words")):
        return {**body, "max_words": min(body.get("max_words", 5), 5)}
    return few_enough(body)


def few_enough(body: dict[str, Any]) -> dict[str, Any]:
    """n texts of each prompt are at most 64, which no schema can say: one of each, where they would be more."""
    prompts, count = body.get("prompt"), body.get("n", 1)
    many = isinstance(prompts, list) and isinstance(count, Number) and 1 <= count <= 64 < count * len(prompts)
    return {**body, "n": 1} if many else body


@everything.parametrize()
@settings(quick, max_examples=draws(12))
def test_every_endpoint_does_as_described(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate(headers=AUTHORIZED)


# --- what was drawn, said in words that the model knows: most of it then has an answer, which is checked -----------


def chosen(text: str, names: Sequence[str]) -> str:
    return names[sum(map(ord, text)) % len(names)]


def in_known_words(text: str | list[str]) -> str | list[str]:
    if isinstance(text, str):
        return " ".join(chosen(word, model.vocabulary.words) for word in text.split())
    return [chosen(word, model.vocabulary.words) for word in text]


@known.hook
def map_body(context: Any, body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    names = {"model": ["tiny"], "background": ["own", "uniform", "unigram"], "feature": model.feature_names}
    words = {"prefix": in_known_words, "word": in_known_words, "rival": in_known_words, "words": in_known_words}
    said: dict[str, Any] = {**body, "condition": None} if "condition" in body else {**body}
    for name, value in body.items():
        if name in names and value is not None:
            said[name] = chosen(value, names[name])
        elif name in words and value:
            said[name] = words[name](value)
    for name in {"max_words", "max_tokens"} & {*body}:
        said[name] = min(body[name], 20)  # more of the same takes time, and 64 texts of it too much
    if "prompt" in body:
        given = body["prompt"]
        said["prompt"] = in_known_words(given) if isinstance(given, str) else [*map(in_known_words, given)]
    if "texts" in body:
        said["texts"], said["conditions"] = [in_known_words(text) for text in body["texts"]], None
    if "changes" in body:
        said["changes"] = [{**one, "feature": chosen(one["feature"], model.feature_names)} for one in body["changes"]]
    return few_enough(said)


@known.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> Any:
    return {**path_parameters, "name": "tiny"} if path_parameters else path_parameters


statuses: Counter[int] = Counter()


@pytest.fixture
def some_answers() -> Iterator[None]:
    """That an endpoint answered something, whichever worker of pytest-xdist asked it; /v1/write needs a condition, and
    this model reads none."""
    statuses.clear()
    yield
    assert statuses[200] > 0 or {*statuses} <= {404, 409}, statuses


@pytest.mark.usefixtures("some_answers")
@known.parametrize()
@settings(quick, max_examples=draws(15))
def test_every_answer_is_as_described(case: schemathesis.Case[Any]) -> None:
    statuses[case.call_and_validate(headers=AUTHORIZED).status_code] += 1
