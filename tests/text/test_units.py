"""Units: words are cut and put together again, and every string has its price."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llrnn.ground.errors import CheckpointError, CorpusError, MissingExtraError
from llrnn.text.corpus import Corpus
from llrnn.text.units import END, OTHER, BytePairs, CharacterUnits, Units, decode, load
from llrnn.text.vocabulary import Vocabulary
from strategies import QUICK

# Signs with a meaning of their own, what looks like an escape, spaces within words, and what plain text cannot hold.
_ODD = [
    END,
    "<",
    ">",
    "\\",
    "u",
    ";",
    OTHER,
    "</s>",
    "\\u2581;",
    " ",
    "\xa0",
    "\t",
    "\ufeff",
    "\0",
    "a\u0301",
    "e",
    "é",
]
_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def is_word(text: str) -> bool:
    return bool(text) and text.strip() == text


words = st.lists(st.sampled_from(_ODD) | _CHARACTERS, min_size=1, max_size=8).map("".join).filter(is_word)
sentences = st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=4)


def corpus_of(*lines: str) -> Corpus:
    return Corpus.from_sentences([line.split() for line in lines])


def all_units(corpus: Corpus) -> list[Units]:
    """Every way to cut; each character twice in training, so that all are listed."""
    pytest.importorskip("tokenizers")
    twice = corpus + corpus
    return [CharacterUnits.from_corpus(twice), BytePairs.from_corpus(twice, 60)]


@QUICK
@given(sentences)
def test_units_are_tokens_and_give_the_words_back(texts: list[list[str]]) -> None:
    corpus = Corpus.from_sentences(texts)
    for units in all_units(corpus):
        for sentence, cut in zip(texts, units.corpus(corpus), strict=True):
            assert " ".join(cut.words).split() == list(cut.words)
            assert decode(cut.words) == sentence
            assert set(cut.words) <= set(units.symbols())
        assert all(units.log_inside(word) == 0.0 for text in texts for word in text)


@QUICK
@given(st.lists(words, min_size=2, max_size=8, unique=True))
def test_distinct_words_have_distinct_units(different: list[str]) -> None:
    for units in all_units(Corpus.from_sentences([different])):
        assert len({tuple(units.of(word)) for word in different}) == len(different)
        assert all(sum(END in unit for unit in units.of(word)) == 1 for word in different)


@QUICK
@given(sentences, words)
def test_any_word_has_units_that_the_vocabulary_lists(texts: list[list[str]], word: str) -> None:
    corpus = Corpus.from_sentences(texts)
    for units in all_units(corpus):
        symbols = Vocabulary([*units.symbols(), "</s>"])  # each is a valid symbol
        assert set(units.of(word)) <= set(symbols)
        unlisted = [one for one in word if one not in units.listed]
        assert units.of(word).count(OTHER) == len(unlisted)
        assert units.log_inside(word) == pytest.approx(-len(unlisted) * math.log(1_112_054 - len(units.listed)))
        shown = "".join("\N{REPLACEMENT CHARACTER}" if one in unlisted else one for one in word)
        assert decode(units.of(word)) == [shown]


def test_characters_seen_once_teach_the_probability_of_others() -> None:
    units = CharacterUnits.from_corpus(corpus_of("aab bz", "abb"))
    assert units.listed == {"a", "b"}
    assert units.of("bz") == ["b", OTHER, END]
    assert units.log_inside("zaz") == -2 * math.log(0x110000 - 2048 - 10 - 2)


def test_the_probability_of_all_strings_adds_up_to_one() -> None:
    """With units drawn alike: the words of one character, summed in both of their forms, are p(unit) · p(end)."""
    units = CharacterUnits.from_corpus(corpus_of("ab ab"))
    p_unit = 1 / len(units.symbols())
    permitted = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    permitted = [one for one in permitted if len(f"x{one}x".splitlines()) == 1]
    of_unlisted = math.exp(units.log_inside("z"))
    total = sum(1.0 if one in units.listed else of_unlisted for one in permitted) * p_unit * p_unit
    assert total == pytest.approx((len(units.symbols()) - 1) * p_unit * p_unit)


def test_byte_pairs_are_what_is_frequent_and_never_cross_words() -> None:
    pytest.importorskip("tokenizers")
    train = corpus_of(*["donner parler chanter la"] * 5)
    units = BytePairs.from_corpus(train, 20)
    assert f"er{END}" in units.symbols()
    assert units.of("donner")[-1].endswith(f"er{END}")
    assert len(units.symbols()) <= 21
    assert len(units.of("parler")) < len(CharacterUnits.from_corpus(train).of("parler"))
    assert units == BytePairs.from_corpus(train, 20)  # the same, whatever the hash seed and threads do
    with_other = units.of("don☃er")
    assert with_other.count(OTHER) == 1
    assert decode(with_other) == ["don\N{REPLACEMENT CHARACTER}er"]


def test_merges_are_applied_as_the_package_does() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    train = corpus_of(*["les élèves chantent des chansons et parlent"] * 3, "les chants des élèves")
    units = BytePairs.from_corpus(train, 45)
    pieces = {piece: index for index, piece in enumerate(dict.fromkeys(units.raw()))}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=pieces, merges=list(units.merges)))
    for word in [*train.counts(), "chantons", "élève", "aaaaa", "nantnantn"]:
        listed = "".join(one for one in word if one in units.listed) + "\n"
        assert units.pieces(listed) == theirs.encode(listed).tokens


def test_saved_units_come_back(tmp_path: Path) -> None:
    for units in all_units(corpus_of("le chat dort", "la \\ < ▁")):
        units.save(tmp_path / "units.json")
        again = load(tmp_path / "units.json")
        assert again == units
        assert again.of("chatdort☃") == units.of("chatdort☃")


@pytest.mark.parametrize("content", ["{", "[]", '{"listed": ["a"]}', '{"kind": "words", "listed": ["a"]}'])
def test_a_file_that_holds_no_units_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "units.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"units\.json: units "):
        load(tmp_path / "units.json")
    with pytest.raises(CheckpointError, match=r"none\.json"):
        load(tmp_path / "none.json")


def test_what_is_no_word_is_refused() -> None:
    units = CharacterUnits.from_corpus(corpus_of("aa"))
    for wrong in ("", "a\nb", "a\u2028b"):
        with pytest.raises(CorpusError, match="a word must be a non-empty text on one line"):
            units.of(wrong)
    with pytest.raises(CorpusError, match="the last unit must end a word"):
        decode(["a", END, "b"])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"tokenizers.*llrnn\[open\]"):
        BytePairs.from_corpus(corpus_of("aa"), 10)
    assert BytePairs(frozenset("a"), (("a", "a"),)).of("aaa") == ["aa", "a", END]  # cutting words needs no package
