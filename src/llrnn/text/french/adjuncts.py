"""When, where, why and how: what may stand before or after a clause."""

from __future__ import annotations

from llrnn.text.french.choice import zipf
from llrnn.text.french.clauses import infinitive_clause
from llrnn.text.french.closed import CHAQUE, COMMA, OPENERS, PLACE, TIMES, definite, demonstrative
from llrnn.text.french.lexicon import Draw
from llrnn.text.french.nominal import in_town_or_country, noun_phrase
from llrnn.text.french.numbers import clock, date, duration, with_preposition
from llrnn.text.french.tree import Clause, Node, Phrase
from llrnn.text.french.words import FEMININE, MASCULINE, SINGULAR, Concord, adjective, gerund, noun

# Which adverbs of time suit a tense.
_TIME_OF_TENSE = {
    "present": "present",
    "conditional": "present",
    "subjunctive": "present",
    "perfect": "past",
    "past": "past",
    "pluperfect": "past",
    "imperfect": "imperfect",
    "future": "future",
}
_GENDERS = {"semaine": FEMININE, "année": FEMININE, "nuit": FEMININE, "saison": FEMININE}
_PERIODS, _RECURRING = (
    zipf([noun(lemma, "time", _GENDERS.get(lemma, MASCULINE)) for lemma in text.split()])
    for text in (
        "année semaine mois été hiver siècle printemps automne",
        "jour matin soir année semaine nuit été hiver mois saison",
    )
)
_PLACED_KINDS = ("person", "animal", "vehicle", "object")


def when(draw: Draw, tense: str) -> Phrase:
    """`hier`, `la semaine dernière`, `en 1987`, `chaque jour`, `pendant 3 heures`."""
    time = _TIME_OF_TENSE[tense]
    shape = draw.random.random()
    if shape < 0.3:
        head = Node(draw.item(TIMES[time]))
        return Phrase([head], head)
    if time == "past":
        return date(draw) if shape < 0.65 else _dated(draw, "dernier", shape)
    if time == "future":
        return date(draw, future=True) if shape < 0.5 else _dated(draw, "prochain", shape)
    return _repeated(draw, time, shape)


def _dated(draw: Draw, which: str, shape: float) -> Phrase:
    if shape > 0.88:
        return with_preposition("pendant", duration(draw))
    if shape > 0.8:
        return clock(draw)
    period = draw.item(_PERIODS)
    head = Node(period.singular)
    agreement = Concord(period.gender, SINGULAR)
    article = Node(definite(period.gender, SINGULAR), head, "det")
    return Phrase([article, head, Node(adjective(which).word(agreement), head, "amod")], head)


def _repeated(draw: Draw, time: str, shape: float) -> Phrase:
    if time == "present" and shape < 0.5:
        return with_preposition("depuis", duration(draw))
    period = draw.item(_RECURRING)
    head = Node(period.singular)
    determiner = CHAQUE if shape < 0.85 or period.lemma == "jour" else demonstrative(period.gender, SINGULAR)
    return Phrase([Node(determiner, head, "det"), head], head)


def where(draw: Draw) -> Phrase:
    if draw.chance(0.45):
        return in_town_or_country(draw)
    text = draw.item(PLACE)
    kind = draw.one(("building", "building", "nature"))
    return with_preposition(
        text, noun_phrase(draw, kind, depth=0, article="specific" if text.endswith("de") else "any")
    )


def purpose(draw: Draw, clause: Clause) -> Phrase:
    """`pour acheter du pain`, `sans réfléchir`, `avant de partir`."""
    marker = draw.one(("pour", "pour", "sans", "avant de"))
    return infinitive_clause(draw, clause.subject, marker, 0)


def while_doing(draw: Draw, clause: Clause) -> Phrase:
    """`en chantant`, `en lisant le journal`."""
    phrase = infinitive_clause(draw, clause.subject, "en", 0)
    phrase.head.word = gerund(phrase.head.word.lemma)
    return phrase


def add_after(draw: Draw, clause: Clause) -> None:
    """Something after the clause, fit for its subject and its tense."""
    choice = draw.random.random()
    kind = clause.subject.kind
    if choice < 0.2 and kind == "person" and clause.head.word.pos == "VERB":
        phrase = purpose(draw, clause) if draw.chance(0.65) else while_doing(draw, clause)
        clause.nodes += phrase.attach(clause.head, "advcl")
    elif choice < 0.6 and _may_be_placed(clause):
        clause.nodes += where(draw).attach(clause.head, "obl:mod")
    else:
        clause.nodes += _attached(when(draw, clause.tense), clause.head)


def _may_be_placed(clause: Clause) -> bool:
    """Not where the verb has a complement of its own: `il va à Lyon au Canada`."""
    return clause.subject.kind in _PLACED_KINDS and all(node.relation != "obl:arg" for node in clause.nodes)


def add_before(draw: Draw, clause: Clause) -> None:
    """`Hier, ...`, `À Lyon, ...`"""
    placed = draw.chance(0.25) and _may_be_placed(clause)
    _open(clause, where(draw) if placed else when(draw, clause.tense))


def add_opener(draw: Draw, clause: Clause) -> None:
    """`Pourtant, ...`"""
    opener = Node(draw.item(OPENERS))
    _open(clause, Phrase([opener], opener))


def _open(clause: Clause, phrase: Phrase) -> None:
    """What opens a sentence is set off by a comma."""
    nodes = _attached(phrase, clause.head)
    clause.nodes = [*nodes, Node(COMMA, phrase.head, "punct"), *clause.nodes]


def _attached(phrase: Phrase, head: Node) -> list[Node]:
    return phrase.attach(head, "advmod" if phrase.head.word.pos == "ADV" else "obl:mod")
