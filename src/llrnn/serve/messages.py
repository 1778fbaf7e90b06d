"""What a request may hold, as pydantic models; `answers` has what comes back.

Only what is written here is accepted: no unknown field, no number as text, no true for 1, no NaN, no NUL. Bounds come
from `limits`: who is beyond one is refused in its own words, as soon as it is found. Models are frozen and hold tuples,
so that whatever is made for a request can be kept by its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from llrnn.serve.limits import LIMITS, Refused, most

LARGEST_SEED = 2**63 - 1
_LARGEST_CHANGE = 1e6
_NO_NUL = r"^[^\x00]*$"


def require(limit: str, found: int) -> None:
    """Refuse what is beyond a limit; pydantic passes on an exception that is no ValueError as it is."""
    if found > most(limit):
        raise LIMITS[limit].refused(found=found)


def at_most(limit: str, size: Callable[[Any], int] = len) -> AfterValidator:
    """The validator of a limit; `size` is how large a value is."""

    def check(value: Any) -> Any:
        require(limit, size(value))
        return value

    return AfterValidator(check)


def _string(limit: str, description: str) -> tuple[Any, ...]:
    field = Field(pattern=_NO_NUL, description=description, json_schema_extra={"maxLength": most(limit)})
    return field, at_most(limit)


def _items(limit: str, description: str) -> Any:
    """Without a validator, where one looks at all of the field."""
    return Field(fail_fast=True, description=description, json_schema_extra={"maxItems": most(limit)})


def _integer(least: int, limit: str, description: str) -> tuple[Any, ...]:
    """JSON has one kind of number: 3.0 is 3. What is no number stays as it is, to be refused."""
    field = Field(strict=True, ge=least, description=description, json_schema_extra={"maximum": most(limit)})
    return field, WHOLE, at_most(limit, int)


def words_of(text: str | tuple[str, ...]) -> tuple[str, ...]:
    """A string is split at white space; a list is taken as it is."""
    return tuple(text.split()) if isinstance(text, str) else text


def _count_words(text: str | tuple[str, ...]) -> int:
    return len(words_of(text))


def _whole(given: object) -> object:
    return int(given) if isinstance(given, float) and given.is_integer() else given


WHOLE = BeforeValidator(_whole)
Name = Annotated[str, *_string("characters", "the name of a model, a background or a feature")]
Word = Annotated[str, *_string("characters", "one word, as the model writes it")]
Condition = Annotated[
    str, *_string("condition_characters", "a dialog act, JSON text or plain text, as the model was trained")
]
PrefixText = Annotated[str, *_string("prefix_characters", "words, separated by white space")]
Text = Annotated[str, *_string("text_characters", "words, separated by white space")]
TextWords = Annotated[tuple[Word, ...], _items("one_text_words", "words, one by one")]
Number = Annotated[
    float, Field(strict=True, allow_inf_nan=False, ge=-_LARGEST_CHANGE, le=_LARGEST_CHANGE, description="a number")
]


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


class ModelQuery(Message):
    """What all requests share: a model, its background, and what is changed."""

    model: Annotated[Name | None, Field(description="the name of a served model; the first one by default")] = None
    background: Annotated[Name, Field(description="the name of a background on offer")] = "own"
    changes: Changes = ()


class Query(ModelQuery):
    """A request about what follows a prefix."""

    prefix: Annotated[
        PrefixText | Annotated[tuple[Word, ...], _items("prefix_words", "words, one by one")],
        Field(description="the words before"),
        at_most("prefix_words", _count_words),
    ] = ""
    condition: Condition | None = None

    @property
    def prefix_words(self) -> tuple[str, ...]:
        return words_of(self.prefix)


class NextRequest(Query):
    """Which words come next?"""

    top: Annotated[int, *_integer(0, "top", "how many of the most probable words")] = 10
    words: Annotated[tuple[Word, ...], _items("words", "words whose probability is asked too"), at_most("words")] = ()


class ExplainRequest(Query):
    """Why this word, and why not that other one?"""

    word: Word
    rival: Word | None = None


class InfluenceRequest(Query):
    """Which features of which earlier words moved the weight of a feature?"""

    prefix: Annotated[
        PrefixText | Annotated[tuple[Word, ...], _items("influence_words", "words, one by one")],
        Field(description="the words before"),
        at_most("influence_words", _count_words),
    ] = ""
    feature: Annotated[Name, Field(description="the name of a feature")]


class StrategyMessage(Message):
    """How the next word is chosen. Temperature, top_k and top_p are those of sampling; greedy has no use for them."""

    kind: Literal["sampling", "greedy"] = "sampling"
    temperature: Annotated[
        float, Field(strict=True, allow_inf_nan=False, gt=0, le=1000, description="below 1 cooler, above 1 hotter")
    ] = 1.0
    top_k: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=LARGEST_SEED), WHOLE] | None,
        Field(description="from the k most probable words"),
    ] = None
    top_p: Annotated[
        float | None,
        Field(strict=True, allow_inf_nan=False, ge=1e-6, le=1, description="from the smallest set of this mass"),
    ] = None


class GenerateRequest(Query):
    """Go on from the prefix, word by word."""

    max_words: Annotated[int, *_integer(1, "max_words", "stop after so many")] = 40
    strategy: StrategyMessage = StrategyMessage()
    seed: Annotated[
        int, Field(strict=True, ge=0, le=LARGEST_SEED, description="the same seed, the same text"), WHOLE
    ] = 0
    stream: Annotated[bool, Field(strict=True, description="events as they come, or one JSON object")] = True


class ScoreRequest(ModelQuery):
    """The log-probabilities of whole texts."""

    texts: Annotated[
        tuple[Annotated[Text | TextWords, at_most("one_text_words", _count_words)], ...],
        _items("texts", "whole sentences, without their end"),
        Field(min_length=1),
        at_most("texts"),
    ]
    conditions: (
        Annotated[tuple[Condition | None, ...], _items("texts", "one for each text"), at_most("texts")] | None
    ) = None

    @model_validator(mode="after")
    def _no_batch_of_too_many_words(self) -> Self:
        require("text_words", sum(map(_count_words, self.texts)))
        given = len(self.texts) if self.conditions is None else len(self.conditions)
        if given != len(self.texts):
            required = f"conditions must have one entry for each of the {len(self.texts)} texts"
            raise Refused(409, "condition", f"{required}, found {given}; null is none")
        return self


# --- what is wrong with a request, in our own words -------------------------------------------------------------------

_MISTAKES = 100  # more are counted, and not looked at


def refusal_of_body(error: ValidationError) -> Refused:
    """To list mistakes takes some microseconds each, and a body has room for thousands."""
    count = error.error_count()
    if count > _MISTAKES:
        return Refused(
            422, "invalid", f"the body must hold the fields of docs/server.md, found {count:,} mistakes in it"
        )
    return refusal_of(error.errors(include_url=False))


def refusal_of(wrong: Sequence[Mapping[str, Any]]) -> Refused:
    """For what pydantic found wrong: the first thing of all. What is quoted is ASCII and cut: it may be anything."""
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
