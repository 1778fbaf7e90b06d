"""n-gram models: counting, Kneser-Ney estimation, ARPA files, and whole next-word distributions."""

from __future__ import annotations

from llrnn.languages.ngrams.arpa import read_arpa, write_arpa
from llrnn.languages.ngrams.kneser_ney import count_ngrams, estimate, estimate_on_disk
from llrnn.languages.ngrams.scratch import Scratch
from llrnn.languages.ngrams.store import read_table, write_table
from llrnn.languages.ngrams.streams import read_stream, stream_pieces
from llrnn.languages.ngrams.table import (
    UNKNOWN,
    Level,
    NGramTable,
    Shared,
    completed,
    for_vocabulary,
    revised,
    written_out,
)
from llrnn.languages.ngrams.trie import EMPTY, DenseRows, NGramRows, Trie

__all__ = [
    "EMPTY",
    "UNKNOWN",
    "DenseRows",
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
    "read_arpa",
    "read_stream",
    "read_table",
    "revised",
    "stream_pieces",
    "write_arpa",
    "write_table",
    "written_out",
]
