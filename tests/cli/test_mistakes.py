"""Wrong paths, wrong kinds, empty files, a model of another kind: each is one line, and exit code 2."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

import pytest

from llrnn import GRU, LLRNN, Corpus, Vocabulary, cli, features

Capture = pytest.CaptureFixture[str]
OTHERS = {  # what is given in the place of a model folder, and what is said of it
    "nowhere": "a model folder is required",
    "empty.txt": "but this is a file",
    "folder": "folder holds no complete model",
    "broken": "broken/model.json: not JSON",
    "counts": "found n-grams, which evaluate, score, rescore, generate, complete and explain take",
}
WITH_A_MODEL = [
    ["export", "keyboard", "MODEL", "--out", "o.kb"],
    ["model", "info", "MODEL"],
    ["model", "mix", "MODEL", "model", "--weights", "0.5,0.5", "--out", "new"],
    ["model", "condense", "MODEL", "--fewer", "2", "--valid", "text.txt", "--out", "new"],
    ["pairs", "templates", "--model", "MODEL", "--out", "p.tsv"],
    ["train", "good.toml", "--from", "MODEL", "--out", "new"],
]
IN_THE_PLACE_OF_A_MODEL = [
    ([name if one == "MODEL" else one for one in verb], said) for verb in WITH_A_MODEL for name, said in OTHERS.items()
]
INIT = ["init", "text.txt", "--out", "o.toml"]
WRONG_FILES = [
    (["init", "nowhere.txt", "--out", "o.toml"], "there is none of this name"),
    (["init", "empty.txt", "--out", "o.toml"], "empty"),
    (["init", "folder", "--out", "o.toml"], "folder"),
    (["init", "bytes.bin", "--out", "o.toml"], "bytes.bin"),
    ([*INIT, "--list", "empty.txt"], "empty.txt"),
    ([*INIT, "--list", "model"], "but this is a folder"),
    ([*INIT, "--lexicon", "counted.tsv"], "Name:Value"),
    ([*INIT, "--list", "none.dic"], "none.aff"),
    ([*INIT, "--vectors", "text.txt"], "numbers are required behind the word"),
    ([*INIT, "--analyser", "text.txt"], "an analyser is"),
    (["init", "text.txt", "--out", "no/o.toml"], "make the folder"),
    (["pairs", "templates", "--out", "p.tsv", "--table", "empty.txt"], "empty"),
    (["pairs", "templates", "--out", "p.tsv", "--table", "text.txt"], "text.txt:1"),
    (["pairs", "templates", "--out", "p.tsv", "--vocabulary", "text.txt"], "gives no sentence with these words"),
    (["pairs", "templates"], "--out"),
    (["config", "check", "nowhere.toml"], "nowhere.toml"),
    (["config", "check", "empty.txt"], "corpus"),
    (["config", "check", "text.txt"], "text.txt"),
    (["config", "check", "folder"], "folder"),
    (["model", "mix", "model", "--out", "new"], "two"),
    (["model", "mix", "model", "model", "--weights", "a,b", "--out", "new"], "weights"),
    (["model", "mix", "model", "model", "--valid", "empty.txt", "--out", "new"], "empty"),
    (["model", "condense", "model", "--fewer", "2", "--out", "new", "--valid", "nowhere.txt"], "nowhere.txt"),
    (["model", "condense", "model", "--fewer", "1", "--out", "new", "--valid", "text.txt"], "needs N over 1"),
    (["export", "keyboard", "model", "--out", "o.kb"], "found the controller GRU"),
    (["complete", "model", "zorglub le"], "zorglub"),
    (["complete", "nowhere", "le"], "or an ARPA file, but there is none of this name; check the path"),
    (["complete", "folder", "le"], "folder holds no complete model"),
    (["complete", "empty.txt", "le"], "empty.txt: a model is required"),
    (["evaluate", "text.txt", "text.txt"], "a model is required"),
    (["explain", "text.txt", "--word", "le"], "or an ARPA file, but this is another file"),
    (["complete", "model", "le", "--background", "nowhere"], "nowhere"),
    (["score", "counts", "nowhere.odd"], "nowhere.odd: a file is required, but there is none of this name"),
    (["score", "counts", "odd.odd"], "odd.odd: the format is told by the extension"),
    (["score", "counts", "pairs.csv"], "`llrnn init pairs.csv --out CONFIG` makes JSON lines of it"),
    (["data", "build", "nowhere.odd", "--out", "new"], "a file is required, but there is none of this name"),
    (["data", "vectors", "nowhere.odd", "--out", "v.npz"], "a file is required, but there is none of this name"),
    (["data", "vectors", "odd.odd", "--out", "v.npz"], "a file of vectors is required, that ends in .vec"),
    (["model", "pairs", "model", "nowhere.csv"], "no such file or folder"),
    (["model", "pairs", "model", "pairs.csv"], "write them as .tsv, a TAB between the good sentence and the bad"),
    (["serve", "nowhere", "--host", "203.0.113.1"], "nowhere: a model folder is required"),
    (["serve", "--host", "203.0.113.1"], "serve needs a model folder, or --demo"),
    (["serve", "model", "--host", "203.0.113.1"], "cannot listen at 203.0.113.1"),
    (["data", "french", "--sentences", "3", "--out", "pipe"], "pipe: the file cannot be written: a file is required"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    corpus = Corpus.from_sentences([["le", "chat", "dort"], ["la", "reine", "mange"]])
    known = features.Identity(top=3) + features.Suffixes(2, min_count=1)
    LLRNN(Vocabulary.from_corpus(corpus), output_features=known, controller=GRU(4)).save(folder / "model")
    (folder / "text.txt").write_text("".join(f"le chat {i} dort .\n" for i in range(20)), encoding="utf8")
    (folder / "counted.tsv").write_text("le\t3\nla\t2\n", encoding="utf8")
    (folder / "good.toml").write_text(
        '[corpus]\ntrain = ["text.txt"]\n[features]\noutput = [{kind = "identity"}]\n', encoding="utf8"
    )
    (folder / "empty.txt").touch()
    (folder / "odd.odd").write_text("le chat dort\n", encoding="utf8")
    (folder / "pairs.csv").write_text("meaning,text\nname[ritz],ritz is here\n", encoding="utf8")
    os.mkfifo(folder / "pipe")
    (folder / "bytes.bin").write_bytes(bytes(range(256)))
    (folder / "folder").mkdir()
    (folder / "broken").mkdir()
    (folder / "broken" / "model.json").write_text("{", encoding="utf8")
    assert (
        cli.run(["ngram", "estimate", str(folder / "text.txt"), "--out", str(folder / "counts"), "--order", "2"]) == 0
    )
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [*chain(IN_THE_PLACE_OF_A_MODEL, WRONG_FILES)],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(here)
    before = sorted(path.name for path in here.iterdir())
    capsys.readouterr()
    assert cli.run(arguments) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    assert said in found.err
    assert sorted(path.name for path in here.iterdir()) == before  # nothing half-written
