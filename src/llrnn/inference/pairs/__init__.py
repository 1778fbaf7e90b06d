"""Minimal pairs: does a model prefer the grammatical sentence?

pairs = make_pairs(treebank, vocabulary=model.vocabulary)        or read_pairs("blimp.jsonl")
scores = score_pairs(model, pairs)
scores.overall.accuracy, scores.by_group["verb-number"], scores.by_distance["5+"]
"""

from llrnn.inference.pairs.making import make_pairs
from llrnn.inference.pairs.scoring import (
    Comparison,
    Pair,
    PairScores,
    Share,
    compare,
    read_pairs,
    score_pairs,
    write_pairs,
)

__all__ = [
    "Comparison",
    "Pair",
    "PairScores",
    "Share",
    "compare",
    "make_pairs",
    "read_pairs",
    "score_pairs",
    "write_pairs",
]
