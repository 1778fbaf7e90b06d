"""Static features φ(x) and ψ: what is known of a symbol, whatever the context."""

from llrnn.knowledge.features.base import Features, Function
from llrnn.knowledge.features.compiled import FeatureSummary, compile_features, summarise
from llrnn.knowledge.features.groups import Attributes, CellAttributes, Identity, Numeric, Prefixes, Shape, Suffixes
from llrnn.layer.matrix import FeatureMatrix

__all__ = [
    "Attributes",
    "CellAttributes",
    "FeatureMatrix",
    "FeatureSummary",
    "Features",
    "Function",
    "Identity",
    "Numeric",
    "Prefixes",
    "Shape",
    "Suffixes",
    "compile_features",
    "summarise",
]
