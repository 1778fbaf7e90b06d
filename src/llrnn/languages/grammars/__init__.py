"""Formal languages over the symbols of a vocabulary: weighted automata and context-free grammars."""

from __future__ import annotations

from llrnn.languages.grammars.expressions import (
    Expression,
    from_condition,
    letter,
    matching,
    ngram,
    regular,
    symbolic,
    words,
)

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
