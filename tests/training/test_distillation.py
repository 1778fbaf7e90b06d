"""Distillation: the loss and its gradients are those of brute force over all words, in float64."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import shaken, small_corpus, small_model, tiny_model
from llrnn import GRU, LLRNN, LSTM, Corpus, Vocabulary, backgrounds, contextual, features
from llrnn.config import reference
from llrnn.ground.errors import BackgroundError, CheckpointError, ConfigError, LLRNNWarning
from llrnn.knowledge.backgrounds import Background
from llrnn.knowledge.features import compile_features
from llrnn.knowledge.process import Batch
from llrnn.layer.loglinear import LogLinear
from llrnn.model.ensembles import mixture
from llrnn.model.scoring import Sentences, score
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import EOS
from llrnn.training.graphs import can_be_captured, updater_for
from llrnn.training.loop import train
from llrnn.training.objectives import Distilled, Exact, feature_sums
from llrnn.training.settings import DistilObjective, TrainingSettings
from llrnn.training.updates import Updater
from llrnn.training.workers import Workers
from test_captured import (
    CUDA,
    TRAIN,
    VALID,
    VOCABULARY,
    NoNumberAsked,
    a_model,
    on_a_gpu,
    recorded,
    trained,
    weights,
)
from test_objectives import BACKGROUNDS, case, gradient

pytestmark = pytest.mark.filterwarnings("ignore:.*whose folds are not kept", "ignore:.*too little text")
every_background = pytest.mark.parametrize("background", BACKGROUNDS.values(), ids=BACKGROUNDS.keys())


def a_teacher() -> LLRNN:
    """A mixture of two, with other features and networks than the student."""
    members = [
        small_model(controller=GRU(5), output_features=features.Identity()),
        small_model(controller=LSTM(4), background=backgrounds.NGram.from_corpus(small_corpus(), order=2, folds=0)),
    ]
    for seed, member in enumerate(members):
        shaken(member, 1.5, seed=seed + 10)
    return mixture(members, [0.25, 0.75]).double()


def brute_loss(student: LLRNN, teacher: LLRNN, batch: Batch, share: float, temperature: float = 1.0) -> torch.Tensor:
    """Every distribution written out, and differentiated by torch."""
    p = student.scan(batch)[0]
    phi = torch.zeros(len(student.vocabulary), len(student.output_features.names), dtype=torch.float64)
    for x in range(len(phi)):
        for name, value in student.output_features.row(x).items():
            phi[x, student.output_features.column_of[name]] = value
    layer = student.layer
    scores = (p.h @ layer.weight.t() + layer.bias) @ phi.t() + p.prior.dense(p.n).log_b.double()
    a, k = p.h @ layer.context_weight.t() + layer.context_bias, 0
    for part in p.values:
        values = part.rest[:, None].expand(-1, len(phi), -1).clone()
        values[part.position, part.word] = part.value
        scores = scores + (values * a[:, None, k : k + part.width]).sum(-1)
        k += part.width
    log_p = torch.log_softmax(scores, -1)
    possible = p.prior.dense(p.n).log_b > -math.inf
    with torch.no_grad():
        log_q = teacher.scan(batch)[0].log_probs().double().masked_fill(~possible, -math.inf)
        q = torch.softmax(log_q / temperature, -1)
    target = log_p.gather(1, batch.picked(batch.targets)[:, None])
    cross = (q * log_p.masked_fill(~possible, 0.0)).sum(-1)
    return -((1 - share) * target.mean() + share * cross.mean())


@every_background
@pytest.mark.parametrize(("share", "temperature"), [(0.3, 1.0), (1.0, 1.0), (0.6, 2.5)])
def test_the_loss_and_its_gradients_are_those_of_brute_force(
    background: Callable[[], Background], share: float, temperature: float
) -> None:
    student, batch = case(background)
    teacher = a_teacher()
    found = Distilled(teacher, share, temperature)(student, student.scan(batch)[0], batch, None)
    wanted = brute_loss(student, teacher, batch, share, temperature)
    assert math.isclose(float(found.detach()), float(wanted.detach()), rel_tol=1e-6)  # q is float32 within
    assert torch.allclose(gradient(student, found), gradient(student, wanted), rtol=1e-5, atol=1e-6)


def test_a_student_like_its_teacher_has_a_divergence_of_zero() -> None:
    student, batch = case(BACKGROUNDS["unigram"])
    p = student.scan(batch)[0]
    loss = Distilled(student, 1.0)(student.requires_grad_(), p, batch, None)
    assert math.isclose(float(loss.detach() - p.entropy().mean().detach()), 0.0, abs_tol=1e-9)


def test_its_gradient_is_zero_there() -> None:
    student, batch = case(BACKGROUNDS["unigram"])
    reference, _ = case(BACKGROUNDS["unigram"])
    found = gradient(student, Distilled(reference, 1.0)(student, student.scan(batch)[0], batch, None))
    exact = gradient(student, Exact()(student, student.scan(batch)[0], batch, None))
    assert float(found.abs().max()) < 1e-9 < 1e-3 < float(exact.abs().max())


def test_what_the_student_may_not_say_is_left_out_of_the_teacher() -> None:
    allowed = backgrounds.Static(torch.tensor([0.0, -math.inf, 0.0, 0.0]))
    student, teacher = tiny_model(background=allowed), tiny_model()
    (batch,) = Sentences(50).plan(EncodedText.encode(Corpus.from_sentences([["w0", "w2"]]), student.vocabulary))
    found = Distilled(teacher, 0.7)(student, student.scan(batch)[0], batch, None)
    wanted = brute_loss(student, teacher, batch, 0.7)
    assert math.isclose(float(found.detach()), float(wanted.detach()), rel_tol=1e-9)
    assert torch.allclose(gradient(student, found), gradient(student, wanted), atol=1e-9)


def test_n_grams_that_have_read_the_training_text_are_told_of() -> None:
    ngrams = backgrounds.NGram.from_corpus(small_corpus(), order=2, folds=5)
    expert = small_model(context=[contextual.Expert(ngrams, name="kn")])
    for teacher in (expert, mixture([small_model(), expert])):
        with pytest.warns(LLRNNWarning, match="in 5 folds, whose folds are not kept") as told:
            Distilled(teacher)
        assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Distilled(mixture([small_model(), small_model()]))


def test_sums_over_words_are_those_of_the_rows() -> None:
    vocabulary = small_model().vocabulary
    for phi in (features.Identity(), features.Identity(top=20) + features.Suffixes(2), features.Numeric()):
        matrix = compile_features(phi, vocabulary)
        d = torch.randn(3, len(vocabulary), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        rows = torch.zeros(len(vocabulary), len(matrix.names), dtype=torch.float64)
        for x in range(len(vocabulary)):
            for name, value in matrix.row(x).items():
                rows[x, matrix.column_of[name]] = value
        p = LogLinear(matrix, 0).double()(d[:, :0])
        assert torch.allclose(feature_sums(p, d), d @ rows)


# --- training --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two trained teachers."""
    made = []
    for seed in range(2):
        folder = tmp_path_factory.mktemp("teacher")
        model = a_model(seed=seed)
        trained(model, epochs=6, seed=seed)
        model.save(folder)
        made.append(str(folder))
    return made


def distilling(folders: list[str], **changes: Any) -> dict[str, Any]:
    given = {"kind": "distil", "teacher": folders, "share": 0.5, **changes}
    return {"objective": given, "batches": {"kind": "sentences", "words": 200}}


def test_it_trains_towards_the_teacher_and_leaves_it_alone(folders: list[str]) -> None:
    student = a_model(controller=LSTM(8))
    objective = DistilObjective(kind="distil", teacher=folders, share=1.0)
    made = objective.make()
    assert isinstance(made, Distilled)
    before = [parameter.clone() for parameter in made.teacher.background.parts[0].model.parameters()]  # type: ignore[attr-defined]
    losses = trained(student, **distilling(folders, share=1.0), epochs=8)
    assert losses[-1] < losses[0] - 0.3
    for one, other in zip(before, made.teacher.background.parts[0].model.parameters(), strict=True):  # type: ignore[attr-defined]
        assert torch.equal(one, other)
    text = EncodedText.encode(VALID, student.vocabulary)
    assert score(student, text).log_perplexity < score(a_model(controller=LSTM(8)), text).log_perplexity


@pytest.mark.parametrize("many", [1, 2])
def test_recorded_updates_are_the_usual_ones(many: int, folders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    usual, replayed = a_model(), a_model()
    expected = trained(usual, **distilling(folders[:many]), epochs=3)
    again = recorded(monkeypatch)
    assert trained(replayed, **distilling(folders[:many]), epochs=3) == expected
    assert again.replays > again.records > 0
    for one, other in zip(weights(usual), weights(replayed), strict=True):
        assert torch.equal(one, other)


def test_its_steps_can_be_recorded_where_those_of_the_exact_loss_can(folders: list[str]) -> None:
    settings = TrainingSettings().changed(**distilling(folders))
    assert can_be_captured(a_model(), settings, Workers())
    assert isinstance(Updater(a_model(), settings, Workers()).objective, Distilled)


@on_a_gpu
def test_recorded_updates_on_a_gpu_are_the_usual_ones(folders: list[str]) -> None:
    """The teacher is asked outside of the graph, and what it says is copied into it."""
    settings = TrainingSettings().changed(**distilling(folders), optimizer="sgd", learning_rate=0.05)
    usual, replayed = a_model().to(CUDA), a_model().to(CUDA)
    (batch, *_) = Sentences(100).plan(EncodedText.encode(TRAIN, usual.vocabulary))
    losses = []
    for updater in (Updater(usual, settings, Workers()), updater_for(replayed, settings, Workers())):
        updates = [updater.update(batch, None, number=n, seed=n) for n in range(1, 12)]
        losses.append([update.loss() for update in updates[-1:]])
    assert math.isclose(losses[0][0], losses[1][0], rel_tol=1e-4)
    for one, other in zip(weights(usual), weights(replayed), strict=True):
        assert torch.allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_step_asks_for_no_number_once_it_has_run(folders: list[str]) -> None:
    """Recording a CUDA graph fails where the GPU is asked for one."""
    model, (batch, *_) = a_model(), Sentences(100).plan(EncodedText.encode(TRAIN, VOCABULARY))
    objective = DistilObjective(kind="distil", teacher=folders).make()
    assert isinstance(objective, Distilled)
    taught = objective.with_teacher(batch)
    q = taught.precomputed.teacher
    assert q is not None
    found = objective(model, model.scan(taught)[0], taught, None)
    with NoNumberAsked():  # type: ignore[no-untyped-call]
        again = model.scan(taught)[0]
        difference = objective.difference(again, taught, q)
    exact = Exact()(model, again, batch, None)
    assert torch.allclose(found, exact + 0.5 * difference)


def test_a_stopped_run_comes_to_the_same(folders: list[str], tmp_path: Path) -> None:
    whole, killed, resumed = a_model(), a_model(), a_model()
    given = {**distilling(folders[0:1]), "epochs": 2}
    list(train(whole, TRAIN, valid=VALID, **given))
    left = [4]

    def should_stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    list(train(killed, TRAIN, valid=VALID, folder=tmp_path / "run", should_stop=should_stop, **given))
    list(train(resumed, TRAIN, valid=VALID, folder=tmp_path / "run", resume=True, **given))
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        assert torch.equal(one, other)


def test_mistakes_are_told_in_one_line(folders: list[str], tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nothing-here") as caught:
        trained(a_model(), **distilling([str(tmp_path / "nothing-here")]))
    assert "\n" not in str(caught.value)
    other = LLRNN(Vocabulary(["chat", EOS]), output_features=features.Identity(), controller=GRU(3))
    other.save(tmp_path / "other")
    with pytest.raises(BackgroundError, match=r"the teacher needs its own vocabulary.*train the student") as refused:
        trained(a_model(), **distilling([str(tmp_path / "other")]))
    assert "\n" not in str(refused.value)
    mistakes: list[dict[str, Any]] = [
        {"share": 0.0},
        {"share": 1.5},
        {"temperature": 0},
        {"teacher": []},
        {"teachers": 1},
    ]
    for wrong in mistakes:
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            TrainingSettings().changed(**distilling(folders, **wrong))
    with pytest.raises(ConfigError, match="'distil' asks the teacher batch by batch"):
        TrainingSettings().changed(**{**distilling(folders), "batches": {"kind": "continuous"}})


def test_it_is_a_key_of_configurations() -> None:
    assert "\n- `teacher` (" in reference()
    read = TrainingSettings().changed(objective={"kind": "distil", "teacher": "runs/mixed"}).objective
    assert isinstance(read, DistilObjective)
    assert (read.teacher, read.share, read.temperature) == (["runs/mixed"], 0.5, 1.0)
