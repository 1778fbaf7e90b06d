"""Networks of a researcher's own as controllers: weights stay, folders keep them, laws are checked."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import llrnn
from helpers import small_corpus, small_features, small_model, small_vocabulary
from llrnn.ground.errors import CheckpointError, ConfigError, LawError
from llrnn.model.controllers import Controller, Hidden
from llrnn.model.modern import Mogrifier, Transformer
from llrnn.model.own import from_module
from llrnn.model.scoring import score
from llrnn.model.testing import check_controller
from llrnn.text.encoded import EncodedText


class Causal(nn.Module):
    """A Transformer layer as torch has it, with a mask in a buffer."""

    mask: Tensor

    def __init__(self, size: int = 8, *, mask: bool = True, hidden: int | None = None) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(size, 2, 16, dropout=0.2, batch_first=True)
        self.leave = nn.Linear(size, hidden or size)
        whole = torch.full((64, 64), -math.inf).triu(1) if mask else torch.zeros(64, 64)
        self.register_buffer("mask", whole)

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        found: Tensor = self.leave(self.layer(x, src_mask=self.mask[:T, :T].to(x.dtype)))
        return found


class Convolution(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.pad, self.inner = (before, after), nn.Conv1d(4, 6, before + after + 1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(nn.functional.pad(x.transpose(1, 2), self.pad)).transpose(1, 2)
        return found


OWN: dict[str, Callable[[], Controller]] = {
    "gru": lambda: from_module(nn.GRU(5, 7, num_layers=2, batch_first=True)),
    "lstm, time first": lambda: from_module(nn.LSTM(5, 7, num_layers=2)),
    "lstm with a projection": lambda: from_module(nn.LSTM(5, 7, proj_size=3, batch_first=True)),
    "rnn": lambda: from_module(nn.RNN(5, 7, batch_first=True)),
    "transformer": lambda: from_module(Causal(), inputs=8),
    "convolution": lambda: from_module(Convolution(2, 0), inputs=4),
    "linear": lambda: from_module(nn.Linear(5, 7), inputs=5),
}
OURS: dict[str, Callable[[], Controller]] = {
    "lstm": lambda: llrnn.LSTM(5, layers=2),
    "transformer": lambda: Transformer(8, layers=2, heads=2, window=3),
    "mogrifier": lambda: Mogrifier(5),
}


@pytest.mark.parametrize("make", [*OWN.values(), *OURS.values()], ids=[*OWN, *(f"our {name}" for name in OURS)])
def test_the_laws_hold(make: Callable[[], Controller]) -> None:
    check_controller(make())


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("make", OWN.values(), ids=OWN)
def test_weights_stay_and_a_folder_keeps_them(make: Callable[[], Controller], tmp_path: Path) -> None:
    controller = make()
    given = copy.deepcopy(controller.state_dict())
    model = llrnn.LLRNN(small_vocabulary(), output_features=small_features(), controller=controller)
    for name, tensor in controller.state_dict().items():
        assert torch.equal(tensor, given[name]), name
    model.eval()
    model.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="a controller of your own"):
        llrnn.load(tmp_path / "model")
    again = llrnn.load(tmp_path / "model", controller=make())
    text = EncodedText.encode(small_corpus()[:5], model.vocabulary)
    again.eval()
    torch.testing.assert_close(score(again, text).log_probs, score(model, text).log_probs, rtol=0, atol=1e-6)
    *_, last = llrnn.train(model, small_corpus()[:20], epochs=2)
    assert last.best is None or math.isfinite(last.best)
    assert any(not torch.equal(tensor, given[name]) for name, tensor in controller.state_dict().items())


def test_a_registered_kind_opens_by_itself(tmp_path: Path) -> None:
    def make(size: int) -> Controller:
        return from_module(nn.GRU(size, size, batch_first=True), settings={"kind": "researcher's", "size": size})

    model = small_model(controller=make(6))
    llrnn.register_controller("researcher's", make)
    model.save(tmp_path / "model")
    opened = llrnn.load(tmp_path / "model")
    for name, tensor in model.controller.state_dict().items():
        assert torch.equal(opened.controller.state_dict()[name], tensor)
    with pytest.raises(ConfigError, match="'attentive' is one of llrnn's own"):
        llrnn.register_controller("attentive", make)


def test_what_was_generated_is_what_is_scored() -> None:
    """Step by step, row by row, in a beam: a network without a state of its own."""
    model = small_model(controller=from_module(Causal(), inputs=8)).double().eval()
    best = llrnn.generate(model, beam=4, max_words=6)[0]
    ids = EncodedText.encode(llrnn.Corpus.from_sentences([best.words]), model.vocabulary)
    if best.finished:
        assert float(score(model, ids).log_probs.sum()) == pytest.approx(best.log_prob, abs=1e-9)


# --- mistakes ------------------------------------------------------------------------------------------------------


class Shared(Controller):
    """Broken in one way."""

    state_size = 1

    def __init__(self, broken: str) -> None:
        super().__init__()
        self.inputs, self.hidden, self.broken = 4, 4, broken

    def initial(self, conditions: Any, *, generator: torch.Generator | None = None) -> Hidden:
        B = 1 if self.broken == "state" else len(conditions)
        return (torch.zeros(B, 4, dtype=torch.float64),)

    def scan(self, psi: Tensor, state: Hidden, *, generator: torch.Generator | None = None) -> tuple[Tensor, Hidden]:
        h = psi.cumsum(1) + state[0].unsqueeze(1)
        after = h[:, -1] if self.broken != "steps" else psi[:, -1]
        if self.broken == "rows":
            h = h + psi.mean(0, keepdim=True)
        if self.broken == "size":
            h = h[..., :3]
        return h, (after[:1] if self.broken == "state" else after,)

    def settings(self) -> dict[str, Any]:
        return {"kind": "custom"}


@pytest.mark.parametrize(
    ("controller", "said"),
    [
        (lambda: from_module(Causal(mask=False), inputs=8), "no look-ahead: what is read at position 1 .* position 0"),
        (lambda: from_module(Convolution(1, 1), inputs=4), "no look-ahead: what is read at position 1 .* position 0"),
        (lambda: Shared("state"), "a state that batches: .* found"),
        (lambda: Shared("steps"), "scan = steps: they differ at position 2"),
        (lambda: Shared("rows"), "a row depends on its neighbours"),
        (lambda: Shared("size"), r"sizes: \(2, 6, hidden\) is required, found \(2, 6, 3\)"),
    ],
)
def test_a_broken_law_is_named(controller: Callable[[], Controller], said: str) -> None:
    with pytest.raises(LawError, match=said):
        llrnn.testing.check_controller(controller())
    if said.startswith("no look"):
        return
    check_controller(Shared(""))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: from_module(nn.Linear(4, 4)), "from_module needs inputs=, .* Linear takes in, found None"),
        (lambda: from_module(nn.Linear(4, 4), inputs=5), r"Linear must take \(B, T, 5\), but a call of it failed"),
        (lambda: from_module(nn.Flatten(), inputs=5), r"Flatten must give \(B, T, hidden\), found \(2, 15\)"),
        (lambda: from_module(nn.GRU(4, 4, bidirectional=True)), "bidirectional network, which looks ahead"),
    ],
)
def test_what_cannot_be_a_controller_is_refused(make: Callable[[], Controller], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()
