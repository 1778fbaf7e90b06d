"""The OpenAPI description: requests and answers from their models, and every status that an endpoint may have."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from llrnn.serve.answers import Answer, ErrorAnswer, Finished, Written
from llrnn.serve.messages import ExplainRequest, GenerateRequest, InfluenceRequest, Message, NextRequest, ScoreRequest

_REQUESTS: tuple[type[Message], ...] = (NextRequest, ExplainRequest, InfluenceRequest, GenerateRequest, ScoreRequest)
_ABOUT = "Next words, explanations, scores and texts from Log-Linear RNNs. docs/server.md is the guide."
_SEVERAL = {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}, "required": True}}
_MEANINGS: dict[int, dict[str, Any]] = {
    400: {"description": "malformed_json, wrong_host"},
    401: {"description": "unauthorized"},
    404: {"description": "unknown_model, unknown_background, unknown_word, unknown_feature"},
    408: {"description": "slow_client"},
    409: {"description": "impossible, condition"},
    413: {"description": "body_too_large"},
    415: {"description": "not_json"},
    422: {"description": "invalid, or the code of a field's limit"},
    429: {"description": "too_many_requests", "headers": _SEVERAL},
    500: {"description": "internal"},
    503: {"description": "stopping, took_too_long", "headers": _SEVERAL},
}
OF_QUESTIONS = tuple(_MEANINGS)
OF_LISTS = (400, 401, 404, 422, 429, 500, 503)
OF_FACTS = (400, 401, 500, 503)


def errors_of(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    """The errors of an endpoint, all of one form."""
    return {status: {"model": ErrorAnswer, **_MEANINGS[status]} for status in statuses}


def request_body(message: type[Message]) -> dict[str, Any]:
    """What an endpoint reads by itself, where FastAPI would not know of it."""
    schema = {"$ref": f"#/components/schemas/{message.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _event(name: str, data: type[Answer]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{data.__name__}"}
    text = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {"type": "object", "required": ["event", "data"], "properties": {"event": {"const": name}, "data": text}}


EVENTS: dict[str, type[Answer]] = {"word": Written, "done": Finished, "error": ErrorAnswer}
EVENT_STREAM = {"text/event-stream": {"itemSchema": {"oneOf": [_event(name, data) for name, data in EVENTS.items()]}}}


class DescribedApp(FastAPI):
    """An application that describes the bodies which its endpoints read by themselves."""

    needs_token = False

    @cached_property
    def openapi_bytes(self) -> bytes:
        """The description as it is sent: serialised once, for doing it in the event loop kept others waiting."""
        return json.dumps(self.openapi(), ensure_ascii=False, separators=(",", ":")).encode()

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = self._described()
        return self.openapi_schema

    def _described(self) -> dict[str, Any]:
        found = get_openapi(title="llrnn", version=self.version, description=_ABOUT, routes=self.routes)
        place = "#/components/schemas/{model}"
        models: list[type[BaseModel]] = [*_REQUESTS, Finished]
        _, others = models_json_schema([(one, "validation") for one in models], ref_template=place)
        found["components"]["schemas"].update(others["$defs"])
        if self.needs_token:
            found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, operations in found["paths"].items():
                for operation in operations.values():
                    operation["security"] = [] if path == "/v1/health" else [{"token": []}]
        return found
