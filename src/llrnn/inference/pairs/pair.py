"""A minimal pair: a sentence, and the same sentence with one thing wrong."""

from __future__ import annotations

from dataclasses import dataclass

from llrnn.ground.errors import CorpusError

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences, the first of them grammatical.

    `group` names what is wrong with the second (`verb-number`), `distance` how many words away the word is that decides
    (1 for the neighbour), `distractors` how many words between the two suggest the wrong form, and `place` the index of
    the first word that differs. A model is right where it finds the first sentence more probable.
    """

    good: Words
    bad: Words
    group: str = ""
    distance: int | None = None
    distractors: int | None = None
    place: int = -1  # found by comparing, where it is not given

    def __post_init__(self) -> None:
        if not self.good or not self.bad:
            raise CorpusError(f"both sentences of a pair must have a word, found {self.good!r} and {self.bad!r}")
        if self.good == self.bad:
            raise CorpusError(f"the sentences of a pair must differ, found {' '.join(self.good)!r} twice; correct one")
        for name in ("distance", "distractors"):
            value = getattr(self, name)
            if value is not None and value < (1 if name == "distance" else 0):
                raise CorpusError(f"{name} must not be that small, found {value}; correct it or leave it out")
        if self.place == -1:
            object.__setattr__(self, "place", first_difference(self.good, self.bad))
        if not 0 <= self.place <= min(len(self.good), len(self.bad)):
            raise CorpusError(f"place must be the index of a word, found {self.place}; correct it or leave it out")


def first_difference(good: Words, bad: Words) -> int:
    """The index of the first word that differs; where one sentence begins the other, the length of the shorter."""
    pairs = enumerate(zip(good, bad, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(good), len(bad)))
