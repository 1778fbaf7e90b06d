"""Noun phrases: determiner, adjectives, numbers, complements, names and pronouns, all in agreement."""

from __future__ import annotations

from llrnn.text.french import names
from llrnn.text.french.adjectives import AFTER_OF_KIND, BEFORE_OF_KIND
from llrnn.text.french.choice import Weighted, zipf
from llrnn.text.french.closed import (
    CHAQUE,
    DE_ARTICLE,
    DE_PARTITIVE,
    DES,
    EN,
    PLUSIEURS,
    QUELQUES,
    A,
    definite,
    demonstrative,
    indefinite,
    possessive,
    subject_pronoun,
)
from llrnn.text.french.lexicon import Draw
from llrnn.text.french.numbers import digits, number_word, rounded, with_preposition
from llrnn.text.french.tree import Node, Nominal, Phrase, coordinated
from llrnn.text.french.words import (
    FEMININE,
    MASCULINE,
    PLURAL,
    SINGULAR,
    Concord,
    Noun,
    Word,
    gender_number,
    prenominal,
)

SOMEONE = Concord(MASCULINE, SINGULAR)


def _proper(text: str, gender: str) -> Weighted[Word]:
    return zipf([Word(form, form, "PROPN", gender_number(gender, SINGULAR)) for form in text.split()])


_FIRST_NAMES = {
    MASCULINE: _proper(names.FIRST_NAMES_MASCULINE, MASCULINE),
    FEMININE: _proper(names.FIRST_NAMES_FEMININE, FEMININE),
}
_FAMILY_NAMES = zipf([Word(form, form, "PROPN") for form in names.FAMILY_NAMES.split()])
_TOWNS = zipf([Word(form, form, "PROPN", {"Number": SINGULAR}) for form in names.TOWNS.split()])
_COUNTRIES = {
    FEMININE: _proper(names.COUNTRIES_FEMININE, FEMININE),
    MASCULINE: _proper(names.COUNTRIES_MASCULINE, MASCULINE),
}
_PRONOUNS = zipf(
    [
        Concord(MASCULINE, SINGULAR),
        Concord(FEMININE, SINGULAR),
        Concord(MASCULINE, PLURAL),
        Concord(MASCULINE, SINGULAR, "1"),
        Concord(FEMININE, PLURAL),
        Concord(MASCULINE, PLURAL, "1"),
        Concord(MASCULINE, PLURAL, "2"),
        Concord(FEMININE, SINGULAR, "1"),
        Concord(MASCULINE, SINGULAR, "2"),
        Concord(FEMININE, SINGULAR, "2"),
        Concord(FEMININE, PLURAL, "1"),
    ]
)
# What may complete a noun: preposition and kinds. The nouns in between are what agreement must reach across.
_COMPLEMENTS = {
    "person": (("de", "building"), ("de", "group"), ("de", "person"), ("de", "place"), ("avec", "clothing")),
    "animal": (("de", "person"), ("de", "building"), ("de", "nature")),
    "group": (("de", "place"), ("de", "person"), ("de", "country")),
    "food": (("de", "person"), ("de", "place")),
    "dish": (("à", "flavour"), ("à", "flavour"), ("de", "person")),
    "settlement": (("de", "country"), ("près de", "nature")),
    "drink": (("de", "place"), ("de", "person")),
    "plant": (("de", "building"), ("de", "nature"), ("près de", "building")),
    "object": (("de", "person"), ("en", "material"), ("de", "building")),
    "clothing": (("en", "fabric"), ("de", "person")),
    "vehicle": (("de", "person"), ("de", "group"), ("de", "place")),
    "building": (("de", "place"), ("près de", "nature"), ("de", "nature"), ("de", "person")),
    "nature": (("de", "country"), ("près de", "place"), ("autour de", "building")),
    "document": (("de", "person"), ("sur", "abstract"), ("sur", "event"), ("de", "group")),
    "art": (("de", "person"), ("sur", "event")),
    "abstract": (("de", "group"), ("de", "person"), ("de", "country"), ("pour", "person")),
    "feeling": (("de", "person"),),
    "event": (("de", "group"), ("de", "place"), ("contre", "abstract"), ("avec", "person")),
    "force": (("de", "place"),),
}


def pronoun(agreement: Concord) -> Nominal:
    head = Node(subject_pronoun(agreement))
    return Nominal([head], head, agreement, "person")


def any_pronoun(draw: Draw) -> Nominal:
    return pronoun(draw.item(_PRONOUNS))


def person_name(draw: Draw) -> Nominal:
    """`Marie` or `Marie Durand`."""
    gender = draw.one((MASCULINE, FEMININE))
    head = Node(draw.item(_FIRST_NAMES[gender]))
    nodes = [head, Node(draw.item(_FAMILY_NAMES), head, "flat:name")] if draw.chance(0.35) else [head]
    return Nominal(nodes, head, Concord(gender, SINGULAR), "person")


def town(draw: Draw) -> Nominal:
    head = Node(draw.item(_TOWNS))
    return Nominal([head], head, Concord(FEMININE, SINGULAR), "building")


def country(draw: Draw) -> Nominal:
    gender = draw.one((FEMININE, FEMININE, MASCULINE))
    head = Node(draw.item(_COUNTRIES[gender]))
    article = Node(definite(gender, SINGULAR), head, "det")
    return Nominal([article, head], head, Concord(gender, SINGULAR), "building")


def in_town_or_country(draw: Draw) -> Phrase:
    """`à Lyon`, `en France`, `au Canada`."""
    if draw.chance(0.6):
        return with_preposition("à", town(draw))
    place = country(draw)
    if place.agreement.gender == FEMININE:
        return Phrase([Node(EN, place.head, "case"), place.head], place.head)
    return Phrase([Node(A, place.head, "case"), *place.nodes], place.head)


def noun_phrase(
    draw: Draw, kind: str, *, depth: int = 1, article: str = "any", owner: Concord | None = SOMEONE
) -> Nominal:
    """A common noun with its determiner and what else comes along.

    `article` narrows the determiner: `specific` forbids un, des, du; `indefinite` allows nothing else; `negated`
    turns them into `de` (pas de pain). `owner` is whose thing a possessive names.
    """
    noun = draw.noun(kind)
    number = PLURAL if _may_be_plural(noun) and draw.chance(0.32) else SINGULAR
    agreement = Concord(noun.gender, number)
    head = Node(noun.word(number))
    completed = depth > 0 and kind in _COMPLEMENTS and draw.chance(0.27)
    before = _adjectives_before(draw, head, agreement, kind)
    # `son sac de Marie` would have two owners
    determiners = _determiners(draw, noun, agreement, article, None if completed else owner)
    if before and determiners == [DES]:
        determiners = [DE_ARTICLE]
    nodes = [*(Node(word, head, _relation_of(word)) for word in determiners), *before, head]
    if kind in AFTER_OF_KIND and not before and draw.chance(0.26):
        nodes.append(Node(draw.adjective_after(kind).word(agreement), head, "amod"))
    if completed:
        nodes += complement(draw, kind, depth - 1).attach(head, "nmod")
    return Nominal(nodes, head, agreement, kind)


def _may_be_plural(noun: Noun) -> bool:
    return noun.countable and noun.kind != "feeling"


def _relation_of(word: Word) -> str:
    return "nummod" if word.pos == "NUM" else "det"


def _adjectives_before(draw: Draw, head: Node, agreement: Concord, kind: str) -> list[Node]:
    if kind not in BEFORE_OF_KIND or not draw.chance(0.16):
        return []
    return [Node(prenominal(draw.adjective_before(kind), agreement), head, "amod")]


def _determiners(draw: Draw, noun: Noun, agreement: Concord, article: str, owner: Concord | None) -> list[Word]:
    gender, number, _ = agreement
    choice = 0.5 if article == "indefinite" else draw.random.random()
    if choice < 0.46 or (article == "specific" and choice < 0.78):
        return [definite(gender, number)]
    if choice >= 0.88 and owner is not None:
        return [possessive(gender, number, owner)]
    if choice >= 0.78:
        return [demonstrative(gender, number)]
    if article == "negated":
        return [DE_ARTICLE]
    if not noun.countable:
        return [DE_PARTITIVE, definite(gender, SINGULAR)]
    return [_counting(draw, agreement)]


def _counting(draw: Draw, agreement: Concord) -> Word:
    """`un`, `des`, `trois`, `37`, `plusieurs`, `chaque`."""
    gender, number, _ = agreement
    choice = draw.random.random()
    if number == SINGULAR:
        return CHAQUE if choice < 0.03 else indefinite(gender, number)
    if choice < 0.2:
        return number_word(draw)
    if choice < 0.34:
        return digits(str(rounded(draw, 2, 200)))
    if choice < 0.5:
        return draw.one((PLUSIEURS, QUELQUES))
    return DES


def complement(draw: Draw, kind: str, depth: int) -> Phrase:
    """`de la voisine`, `en bois`, `près de Lyon`, `au chocolat`."""
    text, other = draw.one(_COMPLEMENTS[kind])
    if other == "place":
        return with_preposition(text, town(draw))
    if other == "country":
        return with_preposition(text, country(draw))
    if other in ("material", "fabric"):
        material = Node(draw.noun(other).singular)
        return with_preposition(text, Phrase([material], material))
    if other == "flavour":
        return with_preposition(text, _flavour(draw))
    if other == "person" and draw.chance(0.25):
        return with_preposition(text, person_name(draw))
    return with_preposition(text, noun_phrase(draw, other, depth=depth, article=_after(text)))


def _flavour(draw: Draw) -> Phrase:
    noun = draw.noun("flavour")
    number = PLURAL if noun.countable else SINGULAR
    head = Node(noun.word(number))
    return Phrase([Node(definite(noun.gender, number), head, "det"), head], head)


def _after(text: str) -> str:
    """The articles that a preposition allows: `de des` and `de du` do not exist."""
    return "specific" if text.endswith("de") else "any"


def argument(
    draw: Draw, kind: str, *, depth: int, owner: Concord, preposition: str = "", negated: bool = False
) -> Nominal:
    """What a verb acts on: a noun phrase, a name, now and then two of them."""
    if kind == "place":
        return town(draw)
    if kind == "person" and draw.chance(0.2):
        return person_name(draw)
    article = "negated" if negated else _after(preposition)
    first = noun_phrase(draw, kind, depth=depth, owner=owner, article=article)
    if negated or preposition or not draw.chance(0.06):
        return first
    return coordinated(first, noun_phrase(draw, kind, depth=0, owner=owner, article=article))
