"""Another trained model as background: the laws, the seam, its place in combinations, training and folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import llrnn
from helpers import shaken, small_corpus, small_model, small_vocabulary, tiny_model
from llrnn import EOS, GRU, LLRNN, LSTM, Vocabulary, backgrounds, contextual, features
from llrnn.ground.errors import BackgroundError, CheckpointError
from llrnn.knowledge.backgrounds import (
    Background,
    Mask,
    Mixture,
    Model,
    NGram,
    Product,
    Saved,
    Uniform,
    Unigram,
)
from llrnn.knowledge.backgrounds.base import mix, multiply
from llrnn.knowledge.backgrounds.neural import Scanned
from llrnn.knowledge.process import Batch, ModelState
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.priors import DensePrior, Prior, SparsePrior, Table
from llrnn.model.checkpoint import load
from llrnn.model.testing import check_background

TINY = tiny_model(words=5)
WORDS = TINY.vocabulary
INPUTS = torch.tensor([[5, 0, 1, 2, 5], [5, 3, 3, 0, 1], [5, 4, 2, 5, 5]])
MASK = torch.tensor([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0], [0, 0, 0, 1, 1]], dtype=torch.bool)


def bound(model: LLRNN = TINY) -> Model:
    return Model(model).bind(model.vocabulary)


def log_b(prior: Prior) -> Tensor:
    return prior.dense(prior.n).log_b


def folded(background: Background, row: Sequence[int], condition: object = None) -> Any:
    state = background.initial(condition)
    for symbol in row:
        state = background.advance(state, symbol)
    return state


def inner_log_probs(model: LLRNN, row: Sequence[int]) -> Tensor:
    """The distribution after a row of words, walked step by step."""
    state = model.start()
    with torch.no_grad():
        for word in row:
            distribution, state = model.step(state, [word])
        return distribution.log_probs()[0]


def outer_model(background: Background, vocabulary: Vocabulary = WORDS, *, loud: float = 1.0) -> LLRNN:
    model = LLRNN(vocabulary, output_features=features.Shape(), background=background, controller=GRU(3)).double()
    shaken(model, loud, seed=5)
    return model


# --- the laws ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inner",
    [
        TINY,
        tiny_model(words=5).float(),
        outer_model(Model(TINY)),
        LLRNN(WORDS, output_features=features.Identity(), controller=LSTM(4, layers=2)),
    ],
    ids=["float64", "float32", "a model on a model", "LSTM"],
)
def test_a_model_obeys_the_laws_of_backgrounds(inner: LLRNN) -> None:
    check_background(Model(inner), WORDS, prefixes=4, length=4)


def test_the_condition_reaches_the_inner_model() -> None:
    vocabulary = small_vocabulary()
    words = vocabulary.symbols[:4]
    inner = small_model(background=backgrounds.Primed(Unigram.from_corpus(small_corpus()), words)).double()
    check_background(Model(inner), vocabulary, conditions=[None, " ".join(words)], prefixes=2, length=2)
    background = bound(inner)
    plain, primed = (folded(background, [vocabulary.eos], condition) for condition in (None, " ".join(words)))
    assert not torch.allclose(log_b(background.prior([plain])), log_b(background.prior([primed])))


@pytest.mark.parametrize("row", [[5], [5, 0], [5, 3, 3, 1], [5, 0, 5, 2]])
def test_log_b_is_log_p_of_the_inner_model(row: list[int]) -> None:
    background = bound()
    found = log_b(background.prior([folded(background, row)]))[0]
    torch.testing.assert_close(found, inner_log_probs(TINY, row), rtol=0, atol=1e-12)


def test_before_any_symbol_a_sentence_begins() -> None:
    background = bound()
    assert torch.equal(log_b(background.prior([background.initial()]))[0], inner_log_probs(TINY, [WORDS.eos]))


# --- the seam ------------------------------------------------------------------------------------------------------


def test_follow_is_the_fold_of_advance() -> None:
    background = bound()
    seen, after = background.follow([background.initial()] * 3, Batch(INPUTS, INPUTS, MASK))
    folds = [folded(background, INPUTS[b, : t + 1].tolist()) for b, t in MASK.nonzero().tolist()]
    assert len(seen) == len(folds) == int(MASK.sum())
    torch.testing.assert_close(log_b(background.prior(seen)), log_b(background.prior(folds)), rtol=0, atol=1e-12)
    last = [folded(background, row) for row in INPUTS.tolist()]
    torch.testing.assert_close(log_b(background.prior(after)), log_b(background.prior(last)))


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_follow_goes_on_where_it_stopped(cut: int) -> None:
    background = bound()
    start = [background.initial()] * 3
    seen, after = background.follow(start, Batch(INPUTS, INPUTS, MASK))
    first, between = background.follow(start, Batch(INPUTS[:, :cut], INPUTS[:, :cut], MASK[:, :cut]))
    second, end = background.follow(between, Batch(INPUTS[:, cut:], INPUTS[:, cut:], MASK[:, cut:]))
    whole = torch.zeros(3, 5, len(WORDS), dtype=torch.float64)
    whole[:, :cut][MASK[:, :cut]] = log_b(background.prior(first))
    whole[:, cut:][MASK[:, cut:]] = log_b(background.prior(second))
    torch.testing.assert_close(whole[MASK], log_b(background.prior(seen)))
    torch.testing.assert_close(log_b(background.prior(end)), log_b(background.prior(after)))


def test_fresh_and_carried_sequences_go_together() -> None:
    background = bound()
    states = [background.initial(), folded(background, [5, 1]), background.initial()]
    seen, _ = background.follow(states, Batch(INPUTS, INPUTS, torch.ones_like(MASK)))
    alone = [
        background.follow([s], Batch(INPUTS[n : n + 1], INPUTS[n : n + 1], torch.ones(1, 5).bool()))[0]
        for n, s in enumerate(states)
    ]
    expected = torch.cat([log_b(background.prior(one)) for one in alone])
    torch.testing.assert_close(log_b(background.prior(seen)), expected)


def test_what_nobody_asks_for_is_not_computed() -> None:
    background = bound()
    seen, _ = background.follow([background.initial()] * 3, Batch(INPUTS, INPUTS, MASK))
    assert isinstance(seen, Scanned)
    assert "log_b" not in vars(seen)
    prior = background.prior(seen)
    some = prior.at(torch.tensor([0, 3, 3, 8, 9]), torch.tensor([1, 0, 4, 2, 5]))  # of two pieces
    assert "log_b" not in vars(seen)
    whole = log_b(prior)
    assert "log_b" in vars(seen)
    torch.testing.assert_close(some, whole[[0, 3, 3, 8, 9], [1, 0, 4, 2, 5]].double())
    none, _ = background.follow([background.initial()] * 3, Batch(INPUTS, INPUTS, torch.zeros_like(MASK)))
    assert log_b(background.prior(none)).shape == log_b(background.prior([])).shape == (0, len(WORDS))


def test_it_goes_to_the_device_that_it_is_asked_on() -> None:
    inner = tiny_model(words=5)
    Model(inner)._move(torch.device("meta"))
    assert inner.device.type == "meta"
    assert Model(TINY).model is TINY


def test_states_join_as_they_were_selected() -> None:
    state = TINY.start([None, None])
    _, state = TINY.step(state, [1, 2])
    again = ModelState.joined([state.select([0]), state.select([1])], TINY.device)
    assert again.knowledge == state.knowledge
    assert all(torch.equal(*parts) for parts in zip(again.controller, state.controller, strict=True))


# --- on top of it --------------------------------------------------------------------------------------------------


def scored(model: LLRNN) -> Tensor:
    return model.log_prob(Batch(INPUTS[:, :-1], INPUTS[:, 1:], MASK[:, :-1]))


def test_with_no_weights_the_outer_model_is_the_inner() -> None:
    outer = outer_model(Model(TINY), loud=0.0)
    torch.testing.assert_close(scored(outer), scored(TINY), rtol=0, atol=1e-12)


def test_scan_is_step_by_step() -> None:
    outer = outer_model(Model(TINY))
    state, found = outer.start(), []
    for fed, target in zip(INPUTS[1, :-1].tolist(), INPUTS[1, 1:].tolist(), strict=True):
        distribution, state = outer.step(state, [fed])
        found.append(distribution.log_probs()[0, target])
    torch.testing.assert_close(torch.stack(found), scored(outer)[3:7])


def test_the_inner_model_learns_nothing() -> None:
    inner = tiny_model(words=5)
    outer = outer_model(Model(inner))
    inner.requires_grad_(True)
    scored(outer).sum().backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is None for parameter in inner.parameters())
    assert outer.layer.weight.grad is not None
    assert not {id(p) for p in outer.parameters()} & {id(p) for p in inner.parameters()}


def test_training_on_top_lowers_the_loss() -> None:
    inner = small_model(loud=0.5)
    corpus = small_corpus()
    outer = LLRNN(
        inner.vocabulary, output_features=features.Identity(), background=Model(inner), controller=GRU(8), seed=1
    )
    before = llrnn.evaluate(outer, corpus).log_perplexity
    list(llrnn.train(outer, corpus, epochs=15, learning_rate=0.03))
    assert llrnn.evaluate(outer, corpus).log_perplexity < before - 0.3


def test_text_is_generated_on_top() -> None:
    outer = outer_model(Model(TINY))
    assert llrnn.generate(outer, strategy=llrnn.Greedy(), max_words=5)
    assert len(llrnn.generate(outer, beam=3, count=3, max_words=5)) == 3


# --- in combinations -----------------------------------------------------------------------------------------------


def test_it_multiplies_with_a_mask() -> None:
    background = (Model(TINY) * Mask(forbidden=["w1"])).bind(WORDS)
    seen, _ = background.follow([background.initial()] * 3, Batch(INPUTS, INPUTS, MASK))
    found, plain = log_b(background.prior(seen)), bound()
    alone, _ = plain.follow([plain.initial()] * 3, Batch(INPUTS, INPUTS, MASK))
    assert bool((found[:, 1] == float("-inf")).all())
    assert torch.equal(found[:, 2:], log_b(plain.prior(alone))[:, 2:])


COMBINED: dict[str, Background] = {
    "product": Model(TINY) * Mask(forbidden=["w1"]),
    "product in float32": Model(tiny_model(words=5).float()) * Mask(allowed=["w1", "w2", EOS]),
    "mixture": Mixture(Uniform(), Model(tiny_model(words=5).float()), weights=[0.2, 0.8]),
    "mixture of two": Mixture(Model(TINY), Model(tiny_model(words=5).float())),
}


@pytest.mark.parametrize("name", COMBINED)
def test_combinations_obey(name: str) -> None:
    check_background(COMBINED[name], WORDS, prefixes=3, length=3)


def test_it_is_an_expert() -> None:
    feature = contextual.Expert(Model(TINY)).bind(WORDS)
    state = folded(feature.followed, [5, 2])
    _, own = feature.value(state)
    expected = inner_log_probs(TINY, [5, 2])
    assert list(own.values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_inner_cross_fitting_plays_no_part_later(tmp_path: Path) -> None:
    """Its folds do not come back from a folder, and a frozen model needs none."""
    corpus = small_corpus()
    ngram = NGram.from_corpus(corpus, order=2, folds=3)
    inner = LLRNN(small_vocabulary(), output_features=features.Shape(), background=ngram, controller=GRU(3))
    inner.save(tmp_path)
    outer = LLRNN(small_vocabulary(), output_features=features.Shape(), background=Model(load(tmp_path)))
    list(llrnn.train(outer, corpus[:8], epochs=1))


# --- folders -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "background",
    [
        Model(TINY),
        Model(tiny_model(words=5).float()),
        Product(Model(TINY), Model(TINY)),
        Model(outer_model(Model(TINY) * Uniform())),
    ],
    ids=["float64", "float32", "one model twice", "a model on a model"],
)
def test_it_comes_back_from_a_folder(background: Background, tmp_path: Path) -> None:
    outer = outer_model(background)
    outer.save(tmp_path)
    loaded = llrnn.load(tmp_path)
    assert torch.equal(scored(loaded), scored(outer))
    assert repr(loaded.background) == repr(outer.background)
    loaded.save(tmp_path / "again")
    assert torch.equal(scored(llrnn.load(tmp_path / "again")), scored(outer))


def test_a_background_of_ones_own_inside_is_asked_for(tmp_path: Path) -> None:
    class Own(Uniform):
        def bind(self, vocabulary: Vocabulary) -> Background:  # type: ignore[override]
            return Bound()

    class Bound(Background):
        def prior(self, states: object) -> Prior:
            return SparsePrior.static(Table(torch.zeros(len(WORDS))))

    outer_model(Model(outer_model(Own()))).save(tmp_path)
    with pytest.raises(CheckpointError, match="background of your own"):
        llrnn.load(tmp_path)
    assert llrnn.load(tmp_path, background=Model(TINY)).background.prior([]).n == 0


def test_kinds_of_ones_own_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backgrounds, "_RESTORERS", dict(backgrounds._RESTORERS))
    backgrounds.register("mine", lambda saved, parts: Uniform())
    assert repr(backgrounds.restore(Saved("mine"))) == "Uniform()"
    assert repr(backgrounds.restore(Saved("product", parts=(Saved("mine"),)))) == "Uniform()"


@pytest.mark.parametrize(
    ("symbols", "says"),
    [
        (["w1", "w0", "w2", "w3", "w4", EOS], r"2 of the 6 given differ: symbol 0 is 'w0' there and 'w1' here"),
        (["w0", "w1", "w2", "w3", EOS], r"2 of the 5 given differ: symbol 4 is 'w4' there and '</s>' here"),
        ([*WORDS.symbols, "more"], r"1 of the 7 given differ: symbol 6 is 'nothing' there and 'more' here"),
    ],
)
def test_another_vocabulary_is_refused(symbols: list[str], says: str) -> None:
    with pytest.raises(BackgroundError, match=says) as caught:
        Model(TINY).bind(Vocabulary(symbols))
    assert "train both models with one vocabulary" in str(caught.value)


# --- dense priors in float32 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 4])
def test_float32_priors_lose_nothing_in_a_float64_layer(n: int) -> None:
    """Classes, contextual exceptions, temperature, entropy, samples and the best words."""
    generator = torch.Generator().manual_seed(0)
    phi = features.compile_features(features.Function(lambda word: {word[0]: 1.0}), WORDS)
    layer = LogLinear(phi, 3, 1, zero=True).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    values = torch.randn(n, len(WORDS), generator=generator)
    values[0, 2] = float("-inf")
    h = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    repeated = contextual.Repeated(3).bind(WORDS).values([(1,), (2, 3), (), (0,)])
    narrow, wide = (layer(h, DensePrior(log_b), [repeated]) for log_b in (values, values.double()))
    for one, other in ((narrow, wide), (narrow.tempered(0.7), wide.tempered(0.7))):
        torch.testing.assert_close(one.log_probs().exp().sum(1), torch.ones(4).double(), rtol=0, atol=1e-12)
        torch.testing.assert_close(one.log_probs(), other.log_probs(), rtol=0, atol=1e-6)
        torch.testing.assert_close(one.entropy(), other.entropy(), rtol=0, atol=1e-6)
        torch.testing.assert_close(one.expected_features(), other.expected_features(), rtol=0, atol=1e-6)
    assert torch.equal(narrow.top(2)[1], wide.top(2)[1])
    assert narrow.sample((2,)).shape == (2, 4)
    words = torch.tensor([0, 1, 2, 3])
    torch.testing.assert_close(narrow.log_prob(words), narrow.log_probs()[range(4), words])


def test_priors_of_both_precisions_combine() -> None:
    values = torch.randn(3, len(WORDS), generator=torch.Generator().manual_seed(1))
    narrow, wide = DensePrior(values), DensePrior(values.double())
    static = SparsePrior.static(Table(torch.zeros(len(WORDS))))
    for prior in (multiply(narrow, static), multiply(static, narrow)):
        torch.testing.assert_close(log_b(prior).double(), wide.log_b)
    torch.testing.assert_close(log_b(mix([narrow, wide], [0.0, 0.0])), wide.log_b + torch.tensor(2.0).log())
