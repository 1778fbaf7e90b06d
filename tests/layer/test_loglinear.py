"""The log-linear layer against the direct sum over V, and what it does at the edges: no mass, hardly any mass."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args
from unittest import mock

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from brute import Array, Brute
from helpers import by_way
from llrnn.ground.errors import BackgroundError, NumericalError, ZeroMassError
from llrnn.layer.distribution import Distribution, Way
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.masses import Classes
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix
from llrnn.layer.numerics import class_logsumexp, segment_logsumexp
from llrnn.layer.priors import ContextValues, DensePrior, Exceptions, Prior, SparsePrior, Table
from llrnn.layer.weights import LayerWeights
from strategies import (
    MINUS_INFINITY,
    QUICK,
    Case,
    ContextKnowledge,
    Row,
    SparseKnowledge,
    cases,
    draws,
    feature_rows,
    matrix_of,
    sparse_knowledge,
)

pytestmark = pytest.mark.usefixtures("each_sum")


def close(found: Tensor, wanted: Array, tolerance: float = 1e-8) -> None:
    npt.assert_allclose(found.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


# --- values -------------------------------------------------------------------------------------------------------


@given(cases())
@QUICK
def test_log_z_and_log_probs_are_the_sum_over_v(case: Case) -> None:
    p, brute = case.distribution(), case.brute()
    close(p.log_z, brute.log_z)
    close(p.log_probs(), brute.log_probs)
    npt.assert_allclose(p.log_probs().detach().exp().sum(-1).numpy(), 1.0, atol=1e-9)


@given(cases())
@QUICK
def test_log_prob_of_every_word(case: Case) -> None:
    p, brute = case.distribution(), case.brute()
    for x in range(case.n_words):
        word = torch.full((case.n,), x)
        close(p.log_prob(word), brute.log_probs[:, x])
        npt.assert_allclose(p.log_b(word).numpy(), case.log_b[:, x], rtol=1e-12)
        npt.assert_array_equal(p.context_values(word).numpy(), brute.values[:, x])


@given(cases())
@QUICK
def test_entropy(case: Case) -> None:
    close(case.distribution().entropy(), case.brute().entropy, 1e-6)


@given(cases())
@QUICK
def test_expected_features_and_class_probabilities(case: Case) -> None:
    p, brute = case.distribution(), case.brute()
    close(p.expected_features(), brute.expected_features)
    wanted = np.zeros((case.n, p.classes.count))
    for x, klass in enumerate(p.classes.class_of.tolist()):
        wanted[:, klass] += brute.probs[:, x]
    close(p.class_probabilities(), wanted)


@given(cases())
@QUICK
def test_log_z_without_gradient_is_the_same_sum(case: Case) -> None:
    """Few rows over a small V are summed word by word; a minus infinity here and there included."""
    with torch.no_grad():
        close(case.distribution().log_z, case.brute().log_z)


@given(cases())
@QUICK
def test_every_way_to_log_z_gives_the_same_numbers(case: Case) -> None:
    word, expected = torch.arange(case.n) % case.n_words, case.brute().log_probs
    for way in get_args(Way):
        close(by_way(case.distribution(), way).log_prob(word), expected[np.arange(case.n), word.numpy()])


@given(cases(), st.integers(1, 12), st.sampled_from(["words", "static"]))
@QUICK
def test_top(case: Case, k: int, way: Way) -> None:
    """By walking down the classes, and from the whole row."""
    log_p, words = by_way(case.distribution(), way).top(k)
    brute = case.brute()
    assert words.shape == log_p.shape == (case.n, min(k, case.n_words))
    close(log_p, brute.top(k))
    close(log_p, np.take_along_axis(brute.log_probs, words.numpy(), 1))
    assert all(len(set(row)) == len(row) for row in words.tolist())


@given(cases())
@QUICK
def test_float32_is_close_to_float64(case: Case) -> None:
    p, brute = case.distribution(torch.float32), case.brute()
    targets = torch.tensor(case.possible_words())
    found = p.log_prob(targets)
    assert found.dtype == p.log_probs().dtype == p.entropy().dtype == torch.float32
    assert p.log_z.dtype == torch.float64  # beside large scores float32 has no digits left for it
    assert p.expected_features().dtype == p.top(1)[0].dtype == torch.float32
    close(found, brute.log_probs[np.arange(case.n), targets.numpy()], 2e-3)
    close(p.expected_features(), brute.expected_features, 2e-3)


# --- large weights ------------------------------------------------------------------------------------------------

LOUD = [0.0, 1.0, -3.0, 250.0, -1e3, 1e3, 999_997.0, 999_999.0, 1e6, -1e6]


@dataclass(frozen=True)
class LoudCase:
    """A case with weights of up to a million that float32 holds exactly, as it does their sums: a = W h, h one-hot."""

    case: Case
    a: list[list[float]]  # (N, m + k)

    def layer(self, dtype: torch.dtype) -> LogLinear:
        layer = LogLinear(matrix_of(self.case.rows), self.case.n, len(self.case.context), zero=True).to(dtype)
        m, a = layer.weight.shape[0], torch.tensor(self.a, dtype=dtype)
        with torch.no_grad():
            layer.weight.copy_(a[:, :m].t())
            layer.context_weight.copy_(a[:, m:].t())
        return layer

    def distribution(self, dtype: torch.dtype, cached: bool = False) -> Distribution:
        layer = self.layer(dtype).requires_grad_(not cached)
        made = layer(torch.eye(self.case.n, dtype=dtype), self.case.prior, self.case.values())
        assert isinstance(made, Distribution)
        return made

    def brute(self) -> Brute:
        return replace(self.case.brute(), a=np.array(self.a))


@st.composite
def loud_cases(draw: st.DrawFn) -> LoudCase:
    case = draw(cases(numbers=st.sampled_from([0.0, 1.0, -1.0, 0.5])))
    width = len(matrix_of(case.rows).names) + len(case.context)
    row = st.lists(st.sampled_from(LOUD), min_size=width, max_size=width)
    return LoudCase(case, draw(st.lists(row, min_size=case.n, max_size=case.n)))


# float32 rounds log b, here of as little as −2000, at the fourth digit behind the point
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-9), (torch.float32, 2e-4)])
@given(loud_cases())
@QUICK
def test_large_weights_lose_no_digits(dtype: torch.dtype, near: float, large: LoudCase) -> None:
    """0 ≤ H ≤ log V, totals of 1 and every log p, as summed in float64, whatever the weights."""
    brute, n, V = large.brute(), large.case.n, large.case.n_words
    with torch.no_grad():
        for p in (large.distribution(dtype), large.distribution(dtype, cached=True)):
            entropy = p.entropy().double().numpy()
            assert (entropy >= 0).all()
            assert (entropy <= math.log(V) + near).all()
            npt.assert_allclose(entropy, brute.entropy, atol=near)
            each = torch.stack([p.log_prob(torch.full((n,), x)) for x in range(V)], 1)
            for log_p in (each, p.log_probs(), large.distribution(dtype).log_probs()):
                assert log_p.dtype == dtype
                npt.assert_allclose(log_p.double().exp().sum(-1), 1.0, atol=near)
                npt.assert_allclose(log_p.double(), brute.log_probs, rtol=1e-6, atol=near)
            npt.assert_allclose(p.class_probabilities().double().sum(-1), 1.0, atol=near)
            npt.assert_allclose(p.expected_features().double(), brute.expected_features, atol=near)
            npt.assert_allclose(p.top(3)[0].double(), brute.top(3), rtol=1e-6, atol=near)
            npt.assert_allclose(p.log_z, brute.log_z, rtol=1e-9, atol=near)


@given(loud_cases())
@QUICK
def test_large_weights_have_the_gradient_of_the_sum(large: LoudCase) -> None:
    """Observed minus expected features: no NaN, and nothing of a shift."""
    layer, targets = large.layer(torch.float32), large.case.possible_words()
    p = layer(torch.eye(large.case.n), large.case.prior, large.case.values())
    p.log_prob(torch.tensor(targets)).sum().backward()
    weights = (layer.weight, layer.context_weight)
    found = torch.cat([torch.zeros_like(one) if one.grad is None else one.grad for one in weights])
    npt.assert_allclose(found.t(), large.brute().gradient(targets), atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@given(cases())
@QUICK
def test_half_precision_is_of_the_weights_alone(dtype: torch.dtype, case: Case) -> None:
    """The numbers of the distribution are those of a float64 model with the same weights and the same h."""
    short, h = case.layer(dtype), case.h(dtype)
    wide = copy.deepcopy(short).double()
    with torch.no_grad():
        p, wanted = short(h, case.prior, case.values()), wide(h.double(), case.prior, case.values())
        words = torch.tensor(case.possible_words())
        assert p.log_prob(words).dtype == torch.float32
        for found, expected in (
            (p.log_prob(words), wanted.log_prob(words)),
            (p.log_probs(), wanted.log_probs()),
            (p.entropy(), wanted.entropy()),
            (p.top(3)[0], wanted.top(3)[0]),
            (p.expected_features(), wanted.expected_features()),
        ):
            close(found.double(), expected.numpy(), 2e-4)
        generator = torch.Generator().manual_seed(case.seed)
        drawn = p.sample((20,), generator=generator)
        assert (p.log_probs()[torch.arange(case.n), drawn] > MINUS_INFINITY).all()


def test_feature_values_survive_half_precision() -> None:
    """A model that was in half precision for a while: weights are rounded, what is known of words is not."""
    layer = LogLinear(matrix_of([{"a": 0.1}, {"a": 0.3}]), 1, zero=True).double()
    again = copy.deepcopy(layer).half().double()
    with torch.no_grad():
        for one in (layer, again):
            one.bias.fill_(1.0)
    zero = torch.zeros(1, 1).double()
    assert torch.equal(again.weights().scores(zero), layer.weights().scores(zero))


@pytest.mark.parametrize("large", [0.0, 1e6])
@pytest.mark.parametrize("kind", ["static", "sparse", "dense"])
@pytest.mark.parametrize("cached", [False, True])
def test_long_rows_are_summed_to_the_last_digits(kind: str, large: float, cached: bool) -> None:
    """As many words as a novel has, the frequent ones first: added one by one in float32, the rare ones are lost."""
    V, generator = 45_000, torch.Generator().manual_seed(0)
    noise = torch.randn(V, generator=generator, dtype=torch.float64)
    log_b = -1.2 * torch.arange(1, V + 1).double().log() + 0.3 * noise
    prior: Prior = SparsePrior.static(Table(log_b))
    if kind == "sparse":
        prior = SparsePrior.listed(Table(log_b), [{0: float(log_b[0])}, {1: float(log_b[1])}])
    elif kind == "dense":
        prior = DensePrior(log_b.float()[None]).dense(2)
    everywhere, each = np.arange(V), np.ones(V)
    words = FeatureMatrix(tuple(map(str, range(V))), ("a",) * V, everywhere, np.arange(V + 1), everywhere, each)
    plain = LogLinear(words, 1, zero=True)
    with torch.no_grad():
        plain.bias.fill_(large)
    with torch.no_grad() if cached else torch.enable_grad():
        p = plain(torch.zeros(2, 1), prior)
        wanted = torch.log_softmax(log_b, 0)
        npt.assert_allclose(p.log_probs().detach().double().exp().sum(-1), 1.0, atol=3e-6)
        npt.assert_allclose(p.log_z.detach() - large, torch.logsumexp(log_b, 0).expand(2), atol=3e-6)
        npt.assert_allclose(p.log_prob(torch.tensor([0, V - 1])).detach(), wanted[[0, V - 1]], rtol=2e-7, atol=3e-6)
        npt.assert_allclose(p.entropy().detach(), -(wanted.exp() * wanted).sum().expand(2), atol=3e-5)


@pytest.mark.parametrize("number", [1e300, -1e300])
def test_log_b_that_float32_cannot_hold(number: float) -> None:
    with pytest.raises(BackgroundError, match=r"log b of a symbol must be within ±3.4e\+38"):
        Table(torch.tensor([0.0, number, MINUS_INFINITY], dtype=torch.float64))
    with pytest.raises(BackgroundError, match=r"log b at position 1 of word 2 must be within ±3.4e\+38"):
        Exceptions.listed([{}, {2: number}])


@pytest.mark.parametrize("number", [1e300, math.nan, math.inf])
def test_a_prior_of_numbers_that_are_none_is_told(number: float) -> None:
    """What a model as background, or one of the user's own, may answer."""
    p = LogLinear(matrix_of([{"a": 1.0}, {"b": 1.0}]), 1, zero=True)(
        torch.zeros(2, 1), DensePrior(torch.tensor([[0.0, 0.0], [0.0, number]]))
    )
    for ask in (p.log_probs, p.entropy, p.sample, lambda: p.top(1), p.expected_features):
        with pytest.raises(NumericalError, match="at position 1 of 2: log b or a·φ there is NaN or too large"):
            ask()


# --- gradients ----------------------------------------------------------------------------------------------------


@given(cases())
@QUICK
def test_gradient_is_observed_minus_expected(case: Case) -> None:
    layer, h = case.layer(), case.h().requires_grad_()
    targets = case.possible_words()
    layer(h, case.prior, case.values()).log_prob(torch.tensor(targets)).sum().backward()
    by_a = case.brute().gradient(targets)  # (N, m + k)
    m = layer.weight.shape[0]
    wanted = {
        "weight": by_a[:, :m].T @ h.detach().numpy(),
        "bias": by_a[:, :m].sum(0),
        "context_weight": by_a[:, m:].T @ h.detach().numpy(),
        "context_bias": by_a[:, m:].sum(0),
    }
    for name, parameter in layer.named_parameters():
        found = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        close(found, wanted[name])
    both = np.concatenate([layer.weight.detach().numpy(), layer.context_weight.detach().numpy()])
    assert h.grad is not None
    close(h.grad, by_a @ both)


def plain_log_probs(case: Case, layer: LogLinear, h: Tensor) -> Tensor:
    """The dense formula, for autograd to differentiate."""
    brute = case.brute()
    a = torch.cat([h @ layer.weight.t() + layer.bias, h @ layer.context_weight.t() + layer.context_bias], 1)
    scores = (torch.from_numpy(brute.phi) * a[:, None, :]).sum(-1) + torch.from_numpy(case.log_b)
    return scores - torch.logsumexp(scores, -1, keepdim=True)


def gradients(value: Tensor, layer: LogLinear, h: Tensor) -> list[Tensor]:
    leaves = [h, *(parameter for parameter in layer.parameters() if parameter.requires_grad)]
    return list(torch.autograd.grad(value, leaves, retain_graph=True, allow_unused=True, materialize_grads=True))


@given(cases())
@QUICK
def test_entropy_and_expectations_have_the_gradients_of_the_plain_formula(case: Case) -> None:
    layer, h = case.layer(), case.h().requires_grad_()
    p = layer(h, case.prior, case.values())
    log_p = plain_log_probs(case, layer, h)
    log_p = log_p.masked_fill(log_p == MINUS_INFINITY, -1e9)
    phi = torch.from_numpy(case.brute().phi)
    pairs = [
        (p.entropy().sum(), -(log_p.exp() * log_p).sum()),
        ((p.expected_features() ** 2).sum(), ((log_p.exp()[..., None] * phi).sum(1) ** 2).sum()),
        (p.log_probs().exp().square().sum(), log_p.exp().square().sum()),
    ]
    for found, wanted in pairs:
        for one, other in zip(gradients(found, layer, h), gradients(wanted, layer, h), strict=True):
            close(one, other.numpy(), 1e-5)


class Scoring(torch.nn.Module):
    """From h to the log-probabilities of the targets of a case."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.layer, self.case = case.layer(), case

    def forward(self, h: Tensor) -> Tensor:
        found: Tensor = self.layer(h, self.case.prior, self.case.values()).log_prob(
            torch.tensor(self.case.possible_words())
        )
        return found


@given(cases(max_words=6))
@settings(QUICK, max_examples=draws(25))
def test_gradcheck(case: Case) -> None:
    scoring = Scoring(case)
    named = {name: p.detach().clone().requires_grad_() for name, p in scoring.named_parameters() if p.numel()}

    def log_prob(h: Tensor, *weights: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(scoring, dict(zip(named, weights, strict=True)), (h,))
        return found

    assert torch.autograd.gradcheck(log_prob, (case.h().requires_grad_(), *named.values()), atol=1e-5)


def test_second_derivatives_are_refused_rather_than_wrong() -> None:
    layer = LogLinear(matrix_of([{"a": 1.0}, {"b": 1.0}]), 1, zero=True).double()
    prior = SparsePrior.static(Table(torch.zeros(2)))
    p = layer(torch.ones(1, 1, dtype=torch.float64), prior)
    (first,) = torch.autograd.grad(p.log_z.square().sum(), layer.bias, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        torch.autograd.backward(first[0])


# --- one knowledge, three forms -----------------------------------------------------------------------------------


def answers(p: Distribution, targets: Tensor) -> list[Tensor]:
    best, _ = p.top(3)
    return [p.log_z, p.log_prob(targets), p.log_probs(), p.entropy(), p.expected_features(), best]


@given(cases(kinds=["static", "sparse", "mixture"]))
@QUICK
def test_sparse_is_dense(case: Case) -> None:
    targets = torch.tensor(case.possible_words())
    written_out = DensePrior(torch.from_numpy(case.log_b))
    for one, other in zip(
        answers(case.distribution(), targets), answers(case.distribution(prior=written_out), targets), strict=True
    ):
        close(one, other.detach().numpy(), 1e-6)


@given(st.data())
@settings(QUICK, max_examples=draws(25))
def test_a_static_table_is_the_same_as_exceptions_and_as_dense(data: st.DataObject) -> None:
    """The same b as a table, as nothing but exceptions over an empty table, and written out for all positions."""
    rows = data.draw(feature_rows(5))
    known = data.draw(sparse_knowledge(rows, 3, tables=1, exceptions=False))
    log_b = known.log_b()
    empty = SparseKnowledge([[MINUS_INFINITY] * 5], [[0.0]], [dict(enumerate(row)) for row in log_b.tolist()])
    forms: list[Prior] = [
        known.prior(),
        empty.prior(),
        DensePrior(torch.from_numpy(log_b)),
        DensePrior(torch.from_numpy(log_b[:1])),
    ]
    case = Case(rows, forms[0], log_b, [], 5, 2)
    targets = torch.tensor(case.possible_words())
    first, *others = [answers(case.distribution(prior=form), targets) for form in forms]
    for other in others:
        for one, same in zip(first, other, strict=True):
            close(one, same.detach().numpy(), 1e-6)


@given(cases(kinds=["sparse", "mixture"]))
@QUICK
def test_dense_and_at_write_the_prior_out(case: Case) -> None:
    prior = case.prior
    close(prior.dense(case.n).log_b, case.log_b, 1e-12)
    position = torch.arange(case.n).repeat_interleave(case.n_words)
    word = torch.arange(case.n_words).repeat(case.n)
    close(prior.at(position, word).view(case.n, -1), case.log_b, 1e-12)


@given(cases(), st.sampled_from([0.5, 1.0, 2.0, 0.0]))
@QUICK
def test_powered_raises_b_at_every_word(case: Case, exponent: float) -> None:
    log_b = np.where(
        case.log_b == MINUS_INFINITY, MINUS_INFINITY, np.where(np.isinf(case.log_b), 0, case.log_b) * exponent
    )
    powered = case.prior.powered(exponent)
    close(powered.dense(case.n).log_b, log_b, 1e-9)
    same = Case(case.rows, powered, log_b, case.context, case.seed, case.hidden)
    close(same.distribution().log_probs(), same.brute().log_probs)


def test_powered_of_one_table_is_remembered_and_stays_sparse() -> None:
    table = Table(torch.tensor([0.0, -1.0]))
    shift = torch.tensor([[-1.0], [0.0]], dtype=torch.float64)
    prior = SparsePrior((table,), shift, Exceptions.listed([{0: -2.0}, {}]))
    powered = prior.powered(0.5)
    assert isinstance(powered, SparsePrior)
    assert powered.tables == (table.powered(0.5),)
    npt.assert_allclose(powered.dense(2).log_b.numpy(), [[-1.0, -1.0], [0.0, -0.5]])


@given(cases())
@QUICK
def test_composed_scores_are_direct_scores(case: Case) -> None:
    layer, h, weights = case.layer(), case.h(), case.layer().weights()
    close(weights.composed_scores(h), weights.direct_scores(h).detach().numpy(), 1e-12)
    m = layer.weight.shape[0]
    brute = case.brute()
    first_of_class = [int(layer.classes.members_of(s)[0]) for s in range(layer.classes.count)]
    close(weights.scores(h), np.einsum("nvm,nm->nv", brute.phi[:, first_of_class, :m], brute.a[:, :m]), 1e-9)


@pytest.mark.parametrize(("n", "way"), [(1, "direct_scores"), (10_000, "composed_scores")])
def test_the_cheaper_way_is_chosen(n: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many features as classes: composing pays for many positions, and never for one."""
    layer = LogLinear(matrix_of([{f"f{i}": 1.0, f"f{i + 1}": 1.0, "all": 1.0} for i in range(50)]), 64, zero=True)
    marked = torch.full((n, 50), 7.0)
    monkeypatch.setattr(LayerWeights, way, lambda self, h, *offset: marked)
    assert torch.equal(layer.weights().scores(torch.zeros(n, 64)), marked)


# --- sampling -----------------------------------------------------------------------------------------------------

ROWS: list[Row] = [*[{"a": 1.0}] * 3, *[{"b": 0.5}] * 3, {}, {}, {"a": 1.0, "b": -1.0}]
FLAT = [-1.0] * 9
STEEP = [0.0, -1.0, MINUS_INFINITY, -2.0, math.log(1e-12), 0.5, MINUS_INFINITY, MINUS_INFINITY, 0.0]


def sparse_case(
    tables: list[list[float]],
    shift: list[list[float]],
    exceptions: list[dict[int, float]],
    context: Sequence[ContextKnowledge] = (),
    rows: list[Row] = ROWS,
) -> Case:
    known = SparseKnowledge(tables, shift, exceptions)
    return Case(rows, known.prior(), known.log_b(), list(context), 3, 2)


SAMPLED: Mapping[str, Case] = {
    "static": sparse_case([STEEP], [[0.0]], [{}, {}]),
    "exceptions": sparse_case([FLAT], [[0.0], [-1.0]], [{0: 0.3, 4: -2.0, 8: MINUS_INFINITY}, {3: 1.0}]),
    "zero exceptions at both ends": sparse_case([FLAT], [[0.0]], [{0: MINUS_INFINITY, 5: 1.0, 8: MINUS_INFINITY}] * 3),
    "mixture": sparse_case(
        [STEEP, FLAT], [[-1.0, 0.0], [0.0, -3.0], [MINUS_INFINITY, 0.0]], [{0: 0.5}, {}, {1: -1.0, 2: -0.5}]
    ),
    "class nearly emptied": sparse_case(
        [[0.0, math.log(1e-9), 0.0, *FLAT[3:]]], [[0.0]], [{0: -30.0, 2: -30.0, **dict.fromkeys(range(3, 9), -30.0)}]
    ),
    "class emptied": sparse_case([STEEP], [[0.0]], [{0: -1.0, 1: -1.0}, {3: -1.0, 4: 0.0, 5: MINUS_INFINITY}]),
    "only exceptions": sparse_case([FLAT], [[MINUS_INFINITY]], [{1: -1.0, 2: 0.0, 3: MINUS_INFINITY}]),
    "context": sparse_case(
        [FLAT], [[0.0], [0.0]], [{}, {2: 0.5}], [ContextKnowledge([0.5, -1.0], [{1: 2.0, 2: -1.0}, {5: 1.0}])]
    ),
    "context over a mixture": sparse_case(
        [STEEP, FLAT], [[0.0, -1.0]], [{}, {}], [ContextKnowledge([0.5, 0.5], [{0: 2.0}, {5: 0.0}])]
    ),
}
DENSE = {
    f"dense {name}": Case(c.rows, DensePrior(torch.from_numpy(c.log_b)), c.log_b, c.context, c.seed, c.hidden)
    for name, c in SAMPLED.items()
}


def check_frequencies(case: Case, count: int, seed: int) -> None:
    """Within six standard deviations, for every word; a word without mass never."""
    drawn = case.distribution().sample((count,), generator=torch.Generator().manual_seed(seed))
    assert drawn.shape == (count, case.n)
    for n, p in enumerate(case.brute().probs):
        seen = np.bincount(drawn[:, n].numpy(), minlength=case.n_words)
        assert not seen[case.log_b[n] == MINUS_INFINITY].any()
        slack = 6 * np.sqrt(count * p * (1 - p)) + 6
        assert (np.abs(seen - count * p) <= slack).all(), (n, seen, count * p)


@pytest.mark.parametrize("name", [*SAMPLED, *DENSE])
def test_sampling_frequencies(name: str) -> None:
    # words of a class that is nearly empty are drawn one by one
    check_frequencies({**SAMPLED, **DENSE}[name], 4000 if name == "class nearly emptied" else 40_000, 1)


@given(cases())
@settings(QUICK, max_examples=draws(40), derandomize=True)
def test_sampling_frequencies_of_any_case(case: Case) -> None:
    check_frequencies(case, 2000, case.seed)


@pytest.mark.parametrize("name", [*SAMPLED, *DENSE])
def test_values_of_the_sampled_cases(name: str) -> None:
    """Chosen so that each way through the masses matters to the answer."""
    case = {**SAMPLED, **DENSE}[name]
    p, brute = case.distribution(), case.brute()
    close(p.log_probs(), brute.log_probs)
    close(p.entropy(), brute.entropy, 1e-7)
    close(p.expected_features(), brute.expected_features)
    for k in (1, 2, 9):
        close(p.top(k)[0], brute.top(k))
        close(by_way(p, "static").top(k)[0], brute.top(k))


def test_top_looks_behind_classes_whose_best_words_have_left() -> None:
    """The two classes that promise most hold nothing but exceptions, which are worth little."""
    rows: list[Row] = [{f"f{x}": 1.0} for x in range(5)]
    case = sparse_case([[50.0, 40.0, 30.0, 20.0, 10.0]], [[0.0]], [{0: -50.0, 1: -50.0}], rows=rows)
    log_p, words = by_way(case.distribution(), "static").top(2)
    assert words.tolist() == [[2, 3]]
    close(log_p, case.brute().top(2))


def test_samples_are_the_generators() -> None:
    p = SAMPLED["mixture"].distribution()
    first, again, other = (p.sample((50,), generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert p.sample().shape == (3,)


# --- no mass ------------------------------------------------------------------------------------------------------

IMPOSSIBLE: Mapping[str, Callable[[], Prior]] = {
    "static": lambda: SparsePrior.static(Table(torch.full((3,), MINUS_INFINITY))),
    "exceptions": lambda: SparsePrior.listed(Table(torch.zeros(3)), [{}, dict.fromkeys(range(3), MINUS_INFINITY)]),
    "dense": lambda: DensePrior(torch.tensor([[0.0, 0.0, 0.0], [MINUS_INFINITY] * 3])),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("ask", ["sample", "top", "entropy", "expected_features", "log_probs", "require_mass"])
def test_nothing_possible_is_an_error_that_names_the_position(name: str, ask: str) -> None:
    layer = LogLinear(matrix_of([{"a": 1.0}, {"a": 1.0}, {}]), 2, zero=True)
    p = layer(torch.zeros(2, 2), IMPOSSIBLE[name]())
    position = 0 if name == "static" else 1
    with pytest.raises(ZeroMassError, match=f"at position {position}: nothing can follow; allow at least one"):
        p.top(1) if ask == "top" else getattr(p, ask)()
    with torch.no_grad(), pytest.raises(ZeroMassError, match=f"at position {position}"):
        layer(torch.zeros(2, 2), IMPOSSIBLE[name]()).require_mass()
    assert p.log_z[position] == MINUS_INFINITY


def test_a_rest_without_mass_has_gradient_zero_not_nan() -> None:
    """Everything stands alone: the rest is minus infinity in every class, and only the exceptions move a."""
    case = sparse_case([FLAT], [[0.0]], [dict(enumerate(FLAT)), {}], [ContextKnowledge([1.0, 1.0], [{0: 2.0}, {}])])
    layer, h = case.layer(), case.h().requires_grad_()
    p = layer(h, case.prior, case.values())
    (p.log_prob(torch.tensor([1, 2])) + p.entropy()).sum().backward()
    for tensor in (h, *layer.parameters()):
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()


def test_class_logsumexp_of_nothing() -> None:
    scores = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    log_mass = torch.tensor([[MINUS_INFINITY] * 3, [0.0, MINUS_INFINITY, 0.0]])
    nowhere = torch.zeros(0, dtype=torch.long)
    log_sum, picked = class_logsumexp(scores, log_mass, None, nowhere, nowhere)
    torch.autograd.backward(log_sum[1])
    assert picked.shape == (0,)
    assert log_sum.tolist() == [MINUS_INFINITY, pytest.approx(math.log(2))]
    assert scores.grad is not None
    assert scores.grad.tolist() == [[0.0, 0.0, 0.0], [0.5, 0.0, 0.5]]


def test_segment_logsumexp_of_nothing() -> None:
    values = torch.tensor([MINUS_INFINITY, 1.0, 2.0, -800.0], dtype=torch.float64, requires_grad=True)
    found = segment_logsumexp(values, torch.tensor([0, 2, 2, 3]), 4)
    torch.autograd.backward(found[2:].sum())
    npt.assert_allclose(found.detach().numpy(), [MINUS_INFINITY, MINUS_INFINITY, np.logaddexp(1, 2), -800.0])
    assert values.grad is not None
    npt.assert_allclose(values.grad.numpy(), [0.0, 1 / (1 + math.e), math.e / (1 + math.e), 1.0])


# --- masses -------------------------------------------------------------------------------------------------------


def rest_mass(log_b: list[float], gone: list[int]) -> float:
    """log of what is left of one class without some of its words."""
    classes = Classes(matrix_of([{"a": 1.0}] * len(log_b)))
    prior = SparsePrior.static(Table(torch.tensor(log_b, dtype=torch.float64)))
    word = torch.tensor(gone)
    return float(classes.log_rest(prior, word, classes.left_by(torch.zeros_like(word), word)))


@pytest.mark.parametrize("little", [1e-3, 0.9e-6, 1.1e-6, 1e-9, 1e-17, 1e-300])
def test_what_is_left_keeps_its_digits(little: float) -> None:
    assert rest_mass([0.0, math.log(little), 0.0], [0, 2]) == pytest.approx(math.log(little), rel=1e-9)


def test_nothing_left_is_exactly_nothing() -> None:
    third = [math.log(1 / 3)] * 3
    assert rest_mass(third, [0, 1, 2]) == MINUS_INFINITY
    assert rest_mass([*third, MINUS_INFINITY], [0, 1, 2]) == MINUS_INFINITY
    assert rest_mass([0.0, MINUS_INFINITY, -1.0], [1]) == pytest.approx(np.logaddexp(0.0, -1.0))


def test_class_masses_are_computed_once_for_a_table() -> None:
    classes = Classes(matrix_of([{"a": 1.0}, {"a": 1.0}, {}]))
    table = Table(torch.tensor([0.0, -1.0, -2.0]))
    assert classes.mass(table) is classes.mass(table)
    npt.assert_allclose(classes.mass(table).log_mass.numpy(), [np.logaddexp(0.0, -1.0), -2.0])
    assert classes.mass(table).best_log_b.tolist() == [0.0, -2.0]


# --- priors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_table_refuses_what_is_no_log_mass(wrong: float) -> None:
    with pytest.raises(BackgroundError, match="below infinity for every symbol, found NaN or infinity"):
        Table(torch.tensor([0.0, wrong]))


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_exceptions_refuse_what_is_no_log_mass(wrong: float) -> None:
    with pytest.raises(BackgroundError, match=r"position 1.*word 2.*found (nan|inf)"):
        Exceptions.listed([{}, {2: wrong}])


@pytest.mark.parametrize("word", [-1, 2])
def test_exceptions_refuse_words_that_are_none(word: int) -> None:
    with pytest.raises(BackgroundError, match=rf"position 0.*{word}.*0 to 1"):
        SparsePrior.listed(Table(torch.zeros(2)), [{word: 0.0}])


def test_tables_multiply_once() -> None:
    left, right = Table(torch.tensor([0.0, -1.0])), Table(torch.tensor([-1.0, MINUS_INFINITY]))
    assert left.times(right) is left.times(right)
    assert left.times(right).log_b.tolist() == [-1.0, MINUS_INFINITY]


def test_moving_to_the_same_device_changes_nothing() -> None:
    device = torch.device("cpu")
    table = Table(torch.zeros(2))
    sparse, dense = SparsePrior.static(table), DensePrior(torch.zeros(1, 2))
    assert table.to(device) is table
    assert sparse.to(device) is sparse
    assert dense.to(device) is dense


def test_moving_to_another_device_happens_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "_check", lambda self: None)  # the meta device holds no numbers to look at
    meta = torch.device("meta")
    prior = SparsePrior.listed(Table(torch.zeros(2)), [{0: -1.0}])
    moved = prior.to(meta)
    assert moved.shift.device == moved.exceptions.log_b.device == moved.tables[0].log_b.device == meta
    assert prior.to(meta).tables[0] is moved.tables[0]
    assert DensePrior(torch.zeros(1, 2)).to(meta).log_b.device == meta


def test_sparse_prior_says_what_it_is() -> None:
    static = SparsePrior.static(Table(torch.zeros(3)))
    listed = SparsePrior.listed(Table(torch.zeros(3)), [{2: -1.0, 0: -2.0}, {}])
    assert (static.n, static.n_symbols, static.is_static) == (1, 3, True)
    assert (listed.n, listed.n_symbols, listed.is_static) == (2, 3, False)
    assert listed.exceptions.word.tolist() == [0, 2]
    assert DensePrior(torch.zeros(2, 3)).n_symbols == 3
    assert len(static.exceptions) == 0


def test_context_values_know_their_width() -> None:
    empty = torch.zeros(0, dtype=torch.long)
    assert ContextValues(torch.zeros(2, 3), empty, empty, torch.zeros(0, 3)).width == 3


# --- the sparse product -------------------------------------------------------------------------------------------


identities = st.integers(2, 7).map(lambda size: [{f"f{x}": 1.0} for x in range(size)])


@given(st.one_of(st.integers(2, 7).flatmap(feature_rows), identities), st.booleans(), st.data())
@QUICK
def test_sparse_matrix_products(rows: list[Row], apart: bool, data: st.DataObject) -> None:
    """Also where columns that many classes have stand apart."""
    matrix = matrix_of(rows)
    with mock.patch.multiple("llrnn.layer.matrix", _FEWEST_DENSE=1 if apart else 100, _FEWEST_CLASSES=1):
        phi = SparseMatrix(matrix)
    written = torch.zeros(matrix.n_classes, matrix.n_features, dtype=torch.float64)
    for x, row in enumerate(rows):
        for name, value in row.items():
            if value:
                written[matrix.class_of[x], matrix.names.index(name)] = value
    dense = torch.randn(matrix.n_features, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    back = torch.randn(matrix.n_classes, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    picked = torch.tensor(data.draw(st.lists(st.integers(0, matrix.n_classes - 1))), dtype=torch.long)
    close(phi @ dense, (written @ dense).numpy(), 1e-12)
    close(phi @ dense[:, 0], (written @ dense[:, 0]).numpy(), 1e-12)
    close(phi.transposed(back), (written.t() @ back).numpy(), 1e-12)
    close(phi.rows(dense, picked), (written[picked] @ dense).numpy(), 1e-12)
    assert phi.nnz == int((written != 0).sum())
