"""ARPA files: what is read is what is written, faults have a place and a reason, and KenLM agrees.

`parsed` and `log_p` are the other party in every comparison: a dictionary and a recursion, no code of the library.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llrnn import french
from llrnn.ground.errors import BackgroundError
from llrnn.languages.ngrams import UNKNOWN, NGramTable, estimate, read_arpa, write_arpa
from llrnn.languages.ngrams import arpa as arpa_sections
from llrnn.languages.ngrams.table import Level, backed_off, completed
from llrnn.text.corpus import Corpus
from strategies import draws

BOS, EOS = "<s>", "</s>"
LN_10 = math.log(10.0)
Grams = dict[tuple[str, ...], tuple[float, float]]  # words -> natural log p, log of the back-off weight
fuzz = settings(max_examples=draws(50))

SMALL = r"""
\data\
ngram 1=5
ngram 2=4
ngram 3=2

\1-grams:
-1.5	<unk>	-0.05
-99	<s>	-0.3
-0.6	</s>
-0.48	a	-0.1
-0.7	b	-0.2

\2-grams:
-0.25	<s> a	-0.15
-0.3	a b	-0.4
-0.9	b <unk>
-0.35	b </s>

\3-grams:
-0.2	<s> a b
-0.1	a b </s>

\end\
"""

# `c a b` without `a b`; `a c d b` without `c d b`, nor its context `c d`, nor its suffix `d b`.
# `b a` and `d d` make room in the hash table of KenLM, which otherwise refuses so much pruning
PRUNED = r"""\data\
ngram 1=7
ngram 2=8
ngram 3=4
ngram 4=3

\1-grams:
-2	<unk>	-0.125
-99	<s>	-0.5
-0.75	</s>
-0.5	a	-0.25
-0.625	b	-0.375
-0.875	c	-0.0625
-1.125	d	-0.3

\2-grams:
-0.25	c a	-0.55
-0.45	d c	-0.35
-0.15	<s> d	-0.65
-0.7	<unk> c	0.1
-0.95	b </s>
-0.8	a c	-0.6
-1.3	b a
-1.4	d d

\3-grams:
-0.3	c a b
-0.4	a c d	-0.7
-0.2	d c a	-0.45
-0.1	<s> d c	-0.85

\4-grams:
-0.05	d c a b
-0.5	a c d b
-0.01	<s> d c a

\end\
"""


def parsed(text: str) -> Grams:
    """The n-grams of an ARPA file that has no fault."""
    found: Grams = {}
    n = 0
    for line in text.splitlines():
        if line.endswith("-grams:"):
            n = int(line[1:-7])
        elif n and line and not line.startswith("\\"):
            p, words, *weight = line.split("\t")
            found[tuple(words.split(" "))] = (float(p) * LN_10, float(weight[0]) * LN_10 if weight else 0.0)
    return found


def listed(table: NGramTable) -> Grams:
    """The n-grams of a table, as an ARPA file would list them."""
    found: Grams = {}
    below: list[tuple[str, ...]] = [()]
    for n, level in enumerate(table.levels, 1):
        rows = zip(level.context, level.word, level.log_prob, level.log_backoff, strict=True)
        here = []
        for context, word, p, weight in rows:
            gram = (*below[context], table.words[word])
            found[gram] = (float(p), float(weight))
            here.append((BOS,) if gram == (EOS,) else gram)
        below = here
        if n == 1:
            p, weight = found[EOS,]
            found[EOS,], found[BOS,] = (p, 0.0), (-99 * LN_10, weight)
    return found


def log_p(grams: Grams, context: tuple[str, ...], word: str) -> float:
    if (*context, word) in grams:
        return grams[*context, word][0]
    return grams.get(context, (0.0, 0.0))[1] + log_p(grams, context[1:], word)


def histories(words: Sequence[str], longest: int) -> Iterable[tuple[str, ...]]:
    """Every context of up to so many words; all but the longest also after the beginning of a sentence."""
    plain = [word for word in words if word not in (BOS, EOS)]
    for n in range(longest + 1):
        for history in product(plain, repeat=n):
            yield history
            if n < longest:
                yield (BOS, *history)


def assert_same_model(one: Grams, other: Grams, words: Sequence[str], longest: int) -> None:
    for history in histories(words, longest):
        for word in words:
            assert log_p(one, history, word) == pytest.approx(log_p(other, history, word), abs=1e-9), (history, word)


def assert_close(one: Grams, other: Grams, tolerance: float) -> None:
    assert one.keys() == other.keys()
    assert np.allclose(list(one.values()), [other[gram] for gram in one], rtol=0.0, atol=tolerance)


def estimated(sentences: Sequence[Sequence[str]], order: int, min_counts: Sequence[int] = ()) -> NGramTable:
    words = [*sorted({word for sentence in sentences for word in sentence}), EOS, UNKNOWN]
    number = {word: place for place, word in enumerate(words)}
    text = [EOS, *(word for sentence in sentences for word in (*sentence, EOS))]
    return estimate(np.array([number[word] for word in text]), words, order=order, min_counts=min_counts)


def french_sentences(count: int, skip: int = 0) -> list[list[str]]:
    corpus = Corpus.from_sentences(french.sentences(count, skip=skip)).lowercased()
    return [list(sentence.words) for sentence in corpus]


@pytest.fixture
def arpa(tmp_path: Path) -> Callable[[str | bytes], Path]:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "model.arpa"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


# --- Reading


def test_a_small_file_is_read_with_its_words_in_order(arpa: Callable[[str], Path]) -> None:
    table = read_arpa(arpa(SMALL))
    assert table.words == (UNKNOWN, EOS, "a", "b")
    assert [len(level) for level in table.levels] == [4, 4, 2]
    assert_close(listed(table), parsed(SMALL), 1e-12)
    assert table.levels[0].log_prob[table.eos] == pytest.approx(-0.6 * LN_10)  # that of </s>
    assert table.levels[0].log_backoff[table.eos] == pytest.approx(-0.3 * LN_10)  # that of <s>


@pytest.mark.parametrize("text", [SMALL, PRUNED])
@pytest.mark.parametrize("block", [1, 2, 3, 1000])
def test_order_of_lines_white_space_and_blocks_do_not_matter(
    arpa: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, text: str, block: int
) -> None:
    monkeypatch.setattr(arpa_sections, "_BLOCK", block)
    head, *sections = text.split("\n\n")
    turned = [head]
    for section in sections[:-1]:
        title, *rows = section.splitlines()
        turned.append("\n".join([title, *(rows if title == r"\1-grams:" else rows[::-1])]))
    other = "\n\n".join([*turned, sections[-1]])
    loose = "written by hand\n" + other.replace("\t", "  \t ").replace("\n", " \r\n\r\n").replace("1=", " 1= ")
    expected = read_arpa(arpa(text))
    for path in (arpa(other), arpa(loose), arpa(gzip.compress(("\ufeff" + other).encode()))):  # type: ignore[arg-type]
        found = read_arpa(path)
        assert found.words == expected.words
        for one, two in zip(found.levels, expected.levels, strict=True):
            assert all((a == b).all() for a, b in zip(vars(one).values(), vars(two).values(), strict=True))
            keys = one.keys(len(found.words))
            assert (np.diff(keys) > 0).all()


def test_what_a_file_leaves_open(arpa: Callable[[str], Path]) -> None:
    other_name = read_arpa(arpa(SMALL.replace(UNKNOWN, "<UNK>")))
    assert_close(listed(other_name), parsed(SMALL), 1e-12)
    no_beginning = SMALL.replace("-99\t<s>\t-0.3\n", "").replace("1=5", "1=4").replace("<s>", UNKNOWN)
    table = read_arpa(arpa(no_beginning))
    assert table.levels[0].log_backoff[table.eos] == 0
    empty_order = SMALL.replace("3=2", "3=2\nngram 4=0").replace("\\end", "\\4-grams:\n\n\\end")
    weighted = empty_order.replace("<s> a b", "<s> a b\t0")
    assert read_arpa(arpa(weighted)).order == 3
    spaced = read_arpa(arpa(SMALL.replace("<unk>", "10\u00a0000")))
    assert "10\u00a0000" in spaced.index


def test_probabilities_at_their_limits(arpa: Callable[[str], Path]) -> None:
    table = read_arpa(arpa(SMALL.replace("-0.48\ta", "9e-7\ta").replace("-0.7\tb", "-inf\tb").replace("-1.5", "-99")))
    unknown, _, a, b = table.levels[0].log_prob
    assert (unknown, a, b) == (pytest.approx(-99 * LN_10), 0.0, -math.inf)


# --- Faults

FAULTS: dict[str, tuple[str, str, int, list[str]]] = {
    # what is replaced, by what, the line of the fault, words of the reason
    "no data": ("\\data\\", "data", 24, ["no line", "\\data\\"]),
    "no header": ("ngram 1=5\nngram 2=4\nngram 3=2\n", "", 4, ["ngram 1=COUNT", "\\1-grams:"]),
    "header order": ("ngram 2=4\nngram 3=2", "ngram 3=2\nngram 2=4", 4, ["ngram 2=COUNT", "ngram 3=2"]),
    "header text": ("ngram 2=4", "ngrams 2=4", 4, ["ngram 2=COUNT"]),
    "header number": ("ngram 2=4", "ngram 2=four", 4, ["ngram 2=COUNT"]),
    "header digits": ("ngram 2=4", "ngram 2=" + "9" * 5000, 4, ["ngram 2=COUNT"]),
    "too many": ("ngram 2=4", "ngram 2=3", 4, ["says 3 2-grams", "lists 4"]),
    "too few": ("ngram 1=5", "ngram 1=6", 3, ["says 6 1-grams", "lists 5"]),
    "none": ("ngram 3=2", "ngram 3=7000000000", 5, ["says 7000000000 3-grams", "lists 2"]),
    "order of sections": ("\\2-grams:", "\\3-grams:", 14, ["\\2-grams: is required", "\\3-grams:"]),
    "missing section": ("\\3-grams:\n-0.2\t<s> a b\n-0.1\ta b </s>\n\n", "", 20, ["\\3-grams: is required", "\\end\\"]),
    "section too many": ("\\end", "\\4-grams:\n\n\\end", 24, ["\\end\\ is required", "\\4-grams:"]),
    "no end": ("\\end\\\n", "", 23, ["\\end\\ is required", "\\3-grams:", "written to the end"]),
    "cut": ("b\n-0.1\ta b </s>\n\n\\end\\\n", "", 21, ["\\end\\ is required", "\\3-grams:"]),
    "more after the end": ("\\end\\\n", "\\end\\\n\n\\data\\\n", 26, ["nothing may follow"]),
    "field missing": ("-0.9\tb <unk>", "-0.9\tb", 17, ["2 words", "2 fields", "-0.9 b"]),
    "fields too many": ("-0.9\tb <unk>", "-0.9\tb <unk> a 0.1", 17, ["2 words", "5 fields"]),
    "weight at the top": ("<s> a b", "<s> a b\t-0.5", 21, ["no back-off weight at the highest order", "5 fields"]),
    "number alone": ("-0.7\tb\t-0.2", "-0.7", 12, ["1 word", "1 fields"]),
    "no number": ("-0.3\ta b", "x0.3\ta b", 16, ["a number", "'x0.3'"]),
    "decimal comma": ("-0.4\n", "-0,4\n", 16, ["a number", "'-0,4'"]),
    "p is NaN": ("-0.3\ta b", "nan\ta b", 16, ["log10 p", "nan"]),
    "p above 1": ("-0.3\ta b", "0.00001\ta b", 16, ["log10 p", "0 or less", "0.00001"]),
    "p infinite": ("-0.3\ta b", "inf\ta b", 16, ["log10 p", "inf"]),
    "weight infinite": ("a b\t-0.4", "a b\t-inf", 16, ["back-off weight must be finite", "-inf"]),
    "weight NaN": ("a b\t-0.4", "a b\tnan", 16, ["back-off weight must be finite", "nan"]),
    "no weight": ("a b\t-0.4", "a b", 16, ["'a b' has continuations (line 22)", "no back-off", "write 0"]),
    "no weight of a unigram": ("b\t-0.2", "b", 12, ["'b' has continuations (line 17)", "no back-off"]),
    "no weight of the beginning": ("<s>\t-0.3", "<s>", 9, ["'<s>' has continuations (line 15)", "no back-off"]),
    "no end of sentences": ("-0.6\t</s>", "-0.6\tc", 12, ["must list </s>", "sentence boundaries"]),
    "<s> inside": ("a b </s>", "a <s> b", 22, ["<s> may only begin", "'a <s> b'"]),
    "<s> at the end": ("b <unk>", "b <s>", 17, ["<s> may only begin", "'b <s>'"]),
    "</s> inside": ("a b </s>", "a </s> b", 22, ["</s> only end", "'a </s> b'"]),
    "</s> at the beginning": ("b <unk>", "</s> a", 17, ["</s> only end", "'</s> a'"]),
    "strange word": ("<s> a b", "<s> a zebra", 21, ["'zebra' is not among the 1-grams"]),
    "strange <UNK>": ("-1.5\t<unk>\t-0.05", "-1.5\tc", 17, ["'<unk>' is not among the 1-grams"]),
    "context not listed": ("<s> a b", "b a b", 21, ["'b a b' needs its context 'b a'", "2-grams"]),
    "twice": ("b <unk>", "a b", 17, ["'a b' is listed twice", "line 16"]),
    "twice at the top": ("a b </s>", "<s> a b", 22, ["'<s> a b' is listed twice", "line 21"]),
    "word twice": ("-0.7\tb", "-0.7\ta", 12, ["'a' is listed twice", "line 11"]),
    "unknown twice": ("-0.7\tb", "-0.7\t<UNK>", 12, ["'<unk>' is listed twice", "line 8"]),
}


def message(path: Path) -> str:
    with pytest.raises(BackgroundError) as caught:
        read_arpa(path)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize("block", [2, 1000])
@pytest.mark.parametrize(("old", "new", "line", "reasons"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_has_its_line_and_reason(
    arpa: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    new: str,
    line: int,
    reasons: list[str],
    block: int,
) -> None:
    monkeypatch.setattr(arpa_sections, "_BLOCK", block)
    assert SMALL.count(old) == 1
    path = arpa(SMALL.replace(old, new))
    found = message(path)
    assert found.startswith(f"{path}:{line}: ")
    for reason in reasons:
        assert reason in found


def test_a_model_without_boundaries_is_refused(arpa: Callable[[str], Path]) -> None:
    path = arpa("\\data\\\nngram 1=1\n\n\\1-grams:\n-0.1\ta\n\n\\end\\\n")
    assert message(path).startswith(f"{path}:5: the 1-grams must list </s>")
    assert "sentence boundaries" in message(path)
    path = arpa("\\data\\\nngram 1=0\n\n\\1-grams:\n\n\\end\\\n")
    assert "must list </s>" in message(path)


def test_what_is_no_text_file_is_refused(arpa: Callable[[str | bytes], Path], tmp_path: Path) -> None:
    assert message(tmp_path / "none.arpa").startswith(f"{tmp_path / 'none.arpa'}: a file is required")
    assert message(tmp_path).startswith(f"{tmp_path}: a file is required, but this is a folder")
    path = arpa("")
    assert message(path).startswith(f"{path}: text is required, but the file is empty")
    path = arpa(SMALL.replace("b <unk>", "é <unk>").encode("latin1"))
    assert message(path).startswith(f"{path}:17:6: UTF-8 is required")
    path = arpa(b"mmap lm http://kheafield.com/code format version 5\n\0")
    assert message(path).startswith(f"{path}:2:1: text is required")


@pytest.mark.parametrize("cut", [3, 12, 30, -9, -5, -1])
def test_a_gzip_file_that_was_cut_is_refused(arpa: Callable[[str | bytes], Path], cut: int) -> None:
    path = arpa(gzip.compress(SMALL.encode())[:cut])
    assert "a whole gzip file is required, but this one is cut short" in message(path)


def test_a_gzip_file_that_was_damaged_is_refused(arpa: Callable[[str | bytes], Path]) -> None:
    whole = gzip.compress(SMALL.encode())
    for at in (15, -6):  # the content, the check sum
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        assert "a whole gzip file is required, but this one is damaged" in message(arpa(bytes(damaged)))


@fuzz
@given(st.data())
def test_whatever_is_changed_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """No error of another kind, and no line that is not in the file."""
    text = SMALL.encode()
    at = data.draw(st.integers(0, len(text)))
    upto = data.draw(st.integers(at, min(len(text), at + 12)))
    piece = data.draw(st.sampled_from([b"", b"\n", b"\t", b" ", b"-", b"<s>", b"\\", b"\\end\\", b"\xff", b"9", b"a"]))
    path = tmp_path / "changed.arpa"
    path.write_bytes(text[:at] + piece + text[upto:])
    try:
        read_arpa(path)
        return
    except BackgroundError as error:
        found = error
    line = getattr(found, "line", None)
    assert str(found).startswith(f"{path}:")
    assert line is None or 1 <= line <= path.read_bytes().count(b"\n") + 1


# --- Writing

WORDS = st.sampled_from(["a", "b", "été", "10\u00a0000", "\\end\\", "日本", "-1"])
CORPORA = st.lists(st.lists(WORDS, max_size=6), min_size=1, max_size=12)


@fuzz
@given(CORPORA, st.integers(1, 5), st.lists(st.integers(0, 3), max_size=3), st.sampled_from(["m.arpa", "m.arpa.gz"]))
def test_what_is_written_is_read(
    tmp_path: Path, sentences: list[list[str]], order: int, min_counts: list[int], name: str
) -> None:
    table = estimated(sentences, order, min_counts)
    write_arpa(table, tmp_path / name)
    found = read_arpa(tmp_path / name)
    assert found.words == table.words
    for one, other in zip(found.levels, table.levels, strict=True):
        assert (one.context == other.context).all()
        assert (one.word == other.word).all()
        assert np.allclose(one.log_prob, np.maximum(other.log_prob, -99 * LN_10), rtol=0.0, atol=1e-6)
        assert np.allclose(one.log_backoff, np.maximum(other.log_backoff, -99 * LN_10), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("text", [SMALL, PRUNED])
def test_the_written_text_is_what_was_read(arpa: Callable[[str], Path], tmp_path: Path, text: str) -> None:
    """But for the order of n-grams, and weights of what nothing follows; `parsed` reads both texts."""
    written = tmp_path / "again.arpa"
    write_arpa(read_arpa(arpa(text)), written)
    content = written.read_text(encoding="utf8")
    assert_close(parsed(content), parsed(text), 1e-12)
    assert [line for line in content.splitlines() if line.startswith("ngram")] == [
        line for line in text.splitlines() if line.startswith("ngram")
    ]
    assert content.startswith("\\data\\\nngram 1=")
    assert content.endswith("\n\n\\end\\\n")
    assert "\n-99\t<s>\t-0." in content
    assert "\t</s>\n" in content


def test_the_bytes_depend_on_the_table_alone(arpa: Callable[[str], Path], tmp_path: Path) -> None:
    table = read_arpa(arpa(SMALL))
    for name in ("one.gz", "two.gz", "three.arpa"):
        write_arpa(table, tmp_path / name)
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    assert (tmp_path / "one.gz").read_bytes()[4:8] == bytes(4)  # no time
    assert gzip.decompress((tmp_path / "one.gz").read_bytes()) == (tmp_path / "three.arpa").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"model.arpa", "one.gz", "two.gz", "three.arpa"}


def test_a_weight_of_one_is_written_where_something_follows(arpa: Callable[[str], Path], tmp_path: Path) -> None:
    write_arpa(read_arpa(arpa(SMALL.replace("a b\t-0.4", "a b\t0"))), tmp_path / "m")
    content = (tmp_path / "m").read_text()
    assert "\ta b\t0\n" in content
    assert "\tb <unk>\n" in content
    assert read_arpa(tmp_path / "m").order == 3


def test_standard_output_gets_what_a_file_gets(
    arpa: Callable[[str], Path], capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    table = read_arpa(arpa(SMALL))
    write_arpa(table, tmp_path / "m")
    write_arpa(table, "-")
    assert capsysbinary.readouterr().out == (tmp_path / "m").read_bytes()


def test_nought_and_no_order_above_one(tmp_path: Path) -> None:
    level = Level(np.zeros(2, dtype=np.int64), np.arange(2), np.array([0.0, -np.inf]), np.zeros(2))
    write_arpa(NGramTable((EOS, "a"), (level,)), tmp_path / "m")
    assert (tmp_path / "m").read_text().split("\n\n")[1] == "\\1-grams:\n-99\t<s>\n0\t</s>\n-99\ta"
    assert read_arpa(tmp_path / "m").levels[0].log_prob.tolist() == [0.0, -99 * LN_10]


@pytest.mark.parametrize("word", ["", "a b", "a\tb", "<s>", "<UNK>", " a", "a\n", "\ud800"])
def test_a_word_that_would_be_read_otherwise_is_not_written(tmp_path: Path, word: str) -> None:
    level = Level(np.zeros(2, dtype=np.int64), np.arange(2), np.full(2, -1.0), np.zeros(2))
    with pytest.raises(BackgroundError, match="rename it"):
        write_arpa(NGramTable((EOS, word), (level,)), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(arpa: Callable[[str], Path], tmp_path: Path) -> None:
    table = read_arpa(arpa(SMALL))
    with pytest.raises(BackgroundError, match=r"none.m: the ARPA file cannot be written: No such file"):
        write_arpa(table, tmp_path / "none" / "m")
    no_end = Level(np.zeros(1, dtype=np.int64), np.arange(1), np.full(1, -1.0), np.zeros(1))
    with pytest.raises(BackgroundError, match="end of sentences"):
        write_arpa(NGramTable(("a",), (no_end,)), tmp_path / "m")


# --- Suffixes that are not listed


def assert_completed(text: str, table: NGramTable) -> None:
    whole = completed(table)
    assert whole.words == table.words
    assert all((suffixes >= 0).all() for suffixes in whole.suffixes)
    for level in whole.levels[1:]:
        assert (np.diff(level.keys(len(whole.words))) > 0).all()
    grams = parsed(text)
    assert_same_model(listed(whole), grams, table.words, table.order)
    for history in histories(table.words, table.order - 1):
        asked = np.array(
            [[table.index[EOS if word == BOS else word] for word in history]] * len(table.words), dtype=int
        )
        found = backed_off(table, asked.reshape(len(table.words), -1), np.arange(len(table.words)))
        expected = [log_p(grams, history, word) for word in table.words]
        assert np.allclose(found, expected, rtol=0.0, atol=1e-9)


def test_completion_of_a_pruned_model_changes_no_probability(arpa: Callable[[str], Path]) -> None:
    table = read_arpa(arpa(PRUNED))
    assert (table.suffixes[1] < 0).any()
    assert (table.suffixes[2] < 0).any()
    assert_completed(PRUNED, table)
    extra = set(listed(completed(table))) - set(parsed(PRUNED))
    assert extra == {("a", "b"), ("c", "d"), ("d", "b"), ("c", "d", "b")}


def arpa_text(grams: Iterable[tuple[str, ...]], weight: Callable[[int], float]) -> str:
    """An ARPA file of these n-grams, with whatever numbers."""
    orders: dict[int, list[str]] = {}
    for place, gram in enumerate(sorted(grams)):
        row = f"{weight(place):.4f}\t{' '.join(gram)}\t{weight(place + 77) + 1:.4f}"
        orders.setdefault(len(gram), []).append(row)
    highest = max(orders)
    orders[highest] = [row.rpartition("\t")[0] for row in orders[highest]]
    head = "\n".join(f"ngram {n}={len(orders[n])}" for n in sorted(orders))
    body = "\n\n".join("\n".join([f"\\{n}-grams:", *orders[n]]) for n in sorted(orders))
    return f"\\data\\\n{head}\n\n{body}\n\n\\end\\\n"


@st.composite
def pruned_files(draw: st.DrawFn) -> str:
    """Contexts are listed, suffixes only by chance; the numbers are no distribution, which back-off does not mind."""
    words = ["a", "b", "c"]
    longest = draw(
        st.lists(
            st.tuples(st.lists(st.sampled_from(words), min_size=1, max_size=4), st.booleans(), st.booleans()),
            max_size=6,
        )
    )
    grams: set[tuple[str, ...]] = {(word,) for word in (*words, BOS, EOS)}
    for middle, begins, ends in longest:
        gram = (*[BOS] * begins, *middle, *[EOS] * ends)
        grams |= {gram[:n] for n in range(1, len(gram) + 1)}
    if max(map(len, grams)) == 1:
        grams.add((BOS, EOS))
    shift = draw(st.integers(0, 1000))
    return arpa_text(grams, lambda place: -((place * 37 + shift * 13) % 101) / 50)


@fuzz
@given(pruned_files())
def test_completion_of_any_pruned_model_changes_no_probability(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pruned.arpa"
    path.write_text(text, encoding="utf8")
    table = read_arpa(path)
    if table.order > 4:  # too many contexts for brute force
        assert all((suffixes >= 0).all() for suffixes in completed(table).suffixes)
        return
    assert_completed(text, table)


# --- KenLM


def assert_kenlm_agrees(path: Path, grams: Grams, sentences: Sequence[Sequence[str]], order: int) -> None:
    kenlm = pytest.importorskip("kenlm")
    model = kenlm.Model(str(path))
    assert model.order == order
    for sentence in sentences:
        words = [word if (word,) in grams else UNKNOWN for word in sentence]
        history = [BOS, *words]
        scores = [score for score, _, _ in model.full_scores(" ".join(sentence), bos=True, eos=True)]
        assert len(scores) == len(sentence) + 1
        for t, (word, score) in enumerate(zip([*words, EOS], scores, strict=True), 1):
            expected = log_p(grams, tuple(history[max(0, t - order + 1) : t]), word)
            assert score * LN_10 == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("min_counts", [(), (1, 1, 2, 2)])
@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
def test_kenlm_agrees_on_an_estimated_model(tmp_path: Path, min_counts: tuple[int, ...], name: str) -> None:
    table = estimated(french_sentences(300), 4, min_counts)
    write_arpa(table, tmp_path / name)
    asked = [*french_sentences(50), *french_sentences(100, skip=300), ["inconnu", "la", "inconnu"], []]
    assert_kenlm_agrees(tmp_path / name, listed(table), asked, 4)


def test_kenlm_agrees_on_a_pruned_model_and_on_its_completion(arpa: Callable[[str], Path], tmp_path: Path) -> None:
    path = arpa(PRUNED)
    asked = [list(words) for n in range(5) for words in product(["a", "b", "c", "d", "e"], repeat=n)]
    assert_kenlm_agrees(path, listed(read_arpa(path)), asked, 4)
    whole = completed(read_arpa(path))
    write_arpa(whole, tmp_path / "whole.arpa")
    assert_kenlm_agrees(tmp_path / "whole.arpa", listed(whole), asked, 4)
