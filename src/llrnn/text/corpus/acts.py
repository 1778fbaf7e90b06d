"""Dialog acts: `inform(name='trattoria contadina';pricerange=moderate)`, as an act, slots and values.

    act  = name ( [pair {; pair}] )            pair = slot [= value]            value = 'text' | "text" | text

A quoted value may hold anything but its quote; a plain one goes on to the next `;` or `)`. A slot may stand alone
(`?request(food)`), but not with a `=` and nothing behind it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from llrnn.ground.errors import CorpusError
from llrnn.text.corpus.source import StrPath

Conditions = Literal["plain", "act"]  # what conditions are read as: themselves, or acts

_ACT = re.compile(r"\s*(\??[A-Za-z_][\w-]*)\s*\(")
_SLOT = re.compile(r"\s*([A-Za-z_][\w-]*)\s*")
_PLAIN = re.compile(r"[^;)'\"]*")
_SPACE = re.compile(r"\s*")
_CLOSING = {quote: re.compile(rf"{quote}\s*(?=[;)])") for quote in ("'", '"')}
MOST_SLOTS = 1_000  # of an act, or fields of a record
DEEPEST = 50  # lists and records within each other
_SHOWN = 200  # characters of an act in a message


@dataclass(frozen=True)
class Slot:
    """A slot, with its value if it has one."""

    name: str
    value: str | None = None


@dataclass(frozen=True)
class Act:
    """What is to be said: the kind of act, and its slots in their order; a slot may come several times."""

    name: str
    slots: tuple[Slot, ...] = ()

    def values(self, slot: str) -> tuple[str, ...]:
        """The values of a slot."""
        return tuple(one.value for one in self.slots if one.name == slot and one.value is not None)

    def __str__(self) -> str:
        return f"{self.name}({';'.join(_written(slot) for slot in self.slots)})"


def lowercased(condition: object) -> object:
    """A condition with every text in it written small; the names of fields stay as they are."""
    check_depth(condition)
    return _lowercased(condition)


def _lowercased(condition: object) -> object:
    if isinstance(condition, str):
        return condition.lower()
    if isinstance(condition, Act):
        slots = (Slot(slot.name, None if slot.value is None else slot.value.lower()) for slot in condition.slots)
        return Act(condition.name, tuple(slots))
    if isinstance(condition, Mapping):
        return {name: _lowercased(value) for name, value in condition.items()}
    return [_lowercased(value) for value in condition] if isinstance(condition, list) else condition


def check_depth(condition: object) -> None:
    """Refuse a condition that nests too deeply for anyone who walks through it."""
    level = [condition]
    for _ in range(DEEPEST + 1):
        level = [
            one
            for within in level
            if isinstance(within, list | tuple | Mapping)
            for one in (within.values() if isinstance(within, Mapping) else within)
        ]
        if not level:
            return
    raise CorpusError(f"a condition may hold lists and records {DEEPEST} deep, found one that is deeper; flatten it")


def parse_act(text: str) -> Act:
    """Read one act; what does not parse is an error that names the column (also as `.column`) and the `.reason`."""
    begun = _ACT.match(text)
    if begun is None:
        raise _problem(text, 0, "a name and `(` are required at the beginning, such as inform(")
    slots: list[Slot] = []
    place = begun.end()
    if text.startswith(")", _end(_SPACE, text, place)):
        _check_end(text, _end(_SPACE, text, place) + 1)
        return Act(begun[1])
    while True:
        slot, place = _slot(text, place)
        slots.append(slot)
        if len(slots) > MOST_SLOTS:
            raise _problem(text, place, f"an act may have {MOST_SLOTS:,} slots, and this one has more; leave some out")
        if text[place : place + 1] == ")":
            break
        if text[place : place + 1] != ";":
            raise _problem(text, place, "`;` or `)` is required behind a slot")
        place += 1
    _check_end(text, place + 1)
    return Act(begun[1], tuple(slots))


def _end(expression: re.Pattern[str], text: str, place: int) -> int:
    """Where what matches at a place ends; the place itself if nothing does."""
    found = expression.match(text, place)
    return place if found is None else found.end()


def _check_end(text: str, place: int) -> None:
    if _end(_SPACE, text, place) < len(text):
        raise _problem(text, place, "nothing may follow the `)`")


def _slot(text: str, place: int) -> tuple[Slot, int]:
    """A slot that begins at a place, and where it ends."""
    named = _SLOT.match(text, place)
    if named is None:
        raise _problem(text, place, "the name of a slot is required")
    place = named.end()
    if text[place : place + 1] != "=":
        return Slot(named[1]), place
    value, end = _value(text, place + 1)
    if not value:
        raise _problem(text, place + 1, f"the slot {named[1]!r} has no value: give one, or leave the `=` out")
    return Slot(named[1], value), end


def _value(text: str, place: int) -> tuple[str, int]:
    begin = _end(_SPACE, text, place)
    quote = text[begin : begin + 1]
    if quote not in ("'", '"') or not quote:
        plain = _PLAIN.match(text, place)
        assert plain is not None
        return plain[0].strip(), plain.end()
    # a quote ends the value where the act can go on: `'chef's table'` has one inside
    closing = _CLOSING[quote].search(text, begin + 1)
    if closing is not None:
        return text[begin + 1 : closing.start()].strip(), closing.end()
    end = text.find(quote, begin + 1)
    if end < 0:
        raise _problem(text, begin, f"the quote {quote} is not closed")
    raise _problem(text, end + 1, "`;` or `)` is required behind a value")


def act_at(text: str, path: StrPath, line: int, column: int, *, inside: bool = True) -> Act:
    """Read an act that stands at a place in a file; `inside`: whether its columns are those of the line."""
    try:
        return parse_act(text)
    except CorpusError as fault:
        offset = (fault.column or 1) - 1
        where = "" if inside else f" at column {offset + 1} of the act"
        reason = f"a dialog act such as inform(food=thai) is required{where}: {fault.reason}; correct it"
        raise CorpusError(reason, path=path, line=line, column=column + (offset if inside else 0)) from fault


def check_conditions(conditions: str) -> None:
    """Refuse what is no way to read conditions."""
    if conditions not in ("plain", "act"):
        raise CorpusError(f"conditions must be 'plain' or 'act', found {conditions!r}; choose one")


def _written(slot: Slot) -> str:
    if slot.value is None:
        return slot.name
    quote = "'" if re.search(r"[\s;()'\"]", slot.value) else ""
    return f"{slot.name}={quote}{slot.value}{quote}"


def _problem(text: str, place: int, reason: str) -> CorpusError:
    found = repr(text[place : place + 20]) if place < len(text) else "the end"
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    problem = CorpusError(f"column {place + 1} of the dialog act {shown!r}: {reason}, found {found}")
    # an act need not come from a file; who read it from one puts these together with the place in it
    problem.column, problem.reason = place + 1, f"{reason}, found {found}"
    return problem
