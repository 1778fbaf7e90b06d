"""Merged classes: fewer, with mean rows, an exact sum, and input features as they were."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import llrnn
from brute import Brute
from helpers import (
    sentence_log_probs,
    shaken,
    small_corpus,
    small_features,
    small_model,
    small_vectors,
    small_vocabulary,
)
from llrnn import LLRNN, Vocabulary, backgrounds, domains, features
from llrnn.ground.arrays import Floats
from llrnn.ground.errors import ConfigError, FeatureError
from llrnn.knowledge.backgrounds.base import symbol_mass
from llrnn.knowledge.features import compile_features
from llrnn.layer.matrix import FeatureMatrix
from llrnn.model import network
from llrnn.model.network import FeatureEmbedding
from llrnn.model.scoring import score
from llrnn.model.words import Entry, add, remove
from llrnn.text.encoded import EncodedText
from llrnn_lab.bench import coarse
from strategies import QUICK
from test_words import open_features

CLASSES = 25


def phi() -> features.Features:
    return small_features() + small_vectors()


def merged(classes: int = CLASSES, *, seed: int = 0) -> tuple[FeatureMatrix, FeatureMatrix]:
    """The matrix of `phi`, and the same merged into so many classes."""
    fine = compile_features(phi(), small_vocabulary())
    return fine, coarse.coarsened(fine, classes, np.asarray(small_vocabulary().counts) + 0.5, seed=seed)


def coarse_model(classes: int = CLASSES, *, tied: bool = True) -> LLRNN:
    fine, made = merged(classes)
    return small_model(output_features=made, input_features=fine, tied=tied).double()


def dense(matrix: FeatureMatrix) -> Floats:
    made = np.zeros((matrix.n_symbols, matrix.n_features))
    for x in range(matrix.n_symbols):
        for name, value in matrix.row(x).items():
            made[x, matrix.column_of[name]] = value
    return made


def test_log_p_is_brute_force_with_the_mean_rows() -> None:
    model, corpus = coarse_model(), small_corpus()
    fine = compile_features(phi(), small_vocabulary())
    made = model.output_features
    assert made.n_classes == CLASSES < fine.n_classes
    mass, values = np.asarray(model.vocabulary.counts) + 0.5, dense(fine)
    rows = np.empty_like(values)
    for s in range(CLASSES):
        own = made.class_of == s
        rows[own] = mass[own] @ values[own] / mass[own].sum()
    words = [token.form for token in corpus[3].tokens] if hasattr(corpus[3], "tokens") else list(corpus[3].words)
    batch = next(iter(llrnn.Sentences(10_000).plan(EncodedText.encode(corpus[:5], model.vocabulary))))
    with torch.no_grad():
        p, _ = model.eval().scan(batch)
        a, log_p = p.adaptor.numpy(), p.log_probs().numpy()
    log_b = model.background.prior([]).dense(1).log_b.double().numpy()
    named = [dict(zip(fine.names, row.tolist(), strict=True)) for row in rows]
    oracle = Brute(fine.names, named, np.repeat(log_b, len(a), 0), np.zeros((len(a), len(rows), 0)), a)
    assert np.allclose(log_p, oracle.log_probs, atol=1e-9)
    assert np.allclose(np.exp(log_p).sum(1), 1.0, atol=1e-12)
    assert len(sentence_log_probs(model, words)) == len(words) + 1


def test_as_many_classes_as_there_are_change_nothing() -> None:
    fine = compile_features(phi(), small_vocabulary())
    for classes in (fine.n_classes, 10**6):
        assert coarse.coarsened(fine, classes, np.ones(fine.n_symbols)) is fine


def test_words_alone_keep_their_rows_and_the_input_stays_fine() -> None:
    vocabulary = small_vocabulary()
    fine, made = merged()
    merged_of = [np.unique(fine.class_of[made.class_of == s]) for s in range(made.n_classes)]
    alone = [s for s, old in enumerate(merged_of) if len(old) == 1]
    assert 0 < len(alone) < CLASSES
    for s in alone:
        word = int(np.flatnonzero(made.class_of == s)[0])
        assert made.row(word) == fine.row(word)
    mass = np.asarray(vocabulary.counts)
    lone = np.isin(made.class_of, alone)
    assert mass[lone].mean() > mass[~lone].mean()  # heavy words stand alone
    model = coarse_model()
    assert model.layer.weight is model.embedding.weight
    assert model.input_features.n_classes == fine.n_classes
    assert model.input_features.names == fine.names


def test_the_same_every_time() -> None:
    one, two, other = (merged(seed=seed)[1] for seed in (5, 5, 6))
    assert np.array_equal(one.class_of, two.class_of)
    assert np.array_equal(one.values, two.values)
    assert not np.array_equal(one.class_of, other.class_of)


@QUICK
@given(n=st.integers(1, 9), seed=st.integers(0, 1000))
def test_the_tree_is_wards(n: int, seed: int) -> None:
    """Always the cheapest pair; the losses add up to the weighted squares that are lost."""
    drawn = np.random.default_rng(seed)
    points, mass = drawn.normal(size=(n, 3)), drawn.random(n) + 0.01
    matrix = FeatureMatrix.of(points)
    tree = coarse.merges(matrix, mass, scale=np.eye(3))
    share = mass / mass.sum()
    groups = [[i] for i in range(n)]
    while len(groups) > 1:
        costs = {}
        for i, j in combinations(range(len(groups)), 2):
            both = groups[i] + groups[j]
            costs[i, j] = _squares(points, share, both) - sum(_squares(points, share, groups[k]) for k in (i, j))
        i, j = min(costs, key=lambda pair: costs[pair])
        groups = [*(group for k, group in enumerate(groups) if k not in (i, j)), groups[i] + groups[j]]
        found = tree.new_classes(len(groups))
        assert {tuple(np.flatnonzero(found == s)) for s in range(len(groups))} == {tuple(sorted(g)) for g in groups}
        assert math.isclose(tree.lost(len(groups)), sum(_squares(points, share, g) for g in groups), rel_tol=1e-4)


def _squares(points: Floats, share: Floats, group: list[int]) -> float:
    own = share[group]
    mean = own @ points[group] / own.sum()
    return float(0.5 * own @ ((points[group] - mean) ** 2).sum(1))


def test_many_rows_are_merged_bucket_by_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(0)
    matrix, mass = FeatureMatrix.of(drawn.normal(size=(200, 5))), drawn.random(200)
    whole = coarse.merges(matrix, mass, scale=np.eye(5))
    monkeypatch.setattr(coarse, "_BUCKET", 40)
    cut = coarse.merges(matrix, mass, scale=np.eye(5))
    for tree in (whole, cut):
        assert [len(np.unique(tree.new_classes(n))) for n in (1, 2, 7, 50, 199)] == [1, 2, 7, 50, 199]
        losses = [tree.lost(n) for n in range(200, 0, -1)]
        assert losses[0] == 0
        assert losses == sorted(losses)
    assert math.isclose(whole.lost(1), cut.lost(1), rel_tol=1e-5)
    assert whole.lost(50) <= cut.lost(50) < 1.5 * whole.lost(50)
    same = FeatureMatrix.of(np.concatenate([np.zeros((100, 1)), np.ones((100, 1))]))
    assert coarse.merges(same, np.ones(200)).new_classes(1).max() == 0


def test_words_without_mass_go_anywhere() -> None:
    matrix = FeatureMatrix.of(np.array([[0.0], [1.0], [5.0], [2.0]]))
    tree = coarse.merges(matrix, np.array([0.5, 0.5, 0.0, 0.0]), scale=np.eye(1))
    made = coarse.merged(matrix, np.array([0.5, 0.5, 0.0, 0.0]), tree.new_classes(2))
    assert made.class_of[0] != made.class_of[1]
    assert np.isfinite(made.values).all()


def finite_vocabulary() -> Vocabulary:
    """Strings of one to three letters, in three cells, all of which can be written out."""
    cells = {"one": "[a-e]", "two": "[a-e]{2}", "three": "[a-e]{3}"}
    letters = dict(zip("abcde", (0.05, 0.1, 0.15, 0.2, 0.25), strict=True))
    return Vocabulary.from_corpus(small_corpus(), domains=[domains.Regular(cells, letters)], as_new=0.5)


@pytest.mark.parametrize("classes", [1, 2, 6, 15])
def test_cells_are_merged_with_words_and_all_strings_sum_to_one(classes: int) -> None:
    vocabulary, background = finite_vocabulary(), backgrounds.Discounted.from_corpus(small_corpus())
    mass = symbol_mass(background, vocabulary)
    made = coarse.coarsened(compile_features(open_features(), vocabulary), classes, mass)
    model = LLRNN(vocabulary, output_features=made, background=background, controller=llrnn.GRU(5)).double()
    shaken(model, 2.0)
    n = vocabulary.n_words
    assert made.n_classes == classes
    strings = ["".join(letters) for length in (1, 2, 3) for letters in product("abcde", repeat=length)]
    unlisted = [string for string in strings if string not in vocabulary]
    ids, inside = vocabulary.locate([*vocabulary.words, *unlisted])
    fine = dense(compile_features(open_features(), vocabulary))
    b = mass[ids] * np.exp(inside)  # of each string by itself
    means = np.zeros_like(fine)
    for klass in range(classes):
        own = made.class_of[ids] == klass
        if klass in made.class_of[n:]:  # b of a cell is what its strings have together
            cell = n + int(np.flatnonzero(made.class_of[n:] == klass)[0])
            assert math.isclose(mass[cell], b[ids == cell].sum(), rel_tol=1e-9)
        means[made.class_of == klass] = b[own] @ fine[ids[own]] / b[own].sum()
    assert np.allclose(dense(made), means, atol=1e-6)
    p, _ = model.step(model.start(), [vocabulary.eos])
    a = p.adaptor.detach().numpy()[0]
    weighed = b * np.exp(means[ids] @ a)
    found = np.exp(p.log_probs().detach().numpy()[0, ids] + inside)
    assert math.isclose(found.sum(), 1.0, abs_tol=1e-9)
    assert np.allclose(found, weighed / weighed.sum(), rtol=1e-5)


MADE: dict[str, Callable[[], LLRNN]] = {
    "features": coarse_model,
    "untied": lambda: coarse_model(tied=False),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_it_is_a_model_as_any_other(make: Callable[[], LLRNN], tmp_path: Path) -> None:
    model = make().eval()
    assert model.output_features.n_classes == CLASSES < model.input_features.n_classes
    text = EncodedText.encode(small_corpus(), model.vocabulary)
    model.save(tmp_path / "model")
    again = llrnn.load(tmp_path / "model")
    assert torch.equal(score(again, text).log_probs, score(model, text).log_probs)
    assert again.provenance == model.provenance
    assert again.tied == model.tied
    assert llrnn.generate(again, generator=torch.Generator().manual_seed(0))
    merged = int(np.argmax(np.bincount(model.output_features.class_of)))
    word = model.vocabulary.symbols[int(np.flatnonzero(model.output_features.class_of == merged)[0])]
    why = llrnn.explain(again, prefix="", word=word)
    assert math.isclose(why.total, sentence_log_probs(again, [word])[0], abs_tol=1e-4)
    bigger = add(again, [Entry("cachalot", frozenset({"POS:NOUN"}), count=3)])
    own = bigger.output_features.row(bigger.vocabulary.id("cachalot"))
    assert own == bigger.input_features.row(bigger.vocabulary.id("cachalot"))
    assert own["POS:NOUN"] == 1.0
    smaller = remove(bigger, ["cachalot"])
    assert torch.allclose(score(smaller, text).log_probs, score(model, text).log_probs, atol=1e-5)
    for _ in llrnn.train(model, small_corpus()[:10], epochs=1):
        pass
    assert model.output_features.n_classes == CLASSES
    if model.tied:
        assert model.layer.weight is model.embedding.weight


def test_a_batch_of_few_words_composes_their_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = compile_features(phi(), small_vocabulary())
    embedding = FeatureEmbedding(matrix, 7).double()
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


def test_mistakes_are_one_line() -> None:
    fine, made = merged(5)
    with pytest.raises(FeatureError, match="a mass of each of the"):
        coarse.coarsened(fine, 5, np.ones(3))
    with pytest.raises(ConfigError, match="tied weights need the same features"):
        small_model(output_features=made, input_features=small_features(), tied=True)
