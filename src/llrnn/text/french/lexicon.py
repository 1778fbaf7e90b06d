"""The dictionary: which nouns, adjectives and verbs there are, drawn by kind and topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from llrnn.text.french import adjectives, nouns, verbs
from llrnn.text.french.choice import Weighted, boosted
from llrnn.text.french.morphology import feminine
from llrnn.text.french.topics import TOPICS
from llrnn.text.french.words import FEMININE, MASCULINE, Adjective, Noun, Verb, adjective, noun

T = TypeVar("T")
Entry = TypeVar("Entry", Noun, Adjective, Verb)

_BOOST = 6.0
_TOPIC_WORDS = tuple(frozenset(text.split()) for text in TOPICS)
TOPIC_COUNT = len(TOPICS)


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Verbs that take the same arguments: kinds of subject, kinds of object, and the preposition of the object."""

    subjects: tuple[str, ...]
    preposition: str
    objects: tuple[str, ...]
    verbs: tuple[Weighted[Verb], ...]
    """One per topic."""

    @property
    def transitive(self) -> bool:
        return bool(self.objects) and not self.preposition


def by_topic(entries: Sequence[Entry]) -> tuple[Weighted[Entry], ...]:
    """One way to draw for each topic: its own words come more often."""
    return tuple(boosted(entries, [entry.lemma in words for entry in entries], _BOOST) for words in _TOPIC_WORDS)


def verb(text: str) -> Verb:
    """The entry for `laver` or `se.laver`."""
    return Verb(text.removeprefix("se."), text.startswith("se."))


def verb_list(text: str) -> tuple[Weighted[Verb], ...]:
    return by_topic([verb(word) for word in text.split()])


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _people() -> list[Noun]:
    pairs = _interleaved(
        [pair.split("/") for pair in nouns.PEOPLE_PAIRS.split()],
        [[word, feminine(word)] for word in nouns.PEOPLE_REGULAR.split()],
        [[word, word.removesuffix("eur") + "rice"] for word in nouns.PEOPLE_TRICE.split()],
        [[word, word.removesuffix("r") + "se"] for word in nouns.PEOPLE_EUSE.split()],
    )
    people = {}
    for masculine, counterpart in pairs:
        people[masculine, MASCULINE] = noun(masculine, "person", MASCULINE)
        people[counterpart, FEMININE] = noun(counterpart, "person", FEMININE)
    return list(people.values())


def _interleaved(*lists: list[T]) -> list[T]:
    """All lists by relative rank, so that the frequent words of each stay frequent."""
    ranked = [(rank / len(items), item) for items in lists for rank, item in enumerate(items)]
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]


def _nouns_of(kind: str) -> list[Noun]:
    masculine = [noun(text, kind, MASCULINE) for text in _unique(nouns.MASCULINE[kind].split())]
    feminine_ = [noun(text, kind, FEMININE) for text in _unique(nouns.FEMININE[kind].split())]
    listed = _interleaved(masculine, feminine_)
    return _interleaved(_people(), listed) if kind == "person" else listed


def _adjectives(group: str, table: dict[str, str]) -> list[Adjective]:
    return [adjective(lemma) for lemma in _unique(table[group].split())]


def _frames() -> tuple[Frame, ...]:
    return tuple(
        Frame(tuple(subjects.split()), preposition, tuple(objects.split()), verb_list(text))
        for subjects, preposition, objects, text in verbs.FRAMES
    )


def _frames_for_topics(frames: Sequence[Frame]) -> tuple[Weighted[Frame], ...]:
    """A frame weighs as many verbs as it has; those of the topic count more."""
    weights = [
        [sum(_BOOST if verb.lemma in words else 1.0 for verb in frame.verbs[0].items) for frame in frames]
        for words in _TOPIC_WORDS
    ]
    return tuple(Weighted(frames, row) for row in weights)


KINDS = tuple(nouns.MASCULINE)
NOUNS = {kind: by_topic(_nouns_of(kind)) for kind in KINDS}
BEFORE = {group: by_topic(_adjectives(group, adjectives.BEFORE)) for group in adjectives.BEFORE}
AFTER = {group: by_topic(_adjectives(group, adjectives.AFTER)) for group in adjectives.AFTER}
FRAMES = _frames()
_GIVING = tuple(Frame(("person",), "", tuple(kinds.split()), verb_list(text)) for kinds, text in verbs.GIVING)
_BY_SUBJECT = {kind: [frame for frame in FRAMES if kind in frame.subjects] for kind in KINDS}
_BY_OBJECT = {kind: [frame for frame in FRAMES if frame.transitive and kind in frame.objects] for kind in KINDS}
_OF = {kind: [frame for frame in FRAMES if frame.preposition == "de" and kind in frame.objects] for kind in KINDS}
FRAMES_OF_SUBJECT = {kind: _frames_for_topics(found) for kind, found in _BY_SUBJECT.items() if found}
FRAMES_OF_OBJECT = {kind: _frames_for_topics(found) for kind, found in _BY_OBJECT.items() if found}
FRAMES_WITH_DE = {kind: _frames_for_topics(found) for kind, found in _OF.items() if found}
GIVING = _frames_for_topics(_GIVING)
SAYING = verb_list(verbs.SAYING)
SEEMING = verb_list(verbs.SEEMING)
BEFORE_INFINITIVE = tuple((marker, verb_list(text)) for marker, text in verbs.BEFORE_INFINITIVE)


class Draw:
    """The dice of one sentence: its own random numbers and its topic."""

    __slots__ = ("random", "topic")

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topic = int(random.random() * TOPIC_COUNT)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one(self, options: Sequence[T]) -> T:
        return options[int(self.random.random() * len(options))]

    def between(self, low: int, high: int) -> int:
        return low + int(self.random.random() * (high - low + 1))

    def item(self, weighted: Weighted[T]) -> T:
        return weighted.draw(self.random)

    def topical(self, per_topic: Sequence[Weighted[T]]) -> T:
        return per_topic[self.topic].draw(self.random)

    def noun(self, kind: str) -> Noun:
        return NOUNS[kind][self.topic].draw(self.random)

    def adjective_after(self, kind: str) -> Adjective:
        return self.topical(AFTER[self.one(_AFTER_GROUPS[kind])])

    def adjective_before(self, kind: str) -> Adjective:
        return self.topical(BEFORE[adjectives.BEFORE_OF_KIND[kind]])

    def attribute(self, kind: str) -> Adjective:
        return self.topical(AFTER[self.one(_ATTRIBUTE_GROUPS[kind])])


_AFTER_GROUPS = {kind: groups.split() for kind, groups in adjectives.AFTER_OF_KIND.items()}
_ATTRIBUTE_GROUPS = {kind: groups.split() for kind, groups in adjectives.ATTRIBUTE_OF_KIND.items()}
