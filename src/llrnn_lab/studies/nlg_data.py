"""The restaurant corpus of dialog acts (RNNLG, Wen et al. 2015) as the files of a study.

    train.jsonl, train-5.jsonl, train-20.jsonl     all of the training text, and parts of it, one within the other
    valid.jsonl, test.jsonl                        as they come
    unseen.jsonl, valid-unseen.jsonl               test and valid with names and telephone numbers that nobody has seen

Every line is {"condition": "inform(name=x;food=thai)", "target": "x serves thai food"}, which `conditions = "act"`
reads. The source has one act with a quote too many: it is left out, and told.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from llrnn.ground.errors import CorpusError
from llrnn.ground.files import StrPath, write_atomically
from llrnn.text.conditions import NOT_SAID, Act, Slot, parse_act, values_of, words_of
from llrnn.text.corpus import Corpus, Sentence, find_values, placeholder
from llrnn.text.readers import PlainTokens, read_lines

NEW_SLOTS = ("name", "phone")  # whose values are replaced by unseen ones
SHARES = (5, 20, 100)  # percent of the training text
_ENDING = 2  # how many names must end in a word for new ones to do so
_JOINED = " and "  # a name may be two: `fresca and zarzuela`

_BEGINS = ("b", "br", "d", "dr", "f", "g", "gr", "k", "l", "m", "n", "p", "pl", "r", "s", "st", "t", "tr", "v", "z")
_MIDDLES = ("a", "e", "i", "o", "u", "ai", "ou")
_ENDS = ("", "", "", "l", "n", "r", "s", "x")


class Unseen(NamedTuple):
    """A corpus with new values, which is which, and how many of them the references do not say literally."""

    corpus: Corpus
    values: dict[tuple[str, str], str]  # (slot, old) -> new
    not_said: int


@dataclass(frozen=True)
class Parts:
    """What was written: files with their numbers of sentences, and what was left out or could not be replaced."""

    files: dict[Path, int]
    problems: tuple[str, ...]
    not_said: int


# --- reading


def read_rnnlg(path: StrPath) -> tuple[Corpus, tuple[str, ...]]:
    """The sentences of one file, lower case, with acts as conditions; and a message for each that has no act."""
    tokens = PlainTokens()
    sentences: list[Sentence] = []
    problems: list[str] = []
    for number, (written, reference) in enumerate(_rows(path), 1):
        name = f"{path}: item {number}"
        try:
            act = parse_act(written)
        except CorpusError as error:
            problems.append(f"{name} is left out: {error}")
            continue
        sentences.append(Sentence(tuple(tokens[word] for word in reference.lower().split()), act, name))
    return Corpus(tuple(sentences), Path(path).stem), tuple(problems)


def _rows(path: StrPath) -> Iterator[tuple[str, str]]:
    """(act, reference) for each item: JSON below comments."""
    content = "\n".join("" if line.startswith("#") else line for _, line in read_lines(path))
    try:
        items = json.loads(content)
    except json.JSONDecodeError as error:
        reason = f"JSON is required, a list of [act, reference, baseline] ({error.msg}); fetch the file anew"
        raise CorpusError(reason, path=path, line=error.lineno, column=error.colno) from error
    for number, item in enumerate(items if isinstance(items, list) else [items], 1):
        match item:
            case [str(act), str(reference), *_] if reference.split():
                yield act, reference
            case _:
                found = f"{str(item)[:60]!r} at item {number}"
                raise CorpusError(f"[act, reference, baseline] is required, found {found}; fetch it anew", path=path)


# --- writing


def write_parts(folder: StrPath, source: StrPath, shares: Sequence[int] = SHARES, seed: int = 0) -> Parts:
    """Write the files of a study, made from train.json, valid.json and test.json in the folder `source`."""
    read = {part: read_rnnlg(Path(source) / f"{part}.json") for part in ("train", "valid", "test")}
    corpora = {part: corpus for part, (corpus, _) in read.items()}
    texts = {f"train-{share}": part for share, part in _nested(corpora["train"], shares, seed).items() if share < 100}
    known = {word for corpus in corpora.values() for word in all_words(corpus)}
    endings = name_endings(corpora["train"])
    unseen = unseen_values(corpora["test"], seed=seed, avoid=known, endings=endings)
    valid = unseen_values(corpora["valid"], seed=seed + 1, avoid=known, endings=endings)
    Path(folder).mkdir(parents=True, exist_ok=True)
    files = {}
    for part, corpus in {**corpora, **texts, "unseen": unseen.corpus, "valid-unseen": valid.corpus}.items():
        path = Path(folder) / f"{part}.jsonl"
        write_atomically(path, as_lines(corpus))
        files[path] = len(corpus)
    return Parts(files, tuple(problem for _, problems in read.values() for problem in problems), unseen.not_said)


def _nested(corpus: Corpus, shares: Sequence[int], seed: int) -> dict[int, Corpus]:
    """Shares of a corpus in percent, each within the larger ones, in the order of the corpus."""
    if not all(0 < share <= 100 for share in shares):
        raise CorpusError(f"shares must be percentages from 1 to 100, found {list(shares)}; correct them")
    order = list(range(len(corpus)))
    random.Random(seed).shuffle(order)
    chosen = {share: sorted(order[: max(1, round(len(order) * share / 100))]) for share in shares}
    return {share: Corpus(tuple(corpus[i] for i in places), corpus.name) for share, places in chosen.items()}


def as_lines(corpus: Corpus) -> bytes:
    """Return a corpus as JSON lines of condition and target."""
    rows = ({"condition": str(sentence.condition), "target": " ".join(sentence.words)} for sentence in corpus)
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


# --- values that nobody has seen


def all_words(corpus: Corpus) -> set[str]:
    """The words of the targets and of the conditions."""
    return {word for sentence in corpus for word in (*sentence.words, *words_of(sentence.condition))}


def name_endings(corpus: Corpus) -> list[str]:
    """Words in which several names of a corpus end, such as grill."""
    names = {
        value for sentence in corpus if isinstance(sentence.condition, Act) for value in _names(sentence.condition)
    }
    ends = Counter(name.split()[-1] for name in names if len(name.split()) > 1)
    return sorted(word for word, count in ends.items() if count >= _ENDING)


def _names(act: Act) -> list[str]:
    return [name for value in act.values("name") if value not in NOT_SAID for name in value.split(_JOINED)]


def unseen_values(corpus: Corpus, seed: int = 0, avoid: Collection[str] = (), endings: Sequence[str] = ()) -> Unseen:
    """The same acts and references with another name and telephone number for each one that there is.

    New values have no word of `avoid`, but a name may end in one of `endings`. A reference that does not say a value
    literally (`the red door`) keeps what it says instead; `not_said` counts them.
    """
    invent = _Inventor(random.Random(seed), frozenset(avoid) | all_words(corpus), endings)
    found = (_renewed(sentence, invent) for sentence in corpus)
    sentences, missed = zip(*found, strict=True) if len(corpus) else ((), ())
    return Unseen(Corpus(tuple(sentences), f"{corpus.name}, unseen"), invent.made, sum(missed))


def _renewed(sentence: Sentence, invent: _Inventor) -> tuple[Sentence, int]:
    """A sentence with new values, and how many of them it does not say."""
    act = sentence.condition
    if not isinstance(act, Act):
        raise CorpusError(f"{sentence.name}: a dialog act is required as condition, found {act!r}; give one")
    slots = [Slot(slot.name, invent.value(slot)) for slot in act.slots]
    # the other values too, so that a short name is not found within a long address
    new = {
        tuple(old.value.split()): slot.value.split()
        for old, slot in reversed(list(zip(act.slots, slots, strict=True)))
        if old.value is not None and slot.value is not None
    }
    spans = find_values(sentence.words, new)
    renewed = {
        tuple(old.value.split()) for old, slot in zip(act.slots, slots, strict=True) if old != slot and old.value
    }
    words: list[str] = []
    place = 0
    while place < len(sentence.words):
        value = spans.get(place)
        words += [sentence.words[place]] if value is None else new[value]
        place += 1 if value is None else len(value)
    tokens = PlainTokens()
    made = replace(sentence, tokens=tuple(tokens[word] for word in words), condition=replace(act, slots=tuple(slots)))
    return made, len(renewed - set(spans.values()))


class _Inventor:
    """New values: the same one for the same old one, and no two alike."""

    def __init__(self, dice: random.Random, avoid: frozenset[str], endings: Sequence[str]) -> None:
        self.dice, self.used, self.endings = dice, set(avoid), endings
        self.made: dict[tuple[str, str], str] = {}

    def value(self, slot: Slot) -> str | None:
        if slot.name not in NEW_SLOTS or slot.value is None or slot.value in NOT_SAID:
            return slot.value
        joint = _JOINED if slot.name == "name" else None
        parts = slot.value.split(joint) if joint else [slot.value]
        return (joint or "").join(self.one(slot.name, part) for part in parts)

    def one(self, slot: str, old: str) -> str:
        if (slot, old) not in self.made:
            self.made[slot, old] = self.name() if slot == "name" else self.unused(self.number)
        return self.made[slot, old]

    def name(self) -> str:
        """One to three words; every second of several ends as real names do."""
        words = [self.unused(self.word) for _ in range(self.dice.choice((1, 2, 2, 3)))]
        if self.endings and len(words) > 1 and self.dice.random() < 0.5:
            words[-1] = self.dice.choice(self.endings)
        return " ".join(words)

    def unused(self, make: Callable[[], str]) -> str:
        while (word := make()) in self.used:
            pass
        self.used.add(word)
        return word

    def word(self) -> str:
        syllables = (self.dice.choice(_BEGINS) + self.dice.choice(_MIDDLES) for _ in range(self.dice.choice((2, 2, 3))))
        return "".join(syllables) + self.dice.choice(_ENDS)

    def number(self) -> str:
        return f"{self.dice.randrange(2 * 10**9, 10**10)}"


def relexicalise(words: Sequence[str], condition: object) -> list[str]:
    """Return words with placeholders such as SLOT_NAME replaced by the words of the condition's values.

    The condition is the dialogue act or record that the words were generated from. Several values of a slot are used in
    their order, the last one again if there are more placeholders. A placeholder of a slot that the condition does not
    have stays as it is.

        relexicalise(["SLOT_NAME", "is", "cheap"], {"name": "alamo"})       # ["alamo", "is", "cheap"]
    """
    waiting: dict[str, list[tuple[str, ...]]] = {}
    for slot, value in values_of(condition):
        waiting.setdefault(placeholder(slot), []).append(value)
    found: list[str] = []
    for word in words:
        values = waiting.get(word)
        if values is None:
            found.append(word)
        else:
            found += values.pop(0) if len(values) > 1 else values[0]
    return found
