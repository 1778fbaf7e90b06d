"""The weights of features and experts, set by hand on a trained model and renormalised exactly.

    a_k = W_k h + c_k        a_k → s·a_k + o        is        W_k → s·W_k,   c_k → s·c_k + o

    NAME=+0.5, NAME=-0.5     adds to a_k            s = 1,    o = ±0.5
    NAME=*0.8                scales a_k             s = 0.8,  o = 0          (a negative factor turns it round)
    NAME=0.5                 clamps a_k             s = 0,    o = 0.5        (NAME=0, then NAME=-0.5: to a negative one)

Since a is linear in h, a steered model is a model like any other: its log Z is its own, nothing is approximated, and it
is evaluated, explained and saved as usual. NAME is one of `model.feature_names`, static or contextual, or a pattern in
which `*` stands for anything. `swap` puts another background, another expert or another table in the place of one
trained with; `constrained` holds a model to a language that it was not trained with.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from llrnn.ground.errors import ConfigError
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.backgrounds.constraint import Constraint
from llrnn.knowledge.contextual.expert import Expert
from llrnn.knowledge.contextual.lookup import Lookup
from llrnn.knowledge.features.compiled import FeatureNames
from llrnn.model.network import LLRNN
from llrnn.model.words import add_from_conditions
from llrnn.model.writing import words_by_column
from llrnn.text.tables import KnowledgeBase


def copied(model: LLRNN) -> LLRNN:
    """The same model with parameters of its own; knowledge is shared, for it is large and never changes."""
    shared = [model.vocabulary, model.output_features, model.input_features, model.background, *model.contextual]
    shared += [model.seen, *model.layer.buffers(), *model.embedding.buffers(), model.layer.classes.masses]
    made = copy.deepcopy(model, {id(part): part for part in shared})
    return made.to(model.device)  # on a GPU this puts the weights of torch's RNNs back into one piece


@dataclass(frozen=True)
class Change:
    """a_k → scale · a_k + offset, for the feature of this name, or for all that a pattern with `*` names."""

    feature: str
    scale: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and math.isfinite(self.offset)):
            raise ConfigError(
                f"the weight of {self.feature!r} can only be changed by finite numbers, "
                f"found scale {self.scale} and offset {self.offset}"
            )

    @classmethod
    def parse(cls, text: str) -> Change:
        """`POS:VERB=+0.5` adds, `POS:VERB=*0.8` scales, `POS:VERB=0.5` clamps."""
        name, _, value = text.rpartition("=")  # the last one: names may hold others, numbers never do
        try:
            number = float(value.removeprefix("*"))
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            raise ConfigError(
                "a change of weight is written NAME=+NUMBER or NAME=-NUMBER to add, NAME=*NUMBER to scale, "
                f"NAME=NUMBER to clamp, with a finite number; found {text!r}"
            )
        if value.startswith("*"):
            return cls(name, scale=number)
        return cls(name, scale=1.0 if value.startswith(("+", "-")) else 0.0, offset=number)


def experts(model: LLRNN, factors: Mapping[str, float]) -> list[Change]:
    """Changes that scale the weights of contextual features, by their names or by that of what they belong to."""
    by_name = _require_contextual(model, factors)
    return [Change(one, scale=factor) for name, factor in factors.items() for one in by_name[name]]


def _require_contextual(model: LLRNN, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The features that a name means: the one of this name, or all those of a process of this name (a table, say)."""
    found: dict[str, tuple[str, ...]] = {}
    for feature in model.contextual:
        if len(feature.names) > 1:
            found[feature.name] = (*found.get(feature.name, ()), *feature.names)
        found |= dict.fromkeys(feature.names, ())
    found |= {name: (name,) for name in model.context_names}
    _require(names, [*found], "contextual feature", none="none: train it with one")
    return found


def swap(
    model: LLRNN,
    *,
    background: Background | None = None,
    experts: Mapping[str, Background] | None = None,
    tables: Mapping[str, KnowledgeBase] | None = None,
) -> LLRNN:
    """A new model with the same weights and other knowledge: another background, other experts and tables by name.

    The words of a table are added, as by `words.add_from_conditions`. Backgrounds are of the words before: one that
    knows nothing of a new table is revised with the model, as that of the model itself is.
    """
    others, changed = experts or {}, tables or {}
    require_experts(model, others)
    require_tables(model, changed)
    swapped = _untied(model)
    if background is not None:
        swapped.background = background.bind(model.vocabulary)
    swapped.contextual = tuple(
        old.with_background(others[old.name]).bind(model.vocabulary)
        if isinstance(old, Expert) and old.name in others
        else old
        for old in model.contextual
    )
    return _with_tables(swapped, changed) if changed else swapped


def constrained(model: LLRNN, constraint: Constraint) -> LLRNN:
    """A new model with the same weights that only writes what is in a language: b · c instead of b."""
    return swap(model, background=model.background * constraint)


def _with_tables(model: LLRNN, tables: Mapping[str, KnowledgeBase]) -> LLRNN:
    """Its words are listed first, since a lookup can only point at listed words."""
    changed = {name: old.with_table(tables[name]) for name, old in tables_of(model).items() if name in tables}
    ready = add_from_conditions(model, [], words_by_column(changed.values()))
    ready.contextual = tuple(
        changed[old.name].bind(ready.vocabulary) if isinstance(old, Lookup) and old.name in changed else old
        for old in ready.contextual
    )
    return ready


def tables_of(model: LLRNN) -> dict[str, Lookup]:
    """What looks up a table, by its name."""
    return {feature.name: feature for feature in model.contextual if isinstance(feature, Lookup)}


def require_experts(model: LLRNN, names: Iterable[str]) -> None:
    """That there are experts of these names."""
    given, tables = list(names), ", ".join(tables_of(model))
    _require_contextual(model, given)
    there = [feature.name for feature in model.contextual if isinstance(feature, Expert)]
    _require(given, there, "expert", f", and the tables {tables}" if tables else "")


def require_tables(model: LLRNN, names: Iterable[str]) -> None:
    """That tables of these names are looked up."""
    _require(names, [*tables_of(model)], "table")


def _require(names: Iterable[str], there: Sequence[str], kind: str, besides: str = "", none: str = "none") -> None:
    for name in names:
        if name not in there:
            raise ConfigError(f"{name!r} is no {kind} of this model; it has {', '.join(there) or none}{besides}")


def scale_and_offset(
    model: LLRNN, changes: Sequence[Change], names: FeatureNames | None = None
) -> tuple[Tensor, Tensor]:
    """All changes, one after the other, as a → scale∘a + offset, each (m + k,): what `layer.Steered` takes.

    `names`: those of the model, where somebody keeps them; many requests then look for the same patterns once.
    """
    known = names or FeatureNames(model.feature_names)
    scale, offset = np.ones(len(known)), np.zeros(len(known))
    with np.errstate(over="ignore", invalid="ignore"):
        for change in changes:
            rows = known.rows(change.feature)
            scale[rows] *= change.scale
            offset[rows] = change.scale * offset[rows] + change.offset
    like = model.layer.weight
    found = tuple(torch.from_numpy(part).to(like.device, like.dtype) for part in (scale, offset))
    for part in found:  # what is not finite stays so whatever is done to it, so that looking once suffices
        if not part.isfinite().all():
            name = known.names[int(torch.nonzero(~part.isfinite())[0])]
            raise ConfigError(
                f"the changes of the weight of {name!r} must stay finite in {like.dtype}, but together they overflow; "
                "choose smaller numbers"
            )
    return found[0], found[1]


def steer(model: LLRNN, changes: Sequence[Change]) -> LLRNN:
    """A new model with these changes applied in order; the given one stays as it is.

    steer(model, [Change.parse("POS:VERB=+0.5"), Change("Gender:*", scale=0.0)])
    """
    names = FeatureNames(model.feature_names)
    rows = [names.rows(change.feature) for change in changes]  # before any copy: names may be wrong
    steered = _untied(model)
    layer, m = steered.layer, model.output_features.n_features
    for change, found in zip(changes, rows, strict=True):
        chosen = torch.from_numpy(found).to(model.device)
        _change_rows(change, layer.weight, layer.bias, chosen[chosen < m])
        _change_rows(change, layer.context_weight, layer.context_bias, chosen[chosen >= m] - m)
    return steered


def _untied(model: LLRNN) -> LLRNN:
    """The same model with parameters of its own, untied: a change of the output is none of the input."""
    made = copied(model)
    if model.tied:
        made.tied, made.layer.weight = False, nn.Parameter(model.layer.weight.detach().clone())
    return made


@torch.no_grad()
def _change_rows(change: Change, W: Tensor, c: Tensor, rows: Tensor) -> None:
    W[rows] *= change.scale
    c[rows] = change.scale * c[rows] + change.offset
    if not (W[rows].isfinite().all() and c[rows].isfinite().all()):
        raise ConfigError(
            f"the weight of {change.feature!r} times {change.scale:g} plus {change.offset:g} must stay finite in "
            f"{W.dtype}, but it overflows; choose smaller numbers"
        )
