"""Is what a system turn says of a venue what the database says: values of phone, address, postcode, pricerange, area.

A statement is found by its form, the same for every system, so that what is in no table counts too, as wrong:

    phone       a code with the digits behind it (01223 and one word, 0871 and two), or six digits without a code, which
                are right if the venue's number ends in them
    postcode    c.b with what follows of `<digits> , <digit> <x.y>`
    address     a run of words of known addresses (of all tables given), of digits, and of what stands before street,
                road or avenue, that names a street behind its first word or begins with a number. A comma may stand in
                it, where what is before the comma is no whole address. It is right if it is a part of the venue's
                address that leaves out no number and no street: `290 mill road` for `290 mill road city centre`
    pricerange  cheap or inexpensive, moderate or moderately, expensive; not behind more, most, less, least, too
    area        north, south, east, west, and centre, center or central; not in an address or a name, nor before a food
                (`north american`)

The venue that it is about is the one whose name ended last before it in this turn, else the next one named in this
turn, else the last one named by the user, else by the system, the last turn first. Where there is none, it is right if
a row that the user's wishes allow has it. A name counts where it is written as in the table.

Words of price and area are also used to ask and to search. They count only

    of a venue: named before in this turn, or behind in the same sentence, or in an earlier turn if the user has asked
    for this column or the sentence has said it, its, they, their or this before;
    in a sentence without no, not, n't, none, cannot; in a question, or behind `there are`, only behind a name.

What people said in the dialogues (split with seed 0) is right as often as this:

                phone        address      postcode    pricerange   area         all
    train       317 of 327   301 of 313   70 of 77    263 of 264   324 of 332   1275 of 1313   97.1%
    valid       103 of 104   111 of 113   35 of 38    82 of 82     99 of 100    430 of 437     98.4%
    test        104 of 108   110 of 114   30 of 32    90 of 91     96 of 98     430 of 443     97.1%

All that is wrong was looked through. Most of it the people got wrong: c.b 2 , 1 u.j in seven turns, or the number of
the venue before. The rest are turns with several venues of which another is meant, and `nandos`, which is two.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from llrnn.knowledge.contextual.lookup import Matching
from llrnn.text.conditions import fields_of
from llrnn.text.corpus import find_values
from llrnn.text.tables import KnowledgeBase, Row
from llrnn_lab.studies.kb_data import WANTED

COLUMNS = ("phone", "address", "postcode", "pricerange", "area")
LOOSE = {
    **{word: ("area", word) for word in ("north", "south", "east", "west", "centre")},
    **dict.fromkeys(("center", "central"), ("area", "centre")),
    **{word: ("pricerange", word) for word in ("cheap", "moderate", "expensive")},
    "moderately": ("pricerange", "moderate"),
    "inexpensive": ("pricerange", "cheap"),
}
_COMPARED = frozenset({"more", "most", "less", "least", "too"})
_FOODS = frozenset({"american", "african", "indian"})
_DENIED = frozenset({"no", "not", "n't", "none", "cannot"})
_MEANT = frozenset({"it", "its", "they", "their", "this"})

_CODE, _NUMBER = re.compile("0[0-9]{3,4}"), re.compile("[0-9]{6,}")
_POSTCODE = (re.compile("[0-9]+"), re.compile(","), re.compile("[0-9]+"), re.compile(r"[a-z]\.[a-z]"))
_ROADS = frozenset({"street", "road", "avenue"})
_STREETS = _ROADS | {"lane", "way", "yard", "parade", "hill", "crescent", "place", "park", "common", "corner"}
_INNER = frozenset({"the", "by", "off", "-", "'s"})  # words of addresses at which none begins or ends

Words = tuple[str, ...]
Rows = tuple[Row, ...]
Spans = Mapping[int, Words]  # where something begins, and its words


class Statement(NamedTuple):
    """A value of a column that is said of a venue, and whether the table says so."""

    column: str
    value: str
    right: bool


class Rate(NamedTuple):
    """How many values were said, and how many of them are right."""

    said: int
    right: int

    @property
    def share(self) -> float | None:
        """None where nothing was said."""
        return self.right / self.said if self.said else None


def rates(statements: Iterable[Statement]) -> dict[str, Rate]:
    """For each column, and for `all` of them."""
    given = list(statements)
    own = {column: [one.right for one in given if one.column == column] for column in COLUMNS}
    own["all"] = [one.right for one in given]
    return {column: Rate(len(right), sum(right)) for column, right in own.items()}


def stated(words: Sequence[str], condition: object, table: KnowledgeBase, *others: KnowledgeBase) -> list[Statement]:
    """What a turn says, in its order, judged by `table`; `others` are tables whose addresses are known too."""
    turn = _Turn(tuple(words), condition, _known(table, others))
    return [found for place in range(len(words)) for found in turn.at(place)]


def required(words: Sequence[str], condition: object, *tables: KnowledgeBase) -> set[str]:
    """The columns that somebody asks for of a known venue and that people state a value of, whether right or wrong."""
    if _known(tables[0], tables[1:]).spoken_of_before(condition) is None:
        return set()
    asked = {text for name, text in fields_of(condition) if name == "asked"}
    return {one.column for one in stated(words, condition, *tables)} & asked


@lru_cache(16)
def _known(table: KnowledgeBase, others: tuple[KnowledgeBase, ...]) -> _Known:
    return _Known(table, others)


class _Known:
    """The names of a table, and what addresses are made of."""

    def __init__(self, table: KnowledgeBase, others: Sequence[KnowledgeBase]) -> None:
        table.require("name", *COLUMNS, *WANTED)
        self.table = table
        self.names = {tuple(name.split()): table.where(name=name) for name in table.values("name")}
        self.addresses = {tuple(text.split()) for kb in (table, *others) for text in kb.values("address")}
        self.words = {word for address in self.addresses for word in address}

    def spoken_of_before(self, condition: object) -> Rows | None:
        """The venue named last by the user, else by the system."""
        fields = list(fields_of(condition))
        texts = [text for wanted in ("said", "user") for name, text in fields if name == wanted and text]
        found = (find_values(text.split(), self.names) for text in reversed(texts))
        return next((self.names[names[max(names)]] for names in found if names), None)

    def allowed(self, condition: object) -> Rows:
        """The rows that the user's wishes allow."""
        return tuple(Matching(on=WANTED)(self.table, condition, ()))

    def address(self, words: Words) -> Words:
        """The longest run at the beginning of some words that may be of an address, or nothing."""
        size = 0
        while size < len(words) and self._goes_on(words, size):
            size += 1
        while size and words[size - 1] in _INNER | {","}:
            size -= 1
        run = words[:size]
        named = any(word in _STREETS for word in run[1:])
        numbered = size > 1 and run[0].isdigit() and run[1].isalpha() and run[1] != "city"  # `2 city centre venues`
        return run if named or numbered else ()

    def _goes_on(self, words: Words, place: int) -> bool:
        word, after = words[place], words[place + 1] if place + 1 < len(words) else ""
        if place == 0 and word in _INNER:
            return False
        if word == "," and place:
            return words[:place] not in self.addresses and after.isalpha() and after in self.words - _INNER
        return word in self.words or word.isdigit() or (word.isalpha() and after in _ROADS)


class _Turn:
    """A system turn with the names in it."""

    def __init__(self, words: Words, condition: object, known: _Known) -> None:
        self.words, self.condition, self.known = words, condition, known
        self.names: Spans = find_values(words, known.names)
        self.before = known.spoken_of_before(condition)
        self.taken = {place for begin, name in self.names.items() for place in range(begin, begin + len(name))}

    def at(self, place: int) -> Iterator[Statement]:
        """What is said by words that begin at a place, unless they are part of something else."""
        if place in self.taken:
            return
        if self.words[place] in LOOSE and not self.known.address(self.free(place)):
            column, value = LOOSE[self.words[place]]
            if self.is_meant(place, column):
                yield self.judged(place, column, value)
            return
        column, span = self.fixed(self.free(place))
        self.taken.update(range(place, place + len(span)))
        if span:
            yield self.judged(place, column, " ".join(word for word in span if column != "address" or word != ","))

    def free(self, place: int) -> Words:
        """What follows, up to the next name."""
        return self.words[place : min((name for name in self.names if name >= place), default=len(self.words))]

    def fixed(self, words: Words) -> tuple[str, Words]:
        """A telephone number, postcode or address at the beginning of some words: its column, and its words."""
        if _CODE.fullmatch(words[0]):
            most = 2 if words[0].startswith("01") else 3
            return "phone", tuple(takewhile(str.isdigit, words[:most]))
        if _NUMBER.fullmatch(words[0]):
            return "phone", words[:1]
        if words[0] == "c.b":
            behind = zip(_POSTCODE, words[1:], strict=False)
            return "postcode", ("c.b", *(word for _, word in takewhile(lambda one: one[0].fullmatch(one[1]), behind)))
        end = next((n for n, word in enumerate(words) if word == "c.b" or _CODE.fullmatch(word)), len(words))
        return "address", self.known.address(words[:end])

    def is_meant(self, place: int, column: str) -> bool:
        """Whether a word of price or area says something of a venue."""
        behind = self.words[place + 1] if place + 1 < len(self.words) else ""
        if (place and self.words[place - 1] in _COMPARED) or (column == "area" and behind in _FOODS):
            return False
        begin, end = self.sentence(place)
        sentence, said = self.words[begin:end], self.words[begin:place]
        named = any(begin <= name < place for name in self.names)
        searched = sentence[-1] == "?" or ("there", "are") in pairwise(said)
        if not _DENIED.isdisjoint(sentence) or (searched and not named):
            return False
        if self.names:
            return min(self.names) < end
        asked = ("asked", column) in fields_of(self.condition)
        return self.before is not None and (asked or not _MEANT.isdisjoint(said))

    def sentence(self, place: int) -> tuple[int, int]:
        """Where the sentence around a place begins and ends."""
        ends = [n + 1 for n, word in enumerate(self.words) if word in (".", "?", "!")]
        begin = max((end for end in ends if end <= place), default=0)
        return begin, min((end for end in ends if end > place), default=len(self.words))

    def judged(self, place: int, column: str, value: str) -> Statement:
        same = {"address": _is_part, "phone": _is_number}.get(column, str.__eq__)
        return Statement(column, value, any(same(value, row.get(column, "")) for row in self.venue(place)))

    def venue(self, place: int) -> Rows:
        """The rows that a value at this place is about."""
        before, behind = ([name for name in self.names if (name < place) is side] for side in (True, False))
        if before or behind:
            return self.known.names[self.names[max(before) if before else min(behind)]]
        return self.known.allowed(self.condition) if self.before is None else self.before


def _is_part(said: str, address: str) -> bool:
    """Whether these are words of the address in a row, all its numbers and streets among them."""
    left = Counter(address.split()) - Counter(said.split())
    whole = not any(word[0].isdigit() or word in _STREETS for word in left)
    return whole and f" {said} " in f" {address} "


def _is_number(said: str, number: str) -> bool:
    return said == number or (_NUMBER.fullmatch(said) is not None and number.endswith(f" {said}"))
