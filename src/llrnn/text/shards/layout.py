"""What a built corpus is on disk: a folder with `corpus.json` and the columns of its shards.

    00000.words   int32   the text as one run: a sentence, EOS, a sentence, EOS, ...
    00000.ends    int64   for each sentence, the place in the whole text behind its EOS
    00000.keys    int64   for each sentence, a number that names it by its words as they were read (`text.sentence_key`)

All of them little-endian and nothing else, so that a column is an array where it lies. Shards are cut between
sentences. `corpus.json` lists the words with their counts, the totals, and the SHA-256 of every file; its last key is
the SHA-256 of all before it. It is written last: a folder without it was not finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llrnn.ground.arrays import Ints
from llrnn.ground.errors import CorpusError
from llrnn.ground.files import open_file, read_file, sealed_json, write_atomically
from llrnn.text.vocabulary import EOS

FORMAT = 1
MANIFEST = "corpus.json"
COLUMNS = {"words": "<i4", "ends": "<i8", "keys": "<i8"}


@dataclass(frozen=True)
class Shard:
    """One shard: how much of the text it holds, and the SHA-256 of its files by column."""

    name: str
    sentences: int
    words: int  # ends of sentences among them
    sha256: Mapping[str, str]

    def file(self, folder: Path, column: str) -> Path:
        return folder / f"{self.name}.{column}"

    def length(self, column: str) -> int:
        """How many numbers a column has."""
        return self.words if column == "words" else self.sentences


@dataclass(frozen=True)
class Manifest:
    """What `corpus.json` says."""

    words: tuple[str, ...]  # by number
    counts: tuple[int, ...]  # of EOS: the number of sentences
    unknown: str | None  # the symbol that stands for all words that are not listed
    lowercase: bool
    sentences: int
    tokens: int  # ends of sentences not counted
    characters: int  # of the words as they were read, each with one for the space behind it
    shards: tuple[Shard, ...]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """The last file of a build."""
    write_atomically(folder / MANIFEST, sealed_json({"format": FORMAT, **asdict(manifest)}, "surrogatepass"))


def read_manifest(folder: str | PathLike[str]) -> Manifest:
    """Read and check it; anything wrong is a CorpusError that names the file."""
    path = Path(folder) / MANIFEST
    content = _read(path)
    try:
        data = json.loads(content.decode("utf8", "surrogatepass"))
        number = data["format"]
    except (ValueError, RecursionError, TypeError, KeyError):
        raise CorpusError(f"the {MANIFEST} of a built corpus is required, found another file; {_AGAIN}", path=path)  # noqa: B904
    if number != FORMAT:
        raise CorpusError(f"format {FORMAT} of built corpora is required, found {number!r}; {_AGAIN}", path=path)
    if content != sealed_json({key: data[key] for key in data if key != "seal"}, "surrogatepass"):
        raise CorpusError(f"altered after it was written (its SHA-256 differs); {_AGAIN}", path=path)
    return _manifest(data, path)


def _manifest(data: Mapping[str, Any], path: Path) -> Manifest:
    """A right seal says that nothing was altered, not that what was sealed was right: who may write may also seal."""
    try:
        plain = {key: data[key] for key in ("unknown", "lowercase", "sentences", "tokens", "characters")}
        shards = tuple(Shard(**shard) for shard in data["shards"])
        manifest = Manifest(words=tuple(data["words"]), counts=tuple(data["counts"]), shards=shards, **plain)
        wrong = _contradiction(manifest)
    except (TypeError, KeyError, AttributeError) as error:
        wrong = f"a field is missing, unknown or of another type ({str(error)[:100]})"
    if wrong is not None:
        raise CorpusError(f"what it says of the corpus cannot be: {wrong}; {_AGAIN}", path=path)
    return manifest


def _contradiction(manifest: Manifest) -> str | None:
    """What is wrong with the fields among themselves; None where they agree."""
    words, shards = manifest.words, manifest.shards
    sizes = [manifest.sentences, manifest.tokens, manifest.characters, *manifest.counts]
    sizes += [size for shard in shards for size in (shard.sentences, shard.words)]
    checks = {
        "words must be strings, each once, the end of sentences among them": all(type(word) is str for word in words)
        and len(set(words)) == len(words)
        and EOS in words,
        "numbers must be whole, from 0 and below 2^62": all(type(size) is int and 0 <= size < 2**62 for size in sizes),
        "every word must have its count": len(manifest.counts) == len(words),
        "`unknown` must be one of the words, or null": manifest.unknown is None or manifest.unknown in words,
        "`lowercase` must be true or false": type(manifest.lowercase) is bool,
        "shards must be named by their numbers, with a SHA-256 for each column": all(
            shard.name == f"{number:05}" and _digests_of_columns(shard) for number, shard in enumerate(shards)
        ),
    }
    wrong = next((rule for rule, holds in checks.items() if not holds), None)
    return wrong if wrong is not None else _other_total(manifest)


def _digests_of_columns(shard: Shard) -> bool:
    return shard.sha256.keys() == COLUMNS.keys() and all(type(digest) is str for digest in shard.sha256.values())


def _other_total(manifest: Manifest) -> str | None:
    sentences, positions = manifest.sentences, manifest.sentences + manifest.tokens
    totals = {
        "sentences of the shards": (sum(shard.sentences for shard in manifest.shards), sentences),
        "words of the shards": (sum(shard.words for shard in manifest.shards), positions),
        "counts of words": (sum(manifest.counts), positions),
    }
    for what, (found, required) in totals.items():
        if found != required:
            return f"the {what} must add up to {required:.6g}, found {found:.6g}"
    return None


_AGAIN = "restore it from a copy, or build the corpus again: llrnn corpus build"


def _read(path: Path) -> bytes:
    try:
        return read_file(path, limit=2_000_000_000)
    except (FileNotFoundError, NotADirectoryError):
        what = "a folder that `llrnn corpus build` finished is required"
        folder = path.parent
        there = "there is none of this name" if not folder.exists() else "this is a file"
        found = "this folder has no corpus.json" if folder.is_dir() else there
        raise CorpusError(f"{what}, but {found}; build the corpus, or check the path", path=folder) from None
    except OSError as error:
        raise CorpusError(f"the file cannot be read: {error.strerror or error}", path=path) from error


def check_files(folder: Path, manifest: Manifest) -> int:
    """Read every file and compare it with its SHA-256; how many bytes that were."""
    return sum(
        check_file(shard.file(folder, column), shard.length(column) * int(kind[-1]), shard.sha256[column])
        for shard in manifest.shards
        for column, kind in COLUMNS.items()
    )


def check_file(path: Path, size: int, sha256: str) -> int:
    check_size(path, size)
    try:
        with open_file(path) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CorpusError(f"the file cannot be read: {error.strerror or error}", path=path) from error
    if found != sha256:
        raise CorpusError(f"altered after it was written (its SHA-256 differs from {MANIFEST}); {_AGAIN}", path=path)
    return size


def check_size(path: Path, size: int) -> None:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        raise CorpusError(f"missing, though {MANIFEST} lists it; {_AGAIN}", path=path) from None
    if found != size:
        raise CorpusError(
            f"{size:,} bytes are required, found {found:,}: the file was cut or changed; {_AGAIN}", path=path
        )


# One array over many files: a column of a built corpus, opened shard by shard when a number of it is asked for.


BLOCK = 1 << 20  # numbers that a pass over the whole looks at together
_CHEAP = 1 << 26  # bytes: smaller files are compared with their SHA-256 when they are opened, larger ones only in size


class ShardColumn:
    """`column[places]` for an array of places, `column.slice(start, stop)`, `column.blocks()`; all int64."""

    def __init__(self, folder: Path, manifest: Manifest, name: str) -> None:
        self._folder, self._shards, self._name = folder, manifest.shards, name
        self.begins = np.cumsum([0, *(shard.length(name) for shard in manifest.shards)])  # of each shard, and the end
        self._open: dict[int, NDArray[Any]] = {}

    def __len__(self) -> int:
        return int(self.begins[-1])

    def __getitem__(self, places: Ints) -> Ints:
        """The numbers at some places, in the shape of the places."""
        flat = places.reshape(-1)
        found = np.empty(len(flat), dtype=np.int64)
        which = np.searchsorted(self.begins, flat, side="right") - 1
        for shard in np.unique(which).tolist():
            here = which == shard
            found[here] = self._shard(shard)[flat[here] - self.begins[shard]]
        return found.reshape(places.shape)

    def slice(self, start: int, stop: int) -> Ints:
        """The numbers from one place up to another."""
        first, last = np.searchsorted(self.begins, [start, max(stop - 1, start)], side="right") - 1
        parts = [self._shard(k)[max(start - self.begins[k], 0) : stop - self.begins[k]] for k in range(first, last + 1)]
        return parts[0].astype(np.int64) if len(parts) == 1 else np.concatenate(parts).astype(np.int64)

    def places(self, numbers: Ints, shard_begins: Ints) -> Ints:
        """How many numbers of this sorted column are at most each of some; those of shard k are above its begin."""
        flat = numbers.reshape(-1)
        found = np.empty(len(flat), dtype=np.int64)
        which = np.searchsorted(shard_begins, flat, side="right") - 1
        for shard in np.unique(which).tolist():
            here = which == shard
            found[here] = np.searchsorted(self._shard(shard), flat[here], side="right") + self.begins[shard]
        return found.reshape(numbers.shape)

    def blocks(self) -> Iterator[Ints]:
        """All of it, one piece after another."""
        for start in range(0, len(self), BLOCK):
            yield self.slice(start, min(start + BLOCK, len(self)))

    def _shard(self, number: int) -> NDArray[Any]:
        if number not in self._open:
            self._open[number] = self._opened(number)
        return self._open[number]

    def _opened(self, number: int) -> NDArray[Any]:
        shard, kind = self._shards[number], COLUMNS[self._name]
        path, length = shard.file(self._folder, self._name), shard.length(self._name)
        size = length * int(kind[-1])
        if size <= _CHEAP:
            check_file(path, size, shard.sha256[self._name])
        else:
            check_size(path, size)
        return np.memmap(path, dtype=kind, mode="r", shape=(length,))
