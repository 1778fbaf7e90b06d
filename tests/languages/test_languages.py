"""Automata against the definition: random expressions, all short strings, by all ways to cut them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brute_languages import Naive, strings
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars import Expression, letter, matching, words
from llrnn.languages.grammars.automaton import Language, LetterColumns, Node, TooLargeError, determinised
from llrnn.languages.grammars.expressions import Alternation, Concatenation, columns_of, compiled
from llrnn.languages.grammars.finite import Finite, Gathered, finite
from strategies import draws

LETTERS, LONGEST = "abc", 6
QUICK = settings(max_examples=draws(25))

LISTED = st.lists(st.sampled_from(["", "a", "ab", "abc", "b", "ca", "aa", "zz"]), min_size=1, max_size=4)
LEAVES: st.SearchStrategy[Expression] = st.one_of(
    st.sampled_from([*map(letter, "abcz"), *map(matching, ["[ab]", "[bc]", "."])]), st.builds(words, LISTED)
)


def larger(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Concatenation, several),
        st.builds(Alternation, several),
        st.builds(lambda part: part.repeated(), parts),
        st.builds(
            lambda part, least, more: part.times(least, least + more), parts, st.integers(0, 2), st.integers(0, 2)
        ),
        st.builds(lambda left, right: left & right, parts, parts),
    )


EXPRESSIONS = st.recursive(LEAVES, larger, max_leaves=6)


def columns_for(expression: Expression) -> LetterColumns:
    return columns_of(expression, list(LETTERS), "characters")


def read(language: Language, text: str) -> Node | None:
    """The node after a text."""
    node = language.root
    for character in text:
        column = language.columns.column(character)
        after = language.after(node, column) if column >= 0 else None
        if after is None:
            assert column < 0 or language.weights(node)[column] == 0.0
            return None
        node = after
    return node


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
    assert naive(expression, text)


def languages(expression: Expression) -> list[Language]:
    """Written out, where that is possible, and in sets; nothing if the language is empty."""
    machine = compiled(expression, columns_for(expression))
    if machine.is_empty:
        return []
    try:
        return [Gathered(machine), Finite(determinised(machine, most_states=300))]
    except TooLargeError:
        return [Gathered(machine)]


@QUICK
@given(EXPRESSIONS)
@example(letter("a").repeated().repeated())  # two ways for the same move
@example((words(["", "a"]) + letter("b").optional()).repeated())  # nothing, repeated
def test_what_can_be_completed_is_allowed_and_nothing_else(expression: Expression) -> None:
    naive = Naive()
    held = {text for text in strings(LETTERS, LONGEST) if naive(expression, text)}
    begun = {text[:cut] for text in held for cut in range(len(text) + 1)}
    found = languages(expression)
    if not found:
        assert not held
        with pytest.raises(BackgroundError, match="holds no string at all: "):
            finite(expression, columns_for(expression))
    for language, text in itertools.product(found, strings(LETTERS, 4)):
        node = read(language, text)
        assert (node is not None) >= (text in begun)
        if node is not None:
            assert bool(language.end(node)) == (text in held)
            allowed = {
                x for x in LETTERS if (c := language.columns.column(x)) >= 0 and language.weights(node)[c] == 1.0
            }
            assert allowed >= {x for x in LETTERS if text + x in begun}
            assert set(np.unique(language.weights(node))) <= {0.0, 1.0}
            check_shortest(language, node, text, naive, expression)
