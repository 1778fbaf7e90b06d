"""Mixtures of models are what their equation says, and models as any other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import llrnn
from helpers import sentence_log_probs, shaken, small_corpus, small_model, tiny_model
from llrnn import GRU, LLRNN, LSTM, Elman, Vocabulary, backgrounds, contextual, features
from llrnn.ground.errors import ConfigError
from llrnn.knowledge.process import Batch, Saved
from llrnn.layer import distribution
from llrnn.layer.distribution import Distribution
from llrnn.model.ensembles import fitted_shares, member, mix, mixture
from llrnn.model.scoring import score
from llrnn.model.steering import Change, steer
from llrnn.model.testing import check_background
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import EOS
from strategies import QUICK
from test_open_model import open_model

CORPUS = small_corpus()


def members(n: int = 2, *, seed: int = 0, words: int = 5) -> list[LLRNN]:
    """Small models over one vocabulary in float64, with networks of different sizes."""
    vocabulary = Vocabulary([*(f"w{i}" for i in range(words)), EOS])
    made = []
    for i in range(n):
        phi = features.Identity() + features.Function(lambda s: {"odd": 1.0} if s[-1] in "13" else {})
        b = backgrounds.Static(torch.linspace(-1.0, 0.5, words + 1, dtype=torch.float64))
        model = LLRNN(vocabulary, output_features=phi, background=b, controller=[GRU, LSTM, Elman][i % 3](3 + i))
        shaken(model, 2.0, seed=seed + i)
        made.append(model.double().eval())
    return made


def mixed(n: int, seed: int = 0) -> tuple[list[LLRNN], LLRNN]:
    """Some members, and their mixture, in which the first counts a fifth."""
    models = members(n, seed=seed)
    return models, mixture(models, [0.2, *[0.8 / (n - 1)] * (n - 1)])


def batch_of(rows: Sequence[Sequence[int]]) -> Batch:
    """Rows of one length, all of whose positions count; each begins with the boundary of sentences."""
    inputs = torch.tensor([[5, *row] for row in rows])
    return Batch(inputs, torch.tensor([[*row, 5] for row in rows]), torch.ones_like(inputs, dtype=torch.bool))


def written_out(model: LLRNN, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        return model.scan(batch)[0].log_probs()


@QUICK
@given(data=st.data())
def test_they_are_models(data: st.DataObject) -> None:
    """Σp = 1; what the equation says; batched = one by one = step by step; nobody looks ahead."""
    n, seed = data.draw(st.integers(2, 3)), data.draw(st.integers(0, 99))
    length = data.draw(st.integers(1, 4))
    rows = data.draw(st.lists(st.lists(st.integers(0, 4), min_size=length, max_size=length), min_size=1, max_size=3))
    (models, model), batch = mixed(n, seed), batch_of(rows)
    found = written_out(model, batch)
    assert torch.allclose(found.exp().sum(-1), torch.ones(len(found), dtype=torch.float64), atol=1e-9)
    assert torch.allclose(found, by_hand(models, batch), atol=1e-9)
    T = length + 1
    for b, row in enumerate(rows):
        alone = written_out(model, batch_of([row]))
        assert torch.allclose(alone, found[b * T : (b + 1) * T], atol=1e-9)
        shorter = written_out(model, batch_of([row[:-1]]))
        assert torch.allclose(shorter, alone[:-1], atol=1e-9)
        steps = sentence_log_probs(model, [f"w{i}" for i in row])
        assert torch.allclose(
            torch.tensor(steps).double(), alone.gather(1, torch.tensor([[*row, 5]]).t())[:, 0], atol=1e-6
        )
    with torch.no_grad():
        targets = model.scan(batch)[0].log_prob(batch.targets.flatten())
    assert torch.allclose(targets, found.gather(1, batch.targets.view(-1, 1))[:, 0], atol=1e-9)


def by_hand(models: Sequence[LLRNN], batch: Batch) -> torch.Tensor:
    """The equation on top of `model.ensembles`, word by word."""
    log_p = torch.stack([written_out(one, batch) for one in models])  # (n, N, V)
    weights = torch.tensor([0.2, *[0.8 / (len(models) - 1)] * (len(models) - 1)], dtype=torch.float64)
    return torch.logsumexp(log_p + weights.log()[:, None, None], 0)


def test_they_are_saved_and_opened_as_any_other(tmp_path: Path) -> None:
    _, model = mixed(3)
    model.save(tmp_path / "ours")
    model.save_pretrained(tmp_path / "hub")
    batch = batch_of([[0, 1, 2], [3, 3, 4]])
    for folder in ("ours", "hub"):
        opened = llrnn.load(tmp_path / folder)
        assert torch.equal(written_out(opened, batch), written_out(model, batch))
        assert repr(opened.background) == repr(model.background)


def test_they_write_and_explain() -> None:
    _, model = mixed(2)
    drawn = llrnn.generate(model, "w0", count=3, generator=torch.Generator().manual_seed(1), max_words=5)
    assert len(drawn) == 3
    assert llrnn.generate(model, beam=2, max_words=4)[0].log_prob <= 0.0
    found = llrnn.explain(model, "w1 w2", word="w3", rival="w0")
    assert math.isclose(found.total, found.log_ratio, abs_tol=1e-9)
    assert math.isclose(found.chosen.total, found.chosen.log_p, abs_tol=1e-9)


def test_an_explanation_has_the_share_of_each_member() -> None:
    models, model = mixed(3)
    found = llrnn.explain(model, "w1 w2", word="w3")
    own = [llrnn.explain(one, "w1 w2", word="w3").log_p for one in models]
    assert found.terms == ()
    assert [part.log_b for part in found.parts] == pytest.approx(own)
    assert math.isclose(sum(part.share for part in found.parts), 1.0, abs_tol=1e-6)
    assert math.isclose(sum(part.weight for part in found.parts), 1.0, abs_tol=1e-6)
    for part, log_p in zip(found.parts, own, strict=True):
        assert math.isclose(part.share, part.weight * math.exp(log_p - found.log_p), rel_tol=1e-5)
    for number, one in enumerate(models, 1):
        assert member(model, number) is one
    for wrong in (0, 4):
        with pytest.raises(ConfigError, match="between 1 and 3"):
            member(model, wrong)
    with pytest.raises(ConfigError, match="only a mixture has members"):
        member(models[0], 1)


def test_laws() -> None:
    models, model = mixed(3)
    check_background(model.background, models[0].vocabulary)


def test_a_mixture_can_be_steered_by_the_features_of_its_first_member() -> None:
    model = mixture(members())
    steered = steer(model, [Change.parse("odd=+2")])
    before, after = (llrnn.explain(one, "w0", word="w1").log_p for one in (model, steered))
    assert after > before + 0.1


def test_members_may_know_different_things() -> None:
    """Other features, an n-gram background, an expert: one vocabulary is enough for a mixture."""
    models = [
        small_model(),
        small_model(background=backgrounds.NGram.from_corpus(CORPUS, order=2, folds=0), controller=LSTM(4)),
        small_model(context=[contextual.Repeated(5)], output_features=features.Identity()),
    ]
    model = mix(models, valid=CORPUS)
    text = EncodedText.encode(CORPUS, model.vocabulary)
    alone = [score(one, text).log_perplexity for one in models]
    assert score(model, text).log_perplexity <= min(alone) + 1e-3
    assert model.provenance["mixed"]["members"] == pytest.approx(alone)
    assert math.isclose(score(model, text).log_perplexity, model.provenance["mixed"]["log_perplexity"], rel_tol=1e-6)


def test_words_of_a_text_are_scored_without_a_sum_over_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many positions: each member sums over its classes, and nothing of size N × V is made."""
    (_, model), batch = mixed(2), batch_of([[0, 1, 2], [3, 3, 4]])
    wanted = written_out(model, batch).gather(1, batch.targets.view(-1, 1))[:, 0]
    monkeypatch.setattr(distribution, "FEW_TERMS", 0)
    for name in ("log_probs", "word_terms"):
        monkeypatch.setattr(Distribution, name, property(lambda self: pytest.fail("all of V")))
    with torch.no_grad():
        assert torch.allclose(model.log_prob(batch), wanted, atol=1e-9)


def test_open_vocabularies_are_mixed_too() -> None:
    """What a word has within its cell counts once, for all members have the same cells."""
    model = open_model()
    alone = llrnn.evaluate(model, CORPUS)
    found = llrnn.evaluate(mixture([model, model], [0.4, 0.6]), CORPUS)
    assert math.isclose(found.log_perplexity, alone.log_perplexity, rel_tol=1e-6)
    assert found.audit.worst_sum_error < 1e-6


# --- weights ---------------------------------------------------------------------------------------------------------


@QUICK
@given(st.integers(2, 4), st.integers(0, 99))
def test_em_finds_the_best_shares(n: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    log_p = -torch.rand(n, 40, generator=generator, dtype=torch.float64) * 4

    def loss(shares: Sequence[float]) -> float:
        weights = torch.tensor(shares, dtype=torch.float64)
        return -float(torch.logsumexp(log_p + weights.log()[:, None], 0).mean())

    found = fitted_shares(log_p)
    assert math.isclose(sum(found), 1.0)
    drawn = torch.distributions.Dirichlet(torch.ones(n)).sample((30,))
    assert loss(found) <= min(loss((row + 1e-4).tolist()) for row in drawn / (1 + n * 1e-4)) + 2e-3


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    models = members(2)
    others = [small_model(), small_model(output_features=features.Identity()), small_model(controller=GRU(4))]
    mistakes: list[tuple[Callable[[], Any], str]] = [
        (lambda: mix(models[:1]), "two models or more are needed to mix, found 1"),
        (
            lambda: mix([models[0], tiny_model()]),
            "model 2 needs its own vocabulary, the same 4 symbols .* of the 6 given differ.* must have one vocabulary",
        ),
        (lambda: mix(models, weights=[0.5, 0.6]), "2 weights above 0 that sum to 1"),
        (lambda: mix(models, weights=[1.5, -0.5]), "2 weights above 0 that sum to 1"),
        (lambda: mix(models, weights=[1.0]), "2 weights above 0 that sum to 1"),
        (lambda: mix(others, valid=CORPUS, weights=[0.3, 0.3, 0.4]), "leave one out"),
        (lambda: mix([models[0], str(tmp_path)]), "model"),
        (lambda: backgrounds.restore(Saved("gated")), "no background 'gated' any more; mix its members again"),
    ]
    for act, message in mistakes:
        with pytest.raises(llrnn.LLRNNError, match=message) as caught:
            act()
        assert "\n" not in str(caught.value)
