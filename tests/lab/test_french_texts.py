"""Other French texts, written as UD French GSD is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from llrnn import Corpus, french
from llrnn.text.readers import conllu_lines
from llrnn_lab.studies import prepare as preparing
from llrnn_lab.studies.french_texts import Contractions, sentences
from llrnn_lab.studies.prepare import prepare

TEXT = Corpus.from_sentences(
    [
        line.split()
        for line in [
            "il a des amis .",
            "il a des chiens .",
            "il voit des amis .",
            "le roi de les francs est là .",
            "la fin de les temps .",
            "le jour de le roi .",
            "elle va à le parc , à les champs , celui-ci est là .",
            "a -t -il mangé ?",
            "il boit du vin .",
        ]
    ]
)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("il a des chats .", "il a des chats ."),
        ("le roi des temps .", "le roi de les temps ."),
        ("le jour du roi .", "le jour de le roi ."),
        ("il boit du vin .", "il boit du vin ."),
        ("au parc aux champs", "à le parc à les champs"),
        ("auquel desquelles", "à lequel de lesquelles"),
        ("dit-il , est-ce , a-t-elle , celui-ci", "dit -il , est -ce , a -t -elle , celui-ci"),
        ("-t-il", "-t -il"),
        ("l’ ami … aujourd' hui", "l' ami ... aujourd'hui"),
        ("elle va là.", "elle va là ."),
    ],
)
def test_sentences_are_written_as_the_text_is(written: str, wanted: str) -> None:
    assert " ".join(Contractions(TEXT).written_out(written.split())) == wanted


def test_words_that_are_two_already_stay() -> None:
    assert Contractions(TEXT).written_out(["le", "roi", "des", "temps", "est-ce"], contracted=False)[:3] == [
        "le",
        "roi",
        "des",
    ]


def test_accuracy_is_counted_on_text_that_says_what_is_right() -> None:
    found = Contractions(TEXT).accuracy(TEXT)
    assert found["au"] == found["aux"] == (1, 1)
    assert found["des"] == (5, 5)


def test_paragraphs_are_cut_where_sentences_end() -> None:
    line = "« Ah ! dit-il. Venez… » M. Pons s’assit. Il rit ! – Oui."
    assert [" ".join(words) for words in sentences(line)] == [
        "« ah ! dit-il .",
        "venez ... »",
        "m. pons s' assit .",
        "il rit !",
        "-- oui .",
    ]


def test_the_folder_has_other_texts_as_the_corpus_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small copy of the data's folders; what is there already is left alone."""
    data, made = tmp_path / "data", list(french.sentences(90, skip=2000))
    for place, parts in {
        "ud_french_gsd/fr_gsd-train": made[:50],
        "ud_french_gsd/fr_gsd-dev": made[50:60],
        "ud_french_gsd/fr_gsd-test": made[60:70],
        "ud_french/fr_gsd-ud-test": made[60:70],
        "ud_french/fr_pud-ud-test": made[70:],
    }.items():
        (data / place).parent.mkdir(parents=True, exist_ok=True)
        (data / f"{place}.conllu").write_text("".join(f"{line}\n" for line in conllu_lines(parts)))
    for name in ("novels_french/novel", "wiki_french/wiki"):
        (data / name).parent.mkdir()
        with gzip.open(data / f"{name}.txt.gz", "wt") as file:
            file.write("Il va au parc. Elle rit.\n" if "novel" in name else "il va au parc .\n")
    (tmp_path / "fr.dic").write_text("0\n")
    monkeypatch.setattr(preparing, "HUNSPELL", tmp_path / "fr.dic")
    monkeypatch.setattr(preparing, "_prepare", only_the_text)
    prepare(data, tmp_path / "out")
    written = {path.name: path.read_text() for path in (tmp_path / "out").glob("other-*.txt")}
    assert written["other-novels.txt"] == "il va à le parc .\nelle rit .\n"
    assert written["other-wiki.txt"] == "il va à le parc .\n"
    assert written["other-treebanks.txt"]
    told = json.loads((tmp_path / "out" / "other.json").read_bytes())
    found = told["texts"]["wiki"]
    assert (found["sentences"], found["words"]) == (1, 6)
    assert 0 < found["valid"] < 20
    (tmp_path / "out" / "other-wiki.txt").write_text("mine\n")
    prepare(data, tmp_path / "out")
    assert (tmp_path / "out" / "other-wiki.txt").read_text() == "mine\n"


def only_the_text(source: preparing.Source, out: Path, *_: object) -> None:
    """What the other texts need of the rest, which takes minutes."""
    out.mkdir(exist_ok=True)
    for part in ("train", "valid", "test1", "test2"):
        (out / f"{part}.conllu").write_bytes(source.parts["train"].read_bytes())
    lines = (" ".join(sentence.words) for path in source.treebanks for sentence in Corpus.from_file(path))
    (out / "treebanks.txt").write_text("".join(f"{line}\n" for line in lines))
