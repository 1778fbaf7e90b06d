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


class Refused(LLRNNError):  # noqa: N818 (what it says: the request is refused)
    """An HTTP status, a code for programs, and a sentence for people: what was required, what was found, what to do."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})

    def body(self) -> dict[str, Any]:
        """Return the JSON of an error; `error` is the form that OpenAI's clients read."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        said = {"code": self.code, "message": self.message}
        return {**said, "error": {**said, "type": kind, "param": None}}


@dataclass(frozen=True)
class Limit:
    """One limit of `limits.toml`."""

    name: str
    most: int
    meaning: str
    status: int
    code: str
    message: str

    def refused(self, *, found: int | None = None, most: float | None = None, field: str | None = None) -> Refused:
        """Return the refusal of a request beyond this limit; `most` where the server was started with another."""
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
    """Return the value of a limit by its name."""
    return LIMITS[name].most


@dataclass(frozen=True)
class Limits:
    """The limits of a server, which whoever starts it may change."""

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
        """Return the refusal of a request beyond one of this server's limits."""
        return LIMITS[name].refused(found=found, most=getattr(self, name))


LARGEST_SEED = 2**63 - 1
_LARGEST_CHANGE = 1e6
_NO_NUL = r"^[^\x00]*$"


def require(limit: str, found: int, field: str | None = None) -> None:
    """Refuse a value beyond a limit; pydantic passes on an exception that is no ValueError as it is."""
    if found > most(limit):
        raise LIMITS[limit].refused(found=found, field=field)


def require_work(found: float, allowed: float = most("work")) -> None:
    """Refuse a request that costs more than is allowed, up to rounding."""
    if found > allowed + 1e-6:
        raise LIMITS["work"].refused(found=math.ceil(found))


def at_most(limit: str, size: Callable[[Any], int] = len) -> AfterValidator:
    """Return the pydantic validator of a limit; `size` measures a value."""

    def check(value: Any, info: ValidationInfo) -> Any:
        require(limit, size(value), info.field_name)
        return value

    return AfterValidator(check)


def _string(limit: str, description: str) -> tuple[Any, ...]:
    field = Field(pattern=_NO_NUL, description=description, json_schema_extra={"maxLength": most(limit)})
    return field, at_most(limit)


def _items(limit: str, description: str) -> Any:
    """Return the schema of a limit on items, without a validator, where another one checks the whole field."""
    return Field(fail_fast=True, description=description, json_schema_extra={"maxItems": most(limit)})


def integer(least: int, limit: str, description: str) -> tuple[Any, ...]:
    """Return the annotations of an integer field; 3.0 is read as 3, and what is no number is left to be refused."""
    field = Field(strict=True, ge=least, description=description, json_schema_extra={"maximum": most(limit)})
    return field, WHOLE, at_most(limit, int)


def words_of(text: str | tuple[str, ...]) -> tuple[str, ...]:
    """Split a string at white space; return a tuple as it is."""
    return tuple(text.split()) if isinstance(text, str) else text


def count_words(text: str | tuple[str, ...]) -> int:
    return len(words_of(text))


def _whole(given: object) -> object:
    return int(given) if isinstance(given, float) and given.is_integer() else given


WHOLE = BeforeValidator(_whole)
Flag = Annotated[bool, Field(strict=True)]
Real = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Name = Annotated[str, *_string("characters", "the name of a model, a background or a feature")]
Word = Annotated[str, *_string("characters", "one word, as the model writes it")]


def _as_text(given: object) -> object:
    """Return an object as JSON text: conditions are stored, compared and limited as text."""
    if not isinstance(given, dict):
        return given
    text, longest = json.dumps(given, ensure_ascii=False), most("condition_characters")
    if "\\u0000" in text or len(text) > longest:  # what a schema cannot say of an object
        raise Refused(
            409, "condition", f"a condition has at most {longest:,} characters as JSON, and no NUL; change it"
        )
    return text


_CONDITION = "a dialog act, plain text or a JSON object, as the model was trained"
Condition = Annotated[
    str,
    BeforeValidator(_as_text),
    *_string("condition_characters", _CONDITION),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": _NO_NUL, "maxLength": most("condition_characters")},
                {"type": "object"},
            ],
            "description": _CONDITION,
        }
    ),
]
PrefixText = Annotated[str, *_string("prefix_characters", "words, separated by white space")]
Text = Annotated[str, *_string("text_characters", "words, separated by white space")]
TextWords = Annotated[tuple[Word, ...], _items("one_text_words", "words, one by one")]
Number = Annotated[Real, Field(ge=-_LARGEST_CHANGE, le=_LARGEST_CHANGE, description="a number")]
Share = Annotated[Real, Field(ge=1e-6, le=1)]
Seed = Annotated[int, Field(strict=True, ge=0, le=LARGEST_SEED, description="the same seed, the same text"), WHOLE]


class Message(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ChangeMessage(Message):
    """The weight a_k of a feature becomes scale · a_k + offset."""

    feature: Annotated[Name, Field(description="the name of a feature, or a pattern in which * stands for anything")]
    scale: Number = 1.0
    offset: Number = 0.0


Changes = Annotated[
    tuple[ChangeMessage, ...], _items("changes", "changes of weights, applied in this order"), at_most("changes")
]


class ModelChoice(Message):
    """What all requests share: a model, and its background."""

    model: Annotated[Name | None, Field(description="the name of a served model; the first one by default")] = None
    background: Annotated[Name, Field(description="the name of a background on offer")] = "own"


class ModelQuery(ModelChoice):
    """A request in which weights may be changed."""

    changes: Changes = ()


class Query(ModelQuery):
    """A request about what follows a prefix."""

    prefix: Annotated[
        PrefixText | Annotated[tuple[Word, ...], _items("prefix_words", "words, one by one")],
        Field(description="the words before"),
        at_most("prefix_words", count_words),
    ] = ""
    condition: Condition | None = None
    place: ClassVar[str] = "prefix"  # what the field is called in messages

    @property
    def prefix_words(self) -> tuple[str, ...]:
        return words_of(self.prefix)


class ReadRequest(Query):
    """How does the model read these words, and which of them does it not know?"""

    words: Annotated[tuple[Word, ...], _items("words", "other words that are looked up too"), at_most("words")] = ()


class NextRequest(Query):
    """Which words come next?"""

    top: Annotated[int, *integer(0, "top", "how many of the most probable words")] = 10
    words: Annotated[tuple[Word, ...], _items("words", "words whose probability is asked too"), at_most("words")] = ()


class CompleteRequest(Query):
    """Which words come next that begin with these letters?"""

    letters: Annotated[
        str, *_string("characters", "what is typed of the word so far, without white space before it")
    ] = ""
    k: Annotated[int, *integer(1, "completions", "how many of the best words")] = 3
    mass: Annotated[
        Flag, Field(description="also p(begins with the letters); a large open vocabulary takes seconds")
    ] = False


class ExplainRequest(Query):
    """Why this word, and why not that other one?"""

    word: Word
    rival: Word | None = None


class InfluenceRequest(Query):
    """Which features of which earlier words moved the weight of a feature?"""

    prefix: Annotated[
        PrefixText | Annotated[tuple[Word, ...], _items("influence_words", "words, one by one")],
        Field(description="the words before"),
        at_most("influence_words", count_words),
    ] = ""
    feature: Annotated[Name, Field(description="the name of a feature")]


class GenerateRequest(Query):
    """Go on from the prefix, word by word: by exact samples, or greedily; the names are those of `llrnn.generate`."""

    max_words: Annotated[int, *integer(1, "max_words", "stop after so many")] = 60
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

    def continuations(self) -> tuple[GenerateRequest, ...]:
        """Return a request for each text that is asked for."""
        return (self,)


class ScoreRequest(ModelQuery):
    """The log-probabilities of whole texts."""

    texts: Annotated[
        tuple[Annotated[Text | TextWords, at_most("one_text_words", count_words)], ...],
        _items("texts", "whole sentences, without their end"),
        Field(min_length=1),
        at_most("texts"),
    ]
    conditions: (
        Annotated[tuple[Condition | None, ...], _items("texts", "one for each text"), at_most("texts")] | None
    ) = None

    @model_validator(mode="after")
    def _no_batch_of_too_many_words(self) -> Self:
        require("text_words", sum(map(count_words, self.texts)))
        given = len(self.texts) if self.conditions is None else len(self.conditions)
        if given != len(self.texts):
            required = f"conditions must have one entry for each of the {len(self.texts)} texts"
            raise Refused(409, "condition", f"{required}, found {given}; null is none")
        return self


class ReloadRequest(Message):
    """Read the tables and lists of words again that the server was started with; of whoever has its token."""


class WriteRequest(ModelChoice):
    """A text for each condition, or several: the best of a beam, which batches of others go through as well."""

    conditions: Annotated[
        tuple[Condition, ...], _items("texts", "what is to be said"), Field(min_length=1), at_most("texts")
    ]
    beam: Annotated[int, *integer(1, "beam", "so many hypotheses; 1 is greedy")] = 5
    count: Annotated[int, *integer(1, "beam", "so many texts for each condition, best first")] = 1
    max_words: Annotated[int, *integer(1, "max_words", "stop after so many")] = 60

    @property
    def width(self) -> int:
        """The width of the beam, at least the number of texts."""
        return max(self.beam, self.count)


def _only(*allowed: object) -> tuple[Any, ...]:
    """Return the annotations of a field that is accepted only with values that change nothing."""

    def check(given: object) -> object:
        for one in allowed:
            if given == one and isinstance(given, bool) == isinstance(one, bool):
                return given
        raise ValueError(f"only {' or '.join(json.dumps(one) for one in allowed)} is possible here")

    return BeforeValidator(check), WithJsonSchema({"enum": list(allowed)})


class StreamOptions(Message):
    """What a stream says at its end."""

    include_usage: Flag = False


_TEXTS = {"json_schema_extra": {"maxItems": most("texts")}}
_Stop = Annotated[str, Field(min_length=1, max_length=100)]
_STOPS = 4
_Prompt = Annotated[PrefixText, at_most("prefix_words", count_words)]


class CompletionRequest(ModelQuery):
    """Go on from a prompt, in the form of OpenAI's completions."""

    prompt: Annotated[
        _Prompt
        | Annotated[tuple[_Prompt, ...], Field(min_length=1, description="several", **_TEXTS), at_most("texts")],
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
        return (self.prompt,) if isinstance(self.prompt, str) else self.prompt

    @property
    def stops(self) -> tuple[str, ...]:
        return () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else self.stop

    def continuations(self) -> list[GenerateRequest]:
        """Return a request for each text that is asked for: n of each prompt."""
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
                seed=(first + number) % LARGEST_SEED,
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


# --- what is wrong with a request, in our own words -------------------------------------------------------------------

_MISTAKES = 100  # more are counted, and not looked at


def refusal_of_body(error: ValidationError) -> Refused:
    """Return the refusal of an invalid body; only the first mistakes are listed, since a body may have thousands."""
    count = error.error_count()
    if count > _MISTAKES:
        return Refused(
            422, "invalid", f"the body must hold the fields of docs/server.md, found {count:,} mistakes in it"
        )
    return refusal_of(error.errors(include_url=False))


def refusal_of(wrong: Sequence[Mapping[str, Any]]) -> Refused:
    """Return the refusal for the first of pydantic's errors; quoted values are ASCII and cut."""
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
    """Return the annotations of a number that JSON writes as null where it is infinite."""
    schema = {"anyOf": [{"type": "number"}, {"type": "null"}], "description": description}
    return BeforeValidator(lambda found: infinity if found is None else found), WithJsonSchema(schema)


LogProbability = Annotated[float, *_null_for(-math.inf, "natural logarithm; null is minus infinity")]
Perplexity = Annotated[float, *_null_for(math.inf, "null where it has no bound")]


class Answer(BaseModel):
    """A JSON object that has all of these fields and no others; a client passes over those of a later version."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"additionalProperties": False})


class ErrorDetail(Answer):
    """The error in the form that clients of OpenAI-like servers read."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: None
    code: str


class ErrorAnswer(Answer):
    """Why there is no answer."""

    code: Annotated[str, Field(description="for programs; docs/server.md lists them")]
    message: Annotated[str, Field(description="for people: what was required, what was found, what to do")]
    error: ErrorDetail


class ModelAnswer(Answer):
    """Who answered."""

    model: str
    background: str


class AskedAnswer(ModelAnswer):
    """What was asked, as it was understood."""

    prefix: tuple[str, ...]


class WordAnswer(Answer):
    """A word; printed, it is that."""

    word: str

    def __str__(self) -> str:
        return self.word


class Likely(WordAnswer):
    """A word and its probability; a cell of an open vocabulary stands for all of its strings."""

    log_p: LogProbability
    p: float
    cell: bool


class Next(AskedAnswer, Sequence[Likely], Renderable):
    """What comes next: a sequence of the most probable words, best first; `words` are those asked for by name."""

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
        rows = tuple((one.word, f"{one.p:.4%}", f"{one.log_p:.4f}") for one in (*self.top, *self.words))
        said = f"{' '.join(self.prefix)} …, by {self.model} with background {self.background}"
        figures = f"entropy {self.entropy:.4f} nats, log Z = {self.log_z:.4f}, Σp = {self.total:.6f}"
        return Sheet(((said,), TextTable(("word", "p", "log p"), rows), (figures,)))


class Completed(WordAnswer):
    """A word that letters may become; `cell` of one that is not listed, `share`: p given the letters, if asked for."""

    log_p: float
    p: float
    cell: str | None
    share: float | None


class CompleteAnswer(AskedAnswer):
    """The best words that begin with the letters, best first."""

    letters: str
    best: tuple[Completed, ...]
    log_mass: Annotated[
        float | None, Field(description="log p(begins with the letters); null where not asked for, or 0")
    ]


class TermAnswer(Answer):
    """One feature's part: weight · value = share."""

    name: str
    weight: float
    value: float
    share: float


class FactorAnswer(Answer):
    """One factor of the background."""

    name: str
    log_b: LogProbability


class MixturePartAnswer(FactorAnswer):
    """One part of a mixture: share = weight * exp(log_b) / the background's mass of the word."""

    weight: float
    share: float


class ExplanationAnswer(WordAnswer):
    """log_p = total = log_b + the sum of all shares - log_z."""

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
    """log p(word) - log p(rival), taken apart."""

    log_ratio: float | None
    log_b_difference: float | None
    total: float | None
    terms: tuple[TermAnswer, ...]
    factors: tuple[FactorAnswer, ...]


class ExplainAnswer(AskedAnswer):
    """Why this word, and why not that other one."""

    word: ExplanationAnswer
    rival: ExplanationAnswer | None
    comparison: ComparisonAnswer | None


class InfluenceTermAnswer(Answer):
    """What one feature of one earlier word did to the weight: gradient times input."""

    position: Annotated[int, Field(ge=-1, description="place in the prefix, from 0; -1 is the start of the sentence")]
    word: str
    name: str
    value: float
    share: float


class InfluenceAnswer(AskedAnswer):
    """What moved the weight of a feature."""

    feature: str
    weight: float
    terms: tuple[InfluenceTermAnswer, ...]


class Written(WordAnswer):
    """A word that the model has just written, with the features that fire on it."""

    index: Annotated[int, Field(ge=0)]
    log_p: float
    p: float
    features: tuple[str, ...]
    cell: str | None
    alternatives: Annotated[
        tuple[Likely, ...], Field(description="the most probable words there, if they were asked for")
    ] = ()


Warnings = Annotated[
    tuple[str, ...], Field(description="acts, slots and values of the condition that are new to the model")
]


class TextAnswer(Answer):
    """A text and its probability; printed, it is that."""

    text: str
    log_prob: float
    finished: Annotated[bool, Field(description="the model ended the sentence itself")]

    def __str__(self) -> str:
        return self.text


class WrittenText(TextAnswer):
    """One text that says a condition."""

    words: tuple[str, ...]


class Finished(WrittenText):
    """The end of a stream: `text` has the prefix too."""

    warnings: Warnings = ()


class GenerateAnswer(TextAnswer, AskedAnswer):
    """A whole continuation, with `"stream": false`."""

    words: tuple[Written, ...]
    warnings: Warnings = ()


class ConditionTexts(Answer):
    """What was written for one condition, best first."""

    best: tuple[WrittenText, ...]
    warnings: Warnings = ()


class WriteAnswer(ModelAnswer):
    """Texts for all conditions, in the order asked."""

    texts: tuple[ConditionTexts, ...]


class Score(Answer):
    """One text: `log_p` has one entry for each word and one for the end of the sentence."""

    words: tuple[str, ...]
    log_p: tuple[LogProbability, ...]
    log_prob: LogProbability
    perplexity: Perplexity


class ScoreAnswer(ModelAnswer):
    """All texts, in the order asked."""

    scores: tuple[Score, ...]


def _by_name(found: Any) -> Any:
    return {one["name"]: one["description"] for one in found}


_BACKGROUND = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
    "required": ["name", "description"],
    "additionalProperties": False,
}
Backgrounds = Annotated[
    dict[str, str], BeforeValidator(_by_name), WithJsonSchema({"type": "array", "items": _BACKGROUND})
]


class ExampleAnswer(Answer):
    """Something to try: why this word after this prefix, and not its rival?"""

    prefix: str
    word: str
    rival: str | None
    feature: Annotated[str | None, Field(description="a feature that speaks for the word")]


class ConditionHint(Answer):
    """What conditions look like, as far as the model knows: names that they had in training, and one to begin with."""

    acts: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    example: str = ""


class ServedModel(Answer):
    """A model that the server has, and what can be asked of it."""

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
    examples: tuple[ExampleAnswer, ...] = ()
    condition: ConditionHint = ConditionHint()


class ModelName(Answer):
    """A model as clients of OpenAI-like servers list it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class RetrievedModel(ServedModel, ModelName):
    """One model, as we describe it and as clients of OpenAI-like servers retrieve it."""


class ModelsAnswer(Answer):
    """All served models; the first one is the default."""

    models: tuple[ServedModel, ...]
    object: Literal["list"] = "list"
    data: tuple[ModelName, ...] = ()


class FeatureAnswer(Answer):
    """A feature of a model."""

    name: str
    group: str
    contextual: bool


class FeaturesAnswer(Answer):
    """The first features whose names hold the query, and how many do."""

    features: tuple[FeatureAnswer, ...]
    matching: int


class WordsAnswer(Answer):
    """The first words that the query may be completed to, and how many there are."""

    words: tuple[str, ...]
    matching: int


class UnknownWord(WordAnswer):
    """A word that the model does not have, and some that are written nearly so."""

    near: tuple[str, ...]


class ReadAnswer(AskedAnswer):
    """The prefix as the model writes it, and every word of it or of `words` that the model does not have, once."""

    unknown: tuple[UnknownWord, ...]


class StringAnswer(WordAnswer):
    """A string of a cell, and which part of the cell's probability is its own."""

    share: float


class StringsAnswer(Answer):
    """Strings drawn from a cell, each as often as the model would write it there, but named once."""

    cell: str
    strings: tuple[StringAnswer, ...]


class Reloaded(Answer):
    """The models whose tables and lists were read anew."""

    reloaded: tuple[str, ...]


class Ready(Answer):
    """Can the server take a request now? `busy`: all places are taken."""

    status: Literal["ready", "busy", "stopping"]


class Health(Answer):
    """Is the server there, and what does it serve?"""

    status: Literal["ok", "stopping"]
    version: str
    models: tuple[str, ...]
    uptime_seconds: float


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
