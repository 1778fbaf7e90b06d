"""`/v1/completions` in the form that clients of OpenAI-like servers send and expect; a token is a word.

    prompt       words before, one text or several            ->  choices[i].text goes on from it, blank included
    max_tokens   16 words by default; temperature 0 is greedy; top_p, n, seed, stop, stream, logprobs as usual
    condition, background, changes                            our own, beside them (`extra_body` of OpenAI's client)

What such a request may ask for and no model of words does (penalties, a suffix, `logit_bias`) is refused, not ignored.
A text ends with the sentence, before a stop word (`stop`), or after `max_tokens` (`length`).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from llrnn.serve.messages import (
    WHOLE,
    Answer,
    Changes,
    Condition,
    GenerateRequest,
    Message,
    Name,
    PrefixText,
    at_most,
    count_words,
    most,
    require,
    words_of,
)
from llrnn.serve.served import together

Events = AsyncGenerator[tuple[str, dict[str, Any]]]
_TEXTS = {"json_schema_extra": {"maxItems": most("texts")}}
_Stop = Annotated[str, Field(min_length=1, max_length=100)]
_STOPS = 4
_Prompt = Annotated[PrefixText, at_most("prefix_words", count_words)]
_LARGEST = 2**63 - 1


def _only(*allowed: object) -> tuple[Any, ...]:
    """A field that may be sent, with values that change nothing; what would be ignored is refused."""

    def check(given: object) -> object:
        for one in allowed:
            if given == one and isinstance(given, bool) == isinstance(one, bool):
                return given
        raise ValueError(f"only {' or '.join(json.dumps(one) for one in allowed)} is possible here")

    return BeforeValidator(check), WithJsonSchema({"enum": list(allowed)})


class StreamOptions(Message):
    """What a stream says at its end."""

    include_usage: Annotated[bool, Field(strict=True)] = False


class CompletionRequest(Message):
    """Go on from a prompt, in the form of OpenAI's completions."""

    model: Annotated[Name | None, Field(description="the name of a served model; the first one by default")] = None
    prompt: Annotated[
        _Prompt
        | Annotated[tuple[_Prompt, ...], Field(min_length=1, description="several", **_TEXTS), at_most("texts")],
        Field(description="the words before"),
    ] = ""
    max_tokens: Annotated[
        int,
        Field(strict=True, ge=1, json_schema_extra={"maximum": most("max_words")}),
        WHOLE,
        at_most("max_words", int),
    ] = 16
    temperature: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=1000)] = 1.0
    top_p: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=1e-6, le=1)] = 1.0
    n: Annotated[int, Field(strict=True, ge=1, json_schema_extra={"maximum": most("texts")}), WHOLE] = 1
    stop: Annotated[_Stop | Annotated[tuple[_Stop, ...], Field(max_length=_STOPS)] | None, Field()] = None
    seed: Annotated[Annotated[int, Field(strict=True, ge=0, le=_LARGEST), WHOLE] | None, Field()] = None
    logprobs: Annotated[
        Annotated[
            int, Field(strict=True, ge=0, json_schema_extra={"maximum": most("alternatives")}), WHOLE,
            at_most("alternatives", int),
        ] | None,
        Field(description="so many of the most probable words beside each"),
    ] = None  # fmt: skip
    stream: Annotated[bool, Field(strict=True)] = False
    stream_options: StreamOptions | None = None
    user: Annotated[str | None, Field(max_length=1000, description="not looked at")] = None
    condition: Condition | None = None
    background: Annotated[Name, Field(description="the name of a background on offer")] = "own"
    changes: Changes = ()
    # of the form, with the one value that a model of words has
    echo: Annotated[Any, *_only(False)] = False
    best_of: Annotated[Any, *_only(1, None)] = None
    presence_penalty: Annotated[Any, *_only(0)] = 0
    frequency_penalty: Annotated[Any, *_only(0)] = 0
    logit_bias: Annotated[Any, *_only({}, None)] = None
    suffix: Annotated[Any, *_only(None)] = None

    @model_validator(mode="after")
    def _no_batch_of_too_many_texts(self) -> Self:
        require("texts", self.n * len(self.prompts), "n × prompt")
        return self

    @property
    def prompts(self) -> tuple[str, ...]:
        return (self.prompt,) if isinstance(self.prompt, str) else self.prompt

    @property
    def stops(self) -> tuple[str, ...]:
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else self.stop

    def continuations(self) -> list[GenerateRequest]:
        """The texts that are asked for, one by one: n of each prompt."""
        first = secrets.randbits(62) if self.seed is None else self.seed
        drawing: dict[str, Any] = {"greedy": True} if self.temperature == 0 else {"temperature": self.temperature}
        if self.temperature and self.top_p < 1:
            drawing["top_p"] = self.top_p
        same = {"model": self.model, "background": self.background, "changes": self.changes, "stream": True}
        return [
            _Continuation(
                prefix=prompt,
                condition=self.condition,
                max_words=self.max_tokens,
                seed=(first + number) % _LARGEST,
                alternatives=self.logprobs or 0,
                **same,
                **drawing,
            )
            for prompt in self.prompts
            for number in range(self.n)
        ]


class _Continuation(GenerateRequest):
    """One text of a request."""

    place: ClassVar[str] = "prompt"


class LogProbs(Answer):
    """By word: itself, its log p, the most probable ones and itself, and where it begins in the text."""

    tokens: tuple[str, ...]
    token_logprobs: tuple[float, ...]
    top_logprobs: tuple[dict[str, float], ...]
    text_offset: tuple[int, ...]


class Choice(Answer):
    """One text."""

    text: str
    index: int
    logprobs: LogProbs | None
    finish_reason: Literal["stop", "length"] | None


class Usage(Answer):
    """Words that were read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionAnswer(Answer):
    """Texts that go on from the prompts."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: Usage | None = None
    warnings: tuple[str, ...] = ()


class _Pieces:
    """The words of one text as they come, held back while a stop word may begin in them."""

    def __init__(self, prompt: str, stops: Sequence[str]) -> None:
        self._blank = "" if not prompt or prompt[-1].isspace() else " "
        self._stops, self._text, self._sent = stops, "", 0
        self._waiting: list[tuple[int, str, dict[str, Any]]] = []  # where it begins, as it is written, the event
        self.count, self.is_stopped = 0, False

    def add(self, event: dict[str, Any]) -> list[tuple[int, str, dict[str, Any]]]:
        """What can be sent now."""
        piece, blank = self._blank + event["word"], self._blank
        self._blank = " "
        top = {blank + one["word"]: one["log_p"] for one in event["alternatives"]} | {piece: event["log_p"]}
        self._waiting.append((len(self._text), piece, {**event, "top": top}))
        self._text += piece
        self.count += 1
        found = [place for stop in self._stops if (place := self._text.find(stop)) >= 0]
        if found:
            self.is_stopped = True
            return self._up_to(min(found))
        return self._up_to(len(self._text) - max((len(stop) - 1 for stop in self._stops), default=0), whole=True)

    def rest(self) -> list[tuple[int, str, dict[str, Any]]]:
        return [] if self.is_stopped else self._up_to(len(self._text))

    def _up_to(self, end: int, *, whole: bool = False) -> list[tuple[int, str, dict[str, Any]]]:
        """The words before a place; one that goes beyond it waits, or is cut there."""
        ready = list[tuple[int, str, dict[str, Any]]]()
        while self._waiting and self._waiting[0][0] < end:
            begin, piece, event = self._waiting[0]
            if whole and begin + len(piece) > end:
                break
            ready.append((begin, piece[: end - begin], event))
            del self._waiting[0]
        return ready


class CompletionWork:
    """The answer to a request, whole or in chunks."""

    def __init__(self, request: CompletionRequest, texts: Sequence[Events], model: str) -> None:
        """`texts`: the events of each (`Engine.continuations`)."""
        self.request, self._texts = request, texts
        head = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time())}
        self._head: dict[str, Any] = {**head, "model": model}
        self._read = self._written = 0
        self._warnings = dict[str, None]()

    async def whole(self) -> dict[str, Any]:
        """All texts, side by side."""
        found = await together(self._all_of(index) for index in range(len(self._texts)))
        return {**self._head, "choices": found, "usage": self._usage(), "warnings": [*self._warnings]}

    async def chunks(self) -> Events:
        """One text after the other, as the words come, and then how many there were."""
        for index in range(len(self._texts)):
            async with aclosing(self._parts(index)) as parts:
                async for part in parts:
                    yield "chunk", {**self._head, "choices": [part], "usage": None, "warnings": []}
        if self.request.stream_options is not None and self.request.stream_options.include_usage:
            yield "chunk", {**self._head, "choices": [], "usage": self._usage(), "warnings": [*self._warnings]}

    async def _all_of(self, index: int) -> dict[str, Any]:
        parts = [part async for part in self._parts(index)]
        listed = [part["logprobs"] for part in parts if part["logprobs"] is not None]
        joined = {name: [one for part in listed for one in part[name]] for name in LogProbs.model_fields}
        text = "".join(part["text"] for part in parts)
        logprobs = None if self.request.logprobs is None else joined
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": parts[-1]["finish_reason"]}

    async def _parts(self, index: int) -> AsyncGenerator[dict[str, Any]]:
        prompt = self.request.prompts[index // self.request.n]
        pieces, ended = _Pieces(prompt, self.request.stops), False
        self._read += len(words_of(prompt))
        async with aclosing(self._texts[index]) as events:
            async for name, data in events:
                if name == "word":
                    for one in pieces.add(data):
                        yield self._choice(index, [one])
                    if pieces.is_stopped:
                        break
                else:
                    ended = data["finished"]
                    self._warnings |= dict.fromkeys(data["warnings"])
        self._written += pieces.count
        reason = "stop" if ended or pieces.is_stopped else "length"
        yield {**self._choice(index, pieces.rest()), "finish_reason": reason}

    def _choice(self, index: int, pieces: Sequence[tuple[int, str, dict[str, Any]]]) -> dict[str, Any]:
        logprobs = None
        if self.request.logprobs is not None:
            logprobs = {
                "tokens": [piece for _, piece, _ in pieces],
                "token_logprobs": [event["log_p"] for *_, event in pieces],
                "top_logprobs": [event["top"] for *_, event in pieces],
                "text_offset": [begin for begin, *_ in pieces],
            }
        text = "".join(piece for _, piece, _ in pieces)
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": None}

    def _usage(self) -> dict[str, int]:
        read, written = self._read, self._written
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
