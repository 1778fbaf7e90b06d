"""Benchmarks: ratios in one run against peers that do the same work, interleaved, medians."""

from __future__ import annotations

from llrnn.bench.against_kenlm import ngrams
from llrnn.bench.beam import beam, made_up
from llrnn.bench.constraint import constraint
from llrnn.bench.neural import french_like, interleaved, layer, own_classes, training

__all__ = ["beam", "constraint", "french_like", "interleaved", "layer", "made_up", "ngrams", "own_classes", "training"]
