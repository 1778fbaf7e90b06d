"""How often a `Judge` of sentences errs: on references, on references with one planted mistake, on labels by hand.

A rule changes either the act or the sentence of a pair, in one slot, so that it is known what is wrong and where; the
rules know values and places of a sentence, and no wordings:

    slot left out       the act loses a slot: what the sentence says of it is invented
    slot added          the act gains a slot of another act of its kind: it is missing
    value changed       the act has another value, or yes for no: the sentence contradicts it
    value cut           the sentence loses the words of a value: missing
    value swapped       it says another value of the slot: contradicted
    clause cut          it loses its only part without a value, where the act has one fact without: missing
    clause added        the end of another reference follows: invented, or contradicted; repeated, where the act has it

Values that a fifth of the sentences say are left alone (the type restaurant). Labels are ours and name items by place
and digest, so that they hold no text of the corpus.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from llrnn.inference.saying import Judge
from llrnn.text.conditions import Act, Slot, can_be_said
from llrnn.text.corpus import Corpus, find_values
from llrnn_lab.studies.nlg_data import read_rnnlg
from llrnn_lab.studies.tables import markdown, write_results

Words = tuple[str, ...]
BREAKS = (",", ".", "and")
COMMON = 0.2  # of the sentences say a word: as a value it is left alone
FINE = ("said", "unsure")


class Item(NamedTuple):
    """An act and a sentence, with the `rule` that planted a mistake in one `slot`; "" of both for none."""

    act: Act
    words: Words
    rule: str = ""
    slot: str = ""

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of what the item says."""
        return hashlib.sha256(f"{self.act} {' '.join(self.words)}".encode()).hexdigest()[:8]


def planted(corpus: Corpus, seed: int) -> list[Item]:
    """Every pair of a corpus with a mistake by each rule that applies to it."""
    planter = _Planter(corpus, random.Random(seed))
    return [made for one in corpus for made in planter.each(_act(one.condition), one.words)]


class _Planter:
    def __init__(self, corpus: Corpus, dice: random.Random) -> None:
        self.dice, said = dice, Counter(word for one in corpus for word in set(one.words))
        self.slots: dict[str, list[Slot]] = {}
        self.clauses: list[tuple[Slot, Words]] = []
        self.common = {word for word, count in said.items() if count > COMMON * len(corpus)}
        for one in corpus:
            act = _act(one.condition)
            self.slots.setdefault(act.name, []).extend(slot for slot in act.slots if slot.value not in self.common)
            if len(act.slots) == 2 and len(one.words) > 2 and act.slots[1].value not in self.common:
                begin = tuple((act.slots[0].value or "?").split())
                rest = one.words[len(begin) :]
                if one.words[: len(begin)] == begin and len(rest) > 2 and not find_values(rest, [begin]):
                    self.clauses.append((act.slots[1], rest))

    def each(self, act: Act, words: Words) -> Iterator[Item]:
        names = Counter(slot.name for slot in act.slots)
        once = [slot for slot in act.slots if names[slot.name] == 1 and slot.value not in self.common]
        if once:
            yield from self._acts(act, words, self.dice.choice(once))
        said = [slot for slot in once if _said(slot) and len(_places(words, slot)) == 1]
        if said:
            yield from self._values(act, words, self.dice.choice(said))
        yield from self._clauses(act, words)

    def _acts(self, act: Act, words: Words, slot: Slot) -> Iterator[Item]:
        has = {one.name for one in act.slots}
        left = tuple(one for one in act.slots if one is not slot)
        yield Item(replace(act, slots=left), words, "slot left out", slot.name)
        if new := [one for one in self.slots[act.name] if one.name not in has and not _within(one, words)]:
            extra = self.dice.choice(new)
            yield Item(replace(act, slots=(*act.slots, extra)), words, "slot added", extra.name)
        if rivals := self._rivals(act, slot, words):
            rival = self.dice.choice(rivals)
            changed = tuple(rival if one is slot else one for one in act.slots)
            yield Item(replace(act, slots=changed), words, "value changed", slot.name)

    def _values(self, act: Act, words: Words, slot: Slot) -> Iterator[Item]:
        (begin,), length = _places(words, slot), len((slot.value or "").split())
        before, behind = words[:begin], words[begin + length :]
        yield Item(act, before + behind, "value cut", slot.name)
        if rivals := [one for one in self._rivals(act, slot, words) if _said(one)]:
            rival = self.dice.choice(rivals)
            yield Item(act, (*before, *(rival.value or "").split(), *behind), "value swapped", slot.name)

    def _clauses(self, act: Act, words: Words) -> Iterator[Item]:
        worded, parts = [slot for slot in act.slots if not _said(slot)], _parts(words)
        empty = [part for part in parts if len(part) > 2 and not any(_places(part, slot) for slot in act.slots)]
        if len(worded) == len(empty) == 1 < len(parts):
            rest = tuple(word for part in parts if part is not empty[0] for word in part)
            yield Item(act, rest, "clause cut", worded[0].name)
        if act.name == "inform" and self.clauses:
            slot, clause = self.dice.choice(self.clauses)
            own = [one for one in act.slots if one.name == slot.name]
            if own == [slot] or not any(_alike(one, slot) for one in own):
                yield Item(act, (*words, "and", *clause), "clause added", slot.name)

    def _rivals(self, act: Act, slot: Slot, words: Words) -> list[Slot]:
        alike = [one for one in self.slots[act.name] if one.name == slot.name and not _alike(one, slot)]
        return [one for one in alike if not _within(one, words)]


def _act(condition: object) -> Act:
    assert isinstance(condition, Act)
    return condition


def _said(slot: Slot) -> bool:
    return slot.value is not None and can_be_said(slot.value)


def _parts(words: Words) -> list[Words]:
    cuts = [0, *(i for i, word in enumerate(words) if word in BREAKS), len(words)]
    return [words[begin:end] for begin, end in pairwise(cuts)]


def _places(words: Words, slot: Slot) -> list[int]:
    return list(find_values(words, [tuple((slot.value or "?").split())]))


def _within(slot: Slot, words: Words) -> bool:
    parts = (slot.value or "?").replace(" and ", " or ").split(" or ")
    return _said(slot) and any(find_values(words, [tuple(part.split())]) for part in parts if part.split())


def _alike(one: Slot, other: Slot) -> bool:
    """Whether one value has all words of the other."""
    a, b = ({*(slot.value or "?").split()} - {"or", "and"} for slot in (one, other))
    return a <= b or b <= a


# --- measuring


def measured(judge: Judge, items: Iterable[Item]) -> dict[str, Any]:
    """How many of the items are found wrong in the planted slot, in another, only unsure, or not at all."""
    found = Counter[str]()
    for item in items:
        verdicts = judge.verdicts(item.act, item.words)
        wrong = {one.slot for one in verdicts if one.kind not in FINE}
        unsure = any(one.kind == "unsure" for one in verdicts)
        found["in the slot" if item.slot in wrong else "elsewhere" if wrong else "unsure" if unsure else "nothing"] += 1
        found["facts"] += len(verdicts)
        found["facts wrong"] += sum(one.kind not in FINE for one in verdicts)
        found["facts unsure"] += sum(one.kind == "unsure" for one in verdicts)
        found["items unsure"] += unsure
    return {"items": sum(found[kind] for kind in ("in the slot", "elsewhere", "unsure", "nothing")), **found}


def by_hand(judge: Judge, items: Sequence[Item], labels: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Labels (place, digest, {slot: kind}) against verdicts: what is wrong and found, and what is right and not."""
    found = Counter[str]()
    for place, digest, wrong in labels:
        item = items[place]
        if item.digest != digest:
            raise ValueError(f"item {place} is {item.digest}, and the label is for {digest}; label it anew")
        verdicts = judge.verdicts(item.act, item.words)
        flagged = {one.slot: one.kind for one in verdicts if one.kind not in FINE}
        found["wrong" if wrong else "right"] += 1
        found["wrong, found"] += bool(wrong) and bool(flagged)
        found["wrong, found in its slot"] += bool({*wrong} & {*flagged})
        found["wrong, of this kind"] += any(flagged.get(slot) == kind for slot, kind in wrong.items())
        found["right, alarmed"] += not wrong and bool(flagged)
        found["unsure"] += any(one.kind == "unsure" for one in verdicts)
    return dict(found)


def alarms_by_hand(judge: Judge, items: Sequence[Item], labels: Iterable[Sequence[Any]]) -> dict[str, int]:
    """How many of the references that a judge holds for wrong are so by labels (place, digest, {slot: kind})."""
    known = {(place, digest): wrong for place, digest, wrong in labels}
    alarmed = [
        (place, item.digest)
        for place, item in enumerate(items)
        if any(one.kind not in FINE for one in judge.verdicts(item.act, item.words))
    ]
    if new := [one for one in alarmed if one not in known]:
        raise ValueError(f"these alarms have no label: {new}; label them")
    return {"items by hand": len(items), "alarmed": len(alarmed), "wrong": sum(bool(known[one]) for one in alarmed)}


def run(
    data: Path, out: Path, *, labels: Path, seed: int = 0, tell: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Judges learnt from the validation text and from the training text, measured on pairs that they did not see.

    The one from the validation text is measured on the training text (to choose by) and on the test, the other on the
    validation text and the test; labels are those of the test.
    """
    texts = {part: read_rnnlg(data / "rnnlg_restaurant" / f"{part}.json")[0] for part in ("train", "valid", "test")}
    given, found = json.loads(labels.read_text()), dict[str, Any]()
    for part, others in (("valid", ("train", "test")), ("train", ("valid", "test"))):
        seen = {(str(one.condition), one.words) for one in texts[part]}
        for other in others:
            all_of_it = texts[other]
            judge = Judge.fit(texts[part], all_of_it.conditions)
            fresh = {(str(one.condition), one.words): one for one in all_of_it}
            new = Corpus(tuple(one for key, one in fresh.items() if key not in seen), other)
            wrong, began = planted(new, seed), time.perf_counter()
            rows = {"all references": [Item(_act(one.condition), one.words) for one in all_of_it]}
            rows["new references"] = [Item(_act(one.condition), one.words) for one in new]
            rows |= {rule: [one for one in wrong if one.rule == rule] for rule in {one.rule: 0 for one in wrong}}
            scored: dict[str, Any] = {name: measured(judge, items) for name, items in rows.items()}
            scored["ms"] = 1000 * (time.perf_counter() - began) / sum(map(len, rows.values()))
            if other == "test":
                scored["alarms by hand"] = alarms_by_hand(judge, rows["all references"], given["alarms"])
                scored["references by hand"] = by_hand(judge, rows["all references"], given["references"])
                altered = planted(all_of_it, given["seed"])
                scored["altered, by hand"] = by_hand(judge, altered, given["altered"])
            found[f"{part}, on {other}"] = scored
            tell(f"learnt from {part}, on {other}: {json.dumps(scored)}")
    write_results(out, "nlg-judge", found, table(found))
    return found


def table(found: dict[str, Any]) -> str:
    """A row for each judge, text and rule."""
    rows = [
        [name, rule, *(str(one.get(key, 0)) for key in ("items", "in the slot", "elsewhere", "unsure", "nothing"))]
        for name, scored in found.items()
        for rule, one in scored.items()
        if isinstance(one, dict) and "items" in one
    ]
    return markdown(["judge", "rule", "items", "found in the slot", "elsewhere", "unsure", "not"], rows)
