"""Training: what each setting does, what is recorded, and what stops a run. Resuming has a file of its own."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import llrnn.training.loop
from llrnn import GRU, LLRNN, LSTM, Corpus, Vocabulary, french, load
from llrnn.ground.bundle import read_bundle
from llrnn.ground.errors import ConfigError, LLRNNError, NonFiniteError, TrainingError, UnknownWordError, ZeroMassError
from llrnn.knowledge.backgrounds import Mask, Unigram
from llrnn.knowledge.features import Identity, Suffixes
from llrnn.model.scoring import Scores, Sentences, score
from llrnn.text.corpus import Sentence, Token
from llrnn.text.encoded import EncodedText
from llrnn.training.loop import train
from llrnn.training.runs import Record
from llrnn.training.settings import TrainingSettings
from strategies import QUICK  # noqa: F401  (importing it sets the number of threads)

ALL = Corpus.from_sentences(french.sentences(50)).lowercased()
TRAIN, VALID = ALL.split(40)
VOCABULARY = Vocabulary.from_corpus(ALL)
WHOLE = {"kind": "sentences", "words": 10**6}  # the whole text in one batch
BATCHES: dict[str, dict[str, Any]] = {
    "sentences": {"kind": "sentences", "words": 120},
    "continuous": {"kind": "continuous", "rows": 4, "length": 12},
    "windows": {"kind": "sliding", "length": 8, "rows": 8},
}
Weights = Mapping[str, Tensor]


def tiny(**changes: Any) -> LLRNN:
    """A small model of the small corpus."""
    given: dict[str, Any] = {
        "output_features": Identity(top=60) + Suffixes(2, min_count=3),
        "background": Unigram.from_corpus(ALL),
        "controller": LSTM(8),
    }
    return LLRNN(VOCABULARY, **{**given, **changes})


def run(model: LLRNN, corpus: Corpus = TRAIN, **given: Any) -> list[Record]:
    return list(train(model, corpus, **{"epochs": 2, "batches": BATCHES["sentences"], **given}))


def weights(model: LLRNN) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def equal(one: Weights, other: Weights) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def distance(one: Weights, other: Weights) -> float:
    return math.sqrt(sum(float(((one[name] - other[name]).double() ** 2).sum()) for name in one))


def trained(make: Callable[[], LLRNN] = tiny, **given: Any) -> dict[str, Tensor]:
    model = make()
    run(model, **given)
    return weights(model)


def say(monkeypatch: pytest.MonkeyPatch, *found: float) -> None:
    """Let validation find these log-perplexities, one after the other."""
    told: Iterator[float] = iter(found)

    def tell(*_: object) -> Scores:
        return Scores(torch.tensor([-next(told)], dtype=torch.float64))

    monkeypatch.setattr(llrnn.training.loop, "score", tell)


# --- optimizers ---------------------------------------------------------------------------------------------------


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"optimizer": "sgd", "learning_rate": 3.0},
    "rmsprop": {"optimizer": "rmsprop", "learning_rate": 0.01},
    "adamw": {"optimizer": "adamw", "learning_rate": 0.02, "weight_decay": 0.01},
}


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES.keys())
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_each_optimizer_lowers_the_loss_in_each_way_of_batching(
    optimizer: dict[str, Any], batches: dict[str, Any]
) -> None:
    epochs = [r for r in run(tiny(), valid=TRAIN, epochs=5, batches=batches, **optimizer) if r.event == "epoch"]
    found = [record.train for record in epochs]
    assert found[0] is not None
    assert found[-1] is not None
    assert found[-1] < found[0] - (0.03 if optimizer["optimizer"] == "sgd" else 0.3)
    assert epochs[-1].valid is not None  # scored after the updates, on the same text
    assert epochs[-1].valid < found[-1]


def by_hand(model: LLRNN, steps: int, update: Callable[[Tensor, Tensor, int], Tensor]) -> dict[str, Tensor]:
    """Full-batch updates, written out; no dropout, so no generator."""
    batch = Sentences(10**6).plan(EncodedText.encode(TRAIN, VOCABULARY), seed=0)
    for step in range(steps):
        loss = -model.log_prob(batch[0]).mean()
        parameters = [p for p in model.parameters() if p.numel()]
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(update(parameter, gradient, step))
    return weights(model)


def test_sgd_is_its_equation() -> None:
    wanted = by_hand(tiny().double(), 3, lambda parameter, gradient, step: 0.1 * gradient)
    model = tiny().double()
    run(model, epochs=3, batches=WHOLE, clip=None, optimizer="sgd", learning_rate=0.1)
    assert distance(weights(model), wanted) < 1e-12


def test_rmsprop_is_its_equation() -> None:
    mean: dict[int, Tensor] = {}

    def update(parameter: Tensor, gradient: Tensor, step: int) -> Tensor:
        before = mean.get(id(parameter), torch.zeros_like(gradient))
        mean[id(parameter)] = 0.9 * before + 0.1 * gradient**2
        return 0.01 * gradient / (mean[id(parameter)].sqrt() + 1e-8)

    wanted = by_hand(tiny().double(), 3, update)
    model = tiny().double()
    run(model, epochs=3, batches=WHOLE, clip=None, optimizer="rmsprop", learning_rate=0.01)
    assert distance(weights(model), wanted) < 1e-9


def test_adamw_decays_the_weights_apart_from_the_gradient() -> None:
    start = weights(tiny())
    plain = trained(epochs=1, batches=WHOLE, learning_rate=0.01)
    decayed = trained(epochs=1, batches=WHOLE, learning_rate=0.01, weight_decay=0.5)
    for name in start:
        torch.testing.assert_close(decayed[name], plain[name] - 0.01 * 0.5 * start[name])


@pytest.mark.parametrize("clip", [0.5, 0.01])
def test_clipping_bounds_the_gradient(clip: float) -> None:
    given: dict[str, Any] = {"epochs": 1, "batches": WHOLE, "optimizer": "sgd", "learning_rate": 0.1}
    start = weights(tiny())
    moved = distance(trained(**given, clip=clip), start)
    free = distance(trained(**given, clip=None), start)
    assert moved == pytest.approx(0.1 * min(clip, free / 0.1), rel=1e-3)
    assert free > 0.1 * 0.01 * 2


def test_the_learning_rate_is_halved_and_the_optimizer_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, 5.0, 5.1, 5.2, 5.3, 4.0, 4.1)
    model, steps, rates = tiny(), [], []
    before = weights(model)
    settings = TrainingSettings(epochs=6, patience=None, halve_after=1, optimizer="sgd", learning_rate=1.0, clip=0.001)
    for record in train(model, TRAIN, valid=VALID, settings=settings, batches=WHOLE):
        if record.event == "epoch":
            steps.append(distance(weights(model), before) / 0.001)  # the clipped gradient times the learning rate
            rates.append(record.learning_rate)
            before = weights(model)
    assert rates == [1.0, 0.5, 0.25, 0.125, 0.125, 0.0625]
    assert steps == pytest.approx([1.0, *rates[:-1]], rel=0.02)


def test_halving_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, 5.0, 5.1, 5.2, 5.3, 5.4, 4.0)
    records = run(tiny(), valid=VALID, epochs=6, patience=None, halve_after=2, learning_rate=0.008)
    rates = [record.learning_rate for record in records if record.event == "epoch"]
    assert rates == [0.008, 0.008, 0.004, 0.004, 0.002, 0.002]


# --- early stopping -----------------------------------------------------------------------------------------------


def test_patience_ends_a_run_and_the_best_weights_come_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    say(monkeypatch, 5.0, 4.0, 4.5, 4.4, 3.0)
    model, after = tiny(), []
    records = []
    for record in train(model, TRAIN, valid=VALID, epochs=9, patience=2, batches=WHOLE, folder=tmp_path):
        records.append(record)
        if record.event == "epoch":
            after.append(weights(model))
    epochs = [record for record in records if record.event == "epoch"]
    assert [record.valid for record in epochs] == [5.0, 4.0, 4.5, 4.4]
    assert [record.best for record in epochs] == [5.0, 4.0, 4.0, 4.0]
    assert (records[-1].event, records[-1].best, records[-1].step) == ("end", 4.0, 4)
    assert equal(weights(model), after[1])
    assert not equal(after[1], after[3])
    assert equal(weights(load(tmp_path)), after[1])


def test_without_validation_all_epochs_run_and_the_last_weights_stay(tmp_path: Path) -> None:
    model = tiny()
    for record in train(model, TRAIN, epochs=3, patience=1, batches=WHOLE, folder=tmp_path):
        if record.event == "epoch":
            last = weights(model)
            assert record.valid is None
            assert record.best is None
    assert equal(weights(model), last)
    assert equal(weights(load(tmp_path)), last)
    assert record.step == 3


# --- regularisation -----------------------------------------------------------------------------------------------


def test_tied_weights_stay_one_tensor(tmp_path: Path) -> None:
    model = tiny(tied=True)
    assert model.embedding.weight is model.layer.weight
    assert len(list(model.parameters())) == len(list(tiny().parameters())) - 1
    start = weights(model)
    records = run(model, epochs=5, learning_rate=0.02, folder=tmp_path)
    assert model.embedding.weight is model.layer.weight
    assert distance({"w": model.layer.weight.detach()}, {"w": start["embedding.weight"]}) > 0.1
    losses = [record.train for record in records if record.event == "epoch"]
    assert losses[-1] is not None
    assert losses[0] is not None
    assert losses[-1] < losses[0] - 0.2
    again = load(tmp_path)
    assert again.embedding.weight is again.layer.weight
    assert equal(weights(again), weights(model))


def test_weights_that_cannot_be_tied_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"as many inputs as hidden units.* 3 inputs and 8 hidden units"):
        tiny(tied=True, controller=LSTM(8, inputs=3))
    with pytest.raises(ConfigError, match="the same features on both sides"):
        tiny(tied=True, input_features=Identity(top=5))


def test_word_dropout_silences_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(word_dropout=0.3)
    fed: list[Tensor] = []
    scan = model.controller.scan

    def spy(psi: Tensor, *rest: Any, **named: Any) -> Any:
        fed.append(psi.detach())
        return scan(psi, *rest, **named)

    monkeypatch.setattr(model.controller, "scan", spy)
    batch = Sentences(10**6).plan(EncodedText.encode(TRAIN, VOCABULARY))[0]
    plain = model.eval().log_prob(batch)
    dropped = model.train().log_prob(batch, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(plain, dropped)
    kept = (fed[1] == fed[0]).all(-1)
    silent = (fed[1] == 0).all(-1)
    assert (kept ^ silent).all()
    assert float(silent.float().mean()) == pytest.approx(0.3, abs=0.05)
    with pytest.raises(ConfigError, match=r"word_dropout .* found 1.0"):
        tiny(word_dropout=1.0)


@pytest.mark.parametrize(
    "make",
    [lambda: tiny(word_dropout=0.4), lambda: tiny(controller=LSTM(8, dropout=0.4))],
    ids=["word dropout", "variational dropout"],
)
def test_dropout_acts_in_training_and_only_there(make: Callable[[], LLRNN]) -> None:
    first = trained(make, valid=VALID)
    assert equal(first, trained(make, valid=VALID))  # drawn from the seed
    assert not equal(first, trained(make, seed=1))
    assert not equal(first, trained(tiny))
    model = make()
    text = EncodedText.encode(VALID, VOCABULARY)
    records = run(model, valid=VALID, epochs=1)
    assert records[-1].best == score(model, text, Sentences(120)).log_perplexity


# --- records and the log ------------------------------------------------------------------------------------------


def strict(line: str) -> dict[str, Any]:
    """JSON as every reader takes it, without Python's NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found = json.loads(line, parse_constant=refuse)
    assert isinstance(found, dict)
    return found


def test_records_and_the_log_tell_the_same_whole_story(tmp_path: Path) -> None:
    model = tiny()
    records = run(model, valid=VALID, folder=tmp_path, log_every=2, epochs=3)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [strict(line) for line in lines] == [dataclasses.asdict(record) for record in records]
    batches = records[0].batches
    assert batches == len(Sentences(120).plan(EncodedText.encode(TRAIN, VOCABULARY), seed=0)) > 4
    steps = [record for record in records if record.event == "step"]
    assert [record.step for record in steps] == list(range(2, 3 * batches + 1, 2))
    for record in steps:
        assert record.step == record.epoch * batches + record.position
        assert 1 <= record.position <= batches
        assert record.valid is None
        assert record.train is not None
        assert 0 < record.train < 20
        assert record.words_per_second > 0
    epochs = [record for record in records if record.event == "epoch"]
    assert [(r.epoch, r.position, r.step) for r in epochs] == [(e, batches, (e + 1) * batches) for e in range(3)]
    assert all(record.valid is not None and record.learning_rate == 0.002 for record in epochs)
    assert epochs[-1].best == min(record.valid or 0.0 for record in epochs)
    last = records[-1]
    assert (last.event, last.epoch, last.step, last.train, last.best) == ("end", 3, 3 * batches, None, epochs[-1].best)


def test_the_loss_of_a_record_is_the_mean_over_the_words_since_the_epoch_began() -> None:
    """With a learning rate that moves nothing, each is the mean of the start model's −log p."""
    model = tiny().double()
    plan = Sentences(120).plan(EncodedText.encode(TRAIN, VOCABULARY), seed=0, epoch=0)
    seen: list[float] = []
    wanted = []
    for batch in plan:
        seen += model.log_prob(batch).tolist()
        wanted.append(-float(np.mean(seen)))
    records = run(model, epochs=1, log_every=1, optimizer="sgd", learning_rate=1e-300)
    assert [r.train for r in records if r.event == "step"] == pytest.approx(wanted, rel=1e-9)
    assert records[len(plan)].event == "epoch"
    assert records[len(plan)].train == pytest.approx(
        -sum(seen) / EncodedText.encode(TRAIN, VOCABULARY).n_targets, rel=1e-9
    )


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(tiny(), epochs=1)[-1].event == "end"
    assert list(tmp_path.iterdir()) == []


def test_training_is_lazy_and_can_be_left() -> None:
    model = tiny()
    start = weights(model)
    records = train(model, TRAIN, log_every=1)
    assert equal(weights(model), start)
    assert next(records).step == 1
    assert not equal(weights(model), start)


def test_every_step_is_told_to_whoever_draws_a_bar() -> None:
    told: list[tuple[int, int, int]] = []
    records = list(train(tiny(), TRAIN, epochs=2, log_every=1, on_step=lambda *news: told.append(news)))
    steps = [record for record in records if record.event == "step"]
    assert told == [(record.epoch, record.position, record.batches) for record in steps]
    assert told[-1] == (1, steps[-1].batches, steps[-1].batches)


# --- nothing hidden -----------------------------------------------------------------------------------------------


def test_global_random_states_do_not_matter_and_are_left_alone() -> None:
    def dropping() -> LLRNN:
        return tiny(controller=GRU(8, layers=2, dropout=0.3), word_dropout=0.2)

    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
        found.append(trained(dropping, valid=VALID))
        after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
        assert torch.equal(before[0], after[0])
        assert before[1:] == after[1:]
    assert equal(*found)


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES.keys())
def test_the_seed_decides_the_run(batches: dict[str, Any]) -> None:
    def dropping() -> LLRNN:
        return tiny(word_dropout=0.2)

    first = trained(dropping, batches=batches, seed=1)
    assert equal(first, trained(dropping, batches=batches, seed=1))
    assert not equal(first, trained(dropping, batches=batches, seed=2))


# --- NaN and infinity ---------------------------------------------------------------------------------------------


def assert_last_checkpoint_is_good(folder: Path) -> None:
    for tensors in (read_bundle(folder, "training").tensors, weights(load(folder))):
        for tensor in tensors.values():
            assert torch.isfinite(tensor).all()


def test_a_learning_rate_beyond_reason_stops_with_a_name_and_a_good_checkpoint(tmp_path: Path) -> None:
    good = tmp_path / "good"
    run(tiny(), epochs=1, folder=good)
    model = load(good)
    given: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 1e6, "clip": None, "checkpoint_every": 1}
    with torch.no_grad():
        model.layer.weight.fill_(1e37)  # times the hidden units, float32 knows nothing
    with pytest.raises(NonFiniteError, match=r"the .* is not finite at step \d+, epoch 0, batch \d+.*is kept in"):
        run(model, epochs=2, folder=tmp_path / "bad", **given)
    kept = read_bundle(tmp_path / "bad", "training").tensors
    assert all(torch.isfinite(tensor).all() for tensor in kept.values())


@pytest.mark.parametrize("valid", [None, VALID])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_broken_weight_is_named_and_the_last_good_model_kept(
    value: float, valid: Corpus | None, tmp_path: Path
) -> None:
    model = tiny()
    with pytest.raises(NonFiniteError) as found:  # noqa: PT012  (the weight is broken in mid-training)
        for record in train(
            model, TRAIN, valid=valid, batches=BATCHES["sentences"], log_every=1, checkpoint_every=3, folder=tmp_path
        ):
            if record.event == "step" and record.epoch == 1 and record.position == 2:
                model.controller.get_parameter("layers.0.weight_hh_l0").data[0, 0] = value
    batches = record.batches
    assert "weights.controller.layers.0.weight_hh_l0 is not finite" in str(found.value)
    assert f"at step {batches + 2}, epoch 1, batch 2" in str(found.value)
    assert str(tmp_path) in str(found.value)
    assert_last_checkpoint_is_good(tmp_path)


def test_a_weight_that_breaks_in_the_last_step_of_an_epoch_does_not_become_the_best_model(tmp_path: Path) -> None:
    model = tiny()
    with pytest.raises(NonFiniteError, match=r"weights.layer.bias .* epoch 1, batch 1"):  # noqa: PT012
        for record in train(model, TRAIN, batches=WHOLE, log_every=1, checkpoint_every=100, folder=tmp_path):
            if record.event == "step" and record.epoch == 1:
                model.layer.bias.data[0] = float("nan")
    assert_last_checkpoint_is_good(tmp_path)


def test_a_gradient_that_is_not_finite_is_named() -> None:
    model = tiny()
    model.layer.bias.register_hook(lambda gradient: gradient * float("nan"))  # type: ignore[no-untyped-call]
    start = weights(model)
    with pytest.raises(NonFiniteError, match=r"gradient of layer.bias is not finite at step 0, epoch 0, batch 0;"):
        run(model)
    assert equal(weights(model), start)


def test_a_validation_that_is_not_finite_stops_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    say(monkeypatch, 4.0, float("nan"))
    with pytest.raises(NonFiniteError, match=r"validation loss is not finite.* epoch 1"):
        run(tiny(), valid=VALID, folder=tmp_path)
    assert_last_checkpoint_is_good(tmp_path)


def test_a_model_that_is_broken_from_the_start_writes_nothing(tmp_path: Path) -> None:
    model = tiny()
    model.layer.weight.data[3, 3] = float("nan")
    with pytest.raises(NonFiniteError, match=r"weights.layer.weight is not finite at step 0"):
        run(model, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- what cannot be trained ---------------------------------------------------------------------------------------


CONDITIONED = Corpus.from_sentences([Sentence((Token("le"),), condition="x")])
FORBIDDING = Mask(forbidden=["le"])


@pytest.mark.parametrize(
    ("corpus", "given", "error", "message"),
    [
        (ALL[:0], {}, TrainingError, "no sentence to train on"),
        (TRAIN, {"valid": ALL[:0]}, TrainingError, "no sentence to validate on"),
        (CONDITIONED, {"batches": BATCHES["windows"]}, TrainingError, "use the batching by sentences"),
        (TRAIN, {"valid": CONDITIONED, "batches": BATCHES["continuous"]}, TrainingError, "batching by sentences"),
        (Corpus.from_sentences([["zut"]]), {}, UnknownWordError, "sentence 0: the word 'zut'"),
        (TRAIN, {"valid": Corpus.from_sentences([["zut"]])}, UnknownWordError, "'zut'"),
        (TRAIN, {"learning": 1}, ConfigError, "learning: no such key"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    corpus: Corpus, given: dict[str, Any], error: type[LLRNNError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        train(tiny(), corpus, **{"folder": tmp_path / "run", **given})
    assert not (tmp_path / "run").exists()


def test_an_observed_word_without_mass_is_named() -> None:
    with pytest.raises(ZeroMassError, match="observed word 'le' no mass"):
        run(tiny(background=FORBIDDING), Corpus.from_sentences([["le"]]))


def test_one_sentence_of_one_word_can_be_trained_on_in_each_way() -> None:
    for batches in BATCHES.values():
        records = run(tiny(), Corpus.from_sentences([["le"]]), epochs=3, batches=batches, log_every=1)
        assert [record.step for record in records if record.event == "step"] == [1, 2, 3]


def test_settings_can_be_given_whole_and_changed() -> None:
    settings = TrainingSettings(epochs=1, learning_rate=0.01)
    records = list(train(tiny(), TRAIN, settings=settings, epochs=2))
    assert [r.learning_rate for r in records if r.event == "epoch"] == [0.01, 0.01]
