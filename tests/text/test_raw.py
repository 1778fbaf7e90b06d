"""Raw text of any script is told from tokenised text."""

from __future__ import annotations

from pathlib import Path

from llrnn import Corpus
from llrnn.text.raw import raw_reason, tokenised_lines
from llrnn.text.tokenisers import Unicode

RAW = "The cat sat on the mat, and the dog barked. It was late; nobody came.\n"


def test_what_is_raw_is_not_raw_when_it_was_cut(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(RAW * 10, encoding="utf8")
    raw = Corpus.from_file(tmp_path / "raw.txt")
    assert "27% of the words end in punctuation" in str(raw_reason(raw))
    lines = list(tokenised_lines(tmp_path / "raw.txt"))
    assert len(lines) == 20
    assert raw_reason(Corpus.from_sentences([line.split() for line in lines])) is None


def test_text_without_blanks_is_raw() -> None:
    line = "私は学校へ行きましたが、友達は家にいました。"
    assert "more than 15 characters" in str(raw_reason(Corpus.from_sentences([[line]] * 5)))
    assert raw_reason(Corpus.from_sentences([Unicode().tokenise(line)] * 5)) is None
