"""The exact loss chunk by chunk: the same number and the same gradients as the layer's own."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
import torch
from torch import Tensor

from helpers import small_corpus, small_model
from llrnn import LLRNN, Corpus, backgrounds, contextual, features
from llrnn.ground.errors import ConfigError
from llrnn.knowledge.process import Batch
from llrnn.layer import costs
from llrnn.layer.chunked import by_kernels
from llrnn.layer.distribution import Distribution
from llrnn.model.controllers import GRU
from llrnn.model.scoring import Sentences
from llrnn.text.encoded import EncodedText
from llrnn.training.objectives import Exact, Objective

needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


def a_batch(model: LLRNN) -> Batch:
    (batch,) = Sentences().plan(EncodedText.encode(Corpus(small_corpus().sentences[:12]), model.vocabulary))
    return batch


def loss_and_gradients(model: LLRNN, objective: Objective, batch: Batch) -> tuple[float, dict[str, Tensor]]:
    model.zero_grad(set_to_none=True)
    distribution, _ = model.scan(batch)
    loss = objective(model, distribution, batch, None)
    (3.0 * loss).backward()  # type: ignore[no-untyped-call]
    return float(loss.detach()), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


MODELS = {
    "classes": lambda: small_model(),
    "every word its own": lambda: small_model(output_features=features.Identity()),
    "tied": lambda: small_model(tied=True, controller=GRU(6)),
    "uniform": lambda: small_model(background=backgrounds.Uniform()),
}


def written_out(model: LLRNN, p: Distribution, batch: Batch, generator: torch.Generator | None) -> Tensor:
    """The loss word by word."""
    return -p.log_probs().gather(1, batch.targets[batch.mask][:, None]).mean()


@pytest.mark.parametrize("way", ["composed", "direct"])
@pytest.mark.parametrize("rows", [5, 4096])
@pytest.mark.parametrize("objective", [Exact(), Exact("full")])
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_exact_loss_with_its_gradients(
    name: str, objective: Exact, rows: int, way: costs.ScoreWay, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS[name]().double()
    batch = a_batch(model)
    expected, theirs = loss_and_gradients(model, written_out, batch)
    taken = replace(costs.composed(costs.Size(1, 1, 1, 1, 1)), name=way, block=rows)
    monkeypatch.setattr(costs, "cheapest", lambda size, **options: taken)
    found, ours = loss_and_gradients(model, objective, batch)
    assert found == pytest.approx(expected, rel=1e-12)
    assert ours.keys() == theirs.keys()
    for parameter in theirs:
        torch.testing.assert_close(ours[parameter], theirs[parameter], rtol=1e-9, atol=1e-11)


def test_it_is_compiled_once_for_a_layer() -> None:
    layer = small_model().layer
    assert layer.phi.for_kernels(layer.weight) is layer.phi.for_kernels(layer.weight)
    assert layer.phi.for_kernels(layer.weight.double()).rows.values.dtype == torch.float64


def test_half_precision_is_for_the_gpu() -> None:
    model = small_model()
    with pytest.raises(ConfigError, match=r"half precision is for a GPU.* found a model on the CPU"):
        loss_and_gradients(model, Exact("half"), a_batch(model))


@needs_a_gpu
def test_a_gpu_takes_half_precision_where_it_can() -> None:
    model = small_model().to("cuda")
    batch = a_batch(model).to(model.device)
    (full, one), (half, other) = (loss_and_gradients(model, Exact(how), batch) for how in ("full", "auto"))
    assert 0 < abs(half - full) < 1e-2
    for name, gradient in one.items():
        assert float((other[name] - gradient).norm()) <= 0.03 * float(gradient.norm()) + 1e-6
    follows = small_model(background=backgrounds.NGram.from_corpus(small_corpus(), order=2)).to("cuda")
    loss_and_gradients(follows, Exact(), batch)
    with pytest.raises(ConfigError, match="found a background that follows the text"):
        loss_and_gradients(follows, Exact("half"), batch)
    repeats = small_model(context=[contextual.Repeated(3)]).to("cuda")  # few words at a time: half precision serves
    full, half = (loss_and_gradients(repeats, Exact(how), batch)[0] for how in ("full", "half"))
    assert 0 < abs(half - full) < 1e-2


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_a_gpu)])
def test_products_by_kernels_are_those_of_the_matrix(device: str, apart: bool) -> None:
    with mock.patch.multiple("llrnn.layer.matrix", _FEWEST_DENSE=1 if apart else 100, _FEWEST_CLASSES=1):
        model = small_model().to(device)
    phi, leaves = model.layer.phi, (model.layer.weight.detach(), torch.randn_like(model.layer.bias))
    assert (phi.for_kernels(leaves[0]).dense is not None) == apart
    one, other = ([leaf.clone().requires_grad_() for leaf in leaves] for _ in range(2))
    expected, found = [phi @ leaf for leaf in one], by_kernels(phi, other[0], other[1])
    torch.testing.assert_close(list(found), expected)
    g = [torch.randn_like(part) for part in expected]
    torch.autograd.backward(expected, g)
    torch.autograd.backward(found, g)
    for mine, theirs in zip(other, one, strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-5)
