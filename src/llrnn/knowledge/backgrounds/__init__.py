"""Backgrounds b(K, x): what is likely or allowed before the network has its say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llrnn.knowledge.backgrounds.base import Background, Discounted, Mask, Mixture, Product, Static, Uniform, Unigram
from llrnn.knowledge.backgrounds.constraint import Automaton, Dictionary, Grammar
from llrnn.knowledge.backgrounds.neural import HuggingFace, Model
from llrnn.knowledge.backgrounds.ngram import CrossFitted, NGram
from llrnn.knowledge.backgrounds.primed import Primed, entity_words
from llrnn.knowledge.backgrounds.recent import Recent
from llrnn.knowledge.backgrounds.whole import WholeValues
from llrnn.knowledge.process import Saved, own_restorer
from llrnn.languages.ngrams.arpa import SHARING
from llrnn.text.inflections import Inflections

__all__ = [
    "Automaton", "Background", "CrossFitted", "Dictionary", "Discounted", "Grammar", "HuggingFace", "Inflections",
    "Mask", "Mixture", "Model", "NGram", "Primed", "Product", "Recent", "Saved", "Static", "Uniform", "Unigram",
    "WholeValues", "entity_words", "register", "restore",
]  # fmt: skip

Restorer = Callable[[Saved, Sequence[Background]], Background]  # from what was saved, and its parts, restored before


def _restored_mixture(saved: Saved) -> Background:
    """Return the `Mixture` that a model folder stores as `saved`.

    `saved`: the record (kind, settings, parts) that `Mixture.saved` made. Older folders have a mixture of which one
    part is "recent" (words that come again); for these a `Recent` is returned whose base is the mixture of the other
    parts.
    """
    old = [one.kind == "recent" and not one.parts for one in saved.parts]
    if not any(old):
        return Mixture(*map(restore, saved.parts), **saved.fields)
    (at,), weights = [i for i, is_old in enumerate(old) if is_old], saved.fields["weights"]
    others = [(restore(part), w) for i, (part, w) in enumerate(zip(saved.parts, weights, strict=True)) if i != at]
    base = others[0][0] if len(others) == 1 else Mixture(*(one for one, _ in others), weights=[w for _, w in others])
    mu = weights[at] / (weights[1 - at] if len(others) == 1 else 1.0)
    return Recent.restored(base, mu=mu, most=10**9, **saved.parts[at].fields)


_RESTORERS: dict[str, Restorer] = {
    "static": lambda saved, parts: Static(saved.tensors["log_b"], name=saved.fields["name"]),
    "product": lambda saved, parts: Product(*parts),
    "mixture": lambda saved, parts: _restored_mixture(saved),
    "mask": lambda saved, parts: Mask(**saved.fields),
    "primed": lambda saved, parts: Primed(parts[0], **saved.fields),
    "whole_values": lambda saved, parts: WholeValues(**saved.fields),
    "recent": lambda saved, parts: Recent.restored(parts[0], **saved.fields),
    "ngram": lambda saved, parts: NGram.restored(saved),
    SHARING: lambda saved, parts: NGram.restored(saved),
    "crossfitted": lambda saved, parts: CrossFitted.restored(parts[0], **saved.fields),
    "grammar": lambda saved, parts: Grammar.restored(saved),
    "automaton": lambda saved, parts: Automaton.restored(saved),
    "dictionary": lambda saved, parts: Dictionary(**saved.fields),
    "huggingface": lambda saved, parts: HuggingFace.restored(saved),
}


def register(kind: str, restorer: Restorer) -> None:
    """Register the function that restores a kind of background (prior) from a model folder.

    kind        the name of the kind: `kind` in the `Saved` record that `saved()` of the class returns; a kind
                registered before is replaced
    restorer    a function (saved, parts) -> background; `saved`: that record, with `kind`, `fields`, `tensors` and
                `parts`; `parts`: the list of backgrounds that were restored from `saved.parts`

        register("no stutter", lambda saved, parts: NoStutter(**saved.fields))
    """
    _RESTORERS[kind] = restorer


def restore(saved: Saved) -> Background:
    """Return the background (prior) that a model folder stores as `saved`: the inverse of `Background.saved`.

    `saved`: a record of the kind of background, its settings (`fields`), its `tensors` and, for a combination, its
    `parts`.

    Raises a CheckpointError for an unknown kind, and for an object of the user's class that was not registered: give it
    again at loading, `llrnn.load(folder, background=...)`.
    """
    if saved.kind in _RESTORERS:
        parts = [] if saved.kind == "mixture" else [restore(part) for part in saved.parts]
        return _RESTORERS[saved.kind](saved, parts)
    found: Background = own_restorer(saved, "backgrounds", Background, "background=...")(saved)
    return found
