"""What a message advises is done as it says, and cures; what is possible but hardly meant is told, and only that."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from helpers import small_corpus, small_model
from llrnn import GRU, LLRNN, Corpus, Vocabulary, cli, contextual, evaluate, from_module, generate, load, score
from llrnn.config import read_config
from llrnn.config.project import Project
from llrnn.ground.errors import LLRNNError, LLRNNWarning
from llrnn.inference.nbest import Hypothesis, NBest
from llrnn.inference.rescoring import score_lists
from llrnn.knowledge.features import Identity
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import Encoder
from llrnn.text.conditions import Characters, Slots, Whole, Words, parse_act
from llrnn.text.corpus import Sentence, Token
from llrnn.text.raw import warn_if_raw
from llrnn.text.vocabulary import EOS
from llrnn.training.loop import train

Capture = pytest.CaptureFixture[str]

CONFIG = """
[corpus]
train = ["train.txt"]
valid = ["valid.txt"]
[vocabulary]
parts = ["train", "valid"]
[features]
output = [{kind = "identity"}]
[background]
kind = "unigram"
smoothing = 0.5
[controller]
kind = "gru"
hidden = 4
[training]
epochs = 1
"""
PLAIN = CONFIG.replace('kind = "unigram"\nsmoothing = 0.5', "")
ACTS = ["inform(name=ritz;food=thai)\tritz serves thai", "inform(name=ivy;food=french)\tivy serves french"] * 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, configurations and two models, of which one writes from acts."""
    folder = tmp_path_factory.mktemp("advice")
    contents = {
        "base.toml": CONFIG,
        "plain.toml": PLAIN,
        "train.txt": "le chat dort\nla reine dort\nle roi mange\n" * 4,
        "valid.txt": "le roi dort bien\n",
        "test.txt": "la reine mange\n",
        "counts.tsv": "bien\t1\nle\t5\n",
        "few.txt": "le chat\nla reine\n",
        "words.tsv": "zorglub\tWord:chat\t3\n",
        "alone.tsv": "zorglub\t_\t3\n",
        "nbest.tsv": "u1\tle chat\t1.0\nu1\tla reine\t0.5\n",
        "references.txt": "u1 le chat\n",
        "other.txt": "le zèbre dort\n",
        "acts.tsv": "".join(line + "\n" for line in ACTS),
        "acts.toml": CONFIG.replace('train = ["train.txt"]', 'train = ["acts.tsv"]\nconditions = "act"')
        .replace('valid = ["valid.txt"]', "")
        .replace('"train", "valid"', '"train"')
        + '[condition]\nreading = "slots"\nencoder = "none"\nsize = 4\n',
    }
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("base", "acts"):
            assert cli.run(["train", f"{name}.toml", "--out", name, "--quiet"]) == 0
        model = load("base")
        model.save("saved")
        assert cli.run(["ngram", "estimate", "other.txt", "--order", "2", "--out", "other.arpa"]) == 0
        assert cli.run(["data", "build", "test.txt", "--out", "built", "--lowercase", "--vocabulary", "base"]) == 0
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to spoil."""
    copy = Path(shutil.copytree(made, tmp_path / "copy"))
    monkeypatch.chdir(copy)
    return copy


def changed(verb: Sequence[str], *changes: str) -> list[str]:
    return [*verb, *(word for change in changes for word in ("--set", change))]


FEATURES, TRAIN = ["config", "features", "base.toml"], ["train", "base.toml", "--out", "new", "--quiet"]
UNIFORM = ["config", "features", "plain.toml"]
UNSMOOTHED = "background={kind='unigram'}"
DISCOUNTED = "background={kind='discounted'}"
FROM_LIST = "background={kind='unigram', frequencies='counts.tsv'}"

# (the mistake, what the message advises, and what that comes to)
MISTAKES: list[tuple[list[str], str, list[list[str]]]] = [
    (
        changed(UNIFORM, "background.smoothing=0.5"),
        "leave it out, or choose kind = 'unigram'",
        [UNIFORM, changed(UNIFORM, "background.smoothing=0.5", "background.kind=unigram")],
    ),
    (
        changed(UNIFORM, "background.folds=5"),
        "leave it out, or choose kind = 'ngram'",
        [UNIFORM, changed(UNIFORM, "background.folds=5", "background.kind=ngram")],
    ),
    (
        changed(UNIFORM, "background.frequencies=counts.tsv"),
        "choose kind = 'unigram' or 'discounted'",
        [
            changed(UNIFORM, "background.frequencies=counts.tsv", f"background.kind={one}")
            for one in ("unigram", "discounted")
        ],
    ),
    (
        changed(TRAIN, DISCOUNTED, "background.smoothing=0.5"),
        "leave it out, or choose kind = 'unigram'",
        [changed(TRAIN, DISCOUNTED, "background.smoothing=0.5", "background.kind=unigram")],
    ),
    (
        changed(TRAIN, DISCOUNTED),
        "name valid in background.parts, or give background.frequencies, a list that holds the word",
        [
            changed(TRAIN, DISCOUNTED, "background.parts=['train', 'valid']"),
            changed(TRAIN, DISCOUNTED, "background.frequencies=counts.tsv"),
        ],
    ),
    (
        changed(TRAIN, UNSMOOTHED),
        "set background.smoothing above 0, or name valid in background.parts",
        [
            changed(TRAIN, UNSMOOTHED, "background.smoothing=0.1"),
            changed(TRAIN, UNSMOOTHED, "background.parts=['train', 'valid']"),
        ],
    ),
    (
        changed(TRAIN, FROM_LIST),
        "set background.smoothing above 0, or count it in the frequency file",
        [changed(TRAIN, FROM_LIST, "background.smoothing=0.1")],
    ),
    (changed(FEATURES, "training.epoch=2"), "did you mean epochs?", [changed(FEATURES, "training.epochs=2")]),
    (changed(FEATURES, "kind=softmax"), "leave [features] out", [changed(FEATURES, "kind=softmax", "features={}")]),
    (
        changed(FEATURES, "vocabulary.unknown='</s>'"),
        "name another symbol, such as '<unk>'",
        [changed(FEATURES, "vocabulary.unknown='<unk>'")],
    ),
    (
        changed(TRAIN, "vocabulary.parts=['train']"),
        "add it to the vocabulary, map unknown words with `unknown`, or have them spelled, by domains: `llrnn init "
        "TEXT --out CONFIG` writes such a configuration",
        [TRAIN, changed(TRAIN, "vocabulary.parts=['train']", "vocabulary.unknown='<unk>'")],
    ),
    (
        changed(FEATURES, "vocabulary.parts=['train', 'test']"),
        "give corpus.test, or leave it out",
        [FEATURES, changed(FEATURES, "vocabulary.parts=['train', 'test']", "corpus.test=['test.txt']")],
    ),
    (
        changed(TRAIN, "training.halve_after=1", "corpus.valid=[]", "vocabulary.parts=['train']"),
        "leave it out, or give corpus.valid, corpus.valid_last",
        [
            changed(TRAIN, "corpus.valid=[]", "vocabulary.parts=['train']"),
            changed(TRAIN, "training.halve_after=1"),
            changed(TRAIN, "training.halve_after=1", "corpus.valid=[]", "corpus.valid_last=1"),
        ],
    ),
    (
        changed(FEATURES, "contextual=[{kind='expert', folds=1}]"),
        "2 or more, or 0 for none",
        [changed(FEATURES, "contextual=[{kind='expert', folds=2}]")],
    ),
    (
        changed(FEATURES, "background.arpa=other.arpa", "background.files=['other.txt']", "background.kind=ngram"),
        "leave it out",
        [changed(UNIFORM, "background={kind='ngram', arpa='other.arpa', restrict=true}")],
    ),
    (["train", "base.toml", "--out", "base"], "choose another folder", [TRAIN]),
    (["train", "base.toml", "--out", "saved"], "choose another folder", [TRAIN]),
    (
        ["words", "add", "base", "words.tsv", "--out", "base"],
        "choose another folder",
        [["words", "add", "base", "words.tsv", "--out", "new"]],
    ),
    (
        ["words", "add", "base", "words.tsv", "--out", "saved"],
        "choose another folder, or replace it with --force",
        [
            ["words", "add", "base", "words.tsv", "--out", "new"],
            ["words", "add", "base", "words.tsv", "--out", "saved", "--force"],
        ],
    ),
    (
        ["words", "add", "base", "alone.tsv", "--out", "new"],
        "name a word in the table that it shall be like",
        [["words", "add", "base", "words.tsv", "--out", "new"]],
    ),
    (["evaluate", "test.txt", "base"], "", []),  # models and texts are told apart by what they are
    (["evaluate", "bsae", "test.txt"], "give model folders first, then texts", [["evaluate", "base", "test.txt"]]),
    (["evaluate", "test.txt"], "a model is required, a folder", [["evaluate", "base", "test.txt"]]),
    (["evaluate", "base"], "a text to evaluate on is required", [["evaluate", "base", "test.txt"]]),
    (
        ["evaluate", "base", "test.txt", "--device", "gpu"],
        "must be cpu",
        [["evaluate", "base", "test.txt", "--device", "cpu"]],
    ),
    (["evaluate", "base", "test.txt", "--restrict"], "leave it out", [["evaluate", "base", "test.txt"]]),
    (
        ["evaluate", "base", "test.txt", "--background", "other.arpa"],
        "--restrict",
        [["evaluate", "base", "test.txt", "--background", "other.arpa", "--restrict"]],
    ),
    (["evaluate", "base", "built", "--format", "text"], "leave it out", [["evaluate", "base", "built"]]),
    (
        ["evaluate", "base", "other.txt"],
        "leave such words out with --oov skip",
        [["evaluate", "base", "other.txt", "--oov", "skip"]],
    ),
    (["generate", "test.txt"], "or an ARPA file", [["generate", "base"], ["generate", "other.arpa"]]),
    (
        ["generate", "base", "--greedy", "--temperature", "2"],
        "choose one way",
        [["generate", "base", "--temperature", "2"]],
    ),
    (["generate", "base", "--beam", "2", "--seed", "3"], "leave it out", [["generate", "base", "--beam", "2"]]),
    (["generate", "base", "--greedy", "--seed", "3"], "leave it out", [["generate", "base", "--greedy"]]),
    (
        ["generate", "base", "--beam", "2", "--count", "3"],
        "widen --beam",
        [["generate", "base", "--beam", "3", "--count", "3"]],
    ),
    (["generate", "base", "--condition", "x"], "leave it out", [["generate", "base"]]),
    (["generate", "acts"], "give one as `condition`", [["generate", "acts", "--condition", "inform(name=ritz)"]]),
    (
        ["generate", "acts", "--condition", "inform(name='ritz'"],
        "`;` or `)` is required behind a value",
        [["generate", "acts", "--condition", "inform(name='ritz')"]],
    ),
    (["generate", "base", "--over", "symbols"], "give one, or leave it out", [["generate", "base"]]),
    (
        ["generate", "base", "--constraint", "pattern: le chat", "--longest", "2", "--max-words", "1"],
        "leave it out",
        [["generate", "base", "--constraint", "pattern: le chat", "--longest", "2"]],
    ),
    (["explain", "base", "--word", "zut"], "add it to the vocabulary", []),
    (["rescore", "base", "nbest.tsv", "--seed", "1"], "leave it out", [["rescore", "base", "nbest.tsv"]]),
    (
        ["rescore", "base", "nbest.tsv", "--dev", "nbest.tsv"],
        "give both or neither",
        [
            ["rescore", "base", "nbest.tsv"],
            ["rescore", "base", "nbest.tsv", "--dev", "nbest.tsv", "--dev-references", "references.txt"],
        ],
    ),
    (
        ["adapt", "base", "few.txt", "--out", "new"],
        "give more text",
        [["adapt", "base", "train.txt", "--out", "new", "--epochs", "1"]],
    ),
    (
        ["adapt", "base", "train.txt", "--out", "new", "--epochs", "1", "--hidden", "8"],
        "leave it out",
        [["adapt", "base", "train.txt", "--out", "new", "--epochs", "1"]],
    ),
    (
        ["ngram", "estimate", "train.txt", "--out", "new.arpa", "--temporary", "."],
        "give both or none",
        [["ngram", "estimate", "train.txt", "--out", "new.arpa", "--temporary", ".", "--memory", "5M"]],
    ),
    (
        ["data", "french", "--out", "nowhere/x.conllu", "--sentences", "3"],
        "name another, or make the folder",
        [["data", "french", "--out", "x.conllu", "--sentences", "3"]],
    ),
    (
        ["data", "build", "test.txt", "--out", "new", "--vocabulary", "base", "--words", "3"],
        "leave --words and --min-count out",
        [["data", "build", "test.txt", "--out", "new", "--vocabulary", "base", "--lowercase"]],
    ),
    (["serve", "base", "--demo-folder", "x"], "leave it out", []),
    (["serve"], "serve needs a model folder, or --demo", []),
]


@pytest.mark.parametrize(("mistake", "advice", "cures"), MISTAKES, ids=[" ".join(one[0]) for one in MISTAKES])
def test_what_is_advised_cures(
    here: Path, capsys: Capture, mistake: list[str], advice: str, cures: list[list[str]]
) -> None:
    if advice:
        assert cli.run(mistake) == 2
        said = capsys.readouterr().err
        assert advice in said
        assert "Traceback" not in said
    for cure in cures or ([mistake] if not advice else []):
        shutil.rmtree("new", ignore_errors=True)
        assert cli.run(cure) == 0, capsys.readouterr().err


# --- the library: a call, what is wrong to give it, what is right, and what is said of the wrong one ---------------


def model() -> LLRNN:
    return small_model(context=[contextual.Copied("name")])


def rows(*sizes: int) -> Batch:
    symbols = torch.zeros(sizes, dtype=torch.long)
    return Batch(symbols, symbols, torch.ones(sizes, dtype=torch.bool))


def controlled(controller: object) -> LLRNN:
    return LLRNN(small_model().vocabulary, output_features=Identity(), controller=controller)  # type: ignore[arg-type]


def trained(corpus: object, of: object = None, **given: object) -> list[object]:
    return list(train(of or small_model(), corpus, epochs=1, **given))  # type: ignore[arg-type]


TWO = small_corpus()[:2]
ASKED = {"name": "le chat"}
LIBRARY: dict[str, tuple[Callable[[Any], object], object, object, str]] = {
    "count": (lambda n: generate(model(), count=n), -1, 2, "count must be a whole number, 1 or more, found -1"),
    "count of a beam": (lambda n: generate(model(), count=n, beam=2), 0, 2, "count must be a whole number"),
    "max_words": (
        lambda n: generate(model(), max_words=n),
        0,
        1,
        "max_words must be a whole number, 1 or more, found 0",
    ),
    "temperature": (lambda t: generate(model(), temperature=t, max_words=2), 0, 0.5, "found 0; choose greedy"),
    "condition nan": (lambda c: generate(model(), condition=c), {"name": math.nan}, ASKED, "a finite number"),
    "condition object": (
        lambda c: generate(model(), condition=c),
        object(),
        ASKED,
        "is a text, a finite number, a list",
    ),
    "condition unread": (lambda c: generate(small_model(), condition=c), math.nan, None, "does not look at conditions"),
    "model": (generate, nn.Linear(2, 2), small_model(), "LLRNN is required, found Linear"),
    "model to score": (lambda m: score(m, ["le"]), nn.Linear(2, 2), small_model(), "backgrounds.HuggingFace"),
    "model to evaluate": (lambda m: evaluate(m, TWO), nn.Linear(2, 2), small_model(), "LLRNN is required"),
    "model to train": (lambda m: trained(TWO, m), nn.Linear(2, 2), small_model(), "LLRNN is required"),
    "text to train on": (
        trained,
        ["le chat"],
        TWO,
        "Corpus is required, found list, ['le chat']; Corpus.from_sentences",
    ),
    "text to validate": (lambda c: trained(TWO, valid=c), ["le chat"], TWO, "Corpus is required, found list"),
    "text to evaluate": (lambda c: evaluate(small_model(), c), ["le chat"], TWO, "Corpus is required, found list"),
    "corpus of words": (Corpus, [["le", "chat"]], [Sentence((Token("le"),))], "found list, ['le', 'chat']"),
    "corpus of strings": (Corpus.from_sentences, ["le chat"], [["le", "chat"]], "found the str 'le chat'; split it"),
    "batch": (lambda batch: small_model().log_prob(batch), rows(0, 0), rows(1, 1), "found (0, 0); leave empty"),
    "loss": (lambda x: small_model()(x, x), rows(0, 0).inputs, rows(1, 1).inputs, "one target at least must count"),
    "controller": (controlled, nn.LSTM(4, 4), from_module(nn.LSTM(4, 4)), "found LSTM, LSTM(4, 4); from_module(...)"),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_mistake_in_a_call_is_told(name: str) -> None:
    call, wrong, right, said = LIBRARY[name]
    call(right)  # or the refusal would tell nothing
    with pytest.raises(LLRNNError) as told:
        call(wrong)
    assert said in str(told.value)
    assert " found " in str(told.value)
    assert "; " in str(told.value)  # and what to do


def test_a_training_that_nobody_reads_is_told() -> None:
    model = small_model()
    before = model.layer.weight.detach().clone()
    with pytest.warns(LLRNNWarning, match="nobody has read one, so nothing was trained; write `for record in train"):
        train(model, TWO, epochs=1)
    assert torch.equal(before, model.layer.weight)
    next(train(model, TWO, epochs=1))  # begun, and left: nothing is said


# --- what is possible, but hardly meant ----------------------------------------------------------------------------


def said_by(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert cli.run(list(arguments)) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("inform(nmae=ritz)", "of the name 'nmae', and ignores them; did you mean 'name'?"),
        ("infrom(name=ritz)", "of the name 'infrom', and ignores them; did you mean 'inform'?"),
        ("reject(qqq=ritz)", "of the name 'reject', 'qqq', and ignores them; check their spelling"),
        ("inform(name=savoy)", ""),  # another value is what one writes for
    ],
)
def test_acts_and_slots_that_a_model_does_not_know(here: Path, capsys: Capture, condition: str, told: str) -> None:
    for verb in (["generate", "acts"], ["explain", "acts", "--word", "serves"]):
        said = said_by(capsys, *verb, "--condition", condition)
        assert said.count("warning: ") == bool(told)
        assert told in said
    Path("text.tsv").write_text(f"{condition}\tritz serves thai\n", encoding="utf8")
    Path("conditions.txt").write_text(f"{condition}\n", encoding="utf8")
    assert told in said_by(capsys, "evaluate", "acts", "text.tsv")
    assert told in said_by(capsys, "generate", "acts", "--conditions", "conditions.txt")


@pytest.mark.parametrize("reading", [Words(), Slots(ignored=["note"]), Characters(), Whole()], ids=lambda one: one.kind)
def test_names_of_every_reading(reading: Words | Slots | Characters | Whole) -> None:
    seen = [parse_act(line.partition("\t")[0]) for line in ACTS]
    encoder = Encoder.for_conditions(reading, seen, 4, kind="none")
    assert all(encoder.unknown_names(condition) == [] for condition in seen)
    assert encoder.unknown_names(parse_act("infrom(name=ritz;nmae=ivy)")) == ["infrom", "nmae"]
    assert encoder.unknown_names("a text") == []
    assert encoder.unknown_names(parse_act("inform(note=x)")) == ([] if reading.kind == "slots" else ["note"])


@pytest.mark.parametrize(
    ("expert", "told"),
    [
        ("{kind='expert', order=2, folds=0}", "without cross-fitting (folds = 0)"),
        ("{kind='expert', order=2, files=['./train.txt']}", ""),  # cross-fitted
        ("{kind='expert', order=2, folds=10}", ""),
        ("{kind='expert', order=2, folds=0, parts=['valid']}", ""),
        ("{kind='expert', order=2, files=['other.txt'], restrict=true}", ""),
    ],
)
def test_ngrams_of_the_training_text_itself(here: Path, capsys: Capture, expert: str, told: str) -> None:
    for table in (f"contextual=[{expert}]", f"background={expert.replace('expert', 'ngram')}"):
        said = said_by(capsys, "config", "features", "base.toml", "--set", table)
        assert said.count("warning: ") == bool(told)
        assert told in said


def test_a_learning_rate_that_is_too_large(here: Path, capsys: Capture) -> None:
    rate = ["--set", "training.learning_rate=1000.0", "--set", "training.batches={kind='sentences', words=4}"]
    said = said_by(capsys, "train", "base.toml", "--out", "new", "--quiet", *rate)
    assert said.count("warning: the training loss of epoch 1 is ") == 1
    assert "stop, and set training.learning_rate to 0.002 or less" in said
    shutil.rmtree("new")
    cured = ["--set", "training.learning_rate=0.002", *rate[2:]]
    assert said_by(capsys, "train", "base.toml", "--out", "new", "--quiet", *cured) == ""


def test_words_of_hypotheses_that_are_unknown() -> None:
    vocabulary = Vocabulary(["a", "b", "<unk>", EOS], unknown="<unk>")
    model = LLRNN(vocabulary, output_features=Identity(), controller=GRU(3))
    known, strange = (NBest("u", (Hypothesis(words, ()),)) for words in (("a", "b"), ("a", "zut", "ah", "zut")))
    score_lists(model, [known])
    with pytest.warns(LLRNNWarning, match="2 of 3 distinct words of the hypotheses .* count as <unk>: 'zut', 'ah'; "):
        score_lists(model, [strange])


def test_words_that_are_listed_are_no_longer_unknown(here: Path, capsys: Capture) -> None:
    """What the warning advises."""
    unknown = ["--set", "vocabulary.parts=['train']", "--set", "vocabulary.unknown='<unk>'"]
    assert cli.run(["train", "base.toml", "--out", "new", "--quiet", *unknown]) == 0
    Path("strange.tsv").write_text("u1\tle zorglub\t1.0\nu1\tla reine\t0.5\n", encoding="utf8")
    assert "list them with `llrnn words add`" in said_by(capsys, "rescore", "new", "strange.tsv")
    assert cli.run(["words", "add", "new", "words.tsv", "--out", "more"]) == 0
    assert said_by(capsys, "rescore", "more", "strange.tsv") == ""
    Path("few.txt").write_text("le\nla\nreine\n", encoding="utf8")
    assert cli.run(["ngram", "estimate", "train.txt", "--order", "2", "--out", "unk.arpa", "--words", "few.txt"]) == 0
    assert "estimate the n-grams with them, or" in said_by(capsys, "rescore", "unk.arpa", "strange.tsv")


RAW = "The cat sat on the mat, and the dog barked. It was late; nobody came.\n"


def test_raw_text(here: Path, capsys: Capture) -> None:
    Path("raw.txt").write_text(RAW * 10, encoding="utf8")
    changes = ["--set", "corpus.train=['raw.txt']", "--set", "vocabulary.parts=['train', 'valid']"]
    said = said_by(capsys, "config", "features", "base.toml", *changes)
    assert "raw.txt: 27% of the words end in punctuation, such as " in said
    assert said.count("\n") == 1
    assert said.endswith("llrnn data tokenise FILE --out TEXT.txt\n")
    assert cli.run(["data", "tokenise", "raw.txt", "--out", "cut.txt"]) == 0
    Path("cut.txt").rename("raw.txt")
    capsys.readouterr()
    assert said_by(capsys, "config", "features", "base.toml", *changes) == ""


def test_text_with_abbreviations_is_not_raw() -> None:
    warn_if_raw(
        Corpus.from_sentences([["Mr.", "Smith", "met", "Dr.", "Brown", ",", "etc.", "."] * 3] * 2)
    )  # too little
    sentence = (
        "the professor and Mrs. Smith of Acme Corp. went to the sea , where they were happy for many years and more"
    )
    assert sum(one.endswith(".") for one in sentence.split()) == 2
    warn_if_raw(
        Corpus.from_sentences([[*sentence.split(), *(["and", "so", "on", "it", "went", "for", "ever"] * 5)]] * 9)
    )


def test_capital_letters_that_the_vocabulary_has_not(here: Path, capsys: Capture) -> None:
    unknown = ["--set", "vocabulary.unknown='<unk>'", "--set", "corpus.lowercase=false"]
    assert cli.run(["train", "base.toml", "--out", "new", "--quiet", *unknown]) == 0
    Path("large.txt").write_text("Le Roi dort\n", encoding="utf8")
    said = said_by(capsys, "evaluate", "new", "large.txt")
    assert (
        "67% of the words are in the vocabulary only when they are lowercased, such as 'Le'; give --lowercase" in said
    )
    assert "lowercased" not in said_by(capsys, "evaluate", "new", "large.txt", "--lowercase")


def test_a_lexicon_of_the_training_text_alone(here: Path) -> None:
    config = """
    [corpus]
    embedded = {train = 300, valid = 300, test = 5}
    [vocabulary]
    parts = ["train", "valid", "test"]
    [lexicon]
    parts = ["train"]
    [features]
    output = [{kind = "attributes"}]
    """
    path = Path("lexicon.toml")
    path.write_text(config)
    with pytest.warns(LLRNNWarning, match=r"100% of the rare words of the training text, but for 0% of the words that"):
        Project.from_config(read_config(path))
    Project.from_config(read_config(path, ["lexicon.parts=['train', 'valid', 'test']"]))  # as it advises


def test_a_loss_that_is_high_but_sinks_is_not_told(here: Path) -> None:
    """No training of ours says anything: it would be an error here."""
    project = Project.from_config(read_config("base.toml"))
    list(train(project.model(), project.corpora["train"], epochs=2, learning_rate=0.05))
