"""Minimal pairs of agreement: what hand-written trees, the French grammar and real treebanks give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from llrnn import french
from llrnn.ground.errors import CorpusError
from llrnn.inference.pairs import Pair
from llrnn.text.corpus import Corpus, Sentence, Token
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.pairs.making import make_pairs

DATA = Path(__file__).parents[3] / "shared" / "data"


def tree(*rows: str) -> Sentence:
    """Rows `form lemma pos head relation feats`, feats as in CoNLL-U or left out."""
    tokens = []
    for row in rows:
        form, lemma, pos, head, relation, *feats = row.split()
        known = dict(part.split("=") for part in feats[0].split("|")) if feats else {}
        tokens.append(Token(form, lemma, pos, known, int(head), relation))
    return Sentence(tuple(tokens))


FINITE = "Mood=Ind|Person=3|Tense=Pres|VerbForm=Fin|Number="
WORDS = {
    ("Masc", "Sing"): ("le", "chat", "est", "dort", "petit", "parti"),
    ("Masc", "Plur"): ("les", "chats", "sont", "dorment", "petits", "partis"),
    ("Fem", "Sing"): ("la", "chatte", "est", "dort", "petite", "partie"),
    ("Fem", "Plur"): ("les", "chattes", "sont", "dorment", "petites", "parties"),
}
ALL = list(WORDS)


def both(gender: str, number: str) -> str:
    return f"Gender={gender}|Number={number}"


def det(gender: str, number: str, head: int) -> str:
    return f"{WORDS[gender, number][0]} le DET {head} det " + (
        f"Number={number}" if number == "Plur" else both(gender, number)
    )


def noun(gender: str, number: str, head: int, relation: str) -> str:
    lemma = "chat" if gender == "Masc" else "chatte"
    return f"{WORDS[gender, number][1]} {lemma} NOUN {head} {relation} {both(gender, number)}"


def verb(number: str, head: int = 0, relation: str = "root") -> str:
    return f"{WORDS['Masc', number][3]} dormir VERB {head} {relation} {FINITE}{number}"


def adjective(gender: str, number: str, head: int, relation: str = "amod") -> str:
    return f"{WORDS[gender, number][4]} petit ADJ {head} {relation} {both(gender, number)}"


def sleeping(gender: str, number: str) -> Sentence:
    """le petit chat dort"""
    return tree(det(gender, number, 3), adjective(gender, number, 3), noun(gender, number, 4, "nsubj"), verb(number))


def gone(gender: str, number: str, auxiliary: str, *, agrees: bool = True) -> Sentence:
    """le chat est parti"""
    own = (gender, number) if agrees else ("Masc", "Sing")
    form = {"être": ("est", "sont"), "avoir": ("a", "ont")}[auxiliary][number == "Plur"]
    return tree(
        det(gender, number, 2),
        noun(gender, number, 4, "nsubj"),
        f"{form} {auxiliary} AUX 4 aux {FINITE}{number}",
        f"{WORDS[own][5]} partir VERB 0 root Tense=Past|VerbForm=Part|{both(*own)}",
    )


LEXICON = [sleeping(*value) for value in ALL] * 3


def texts(pairs: Sequence[Pair]) -> set[tuple[str, str, str]]:
    return {(pair.group, pair.good[pair.place], pair.bad[pair.place]) for pair in pairs}


def made(*sentences: Sentence) -> list[Pair]:
    return make_pairs(sentences, lexicon_corpus=[*LEXICON, *(gone(*value, "être") for value in ALL * 3)])


def test_verb_and_attribute() -> None:
    pairs = made(sleeping("Fem", "Sing"))
    assert texts(pairs) == {
        ("adjective-number", "petite", "petites"),
        ("adjective-gender", "petite", "petit"),
        ("verb-number", "dort", "dorment"),
    }
    assert {(pair.distance, pair.distractors) for pair in pairs} == {(1, 0)}
    assert all(sum(a != b for a, b in zip(pair.good, pair.bad, strict=True)) == 1 for pair in pairs)


def test_distance_and_distractors() -> None:
    """le chat de les chattes dort: the nearer noun suggests another number."""
    sentence = tree(
        det("Masc", "Sing", 2),
        noun("Masc", "Sing", 6, "nsubj"),
        "de de ADP 5 case",
        det("Fem", "Plur", 5),
        noun("Fem", "Plur", 2, "nmod"),
        verb("Sing"),
    )
    (pair,) = made(sentence)
    assert (pair.group, pair.distance, pair.distractors, pair.place) == ("verb-number", 4, 1, 5)


def test_participles_agree_after_one_auxiliary_and_not_after_the_other() -> None:
    """Which, the text says: after `avoir`, the participle stays the same whatever the subject is."""
    with_avoir = [gone(*value, "avoir", agrees=False) for value in ALL * 3]
    pairs = make_pairs([*with_avoir, *(gone(*value, "être") for value in ALL * 3)])
    swapped = [pair for pair in pairs if pair.group.startswith("participle")]
    assert {pair.good[2] for pair in swapped} == {"est", "sont"}
    assert ("participle-gender", "partie", "parti") in texts(swapped)
    assert ("verb-number", "a", "ont") in texts(pairs)


def test_relative_clauses_agree_with_what_the_pronoun_stands_for() -> None:
    """le chat qui dort; where another noun could be meant, `le chat de les chats qui dort`, nothing is made."""
    qui = "qui qui PRON {} nsubj PronType=Rel"
    simple = tree(det("Masc", "Sing", 2), noun("Masc", "Sing", 0, "root"), qui.format(4), verb("Sing", 2, "acl:relcl"))
    lexicon = [tree(det(*v, 2), noun(*v, 0, "root"), qui.format(4), verb(v[1], 2, "acl:relcl")) for v in ALL]
    unclear = tree(
        det("Masc", "Sing", 2),
        noun("Masc", "Sing", 0, "root"),
        "de de ADP 5 case",
        det("Masc", "Plur", 5),
        noun("Masc", "Plur", 2, "nmod"),
        qui.format(7),
        verb("Sing", 2, "acl:relcl"),
    )
    pairs = make_pairs([simple, unclear], lexicon_corpus=LEXICON + lexicon)
    assert [(pair.good, pair.bad[pair.place], pair.distance) for pair in pairs] == [(simple.words, "dorment", 2)]


def test_a_second_verb_shares_the_subject() -> None:
    """le chat part et dort"""
    rows = "part partir VERB 0 root {}Sing", "et et CCONJ 5 cc", verb("Sing", 3, "conj")
    one = tree(det("Masc", "Sing", 2), noun("Masc", "Sing", 3, "nsubj"), rows[0].format(FINITE), *rows[1:])
    many = [
        tree(det(*v, 2), noun(*v, 3, "nsubj"), f"x y VERB 0 root {FINITE}{v[1]}", rows[1], verb(v[1], 3, "conj"))
        for v in ALL
    ]
    (pair,) = make_pairs([one], lexicon_corpus=LEXICON + many)
    assert (pair.bad[pair.place], pair.distance) == ("dorment", 3)


def test_attributes_that_another_noun_might_have() -> None:
    """la chatte de le chat petit: `petite` would be right, with another meaning; `petits` would not."""
    sentence = tree(
        det("Fem", "Sing", 2),
        noun("Fem", "Sing", 0, "root"),
        "de de ADP 5 case",
        det("Masc", "Sing", 5),
        noun("Masc", "Sing", 2, "nmod"),
        adjective("Masc", "Sing", 5),
    )
    assert texts(made(sentence)) == {("adjective-number", "petit", "petits")}


def test_coordinated_subjects_are_left_alone() -> None:
    sentence = tree(
        det("Masc", "Plur", 2),
        noun("Masc", "Plur", 6, "nsubj"),
        "et et CCONJ 5 cc",
        det("Fem", "Plur", 5),
        noun("Fem", "Plur", 2, "conj"),
        verb("Plur"),
    )
    assert made(sentence) == []


def test_a_form_that_may_be_right_is_no_mistake() -> None:
    """Had `dorment` also a reading in the singular, the sentence with it would not be wrong."""
    ambiguous = tree(
        det("Masc", "Sing", 2), noun("Masc", "Sing", 3, "nsubj"), f"dorment dormer VERB 0 root {FINITE}Sing"
    )
    pairs = make_pairs([sleeping("Masc", "Sing")], lexicon_corpus=[*LEXICON, ambiguous])
    assert "verb-number" not in {pair.group for pair in pairs}


def test_a_subject_that_does_not_show_its_number_is_no_evidence() -> None:
    """`pays dort`, without an article, may be either."""
    pays = [tree(f"pays pays NOUN 2 nsubj {both('Masc', n)}", verb(n)) for n in ("Sing", "Plur")] * 3
    assert make_pairs(pays, lexicon_corpus=LEXICON) == []
    shown = tree(det("Masc", "Sing", 2), f"pays pays NOUN 3 nsubj {both('Masc', 'Sing')}", verb("Sing"))
    assert texts(make_pairs([*pays, shown], lexicon_corpus=LEXICON)) == {("verb-number", "dort", "dorment")}


def test_spelling_does_not_give_the_mistake_away() -> None:
    """`c' est` must not become `c' sont`: everyone sees that without counting."""
    ce = "c' ce PRON 3 nsubj Number=Sing", f"est être AUX 3 cop {FINITE}Sing", "bien bien ADV 0 root"
    assert made(*[tree(*ce)] * 3) == []


def test_capitals_are_kept() -> None:
    sentence = tree("Petit petit ADJ 2 amod " + both("Masc", "Sing"), noun("Masc", "Sing", 0, "root"))
    assert ("adjective-number", "Petit", "Petits") in texts(made(sentence))


def test_vocabulary_limit_and_seed() -> None:
    corpus = [sleeping(*value) for value in ALL] * 3
    everything = make_pairs(corpus)
    assert len(everything) == len(set(everything)) == 12
    small = {"le", "petit", "chat", "dort", "petits", "les", "chats"}
    assert texts(make_pairs(corpus, vocabulary=small)) == {("adjective-number", "petit", "petits")}
    drawn = make_pairs(corpus, limit=5, seed=1)
    assert drawn == make_pairs(corpus, limit=5, seed=1) != make_pairs(corpus, limit=5, seed=2)
    assert [pair for pair in everything if pair in drawn] == drawn
    with pytest.raises(CorpusError, match="no HEAD"):
        make_pairs(Corpus.from_sentences([["il", "dort"]]))


def test_the_french_grammar_gives_pairs_that_are_really_bad() -> None:
    """It generates nothing wrong, so no wrong sentence may be one of its own, and the form must have the value."""
    corpus = list(french.sentences(1500))
    readings: dict[str, set[tuple[str | None, str | None]]] = {}
    for sentence in corpus:
        for token in sentence.tokens:
            if token.pos in ("VERB", "AUX", "ADJ"):
                agreement = token.feats.get("Number"), token.feats.get("Gender")
                readings.setdefault(token.form.lower(), set()).add(agreement)
    pairs = make_pairs(corpus)
    assert {pair.group for pair in pairs} >= {"verb-number", "adjective-gender", "participle-number", "verb-person"}
    assert len(pairs) > 1000
    grammatical = {sentence.words for sentence in corpus}
    right = {sentence.words: sentence for sentence in corpus}
    for pair in pairs:
        assert pair.bad not in grammatical
        feats = right[pair.good].tokens[pair.place].feats
        kind, _, feature = pair.group.partition("-")
        if feature != "person" and kind != "verb":
            own = feats.get("Number"), feats.get("Gender")
            assert own not in readings[pair.bad[pair.place].lower()], pair


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the shared corpora are not at {DATA}")
def test_real_french() -> None:
    listed = Vocabulary.from_corpus(Corpus.from_file(sorted((DATA / "ud_french_gsd").glob("*.conllu")), lowercase=True))
    corpus = Corpus.from_file(sorted((DATA / "ud_french").glob("*.conllu")), lowercase=True)
    pairs = make_pairs(corpus, vocabulary=listed)
    assert len(pairs) > 8000
    assert sum((pair.distance or 0) >= 5 for pair in pairs) > 500
    assert sum((pair.distractors or 0) >= 1 for pair in pairs) > 300
