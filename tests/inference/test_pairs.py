"""Minimal pairs: files, what hand-written trees give, and scores against a walk step by step."""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers import walked
from llrnn import french
from llrnn.ground.errors import CorpusError, UnknownWordError
from llrnn.inference.pairs import Accuracy, Pair, PairScores, compare, make_pairs, read_pairs, score_pairs, write_pairs
from llrnn.knowledge.backgrounds import Unigram
from llrnn.knowledge.features import Identity, Suffixes
from llrnn.model.controllers import GRU
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus, Sentence, Token
from llrnn.text.vocabulary import Vocabulary

DATA = Path(__file__).parents[3] / "shared" / "data"
PAIRS = [
    Pair(("il", "dort"), ("il", "dorment"), "verb-number", 1, 0),
    Pair(("elle", "est", "là"), ("elle", "es", "là"), "verb-person", 1),
    Pair(("les", "filles", "que", "je", "vois", "sont", "là"), ("les", "filles", "que", "je", "vois", "est", "là")),
]


# --- files


@pytest.mark.parametrize("name", ["p.tsv", "p.jsonl", "p.tsv.gz", "p.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    write_pairs(tmp_path / name, PAIRS)
    assert read_pairs(tmp_path / name) == PAIRS
    assert [path.name for path in tmp_path.iterdir()] == [name]
    first = (tmp_path / name).read_bytes()
    write_pairs(tmp_path / name, PAIRS)
    assert (tmp_path / name).read_bytes() == first


def test_place_is_found() -> None:
    assert [pair.place for pair in PAIRS] == [1, 1, 5]
    assert Pair(("a",), ("a", "b")).place == 1


def test_tsv_without_header_and_numbers(tmp_path: Path) -> None:
    (tmp_path / "p.tsv.gz").write_bytes(gzip.compress(b"il  dort\til dorment\tg\n\nil est\til es\th\t2\t_\n"))
    assert read_pairs(tmp_path / "p.tsv.gz") == [
        Pair(("il", "dort"), ("il", "dorment"), "g"),
        Pair(("il", "est"), ("il", "es"), "h", 2),
    ]


def test_blimp(tmp_path: Path) -> None:
    line = '{"sentence_good": "Cats sleep.", "sentence_bad": "Cats sleeps.", "field": "syntax", "UID": "agreement"}\n'
    (tmp_path / "p.jsonl").write_text(line, encoding="utf8")
    assert read_pairs(tmp_path / "p.jsonl") == [Pair(("Cats", "sleep."), ("Cats", "sleeps."), "agreement")]


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("p.tsv", "a\tb\n", "1:4", "3 to 5 columns"),
        ("p.tsv", "good\tbad\tgroup\na\t \tg\n", "2:3", "bad must have a word"),
        ("p.tsv", "a\ta\tg\n", "1:3", "must differ"),
        ("p.tsv", "a\tb\tg\tone\n", "1:7", "distance must be a whole number"),
        ("p.tsv", "a\tb\tg\t1\t-1\n", "1:9", "distractors must be a whole number"),
        ("p.tsv", "a\tb\tg\t0\n", "1:3", "distance must not be that small"),
        ("p.tsv", "good\tbad\tgroup\n", "", "at least one pair"),
        ("p.jsonl", "{", "1:2", "JSON is required"),
        ("p.jsonl", "[]", "1:1", "an object"),
        ("p.jsonl", '{"sentence_good": "a"}', "1:1", "sentence_bad is required"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": 3}', "1:24", "must be a string"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": "b", "UID": 3}', "1:45", "group must be a string"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": "b", "place": 7}', "1:45", "place must be the index"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": "b", "distance": true}', "1:45", "whole number"),
        ("p.csv", "a", "", "rename it"),
    ],
)
def test_bad_files_are_placed(tmp_path: Path, name: str, content: str, place: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf8")
    with pytest.raises(CorpusError, match=message) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(f"{path}:{place}:" if place else f"{path}:")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for pairs, message in [
        ([Pair(("10 000",), ("b",))], "whitespace in it"),
        ([Pair(("a",), ("b",), "g\th")], "without TABs"),
        ([], "at least one pair"),
    ]:
        with pytest.raises(CorpusError, match=message):
            write_pairs(tmp_path / "p.tsv", pairs)
    with pytest.raises(CorpusError, match="cannot be written"):
        write_pairs(tmp_path / "nowhere" / "p.tsv", PAIRS)


# --- making pairs from trees


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


# --- scoring


def model_of(sentences: Sequence[Sequence[str]]) -> LLRNN:
    corpus = Corpus.from_sentences(sentences)
    vocabulary = Vocabulary.from_corpus(corpus)
    return LLRNN(
        vocabulary,
        output_features=Identity() + Suffixes(2),
        background=Unigram.from_corpus(corpus),
        controller=GRU(hidden=8),
        seed=3,
    )


@pytest.mark.parametrize("rows", [1, 3, 1024])
def test_scores_are_those_of_a_walk_step_by_step(rows: int) -> None:
    model = model_of([sentence for pair in PAIRS for sentence in (pair.good, pair.bad)])
    scores = score_pairs(model, PAIRS, rows=rows)
    for pair, good, bad in zip(PAIRS, scores.log_p_good, scores.log_p_bad, strict=True):
        assert good == pytest.approx(walked(model, pair.good), abs=1e-4)
        assert bad == pytest.approx(walked(model, pair.bad), abs=1e-4)
    assert scores.right == tuple((g > b) for g, b in zip(scores.log_p_good, scores.log_p_bad, strict=True))


def test_unknown_words_and_no_pairs() -> None:
    model = model_of([["il", "dort"]])
    with pytest.raises(UnknownWordError, match="pair 1: the word 'dorment'"):
        score_pairs(model, PAIRS)
    with pytest.raises(CorpusError, match="at least one pair"):
        score_pairs(model, [])


def scored(*differences: float, distances: Sequence[int | None] = ()) -> PairScores:
    pairs = [Pair(("a",), (f"b{i}",), "ab"[i % 2], d, d) for i, d in enumerate(distances or [None] * len(differences))]
    return PairScores(tuple(pairs), tuple(differences), (0.0,) * len(differences))


def test_shares_and_ties() -> None:
    impossible = PairScores(scored(0.0).pairs, (-math.inf,), (-math.inf,))
    assert (impossible.right, impossible.ties) == ((False,), 1)
    scores = scored(1.0, -1.0, 1e-12, 2.0, math.inf, -3.0, distances=[1, 2, 4, 5, 9, None])
    assert scores.right == (True, False, False, True, True, False)
    assert (scores.ties, scores.equal) == (1, 0)
    assert scores.overall.accuracy == pytest.approx(3 / 6)
    assert scores.mean_of_groups == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert {name: s.count for name, s in scores.by_group.items()} == {"a": 3, "b": 3}
    assert [s.accuracy for s in scores.by_group.values()] == pytest.approx([2 / 3, 1 / 3])
    assert {name: s.count for name, s in scores.by_distance.items()} == {"1": 1, "2-4": 2, "5+": 2}
    assert {name: s.count for name, s in scores.by_distractors.items()} == {"1": 1, "2+": 4}


def test_wilson_interval() -> None:
    """Against the textbook values for 8 of 10, and at the ends."""
    share = Accuracy.of([True] * 8 + [False] * 2)
    assert [share.low, share.high] == pytest.approx([0.4902, 0.9433], abs=1e-4)
    assert Accuracy.of([True] * 5).high == 1.0
    assert Accuracy.of([False]).low == 0.0


def test_comparison() -> None:
    first, second = scored(*[1.0] * 8, -1.0, 1.0), scored(*[-1.0] * 6, 1.0, 1.0, 1.0, 1.0)
    found = compare(first, second)
    assert (found.only_first, found.only_second, found.count) == (6, 1, 10)
    assert found.difference == pytest.approx(0.5)
    assert found.p_value == pytest.approx(2 * (1 + 7) / 2**7)  # McNemar, exact: 2 P(at most 1 of 7 coins)
    assert found.low < found.difference < found.high
    assert compare(first, first).p_value == 1.0
    with pytest.raises(CorpusError, match="same pairs"):
        compare(first, scored(1.0))


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the shared corpora are not at {DATA}")
def test_real_french() -> None:
    listed = Vocabulary.from_corpus(
        Corpus.from_conllu(sorted((DATA / "ud_french_gsd").glob("*.conllu")), lowercase=True)
    )
    corpus = Corpus.from_conllu(sorted((DATA / "ud_french").glob("*.conllu")), lowercase=True)
    pairs = make_pairs(corpus, vocabulary=listed)
    assert len(pairs) > 8000
    assert sum((pair.distance or 0) >= 5 for pair in pairs) > 500
    assert sum((pair.distractors or 0) >= 1 for pair in pairs) > 300
