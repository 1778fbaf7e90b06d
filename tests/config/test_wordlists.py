"""Lists of words that are made: forms of the lemmas and inflections of an annotated text."""

from __future__ import annotations

import pytest

from llrnn import Corpus
from llrnn.config.wordlists import derived_forms
from llrnn.text.corpus import Sentence, Token

NOUNS = ("lampe", "table", "porte", "rose", "salade")
PLURAL, SINGULAR = {"Number": "Plur"}, {"Number": "Sing"}


def noun(lemma: str, form: str) -> Token:
    return Token(form, lemma, "NOUN", PLURAL if form.endswith("s") else SINGULAR)


def text(*tokens: Token) -> Corpus:
    return Corpus(tuple(Sentence((token,)) for token in tokens), "text")


def weights(corpus: Corpus) -> dict[str, float]:
    """f relative to that of a form that every text here derives, in which the sum over all cancels."""
    found, _ = derived_forms(corpus)
    return {form: f / found["citrons"] for form, f in found.items()}


@pytest.fixture
def tokens() -> list[Token]:
    both = [noun(lemma, form) for lemma in NOUNS for form in (lemma, f"{lemma}s")]
    return [*both, noun("citron", "citron"), noun("melon", "melon"), noun("melon", "melons"), noun("bouton", "boutons")]


def test_forms_of_known_lemmas_and_inflections(tokens: list[Token]) -> None:
    """By hand: `e` is `es` in five words and stays in five; `n` is `ns` in two, and stays in two."""
    frequencies, lexicon = derived_forms(text(*tokens))
    assert sum(frequencies.values()) == pytest.approx(1.0)
    assert {"citrons", "bouton", "lampe", "lampes"} <= set(frequencies)
    assert "citron" not in frequencies  # it is the only word that shows its lemma
    assert "melon" not in frequencies  # one other word alone stays as it is after n
    assert lexicon("citrons") == {"POS:NOUN", "Number:Plur"}
    assert lexicon("bouton") == {"POS:NOUN", "Number:Sing"}
    assert frequencies["citrons"] == pytest.approx(frequencies["bouton"])  # one form, two words of four, both
    assert frequencies["lampes"] / frequencies["citrons"] == pytest.approx((4 / 9) / (2 / 4))


def test_a_form_does_not_count_for_itself(tokens: list[Token]) -> None:
    """What a form of the text weighs is what it weighs in the text without it."""
    whole = weights(text(*tokens))
    for gone in (noun("lampe", "lampes"), noun("rose", "rose")):
        without = weights(text(*(token for token in tokens if token != gone)))
        assert whole[gone.form] == pytest.approx(without[gone.form], rel=1e-12)


def test_the_likeliest_forms(tokens: list[Token]) -> None:
    whole, _ = derived_forms(text(*tokens))
    most, lexicon = derived_forms(text(*tokens), most=2)
    assert set(most) == set(sorted(whole, key=lambda form: (-whole[form], form))[:2])
    assert set(lexicon.forms()) == set(most)


def test_a_text_without_lemmas_gives_none() -> None:
    frequencies, lexicon = derived_forms(Corpus.from_sentences([["lampe", "lampes"]]))
    assert not frequencies
    assert not list(lexicon.forms())
