"""What is known of a symbol: features φ(x), as `(symbol) -> {name: value}`.

A user writes one method, `__call__`; what depends on the vocabulary (the most frequent words, the commonest suffixes)
is settled in `fitted`. `phi + psi` puts features side by side, `phi & psi` conjoins them (a feature for each pair that
fires together), `phi.scaled(0.5)` and `phi.balanced()` set how loud they are.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Self

import numpy as np

from llrnn.ground.arrays import LARGEST_FLOAT32
from llrnn.ground.errors import FeatureError
from llrnn.text.vocabulary import EOS, Vocabulary


class Features(ABC):
    """A group of features of a symbol."""

    _vocabulary: Vocabulary | None = None

    @abstractmethod
    def __call__(self, symbol: str) -> Mapping[str, float]:
        """The features that fire on this symbol, by name, with their values; what is not named is 0."""

    @property
    def group(self) -> str:
        """The name under which reports count these features."""
        return type(self).__name__

    def fitted(self, vocabulary: Vocabulary) -> Features:
        """These features with everything settled that depends on the vocabulary."""
        return self

    def _fitted(self, vocabulary: Vocabulary, **attributes: Any) -> Self:
        """A copy that knows the vocabulary, with other attributes."""
        made = copy.copy(self)
        vars(made).update(_vocabulary=vocabulary, **attributes)
        return made

    def _require_fitted(self) -> Vocabulary:
        """The vocabulary that it is fitted to; an error where there is none."""
        if self._vocabulary is None:
            raise FeatureError(f"{self!r} must be fitted to a vocabulary before it is used: .fitted(vocabulary)")
        return self._vocabulary

    def declared(self) -> tuple[str, ...]:
        """Names that are meant to fire somewhere, where that is known: reports tell which never do."""
        return ()

    def parts(self) -> tuple[Features, ...]:
        """The groups side by side that make up these features."""
        return (self,)

    def __add__(self, other: Features) -> FeatureSum:
        return FeatureSum((*self.parts(), *other.parts()))

    def __and__(self, other: Features) -> Conjunction:
        return Conjunction(self, other)

    def _each(self, wrap: Callable[[Features], Features]) -> Features:
        """Every group wrapped by itself."""
        made = [wrap(part) for part in self.parts()]
        return made[0] if len(made) == 1 else FeatureSum(made)

    def scaled(self, by: float | Mapping[str, float]) -> Features:
        """All values times `by`; with a mapping, each named feature times its own factor."""
        return self._each(lambda part: ScaledFeatures(part, by))

    def balanced(self) -> Features:
        """Values divided by their root mean square norm over the symbols on which any fires, group by group."""
        return self._each(Balanced)

    def frequent(self, *, min_count: int = 2, top: int | None = None) -> Features:
        """Only the features that fire on at least `min_count` symbols, and the `top` commonest of those."""
        return self._each(lambda part: Frequent(part, min_count, top))

    def of_listed(self) -> Features:
        """Only on listed words: strings of a domain have none of these features, whatever they look like."""
        return self._each(OfListed)

    def bounded(self, bounds: Mapping[str, tuple[float, float]]) -> Features:
        """The same, with bounds for named features that are not constant on the tails of domains."""
        return BoundedFeatures(self, bounds)

    def radius(self) -> Mapping[str, float]:
        """How far the true value of a feature may be from what it is on the tail of a domain; 0 if not named."""
        return {}

    def deviations(self) -> Iterable[str]:
        """Strings, outside the vocabulary perhaps, on which these features may differ from others of their look."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class FeatureSum(Features):
    """Features side by side: `a + b`."""

    def __init__(self, parts: Iterable[Features]) -> None:
        self._parts = tuple(parts)

    def __call__(self, symbol: str) -> Mapping[str, float]:
        return {name: value for part in self._parts for name, value in part(symbol).items()}

    def fitted(self, vocabulary: Vocabulary) -> Features:
        return FeatureSum(part.fitted(vocabulary) for part in self._parts)

    def parts(self) -> tuple[Features, ...]:
        return self._parts

    def deviations(self) -> Iterable[str]:
        return chain.from_iterable(part.deviations() for part in self._parts)

    def radius(self) -> Mapping[str, float]:
        return {name: far for part in self._parts for name, far in part.radius().items()}

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in self._parts)


class Conjunction(Features):
    """A feature for each pair that fires together, with the product of their values: `a & b`."""

    def __init__(self, left: Features, right: Features) -> None:
        self._sides = left, right

    @property
    def group(self) -> str:
        return " & ".join(" + ".join(part.group for part in side.parts()) for side in self._sides)

    def deviations(self) -> Iterable[str]:
        return chain.from_iterable(side.deviations() for side in self._sides)

    def __call__(self, symbol: str) -> Mapping[str, float]:
        left, right = (side(symbol) for side in self._sides)
        return {f"{a}&{b}": left[a] * right[b] for a in left for b in right}

    def fitted(self, vocabulary: Vocabulary) -> Features:
        return Conjunction(*(side.fitted(vocabulary) for side in self._sides))

    def __repr__(self) -> str:
        return " & ".join(f"({side!r})" if len(side.parts()) > 1 else repr(side) for side in self._sides)


class Wrapped(Features):
    """Features that keep the names of other features and change their values."""

    def __init__(self, inner: Features) -> None:
        self._inner = inner

    def fitted(self, vocabulary: Vocabulary) -> Features:
        return self._fitted(vocabulary, _inner=self._inner.fitted(vocabulary))

    @property
    def group(self) -> str:
        return self._inner.group

    def declared(self) -> tuple[str, ...]:
        return self._inner.declared()

    def deviations(self) -> Iterable[str]:
        return self._inner.deviations()


class ScaledFeatures(Wrapped):
    """Values times a factor, or times a factor for each named feature."""

    def __init__(self, inner: Features, by: float | Mapping[str, float]) -> None:
        super().__init__(inner)
        self._by = by
        for factor in by.values() if isinstance(by, Mapping) else (by,):
            if not (isinstance(factor, int | float) and 0 < factor <= LARGEST_FLOAT32):
                raise FeatureError(f"a scale must be a finite number above 0, found {_shown(factor)}")

    def __call__(self, symbol: str) -> Mapping[str, float]:
        by = self._by
        values = self._inner(symbol).items()
        return {name: value * (by.get(name, 1.0) if isinstance(by, Mapping) else by) for name, value in values}

    def __repr__(self) -> str:
        return f"{self._inner!r}.scaled({self._by!r})"


class Balanced(Wrapped):
    """Values divided by their root mean square norm, so that no group swamps training."""

    def __call__(self, symbol: str) -> Mapping[str, float]:
        self._require_fitted()
        return self._inner(symbol)  # on which nothing fires, else it would have been scaled

    def fitted(self, vocabulary: Vocabulary) -> Features:
        inner = self._inner.fitted(vocabulary)
        squares = [
            sum(checked(value, name, symbol) ** 2 for name, value in values_of(inner, symbol).items())
            for symbol in vocabulary.words
        ]
        firing = [square for square in squares if square > 0]
        return ScaledFeatures(inner, math.sqrt(len(firing) / sum(firing))) if firing else inner

    def __repr__(self) -> str:
        return f"{self._inner!r}.balanced()"


class Frequent(Wrapped):
    """Only the features that enough symbols share: a lemma with one form says no more than the word itself."""

    def __init__(self, inner: Features, min_count: int, top: int | None) -> None:
        super().__init__(inner)
        self._min_count, self._top = min_count, top
        self._known: frozenset[str] = frozenset()

    def fitted(self, vocabulary: Vocabulary) -> Features:
        inner = self._inner.fitted(vocabulary)
        names = (name for symbol in vocabulary.words for name, value in inner(symbol).items() if value)
        return self._fitted(vocabulary, _inner=inner, _known=commonest(names, self._min_count, self._top))

    def __call__(self, symbol: str) -> Mapping[str, float]:
        self._require_fitted()
        return {name: value for name, value in self._inner(symbol).items() if name in self._known}

    def declared(self) -> tuple[str, ...]:
        return ()

    def __repr__(self) -> str:
        return f"{self._inner!r}.frequent(min_count={self._min_count}, top={self._top})"


class OfListed(Wrapped):
    """Features of listed words alone, so that they are the same, none at all, on every string of a cell."""

    def __call__(self, symbol: str) -> Mapping[str, float]:
        return self._inner(symbol) if symbol in self._require_fitted() else {}

    def deviations(self) -> Iterable[str]:
        return ()

    def __repr__(self) -> str:
        return f"{self._inner!r}.of_listed()"


class BoundedFeatures(Wrapped):
    """Real-valued features with known bounds: on the tail of a domain they take the middle (see `domains.Headed`)."""

    def __init__(self, inner: Features, bounds: Mapping[str, tuple[float, float]]) -> None:
        super().__init__(inner)
        self._bounds = dict(bounds)
        for name, (low, high) in self._bounds.items():
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise FeatureError(f"the bounds of {name!r} must be finite and rise, found {low} and {high}")

    def __call__(self, symbol: str) -> Mapping[str, float]:
        values = dict(self._inner(symbol))
        for name, (low, high) in self._bounds.items():
            if not low <= values.get(name, 0.0) <= high:
                raise FeatureError(
                    f"{name!r} must lie between {low} and {high} on every string, found {values.get(name, 0.0)} "
                    f"on {symbol!r}; give wider bounds"
                )
        if self._vocabulary is not None and self._vocabulary.is_tail(symbol):
            values.update({name: (low + high) / 2 for name, (low, high) in self._bounds.items()})
        return values

    def radius(self) -> Mapping[str, float]:
        return {name: (high - low) / 2 for name, (low, high) in self._bounds.items()}

    def __repr__(self) -> str:
        return f"{self._inner!r}.bounded({self._bounds})"


class Function(Features):
    """A Python function of the symbol as features: it returns names, or a mapping from names to values.

    Function(lambda symbol: {"length": len(symbol)}, name="length")
    """

    def __init__(
        self, function: Callable[[str], Mapping[str, float] | Iterable[str]], *, name: str | None = None
    ) -> None:
        self._function = function
        self._name = name if name is not None else str(getattr(function, "__name__", "function"))

    @property
    def group(self) -> str:
        return self._name

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if symbol == EOS:
            return {}
        found = self._function(symbol)
        if isinstance(found, str):
            raise FeatureError(f"{self._name}({symbol!r}) must return names or a mapping, found the text {found!r}")
        return found if isinstance(found, Mapping) else dict.fromkeys(found, 1.0)

    def __repr__(self) -> str:
        return f"Function({self._name})"


def commonest(names: Iterable[str], min_count: int, top: int | None) -> frozenset[str]:
    """The names that come `min_count` times or more, and of those the `top` commonest, first by the alphabet."""
    counts = Counter(names)
    ranked = sorted(counts, key=lambda name: (-counts[name], name))[:top]
    return frozenset(name for name in ranked if counts[name] >= min_count)


def values_of(features: Features, symbol: str) -> Mapping[str, float]:
    """The features that fire on a symbol; products of integers that no float can hold are an error that names it."""
    try:
        return features(symbol)
    except OverflowError as error:
        raise FeatureError(f"{features!r} of {symbol!r} cannot be computed: {error}; scale the feature") from None


def checked(value: Any, name: Any, symbol: str) -> float:
    """The value of a feature, if it is a number that a model can compute with."""
    is_number = isinstance(value, int | float | np.integer | np.floating | np.bool_)
    if is_number and isinstance(name, str) and abs(value) <= LARGEST_FLOAT32:  # NaN is not below anything
        return float(value)
    required, advice = "a finite number under a text name", ""
    if is_number and isinstance(name, str) and LARGEST_FLOAT32 < abs(value) < math.inf:
        required = f"at most {LARGEST_FLOAT32:.1e}, which float32 can hold"
        advice = "; scale it, or take its logarithm"
    raise FeatureError(f"the feature {name!r} of {symbol!r} must be {required}, found {_shown(value)}{advice}")


def _shown(value: object) -> str:
    """Python writes no integer of more than some thousand digits."""
    too_long = isinstance(value, int) and value.bit_length() > 256
    return f"an integer of {int(value.bit_length() * math.log10(2)) + 1} digits" if too_long else repr(value)  # type: ignore[attr-defined]
