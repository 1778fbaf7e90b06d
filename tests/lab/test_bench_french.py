"""Benchmarks of French training: peers compute what they say, time is shared out fairly, and Python does not loop."""

from __future__ import annotations

import cProfile
import itertools
import pstats
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from llrnn import french
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.files import write_atomically
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.readers import conllu_lines
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.loop import train
from llrnn.training.runs import Record
from llrnn.training.settings import TrainingSettings
from llrnn_lab.bench import torch_peer
from llrnn_lab.bench.adaptive import adaptive, equal_time
from llrnn_lab.bench.french import french as french_training
from llrnn_lab.bench.french import only_steps
from llrnn_lab.studies.prepare import prepare

ROOT = Path(__file__).parents[2]
SMALL = {"rows": 4, "length": 5, "kind": "continuous"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A treebank of our own making, prepared as the French one is."""
    folder = tmp_path_factory.mktemp("french")
    (folder / "treebank").mkdir()
    sentences = list(french.sentences(700, skip=5000))
    for part, chosen in (("train", sentences[:500]), ("dev", sentences[500:600]), ("test", sentences[600:])):
        lines = "".join(f"{line}\n" for line in conllu_lines(chosen))
        write_atomically(folder / "treebank" / f"fr-{part}.conllu", lines.encode())
    prepare(folder / "treebank", folder / "prepared")
    return folder / "prepared"


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    for name in ("llrnn", "rnn", "rnn-bias"):
        text = (ROOT / "configs" / "table4" / f"{name}.toml").read_text(encoding="utf8")
        (folder / f"{name}.toml").write_text(text.replace("= 256", "= 16").replace("= 2500", "= 50"), encoding="utf8")
    return folder


@pytest.fixture(scope="module")
def text() -> tuple[EncodedText, int]:
    corpus = Corpus.from_sentences([["a", "b", "a"], ["c", "a"], ["b", "a", "d", "a", "c"]])
    vocabulary = Vocabulary.from_corpus(corpus)
    return EncodedText.encode(corpus, vocabulary), len(vocabulary)


def test_words_are_ranked_by_their_counts(text: tuple[EncodedText, int]) -> None:
    encoded, V = text
    rank = torch_peer.ranks(encoded, V)
    counts = np.bincount(np.concatenate([*encoded.sentences]), minlength=V)
    counts[encoded.eos] += len(encoded.sentences)
    by_rank = counts[np.argsort(rank.numpy())]
    assert (np.diff(by_rank) <= 0).all()
    assert sorted(rank.tolist()) == list(range(V))


@pytest.mark.parametrize("kind", ["dense", "adaptive"])
def test_the_peer_trains_and_its_probabilities_add_up(text: tuple[EncodedText, int], kind: str) -> None:
    encoded, V = text
    torch.manual_seed(0)
    output = torch_peer.Dense(V, 8) if kind == "dense" else torch_peer.Adaptive(V, 8, [2])
    model = torch_peer.TorchModel(torch_peer.ranks(encoded, V), 8, 2, output)
    settings = TrainingSettings().changed(batches=SMALL, learning_rate=0.02)
    h = torch.randn(3, 8)
    mass = torch.stack([output.log_prob(h, torch.full((3,), word)) for word in range(V)]).exp().sum(0)
    torch.testing.assert_close(mass, torch.ones(3))
    before = torch_peer.log_perplexity(model, encoded, settings)
    for epoch in itertools.islice(torch_peer.training_epochs(model, encoded, settings), 30):
        assert all(loss > 0 for loss in epoch)
    assert torch_peer.log_perplexity(model, encoded, settings) < before - 0.5


def test_both_losses_of_a_dense_peer_are_the_same(text: tuple[EncodedText, int]) -> None:
    if not hasattr(torch.nn.functional, "linear_cross_entropy"):
        pytest.skip("this torch has no linear_cross_entropy")
    output, h, targets = torch_peer.LinearCrossEntropy(7, 4), torch.randn(5, 4), torch.randint(7, (5,))
    torch.testing.assert_close(output.loss(h, targets), torch_peer.Dense.loss(output, h, targets))
    torch.testing.assert_close(output.loss(h, targets), -output.log_prob(h, targets).mean())


def test_french_training_is_compared_with_every_softmax(data: Path, configs: Path) -> None:
    found = french_training(data, configs=configs, rounds=2)
    for way, words, read in (("continuous", 2048, 2048), ("windows", 512, 4096)):
        part = found[way]["contenders"]
        assert {"llrnn", "softmax", "softmax in llrnn"} <= part.keys()
        V, G = part["softmax"]["outputs"], part["llrnn"]["outputs"]
        assert G < V
        assert part["softmax"]["operations"] == 6 * (8 * 2 * 16 * 16 * read + V * 16 * words)
        assert found[way]["ratio"] == min(peer["times ours"] for name, peer in part.items() if name != "llrnn")


def test_whoever_has_used_the_least_time_goes_on() -> None:
    def epochs(seconds: float) -> itertools.starmap[tuple[float, float]]:
        return itertools.starmap(lambda n: (n * seconds, 9.0 / n), ((n,) for n in itertools.count(1)))

    curves = equal_time({"slow": epochs(4.0), "fast": epochs(1.0)}, 10.0)
    assert [used for used, _ in curves["slow"]] == [4.0, 8.0, 12.0]
    assert [used for used, _ in curves["fast"]] == [float(n) for n in range(1, 11)]


def test_perplexity_at_equal_time(data: Path, configs: Path) -> None:
    found = adaptive(data, configs=configs, seconds=0.5, identities=(10,), cutoffs=((5, 50), (20,)))
    ours, *peers = found["contenders"].values()
    assert len(peers) == 2
    fastest = min(peer["seconds an epoch"] for peer in peers)
    assert ours["an epoch of the fastest peer"] == pytest.approx(fastest / ours["seconds an epoch"])
    for name, curve in found["curves"].items():
        within = [perplexity for used, perplexity in curve if used <= 0.5]
        assert found["contenders"][name]["epochs"] == len(within)
        assert found["contenders"][name]["log-perplexity"] == min(within, default=float("inf"))


def calls(data: Path, configs: Path, rows: int, length: int) -> int:
    """Python's function calls in one training step, the fewest of three: what is made for the first time is none."""
    batches = f'training.batches={{kind="continuous", rows={rows}, length={length}}}'
    config = read_config(configs / "llrnn.toml", [batches], data=data)
    project = Project.from_config(config)
    settings = config.training.changed(log_every=1, epochs=1000, patience=None)
    steps = only_steps(train(project.model(), project.corpora["train"], settings=settings))
    next(steps)
    return min(calls_of_one(steps) for _ in range(3))


def calls_of_one(steps: Iterator[Record]) -> int:
    profiler = cProfile.Profile(builtins=False)
    profiler.enable()
    next(steps)
    profiler.disable()
    total: int = pstats.Stats(profiler).total_calls  # type: ignore[attr-defined]
    return total


def test_python_is_called_as_often_whatever_the_words(data: Path, configs: Path) -> None:
    """No loop over words, nor over the steps of the recurrent network: either would add a call for each, at least. A
    few more are from pieces of hundreds of rows.
    """
    counts = [calls(data, configs, rows, length) for rows, length in ((16, 16), (64, 16), (16, 64))]
    assert max(counts) - min(counts) < 48, counts
