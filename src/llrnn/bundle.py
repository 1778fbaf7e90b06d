"""Tensors and plain data on disk, so that a reader sees all of a save or nothing of it.

A bundle NAME in a folder is `NAME.json`, the manifest, and one safetensors file whose name holds its own digest. The
data file is written first and the manifest replaced last, by one atomic rename: a process killed at any point leaves
the old bundle or the new one. The manifest lists the SHA-256 of every tensor, of the header of the data file, and of
its own plain data, so that no edit of either file goes unseen; nothing is ever pickled or executed.

A data file above 16 MB is mapped into memory, not read: pages come when they are used, and are shared by processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from llrnn.errors import CheckpointError

FORMAT = 2  # the newest that is read; 1: symbols of a model are plain data, 2: many of them are tensors
_MAPPED_ABOVE = 16_000_000  # bytes; reading fewer takes no time, and a file in memory cannot change under our feet


@dataclass(frozen=True)
class Bundle:
    """What was saved: plain data and named tensors."""

    data: dict[str, Any]
    tensors: dict[str, Tensor]


def write_bundle(
    folder: str | PathLike[str], name: str, data: Mapping[str, Any], tensors: Mapping[str, Tensor], *, version: int = 1
) -> None:
    """Write or replace the bundle, atomically; data files that no manifest names any more are removed.

    `version`: the oldest format whose readers understand what it holds.
    """
    folder = Path(folder)
    plain = _unshared({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})
    blob = save(plain)
    data_file = _data_file(name, blob)
    manifest = {
        "format": version,
        "file": data_file,
        "header": hashlib.sha256(_header(blob)).hexdigest(),
        "sha256": {key: _digest(tensor) for key, tensor in plain.items()},
        "data": dict(data),
    }
    try:
        sealed = _sealed(manifest)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / data_file, blob)
        write_atomically(folder / f"{name}.json", sealed)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot write the {name}: {error.strerror or error}") from error
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{folder}: the {name} holds data that JSON cannot hold ({error})") from error
    _remove_old(folder, name, data_file)


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of what shares its memory with another: one piece of knowledge may serve twice, which the file refuses."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for key, tensor in tensors.items():
        memory = tensor.untyped_storage().data_ptr()
        found[key] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return found


def _data_file(name: str, blob: bytes) -> str:
    return f"{name}-{hashlib.sha256(blob).hexdigest()[:16]}.safetensors"


def _sealed(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as it stands on disk; its last key is the SHA-256 of everything before it."""
    seal = hashlib.sha256(_encoded(manifest)).hexdigest()
    return _encoded({**manifest, "seal": seal})


def _encoded(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, ensure_ascii=False, indent=1).encode()


def _remove_old(folder: Path, name: str, kept: str) -> None:
    """Data files of earlier saves, and what a killed process left half-written; none of it is worth failing for."""
    for pattern in (f"{name}-*.safetensors", f".{name}-*.safetensors.*", f".{name}.json.*"):
        for old in folder.glob(pattern):
            if old.name != kept:
                with contextlib.suppress(OSError):
                    old.unlink()


def write_atomically(path: Path, content: bytes) -> None:
    """Into a temporary file beside it, synced to disk, then renamed."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _sync_folder(folder: Path) -> None:
    """The rename itself must reach the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def has_bundle(folder: str | PathLike[str], name: str) -> bool:
    return (Path(folder) / f"{name}.json").is_file()


def read_bundle(folder: str | PathLike[str], name: str, *, verify: bool = True) -> Bundle:
    """Read and check a bundle; anything wrong with it is a CheckpointError that names the file.

    Without `verify`, the manifest and the header of the data file are checked, and that the file is complete, but not
    the numbers in it: a bit that has flipped there goes unseen, and what is not used is not even read.
    """
    folder = Path(folder)
    manifest_file = folder / f"{name}.json"
    manifest = _read_manifest(manifest_file, name)
    if not (folder / manifest["file"]).exists():  # perhaps a save replaced both files just now
        manifest = _read_manifest(manifest_file, name)
    data_file = folder / manifest["file"]
    tensors, intact = _read_data(data_file, name, manifest.get("header"))
    expected = manifest["sha256"]
    if set(tensors) != set(expected):
        odd = sorted(set(tensors) ^ set(expected))[0]
        raise CheckpointError(
            f"{data_file}: the tensors do not match {manifest_file.name} ({odd!r} is in one of them only); "
            "restore both files from one save"
        )
    for key, tensor in tensors.items() if verify else ():
        if _digest(tensor) != expected[key]:
            raise CheckpointError(
                f"{data_file}: the tensor {key!r} was altered after saving (its SHA-256 differs from "
                f"{manifest_file.name}); restore the file from a copy"
            )
    if not intact:
        raise CheckpointError(f"{data_file}: altered after saving (its SHA-256 differs); restore it")
    return Bundle(manifest["data"], tensors)


def _read_manifest(path: Path, name: str) -> dict[str, Any]:
    try:
        content = path.read_bytes()
        manifest = json.loads(content)
    except (FileNotFoundError, NotADirectoryError):
        if not path.parent.is_dir():
            raise CheckpointError(
                f"{path.parent}: no such folder; give the folder that `llrnn train --out` wrote"
            ) from None
        raise CheckpointError(f"{path}: missing; {path.parent} holds no complete {name}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not JSON ({error}); the file is damaged, restore it") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise CheckpointError(f"{path}: not the manifest of a {name}; restore the file")
    if manifest["format"] > FORMAT:
        raise CheckpointError(f"{path}: format {manifest['format']} needs a newer llrnn, this one reads {FORMAT}")
    file, digests, data = (manifest.get(key) for key in ("file", "sha256", "data"))
    if not (isinstance(file, str) and isinstance(digests, dict) and isinstance(data, dict)) or Path(file).name != file:
        raise CheckpointError(f"{path}: the manifest lacks file, sha256 or data; the file is damaged, restore it")
    _check_seal(path, content, manifest)
    return manifest


def _check_seal(path: Path, content: bytes, manifest: dict[str, Any]) -> None:
    """Every byte is as it was written: a changed word or number would make another model, silently."""
    tail = b',\n "seal": ' + json.dumps(manifest.get("seal"), ensure_ascii=False).encode(errors="replace") + b"\n}"
    sealed = content.removesuffix(tail) + b"\n}"  # what the seal was made of
    if not content.endswith(tail) or hashlib.sha256(sealed).hexdigest() != manifest["seal"]:
        raise CheckpointError(f"{path}: altered after saving (its SHA-256 differs); restore the file from a copy")


def _read_data(path: Path, name: str, header: object) -> tuple[dict[str, Tensor], bool]:
    """The tensors of a data file, and whether what is around them is as it was written."""
    try:
        if header is not None and path.stat().st_size > _MAPPED_ABOVE:
            tensors = _mapped(path)  # first: it finds a header that is too long
            with open(path, "rb") as file:
                length = file.read(8)
                start = length + file.read(int.from_bytes(length, "little"))
            return tensors, hashlib.sha256(start).hexdigest() == header
        blob = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: missing, though the manifest names it; restore it") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    tensors = _tensors(path, blob)
    if header is None:  # a folder of before: the name of the file is the digest of all of it
        return tensors, _data_file(name, blob) == path.name
    return tensors, hashlib.sha256(_header(blob)).hexdigest() == header


def _header(blob: bytes) -> bytes:
    """What stands before the numbers: its own length, names, types and places."""
    return blob[: 8 + int.from_bytes(blob[:8], "little")]


def _mapped(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  (it is no mapping)
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file ({error}); restore it") from None


def _tensors(path: Path, blob: bytes) -> dict[str, Tensor]:
    try:
        return load(blob)
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file ({error}); restore it") from None


def _digest(tensor: Tensor) -> str:
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
    if tensor.numel():
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)  # no copy of it
    return digest.hexdigest()
