"""Regular expressions as texts: over characters, as Python reads them, and over symbols."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_languages import Naive, strings
from llrnn.ground.errors import BackgroundError
from llrnn.languages.grammars import letter, matching, regular, symbolic
from llrnn.languages.grammars import notation as patterns
from llrnn.languages.grammars.automaton import LetterColumns, Node
from llrnn.languages.grammars.expressions import (
    NOTHING,
    Alternation,
    Concatenation,
    Expression,
    columns_of,
    compiled,
    shown,
)
from llrnn.languages.grammars.finite import EmptyLanguageError, finite
from llrnn.languages.grammars.notation import Matcher
from strategies import draws

CHARACTERS = "abA1é \n"
PATTERNS = r"""
a*b | (a|b)+ | [^a]b? | (?i)ab | (?i:a)b | a{2,3} | a{2,} | a{0,2}?b*? | \w+\d | \W | (?a:\w)+ | . | (?s).
(?P<x>a)|b() | [a-b1]{1,2} | (?i)[a-b] | (?i)[^a] | a?? | (?:ab){0} | \S\s | [\d-] | (a*)*b | (a|ab)(b|)
(?i)É | [^\W\d] | a{,2} | (?x)a[ ]b | (?i:(?-i:a)b) | [\s\S]{2} | (a|b){2,3}1* | [^\s]*
"""


def accepted(pattern: str, longest: int) -> set[str]:
    """The strings that the automaton of a regular expression accepts."""
    expression = regular(pattern)
    columns = columns_of(expression, list(CHARACTERS), "characters")
    try:
        language = finite(expression, columns, weighted=False)
    except EmptyLanguageError:
        return set()
    found, nodes = set[str](), dict[str, Node]({"": language.root})
    for text in strings(CHARACTERS, longest):
        if text:
            column = columns.column(text[-1])
            after = language.after(nodes[text[:-1]], column) if text[:-1] in nodes and column >= 0 else None
            if after is None:
                continue
            nodes[text] = after
        if language.end(nodes[text]):
            found.add(text)
    return found


@pytest.mark.parametrize("pattern", [p.strip() for line in PATTERNS.strip().splitlines() for p in line.split(" | ")])
def test_a_regular_expression_is_what_python_matches(pattern: str) -> None:
    compiled_ = re.compile(pattern)
    wanted = {text for text in strings(CHARACTERS, 4) if compiled_.fullmatch(text)}
    matcher = Matcher(pattern, CHARACTERS)
    assert accepted(pattern, 4) == wanted == {text for text in strings(CHARACTERS, 4) if matcher.holds(text)}


PIECES = st.recursive(
    st.sampled_from(["a", "b", "é", ".", "[ab]", "[^b1]", r"\d", r"\W", "(?i:A)", ""]),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map("".join),
        st.lists(parts, min_size=1, max_size=3).map(lambda found: f"({'|'.join(found)})"),
        st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,1}?", "{2,}"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
    ),
    max_leaves=5,
)


@given(PIECES)
@settings(max_examples=draws(30))
def test_random_regular_expressions_are_what_python_matches(pattern: str) -> None:
    compiled_ = re.compile(pattern)
    wanted = {text for text in strings(CHARACTERS, 3) if compiled_.fullmatch(text)}
    matcher = Matcher(pattern, CHARACTERS)
    assert accepted(pattern, 3) == wanted == {text for text in strings(CHARACTERS, 3) if matcher.holds(text)}


@pytest.mark.parametrize(
    "pattern", ["(a+)+c|b", "(a|a)*c", "(a*)*c", "(a|aa)+c", "(?:|){30}c", "(.*)*1", "(a?){30}a{30}c", "(((a+)+)+)+c"]
)
def test_symbols_are_matched_in_linear_time(pattern: str) -> None:
    """Python's own `re` takes 2ⁿ steps, or n³⁰, to find that these do not match."""
    steps = []
    for n in (1_000, 2_000, 4_000):
        matcher = Matcher(pattern, "abc")
        assert not matcher.holds("a" * n)
        steps.append(matcher.steps)
    assert steps[2] - steps[1] <= 2 * (steps[1] - steps[0]) + 10
    assert steps[2] <= 100 * 4_000
    symbols = ["a" * n for n in range(1, 60)] + ["b", "c"]
    expression = symbolic(f"/{pattern}/")
    assert LetterColumns(symbols, [expression.atom], "symbols").count <= 1  # type: ignore[attr-defined]


def test_what_takes_too_many_states_or_steps_to_match_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for pattern in ("((((la){40}){40}){40}){40}", "a{1000000}", "(?:){1000000}", "(a{0,1000}){0,900}"):
        with pytest.raises(BackgroundError, match=r"more than (100,000 characters|1,000 times)"):
            matching(pattern)
    monkeypatch.setattr(patterns, "MOST_STEPS", 500)
    with pytest.raises(BackgroundError, match=r"it takes more than 500 steps to match all symbols; repeat less"):
        Matcher("(a|b)*a(a|b){50}", "ab").holds("ab" * 100)
    for take in (matching, regular):
        take("(" * 100 + "a" + ")" * 100)
        with pytest.raises(BackgroundError, match=r"more than 100 deep.*; nest less"):
            take("(" * 101 + "a" + ")" * 101)


def test_a_bounded_repeat_is_read_in_one_way() -> None:
    """With weights: a{0,3} counts each string once, and not once for each choice of what was left out."""
    expression = regular("a{0,3}b{2}")
    assert [Naive(weighted=True)(expression, "a" * n + "bb") for n in range(5)] == [1.0, 1.0, 1.0, 1.0, 0.0]
    language = finite(expression, columns_of(expression, ["a", "b"], "characters"))
    assert language.weights(language.root).tolist() == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("^a", "an anchor"),
        ("a$", "an anchor"),
        (r"a\b", "an anchor"),
        ("(?=a)a", "look-ahead"),
        ("(?<!a)b", "negative look-ahead or look-behind"),
        (r"(a)\1", "back-reference"),
        (r"(?i)(a)\1", "back-reference"),
        ("(a)(?(1)b|c)", "condition on a group"),
        ("a*+", "possessive"),
        ("(?>a)", "atomic"),
        ("a(b", "wrong at column 2: missing )"),
        ("a[z-a]", "wrong at column 3: bad character range"),
        ("*a", "wrong at column 1: nothing to repeat"),
        ("a{1001}", "more than 1,000 times"),
        ("a{5,1001}", "more than 1,000 times"),
        ("(" * 400 + ")" * 400, "nest less"),
    ],
)
def test_what_is_no_regular_language_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(BackgroundError, match=re.escape(reason)):
        regular(pattern)
    with pytest.raises(BackgroundError, match=re.escape(reason)):
        matching(pattern)


def test_repeats_of_repeats_meet_a_limit_at_once() -> None:
    for pattern in ("(a{1,1000}){1,1000}", "(((a{1,1000}){1,1000}){1,1000})*", "((((ab|c){99}){99}){99}){99}"):
        with pytest.raises(BackgroundError, match="more than 100,000 characters"):
            regular(pattern)


A, B, C = letter("a"), letter("b"), letter("c")


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("a", A),
        ("a b", A + B),
        ("a b | c", (A + B) | C),
        ("a (b|c)*", Concatenation((A, (B | C).repeated()))),
        ("( a )<0.5> b*<0.25>", Concatenation((A.weighted(0.5), B.repeated(again=0.25)))),
        ("a+<0.5>", Concatenation((A, A.repeated(again=0.5)))),
        ("a?", Alternation((A, NOTHING))),
        ("a?<0.5>", Alternation((A.weighted(0.5), NOTHING))),
        ("( )", NOTHING),
        ("(|a)", Alternation((NOTHING, A))),
        ('"(" /[a-z]+/ "|" "<0.3>"', Concatenation((letter("("), matching("[a-z]+"), letter("|"), letter("<0.3>")))),
        (r'"a\"b\\" /a\/b/', Concatenation((letter('a"b\\'), matching("a/b")))),
        (
            "<name> and/or don't 5\" a<b>c",
            Concatenation(tuple(map(letter, ["<name>", "and/or", "don't", '5"', "a<b>c"]))),
        ),
        ("a<2>b< 1e-3 >", Concatenation((A.weighted(2.0), B.weighted(0.001)))),
        ("a\n\tb", A + B),
        ('"new york"', letter("new york")),
    ],
)
def test_expressions_over_symbols(text: str, expression: Expression) -> None:
    assert symbolic(text) == expression


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "found nothing"),
        ("  ", 3, "found nothing"),
        ("a (b", 3, "'(' is not closed"),
        ("a ) b", 3, "closes no group"),
        ("a | * b", 5, "nothing before this *"),
        ("<0.5> a", 1, "nothing before <0.5> to weigh"),
        ("a <0>", 3, "above 0 and finite"),
        ("a <-1>", 3, "above 0 and finite"),
        ("a *<1e999>", 4, "above 0 and finite"),
        ("a <1.2.3>", 3, "is no number"),
        ("ab /[/ c", 4, "no regular expression"),
        ("ab /c", 4, "is not closed"),
        ('ab "c', 4, "is not closed"),
        ('ab ""', 4, "one character or more"),
        ("(" * 101 + "a" + ")" * 101, 101, "more than 100 groups"),
    ],
)
def test_wrong_expressions_over_symbols_are_refused_at_their_column(text: str, column: int, reason: str) -> None:
    with pytest.raises(BackgroundError, match=f"wrong at column {column}: .*{re.escape(reason)}"):
        symbolic(text)


@given(st.text('ab ()|*+?<>0.5"/\\', max_size=12))
@settings(max_examples=draws(100))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    for parse in (symbolic, regular):
        try:
            expression = parse(text)
        except BackgroundError:
            continue
        assert shown(expression)
        compiled(expression, columns_of(expression, ["a", "b"], "symbols"), weighted=False)
