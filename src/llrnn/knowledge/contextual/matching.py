"""A ready query of a table: the rows of what was spoken of last, else the rows that are asked for.

    Matching(subject="name", on=("food", "area"), history=("turns",))

1. If the words of a row's `subject` (the name of a venue) stand in the prefix, in order and without a gap, the rows of
   that name are right; of several names the one that ended last, and of those the longest.
2. Else likewise in the texts of the condition's fields `history`, the last one first. A later text of a list is more
   recent than an earlier one, and a later field than an earlier one.
3. Else the rows whose columns `on` have the values that the condition's fields of these names have. A list is any of
   its values; a field that is not there, or that says dontcare or none, does not restrict.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from llrnn.ground.caches import ByteCache
from llrnn.ground.errors import FeatureError
from llrnn.text.conditions import fields_of
from llrnn.text.tables import KnowledgeBase, Row, plain

Rows = tuple[Row, ...]
Words = Callable[[str], Sequence[str]]
Values = tuple[tuple[str, ...], ...]  # of each column

_ANYTHING = frozenset({"", "none", "dontcare", "dont_care"})  # values that do not restrict
_KNOWN_BYTES = 32 * 2**20  # of texts, and of restrictions, whose rows are kept: conditions come from strangers


@dataclass(frozen=True)
class Matching:
    """Callable: (table, condition, prefix) -> rows. `words` cuts names and texts as the model's text is cut."""

    subject: str | None = None
    on: Sequence[str] = ()
    history: Sequence[str] = ()
    words: Words = str.split

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
