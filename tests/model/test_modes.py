"""`train()` and `eval()` as everywhere in torch, `forward` as a loss, and the researcher's own training loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import llrnn
from helpers import small_corpus, small_model, tiny_model
from llrnn import (
    GRU,
    LLRNN,
    LSTM,
    Controller,
    Sentences,
    contextual,
    evaluate,
    explain,
    generate,
    influence,
    load,
    score,
)
from llrnn.ground.errors import ConfigError
from llrnn.inference.rescoring import score_sentences
from llrnn.knowledge.backgrounds import Model
from llrnn.model.own import from_module
from llrnn.text.encoded import EncodedText


def dropping() -> LLRNN:
    """Drops inputs, layers and words."""
    model = small_model(controller=LSTM(8, layers=2, dropout=0.5))
    model.word_dropout = 0.3
    return model


def batch_of(model: LLRNN) -> tuple[Tensor, Tensor]:
    plan = Sentences().plan(EncodedText.encode(small_corpus()[:12], model.vocabulary))
    return plan[0].inputs, plan[0].targets.masked_fill(~plan[0].mask, -100)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_eval_mode_drops_nothing_and_train_mode_does() -> None:
    model = dropping()
    inputs, targets = batch_of(model)
    assert model.training  # as every new module of torch
    model.eval()
    plain = model(inputs, targets)
    assert torch.equal(plain, model(inputs, targets))
    assert torch.equal(plain, model(inputs, targets, generator=seeded(1)))  # eval is eval
    model.train()
    torch.manual_seed(1)
    first, second = model(inputs, targets), model(inputs, targets)
    assert len({float(plain.detach()), float(first.detach()), float(second.detach())}) == 3
    torch.manual_seed(1)
    assert torch.equal(first, model(inputs, targets))  # torch's global generator


def test_a_generator_of_ones_own_is_reproducible_and_leaves_the_global_one_alone() -> None:
    model = dropping()
    inputs, targets = batch_of(model)
    before = torch.get_rng_state()
    losses = [float(model(inputs, targets, generator=seeded(seed)).detach()) for seed in (3, 3, 4)]
    assert torch.equal(before, torch.get_rng_state())
    assert losses[0] == losses[1] != losses[2]


def test_forward_is_the_mean_over_the_targets_that_count() -> None:
    model = tiny_model()
    inputs = torch.tensor([[model.vocabulary.eos, 0, 1], [model.vocabulary.eos, 2, 2]])
    targets = torch.tensor([[0, 1, model.vocabulary.eos], [2, -100, -100]])
    mask = targets != -100
    state, found = model.start([None, None]), []
    for t in range(3):
        p, state = model.step(state, inputs[:, t].tolist())
        found += [p.log_probs()[row, targets[row, t]].detach() for row in range(2) if mask[row, t]]
    loss = model(inputs, targets)
    assert float(loss.detach()) == pytest.approx(-float(torch.stack(found).mean()), abs=1e-9)
    batch = Sentences().plan(EncodedText.encode(llrnn.Corpus.from_sentences([["w0", "w1"]]), model.vocabulary))[0]
    assert torch.equal(model(batch), -model.log_prob(batch).mean())
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_mistakes_of_forward() -> None:
    model = tiny_model()
    inputs = torch.zeros(2, 3, dtype=torch.long)
    batch = Sentences().plan(EncodedText.encode(llrnn.Corpus.from_sentences([["w0"]]), model.vocabulary))[0]
    mistakes: list[tuple[str, Callable[[], object]]] = [
        (r"found \(2, 3\) and none", lambda: model(inputs)),
        (r"found \(2, 3\) and \(2, 2\)", lambda: model(inputs, inputs[:, :2])),
        ("found nothing but -100 among 6", lambda: model(inputs, torch.full_like(inputs, -100))),
        ("a Batch has its targets", lambda: model(batch, inputs)),
    ]
    for said, mistake in mistakes:
        with pytest.raises(ConfigError, match=said):
            mistake()


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: evaluate(model, small_corpus()[:9]).log_perplexity,
        lambda model: score(model, small_corpus()[:9]),
        lambda model: generate(model, seed=1, max_words=6),
        lambda model: generate(model, beam=3, max_words=6),
        lambda model: explain(model, word=model.vocabulary.words[3]),
        lambda model: influence(model, model.vocabulary.words[3], feature=model.feature_names[0]),
        lambda model: score_sentences(model, [("a", [small_corpus()[0].words])]),
    ],
    ids=["evaluate", "score", "generate", "beam", "explain", "influence", "rescoring"],
)
def test_whoever_asks_a_model_in_train_mode_is_answered_in_eval_mode(ask: Callable[[LLRNN], object]) -> None:
    class Dropping(GRU):
        """A body of one's own, with torch's dropout inside."""

        def scan(self, psi: Tensor, state: tuple[Tensor, ...], *, generator: torch.Generator | None = None) -> Any:
            h, after = super().scan(psi, state, generator=generator)
            return torch.nn.functional.dropout(h, 0.5, self.training), after

    model = small_model(controller=Dropping(8, dropout=0.5), context=[contextual.Repeated(5)])
    model.word_dropout = 0.4
    model.train()
    model.layer.eval()  # a part that was frozen by hand
    found = ask(model)
    assert model.training
    assert model.controller.training
    assert not model.layer.training
    assert found == ask(model.eval())


def test_a_model_as_background_is_in_eval_mode() -> None:
    inner = dropping().train()
    outer = small_model(background=Model(inner)).eval()
    inputs, targets = batch_of(outer)
    assert not inner.training
    assert torch.equal(outer(inputs, targets), outer(inputs, targets))


def test_load_gives_eval_mode_and_a_device_that_is_there(tmp_path: Path) -> None:
    model = dropping()
    model.save(tmp_path / "m")
    again = load(tmp_path / "m", device="cpu")
    assert not again.training
    assert not again.controller.training
    for name in ("gpu", "cpu:x", "tpu"):
        with pytest.raises(ConfigError, match=f"device must be cpu, cuda, .*found '{name}'"):
            load(tmp_path / "m", device=name)


def test_train_drops_in_its_steps_and_leaves_eval_mode() -> None:
    def trained(begin: Callable[[LLRNN], object]) -> dict[str, Tensor]:
        model = dropping()
        begin(model)
        modes = []
        for record in llrnn.train(model, small_corpus()[:30], valid=small_corpus()[30:], epochs=2, log_every=1):
            modes.append((record.event, model.training))
            model.eval()  # in between somebody looks at it
        assert all(training for event, training in modes if event == "step")
        assert not model.training
        return {name: weight.clone() for name, weight in model.named_parameters()}

    from_train, from_eval = trained(LLRNN.train), trained(LLRNN.eval)
    assert all(torch.equal(weight, from_eval[name]) for name, weight in from_train.items())


class Lightning:
    """What a Lightning module does, without Lightning: steps of training in train mode, of validation in eval mode."""

    def __init__(self, model: LLRNN) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        loss: Tensor = self.model(*batch)
        return loss

    @torch.no_grad()
    def validation_step(self, batch: tuple[Tensor, Tensor]) -> float:
        return float(self.model(*batch))

    def fit(self, batch: tuple[Tensor, Tensor], steps: int) -> list[float]:
        losses = []
        for _ in range(steps):
            self.model.train()
            self.optimizer.zero_grad()
            loss = self.training_step(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.model.eval()
            losses.append(self.validation_step(batch))
        return losses


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_loop_of_ones_own_learns_and_a_seed_repeats_it(dropout: float) -> None:
    def fitted(seed: int) -> list[float]:
        model = small_model(controller=GRU(16, dropout=dropout), loud=0.1)
        torch.manual_seed(seed)
        return Lightning(model).fit(batch_of(model), 25)

    losses = fitted(1)
    assert losses[-1] < 0.85 * losses[0]
    assert losses == fitted(1)
    assert (losses == fitted(2)) is (dropout == 0.0)


@pytest.mark.parametrize(
    "body",
    [
        lambda: from_module(torch.nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)),
        lambda: from_module(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)), inputs=8),
    ],
    ids=["lstm", "module"],
)
def test_dropout_inside_a_body_of_ones_own_is_switched_and_seeded_too(body: Callable[[], Controller]) -> None:
    def trained(seed: int) -> dict[str, Tensor]:
        torch.manual_seed(0)
        model = small_model(controller=body(), loud=0.1)
        torch.manual_seed(seed)  # of what others draw
        for _ in llrnn.train(model, small_corpus()[:20], epochs=2, seed=3):
            pass
        return {name: weight.clone() for name, weight in model.named_parameters()}

    first, again = trained(1), trained(2)
    assert all(torch.equal(weight, again[name]) for name, weight in first.items())
    model = small_model(controller=body())
    inputs, targets = batch_of(model)
    assert float(model(inputs, targets).detach()) != float(model(inputs, targets).detach())
    losses = [float(model(inputs, targets, generator=seeded(seed)).detach()) for seed in (3, 3, 4)]
    assert losses[0] == losses[1] != losses[2]
    model.eval()
    assert torch.equal(model(inputs, targets), model(inputs, targets))


def test_repr_names_the_parts() -> None:
    said = repr(tiny_model())
    assert said.startswith("LLRNN(4 words in 4 classes, 5 features, background=")
    assert "controller=GRU(" in said
