"""Knowledge bases: a table of rows, from a CSV or JSON file. All values are text; what is missing is left out.

    rows = ({"name": "pizza hut", "area": "centre"}, {"name": "da vinci"}, ...)       columns = ("name", "area")
    values(column) -> (text, ...)               the distinct values of a column
    where(area="centre") -> (row, ...)          the rows that have these values, in whatever case

A table never changes: what is worked out of it is cached with it, and another table is another object.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import dropwhile
from math import isfinite
from os import fspath
from pathlib import Path
from typing import Any

from llrnn.ground.errors import TableError, quoted, short
from llrnn.ground.files import StrPath, parse_json
from llrnn.text.readers import read_lines

__all__ = ["KnowledgeBase", "Row", "plain", "short"]

Row = dict[str, str]
Refuse = Callable[[str], TableError]  # an error at a place
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON = (".json", ".jsonl")
_KNOWN = ", ".join((*_DELIMITERS, *_JSON))
_SHOWN = 20  # columns that a message lists
MOST_COLUMNS = 2_000


@dataclass(frozen=True, repr=False)
class KnowledgeBase:
    """An immutable table of rows {column: text}, which contextual features can look up.

    name        the name of the table
    rows        the rows; a missing value has no key. Values are stripped and stored as text
    columns     the column names; by default those of the rows in order of appearance

    `derived` is a dict in which users of the table may cache what they compute from it. Raises a TableError if columns
    are missing, repeated or unnamed, or a value is no text or number.

        hotels = KnowledgeBase.from_file("hotels.csv")
        hotels.where(area="north")
    """

    name: str
    rows: tuple[Row, ...] = field(hash=False)
    columns: tuple[str, ...] = ()
    derived: dict[object, Any] = field(default_factory=dict, init=False, compare=False)  # by those who worked it out

    def __post_init__(self) -> None:
        given = list(self.rows)
        found = tuple(dict.fromkeys(column for row in given for column in row))
        columns = tuple(self.columns) or found
        _check_columns(columns)
        for column in found:
            if column not in columns:
                have = f"but there are only {_listed(columns)}"
                raise TableError(f"a row has the column {quoted(column)}, {have}; name it too")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", tuple(_row(columns, map(row.get, columns)) for row in given))

    @classmethod
    def from_csv(cls, path: StrPath, *, delimiter: str = ",", lowercase: bool = False) -> KnowledgeBase:
        """Return the table in a CSV file with a header line; an empty value is missing. Faults are a TableError.

        Its name is that of the file, without folder and endings.

        path        the file, plain or gzip
        delimiter   between values
        lowercase   whether values are lowercased

            KnowledgeBase.from_csv("hotels.csv")
        """
        records = _csv_records(path, delimiter)
        line, header = next(records, (1, []))
        columns, rows = tuple(column.strip() for column in header), []
        _check_columns(columns, partial(TableError, path=path, line=line))
        for line, record in records:
            refuse = partial(TableError, path=path, line=line)
            if len(record) != len(columns):
                wanted = f"{len(columns)} values are required, as in the header, but here are {len(record)}"
                raise refuse(f"{wanted}; leave none out, and quote what holds a {delimiter!r}")
            rows.append(_row(columns, record, refuse, lowercase))
        return cls(_stem(path), tuple(rows), columns)

    @classmethod
    def from_json(cls, path: StrPath, *, lowercase: bool = False) -> KnowledgeBase:
        """Return the table in a JSON list of flat objects, or in JSON lines of one object each.

        path        the file, plain or gzip; before the first object or list, lines that begin with `#` are comments
        lowercase   whether values are lowercased

        The table has the name of the file, without folder and endings; a value null or "" is missing. A TableError
        names a faulty line or entry.

            KnowledgeBase.from_json("hotels.jsonl")
        """
        objects: list[tuple[Refuse, dict[str, object]]] = []
        for refuse, found in _json_entries(path):
            if not isinstance(found, _Object):
                raise refuse(f"a flat object with named values is required, found {_shown(found)}")
            if found:
                _check_columns([name for name, _ in found], refuse)
            objects.append((refuse, dict(found)))
        columns = tuple(dict.fromkeys(column for _, record in objects for column in record))
        _check_columns(columns, partial(TableError, path=path))
        rows = [_row(columns, map(record.get, columns), refuse, lowercase) for refuse, record in objects]
        return cls(_stem(path), tuple(rows), columns)

    @classmethod
    def from_file(cls, path: StrPath, *, lowercase: bool = False) -> KnowledgeBase:
        """Return the table in a file, read by its extension: `.csv`, `.tsv`, `.json` or `.jsonl`, also with `.gz`.

        `lowercase`: whether values are lowercased. A TableError for any other extension, and for a faulty file.

        For example:

            KnowledgeBase.from_file("hotels.csv.gz", lowercase=True)
        """
        kind = Path(fspath(path).lower().removesuffix(".gz")).suffix
        if kind in _DELIMITERS:
            return cls.from_csv(path, delimiter=_DELIMITERS[kind], lowercase=lowercase)
        if kind in _JSON:
            return cls.from_json(path, lowercase=lowercase)
        raise TableError(
            f"a table is required ({_KNOWN}; also with .gz); rename or convert the file "
            "(a database: sqlite3 -json FILE 'SELECT * FROM t' > t.json)",
            path=path,
        )

    def values(self, column: str) -> tuple[str, ...]:
        """Return the distinct values of a column in order of appearance; a TableError if there is no such column.

        Missing values are left out; values that differ in case are distinct.
        """
        self.require(column)
        return tuple(dict.fromkeys(row[column] for row in self.rows if column in row))

    def where(self, match: Mapping[str, object] | None = None, /, **values: object) -> tuple[Row, ...]:
        """Return the rows that have all these values, in order; case and outer white space are ignored.

        Columns and values are given as a mapping, by keyword, or both; a value is compared as text. All rows if none is
        given. A TableError for a column that the table does not have.

            hotels.where({"price range": "cheap"}, area="north")
        """
        wanted = {column: plain(str(value)) for column, value in {**(match or {}), **values}.items()}
        self.require(*wanted)
        return tuple(row for row, own in zip(self.rows, self._plain, strict=True) if wanted.items() <= own.items())

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for copies and pickles, without the results cached in `derived`."""
        return {**self.__dict__, "derived": {}}

    def require(self, *columns: str) -> None:
        """Raise a TableError, which names the columns that there are, if the table lacks one of these."""
        for column in columns:
            if column not in self.columns:
                have = _listed(self.columns)
                raise TableError(f"the table {self.name!r} has no column {quoted(column)}; it has {have}")

    @cached_property
    def _plain(self) -> list[Row]:
        return [{column: plain(value) for column, value in row.items()} for row in self.rows]

    def __repr__(self) -> str:
        return f"KnowledgeBase({self.name!r}, {len(self.rows)} rows of {_listed(self.columns)})"


def plain(value: str) -> str:
    """Return a value in the form in which values are compared: stripped and lowercased.

    For example:

        plain(" Golden Wok ")  # "golden wok"
    """
    return value.strip().lower()


def _row(columns: Sequence[str], values: Iterable[object], refuse: Refuse = TableError, lowercase: bool = False) -> Row:
    """Return {column: text} of the values that are not missing, stripped.

    columns, values     in the same order; None and blank texts are missing
    refuse      a function message -> TableError, raised for a value that is no text or finite number
    lowercase   whether values are lowercased; booleans always are
    """
    row = {}
    for column, value in zip(columns, values, strict=True):
        text = "" if value is None else str(value).strip()
        flat = isinstance(value, str | int | None) or (isinstance(value, float) and isfinite(value))
        if not flat or re.search("[\ud800-\udfff]", text):
            raise refuse(f"a text or a number is required in column {quoted(column)}, found {_shown(value)}; mend it")
        if text:
            row[column] = text.lower() if lowercase or isinstance(value, bool) else text
    return row


def _check_columns(columns: Sequence[str], refuse: Refuse = TableError) -> None:
    if not columns:
        raise refuse("named columns are required, but there are none; give a header, or objects with names")
    if len(columns) > MOST_COLUMNS:
        raise refuse(f"a table may have {MOST_COLUMNS:,} columns, found {len(columns):,}; leave some out")
    for column, times in Counter(columns).items():
        if not isinstance(column, str) or not column:
            raise refuse(f"every column needs a name, found {quoted(column)}; name it")
        if times > 1:
            raise refuse(f"columns must be distinct, but {quoted(column)} comes {times} times; rename them")


def _csv_records(path: StrPath, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number from 1, values) for each record of a CSV file that is not blank.

    The line is that on which the record begins; `delimiter`: between values. A TableError for a faulty file.
    """
    lines = (line + "\n" for _, line in read_lines(path, error=TableError))
    reader, begin = csv.reader(lines, delimiter=delimiter, strict=True), 1
    try:
        for record in reader:
            if len(record) > 1 or any(map(str.strip, record)):
                yield begin, record
            begin = reader.line_num + 1
    except csv.Error as cause:
        raise TableError(f"values between {delimiter!r} are required: {cause}", path=path, line=begin) from cause


class _Object(list[tuple[str, object]]):
    """A JSON object as the list of its (name, value) pairs, so that a repeated name is noticed."""


def _json_entries(path: StrPath) -> Iterator[tuple[Refuse, object]]:
    """Yield (refuse, value) for each line of a JSON lines file, or each element of one JSON list.

    `refuse(message)` makes, without raising it, a TableError that names the place of the value. Which of the two it is
    depends on whether the first line, after comments, begins with `{`. Values are as `_json` returns them.
    """
    lines = [(line, text) for line, text in read_lines(path, error=TableError) if text.strip()]
    lines = list(dropwhile(lambda line: line[1].startswith("#"), lines))
    if not lines:
        raise TableError("JSON is required, but the file holds comments only; was it written to the end?", path=path)
    if lines[0][1].lstrip().startswith("{"):
        for line, text in lines:
            yield partial(TableError, path=path, line=line), _json(text, path, [line])
    else:
        whole = _json("\n".join(text for _, text in lines), path, [line for line, _ in lines])
        for number, found in enumerate(whole if isinstance(whole, list) else [whole], 1):
            yield lambda reason, entry=number: TableError(f"entry {entry}: {reason}", path=path), found  # type: ignore[misc]


def _json(text: str, path: StrPath, lines: Sequence[int]) -> object:
    """Return parsed JSON: numbers as the strings written, an object as a list of its (name, value) pairs in order.

    Such a list is an `_Object`; lists, strings, booleans and null are as in `json.loads`. A TableError names the place
    of faulty JSON.

    `lines`: for each line of the text, its number in the file.
    """
    try:
        return parse_json(text, parse_int=str, parse_float=str, object_pairs_hook=_Object)
    except json.JSONDecodeError as cause:
        line = lines[cause.lineno - 1]
        raise TableError(f"JSON is required: {cause.msg}", path=path, line=line, column=cause.colno) from cause


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(short, names[:_SHOWN])) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _shown(value: object) -> str:
    try:
        return quoted(value)
    except RecursionError:
        return "lists or objects within each other, too deep to show"


def _stem(path: StrPath) -> str:
    return Path(fspath(path).removesuffix(".gz")).stem
