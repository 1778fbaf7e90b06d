"""Static features φ(x) and ψ: what is known of a symbol, whatever the context."""

from llrnn.knowledge.features.base import Features, Function
from llrnn.knowledge.features.compiled import compile_features
from llrnn.knowledge.features.lexical import Attributes, Identity, Shown
from llrnn.knowledge.features.spelling import Numeric, Prefixes, Shape, Suffixes
from llrnn.knowledge.features.summary import FeatureSummary, summarise
from llrnn.layer.matrix import FeatureMatrix

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
