"""Clauses: a subject, what is said of it, and the relative clauses that stand between the two."""

from __future__ import annotations

from llrnn.text.french.choice import Weighted
from llrnn.text.french.closed import DONT, LEUR, LUI, MANNER, OU, PAR, QUE, QUI, preposition
from llrnn.text.french.lexicon import (
    BEFORE_INFINITIVE,
    FRAMES_OF_OBJECT,
    FRAMES_OF_SUBJECT,
    FRAMES_WITH_DE,
    GIVING,
    SEEMING,
    Draw,
    Frame,
)
from llrnn.text.french.nominal import any_pronoun, argument, noun_phrase, person_name
from llrnn.text.french.numbers import with_preposition, year
from llrnn.text.french.tree import Clause, Node, Nominal, Phrase, coordinated
from llrnn.text.french.verbal import (
    Clitic,
    Manner,
    active,
    any_manner,
    any_tense,
    attribute,
    copula,
    infinitive_phrase,
    passive,
    with_clitic,
)
from llrnn.text.french.words import MASCULINE, SINGULAR, Concord, participle

_KINDS = {
    "person": 10.0, "group": 1.4, "animal": 1.2, "abstract": 1.5, "object": 1.0, "event": 0.8, "building": 0.8,
    "document": 0.7, "vehicle": 0.6, "nature": 0.4, "plant": 0.4, "art": 0.5, "food": 0.3, "dish": 0.3, "clothing": 0.3,
    "feeling": 0.3, "force": 0.3, "drink": 0.15,
}  # fmt: skip
_SUBJECT_KINDS = Weighted(tuple(_KINDS), tuple(_KINDS.values()))
# What is said of a subject: of a person, and of anything else.
_PERSON_STYLES = Weighted(
    ("action", "giving", "copula", "seeming", "modal", "passive"), (0.6, 0.08, 0.12, 0.04, 0.12, 0.04)
)
_OTHER_STYLES = Weighted(("action", "copula", "seeming", "passive"), (0.46, 0.22, 0.04, 0.28))


def clause(draw: Draw, depth: int, *, subject: Nominal | None = None, tense: str | None = None) -> Clause:
    """A whole clause. `depth` bounds what hangs on its nouns."""
    subject = subject or any_subject(draw, depth)
    manner = any_manner(draw, subject.agreement, tense or any_tense(draw))
    predicate, relation = _said_of(draw, subject, manner, depth)
    nodes = subject.attach(predicate.head, relation) + predicate.nodes
    return Clause(nodes, predicate.head, subject, manner.tense)


def any_subject(draw: Draw, depth: int) -> Nominal:
    kind = draw.item(_SUBJECT_KINDS)
    if kind != "person":
        return _modified(draw, noun_phrase(draw, kind, depth=depth), depth)
    return person_subject(draw, depth)


def person_subject(draw: Draw, depth: int) -> Nominal:
    choice = draw.random.random()
    if choice < 0.24:
        return any_pronoun(draw)
    if choice < 0.42:
        return person_name(draw)
    if choice < 0.45:
        return coordinated(person_name(draw), person_name(draw))
    return _modified(draw, noun_phrase(draw, "person", depth=depth), depth)


def _modified(draw: Draw, nominal: Nominal, depth: int) -> Nominal:
    """Add a relative clause, or a participle, now and then."""
    if depth < 1:
        return nominal
    if draw.chance(0.16):
        nominal.nodes += relative(draw, nominal).attach(nominal.head, "acl:relcl")
    elif nominal.kind != "person" and nominal.kind in FRAMES_OF_OBJECT and draw.chance(0.08):
        nominal.nodes += _participial(draw, nominal).attach(nominal.head, "acl")
    return nominal


def _participial(draw: Draw, nominal: Nominal) -> Phrase:
    """`(une maison) construite en 1920`, `(une lettre) écrite par la reine`."""
    frame = draw.topical(FRAMES_OF_OBJECT[nominal.kind])
    gender, number, _ = nominal.agreement
    head = Node(participle(draw.topical(frame.verbs).lemma, gender, number, passive=True))
    return Phrase([head, *_agent(draw, frame, head)], head)


def _agent(draw: Draw, frame: Frame, head: Node) -> list[Node]:
    if draw.chance(0.3) and "person" in frame.subjects:
        return year(draw).attach(head, "obl:mod")
    agent = argument(draw, draw.one(frame.subjects), depth=0, owner=Concord(MASCULINE, SINGULAR))
    nodes = agent.attach(head, "obl:agent")
    return [Node(PAR, agent.head, "case"), *nodes]


def _said_of(draw: Draw, subject: Nominal, manner: Manner, depth: int) -> tuple[Phrase, str]:
    """The predicate, and the relation of the subject to it."""
    kind = subject.kind
    style = draw.item(_PERSON_STYLES if kind == "person" else _OTHER_STYLES)
    if style == "passive" and kind in FRAMES_OF_OBJECT:
        return _passive(draw, subject, manner), "nsubj:pass"
    if style == "giving":
        return _giving(draw, subject, manner), "nsubj"
    if style == "modal":
        return _modal(draw, subject, manner, depth), "nsubj"
    if style == "seeming":
        return _seeming(draw, subject, manner), "nsubj"
    if style == "action" and kind in FRAMES_OF_SUBJECT:
        return action(draw, subject, manner, depth), "nsubj"
    return copula(attribute(draw, subject), subject.agreement, manner), "nsubj"


def action(draw: Draw, subject: Nominal, manner: Manner, depth: int) -> Phrase:
    frame = draw.topical(FRAMES_OF_SUBJECT[subject.kind])
    verb = draw.topical(frame.verbs)
    if frame.transitive and draw.chance(0.08):
        return with_clitic(draw, verb, subject.agreement, manner)
    predicate = active(verb, subject.agreement, manner, transitive=frame.transitive)
    predicate.nodes += _objects(draw, frame, predicate.head, subject, depth, negated=manner.negation is not None)
    return predicate


def _objects(
    draw: Draw, frame: Frame, head: Node, subject: Nominal, depth: int, *, negated: bool = False
) -> list[Node]:
    if not frame.objects:
        how = subject.kind in ("person", "group") and draw.chance(0.25)
        return [Node(draw.item(MANNER), head, "advmod")] if how else []
    kind = draw.one(frame.objects)
    owner = subject.agreement
    if frame.preposition:
        other = argument(draw, kind, depth=depth - 1, owner=owner, preposition=frame.preposition)
        return with_preposition(frame.preposition, other).attach(head, "obl:arg")
    thing = argument(draw, kind, depth=depth - 1, owner=owner, negated=negated)
    return _modified(draw, thing, depth - 1).attach(head, "obj")


def _giving(draw: Draw, subject: Nominal, manner: Manner) -> Phrase:
    """`elle a donné un livre à son frère`, `elle lui a donné un livre`."""
    frame = draw.topical(GIVING)
    verb = draw.topical(frame.verbs)
    pronominal = draw.chance(0.4)
    clitics = [Clitic(draw.one((LUI, LUI, LEUR)), "iobj")] if pronominal else []
    predicate = active(verb, subject.agreement, manner, transitive=True, clitics=clitics)
    predicate.nodes += _objects(draw, frame, predicate.head, subject, 0, negated=manner.negation is not None)
    if not pronominal:
        receiver = argument(draw, "person", depth=0, owner=subject.agreement, preposition="à")
        predicate.nodes += with_preposition("à", receiver).attach(predicate.head, "obl:arg")
    return predicate


def _modal(draw: Draw, subject: Nominal, manner: Manner, depth: int) -> Phrase:
    """`elle n'a pas voulu se lever`, `ils essaient de comprendre`."""
    marker, verbs = draw.one(BEFORE_INFINITIVE)
    predicate = active(draw.topical(verbs), subject.agreement, manner, transitive=False)
    predicate.nodes += infinitive_clause(draw, subject, marker, depth).attach(predicate.head, "xcomp")
    return predicate


def infinitive_clause(draw: Draw, subject: Nominal, marker: str, depth: int) -> Phrase:
    frame = draw.topical(FRAMES_OF_SUBJECT[subject.kind])
    phrase = infinitive_phrase(draw.topical(frame.verbs), subject.agreement)
    markers = [Node(word, phrase.head, "mark") for word in preposition(marker)]
    return Phrase(markers + phrase.nodes + _objects(draw, frame, phrase.head, subject, depth), phrase.head)


def _passive(draw: Draw, subject: Nominal, manner: Manner) -> Phrase:
    frame = draw.topical(FRAMES_OF_OBJECT[subject.kind])
    predicate = passive(draw.topical(frame.verbs), subject.agreement, manner)
    if draw.chance(0.5):
        agent = argument(draw, draw.one(frame.subjects), depth=0, owner=subject.agreement)
        nodes = agent.attach(predicate.head, "obl:agent")
        predicate.nodes += [Node(PAR, agent.head, "case"), *nodes]
    return predicate


def _seeming(draw: Draw, subject: Nominal, manner: Manner) -> Phrase:
    predicate = active(draw.topical(SEEMING), subject.agreement, manner, transitive=False)
    predicate.nodes += attribute(draw, subject).attach(predicate.head, "xcomp")
    return predicate


def relative(draw: Draw, antecedent: Nominal) -> Phrase:
    """`qui dort`, `que Marie a vue`, `dont il parle`, `où elle travaille`."""
    kind = antecedent.kind
    choice = draw.random.random()
    if kind in ("building", "nature") and choice < 0.35:
        return _relative_place(draw)
    if kind in FRAMES_WITH_DE and kind != "building" and choice < 0.2:
        return _relative_of(draw, kind)
    if kind in FRAMES_OF_OBJECT and choice < 0.55:
        return _relative_object(draw, antecedent)
    return _relative_subject(draw, antecedent)


def _relative_subject(draw: Draw, antecedent: Nominal) -> Phrase:
    manner = any_manner(draw, antecedent.agreement, any_tense(draw))
    predicate, relation = _said_of(draw, antecedent, manner, 0)
    return Phrase([Node(QUI, predicate.head, relation), *predicate.nodes], predicate.head)


def _relative_object(draw: Draw, antecedent: Nominal) -> Phrase:
    """The participle agrees with the antecedent: `les fleurs qu'elle a cueillies`."""
    frame = draw.topical(FRAMES_OF_OBJECT[antecedent.kind])
    kind = draw.one(frame.subjects)
    subject = person_subject(draw, 0) if kind == "person" else noun_phrase(draw, kind, depth=0)
    manner = any_manner(draw, subject.agreement, any_tense(draw))
    predicate = active(
        draw.topical(frame.verbs),
        subject.agreement,
        manner,
        transitive=True,
        object_before=antecedent.agreement,
    )
    pronoun = Node(QUE, predicate.head, "obj")
    return Phrase([pronoun, *subject.attach(predicate.head, "nsubj"), *predicate.nodes], predicate.head)


def _relative_of(draw: Draw, kind: str) -> Phrase:
    frame = draw.topical(FRAMES_WITH_DE[kind])
    verb = draw.topical(frame.verbs)
    subject = person_subject(draw, 0) if "person" in frame.subjects else noun_phrase(draw, frame.subjects[0], depth=0)
    predicate = active(verb, subject.agreement, any_manner(draw, subject.agreement, any_tense(draw)), transitive=False)
    pronoun = Node(DONT, predicate.head, "obl:arg")
    return Phrase([pronoun, *subject.attach(predicate.head, "nsubj"), *predicate.nodes], predicate.head)


def _relative_place(draw: Draw) -> Phrase:
    subject = person_subject(draw, 0)
    manner = any_manner(draw, subject.agreement, any_tense(draw))
    predicate = action(draw, subject, manner, 0)
    pronoun = Node(OU, predicate.head, "obl:mod")
    return Phrase([pronoun, *subject.attach(predicate.head, "nsubj"), *predicate.nodes], predicate.head)
