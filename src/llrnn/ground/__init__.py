"""The ground that every room stands on: errors, files, bundles of tensors, caches, and how results are shown."""

from llrnn.ground import errors
from llrnn.ground.errors import LLRNNError

__all__ = ["LLRNNError", "errors"]
