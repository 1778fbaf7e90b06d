"""The class-factored output and the comparison that uses it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from llrnn import Corpus, Lexicon, Vocabulary, french
from llrnn.cli import run
from llrnn.text.vocabulary import EOS
from llrnn_lab.bench.objectives import ClassFactored, cluster_bins, frequency_bins, objectives
from llrnn_lab.clusters import cluster_words

V, C, H, N = 11, 4, 3, 6
CLASS_OF = torch.tensor([2, 0, 1, 1, 3, 0, 2, 2, 1, 0, 1])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


LOG_B = torch.randn(V, generator=seeded(1), dtype=torch.float64)
STATES = torch.randn(N, H, generator=seeded(2), dtype=torch.float64)
TARGETS = torch.tensor([4, 0, 9, 7, 1, 1])


def made(loud: float = 1.0) -> ClassFactored:
    layer = ClassFactored(CLASS_OF, LOG_B, H).double()
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data.copy_(loud * torch.randn(parameter.shape, generator=seeded(seed), dtype=torch.float64))
    return layer


def by_hand(layer: ClassFactored, h: Tensor) -> Tensor:
    """p(c) p(x | c) word by word, with u and e looked up where the layer keeps them."""
    b, rows = LOG_B.exp(), []
    for state in h:
        of_class = torch.stack(
            [b[c == CLASS_OF].sum() * torch.exp(layer.class_weight[c] @ state + layer.class_bias[c]) for c in range(C)]
        )
        own = torch.stack(
            [b[x] * torch.exp(layer.weight[layer.place[x]] @ state + layer.bias[layer.place[x]]) for x in range(V)]
        )
        within = torch.stack([own[x] / own[CLASS_OF[x] == CLASS_OF].sum() for x in range(V)])
        rows.append(within * (of_class / of_class.sum())[CLASS_OF])
    return torch.stack(rows).log()


def test_it_sums_to_one_and_is_the_product() -> None:
    layer = made()
    log_p = layer.log_probs(STATES)
    torch.testing.assert_close(log_p.exp().sum(1), torch.ones(N, dtype=torch.float64))
    torch.testing.assert_close(log_p, by_hand(layer, STATES))
    torch.testing.assert_close(layer.log_prob(STATES, TARGETS), log_p[torch.arange(N), TARGETS])


def test_its_gradient_is_that_of_the_product() -> None:
    layer, h = made(), STATES.clone().requires_grad_()
    leaves = [h, *layer.parameters()]
    found = torch.autograd.grad(layer.log_prob(h, TARGETS).sum(), leaves)
    wanted = torch.autograd.grad(by_hand(layer, h)[torch.arange(N), TARGETS].sum(), leaves)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
        assert one.norm() > 0
    assert torch.autograd.gradcheck(lambda state: layer.log_prob(state, TARGETS), (h,))


def test_it_starts_at_the_background() -> None:
    torch.testing.assert_close(made(loud=0.0).log_probs(STATES)[0], torch.log_softmax(LOG_B, 0))


def test_bins_hold_equal_mass_and_frequent_words_stand_together() -> None:
    log_b = torch.tensor([1 / (rank + 1) for rank in range(400)], dtype=torch.float64).log()
    shuffled = torch.randperm(400, generator=seeded(3))
    class_of = frequency_bins(log_b[shuffled], 8)
    mass = torch.zeros(int(class_of.max()) + 1, dtype=torch.float64)
    mass.index_add_(0, class_of, torch.softmax(log_b[shuffled], 0))
    assert sorted(set(class_of.tolist())) == list(range(len(mass)))
    assert len(mass) >= 6
    assert mass.min() > 0.5 / 8
    by_rank = torch.empty_like(class_of)
    by_rank[shuffled] = class_of
    assert (by_rank.diff() >= 0).all()


def test_clusters_are_classes_and_the_rest_is_one_too() -> None:
    lexicon = Lexicon.from_mapping({"a": {"Cluster4:3", "Cluster9:1"}, "b": {"Cluster4:3"}, "c": {"Cluster4:0"}})
    class_of = cluster_bins(Vocabulary(["a", "b", "c", "d", EOS]), lexicon, 4).tolist()
    assert class_of == [1, 1, 0, 2, 2]
    text = Corpus.from_sentences(french.sentences(300)).lowercased()
    vocabulary = Vocabulary.from_corpus(text)
    found = cluster_bins(vocabulary, cluster_words((s.words for s in text), sizes=[8], dimensions=20), 8)
    assert sorted(set(found.tolist())) == list(range(9))


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    return objectives(2_000, sentences=300, epochs=6, samples=60, hidden=24, device=torch.device("cpu"), batch_words=96)


@pytest.mark.slow
def test_all_ways_to_train_get_better(compared: dict[str, Any]) -> None:
    assert compared["V"] >= 2_000
    for found in compared["objectives"].values():
        assert found["log-perplexity"] < compared["start"] - 0.1
        assert found["words per second"] > 0


def test_the_verb_prints_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--words", "0", "--sentences", "200", "--epochs", "1", "--samples", "20", "--hidden", "8"]
    threads = torch.get_num_threads()
    assert run(["bench", "objectives", *given]) == 0
    torch.set_num_threads(threads)
    printed = capsys.readouterr().out
    for name in ("exact", "importance", "factored, frequency", "factored, clusters"):
        assert name in printed
