"""Verb groups: tense, auxiliaries, negation, clitics and the adverbs among them, with participles in agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llrnn.text.french.choice import Weighted
from llrnn.text.french.closed import AND, DEGREE, FREQUENCY, NE, NEGATIONS, object_pronoun, reflexive_pronoun
from llrnn.text.french.lexicon import Draw
from llrnn.text.french.tree import Node, Nominal, Phrase
from llrnn.text.french.words import (
    BEEN,
    FEMININE,
    MASCULINE,
    NEUTRAL,
    PLURAL,
    SINGULAR,
    Concord,
    Verb,
    Word,
    finite,
    infinitive,
    participle,
)

# A compound tense is an auxiliary in a simple tense, and a participle.
COMPOUND = {"perfect": "present", "pluperfect": "imperfect"}


_TENSES = Weighted(
    ("present", "perfect", "imperfect", "past", "future", "conditional", "pluperfect"),
    (0.36, 0.21, 0.15, 0.12, 0.09, 0.03, 0.04),
)


@dataclass(frozen=True, slots=True)
class Manner:
    """How something is said to happen: when, whether, how often."""

    tense: str
    negation: Word | None = None
    adverb: Word | None = None


@dataclass(frozen=True, slots=True)
class Clitic:
    """An object pronoun before the verb; a direct one makes the participle agree."""

    word: Word
    relation: str
    agreement: Concord | None = None


def any_tense(draw: Draw) -> str:
    return draw.item(_TENSES)


def any_manner(draw: Draw, subject: Concord, tense: str) -> Manner:
    if tense == "past" and subject.person != "3":
        tense = "perfect"  # nobody says `vous chantâtes`
    if draw.chance(0.1):
        return Manner(tense, negation=draw.item(NEGATIONS))
    return Manner(tense, adverb=draw.item(FREQUENCY) if draw.chance(0.07) else None)


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
        return _group([_finite(verb.lemma, subject, manner.tense)], [], verb, subject, manner, clitics)
    auxiliary = verb.auxiliary(transitive=transitive)
    agreement = subject if auxiliary == "être" else object_before or NEUTRAL
    chain = [
        _auxiliary(auxiliary, subject, manner),
        participle(verb.lemma, agreement.gender, agreement.number),
    ]
    return _group(chain, ["aux:tense"], verb, subject, manner, clitics)


def with_clitic(draw: Draw, verb: Verb, subject: Concord, manner: Manner) -> Phrase:
    """`il les a vues`: the participle agrees with the pronoun before it."""
    thing = Concord(draw.one((MASCULINE, FEMININE)), draw.one((SINGULAR, SINGULAR, PLURAL)))
    clitic = Clitic(object_pronoun(thing), "obj", thing)
    return active(verb, subject, manner, transitive=True, clitics=[clitic], object_before=thing)


def passive(verb: Verb, subject: Concord, manner: Manner) -> Phrase:
    """`n'a jamais été construite`."""
    chain, relations = _being(subject, manner, "aux:pass")
    chain.append(participle(verb.lemma, subject.gender, subject.number, passive=True))
    return _group(chain, relations, Verb(verb.lemma), subject, manner, ())


def copula(attribute: Phrase, subject: Concord, manner: Manner) -> Phrase:
    """`n'était pas souvent` + attribute, which is the head."""
    chain, relations = _being(subject, manner, "cop")
    head = attribute.head
    nodes = [Node(word, head, relation) for word, relation in zip(chain, relations, strict=True)]
    return Phrase(_with_negation(nodes, head, manner) + attribute.nodes, head)


def attribute(draw: Draw, subject: Nominal) -> Phrase:
    """`très fatiguée`, `calme et discrète`: agrees with the subject, however far it is."""
    head = Node(draw.attribute(subject.kind).word(subject.agreement))
    nodes = [Node(draw.item(DEGREE), head, "advmod"), head] if draw.chance(0.35) else [head]
    second = Node(draw.attribute(subject.kind).word(subject.agreement), head, "conj")
    if second.word is not head.word and draw.chance(0.1):
        nodes += [Node(AND, second, "cc"), second]
    return Phrase(nodes, head)


def infinitive_phrase(verb: Verb, subject: Concord) -> Phrase:
    """`se promener`: the pronoun agrees with the subject, `je veux me promener`."""
    head = Node(infinitive(verb.lemma))
    reflexive = [Node(reflexive_pronoun(subject), head, "expl:comp")] if verb.reflexive else []
    return Phrase([*reflexive, head], head)


def _finite(lemma: str, subject: Concord, tense: str, pos: str = "VERB") -> Word:
    return finite(lemma, tense, subject.person, subject.number, pos)


def _auxiliary(lemma: str, subject: Concord, manner: Manner) -> Word:
    return _finite(lemma, subject, COMPOUND.get(manner.tense, manner.tense), "AUX")


def _being(subject: Concord, manner: Manner, relation: str) -> tuple[list[Word], list[str]]:
    """`être` in any tense, with the relations of its words: `est`, or `a été`."""
    if manner.tense in COMPOUND:
        return [_auxiliary("avoir", subject, manner), BEEN], ["aux:tense", relation]
    return [_auxiliary("être", subject, manner)], [relation]


def _group(
    chain: list[Word],
    relations: list[str],
    verb: Verb,
    subject: Concord,
    manner: Manner,
    clitics: Sequence[Clitic],
) -> Phrase:
    head = Node(chain[-1])
    nodes = [Node(word, head, relation) for word, relation in zip(chain, relations, strict=False)]
    before = [Node(reflexive_pronoun(subject), head, "expl:comp")] if verb.reflexive else []
    before += [Node(clitic.word, head, clitic.relation) for clitic in clitics]
    return Phrase(_with_negation([*nodes, head], head, manner, before), head)


def _with_negation(nodes: list[Node], head: Node, manner: Manner, clitics: Sequence[Node] = ()) -> list[Node]:
    """`ne` comes before the clitics; `pas` and the adverb come after the first verb of the group."""
    first, *rest = nodes
    before = [*clitics, first]
    after = []
    if manner.negation is not None:
        before.insert(0, Node(NE, head, "advmod"))
        after.append(Node(manner.negation, head, "advmod"))
    if manner.adverb is not None:
        after.append(Node(manner.adverb, head, "advmod"))
    return [*before, *after, *rest]
