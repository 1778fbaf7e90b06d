"""A trained model judged and explained: evaluation, explanations, rescoring, adaptation."""

from llrnn.inference.adaptation import adaptor, open_base
from llrnn.inference.evaluation import Evaluation, evaluate
from llrnn.inference.explanation import Comparison, Explanation, Influence, explain, influence
from llrnn.inference.nbest import read_nbest
from llrnn.inference.pairs import read_pairs, score_pairs
from llrnn.inference.rescoring import measure_distortion, rescore, tune
from llrnn.inference.scores import SentenceScore, TextScores, score

__all__ = [
    "Comparison",
    "Evaluation",
    "Explanation",
    "Influence",
    "SentenceScore",
    "TextScores",
    "adaptor",
    "evaluate",
    "explain",
    "influence",
    "measure_distortion",
    "open_base",
    "read_nbest",
    "read_pairs",
    "rescore",
    "score",
    "score_pairs",
    "tune",
]
