"""Contextual features φ(K, x): they depend on the condition and the prefix.

As a background, but with feature values instead of log b: one value for the rest, own values for the exceptions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Self

import torch
from torch import Tensor

from llrnn.ground.arrays import LARGEST_FLOAT32
from llrnn.ground.errors import FeatureError
from llrnn.knowledge.process import Process, S, Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.corpus import Corpus
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vocabulary import Revision, Vocabulary

Value = float | Sequence[float]  # of one feature, or of several that follow the prefix together


class ContextualFeature(Process[S]):
    """A feature of (context, word), or several with one state: `initial`, `advance`, and the values at a state.

    `ContextualFeature[S]` says what its states are, as `Background[S]` does.
    """

    _error = FeatureError

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its features, one for each coordinate of a: usually one."""
        return (self.name,)

    @abstractmethod
    def value(self, state: S) -> tuple[Value, Mapping[int, Value]]:
        """The value on all words but a few, and on those few by their ids; a value for each name, if several."""

    def values(self, states: Sequence[S]) -> ContextValues:
        """The values for a batch of states."""
        answers, width = [self.value(state) for state in states], len(self.names)
        rows = [(n, word, own[word]) for n, (_, own) in enumerate(answers) for word in sorted(own)]
        position, word, value = zip(*rows, strict=True) if rows else ((), (), ())
        return ContextValues(
            self._numbers([rest for rest, _ in answers], width, lambda n: f"the rest at position {n}"),
            torch.tensor(position, dtype=torch.long),
            torch.tensor(word, dtype=torch.long),
            self._numbers(value, width, lambda e: f"{self.vocabulary.symbol(word[e])!r} at position {position[e]}"),
        )

    def _numbers(self, values: Sequence[Value], width: int, place: Callable[[int], str]) -> Tensor:
        """Values as (E, k); what no model can compute with is an error that says where."""
        try:
            made = torch.tensor(values, dtype=torch.float64).view(-1, width)
        except OverflowError:  # an integer of hundreds of digits
            made = torch.tensor([[math.inf] * width for _ in values], dtype=torch.float64).view(-1, width)
        broken = torch.nonzero(~(made.abs() <= LARGEST_FLOAT32))
        if len(broken):
            row, column = broken[0].tolist()
            raise FeatureError(
                f"the feature {self.names[column]!r} must be a finite number of at most {LARGEST_FLOAT32:.1e}, which "
                f"float32 can hold, found {float(made[row, column])} on {place(row)}; scale it, or take its logarithm"
            )
        return made


# The columns of a table in words: their domains over a vocabulary, and how values are begun and go on.
#
# A value is a sequence of words, w₁ … w_n. A prefix has *begun* it if it ends with w₁ … w_i for some i ≥ 1; of several
# i the largest counts. Then w_{i+1} goes on with it, and nothing does if i = n.


BEGUN = "begun"  # the name of the feature behind those of the columns

Words = tuple[str, ...]
Cut = Callable[[str], Sequence[str]]


class TableColumn(NamedTuple):
    """A column of the table in words, and all words that it is an expert of."""

    name: str
    spelled: dict[str, Words]  # its values, each in words
    words: frozenset[str]  # those of its values
    domain: frozenset[str]  # and those of former tables

    @classmethod
    def of(cls, kb: KnowledgeBase, name: str, cut: Cut, others: Collection[str]) -> TableColumn:
        spelled = {text: tuple(cut(text)) for text in kb.values(name)}
        own = frozenset(chain.from_iterable(spelled.values()))
        return cls(name, spelled, own, own.union(others))


class BoundColumns(NamedTuple):
    """The columns over the ids of a vocabulary. There are k features: one for each column, and `begun`, the last."""

    ids: Tensor  # (D,) all words of all domains, rising
    rest: Tensor  # (k,) the values on all other words
    usual: Tensor  # (D, k) the values if nothing were right
    places: tuple[dict[str, int], ...]  # for each feature, where a word of its domain stands in `usual`, laid out flat

    @classmethod
    def to(cls, vocabulary: Vocabulary, columns: Sequence[TableColumn]) -> BoundColumns:
        listed = [{word: vocabulary.id(word) for word in column.domain if word in vocabulary} for column in columns]
        listed.append({word: index for own in listed for word, index in own.items()})  # `begun` is of all columns
        ids = sorted(listed[-1].values())
        at, k = {index: n for n, index in enumerate(ids)}, len(listed)
        places = tuple({word: at[index] * k + c for word, index in own.items()} for c, own in enumerate(listed))
        rest = torch.ones(k)
        rest[-1] = 0.0
        usual = rest.repeat(len(ids), 1)
        usual.view(-1)[[place for own in places for place in own.values()]] = 0.0
        return cls(torch.tensor(ids, dtype=torch.long), rest, usual, places)


def going_on(values: Iterable[Words], prefix: Words) -> set[str]:
    """The words that go on with those values that the prefix has begun."""
    found: set[str] = set()
    for words in values if prefix else ():
        said = next((n for n in range(len(words), 0, -1) if prefix[-n:] == words[:n]), len(words))
        found.update(words[said : said + 1])
    return found


def value_words(values: Iterable[str], corpus: Corpus, support: float = 0.9, cut: Cut = str.split) -> tuple[str, ...]:
    """The words of these values that sentences say as part of one: what a text has of them, it has from a table.

    As part of one: up to the word, and with it, the sentence has begun a value. It must be so in a share `support` of
    the word's occurrences; a word that does not occur could be said for no other reason.
    """
    spelled = [tuple(cut(text)) for text in values]
    begun = {words[:n] for words in spelled for n in range(1, len(words) + 1)}
    lengths, own = sorted({len(words) for words in begun}), frozenset(chain.from_iterable(spelled))
    said: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for text in (sentence.words for sentence in corpus):
        for end, word in enumerate(text, 1):
            if word in own:
                said[word] += 1
                inside[word] += any(text[end - n : end] in begun for n in lengths if n <= end)
    return tuple(sorted(word for word in own if word not in said or inside[word] / said[word] >= support))


# Whether a word occurred before: people repeat themselves.


class Repeated(ContextualFeature[tuple[int, ...]]):
    """1 on the words that occurred among the last `window` symbols of the prefix, 0 on all others."""

    def __init__(self, window: int = 50) -> None:
        if window < 1:
            raise FeatureError(f"Repeated(window=...) must be 1 or more, found {window}")
        self._window = window

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    reads_conditions = False

    def initial(self, condition: object = None) -> tuple[int, ...]:
        return ()

    def advance(self, state: tuple[int, ...], symbol: int) -> tuple[int, ...]:
        """The boundary of sentences is not a word that anyone repeats."""
        if symbol == self.vocabulary.eos:
            return state
        return (*state[-(self._window - 1) :], symbol) if self._window > 1 else (symbol,)

    def value(self, state: tuple[int, ...]) -> tuple[float, Mapping[int, float]]:
        return 0.0, dict.fromkeys(state, 1.0)

    def saved(self) -> Saved:
        return Saved("repeated", {"window": self._window})

    def __repr__(self) -> str:
        return f"Repeated(window={self._window})"
