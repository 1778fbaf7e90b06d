"""n-gram models: counting, Kneser-Ney estimation, ARPA files, and whole next-word distributions."""

from llrnn.languages.ngrams.arpa import is_arpa, read_arpa, read_table, write_arpa, write_table
from llrnn.languages.ngrams.combine import interpolated, normalised, pruned
from llrnn.languages.ngrams.kneser_ney import estimate, read_stream
from llrnn.languages.ngrams.table import UNKNOWN, NGramTable

__all__ = [
    "UNKNOWN", "NGramTable", "estimate", "interpolated", "is_arpa", "normalised", "pruned", "read_arpa", "read_stream",
    "read_table", "write_arpa", "write_table",
]  # fmt: skip
