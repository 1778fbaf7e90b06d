"""Values that end as they were given: what is allowed by the definition, what has mass, and what people wrote."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from helpers import sentence_log_probs, shaken
from llrnn import EOS, GRU, LLRNN, Corpus, Greedy, Sampling, Vocabulary, generate, load
from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds import Uniform, Unigram, WholeValues, restore
from llrnn.knowledge.contextual import Continued, Copied
from llrnn.knowledge.features import Identity
from llrnn.languages.domains import Numbers
from llrnn.model.decode import beam_search_each, prepared
from llrnn.model.testing import check_background
from llrnn.text.conditions import parse_act
from llrnn.text.corpus import Sentence, Token
from strategies import QUICK

pytestmark = pytest.mark.usefixtures("each_sum")

WORDS = [EOS, "a", "b", "c", "the"]
VOCABULARY = Vocabulary(WORDS)

Phrases = Sequence[tuple[str, ...]]
Reading = tuple[str, ...] | None  # what is left of the value that is being said; None: none is


# --- the oracle: all readings of a sentence ---------------------------------------------------------------------------


def readings(values: Phrases, ordinary: str, broken: Phrases, sentence: Sequence[str]) -> set[tuple[Reading, int]]:
    """What may be due after a sentence: (the rest of a value, how many of its words were said), (None, 0) for nothing.

    A word is read as the next of a value under way; as the first of one where none has to be gone on with; or, there,
    as no part of a value, which it may be if it is ordinary or cannot be read otherwise.
    """
    found: set[tuple[Reading, int]] = {(None, 0)}
    for t, word in enumerate(sentence):
        on = {(rest[1:], n + 1) for rest, n in found if rest is not None and rest[0] == word}
        plain = (None, 0) in found or not on
        if plain:
            on |= {(value[1:], 1) for value in values if value[0] == word}
        said = {(rest or None, n if rest else 0) for rest, n in on}
        if (plain and word in ordinary.split()) or not on:
            said.add((None, 0))
        if any(rest is not None and tuple(sentence[t + 1 - n : t + 1]) in broken for rest, n in said):
            said.add((None, 0))
        found = said
    return found


def allowed(values: Phrases, ordinary: str, broken: Phrases, sentence: Sequence[str]) -> set[str]:
    due = readings(values, ordinary, broken, sentence)
    return set(WORDS) if (None, 0) in due else {rest[0] for rest, _ in due if rest is not None}


def record(values: Phrases) -> dict[str, list[str]]:
    return {"name": [" ".join(value) for value in values]}


def after(background: WholeValues, values: Phrases, sentence: Sequence[str]) -> set[str]:
    return after_words(background, record(values), sentence)


def after_words(background: WholeValues, condition: object, sentence: Sequence[str]) -> set[str]:
    state = background.initial(condition)
    for word in sentence:
        state = background.advance(state, background.vocabulary.id(word))
    log_b = background.prior([state]).dense(1).log_b[0]
    outside = math.log(background.outside) if background.outside else -math.inf
    assert all(log == 0.0 or log == pytest.approx(outside) for log in log_b.tolist())
    return {word for word, log in zip(background.vocabulary.symbols, log_b.tolist(), strict=True) if log == 0}


some_words = st.lists(st.sampled_from(["a", "b", "c", "the"]), min_size=1, max_size=4).map(tuple)


@QUICK
@given(
    st.lists(some_words, max_size=4, unique=True),
    st.sampled_from(["", "the", "a the"]),
    st.lists(some_words, max_size=2),
    st.lists(st.sampled_from(WORDS[1:]), max_size=8),
)
@example([("a", "b"), ("a", "c", "b")], "the", [], ["a"])
@example([("a",), ("a", "b", "c")], "the", [], ["a", "b"])
@example([("the", "a", "b"), ("a", "c")], "the", [("a",)], ["the", "a"])
def test_what_is_allowed_is_what_the_definition_says(
    values: Phrases, ordinary: str, broken: Phrases, sentence: list[str]
) -> None:
    background = WholeValues(ordinary.split(), broken).bind(VOCABULARY)
    for n in range(len(sentence) + 1):
        expected = allowed(values, ordinary, broken, sentence[:n])
        assert after(background, values, sentence[:n]) == expected, sentence[:n]


@pytest.mark.parametrize(
    ("values", "said", "expected"),
    [
        ("a b c", "", WORDS),
        ("a b c", "a", ["b"]),
        ("a b c", "c a b", ["c"]),
        ("a b c", "a b c", WORDS),
        ("a b c", "b", WORDS),  # the middle of a value begins none
        ("a b c", "a b c a", ["b"]),  # said again, as a whole again
        ("a b; a c", "a", ["b", "c"]),  # who shares what was said shares what may follow
        ("a; a b", "a", WORDS),  # the one has ended where the other goes on
        ("a a b", "a", ["a"]),
        ("a a b", "a a", ["b"]),
        ("the a b", "the", WORDS),  # an ordinary word begins no value for sure
        ("the a b", "the a", ["b"]),  # a second word does
        ("a the b", "a", ["the"]),
        ("a the b", "a the", ["b"]),
        ("a b", f"a {EOS}", WORDS),  # of the sentence before
        ("a b", "a c", WORDS),  # broken off by who gave the text
        ("a b", "a a", ["b"]),  # broken off, and begun anew
        ("a unlisted b", "a", WORDS),  # what comes next has no symbol
        ("a b unlisted", "a", ["b"]),
    ],
)
def test_values_word_by_word(values: str, said: str, expected: list[str]) -> None:
    phrases = [tuple(value.split()) for value in values.split("; ")]
    assert after(WholeValues(["the"]).bind(VOCABULARY), phrases, said.split()) == set(expected)


def test_it_keeps_the_laws_of_backgrounds() -> None:
    conditions = [None, {"name": "a b c"}, {"name": ["a b", "a c", "the a"], "near": "b"}]
    check_background(WholeValues(["the"]), VOCABULARY, conditions=conditions, prefixes=12)


# --- in a model: all strings ------------------------------------------------------------------------------------------


def made(seed: int, outside: float = 0.0) -> LLRNN:
    background = Uniform() * WholeValues(["the"], outside=outside)
    model = LLRNN(
        VOCABULARY,
        output_features=Identity(),
        background=background,
        contextual=[Copied(), Continued()],
        controller=GRU(5),
    ).double()
    shaken(model, 3.0, seed)
    return model


CASES = [
    [("a", "b", "c")],
    [("a", "b"), ("a", "c", "b")],
    [("a", "b"), ("a", "b", "c")],
    [("the", "a", "b"), ("c", "c")],
]


@pytest.mark.parametrize("values", CASES)
def test_all_strings_have_mass_1_and_those_that_break_a_value_off_none(values: Phrases) -> None:
    model, longest = made(seed=3), 4
    ended, cut, n_forbidden = [], [], 0
    for n in range(longest + 1):
        for string in itertools.product(WORDS[1:], repeat=n):
            logs = sentence_log_probs(model, string, record(values))
            path = [*string, EOS]
            is_broken = [word not in allowed(values, "the", [], path[:t]) for t, word in enumerate(path)]
            assert [log == -math.inf for log in logs] == is_broken, string
            n_forbidden += any(is_broken)
            ended.append(math.exp(math.fsum(logs)))
            if n == longest:
                cut.append(math.exp(math.fsum(logs[:-1])) - ended[-1])
    assert n_forbidden > 20
    npt.assert_allclose(math.fsum([*ended, *cut]), 1.0, rtol=1e-12)


@pytest.mark.parametrize("values", CASES)
def test_a_little_mass_outside_is_that_factor_of_what_it_was(values: Phrases) -> None:
    """p(x) ∝ b · exp(a·φ): what is not due keeps its ratios, all of them `outside` of those to what is due."""
    free, little = made(seed=3, outside=1.0), made(seed=3, outside=1e-3)
    for text in itertools.product(WORDS[1:], repeat=3):
        states = [model.start([record(values)]) for model in (free, little)]
        for n, word in enumerate([EOS, *text]):
            (p, states[0]), (q, states[1]) = (
                model.step(state, [model.vocabulary.id(word)])
                for model, state in zip((free, little), states, strict=True)
            )
            due = allowed(values, "the", [], text[:n])
            factor = torch.tensor([1.0 if one in due else 1e-3 for one in VOCABULARY.symbols], dtype=torch.float64)
            wanted = p.log_probs()[0].detach().exp() * factor
            npt.assert_allclose(q.log_probs()[0].detach().exp(), wanted / wanted.sum(), rtol=1e-9)


@pytest.mark.parametrize("values", CASES)
def test_nothing_that_is_written_breaks_a_value_off(values: Phrases) -> None:
    model = made(seed=5)
    texts = generate(model, count=200, max_words=8, seed=0, condition=record(values))
    texts += generate(model, strategy=Sampling(temperature=5.0), count=200, max_words=8, condition=record(values))
    texts += generate(model, strategy=Greedy(), max_words=8, condition=record(values))
    texts += beam_search_each(model, [record(values)], beam=20, max_words=8)[0]
    begun = 0
    for text in texts:
        path = [*text.words, *[EOS] * text.finished]
        due = [allowed(values, "the", [], path[:t]) for t in range(len(path))]
        assert all(word in one for word, one in zip(path, due, strict=True)), text
        begun += sum(len(one) < len(WORDS) for one in due)
    assert begun > 50


def test_words_that_are_added_for_a_question_begin_values() -> None:
    text = Corpus.from_sentences([["at", "street"], ["street"]], name="text")
    vocabulary = Vocabulary.from_corpus(text, domains=[Numbers("en")])
    background = Unigram.from_corpus(text) * WholeValues(["at"])
    model = LLRNN(vocabulary, output_features=Identity(), background=background, contextual=[Copied()])
    act = parse_act("inform(address='943 street at')")
    factor = prepared(model, [act]).background.parts[1]  # type: ignore[attr-defined]
    assert factor.vocabulary.n_words == 4
    assert after_words(factor, act, ["at", "943"]) == {"street"}
    cells = {*vocabulary.symbols}
    assert after_words(model.background.parts[1], act, ["at", "943"]) == cells  # type: ignore[attr-defined]


# --- what people wrote ------------------------------------------------------------------------------------------------


def corpus(*pairs: tuple[str, str]) -> Corpus:
    return Corpus(tuple(Sentence(tuple(map(Token, text.split())), parse_act(act)) for act, text in pairs), "pairs")


TRAIN = corpus(
    ("inform(name='the dead fish')", "the dead fish is in the town"),
    ("inform(name='alamo square grill')", "alamo square grill is near alamo square"),
    ("inform(name='alamo square grill')", "so alamo square grill is nice"),
    ("inform(name='alamo house')", "alamo house is a house"),
    *[("inform(name='alamo house')", "alamo house it is")] * 9,
)


def test_no_text_that_was_counted_is_forbidden() -> None:
    found = WholeValues.fitted(TRAIN)
    assert found.broken == {("alamo", "square")}  # and no more is free than what was broken off
    assert {"the", "is", "near", "so"} <= found.ordinary
    assert not {"alamo", "dead", "fish"} & found.ordinary
    assert not list(found._broken_off(TRAIN))
    vocabulary = Vocabulary.from_corpus(TRAIN, others=["green"])
    bound = found.bind(vocabulary)
    for sentence in TRAIN:
        state = bound.initial(sentence.condition)
        for word in [*vocabulary.ids(sentence.words), vocabulary.eos]:
            assert bound.prior([state]).dense(1).log_b[0, word] == 0, sentence
            state = bound.advance(state, word)
    assert after(bound, [("alamo", "green")], ["alamo"]) == {"green"}
    assert after(bound, [("alamo", "square", "green")], ["alamo"]) == {"square"}
    assert after(bound, [("alamo", "square", "green")], ["alamo", "square"]) == set(vocabulary.symbols)


def test_texts_to_choose_by_are_not_forbidden_either() -> None:
    other = corpus(("inform(name='green street house')", "green house"))
    assert list(WholeValues.fitted(TRAIN)._broken_off(other)) == [("green",)]
    assert WholeValues.fitted(TRAIN, other).broken == {("alamo", "square"), ("green",)}


def test_what_is_no_collection_or_no_share_is_refused() -> None:
    with pytest.raises(BackgroundError, match=r"must be a collection of words, found 'the'"):
        WholeValues("the")
    with pytest.raises(BackgroundError, match=r"outside=\.\.\.\) must be 0 to 1, found 2"):
        WholeValues(outside=2)


def test_it_comes_back_from_disk(tmp_path: Path) -> None:
    found = WholeValues.fitted(TRAIN)
    back = restore(found.saved())
    assert isinstance(back, WholeValues)
    assert (back.ordinary, back.broken, back.outside) == (found.ordinary, found.broken, 1e-6)
    model = made(seed=1)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    condition = {"name": "a b c"}
    for text in ("a b c", "the a b c b", "a c"):
        npt.assert_allclose(
            np.array(sentence_log_probs(again, text.split(), condition)),
            np.array(sentence_log_probs(model, text.split(), condition)),
            rtol=1e-6,
        )
