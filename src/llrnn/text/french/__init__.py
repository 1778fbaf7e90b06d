"""A small French grammar of our own: annotated sentences of any number from a seed.

Agreement in gender, number and person always holds, across relative clauses and complements; words follow Zipf's law;
numbers and names are there. Sentence `i` is a function of the seed and of `i`, on every machine.

    for sentence in french.sentences(1000, seed=7): ...
    for line in french.conllu(french.sentences(1000)): ...
"""

from __future__ import annotations

from collections.abc import Iterator

from llrnn.text.corpus.source import Sentence
from llrnn.text.french.grammar import sentence
from llrnn.text.french.writing import conllu

__all__ = ["conllu", "sentences"]


def sentences(count: int, *, seed: int = 0) -> Iterator[Sentence]:
    """The first `count` sentences of the endless corpus that `seed` names."""
    return (sentence(seed, index) for index in range(count))
