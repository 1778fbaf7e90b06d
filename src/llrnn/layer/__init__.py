"""The equation log p(x | K) = log b(K, x) + a(h)·φ(K, x) − log Z(K), on tensors alone."""

from llrnn.layer.loglinear import Distribution, LogLinear
from llrnn.layer.matrix import FeatureMatrix
from llrnn.layer.priors import ContextValues, DensePrior, SparsePrior, Table

__all__ = ["ContextValues", "DensePrior", "Distribution", "FeatureMatrix", "LogLinear", "SparsePrior", "Table"]
