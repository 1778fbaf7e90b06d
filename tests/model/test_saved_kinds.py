"""Models that llrnn 0.2 saved before anything moved, one for each kind: what is still here opens and says the same.

`tests/saved` was written at commit bbefe06. Each archive holds a model folder and `said.json`: symbols that are fed
one after the other, log p of the first eight symbols behind each, and the kinds that the folder holds.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import torch

import llrnn
from llrnn.ground.errors import CheckpointError
from llrnn.ground.plugins import RENAMED
from llrnn.knowledge import backgrounds, contextual
from llrnn.languages import domains
from llrnn.model import controllers

ARCHIVES = sorted((Path(__file__).parents[1] / "saved").glob("*.tar.gz"))
GONE = {"gate", "gated", "grammar_state", "opinion", "pointed_words", "stacked"}


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return next(folder.iterdir())


def kinds(archive: Path) -> set[str]:
    with tarfile.open(archive) as packed:
        said = next(name for name in packed.getnames() if name.endswith("said.json"))
        file = packed.extractfile(said)
        assert file is not None
        return {RENAMED.get(kind, kind) for _, kind in json.load(file)["kinds"]}


OPENED = [one for one in ARCHIVES if not kinds(one) & GONE]
REFUSED = [one for one in ARCHIVES if kinds(one) & GONE]


@pytest.mark.parametrize("archive", OPENED, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_a_saved_model_says_what_it_said(archive: Path, tmp_path: Path) -> None:
    folder = unpacked(archive, tmp_path)
    said = json.loads((folder / "said.json").read_text(encoding="utf8"))
    model = llrnn.load(folder)
    state = model.start(said.get("conditions", [None]))
    for symbol, expected in zip(said["words"], said["log_p"], strict=True):
        with torch.no_grad():
            p, state = model.step(state, [symbol])
        found = p.log_probs()[0, : len(expected)].double()
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("archive", REFUSED, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_a_kind_that_left_is_refused_in_a_line_that_says_what_to_use(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"this llrnn has no .* any more[;:] ") as refused:
        llrnn.load(unpacked(archive, tmp_path))
    assert "\n" not in str(refused.value)


def test_every_kind_has_a_saved_model() -> None:
    known = {*backgrounds._RESTORERS, *contextual._RESTORERS, *contextual._INPUTS, *domains._KINDS}
    known |= {kind for kind, made in controllers._kinds.items() if made.__module__.startswith("llrnn.")}  # not of tests
    another_format_of_n_grams, need_a_folder_beside_them = "ngram with shared words", {"huggingface", "lm_state"}
    known -= {another_format_of_n_grams} | need_a_folder_beside_them
    assert known <= set().union(*map(kinds, OPENED))
