"""Files of the user: plain files are read, whatever reads them; a file is replaced as a whole or not at all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from llrnn import Corpus, Lexicon, Records
from llrnn.config import read_config
from llrnn.ground.errors import LexiconError, LLRNNError
from llrnn.ground.files import open_file, read_file, replacing, write_atomically
from llrnn.inference.nbest import read_nbest
from llrnn.inference.pairs import read_pairs
from llrnn.knowledge.backgrounds import Dictionary, Grammar
from llrnn.languages.ngrams import read_arpa
from llrnn.text.analysers import FRENCH, hunspell
from llrnn.text.lexicon import read_frequencies
from llrnn.text.shards import BuiltCorpus
from llrnn.text.tables import KnowledgeBase

READERS: dict[str, Callable[[Path], object]] = {
    "text": Corpus.from_text,
    "CoNLL-U": Corpus.from_conllu,
    "JSON lines": Corpus.from_jsonl,
    "lexicon": Lexicon.from_tsv,
    "frequencies": read_frequencies,
    "hunspell": lambda path: hunspell(path, aff=path, tags=FRENCH),
    "CSV": KnowledgeBase.from_csv,
    "JSON": KnowledgeBase.from_json,
    "SQLite": KnowledgeBase.from_sqlite,
    "configuration": read_config,
    "ARPA": read_arpa,
    "grammar": Grammar.from_file,
    "dictionary": Dictionary.from_file,
    "log": Records.read,
    "pairs": lambda path: list(read_pairs(path)),
    "n-best lists": lambda path: list(read_nbest(path)),
}
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())


@every_reader
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "nothing", "name too long", "name with NUL"])
def test_what_is_no_file_is_refused_at_once(read: Callable[[Path], object], kind: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for for ever, and /dev/zero has no end."""
    path = tmp_path / "given.tsv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind != "nothing":
        path = tmp_path / ("a" * 300 if kind == "name too long" else "a\0b")
    with pytest.raises(LLRNNError) as caught:
        read(path)
    if kind in ("pipe", "device"):
        assert f"this is a {kind}; copy what it gives into a file" in str(caught.value)


def test_a_built_corpus_is_read_from_files_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "corpus.json")
    with pytest.raises(LLRNNError, match="this is a pipe"):
        BuiltCorpus(tmp_path)


def test_what_is_read_as_a_whole_has_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"12345")
    assert read_file(path, limit=5) == b"12345"
    with pytest.raises(OSError, match="at most 4 bytes"):
        read_file(path, limit=4)
    with open_file(path) as file:
        assert file.read() == b"12345"


# --- replacing -----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """As if the process ended here."""


def replace_by(path: Path, then: Callable[[], object]) -> None:
    with replacing(path) as file:
        file.write(b"new")
        then()


def leave_half_a_file(path: Path) -> None:
    """A process that is killed while it writes: a child, whose lock ends with it."""
    child = os.fork()
    if child == 0:
        with replacing(path) as file:
            file.write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_what_a_killed_process_left_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "x.arpa.gz"
    others = [tmp_path / name for name in (".x.arpa.gz.notes", ".x.arpa.abcdefgh", ".x.arpa.gz.abcdefgh.txt")]
    for other in others:
        other.write_bytes(b"the user's own")
    leave_half_a_file(path)
    assert len(list(tmp_path.iterdir())) == 4, "nothing was left: the test shows nothing"
    write_atomically(path, b"new")
    assert set(tmp_path.iterdir()) == {path, *others}


def test_the_temporary_file_of_a_living_writer_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path) as slow:
        slow.write(b"slow")
        write_atomically(path, b"quick")
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"slow"


@pytest.mark.parametrize("step", ["write", "fsync", "chmod", "replace"])
def test_a_file_is_replaced_as_a_whole_or_not_at_all(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def killed(*given: object, **named: object) -> None:
        raise Killed

    if step != "write":
        monkeypatch.setattr(os, step, killed)
    with pytest.raises(Killed):
        replace_by(path, killed if step == "write" else print)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_content_and_name_reach_the_disk_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut a renamed file that was never synced would be empty."""
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def noted_sync(descriptor: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        sync(descriptor)

    def noted_replace(*given: str) -> None:
        done.append("rename")
        replace(*given)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_atomically(tmp_path / "file", b"new")
    Lexicon.from_mapping({"été": ["POS:NOUN"]}).to_tsv(tmp_path / "lexicon.tsv")
    assert done == ["file", "rename", "folder"] * 2


def test_a_full_disk_leaves_the_old_lexicon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lexicon.tsv"
    Lexicon.from_mapping({"old": ["POS:NOUN"]}).to_tsv(path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LexiconError, match="No space left"):
        Lexicon.from_mapping({"new": ["POS:NOUN"]}).to_tsv(path)
    assert [one.name for one in tmp_path.iterdir()] == ["lexicon.tsv"]
    assert path.read_bytes() == before
