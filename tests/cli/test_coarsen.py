"""`llrnn model condense`, and fewer classes by configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llrnn import load
from test_cli import Capture, done, refused
from test_mixing import SMALL, place

__all__ = ["place"]


def test_a_trained_model_is_condensed(place: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llrnn.inference.condensing._FIRST", 8)
    model, valid, out = str(place / "seed0"), str(place / "valid.conllu"), str(place / "condensed")
    given = ["model", "condense", model, "--fewer", "1.5", "--out", out]
    said = json.loads(done(capsys, *given, "--valid", valid, "--json"))
    assert said["fewer"] >= 1.5
    (found,) = json.loads(done(capsys, "evaluate", out, valid, "--json"))
    assert abs(found["log_perplexity"] - said["log_perplexity"][1]) < 1e-6
    assert found["audit"]["worst_sum_error"] < 1e-5
    assert "times fewer multiplications than a softmax" in done(capsys, *given, "--valid", valid, "--force")
    done(capsys, "generate", out, "--count", "2")
    assert "--valid" in refused(capsys, *given, "--force")
    assert "--force" in refused(capsys, *given, "--valid", valid)


def test_a_configuration_is_coarsened(place: Path, capsys: Capture) -> None:
    config, out = str(place / "quick.toml"), str(place / "by config")
    classes = ["--set", "features.coarsen.classes=30"]
    summary = json.loads(done(capsys, "config", "features", config, *classes, "--json"))
    assert summary["classes"] == 30
    assert any("as 30" in note for note in summary["notes"])
    done(capsys, "train", config, *classes, *SMALL, "--out", out)
    model = load(out)
    assert model.output_features.n_classes == 30 < model.input_features.n_classes
    assert "greater than or equal to 1" in refused(
        capsys, "config", "features", config, "--set", "features.coarsen.classes=0"
    )
