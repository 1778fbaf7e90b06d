"""Explanations add up, exactly, to what the model says."""

from __future__ import annotations

import math

import pytest
import torch

from helpers import sentence_log_probs, small_corpus, small_model
from llrnn import LLRNN, contextual, explain
from llrnn.ground.errors import UnknownWordError
from llrnn.inference.explanation import Comparison, Explanation
from llrnn.knowledge.backgrounds import Mask, Mixture, Primed, Uniform, Unigram
from llrnn.text.vocabulary import EOS


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return small_model(context=[contextual.Repeated(6)]).double()


def words_of(model: LLRNN, count: int) -> list[str]:
    return [word for word in model.vocabulary.symbols if word != EOS][:count]


def explained(model: LLRNN, prefix: tuple[str, ...], word: str) -> Explanation:
    found = explain(model, prefix=prefix, word=word)
    assert isinstance(found, Explanation)
    return found


def compared(model: LLRNN, prefix: tuple[str, ...], word: str, rival: str) -> Comparison:
    found = explain(model, prefix=prefix, word=word, rival=rival)
    assert isinstance(found, Comparison)
    return found


def test_the_terms_add_up_to_log_p(model: LLRNN) -> None:
    words = words_of(model, 40)
    for prefix in ((), tuple(words[:1]), tuple(words[3:9])):
        for word in (*words[::7], EOS):
            found = explained(model, prefix, word)
            assert found.total == pytest.approx(found.log_p, abs=1e-9)
            by_hand = sentence_log_probs(model, (*prefix, word))[len(prefix)]
            assert found.log_p == pytest.approx(by_hand, abs=1e-9)


def test_the_terms_are_the_features_of_the_word(model: LLRNN) -> None:
    word = words_of(model, 3)[2]
    found = explained(model, (), word)
    row = model.output_features.row(model.vocabulary.id(word))
    assert {term.name: term.value for term in found.terms} == row
    shares = [abs(term.share) for term in found.terms]
    assert shares == sorted(shares, reverse=True)
    assert len(shares) >= 2
    assert any(share > 0.01 for share in shares)


def test_log_b_and_log_z_are_those_of_the_model(model: LLRNN) -> None:
    word = words_of(model, 1)[0]
    found = explained(model, (), word)
    with torch.no_grad():
        distribution, _ = model.step(model.start(), [model.vocabulary.eos])
        log_z = float(distribution.log_z[0])
    assert found.log_b == float(distribution.log_b(torch.tensor([model.vocabulary.id(word)]))[0])
    assert found.log_z == log_z


def test_a_rival_is_explained_by_what_differs(model: LLRNN) -> None:
    words = words_of(model, 60)
    for word, rival in ((words[0], words[1]), (words[40], words[5]), (words[55], words[54])):
        found = compared(model, tuple(words[:2]), word, rival)
        assert found.total == pytest.approx(found.log_ratio, abs=1e-9)
        assert found.log_ratio == pytest.approx(
            explained(model, tuple(words[:2]), word).log_p - explained(model, tuple(words[:2]), rival).log_p, abs=1e-12
        )
        mine, theirs = (model.output_features.row(model.vocabulary.id(w)) for w in (word, rival))
        for term in found.terms:
            if term.name in model.output_features.names:
                assert term.value == mine.get(term.name, 0.0) - theirs.get(term.name, 0.0) != 0


def test_the_other_way_round_is_the_negative(model: LLRNN) -> None:
    word, rival = words_of(model, 2)
    there, back = compared(model, (), word, rival), compared(model, (), rival, word)
    assert there.total == pytest.approx(-back.total, abs=1e-12)
    assert {t.name: t.value for t in there.terms} == {t.name: -t.value for t in back.terms}


def test_a_word_against_itself_is_nothing(model: LLRNN) -> None:
    word = words_of(model, 1)[0]
    found = compared(model, (), word, word)
    assert found.terms == ()
    assert found.total == found.log_ratio == 0.0


def test_a_contextual_feature_has_its_share_when_it_fires(model: LLRNN) -> None:
    said, unsaid = words_of(model, 2)
    term = next(term for term in explained(model, (said,), said).terms if term.name == "Repeated")
    assert term.value == 1.0
    assert abs(term.share) > 1e-3
    assert "Repeated" not in {term.name for term in explained(model, (said,), unsaid).terms}
    assert "Repeated" not in {term.name for term in explained(model, (), said).terms}
    difference = compared(model, (said,), said, unsaid)
    assert next(t for t in difference.terms if t.name == "Repeated").value == 1.0


def test_float32_adds_up_too() -> None:
    model = small_model(context=[contextual.Repeated(6)])
    words = words_of(model, 30)
    for word in words[::3]:
        found = explained(model, tuple(words[:4]), word)
        assert found.total == pytest.approx(found.log_p, abs=1e-4)


def test_a_background_that_depends_on_the_condition() -> None:
    base = small_model()
    word, other = words_of(base, 2)
    primed = Primed(Uniform(), [word, other], boost=50.0, absent=0.5)
    model = small_model(background=Mixture(primed, Uniform())).double()
    with_it = explain(model, word=word, condition=word)
    without = explain(model, word=word, condition=None)
    assert isinstance(with_it, Explanation)
    assert isinstance(without, Explanation)
    assert with_it.log_b - without.log_b == pytest.approx(math.log((50 + 1) / (0.5 + 1)), abs=1e-9)
    for found in (with_it, without):
        assert found.total == pytest.approx(found.log_p, abs=1e-9)


def test_the_share_of_priming_is_told() -> None:
    base = small_model()
    word, other, third = words_of(base, 3)
    unigram = Unigram.from_corpus(small_corpus())
    primed = Primed(unigram, [word, other], boost=50.0, absent=0.5)
    model = small_model(background=Mask(forbidden=[third]) * primed).double()
    found = explain(model, word=word, rival=other, condition=word)
    assert isinstance(found, Comparison)
    assert [name for name, _ in found.factors] == ["Mask(forbidden=1 symbols)", repr(unigram), "priming"]
    assert found.chosen.factors[2][1] == pytest.approx(math.log(50.0))
    assert found.rival.factors[2][1] == pytest.approx(math.log(0.5))
    for side in (found.chosen, found.rival):
        assert sum(log_b for _, log_b in side.factors) == pytest.approx(side.log_b, abs=1e-9)
    assert sum(log_b for _, log_b in found.factors) == pytest.approx(found.log_b_difference, abs=1e-9)
    plain = explain(base, word=word)
    assert isinstance(plain, Explanation)
    assert plain.factors == ()


@pytest.mark.parametrize("place", ["prefix", "word", "rival"])
def test_an_unlisted_word_is_named(model: LLRNN, place: str) -> None:
    word = words_of(model, 1)[0]
    arguments = {"prefix": word, "word": word, "rival": word, place: "zzz"}
    with pytest.raises(UnknownWordError, match="'zzz'"):
        explain(model, **arguments)
