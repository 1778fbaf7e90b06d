"""Objectives: what is drawn, that the estimates are right, and that they train.

The oracle is `brute.Brute`, which sums over V word by word; gradients are compared with the exact ones, of all
parameters.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

from brute import Brute
from helpers import shaken, small_corpus, small_features, small_model, tiny_model
from llrnn import LLRNN, Corpus, Vocabulary, backgrounds, contextual, features
from llrnn.config import read_config, reference
from llrnn.ground.errors import ConfigError, ZeroMassError
from llrnn.knowledge.backgrounds import Background
from llrnn.knowledge.process import Batch
from llrnn.layer.distribution import Distribution
from llrnn.layer.priors import DensePrior, Prior
from llrnn.layer.weights import LayerWeights
from llrnn.model.controllers import GRU
from llrnn.model.scoring import Sentences, score
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import EOS
from llrnn.training.loop import train
from llrnn.training.objectives import (
    Distilled,
    Exact,
    ImportanceSampling,
    Objective,
    word_scores,
)
from llrnn.training.settings import SampledObjective, TrainingSettings
from llrnn_agreement import Agreement
from test_resume import assert_same_run, stopped_often, undisturbed
from test_training import BATCHES, TRAIN, VALID, VOCABULARY, tiny


class Written(Background):
    """A background over V words that lists N × V values, another row for each number of words so far."""

    def prior(self, states: Sequence[int]) -> Prior:
        drawn = torch.randn(9, len(self.vocabulary), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        return DensePrior(drawn[torch.tensor([int(state) % 9 for state in states])])

    def initial(self, condition: object = None) -> int:
        return 0

    def advance(self, state: Any, symbol: int) -> int:
        return int(state) + 1


def not_the_last_word(condition: object, prefix: tuple[str, ...]) -> list[str]:
    return list(prefix[-1:])


BACKGROUNDS: dict[str, Callable[[], Background]] = {
    "unigram": lambda: backgrounds.Unigram.from_corpus(small_corpus()),
    "unnormalised": lambda: (
        backgrounds.Uniform() * backgrounds.Uniform() * backgrounds.Unigram.from_corpus(small_corpus())
    ),
    "tables": lambda: backgrounds.Mixture(backgrounds.Unigram.from_corpus(small_corpus()), backgrounds.Uniform()),
    "n-gram": lambda: backgrounds.NGram.from_corpus(small_corpus(), order=2),
    "mask": lambda: backgrounds.Mask(forbidden=not_the_last_word) * backgrounds.Unigram.from_corpus(small_corpus()),
    "dense": Written,
}
every_background = pytest.mark.parametrize("background", BACKGROUNDS.values(), ids=BACKGROUNDS.keys())


def case(background: Callable[[], Background], *, loud: float = 1.2, sentences: int = 2) -> tuple[LLRNN, Batch]:
    """A model in float64 with an expert and a contextual feature, and a batch of its text."""
    expert = contextual.Expert(backgrounds.NGram.from_corpus(small_corpus()[:50], order=2), name="bigram")
    model = small_model(background=background(), context=[contextual.Repeated(5), expert], loud=loud).double()
    (batch,) = Sentences(500).plan(EncodedText.encode(small_corpus()[:sentences], model.vocabulary))
    return model, batch


def oracle(model: LLRNN, p: Distribution) -> Brute:
    """The same distributions, written out word by word."""
    V, matrix = len(model.vocabulary), model.output_features
    values = np.zeros((p.n, V, len(model.context_names)))
    column = 0
    for part in p.values:
        page = values[:, :, column : column + part.width]
        page[:] = part.rest[:, None].numpy()
        for n, x, value in zip(part.position.tolist(), part.word.tolist(), part.value.numpy(), strict=True):
            page[n, x] = value
        column += part.width
    layer = model.layer
    a = torch.cat([p.h @ layer.weight.t() + layer.bias, p.h @ layer.context_weight.t() + layer.context_bias], 1)
    log_b = p.prior.dense(p.n).log_b.double().numpy()
    return Brute(matrix.names, [matrix.row(x) for x in range(V)], log_b, values, a.detach().numpy())


def gradient(model: LLRNN, loss: Tensor) -> Tensor:
    """Of all parameters, as one vector."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    pairs = zip(torch.autograd.grad(loss, parameters, allow_unused=True), parameters, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).reshape(-1) for g, p in pairs])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- gradients of every objective, of every kind of model ------------------------------------------------------------


def bigrams() -> Background:
    return backgrounds.NGram.from_corpus(small_corpus(), order=2, folds=0)


MODELS: dict[str, Callable[[], LLRNN]] = {
    "plain": small_model,
    **{
        f"{name}, with contextual features": partial(lambda made: case(made)[0], one)
        for name, one in BACKGROUNDS.items()
    },
    "agreement": lambda: small_model(context=[Agreement.estimated("french", small_corpus())]),
    "tied": lambda: small_model(input_features=small_features(), tied=True),
    "another model": lambda: small_model(background=backgrounds.Model(small_model())),
    "mixed": lambda: small_model(mixed=[bigrams(), backgrounds.Uniform()], context=[contextual.Repeated(5)]),
    "mixed, another model": lambda: small_model(mixed=[backgrounds.Model(small_model())]),
}
MINIMISED: dict[str, Callable[[], Objective]] = {
    "exact": Exact,
    "distil": lambda: Distilled(small_model(controller=GRU(3), loud=2.0).double(), 0.7),
    "distil alone": lambda: Distilled(small_model(controller=GRU(3), loud=2.0).double(), 1.0, 2.0),
    "importance": lambda: ImportanceSampling(20),
}
REFUSED = {(objective, kind) for objective in ("importance",) for kind in MODELS if "mixed" in kind}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("objective", MINIMISED)
@pytest.mark.filterwarnings("ignore:.*too little text")
def test_gradients_are_finite_differences(objective: str, kind: str) -> None:
    """In float64, along a random direction of every parameter; the words that are drawn are the same ones."""
    model, minimised = MODELS[kind]().double(), MINIMISED[objective]()
    (batch,) = Sentences(500).plan(EncodedText.encode(small_corpus()[:2], model.vocabulary))
    batch = minimised.with_teacher(batch) if isinstance(minimised, Distilled) else batch

    def loss() -> Tensor:
        return minimised(model, model.scan(batch)[0], batch, seeded(4))

    if (objective, kind) in REFUSED:
        with pytest.raises(ConfigError, match=r"^the objective importance needs scores .* mixes "):
            loss()
        return
    parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
    found = torch.autograd.grad(loss(), [*parameters.values()], allow_unused=True)
    for (name, parameter), gradient in zip(parameters.items(), found, strict=True):
        direction = torch.randn(parameter.shape, generator=seeded(5), dtype=torch.float64)
        values = list[float]()
        with torch.no_grad():
            for step in (1e-6, -2e-6):
                parameter.add_(step * direction)
                values.append(float(loss()))
            parameter.add_(1e-6 * direction)
        wanted = 0.0 if gradient is None else float((gradient * direction).sum())
        assert (values[0] - values[1]) / 2e-6 == pytest.approx(wanted, rel=1e-5, abs=1e-7), name


# --- what is drawn ---------------------------------------------------------------------------------------------------


@every_background
def test_words_are_drawn_as_often_as_the_background_says(background: Callable[[], Background]) -> None:
    model, batch = case(background, sentences=1)
    p, _ = model.scan(batch)
    count = 20_000
    word, log_total = ImportanceSampling(count).words(model, p, seeded(1))
    b = np.exp(p.prior.dense(p.n).log_b.double().numpy())
    assert len(word) == (1 if p.prior.is_static else p.n)
    for n in range(len(word)):
        q = b[n] / b[n].sum()
        assert math.isclose(float(log_total[n]), math.log(b[n].sum()), abs_tol=1e-9)
        found = np.bincount(word[n].numpy(), minlength=len(q))
        assert not found[q == 0].any()
        assert (np.abs(found - count * q) <= 5 * np.sqrt(count * q * (1 - q)) + 3).all()
        alive = count * q > 5
        chi_square = ((found - count * q) ** 2 / np.maximum(count * q, 1e-9))[alive].sum()
        assert chi_square < alive.sum() + 5 * math.sqrt(2 * alive.sum())


@every_background
def test_scores_of_drawn_words_are_those_of_the_model(background: Callable[[], Background]) -> None:
    """Experts included; the same words at every position, or each position its own."""
    model, batch = case(background)
    p, _ = model.scan(batch)
    brute = oracle(model, p)
    wanted = torch.from_numpy((brute.phi * brute.a[:, None]).sum(-1))
    word = torch.randint(len(model.vocabulary), (p.n, 40), generator=seeded(2))
    torch.testing.assert_close(word_scores(p, word), wanted.gather(1, word))
    torch.testing.assert_close(word_scores(p, word[:1]), wanted[:, word[0]])


def test_a_static_background_is_drawn_from_without_a_sum_over_words_or_classes() -> None:
    model, batch = case(BACKGROUNDS["unigram"])
    objective = ImportanceSampling(20)
    objective(model, model.scan(batch)[0], batch, seeded(1))  # the tables are made, once
    p, _ = model.scan(batch)
    forbidden, usual = mock.Mock(side_effect=AssertionError("a sum over V or G")), LayerWeights.scores

    def scores(own: LayerWeights, h: Tensor) -> Tensor:
        """Those of the model; the background is a layer of its own, of one class."""
        found: Tensor = forbidden() if own.phi is model.layer.phi else usual(own, h)
        return found

    with mock.patch.object(LayerWeights, "scores", scores), mock.patch.object(Distribution, "word_terms", forbidden):
        objective(model, p, batch, seeded(1)).backward()  # type: ignore[no-untyped-call]
    with pytest.raises(AssertionError, match="a sum over"), mock.patch.object(LayerWeights, "scores", forbidden):
        Exact()(model, p, batch, None)


def test_no_word_drawn_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one word has to be drawn, found samples = 0"):
        ImportanceSampling(0)


# --- importance sampling ---------------------------------------------------------------------------------------------


@every_background
def test_importance_sampling_converges_to_log_z_and_the_gradient(background: Callable[[], Background]) -> None:
    """Sixteen times the words, a quarter of the error."""
    model, batch = case(background)
    exact = gradient(model, Exact()(model, model.scan(batch)[0], batch, None))
    log_z = torch.from_numpy(oracle(model, model.scan(batch)[0]).log_z)

    def errors(samples: int) -> tuple[float, float]:
        of_z, of_gradient = [], []
        for seed in range(8):
            objective, p = ImportanceSampling(samples), model.scan(batch)[0]
            terms = objective.log_terms(model, p, batch, seeded(seed))
            of_z.append(float((torch.logsumexp(terms.detach(), 1) - log_z).pow(2).mean()))
            found = gradient(model, objective(model, p, batch, seeded(seed)))
            of_gradient.append(float((found - exact).pow(2).sum()))
        return math.sqrt(np.mean(of_z)), math.sqrt(np.mean(of_gradient))

    few, many = errors(150), errors(2400)
    for error, smaller in zip(few, many, strict=True):
        assert 2.6 < error / smaller < 6.2
    assert many[1] < 0.2 * float(exact.norm())


@every_background
def test_the_estimate_of_z_is_unbiased(background: Callable[[], Background]) -> None:
    model, batch = case(background, sentences=1)
    p, _ = model.scan(batch)
    log_z = torch.from_numpy(oracle(model, p).log_z)
    objective = ImportanceSampling(7)
    with torch.no_grad():
        drawn = [objective.log_terms(model, p, batch, seeded(seed)) for seed in range(100)]
    ratio = torch.stack([(torch.logsumexp(terms, 1) - log_z).exp() for terms in drawn])  # (100, N)
    deviation = ratio.std(0) / math.sqrt(len(ratio))
    assert (deviation > 0).all()
    assert ((ratio.mean(0) - 1).abs() < 4.5 * deviation).all()


def test_all_that_could_be_drawn_gives_z_on_average() -> None:
    """Every outcome of two draws from five words, weighted: no chance is left, so the mean is Z to the last digits."""
    model = tiny_model(words=4, background=backgrounds.Static(torch.tensor([0.3, -1.0, 0.2, -2.0, 0.1])))
    (batch,) = Sentences(50).plan(EncodedText((np.array([0, 1, 1, 3]),), (None,), eos=model.vocabulary.eos))
    p, _ = model.scan(batch)
    q = torch.softmax(model.background.log_b, 0)  # type: ignore[attr-defined]
    total = torch.logsumexp(model.background.log_b, 0).view(1)  # type: ignore[attr-defined]
    objective, mean = ImportanceSampling(2), torch.zeros(p.n, dtype=torch.float64)
    for pair in itertools.product(range(5), repeat=2):
        word = torch.tensor([pair])
        with mock.patch.object(ImportanceSampling, "words", return_value=(word, total)), torch.no_grad():
            terms = objective.log_terms(model, p, batch, None)
        mean += q[word[0]].prod() * torch.logsumexp(terms, 1).exp()
    np.testing.assert_allclose(mean.numpy(), np.exp(oracle(model, p).log_z), rtol=1e-12)


def test_the_loss_has_a_bottom() -> None:
    """A target that is never drawn has its own term in Ẑ, so p̂ ≤ 1 however loud its score."""
    model, batch = case(BACKGROUNDS["unigram"], loud=20.0)
    for seed in range(20):
        assert float(ImportanceSampling(1)(model, model.scan(batch)[0], batch, seeded(seed)).detach()) >= 0.0


# --- backgrounds that do not go along --------------------------------------------------------------------------------

APPROXIMATE: list[Objective] = [ImportanceSampling(5)]
every_approximation = pytest.mark.parametrize("objective", APPROXIMATE, ids=lambda given: type(given).__name__)


def refused(objective: Objective, log_b: Sequence[float]) -> str:
    model = tiny_model(words=2, background=backgrounds.Static(torch.tensor(log_b)))
    (batch,) = Sentences(50).plan(EncodedText((np.array([0, 1]),), (None,), eos=model.vocabulary.eos))
    with pytest.raises(ZeroMassError) as caught:
        objective(model, model.scan(batch)[0], batch, seeded(0))
    return str(caught.value)


@every_approximation
def test_a_forbidden_target_is_named(objective: Objective) -> None:
    message = refused(objective, [0.0, -math.inf, 0.0])
    assert "gives the observed word 'w1' no mass" in message
    assert "\n" not in message
    exact = tiny_model(words=2, background=backgrounds.Static(torch.tensor([0.0, -math.inf, 0.0])))
    with pytest.raises(ZeroMassError) as caught:
        list(train(exact, Corpus.from_sentences([["w0", "w1"]]), epochs=1))
    assert message == str(caught.value)


@every_approximation
def test_a_background_without_any_mass_is_refused(objective: Objective) -> None:
    assert "no mass" in refused(objective, [-math.inf] * 3)


@every_approximation
def test_forbidden_words_are_never_drawn_and_training_goes_on(objective: Objective) -> None:
    """They have no mass in the model either."""
    vocabulary = Vocabulary([*"abcd", EOS])
    background = backgrounds.Static(torch.tensor([0.0, -math.inf, 0.0, -math.inf, 0.0]))
    model = LLRNN(vocabulary, output_features=features.Identity(), background=background, controller=GRU(3)).double()
    shaken(model, 1.0)
    (batch,) = Sentences(50).plan(EncodedText((np.array([0, 2, 2]),), (None,), eos=vocabulary.eos))
    found = gradient(model, objective(model, model.scan(batch)[0], batch, seeded(0)))
    assert torch.isfinite(found).all()
    assert found.norm() > 0


# --- training --------------------------------------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    "exact": {"kind": "exact"},
    "importance": {"kind": "importance", "samples": 60},
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@every_kind
def test_each_objective_trains(kind: dict[str, Any]) -> None:
    model, valid = tiny(controller=GRU(16)), EncodedText.encode(VALID, VOCABULARY)
    before = score(model, valid).log_perplexity
    records = list(
        train(model, TRAIN, valid=VALID, epochs=4, learning_rate=0.02, objective=kind, batches=BATCHES["sentences"])
    )
    after = score(model, valid).log_perplexity
    assert after < before - 0.3
    assert records[-1].best == pytest.approx(after, abs=1e-5)  # validation is exact, whatever the steps minimise


@pytest.mark.parametrize("kind", ["importance"])
@pytest.mark.parametrize("batches", ["sentences", "continuous"])
def test_a_stopped_run_draws_the_same_words_again(kind: str, batches: str, tmp_path: Path) -> None:
    given = {"objective": KINDS[kind], "batches": BATCHES[batches]}
    make = lambda: tiny(controller=GRU(6, dropout=0.2), contextual=[contextual.Repeated(7)])  # noqa: E731
    undisturbed(make, tmp_path / "whole", **given)
    stopped_often(make, tmp_path / "parts", [1, 3, 5], **given)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_the_exact_objective_is_the_default_and_draws_nothing() -> None:
    assert isinstance(TrainingSettings().objective.make(), Exact)
    model, batch = case(BACKGROUNDS["unigram"])
    generator = seeded(3)
    state = generator.get_state()
    loss = Exact()(model, model.scan(batch)[0], batch, generator)
    assert torch.equal(generator.get_state(), state)
    assert float(loss.detach()) == float(-model.log_prob(batch).detach().mean())


def test_what_a_target_has_within_its_cell_counts_alike() -> None:
    model, batch = case(BACKGROUNDS["unigram"])
    inside = torch.full(batch.targets.shape, -1.5, dtype=torch.float64)
    open_batch = Batch(batch.inputs, batch.targets, batch.mask, inside=inside)
    for objective in (Exact(), ImportanceSampling(30)):
        closed, opened = (float(objective(model, model.scan(b)[0], b, seeded(0)).detach()) for b in (batch, open_batch))
        assert math.isclose(opened, closed + 1.5, rel_tol=1e-12)


def test_objectives_are_set_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('kind = "softmax"\n[corpus]\nembedded = {}\n[training]\nobjective = { kind = "importance" }\n')
    assert isinstance(read_config(path).training.objective.make(), ImportanceSampling)
    changes = ["training.objective.kind=importance", "training.objective.samples=99"]
    assert read_config(path, changes).training.objective == SampledObjective(kind="importance", samples=99)
    with pytest.raises(ConfigError, match=r"training\.objective.*samples.*greater than or equal to 1, found 0"):
        read_config(path, ["training.objective.samples=0"])
    with pytest.raises(ConfigError, match=r"training\.objective.*'exact'.*found"):
        read_config(path, ["training.objective.kind=guess"])
    assert re.search(r"\n- `objective` \(.*what a step minimises", reference())
    assert re.search(r"\n- `samples` \(.*words drawn from the background", reference())
