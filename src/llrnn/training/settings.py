"""How to train, as a typed record: the same fields in Python and in TOML."""

from __future__ import annotations

import difflib
import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, field_validator, model_validator
from pydantic.fields import FieldInfo

import llrnn
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import parse_toml

if TYPE_CHECKING:  # what settings make is imported when it is made
    from llrnn.model.scoring import Batching
    from llrnn.training.objectives import Objective


class _Kind(BaseModel):
    """Base of tables of settings that have several kinds, such as `objective`: a wrong key or type is an error.

    `kind` chooses the class; the other keys are the arguments of what its `make()` returns.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Batches(_Kind):
    makes: ClassVar[str]  # a public name

    def make(self) -> Batching:
        made: Batching = getattr(llrnn, self.makes)(**self.model_dump(exclude={"kind"}))
        return made


class SentenceBatches(_Batches):
    """Batches of whole sentences of similar length, at most `words` positions each; each from a fresh state."""

    makes = "Sentences"
    kind: Literal["sentences"] = "sentences"
    words: int = Field(1024, ge=1, description="in a batch, at most [positions]")


class ContinuousBatches(_Batches):
    """Batches of `rows` strips of running text, `length` words each; a batch continues from the state after the last.

    Gradients end at the beginning of a batch.
    """

    makes = "Continuous"
    kind: Literal["continuous"]
    rows: int = Field(32, ge=1, description="strips of text that are read side by side")
    length: int = Field(32, ge=1, description="before the gradient is cut [words]")
    shift: bool = Field(False, description="begin every epoch of training at another word: cuts lie elsewhere")


class SlidingBatches(_Batches):
    """The paper's protocol: each word is predicted from the `length` words before it, read from a fresh state."""

    makes = "Sliding"
    kind: Literal["sliding"]
    length: int = Field(8, ge=1, description="before the word that is predicted [words]")
    rows: int = Field(512, ge=1, description="predictions in a batch")


AnyBatches = Annotated[SentenceBatches | ContinuousBatches | SlidingBatches, Field(discriminator="kind")]


class ExactObjective(_Kind):
    """The loss −mean log p of the targets, with Z summed exactly, over classes (words with equal features)."""

    kind: Literal["exact"] = "exact"
    precision: Literal["auto", "full", "half"] = Field(
        "auto", description="of products: half on a GPU where b is static and features single out few words, else full"
    )

    def make(self) -> Objective:
        from llrnn.training.objectives import Exact

        return Exact(self.precision)


class SampledObjective(_Kind):
    """The loss −mean log p of the targets, with Z estimated from `samples` words drawn from the prior b(K, x)."""

    kind: Literal["importance"]
    samples: int = Field(256, ge=1, description="words drawn from the background for a step [words]")

    def make(self) -> Objective:
        from llrnn.training.objectives import ImportanceSampling

        return ImportanceSampling(self.samples)


_ONE_OR_SEVERAL = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


class DistilObjective(_Kind):
    """Distillation: `share` of the loss is the exact cross-entropy with a teacher's distribution over all words."""

    kind: Literal["distil"]
    teacher: Annotated[list[str], WithJsonSchema(_ONE_OR_SEVERAL)] = Field(
        min_length=1, description="a model folder to learn from, or several, mixed equally"
    )
    share: float = Field(0.5, gt=0, le=1, description="of the teacher in the loss; the targets have the rest [share]")
    temperature: float = Field(1.0, gt=0, description="of the teacher: above 1 flattens what it says")

    @field_validator("teacher", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    def make(self) -> Objective:
        from llrnn.model.ensembles import mixture
        from llrnn.training.objectives import Distilled

        teachers = [llrnn.load(folder) for folder in self.teacher]
        teacher = teachers[0] if len(teachers) == 1 else mixture(teachers, names=self.teacher)
        return Distilled(teacher, self.share, self.temperature)


AnyObjective = Annotated[ExactObjective | SampledObjective | DistilObjective, Field(discriminator="kind")]


class ConstantRate(_Kind):
    """The learning rate stays what it is, but for `halve_after`."""

    kind: Literal["constant"] = "constant"

    def factor(self, epochs_done: float, epochs: int) -> float:
        """Return what the learning rate is multiplied by when so many epochs are done, with fractions, of so many."""
        return 1.0


class CycleRate(_Kind):
    """The learning rate rises for `warm_up` epochs, and falls like half a cosine in the last `anneal` of the training.

    The fall ends where the last epoch ends; a training that is resumed with more epochs falls until then.
    """

    kind: Literal["cycle"]
    warm_up: float = Field(1.0, ge=0, description="how long the rate rises from 0 [epochs]")
    anneal: float = Field(1.0, gt=0, le=1, description="the last part of the training, in which it falls [share]")
    final: float = Field(0.01, ge=0, le=1, description="what is left of the rate at the end [share]")

    def factor(self, epochs_done: float, epochs: int) -> float:
        """Return what the learning rate is multiplied by when so many epochs are done, with fractions, of so many."""
        risen = min(1.0, epochs_done / self.warm_up) if self.warm_up else 1.0
        fallen = min(max((epochs_done / epochs - 1.0) / self.anneal + 1.0, 0.0), 1.0)
        return risen * (self.final + (1.0 - self.final) * (1.0 + math.cos(math.pi * fallen)) / 2.0)


AnyRate = Annotated[ConstantRate | CycleRate, Field(discriminator="kind")]


class TrainingSettings(BaseModel):
    """All settings of a training: batches, loss, optimizer, stopping; the keys of `[training]` in a configuration.

    Every field has a default that works for a small corpus.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    batches: AnyBatches = Field(SentenceBatches(), description="sentences, continuous or sliding")
    objective: AnyObjective = Field(
        ExactObjective(),
        description="what a step minimises: exact, importance, which draws words, or distil, which learns from "
        "another model",
    )
    optimizer: Literal["sgd", "rmsprop", "adamw"] = Field("adamw", description="how weights follow gradients")
    learning_rate: float = Field(0.002, gt=0, le=1e6, description="step size")
    schedule: AnyRate = Field(ConstantRate(), description="how the learning rate changes: constant or cycle")
    weight_decay: float = Field(0.0, ge=0, le=1e6, description="pull of all weights towards 0")
    activation: float = Field(0.0, ge=0, description="weight in the loss of the mean square of h")
    slowness: float = Field(0.0, ge=0, description="weight in the loss of the mean square of the changes of h")
    average: float | None = Field(None, gt=0, lt=1, description="decay of the running average of weights that is kept")
    average_last: float | None = Field(
        None, gt=0, le=1, description="the last part of the training, whose weights are averaged equally [share]"
    )
    clip: Annotated[float | None, WithJsonSchema({"type": "number", "minimum": 0})] = Field(
        5.0, gt=0, description="largest norm of the gradient; 0 leaves it alone"
    )
    epochs: int = Field(20, ge=1, description="passes over the text, at most [epochs]")
    patience: Annotated[int | None, WithJsonSchema({"type": "integer", "minimum": 0})] = Field(
        3, ge=1, description="how long without a better validation before stopping; 0: go on [epochs]"
    )
    halve_after: int | None = Field(
        None, ge=1, description="halve the learning rate after so many without improvement; never by default [epochs]"
    )
    validate_every: int = Field(1, ge=1, description="between validations, and checkpoints at ends of epochs [epochs]")
    seed: int = Field(0, ge=0, lt=2**63, description="decides weights, order of data and dropout")
    checkpoint_every: int = Field(500, ge=1, description="between checkpoints within an epoch [steps]")
    log_every: int = Field(50, ge=1, description="between records [steps]")

    @field_validator("clip", "patience", mode="before")
    @classmethod
    def _zero_is_none(cls, value: object) -> object:
        """Return None for 0, since TOML has no null: `clip = 0` and `patience = 0` switch these off.

        Any other value is returned unchanged, to be validated.
        """
        return None if value == 0 and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> TrainingSettings:
        if self.objective.kind == "distil" and self.batches.kind == "continuous":
            raise ValueError(
                "objective.kind = 'distil' asks the teacher batch by batch, found batches.kind = 'continuous', whose "
                "batches go on from each other; choose batches.kind = 'sentences' or 'sliding'"
            )
        return self

    def changed(self, **changes: Any) -> TrainingSettings:
        """Return a copy of these settings with some fields changed; raises ConfigError for a wrong key or value."""
        try:
            return TrainingSettings.model_validate({**self.model_dump(), **changes})
        except ValidationError as error:
            raise ConfigError(*(f"{key}: {said}" for key, said in problems(error, TrainingSettings))) from None


def read_batches(text: str, trained: Mapping[str, Any]) -> Batching:
    """Return how a text is cut into batches, from a string such as `sliding` or `{kind="continuous", rows=64}` (TOML).

    `training` stands for the batches that a model was trained with, as its configuration `trained` says. Raises
    ConfigError where that says none, and for anything else.
    """
    given: object = {"kind": text}
    if text == "training":
        given = trained.get("training", {}).get("batches")
        if given is None:
            raise ConfigError("training: the model does not say how it read its text; name a kind, such as continuous")
    elif text.lstrip().startswith("{"):
        try:
            given = parse_toml(f"batches = {text}")["batches"]
        except ValueError as error:
            raise ConfigError(f"{text}: this is no table of TOML ({error})") from None
    return TrainingSettings().changed(batches=given).batches.make()


def problems(error: ValidationError, root: type[BaseModel]) -> list[tuple[str, str]]:
    """Return pydantic's validation errors, in their order, as pairs (dotted key, message), in words of users.

    For example ("training.epoch", "no such key; did you mean epochs? …"). `root`: the pydantic model that was
    validated. A message says what was required and what was found, and suggests the key or value that was probably
    meant.
    """
    found = [(place, _problem(one, place, table)) for one, place, table in _placed(error, root)]
    return [(".".join(place), said) for place, said in found]


def _placed(error: ValidationError, root: type[BaseModel]) -> Iterator[tuple[Any, list[str], _Table]]:
    for one in error.errors(include_url=False):
        yield one, *_found_at(one["loc"], root)


def _problem(found: Any, place: list[str], table: _Table) -> str:
    wrong = found["type"]
    if wrong == "extra_forbidden":
        return _foreign_key(place, table)
    if wrong == "missing":
        return "this key is required"
    if wrong in ("union_tag_not_found", "union_tag_invalid"):
        place.append("kind")
        given = found["ctx"]["tag"] if wrong == "union_tag_invalid" else None
        listed = f"must be one of {', '.join(map(repr, table[0]))}"
        return f"{listed}, found none" if given is None else f"{listed}, found {given!r}{_near(given, table[0])}"
    if wrong == "value_error":  # a validator of ours: it says itself what it found
        return str(found["msg"]).removeprefix("Value error, ")
    allowed = re.findall(r"'([^']+)'", str(found["ctx"]["expected"])) if wrong == "literal_error" else ()
    near = _near(str(found["input"]), allowed)
    return f"{found['msg'][:1].lower()}{found['msg'][1:]}, found {reprlib.repr(found['input'])}{near}"


def _near(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


_Table = tuple[dict[str, type[BaseModel]], str | None]  # the models that a table may be of, by kind; the chosen kind


def _table(annotation: object) -> _Table:
    models = models_by_kind(annotation)
    several = {*models.values()}
    return (models, None) if len(several) > 1 else (dict(zip([""], several, strict=False)), "")


def _foreign_key(place: Sequence[str], table: _Table) -> str:
    """Return the message for a key that its table does not have, with the key, kind or place that was probably meant.

    `place`: the key and those above it, outermost first; `table`: ({kind: the pydantic model of the table}, the chosen
    kind, or None).
    """
    (*_, key), (models, chosen) = place, table
    own = models[chosen or ""].model_fields if chosen in models else {}
    where = f" where kind = {chosen!r} ({', '.join(own)})" if chosen else ""
    others = [repr(name) for name, model in models.items() if key in model.model_fields]
    if others:
        return f"no such key{where}; leave it out, or choose kind = {' or '.join(others)}"
    near = difflib.get_close_matches(key, own, n=1)
    below = [name for name, field in own.items() if any(key in m.model_fields for m in _models(field))]
    at = [*place[:-1], *below[:1], key]
    meant = f"did you mean {near[0]}?" if near else f"did you mean {'.'.join(at)}?" if below else "check its spelling"
    return f"no such key{where}; {meant} (`llrnn config reference` lists all keys)"


def _models(field: FieldInfo) -> Iterable[type[BaseModel]]:
    return models_by_kind(field.rebuild_annotation()).values()


def _found_at(location: Sequence[int | str], root: type[BaseModel]) -> tuple[list[str], _Table]:
    """Return the keys of pydantic's error location, without the kinds in it, and the table that holds the last key.

    ("controller", "lstm", "hiden") has the keys ["controller", "hiden"]; "lstm" is the kind of the table. `root`: the
    pydantic model that was validated. The table is ({kind: its model}, the chosen kind, or None if there is none).
    """
    place: list[str] = []
    models, chosen = outer = _table(root)
    for part in location:
        if isinstance(part, str) and chosen is None and part in models:
            chosen = part
            continue
        place.append(str(part))
        if isinstance(part, str):
            outer = models, chosen
            fields = models[chosen or ""].model_fields if chosen in models else {}
            models, chosen = _table(fields[part].rebuild_annotation() if part in fields else None)
    return place, (models, chosen) if models and chosen is None else outer


def models_by_kind(annotation: Any) -> dict[str, type[BaseModel]]:
    """Return the pydantic models in a type annotation, also in unions and lists, by the `kind` that chooses each.

    The key is "" for a model without `kind`; the result is empty where there is no model.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = annotation.model_fields.get("kind")
        return dict.fromkeys(get_args(kind.annotation) if kind else [""], annotation)
    below = [models_by_kind(argument) for argument in get_args(annotation)]
    return {name: model for found in below for name, model in found.items()}
