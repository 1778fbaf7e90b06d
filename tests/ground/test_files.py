"""Files of the user: plain files are read, whatever reads them; a file is replaced as a whole or not at all."""

from __future__ import annotations

import ast
import contextlib
import gzip
import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

import llrnn
from helpers import small_corpus, small_model
from llrnn import LSTM, Corpus, Lexicon, Records, features
from llrnn.config import read_config
from llrnn.ground.errors import LexiconError, LLRNNError
from llrnn.ground.files import open_file, read_file, replacing, write_atomically, write_lines, write_standard
from llrnn.inference.keyboard import Keyboard, export_keyboard
from llrnn.inference.lattices import read_lattices
from llrnn.inference.nbest import read_nbest, read_references
from llrnn.inference.pairs import read_pairs
from llrnn.knowledge.backgrounds import Dictionary, Grammar
from llrnn.languages.ngrams import read_arpa
from llrnn.text import readers, units
from llrnn.text.built import BuiltCorpus, build_corpus
from llrnn.text.lexicon import read_frequencies
from llrnn.text.tables import KnowledgeBase
from llrnn.text.vectors import WordVectors
from llrnn.training.runs import Record
from llrnn_agreement import Agreement, AgreementRules
from llrnn_morphology.dictionaries import FRENCH, hunspell
from test_vector_files import FORMATS as VECTORS

SOURCE = Path(llrnn.__file__).parent
RULES = (SOURCE.parent / "llrnn_agreement/french.toml").read_text("utf8")
CONFIG = '[corpus]\ntrain = ["x"]\n[features]\noutput = [{kind = "identity"}]'
KALDI = "u\n0 1 le 1.5,10,\n1 0.25,0,\n"
ARPA = "\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<s>\n-0.5\t</s>\n-0.3\tle\n\n\\end\\\n"


@dataclass(frozen=True)
class Reader:
    """What reads a file of this name, and a valid sample: the positive control of all that is refused."""

    read: Callable[[Path], object]
    name: str
    sample: str | Callable[[Path], object]

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        if isinstance(self.sample, str):
            path.write_text(self.sample, encoding="utf8")
        else:
            self.sample(path)
        return path


def keyboard(path: Path) -> None:
    export_keyboard(small_model(controller=LSTM(4), output_features=features.Identity()).eval(), path)


def built(path: Path) -> None:
    (path.parent / "t.txt").write_text("le chat\n", encoding="utf8")
    build_corpus([path.parent / "t.txt"], path.parent / "made")
    for one in (path.parent / "made").iterdir():
        one.rename(path.parent / one.name)


READERS: dict[str, Reader] = {
    "text": Reader(Corpus.from_file, "t.txt", "le chat\n"),
    "CoNLL-U": Reader(Corpus.from_file, "t.conllu", "1\tle\tle\tDET\t_\t_\t0\troot\t_\t_\n\n"),
    "JSON lines": Reader(Corpus.from_file, "t.jsonl", '{"target": "le chat"}\n'),
    "lexicon": Reader(Lexicon.from_tsv, "t.tsv", "le\tPOS:DET\n"),
    "frequencies": Reader(read_frequencies, "t.tsv", "le\t3\n"),
    "hunspell": Reader(lambda path: hunspell(path, aff=path, tags=FRENCH), "t.dic", "1\nle po:det\n"),
    "CSV": Reader(KnowledgeBase.from_csv, "t.csv", "name,area\nritz,nord\n"),
    "JSON": Reader(KnowledgeBase.from_json, "t.json", '[{"name": "ritz"}]'),
    "configuration": Reader(read_config, "t.toml", CONFIG),
    "ARPA": Reader(read_arpa, "t.arpa", ARPA),
    "grammar": Reader(Grammar.from_file, "t.lark", 'start: "a"\n'),
    "dictionary": Reader(Dictionary.from_file, "t.txt", "le chat\n"),
    "log": Reader(Records.read, "log.jsonl", json.dumps(asdict(Record("end", 1, 0, 1, 1, None, None, None, 0.1, 0.0)))),
    "pairs": Reader(lambda path: list(read_pairs(path)), "t.tsv", "le chat\tla chat\tgender\n"),
    "n-best lists": Reader(lambda path: list(read_nbest(path)), "t.tsv", "u\tle chat\t-1.5\n"),
    "references": Reader(read_references, "ref", "u le chat\n"),
    "Kaldi's lattices": Reader(read_lattices, "lat.txt", KALDI),
    "units": Reader(units.load, "units.json", '{"kind": "characters", "listed": ["le"]}'),
    "rules": Reader(AgreementRules.from_file, "mine.toml", RULES),
    "agreement": Reader(
        Agreement.from_file, "a.json", lambda path: Agreement.estimated("french", small_corpus()).to_file(path)
    ),
    "keyboard": Reader(Keyboard.read, "t.kb", keyboard),
    "model": Reader(
        lambda path: llrnn.load(path.parent), "model.json", lambda path: small_model().save(path.parent)
    ),
    "pretrained": Reader(
        lambda path: llrnn.load(path.parent), "config.json", lambda path: small_model().save_pretrained(path.parent)
    ),
    "built corpus": Reader(lambda path: BuiltCorpus(path.parent), "corpus.json", built),
    **{
        f"vectors {name}": Reader(WordVectors.read, name, made)
        for name, made in VECTORS.items()
    },
}  # fmt: skip
every_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
NOT_TEXT = {
    "nothing in it": b"",
    "NUL": b"\0" * 64,
    "bytes": bytes(range(256)),
    "UTF-16": "le chat".encode("utf-16"),
    "deep JSON": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "zip": b"PK\x03\x04" + bytes(60),
    "digits": b"9" * 10_000,
}
TEXT = {"text", "dictionary", "references", "hunspell", "frequencies", "lexicon", "CSV"}  # for which much is text


def refusal(reader: Reader, path: Path) -> str | None:
    """The one line with which a file is refused, or None where it is read."""
    try:
        reader.read(path)
    except LLRNNError as error:
        return str(error)
    return None


@every_reader
def test_a_valid_sample_is_read(reader: Reader, tmp_path: Path) -> None:
    assert refusal(reader, reader.write(tmp_path)) is None


@every_reader
@pytest.mark.parametrize("kind", NOT_TEXT)
def test_another_content_is_one_line(reader: Reader, kind: str, tmp_path: Path) -> None:
    path = reader.write(tmp_path)
    path.write_bytes(NOT_TEXT[kind] and NOT_TEXT[kind] + b"\n")
    said = refusal(reader, path)
    if said is None:
        assert (reader.name, kind) == ("log.jsonl", "nothing in it") or (
            reader in [READERS[name] for name in TEXT] and kind in ("deep JSON", "deep objects", "digits")
        )
    else:
        assert path.stem in said or str(path.parent) in said
        assert "\n" not in said


@every_reader
def test_half_of_a_file_is_read_or_refused_in_one_line(reader: Reader, tmp_path: Path) -> None:
    content = reader.write(tmp_path).read_bytes()
    (tmp_path / reader.name).write_bytes(content[: len(content) // 2])
    assert "\n" not in (refusal(reader, tmp_path / reader.name) or "")


@every_reader
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "nothing", "name too long", "name with NUL"])
def test_what_is_no_file_is_refused_at_once(reader: Reader, kind: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for for ever, and /dev/zero has no end."""
    path = tmp_path / reader.name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind != "nothing":
        path = tmp_path / (("a" * 300 if kind == "name too long" else "a\0b") + path.suffix)
    with pytest.raises(LLRNNError) as caught:
        reader.read(path)
    if kind in ("pipe", "device"):
        assert f"this is a {kind}; copy what it gives into a file" in str(caught.value)


OPENING = {
    "open", "read_text", "read_bytes", "fromfile", "memmap", "load_file", "safe_open", "connect", "from_pretrained",
}  # fmt: skip
PARSING = {"json.load", "json.loads", "tomllib.load", "tomllib.loads", "np.load", "pickle.load", "torch.load"}
ALLOWED = {
    "ground/files.py": {"open", "json.loads", "tomllib.loads"},  # the safe reader itself; `replacing` writes
    "ground/bundle.py": {"open", "memmap"},  # a folder to lock; what `open_file` has opened
    "text/built.py": {"open", "memmap"},  # files that are written; what `open_file` has opened
    "text/vectors.py": {"open"},  # a part of a zip file
    "text/corpus.py": {"read_text"},  # that of `text.readers`
    "text/datasets.py": {"open"},  # an address
    "training/runs.py": {"open"},  # a log and a lock that are written
    "languages/ngrams/kneser_ney.py": {"memmap"},  # a temporary file of our own
    "inference/keyboard/__init__.py": {"read_text"},  # a page that comes with the library
    "serve/messages.py": {"read_text"},  # limits that come with the library
    "serve/app.py": {"read_bytes"},  # the page that comes with the library
    "knowledge/backgrounds/neural.py": {"from_pretrained"},  # once `open_file` has had every file of the folder
    "model/lm.py": {
        "from_pretrained"
    },  # of a GGUF file that `open_file` has had, in a folder of its own or a package's
    "cli/verbs.py": {"open"},  # a model, by `ModelOptions.open`
    "cli/evaluate.py": {"open"},  # the same
    "../llrnn_agreement/rules.py": {"read_text"},  # rules that come with the package
    "../llrnn_morphology/tags/__init__.py": {"read_text"},  # tables that come with the package
}


def opened_in(path: Path) -> Iterator[str]:
    """What a module names that opens or decodes a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in PARSING:
            yield ast.unparse(node)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            if name in OPENING:
                yield name


def test_no_module_opens_files_by_itself() -> None:
    """All that a stranger may hand us goes through `open_file`, `read_file`, `parse_json` and `parse_toml`."""
    found = {path.relative_to(SOURCE).as_posix(): {*opened_in(path)} for path in sorted(SOURCE.rglob("*.py"))}
    for beside in ("llrnn_agreement", "llrnn_morphology"):
        paths = sorted((SOURCE.parent / beside).rglob("*.py"))
        found |= {f"../{path.relative_to(SOURCE.parent).as_posix()}": {*opened_in(path)} for path in paths}
    assert {name: calls for name, calls in found.items() if calls} == ALLOWED


def test_a_line_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two megabytes of gzip may hold two gigabytes without a line break."""
    monkeypatch.setattr(readers, "_LONGEST", 3_000_000)
    path = tmp_path / "t.txt.gz"
    path.write_bytes(gzip.compress(b"a" * 3_000_000 + b"\nb\n"))
    assert len([*readers.read_lines(path)]) == 2
    path.write_bytes(gzip.compress(b"b\n" + b"a" * 30_000_000))
    with pytest.raises(LLRNNError, match="a line has at most 3,000,000 bytes"):
        [*readers.read_lines(path)]


def test_what_is_read_as_a_whole_has_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"12345")
    assert read_file(path, limit=5) == b"12345"
    with pytest.raises(OSError, match="at most 4 bytes"):
        read_file(path, limit=4)
    with open_file(path) as file:
        assert file.read() == b"12345"


@pytest.mark.parametrize("terminal", [True, False])
def test_no_word_steers_a_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """What `--out -` writes: as it is into a pipe, with control characters shown on a terminal."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    write_lines("-", ["u\tle \x1b[2J\x9b chat\u202e", "été"])
    shown = "u\tle \ufffd[2J\ufffd chat\ufffd\nété\n" if terminal else "u\tle \x1b[2J\x9b chat\u202e\nété\n"
    assert capsysbinary.readouterr().out.decode() == shown


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


def raising(error: OSError) -> Callable[..., int]:
    def call(*given: object, **named: object) -> int:
        raise error

    return call


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("os.fsync", OSError(28, "No space left on device")),
        ("tempfile.mkstemp", PermissionError(13, "Permission denied", "/somewhere/.file.abcdefgh")),
        ("os.replace", None),
    ],
)
def test_an_error_names_the_file_that_was_to_be_written(
    call: str, error: OSError | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    if error is None:
        path.mkdir()  # a folder is not replaced
    else:
        monkeypatch.setattr(call, raising(error))
    with pytest.raises(OSError, match=str(path)) as told:
        write_atomically(path, b"new")
    assert told.value.filename == str(path)
    assert error is None or told.value.strerror == error.strerror


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    """A name of a device, as /dev/null, would be a plain file from then on, for every program of the machine."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a file is required, but this is a device or a pipe; name another"):
        write_atomically(tmp_path / "pipe", b"new")
    assert (tmp_path / "pipe").is_fifo()


def test_standard_output_may_be_a_programs_own() -> None:
    """As in a notebook: a text stream without bytes below it."""
    caught = io.StringIO()
    with contextlib.redirect_stdout(caught):
        write_standard("été\n")
    assert caught.getvalue() == "été\n"
