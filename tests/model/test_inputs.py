"""Contextual inputs ψ(C, x₁…x_t): the laws of each, in a model: scan = steps, no look-ahead, batched = one by one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import Expected, shaken, small_corpus, small_features, small_vocabulary
from llrnn import GRU, LLRNN, Sentences, backgrounds, evaluate, influence, load, train
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.errors import CheckpointError, ConfigError, LawError
from llrnn.knowledge.contextual import (
    ContextualInput,
    Copied,
    SlotProgress,
    restore_input,
)
from llrnn.knowledge.process import Batch, Saved
from llrnn.model import words
from llrnn.model.steering import swap
from llrnn.model.testing import check_contextual_input
from llrnn.text.conditions import Act, Slot
from llrnn.text.encoded import EncodedText

V = small_vocabulary()
SOME = V.words[2:8]
GRAMMAR = f'start: (WORD | "{SOME[0]}" start "{SOME[1]}")*\nWORD: "{SOME[2]}" | "{SOME[3]}" | "{SOME[4]}"'
CONDITION = Act("inform", (Slot("name", " ".join(SOME[2:4])), Slot("area", SOME[4]), Slot("food", SOME[0])))
CONDITIONS: list[object] = [CONDITION, None]


class Depth(ContextualInput[int]):
    """How often a word was said, as a user would write it."""

    def initial(self, condition: object = None) -> int:
        return 0

    def advance(self, state: int, symbol: int) -> int:
        return state + (symbol == V.id(SOME[0]))

    def number(self, state: int) -> float:
        return state / 10


def grammar(violation: float = 0.5) -> backgrounds.Grammar:
    return backgrounds.Grammar(GRAMMAR, violation=violation)


def ngram() -> backgrounds.Background:
    return backgrounds.NGram.from_corpus(small_corpus(), order=2, folds=0)


INPUTS: dict[str, ContextualInput] = {
    "grammar": Expected(grammar()),
    "automaton": Expected(backgrounds.Automaton(f"( {SOME[2]} | {SOME[3]} {SOME[4]} )*", weighted=False)),
    "slots": SlotProgress("name", "area"),
    "all slots": SlotProgress(),
    "n-grams": Expected(ngram()),
    "unigrams": Expected(backgrounds.Unigram.from_corpus(small_corpus())),
    "own": Depth(),
}


def model_with(*inputs: ContextualInput, loud: float = 1.0, **given: Any) -> LLRNN:
    settings = {"output_features": small_features(), "background": backgrounds.Uniform(), "controller": GRU(6), **given}
    model = LLRNN(V, contextual_inputs=inputs, **settings).double()
    shaken(model, loud)
    return model


def some_batch(rows: int = 4, length: int = 7) -> Batch:
    generator = torch.Generator().manual_seed(1)
    ids = torch.tensor([V.id(word) for word in SOME] + [V.eos])
    symbols = ids[torch.randint(len(ids), (rows, length + 1), generator=generator)]
    symbols[:, 0] = V.eos
    conditions = [CONDITIONS[row % 2] for row in range(rows)]
    return Batch(symbols[:, :-1], symbols[:, 1:], torch.ones(rows, length, dtype=torch.bool), conditions)


def stepped(model: LLRNN, batch: Batch) -> torch.Tensor:
    state, found = model.start(batch.conditions or ()), []
    for t in range(batch.inputs.shape[1]):
        distribution, state = model.step(state, batch.inputs[:, t].tolist())
        found.append(distribution.log_probs())
    return torch.stack(found, 1)


@pytest.mark.parametrize("name", INPUTS)
def test_the_librarys_inputs_obey(name: str) -> None:
    check_contextual_input(INPUTS[name], V, conditions=CONDITIONS, prefixes=4, length=5)


@pytest.mark.parametrize("name", INPUTS)
@torch.no_grad()
def test_laws_in_a_model(name: str) -> None:
    model, batch = model_with(INPUTS[name]), some_batch()
    B, T = batch.inputs.shape
    whole = model.scan(batch)[0].log_probs().view(B, T, -1)
    torch.testing.assert_close(stepped(model, batch), whole, rtol=0, atol=1e-9)  # scan = steps
    for row in range(B):  # batched = one by one
        alone = model.scan(batch.select(slice(row, row + 1)))[0].log_probs()
        torch.testing.assert_close(alone, whole[row], rtol=0, atol=1e-9)
    inputs = batch.inputs.clone()
    inputs[:, 4:] = batch.inputs[:, 4:].flip(0)
    other = model.scan(Batch(inputs, batch.targets, batch.mask, batch.conditions))[0].log_probs().view(B, T, -1)
    torch.testing.assert_close(other[:, :4], whole[:, :4], rtol=0, atol=1e-9)  # no look-ahead
    first, second = (batch.inputs[:, part] for part in (slice(3), slice(3, None)))  # in two pieces
    ones = torch.ones_like(batch.inputs, dtype=torch.bool)
    _, state = model.scan(Batch(first, first, ones[:, :3], batch.conditions))
    later = model.scan(Batch(second, second, ones[:, 3:], batch.conditions), state)[0].log_probs()
    torch.testing.assert_close(later.view(B, T - 3, -1), whole[:, 3:], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", INPUTS)
@torch.no_grad()
def test_positions_that_do_not_count_are_read_too(name: str) -> None:
    model, batch = model_with(INPUTS[name]), some_batch()
    whole = model.log_prob(batch).view(batch.inputs.shape)
    mask = torch.rand(batch.mask.shape, generator=torch.Generator().manual_seed(2)) < 0.4
    mask[1] = False
    some = Batch(batch.inputs, batch.targets, mask, batch.conditions)
    torch.testing.assert_close(model.log_prob(some), whole[mask], rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", INPUTS)
@torch.no_grad()
def test_the_input_is_the_sum_of_the_equation(name: str) -> None:
    """ψ_t = E(x_t) + Σ_k v_k U_k, added up number by number."""
    model, batch = model_with(INPUTS[name], loud=2.0), some_batch(rows=2)
    one, weight = model.contextual_inputs[0], model.input_weight
    assert weight is not None
    psi = model.embedding(batch.inputs)
    for row, symbols in enumerate(batch.inputs.tolist()):
        state = one.initial((batch.conditions or ())[row])
        for t, symbol in enumerate(symbols):
            state = one.advance(state, symbol)
            said = one.number(state)
            for k, value in enumerate(said if isinstance(said, Sequence) else [said]):
                psi[row, t] += value * weight[k]
    h, _ = model.controller.scan(psi, model.controller.initial([None, None]))
    expected = model.layer(h.flatten(0, 1), model.background.prior([])).log_probs()
    torch.testing.assert_close(model.scan(batch)[0].log_probs(), expected, rtol=0, atol=1e-6)


def test_an_untrained_model_is_the_one_without() -> None:
    given: dict[str, Any] = {"output_features": small_features(), "controller": GRU(6), "seed": 5}
    plain = LLRNN(V, **given)
    reading = LLRNN(V, **(given | {"controller": GRU(6)}), contextual_inputs=[SlotProgress(), Depth()])
    batch = some_batch()
    assert torch.equal(plain.log_prob(batch), reading.log_prob(batch))


@pytest.mark.parametrize("name", ["slots", "all slots"])
def test_saved_loaded_copied_pickled(name: str, tmp_path: Path) -> None:
    model, batch = model_with(INPUTS[name]), some_batch()
    model.save(tmp_path / "model")
    with torch.no_grad():
        expected = model.log_prob(batch)
        for other in (load(tmp_path / "model"), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
            assert other.input_names == model.input_names
            assert torch.equal(other.log_prob(batch), expected)


def test_one_of_ones_own_is_given_again(tmp_path: Path) -> None:
    model, batch = model_with(Depth()), some_batch()
    model.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"contextual input of your own, Depth\(\).*contextual_inputs="):
        load(tmp_path / "model")
    again = load(tmp_path / "model", contextual_inputs=[Depth()])
    assert torch.equal(again.log_prob(batch), model.log_prob(batch))
    with pytest.raises(CheckpointError, match="other numbers than it was trained on"):
        load(tmp_path / "model", contextual_inputs=[SlotProgress()])


@pytest.mark.parametrize(
    "batching",
    [
        {"kind": "sentences", "words": 64},
        {"kind": "continuous", "rows": 4, "length": 5},
        {"kind": "sliding", "length": 3, "rows": 16},
    ],
    ids=str,
)
def test_resumed_bit_for_bit(batching: Any, tmp_path: Path) -> None:
    def made() -> LLRNN:
        inputs: list[ContextualInput] = [
            Expected(grammar()),
            SlotProgress(),
            Depth(),
        ]
        return LLRNN(V, output_features=small_features(), controller=GRU(6, dropout=0.2), contextual_inputs=inputs)

    corpus, whole, resumed = small_corpus()[:8], made(), made()
    given: dict[str, Any] = {"batches": batching, "learning_rate": 0.05}
    list(train(whole, corpus, epochs=2, folder=tmp_path / "whole", **given))
    steps = iter(range(1000))
    list(train(resumed, corpus, epochs=2, folder=tmp_path / "run", should_stop=lambda: next(steps) >= 2, **given))
    resumed = made()
    list(train(resumed, corpus, epochs=2, folder=tmp_path / "run", resume=True, **given))
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.input_weight is not None
    assert bool((whole.input_weight != 0).any())


def test_states_are_shared_by_state_key() -> None:
    """The grammar of the background and that of the input are followed once; so are the values of the condition."""
    model = model_with(Expected(grammar()), SlotProgress("name"), background=grammar(0.1), contextual=[Copied("name")])
    keys = [process.state_key for process in model.processes]
    assert keys[0] == keys[2]
    assert keys[1] == keys[3]
    assert keys[0] != keys[1]
    assert grammar(0.0).bind(V).state_key == grammar(0.1).bind(V).state_key
    assert backgrounds.Grammar(GRAMMAR, longest=9).bind(V).state_key != grammar().bind(V).state_key
    batch = some_batch()
    whole = model.log_prob(batch).view(batch.inputs.shape)
    mask = torch.rand(batch.mask.shape, generator=torch.Generator().manual_seed(2)) < 0.4
    some = Batch(batch.inputs, batch.targets, mask, batch.conditions)
    torch.testing.assert_close(model.log_prob(some), whole[mask], rtol=0, atol=1e-9)


def test_what_was_said_of_slots() -> None:
    bound = SlotProgress("name", "area").bind(V)
    assert bound.names == ("name unsaid", "name begun", "name said", "area unsaid", "area begun", "area said")
    state = bound.advance(bound.initial(CONDITION), V.eos)
    assert bound.numbers([state]).tolist() == [[1, 0, 0, 1, 0, 0]]
    state = bound.advance(state, V.id(SOME[2]))
    assert bound.numbers([state]).tolist() == [[0, 1, 0, 1, 0, 0]]
    state = bound.advance(bound.advance(state, V.id(SOME[3])), V.id(SOME[4]))
    assert bound.numbers([state]).tolist() == [[0, 0, 1, 0, 0, 1]]


def test_influence_names_the_numbers() -> None:
    model = model_with(Depth())
    found = influence(model, feature=model.feature_names[0], prefix=f"{SOME[0]} {SOME[1]}")
    assert [term.position for term in found.terms if term.name == "Depth"] == [0, 1]


def test_words_are_added_and_knowledge_swapped() -> None:
    model, batch = model_with(*(INPUTS[name] for name in ("grammar", "slots"))), some_batch()
    larger = words.add(model, [words.Entry("cachalot", frozenset({"POS:NOUN"}), count=2)])
    assert set(model.input_names) <= {*larger.input_names}
    assert larger.input_weight is not None
    assert model.input_weight is not None
    place = {name: row for row, name in enumerate(larger.input_names)}
    assert torch.equal(larger.input_weight[[place[name] for name in model.input_names]], model.input_weight)
    swapped = swap(model, background=backgrounds.Unigram.from_corpus(small_corpus(), smoothing=1.0))
    assert swapped.contextual_inputs == model.contextual_inputs
    assert not torch.equal(swapped.log_prob(batch), model.log_prob(batch))
    assert evaluate(model, small_corpus()[:5]).words > 0


@pytest.mark.parametrize(
    ("kind", "instead"),
    [("grammar_state", "background.*grammar"), ("pointed_words", "contextual"), ("opinion", "kind = 'expert'")],
)
def test_kinds_that_are_gone_say_what_to_use(kind: str, instead: str) -> None:
    with pytest.raises(CheckpointError, match=f"no contextual input '{kind}' any more; .*{instead}"):
        restore_input(Saved(kind))


class Broken(ContextualInput[int]):
    def __init__(self, numbers: Any) -> None:
        self._said = numbers

    def initial(self, condition: object = None) -> int:
        return 0

    def advance(self, state: int, symbol: int) -> int:
        return state + 1

    def number(self, state: int) -> Any:
        return self._said(state)


class Ahead(Broken):
    """Counts the symbols of the whole batch: a look ahead."""

    def follow(self, states: Any, batch: Batch) -> Any:
        seen = [int(row.sum()) for row in batch.inputs for _ in row]
        return seen, [0] * len(batch.inputs)


def test_broken_inputs_are_caught() -> None:
    broken = {
        "finite": Broken(lambda state: float("nan")),
        "one for each name": Broken(lambda state: [1.0, 2.0]),
        "scan = steps": Ahead(float),
    }
    for law, one in broken.items():
        with pytest.raises(LawError, match=law):
            check_contextual_input(one, V)


class Dumb(ContextualInput[int]):
    """Counts words, and has nothing to say of them."""

    def initial(self, condition: object = None) -> int:
        return 0

    def advance(self, state: int, symbol: int) -> int:
        return state + 1


def test_mistakes_get_one_line() -> None:
    with pytest.raises(TypeError, match="Dumb needs a method `number`, or `numbers` for a batch of states"):
        Dumb().bind(small_vocabulary()).numbers([0])
    with pytest.raises(ConfigError, match="'Depth' comes twice"):
        model_with(Depth(), Depth())


CONFIG = """
corpus = {{ embedded = {{ train = 40, valid = 10, test = 10 }} }}
vocabulary = {{ parts = ["train", "valid"] }}
controller = {{ kind = "gru", hidden = 6 }}
features.output = [{{ kind = "identity", top = 20 }}]
[[contextual_inputs]]
{}
"""


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('kind = "slots"\nslots = ["name"]', SlotProgress),
    ],
)
@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")
def test_configured(table: str, expected: type, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.format(table))
    project = Project.from_config(read_config(path))
    model = project.model()
    assert [type(one) for one in model.contextual_inputs] == [expected]
    list(train(model, project.corpora["train"][:4], epochs=1))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    text = EncodedText.encode(project.corpora["valid"], model.vocabulary)
    for batch in Sentences(200).plan(text):
        assert torch.equal(again.log_prob(batch), model.log_prob(batch))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('kind = "repeated"', "kind = 'repeated'|repeated"),
        ('kind = "magic"', "magic"),
    ],
)
def test_configurations_that_are_refused(table: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG.format(table))
    with pytest.raises(ConfigError, match=message):
        read_config(tmp_path / "config.toml")
