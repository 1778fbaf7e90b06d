"""models/french: found by its name, the same figures as the models that it was made from, and choices of agreement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import llrnn
from llrnn import LLRNN, LSTM, Corpus, Vocabulary, features
from llrnn.cli import demo
from llrnn.ground import bundle
from llrnn.ground.errors import CheckpointError, ConfigError
from llrnn.model.checkpoint import open_model
from test_cli import Capture, as_json

ROOT = Path(__file__).parents[2]
FIGURES = json.loads((ROOT / "models" / "french" / "figures.json").read_text(encoding="utf8"))
TEXT = "La voiture de mon voisin est très puissante. L'homme que les voisins ont vu est parti en 1984 à Zorglubville."


@pytest.fixture(scope="module")
def shipped() -> LLRNN:
    return llrnn.load("fr")


def test_a_model_is_found_by_its_name_and_a_path_goes_first(
    shipped: LLRNN, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bundle.place_of("fr").parent == ROOT / "models" / "french" / "llrnn_french"
    assert open_model("fr").vocabulary == shipped.vocabulary
    assert bundle.place_of("./fr") == Path("./fr")  # no name, but a path
    monkeypatch.chdir(tmp_path)
    vocabulary = Vocabulary.from_corpus(Corpus.from_sentences([["le", "chat"]]))
    LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(2)).save("fr")
    assert bundle.place_of("fr") == Path("fr")
    assert len(llrnn.load("fr").vocabulary) == len(vocabulary)


def test_a_model_that_is_not_installed_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_installed", lambda name: None)
    for opens in (llrnn.load, open_model):
        with pytest.raises(CheckpointError, match=r"pip install \./models/french"):
            opens("fr")
    with pytest.raises(CheckpointError, match="there is no such folder"):
        llrnn.load("nobody")
    with pytest.raises(ConfigError, match="no such base"):
        bundle.require_base("nobody")
    assert demo.opening() is None


def test_the_verbs_take_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """And say the same of the text."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT, encoding="utf8")
    found = as_json(capsys, "evaluate", "fr", "fr-softmax", "text.txt")
    assert [one["model"] for one in found] == ["fr", "fr-softmax"]
    scored = as_json(capsys, "score", "fr", "text.txt")
    assert (scored["unit"], scored["perplexity"]) == ("nats", pytest.approx(found[0]["perplexity"], rel=1e-4))
    told = as_json(capsys, "model", "info", "fr")
    assert (told["model"], told["name"], "model.json" in told["files"]) == ("fr", "french", True)


@pytest.mark.parametrize("name", [*FIGURES])
def test_it_has_the_figure_of_the_model_that_it_was_made_from(name: str) -> None:
    """On a fixed text, and on the whole test as `scripts/french_model.py` wrote it down before and after."""
    model = llrnn.load(name)
    assert {one.dtype for one in model.parameters()} == {torch.float32}
    found = llrnn.evaluate(model, Corpus.from_sentences([model.read(TEXT)])).log_perplexity
    assert found == pytest.approx(FIGURES[name]["text"], abs=0.01)
    assert FIGURES[name]["test"] == pytest.approx(FIGURES[name]["test before"], abs=0.01)


def test_halves_are_of_matrices_alone_and_must_fit(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_corpus(Corpus.from_sentences([["le", "chat"], ["la", "chatte"]]))
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(4), seed=1)
    model.save(tmp_path / "half", half=True)
    again = llrnn.load(tmp_path / "half")
    for name, weight in model.named_parameters():
        other = again.get_parameter(name)
        assert torch.equal(other, weight if weight.dim() == 1 else weight.half().float())
    with torch.no_grad():
        model.layer.weight[0, 0] = 1e6
    with pytest.raises(CheckpointError, match="finite numbers are required"):
        model.save(tmp_path / "too-large", half=True)


def test_it_knows_what_agrees_over_a_distance_and_no_word_is_unknown(shipped: LLRNN) -> None:
    prefix, word, rival, _ = demo.CHOICES[0]
    found = llrnn.explain(shipped, prefix=prefix, word=word, rival=rival)
    assert found.log_ratio > 0
    deciding = max(found.terms, key=lambda one: one.share)
    assert "Gender" in deciding.name
    assert found.total == pytest.approx(found.log_ratio, abs=1e-3)
    new = llrnn.explain(shipped, prefix="Il habite à", word="Zorglubville")
    assert new.cell is not None
    assert new.log_p > -60


def test_the_demo_opens_with_it() -> None:
    shown = demo.opening()
    assert shown is not None
    assert len(shown.sentences) == 4
    assert all(one.log_ratio > 0 for one in shown.choices["LL-RNN"])
    wrong = [one for one in shown.choices["softmax"] if one.log_ratio < 0]
    assert wrong, "the twin gets one of the pairs wrong"
    html = shown.sheet().page_html()
    assert html.count(", wrong") == len(wrong)
    assert "neighbour" in html
