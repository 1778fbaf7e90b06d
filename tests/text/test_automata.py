"""Automata: patterns against `re`, operations against their definitions, witnesses and counts against enumeration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llrnn.ground.errors import DomainError
from llrnn.languages.grammars import pattern
from llrnn.text.automata import (
    DFA,
    KINDS,
    Alphabet,
    anything,
    check_string,
    first_of,
    kind,
    of_kind,
    partition,
    permitted,
)
from strategies import draws

ALPHABET = "abB1- "
# ours, and what Python says, which has no kinds, of an alphabet without other characters
PATTERNS = {
    "ab|B": "ab|B",
    "(a|b)*": "(a|b)*",
    "(a|b*)*1?": "(a|b*)*1?",
    "a+b?(1|-)*": "a+b?(1|-)*",
    "[a-b1]{2,3}": "[a-b1]{2,3}",
    "[^ab]+": "[^ab]+",
    "(ab){2,}B": "(ab){2,}B",
    "a{2}(b{0,2}){2}": "a{2}(b{0,2}){2}",
    ".*b.": ".*b.",
    "(a|)b(|1)": "(a|)b(|1)",
    r"\p{lower}+\p{upper}?\p{sign}[0-9]*": r"[a-z]+[A-Z]?-[0-9]*",
    r"[\p{lower}\s]*[^\p{lower}\s]": r"[a-z ]*[^a-z ]",
    r"(a\p{lower}|\p{lower}b)\-?": r"(a[a-z]|[a-z]b)-?",
    r"[-a]\d": r"[-a][0-9]",
    r"\P{lower}\S?\D+": r"[^a-z][^ ]?[^0-9]+",
    r"(?x) [ab]+?  # a comment": "[ab]+",
    "((a*b)*1){0,2}B*": "((a*b)*1){0,2}B*",
    "a (b )*B": "a (b )*B",
}
ENDLESS_SPACES = tuple(c for c in map(chr, range(0x110000)) if c.isspace() and permitted(c))

texts = st.text(ALPHABET, max_size=9)
patterns = st.sampled_from(sorted(PATTERNS))


def short_strings(alphabet: str, longest: int) -> Iterator[str]:
    """Shortest first, then in the order of characters."""
    for length in range(longest + 1):
        yield from map("".join, product(sorted(alphabet), repeat=length))


SHORT = list(short_strings(ALPHABET, 5))
SYMBOLS = [string for string in SHORT if check_string(string) is None]


def held(automaton: DFA) -> dict[str, int]:
    labels = automaton.label_all(SHORT).tolist()
    return {string: label for string, label in zip(SHORT, labels, strict=True) if label >= 0}


def same(a: DFA, b: DFA) -> bool:
    return a.characters == b.characters and np.array_equal(a.moves, b.moves) and np.array_equal(a.labels, b.labels)


# --- characters ---


@pytest.mark.parametrize(
    ("characters", "name"),
    [
        ("aéßñªש中ー\u0301ﬁ", "lowercase"),  # caseless letters and marks too
        ("AÉǅ", "uppercase"),
        ("07٣९", "digit"),
        (" \t\xa0\u3000\n", "space"),
        ("-!_$²½Ⅷ\x00\U0001f600\u1e9e", "sign"),  # U+1E9E is a letter since Unicode 5.1 only
    ],
)
def test_kinds(characters: str, name: str) -> None:
    assert {character: KINDS[kind(character)] for character in characters} == dict.fromkeys(characters, name)


def test_all_of_a_kind_are_those_of_which_kind_says_so() -> None:
    found = {code: number for number in range(len(KINDS)) for code in of_kind(number).tolist()}
    for code in [*range(0x3000), *range(0x3000, 0x110000, 7)]:
        assert found.get(code) == (kind(chr(code)) if permitted(chr(code)) else None)


def test_permitted_is_what_splitlines_and_utf8_say() -> None:
    for character in map(chr, range(0x110000)):
        breaks = len(f"a{character}a".splitlines()) > 1
        assert permitted(character) == (not breaks and not 0xD800 <= ord(character) <= 0xDFFF)


@pytest.mark.parametrize(
    ("string", "reason"),
    [
        ("", "empty"),
        ("a\nb", "line break"),
        ("a\u2028", "line break"),
        ("a\ud800", "surrogate"),
        (" a", "white space"),
        ("a\xa0", "white space"),
    ],
)
def test_strings_that_can_be_no_symbols(string: str, reason: str) -> None:
    assert reason in (check_string(string) or "")


@given(st.text(st.sampled_from("a \t\x1f\n\x85\ud800-É"), max_size=6))
def test_anything_holds_what_check_string_accepts(string: str) -> None:
    assert (anything().label(string) == 0) == (check_string(string) is None)


# --- patterns ---


@pytest.mark.parametrize("ours", PATTERNS)
def test_patterns_agree_with_re_on_all_short_strings(ours: str) -> None:
    expected = {s for s in SYMBOLS if re.fullmatch(PATTERNS[ours], s)}
    assert expected, "a pattern that matches no short string tests nothing"
    assert set(held(pattern(ours))) == expected


@settings(max_examples=draws(100))
@given(patterns, texts)
def test_patterns_agree_with_re(ours: str, string: str) -> None:
    expected = check_string(string) is None and re.fullmatch(PATTERNS[ours], string) is not None
    assert (pattern(ours).label(string) == 0) == expected


def test_characters_that_the_pattern_does_not_name_move_by_their_kind() -> None:
    word = pattern(r"a\p{lower}*(\p{upper}|é)?")
    assert [word.label(s) for s in ("aça", "aשÉ", "aé", "açé", "ça", "aÉÉ", "a1")] == [0, 0, 0, 0, -1, -1, -1]
    assert [pattern("[0-9]").label(s) for s in "7٣"] == [0, -1]
    assert [pattern(r"\d").label(s) for s in "7٣"] == [0, 0]
    assert [pattern("[^0-9]").label(s) for s in "7٣a"] == [-1, 0, 0]
    assert [pattern(r"[^\D7]").label(s) for s in "7٣a"] == [-1, 0, -1]
    assert [pattern(r"a\sb").label(s) for s in ("a b", "a\tb", "a\nb", "a-b")] == [0, 0, -1, -1]
    assert pattern("[\x80-\x90]").characters == tuple(c for c in map(chr, range(0x80, 0x91)) if c != "\x85")


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("a)", 2, "unbalanced parenthesis"),
        ("b(a", 2, "missing ), unterminated subpattern"),
        ("[a", 1, "unterminated character set"),
        ("x[]", 2, "unterminated character set"),
        ("[^]", 1, "unterminated character set"),
        ("*a", 1, "nothing to repeat"),
        ("a|+", 3, "nothing to repeat"),
        ("a+*", 3, "multiple repeat"),
        ("a{3,2}", 3, "min repeat greater than max repeat"),
        ("a\\", 2, "bad escape (end of pattern)"),
        ("\\l", 1, "bad escape"),
        (r"\p{lower}\p{other}", 10, r"bad escape \p"),
        ("[z-a]", 2, "bad character range"),
        (r"[\p{lower}\p{upper}](", 21, "unterminated subpattern"),
    ],
)
def test_wrong_patterns_are_refused_with_their_column(text: str, column: int, reason: str) -> None:
    with pytest.raises(DomainError, match=re.escape(f"at column {column}: ") + f".*{re.escape(reason)}"):
        pattern(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("^a", "an anchor"),
        ("a$", "an anchor"),
        (r"(a)\1", "back-reference"),
        ("a\nb", "never permitted"),
        ("(?i)a", "write"),
        (r"\w", "write"),
        ("[\u4e00-\u9fff]", "512"),
        ("a{1001}", "more than 1,000 times"),
        ("a{99999999999999999999}", "repeats too often"),
        ("(" * 101 + "a" + ")" * 101, "deep"),
    ],
)
def test_patterns_that_a_domain_cannot_have_are_refused(text: str, reason: str) -> None:
    with pytest.raises(DomainError, match=re.escape(reason)):
        pattern(text)


@pytest.mark.parametrize(
    "text", ["(a{200}){100}", "((a{64}){64}){64}", "(((((){64}){64}){64}){64}){64}", "(a|b)*a(a|b){20}"]
)
def test_patterns_of_too_many_states_are_refused(text: str) -> None:
    with pytest.raises(DomainError, match=r"more than (10000 states|100,000 characters)"):
        pattern(text)


@given(st.lists(st.sampled_from([*"ab(|)*[^]-{1,2}\\.?", r"\p{lower}"]), max_size=12).map("".join))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        automaton = pattern(text)
    except DomainError:
        return
    found = automaton.witness()
    assert found is None or (automaton.label(found) == 0 and check_string(found) is None)


# --- operations ---


@given(patterns, patterns, texts)
def test_products_by_their_definitions(one: str, other: str, string: str) -> None:
    a, b = pattern(one), pattern(other)
    in_a, in_b = a.label(string) == 0, b.label(string) == 0
    assert (a.both(b).label(string) == 0) == (a & b).label(string) + 1 == (in_a and in_b)
    assert (a.minus(b).label(string) == 0) == (in_a and not in_b)
    assert a.product(b, lambda x, y: 2 * (x + 1) + y + 1).label(string) == 2 * in_a + in_b
    assert first_of([a, b]).label(string) == (0 if in_a else 1 if in_b else -1)


def test_products_keep_labels() -> None:
    cells = first_of([pattern("a"), pattern("b"), pattern(r"\p{lower}")])
    assert held(cells) == {"a": 0, "b": 1}
    assert cells.label("z") == 2
    assert held(cells & pattern("[bB]")) == {"b": 1}
    assert held(cells.minus(pattern("a"))) == {"b": 1}
    assert held(first_of([pattern("[xa]"), cells])) == {"a": 0, "b": 1}
    assert held(first_of([])) == {}


@given(patterns, st.sets(st.sampled_from("abzé٣ \t!"), max_size=4), st.text("abzéB٣ \t!-", max_size=6))
def test_refined_gives_the_same_answers(ours: str, characters: set[str], string: str) -> None:
    automaton = pattern(ours)
    refined = automaton.refined(characters)
    assert set(refined.characters) == {*automaton.characters, *characters}
    assert refined.label(string) == automaton.label(string)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("(a|b)*", "(a*b*)*"),
        ("a{2,}b?", "aa+|aaa*b"),
        (r"[ab]\p{lower}", r"(a|b)(a|b|[^\p{upper}\d\s\p{sign}ab])"),
        ("(ab|ab)*a", "a(ba)*"),
    ],
)
def test_minimised_is_canonical(one: str, other: str) -> None:
    assert same(pattern(one), pattern(other))
    assert not same(pattern(one), pattern(other + "b"))


@given(patterns, st.randoms(use_true_random=False))
def test_minimised_forgets_how_states_were_numbered_and_doubled(ours: str, random: Any) -> None:
    automaton = pattern(ours)
    n = len(automaton.labels)
    doubled = np.vstack([automaton.moves, automaton.moves])
    doubled = doubled + n * np.array([[random.randrange(2) for _ in row] for row in doubled])
    place = [0, *random.sample(range(1, 2 * n), 2 * n - 1)]
    moves, labels = np.empty_like(doubled), np.empty(2 * n, dtype=np.int64)
    moves[place] = np.array(place)[doubled]
    labels[place] = np.tile(automaton.labels, 2)
    assert same(DFA(automaton.characters, moves, labels).minimised(), automaton)


def test_minimised_has_no_two_states_that_answer_alike() -> None:
    for ours in PATTERNS:
        automaton = pattern(ours).refined(ALPHABET)
        n = len(automaton.labels)
        starts = [(np.roll(np.arange(n), -s), np.roll(np.arange(n), s)) for s in range(n)]  # state s becomes 0
        answers = {
            tuple(DFA(automaton.characters, to[automaton.moves[old]], automaton.labels[old]).label_all(SHORT))
            for old, to in starts
        }
        assert len(answers) == n


@given(patterns, st.lists(st.text(st.sampled_from("abB1- é٣\n\ud800"), max_size=12), max_size=20))
def test_label_all_is_label_of_each(ours: str, strings: list[str]) -> None:
    cells = first_of([pattern(ours), pattern("[^a]*"), pattern(".*")])
    assert cells.label_all(strings).tolist() == [cells.label(string) for string in strings]


def test_strings_with_forbidden_characters_are_outside_everywhere() -> None:
    everything = DFA((), np.zeros((1, len(KINDS)), dtype=np.int64), np.array([0]))
    strings = ["", "a", "a\n", "\ud800b", "a b"]
    assert [everything.label(s) for s in strings] == everything.label_all(strings).tolist() == [0, 0, -1, -1, 0]


# --- witnesses, counts, lists ---


@pytest.mark.parametrize("ours", PATTERNS)
def test_witness_is_a_shortest_string(ours: str) -> None:
    automaton = pattern(ours)
    found = automaton.witness()
    assert found is not None
    assert automaton.label(found) == 0
    assert len(found) == min(map(len, held(automaton)))
    assert found == pattern(ours).witness(0) == automaton.witness(0)
    assert automaton.witness(1) is None


def test_witness_of_a_label_and_of_none() -> None:
    cells = first_of([pattern("aaa"), pattern("bb"), pattern(r"\p{lower}\p{upper}\d \p{sign}")])
    assert [cells.witness(label) for label in (0, 1, 2, 3)] == ["aaa", "bb", "aA0 -", None]
    assert cells.witness() == "bb"
    assert (pattern("a*") & pattern("b*")).witness() is None


def test_witness_takes_characters_that_are_not_told_apart() -> None:
    letter = pattern(r"\p{lower}").minus(pattern("[a-y]")).minus(pattern("z"))
    found = letter.witness()
    assert found is not None
    assert letter.label(found) == 0
    assert kind(found) == KINDS.index("lowercase")
    assert not "a" <= found <= "z"


def spaced() -> DFA:
    """`a b` with some white space, where every white space is told apart."""
    return pattern(r"a\sb").refined(ENDLESS_SPACES)


def test_a_kind_without_characters_is_no_way() -> None:
    spaces = pattern("a(" + "|".join("\\" + space for space in ENDLESS_SPACES) + ")b")
    assert spaces.characters == tuple(sorted({"a", "b", *ENDLESS_SPACES}))
    assert spaced().minus(spaces).witness() is None
    assert same(spaced().minimised(), spaces)  # what an empty column does is no part of the answers
    assert spaced().count(0) == len(ENDLESS_SPACES)
    assert pattern(r"a\sb").count(0) is None
    assert pattern(r"a\sb").refined(ENDLESS_SPACES[1:]).count(0) is None
    moves = np.zeros((2, len(ENDLESS_SPACES) + len(KINDS)), dtype=np.int64)
    moves[0, len(ENDLESS_SPACES) + KINDS.index("space")] = 1  # the only way to state 1, and no character takes it
    lost = DFA(ENDLESS_SPACES, moves, np.array([-1, 0]))
    assert (lost.witness(), lost.count(0), lost.minimised().labels.tolist()) == (None, 0, [-1])


@pytest.mark.parametrize(
    "ours",
    [
        "ab|B",
        "[a-b1]{2,3}",
        "(a|ab)(b|bb)?",
        "(a|)b(|1)",
        "a{2}(b{0,2}){1}",
        r"[^\p{lower}\p{upper}\d\s\p{sign}]",
        "a( |b)*B&a.B",
    ],
)
def test_count_and_strings_against_enumeration(ours: str) -> None:
    automaton = anything()
    for part in ours.split("&"):
        automaton = automaton & pattern(part)
    expected = [string for string, label in held(automaton).items() if label == 0]
    assert automaton.count(0) == len(expected)
    assert automaton.strings(0, 1000) == expected
    assert automaton.strings(0, len(expected) - 1) is None
    assert automaton.strings(1, 0) == []
    assert automaton.count(1) == 0


@pytest.mark.parametrize("ours", ["a*", "(ab)+B", ".", r"a\p{lower}", "[^a]"])
def test_count_without_bound(ours: str) -> None:
    assert pattern(ours).count(0) is None
    assert pattern(ours).count(1) == 0
    assert pattern(ours).strings(0, 5) is None


def test_counts_are_exact_and_lists_do_not_enumerate_in_vain() -> None:
    many = pattern("[ab]{64}")
    assert many.count(0) == 2**64
    assert many.strings(0, 2) is None


def test_a_cycle_that_leads_nowhere_does_not_matter() -> None:
    cells = first_of([pattern("b"), pattern("a+")])
    assert (cells.count(0), cells.count(1), cells.count(-1)) == (1, None, None)


# --- partitions ---


def test_partition_labels_cells_in_order() -> None:
    cells = {"name": pattern(r"\p{upper}\p{lower}*"), "word": pattern(r"\p{lower}+")}
    sorted_ = partition(cells)
    assert [sorted_.label(s) for s in ("Zoé", "zoé", "zoÉ", "")] == [0, 1, -1, -1]
    assert held(partition({})) == {}


def test_cells_that_overlap_are_refused_with_both_names_and_a_string() -> None:
    cells = {"number": pattern("[0-9]+"), "word": pattern(r"\p{lower}+"), "end": pattern("x?[yz]")}
    with pytest.raises(DomainError, match="'word' and 'end' both hold 'y'"):
        partition(cells)


# --- plain data ---


@pytest.mark.parametrize("ours", PATTERNS)
def test_described_comes_back(ours: str) -> None:
    automaton = pattern(ours)
    assert same(DFA.restored(json.loads(json.dumps(automaton.described()))), automaton)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"characters": ["b", "a"]}, "sorted"),
        ({"characters": ["a", "a"]}, "distinct"),
        ({"characters": ["a", "bc"]}, "single"),
        ({"characters": ["\n", "b"]}, "line breaks"),
        ({"characters": ["a"]}, "required"),
        ({"characters": ["a", 1]}, "texts"),
        ({"characters": None}, "as lists"),
        ({"moves": [[0] * 7]}, "required"),
        ({"moves": [[0] * 7, [0] * 6]}, "as lists"),
        ({"moves": [[0] * 7, [2] * 7]}, "0 to 1, found 2"),
        ({"moves": [[0] * 7, [-1] * 7]}, "0 to 1, found -1"),
        ({"moves": [[0.5] * 7, [0] * 7]}, "whole numbers"),
        ({"labels": [0, -2]}, "-2"),
        ({"labels": [[0], [0]]}, "one list"),
        ({"labels": 0}, "one list"),
        ({"labels": ["a", "b"]}, "whole numbers"),
        ({"labels": []}, "whole numbers"),
    ],
)
def test_altered_data_is_refused(change: dict[str, Any], reason: str) -> None:
    data = {"characters": ["a", "b"], "moves": [[1] * 7, [0] * 7], "labels": [0, -1]}
    assert DFA.restored(data).label("a") == -1
    with pytest.raises(DomainError, match=reason):
        DFA.restored(data | change)


def test_missing_data_is_refused() -> None:
    with pytest.raises(DomainError, match="moves"):
        DFA.restored({"characters": []})


def test_what_is_drawn_of_a_class_can_be_printed() -> None:
    alphabet, rng = Alphabet("ab"), np.random.default_rng(0)
    drawn = [alphabet.draw(column, rng) for column in range(2, len(alphabet)) for _ in range(50)]
    assert {one.isprintable() for one in drawn if not one.isspace()} == {True}
