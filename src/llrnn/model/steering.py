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
import difflib
import fnmatch
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from torch import Tensor, nn

from llrnn.ground.arrays import ByteCache, Ints
from llrnn.ground.errors import ConfigError, quoted
from llrnn.knowledge.backgrounds.base import Background
from llrnn.knowledge.backgrounds.constraint import Constraint, constraints_of
from llrnn.knowledge.contextual.base import Expert
from llrnn.knowledge.contextual.lookup import Lookup
from llrnn.model.network import LLRNN
from llrnn.model.words import add_from_conditions, words_by_column
from llrnn.text.tables import KnowledgeBase

# Features found by name, or by a pattern in which `*` stands for anything. Both come from users and from requests, so
# every answer has its bound: `fnmatch` looks for a pattern from left to right without going back.


STAR = "*"
_REMEMBERED = 4 * 2**20  # bytes of names and patterns that were resolved
_COMPARED = 2000  # names that a mistaken one is compared with: each takes some microseconds
_LONGEST_MISTAKE = 100  # characters


def star_matcher(pattern: str) -> Callable[[str], object]:
    """Return a function of a name that is truthy if the whole name matches `pattern`, in which `*` stands for anything.

    No other character has a meaning of its own.
    """
    return re.compile(fnmatch.translate(re.sub(r"[?\[]", r"[\g<0>]", pattern))).match


class FeatureNames:
    """An index of a model's feature names, which finds the features that a name or a pattern with `*` selects.

    `names`: a sequence of strings, in the order of the feature weights. Use:
    `FeatureNames(model.feature_names).rows("POS:*")`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._place = {name: k for k, name in enumerate(self.names)}
        self._found: ByteCache[str, Ints] = ByteCache(_REMEMBERED, lambda key, rows: sys.getsizeof(key) + rows.nbytes)

    def __len__(self) -> int:
        return len(self.names)

    def is_pattern(self, feature: str) -> bool:
        """Return whether `feature` is matched as a pattern: it holds a `*`, and no feature has it as its name."""
        return STAR in feature and feature not in self._place

    def rows(self, feature: str) -> Ints:
        """Return the indices, into the feature weights, of the features that a name or pattern selects, sorted.

        Raises ConfigError, with advice on names that look alike, if there are none.
        """
        if feature in self._place:
            return np.array([self._place[feature]])
        if STAR in feature:
            found = self._found.get(feature, lambda: self._matching(feature))
            if len(found):
                return found
        what = f"{'matches the pattern' if STAR in feature else 'is named'} {quoted(feature)}"
        raise ConfigError(f"none of the {len(self)} features of this model {what}; {self._advice(feature)}")

    def _matching(self, pattern: str) -> Ints:
        fits = star_matcher(pattern)
        return np.array([k for k, name in enumerate(self.names) if fits(name)], dtype=np.int64)

    def _advice(self, feature: str) -> str:
        small: dict[str, str] = {}  # capitals are what is mistaken most
        for name in self._candidates(feature):
            small.setdefault(name.lower(), name)
        close = [small[name] for name in difflib.get_close_matches(feature.lower(), small)]
        if close:
            return f"did you mean {' or '.join(map(repr, close))}?"
        return f"names look like {', '.join(map(repr, self.names[:3]))}, and patterns need a `*`"

    def _candidates(self, feature: str) -> list[str]:
        """Return the feature names with which to compare a misspelt name, `feature`, for advice.

        All names where the model has at most 2,000; else the first 2,000 that begin, in any case, with what stands
        before the first colon of `feature`. [] if `feature` has more than 100 characters.
        """
        if len(feature) > _LONGEST_MISTAKE:
            return []
        if len(self) <= _COMPARED:
            return list(self.names)
        group = feature.partition(":")[0].lower()
        return [name for name in self.names if name.lower().startswith(group)][:_COMPARED]


@dataclass(frozen=True)
class Change:
    """A change of feature weights, a → scale · a + offset, of the features that `feature`, a name or pattern, selects.

    `scale`: 1.0 and `offset`: 0.0 by default. A pattern has a `*`, which stands for any characters. Raises ConfigError
    for numbers that are not finite.

        steer(model, [Change("Gender:*", scale=0.0)])
    """

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
        """Return the change that a text `NAME=VALUE` describes; NAME is a feature's name, or a pattern with `*`.

        `POS:VERB=+0.5` adds 0.5 to the weight, `POS:VERB=-0.5` subtracts it, `POS:VERB=*0.8` multiplies the weight by
        0.8, `POS:VERB=0.5` sets it to 0.5 in every context. The last "=" of the text counts. Raises ConfigError for
        other texts.

            Change.parse("POS:VERB=+0.5")
        """
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
    """Return changes that scale the weights of contextual features, for `steer`.

    `factors`: {name: factor}, the name that of a contextual feature, or of an expert (a distribution as a feature) or
    look-up table, which stands for all its features. The result has a `Change` for each feature, in the order of
    `factors`. Raises ConfigError for other names.

        steer(model, experts(model, {"menu": 2.0}))
    """
    by_name = _require_contextual(model, factors)
    return [Change(one, scale=factor) for name, factor in factors.items() for one in by_name[name]]


def _require_contextual(model: LLRNN, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return {name: names of contextual features} for each name that may be used to speak of contextual features.

    Keys are the names of single features, with the value (name,), and the names of groups, such as look-up tables, with
    all their features. Raises ConfigError where one of `names` is not a key.
    """
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
    """Return a copy of the model with the same weights and another prior, other experts or other tables.

    `background`: the prior b(K, x) in place of the model's, None keeps it; `experts`: backgrounds by the name of the
    expert feature (a distribution as a feature) that they replace; `tables`: knowledge bases by the name of the one
    that they replace. The words of a table are added to the vocabulary. Give backgrounds over the model's present
    vocabulary: where words are added, they are changed together with the model. Raises ConfigError for names that the
    model does not have.

        swap(model, tables={"menu": KnowledgeBase.from_file("menu.csv")})
    """
    others, changed = experts or {}, tables or {}
    require_experts(model, others)
    _require(changed, [*tables_of(model)], "table")
    if background is not None and constraints_of(background) and model.mixed:
        raise ConfigError(
            f"the model mixes {model.mixed[0]!r} in, which would go on saying what {background!r} forbids; constrain a "
            "model without mixed parts"
        )
    swapped = untied(model)
    if background is not None:
        swapped.background = background.bind(model.vocabulary)
    swapped.contextual = tuple(
        Expert(others[old.name], name=old.name).bind(model.vocabulary)
        if isinstance(old, Expert) and old.name in others
        else old
        for old in model.contextual
    )
    return _with_tables(swapped, changed) if changed else swapped


def constrained(model: LLRNN, constraint: Constraint) -> LLRNN:
    """Return a copy of the model with the same weights that only writes strings of a language, such as a grammar's.

    Its prior is b · c instead of b, where c is 0 for words that the constraint forbids (more than 0 if it is soft).

        generate(constrained(model, backgrounds.Grammar.from_file("json.lark")))
    """
    return swap(model, background=model.background * constraint)


def _with_tables(model: LLRNN, tables: Mapping[str, KnowledgeBase]) -> LLRNN:
    """Return a model with other look-up tables in place of some of the model's.

    `tables`: {name of the table that is replaced: the new knowledge base}. Their words are added to the vocabulary
    first, since only listed words can be looked up, each as if seen as often as a word of its column in the old table
    is on average: what stands in a cell is as likely as what stood there. If none are new, `model` itself is changed.
    """
    changed = {name: old.with_table(tables[name]) for name, old in tables_of(model).items() if name in tables}
    known, before = model.vocabulary, words_by_column(tables_of(model).values())
    ids = {column: [known.id(word) for word in words if word in known] for column, words in before.items()}
    often = {column: max(1, round(fmean(known.counts[x] for x in own))) for column, own in ids.items() if own}
    ready = add_from_conditions(model, [], words_by_column(changed.values()), often)
    ready.contextual = tuple(
        changed[old.name].bind(ready.vocabulary) if isinstance(old, Lookup) and old.name in changed else old
        for old in ready.contextual
    )
    return ready


def tables_of(model: LLRNN) -> dict[str, Lookup]:
    """Return {name of a look-up table: the contextual feature that consults it} of a model; {} if it has none."""
    return {feature.name: feature for feature in model.contextual if isinstance(feature, Lookup)}


def require_experts(model: LLRNN, names: Iterable[str]) -> None:
    """Raise ConfigError unless the model has an expert of each of these names.

    An expert is a contextual feature whose value on a word is its log p by another distribution.
    """
    given, tables = list(names), ", ".join(tables_of(model))
    _require_contextual(model, given)
    there = [feature.name for feature in model.contextual if isinstance(feature, Expert)]
    _require(given, there, "expert", f", and the tables {tables}" if tables else "")


def _require(names: Iterable[str], there: Sequence[str], kind: str, besides: str = "", none: str = "none") -> None:
    for name in names:
        if name not in there:
            raise ConfigError(f"{name!r} is no {kind} of this model; it has {', '.join(there) or none}{besides}")


def scale_and_offset(
    model: LLRNN, changes: Sequence[Change], names: FeatureNames | None = None
) -> tuple[Tensor, Tensor]:
    """Return the changes composed in order, a → scale∘a + offset, as two tensors (m + k,) over all feature weights.

    m static features come first, then k contextual ones. Both are in the dtype and on the device of the model's
    weights. `names`: an index of the model's features that is kept between calls, so that patterns are matched once;
    made here if None. Raises ConfigError for an unknown feature, or numbers that overflow.
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
    _require_finite(known.names, *found)  # what is not finite stays so whatever is done to it: looking once suffices
    return found[0], found[1]


def _require_finite(names: Sequence[str], *parts: Tensor) -> None:
    for part in parts:
        broken = torch.nonzero(~part.isfinite())
        if len(broken):
            raise ConfigError(
                f"the changed weight of {names[int(broken[0, 0])]!r} must stay finite in {part.dtype}, but it "
                "overflows; choose smaller numbers"
            )


def steer(model: LLRNN, changes: Sequence[Change]) -> LLRNN:
    """Return a new model with these changes of feature weights applied in order; the given one stays as it is.

    Raises ConfigError for a feature that the model does not have, or weights that overflow.

    steer(model, [Change.parse("POS:VERB=+0.5"), Change("Gender:*", scale=0.0)])
    """
    scale, offset = scale_and_offset(model, changes)
    steered = untied(model)
    layer, m = steered.layer, model.output_features.n_features
    with torch.no_grad():
        for W, c, own in (
            (layer.weight, layer.bias, slice(m)),
            (layer.context_weight, layer.context_bias, slice(m, None)),
        ):
            W.mul_(scale[own, None])
            c.mul_(scale[own]).add_(offset[own])
            _require_finite(model.feature_names[own], W, c)
    return steered


def untied(model: LLRNN) -> LLRNN:
    """Return a copy of the model with parameters of its own, in which input and output weights are not shared (tied).

    Vocabulary, features and priors, which are large and never change, are the same objects as in the original.
    """
    shared = [model.vocabulary, model.output_features, model.input_features, model.background, *model.contextual]
    shared += [*model.contextual_inputs, *model.mixed, *model._flat]
    shared += [model.training_summary, *model.layer.buffers(), *model.embedding.buffers(), model.layer.classes.masses]
    made = copy.deepcopy(model, {id(part): part for part in shared})
    made.to(model.device)  # on a GPU this puts the weights of torch's RNNs back into one piece
    if model.tied:
        made.tied, made.layer.weight = False, nn.Parameter(model.layer.weight.detach().clone())
    return made
