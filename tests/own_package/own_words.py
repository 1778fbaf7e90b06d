"""What a package of one's own can bring: a feature, a background, a contextual feature, a controller, a domain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from llrnn import Vocabulary
from llrnn.config.own import Context
from llrnn.knowledge.backgrounds import Background, Saved
from llrnn.knowledge.contextual import ContextualFeature
from llrnn.knowledge.features import Features
from llrnn.languages.domains import Regular
from llrnn.layer.priors import Prior, SparsePrior, Table
from llrnn.model.controllers import Controller, Hidden
from llrnn.text.morphology import Analyser


class Vowels(Features):
    """How many of these letters a word has."""

    def __init__(self, letters: str = "aeiou") -> None:
        self.letters = letters

    def __call__(self, symbol: str) -> Mapping[str, float]:
        return {"Vowels": float(sum(letter in self.letters for letter in symbol))}


class NoStutter(Background[int | None]):
    """The word just said is so many times less likely than any other."""

    everything: Table

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def bind(self, vocabulary: Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound.everything = Table(torch.zeros(len(vocabulary)))
        return bound

    def initial(self, condition: object = None) -> int | None:
        return None

    def advance(self, state: int | None, symbol: int) -> int | None:
        return symbol

    def prior(self, states: Sequence[int | None]) -> Prior:
        exceptions = [{} if last is None else {last: -math.log(self.factor)} for last in states]
        return SparsePrior.listed(self.everything, exceptions)

    def saved(self) -> Saved:
        return Saved("stutter", {"factor": self.factor})

    @classmethod
    def restored(cls, saved: Saved) -> NoStutter:
        return cls(**saved.fields)


class Echo(ContextualFeature[int | None]):
    """Whether a word is the last one that was often in the training text."""

    def __init__(self, often: Sequence[str]) -> None:
        self.often = list(often)

    @classmethod
    def make(cls, context: Context, least: int = 2) -> Echo:
        counts = context.corpora["train"].counts()
        return cls(sorted(word for word, count in counts.items() if count >= least))

    def initial(self, condition: object = None) -> int | None:
        return None

    def advance(self, state: int | None, symbol: int) -> int | None:
        return symbol if self.vocabulary.symbols[symbol] in self.often else state

    def value(self, state: int | None) -> tuple[float, Mapping[int, float]]:
        return 0.0, {} if state is None else {state: 1.0}

    def saved(self) -> Saved:
        return Saved("own_words:Echo", {"often": self.often})

    @classmethod
    def restored(cls, saved: Saved) -> Echo:
        return cls(**saved.fields)


class Averages(Controller):
    """h_t = tanh(U mean of ψ so far): a state of a sum and a count."""

    state_size = 2

    def __init__(self, hidden: int, inputs: int = 6) -> None:
        super().__init__()
        self.hidden, self.inputs = hidden, inputs
        self.weight = nn.Linear(inputs, hidden)

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        zeros = self.weight.weight.new_zeros(len(conditions), self.inputs)
        return zeros, zeros[:, :1]

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        total = state[0].unsqueeze(1) + psi.cumsum(1)
        count = state[1].unsqueeze(1) + torch.arange(1, psi.shape[1] + 1).to(psi)[:, None]
        return torch.tanh(self.weight(total / count)), (total[:, -1], count[:, -1])

    def settings(self) -> dict[str, Any]:
        return {"kind": "averages", "hidden": self.hidden, "inputs": self.inputs}


class Plates(Regular):
    """Licence plates."""

    def __init__(self, digits: int = 3) -> None:
        letters, numbers = dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 0.02), dict.fromkeys("0123456789", 0.05)
        patterns = {"plate": f"[a-z]{{2}}-[0-9]{{{digits}}}"}
        super().__init__(patterns, letters | numbers | {"-": 0.5}, attributes={"plate": ["Plate"]}, name="car")
        self.digits = digits

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"kind": "plates", "digits": self.digits}, {}

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Plates:
        return cls(plain["digits"])


class Plurals(Analyser):
    """Words that end with s are plurals."""

    def readings(self, form: str) -> Iterator[tuple[str, list[str], float]]:
        if form.endswith("s"):
            yield form[:-1], ["POS:NOUN", "Number:Plur"], 1.0
