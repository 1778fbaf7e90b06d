"""Minimal pairs of agreement from a treebank: one word takes the form that its subject or noun does not allow.

    les maisons que je vois sont grandes .      les maisons que je vois est grandes .        verb-number, 4, 1

    pairs = make_pairs(Corpus.from_file("treebank.conllu"), vocabulary=model.vocabulary, limit=1000)

A pair is made only where the tree says that the two words agree (`Tree`), where annotated text says that such words do
agree (`Evidence`), and where nothing else in the sentence makes the wrong form right (`Forms`, `Tree.rivals`). It is
better to lose a pair than to ask a model for a mistake that is none. No language is written into this.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Literal

from llrnn.ground.errors import CorpusError
from llrnn.inference.pairs import Pair
from llrnn.text.readers import Sentence, Token

# What annotated text says about forms: which one has the other number, which are ambiguous, which fit together.

AGREEING = ("Number", "Gender", "Person")
FEW = 3  # readings that are too few to say that a form is unambiguous
NOISE = 0.02  # the share of readings that annotation gets wrong: rarer ones count for nothing

_Feats = frozenset[tuple[str, str]]
_ASIDE = ("Typo", "Foreign")  # words that are no model for others
_APOSTROPHES = ("'", "’")


class Forms:
    """Forms by lemma, part of speech and features, and the readings of each form, all lowercased."""

    def __init__(self, corpora: Iterable[Iterable[Sentence]]) -> None:
        self.by_feats: dict[tuple[str, str, _Feats], Counter[str]] = defaultdict(Counter)
        self.readings: dict[tuple[str, str], Counter[_Feats]] = defaultdict(Counter)
        self.neighbours: Counter[tuple[str, str]] = Counter()  # a word and the first letter of the next one
        self.endings: set[tuple[str, str]] = set()  # the last letter of a word and a clitic after it
        self.elided: dict[str, set[str]] = defaultdict(set)  # lemma -> its forms with an apostrophe
        for sentence in chain.from_iterable(corpora):
            self._add(sentence)

    def _add(self, sentence: Sentence) -> None:
        before = ""
        for token in sentence.tokens:
            form = token.form.lower()
            if before:
                self.neighbours[before, form[0]] += 1
                self.endings.update([(before[-1], form)] if form[0] == "-" else [])
            if form.endswith(_APOSTROPHES):
                self.elided[token.lemma or form].add(form)
            before = form
            if token.pos is not None and not any(name in token.feats for name in _ASIDE):
                feats = frozenset(token.feats.items())
                self.readings[form, token.pos][feats] += 1
                if token.lemma is not None:
                    self.by_feats[token.lemma, token.pos, feats][form] += 1

    def swapped(self, token: Token, feature: str, values: Iterable[str]) -> tuple[str, str] | None:
        """The form of the same word with another value of one feature, and that value; the most frequent one."""
        if token.lemma is None or token.pos is None or any(name in token.feats for name in _ASIDE):
            return None
        found: list[tuple[int, str, str]] = []
        for value in set(values) - {token.feats[feature]}:
            feats = frozenset({**token.feats, feature: value}.items())
            counts = self.by_feats.get((token.lemma, token.pos, feats), Counter[str]())
            found += [(-count, form, value) for form, count in counts.items()]
        _, form, value = min(found, default=(0, token.form.lower(), ""))
        if form == token.form.lower():
            return None
        return (form.capitalize() if token.form[:1].isupper() else form), value

    def could_be(self, form: str, feature: str, token: Token) -> bool:
        """Whether a form may be read as what `token` is, as far as agreement goes: then it is not wrong in its place.

        Readings of any verb or adjective count: `finis` is a participle in the plural, and a verb in the singular.
        """
        right = total = 0
        for pos in ("VERB", "AUX", "ADJ") if token.pos != "ADJ" else ("ADJ", "VERB"):
            for feats, count in self.readings.get((form.lower(), pos), {}).items():
                reading = dict(feats)
                if feature in reading and reading.get("VerbForm") == token.feats.get("VerbForm"):
                    total += count
                    right += count * agree(reading, token.feats)
        return right > NOISE * total

    def shows(self, token: Token, feature: str) -> bool:
        """Whether the form alone tells the value: `maisons` does, `pays` does not."""
        value = token.feats.get(feature)
        if value is None or token.pos is None:
            return False
        counts: Counter[str | None] = Counter()
        for feats, count in self.readings.get((token.form.lower(), token.pos), {}).items():
            counts[dict(feats).get(feature)] += count
        total = counts.total() - counts[None]
        return total >= FEW and total - counts[value] <= NOISE * total

    def fits(self, before: Token | None, good: str, bad: str, after: Token | None) -> bool:
        """Whether the wrong form can stand where the right one stood, by its letters: `c' sont` and `ne est` would be
        wrong for their spelling, not for their agreement."""
        first, last = bad[0].lower(), bad[-1].lower()
        if after is not None and after.form[0] == "-" and last != good[-1].lower():
            return (last, after.form.lower()) in self.endings
        if before is None or first == good[0].lower():
            return True
        form = before.form.lower()
        seen = self.neighbours[form, first]
        if form.endswith(_APOSTROPHES):
            return seen > 0
        return seen >= sum(self.neighbours[other, first] for other in self.elided.get(before.lemma or form, ()))


def agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two words have the same value of every feature of agreement that both have."""
    return all(one[name] == other[name] for name in AGREEING if name in one and name in other)


# Dependency trees: who depends on whom, and which word decides the form of which.
#
# Everything here follows Universal Dependencies and no language in particular. Positions count from 0.

Kind = Literal["verb", "adjective", "participle"]
Link = Literal["subject", "relative", "shared", "attribute"]
_Subject = tuple[int, Link, int]  # the controller, how it controls, and the relative pronoun, -1 for none

NOMINAL = frozenset({"NOUN", "PROPN", "PRON"})
_OTHER_SUBJECTS = frozenset({"nsubj:outer", "nsubj:caus"})  # of a clause around this one, of the one who causes


@dataclass(frozen=True, slots=True)
class AgreementLink:
    """The word at `target` takes its form from the word at `controller`.

    `link` says how: from its subject, from the noun that the relative pronoun at `pronoun` stands for, from the subject
    of the verb that it is coordinated with, or from the noun that it modifies. `means` are the lemmas of a participle's
    auxiliaries, which decide in many languages whether it agrees at all.
    """

    target: int
    kind: Kind
    controller: int
    link: Link
    pronoun: int = -1
    means: tuple[str, ...] = ()


class Tree:
    """A sentence with the dependents of each word at hand."""

    def __init__(self, sentence: Sentence) -> None:
        self.tokens = sentence.tokens
        self.children: list[list[int]] = [[] for _ in self.tokens]
        for index, token in enumerate(self.tokens):
            if token.head:
                self.children[token.head - 1].append(index)

    def head(self, index: int) -> int | None:
        head = self.tokens[index].head
        return head - 1 if head else None

    def having(self, index: int, *relations: str) -> list[int]:
        """The dependents by these relations, subtypes included."""
        return [child for child in self.children[index] if base(self.tokens[child]) in relations]

    def is_nominal(self, index: int) -> bool:
        return self.tokens[index].pos in NOMINAL

    def is_coordinated(self, index: int) -> bool:
        return base(self.tokens[index]) == "conj" or bool(self.having(index, "conj"))

    def agreements(self) -> Iterator[AgreementLink]:
        """Every verb, adjective and participle whose form another word may decide."""
        for index, token in enumerate(self.tokens):
            kind = _kind(token)
            if kind is not None:
                found = self._verb(index) if kind == "verb" else self._inflected(index, kind)
                # by a single word with letters: `10 %` and `Pierre et Marie` take either form
                if (
                    found is not None
                    and self.is_nominal(found.controller)
                    and any(map(str.isalpha, self.tokens[found.controller].form))
                    and not self.is_coordinated(found.controller)
                ):
                    yield found

    def _verb(self, index: int) -> AgreementLink | None:
        host = self.head(index) if base(self.tokens[index]) in ("aux", "cop") else index
        if host is None or (host == index and self.having(index, "aux", "cop")):  # the auxiliary is finite, not this
            return None
        found = self._subject(host) or self._shared_subject(host)
        return None if found is None else AgreementLink(index, "verb", *found)

    def _inflected(self, index: int, kind: Kind) -> AgreementLink | None:
        relation, head = self.tokens[index].relation, self.head(index)
        helpers = self.having(index, "aux", "cop")
        if relation in ("amod", "acl") and head is not None:
            free = not helpers and not self.having(index, "nsubj", "csubj")
            return AgreementLink(index, kind, head, "attribute") if free and self.tokens[head].pos != "PRON" else None
        means: tuple[str, ...] = ()
        if helpers:
            host = index
            if kind == "participle":
                means = tuple(sorted(self.tokens[helper].lemma or "" for helper in helpers))
        elif base(self.tokens[index]) == "xcomp" and head is not None and not self.having(head, "obj"):
            host, means = head, ("xcomp",)
        else:
            return None
        # an object may decide instead (`elle s'est lavé les mains`), but not a reflexive one
        has_object = any("Reflex" not in self.tokens[child].feats for child in self.having(index, "obj"))
        found = None if has_object else self._subject(host)
        return None if found is None else AgreementLink(index, kind, *found, means)

    def _subject(self, host: int) -> _Subject | None:
        """The subject of a clause, or what its relative pronoun stands for."""
        subjects = [i for i in self.having(host, "nsubj") if self.tokens[i].relation not in _OTHER_SUBJECTS]
        if len(subjects) != 1 or self._is_impersonal(host):
            return None
        (subject,) = subjects
        if "Rel" not in self.tokens[subject].feats.get("PronType", "").split(","):
            return subject, "subject", -1
        antecedent = self.head(host)
        if self.tokens[host].relation == "acl:relcl" and antecedent is not None and antecedent < subject:
            return antecedent, "relative", subject
        return None

    def _shared_subject(self, host: int) -> _Subject | None:
        """`il chante et danse`: a coordinated verb without any subject of its own has that of the first."""
        head = self.head(host)
        if head is None or base(self.tokens[host]) != "conj" or self.having(host, "nsubj") or self._is_impersonal(host):
            return None
        found = self._subject(head)
        return (found[0], "shared", -1) if found is not None and found[1] == "subject" else None

    def _is_impersonal(self, host: int) -> bool:
        empty = any(self.tokens[child].relation in ("expl", "expl:subj") for child in self.children[host])
        return empty or bool(self.having(host, "csubj"))

    def rivals(self, agreement: AgreementLink) -> list[int]:
        """The nominals that a reader might take for the controller instead: with one that suits the wrong form, the
        sentence would mean something else, but not be wrong (`le maire de la ville connue`, `... connu`)."""
        target, controller = agreement.target, agreement.controller
        match agreement.link:
            case "subject":
                head = self.head(target) if base(self.tokens[target]) == "cop" else None
                rivals = [] if head is None else [head]
            case "shared":
                rivals = [i for i in range(target) if base(self.tokens[i]) in ("nsubj", "expl")]
            case "relative":
                rivals = list(range(self._phrase_start(controller), agreement.pronoun))
            case "attribute":
                rivals = list(range(self._phrase_start(controller), target))
        return [index for index in rivals if index != controller and self.is_nominal(index)]

    def _phrase_start(self, index: int) -> int:
        """Where the nouns begin that may all have the same modifier: after the verb that they complement."""
        start, head = index, self.head(index)
        while head is not None and self.is_nominal(head):
            index, head = head, self.head(head)
            start = min(start, index)
        return min(start, head) if head is not None else start


def base(token: Token) -> str:
    """The relation without its subtype."""
    return (token.relation or "").partition(":")[0]


def _kind(token: Token) -> Kind | None:
    form = token.feats.get("VerbForm")
    if token.pos in ("VERB", "AUX", "ADJ") and form == "Part":
        return "participle"
    if token.pos == "ADJ" and form is None:
        return "adjective"
    finite = form == "Fin" or (form is None and "Mood" in token.feats)  # some treebanks leave VerbForm=Fin out
    return "verb" if token.pos in ("VERB", "AUX") and finite else None


# Which words agree with which is not written down here, it is counted in annotated text.
#
# In French a participle agrees with its subject after `être`, not after `avoir`; in Estonian a verb agrees with a
# subject in the nominative, not in the partitive; in Turkish a singular subject asks for a singular verb, while a
# plural one takes either. So for each configuration (kind of word, link, auxiliaries, case) and values v, w: the form
# with w is wrong beside a controller with v only if
#
#     P(target has v | controller has v)  and  P(controller has w | target has w)     are both near one.
#
# Likewise single controllers that take either form (`on est content`, `on est contents`) are no evidence.

SURE = 0.9  # of what the two sides are to say; annotation and collective nouns take the rest

_Key = tuple[object, ...]


def features_of(agreement: AgreementLink) -> tuple[str, ...]:
    """The features in which the two words may agree."""
    if agreement.link == "shared":
        return ("Number",)  # another person may be an imperative: `il monte, prenez place`
    return ("Number", "Person") if agreement.kind == "verb" else ("Number", "Gender")


class Evidence:
    """How often the two words of each configuration have which values."""

    def __init__(self, corpora: Iterable[Iterable[Sentence]]) -> None:
        self.values: dict[_Key, Counter[tuple[str, str]]] = defaultdict(Counter)
        self.of_word: dict[_Key, Counter[tuple[_Key, bool]]] = defaultdict(Counter)  # by configuration, agreed or not
        for sentence in chain.from_iterable(corpora):
            self._add(Tree(sentence))

    def _add(self, tree: Tree) -> None:
        for agreement in tree.agreements():
            target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
            for feature in features_of(agreement):
                own, wanted = target.feats.get(feature), controller.feats.get(feature)
                if own is not None and wanted is not None:
                    configuration = _configuration(agreement, controller, feature)
                    self.values[configuration][wanted, own] += 1
                    self.of_word[_word(agreement, controller, feature)][configuration, own == wanted] += 1

    def other_values(self, agreement: AgreementLink, controller: Token, feature: str) -> list[str]:
        """The values that the target cannot have beside this controller."""
        if self._takes_either(_word(agreement, controller, feature)):
            return []
        counts = self.values.get(_configuration(agreement, controller, feature), Counter[tuple[str, str]]())
        value = controller.feats[feature]
        if counts[value, value] < SURE * sum(n for (wanted, _), n in counts.items() if wanted == value):
            return []
        targets = sorted({own for _, own in counts} - {value})
        return [w for w in targets if counts[w, w] >= SURE * sum(n for (_, own), n in counts.items() if own == w)]

    def _takes_either(self, word: _Key) -> bool:
        """Whether a controller goes with other values, in configurations where agreement is the rule."""
        seen = [(ok, n) for (place, ok), n in self.of_word.get(word, {}).items() if self._is_rule(place)]
        return sum(n for ok, n in seen if not ok) > NOISE * sum(n for _, n in seen)

    def _is_rule(self, configuration: _Key) -> bool:
        counts = self.values[configuration]
        return sum(n for (wanted, own), n in counts.items() if wanted == own) >= SURE * counts.total()


def _configuration(agreement: AgreementLink, controller: Token, feature: str) -> _Key:
    return agreement.kind, agreement.link, agreement.means, controller.feats.get("Case"), feature


def _word(agreement: AgreementLink, controller: Token, feature: str) -> _Key:
    return agreement.kind == "verb", controller.form.lower(), feature


def make_pairs(
    corpus: Iterable[Sentence],
    *,
    lexicon_corpus: Iterable[Sentence] | None = None,
    vocabulary: Container[str] | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> list[Pair]:
    """All pairs that the sentences of an annotated corpus give, in its order, or `limit` of them drawn by `seed`.

    Forms and the habits of agreement come from the corpus itself, and from `lexicon_corpus` where one is given. With a
    `vocabulary`, every word of both sentences is listed in it. Words with whitespace in them (`10 000`) cannot be
    written to a file of pairs: their sentences are left out.

        pairs = make_pairs(Corpus.from_file("treebank.conllu"), vocabulary=model.vocabulary, limit=1000)
    """
    sentences = list(corpus)
    if not any(token.head is not None for sentence in sentences for token in sentence.tokens):
        raise CorpusError("pairs are made from dependency trees, found no HEAD in the corpus; give a full treebank")
    known = [sentences] if lexicon_corpus is None else [sentences, list(lexicon_corpus)]
    maker = _PairMaker(Forms(known), Evidence(known))
    usable = (s for s in sentences if all(_is_usable(token.form, vocabulary) for token in s.tokens))
    pairs = {(p.good, p.bad): p for s in usable for p in maker.pairs(s) if _is_usable(p.bad[p.place], vocabulary)}
    made = list(pairs.values())
    if limit is None or limit >= len(made):
        return made
    return [made[index] for index in sorted(Random(seed).sample(range(len(made)), limit))]


def _is_usable(word: str, vocabulary: Container[str] | None) -> bool:
    return word.split() == [word] and (vocabulary is None or word in vocabulary)


class _PairMaker:
    """Makes the pairs of one sentence after another."""

    def __init__(self, forms: Forms, evidence: Evidence) -> None:
        self.forms, self.evidence = forms, evidence

    def pairs(self, sentence: Sentence) -> Iterator[Pair]:
        tree, good = Tree(sentence), sentence.words
        for agreement in tree.agreements():
            target, controller = agreement.target, agreement.controller
            between = range(min(target, controller) + 1, max(target, controller))
            for feature in features_of(agreement):
                wrong = self.wrong_form(tree, agreement, feature)
                if wrong is not None:
                    value = tree.tokens[controller].feats[feature]
                    others = (tree.tokens[i].feats.get(feature, value) for i in between if tree.is_nominal(i))
                    distractors = sum(other != value for other in others)
                    bad = (*good[:target], wrong, *good[target + 1 :])
                    group = f"{agreement.kind}-{feature.lower()}"
                    yield Pair(good, bad, group, len(between) + 1, distractors, target)

    def wrong_form(self, tree: Tree, agreement: AgreementLink, feature: str) -> str | None:
        """The form that the word must not have here, if it is sure that there is one."""
        target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
        if not self.really_agrees(tree, agreement, feature):
            return None
        swap = self.forms.swapped(target, feature, self.evidence.other_values(agreement, controller, feature))
        if swap is None or self.forms.could_be(swap[0], feature, target):
            return None
        bad, value = swap
        wrong = {**target.feats, feature: value}
        if any(_suits(tree, rival, wrong, feature) for rival in tree.rivals(agreement)):
            return None
        before, _, after = (None, *tree.tokens, None)[agreement.target : agreement.target + 3]
        return bad if self.forms.fits(before, target.form, bad, after) else None

    def really_agrees(self, tree: Tree, agreement: AgreementLink, feature: str) -> bool:
        """Both words have the value, no other feature contradicts, and a reader can see which value it is."""
        target, controller = tree.tokens[agreement.target], tree.tokens[agreement.controller]
        value = controller.feats.get(feature)
        if value is None or "," in value or target.feats.get(feature) != value:
            return False
        marks = [tree.tokens[i] for i in tree.having(agreement.controller, "det", "amod") if i != agreement.target]
        shown_by = [controller, *(mark for mark in marks if mark.feats.get(feature) == value)]
        return agree(target.feats, controller.feats) and any(self.forms.shows(word, feature) for word in shown_by)


def _suits(tree: Tree, rival: int, wrong: dict[str, str], feature: str) -> bool:
    """Whether the wrong form would agree with a rival; what coordination makes of number and gender is left open."""
    known = {} if tree.is_coordinated(rival) else tree.tokens[rival].feats
    return agree(known, wrong) and known.get(feature, wrong[feature]) == wrong[feature]
