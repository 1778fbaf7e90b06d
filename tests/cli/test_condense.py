"""`llrnn model condense`: a trained model made cheaper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test_cli import Capture, done, refused
from test_mixing import place

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
