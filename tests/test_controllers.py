"""Controllers: one step at a time and all at once are the same; nothing is random by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from llrnn import GRU, LSTM, Elman, Stacked
from llrnn.controllers import Controller, make_controller, variational_dropout
from llrnn.errors import ConfigError
from strategies import MINUS_INFINITY  # noqa: F401  (importing it sets the number of threads)

Maker = Callable[[], Controller]

MAKERS: dict[str, Maker] = {
    "elman": lambda: Elman(5, inputs=3),
    "gru": lambda: GRU(5, layers=2, inputs=3),
    "lstm": lambda: LSTM(5, inputs=3),
    "lstm of three layers": lambda: LSTM(4, layers=3, inputs=3),
    "stacked": lambda: Stacked(GRU(4, inputs=3), LSTM(6, layers=2, inputs=4), Elman(5, inputs=6)),
}
DROPPING: dict[str, Maker] = {
    "elman": lambda: Elman(6, inputs=3, dropout=0.5),
    "gru": lambda: GRU(6, layers=2, inputs=3, dropout=0.5),
    "lstm": lambda: LSTM(6, inputs=3, dropout=0.5),
    "stacked": lambda: Stacked(GRU(6, inputs=3), LSTM(6, dropout=0.5)),
}

every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
every_dropping = pytest.mark.parametrize("make", DROPPING.values(), ids=DROPPING.keys())


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def alive(controller: Controller) -> Controller:
    """In float64, with biases too: they begin as zeros."""
    for index, parameter in enumerate(controller.parameters()):
        parameter.data = drawn(*parameter.shape, seed=index) * 0.5
    return controller.double()


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


# --- step and scan ------------------------------------------------------------------------------------------------


@every
def test_the_scan_is_the_fold_of_the_step(make: Maker) -> None:
    controller, psi = alive(make()), drawn(2, 7, 3)
    h, after = controller.scan(psi, controller.initial(2))
    assert h.shape == (2, 7, controller.hidden)
    state = controller.initial(2)
    for t in range(7):
        one, state = controller.step(psi[:, t], state)
        close(one, h[:, t])
    assert len(state) == len(after) == len(controller.initial(2))
    for mine, theirs in zip(state, after, strict=True):
        close(mine, theirs)


@every
def test_a_scan_can_be_cut_anywhere(make: Maker) -> None:
    controller, psi = alive(make()), drawn(3, 6, 3)
    whole, _ = controller.scan(psi, controller.initial(3))
    first, state = controller.scan(psi[:, :2], controller.initial(3))
    second, _ = controller.scan(psi[:, 2:], state)
    close(torch.cat([first, second], 1), whole)


@every
def test_rows_are_independent_and_the_past_does_not_see_the_future(make: Maker) -> None:
    controller, psi = alive(make()), drawn(3, 6, 3)
    h, _ = controller.scan(psi, controller.initial(3))
    alone, _ = controller.scan(psi[1:2], controller.initial(1))
    close(alone, h[1:2])
    changed = psi.clone()
    changed[:, 4:] += 1.0
    other, _ = controller.scan(changed, controller.initial(3))
    close(other[:, :4], h[:, :4])
    assert (other[:, 4:] - h[:, 4:]).abs().min() > 0


def test_elman_is_its_equation() -> None:
    controller, psi = alive(Elman(4, inputs=3)), drawn(2, 5, 3)
    U, V, b, c = (dict(controller.named_parameters())[f"layers.0.{name}_l0"] for name in _NAMES)
    state = torch.zeros(2, 4, dtype=torch.float64)
    h, _ = controller.scan(psi, controller.initial(2))
    for t in range(5):
        state = torch.tanh(psi[:, t] @ U.t() + state @ V.t() + b + c)
        close(h[:, t], state)


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def test_a_stack_feeds_one_controller_to_the_next() -> None:
    below, above = alive(GRU(4, inputs=3)), alive(LSTM(5, inputs=4))
    psi = drawn(2, 6, 3)
    between, _ = below.scan(psi, below.initial(2))
    wanted, _ = above.scan(between, above.initial(2))
    both = Stacked(below, above)
    found, after = both.scan(psi, both.initial(2))
    close(found, wanted)
    assert [tuple(part.shape) for part in after] == [(2, 4), (2, 5), (2, 5)]


# --- dropout ------------------------------------------------------------------------------------------------------


@every_dropping
def test_without_a_generator_nothing_is_dropped(make: Maker) -> None:
    controller, psi = alive(make()), drawn(2, 5, 3)
    plain, _ = controller.scan(psi, controller.initial(2))
    again, _ = controller.train().scan(psi, controller.initial(2))  # torch's own switch means nothing here
    assert torch.equal(plain, again)
    settings = controller.settings()
    for part in settings.get("parts", [settings]):
        part["dropout"] = 0.0
    without = make_controller(settings).double()
    without.load_state_dict(controller.state_dict())
    close(without.scan(psi, without.initial(2))[0], plain)


@every_dropping
def test_the_generator_decides_what_is_dropped(make: Maker) -> None:
    controller, psi = alive(make()), drawn(2, 5, 3)

    def scan(seed: int) -> torch.Tensor:
        return controller.scan(psi, controller.initial(2), generator=torch.Generator().manual_seed(seed))[0]

    torch.manual_seed(1)
    first = scan(0)
    torch.manual_seed(2)
    assert torch.equal(first, scan(0))
    assert not torch.equal(first, scan(1))
    assert not torch.equal(first, controller.scan(psi, controller.initial(2))[0])


def test_one_mask_holds_for_the_whole_sequence() -> None:
    dropped = variational_dropout(torch.ones(40, 9, 30), 0.25, torch.Generator().manual_seed(0))
    assert (dropped == dropped[:, :1]).all()  # the same coordinates at every step
    assert sorted(set(dropped.flatten().tolist())) == [0.0, pytest.approx(1 / 0.75)]
    assert (dropped[0, 0] != dropped[1, 0]).any()  # but not in every row
    assert float((dropped == 0).float().mean()) == pytest.approx(0.25, abs=0.05)


def test_the_recurrence_is_not_dropped() -> None:
    """Dropout stands on what enters and leaves a layer: with no input weights, the state is as without."""
    controller = alive(LSTM(6, inputs=3, dropout=0.5))
    controller.get_parameter("layers.0.weight_ih_l0").data.zero_()
    psi = drawn(2, 5, 3)
    _, plain = controller.scan(psi, controller.initial(2))
    _, dropped = controller.scan(psi, controller.initial(2), generator=torch.Generator().manual_seed(0))
    for one, other in zip(plain, dropped, strict=True):
        close(one, other)


# --- making them --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [*MAKERS.values(), *DROPPING.values()])
def test_settings_make_the_same_controller_again(make: Maker) -> None:
    controller = alive(make())
    again = make_controller(controller.settings()).double()
    assert again.settings() == controller.settings()
    assert repr(again) == repr(controller)
    assert (again.inputs, again.hidden) == (controller.inputs, controller.hidden)
    again.load_state_dict(controller.state_dict())  # the names and shapes of all weights are the same
    psi = drawn(2, 4, 3)
    assert torch.equal(again.scan(psi, again.initial(2))[0], controller.scan(psi, controller.initial(2))[0])


def test_sizes_by_default() -> None:
    controller = make_controller({"hidden": 7})
    assert isinstance(controller, LSTM)
    assert (controller.inputs, controller.hidden) == (7, 7)


def test_making_a_controller_leaves_the_global_generator_alone() -> None:
    made = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        made.append(Stacked(GRU(4, layers=2), LSTM(5, inputs=4)))
        assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(made[0].parameters(), made[1].parameters(), strict=True):
        assert torch.equal(one, other)
        assert one.device.type == "cpu"
        assert one.requires_grad


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LSTM(0), "hidden, layers, inputs of 1 or more, found 0, 1, None"),
        (lambda: GRU(3, layers=0), "GRU needs .* found 3, 0, None"),
        (lambda: Elman(3, inputs=0), "Elman needs .* found 3, 1, 0"),
        (lambda: LSTM(3, dropout=1.0), "dropout must be at least 0 and below 1, found 1.0"),
        (lambda: LSTM(3, dropout=-0.1), "found -0.1"),
        (lambda: LSTM(3, dropout=float("nan")), "found nan"),
        (lambda: Stacked(), "at least one controller"),
        (lambda: Stacked(LSTM(3), GRU(4)), r"LSTM\(hidden=3.* puts out 3 and GRU\(hidden=4.* takes 4"),
        (lambda: make_controller({"kind": "transformer"}), "'transformer': use one of elman, gru, lstm, stacked"),
    ],
)
def test_what_cannot_be_made_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
