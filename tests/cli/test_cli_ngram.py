"""`llrnn ngram ...` from end to end, and what it is made of: streams, folders of arrays, dense rows.

`brute_ngrams` is the other party: dictionaries and recursions, which share no code with the library.
"""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brute_ngrams import BOUNDARY, contexts, listed, log_p, table_of, written_out
from llrnn import Corpus, Vocabulary, cli, french
from llrnn.ground.bundle import read_bundle, write_bundle
from llrnn.ground.errors import CheckpointError, CorpusError
from llrnn.knowledge.backgrounds import NGram
from llrnn.knowledge.backgrounds.ngram import over_own_words
from llrnn.languages.ngrams import UNKNOWN, NGramTable, estimate, read_stream, read_table, write_table
from llrnn.languages.ngrams import kneser_ney as streams
from llrnn.languages.ngrams import trie as rows
from llrnn.languages.ngrams.table import EMPTY
from llrnn.languages.ngrams.trie import DenseRows, Trie
from strategies import draws
from test_cli import Capture, as_json, done, refused

LN_10 = math.log(10.0)
ORDER = 3
FORMS = ("model.arpa", "model.arpa.gz", "model.ngram")
QUERY = "le président parle de la maison ."

Gram = tuple[str, ...]


def text_of(count: int, skip: int = 0) -> str:
    return "".join(" ".join(sentence.words) + "\n" for sentence in french.sentences(count, skip=skip))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, another, and the model of the first in its three forms."""
    folder = tmp_path_factory.mktemp("ngrams")
    (folder / "text.txt").write_text(text_of(400), encoding="utf8")
    (folder / "other.txt").write_text(text_of(40, skip=7000), encoding="utf8")
    arguments = ["ngram", "estimate", str(folder / "text.txt"), "--order", str(ORDER), "--lowercase"]
    for form in FORMS:
        assert cli.run([*arguments, "--out", str(folder / form)]) == 0
    return folder


@pytest.fixture(scope="module")
def brute(made: Path) -> dict[Gram, tuple[float, float]]:
    """The n-grams as the ARPA file lists them, read line by line; one word for both boundaries."""
    found: dict[Gram, tuple[float, float]] = {}
    n, weight_of_bos = 0, 0.0
    for line in (made / "model.arpa").read_text(encoding="utf8").splitlines():
        if line.endswith("-grams:"):
            n = int(line[1:-7])
        elif n and line and not line.startswith("\\"):
            p, words, *weight = line.split("\t")
            gram = tuple(words.split(" "))
            if gram == ("<s>",):
                weight_of_bos = float(weight[0])
                continue
            found[tuple(BOUNDARY if word == "<s>" else word for word in gram)] = (
                float(p) * LN_10,
                float(weight[0]) * LN_10 if weight else 0.0,
            )
    found[BOUNDARY,] = (found[BOUNDARY,][0], weight_of_bos * LN_10)
    return found


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def words_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf8").lower().split()


def scored(capsys: Capture, model: Path | str, sentence: str) -> list[dict[str, Any]]:
    """Each word of a sentence, as `llrnn score` has it: log10 p, and whether the model lists it."""
    Path("asked.txt").write_text(f"{sentence}\n", encoding="utf8")
    (found,) = as_json(capsys, "score", str(model), "asked.txt")["scores"]
    rows = zip(found["words"], found["log_p"], found["known"], strict=True)
    return [{"word": word, "log10": log_p, "known": known} for word, log_p, known in rows]


# --- the verbs ------------------------------------------------------------------------------------------------------


def test_estimate_says_what_it_made(capsys: Capture, made: Path) -> None:
    found = as_json(capsys, "ngram", "estimate", str(made / "text.txt"), "--order", "3", "--lowercase", "--out", "m")
    text = words_of(made / "text.txt")
    assert found["words"] == len(text) + 400  # and the ends of sentences
    assert found["types"] == len(set(text)) + 2
    assert found["ngrams"] == [len(level) for level in read_table("m").levels]
    assert min(found[key] for key in found if key.startswith("seconds")) > 0
    out = done(capsys, "ngram", "estimate", str(made / "text.txt"), "--order", "3", "--lowercase", "--out", "m")
    assert f"m: {found['words']:,} words, {found['types']:,} types" in out


def test_the_words_of_two_texts_are_counted_together(capsys: Capture, made: Path) -> None:
    joined = (made / "text.txt").read_bytes() + (made / "other.txt").read_bytes()
    Path("joined.txt.gz").write_bytes(gzip.compress(joined))
    two = [str(made / "text.txt"), str(made / "other.txt")]
    done(capsys, "ngram", "estimate", *two, "--order", "3", "--out", "two.arpa")
    done(capsys, "ngram", "estimate", "joined.txt.gz", "--order", "3", "--out", "one.arpa")
    assert Path("one.arpa").read_bytes() == Path("two.arpa").read_bytes()


def test_a_treebank_is_a_text_too(capsys: Capture) -> None:
    """By its name; a space within a word becomes a low line."""
    done(capsys, "data", "french", "--sentences", "50", "--out", "a.conllu")
    corpus = Corpus.from_file("a.conllu")
    text = "".join(" ".join("_".join(word.split()) for word in sentence.words) + "\n" for sentence in corpus)
    Path("a.txt").write_text(text, encoding="utf8")
    for name in ("a.conllu", "a.txt"):
        done(capsys, "ngram", "estimate", name, "--order", "3", "--out", f"{name}.arpa")
    assert Path("a.conllu.arpa").read_bytes() == Path("a.txt.arpa").read_bytes()
    Path("word.conllu").write_text("1\t1 000\t_\tNUM\t_\t_\t0\troot\t_\t_\n\n", encoding="utf8")
    assert read_stream(["word.conllu"])[1] == [BOUNDARY, UNKNOWN, "1_000"]


def test_all_forms_give_the_same_answers(capsys: Capture, made: Path) -> None:
    other = ("--lowercase", "--unit", "log10")
    answers = [as_json(capsys, "score", str(made / form), str(made / "other.txt"), *other) for form in FORMS]
    text, same, folder = ([log_p for one in found["scores"] for log_p in one["log_p"]] for found in answers)
    assert text == same  # to the last bit: gzip is the same text
    assert folder == pytest.approx(text, abs=1e-5, rel=1e-6)  # nine digits


@pytest.mark.parametrize("source", FORMS)
def test_what_is_converted_is_the_same_model(capsys: Capture, made: Path, source: str) -> None:
    for target in ("a.arpa", "a.arpa.gz", "a.ngram"):
        out = done(capsys, "ngram", "convert", str(made / source), target)
        assert out.startswith(f"{target}: NGramTable(")
        assert grams_close(read_table(made / source), read_table(target), 0.0 if target == "a.ngram" else 1e-6)
    assert Path("a.arpa").read_bytes() == gzip.decompress(Path("a.arpa.gz").read_bytes())
    assert Path("a.arpa").read_bytes() == (made / "model.arpa").read_bytes()


def grams_close(one: NGramTable, other: NGramTable, tolerance: float) -> bool:
    ours, theirs = listed(one), listed(other)
    assert ours.keys() == theirs.keys()
    return bool(np.allclose(list(ours.values()), [theirs[gram] for gram in ours], rtol=0, atol=tolerance))


def log10_by_hand(brute: dict[Gram, tuple[float, float]], words: Sequence[str]) -> list[float]:
    """log10 p of each word and of the end, by back-off."""
    known = [word if (word,) in brute else UNKNOWN for word in words]
    fed = [BOUNDARY, *known]
    return [
        log_p(brute, tuple(fed[max(0, at - ORDER + 1) : at]), word) / LN_10
        for at, word in enumerate([*known, BOUNDARY], 1)
    ]


@pytest.mark.parametrize("sentence", [QUERY, "la grande maison zzz est noire .", "", "zzz"])
def test_a_query_is_the_back_off_of_the_file(
    capsys: Capture, made: Path, brute: dict[Gram, tuple[float, float]], sentence: str
) -> None:
    found = as_json(capsys, "ngram", "query", str(made / "model.arpa"), sentence)
    wanted = log10_by_hand(brute, sentence.split())
    assert [row["word"] for row in found] == [*sentence.split(), BOUNDARY]
    assert [row["log10"] for row in found] == pytest.approx(wanted, abs=1e-9)
    fed = [BOUNDARY, *(row["word"] for row in found)]
    for at, row in enumerate(found):
        gram = tuple(word if (word,) in brute else UNKNOWN for word in fed[at + 2 - row["length"] : at + 2])
        assert gram in brute
    out = done(capsys, "ngram", "query", str(made / "model.arpa"), sentence)
    assert f"sum {sum(wanted):.4f}" in " ".join(out.split())


@pytest.mark.parametrize("sentence", [QUERY, "la grande maison zzz est noire .", "zzz"])
def test_a_score_is_the_back_off_of_the_file(
    capsys: Capture, made: Path, brute: dict[Gram, tuple[float, float]], sentence: str
) -> None:
    found = scored(capsys, made / "model.arpa", sentence)
    wanted = log10_by_hand(brute, sentence.split())
    assert [row["word"] for row in found] == [*sentence.split(), BOUNDARY]
    assert [row["log10"] for row in found] == pytest.approx(wanted, abs=1e-9)
    assert [row["known"] for row in found] == [word != "zzz" for word in [*sentence.split(), BOUNDARY]]
    ngram = over_own_words(read_table(made / "model.arpa"))
    symbols = ngram.vocabulary.ids([BOUNDARY, *sentence.split(), BOUNDARY])
    for at, length in enumerate(ngram.score(symbols)[1].tolist()):
        gram = tuple(ngram.vocabulary.symbols[symbol] for symbol in symbols[at + 2 - length : at + 2])
        assert gram in brute
        assert 1 <= length <= ORDER


@pytest.mark.parametrize("sentence", ["", "le", "la grande", "zzz"])
def test_the_next_words_are_those_of_brute_force(
    made: Path, brute: dict[Gram, tuple[float, float]], sentence: str
) -> None:
    words = [gram[0] for gram in brute if len(gram) == 1]
    fed = [BOUNDARY, *(word if word in words else UNKNOWN for word in sentence.split())]
    wanted = {word: log_p(brute, tuple(fed[-(ORDER - 1) :]), word) for word in words}
    ngram = over_own_words(read_table(made / "model.arpa"))
    state = ngram.initial()
    for symbol in ngram.vocabulary.ids(fed):
        state = ngram.advance(state, symbol)
    found = dict(zip(ngram.vocabulary.symbols, ngram.log_probs([state])[0].tolist(), strict=True))
    assert found == pytest.approx(wanted, abs=1e-5)
    assert math.fsum(map(math.exp, found.values())) == pytest.approx(1.0, abs=1e-5)


def test_perplexity_is_the_mean_of_the_sentences(capsys: Capture, made: Path) -> None:
    model, text = made / "model.ngram", made / "other.txt"
    lines = text.read_text(encoding="utf8").lower().splitlines()
    asked = [row["log10"] for line in lines for row in scored(capsys, made / "model.arpa", line)]
    unknown = [row for line in lines for row in scored(capsys, model, line) if not row["known"]]
    found = as_json(capsys, "score", str(model), str(text), "--lowercase", "--unit", "log10")
    assert 0 < len(unknown) < len(asked)
    assert (found["sentences"], found["words"], found["oovs"]) == (40, len(asked), len(unknown))
    assert found["log_prob"] == pytest.approx(math.fsum(asked), rel=1e-6)
    assert found["perplexity"] == pytest.approx(10 ** (-math.fsum(asked) / len(asked)), rel=1e-5)


def test_a_word_without_mass_has_infinite_perplexity(capsys: Capture) -> None:
    """And not an overflow: 10^-1000 is less than a number can say."""
    Path("m.arpa").write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<unk>\n-0.1\t</s>\n-1000\ta\n\n\\end\\\n")
    Path("a.txt").write_text("a a a\n")
    found = as_json(capsys, "score", "m.arpa", "a.txt")
    assert found["perplexity"] is None  # JSON has no infinity
    assert found["log_prob"] == pytest.approx(-3000.1)


def test_lowercase_writes_every_word_small(capsys: Capture, made: Path) -> None:
    model, text = str(made / "model.arpa"), str(made / "text.txt")
    assert [row["known"] for row in scored(capsys, model, "La maison")] == [False, True, True]
    large, small = (as_json(capsys, "score", model, text, *option) for option in ([], ["--lowercase"]))
    assert small["oovs"] == 0 < large["oovs"]


def test_words_that_are_not_among_the_given_are_unknown(capsys: Capture, made: Path) -> None:
    Path("words.txt").write_text("le\nla\n\nchat\nnever\n", encoding="utf8")
    text = str(made / "text.txt")
    arguments = ["ngram", "estimate", text, "--order", "2", "--lowercase", "--words", "words.txt", "--out", "few.arpa"]
    assert as_json(capsys, *arguments)["types"] == 6
    assert read_table("few.arpa").words == (BOUNDARY, UNKNOWN, "le", "la", "chat", "never")
    assert [row["known"] for row in scored(capsys, "few.arpa", "le chien dort")] == [True, False, False, True]
    all_of_it = as_json(capsys, "score", "few.arpa", text, "--lowercase")
    assert all_of_it["oovs"] == sum(word not in ("le", "la", "chat") for word in words_of(made / "text.txt"))


@pytest.mark.parametrize("min_counts", ["1,1,2", "1,2", "3"])
def test_rare_ngrams_are_pruned(capsys: Capture, made: Path, min_counts: str) -> None:
    text = made / "text.txt"
    arguments = ["ngram", "estimate", str(text), "--order", "3", "--lowercase", "--out", "m"]
    found = as_json(capsys, *arguments, "--min-counts", min_counts)
    stream, words = read_stream([text], lowercase=True)
    wanted = estimate(stream, words, order=3, min_counts=[int(count) for count in min_counts.split(",")])
    whole = [len(level) for level in read_table(made / "model.ngram").levels]
    assert found["ngrams"] == [len(level) for level in wanted.levels]
    assert found["ngrams"][0] == whole[0]
    assert found["ngrams"][2] < whole[2]
    assert listed(read_table("m")) == listed(wanted)


def test_a_note_on_too_little_text_is_one_line_each(capsys: Capture) -> None:
    Path("little.txt").write_text("le chat dort\nle chien dort\n")
    capsys.readouterr()
    assert cli.run(["ngram", "estimate", "little.txt", "--order", "9", "--out", "little.arpa", "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    lines = captured.err.splitlines()
    assert lines == [f"note: {note}" for note in report["notes"]]
    assert lines[0] == "note: no sentence has 9 words: the order is 5"  # <s> le chat dort </s>
    assert all(line.startswith("note: too little text for the Kneser-Ney discounts of order") for line in lines[1:])
    assert len(report["ngrams"]) == 5
    assert len(lines) == 6


def test_a_model_without_unknown_words_needs_none(capsys: Capture) -> None:
    Path("closed.arpa").write_text(CLOSED)
    Path("a.txt").write_text("a a\n")
    found = as_json(capsys, "score", "closed.arpa", "a.txt")
    assert (found["words"], found["oovs"]) == (3, 0)
    assert found["perplexity"] == pytest.approx(10**0.5)


# --- mistakes -------------------------------------------------------------------------------------------------------

BROKEN = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<unk>\n-0.5\t</s>\nmany\ta\n\n\\end\\\n"
CLOSED = "\\data\\\nngram 1=2\n\n\\1-grams:\n-0.5\t</s>\n-0.5\ta\n\n\\end\\\n"  # without <unk>


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["estimate", "missing.txt", "--out", "m"], "missing.txt: a file is required, but there is none"),
        (["estimate", "empty.txt", "--out", "m"], "empty.txt: text is required, but the file is empty"),
        (["estimate", "blank.txt", "--out", "m"], "text is required to count n-grams, found none"),
        (["estimate", "marked.txt", "--out", "m"], "marked.txt:3: </s> and <s> mark sentences"),
        (["estimate", "begun.txt", "--out", "m"], "begun.txt:1: </s> and <s> mark sentences"),
        (["estimate", "latin.txt", "--out", "m"], "latin.txt:1:2: UTF-8 is required"),
        (["estimate", "good.txt", "--out", "m", "--min-counts", "1,few"], "--min-counts needs numbers such as 1,1,2"),
        (["estimate", "good.txt", "--out", "m", "--min-counts", ""], "--min-counts needs numbers such as 1,1,2"),
        (["estimate", "good.txt", "--out", "m", "--min-counts", "1,-2"], "must be 0 or more, found [1, -2]"),
        (["estimate", "good.txt", "--out", "m", "--order", "0"], "--order"),
        (["estimate", "good.txt", "--out", "m", "--order", "21"], "--order"),
        (["estimate", "good.txt", "--out", "m", "--words", "missing.words"], "missing.words: a file is required"),
        (["estimate", "good.txt"], "Missing option '--out'"),
        (["estimate", "good.txt", "--out", "no/m.arpa"], "no/m.arpa: the ARPA file cannot be written"),
        (["estimate", "good.txt", "--out", "good.txt"], "good.txt: cannot write the ngram"),
        (["estimate", ".", "--out", "m"], ".: a file is required, but this is a folder"),
        (["convert", "missing.arpa", "m"], "missing.arpa: a file is required, but there is none"),
        (["convert", "broken.arpa", "m"], "broken.arpa:7: a number is required, found 'many'"),
        (["convert", "good.txt", "m"], "an ARPA file is required, but no line of this one is"),
        (["prune", "folder", "--out", "m"], "ngram.json: missing; folder holds no complete ngram"),
        (
            ["interpolate", "closed.arpa", "closed.arpa", "--text", "good.txt", "--out", "m"],
            "is not among the",
        ),
        (["interpolate", "closed.arpa", "closed.arpa", "--text", "missing.txt", "--out", "m"], "a file is required"),
        (["interpolate", "closed.arpa", "closed.arpa", "--text", "marked.txt", "--out", "m"], "marked.txt:3: </s> "),
        ([], "a verb is required"),
        (["count"], "No such command 'count'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line(capsys: Capture, arguments: list[str], said: str) -> None:
    files = {"empty.txt": "", "blank.txt": "\n \n", "marked.txt": "a b\n\na </s> b\n", "good.txt": "a b\n"}
    files |= {"begun.txt": "<s> a\n", "broken.arpa": BROKEN, "closed.arpa": CLOSED}
    for name, content in files.items():
        Path(name).write_text(content, encoding="utf8")
    Path("latin.txt").write_bytes(b"d\xe9j\xe0\n")
    Path("folder").mkdir()
    before = {path.name for path in Path().iterdir()}
    assert said in refused(capsys, "ngram", *arguments)
    assert {path.name for path in Path().iterdir()} == before  # nothing half-written


def altered(folder: Path) -> None:
    (data,) = folder.glob("ngram-*.safetensors")
    content = bytearray(data.read_bytes())
    content[-3] ^= 1
    data.write_bytes(bytes(content))


def cut(folder: Path) -> None:
    (data,) = folder.glob("ngram-*.safetensors")
    data.write_bytes(data.read_bytes()[:-1])


def edited(folder: Path) -> None:
    manifest = folder / "ngram.json"
    manifest.write_text(manifest.read_text(encoding="utf8").replace('"la"', '"là"', 1), encoding="utf8")


def headless(folder: Path) -> None:
    (folder / "ngram.json").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [(altered, "altered after saving"), (cut, "truncated"), (edited, "altered after saving"), (headless, "missing")],
)
def test_a_damaged_folder_is_refused(capsys: Capture, made: Path, damage: Callable[[Path], None], said: str) -> None:
    shutil.copytree(made / "model.ngram", "damaged")
    damage(Path("damaged"))
    for arguments in (["ngram", "convert", "damaged", "x"], ["ngram", "prune", "damaged", "--out", "x"]):
        assert said in refused(capsys, *arguments)
    assert not Path("x").exists()


def lacking_an_array(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    del tensors["word.1"]


def too_short(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    tensors["word.1"] = tensors["word.1"][:-1]


def too_few_probabilities(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    tensors["log_prob.2"] = tensors["log_prob.2"][:-1]


def unsorted(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    tensors["word.2"] = tensors["word.2"].flip(0)


def out_of_range(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    tensors["context.2"] = tensors["context.2"] + 10**6


def another_order(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    data["order"] = 4


def fewer_words(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    data["words"] = data["words"][:-1]


def no_words(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    del data["words"]


def a_word_that_is_a_list(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    data["words"][1] = []


def words_within_a_list(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    data["words"] = [[word] for word in data["words"]]


def words_as_one_string(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    data["words"] = "x" * len(data["words"])


def a_note_that_is_a_number(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    data["notes"] = [1]


def no_levels(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    data["order"] = 0


MISFITS = [lacking_an_array, too_short, too_few_probabilities, unsorted, out_of_range, another_order]
MISFITS += [fewer_words, no_words, no_levels]
MISFITS += [a_word_that_is_a_list, words_within_a_list, words_as_one_string, a_note_that_is_a_number]


@pytest.mark.parametrize("change", MISFITS)
def test_arrays_that_do_not_fit_together_are_refused(
    capsys: Capture, made: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], None]
) -> None:
    """Sealed all the same: someone else's program wrote them."""
    bundle = read_bundle(made / "model.ngram", "ngram")
    change(bundle.data, bundle.tensors)
    write_bundle("odd", "ngram", bundle.data, bundle.tensors)
    assert "odd: the files of the n-gram model do not fit together" in refused(capsys, "ngram", "convert", "odd", "x")


# --- streams --------------------------------------------------------------------------------------------------------

WORDS = ["a", "b", "É", "ß", "<unk>", "x</s>", "<s>x", "été"]
lines_of_words = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=5).flatmap(
        lambda words: st.sampled_from([" ".join(words), "\t".join(words), f"  {'  '.join(words)} "])
    ),
    max_size=8,
)


def naive_stream(
    texts: Sequence[Sequence[str]], lowercase: bool, vocabulary: Sequence[str] | None
) -> tuple[list[int], list[str]]:
    """By the words of the documentation: blank lines are layout, as in every other text."""
    words = [BOUNDARY, UNKNOWN]
    for word in vocabulary or []:
        if word not in words:
            words.append(word)
    stream = [0]
    for line in (line for lines in texts for line in lines):
        own = (line.lower() if lowercase else line).split()
        for word in own:
            if word not in words and vocabulary is None:
                words.append(word)
            stream.append(words.index(word) if word in words else 1)
        stream += [0] if own else []
    return stream, words


@settings(max_examples=draws(40))
@given(
    texts=st.lists(lines_of_words, min_size=1, max_size=3),
    lowercase=st.booleans(),
    vocabulary=st.none() | st.lists(st.sampled_from(["a", "É", "é", UNKNOWN, BOUNDARY, "z"]), max_size=4),
    at_once=st.sampled_from([1, 2, 1 << 16]),
    ends=st.booleans(),
)
@example(texts=[["a b", "", "b"]], lowercase=False, vocabulary=None, at_once=1, ends=True)
def test_a_stream_is_the_text_in_numbers(
    tmp_path: Path,
    texts: list[list[str]],
    lowercase: bool,
    vocabulary: list[str] | None,
    at_once: int,
    ends: bool,
) -> None:
    paths = []
    for number, lines in enumerate(texts):
        content = "\n".join(lines) + ("\n" if ends else "")
        if not content:
            content = "\n"  # an empty file is refused
        path = tmp_path / f"{number}.txt{'.gz' if number % 2 else ''}"
        path.write_bytes(gzip.compress(content.encode()) if number % 2 else content.encode())
        paths.append(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_AT_ONCE", at_once)
        stream, words = read_stream(paths, lowercase=lowercase, vocabulary=vocabulary)
    assert stream.dtype == np.int64
    assert (stream.tolist(), words) == naive_stream(texts, lowercase, vocabulary)


def test_a_stream_and_a_corpus_have_the_same_sentences(made: Path) -> None:
    path = Path("layout.txt")
    path.write_text("\n" + (made / "other.txt").read_text(encoding="utf8").replace(".\n", ".\n\n"), encoding="utf8")
    stream, words = read_stream([path])
    corpus = Corpus.from_file(path)
    joined = [BOUNDARY, *(word for sentence in corpus for word in (*sentence.words, BOUNDARY))]
    assert [words[number] for number in stream] == joined


@pytest.mark.parametrize("mark", ["<s>", "</s>"])
def test_a_mark_of_sentences_within_a_line_has_its_place(mark: str) -> None:
    Path("good.txt").write_text(f"x{mark} {mark}x\n")
    Path("bad.txt").write_text(f"a b\nb\n{mark}x\na\t{mark}\n")
    assert read_stream(["good.txt"])[1][2:] == [f"x{mark}", f"{mark}x"]
    with pytest.raises(CorpusError, match=r"bad\.txt:4: ") as caught:
        read_stream(["good.txt", "bad.txt"])
    assert caught.value.line == 4


# --- folders of arrays ----------------------------------------------------------------------------------------------


def random_table(words: Sequence[str], order: int, seed: int, share: float = 0.6) -> NGramTable:
    """Some n-grams with their contexts and suffixes, and any numbers."""
    rng = np.random.default_rng(seed)
    grams: dict[Gram, tuple[float, float]] = {}
    for gram in sorted(contexts(words, order)[1:], key=len):
        closed = len(gram) == 1 or (gram[:-1] in grams and gram[1:] in grams)
        if closed and (len(gram) == 1 or rng.random() < share):
            grams[gram] = (float(-rng.exponential(2.0)), float(rng.normal()) if len(gram) < order else 0.0)
    return table_of(words, grams)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_folder_keeps_every_bit(order: int) -> None:
    table = random_table(["b", BOUNDARY, "a", "été"], order, seed=order)
    table = NGramTable(table.words, table.levels, ("a note", "another"))
    write_table(table, "m.ngram")
    again = read_table("m.ngram")
    assert (again.words, again.notes, again.order) == (table.words, table.notes, table.order)
    for one, other in zip(table.levels, again.levels, strict=True):
        for name in ("context", "word", "log_prob", "log_backoff"):
            left, right = getattr(one, name), getattr(other, name)
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes()


def test_a_folder_may_be_written_over(made: Path) -> None:
    table = read_table(made / "model.ngram")
    write_table(random_table([BOUNDARY, "a"], 2, seed=0), "m")
    write_table(table, "m")
    assert len(list(Path("m").glob("*.safetensors"))) == 1
    assert listed(read_table("m")) == listed(table)


def test_a_folder_of_another_kind_is_refused() -> None:
    write_bundle("model", "model", {}, {})
    with pytest.raises(CheckpointError, match="holds no complete ngram"):
        read_table("model")


# --- dense rows -----------------------------------------------------------------------------------------------------


def dense_by_trie(trie: Trie, states: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The sparse rows, written out."""
    sparse = trie.rows(states)
    whole = trie.log_prob[: trie.n_words] + sparse.rest.unsqueeze(-1)
    whole[sparse.position, sparse.word] = sparse.log_prob
    return whole.numpy()


@pytest.mark.parametrize("many", [1, 3, 64], ids=lambda many: f"kept from {many} on")
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_dense_rows_are_the_sparse_ones_and_brute_force(monkeypatch: pytest.MonkeyPatch, order: int, many: int) -> None:
    monkeypatch.setattr(rows, "_MANY", many)
    words = ["b", BOUNDARY, "a", "c"]
    table = random_table(words, order, seed=order)
    trie = Trie.from_table(table)
    histories = contexts(words, order)
    states = [EMPTY] * len(histories)
    for n, history in enumerate(histories):
        for word in history:
            states[n] = trie.advance(states[n], words.index(word))
    assert EMPTY in states
    asked = torch.tensor(states)[torch.randperm(len(states), generator=torch.Generator().manual_seed(0))]
    wanted = written_out(listed(table), words, histories)
    dense = DenseRows(trie)
    for _ in range(3):  # the second time from what was kept
        out = torch.full((len(states), len(words)), math.nan)
        dense.fill(torch.tensor(states), out)
        np.testing.assert_allclose(out.numpy(), wanted, rtol=0, atol=1e-5)
        np.testing.assert_allclose(out.numpy(), dense_by_trie(trie, torch.tensor(states)), rtol=0, atol=1e-5)
        other = torch.full_like(out, math.nan)
        dense.fill(asked, other)
        np.testing.assert_allclose(other.numpy(), dense_by_trie(trie, asked), rtol=0, atol=1e-5)
    none = torch.empty(0, len(words))
    dense.fill(torch.empty(0, dtype=torch.long), none)


def test_kept_rows_are_never_changed_and_never_too_many(monkeypatch: pytest.MonkeyPatch, made: Path) -> None:
    monkeypatch.setattr(rows, "_MANY", 10)
    table = read_table(made / "model.ngram")
    V = len(table.words)
    monkeypatch.setattr(rows, "_BYTES_KEPT", 4 * V * 3)
    ngram = NGram(table).bind(Vocabulary(table.words))
    trie = ngram.trie(torch.device("cpu"))
    states = torch.cat([torch.tensor([EMPTY]), torch.randint(0, int(trie.scorer.table.offsets[2]), (300,))])
    states = torch.where(trie.matters[states], states, states % V)
    first = ngram.log_probs(states)
    kept = {word: row.copy() for word, row in ngram._dense._kept.items()}  # type: ignore[union-attr]
    assert len(kept) == 3
    out = torch.empty(len(states), V)
    assert ngram.log_probs(states.flip(0), out=out) is out
    out += 1.0  # whoever asked may do what they like with the answer
    assert torch.equal(ngram.log_probs(states), first)
    assert all(np.array_equal(ngram._dense._kept[word], row) for word, row in kept.items())  # type: ignore[union-attr]
    np.testing.assert_allclose(first.numpy(), dense_by_trie(trie, states), rtol=0, atol=2e-5)
    assert torch.allclose(first.double().exp().sum(1), torch.ones(len(states), dtype=torch.float64), atol=1e-5)
