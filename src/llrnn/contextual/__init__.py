"""Contextual features φ(K, x): they depend on the condition and the prefix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llrnn.contextual.base import ContextualFeature
from llrnn.contextual.repeated import Repeated
from llrnn.errors import CheckpointError

__all__ = ["ContextualFeature", "Repeated", "restore"]


def restore(saved: Mapping[str, Any]) -> ContextualFeature:
    """A contextual feature from what a model folder holds of it."""
    match saved["kind"]:
        case "repeated":
            return Repeated(saved["window"])
        case "custom":
            raise CheckpointError(
                f"the model was saved with a contextual feature of your own, {saved.get('repr')}: "
                "give it again at loading, llrnn.load(folder, contextual=[...])"
            )
        case other:
            raise CheckpointError(f"unknown kind of contextual feature {other!r}: it needs a newer llrnn")
