"""What a request may hold, as pydantic models; `answers` has what comes back.

Only what is written here is accepted: no unknown field, no number as text, no true for 1, no NaN, no NUL. Bounds come
from `limits`. Models are frozen and hold tuples, so that whatever is made for a request can be kept by its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from llrnn.serve.limits import LIMITS, Refused, most

LARGEST_SEED = 2**63 - 1
_LARGEST_CHANGE = 1e6
_NO_NUL = r"^[^\x00]*$"


def _string(limit: str, description: str) -> Any:
    return Field(max_length=most(limit), pattern=_NO_NUL, description=description)


Name = Annotated[str, _string("characters", "the name of a model, a background or a feature")]
Word = Annotated[str, _string("characters", "one word, as the model writes it")]
Condition = Annotated[
    str, _string("condition_characters", "a dialog act, JSON text or plain text, as the model was trained")
]
PrefixText = Annotated[str, _string("prefix_characters", "words, separated by white space")]
PrefixWords = Annotated[
    tuple[Word, ...], Field(fail_fast=True, max_length=most("prefix_words"), description="words, one by one")
]
InfluenceWords = Annotated[
    tuple[Word, ...], Field(fail_fast=True, max_length=most("influence_words"), description="words, one by one")
]
Text = Annotated[str, _string("text_characters", "words, separated by white space")]
TextWords = Annotated[
    tuple[Word, ...], Field(fail_fast=True, max_length=most("one_text_words"), description="words, one by one")
]
Number = Annotated[
    float, Field(strict=True, allow_inf_nan=False, ge=-_LARGEST_CHANGE, le=_LARGEST_CHANGE, description="a number")
]


def _whole(given: object) -> object:
    """JSON has one kind of number: 3.0 is 3. What is no number stays as it is, to be refused."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


WHOLE = BeforeValidator(_whole)


def words_of(text: str | tuple[str, ...]) -> tuple[str, ...]:
    """A string is split at white space; a list is taken as it is."""
    return tuple(text.split()) if isinstance(text, str) else text


class Message(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ChangeMessage(Message):
    """The weight a_k of a feature becomes scale · a_k + offset."""

    feature: Annotated[Name, Field(description="the name of a feature, or a pattern in which * stands for anything")]
    scale: Number = 1.0
    offset: Number = 0.0


Changes = Annotated[
    tuple[ChangeMessage, ...],
    Field(fail_fast=True, max_length=most("changes"), description="changes of weights, applied in this order"),
]


class ModelQuery(Message):
    """What all requests share: a model, its background, and what is changed."""

    model: Annotated[Name | None, Field(description="the name of a served model; the first one by default")] = None
    background: Annotated[Name, Field(description="the name of a background on offer")] = "own"
    changes: Changes = ()


class Query(ModelQuery):
    """A request about what follows a prefix."""

    prefix: Annotated[PrefixText | PrefixWords, Field(description="the words before")] = ""
    condition: Condition | None = None

    @property
    def prefix_words(self) -> tuple[str, ...]:
        return words_of(self.prefix)

    @model_validator(mode="after")
    def _no_prefix_of_too_many_words(self) -> Self:
        _require("prefix_words", len(self.prefix_words))
        return self


class NextRequest(Query):
    """Which words come next?"""

    top: Annotated[
        int, Field(strict=True, ge=0, le=most("top"), description="how many of the most probable words"), WHOLE
    ] = 10
    words: Annotated[
        tuple[Word, ...],
        Field(fail_fast=True, max_length=most("words"), description="words whose probability is asked too"),
    ] = ()


class ExplainRequest(Query):
    """Why this word, and why not that other one?"""

    word: Word
    rival: Word | None = None


class InfluenceRequest(Query):
    """Which features of which earlier words moved the weight of a feature?"""

    prefix: Annotated[PrefixText | InfluenceWords, Field(description="the words before")] = ""
    feature: Annotated[Name, Field(description="the name of a feature")]

    @model_validator(mode="after")
    def _no_influence_of_too_many_words(self) -> Self:
        _require("influence_words", len(self.prefix_words))
        return self


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

    max_words: Annotated[
        int, Field(strict=True, ge=1, le=most("max_words"), description="stop after so many"), WHOLE
    ] = 40
    strategy: StrategyMessage = StrategyMessage()
    seed: Annotated[
        int, Field(strict=True, ge=0, le=LARGEST_SEED, description="the same seed, the same text"), WHOLE
    ] = 0
    stream: Annotated[bool, Field(strict=True, description="events as they come, or one JSON object")] = True


class ScoreRequest(ModelQuery):
    """The log-probabilities of whole texts."""

    texts: Annotated[tuple[Text | TextWords, ...], Field(fail_fast=True, min_length=1, max_length=most("texts"))]
    conditions: Annotated[
        Annotated[tuple[Condition | None, ...], Field(fail_fast=True)] | None,
        Field(max_length=most("texts"), description="one for each text"),
    ] = None

    @model_validator(mode="after")
    def _no_batch_of_too_many_words(self) -> Self:
        counts = [len(words_of(text)) for text in self.texts]
        _require("one_text_words", max(counts))
        _require("text_words", sum(counts))
        given = len(self.texts) if self.conditions is None else len(self.conditions)
        if given != len(self.texts):
            context = {"texts": len(self.texts), "conditions": given}
            raise PydanticCustomError("condition", "one condition for each text", context)
        return self


def _require(limit: str, found: int) -> None:
    """A limit that no single field can state in a schema."""
    if found > most(limit):
        raise PydanticCustomError("limit", "more than {limit}", {"limit": limit, "found": found})


# --- what is wrong with a request, in our own words -------------------------------------------------------------------

_MISTAKES = 100  # more are counted, and not looked at
_TOO_MUCH = ("too_long", "string_too_long", "less_than_equal")
# which limit a list or a number of this name breaks, and which one a string
_LIMIT_OF_FIELD = {
    "prefix": "prefix_words",
    "max_words": "max_words",
    "words": "words",
    "top": "top",
    "texts": "texts",
    "conditions": "texts",
    "changes": "changes",
    "limit": "listing",
}
_LIMIT_OF_STRING = {
    "prefix": "prefix_characters",
    "texts": "text_characters",
    "condition": "condition_characters",
    "conditions": "condition_characters",
}


_FIELDS = frozenset(
    name
    for message in (NextRequest, ExplainRequest, InfluenceRequest, GenerateRequest, ScoreRequest, ChangeMessage)
    for name in (*message.model_fields, *StrategyMessage.model_fields, "query", "limit", "name")
)


def refusal_of_body(error: ValidationError) -> Refused:
    """To list mistakes takes some microseconds each, and a body has room for thousands."""
    count = error.error_count()
    if count > _MISTAKES:
        return Refused(
            422, "invalid", f"the body must hold the fields of docs/server.md, found {count:,} mistakes in it"
        )
    return refusal_of(error.errors(include_url=False))


def refusal_of(wrong: Sequence[Mapping[str, Any]]) -> Refused:
    """For what pydantic found wrong: the first limit that was broken, or else the first thing of all."""
    if wrong[0]["type"] == "json_invalid":
        return Refused(400, "malformed_json", f"the body must be JSON in UTF-8, found: {wrong[0]['ctx']['error']}")
    if wrong[0]["type"] == "condition":
        required = "conditions must have one entry for each of the {texts} texts, found {conditions}; null is none"
        return Refused(409, "condition", required.format(**wrong[0]["ctx"]))
    broken = (_broken_limit(one) for one in wrong)
    return next((one for one in broken if one is not None), None) or _invalid(wrong[0])


def _broken_limit(wrong: Mapping[str, Any]) -> Refused | None:
    if wrong["type"] == "limit":
        return LIMITS[wrong["ctx"]["limit"]].refused(found=wrong["ctx"]["found"])
    limit = _limit_of(wrong) if wrong["type"] in _TOO_MUCH else None
    if limit is None:
        return None
    found = int(wrong["input"]) if wrong["type"] == "less_than_equal" else len(wrong["input"])
    return LIMITS[limit].refused(found=found)


def _limit_of(wrong: Mapping[str, Any]) -> str | None:
    names = [part for part in wrong["loc"] if isinstance(part, str) and part in _FIELDS]
    field = names[-1] if names else ""
    if wrong["type"] != "string_too_long":
        inside_a_text = field == "texts" and any(isinstance(part, int) for part in wrong["loc"])
        if field == "prefix" and wrong["ctx"]["max_length"] == most("influence_words"):
            return "influence_words"
        return "one_text_words" if inside_a_text else _LIMIT_OF_FIELD.get(field)
    of_a_list = wrong["loc"][-1:] and isinstance(wrong["loc"][-1], int) and field != "conditions"
    return "characters" if of_a_list else _LIMIT_OF_STRING.get(field, "characters")


def _invalid(wrong: Mapping[str, Any]) -> Refused:
    """What is quoted is written in ASCII and cut, for it may be anything."""
    place = ".".join(str(part) for part in wrong["loc"] if isinstance(part, int) or part in _FIELDS)
    if wrong["type"] == "extra_forbidden":
        return Refused(422, "invalid", f"there is no field {_quoted(wrong['loc'][-1])} here; leave it out")
    required = wrong["msg"][:1].lower() + wrong["msg"][1:]
    said = f"{place or 'the body'}: {required}, found {_quoted(wrong['input'])}"
    return Refused(422, "invalid", said)


def _quoted(found: object) -> str:
    text = ascii(found)
    return text if len(text) <= 60 else f"{text[:60]}…"
