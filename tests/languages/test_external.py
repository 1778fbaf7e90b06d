"""n-grams counted and estimated on disk: the same numbers as in memory, in bounded memory, with nothing left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import HANG
from llrnn import cli, french
from llrnn.ground.arrays import Ints
from llrnn.ground.errors import BackgroundError
from llrnn.languages.ngrams import NGramTable, estimate, kneser_ney, read_arpa
from llrnn.languages.ngrams.kneser_ney import Scratch, count_ngrams, estimate_on_disk
from llrnn.text.built import Listing, build_corpus
from llrnn_lab.bench.against_kenlm import drawn_text
from strategies import draws

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few words at a time as the memory says, however little that is."""
    monkeypatch.setattr(kneser_ney, "_LEAST", 1)


def on_disk(stream: Ints, words: list[str], folder: Path, size: int, order: int, least: list[int]) -> NGramTable:
    """With blocks of `size` words."""
    pieces = np.array_split(stream, 3)
    memory = size * kneser_ney._BYTES_A_WORD
    return estimate_on_disk(pieces, words, scratch=Scratch(folder), memory=memory, order=order, min_counts=least)


def assert_equal_tables(one: NGramTable, other: NGramTable) -> None:
    assert (one.words, one.order, one.notes) == (other.words, other.order, other.notes)
    for mine, theirs in zip(one.levels, other.levels, strict=True):
        for field in fields(mine):
            assert np.array_equal(getattr(mine, field.name), getattr(theirs, field.name)), field.name


SENTENCES = st.lists(st.lists(st.integers(1, 4), max_size=7), min_size=1, max_size=12)


@settings(max_examples=draws(60))
@given(SENTENCES, st.integers(1, 40), st.integers(1, 5), st.lists(st.integers(0, 3), max_size=4))
def test_the_same_model_bit_for_bit(
    tmp_path: Path, sentences: list[list[int]], size: int, order: int, least: list[int]
) -> None:
    stream = np.array([0, *(number for sentence in sentences for number in (*sentence, 0))])
    words = ["</s>", "<unk>", "a", "b", "c"]
    assert_equal_tables(
        on_disk(stream, words, tmp_path, size, order, least), estimate(stream, words, order=order, min_counts=least)
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [1000, 7_919, 1_000_000])
def test_the_same_model_of_a_longer_text(tmp_path: Path, size: int) -> None:
    stream, words = drawn_text(50_000, 2000, 0)
    for least in ([], [1, 1, 2]):
        assert_equal_tables(
            on_disk(stream, words, tmp_path, size, 5, least), estimate(stream, words, order=5, min_counts=least)
        )


def test_counts_are_those_in_memory(tmp_path: Path) -> None:
    stream, words = drawn_text(1000, 60, 1)
    on_disk_, in_memory = Scratch(tmp_path), Scratch()
    found = []
    # several blocks, one, and more blocks than words in a block, so that they are merged key by key
    for scratch, size in ((on_disk_, 100), (in_memory, 10_000), (in_memory, 23)):
        text = scratch.array(np.int32)
        text.append(stream)
        found.append(count_ngrams(text, 0, len(words), 4, scratch, size))
    for one, *others in zip(*found, strict=True):
        for other in others:
            for name in ("context", "word", "count", "suffix", "starts"):
                assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert on_disk_.most > stream.astype(np.int32).nbytes


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    words = ["</s>", "a"]
    with pytest.raises(BackgroundError, match="begin and end with the end of a sentence"):
        on_disk(np.array([0, 1]), words, tmp_path, 10, 2, [])
    with pytest.raises(BackgroundError, match="1 or more, found 0"):
        on_disk(np.array([0, 1, 0]), words, tmp_path, 10, 0, [])


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("llrnn.languages.ngrams.kneser_ney.os.pwrite", full)
    with pytest.raises(BackgroundError, match=r"the disk is full .*name another folder: --temporary"):
        on_disk(np.array([0, 1, 0]), ["</s>", "a"], tmp_path, 10, 2, [])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BackgroundError, match="No such file or directory"):
        Scratch(tmp_path / "nothing").array(np.int64)


# --- the command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [" ".join(sentence.words) for sentence in french.sentences(200)]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf8")
    return tmp_path


def test_files_and_built_corpora_in_memory_and_on_disk(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_corpus(["text.txt"], "all")
    build_corpus(["text.txt"], "some", listing=Listing(top=50, unknown="<rare>"))
    common = ["--order", "3", "--min-counts", "1,1,2"]
    for source in ("text.txt", "all", "some"):
        assert cli.run(["ngram", "estimate", source, "--out", "memory.arpa", *common]) == 0
        capsys.readouterr()
        assert cli.run(["ngram", "estimate", source, "--out", "disk.arpa", "--memory", "1M", "--json", *common]) == 0
        assert json.loads(capsys.readouterr().out)["temporary_megabytes"] > 0
        assert Path("disk.arpa").read_bytes() == Path("memory.arpa").read_bytes()
        if source == "text.txt":
            wanted = {
                line.split("\t")[1]: line for line in Path("memory.arpa").read_text().splitlines() if "\t" in line
            }
        elif source == "all":  # the words have other numbers there: the same lines in another order
            assert wanted == {
                line.split("\t")[1]: line for line in Path("memory.arpa").read_text().splitlines() if "\t" in line
            }
    table = read_arpa("disk.arpa")
    assert "<unk>" in table.index
    assert "<rare>" not in table.index
    assert sorted(path.name for path in folder.iterdir()) == ["all", "disk.arpa", "memory.arpa", "some", "text.txt"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["text.txt", "--out", "x", "--memory", "1M"], "--memory writes an ARPA file"),
        (["text.txt", "--out", "x.arpa", "--memory", "many"], "--memory needs a size"),
        (["text.txt", "--out", "x.arpa", "--memory", "10"], "--memory needs a size"),
        (["text.txt", "--out", "x.arpa", "--temporary", "."], "--temporary is for --memory"),
        (["text.txt", "--out", "x.arpa", "--memory", "1M", "--temporary", "no"], "no: a folder for temporary files"),
        (["built", "text.txt", "--out", "x.arpa"], "a built corpus stands alone"),
        (["built", "--out", "x.arpa", "--words", "text.txt"], "leave --words out"),
        (["built", "--out", "x.arpa", "--lowercase"], "build it again with --lowercase"),
    ],
)
def test_mistakes(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    build_corpus(["text.txt"], "built")
    assert cli.run(["ngram", "estimate", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not Path("x.arpa").exists()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_left_of_what_was_stopped(tmp_path: Path, number: signal.Signals) -> None:
    """The temporary files have no names, so that not even SIGKILL leaves them."""
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(sentence.words) for sentence in french.sentences(200)), encoding="utf8")
    arguments = [str(text)] * 400 + ["--out", str(tmp_path / "x.arpa"), "--memory", "1M"]
    process = subprocess.Popen([Path(sys.executable).parent / "llrnn", "ngram", "estimate", *arguments], stderr=-1)
    while not held(process.pid, tmp_path):
        assert process.poll() is None, "it never began"
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate(timeout=HANG)
    assert process.returncode != 0
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def held(pid: int, folder: Path) -> bool:
    """Whether a process has files without a name open in a folder."""
    try:
        links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:  # closed while we looked
        return False
    return any(link.startswith(str(folder)) and link.endswith("(deleted)") for link in links)


MEASURED = """
import resource, sys
from llrnn import cli
import torch
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
sys.exit(cli.run(sys.argv[2:]))
"""


@pytest.mark.slow  # two minutes
def test_counting_within_a_bound_that_the_text_does_not_fit_into(tmp_path: Path) -> None:
    """The system gives 450 MB beyond what the program takes when it has started; in memory that is not enough."""
    stream, words = drawn_text(6_000_000, 50_000, 0)
    names = np.array(words, dtype=object)
    text = tmp_path / "text.txt"
    cuts = np.flatnonzero(stream[1:] == 0) + 1
    with text.open("w", encoding="utf8") as file:
        for piece in np.split(stream[1:], cuts):
            file.write(" ".join(names[piece[piece > 0]]) + "\n")
    bound = str(data_of_a_start() + 450_000_000)
    common = ["ngram", "estimate", str(text), "--order", "4", "--out"]
    in_memory = [sys.executable, "-c", MEASURED, bound, *common, str(tmp_path / "a.arpa")]
    done = subprocess.run(in_memory, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not enough memory" in done.stderr
    bounded = [sys.executable, "-c", MEASURED, bound, *common, str(tmp_path / "b.arpa"), "--memory", "100M"]
    done = subprocess.run(bounded, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    subprocess.run([*in_memory[:3], str(1 << 40), *in_memory[4:]], check=True, capture_output=True)
    assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()


def data_of_a_start() -> int:
    """The bytes of data of a process that has imported everything and done nothing."""
    code = "from llrnn import cli\nimport torch\nprint(open('/proc/self/status').read())"
    status = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    (line,) = (line for line in status.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024
