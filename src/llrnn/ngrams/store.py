"""n-gram models on disk: ARPA files for other programs, a folder of arrays for us (opens at once, loses no digit)."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np
import torch

from llrnn.bundle import read_bundle, write_bundle
from llrnn.errors import CheckpointError, LLRNNError
from llrnn.ngrams.arpa import read_arpa
from llrnn.ngrams.arpa_writer import write_arpa
from llrnn.ngrams.table import Level, NGramTable

_ARRAYS = ("context", "word", "log_prob", "log_backoff")


def write_table(table: NGramTable, path: str | PathLike[str]) -> None:
    """To an ARPA file if the name ends in .arpa or .gz, otherwise to a folder."""
    if Path(path).suffix in (".arpa", ".gz"):
        write_arpa(table, path)
        return
    tensors = {
        f"{name}.{n}": torch.from_numpy(getattr(level, name))
        for n, level in enumerate(table.levels)
        for name in _ARRAYS
    }
    write_bundle(path, "ngram", {"words": table.words, "order": table.order, "notes": table.notes}, tensors)


def read_table(path: str | PathLike[str]) -> NGramTable:
    """From a folder that `write_table` made, or from an ARPA file."""
    if not Path(path).is_dir():
        return read_arpa(path)
    bundle = read_bundle(path, "ngram")
    try:
        data = bundle.data
        levels = [
            Level(*(bundle.tensors[f"{name}.{n}"].numpy() for name in _ARRAYS)) for n in range(int(data["order"]))
        ]
        table = NGramTable(tuple(data["words"]), tuple(levels), tuple(data["notes"]))
    except (LookupError, TypeError, ValueError, LLRNNError) as error:
        raise CheckpointError(f"{path}: the files of the n-gram model do not fit together ({error})") from error
    _require_sound(table, path)
    return table


def _require_sound(table: NGramTable, path: str | PathLike[str]) -> None:
    """Every place and word exists, and the n-grams are sorted: what all look-ups rely on."""
    V, below = len(table.words), 1
    for level in table.levels:
        if len({len(getattr(level, name)) for name in _ARRAYS}) != 1:
            raise CheckpointError(f"{path}: the files of the n-gram model do not fit together; estimate it again")
        in_range = (level.context >= 0) & (level.context < below) & (level.word >= 0) & (level.word < V)
        if not (in_range.all() and (np.diff(level.keys(V)) > 0).all()):
            raise CheckpointError(f"{path}: the files of the n-gram model do not fit together; estimate it again")
        below = len(level)
