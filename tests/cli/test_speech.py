"""What a speech engineer tries first: pipes, ARPA files in the place of models, OOVs, lists."""

from __future__ import annotations

import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from llrnn import LLRNN, LSTM, Corpus, Vocabulary, cli, features, french
from llrnn.inference.nbest import Hypothesis, NBest
from llrnn.inference.rescoring import Hotwords
from llrnn.languages.ngrams import estimate, read_arpa, write_arpa
from llrnn.text.encoded import EncodedText
from test_cli import Capture, as_json, done, refused

LN_10 = math.log(10.0)
SENTENCES = ["le chat dort .", "la reine dort .", "le chat mange la reine .", "le chat dort ."]
LISTS = "#utterance\thypothesis\tam\nu1\tle chat dort .\t-2\nu1\tle zorg dort .\t-1\nu2\tla reine dort .\t-3\n"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, its trigrams with and without <unk>, and a network without a symbol for unknown words."""
    folder = tmp_path_factory.mktemp("speech")
    (folder / "train.txt").write_text("".join(f"{one}\n" for one in SENTENCES), encoding="utf8")
    (folder / "test.txt").write_text("le chat zorg dort .\nla reine mange .\n", encoding="utf8")
    (folder / "lists.tsv").write_text(LISTS, encoding="utf8")
    assert (
        cli.run(["ngram", "estimate", str(folder / "train.txt"), "--order", "3", "--out", str(folder / "u.arpa")]) == 0
    )
    corpus = Corpus.from_file(folder / "train.txt")
    vocabulary = Vocabulary.from_corpus(corpus)
    stream = EncodedText.encode(corpus, vocabulary).stream()
    write_arpa(estimate(stream, vocabulary.symbols, order=3), folder / "closed.arpa")
    LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(4)).save(folder / "net")
    return folder


@pytest.fixture(autouse=True)
def inside(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)


Feed = Callable[[str], None]


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    """Standard input as the descriptor that programs inherit."""
    before = os.dup(0)

    def given(text: str) -> None:
        (tmp_path / "in").write_text(text, encoding="utf8")
        opened = os.open(tmp_path / "in", os.O_RDONLY)
        os.dup2(opened, 0)
        os.close(opened)

    yield given
    os.dup2(before, 0)
    os.close(before)


def log10_of(sentence: str, arpa: str, capsys: Capture) -> list[float]:
    Path("asked.txt").write_text(f"{sentence}\n", encoding="utf8")
    (found,) = as_json(capsys, "score", arpa, "asked.txt")["scores"]
    return list(found["log_p"])


# --- OOVs, ppl and ppl1, as SRILM counts them ------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["evaluate", "score"])
def test_skipped_words_are_in_no_sum(capsys: Capture, verb: str) -> None:
    first = log10_of("le chat", "u.arpa", capsys)[:2]
    behind = as_json(capsys, "score", "u.arpa", "test.txt", "--oov", "skip")["scores"][0]["log_p"]
    assert behind[2] is None  # zorg
    wanted = first + behind[3:] + log10_of("la reine mange .", "u.arpa", capsys)
    found = as_json(capsys, *verb.split(), "u.arpa", "test.txt", "--oov", "skip")
    found = found[0] if isinstance(found, list) else found
    total = found["log_prob"] if verb == "score" else found["log10_prob"]
    assert total == pytest.approx(math.fsum(wanted), abs=1e-5)
    assert found["perplexity"] == pytest.approx(10 ** (-total / 10), rel=1e-6)  # 8 words and 2 ends
    assert found["ppl1"] == pytest.approx(10 ** (-total / 8), rel=1e-6)
    assert found.get("oovs", found.get("unknown")) == 1


def test_oov_of_ngrams_without_unk(capsys: Capture) -> None:
    for verb in (["evaluate"], ["score"]):
        said = refused(capsys, *verb, "closed.arpa", "test.txt")
        assert "'zorg'" in said
        skipped = as_json(capsys, *verb, "closed.arpa", "test.txt", "--oov", "skip")
        skipped = skipped[0] if isinstance(skipped, list) else skipped
        assert skipped["ppl1"] > skipped["perplexity"] > 1
    assert "--oov skip" in refused(capsys, "score", "closed.arpa", "test.txt")
    assert "test.txt:1: the word 'zorg' is not among" in refused(capsys, "score", "closed.arpa", "test.txt")
    # what follows an unknown word has no context, as with SRILM
    rows = as_json(capsys, "score", "closed.arpa", "test.txt", "--oov", "skip")["scores"][0]["log_p"]
    table = read_arpa("closed.arpa")
    assert rows[3] * LN_10 == pytest.approx(table.levels[0].log_prob[table.index["dort"]], abs=1e-6)


@pytest.mark.parametrize("model", ["net", "u.arpa", "closed.arpa"])
def test_every_policy_for_unknown_words(capsys: Capture, model: str) -> None:
    assert "'zorg'" in refused(capsys, "evaluate", model, "test.txt", "--oov", "error")
    assert as_json(capsys, "evaluate", model, "test.txt", "--oov", "skip")[0]["oovs"] == 1
    if model == "u.arpa":
        plain, same = (as_json(capsys, "evaluate", model, "test.txt", *oov)[0] for oov in ([], ["--oov", "unk"]))
        assert plain == same
    else:
        assert "--oov skip" in refused(capsys, "evaluate", model, "test.txt", "--oov", "unk")
    assert "choose one" in refused(capsys, "evaluate", model, "test.txt", "--oov", "drop")


def test_a_network_reads_on_as_if_skipped_words_were_not_there(capsys: Capture) -> None:
    Path("shorter.txt").write_text("le chat dort .\nla reine mange .\n", encoding="utf8")
    (skipped,) = as_json(capsys, "evaluate", "net", "test.txt", "--oov", "skip")
    (shorter,) = as_json(capsys, "evaluate", "net", "shorter.txt")
    assert skipped["log_perplexity"] == shorter["log_perplexity"]
    row = as_json(capsys, "score", "net", "test.txt", "--oov", "skip")["scores"][0]
    assert row["known"] == [True, True, False, True, True, True]
    assert row["log_p"][2] is None


# --- pipes -----------------------------------------------------------------------------------------------------------


def test_standard_input_is_a_text(capsys: Capture, feed: Feed) -> None:
    text = Path("train.txt").read_text(encoding="utf8")
    for verb in (["evaluate", "u.arpa"], ["score", "u.arpa"]):
        wanted = done(capsys, *verb, "train.txt").replace("train.txt", "-")
        feed(text)
        assert done(capsys, *verb, "-").split() == wanted.split()
    assert "read once" in refused(capsys, "evaluate", "u.arpa", "net", "-")


@pytest.mark.parametrize(
    "verb", ["evaluate - train.txt", "score - train.txt", "rescore - lists.tsv", "explain - --prefix le --word chat"]
)
def test_standard_input_is_a_model(capsys: Capture, feed: Feed, verb: str) -> None:
    wanted = done(capsys, *verb.replace(" -", " u.arpa", 1).split()).replace("u.arpa", "-")
    feed(Path("u.arpa").read_text(encoding="utf8"))
    assert done(capsys, *verb.split()).split() == wanted.split()


def test_ngrams_through_pipes(capsysbinary: pytest.CaptureFixture[bytes], feed: Feed) -> None:
    feed(Path("train.txt").read_text(encoding="utf8"))
    assert cli.run(["ngram", "estimate", "-", "--order", "3", "--out", "-"]) == 0
    found = capsysbinary.readouterr()
    assert found.out == Path("u.arpa").read_bytes()
    assert b"n-grams" in found.err
    feed(found.out.decode())
    assert cli.run(["score", "-", "train.txt"]) == 0


def test_lists_through_pipes(capsys: Capture, feed: Feed) -> None:
    done(capsys, "rescore", "u.arpa", "lists.tsv", "--out", "best.tsv")
    feed(LISTS)
    assert cli.run(["rescore", "u.arpa", "-", "--out", "-"]) == 0
    found = capsys.readouterr()
    assert found.out == Path("best.tsv").read_text(encoding="utf8")
    assert "2 utterances" in found.err


def test_weights_are_fitted_on_a_text_from_a_pipe(capsys: Capture, feed: Feed) -> None:
    texts = ("u.arpa", "u.arpa", "--text")
    wanted = as_json(capsys, "ngram", "interpolate", *texts, "train.txt", "--out", "x.arpa")
    feed(Path("train.txt").read_text(encoding="utf8"))
    assert as_json(capsys, "ngram", "interpolate", *texts, "-", "--out", "x.arpa") == wanted


def test_standard_input_is_read_once(capsys: Capture, feed: Feed) -> None:
    feed(Path("u.arpa").read_text(encoding="utf8"))
    assert "standard input is empty; pipe it, and give - once alone" in refused(capsys, "score", "-", "-")


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors by name")
def test_a_pipe_of_the_shell_is_read(capsys: Capture) -> None:
    wanted = as_json(capsys, "score", "u.arpa", "train.txt")
    read, write = os.pipe()
    os.write(write, Path("train.txt").read_bytes())
    os.close(write)
    assert as_json(capsys, "score", "u.arpa", f"/dev/fd/{read}")["scores"] == wanted["scores"]
    os.close(read)


# --- an ARPA file in the place of a model ----------------------------------------------------------------------------


def test_an_arpa_file_is_a_model(capsys: Capture) -> None:
    (found,) = as_json(capsys, "evaluate", "u.arpa", "train.txt")
    wanted = as_json(capsys, "score", "u.arpa", "train.txt", "--unit", "nats")
    assert found["log_perplexity"] == pytest.approx(-wanted["log_prob"] / wanted["words"], abs=1e-6)
    assert found["audit"]["worst_sum_error"] < 1e-5
    (written,) = as_json(capsys, "generate", "u.arpa", "--prefix", "le", "--greedy")
    assert written["words"][0] == "chat"
    told = as_json(capsys, "explain", "u.arpa", "--prefix", "le", "--word", "chat")
    assert told["total"] == pytest.approx(log10_of("le chat", "u.arpa", capsys)[1] * LN_10, abs=1e-6)
    assert as_json(capsys, "complete", "u.arpa", "le c")["best"][0]["word"] == "chat"
    assert as_json(capsys, "score", "u.arpa", "train.txt")["unit"] == "log10"  # as the file


def test_an_arpa_file_is_known_by_its_content(capsys: Capture) -> None:
    Path("model.lm").write_bytes(b"a comment\n\n" + Path("u.arpa").read_bytes())
    wanted, found = (as_json(capsys, "evaluate", model, "train.txt")[0] for model in ("u.arpa", "model.lm"))
    assert found["log_perplexity"] == wanted["log_perplexity"]


# --- lists -----------------------------------------------------------------------------------------------------------


def test_rescoring_by_ngrams_tells_of_unknown_words(capsys: Capture) -> None:
    found = as_json(capsys, "rescore", "u.arpa", "lists.tsv", "--weights", "am=0,llrnn=1")
    assert found["oovs"] == {"zorg": 1}
    assert found["best"]["u1"] == "le chat dort ."
    assert "OOVs: 1 words of 1 types: 'zorg'" in done(capsys, "rescore", "u.arpa", "lists.tsv")
    assert "utterance u1: the word 'zorg'" in refused(capsys, "rescore", "u.arpa", "lists.tsv", "--oov", "error")
    for oov in ([], ["--oov", "unk"]):
        assert "zorg" in refused(capsys, "rescore", "net", "lists.tsv", *oov)
    done(capsys, "rescore", "u.arpa", "lists.tsv", "--out", "scored.tsv", "--oov", "skip")
    rows = [line.split("\t") for line in Path("scored.tsv").read_text(encoding="utf8").splitlines()]
    (score,) = (float(row[3]) for row in rows if "zorg" in row[1])
    assert score == pytest.approx(LN_10 * math.fsum(log10_of("le dort .", "u.arpa", capsys)), abs=1e-4)


def test_what_is_taken_for_something_else_is_said(capsys: Capture) -> None:
    Path("lat.txt").write_text("u1\n0 1 le 1,1,\n1 2 chat 1,1,\n2\n", encoding="utf8")
    assert "--lattices" in refused(capsys, "rescore", "u.arpa", "lat.txt")
    assert "leave out --lattices" in refused(capsys, "rescore", "u.arpa", "lists.tsv", "--lattices")
    Path("numbers.txt").write_text("u1\n0 1 17 1,1,\n1 2 23 1,1,\n2\n", encoding="utf8")
    assert cli.run(["rescore", "u.arpa", "numbers.txt", "--lattices"]) == 0
    assert "int2sym.pl" in capsys.readouterr().err
    assert cli.run(["rescore", "u.arpa", "lists.tsv"]) == 0  # zorg is no number
    assert "int2sym.pl" not in capsys.readouterr().err


# --- the table of the page -------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "speech.md"


def commands_of_the_table() -> list[str]:
    """The right column of the first table of the page: what is within backticks and ours."""
    rows = [line for line in PAGE.read_text(encoding="utf8").splitlines() if line.startswith("| `")]
    return [found[0] for row in rows if (found := re.findall("`(llrnn [^`]*)`", row.rsplit("|", 2)[1]))]


def test_every_command_of_the_table_runs(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    train = (here / "train.txt").read_text(encoding="utf8")
    for name in ("text.txt", "dev.txt"):
        Path(name).write_text(train, encoding="utf8")
    words = sorted({*train.split(), "zorg"})
    Path("words.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf8")
    for name in ("nbest.tsv", "dev.tsv"):
        Path(name).write_text(LISTS, encoding="utf8")
    for name in ("ref.txt", "dev-ref.txt"):
        Path(name).write_text("u1 le chat dort .\nu2 la reine dort .\n", encoding="utf8")
    Path("lattices.txt").write_text("u1\n0 1 le 1,1,\n1 2 chat 1,1,\n2\n", encoding="utf8")
    for name in ("a.arpa", "b.arpa", "MODEL"):
        Path(name).write_bytes((here / "u.arpa").read_bytes())
    commands = commands_of_the_table()
    assert len(commands) == 12
    for command in commands:
        assert cli.run(command.split()[1:]) == 0, f"{command}: {capsys.readouterr().err}"


# --- n-grams of the training text ------------------------------------------------------------------------------------


def test_ngrams_of_the_training_text_are_recognised(capsys: Capture, tmp_path: Path) -> None:
    sentences = Corpus.from_sentences(french.sentences(300))
    for name, part in (("a", sentences[:140]), ("b", sentences[140:280]), ("valid", sentences[280:])):
        lines = "".join(" ".join(one.words) + "\n" for one in part)
        (tmp_path / f"{name}.txt").write_text(lines, encoding="utf8")
    for name, more in (("a", []), ("b", []), ("a-pruned", ["--min-counts", "1,1,2"])):
        text = str(tmp_path / f"{name[0]}.txt")
        assert cli.run(["ngram", "estimate", text, "--order", "3", "--out", str(tmp_path / f"{name}.arpa"), *more]) == 0
    base = f"""
    [corpus]
    train = ["{tmp_path}/a.txt"]
    valid = ["{tmp_path}/valid.txt"]
    [vocabulary]
    unknown = "<unk>"
    [features]
    output = [{{ kind = "identity" }}]
    [background]
    kind = "ngram"
    restrict = true
    """
    (tmp_path / "c.toml").write_text(base, encoding="utf8")
    for name in ("a", "a-pruned"):
        said = refused(
            capsys, "config", "features", f"{tmp_path}/c.toml", "--set", f"background.arpa={tmp_path}/{name}.arpa"
        )
        assert "estimated on the training text" in said
        assert "count parts = ['train']" in said
    assert cli.run(["config", "features", f"{tmp_path}/c.toml", "--set", f"background.arpa={tmp_path}/b.arpa"]) == 0


def test_hotwords_are_one_more_score(capsys: Capture) -> None:
    Path("names.txt").write_text("chat dort\nle chat\nreine\n\nla tour d'or\n", encoding="utf8")
    weights = "am=1,llrnn=0,hotwords=2"
    found = as_json(capsys, "rescore", "u.arpa", "lists.tsv", "--hotwords", "names.txt", "--weights", weights)
    assert found["best"]["u1"] == "le chat dort ."  # four words of names more are worth one of am
    plain = as_json(capsys, "rescore", "u.arpa", "lists.tsv", "--weights", "am=1,llrnn=0")
    assert plain["best"]["u1"] == "le zorg dort ."
    Path("none.txt").write_text("\n\n", encoding="utf8")
    assert "at least one name" in refused(capsys, "rescore", "u.arpa", "lists.tsv", "--hotwords", "none.txt")


def test_every_occurrence_of_a_name_counts_its_words() -> None:
    names = Hotwords(["chat dort", "le chat", "le chat dort", "reine", " la  tour d'or", "or", "", "reine"])
    counts = {
        "": 0,
        "le zorg dort .": 0,
        "le chat mange": 2,
        "le chat dort .": 2 + 2 + 3,  # names overlap: each counts
        "la reine et la reine": 2,
        "la reines": 0,
        "la tour d'or": 3 + 1,  # three words, and `or` after the apostrophe
        "la tour d' or": 1,
        "la tour": 0,
    }
    found = names([NBest("u", tuple(Hypothesis(tuple(one.split())) for one in counts))])
    assert found == [[float(n) for n in counts.values()]]


def test_hotwords_are_flat_in_time() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(20_000)]
    drawn = [[words[i] for i in row] for row in rng.integers(0, 20_000, (1000, 20))]
    lists = [NBest("u", tuple(Hypothesis(tuple(one)) for one in drawn))]
    few, many = (Hotwords(f"w{a} w{b}" for a, b in rng.integers(0, 20_000, (n, 2))) for n in (100, 100_000))
    times: dict[Hotwords, list[float]] = {few: [], many: []}
    for _ in range(7):
        for names, own in times.items():
            begun = time.process_time()
            names(lists)
            own.append(time.process_time() - begun)
    assert statistics.median(times[many]) < 5 * statistics.median(times[few])  # for a thousand times as many names


WIDE = """
kind = "softmax"
[corpus]
train = ["train.txt"]
[controller]
kind = "lstm"
hidden = 8
dropout = 3.0
"""


@pytest.mark.parametrize(
    ("command", "place", "cure"),
    [
        ("rescore u.arpa cycle.txt --lattices", "cycle.txt:1: ", "write it without loops"),
        ("rescore u.arpa lists.tsv --references one.txt", "one.txt: ", "add its line, or take it out of lists.tsv"),
        ("evaluate closed.arpa test.txt", "test.txt:1: ", "leave such words out with --oov skip"),
        ("score closed.arpa test.txt", "test.txt:1: ", "leave such words out with --oov skip"),
        ("rescore closed.arpa lists.tsv", "utterance u1: ", "leave such words out with --oov skip"),
        (
            "ngram interpolate closed.arpa u.arpa --text train.txt --out x.arpa",
            "u.arpa lists 1 that closed.arpa does not",
            "estimate both with one list: llrnn ngram estimate --words FILE",
        ),
        ("train wide.toml --out x", "wide.toml:8: controller.dropout: ", "should be less than 1, found 3.0"),
    ],
)
def test_bad_input_is_one_line_with_its_place_and_the_cure(
    capsys: Capture, command: str, place: str, cure: str
) -> None:
    Path("cycle.txt").write_text("u1\n0 1 le 1,1,\n1 2 chat 1,1,\n2 1 dort 1,1,\n2 3 . 1,1,\n3 0,0,\n\n")
    Path("one.txt").write_text("u1 le chat dort .\n")
    Path("wide.toml").write_text(WIDE)
    said = refused(capsys, *command.split())
    assert "\n" not in said
    assert place in said
    assert cure in said
