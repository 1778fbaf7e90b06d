"""A model of characters: Kneser-Ney n-grams over the letters of words, as a table that is walked through.

    p(x) = Π_t p(x_t | last n-1 characters) · p(end | last n-1 characters)

A state is a context that was seen, the longest one that fits; `moves[s, a]` is the state after character column a,
`prob[s, a]` the probability of the column, and the last column is the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import DomainError
from llrnn.languages.grammars.patterns import pattern
from llrnn.languages.ngrams import EMPTY, NGramTable, Trie, estimate
from llrnn.languages.ngrams.store import described, table_from
from llrnn.text.automata import DFA, KINDS, Alphabet, first_of
from llrnn.text.vocabulary import EOS

_LEAST_SHARE = 5e-4  # of the words: a character that fewer of them hold is not told apart from others of its kind


@dataclass(frozen=True, eq=False)
class CharacterModel:
    """All states of a character n-gram model, written out; state 0 is the beginning of a word."""

    alphabet: Alphabet
    table: NGramTable
    moves: Ints  # (S, A)
    prob: Floats  # (S, A + 1)
    last: Ints  # (S,) the column of the last character of a state, -1 for the beginning

    @classmethod
    def estimated(
        cls, words: Sequence[str], *, order: int, min_counts: Sequence[int] = (), told_apart: Iterable[str] = ()
    ) -> CharacterModel:
        """From word types, each counted once. Characters that hardly any of them holds go by their kind alone."""
        if order < 2:
            raise DomainError(f"a model of spelling must look at one character or more: order 2 or more, found {order}")
        holders = Counter(character for word in words for character in set(word))
        least = max(2, int(_LEAST_SHARE * len(words)))
        alphabet = Alphabet([*(c for c, n in holders.items() if n >= least), *told_apart])
        columns, lengths = alphabet.padded(words)
        end = len(alphabet)
        padded = np.concatenate([columns, np.full((len(words), 1), -1)], 1)
        padded[np.arange(len(words)), lengths] = end
        stream = np.concatenate([[end], padded[padded >= 0]])
        names = (*(f"{column}" for column in range(end)), EOS)
        return cls.of(estimate(stream, names, order=order, min_counts=min_counts), alphabet)

    @classmethod
    def of(cls, table: NGramTable, alphabet: Alphabet) -> CharacterModel:
        """Write all states of an n-gram table out, in the order in which they are reached."""
        trie, end = Trie.from_table(table), len(alphabet)
        nodes, after = trie.explore(trie.advance(EMPTY, end), torch.arange(end))
        place = np.zeros(len(trie.word), dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        last = trie.word[torch.tensor(nodes)].numpy().copy()
        last[0] = -1
        prob = trie.dense(torch.tensor(nodes)).exp().numpy()
        prob /= prob.sum(1, keepdims=True)  # 1 but for rounding
        return cls(alphabet, table, place[after.numpy()], prob, last)

    @cached_property
    def _log_prob(self) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self.prob)

    @property
    def n_states(self) -> int:
        return len(self.moves)

    def log_prob(self, strings: Sequence[str]) -> Floats:
        """log p of whole strings, their ends included, (n,)."""
        columns, lengths = self.alphabet.padded(strings)
        log_p, log_share = self._log_prob, self.alphabet.log_share
        state, total = np.zeros(len(strings), dtype=np.int64), np.zeros(len(strings))
        for t in range(columns.shape[1]):
            here = np.flatnonzero(lengths > t)
            column = columns[here, t]
            known = column >= 0
            total[here[~known]] = -np.inf  # a character that no string may hold
            here, column = here[known], column[known]
            total[here] += log_p[state[here], column] + log_share[column]
            state[here] = self.moves[state[here], column]
        log_q: Floats = total + log_p[state, -1]
        return log_q

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data and arrays."""
        plain, tensors = described(self.table)
        return {"characters": list(self.alphabet.characters), "table": plain}, {
            name: tensor.numpy() for name, tensor in tensors.items()
        }

    @classmethod
    def restored(cls, plain: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> CharacterModel:
        """The inverse of `described`."""
        table = table_from(plain["table"], {name: torch.from_numpy(array) for name, array in arrays.items()})
        return cls.of(table, Alphabet(plain["characters"]))


# What a string shows by itself: its shape, its ending, its length. An automaton reads all of it off in one pass.
#
#     label(x) = (shape, longest listed ending)              band(x): its length, in a few bands
#
# A cell of a spelling is a label and a band; words of the same look, listed or not, have the same attributes.


# The first that fits. Endings are told apart where a word is all letters.
SHAPES = {
    "lowercase": r"\p{lower}+",
    "capitalised": r"\p{upper}\p{lower}*",
    "uppercase": r"\p{upper}\p{upper}+",
    "joined": r"[\p{lower}\p{upper}]+([-'’.][\p{lower}\p{upper}]+)+",
    "digits": r".*\d.*",
    "signs": r"[\p{sign}\s]+",
    "mixed": r".+",
}
_WITH_ENDINGS = ("lowercase", "capitalised")
_LEAST_OF_SHAPE = 0.005  # of the types: a shape that fewer have is not told apart from "mixed"


@dataclass(frozen=True)
class Look:
    """A shape and an ending; "" where endings are not told apart or none is listed."""

    shape: str
    ending: str

    def attributes(self, endings: frozenset[str]) -> tuple[str, ...]:
        """`Looks:lowercase`, `Ends:ment`, `Ends:ent`, ...: also the shorter endings that are listed."""
        tails = [self.ending[start:] for start in range(len(self.ending))]
        return (f"Looks:{self.shape}", *(f"Ends:{tail}" for tail in tails if tail in endings))


def shapes_of(words: Sequence[str]) -> tuple[str, ...]:
    """The shapes that enough of the words have; "mixed" stands for all others."""
    labels = _shape_automaton(tuple(SHAPES)).label_all(words)
    counts = np.bincount(labels[labels >= 0], minlength=len(SHAPES))
    common = [shape for shape, n in zip(SHAPES, counts.tolist(), strict=True) if n >= _LEAST_OF_SHAPE * len(words)]
    return tuple(dict.fromkeys([*common, "mixed"]))


def common_endings(words: Iterable[str], *, longest: int, top: int, min_count: int = 2) -> tuple[str, ...]:
    """The commonest endings of up to `longest` characters, none of them a whole word."""
    counts = Counter(word[-length:] for word in words for length in range(1, min(longest, len(word) - 1) + 1))
    ranked = sorted(counts, key=lambda ending: (-counts[ending], ending))
    return tuple(ending for ending in ranked[:top] if counts[ending] >= min_count)


def looks_automaton(shapes: Sequence[str], endings: Sequence[str]) -> tuple[DFA, tuple[Look, ...]]:
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


def _shape_automaton(shapes: Sequence[str]) -> DFA:
    return first_of([pattern(SHAPES[shape]) for shape in shapes])


def _ending_automaton(endings: Sequence[str]) -> DFA:
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
    return DFA(characters, moves, labels)


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
