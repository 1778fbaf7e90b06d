"""Weights of least expected word error rate, and the vote of a list, against sums by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import llrnn
from llrnn import features
from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.inference.nbest import Hypothesis, NBest, NBestLists
from llrnn.inference.rescoring import ModelScorer, Weights, rescore
from llrnn.model.controllers import Attentive, Encoder
from llrnn.text.conditions import Words
from llrnn_lab.studies.minimum_risk import agreement, learn_weights, pairwise_errors


def lists_of(*entries: list[tuple[str, float, float]]) -> NBestLists:
    made = [
        NBest(f"u{i}", tuple(Hypothesis(tuple(said.split()), (one, other)) for said, one, other in own))
        for i, own in enumerate(entries)
    ]
    return NBestLists(("one", "other"), tuple(made))


LISTS = lists_of(
    [("a b", 0.0, 1.0), ("a c", 1.0, 0.0), ("a", 0.5, 0.2)],
    [("b b c", 0.3, 0.1), ("b c", -0.2, 0.9)],
    [("c", 1.0, -0.4), ("c a", 0.1, 0.6)],
)
REFERENCES = {"u0": ("a", "b"), "u1": ("b", "c"), "u2": ("c", "a")}


def risk(weights: Weights, lists: NBestLists = LISTS) -> float:
    """The expected word error rate in per cent, by hand."""
    errors = {"u0": [0, 1, 1], "u1": [1, 0], "u2": [1, 0]}
    total = 0.0
    for entry in lists:
        p = [
            math.exp(weights["one"] * h.scores[0] + weights["other"] * h.scores[1] + weights["words"] * len(h.words))
            for h in entry.hypotheses
        ]
        total += sum(own * e for own, e in zip(p, errors[entry.utterance], strict=True)) / sum(p)
    return 100 * total / 6


def test_what_is_learned_chooses_right_and_no_step_from_it_is_better() -> None:
    weights = learn_weights(LISTS, REFERENCES, l2=1.0)
    assert rescore(LISTS, {}, weights).errors(REFERENCES).total == 0
    assert weights["other"] > 0
    deviation = _deviations()

    def penalised(moved: Weights) -> float:
        return risk(moved) + sum((moved[name] * own) ** 2 for name, own in deviation.items())

    here = penalised(weights)
    for name in weights:
        for step in (-0.01, 0.01):
            assert penalised(Weights({**weights, name: weights[name] + step / deviation[name]})) >= here - 1e-6


def _deviations() -> dict[str, float]:
    rows = [np.array([[*h.scores, len(h.words)] for h in entry.hypotheses]) for entry in LISTS]
    found = np.sqrt(np.concatenate([(own - own.mean(0)) ** 2 for own in rows]).mean(0))
    return dict(zip(("one", "other", "words"), found.tolist(), strict=True))


def test_units_of_scores_do_not_matter() -> None:
    scaled = lists_of(
        *([(" ".join(h.words), 1000 * h.scores[0], h.scores[1]) for h in own.hypotheses] for own in LISTS)
    )
    one, other = learn_weights(LISTS, REFERENCES), learn_weights(scaled, REFERENCES)
    assert other["one"] * 1000 == pytest.approx(one["one"], rel=1e-3, abs=1e-6)


def test_a_score_that_never_differs_has_no_weight() -> None:
    flat = LISTS.with_scores("flat", [[7.0] * len(own.hypotheses) for own in LISTS])
    assert learn_weights(flat, REFERENCES)["flat"] == 0


def test_a_penalty_is_not_negative() -> None:
    with pytest.raises(ConfigError, match="l2 must be a number of 0 or more, found -1"):
        learn_weights(LISTS, REFERENCES, l2=-1)


def test_the_vote_is_the_expected_errors_by_hand() -> None:
    weights = Weights({"one": 1.0, "other": 0.5, "words": 0.2})
    distance = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])  # a b, a c, a
    np.testing.assert_array_equal(pairwise_errors(LISTS.lists)[0], distance)
    p = np.exp(2.0 * weights.totals(LISTS.lists[0]))
    assert agreement(LISTS, weights, scale=2.0)[0] == pytest.approx((-(distance @ p) / p.sum()).tolist())
    certain = agreement(LISTS, weights, scale=1e4)
    assert [int(np.argmax(own)) for own in certain] == [weights.choose(own) for own in LISTS]


def test_a_model_scores_each_list_given_its_condition() -> None:
    vocabulary = llrnn.Vocabulary(["a", "b", "c", "</s>"])
    encoder = Encoder.for_conditions(Words(), ["x", "y"], 4, kind="none")
    controller = Attentive(llrnn.GRU(5, inputs=3), encoder, llrnn.GRU(6, inputs=9))
    model = llrnn.LLRNN(vocabulary, output_features=features.Identity(), controller=controller).double()
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.normal_(generator=torch.Generator().manual_seed(index))
    conditions = {"u0": "x", "u1": "y", "u2": "x"}
    found = ModelScorer(model, conditions=conditions)(LISTS.lists)
    for entry, own in zip(LISTS, found, strict=True):
        for h, log_p in zip(entry.hypotheses, own, strict=True):
            state, fed, total = model.start([conditions[entry.utterance]]), vocabulary.eos, 0.0
            for symbol in (*vocabulary.ids(h.words), vocabulary.eos):
                distribution, state = model.step(state, [fed])
                total += distribution.log_prob(torch.tensor([symbol])).item()
                fed = symbol
            assert log_p == pytest.approx(total, abs=1e-9)
    with pytest.raises(CorpusError, match="every utterance needs a condition, found none for 'u1'; add it"):
        ModelScorer(model, conditions={"u0": "x"})(LISTS.lists)
