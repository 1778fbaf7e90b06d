"""What a server answers, as Python has it: small frozen records, and the library's own explanations.

JSON has no infinity: where the server writes null, log p is minus infinity and a perplexity has no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

from llrnn.ground.rendering import Sheet, Shown, Table
from llrnn.inference.explanation import Comparison, Explanation, Term
from llrnn.inference.saliency import Influence, Push

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Likely:
    """A word and its probability; a cell of an open vocabulary stands for all of its strings."""

    word: str
    log_p: float
    p: float
    cell: bool

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Next(Sequence[Likely], Shown):
    """What comes next: a sequence of the most probable words, best first."""

    model: str
    background: str
    prefix: tuple[str, ...]
    top: tuple[Likely, ...]
    words: tuple[Likely, ...]  # those that were asked for by name
    total: float  # Σ p over all symbols: 1 but for rounding
    log_z: float
    entropy: float  # in nats

    @overload
    def __getitem__(self, place: int) -> Likely: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Likely, ...]: ...
    def __getitem__(self, place: int | slice) -> Likely | tuple[Likely, ...]:
        return self.top[place]

    def __len__(self) -> int:
        return len(self.top)

    def sheet(self) -> Sheet:
        rows = tuple((one.word, f"{one.p:.4%}", f"{one.log_p:.4f}") for one in (*self.top, *self.words))
        said = f"{' '.join(self.prefix)} …, by {self.model} with background {self.background}"
        figures = f"entropy {self.entropy:.4f} nats, log Z = {self.log_z:.4f}, Σp = {self.total:.6f}"
        return Sheet(((said,), Table(("word", "p", "log p"), rows), (figures,)))

    @classmethod
    def read(cls, found: Json) -> Next:
        top, words = (
            tuple(Likely(one["word"], log(one["log_p"]), float(one["p"]), bool(one["cell"])) for one in found[name])
            for name in ("top", "words")
        )
        figures = (float(found[name]) for name in ("total", "log_z", "entropy"))
        return cls(found["model"], found["background"], tuple(found["prefix"]), top, words, *figures)


@dataclass(frozen=True)
class Written:
    """A word that the model has just written, with the features that fire on it."""

    index: int
    word: str
    log_p: float
    p: float
    features: tuple[str, ...]
    cell: str | None

    def __str__(self) -> str:
        return self.word

    @classmethod
    def read(cls, found: Json) -> Written:
        log_p, p, features = log(found["log_p"]), float(found["p"]), tuple(found["features"])
        return cls(int(found["index"]), found["word"], log_p, p, features, found["cell"])


@dataclass(frozen=True)
class Finished:
    """A whole text; `finished` where the model ended it itself."""

    text: str
    words: tuple[str, ...]
    log_prob: float
    finished: bool

    def __str__(self) -> str:
        return self.text

    @classmethod
    def read(cls, found: Json) -> Finished:
        return cls(found["text"], tuple(found["words"]), log(found["log_prob"]), bool(found["finished"]))


@dataclass(frozen=True)
class Score:
    """log p of each word of a text and of its end, and of all of it."""

    words: tuple[str, ...]
    log_p: tuple[float, ...]
    log_prob: float
    perplexity: float

    @classmethod
    def read(cls, found: Json) -> Score:
        perplexity = math.inf if found["perplexity"] is None else float(found["perplexity"])
        return cls(tuple(found["words"]), tuple(map(log, found["log_p"])), log(found["log_prob"]), perplexity)


@dataclass(frozen=True)
class ServedModel:
    """A model that the server has, and what can be asked of it."""

    name: str
    symbols: int
    words: int
    classes: int
    features: int
    groups: dict[str, int]
    contextual: tuple[str, ...]
    backgrounds: dict[str, str]  # description by name
    conditions: str  # none, optional or required
    open_vocabulary: bool
    lowercase: bool
    parameters: int
    controller: str
    example: str  # a prefix that it can read

    @classmethod
    def read(cls, found: Json) -> ServedModel:
        own = {field.name: found[field.name] for field in fields(cls)}
        backgrounds = {one["name"]: one["description"] for one in own["backgrounds"]}
        return cls(**{**own, "backgrounds": backgrounds, "contextual": tuple(own["contextual"])})


@dataclass(frozen=True)
class Health:
    """Whether the server is there, and what it serves; `status` is ok or stopping."""

    status: str
    version: str
    models: tuple[str, ...]
    uptime_seconds: float

    @classmethod
    def read(cls, found: Json) -> Health:
        return cls(found["status"], found["version"], tuple(found["models"]), float(found["uptime_seconds"]))


def log(value: float | None) -> float:
    return -math.inf if value is None else float(value)


def read_explained(found: Json) -> Explanation | Comparison:
    """Of an answer to `explain`. What a comparison is the sum of follows from its two sides, but for the terms."""
    chosen = _explanation(found["prefix"], found["word"])
    if found["rival"] is None:
        return chosen
    return Comparison(chosen, _explanation(found["prefix"], found["rival"]), _terms(found["comparison"]))


def _explanation(prefix: Sequence[str], found: Json) -> Explanation:
    return Explanation(
        prefix=tuple(prefix),
        word=found["word"],
        log_p=log(found["log_p"]),
        log_b=log(found["log_b"]),
        log_z=float(found["log_z"]),
        terms=_terms(found),
        cell=found["cell"],
        log_inside=float(found["log_inside"]),
        factors=tuple((factor["name"], log(factor["log_b"])) for factor in found["factors"]),
    )


def _terms(found: Json) -> tuple[Term, ...]:
    return tuple(Term(one["name"], float(one["weight"]), float(one["value"])) for one in found["terms"])


def read_influence(found: Json) -> Influence:
    terms = tuple(_pushes(found["terms"]))
    return Influence(tuple(found["prefix"]), found["feature"], float(found["weight"]), terms)


def _pushes(found: Sequence[Json]) -> Iterator[Push]:
    for one in found:
        yield Push(int(one["position"]), one["word"], one["name"], float(one["value"]), float(one["share"]))
