"""What keeps a small model from learning its text by heart: each against its definition, recorded, and resumed."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from llrnn import GRU, LLRNN, LSTM, train
from llrnn.ground.errors import ConfigError
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import Elman, Recurrent, make_controller
from llrnn.model.scoring import Continuous
from llrnn.text.encoded import EncodedText
from llrnn.training.optimizer import WeightAverage
from llrnn.training.settings import CycleRate, TrainingSettings
from llrnn.training.updates import Updater
from llrnn.training.workers import Workers
from test_captured import CONTINUOUS, TRAIN, VALID, VOCABULARY, a_model, recorded, trained, weights
from test_resume import assert_same_run, stopped_often, undisturbed
from test_training import tiny

EVERYTHING: dict[str, Any] = {
    "schedule": {"kind": "cycle", "warm_up": 0.7, "anneal": 0.8, "final": 0.1},
    "batches": {**CONTINUOUS, "shift": True},
    "activation": 2.0,
    "slowness": 1.0,
    "average": 0.9,
    "average_last": 0.4,
    "validate_every": 2,
    "patience": None,
    "epochs": 4,
}


def body(**changes: Any) -> LSTM:
    rates = {"dropout": 0.1, "input_dropout": 0.3, "output_dropout": 0.2, "weight_dropout": 0.4}
    return LSTM(8, layers=3, inputs=5, last=5, **{**rates, **changes})


def restrained() -> LLRNN:
    return a_model(controller=body(), tied=True, word_dropout=0.1)


# --- dropout of each place --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Elman, GRU, LSTM])
def test_weights_of_the_recurrence_are_dropped_for_a_whole_batch(kind: type[Recurrent]) -> None:
    network = kind(6, weight_dropout=0.4)
    psi, state = torch.randn(3, 5, 6), network.initial([None] * 3)
    found, after = network.scan(psi, state, generator=torch.Generator().manual_seed(3))
    by_hand, again = kind(6), "weight_hh_l0"
    by_hand.load_state_dict(network.state_dict())
    weight: Tensor = getattr(by_hand.layers[0], again)
    kept = torch.rand(weight.shape, generator=torch.Generator().manual_seed(3)) >= 0.4
    with torch.no_grad():
        weight.mul_(kept / 0.6)
    wanted, after_wanted = by_hand.scan(psi, state)
    assert 0 < kept.sum() < kept.numel()
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(after, after_wanted)
    torch.testing.assert_close(network.scan(psi, state)[0], network.scan(psi, state)[0], rtol=0, atol=0)  # none without


def test_dropped_weights_are_what_they_were_in_the_mean() -> None:
    """With one step from an input of 0 and a small state, h is nearly linear in the weights of the recurrence."""
    network = Elman(4, weight_dropout=0.5).double()
    psi, state = torch.zeros(1, 1, 4).double(), (torch.full((1, 4), 1e-4).double(),)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([network.scan(psi, state, generator=generator)[0] for _ in range(4000)])
    wanted, spread = network.scan(psi, state)[0], drawn.std(0) / math.sqrt(len(drawn))
    assert (spread > 0).all()
    assert ((drawn.mean(0) - wanted).abs() < 4.5 * spread + 1e-9).all()


def test_gradients_reach_the_weights_that_were_kept() -> None:
    network = LSTM(6, weight_dropout=0.5)
    h, _ = network.scan(torch.randn(2, 4, 6), network.initial([None] * 2), generator=torch.Generator().manual_seed(1))
    h.sum().backward()  # type: ignore[no-untyped-call]
    weight: Any = network.layers[0].weight_hh_l0
    kept = torch.rand(weight.shape, generator=torch.Generator().manual_seed(1)) >= 0.5
    assert torch.equal(weight.grad != 0, kept)


def test_each_place_has_its_rate() -> None:
    """Of one coordinate alone that is dropped for certain, nothing is seen behind it."""
    psi, seed = torch.randn(2, 3, 4), 2

    def drops(**rates: float) -> Tensor:
        network = LSTM(4, layers=2, **rates)  # type: ignore[arg-type]
        return network.scan(psi, network.initial([None] * 2), generator=torch.Generator().manual_seed(seed))[0]

    plain = drops()
    assert torch.equal(drops(dropout=0.4), drops(dropout=0.4, input_dropout=0.4, output_dropout=0.4))
    only_out = drops(output_dropout=0.9)
    gone = only_out == 0
    assert gone.any()
    assert torch.equal(gone, gone[:, :1].expand_as(gone))  # one mask for all steps
    torch.testing.assert_close(only_out[~gone], plain[~gone] / 0.1, rtol=1e-4, atol=1e-6)
    for one in ("dropout", "input_dropout"):
        assert not torch.equal(drops(**{one: 0.5}, **({"input_dropout": 0.0} if one == "dropout" else {})), plain)


def test_scan_is_its_steps_in_evaluation_and_settings_make_it_again() -> None:
    network = body().double()
    psi, state = torch.randn(2, 4, 5).double(), network.initial([None] * 2)
    h, after = network.scan(psi, state)
    for t in range(4):
        own, state = network.step(psi[:, t], state)
        torch.testing.assert_close(own, h[:, t])
    torch.testing.assert_close(after, state)
    again = make_controller(network.settings())
    assert again.settings() == network.settings()
    assert [p.shape for p in again.parameters()] == [p.shape for p in network.parameters()]
    assert LSTM(8, layers=2, dropout=0.1).settings().keys() == {"kind", "hidden", "layers", "inputs", "dropout"}


def test_wrong_rates_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"weight_dropout must be at least 0 and below 1, found 1\.5"):
        LSTM(4, weight_dropout=1.5)


# --- strips that begin elsewhere --------------------------------------------------------------------------------------


def pairs(plan: Any) -> Counter[tuple[int, int]]:
    return Counter(
        pair for batch in plan for pair in zip(batch.inputs[batch.mask].tolist(), batch.targets[batch.mask].tolist(),
                                               strict=True)
    )  # fmt: skip


def keyed(plan: Any) -> Counter[tuple[int, int]]:
    """Each target with the key of its sentence."""
    return Counter(
        pair for batch in plan for pair in zip(batch.sentences[batch.mask].tolist(), batch.targets[batch.mask].tolist(),
                                               strict=True)
    )  # fmt: skip


def test_shifted_strips_read_every_word_once_behind_the_same_word() -> None:
    text = EncodedText.to_train_on(TRAIN, VOCABULARY)
    plain, shifted = Continuous(4, 12), Continuous(4, 12, shift=True)
    wanted = list(plain.plan(text, seed=1))
    firsts = set()
    for epoch in range(4):
        plan = list(shifted.plan(text, seed=1, epoch=epoch))
        assert pairs(plan) == pairs(wanted)
        assert [batch.mask.shape for batch in plan] == [batch.mask.shape for batch in wanted]
        assert keyed(plan) == keyed(wanted)
        firsts.add(tuple(plan[0].inputs[0].tolist()))
        # a strip goes on in the next batch where it was
        assert torch.equal(plan[0].targets[:, -1], plan[1].inputs[:, 0])
    assert len(firsts) == 4
    assert torch.equal(shifted.plan(text)[0].inputs, wanted[0].inputs)  # where nothing is shuffled, nothing is shifted


# --- the learning rate ------------------------------------------------------------------------------------------------


def test_the_rate_rises_and_falls() -> None:
    rate = CycleRate(kind="cycle", warm_up=2.0, anneal=0.5, final=0.1)
    found = {done: rate.factor(done, 20) for done in (0.5, 1.0, 2.0, 10.0, 15.0, 20.0)}
    assert found == pytest.approx({0.5: 0.25, 1.0: 0.5, 2.0: 1.0, 10.0: 1.0, 15.0: 0.55, 20.0: 0.1})


def test_records_say_the_rate_and_the_weights_follow_it() -> None:
    given = {**EVERYTHING, "optimizer": "sgd", "learning_rate": 0.5, "log_every": 1}
    records = [one for one in train(restrained(), TRAIN, valid=VALID, **given) if one.event == "step"]
    rates = [one.learning_rate for one in records]
    assert max(rates) == pytest.approx(0.5)
    assert rates[-1] == pytest.approx(0.05, rel=0.2)
    top = rates.index(max(rates))
    assert rates[:top] == sorted(rates[:top])
    assert rates[top + 20 :] == sorted(rates[top + 20 :], reverse=True)


# --- h that is small and slow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [False, True])
def test_restraints_are_means_of_squares(padded: bool) -> None:
    model = a_model(controller=LSTM(4)).eval()
    symbols = torch.tensor([[0, 3, 5, 6], [0, 4, 7, 8]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    batch = Batch(symbols[:, :-1], symbols[:, 1:], mask)
    given = batch.padded(3, 4, 0) if padded else batch
    updater = Updater(model, TrainingSettings(activation=2.0, slowness=3.0), Workers())
    h, _ = model.controller.scan(model.embedding(batch.inputs), model.controller.initial([None] * 2))
    squares = h[0].square().sum() + h[1, :2].square().sum()
    changes = (h[0, 1:] - h[0, :-1]).square().sum() + (h[1, 1] - h[1, 0]).square().sum()
    found = updater._restraint(model.scan(given)[0], given)
    torch.testing.assert_close(found, (2 * squares + 3 * changes) / (5 * 4))
    model.zero_grad()
    loss, _ = updater.backward(given, None, torch.Generator())
    torch.testing.assert_close(loss, model(batch))  # what is reported is the loss
    gradient = model.layer.weight.grad
    assert gradient is not None
    own = next(iter(model.controller.parameters()))
    wanted = torch.autograd.grad(model(batch) + updater._restraint(model.scan(batch)[0], batch), own)[0]
    torch.testing.assert_close(own.grad, wanted)


# --- averages ---------------------------------------------------------------------------------------------------------


def test_at_last_all_weights_count_equally() -> None:
    module = torch.nn.Linear(2, 1, bias=False)
    average, seen = WeightAverage(module, 0.9, at_last=True), []
    for step in range(1, 8):
        with torch.no_grad():
            module.weight.copy_(torch.randn(1, 2))
        average.since = 4 if step >= 4 else None
        average.update(step)
        seen.append(module.weight.detach().clone())
    with average.applied():
        torch.testing.assert_close(module.weight.detach(), torch.stack(seen[3:]).mean(0))
    assert torch.equal(module.weight, seen[-1])


def test_before_the_last_part_there_is_no_average_without_a_decay() -> None:
    module = torch.nn.Linear(2, 1)
    average = WeightAverage(module, None, at_last=True)
    with torch.no_grad():
        module.weight.fill_(3.0)
    average.update(1)
    with average.applied():
        assert (module.weight == 3.0).all()


# --- all of it, recorded and resumed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop", "adamw"])
def test_recorded_updates_are_the_usual_ones(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {**EVERYTHING, "optimizer": optimizer}
    usual, replayed = restrained(), restrained()
    expected = trained(usual, **changes)
    again = recorded(monkeypatch)
    assert trained(replayed, **changes) == expected
    assert again.replays > 10 * again.records > 0  # a rate that changes is no reason to record again
    for one, other in zip(weights(usual), weights(replayed), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("stops", [[1, 3, 20], [7], [30, 30]])
def test_a_run_that_was_stopped_comes_to_the_same(stops: list[int], tmp_path: Path) -> None:
    def make() -> LLRNN:
        return tiny(controller=body(), tied=True, word_dropout=0.1)

    given = {**EVERYTHING, "batches": {"kind": "continuous", "rows": 2, "length": 5, "shift": True}}
    undisturbed(make, tmp_path / "whole", **given)
    stopped_often(make, tmp_path / "stopped", stops, **given)
    log = tmp_path / "stopped" / "log.jsonl"
    log.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if '"interrupted"' not in line))
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_validations_are_left_out(tmp_path: Path) -> None:
    records = list(train(restrained(), TRAIN, valid=VALID, folder=tmp_path / "run", **{**EVERYTHING, "epochs": 5}))
    judged = [one.epoch + 1 for one in records if one.event == "epoch" and one.valid is not None]
    assert judged == [2, 4, 5]  # every second, and the last


def test_a_training_can_be_planned_anew_and_a_resumed_one_knows(tmp_path: Path) -> None:
    given = {**EVERYTHING, "epochs": 100, "log_every": 1}
    asked: list[int] = []

    def replan(record: Any) -> int | None:
        asked.append(record.epoch)
        return 4 if record.epoch == 1 else None

    records = list(train(restrained(), TRAIN, valid=VALID, folder=tmp_path / "whole", replan=replan, **given))
    assert records[-1].event == "end"
    assert records[-1].epoch == 4
    assert asked == [0, 1, 2, 3]
    rates = [one.learning_rate for one in records if one.event == "step"]
    assert rates[-1] == pytest.approx(min(rates[len(rates) // 4 :]))  # it has fallen
    left = [2 * records[0].batches + 3]

    def should_stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    list(train(restrained(), TRAIN, valid=VALID, folder=tmp_path / "parts", replan=replan, should_stop=should_stop,
               **given))  # fmt: skip
    list(train(restrained(), TRAIN, valid=VALID, folder=tmp_path / "parts", resume=True, **given))  # nobody plans
    log = tmp_path / "parts" / "log.jsonl"
    log.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if '"interrupted"' not in line))
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
