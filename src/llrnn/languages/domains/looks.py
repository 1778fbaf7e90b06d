"""What a string shows by itself: its shape, its ending, its length. An automaton reads all of it off in one pass.

    label(x) = (shape, longest listed ending)              band(x): its length, in a few bands

A cell of a spelling is a label and a band; words of the same look, listed or not, have the same attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import DomainError
from llrnn.text.automata import KINDS, Automaton, first_of, pattern

# The first that fits. Endings are told apart where a word is all letters.
SHAPES = {
    "small": r"\l+",
    "capital": r"\u\l*",
    "capitals": r"\u\u+",
    "joined": r"[\l\u]+([-'’.][\l\u]+)+",
    "digits": r".*\D.*",
    "signs": r"[\p\s]+",
    "mixed": r".+",
}
_WITH_ENDINGS = ("small", "capital")
_LEAST_SHARE = 0.005  # of the types: a shape that fewer have is not told apart from "mixed"


@dataclass(frozen=True)
class Look:
    """A shape and an ending; "" where endings are not told apart or none is listed."""

    shape: str
    ending: str

    def attributes(self, endings: frozenset[str]) -> tuple[str, ...]:
        """`Looks:small`, `Ends:ment`, `Ends:ent`, ...: also the shorter endings that are listed."""
        tails = [self.ending[start:] for start in range(len(self.ending))]
        return (f"Looks:{self.shape}", *(f"Ends:{tail}" for tail in tails if tail in endings))


def shapes_of(words: Sequence[str]) -> tuple[str, ...]:
    """The shapes that enough of the words have; "mixed" stands for all others."""
    labels = _shape_automaton(tuple(SHAPES)).label_all(words)
    counts = np.bincount(labels[labels >= 0], minlength=len(SHAPES))
    common = [shape for shape, n in zip(SHAPES, counts.tolist(), strict=True) if n >= _LEAST_SHARE * len(words)]
    return tuple(dict.fromkeys([*common, "mixed"]))


def common_endings(words: Iterable[str], *, longest: int, top: int, min_count: int = 2) -> tuple[str, ...]:
    """The commonest endings of up to `longest` characters, none of them a whole word."""
    counts = Counter(word[-length:] for word in words for length in range(1, min(longest, len(word) - 1) + 1))
    ranked = sorted(counts, key=lambda ending: (-counts[ending], ending))
    return tuple(ending for ending in ranked[:top] if counts[ending] >= min_count)


def looks_automaton(shapes: Sequence[str], endings: Sequence[str]) -> tuple[Automaton, tuple[Look, ...]]:
    """The automaton whose labels number the looks of all strings that may be symbols."""
    by_shape, by_ending = _shape_automaton(shapes), _ending_automaton(endings)
    looks: dict[Look, int] = {}

    def combined(shape: int, ending: int) -> int:
        if shape < 0:
            return -1
        named = shapes[shape]
        look = Look(named, endings[ending - 1] if ending > 0 and named in _WITH_ENDINGS else "")
        return looks.setdefault(look, len(looks))

    automaton = by_shape.product(by_ending, combined)
    return automaton, tuple(looks)


def _shape_automaton(shapes: Sequence[str]) -> Automaton:
    return first_of([pattern(SHAPES[shape]) for shape in shapes])


def _ending_automaton(endings: Sequence[str]) -> Automaton:
    """Label 0 for any string, i + 1 where ending i is the longest that it has (Aho and Corasick's automaton)."""
    found = {ending[:length] for ending in endings for length in range(len(ending) + 1)} | {""}
    starts = sorted(found, key=lambda start: (len(start), start))  # the same in every process, as weights depend on it
    state = {start: number for number, start in enumerate(starts)}
    characters = tuple(sorted({c for ending in endings for c in ending}))
    moves = np.zeros((len(starts), len(characters) + len(KINDS)), dtype=np.int64)
    for start, number in state.items():
        for column, character in enumerate(characters):
            moves[number, column] = state[_longest_tail(start + character, state)]
    label = {ending: number for number, ending in enumerate(endings, 1)}
    labels = np.array([label.get(_longest_tail(start, label), 0) for start in starts], dtype=np.int64)
    return Automaton(characters, moves, labels)


def _longest_tail(text: str, among: dict[str, int]) -> str:
    return next((text[i:] for i in range(len(text)) if text[i:] in among), "")


@dataclass(frozen=True)
class Bands:
    """Lengths in bands: up to the first edge, up to the second, ..., and all that is longer."""

    edges: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(edge < 1 for edge in self.edges) or any(b <= a for a, b in pairwise(self.edges)):
            raise DomainError(f"the edges of length bands must be 1 or more and rise, found {list(self.edges)}")

    def __len__(self) -> int:
        return len(self.edges) + 1

    def of(self, lengths: Ints) -> Ints:
        return np.searchsorted(np.array(self.edges, dtype=np.int64), lengths, side="left").astype(np.int64)

    def name(self, band: int) -> str:
        first = self.edges[band - 1] + 1 if band else 1
        return f"{first}+" if band == len(self.edges) else f"{first}-{self.edges[band]}"

    def pattern(self, band: int) -> str:
        """How often a character may come, as patterns write it."""
        return self.name(band).replace("-", ",").replace("+", ",")
