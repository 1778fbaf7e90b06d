"""Words added without training, at the size of seconds: what they gain, and that the tests are opened last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llrnn import Corpus, Lexicon, evaluate, french, load
from llrnn.ground.errors import ConfigError
from llrnn.model.network import LLRNN
from llrnn.model.words import add
from llrnn.text.lexicon import read_frequencies
from llrnn_lab.studies import added_words as study
from llrnn_lab.studies import open_data
from llrnn_lab.studies.added_words import ATTRIBUTES, BEFORE, BOTH, COUNT, PARTS, HeldOut
from llrnn_lab.studies.jobs import run_job
from test_cli import Capture, done
from test_open_vocabulary import opened_files, write_conllu

HOLDING, ADDED, AROUND, OTHERS = PARTS
STRANGE = "Strange:Yes"  # an attribute that no training word has

_CONFIG = """
name = "tiny"
kind = "llrnn"
tied = true
corpus = { train = ["{data}/train.conllu"], valid = ["{data}/valid.conllu"] }
vocabulary = { parts = ["train"] }
domains = [
    { kind = "numbers", language = "fr" },
    { kind = "spelling", order = 3, endings = 10, seen_at_most = 3 },
]
lexicon = { tsv = ["{data}/lexicon.tsv"] }
features = { output = [
    { kind = "identity", top = 60 },
    { kind = "attributes", listed = true },
    { kind = "orthographic" },
] }
background = { kind = "discounted" }
controller = { kind = "lstm", hidden = 24 }
training = { epochs = 4, learning_rate = 0.02, batches = { kind = "sentences", words = 256 } }
"""


def whole_text() -> Corpus:
    return Corpus.from_sentences(french.sentences(1600, skip=3000)).lowercased()


def held_out_forms(corpus: Corpus) -> set[str]:
    """Every eighth of the words that are neither frequent nor rare."""
    return {word for word, count in sorted(corpus.counts().items())[::8] if 4 <= count <= 40 and word.isalpha()}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The embedded corpus in the places of the French one; no training sentence holds a held-out word."""
    root: Path = tmp_path_factory.mktemp("added")
    tests, prepared = root / "data" / "ud_french_gsd", root / "prepared"
    tests.mkdir(parents=True)
    prepared.mkdir()
    whole = whole_text()
    text, *others = whole.split(1200, 200)
    gone = held_out_forms(whole)
    left = Corpus.from_sentences([sentence for sentence in text if not gone & {*sentence.words}])
    train, valid = left.split(len(left) - 100)
    for path, corpus in (
        (prepared / "train.conllu", train),
        (prepared / "valid.conllu", valid),
        (tests / "fr_gsd-test.conllu", others[0]),
        (tests / "fr_gsd-dev.conllu", others[1]),
    ):
        write_conllu(path, corpus)
    known = Lexicon.from_corpus(whole).entries
    strange = {word: known[word] | {STRANGE} for word in gone}
    Lexicon.from_mapping({word: known[word] for word in train.counts()} | strange).to_tsv(prepared / "lexicon.tsv")
    tokens = whole.tokens
    rows = "".join(f"{word}\t{count / tokens:.6g}\n" for word, count in sorted(whole.counts().items()))
    (prepared / "frequencies.tsv").write_text(rows, encoding="utf8")
    (root / "tiny.toml").write_text(_CONFIG, encoding="utf8")
    return {"data": tests.parent, "prepared": prepared, "out": root / "out", "config": root / "tiny.toml"}


@pytest.fixture(scope="module")
def found(folders: dict[str, Path]) -> dict[str, Any]:
    return study.run(**folders)  # type: ignore[arg-type]


def part(found: dict[str, Any], way: str, name: str) -> dict[str, Any]:
    figures: dict[str, Any] = found["ways"][way]["parts"][name]
    return figures


def test_words_with_attributes_and_counts_gain(found: dict[str, Any]) -> None:
    assert found["words"]["added"] >= 20
    assert part(found, BOTH, HOLDING)["change"] < -2 * part(found, BOTH, HOLDING)["error"]
    assert part(found, BOTH, ADDED)["change"] < -1.0
    assert part(found, BOTH, ADDED)["log_perplexity"] < part(found, COUNT, ADDED)["log_perplexity"]
    assert part(found, BOTH, ADDED)["log_perplexity"] < part(found, ATTRIBUTES, ADDED)["log_perplexity"]
    assert 0 < part(found, BOTH, OTHERS)["change"] < 0.1  # what the added words gain, others lose


def test_parts_make_up_the_text(found: dict[str, Any], folders: dict[str, Path]) -> None:
    tests = open_data.test_corpora(folders["data"], "fr").values()
    sizes = {name: part(found, BEFORE, name) for name in PARTS}
    assert sizes[HOLDING]["words"] + sizes[OTHERS]["words"] == sum(corpus.tokens + len(corpus) for corpus in tests)
    assert sizes[ADDED]["words"] + sizes[AROUND]["words"] == sizes[HOLDING]["words"]
    assert sizes[HOLDING]["sentences"] + sizes[OTHERS]["sentences"] == sum(map(len, tests))
    assert all(figures["change"] == 0 for figures in sizes.values())


def model_and_words(folders: dict[str, Path]) -> tuple[LLRNN, Corpus, HeldOut]:
    model = load(folders["out"] / "llrnn.seed0")
    first, second = open_data.test_corpora(folders["data"], "fr").values()
    lexicon = Lexicon.from_tsv(folders["prepared"] / "lexicon.tsv")
    frequencies = read_frequencies(folders["prepared"] / "frequencies.tsv")
    words = Corpus.from_file(folders["prepared"] / "train.conllu").tokens
    text = first + second
    return model, text, study.hold_out(model, text.counts(), lexicon, frequencies, words=words)


@pytest.mark.usefixtures("found")
def test_figures_are_those_of_the_evaluation(found: dict[str, Any], folders: dict[str, Path]) -> None:
    model, text, held_out = model_and_words(folders)
    forms = {entry.form for entry in held_out.entries}
    holding = Corpus.from_sentences([sentence for sentence in text if forms & {*sentence.words}])
    old, new = (evaluate(one, holding) for one in (model, add(model, held_out.entries)))
    assert part(found, BEFORE, HOLDING)["log_perplexity"] == pytest.approx(old.log_perplexity, abs=1e-5)
    assert part(found, BOTH, HOLDING)["log_perplexity"] == pytest.approx(new.log_perplexity, abs=1e-5)
    difference = new.log_perplexity - old.log_perplexity
    assert part(found, BOTH, HOLDING)["change"] == pytest.approx(difference, abs=1e-5)
    assert old.audit.worst_sum_error < 1e-4
    assert new.audit.worst_sum_error < 1e-4


@pytest.mark.usefixtures("found")
def test_attributes_of_other_words_gain_less(folders: dict[str, Path]) -> None:
    """It is what the attributes say that helps: those of a punctuation mark do harm."""
    model, text, held_out = model_and_words(folders)
    wrong = replace(held_out, entries=tuple(replace(e, attributes=frozenset({"POS:PUNCT"})) for e in held_out.entries))
    right, misled = (study.measure(model, text, one)[BOTH]["parts"][ADDED] for one in (held_out, wrong))
    assert misled["log_perplexity"] > right["log_perplexity"] + 1.0


@pytest.mark.usefixtures("found")
def test_held_out_words_are_new_and_known(folders: dict[str, Path]) -> None:
    model, text, held_out = model_and_words(folders)
    counts = text.counts()
    assert all(entry.form in counts and entry.form not in model.vocabulary for entry in held_out.entries)
    assert all(entry.attributes <= {*model.output_features.names} for entry in held_out.entries)
    assert {entry.form for entry in held_out.entries} == held_out_forms(whole_text()) & {*counts}
    assert held_out.dropped == {STRANGE: len(held_out.entries)}
    assert all(entry.count == max(1, round(held_out.expected[entry.form])) for entry in held_out.entries)


@pytest.mark.usefixtures("found")
def test_the_seed_chooses_the_words(folders: dict[str, Path]) -> None:
    model, text, held_out = model_and_words(folders)
    lexicon = Lexicon.from_tsv(folders["prepared"] / "lexicon.tsv")
    frequencies = dict.fromkeys(text.counts(), 1e-9)

    def chosen(seed: int) -> set[str]:
        some = study.hold_out(model, text.counts(), lexicon, frequencies, words=1000, most=5, seed=seed)
        assert some.candidates == len(held_out.entries)
        assert all(entry.count == 1 for entry in some.entries)
        return {entry.form for entry in some.entries}

    assert len(chosen(0)) == 5
    assert chosen(0) == chosen(0)
    assert chosen(0) != chosen(1)
    with pytest.raises(ConfigError, match="no word of the tests is left to add"):
        study.hold_out(model, model.vocabulary.words, lexicon, frequencies, words=1000)


def test_tests_are_opened_after_training(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of Python sees every file that is opened, by whatever function."""
    short = tmp_path / "short.toml"
    short.write_text(_CONFIG.replace("epochs = 4", "epochs = 1"), encoding="utf8")
    when_trained: list[int] = []

    def noted(*arguments: Any, **named: Any) -> dict[str, Any]:
        result = run_job(*arguments, **named)
        when_trained.append(len(opened))
        return result

    monkeypatch.setattr(study, "run_job", noted)
    with opened_files() as opened:
        study.run(**{**folders, "out": tmp_path / "out", "config": short})  # type: ignore[arg-type]
    (trained,) = when_trained
    of_tests = [place for place, path in enumerate(opened) if path.startswith(str(folders["data"]))]
    assert len(of_tests) == 2
    assert min(of_tests) >= trained > 0


def test_a_trained_model_is_used_again_unless_it_is_another(
    found: dict[str, Any], folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Iterator[None]:
        raise AssertionError("the model is trained already")

    monkeypatch.setattr(study, "run_job", never)
    again = study.run(**folders)  # type: ignore[arg-type]
    assert again["ways"][BOTH]["parts"] == found["ways"][BOTH]["parts"]
    other = tmp_path / "other.toml"
    other.write_text(_CONFIG.replace("hidden = 24", "hidden = 8"), encoding="utf8")
    with pytest.raises(ConfigError, match="found one of another configuration; remove that folder"):
        study.run(**{**folders, "config": other})  # type: ignore[arg-type]


@pytest.mark.usefixtures("found")
def test_the_verb_prints_the_table(folders: dict[str, Path], capsys: Capture) -> None:
    options = [word for name, path in folders.items() for word in (f"--{name}", str(path))]
    shown = done(capsys, "experiment", "added-words", *options)
    assert "| attributes and count |" in shown
    assert "1 kinds were dropped" in shown
    kept = json.loads((folders["out"] / "added-words.json").read_text(encoding="utf8"))
    assert study.report(kept) in shown
    assert kept["command"].endswith(f"--seed 0 --prepared {folders['prepared']}")
