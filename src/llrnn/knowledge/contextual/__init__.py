"""Contextual features φ(K, x): they depend on the condition and the prefix."""

from __future__ import annotations

from collections.abc import Callable

from llrnn.knowledge import backgrounds
from llrnn.knowledge.contextual.base import KINDS, ContextualFeature, Continued, Copied, Expert, Repeated, Said, Unsaid
from llrnn.knowledge.contextual.lookup import Lookup, Matching
from llrnn.knowledge.process import Saved, find_restorer

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


_RESTORERS: dict[str, Callable[[Saved], ContextualFeature]] = {
    "repeated": lambda saved: Repeated(saved.fields["window"]),
    "expert": lambda saved: Expert(*map(backgrounds.restore, saved.parts), name=saved.fields["name"]),
    "lookup": lambda saved: Lookup.restored(saved.fields),
    **dict.fromkeys(KINDS, lambda saved: KINDS[saved.kind](*saved.fields["slots"])),
}


def restore(saved: Saved) -> ContextualFeature:
    """A contextual feature from what a model folder holds of it."""
    return find_restorer(saved, _RESTORERS, "contextual feature", "contextual=[...]")(saved)
