"""Features that let a network copy the values of a condition: inform(name='trattoria contadina';pricerange=moderate).

For each value v = v[0] … v[n-1] of the condition, and the words of the sentence so far (those after the last EOS):

    said(v)      whether v occurred among them, word after word
    k(v)         the length of the longest proper prefix of v with which they end
    offers(v)    {v[0], v[k]}: a match of k words may be an accident ("the"), so that v may also begin here

    Copied(x)     1 if some v that is not said offers x
    Continued(x)  1 if x is v[k] of some v that is not said, and k ≥ 1: what a value that was begun demands
    Said(x)       1 if x is v[0] of some v that is said, and Copied(x) is 0
    Unsaid(x)     on EOS, how many v are not said

All are 0 on all other words. A value can be pointed at if the vocabulary lists all of its words; any other is left out,
as if the condition did not have it. In an open vocabulary, where such a word has no symbol but its cell, the words of
the condition are temporarily added (`llrnn.words.add_from_conditions`). Without slots there are no values.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from llrnn.ground.caches import ByteCache
from llrnn.ground.errors import FeatureError
from llrnn.knowledge.contextual.base import ContextualFeature, Value
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.conditions import fields_of, values_of
from llrnn.text.tables import KnowledgeBase, Row, plain
from llrnn.text.vocabulary import EOS, Revision

_SAID = -1  # in the place of how many words match: a value that was said is followed no more

Words = tuple[int, ...]
Steps = tuple[Mapping[int, int], ...]
_BYTES_A_WORD = 400  # of a value: a small dictionary for each
_KNOWN: ByteCache[Words, Steps] = ByteCache(32 * 2**20, lambda value, steps: 200 + _BYTES_A_WORD * len(value))


class ConditionValues(NamedTuple):
    """What is to be said, one entry for each value: its words, its slot, how matches go on."""

    values: tuple[Words, ...]
    slots: tuple[str, ...]
    steps: tuple[Steps, ...]
    words: frozenset[int]


class CopyProgress(NamedTuple):
    """The state: how many words of each value match here, or that it was said."""

    plan: ConditionValues
    matched: tuple[int, ...]


def _steps(value: Words) -> Steps:
    """As `_worked_out`; values come again, and conditions come from strangers."""
    return _KNOWN.get(value, lambda: _worked_out(value))


def _worked_out(value: Words) -> Steps:
    """From each number of matched words, where the next word leads; to 0, if it is not there (Knuth, Morris, Pratt)."""
    steps, fallback = [{value[0]: 1}], 0
    for k, word in enumerate(value[1:], 1):
        steps.append({**steps[fallback], word: k + 1})
        fallback = steps[fallback].get(word, 0)
    steps[-1][value[-1]] = _SAID
    return tuple(steps)


class ConditionFeature(ContextualFeature[CopyProgress]):
    """A feature of what was said of the condition: of all of its slots, or only of those that are named."""

    def __init__(self, *slots: str) -> None:
        if not all(isinstance(slot, str) for slot in slots) or len(set(slots)) < len(slots):
            raise FeatureError(f"{type(self).__name__}(...) takes the names of slots, each once, found {slots}")
        self._slots, self._columns = slots, self._numbered(slots)

    def _numbered(self, slots: Sequence[str]) -> dict[str, int]:
        """To which of its features each slot belongs."""
        return dict.fromkeys(slots, 0)

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    @property
    def state_key(self) -> object:
        """All of them follow all values, and look at those of their own slots when they are asked."""
        return ConditionFeature, id(self.vocabulary)

    def initial(self, condition: object = None) -> CopyProgress:
        known = self.vocabulary
        found = [
            (tuple([known.id(word) for word in words]), slot)
            for slot, words in values_of(condition)
            if EOS not in words and all(word in known for word in words)
        ]  # nobody can say a value with EOS in it
        values = tuple([value for value, _ in found])
        plan = ConditionValues(
            values, tuple([slot for _, slot in found]), tuple(map(_steps, values)), frozenset(chain(*values))
        )
        return CopyProgress(plan, (0,) * len(values))

    def _own(self, state: CopyProgress) -> list[tuple[Words, int, int]]:
        """Its values: their words, the feature that they belong to, and how many words match."""
        plan, columns = state.plan, self._columns
        of_all = zip(plan.values, plan.slots, state.matched, strict=True)
        if not columns:
            return [(value, 0, k) for value, _, k in of_all]
        return [(value, columns[slot], k) for value, slot, k in of_all if slot in columns]

    def advance(self, state: CopyProgress, symbol: int) -> CopyProgress:
        plan, matched = state
        if symbol == self.vocabulary.eos:
            return CopyProgress(plan, (0,) * len(matched))
        if symbol not in plan.words and max(matched, default=0) <= 0:  # most words have nothing to do with it
            return state
        pairs = zip(plan.steps, matched, strict=True)
        return CopyProgress(plan, tuple([k if k == _SAID else steps[k].get(symbol, 0) for steps, k in pairs]))

    def value(self, state: CopyProgress) -> tuple[Value, Mapping[int, Value]]:
        found = self.values([state])
        rest, own = (found.rest, found.value) if len(self.names) > 1 else (found.rest[:, 0], found.value[:, 0])
        return rest[0].tolist(), dict(zip(found.word.tolist(), own.tolist(), strict=True))

    def saved(self) -> Saved:
        if type(self) not in KINDS.values():  # a class of the user's own that is made of one of these
            return super().saved()
        return Saved(type(self).__name__.lower(), {"slots": list(self._slots)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._slots))})"


class Pointing(ConditionFeature):
    """1 on the words that values point at, one feature for all slots or one for each that is named."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}:{slot}" for slot in self._slots) or (self.name,)

    def _numbered(self, slots: Sequence[str]) -> dict[str, int]:
        return {slot: number for number, slot in enumerate(slots)}

    @abstractmethod
    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        """(word, feature) where the value is 1; in any order, and a pair may come again."""

    def values(self, states: Sequence[CopyProgress]) -> ContextValues:
        """Pairs become numbers that sort by position, word and feature; numpy sorts and joins those of one word."""
        V, width = len(self.vocabulary), len(self.names)
        keys = [(n * V + word) * width + column for n, s in enumerate(states) for word, column in self._pointed(s)]
        if not keys:
            return ContextValues.none(len(states), width)
        ones = np.array(keys, dtype=np.int64)
        own, row = np.unique(ones // width, return_inverse=True)
        value = np.zeros((len(own), width), dtype=np.float32)
        value[row, ones % width] = 1.0
        parts = (own // V, own % V, value)
        return ContextValues(torch.zeros(len(states), width), *map(torch.from_numpy, parts))


class Copied(Pointing):
    """1 on the words with which a value that was not said yet begins, or goes on; see the top of this file."""

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        own = self._own(state)
        return [(v[i], column) for v, column, k in own if k != _SAID for i in ((0, k) if k else (0,))]


class Continued(Pointing):
    """1 on the word with which a value that was begun, and not said yet, goes on."""

    def __init__(self) -> None:
        super().__init__()

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        return [(v[k], column) for v, column, k in self._own(state) if k > 0]


class Said(Pointing):
    """1 on the first word of a value that was said, unless one of the same slots that was not said offers it."""

    def _pointed(self, state: CopyProgress) -> list[tuple[int, int]]:
        if _SAID not in state.matched:
            return []
        own = self._own(state)
        offered = {v[i] for v, _, k in own if k != _SAID for i in (0, k)}
        return [(v[0], column) for v, column, k in own if k == _SAID and v[0] not in offered]


class Unsaid(ConditionFeature):
    """On EOS, how many values were not said yet: what a sentence that ends here leaves out."""

    def values(self, states: Sequence[CopyProgress]) -> ContextValues:
        counts = [sum(k != _SAID for _, _, k in self._own(state)) for state in states]
        if not any(counts):
            return ContextValues.none(len(states), 1)
        left = torch.tensor(counts, dtype=torch.float32)
        position = left.nonzero()[:, 0]
        word = torch.full_like(position, self.vocabulary.eos)
        return ContextValues(torch.zeros(len(states), 1), position, word, left[position, None])


KINDS: dict[str, type[ConditionFeature]] = {made.__name__.lower(): made for made in (Copied, Continued, Said, Unsaid)}


# A ready query of a table: the rows of what was spoken of last, else the rows that are asked for.
#
#     Matching(subject="name", on=("food", "area"), history=("turns",))
#
# 1. If the words of a row's `subject` (the name of a venue) stand in the prefix, in order and without a gap, the rows
# of
#    that name are right; of several names the one that ended last, and of those the longest.
# 2. Else likewise in the texts of the condition's fields `history`, the last one first. A later text of a list is more
#    recent than an earlier one, and a later field than an earlier one.
# 3. Else the rows whose columns `on` have the values that the condition's fields of these names have. A list is any of
#    its values; a field that is not there, or that says dontcare or none, does not restrict.


Rows = tuple[Row, ...]
Tokenize = Callable[[str], Sequence[str]]
Values = tuple[tuple[str, ...], ...]  # of each column

_ANYTHING = frozenset({"", "none", "dontcare", "dont_care"})  # values that do not restrict
_KNOWN_BYTES = 32 * 2**20  # of texts, and of restrictions, whose rows are kept: conditions come from strangers


@dataclass(frozen=True)
class Matching:
    """Callable: (table, condition, prefix) -> rows. `words` cuts names and texts as the model's text is cut."""

    subject: str | None = None
    on: Sequence[str] = ()
    history: Sequence[str] = ()
    words: Tokenize = str.split

    def __post_init__(self) -> None:
        for field, names in (("on", self.on), ("history", self.history)):
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise FeatureError(f"Matching({field}=...) takes a list of names, found {names!r}; write [{names!r}]")
            object.__setattr__(self, field, tuple(names))
        if self.history and self.subject is None:
            raise FeatureError("Matching(history=...) looks for a subject; name its column: subject=...")

    def __call__(self, kb: KnowledgeBase, condition: object, prefix: Sequence[str]) -> Rows:
        spoken_of = self.index(kb).spoken_of(prefix) if self.subject is not None else None
        return self.before(kb, condition) if spoken_of is None else spoken_of

    def named_at_the_end(self, kb: KnowledgeBase, prefix: Sequence[str]) -> Rows | None:
        """The rows of a name that ends with the prefix: who asks at every word, needs to ask for no more."""
        return self.index(kb).named_at(prefix, len(prefix)) if prefix else None

    def before(self, kb: KnowledgeBase, condition: object) -> Rows:
        """The rows that are right as long as the sentence has said no name."""
        index = self.index(kb)
        fields: dict[str, list[str]] = {}
        for name, text in fields_of(condition):
            if text is not None:
                fields.setdefault(name, []).append(text)
        for name in reversed(self.history):
            for text in reversed(fields.get(name, ())):
                spoken_of = index.spoken_of_in(text)
                if spoken_of is not None:
                    return spoken_of
        return index.restricted(tuple(tuple(fields.get(name, ())) for name in self.on))

    def index(self, kb: KnowledgeBase) -> _Index:
        """What is worked out once for a table, and kept with it."""
        found = kb.derived.get(self)
        if found is None:
            found = kb.derived[self] = _Index(kb, self)
        assert isinstance(found, _Index)
        return found

    def settings(self) -> dict[str, Any]:
        """What it was made with, as a model folder writes it."""
        return {"subject": self.subject, "on": list(self.on), "history": list(self.history)}


class _Index:
    """The names of one table by their last words; answers are remembered by what they depend on alone."""

    def __init__(self, kb: KnowledgeBase, query: Matching) -> None:
        kb.require(*query.on, *(() if query.subject is None else (query.subject,)))
        self._kb, self._words, self._on = kb, query.words, query.on
        self._by_last: dict[str, list[tuple[list[str], Rows]]] = {}
        for name, rows in self._rows_of_names(query.subject).items():
            self._by_last.setdefault(name[-1], []).append((list(name), rows))
        for names in self._by_last.values():
            names.sort(key=lambda entry: -len(entry[0]))
        self._by_text: ByteCache[str, Rows | None] = ByteCache(_KNOWN_BYTES, _bytes_of)
        self._by_values: ByteCache[Values, Rows] = ByteCache(_KNOWN_BYTES, _bytes_of)

    def _rows_of_names(self, subject: str | None) -> dict[tuple[str, ...], Rows]:
        """Several rows may have one name, in one spelling or another."""
        found: dict[tuple[str, ...], Rows] = {}
        for row in self._kb.rows if subject is not None else ():
            name = tuple(word.lower() for word in self._words(row.get(subject or "", "")))
            if name:
                found[name] = (*found.get(name, ()), row)
        return found

    def spoken_of(self, words: Iterable[str]) -> Rows | None:
        """The rows of the name that ended last; of the longest, where several end at one word."""
        said = list(words)
        found = (self.named_at(said, end) for end in range(len(said), 0, -1))
        return next((rows for rows in found if rows is not None), None)

    def named_at(self, words: Sequence[str], end: int) -> Rows | None:
        """The rows of the longest name that ends with the word before `end`."""
        for name, rows in self._by_last.get(words[end - 1].lower(), ()):
            if len(name) <= end and [word.lower() for word in words[end - len(name) : end]] == name:
                return rows
        return None

    def spoken_of_in(self, text: str) -> Rows | None:
        """The rows of the name that ended last in a text."""
        return self._by_text.get(text, lambda: self.spoken_of(self._words(text)))

    def restricted(self, values: Values) -> Rows:
        """The rows that have one of the values in each column of `on`, given in that order."""
        return self._by_values.get(values, lambda: self._looked_up(values))

    def _looked_up(self, values: Values) -> Rows:
        said = [{plain(value) for value in column} - _ANYTHING for column in values]
        wanted = [(column, any_of) for column, any_of in zip(self._on, said, strict=True) if any_of]
        return tuple(row for row in self._kb.rows if all(plain(row.get(c, "")) in any_of for c, any_of in wanted))


def _bytes_of(key: str | Values, rows: Rows | None) -> int:
    """Of an entry: its key, and one place for each row; the rows themselves are those of the table."""
    texts = (key,) if isinstance(key, str) else (text for column in key for text in column)
    return 200 + sum(map(sys.getsizeof, texts)) + sys.getsizeof(rows or ())
