"""Whole sentences: one clause or several, joined, nested or asked, always the same for a seed and an index."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from llrnn.text.corpus.source import Sentence
from llrnn.text.french.adjuncts import add_after, add_before, add_opener, where
from llrnn.text.french.choice import Weighted
from llrnn.text.french.clauses import action, clause, person_subject, relative
from llrnn.text.french.closed import (
    AND,
    BECAUSE,
    BUT,
    CE,
    COMMA,
    EXCLAMATION,
    IF,
    IL_IMPERSONAL,
    OR,
    QUESTION,
    SINCE,
    STOP,
    THAT,
    WHEN,
    WHO,
    Y,
    subject_pronoun,
)
from llrnn.text.french.facts import FACTS
from llrnn.text.french.lexicon import SAYING, Draw
from llrnn.text.french.nominal import noun_phrase
from llrnn.text.french.tree import Clause, Node, Nominal, Phrase, finished
from llrnn.text.french.verbal import Manner, active, any_manner, any_tense, attribute, copula
from llrnn.text.french.words import NEUTRAL, Verb, Word

SHORTEST, LONGEST = 6, 26

# The tense inside a reported clause, by that of the clause that reports it.
_REPORTED = {
    "present": ("present", "perfect", "future", "imperfect"),
    "future": ("present", "perfect", "future"),
    "conditional": ("present", "perfect"),
}
_REPORTED_PAST = ("imperfect", "pluperfect", "conditional", "imperfect")
_BACKGROUND = {"perfect": "imperfect", "past": "imperfect", "pluperfect": "imperfect", "future": "present"}


def sentence(seed: int, index: int) -> Sentence:
    """Sentence `index` of the corpus of `seed`: a function of the two and of nothing else."""
    draw = Draw(Random(f"{seed}/{index}"))
    while True:
        made = finished(_nodes(draw), f"french-{seed}-{index}")
        if SHORTEST <= len(made.tokens) <= LONGEST:
            return made


def _nodes(draw: Draw) -> list[Node]:
    phrase, end = draw.item(_PLANS)(draw)
    return [*phrase.nodes, Node(end, phrase.head, "punct")]


Planned = tuple[Phrase, Word]
"""What is said, and the sign it ends with."""


def _ended(draw: Draw, phrase: Phrase) -> Planned:
    return phrase, EXCLAMATION if draw.chance(0.02) else STOP


def _simple(draw: Draw) -> Planned:
    made = clause(draw, 2)
    # one of the two: `hier, il partit la semaine dernière` would say when twice
    if draw.chance(0.22):
        add_before(draw, made)
        return _ended(draw, made)
    if draw.chance(0.72):
        add_after(draw, made)
    if draw.chance(0.06):
        add_opener(draw, made)
    return _ended(draw, made)


def _fact(draw: Draw) -> Planned:
    return draw.one(FACTS)(draw), STOP


def _joined(draw: Draw) -> Planned:
    """`..., et ...`, `... mais ...`"""
    first = clause(draw, 1)
    second = clause(draw, 0, subject=_taken_up(draw, first, 0.5), tense=first.tense)
    conjunction = Node(draw.one((AND, AND, AND, BUT, BUT, BUT, OR)), second.head, "cc")
    comma = [Node(COMMA, second.head, "punct")] if draw.chance(0.5) else []
    first.nodes += [*comma, conjunction, *second.attach(first.head, "conj")]
    if draw.chance(0.12):
        add_before(draw, first)
    return _ended(draw, first)


def _taken_up(draw: Draw, earlier: Clause, probability: float) -> Nominal | None:
    """A pronoun for the subject of an earlier clause: same gender, number and person, same kind of thing."""
    if not draw.chance(probability):
        return None
    head = Node(subject_pronoun(earlier.subject.agreement))
    return Nominal([head], head, earlier.subject.agreement, earlier.subject.kind)


def _subordinate(draw: Draw) -> Planned:
    """`... parce que ...`, `quand ..., ...`, `si ..., ...`"""
    choice = draw.random.random()
    if choice < 0.25:
        return _conditional(draw)
    main = clause(draw, 1)
    time_clause = choice < 0.6
    tense = main.tense if time_clause and main.tense != "conditional" else _BACKGROUND.get(main.tense, "present")
    side = clause(draw, 0, subject=_taken_up(draw, main, 0.6), tense=tense)
    markers = [Node(draw.one(WHEN), side.head, "mark")] if time_clause else _reason(draw, side.head)
    main.nodes += markers + side.attach(main.head, "advcl")
    return _ended(draw, main)


def _reason(draw: Draw, head: Node) -> list[Node]:
    if draw.chance(0.6):
        because = Node(BECAUSE, head, "mark")
        return [because, Node(THAT, because, "fixed")]
    word = draw.one(SINCE)
    return [Node(word, head, "cc" if word.pos == "CCONJ" else "mark")]


def _conditional(draw: Draw) -> Planned:
    """`si` with the present, then the future; with the imperfect, then the conditional."""
    before, after = draw.one((("present", "future"), ("present", "present"), ("imperfect", "conditional")))
    side = clause(draw, 0, tense=before)
    main = clause(draw, 1, subject=_taken_up(draw, side, 0.5), tense=after)
    opening = [Node(IF, side.head, "mark"), *side.attach(main.head, "advcl"), Node(COMMA, side.head, "punct")]
    return Phrase(opening + main.nodes, main.head), STOP


def _reported(draw: Draw) -> Planned:
    """`la voisine pense que ...`"""
    subject = person_subject(draw, 1)
    manner = any_manner(draw, subject.agreement, any_tense(draw))
    manner = Manner(manner.tense, adverb=manner.adverb)  # a denied opinion would ask for the subjunctive
    predicate = active(draw.topical(SAYING), subject.agreement, manner, transitive=True)
    told = clause(draw, 1, tense=draw.one(_REPORTED.get(manner.tense, _REPORTED_PAST)))
    nodes = subject.attach(predicate.head, "nsubj") + predicate.nodes
    nodes += [Node(THAT, told.head, "mark"), *told.attach(predicate.head, "ccomp")]
    return _ended(draw, Phrase(nodes, predicate.head))


def _needed(draw: Draw) -> Planned:
    """`il faut que` with the subjunctive."""
    tense = draw.one(("present", "present", "imperfect", "future", "conditional"))
    predicate = active(Verb("falloir"), NEUTRAL, Manner(tense), transitive=True)
    wished = clause(draw, 1, tense="subjunctive")
    nodes = [Node(IL_IMPERSONAL, predicate.head, "expl:subj"), *predicate.nodes]
    nodes += [Node(THAT, wished.head, "mark"), *wished.attach(predicate.head, "ccomp")]
    return Phrase(nodes, predicate.head), STOP


def _there_is(draw: Draw) -> Planned:
    """`il y a trois chats dans le jardin`"""
    tense = draw.one(("present", "present", "imperfect", "future"))
    predicate = active(Verb("avoir"), NEUTRAL, Manner(tense), transitive=True)
    thing = noun_phrase(
        draw, draw.one(("person", "animal", "object", "plant", "building", "vehicle")), depth=0, article="indefinite"
    )
    opening = [Node(IL_IMPERSONAL, predicate.head, "expl:subj"), Node(Y, predicate.head, "expl:comp")]
    nodes = opening + predicate.nodes + thing.attach(predicate.head, "obj")
    if draw.chance(0.3):
        thing_clause = relative(draw, thing)
        nodes += thing_clause.attach(thing.head, "acl:relcl")
    else:
        nodes += where(draw).attach(predicate.head, "obl:mod")
    return Phrase(nodes, predicate.head), STOP


def _this_is(draw: Draw) -> Planned:
    """`c'est une maison que ...`, `ce sont ...`"""
    thing = noun_phrase(
        draw, draw.one(("person", "object", "abstract", "building", "document", "event", "art")), article="indefinite"
    )
    thing.nodes += relative(draw, thing).attach(thing.head, "acl:relcl")
    made = copula(thing, thing.agreement, Manner(draw.one(("present", "present", "imperfect"))))
    return Phrase([Node(CE, made.head, "nsubj"), *made.nodes], made.head), STOP


def _question(draw: Draw) -> Planned:
    """`qui a mangé le gâteau ?`"""
    node = Node(WHO)
    who = Nominal([node], node, NEUTRAL, "person")
    manner = any_manner(draw, NEUTRAL, any_tense(draw))
    said = copula(attribute(draw, who), NEUTRAL, manner) if draw.chance(0.2) else action(draw, who, manner, 1)
    made = Clause(who.attach(said.head, "nsubj") + said.nodes, said.head, who, manner.tense)
    if draw.chance(0.5):
        add_after(draw, made)
    return made, QUESTION


_PLANS: Weighted[Callable[[Draw], Planned]] = Weighted(
    (_simple, _fact, _joined, _subordinate, _reported, _needed, _there_is, _this_is, _question),
    (0.56, 0.1, 0.08, 0.09, 0.08, 0.02, 0.025, 0.02, 0.025),
)
