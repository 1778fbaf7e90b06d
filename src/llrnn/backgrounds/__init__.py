"""Backgrounds b(K, x): what is likely or allowed before the network has its say."""

from __future__ import annotations

from llrnn.backgrounds.base import Background, Mixture, Product, Static
from llrnn.backgrounds.crossfit import CrossFitted, in_order
from llrnn.backgrounds.mask import Mask, Primed
from llrnn.backgrounds.ngram import NGram
from llrnn.backgrounds.unigram import Uniform, Unigram
from llrnn.errors import CheckpointError
from llrnn.process import Saved

__all__ = [
    "Background",
    "CrossFitted",
    "Mask",
    "Mixture",
    "NGram",
    "Primed",
    "Product",
    "Saved",
    "Static",
    "Uniform",
    "Unigram",
    "in_order",
    "restore",
]


def restore(saved: Saved) -> Background:
    """A background from what a model folder holds of it; the inverse of `Background.saved`."""
    parts = [restore(part) for part in saved.parts]
    match saved.kind:
        case "static":
            return Static(saved.tensors["log_b"], name=saved.fields["name"])
        case "product":
            return Product(*parts)
        case "mixture":
            return Mixture(*parts, weights=saved.fields["weights"])
        case "mask":
            return Mask(**saved.fields)
        case "primed":
            return Primed(parts[0], **saved.fields)
        case "ngram":
            return NGram.restored(saved)
        case "crossfitted":
            return CrossFitted.restored(parts[0], **saved.fields)
        case "custom":
            raise CheckpointError(
                f"the model was saved with a background of your own, {saved.fields.get('repr')}: "
                "give it again at loading, llrnn.load(folder, background=...)"
            )
        case other:
            raise CheckpointError(f"unknown kind of background {other!r}: it needs a newer llrnn")
