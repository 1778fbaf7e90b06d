"""Experiments: the whole of Table 4 at the size of a minute, on real data where it is there."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from llrnn import Corpus, Vocabulary, french
from llrnn.cli import run
from llrnn.ground.errors import ConfigError, LexiconError
from llrnn.ground.files import write_atomically
from llrnn.text.contract import Contract
from llrnn.text.readers import conllu_lines
from llrnn.text.vectors import WordVectors
from llrnn_lab.clusters import cluster_words, tokenise
from llrnn_lab.studies import prepare as preparation
from llrnn_lab.studies import table4
from llrnn_lab.studies.jobs import Job
from llrnn_lab.studies.prepare import find_source, prepare
from llrnn_lab.studies.tables import markdown, mean_and_spread, perplexity_table

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The shared corpora with hunspell's dictionary, or one treebank of our own making."""
    if DATA.is_dir() and preparation.HUNSPELL.exists():
        return DATA
    return embedded_treebank(tmp_path / "treebank")


def embedded_treebank(folder: Path) -> Path:
    folder.mkdir()
    sentences = list(french.sentences(500, skip=5000))
    for part, chosen in (("train", sentences[:300]), ("dev", sentences[300:400]), ("test", sentences[400:])):
        write_atomically(folder / f"fr-{part}.conllu", "".join(f"{line}\n" for line in conllu_lines(chosen)).encode())
    return folder


@pytest.mark.slow
def test_the_whole_experiment_in_a_minute(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "table4"
    small = tmp_path / "configs"
    small.mkdir()
    for path in (ROOT / "configs" / "table4").glob("*.toml"):
        text = path.read_text(encoding="utf8")
        text = text.replace("hidden = 512", "hidden = 24").replace("hidden = 256", "hidden = 24")
        text, changed = re.subn(r"\bepochs = \d+", "epochs = 1", text)
        assert changed == 1 + text.count("[[corpus.other]]")
        (small / path.name).write_text(text, encoding="utf8")
    wanted = ["--only", "rnn.windows", "--only", "llrnn-500.", "--only", "llrnn-10.windows"]
    command = ["experiment", "table4", "--data", str(data), "--out", str(out), "--configs", str(small)]
    command += ["--sentences", "300", "--seeds", "1", "--parallel", "2", *wanted]
    assert run(command) == 0
    first = capsys.readouterr().out
    assert "llrnn-500.windows" in first
    assert "distance 5+" in first
    results = json.loads((out / "table4.json").read_bytes())
    names = {"kneser-ney", "rnn.windows", "llrnn-500.windows", "llrnn-500.continuous", "llrnn-10.windows"}
    assert set(results) == names
    (ngram,) = results.pop("kneser-ney")
    assert 0 < ngram["train"] < min(found["log_perplexity"] for found in ngram["tests"].values()) < 8
    for (one,) in results.values():
        assert {"test1", "test2"} == set(one["tests"])
        assert one["tests"]["test1"]["audit"]["worst_sum_error"] < 1e-4
        assert one["pairs"]["overall"]["count"] > 100
    assert (out / "table4.png").stat().st_size > 10_000
    manifest = json.loads((out / "prepared" / "manifest.json").read_bytes())
    assert manifest["sentences"]["valid"] == 30
    times = {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}
    assert run(command) == 0  # all of it is there: nothing is trained again
    assert times == {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}


def test_one_treebank_is_enough(tmp_path: Path) -> None:
    """Nothing French is wired in: a folder with train, dev and test will do."""
    prepared = tmp_path / "prepared"
    prepare(embedded_treebank(tmp_path / "treebank"), prepared)
    assert {path.name for path in prepared.iterdir()} == {
        "train.conllu", "valid.conllu", "test1.conllu", "test2.conllu", "lexicon.tsv", "lemmas.tsv", "pairs.jsonl",
        "manifest.json",
    }  # fmt: skip
    shares = json.loads((prepared / "manifest.json").read_bytes())[
        "share of types with attributes, among those that one part alone has"
    ]
    assert set(shares.values()) == {1.0}  # the corpus stands in for an analyser, for all parts alike


def test_a_folder_without_corpora_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected ud_french_gsd"):
        find_source(tmp_path)
    (tmp_path / "ud_french_gsd").mkdir()
    if not preparation.HUNSPELL.exists():
        with pytest.raises(LexiconError, match="hunspell-fr"):
            find_source(tmp_path)


def test_failed_models_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, broken = embedded_treebank(tmp_path / "treebank"), tmp_path / "configs"
    broken.mkdir()
    for name in ("best", "rnn", "rnn-bias", "llrnn"):
        (broken / f"{name}.toml").write_text("kind = 7\n")
    command = ["experiment", "table4", "--data", str(data), "--out", str(tmp_path / "out"), "--configs", str(broken)]
    assert run([*command, "--only", "rnn.windows", "--seeds", "1"]) == 2
    assert "rnn.windows; see output.log" in capsys.readouterr().err
    log = tmp_path / "out" / "rnn.windows.seed0" / "output.log"
    assert "error: " in log.read_text()
    assert "Traceback" not in log.read_text()
    assert run(["experiment", "table4", "--data", str(data), "--out", str(tmp_path), "--configs", str(tmp_path)]) == 2


def test_vectors_of_the_words_of_all_parts_are_prepared(tmp_path: Path) -> None:
    WordVectors.from_mapping({"La": [1.0, 2.0], "chat": [0.0, 1.0], "zzz": [3.0, 3.0]}).save(tmp_path / "all.vec")
    told: list[str] = []
    treebank, out = embedded_treebank(tmp_path / "treebank"), tmp_path / "prepared"
    prepare(treebank, out, tell=told.append, vectors=tmp_path / "all.vec")
    assert WordVectors.read(out / "vectors.npz").rows_of(["la", "chat", "zzz"]).tolist() == [0, 1, -1]
    assert re.fullmatch(r"2 of [\d,]+ types have a vector in .*all.vec", told[-1])
    (out / "vectors.npz").unlink()
    prepare(treebank, out)
    assert not (out / "vectors.npz").exists()


def test_every_configuration_of_the_table_is_there_and_read(tmp_path: Path) -> None:
    jobs = table4.jobs(ROOT / "configs" / "table4", seeds=3)
    names = {job.name for job in jobs}
    assert {f"llrnn-{size}.{way}" for size in table4.SIZES for way in ("windows", "continuous")} <= names
    assert {"rnn.windows", "rnn.continuous", "rnn-bias", "best"} <= names
    assert sum(job.name == "llrnn-2500.windows" for job in jobs) == 3
    assert len({job.folder(tmp_path) for job in jobs}) == len(jobs)
    assert Job("x", Path("y")).result(tmp_path) is None


def test_the_committed_results_keep_the_promises_of_the_documentation() -> None:
    """What docs/results/french.md claims of French, from the results that it is made of."""
    results = json.loads((ROOT / "docs" / "results" / "table4.json").read_bytes())

    def mean(name: str, test: str) -> float:
        return float(np.mean([one["tests"][test]["log_perplexity"] for one in results[name]]))

    for test in table4.TESTS:
        assert 5.6 <= mean("rnn.continuous", test) <= 6.1
        for size in (10000, 5000, 3000, 2500, 2000, 1000, 500):
            assert mean(f"llrnn-{size}.continuous", test) <= mean("rnn.continuous", test) - 0.5
        assert mean("llrnn-2500.continuous", test) <= 5.27
    assert mean("best", "test1") <= 4.90
    assert mean("best", "test2") <= 4.93
    ours, theirs = (results[name][0]["pairs"]["by_distance"] for name in ("llrnn-2500.continuous", "rnn.continuous"))
    for band in ("1", "2-4", "5+"):
        assert ours[band]["low"] > theirs[band]["high"]


def test_cells_of_tables() -> None:
    assert mean_and_spread([1.0]) == "1.000"
    assert mean_and_spread([1.0, 2.0]) == "1.500 ± 0.707"
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_words_of_the_same_company_share_clusters() -> None:
    """Animals stand where animals stand, and colours where colours do."""
    animals, colours = ["chat", "chien", "lion", "tigre"], ["rouge", "vert", "bleu", "noir"]
    rng = np.random.default_rng(0)
    lines = [f"le {animals[a]} dort sur le tapis {colours[c]} ici" for a, c in rng.integers(0, 4, (600, 2))]
    lexicon = cluster_words([tokenise(line) for line in lines], sizes=(4, 6), min_count=2, dimensions=6)
    again = cluster_words([tokenise(line) for line in lines], sizes=(4, 6), min_count=2, dimensions=6)
    assert all(lexicon(word) == again(word) for word in [*animals, *colours])
    assert len({lexicon(word) for word in animals}) < len(animals)
    assert not {lexicon(word) for word in animals} & {lexicon(word) for word in colours}
    with pytest.raises(LexiconError, match="1000 clusters need"):
        cluster_words([tokenise(line) for line in lines], sizes=(1000,))


def test_tokens_of_plain_text() -> None:
    assert tokenise("L’arbre, c'est-à-dire 3 fois!") == ["l'", "arbre", ",", "c'", "est-à-dire", "3", "fois", "!"]


def test_a_folder_that_lacks_a_model_of_the_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "best.toml").write_text("")
    with pytest.raises(ConfigError, match=r"needs rnn-bias\.toml there, found best"):
        table4.jobs(tmp_path)


def test_a_table_has_figures_of_one_contract() -> None:
    """Results of before contracts have none, and stay."""
    own = asdict(Contract.of(Corpus.from_sentences([["a", "b"]]), Vocabulary(["a", "b", "</s>"])))
    row = {"classes": 1, "features": 1, "train": 1.0, "valid": 1.0}
    tests: list[dict[str, object]] = [
        {"log_perplexity": 1.5},
        {"log_perplexity": 2.5, "contract": own},
        {"log_perplexity": 3.5, "contract": own},
    ]
    results = {f"m{n}": [{**row, "tests": {"t": one}}] for n, one in enumerate(tests)}
    assert perplexity_table(results, ["t"]).count("\n") == 5
    tests[2]["contract"] = {**own, "reading": "running"}
    with pytest.raises(ConfigError, match="counted alike"):
        perplexity_table(results, ["t"])
