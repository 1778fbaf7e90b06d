"""How well a sentence says a dialog act of the restaurant corpus, as the results of nlg and char-nlg were counted.

Slot errors count words and know no synonyms; `llrnn.inference.saying` has taken their place. A value is

    required    if it can be said (`values_of`: `x or y` is two; dontcare, yes, no are none); a name `x and y` is two
    missing     if it is required and its words do not stand in a row in the sentence
    redundant   for each time more than required, where it is not within a longer required value
    wrong       if the inventory (training and test texts) has it and the condition does not, the longest first, apart
                from required values. Not those of a slot that the condition names without a value: a question for the
                food may say `thai or greek`, and who does not care about the price may hear of `cheap`

A value that is an ordinary word (there are restaurants named `range` and `so`) is neither wrong nor redundant: one that
more than a few references say without having it. The rate is (missing + redundant + wrong) / required.

The slot `type` is not counted: its one value is the word restaurant. The references of the restaurant corpus have a
slot error rate of 0.39% in train (4571 required, 0 missing, 1 redundant, 17 wrong) and 0.38% in test (1598: 2, 0, 4).
Most of what is left is wrong for a human too: `a russian restaurant` where the act says nothing of food. Not so `chows
is located at`, `the only 2 restaurants`, `shanghainese` for bund shanghai.

Whether a value stands where it belongs is another question. *Misplaced*: a phrase announces a slot (`the phone number
for x is`, `the address is`, `the postcode is`, `the price range is`), and the word that follows begins a value of
another slot of the act and none of its own. Of the references, 9 of 478 in train and 1 of 154 in test: nearly all say
`the price range is between 15 and 26 euro`, a value of the slot price. *Misplaced as read* takes a price for a price
range, and `in the cheap price range and the phone number is` for one announcement, of a number: 1 of 478, 0 of 154.

The authors of the corpus count otherwise (Wen et al. 2015): in text with placeholders for values, those that are
missing and those that are there once too often, for each value of the act. Of any sentence, here: values are replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from llrnn.ground.errors import CorpusError
from llrnn.inference.meanings import bleu, references_of
from llrnn.text.conditions import NOT_SAID, Value, fields_of, required_values, values_of
from llrnn.text.corpus import Corpus, Sentence, Token, delexicalise, find_values, placeholder

# references may say a value that their act does not have, before it counts as an ordinary word; set when the references
# of the restaurant corpus were looked through, so that `so` is one
FEW = 2

Words = tuple[str, ...]

UNCOUNTED = frozenset({"type"})
ANNOUNCED = {
    "phone": ("phone", "number"),
    "address": ("address",),
    "postcode": ("postcode",),
    "pricerange": ("price", "range"),
}


def placeholder_errors(act: object, words: Sequence[str]) -> SlotErrors:
    """The errors of one sentence as the authors of the corpus count them; it may hold placeholders or values."""
    slots = [slot for slot, _ in values_of(act) if slot not in UNCOUNTED]
    wanted = Counter(map(placeholder, slots))
    sentence = Sentence(tuple(Token(word) for word in words), act)
    said = delexicalise(Corpus((sentence,)), slots)[0].words
    uncounted = {*map(placeholder, UNCOUNTED)}
    found = Counter(word for word in said if word.startswith(placeholder("")) and word not in uncounted)
    return SlotErrors(wanted.total(), (wanted - found).total(), (found - wanted).total(), 0)


def announced(act: object, words: Sequence[str], *, as_read: bool = False) -> tuple[int, int]:
    """How many values are announced by their slot, and how many of them are another slot's."""
    also = {"pricerange": "price"} if as_read else {}
    first = {slot: {value[0] for name, value in values_of(act) if name in (slot, also.get(slot))} for slot in ANNOUNCED}
    every = {value[0] for _, value in values_of(act)}
    count = misplaced = 0
    for slot, before, follows in _announcements(words):
        if as_read and any(_holds(before, phrase) for phrase in ANNOUNCED.values()):
            continue  # what is announced is the other one
        count += 1
        misplaced += follows not in first[slot] and follows in every
    return count, misplaced


def _announcements(words: Sequence[str]) -> Iterator[tuple[str, list[str], str]]:
    """(slot, the words before `is`, the word behind it) for each phrase that announces a value, within its clause."""
    for slot, phrase in ANNOUNCED.items():
        for start in range(len(words) - len(phrase)):
            if tuple(words[start : start + len(phrase)]) == phrase:
                rest = list(takewhile(lambda word: word not in (".", ","), words[start + len(phrase) :]))
                if "is" in rest[:-1]:
                    place = rest.index("is")
                    yield slot, rest[:place], rest[place + 1]


def _holds(words: Sequence[str], phrase: Sequence[str]) -> bool:
    return any(tuple(words[i : i + len(phrase)]) == phrase for i in range(len(words)))


# --- slot errors


class SlotErrors(NamedTuple):
    """Counts of slot values in generated text: `required` ones, and `missing`, `redundant` (repeated), `wrong` ones.

    All ints, 0 by default; `rate` is (missing + redundant + wrong) / required. Add them up by `sum_of_errors`.
    """

    required: int = 0
    missing: int = 0
    redundant: int = 0
    wrong: int = 0

    @property
    def rate(self) -> float:
        """The slot error rate (missing + redundant + wrong) / required.

        Raises CorpusError where no value had to be said.
        """
        if not self.required:
            raise CorpusError("a slot error rate needs an act with a value to say, found none; give such acts")
        return (self.missing + self.redundant + self.wrong) / self.required


@dataclass(frozen=True)
class Inventory:
    """All slot values in the conditions of some corpora, any of which a generated sentence could say by mistake.

    A condition is the input that a text is generated from. `slots`: {value as a tuple of words: frozenset of the slots
    that have it}; `ordinary`: values that are ordinary words too and are never counted as wrong; `uncounted`: slots
    that are left out. Made by `Inventory.of(corpus)`; `inventory.wrong(act, words)` looks for such values.
    """

    slots: Mapping[Words, frozenset[str]]
    ordinary: frozenset[Words] = frozenset()
    uncounted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *corpora: Corpus, uncounted: Collection[str] = ()) -> Inventory:
        """Return the slot values in the conditions (dialogue acts or records) of corpora, as an `Inventory`.

        Values that more than two sentences say without having them in their condition are taken for ordinary words;
        slots in `uncounted` are left out.
        """
        left_out = frozenset(uncounted)
        slots: dict[Words, set[str]] = {}
        for corpus in corpora:
            for sentence in corpus:
                for slot, words in _counted(sentence.condition, left_out):
                    slots.setdefault(words, set()).add(slot)
        every = cls({words: frozenset(names) for words, names in slots.items()}, uncounted=left_out)
        said = Counter(
            value for corpus in corpora for one in corpus for value in set(every.wrong(one.condition, one.words))
        )
        return cls(every.slots, frozenset(value for value, count in said.items() if count > FEW), left_out)

    def wrong(self, act: object, words: Sequence[str]) -> list[Words]:
        """Return the values of the inventory that a sentence says though its condition `act` does not have them.

        Each is listed as often as it is said. Ordinary words, and values of slots that the act names without a value,
        are not among them. `words`: the sentence.
        """
        own = {value for _, value in _counted(act, self.uncounted)}
        free = {slot for slot, text in fields_of(act) if text is None or text.strip().lower() in NOT_SAID}
        others = {
            value
            for value in self._within(words)
            if value not in own and value not in self.ordinary and not self.slots[value] & free
        }
        return list(find_values(words, others, taken=find_values(words, own)).values())

    def _within(self, words: Sequence[str]) -> Iterator[Words]:
        longest = max(map(len, self.slots), default=0)
        for begin in range(len(words)):
            for end in range(begin + 1, min(begin + longest, len(words)) + 1):
                if (found := tuple(words[begin:end])) in self.slots:
                    yield found


def _counted(act: object, uncounted: Collection[str]) -> list[Value]:
    return [one for one in required_values(act) if one.slot not in uncounted]


def slot_errors(act: object, words: Sequence[str], inventory: Inventory) -> SlotErrors:
    """Return how many slot values one sentence had to say, and how many are missing, repeated or wrong.

    `act`: the sentence's condition, a dialogue act or a record; `words`: the sentence; `inventory`: the values that
    could be wrong, and slots that do not count. A value is missing where its words do not follow one another in the
    sentence, redundant for each time that it is said more often than required, and wrong by `Inventory.wrong`.
    """
    wanted = Counter(value for _, value in _counted(act, inventory.uncounted))
    found = Counter(find_values(words, wanted).values())
    missing = sum(times for value, times in wanted.items() if not find_values(words, [value]))
    redundant = sum((found - wanted)[value] for value in found if value not in inventory.ordinary)
    return SlotErrors(wanted.total(), missing, redundant, len(inventory.wrong(act, words)))


def sum_of_errors(errors: Iterable[SlotErrors]) -> SlotErrors:
    """Return the summed slot errors of several sentences; its `rate` is the rate of the corpus."""
    return SlotErrors(*map(sum, zip(SlotErrors(), *errors, strict=True)))


def scores(text: Corpus, outputs: Sequence[Sequence[str]], inventory: Inventory) -> dict[str, Any]:
    """How good what was written from the acts of a text is."""
    pairs = [(sentence.condition, words) for sentence, words in zip(text, outputs, strict=True)]
    errors = sum_of_errors(slot_errors(act, words, inventory) for act, words in pairs)
    placeholders = sum_of_errors(placeholder_errors(act, words) for act, words in pairs)
    frames = [announced(act, words) for act, words in pairs]
    return {
        "bleu": bleu(references_of(text), outputs),
        "slot_error_rate": errors.rate,
        "slot_errors": errors._asdict(),
        "placeholder_error_rate": placeholders.rate,
        "announced": sum(count for count, _ in frames),
        "misplaced": sum(misplaced for _, misplaced in frames),
        "misplaced_as_read": sum(announced(act, words, as_read=True)[1] for act, words in pairs),
    }
