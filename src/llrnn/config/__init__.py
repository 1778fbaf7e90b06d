"""A configuration: which text, which knowledge, which network, how to train. Typed TOML, nothing guessed.

    kind = "llrnn"                                  # or "softmax": identity features and a uniform background
    [corpus]      train, valid, test                # files; or `embedded`: our own French grammar
    [vocabulary]  parts, top, unknown, lists        [[domains]]   kind, ...  # all other strings
    [lexicon]     parts, tsv                        # attributes of words: from annotated text and from tables
    [features]    output, input                     # lists of {kind = ..., ...}
    [background]  kind, ...                         [controller]  kind, hidden, layers, ...
    [[contextual]] kind, ...                        [condition]   how conditions are read, if there are any
    [training]    see `TrainingSettings`

Paths are relative to the folder in which the command runs; `{data}` in them stands for what `--data` says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from llrnn.config.keys import (
    AnyBackground,
    AnyContextual,
    AnyDomain,
    AnyFeature,
    ConditionConfig,
    ControllerConfig,
    Part,
    Strict,
    UniformConfig,
    refuse_unused,
)
from llrnn.ground.errors import ConfigError
from llrnn.ground.files import read_file
from llrnn.text.vocabulary import EOS
from llrnn.training.settings import TrainingSettings, first_problem, models_by_kind

_DEEPEST = 20  # levels of tables and lists


class Embedded(Strict):
    """The embedded French grammar as a corpus: how many sentences for each part."""

    train: int = Field(5000, ge=1, description="sentences to train on")
    valid: int = Field(500, ge=1, description="sentences to validate on")
    test: int = Field(500, ge=1, description="sentences to test on")
    seed: int = Field(0, ge=0, description="which corpus")


class CorpusConfig(Strict):
    """The texts."""

    train: list[str] = Field([], description="files to train on, or the folder of a built corpus")
    valid: list[str] = Field([], description="files for early stopping, or such a folder")
    test: list[str] = Field([], description="files to test on, or such a folder")
    valid_last: int | None = Field(None, ge=1, description="cut so many sentences off the end of train for validation")
    embedded: Embedded | None = Field(None, description="our own French grammar instead of files")
    format: Literal["auto", "conllu", "text", "jsonl", "tsv"] = Field(
        "auto", description="by the file's name, or said here"
    )
    conditions: Literal["plain", "act"] = Field("plain", description="act: every condition is a dialog act")
    delexicalised: list[str] = Field([], description="slots whose values are replaced by placeholders in the targets")
    lowercase: bool = Field(True, description="lowercase every word")

    @model_validator(mode="after")
    def _some_text(self) -> CorpusConfig:
        if bool(self.train) == (self.embedded is not None):
            raise ValueError("give either train = [files] or embedded = {...}")
        if self.valid and self.valid_last:
            raise ValueError("give either valid = [files] or valid_last = n")
        if self.embedded is not None:
            of_files = ("valid", "test", "valid_last", "format", "conditions", "delexicalised")
            refuse_unused(
                self, of_files, "is for train = [files]", "embedded = {...} has parts and a format of its own"
            )
        return self


class VocabularyConfig(Strict):
    """The listed words."""

    parts: list[Part] = Field(["train"], min_length=1, description="the parts of the corpus whose words are listed")
    files: list[str] = Field([], description="other texts whose words are listed too")
    top: int | None = Field(None, ge=1, description="only the most frequent")
    min_count: int = Field(1, ge=1, description="only words of the texts that were seen so often")
    lists: list[str] = Field([], description="frequency files whose words are listed too")
    as_new: float | None = Field(
        None, ge=0, le=1, description="domains: share of words seen once that train as if new; estimated by default"
    )
    unknown: str | None = Field(None, description="a symbol for all other words; none by default")

    @model_validator(mode="after")
    def _unknown_is_a_word(self) -> VocabularyConfig:
        if self.unknown == EOS:
            raise ValueError(f"unknown = {EOS!r} is the end of sentences; name another symbol, such as '<unk>'")
        return self


class LexiconConfig(Strict):
    """What is known about words."""

    parts: list[Part] = Field([], description="annotated parts of the corpus")
    corpora: list[str] = Field([], description="other annotated texts")
    tsv: list[str] = Field([], description="tables of form and attributes")
    values: list[str] = Field([], description="slots of conditions: the words of their values are Value:slot")
    columns: list[str] = Field(
        [],
        description="columns of the looked-up tables: words that stand in sentences only as part of such values are "
        "Value:column",
    )
    support: float = Field(
        0.9, gt=0, le=1, description="values, columns: in how many of its sentences a word must be part of one"
    )

    @model_validator(mode="after")
    def _support_of_something(self) -> LexiconConfig:
        if not (self.values or self.columns):
            refuse_unused(self, ["support"], "is for values or columns", "neither")
        return self


class FeaturesConfig(Strict):
    """φ on the way out, ψ on the way in."""

    output: list[AnyFeature] = Field([], description="output features φ")
    input: list[AnyFeature] | None = Field(None, description="input features ψ; the same as φ by default")


class Config(Strict):
    """Everything that `llrnn train` needs."""

    name: str = Field("", description="a name for tables")
    kind: Literal["llrnn", "softmax"] = Field("llrnn", description="softmax: identity features, uniform background")
    corpus: CorpusConfig
    vocabulary: VocabularyConfig = VocabularyConfig()
    domains: list[AnyDomain] = Field([], description="infinite sets of strings that hold all words not listed")
    lexicon: LexiconConfig = LexiconConfig()
    features: FeaturesConfig = FeaturesConfig()
    background: AnyBackground = UniformConfig()
    contextual: list[AnyContextual] = Field([], description="features of the context")
    controller: ControllerConfig = ControllerConfig()
    condition: ConditionConfig | None = Field(None, description="what the targets are written from")
    tied: bool = Field(False, description="one set of weights for input and output features")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of input words that are dropped in training")
    training: TrainingSettings = TrainingSettings()

    @model_validator(mode="after")
    def _features_fit_the_kind(self) -> Config:
        if self.kind == "softmax" and (self.features.output or self.features.input):
            raise ValueError("kind = 'softmax' is identity features: leave [features] out")
        if self.kind == "llrnn" and not self.features.output:
            raise ValueError("kind = 'llrnn' needs [features] output = [...]")
        return self

    @model_validator(mode="after")
    def _every_key_is_used(self) -> Config:
        if self.kind == "softmax":
            attributes = ["parts", "corpora", "tsv", "columns"]
            if not (self.contextual or self.background.primed):
                attributes.append("values")  # words of values are listed for what copies them
            refuse_unused(
                self.lexicon, attributes, "is for features of kind = 'attributes'", "kind = 'softmax'", "lexicon."
            )
        if not self.domains:
            refuse_unused(self.vocabulary, ["as_new"], "is for domains", "none", "vocabulary.")
        return self


def described_keys(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """Every key with what it means, for `llrnn train --help`; the keys of tables in a list stand below its own."""
    for name, field in model.model_fields.items():
        if field.description:
            yield f"{prefix}{name}: {field.description}"
        for below in dict.fromkeys(models_by_kind(field.annotation).values()):
            yield from described_keys(below, f"{prefix}{name}.")


def read_config(
    path: str | PathLike[str], changes: Sequence[str] = (), *, data: str | PathLike[str] = "data"
) -> Config:
    """Read a TOML file, apply `key.key=value` changes (values in TOML, or plain text), and check everything.

    `{data}` in any text of the file stands for the folder `data`.
    """
    try:
        content = tomllib.loads(read_file(path, limit=4_000_000).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; give a TOML configuration") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); give a TOML configuration") from None
    except (ValueError, RecursionError) as error:  # tomllib lets some faults of its parts through as they are
        raise ConfigError(f"{path}: not TOML: {error}") from None
    _require_flat(content, str(path))
    for change in changes:
        _apply(content, change)
    return parse_config(_filled_in(content, str(data)), str(path))


def _require_flat(content: dict[str, Any], place: str) -> None:
    """No configuration is nested deeply; what is would exhaust the stack of whatever walks through it."""
    level: list[Any] = [content]
    for _ in range(_DEEPEST):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ConfigError(f"{place}: tables and lists may be nested {_DEEPEST} deep, found deeper ones; write it flatter")


def _filled_in(value: Any, data: str) -> Any:
    """The same with `{data}` replaced in every text."""
    if isinstance(value, dict):
        return {key: _filled_in(inner, data) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled_in(inner, data) for inner in value]
    return value.replace("{data}", data) if isinstance(value, str) else value


def parse_config(data: dict[str, Any], place: str) -> Config:
    """Check a configuration that was read; `place` is named in messages.

    parse_config(tomllib.loads(text), "mine.toml")
    """
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{place}: {first_problem(error, Config)}") from None


def _apply(data: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"--set needs key=value, such as training.epochs=5, found {change!r}")
    *above, last = (part.strip() for part in key.split("."))
    if len(above) > _DEEPEST:
        raise ConfigError(f"--set {key[:40]}...: keys are nested {_DEEPEST} deep at most, found {len(above)} dots")
    for part in above:
        data = data.setdefault(part, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {change}: {part} is not a table, so nothing can be set below it")
    data[last] = _value(text)


def _value(text: str) -> Any:
    """As TOML reads it; what is not TOML is plain text."""
    try:
        read = tomllib.loads(f"value = {text}")
        _require_flat(read, f"--set value {text[:40]}")
    except (ValueError, RecursionError):
        return text
    return read["value"] if len(read) == 1 else text  # more than one: there was a line break in it
