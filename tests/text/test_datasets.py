"""Fetching corpora, from a server of the test's own on the loopback device: no test leaves this machine."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from helpers import HANG
from llrnn.ground.errors import DatasetError, LLRNNError
from llrnn.text import datasets
from llrnn.text.datasets import DATASETS, Dataset, RemoteFile


def conllu(sentences: int) -> bytes:
    word = "1\tmot\tmot\tNOUN\t_\t_\t0\troot\t_\t_\n2\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_\n\n"
    return (word * sentences).encode()


@dataclass
class Server:
    """Answers with `files`; `faults` says what goes wrong with a file."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    silence: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.lstrip("/")
        self.asked.append(name)
        fault, body = self.faults.get(name), self.files.get(name)
        if fault == "silent":
            self.silence.wait(HANG)
        if body is None:
            request.send_error(404)
            return
        if fault is not None and "://" in fault:
            request.send_response(302)
            request.send_header("Location", fault)
            request.end_headers()
            return
        request.send_response(200)
        if fault != "unknown length":
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: len(body) // 2] if fault == "truncated" else body)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(files={"train.conllu": conllu(7), "dev.conllu": conllu(3)})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.answer(self)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        made.url = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.silence.set()
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    files = (RemoteFile("train.conllu", 7, exact=True), RemoteFile("dev.conllu", 2))
    monkeypatch.setitem(DATASETS, "small", Dataset("small", "A small corpus", "http://127.0.0.1:1", files, (15, 30)))


def get(server: Server, folder: Path, **options: float) -> tuple[Path, ...]:
    return datasets.get("small", folder, base_url=server.url, loopback=True, timeout=options.get("timeout", HANG))


def names(folder: Path) -> list[str]:
    """All files but the notes about them."""
    return sorted(path.name for path in folder.iterdir() if path.name != "sha256.json")


def test_files_arrive_whole_and_in_order(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    paths = datasets.get("small", folder, base_url=f"{server.url}/", loopback=True)
    assert paths == (folder / "train.conllu", folder / "dev.conllu")
    assert paths[0].read_bytes() == conllu(7)
    assert names(folder) == ["dev.conllu", "train.conllu"]


def test_a_length_that_is_not_told_does_no_harm(server: Server, tmp_path: Path) -> None:
    server.faults["train.conllu"] = "unknown length"
    assert get(server, tmp_path)[0].read_bytes() == conllu(7)


def test_what_is_there_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    get(server, tmp_path)
    server.asked.clear()
    get(server, tmp_path)
    assert server.asked == []
    (tmp_path / "dev.conllu").unlink()
    get(server, tmp_path)
    assert server.asked == ["dev.conllu"]


def test_a_file_of_somebody_else_is_not_overwritten(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.conllu").write_bytes(conllu(6))
    with pytest.raises(DatasetError, match=r"train\.conllu: 7 sentences are required, found 6; remove or rename"):
        get(server, tmp_path)
    assert (tmp_path / "train.conllu").read_bytes() == conllu(6)
    assert server.asked == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (conllu(8), "7 sentences are required, found 8"),
        (conllu(6), "7 sentences are required, found 6"),
        (b"<html>Log in to the hotel's network</html>\n", "line 1: 10 columns"),
        (b"", "the file is empty"),
        (b"\x89PNG\r\n", "looks like a PNG"),
    ],
)
def test_another_content_is_refused(server: Server, tmp_path: Path, body: bytes, message: str) -> None:
    server.files["train.conllu"] = body
    with pytest.raises(DatasetError, match=message) as caught:
        get(server, tmp_path)
    assert f"fetch {server.url}/train.conllu by hand and put it at {tmp_path / 'train.conllu'}" in str(caught.value)
    assert names(tmp_path) == []


def test_at_least_so_many_sentences(server: Server, tmp_path: Path) -> None:
    server.files["dev.conllu"] = conllu(1)
    with pytest.raises(DatasetError, match="at least 2 sentences are required, found 1"):
        get(server, tmp_path)
    assert names(tmp_path) == ["train.conllu"]


def test_words_in_all_are_counted(server: Server, tmp_path: Path) -> None:
    server.files["dev.conllu"] = conllu(9)
    with pytest.raises(DatasetError, match="must have 15 to 30 words in all, found 32"):
        get(server, tmp_path)


def test_a_body_cut_short_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.faults["dev.conllu"] = "truncated"
    with pytest.raises(DatasetError, match="IncompleteRead"):
        get(server, tmp_path)
    assert names(tmp_path) == ["train.conllu"]
    server.faults.clear()
    get(server, tmp_path)
    assert names(tmp_path) == ["dev.conllu", "train.conllu"]


def test_a_file_that_is_gone(server: Server, tmp_path: Path) -> None:
    del server.files["train.conllu"]
    with pytest.raises(DatasetError, match=r"the server answers 404 .*put it at "):
        get(server, tmp_path)
    assert names(tmp_path) == []


def test_offline(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, but nobody listens
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(LLRNNError, match=r"could not be reached: .*refused.*are you online") as caught:
            datasets.get("small", tmp_path, base_url=url, loopback=True, timeout=HANG)
    assert f"{url}/train.conllu by hand" in str(caught.value)
    assert names(tmp_path) == []


def test_a_server_that_says_nothing(server: Server, tmp_path: Path) -> None:
    server.faults["train.conllu"] = "silent"
    with pytest.raises(DatasetError, match=r"could not be reached: .*timed out"):
        get(server, tmp_path, timeout=0.2)
    server.silence.set()
    assert names(tmp_path) == []


def test_an_interruption_leaves_nothing_half_written(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path) -> None:
        assert any(one.name.startswith(".train.conllu.") for one in tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(datasets, "read_conllu", interrupted)
    with pytest.raises(KeyboardInterrupt):
        get(server, tmp_path)
    assert names(tmp_path) == []


def test_names_and_folders(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"ud-french-v1 and .*found 'klingon'; choose one"):
        datasets.get("klingon", tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="the folder cannot be made"):
        datasets.get("small", tmp_path / "file")
    with pytest.raises(DatasetError, match=r"https:// is required, found 'nowhere/train\.conllu'"):
        datasets.get("small", tmp_path, base_url="nowhere")


def test_the_registry() -> None:
    paper = DATASETS["ud-french-v1"]
    assert [(file.sentences, file.exact) for file in paper.files] == [(14_554, True), (1_596, True), (298, True)]
    assert paper.url == "https://raw.githubusercontent.com/UniversalDependencies/UD_French-GSD/r1.3"
    for name, dataset in DATASETS.items():
        assert name == dataset.name
        assert name == "small" or (len(dataset.files) == 3 and dataset.url.startswith("https://"))


# --- what comes is what came first, from where it should, and not without end --------------------------------------


@pytest.mark.parametrize("address", ["http://192.0.2.1", "ftp://192.0.2.1", "file:///etc", "http://localhost.example"])
def test_only_https_is_spoken(server: Server, tmp_path: Path, address: str) -> None:
    for loopback in (False, True):
        with pytest.raises(DatasetError, match="https:// is required"):
            datasets.get("small", tmp_path, base_url=address, loopback=loopback)
    with pytest.raises(DatasetError, match=r"https:// is required, found 'http://127\.0\.0\.1"):
        datasets.get("small", tmp_path, base_url=server.url)  # this machine too, unless it was said
    server.faults["train.conllu"] = f"{address}/other"  # sent on
    with pytest.raises(DatasetError, match=r"https:// is required|Redirection to url .* is not allowed"):
        get(server, tmp_path)
    assert names(tmp_path) == []


def test_a_redirection_to_where_one_may_go_is_followed(server: Server, tmp_path: Path) -> None:
    server.files["moved"] = server.files["train.conllu"]
    server.faults["train.conllu"] = f"{server.url}/moved"
    assert get(server, tmp_path)[0].read_bytes() == conllu(7)


def other(sentences: int) -> bytes:
    """As many sentences and words, but not these."""
    return conllu(sentences).replace(b"mot", b"nom")


def test_a_file_must_stay_what_it_was_when_it_first_came(server: Server, tmp_path: Path) -> None:
    get(server, tmp_path)
    (tmp_path / "train.conllu").write_bytes(other(7))
    with pytest.raises(
        DatasetError, match=r"train\.conllu: its SHA-256 must be \w{64}, found \w{64}; remove or rename"
    ):
        get(server, tmp_path)
    (tmp_path / "train.conllu").unlink()  # as the message says
    assert get(server, tmp_path)[0].read_bytes() == conllu(7)


def test_another_file_of_the_same_counts_is_refused(server: Server, tmp_path: Path) -> None:
    get(server, tmp_path)
    (tmp_path / "train.conllu").unlink()
    server.files["train.conllu"] = other(7)
    with pytest.raises(DatasetError, match=r"is not train\.conllu: its SHA-256 must be .* remove .*sha256\.json"):
        get(server, tmp_path)
    assert names(tmp_path) == ["dev.conllu"]
    (tmp_path / "sha256.json").unlink()  # as the message says
    assert get(server, tmp_path)[0].read_bytes() == other(7)


def test_notes_that_are_none(server: Server, tmp_path: Path) -> None:
    for notes in ("[1]", "{", '{"train.conllu": 7}'):
        (tmp_path / "sha256.json").write_text(notes)
        with pytest.raises(DatasetError, match=r"sha256\.json"):
            get(server, tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("length", ["told", "unknown length"])
def test_a_file_has_a_largest_size(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: str
) -> None:
    monkeypatch.setattr(datasets, "_LARGEST", 100)
    server.faults["train.conllu"] = length
    with pytest.raises(DatasetError, match="more than 100 bytes come"):
        get(server, tmp_path)
    assert names(tmp_path) == []


def test_a_file_that_drips_in_has_a_time_to_arrive(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter([0.0, 59.0, 61.0])  # at the start, and after each block
    monkeypatch.setattr(datasets, "_clock", lambda: next(moments))
    monkeypatch.setattr(datasets, "_BLOCK", 100)
    with pytest.raises(DatasetError, match="not there after 60 seconds"):
        datasets.get("small", tmp_path, base_url=server.url, loopback=True, longest=60.0)
    assert names(tmp_path) == []


def test_every_address_names_a_release() -> None:
    """What the newest version is changes from one day to the next, and with it what a study reads."""
    for dataset in (DATASETS["ud-french-v1"], datasets._treebank_named("ud-french")):
        assert dataset is not None
        assert re.search(r"/r\d+\.\d+$", dataset.url), dataset.url


# --- treebanks of any language ---------------------------------------------------------------------------------------


def treebank(server: Server, name: str, folder: Path) -> list[str]:
    return [path.name for path in datasets.get(name, folder, base_url=server.url, loopback=True)]


def test_a_treebank_of_any_language_by_its_name(server: Server, tmp_path: Path) -> None:
    server.files = {f"sme_giella-ud-{part}.conllu": conllu(4) for part in ("train", "test")}  # it has no dev
    for number, name in enumerate(
        ["ud-north_sami", "ud-north-sami", "ud-north_sami-Giella", "ud-north_sami-Giella@sme"]
    ):
        found = treebank(server, name, tmp_path / str(number))
        assert found == ["sme_giella-ud-train.conllu", "sme_giella-ud-test.conllu"]
    server.files = {"gya_autogramm-ud-test.conllu": conllu(2)}
    assert treebank(server, "ud-northwest_gbaya-Autogramm@gya", tmp_path / "new") == ["gya_autogramm-ud-test.conllu"]
    server.files = {"tr_boun-ud-test.conllu": conllu(2)}
    assert treebank(server, "ud-turkish-BOUN", tmp_path / "other") == ["tr_boun-ud-test.conllu"]


def test_a_treebank_that_is_not_there(server: Server, tmp_path: Path) -> None:
    server.files = {}
    with pytest.raises(DatasetError, match=r"fi_tdt-ud-test.conllu: the server answers 404"):
        treebank(server, "ud-finnish", tmp_path)
    with pytest.raises(DatasetError, match=r"'finish' is not in it; did you mean ud-finnish\?"):
        treebank(server, "ud-finish", tmp_path)
    with pytest.raises(DatasetError, match=r"ud-klingon-TREEBANK@CODE"):
        treebank(server, "ud-klingon", tmp_path)
    server.files = {f"fi_tdt-ud-{part}.conllu": conllu(4) for part in ("train", "dev", "test")}
    server.faults = {"fi_tdt-ud-train.conllu": "truncated"}  # there, but not whole: no part is left out in silence
    with pytest.raises(DatasetError, match="no proper answer"):
        treebank(server, "ud-finnish", tmp_path)


def test_the_table_of_languages() -> None:
    assert len(datasets.TREEBANKS) > 110
    for language, (code, name) in datasets.TREEBANKS.items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", language)
        assert re.fullmatch(r"[a-z]{2,3}", code)
        assert re.fullmatch(r"[A-Z]\w+", name)
    codes = [code for code, _ in datasets.TREEBANKS.values()]
    assert len(codes) == len({*codes})
    assert "/UD_North_Sami-Giella/r2.16" in str(datasets._treebank_named("ud-north_sami"))
