"""An expert that looks up a table: the network learns when, the table says which (paper §6).

    φ_c(K, x) = 1    if x is no word of column c, or a word of c that is right now
    φ_c(K, x) = 0    if x is another word of column c
    φ_begun(K, x)    1 if x goes on with a right value of some column that the prefix has begun, else 0

A user's function of (table, condition, prefix) says which rows are right now. A word of c is right if a right value
begins with it, or if the last words of the prefix are the beginning of a right value and it is the next word; the
longest beginning counts, and a value that has been said in full has no next word. Another table gives other answers
from the same weights.

Why φ_begun: a network that cannot tell one address from another cannot know whether an address is complete, and φ_c
says nothing of the words that could stand behind it. This tells it: as long as one is begun, some word goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from llrnn.ground.caches import ByteCache
from llrnn.ground.errors import FeatureError, quoted, short
from llrnn.knowledge.contextual.base import BEGUN, BoundColumns, ContextualFeature, TableColumn, Value, going_on
from llrnn.knowledge.contextual.copied import Matching
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vocabulary import Revision, Vocabulary

# (table, condition, the words of the sentence so far) -> the rows that are right now, each a mapping from columns
Query = Callable[[KnowledgeBase, Any, tuple[str, ...]], Iterable[Mapping[str, Any]]]
Rows = tuple[Mapping[str, Any], ...]
_KNOWN_BYTES = 64 * 2**20  # of sets of rows whose values are kept in words
_BYTES_A_VALUE = 200
_SIZES = 8  # of batches, likewise: a beam has one or two


class LookupState(NamedTuple):
    """A state: what was given and read, and the entries of the (domain × features) table of values that are right."""

    condition: object
    prefix: tuple[str, ...]
    right: tuple[int, ...]
    rows: Rows | None = None  # of a `Matching`: the rows that are right until another name is said


class _Cut(NamedTuple):
    """The values of some rows in words, by column, and the entries of their first words."""

    rows: Rows
    values: tuple[list[tuple[str, ...]], ...]
    first: tuple[int, ...]


def _no_cuts() -> ByteCache[int, _Cut]:
    """By the number of the rows: as long as a cut is kept, no other rows can have it."""
    return ByteCache(_KNOWN_BYTES, lambda _, cut: sum(8 + _BYTES_A_VALUE * len(own) for own in (cut.rows, *cut.values)))


class Lookup(ContextualFeature[LookupState]):
    """A feature for each column, `name:column`, and `name:begun`. The vocabulary must list the words that they name.

    `domain` adds words to the domains of columns: those of a former table, which are wrong now. `words` cuts values
    into words. In an open vocabulary, or one with a symbol for unknown words, a word that is not listed belongs to no
    domain until it is: the features are on its cell what they are on other words. States belong to the table that they
    were made for.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        query: Query,
        *columns: str,
        name: str = "lookup",
        domain: Mapping[str, Collection[str]] | None = None,
        words: Callable[[str], Sequence[str]] = str.split,
    ) -> None:
        given = dict(domain or {})
        _check(kb, query, columns, name, given)
        self._kb, self._query, self._name, self._words, self._given = kb, query, name, words, given
        self._columns = tuple(TableColumn.of(kb, column, words, given.get(column, ())) for column in columns)
        self._bound: BoundColumns | None = None
        self._remembered = _no_cuts()
        self._repeated: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self._name}:{own}" for own in (*(column.name for column in self._columns), BEGUN))

    @property
    def table(self) -> KnowledgeBase:
        return self._kb

    @property
    def words_of_table(self) -> tuple[str, ...]:
        """All words of its columns, which the vocabulary must list."""
        return tuple(sorted(frozenset().union(*self.words_by_column.values())))

    @property
    def words_by_column(self) -> dict[str, tuple[str, ...]]:
        """The words of the table, of its columns one by one."""
        return {column.name: tuple(sorted(column.words)) for column in self._columns}

    def with_table(self, kb: KnowledgeBase) -> Lookup:
        """The same lookup over another table; the words of this one stay in the domains, and are wrong now."""
        domain = {column.name: sorted(column.domain) for column in self._columns}
        return Lookup(kb, self._query, *domain, name=self._name, domain=domain, words=self._words)

    def bind(self, vocabulary: Vocabulary) -> Self:
        lost = [word for word in self.words_of_table if word not in vocabulary]
        if lost and not vocabulary.is_open and vocabulary.unknown is None:
            shown = short(", ".join(map(repr, lost)))
            raise FeatureError(
                f"the vocabulary must list the words of the table {self._kb.name!r}, but {len(lost)} are not listed "
                f"({shown}); list them: vocabulary.others, or `llrnn words add` for a trained model"
            )
        bound = super().bind(vocabulary)
        bound._bound, bound._remembered, bound._repeated = BoundColumns.to(vocabulary, self._columns), _no_cuts(), {}
        return bound

    def initial(self, condition: object = None) -> LookupState:
        if not isinstance(self._query, Matching):
            return self._asked(condition, ())
        return self._answer(condition, (), self._rows(partial(self._query.before, self._kb, condition), condition))

    def advance(self, state: LookupState, symbol: int) -> LookupState:
        if symbol == self.vocabulary.eos:
            return self.initial(state.condition) if state.prefix else state
        prefix = (*state.prefix, self.vocabulary.symbols[symbol])
        if state.rows is None or not isinstance(self._query, Matching):
            return self._asked(state.condition, prefix)
        return self._answer(state.condition, prefix, self._query.named_at_the_end(self._kb, prefix) or state.rows)

    def _asked(self, condition: object, prefix: tuple[str, ...]) -> LookupState:
        """A function of one's own is asked at every word."""
        rows = self._rows(partial(self._query, self._kb, condition, prefix), condition)
        return self._answer(condition, prefix, rows)

    def value(self, state: LookupState) -> tuple[Value, Mapping[int, Value]]:
        found = self.values([state])
        return found.rest[0].tolist(), dict(zip(found.word.tolist(), found.value.tolist(), strict=True))

    def values(self, states: Sequence[LookupState]) -> ContextValues:
        """All domain words are exceptions everywhere: one table of values, in which a few entries are set."""
        ids, _, usual, _ = self._compiled
        N, (D, k) = len(states), usual.shape
        value = usual.repeat(N, 1)
        right = [n * D * k + place for n, state in enumerate(states) for place in state.right]
        value.view(-1).index_fill_(0, torch.tensor(right, dtype=torch.long), 1.0)
        rest, position, word = self._at_each_of(N)
        return ContextValues(rest, position, word, value, ids)

    def _at_each_of(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """What is the same at n positions whatever is right, remembered: the rest, and all words of all domains."""
        if n not in self._repeated:
            ids, rest, *_ = self._compiled
            if len(self._repeated) >= _SIZES:
                self._repeated.clear()
            self._repeated[n] = rest.repeat(n, 1), torch.arange(n).repeat_interleave(len(ids)), ids.repeat(n)
        return self._repeated[n]

    @property
    def _compiled(self) -> BoundColumns:
        if self._bound is None:
            raise self._unbound()
        return self._bound

    def _answer(self, condition: object, prefix: tuple[str, ...], rows: Rows) -> LookupState:
        """The rows that are right, as entries of the table of values."""
        _, values, first = self._in_words(rows, condition)
        # most words are no part of any value, so that nothing goes on
        following = [
            set() if column.words.isdisjoint(prefix[-1:]) else going_on(own, prefix)
            for column, own in zip(self._columns, values, strict=True)
        ]
        if not any(following):
            return LookupState(condition, prefix, first, rows)
        listed = zip((*following, set().union(*following)), self._compiled.places, strict=True)
        where = (places[word] for words, places in listed for word in words & places.keys())
        return LookupState(condition, prefix, tuple(sorted({*first, *where})), rows)

    def _in_words(self, rows: Rows, condition: object) -> _Cut:
        """The values of rows, and where their first words stand; remembered, for many answers are the same rows."""
        return self._remembered.get(id(rows), lambda: self._cut(rows, condition))  # who is kept keeps its number

    def _cut(self, rows: Rows, condition: object) -> _Cut:
        values = tuple(self._values(column, rows, condition) for column in self._columns)
        listed = zip(values, self._compiled.places, strict=False)  # none is begun
        first = {places[own[0]] for column, places in listed for own in column if own[0] in places}
        return _Cut(rows, values, tuple(sorted(first)))

    def _values(self, column: TableColumn, rows: Rows, condition: object) -> list[tuple[str, ...]]:
        """The distinct values of some rows, in words; those of the table itself were cut before."""
        found = [row[column.name] for row in rows if column.name in row]
        texts = dict.fromkeys(text if isinstance(text, str) else repr(text) for text in found if text is not None)
        values = (column.spelled.get(text) or self._spelled(column, text, condition) for text in texts)
        return [words for words in values if words]

    def _rows(self, ask: Callable[[], object], condition: object) -> Rows:
        try:
            found = ask()
            rows = tuple(found) if isinstance(found, Iterable) and not isinstance(found, str | Mapping) else None
        except Exception as cause:  # a user's function may raise anything
            raise self._refused(f"its query raised {type(cause).__name__}: {cause}", condition) from cause
        if rows is None or not all(isinstance(row, (dict, Mapping)) for row in rows):
            said = "its query must return rows of the table (a list of mappings; an empty one for none)"
            raise self._refused(f"{said}, found {quoted(found)}", condition)
        return rows

    def _spelled(self, column: TableColumn, text: str, condition: object) -> tuple[str, ...]:
        """A value that a query made: of words of the table, else nobody could have listed them."""
        words = tuple(self._words(text))
        if not column.words.issuperset(words):
            said = f"its query returned {quoted(text)} in column {column.name!r}"
            raise self._refused(f"{said}, but only words of that column of the table can be right", condition)
        return words

    def _refused(self, reason: str, condition: object) -> FeatureError:
        said = f"lookup {self._name!r}: {reason}; the condition was {quoted(condition)}"
        return FeatureError(" ".join(said.split()))

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def saved(self) -> Saved:
        """With its table, if its query can be written down."""
        if not isinstance(self._query, Matching) or self._words is not str.split or self._query.words is not str.split:
            return super().saved()
        kb, columns = self._kb, [column.name for column in self._columns]
        table = {"name": kb.name, "columns": list(kb.columns), "rows": list(kb.rows)}
        domain = {column: sorted(words) for column, words in self._given.items()}
        fields = {"name": self._name, "table": table, "columns": columns, "domain": domain}
        return Saved("lookup", {**fields, "query": self._query.settings()})

    @classmethod
    def restored(cls, fields: Mapping[str, Any]) -> Lookup:
        """From what `saved` wrote."""
        kb, query = KnowledgeBase(**fields["table"]), Matching(**fields["query"])
        return cls(kb, query, *fields["columns"], name=fields["name"], domain=fields["domain"])

    def __repr__(self) -> str:
        query = getattr(self._query, "__name__", None) or repr(self._query)
        return f"Lookup({self._kb.name!r}, {query}, {', '.join(c.name for c in self._columns)}, name={self._name!r})"


def _check(
    kb: KnowledgeBase, query: Query, columns: Sequence[str], name: str, domain: Mapping[str, Collection[str]]
) -> None:
    if not callable(query):
        raise FeatureError(f"lookup {name!r}: a function of (table, condition, prefix) is required, found {query!r}")
    if not columns or len(set(columns)) != len(columns):
        raise FeatureError(f"lookup {name!r}: one or more distinct columns are required, found {list(columns)}")
    if BEGUN in columns:
        raise FeatureError(
            f"lookup {name!r}: a column must bear another name than {BEGUN!r}, which is that of a feature of every "
            "lookup; rename it"
        )
    kb.require(*columns)
    for column, words in domain.items():
        if column not in columns or isinstance(words, str):
            raise FeatureError(
                f"lookup {name!r}: `domain` takes a list of words for some of {', '.join(columns)}, "
                f"found {quoted(words)} for {column!r}"
            )
    if isinstance(query, Matching):
        query.index(kb)  # a column that is not there shows now, not in the middle of a text
