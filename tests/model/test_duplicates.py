"""Positions with the same past: found by their words, computed once, with the same log-probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import small_corpus, small_model
from llrnn import LLRNN, Corpus, backgrounds, contextual, features
from llrnn.ground.errors import ZeroMassError
from llrnn.knowledge.process import Batch
from llrnn.layer import ways
from llrnn.layer.loglinear import Distribution
from llrnn.model.scoring import Continuous, Sentences, distinct_pasts, log_probs, score, tally
from llrnn.text.encoded import EncodedText
from strategies import QUICK

Rows = list[list[int]]


def a_batch(rows: Rows, mask: list[list[bool]] | None = None, conditions: list[object] | None = None) -> Batch:
    inputs = torch.tensor(rows)
    counts = torch.ones_like(inputs, dtype=torch.bool) if mask is None else torch.tensor(mask)
    return Batch(inputs, inputs, counts, conditions)


def by_brute_force(batch: Batch) -> list[int]:
    """The number of the past of each position that counts, in the order of their first appearance."""
    seen: dict[object, int] = {}
    found = []
    for b, row in enumerate(batch.inputs.tolist()):
        for t in range(len(row)):
            if batch.mask[b, t]:
                condition = None if batch.conditions is None else batch.conditions[b]
                found.append(seen.setdefault((condition, *row[: t + 1]), len(seen)))
    return found


@given(
    st.integers(1, 5).flatmap(
        lambda T: st.lists(
            st.tuples(
                st.lists(st.integers(0, 2), min_size=T, max_size=T),
                st.lists(st.booleans(), min_size=T, max_size=T),
                st.sampled_from([None, "a", ("b", 1)]),
            ),
            min_size=1,
            max_size=8,
        )
    )
)
@QUICK
def test_they_are_those_of_equal_words_and_conditions(rows: list[tuple[list[int], list[bool], object]]) -> None:
    inputs, mask, conditions = (list(part) for part in zip(*rows, strict=True))
    batch = a_batch(inputs, mask, conditions)
    pasts, expected = distinct_pasts(batch), by_brute_force(batch)
    assert pasts.at.tolist() == expected
    assert int(pasts.mask.sum()) == len(set(expected))
    assert not (pasts.mask & ~batch.mask).any()
    assert pasts.repeated == len(expected) - len(set(expected))


def test_the_picture_of_the_docstring() -> None:
    pasts = distinct_pasts(a_batch([[0, 1, 2, 3], [0, 1, 2, 4], [0, 5, 2, 3]]))
    assert int(pasts.mask.sum()) == 8
    assert pasts.at.tolist() == [0, 1, 2, 3, 0, 1, 2, 4, 0, 5, 6, 7]


def test_conditions_that_cannot_be_hashed_share_nothing() -> None:
    assert distinct_pasts(a_batch([[0, 1]] * 3, conditions=[{"a": 1}, {"a": 1}, {"a": 1}])).repeated == 0
    assert distinct_pasts(a_batch([[0, 1]] * 3, conditions=["x", "x", "y"])).repeated == 2


MODELS = {
    "static": lambda: small_model(),
    "n-grams": lambda: small_model(background=backgrounds.NGram.from_corpus(small_corpus(), order=2)),
    "contextual": lambda: small_model(context=[contextual.Repeated(3)]),
    "every word its own": lambda: small_model(output_features=features.Identity()),
}


def a_text(model: LLRNN) -> EncodedText:
    return EncodedText.encode(Corpus([*small_corpus().sentences[:12]] * 3), model.vocabulary)


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS[name]().double()
    text = a_text(model)
    monkeypatch.setattr(ways, "sharing_pays", lambda *sizes: False)
    expected, counted = score(model, text), tally(model, text)
    monkeypatch.setattr(ways, "sharing_pays", lambda *sizes: True)
    positions: list[int] = []
    usual = Distribution.log_prob

    def counting(self: Distribution, word: torch.Tensor, position: torch.Tensor | None = None) -> torch.Tensor:
        positions.append(self.n)
        return usual(self, word, position)

    monkeypatch.setattr(Distribution, "log_prob", counting)
    found = score(model, text)
    assert torch.equal(found.targets, expected.targets)
    torch.testing.assert_close(found.log_probs, expected.log_probs, rtol=1e-10, atol=1e-10)
    assert sum(positions) < len(found.targets) / 2  # every sentence is there three times
    np.testing.assert_allclose(tally(model, text).nats, counted.nats, rtol=1e-9)


def test_rows_that_go_on_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """In continuous text equal words may have other words before them."""
    model = small_model()
    monkeypatch.setattr(ways, "sharing_pays", lambda *sizes: pytest.fail("they were compared"))
    score(model, a_text(model), Continuous(rows=4, length=5))


def test_a_word_without_mass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = small_corpus().sentences[0].words[0]
    model = small_model(background=backgrounds.Mask(forbidden={missing}))
    monkeypatch.setattr(ways, "sharing_pays", lambda *sizes: True)
    with pytest.raises(ZeroMassError, match=repr(missing)):
        score(model, a_text(model))


def test_open_vocabularies_count_what_is_inside_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    (batch,) = Sentences().plan(EncodedText.encode(Corpus([*small_corpus().sentences[:3]] * 2), model.vocabulary))
    inside = torch.linspace(-1, 0, batch.mask.numel(), dtype=torch.float64).view(batch.mask.shape)
    monkeypatch.setattr(ways, "sharing_pays", lambda *sizes: True)
    with_inside = log_probs(model, Batch(batch.inputs, batch.targets, batch.mask, None, None, inside))
    torch.testing.assert_close(with_inside, log_probs(model, batch) + inside[batch.mask])
