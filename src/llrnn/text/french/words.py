"""Words as they stand in a sentence (`Word`), and the dictionary entries they are inflected from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from llrnn.text.french.adjectives import BEFORE_VOWEL
from llrnn.text.french.conjugation import conjugate
from llrnn.text.french.morphology import feminine, plural
from llrnn.text.french.verbs import WITH_ETRE

MASCULINE, FEMININE = "Masc", "Fem"
SINGULAR, PLURAL = "Sing", "Plur"

_WITH_ETRE = frozenset(WITH_ETRE.split())
_MOOD_AND_TENSE = {
    "present": ("Ind", "Pres"),
    "imperfect": ("Ind", "Imp"),
    "past": ("Ind", "Past"),
    "future": ("Ind", "Fut"),
    "conditional": ("Cnd", "Pres"),
    "subjunctive": ("Sub", "Pres"),
}


class Concord(NamedTuple):
    """What other words take over from a noun or pronoun."""

    gender: str
    number: str
    person: str = "3"


NEUTRAL = Concord(MASCULINE, SINGULAR)


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """One inflected form with its annotation; `elided` takes its place before a vowel."""

    form: str
    lemma: str
    pos: str
    feats: Mapping[str, str] = field(default_factory=dict)
    elided: Word | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun with its gender, its kind (person, animal, place, ...) and its forms by number."""

    lemma: str
    kind: str
    gender: str
    countable: bool
    singular: Word
    plural: Word

    def word(self, number: str) -> Word:
        return self.singular if number == SINGULAR else self.plural


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective with its forms by gender and number."""

    lemma: str
    forms: Mapping[tuple[str, str], Word]

    def word(self, agreement: Concord) -> Word:
        return self.forms[agreement.gender, agreement.number]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with its paradigm and what it takes with it."""

    lemma: str
    reflexive: bool = False

    def auxiliary(self, *, transitive: bool) -> str:
        """`il est retourné` but `il a retourné la carte`."""
        return "être" if self.reflexive or (not transitive and self.lemma in _WITH_ETRE) else "avoir"


def gender_number(gender: str, number: str) -> dict[str, str]:
    return {"Gender": gender, "Number": number}


def noun(text: str, kind: str, gender: str) -> Noun:
    """The entry for `pain*` (star: singular only) or `arbre`."""
    lemma = text.rstrip("*")
    one = Word(lemma, lemma, "NOUN", gender_number(gender, SINGULAR))
    many = Word(plural(lemma), lemma, "NOUN", gender_number(gender, PLURAL))
    return Noun(lemma, kind, gender, not text.endswith("*"), one, many)


@cache
def adjective(lemma: str) -> Adjective:
    return Adjective(lemma, _four_forms(lemma, lemma, "ADJ", {}))


def _four_forms(base: str, lemma: str, pos: str, extra: dict[str, str]) -> dict[tuple[str, str], Word]:
    by_gender = {MASCULINE: base, FEMININE: feminine(base)}
    forms = {}
    for gender, one in by_gender.items():
        for number in (SINGULAR, PLURAL):
            form = one if number == SINGULAR else plural(one)
            feats = gender_number(gender, number) | extra
            forms[gender, number] = Word(form, lemma, pos, feats)
    return forms


@cache
def prenominal(entry: Adjective, agreement: Concord) -> Word:
    """Before a masculine noun in a vowel, `beau` is `bel`."""
    word = entry.word(agreement)
    if agreement[:2] != (MASCULINE, SINGULAR) or entry.lemma not in BEFORE_VOWEL:
        return word
    elided = Word(BEFORE_VOWEL[entry.lemma], entry.lemma, "ADJ", word.feats)
    return Word(word.form, word.lemma, "ADJ", word.feats, elided)


@cache
def finite(lemma: str, tense: str, person: str, number: str, pos: str = "VERB") -> Word:
    mood, tense_name = _MOOD_AND_TENSE[tense]
    form = conjugate(lemma).tenses[tense][int(person) - 1 + (3 if number == PLURAL else 0)]
    feats = {"Mood": mood, "Number": number, "Person": person, "Tense": tense_name, "VerbForm": "Fin"}
    return Word(form, lemma, pos, feats)


@cache
def infinitive(lemma: str) -> Word:
    return Word(lemma, lemma, "VERB", {"VerbForm": "Inf"})


@cache
def gerund(lemma: str) -> Word:
    return Word(conjugate(lemma).gerund, lemma, "VERB", {"Tense": "Pres", "VerbForm": "Part"})


@cache
def participle(lemma: str, gender: str, number: str, *, passive: bool = False) -> Word:
    extra = {"Tense": "Past", "VerbForm": "Part"} | ({"Voice": "Pass"} if passive else {})
    base = conjugate(lemma).participle
    if base == "dû":  # the accent is for the masculine singular alone
        base = base if (gender, number) == (MASCULINE, SINGULAR) else "du"
    return _four_forms(base, lemma, "VERB", extra)[gender, number]


BEEN = Word("été", "être", "AUX", gender_number(MASCULINE, SINGULAR) | {"Tense": "Past", "VerbForm": "Part"})
