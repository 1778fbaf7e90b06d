"""What a condition says: a dialog act, a record with fields, a text, a category.

    values_of(condition) -> (Value(slot, words), ...)               what could be said of it, word by word
    ConditionTokenizer.tokens(condition) -> [(feature, ...), ...]   what an encoder reads: symbols with their features

A condition is plain data (what JSON can say) or an `Act`, written `inform(name='trattoria contadina';food=italian)`:

    act  = name ( [pair {; pair}] )            pair = slot [= value]            value = 'text' | "text" | text

A quoted value may hold anything but its quote; a plain one goes on to the next `;` or `)`. A slot may stand alone
(`?request(food)`), but not with a `=` and nothing behind it. Knowledge that looks at conditions goes through this file,
so that an act and a record with the same fields are the same to it.

`NumericFields`: a vector or a record of numbers as a condition (the paper's equation 17).

    v_i = (C_i − mean_i) / deviation_i                     0 where C has no such number, and then
    missing_i = 1                                          told only of numbers that some training condition lacks
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeVar

from llrnn.ground.errors import ConfigError, CorpusError, quoted

Conditions = Literal["plain", "act"]  # what conditions are read as: themselves, or acts

_ACT = re.compile(r"\s*(\??[A-Za-z_][\w-]*)\s*\(")
_SLOT = re.compile(r"\s*([A-Za-z_][\w-]*)\s*")
_PLAIN = re.compile(r"[^;)'\"]*")
_EMPTY = re.compile(r"\s*\)")
_CLOSING = {quote: re.compile(rf"{quote}\s*(?=[;)])") for quote in ("'", '"')}
BEAM = 5  # hypotheses of a search for a text from a condition, where nobody says how many
MOST_SLOTS = 1_000  # of an act, or fields of a record
DEEPEST = 50  # lists and records within each other
MOST_NUMBER = 1e30  # of a numeric condition: squares of its distance to the mean are added up
_SHOWN = 200  # characters of an act in a message
W = TypeVar("W")  # a word, or its number
ACT = "()"  # the slot of an act's kind
ASKED = "?"  # the value of a slot without one
NOT_SAID = frozenset({"none", "dontcare", "dont_care", "yes", "no", "true", "false", "?"})  # values nobody copies

Fact = tuple[str, str]  # slot and value
Token = tuple[str, ...]  # the names of the features that fire on one symbol of a condition


@dataclass(frozen=True)
class Slot:
    """A slot of a dialogue act: `name`, and `value` as text, or None (the default) without one, as in `?request(food)`.

    `str(slot)` is `food=thai`, with the value in single quotes where it has blanks or signs; `food` without a value.
    """

    name: str
    value: str | None = None

    def __str__(self) -> str:
        quote = "'" if re.search(r"[\s;()'\"]", self.value or "") else ""
        return self.name if self.value is None else f"{self.name}={quote}{self.value}{quote}"


@dataclass(frozen=True)
class Act:
    """A dialogue act: `name`, its kind, such as `inform`, and `slots`, a tuple of `Slot`, in order.

    A slot of one name may occur several times; `slots` is () by default. `str(act)` is the text form of the act,
    `inform(food=thai;area=north)`, which `parse_act` reads.

    For example:

        Act("inform", (Slot("food", "thai"), Slot("area", "north")))
    """

    name: str
    slots: tuple[Slot, ...] = ()

    def values(self, slot: str) -> tuple[str, ...]:
        """Return the values of the act's slots of this name, in order; () if there are none.

        Slots without a value give none.
        """
        return tuple(one.value for one in self.slots if one.name == slot and one.value is not None)

    def __str__(self) -> str:
        return f"{self.name}({';'.join(map(str, self.slots))})"


class Before:
    """The words that precede a sentence in a running text, last one last, as the input that it is generated from.

    `words` are `text[start:stop]`, where `text` is a sequence of words, so that all sentences of a text share one
    tuple; `stop` None: to the end. Two are equal if their words are; `str()` joins them by blanks.
    """

    def __init__(self, text: Sequence[str], start: int = 0, stop: int | None = None) -> None:
        self.text, self.start, self.stop = tuple(text), start, len(text) if stop is None else stop

    @classmethod
    def of(cls, text: str) -> Before:
        """Return the words of a text, split at blanks, as the input (condition) that a sentence is generated from.

        The words are those before the sentence: `Before.of("elle est partie .")`.
        """
        return cls(text.split())

    @property
    def words(self) -> tuple[str, ...]:
        return self.text[self.start : self.stop]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Before) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    def __str__(self) -> str:
        return " ".join(self.words)

    def __repr__(self) -> str:
        return f"Before({self.words!r})"


def map_texts(condition: object, change: Callable[[str], str]) -> object:
    """Return a copy of a condition with `change(text)` for every text in it; names of acts, slots and fields stay.

    A condition (the input that a text is generated from) is a text, a number, a list, a record, an `Act` or a `Before`.
    Of a `Before` each word is changed, of an `Act` the values of slots; None and numbers stay. A CorpusError as in
    `check_depth`.
    """
    check_depth(condition)
    if isinstance(condition, str):
        return change(condition)
    if isinstance(condition, Before):
        return Before(tuple(map(change, condition.words)))
    if isinstance(condition, Act):
        return Act(condition.name, tuple(Slot(one.name, one.value and change(one.value)) for one in condition.slots))
    if isinstance(condition, Mapping):
        return {name: map_texts(value, change) for name, value in condition.items()}
    return [map_texts(value, change) for value in condition] if isinstance(condition, list) else condition


def check_depth(condition: object) -> None:
    """Raise a CorpusError for a condition with lists and records over 50 deep, or with a value of an unknown kind.

    A condition is the input that a text is generated from: None, a finite number, a text, a list, a record, an `Act` or
    a `Before`.
    """
    level = [condition]
    for _ in range(DEEPEST + 1):
        for one in level:
            _check_sayable(one)
        level = [
            one
            for within in level
            if isinstance(within, list | tuple | Mapping)
            for one in (within.values() if isinstance(within, Mapping) else within)
        ]
        if not level:
            return
    raise CorpusError(f"a condition may hold lists and records {DEEPEST} deep, found one that is deeper; flatten it")


def _check_sayable(value: object) -> None:
    is_number = isinstance(value, Real) and math.isfinite(value)
    if not (value is None or is_number or isinstance(value, Iterable | Act | Before)):
        raise CorpusError(
            f"a condition is a text, a finite number, a list, a record or an Act, found {quoted(value)}; give one of "
            "these"
        )


def parse_act(text: str) -> Act:
    """Return the dialogue act that a text describes; a fault is a CorpusError with `.reason` and `.column` (from 1).

    text        such as `inform(name='chef's table';food=thai)`; slots are separated by `;`, have a value after `=` or
                none, and values may be in single or double quotes. At most 1,000 slots

        parse_act("inform(name='chef's table';food=thai)").values("food")       # ("thai",)
    """
    begun = _ACT.match(text)
    if begun is None:
        raise _problem(text, 0, "a name and `(` are required at the beginning, such as inform(")
    slots: list[Slot] = []
    empty = _EMPTY.match(text, begun.end())
    place, going_on = (begun.end(), True) if empty is None else (empty.end(), False)
    while going_on:
        slot, place = _slot(text, place)
        slots.append(slot)
        if len(slots) > MOST_SLOTS:
            raise _problem(text, place, f"an act may have {MOST_SLOTS:,} slots, and this one has more; leave some out")
        if text[place : place + 1] not in (";", ")"):
            raise _problem(text, place, "`;` or `)` is required behind a slot")
        going_on = text[place] == ";"
        place += 1
    if text[place:].strip():
        raise _problem(text, place, "nothing may follow the `)`")
    return Act(begun[1], tuple(slots))


def act_of(data: object) -> Act:
    """Return the dialogue act of a JSON object with `act` and `slots`; a slot has a value, a list of them, or None.

    A list gives a slot for each of its values, None a slot without a value; numbers become texts, True and False yes
    and no. A CorpusError if the object has another form.

    For example:

        act_of({"act": "inform", "slots": {"food": "thai", "area": ["north", "centre"], "kids": None}})
    """
    slots = data.get("slots", {}) if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(slots, Mapping) or not {*data} <= {"act", "slots"}:
        form = '{"act": "inform", "slots": {"food": "thai"}}'
        raise CorpusError(f"a dialog act in JSON is written {form}, found {quoted(data)}")
    written = [str(Slot(name, one)) for name, value in slots.items() for one in _values_in_json(name, value)]
    return parse_act(f"{data.get('act', '')}({';'.join(written)})")


def _values_in_json(name: str, value: object) -> Iterator[str | None]:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, bool):
            yield "yes" if one else "no"
        elif one is None or (isinstance(one, str | int | float) and str(one).strip()):
            yield None if one is None else str(one)
        else:
            raise CorpusError(f"the slot {name!r} takes a text, a number, a list of these or null, found {quoted(one)}")


def _slot(text: str, place: int) -> tuple[Slot, int]:
    """Return (slot, index behind it) for the slot `name` or `name=value` at index `place` of an act's text.

    White space before it is skipped. A CorpusError if there is no name, or no value after `=`.
    """
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
    plain = _PLAIN.match(text, place)
    assert plain is not None
    begin, quote = plain.end(), text[plain.end() : plain.end() + 1]
    if plain[0].strip() or quote not in _CLOSING:
        return plain[0].strip(), begin
    # a quote ends the value where the act can go on: `'chef's table'` has one inside
    closing = _CLOSING[quote].search(text, begin + 1)
    if closing is not None:
        return text[begin + 1 : closing.start()].strip(), closing.end()
    end = text.find(quote, begin + 1)
    if end < 0:
        raise _problem(text, begin, f"the quote {quote} is not closed")
    raise _problem(text, end + 1, "`;` or `)` is required behind a value")


def check_conditions(conditions: str) -> None:
    """Raise a CorpusError unless `conditions` is "plain" or "act": how conditions in files are read.

    A condition is the input that a text is generated from; "act" reads each as a dialogue act.
    """
    if conditions not in ("plain", "act"):
        raise CorpusError(f"conditions must be 'plain' or 'act', found {conditions!r}; choose one")


def _problem(text: str, place: int, reason: str) -> CorpusError:
    found = repr(text[place : place + 20]) if place < len(text) else "the end"
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    problem = CorpusError(f"column {place + 1} of the dialog act {shown!r}: {reason}, found {found}")
    # an act need not come from a file; who read it from one puts these together with the place in it
    problem.column, problem.reason = place + 1, f"{reason}, found {found}"
    return problem


class Value(NamedTuple):
    """One value of a slot: the slot's name, and the value as a tuple of words.

    Slots are the fields of a condition, the input that a text is generated from.
    """

    slot: str
    words: tuple[str, ...]


def fields_of(condition: object) -> Iterator[tuple[str, str | None]]:
    """Return (slot, text) pairs of a condition in order; a slot may occur several times, and its text be None.

    A condition is the input that a text is generated from. An `Act` has slots, a record its fields, whose lists and
    records give a pair for each element, under the field's name; any other condition has none. Numbers become texts. A
    CorpusError for more than 1,000 pairs.

    For example:

        list(fields_of({"food": ["thai", "greek"], "kids": None}))      # food thai, food greek, kids None
    """
    check_depth(condition)
    fields: Iterable[tuple[str, str | None]] = ()
    if isinstance(condition, Act):
        fields = ((slot.name, slot.value) for slot in condition.slots)
    elif isinstance(condition, Mapping):
        fields = ((str(name), text) for name, value in condition.items() for text in _texts(value))
    found = list(islice(fields, MOST_SLOTS + 1))
    if len(found) > MOST_SLOTS:
        raise CorpusError(f"a condition may have {MOST_SLOTS:,} values in its slots, found more; leave some out")
    return iter(found)


def _texts(value: object) -> Iterator[str | None]:
    """Yield a value as texts: one for each element of a list or record, at any depth, None for a missing value.

    Numbers and booleans become `str(value)`; names of fields are not yielded.
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, str) or not isinstance(value, Iterable):
        yield None if value is None else str(value)
    else:
        for one in value:
            yield from _texts(one)


def values_of(condition: object) -> tuple[Value, ...]:
    """Return every value of a condition's slots that a text could mention, once each, split at white space.

    They are in the order of the slots. A condition is the input that a text is generated from, slots are its fields.
    `x or y` is two values; yes, no, true, false, none, dontcare and ? are not returned. () for a condition without
    slots.

        values_of({"food": "thai or greek", "kids": "yes"})     # Value("food", ("thai",)), Value("food", ("greek",))
    """
    found = (
        Value(slot, tuple(part.split()))
        for slot, text in fields_of(condition)
        if text is not None
        for part in text.split(" or ")
        if can_be_said(part)
    )
    return tuple(dict.fromkeys(value for value in found if value.words))


def facts_of(condition: object) -> Iterator[Fact]:
    """Yield (slot, value) for all that a condition has: its values, "?" for a slot without, ("()", name) of an act.

    list(facts_of(parse_act("?request(food)")))     # [("()", "?request"), ("food", "?")]
    """
    if isinstance(condition, Act):
        yield ACT, condition.name
    for slot, text in fields_of(condition):
        if text is None or not can_be_said(text):
            yield slot, ASKED if text is None else text.strip().lower()
        else:
            yield from ((slot, " ".join(part.split())) for part in text.split(" or ") if part.split())


def is_literal(fact: Fact, worded: Collection[Fact] = ()) -> bool:
    """Return whether a fact is said in its own words, as food=thai is; `worded`: facts with values that are not."""
    slot, value = fact
    return slot != ACT and value != ASKED and can_be_said(value) and fact not in worded


def with_fact(condition: object, fact: Fact, other: Fact | None) -> object:
    """Return a copy of an act or a record with another (slot, value) in place of a fact, or with None without it.

    The value "?" is none. A ValueError is raised where the condition does not have the fact in a slot of its own.

        str(with_fact(parse_act("inform(kids=no)"), ("kids", "no"), ("kids", "yes")))        # inform(kids=yes)
    """
    items = [(slot.name, slot.value) for slot in condition.slots] if isinstance(condition, Act) else None
    if isinstance(condition, Mapping):
        items = list(condition.items())
    place = next((i for i, one in enumerate(items or ()) if fact in facts_of(dict([one]))), None)
    if items is None or place is None:
        raise ValueError(f"{condition} does not have {fact} in a slot of its own")
    items[place : place + 1] = [] if other is None else [(other[0], None if other[1] == ASKED else other[1])]
    return Act(condition.name, tuple(Slot(*one) for one in items)) if isinstance(condition, Act) else dict(items)


def worded_values(pairs: Iterable[tuple[object, Sequence[str]]]) -> frozenset[Fact]:
    """Return the facts whose values most of their sentences, three or more, do not say in the value's own words.

    `pairs`: conditions (inputs of texts), each with the words of its text.

        worded_values([({"price": "cheap"}, ["it", "costs", "little"])] * 3)       # {("price", "cheap")}
    """
    having, said = Counter[Fact](), Counter[Fact]()
    for condition, words in pairs:
        text = f" {' '.join(words)} "
        own = {fact for fact in facts_of(condition) if is_literal(fact)}
        having.update(own)
        said.update(fact for fact in own if f" {fact[1]} " in text)
    return frozenset(fact for fact, n in having.items() if n > 2 and said[fact] < n / 2)


def required_values(act: object) -> list[Value]:
    """Return every value of a condition that its sentence has to say, such as ("food", ("thai",)).

    `act`: the condition that the sentence is generated from, a dialogue act or a record. `x or y` is two values, and
    so is `x and y` in the slot `name`. Left out are the values yes, no, true, false, none, dontcare and ?, which need
    not be said.
    """
    return [
        Value(slot, tuple(part.split()))
        for slot, words in values_of(act)
        for part in (" ".join(words).split(" and ") if slot == "name" else [" ".join(words)])
    ]


def said_values(values: Iterable[tuple[W, ...]], text: Sequence[W]) -> set[tuple[W, ...]]:
    """Return the values that occur in a text as consecutive words, outside of longer values that occur there.

    values      each as a tuple of words
    text        the words of the text

        said_values([("thai",), ("marnee", "thai")], "marnee thai is cheap".split())         # {("marnee", "thai")}

    "marnee thai is cheap" does not say that the food is thai.
    """
    known, spoken = set(values), tuple(text)
    found: set[tuple[W, ...]] = set()
    longer: list[tuple[int, int]] = []
    for n in sorted({len(value) for value in known}, reverse=True):
        places = [(i, i + n) for i in range(len(spoken) - n + 1) if spoken[i : i + n] in known]
        found.update(spoken[i:j] for i, j in places if not any(begin <= i and j <= end for begin, end in longer))
        longer += places
    return found


def can_be_said(text: str) -> bool:
    """Return whether a slot value can occur in a text: False for yes, no, true, false, none, dontcare and ?.

    Case and outer white space do not matter.
    """
    return text.strip().lower() not in NOT_SAID


def words_of(condition: object) -> list[str]:
    """Return all words of a condition (input that a text is generated from) in order; [] for one without any.

    They are those of a text, of the values of an act's or record's slots (without their names), or of the text before
    (`Before`), split at white space.
    """
    if isinstance(condition, str):
        return condition.split()
    if isinstance(condition, Before):
        return list(condition.words)
    return [word for _, text in fields_of(condition) if text is not None for word in text.split()]


class ConditionTokenizer(ABC):
    """Base class of tokenizers of conditions (inputs that texts are generated from), whose tokens an encoder reads.

    A token is a tuple of feature names. `kind`: the tokenizer's name in configurations; `ends`: whether the encoder
    adds a token for the end of the condition; `passed_over`: slots that the tokenizer does not read. A subclass
    implements `tokens`.
    """

    kind: str
    ends = True  # whether the end of the condition is a symbol too
    passed_over: frozenset[str] = frozenset()  # slots that are for others to look at

    @abstractmethod
    def tokens(self, condition: object) -> list[Token]:
        """Return the tokens of a condition in order, each a tuple of feature names, such as ("Word:cheap",).

        A condition is the input that a text is generated from: a text, a record, a dialogue act and so on.
        """

    def settings(self) -> dict[str, Any]:
        """Return a dict of the tokenizer's `kind` and the arguments that it was made with, as a configuration has them.

        `make_tokenizer` makes an equal tokenizer of it.
        """
        return {"kind": self.kind}


class Words(ConditionTokenizer):
    """An encoder's tokenizer that reads a condition as a sequence of words, each with its identity as only feature.

    A condition is the input that a text is generated from. For an act or record, the words are the act's name, and each
    slot's name before its value.

    For example:

        Words().tokens("cheap food")        # [("Word:cheap",), ("Word:food",)]
    """

    kind = "words"

    def tokens(self, condition: object) -> list[Token]:
        return [(f"Word:{word}",) for word in _linear(condition)]


class Slots(ConditionTokenizer):
    """An encoder's tokenizer that makes a token of each word of slot values, with features for slot, word and place.

    The features are `Slot:food`, `First` and `Last` for the first and last word of the value, `Word:thai` and
    `food=thai`; a slot without a value is (`Slot:food`, `Asked`). A dialogue act begins with the token (`Act:inform`,).
    Of a condition without slots, each word is a token (`Word:cheap`,).

    unread      slots whose words are hidden, such as names and telephone numbers: their tokens lack the last two
                features, so that the model treats new values like known ones
    ignored     slots that make no token

        Slots(unread=["name"]).tokens(parse_act("inform(name=alamo;food=thai)"))
    """

    kind = "slots"

    def __init__(self, unread: Collection[str] = (), ignored: Collection[str] = ()) -> None:
        self.unread = frozenset(unread)
        self.ignored = self.passed_over = frozenset(ignored)

    def tokens(self, condition: object) -> list[Token]:
        if not isinstance(condition, Act | Mapping):
            return [(f"Word:{word}",) for word in _linear(condition)]
        return _tokens(condition, lambda slot, text: () if slot in self.ignored else self._value(slot, text))

    def _value(self, slot: str, text: str | None) -> Iterator[Token]:
        if text is None:
            yield f"Slot:{slot}", "Asked"
            return
        words = text.split()
        for i, word in enumerate(words):
            place = ("First",) * (i == 0) + ("Last",) * (i == len(words) - 1)
            own = () if slot in self.unread and can_be_said(text) else (f"Word:{word}", f"{slot}={word}")
            yield (f"Slot:{slot}", *place, *own)

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "unread": sorted(self.unread), "ignored": sorted(self.ignored)}


class Characters(ConditionTokenizer):
    """An encoder's tokenizer that makes a token of each character of slot values, after one for the slot.

    It is for models that write characters. Each character has its slot and the two characters before it as features, so
    that attention after writing `al` finds the `a` of `alamo`. A value that is never written (dontcare, yes) is one
    token.

    The value of food=thai begins (`Slot:food`, `Spelled`), (`Slot:food`, `Character:t`, `Behind: `, `Behind:  `). Of a
    condition without slots, each character is a token (`Character:t`,).
    """

    kind = "spelled"

    def tokens(self, condition: object) -> list[Token]:
        if not isinstance(condition, Act | Mapping):
            return [(f"Character:{character}",) for character in " ".join(_linear(condition))]
        return _tokens(condition, self._value)

    def _value(self, slot: str, text: str | None) -> Iterator[Token]:
        if text is None:
            yield f"Slot:{slot}", "Asked"
        elif not can_be_said(text):
            yield f"Slot:{slot}", f"{slot}={text}"
        else:
            yield f"Slot:{slot}", "Spelled"
            spelled = f"  {' '.join(text.split())}"
            for i in range(2, len(spelled)):
                before = (f"Behind:{spelled[i - 1]}", f"Behind:{spelled[i - 2 : i]}")
                yield f"Slot:{slot}", f"Character:{spelled[i]}", *before


class Whole(ConditionTokenizer):
    """An encoder's tokenizer that reads a condition as one token: a category, a topic, a user.

    A condition is the input that a text is generated from. The token of a record or act has a feature for each field,
    such as `food=thai`, or `Slot:food` without a value, an act `Act:inform` before them; any other condition has one
    feature, such as `Value:news`.
    """

    kind = "whole"
    ends = False

    def tokens(self, condition: object) -> list[Token]:
        act = (f"Act:{condition.name}",) if isinstance(condition, Act) else ()
        fields = tuple(f"{slot}={text}" if text is not None else f"Slot:{slot}" for slot, text in fields_of(condition))
        return [tuple(dict.fromkeys((*act, *fields))) or (f"Value:{condition}",)]


Numbers = dict[str, float | None]


@dataclass(frozen=True)
class NumericFields:
    """A standardiser of numeric conditions (inputs that texts are generated from): they become vectors.

    Each number has the mean of the training conditions subtracted, and is divided by their standard deviation.

    names       the fields, in the order of the vector; those of a vector are "0", "1", …
    mean, deviation     of each field in training: the population's standard deviation, 1 where it would be 0
    missing     fields that may be absent; each adds an entry, 1 if it is absent, else 0
    only        True: other fields of a record are ignored; False: they are an error

        NumericFields.fitted([{"price": 37, "stars": 4}, {"price": 12, "stars": None}])      records
        NumericFields.fitted([[0.1, 2.0], [0.3, 1.0]])                                       vectors: "0" and "1"
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    missing: tuple[str, ...] = ()
    only: bool = False

    @classmethod
    def fitted(cls, conditions: Iterable[object], names: Collection[str] = ()) -> NumericFields:
        """Return a standardiser with the means and deviations of these conditions: records, or vectors of one length.

        Conditions are the inputs that training texts are generated from.

        names       the fields to use; empty: all of them, by first appearance, which must then be numbers

        A field that some condition lacks becomes one of `missing`; means are over those that have it. A ConfigError if
        a field has no number at all, or if there are no conditions, or of several kinds.

            NumericFields.fitted([{"price": 37, "city": "Rome"}], names=["price"])
        """
        given = list(conditions)
        records = [numbers_of(condition, names) for condition in given]
        lengths = {
            None if isinstance(one, Mapping) else len(record) for one, record in zip(given, records, strict=True)
        }
        if len(lengths) > 1:
            raise ConfigError("records, or vectors of one length, are required, found several kinds; make them equal")
        found = tuple(names) or tuple(dict.fromkeys(name for record in records for name in record))
        if not found:
            raise ConfigError("conditions of numbers are required, found none; give vectors, or records of numbers")
        columns = [[value for record in records if (value := record.get(name)) is not None] for name in found]
        empty = next((name for name, column in zip(found, columns, strict=True) if not column), None)
        if empty is not None:
            raise ConfigError(f"no training condition has the number {empty!r}; leave it out")
        mean = tuple(math.fsum(column) / len(column) for column in columns)
        spread = (
            math.sqrt(math.fsum((value - m) ** 2 for value in column) / len(column))
            for column, m in zip(columns, mean, strict=True)
        )
        lacking = tuple(name for name in found if any(record.get(name) is None for record in records))
        return cls(found, mean, tuple(one if one > 0 else 1.0 for one in spread), lacking, bool(names))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the entries of `vector`: the fields, then `FIELD missing` for each that may be absent."""
        return (*self.names, *(f"{name} missing" for name in self.missing))

    def vector(self, condition: object) -> list[float]:
        """Return the standardised vector of one condition, in the order of `columns`; an absent number is 0.

        A condition is the input that a text is generated from, here a record or vector of numbers. Raises a ConfigError
        for a missing condition, an unknown field, or a lack of a number that every training condition had.
        """
        if condition is None:
            raise ConfigError("this model writes from numbers, and no condition was given; give one to every sequence")
        record = numbers_of(condition, self.names if self.only else ())
        strange = [name for name in record if name not in self.names]
        if strange:
            known = ", ".join(self.names)
            raise ConfigError(f"the condition has {strange[0]!r}, but the numbers of this model are {known}")
        gone = [name for name in self.names if record.get(name) is None]
        lost = [name for name in gone if name not in self.missing]
        if lost:
            raise ConfigError(
                f"the condition has no number {lost[0]!r}, which every training condition had; give all of "
                f"{', '.join(self.names)}"
            )
        scaled = zip(self.names, self.mean, self.deviation, strict=True)
        told = [0.0 if (value := record.get(name)) is None else (value - m) / d for name, m, d in scaled]
        return [*told, *(float(name in gone) for name in self.missing)]

    def settings(self) -> dict[str, Any]:
        """Return field names, means, deviations and so on as a dictionary that JSON can write, for `restored`."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}

    @classmethod
    def restored(cls, settings: Mapping[str, Any]) -> NumericFields:
        """Return the standardiser that the dictionary of `settings` describes."""
        given: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in settings.items()}
        return cls(**given)


def numbers_of(condition: object, names: Collection[str]) -> Numbers:
    """Return {field: finite number, or None} of a condition: a record, or a list or vector with fields "0", "1", …

    A condition is the input that a text is generated from; a vector may be of numpy or torch. `names`: the fields to
    take, those that it has not are no keys; empty: all. Raises a ConfigError if a field is no number or above 1e30, or
    the condition of another kind.
    """
    plain = condition.tolist() if hasattr(condition, "tolist") else condition  # of numpy or torch
    if isinstance(plain, list | tuple):
        plain = {str(place): value for place, value in enumerate(plain)}
    if not isinstance(plain, Mapping):
        raise ConfigError(f"a list or a record of numbers is required as condition, found {quoted(plain)}")
    if len(plain) > MOST_SLOTS:
        raise ConfigError(f"a condition may have {MOST_SLOTS:,} numbers, found {len(plain):,}")
    found: Numbers = {}
    for name, value in plain.items():
        if names and str(name) not in names:
            continue
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ConfigError(f"the field {str(name)!r} of a condition must be a number or null, found {quoted(value)}")
        if value is not None and not abs(value) <= MOST_NUMBER:
            raise ConfigError(f"the field {str(name)!r} must be a finite number of at most {MOST_NUMBER:.0e}: {value}")
        found[str(name)] = None if value is None else float(value)
    return found


def _tokens(condition: object, of_slot: Callable[[str, str | None], Iterable[Token]]) -> list[Token]:
    """Return a condition's tokens (tuples of feature names): of the act, if it is one, then of each slot in order.

    A condition is the input that a text is generated from. `of_slot(slot, text)` returns the tokens of one value of a
    slot; `text` is None where the slot has no value. The token of an act is (`Act:NAME`,).
    """
    act = [(f"Act:{condition.name}",)] if isinstance(condition, Act) else []
    return [*act, *(token for slot, text in fields_of(condition) for token in of_slot(slot, text))]


def _linear(condition: object) -> list[str]:
    """Return a condition as one list of words: the name of the act, and each slot's name before its value's words.

    A condition is the input that a text is generated from. Of one that is a text, the words are what stands between
    white space; of a list, those of all texts in it, at any depth; [] for None.
    """
    if isinstance(condition, str):
        return condition.split()
    act = [condition.name] if isinstance(condition, Act) else []
    fields = list(fields_of(condition))
    if not act and not fields:
        check_depth(condition)
        return [word for text in _texts(condition) if text is not None for word in text.split()]
    return act + [word for slot, text in fields for word in (slot, *("" if text is None else text).split())]


def make_tokenizer(settings: Mapping[str, Any]) -> ConditionTokenizer:
    """Return the tokenizer of conditions (inputs that texts are generated from) that `settings` describe.

    settings    of `ConditionTokenizer.settings`: "kind" ("words", "slots", "spelled" or "whole"; any other is a
                ConfigError), and arguments of its class

    For example:

        make_tokenizer({"kind": "slots", "unread": ["name"]})
    """
    given = dict(settings)
    kinds: dict[str, type[ConditionTokenizer]] = {kind.kind: kind for kind in (Words, Slots, Characters, Whole)}
    kind = given.pop("kind")
    if kind not in kinds:
        raise ConfigError(f"unknown way to read a condition {quoted(kind)}: use one of {', '.join(kinds)}")
    return kinds[kind](**given)
