"""Automata of expressions beyond short strings: sums, limits, refusals, conditions, what is written."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llrnn.ground.errors import BackgroundError, CheckpointError
from llrnn.knowledge.backgrounds import Automaton, restore
from llrnn.languages.grammars import Expression, from_condition, letter, matching, regular, symbolic, words
from llrnn.languages.grammars import automaton as moves
from llrnn.languages.grammars import finite as conditional
from llrnn.languages.grammars import finite as holes
from llrnn.languages.grammars.automaton import (
    InfiniteMassError,
    Language,
    LetterColumns,
    Node,
    OneOf,
    TooLargeError,
    backward,
    components,
    determinised,
)
from llrnn.languages.grammars.expressions import NOTHING, Alternation, Concatenation, columns_of, compiled
from llrnn.languages.grammars.finite import Conditional, EmptyLanguageError, finite
from llrnn.languages.grammars.notation import described, restored
from llrnn.model.testing import check_background
from llrnn.text.vocabulary import EOS, Vocabulary
from strategies import draws

A, B, C = letter("a"), letter("b"), letter("c")


def over(letters: str, expression: Expression) -> LetterColumns:
    return columns_of(expression, list(letters), "characters")


def log_mass(expression: Expression, letters: str = "abc") -> float:
    return float(backward(compiled(expression, over(letters, expression)))[0])


def holds(language: Language, text: str) -> bool:
    node: Node | None = language.root
    for character in text:
        column = language.columns.column(character)
        node = language.after(node, column) if column >= 0 and node is not None else None
    return node is not None and language.end(node) > 0


# sums


def test_masses_in_closed_form() -> None:
    assert log_mass(A.repeated(again=0.5)) == pytest.approx(math.log(2))
    assert log_mass(matching(".").repeated(again=0.3)) == pytest.approx(-math.log(0.1))  # three letters
    assert log_mass((A + B).repeated(again=0.5)) == pytest.approx(math.log(2))
    assert log_mass(A.repeated(again=1 - 1e-7)) == pytest.approx(math.log(1e7), abs=1e-6)
    assert log_mass((A | NOTHING).repeated(again=0.4)) == pytest.approx(-math.log(1 - 0.8))


@pytest.mark.parametrize("most_dense", [2_000, 1])
def test_weights_far_below_what_a_float_holds(most_dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOST_DENSE", most_dense)
    tiny = (A + B).weighted(1e-290)
    seldom = tiny + tiny + tiny + tiny.times(4).repeated() + tiny
    assert log_mass(seldom) == pytest.approx(4 * math.log(1e-290))  # e^-2671
    language = finite(seldom, over("ab", seldom))
    assert language.weights(language.root).tolist() == [1.0, 0.0]
    grows = A.weighted(1e200) + (B.weighted(1e200) + C.weighted(1e-250)).repeated() + A.weighted(1e-290)
    assert log_mass(grows) == pytest.approx(-90 * math.log(10))


@pytest.mark.parametrize("ratio", [0.5, 0.99, 0.9999])
def test_large_components_are_iterated_to_the_same_sum(ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(3)
    listed = {"".join(draw.choices("abc", k=draw.randint(2, 7))): draw.random() for _ in range(60)}
    total = sum(listed.values())
    expression = words({text: weight / total for text, weight in listed.items()}).repeated(again=ratio)
    machine = compiled(expression, over("abc", expression))
    exact = backward(machine)
    assert exact[0] == pytest.approx(-math.log1p(-ratio), rel=1e-9)
    monkeypatch.setattr(moves, "MOST_DENSE", 1)
    np.testing.assert_allclose(backward(machine), exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("most_dense", [2_000, 1])
@pytest.mark.parametrize(
    "expression",
    [
        A.repeated(),
        (A + B).repeated(),
        (A + B).repeated(again=1 - 1e-14),  # finite, but nobody could tell
        matching("[abc]").repeated(again=1 / 3),
        words(["ab", "ba"]).repeated(again=0.5),
        words(["ab", "ba", "aab"]).repeated(again=0.5),
        (A.weighted(3.0) + B).repeated(again=0.4),
    ],
)
def test_infinite_mass_is_refused(expression: Expression, most_dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "MOST_DENSE", most_dense)
    monkeypatch.setattr(moves, "MOST_ITERATIONS", 2_000)
    columns = over("abc", expression)
    with pytest.raises(InfiniteMassError):
        backward(compiled(expression, columns))
    with pytest.raises(
        BackgroundError, match=r"(?s)finite sum, but what is repeated in .*\)\*.*again=0\.5.*weighted=False"
    ):
        finite(expression, columns)
    allowed = finite(expression, columns, weighted=False)
    assert allowed.weights(allowed.root).max() == 1.0


def test_repeating_nothing_for_ever_is_refused_and_harmless_without_weights() -> None:
    expression = A.optional().repeated()
    with pytest.raises(BackgroundError, match="may repeat nothing for ever"):
        finite(expression, over("a", expression))
    assert holds(finite(expression, over("a", expression), weighted=False), "aaa")


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=15))
@settings(max_examples=draws(30))
def test_components_are_those_that_reach_each_other_ends_first(edges: list[tuple[int, int]]) -> None:
    n, edges = 7, sorted(edges)
    first = [sum(source < state for source, _ in edges) for state in range(n + 1)]
    found = list(components(first, [target for _, target in edges]))
    reach = np.eye(n, dtype=bool)
    for source, target in edges:
        reach[source, target] = True
    for middle in range(n):
        reach |= reach[:, middle : middle + 1] & reach[middle : middle + 1]
    assert sorted(itertools.chain(*found)) == list(range(n))
    for place, states in enumerate(found):
        assert all(reach[a, b] for a in states for b in states)
        assert not any(reach[a, b] for a in states for later in found[place + 1 :] for b in later)


# limits and refusals


def test_what_is_too_large_is_refused_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    many = A.times(100).times(1000)
    assert (moves.MOST_STATES, moves.MOST_MOVES) == (500_000, 5_000_000)
    with monkeypatch.context() as lower:
        lower.setattr(moves, "MOST_STATES", 50_000)
        with pytest.raises(BackgroundError, match="needs more than 50,000 states or 5,000,000 moves"):
            finite(many, over("a", many))
    combined = matching("[ab]").repeated() + A + matching("[ab]").times(12)
    machine = compiled(combined, over("ab", combined), weighted=False)
    with pytest.raises(TooLargeError, match="needs more than 1,000 states"):
        determinised(machine, weighted=False, most_states=1000)
    assert determinised(machine, weighted=False).n_states == 2**13 + 1  # the start is one more
    with pytest.raises(BackgroundError, match="1000"):
        A.times(1001)


def test_weights_that_drift_apart_are_kept_in_sets() -> None:
    """Anything with a c in it: how often c came decides the weights, so there are infinitely many sets."""
    anything = matching(".").repeated(again=0.25)
    expression = anything + C + anything
    columns = over("abc", expression)
    with pytest.raises(TooLargeError, match="drift apart"):
        determinised(compiled(expression, columns), most_states=2000)
    language = finite(expression, columns)
    node: Node = language.root
    for count in range(1, 200):
        after = language.after(node, columns.column("c"))
        assert after is not None
        node = after
        # c^n ends in n ways of 0.25^(n - 1); behind any of them all that follows weighs 4, and without a c so far 16
        ends, ahead = 4 * count, 4 * 4 * count + 16
        assert language.end(node) == pytest.approx(ends / ahead, rel=1e-9)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (A & B, "the two sides of & share no string: a and b"),
        (A + (words(["xy"]) | letter("z")), "spells none: 'xy' holds 'x', which is no character"),
        (A + letter("z").times(2), "z is none of the 3 characters"),
        ((A | words(["z"])) & (B | C), "share no string"),
        (letter("z") & A, "z is none of"),
        (Alternation(()), "nothing to choose from"),
    ],
)
def test_an_empty_language_is_refused_with_the_part_to_blame(expression: Expression, reason: str) -> None:
    for weighted in (True, False):
        with pytest.raises(EmptyLanguageError, match=f"holds no string at all: .*{re.escape(reason)}"):
            finite(expression, over("abc", expression), weighted=weighted)


def test_columns_of_another_expression_are_refused() -> None:
    columns = LetterColumns(list("abc"), [OneOf((("a", "c"),))], "characters")
    with pytest.raises(BackgroundError, match="column of its own"):
        compiled(A, columns)
    with pytest.raises(BackgroundError, match="Conditional"):
        compiled(from_condition(lambda _: None), columns)


def test_thousands_of_parts_in_a_row_do_not_nest() -> None:
    whole = NOTHING
    for character in "ab" * 1500:
        whole = whole + letter(character)
    assert isinstance(whole, Concatenation)
    assert len(whole.parts) == 3000
    language = finite(whole, over("ab", whole))
    assert language.shortest(language.root) == 3000
    deep: Expression = A
    for _ in range(2000):
        deep = deep.weighted(0.9)
    with pytest.raises(BackgroundError, match="nest less"):
        compiled(deep, LetterColumns(["a"], [], "characters"))


def test_what_is_no_expression_or_weight_is_refused() -> None:
    anything: Any = letter
    calls: list[Callable[[], object]] = [
        lambda: A + anything("b").atom,
        lambda: A | anything("b").atom,
        lambda: A.weighted(0.0),
        lambda: A.repeated(again=-1.0),
        lambda: A.times(3, 2),
        lambda: matching("["),
        lambda: from_condition(anything("b")),
        lambda: words([]),
        lambda: Automaton(anything),
    ]
    for call in calls:
        with pytest.raises(BackgroundError):
            call()


# what the condition says

DICTIONARY = ["a", "ab", "abc", "ca"]
VALUES = st.lists(st.text("abc", min_size=0, max_size=3), max_size=3)


def listed_values(condition: object) -> Expression | None:
    assert isinstance(condition, list)
    return words(condition) if condition else None


def with_values() -> Expression:
    token = words(DICTIONARY) | from_condition(listed_values)
    return token + (letter(" ") + token).repeated(again=0.2)


@given(VALUES)
@settings(max_examples=draws(25))
def test_a_filled_hole_is_the_language_with_the_values_in_it(values: list[str]) -> None:
    expression = with_values()
    columns = over("abc ", expression)
    token = words([*DICTIONARY, *values])
    whole = token + (letter(" ") + token).repeated()
    expected = finite(whole, columns, weighted=False)
    language = Conditional(expression, columns).language(values)
    draw = random.Random(len(values))
    for _ in range(20):
        mine, other = language.root, expected.root
        for _ in range(8):
            assert (language.weights(mine) == expected.weights(other)).all()
            assert language.end(mine) == expected.end(other)
            assert language.shortest(mine) == expected.shortest(other)
            for column in np.flatnonzero(expected.weights(other) == 0.0).tolist():
                assert language.after(mine, column) is None
            column = draw.choice(np.flatnonzero(expected.weights(other)).tolist() or [-1])
            after, facing = language.after(mine, column), expected.after(other, column)
            if after is None or facing is None:
                break
            mine, other = after, facing


def test_conditions_with_weights_within_and_and_without_a_fit() -> None:
    def values(condition: object) -> Expression | None:
        return words([str(condition)]) if condition else None

    columns = over("abc", C + from_condition(values))
    weighted = Conditional(words(["a"]) | from_condition(values).weighted(3.0), columns, weighted=True).language("bc")
    assert weighted.weights(weighted.root).tolist() == pytest.approx([0.25, 0.75, 0.0])
    both = Conditional(matching("[ab]").repeated() & from_condition(values), columns)
    assert holds(both.language("ab"), "ab")
    with pytest.raises(EmptyLanguageError, match="share no string"):
        both.language("abc")
    alone = Conditional(A + from_condition(values), columns)
    assert holds(alone.language("bb"), "abb")
    assert [alone.language("b" * n).shortest(alone.language("b" * n).root) for n in (1, 3, 9)] == [2, 4, 10]
    assert alone.language("bb") is alone.language("bb")
    for condition, reason in ((None, "is made nothing"), ("é", "'é' holds 'é'")):
        with pytest.raises(EmptyLanguageError, match=reason):
            alone.language(condition)
    other = Conditional(A + (from_condition(values) | B | C + from_condition(values)), columns).language("é")
    assert holds(other, "ab")
    assert other.weights(other.after(other.root, 0)).tolist() == [0.0, 1.0, 0.0]  # after c nothing would fit
    pattern = Conditional(from_condition(lambda _: regular("[ab]{2}")), columns).language(0)
    assert holds(pattern, "ba")
    assert not holds(pattern, "bc")
    with pytest.raises(BackgroundError, match="must give an expression"):
        Conditional(from_condition(lambda _: "a"), columns).language(0)  # type: ignore[arg-type, return-value]


def test_thousands_of_conditions_share_one_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llrnn.languages.grammars.finite.MOST_CONDITIONS", 256)
    draw = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "
    listed = ["".join(draw.choices(letters[:26], k=draw.randint(2, 10))) for _ in range(3000)]
    token = words(listed) | from_condition(listed_values)
    expression = token + (letter(" ") + token).repeated()
    compiling, alone = mock.Mock(wraps=compiled), mock.Mock(wraps=finite)
    monkeypatch.setattr(holes, "compiled", compiling)
    monkeypatch.setattr(conditional, "finite", alone)
    languages = Conditional(expression, over(letters, expression))
    positions = 0
    for _ in range(300):
        values = ["".join(draw.choices(letters[:-1], k=12)) for _ in range(3)]
        text = " ".join(draw.choice(values if draw.random() < 0.3 else listed) for _ in range(10))
        language = languages.language(values)
        node: Node = language.root
        for character in text:
            column = language.columns.column(character)
            assert language.weights(node)[column] == 1.0
            after = language.after(node, column)
            assert after is not None
            node, positions = after, positions + 1
    assert (compiling.call_count, alone.call_count) == (1, 0)
    assert languages._languages.cache_info().currsize <= 256


# as a background, and in a folder

VOCABULARY = Vocabulary(["the", "big", "small", "cat", "dog", EOS])
SPELLED = Vocabulary([*"abc␣", "ab", EOS])
LETTERS = matching("[abc ]").repeated(again=0.2)


@pytest.mark.parametrize(
    ("automaton", "vocabulary"),
    [
        (Automaton("the ( big | small )*<0.4> ( cat | dog <0.5> )"), VOCABULARY),
        (Automaton("the /.*/* cat", weighted=False), VOCABULARY),
        (Automaton("the /.*/*<0.1> cat /.*/*<0.1>", violation=0.1), VOCABULARY),
        (Automaton("a([bc]+ ){1,2}(?i:A)?", over="characters", weighted=False), SPELLED),
        (
            Automaton(
                words({"abc": 2.0, "ca b": 1.0}) & matching("[abc ]").repeated(again=0.2), over="characters", longest=4
            ),
            SPELLED,
        ),
    ],
)
def test_an_automaton_keeps_the_laws_and_comes_back_from_a_folder(automaton: Automaton, vocabulary: Vocabulary) -> None:
    check_background(automaton, vocabulary)
    saved = automaton.saved()
    kept = restore(saved.__class__(saved.kind, json.loads(json.dumps(saved.fields)), saved.tensors))
    assert repr(kept) == repr(automaton)
    mine, other = automaton.bind(vocabulary), kept.bind(vocabulary)
    state, facing = mine.initial(), other.initial()
    for symbol in [0, 1, 3]:
        assert mine.prior([state]).dense(1).log_b.tolist() == other.prior([facing]).dense(1).log_b.tolist()
        state, facing = mine.advance(state, symbol), other.advance(facing, symbol)


def test_an_automaton_asks_the_condition() -> None:
    function = from_condition(lambda condition: letter(str(condition)) if condition else None)
    automaton = Automaton(letter("the") + (function | letter("cat")), weighted=False)
    bound = automaton.bind(VOCABULARY)
    after = bound.advance(bound.initial("dog"), VOCABULARY.id("the"))
    assert bound.allowed(after) == ["cat", "dog"]
    assert bound.allowed(bound.advance(bound.initial(None), VOCABULARY.id("the"))) == ["cat"]
    check_background(automaton, VOCABULARY, conditions=("dog", None, "unheard"))
    assert automaton.saved().kind == "custom"
    with pytest.raises(BackgroundError, match="cannot be saved"):
        described(function)


@pytest.mark.parametrize(
    "plain", [["what"], ["one", "letter"], ["repeat", ["one", "letter", "a"], -1.0], [], ["listed"], ["ngrams", 0, {}]]
)
def test_a_damaged_expression_is_refused(plain: list[object]) -> None:
    with pytest.raises(CheckpointError, match="a saved expression cannot be read"):
        restored(plain)


def test_every_kind_of_expression_comes_back() -> None:
    expression = (symbolic("a ( b | /[cd]/ )*<0.5> c+ ?<0.2>") & regular("[^a-c\\d]{2,3}x")).weighted(0.1) | words(
        {"x y": 2.0}
    )
    assert restored(json.loads(json.dumps(described(expression)))) == expression


# --- sizes: what once took years, by a clock that stands on another machine


@pytest.mark.parametrize(("read", "text"), [(regular, "(" * 40 + "a" + ")+" * 40), (symbolic, "a" + "+" * 40)])
def test_repeats_within_repeats_are_counted_without_writing_them_out(
    read: Callable[[str], Expression], text: str
) -> None:
    with pytest.raises(BackgroundError, match="with all repeats written out it has more than 100,000"):
        read(text)


@pytest.mark.parametrize("text", ["la" + " *" * 9000, "la" + " <0.5>" * 9000])
def test_what_is_nested_too_deeply_is_refused_in_a_short_line(text: str) -> None:
    with pytest.raises(BackgroundError, match="nested some hundred times, found more; nest less") as found:
        symbolic(text)
    assert len(str(found.value)) < 400


def test_long_strings_are_measured_in_one_pass() -> None:
    n = 20_000
    chain = conditional.TerminalAutomaton([*({0: state + 1} for state in range(n)), {}], [*[False] * n, True])
    assert chain.lengths == [*range(n, -1, -1)]
    long = compiled(words(["a" * n]), over("a", A), weighted=False)
    assert sorted(long.shortest.tolist()) == [*range(n + 1)]
