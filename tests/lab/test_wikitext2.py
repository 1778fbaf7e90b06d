"""The study of WikiText-2, on a text of our own: planned by the clock, resumed, read as the published figures are."""

from __future__ import annotations

import gzip
import json
import math
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import wikitext2
from llrnn import french

SMALL = [
    "controller.hidden=8", "controller.inputs=6", "controller.last=6", "model.top=50",
    'training.batches={"kind":"continuous","rows":4,"length":30,"shift":true}', "training.validate_every=2",
]  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Lines with a blank one between them, as WikiText has."""
    said = [" ".join(one.words) for one in french.sentences(60)]
    listed = " ".join({word for line in said for word in line.split()} | {"<unk>"})
    for part, lines in (("train", [listed, *said[:40]]), ("valid", said[40:50]), ("test", said[50:])):
        text = "".join(f" {line} \n \n" for line in lines)
        with gzip.open(tmp_path / f"{part}.txt.gz", "wt", encoding="utf8") as file:
            file.write(text)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, data: Path, *more: str, variant: str = "llrnn") -> dict[str, Any]:
    given = [variant, "--data", str(data), "--out", str(data / "out"), "--set", *SMALL, *more]
    monkeypatch.setattr(sys, "argv", ["wikitext2.py", *given])
    asked = count()
    monkeypatch.setattr(wikitext2, "monotonic", lambda: 0.1 * next(asked))  # every step asks
    wikitext2.main()
    found: dict[str, Any] = json.loads((data / "out" / f"{variant}.json").read_text())
    return found


@pytest.mark.parametrize("variant", ["llrnn", "softmax"])
def test_a_training_ends_in_its_time_over_several_calls(
    variant: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(monkeypatch, data, "--minutes", "0.5", "--call", "0.2", variant=variant)
    assert not first["finished"]
    assert "result" not in first
    found = run(monkeypatch, data, "--minutes", "0.5", "--test", variant=variant)
    assert found["finished"]
    assert [one["epoch"] for one in found["epochs"]] == list(range(1, found["planned"] + 1))
    assert 60 * 0.5 * 0.8 < found["seconds"] < 60 * 0.5 * 1.1
    assert found["epochs"][-1]["rate"] < 0.1 * max(one["rate"] for one in found["epochs"])  # it has fallen
    result = found["result"]
    lines = gzip.decompress((data / "test.txt.gz").read_bytes()).decode().split("\n")[:-1]
    assert result["words"]["test"] == sum(len(line.split()) + 1 for line in lines)  # an end for every line
    assert all(math.isfinite(result[kind][part]) for kind in ("single", "cache") for part in ("valid", "test"))
    assert result["cache"]["valid"] <= result["single"]["valid"] + 1e-9  # chosen there


def test_other_settings_are_another_study(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, data, "--minutes", "0.01")
    with pytest.raises(SystemExit, match="other settings"):
        run(monkeypatch, data, "training.clip=1.0", "--minutes", "0.01")
