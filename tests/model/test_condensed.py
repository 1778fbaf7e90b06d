"""Condensed features: rare words by a few real-valued features of their own, in bands; the sum stays exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import llrnn
from brute import Brute
from helpers import by_way, sentence_log_probs, shaken, small_corpus, small_features, small_model, small_vectors
from llrnn import LLRNN, backgrounds
from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError
from llrnn.inference import condensing
from llrnn.inference.condensing import condense
from llrnn.layer import costs
from llrnn.layer.matrix import FeatureMatrix
from llrnn.model import network
from llrnn.model.network import FeatureEmbedding
from llrnn.model.scoring import score
from llrnn.model.steering import untied
from llrnn.model.words import Entry, add, remove
from llrnn.text.encoded import EncodedText

H = 6


@pytest.fixture(autouse=True)
def small_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condensing, "_FIRST", 8)


def fine_model(*, tied: bool = True) -> LLRNN:
    model = small_model(output_features=small_features() + small_vectors(), tied=tied).double()
    shaken(model, 1.0)
    return model.eval()


def dense(matrix: FeatureMatrix) -> Floats:
    """The row of every word, (V, m)."""
    made = np.zeros((matrix.n_symbols, matrix.n_features))
    for x in range(matrix.n_symbols):
        for name, value in matrix.row(x).items():
            made[x, matrix.column_of[name]] = value
    return made


def bands_of(model: LLRNN) -> list[condensing._RareBlock]:
    text = EncodedText.encode(small_corpus(), model.vocabulary)
    return condensing._low_rank_blocks(model, condensing._Moments.of(model, text))


def test_log_p_is_brute_force_with_the_new_features() -> None:
    model = condense(fine_model(), 2.0, text=small_corpus())
    matrix = model.output_features
    assert len(matrix.low_rank_blocks) > 2
    batch = next(iter(llrnn.Sentences(10_000).plan(EncodedText.encode(small_corpus()[:5], model.vocabulary))))
    with torch.no_grad():
        p, _ = model.scan(batch)
        a, log_p = p.adaptor.numpy(), p.log_probs().numpy()
        by_classes = by_way(p, "static").log_prob(batch.picked(batch.targets)).numpy()
    log_b = model.background.prior([]).dense(1).log_b.double().numpy()
    named = [dict(zip(matrix.names, row.tolist(), strict=True)) for row in dense(matrix)]
    oracle = Brute(matrix.names, named, np.repeat(log_b, len(a), 0), np.zeros((len(a), len(named), 0)), a)
    assert np.allclose(log_p, oracle.log_probs, atol=1e-9)
    assert np.allclose(np.exp(log_p).sum(1), 1.0, atol=1e-12)
    targets = batch.picked(batch.targets).numpy()
    assert np.allclose(by_classes, oracle.log_probs[np.arange(len(targets)), targets], atol=1e-9)


@pytest.mark.parametrize("tied", [False, True])
def test_all_directions_of_h_are_the_model_itself(tied: bool) -> None:
    fine = fine_model(tied=tied)
    low_rank_blocks = bands_of(fine)
    same = condensing._with_low_rank_blocks(fine, low_rank_blocks, [None, *[H + 1] * (len(low_rank_blocks) - 1)])
    text = EncodedText.encode(small_corpus(), fine.vocabulary)
    assert same.output_features.n_classes == fine.output_features.n_classes
    assert same.output_features.low_rank_blocks
    torch.testing.assert_close(score(same, text).log_probs, score(fine, text).log_probs, atol=1e-8, rtol=0)


def test_what_is_lost_is_what_was_reckoned_and_less_with_more_features() -> None:
    """To the second order: weights small enough that the third does not count."""
    fine = fine_model()
    with torch.no_grad():
        fine.layer.weight.mul_(0.3)
    fine = untied(fine)
    text = EncodedText.encode(small_corpus(), fine.vocabulary)
    low_rank_blocks = bands_of(fine)
    losses = []
    for r in (1, 3, 5):
        made = condensing._with_low_rank_blocks(fine, low_rank_blocks, [None, *[r] * (len(low_rank_blocks) - 1)])
        reckoned = sum(float(block.nats[r - 1 :].sum()) for block in low_rank_blocks[1:])
        with torch.no_grad():
            real = _divergence(fine, made, text)
        assert real == pytest.approx(reckoned, rel=0.35)
        losses.append(real)
    assert losses[0] > losses[1] > losses[2]


def _divergence(one: LLRNN, other: LLRNN, text: EncodedText) -> float:
    """The mean of KL(one ‖ other) over the positions."""
    batch = next(iter(llrnn.Sentences(10**6).plan(text)))
    p, q = (model.scan(batch)[0].log_probs() for model in (one, other))
    return float((p.exp() * (p - q)).sum(1).mean())


def test_the_ranks_keep_to_the_budget_and_lose_no_more_than_equal_ranks_do() -> None:
    low_rank_blocks, V = bands_of(fine_model()), 341
    for fewer in (1.3, 2.0, 3.0):
        ranks = condensing._ranks(low_rank_blocks, V, H, fewer)
        cost = condensing._multiplications(low_rank_blocks, ranks, H)
        assert cost <= V * H / fewer
        lost = _lost(low_rank_blocks, ranks)
        for alone in range(len(low_rank_blocks)):
            for r in range(1, H):
                equal: list[int | None] = [None if b < alone else r for b in range(len(low_rank_blocks))]
                if condensing._multiplications(low_rank_blocks, equal, H) <= cost:
                    assert _lost(low_rank_blocks, equal) >= lost


def _lost(low_rank_blocks: list[condensing._RareBlock], ranks: list[int | None]) -> float:
    return sum(
        float(block.nats[r - 1 :].sum()) for block, r in zip(low_rank_blocks, ranks, strict=True) if r is not None
    )


def test_a_condensed_model_is_a_model_as_any_other(tmp_path: Path) -> None:
    fine, corpus = fine_model(), small_corpus()
    made = condense(fine, 2.0, text=corpus)
    told = made.provenance["condensed"]
    assert told["fewer"] >= 2.0
    text = EncodedText.encode(corpus, fine.vocabulary)
    assert told["log_perplexity"] == [score(model, text).log_perplexity for model in (fine, made)]
    size = made.layer.weights().size(1)
    assert costs.composed(size).multiplications == pytest.approx(341 * H / told["fewer"])
    assert fine.tied
    assert not made.tied
    made.save(tmp_path)
    again = llrnn.load(tmp_path)
    assert again.output_features.low_rank_blocks == made.output_features.low_rank_blocks
    torch.testing.assert_close(score(again, text).log_probs, score(made, text).log_probs)
    rare = int(
        np.flatnonzero(made.output_features.class_of >= made.output_features.low_rank_blocks[-1].classes.start)[0]
    )
    assert any(name.startswith("band") and "(+" in name for name in made.output_features.row(rare))
    explained = llrnn.explain(again, word=made.vocabulary.symbol(rare))
    assert explained.total == pytest.approx(explained.log_p, abs=1e-6)
    assert any(term.name.startswith("band") for term in explained.terms)
    before = score(again, text).log_perplexity
    for _ in llrnn.train(again, corpus, epochs=2, learning_rate=0.01):
        pass
    assert score(again, text).log_perplexity < before


def test_a_background_that_follows_the_text() -> None:
    corpus = small_corpus()
    fine = small_model(
        output_features=small_features() + small_vectors(), background=backgrounds.NGram.from_corpus(corpus, order=2)
    ).double()
    shaken(fine, 0.5)
    made = condense(fine, 1.5, text=corpus)
    batch = next(iter(llrnn.Sentences(10_000).plan(EncodedText.encode(corpus[:4], fine.vocabulary))))
    with torch.no_grad():
        p, _ = made.eval().scan(batch)
        torch.testing.assert_close(p.log_probs().exp().sum(1), torch.ones(p.n, dtype=torch.float64))
        words = batch.picked(batch.targets)
        expected = p.log_probs()[torch.arange(p.n), words]
        for way in ("words", "adding", "leaving"):
            torch.testing.assert_close(by_way(p, way).log_prob(words), expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize(("fewer", "said"), [(1.0, "over 1"), (1000.0, "are the most for this model")])
def test_mistakes(fewer: float, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        condense(fine_model(), fewer, text=small_corpus())


def test_a_text_without_sentences_is_refused_and_one_sentence_is_a_text() -> None:
    with pytest.raises(ConfigError, match="found no sentence"):
        condense(fine_model(), 2.0, text=small_corpus()[:0])
    made = condense(fine_model(), 2.0, text=small_corpus()[:1])
    assert made.provenance["condensed"]["fewer"] >= 2.0


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_whose_output_features_are_coarser_is_a_model_as_any_other(tied: bool, tmp_path: Path) -> None:
    """Models that were trained with merged classes are such: words by fives have the mean of their features."""
    fine = fine_model().output_features
    rows = np.stack([dense(fine)[x // 5 * 5 : x // 5 * 5 + 5].mean(0) for x in range(fine.n_symbols)])
    made = FeatureMatrix.of(rows, fine.names)
    model = small_model(output_features=made, input_features=fine, tied=tied).double().eval()
    shaken(model, 1.0)
    assert model.output_features.n_classes < model.input_features.n_classes
    text = EncodedText.encode(small_corpus(), model.vocabulary)
    model.save(tmp_path / "model")
    again = llrnn.load(tmp_path / "model")
    assert torch.equal(score(again, text).log_probs, score(model, text).log_probs)
    assert again.tied == tied == (again.layer.weight is again.embedding.weight)
    assert llrnn.generate(again, generator=torch.Generator().manual_seed(0))
    word = model.vocabulary.symbols[7]
    why = llrnn.explain(again, prefix="", word=word)
    assert why.total == pytest.approx(sentence_log_probs(again, [word])[0], abs=1e-4)
    bigger = add(again, [Entry("cachalot", frozenset({"POS:NOUN"}), count=3)])
    own = bigger.output_features.row(bigger.vocabulary.id("cachalot"))
    assert own == bigger.input_features.row(bigger.vocabulary.id("cachalot"))
    assert own["POS:NOUN"] == 1.0
    smaller = remove(bigger, ["cachalot"])
    assert torch.allclose(score(smaller, text).log_probs, score(model, text).log_probs, atol=1e-5)
    for _ in llrnn.train(model, small_corpus()[:10], epochs=1):
        pass
    assert model.output_features.n_classes == made.n_classes


def test_a_batch_of_few_words_composes_their_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding = FeatureEmbedding(fine_model().input_features, 7).double()
    torch.nn.init.normal_(embedding.weight)
    words = torch.tensor([[3, 50, 3], [120, 7, 50]])
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    for times in (4, 10**9):
        monkeypatch.setattr(network, "_FEW", times)
        embedding.weight.grad = None
        made = embedding(words)
        made.sin().sum().backward()
        assert embedding.weight.grad is not None
        found.append((made.detach(), embedding.weight.grad.clone()))
    assert all(torch.allclose(one, other, atol=1e-12) for one, other in zip(*found, strict=True))
