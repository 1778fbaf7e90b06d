"""Public suites of minimal pairs: their formats, running text as the model's text has it, and what is counted how."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest

from helpers import walked
from llrnn import cli
from llrnn.ground.errors import CorpusError
from llrnn.inference.pairs import Pair, PairScores, read_pairs, score_pairs
from llrnn.knowledge.backgrounds import Unigram
from llrnn.knowledge.features import Identity, Suffixes
from llrnn.model.controllers import GRU
from llrnn.model.network import LLRNN
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.french.writing import readings, running_words, spelled
from llrnn_lab.pairs.suites import BETWEEN, as_the_text_has_it, is_contracted, read_suite

DATA = Path(__file__).parents[3] / "shared" / "data"
GENDER = """\
S_NOUN_2_ADJ_a	F	S	la table est très <w> . <eos>	4	ronde	rond	2
P_NOUN_8_PASS_b	M	P	les clous que j' aime sont <w> . <eos>	6	jetés	jetées	8
"""
QFR = """\
{"sentence_a": "L’ami dort.", "sentence_b": "L’ami dorment.", "category": "syntax", "type": 2, "label": 0.0}
{"sentence_a": "Il parle du ami.", "sentence_b": "Il parle de l'ami.", "category": "syntax", "type": 8, "label": 1.0}
"""
TUR = """\
phenomenon	good	bad
subject_verb_agreement	Ben Ankara'da kaldım.	Ben Ankara'da kaldı.
quantifiers  	O geldi.	O geldi.
"""


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf8")
    return folder / name


def test_formats_are_recognised_by_content(tmp_path: Path) -> None:
    first, second = read_suite(written(tmp_path, "a.tsv", GENDER))
    assert first == Pair(
        ("la", "table", "est", "très", "ronde"),
        ("la", "table", "est", "très", "rond"),
        "noun-adjective-feminine",
        3,
        place=4,
        complete=False,
    )
    assert (second.group, second.distance, second.bad[-1]) == ("noun-participle-masculine", 9, "jetées")
    first, second = read_suite(written(tmp_path, "b.jsonl", QFR))
    assert (first.good, first.bad[2]) == (("L'", "ami", "dort", "."), "dorment")
    assert first.group == "02 verb inflection"
    assert second.good == ("Il", "parle", "de", "l'", "ami", ".")  # label 1: the second is right
    first, second = read_suite(written(tmp_path, "c.tsv", TUR))
    assert first.good == ("Ben", "Ankara'da", "kaldım", ".")
    assert (second.group, second.good == second.bad) == ("quantifiers", True)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", GENDER + "S_NOUN_2_ADJ_a\tF\tS\tla table\t9\trond\tronde\t2\n", "a.tsv:3:1: 8 columns"),
        ("a.tsv", GENDER + "la table\n", "a.tsv:3:1: 8 columns"),
        ("b.jsonl", QFR + '{"sentence_a": "a"}\n', "b.jsonl:3:1: an object with sentence_a"),
        ("b.jsonl", QFR.replace('"label": 1.0', '"label": 3'), "b.jsonl:2:1: label must be 0 or 1"),
        ("b.jsonl", QFR.replace('"type": 8', '"type": 21'), "type 1 to 20, found 1.0 and 21"),
        ("c.tsv", TUR + "quantifiers\tO geldi.\n", "c.tsv:4:1: 3 columns"),
        ("d.tsv", "good\tbad\tgroup\n", "d.tsv: the first line is of none of the suites"),
        ("c.tsv", TUR + "quantifiers\tO geldi.\t \n", "c.tsv:4:1: a sentence must have a word"),
    ],
)
def test_mistakes_are_placed(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read_suite(written(tmp_path, name, text))


def test_running_french() -> None:
    assert running_words("« Aujourd’hui, l’ami dit-il… »") == [
        "«",
        "Aujourd'hui",
        ",",
        "l'",
        "ami",
        "dit-il",
        "...",
        "»",
    ]
    known = {"dit", "rendez-vous"}
    assert readings(["dit-il", "rendez-vous", "au"], known, contracted=False) == [
        ("dit", "-il", "rendez-vous", "à", "le")
    ]
    assert readings(["du", "ami"], known, contracted=False) == [("de", "le", "ami"), ("du", "ami")]
    assert readings(["du", "ami"], known, contracted=True) == [("du", "ami")]
    assert len(readings(["des"] * 9, known, contracted=False)) == 64
    assert spelled(["que", "le", "ami", "de", "le", "roi", "de", "les", "amies"], contracted=True) == [
        "que",
        "l'",
        "ami",
        "du",
        "roi",
        "des",
        "amies",
    ]
    for full, contracted, text in (
        ("que le ami de le roi de les amies", True, "que l' ami du roi des amies"),
        ("que le ami de le roi de les amies", False, "que l' ami de le roi de les amies"),
        ("ce homme que il", False, "cet homme qu' il"),
    ):
        assert spelled(full.split(), contracted=contracted) == text.split()


def test_what_the_text_has() -> None:
    assert is_contracted(None)
    assert is_contracted({"au", "aux"})
    assert not is_contracted({"à", "le"})
    words = ["au", "aux", "à", "</s>"]
    assert not is_contracted(Vocabulary(words, counts=[1, 1, 90, 5]))  # a slip of the pen
    assert is_contracted(Vocabulary(words, counts=[60, 40, 90, 5]))


def model_of(*sentences: str) -> LLRNN:
    corpus = Corpus.from_sentences([sentence.split() for sentence in sentences])
    return LLRNN(
        Vocabulary.from_corpus(corpus),
        output_features=Identity() + Suffixes(2),
        background=Unigram.from_corpus(corpus),
        controller=GRU(hidden=8),
        seed=3,
    ).double()


def test_the_turkish_copula() -> None:
    """At the end of a clause it may be a word of its own, if the text of the model has it as one."""
    words = ["</s>", "titiz", "iz", "dikkatli", "siniz", "geldim", "gel", ",", ".", "biz", "dim"]
    vocabulary = Vocabulary(words, counts=[1] * 10 + [0])
    read = partial(as_the_text_has_it, language="tr", vocabulary=vocabulary, lowercase=True)
    assert read(("Biz", "titiziz", ".")) == [("biz", "titiziz", "."), ("biz", "titiz", "iz", ".")]
    assert len(read(("titiziz", ",", "dikkatlisiniz", "."))) == 4
    assert read(("titiziz", "biz", ".")) == [("titiziz", "biz", ".")]  # a word follows
    assert read(("geldim", ".")) == [("geldim", ".")]  # *dim* is listed, but no word of the text
    assert read(("İyi", "ISINDI", "Biz")) == [("iyi", "ısındı", "biz")]  # Turkish capitals


def test_the_readings_of_running_text_are_summed(tmp_path: Path) -> None:
    """Where the text has `de le`, `des` is two words or one; a model that lists `au` has it as it is written."""
    model = model_of("il a des amis", "le roi de les amis", "à le roi", "des")
    text = '{"sentence_a": "Des amis", "sentence_b": "Les amis", "category": "", "type": 8, "label": 0}\n'
    scores = score_pairs(model, read_suite(written(tmp_path, "q.jsonl", text), model))
    both = [walked(model, words.split()) for words in ("de les amis", "des amis")]
    assert scores.log_p_good[0] == pytest.approx(math.log(sum(map(math.exp, both))), abs=1e-9)
    assert scores.log_p_bad[0] == pytest.approx(walked(model, ["les", "amis"]), abs=1e-9)
    other = model_of("il a des amis", "les au aux")
    found = score_pairs(other, read_suite(tmp_path / "q.jsonl", other))
    assert found.log_p_good[0] == pytest.approx(walked(other, ["des", "amis"]), abs=1e-9)


def test_sentences_that_stop_have_no_end(tmp_path: Path) -> None:
    model = model_of("la table est très ronde", "rond")
    (pair, _) = read_suite(written(tmp_path, "g.tsv", GENDER))
    scores = score_pairs(model, [pair])
    assert scores.log_p_good[0] == pytest.approx(walked(model, pair.good, end=False), abs=1e-9)
    whole = score_pairs(model, [Pair(pair.good, pair.bad)])
    assert whole.log_p_good[0] == pytest.approx(walked(model, pair.good), abs=1e-9)


def test_what_is_left_out_and_what_is_wrong(tmp_path: Path) -> None:
    model = model_of("la table est très ronde rond", "o geldi . ben")
    scores = score_pairs(model, read_suite(written(tmp_path, "g.tsv", GENDER), model))
    assert (scores.overall.count, len(scores.left_out)) == (1, 1)
    scores = score_pairs(model, read_suite(written(tmp_path, "t.tsv", TUR), model))
    assert (scores.equal, scores.ties, scores.overall.accuracy, len(scores.left_out)) == (1, 1, 0.0, 1)
    summary = scores.summary()
    assert [summary[name] for name in ("equal", "ties", "left_out")] == [1, 1, 1]


def test_bands() -> None:
    pairs = tuple(Pair(("a",), (f"b{i}",), "g", d) for i, d in enumerate([1, 3, 4, 7, 8, 12]))
    scores = PairScores(pairs, (1.0, -1.0) * 3, (0.0,) * 6, bands=BETWEEN)
    assert {band: share.count for band, share in scores.by_distance.items()} == {"0-2": 2, "3-6": 2, "7+": 2}


def test_a_suite_becomes_a_file_of_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pairs of the file are those of the suite, readings and all; the same sentence twice is left out."""
    monkeypatch.chdir(tmp_path)
    model = model_of("il a des amis", "le roi de les amis", "à le roi", "des")
    model.save("run")
    same = '{"sentence_a": "Des", "sentence_b": "Des", "type": 8, "label": 0}\n'
    written(tmp_path, "q.jsonl", same.replace('_b": "Des"', '_b": "Les amis"') + same)
    assert cli.run(["pairs", "suite", "q.jsonl", "--model", "run", "--out", "p.jsonl"]) == 0
    assert capsys.readouterr().out == "1 pairs, 1 with the same sentence twice left out: p.jsonl\n"
    (pair,) = read_pairs("p.jsonl")
    assert [pair, Pair(("de", "les"), ("de", "les"), pair.group, readings=((("des",),), (("des",),)))] == read_suite(
        "q.jsonl", model
    )
    assert pair.readings == ((("des",),), ())


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the shared corpora are not at {DATA}")
def test_the_real_suites() -> None:
    pairs = read_suite(DATA / "pairs_french" / "gender_at_a_distance.tsv.gz")
    assert len(pairs) == 17_700
    assert {pair.group for pair in pairs} == {
        f"noun-{kind}-{gender}" for kind in ("adjective", "participle") for gender in ("feminine", "masculine")
    }
    assert all(pair.good[: pair.place] == pair.bad[: pair.place] and not pair.complete for pair in pairs)
    assert max(pair.distance or 0 for pair in pairs) == 12
    pairs = read_suite(DATA / "pairs_french" / "qfrblimp.jsonl.gz")
    assert (len(pairs), len({pair.group for pair in pairs})) == (1761, 20)
    pairs = read_suite(DATA / "pairs_turkish" / "turblimp.tsv.gz")
    assert (len(pairs), len({pair.group for pair in pairs})) == (16_000, 15)  # two on argument structure
    assert sum(pair.good == pair.bad for pair in pairs) == 20
