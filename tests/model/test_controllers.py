"""Controllers: one step at a time and all at once are the same; nothing is random by itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import small_corpus, small_model, small_vocabulary
from llrnn import GRU, LLRNN, LSTM, Elman, backgrounds, load, train
from llrnn.ground.errors import CheckpointError, ConfigError
from llrnn.knowledge.features import Identity
from llrnn.knowledge.process import ModelState
from llrnn.model.controllers import (
    Attentive,
    Controller,
    Encoder,
    Hidden,
    TorchLSTM,
    WithoutOneDNN,
    make_controller,
    make_encoder,
    variational_dropout,
)
from llrnn.model.modern import Mogrifier, Transformer
from llrnn.model.scoring import score
from llrnn.text.conditions import ConditionTokenizer, Slots, Whole, Words, parse_act
from llrnn.text.encoded import EncodedText
from strategies import MINUS_INFINITY  # which also sets the number of threads

Maker = Callable[[], Controller]

CONDITIONS = ("a b c", "b", "c c a b unheard-of")  # of different lengths; most controllers do not look


def attentive(kind: str = "gru", dropout: float = 0.0, reading: ConditionTokenizer | None = None) -> Attentive:
    encoder = Encoder.for_conditions(reading or Words(), ["a b c", "c b"], 4, kind=kind, dropout=dropout)
    return Attentive(GRU(5, inputs=3, dropout=dropout), encoder, LSTM(6, inputs=9, dropout=dropout))


MAKERS: dict[str, Maker] = {
    "elman": lambda: Elman(5, inputs=3),
    "gru": lambda: GRU(5, layers=2, inputs=3),
    "lstm": lambda: LSTM(5, inputs=3),
    "lstm of three layers": lambda: LSTM(4, layers=3, inputs=3),
    "transformer": lambda: Transformer(8, layers=2, heads=2, inputs=3),
    "transformer of a short window": lambda: Transformer(4, layers=3, heads=1, window=3, inputs=3),
    "mogrifier": lambda: Mogrifier(5, layers=2, rounds=3, inputs=3),
    "mogrifier without rounds": lambda: Mogrifier(5, rounds=0, inputs=3),
    "attentive": lambda: attentive(),
    "attentive, lstm": lambda: attentive("lstm"),
    "attentive, vectors": lambda: attentive("none", reading=Whole()),
}
DROPPING: dict[str, Maker] = {
    "elman": lambda: Elman(6, inputs=3, dropout=0.5),
    "gru": lambda: GRU(6, layers=2, inputs=3, dropout=0.5),
    "lstm": lambda: LSTM(6, inputs=3, dropout=0.5),
    "transformer": lambda: Transformer(8, layers=2, heads=2, inputs=3, dropout=0.5),
    "mogrifier": lambda: Mogrifier(6, layers=2, inputs=3, dropout=0.5),
    "attentive": lambda: attentive(dropout=0.5),
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
    h, after = controller.scan(psi, controller.initial(CONDITIONS[:2]))
    assert h.shape == (2, 7, controller.hidden)
    state = controller.initial(CONDITIONS[:2])
    for t in range(7):
        one, state = controller.step(psi[:, t], state)
        close(one, h[:, t])
    assert len(state) == len(after) == len(controller.initial(CONDITIONS[:2])) == controller.state_size
    for mine, theirs in zip(state, after, strict=True):
        close(mine, theirs)


@every
def test_a_scan_can_be_cut_anywhere(make: Maker) -> None:
    controller, psi = alive(make()), drawn(3, 6, 3)
    whole, _ = controller.scan(psi, controller.initial(CONDITIONS[:3]))
    first, state = controller.scan(psi[:, :2], controller.initial(CONDITIONS[:3]))
    second, _ = controller.scan(psi[:, 2:], state)
    close(torch.cat([first, second], 1), whole)


@every
def test_rows_are_independent_and_the_past_does_not_see_the_future(make: Maker) -> None:
    controller, psi = alive(make()), drawn(3, 6, 3)
    h, _ = controller.scan(psi, controller.initial(CONDITIONS[:3]))
    alone, _ = controller.scan(psi[1:2], controller.initial(CONDITIONS[1:2]))
    close(alone, h[1:2])
    changed = psi.clone()
    changed[:, 4:] += 1.0
    other, _ = controller.scan(changed, controller.initial(CONDITIONS[:3]))
    close(other[:, :4], h[:, :4])
    assert (other[:, 4:] - h[:, 4:]).abs().min() > 0


@every
def test_rows_that_have_read_different_amounts_go_on_side_by_side(make: Maker) -> None:
    controller, psi = alive(make()), drawn(2, 12, 3)
    alone = []
    for row, read in ((0, 7), (1, 2)):
        _, state = controller.scan(psi[row : row + 1, :read], controller.initial(CONDITIONS[row : row + 1]))
        alone.append((ModelState(state, ()), controller.scan(psi[row : row + 1, 7:], state)[0]))
    both = ModelState.joined([state for state, _ in alone], torch.device("cpu"))
    together, _ = controller.scan(psi[:, 7:], both.controller)
    close(together, torch.cat([h for _, h in alone]))
    swapped, _ = controller.scan(psi[:, 7:].flip(0), both.select([1, 0]).controller)
    close(swapped.flip(0), together)


def test_elman_is_its_equation() -> None:
    controller, psi = alive(Elman(4, inputs=3)), drawn(2, 5, 3)
    U, V, b, c = (dict(controller.named_parameters())[f"layers.0.{name}_l0"] for name in _NAMES)
    state = torch.zeros(2, 4, dtype=torch.float64)
    h, _ = controller.scan(psi, controller.initial(CONDITIONS[:2]))
    for t in range(5):
        state = torch.tanh(psi[:, t] @ U.t() + state @ V.t() + b + c)
        close(h[:, t], state)


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


# --- dropout ------------------------------------------------------------------------------------------------------


@every_dropping
def test_without_a_generator_nothing_is_dropped(make: Maker) -> None:
    controller, psi = alive(make()), drawn(2, 5, 3)
    plain, _ = controller.scan(psi, controller.initial(CONDITIONS[:2]))
    again, _ = controller.train().scan(psi, controller.initial(CONDITIONS[:2]))  # torch's own switch means nothing here
    assert torch.equal(plain, again)
    settings = controller.settings()
    for part in settings.get("parts", [settings]):
        part["dropout"] = 0.0
    without = make_controller(settings).double()
    without.load_state_dict(controller.state_dict())
    close(without.scan(psi, without.initial(CONDITIONS[:2]))[0], plain)


@every_dropping
def test_the_generator_decides_what_is_dropped(make: Maker) -> None:
    controller, psi = alive(make()), drawn(2, 5, 3)

    def scan(seed: int) -> torch.Tensor:
        return controller.scan(psi, controller.initial(CONDITIONS[:2]), generator=torch.Generator().manual_seed(seed))[
            0
        ]

    torch.manual_seed(1)
    first = scan(0)
    torch.manual_seed(2)
    assert torch.equal(first, scan(0))
    assert not torch.equal(first, scan(1))
    assert not torch.equal(first, controller.scan(psi, controller.initial(CONDITIONS[:2]))[0])


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
    _, plain = controller.scan(psi, controller.initial(CONDITIONS[:2]))
    _, dropped = controller.scan(psi, controller.initial(CONDITIONS[:2]), generator=torch.Generator().manual_seed(0))
    for one, other in zip(plain, dropped, strict=True):
        close(one, other)


# --- looking at a condition ---------------------------------------------------------------------------------------


@torch.no_grad()
def test_attention_is_its_equation() -> None:
    """Row by row and step by step, with loops."""
    controller, psi = alive(attentive("none")), drawn(3, 4, 3)
    assert isinstance(controller, Attentive)
    below, _ = controller.below.scan(psi, controller.below.initial(CONDITIONS))
    inputs = torch.zeros(3, 4, 9, dtype=torch.float64)
    for b, condition in enumerate(CONDITIONS):
        rows = [(f"Word:{word}",) for word in condition.split()] + [("End",)]
        columns = [
            [controller.encoder.names.index(name if name in controller.encoder.names else "Other") for name in r]
            for r in rows
        ]
        memory = [sum((controller.encoder.weight[c] for c in row), torch.zeros(4)) for row in columns]
        for t in range(4):
            scores = [float(m @ (controller.query @ below[b, t])) / 2.0 for m in memory]
            total = sum(math.exp(score) for score in scores)
            seen = sum(math.exp(score) / total * m for score, m in zip(scores, memory, strict=True))
            inputs[b, t] = torch.cat([below[b, t], torch.as_tensor(seen)])
    wanted, _ = controller.above.scan(inputs, controller.above.initial(CONDITIONS))
    found, _ = controller.scan(psi, controller.initial(CONDITIONS))
    close(found, wanted)


def test_the_condition_makes_a_difference_and_unheard_of_words_are_alike() -> None:
    controller, psi = alive(attentive()), drawn(1, 3, 3)

    def h(condition: object) -> torch.Tensor:
        found: torch.Tensor = controller.scan(psi, controller.initial([condition]))[0]
        return found

    assert (h("a b") - h("b a")).abs().max() > 1e-6
    close(h("a new"), h("a other"))


def test_features_of_symbols_add_up_and_unread_values_are_alike() -> None:
    acts = [parse_act(text) for text in ("inform(name=x;food=a)", "inform(name='y z';food=b)")]
    encoder = alive_encoder(Encoder.for_conditions(Slots(unread=["name"]), acts, 4, kind="none"))
    memory, counts = encoder([parse_act("inform(name=new;food=a)"), *acts])
    assert counts.sum(1).tolist() == [4, 4, 5]  # the act, a symbol for each word, the end
    close(memory[0, :4], memory[1, :4])
    names = ["Slot:food", "First", "Last", "Word:a", "food=a"]
    close(memory[0, 2], sum((encoder.weight[encoder.names.index(name)] for name in names), torch.zeros(4)))


def alive_encoder(encoder: Encoder) -> Encoder:
    encoder.weight.data = drawn(*encoder.weight.shape)
    return encoder.double()


def test_a_category_is_a_learned_vector() -> None:
    encoder = alive_encoder(Encoder.for_conditions(Whole(), ["sport", "politics"], 4, kind="none"))
    memory, _ = encoder(["politics"])
    close(memory[0, 0], encoder.weight[encoder.names.index("Value:politics")])


def test_gradients_reach_the_encoder() -> None:
    controller, psi = alive(attentive("lstm")), drawn(3, 4, 3)
    loss = controller.scan(psi, controller.initial(CONDITIONS))[0].square().sum()
    for gradient in torch.autograd.grad(loss, list(controller.parameters())):
        assert bool(torch.isfinite(gradient).all())
        assert float(gradient.abs().max()) > 0


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
    assert torch.equal(
        again.scan(psi, again.initial(CONDITIONS[:2]))[0], controller.scan(psi, controller.initial(CONDITIONS[:2]))[0]
    )


def test_sizes_by_default() -> None:
    controller = make_controller({"hidden": 7})
    assert isinstance(controller, LSTM)
    assert (controller.inputs, controller.hidden) == (7, 7)


def test_making_a_controller_leaves_the_global_generator_alone() -> None:
    made = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        made.append(LSTM(5, layers=2, inputs=4))
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
        (lambda: Encoder(Words(), ["Word:a"], 3), "of an even size.* found 'lstm' of size 3"),
        (lambda: Encoder(Words(), ["Word:a"], 0, kind="none"), "found 'none' of size 0"),
        (lambda: Encoder(Words(), [], 4, kind="transformer"), "an encoder is lstm, gru .* found 'transformer'"),
        (lambda: Attentive(GRU(5), Encoder(Words(), [], 4), GRU(5)), r"must take 5 \+ 4 inputs .* found 5"),
        (lambda: attentive().initial(["a", None]), "writes from a condition, and none was given"),
        (lambda: make_encoder({**Encoder(Words(), [], 4).settings(), "names": ["Word:a", True]}), "names, found True"),
        (lambda: make_encoder({**Encoder(Words(), [], 4).settings(), "names": "Word:a"}), "names, found 'Word:a'"),
        (lambda: make_controller({"kind": "a" * 9_999}), r"controller 'a{78}…: use one of"),
        (
            lambda: make_controller({"kind": "mamba"}),
            "'mamba': use one of elman, .* transformer;",
        ),
        (lambda: make_controller({"kind": "stacked", "parts": []}), "no controller 'stacked' any more: train again"),
        (lambda: make_controller({"kind": "joined", "parts": []}), "no controller 'joined' any more: mix its members"),
        (lambda: make_controller({"kind": "first state"}), "'first state' any more: train again with condition"),
        (lambda: Transformer(6, heads=2), "a multiple of 2 · heads, .* found hidden = 6, heads = 2"),
        (lambda: Transformer(8, window=0), "window = 0"),
        (lambda: Mogrifier(4, rounds=-1), "rounds of 0 or more, found -1"),
        (lambda: Mogrifier(0), "Mogrifier needs hidden"),
    ],
)
def test_what_cannot_be_made_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_an_lstm_is_torchs_by_either_way() -> None:
    """With gradients, whichever of its two ways torch goes on this processor, and by the other one."""
    torch.manual_seed(0)
    own, plain = TorchLSTM(3, 5, batch_first=True), torch.nn.LSTM(3, 5, batch_first=True)
    plain.load_state_dict(own.state_dict())
    x, state = torch.randn(4, 6, 3), (torch.randn(1, 4, 5), torch.randn(1, 4, 5))
    found = [own(x, state), plain(x, state)]
    with WithoutOneDNN():
        found.append(plain(x, state))
    for network, (h, (last, cell)) in zip((own, plain), found, strict=False):
        (h.sum() + last.square().sum() + cell.sum()).backward()
        assert all(parameter.grad is not None for parameter in network.parameters())
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[2], found[1])
    torch.testing.assert_close([p.grad for p in own.parameters()], [p.grad for p in plain.parameters()])


@pytest.mark.parametrize("before", [True, False])
def test_the_switch_is_left_as_it_was(before: bool) -> None:
    """By whichever call ends last, in the order of any threads, and after an error."""
    switch, given = WithoutOneDNN(), torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(before)
    try:
        first, second = ExitStack(), ExitStack()
        first.enter_context(switch)
        second.enter_context(switch)
        first.close()
        assert not torch._C._get_mkldnn_enabled()
        second.close()
        assert torch._C._get_mkldnn_enabled() == before
        with pytest.raises(ValueError, match="inside"), switch:
            raise ValueError("inside")
        assert torch._C._get_mkldnn_enabled() == before
    finally:
        torch._C._set_mkldnn_enabled(given)


# --- in a model: what is given stays, what is ours is drawn by the model's seed -----------------------------------


class Normalised(Controller):
    """A controller of the user's own: gates of ours, between torch modules with weights of their own."""

    def __init__(self, hidden: int = 6) -> None:
        super().__init__()
        self.inputs = self.hidden = hidden
        self.norm, self.gates, self.out = torch.nn.LayerNorm(hidden), GRU(hidden), torch.nn.Linear(hidden, hidden)

    @property
    def state_size(self) -> int:
        return self.gates.state_size

    def initial(self, conditions: Sequence[object], *, generator: torch.Generator | None = None) -> Hidden:
        return self.gates.initial(conditions)

    def scan(
        self, psi: torch.Tensor, state: Hidden, *, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, Hidden]:
        h, state = self.gates.scan(self.norm(psi), state, generator=generator)
        return self.out(h), state

    def settings(self) -> dict[str, Any]:
        return {"kind": "normalised", "hidden": self.hidden}


def bare(controller: Controller, seed: int = 0) -> LLRNN:
    return LLRNN(small_vocabulary(), output_features=Identity(), controller=controller, seed=seed)


def weights_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in module.named_parameters()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(weight, other[name]) for name, weight in one.items())


@every
def test_a_controller_that_has_weights_is_given_and_stays(make: Maker) -> None:
    controller = alive(make()).float()
    before = weights_of(controller)
    bare(controller)
    assert same(weights_of(controller), before)


@pytest.mark.parametrize("write", ["load_state_dict", "data", "in place", "one number"])
def test_weights_that_were_written_in_any_way_stay(write: str) -> None:
    controller, other = GRU(6), alive(GRU(6)).float()
    if write == "load_state_dict":
        controller.load_state_dict(other.state_dict())
    elif write == "one number":
        next(controller.parameters()).data[0, 0] += 1e-3
    else:
        for own, weight in zip(controller.parameters(), other.parameters(), strict=True):
            if write == "data":
                own.data = weight.data
            else:
                own.data.copy_(weight.data)
    before = weights_of(controller)
    bare(controller)
    assert same(weights_of(controller), before)


def test_of_a_module_of_ones_own_only_our_part_is_drawn() -> None:
    torch.manual_seed(1)
    controller = Normalised()
    before = weights_of(controller)
    bare(controller, 1)
    after = weights_of(controller)
    drawn_anew = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    assert drawn_anew == {f"gates.layers.0.{name}_l0" for name in _NAMES[:2]}  # biases are zeros before and after
    assert torch.equal(after["norm.weight"], torch.ones(6))


@every
def test_a_controller_of_ours_is_drawn_by_the_seed_of_the_model(make: Maker) -> None:
    one, again, other = (bare(make(), seed) for seed in (1, 1, 2))
    assert same(weights_of(one), weights_of(again))
    matrices = [name for name, weight in one.named_parameters() if weight.dim() > 1 and weight.numel()]
    assert all(not torch.equal(weights_of(one)[name], weights_of(other)[name]) for name in matrices)


def test_the_weights_of_a_seed_are_those_of_every_version() -> None:
    """All of them from one generator, in the order of their names: models of earlier versions come out the same."""
    model = bare(LSTM(4, layers=2), 7)
    generator = torch.Generator().manual_seed(7)
    for _, weight in sorted(model.named_parameters()):
        bound = 1.0 / math.sqrt(weight.shape[-1]) if weight.dim() > 1 else 0.0
        wanted = (torch.rand(weight.shape, generator=generator, dtype=torch.float64) * 2 - 1) * bound
        assert torch.equal(weight.detach(), wanted.float())


def test_a_controller_serves_two_models_and_stays_that_of_the_first() -> None:
    controller = LSTM(4)
    first = bare(controller, 1)
    before = weights_of(first)
    bare(controller, 2)
    assert same(weights_of(first), before)


# --- in a model folder ---------------------------------------------------------------------------------------------


def log_p(model: LLRNN) -> torch.Tensor:
    return score(model, EncodedText.encode(small_corpus()[:6], model.vocabulary)).log_probs


class Renamed(GRU):
    """Says that it is one of ours, and computes something else."""

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "kind": "gru"}

    def scan(
        self, psi: torch.Tensor, state: Hidden, *, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, Hidden]:
        h, state = super().scan(psi, state, generator=generator)
        return -h, state


@pytest.mark.parametrize("own", [Normalised, lambda: Renamed(6)])
def test_a_controller_of_ones_own_is_saved_and_given_again(own: Maker, tmp_path: Path) -> None:
    model = small_model(controller=own())
    model.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"controller of your own.*load\(folder, controller=") as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    opened = load(tmp_path, controller=own())
    assert torch.equal(log_p(opened), log_p(model))
    opened.save(tmp_path / "again")
    assert torch.equal(log_p(load(tmp_path / "again", controller=own())), log_p(model))


@pytest.mark.parametrize("other", [GRU(6), GRU(6, layers=3), LSTM(6, layers=2), GRU(5, layers=2)])
def test_another_controller_than_the_one_that_was_saved_is_refused(other: Controller, tmp_path: Path) -> None:
    small_model(controller=GRU(6, layers=2)).save(tmp_path)
    with pytest.raises(CheckpointError, match="weights"):
        load(tmp_path, controller=other)


class Remembering(Normalised):
    """State that is no tensor."""

    def get_extra_state(self) -> object:
        return {"seen": 3}

    def set_extra_state(self, state: object) -> None: ...


def test_a_controller_that_could_not_be_opened_again_is_refused_at_save(tmp_path: Path) -> None:
    model = small_model(controller=Remembering())
    with pytest.raises(CheckpointError, match=r"'_extra_state', which is no tensor"):
        model.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(CheckpointError, match="_extra_state"):
        # before the first step, not after an epoch
        next(iter(train(model, small_corpus()[:4], folder=tmp_path / "run")))


def test_buffers_of_a_controller_are_kept(tmp_path: Path) -> None:
    """A table that never changes may hold minus infinity, and what counts steps is an integer."""
    controller = Normalised()
    controller.register_buffer("mask", torch.full((3,), MINUS_INFINITY))
    controller.register_buffer("steps", torch.tensor(7))
    controller.register_buffer("scratch", torch.ones(2), persistent=False)
    model = small_model(controller=controller)
    list(train(model, small_corpus()[:4], epochs=1, folder=tmp_path / "run"))
    opened = Normalised()
    opened.register_buffer("mask", torch.zeros(3))
    opened.register_buffer("steps", torch.tensor(0))
    again = load(tmp_path / "run", controller=opened)
    buffers = dict(opened.named_buffers())
    assert int(buffers["steps"]) == 7
    assert torch.isinf(buffers["mask"]).all()
    close(log_p(again), log_p(model))
    with pytest.raises(CheckpointError, match=r"buffers\.mask.*no place for"):
        load(tmp_path / "run", controller=Normalised())


def test_a_model_with_such_a_controller_as_background_is_given_again_as_a_whole(tmp_path: Path) -> None:
    inner = small_model(controller=Normalised())
    outer = small_model(background=backgrounds.Model(inner))
    outer.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"background of your own.*load\(folder, background="):
        load(tmp_path)
    assert torch.equal(log_p(load(tmp_path, background=backgrounds.Model(inner))), log_p(outer))


def test_what_an_encoder_keeps_of_conditions_is_bounded_in_bytes() -> None:
    encoder = Encoder(Words(), ["Word:a"], 4, kind="none")
    encoder._known.most_bytes = 100_000
    for n in range(200):
        encoder([f"{n} " + "a " * 200])
    assert 0 < encoder._known.bytes <= 100_000
    assert len(encoder._known) < 10
    encoder(["a " * 20_000])  # one that is too large alone is read, and not kept
    assert encoder._known.bytes <= 100_000
