"""Bodies that only comparisons have: the laws of controllers, their equations, and model folders that hold them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers import script_environment, small_features, small_vocabulary
from llrnn import LLRNN, load
from llrnn.model.testing import check_controller
from llrnn_lab.bodies import BODIES, FeedForward, Jordan, MinGRU, Reservoir, body, recur, recur_in_passes


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kind", BODIES)
def test_the_laws_hold(kind: str) -> None:
    check_controller(body(kind, 5, inputs=3, dropout=0.2))


@pytest.mark.parametrize("kind", BODIES)
def test_a_model_folder_opens_here_and_is_refused_elsewhere_in_one_line(kind: str, tmp_path: Path) -> None:
    model = LLRNN(small_vocabulary(), output_features=small_features(), controller=body(kind, 5, inputs=3))
    model.save(tmp_path)
    assert all(map(torch.equal, load(tmp_path).parameters(), model.parameters()))
    program = f"import llrnn\ntry: llrnn.load({str(tmp_path)!r})\nexcept llrnn.LLRNNError as error: print(error)"
    given = {"capture_output": True, "text": True, "check": True, "env": script_environment()}
    said = subprocess.run([sys.executable, "-c", program], **given).stdout  # type: ignore[call-overload]
    assert f"no controller '{kind}' any more: train again with kind = 'lstm'" in said


def test_equations_by_hand() -> None:
    psi, jordan, window = drawn(1, 6, 3), Jordan(4, 3).double(), FeedForward(5, 3, words=3).double()
    o, said = torch.zeros(4, dtype=torch.double), []
    for x in psi[0]:
        o = torch.tanh(jordan.out @ torch.tanh(jordan.read @ x + jordan.back @ o + jordan.bias) + jordan.out_bias)
        said.append(o)
    torch.testing.assert_close(jordan(psi)[0], torch.stack(said))
    by_hand = torch.tanh(psi[0, 3:6].flatten() @ window.weight.t() + window.bias)
    torch.testing.assert_close(window(psi)[0, 5], by_hand)


def test_a_reservoir_has_its_radius_and_nothing_to_train() -> None:
    made, again, other = (Reservoir(40, 3, radius=0.8, seed=seed) for seed in (3, 3, 4))
    assert not list(made.parameters())
    assert float(torch.linalg.eigvals(made.back).abs().max()) == pytest.approx(0.8, abs=1e-6)
    assert torch.equal(made.back, again.back)
    assert not torch.equal(made.back, other.back)


@pytest.mark.parametrize("T", [1, 2, 7, 8])
def test_a_linear_recurrence_is_its_loop_also_in_passes(T: int) -> None:
    a, b = drawn(2, T, 3, seed=1), drawn(2, T, 3, seed=2)
    torch.testing.assert_close(recur_in_passes(a, b), recur(a, b))


@pytest.mark.parametrize("reach", [1, 2])
def test_a_gate_sees_so_many_words(reach: int) -> None:
    made, psi = MinGRU(5, 3, reach=reach).double(), drawn(1, 4, 3).requires_grad_()
    r = made(psi)[0, 3].sum()
    assert bool((torch.autograd.grad(r, psi)[0] != 0).any(-1).all())
