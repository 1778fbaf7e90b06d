"""The cost model, and the ways that it picks from, against float64 autograd on the written-out scores."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from helpers import banded_features
from llrnn.cli import app
from llrnn.layer import costs
from llrnn.layer.blocks import ComposedBlocks, DirectBlocks, MakeBlocks, Pairs, SpreadBlocks, log_sums, mean_loss
from llrnn.layer.costs import Size
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix

FRENCH = Size(1024, 3244, 2553, 19_464, 256)
RECORDED = json.loads((Path(__file__).parents[2] / "docs/results/costs-gpu.json").read_text(encoding="utf8"))
FEW_FEATURES = Size(1024, 10_000, 500, 60_000, 256)

# --- the model ----------------------------------------------------------------------------------------------------


def test_counts_of_a_small_case() -> None:
    size = Size(positions=10, classes=7, features=3, entries=12, hidden=5)
    assert costs.composed(size).multiplications == 10 * 7 * 5
    assert costs.composed(size).additions == 12 * 5
    assert costs.direct(size, training=True).multiplications == 3 * 10 * 3 * 5
    assert costs.direct(size, training=True).additions == 2 * 12 * 10
    banded = size._replace(low_rank_blocks=costs.LowRankSize(rows=4, entries=6, expand=8))
    assert costs.composed(banded).multiplications == 10 * (4 * 5 + 8)
    assert costs.composed(banded).additions == 6 * 5


@pytest.mark.parametrize(
    ("size", "training", "way"),
    [
        (FRENCH._replace(features=3000), True, "composed"),
        (FRENCH._replace(positions=1), False, "direct"),  # composing does not pay for one position
        (FEW_FEATURES, True, "direct"),  # a twentieth of the multiplications
        (Size(1024, 6000, 6000, 0, 160), True, "composed"),  # every word its own class: a softmax
        (Size(1, 6000, 6000, 0, 160), False, "composed"),
    ],
)
def test_the_cheaper_way(size: Size, training: bool, way: str) -> None:
    assert costs.cheapest(size, training=training).name == way


def test_a_gpu_composes_unless_there_are_many_more_classes_than_features() -> None:
    gpu = costs.unit_costs("cuda")
    assert costs.cheapest(FRENCH, training=True, costs=gpu).name == "composed"
    assert costs.cheapest(FRENCH._replace(positions=1), costs=gpu).name == "composed"
    assert costs.cheapest(Size(2048, 40_781, 6412, 465_527, 512), training=True, costs=gpu).name == "direct"


@pytest.mark.parametrize("row", RECORDED["rows"], ids=lambda row: f"{row['config']}-{row['positions']}")
def test_what_is_chosen_on_a_gpu_is_within_a_fifth_of_the_better_way(row: dict[str, Any]) -> None:
    """Both ways were measured on an H200 at the sizes of our configurations (scripts/measure_costs.py cuda)."""
    size = Size(*(row[name] for name in Size._fields[:-1]))  # no bands
    taken = costs.cheapest(size, training=row["training"], costs=costs.unit_costs("cuda")).name
    assert row[taken] <= 1.2 * min(row["composed"], row["direct"])


def test_threads_share_the_work_and_wait_after_each_block() -> None:
    one, four = costs.unit_costs("cpu"), costs.unit_costs("cpu", 4)
    assert four.multiplication == one.multiplication / 4
    assert four.block > one.block
    assert costs.cheapest(FEW_FEATURES, training=True, costs=four).name == "direct"


def test_more_of_anything_costs_more() -> None:
    for way in (costs.composed, costs.direct):
        usual = way(FRENCH, training=True).seconds()
        assert way(FRENCH).seconds() < usual
        for field in ("positions", "entries", "hidden"):
            more = FRENCH._replace(**{field: 2 * getattr(FRENCH, field)})
            assert way(more, training=True).seconds() > usual


def test_no_position_is_a_size_too() -> None:
    assert costs.cheapest(FRENCH._replace(positions=0)).multiplications == 0


# --- the ways -----------------------------------------------------------------------------------------------------


def _phi(n_classes: int, n_features: int) -> SparseMatrix:
    rng = np.random.default_rng(0)
    rows = [np.sort(rng.permutation(n_features)[: 1 + s % 4]) for s in range(n_classes)]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    columns = np.concatenate(rows)
    names = tuple(f"f{k}" for k in range(n_features))
    return SparseMatrix(
        FeatureMatrix(names, names, np.arange(n_classes), offsets, columns, rng.normal(size=len(columns)))
    )


def _identity(n: int) -> SparseMatrix:
    names, numbers = tuple(f"f{k}" for k in range(n)), np.arange(n + 1)
    return SparseMatrix(FeatureMatrix(names, names, numbers[:-1], numbers, numbers[:-1], np.ones(n)))


def _banded(single: int, n_features: int, *low_rank_blocks: tuple[int, int]) -> SparseMatrix:
    """Some classes with sparse features, then bands of classes with dense ones of their own."""
    return SparseMatrix(banded_features(single, n_features, *low_rank_blocks))


class Case:
    """Random weights, masses with a class that has none, and pairs that name some positions twice and some never."""

    N, H, E = 23, 6, 31

    def __init__(self, phi: SparseMatrix) -> None:
        generator = torch.Generator().manual_seed(1)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.phi, G, m = phi, phi.n_classes, phi.n_features
        self.leaves = tuple(x.requires_grad_() for x in (random(self.N, self.H), random(m, self.H), random(m)))
        self.offset = random(G)
        self.offset[3] = float("-inf")
        row = torch.randint(self.N, (self.E,), generator=generator).sort().values
        self.pairs = Pairs(row, torch.randint(4, G, (self.E,), generator=generator))
        self.g_sum, self.g_asked = random(self.N), random(self.E)

    def arguments(self, way: str, keeps: bool) -> tuple[Tensor, Tensor, Tensor, MakeBlocks]:
        h, weight, bias = self.leaves
        if way == "direct":
            return h, weight, bias, partial(DirectBlocks, phi=self.phi, offset=self.offset)
        if self.phi.expansions:
            inner = self.phi.reduced
            return h, inner @ weight, inner @ bias, partial(SpreadBlocks, phi=self.phi, offset=self.offset, keeps=keeps)
        return h, self.phi @ weight, self.phi @ bias + self.offset, partial(ComposedBlocks, keeps=keeps)

    def written_out(self) -> tuple[Tensor, Tensor]:
        h, weight, bias = self.leaves
        dense = torch.zeros(self.phi.n_classes, self.phi.n_features, dtype=torch.float64)
        offsets, columns, values = (getattr(self.phi._rows, part).numpy() for part in ("offsets", "columns", "values"))
        dense[np.repeat(np.arange(len(dense)), np.diff(offsets)), columns] = torch.from_numpy(values)
        x = h @ (dense @ weight).t() + dense @ bias + self.offset
        return torch.logsumexp(x, 1), x[self.pairs.row, self.pairs.klass]


CASES = {
    "classes": lambda: Case(_phi(29, 11)),
    "identity": lambda: Case(_identity(29)),
    "bands": lambda: Case(_banded(9, 7, (8, 3), (12, 2))),
    "one band": lambda: Case(_banded(0, 0, (29, 4))),
}


@pytest.mark.parametrize("rows", [5, 100])
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("way", ["composed", "direct"])
@pytest.mark.parametrize("name", CASES)
def test_log_sums_with_any_gradients(name: str, way: str, keeps: bool, rows: int) -> None:
    case = CASES[name]()
    found = log_sums(*case.arguments(way, keeps), case.pairs, rows, keeps=keeps)
    expected = case.written_out()
    torch.testing.assert_close(found, expected)
    ours, theirs = (
        torch.autograd.grad((sums * case.g_sum).sum() + (asked * case.g_asked).sum(), case.leaves)
        for sums, asked in (found, expected)
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("rows", [5, 100])
@pytest.mark.parametrize("way", ["composed", "direct"])
@pytest.mark.parametrize("name", CASES)
def test_the_mean_loss_with_its_gradients(name: str, way: str, rows: int) -> None:
    case = CASES[name]()
    found = mean_loss(*case.arguments(way, False), case.pairs, rows)
    log_sum, asked = case.written_out()
    expected = (log_sum[case.pairs.row] - asked).mean()
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad(3.0 * loss, case.leaves) for loss in (found, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("way", ["composed", "direct"])
@pytest.mark.parametrize("name", CASES)
def test_a_position_where_nothing_is_possible_has_no_gradient(name: str, way: str) -> None:
    case = CASES[name]()
    case.offset.fill_(float("-inf"))
    log_sum, _ = log_sums(*case.arguments(way, True), case.pairs, 5, keeps=True)
    assert bool((log_sum == float("-inf")).all())
    assert all(bool((gradient == 0).all()) for gradient in torch.autograd.grad(log_sum.sum(), case.leaves))


@pytest.mark.parametrize("most", [0, 1 << 30])
@pytest.mark.parametrize("way", ["composed", "direct"])
def test_a_layer_goes_the_way_that_is_picked(way: costs.ScoreWay, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept or made again, composed or direct, in training and in evaluation: the same numbers."""
    matrix = FeatureMatrix(
        ("a", "b"), ("x", "x"), np.array([0, 1, 1, 2]), np.array([0, 1, 2, 4]), np.array([0, 1, 0, 1]), np.ones(4)
    )
    layer = LogLinear(matrix, 5, zero=True).double()
    torch.nn.init.normal_(layer.weight)
    h = torch.randn(40, 5, dtype=torch.float64)
    offset, pairs = torch.randn(3, dtype=torch.float64), Pairs(torch.arange(40), torch.arange(40) % 3)
    terms = layer.weights().composed_scores(h, offset)
    expected = torch.logsumexp(terms, 1), terms[pairs.row, pairs.klass]
    taken = getattr(costs, way)(Size(40, 3, 2, 4, 5))
    monkeypatch.setattr(costs, "cheapest", lambda size, **options: taken)
    monkeypatch.setattr(costs, "MOST_KEPT", most)
    found = layer.weights().log_sums(h, offset, *pairs)
    torch.testing.assert_close(found, expected)
    ours, theirs = (
        torch.autograd.grad(s.sum() + 2 * a.sum(), list(layer.parameters())[:2]) for s, a in (found, expected)
    )
    torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        torch.testing.assert_close(layer.weights().log_sums(h, offset, *pairs), tuple(x.detach() for x in expected))
    assert layer.weights().work(h).name == way


# --- llrnn config features -------------------------------------------------------------------------------------------

CONFIG = """
name = "small"
[corpus]
embedded = { train = 200, valid = 20, test = 20 }
[lexicon]
parts = ["train", "valid", "test"]
[features]
output = [FEATURES]
[background]
kind = "unigram"
parts = ["train", "valid", "test"]
[controller]
hidden = 1024
"""


def _features(folder: Path, output: str, *options: str) -> str:
    path = folder / "small.toml"
    path.write_text(CONFIG.replace("FEATURES", output), encoding="utf8")
    done = CliRunner().invoke(app, ["config", "features", str(path), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_features_says_which_way_and_why(tmp_path: Path) -> None:
    said = _features(tmp_path, '{ kind = "attributes" }')
    assert "log Z of 1,024 positions, in training: direct Φ(Wh + c), " in said
    assert "times fewer multiplications than a softmax over words" in said
    assert "log Z of one position: direct" in said
    assert "docs/scale.md#when-z-cannot-be-summed" not in said
    ways = json.loads(_features(tmp_path, '{ kind = "attributes" }', "--json"))["ways"]
    assert ways["positions"] == 1024
    assert ways["batch"][0]["name"] == "direct"
    assert ways["batch"][0]["multiplications"] < ways["batch"][1]["multiplications"] < ways["dense"]
    assert ways["kept"] == 0


def test_features_without_classes_point_at_the_objectives(tmp_path: Path) -> None:
    said = _features(tmp_path, '{ kind = "identity" }')
    assert "as many multiplications as a softmax over words" in said
    assert "hardly any two words have the same features" in said
    assert "docs/scale.md#when-z-cannot-be-summed" in said


def test_features_say_what_is_kept_where_knowledge_follows_the_text(tmp_path: Path) -> None:
    batches = "--set", "training.batches.kind=sliding", "--set", "training.batches.rows=100"
    said = _features(tmp_path, '{ kind = "attributes" }]\n[[contextual]]\nkind = "repeated"\n#', *batches)
    assert "log Z of 100 positions, in training" in said
    assert "MiB of scores are kept, for knowledge follows the text" in said
