"""`llrnn features --classes` and `llrnn coarsen`, and fewer classes by configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llrnn import load
from test_cli import Capture, done, refused
from test_mixing import SMALL, place

__all__ = ["place"]


def test_the_curve_of_a_configuration_and_of_a_model(place: Path, capsys: Capture) -> None:
    config, model, valid = (str(place / name) for name in ("quick.toml", "seed0", "valid.conllu"))
    said = json.loads(done(capsys, "features", config, "--classes", "--at", "20,40", "--json"))
    assert [one["classes"] for one in said["counts"]] == [40, 20]
    assert 0 < said["counts"][0]["share"] < said["counts"][1]["share"] < 1
    assert said["counts"][0]["lost"] is None
    assert said["counts"][0]["fewer"] < said["counts"][1]["fewer"]
    plot = place / "classes.png"
    printed = done(capsys, "features", model, "--classes", "--valid", valid, "--plot", str(plot))
    assert "nats lost," in printed
    assert plot.stat().st_size > 1000
    by_text = json.loads(done(capsys, "features", model, "--classes", "--valid", valid, "--json"))["counts"]
    (alone,) = json.loads(done(capsys, "evaluate", model, valid, "--json"))
    assert by_text[0]["lost"] == 0
    assert abs(by_text[0]["log_perplexity"] - alone["log_perplexity"]) < 1e-6
    by_weights = json.loads(done(capsys, "features", model, "--classes", "--json"))["counts"]
    assert by_weights[0]["log_perplexity"] is None


def test_a_trained_model_is_coarsened(place: Path, capsys: Capture) -> None:
    model, valid, out = str(place / "seed0"), str(place / "valid.conllu"), str(place / "coarse")
    said = json.loads(done(capsys, "coarsen", model, "--classes", "30", "--valid", valid, "--out", out, "--json"))
    assert said["classes"] == 30 < said["before"]
    (found,) = json.loads(done(capsys, "evaluate", out, valid, "--json"))
    assert abs(found["log_perplexity"] - said["log_perplexity"][1]) < 1e-6
    assert found["audit"]["worst_sum_error"] < 1e-5
    assert "30" in done(capsys, "coarsen", model, "--classes", "30", "--out", out, "--force")
    done(capsys, "generate", out, "--count", "2")
    assert "--force" in refused(capsys, "coarsen", model, "--classes", "30", "--out", out)


def test_a_trained_model_is_condensed(place: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llrnn.inference.condensing._FIRST", 8)
    model, valid, out = str(place / "seed0"), str(place / "valid.conllu"), str(place / "condensed")
    given = ["coarsen", model, "--fewer", "1.5", "--out", out]
    said = json.loads(done(capsys, *given, "--valid", valid, "--json"))
    assert said["fewer"] >= 1.5
    (found,) = json.loads(done(capsys, "evaluate", out, valid, "--json"))
    assert abs(found["log_perplexity"] - said["log_perplexity"][1]) < 1e-6
    assert found["audit"]["worst_sum_error"] < 1e-5
    assert "times fewer multiplications than a softmax" in done(capsys, *given, "--valid", valid, "--force")
    done(capsys, "generate", out, "--count", "2")
    assert "--valid" in refused(capsys, *given, "--force")
    assert "both" in refused(capsys, *given, "--valid", valid, "--classes", "30", "--force")
    assert "neither" in refused(capsys, "coarsen", model, "--out", out, "--force")


def test_a_configuration_is_coarsened(place: Path, capsys: Capture) -> None:
    config, out = str(place / "quick.toml"), str(place / "by config")
    classes = ["--set", "features.coarsen.classes=30"]
    summary = json.loads(done(capsys, "features", config, *classes, "--json"))
    assert summary["classes"] == 30
    assert any("as 30" in note for note in summary["notes"])
    done(capsys, "train", config, *classes, *SMALL, "--out", out)
    model = load(out)
    assert model.output_features.n_classes == 30 < model.input_features.n_classes
    like = ["--set", f"features.coarsen.like={place / 'seed0'}", "--set", "corpus.embedded.train=150"]
    assert json.loads(done(capsys, "features", config, *classes, *like, "--json"))["classes"] == 30


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["features", "quick.toml", "--at", "30"], "without --classes"),
        (["features", "quick.toml", "--classes", "--at", "many"], "whole numbers with commas"),
        (["features", "quick.toml", "--classes", "--valid", "valid.conllu"], "nothing is trained"),
        (["features", "quick.toml", "--classes", "--plot", "x.doc"], ".png, .svg or .pdf"),
        (["features", "quick.toml", "--set", "features.coarsen.classes=0"], "greater than or equal to 1"),
        (["coarsen", "seed0", "--classes", "9", "--out", "none", "--batches", "training"], "without --valid"),
    ],
)
def test_mistakes_are_one_line(
    given: list[str], reason: str, place: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    assert reason in refused(capsys, *given)
