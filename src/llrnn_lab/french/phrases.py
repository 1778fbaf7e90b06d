"""Phrases as dependency trees under construction: quantities and dates, noun phrases and names, verb groups.

Everything agrees in gender, number and person; `finished` makes a sentence of them: contraction, elision, numbering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Self

from llrnn.text.readers import Sentence, Token
from llrnn_lab.french import lexicon as lex
from llrnn_lab.french import word_lists as lists
from llrnn_lab.french.lexicon import FEMININE, MASCULINE, NEUTRAL, PLURAL, SINGULAR, Concord, Draw, Lexeme, Verb, Word

_CARDINAL = {"NumType": "Card"}
_NUMBER_WORDS = lex.words(lists.text("number_words"), "NUM", _CARDINAL | {"Number": PLURAL})
_MONTHS, _DAYS = (lex.zipf(lex.nouns(lists.text(name), MASCULINE)) for name in ("months", "days"))
_UNITS = {unit.lemma: unit for gender, text in lists.rows("units") for unit in lex.nouns(text, gender)}
_FIRST_NAMES, _COUNTRIES = (
    {gender: lex.proper_names(text, gender) for gender, text in lists.rows(name)}
    for name in ("first_names", "countries")
)
_FAMILY_NAMES = lex.words(lists.text("family_names"), "PROPN")
_TOWNS = lex.words(lists.text("towns"), "PROPN", {"Number": SINGULAR})
PRONOUNS = lex.zipf([Concord(*person.split(".")) for person in lists.words("pronouns")])
COMPOUND = {"perfect": "present", "pluperfect": "imperfect"}  # an auxiliary in a simple tense, and a participle
TENSES = lex.weighted("tenses")


# --- trees ---


@dataclass(slots=True, eq=False)
class Node:
    """A word in its place; `head` is None for the root."""

    word: Word
    head: Node | None = None
    relation: str = "root"
    index: int = 0


@dataclass(slots=True, eq=False)
class Phrase:
    """Words in order, and the one that the others hang on."""

    nodes: list[Node]
    head: Node

    def attach(self, head: Node, relation: str) -> list[Node]:
        """Hang the phrase on a word outside; returns its words, to be put in their place."""
        self.head.head, self.head.relation = head, relation
        return self.nodes

    def add(self, phrase: Phrase, relation: str) -> Self:
        """Hang another phrase on this one, after it."""
        self.nodes += phrase.attach(self.head, relation)
        return self

    def after(self, word: Word, relation: str) -> Self:
        """Hang one more word on this phrase, after it."""
        self.nodes.append(Node(word, self.head, relation))
        return self

    def before(self, *words: Word, relation: str) -> Self:
        """Hang words on this phrase, before it."""
        self.nodes[:0] = [Node(word, self.head, relation) for word in words]
        return self


@dataclass(slots=True, eq=False)
class Nominal(Phrase):
    """A phrase that others agree with; `kind` says what it names."""

    agreement: Concord
    kind: str


@dataclass(slots=True, eq=False)
class Clause(Phrase):
    """A phrase whose head is the verb or the attribute; it remembers its subject, so that a pronoun can take it up."""

    subject: Nominal
    tense: str


def single(word: Word) -> Phrase:
    """A phrase of one word."""
    head = Node(word)
    return Phrase([head], head)


def single_nominal(word: Word, agreement: Concord, kind: str) -> Nominal:
    head = Node(word)
    return Nominal([head], head, agreement, kind)


def determined(determiner: Word, word: Word) -> Phrase:
    """`le matin`, `cette année`"""
    return single(word).before(determiner, relation="det")


def with_preposition(text: str, phrase: Phrase) -> Phrase:
    """`près de` before a phrase: the first word is its case, the others are fixed to that."""
    first, *rest = lex.preposition(text)
    node = Node(first, phrase.head, "case")
    phrase.nodes[:0] = [node, *(Node(word, node, "fixed") for word in rest)]
    return phrase


def coordinated(first: Nominal, second: Nominal) -> Nominal:
    """`Marie et Paul`: plural, and masculine unless all are feminine."""
    both_feminine = first.agreement.gender == second.agreement.gender == FEMININE
    first.agreement = Concord(FEMININE if both_feminine else MASCULINE, PLURAL)
    return first.add(second.before(lex.AND, relation="cc"), "conj")


def finished(nodes: list[Node], name: str) -> Sentence:
    """The sentence: contracted, elided, numbered, with a capital at the start."""
    nodes = _contracted(nodes)
    for left, right in pairwise(nodes):
        if _elides(left, right):
            assert left.word.elided is not None
            left.word = left.word.elided
        elif left.word is lex.IF and right.word.form in ("il", "ils"):
            left.word = lex.IF_ELIDED
    for index, node in enumerate(nodes, start=1):
        node.index = index
    return Sentence((_token(nodes[0], capital=True), *map(_token, nodes[1:])), name=name)


def _contracted(nodes: list[Node]) -> list[Node]:
    """`de le` is `du`, unless the article elides: `de l'ami`."""
    kept = list(nodes)
    for position in range(len(nodes) - 2, -1, -1):
        merged = lex.CONTRACTIONS.get((nodes[position].word, nodes[position + 1].word))
        if merged is None or _elides(nodes[position + 1], nodes[position + 2]):
            continue
        nodes[position].word = merged
        del kept[position + 1]
    return kept


def _elides(left: Node, right: Node) -> bool:
    return left.word.elided is not None and lex.begins_with_vowel(right.word.form)


def _token(node: Node, capital: bool = False) -> Token:
    word = node.word
    form = word.form[0].upper() + word.form[1:] if capital else word.form
    head = node.head.index if node.head is not None else 0
    return Token(form, word.lemma, word.pos, word.feats, head, node.relation)


# --- numbers, in digits and in words: ages, prices, years, dates, durations ---


@cache
def digits(number: object) -> Word:
    return Word(str(number), str(number), "NUM", _CARDINAL)


def rounded(draw: Draw, low: int, high: int) -> int:
    """Of every size between the bounds, with two leading digits at most: small numbers are as likely as large ones."""
    value = low * (high / low) ** draw.random.random()
    scale = 1
    while value / scale >= 100:
        scale *= 10
    return max(low, int(value / scale) * scale)


def quantity(number: object, unit: str) -> Phrase:
    """`37 euros`, `trois jours`; one is singular."""
    word = number if isinstance(number, Word) else digits(number)
    noun = _UNITS[unit]
    counted = noun.word(Concord(noun.gender, SINGULAR if word.form == "1" else PLURAL))
    return single(counted).before(word, relation="nummod")


def price(draw: Draw, low: int, high: int) -> Phrase:
    amount = str(rounded(draw, low, high))
    if len(amount) <= 2 and draw.chance(0.3):
        amount += draw.one((",50", ",20", ",90", ",99", ",80"))
    return quantity(amount, draw.one(("euro", "euro", "euro", "euro", "dollar", "franc")))


def duration(draw: Draw) -> Phrase:
    number = draw.item(_NUMBER_WORDS) if draw.chance(0.5) else draw.between(2, 60)
    return quantity(number, draw.one(("an", "jour", "heure", "mois", "semaine", "minute")))


def year(draw: Draw, first: int = 1850, last: int = 2024) -> Phrase:
    """`en 1987`: recent years are more frequent."""
    return single(digits(last - int((last - first) * draw.random.random() ** 1.7))).before(lex.EN, relation="case")


def date(draw: Draw, *, future: bool = False) -> Phrase:
    """`le 14 juillet 1989`, `en juillet`, `en juillet 1989`, `en 1989`, `lundi`."""
    shape = draw.random.random()
    first, last = (2026, 2060) if future else (1850, 2024)
    if shape < 0.45:
        return year(draw, first, last)
    if shape < 0.6:
        return single(draw.item(_DAYS).singular)
    month = single(draw.item(_MONTHS).singular)
    if draw.chance(0.6):
        month.after(year(draw, first, last).head.word, "nmod")
    if draw.chance(0.4):
        return month.before(lex.EN, relation="case")
    return month.before(digits(draw.between(2, 30)), relation="nummod").before(lex.LE, relation="det")


# --- noun phrases: determiner, adjectives, numbers, complements, names and pronouns ---


def person_name(draw: Draw) -> Nominal:
    """`Marie` or `Marie Durand`."""
    gender = draw.one((MASCULINE, FEMININE))
    name = single_nominal(draw.item(_FIRST_NAMES[gender]), Concord(gender, SINGULAR), "person")
    return name.after(draw.item(_FAMILY_NAMES), "flat:name") if draw.chance(0.35) else name


def town(draw: Draw) -> Nominal:
    return single_nominal(draw.item(_TOWNS), Concord(FEMININE, SINGULAR), "building")


def country(draw: Draw) -> Nominal:
    gender = draw.one((FEMININE, FEMININE, MASCULINE))
    name = single_nominal(draw.item(_COUNTRIES[gender]), Concord(gender, SINGULAR), "building")
    return name.before(lex.definite(gender, SINGULAR), relation="det")


def in_town_or_country(draw: Draw) -> Phrase:
    """`à Lyon`, `en France`, `au Canada`."""
    if draw.chance(0.6):
        return with_preposition("à", town(draw))
    place = country(draw)
    if place.agreement.gender == FEMININE:
        return single(place.head.word).before(lex.EN, relation="case")
    return place.before(lex.A, relation="case")


def noun_phrase(
    draw: Draw, kind: str, *, depth: int = 1, article: str = "any", owner: Concord | None = NEUTRAL
) -> Nominal:
    """A common noun with its determiner and what else comes along.

    `article` narrows the determiner: `specific` forbids un, des, du; `indefinite` allows nothing else; `negated`
    turns them into `de` (pas de pain). `owner` is whose thing a possessive names.
    """
    noun = draw.noun(kind)
    number = PLURAL if noun.countable and kind != "feeling" and draw.chance(0.32) else SINGULAR
    agreement = Concord(noun.gender, number)
    phrase = single_nominal(noun.word(agreement), agreement, kind)
    completed = depth > 0 and draw.chance(0.27)
    adjective_first = draw.chance(0.16)
    if adjective_first:
        phrase.before(lex.prenominal(draw.adjective_before(kind), agreement), relation="amod")
    # `son sac de Marie` would have two owners
    determiners = _determiners(draw, noun, agreement, article, None if completed else owner)
    if adjective_first and determiners == [lex.DES]:
        determiners = [lex.DE_ARTICLE]
    phrase.before(*determiners, relation="nummod" if determiners[0].pos == "NUM" else "det")
    if not adjective_first and draw.chance(0.26):
        phrase.after(draw.adjective_after(kind).word(agreement), "amod")
    return phrase.add(_complement(draw, kind, depth - 1), "nmod") if completed else phrase


def _determiners(draw: Draw, noun: Lexeme, agreement: Concord, article: str, owner: Concord | None) -> list[Word]:
    gender, number, _ = agreement
    choice = 0.5 if article == "indefinite" else draw.random.random()
    if choice < 0.46 or (article == "specific" and choice < 0.78):
        return [lex.definite(gender, number)]
    if choice >= 0.88 and owner is not None:
        return [lex.possessive(gender, number, owner)]
    if choice >= 0.78:
        return [lex.demonstrative(gender, number)]
    if article == "negated":
        return [lex.DE_ARTICLE]
    if not noun.countable:
        return [lex.DE_PARTITIVE, lex.definite(gender, SINGULAR)]
    return [_counting(draw, agreement)]


def _counting(draw: Draw, agreement: Concord) -> Word:
    """`un`, `des`, `trois`, `37`, `plusieurs`, `chaque`."""
    gender, number, _ = agreement
    choice = draw.random.random()
    if number == SINGULAR:
        return lex.CHAQUE if choice < 0.03 else lex.indefinite(gender, number)
    if choice < 0.2:
        return draw.item(_NUMBER_WORDS)
    if choice < 0.34:
        return digits(rounded(draw, 2, 200))
    return draw.one((lex.PLUSIEURS, lex.QUELQUES)) if choice < 0.5 else lex.DES


def _complement(draw: Draw, kind: str, depth: int) -> Phrase:
    """`de la voisine`, `en bois`, `près de Lyon`, `au chocolat`."""
    text, other = draw.one(lex.COMPLEMENTS[kind])
    if other == "place":
        return with_preposition(text, town(draw))
    if other == "country":
        return with_preposition(text, country(draw))
    if other in ("material", "fabric"):
        return with_preposition(text, single(draw.noun(other).singular))
    if other == "flavour":
        noun = draw.noun("flavour")
        agreement = Concord(noun.gender, PLURAL if noun.countable else SINGULAR)
        return with_preposition(text, determined(lex.definite(*agreement[:2]), noun.word(agreement)))
    if other == "person" and draw.chance(0.25):
        return with_preposition(text, person_name(draw))
    return with_preposition(text, noun_phrase(draw, other, depth=depth, article=article_after(text)))


def article_after(text: str) -> str:
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
    article = "negated" if negated else article_after(preposition)
    first = noun_phrase(draw, kind, depth=depth, owner=owner, article=article)
    if negated or preposition or not draw.chance(0.06):
        return first
    return coordinated(first, noun_phrase(draw, kind, depth=0, owner=owner, article=article))


# --- verb groups: tense, auxiliaries, negation, clitics and the adverbs among them, participles in agreement ---


@dataclass(frozen=True, slots=True)
class Manner:
    """How something is said to happen: when, whether, how often."""

    tense: str
    negation: Word | None = None
    adverb: Word | None = None


Clitic = tuple[Word, str]
"""An object pronoun before the verb, and its relation to it."""


def any_manner(draw: Draw, subject: Concord, tense: str | None = None) -> Manner:
    tense = tense or draw.item(TENSES)
    if tense == "past" and subject.person != "3":
        tense = "perfect"  # nobody says `vous chantâtes`
    if draw.chance(0.1):
        return Manner(tense, negation=draw.item(lex.NEGATIONS))
    return Manner(tense, adverb=draw.item(lex.FREQUENCY) if draw.chance(0.07) else None)


def active(
    verb: Verb,
    subject: Concord,
    manner: Manner,
    *,
    transitive: bool,
    clitics: Sequence[Clitic] = (),
    object_before: Concord | None = None,
) -> Phrase:
    """`ne les a pas souvent vues`; `object_before` is what a participle with avoir agrees with."""
    if manner.tense not in COMPOUND:
        chain, relations = [lex.finite(verb.lemma, manner.tense, subject.person, subject.number)], []
    else:
        auxiliary = verb.auxiliary(transitive=transitive)
        agreement = subject if auxiliary == "être" else object_before or NEUTRAL
        past = lex.participle(verb.lemma, agreement.gender, agreement.number)
        chain, relations = [_auxiliary(auxiliary, subject, manner), past], ["aux:tense"]
    return _group(chain, relations, manner, subject if verb.reflexive else None, clitics)


def with_clitic(draw: Draw, verb: Verb, subject: Concord, manner: Manner) -> Phrase:
    """`il les a vues`: the participle agrees with the pronoun before it."""
    thing = Concord(draw.one((MASCULINE, FEMININE)), draw.one((SINGULAR, SINGULAR, PLURAL)))
    clitic = (lex.object_pronoun(thing), "obj")
    return active(verb, subject, manner, transitive=True, clitics=[clitic], object_before=thing)


def passive(verb: Verb, subject: Concord, manner: Manner) -> Phrase:
    """`n'a jamais été construite`."""
    chain, relations = _being(subject, manner, "aux:pass")
    return _group([*chain, lex.participle(verb.lemma, subject.gender, subject.number, passive=True)], relations, manner)


def copula(attribute: Phrase, subject: Concord, manner: Manner) -> Phrase:
    """`n'était pas souvent` + attribute, which is the head."""
    head = attribute.head
    nodes = [Node(word, head, relation) for word, relation in zip(*_being(subject, manner, "cop"), strict=True)]
    return Phrase(_with_negation(nodes, head, manner) + attribute.nodes, head)


def attribute(draw: Draw, subject: Nominal) -> Phrase:
    """`très fatiguée`, `calme et discrète`: agrees with the subject, however far it is."""
    phrase = single(draw.adjective_after(subject.kind, as_attribute=True).word(subject.agreement))
    if draw.chance(0.35):
        phrase.before(draw.item(lex.DEGREE), relation="advmod")
    second = single(draw.adjective_after(subject.kind, as_attribute=True).word(subject.agreement))
    if second.head.word is not phrase.head.word and draw.chance(0.1):
        phrase.add(second.before(lex.AND, relation="cc"), "conj")
    return phrase


def _auxiliary(lemma: str, subject: Concord, manner: Manner) -> Word:
    return lex.finite(lemma, COMPOUND.get(manner.tense, manner.tense), subject.person, subject.number, "AUX")


def _being(subject: Concord, manner: Manner, relation: str) -> tuple[list[Word], list[str]]:
    """`être` in any tense, with the relations of its words: `est`, or `a été`."""
    if manner.tense in COMPOUND:
        return [_auxiliary("avoir", subject, manner), lex.BEEN], ["aux:tense", relation]
    return [_auxiliary("être", subject, manner)], [relation]


def _group(
    chain: list[Word],
    relations: list[str],
    manner: Manner,
    reflexive: Concord | None = None,
    clitics: Sequence[Clitic] = (),
) -> Phrase:
    """The verbs of a group, the last of them its head; `reflexive`: who a pronominal verb agrees with."""
    head = Node(chain[-1])
    nodes = [Node(word, head, relation) for word, relation in zip(chain, relations, strict=False)]
    before = [Node(lex.reflexive_pronoun(reflexive), head, "expl:comp")] if reflexive else []
    before += [Node(word, head, relation) for word, relation in clitics]
    return Phrase(_with_negation([*nodes, head], head, manner, before), head)


def _with_negation(nodes: list[Node], head: Node, manner: Manner, clitics: Sequence[Node] = ()) -> list[Node]:
    """`ne` comes before the clitics; `pas` and the adverb come after the first verb of the group."""
    first, *rest = nodes
    after = [Node(word, head, "advmod") for word in (manner.negation, manner.adverb) if word is not None]
    negation = [Node(lex.NE, head, "advmod")] if manner.negation is not None else []
    return [*negation, *clitics, first, *after, *rest]
