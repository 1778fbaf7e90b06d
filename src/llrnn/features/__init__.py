"""Static features φ(x) and ψ: what is known of a symbol, whatever the context."""

from llrnn.features.base import Features, Function
from llrnn.features.lexical import Attributes, Identity, Shown
from llrnn.features.matrix import FeatureMatrix, compile_features
from llrnn.features.spelling import Numeric, Prefixes, Shape, Suffixes
from llrnn.features.summary import FeatureSummary, summarise

__all__ = [
    "Attributes",
    "FeatureMatrix",
    "FeatureSummary",
    "Features",
    "Function",
    "Identity",
    "Numeric",
    "Prefixes",
    "Shape",
    "Shown",
    "Suffixes",
    "compile_features",
    "summarise",
]
