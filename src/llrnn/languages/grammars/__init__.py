"""Formal languages over the symbols of a vocabulary: weighted automata and context-free grammars."""

from __future__ import annotations

from llrnn.languages.grammars.expressions import Expression, from_condition, letter, words
from llrnn.languages.grammars.notation import matching, pattern, regular, symbolic

__all__ = ["Expression", "from_condition", "letter", "matching", "pattern", "regular", "symbolic", "words"]
