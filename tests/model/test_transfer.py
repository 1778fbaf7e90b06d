"""Weights of another model: rows by the names of features, the network as it is; what does not fit is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from helpers import shaken
from llrnn import GRU, LLRNN, LSTM, Corpus, Vocabulary, cli, contextual, features, load, transfer
from llrnn.ground.errors import ConfigError
from llrnn.knowledge.features import Features
from llrnn.model.controllers import Controller

Capture = pytest.CaptureFixture[str]
OLD, NEW = ["le chat dort", "la chatte dort bien"], ["lo gat dòrm", "la gata dòrm plan"]


def model_of(texts: list[str], controller: Controller, *, tied: bool = False, repeated: bool = True) -> LLRNN:
    corpus = Corpus.from_sentences([text.split() for text in texts])
    known: Features = features.Identity() + features.Suffixes(2, min_count=1)
    context = [contextual.Repeated(3)] if repeated else []
    vocabulary = Vocabulary.from_corpus(corpus)
    model = LLRNN(vocabulary, output_features=known, controller=controller, contextual=context, tied=tied, seed=3)
    shaken(model, 2.0)
    return model


@pytest.mark.parametrize("tied", [False, True])
def test_rows_are_taken_by_name_and_the_network_as_it_is(tied: bool) -> None:
    source, model = model_of(OLD, GRU(5), tied=tied), model_of(NEW, GRU(5), tied=tied)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    before, theirs = {name: one.clone() for name, one in model.weights().items()}, source.weights()
    found = transfer(model, source)
    after = model.weights()
    ours, others = model.output_features.names, source.output_features.names
    shared = {*ours} & {*others}
    assert {"Word:la", "Word:</s>", "Suffix:a"} <= shared
    assert 2 <= len(shared) < len(ours)
    for name, own in after.items():
        if ".controller." in name:
            assert torch.equal(own, theirs[name])
        elif len(own) == len(ours):
            for place, feature in enumerate(ours):
                expected = theirs[name][others.index(feature)] if feature in shared else before[name][place]
                assert torch.equal(own[place], expected)
        else:
            assert torch.equal(own, theirs[name])  # contextual features
    assert found.parts["output features"] == found.parts["input features"] == (len(shared), len(ours))
    assert str(found).startswith("taken by name: 4 of 4 tensors of the network, ")


def test_a_model_of_ones_own_is_its_own_source() -> None:
    source, model = model_of(OLD, LSTM(4)), model_of(OLD, LSTM(4))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    transfer(model, source)
    for name, own in model.weights().items():
        assert torch.equal(own, source.weights()[name]), name


def test_sizes_decide_what_fits() -> None:
    wide = transfer(model_of(NEW, GRU(5, inputs=3)), model_of(OLD, LSTM(5, inputs=4), repeated=False))
    assert wide.parts["tensors of the network"][0] == wide.parts["input features"][0] == 0
    assert wide.parts["output features"][0] > 0
    assert wide.parts["contextual features"] == (0, 1)
    with pytest.raises(ConfigError, match=r"nothing of the other model fits: its network is LSTM\(hidden=6, .*GRU"):
        transfer(model_of(NEW, GRU(5)), model_of(OLD, LSTM(6)))


CONFIG = """
[corpus]
train = ["t.txt"]
[features]
output = [{kind = "identity", top = 5}, {kind = "suffixes", longest = 2, min_count = 1}]
[controller]
kind = "gru"
hidden = HIDDEN
[training]
epochs = 1
"""


def test_from_a_model_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    model_of(OLD, GRU(5), repeated=False).save("old")
    Path("t.txt").write_text("\n".join(NEW * 5) + "\n", encoding="utf8")
    Path("c.toml").write_text(CONFIG.replace("HIDDEN", "5"), encoding="utf8")
    begin = ["train", "c.toml", "--out", "run", "--from", "old"]
    assert cli.run(begin) == 0
    assert "old: taken by name: 4 of 4 tensors of the network" in capsys.readouterr().out
    assert load("run").provenance["from"] == "old"
    for arguments, said in [
        ([*begin, "--resume"], "--from begins a run, and --resume goes on with one; leave --from out"),
        ([*begin[:-1], "nowhere"], "nowhere"),
        ([*begin[:3], "other", "--from", "old", "--set", "controller.hidden=6"], "nothing of the other model fits"),
    ]:
        assert cli.run(arguments) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
