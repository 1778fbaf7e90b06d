"""Formal languages over the symbols of a vocabulary: weighted automata and context-free grammars."""

from __future__ import annotations

from llrnn.languages.expressions import Expression, from_condition, letter, matching, ngram, words
from llrnn.languages.regular import regular
from llrnn.languages.symbolic import symbolic

__all__ = [
    "Expression",
    "from_condition",
    "letter",
    "matching",
    "ngram",
    "regular",
    "symbolic",
    "words",
]
