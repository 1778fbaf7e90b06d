"""The server: an HTTP API and a page over trained models. Thin: every number comes from the library (extra `serve`)."""

from typing import TYPE_CHECKING

from llrnn.ground.startup import lazy_getattr
from llrnn.serve.messages import Finished, Health, Next, Score, ServedModel, Written

if TYPE_CHECKING:
    from llrnn.serve.client import Client

__all__ = ["Client", "Finished", "Health", "Next", "Score", "ServedModel", "Written"]

__getattr__ = lazy_getattr(__name__, {"Client": "llrnn.serve.client"})  # explanations need torch
