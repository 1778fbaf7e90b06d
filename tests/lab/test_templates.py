"""Templates: against all sentences of a small table by brute force, French by its own rules, and mistakes in tables."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from llrnn.ground.errors import CorpusError
from llrnn.inference.pairs import read_pairs
from llrnn.text.lexicon import Lexicon
from llrnn_lab.pairs.files import write_pairs
from llrnn_lab.pairs.templates import (
    TemplateTable,
    french_templates,
    is_for_tests,
    read_templates,
    template_pairs,
    template_sentences,
)

WORDS = """
det	li	li	DET	Number=Sing
det	lu	li	DET	Number=Plur
noun	kat	kat	NOUN	Gender=Masc|Number=Sing
noun	kats	kat	NOUN	Gender=Masc|Number=Plur
noun	dom	dom	NOUN	Gender=Fem|Number=Sing
noun	doms	dom	NOUN	Gender=Fem|Number=Plur
noun	rik	rik	NOUN	Gender=Masc|Number=Sing
noun	rik	rik	NOUN	Gender=Masc|Number=Plur
noun	pel	pel	NOUN	Gender=Fem|Number=Sing
noun	pels	pel	NOUN	Gender=Fem|Number=Plur
verb	va	va	VERB	Mood=Ind|Number=Sing|Tense=Pres
verb	van	va	VERB	Mood=Ind|Number=Plur|Tense=Pres
verb	ro	ro	VERB	Mood=Ind|Number=Sing|Tense=Pres
verb	ro	ro	VERB	Mood=Ind|Number=Plur|Tense=Pres
verb	vas	va	VERB	Mood=Ind|Number=Sing|Tense=Past
verb	vasen	va	VERB	Mood=Ind|Number=Plur|Tense=Past
verb	mi	mi	VERB	Mood=Ind|Number=Sing|Tense=Pres
verb	min	mi	VERB	Mood=Ind|Number=Plur|Tense=Pres
adj	bo	bo	ADJ	Gender=Masc|Number=Sing
adj	bon	bo	ADJ	Gender=Masc|Number=Plur
adj	ba	bo	ADJ	Gender=Fem|Number=Sing
adj	bon	bo	ADJ	Gender=Fem|Number=Plur
"""
TEMPLATES = """
# a language of twenty forms
[templates]
simple    Number         det:1 noun:1 *verb:1 .
across    Number         det:1 noun:1 of det:2 noun:2 *verb:1 .
both      Number         det:1 noun:1 and det:2 noun:2 *verb:1+2 .
adjective Number,Gender  det:1 noun:1 of det:2 noun:2 verb:1 *adj:1 .
[words]
"""


def listed(text: str) -> set[str]:
    return set(text.split())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "small.txt").write_text(f"{TEMPLATES}{WORDS}\n[joins]\nof li = ofli\n", encoding="utf8")
    return tmp_path / "small.txt"


@pytest.fixture
def table(path: Path) -> TemplateTable:
    return read_templates(path)


def all_sentences(name: str) -> set[str]:
    """Every sentence of a construction in which all words agree; this shares no code with the library."""
    rows = [line.split("\t") for line in WORDS.strip().splitlines()]
    of = {kind: [(form, dict(f.split("=") for f in feats.split("|"))) for k, form, *_, feats in rows if k == kind]
          for kind in ("det", "noun", "verb", "adj")}  # fmt: skip

    def agrees(word: dict[str, str], noun: dict[str, str]) -> bool:
        return all(word.get(name, noun[name]) == noun[name] for name in ("Number", "Gender"))

    found = set()
    for (d1, x1), (n1, v1) in product(of["det"], of["noun"]):
        if not agrees(x1, v1):
            continue
        if name == "simple":
            found |= {f"{d1} {n1} {form} ." for form, feats in of["verb"] if agrees(feats, v1)}
            continue
        for (d2, x2), (n2, v2), (form, feats) in product(of["det"], of["noun"], of["verb"]):
            if not agrees(x2, v2):
                continue
            if name == "both" and feats["Number"] == "Plur":
                found.add(f"{d1} {n1} and {d2} {n2} {form} .")
            start = f"{d1} {n1} of {d2} {n2} {form}".replace("of li ", "ofli ")
            if name == "across" and agrees(feats, v1):
                found.add(f"{start} .")
            if name == "adjective" and agrees(feats, v1):
                found |= {f"{start} {adj} ." for adj, other in of["adj"] if agrees(other, v1)}
    return found


def test_good_is_a_sentence_and_bad_is_none(table: TemplateTable) -> None:
    """The law: nothing that could be right is called wrong, however ambiguous the words are."""
    pairs = template_pairs(table, 60, seed=3)
    assert {pair.group for pair in pairs} == {
        "simple-number", "across-number", "both-number", "adjective-number", "adjective-gender"
    }  # fmt: skip
    for pair in pairs:
        right = all_sentences(pair.group.split("-")[0])
        assert " ".join(pair.good) in right
        assert " ".join(pair.bad) not in right
        assert sum(a != b for a, b in zip(pair.good, pair.bad, strict=True)) == 1


def test_distance_and_distractors(table: TemplateTable) -> None:
    numbers = {"li": "Sing", "ofli": "Sing", "lu": "Plur"}
    seen = Counter[int]()
    for pair in template_pairs(table, 60):
        if pair.group == "across-number":
            first, second = (numbers[word] for word in pair.good if word in numbers)
            assert pair.distractors == (first != second)
            assert pair.distance == pair.place - 1 == len(pair.good) - 3
            seen[pair.distractors] += 1
    assert min(seen[0], seen[1]) > 5  # attractors of the same value, and of the other


def test_seeds(table: TemplateTable) -> None:
    assert template_pairs(table, 20, seed=1) == template_pairs(table, 20, seed=1)
    assert template_pairs(table, 20, seed=1) != template_pairs(table, 20, seed=2)


def test_sentences_to_train_on_are_those_of_no_pair() -> None:
    """Not by luck: whatever the seeds, no noun stands with a word that some pair tests it with."""
    french = french_templates()
    vocabulary = {word.form for own in french.words.values() for word in own if len(word.lemma) < 8}
    vocabulary |= {"l'", "d'", "cet", "du", "des", "au", "aux", "de", "qui", "que", "et", "par", "."}
    sentences = set(template_sentences(french, 400, vocabulary=vocabulary, seed=1))
    pairs = [pair for seed in (0, 1) for pair in template_pairs(french, 40, vocabulary=vocabulary, seed=seed)]
    assert len(sentences) == 400
    assert not sentences & {words for pair in pairs for words in (pair.good, pair.bad)}
    assert all(word in vocabulary for pair in pairs for word in (*pair.good, *pair.bad))
    lemmas = {word.form: word.lemma for word in french.words["person"]}
    verbs = {word.form: word.lemma for word in french.words["act"]}
    simple = [words for words in sentences if len(words) == 4 and words[1] in lemmas and words[2] in verbs]
    assert len(simple) > 3
    assert not any(is_for_tests(lemmas[words[1]], verbs[words[2]]) for words in simple)


def test_french() -> None:
    """Elision, contraction as the text has it, forms that cannot be read otherwise."""
    french = french_templates()
    contracted = template_pairs(french, 12)
    texts = [" ".join(words) for pair in contracted for words in (pair.good, pair.bad)]
    assert len({pair.group for pair in contracted}) == 24
    assert any(" du " in text for text in texts)
    assert not any(
        wrong in f" {text}" for text in texts for wrong in (" de le ", " de les ", " le a", " que i", " ce é")
    )
    ud = {word.form for own in french.words.values() for word in own}
    ud |= listed("l' cet de qui que et par .")
    written = [" ".join(pair.good) for pair in template_pairs(french, 12, vocabulary=ud)]
    assert any(" de le " in text for text in written)
    assert not any(" du " in text for text in written)


def test_a_lexicon_knows_what_forms_can_be() -> None:
    """A changed form that could be right is left out, and so is a word that the lexicon has otherwise."""
    french = french_templates()
    small = TemplateTable([t for t in french.templates if t.name == "attribute"], french.words, french.joins)
    vocabulary = listed("le la les est sont content contents contente contentes fier fiers .")
    vocabulary |= {word.form for word in french.words["person"]}
    ambiguous = Lexicon.from_mapping({"contents": {"Number:Sing", "Number:Plur", "Gender:Masc", "POS:ADJ"}})
    otherwise = Lexicon.from_mapping({"contents": {"Number:Sing", "Gender:Masc"}})
    for lexicon, bad, good in ((None, True, True), (ambiguous, False, True), (otherwise, False, False)):
        pairs = template_pairs(small, 40, vocabulary=vocabulary, lexicon=lexicon)
        numbers = [pair for pair in pairs if pair.group == "attribute-number"]
        assert any(pair.bad[pair.place] == "contents" for pair in numbers) == bad
        assert any(pair.good[pair.place] == "contents" for pair in numbers) == good


def test_a_capital_where_the_vocabulary_has_one() -> None:
    french = french_templates()
    words = {word.form for own in french.words.values() for word in own}
    words |= listed("l' L' du des au aux cet d' de qui que et par . Le La Les")
    firsts = {pair.good[0] for pair in template_pairs(french, 20, vocabulary=words)}
    assert firsts <= {"Le", "La", "Les", "L'", "ce", "cet", "cette", "ces"}
    assert "Le" in firsts


def test_files_say_where_pairs_come_from(table: TemplateTable, tmp_path: Path) -> None:
    pairs = template_pairs(table, 5)
    write_pairs(tmp_path / "p.jsonl", pairs, part="test", seed=0)
    assert read_pairs(tmp_path / "p.jsonl") == pairs
    assert '"part": "test", "seed": 0' in (tmp_path / "p.jsonl").read_text(encoding="utf8")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("simple Number det:1 *verb:1", "1", "a part must begin"),
        ("[nouns]\n", "1", "a part is one of templates, words, joins"),
        ("[templates]\nsimple Number det:1 noun:1 verb:1", "2", "one \\* are required"),
        ("[templates]\nsimple", "2", "one \\* are required"),
        ("[templates]\nsimple Number det:1 nuon:1 *verb:1", "2", "the class 'nuon' has no words"),
        ("[templates]\nsimple Number det:1 *verb:1", "2", "number 1 must stand on one noun, found 0"),
        ("[templates]\nsimple Number noun:1 noun:1 *verb:1", "2", "number 1 must stand on one noun, found 2"),
        ("[words]\nnoun\tkat\tkat\tNOUN\n", "2", "5 columns"),
        ("[words]\nnoun\tkat\tkat\tNOUN\tSing\n", "2", "Name=Value"),
        ("[joins]\nde le du\n", "2", "two words, = and what they become"),
    ],
)
def test_mistakes_are_placed(tmp_path: Path, text: str, place: str, message: str) -> None:
    (tmp_path / "t.txt").write_text(f"{text}\n[words]{WORDS}", encoding="utf8")
    with pytest.raises(CorpusError, match=message) as caught:
        read_templates(tmp_path / "t.txt")
    assert str(caught.value).startswith(f"{tmp_path / 't.txt'}:{place}:")


def test_nothing_to_make(tmp_path: Path, table: TemplateTable) -> None:
    (tmp_path / "t.txt").write_text(f"[words]{WORDS}", encoding="utf8")
    with pytest.raises(CorpusError, match="at least one template"):
        read_templates(tmp_path / "t.txt")
    with pytest.raises(CorpusError, match="'simple' \\(Number\\) gives no sentence with these words"):
        template_pairs(table, 5, vocabulary={"li", "lu", "kat", "va", "."})
