"""Lexicons made of morphological dictionaries: hunspell (expanded to full forms), Lefff, Lexique."""

from llrnn.text.analysers.hunspell import hunspell
from llrnn.text.analysers.lefff import lefff, lexique
from llrnn.text.analysers.tags import FRENCH, Tags

__all__ = ["FRENCH", "Tags", "hunspell", "lefff", "lexique"]
