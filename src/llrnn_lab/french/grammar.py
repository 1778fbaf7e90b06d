"""Clauses and whole sentences, always the same for a seed and an index.

A clause is a subject, what is said of it, relative clauses between the two; when, where, why and how. Sentences are one
clause or several, joined, nested or asked, or plain facts with numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from llrnn.text.readers import Sentence
from llrnn_lab.french import lexicon as lex
from llrnn_lab.french import phrases
from llrnn_lab.french import word_lists as lists
from llrnn_lab.french.lexicon import FEMININE, MASCULINE, NEUTRAL, SINGULAR, Concord, Draw, Frame, Verb, Weighted, Word
from llrnn_lab.french.phrases import Clause, Manner, Node, Nominal, Phrase, active, any_manner, noun_phrase, single

_SUBJECT_KINDS = lex.weighted("subjects")
_PERSON_STYLES, _OTHER_STYLES = map(lex.weighted, ("person_styles", "other_styles"))
# Which adverbs of time suit a tense that has none of its own.
_TIMES = {"conditional": "present", "subjunctive": "present", "perfect": "past", "pluperfect": "past"}
_GENDERS = {"semaine": FEMININE, "année": FEMININE, "nuit": FEMININE, "saison": FEMININE}
_PERIODS, _RECURRING = (
    lex.zipf([lex.noun(lemma, _GENDERS.get(lemma, MASCULINE)) for lemma in lists.words(name)])
    for name in ("periods", "recurring")
)
_PLACED_KINDS = ("person", "animal", "vehicle", "object")
# What is sold, and for how much.
_PRICES = {kind: [int(bound) for bound in bounds.split()] for kind, bounds in lists.rows("prices")}
_SOLD = tuple(kind for kind in _PRICES if kind != "building")
_EXTENTS = [line.split() for line in lists.text("extents").strip().splitlines()]
_SHORTEST, _LONGEST = 6, 26
_REPORTED = {tense: tenses.split() for tense, tenses in lists.rows("reported")}
_REPORTED_PAST = ("imperfect", "pluperfect", "conditional", "imperfect")
_BACKGROUND = {"perfect": "imperfect", "past": "imperfect", "pluperfect": "imperfect", "future": "present"}

Planned = tuple[Phrase, Word]
"""What is said, and the sign it ends with."""


def clause(draw: Draw, depth: int, *, subject: Nominal | None = None, tense: str | None = None) -> Clause:
    """A whole clause. `depth` bounds what hangs on its nouns."""
    subject = subject or _subject(draw, draw.item(_SUBJECT_KINDS), depth)
    manner = any_manner(draw, subject.agreement, tense)
    predicate, relation = _said_of(draw, subject, manner, depth)
    return joined(subject, predicate, manner.tense, relation)


def joined(subject: Nominal, predicate: Phrase, tense: str = "", relation: str = "nsubj") -> Clause:
    """The subject before what is said of it."""
    return Clause(subject.attach(predicate.head, relation) + predicate.nodes, predicate.head, subject, tense)


def _subject(draw: Draw, kind: str, depth: int) -> Nominal:
    choice = draw.random.random() if kind == "person" else 1.0
    if choice < 0.24:
        return _pronoun(draw.item(phrases.PRONOUNS), kind)
    if choice < 0.42:
        return phrases.person_name(draw)
    if choice < 0.45:
        return phrases.coordinated(phrases.person_name(draw), phrases.person_name(draw))
    return _modified(draw, noun_phrase(draw, kind, depth=depth), depth)


def _pronoun(agreement: Concord, kind: str) -> Nominal:
    return phrases.single_nominal(lex.subject_pronoun(agreement), agreement, kind)


def _modified(draw: Draw, nominal: Nominal, depth: int) -> Nominal:
    """Add a relative clause, or a participle, now and then."""
    if depth < 1:
        return nominal
    if draw.chance(0.16):
        return nominal.add(relative(draw, nominal), "acl:relcl")
    if nominal.kind != "person" and nominal.kind in lex.FRAMES_OF_OBJECT and draw.chance(0.08):
        return nominal.add(_participial(draw, nominal), "acl")
    return nominal


def _participial(draw: Draw, nominal: Nominal) -> Phrase:
    """`(une maison) construite en 1920`, `(une lettre) écrite par la reine`."""
    frame, verb = draw.frame(lex.FRAMES_OF_OBJECT[nominal.kind])
    gender, number, _ = nominal.agreement
    phrase = single(lex.participle(verb.lemma, gender, number, passive=True))
    if draw.chance(0.3) and "person" in frame.subjects:
        return phrase.add(phrases.year(draw), "obl:mod")
    return phrase.add(_agent(draw, frame, NEUTRAL), "obl:agent")


def _agent(draw: Draw, frame: Frame, owner: Concord) -> Phrase:
    """`par la reine`"""
    agent = phrases.argument(draw, draw.one(frame.subjects), depth=0, owner=owner)
    return agent.before(lex.PAR, relation="case")


def _said_of(draw: Draw, subject: Nominal, manner: Manner, depth: int) -> tuple[Phrase, str]:
    """The predicate, and the relation of the subject to it."""
    kind = subject.kind
    style = draw.item(_PERSON_STYLES if kind == "person" else _OTHER_STYLES)
    if style == "passive" and kind in lex.FRAMES_OF_OBJECT:
        frame, verb = draw.frame(lex.FRAMES_OF_OBJECT[kind])
        predicate = phrases.passive(verb, subject.agreement, manner)
        agent = draw.chance(0.5)
        return predicate.add(_agent(draw, frame, subject.agreement), "obl:agent") if agent else predicate, "nsubj:pass"
    if style == "giving":
        return _giving(draw, subject, manner), "nsubj"
    if style == "modal":  # `elle n'a pas voulu se lever`, `ils essaient de comprendre`
        marker, verbs = draw.one(lex.BEFORE_INFINITIVE)
        predicate = active(draw.topical(verbs), subject.agreement, manner, transitive=False)
        return predicate.add(_infinitive_clause(draw, subject, marker, depth), "xcomp"), "nsubj"
    if style == "seeming":
        predicate = active(draw.topical(lex.SEEMING), subject.agreement, manner, transitive=False)
        return predicate.add(phrases.attribute(draw, subject), "xcomp"), "nsubj"
    if style == "action" and kind in lex.FRAMES_OF_SUBJECT:
        return action(draw, subject, manner, depth), "nsubj"
    return phrases.copula(phrases.attribute(draw, subject), subject.agreement, manner), "nsubj"


def action(draw: Draw, subject: Nominal, manner: Manner, depth: int) -> Phrase:
    frame, verb = draw.frame(lex.FRAMES_OF_SUBJECT[subject.kind])
    if frame.transitive and draw.chance(0.08):
        return phrases.with_clitic(draw, verb, subject.agreement, manner)
    predicate = active(verb, subject.agreement, manner, transitive=frame.transitive)
    return _with_objects(draw, predicate, frame, subject, depth, negated=manner.negation is not None)


def _with_objects(
    draw: Draw, predicate: Phrase, frame: Frame, subject: Nominal, depth: int, *, negated: bool = False
) -> Phrase:
    if not frame.objects:
        how = subject.kind in ("person", "group") and draw.chance(0.25)
        return predicate.after(draw.item(lex.MANNER), "advmod") if how else predicate
    kind, owner = draw.one(frame.objects), subject.agreement
    if frame.preposition:
        other = phrases.argument(draw, kind, depth=depth - 1, owner=owner, preposition=frame.preposition)
        return predicate.add(phrases.with_preposition(frame.preposition, other), "obl:arg")
    thing = phrases.argument(draw, kind, depth=depth - 1, owner=owner, negated=negated)
    return predicate.add(_modified(draw, thing, depth - 1), "obj")


def _giving(draw: Draw, subject: Nominal, manner: Manner) -> Phrase:
    """`elle a donné un livre à son frère`, `elle lui a donné un livre`."""
    frame, verb = draw.frame(lex.GIVING)
    clitics = [(draw.one((lex.LUI, lex.LUI, lex.LEUR)), "iobj")] if draw.chance(0.4) else []
    predicate = active(verb, subject.agreement, manner, transitive=True, clitics=clitics)
    _with_objects(draw, predicate, frame, subject, 0, negated=manner.negation is not None)
    if clitics:
        return predicate
    receiver = phrases.argument(draw, "person", depth=0, owner=subject.agreement, preposition="à")
    return predicate.add(phrases.with_preposition("à", receiver), "obl:arg")


def _infinitive_clause(draw: Draw, subject: Nominal, marker: str, depth: int) -> Phrase:
    """`de se promener`: the pronoun agrees with the subject, `je veux me promener`."""
    frame, verb = draw.frame(lex.FRAMES_OF_SUBJECT[subject.kind])
    phrase = single(lex.infinitive(verb.lemma))
    if verb.reflexive:
        phrase.before(lex.reflexive_pronoun(subject.agreement), relation="expl:comp")
    return _with_objects(draw, phrase.before(*lex.preposition(marker), relation="mark"), frame, subject, depth)


# --- relative clauses ---


def relative(draw: Draw, antecedent: Nominal) -> Phrase:
    """`qui dort`, `que Marie a vue`, `dont il parle`, `où elle travaille`."""
    kind = antecedent.kind
    choice = draw.random.random()
    if kind in ("building", "nature") and choice < 0.35:
        subject = _subject(draw, "person", 0)
        predicate = action(draw, subject, any_manner(draw, subject.agreement), 0)
        return joined(subject, predicate).before(lex.OU, relation="obl:mod")
    if kind in lex.FRAMES_WITH_DE and kind != "building" and choice < 0.2:
        return _relative_of(draw, kind)
    if kind in lex.FRAMES_OF_OBJECT and choice < 0.55:
        return _relative_object(draw, antecedent)
    predicate, relation = _said_of(draw, antecedent, any_manner(draw, antecedent.agreement), 0)
    return predicate.before(lex.QUI, relation=relation)


def _relative_object(draw: Draw, antecedent: Nominal) -> Phrase:
    """The participle agrees with the antecedent: `les fleurs qu'elle a cueillies`."""
    frame = draw.topical(lex.FRAMES_OF_OBJECT[antecedent.kind])
    subject = _subject(draw, draw.one(frame.subjects), 0)
    manner, verb = any_manner(draw, subject.agreement), draw.topical(frame.verbs)
    predicate = active(verb, subject.agreement, manner, transitive=True, object_before=antecedent.agreement)
    return joined(subject, predicate).before(lex.QUE, relation="obj")


def _relative_of(draw: Draw, kind: str) -> Phrase:
    frame, verb = draw.frame(lex.FRAMES_WITH_DE[kind])
    subject = _subject(draw, "person" if "person" in frame.subjects else frame.subjects[0], 0)
    predicate = active(verb, subject.agreement, any_manner(draw, subject.agreement), transitive=False)
    return joined(subject, predicate).before(lex.DONT, relation="obl:arg")


# --- when, where, why and how: what may stand before or after a clause ---


def _when(draw: Draw, tense: str) -> Phrase:
    """`hier`, `la semaine dernière`, `en 1987`, `chaque jour`, `pendant 3 heures`."""
    time = _TIMES.get(tense, tense)
    shape = draw.random.random()
    if shape < 0.3:
        return single(draw.item(lex.TIMES[time]))
    if time == "past":
        return phrases.date(draw) if shape < 0.65 else _dated(draw, "dernier", shape)
    if time == "future":
        return phrases.date(draw, future=True) if shape < 0.5 else _dated(draw, "prochain", shape)
    if time == "present" and shape < 0.5:
        return phrases.with_preposition("depuis", phrases.duration(draw))
    period = draw.item(_RECURRING)
    each = shape < 0.85 or period.lemma == "jour"
    return phrases.determined(lex.CHAQUE if each else lex.demonstrative(period.gender, SINGULAR), period.singular)


def _dated(draw: Draw, which: str, shape: float) -> Phrase:
    if shape > 0.88:
        return phrases.with_preposition("pendant", phrases.duration(draw))
    if shape > 0.8:  # `à 8 heures`
        return phrases.quantity(draw.between(2, 23), "heure").before(lex.A, relation="case")
    period = draw.item(_PERIODS)
    phrase = phrases.determined(lex.definite(period.gender, SINGULAR), period.singular)
    return phrase.after(lex.adjective(which).word(Concord(period.gender, SINGULAR)), "amod")


def where(draw: Draw) -> Phrase:
    """`à Lyon`, `derrière la maison`"""
    if draw.chance(0.45):
        return phrases.in_town_or_country(draw)
    text = draw.item(lex.PLACE)
    kind = draw.one(("building", "building", "nature"))
    return phrases.with_preposition(text, noun_phrase(draw, kind, depth=0, article=phrases.article_after(text)))


def add_after(draw: Draw, clause: Clause) -> None:
    """Something after the clause, fit for its subject and its tense."""
    choice = draw.random.random()
    if choice < 0.2 and clause.subject.kind == "person" and clause.head.word.pos == "VERB":
        # `pour acheter du pain`, `sans réfléchir`, `avant de partir`; `en chantant`, `en lisant le journal`
        marker = draw.one(("pour", "pour", "sans", "avant de")) if draw.chance(0.65) else "en"
        phrase = _infinitive_clause(draw, clause.subject, marker, 0)
        if marker == "en":
            phrase.head.word = lex.gerund(phrase.head.word.lemma)
        clause.add(phrase, "advcl")
    elif choice < 0.6 and _may_be_placed(clause):
        clause.add(where(draw), "obl:mod")
    else:
        when = _when(draw, clause.tense)
        clause.add(when, _relation(when))


def _may_be_placed(clause: Clause) -> bool:
    """Not where the verb has a complement of its own: `il va à Lyon au Canada`."""
    return clause.subject.kind in _PLACED_KINDS and all(node.relation != "obl:arg" for node in clause.nodes)


def add_before(draw: Draw, clause: Clause) -> None:
    """`Hier, ...`, `À Lyon, ...`"""
    placed = draw.chance(0.25) and _may_be_placed(clause)
    _open(clause, where(draw) if placed else _when(draw, clause.tense))


def _open(clause: Clause, phrase: Phrase) -> None:
    """What opens a sentence is set off by a comma."""
    clause.nodes[:0] = phrase.after(lex.COMMA, "punct").attach(clause.head, _relation(phrase))


def _relation(phrase: Phrase) -> str:
    return "advmod" if phrase.head.word.pos == "ADV" else "obl:mod"


# --- plain facts with numbers in them: prices, births, populations, ages, distances, lengths ---


def _simple_tense(draw: Draw) -> str:
    tense = draw.item(phrases.TENSES)
    return "present" if tense in phrases.COMPOUND or tense == "past" else tense


def _measured(subject: Nominal, verb: str, tense: str, amount: Phrase) -> Clause:
    """Subject, verb and a quantity: `le vase coûte 37 euros`."""
    predicate = active(Verb(verb), subject.agreement, Manner(tense), transitive=True)
    return joined(subject, predicate.add(amount, "obj"), tense)


def _cost(draw: Draw) -> Clause:
    kind = draw.one(_SOLD)
    subject = noun_phrase(draw, kind, article="specific")
    verb = draw.one(("coûter", "coûter", "valoir"))
    return _measured(subject, verb, _simple_tense(draw), phrases.price(draw, *_PRICES[kind]))


def _payment(draw: Draw) -> Clause:
    """`Marie a acheté le vase pour 37 euros`."""
    kind = draw.one(("object", "vehicle", "building"))
    verb = draw.one(("acheter", "vendre", "revendre"))
    clause = _measured(_subject(draw, "person", 1), verb, "perfect", noun_phrase(draw, kind, depth=0))
    return clause.add(phrases.with_preposition("pour", phrases.price(draw, *_PRICES[kind])), "obl:arg")


def _population(draw: Draw) -> Clause:
    subject = phrases.town(draw) if draw.chance(0.6) else noun_phrase(draw, "settlement", article="specific")
    number = phrases.rounded(draw, 200, 900000)
    return _measured(subject, draw.one(("compter", "avoir")), _simple_tense(draw), phrases.quantity(number, "habitant"))


def _birth(draw: Draw) -> Clause:
    """`Marie Durand est née à Lyon en 1987`: the participle agrees."""
    subject = phrases.person_name(draw)
    verb = Verb(draw.one(("naître", "naître", "mourir")))
    tense = draw.one(("perfect", "perfect", "past"))
    predicate = active(verb, subject.agreement, Manner(tense), transitive=False)
    if draw.chance(0.7):
        predicate.add(phrases.in_town_or_country(draw), "obl:mod")
    return joined(subject, predicate.add(phrases.date(draw), "obl:mod"), tense)


def _age(draw: Draw) -> Clause:
    years = phrases.quantity(draw.between(3, 99), "an")
    return _measured(_subject(draw, "person", 1), "avoir", _simple_tense(draw), years)


def _extent(draw: Draw) -> Clause:
    """`le pont mesure 120 mètres`, `le rapport compte 340 pages`, `le sac pèse 12 kilos`."""
    kind, verb, unit, most = draw.one(_EXTENTS)
    subject = noun_phrase(draw, kind, article="specific")
    amount = phrases.quantity(phrases.rounded(draw, 2, int(most)), unit)
    return _measured(subject, verb, _simple_tense(draw), amount)


def _distance(draw: Draw) -> Clause:
    """`le village se trouve à 12 kilomètres de Lyon`."""
    subject = noun_phrase(draw, draw.one(("building", "nature")), depth=0, article="specific")
    amount = phrases.quantity(phrases.rounded(draw, 2, 900), "kilomètre")
    amount.before(lex.A, relation="case").add(phrases.town(draw).before(lex.DE, relation="case"), "nmod")
    tense = _simple_tense(draw)
    predicate = active(Verb("trouver", reflexive=True), subject.agreement, Manner(tense), transitive=False)
    return joined(subject, predicate.add(amount, "obl:arg"), tense)


_FACTS: tuple[Callable[[Draw], Clause], ...] = (
    _cost, _cost, _payment, _population, _birth, _birth, _age, _extent, _distance,
)  # fmt: skip


# --- whole sentences ---


def sentences(count: int, *, seed: int = 0) -> Iterator[Sentence]:
    """The first `count` sentences of the endless corpus that `seed` names."""
    return (_sentence(seed, index) for index in range(count))


def _sentence(seed: int, index: int) -> Sentence:
    """Sentence `index` of the corpus of `seed`: a function of the two and of nothing else."""
    draw = Draw(Random(f"{seed}/{index}"))
    while True:
        phrase, end = draw.item(_PLANS)(draw)
        made = phrases.finished([*phrase.nodes, Node(end, phrase.head, "punct")], f"french-{seed}-{index}")
        if _SHORTEST <= len(made.tokens) <= _LONGEST:
            return made


def _ended(draw: Draw, phrase: Phrase) -> Planned:
    return phrase, lex.EXCLAMATION if draw.chance(0.02) else lex.STOP


def _simple(draw: Draw) -> Planned:
    made = clause(draw, 2)
    # one of the two: `hier, il partit la semaine dernière` would say when twice
    if draw.chance(0.22):
        add_before(draw, made)
        return _ended(draw, made)
    if draw.chance(0.72):
        add_after(draw, made)
    if draw.chance(0.06):
        _open(made, single(draw.item(lex.OPENERS)))  # `Pourtant, ...`
    return _ended(draw, made)


def _fact(draw: Draw) -> Planned:
    return draw.one(_FACTS)(draw), lex.STOP


def _joined(draw: Draw) -> Planned:
    """`..., et ...`, `... mais ...`"""
    first = clause(draw, 1)
    second = clause(draw, 0, subject=_taken_up(draw, first, 0.5), tense=first.tense)
    second.before(draw.one((lex.AND, lex.AND, lex.AND, lex.BUT, lex.BUT, lex.BUT, lex.OR)), relation="cc")
    first.add(second.before(lex.COMMA, relation="punct") if draw.chance(0.5) else second, "conj")
    if draw.chance(0.12):
        add_before(draw, first)
    return _ended(draw, first)


def _taken_up(draw: Draw, earlier: Clause, probability: float) -> Nominal | None:
    """A pronoun for the subject of an earlier clause: same gender, number and person, same kind of thing."""
    return _pronoun(earlier.subject.agreement, earlier.subject.kind) if draw.chance(probability) else None


def _subordinate(draw: Draw) -> Planned:
    """`... parce que ...`, `quand ..., ...`, `si ..., ...`"""
    choice = draw.random.random()
    if choice < 0.25:
        return _conditional(draw)
    main = clause(draw, 1)
    time_clause = choice < 0.6
    tense = main.tense if time_clause and main.tense != "conditional" else _BACKGROUND.get(main.tense, "present")
    side = clause(draw, 0, subject=_taken_up(draw, main, 0.6), tense=tense)
    if not time_clause and draw.chance(0.6):
        because = Node(lex.BECAUSE, side.head, "mark")
        side.nodes[:0] = [because, Node(lex.THAT, because, "fixed")]
    else:
        word = draw.one(lex.WHEN if time_clause else lex.SINCE)
        side.before(word, relation="cc" if word.pos == "CCONJ" else "mark")
    return _ended(draw, main.add(side, "advcl"))


def _conditional(draw: Draw) -> Planned:
    """`si` with the present, then the future; with the imperfect, then the conditional."""
    before, after = draw.one((("present", "future"), ("present", "present"), ("imperfect", "conditional")))
    side = clause(draw, 0, tense=before)
    main = clause(draw, 1, subject=_taken_up(draw, side, 0.5), tense=after)
    side.before(lex.IF, relation="mark").after(lex.COMMA, "punct")
    main.nodes[:0] = side.attach(main.head, "advcl")
    return main, lex.STOP


def _reported(draw: Draw) -> Planned:
    """`la voisine pense que ...`"""
    subject = _subject(draw, "person", 1)
    manner = any_manner(draw, subject.agreement)
    manner = Manner(manner.tense, adverb=manner.adverb)  # a denied opinion would ask for the subjunctive
    predicate = active(draw.topical(lex.SAYING), subject.agreement, manner, transitive=True)
    told = clause(draw, 1, tense=draw.one(_REPORTED.get(manner.tense, _REPORTED_PAST)))
    predicate.add(told.before(lex.THAT, relation="mark"), "ccomp")
    return _ended(draw, joined(subject, predicate, manner.tense))


def _needed(draw: Draw) -> Planned:
    """`il faut que` with the subjunctive."""
    tense = draw.one(("present", "present", "imperfect", "future", "conditional"))
    predicate = active(Verb("falloir"), NEUTRAL, Manner(tense), transitive=True)
    predicate.add(clause(draw, 1, tense="subjunctive").before(lex.THAT, relation="mark"), "ccomp")
    return predicate.before(lex.IL_IMPERSONAL, relation="expl:subj"), lex.STOP


def _there_is(draw: Draw) -> Planned:
    """`il y a trois chats dans le jardin`"""
    tense = draw.one(("present", "present", "imperfect", "future"))
    predicate = active(Verb("avoir"), NEUTRAL, Manner(tense), transitive=True)
    kind = draw.one(("person", "animal", "object", "plant", "building", "vehicle"))
    thing = noun_phrase(draw, kind, depth=0, article="indefinite")
    predicate.before(lex.Y, relation="expl:comp").before(lex.IL_IMPERSONAL, relation="expl:subj")
    if draw.chance(0.3):
        return predicate.add(thing.add(relative(draw, thing), "acl:relcl"), "obj"), lex.STOP
    return predicate.add(thing, "obj").add(where(draw), "obl:mod"), lex.STOP


def _this_is(draw: Draw) -> Planned:
    """`c'est une maison que ...`, `ce sont ...`"""
    kind = draw.one(("person", "object", "abstract", "building", "document", "event", "art"))
    thing = noun_phrase(draw, kind, article="indefinite")
    thing.add(relative(draw, thing), "acl:relcl")
    made = phrases.copula(thing, thing.agreement, Manner(draw.one(("present", "present", "imperfect"))))
    return made.before(lex.CE, relation="nsubj"), lex.STOP


def _question(draw: Draw) -> Planned:
    """`qui a mangé le gâteau ?`"""
    who = phrases.single_nominal(lex.WHO, NEUTRAL, "person")
    manner = any_manner(draw, NEUTRAL)
    is_copula = draw.chance(0.2)
    said = phrases.copula(phrases.attribute(draw, who), NEUTRAL, manner) if is_copula else action(draw, who, manner, 1)
    made = joined(who, said, manner.tense)
    if draw.chance(0.5):
        add_after(draw, made)
    return made, lex.QUESTION


_PLANS: Weighted[Callable[[Draw], Planned]] = Weighted(
    (_simple, _fact, _joined, _subordinate, _reported, _needed, _there_is, _this_is, _question),
    (0.56, 0.1, 0.08, 0.09, 0.08, 0.02, 0.025, 0.02, 0.025),
)
