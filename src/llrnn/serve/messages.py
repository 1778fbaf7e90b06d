"""What a request may hold, what is answered, and everything that the server bounds.

Only what is written here is accepted: no unknown field, no number as text, no true for 1, no NaN, no NUL. Bounds are in
one table (`limits.toml`), and stand in the OpenAPI description too: who is beyond one is refused in its own words, as
soon as it is found. Those of the server itself (`Limits`) can be set when it is started; no request can change any.
Models are frozen and hold tuples, so that whatever is made for a request can be kept by its parts.

Answers are described for OpenAPI, for tests, and as `llrnn.Client` returns them. The server does not make them from
these models: the engine's own dictionaries are sent as they are, which is faster, and
`tests/serve/test_server_schema.py` holds them to what is promised here. null stands for an infinity.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Annotated, Any, ClassVar, Literal, Self, overload

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from llrnn.ground.errors import ConfigError, LLRNNError
from llrnn.ground.files import parse_toml
from llrnn.ground.rendering import Renderable, Sheet, TextTable
from llrnn.text.conditions import BEAM


class Refused(LLRNNError):  # noqa: N818 (what it says: the request is refused)
    """The refusal of a request by the server, an exception: HTTP status, code for programs, message for people.

    The message says what was required, what was found and what to do; `headers` are added to the HTTP answer.
    """

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Return the JSON body of the error answer: code, message, and `error`, the form that OpenAI's clients read.

        `error` has code and message again, `type` ("server_error" from status 500 on, else "invalid_request_error") and
        `param`, always None.
        """
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        said = {"code": self.code, "message": self.message}
        return {**said, "error": {**said, "type": kind, "param": None}}


@dataclass(frozen=True)
class Limit:
    """An upper bound on one thing that a request holds or costs, read from `limits.toml`, and how excess is refused.

    `name`: its key there; `most`: the greatest value allowed; `meaning`: what is counted, in which unit; `status`,
    `code` and `message`: of the refusal, where {most}, {found} and {field} in the message are filled in.
    """

    name: str
    most: int
    meaning: str
    status: int
    code: str
    message: str

    def refused(self, *, found: int | None = None, most: float | None = None, field: str | None = None) -> Refused:
        """Return, not raise, the `Refused` for a request beyond this limit.

        `found`: the value in the request, None if not known; `most`: the bound to name in the message, None for that of
        `limits.toml`; `field`: the name of the request's field, None for the name of the limit.
        """
        bound = self.most if most is None else most
        counted = "more" if found is None or found > 10**18 else f"{found:,}"
        shown = f"{int(bound):,}" if bound == int(bound) else bound
        said = self.message.format(most=shown, found=counted, field=field or self.name)
        return Refused(self.status, self.code, said, _HEADERS.get(self.status))


# a client may come back when there is room; of one that is slow no more is read
_HEADERS = {408: {"Connection": "close"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}

_TABLE = parse_toml((resources.files("llrnn.serve") / "limits.toml").read_text(encoding="utf8"))
LIMITS: Mapping[str, Limit] = {name: Limit(name, **row) for name, row in _TABLE.items()}


def most(name: str) -> int:
    """Return the greatest value that the limit `name` of `limits.toml` allows; raise a KeyError for an unknown name."""
    return LIMITS[name].most


@dataclass(frozen=True)
class Limits:
    """Bounds on connections and requests of one server, which its operator may set when it is started.

    `body_*`, `header_*`: bytes, and seconds to arrive, of the body and the header of a request; `seconds`: to work on
    one and send the answer; `in_flight`: requests worked on at a time; `connections`, `client_connections`: open ones,
    in all and of one client address. A ConfigError is raised unless all are above 0 and finite.
    """

    body_bytes: int = most("body_bytes")
    body_seconds: float = most("body_seconds")
    header_seconds: float = most("header_seconds")
    header_bytes: int = most("header_bytes")
    seconds: float = most("seconds")
    in_flight: int = most("in_flight")
    connections: int = most("connections")
    client_connections: int = most("client_connections")

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < float("inf"):
                raise ConfigError(f"{name} must be above 0 and finite, found {value}: {LIMITS[name].meaning}")

    def refused(self, name: str, *, found: int | None = None) -> Refused:
        """Return, not raise, the `Refused` for a request beyond the limit `name`, a field of this class.

        `found`: the value in the request, for the message; None if not known.
        """
        return LIMITS[name].refused(found=found, most=getattr(self, name))


LARGEST_SEED = 2**63 - 1
_LARGEST_CHANGE = 1e6
_NO_NUL = r"^[^\x00]*$"


def require(limit: str, found: int, field: str | None = None) -> None:
    """Raise a `Refused` where `found` exceeds the limit called `limit` in `limits.toml`; otherwise do nothing.

    `field`: the field of the request that is named in the message, None for the name of the limit.
    """
    if found > most(limit):
        raise LIMITS[limit].refused(found=found, field=field)


def require_work(found: float, allowed: float = most("work")) -> None:
    """Raise a `Refused` (422) where the cost `found` of a request exceeds `allowed` by more than 1e-6.

    The unit is reading one word; the default is what any request may cost.
    """
    if found > allowed + 1e-6:
        raise LIMITS["work"].refused(found=math.ceil(found))


def at_most(limit: str, size: Callable[[Any], int] = len) -> AfterValidator:
    """Return a pydantic validator that raises a `Refused` for values whose `size` exceeds a limit of `limits.toml`.

    `limit`: its name there; `size`: maps the value to an integer, by default its length.
    """

    def check(value: Any, info: ValidationInfo) -> Any:
        require(limit, size(value), info.field_name)
        return value

    return AfterValidator(check)


def _string(limit: str, description: str) -> tuple[Any, ...]:
    """Return the pydantic annotations of a string field: no NUL, and at most as many characters as a limit allows.

    They are a tuple, to be used as `Annotated[str, *_string(…)]`. `limit`: its name in `limits.toml`; `description`:
    for the JSON schema. Too long a string raises a `Refused`, a NUL pydantic's ValidationError.
    """
    field = Field(pattern=_NO_NUL, description=description, json_schema_extra={"maxLength": most(limit)})
    return field, at_most(limit)


def _items(limit: str, description: str) -> Any:
    """Return the pydantic field of a tuple, whose JSON schema states the most items that the limit `limit` allows.

    It does not check their number: a validator of the whole field does.
    """
    return Field(fail_fast=True, description=description, json_schema_extra={"maxItems": most(limit)})


def integer(least: int, limit: str, description: str) -> tuple[Any, ...]:
    """Return the pydantic annotations of an integer field from `least` to the value of a limit of `limits.toml`.

    `limit`: its name there; `description`: for the JSON schema. 3.0 is read as 3; other numbers and strings are
    refused.
    """
    field = Field(strict=True, ge=least, description=description, json_schema_extra={"maximum": most(limit)})
    return field, WHOLE, at_most(limit, int)


def _whole(given: object) -> object:
    return int(given) if isinstance(given, float) and given.is_integer() else given


WHOLE = BeforeValidator(_whole)
Flag = Annotated[bool, Field(strict=True)]
Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Name = Annotated[str, *_string("characters", "the name of a model, a background or a feature")]
Word = Annotated[str, *_string("characters", "one word, as the model writes it")]


def _as_text(given: object) -> object:
    """Return a JSON object (dict) as JSON text and anything else as it is.

    A validator of conditions, the inputs that texts are generated from, which are stored and compared as text. A
    `Refused` (409) is raised for an object that is too long as text or has a NUL in it.
    """
    if not isinstance(given, dict):
        return given
    text, longest = json.dumps(given, ensure_ascii=False), most("condition_characters")
    if "\\u0000" in text or len(text) > longest:  # what a schema cannot say of an object
        raise Refused(
            409, "condition", f"a condition has at most {longest:,} characters as JSON, and no NUL; change it"
        )
    return text


_CONDITION = "a dialog act, plain text or a JSON object, as the model was trained"
_TEXT_SCHEMA = {"type": "string", "pattern": _NO_NUL, "maxLength": most("condition_characters")}
Condition = Annotated[
    str,
    BeforeValidator(_as_text),
    *_string("condition_characters", _CONDITION),
    WithJsonSchema({"anyOf": [_TEXT_SCHEMA, {"type": "object"}], "description": _CONDITION}),
]
PrefixText = Annotated[str, *_string("prefix_characters", "text, which the model's tokeniser cuts")]
Text = Annotated[str, *_string("text_characters", "text, which the model's tokeniser cuts")]
TextWords = Annotated[
    tuple[Word, ...], _items("one_text_words", "words, one by one: cut already"), at_most("one_text_words")
]
Number = Annotated[Real, Field(ge=-_LARGEST_CHANGE, le=_LARGEST_CHANGE, description="a number")]
Share = Annotated[Real, Field(ge=1e-6, le=1)]
Seed = Annotated[int, Field(strict=True, ge=0, le=LARGEST_SEED, description="the same seed, the same text"), WHOLE]


class Message(BaseModel):
    """Base class of request bodies: a JSON object with exactly the fields of its class; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ChangeMessage(Message):
    """A change: a, the weight of `feature`, or of all features that match a pattern, becomes scale · a + offset.

    `scale` (1 by default) and `offset` (0) are finite numbers.
    """

    feature: Annotated[Name, Field(description="the name of a feature, or a pattern in which * stands for anything")]
    scale: Number = 1.0
    offset: Number = 0.0


NewWords = Annotated[
    tuple[Word, ...], _items("new_words", "words that the model is to know too, by their endings"), at_most("new_words")
]
Changes = Annotated[
    tuple[ChangeMessage, ...], _items("changes", "changes of weights, applied in this order"), at_most("changes")
]


class ModelChoice(Message):
    """Base class of requests to a model: `model`, its name (None: the first), and `background`, its prior by name."""

    model: Annotated[Name | None, Field(description="the name of a served model; the first one by default")] = None
    background: Annotated[Name, Field(description="the name of a background on offer")] = "own"


class ModelQuery(ModelChoice):
    """Base class of requests with `changes` of weights of features and `new_words`, both for this request only, and
    `before`: the text before, whose words may come again, None where texts stand alone.

    A new word has the features of most words that end as it does; to a language model, new words are a favoured list.
    """

    changes: Changes = ()
    new_words: NewWords = ()
    before: Annotated[
        Annotated[str, *_string("text_characters", "text, which the model's tokeniser cuts")] | None,
        Field(description="the text before, whose words come again in models of running text; null: texts stand alone"),
    ] = None


class Query(ModelQuery):
    """Base class of requests about what follows `prefix` (text or words), given a `condition` (input) or None."""

    prefix: Annotated[
        PrefixText | Annotated[tuple[Word, ...], _items("prefix_words", "words, one by one"), at_most("prefix_words")],
        Field(description="the words before"),
    ] = ""
    condition: Condition | None = None
    place: ClassVar[str] = "prefix"  # what the field is called in messages


class ReadRequest(Query):
    """A request for the words of `prefix` and `words` that the model's vocabulary lacks, with similar ones it has."""

    words: Annotated[tuple[Word, ...], _items("words", "other words that are looked up too"), at_most("words")] = ()


class NextRequest(Query):
    """A request for the `top` most probable next words after `prefix`, and for the probabilities of given `words`."""

    top: Annotated[int, *integer(0, "top", "how many of the most probable words")] = 10
    words: Annotated[tuple[Word, ...], _items("words", "words whose probability is asked too"), at_most("words")] = ()


class CompleteRequest(Query):
    """A request for the `k` most probable next words that begin with `letters`, those typed so far, after `prefix`."""

    letters: Annotated[
        str, *_string("characters", "what is typed of the word so far, without white space before it")
    ] = ""
    k: Annotated[int, *integer(1, "completions", "how many of the best words")] = 3
    mass: Annotated[
        Flag, Field(description="also p(begins with the letters); a large open vocabulary takes seconds")
    ] = False


class ExplainRequest(Query):
    """A request to split log p of `word` after `prefix` into its summands, or its difference from a `rival` word's."""

    word: Word
    rival: Word | None = None


class InfluenceRequest(Query):
    """A request for the features of earlier words that moved the weight of the feature `feature` after `prefix`."""

    prefix: Annotated[
        PrefixText
        | Annotated[tuple[Word, ...], _items("influence_words", "words, one by one"), at_most("influence_words")],
        Field(description="the words before"),
    ] = ""
    feature: Annotated[Name, Field(description="the name of a feature")]


class GenerateRequest(Query):
    """A request to continue a prefix word by word, drawn, greedily or by beam search, as `llrnn generate` does it.

    With a condition it is a beam search of 5, unless another way is asked for.
    """

    max_words: Annotated[int, *integer(1, "max_words", "stop after so many")] = 60
    beam: Annotated[int, *integer(1, "beam", "so many hypotheses")] | None = None
    greedy: Annotated[Flag, Field(description="always the most probable word; nothing is drawn")] = False
    temperature: Annotated[Real, Field(gt=0, le=1000, description="below 1 cooler, above 1 hotter")] = 1.0
    top_k: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=LARGEST_SEED), WHOLE] | None,
        Field(description="from the k most probable words"),
    ] = None
    top_p: Annotated[Share | None, Field(description="from the smallest set of this mass")] = None
    seed: Seed = 0
    alternatives: Annotated[int, *integer(0, "alternatives", "so many of the most probable words beside each")] = 0
    stream: Annotated[Flag, Field(description="events as they come, or one JSON object")] = True

    @property
    def width(self) -> int | None:
        """The number of hypotheses of the beam search; None where words are drawn, or chosen greedily."""
        drawing = self.model_fields_set & {"greedy", "temperature", "top_k", "top_p", "seed"}
        if self.beam is not None and drawing:
            raise Refused(
                409, "impossible", f"beam draws nothing, found {min(drawing)} beside it; leave one of them out"
            )
        return BEAM if self.beam is None and self.condition is not None and not drawing else self.beam

    def continuations(self) -> tuple[GenerateRequest, ...]:
        """Return (self,): one request for each text that is asked for, which is a single one here.

        A `CompletionRequest` has this method too, and may ask for several.
        """
        return (self,)


class ScoreRequest(ModelQuery):
    """A request for log p of every word of whole `texts`; `conditions` has the input of each, null for none."""

    texts: Annotated[
        tuple[Text | TextWords, ...],
        _items("texts", "whole sentences, without their end"),
        Field(min_length=1),
        at_most("texts"),
    ]
    conditions: (
        Annotated[tuple[Condition | None, ...], _items("texts", "one for each text"), at_most("texts")] | None
    ) = None

    @model_validator(mode="after")
    def _as_many_conditions(self) -> Self:
        given = len(self.texts) if self.conditions is None else len(self.conditions)
        if given != len(self.texts):
            required = f"conditions must have one entry for each of the {len(self.texts)} texts"
            raise Refused(409, "condition", f"{required}, found {given}; null is none")
        return self


class ReloadRequest(Message):
    """A request to read the server's tables and word lists anew; only clients with its token may send it."""


class WriteRequest(ModelChoice):
    """A request for the `count` best texts of a beam search for each of `conditions`, the inputs to generate from."""

    conditions: Annotated[
        tuple[Condition, ...], _items("texts", "what is to be said"), Field(min_length=1), at_most("texts")
    ]
    beam: Annotated[int, *integer(1, "beam", "so many hypotheses; 1 is greedy")] = BEAM
    count: Annotated[int, *integer(1, "beam", "so many texts for each condition, best first")] = 1
    max_words: Annotated[int, *integer(1, "max_words", "stop after so many")] = 60

    @property
    def width(self) -> int:
        """The number of hypotheses of the beam search: the greater of `beam` and `count` (texts wanted)."""
        return max(self.beam, self.count)


def _only(*allowed: object) -> tuple[Any, ...]:
    """Return the pydantic annotations of a field that may have only one of the values `allowed`, or is refused.

    For fields of OpenAI's form that no model here supports: the allowed values change nothing.
    """

    def check(given: object) -> object:
        for one in allowed:
            if given == one and isinstance(given, bool) == isinstance(one, bool):
                return given
        raise ValueError(f"only {' or '.join(json.dumps(one) for one in allowed)} is possible here")

    return BeforeValidator(check), WithJsonSchema({"enum": list(allowed)})


class StreamOptions(Message):
    """Options of a streamed completion: `include_usage` asks for a last chunk with the numbers of words."""

    include_usage: Flag = False


_TEXTS = {"json_schema_extra": {"maxItems": most("texts")}}
_Stop = Annotated[str, Field(min_length=1, max_length=100)]
_STOPS = 4


class CompletionRequest(ModelQuery):
    """A request to continue one prompt or several, in the form of OpenAI's completions; a token is a word."""

    prompt: Annotated[
        PrefixText
        | Annotated[tuple[PrefixText, ...], Field(min_length=1, description="several", **_TEXTS), at_most("texts")],
        Field(description="the words before"),
    ] = ""
    max_tokens: Annotated[int, *integer(1, "max_words", "stop after so many words")] = 16
    temperature: Annotated[Real, Field(ge=0, le=1000)] = 1.0
    top_p: Share = 1.0
    n: Annotated[int, *integer(1, "texts", "so many texts for each prompt")] = 1
    stop: Annotated[_Stop | Annotated[tuple[_Stop, ...], Field(max_length=_STOPS)] | None, Field()] = None
    seed: Seed | None = None
    logprobs: Annotated[
        Annotated[int, *integer(0, "alternatives", "so many of the most probable words beside each")] | None, Field()
    ] = None
    stream: Flag = False
    stream_options: StreamOptions | None = None
    user: Annotated[str | None, Field(max_length=1000, description="not looked at")] = None
    condition: Condition | None = None
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
        """The prompts as a tuple, of one where a single string was sent."""
        return (self.prompt,) if isinstance(self.prompt, str) else self.prompt

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings as a tuple, empty where none was sent."""
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else self.stop

    @property
    def is_searched(self) -> bool:
        """Whether the texts are found by beam search: one from a condition, with no word of how to draw it."""
        drawing = self.model_fields_set & {"temperature", "top_p", "seed"}
        return self.condition is not None and self.n == 1 and not drawing

    @property
    def most(self) -> int:
        """After how many words a text is cut: of a beam search 60 where nothing else is asked for."""
        return 60 if self.is_searched and "max_tokens" not in self.model_fields_set else self.max_tokens

    def continuations(self) -> list[GenerateRequest]:
        """Return a request for each single text: `n` for the first prompt, then `n` for the second, and so on.

        The seeds of each prompt's texts are `seed`, `seed` + 1, …, or count from a random number where `seed` is None.
        Words are chosen greedily where `temperature` is 0; one text from a condition, for which nothing of all this is
        given, is found by beam search.
        """
        first = secrets.randbits(62) if self.seed is None else self.seed
        drawing: dict[str, Any] = {"greedy": True} if self.temperature == 0 else {"temperature": self.temperature}
        if self.temperature and self.top_p < 1:
            drawing["top_p"] = self.top_p
        seeds: list[dict[str, Any]] = [{"seed": (first + number) % LARGEST_SEED, **drawing} for number in range(self.n)]
        if self.is_searched:
            seeds = [{}]
        same: dict[str, Any] = {"max_words": self.most, "alternatives": self.logprobs or 0, "condition": self.condition}
        same |= {"model": self.model, "background": self.background, "changes": self.changes, "before": self.before}
        return [_Continuation(prefix=prompt, stream=True, **same, **own) for prompt in self.prompts for own in seeds]


class _Continuation(GenerateRequest):
    """A request for one text of a `CompletionRequest`; error messages call its field `prefix` by the name `prompt`."""

    place: ClassVar[str] = "prompt"


# --- what is wrong with a request, in our own words -------------------------------------------------------------------

_MISTAKES = 100  # more are counted, and not looked at


def refusal_of_body(error: ValidationError) -> Refused:
    """Return, not raise, the `Refused` for a body that pydantic found invalid: 400 where it is no JSON, else 422.

    The message names the first mistake, or only their number where there are more than 100.
    """
    count = error.error_count()
    if count > _MISTAKES:
        return Refused(
            422, "invalid", f"the body must hold the fields of docs/server.md, found {count:,} mistakes in it"
        )
    return refusal_of(error.errors(include_url=False))


def refusal_of(wrong: Sequence[Mapping[str, Any]]) -> Refused:
    """Return, not raise, the `Refused` for the first of pydantic's errors: 400 where the body is no JSON, else 422.

    `wrong`: dicts of `ValidationError.errors()`, at least one. The message quotes the value that was found, in ASCII,
    of more than 60 characters the first 60 and "…".
    """
    first = wrong[0]
    if first["type"] == "json_invalid":
        return Refused(400, "malformed_json", f"the body must be JSON in UTF-8, found: {first['ctx']['error']}")
    if first["type"] == "extra_forbidden":
        return Refused(422, "invalid", f"there is no field {_quoted(first['loc'][-1])} here; leave it out")
    # of the other parts of a place each names a branch of a union, with brackets
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part.isidentifier())
    required = first["msg"][:1].lower() + first["msg"][1:]
    return Refused(422, "invalid", f"{place or 'the body'}: {required}, found {_quoted(first['input'])}")


def _quoted(found: object) -> str:
    text = ascii(found)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _null_for(infinity: float, description: str) -> Any:
    """Return the pydantic annotations of a number that may be null in JSON: null is read as `infinity`.

    A tuple, to be used as `Annotated[float, *_null_for(…)]`; `description`: for the JSON schema.
    """
    schema = {"anyOf": [{"type": "number"}, {"type": "null"}], "description": description}
    return BeforeValidator(lambda found: infinity if found is None else found), WithJsonSchema(schema)


LogProbability = Annotated[float, *_null_for(-math.inf, "natural logarithm; null is minus infinity")]
Perplexity = Annotated[float, *_null_for(math.inf, "null where it has no bound")]


class Answer(BaseModel):
    """Base class of the server's JSON answers, which have exactly the fields of their class.

    A client ignores fields that it does not know, those of a later version.
    """

    model_config = ConfigDict(frozen=True, json_schema_extra={"additionalProperties": False})


class ErrorDetail(Answer):
    """The field `error` of an error answer, in the form that clients of OpenAI-like servers read.

    `message`: for people; `type`: "server_error" where the server failed; `code`: for programs; `param`: always null.
    """

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: None
    code: str


class ErrorAnswer(Answer):
    """The answer to a request that was refused or failed.

    `code`: for programs; `message`: for people; `error`: both again, in the form of OpenAI's API.
    """

    code: Annotated[str, Field(description="for programs; docs/server.md lists them")]
    message: Annotated[str, Field(description="for people: what was required, what was found, what to do")]
    error: ErrorDetail


class ModelAnswer(Answer):
    """Base class of answers of a model: `model`, its name, and `background`, the name of the prior it was used with."""

    model: str
    background: str


class AskedAnswer(ModelAnswer):
    """Base class of answers about a prefix; `prefix`: its words as the model read them (in lowercase, say).

    `written`: what tokens of a language model that the answer names add to a text, blanks included.
    """

    prefix: tuple[str, ...]
    written: dict[str, str] = {}


class WordAnswer(Answer):
    """Base class of answers about one word; `str` of an instance is the word."""

    word: str

    def __str__(self) -> str:
        return self.word


class Likely(WordAnswer):
    """A word with its probability after a prefix: `word`, `log_p` in nats, `p`.

    `cell`: it is no single word but a symbol for many strings outside the vocabulary, such as all 4-digit numbers,
    whose probabilities are summed here.
    """

    log_p: LogProbability
    p: float
    cell: bool


class Next(AskedAnswer, Sequence[Likely], Renderable):
    """The answer to `next`: a sequence of the most probable next words (`top`, as `Likely`), best first.

    `words`: those whose probability was asked for by name; `telling`: the word of `top` most worth explaining, or None;
    `total`: the sum of p over all symbols; `log_z`: log of the normaliser Σ b·exp(a·φ); `entropy`: in nats.
    """

    top: tuple[Likely, ...]
    words: tuple[Likely, ...]
    telling: Annotated[
        str | None, Field(description="of `top`, the first content word with several features, or what comes near one")
    ] = None
    total: Annotated[float, Field(description="the sum of p over all symbols: 1 but for rounding")]
    log_z: float
    entropy: Annotated[float, Field(description="in nats")]

    @overload
    def __getitem__(self, place: int) -> Likely: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Likely, ...]: ...
    def __getitem__(self, place: int | slice) -> Likely | tuple[Likely, ...]:
        return self.top[place]

    def __iter__(self) -> Iterator[Likely]:  # type: ignore[override]
        return iter(self.top)

    def __len__(self) -> int:
        return len(self.top)

    def sheet(self) -> Sheet:
        """Return contents to print: the prefix, a table of words with p and log p, a line with entropy and log Z."""
        rows = tuple((one.word, f"{one.p:.4%}", f"{one.log_p:.4f}") for one in (*self.top, *self.words))
        said = f"{' '.join(self.prefix)} …, by {self.model} with background {self.background}"
        figures = f"entropy {self.entropy:.4f} nats, log Z = {self.log_z:.4f}, Σp = {self.total:.6f}"
        return Sheet(((said,), TextTable(("word", "p", "log p"), rows), (figures,)))


class Completed(WordAnswer):
    """A word that typed letters may be completed to: `word`, and `log_p` and `p`, its probability after the prefix.

    `cell`: the name of the set of strings outside the vocabulary that it belongs to, None for a word of the vocabulary;
    `share`: its probability given that the word begins with these letters, None where that was not asked for.
    """

    log_p: float
    p: float
    cell: str | None
    share: float | None


class CompleteAnswer(AskedAnswer):
    """The answer to `complete`: `best`, the most probable words that begin with `letters`, best first.

    `log_mass`: log-probability that the next word begins with the letters, None where not asked for, or where it is 0.
    """

    letters: str
    best: tuple[Completed, ...]
    log_mass: Annotated[
        float | None, Field(description="log p(begins with the letters); null where not asked for, or 0")
    ]


class TermAnswer(Answer):
    """The contribution of the feature `name` to a log-probability, in nats: share = weight · value (all floats).

    `weight` is a_k(h), what the network gives after the prefix, `value` φ_k(x) of the word. In a comparison of two
    words, `value` and `share` are differences.
    """

    name: str
    weight: float
    value: float
    share: float


class FactorAnswer(Answer):
    """One factor of a background (prior) that is a product: its name, and `log_b`, its log prior of the word."""

    name: str
    log_b: LogProbability


class MixturePartAnswer(FactorAnswer):
    """One component of a background (prior) that is a mixture: name, weight, and `log_b`, its log prior of the word.

    share = weight · exp(log_b) / b, its part of the prior b of the word.
    """

    weight: float
    share: float


class ExplanationAnswer(WordAnswer):
    """log p of a word taken apart: log_p = total = log_b + the sum of all shares of `terms` − log_z, in nats.

    `log_b`: of the prior; `terms`: contributions of features; `log_z`: of the normaliser; `cell`: name of the set of
    strings outside the vocabulary that the word belongs to, or None, and `log_inside`: its log-probability within that
    set, part of log_b; `factors`, `parts`: of a prior that is a product or a mixture; `forbidden_by`: names of factors
    that give it probability 0.
    """

    log_p: LogProbability
    log_b: LogProbability
    log_z: float
    total: LogProbability
    cell: str | None
    log_inside: float
    terms: tuple[TermAnswer, ...]
    factors: tuple[FactorAnswer, ...]
    forbidden_by: tuple[str, ...]
    parts: tuple[MixturePartAnswer, ...]
    remarks: Annotated[
        tuple[tuple[str, str], ...], Field(description="by feature, what its value is due to: who governs the word")
    ] = ()


class ComparisonAnswer(Answer):
    """log p(word) − log p(rival) taken apart: log_ratio = total = log_b_difference + the sum of all shares of `terms`.

    In nats. `log_b_difference`: of the priors; `terms`: of features; `factors`: the differences of the factors of a
    prior that is a product. null stands for an infinite difference.
    """

    log_ratio: float | None
    log_b_difference: float | None
    total: float | None
    terms: tuple[TermAnswer, ...]
    factors: tuple[FactorAnswer, ...]


class ExplainAnswer(AskedAnswer):
    """The answer to `explain`: `word`, log p of the word taken apart; with a rival also `rival`, and the `comparison`.

    The last two are None where no rival was given. `alike`: other words whose features are most like those of the word.
    """

    word: ExplanationAnswer
    rival: ExplanationAnswer | None
    comparison: ComparisonAnswer | None
    alike: tuple[str, ...] = ()


class InfluenceTermAnswer(Answer):
    """What one feature (`name`) of one earlier word contributed to a weight: `share`, gradient times value.

    `position`: index of the word in the prefix, −1 for the start of the sentence; `value`: of the feature.
    """

    position: Annotated[int, Field(ge=-1, description="place in the prefix, from 0; -1 is the start of the sentence")]
    word: str
    name: str
    value: float
    share: float


class InfluenceAnswer(AskedAnswer):
    """The answer to `influence`: the weight of the feature `feature` after the prefix.

    `weight`: a float; `terms`: what each feature of each earlier word contributed to it.
    """

    feature: str
    weight: float
    terms: tuple[InfluenceTermAnswer, ...]


class Written(WordAnswer):
    """A word that the model has just generated, with its log-probability and the names of its features that are not 0.

    `index`: of the word among the generated ones, from 0; `cell`: name of the set of strings outside the vocabulary
    that it belongs to, None for a word of the vocabulary; `piece`: what it adds to the text, a blank included;
    `alternatives`: the most probable words there, if asked for.
    """

    index: Annotated[int, Field(ge=0)]
    log_p: float
    p: float
    features: tuple[str, ...]
    cell: str | None
    piece: Annotated[str, Field(description="what it adds to the text as it is written, a blank included")] = ""
    written: dict[str, str] = {}
    alternatives: Annotated[
        tuple[Likely, ...], Field(description="the most probable words there, if they were asked for")
    ] = ()


Warnings = Annotated[
    tuple[str, ...], Field(description="acts, slots and values of the condition that are new to the model")
]


class TextAnswer(Answer):
    """Base class of answers with a generated text; `str` of an instance is the text.

    `log_prob`: of the generated words, in nats; `finished`: the model ended the sentence, and was not cut off.
    """

    text: str
    log_prob: float
    finished: Annotated[bool, Field(description="the model ended the sentence itself")]

    def __str__(self) -> str:
        return self.text


class WrittenText(TextAnswer):
    """One text that was generated from a condition (the input of a text): `text` and `words`, a tuple of strings.

    `log_prob`: Σ log p of its words in nats; `finished`: the model ended the sentence, and was not cut off.
    """

    words: tuple[str, ...]


class Finished(WrittenText):
    """The last event of a streamed text: `text` and `words` (tuple of strings), all of it, prefix included.

    `log_prob`: Σ log p of the generated words in nats; `finished`: the model ended the sentence, and was not cut off.

    `warnings`: acts, slots and values of the condition (input) that the model has not seen in training.
    """

    warnings: Warnings = ()


class GenerateAnswer(TextAnswer, AskedAnswer):
    """The answer to `generate` with `"stream": false`: the whole text, and each generated word with its features.

    `text`: as a string, prefix included; `prefix`: its words; `words`: a `Written` for each generated word; `log_prob`:
    Σ log p of these in nats; `finished`: the model ended the sentence, and was not cut off.

    `warnings`: acts, slots and values of the condition (input) that the model has not seen in training.
    """

    words: tuple[Written, ...]
    warnings: Warnings = ()


class ConditionTexts(Answer):
    """The texts that were generated for one condition (input): `best`, best first, by beam search.

    `warnings`: acts, slots and values of the condition that the model has not seen in training.
    """

    best: tuple[WrittenText, ...]
    warnings: Warnings = ()


class WriteAnswer(ModelAnswer):
    """The answer to `write`: `texts` has a `ConditionTexts` for each condition (input), in the order of the request."""

    texts: tuple[ConditionTexts, ...]


class Score(Answer):
    """The score of one text: `log_p` (nats) of each of its `words`, the end of the sentence included.

    `log_prob` is the sum, `perplexity` the exponential of minus their mean; infinities are null in JSON. `kinds`: for
    each word "listed", "spelled", "number" or the like: how it has its probability. `contract` says how words were read
    and counted, as `llrnn evaluate` does.
    """

    words: tuple[str, ...]
    log_p: tuple[LogProbability, ...]
    kinds: Annotated[tuple[str, ...], Field(description="of each word: listed, spelled, number or unknown")]
    log_prob: LogProbability
    perplexity: Perplexity
    contract: Annotated[str, Field(description="how words were counted; compare figures of equal lines")]


class ScoreAnswer(ModelAnswer):
    """The answer to `score`: `scores` has a `Score` for each text, in the order of the request."""

    scores: tuple[Score, ...]


def _by_name(found: Any) -> Any:
    return {one["name"]: one["description"] for one in found}


_TEXTS_OF_ONE = {"name": {"type": "string"}, "description": {"type": "string"}}
_BACKGROUND = {
    "type": "object", "properties": _TEXTS_OF_ONE, "required": [*_TEXTS_OF_ONE], "additionalProperties": False
}  # fmt: skip
Backgrounds = Annotated[
    dict[str, str], BeforeValidator(_by_name), WithJsonSchema({"type": "array", "items": _BACKGROUND})
]


class ExampleAnswer(Answer):
    """An example to try on the web page: explain why `word` follows `prefix` and not `rival`, another word or None.

    `feature`: the name of one that raises the word's probability, or None; `written`: what tokens add to a text.
    """

    prefix: str
    word: str
    rival: str | None
    feature: Annotated[str | None, Field(description="a feature that speaks for the word")]
    written: dict[str, str] = {}


class ConditionHint(Answer):
    """What conditions (inputs that texts are generated from) of a model look like.

    `acts`, `slots`: names known from training; `example`: a condition as text, "" where none is known.
    """

    acts: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    example: str = ""


class ServedModel(Answer):
    """The description of a served model: its sizes, features and backgrounds (priors), and what can be asked of it.

    `symbols`: number of words and cells (symbols for sets of strings outside the vocabulary); `classes`: number of sets
    of words with equal features; `groups`: number of features by kind; `contextual`: names of features that depend on
    the context; `lists`: of each group of listed terms, the weights of its features; `conditions`: whether a request
    must give an input to generate from.
    """

    name: str
    symbols: int
    words: int
    classes: int
    features: int
    groups: dict[str, int]
    contextual: tuple[str, ...]
    backgrounds: Backgrounds  # description by name
    conditions: Literal["none", "optional", "required"]
    open_vocabulary: bool
    lowercase: Annotated[bool, Field(description="no word of it has a capital: write small letters")]
    parameters: int
    controller: str
    example: Annotated[str, Field(description="a prefix that it can read")]
    about: Annotated[str, Field(description="what it is, in words")] = ""
    language: Annotated[str, Field(description="of its words, in English; empty where that is not clear")] = ""
    new_word: Annotated[str | None, Field(description="a word to add; null: it can be given no new words")] = None
    examples: tuple[ExampleAnswer, ...] = ()
    condition: ConditionHint = ConditionHint()
    lists: dict[str, dict[str, float]] = {}


class ModelName(Answer):
    """An entry of the list of models in the form of OpenAI's API; `id` is the model's name.

    `object` is "model"; `created` (an integer) and `owned_by` (a string) are there for OpenAI's clients only.
    """

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class RetrievedModel(ServedModel, ModelName):
    """The answer to `models/NAME`: the description of one model, with the fields of OpenAI's API beside it."""


class ModelsAnswer(Answer):
    """The answer to `models`: descriptions of all served models, of which the first answers requests that name none.

    `models`: the descriptions; `object`: "list"; `data`: names of the models, in the form of OpenAI's API.
    """

    models: tuple[ServedModel, ...]
    object: Literal["list"] = "list"
    data: tuple[ModelName, ...] = ()


class FeatureAnswer(Answer):
    """A feature of a model: its name, `group`, its kind ("" for contextual ones), and `contextual`.

    `contextual`: its value depends on the words before.
    """

    name: str
    group: str
    contextual: bool


class FeaturesAnswer(Answer):
    """The answer to `models/NAME/features`: the first whose names contain the query; `matching`: how many do.

    `features`: a tuple of `FeatureAnswer`, as many as the limit of the request at most.
    """

    features: tuple[FeatureAnswer, ...]
    matching: int


class WordsAnswer(Answer):
    """The answer to `models/NAME/words`: the first words that contain the query; `matching`: how many do.

    `words`: a tuple of strings, as many as the limit of the request at most; `written`: what tokens add to a text.
    """

    words: tuple[str, ...]
    written: dict[str, str] = {}
    matching: int


class UnknownWord(WordAnswer):
    """A word that is not in the model's vocabulary, and `near`: words of the vocabulary that are spelled similarly.

    `near` is filled for the first five unknown words of a request only.
    """

    near: tuple[str, ...]


class ReadAnswer(AskedAnswer):
    """The answer to `read`: the prefix as the model reads it, and `unknown`: each word outside its vocabulary, once.

    `unlisted`: likewise, words that it does not list but reads by their spelling.
    """

    unknown: tuple[UnknownWord, ...]
    unlisted: tuple[UnknownWord, ...] = ()


class StringAnswer(WordAnswer):
    """A string outside the vocabulary, and `share`: its probability within its cell, the set it belongs to."""

    share: float


class StringsAnswer(Answer):
    """The answer to `models/NAME/strings`: distinct strings drawn from a cell, a set of strings outside the vocabulary.

    `cell`: its name. Each string is drawn with its probability within the set.
    """

    cell: str
    strings: tuple[StringAnswer, ...]


class Reloaded(Answer):
    """The answer to `reload`: `reloaded`, the names of the models whose tables and word lists were read anew."""

    reloaded: tuple[str, ...]


class Ready(Answer):
    """The answer to `ready`: whether the server can take a request now.

    `status`: "ready", "busy" (it works on as many as it may) or "stopping".
    """

    status: Literal["ready", "busy", "stopping"]


class Health(Answer):
    """The answer to `health`: `status` ("ok" or "stopping"), `version`, names of the `models`, and `uptime_seconds`."""

    status: Literal["ok", "stopping"]
    version: str
    models: tuple[str, ...]
    uptime_seconds: float


class LogProbs(Answer):
    """Log-probabilities of a completion in OpenAI's form: four lists with an entry for each word.

    `tokens`: the words, each with its blank; `token_logprobs`: in nats; `top_logprobs`: log p by word, of the most
    probable words at its place and of itself; `text_offset`: in characters of the generated text.
    """

    tokens: tuple[str, ...]
    token_logprobs: tuple[float, ...]
    top_logprobs: tuple[dict[str, float], ...]
    text_offset: tuple[int, ...]


class Choice(Answer):
    """One generated text of a completion; `index`: its number among all texts, n for each prompt.

    `finish_reason`: "stop" at the end of the sentence or before a stop string, "length" after max_tokens, null while it
    is streamed; `logprobs`: null unless asked for.
    """

    text: str
    index: int
    logprobs: LogProbs | None
    finish_reason: Literal["stop", "length"] | None


class Usage(Answer):
    """Numbers of words of a completion: of the prompts (`prompt_tokens`), of the generated texts, and both together.

    A token is a word: `completion_tokens` and `total_tokens` count words too.
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionAnswer(Answer):
    """The answer to `completions`, in OpenAI's form: `choices`, the texts (`Choice`) that continue the prompts.

    `id`: of the answer; `object`: "text_completion"; `created`: seconds since 1970; `model`: its name.

    `usage`: numbers of words; `warnings`: what the model has not seen in training of the condition (input).
    """

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: Usage | None = None
    warnings: tuple[str, ...] = ()
