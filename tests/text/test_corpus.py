"""Corpora: what the readers accept, and what every bad input is answered."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llrnn.text.corpus
from llrnn.ground.errors import CorpusError, LexiconError
from llrnn.text.corpus import Corpus, Sentence, Token, read_conllu, read_jsonl, read_text
from llrnn.text.readers import read_lines
from strategies import draws

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the shared corpora are not at {DATA}")
fuzz = settings(max_examples=draws(60))

Reader = Callable[[Path], Iterator[Sentence]]


def packed(content: bytes) -> bytes:
    """Gzip without a time stamp: the tests are the same in every process."""
    return gzip.compress(content, mtime=0)


def row(
    number: object,
    form: str,
    *,
    lemma: str = "_",
    pos: str = "_",
    feats: str = "_",
    head: str = "_",
    relation: str = "_",
) -> str:
    return f"{number}\t{form}\t{lemma}\t{pos}\t_\t{feats}\t{head}\t{relation}\t_\t_\n"


DU_CHAT = (
    "# newdoc\n"
    "# sent_id = s1\n"
    + row("0.1", "_")
    + row("1-2", "Du")
    + row(1, "De", lemma="de", pos="ADP", head="3", relation="case")
    + row(2, "le", lemma="le", pos="DET", feats="Gender=Masc|Number=Sing", head="3", relation="det")
    + row(3, "chat", lemma="chat", pos="NOUN", feats="Case=Acc,Nom|Gender=Masc", head="0", relation="root")
    + row("3.1", "_")
    + row("3.2", "_")
    + "\n\n"
    + row(1, "_", pos="SYM")
)


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes, name: str = "f.conllu") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def consume(result: object) -> None:
    if isinstance(result, Iterator):
        list(result)


def message(reader: Callable[[Path], object], path: Path) -> str:
    """What reading is answered, without the folder."""
    with pytest.raises(CorpusError) as caught:
        consume(reader(path))
    return str(caught.value).replace(f"{path.parent}{os.sep}", "")


# --- lines of a file


@pytest.mark.parametrize(
    "content",
    [b"a\nb\n", b"a\nb", b"a\r\nb\r\n", b"a\r\nb\r", b"\xef\xbb\xbfa\nb\n", b"a\nb\n\xef\xbb\xbf"[:4]],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines(file: Callable[..., Path], content: bytes, pack: Callable[[bytes], bytes]) -> None:
    assert list(read_lines(file(pack(content), "no-extension"))) == [(1, "a"), (2, "b")]


def test_lines_across_blocks(file: Callable[..., Path]) -> None:
    lines = [f"{number} " + "é" * (number % 3000) for number in range(2000)]
    assert [line for _, line in read_lines(file("\n".join(lines)))] == lines
    one = "é" * 3_000_000
    assert list(read_lines(file(one))) == [(1, one)]


def test_members_of_gzip_are_joined(file: Callable[..., Path]) -> None:
    assert list(read_lines(file(packed(b"a\n") + packed(b"b\n")))) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        (b"", "f:", "empty"),
        (b"\xef\xbb\xbf", "f:", "empty"),
        (packed(b""), "f:", "empty"),
        ("été\nà b\xe9".encode("latin-1"), "f:1:1:", "UTF-8 is required, but here is the byte 0xe9"),
        ("été\nà b".encode() + b"\xe9c\n", "f:2:4:", "iconv"),
        (b"a\n" + "é".encode() + b"\0b\n", "f:2:2:", "NUL byte"),
        (b"\0" * 3_000_000, "f:1:1:", "NUL byte"),
        (b"a\nb\rc\n", "f:2:2:", "carriage return alone"),
        (b"PK\x03\x04rest", "f:1:1:", "looks like a zip archive; unpack it first"),
        (b"%PDF-1.7", "f:1:1:", "a PDF document"),
        (b"\x89PNG\r\n", "f:1:1:", "a PNG image"),
        (b"BZh91AY&SY", "f:1:1:", "a bzip2 file"),
        (b"a" * 257 + b"ustar", "f:1:1:", "a tar archive"),
        ("a".encode("utf-16"), "f:1:1:", "UTF-16 text"),
        ("a".encode("utf-32"), "f:1:1:", "UTF-32 text"),
        (packed(packed(b"a")), "f:1:1:", "inside a gzip file"),
        (packed(b"PK\x03\x04"), "f:1:1:", "a zip archive"),
        (packed(b"a\n" * 9)[:-4], "f:", "cut short"),
        (b"\x1f\x8b\x08", "f:1:", "cut short"),
        (b"\x1f\x8b\x08\x00rubbish rubbish", "f:1:", "damaged"),
        (packed(b"a\n") + b"rubbish", "f:", "damaged"),
    ],
)
def test_bad_bytes(file: Callable[..., Path], content: bytes, place: str, reason: str) -> None:
    found = message(read_text, file(content, "f"))
    assert found.startswith(place)
    assert reason in found


def test_lines_before_a_fault_are_handed_out(file: Callable[..., Path]) -> None:
    lines = read_lines(file(b"a\r\nb\n\xff\nd\n"))
    assert [next(lines), next(lines)] == [(1, "a"), (2, "b")]
    with pytest.raises(CorpusError, match=r":3:1: UTF-8"):
        next(lines)


def test_damage_in_gzip_names_the_line(file: Callable[..., Path]) -> None:
    numbers = "".join(f"{number * number}\n" for number in range(200_000)).encode()
    content = packed(numbers)
    with pytest.raises(CorpusError) as caught:
        list(read_lines(file(content[: len(content) // 2])))
    assert caught.value.line is not None
    assert 50_000 < caught.value.line < 150_000


def test_what_is_no_readable_file(tmp_path: Path, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert message(read_text, tmp_path / "none.txt") == (
        "none.txt: a file is required, but there is none of this name; check the path"
    )
    assert "this is a folder" in message(read_text, tmp_path)
    assert "embedded null byte" in message(read_text, tmp_path / "a\0b")
    assert "cannot be read" in message(read_text, tmp_path / ("x" * 5000))
    path = file("a")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root may read everything, so no mode can forbid it
    assert "permission denied" in message(read_text, path)


def test_the_error_class_is_the_callers(tmp_path: Path) -> None:
    with pytest.raises(LexiconError):
        list(read_lines(tmp_path / "none", error=LexiconError))


# --- CoNLL-U


def test_words(file: Callable[..., Path]) -> None:
    path = file(DU_CHAT)
    first, second = read_conllu(path)
    assert first == Sentence(
        (
            Token("De", "de", "ADP", {}, 3, "case"),
            Token("le", "le", "DET", {"Gender": "Masc", "Number": "Sing"}, 3, "det"),
            Token("chat", "chat", "NOUN", {"Case": "Acc,Nom", "Gender": "Masc"}, 0, "root"),
        ),
        name="s1",
    )
    assert first.tokens[2].attributes() == {"POS:NOUN", "Case:Acc", "Case:Nom", "Gender:Masc"}
    assert second == Sentence((Token("_", pos="SYM"),), name=f"{path}:12")


def test_lowercase_leaves_the_lemma(file: Callable[..., Path]) -> None:
    text = row("1-2", "AB") + row(1, "A", lemma="A") + row(2, "É", lemma="É")
    (words,) = read_conllu(file(text), lowercase=True)
    assert [(word.form, word.lemma) for word in words.tokens] == [("a", "A"), ("é", "É")]


@pytest.mark.parametrize("change", [lambda text: text, lambda text: text.replace("\n", "\r\n"), str.rstrip])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_conllu_in_other_dress(
    file: Callable[..., Path], change: Callable[[str], str], pack: Callable[[bytes], bytes], mark: bytes
) -> None:
    path = file(pack(mark + change(DU_CHAT).encode()))
    assert [sentence.words for sentence in read_conllu(path)] == [("De", "le", "chat"), ("_",)]


def test_readings_are_shared(file: Callable[..., Path]) -> None:
    (sentence,) = read_conllu(file(row(1, "le", feats="A=1") + row(2, "le", feats="A=1")))
    first, second = sentence.tokens
    assert first.form is second.form
    assert first.feats is second.feats


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("1\ta\n", "f.conllu:1:4: 10 columns separated by a TAB are required, found 2; they are ID FORM"),
        (
            row(1, "a")[:-1] + "\tmore\n",
            "f.conllu:1:20: 10 columns separated by a TAB are required, found 11",
        ),
        (
            "1 a a _ _ _ _ _ _ _\n",
            "f.conllu:1:20: 10 columns separated by a TAB are required, found 1; is it",
        ),
        (
            row(1, "a") + "  \n",
            "f.conllu:2:3: 10 columns separated by a TAB are required, found 1 (whitespace",
        ),
        (row(2, "a"), "f.conllu:1:1: the ID must be 1 here"),
        (row(1, "a") + row(3, "b"), "f.conllu:2:1: the ID must be 2 here"),
        (row(1, "a") + row(1, "b"), "f.conllu:2:1: the ID must be 2 here"),
        (row("01", "a"), "f.conllu:1:1: the ID must be 1 here"),
        (row("", "a"), "f.conllu:1:1: the ID must be 1 here"),
        (row("²", "a"), "f.conllu:1:1: the ID must be 1 here"),
        (row("1" * 5000 + "-" + "1" * 5000, "a"), "f.conllu:1:1: the ID must be 1 here"),
        (row("1-", "a"), "f.conllu:1:1: the ID must be 1 here"),
        (row("2-1", "a"), "f.conllu:1:1: the ID must be 1 here"),
        (row("2-3", "a") + row(1, "b"), "f.conllu:1:1: the ID must be 1 here"),
        (row("1-2", "a") + row("1-2", "a"), "f.conllu:2:1: the ID must be 1 here"),
        (row("1-3", "a") + row(1, "b") + row("2-3", "c"), "f.conllu:3:1: the ID must be 2 here"),
        (row("1-2", "a") + row(1, "b"), "f.conllu:1:1: the multiword token must cover words of its sentence"),
        (row("1.1", "a") + row(1, "b"), "f.conllu:1:1: the ID must be 1 here"),
        (row("0.2", "a") + row(1, "b"), "f.conllu:1:1: the ID must be 1 here"),
        (row("0.1", "a"), "f.conllu:1:1: a sentence must have a word, found empty nodes only"),
        (row(1, ""), "f.conllu:1:3: FORM must not be empty; write the word"),
        (row("1-2", "") + row(1, "a") + row(2, "b"), "f.conllu:1:5: FORM must not be empty"),
        (row(1, "a", lemma=""), "f.conllu:1:5: LEMMA must not be empty; write _ for nothing"),
        (row(1, "a", pos="A B"), "f.conllu:1:7: UPOS must be one tag"),
        (row(1, "a", feats="Gender"), "f.conllu:1:11: FEATS must be _ or Name=Value"),
        (row(1, "a", feats="A=b|Gender="), "f.conllu:1:15: FEATS must be _ or Name=Value"),
        (row(1, "a", feats="A=b,,c"), "f.conllu:1:11: FEATS must be"),
        (row(1, "a", feats="A=b c"), "f.conllu:1:11: FEATS must be"),
        (row(1, "a", feats="A=b|"), "f.conllu:1:15: FEATS must be"),
        (
            row(1, "a", feats="A=b|A=c"),
            "f.conllu:1:15: FEATS must give each name once, found 'A' again; write A=b,c",
        ),
        (row(1, "a", head="x"), "f.conllu:1:13: HEAD must be _, 0 or the ID of a word, found 'x'"),
        (row(1, "a", head="-1"), "f.conllu:1:13: HEAD must be _, 0 or"),
        (row(1, "a", head="9" * 5000), "f.conllu:1:13: HEAD must be _, 0 or"),
        (row(1, "a") + row(2, "b", head="3"), "f.conllu:2:13: HEAD must be between 0 and 2 here, found 3"),
    ],
)
def test_bad_conllu(file: Callable[..., Path], content: str, expected: str) -> None:
    assert message(read_conllu, file(content)).startswith(expected)


# --- plain text, JSON lines


def test_text(file: Callable[..., Path]) -> None:
    path = file("Le chat\n\n \t \n dort  ici\n", "f.txt")
    assert list(read_text(path)) == [
        Sentence((Token("Le"), Token("chat")), name=f"{path}:1"),
        Sentence((Token("dort"), Token("ici")), name=f"{path}:4"),
    ]
    assert next(read_text(path, lowercase=True)).words == ("le", "chat")


def test_jsonl(file: Callable[..., Path]) -> None:
    path = file(
        '{"target": "Le  chat", "condition": {"Price": [37, null]}}\n\n'
        '{"target": ["a", "😀"]}\n{"tokens": ["\\ud83d\\ude00"], "condition": "C"}\n'
    )
    first, second, third = read_jsonl(path, lowercase=True)
    assert first == Sentence((Token("le"), Token("chat")), {"Price": [37, None]}, f"{path}:1")
    assert (second.words, second.condition) == (("a", "😀"), None)
    assert (third.words, third.condition) == (("😀",), "c")
    assert next(reversed(list(read_jsonl(path)))).condition == "C"


@pytest.mark.parametrize(
    ("line", "place", "reason"),
    [
        ('{"target": }', "2:12", "JSON is required"),
        ('{"target": "a"', "2:15", "JSON is required"),
        ('{"target": "a"} x', "2:17", "JSON is required"),
        ('{"target": "a", "condition": NaN}', "2:30", "found NaN"),
        ("[" * 100_000, "2:1", "too deep"),
        ('{"target": "a", "condition": ' + "9" * 5000 + "}", "2:1", "4300"),
        ('["a"]', "2:1", "an object such as"),
        ("null", "2:1", "found null"),
        ('{"target": "a", "goal": 1}', "2:17", "the keys are target, tokens, condition, found 'goal'"),
        ('{"target": "a", "target": "b"}', "2:2", "found 'target' again"),
        ('{"target": "a", "condition": {"k": 1, "k": 2}}', "2:31", "found 'k' again"),
        ('{"condition": 1}', "2:1", "one of target and tokens is required, found neither"),
        ('{"target": "a", "tokens": ["a"]}', "2:1", "found both"),
        ('{"target": 3}', "2:2", "target must be a string or a list of words, found a number"),
        ('{"condition": 1, "tokens": "a"}', "2:18", "tokens must be a list of words, found a string"),
        ('{"target": "  "}', "2:2", "target must have a word"),
        ('{"tokens": []}', "2:2", "tokens must have a word"),
        ('{"tokens": ["a", true]}', "2:2", "tokens[1] must be a string, found a boolean"),
        ('{"tokens": ["a", ""]}', "2:2", "tokens[1] must be a word without whitespace, found ''"),
        ('{"tokens": ["a b"]}', "2:2", "found 'a b'"),
        ('{"tokens": ["a\\n"]}', "2:2", "without whitespace"),
        ('{"target": "a \\ud800"}', "2:2", "half a surrogate pair"),
    ],
)
def test_bad_jsonl(file: Callable[..., Path], line: str, place: str, reason: str) -> None:
    found = message(read_jsonl, file(f'{{"target": "fine"}}\n{line}\n', "f.jsonl"))
    assert found.startswith(f"f.jsonl:{place}: ")
    assert reason in found


# --- never a crash


def succeeds_or_raises_corpus_error(reader: Reader, path: Path) -> None:
    try:
        for sentence in reader(path):
            assert sentence.tokens
            assert all(sentence.words)
            for token in sentence.tokens:
                token.attributes()
    except CorpusError:
        return


READERS: list[tuple[Reader, bytes]] = [
    (read_conllu, DU_CHAT.encode()),
    (read_jsonl, '{"target": ["é", "b"], "condition": {"k": [1.5, null]}}\n{"tokens": ["c"]}\n'.encode()),
    (read_text, "le chat\r\nété\n".encode()),
]
PIECES = [
    b"\t",
    b"\n",
    b"\r",
    b"|",
    b"=",
    b",",
    b"-",
    b".",
    b"1",
    b"2",
    b"_",
    b"#",
    b"\0",
    b"\xff",
    b'"',
    b"{",
    b" ",
]


def mutated(valid: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    content = bytearray(valid)
    for start, length, piece in edits:
        start %= len(content) + 1
        content[start : start + length] = piece
    return bytes(content)


edits = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 12), st.sampled_from(PIECES) | st.binary(max_size=4)),
    max_size=6,
)


@pytest.mark.parametrize(("reader", "valid"), READERS)
@fuzz
@given(edits=edits, pack=st.booleans())
def test_mutations(
    tmp_path: Path, reader: Reader, valid: bytes, edits: list[tuple[int, int, bytes]], pack: bool
) -> None:
    path = tmp_path / "f"
    content = mutated(packed(valid) if pack else valid, edits)
    path.write_bytes(content)
    succeeds_or_raises_corpus_error(reader, path)


@pytest.mark.parametrize("reader", [reader for reader, _ in READERS])
@fuzz
@given(content=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "ignore")))
def test_random_bytes(tmp_path: Path, reader: Reader, content: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    succeeds_or_raises_corpus_error(reader, path)


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=6).filter(
    lambda word: word.split() == [word]
)


@fuzz
@given(sentences=st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=5))
def test_every_format_gives_the_words_back(tmp_path: Path, sentences: list[list[str]]) -> None:
    rows = ("".join(row(index, word) for index, word in enumerate(sentence, 1)) for sentence in sentences)
    contents = {
        "f.conllu": "\n".join(rows),
        "f.jsonl": "\n".join(json.dumps({"tokens": sentence}) for sentence in sentences),
        "f.txt": "\n".join(" ".join(sentence) for sentence in sentences),
    }
    expected = [tuple(sentence) for sentence in sentences]
    for name, content in contents.items():
        (tmp_path / name).write_text(f"{content}\n", encoding="utf-8", newline="\n")
        if not content.startswith("\ufeff"):
            assert [found.words for found in Corpus.from_file(tmp_path / name)] == expected
    assert [found.words for found in Corpus.from_sentences(sentences)] == expected


# --- the corpus


def numbered(count: int) -> Corpus:
    return Corpus.from_sentences([[f"w{index}"] * (index + 1) for index in range(count)], name="n")


def test_corpus_is_a_sequence_of_sentences() -> None:
    corpus = numbered(4)
    assert (len(corpus), corpus.tokens) == (4, 10)
    assert corpus.counts() == Counter({"w0": 1, "w1": 2, "w2": 3, "w3": 4})
    assert repr(corpus) == "Corpus('n', 4 sentences, 10 tokens)"
    assert corpus[1].words == ("w1", "w1")
    assert corpus[1:3].sentences == tuple(corpus)[1:3]
    joined = corpus + Corpus.from_sentences([Sentence((Token("x"),))], name="m")
    assert (joined.name, len(joined), joined[4].words) == ("n + m", 5, ("x",))
    with pytest.raises(TypeError):
        corpus + 3  # type: ignore[operator]


@given(sizes=st.lists(st.integers(0, 3), max_size=3))
def test_split_adds_up_to_the_whole(sizes: list[int]) -> None:
    corpus = numbered(9)
    parts = corpus.split(*sizes)
    assert [len(part) for part in parts] == [*sizes, 9 - sum(sizes)]
    assert tuple(chain.from_iterable(parts)) == corpus.sentences


@pytest.mark.parametrize("sizes", [(5,), (3, 2), (-1,)])
def test_bad_split(sizes: tuple[int, ...]) -> None:
    with pytest.raises(CorpusError, match="add up to at most 4"):
        numbered(4).split(*sizes)


@pytest.mark.parametrize(
    ("sentences", "reason"),
    [
        (["le chat"], "sentence 0 .* found the str 'le chat'"),
        ([["a"], ["a", ""]], "sentence 1 .* ''"),
        ([[3]], "3"),
    ],
)
def test_bad_sentences(sentences: list[list[str]], reason: str) -> None:
    with pytest.raises(CorpusError, match=reason):
        Corpus.from_sentences(sentences)


@pytest.mark.parametrize("name", ["f.conllu", "f.conll", "F.CONLLU", "f.conllu.gz"])
def test_format_is_told_by_the_extension(file: Callable[..., Path], name: str) -> None:
    content = DU_CHAT.encode()
    corpus = Corpus.from_file(file(packed(content) if name.endswith("gz") else content, name), lowercase=True)
    assert (corpus.name, corpus[0].words) == (name, ("de", "le", "chat"))


def test_format_by_name(file: Callable[..., Path]) -> None:
    path = file("a b\n", "f.dat")
    assert Corpus.from_file(path, format="text").tokens == 2
    found = message(Corpus.from_file, path)
    assert ".conllu, .conll, .txt, .text, .jsonl, .tsv, each also with .gz" in found
    assert "name the format: 'conllu', 'text', 'jsonl' or 'tsv'" in found
    with pytest.raises(CorpusError, match="found 'xml'"):
        Corpus.from_file(path, format="xml")  # type: ignore[arg-type]


def test_several_files(file: Callable[..., Path]) -> None:
    one, two = file("a\n", "one.txt"), file("b\nc\n", "two.txt")
    corpus = Corpus.from_file([one, str(two)])
    assert (corpus.name, len(corpus)) == ("one.txt + two.txt", 3)
    with pytest.raises(CorpusError, match="at least one file"):
        Corpus.from_file([])


@pytest.mark.parametrize(
    ("name", "content"), [("f.conllu", "# sent_id = 1\n\n"), ("f.txt", " \n\n"), ("f.jsonl", "\n")]
)
def test_no_sentence(file: Callable[..., Path], name: str, content: str) -> None:
    assert "no sentence in f" in message(Corpus.from_file, file(content, name))


def test_public_names_are_sorted_and_there() -> None:
    assert llrnn.text.corpus.__all__ == sorted(llrnn.text.corpus.__all__)
    assert all(hasattr(llrnn.text.corpus, name) for name in llrnn.text.corpus.__all__)


# --- real data


@needs_data
def test_the_papers_corpus() -> None:
    folder = DATA / "ud_french_gsd"
    sizes = {"dev": (1_476, 35_716), "test": (416, 10_019)}
    for part, size in sizes.items():
        corpus = Corpus.from_file(folder / f"fr_gsd-{part}.conllu", lowercase=True)
        assert (len(corpus), corpus.tokens) == size


@needs_data
def test_annotated_treebanks() -> None:
    path = DATA / "ud_french" / "fr_partut-ud-dev.conllu"
    corpus = Corpus.from_file(path)
    assert all(token.pos and token.head is not None for sentence in corpus for token in sentence.tokens)


@needs_data
@pytest.mark.slow
def test_all_treebanks_are_read() -> None:
    french = Corpus.from_file(sorted((DATA / "ud_french").glob("*.conllu")))
    assert (len(french), french.tokens) == (17_311, 348_606)
    train = Corpus.from_file(DATA / "ud_french_gsd" / "fr_gsd-train.conllu")
    assert (len(train), train.tokens) == (14_450, 354_661)
    for folder, sentences in {"ud_turkish": 5_635, "ud_estonian": 6_325}.items():
        assert len(Corpus.from_file(sorted((DATA / folder).glob("*.conllu.gz")))) == sentences
