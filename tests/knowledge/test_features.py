"""Static features: what each group says of a word, how groups combine, and what compiling makes of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llrnn import EOS, Lexicon, Vocabulary
from llrnn.ground.errors import FeatureError
from llrnn.knowledge.features import (
    Attributes,
    Features,
    Function,
    Identity,
    Numeric,
    Prefixes,
    Shape,
    Suffixes,
    compile_features,
    summarise,
)
from llrnn.layer.matrix import FeatureMatrix
from strategies import QUICK, Row, feature_rows, matrix_of

WORDS = ("le", EOS, "la", "chat", "chatte", "noir", "noire", "37", "1984")
VOCABULARY = Vocabulary(WORDS)
LEXICON = Lexicon.from_mapping(
    {
        "le": ["POS:DET", "Gender:Masc"],
        "la": ["POS:DET", "Gender:Fem"],
        "chat": ["POS:NOUN", "Gender:Masc"],
        "chatte": ["POS:NOUN", "Gender:Fem"],
        "absent": ["POS:VERB"],
    }
)


def rows(features: Features, vocabulary: Vocabulary = VOCABULARY) -> dict[str, dict[str, float]]:
    """What the compiled matrix says of every word."""
    matrix = compile_features(features, vocabulary)
    return {word: matrix.row(x) for x, word in enumerate(vocabulary)}


class Fixed(Features):
    """The same answer for every word."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def __call__(self, symbol: str) -> Mapping[str, float]:
        answer: Mapping[str, float] = self._answer
        return answer


# --- the groups ---------------------------------------------------------------------------------------------------


def test_identity_names_every_word() -> None:
    assert rows(Identity()) == {word: {f"Word:{word}": 1.0} for word in WORDS}
    assert Identity()("anything") == {"Word:anything": 1.0}
    assert repr(Identity()) == "Identity()"


def test_identity_of_the_top_words_and_one_feature_for_the_others() -> None:
    found = rows(Identity(top=3))
    assert found["la"] == {"Word:la": 1.0}
    assert all(found[word] == {"NotAmong:3": 1.0} for word in WORDS[3:])
    assert found[EOS] == {f"Word:{EOS}": 1.0}
    assert repr(Identity(top=3)) == "Identity(top=3)"


def test_identity_of_no_word_is_one_feature() -> None:
    assert set(map(str, rows(Identity(top=0)).values())) == {"{'NotAmong:0': 1.0}"}
    assert compile_features(Identity(top=0), VOCABULARY).n_classes == 1


def test_identity_of_more_words_than_there_are() -> None:
    assert compile_features(Identity(top=100), VOCABULARY).is_identity


def test_attributes_are_the_lexicons_and_the_boundary_has_its_own() -> None:
    found = rows(Attributes(LEXICON))
    assert found["chatte"] == {"POS:NOUN": 1.0, "Gender:Fem": 1.0}
    assert found[EOS] == {"Boundary": 1.0}
    assert found["37"] == {}
    assert repr(Attributes(LEXICON)) == f"Attributes({LEXICON!r})"
    assert Attributes(lambda form: ["X:1"]).declared() == ()


def test_prefixes_and_suffixes_are_proper_and_shared() -> None:
    found = rows(Prefixes(3))
    assert found["chatte"] == {"Prefix:c": 1.0, "Prefix:ch": 1.0, "Prefix:cha": 1.0}
    assert found["le"] == {"Prefix:l": 1.0}  # not the whole word, and not shared beyond
    assert found[EOS] == {}
    found = rows(Suffixes(2, min_count=2))
    assert found["chatte"] == found["noire"] == found["le"] == {"Suffix:e": 1.0}
    assert found["noir"] == {}
    assert repr(Suffixes(2)) == "Suffixes(2, min_count=2)"


def test_affixes_may_be_limited_to_the_commonest() -> None:
    found = rows(Prefixes(2, min_count=1, top=3))
    assert {name for row in found.values() for name in row} == {"Prefix:c", "Prefix:ch", "Prefix:l"}
    assert repr(Prefixes(2, top=3)) == "Prefixes(2, min_count=2, top=3)"
    every = rows(Suffixes(1, min_count=1))
    assert every["1984"] == {"Suffix:4": 1.0}


@pytest.mark.parametrize(
    ("word", "shape"),
    [("Paris", "Aa"), ("aujourd'hui", "a'a"), ("TGV-2000", "A-9"), ("...", "."), ("a1b22", "a9a9"), ("É", "A")],
)
def test_shape(word: str, shape: str) -> None:
    assert Shape()(word) == {f"Shape:{shape}": 1.0}
    assert Shape()(EOS) == {}
    assert repr(Shape()) == "Shape()"


@pytest.mark.parametrize(
    ("word", "small"),
    [
        ("0", 1.0),
        ("25", 0.75),
        ("-25", 0.75),
        ("+50%", 0.5),
        ("2,5", 0.975),
        ("2.50", 0.975),
        ("99.9", 0.001),
        ("100", None),
        ("1,234", None),
        ("1.234.567", None),
        ("0,25", 0.9975),
    ],
)
def test_small_numbers_fall_from_one_to_zero(word: str, small: float | None) -> None:
    found = Numeric()(word)
    assert found["Number"] == 1.0
    assert found.get("SmallNumber") == (None if small is None else pytest.approx(small))
    assert "Year" not in found


def test_numeric_years_and_words() -> None:
    assert Numeric()("1984") == {"Number": 1.0, "Year": 1.0}
    assert "Year" not in Numeric()("2100")
    assert Numeric(small=10.0)("5")["SmallNumber"] == 0.5
    assert all(Numeric()(word) == {} for word in ("chat", EOS, "1st", "1.", "-", "%"))
    assert repr(Numeric(small=10)) == "Numeric(small=10)"


def test_a_function_gives_names_or_values() -> None:
    def ending(word: str) -> list[str]:
        return [f"Ends:{word[-1]}"]

    assert rows(Function(ending))["noir"] == {"Ends:r": 1.0}
    assert rows(Function(lambda word: {"Length": len(word)}))["noir"] == {"Length": 4.0}
    assert rows(Function(ending))[EOS] == {}
    assert (repr(Function(ending)), Function(ending).group) == ("Function(ending)", "ending")
    assert Function(ending, name="end").group == "end"
    # a set of texts has another order in every process: columns, and so what a seed draws for them, must not
    many = {f"Cluster:{number}" for number in range(99)}
    assert [*Function(lambda word: many)("noir")] == sorted(many)


# --- combining ----------------------------------------------------------------------------------------------------


def test_a_sum_puts_features_side_by_side() -> None:
    both = Identity(top=1) + Shape() + Numeric()
    assert [part.group for part in both.parts()] == ["Identity", "Shape", "Numeric"]
    assert rows(both)["37"] == {"NotAmong:1": 1.0, "Shape:9": 1.0, "Number": 1.0, "SmallNumber": 0.63}
    assert repr(both) == "Identity(top=1) + Shape() + Numeric(small=100)"
    assert both.fitted(VOCABULARY)("le") == {"Word:le": 1.0, "Shape:a": 1.0}


def test_scaled_by_a_number() -> None:
    both = (Identity(top=1) + Numeric()).scaled(0.5)
    assert rows(both)["37"] == {"NotAmong:1": 0.5, "Number": 0.5, "SmallNumber": 0.315}
    assert repr(Numeric().scaled(0.5)) == "Numeric(small=100).scaled(0.5)"
    assert Attributes(LEXICON).scaled(2).declared() == LEXICON.attributes()
    assert summarise(both, VOCABULARY).by_group == {"Identity": 2, "Numeric": 3}


def test_frequent_features_are_those_that_enough_words_share() -> None:
    ending = Function(lambda word: [f"Ends:{word[-1]}"], name="ending")
    found = rows(ending.frequent())
    assert found["chatte"] == found["noire"] == found["le"] == {"Ends:e": 1.0}
    assert found["noir"] == found["la"] == {}
    assert Attributes(LEXICON).frequent(min_count=1).declared() == ()
    assert repr(ending.frequent()) == "Function(ending).frequent(min_count=2)"
    with pytest.raises(FeatureError, match="must be fitted to a vocabulary before it is used"):
        ending.frequent()("le")


# --- compiling ----------------------------------------------------------------------------------------------------


@given(st.integers(2, 9).flatmap(feature_rows))
@QUICK
def test_phi_of_a_word_is_the_row_of_its_class(given_rows: list[Row]) -> None:
    matrix = matrix_of(given_rows)
    fired = [{name: value for name, value in row.items() if value} for row in given_rows]
    written = np.zeros((matrix.n_classes, matrix.n_features))
    for s in range(matrix.n_classes):
        entries = slice(matrix.offsets[s], matrix.offsets[s + 1])
        written[s, matrix.columns[entries]] = matrix.values[entries]
    for x, row in enumerate(fired):
        assert matrix.row(x) == row
        assert {n: v for n, v in zip(matrix.names, written[matrix.class_of[x]], strict=True) if v} == row
    # two words share a class exactly where they share a row
    for x, one in enumerate(fired):
        for y, other in enumerate(fired):
            assert (matrix.class_of[x] == matrix.class_of[y]) == (one == other)
    # members and offsets are the classes, written out
    bounds = list(zip(matrix.member_offsets, matrix.member_offsets[1:], strict=False))
    assert [matrix.members[i:j].tolist() for i, j in bounds] == [
        [x for x in range(len(fired)) if matrix.class_of[x] == s] for s in range(matrix.n_classes)
    ]
    is_identity = matrix.n_features == matrix.n_classes and bool(np.array_equal(written, np.eye(matrix.n_classes)))
    assert matrix.is_identity == is_identity


def test_compiled_features_are_numbered_as_they_appear() -> None:
    matrix = compile_features(Attributes(LEXICON) + Numeric(), VOCABULARY)
    assert matrix.names == (
        "Gender:Masc",
        "POS:DET",
        "Boundary",
        "Gender:Fem",
        "POS:NOUN",
        "Number",
        "SmallNumber",
        "Year",
    )
    assert matrix.groups == ("Attributes",) * 5 + ("Numeric",) * 3
    assert matrix.class_of.tolist() == [0, 1, 2, 3, 4, 5, 5, 6, 7]
    assert (matrix.n_symbols, matrix.n_features, matrix.n_classes) == (9, 8, 8)
    assert matrix.bytes() == 8 * (9 + 9 + 2 * 13)
    assert repr(matrix) == "FeatureMatrix(9 symbols, 8 features, 8 classes)"


@pytest.mark.parametrize(
    ("given_rows", "identity"),
    [
        ([{"a": 1.0}, {"b": 1.0}], True),
        ([{"a": 1.0}, {"a": 1.0}], True),  # one class with one feature
        ([{"a": 2.0}, {"b": 1.0}], False),
        ([{"a": 1.0}, {"a": 1.0, "b": 1.0}], False),
        ([{"a": 1.0, "b": 1.0}, {}], False),  # as many entries as classes, but not one each
        ([{}, {"a": 1.0, "b": 1.0}, {"c": 1.0}], False),
        ([{"a": 1.0}, {}], False),
    ],
)
def test_is_identity(given_rows: list[Row], identity: bool) -> None:
    assert matrix_of(given_rows).is_identity == identity


def test_values_of_zero_do_not_fire() -> None:
    matrix = compile_features(
        Fixed({"a": 1.0, "b": 0.0, "c": -0.0, "d": np.float32(0.5), "e": np.bool_(True)}), VOCABULARY
    )
    assert matrix.row(0) == {"a": 1.0, "d": 0.5, "e": 1.0}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: Identity(top=-1), "Identity(top=M) needs M of 0 or more, found -1"),
        (
            lambda: Identity(top=2)("le"),
            "Identity(top=2) must be fitted to a vocabulary before it is used: .fitted(vocabulary)",
        ),
        (lambda: Prefixes(0), "Prefixes needs a longest length of 1 or more, found 0"),
        (
            lambda: Suffixes(2)("le"),
            "Suffixes(2, min_count=2) must be fitted to a vocabulary before it is used: .fitted(vocabulary)",
        ),
        (lambda: Numeric(small=0), "Numeric(small=...) must be above 0, found 0"),
        (lambda: Numeric(small=math.nan), "Numeric(small=...) must be above 0, found nan"),
        (lambda: Shape().scaled(0), "a scale must be a finite number above 0, found 0"),
        (lambda: Shape().scaled(math.inf), "a scale must be a finite number above 0, found inf"),
        (lambda: Shape().scaled(-1.0), "a scale must be a finite number above 0, found -1.0"),
        (
            lambda: compile_features(Function(lambda word: "noun", name="kind"), VOCABULARY),
            "kind('le') must return names or a mapping, found the text 'noun'",
        ),
        (
            lambda: compile_features(Fixed({}), VOCABULARY),
            "no feature of Fixed() fires on any of the 9 symbols",
        ),
        (
            lambda: compile_features(Fixed(["a"]), VOCABULARY),
            "Fixed must give a mapping from names to values for 'le', found ['a']",
        ),
        (
            lambda: compile_features(Identity() + Identity(), VOCABULARY),
            "the feature 'Word:le' is named by Identity and again by Identity: rename one",
        ),
        (
            lambda: compile_features(Shape() + Fixed({"Shape:a": 1.0}), VOCABULARY),
            "the feature 'Shape:a' is named by Shape and again by Fixed: rename one",
        ),
        *(
            (
                lambda value=value: compile_features(Fixed({"a": value}), VOCABULARY),
                f"the feature 'a' of 'le' must be a finite number under a text name, found {value!r}",
            )
            for value in (math.nan, math.inf, "1", None)
        ),
        *(
            (
                lambda value=value: compile_features(Fixed({"a": value}), VOCABULARY),
                f"the feature 'a' of 'le' must be at most 3.4e+38, which float32 can hold, found {shown}; "
                "scale it, or take its logarithm",
            )
            for value, shown in ((1e39, "1e+39"), (-1e300, "-1e+300"), (10**400, "an integer of 401 digits"))
        ),
        (
            lambda: compile_features(Fixed({"a": 10**400}).scaled(0.5), VOCABULARY),
            "Fixed().scaled(0.5) of 'le' cannot be computed: int too large to convert to float; scale the feature",
        ),
        (
            lambda: Shape().scaled(10**400),
            "a scale must be a finite number above 0, found an integer of 401 digits",
        ),
        (
            lambda: compile_features(Fixed({3: 1.0}), VOCABULARY),
            "the feature 3 of 'le' must be a finite number under a text name, found 1.0",
        ),
    ],
)
def test_features_that_cannot_be(made: Callable[[], object], message: str) -> None:
    with pytest.raises(FeatureError, match=f"^{re.escape(message)}$"):
        made()


# --- summary ------------------------------------------------------------------------------------------------------


def test_summary_says_what_does_no_work() -> None:
    constant = Function(lambda word: ["Any"], name="any")
    found = summarise(Attributes(LEXICON) + Numeric(), VOCABULARY)
    assert found.by_group == {"Attributes": 5, "Numeric": 3}
    assert (found.symbols, found.features, found.classes) == (9, 8, 8)
    assert found.never_fire == ("POS:VERB",)
    assert found.same_on_all == ()
    assert found.indistinct == (("noir", "noire"),)
    assert (found.indistinct_words, found.without_features) == (2, 2)
    assert found.reduction == 9 / 8
    assert found.bytes == compile_features(Attributes(LEXICON) + Numeric(), VOCABULARY).bytes()
    assert summarise(constant + Fixed({"Bias": 0.3}), VOCABULARY).same_on_all == ("Bias",)


class Length(Features):
    """Nearly, but not quite, the same on all words."""

    def __call__(self, symbol: str) -> Mapping[str, float]:
        return {"Length": 1.0 + 1e-4 * len(symbol)}


def test_summary_tells_nearly_constant_from_constant() -> None:
    assert summarise(Length() + Fixed({"Bias": 1.0}), VOCABULARY).same_on_all == ("Bias",)


def test_summary_of_a_lexicon_that_cannot_be_listed() -> None:
    lexicon = Lexicon.from_function(lambda form: ["Ends:e"] if form.endswith("e") else [])
    found = summarise(Attributes(lexicon | LEXICON), VOCABULARY)
    assert found.never_fire == ()
    assert "Ends:e" in compile_features(Attributes(lexicon), VOCABULARY).names


def test_summary_shows_the_largest_classes_first_and_few_examples() -> None:
    vocabulary = Vocabulary(["a1", "b", "a2", "c", "a3", "b2", EOS])
    found = summarise(Function(lambda word: [word[0]], name="first"), vocabulary, largest=2, examples=2)
    assert found.indistinct == (("a1", "a2"), ("b", "b2"))
    assert found.indistinct_words == 5
    assert found.without_features == 1
    assert isinstance(compile_features(Shape(), vocabulary), FeatureMatrix)


def test_frequent_features_are_those_that_enough_symbols_share() -> None:
    vocabulary = Vocabulary([EOS, "aa", "ab", "ba", "bb", "bc"])
    first = Function(lambda word: [f"first {word[0]}"], name="first")
    second = Function(lambda word: [f"second {word[1]}"], name="second")
    kept = compile_features((first + second).frequent(min_count=2), vocabulary)
    assert set(kept.names) == {"first a", "first b", "second a", "second b"}  # only bc ends in c
    assert set(kept.groups) == {"first", "second"}
