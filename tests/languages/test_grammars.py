"""Grammars as backgrounds, against all strings up to length 8, and against lark's own parser."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lark.load_grammar import load_grammar

import llrnn
from brute_grammars import Drawn, Oracle, grammars
from llrnn import backgrounds, features
from llrnn.ground.errors import BackgroundError, ZeroMassError
from llrnn.knowledge.backgrounds import Grammar
from llrnn.knowledge.backgrounds.constraint import At
from llrnn.languages.grammars import context_free as rules
from llrnn.languages.grammars.automaton import LetterColumns, derived, reachable
from llrnn.languages.grammars.context_free import ContextFree
from llrnn.languages.grammars.expressions import atoms_of
from llrnn.languages.grammars.finite import TerminalAutomaton
from llrnn.languages.grammars.notation import _size, regular
from llrnn.model.decode import Sampling, generate
from llrnn.text.vocabulary import EOS, Vocabulary
from strategies import draws

AB = Vocabulary([EOS, "a", "b"])
LONGEST = 8
SUMS = """
start: start "+" term -> sum | term
term: "(" start ")" -> group | NUMBER
NUMBER: /[0-9]/
"""


def at(grammar: Grammar, words: object, vocabulary: Vocabulary = AB) -> At:
    state: At = grammar.initial()
    for word in words:  # type: ignore[attr-defined]
        state = grammar.advance(state, vocabulary.id(word))
    return state


def row(grammar: Grammar, words: object, vocabulary: Vocabulary = AB) -> dict[str, float]:
    b = grammar.prior([at(grammar, words, vocabulary)]).dense(1).log_b[0].exp().tolist()
    return dict(zip(vocabulary.symbols, b, strict=True))


@given(grammars())
@settings(max_examples=draws(30))
def test_weights_are_those_of_all_strings(drawn: Drawn) -> None:
    oracle = Oracle(drawn, LONGEST)
    grammar = Grammar(drawn.text, weights=drawn.weights).bind(AB)
    for string in oracle.strings():
        whole = oracle.prefix_probability(string)
        if whole < 1e-12 or len(string) == LONGEST:
            continue
        found = row(grammar, string)
        assert found[EOS] * whole == pytest.approx(oracle.probability(string), rel=1e-7, abs=1e-13)
        for letter in "ab":
            ahead = oracle.prefix_probability((*string, letter))
            assert found[letter] * whole == pytest.approx(ahead, rel=1e-7, abs=1e-13)
        assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)


RARE = Drawn(
    (
        ("start", (), 0.1),
        ("start", ("x", "y"), 0.1),
        ("start", ("a",), 1.0),
        ("x", (), 0.1),
        ("x", ("a",), 1.0),
        ("y", ("start", "a"), 0.1),
        ("y", ("b",), 1.0),
    )
)


def test_the_oracle_knows_rare_strings_and_sums_that_are_known() -> None:
    """A weight of 5e-25 is not 0; and grammars whose sums can be done by hand."""
    rare = tuple("baaaaaaa")
    assert 0.0 < Oracle(RARE, LONGEST).probability(rare) < 1e-24
    assert Oracle(RARE, LONGEST).prefix_probability(("b", "b")) == 0.0
    for p in (Fraction(1, 10), Fraction(3, 10), Fraction(2, 5)):  # S → S S | a: Z = 1, p(aⁿ) = Catalan · pⁿ⁻¹ (1 − p)ⁿ
        oracle = Oracle(Drawn((("start", ("start", "start"), float(p)), ("start", ("a",), float(1 - p)))), LONGEST)
        assert oracle.Z["start"] == pytest.approx(1.0, rel=1e-15)
        for n in range(1, LONGEST + 1):
            trees = math.comb(2 * n - 2, n - 1) // n
            wanted = trees * float(p ** (n - 1) * (1 - p) ** n)
            assert oracle.probability(("a",) * n) == pytest.approx(wanted, rel=1e-13)
            shorter = sum(oracle.probability(("a",) * m) for m in range(1, n))
            assert oracle.prefix_probability(("a",) * n) == pytest.approx(1.0 - shorter, rel=1e-12)
    # S → S | a | ε: every string in infinitely many ways
    cyclic = Oracle(Drawn((("start", ("start",), 1.0), ("start", ("a",), 1.0), ("start", (), 2.0))), LONGEST)
    assert cyclic.probability(()) == pytest.approx(2 / 3, rel=1e-15)
    assert cyclic.probability(("a",)) == pytest.approx(1 / 3, rel=1e-15)


@given(grammars())
@example(RARE)
@settings(max_examples=draws(30))
def test_what_is_allowed_is_what_can_be_completed(drawn: Drawn) -> None:
    oracle = Oracle(drawn, LONGEST)
    grammar = Grammar(drawn.text).bind(AB)
    for string in oracle.strings():
        state = at(grammar, string)
        assert (state.node is not None) == (oracle.prefix_probability(string) > 0)
        if state.node is None or len(string) == LONGEST:
            continue
        allowed = set(grammar.allowed(state))
        assert (EOS in allowed) == (oracle.probability(string) > 0)
        assert allowed - {EOS} == {x for x in "ab" if oracle.prefix_probability((*string, x)) > 0}


PIECES = ["".join(letters) for n in range(1, 5) for letters in product("ab", repeat=n)]
TOKENS = Vocabulary([EOS, *PIECES])


def assert_allows_what_can_be_completed(drawn: Drawn) -> None:
    """Symbols of up to four letters after strings of up to four."""
    oracle = Oracle(drawn, LONGEST)
    grammar = Grammar(drawn.text, over="characters").bind(TOKENS)
    for string in oracle.strings():
        state = at(grammar, string, TOKENS)
        if state.node is None or len(string) > LONGEST - 4:
            continue
        pieces = {piece for piece in PIECES if oracle.prefix_probability((*string, *piece)) > 0}
        assert set(grammar.allowed(state)) == pieces | ({EOS} if oracle.probability(string) > 0 else set())


@given(grammars())
@example(RARE)
@settings(max_examples=draws(30))
def test_symbols_of_several_letters_are_allowed_where_they_can_be_completed(drawn: Drawn) -> None:
    assert_allows_what_can_be_completed(drawn)


@given(grammars())
@settings(max_examples=draws(10))
def test_symbols_of_too_many_terminals_are_read_letter_by_letter(drawn: Drawn) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("llrnn.languages.grammars.context_free.MOST_TERMINALS", 1)
        assert_allows_what_can_be_completed(drawn)


@given(grammars())
@settings(max_examples=draws(10))
def test_summaries_are_bounded_and_forgetting_changes_nothing(drawn: Drawn) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("llrnn.languages.grammars.rows.MOST_SUMMARISED", 20)
        assert_allows_what_can_be_completed(drawn)


@pytest.mark.parametrize(
    ("pattern", "states"),
    [("(ab)+", 3), ("a|ba|bba", 4), ("a*b", 3), ("(a|b)*b(a|b)", 5), ("a{3}|b{3}|aab", 6), ("ab?a?", 4)],
)
def test_terminals_have_the_fewest_states(pattern: str, states: int) -> None:
    expression = regular(pattern)
    columns = LetterColumns(["a", "b"], atoms_of(expression, "characters"), "characters")
    terminal = TerminalAutomaton.of(expression, columns).minimised()
    assert len(terminal.ends) == states
    for letters in (letters for n in range(7) for letters in product("ab", repeat=n)):
        state: int | None = 0
        for letter in letters:
            state = None if state is None else terminal.moves[state].get(columns.column(letter))
        assert (state is not None and terminal.ends[state]) == bool(re.fullmatch(pattern, "".join(letters)))


@given(grammars(), st.integers(0, 7))
@settings(max_examples=draws(30))
def test_a_limit_of_length_keeps_what_fits_and_no_dead_end(drawn: Drawn, longest: int) -> None:
    oracle = Oracle(drawn, LONGEST)
    fits = [string for string in oracle.strings() if len(string) <= longest and oracle.probability(string) > 0]
    if not fits:
        with pytest.raises(BackgroundError, match="longest"):
            Grammar(drawn.text, longest=longest).bind(AB)
        return
    grammar = Grammar(drawn.text, longest=longest).bind(AB)
    prefixes = {string[:n] for string in fits for n in range(len(string) + 1)}
    for string in oracle.strings():
        state = at(grammar, string)
        assert (state.node is not None) == (string in prefixes)
        assert (grammar.objection(None, AB.ids(string)) is None) == (string in fits)


def test_a_hundred_thousand_samples_are_strings_and_as_frequent_as_they_should_be() -> None:
    drawn = Drawn(
        (
            ("start", ("start", "start"), 0.3),
            ("start", ("a", "start", "b"), 0.7),
            ("start", (), 0.5),
            ("start", ("a",), 1.0),
        )
    )
    oracle, n = Oracle(drawn, LONGEST), 100_000
    grammar = Grammar(drawn.text, weights=drawn.weights).bind(AB)
    found, rng = Counter[str](), random.Random(1)
    rows: dict[object, tuple[list[str], list[float]]] = {}
    for _ in range(n):
        state, string = at(grammar, ()), ""
        while True:
            if state.node not in rows:
                b = grammar.prior([state]).dense(1).log_b[0].exp().tolist()
                kept = [(word, p) for word, p in zip(AB.symbols, b, strict=True) if p > 0]
                rows[state.node] = [word for word, _ in kept], [p for _, p in kept]
            word = rng.choices(*rows[state.node])[0]
            if word == EOS:
                break
            string, state = string + word, grammar.advance(state, AB.id(word))
        found[string] += 1
    assert len(found) > 100
    short = [s for s in oracle.strings() if n * oracle.probability(s) >= 20]
    expected = [n * oracle.probability(s) for s in short]
    assert _chi_square([found["".join(s)] for s in short], expected, n) < 3.5
    shifted = [e * (1.0 if k % 2 else 0.95) for k, e in enumerate(expected)]
    assert _chi_square([found["".join(s)] for s in short], shifted, n) > 3.5  # the test can fail


def _chi_square(counts: list[int], expected: list[float], n: int) -> float:
    """How many standard deviations the statistic is above its mean; what is not listed is one cell more."""
    cells = [*zip(counts, expected, strict=True), (n - sum(counts), n - sum(expected))]
    statistic = sum((count - e) ** 2 / e for count, e in cells)
    degrees = len(cells) - 1
    return float((statistic - degrees) / (2 * degrees) ** 0.5)


def test_every_generated_and_decoded_text_is_a_string() -> None:
    symbols = Vocabulary([EOS, "(", ")", "+", *"0123456789"])
    torch.manual_seed(0)
    model = llrnn.LLRNN(
        symbols, output_features=features.Identity(), background=Grammar(SUMS, longest=20), controller=llrnn.LSTM(8)
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    parser = _lark(SUMS)
    drawn = generate(model, count=2000, strategy=Sampling(), generator=torch.Generator().manual_seed(0))
    hot = generate(model, count=200, strategy=Sampling(temperature=3.0), generator=torch.Generator().manual_seed(0))
    for found in [*drawn, *hot, *generate(model, beam=8, count=8), *generate(model, greedy=True)]:
        assert found.finished
        assert len(found.words) <= 20
        parser("".join(found.words))


def _lark(text: str):  # type: ignore[no-untyped-def]
    from lark import Lark

    return Lark(text, parser="earley", lexer="dynamic_complete").parse


JSON = r"""
start: value
?value: object | array | STRING | NUMBER | "true" | "null"
array: "[" [value ("," value)*] "]"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
STRING: /"([^"\\]|\\["\\n])*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?/
%ignore " "
"""
CHARACTERS = ['"', "\\", "n", "[", "]", "{", "}", ",", ":", "-", "0", "1", ".", "t", "r", "u", "e", "l", "␣", "x"]


@pytest.fixture(scope="module")
def json_grammar() -> Grammar:
    tokens = [
        *CHARACTERS,
        "true",
        "null",
        "tr",
        "ue",
        '"x',
        '":',
        '":␣',
        "}]",
        "]]",
        '","',
        "10",
        "0.",
        "␣␣",
        "{}",
        '\\"',
        "n\\",
    ]
    return Grammar(JSON, over="characters").bind(Vocabulary([EOS, *tokens]))


@given(st.data())
@settings(max_examples=draws(60))
def test_over_characters_what_is_whole_is_what_lark_parses(json_grammar: Grammar, data: st.DataObject) -> None:
    from lark.exceptions import LarkError

    vocabulary, state, text = json_grammar.vocabulary, json_grammar.initial(), ""
    for _ in range(data.draw(st.integers(0, 12))):
        allowed = [word for word in json_grammar.allowed(state) if word != EOS]
        if not allowed:
            break
        word = data.draw(st.sampled_from(sorted(allowed)))
        state, text = json_grammar.advance(state, vocabulary.id(word)), text + word.replace("␣", " ")
    try:
        _lark(JSON)(text)
        whole = True
    except LarkError:
        whole = False
    assert (EOS in json_grammar.allowed(state)) == whole, text


def test_symbols_of_several_characters_are_allowed_where_their_characters_are(json_grammar: Grammar) -> None:
    vocabulary = json_grammar.vocabulary
    rng = random.Random(0)
    for _ in range(60):
        state = json_grammar.initial()
        for _ in range(rng.randrange(12)):
            allowed = [word for word in json_grammar.allowed(state) if word != EOS]
            if not allowed:
                break
            state = json_grammar.advance(state, vocabulary.id(rng.choice(allowed)))
        following = set(json_grammar.allowed(state))
        for word in vocabulary.symbols[1:]:
            one_by_one = state
            for character in word:
                one_by_one = json_grammar.advance(one_by_one, vocabulary.id(character))
            assert (word in following) == (one_by_one.node is not None), word


def test_weights_of_longer_symbols_are_products() -> None:
    vocabulary = Vocabulary([EOS, "a", "b", "ab", "ba", "aab"])
    grammar = Grammar('start: "a" start "b" | "ab" | "b"', over="characters", weights={"start/1": 0.3}).bind(vocabulary)
    for prefix in ["", "a", "aa", "aab"]:
        found = row(grammar, prefix, vocabulary)
        for word in ("ab", "ba", "aab"):
            expected, before = 1.0, prefix
            for letter in word:
                if expected > 0:
                    expected *= row(grammar, before, vocabulary)[letter]
                before += letter
            assert found[word] == pytest.approx(expected, abs=1e-12)


def test_nodes_are_shared_by_prefixes_that_go_on_alike() -> None:
    symbols = Vocabulary([EOS, "(", ")", "+", *"0123456789"])
    for weights in (None, {"sum": 0.4, "group": 0.3}):
        grammar = Grammar(SUMS, weights=weights).bind(symbols)
        assert at(grammar, "1+2", symbols).node is at(grammar, "7+(3+4)+9", symbols).node
        assert at(grammar, "(1+2", symbols).node is not at(grammar, "1+2", symbols).node


def test_a_terminal_that_the_vocabulary_lacks_is_no_way() -> None:
    grammar = Grammar('start: "a" | "b" "c" | "c" start').bind(AB)
    assert grammar.allowed(at(grammar, ())) == ["a"]
    with pytest.raises(BackgroundError, match=r"empty.*vocabulary.*'c'"):
        Grammar('start: "a" "c" | "c" start').bind(AB)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("start: a b\na: \"x\"", "Rule 'b' used but not defined"),
        ("start: x y\nx: \"a\"\ny: y \"b\"", "rule y .* derives no string"),
        ("start: start \"b\"", "language is empty"),
        ("start: \"a\"\nx: \"b\"", "rule x .* useless"),
        ("begin: \"a\"", "no rule 'start'"),
        ("start: WS\n%import commo.WS", "lark does not have: commo.lark"),
        ("start: (\"a\"", "line 1, column"),
        ("start: X\nX: /a*/", "X .* empty string"),
        ("start: X\nX: /[/", "X .* is wrong at column 1"),
        ("start: " + "(\"a\"|\"b\")" * 40, "more than 20000 alternatives"),
        ("start: " + "(\"a\" [\"b\"])" * 40, "more than 20000 alternatives"),
        ("start: (((\"la\"~40)~40)~40)~40", "more than 20000 alternatives, or 50000 symbols in them"),
        ("start: (" + "|".join(f"\"w{n}\"" for n in range(100)) + ")~125", "50000 symbols in them"),
        ("start: ((\"a\"|\"b\")~30 \"c\")+", "50000 symbols in them"),
        ("start: \"a\"~" + "9" * 5000, "repeats too often"),
        ("start: f{\"a\"}\nf{x}: f{f{x}} | x", "the template f .* ever new arguments, more than 1000 times"),
        ("start: f{\"a\"}\nf{x}: f{g{x,x}} | x\ng{x,y}: x y", "in a name of more than 1000 characters"),
        ("start: X\nX: (((\"la\"~40)~40)~40)~40", "terminal X .* more than 100,000 characters"),
    ],
)  # fmt: skip
def test_bad_grammars_are_refused_with_the_rule(text: str, reason: str) -> None:
    with pytest.raises(BackgroundError, match=reason):
        Grammar(text)


@pytest.mark.parametrize(
    "repeated",
    [
        '"a"~7', '"a"~0..40', '("a"|"b")~3..5', '("a"|"b")~60', '("a" "b"?)~55..77', '"a"~0..10000', '(("a"~60)~60)~60',
        '("a"|"b" "a")*', '("a" ["b"])+ "b"?', '("a"|"b"|"a" "a")~1..60', '((("a"~40)~40)~2)~2', "sep{X, Y} sep{Y, X}",
    ],
)  # fmt: skip
def test_the_size_of_a_grammar_is_known_before_lark_writes_it_out(repeated: str) -> None:
    """What is counted is never less than what lark makes of it, and not much more."""
    with_template = 'sep{x,y}: x (y x)*\nX: "a"\nY: "b"\n' if "sep" in repeated else ""
    grammar, _ = load_grammar(f"start: {repeated}\n{with_template}", "text", [], False)  # type: ignore[no-untyped-call]
    counted = sum(_size(tree).whole for _, _, tree, _ in grammar.rule_defs)
    _, rules, _ = grammar.compile(["start"], "*")
    made = sum(1 + len(rule.expansion) for rule in rules)
    assert made <= (2 if "sep" in repeated else 1) * counted <= 6 * made + 40


def test_weights_must_be_of_alternatives() -> None:
    with pytest.raises(BackgroundError, match=r"'plus'.*sum, start/2"):
        Grammar(SUMS, weights={"plus": 1.0})
    with pytest.raises(BackgroundError, match="above 0"):
        Grammar(SUMS, weights={"sum": -1.0})


def test_a_regular_expression_that_needs_to_look_around_is_refused_over_characters() -> None:
    with pytest.raises(BackgroundError, match="terminal X"):
        Grammar("start: X\nX: /a(?=b)b/", over="characters")


def test_a_grammar_that_blows_up_hits_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "\n".join(f'y{k}: "a"' for k in range(3100))
    large = Grammar(f"start: {' '.join(f'y{k}' for k in range(3100))}\n{rules}")
    with pytest.raises(BackgroundError, match="at most"):
        large.bind(AB)
    monkeypatch.setattr("llrnn.languages.grammars.context_free.MOST_ITEMS", 50)
    ambiguous = Grammar('start: start start start | start start | "a"').bind(AB)
    with pytest.raises(BackgroundError, match="more than 50 items"):
        at(ambiguous, "a" * 60)


def test_what_is_remembered_is_bounded_and_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llrnn.languages.grammars.context_free.MOST_NODES", 20)
    text = 'start: "a" start "b" start | "b" "a" start | '
    small, large = Grammar(text, weights={"start/3": 2.0}).bind(AB), Grammar(text, weights={"start/3": 2.0}).bind(AB)
    monkeypatch.setattr("llrnn.languages.grammars.context_free.MOST_NODES", 10_000)
    for string in product("ab", repeat=7):
        expected = row(large, string) if at(large, string).node is not None else None
        monkeypatch.setattr("llrnn.languages.grammars.context_free.MOST_NODES", 20)
        found = row(small, string) if at(small, string).node is not None else None
        language = small.initial().reader.language
        assert isinstance(language, ContextFree)
        assert len(language._sets) <= 20
        monkeypatch.setattr("llrnn.languages.grammars.context_free.MOST_NODES", 10_000)
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert found == pytest.approx(expected, abs=1e-9)


def test_long_texts_do_not_exhaust_the_stack() -> None:
    grammar = Grammar('start: "a" start "b" | ', longest=20_000).bind(AB)
    state = at(grammar, "a" * 5000)
    assert grammar.allowed(at(grammar, "a" * 5000 + "b" * 4999)) == ["b"]
    assert state.reader.language.shortest(state.node) == 5000


def test_a_prefix_outside_the_language_is_refused_with_its_position() -> None:
    symbols = Vocabulary([EOS, "(", ")", "+", "1"])
    model = llrnn.LLRNN(
        symbols, output_features=features.Identity(), background=Grammar(SUMS), controller=llrnn.LSTM(4)
    )
    with pytest.raises(ZeroMassError, match=r"'\+' at position 3 .* allows there: \( 1"):
        generate(model, prefix="1 + +")


def test_training_text_outside_the_language_is_refused_with_its_place(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from llrnn.config import read_config
    from llrnn.config.project import Project

    (tmp_path / "sums.lark").write_text(SUMS)
    (tmp_path / "text.txt").write_text("1 + 2\n( 3 + 4 )\n1 + + 2\n")
    (tmp_path / "model.toml").write_text(
        f'kind = "softmax"\n[corpus]\ntrain = ["{tmp_path}/text.txt"]\n'
        f'[background]\nkind = "unigram"\ngrammar = {{ file = "{tmp_path}/sums.lark" }}\n'
    )
    with pytest.raises(ZeroMassError, match=r"text.txt:3.*'\+' at position 3"):
        Project.from_config(read_config(tmp_path / "model.toml")).model()


def test_it_composes_and_is_saved(tmp_path) -> None:  # type: ignore[no-untyped-def]
    symbols = Vocabulary([EOS, "(", ")", "+", "1", "2"], counts=[3, 1, 1, 2, 4, 1])
    b = backgrounds.Unigram(dict(zip(symbols.words, symbols.counts, strict=True))) * Grammar(
        SUMS, longest=9, name="sums"
    )
    model = llrnn.LLRNN(symbols, output_features=features.Identity(), background=b, controller=llrnn.LSTM(4))
    model.save(tmp_path / "m")
    loaded = llrnn.load(tmp_path / "m")
    assert repr(loaded.background) == repr(model.background)
    text = generate(loaded, count=20, generator=torch.Generator().manual_seed(0))
    assert [found.words for found in text] == [
        found.words for found in generate(model, count=20, generator=torch.Generator().manual_seed(0))
    ]


@given(
    st.lists(st.tuples(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=3)), max_size=12),
    st.sets(st.integers(0, 6)),
)
def test_what_follows_from_what_is_known(implications: list[tuple[int, list[int]]], known: set[int]) -> None:
    wanted = set(known)
    for _ in range(8):
        wanted |= {conclusion for conclusion, premises in implications if wanted.issuperset(premises)}
    assert derived(implications, known) == wanted


class Asked(int):
    """A number that counts how often it is looked up."""

    times = 0

    def __hash__(self) -> int:
        Asked.times += 1
        return int.__hash__(self)


def test_a_long_chain_is_followed_in_linear_time() -> None:
    """In the order in which every round over all rules would find one of them."""
    n = 2_000
    chain = [(Asked(i), [Asked(i + 1)]) for i in range(n)]
    Asked.times = 0
    assert len(derived(chain, [Asked(n)])) == n + 1
    assert Asked.times < 20 * n


@given(st.integers(0, 9), st.data())
def test_where_a_way_leads(n: int, data: st.DataObject) -> None:
    step = np.array(data.draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n)), dtype=np.bool_).reshape(n, n)
    wanted = np.linalg.matrix_power(np.eye(n) + step, max(n, 1)) > 0
    assert np.array_equal(reachable(step), wanted.astype(float))


def test_a_chain_of_two_thousand_rules_makes_no_table_of_all_pairs_of_lengths() -> None:
    n = 2_000
    text = "start: r0\n" + "".join(f'r{i}: r{i + 1} "a"\n' for i in range(n)) + f'r{n}: "b"\n'
    grammar = Grammar(text, longest=n + 5).bind(AB)
    language = grammar.initial().reader.language
    assert isinstance(language, ContextFree)
    assert grammar.allowed(at(grammar, "")) == ["b"]
    assert grammar.allowed(at(grammar, "baa")) == ["a"]
    assert language.shortest(language.root) == n + 1
    caches: list[Any] = [language.lengths._corner, language.rules.chain]
    assert sum(function.cache_info().currsize for function in caches) < 20


def test_empty_symbols_in_a_row_meet_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_TAILS", 100)
    assert Grammar("start: " + 'x "a" ' * 30 + '\nx: | "b"').bind(AB)
    with pytest.raises(BackgroundError, match="more than 100 pairs of them may follow each other"):
        Grammar("start: " + "x " * 30 + '\nx: | "b"').bind(AB)


def test_a_thousand_rules_end_at_once() -> None:
    """Right recursion: the last letter completes them all, deeper than Python calls itself."""
    grammar = Grammar('start: "a" start | "b"').bind(AB)
    assert row(grammar, ["a"] * 3_000) == {EOS: 0.0, "a": 1.0, "b": 1.0}
    assert row(grammar, [*["a"] * 3_000, "b"]) == {EOS: 1.0, "a": 0.0, "b": 0.0}


def test_refusals_name_the_file_and_are_short(tmp_path: Path) -> None:
    file = tmp_path / "own.lark"
    for text in (
        'start: "' + "z" * 9000 + '"',
        "\n".join(f'r{i}: "a"' for i in range(3000)),
        "start: /" + "(" * 9000 + "/",
    ):
        file.write_text(text, encoding="utf8")
        with pytest.raises(BackgroundError, match=r"own\.lark") as found:
            Grammar.from_file(file).bind(Vocabulary(["a", EOS]))
        assert len(str(found.value)) < 700
