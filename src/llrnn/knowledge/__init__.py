"""What the user states: features φ and ψ, backgrounds b, features that follow the context."""

from llrnn.knowledge import backgrounds, contextual, features
from llrnn.knowledge.process import Process

__all__ = ["Process", "backgrounds", "contextual", "features"]
