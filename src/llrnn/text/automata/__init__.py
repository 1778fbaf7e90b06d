"""Finite automata over characters: they sort all strings, also those that nobody has listed, into cells."""

from __future__ import annotations

from llrnn.text.automata.dfa import KINDS, Automaton, anything, check_string, first_of, kind, partition, permitted
from llrnn.text.automata.patterns import pattern

__all__ = [
    "KINDS",
    "Automaton",
    "anything",
    "check_string",
    "first_of",
    "kind",
    "partition",
    "pattern",
    "permitted",
]
