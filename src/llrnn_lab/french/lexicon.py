"""The dictionary: inflected words with their annotation, the closed classes, and seeded choice by kind and topic.

Inflection (plural, feminine, adverbs in -ment, elision before a vowel sound, conjugation) follows from the infinitive
or the lemma, a table of irregular verbs and spelling rules. Words are drawn by Zipf's law, so that few are frequent and
many are rare; the words of a topic come more often.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from random import Random
from typing import Generic, NamedTuple, TypeVar

from llrnn_lab.french import word_lists as lists

_VOWELS = "aàâäeéèêëiîïoôöuùûüœæ"
# Words whose h is aspirated keep the full article: le hibou, la honte. All others elide: l'homme, l'hôtel.
_NOT_ELIDING = ("onz", "oui", *lists.words("aspirated"))
_IN_X, _ALS, _AIL_TO_AUX = map(lists.words, ("plural_in_x", "plural_als", "plural_ail_to_aux"))
_FEMININES = dict(pair.split("/") for pair in lists.words("irregular_feminines"))
_FEMININE_ENDINGS = [pair.split("/") for pair in lists.words("feminine_endings")]

Six = tuple[str, ...]
"""One form for each of je, tu, il, nous, vous, ils."""

_IMPERFECT = ("ais", "ais", "ait", "ions", "iez", "aient")
_FUTURE = ("ai", "as", "a", "ons", "ez", "ont")
_SUBJUNCTIVE = ("e", "es", "e", "ions", "iez", "ent")
_PAST = {je: tuple(endings.split()) for je, endings in lists.rows("past_endings")}
_DOUBLING = lists.words("doubling")
# The two verbs whose imperfect, subjunctive and gerund follow from nothing else.
_SUBJUNCTIVES = {"être": "sois sois soit soyons soyez soient", "avoir": "aie aies ait ayons ayez aient"}
_IMPERFECT_STEMS = {"être": "ét"}
_GERUNDS = {"être": "étant", "avoir": "ayant", "savoir": "sachant"}
# `être` and `avoir` are no endings: `paraître` and `savoir` do not follow them.
_WHOLE_WORDS = ("être", "avoir", "aller", "dire", "rire", "lire")
_PREFIXED = {"sourire": "rire", "relire": "lire", "élire": "lire"}


@cache
def begins_with_vowel(form: str) -> bool:
    """Whether the word makes the one before it elide: `amie`, `homme`, `y`; not `hibou`, `onze`, `yaourt`, `8`."""
    lower = form.lower()
    if lower.startswith(_NOT_ELIDING):
        return False
    return lower[0] in _VOWELS or lower[0] == "h" or lower == "y" or lower.startswith("yv")


def plural(singular: str) -> str:
    """The plural of a noun or an adjective."""
    if singular.endswith(("s", "x", "z")):
        return singular
    if singular in _IN_X or (singular.endswith(("au", "eu")) and singular != "bleu"):
        return singular + "x"
    if singular in _AIL_TO_AUX:
        return singular[:-3] + "aux"
    if singular.endswith("al") and singular not in _ALS:
        return singular[:-2] + "aux"
    return singular + "s"


def feminine(masculine: str) -> str:
    """The feminine of an adjective, or of a noun for a person that behaves like one."""
    if masculine in _FEMININES:
        return _FEMININES[masculine]
    for ending, replacement in _FEMININE_ENDINGS:
        if masculine.endswith(ending):
            return masculine.removesuffix(ending) + replacement
    return masculine if masculine.endswith("e") else masculine + "e"


def manner_adverb(adjective: str) -> str:
    """`lent` gives `lentement` by its feminine, `prudent` prudemment, `vrai` vraiment."""
    if adjective != "lent" and adjective.endswith(("ent", "ant")):
        return adjective[:-2] + "mment"
    return (adjective if adjective[-1] in "iué" else feminine(adjective)) + "ment"


class Paradigm(NamedTuple):
    """All the forms of a verb; `tenses` by name, the participle in the masculine singular."""

    tenses: Mapping[str, Six]
    participle: str
    gerund: str


class _Parts(NamedTuple):
    """What the other forms follow from: the present, the future stem, je in the passé simple, and so on."""

    present: Six
    future: str
    past: str
    participle: str
    subjunctive: Six = ()

    def prefixed(self, prefix: str) -> _Parts:
        present, subjunctive = (tuple(prefix + form for form in forms) for forms in (self.present, self.subjunctive))
        return _Parts(present, prefix + self.future, prefix + self.past, prefix + self.participle, subjunctive)


def _irregular(line: str) -> tuple[str, _Parts]:
    suffix, present, future, past, participle, *stems = (part.strip() for part in line.split(":"))
    return suffix, _Parts(tuple(present.split()), future, past, participle, tuple(" ".join(stems).split()))


_IRREGULARS = dict(map(_irregular, lists.text("irregular_verbs").strip().splitlines()))


@cache
def conjugate(infinitive: str) -> Paradigm:
    """All forms of a verb: `conjugate("manger").tenses["present"][3]` is `mangeons`."""
    parts = _parts(infinitive)
    nous = _IMPERFECT_STEMS.get(infinitive, parts.present[3].removesuffix("ons"))
    tenses = {
        "present": parts.present,
        "imperfect": tuple(_hard(nous, ending) + ending for ending in _IMPERFECT),
        "past": _past(parts.past, infinitive),
        "future": tuple(parts.future + ending for ending in _FUTURE),
        "conditional": tuple(parts.future + ending for ending in _IMPERFECT),
        "subjunctive": _subjunctive(infinitive, parts, nous),
    }
    return Paradigm(tenses, parts.participle, _GERUNDS.get(infinitive, nous + "ant"))


def _parts(infinitive: str) -> _Parts:
    suffix = _irregular_suffix(infinitive)
    if suffix is not None:
        return _IRREGULARS[suffix].prefixed(infinitive.removesuffix(suffix))
    if infinitive.endswith("er"):
        return _first_group(infinitive)
    if infinitive.endswith("ir") and not infinitive.endswith("oir"):
        return _Parts(("s", "s", "t", "ssons", "ssez", "ssent"), "r", "s", "").prefixed(infinitive[:-1])
    assert infinitive.endswith("re"), infinitive
    return _Parts(("s", "s", "", "ons", "ez", "ent"), "r", "is", "u").prefixed(infinitive[:-2])


def _irregular_suffix(infinitive: str) -> str | None:
    if infinitive in _PREFIXED:
        return _PREFIXED[infinitive]
    fitting = [suffix for suffix in _IRREGULARS if infinitive.endswith(suffix)]
    fitting = [suffix for suffix in fitting if suffix not in _WHOLE_WORDS or suffix == infinitive]
    return max(fitting, key=len, default=None)


def _first_group(infinitive: str) -> _Parts:
    stem = infinitive[:-2]
    strong = _strong(infinitive)
    present = (strong + "e", strong + "es", strong + "e", _soft(stem) + "ons", stem + "ez", strong + "ent")
    # `préférer` keeps its é in the future; `acheter`, `jeter`, `nettoyer` change as in the present.
    future = infinitive if re.search("é[^aeiouyéè]+er$", infinitive) else strong + "er"
    if infinitive.endswith("envoyer"):
        future = infinitive.removesuffix("oyer") + "err"
    return _Parts(present, future, _soft(stem) + "ai", stem + "é")


def _strong(infinitive: str) -> str:
    """The stem before a silent ending: achèt-, jett-, nettoi-, préfèr-."""
    stem = infinitive[:-2]
    if infinitive in _DOUBLING:
        return stem + stem[-1]
    if re.search("[aou]y$", stem):
        return stem[:-1] + "i"
    return re.sub("(?:e(?=[^aeiouyéèêhx]$)|é(?=[^aeiouyéèêâîôû]+$))", "è", stem)


def _soft(stem: str) -> str:
    """g and c keep their sound before a and o: mangeons, commençons."""
    return stem + "e" if stem.endswith("g") else re.sub("c$", "ç", stem)


def _hard(stem: str, ending: str) -> str:
    """Undo the softening where it is not needed: mangeais but mangions, mangèrent."""
    return re.sub("ç$", "c", re.sub("ge$", "g", stem)) if ending.startswith(("i", "è")) else stem


def _past(je: str, infinitive: str) -> Six:
    pattern = re.search("(ai|in|i|u)s?$", je)
    assert pattern, infinitive
    stem = je[: pattern.start()]
    return tuple(_hard(stem, end) + end for end in _PAST[pattern.group(1)])


def _subjunctive(infinitive: str, parts: _Parts, nous: str) -> Six:
    if infinitive in _SUBJUNCTIVES:
        return tuple(_SUBJUNCTIVES[infinitive].split())
    strong, weak = parts.subjunctive or (parts.present[5].removesuffix("ent"), nous)
    return tuple((_hard(weak, end) if end[0] == "i" else strong) + end for end in _SUBJUNCTIVE)


T = TypeVar("T")

MASCULINE, FEMININE = "Masc", "Fem"
SINGULAR, PLURAL = "Sing", "Plur"
_EXPONENT = 2.7
_SHIFT = 8.0  # Mandelbrot's shift: the head of a list is flat, its tail steep
_BOOST = 6.0  # of the words of a topic
_TOPICS = [frozenset(words.split()) for _, words in lists.rows("topics")]
_WITH_ETRE = frozenset(lists.words("with_etre"))
# What a masculine adjective becomes before a vowel.
_BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
_MOOD_AND_TENSE = {name: names.split() for name, names in lists.rows("moods_and_tenses")}


class Weighted(Generic[T]):
    """Items drawn in proportion to their weights, by `Random.random` alone: it is the same in every Python."""

    __slots__ = ("_bounds", "_last", "items")

    def __init__(self, items: Sequence[T], weights: Sequence[float]) -> None:
        assert items, "nothing to choose from"
        self.items = items
        self._bounds = tuple(accumulate(weights))
        self._last = len(items) - 1

    def draw(self, random: Random) -> T:
        bounds = self._bounds
        return self.items[bisect(bounds, random.random() * bounds[-1], 0, self._last)]


def zipf(items: Sequence[T], boosts: Iterable[float] | None = None) -> Weighted[T]:
    """Items by rank, the first the most frequent: rank 0, 1, ... weighs 1 / (rank + shift) ** exponent (· boost)."""
    weights = [(rank + _SHIFT) ** -_EXPONENT for rank in range(len(items))]
    return Weighted(items, [w * boost for w, boost in zip(weights, boosts, strict=True)] if boosts else weights)


def weighted(name: str) -> Weighted[str]:
    """The keys of a table, each with its weight."""
    table = lists.rows(name)
    return Weighted([key for key, _ in table], [float(weight) for _, weight in table])


# --- words ---


class Concord(NamedTuple):
    """What other words take over from a noun or pronoun: agreement in gender, number and person."""

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
class Lexeme:
    """A noun or an adjective with its forms by gender and number; a noun has a gender of its own."""

    lemma: str
    forms: Mapping[tuple[str, str], Word]
    gender: str = MASCULINE
    countable: bool = True

    def word(self, agreement: Concord) -> Word:
        return self.forms[agreement.gender, agreement.number]

    @property
    def singular(self) -> Word:
        return self.forms[self.gender, SINGULAR]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb, pronominal (`se laver`) or not."""

    lemma: str
    reflexive: bool = False

    def auxiliary(self, *, transitive: bool) -> str:
        """`il est retourné` but `il a retourné la carte`."""
        return "être" if self.reflexive or (not transitive and self.lemma in _WITH_ETRE) else "avoir"


def _gender_number(gender: str, number: str) -> dict[str, str]:
    return {"Gender": gender, "Number": number}


_MASCULINE_SINGULAR = _gender_number(MASCULINE, SINGULAR)
_FEMININE_SINGULAR = _gender_number(FEMININE, SINGULAR)


def words(text: str, pos: str, feats: Mapping[str, str] | None = None) -> Weighted[Word]:
    """Forms that are their own lemmas, by rank."""
    return zipf([Word(form, form, pos, feats or {}) for form in text.split()])


def proper_names(text: str, gender: str) -> Weighted[Word]:
    return words(text, "PROPN", _gender_number(gender, SINGULAR))


def noun(text: str, gender: str) -> Lexeme:
    """The entry for `pain*` (star: singular only) or `arbre`."""
    lemma = text.rstrip("*")
    return Lexeme(lemma, _forms({gender: lemma}, lemma, "NOUN"), gender, not text.endswith("*"))


def nouns(text: str, gender: str) -> list[Lexeme]:
    return [noun(one, gender) for one in dict.fromkeys(text.split())]


@cache
def adjective(lemma: str) -> Lexeme:
    return Lexeme(lemma, _forms(_genders(lemma), lemma, "ADJ"))


def _genders(base: str) -> dict[str, str]:
    return {MASCULINE: base, FEMININE: feminine(base)}


def _forms(
    singulars: Mapping[str, str], lemma: str, pos: str, extra: Mapping[str, str] | None = None
) -> dict[tuple[str, str], Word]:
    return {
        (gender, number): Word(form, lemma, pos, {**_gender_number(gender, number), **(extra or {})})
        for gender, one in singulars.items()
        for number, form in ((SINGULAR, one), (PLURAL, plural(one)))
    }


@cache
def prenominal(entry: Lexeme, agreement: Concord) -> Word:
    """Before a masculine noun in a vowel, `beau` is `bel`."""
    word = entry.word(agreement)
    if agreement[:2] != (MASCULINE, SINGULAR) or entry.lemma not in _BEFORE_VOWEL:
        return word
    elided = Word(_BEFORE_VOWEL[entry.lemma], entry.lemma, "ADJ", word.feats)
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
    return _forms(_genders(base), lemma, "VERB", extra)[gender, number]


BEEN = Word("été", "être", "AUX", _MASCULINE_SINGULAR | {"Tense": "Past", "VerbForm": "Part"})


# --- closed classes: articles, pronouns, prepositions, conjunctions, adverbs, punctuation ---


def _eliding(form: str, lemma: str, pos: str, feats: dict[str, str] | None = None) -> Word:
    """A word that loses its last vowel before another: `de`, `que`, `je`."""
    feats = feats or {}
    return Word(form, lemma, pos, feats, Word(form[:-1] + "'", lemma, pos, feats))


_DEFINITE = {"Definite": "Def", "PronType": "Art"}
_INDEFINITE = {"Definite": "Ind", "PronType": "Art"}
_PERSONAL = {"PronType": "Prs"}
_RELATIVE = {"PronType": "Rel"}

# Before a vowel, the article no longer shows its gender.
_L = Word("l'", "le", "DET", _DEFINITE | {"Number": SINGULAR})
LE = Word("le", "le", "DET", _DEFINITE | _MASCULINE_SINGULAR, _L)
LA = Word("la", "le", "DET", _DEFINITE | _FEMININE_SINGULAR, _L)
LES = Word("les", "le", "DET", _DEFINITE | {"Number": PLURAL})
UN = Word("un", "un", "DET", _INDEFINITE | _MASCULINE_SINGULAR)
UNE = Word("une", "un", "DET", _INDEFINITE | _FEMININE_SINGULAR)
DES = Word("des", "un", "DET", _INDEFINITE | {"Number": PLURAL})
DE_ARTICLE = _eliding("de", "un", "DET", _INDEFINITE)
"""`de grandes maisons`, `pas de maison`"""
DE_PARTITIVE = _eliding("de", "de", "DET", _INDEFINITE)
"""`de la soupe`, `de l'eau`; with `le` it becomes `du`"""
CHAQUE = Word("chaque", "chaque", "DET", {"Number": SINGULAR, "PronType": "Tot"})
PLUSIEURS = Word("plusieurs", "plusieurs", "DET", {"Number": PLURAL, "PronType": "Ind"})
QUELQUES = Word("quelques", "quelque", "DET", {"Number": PLURAL, "PronType": "Ind"})

DE = _eliding("de", "de", "ADP")
A, EN, PAR = (Word(form, form, "ADP") for form in ("à", "en", "par"))
CONTRACTIONS = {
    (DE, LE): Word("du", "de", "ADP", LE.feats),
    (DE, LES): Word("des", "de", "ADP", LES.feats),
    (A, LE): Word("au", "à", "ADP", LE.feats),
    (A, LES): Word("aux", "à", "ADP", LES.feats),
    (DE_PARTITIVE, LE): Word("du", "de", "DET", UN.feats),
}

AND, OR, BUT, _CAR = (Word(form, form, "CCONJ") for form in ("et", "ou", "mais", "car"))
BECAUSE, IF, _QUAND, _COMME = (Word(form, form, "SCONJ") for form in ("parce", "si", "quand", "comme"))
THAT, _LORSQUE, _PUISQUE = (_eliding(form, form, "SCONJ") for form in ("que", "lorsque", "puisque"))
IF_ELIDED = Word("s'", "si", "SCONJ")
WHEN = [_QUAND, _LORSQUE]
SINCE = [_PUISQUE, _CAR, _COMME]

NE = _eliding("ne", "ne", "ADV", {"Polarity": "Neg"})
NEGATIONS = words("pas plus jamais pas guère", "ADV", {"Polarity": "Neg"})

QUI, DONT, OU = (Word(form, form, "PRON", _RELATIVE) for form in ("qui", "dont", "où"))
QUE = _eliding("que", "que", "PRON", _RELATIVE)
WHO = Word("qui", "qui", "PRON", {"PronType": "Int"})
CE = _eliding("ce", "ce", "PRON", {"PronType": "Dem"})
IL_IMPERSONAL = Word("il", "il", "PRON", _MASCULINE_SINGULAR | {"Person": "3"} | _PERSONAL)
Y = Word("y", "y", "PRON", {"Person": "3"} | _PERSONAL)
LUI = Word("lui", "lui", "PRON", {"Number": SINGULAR, "Person": "3"} | _PERSONAL)
LEUR = Word("leur", "lui", "PRON", {"Number": PLURAL, "Person": "3"} | _PERSONAL)

COMMA, STOP, QUESTION, EXCLAMATION = (Word(sign, sign, "PUNCT") for sign in ",.?!")

FREQUENCY, DEGREE, OPENERS = (words(lists.text(name), "ADV") for name in ("frequency", "degree", "openers"))
MANNER = words(" ".join(map(manner_adverb, lists.words("manner"))), "ADV")
TIMES = {tense: words(text, "ADV") for tense, text in lists.rows("times")}
# Prepositions of place before a building, a landscape or a thing; two words are joined by `fixed`.
PLACE = zipf(["dans", "devant", "derrière", "près de", "autour de", "à côté de", "loin de", "au-dessus de", "vers"])


_PERSONS = [(person, number) for number in (SINGULAR, PLURAL) for person in "123"]
_SUBJECTS = dict(zip(_PERSONS, ["je", "tu", "il", "nous", "vous", "ils"], strict=True))
_REFLEXIVES = dict(zip(_PERSONS, ["me", "te", "se", "nous", "vous", "se"], strict=True))
# Of one owner, then of several: before a masculine, a feminine, a plural noun.
_OWN = "mon/ma/mes ton/ta/tes son/sa/ses notre/notre/nos votre/votre/vos leur/leur/leurs"
_POSSESSIVES = dict(zip(_PERSONS, (forms.split("/") for forms in _OWN.split()), strict=True))


@cache
def preposition(text: str) -> tuple[Word, ...]:
    """`près de` as its words."""
    known = {"de": DE, "à": A, "en": EN}
    return tuple(known[form] if form in known else Word(form, form, "ADP") for form in text.split())


def definite(gender: str, number: str) -> Word:
    return LES if number == PLURAL else LE if gender == MASCULINE else LA


def indefinite(gender: str, number: str) -> Word:
    return DES if number == PLURAL else UN if gender == MASCULINE else UNE


@cache
def demonstrative(gender: str, number: str) -> Word:
    feats = {"PronType": "Dem"}
    if number == PLURAL:
        return Word("ces", "ce", "DET", feats | {"Number": PLURAL})
    feats |= _gender_number(gender, number)
    if gender == FEMININE:
        return Word("cette", "ce", "DET", feats)
    return Word("ce", "ce", "DET", feats, Word("cet", "ce", "DET", feats))


@cache
def possessive(gender: str, number: str, owner: Concord) -> Word:
    """`mon amie`: before a vowel the feminine borrows the masculine form."""
    feats = {"Number": number, "Person": owner.person, "Poss": "Yes", "PronType": "Prs"}
    masculine, feminine, many = _POSSESSIVES[owner.person, owner.number]
    if number == PLURAL or masculine == feminine:
        return Word(masculine if number == SINGULAR else many, "son", "DET", feats)
    one = Word(masculine, "son", "DET", feats | {"Gender": gender})
    return one if gender == MASCULINE else Word(feminine, "son", "DET", one.feats, one)


@cache
def subject_pronoun(agreement: Concord) -> Word:
    gender, number, person = agreement
    feats = {"Number": number, "Person": person, "PronType": "Prs"}
    if person == "3":
        form = ("il" if gender == MASCULINE else "elle") + ("s" if number == PLURAL else "")
        return Word(form, "il", "PRON", feats | {"Gender": gender})
    form = _SUBJECTS[person, number]
    return _eliding("je", "je", "PRON", feats) if form == "je" else Word(form, form, "PRON", feats)


@cache
def reflexive_pronoun(agreement: Concord) -> Word:
    feats = {"Person": agreement.person, "PronType": "Prs", "Reflex": "Yes"}
    if agreement.person == "3":
        return _eliding("se", "se", "PRON", feats)
    form, feats = _REFLEXIVES[agreement.person, agreement.number], feats | {"Number": agreement.number}
    return Word(form, "se", "PRON", feats) if agreement.number == PLURAL else _eliding(form, "se", "PRON", feats)


@cache
def object_pronoun(agreement: Concord) -> Word:
    feats = {"Number": agreement.number, "Person": "3", "PronType": "Prs"}
    if agreement.number == PLURAL:
        return Word("les", "le", "PRON", feats)
    form = "le" if agreement.gender == MASCULINE else "la"
    return _eliding(form, "le", "PRON", feats | {"Gender": agreement.gender})


# --- open classes, one way to draw for each topic ---

Entry = TypeVar("Entry", Lexeme, Verb)
PerTopic = tuple[Weighted[T], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Verbs that take the same arguments: kinds of subject, kinds of object, and the preposition of the object."""

    subjects: Sequence[str]
    preposition: str
    objects: Sequence[str]
    verbs: PerTopic[Verb]

    @property
    def transitive(self) -> bool:
        return bool(self.objects) and not self.preposition


def _by_topic(entries: Sequence[Entry]) -> PerTopic[Entry]:
    return tuple(zipf(entries, [_BOOST if one.lemma in topic else 1.0 for one in entries]) for topic in _TOPICS)


def _verbs(text: str) -> PerTopic[Verb]:
    return _by_topic([Verb(word.removeprefix("se."), word.startswith("se.")) for word in text.split()])


def _adjectives(table: Iterable[tuple[str, str]]) -> dict[str, PerTopic[Lexeme]]:
    return {group: _by_topic([adjective(lemma) for lemma in dict.fromkeys(text.split())]) for group, text in table}


def _people() -> list[Lexeme]:
    pairs = _interleaved(
        [pair.split("/") for pair in lists.words("people_pairs")],
        [[word, feminine(word)] for word in lists.words("people_regular")],
        [[word, word.removesuffix("eur") + "rice"] for word in lists.words("people_trice")],
        [[word, word.removesuffix("r") + "se"] for word in lists.words("people_euse")],
    )
    genders = (MASCULINE, FEMININE)
    people = dict.fromkeys(one for pair in pairs for one in zip(pair, genders, strict=True))
    return [noun(lemma, gender) for lemma, gender in people]


def _interleaved(*items_of: list[T]) -> list[T]:
    """All lists by relative rank, so that the frequent words of each stay frequent."""
    ranked = [(rank / len(items), item) for items in items_of for rank, item in enumerate(items)]
    return [item for _, item in sorted(ranked, key=lambda pair: pair[0])]


def _nouns(kind: str, masculine: str, feminine: str) -> list[Lexeme]:
    listed = _interleaved(nouns(masculine, MASCULINE), nouns(feminine, FEMININE))
    return _interleaved(_people(), listed) if kind == "person" else listed


def _frame(key: str, text: str) -> Frame:
    subjects, preposition, objects = (part.split() for part in key.split("|"))
    return Frame(subjects, " ".join(preposition), objects, _verbs(text))


def _frames_by_topic(frames: Sequence[Frame]) -> PerTopic[Frame]:
    """A frame weighs as many verbs as it has; those of the topic count more."""
    return tuple(
        Weighted(frames, [sum(_BOOST if verb.lemma in topic else 1.0 for verb in f.verbs[0].items) for f in frames])
        for topic in _TOPICS
    )


def _frames_of(fits: Callable[[Frame, str], bool]) -> dict[str, PerTopic[Frame]]:
    """The frames that fit each kind of noun that has any."""
    found = {kind: [frame for frame in FRAMES if fits(frame, kind)] for kind in _NOUNS}
    return {kind: _frames_by_topic(frames) for kind, frames in found.items() if frames}


_NOUNS = {
    kind: _by_topic(_nouns(kind, masculine, feminine))
    for (kind, masculine), (_, feminine) in zip(*map(lists.rows, ("masculine_nouns", "feminine_nouns")), strict=True)
}


def all_nouns(kind: str) -> Sequence[Lexeme]:
    """The nouns of a kind, the frequent ones first."""
    return _NOUNS[kind][0].items


_BEFORE, _AFTER = _adjectives(lists.rows("adjectives_before")), _adjectives(lists.rows("adjectives_after"))
_OF_KIND = {kind: [part.strip() for part in text.split("|")] for kind, text in lists.rows("kinds")}
COMPLEMENTS = {kind: [pair.rsplit(maxsplit=1) for pair in text.split(",")] for kind, (*_, text) in _OF_KIND.items()}
FRAMES = [_frame(*row) for row in lists.rows("frames")]
FRAMES_OF_SUBJECT = _frames_of(lambda frame, kind: kind in frame.subjects)
FRAMES_OF_OBJECT = _frames_of(lambda frame, kind: frame.transitive and kind in frame.objects)
FRAMES_WITH_DE = _frames_of(lambda frame, kind: frame.preposition == "de" and kind in frame.objects)
GIVING = _frames_by_topic([_frame(f"person | | {kinds}", text) for kinds, text in lists.rows("giving")])
SAYING, SEEMING = _verbs(lists.text("saying")), _verbs(lists.text("seeming"))
BEFORE_INFINITIVE = [(marker, _verbs(text)) for marker, text in lists.rows("before_infinitive")]


class Draw:
    """The dice of one sentence: its own random numbers and its topic."""

    __slots__ = ("random", "topic")

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topic = int(random.random() * len(_TOPICS))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one(self, options: Sequence[T]) -> T:
        return options[int(self.random.random() * len(options))]

    def between(self, low: int, high: int) -> int:
        return low + int(self.random.random() * (high - low + 1))

    def item(self, weighted: Weighted[T]) -> T:
        return weighted.draw(self.random)

    def topical(self, per_topic: PerTopic[T]) -> T:
        return per_topic[self.topic].draw(self.random)

    def frame(self, frames: PerTopic[Frame]) -> tuple[Frame, Verb]:
        frame = self.topical(frames)
        return frame, self.topical(frame.verbs)

    def noun(self, kind: str) -> Lexeme:
        return self.topical(_NOUNS[kind])

    def adjective_before(self, kind: str) -> Lexeme:
        return self.topical(_BEFORE[_OF_KIND[kind][0]])

    def adjective_after(self, kind: str, *, as_attribute: bool = False) -> Lexeme:
        return self.topical(_AFTER[self.one(_OF_KIND[kind][1 + as_attribute].split())])
