"""The command line: every verb works, and every mistake of a user is one line and exit code 2."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

import llrnn
from helpers import HANG
from llrnn import cli
from llrnn.cli.options import ModelOptions
from llrnn.ground import startup as interrupts
from llrnn.model.scoring import Batching, Continuous, Sentences, Sliding

CONFIG = """
[corpus]
embedded = {train = 150, valid = 30, test = 30}
[vocabulary]
parts = ["train", "valid", "test"]
[lexicon]
parts = ["train", "valid", "test"]
[features]
output = [{kind = "identity", top = 50}, {kind = "attributes"}, {kind = "suffixes", longest = 2, min_count = 5}]
[background]
kind = "unigram"
smoothing = 0.1
[[contextual]]
kind = "repeated"
[controller]
kind = "gru"
hidden = 8
[training]
epochs = 1
"""

VERBS = [
    "train",
    "evaluate",
    "score",
    "generate",
    "explain",
    "config features",
    "demo",
    "data french",
]
VERBS += ["data get", "data vectors", "experiment table4", "experiment prepare", "experiment model", "pairs make"]
VERBS += ["pairs templates"]
VERBS += ["bench ngram", "ngram estimate", "ngram convert", "rescore"]
VERBS += ["adapt", "model mix", "model condense", "experiment adaptation", "experiment rescoring"]
VERBS += ["words add", "words remove", "read"]
VERBS += ["compare", "bench", "bench bodies", "bench constraint", "bench objectives", "serve"]
VERBS += ["complete", "export keyboard", "experiment typing", "experiment channel"]
VERBS += ["data build", "data show", "data check", "data tokenise"]
VERBS += [
    "init",
    "model info",
    "model pairs",
    "model written",
    "config reference",
    "config schema",
    "config check",
]
VERBS += ["experiment knowledge-base", "experiment semantic-parsing", "experiment char-nlg"]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)  # `bench` sets them


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the configuration, a finished run, and the test part of the corpus."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "config.toml").write_text(CONFIG)
    assert cli.run(["train", str(folder / "config.toml"), "--out", str(folder / "run"), "--quiet"]) == 0
    assert cli.run(["data", "french", "--skip", "180", "--sentences", "30", "--out", str(folder / "test.conllu")]) == 0
    return folder


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


@pytest.fixture
def run(trained: Path) -> str:
    return str(trained / "run")


Capture = pytest.CaptureFixture[str]


def done(capsys: Capture, *arguments: str) -> str:
    """What a command prints that must succeed."""
    capsys.readouterr()
    assert cli.run(list(arguments)) == 0
    return capsys.readouterr().out


def as_json(capsys: Capture, *arguments: str) -> Any:
    return json.loads(done(capsys, *arguments, "--json"))


def refused(capsys: Capture, *arguments: str) -> str:
    """The one line with which a command refuses a mistake."""
    capsys.readouterr()
    assert cli.run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    said = "".join(line for line in captured.err.splitlines(keepends=True) if not line.startswith("note: "))
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert said.endswith("\n")
    return said.removeprefix("error: ").rstrip("\n")


# --- train ---------------------------------------------------------------------------------------------------------


def test_train_writes_a_model(capsys: Capture, config: str) -> None:
    assert "trained 3 steps, best validation" in done(capsys, "train", config, "--out", "run")
    model = llrnn.load("run")
    assert model.provenance["config"]["training"]["epochs"] == 1
    records = [json.loads(line) for line in Path("run/log.jsonl").read_text().splitlines()]
    assert [record["event"] for record in records] == ["epoch", "end"]
    names = sorted(path.name.split("-")[0] for path in Path("run").iterdir())
    assert names == ["log.jsonl", "model", "model.json", "training", "training.json"]


def test_train_reports_epochs_unless_quiet(capsys: Capture, config: str) -> None:
    cli.run(["train", config, "--out", "a"])
    assert "epoch 1, train" in capsys.readouterr().err
    cli.run(["train", config, "--out", "b", "--quiet"])
    assert capsys.readouterr().err == ""


def weights(folder: str) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in llrnn.load(folder).named_parameters()}


def test_resume_goes_on_as_if_nothing_had_happened(capsys: Capture, config: str) -> None:
    done(capsys, "train", config, "--out", "whole", "--set", "training.epochs=2")
    done(capsys, "train", config, "--out", "parts")
    out = done(capsys, "train", config, "--out", "parts", "--set", "training.epochs=2", "--resume")
    assert "trained 6 steps" in out
    whole, parts = weights("whole"), weights("parts")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_the_seed_of_the_command_line_is_the_seed_of_the_settings(capsys: Capture, config: str) -> None:
    done(capsys, "train", config, "--out", "a", "--seed", "5")
    done(capsys, "train", config, "--out", "b", "--set", "training.seed=5")
    done(capsys, "train", config, "--out", "c", "--set", "training.seed=6")
    a, b, c = weights("a"), weights("b"), weights("c")
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


# --- evaluate ------------------------------------------------------------------------------------------------------


def test_evaluate_in_words_and_in_json(capsys: Capture, trained: Path, run: str) -> None:
    test = str(trained / "test.conllu")
    out = done(capsys, "evaluate", run, test)
    (found,) = as_json(capsys, "evaluate", run, test)
    assert f"log-perplexity {found['log_perplexity']:.4f}" in out
    assert "audit: Σp = 1 within" in out
    assert found["sentences"] == 30
    assert found["audit"]["words_counted"] == found["words"]
    corpus = llrnn.Corpus.from_file(test, lowercase=True)
    assert found["log_perplexity"] == pytest.approx(llrnn.evaluate(llrnn.load(run), corpus).log_perplexity)


@pytest.mark.parametrize(
    ("batches", "batching"),
    [
        ("sentences", Sentences()),
        ("sliding", Sliding()),
        ('{kind="continuous", rows=3, length=5}', Continuous(3, 5)),
        ("training", Sentences()),
    ],
)
def test_evaluate_reads_a_text_as_training_does(
    capsys: Capture, trained: Path, run: str, batches: str, batching: Batching
) -> None:
    test = str(trained / "test.conllu")
    (found,) = as_json(capsys, "evaluate", run, test, "--batches", batches)
    wanted = llrnn.evaluate(llrnn.load(run), llrnn.Corpus.from_file(test, lowercase=True), batching=batching)
    assert found["log_perplexity"] == pytest.approx(wanted.log_perplexity, rel=1e-6)
    assert found["words"] == wanted.words


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        ("slding", "--batches batches.kind: must be one of"),
        ('{kind="sliding", words=3}', "words: no such key"),
        ("{kind", "no table of TOML"),
        ("continuous", "a text with conditions is read by sentences; leave --batches out"),
    ],
)
def test_evaluate_refuses_other_batches(capsys: Capture, trained: Path, run: str, batches: str, said: str) -> None:
    (sentence,) = llrnn.Corpus.from_file(trained / "test.conllu", lowercase=True)[:1]
    Path("asked.tsv").write_text(f"a condition\t{' '.join(sentence.words)}\n", encoding="utf8")
    assert said in refused(capsys, "evaluate", run, "asked.tsv", "--batches", batches)


def test_evaluate_takes_several_models_and_texts(capsys: Capture, trained: Path, run: str) -> None:
    test = str(trained / "test.conllu")
    shutil.copytree(run, "again")
    shutil.copy(test, "again.conllu")
    found = as_json(capsys, "evaluate", run, "again", test, "again.conllu")
    assert len({(one["model"], one["text"]) for one in found}) == 4
    assert len({one["log_perplexity"] for one in found}) == 1


def test_evaluate_warns_of_training_text(capsys: Capture, run: str) -> None:
    done(capsys, "data", "french", "--sentences", "20", "--out", "train.conllu")
    assert cli.run(["evaluate", run, "train.conllu"]) == 0
    assert "warning: 100% of the sentences were in the training text" in capsys.readouterr().err


# --- generate ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--greedy"],
        ["--beam", "3"],
        ["--top-k", "5"],
        ["--top-p", "0.8"],
        ["--temperature", "0.5"],
        ["--temperature", "1e-300"],
        ["--top-k", "1000000"],
        ["--temperature", "2", "--top-k", "9", "--top-p", "0.9"],
    ],
    ids=" ".join,
)
def test_generate_in_every_way_and_always_the_same(capsys: Capture, run: str, options: list[str]) -> None:
    seed = [] if {"--greedy", "--beam"} & {*options} else ["--seed", "4"]
    command = ["generate", run, "--prefix", "la", "--count", "2", "--max-words", "8", *seed, *options]
    first = as_json(capsys, *command)
    assert first == as_json(capsys, *command)
    assert len(first) == 2
    for one in first:
        assert one["prefix"] == ["la"]
        assert len(one["words"]) <= 8
        assert len(one["features"]) == 1 + len(one["words"])
    assert done(capsys, *command).startswith("la ")


def test_another_seed_writes_another_text(capsys: Capture, run: str) -> None:
    assert done(capsys, "generate", run, "--seed", "1") != done(capsys, "generate", run, "--seed", "2")


def test_complete(capsys: Capture, run: str) -> None:
    """For people and for programs: the same words."""
    found = as_json(capsys, "complete", run, "l", "-k", "2")
    assert found["letters"] == "l"
    assert len(found["best"]) == 2
    out = done(capsys, "complete", run, "l", "-k", "2")
    for one in found["best"]:
        assert one.keys() == {"word", "log_p", "p", "cell", "share"}
        assert one["word"].startswith("l")
        assert one["word"] in out
        assert 0 < one["p"] <= one["share"] <= 1


def test_generate_with_features(capsys: Capture, run: str) -> None:
    out = done(capsys, "generate", run, "--prefix", "la", "--features", "--max-words", "3")
    assert "Gender:Fem" in out
    assert "POS:DET" in out


# --- explain -------------------------------------------------------------------------------------------------------


def test_an_explanation_adds_up(capsys: Capture, run: str) -> None:
    found = as_json(capsys, "explain", run, "--prefix", "la", "--word", "la")
    total = found["log_b"] + sum(term["weight"] * term["value"] for term in found["terms"]) - found["log_z"]
    assert total == pytest.approx(found["log_p"], abs=1e-4)
    assert found["total"] == pytest.approx(found["log_p"], abs=1e-4)
    assert "Repeated" in {term["name"] for term in found["terms"]}
    out = done(capsys, "explain", run, "--prefix", "la", "--word", "la")
    assert f"log p = {found['log_p']:.4f}" in out
    assert "normalisation" in out


def test_a_rival_adds_up(capsys: Capture, run: str) -> None:
    found = as_json(capsys, "explain", run, "--prefix", "la", "--word", "le", "--rival", "la")
    difference = found["chosen"]["log_p"] - found["rival"]["log_p"]
    shares = sum(term["weight"] * term["value"] for term in found["terms"])
    assert found["chosen"]["log_b"] - found["rival"]["log_b"] + shares == pytest.approx(difference, abs=1e-4)
    out = done(capsys, "explain", run, "--prefix", "la", "--word", "le", "--rival", "la")
    assert "le rather than la" in out
    assert f"difference {difference:+.4f}" in out


# --- the other verbs -----------------------------------------------------------------------------------------------


def test_features(capsys: Capture, config: str) -> None:
    found = as_json(capsys, "config", "features", config)
    assert found["by_group"]["Identity"] == 51  # and one for all the others
    assert found["classes"] < found["symbols"]
    out = done(capsys, "config", "features", config, "--set", "features.output=[{kind='identity', top=7}]")
    assert "classes:           8\n" in out


def test_data_french_writes_what_it_says(capsys: Capture) -> None:
    assert done(capsys, "data", "french", "--sentences", "7", "--out", "a.conllu").startswith("7 sentences, ")
    done(capsys, "data", "french", "--sentences", "3", "--skip", "4", "--out", "b.conllu")
    whole, part = (llrnn.Corpus.from_file(name) for name in ("a.conllu", "b.conllu"))
    assert [s.words for s in whole][4:] == [s.words for s in part]


def test_minimal_pairs_are_made_and_scored(capsys: Capture, trained: Path, run: str) -> None:
    text = str(trained / "test.conllu")
    assert "pairs: pairs.tsv" in done(capsys, "pairs", "make", text, "--out", "pairs.tsv", "--model", run)
    (found,) = as_json(capsys, "model", "pairs", run, "pairs.tsv")
    assert found["overall"]["count"] == len(Path("pairs.tsv").read_text(encoding="utf8").splitlines()) - 1 > 5
    printed = done(capsys, "model", "pairs", run, "pairs.tsv")
    assert "the grammatical sentence is preferred" in printed
    assert "distance" in printed
    Path("bad.tsv").write_text("one field only\n")
    assert "bad.tsv:1" in refused(capsys, "model", "pairs", run, "bad.tsv")


def test_pairs_are_constructed(capsys: Capture, run: str) -> None:
    made = ("pairs", "templates", "--count", "2")
    told = done(capsys, *made, "--out", "t.jsonl", "--sentences", "t.txt")
    assert "48 pairs of 24 constructions: t.jsonl" in told
    assert "2 sentences, none of any pair: t.txt" in told
    assert len(Path("t.txt").read_text(encoding="utf8").splitlines()) == 2
    Path("words.tsv").write_text("le\nla\nles\nroi\ndort\ndorment\n.\n", encoding="utf8")
    assert "gives no sentence with these words" in refused(capsys, *made, "--vocabulary", "words.tsv", "--out", "u.tsv")
    assert "--out (pairs) or --sentences" in refused(capsys, "pairs", "templates")
    both = (*made, "--model", run, "--vocabulary", "words.tsv", "--out", "u.tsv")
    assert "leave one of them out" in refused(capsys, *both)
    assert "the word '" in refused(capsys, "model", "pairs", run, "t.jsonl")  # none of them can be scored


def test_corpora_that_cannot_be_fetched(capsys: Capture) -> None:
    assert "ud-klingon-TREEBANK@CODE" in refused(capsys, "data", "get", "ud-klingon")
    assert "ud-french-v1" in refused(capsys, "data", "get", "klingon")


def test_words_are_written_small_as_the_model_was_trained(capsys: Capture, run: str) -> None:
    small = as_json(capsys, "explain", run, "--prefix", "il est", "--word", ".")
    assert as_json(capsys, "explain", run, "--prefix", "Il EST", "--word", ".") == small
    assert as_json(capsys, "generate", run, "--prefix", "Il", "--greedy")[0]["prefix"] == ["il"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(capsys: Capture, verb: str) -> None:
    out = done(capsys, *verb.split(), "--help")
    assert f"Example: llrnn {verb}" in out


def test_help_lists_every_verb_and_the_reference_every_key(capsys: Capture) -> None:
    out = done(capsys, "--help")
    assert all(verb.split()[0] in out for verb in VERBS)
    assert "llrnn config reference" in done(capsys, "train", "--help")
    keys = done(capsys, "config", "reference")
    for key in ("train", "epochs", "words", "hidden", "window"):
        assert f"- `{key}` (" in keys


@pytest.mark.parametrize("name", cli.VERBS)
def test_the_list_of_verbs_says_what_each_says_of_itself(name: str) -> None:
    assert " ".join(cli.load_verb(name).help.split()).startswith(cli.VERBS[name][1])


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["--nonsense"], ["trian"], []])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    code = "import sys, llrnn, llrnn.cli\nstatus = llrnn.cli.run(sys.argv[1:])\n"
    code += "heavy = {'torch', 'numpy', 'safetensors', 'llrnn_lab', *(f'llrnn.{room}' for room in llrnn.ROOMS[1:-1])}\n"
    code += "heavy |= {'rich', 'pydantic'} if status == 0 else set()\n"
    code += "print(sorted(heavy & {*sys.modules}))"
    start = [sys.executable, "-c", code]
    found = subprocess.run([*start, *arguments], capture_output=True, encoding="utf8", timeout=HANG, check=True)
    assert found.stdout.endswith("[]\n"), found.stdout + found.stderr
    if arguments == ["--version"]:
        assert found.stdout.startswith(f"llrnn {llrnn.__version__}\n")


def below(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command of click and all verbs below it, each with the words that call it."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from below(inner, *path, name)


def mistakes(path: tuple[str, ...], command: Any) -> Iterator[list[str]]:
    """Command lines of a verb with an unknown option, without what is required, with files that are not there."""
    yield [*path, "--nonsense"]
    required = [one for one in command.params if one.required]
    if required:
        yield [*path]
    files = [one for one in command.params if one.param_type_name == "argument"]
    if files and not cli.VERBS[path[0]][0].startswith("llrnn_lab"):  # studies look for their data when they run
        options = [word for one in required if one not in files for word in (one.opts[0], "missing.arpa")]
        yield [*path, *("missing" for _ in files), *options]


IMPORTS = """
import contextlib, functools, io, json, sys
from llrnn import cli
cli.load_verb = functools.cache(cli.load_verb)  # each is made once, not for every line
found = []
for line in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()):
        found.append([line, cli.run(line), "torch" in sys.modules])
print(json.dumps(found))
"""


def test_only_what_works_with_a_model_imports_torch(trained: Path, run: str) -> None:
    """Help of every verb, mistakes of usage, `config` and `ngram query` do not: torch takes seconds."""
    test, config = str(trained / "test.conllu"), str(trained / "config.toml")
    assert cli.run(["ngram", "estimate", test, "--out", "small.arpa"]) == 0
    assert cli.run(["ngram", "convert", "small.arpa", "small.ngram"]) == 0
    verbs = [found for name in cli.VERBS for found in below(cli.load_verb(name), name)]
    wrong = [line for verb in verbs for line in mistakes(*verb)]
    wrong += [["config", "check", config, "--set", "background.kind=nonsense"]]
    right = [[*path, "--help"] for path, _ in verbs]
    right += [["config", "reference"], ["config", "schema"], ["config", "check", config]]
    right += [["ngram", "query", model, "le chat"] for model in ("small.arpa", "small.ngram")]
    lines = json.dumps([*wrong, *right, ["score", run, test]])
    start = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(start, input=lines, capture_output=True, encoding="utf8", timeout=HANG, check=True)
    *light, last = json.loads(done.stdout)
    assert len(verbs) > 50
    assert [line for line, _, heavy in light if heavy] == []
    assert [line for line, status, _ in light if status != (2 if line in wrong else 0)] == []
    assert last[1:] == [0, True]


@pytest.mark.parametrize("verb", ["bench", "experiment"])
def test_without_the_lab_its_verbs_say_how_to_get_it(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    for arguments in ([verb], [verb, "--help"], [verb, "anything"]):
        assert "is in llrnn_lab" in refused(capsys, *arguments)
    assert verb not in done(capsys, "--help")


# --- mistakes: the command line ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a verb is required"),
        (["bench"], "a verb is required"),
        (["data"], "a verb is required; `llrnn data --help` lists them"),
        (["trian"], "No such command 'trian'; did you mean 'train'? `llrnn --help` lists them"),
        (["data", "frensh"], "No such command 'frensh'; did you mean 'french'? `llrnn data --help` lists them"),
        (["data", "german"], "No such command 'german'; `llrnn data --help` lists them"),
        (["train"], "Missing argument 'config'; `llrnn train --help` has an example"),
        (["train", "config.toml"], "Missing option '--out'; `llrnn train --help` has an example"),
        (["train", "config.toml", "--out"], "--out"),
        (["train", "config.toml", "--out", "x", "--bogus"], "No such option: --bogus"),
        (["train", "config.toml", "more", "--out", "x"], "more"),
        (["train", "missing.toml", "--out", "x"], "missing.toml: no such file"),
        (["train", ".", "--out", "x"], "cannot be read"),
        (["train", "config.toml", "--out", "x", "--seed", "-1"], "training.seed"),
        (["train", "config.toml", "--out", "x", "--seed", "many"], "--seed"),
        (["train", "config.toml", "--out", "x", "--device", "nonsense"], "--device must be cpu, cuda"),
        (["train", "config.toml", "--out", "x", "--device", ""], "--device"),
        (["train", "config.toml", "--out", "x", "--device", "meta"], "--device must be cpu, cuda"),
        (["train", "config.toml", "--out", "x", "--resume"], "x: a model folder is required"),
        (["train", "config.toml", "--out", ".", "--resume"], "holds no complete training"),
        (["train", "config.toml", "--out", "config.toml"], "cannot write"),
        (["train", "config.toml", "--out", "config.toml/below"], "config.toml/below"),
        (["train", "config.toml", "--out", "/proc/nowhere"], "/proc/nowhere"),
        (["train", "config.toml", "--out", "x", "--set", "training.epochs"], "--set needs key=value"),
        (
            ["train", "config.toml", "--out", "x", "--set", "training.epoch=5"],
            "config.toml: training.epoch: no such key",
        ),
        (["train", "config.toml", "--out", "x", "--set", "training.epochs=few"], "config.toml: training.epochs"),
        (["train", "config.toml", "--out", "x", "--set", "kind=softmax"], "leave [features] out"),
        (["train", "config.toml", "--out", "x", "--set", "controller.hidden=1000000"], "not enough memory"),
        (["train", "config.toml", "--out", "x", "--set", "lexicon.tsv=['no.tsv']"], "no.tsv"),
        (["train", "config.toml", "--out", "x", "--set", "background.frequencies=no.tsv"], "no.tsv"),
        (["train", "config.toml", "--out", "x", "--set", "background.smoothing=0.0"], "no mass"),
        (["train", "config.toml", "--out", "x", "--set", "vocabulary.parts=['train']"], "is not among the"),
        (["train", "config.toml", "--out", "x", "--set", "vocabulary.top=5"], "is not among the 6 symbols"),
        (["train", "config.toml", "--out", "x", "--set", "tied=true", "--set", "controller.inputs=3"], "tied weights"),
        (["train", "config.toml", "--out", "x", "--set", "contextual=[{kind='repeated'},{kind='repeated'}]"], "twice"),
        (["config", "features", "missing.toml"], "missing.toml: no such file"),
        (["config", "features", "config.toml", "--set", "a.b=1"], "a: no such key"),
        (["data", "french"], "Missing option '--out'"),
        (
            ["data", "french", "--out", "no/where.conllu"],
            "--out no/where.conllu: a file in a folder that exists",
        ),
        (["data", "french", "--out", "."], "--out .: a file in a folder that exists is required"),
        (["data", "french", "--out", "/proc/nowhere"], "/proc/nowhere: the file cannot be written"),
        (["data", "french", "--out", "x.conllu", "--sentences", "0"], "--sentences"),
        (["data", "french", "--out", "x.conllu", "--seed", "-1"], "--seed"),
        (["demo", "--out", "config.toml"], "cannot be made a folder"),
        (["demo", "--sentences", "5"], "--sentences"),
        (["bench", "objectives", "--device", "tpu"], "--device"),
        (["bench", "layer"], "No such command 'layer'"),
    ],
)
def test_mistakes_of_the_command_line(capsys: Capture, config: str, arguments: list[str], said: str) -> None:
    assert said in refused(capsys, *arguments)
    assert [path.name for path in Path().iterdir()] == ["config.toml"]  # nothing half-written


def test_a_finished_run_is_not_overwritten(capsys: Capture, trained: Path, run: str) -> None:
    before = {path.name: path.read_bytes() for path in Path(run).iterdir()}
    assert "holds a training run already" in refused(capsys, "train", str(trained / "config.toml"), "--out", run)
    assert before == {path.name: path.read_bytes() for path in Path(run).iterdir()}


def test_a_run_is_resumed_with_its_own_settings(capsys: Capture, trained: Path, run: str) -> None:
    command = ["train", str(trained / "config.toml"), "--out", run, "--resume"]
    assert "learning_rate" in refused(capsys, *command, "--set", "training.learning_rate=0.5")
    assert "another vocabulary" in refused(capsys, *command, "--set", "corpus.embedded.train=140")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--prefix", "zzz"], "prefix: the word 'zzz'"),
        (["--prefix", "la \udce9"], "is not among the"),
        (["--count", "0"], "--count"),
        (["--max-words", "0"], "--max-words"),
        (["--beam", "0"], "--beam"),
        (["--top-k", "0"], "top_k must be 1 or more"),
        (["--top-p", "0"], "top_p must be"),
        (["--top-p", "nan"], "top_p must be"),
        (["--temperature", "0"], "temperature must be"),
        (["--temperature", "-1"], "temperature must be"),
        (["--temperature", "inf"], "temperature must be"),
        (["--temperature", "warm"], "--temperature"),
        (["--greedy", "--beam", "2"], "choose one way"),
        (["--greedy", "--top-k", "2"], "choose one way"),
        (["--beam", "2", "--temperature", "0.5"], "choose one way"),
        (["--seed", "-1"], "--seed"),
        (["--seed", "99999999999999999999"], "--seed"),
        (["--device", "gpu"], "--device must be cpu, cuda"),
        (["more"], "more"),
    ],
)
def test_mistakes_of_generate(capsys: Capture, run: str, arguments: list[str], said: str) -> None:
    assert said in refused(capsys, "generate", run, *arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing option '--word'"),
        (["--word", ""], "the word ''"),
        (["--word", "zzz"], "the word 'zzz'"),
        (["--word", "la", "--rival", "zzz"], "the word 'zzz'"),
        (["--word", "la", "--prefix", "zzz"], "prefix: the word 'zzz'"),
        (["--word", "la", "--device", "gpu"], "--device must be cpu, cuda"),
    ],
)
def test_mistakes_of_explain(capsys: Capture, run: str, arguments: list[str], said: str) -> None:
    assert said in refused(capsys, "explain", run, *arguments)


# --- mistakes: texts -----------------------------------------------------------------------------------------------

WORD = "1\tla\tle\tDET\t_\t_\t0\troot\t_\t_\n"
BAD_TEXTS: dict[str, tuple[bytes, str]] = {
    "columns": (b"1\tla\tle\n\n", ":1:"),
    "spaces for tabs": (WORD.replace("\t", "  ").encode(), "TAB"),
    "ids": (WORD.replace("1\t", "3\t", 1).encode(), ":1:1: the ID must be 1"),
    "ids that are no numbers": (WORD.replace("1\t", "one\t", 1).encode(), "the ID must be 1"),
    "a head far away": (WORD.replace("\t0\t", "\t9\t").encode(), "HEAD must be"),
    "bad UTF-8": (WORD.replace("la", "l\xe0").encode("latin1"), "UTF-8 is required"),
    "NUL": (WORD.encode() + b"\0", "NUL"),
    "UTF-16": (WORD.encode("utf-16"), "r.conllu:1:"),
    "empty": (b"", "r.conllu"),
    "blank": (b"\n\n\n", "no sentence"),
    "comments only": (b"# text = la\n\n", "no sentence"),
    "an unlisted word": (WORD.replace("la\t", "zzz\t").encode(), "the word 'zzz'"),
    "random bytes": (bytes(range(256)) * 8, "r.conllu:1:"),
}


def zipped() -> bytes:
    with zipfile.ZipFile("made.zip", "w") as archive:
        archive.writestr("x.conllu", WORD * 50)
    return Path("made.zip").read_bytes()


@pytest.mark.parametrize("name", [*BAD_TEXTS, "a zip"])
def test_bad_texts(capsys: Capture, run: str, config: str, name: str) -> None:
    content, said = BAD_TEXTS[name] if name in BAD_TEXTS else (zipped(), "r.conllu:")
    Path("r.conllu").write_bytes(content)
    assert said in refused(capsys, "evaluate", run, "r.conllu")
    if name != "an unlisted word":
        Path("own.toml").write_text(
            CONFIG.replace("embedded = {train = 150, valid = 30, test = 30}", "train = ['r.conllu']")
        )
        change = ["--set", "vocabulary.parts=['train']"]
        assert said in refused(capsys, "train", "own.toml", "--out", "x", *change)
        assert said in refused(capsys, "config", "features", "own.toml", *change)
        assert not Path("x").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("de x\n", "the count must be"),
        ("", "the file is empty"),
        ("de\t-5\n", "the count must be"),
        ("de\t5\n", "no mass"),
    ],
)
def test_bad_frequencies(capsys: Capture, config: str, content: str, said: str) -> None:
    Path("counts.tsv").write_text(content)
    changes = ["--set", "background.frequencies=counts.tsv", "--set", "background.smoothing=0.0"]
    assert said in refused(capsys, "train", config, "--out", "x", *changes)
    assert not Path("x").exists()


def test_evaluate_needs_models_and_texts(capsys: Capture, trained: Path, run: str) -> None:
    test = str(trained / "test.conllu")
    assert f"{run}: a text to evaluate on is required" in refused(capsys, "evaluate", run)
    required = (
        "a model is required, a folder as `llrnn train --out` writes it, a language model (smollm2) or an ARPA file"
    )
    assert f"{required}, found only texts: {test}" in refused(capsys, "evaluate", test)
    assert refused(capsys, "evaluate", "typo", test).startswith("typo: no such file or folder")
    assert "Missing argument" in refused(capsys, "evaluate")
    assert "missing.conllu" in refused(capsys, "evaluate", run, "missing.conllu")
    assert "format must be" in refused(capsys, "evaluate", run, test, "--format", "pdf")
    assert "--seed" in refused(capsys, "evaluate", run, test, "--seed", "-1")
    assert "is not among" in refused(capsys, "evaluate", run, test, "--no-lowercase")
    assert "File name too long" in refused(capsys, "evaluate", run, "a" * 300)


# --- mistakes: model folders ---------------------------------------------------------------------------------------


def test_folders_that_are_no_models(capsys: Capture, trained: Path, run: str) -> None:
    test = str(trained / "test.conllu")
    Path("empty").mkdir()
    shutil.copytree(run, "damaged")
    (data,) = Path("damaged").glob("model-*.safetensors")
    data.write_bytes(data.read_bytes()[:-1])
    shutil.copytree(run, "edited")
    manifest = Path("edited/model.json")
    manifest.write_text(manifest.read_text().replace('"la"', '"là"', 1))
    for folder, said in (("empty", "holds no complete model"), ("damaged", "truncated"), ("edited", "altered")):
        assert said in refused(capsys, "evaluate", folder, test)
        assert said in refused(capsys, "generate", folder)
        assert said in refused(capsys, "explain", folder, "--word", "la")
    assert "there is none of this name" in refused(capsys, "generate", "typo")
    assert "or an ARPA file, but this is another file" in refused(capsys, "generate", test)
    assert "File name too long" in refused(capsys, "generate", "a" * 300)


def test_a_damaged_run_is_not_resumed(capsys: Capture, trained: Path, run: str) -> None:
    shutil.copytree(run, "damaged")
    Path("damaged/training.json").write_text("{}")
    command = ["train", str(trained / "config.toml"), "--out", "damaged", "--resume"]
    assert "training.json" in refused(capsys, *command)


# --- what the system refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [["somewhere"], []])
def test_a_refusal_of_the_system_is_one_line(
    places: list[str], capsys: Capture, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device", *places)

    monkeypatch.setattr(ModelOptions, "open", full)
    place = places[0] if places else "standard output"  # files are named
    assert refused(capsys, "generate", run) == f"{place}: No space left on device"


def test_ctrl_c_is_no_traceback(capsys: Capture, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ModelOptions, "open", interrupted)
    assert cli.run(["generate", run]) == 130
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_a_defect_of_ours_is_not_hidden(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **named: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(ModelOptions, "open", broken)
    with pytest.raises(RuntimeError, match="a defect"):
        cli.run(["generate", run])


# --- the installed command -----------------------------------------------------------------------------------------

LLRNN = str(Path(sys.executable).parent / "llrnn")


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LLRNN, *arguments], capture_output=True, encoding="utf8", env={**os.environ, **environment}, timeout=HANG
    )


@pytest.mark.parametrize("start", [["-m", "llrnn"], [LLRNN]], ids=["python -m llrnn", "llrnn"])
@pytest.mark.parametrize(("module", "verb"), [("typer", ["--help"]), ("torch", ["generate", "."])])
def test_ctrl_c_while_the_command_is_imported_is_no_traceback(
    tmp_path: Path, start: list[str], module: str, verb: list[str]
) -> None:
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt\n")  # as if it came while this is imported
    source = Path(llrnn.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"}
    found = subprocess.run(
        [sys.executable, *start, *verb], capture_output=True, encoding="utf8", env=environment, timeout=HANG
    )
    assert (found.stdout, found.stderr) == ("", "stopped\n")
    assert found.returncode in (130, -signal.SIGINT)


@pytest.mark.parametrize(
    ("arguments", "is_it"),
    [
        (["python", "/usr/bin/llrnn", "train"], True),
        (["python", "-m", "llrnn", "train"], True),
        (["python", "-X", "dev", "-m", "llrnn"], True),
        (["python", "my_llrnn.py"], False),
        (["python", "-m", "pytest", "llrnn"], False),
        (["python"], False),
    ],
)
def test_a_program_that_uses_the_library_keeps_its_own_hook(arguments: list[str], is_it: bool) -> None:
    assert interrupts.is_command(arguments) is is_it


def test_the_installed_command_works_and_refuses(run: str, capsys: Capture) -> None:
    """On a terminal without Greek too, which still gets the rest."""
    found = command("explain", run, "--word", "la", PYTHONIOENCODING="ascii")
    assert found.returncode == 0
    assert "value \\u03c6" in found.stdout
    with pytest.raises(SystemExit) as left:
        cli.main(["generate", "nowhere"])
    refusal = capsys.readouterr()
    assert (left.value.code, refusal.out) == (2, "")
    required = (
        "a model is required, a folder as `llrnn train --out` writes it, a language model (smollm2) or an ARPA file"
    )
    assert refusal.err == f"error: nowhere: {required}, but there is none of this name; check the path\n"


@pytest.mark.parametrize("both", [False, True], ids=["| head", "2>&1 | head"])
def test_whoever_reads_no_more_has_read_enough(run: str, both: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was still to be said, on standard error too."""

    def closed() -> Any:
        reading, writing = os.pipe()
        os.close(reading)
        return os.fdopen(writing, "w")

    streams = [closed(), closed() if both else io.StringIO()]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    assert cli.run(["explain", run, "--word", "la"]) == 0
    for stream in streams:
        with suppress(BrokenPipeError):
            stream.close()


@pytest.mark.slow
def test_ctrl_c_keeps_the_run_and_says_how_to_go_on(config: str) -> None:
    """A real interrupt; the line that it prints is then run as it stands."""
    changes = ["--set", "training.epochs=10000", "--set", "training.patience=10000", "--set", "name=a name"]
    process = subprocess.Popen(
        [LLRNN, "train", config, "--out", "run", "--seed", "7", *changes], stderr=subprocess.PIPE, encoding="utf8"
    )
    while not Path("run/model.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 130
    assert "Traceback" not in err
    (line,) = [line.strip() for line in err.splitlines() if line.strip().startswith("llrnn train")]
    again = line.replace("training.epochs=10000", "training.epochs=1").replace("llrnn", LLRNN, 1)
    resumed = subprocess.run(again, shell=True, capture_output=True, encoding="utf8", timeout=HANG)
    assert resumed.returncode == 0, resumed.stderr
    assert "trained" in resumed.stdout


# --- a model as it is, help and completion ---------------------------------------------------------------------------


def test_info_says_what_a_model_is(run: str, capsys: Capture) -> None:
    model = llrnn.load(run)
    found = as_json(capsys, "model", "info", run)
    assert found["words"] == len(model.vocabulary.words)
    assert found["classes"] == model.output_features.n_classes
    assert sum(found["features"].values()) == len(model.output_features.names)
    assert found["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert found["training"]["sentences"] > 0
    assert found["files"]["model.json"] == (Path(run) / "model.json").stat().st_size
    said = done(capsys, "model", "info", run)
    assert f"classes:           {found['classes']:,}\n" in said
    assert f"words {found['training']['words']:,}" in said


@pytest.mark.parametrize("verb", [[], ["train"], ["data", "get"], ["config", "check"]])
def test_every_help_has_a_short_option(verb: list[str], capsys: Capture) -> None:
    assert cli.run([*verb, "-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage: llrnn")


def test_verbs_are_completed_without_importing_them() -> None:
    group = typer.main.get_command(cli.app)
    found = [item.value for item in group.shell_complete(typer.Context(group), "in")]
    assert found == ["init"]
