"""Corpora larger than memory: numbers on disk in checksummed shards, read where they lie."""

from __future__ import annotations

from llrnn.text.shards.build import Listing, build_corpus
from llrnn.text.shards.reading import BuiltCorpus, is_built

__all__ = ["BuiltCorpus", "Listing", "build_corpus", "is_built"]
