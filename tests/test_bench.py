"""The benchmarks: that they compare like with like; and, among the slow tests, what is claimed of them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

from llrnn import bench
from llrnn.bench import neural
from llrnn.errors import ConfigError
from strategies import QUICK  # noqa: F401  (importing it sets the number of threads)

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tiny() -> dict[str, Any]:
    return bench.layer(300, 40, 8, 16, rounds=2, device=CPU)


def test_the_layer_is_compared_with_peers_that_find_the_same_loss(tiny: dict[str, Any]) -> None:
    assert {key: tiny[key] for key in "VGHN"} == {"V": 300, "G": 40, "H": 8, "N": 16}
    for part in ("classes", "own classes"):
        figures = tiny[part]
        contenders = {"llrnn", "dense"} | ({"linear_cross_entropy"} & figures.keys())
        assert figures.keys() == contenders | {"loss difference"}
        assert figures["loss difference"] < 1e-5
        ours = figures["llrnn"]
        for name in contenders:
            assert figures[name]["seconds"] > 0
            assert figures[name]["times ours"] == pytest.approx(figures[name]["seconds"] / ours["seconds"])
            assert figures[name]["loss"] == pytest.approx(ours["loss"], abs=1e-5)
    assert tiny["classes"]["llrnn"]["loss"] != tiny["own classes"]["llrnn"]["loss"]


def test_the_vocabulary_is_compared_at_two_sizes(tiny: dict[str, Any]) -> None:
    found = tiny["vocabulary"]
    assert found.keys() == {"seconds at 10^4", "seconds at 10^6", "ratio"}
    assert found["ratio"] == pytest.approx(found["seconds at 10^6"] / found["seconds at 10^4"])


def test_the_peers_find_the_same_gradient() -> None:
    task = neural._Task(bench.french_like(200, 30), 6, 10, CPU)
    weight, bias = task.dense_parameters()
    gradients = [torch.autograd.grad(loss, task.h)[0] for loss in (task.ours(), task.dense(weight, bias))]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
    assert gradients[0].abs().max() > 1e-4


def test_the_matrix_is_shaped_like_the_one_of_the_paper() -> None:
    matrix = bench.french_like(42_592, 3_244)
    assert (matrix.n_symbols, matrix.n_classes, matrix.n_features) == (42_592, 3_244, 2_500 + 1 + 52)
    assert sorted(set(matrix.class_of.tolist())) == list(range(3_244))
    rows = [matrix.columns[a:b].tolist() for a, b in zip(matrix.offsets, matrix.offsets[1:], strict=False)]
    assert {len(set(row)) for row in rows} == {6}
    alone = [row for row in rows if row[0] < 2_500]
    assert len(alone) == 2_500
    counts = torch.bincount(torch.from_numpy(matrix.class_of))
    assert (counts[:2_500] == 1).all()


def test_own_classes_are_the_identity() -> None:
    matrix = bench.own_classes(5)
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

    found = bench.interleaved({"a": contender("a", 1.0), "b": contender("b", 2.0)}, 3)
    assert "".join(turns) == "ab" + "ab" * 3  # once to warm up, then the rounds
    assert (found["a"]["loss"], found["b"]["loss"]) == (1.0, 2.0)


@pytest.mark.parametrize(("words", "classes"), [(100, 101), (50_000, 20_000), (100, 0)])
def test_sizes_that_make_no_sense_are_refused(words: int, classes: int) -> None:
    with pytest.raises(ConfigError, match=f"found {classes}"):
        bench.layer(words, classes, 4, 4, rounds=1, device=CPU)


def test_training_is_timed_for_both_models() -> None:
    found = bench.training(3_500, steps=2, device=CPU, hidden=8)
    assert found.keys() == {"V", "G", "words per second", "ratio"}
    assert found["V"] == 3_500
    assert 1_000 < found["G"] < 3_500
    speeds = found["words per second"]
    assert speeds.keys() == {"llrnn", "softmax"}
    assert min(speeds.values()) > 0
    assert found["ratio"] == pytest.approx(speeds["llrnn"] / speeds["softmax"])


# --- what is claimed ----------------------------------------------------------------------------------------------


def measured(*arguments: str) -> dict[str, Any]:
    """From the command line, in a process of its own, as a reader would do it."""
    command = [sys.executable, "-c", "import llrnn.cli; llrnn.cli.main()", "bench", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.timing
def test_the_layer_keeps_its_promises() -> None:
    found = measured("layer")
    assert {key: found[key] for key in "VGHN"} == {"V": 42_592, "G": 3_244, "H": 256, "N": 1_024}
    assert found["classes"]["dense"]["times ours"] >= 9
    assert found["classes"]["loss difference"] < 1e-5
    assert found["own classes"]["loss difference"] < 1e-5
    assert found["vocabulary"]["ratio"] <= 1.1
    assert 1 / found["own classes"]["dense"]["times ours"] <= 1.1


@pytest.mark.timing
def test_whole_training_steps_are_three_times_as_fast() -> None:
    found = measured("training")
    assert found["V"] == 42_592
    assert found["ratio"] >= 3
