"""The equation log p(x | K) = log b(K, x) + a(h)·φ(K, x) − log Z(K), on tensors alone."""

from llrnn.layer.linear import LinearValues
from llrnn.layer.loglinear import Distribution, LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import ContextValues, DensePrior, Exceptions, SparsePrior, Table
from llrnn.layer.readout import Shaped
from llrnn.layer.steered import Steered

__all__ = [
    "ContextValues",
    "DensePrior",
    "Distribution",
    "Exceptions",
    "FeatureMatrix",
    "LinearValues",
    "LogLinear",
    "Shaped",
    "SparsePrior",
    "Steered",
    "Table",
]
