"""Bit flips: one bit of a file is turned, and the file is read as its owner would.

A file with a check sum must be refused by an error of ours; it may be read only where the reading is the same (the
time stamp of a gzip file). Text without a check sum may also be another text, which is read or refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

import llrnn
from campaign.results import Figure, Finding, Outcome, Setting, rng_of
from campaign.samples import make_samples
from campaign.workers import untyped
from llrnn.ground.bundle import read_bundle
from llrnn.ground.errors import LLRNNError
from llrnn.languages.ngrams import read_table
from llrnn.text.built import BuiltCorpus

FLIPS = 20_400


def _digest(*parts: object) -> str:
    found = hashlib.sha256()
    for part in parts:
        array = part.detach().numpy() if isinstance(part, Tensor) else part
        found.update(array.tobytes() if isinstance(array, np.ndarray) else repr(array).encode())
    return found.hexdigest()


def _of_bundle(name: str) -> Callable[[Path], str]:
    def read(folder: Path) -> str:
        found = read_bundle(folder, name)
        return _digest(found.data, *found.tensors, *found.tensors.values())

    return read


def _of_model(folder: Path) -> str:
    model = llrnn.load(folder)
    weights = model.state_dict()
    return _digest(list(model.vocabulary), model.feature_names, *weights, *weights.values())


def _of_ngrams(path: Path) -> str:
    table = read_table(path)
    arrays = [getattr(level, name) for level in table.levels for name in ("context", "word", "log_prob", "log_backoff")]
    return _digest(table.words, *arrays)


def _of_built(folder: Path) -> str:
    built = BuiltCorpus(folder)
    return _digest(built.manifest, built.check())


@dataclass(frozen=True)
class Source:
    """A kind of file: which files of the samples, how they are read, and whether every bit of them is checked."""

    files: str  # a glob
    read: Callable[[Path], str]
    share: float  # of all flips
    checked: bool = True
    whole: bool = True  # what is read is the folder that the file lies in

    def opened(self, samples: Path, file: Path) -> str:
        return self.read(file.parent if self.whole else file)


SOURCES = {
    "model manifest": Source("runs/plain/model.json", _of_model, 0.16),
    "model weights": Source("runs/plain/model-*.safetensors", _of_model, 0.16),
    "conditional model": Source("runs/acts/model*", _of_model, 0.10),
    "open model": Source("runs/open/model*", _of_model, 0.06),
    "words as arrays": Source("runs/spelled/model*", _of_model, 0.10),
    "mapped weights": Source("runs/mapped/model-*.safetensors", _of_model, 0.01),
    "training checkpoint": Source("runs/*/training*", _of_bundle("training"), 0.16),
    "n-gram arrays": Source("text.ngram/*", _of_ngrams, 0.08),
    "built corpus": Source("built/*", _of_built, 0.10),
    "ARPA gzip": Source("text.arpa.gz", _of_ngrams, 0.03, whole=False),
    "ARPA text": Source("text.arpa", _of_ngrams, 0.04, checked=False, whole=False),
}


@dataclass(frozen=True)
class Flip:
    """The case: which kind, which flip of it."""

    source: str
    number: int
    seed: int

    def __str__(self) -> str:
        return f"{self.source}-{self.number}"


_right: dict[tuple[str, Path], str] = {}  # readings of files as they are


def flip_one(case: Flip, scratch: Path) -> list[Outcome]:
    """Turn a bit, read, turn it back."""
    source, samples, rng = SOURCES[case.source], scratch / "samples", rng_of(case.seed, f"flips {case}")
    file = rng.choice(sorted(samples.glob(source.files)))
    if (case.source, file) not in _right:
        _right[case.source, file] = source.opened(samples, file)
    place, bit = rng.randrange(file.stat().st_size), rng.randrange(8)
    _turn(file, place, bit)
    try:
        found = source.opened(samples, file)
        same = found == _right[case.source, file]
    except LLRNNError:
        return [Outcome(case.source, "refused")]
    except Exception as error:
        where = f"{file.name}, byte {place}, bit {bit}"
        return [Outcome(case.source, "untyped", untyped(error, str(case), where))]
    finally:
        _turn(file, place, bit)
    if same or not source.checked:
        return [Outcome(case.source, "read the same" if same else "another valid text")]
    detail = f"{file.name}, byte {place}, bit {bit}: read without a word, and not what was written"
    return [Outcome(case.source, "silent", Finding("silent", str(case), f"{case.source}: {file.suffix}", detail))]


def _turn(file: Path, place: int, bit: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        byte = opened.read(1)[0]
        opened.seek(place)
        opened.write(bytes([byte ^ (1 << bit)]))


def flips(setting: Setting) -> Iterator[Outcome | Figure]:
    """Every kind of file by its share."""
    samples = make_samples(setting.out / "samples")
    cases = [
        Flip(name, number, setting.seed)
        for name, source in SOURCES.items()
        for number in range(setting.count(round(FLIPS * source.share)))
    ]
    yield from setting.pool.run(flip_one, (case for case in cases if setting.wanted(str(case))), samples)
    yield Figure("peak MB of a worker", setting.pool.peak_mb)
