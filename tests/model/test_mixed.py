"""Mixtures whose weights the network sets: sums in float64, gradients, folders, and a text on which they help."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import llrnn
from llrnn import backgrounds, contextual, features
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.errors import ConfigError
from llrnn.knowledge.process import Batch
from llrnn.layer.mixed import MixedDistribution
from llrnn.model import words
from llrnn.model.steering import constrained
from llrnn.text.corpus import Corpus

SAID = [["a", "b", "c"], ["a", "c"], ["b", "b", "a", "c"], ["d"], ["a", "b"], ["c", "d"]] * 3


def made(n_mixed: int = 2, *, with_expert: bool = True, folds: int = 0) -> llrnn.LLRNN:
    corpus = Corpus.from_sentences(SAID)
    unigram = backgrounds.Unigram.from_corpus(corpus, smoothing=0.5)
    bigram = backgrounds.NGram.from_corpus(corpus, order=2, folds=folds)
    expert = [contextual.Expert(backgrounds.NGram.from_corpus(corpus, order=2, folds=0), name="kn")]
    model = llrnn.LLRNN(
        llrnn.Vocabulary.from_corpus(corpus),
        output_features=features.Identity(top=2) + features.Suffixes(1, min_count=1),
        background=unigram,
        controller=llrnn.GRU(4),
        contextual=expert if with_expert else [],
        mixed=[bigram, backgrounds.Uniform()][:n_mixed],
    ).double()
    with torch.no_grad():
        for index, parameter in enumerate(model.parameters()):
            parameter.normal_(generator=torch.Generator().manual_seed(index))
    return model.eval()


def batch() -> Batch:
    inputs, targets = torch.tensor([[4, 0, 1], [4, 2, 0]]), torch.tensor([[0, 1, 4], [2, 0, 4]])
    return Batch(inputs, targets, torch.tensor([[True, True, True], [True, True, False]]))


pytestmark = pytest.mark.filterwarnings("ignore::llrnn.ground.errors.EstimationWarning")  # of so little text


def test_the_mixture_by_hand_and_it_sums_to_one() -> None:
    model = made()
    with torch.no_grad():
        p, _ = model.scan(batch())
        assert isinstance(p, MixedDistribution)
        own, bigram, uniform = (part.log_probs() for part in p.parts)
        torch.testing.assert_close(uniform, torch.full_like(uniform, -torch.log(torch.tensor(5.0)).item()))
        h = p.parts[0].h
        w = torch.softmax(h @ model.gate_weight.t() + model.gate_bias, 1)  # type: ignore[union-attr, operator]
        expected = sum(w[:, k, None] * part.exp() for k, part in enumerate((own, bigram, uniform)))
        assert isinstance(expected, torch.Tensor)
        torch.testing.assert_close(p.log_probs().exp(), expected, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(expected.sum(1), torch.ones(5, dtype=torch.double), rtol=0, atol=1e-12)
        targets = batch().picked(batch().targets)
        for found in (p.log_prob(targets), p.log_prob(targets, torch.arange(5)), model.log_prob(batch())):
            torch.testing.assert_close(found.exp(), expected.gather(1, targets[:, None])[:, 0], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(p.shares(targets).sum(1), torch.ones(5, dtype=torch.double))
        drawn = p.sample((4000,), generator=torch.Generator().manual_seed(0))[:, 0]
        often = torch.bincount(drawn, minlength=5).double() / 4000
        torch.testing.assert_close(often, expected[0], rtol=0, atol=0.04)
        torch.testing.assert_close(p.top(5)[0].exp().sum(1), torch.ones(5, dtype=torch.double))


def test_step_by_step_is_the_same() -> None:
    model = made()
    with torch.no_grad():
        whole, _ = model.scan(batch())
        state = model.start()
        for t, word in enumerate([4, 0, 1]):
            one, state = model.step(state, [word])
            torch.testing.assert_close(one.log_probs()[0], whole.log_probs()[t], rtol=1e-12, atol=1e-12)


def test_gradients_reach_both_sides() -> None:
    model = made(1)
    names = ("gate_weight", "gate_bias", "layer.weight", "controller.layers.0.weight_hh_l0")
    model(batch()).backward()
    for name in names:
        parameter = model.get_parameter(name)
        assert parameter.grad is not None
        place = (0,) * parameter.dim()
        before, step = parameter[place].item(), 1e-6
        with torch.no_grad():
            losses = []
            for moved in (before + step, before - step):
                parameter[place] = moved
                losses.append(model(batch()).item())
            parameter[place] = before
        assert parameter.grad[place].item() == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-4, abs=1e-8)


def test_folders_words_and_explanations(tmp_path: Path) -> None:
    model = made()
    model.save(tmp_path / "m")
    again = llrnn.load(tmp_path / "m")
    with torch.no_grad():
        torch.testing.assert_close(again.log_prob(batch()), model.log_prob(batch()), rtol=0, atol=0)
    why = llrnn.explain(model, "a", word="b")
    assert [part.name.partition("(")[0] for part in why.parts] == ["log-linear", "NGram", "Uniform"]
    assert sum(part.share for part in why.parts) == pytest.approx(1.0)
    assert why.log_b - why.log_z == pytest.approx(why.log_p)
    more = words.add(made(1, with_expert=False), [words.Entry("dd", count=1)])
    with torch.no_grad():
        assert more.scan(batch_of(more))[0].log_probs().exp().sum(1).tolist() == pytest.approx([1.0] * 5)


def batch_of(model: llrnn.LLRNN) -> Batch:
    eos = model.vocabulary.eos
    given = batch()
    inputs, targets = (torch.where(one == 4, eos, one) for one in (given.inputs, given.targets))
    return Batch(inputs, targets, given.mask)


def test_a_constraint_would_not_hold() -> None:
    with pytest.raises(ConfigError, match=r"mixes .* in, which would go on saying what .* forbids"):
        constrained(made(), backgrounds.Automaton("(a|b)*"))


CONFIG = """
[corpus]
embedded = { train = 300, valid = 40, test = 1 }
[features]
output = [{ kind = "identity" }]
[background]
kind = "unigram"
smoothing = 0.5
[vocabulary]
parts = ["train", "valid"]
[[mixed]]
order = 3
folds = 5
[controller]
kind = "gru"
hidden = 8
[training]
epochs = 2
learning_rate = 0.01
"""


def test_trained_jointly_from_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(CONFIG)
    losses = {}
    for name, changes in {"mixed": [], "alone": ["mixed=[]"]}.items():
        project = Project.from_config(read_config(tmp_path / "mixed.toml", changes))
        model = project.model()
        before = None if model.gate_weight is None else model.gate_weight.detach().clone()
        settings = project.config.training
        *_, last = llrnn.train(model, project.corpora["train"], valid=project.corpora["valid"], settings=settings)
        losses[name] = last.best
        assert before is None or not torch.equal(before, model.gate_weight)  # type: ignore[arg-type]
    assert losses["mixed"] is not None
    assert losses["alone"] is not None
    assert losses["mixed"] < losses["alone"] - 0.1


def test_an_objective_that_needs_scores_is_refused(tmp_path: Path) -> None:
    kind = "importance"
    (tmp_path / "mixed.toml").write_text(CONFIG)
    said = (
        f"mixed is for the objectives 'exact' and 'distil', found training.objective.kind = '{kind}', and a mixture has"
    )
    with pytest.raises(ConfigError, match=said) as found:
        read_config(tmp_path / "mixed.toml", [f"training.objective.kind={kind}"])
    with pytest.raises(ConfigError, match=r"needs scores .* choose exact or distil, or leave mixed out") as told:
        next(llrnn.train(made(), Corpus.from_sentences(SAID), objective={"kind": kind}))
    assert all("\n" not in str(one.value) for one in (found, told))
