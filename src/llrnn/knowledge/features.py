"""What is known of a symbol: features φ(x), as `(symbol) -> {name: value}`.

A user writes one method, `__call__`; what depends on the vocabulary (the most frequent words, the commonest suffixes)
is settled in `fitted`. `phi + psi` puts features side by side, `phi.scaled(0.5)` sets how large they are.
"""

from __future__ import annotations

import copy
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Self

import numpy as np

from llrnn.ground.arrays import LARGEST_FLOAT32, Floats, Ints, runs
from llrnn.ground.errors import FeatureError, LexiconError, shown_number, warn
from llrnn.ground.files import StrPath
from llrnn.layer.matrix import FeatureMatrix, SparseMatrix
from llrnn.text.vectors import WordVectors, cases, principal_components
from llrnn.text.vocabulary import EOS, Vocabulary

__all__ = [
    "Attributes", "CellAttributes", "FeatureMatrix", "FeatureSummary", "Features", "Function",
    "Identity", "Numeric", "Prefixes", "Shape", "Suffixes", "Vectors", "compile_features", "summarise",
]  # fmt: skip


class Features(ABC):
    """A group of static features φ(x) of a word: called with a word, it returns {feature name: value}.

    `phi + psi` joins groups. What depends on the vocabulary is computed by `fitted`.

    Example:

        class Length(Features):
            def __call__(self, symbol): return {"length": len(symbol)}

        phi = Identity(top=2500) + Length().scaled(0.1)
    """

    _vocabulary: Vocabulary | None = None

    @abstractmethod
    def __call__(self, symbol: str) -> Mapping[str, float]:
        """Return {name: value} of the features of this word that are not 0; features that are not named are 0."""

    @property
    def group(self) -> str:
        """The name under which reports count these features; by default the name of the class."""
        return type(self).__name__

    def fitted(self, vocabulary: Vocabulary) -> Features:
        """Return these features prepared for a vocabulary, for example with the most frequent words or suffixes found.

        By default nothing is prepared, and the object itself is returned. A model calls it, through `compile_features`.
        """
        return self

    def _fitted(self, vocabulary: Vocabulary, **attributes: Any) -> Self:
        """Return a copy of these features that is bound to the vocabulary, with these attributes replaced.

        Subclasses call it in their `fitted`. `attributes`: {name of an attribute: new value} as keywords.
        """
        made = copy.copy(self)
        vars(made).update(_vocabulary=vocabulary, **attributes)
        return made

    def _require_fitted(self) -> Vocabulary:
        """Return the vocabulary that these features are fitted to; raise a FeatureError if there is none."""
        if self._vocabulary is None:
            raise FeatureError(f"{self!r} must be fitted to a vocabulary before it is used: .fitted(vocabulary)")
        return self._vocabulary

    def declared(self) -> tuple[str, ...]:
        """Return the feature names that should occur, where they are known beforehand; () by default.

        Reports list those among them that fire on (are not 0 on) no word of a vocabulary.
        """
        return ()

    def notes(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        """Return remarks for reports on how these features fit a vocabulary, such as how many words have a vector.

        () by default.
        """
        return ()

    def block(self, symbols: Sequence[str]) -> tuple[Sequence[str], Floats, Ints] | None:
        """Return the features of many words at once, for speed: (names, rows, row_of).

        names       k feature names
        rows        (R, k) rows of values, float64, zeros included; each row once
        row_of      (number of `symbols`,) for each of them the index of its row

        None (the default): call the object for each word instead.
        """
        return None

    def parts(self) -> tuple[Features, ...]:
        """Return the groups that a sum of features consists of; for a single group, the tuple of itself alone."""
        return (self,)

    def __add__(self, other: Features) -> FeatureSum:
        return FeatureSum((*self.parts(), *other.parts()))

    def _each(self, wrap: Callable[[Features], Features]) -> Features:
        """Return these features with `wrap` applied to each group of a sum; for a single group, `wrap(self)`."""
        made = [wrap(part) for part in self.parts()]
        return made[0] if len(made) == 1 else FeatureSum(made)

    def scaled(self, by: float) -> Features:
        """Return these features with all values multiplied by `by`, a finite number above 0; else a FeatureError.

        Example:

            Shape().scaled(0.5)
        """
        return self._each(lambda part: ScaledFeatures(part, by))

    def frequent(self, *, min_count: int = 2) -> Features:
        """Return those of these features that fire on (are not 0 on) at least `min_count` words of the vocabulary.

        Example:

            Attributes(lexicon).frequent(min_count=5)
        """
        return self._each(lambda part: Frequent(part, min_count))

    def of_listed(self) -> Features:
        """Return a group with these features on words that the vocabulary lists, and none on other strings.

        Only in an open vocabulary are there other strings.
        """
        return self._each(OfListed)

    def deviations(self) -> Iterable[str]:
        """Return strings whose features may differ from those of other unlisted strings with the same symbol.

        In an open vocabulary, all unlisted strings of one symbol (a cell) must have equal features: those returned here
        are checked when features are compiled. () by default.
        """
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class FeatureSum(Features):
    """Several groups of features joined, made by `a + b`; `compile_features` raises a FeatureError if names clash.

    `parts()` is the tuple of the groups; called with a word it returns {name: value} of all of them.
    """

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

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in self._parts)


class Wrapped(Features):
    """Base class of features that take those of another `Features` object, `inner`, and change values or drop some.

    Subclasses define `__call__`; all else is asked of `inner`.
    """

    def __init__(self, inner: Features) -> None:
        self._inner = inner

    def fitted(self, vocabulary: Vocabulary) -> Features:
        return self._fitted(vocabulary, _inner=self._inner.fitted(vocabulary))

    @property
    def group(self) -> str:
        return self._inner.group

    def declared(self) -> tuple[str, ...]:
        return self._inner.declared()

    def notes(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return self._inner.notes(vocabulary)

    def deviations(self) -> Iterable[str]:
        return self._inner.deviations()


class ScaledFeatures(Wrapped):
    """The features of `inner` with all values multiplied by `by`, a finite number above 0, else a FeatureError."""

    def __init__(self, inner: Features, by: float) -> None:
        super().__init__(inner)
        self._by = _checked_scale(by)

    def __call__(self, symbol: str) -> Mapping[str, float]:
        return {name: value * self._by for name, value in self._inner(symbol).items()}

    def __repr__(self) -> str:
        return f"{self._inner!r}.scaled({self._by!r})"


def _checked_scale(by: float) -> float:
    if not (isinstance(by, int | float) and 0 < by <= LARGEST_FLOAT32):
        raise FeatureError(f"a scale must be a finite number above 0, found {shown_number(by)}")
    return by


class Frequent(Wrapped):
    """The features of `inner` that fire on (are not 0 on) at least `min_count` words of the vocabulary it is fitted to.

    Others say no more than the word itself: a lemma with a single form, for example.
    """

    def __init__(self, inner: Features, min_count: int) -> None:
        super().__init__(inner)
        self._min_count, self._known = min_count, frozenset[str]()

    def fitted(self, vocabulary: Vocabulary) -> Features:
        inner = self._inner.fitted(vocabulary)
        names = (name for symbol in vocabulary.words for name, value in inner(symbol).items() if value)
        return self._fitted(vocabulary, _inner=inner, _known=commonest(names, self._min_count, None))

    def __call__(self, symbol: str) -> Mapping[str, float]:
        self._require_fitted()
        return {name: value for name, value in self._inner(symbol).items() if name in self._known}

    def declared(self) -> tuple[str, ...]:
        return ()

    def __repr__(self) -> str:
        return f"{self._inner!r}.frequent(min_count={self._min_count})"


class OfListed(Wrapped):
    """The features of `inner` on words that the vocabulary lists; {} on every other string. It must be fitted first."""

    def __call__(self, symbol: str) -> Mapping[str, float]:
        return self._inner(symbol) if symbol in self._require_fitted() else {}

    def deviations(self) -> Iterable[str]:
        return ()

    def __repr__(self) -> str:
        return f"{self._inner!r}.of_listed()"


class Function(Features):
    """Features given by a Python function of the word, which returns names (of value 1) or {name: value}.

    It is not called for the end of a sentence, which has no such features. `name`: the name of the group in reports, by
    default that of the function.

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
        return found if isinstance(found, Mapping) else dict.fromkeys(sorted(found), 1.0)  # sets have no order

    def __repr__(self) -> str:
        return f"Function({self._name})"


def commonest(names: Iterable[str], min_count: int, top: int | None) -> frozenset[str]:
    """Return the names that occur at least `min_count` times, and of these the `top` commonest; None: all of them.

    Of equally common names, the alphabetically first are taken.
    """
    counts = Counter(names)
    ranked = sorted(counts, key=lambda name: (-counts[name], name))[:top]
    return frozenset(name for name in ranked if counts[name] >= min_count)


def values_of(features: Features, symbol: str) -> Mapping[str, float]:
    """Return {name: value} of the features of the word `symbol`.

    An OverflowError, of a number too large for a float, becomes a FeatureError that names the word.
    """
    try:
        return features(symbol)
    except OverflowError as error:
        raise FeatureError(f"{features!r} of {symbol!r} cannot be computed: {error}; scale the feature") from None


def checked(value: Any, name: Any, symbol: str) -> float:
    """Return the value of the feature `name` on the word `symbol` as a float.

    Raises a FeatureError if it is no finite number that float32 can hold, or the name is no string.
    """
    is_number = isinstance(value, int | float | np.integer | np.floating | np.bool_)
    if is_number and isinstance(name, str) and abs(value) <= LARGEST_FLOAT32:  # NaN is not below anything
        return float(value)
    required, advice = "a finite number under a text name", ""
    if is_number and isinstance(name, str) and LARGEST_FLOAT32 < abs(value) < math.inf:
        required = f"at most {LARGEST_FLOAT32:.1e}, which float32 can hold"
        advice = "; scale it, or take its logarithm"
    raise FeatureError(f"the feature {name!r} of {symbol!r} must be {required}, found {shown_number(value)}{advice}")


# Features that name the word itself, or what a lexicon says of it.


class Identity(Features):
    """One feature `Word:x` for each of the `top` most frequent words x, and one, `NotAmong:TOP`, for all other words.

    The value is 1. The words are those of the vocabulary in order of id, the most frequent first; "</s>" and the
    unknown-word symbol are among them.

    top         None: all words have their own feature
    without     words, such as names, that share the feature of the other words however frequent they are, so that what
                is learnt holds for new ones

    In an open vocabulary with `top=None`, all unlisted strings with one symbol share a feature.

        Identity(top=2500)
    """

    def __init__(self, top: int | None = None, *, without: Collection[str] = ()) -> None:
        if top is not None and top < 0:
            raise FeatureError(f"Identity(top=M) needs M of 0 or more, found {top}")
        self._top, self._without = top, frozenset(without)
        self._listed: frozenset[str] = frozenset()

    def fitted(self, vocabulary: Vocabulary) -> Features:
        return self._fitted(vocabulary, _listed=frozenset(vocabulary.words[: self._top]))

    def __call__(self, symbol: str) -> Mapping[str, float]:
        known = self._vocabulary if self._top is None else self._require_fitted()
        if symbol in self._without:
            return {self._other: 1.0}
        if known is None or symbol in self._listed:
            return {f"Word:{symbol}": 1.0}
        return {self._other if self._top is not None else f"Word:{known.symbols[known.id(symbol)]}": 1.0}

    @property
    def _other(self) -> str:
        return "NotAmong:named" if self._top is None else f"NotAmong:{self._top}"

    def __repr__(self) -> str:
        given = [] if self._top is None else [f"top={self._top}"]
        return f"Identity({', '.join(given + [f'without {len(self._without)} words'] * bool(self._without))})"


class Attributes(Features):
    """Features of value 1 for the attributes that a lexicon gives a word, such as `POS:NOUN` and `Gender:Fem`.

    The end of a sentence has the feature `Boundary`. `lexicon`: a function, or callable object, from a word to an
    iterable of its attributes, strings; an empty one for a word that it does not know.

        Attributes(lambda word: {"la": ["POS:DET", "Gender:Fem"]}.get(word, ()))
    """

    BOUNDARY = "Boundary"

    def __init__(self, lexicon: Callable[[str], Iterable[str]]) -> None:
        self._lexicon = lexicon

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if symbol == EOS:
            return {self.BOUNDARY: 1.0}
        return dict.fromkeys(sorted(self._lexicon(symbol)), 1.0)

    def declared(self) -> tuple[str, ...]:
        return self._asked("attributes")

    def deviations(self) -> Iterable[str]:
        return self._asked("forms")

    def _asked(self, method: str) -> tuple[str, ...]:
        asked = getattr(self._lexicon, method, None)
        try:
            return tuple(asked()) if callable(asked) else ()
        except LexiconError:  # a lexicon with functions in it cannot list what it knows
            return ()

    def __repr__(self) -> str:
        return f"Attributes({self._lexicon!r})"


class CellAttributes(Features):
    """Features of value 1 in an open vocabulary: the attributes of the cell that a word is, or would be, in.

    A cell is a set of unlisted strings that share a symbol, such as all 4-digit numbers. Listed words that look like a
    cell's strings have its attributes too, so that the model learns about unlisted words from them. Unlisted strings
    have `New:DOMAIN` besides, such as `New:spelling`. Raises a FeatureError if fitted to a vocabulary that is not open.

        Identity() + CellAttributes()
    """

    def __init__(self) -> None:
        self._listed: dict[str, tuple[str, ...]] = {}

    def fitted(self, vocabulary: Vocabulary) -> Features:
        if not vocabulary.is_open:
            raise FeatureError(
                "CellAttributes needs a vocabulary with domains, found none; give one, or take Suffixes and Shape"
            )
        known = [*vocabulary.words, *chain.from_iterable(vocabulary.witnesses.values())]  # all at once: that is cheaper
        return self._fitted(vocabulary, _listed=dict(zip(known, _cell_attributes(vocabulary, known), strict=True)))

    def __call__(self, symbol: str) -> Mapping[str, float]:
        vocabulary = self._require_fitted()
        if symbol == EOS:
            return {}
        found = self._listed.get(symbol)
        return dict.fromkeys(found if found is not None else _cell_attributes(vocabulary, [symbol])[0], 1.0)


def _cell_attributes(vocabulary: Vocabulary, words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return, for each word, the attributes of the cell that it is in, or would be in were it not listed.

    A cell is a set of unlisted strings that share one symbol of the vocabulary. () for a word in no cell. Words that
    are not listed have `New:DOMAIN` besides, where the domain is the kind of strings, such as `spelling`.
    """
    found: list[tuple[str, ...]] = [()] * len(words)
    for i, number in enumerate(vocabulary.in_domains(words)[0].tolist()):
        if number >= 0:
            cell = vocabulary.cells[number]
            found[i] = cell.attributes if words[i] in vocabulary else (*cell.attributes, f"New:{cell.source}")
    return found


# Features that the spelling shows: beginnings, endings, shape, and what kind of number it is.


class CommonAffixes(Features):
    """Base class of `Prefixes` and `Suffixes`: a feature for each affix that enough words of the vocabulary have.

    An affix is shorter than the word. The features, `Prefix:…` or `Suffix:…`, have value 1; the end of a sentence has
    none.

    longest     affixes have 1 to so many characters
    min_count   the fewest words of the vocabulary that must have the affix
    top         keep only so many, the commonest; None: all
    """

    def __init__(self, longest: int = 3, *, min_count: int = 2, top: int | None = None) -> None:
        if longest < 1:
            raise FeatureError(f"{type(self).__name__} needs a longest length of 1 or more, found {longest}")
        self._longest, self._min_count, self._top = longest, min_count, top
        self._known: frozenset[str] = frozenset()

    @abstractmethod
    def _affix(self, symbol: str, length: int) -> str:
        """Return the first (`Prefixes`) or last (`Suffixes`) `length` characters of a word."""

    def _affixes(self, symbol: str) -> list[str]:
        """Return the affixes of a word, shortest first, without the whole word; [] for the end of a sentence.

        They have 1 to `longest` characters.
        """
        if symbol == EOS:
            return []
        return [self._affix(symbol, length) for length in range(1, min(self._longest, len(symbol) - 1) + 1)]

    def fitted(self, vocabulary: Vocabulary) -> Features:
        affixes = (affix for symbol in vocabulary.words for affix in self._affixes(symbol))
        return self._fitted(vocabulary, _known=commonest(affixes, self._min_count, self._top))

    def __call__(self, symbol: str) -> Mapping[str, float]:
        self._require_fitted()
        return {f"{type(self).__name__[:-2]}:{affix}": 1.0 for affix in self._affixes(symbol) if affix in self._known}

    def __repr__(self) -> str:
        top = "" if self._top is None else f", top={self._top}"
        return f"{type(self).__name__}({self._longest}, min_count={self._min_count}{top})"


class Prefixes(CommonAffixes):
    """Features such as `Prefix:re`: 1 if a word begins with these characters.

    There is one for each beginning of 1 to `longest` characters that at least `min_count` words of the vocabulary have;
    `top`: only so many, the commonest. A word itself is not one of its beginnings; the end of a sentence has no such
    feature. It must be fitted to a vocabulary first.

        Prefixes(3, min_count=5)
    """

    def _affix(self, symbol: str, length: int) -> str:
        return symbol[:length]


class Suffixes(CommonAffixes):
    """Features such as `Suffix:ment`: 1 if a word ends with these characters.

    There is one for each ending of 1 to `longest` characters that at least `min_count` words of the vocabulary have;
    `top`: only so many, the commonest. A word itself is not one of its endings; the end of a sentence has no such
    feature. It must be fitted to a vocabulary first.

        Suffixes(4, min_count=5)
    """

    def _affix(self, symbol: str, length: int) -> str:
        return symbol[-length:]


def _kind(character: str) -> str:
    if character.isdigit():
        return "9"
    if character.isalpha():
        return "A" if character.isupper() else "a"
    return character


class Shape(Features):
    """One feature for the shape of a word: A for capitals, a for small letters, 9 for digits, other signs unchanged.

    A run of one kind, or of one other sign, is written once. The value is 1; the end of a sentence has no such feature.

    Example:

        Shape()("Rouen-76")          # {"Shape:Aa-9": 1.0}
    """

    def __call__(self, symbol: str) -> Mapping[str, float]:
        return {} if symbol == EOS else {"Shape:" + "".join(kind for kind, _ in groupby(symbol, key=_kind)): 1.0}


class Numeric(Features):
    """Features of words that are numbers: `Number`, `SmallNumber` and `Year` (paper §3); other words have none.

    A number is digits with `.` or `,` between them, perhaps a sign before and `%` after. `Number` is 1; `SmallNumber`
    is 1 − |number| / `small`, and missing from `small` on; `Year` is 1 for "1000" to "2099".

    Example:

        Numeric(small=100)("25")          # {"Number": 1.0, "SmallNumber": 0.75}
    """

    _NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*%?")

    _YEARS = frozenset(map(str, range(1000, 2100)))

    def __init__(self, *, small: float = 100.0) -> None:
        if not small > 0:
            raise FeatureError(f"Numeric(small=...) must be above 0, found {small}")
        self._small = small

    def __call__(self, symbol: str) -> Mapping[str, float]:
        if not self._NUMBER.fullmatch(symbol):
            return {}
        smallness = 1.0 - abs(_value(symbol)) / self._small
        return (
            {"Number": 1.0}
            | ({"SmallNumber": smallness} if smallness > 0 else {})
            | ({"Year": 1.0} if symbol in self._YEARS else {})
        )

    def __repr__(self) -> str:
        return f"Numeric(small={self._small:g})"


def _value(number: str) -> float:
    """Return the value of a number written with `.` or `,`, without its percent sign.

    A single separator is a decimal point unless just three digits follow; three digits, or several separators of either
    kind, mean thousands: "1,5" is 1.5, "1.500" is 1500, "1,234.56" is 123456.
    """
    parts = re.split(r"[.,]", number.rstrip("%"))
    is_decimal = len(parts) == 2 and len(parts[1]) != 3
    return float(("." if is_decimal else "").join(parts))


# Features that were learnt elsewhere: vectors of words.


_FEW = 0.5  # share of words with a vector below which a warning says so


class Vectors(Features):
    """Word vectors as real-valued features `Vectors:pc1`, `Vectors:pc2`, ...: their largest principal components.

        φ(x) = scale · (v(x) − v̄) C / r            r² = mean of ‖(v(x) − v̄) C‖²

    v̄, the directions C of largest variance (their number is `components`; None: all) and r are computed from the words
    of the vocabulary that have a vector, each word once: over them, the root mean square norm of φ is `scale`.

    A word without a vector has one feature, `Vectors:none`, and so have the strings of an open vocabulary that are not
    listed, whatever the file holds; the end of sentences has no feature. `llrnn config features` counts them.

    source      a file (see `llrnn.text.vectors`), a `WordVectors`, or a mapping from words to numbers
    any_case    look up `paris` as `Paris` and `PARIS` where the file has no `paris`
    top         use vectors for the `top` most frequent words only, so that more words have equal features
    name        the prefix of the feature names, to tell two such groups apart

    Fitting raises a FeatureError if no word has a vector, and warns if fewer than half have.

        phi = Identity(top=2500) + Vectors("cc.fr.300.vec.gz", components=150)
    """

    def __init__(
        self,
        source: StrPath | WordVectors | Mapping[str, Sequence[float]],
        *,
        components: int | None = 150,
        scale: float = 3.0,
        any_case: bool = False,
        top: int | None = None,
        name: str = "Vectors",
    ) -> None:
        for what, number in (("component", components), ("word (top)", top)):
            if number is not None and number < 1:
                raise FeatureError(f"{name} needs one {what} or more, found {number}")
        self._source = WordVectors.from_mapping(source) if isinstance(source, Mapping) else source
        self._components, self._scale = components, _checked_scale(scale)
        self._any_case, self._top, self._name = any_case, top, name
        self._row_of: dict[str, int] = {}
        self._table: Floats = np.zeros((0, 0))

    @property
    def group(self) -> str:
        return self._name

    def scaled(self, by: float) -> Features:
        made = copy.copy(self)
        made._scale, made._table = self._scale * by, self._table * by
        return made

    def of_listed(self) -> Features:
        return self  # they are

    def fitted(self, vocabulary: Vocabulary) -> Vectors:
        if vocabulary is self._vocabulary:
            return self
        words = [word for word in vocabulary.words if word != EOS][: self._top]
        vectors = self._read(words)
        rows = vectors.rows_of(words, any_case=self._any_case)
        known = [word for word, row in zip(words, rows.tolist(), strict=True) if row >= 0]
        if not known:
            raise FeatureError(
                f"{self!r} has a vector for none of the {len(words):,} words of the vocabulary, such as {words[:3]}; "
                "is it of this language, and are capitals written alike (any_case)?"
            )
        used, of_word, counts = np.unique(rows[rows >= 0], return_inverse=True, return_counts=True)
        table = self._scale * principal_components(vectors.table[used], counts, self._components, repr(self))
        if len(known) < _FEW * len(words):
            warn(f"{self._name}: {_coverage(len(known), words)}; give a larger file, or any_case where capitals differ")
        return self._fitted(vocabulary, _row_of=dict(zip(known, of_word.tolist(), strict=True)), _table=table)

    def _read(self, words: Sequence[str]) -> WordVectors:
        if isinstance(self._source, WordVectors):
            return self._source
        asked = {form for word in words for form in cases(word)} if self._any_case else words
        return WordVectors.read(self._source, only=asked)

    def _names(self) -> list[str]:
        return [f"{self._name}:pc{i + 1}" for i in range(self._table.shape[1])]

    def __call__(self, symbol: str) -> Mapping[str, float]:
        self._require_fitted()
        row = self._row_of.get(symbol)
        if row is None:
            return {} if symbol == EOS else {f"{self._name}:none": 1.0}
        return dict(zip(self._names(), self._table[row].tolist(), strict=True))

    def block(self, symbols: Sequence[str]) -> tuple[Sequence[str], Floats, Ints]:
        """Return the features of many words at once: (names, rows, index of each word's row in `rows`).

        names       k + 1 feature names: "Vectors:pc1" … for the k components of a vector, then "Vectors:none"
        rows        (R + 2, k + 1) float64: row r < R the r-th distinct vector, 0 in the last column; row R for words
                    that have no vector, 1 in the last column and else 0; row R + 1 zeros, for the end of a sentence
        index       (number of `symbols`,) int64: the row of each word
        """
        R, k = self._table.shape
        values = np.zeros((R + 2, k + 1))
        values[:R, :k], values[R, k] = self._table, 1.0
        rows = (self._row_of.get(symbol, R + 1 if symbol == EOS else R) for symbol in symbols)
        return [*self._names(), f"{self._name}:none"], values, np.fromiter(rows, dtype=np.int64)

    def notes(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        known = self.fitted(vocabulary)._row_of
        words = [word for word in vocabulary.words if word != EOS]
        without = [word for word in words if word not in known]
        shown = f" ({', '.join(without[:8])}{', …' * (len(without) > 8)})" if without else ""
        return (f"{self._name}: {_coverage(len(known), words)}; without: {len(without):,}{shown}",)

    def __repr__(self) -> str:
        of = self._source if isinstance(self._source, WordVectors) else repr(str(self._source))
        top = "" if self._top is None else f", top={self._top}"
        return f"Vectors({of}, components={self._components}, scale={self._scale:g}{top})"


def _coverage(known: int, words: Sequence[str]) -> str:
    return f"{known:,} of {len(words):,} words ({known / len(words):.1%}) have a vector"


# Features asked for every symbol of a vocabulary, and numbered: the matrix Φ that the layer takes.


def compile_features(features: Features, vocabulary: Vocabulary) -> FeatureMatrix:
    """Return the matrix Φ of features over a vocabulary, one row for each class of words with equal features.

    Columns and classes are numbered as they first appear. Raises a FeatureError if no feature fires on any word, if two
    groups use one name, or if unlisted strings that share a symbol have different features.

    Example:

        phi = compile_features(Identity(top=2500) + Suffixes(3), vocabulary)
    """
    columns = _ColumnNumbers()
    parts = [_compiled(columns, part.fitted(vocabulary), part.group, vocabulary) for part in features.parts()]
    if not columns.names:
        raise FeatureError(f"no feature of {features!r} fires on any of the {len(vocabulary)} symbols")
    first_seen: dict[tuple[int, ...], int] = {}
    keys = zip(*(part.row_of.tolist() for part in parts), strict=True)
    class_of = [first_seen.setdefault(key, len(first_seen)) for key in keys]
    rows = np.array(list(first_seen), dtype=np.int64).reshape(-1, len(parts))  # (G, parts)
    return _side_by_side(columns, class_of, [part.taken(own) for part, own in zip(parts, rows.T, strict=True)])


@dataclass(frozen=True, eq=False)
class _Rows:
    """The distinct rows of values of one group of features over a vocabulary, in compressed sparse form.

    `row_of`: (V,) the row of each symbol; `widths`: (R,) the number of entries of each of R rows; `columns`, `values`:
    (Σ widths,) of all entries, row by row, where a column is the number of a feature.
    """

    row_of: Ints  # of each symbol
    widths: Ints  # (R,)
    columns: Ints
    values: Floats

    def taken(self, rows: Ints) -> _Rows:
        """Return a copy with only the rows of these indices, (G,), in this order; rows may be repeated.

        Its `row_of` is not that of symbols any more: it is `rows` itself.
        """
        entries = runs((np.cumsum(self.widths) - self.widths)[rows], self.widths[rows])
        return _Rows(rows, self.widths[rows], self.columns[entries], self.values[entries])


def _compiled(columns: _ColumnNumbers, fitted: Features, group: str, vocabulary: Vocabulary) -> _Rows:
    block = fitted.block(vocabulary.symbols)
    if block is not None:
        return _of_block(columns, fitted, group, *block)
    rows: dict[tuple[tuple[int, float], ...], int] = {}
    listed = (columns.entries(fitted, group, symbol) for symbol in vocabulary.words)
    row_of = [rows.setdefault(tuple(row), len(rows)) for row in listed]
    row_of += [rows.setdefault(tuple(row), len(rows)) for row in _of_cells(columns, fitted, vocabulary)]
    entries = list(chain.from_iterable(rows))
    return _Rows(
        np.array(row_of, dtype=np.int64),
        np.array([len(row) for row in rows], dtype=np.int64),
        np.array([column for column, _ in entries], dtype=np.int64),
        np.array([value for _, value in entries], dtype=np.float64),
    )


def _of_block(
    columns: _ColumnNumbers, fitted: Features, group: str, names: Sequence[str], values: Floats, row_of: Ints
) -> _Rows:
    """Return the result of `Features.block` in compressed form: only rows that words use, and values that are not 0.

    columns     numbers the features of all groups by name
    fitted      the group of features, and `group` its name, under which `columns` enters them
    names, values, row_of       the result: names (k,), distinct rows (R, k), the row of each symbol
    """
    used, row_of = np.unique(row_of, return_inverse=True)
    firing = np.flatnonzero((values[used] != 0).any(axis=0))
    numbers = np.array([columns.number(fitted, group, names[name]) for name in firing.tolist()], dtype=np.int64)
    values = values[used][:, firing]
    rows, own = np.nonzero(values)
    return _Rows(row_of, np.bincount(rows, minlength=len(used)), numbers[own], values[rows, own])


def _side_by_side(columns: _ColumnNumbers, class_of: Sequence[int], parts: Sequence[_Rows]) -> FeatureMatrix:
    """Return the feature matrix whose row for each class of words concatenates the rows of all groups.

    A class is a set of words with equal features. `columns`: names and groups of the features; `class_of`: the class of
    each symbol; `parts`: for each group of features a `_Rows` with one row for each class.
    """
    widths = np.stack([part.widths for part in parts], axis=1)  # (G, parts)
    starts = np.cumsum(widths).reshape(widths.shape) - widths
    found_columns, found_values = np.empty(widths.sum(), dtype=np.int64), np.empty(widths.sum())
    for part, at in zip(parts, starts.T, strict=True):
        own = runs(at, part.widths)
        found_columns[own], found_values[own] = part.columns, part.values
    return FeatureMatrix(
        names=tuple(columns.names),
        groups=tuple(columns.groups),
        class_of=np.array(class_of, dtype=np.int64),
        offsets=np.concatenate([[0], np.cumsum(widths.sum(axis=1))]).astype(np.int64),
        columns=found_columns,
        values=found_values,
    )


def _of_cells(columns: _ColumnNumbers, fitted: Features, vocabulary: Vocabulary) -> list[list[tuple[int, float]]]:
    """Return the (column, value) entries of each cell's features, in the order of the cells.

    A cell is a set of unlisted strings that share one symbol; a column is the number of a feature. All strings of a
    cell must have equal features, which is checked on the cell's examples (`vocabulary.witnesses`) and on the strings
    that `fitted.deviations()` returns; a FeatureError is raised where they differ. Entries are sorted by column,
    without zeros.
    """
    witnesses = {cell: list(strings) for cell, strings in vocabulary.witnesses.items()}
    if witnesses:
        unlisted = [string for string in fitted.deviations() if string not in vocabulary]
        for string, cell in zip(unlisted, vocabulary.cells_of(unlisted).tolist(), strict=True):
            if cell in witnesses:  # a form that no domain holds has no cell
                witnesses[cell].append(string)
    return [_agreed(columns, fitted, vocabulary.symbols[cell], strings) for cell, strings in witnesses.items()]


def _agreed(columns: _ColumnNumbers, fitted: Features, cell: str, strings: Sequence[str]) -> list[tuple[int, float]]:
    found = [columns.entries(fitted, fitted.group, string) for string in strings]
    for string, entries in zip(strings, found, strict=True):
        if entries != found[0]:
            shown = [{columns.name(column): value for column, value in row} for row in (found[0], entries)]
            raise FeatureError(
                f"features must be the same on all strings of a cell, but {fitted!r} has {shown[0]} on {strings[0]!r} "
                f"and {shown[1]} on {string!r}, both in the cell {cell}; list such words in the vocabulary, "
                "cut the cells finer, or keep the features to listed words (.of_listed(), `listed = true`)"
            )
    return found[0] if found else []


class _ColumnNumbers:
    """The column number of each feature name in the matrix Φ, in order of appearance; filled by compiling features.

    `names`: {feature name: column number}; `groups`: a list of the group of each column. A FeatureError if two groups
    use one name.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.groups: list[str] = []
        self._owner: list[Features] = []

    def entries(self, fitted: Features, group: str, symbol: str) -> list[tuple[int, float]]:
        found = values_of(fitted, symbol)
        if not isinstance(found, Mapping):
            raise FeatureError(f"{group} must give a mapping from names to values for {symbol!r}, found {found!r}")
        return sorted(
            (self.number(fitted, group, name), checked(value, name, symbol))
            for name, value in found.items()
            if value != 0
        )

    def name(self, column: int) -> str:
        return list(self.names)[column]

    def number(self, fitted: Features, group: str, name: str) -> int:
        column = self.names.setdefault(name, len(self.names))
        if column == len(self.groups):
            self.groups.append(group)
            self._owner.append(fitted)
        if self._owner[column] is not fitted:
            raise FeatureError(
                f"the feature {name!r} is named by {self.groups[column]} and again by {group}: rename one"
            )
        return column


# What the knowledge amounts to, before any training: what `llrnn config features` prints.


@dataclass(frozen=True)
class FeatureSummary:
    """A report on features over a vocabulary, as `llrnn config features` prints it; `summarise` makes it.

    `symbols`, `features`, `classes` (sets of words with equal features), `entries` (non-zeros of the matrix by
    classes), `bytes`: numbers; `by_group`: {group: number of features}; `never_fire`: names of declared features
    (`Features.declared`) that are 0 on all words; `same_on_all`: names of features with one value on all words;
    `indistinct`: the largest classes that no feature tells apart, as tuples of words; `indistinct_words`: how many
    words share their class; `without_features`: how many have no feature; `read`: how many entries a product with the
    matrix reads; `notes`: remarks of the groups.

        summarise(Identity(top=100) + Suffixes(3), vocabulary).classes
    """

    symbols: int
    features: int
    classes: int
    entries: int  # of the matrix by classes
    by_group: dict[str, int]
    never_fire: tuple[str, ...]
    same_on_all: tuple[str, ...]
    indistinct: tuple[tuple[str, ...], ...]  # the largest classes, most frequent words first
    indistinct_words: int  # words that share their class with another
    without_features: int  # words on which no feature fires
    bytes: int
    read: int = 0  # entries that a product with the matrix reads, by what they cost: those of dense columns less
    notes: tuple[str, ...] = ()  # how words and knowledge match, group by group

    @property
    def reduction(self) -> float:
        """Symbols divided by classes: how many times fewer terms the normalising sum has than a softmax's."""
        return self.symbols / self.classes


def summarise(features: Features, vocabulary: Vocabulary, *, largest: int = 5, examples: int = 8) -> FeatureSummary:
    """Compile the features over a vocabulary and return a report on them.

    `largest`: how many of the largest classes (sets of words with equal features) to list; `examples`: how many words
    of each class to show.

        summarise(Identity(top=2500) + Suffixes(3), vocabulary).reduction
    """
    matrix = compile_features(features, vocabulary)
    sizes = np.diff(matrix.member_offsets)
    declared = {name for part in features.parts() for name in part.declared()}
    return FeatureSummary(
        symbols=matrix.n_symbols,
        features=matrix.n_features,
        classes=matrix.n_classes,
        entries=len(matrix.columns),
        by_group=dict(Counter(matrix.groups)),
        never_fire=tuple(sorted(declared - set(matrix.names))),
        same_on_all=tuple(matrix.names[column] for column in matrix.constant_columns),
        indistinct=tuple(
            tuple(vocabulary.symbols[word] for word in words) for words in matrix.largest_classes(largest, examples)
        ),
        indistinct_words=int(sizes[sizes > 1].sum()),
        without_features=int(sizes[np.diff(matrix.offsets) == 0].sum()),
        bytes=matrix.bytes(),
        read=SparseMatrix(matrix).entries,
        notes=tuple(note for part in features.parts() for note in part.notes(vocabulary)),
    )
