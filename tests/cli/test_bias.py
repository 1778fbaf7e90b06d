"""`llrnn bias`: lists on a model, by weights and by a text; mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import llrnn
from llrnn import cli, features


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    corpus = llrnn.Corpus.from_sentences([["we", "saw", "new", "york"], ["york", "is", "not", "new"]])
    model = llrnn.LLRNN(
        llrnn.Vocabulary.from_corpus(corpus), output_features=features.Identity(), controller=llrnn.GRU(4)
    )
    model.save(tmp_path / "model")
    (tmp_path / "places.txt").write_text("new york\n\nyork\nyork\nleeds\n")
    (tmp_path / "other.txt").write_text("not new\n")
    (tmp_path / "text.txt").write_text("we saw new york\nnew york is not york\n")
    (tmp_path / "forms.tsv").write_text("york\tLemma:yorks\n")
    return tmp_path


def run(folder: Path, *options: str) -> int:
    out = ["--out", str(folder / "out"), "--json"]
    return cli.run(["bias", str(folder / "model"), str(folder / "places.txt"), *options, *out])


def test_lists_with_a_weight_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, str(folder / "other.txt"), "--weight", "2,0.5") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lists"]["places"] == {"terms": 3, "empty": 1, "repeated": 1, "cannot be spelled": 1}
    assert (found["weights"]["places:continues"], found["weights"]["other:completes"]) == (2.0, 0.5)
    made = llrnn.load(folder / "out")
    terms = llrnn.explain(made, prefix="we saw new", word="york", rival="is").terms
    assert {one.name: one.share for one in terms}["places:continues"] == pytest.approx(2.0)
    assert cli.run(["score", str(folder / "out"), str(folder / "text.txt")]) == 0


def test_weights_of_a_text_and_forms_of_a_lexicon(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "places.txt").write_text("yorks\n")
    lexicon = ["--lexicon", str(folder / "forms.tsv"), "--capitals"]
    assert run(folder, "--fit", str(folder / "text.txt"), *lexicon) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lists"]["places"]["terms"] == 6  # yorks and york, each in three ways
    assert found["weights"]["places:whole"] > 0.3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--weight 3, or --fit TEXT"),
        (["--weight", "2,3"], "one number, or one for each of 1 lists"),
        (["--weight", "much"], "numbers with commas"),
        (["--weight", "1", "--fit", "text.txt"], "one of the two"),
    ],
)
def test_mistakes(folder: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(folder / one) if one.endswith(".txt") else one for one in options]
    assert run(folder, *given) == 2
    assert message in capsys.readouterr().err
    assert run(folder, "--weight", "1") == 0
