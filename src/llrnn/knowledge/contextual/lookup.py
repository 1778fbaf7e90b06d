"""An expert that looks up a table: the network learns when, the table says which (paper §6).

    φ_c(K, x) = 1    if x is no word of column c, or a word of c that is right now
    φ_c(K, x) = 0    if x is another word of column c
    φ_begun(K, x)    1 if x goes on with a right value of some column that the prefix has begun, else 0

A user's function of (table, condition, prefix) says which rows are right now. A word of c is right if a right value
begins with it, or if the last words of the prefix are the beginning of a right value and it is the next word; the
longest beginning counts, and a value that has been said in full has no next word. Another table gives other answers
from the same weights.

Where fields of the condition name columns that are asked for, the features are others, shared by all columns as far as
may be, so that a column that training never asked for is answered too. With c asked for if it has one value that
is right and was not said yet:

    φ_c(K, x) = 1        if x is a right word of column c, else 0; 0 on all words if c is asked for under no name
    φ_any(K, x) = 0      if x is a word of some column, and right of none, else 1
    φ_asked(K, x) = 1    if x goes on with the value of a column that is asked for, or begins it, else 0
    φ_untold(K, x) = 1   on the end of the sentence, if some column is asked for, else 0

Why φ_begun: a network that cannot tell one address from another cannot know whether an address is complete, and φ_c
says nothing of the words that could stand behind it. This tells it: as long as one is begun, some word goes on.

The columns of a table in words: their domains over a vocabulary, and how values are begun and go on.

A value is a sequence of words, w₁ … w_n. A prefix has *begun* it if it ends with w₁ … w_i for some i ≥ 1; of several
i the largest counts. Then w_{i+1} goes on with it, and nothing does if i = n.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from llrnn.ground.arrays import ByteCache
from llrnn.ground.errors import FeatureError, quoted, short
from llrnn.knowledge.contextual.base import ContextualFeature
from llrnn.knowledge.process import Saved
from llrnn.layer.priors import ContextValues
from llrnn.text.conditions import fields_of
from llrnn.text.corpus import Corpus
from llrnn.text.tables import KnowledgeBase, Row, plain
from llrnn.text.vocabulary import EOS, Revision, Vocabulary

# (table, condition, the words of the sentence so far) -> the rows that are right now, each a mapping from columns
Query = Callable[[KnowledgeBase, Any, tuple[str, ...]], Iterable[Mapping[str, Any]]]
Rows = tuple[Mapping[str, Any], ...]
TableRows = tuple[Row, ...]
Tokenize = Callable[[str], Sequence[str]]
Values = tuple[tuple[str, ...], ...]  # of each column

BEGUN = "begun"  # the name of the feature behind those of the columns
SHARED = ("any", "asked", "untold")  # and of those behind it, where columns are asked for
_ANYTHING = frozenset({"", "none", "dontcare", "dont_care"})  # values that do not restrict
_MATCH_BYTES = 32 * 2**20  # of texts, and of restrictions, whose rows are cached: conditions come from strangers
_KNOWN_BYTES = 64 * 2**20  # of sets of rows whose values are cached in words
_BYTES_A_VALUE = 200


@dataclass(frozen=True)
class Matching:
    """A query for `Lookup`: the rows of the entity that was mentioned last, else those that fit the condition.

        Matching(subject="name", on=("food", "area"), history=("turns",))

    It is called with a table, a condition (the input that the text is generated from) and the words of the sentence so
    far, and returns a tuple of rows, dicts {column: value}, in the order of the table:

    1. If the value of some row's column `subject` (the name of a venue) occurs in the sentence as consecutive words, in
       any case, the rows with that name. Of several names, the one that ended last; of those, the longest.
    2. Else the rows of a name found in this way in the texts of the condition's fields `history`. Later fields, and
       later texts of a list, are searched first.
    3. Else the rows whose columns `on` have the values that the condition's fields of these names have. Of a list, any
       value will do; a field that is missing, empty, dontcare or none does not restrict.

    `words`: a function that splits a name or text into words, as the model's text is split. With `subject` None only 3.
    applies; with no row that fits, the result is ().
    """

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

    def __call__(self, kb: KnowledgeBase, condition: object, prefix: Sequence[str]) -> TableRows:
        spoken_of = self.index(kb).spoken_of(prefix) if self.subject is not None else None
        return self.before(kb, condition) if spoken_of is None else spoken_of

    def before(self, kb: KnowledgeBase, condition: object) -> TableRows:
        """Return the rows of the table that hold for a condition as long as the sentence has mentioned no `subject`.

        A condition is the input of a text. The rows, dicts {column: value}, are those of the name mentioned last in the
        condition's fields `history`, else those whose columns `on` have the values that the condition's fields of these
        names have; () if there are none.
        """
        index = self.index(kb)
        given = [(name, text) for name, text in fields_of(condition) if text is not None]
        fields = {name: tuple(text for own, text in given if own == name) for name in (*self.history, *self.on)}
        for text in (text for name in reversed(self.history) for text in reversed(fields[name])):
            if (rows := index.spoken_of_in(text)) is not None:
                return rows
        return index.restricted(tuple(fields[name] for name in self.on))

    def index(self, kb: KnowledgeBase) -> _Index:
        """Return the index of the names in column `subject` of `kb`: it finds the rows of a name that words end with.

        Built once and kept in `kb.derived`. Raises a TableError if `kb` lacks the column `subject` or one of `on`.
        """
        if self not in kb.derived:
            kb.derived[self] = _Index(kb, self)
        found = kb.derived[self]
        assert isinstance(found, _Index)
        return found

    def settings(self) -> dict[str, Any]:
        """Return {"subject": …, "on": …, "history": …}, the arguments that a model folder stores, without `words`."""
        return {"subject": self.subject, "on": list(self.on), "history": list(self.history)}


class _Index:
    """An index of the names in the subject column of one table, by their last words, with cached results.

    Made by `Matching.index`, which asks it for the rows of names that texts mention. `_Index(...).spoken_of(words)`
    returns a tuple of rows, dicts {column: value}, or None.
    """

    def __init__(self, kb: KnowledgeBase, query: Matching) -> None:
        subject = query.subject or ""
        kb.require(*query.on, *(() if query.subject is None else (subject,)))
        self._kb, self._words, self._on = kb, query.words, query.on
        by_name: dict[tuple[str, ...], TableRows] = {}  # several rows may have one name, in one spelling or another
        for row in kb.rows if subject else ():
            name = tuple(word.lower() for word in query.words(row.get(subject, "")))
            by_name[name] = (*by_name.get(name, ()), row)
        self._by_last: dict[str, list[tuple[list[str], TableRows]]] = {}  # the longest first
        for name in sorted(filter(None, by_name), key=len, reverse=True):
            self._by_last.setdefault(name[-1], []).append((list(name), by_name[name]))
        self._cache: ByteCache[str | Values, TableRows | None] = ByteCache(_MATCH_BYTES, _bytes_of)

    def spoken_of(self, words: Sequence[str]) -> TableRows | None:
        """Return the rows of the name that ends last in `words`, the longest where several end there.

        Rows are those of the table whose subject column has the name, in any case; None if no name is mentioned.
        """
        found = (self.named_at(words, end) for end in range(len(words), 0, -1))
        return next((rows for rows in found if rows is not None), None)

    def named_at(self, words: Sequence[str], end: int) -> TableRows | None:
        """Return the rows of the longest name whose last word is `words[end - 1]`; None if no name ends there.

        Rows are dicts {column: value} of the table whose subject column has the name, in any case.
        """
        for name, rows in self._by_last.get(words[end - 1].lower(), ()):
            if len(name) <= end and [word.lower() for word in words[end - len(name) : end]] == name:
                return rows
        return None

    def spoken_of_in(self, text: str) -> TableRows | None:
        """Return the rows of the table with the name that ends last in a text; None if it mentions none; cached.

        The text is split into words as the query says; of names that end at one word the longest counts. Rows are dicts
        {column: value}.
        """
        return self._cache.get(text, lambda: self.spoken_of(self._words(text)))

    def restricted(self, values: Values) -> TableRows:
        """Return the rows that have, in each column of `on`, one of the values given for it; cached.

        `values`: a tuple of texts for each column of `on`, in order; an empty tuple, or the texts "", none and
        dontcare, do not restrict. Texts are compared without regard to case and outer blanks; rows are in the table's
        order.
        """
        said = [{plain(value) for value in column} - _ANYTHING for column in values]
        wanted = [(column, any_of) for column, any_of in zip(self._on, said, strict=True) if any_of]
        found = (row for row in self._kb.rows if all(plain(row.get(c, "")) in any_of for c, any_of in wanted))
        return self._cache.get(values, lambda: tuple(found)) or ()


def _bytes_of(key: str | Values, rows: TableRows | None) -> int:
    """Return the estimated memory of a cache entry in bytes: its key, and a reference for each row."""
    texts = (key,) if isinstance(key, str) else (text for column in key for text in column)
    return 200 + sum(map(sys.getsizeof, texts)) + sys.getsizeof(rows or ())


class TableColumn(NamedTuple):
    """A column `name` of a table, with its values split into words, and its domain: all words that count as its words.

    `spelled`: {value: tuple of its words}; `words`: a frozenset of all words of the values; `domain`: these, and
    further ones that are given, such as those of a former table. Made by `TableColumn.of(kb, name, tokenize, others)`
    from a table, a function that splits a value into words, and the further words.
    """

    name: str
    spelled: dict[str, tuple[str, ...]]  # its values, each in words
    words: frozenset[str]  # those of its values
    domain: frozenset[str]  # and those of former tables

    @classmethod
    def of(cls, kb: KnowledgeBase, name: str, tokenize: Tokenize, others: Collection[str]) -> TableColumn:
        spelled = {text: tuple(tokenize(text)) for text in kb.values(name)}
        own = frozenset(chain.from_iterable(spelled.values()))
        return cls(name, spelled, own, own.union(others))


class BoundColumns(NamedTuple):
    """The columns of a `Lookup` as tensors over the D word ids in them; k features: one for each column, and `begun`.

    `ids`: (D,) rising; `rest`: (k,) the values on all other words; `usual`: (D, k) the values while no row of the table
    supports a word: 0 on the words of the feature's column, else as `rest`; `places`: for each feature a dict {word of
    its column: flat index into (D, k)}. Made by `BoundColumns.to(vocabulary, columns, shared)`; with `shared`, the end
    of the sentence is among the words, and the features of `SHARED` among those.
    """

    ids: Tensor  # (D,) all words of all domains, rising
    rest: Tensor  # (k,) the values on all other words
    usual: Tensor  # (D, k) the values if nothing were right
    places: tuple[dict[str, int], ...]  # for each feature, where a word of its domain stands in `usual`, laid out flat

    @classmethod
    def to(cls, vocabulary: Vocabulary, columns: Sequence[TableColumn], shared: bool = False) -> BoundColumns:
        listed = [{word: vocabulary.id(word) for word in column.domain if word in vocabulary} for column in columns]
        every = {word: index for own in listed for word, index in own.items()}
        listed += [every, every, every, {EOS: vocabulary.eos}] if shared else [every]  # `begun` is of all columns
        ids = sorted({index for own in listed for index in own.values()})
        at, k = {index: n for n, index in enumerate(ids)}, len(listed)
        places = tuple({word: at[index] * k + c for word, index in own.items()} for c, own in enumerate(listed))
        rest = torch.zeros(k)
        rest[len(columns) + 1 if shared else slice(len(columns))] = 1.0
        usual = rest.repeat(len(ids), 1)
        usual.view(-1)[[place for own in places for place in own.values()]] = 0.0
        return cls(torch.tensor(ids, dtype=torch.long), rest, usual, places)


def going_on(values: Iterable[tuple[str, ...]], prefix: tuple[str, ...]) -> set[str]:
    """Return the next word of every value whose beginning `prefix` ends with.

    values      each as a tuple of words

    Of each value, the longest beginning that the prefix ends with counts; a value that was said in full has no next
    word.
    """
    found: set[str] = set()
    for words in values if prefix else ():
        said = next((n for n in range(len(words), 0, -1) if prefix[-n:] == words[:n]), len(words))
        found.update(words[said : said + 1])
    return found


def value_words(values: Iterable[str], corpus: Corpus, support: float = 0.9) -> tuple[str, ...]:
    """Return, sorted, the words of table values that sentences use nearly only inside such values.

    values      texts, such as all values of some columns
    corpus      sentences to count in
    support     the least share of a word's occurrences at which the sentence, up to this word, ends with the beginning
                of a value; a word that does not occur is returned too

        value_words(["12 main street", "cheap"], train)
    """
    spelled = [tuple(text.split()) for text in values]
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


class LookupState(NamedTuple):
    """The state of `Lookup`: condition (input), prefix, and which feature values are 1 because of the table.

    `condition`: an object; `prefix`: a tuple of words; `right`: a tuple of flat indices into the array of values,
    (words of the columns, features), of those that are 1 now; `rows`: a tuple of the rows of the table, dicts {column:
    value}, that the query returned.
    """

    condition: object
    prefix: tuple[str, ...]
    right: tuple[int, ...]
    rows: Rows  # that are right; of a `Matching`, until another name is said
    asked: frozenset[str] = frozenset()  # columns that are asked for
    unnamed: frozenset[str] = frozenset()  # those without a feature of their own


class _Cut(NamedTuple):
    """Cached words of some rows of a table: their values by column, each as a tuple of words, and their first words.

    `rows`: a tuple of dicts {column: value}; `values`: for each column a list of tuples of words; `first`: a tuple of
    the flat indices of the first words into the array of feature values, (words of the columns, features).
    """

    rows: Rows
    values: tuple[list[tuple[str, ...]], ...]
    first: tuple[int, ...]


def _no_cuts() -> ByteCache[int, _Cut]:
    """Return an empty cache `id(rows)` -> `_Cut`; an entry keeps its rows alive, so that the key stays unique."""
    return ByteCache(_KNOWN_BYTES, _bytes_of_cut)


def _bytes_of_cut(_: int, cut: _Cut) -> int:
    return sum(8 + _BYTES_A_VALUE * len(own) for own in (cut.rows, *cut.values))


class Lookup(ContextualFeature[LookupState]):
    """Contextual features that look up a table: they tell the network which words of a column are correct now.

    The query returns the rows that hold now; they support the first word of each of their values, and the next word of
    a value whose beginning the prefix ends with. The feature `name:column` is 0 on words of the column's values that
    are not supported so, and 1 on all other words; `name:begun` is 1 on words that continue a value of these rows which
    the prefix has begun, else 0.

    kb          the table
    query       a function (table, condition, words of the sentence so far) -> the rows that hold now, mappings {column:
                value}, such as `Matching`
    columns     the columns to look up
    name        the first part of the features' names, before the colon
    domain      {column: words} to treat as words of the column too, such as those of a former table
    words       a function that splits a value into words
    asked       fields of the condition that name columns which are asked for: the features are then those of `SHARED`
    unnamed     fields that name columns which are asked for, but have no features of their own: for training, in some
                of whose texts they take the place of `asked`, and for columns that training never asked for

    The condition is the input that the text is generated from. A closed vocabulary must list all words of the columns.
    In one with unknown or open words, a word that is not listed is no word of any column. States belong to the table
    that they were made for.

        Lookup(table, Matching(subject="name", on=["food", "area"]), "phone", "address", name="venues")
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        query: Query,
        *columns: str,
        name: str = "lookup",
        domain: Mapping[str, Collection[str]] | None = None,
        words: Tokenize = str.split,
        asked: Sequence[str] = (),
        unnamed: Sequence[str] = (),
    ) -> None:
        given = dict(domain or {})
        _check(kb, query, columns, name, given)
        self._asked, self._unnamed = tuple(asked), tuple(unnamed)
        self.table, self._query, self._name, self._words, self._given = kb, query, name, words, given
        self._columns = tuple(TableColumn.of(kb, column, words, given.get(column, ())) for column in columns)
        self._bound: BoundColumns | None = None
        self._cuts = _no_cuts()

    @property
    def names(self) -> tuple[str, ...]:
        own = (*(column.name for column in self._columns), BEGUN, *(SHARED if self._asked else ()))
        return tuple(f"{self.name}:{one}" for one in own)

    @property
    def words_of_table(self) -> tuple[str, ...]:
        """All words of the values in the columns that are looked up, sorted.

        A closed vocabulary, without a symbol for unknown words, must list them.
        """
        return tuple(sorted(frozenset().union(*self.words_by_column.values())))

    @property
    def words_by_column(self) -> dict[str, tuple[str, ...]]:
        """{column: the sorted words of its values} for the columns that are looked up."""
        return {column.name: tuple(sorted(column.words)) for column in self._columns}

    def with_table(self, kb: KnowledgeBase) -> Lookup:
        """Return an unbound copy that looks up another table; words of this one still count as words of their columns.

        So the features are 0 on words of the old table, unless the new one has rows that support them.

        Example:

            lookup.with_table(KnowledgeBase.from_file("venues.csv"))
        """
        domain = {column.name: sorted(column.domain) for column in self._columns}
        own: dict[str, Any] = {"words": self._words, "asked": self._asked, "unnamed": self._unnamed}
        return Lookup(kb, self._query, *domain, name=self.name, domain=domain, **own)

    def bind(self, vocabulary: Vocabulary) -> Self:
        lost = [word for word in self.words_of_table if word not in vocabulary]
        if lost and not vocabulary.is_open and vocabulary.unknown is None:
            shown = short(", ".join(map(repr, lost)))
            raise FeatureError(
                f"the vocabulary must list the words of the table {self.table.name!r}, but {len(lost)} are not listed "
                f"({shown}); list them: vocabulary.others, or `llrnn words add` for a trained model"
            )
        bound = super().bind(vocabulary)
        bound._bound, bound._cuts = BoundColumns.to(vocabulary, self._columns, bool(self._asked)), _no_cuts()
        return bound

    def initial(self, condition: object = None) -> LookupState:
        return self._state(condition, ())

    def advance(self, state: LookupState, symbol: int) -> LookupState:
        if symbol == self.vocabulary.eos:
            return self.initial(state.condition) if state.prefix else state
        return self._state(state.condition, (*state.prefix, self.vocabulary.symbols[symbol]), state)

    def _named_in(self, condition: object, fields: Sequence[str]) -> frozenset[str]:
        return frozenset(text for name, text in fields_of(condition) if text is not None and name in fields)

    def values(self, states: Sequence[LookupState]) -> ContextValues:
        """Return the `ContextValues` of N states: values of k features, listed for all D words of the columns at each.

        The list has N · D entries; all other words have the values of words in general, 1 for columns and 0 for
        `begun`.
        """
        ids, rest, usual, _ = self._compiled
        N, (D, k) = len(states), usual.shape
        value = usual.repeat(N, 1)
        right = [n * D * k + place for n, state in enumerate(states) for place in state.right]
        value.view(-1).index_fill_(0, torch.tensor(right, dtype=torch.long), 1.0)
        return ContextValues(rest.repeat(N, 1), torch.arange(N).repeat_interleave(D), ids.repeat(N), value, ids)

    @property
    def _compiled(self) -> BoundColumns:
        if self._bound is None:
            raise self._unbound()
        return self._bound

    def _state(self, condition: object, prefix: tuple[str, ...], before: LookupState | None = None) -> LookupState:
        """Return the state after a prefix of words, with the rows that the query returns for it.

        `before`: the state one word earlier, None at the start. A `Matching` is asked again only where the
        prefix ends a name; any other function at every word. Raises a FeatureError if the query raises, or returns
        anything else than an iterable of mappings (it may be empty). `condition`: the input of the text.
        """
        query, kb = self._query, self.table
        if not isinstance(query, Matching):
            rows = self._rows(partial(query, kb, condition, prefix), condition)
        elif before is None:
            rows = self._rows(partial(query.before, kb, condition), condition)
        else:
            rows = query.index(kb).named_at(prefix, len(prefix)) or before.rows
        # cached by identity, since many answers are the same rows: who is kept keeps its number
        _, values, first = self._cuts.get(id(rows), lambda: self._cut(rows, condition))
        # most words are no part of any value, so that nothing goes on
        following = [
            set() if column.words.isdisjoint(prefix[-1:]) else going_on(own, prefix)
            for column, own in zip(self._columns, values, strict=True)
        ]
        if self._asked:
            unnamed = self._named_in(condition, self._unnamed) if before is None else before.unnamed
            asked = self._named_in(condition, self._asked) | unnamed if before is None else before.asked
            right = self._shared(prefix, values, following, asked, unnamed)
            return LookupState(condition, prefix, tuple(sorted({*right})), rows, asked, unnamed)
        if not any(following):
            return LookupState(condition, prefix, first, rows)
        listed = zip((*following, set().union(*following)), self._compiled.places, strict=True)
        where = (places[word] for words, places in listed for word in words & places.keys())
        return LookupState(condition, prefix, tuple(sorted({*first, *where})), rows)

    def _shared(
        self,
        prefix: tuple[str, ...],
        values: Sequence[list[tuple[str, ...]]],
        following: Sequence[set[str]],
        asked: Collection[str],
        unnamed: Collection[str],
    ) -> Iterator[int]:
        """Yield the flat indices of the features that are 1 after a prefix, where columns are asked for.

        `values`, `following`: for each column its right values in words, and the words that go on with one.
        """
        text, (*columns, begun, any_column, due, untold) = f" {' '.join(prefix)} ", self._compiled.places
        for column, own, on, places in zip(self._columns, values, following, columns, strict=True):
            first = {words[0] for words in own}
            of_asked = column.name in asked and len(own) == 1 and f" {' '.join(own[0])} " not in text
            yield from (any_column[word] for word in first | on if word in any_column)
            yield from (begun[word] for word in on if word in begun)
            yield from (places[word] for word in first | on if word in places and column.name not in unnamed)
            yield from (due[word] for word in on or first if word in due and of_asked)
            yield from untold.values() if of_asked else ()

    def _cut(self, rows: Rows, condition: object) -> _Cut:
        values = tuple(self._values(column, rows, condition) for column in self._columns)
        listed = zip(values, self._compiled.places, strict=False)  # none is begun
        first = {places[own[0]] for column, places in listed for own in column if own[0] in places}
        return _Cut(rows, values, tuple(sorted(first)))

    def _values(self, column: TableColumn, rows: Rows, condition: object) -> list[tuple[str, ...]]:
        """Return the distinct values, each as a tuple of words, that a column has in some rows of the table.

        They are in the order in which they first occur; values without words are left out. `condition`: the input of
        the text, for errors.
        """
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
        """Return the words of a value `text` that a query returned, but the column of the table does not have.

        A FeatureError if one of its words is not among those of the column; `condition`: the input of the text, for the
        message.
        """
        words = tuple(self._words(text))
        if not column.words.issuperset(words):
            said = f"its query returned {quoted(text)} in column {column.name!r}"
            raise self._refused(f"{said}, but only words of that column of the table can be right", condition)
        return words

    def _refused(self, reason: str, condition: object) -> FeatureError:
        said = f"lookup {self.name!r}: {reason}; the condition was {quoted(condition)}"
        return FeatureError(" ".join(said.split()))

    def revised(self, revision: Revision) -> Self:
        return self.bind(revision.vocabulary)

    def saved(self) -> Saved:
        """Return what a model folder stores: settings and the whole table.

        With a query other than `Matching`, or another tokenizer than `str.split`, the result has only a description,
        and the feature must be given again at loading.
        """
        if not isinstance(self._query, Matching) or self._words is not str.split or self._query.words is not str.split:
            return super().saved()
        kb, columns = self.table, [column.name for column in self._columns]
        table = {"name": kb.name, "columns": list(kb.columns), "rows": list(kb.rows)}
        domain = {column: sorted(words) for column, words in self._given.items()}
        fields = {"name": self.name, "table": table, "columns": columns, "domain": domain}
        fields |= {"asked": list(self._asked), "unnamed": list(self._unnamed)}
        return Saved("lookup", {**fields, "query": self._query.settings()})

    @classmethod
    def restored(cls, fields: Mapping[str, Any]) -> Lookup:
        """Make the feature, with its table, from the `fields` of what its method `saved` returned."""
        kb, query = KnowledgeBase(**fields["table"]), Matching(**fields["query"])
        own = {key: fields.get(key, ()) for key in ("asked", "unnamed")}
        return cls(kb, query, *fields["columns"], name=fields["name"], domain=fields["domain"], **own)

    def __repr__(self) -> str:
        query = getattr(self._query, "__name__", None) or repr(self._query)
        return f"Lookup({self.table.name!r}, {query}, {', '.join(c.name for c in self._columns)}, name={self.name!r})"


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
