"""The French grammar: deterministic, well-formed, in agreement at any distance, with a long tail of words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from llrnn.text import french as sample
from llrnn.text.readers import Sentence, Token, conllu_lines
from llrnn_lab import french
from llrnn_lab.french.lexicon import begins_with_vowel, conjugate, feminine, manner_adverb, plural

_ASPIRATED_STEMS = """
hache haie haine hall hamac hameau hamster hangar haricot harpe haut héron héros hérisson hêtre heurt hibou hollan
homard hongr honte houx huit hurl hausse handball hambourg
"""
_ASPIRATED = tuple(_ASPIRATED_STEMS.split())
_ELIDING = ("le", "la", "de", "que", "ne", "je", "me", "te", "se", "ce", "lorsque", "puisque", "ma", "ta", "sa")
_GENDER_OF_FORM = {
    "le": "Masc", "un": "Masc", "ce": "Masc", "cet": "Masc", "la": "Fem", "une": "Fem", "cette": "Fem", "ma": "Fem",
    "ta": "Fem", "sa": "Fem", "du": "Masc", "au": "Masc",
}  # fmt: skip
_PLURAL_FORMS = ("les", "des", "ces", "mes", "tes", "ses", "nos", "vos", "leurs", "aux", "plusieurs", "quelques")


@pytest.fixture(scope="module")
def large() -> list[Sentence]:
    return list(french.sentences(20_000))


@pytest.fixture(scope="module")
def some(large: list[Sentence]) -> list[Sentence]:
    return large[:2500]


# Determinism


def test_the_sample_of_the_package_is_the_first_of_seed_0(large: list[Sentence]) -> None:
    """Words, lemmas, features, heads and names."""
    assert sample.sentences(sample.SIZE) == large[: sample.SIZE]


def test_a_longer_corpus_begins_with_a_shorter_one() -> None:
    assert list(french.sentences(20, seed=5)) == list(french.sentences(60, seed=5))[:20]


def test_seeds_differ_and_zero_sentences_are_none() -> None:
    assert list(french.sentences(20, seed=1)) != list(french.sentences(20, seed=2))
    assert [s.words for s in french.sentences(20, seed=1)] != [s.words for s in french.sentences(20, seed=-1)]
    assert list(french.sentences(0)) == []


def test_the_same_in_another_process_with_other_hashes() -> None:
    script = """
import sys
from llrnn.text.readers import conllu_lines
from llrnn_lab import french
sys.stdout.write("\\n".join(conllu_lines(french.sentences(40))))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    assert run.stdout.decode("utf-8").splitlines() == "\n".join(conllu_lines(french.sentences(40))).splitlines()


# Trees


def tree_faults(sentence: Sentence) -> list[str]:
    heads = [token.head for token in sentence.tokens]
    faults = [f"head {head}" for head in heads if head is None or not 0 <= head <= len(heads)]
    if heads.count(0) != 1:
        faults.append("not one root")
    for start in range(1, len(heads) + 1):
        seen, here = 0, start
        while here and seen <= len(heads) and not faults:
            here, seen = heads[here - 1] or 0, seen + 1
        if seen > len(heads):
            faults.append(f"a circle through {start}")
    return faults


def test_every_sentence_is_a_tree_of_fair_size(some: list[Sentence]) -> None:
    assert [fault for sentence in some for fault in tree_faults(sentence)] == []
    lengths = [len(sentence.tokens) for sentence in some]
    assert min(lengths) >= 5
    assert max(lengths) <= 26
    assert 10.5 < sum(lengths) / len(lengths) < 13.5


def test_a_circle_and_a_second_root_are_noticed() -> None:
    tokens = (Token("a", head=2), Token("b", head=1), Token("c", head=0))
    assert tree_faults(Sentence(tokens)) != []
    assert tree_faults(Sentence((Token("a", head=0), Token("b", head=0)))) != []


def test_sentences_start_with_a_capital_and_end_with_a_stop(some: list[Sentence]) -> None:
    assert all(sentence.words[0][0].isupper() or sentence.words[0][0].isdigit() for sentence in some)
    assert all(sentence.words[-1] in (".", "?", "!") for sentence in some)
    assert all(token.form and token.lemma and token.pos and token.relation for s in some for token in s.tokens)


# Agreement, checked from the annotation by other code than that which makes it


class Tree:
    """A sentence with its edges both ways."""

    def __init__(self, sentence: Sentence) -> None:
        self.tokens = sentence.tokens

    def head(self, token: Token) -> Token | None:
        return self.tokens[token.head - 1] if token.head else None

    def children(self, token: Token, *relations: str) -> list[Token]:
        place = next(i for i, other in enumerate(self.tokens, start=1) if other is token)
        return [child for child in self.tokens if child.head == place and child.relation in relations]

    def traits(self, nominal: Token) -> Mapping[str, str]:
        """Gender, number and person of a noun phrase: two of them are plural, and masculine unless all are feminine."""
        found = {name: nominal.feats[name] for name in ("Gender", "Number") if name in nominal.feats}
        if nominal.pos in ("NOUN", "PROPN"):
            others = [t for t in self.children(nominal, "conj") if t.pos in ("NOUN", "PROPN")]
            if others:
                genders = [t.feats.get("Gender") for t in (nominal, *others)]
                found = {"Number": "Plur", "Gender": "Fem" if set(genders) == {"Fem"} else "Masc"}
        return {**found, "Person": nominal.feats.get("Person", "3")}

    def subject_traits(self, subject: Token, predicate: Token) -> Mapping[str, str]:
        kind = subject.feats.get("PronType")
        if kind == "Rel":
            antecedent = self.head(predicate)
            assert antecedent is not None
            assert predicate.relation == "acl:relcl"
            return self.traits(antecedent)
        if kind == "Int":
            return {"Gender": "Masc", "Number": "Sing", "Person": "3"}
        return {} if kind == "Dem" else self.traits(subject)

    def finite_verb(self, predicate: Token) -> Token:
        verbs = [predicate, *self.children(predicate, "aux:tense", "aux:pass", "cop")]
        (found,) = [verb for verb in verbs if verb.feats.get("VerbForm") == "Fin"]
        return found


def clashes(left: Mapping[str, str], right: Mapping[str, str], *names: str) -> list[str]:
    return [name for name in names if name in left and name in right and left[name] != right[name]]


def agreement_faults(sentence: Sentence) -> list[str]:
    tree = Tree(sentence)
    return [fault for token in sentence.tokens for fault in (*noun_faults(tree, token), *verb_faults(tree, token))]


def noun_faults(tree: Tree, token: Token) -> list[str]:
    """Determiners, adjectives, contracted prepositions and participles beside their noun."""
    head = tree.head(token)
    if head is None or head.pos not in ("NOUN", "PROPN"):
        return []
    wanted: Mapping[str, str] = head.feats
    if token.relation == "acl" and token.feats.get("VerbForm") == "Part":
        wanted = tree.traits(head)
    elif token.relation not in ("det", "amod", "case", "nummod"):
        return []
    faults = clashes(token.feats, wanted, "Gender", "Number")
    form = token.form.lower()
    if token.relation in ("det", "case") and (form, token.pos) != ("des", "VERB"):
        faults += ["form"] * (_GENDER_OF_FORM.get(form, wanted.get("Gender")) != wanted.get("Gender"))
        faults += ["form"] * (form in _PLURAL_FORMS and wanted.get("Number") != "Plur")
    return [f"{token.form} {head.form}: {name}" for name in faults]


def verb_faults(tree: Tree, subject: Token) -> list[str]:
    """What is said of a subject: the finite verb, a participle with être, an attribute; a participle after `que`."""
    predicate = tree.head(subject)
    if predicate is None or subject.relation not in ("nsubj", "nsubj:pass"):
        return []
    traits = tree.subject_traits(subject, predicate)
    faults = clashes(tree.finite_verb(predicate).feats, traits, "Number", "Person")
    attributes = [predicate] if predicate.pos == "ADJ" else []
    attributes += [t for t in tree.children(predicate, "xcomp") if t.pos == "ADJ"]
    attributes += [
        t
        for a in tuple(attributes)
        for t in tree.children(a, "conj")
        if t.pos == "ADJ" and not tree.children(t, "nsubj")
    ]
    for adjective in attributes:
        faults += clashes(adjective.feats, traits, "Gender", "Number")
    if predicate.feats.get("VerbForm") == "Part":
        faults += clashes(predicate.feats, participle_traits(tree, predicate, traits), "Gender", "Number")
    return [f"{subject.form} {predicate.form}: {name}" for name in faults]


def participle_traits(tree: Tree, participle: Token, subject: Mapping[str, str]) -> Mapping[str, str]:
    auxiliaries = tree.children(participle, "aux:tense", "aux:pass")
    if any(auxiliary.lemma == "être" for auxiliary in auxiliaries):
        return subject
    before = [t for t in tree.children(participle, "obj") if t.pos == "PRON"]
    if before and before[0].feats.get("PronType") == "Rel":
        antecedent = tree.head(participle)
        assert antecedent is not None
        return tree.traits(antecedent)
    return before[0].feats if before else {"Gender": "Masc", "Number": "Sing"}


def test_everything_agrees(some: list[Sentence]) -> None:
    assert [fault for sentence in some for fault in agreement_faults(sentence)] == []


def altered(sentence: Sentence, place: int, **feats: str) -> Sentence:
    tokens = list(sentence.tokens)
    tokens[place] = replace(tokens[place], feats={**tokens[place].feats, **feats})
    return Sentence(tuple(tokens))


def flipped(token: Token, name: str) -> str:
    other = {"Masc": "Fem", "Fem": "Masc", "Sing": "Plur", "Plur": "Sing"}
    return other[token.feats[name]]


def follows_que(tree: Tree, token: Token) -> bool:
    return any(child.lemma == "que" for child in tree.children(token, "obj"))


def follows_qui(tree: Tree, token: Token) -> bool:
    return any(child.form == "qui" for child in tree.children(token, "nsubj"))


def is_relative(token: Token, verb_form: str) -> bool:
    return token.relation == "acl:relcl" and token.feats.get("VerbForm") == verb_form


_BREAKABLE: dict[str, Callable[[Tree, Token], bool]] = {
    "adjective": lambda tree, t: t.relation == "amod",
    "determiner": lambda tree, t: t.relation == "det" and "Number" in t.feats,
    "attribute": lambda tree, t: t.pos == "ADJ" and bool(tree.children(t, "cop")),
    "relative verb": lambda tree, t: is_relative(t, "Fin") and follows_qui(tree, t),
    "passive": lambda tree, t: t.feats.get("Voice") == "Pass",
    "object before": lambda tree, t: is_relative(t, "Part") and follows_que(tree, t),
}


@pytest.mark.parametrize("place_of", _BREAKABLE.values(), ids=_BREAKABLE)
def test_a_broken_agreement_is_noticed(some: list[Sentence], place_of: Callable[[Tree, Token], bool]) -> None:
    found = [(s, i) for s in some for i, token in enumerate(s.tokens) if place_of(Tree(s), token)]
    assert len(found) >= 5
    for sentence, place in found[:20]:
        broken = altered(sentence, place, Number=flipped(sentence.tokens[place], "Number"))
        assert agreement_faults(broken) != []


def test_agreement_reaches_across_distance(large: list[Sentence]) -> None:
    """The law above is about something: nouns of another gender or number do stand between subject and predicate."""
    distracted = 0
    for sentence in large[:1000]:
        tree = Tree(sentence)
        for place, subject in enumerate(sentence.tokens):
            if subject.relation in ("nsubj", "nsubj:pass") and subject.pos == "NOUN" and subject.head:
                between = sentence.tokens[place + 1 : subject.head - 1]
                traits = tree.traits(subject)
                distracted += any(t.pos == "NOUN" and clashes(t.feats, traits, "Gender", "Number") for t in between)
    assert distracted > 50


# Spelling


def elision_faults(words: list[str]) -> list[str]:
    lower = [word.lower() for word in words]
    faults = []
    for left, right in pairwise(lower):
        vowel = right[0] in "aàâeéèêëiîïoôuœ" or (right[0] == "h" and not right.startswith(_ASPIRATED))
        vowel = vowel or right == "y" or right.startswith("yv")
        if (left in _ELIDING and vowel) or (left.endswith("'") and not vowel):
            faults.append(f"{left} {right}")
        if (left, right) in (("si", "il"), ("si", "ils")) or (left in ("beau", "nouveau") and vowel):
            faults.append(f"{left} {right}")
    return faults


def test_elision_is_right(large: list[Sentence]) -> None:
    assert [fault for sentence in large[:8000] for fault in elision_faults(list(sentence.words))] == []


@pytest.mark.parametrize(
    "text", ["le homme", "la amie", "l' hibou", "l' maison", "de Yves", "si il", "je ai", "ma idée"]
)
def test_wrong_elision_is_noticed(text: str) -> None:
    assert elision_faults(text.split()) != []


def test_articles_are_contracted(large: list[Sentence]) -> None:
    pairs = {
        (left.lemma, right.form)
        for sentence in large[:8000]
        for left, right in pairwise(sentence.tokens)
        if right.pos == "DET" and right.form in (("le", "les", "des", "du") if left.form == "de" else ("le", "les"))
        if left.form in ("de", "à")
    }
    assert pairs == set()


_CONJUGATED = """
manger present 3 mangeons, manger past 5 mangèrent, manger imperfect 3 mangions, commencer imperfect 2 commençait
acheter future 2 achètera, jeter present 5 jettent, préférer present 0 préfère, préférer future 0 préférerai
vexer present 2 vexe, nettoyer present 2 nettoie, envoyer future 2 enverra, finir imperfect 5 finissaient
reconnaître past 2 reconnut, devenir past 5 devinrent, devenir subjunctive 2 devienne, écrire past 2 écrivit
vendre present 2 vend, recevoir present 5 reçoivent, accueillir future 2 accueillera, être imperfect 3 étions
avoir subjunctive 2 ait, aller future 5 iront, savoir subjunctive 3 sachions, valoir future 2 vaudra
interdire present 4 interdisez, répondre past 2 répondit, sourire present 2 sourit, élire past 2 élut
"""


@pytest.mark.parametrize("case", _CONJUGATED.strip().replace("\n", ", ").split(", "))
def test_conjugation(case: str) -> None:
    verb, tense, person, form = case.split()
    assert conjugate(verb).tenses[tense][int(person)] == form


def test_participles() -> None:
    wanted = {"naître": "né", "apprendre": "appris", "repeindre": "repeint", "offrir": "offert", "vivre": "vécu",
              "parcourir": "parcouru", "promettre": "promis", "élire": "élu", "relire": "relu", "concevoir": "conçu",
              "devoir": "dû", "mourir": "mort", "ouvrir": "ouvert"}  # fmt: skip
    assert {verb: conjugate(verb).participle for verb in wanted} == wanted


def test_plurals_feminines_and_adverbs() -> None:
    nouns = {"cheval": "chevaux", "bijou": "bijoux", "clou": "clous", "gâteau": "gâteaux", "travail": "travaux",
             "nez": "nez", "festival": "festivals", "neveu": "neveux", "bleu": "bleus"}  # fmt: skip
    assert {noun: plural(noun) for noun in nouns} == nouns
    adjectives = {"beau": "belle", "heureux": "heureuse", "actif": "active", "léger": "légère", "ancien": "ancienne",
                  "cruel": "cruelle", "muet": "muette", "discret": "discrète", "blanc": "blanche", "rouge": "rouge",
                  "grec": "grecque", "français": "française", "gros": "grosse", "bon": "bonne"}  # fmt: skip
    assert {adjective: feminine(adjective) for adjective in adjectives} == adjectives
    adverbs = {"lent": "lentement", "prudent": "prudemment", "constant": "constamment", "poli": "poliment"}
    assert {adjective: manner_adverb(adjective) for adjective in adverbs} == adverbs
    assert [begins_with_vowel(word) for word in ("homme", "hibou", "y", "yaourt", "Yves", "8", "œuf")] == [
        True, False, True, False, True, False, True,
    ]  # fmt: skip


# Words


def test_thousands_of_forms_and_a_long_tail(large: list[Sentence]) -> None:
    counts = Counter(token.form.lower() for sentence in large for token in sentence.tokens)
    numbers = [form for form in counts if form[0].isdigit()]
    assert 6000 <= len(counts) - len(numbers) <= 9000
    assert 200 <= len(numbers) <= 1000
    assert 0.25 < sum(count == 1 for count in counts.values()) / len(counts) < 0.6
    frequent = sum(count for _, count in counts.most_common(50))
    assert frequent > 0.4 * sum(counts.values())


def test_sentences_hardly_repeat(large: list[Sentence]) -> None:
    assert len({sentence.words for sentence in large}) > 0.97 * len(large)


def test_all_parts_of_speech_and_constructions_occur(some: list[Sentence]) -> None:
    parts = {token.pos for sentence in some for token in sentence.tokens}
    assert parts == set("DET NOUN ADJ VERB AUX PRON PROPN NUM ADV ADP CCONJ SCONJ PUNCT".split())  # noqa: SIM905
    forms = {token.form for sentence in some for token in sentence.tokens}
    assert {"qui", "qu'", "dont", "où", "du", "aux", "n'", "j'", "s'", "se", "cet", "parce"} <= forms
    relations = {token.relation for sentence in some for token in sentence.tokens}
    assert {"acl:relcl", "nsubj:pass", "aux:pass", "cop", "xcomp", "ccomp", "advcl", "conj", "flat:name"} <= relations
