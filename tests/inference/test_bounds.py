"""Real-valued features over an infinite set: the head exactly, the tail between bounds."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import llrnn
from llrnn import backgrounds, domains, features
from llrnn.ground.errors import DomainError, FeatureError
from llrnn.inference.evaluation import log_z_interval
from llrnn.model.testing import check_domain
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Vocabulary
from strategies import draws

WORDS = ["the", "cost", "</s>"]
LONGEST = 12  # of the brute force: what is longer weighs less than 1e-7


def codes() -> domains.Regular:
    """Strings of a and b, each half as likely with every character more."""
    return domains.Regular({"a": "a[ab]*", "b": "b[ab]*"}, {"a": 0.15, "b": 0.1}, name="code")


def smallness(string: str) -> dict[str, float]:
    """A value that no cell but a string of its own can have."""
    return {"small": 1.0 / (1 + string.count("a"))} if set(string) <= {"a", "b"} else {"word": 1.0}


def open_model(tolerance: float, weight: float, seed: int = 0) -> llrnn.LLRNN:
    vocabulary = Vocabulary(WORDS, counts=[5, 5, 5], domains=[domains.Headed(codes(), tolerance=tolerance)])
    phi = features.Function(smallness).bounded({"small": (0.0, 1.0)})
    counts = {"the": 5.0, "cost": 5.0, "</s>": 5.0}
    model = llrnn.LLRNN(
        vocabulary,
        output_features=phi,
        background=backgrounds.Unigram(counts),
        controller=llrnn.GRU(4),
        seed=seed,
    ).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(weight * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def true_log_z(model: llrnn.LLRNN, distribution: llrnn.layer.loglinear.Distribution) -> float:
    """Word by word and string by string, each with its own feature, at one position."""
    a = dict(zip(model.output_features.names, distribution.adaptor[0].tolist(), strict=True))
    log_b = distribution.log_b
    total = [float(log_b(torch.tensor([i]))[0]) + a.get("word", 0.0) * (word != "</s>") for i, word in enumerate(WORDS)]
    strings = ["".join(s) for n in range(1, LONGEST + 1) for s in product("ab", repeat=n)]
    ids, inside = model.vocabulary.locate(strings)
    of_symbol = torch.tensor([float(log_b(torch.tensor([i]))[0]) for i in range(len(model.vocabulary))])
    for string, symbol, log_share in zip(strings, ids.tolist(), inside.tolist(), strict=True):
        total.append(float(of_symbol[symbol]) + log_share + a["small"] * smallness(string)["small"])
    return float(np.logaddexp.reduce(total))


def width(model: llrnn.LLRNN, distribution: llrnn.layer.loglinear.Distribution) -> float:
    low, high = log_z_interval(model, distribution)
    return float((high - low).max())


@settings(max_examples=draws(12))
@given(st.sampled_from([0.3, 0.1, 0.02]), st.floats(0.1, 3.0), st.integers(0, 5))
def test_the_true_sum_lies_in_the_interval(tolerance: float, weight: float, seed: int) -> None:
    model = open_model(tolerance, weight, seed)
    with torch.no_grad():
        distribution, _ = model.step(model.start(), [model.vocabulary.eos])
    low, high = log_z_interval(model, distribution)
    wanted = true_log_z(model, distribution)
    assert float(low[0]) - 1e-6 <= wanted <= float(high[0]) + 1e-6
    assert width(model, distribution) > 0


def test_a_longer_head_makes_the_interval_narrower() -> None:
    widths = []
    for tolerance in (0.3, 0.05, 0.005):
        model = open_model(tolerance, 1.0)
        with torch.no_grad():
            distribution, _ = model.step(model.start(), [model.vocabulary.eos])
        widths.append(width(model, distribution))
    assert widths[0] > 2 * widths[1] > 4 * widths[2] > 0


def test_the_head_holds_all_but_the_tolerance() -> None:
    for tolerance in (0.5, 0.1, 0.01):
        domain = domains.Headed(codes(), tolerance=tolerance)
        assert 0 < domain.tail_share <= tolerance
        whole = np.logaddexp.reduce(domain.log_mass)
        assert whole == pytest.approx(np.logaddexp.reduce(codes().log_mass), abs=1e-12)
        shorter = codes().length_that_leaves(tolerance) - 1
        kept = np.exp(codes().locate(codes().strings_up_to(shorter, 10**6))[1]).sum() if shorter else 0.0
        assert 1 - kept / np.exp(whole) > tolerance  # one character fewer would not have done


def test_strings_of_the_head_have_their_own_values_and_those_of_the_tail_the_middle() -> None:
    model = open_model(0.1, 1.0)
    row = {word: model.output_features.row(model.vocabulary.id(word)) for word in ("a", "b", "ababababab")}
    assert row["a"] == {"small": 0.5}
    assert row["b"] == {"small": 1.0}
    assert row["ababababab"] == {"small": 0.5}  # the middle of 0 and 1, not 1/6
    assert model.radius == {"small": 0.5}


def test_the_interval_is_reported_and_survives_saving(tmp_path: Path) -> None:
    model = open_model(0.1, 3.0)
    corpus = Corpus.from_sentences([["the", "cost", "abba"], ["the", "a"]])
    found = llrnn.evaluate(model, corpus)
    assert found.audit.log_z_width > 0
    model.save(tmp_path / "model")
    again = llrnn.load(tmp_path / "model")
    assert again.radius == model.radius
    assert llrnn.evaluate(again, corpus).audit.log_z_width == pytest.approx(found.audit.log_z_width)
    assert llrnn.evaluate(again, corpus).log_perplexity == pytest.approx(found.log_perplexity)


def test_features_that_are_known_everywhere_leave_nothing_open() -> None:
    vocabulary = Vocabulary(WORDS, counts=[5, 5, 5], domains=[codes()])
    counts = {"the": 5.0, "cost": 5.0, "</s>": 5.0}
    model = llrnn.LLRNN(vocabulary, output_features=features.Identity(), background=backgrounds.Unigram(counts))
    distribution, _ = model.step(model.start(), [vocabulary.eos])
    assert width(model, distribution) == 0
    assert math.isclose(float(log_z_interval(model, distribution)[0][0]), float(distribution.log_z[0].detach()))


def test_values_outside_their_bounds_are_refused() -> None:
    vocabulary = Vocabulary(WORDS, domains=[domains.Headed(codes(), tolerance=0.1)])
    narrow = features.Function(smallness).bounded({"small": (0.0, 0.4)})
    with pytest.raises(FeatureError, match=r"'small' must lie between 0.0 and 0.4 .* found 0.5 on 'a'"):
        features.compile_features(narrow, vocabulary)
    with pytest.raises(FeatureError, match="bounds of 'small' must be finite and rise"):
        features.Function(smallness).bounded({"small": (1.0, 0.0)})


def test_without_a_head_the_feature_is_refused() -> None:
    with pytest.raises(FeatureError, match=r"same on all strings of a cell.*‹code:b›"):
        features.compile_features(features.Function(smallness), Vocabulary(WORDS, domains=[codes()]))


def test_a_head_that_is_too_long_is_refused() -> None:
    with pytest.raises(DomainError, match="more than 10; allow a larger tolerance"):
        domains.Headed(codes(), tolerance=0.001, most=10)
    with pytest.raises(DomainError, match="between 0 and 1, found 1"):
        domains.Headed(codes(), tolerance=1.0)


def test_a_head_keeps_the_laws_of_domains() -> None:
    headed = domains.Headed(codes(), tolerance=0.1)
    check_domain(headed)
    tails = [number for number, cell in enumerate(headed.cells) if cell.tail]
    assert [headed.members(number) for number in range(2)] == [["a"], ["aa"]]
    assert all(headed.members(number) is None for number in tails)
    short = domains.Headed(domains.Regular({"ab": "[ab]{1,3}"}, {"a": 0.1, "b": 0.1}), tolerance=0.05)
    (tail,) = [number for number, cell in enumerate(short.cells) if cell.tail]
    left = short.members(tail)
    assert left is not None
    assert {len(string) for string in left} == {3}  # one and two characters are written out
    drawn = short.draw(tail, 200, np.random.default_rng(0))
    assert set(drawn) == set(left)
    assert "tail" in repr(short)


def test_words_that_are_added_leave_the_bounds_alone() -> None:
    model = open_model(0.1, 1.0)
    more = llrnn.words.add(model, [llrnn.words.Entry("price", count=2)])
    assert more.radius == model.radius
    with torch.no_grad():
        distribution, _ = more.step(more.start(), [more.vocabulary.eos])
    assert width(more, distribution) > 0
