"""Models behind an HTTP API, with a page for people and a client for programs."""

from typing import TYPE_CHECKING

from llrnn.ground.lazy import lazy_getattr
from llrnn.serve.answers import Finished, Health, Next, Score, ServedModel, Written

if TYPE_CHECKING:
    from llrnn.serve.client import Client

__all__ = ["Client", "Finished", "Health", "Next", "Score", "ServedModel", "Written"]

__getattr__ = lazy_getattr(__name__, {"Client": "llrnn.serve.client"})  # explanations need torch
