"""The benchmarks: that they compare like with like; and, among the slow tests, what is claimed of them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llrnn import Corpus, french
from llrnn.languages.ngrams import UNKNOWN, read_stream
from llrnn.text.vocabulary import EOS
from llrnn_lab.bench import neural
from llrnn_lab.bench.against_kenlm import _top_words, drawn_text, ngrams
from llrnn_lab.bench.neural import against_dense, french_like, interleaved, own_classes, training
from llrnn_lab.cli import show as lab_show
from strategies import QUICK  # noqa: F401  (importing it sets the number of threads)

CPU = torch.device("cpu")


def test_the_layer_is_compared_with_peers_that_find_the_same_loss() -> None:
    losses = []
    for matrix in (french_like(300, 40), own_classes(300)):
        figures = against_dense(matrix, 8, 16, rounds=2, device=CPU)
        contenders = {"llrnn", "dense"} | ({"linear_cross_entropy"} & figures.keys())
        assert figures.keys() == contenders | {"loss difference"}
        assert figures["loss difference"] < 1e-5
        ours = figures["llrnn"]
        for name in contenders:
            assert figures[name]["seconds"] > 0
            assert figures[name]["times ours"] == pytest.approx(figures[name]["seconds"] / ours["seconds"])
            assert figures[name]["loss"] == pytest.approx(ours["loss"], abs=1e-5)
        losses.append(ours["loss"])
    assert losses[0] != losses[1]


def test_time_and_memory_by_vocabulary() -> None:
    found = neural.by_vocabulary((100, 1_000), 30, 8, 16, rounds=1, device=CPU)
    assert {key: found[key] for key in "GHN"} == {"G": 30, "H": 8, "N": 16}
    assert found["seconds"].keys() == found["bytes"].keys() == {"100", "1000"}
    assert min(found["seconds"].values()) > 0
    assert found["bytes"]["1000"] <= 1.05 * found["bytes"]["100"]  # G is the same


def test_the_peers_find_the_same_gradient() -> None:
    task = neural._Task(french_like(200, 30), 6, 10, CPU)
    weight, bias = task.dense_parameters()
    gradients = [torch.autograd.grad(loss, task.h)[0] for loss in (task.ours(), task.dense(weight, bias))]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
    assert gradients[0].abs().max() > 1e-4


def test_the_matrix_is_shaped_like_the_one_of_the_paper() -> None:
    matrix = french_like(42_592, 3_244)
    assert (matrix.n_symbols, matrix.n_classes, matrix.n_features) == (42_592, 3_244, 2_500 + 1 + 52)
    assert sorted(set(matrix.class_of.tolist())) == list(range(3_244))
    rows = [matrix.columns[a:b].tolist() for a, b in zip(matrix.offsets, matrix.offsets[1:], strict=False)]
    assert {len(set(row)) for row in rows} == {6}
    alone = [row for row in rows if row[0] < 2_500]
    assert len(alone) == 2_500
    counts = torch.bincount(torch.from_numpy(matrix.class_of))
    assert (counts[:2_500] == 1).all()


def test_own_classes_are_the_identity() -> None:
    matrix = own_classes(5)
    assert matrix.n_classes == matrix.n_symbols == matrix.n_features == 5
    assert [matrix.row(x) for x in range(5)] == [{f"word {x}": 1.0} for x in range(5)]


def test_contenders_take_turns() -> None:
    turns: list[str] = []
    leaf = torch.ones(1, requires_grad=True)

    def contender(name: str, value: float) -> tuple[Any, list[torch.Tensor]]:
        def loss() -> torch.Tensor:
            turns.append(name)
            return (leaf * value).sum()

        return loss, [leaf]

    found = interleaved({"a": contender("a", 1.0), "b": contender("b", 2.0)}, 3)
    assert "".join(turns) == "ab" + "ab" * 3  # once to warm up, then the rounds
    assert (found["a"]["loss"], found["b"]["loss"]) == (1.0, 2.0)


def test_training_is_timed_for_both_models() -> None:
    found = training(3_500, steps=2, device=CPU, hidden=8)
    assert found.keys() == {"V", "G", "H", "weights", "words in a batch", "words per second", "ratio"}
    assert (found["V"], found["H"]) == (3_500, 8)
    assert found["weights"]["softmax"] > found["weights"]["llrnn"]
    assert 500 < found["words in a batch"] <= 1024
    assert 1_000 < found["G"] < 3_500
    speeds = found["words per second"]
    assert speeds.keys() == {"llrnn", "softmax"}
    assert min(speeds.values()) > 0
    assert found["ratio"] == pytest.approx(speeds["llrnn"] / speeds["softmax"])


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "text.txt"
    corpus = Corpus.from_sentences(french.sentences(400))
    path.write_text("".join(" ".join(sentence.words) + "\n" for sentence in corpus), encoding="utf8")
    return path


def check_estimation(found: dict[str, Any], words: int, order: int) -> None:
    speed = found["estimation"]
    assert speed["words"] == words + 1  # and the end of the last sentence
    assert speed["order"] == order == len(speed["ngrams"])
    assert speed["words_per_second"] == pytest.approx(speed["words"] / speed["seconds"])
    assert min(speed[key] for key in ("words_per_second", "model_megabytes", "peak_megabytes")) > 0


def test_ngrams_are_compared_with_kenlm_on_the_same_file(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kenlm")
    found = ngrams(text=text, vocabulary=300, order=3, words=10_000, rounds=1)
    check_estimation(found, 10_000, 3)
    assert (found["text"], found["V"], found["order"]) == ("text.txt", 300, 3)
    each = found["seconds_each"]
    assert each.keys() == {"rows", "sparse rows", "text", "kenlm rows", "kenlm text", "kenlm sentences"}
    assert min(each.values()) > 0
    assert found["ratio"] == {
        "rows": pytest.approx(each["kenlm rows"] / each["rows"]),
        "sparse rows": pytest.approx(each["kenlm rows"] / each["sparse rows"]),
        "text": pytest.approx(each["kenlm text"] / each["text"]),
        "sentences": pytest.approx(each["kenlm sentences"] / each["text"]),
    }
    assert max(found["largest difference, log10"].values()) < 1e-5
    assert found["sum of a row"] == pytest.approx(1.0, abs=1e-5)
    lab_show.bench_ngram(found)
    out = capsys.readouterr().out
    assert "estimation: 10,001 words, order 3" in out
    assert "rows (V = 300)" in out
    assert "a word of text" in out


def test_without_kenlm_ours_is_timed_alone(
    text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kenlm", None)
    found = ngrams(text=text, vocabulary=300, order=2, words=10_000, rounds=1)
    check_estimation(found, 10_000, 2)
    assert found["kenlm"] is None
    assert found["llrnn"].keys() == {"rows", "sparse rows", "text"}
    lab_show.bench_ngram(found)
    assert "pip install kenlm to compare" in capsys.readouterr().out


def test_a_text_is_cut_to_its_most_frequent_words(text: Path) -> None:
    stream, listed = _top_words(text, 50)
    whole, words = read_stream([text])
    assert listed[:2] == [EOS, UNKNOWN]
    assert len(listed) == len(set(listed)) == 50
    assert [listed[n] for n in stream] == [words[n] if words[n] in listed else UNKNOWN for n in whole]
    counts = Counter(words[n] for n in whole)
    rarest = min(counts[word] for word in listed[2:])
    assert all(counts[word] <= rarest for word in counts if word not in listed)


def test_the_drawn_text_follows_zipf_and_its_seed() -> None:
    stream, listed = drawn_text(20_000, 500, 1)
    assert (len(stream), len(listed), stream[0], stream[-1]) == (20_002, 500, 0, 0)
    assert 1 not in stream
    assert stream.max() < 500
    counts = np.bincount(stream, minlength=500)
    assert 0.03 < counts[0] / len(stream) < 0.05
    assert counts[2] > counts[12] > counts[120]
    assert np.array_equal(stream, drawn_text(20_000, 500, 1)[0])
    assert not np.array_equal(stream, drawn_text(20_000, 500, 2)[0])
