"""Lexicons made of morphological dictionaries: hunspell (expanded to full forms), Lefff, Lexique."""

from llrnn.analysers.french import FRENCH
from llrnn.analysers.hunspell import hunspell
from llrnn.analysers.lefff import lefff, lexique
from llrnn.analysers.tags import Tags

__all__ = ["FRENCH", "Tags", "hunspell", "lefff", "lexique"]
