"""Benchmarks: ratios in one run against peers that do the same work, interleaved, medians."""

from __future__ import annotations

from llrnn_lab.bench.against_kenlm import ngrams
from llrnn_lab.bench.beam import beam, made_up
from llrnn_lab.bench.constraint import constraint
from llrnn_lab.bench.everything import everything
from llrnn_lab.bench.gpu import gpu
from llrnn_lab.bench.inference import inference
from llrnn_lab.bench.neural import french_like, interleaved, layer, own_classes, training
from llrnn_lab.bench.objectives import objectives
from llrnn_lab.bench.parallel import parallel

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
