"""A frozen model: the same numbers as the one that it was made of, never stale ones, and no training."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

import llrnn
from helpers import HANG, shaken, small_corpus, small_features, small_model, small_vocabulary
from llrnn import GRU, LLRNN, Sampling, Vocabulary, backgrounds, beam_search, contextual, features, words
from llrnn.ground.errors import TrainingError
from llrnn.knowledge.backgrounds import Background, Mixture, NGram, Uniform, Unigram
from llrnn.knowledge.contextual import Expert
from llrnn.languages.domains import Numbers
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.numerics import SparseMatrix
from llrnn.layer.priors import SparsePrior, Table
from llrnn.model.frozen import Composed, Composition, frozen
from llrnn.model.scoring import score
from llrnn.model.steering import Change, steer, swap
from llrnn.model.words import Entry
from llrnn.text.ids import EncodedText
from llrnn_lab.bench.neural import french_like

TEXT = small_corpus()[:8]


def bigrams() -> Background:
    return NGram.from_corpus(small_corpus(), order=2, folds=0)


def unigram() -> Unigram:
    return Unigram.from_corpus(small_corpus(), smoothing=0.5)


def open_model() -> LLRNN:
    vocabulary = Vocabulary.from_corpus(small_corpus()[:40], domains=[Numbers("fr")], others=small_vocabulary().words)
    phi = features.Identity(top=30) + features.CellAttributes()
    model = LLRNN(vocabulary, output_features=phi, background=unigram(), controller=GRU(6))
    shaken(model, 3.0)
    return model


MODELS: dict[str, Callable[[], LLRNN]] = {
    "static": small_model,
    "mixture": lambda: small_model(background=Mixture(unigram(), Uniform(), weights=[0.25, 2.0])),
    "n-gram": lambda: small_model(background=bigrams()),
    "dense": lambda: small_model(background=backgrounds.Model(small_model())),
    "contextual": lambda: small_model(context=[contextual.Repeated(4)]),
    "expert": lambda: small_model(context=[Expert(bigrams(), name="kn"), contextual.Repeated(3)]),
    "tied": lambda: small_model(tied=True),
    "own input features": lambda: small_model(input_features=features.Identity(top=20) + features.Shape()),
    "softmax": lambda: small_model(output_features=features.Identity(), background=Uniform()),
    "open": open_model,
}


def log_probs(model: LLRNN) -> Tensor:
    return score(model, EncodedText.encode(TEXT, model.vocabulary)).log_probs


def rows(model: LLRNN) -> Tensor:
    """log p of every word along a sentence, by steps."""
    state, fed, found = model.start([None, None]), model.vocabulary.eos, []
    with torch.no_grad():
        for word in EncodedText.encode(TEXT, model.vocabulary).sentences[0].tolist():
            distribution, state = model.step(state, [fed, word])
            found.append(distribution.log_probs())
            fed = word
    return torch.stack(found)


@pytest.mark.parametrize("name", MODELS)
def test_a_frozen_model_says_the_same(name: str) -> None:
    model = MODELS[name]().double()
    made = frozen(model)
    assert isinstance(made.layer, Composed)
    assert not isinstance(model.layer, Composed)
    torch.testing.assert_close(log_probs(made), log_probs(model), rtol=0, atol=1e-12)
    torch.testing.assert_close(rows(made), rows(model), rtol=0, atol=1e-12)
    with torch.no_grad():
        (one, _), (other, _) = (each.step(each.start(), [each.vocabulary.eos]) for each in (made, model))
        torch.testing.assert_close(one.entropy(), other.entropy(), rtol=0, atol=1e-12)
        torch.testing.assert_close(one.expected_features(), other.expected_features(), rtol=0, atol=1e-12)
        torch.testing.assert_close(one.top(5)[0], other.top(5)[0], rtol=0, atol=1e-12)
        assert one.top(5)[1].tolist() == other.top(5)[1].tolist()


@pytest.mark.parametrize("position", [[0, 0, 1, 1], [0, 1, 1, 1], [0, 1, 2, 3], [0, 1], [2, 3, 3, 3, 3]])
def test_words_are_scored_at_the_positions_that_are_asked_for(position: list[int]) -> None:
    """As many words as positions need not be one each."""
    model = small_model().double()
    h, word = torch.randn(4, 6, dtype=torch.double), torch.arange(len(position)) + 2
    found = [
        each.layer(h, each.background.prior([])).log_prob(word, torch.tensor(position))
        for each in (model, frozen(model))
    ]
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-12)


def test_texts_and_beams_are_the_same() -> None:
    model = small_model(context=[contextual.Repeated(4)]).double()
    made = frozen(model)
    texts = [
        llrnn.generate(each, strategy=Sampling(), count=5, generator=torch.Generator().manual_seed(3))
        for each in (model, made)
    ]
    assert [text.words for text in texts[0]] == [text.words for text in texts[1]]
    beams = [beam_search(each, width=4) for each in (model, made)]
    assert [found.words for found in beams[0]] == [found.words for found in beams[1]]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_can_be_made_and_used_in_any_mode(mode: Callable[[], torch.no_grad | torch.inference_mode]) -> None:
    model = small_model().double()
    expected = rows(model)
    with mode():
        torch.testing.assert_close(rows(frozen(model)), expected, rtol=0, atol=1e-12)
        made = frozen(model)
    torch.testing.assert_close(rows(made), expected, rtol=0, atol=1e-12)


def test_it_holds_weights_of_its_own() -> None:
    model = small_model().double()
    made = frozen(model)
    before = rows(made)
    shaken(model, 2.0, seed=9)
    assert torch.equal(rows(made), before)
    assert not torch.allclose(rows(model), before)


# --- never stale ---------------------------------------------------------------------------------------------------


def filled_in(model: LLRNN) -> None:
    shaken(model, 2.0, seed=5)


def replaced(model: LLRNN) -> None:
    for part in (model.layer, model.embedding):
        part.weight = torch.nn.Parameter(torch.randn(part.weight.shape, dtype=torch.float64), requires_grad=False)


def replaced_twice(model: LLRNN) -> None:
    replaced(model)
    replaced(model)


def loaded(model: LLRNN) -> None:
    model.load_state_dict({name: value * 0.5 for name, value in model.state_dict().items()})


def in_other_numbers(model: LLRNN) -> None:
    model.float()
    filled_in(model)
    model.double()


@pytest.mark.parametrize("change", [filled_in, replaced, replaced_twice, loaded, in_other_numbers])
def test_it_is_never_stale(change: Callable[[LLRNN], None]) -> None:
    made = frozen(small_model().double())
    before = rows(made)
    change(made)
    plain = small_model().double()
    plain.load_state_dict(made.state_dict())
    after = rows(made)
    assert not torch.allclose(after, before)
    torch.testing.assert_close(after, rows(plain), rtol=0, atol=1e-12)


def test_nothing_is_composed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made = frozen(small_model())
    rows(made)
    calls: list[object] = []
    real = SparseMatrix.__matmul__

    def counted(self: SparseMatrix, dense: Tensor) -> Tensor:
        calls.append(dense)
        return real(self, dense)

    monkeypatch.setattr(SparseMatrix, "__matmul__", counted)
    monkeypatch.setattr(SparseMatrix, "rows", lambda self, dense, classes: pytest.fail("ψ was composed anew"))
    rows(made)
    log_probs(made)
    assert not calls


def test_a_composition_follows_its_weights() -> None:
    phi = SparseMatrix(small_model().output_features)
    composition = Composition(phi)
    W = torch.randn(phi.n_features, 3)
    first = composition.of(W)
    assert composition.of(W) is first
    W[0] += 1.0
    assert not torch.equal(composition.of(W), first)
    torch.testing.assert_close(composition.of(W), phi @ W)


def test_a_thread_that_comes_while_another_composes_has_the_whole_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first use by several threads: the second one comes in the middle of what the first one does."""
    phi = SparseMatrix(small_model().output_features)
    composition, W = Composition(phi), torch.randn(phi.n_features, 3)
    multiply = SparseMatrix.__matmul__
    found: list[torch.Tensor] = []

    def interrupted(own: SparseMatrix, dense: torch.Tensor) -> torch.Tensor:
        if not found:
            found.append(torch.zeros(0))  # the second thread does not come again
            found.append(composition.of(W))
        return multiply(own, dense)

    monkeypatch.setattr(SparseMatrix, "__matmul__", interrupted)
    torch.testing.assert_close(composition.of(W), multiply(phi, W))
    torch.testing.assert_close(found[1], multiply(phi, W))


THREADS = 4


def test_threads_may_share_a_model_that_nobody_changes() -> None:
    """What docs/scale.md promises: the same numbers in any thread, from the first use on."""
    for model in (small_model(), frozen(small_model())):
        wanted = log_probs(small_model())
        begin = threading.Barrier(THREADS)

        def use(model: LLRNN = model, begin: threading.Barrier = begin) -> torch.Tensor:
            begin.wait()
            return log_probs(model)

        with ThreadPoolExecutor(THREADS) as pool:
            futures = [pool.submit(use) for _ in range(THREADS)]
        for future in futures:
            torch.testing.assert_close(future.result(), wanted, rtol=1e-5, atol=1e-5)


def _in_a_process(models: list[LLRNN], answers: multiprocessing.Queue[list[list[float]]]) -> None:
    torch.set_num_threads(1)
    answers.put([log_probs(model).tolist() for model in models])


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_models_go_to_another_process(way: str) -> None:
    """Forked, as workers of a DataLoader are, or pickled to one that begins anew."""
    context: Any = multiprocessing.get_context(way)
    models, answers = [small_model(), frozen(small_model())], context.Queue()
    process = context.Process(target=_in_a_process, args=(models, answers))
    process.start()
    found = answers.get(timeout=HANG)
    process.join()
    assert found == [log_probs(model).tolist() for model in models]


# --- what others do with it ----------------------------------------------------------------------------------------


def test_training_refuses_it_and_goes_on_with_the_original() -> None:
    model = small_model()
    made = frozen(model)
    with pytest.raises(TrainingError, match="frozen model"):
        list(llrnn.train(made, TEXT, epochs=1))
    before = log_probs(made)
    list(llrnn.train(model, TEXT, epochs=1))
    assert torch.equal(log_probs(made), before)
    assert not torch.allclose(log_probs(model), before)


def test_it_is_saved_as_an_ordinary_model(tmp_path: object) -> None:
    model = small_model()
    frozen(model).save(f"{tmp_path}/frozen")
    back = llrnn.load(f"{tmp_path}/frozen")
    assert not isinstance(back.layer, Composed)
    assert all(parameter.requires_grad for parameter in back.parameters())
    assert torch.equal(log_probs(back), log_probs(model))


def test_steering_and_swapping() -> None:
    model = small_model(context=[Expert(bigrams(), name="kn")]).double()
    made = frozen(model)
    before = rows(made)
    changes = [Change("kn", scale=0.5), Change("Word:*", offset=0.7)]
    torch.testing.assert_close(rows(steer(made, changes)), rows(steer(model, changes)), rtol=0, atol=1e-12)
    swapped = [swap(each, background=Uniform()) for each in (made, model)]
    torch.testing.assert_close(rows(swapped[0]), rows(swapped[1]), rtol=0, atol=1e-12)
    assert torch.equal(rows(made), before)
    assert not torch.allclose(rows(steer(made, changes)), before)


def test_words_come_and_go() -> None:
    model = small_model(output_features=small_features()).double()
    made = frozen(model)
    entry = Entry("kiwi", count=2)
    more = [words.add(each, [entry]) for each in (made, model)]
    torch.testing.assert_close(rows(more[0]), rows(more[1]), rtol=0, atol=1e-12)
    gone = [words.remove(each, ["kiwi"]) for each in more]
    torch.testing.assert_close(rows(gone[0]), rows(gone[1]), rtol=0, atol=1e-12)


def test_influence_and_explanations_are_the_same() -> None:
    model = small_model().double()
    word = small_vocabulary().words[3]
    found = [llrnn.explain(each, prefix=word, word=word).terms for each in (model, frozen(model))]
    assert [term.name for term in found[0]] == [term.name for term in found[1]]
    moved = [llrnn.influence(each, feature=f"Word:{word}", prefix=word) for each in (model, frozen(model))]
    assert moved[0].weight == pytest.approx(moved[1].weight, abs=1e-12)
    shares = [[push.share for push in each.terms] for each in moved]
    assert shares[0] == pytest.approx(shares[1], abs=1e-12)
    assert any(shares[0])


@pytest.mark.parametrize("at_once", [40, 1_000, 1_000_000])  # one row, some, all
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_without_bookkeeping_are_the_same_and_so_are_gradients_of_h(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, at_once: int
) -> None:
    monkeypatch.setattr(sys.modules["llrnn.model.frozen"], "_SCORES_AT_ONCE", at_once)
    layer = LogLinear(french_like(300, 40), 6).to(dtype)
    for parameter in (layer.weight, layer.bias):
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(2))
    log_b = torch.randn(300, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    log_b[layer.classes.class_of == 5] = float("-inf")  # a class without any mass
    prior, word = SparsePrior.static(Table(log_b)), torch.arange(300)
    h = torch.randn(300, 6, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
    found, expected = Composed(layer)(h, prior).log_prob(word), layer(h, prior).log_prob(word)
    torch.testing.assert_close(found, expected)
    assert torch.equal(torch.isinf(found), torch.isinf(log_b))
    possible = torch.isfinite(log_b)
    gradients = [torch.autograd.grad(log_p[possible].sum(), h)[0] for log_p in (found, expected)]
    torch.testing.assert_close(*gradients)
