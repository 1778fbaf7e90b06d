"""Where nothing stands out at a position: the short ways to log Z, samples and the best words; V is not touched."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import by_way
from llrnn.ground.errors import ZeroMassError
from llrnn.layer import distribution as distributions
from llrnn.layer import drawing
from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.masses import alias_of, log_masses
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import MINUS_INFINITY, ContextValues, SparsePrior, Table
from llrnn_lab.bench.inference import by_vocabulary
from llrnn_lab.bench.neural import french_like
from strategies import QUICK

V, G, H, N = 300, 40, 5, 4


def distribution(
    *, zeros: bool = False, ties: bool = False, matrix: FeatureMatrix | None = None, dtype: torch.dtype = torch.float64
) -> Distribution:
    generator = torch.Generator().manual_seed(1)
    matrix = matrix or french_like(V, G)
    layer = LogLinear(matrix, H, zero=True).to(dtype).requires_grad_(False)
    layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator))
    log_b = torch.randn(matrix.n_symbols, generator=generator, dtype=torch.float64)
    if ties:
        layer.weight.zero_()
        log_b = log_b.round()
    if zeros:
        log_b[torch.rand(len(log_b), generator=generator) < 0.5] = MINUS_INFINITY
    h = torch.randn(N, H, generator=generator).to(dtype)
    return Distribution(layer.weights(), h, SparsePrior.static(Table(log_b)), [])


@pytest.mark.parametrize(("zeros", "ties"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_short_ways_lead_to_the_same_numbers(zeros: bool, ties: bool) -> None:
    p = distribution(zeros=zeros, ties=ties)
    whole = torch.log_softmax(p.word_terms[0], -1)
    with torch.no_grad():
        torch.testing.assert_close(p.log_z, torch.logsumexp(p.word_terms[0], -1), rtol=0, atol=1e-12)
        for k in (1, 7, 60, V):
            log_p, words = by_way(p, "static").top(k)
            expected = torch.sort(whole, descending=True, stable=True)
            alive = expected.values[:, :k] > MINUS_INFINITY
            torch.testing.assert_close(log_p, expected.values[:, :k], rtol=0, atol=1e-12)
            assert torch.equal(words[alive], expected.indices[:, :k][alive])


def test_a_shift_of_all_words_changes_log_z_alone() -> None:
    p = distribution()
    shifted = Distribution(p.weights, p.h, SparsePrior(p.prior.tables, p.prior.shift + 3.0, p.prior.exceptions))  # type: ignore[union-attr]
    with torch.no_grad():
        torch.testing.assert_close(shifted.log_z, p.log_z + 3.0, rtol=0, atol=1e-12)
        torch.testing.assert_close(
            by_way(shifted, "static").top(9)[0], by_way(p, "static").top(9)[0], rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("zeros", [False, True])
def test_samples_are_as_frequent_as_their_probability(zeros: bool) -> None:
    p = distribution(zeros=zeros)
    count = 40_000
    drawn = p.sample((count,), generator=torch.Generator().manual_seed(4))
    assert drawn.shape == (count, N)
    expected = p.log_probs().exp()
    for n in range(N):
        found = torch.bincount(drawn[:, n], minlength=V) / count
        assert (found[expected[n] == 0] == 0).all()
        deviation = (found - expected[n]) / (expected[n] * (1 - expected[n]) / count).sqrt().clamp(min=1 / count)
        assert deviation.abs().max() < 5.5


def test_what_has_no_weight_is_never_drawn_even_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.tensor([[0.0, 1.0, 0.0, 3.0, 0.0]])
    for u, expected in ((0.0, 1), (0.24, 1), (0.25, 3), (1.0, 3)):  # 1.0: as if it had been rounded up
        monkeypatch.setattr(torch, "rand", lambda *size, u=u, **_: torch.full(size, u, dtype=torch.float64))
        assert drawing.inverted(weights, 2, None).tolist() == [[expected], [expected]]


def test_at_no_position_nothing_is_drawn() -> None:
    p = distribution()
    drawn = Distribution(p.weights, p.h[:0], p.prior).sample((2,))
    assert drawn.shape == (2, 0)
    assert drawn.dtype == torch.long


def test_nothing_possible_is_an_error() -> None:
    p = distribution()
    nothing = Table(torch.full((V,), MINUS_INFINITY, dtype=torch.float64))
    with pytest.raises(ZeroMassError):
        Distribution(p.weights, p.h, SparsePrior.static(nothing)).sample()


def test_what_stands_out_goes_the_general_way() -> None:
    p = distribution()
    assert p.static_mass is not None
    static = p.prior
    assert isinstance(static, SparsePrior)
    mixed = SparsePrior(static.tables * 2, static.shift.repeat(1, 2), static.exceptions)
    listed = SparsePrior.listed(static.tables[0], [{3: 0.5}] * N)
    values = ContextValues(torch.zeros(N, 1), torch.tensor([0]), torch.tensor([1]), torch.ones(1, 1))
    others = [Distribution(p.weights, p.h, prior) for prior in (mixed, listed, static.dense(N))]
    assert all(other.static_mass is None for other in others)
    assert Distribution(p.weights, p.h, static, [values]).static_mass is None


# --- alias tables --------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(any), st.integers(0, 12))
@QUICK
def test_alias_tables_hold_every_share(weights: list[float], power: int) -> None:
    share = np.array(weights) ** power * (np.array(weights) > 0)
    share = share / share.sum() if share.sum() > 0 else np.array([1.0])
    keep, alias = alias_of(share.copy())
    held = np.bincount(alias, weights=1 - keep, minlength=len(share)) + keep
    assert np.abs(held / len(share) - share).max() < 1e-14
    assert (held[share == 0] == 0).all()
    assert ((keep >= 0) & (keep <= 1)).all()


def test_alias_tables_are_made_for_the_classes_that_are_drawn() -> None:
    p = distribution()
    mass = p.classes.mass(p.prior.tables[0])
    large = int(p.classes.member_offsets.diff().argmax())
    mass.words.draw(torch.tensor([0, large, large]), None)
    made = mass.words._made
    assert made[large]
    assert int((~made).sum()) == int((p.classes.member_offsets.diff() > 1).sum()) - 1


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("n", "count"), [(1, 1), (1, 3), (2, 1), (2, 2)])
def test_one_by_one_the_same_words_are_drawn(monkeypatch: pytest.MonkeyPatch, zeros: bool, n: int, count: int) -> None:
    def drawn(few: int) -> list[list[list[int]]]:
        monkeypatch.setattr(distributions, "_FEW_DRAWS", few)
        whole, generator = distribution(zeros=zeros), torch.Generator().manual_seed(7)
        p = Distribution(whole.weights, whole.h[:n], whole.prior)
        return [p.sample((count,), generator=generator).tolist() for _ in range(300)]

    one_by_one = drawn(4)
    assert one_by_one == drawn(0)
    assert len({tuple(map(tuple, words)) for words in one_by_one}) > 10


def test_one_by_one_too_nothing_without_weight_is_drawn() -> None:
    ends = np.cumsum([0.0, 1.0, 0.0, 3.0, 0.0])
    assert [drawing._where(ends, u) for u in (0.0, 0.24, 0.25, 1.0)] == [1, 1, 3, 3]


# --- masses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1.0, 300.0, 3_000.0])  # the last two: far below the range of scaled numbers
def test_log_masses_are_the_sums_of_the_classes(spread: float) -> None:
    generator = torch.Generator().manual_seed(0)
    log_b = torch.randn(500, generator=generator, dtype=torch.float64) * spread
    class_of = torch.randint(0, 60, (500,), generator=generator)
    log_b[class_of == 3], log_b[0] = MINUS_INFINITY, MINUS_INFINITY
    found = log_masses(log_b, class_of, 61)  # class 60 has no member
    expected = torch.stack([torch.logsumexp(log_b[class_of == s], 0) for s in range(61)])
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    assert found[3] == found[60] == MINUS_INFINITY
    nothing = log_masses(torch.full_like(log_b, MINUS_INFINITY), class_of, 61)
    assert (nothing == MINUS_INFINITY).all()


# --- V is not touched ----------------------------------------------------------------------------------------------

ASKED: dict[str, Callable[[Distribution], object]] = {
    "log_prob": lambda p: p.log_prob(torch.zeros(N, dtype=torch.long)),
    "sample": lambda p: p.sample(),
    "top": lambda p: p.top(10),
}


class Sizes(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The largest tensor that any operation made; views are none."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        known = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        for made in out if isinstance(out, tuple | list) else [out]:
            if isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() not in known:
                self.largest = max(self.largest, made.numel())
        return out


@pytest.mark.parametrize("name", ASKED)
def test_a_step_makes_nothing_of_the_size_of_the_vocabulary(name: str) -> None:
    many = 100_000
    p = distribution(matrix=french_like(many, G), dtype=torch.float32)
    with torch.no_grad():
        for _ in range(100):  # tables that are made once
            ASKED[name](Distribution(p.weights, p.h, p.prior))
        with Sizes() as sizes:  # type: ignore[no-untyped-call]
            for _ in range(3):
                ASKED[name](Distribution(p.weights, p.h, p.prior))
    assert 0 < sizes.largest <= N * G * 2


@pytest.mark.slow
def test_a_step_takes_as_long_over_a_million_words() -> None:
    found = by_vocabulary(4_000, 256, 5)
    assert all(figures["ratio"] < 1.3 for figures in found.values()), found
