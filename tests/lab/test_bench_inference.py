"""The benchmark of inference: that both sides say the same; and, among the slow tests, what is claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from llrnn import load
from llrnn.text.vocabulary import EOS, MANY_WORDS
from llrnn_lab.bench import dense_peer
from llrnn_lab.bench.inference import compared, made_up_model, sampling, scoring
from strategies import QUICK  # noqa: F401  (importing it sets the number of threads)


@pytest.mark.parametrize("positions", [1, 16])
def test_scoring_compares_equal_numbers(positions: int) -> None:
    found = scoring(300, 40, 8, positions, 2)
    assert found["largest difference"] < 1e-5
    assert found.keys() == {"llrnn", "dense", "largest difference"}
    assert found["llrnn"]["times ours"] == 1.0
    assert found["dense"]["seconds"] > 0


def test_sampling_is_measured_with_and_without_the_softmax() -> None:
    found = sampling(300, 40, 8, 2)
    assert {"llrnn", "softmax and multinomial", "multinomial alone", "llrnn, drawing alone"} <= found.keys()


def test_ratios_are_those_of_the_rounds() -> None:
    found = compared({"one": lambda: sum(range(2_000)), "ten": lambda: sum(range(200_000))}, 5)
    assert found["one"]["times ours"] == 1.0
    assert 10 < found["ten"]["times ours"] < 1_000


def test_what_is_made_once_does_not_decide_how_often_a_task_is_repeated() -> None:
    calls: list[int] = []

    def slow_at_first() -> None:
        calls.append(sum(range(3_000_000 if not calls else 3_000)))

    compared({"one": slow_at_first}, 1)
    assert len(calls) > 20


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("words", [None, ["</s>", "a", "b", "c"]])
def test_the_peer_scores_a_sentence(tmp_path: Path, mmap: bool, words: list[str] | None) -> None:
    torch.manual_seed(0)
    weight, bias, lstm = torch.randn(4, 3), torch.randn(4), torch.nn.LSTM(3, 3, 1, batch_first=True)
    dense_peer.save(tmp_path / "peer.pt", weight, bias, lstm, words)
    ids = [0, 2, 1, 0]
    sentence: list[Any] = ids if words is None else [words[i] for i in ids]
    found = dense_peer.score(str(tmp_path / "peer.pt"), mmap, sentence)
    with torch.no_grad():
        log_p = torch.log_softmax(lstm(weight[ids[:-1]][None])[0][0] @ weight.t() + bias, -1)
    assert found == pytest.approx(float(log_p[[0, 1, 2], ids[1:]].sum()), abs=1e-5)


def test_the_model_that_is_opened_has_as_many_words_as_it_says(tmp_path: Path) -> None:
    model = made_up_model(MANY_WORDS, 50, 4)
    model.save(tmp_path)
    back = load(tmp_path)
    assert len(back.vocabulary) == MANY_WORDS
    last = back.vocabulary.symbol(MANY_WORDS - 1)
    assert back.vocabulary.id(last) == MANY_WORDS - 1
    assert back.vocabulary.id(EOS) == 0
    assert "words" not in back.vocabulary.__dict__
