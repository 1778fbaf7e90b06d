"""What weighs strings without a network: n-grams, infinite domains, automata and grammars."""

from llrnn.languages import domains, grammars, ngrams

__all__ = ["domains", "grammars", "ngrams"]
