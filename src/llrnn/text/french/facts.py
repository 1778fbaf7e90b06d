"""Plain facts with numbers in them: prices, births, populations, ages, distances, lengths."""

from __future__ import annotations

from collections.abc import Callable

from llrnn.text.french.clauses import person_subject
from llrnn.text.french.closed import DE, preposition
from llrnn.text.french.lexicon import Draw
from llrnn.text.french.nominal import in_town_or_country, noun_phrase, person_name, town
from llrnn.text.french.numbers import date, digits, price, quantity, rounded, unit, with_preposition
from llrnn.text.french.tree import Clause, Node, Nominal, Phrase
from llrnn.text.french.verbal import COMPOUND, Manner, active, any_tense
from llrnn.text.french.words import Verb

# What is sold, and for how much.
_PRICES = {
    "object": (2, 900), "clothing": (8, 600), "document": (2, 60), "dish": (2, 40), "vehicle": (900, 90000),
    "art": (20, 90000), "building": (20000, 900000),
}  # fmt: skip
_SOLD = tuple(kind for kind in _PRICES if kind != "building")


def _simple_tense(draw: Draw) -> str:
    tense = any_tense(draw)
    return "present" if tense in COMPOUND or tense == "past" else tense


def _measured(subject: Nominal, verb: str, tense: str, amount: Phrase, relation: str = "obj") -> Clause:
    """Subject, verb and a quantity: `le vase coûte 37 euros`."""
    predicate = active(Verb(verb), subject.agreement, Manner(tense), transitive=True)
    nodes = subject.attach(predicate.head, "nsubj") + predicate.nodes
    return Clause(nodes + amount.attach(predicate.head, relation), predicate.head, subject, tense)


def cost(draw: Draw) -> Clause:
    kind = draw.one(_SOLD)
    subject = noun_phrase(draw, kind, article="specific")
    return _measured(
        subject, draw.one(("coûter", "coûter", "valoir")), _simple_tense(draw), price(draw, *_PRICES[kind])
    )


def payment(draw: Draw) -> Clause:
    """`Marie a acheté le vase pour 37 euros`."""
    kind = draw.one(("object", "vehicle", "building"))
    verb = draw.one(("acheter", "vendre", "revendre"))
    clause = _measured(person_subject(draw, 1), verb, "perfect", noun_phrase(draw, kind, depth=0))
    amount = price(draw, *_PRICES[kind])
    clause.nodes += with_preposition("pour", amount).attach(clause.head, "obl:arg")
    return clause


def population(draw: Draw) -> Clause:
    subject = town(draw) if draw.chance(0.6) else noun_phrase(draw, "settlement", article="specific")
    number = digits(str(rounded(draw, 200, 900000)))
    return _measured(subject, draw.one(("compter", "avoir")), _simple_tense(draw), quantity(number, unit("habitant")))


def birth(draw: Draw) -> Clause:
    """`Marie Durand est née à Lyon en 1987`: the participle agrees."""
    subject = person_name(draw)
    verb = Verb(draw.one(("naître", "naître", "mourir")))
    tense = draw.one(("perfect", "perfect", "past"))
    predicate = active(verb, subject.agreement, Manner(tense), transitive=False)
    nodes = subject.attach(predicate.head, "nsubj") + predicate.nodes
    if draw.chance(0.7):
        nodes += in_town_or_country(draw).attach(predicate.head, "obl:mod")
    nodes += date(draw).attach(predicate.head, "obl:mod")
    return Clause(nodes, predicate.head, subject, tense)


def age(draw: Draw) -> Clause:
    years = quantity(digits(str(draw.between(3, 99))), unit("an"))
    return _measured(person_subject(draw, 1), "avoir", _simple_tense(draw), years)


def extent(draw: Draw) -> Clause:
    """`le pont mesure 120 mètres`, `le rapport compte 340 pages`, `le sac pèse 12 kilos`."""
    kind, verb, unit_name, most = draw.one(
        (("building", "mesurer", "mètre", 900), ("object", "peser", "kilo", 90), ("document", "compter", "page", 900),
         ("animal", "peser", "kilo", 900), ("event", "durer", "jour", 60), ("event", "durer", "heure", 20),
         ("nature", "mesurer", "kilomètre", 900)),
    )  # fmt: skip
    subject = noun_phrase(draw, kind, article="specific")
    amount = quantity(digits(str(rounded(draw, 2, most))), unit(unit_name))
    return _measured(subject, verb, _simple_tense(draw), amount)


def distance(draw: Draw) -> Clause:
    """`le village se trouve à 12 kilomètres de Lyon`."""
    subject = noun_phrase(draw, draw.one(("building", "nature")), depth=0, article="specific")
    amount = quantity(digits(str(rounded(draw, 2, 900))), unit("kilomètre"))
    from_town = town(draw)
    nodes = [Node(preposition("à")[0], amount.head, "case"), *amount.nodes, Node(DE, from_town.head, "case")]
    nodes += from_town.attach(amount.head, "nmod")
    tense = _simple_tense(draw)
    predicate = active(Verb("trouver", reflexive=True), subject.agreement, Manner(tense), transitive=False)
    amount.attach(predicate.head, "obl:arg")
    all_nodes = subject.attach(predicate.head, "nsubj") + predicate.nodes + nodes
    return Clause(all_nodes, predicate.head, subject, tense)


FACTS: tuple[Callable[[Draw], Clause], ...] = (
    cost,
    cost,
    payment,
    population,
    birth,
    birth,
    age,
    extent,
    distance,
)
