"""n-gram models on disk: ARPA files for other programs, a folder of arrays for us (opens at once, loses no digit)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from llrnn.ground.bundle import read_bundle, write_bundle
from llrnn.ground.errors import CheckpointError, LLRNNError, quoted
from llrnn.languages.ngrams.arpa import read_arpa, write_arpa
from llrnn.languages.ngrams.table import Level, NGramTable, Shared, written_out

_ARRAYS = ("context", "word", "log_prob", "log_backoff")
SHARING = "ngram with shared words"  # as older readers do not know it


def described(table: NGramTable) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """A model as plain data and tensors: what an n-gram folder holds, and a model folder of a background."""
    data = {"words": list(table.words), "order": table.order, "notes": list(table.notes)}
    levels, shared = enumerate(table.levels), table.shared
    tensors = {f"{name}.{n}": torch.from_numpy(getattr(level, name)) for n, level in levels for name in _ARRAYS}
    if shared is not None:
        data["shared"] = {"word": shared.word, "hidden": shared.hidden}
        tensors |= {f"shared.{name}": torch.from_numpy(getattr(shared, name)) for name in ("words", "log_share")}
    return data, tensors


def table_from(data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> NGramTable:
    """The inverse of `described`; arrays that do not fit together are refused."""
    try:
        levels = [Level(*(tensors[f"{name}.{n}"].numpy() for name in _ARRAYS)) for n in range(int(data["order"]))]
        shared = _shared(data["shared"], tensors) if "shared" in data else None
        table = NGramTable(_strings(data, "words"), tuple(levels), _strings(data, "notes"), shared)
    except (LookupError, TypeError, ValueError, LLRNNError) as error:
        raise CheckpointError(f"the files of the n-gram model do not fit together ({error})") from error
    if not _is_sound(table):
        raise CheckpointError("the files of the n-gram model do not fit together; estimate it again")
    return table


def _strings(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = data[name]
    wrong = [one for one in found if not isinstance(one, str)] if isinstance(found, list) else [found]
    if wrong:
        raise CheckpointError(f"its {name} must be a list of strings, found {quoted(wrong[0])}")
    return tuple(found)


def _is_sound(table: NGramTable) -> bool:
    """Every place and word exists, and the n-grams are sorted: what all look-ups rely on."""
    V, below = len(table.words), 1
    for level in table.levels:
        if len({len(getattr(level, name)) for name in _ARRAYS}) != 1:
            return False
        in_range = (level.context >= 0) & (level.context < below) & (level.word >= 0) & (level.word < V)
        if not (in_range.all() and (np.diff(level.keys(V)) > 0).all()):
            return False
        below = len(level)
    return table.shared is None or _is_sound_share(table.shared, V)


def _shared(data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Shared:
    words, log_share = (tensors[f"shared.{name}"].numpy() for name in ("words", "log_share"))
    return Shared(int(data["word"]), bool(data["hidden"]), words, log_share)


def _is_sound_share(shared: Shared, n_words: int) -> bool:
    words, last = shared.words, n_words - 1
    if not (words.ndim == 1 and words.shape == shared.log_share.shape and len(words) and 0 <= shared.word <= last):
        return False
    in_range = words[0] >= 0 and words[-1] <= last - shared.hidden and bool((np.diff(words) > 0).all())
    placed = shared.word not in words and (not shared.hidden or shared.word == last)
    return bool(in_range and placed and (shared.log_share < np.inf).all())


def write_table(table: NGramTable, path: str | PathLike[str]) -> None:
    """Write an n-gram model to an ARPA file if the name ends in .arpa or .gz, otherwise to a folder."""
    if Path(path).suffix in (".arpa", ".gz"):
        write_arpa(table, path)
    else:
        write_bundle(path, "ngram", *described(written_out(table)))


def read_table(path: str | PathLike[str]) -> NGramTable:
    """Read an n-gram model from a folder of `write_table`, or from an ARPA file: `read_table("model.arpa.gz")`."""
    if not Path(path).is_dir():
        return read_arpa(path)
    bundle = read_bundle(path, "ngram")
    try:
        return table_from(bundle.data, bundle.tensors)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from error
