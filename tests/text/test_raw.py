"""Raw text of any script is told from tokenised text, and cut into sentences and words."""

from __future__ import annotations

from pathlib import Path

import pytest

from llrnn import Corpus
from llrnn.text.raw import raw_reason, sentences, tokenise, tokenised_lines


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('He said: "No."', 'He said : " No . "'),
        ("L’homme d'ici aujourd'hui", "L’ homme d' ici aujourd'hui"),
        ("Ankara'da 3,5 km, saat 12:30.", "Ankara'da 3,5 km , saat 12:30 ."),
        ("well-known (e.g. here)…", "well-known ( e.g . here ) …"),
        ("вот так, да!", "вот так , да !"),
        ("यह हिन्दी है। नमस्ते!", "यह हिन्दी है । नमस्ते !"),
        ("これはペン。", "こ れ は ペ ン 。"),
        ("我有3本书！", "我 有 3 本 书 ！"),
        ("ภาษาไทย", "ภ า ษ า ไ ท ย"),
        ("العربية، نعم؟", "العربية ، نعم ؟"),
        ("café".replace("é", "e\u0301"), "cafe\u0301"),
        ("می‌خواهم", "می‌خواهم"),
        ("", ""),
    ],
)
def test_words_of_any_script(line: str, words: str) -> None:
    assert tokenise(line) == words.split()
    assert "".join(tokenise(line)) == "".join(line.split())  # nothing is lost


def test_sentences_end_where_no_lowercase_word_follows() -> None:
    assert [" ".join(one) for one in sentences("It is 3.5 km. He said e.g. nothing! «No.» Why? ok")] == [
        "It is 3.5 km .",
        "He said e.g . nothing !",
        "« No . »",
        "Why ? ok",
    ]
    assert [len(one) for one in sentences("彼は行く。私も行く。")] == [5, 5]
    assert list(sentences("...")) == [[".", ".", "."]]


RAW = "The cat sat on the mat, and the dog barked. It was late; nobody came.\n"


def test_what_is_raw_is_not_raw_when_it_was_cut(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(RAW * 10, encoding="utf8")
    raw = Corpus.from_text(tmp_path / "raw.txt")
    assert "27% of the words end in punctuation" in str(raw_reason(raw))
    lines = list(tokenised_lines(tmp_path / "raw.txt"))
    assert len(lines) == 20
    assert raw_reason(Corpus.from_sentences([line.split() for line in lines])) is None


def test_text_without_blanks_is_raw() -> None:
    line = "私は学校へ行きましたが、友達は家にいました。"
    assert "more than 15 characters" in str(raw_reason(Corpus.from_sentences([[line]] * 5)))
    assert raw_reason(Corpus.from_sentences([tokenise(line)] * 5)) is None
