"""How well a sentence says a dialog act: BLEU against what people said, and errors in the values.

BLEU-4 is sacrebleu's, over words as they are; the references of an item are those of all items with the same act.

Slot errors count words and know no synonyms, the same for every system:

    required    the values of the act that can be said (`values_of`: `x or y` is two; dontcare, yes, no are none); a
                name `x and y` is two; the slot `type` is left out, its one value is the word restaurant
    missing     a required value whose words do not stand in a row in the sentence
    redundant   a required value once more than the act has it, where it is not within a longer required value
    wrong       a value of the inventory (training and test texts) that the act does not have, the longest first, apart
                from required values. Not those of a slot that the act names without a value: a question for the food
                may say `thai or greek`, and who does not care about the price may hear of `cheap`

A value that is an ordinary word (there are restaurants named `range` and `so`) is neither wrong nor redundant: one that
more than a few references say without having it. The rate is (missing + redundant + wrong) / required. What is invented
and is no value of the inventory is not counted as wrong: it shows where it stands in the place of a value, as missing.

Whether a value stands where it belongs is another question. *Misplaced*: a phrase announces a slot (`the phone number
for x is`, `the address is`, `the postcode is`, `the price range is`), and the word that follows begins a value of
another slot of the act and none of its own. Of the references, 9 of 478 in train and 1 of 154 in test.

The authors of the corpus count otherwise (Wen et al. 2015): in text with placeholders for values, those that are
missing and those that are there once too often, for each value of the act. Of any sentence, here: values are replaced.

The references of the restaurant corpus have a rate of 0.39% in train (4571 required, 0 missing, 1 redundant, 17 wrong)
and 0.38% in test (1598: 2, 0, 4). Most of what is left is wrong for a human too: `a russian restaurant` where the act
says nothing of food. Not so `chows is located at`, `the only 2 restaurants`, `shanghainese` for bund shanghai.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

from llrnn.ground.errors import CorpusError, MissingExtraError
from llrnn.text.conditions import NOT_SAID, fields_of, values_of
from llrnn.text.corpus import Corpus, Sentence, Token, delexicalise, find_values, placeholder

# references may say a value that their act does not have, before it counts as an ordinary word; set when the references
# of train and test were looked through, so that `so` is one
FEW = 2
UNCOUNTED = frozenset({"type"})
ANNOUNCED = {
    "phone": ("phone", "number"),
    "address": ("address",),
    "postcode": ("postcode",),
    "pricerange": ("price", "range"),
}

Words = tuple[str, ...]


# --- BLEU


def references_of(corpus: Corpus) -> list[list[Words]]:
    """For each sentence what was said for the same act, itself included, each once."""
    said: dict[str, dict[Words, None]] = {}
    for sentence in corpus:
        said.setdefault(str(sentence.condition), {})[sentence.words] = None
    return [list(said[str(sentence.condition)]) for sentence in corpus]


def bleu(references: Sequence[Sequence[Sequence[str]]], outputs: Sequence[Sequence[str]]) -> float:
    """BLEU-4 of a corpus in percent; `references` has one or several for each output."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise MissingExtraError("sacrebleu", "nlg") from None
    if not outputs or len(references) != len(outputs) or not all(references):
        raise CorpusError(
            f"one or several references for each output are required, found {len(references)} lists for "
            f"{len(outputs)} outputs, {sum(not one for one in references)} of them empty; give each its own"
        )
    most = max(len(one) for one in references)
    streams: list[Any] = [[" ".join(one[i]) if i < len(one) else None for one in references] for i in range(most)]
    # forced: sacrebleu would warn that text with a space before its full stop looks tokenised, as it is
    return float(BLEU(tokenize="none", force=True).corpus_score([" ".join(one) for one in outputs], streams).score)


# --- slot errors


class SlotErrors(NamedTuple):
    """Values that had to be said, and what went wrong with them."""

    required: int = 0
    missing: int = 0
    redundant: int = 0
    wrong: int = 0

    @property
    def rate(self) -> float:
        """Errors for each value that had to be said."""
        if not self.required:
            raise CorpusError("a slot error rate needs an act with a value to say, found none; give such acts")
        return (self.missing + self.redundant + self.wrong) / self.required


@dataclass(frozen=True)
class Inventory:
    """All values that could be said instead of another, each with the slots that have it; and ordinary words."""

    slots: Mapping[Words, frozenset[str]]
    ordinary: frozenset[Words] = frozenset()

    @classmethod
    def of(cls, *corpora: Corpus) -> Inventory:
        """The values of corpora with references, from which it is told which of them are ordinary words."""
        slots: dict[Words, set[str]] = {}
        for corpus in corpora:
            for sentence in corpus:
                for slot, words in required_values(sentence.condition):
                    slots.setdefault(words, set()).add(slot)
        every = cls({words: frozenset(names) for words, names in slots.items()})
        said = Counter(
            value for corpus in corpora for one in corpus for value in set(every.wrong(one.condition, one.words))
        )
        return cls(every.slots, frozenset(value for value, count in said.items() if count > FEW))

    def wrong(self, act: object, words: Sequence[str]) -> list[Words]:
        """What a sentence says, as often as it does, and the act does not have."""
        own = {value for _, value in required_values(act)}
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


def required_values(act: object) -> list[tuple[str, Words]]:
    """(slot, words) for every value that an act wants said."""
    return [
        (slot, tuple(part.split()))
        for slot, words in values_of(act)
        if slot not in UNCOUNTED
        for part in (" ".join(words).split(" and ") if slot == "name" else [" ".join(words)])
    ]


def slot_errors(act: object, words: Sequence[str], inventory: Inventory) -> SlotErrors:
    """The errors of one sentence, as the head of this file defines them."""
    wanted = Counter(value for _, value in required_values(act))
    found = Counter(find_values(words, wanted).values())
    missing = sum(times for value, times in wanted.items() if not _says(words, value))
    redundant = sum((found - wanted)[value] for value in found if value not in inventory.ordinary)
    return SlotErrors(wanted.total(), missing, redundant, len(inventory.wrong(act, words)))


def _says(words: Sequence[str], value: Words) -> bool:
    return bool(find_values(words, [value]))


def placeholder_errors(act: object, words: Sequence[str]) -> SlotErrors:
    """The errors of one sentence as the authors of the corpus count them; it may hold placeholders or values."""
    slots = [slot for slot, _ in values_of(act) if slot not in UNCOUNTED]
    wanted = Counter(map(placeholder, slots))
    sentence = Sentence(tuple(Token(word) for word in words), act)
    said = delexicalise(Corpus((sentence,)), slots)[0].words
    found = Counter(word for word in said if word.startswith(placeholder("")))
    return SlotErrors(wanted.total(), (wanted - found).total(), (found - wanted).total(), 0)


def announced(act: object, words: Sequence[str]) -> tuple[int, int]:
    """How many values are announced by their slot, and how many of them are another slot's."""
    first = {slot: {value[0] for name, value in values_of(act) if name == slot} for slot in ANNOUNCED}
    every = {value[0] for _, value in values_of(act)}
    count = misplaced = 0
    for slot, follows in _announcements(words):
        count += 1
        misplaced += follows not in first[slot] and follows in every
    return count, misplaced


def _announcements(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(slot, the word behind `is`) for each phrase that announces a value, within its clause."""
    for slot, phrase in ANNOUNCED.items():
        for start in range(len(words) - len(phrase)):
            if tuple(words[start : start + len(phrase)]) == phrase:
                rest = list(takewhile(lambda word: word not in (".", ","), words[start + len(phrase) :]))
                if "is" in rest[:-1]:
                    yield slot, rest[rest.index("is") + 1]


def sum_of_errors(errors: Iterable[SlotErrors]) -> SlotErrors:
    """The errors of a corpus."""
    return SlotErrors(*map(sum, zip(SlotErrors(), *errors, strict=True)))


def slot_error_rate(corpus: Corpus, outputs: Sequence[Sequence[str]], inventory: Inventory) -> float:
    """The rate of a system's outputs for the acts of a corpus."""
    acts = [sentence.condition for sentence in corpus]
    return sum_of_errors(slot_errors(act, words, inventory) for act, words in zip(acts, outputs, strict=True)).rate
