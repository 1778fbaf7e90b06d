"""Benchmarks: ratios in one run against peers that do the same work, interleaved, medians."""

from __future__ import annotations

from llrnn.bench.against_kenlm import ngrams
from llrnn.bench.beam import beam, made_up
from llrnn.bench.constraint import constraint
from llrnn.bench.everything import everything
from llrnn.bench.gpu import gpu
from llrnn.bench.inference import inference
from llrnn.bench.neural import french_like, interleaved, layer, own_classes, training
from llrnn.bench.objectives import objectives
from llrnn.bench.parallel import parallel

__all__ = [
    "beam",
    "constraint",
    "everything",
    "french_like",
    "gpu",
    "inference",
    "interleaved",
    "layer",
    "made_up",
    "ngrams",
    "objectives",
    "own_classes",
    "parallel",
    "training",
]
