"""Minimal pairs: files, and scores against a walk step by step."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from helpers import walked
from llrnn import cli
from llrnn.ground.errors import CorpusError, UnknownWordError
from llrnn.inference.pairs import Accuracy, Pair, PairScores, read_pairs, score_pairs
from llrnn.knowledge.backgrounds import Unigram
from llrnn.knowledge.features import Identity, Suffixes
from llrnn.model.controllers import GRU
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.pairs.files import write_pairs

PAIRS = [
    Pair(("il", "dort"), ("il", "dorment"), "verb-number", 1, 0),
    Pair(("elle", "est", "là"), ("elle", "es", "là"), "verb-person", 1),
    Pair(("les", "filles", "que", "je", "vois", "sont", "là"), ("les", "filles", "que", "je", "vois", "est", "là")),
]


# --- files


@pytest.mark.parametrize("name", ["p.tsv", "p.jsonl", "p.tsv.gz", "p.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    write_pairs(tmp_path / name, PAIRS)
    assert read_pairs(tmp_path / name) == PAIRS
    assert [path.name for path in tmp_path.iterdir()] == [name]
    first = (tmp_path / name).read_bytes()
    write_pairs(tmp_path / name, PAIRS)
    assert (tmp_path / name).read_bytes() == first


def test_place_is_found() -> None:
    assert [pair.place for pair in PAIRS] == [1, 1, 5]
    assert Pair(("a",), ("a", "b")).place == 1


def test_tsv_without_header_and_numbers(tmp_path: Path) -> None:
    (tmp_path / "p.tsv.gz").write_bytes(gzip.compress(b"il  dort\til dorment\tg\n\nil est\til es\th\t2\t_\n"))
    assert read_pairs(tmp_path / "p.tsv.gz") == [
        Pair(("il", "dort"), ("il", "dorment"), "g"),
        Pair(("il", "est"), ("il", "es"), "h", 2),
    ]


def test_two_columns_are_enough(tmp_path: Path) -> None:
    for header in ("", "good\tbad\n"):
        (tmp_path / "p.tsv").write_text(f"{header}il dort\til dorment\n\nil est\til es\n", encoding="utf8")
        assert read_pairs(tmp_path / "p.tsv") == [
            Pair(("il", "dort"), ("il", "dorment")),
            Pair(("il", "est"), ("il", "es")),
        ]


def test_blimp(tmp_path: Path) -> None:
    line = '{"sentence_good": "Cats sleep.", "sentence_bad": "Cats sleeps.", "field": "syntax", "UID": "agreement"}\n'
    (tmp_path / "p.jsonl").write_text(line, encoding="utf8")
    assert read_pairs(tmp_path / "p.jsonl") == [Pair(("Cats", "sleep."), ("Cats", "sleeps."), "agreement")]


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("p.tsv", "a b\n", "1:4", "2 to 5 columns"),
        ("p.tsv", "good\tbad\tgroup\na\t \tg\n", "2:3", "bad must have a word"),
        ("p.tsv", "a\ta\tg\n", "1:3", "must differ"),
        ("p.tsv", "a\tb\tg\tone\n", "1:7", "distance must be a whole number"),
        ("p.tsv", "a\tb\tg\t1\t-1\n", "1:9", "distractors must be a whole number"),
        ("p.tsv", "a\tb\tg\t0\n", "1:3", "distance must not be that small"),
        ("p.tsv", "good\tbad\tgroup\n", "", "at least one pair"),
        ("p.jsonl", "{", "1:2", "JSON is required"),
        ("p.jsonl", "[]", "1:1", "an object"),
        ("p.jsonl", '{"sentence_good": "a"}', "1:1", "sentence_bad is required"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": 3}', "1:24", "must be a string"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": "b", "UID": 3}', "1:45", "group must be a string"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": "b", "place": 7}', "1:45", "place must be the index"),
        ("p.jsonl", '{"sentence_good": "a", "sentence_bad": "b", "distance": true}', "1:45", "whole number"),
        ("p.csv", "a", "", "write them as .tsv"),
    ],
)
def test_bad_files_are_placed(tmp_path: Path, name: str, content: str, place: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf8")
    with pytest.raises(CorpusError, match=message) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(f"{path}:{place}:" if place else f"{path}:")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    for pairs, message in [
        ([Pair(("10 000",), ("b",))], "whitespace in it"),
        ([Pair(("a",), ("b",), "g\th")], "without TABs"),
        ([], "at least one pair"),
    ]:
        with pytest.raises(CorpusError, match=message):
            write_pairs(tmp_path / "p.tsv", pairs)
    with pytest.raises(CorpusError, match="cannot be written"):
        write_pairs(tmp_path / "nowhere" / "p.tsv", PAIRS)


# --- scoring


def model_of(sentences: Sequence[Sequence[str]]) -> LLRNN:
    corpus = Corpus.from_sentences(sentences)
    vocabulary = Vocabulary.from_corpus(corpus)
    return LLRNN(
        vocabulary,
        output_features=Identity() + Suffixes(2),
        background=Unigram.from_corpus(corpus),
        controller=GRU(hidden=8),
        seed=3,
    )


@pytest.mark.parametrize("rows", [1, 3, 1024])
def test_scores_are_those_of_a_walk_step_by_step(rows: int) -> None:
    model = model_of([sentence for pair in PAIRS for sentence in (pair.good, pair.bad)])
    scores = score_pairs(model, PAIRS, rows=rows)
    for pair, good, bad in zip(PAIRS, scores.log_p_good, scores.log_p_bad, strict=True):
        assert good == pytest.approx(walked(model, pair.good), abs=1e-4)
        assert bad == pytest.approx(walked(model, pair.bad), abs=1e-4)
    assert scores.right == tuple((g > b) for g, b in zip(scores.log_p_good, scores.log_p_bad, strict=True))


def test_every_pair_has_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the library, in JSON and in a file; a pair with a word that is not listed comes last."""
    model = model_of([sentence for pair in PAIRS for sentence in (pair.good, pair.bad)])
    model.save(tmp_path / "m")
    lines = ["il xyz\til dort", *("\t".join(map(" ".join, (pair.good, pair.bad))) for pair in PAIRS)]
    (tmp_path / "p.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
    scores = score_pairs(model, read_pairs(tmp_path / "p.tsv"))
    folder, file, out = (str(tmp_path / name) for name in ("m", "p.tsv", "out.tsv"))
    assert cli.run(["model", "pairs", folder, file, "--json", "--out", out]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    rows = scores.rows()
    assert found["results"] == rows
    assert [row["good"] for row in rows] == [*(" ".join(pair.good) for pair in PAIRS), "il xyz"]
    assert [row["right"] for row in rows] == [*scores.right, None]
    assert [(row["log_p_good"], row["log_p_bad"]) for row in rows[:3]] == [
        *zip(scores.log_p_good, scores.log_p_bad, strict=True)
    ]
    header, *written = (line.split("\t") for line in Path(out).read_text(encoding="utf8").splitlines())
    assert header == ["model", "pairs", *rows[0]]
    assert [float(line[5]) for line in written[:3]] == list(scores.log_p_good)
    assert written[3] == [folder, file, "il xyz", "il dort", "", "_", "_", "_"]
    assert cli.run(["model", "pairs", folder, file, "--out", str(tmp_path / "no" / "out.tsv")]) == 2


def test_unknown_words_and_no_pairs() -> None:
    model = model_of([["il", "dort"]])
    with pytest.raises(UnknownWordError, match="pair 1: the word 'dorment'"):
        score_pairs(model, PAIRS)
    with pytest.raises(CorpusError, match="at least one pair"):
        score_pairs(model, [])


def scored(*differences: float, distances: Sequence[int | None] = ()) -> PairScores:
    pairs = [Pair(("a",), (f"b{i}",), "ab"[i % 2], d, d) for i, d in enumerate(distances or [None] * len(differences))]
    return PairScores(tuple(pairs), tuple(differences), (0.0,) * len(differences))


def test_shares_and_ties() -> None:
    impossible = PairScores(scored(0.0).pairs, (-math.inf,), (-math.inf,))
    assert (impossible.right, impossible.ties) == ((False,), 1)
    scores = scored(1.0, -1.0, 1e-12, 2.0, math.inf, -3.0, distances=[1, 2, 4, 5, 9, None])
    assert scores.right == (True, False, False, True, True, False)
    assert (scores.ties, scores.equal) == (1, 0)
    assert scores.overall.accuracy == pytest.approx(3 / 6)
    assert scores.mean_of_groups == pytest.approx((2 / 3 + 1 / 3) / 2)
    assert {name: s.count for name, s in scores.by_group.items()} == {"a": 3, "b": 3}
    assert [s.accuracy for s in scores.by_group.values()] == pytest.approx([2 / 3, 1 / 3])
    assert {name: s.count for name, s in scores.by_distance.items()} == {"1": 1, "2-4": 2, "5+": 2}
    assert {name: s.count for name, s in scores.by_distractors.items()} == {"1": 1, "2+": 4}


def test_wilson_interval() -> None:
    """Against the textbook values for 8 of 10, and at the ends."""
    share = Accuracy.of([True] * 8 + [False] * 2)
    assert [share.low, share.high] == pytest.approx([0.4902, 0.9433], abs=1e-4)
    assert Accuracy.of([True] * 5).high == 1.0
    assert Accuracy.of([False]).low == 0.0


def test_float64_decides() -> None:
    """What single precision cannot tell apart is no tie."""
    pair = Pair(("a",), ("b",))
    assert PairScores((pair,), (-1.0,), (-1.0 - 1e-8,)).right == (True,)
    assert PairScores((pair,), (-1.0,), (-1.0 - 1e-12,)).right == (False,)
    model = model_of([["a", "b"]]).float()
    assert model.layer.weight.dtype == torch.float32
    scores = score_pairs(model, [pair])
    assert model.layer.weight.dtype == torch.float32  # the model itself is left alone
    assert scores.log_p_good[0] == pytest.approx(walked(model.double(), ["a"]), abs=1e-12)


def test_readings_are_summed(tmp_path: Path) -> None:
    """A sentence of several readings, one of them with a word that is not listed; files keep them."""
    model = model_of([["de", "les", "amis"], ["des"]]).double()
    pair = Pair(("de", "les", "amis"), ("les", "amis"), readings=((("des", "amis"), ("deux", "amis")), ()))
    scores = score_pairs(model, [pair])
    both = [walked(model, words) for words in (pair.good, ["des", "amis"])]
    assert scores.log_p_good[0] == pytest.approx(math.log(sum(map(math.exp, both))), abs=1e-9)
    write_pairs(tmp_path / "p.jsonl", [pair])
    assert read_pairs(tmp_path / "p.jsonl") == [pair]
    with pytest.raises(CorpusError, match=r"TSV has one reading .*write a file \.jsonl"):
        write_pairs(tmp_path / "p.tsv", [pair])
