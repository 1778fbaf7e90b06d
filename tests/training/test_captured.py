"""Recorded updates are the usual ones: with a recorder that does everything again on a CPU, bit for bit; on a GPU,
where there is one, within rounding, whatever is dropped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import llrnn.training.loop
from helpers import Expected, shaken
from llrnn import GRU, LLRNN, LSTM, Corpus, OtherText, Vocabulary, backgrounds, contextual, french, train
from llrnn.ground.errors import NonFiniteError, ZeroMassError
from llrnn.knowledge.features import Identity, Suffixes
from llrnn.knowledge.process import Batch
from llrnn.layer.priors import ContextValues
from llrnn.model.controllers import Elman, Recurrent
from llrnn.model.own import from_module
from llrnn.model.scoring import Continuous, Prefetched, Sentences
from llrnn.text.encoded import EncodedText
from llrnn.training.graphs import Act, CudaGraphs, GraphedUpdater, Replay, Results, can_be_captured, updater_for
from llrnn.training.objectives import Exact
from llrnn.training.precompute import KnowledgeCache
from llrnn.training.settings import TrainingSettings
from llrnn.training.updates import Updater
from llrnn.training.workers import Workers
from llrnn_agreement import Agreement, Governors

ALL = Corpus.from_sentences(french.sentences(80)).lowercased()
TRAIN, VALID = ALL.split(60)
VOCABULARY = Vocabulary.from_corpus(ALL)
CONTINUOUS = {"kind": "continuous", "rows": 4, "length": 12}
BATCHES: dict[str, dict[str, Any]] = {
    "continuous": CONTINUOUS,
    "sliding": {"kind": "sliding", "length": 4, "rows": 16},
    "sentences": {"kind": "sentences", "words": 40},
}
OPTIMIZERS = ["sgd", "rmsprop", "adamw"]
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
CUDA = torch.device("cuda")
pytestmark = pytest.mark.filterwarnings("ignore:.*too little text")  # for the n-grams


class Again(CudaGraphs):
    """The reference of `CudaGraphs`: a replay does the act again, and puts the results where they lay."""

    def __init__(self) -> None:
        self.records, self.replays = 0, 0

    def warm_up(self, act: Act) -> None:
        act()

    def record(self, act: Act, generator: torch.Generator | None = None) -> tuple[Results, Replay]:
        found, done = act(), [True]
        self.records += 1

        def replay() -> None:
            self.replays += 1
            if done:  # by recording: on a GPU nothing is done then
                done.clear()
                return
            for old, new in zip(found, act(), strict=True):
                old.copy_(new)

        return found, replay

    def spare_memory(self) -> int:
        return 10_000  # some sentences find room, others do not

    def ahead(self, make: Callable[[], Batch | None]) -> Batch | None:
        return make()

    def copy_to_cpu(self, numbers: Tensor) -> Callable[[], list[float]]:
        found: list[float] = numbers.tolist()
        return lambda: found


def a_model(**changes: Any) -> LLRNN:
    given: dict[str, Any] = {
        "output_features": Identity(top=60) + Suffixes(2, min_count=3),
        "background": backgrounds.Unigram.from_corpus(ALL),
        "controller": LSTM(8, layers=2),
    }
    model = LLRNN(VOCABULARY, **{**given, **changes})
    shaken(model, 0.5)
    return model


def weights(model: LLRNN) -> list[Tensor]:
    return [parameter.detach().cpu().clone() for parameter in model.parameters()]


def recorded(monkeypatch: pytest.MonkeyPatch) -> Again:
    again = Again()

    def made(model: LLRNN, settings: TrainingSettings, workers: Workers) -> Updater:
        return GraphedUpdater(model, settings, workers, again)

    monkeypatch.setattr(llrnn.training.loop, "updater_for", made)
    return again


def trained(model: LLRNN, **changes: Any) -> list[float]:
    """The losses of the records that have one: before the first update there is none."""
    given = {"epochs": 2, "batches": CONTINUOUS, "optimizer": "rmsprop", "learning_rate": 0.01, "log_every": 1}
    records = list(train(model, TRAIN, valid=VALID, **{**given, **changes}))
    return [record.train for record in records if record.train is not None]


class NoNumberAsked(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what a GPU would have to be waited for."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten  # the last: numbers of Python, in lists, become tensors, which are copied to a GPU
        assert func not in (aten._local_scalar_dense.default, aten.nonzero.default, aten.lift_fresh.default), func
        return func(*args, **(kwargs or {}))


def test_a_step_with_a_static_background_asks_for_no_number_once_it_has_run() -> None:
    """Recording a CUDA graph fails where the GPU is asked for one."""
    model, batch = a_model(), Continuous(4, 12).plan(EncodedText.encode(TRAIN, VOCABULARY), seed=0)[0]
    assert model.scan(batch)[0].static_mass is not None
    with NoNumberAsked():  # type: ignore[no-untyped-call]
        assert model.scan(batch)[0].static_mass is not None


def test_nor_does_one_with_linear_features_that_were_heard() -> None:
    model = knowing_model()
    batch = Sentences(60).plan(EncodedText.encode(TRAIN, VOCABULARY), seed=0)[0]
    heard = model.precompute(batch.padded(16, 20, VOCABULARY.eos))
    Exact()(model, model.scan(heard)[0], heard, None)
    with NoNumberAsked():  # type: ignore[no-untyped-call]
        assert model.scan(heard)[0].static_mass is not None


SETTINGS: dict[str, dict[str, Any]] = {
    **{f"{batches}, {optimizer}": {"batches": BATCHES[batches], "optimizer": optimizer}
       for batches in BATCHES for optimizer in OPTIMIZERS},
    "average": {"average": 0.9},
    "no clipping": {"clip": None},
    "much clipping": {"clip": 0.01},
    "a cycle": {"schedule": {"kind": "cycle"}, "batches": {**CONTINUOUS, "shift": True}, "average_last": 0.5},
    "restraints": {"activation": 2.0, "slowness": 1.0, "validate_every": 2},
    "full precision": {"objective": {"kind": "exact", "precision": "full"}},
}  # fmt: skip


# every optimizer with one way to make batches, and every way with one optimizer; `make test-all` has all pairs
_MORE = {f"{batches}, {optimizer}" for batches in [*BATCHES][1:] for optimizer in OPTIMIZERS[1:]}


@pytest.mark.parametrize(
    "changes",
    [pytest.param(SETTINGS[name], id=name, marks=[pytest.mark.slow] if name in _MORE else []) for name in SETTINGS],
)
def test_they_are_the_usual_updates(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    usual, replayed = a_model(), a_model()
    expected = trained(usual, **changes)
    again = recorded(monkeypatch)
    found = trained(replayed, **changes)
    assert again.replays > again.records > 0
    if changes.get("batches") == BATCHES["sentences"]:  # filled up: sums over other numbers of rows
        assert found == pytest.approx(expected, rel=1e-4)
        return
    assert found == expected
    for one, other in zip(weights(usual), weights(replayed), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("make", [lambda: a_model(controller=LSTM(8, dropout=0.3)), lambda: a_model(word_dropout=0.3)])
def test_they_drop_what_the_seed_says(make: Callable[[], LLRNN], monkeypatch: pytest.MonkeyPatch) -> None:
    usual, replayed = make(), make()
    expected = trained(usual, seed=5)
    recorded(monkeypatch)
    assert trained(replayed, seed=5) == expected


def test_another_learning_rate_is_recorded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"halve_after": 1, "learning_rate": 0.3, "epochs": 5, "patience": None}
    usual, replayed = a_model(), a_model()
    expected = trained(usual, **changes)
    again = recorded(monkeypatch)
    assert trained(replayed, **changes) == expected
    assert again.records > 2


def test_a_resumed_run_comes_to_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    whole, killed = a_model(), a_model()
    recorded(monkeypatch)
    trained(whole)
    left = [12]

    def should_stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    given: dict[str, Any] = {"epochs": 2, "batches": CONTINUOUS, "optimizer": "rmsprop", "learning_rate": 0.01}
    list(train(killed, TRAIN, valid=VALID, folder=tmp_path / "run", should_stop=should_stop, **given))
    resumed = a_model()
    list(train(resumed, TRAIN, valid=VALID, folder=tmp_path / "run", resume=True, **given))
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("when", ["before", "mixed"])
def test_other_texts_are_recorded_as_the_corpus_is(when: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of sentences, cut at unlisted words, fill batches of the same shapes."""
    rows = [[word if i % 5 else "zzz" for i, word in enumerate(sentence.words, 1)] for sentence in TRAIN]
    other = OtherText(Corpus.from_sentences(rows), when=when, weight=1.5, epochs=2)
    usual, replayed = a_model(), a_model()
    expected = trained(usual, others=[other], batches=BATCHES["sentences"], epochs=3)
    again = recorded(monkeypatch)
    found = trained(replayed, others=[other], batches=BATCHES["sentences"], epochs=3)
    assert found == pytest.approx(expected, rel=1e-4)
    assert again.replays > 0


def test_few_shapes_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    again = recorded(monkeypatch)
    trained(a_model(), batches=BATCHES["sentences"], epochs=6)
    shapes = {batch.inputs.shape for batch in Sentences(40).plan(EncodedText.encode(TRAIN, VOCABULARY), seed=0)}
    assert 0 < again.records < len(shapes)
    assert again.replays > 5 * again.records


class NeverRecorded(GraphedUpdater):
    """With batches that are filled up in the same way, so that the same is dropped."""

    def _recorded_for(self, batch: Batch, carried: Any) -> None:
        return None


def never_recorded(model: LLRNN, settings: TrainingSettings, workers: Workers) -> Updater:
    captured = can_be_captured(model, settings, workers)
    return NeverRecorded(model, settings, workers, CudaGraphs()) if captured else Updater(model, settings, workers)


def knowing_model(*others: contextual.ContextualFeature) -> LLRNN:
    """With agreement, which is linear, between others, which are not."""
    agreement = Agreement.estimated("french", ALL)
    features = [*others[:1], agreement, *others[1:]]
    model = a_model(contextual=features, contextual_inputs=[Governors(agreement)])
    shaken(model, 0.5)
    return model


def expert_model() -> LLRNN:
    folded = backgrounds.NGram.from_corpus(TRAIN, order=3, folds=5)
    return knowing_model(contextual.Expert(folded, name="kn"), contextual.Repeated(6))


def sentences_to_train_on(words: int = 60) -> Sequence[Batch]:
    return Sentences(words).plan(EncodedText.to_train_on(TRAIN, VOCABULARY), seed=3)


def loss_and_gradients(model: LLRNN, batch: Batch) -> tuple[float, list[Tensor]]:
    model.zero_grad()
    p, _ = model.scan(batch)
    loss = Exact()(model, p, batch, None)
    whole = loss + batch.mean(p.given.adaptor().pow(2).sum(-1))
    whole.backward()  # type: ignore[no-untyped-call]
    return float(whole.detach()), [
        parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None
    ]


def test_words_that_experts_single_out_are_inputs_of_the_record() -> None:
    """Exactly so in float64: gains in the log-sum over classes, and exceptions one by one, are the same."""
    model = expert_model().double()
    for batch in sentences_to_train_on()[:4]:
        B, T = batch.inputs.shape
        heard = model.precompute(batch.padded(B + 3, T + 5, VOCABULARY.eos), lambda n: n + 7)
        assert heard.precomputed.differences is not None
        assert len(heard.precomputed.differences) > 7
        assert not heard.precomputed.differences[-7:].any()
        expected, gradients = loss_and_gradients(model, batch)
        found, own = loss_and_gradients(model, heard)
        assert found == pytest.approx(expected, rel=1e-12)
        for one, other in zip(gradients, own, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("limit", [0, 20_000, 10**9])
def test_what_knowledge_says_of_a_sentence_is_asked_once(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches put together from what was kept, from what was not, and from both, have the usual loss and gradients."""
    model, asked = expert_model().double(), list[int]()
    cache, ask = KnowledgeCache(model, limit, lambda n: n + 7), model.precompute

    def counted(batch: Batch) -> Batch:
        asked.append(len(batch.inputs))
        return ask(batch)

    monkeypatch.setattr(model, "precompute", counted)
    text = EncodedText.to_train_on(TRAIN, VOCABULARY)
    for epoch in range(3):
        for batch in Sentences(60).plan(text, seed=3, epoch=epoch)[:4]:
            B, T = batch.inputs.shape
            heard = cache.precompute(batch, B + 2, T + 3)
            assert heard is not None
            expected, gradients = loss_and_gradients(model, batch)
            found, own = loss_and_gradients(model, heard)
            assert found == pytest.approx(expected, rel=1e-12)
            for one, other in zip(gradients, own, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)
    for batch in Sentences(60).plan(text, seed=3, epoch=4):
        cache.precompute(batch, *batch.inputs.shape)
    before = sum(asked)
    for batch in Sentences(60).plan(text, seed=3, epoch=5):
        cache.precompute(batch, *batch.inputs.shape)
    again, distinct = sum(asked) - before, len({sentence.words for sentence in TRAIN})
    assert again == 0 if limit == 10**9 else 0 < again <= len(TRAIN)
    assert limit or again >= distinct
    assert cache.kept <= limit


def test_nor_does_a_step_with_such_words_ask_for_a_number() -> None:
    model, batch = expert_model(), sentences_to_train_on()[0]
    B, T = batch.inputs.shape
    heard = model.precompute(batch.padded(B + 1, T + 1, VOCABULARY.eos))
    loss_and_gradients(model, heard)
    with NoNumberAsked():  # type: ignore[no-untyped-call]
        assert Exact()(model, model.scan(heard)[0], heard, None).requires_grad


def test_what_was_heard_stays_filled_up_in_other_numbers() -> None:
    """Of a model in half precision values are float32 in the layer, and what fills up has no position there, too."""
    values = expert_model().precompute(sentences_to_train_on()[0].padded(9, 24, VOCABULARY.eos), lambda n: n + 5)
    (first, *_), cpu = expert_model()._precomputed_values(values), torch.device("cpu")
    assert isinstance(first, ContextValues)
    other = first.to(cpu, torch.float64)
    assert other.filled
    assert other.position is first.position


def test_updates_with_experts_are_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {"batches": {"kind": "sentences", "words": 60}, "epochs": 3}
    usual, replayed = expert_model(), expert_model()
    assert can_be_captured(usual, TrainingSettings().changed(**changes), Workers())
    expected = trained(usual, **changes)
    again = recorded(monkeypatch)
    assert trained(replayed, **changes) == pytest.approx(expected, rel=1e-4)
    assert again.replays > again.records > 0


def test_an_expert_of_all_words_is_asked_in_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of what it says would be longer than what is summed."""
    dense = contextual.Expert(backgrounds.Model(a_model()), name="other")
    usual, other = a_model(contextual=[dense]), a_model(contextual=[dense])
    expected = trained(usual, batches=BATCHES["sentences"])
    again = recorded(monkeypatch)
    assert trained(other, batches=BATCHES["sentences"]) == expected
    assert again.records == 0


def test_what_is_heard_leaves_out_the_sentence_that_is_read() -> None:
    """n-grams of the training text, as an input, are those of the other folds; also where batches are filled up."""
    n_grams = backgrounds.NGram.from_corpus(TRAIN, order=2, folds=5)
    model = a_model(contextual_inputs=[Expected(n_grams)])
    assert can_be_captured(model, TrainingSettings(), Workers())
    batch = Sentences(60).plan(EncodedText.to_train_on(TRAIN, VOCABULARY), seed=0)[0]
    (B, T), state = batch.inputs.shape, model.start([None] * len(batch.inputs))
    expected, _ = model.input_numbers(batch, state)
    heard = model.precompute(batch.padded(B + 2, T + 3, VOCABULARY.eos)).precomputed.numbers
    assert heard is not None
    assert torch.equal(heard[:B, :T][batch.mask], expected[batch.mask])
    without, _ = model.input_numbers(replace(batch, sentences=None), state)
    assert not torch.allclose(without[batch.mask], expected[batch.mask])


def test_what_linear_features_say_is_an_input_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {"batches": {"kind": "sentences", "words": 60}, "epochs": 2}
    usual, replayed = knowing_model(), knowing_model()
    assert can_be_captured(usual, TrainingSettings().changed(**changes), Workers())
    assert not can_be_captured(usual, TrainingSettings().changed(batches=CONTINUOUS), Workers())
    expected = trained(usual, **changes)
    again = recorded(monkeypatch)
    assert trained(replayed, **changes) == pytest.approx(expected, rel=1e-4)
    assert again.replays > again.records > 0


def test_a_batch_that_is_filled_up_has_the_same_loss() -> None:
    """Exactly so in float64, for the network and the background."""
    model = knowing_model().double()
    for batch in sentences_to_train_on()[:4]:
        B, T = batch.inputs.shape
        filled = batch.padded(B + 3, T + 5, VOCABULARY.eos)
        assert (filled.n_words, filled.n_positions) == (batch.n_positions, (B + 3) * (T + 5))
        expected, gradients = loss_and_gradients(model, batch)
        for other in (filled, model.precompute(filled)):
            found, own = loss_and_gradients(model, other)
            assert found == pytest.approx(expected, rel=1e-12)
            for one, another in zip(gradients, own, strict=True):
                torch.testing.assert_close(one, another, rtol=1e-9, atol=1e-12)


def refused(model: LLRNN) -> str:
    """Training whose eighth gradient is not finite."""
    steps = [0]

    def before_each_step() -> bool:
        steps[0] += 1
        return False

    broken = lambda gradient: gradient * (float("inf") if steps[0] == 8 else 1.0)  # noqa: E731
    model.layer.bias.register_hook(broken)  # type: ignore[no-untyped-call]
    records = train(model, TRAIN, batches=CONTINUOUS, optimizer="sgd", should_stop=before_each_step)
    with pytest.raises(NonFiniteError) as caught:
        list(records)
    return str(caught.value)


def test_what_is_not_finite_is_named_with_its_place_and_spoils_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = refused(a_model())
    again, replayed = recorded(monkeypatch), a_model()
    found = refused(replayed)
    assert again.replays > 3
    assert "the gradient of layer.bias is not finite at step 7, epoch 0, batch 7" in expected
    assert "the norm of the gradient is not finite at step 7, epoch 0, batch 7" in found
    assert all(torch.isfinite(weight).all() for weight in weights(replayed))


def test_a_weight_that_breaks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch)
    model = a_model()
    records = train(model, TRAIN, batches=CONTINUOUS, log_every=1)
    while next(records).step < 7:
        pass
    with torch.no_grad():
        model.layer.bias[3] = float("nan")
    with pytest.raises(NonFiniteError, match=r"the weights\.layer\.bias is not finite at step 7,"):
        next(records)


def test_a_word_without_mass_is_named_in_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    again = recorded(monkeypatch)
    late = VOCABULARY.symbol(int(EncodedText.encode(TRAIN, VOCABULARY).sentences[-1][0]))
    corpus = Corpus([*[s for s in TRAIN.sentences if late not in s.words], TRAIN.sentences[-1]])
    model = a_model(background=backgrounds.Mask(forbidden={late}))
    batches = {"kind": "continuous", "rows": 1, "length": 8}
    with pytest.raises(ZeroMassError, match=f"observed word {late!r} no mass"):
        list(train(model, corpus, batches=batches, epochs=1))
    assert again.replays > 3


# --- who can be recorded ----------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "n-grams": ({"background": backgrounds.NGram.from_corpus(ALL, order=2)}, {}),
    "contextual features in a running text": ({"contextual": [contextual.Repeated(3)]}, {"batches": CONTINUOUS}),
    "drawn words": ({}, {"objective": {"kind": "importance", "samples": 3}}),
    "a module of one's own": ({"controller": from_module(nn.GRU(6, 6, batch_first=True))}, {}),
    "a product, made anew": ({"background": backgrounds.Uniform() * backgrounds.Mask(forbidden={"le"})}, {}),
}


@pytest.mark.parametrize(("model", "settings"), REFUSED.values(), ids=REFUSED.keys())
def test_what_needs_python_in_a_step_is_not_recorded(model: dict[str, Any], settings: dict[str, Any]) -> None:
    assert not can_be_captured(a_model(**model), TrainingSettings().changed(**settings), Workers())


def test_a_plain_model_can_be_recorded_but_not_on_a_cpu() -> None:
    assert can_be_captured(a_model(), TrainingSettings(), Workers())
    assert type(updater_for(a_model(), TrainingSettings(), Workers())) is Updater


# --- batches ahead ----------------------------------------------------------------------------------------------------


def test_batches_are_made_ahead_by_another_thread_in_their_order() -> None:
    plan = Continuous(4, 12).plan(EncodedText.encode(TRAIN, VOCABULARY))
    makers: list[str] = []

    def prepare(batch: Batch) -> Batch:
        makers.append(threading.current_thread().name)
        return batch

    ahead = Prefetched(plan, prepare)
    for index, expected in enumerate(plan):
        assert torch.equal(ahead[index].inputs, expected.inputs)
        while len(makers) <= index + 1 < len(plan):  # the next one comes without being asked for
            time.sleep(0.01)
        assert len(makers) == min(index + 2, len(plan))
    assert len(ahead) == len(plan) == len(makers)
    assert makers[0] == threading.current_thread().name
    assert set(makers[1:]).isdisjoint(makers[:1])
    assert torch.equal(ahead[2].inputs, plan[2].inputs)  # out of order, too
    assert torch.equal(ahead[1:][0].inputs, plan[1].inputs)


def test_a_batch_that_cannot_be_made_says_so_when_it_is_asked_for() -> None:
    plan = Continuous(4, 12).plan(EncodedText.encode(TRAIN, VOCABULARY))

    def prepare(batch: Batch) -> Batch:
        if torch.equal(batch.inputs, plan[1].inputs):
            raise ValueError("no more")
        return batch

    ahead = Prefetched(plan, prepare)
    assert ahead[0] is not None
    with pytest.raises(ValueError, match="no more"):
        ahead[1]


def test_what_counts_is_picked_row_by_row() -> None:
    (batch,) = Sentences(10**6).plan(EncodedText.encode(TRAIN, VOCABULARY))
    values = torch.randn(*batch.mask.shape, 3)
    assert torch.equal(batch.picked(values), values[batch.mask])
    assert batch.n_positions == int(batch.mask.sum())
    whole = Batch(batch.inputs, batch.targets, torch.ones_like(batch.mask))
    assert whole.positions is None
    assert torch.equal(whole.picked(values), values.flatten(0, 1))
    assert whole.n_positions == batch.mask.numel()


# --- networks whose layers are one call -------------------------------------------------------------------------------

NETWORKS: Sequence[Recurrent] = [LSTM(6, layers=2, inputs=4), GRU(6, layers=3), Elman(6, layers=2)]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: type(network).__name__)
def test_layers_at_once_are_layers_one_after_the_other(network: Recurrent) -> None:
    network = network.double()
    psi = torch.randn(3, 5, network.inputs, dtype=torch.double)
    state = tuple(torch.randn_like(part) for part in network.initial([None] * 3))
    h, after = network.scan(psi, state)
    at_once, after_at_once = network._scan_at_once(psi, state)
    torch.testing.assert_close(at_once, h)
    assert len(after) == len(after_at_once)
    for one, other in zip(after, after_at_once, strict=True):
        torch.testing.assert_close(one, other)


# --- on a GPU ---------------------------------------------------------------------------------------------------------

ON_A_GPU: dict[str, Callable[[], LLRNN]] = {
    "static": a_model,
    "gru": lambda: a_model(controller=GRU(8, layers=2)),
    "dropout between": lambda: a_model(controller=LSTM(8, layers=2, dropout=0.2)),
    "words dropped": lambda: a_model(word_dropout=0.2),
    "weights dropped": lambda: a_model(controller=LSTM(8, layers=2, last=6, inputs=6, weight_dropout=0.4), tied=True),
    "n-grams": lambda: a_model(background=backgrounds.NGram.from_corpus(ALL, order=2)),
    "own words": lambda: a_model(output_features=Identity()),
}


@on_a_gpu
@pytest.mark.parametrize("changes", SETTINGS.values(), ids=SETTINGS.keys())
def test_training_on_a_gpu_is_training(changes: dict[str, Any]) -> None:
    expected = trained(a_model(), **changes)
    found = trained(a_model().to(CUDA), **changes)
    assert found == pytest.approx(expected, rel=5e-3)


@on_a_gpu
@pytest.mark.parametrize("make", ON_A_GPU.values(), ids=ON_A_GPU.keys())
@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES.keys())
def test_graphs_are_the_usual_updates(
    make: Callable[[], LLRNN], batches: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is dropped is the same, too: the generator is seeded for every replay."""
    replayed = trained(make().to(CUDA), batches=batches)
    monkeypatch.setattr(llrnn.training.loop, "updater_for", never_recorded)
    usual = trained(make().to(CUDA), batches=batches)
    assert replayed == pytest.approx(usual, rel=1e-3)


@on_a_gpu
@pytest.mark.parametrize("make", [knowing_model, expert_model])
def test_graphs_have_what_contextual_features_say(make: Callable[[], LLRNN], monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {"batches": {"kind": "sentences", "words": 60}, "epochs": 6}
    replayed = trained(make().to(CUDA), **changes)
    monkeypatch.setattr(llrnn.training.loop, "updater_for", never_recorded)
    assert replayed == pytest.approx(trained(make().to(CUDA), **changes), rel=1e-3)
    monkeypatch.setattr(llrnn.training.loop, "updater_for", Updater)
    assert replayed == pytest.approx(trained(make().to(CUDA), **changes), rel=1e-2)


@on_a_gpu
def test_halved_rates_and_resumed_runs_on_a_gpu(tmp_path: Any) -> None:
    full = {
        "kind": "exact",
        "precision": "full",
    }  # at this rate, a hundred steps in half precision drift by some per cent
    changes: dict[str, Any] = {
        "halve_after": 1,
        "learning_rate": 0.05,
        "epochs": 6,
        "patience": None,
        "objective": full,
    }
    expected = trained(a_model(), **changes)
    assert trained(a_model().to(CUDA), **changes) == pytest.approx(expected, rel=2e-2)
    given: dict[str, Any] = {"batches": CONTINUOUS, "optimizer": "adamw", "learning_rate": 0.01}
    list(train(a_model().to(CUDA), TRAIN, valid=VALID, folder=tmp_path / "run", epochs=2, **given))
    resumed, whole = a_model().to(CUDA), a_model().to(CUDA)
    list(train(resumed, TRAIN, valid=VALID, folder=tmp_path / "run", resume=True, epochs=4, **given))
    list(train(whole, TRAIN, valid=VALID, epochs=4, **given))
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


@on_a_gpu
def test_a_word_without_mass_is_named_on_a_gpu() -> None:
    with pytest.raises(ZeroMassError, match="observed word 'le' no mass"):
        trained(a_model(background=backgrounds.Mask(forbidden={"le"})).to(CUDA))
