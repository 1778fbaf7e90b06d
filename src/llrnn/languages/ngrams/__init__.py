"""n-gram models: counting, Kneser-Ney estimation, ARPA files, and whole next-word distributions."""

from __future__ import annotations

from llrnn.languages.ngrams.arpa import is_arpa, read_arpa, read_table, write_arpa, write_table
from llrnn.languages.ngrams.combine import interpolated, normalised, pruned
from llrnn.languages.ngrams.kneser_ney import (
    Scratch,
    count_ngrams,
    estimate,
    estimate_on_disk,
    read_stream,
    stream_pieces,
)
from llrnn.languages.ngrams.table import (
    EMPTY,
    UNKNOWN,
    DenseRows,
    HashIndex,
    Level,
    NGramRows,
    NGramTable,
    Shared,
    Trie,
    completed,
    for_vocabulary,
    revised,
    with_unknown,
    written_out,
)

__all__ = [
    "EMPTY",
    "UNKNOWN",
    "DenseRows",
    "HashIndex",
    "Level",
    "NGramRows",
    "NGramTable",
    "Scratch",
    "Shared",
    "Trie",
    "completed",
    "count_ngrams",
    "estimate",
    "estimate_on_disk",
    "for_vocabulary",
    "interpolated",
    "is_arpa",
    "normalised",
    "pruned",
    "read_arpa",
    "read_stream",
    "read_table",
    "revised",
    "stream_pieces",
    "with_unknown",
    "write_arpa",
    "write_table",
    "written_out",
]
