"""A small French grammar of our own: annotated sentences of any number from a seed.

Agreement in gender, number and person always holds, across relative clauses and complements; words follow Zipf's law;
numbers and names are there. Sentence `i` is a function of the seed and of `i`, on every machine.

    for sentence in french.sentences(1000, seed=7): ...
    for line in french.conllu(french.sentences(1000)): ...
"""

from llrnn.text.french.grammar import conllu, sentences

__all__ = ["conllu", "sentences"]
