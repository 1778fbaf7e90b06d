"""How well sentences say what they were written from: BLEU against what people said, and errors in the values.

BLEU-4 is sacrebleu's, over words as they are; the references of an item are those of all items with the same condition.

Slot errors count words and know no synonyms:

    required    the values of the condition that can be said (`values_of`: `x or y` is two; dontcare, yes, no are none);
                a name `x and y` is two; slots in `uncounted` are left out
    missing     a required value whose words do not stand in a row in the sentence
    redundant   a required value once more than the condition has it, where it is not within a longer required value
    wrong       a value of the inventory (training and test texts) that the condition does not have, the longest first,
                apart from required values. Not those of a slot that the condition names without a value: a question for
                the food may say `thai or greek`, and who does not care about the price may hear of `cheap`

A value that is an ordinary word (there are restaurants named `range` and `so`) is neither wrong nor redundant: one that
more than a few references say without having it. The rate is (missing + redundant + wrong) / required. What is invented
and is no value of the inventory is not counted as wrong: it shows where it stands in the place of a value, as missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llrnn.ground.errors import CorpusError, MissingExtraError
from llrnn.model.decode import write
from llrnn.model.network import LLRNN
from llrnn.text.conditions import NOT_SAID, fields_of, required_values
from llrnn.text.corpus import Corpus, find_values

# references may say a value that their act does not have, before it counts as an ordinary word; set when the references
# of the restaurant corpus were looked through, so that `so` is one
FEW = 2

Words = tuple[str, ...]


# --- BLEU


def references_of(corpus: Corpus) -> list[list[Words]]:
    """Return for each sentence of a corpus the distinct sentences with an equal condition, itself included.

    A condition is the input that a text is generated from. Sentences are word tuples, in the order of the corpus.
    """
    said: dict[str, dict[Words, None]] = {}
    for sentence in corpus:
        said.setdefault(str(sentence.condition), {})[sentence.words] = None
    return [list(said[str(sentence.condition)]) for sentence in corpus]


def bleu(references: Sequence[Sequence[Sequence[str]]], outputs: Sequence[Sequence[str]]) -> float:
    """Return corpus BLEU-4 in percent, computed by sacrebleu over words as they are.

    `references`: one or several sentences for each output, in the order of `outputs`; a sentence is a sequence of
    words. Raises CorpusError where an output has none, MissingExtraError without sacrebleu.

        bleu([[["le", "chat", "dort", "bien"]]], [["le", "chat", "dort", "bien"]])     # 100.0
    """
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
                for slot, words in required_values(sentence.condition, left_out):
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
        own = {value for _, value in required_values(act, self.uncounted)}
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


def slot_errors(act: object, words: Sequence[str], inventory: Inventory) -> SlotErrors:
    """Return how many slot values one sentence had to say, and how many are missing, repeated or wrong.

    `act`: the sentence's condition, a dialogue act or a record; `words`: the sentence; `inventory`: the values that
    could be wrong, and slots that do not count. A value is missing where its words do not follow one another in the
    sentence, redundant for each time that it is said more often than required, and wrong by `Inventory.wrong`.
    """
    wanted = Counter(value for _, value in required_values(act, inventory.uncounted))
    found = Counter(find_values(words, wanted).values())
    missing = sum(times for value, times in wanted.items() if not find_values(words, [value]))
    redundant = sum((found - wanted)[value] for value in found if value not in inventory.ordinary)
    return SlotErrors(wanted.total(), missing, redundant, len(inventory.wrong(act, words)))


def sum_of_errors(errors: Iterable[SlotErrors]) -> SlotErrors:
    """Return the summed slot errors of several sentences; its `rate` is the rate of the corpus."""
    return SlotErrors(*map(sum, zip(SlotErrors(), *errors, strict=True)))


def written_scores(model: LLRNN, corpus: Corpus, *, beam: int = 5, against_references: bool = True) -> dict[str, Any]:
    """Generate a text from the condition of each item of a corpus, and score it: slot errors, and BLEU.

    Returns `beam` (the number of hypotheses of the search), `slot_error_rate`, `slot_errors` (a dict of counts) and,
    unless `against_references` is false, `bleu` in percent against the corpus' sentences of the same condition. Values
    that count as wrong are those that the corpus has in other conditions. Raises CorpusError where an item has no
    condition.

        written_scores(model, Corpus.from_file("test.jsonl"))["slot_error_rate"]
    """
    conditions = [sentence.condition for sentence in corpus]
    if None in conditions:
        raise CorpusError(f"{corpus.name}: a condition to write from is required of every sentence; give JSON lines")
    outputs = [found.words for found in write(model, conditions, beam=beam)]
    inventory, pairs = Inventory.of(corpus), zip(conditions, outputs, strict=True)
    errors = sum_of_errors(slot_errors(condition, words, inventory) for condition, words in pairs)
    found = {"beam": beam, "slot_error_rate": errors.rate, "slot_errors": errors._asdict()}
    return found | ({"bleu": bleu(references_of(corpus), outputs)} if against_references else {})


def told_scores(found: Mapping[str, Any]) -> str:
    """Return the result of `written_scores` as one line of text for people.

    "written with a beam of 5: slot errors 1.20 % of 500 values (3 missing, 2 redundant, 1 wrong); BLEU 70.1"
    """
    errors, also = found["slot_errors"], f"; BLEU {found['bleu']:.1f}" if "bleu" in found else ""
    kinds = ", ".join(f"{errors[kind]:,} {kind}" for kind in ("missing", "redundant", "wrong"))
    said = f"slot errors {100 * found['slot_error_rate']:.2f} % of {errors['required']:,} values ({kinds})"
    return f"written with a beam of {found['beam']}: {said}{also}"
