"""A model on offer: what it is, which backgrounds it can be asked with, and how it is made ready for a condition.

Everything that a request may name is opened here, before the first request comes: requests hold names, never paths.
Models with another background share the network's weights; nothing but the knowledge is there twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from llrnn.ground.caches import ByteCache
from llrnn.ground.errors import ConfigError, LLRNNError, UnknownWordError, ZeroMassError, warn
from llrnn.knowledge.backgrounds import Background, Uniform, Unigram
from llrnn.knowledge.features.naming import FeatureNames
from llrnn.model.checkpoint import load
from llrnn.model.decode import Greedy, generate
from llrnn.model.network import LLRNN
from llrnn.model.steering import open_background, swap
from llrnn.model.writing import check_condition, looks_at_conditions, prepared, read_condition
from llrnn.serve.refusals import Refused
from llrnn.text.vocabulary import EOS

OWN = "own"
_TAKEN = (OWN, "uniform", "unigram")
_EXAMPLE = 3  # words
_READY_BYTES = 256 * 2**20  # of models that are kept ready for a condition
_BYTES_A_CHARACTER, _BYTES_A_WORD = 100, 500
Needs = Literal["none", "optional", "required"]


@dataclass(frozen=True, eq=False)
class Ready:
    """A model that can be asked: the condition as it reads it, words of the condition listed, features by name."""

    model: LLRNN
    condition: object
    names: FeatureNames


class Served:
    """One model, by its name, with the backgrounds that may be put in the place of its own."""

    def __init__(self, name: str, model: LLRNN, backgrounds: Mapping[str, Background] | None = None) -> None:
        self.name, self.model = name, model.requires_grad_(False)
        others = {**_always_there(model), **(backgrounds or {})}
        self.variants = {OWN: model} | {key: _with_background(model, other) for key, other in others.items()}
        self.names = FeatureNames(model.feature_names)
        self._told = False
        self._ready: ByteCache[tuple[str, str | None], Ready] = ByteCache(_READY_BYTES, self._bytes_of)

    def ready(self, background: str, condition: str | None) -> Ready:
        """The model to ask; words of the condition are listed for the time."""
        return self._ready.get((background, condition), lambda: self._prepared(background, condition))

    def _tell_once(self, told: str) -> None:
        """Of the model, not of the request: a log must not grow with what clients ask for."""
        if not self._told:
            self._told = True
            warn(f"model {self.name}: {told} (told once, for the first condition that it befell)")

    def _bytes_of(self, key: tuple[str, str | None], ready: Ready) -> int:
        """Roughly, and rather too many: a condition as it is read, and the words of a model that had to list some."""
        own_words = 0 if ready.model is self.variants[key[0]] else len(ready.model.vocabulary)
        return 1000 + _BYTES_A_CHARACTER * len(key[1] or "") + _BYTES_A_WORD * own_words

    def _prepared(self, background: str, condition: str | None) -> Ready:
        if background not in self.variants:
            raise Refused(
                404,
                "unknown_background",
                f"{self.name} has no background {background!r}, only {', '.join(self.variants)}",
            )
        model = self.variants[background]
        try:
            wanted = None if condition is None else read_condition(model, condition)
            check_condition(model, wanted)
            listed = prepared(model, [wanted], tell=self._tell_once)
        except LLRNNError as error:
            raise Refused(409, "condition", str(error)) from None
        same = listed.feature_names == self.names.names
        return Ready(listed, wanted, self.names if same else FeatureNames(listed.feature_names))

    @property
    def conditions(self) -> Needs:
        if self.model.controller.reads_conditions:
            return "required"
        return "optional" if looks_at_conditions(self.model) else "none"

    @cached_property
    def described(self) -> dict[str, Any]:
        """What `models` says of it."""
        model = self.model
        return {
            "name": self.name,
            "symbols": len(model.vocabulary.symbols),
            "words": len(model.vocabulary.words),
            "classes": model.output_features.n_classes,
            "features": len(model.feature_names),
            "groups": _group_sizes(model),
            "contextual": list(model.context_names),
            "backgrounds": [{"name": key, "description": repr(one.background)} for key, one in self.variants.items()],
            "conditions": self.conditions,
            "open_vocabulary": model.vocabulary.is_open,
            "lowercase": model.reads_lowercase,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "controller": repr(model.controller),
            "example": self.example,
        }

    @cached_property
    def example(self) -> str:
        """A prefix that it can read: how its most probable text begins, where no condition is needed to write one."""
        if self.conditions == "required":
            return ""
        try:
            (text,) = generate(self.model, strategy=Greedy(), max_words=_EXAMPLE)
        except LLRNNError:  # nothing is possible without a condition: then there is no example
            return ""
        return " ".join(word for word in text.words if word != EOS)


def open_served(
    folder: Path, *, name: str | None = None, backgrounds: Mapping[str, Path] | None = None, device: str = "cpu"
) -> Served:
    """A model folder, ready to be asked, with other backgrounds from files: n-grams or other models."""
    for key in backgrounds or {}:
        if key in _TAKEN:
            raise ConfigError(f"the background names {', '.join(_TAKEN)} are taken, found {key!r}; choose another")
    others = {key: open_background(path, restrict=True) for key, path in (backgrounds or {}).items()}
    return Served(name or folder.resolve().name, load(folder, copy=True).to(torch.device(device)), others)


def model_words(model: LLRNN) -> list[str]:
    """The listed words, in the order of the vocabulary, without the end of sentence."""
    return [word for word in model.vocabulary.words if word != EOS]


def refusal(error: Exception) -> Exception:
    """What a library error is to a client of the API; an error that is not one of ours stays: it is our defect."""
    if isinstance(error, UnknownWordError):
        return Refused(404, "unknown_word", str(error))
    if isinstance(error, ZeroMassError):
        return Refused(409, "impossible", str(error))
    if isinstance(error, LLRNNError) and not isinstance(error, Refused):
        return Refused(409, "impossible", str(error))
    return error


def _always_there(model: LLRNN) -> dict[str, Background]:
    """Backgrounds that need no file: all words alike (of finitely many), and the counts of the vocabulary."""
    vocabulary = model.vocabulary
    found: dict[str, Background] = {} if vocabulary.is_open else {"uniform": Uniform()}
    if any(vocabulary.counts):
        counts = dict(zip(vocabulary.symbols, vocabulary.counts, strict=True))
        found["unigram"] = Unigram({word: counts[word] for word in vocabulary.words}, smoothing=1.0)
    return found


def _with_background(model: LLRNN, background: Background) -> LLRNN:
    swapped = swap(model, background=background)
    swapped.embedding, swapped.controller, swapped.layer = model.embedding, model.controller, model.layer
    return swapped


def _group_sizes(model: LLRNN) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for group in model.output_features.groups:
        sizes[group] = sizes.get(group, 0) + 1
    return sizes
