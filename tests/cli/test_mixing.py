"""`llrnn model mix` on two models of the quick start's configuration, in small; and what is done with what it makes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from doc_pages import DOCS
from llrnn import LLRNN, Vocabulary, features
from llrnn.model.controllers import GRU
from llrnn.text.vocabulary import EOS
from test_cli import Capture, done, refused

SMALL = ["--set", "corpus.embedded.train=150", "--set", "training.epochs=1", "--set", "controller.hidden=12", "--quiet"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """quick.toml, as the quick start has it, and two models of it."""
    from llrnn.cli import run

    folder = tmp_path_factory.mktemp("mix")
    text = (DOCS / "quick-start.md").read_text(encoding="utf8")
    found = re.search(r'```toml title="quick.toml"\n(.*?)```', text, re.DOTALL)
    assert found is not None
    (folder / "quick.toml").write_text(found[1], encoding="utf8")
    for seed in ("0", "1"):
        out = str(folder / f"seed{seed}")
        assert run(["train", str(folder / "quick.toml"), "--out", out, "--seed", seed, *SMALL]) == 0
    valid = str(folder / "valid.conllu")
    assert run(["data", "french", "--sentences", "60", "--skip", "150", "--out", valid]) == 0
    return folder


def test_one_command_mixes_two_models(place: Path, capsys: Capture) -> None:
    a, b, valid = (str(place / name) for name in ("seed0", "seed1", "valid.conllu"))
    alone = [one["log_perplexity"] for one in json.loads(done(capsys, "evaluate", a, b, valid, "--json"))]
    out = str(place / "mixed")
    said = json.loads(done(capsys, "model", "mix", a, b, "--valid", valid, "--out", out, "--json"))
    (found,) = json.loads(done(capsys, "evaluate", out, valid, "--json"))
    assert abs(found["log_perplexity"] - said["log_perplexity"]) < 1e-6
    assert found["audit"]["worst_sum_error"] < 1e-5
    assert found["log_perplexity"] < min(alone) + 1e-3
    done(capsys, "generate", out, "--count", "2")
    why = json.loads(done(capsys, "explain", out, "--prefix", "le", "--word", "la", "--json"))
    assert len(why["parts"]) == 2
    done(capsys, "score", out, valid, "--by", "sentences")


def test_without_a_text_nothing_is_fitted_and_that_is_told(place: Path, capsys: Capture) -> None:
    a, b, out = (str(place / name) for name in ("seed0", "seed1", "equal"))
    assert "no --valid, so nothing was fitted" in done(capsys, "model", "mix", a, b, "--out", out)
    assert "holds a model already" in refused(capsys, "model", "mix", a, b, "--out", out)
    said = json.loads(done(capsys, "model", "mix", a, b, "--out", out, "--weights", "0.25,0.75", "--force", "--json"))
    assert said["weights"] == [0.25, 0.75]
    part = json.loads(done(capsys, "explain", out, "--word", "la", "--part", "2", "--json"))
    own = json.loads(done(capsys, "explain", b, "--word", "la", "--json"))
    assert part == own


def test_a_mixed_model_teaches_one(place: Path, capsys: Capture) -> None:
    a, b, out = (str(place / name) for name in ("seed0", "seed1", "student"))
    objective = f"training.objective={{kind='distil', teacher=['{a}', '{b}']}}"
    config = str(place / "quick.toml")
    assert "trained" in done(capsys, "train", config, "--out", out, "--set", objective, *SMALL)


def test_mistakes_are_one_line(place: Path, capsys: Capture) -> None:
    a, b, new = (str(place / name) for name in ("seed0", "seed1", "new"))
    other = LLRNN(Vocabulary(["chat", EOS]), output_features=features.Identity(), controller=GRU(3))
    other.save(place / "other")
    mistakes = {
        "two models or more are needed to mix, found 1": [a],
        "a model folder is required": [a, str(place / "quick.toml")],
        "must have one vocabulary": [a, str(place / "other")],
        "2 weights above 0 that sum to 1 are needed, found [0.5, 0.6]": [a, b, "--weights", "0.5,0.6"],
        "found [-0.5, 1.5]": [a, b, "--weights=-0.5,1.5"],
        "numbers with commas between them": [a, b, "--weights", "half,half"],
        "--batches does nothing without --valid": [a, b, "--batches", "sliding"],
        "no-text.txt": [a, b, "--valid", "no-text.txt"],
    }
    for message, arguments in mistakes.items():
        assert message in refused(capsys, "model", "mix", *arguments, "--out", new)
    assert not Path(new).exists()
    assert "only a mixture has members" in refused(capsys, "explain", a, "--word", "la", "--part", "1")
