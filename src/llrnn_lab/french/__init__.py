"""A small French grammar of our own: annotated sentences of any number from a seed.

Agreement in gender, number and person always holds, across relative clauses and complements; words follow Zipf's law;
numbers and names are there. Sentence `i` is a function of the seed and of `i`, on every machine. The package ships the
first 8,000 of seed 0 (`llrnn.text.french`).

    for sentence in french.sentences(1000, seed=7): ...
"""

from llrnn_lab.french.grammar import sentences

__all__ = ["sentences"]
