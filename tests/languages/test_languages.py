"""Automata against the definition: random expressions, all short strings, weights by all ways to cut them."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from brute_languages import Naive, strings
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars import Expression, letter, matching, words
from llrnn.languages.grammars.automaton import (
    InfiniteMassError,
    Language,
    LetterColumns,
    Node,
    TooLargeError,
    backward,
    determinised,
)
from llrnn.languages.grammars.expressions import Alternation, Concatenation, columns_of, compiled
from llrnn.languages.grammars.finite import Finite, finite
from strategies import draws

LETTERS, LONGEST = "abc", 6
QUICK = settings(max_examples=draws(25))

FACTORS = st.sampled_from([0.1, 0.25, 0.5, 1.0, 1.5])
AGAIN = st.sampled_from([0.05, 0.1, 0.2])
LISTED = st.dictionaries(
    st.sampled_from(["", "a", "ab", "abc", "b", "ca", "aa", "zz"]), FACTORS, min_size=1, max_size=4
)
LEAVES: st.SearchStrategy[Expression] = st.one_of(
    st.sampled_from([*map(letter, "abcz"), *map(matching, ["[ab]", "[bc]", "."])]), st.builds(words, LISTED)
)


def larger(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Concatenation, several),
        st.builds(Alternation, several),
        st.builds(lambda part, again: part.repeated(again=again), parts, AGAIN),
        st.builds(
            lambda part, least, more: part.times(least, least + more), parts, st.integers(0, 2), st.integers(0, 2)
        ),
        st.builds(lambda part, factor: part.weighted(factor), parts, FACTORS),
        st.builds(lambda left, right: left & right, parts, parts),
    )


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=6)


def columns_for(expression: Expression) -> LetterColumns:
    return columns_of(expression, list(LETTERS), "characters")


def read(language: Language, text: str) -> tuple[Node | None, float]:
    """The node after a text, and the product of the weights on the way."""
    node, weight = language.root, 1.0
    for character in text:
        column = language.columns.column(character)
        after = language.after(node, column) if column >= 0 else None
        if after is None:
            assert column < 0 or language.weights(node)[column] == 0.0
            return None, 0.0
        weight *= float(language.weights(node)[column])
        node = after
    return node, weight


def check_shortest(language: Language, node: Node, text: str, naive: Naive, expression: Expression) -> None:
    """As many letters as it says lead to an end, and no fewer: there is no dead end."""
    for left in range(language.shortest(node), 0, -1):
        assert language.shortest(node) == left
        assert language.end(node) == 0.0
        node, text = next(
            (after, text + language.columns.example(column))
            for column in np.flatnonzero(language.weights(node)).tolist()
            if (after := language.after(node, column)) is not None and language.shortest(after) == left - 1
        )
    assert language.end(node) > 0.0
    assert naive(expression, text) > 0.0


def languages(expression: Expression, *, weighted: bool) -> list[Language]:
    """The language, if it is not empty and has finite mass; where it is small, of its deterministic automaton too."""
    columns = columns_for(expression)
    try:
        machine = compiled(expression, columns, weighted=weighted)
        if machine.is_empty:
            return []
        found: list[Language] = [Finite(machine, weighted=weighted)]
    except InfiniteMassError:
        return []
    try:
        written = determinised(machine, weighted=weighted, most_states=300)
    except TooLargeError:
        return found
    return [*found, Finite(written, weighted=weighted)]


@QUICK
@given(EXPRESSIONS)
@example(letter("a").repeated(again=0.2).repeated(again=0.1))  # two ways for the same move
@example(matching(".").repeated(again=0.2) + letter("c") + matching("[bc]").repeated(again=0.1))  # weights drift apart
@example((words({"": 0.5, "a": 1.0}) + letter("b").optional()).repeated(again=0.1))  # nothing, repeated
def test_a_string_is_as_probable_as_the_definition_says(expression: Expression) -> None:
    naive = Naive(weighted=True)
    found = languages(expression, weighted=True)
    assume(found)
    log_mass = float(backward(compiled(expression, columns_for(expression)))[0])
    for language in found:
        for text in strings(LETTERS, LONGEST):
            node, prefix = read(language, text)
            expected = naive(expression, text)
            assert (node is not None) >= (expected > 0.0)
            if node is not None:
                assert prefix * language.end(node) == pytest.approx(expected / math.exp(log_mass), rel=1e-9, abs=1e-290)
                assert language.end(node) + language.weights(node) @ language.columns.sizes == pytest.approx(
                    1.0, abs=1e-12
                )


@QUICK
@given(EXPRESSIONS)
def test_without_weights_what_can_be_completed_is_allowed_and_nothing_else(expression: Expression) -> None:
    naive = Naive(weighted=False)
    held = {text for text in strings(LETTERS, LONGEST) if naive(expression, text)}
    begun = {text[:cut] for text in held for cut in range(len(text) + 1)}
    found = languages(expression, weighted=False)
    if not found:
        assert not held
        with pytest.raises(BackgroundError, match="holds no string at all: "):
            finite(expression, columns_for(expression), weighted=False)
    for language, text in itertools.product(found, strings(LETTERS, 4)):
        node, _ = read(language, text)
        assert (node is not None) >= (text in begun)
        if node is not None:
            assert bool(language.end(node)) == (text in held)
            allowed = {
                x for x in LETTERS if (c := language.columns.column(x)) >= 0 and language.weights(node)[c] == 1.0
            }
            assert allowed >= {x for x in LETTERS if text + x in begun}
            assert set(np.unique(language.weights(node))) <= {0.0, 1.0}
            check_shortest(language, node, text, naive, expression)


FINITE_LEAVES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds(Concatenation, st.lists(parts, min_size=1, max_size=2).map(tuple)),
        st.builds(Alternation, st.lists(parts, min_size=1, max_size=3).map(tuple)),
        st.builds(lambda part, least: part.times(least, least + 1), parts, st.integers(0, 1)),
        st.builds(lambda part, factor: part.weighted(factor), parts, FACTORS),
    ),
    max_leaves=4,
)


@QUICK
@given(FINITE_LEAVES)
def test_the_next_letter_is_as_probable_as_all_strings_that_go_on_with_it(expression: Expression) -> None:
    """Of a language without repeats all strings can be written out: prefix masses are sums of them."""
    naive = Naive(weighted=True)
    machine = compiled(expression, columns_for(expression))
    assume(machine.n_states <= 8)  # without circles no way is longer
    weights = {text: weight for text in strings(LETTERS, machine.n_states - 1) if (weight := naive(expression, text))}
    assume(weights)
    mass = Counter[str]()
    for text, weight in weights.items():
        for cut in range(len(text) + 1):
            mass[text[:cut]] += weight  # type: ignore[assignment]  # a Counter of numbers
    for language in languages(expression, weighted=True):
        assert float(backward(machine)[0]) == pytest.approx(math.log(mass[""]), abs=1e-9)
        for text in mass:
            node, prefix = read(language, text)
            assert node is not None
            assert prefix == pytest.approx(mass[text] / mass[""], rel=1e-9)
            for x in LETTERS:
                column = language.columns.column(x)
                found = 0.0 if column < 0 else language.weights(node)[column]
                assert found == pytest.approx(mass[text + x] / mass[text], rel=1e-9)


def test_100_000_samples_are_strings_of_the_language_as_often_as_they_should_be() -> None:
    part = words({"a": 0.5, "ab": 0.3, "b": 0.4})
    expression = part + (matching("[bc]").weighted(0.2) + part).repeated(again=0.6)
    naive, language = Naive(weighted=True), finite(expression, columns_for(expression))
    counts = sampled(language, 100_000, seed=1)
    total = math.exp(float(backward(compiled(expression, columns_for(expression)))[0]))
    expected = {text: naive(expression, text) / total for text in strings(LETTERS, 5)}
    assert all(naive(expression, text) > 0.0 for text in counts)
    degrees = sum(share >= 1e-4 for share in expected.values())
    assert chi_square(counts, expected) < critical(degrees)
    wrong = Naive(weighted=True)
    other = part + (matching("[bc]").weighted(0.2) + part).repeated(again=0.63)
    mass = math.exp(float(backward(compiled(other, columns_for(other)))[0]))
    assert chi_square(counts, {text: wrong(other, text) / mass for text in expected}) > critical(degrees)


def sampled(language: Language, count: int, seed: int) -> Counter[str]:
    draw, found = random.Random(seed), Counter[str]()
    end = len(LETTERS)
    rows: dict[Node, list[float]] = {}
    for _ in range(count):
        node, text = language.root, ""
        while True:
            if node not in rows:
                weights = [language.weights(node)[language.columns.column(x)] for x in LETTERS]
                rows[node] = list(itertools.accumulate([*weights, language.end(node)]))
            which = draw.choices(range(end + 1), cum_weights=rows[node])[0]
            if which == end:
                break
            text += LETTERS[which]
            after = language.after(node, language.columns.column(LETTERS[which]))
            assert after is not None
            node = after
        found[text] += 1
    return found


def chi_square(counts: Counter[str], expected: dict[str, float]) -> float:
    """Over the strings that are expected ten times or more, and all others together."""
    n = sum(counts.values())
    common = {text: n * share for text, share in expected.items() if n * share >= 10}
    rest, others = n - sum(common.values()), n - sum(counts[text] for text in common)
    return sum((counts[text] - e) ** 2 / e for text, e in common.items()) + (others - rest) ** 2 / max(rest, 1.0)


def critical(degrees: int) -> float:
    """One in a million is larger (Wilson and Hilferty)."""
    return degrees * (1 - 2 / (9 * degrees) + 4.75 * math.sqrt(2 / (9 * degrees))) ** 3
