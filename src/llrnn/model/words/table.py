"""The table of words to add: form TAB attributes TAB count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from llrnn.ground.errors import LexiconError
from llrnn.text.corpus.source import StrPath, read_lines

_SHOWN = 5  # words that a message names
_COUNT = re.compile(r"0*[1-9][0-9]{0,14}")


@dataclass(frozen=True)
class Entry:
    """A word to add: names of features that fire on it, how often it is seen, and where that is written."""

    form: str
    attributes: frozenset[str] = field(default_factory=frozenset)
    count: int | None = None
    place: str = ""  # file:line

    def __str__(self) -> str:
        return f"{self.form!r} ({self.place})" if self.place else repr(self.form)


def some(items: Sequence[object]) -> str:
    """The first few, as a message names them."""
    return ", ".join(map(str, items[:_SHOWN])) + (", ..." if len(items) > _SHOWN else "")


def read_words(path: StrPath, *, lowercase: bool = False) -> list[Entry]:
    """Lines `form TAB attributes TAB count`, as `Lexicon.from_tsv` reads them; what follows the form may be missing.

    Attributes are names of features, separated by spaces, commas or `|`, or `_` for none. A form that comes again, also
    one that `lowercase` makes the same, has the attributes of all its lines and the sum of their counts.
    """
    found: dict[str, Entry] = {}
    for number, line in read_lines(path, error=LexiconError):
        if line.strip() and not (line.startswith("#") and (line.startswith("# ") or "\t" not in line)):
            entry = _entry(path, number, line)
            entry = replace(entry, form=entry.form.lower()) if lowercase else entry
            earlier = found.get(entry.form)
            found[entry.form] = entry if earlier is None else _both(earlier, entry)
    if not found:
        raise LexiconError("no word in the file: it holds blank lines or comments only", path=path)
    return list(found.values())


def _entry(path: StrPath, number: int, line: str) -> Entry:
    form, *others = line.split("\t")
    if len(others) > 2 or (not others and len(form.split()) > 1):
        reason = f"form, TAB, attributes, TAB and a count are required, found {len(others) + 1} columns; correct it"
        raise LexiconError(reason, path=path, line=number)
    names = re.split(r"[\s,|]+", others[0].strip()) if others else ["_"]
    if names == [""]:
        reason = "attributes are required after the TAB, found none; write _ for a form without attributes"
        raise LexiconError(reason, path=path, line=number, column=len(form) + 2)
    count = others[1].strip() if len(others) == 2 else None
    if count is not None and not _COUNT.fullmatch(count):
        reason = f"the count must be a whole number above 0, found {count!r}; correct it, or leave it out"
        raise LexiconError(reason, path=path, line=number, column=len(form) + len(others[0]) + 3)
    attributes = frozenset(names) - {"", "_"}
    return Entry(form, attributes, None if count is None else int(count), f"{path}:{number}")


def _both(first: Entry, second: Entry) -> Entry:
    counts = [entry.count for entry in (first, second) if entry.count is not None]
    return replace(first, attributes=first.attributes | second.attributes, count=sum(counts) if counts else None)
