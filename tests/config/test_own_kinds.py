"""Kinds of other packages: installed, named in a configuration, saved, and opened by the same name elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from llrnn.config import parse_config
from llrnn.ground import plugins
from llrnn.ground.errors import CheckpointError, ConfigError, DomainError
from llrnn.knowledge import backgrounds, contextual
from llrnn.knowledge.backgrounds import Saved
from llrnn.languages import domains

PACKAGE = Path(__file__).parents[1] / "own_package"

CONFIG = """
[corpus]
train = ["text.txt"]
valid_last = 4
[[domains]]
kind = "{plates}"
digits = 3
[features]
output = [
    {{kind = "identity"}},
    {{kind = "{vowels}", letters = "aei", scale = 0.5, listed = true}},
    {{kind = "orthographic"}},
]
[background]
kind = "{stutter}"
factor = 100.0
[[contextual]]
kind = "{echo}"
least = 3
[controller]
kind = "{averages}"
hidden = 6
[training]
epochs = 2
batches = {{kind = "sentences", words = 60}}
"""
ENTRY_POINTS = {kind: kind for kind in ("plates", "vowels", "stutter", "echo", "averages")}
CLASSES = {
    "plates": "own_words:Plates",
    "vowels": "own_words:Vowels",
    "stutter": "own_words:NoStutter",
    "echo": "own_words:Echo",
    "averages": "own_words:Averages",
}
TRAIN = """
import sys
from llrnn.cli import run
sys.exit(run(["train", sys.argv[1], "--out", "model", "--quiet"]))
"""
OPEN = """
import json
import llrnn
model = llrnn.load("model")
parts = [model.background, *model.contextual, model.controller, *model.vocabulary.domains]
score = llrnn.score(model, llrnn.Corpus.from_file("text.txt"))
print(json.dumps([[type(part).__name__ for part in parts], sum(one.log_prob for one in score.sentences)]))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(PACKAGE)], check=True)
    return folder


def run(code: str, *arguments: str, packages: Path, folder: Path) -> str:
    """What a fresh process prints that has these packages."""
    paths = [str(packages), *(path for path in sys.path if path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("named", [ENTRY_POINTS, CLASSES], ids=["entry points", "module:Class"])
def test_a_package_of_ones_own_is_trained_with_saved_and_opened(
    named: dict[str, str], installed: Path, tmp_path: Path
) -> None:
    plates = ("aa-229", "bc-710", "dm-042", "gh-555")
    lines = [f"the car {plate} is {colour} ." for plate in plates for colour in ("red", "blue", "old")]
    (tmp_path / "text.txt").write_text("\n".join([*lines, *lines]) + "\n", encoding="utf8")
    (tmp_path / "own.toml").write_text(CONFIG.format(**named), encoding="utf8")
    run(TRAIN, "own.toml", packages=installed, folder=tmp_path)
    found, log_prob = json.loads(run(OPEN, packages=installed, folder=tmp_path))
    assert found == ["NoStutter", "Echo", "Averages", "Plates"]
    assert -2000 < log_prob < 0


def refusal(**tables: Any) -> str:
    content = tomllib.loads('[corpus]\ntrain = ["a.txt"]\n[features]\noutput = [{kind = "identity"}]')
    with pytest.raises(ConfigError) as caught:
        parse_config(content | tables, "my.toml")
    return str(caught.value)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package is installed beside llrnn."""
    monkeypatch.setattr(plugins, "entry_points", lambda **_: ())


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            {"contextual": [{"kind": "agreement"}]},
            "contextual.0: kind = 'agreement' needs another package: pip install",
        ),
        ({"contextual_inputs": [{"kind": "agreement"}]}, "llrnn-agreement (or 'llrnn[agreement]')"),
        ({"contextual": [{"kind": "agreemnt"}]}, "contextual.0.kind: must be one of 'repeated', "),
        (
            {"background": {"kind": "nobody_has:This"}},
            "background: kind = 'nobody_has:This' cannot be imported: No mod",
        ),
        ({"domains": [{"kind": "os:path"}]}, "os is a module of Python itself"),
        ({"domains": [{"kind": "llrnn.text.corpus:Corpus"}]}, "must name a class of the type Domain, found <class"),
        (
            {"domains": [{"kind": "llrnn.languages.domains:Numbers", "lang": "fr"}]},
            "unexpected keyword argument 'lang'",
        ),
        ({"controller": {"kind": ":"}}, "controller: kind = ':' cannot be imported"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(tables: dict[str, Any], said: str) -> None:
    found = refusal(**tables)
    assert said in found
    assert "\n" not in found


@pytest.mark.usefixtures("alone")
def test_a_model_with_kinds_that_are_not_there_names_the_package() -> None:
    with pytest.raises(CheckpointError, match="kind = 'agreement' needs another package: pip install llrnn-agreement"):
        contextual.restore(Saved("agreement"))
    with pytest.raises(CheckpointError, match="kind = 'governors' needs another package"):
        contextual.restore_input(Saved("governors"))
    with pytest.raises(CheckpointError, match="unknown kind of background 'zipf': it needs a newer llrnn, or the pack"):
        backgrounds.restore(Saved("zipf"))
    with pytest.raises(CheckpointError, match=r"'os\.path:join' cannot be imported: os\.path is a module of Python"):
        backgrounds.restore(Saved("os.path:join"))
    with pytest.raises(DomainError, match=r"no domain of the kind 'dates' is known; register it: .* or install"):
        domains.restore({"kind": "dates"}, {})
