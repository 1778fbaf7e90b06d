"""`llrnn.score` and `llrnn score`: every number against a walk by hand, the sums against `evaluate`."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import llrnn
from helpers import sentence_log_probs, small_corpus, small_model, tiny_model
from llrnn import LLRNN, LSTM, Corpus, cli, evaluate, score
from llrnn.ground.errors import CheckpointError, ConfigError, CorpusError, LLRNNError, UnknownWordError
from llrnn.inference.scores import UNITS
from llrnn.knowledge.backgrounds import Mask
from llrnn.text.vocabulary import EOS, Vocabulary

ARPA = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-99\t<s>\t-0.5
-0.5\t</s>
-0.7\tla\t-0.25
-0.9\tmaison\t-0.3
-1.2\t<unk>

\\2-grams:
-0.2\t<s> la
-0.4\tla maison
-0.1\tmaison </s>

\\end\\
"""
TEXTS = ["la maison", "maison la", "xyz"]
# by hand: the bigram where it is listed, else the weight of the context and the unigram
BY_HAND = [[-0.2, -0.4, -0.1], [-0.5 - 0.9, -0.3 - 0.7, -0.25 - 0.5], [-0.5 - 1.2, -0.5]]


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "small.arpa"
    path.write_text(ARPA)
    return path


def test_every_word_is_as_walked_by_hand() -> None:
    model = small_model().double()
    sentences = [list(sentence.words) for sentence in small_corpus()[:9]]
    found = score(model, sentences)
    for one, words in zip(found.sentences, sentences, strict=True):
        assert one.words == (*words, EOS)
        assert one.log_p == pytest.approx(sentence_log_probs(model, words), abs=1e-9)
        assert one.log_prob == pytest.approx(math.fsum(one.log_p))
        assert all(one.known)
    assert score(model, [" ".join(words) for words in sentences]) == found  # as strings


def test_the_sum_is_that_of_evaluate() -> None:
    model, corpus = small_model(), small_corpus()
    found, wanted = score(model, corpus), evaluate(model, corpus)
    assert found.words == wanted.words
    assert -found.log_prob == pytest.approx(wanted.log_perplexity * wanted.words, rel=1e-12)
    assert found.perplexity == pytest.approx(wanted.perplexity, rel=1e-12)


def test_an_open_vocabulary_scores_strings() -> None:
    words = ["la", "maison", "jaune", "brille"]
    held = [llrnn.domains.Spelling(words, order=2, endings=3)]
    background = llrnn.backgrounds.Discounted.from_corpus(Corpus.from_sentences([words] * 3))
    phi = llrnn.features.CellAttributes()
    model = LLRNN(Vocabulary([*words, EOS], domains=held), output_features=phi, background=background).double()
    corpus = Corpus.from_sentences([["la", "maison", "nouvelle"], ["zut"]])
    found, wanted = score(model, corpus), evaluate(model, corpus)
    assert -found.log_prob == pytest.approx(wanted.log_perplexity * wanted.words, rel=1e-12)
    inside = model.vocabulary.log_inside("zut")
    alone = sentence_log_probs(model, ["zut"])
    assert inside < 0
    assert found.sentences[1].log_p == pytest.approx([alone[0] + inside, alone[1]], abs=1e-9)
    assert found.unknown == {}


def test_the_texts_keep_their_order_whatever_their_lengths() -> None:
    model = tiny_model()
    texts = ["w0 w1 w2 w0", "", "w1", "w2 w2", "w0", "w1 w1 w1 w1 w1"]
    for text, one in zip(texts, score(model, texts).sentences, strict=True):
        assert one.log_p == pytest.approx(sentence_log_probs(model, text.split()), abs=1e-9)


def test_a_model_in_train_mode_is_evaluated_and_left_in_train_mode() -> None:
    model = small_model(controller=LSTM(8, dropout=0.5))
    found = score(model.train(), small_corpus()[:5])
    assert model.training
    assert found == score(model.eval(), small_corpus()[:5])


def test_what_is_impossible_has_minus_infinity() -> None:
    model = tiny_model(background=Mask(forbidden=["w1"]), repeated=False)
    found = score(model, ["w0 w1 w2", "w0"])
    assert found.sentences[0].log_p[1] == -math.inf
    assert math.isfinite(found.sentences[0].log_p[0])
    assert found.log_prob == -math.inf
    assert found.perplexity == math.inf
    assert math.isfinite(found.sentences[1].log_prob)


# --- n-grams, units, totals ---------------------------------------------------------------------------------------


def test_an_arpa_file_by_hand(arpa: Path) -> None:
    found = score(arpa, TEXTS, unit="log10")
    assert [one.log_p for one in found.sentences] == [pytest.approx(row, abs=1e-6) for row in BY_HAND]
    assert found.unknown == {"xyz": 1}
    assert found.sentences[2].known == (False, True)
    total, words = math.fsum(map(math.fsum, BY_HAND)), 8
    assert found.log_prob == pytest.approx(total, abs=1e-6)
    assert found.perplexity == pytest.approx(10 ** (-total / words), rel=1e-6)
    without = math.fsum(math.fsum(row[:-1]) for row in BY_HAND)
    assert found.log_prob_without_ends == pytest.approx(without, abs=1e-6)
    assert found.perplexity_without_ends == pytest.approx(10 ** (-without / 5), rel=1e-6)
    assert "1 words are unknown: 'xyz'" in str(found)


def test_a_folder_of_the_hub_is_a_model(tmp_path: Path) -> None:
    model, texts = small_model(), [" ".join(sentence.words) for sentence in small_corpus()[:3]]
    model.save_pretrained(tmp_path / "hub")
    assert score(tmp_path / "hub", texts).log_prob == pytest.approx(score(model, texts).log_prob)


@pytest.mark.parametrize("unit", UNITS)
def test_units_are_factors_and_perplexity_has_none(unit: Any) -> None:
    model, texts = tiny_model(), ["w0 w1", "w2"]
    nats, found = score(model, texts), score(model, texts, unit=unit)
    factor = {"nats": 1.0, "bits": 1 / math.log(2), "log10": 1 / math.log(10)}[unit]
    for one, other in zip(nats.sentences, found.sentences, strict=True):
        assert other.log_p == pytest.approx([log * factor for log in one.log_p], rel=1e-12)
        assert other.surprisals == pytest.approx([-log for log in other.log_p])
        assert other.perplexity == pytest.approx(one.perplexity, rel=1e-12)
    assert found.perplexity == pytest.approx(nats.perplexity, rel=1e-12)
    assert found.log_prob == pytest.approx(nats.log_prob * factor, rel=1e-12)


def test_rows_are_numbered_from_one() -> None:
    found = score(tiny_model(), ["w0 w1", "w2"])
    rows = list(found.rows())
    assert [(row["sentence_id"], row["word_id"], row["word"]) for row in rows] == [
        (1, 1, "w0"),
        (1, 2, "w1"),
        (1, 3, EOS),
        (2, 1, "w2"),
        (2, 2, EOS),
    ]
    assert math.fsum(row["surprisal"] for row in rows) == pytest.approx(-found.log_prob)
    header, *lines = found.tsv().splitlines()
    assert header.split("\t") == ["sentence_id", "word_id", "word", "surprisal", "known", "kind"]
    assert [float(line.split("\t")[3]) for line in lines] == [row["surprisal"] for row in rows]  # nothing is lost
    by_sentence = list(found.rows("sentences"))
    assert [row["log_prob"] for row in by_sentence] == [one.log_prob for one in found.sentences]
    assert by_sentence[0]["sentence"] == "w0 w1"


def test_mistakes_are_told_in_one_line(arpa: Path, tmp_path: Path) -> None:
    model = tiny_model()
    mistakes: list[tuple[type[LLRNNError], str, Any]] = [
        (ConfigError, "a list of texts is required", lambda: score(model, "w0 w1")),
        (ConfigError, "unit must be nats, bits, log10", lambda: score(model, ["w0"], unit="dB")),  # type: ignore[arg-type]
        (ConfigError, "one condition for each of 1 texts", lambda: score(model, ["w0"], conditions=[1, 2])),
        (CheckpointError, "there is none of this name", lambda: score(tmp_path / "nothing", ["w0"])),
        (CheckpointError, "holds no complete model", lambda: score(tmp_path, ["w0"])),
        (ConfigError, "n-gram model does not look at conditions", lambda: score(arpa, ["la"], conditions=["x"])),
        (ConfigError, "by words, by sentences", lambda: list(score(model, ["w0"]).rows("letters"))),  # type: ignore[arg-type]
        (UnknownWordError, "'zut' is not among", lambda: score(model, ["zut"])),
        (CorpusError, "marks the end of a sentence", lambda: score(model, [["w0", EOS]])),
        (CorpusError, "at least one text", lambda: score(model, [])),
    ]
    for kind, said, mistake in mistakes:
        with pytest.raises(kind, match=said) as caught:
            mistake()
        assert "\n" not in str(caught.value)
    closed = tmp_path / "closed.arpa"
    closed.write_text(ARPA.replace("-1.2\t<unk>\n", "").replace("ngram 1=5", "ngram 1=4"))
    with pytest.raises(UnknownWordError, match="'xyz' is not among the 3 symbols"):
        score(closed, TEXTS)


# --- the command line ---------------------------------------------------------------------------------------------

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert cli.run(list(arguments)) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model")
    lines = [" ".join(sentence.words) for sentence in small_corpus()[:4]]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_verb_says_what_the_library_says(capsys: Capture, folder: Path) -> None:
    model, text = str(folder / "model"), str(folder / "text.txt")
    wanted = score(model, Corpus.from_file(text), unit="bits")
    out, err = run(capsys, "score", model, text, "--unit", "bits")
    assert out == wanted.tsv()
    assert err.split() == str(wanted).split()
    assert run(capsys, "score", model, text, "--unit", "bits", "--by", "sentences")[0] == wanted.tsv("sentences")
    found = json.loads(run(capsys, "score", model, text, "--unit", "bits", "--json")[0])
    assert found["log_prob"] == wanted.log_prob
    assert (found["sentences"], found["words"], found["unit"]) == (4, wanted.words, "bits")
    assert [one["log_p"] for one in found["scores"]] == [list(one.log_p) for one in wanted.sentences]


def test_the_verb_reads_a_pipe(arpa: Path) -> None:
    given = "\n".join(TEXTS) + "\n"
    command = [sys.executable, "-m", "llrnn", "score", str(arpa), "-", "--unit", "log10"]
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout == score(arpa, TEXTS, unit="log10").tsv()
    blank = subprocess.run(command, input=f"\n{given}", capture_output=True, text=True, env=os.environ, check=True)
    numbers = [int(row.split("\t")[0]) for row in done.stdout.splitlines()[1:]]
    assert [int(row.split("\t")[0]) for row in blank.stdout.splitlines()[1:]] == [number + 1 for number in numbers]
    assert "1 words are unknown: 'xyz'" in " ".join(done.stderr.split())


def test_mistakes_on_the_command_line_exit_with_2(capsys: Capture, folder: Path, arpa: Path) -> None:
    model, text = str(folder / "model"), str(folder / "text.txt")
    for said, *arguments in (
        ("there is none of this name", str(folder / "none"), text),
        ("unit must be nats, bits, log10, found 'ban'", model, text, "--unit", "ban"),
        ("by words, by sentences or by tokens, found 'letters'", model, text, "--by", "letters"),
        ("--by does nothing with --json", model, text, "--json", "--by", "words"),
        ("none of the 0 features of this model is named", str(arpa), text, "--change", "POS:VERB=+1"),
    ):
        out, err = run(capsys, "score", *arguments, code=2)
        assert out == ""
        assert said in err
        assert err.count("\n") == 1
