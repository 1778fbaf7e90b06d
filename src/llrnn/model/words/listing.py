"""Words of a condition, listed for as long as the condition lasts.

Knowledge points at symbols, and a name that nobody has listed is none: it is one of infinitely many strings of its
cell. So before a model writes from a condition, the words of the condition's values are added to its vocabulary, as
`llrnn words add` would: each as if it had been seen once, with the feature `Value:slot` where the model has one. Copied
values, priming and look-ups then point at them as at any other word; the weights are the same. Words of a table that is
swapped in are listed in the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping

from llrnn.ground.errors import EstimationWarning, LLRNNError
from llrnn.model.network import LLRNN
from llrnn.model.words.revising import add
from llrnn.model.words.table import Entry
from llrnn.text.automata import check_string
from llrnn.text.conditions import values_of


def value_attribute(slot: str) -> str:
    """The name of the feature of words that are values of a slot."""
    return f"Value:{slot}"


def listed(model: LLRNN, conditions: Iterable[object], others: Mapping[str, Iterable[str]] | None = None) -> LLRNN:
    """The model with the words of these conditions listed, and `others`, by their slot.

    The model itself, where all of them are, or where no knowledge looks at conditions: then it could not tell. Where
    symbols are characters that spell a language, words are no symbols at all.
    """
    if model.background.is_static and not model.contextual:
        return model
    if any(constraint.over == "characters" for constraint in model.background.constraints):
        return model
    slots: dict[str, set[str]] = {}
    for slot, words in _by_slot(conditions, others or {}):
        for word in words:
            if word not in model.vocabulary and check_string(word) is None:
                slots.setdefault(word, set()).add(slot)
    if not slots:
        return model
    known = {*model.output_features.names, *model.input_features.names}
    return add(model, [Entry(word, _attributes(of, known), count=1) for word, of in sorted(slots.items())])


def warn_unlisted(told: str) -> None:
    """A warning, each time."""
    warnings.warn(told, EstimationWarning, stacklevel=3)


def listed_if_it_can(
    model: LLRNN,
    conditions: Iterable[object],
    others: Mapping[str, Iterable[str]] | None = None,
    tell: Callable[[str], None] = warn_unlisted,
) -> LLRNN:
    """Likewise; a model that can take no words, for what its knowledge or its features are, stays, and that is told."""
    try:
        return listed(model, conditions, others)
    except LLRNNError as reason:
        tell(f"new words of conditions are not listed, so that nothing points at them: {reason}")
        return model


def _by_slot(conditions: Iterable[object], others: Mapping[str, Iterable[str]]) -> Iterable[tuple[str, Iterable[str]]]:
    for condition in conditions:
        yield from values_of(condition)
    yield from others.items()


def _attributes(slots: set[str], known: set[str]) -> frozenset[str]:
    return frozenset(value_attribute(slot) for slot in slots) & known
