"""`save_pretrained`, and the Hub's own library against a Hub of our own on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

import llrnn
from helpers import shaken
from llrnn import GRU, LLRNN, backgrounds, features
from llrnn.ground.errors import CheckpointError
from llrnn.inference.adaptation import open_base
from llrnn.text.corpus import Corpus

CORPUS = Corpus.from_sentences([["le", "chat", "dort"], ["la", "chatte", "dort", "ici"]])


def model() -> LLRNN:
    made = LLRNN(
        llrnn.Vocabulary.from_corpus(CORPUS),
        output_features=features.Identity() + features.Suffixes(1, min_count=1),
        background=backgrounds.Unigram.from_corpus(CORPUS),
        controller=GRU(4),
    )
    shaken(made, 1.0)
    return made


def nats(made: LLRNN) -> float:
    return llrnn.evaluate(made, CORPUS).log_perplexity


# --- folders -------------------------------------------------------------------------------------------------------


def test_a_folder_is_what_others_expect_and_comes_back(tmp_path: Path) -> None:
    made = model()
    made.save_pretrained(tmp_path / "hub")
    assert {path.name for path in (tmp_path / "hub").iterdir()} == {"config.json", "model.safetensors"}
    found = llrnn.load(tmp_path / "hub")
    assert nats(found) == nats(made)
    config = json.loads((tmp_path / "hub" / "config.json").read_bytes())
    assert (config["model_type"], config["architectures"]) == ("llrnn", ["LLRNN"])
    from safetensors.torch import load_file

    names = load_file(tmp_path / "hub" / "model.safetensors")
    assert torch.equal(names["weights.layer.weight"], made.layer.weight)


def test_our_own_folders_are_read_too(tmp_path: Path) -> None:
    made = model()
    made.save(tmp_path)
    assert nats(llrnn.load(str(tmp_path))) == nats(made)


def test_saving_again_replaces_and_a_mixture_of_two_saves_is_refused(tmp_path: Path) -> None:
    first, second = model(), model()
    shaken(second, 2.0)
    first.save_pretrained(tmp_path)
    old = (tmp_path / "model.safetensors").read_bytes()
    second.save_pretrained(tmp_path)
    assert nats(llrnn.load(tmp_path)) == nats(second)
    (tmp_path / "model.safetensors").write_bytes(old)
    with pytest.raises(CheckpointError, match="altered after saving"):
        llrnn.load(tmp_path)


def test_what_is_given_again_at_loading_is_taken(tmp_path: Path) -> None:
    made = model()
    made.save_pretrained(tmp_path)
    found = llrnn.load(tmp_path, background=backgrounds.Uniform())
    assert repr(found.background) == "Uniform()"


def test_a_folder_of_the_hub_is_a_base_of_adaptation(tmp_path: Path) -> None:
    made = model()
    made.save_pretrained(tmp_path)
    donor = open_base(tmp_path).donor
    assert donor is not None
    assert nats(donor) == nats(made)


def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path) -> None:
    made = model()
    with torch.no_grad():
        made.layer.bias[0] = float("nan")
    with pytest.raises(CheckpointError, match="finite numbers are required"):
        made.save_pretrained(tmp_path)


def test_folders_of_others_and_names_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}', encoding="utf8")
    with pytest.raises(CheckpointError, match=r"found one of transformers \(gpt2\); .*HuggingFace\.from_folder"):
        llrnn.load(tmp_path)
    (tmp_path / "config.json").write_text("no JSON", encoding="utf8")
    with pytest.raises(CheckpointError, match=r"config\.json: not JSON"):
        llrnn.load(tmp_path)


# --- a Hub ---------------------------------------------------------------------------------------------------------


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub's HTTP as an upload and a download ask for: files by repository, one revision."""

    files: dict[str, dict[str, bytes]]

    def log_message(self, *arguments: Any) -> None: ...

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.get("length") or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, data: object, status: int = 200) -> None:
        self._answer(status, json.dumps(data).encode(), Content_Type="application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        if self.headers.get("Authorization") != "Bearer secret":
            return self._json({"error": "who are you?"}, 401)
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            self.files.setdefault(name, {})
            return self._json({"url": f"http://{self.headers['Host']}/{name}", "id": "1", "name": name})
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        name = "/".join(path.split("/")[3:5])
        if "/preupload/" in path:
            asked = json.loads(body)["files"]
            return self._json(
                {"files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in asked]}
            )
        for line in body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                self.files[name][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        address = f"http://{self.headers['Host']}/{name}/commit/{'a' * 40}"
        return self._json({"success": True, "commitOid": "a" * 40, "commitUrl": address})

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        parts = path.strip("/").split("/")
        name = "/".join(parts[2:4]) if parts[0] == "api" else "/".join(parts[:2])
        if name not in self.files:
            return self._answer(404, b"{}", X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        if parts[0] == "api":
            if "tree" in parts:
                found = [{"type": "file", "path": p, "size": len(b), "oid": "0"} for p, b in self.files[name].items()]
                return self._json(found)
            siblings = [{"rfilename": file} for file in self.files[name]]
            return self._json({"id": name, "modelId": name, "sha": "a" * 40, "siblings": siblings, "private": False})
        content = self.files[name].get(parts[-1])
        if content is None:
            return self._answer(404, b"{}", X_Error_Code="EntryNotFound")
        etag = hashlib.sha256(content).hexdigest()
        return self._answer(200, content, ETag=f'"{etag}"', X_Repo_Commit="a" * 40)

    do_HEAD = do_GET  # noqa: N815  as the standard library calls it


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    Hub.files = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_goes_to_the_hub_and_comes_back(hub: str, tmp_path: Path) -> None:
    made, library = model(), pytest.importorskip("huggingface_hub")
    made.save_pretrained(tmp_path / "french")
    api = library.HfApi(endpoint=hub, token="secret")
    api.create_repo("me/french", exist_ok=True)
    api.upload_folder(repo_id="me/french", folder_path=tmp_path / "french")
    assert set(Hub.files["me/french"]) == {"config.json", "model.safetensors"}
    found = llrnn.load(library.snapshot_download("me/french", endpoint=hub, token="secret"))
    assert nats(found) == nats(made)
