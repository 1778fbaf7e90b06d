"""Composed weights are cached while no gradient is asked for: the same numbers as without, and never stale ones."""

from __future__ import annotations

import copy
import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import llrnn
from helpers import HANG, shaken, small_corpus, small_features, small_model, small_vocabulary
from llrnn import GRU, LLRNN, Sampling, Vocabulary, backgrounds, contextual, features, generate, words
from llrnn.ground.errors import TrainingError
from llrnn.knowledge.backgrounds import Background, Mixture, NGram, Uniform, Unigram
from llrnn.knowledge.contextual import Expert
from llrnn.languages.domains import Numbers
from llrnn.layer import matrix
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import SparseMatrix, WeightCache
from llrnn.layer.priors import SparsePrior, Table
from llrnn.layer.weights import LayerWeights
from llrnn.model.scoring import Sentences, score
from llrnn.model.steering import Change, steer, swap
from llrnn.model.words import Entry
from llrnn.text.encoded import EncodedText
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


def uncached_log_probs(model: LLRNN) -> Tensor:
    """With gradients, so that nothing is cached."""
    batches = Sentences().plan(EncodedText.encode(TEXT, model.vocabulary))
    return torch.cat([model.log_prob(batch).detach() for batch in batches])


def rows(model: LLRNN, mode: Callable[[], Any] = torch.no_grad) -> Tensor:
    """log p of every word along a sentence, by steps."""
    state, fed, found = model.start([None, None]), model.vocabulary.eos, []
    with mode():
        for word in EncodedText.encode(TEXT, model.vocabulary).sentences[0].tolist():
            distribution, state = model.step(state, [fed, word])
            found.append(distribution.log_probs().detach().clone())
            fed = word
    return torch.stack(found)


def uncached_rows(model: LLRNN) -> Tensor:
    return rows(model, torch.enable_grad)


def is_cached(model: LLRNN) -> bool:
    return model.layer._kept.composed._kept is not None and model.embedding._table._kept is not None


@pytest.fixture
def composes_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the direct way would be cheaper."""
    monkeypatch.setattr(LayerWeights, "scores", LayerWeights.composed_scores)


@pytest.mark.usefixtures("composes_always")
@pytest.mark.parametrize("name", MODELS)
def test_cached_products_give_the_same_numbers(name: str) -> None:
    model = MODELS[name]().double()
    torch.testing.assert_close(log_probs(model), uncached_log_probs(model), rtol=0, atol=1e-12)
    expected = uncached_rows(model)
    assert not is_cached(model)
    torch.testing.assert_close(rows(model), expected, rtol=0, atol=1e-12)
    assert is_cached(model)
    found = []
    for mode in (torch.no_grad, torch.enable_grad):
        with mode():
            p, _ = model.step(model.start(), [model.vocabulary.eos])
            found.append([p.entropy(), p.expected_features(), p.top(5)[0]])
            best = p.top(5)[1].tolist()
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)
    with torch.no_grad():
        assert model.step(model.start(), [model.vocabulary.eos])[0].top(5)[1].tolist() == best


@pytest.mark.parametrize("position", [[0, 0, 1, 1], [0, 1, 1, 1], [0, 1, 2, 3], [0, 1], [2, 3, 3, 3, 3]])
def test_words_are_scored_at_the_positions_that_are_asked_for(position: list[int]) -> None:
    """As many words as positions need not be one each."""
    model = small_model().double()
    h, word = torch.randn(4, 6, dtype=torch.double), torch.arange(len(position)) + 2

    def found() -> Tensor:
        log_p: Tensor = model.layer(h, model.background.prior([])).log_prob(word, torch.tensor(position))
        return log_p.detach()

    expected = found()
    with torch.no_grad():
        torch.testing.assert_close(found(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_is_made_and_used_in_any_mode(mode: Callable[[], Any]) -> None:
    model = small_model().double()
    expected = uncached_rows(model)
    torch.testing.assert_close(rows(model, mode), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(rows(model), expected, rtol=0, atol=1e-12)
    with mode():
        made_within = small_model().double()
    torch.testing.assert_close(rows(made_within, mode), expected, rtol=0, atol=1e-12)


def test_few_positions_see_every_change_of_weights_and_background() -> None:
    """What is cached for them holds the masses of the background as well."""
    layer = small_model().double().layer
    h, word = torch.randn(2, 6, dtype=torch.double), torch.tensor([3, 4])
    tables = [Table(torch.randn(len(small_vocabulary())).double()) for _ in range(2)]

    def check(changed: Callable[[], object]) -> None:
        changed()
        for table in (*tables, tables[0]):
            prior = SparsePrior.static(table)
            expected = copy.deepcopy(layer)(h, prior).log_prob(word).detach()  # asked with gradients it would forget
            with torch.no_grad():
                for _ in range(2):
                    torch.testing.assert_close(layer(h, prior).log_prob(word), expected, rtol=0, atol=1e-12)
        assert layer._kept.few._kept is not None

    def replace() -> None:
        layer.weight.data = layer.weight.data + torch.randn_like(layer.weight)

    @torch.no_grad()
    def write() -> None:
        layer.bias.mul_(3.0).add_(torch.randn_like(layer.bias))

    for change in (lambda: None, replace, write):
        check(change)


# --- when it is made, and when not ---------------------------------------------------------------------------------


def test_training_keeps_nothing() -> None:
    model = small_model()
    log_probs(model)
    assert is_cached(model)
    uncached_log_probs(model).sum()
    assert model.layer._kept.composed._kept is None
    assert model.embedding._table._kept is None


def test_weights_that_need_no_gradient_are_cached_with_gradients_on() -> None:
    model = small_model().requires_grad_(False)
    model.embedding(torch.tensor([[1, 2]]))
    model.layer.weights().composed()
    assert is_cached(model)


def test_large_products_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model().double()
    expected = rows(model)
    model.layer.clear_cache()
    model.embedding.clear_cache()
    monkeypatch.setattr(matrix, "_MOST_CACHED", 100)
    torch.testing.assert_close(rows(model), expected, rtol=0, atol=1e-12)
    assert not is_cached(model)


def test_a_model_in_half_precision_is_widened_once() -> None:
    model = small_model().to(torch.bfloat16)
    prior, h = model.background.prior([]), torch.randn(2, 6, dtype=torch.bfloat16)
    with torch.no_grad():
        first, second = (model.layer(h, prior) for _ in range(2))
        assert first.weights is second.weights
        assert first.weights.weight.dtype == torch.float32
        shaken(model, 2.0, seed=4)
        assert model.layer(h, prior).weights is not first.weights


def test_copies_begin_with_an_empty_cache() -> None:
    model = small_model()
    log_probs(model)
    assert not is_cached(copy.deepcopy(model))


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


def one_step(model: LLRNN, make: Callable[..., torch.optim.Optimizer]) -> None:
    optimizer = make(model.parameters(), lr=0.1)
    (batch, *_) = Sentences().plan(EncodedText.encode(TEXT, model.vocabulary))
    (-model.log_prob(batch).mean()).backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def trained(model: LLRNN, optimizer: str) -> None:
    list(llrnn.train(model, TEXT, valid=TEXT, epochs=1, optimizer=optimizer))


CHANGES: dict[str, Callable[[LLRNN], None]] = {
    "filled in": filled_in,
    "replaced": replaced,
    "replaced twice": replaced_twice,
    "loaded": loaded,
    "in other numbers": in_other_numbers,
    "SGD": partial(one_step, make=torch.optim.SGD),
    "AdamW": partial(one_step, make=torch.optim.AdamW),
    "fused AdamW, whose writes torch does not count": partial(one_step, make=partial(torch.optim.AdamW, fused=True)),
    "trained by sgd": partial(trained, optimizer="sgd"),
    "trained by adamw": partial(trained, optimizer="adamw"),
    "averaged": lambda model: trained(model, "rmsprop"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_it_is_never_stale(change: Callable[[LLRNN], None]) -> None:
    model = small_model().double()
    before = rows(model)
    log_probs(model)
    change(model)
    after, scores = rows(model), log_probs(model)
    fresh = small_model().double()
    fresh.load_state_dict(model.state_dict())
    assert not torch.allclose(after, before)
    torch.testing.assert_close(after, uncached_rows(fresh), rtol=0, atol=1e-12)
    torch.testing.assert_close(scores, log_probs(fresh), rtol=0, atol=1e-12)


def test_a_write_that_torch_does_not_count_needs_a_word() -> None:
    model = small_model().double()
    with torch.no_grad():
        first = model.layer.weights().composed()[0].clone()
        model.layer.weight.data.add_(1.0)
        model.layer.clear_cache()
        assert not torch.equal(model.layer.weights().composed()[0], first)


@pytest.mark.usefixtures("composes_always")
def test_nothing_is_composed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    rows(model)
    calls: list[object] = []
    real = SparseMatrix.__matmul__

    def counted(self: SparseMatrix, dense: Tensor) -> Tensor:
        calls.append(dense)
        return real(self, dense)

    monkeypatch.setattr(SparseMatrix, "__matmul__", counted)
    monkeypatch.setattr(SparseMatrix, "rows", lambda self, dense, classes: pytest.fail("ψ was composed anew"))
    rows(model)
    assert not calls


def test_a_cached_product_follows_its_weights() -> None:
    phi, cache = SparseMatrix(small_model().output_features), WeightCache[Tensor]()
    W = torch.randn(phi.n_features, 3)
    first = cache.get(lambda: phi @ W, W)
    assert cache.get(lambda: phi @ W, W) is first
    W[0] += 1.0
    assert not torch.equal(cache.get(lambda: phi @ W, W), first)
    torch.testing.assert_close(cache.get(lambda: phi @ W, W), phi @ W)


def test_a_thread_that_comes_while_another_composes_has_the_whole_product() -> None:
    """The first use by several threads: the second one comes in the middle of what the first one does."""
    phi, cache = SparseMatrix(small_model().output_features), WeightCache[Tensor]()
    W, found = torch.randn(phi.n_features, 3), list[Tensor]()

    def make() -> Tensor:
        if not found:
            found.append(torch.zeros(0))  # the second thread does not come again
            found.append(cache.get(make, W))
        return phi @ W

    torch.testing.assert_close(cache.get(make, W), phi @ W)
    torch.testing.assert_close(found[1], phi @ W)


THREADS = 4


def test_threads_may_share_a_model_that_nobody_changes() -> None:
    """What docs/scale.md promises: the same numbers in any thread, from the first use on."""
    model, wanted, begin = small_model(), log_probs(small_model()), threading.Barrier(THREADS)

    def use() -> torch.Tensor:
        begin.wait()
        return log_probs(model)

    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(use) for _ in range(THREADS)]
    for future in futures:
        torch.testing.assert_close(future.result(), wanted, rtol=1e-5, atol=1e-5)


def _in_a_process(model: LLRNN, answers: multiprocessing.Queue[list[float]]) -> None:
    torch.set_num_threads(1)
    answers.put(log_probs(model).tolist())


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_models_go_to_another_process(way: str) -> None:
    """Forked, as workers of a DataLoader are, or pickled to one that begins anew."""
    context: Any = multiprocessing.get_context(way)
    model, answers = small_model(), context.Queue()
    expected = log_probs(model).tolist()
    process = context.Process(target=_in_a_process, args=(model, answers))
    process.start()
    found = answers.get(timeout=HANG)
    process.join()
    assert found == expected


# --- what others do with it ----------------------------------------------------------------------------------------


def test_a_loaded_model_caches(tmp_path: Path) -> None:
    """So do `generate` and a beam search over it."""
    small_model(context=[contextual.Repeated(4)]).save(tmp_path / "model")
    for use in (
        lambda model: llrnn.generate(model, strategy=Sampling(), generator=torch.Generator().manual_seed(3)),
        lambda model: generate(model, beam=4, count=4),
        lambda model: llrnn.evaluate(model, TEXT),
        lambda model: llrnn.explain(model, word=small_vocabulary().words[3]),
    ):
        model = llrnn.load(tmp_path / "model")
        assert all(parameter.requires_grad for parameter in model.parameters())
        use(model)
        assert model.embedding._table._kept is not None


def test_training_needs_weights_that_need_gradients() -> None:
    with pytest.raises(TrainingError, match="requires a gradient"):
        list(llrnn.train(small_model().requires_grad_(False), TEXT, epochs=1))


def test_steering_and_swapping() -> None:
    model = small_model(context=[Expert(bigrams(), name="kn")]).double()
    before = rows(model)
    changes = [Change("kn", scale=0.5), Change("Word:*", offset=0.7)]
    for changed in (steer(model, changes), swap(model, background=Uniform())):
        torch.testing.assert_close(rows(changed), uncached_rows(changed), rtol=0, atol=1e-12)
        assert not torch.allclose(rows(changed), before)
    assert torch.equal(rows(model), before)


def test_words_come_and_go() -> None:
    model = small_model(output_features=small_features()).double()
    rows(model)
    more = words.add(model, [Entry("kiwi", count=2)])
    torch.testing.assert_close(rows(more), uncached_rows(more), rtol=0, atol=1e-12)
    gone = words.remove(more, ["kiwi"])
    torch.testing.assert_close(rows(gone), uncached_rows(gone), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 16, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_constant_weights_are_the_same_and_so_are_gradients_of_h(dtype: torch.dtype, n: int) -> None:
    layer = LogLinear(french_like(300, 40), 6, zero=True).to(dtype)
    for parameter in (layer.weight, layer.bias):
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(2))
    log_b = torch.randn(300, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    log_b[layer.classes.class_of == 5] = float("-inf")  # a class without any mass
    prior, word = SparsePrior.static(Table(log_b)), torch.arange(n)
    h = torch.randn(n, 6, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
    expected = layer(h, prior).log_prob(word)
    gradient, possible = torch.autograd.grad(expected[torch.isfinite(log_b[:n])].sum(), h), torch.isfinite(log_b[:n])
    found = layer.requires_grad_(False)(h, prior).log_prob(word)
    torch.testing.assert_close(found, expected)
    assert torch.equal(torch.isinf(found), ~possible)
    torch.testing.assert_close(torch.autograd.grad(found[possible].sum(), h), gradient)
