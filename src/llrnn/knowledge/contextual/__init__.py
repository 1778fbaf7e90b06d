"""Contextual features φ(K, x): they depend on the condition and the prefix."""

from __future__ import annotations

from llrnn.ground.errors import CheckpointError
from llrnn.knowledge import backgrounds
from llrnn.knowledge.contextual.base import ContextualFeature, Repeated
from llrnn.knowledge.contextual.copied import KINDS, Continued, Copied, Said, Unsaid
from llrnn.knowledge.contextual.expert import Expert
from llrnn.knowledge.contextual.lookup import Lookup, Matching
from llrnn.knowledge.process import Saved

__all__ = [
    "ContextualFeature",
    "Continued",
    "Copied",
    "Expert",
    "Lookup",
    "Matching",
    "Repeated",
    "Said",
    "Unsaid",
    "restore",
]


def restore(saved: Saved) -> ContextualFeature:
    """A contextual feature from what a model folder holds of it."""
    match saved.kind:
        case "repeated":
            return Repeated(saved.fields["window"])
        case "expert":
            return Expert(*(backgrounds.restore(part) for part in saved.parts), name=saved.fields["name"])
        case kind if kind in KINDS:
            return KINDS[kind](*saved.fields["slots"])
        case "lookup":
            return Lookup.restored(saved.fields)
        case "custom":
            raise CheckpointError(
                f"the model was saved with a contextual feature of your own, {saved.fields.get('repr')}: "
                "give it again at loading, llrnn.load(folder, contextual=[...])"
            )
        case other:
            raise CheckpointError(f"unknown kind of contextual feature {other!r}: it needs a newer llrnn")
