"""Who governs what comes next: a pushdown that follows a prefix, with all readings of ambiguous words, weighted.

A hypothesis is a stack of clauses and the nominal group under way. A word has readings, a reading has a role
(`AgreementRules`), and a role says how the stack goes on; where several ways are open (which noun is the antecedent,
does *et* join two subjects or two clauses) each is followed with a weight. Of a word x with the role r, in c:

    weight(c') = weight(c) · P(r | what stands open in c) · P(reading | x) / P(r) · how likely that way is, given c

the few best hypotheses are kept, and their weights sum to one. P comes from a treebank, or is uniform.

    les auteurs que le ministre aime ___      main clause: subject auteurs, verb due;  relative: ministre, aime: closed
    subject     auteurs (Number:Plur Person:3) 1.0                               so a finite verb agrees with auteurs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from llrnn_agreement.rules import AgreementRules, Bundle, clashes, joined, merged

_BEAM = 6  # hypotheses
_LEAST = 0.004  # the share of one that is kept
_DEEPEST = 4  # clauses in one another
_MOST_STACKS = 200_000  # that are remembered, with what they become
_CLASH = 0.1  # how likely two that should agree do not: readings are incomplete, texts have errors
_SUBJECT = 0.4  # how likely a noun without an ending of case is a subject: two of five are, in Turkish treebanks
_FEW = 5.0  # so many times P(role) is added to the counts of a context

OPEN, DONE, COPULA, PERFECT = "open", "done", "copula", "perfect"  # before the finite verb of a clause; after it


class Governor(NamedTuple):
    """A word or group that others agree with: its values, and the index of its word among those that are kept.

    For example:

        [governor.place for _, governor in governors(stack, "subject", rules)]
    """

    bundle: Bundle
    place: int


class ClauseState(NamedTuple):
    """The state of a clause: what opened it, whether its finite verb has come, its subject, and what was fronted."""

    kind: str  # main, relative (its antecedent is the subject), gap (its antecedent is something else), subordinate
    phase: str
    subject: Governor | None = None
    gap: Governor | None = None
    verb: Governor | None = None  # a finite verb whose subject was not there before it
    sure: bool = False  # its subject is a word that is never anything else: il, onlar


class Stack(NamedTuple):
    """A hypothesis without its weight: nested clauses and the current group; `heads`: nouns that an adjective can
    follow.

        governors(stack, "subject", rules)
    """

    clauses: tuple[ClauseState, ...]
    group: Governor | None = None  # a nominal group without its noun yet
    heads: tuple[Governor, ...] = ()
    hidden: bool = False  # the next nominal group is no subject: after a preposition, an infinitive
    link: str = ""  # and, comma: what came before
    predicate: bool = False  # an attribute of the subject may follow
    last: str = ""  # the last role

    @property
    def top(self) -> ClauseState:
        return self.clauses[-1]

    def with_top(self, clause: ClauseState, **changes: object) -> Stack:
        return self._replace(clauses=(*self.clauses[:-1], clause), **changes)  # type: ignore[arg-type]

    def pushed(self, clause: ClauseState) -> Stack:
        """Return the stack with a clause inside the current one, which is forgotten if it already had its verb."""
        before = self.clauses if self.top.phase == OPEN else (*self.clauses[:-1], _PASSED)
        return Stack((*(before if len(before) < _DEEPEST else (before[0], *before[2:])), clause))

    def summary(self) -> Context:
        """Return the context that the role of the next word depends on."""
        top = self.top
        state = self.group is not None, self.hidden, self.link, self.predicate, bool(self.heads)
        return top.kind, top.phase, top.subject is not None, len(self.clauses) > 1, *state, self.last


_PASSED = ClauseState("main", DONE)
FIRST = Stack((ClauseState("main", OPEN),))
_NEW = -1  # the place of the word that is read now
_NONE = -2  # of no word: what agrees with nobody
Ways = list[tuple[float, Stack]]
Context = tuple[object, ...]  # what the role of the next word depends on
Counts = Mapping[Context, Mapping[str, float]]


class RoleReading(NamedTuple):
    """A role, and the values of a word in that role.

    For example:

        RoleReading("verb", bundle).role
    """

    role: str
    bundle: Bundle


WordReadings = Sequence[Sequence[tuple[RoleReading, float]]]  # of each word, with weights


def follow(stack: Stack, reading: RoleReading, rules: AgreementRules) -> Ways:
    """Return the stacks after one more word, with their probabilities; governors have the indices from before the
    word.
    """
    act, word = _ACTS.get(reading.role), Governor(reading.bundle, _NEW)
    if act is None:
        return [(1.0, stack._replace(last=reading.role))]
    open_ = reading.role in _IN_GROUPS or (reading.role == "of" and stack.last == "quantity")
    closed = [(1.0, stack)] if stack.group is None or open_ else _without_noun(stack, rules)
    ways = [(first * weight, after) for first, one in closed for weight, after in act(one, word, rules)]
    return [(weight, after._replace(last=reading.role)) for weight, after in ways]


def _without_noun(stack: Stack, rules: AgreementRules) -> Ways:
    """End a group without a noun: an adjective stands for it (les riches), or a determiner (certaines)."""
    assert stack.group is not None
    if stack.last == "determiner" and stack.heads and not stack.link:  # a number after a noun: en mai 1956
        return [(1.0, stack._replace(group=None))]
    share = 0.02 if stack.last in ("determiner", "quantity") else 0.5
    return [(share * weight, way) for weight, way in _noun(stack._replace(group=None), stack.group, rules, bare=False)]


def _determiner(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Open a group; two determiners (*tous les*) open one."""
    before = stack.group
    bundle = word.bundle if before is None else merged(before.bundle, word.bundle)
    return [(1.0, stack._replace(group=Governor(bundle, _NEW)))]


def _modifier(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add an adjective: before the noun, to the group; after it, to one of the nouns, and drop those between."""
    if stack.group is not None:
        agrees = _CLASH ** clashes(stack.group.bundle, word.bundle)
        return [(agrees, stack._replace(group=Governor(merged(stack.group.bundle, word.bundle), stack.group.place)))]
    ways: Ways = []
    shares = _shares(stack)
    if stack.predicate and stack.top.subject is not None:
        ways.append((shares[0] * _CLASH ** clashes(stack.top.subject.bundle, word.bundle), stack._replace(link="")))
    for i, head in enumerate(stack.heads):
        agrees = _CLASH ** clashes(head.bundle, word.bundle)
        ways.append((shares[1 + i] * agrees, stack._replace(heads=stack.heads[i:], link="")))
    if not ways:  # one that comes first: petits enfants
        ways.append((1.0, stack if stack.predicate else stack._replace(group=word)))
    return ways


def _shares(stack: Stack) -> tuple[float, ...]:
    """Return the probabilities of what an adjective may follow: the subject, then the nouns, nearest first."""
    nouns = (0.75, 0.25) if len(stack.heads) > 1 else (1.0,)
    if not (stack.predicate and stack.top.subject is not None):
        return (0.0, *nouns)
    if not stack.heads:
        return (1.0,)
    return (0.2, *(0.8 * share for share in nouns))


def _noun(stack: Stack, word: Governor, rules: AgreementRules, bare: bool | None = None) -> Ways:
    """Add the head of a group: a subject if the verb is due and no preposition or case rules it out."""
    bare = stack.group is None if bare is None else bare
    # where they clash, what stands before a noun knows better: la ministre
    bundle = word.bundle if stack.group is None else merged(word.bundle, stack.group.bundle)
    agrees = 1.0 if stack.group is None else _CLASH ** clashes(stack.group.bundle, word.bundle)
    noun = Governor(merged(rules.group, bundle), word.place)
    apposed = bare and bool(stack.heads) and stack.link == "" and _same_case(stack.heads[0].bundle, bundle, rules)
    if apposed and rules.head_last and not stack.hidden:
        return _last_noun(stack, noun, rules)
    inside = stack.hidden or apposed
    after = stack._replace(group=None, heads=(noun, *(stack.heads[:1] if inside else ())), hidden=False, link="")
    if inside:  # of a preposition, or a name after a noun: le président chirac
        return [(agrees, after)]
    after = after._replace(predicate=False)
    return [(agrees * weight, way) for weight, way in _placed(stack, after, noun, rules)]


def _last_noun(stack: Stack, noun: Governor, rules: AgreementRules) -> Ways:
    """Add a noun after another in a head-final language: it takes the place of the first (kız çocuklar)."""
    first, top = stack.heads[0], stack.top
    after = stack._replace(group=None, heads=(noun, *stack.heads[1:]), hidden=False, link="")
    if top.phase == OPEN and top.subject is None:  # the first was taken for an object
        return [(1.0, after.with_top(top._replace(subject=noun)))]
    own = first == top.subject and not top.sure and top.phase == OPEN
    together = after.with_top(top._replace(subject=noun)) if own else after
    if not own or stack.last not in _NOUNS:
        return [(1.0, after._replace(heads=(noun, *stack.heads[:1])))]
    apart = after._replace(heads=(noun, first))  # çocuk kitap okuyor: what follows is an object
    plain = not _marked(first, rules)  # what stands before another noun is in the singular: çocuklar kitap okuyor
    return [(0.6, together), (0.4, apart)] if plain else [(0.05, together), (0.95, apart)]


def _marked(noun: Governor, rules: AgreementRules) -> bool:
    return any(bool(said) and said <= many for said, many in zip(noun.bundle, rules.coordinated, strict=True) if many)


def _same_case(first: Bundle, second: Bundle, rules: AgreementRules) -> bool:
    """Return whether two words can have the same case, as an apposition has; a genitive and its noun have not."""
    if "Case" not in rules.attributes:
        return True
    own, other = (bundle[rules.attributes.index("Case")] for bundle in (first, second))
    return not (own and other) or bool(own & other)


def _indefinite(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add a noun without case ending: with a determiner like any other; alone a subject or an object (kitap okudum)."""
    if stack.group is not None:
        return _noun(stack, word, rules)
    subject, object_ = _noun(stack, word, rules), _oblique(stack, word, rules)
    return [(_SUBJECT * w, way) for w, way in subject] + [((1 - _SUBJECT) * w, way) for w, way in object_]


def _not_the_subject(stack: Stack, share: float) -> Ways:
    """Return the stacks where, with this share, the noun taken for the subject is none."""
    top = stack.top
    taken = stack.last in _NOUNS and top.phase == OPEN and bool(stack.heads) and stack.heads[0] == top.subject
    if not taken or top.sure:
        return [(1.0, stack)]
    return [(1 - share, stack), (share, stack.with_top(top._replace(subject=None)))]


def _adverbial(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add a noun that says when as often as it is a subject: le matin, les enfants."""
    return [(0.5 * w, way) for act in (_noun, _oblique) for w, way in act(stack, word, rules)]


def _quantity(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add a word after which *de* opens the group that others agree with: la plupart des gens sont."""
    many, opened = word._replace(bundle=rules.coordinated), stack._replace(group=Governor(_nothing(rules), _NEW))
    noun = stack.group is not None  # la plupart; beaucoup
    alone = _noun(stack._replace(group=None), many, rules, bare=False) if noun else [(1.0, stack)]
    return [(0.5, opened), *((0.5 * weight, way) for weight, way in alone)]


def _nothing(rules: AgreementRules) -> Bundle:
    return tuple(frozenset() for _ in rules.attributes)


def _of(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    if stack.last != "quantity":
        return _preposition(stack, word, rules)
    return [(1.0, stack)] if stack.group is not None else [(0.02, way) for _, way in _preposition(stack, word, rules)]


def _preposition(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    return [(1.0, stack._replace(group=None, hidden=True, link=""))]


def _coordinator(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    return [(1.0, stack._replace(group=None, hidden=False, link="and"))]


def _subordinator(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    if stack.last == "likewise":  # le chat ainsi que le chien
        return _coordinator(stack, word, rules)
    return [(1.0, stack.pushed(ClauseState("subordinate", OPEN)))]


def _joins(stack: Stack) -> bool:
    """Return whether a pronoun here is a second subject: toi et lui."""
    return stack.last == "coordinator" and stack.top.phase == OPEN and stack.top.subject is not None


def _postposition(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add a postposition, which rules out the group before it as a subject: bebek gibi."""
    return _not_the_subject(stack, 0.9)


def _possessed(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add the head of two nouns, whose case rules out both as subjects: kitap fuarında."""
    first = [(1.0, stack)] if stack.heads and _marked(stack.heads[0], rules) else _not_the_subject(stack, 0.8)
    return [(share * weight, way) for share, one in first for weight, way in _oblique(one, word, rules)]


def _oblique(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add a noun whose case rules it out as a subject."""
    return _noun(stack._replace(hidden=True), word, rules)


def _placed(stack: Stack, after: Stack, noun: Governor, rules: AgreementRules) -> Ways:
    """Return where a nominal group that can be a subject may stand."""
    top = stack.top
    if top.phase == OPEN:
        if top.subject is None:
            return [(1.0, after.with_top(top._replace(subject=noun)))]
        if stack.link == "and":
            both = Governor(joined(top.subject.bundle, noun.bundle, rules), top.subject.place)
            together = after.with_top(top._replace(subject=both))
            return [(0.8, together), (0.2, after)] if len(stack.heads) > 1 else [(1.0, together)]
        if top.sure or _speaks(top.subject, rules):  # moi qui vous parle, ben kitap: what comes later is something else
            return [(0.95, after), (0.05, after.with_top(top._replace(subject=noun)))]
        if stack.link == "comma":  # an apposition, a list
            return [(0.7, after), (0.3, after.with_top(top._replace(subject=noun)))]
        return [(1 - rules.later, after), (rules.later, after.with_top(top._replace(subject=noun)))]
    if top.subject is None:  # le livre qu' aime le ministre
        return [(1.0, after.with_top(top._replace(subject=noun)))]
    ways = [(1.0, after)]
    if stack.link:  # another clause: il dort et sa mère veille
        fresh = ClauseState(top.kind if top.kind == "subordinate" else "main", OPEN, noun)
        ways = [(0.7, after), (0.3, after.with_top(fresh))]
    due = _due(stack, with_subject=False)
    if due is not None:  # quand il pleut , les enfants
        share = 0.8 if stack.link == "comma" else 0.2
        main = Stack((*stack.clauses[:due], stack.clauses[due]._replace(subject=noun)), heads=(noun,))
        ways = [(weight * (1 - share), way) for weight, way in ways] + [(share, main)]
    return ways


def _speaks(subject: Governor, rules: AgreementRules) -> bool:
    """Return whether a subject is the first or the second person."""
    person = subject.bundle[rules.attributes.index("Person")] if "Person" in rules.attributes else frozenset()
    return bool(person) and person <= {"1", "2"}


def _due(stack: Stack, *, with_subject: bool) -> int | None:
    """Return the innermost outer clause whose verb is due, with or without a subject; None if there is none."""
    for i in range(len(stack.clauses) - 2, -1, -1):
        if stack.clauses[i].phase == OPEN:
            return i if (stack.clauses[i].subject is not None) == with_subject else None
    return None


def _subject(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add a pronoun that is always a subject, unless after a preposition: avec elle."""
    if stack.hidden:
        return [(1.0, stack._replace(group=None, heads=(word,), hidden=False, link=""))]
    if _joins(stack):
        return _noun(stack, word, rules)
    top, after = stack.top, stack._replace(group=None, heads=(), hidden=False, link="", predicate=False)
    if top.phase == OPEN:
        return [(1.0, after.with_top(top._replace(subject=word, sure=True)))]
    fresh = after.with_top(ClauseState("main" if top.kind == "main" else top.kind, OPEN, word, sure=True))
    due = _due(stack, with_subject=False)
    if due is None:
        return [(1.0, fresh)]
    main = stack.clauses[due]._replace(subject=word, sure=True)
    return [(0.7, Stack((*stack.clauses[:due], main))), (0.3, fresh)]


def _inverted(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    return [(1.0, stack.with_top(stack.top._replace(subject=stack.top.subject or word), heads=(), group=None))]


def _clitic(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add an object before its verb, with which a participle may agree: il les a vues."""
    if _joins(stack):
        return _noun(stack, word, rules)
    if stack.top.phase == OPEN and stack.top.gap is None and any(word.bundle):
        return [(1.0, stack.with_top(stack.top._replace(gap=word)))]
    return [(1.0, stack)]


def _subject_relative(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    if stack.hidden:  # à qui
        return _object_relative(stack, word, rules)
    if not stack.heads:
        again = stack.top.subject if stack.top.kind == "relative" else None  # qui chante et qui danse
        if again is not None and stack.top.phase != OPEN:
            return [(1.0, stack.with_top(ClauseState("relative", OPEN, again), heads=(), link="", predicate=False))]
        return [(1.0, stack.pushed(ClauseState("relative", OPEN)))]
    shares = (0.7, 0.3) if len(stack.heads) > 1 else (1.0,)
    return [
        (share, stack.pushed(ClauseState("relative", OPEN, head)))
        for share, head in zip(shares, stack.heads, strict=True)
    ]


def _object_relative(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    if stack.last == "likewise":
        return _coordinator(stack, word, rules)
    shares = (0.7, 0.3) if len(stack.heads) > 1 else (1.0,)
    if not stack.heads:
        return [(1.0, stack.pushed(ClauseState("gap", OPEN)))]
    gaps = [None] * len(stack.heads) if stack.hidden else list(stack.heads)  # avec laquelle
    return [(share, stack.pushed(ClauseState("gap", OPEN, None, gap))) for share, gap in zip(shares, gaps, strict=True)]


def _finite(stack: Stack, word: Governor, rules: AgreementRules, phase: str = DONE) -> Ways:
    """Add a finite verb: of this clause, of an outer one that waits for its verb, or a second one of the same
    subject.
    """

    def closed(clauses: Sequence[ClauseState], clause: ClauseState) -> Stack:
        gap, verb = clause.gap if phase == PERFECT else None, word if clause.subject is None and late else None
        return Stack((*clauses, clause._replace(phase=phase, gap=gap, verb=verb)), predicate=phase == COPULA)

    top, ways, late = stack.top, Ways(), any(one.name == "late subject" for one in rules.relations)
    if top.phase == OPEN:
        agrees = 0.15 if top.subject is None else _CLASH ** clashes(top.subject.bundle, word.bundle)
        ways.append((agrees, closed(stack.clauses[:-1], top)))
    else:
        due = _due(stack, with_subject=True)
        if due is not None:
            clause = stack.clauses[due]
            assert clause.subject is not None
            agrees = _CLASH ** clashes(clause.subject.bundle, word.bundle)
            ways.append((agrees * (0.4 if stack.link == "and" else 1.0), closed(stack.clauses[:due], clause)))
        if stack.link and top.subject is not None:
            agrees = _CLASH ** clashes(top.subject.bundle, word.bundle)
            ways.append((agrees * (0.6 if stack.link == "and" else 0.2), closed(stack.clauses[:-1], top)))
        if not ways:
            ways.append((0.03, closed(stack.clauses[:-1], top._replace(subject=None))))
    return ways


def _copula_again(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add a copula that is not finite: peut être grande, a été vendue."""
    if stack.top.phase == OPEN:
        return [(1.0, stack._replace(hidden=True))]
    changed = stack.top._replace(phase=COPULA)
    return [(1.0, stack.with_top(changed, predicate=True, heads=(), group=None, hidden=False))]


def _infinitive(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    """Add an infinitive, after which a noun is an object."""
    top = stack.top if stack.top.phase == OPEN else stack.top._replace(phase=DONE)
    return [(1.0, stack.with_top(top, group=None, hidden=True, predicate=False))]


def _participle(stack: Stack, word: Governor, rules: AgreementRules) -> Ways:
    if stack.top.phase == PERFECT and not stack.heads and stack.group is None:
        agrees = _CLASH ** clashes(perfect_governor(stack, rules).bundle, word.bundle)
        return [(agrees, stack.with_top(stack.top._replace(phase=DONE)))]
    return _modifier(stack, word, rules)


def perfect_governor(stack: Stack, rules: AgreementRules) -> Governor:
    """Return what a participle after *avoir* agrees with: an object that came before it, or nothing."""
    return stack.top.gap or Governor(rules.unmarked, _NONE)


_NOUNS = frozenset({"noun", "name", "indefinite"})
_IN_GROUPS = frozenset(
    {
        *("determiner", "modifier", "participle", "noun", "name", "oblique", "indefinite", "possessed", "end"),
        *("adverbial", "quantity"),
    }
)
_ACTS: dict[str, Callable[[Stack, Governor, AgreementRules], Ways]] = {
    "end": lambda stack, word, rules: [(1.0, FIRST)],
    "comma": lambda stack, word, rules: [(1.0, stack._replace(group=None, hidden=False, link="comma"))],
    "coordinator": _coordinator,
    "preposition": _preposition,
    "of": _of,
    "quantity": _quantity,
    "adverbial": _adverbial,
    "determiner": _determiner,
    "modifier": _modifier,
    "noun": _noun,
    "name": _noun,
    "pronoun": _noun,
    "oblique": _oblique,
    "indefinite": _indefinite,
    "possessed": _possessed,
    "postposition": _postposition,
    "subject": _subject,
    "inverted": _inverted,
    "clitic": _clitic,
    "subject relative": _subject_relative,
    "object relative": _object_relative,
    "subordinator": _subordinator,
    "verb": _finite,
    "copula": partial(_finite, phase=COPULA),
    "perfect": partial(_finite, phase=PERFECT),
    "copula again": _copula_again,
    "infinitive": _infinitive,
    "gerund": _infinitive,
    "participle": _participle,
}


def governors(stack: Stack, relation: str, rules: AgreementRules) -> list[tuple[float, Governor]]:
    """Return the candidates that the next word agrees with in a relation, with weights that sum to at most one.

    For example:

        for weight, governor in governors(stack, "subject", rules): print(weight, governor)
    """
    top = stack.top
    if relation == "subject":
        if stack.group is not None:  # a verb would end it
            ways = [] if stack.last == "determiner" else _without_noun(stack, rules)
            return [(weight * share, one) for weight, way in ways for share, one in governors(way, relation, rules)]
        if top.phase == OPEN:
            if top.subject is None:
                return []
            beside = rules.head_last and not top.sure and stack.last in _NOUNS and stack.heads[:1] == (top.subject,)
            # beside its verb a noun in the singular is rather an object: kitap okudum
            return [(0.3 if beside and not _marked(top.subject, rules) else 1.0, top.subject)]
        if rules.head_last and stack.last == "verb" and top.subject is not None:  # a particle: söyleyebilir misin
            return [(1.0, top.subject)]
        due, found = _due(stack, with_subject=True), []
        again = stack.link and top.subject is not None  # il entre et s' assoit
        if due is not None:
            share = (0.4 if stack.link == "and" else 0.8) if again else 1.0
            found.append((share, stack.clauses[due].subject))
        if again:
            found.append((1.0 - sum(share for share, _ in found), top.subject))
        return [(weight, one) for weight, one in found if one is not None]
    if relation == "late subject":
        late = top.verb is not None and top.subject is None and stack.group is None and not stack.hidden
        return [(1.0, top.verb)] if late and top.verb is not None else []
    if relation == "head":
        return [] if stack.group is None else [(1.0, stack.group)]
    shares = _shares(stack)
    if relation == "attribute":
        if top.phase == PERFECT and not stack.heads and stack.group is None:
            return [(1.0, perfect_governor(stack, rules))]
        free = stack.predicate and stack.group is None and top.subject is not None
        return [(shares[0], top.subject)] if free and top.subject is not None else []
    if stack.group is not None:
        return [(1.0, stack.group)]
    return list(zip(shares[1:], stack.heads, strict=False))


class WeightedStack(NamedTuple):
    """A stack, its weight, and the positions in the sentence of the words that its governors are."""

    stack: Stack
    weight: float
    words: tuple[int, ...]


State = tuple[WeightedStack, ...]  # the best first; a value: nothing in it belongs to a machine
_Way = tuple[Stack, float, tuple[int, ...]]


class _KnownStack(NamedTuple):
    """A stack, with the cached stacks that each reading leads to."""

    stack: Stack
    after: dict[int, list[_Way]]


class Machine:
    """Hypotheses about the syntax of a prefix, over word ids; the successors of a stack are computed once.

    `rules`: of the language; `readings`: of each word, its readings with their weights; `roles`: how often a role comes
    in a context, counted in a treebank (`count_roles`), None for uniform.

        Machine(AgreementRules.named("french"), readings, None)
    """

    initial: State = (WeightedStack(FIRST, 1.0, ()),)

    def __init__(
        self, rules: AgreementRules, readings: Sequence[Sequence[tuple[RoleReading, float]]], roles: Counts | None
    ) -> None:
        self.rules, self._roles, self._total = rules, roles, _totals(roles or {})
        self._sums = {context: sum(counts.values()) for context, counts in (roles or {}).items()}
        self._known: dict[int, _KnownStack] = {}  # by the number of the object: to hash a stack takes long
        self._same: dict[Stack, _KnownStack] = {}  # one for equal stacks
        kinds: dict[RoleReading, int] = {}
        words = {id(one): one for one in readings}.values()  # most words have the readings of others
        objects = {id(r): r for one in words for r, _ in one}  # few, and to hash a reading takes long
        told = {key: (kinds.setdefault(r, len(kinds)), self._total.get(r.role, 1.0)) for key, r in objects.items()}
        of: dict[int, tuple[tuple[int, float], ...]] = {}
        for one in words:
            own = ((told[id(r)], weight) for r, weight in one)
            of[id(one)] = tuple((kind, weight / total) for (kind, total), weight in own)
        self._readings = [of[id(one)] for one in readings]
        self._kinds = list(kinds)

    def advance(self, state: State, word: int, place: int) -> State:
        """Return the hypotheses after one more word; `place`: the number of the word in its sentence."""
        if len(self._same) > _MOST_STACKS:
            self._known, self._same = {}, {}
        found: dict[tuple[int, tuple[int, ...]], float] = {}
        stacks: dict[int, Stack] = {}
        for stack, weight, words in state:
            known = self._known.get(id(stack))
            after = (self._one(stack) if known is None or known.stack is not stack else known).after
            for kind, share in self._readings[word]:
                ways = after.get(kind)
                if ways is None:
                    ways = after[kind] = self._ways(stack, self._kinds[kind])
                for made, likely, kept in ways:  # `kept`: which of the words before stay, and where the new one is
                    key = id(made), tuple([place if i < 0 else words[i] for i in kept])
                    found[key] = found.get(key, 0.0) + weight * share * likely
                    stacks[id(made)] = made
        best = sorted(found.items(), key=_by_weight)[:_BEAM]  # of equal weights, which was found first stays first
        least = _LEAST * best[0][1]
        kept_ones = [(key, weight) for key, weight in best if weight >= least]
        total = sum(weight for _, weight in kept_ones)
        return tuple([WeightedStack(stacks[made], weight / total, words) for (made, words), weight in kept_ones])

    def _one(self, stack: Stack) -> _KnownStack:
        """Return the cached entry of a stack, or of an equal one."""
        found = self._same.get(stack)
        if found is None:
            found = self._same[stack] = self._known[id(stack)] = _KnownStack(stack, {})
        return found

    def _ways(self, stack: Stack, reading: RoleReading) -> list[_Way]:
        likely, found = self._likely(stack, reading.role), dict[tuple[int, tuple[int, ...]], tuple[Stack, float]]()
        for weight, after in follow(stack, reading, self.rules):
            renumbered, kept = _renumbered(after)
            made = self._one(renumbered).stack
            before = found.get((id(made), kept))
            found[id(made), kept] = made, weight * likely + (0.0 if before is None else before[1])
        return [(after, weight, kept) for (_, kept), (after, weight) in found.items()]

    def _likely(self, stack: Stack, role: str) -> float:
        """Return P(role | context), or P(role) where the context is rare."""
        if self._roles is None:
            return 1.0
        context = stack.summary()
        counts, total = self._roles.get(context, {}), self._sums.get(context, 0.0)
        return (counts.get(role, 0.0) + _FEW * self._total.get(role, 1e-3)) / (total + _FEW)


def _by_weight(item: tuple[object, float]) -> float:
    return -item[1]


def _totals(roles: Counts) -> dict[str, float]:
    """Return P(role) over all contexts."""
    found: dict[str, float] = {}
    for counts in roles.values():
        for role, count in counts.items():
            found[role] = found.get(role, 0.0) + count
    total = sum(found.values())
    return {role: count / total for role, count in found.items()}


def _renumbered(stack: Stack) -> tuple[Stack, tuple[int, ...]]:
    """Return the stack with governors numbered in the order in which they occur, and their former numbers."""
    order: dict[int, int] = {}

    def numbered(one: Governor | None) -> Governor | None:
        if one is None or one.place == _NONE:
            return one
        place = order.setdefault(one.place, len(order))
        return one if place == one.place else Governor(one.bundle, place)

    clauses = tuple(
        [
            ClauseState(one[0], one[1], numbered(one[2]), numbered(one[3]), numbered(one[4]), one[5])
            for one in stack.clauses
        ]
    )
    heads = tuple([found for one in stack.heads if (found := numbered(one)) is not None])
    made = Stack(clauses, numbered(stack.group), heads, stack.hidden, stack.link, stack.predicate, stack.last)
    return made, tuple(order)


def count_roles(rules: AgreementRules, sentences: Iterable[Sequence[RoleReading]]) -> Counts:
    """Count how often each role comes in each context, in sentences of a treebank with known readings.

    For example:

        Machine(rules, readings, count_roles(rules, sentences))
    """
    counts: dict[Context, dict[str, float]] = {}
    listed = [list(sentence) for sentence in sentences]
    kinds = {reading: n for n, reading in enumerate(dict.fromkeys(r for one in listed for r in one))}
    machine = Machine(rules, [[(reading, 1.0)] for reading in kinds], None)
    for sentence in listed:
        state = machine.initial
        for place, reading in enumerate(sentence):
            for stack, weight, _ in state:
                own = counts.setdefault(stack.summary(), {})
                own[reading.role] = own.get(reading.role, 0.0) + weight
            state = machine.advance(state, kinds[reading], place)
    return counts
