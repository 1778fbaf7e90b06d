"""Built corpora: the same text, bytes that depend on it alone; nothing half-finished or altered goes unseen."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from llrnn import LLRNN, LSTM, Corpus, Vocabulary, backgrounds, cli, domains, evaluate, features, french, train
from llrnn.cli import verbs
from llrnn.ground.errors import ConfigError, CorpusError, LLRNNError, UnknownWordError
from llrnn.ground.files import sealed_json
from llrnn.model import checkpoint
from llrnn.model.scoring import Batching, Continuous, Sentences, Sliding, score, tally
from llrnn.text import built as built_corpora
from llrnn.text.built import BuiltCorpus, Listing, build_corpus
from llrnn.text.encoded import EncodedText, TrainingSummary
from llrnn.text.readers import conllu_lines
from strategies import draws

WAYS: list[Batching] = [Sentences(40), Continuous(5, 7), Sliding(3, 11)]


def lines(count: int = 60) -> list[str]:
    return [" ".join(sentence.words) for sentence in french.sentences(count)]


def written(path: Path, text: list[str]) -> Path:
    path.write_text("\n".join(text) + "\n", encoding="utf8")
    return path


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return written(tmp_path / "text.txt", lines())


def assert_same_text(built: EncodedText, plain: EncodedText, n_symbols: int) -> None:
    assert len(built.sentences) == len(plain.sentences)
    assert all(np.array_equal(one, other) for one, other in zip(built.sentences, plain.sentences, strict=True))
    assert np.array_equal(built.lengths, plain.lengths)
    assert np.array_equal(built.stream(), plain.stream())
    assert np.array_equal(built.counts(n_symbols), plain.counts(n_symbols))
    assert np.array_equal(built.fingerprints(), plain.fingerprints())
    assert built.n_targets == plain.n_targets
    for way in WAYS:
        for seed in (None, 3):
            assert_same_batches(way, built, plain, seed)


def assert_same_batches(way: Batching, built: EncodedText, plain: EncodedText, seed: int | None) -> None:
    ours, theirs = way.plan(built, seed=seed, epoch=1), way.plan(plain, seed=seed, epoch=1)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for name in ("inputs", "targets", "mask", "sentences", "inside"):
            found, wanted = getattr(one, name), getattr(other, name)
            assert (found is None) == (wanted is None), name
            assert found is None or torch.equal(found, wanted), name


WORDS = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Z")), min_size=1, max_size=4).filter(
    lambda word: word.split() == [word] and word != "</s>" and not word.startswith("\ufeff")
)
TEXTS = st.lists(st.lists(st.one_of(WORDS, st.sampled_from(["la", "12", "3,5", "é"])), max_size=9), min_size=1)


@settings(max_examples=draws(30))
@given(TEXTS.filter(any), st.booleans())
def test_round_trip_of_odd_texts(tmp_path: Path, text: list[list[str]], small: bool) -> None:
    """Blank lines, Unicode, one word or many: the corpus in memory and the built one are the same text."""
    file = written(tmp_path / "text.txt", [" ".join(line) for line in text])
    shutil.rmtree(tmp_path / "built", ignore_errors=True)
    built = build_corpus([file], tmp_path / "built", lowercase=small)
    plain = Corpus.from_file(file, lowercase=small)
    assert [sentence.words for sentence in built] == [sentence.words for sentence in plain]
    assert (len(built), built.tokens, built.characters) == (len(plain), plain.tokens, plain.characters)
    assert built.counts() == plain.counts()
    assert built.vocabulary == Vocabulary.from_corpus(plain)
    assert built.vocabulary.counts == Vocabulary.from_corpus(plain).counts
    vocabulary = built.vocabulary
    assert_same_text(EncodedText.encode(built, vocabulary), EncodedText.encode(plain, vocabulary), len(vocabulary))
    assert_same_text(
        EncodedText.to_train_on(built, vocabulary), EncodedText.to_train_on(plain, vocabulary), len(vocabulary)
    )
    assert built.check() == 16 * len(plain) + 4 * (plain.tokens + len(plain))


def test_passes_in_small_blocks_see_the_same(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built_corpora, "BLOCK", 13)
    built = build_corpus([text], tmp_path / "built")
    plain = Corpus.from_file(text)
    assert_same_text(
        EncodedText.encode(built, built.vocabulary), EncodedText.encode(plain, built.vocabulary), len(built.vocabulary)
    )


def test_a_very_long_line(tmp_path: Path) -> None:
    file = written(tmp_path / "text.txt", [" ".join(f"w{i % 7}" for i in range(200_000)), "w1"])
    built = build_corpus([file], tmp_path / "built")
    assert len(built[0].words) == 200_000
    assert built[-1].words == ("w1",)


def test_every_format_and_gzip(tmp_path: Path) -> None:
    sentences = list(french.sentences(20))
    plain = [" ".join(sentence.words) for sentence in sentences]
    (tmp_path / "a.conllu").write_text("".join(f"{line}\n" for line in conllu_lines(sentences)), encoding="utf8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress("\n".join(plain).encode()))
    written(tmp_path / "c.jsonl", [json.dumps({"target": line}) for line in plain])
    written(tmp_path / "d.tsv", [f"\t{line}" for line in plain])
    files = [tmp_path / name for name in ("a.conllu", "b.txt.gz", "c.jsonl", "d.tsv")]
    built = build_corpus(files, tmp_path / "built")
    assert [sentence.words for sentence in built] == [sentence.words for sentence in sentences] * 4
    one = build_corpus([tmp_path / "b.txt.gz"], tmp_path / "one", format="text")
    assert one.tokens * 4 == built.tokens


def test_the_same_words_as_a_vocabulary_of_the_corpus(text: Path, tmp_path: Path) -> None:
    plain = Corpus.from_file(text)
    for number, (top, least) in enumerate([(30, 1), (None, 3), (20, 2)]):
        listing = Listing(top=top, min_count=least, unknown="<unk>")
        built = build_corpus([text], tmp_path / str(number), listing=listing)
        wanted = Vocabulary.from_corpus(plain, top=top, min_count=least, unknown="<unk>")
        assert (built.vocabulary.words, built.vocabulary.counts) == (wanted.words, wanted.counts)
        assert_same_text(EncodedText.to_train_on(built, wanted), EncodedText.to_train_on(plain, wanted), len(wanted))


def test_words_that_are_given(text: Path, tmp_path: Path) -> None:
    built = build_corpus([text], tmp_path / "built", listing=Listing(["la", "le", "est"], unknown="<unk>"))
    assert built.manifest.words == ("la", "le", "est", "<unk>", "</s>")
    with pytest.raises(UnknownWordError, match=r"text\.txt:1: the word .* is not among the 3 symbols"):
        build_corpus([text], tmp_path / "other", listing=Listing(["la", "le"]))
    assert not (tmp_path / "other").exists()


def test_another_vocabulary_than_its_own(text: Path, tmp_path: Path) -> None:
    """Numbers are looked up: a corpus serves every model that has a place for its words."""
    plain, built = Corpus.from_file(text), build_corpus([text], tmp_path / "built")
    other = Vocabulary(["zzz", *sorted(plain.counts()), "</s>"])
    assert_same_text(EncodedText.to_train_on(built, other), EncodedText.to_train_on(plain, other), len(other))
    with pytest.raises(UnknownWordError, match="built: the word"):
        EncodedText.encode(built, Vocabulary(["la", "</s>"]))
    few = Vocabulary(["la", "<unk>", "</s>"], unknown="<unk>")
    assert_same_text(EncodedText.encode(built, few), EncodedText.encode(plain, few), len(few))


def test_an_open_vocabulary(text: Path, tmp_path: Path) -> None:
    """What is inside a cell is looked up by the word; words that train as new are shown as their cells once."""
    plain, built = Corpus.from_file(text), build_corpus([text], tmp_path / "built")
    spelling = domains.Spelling(list(plain.counts()), order=2, endings=0)
    wide = Vocabulary.from_corpus(plain, top=40, domains=[spelling], as_new=0.9)
    assert wide.as_new
    assert_same_text(EncodedText.encode(built, wide), EncodedText.encode(plain, wide), len(wide))
    assert_same_text(EncodedText.to_train_on(built, wide), EncodedText.to_train_on(plain, wide), len(wide))
    replaced = build_corpus([text], tmp_path / "replaced", listing=Listing(top=10, unknown="<unk>"))
    with pytest.raises(CorpusError, match="replaced by '<unk>'"):
        EncodedText.encode(replaced, wide)


def small_model(corpus: Corpus) -> LLRNN:
    return LLRNN(
        Vocabulary.from_corpus(corpus),
        output_features=features.Identity() + features.Suffixes(2),
        background=backgrounds.Unigram.from_corpus(corpus, smoothing=1.0),
        controller=LSTM(hidden=6),
    )


@pytest.mark.parametrize("kind", ["sentences", "continuous", "sliding"])
def test_training_is_the_same_bit_for_bit(text: Path, tmp_path: Path, kind: str) -> None:
    plain, built = Corpus.from_file(text), build_corpus([text], tmp_path / "built")
    models = []
    for one in (plain, built):
        model = small_model(one)
        list(train(model, one, valid=one, epochs=1, batches={"kind": kind}))
        models.append(model)
    for (name, weight), other in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        assert torch.equal(weight, other), name
    seen = [model.training_summary for model in models]
    assert seen[0] is not None
    assert seen[1] is not None
    assert np.array_equal(seen[0].counts, seen[1].counts)
    assert np.array_equal(seen[0].sentences, seen[1].sentences)


def test_cross_fitted_knowledge_knows_its_sentences(text: Path, tmp_path: Path) -> None:
    """The keys are of the words as they were read, also where the corpus holds <unk> in their place."""
    plain = Corpus.from_file(text)
    built = build_corpus([text], tmp_path / "built", listing=Listing(top=30, unknown="<unk>"))
    vocabulary = Vocabulary.from_corpus(plain, top=30, unknown="<unk>")
    ours, theirs = EncodedText.to_train_on(built, vocabulary), EncodedText.to_train_on(plain, vocabulary)
    group = np.array([5, 0, 59])
    found, wanted = ours.keys_of(group), theirs.keys_of(group)
    assert found is not None
    assert wanted is not None
    assert np.array_equal(found, wanted)
    for way in WAYS:
        assert_same_batches(way, ours, theirs, 1)


def test_scores_and_evaluation_are_the_same(text: Path, tmp_path: Path) -> None:
    plain, built = Corpus.from_file(text), build_corpus([text], tmp_path / "built")
    model = small_model(plain)
    model.training_summary = TrainingSummary.of(EncodedText.encode(plain, model.vocabulary), len(model.vocabulary))
    one, other = evaluate(model, plain), evaluate(model, built)
    assert one == other
    encoded = EncodedText.encode(plain, model.vocabulary)
    found, wanted = tally(model, encoded), score(model, encoded)
    assert found.log_perplexity == pytest.approx(wanted.log_perplexity, abs=1e-12)
    targets = np.concatenate([encoded.framed(number)[1:] for number in range(len(encoded.sentences))])
    assert np.array_equal(found.words, np.bincount(targets, minlength=len(model.vocabulary)))


def test_a_slice_is_in_memory_and_nothing_is_added(text: Path, tmp_path: Path) -> None:
    plain, built = Corpus.from_file(text), build_corpus([text], tmp_path / "built")
    assert type(built[3:5]) is Corpus
    assert [s.words for s in built[3:5]] == [s.words for s in plain[3:5]]
    with pytest.raises(CorpusError, match="build both as one"):
        built + plain
    with pytest.raises(CorpusError, match="build both as one"):
        plain + built
    with pytest.raises(CorpusError, match="build it again with --lowercase"):
        built.lowercased()


# --- what can go wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"target": "a b", "condition": "x"}', "without conditions are required"),
        ('{"target": ["a", "</s>"]}', "c.jsonl:1: </s> marks ends of sentences"),
        ('{"target": []}', "must have a word"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, content: str, said: str) -> None:
    file = written(tmp_path / "c.jsonl", [content])
    with pytest.raises(LLRNNError, match=said):
        build_corpus([file], tmp_path / "built")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.jsonl"]


def test_wrong_requests_are_refused(text: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="a new folder is required"):
        build_corpus([text], tmp_path)
    with pytest.raises(CorpusError, match="at least one file"):
        build_corpus([], tmp_path / "built")
    with pytest.raises(CorpusError, match="a symbol for them is required"):
        Listing(top=5)
    with pytest.raises(CorpusError, match="either given or chosen"):
        Listing(["a"], top=5, unknown="<unk>")
    with pytest.raises(CorpusError, match="must not be </s>"):
        Listing(unknown="</s>")
    with pytest.raises(CorpusError, match=r"no corpus\.json"):
        BuiltCorpus(tmp_path)
    with pytest.raises(CorpusError, match="none of this name"):
        BuiltCorpus(tmp_path / "nothing")


@pytest.mark.parametrize("column", ["words", "ends", "keys"])
def test_a_file_that_was_altered_cut_or_lost(text: Path, tmp_path: Path, column: str) -> None:
    build_corpus([text], tmp_path / "built")
    file = tmp_path / "built" / f"corpus.{column}"
    whole = file.read_bytes()
    for content, said in [
        (whole[:8] + bytes([whole[8] ^ 1]) + whole[9:], "SHA-256 differs"),
        (whole[:-1], "bytes are required"),
        (None, "missing"),
    ]:
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        built = BuiltCorpus(tmp_path / "built")  # opens: nothing of that file was asked for
        with pytest.raises(CorpusError, match=rf"corpus\.{column}: .*{said}"):
            built.check()
        with pytest.raises(CorpusError, match=rf"corpus\.{column}: .*{said}"):
            list(Sliding(2).plan(EncodedText.to_train_on(built, built.vocabulary)))


def test_a_large_file_that_was_altered_gives_no_nonsense(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files are only looked at in size when they are opened; a number of no word is still refused."""
    monkeypatch.setattr(built_corpora, "_CHEAP", 0)
    build_corpus([text], tmp_path / "built")
    file = tmp_path / "built" / "corpus.words"
    file.write_bytes(b"\xff" + file.read_bytes()[1:3] + b"\xff" + file.read_bytes()[4:])
    built = BuiltCorpus(tmp_path / "built")
    with pytest.raises(CorpusError, match="llrnn data check"):
        EncodedText.encode(built, built.vocabulary).counts(len(built.vocabulary))


def test_a_manifest_that_was_altered(text: Path, tmp_path: Path) -> None:
    build_corpus([text], tmp_path / "built")
    file = tmp_path / "built" / "corpus.json"
    whole = file.read_text(encoding="utf8")
    for content, said in [
        (whole.replace('"la"', '"ta"', 1), "SHA-256 differs"),
        (whole.replace('"format": 2', '"format": 1'), "format 2 .* found 1"),
        (whole[:50], "found another file"),
        ("[]", "found another file"),
        (json.dumps({"format": "a" * 5000}), "found 'a{60,79}…; "),
    ]:
        file.write_text(content, encoding="utf8")
        with pytest.raises(CorpusError, match=rf"corpus\.json: .*{said}"):
            BuiltCorpus(tmp_path / "built")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": 1.5}, "of another type"),
        ({"sha256": {}}, "a SHA-256 for each column"),
        ({"sha256": {"words": 7, "ends": "", "keys": ""}}, "a SHA-256 for each column"),
        ({"sentences": 0}, "there is a sentence"),
        ({"words": ["la"]}, "and one the end"),
        ({"words": None}, "of another type"),
        ({"words": ["</s>", ""]}, "without blanks around them"),
        ({"counts": [1]}, "its count"),
        ({"unknown": "nobody"}, "one of the words"),
        ({"unknown": [[]]}, "one of the words"),
        ({"lowercase": 1}, "true or false"),
        ({"sentences": True}, "whole"),
        ({"tokens": 10**400}, "whole"),
        ({"characters": -1}, "whole"),
        ({"tokens": 1}, "the counts of words must add up"),
    ],
)
def test_a_sealed_manifest_of_wrong_content(change: dict[str, object], said: str, text: Path, tmp_path: Path) -> None:
    """They were TypeErrors when the corpus was opened, or later."""
    build_corpus([text], tmp_path / "built")
    file = tmp_path / "built" / "corpus.json"
    data = json.loads(file.read_bytes())
    del data["seal"]
    file.write_bytes(sealed_json({**data, **change}, "surrogatepass"))
    with pytest.raises(CorpusError, match=rf"corpus\.json: what it says of the corpus cannot be: .*{said}"):
        BuiltCorpus(tmp_path / "built")


KILLED_EVERYWHERE = """
import os, signal, sys
from pathlib import Path
from llrnn.text import built as built_corpora
from llrnn.text.built import build_corpus, is_built

text, out, copies = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
built_corpora.BLOCK = 100

def counted(call):
    def instead(*arguments):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments)
    return instead

kills, status = 0, signal.SIGKILL
while status == signal.SIGKILL:
    child = os.fork()
    if child == 0:
        left = kills
        os.fsync, os.rename = counted(os.fsync), counted(os.rename)
        built_corpora._File.write = counted(built_corpora._File.write)
        build_corpus([text], out)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status == signal.SIGKILL:
        kills += 1
        if is_built(out):  # killed after the last word was written
            out.rename(copies / str(kills))
        assert not out.exists()
        assert {one.name for one in out.parent.glob(".*")} <= {f".{out.name}.building"}
assert status == 0
print(kills)
"""


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_killed_build_leaves_nothing_finished_and_is_built_again(tmp_path: Path) -> None:
    """SIGKILL before every write; what comes out in the end is the same, byte for byte. It forks: away from pytest."""
    file = written(tmp_path / "text.txt", lines(50))
    wanted = build_corpus([file], tmp_path / "wanted")
    out, copies = tmp_path / "built", tmp_path / "copies"
    copies.mkdir()
    command = [sys.executable, "-c", KILLED_EVERYWHERE, str(file), str(out), str(copies)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 12
    for folder in (out, *copies.iterdir()):
        assert content_of(folder) == content_of(wanted.folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["built", "copies", "text.txt", "wanted"]


def test_two_cannot_build_the_same(text: Path, tmp_path: Path) -> None:
    with built_corpora._being_built(tmp_path / "built"), pytest.raises(CorpusError, match="another process"):
        build_corpus([text], tmp_path / "built")


def test_a_full_disk_is_told(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(built_corpora._File, "write", full)
    with pytest.raises(CorpusError, match=r"built: .*No space left on device; choose a place"):
        build_corpus([text], tmp_path / "built")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]


# --- the command line ----------------------------------------------------------------------------------------------

CONFIG = """
[corpus]
train = ["built"]
valid = ["valid.txt"]
lowercase = false
[features]
output = [{kind = "identity"}]
[controller]
hidden = 4
[training]
epochs = 1
"""


@pytest.fixture
def folder(tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "valid.txt", lines(10))
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


def test_build_show_check_train_and_evaluate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["data", "build", "text.txt", "--out", "built", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == 60
    assert cli.run(["data", "show", "built"]) == 0
    assert "sentences:         60\n" in capsys.readouterr().out
    assert cli.run(["data", "check", "built"]) == 0
    assert "all as they were written" in capsys.readouterr().out
    assert cli.run(["train", "config.toml", "--out", "run", "--quiet"]) == 0
    capsys.readouterr()
    assert cli.run(["evaluate", "run", "built", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert cli.run(["evaluate", "run", "text.txt", "--no-lowercase", "--json"]) == 0
    (wanted,) = json.loads(capsys.readouterr().out)
    assert {**found, "text": ""} == {**wanted, "text": ""}
    assert cli.run(["data", "build", "valid.txt", "--out", "small", "--vocabulary", "run"]) == 0
    assert BuiltCorpus("small").manifest.words == BuiltCorpus("built").manifest.words


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("corpus.lowercase=true", "was built without --lowercase"),
        ("corpus.train=['built', 'text.txt']", "stands alone"),
        ("lexicon.parts=['train']", "lexicon.parts needs a text in memory"),
        ("background={kind='ngram'}", "the background of n-grams needs a text in memory"),
        ("contextual=[{kind='expert', name='kn'}]", "an expert of n-grams needs a text in memory"),
        ("corpus={train=['built'], valid_last=3, lowercase=false}", "corpus.valid_last needs a text in memory"),
        ("corpus.train=['runs']", "runs: a folder that `llrnn data build` finished is required"),
    ],
)
def test_configurations_that_cannot_be_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], change: str, said: str
) -> None:
    build_corpus(["text.txt"], "built")
    (folder / "runs").mkdir()
    assert cli.run(["train", "config.toml", "--out", "run", "--set", change]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_symbol_for_unknown_words_is_that_of_the_vocabulary(folder: Path) -> None:
    build_corpus(["text.txt"], "built", listing=Listing(top=20, unknown="<rare>"))
    assert cli.run(["train", "config.toml", "--out", "run", "--quiet"]) == 0  # the validation text has other words
    assert checkpoint.load("run").vocabulary.unknown == "<rare>"
    with pytest.raises(ConfigError, match="leave --words and --min-count out"):
        verbs._listing(Path("run"), 5, 1, None)


# --- memory --------------------------------------------------------------------------------------------------------

LIMITED = """
import itertools, resource, sys
from llrnn import LLRNN, LSTM, Corpus, backgrounds, features, train
from llrnn.model.scoring import Continuous, Sentences
from llrnn.model.scoring import walk
from llrnn.text.built import BuiltCorpus, build_corpus
from llrnn.text.encoded import EncodedText

(data,) = (int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData:"))
resource.setrlimit(resource.RLIMIT_DATA, (data + int(sys.argv[1]),) * 2)
file, out = sys.argv[2:]
if out == "memory":
    Corpus.from_file(file)
else:
    corpus = build_corpus([file], out)
    model = LLRNN(corpus.vocabulary, output_features=features.Suffixes(1), controller=LSTM(hidden=4),
                  background=backgrounds.Unigram.from_corpus(corpus))
    for batches in ({"kind": "sentences", "words": 4096}, {"kind": "continuous", "rows": 64}):
        left = iter(range(3))
        records = list(train(model, corpus, batches=batches, should_stop=lambda: next(left, None) is None))
        assert records[-1].step == 3
    text = EncodedText.encode(corpus, model.vocabulary)
    for batching in (Sentences(4096), Continuous(64)):
        for batch, distribution in itertools.islice(walk(model, text, batching), 20):
            assert model.targets_log_prob(distribution, batch).isfinite().all()
"""


@pytest.mark.slow  # two minutes
def test_building_training_and_scoring_within_a_bound_that_the_text_does_not_fit_into(tmp_path: Path) -> None:
    """20 million words in 300 MB: a whole pass for the audit and the plans of both ways, some batches of each."""
    base, count, file = lines(4000), 0, tmp_path / "text.txt"
    with file.open("w", encoding="utf8") as out:
        for number in range(10**9):
            line = f"{base[number % len(base)]} {number % 9973}"
            out.write(line + "\n")
            count += line.count(" ") + 1
            if count > 20_000_000:
                break
    command = [sys.executable, "-c", LIMITED, str(300_000_000), str(file)]
    loaded = subprocess.run([*command, "memory"], capture_output=True, text=True, check=False)
    assert "MemoryError" in loaded.stderr
    done = subprocess.run([*command, str(tmp_path / "built")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
