"""The fused layer against float64 autograd on the written-out logits; on a GPU, the kernels against their reference."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import banded_features
from llrnn.layer import kernels, reference
from llrnn.layer.chunked import Plan, Problem, weighted_loss
from llrnn.layer.matrix import FeatureMatrix, KernelMatrix, SparseMatrix
from llrnn.layer.reference import LogitOffsets

N, G, M, H = 37, 83, 31, 20
Leaves = tuple[Tensor, Tensor, Tensor]
CUDA = torch.cuda.is_available()


def _phi(device: str, dtype: torch.dtype, identity: bool = False, apart: bool = False) -> tuple[KernelMatrix, Tensor]:
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((G, M)) < 0.15, rng.normal(size=(G, M)), 0.0)
    dense[:, 0] = 1.0  # one long row of the transposed matrix
    dense[5] = 0.0  # a class without features
    if identity:
        dense = np.eye(G)
    row, column = np.nonzero(dense)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=G))]).astype(np.int64)
    names = tuple(map(str, range(dense.shape[1])))
    with mock.patch.multiple("llrnn.layer.matrix", _FEWEST_DENSE=1 if apart else 100, _FEWEST_CLASSES=1):
        matrix = SparseMatrix(FeatureMatrix(names, names, np.arange(G), offsets, column, dense[row, column]))
    return matrix.for_kernels(torch.zeros(0, device=device, dtype=dtype)), torch.from_numpy(dense).to(device)


def _inputs(device: str, dtype: torch.dtype, features: int) -> tuple[Leaves, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(device, dtype).requires_grad_()

    leaves = leaf(N, H), leaf(features, H), leaf(features)
    log_mass = torch.randn(G, generator=generator, dtype=torch.float64)
    log_mass[7] = float("-inf")
    klass = torch.randint(8, G, (N,), generator=generator)
    return leaves, log_mass.to(device), klass.to(device)


def _reference(leaves: Leaves, log_mass: Tensor, klass: Tensor, dense: Tensor) -> tuple[Tensor, Tensor]:
    h, weight, bias = leaves
    terms = h @ (dense @ weight).t() + dense @ bias + log_mass
    return torch.logsumexp(terms, 1), terms.gather(1, klass[:, None])[:, 0]


@pytest.mark.parametrize("kind", ["sparse", "identity", "with a dense column"])
@pytest.mark.parametrize("rows", [N, 10])
def test_the_loss_is_the_written_out_sum(kind: str, rows: int) -> None:
    phi, dense = _phi("cpu", torch.float64, kind == "identity", kind == "with a dense column")
    leaves, log_mass, klass = _inputs("cpu", torch.float64, dense.shape[1])
    plan, problem = Plan(torch.float64, torch.float64, rows), Problem(phi, log_mass, klass)
    w = torch.randn(N, dtype=torch.float64)
    log_sum, score = _reference(leaves, log_mass, klass, dense)
    loss, surprisal = weighted_loss(*leaves, problem, w, plan)
    torch.testing.assert_close(surprisal, log_sum - score)
    exact = (w * (log_sum - score)).sum()
    torch.testing.assert_close(loss, exact)
    torch.testing.assert_close(torch.autograd.grad(3 * loss, leaves), torch.autograd.grad(3 * exact, leaves))


BANDS = {"bands": (27, 12, (26, 5), (30, 3)), "bands alone": (0, 0, (40, 7), (43, 2))}


def _banded(kind: str, device: str) -> tuple[SparseMatrix, Tensor]:
    features = banded_features(*BANDS[kind])
    dense = torch.zeros(G, features.n_features, dtype=torch.float64)
    row = np.repeat(np.arange(G), np.diff(features.offsets))
    dense[row, features.columns] = torch.from_numpy(features.values)
    return SparseMatrix(features).to(device), dense.to(device)


@pytest.mark.parametrize("kind", BANDS)
@pytest.mark.parametrize("rows", [N, 10])
def test_bands_are_the_written_out_sum(kind: str, rows: int) -> None:
    phi, dense = _banded(kind, "cpu")
    leaves, log_mass, klass = _inputs("cpu", torch.float64, phi.n_features)
    problem = Problem(phi.for_kernels(leaves[1]), log_mass, klass)
    weights = torch.randn(N, dtype=torch.float64)
    log_sum, score = _reference(leaves, log_mass, klass, dense)
    loss, surprisal = weighted_loss(*leaves, problem, weights, Plan(torch.float64, torch.float64, rows))
    torch.testing.assert_close(surprisal, log_sum - score)
    exact = (weights * (log_sum - score)).sum()
    torch.testing.assert_close(loss, exact)
    torch.testing.assert_close(torch.autograd.grad(3 * loss, leaves), torch.autograd.grad(3 * exact, leaves))


@pytest.mark.skipif(not CUDA, reason="no GPU")
@pytest.mark.parametrize("kind", BANDS)
@pytest.mark.parametrize("rows", [N, 16])
def test_bands_on_the_gpu(kind: str, rows: int) -> None:
    phi, dense = _banded(kind, "cuda")
    leaves, log_mass, klass = _inputs("cuda", torch.float32, phi.n_features)
    h, weight, bias = (leaf.detach().double().requires_grad_() for leaf in leaves)
    log_sum, score = _reference((h, weight, bias), log_mass, klass, dense)
    gradients = torch.autograd.grad((log_sum - score).mean(), (h, weight, bias))
    problem = Problem(phi.for_kernels(leaves[1]), log_mass, klass)
    for dtypes, tolerance in (((torch.float32, torch.float32), 1e-5), ((torch.float16, torch.bfloat16), 1e-2)):
        loss, _ = weighted_loss(*leaves, problem, None, Plan(*dtypes, rows))
        for one, other in zip(torch.autograd.grad(loss, leaves), gradients, strict=True):
            assert float((one.double() - other).norm() / other.norm()) < tolerance


def test_a_log_sum_over_nothing_has_no_gradient() -> None:
    (_, _, _), log_mass, klass = _inputs("cpu", torch.float64, M)
    (log_sum, score), w = torch.zeros(2, N, dtype=torch.float64), torch.ones(N, dtype=torch.float64)
    nothing, d = torch.full((N, G), float("-inf"), dtype=torch.float64), torch.zeros(N, G, dtype=torch.float64)
    reference.log_sums(nothing, log_mass, klass, log_sum, score)
    reference.gradients(nothing, log_mass, klass, log_sum, w, d, torch.zeros(1, G, dtype=torch.float64))
    assert bool((log_sum == float("-inf")).all())
    assert torch.equal(d, -F.one_hot(klass, G).double())  # that of the score alone


def _logit_offsets(device: str, dtype: torch.dtype, *, filled: int = 0) -> LogitOffsets:
    """Some words at most positions, two of them in one class, one alone in its class; and what fills up."""
    generator = torch.Generator().manual_seed(3)
    listed = [(n, s) for n in range(0, N, 2) for s in range(n % 3, G, 3)] + [(0, 3), (2, 5), (7, 5)]
    position, klass = torch.tensor(sorted(listed)).t()
    share = torch.rand(len(klass), generator=generator, dtype=dtype) / 2
    share[klass == 1] = 1.0
    value = 6 * torch.randn(len(klass), 2, generator=generator, dtype=dtype)
    a = torch.randn(N, 2, generator=generator, dtype=dtype)
    position, klass = F.pad(position, (0, filled), value=N), F.pad(klass, (0, filled))
    share, value = F.pad(share, (0, filled)), F.pad(value, (0, 0, 0, filled))
    return LogitOffsets(*(part.to(device) for part in (position, klass, share, value, a)))


@pytest.mark.parametrize("filled", [0, 5])
@pytest.mark.parametrize("louder", [1.0, 12.0])
def test_gains_are_those_of_single_words(filled: int, louder: float) -> None:
    """Against masses written out word by word, with their gradients; also where exp(gain) is no number of float32."""
    phi, dense = _phi("cpu", torch.float64)
    (h, weight, bias), log_mass, klass = _inputs("cpu", torch.float64, dense.shape[1])
    logit_offsets = _logit_offsets("cpu", torch.float64, filled=filled)
    leaves = (h, weight, bias, (louder * logit_offsets.weights).requires_grad_())
    position, s, share, value, _ = (part[: len(part) - filled] for part in logit_offsets)
    gone, become = torch.zeros(2, N, G, dtype=torch.float64)
    gone = gone.index_put((position, s), share, accumulate=True)
    become = become.index_put((position, s), share * (leaves[3][position] * value).sum(-1).exp(), accumulate=True)
    x = h @ (dense @ weight).t() + dense @ bias + log_mass
    expected = ((x + (1 - gone + become).log()).logsumexp(1) - x.gather(1, klass[:, None])[:, 0]).mean()
    problem = Problem(phi, log_mass, klass)
    found, _ = weighted_loss(h, weight, bias, problem, logit_offsets=logit_offsets._replace(weights=leaves[3]))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves))


@pytest.mark.skipif(not kernels.available, reason="no Triton")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_kernels_of_gains_are_their_twin(dtype: torch.dtype) -> None:
    device = "cuda" if CUDA else "cpu"  # on the CPU with TRITON_INTERPRET=1
    logit_offsets, filled = _logit_offsets(device, torch.float32, filled=3), 3
    x, bias, w = torch.randn(N, G, device=device).to(dtype), torch.randn(G, device=device), torch.rand(N, device=device)
    results = []
    for ops in (kernels, reference):
        logits = x.clone()
        found = ops.offset_logits(logits, logit_offsets)
        log_sum = (logits.float() + bias).logsumexp(1)
        words = [part[:-filled] for part in found]
        results.append((logits, *words, ops.offset_gradients(logit_offsets, found, bias, log_sum, w)))
    torch.testing.assert_close(*results, rtol=1e-5 if dtype == torch.float32 else 2e-3, atol=1e-5)


@pytest.mark.skipif(not kernels.available, reason="no Triton")
@pytest.mark.parametrize("identity", [False, True])
def test_the_kernels_are_their_twin(identity: bool) -> None:
    device = "cuda" if CUDA else "cpu"  # on the CPU with TRITON_INTERPRET=1
    phi, dense = _phi(device, torch.float32, identity)
    (h, weight, bias), log_mass, klass = _inputs(device, torch.float32, dense.shape[1])
    h, weight, bias, log_mass = h.detach(), weight.detach(), bias.detach(), log_mass.float()
    scale = torch.tensor(0.7, device=device)
    offset = F.pad(log_mass, (0, phi.rows.n_rows - G))
    for rows, arguments in (
        (phi.rows, (weight, bias, offset, None, torch.float32)),
        (phi.columns, (torch.randn(G, H, device=device), torch.randn(G, device=device), None, scale, torch.float32)),
    ):
        torch.testing.assert_close(
            kernels.row_sums(rows, *arguments), reference.row_sums(rows, *arguments), rtol=1e-5, atol=1e-5
        )
    x = h @ torch.randn(H, G, device=device)
    x[3] = float("-inf")
    results = []
    for ops, parts in ((kernels, 8), (reference, 1)):
        log_sum, score = torch.full((2, N), float("nan"), device=device)
        ops.log_sums(x, log_mass, klass, log_sum, score)
        out, sums = torch.full_like(x, float("nan")), torch.ones(parts, G, device=device) / parts
        g = torch.linspace(-1, 1, N, device=device)
        ops.gradients(x, log_mass, klass, log_sum, g, out, sums)
        scaled = torch.full_like(h, float("nan"))
        ops.convert(h, scale, scaled)
        results.append((log_sum, score, out, sums.sum(0), scaled))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not CUDA, reason="no GPU")
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("rows", [N, 16])
def test_on_the_gpu_float32_is_exact_and_bfloat16_near(rows: int, apart: bool) -> None:
    phi, _ = _phi("cuda", torch.float32, apart=apart)
    _, dense = _phi("cuda", torch.float64)
    leaves, log_mass, klass = _inputs("cuda", torch.float32, M)
    h, weight, bias = (leaf.detach().double().requires_grad_() for leaf in leaves)
    doubles = h, weight, bias
    expected = _reference(doubles, log_mass, klass, dense)
    loss = (expected[0] - expected[1]).mean()
    gradients = torch.autograd.grad(loss, doubles)
    problem = Problem(phi, log_mass, klass)
    half = torch.float16, torch.bfloat16
    for dtypes, tolerance in (((torch.float32, torch.float32), 1e-5), (half, 5e-3), ((half[1], half[1]), 3e-2)):
        plan = Plan(*dtypes, rows)
        ours = torch.autograd.grad(weighted_loss(*leaves, problem, None, plan)[0], leaves)
        for one, other in zip(ours, gradients, strict=True):
            assert float((one.double() - other).norm() / other.norm()) < tolerance
