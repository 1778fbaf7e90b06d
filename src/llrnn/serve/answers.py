"""What the server answers: for the OpenAPI description, for its tests, and as `llrnn.Client` returns it.

The server does not make its answers from these models: the engine's own dictionaries are sent as they are, which is
faster, and `tests/serve/test_server_schema.py` holds them to what is promised here. null stands for an infinity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, overload

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from llrnn.ground.rendering import Renderable, Sheet, TextTable


def _null_for(infinity: float, description: str) -> Any:
    """A number which JSON writes as null where it is infinite."""
    schema = {"anyOf": [{"type": "number"}, {"type": "null"}], "description": description}
    return BeforeValidator(lambda found: infinity if found is None else found), WithJsonSchema(schema)


LogProbability = Annotated[float, *_null_for(-math.inf, "natural logarithm; null is minus infinity")]
Perplexity = Annotated[float, *_null_for(math.inf, "null where it has no bound")]


class Answer(BaseModel):
    """A JSON object that has all of these fields and no others; a client passes over those of a later version."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"additionalProperties": False})


class ErrorAnswer(Answer):
    """Why there is no answer."""

    code: Annotated[str, Field(description="for programs; docs/server.md lists them")]
    message: Annotated[str, Field(description="for people: what was required, what was found, what to do")]


class AskedAnswer(Answer):
    """What was asked, as it was understood."""

    model: str
    background: str
    prefix: tuple[str, ...]


class Likely(Answer):
    """A word and its probability; a cell of an open vocabulary stands for all of its strings."""

    word: str
    log_p: LogProbability
    p: float
    cell: bool

    def __str__(self) -> str:
        return self.word


class Next(AskedAnswer, Sequence[Likely], Renderable):
    """What comes next: a sequence of the most probable words, best first; `words` are those asked for by name."""

    top: tuple[Likely, ...]
    words: tuple[Likely, ...]
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


class ExplanationAnswer(Answer):
    """log_p = total = log_b + the sum of all shares - log_z."""

    word: str
    log_p: LogProbability
    log_b: LogProbability
    log_z: float
    total: LogProbability
    cell: str | None
    log_inside: float
    terms: tuple[TermAnswer, ...]
    factors: tuple[FactorAnswer, ...]
    forbidden_by: tuple[str, ...]


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


class Written(Answer):
    """A word that the model has just written, with the features that fire on it."""

    index: Annotated[int, Field(ge=0)]
    word: str
    log_p: float
    p: float
    features: tuple[str, ...]
    cell: str | None

    def __str__(self) -> str:
        return self.word


class Finished(Answer):
    """The end of a stream: `text` has the prefix too."""

    text: str
    words: tuple[str, ...]
    log_prob: float
    finished: Annotated[bool, Field(description="the model ended the sentence itself")]

    def __str__(self) -> str:
        return self.text


class GenerateAnswer(AskedAnswer):
    """A whole continuation, with `"stream": false`."""

    words: tuple[Written, ...]
    text: str
    log_prob: float
    finished: Annotated[bool, Field(description="the model ended the sentence itself")]


class Score(Answer):
    """One text: `log_p` has one entry for each word and one for the end of the sentence."""

    words: tuple[str, ...]
    log_p: tuple[LogProbability, ...]
    log_prob: LogProbability
    perplexity: Perplexity


class ScoreAnswer(Answer):
    """All texts, in the order asked."""

    model: str
    background: str
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
    lowercase: bool
    parameters: int
    controller: str
    example: Annotated[str, Field(description="a prefix that it can read")]


class ModelsAnswer(Answer):
    """All served models; the first one is the default."""

    models: tuple[ServedModel, ...]


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


class Health(Answer):
    """Is the server there, and what does it serve?"""

    status: Literal["ok", "stopping"]
    version: str
    models: tuple[str, ...]
    uptime_seconds: float
