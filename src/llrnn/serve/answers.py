"""What the server answers, written down for the OpenAPI description and for its tests.

Answers are not made from these models: the engine's own dictionaries are sent as they are, which is faster, and
`tests/serve/test_server_schema.py` holds them to what is promised here. null stands for minus infinity.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

LogProbability = Annotated[float | None, Field(description="natural logarithm; null is minus infinity")]


class Answer(BaseModel):
    """A JSON object that has all of these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class ErrorAnswer(Answer):
    """Why there is no answer."""

    code: Annotated[str, Field(description="for programs; docs/server.md lists them")]
    message: Annotated[str, Field(description="for people: what was required, what was found, what to do")]


class Asked(Answer):
    """What was asked, as it was understood."""

    model: str
    background: str
    prefix: list[str]


class WordAnswer(Answer):
    """A word and its probability; a cell of an open vocabulary stands for all of its strings."""

    word: str
    log_p: LogProbability
    p: float
    cell: bool


class NextAnswer(Asked):
    """What comes next."""

    top: list[WordAnswer]
    words: list[WordAnswer]
    total: Annotated[float, Field(description="the sum of p over all symbols: 1 but for rounding")]
    log_z: float
    entropy: Annotated[float, Field(description="in nats")]


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
    terms: list[TermAnswer]
    factors: list[FactorAnswer]
    forbidden_by: list[str]


class ComparisonAnswer(Answer):
    """log p(word) - log p(rival), taken apart."""

    log_ratio: float | None
    log_b_difference: float | None
    total: float | None
    terms: list[TermAnswer]
    factors: list[FactorAnswer]


class ExplainAnswer(Asked):
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


class InfluenceAnswer(Asked):
    """What moved the weight of a feature."""

    feature: str
    weight: float
    terms: list[InfluenceTermAnswer]


class WrittenWordAnswer(Answer):
    """A generated word."""

    index: Annotated[int, Field(ge=0)]
    word: str
    log_p: float
    p: float
    features: list[str]
    cell: str | None


class DoneAnswer(Answer):
    """The end of a stream: `text` has the prefix too."""

    text: str
    words: list[str]
    log_prob: float
    finished: Annotated[bool, Field(description="the model ended the sentence itself")]


class GenerateAnswer(Asked):
    """A whole continuation, with `"stream": false`."""

    words: list[WrittenWordAnswer]
    text: str
    log_prob: float
    finished: Annotated[bool, Field(description="the model ended the sentence itself")]


class TextScoreAnswer(Answer):
    """One text: `log_p` has one entry for each word and one for the end of the sentence."""

    words: list[str]
    log_p: list[LogProbability]
    log_prob: LogProbability
    perplexity: Annotated[float | None, Field(description="null where it has no bound")]


class ScoreAnswer(Answer):
    """All texts, in the order asked."""

    model: str
    background: str
    scores: list[TextScoreAnswer]


class BackgroundAnswer(Answer):
    """A background on offer."""

    name: str
    description: str


class ModelAnswer(Answer):
    """A served model."""

    name: str
    symbols: int
    words: int
    classes: int
    features: int
    groups: dict[str, int]
    contextual: list[str]
    backgrounds: list[BackgroundAnswer]
    conditions: Literal["none", "optional", "required"]
    open_vocabulary: bool
    lowercase: bool
    parameters: int
    controller: str
    example: Annotated[str, Field(description="a prefix that it can read")]


class ModelsAnswer(Answer):
    """All served models; the first one is the default."""

    models: list[ModelAnswer]


class FeatureAnswer(Answer):
    """A feature of a model."""

    name: str
    group: str
    contextual: bool


class FeaturesAnswer(Answer):
    """The first features whose names hold the query, and how many do."""

    features: list[FeatureAnswer]
    matching: int


class WordsAnswer(Answer):
    """The first words that the query may be completed to, and how many there are."""

    words: list[str]
    matching: int


class HealthAnswer(Answer):
    """Is the server there, and what does it serve?"""

    status: Literal["ok", "stopping"]
    version: str
    models: list[str]
    uptime_seconds: float
