"""The equation log p(x | K) = log b(K, x) + a(h)·φ(K, x) − log Z(K), on tensors alone."""

from llrnn.layer.distribution import Distribution
from llrnn.layer.loglinear import LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import ContextValues, DensePrior, Exceptions, LinearValues, SparsePrior, Table
from llrnn.layer.weights import WeightChange

__all__ = [
    "ContextValues",
    "DensePrior",
    "Distribution",
    "Exceptions",
    "FeatureMatrix",
    "LinearValues",
    "LogLinear",
    "SparsePrior",
    "Table",
    "WeightChange",
]
