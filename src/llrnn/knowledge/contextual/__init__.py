"""What depends on the condition and the prefix: contextual features φ(K, x), and contextual inputs of the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llrnn.ground.errors import CheckpointError
from llrnn.ground.plugins import RENAMED
from llrnn.knowledge import backgrounds
from llrnn.knowledge.contextual.again import Again
from llrnn.knowledge.contextual.base import (
    KINDS,
    ContextualFeature,
    Continued,
    Copied,
    Expert,
    LinearFeature,
    Mentioned,
    Repeated,
    Unmentioned,
)
from llrnn.knowledge.contextual.frames import Framed
from llrnn.knowledge.contextual.inputs import ConditionNumbers, ContextualInput, LMState, PredictedSlot, SlotProgress
from llrnn.knowledge.contextual.lookup import Lookup, Matching
from llrnn.knowledge.contextual.terms import TermLists, Terms, TermsInside
from llrnn.knowledge.contextual.worded import Worded
from llrnn.knowledge.process import Saved, own_restorer
from llrnn.text.conditions import NumericFields

__all__ = [
    "Again", "ConditionNumbers", "ContextualFeature", "ContextualInput", "Continued", "Copied", "Expert", "Framed",
    "LMState", "LinearFeature", "Lookup", "Matching", "Mentioned", "PredictedSlot", "Repeated", "SlotProgress",
    "TermLists", "Terms", "TermsInside", "Unmentioned", "Worded", "restore", "restore_input",
]  # fmt: skip


def _restored_expert(saved: Saved) -> Expert:
    if len(saved.parts) > 1:
        raise CheckpointError("this llrnn has no experts with a reference of their own any more; train again without")
    return Expert(backgrounds.restore(saved.parts[0]), name=saved.fields["name"])


_RESTORERS: dict[str, Callable[[Saved], ContextualFeature]] = {
    "again": lambda saved: Again(),
    "terms": Terms.restored,
    "terms_inside": lambda saved: TermsInside(Terms.restored(saved.parts[0])),
    "repeated": lambda saved: Repeated(saved.fields["window"]),
    "expert": lambda saved: _restored_expert(saved),
    "framed": lambda saved: Framed.restored(saved.fields),
    "lookup": lambda saved: Lookup.restored(saved.fields),
    "worded": lambda saved: Worded.restored(saved.fields),
    **dict.fromkeys(KINDS, lambda saved: KINDS[saved.kind](*saved.fields["slots"])),
}


def restore(saved: Saved) -> ContextualFeature:
    """Return the contextual feature that a model folder stores as `saved`: the inverse of `ContextualFeature.saved`.

    `saved`: a record of the kind of feature, its settings (`fields`), its `tensors` and `parts`.

    Raises a CheckpointError for an unknown `saved.kind`, and for a feature of the user's class that no package
    registers: that one must be given again, `llrnn.load(folder, contextual=[...])`.
    """
    saved = replace(saved, kind=RENAMED.get(saved.kind, saved.kind))
    restorer = _RESTORERS.get(saved.kind) or own_restorer(saved, "contextual", ContextualFeature, "contextual=[...]")
    found: ContextualFeature = restorer(saved)
    return found


_INPUTS: dict[str, Callable[[Saved], ContextualInput]] = {
    "predicted_slot": lambda saved: PredictedSlot(Framed.restored(saved.parts[0].fields)),
    "condition_numbers": lambda saved: ConditionNumbers(NumericFields.restored(saved.fields)),
    "lm_state": lambda saved: LMState(),
    "slot_progress": lambda saved: SlotProgress(*saved.fields["slots"]),
}


def restore_input(saved: Saved) -> ContextualInput:
    """Return the contextual input that a model folder stores as `saved`: the inverse of `ContextualInput.saved`.

    `saved`: a record of the kind of input, its settings (`fields`), its `tensors` and `parts`.

    Raises a CheckpointError for an unknown `saved.kind`, and for an input of the user's class that no package
    registers: that one must be given again, `llrnn.load(folder, contextual_inputs=[...])`.
    """
    saved = replace(saved, kind=RENAMED.get(saved.kind, saved.kind))
    own = (saved, "contextual_inputs", ContextualInput, "contextual_inputs=[...]")
    found: ContextualInput = (_INPUTS.get(saved.kind) or own_restorer(*own))(saved)
    return found
