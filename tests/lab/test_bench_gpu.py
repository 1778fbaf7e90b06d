"""The benchmark of the GPU on a CPU, in tiny sizes: that it compares like with like, and counts what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from llrnn.ground.errors import ConfigError
from llrnn.layer import loglinear
from llrnn_lab.bench import gpu_peers
from llrnn_lab.bench import gpu_peers as gpu_machine
from llrnn_lab.bench import layers as bench_layers
from llrnn_lab.bench.gpu import as_it_is, gpu
from llrnn_lab.bench.gpu_peers import CARDS, WAYS, Contender, Cost, Machine, Rates
from llrnn_lab.bench.layers import _at as layers_at
from llrnn_lab.bench.layers import layer_rows, layers, table
from llrnn_lab.bench.machine import Speeds
from llrnn_lab.bench.neural import french_like
from llrnn_lab.bench.suite import GpuSizes as Sizes
from llrnn_lab.bench.suite import LayerSizes

TINY = Sizes(words=60, classes=20, hidden=8, positions=16, vocabularies=(40, 90), own=(24,), probe=16)
DOCS = Path(__file__).parents[2] / "docs"
OURS = {f"{way}, {how}" for way in WAYS for how in ("one graph", "callables", "eager")}
PEERS = {"dense", "chunked by 2", "gradients in forward by 4"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return gpu(rounds=2, sizes=TINY, machine=Machine(), compiled=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="`llrnn bench --only gpu` needs a CUDA GPU"):
        gpu()


def test_all_contenders_are_measured(found: dict[str, Any]) -> None:
    layer, own = found["layer"], found["own"]["24"]
    assert {key: layer[key] for key in "VGHN"} == {"V": 60, "G": 20, "H": 8, "N": 16}
    assert (own["V"], own["G"]) == (24, 24)
    assert layer["ours"].keys() == OURS | {"exact float32, one graph", "weighted_loss, half the chunk, one graph"}
    assert own["ours"].keys() == OURS
    for part in (layer, own):
        assert part["peers"].keys() == PEERS | {f"{name}, one graph" for name in PEERS}
        assert part["failed"] == {}
        for one in (*part["ours"].values(), *part["peers"].values()):
            assert min(one["ms"], one["ms_alone"]) > 0
            assert one["beyond_mb"] <= 0


def test_all_find_the_true_loss_and_gradients(found: dict[str, Any]) -> None:
    for part in (found["layer"], found["own"]["24"]):
        for one in (*part["ours"].values(), *part["peers"].values()):
            assert one["errors"]["loss"] < 0.1
            assert max(one["errors"][name] for name in ("dh", "dW", "dc")) < 0.03
    exact = found["layer"]["ours"]["exact float32, one graph"]["errors"]
    assert max(exact.values()) < 1e-5


def test_ratios_are_those_of_the_figures(found: dict[str, Any]) -> None:
    layer = found["layer"]
    peers = layer["peers"]
    best, best_alone = (min(one[key] for one in peers.values()) for key in ("ms", "ms_alone"))
    same = {
        "graphs": min(one["ms"] for name, one in peers.items() if "graph" in name),
        "eager": min(one["ms"] for name, one in peers.items() if "graph" not in name),
    }
    assert layer["peers"][layer["best_peer"]]["ms"] == best
    for name, ratio in layer["peer_by_ours"].items():
        ours = layer["ours"][name]["ms"]
        assert ratio == {
            "best": pytest.approx(best / ours),
            "best_alone": pytest.approx(best_alone / layer["ours"][name]["ms_alone"]),
            "same_launch": pytest.approx(same["eager" if name.endswith("eager") else "graphs"] / ours),
            "dense": pytest.approx(layer["peers"]["dense"]["ms"] / ours),
        }


def test_the_vocabulary_grows_and_the_classes_do_not(found: dict[str, Any]) -> None:
    assert found["vocabulary"].keys() == OURS | {"G"}
    for name in OURS:
        one = found["vocabulary"][name]
        assert one["ms"].keys() == one["beyond_mb"].keys() == {"40", "90"}
        times = one["ms"].values()
        assert one["largest_by_smallest"]["ms"] == pytest.approx(max(times) / min(times))


def test_the_floor_is_counted(found: dict[str, Any]) -> None:
    layer = found["layer"]
    m = french_like(60, 20).n_features
    floor = layer["ours"]["weighted_loss, eager"]["floor"]
    assert floor["operations"] == 3 * 2 * 16 * 20 * 8
    assert floor["bytes"] == 2 * (2 * 16 * 8 + 4 * m * 8 + 4 * m)
    assert layer["peers"]["dense"]["floor"]["operations"] == 3 * 2 * 16 * 60 * 8
    for one in (*layer["ours"].values(), *layer["peers"].values()):
        assert one["floor"]["ms"] == max(one["floor"]["ms_of_products"], one["floor"]["ms_of_bytes"])
        assert one["times_floor"] == pytest.approx(one["ms"] / one["floor"]["ms"])


def test_the_floor_is_the_larger_of_products_and_bytes() -> None:
    rates = Rates(1e12, 1e10, 1e9, "made up")
    assert Cost(10**9, 10**5).floor(rates, torch.bfloat16)["ms"] == pytest.approx(1.0)
    assert Cost(10**9, 10**7).floor(rates, torch.bfloat16)["ms"] == pytest.approx(10.0)
    assert Cost(10**9, 10**5).floor(rates, torch.float32)["ms"] == pytest.approx(100.0)
    assert all(card.half > card.float32 > card.memory for card in CARDS.values())


def test_contenders_take_turns_on_the_clock_that_is_given() -> None:
    turns: list[str] = []

    class Clock(Machine):
        def milliseconds(self, run: Any) -> float:
            run()
            return float(len(turns))

    runs = {name: lambda name=name: turns.append(name) for name in "ab"}
    times = gpu_machine.interleaved(Clock(), runs, 3)
    assert "".join(turns) == "aaabbb" + "ab" * 3
    assert times == {"a": 9.0, "b": 10.0}
    turns.clear()
    assert gpu_machine.interleaved(Clock(), runs, 1, steps=2) == {"a": 4.0, "b": 5.0}
    assert "".join(turns) == "aaabbbaabb"


def test_a_peer_that_cannot_run_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(task: object, loss: object, rows: int) -> Contender:
        raise RuntimeError("out of memory\nmore")

    monkeypatch.setattr(gpu_peers, "_chunked", fails)
    found = gpu(rounds=1, sizes=TINY._replace(own=(), vocabularies=(40,)), machine=Machine(), compiled=False)
    assert found["layer"]["failed"] == {"chunked by 2": "out of memory"}
    assert "chunked by 2" not in found["layer"]["peers"]


def test_memory_is_beyond_inputs_and_gradients() -> None:
    leaf = torch.ones(250_000, requires_grad=True)

    class Counting(Machine):
        def with_peak(self, act: Any) -> tuple[Any, int]:
            return act(), 3_000_000

    def step() -> Tensor:
        loss = (leaf * 2).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    assert as_it_is(Counting(), lambda: Contender(step, [leaf])).beyond == 2_000_000


def test_the_document_is_json(found: dict[str, Any]) -> None:
    json.dumps(found)


LAYERS = LayerSizes((96,), cpu_hidden=16, cpu_positions=16)


def test_output_layers_side_by_side_compute_the_same() -> None:
    found = layers(LAYERS, rounds=2, machine=Machine(), compiled=False)
    part = found["V"]["96"]["float32"]
    assert {f"ours, classes: {name}" for name in ("few", "V/12", "V/6", "V")} < part.keys()
    assert [one["G"] for name, one in part.items() if name.startswith("ours")] == [8, 8, 16, 96]
    for name, one in part.items():
        assert one["ms"] > 0
        assert name == "adaptive softmax" or max(one["errors"].values()) < 1e-5, name
    (row,) = layer_rows(json.loads(json.dumps(found)), Speeds(1e9, 1e8, 1))
    assert row.peer in {"dense", "torch linear_cross_entropy"}
    assert row.ratio == pytest.approx(part[row.peer]["ms"] / part["ours, classes: V/12"]["ms"])
    assert table(found).splitlines()[0] == "| layer | 96, float32 | error | gives up |"


def test_output_layers_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loglinear, "why_no_half", lambda p: None)  # as on a GPU
    for dtype, least, most in ((torch.float32, 0.0, 1e-5), (gpu_peers.HALF, 1e-4, 0.05)):
        part = layers_at(96, (16, 16), dtype, Machine(), 1, False)
        for name in ("dense", "ours, classes: V/12", "ours, classes: V"):
            assert least <= max(part[name]["errors"].values()) < most, (name, dtype)


def test_a_layer_whose_package_is_not_there_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Contender:
        raise ImportError("no such package")

    monkeypatch.setattr(bench_layers, "_adaptive", refused)
    found = layers(LAYERS, rounds=1, machine=Machine(), compiled=False)
    assert found["V"]["96"]["float32"]["adaptive softmax"] == {"failed": "no such package"}
    assert "| adaptive softmax | – | – |" in table(found)
