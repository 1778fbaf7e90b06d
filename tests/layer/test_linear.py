"""Contextual features that are linear in static ones: sparse = dense = brute force, in every way, with gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from llrnn.layer.distribution import Values
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.priors import ContextValues, Exceptions, LinearValues, SparsePrior, Table
from llrnn.layer.weights import WeightChange

V, M, H, N = 23, 7, 5, 6
COLUMNS = (4, 1, 6)
WORDS = torch.arange(N) % V


@pytest.fixture(scope="module")
def phi() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(0, 2, (9, M), generator=generator).double()
    return rows[torch.randint(0, 9, (V,), generator=generator)]


def _draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _layer(phi: Tensor, k: int) -> LogLinear:
    layer = LogLinear(phi, H, k).double()
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(_draw(*parameter.shape, seed=seed))
    return layer


def _linear() -> LinearValues:
    return LinearValues(_draw(N, 2, len(COLUMNS), seed=11), COLUMNS)


def _pointing() -> ContextValues:
    """Another feature beside it, with exceptions."""
    position, word = torch.tensor([0, 0, 3]), torch.tensor([2, 5, 20])
    return ContextValues(_draw(N, 1, seed=12), position, word, _draw(3, 1, seed=13))


def _prior(kind: str) -> SparsePrior:
    table = Table(_draw(V, seed=14))
    if kind == "static":
        return table.everywhere()
    exceptions = Exceptions(torch.tensor([1, 4]), torch.tensor([7, 0]), _draw(2, seed=15))
    return SparsePrior((table,), torch.zeros(N, 1, dtype=torch.float64), exceptions)


def _dense(phi: Tensor, values: Values) -> Tensor:
    """φ(K, x) of every word with all contextual features, (N, V, m + k), by the definition."""
    columns = [phi.expand(N, -1, -1)]
    for part in values:
        if isinstance(part, LinearValues):
            columns.append(torch.einsum("nkj,vj->nvk", part.slope, phi[:, list(part.columns)]))
        else:
            own = part.rest[:, None, :].repeat(1, V, 1)
            own[part.position, part.word] = part.value
            columns.append(own)
    return torch.cat(columns, 2)


def _brute(layer: LogLinear, h: Tensor, prior: SparsePrior, phi: Tensor, values: Values) -> Tensor:
    """log p of every word, (N, V): all terms written out."""
    a = torch.cat([h @ layer.weight.t() + layer.bias, h @ layer.context_weight.t() + layer.context_bias], 1)
    return torch.log_softmax(prior.dense(N).log_b + torch.einsum("nm,nvm->nv", a, _dense(phi, values)), 1)


SOURCES: dict[str, Values] = {"alone": [_linear()], "first": [_linear(), _pointing()], "last": [_pointing(), _linear()]}


@pytest.mark.parametrize("way", ["words", "static", "adding", "leaving", None])
@pytest.mark.parametrize("background", ["static", "sparse"])
@pytest.mark.parametrize("which", SOURCES)
def test_every_way_is_the_sum_over_all_words(phi: Tensor, way: str, background: str, which: str) -> None:
    values, prior, h = SOURCES[which], _prior(background), _draw(N, H, seed=16)
    layer = _layer(phi, sum(part.width for part in values))
    wanted = _brute(layer, h, prior, phi, values)
    p = layer(h, prior, values)
    p.way = way
    torch.testing.assert_close(p.log_prob(WORDS), wanted[range(N), WORDS])
    torch.testing.assert_close(p.log_probs(), wanted)
    torch.testing.assert_close(p.log_probs().exp().sum(1), torch.ones(N, dtype=torch.float64))
    torch.testing.assert_close(p.entropy(), -(wanted.exp() * wanted).sum(1))
    expected = torch.einsum("nv,nvm->nm", wanted.exp(), _dense(phi, values))
    torch.testing.assert_close(p.expected_features(), expected)
    best = wanted.topk(4, 1)
    torch.testing.assert_close(p.top(4)[0], best.values)
    torch.testing.assert_close(torch.cat([p.row(n).log_probs() for n in range(N)]), wanted)


@pytest.mark.parametrize("which", SOURCES)
@pytest.mark.parametrize("background", ["static", "sparse"])
def test_gradients_are_those_of_the_sum_over_all_words(phi: Tensor, background: str, which: str) -> None:
    values, prior = SOURCES[which], _prior(background)
    layer, h = _layer(phi, sum(part.width for part in values)), _draw(N, H, seed=16).requires_grad_()
    inputs = [h, *layer.parameters()]
    wanted = torch.autograd.grad(-_brute(layer, h, prior, phi, values)[range(N), WORDS].mean(), inputs)
    for loss in (layer.loss(h, WORDS, prior, values), -layer(h, prior, values).log_prob(WORDS).mean()):
        found = torch.autograd.grad(loss, inputs)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other)


def test_cached_weights_follow_a_change(phi: Tensor) -> None:
    prior, h, layer = _prior("static"), _draw(1, H, seed=16), _layer(phi, 3)
    linear, pointing = _linear().row(0), _pointing().row(0)
    values: Values = [linear, pointing]
    with torch.no_grad():
        first = layer(h, prior, values).log_probs()
        torch.testing.assert_close(layer(h, prior, values).log_probs(), first)
        layer.weight += 1.0
        changed = layer(h, prior, values).log_probs()
        other: Values = [LinearValues(linear.slope, (0, 2, 3)), pointing]
        elsewhere = layer(h, prior, other).log_probs()
    torch.testing.assert_close(layer(h, prior, values).log_probs(), changed)
    torch.testing.assert_close(layer(h, prior, other).log_probs(), elsewhere)
    assert not torch.allclose(changed, elsewhere)


def test_steered_and_tempered(phi: Tensor) -> None:
    """Scales and offsets act on the weights of features; what linear ones add to static weights is added after."""
    values, prior, h = SOURCES["last"], _prior("static"), _draw(N, H, seed=16)
    layer = _layer(phi, 3)
    scale, offset = _draw(1, M + 3, seed=17), _draw(1, M + 3, seed=18)
    a = layer.weights().full_adaptor(h) * scale + offset
    terms = prior.dense(N).log_b + torch.einsum("nm,nvm->nv", a, _dense(phi, values))
    p = layer(h, prior, values).steered(WeightChange(scale, offset))
    torch.testing.assert_close(p.log_probs(), torch.log_softmax(terms, 1))
    torch.testing.assert_close(p.tempered(2.0).log_probs(), torch.log_softmax(terms / 2, 1))
    torch.testing.assert_close(p.row(2).log_probs()[0], torch.log_softmax(terms, 1)[2])
    torch.testing.assert_close(p.given.adaptor(), a)
    plain = layer(h, prior, values)
    wanted = torch.log_softmax(_brute(layer, h, prior, phi, values) / 0.7, 1)
    torch.testing.assert_close(plain.tempered(0.7).log_probs(), wanted)


def test_samples_have_their_frequencies(phi: Tensor) -> None:
    values, prior, h = SOURCES["alone"], _prior("static"), _draw(N, H, seed=16)
    p = _layer(phi, 2)(h, prior, values)
    words = p.sample((20_000,), generator=torch.Generator().manual_seed(3))
    found = torch.stack([torch.bincount(words[:, n], minlength=V) for n in range(N)]) / 20_000
    assert float((found - p.log_probs().exp().detach()).abs().max()) < 0.02


def test_steady_weights_know_no_context(phi: Tensor) -> None:
    """a = c, whatever h is: the rest of the loss has the gradients that it had, and W of these features none."""
    prior, h = _prior("static"), _draw(N, H, seed=16)
    values: Values = [replace(_linear(), context_independent=True), _pointing()]
    layer = _layer(phi, 3)
    with torch.no_grad():
        layer.context_weight[:2] = 0.0
    wanted = _brute(layer, h, prior, phi, values)
    torch.testing.assert_close(layer(h, prior, values).log_probs(), wanted)
    torch.testing.assert_close(layer(h, prior, values).row(1).log_probs()[0], wanted[1])
    brute = torch.autograd.grad(-wanted[range(N), WORDS].mean(), list(layer.parameters()))
    found = torch.autograd.grad(layer.loss(h, WORDS, prior, values), list(layer.parameters()))
    named = dict(zip((name for name, _ in layer.named_parameters()), zip(found, brute, strict=True), strict=True))
    assert not named["context_weight"][0][:2].any()
    assert named["context_weight"][1][:2].any()
    torch.testing.assert_close(named["context_weight"][0][2:], named["context_weight"][1][2:])
    for name in ("weight", "bias", "context_bias"):
        torch.testing.assert_close(*named[name])
