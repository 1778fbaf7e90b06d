"""Domains: every sum over infinitely many strings against brute force on the short ones and a bound for the rest."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from helpers import small_corpus
from llrnn import EOS, LLRNN, Lexicon, Vocabulary, backgrounds, features
from llrnn.ground.arrays import Floats, Ints
from llrnn.ground.errors import BackgroundError, DomainError, FeatureError, LawError, VocabularyError
from llrnn.knowledge.features import Features, compile_features
from llrnn.languages.domains import Names, Numbers, Regular, Spelling, restore
from llrnn.languages.domains.spelling import CharacterModel, LengthRanges
from llrnn.languages.grammars import pattern
from llrnn.model.controllers import GRU
from llrnn.model.testing import check_domain
from llrnn.text.automata import DFA, of_kind
from llrnn.text.vocabulary import Cell, Domain, disjoint, log_mass_left
from strategies import QUICK, draws

LANGUAGES = ("fr", "en", "et", "tr")
GAZETTEER = {"paris": ["Geo:city"], "lyon": ["Geo:city"], "seine": ["Geo:river"], "zzyx-3": [], "le": ["Odd:yes"]}


@cache
def types() -> tuple[str, ...]:
    return tuple(sorted(word for word in small_corpus().counts() if word.isalpha()))


@cache
def numbers(language: str) -> Numbers:
    return Numbers(language)


@cache
def spelling(*, cells: bool = True) -> Spelling:
    return Spelling(types(), order=3, endings=4, longest=2, lengths=(4,), cells=cells)


def colours() -> Regular:
    """Own patterns, kinds among the weights, a finite cell and one without mass."""
    patterns = {
        "hex": "#[0-9a-f]{3}",
        "named": r"\p{lower}+",
        "shouted": r"\p{upper}{1,4}",
        "never": "&+",
        "two": "#|##",
    }
    weights = dict.fromkeys("0123456789abcdef", 0.05) | {"#": 0.3, "lowercase": 0.1, "uppercase": 0.9}
    return Regular(patterns, weights, log_scale={"hex": -3.0}, attributes={"hex": ["Colour:hex"]}, name="colour")


DOMAINS: dict[str, Callable[[], Domain]] = {
    **{f"numbers {language}": lambda language=language: numbers(language) for language in LANGUAGES},  # type: ignore[misc]
    "counted numbers": lambda: numbers("fr").counted({"1984": 3, "7": 5, "chat": 9}),
    "own patterns": colours,
    "spelling": spelling,
    "one cell": lambda: spelling(cells=False),
    "names": lambda: Names(GAZETTEER, spelling(), weights={"paris": 5.0}, share=0.3),
    "names in one cell": lambda: Names(GAZETTEER, spelling(cells=False)),
    "spelling without numbers": lambda: spelling().without(numbers("fr").language),
    "names without numbers": lambda: Names(GAZETTEER, spelling()).without(numbers("fr").language),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_the_librarys_domains_obey_the_laws(name: str) -> None:
    check_domain(
        DOMAINS[name](), draws=150, members=name not in ("numbers en", "numbers et", "numbers tr", "counted numbers")
    )


@pytest.mark.parametrize("name", ["own patterns", "spelling without numbers", "names"])
def test_draws_are_as_frequent_as_they_should_be(name: str) -> None:
    """Every string that is expected often enough, within six standard deviations."""
    domain, draws, compared = DOMAINS[name](), 10_000, 0
    for cell in np.flatnonzero(domain.log_mass > -np.inf)[:6].tolist():
        counts = Counter(domain.draw(cell, draws, np.random.default_rng(cell)))
        p = np.exp(domain.locate(list(counts))[1] - domain.log_mass[cell])
        for string, share in zip(counts, np.minimum(p, 1.0).tolist(), strict=True):
            if draws * share >= 20:
                compared += 1
                assert abs(counts[string] - draws * share) <= 6 * math.sqrt(draws * share * (1 - share)) + 1e-6, string
    assert compared > 20


@pytest.mark.parametrize("name", DOMAINS)
def test_what_is_restored_draws_the_same_strings(name: str) -> None:
    domain = DOMAINS[name]()
    again = restore(*domain.described())
    for cell in np.flatnonzero(domain.log_mass > -np.inf)[::3].tolist():
        ours, theirs = (one.draw(cell, 20, np.random.default_rng(cell)) for one in (domain, again))
        assert ours == theirs


# --- spelling: all strings up to a length, columns of kinds as one symbol ---------------------------------------------


@st.composite
def word_lists(draw: st.DrawFn) -> list[str]:
    """Two words hold every character, so that all four are told apart."""
    words = draw(st.lists(st.text("ab-1", min_size=1, max_size=4), max_size=12, unique=True))
    return [*words, "ab-1", "1-ba"]


def column_strings(model: CharacterModel, longest: int) -> Iterator[tuple[str, float, float]]:
    """A string for every sequence of columns, log q of all that the sequence stands for, and log of how many."""
    alphabet = model.alphabet
    shown = [
        *alphabet.characters,
        *(chr(alphabet.others(c)[-1]) for c in range(len(alphabet.characters), len(alphabet))),
    ]
    by_kind = [sum(one == k for one in map(_kind, alphabet.characters)) for k in range(5)]
    many = [0.0] * len(alphabet.characters) + [math.log(len(of_kind(k)) - by_kind[k]) for k in range(5)]
    level = [("", 0, 0.0, 0.0)]
    for _ in range(longest):
        level = [
            (string + shown[a], int(model.moves[state, a]), log_q + math.log(model.prob[state, a]), size + many[a])
            for string, state, log_q, size in level
            for a in range(len(shown))
        ]
        yield from ((string, log_q + math.log(model.prob[s, -1]), size) for string, s, log_q, size in level)


def _kind(character: str) -> int:
    return {"a": 0, "b": 0, "1": 2}.get(character, 4)


def alive(model: CharacterModel, length: int) -> float:
    """The mass of all strings longer than that, by walking the table."""
    mass = np.zeros(model.n_states)
    mass[0] = 1.0
    for _ in range(length + 1):
        after = np.zeros_like(mass)
        np.add.at(after, model.moves, mass[:, None] * model.prob[:, :-1])
        mass = after
    return float(mass.sum())


def bounded(domain: Domain, model: CharacterModel, longest: int, scale: float = 1.0) -> None:
    """head ≤ Q(c) ≤ head + tail for every cell."""
    strings, log_q, log_many = zip(*column_strings(model, longest), strict=True)
    located, found = domain.locate(strings)
    inside = located >= 0
    total = np.exp(found[inside] + np.array(log_many)[inside])
    if isinstance(domain, Spelling):
        np.testing.assert_allclose(total, np.exp(np.array(log_q)[inside]), rtol=1e-9)
    head = np.bincount(located[inside], weights=total, minlength=len(domain.cells))
    mass, tail = np.exp(domain.log_mass), scale * alive(model, longest)
    assert (head <= mass + 1e-12).all()
    assert (mass <= head + tail + 1e-12).all()
    assert mass.sum() <= head.sum() + tail + 1e-12
    assert head.sum() > 0.1  # the bound says something


def symbols_mass(model: CharacterModel) -> float:
    """The mass of all strings that can be symbols, from a linear system of our own: not empty, no space at an end."""
    n, A = model.n_states, len(model.alphabet)
    space = np.zeros(A, dtype=bool)
    space[len(model.alphabet.characters) + 3] = True
    M = np.zeros((2 * n, 2 * n))  # after a letter; after white space
    for state in range(n):
        for a in range(A):
            for before in (0, n):
                M[before + state, (n if space[a] else 0) + model.moves[state, a]] += model.prob[state, a]
    first = np.zeros(2 * n)
    for a in np.flatnonzero(~space).tolist():
        first[model.moves[0, a]] += model.prob[0, a]
    ends = np.concatenate([model.prob[:, -1], np.zeros(n)])
    return float(first @ np.linalg.solve(np.eye(2 * n) - M, ends))


@settings(QUICK, max_examples=draws(25))
@given(word_lists(), st.integers(2, 4), st.booleans())
def test_the_mass_of_a_spelling_is_what_its_strings_sum_to(words: list[str], order: int, cells: bool) -> None:
    domain = Spelling(words, order=order, endings=3, longest=2, lengths=(2,), min_counts=(), cells=cells)
    bounded(domain, domain._model, 4)
    assert float(np.exp(domain.log_mass).sum()) == pytest.approx(symbols_mass(domain._model), rel=1e-10)


@settings(QUICK, max_examples=draws(25))
@given(word_lists(), st.integers(2, 4))
def test_what_another_domain_takes_leaves_the_spelling(words: list[str], order: int) -> None:
    whole = Spelling(words, order=order, endings=3, longest=2, lengths=(2,), min_counts=())
    ones = Regular({"ones": "1+(-1+)*"}, {"1": 0.2, "-": 0.2})
    cut = whole.without(ones.language)
    bounded(cut, cut._model, 4)
    assert set(cut.locate(["1", "11-1", "1-1"])[0].tolist()) == {-1}
    assert cut.locate(["a1"])[0][0] >= 0
    taken = np.exp(whole.log_mass).sum() - np.exp(cut.log_mass).sum()
    # all strings of the language 1+(-1+)*, from the table alone
    by_hand = [q for s, q, _ in column_strings(whole._model, 4) if re.fullmatch("1+(-1+)*", s)]
    assert sum(map(math.exp, by_hand)) <= taken + 1e-12
    assert taken <= sum(map(math.exp, by_hand)) + alive(whole._model, 4) + 1e-12


@settings(QUICK, max_examples=draws(25))
@given(word_lists(), st.integers(2, 3), st.floats(0.1, 0.9))
def test_the_mass_of_names_is_what_its_strings_sum_to(words: list[str], order: int, share: float) -> None:
    under = Spelling(words, order=order, endings=3, longest=2, lengths=(2,), min_counts=())
    gazetteer = {"ab": ["G:x"], "b-1": ["G:y"], "a1": ["G:x"], words[0]: []}
    domain = Names(gazetteer, under, share=share, weights={"ab": 3.0})
    assert float(np.exp(domain.log_mass).sum()) == pytest.approx(1.0, rel=1e-9)
    bounded(domain, under._model, 4, scale=(1 - share) / float(np.exp(under.log_mass).sum()))


def test_all_numbers_of_a_cell_sum_to_its_mass() -> None:
    """All strings of five digits at most; longer ones weigh no more than the geometric series says."""
    domain = Numbers("xx", ratio=0.2)
    strings = ["".join(s) for n in range(1, 6) for s in product("0123456789", repeat=n)]
    located, log_q = domain.locate(strings)
    head = dict(
        zip(domain.cells, np.bincount(located, weights=np.exp(log_q), minlength=len(domain.cells)), strict=True)
    )
    for cell, log_mass in zip(domain.cells, domain.log_mass.tolist(), strict=True):
        if cell.name in {f"number:digits{n}" for n in range(1, 6)} | {"number:year"}:
            assert head[cell] == pytest.approx(math.exp(log_mass), rel=1e-9)
        if cell.name == "number:padded":  # 0 and n digits more: each a fifth of the one before
            assert head[cell] == pytest.approx(math.exp(log_mass) * (1 - 0.2**4), rel=1e-9)
        if cell.name in ("number:digits6", "number:long"):
            assert head[cell] == 0
    assert float(np.exp(domain.log_mass).sum()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("language", "string", "cell"),
    [
        ("fr", "1984", "year"),
        ("fr", "2100", "digits4"),
        ("fr", "7", "digits1"),
        ("fr", "1er", "ordinal"),
        ("fr", "10\u202f000", "grouped"),
        ("fr", "3,14", "decimal"),
        ("fr", "3,5 %", "percentage"),
        ("fr", "12/03/2020", "joined"),
        ("fr", "007", "padded"),
        ("fr", "1234567890123", "long"),
        ("en", "21st", "ordinal"),
        ("et", "3.", "ordinal"),
        ("tr", "5'inci", "ordinal"),
        ("tr", "3.", "ordinal"),
        ("en", "1er", None),
        ("fr", "deux", None),
        ("fr", "1e5x", None),
    ],
)
def test_a_number_is_in_its_cell(language: str, string: str, cell: str | None) -> None:
    domain = numbers(language)
    located, log_q = domain.locate([string])
    if cell is None:
        assert (located[0], log_q[0]) == (-1, -np.inf)
    else:
        assert domain.cells[located[0]].name == f"number:{cell}"
        assert np.isfinite(log_q[0])


# --- regular languages: all strings up to a length, by Python's own patterns ----------------------------------------


def expressions() -> st.SearchStrategy[str]:
    return st.recursive(
        st.sampled_from(["a", "b", "1", "[ab]", "[^a]"]),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
            st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
        ),
        max_leaves=6,
    )


SHORT = ["".join(s) for n in range(1, 8) for s in product("ab1", repeat=n)]
WEIGHTS = st.tuples(*[st.one_of(st.just(0.0), st.floats(0.01, 0.2)) for _ in "ab1"])


@given(expressions(), expressions(), WEIGHTS)
@QUICK
def test_the_mass_of_a_regular_language_is_what_its_strings_sum_to(
    first: str, second: str, weights: tuple[float, ...]
) -> None:
    weight = dict(zip("ab1", weights, strict=True))
    cells = {"first": pattern(first), "second": pattern(second).minus(pattern(first))}
    domain = Regular(cells, weight, log_scale={"second": 1.0})
    q = np.array([math.prod(weight[c] for c in string) for string in SHORT])
    is_first = np.array([re.fullmatch(first, s) is not None for s in SHORT])
    is_second = np.array([re.fullmatch(second, s) is not None for s in SHORT]) & ~is_first
    located, log_q = domain.locate(SHORT)
    scaled = q * np.where(is_second, math.e, 1.0)
    np.testing.assert_allclose(np.exp(log_q), np.where(is_first | is_second, scaled, 0.0), rtol=1e-12)
    np.testing.assert_array_equal(located, np.where(q == 0, -1, np.select([is_first, is_second], [0, 1], -1)))
    total = sum(weights)
    tail = total**8 / (1 - total)
    for number, (mine, scale) in enumerate([(is_first, 1.0), (is_second, math.e)]):
        head, mass = scale * float(q[mine].sum()), math.exp(domain.log_mass[number])
        assert head <= mass + 1e-12
        assert mass <= head + scale * tail + 1e-12
        if mass > 0:
            drawn = domain.draw(number, 20, np.random.default_rng(0))
            assert set(domain.locate(drawn)[0].tolist()) == {number}


def test_characters_of_a_kind_share_its_weight() -> None:
    domain = Regular({"short": r"\p{lower}{1,3}"}, {"lowercase": 0.5, "a": 0.1})
    assert math.exp(domain.log_mass[0]) == pytest.approx(0.6 + 0.6**2 + 0.6**3)
    small = len(of_kind(0)) - 1
    assert domain.locate(["zaé"])[1][0] == pytest.approx(math.log(0.1) + 2 * math.log(0.5 / small), abs=1e-9)
    assert domain.locate(["A"])[0][0] == -1
    assert domain.members(0) is None


# --- listed words leave --------------------------------------------------------------------------------------------


def small_domains() -> tuple[Domain, ...]:
    return disjoint([numbers("fr"), spelling()])


@cache
def opened() -> Vocabulary:
    return Vocabulary([*types()[:30], "1984", EOS], domains=small_domains())


def test_a_listed_word_leaves_its_cell_with_exactly_its_own_mass() -> None:
    vocabulary = opened()
    whole = np.concatenate([np.exp(domain.log_mass) for domain in vocabulary.domains])
    left = np.exp(np.concatenate(vocabulary.cell_log_mass))
    gone = np.zeros(len(whole))
    for word in vocabulary.words:
        assert vocabulary.log_inside(word) == 0.0
        cell = int(vocabulary.cells_of([word])[0]) - len(vocabulary.words)
        log_q = max(float(domain.locate([word])[1][0]) for domain in vocabulary.domains)
        gone[cell] += math.exp(log_q)
    np.testing.assert_allclose(whole - left, gone, atol=1e-15)
    assert gone[int(vocabulary.cells_of(["1984"])[0]) - len(vocabulary.words)] > 0
    word = "zzyzx"
    symbol, inside = vocabulary.locate([word])
    cell = int(symbol[0]) - len(vocabulary.words)
    log_q = float(vocabulary.domains[1].locate([word])[1][0])
    assert float(inside[0]) == pytest.approx(log_q - math.log(left[cell]))


def test_spelled_words_are_never_listed_ones() -> None:
    digits = Regular({"d": "[abc]"}, {"a": 0.5, "b": 0.3, "c": 0.01})
    vocabulary = Vocabulary(["a", EOS], domains=[digits])
    drawn = vocabulary.spell(2, 20_000, np.random.default_rng(0))
    assert set(drawn) == {"b", "c"}
    assert drawn.count("c") / 20_000 == pytest.approx(0.01 / 0.31, abs=0.005)


def test_a_cell_all_of_whose_strings_are_listed_is_gone() -> None:
    vocabulary = Vocabulary([*"0123456789", EOS], domains=[numbers("fr")])
    (log_left,) = vocabulary.cell_log_mass
    gone = [cell.name for cell in numbers("fr").cells].index("number:digits1")
    assert log_left[gone] == -np.inf
    assert np.isfinite(np.delete(log_left, gone)).all()
    symbol = len(vocabulary.words) + gone
    assert vocabulary.witnesses[symbol] == ()
    assert all(vocabulary.witnesses[other] for other in vocabulary.witnesses if other != symbol)
    phi = features.CellAttributes() + features.Identity(top=3)
    background = backgrounds.Unigram({"7": 1, EOS: 2})
    model = LLRNN(vocabulary, output_features=phi, background=background, controller=GRU(3)).double()
    with torch.no_grad():
        p, _ = model.step(model.start(), [vocabulary.eos])
        assert p.log_probs()[0, symbol] == -math.inf
        assert float(p.log_probs().exp().sum()) == pytest.approx(1.0, abs=1e-12)
        drawn = p.sample((50_000,), generator=torch.Generator().manual_seed(0))
    assert symbol not in drawn
    with pytest.raises(DomainError, match="nothing is left of the cell ‹number:digits1› but listed words"):
        vocabulary.spell(symbol, 1, np.random.default_rng(0))


def test_what_is_hardly_left_of_a_finite_cell_is_summed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in fractions: ten strings are listed, of which each weighs a hundred trillion times what is left."""
    monkeypatch.setattr("llrnn.text.vocabulary._MOST_DRAWS", 10_000)  # a million would be as hopeless
    weight = {**{c: 0.07 + 0.001 * i for i, c in enumerate("abcdefghij")}, "x": 3e-16, "y": 4e-17}
    domain = Regular({"one": "[a-jxy]", "other": "[a-jxy]{2}"}, weight)
    listed = list("abcdefghij")
    left = log_mass_left(domain, listed)
    exact = sum((Fraction(weight[c]) for c in "xy"), Fraction(0))
    assert math.exp(left[0]) == pytest.approx(float(exact), rel=1e-12, abs=0)
    squares = sum((Decimal(w) for w in weight.values()), Decimal(0)) ** 2
    assert math.exp(left[1]) == pytest.approx(float(squares), rel=1e-12, abs=0)
    assert math.exp(domain.log_mass[0]) - sum(weight[c] for c in listed) != pytest.approx(float(exact), rel=1e-3, abs=0)
    vocabulary = Vocabulary([*listed, EOS], domains=[domain])
    drawn = vocabulary.spell(len(vocabulary.words), 4000, np.random.default_rng(0))
    assert set(drawn) == {"x", "y"}
    assert drawn.count("y") / 4000 == pytest.approx(4 / 34, abs=0.03)
    assert math.exp(vocabulary.log_inside("x")) == pytest.approx(30 / 34, rel=1e-9)


def test_what_is_hardly_left_of_an_infinite_cell_is_refused() -> None:
    domain = Regular({"as": "a+"}, {"a": 1e-10})
    with pytest.raises(DomainError, match=r"all but a billionth of the cell 'regular:as' .*'a' among them"):
        _ = Vocabulary(["a", EOS], domains=[domain]).cell_log_mass
    half = Vocabulary(["a", EOS], domains=[Regular({"as": "a+"}, {"a": 0.5})])
    assert math.exp(half.cell_log_mass[0][0]) == pytest.approx(0.5)


# --- words that train as new ------------------------------------------------------------------------------------------


def test_only_words_with_a_cell_train_as_new() -> None:
    corpus = small_corpus()
    words = {*corpus.counts()}
    listed = sorted(words)[:5]
    assert Vocabulary.from_corpus(corpus, domains=small_domains(), as_new=1.0).as_new == words
    chosen = Vocabulary.from_corpus(corpus, domains=small_domains(), others=listed, as_new=1.0).as_new
    assert chosen == words.difference(listed)
    assert not Vocabulary.from_corpus(corpus, domains=[numbers("fr")], as_new=1.0).as_new & {*types()}
    some = Vocabulary.from_corpus(corpus, domains=small_domains(), as_new=0.5).as_new
    assert 0.3 < len(some) / len(words) < 0.7
    with pytest.raises(VocabularyError, match="open vocabulary can train as new"):
        Vocabulary.from_corpus(corpus, as_new=0.5)
    with pytest.raises(VocabularyError, match="no domain has such a cell for 'chat'"):
        Vocabulary(["chat", EOS], domains=[numbers("fr")], as_new=["chat"])
    with pytest.raises(VocabularyError, match="no domain has such a cell for '7'"):  # there is no other digit left
        Vocabulary([*"0123456789", EOS], domains=[numbers("fr")], as_new=["7"])
    with pytest.raises(VocabularyError, match=r"only listed words .* found 'rat'"):
        Vocabulary(["chat", EOS], domains=small_domains(), as_new=["rat"])


# --- bad input -----------------------------------------------------------------------------------------------------


class Own(Domain):
    """A user's domain of a few strings, in which one thing or another may be wrong."""

    def __init__(
        self,
        strings: Sequence[str] = ("x", "y"),
        *,
        log_mass: Sequence[float] = (0.0, -1.0),
        drawn: Sequence[str] | None = None,
        located: Sequence[int] | None = None,
        names: Sequence[str] = ("one", "two"),
        language: DFA | None = None,
        log_q: Sequence[float] | None = None,
    ) -> None:
        self._strings, self._log_mass, self._drawn = list(strings), np.array(log_mass), list(drawn or strings)
        self._located = dict(zip(strings, located or range(len(strings)), strict=True))
        self._log_q = dict(zip(strings, log_mass if log_q is None else log_q, strict=True))
        self._names, self._language = names, language or pattern("[xy]")

    @property
    def name(self) -> str:
        return "own"

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(Cell(name) for name in self._names)

    @property
    def log_mass(self) -> Floats:
        return self._log_mass

    @property
    def language(self) -> DFA:
        return self._language

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells = np.array([self._located.get(string, -1) for string in strings], dtype=np.int64)
        return cells, np.array([self._log_q.get(string, -np.inf) for string in strings])

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        return [self._drawn[cell]] * count

    def described(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"kind": "own"}, {}


def test_a_sound_domain_of_ones_own_is_taken() -> None:
    vocabulary = Vocabulary(["a", EOS], domains=[Own()])
    assert vocabulary.symbols == ("a", EOS, "‹one›", "‹two›")
    check_domain(Own(), saved=False)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (lambda: Own(located=[1, 0]), "'x' is drawn from the cell 'one' of 'own', but located in the cell 'two'"),
        (lambda: Own(drawn=["x", "z"]), "'z' is drawn from the cell 'two' of 'own', but located in no cell at all"),
        (lambda: Own(["", "y"]), "'one' of 'own' holds '', which is no symbol: it is empty"),
        (lambda: Own(["x", "y\n"]), r"'two' of 'own' holds 'y\\n', which is no symbol: it holds a line break"),
        (lambda: Own(["\ud800", "y"]), r"'one' of 'own' holds '\\ud800', .* it holds a surrogate"),
        (lambda: Own([" x", "y"]), "'one' of 'own' holds ' x', .* it has white space at an end"),
        (lambda: Own(log_mass=[math.nan, 0.0]), "the cell 'one' of 'own' must have finite mass, found nan"),
        (lambda: Own(log_mass=[0.0, math.inf]), "the cell 'two' of 'own' must have finite mass, found inf"),
        (lambda: Own(log_q=[0.5, -1.0]), "log q of 'x' must be finite and at most that of its cell 'one'"),
        (lambda: Own(log_q=[0.0, -math.inf]), "log q of 'y' must be finite"),
        (lambda: Own(names=["one", "one"]), r"cells of different names .* found \['one', 'one'\]"),
        (lambda: Own(names=["one"]), "a mass each"),
    ],
)
def test_a_domain_that_is_none_is_refused_with_a_witness(own: Callable[[], Domain], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Vocabulary([EOS], domains=[own()])
    with pytest.raises(LawError, match=message):
        check_domain(own(), saved=False)


class Unfair(Regular):
    """Draws that do not follow q."""

    def draw(self, cell: int, count: int, rng: np.random.Generator) -> list[str]:
        return ["a" if u < 0.9 else "b" for u in rng.random(count)]


class Forgetful(Regular):
    """A member is missing."""

    def members(self, cell: int) -> Sequence[str] | None:
        return ["a"]


class Blind(Regular):
    """A language that does not know what it draws."""

    @property
    def language(self) -> DFA:
        return pattern("b")


class Moody(Regular):
    """What a string weighs depends on who is asked with it."""

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells, log_q = super().locate(strings)
        return cells, log_q - len(strings)


class Careless(Regular):
    """What can be no symbol is not outside."""

    def locate(self, strings: Sequence[str]) -> tuple[Ints, Floats]:
        cells, log_q = super().locate(strings)
        return np.where([s == "" for s in strings], 0, cells), log_q


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Unfair, "draws ∝ q"),
        (Forgetful, "members sum to Q"),
        (Blind, "the language holds 'a'"),
        (Moody, "saved = restored|batched = one by one"),
        (Careless, "what can be no symbol is outside"),
    ],
)
def test_every_kind_of_law_breaker_is_caught(kind: type[Regular], message: str) -> None:
    check_domain(Regular({"c": "a|b"}, {"a": 0.5, "b": 0.5}))
    with pytest.raises(LawError, match=message):
        check_domain(kind({"c": "a|b"}, {"a": 0.5, "b": 0.5}))


def test_a_domain_without_restorer_breaks_the_law() -> None:
    with pytest.raises(LawError, match="no domain of the kind 'own' is known; register it"):
        check_domain(Own())


def test_cells_that_overlap_are_refused_with_a_witness() -> None:
    with pytest.raises(DomainError, match=r"'all' and 'teens' both hold '1[0-9]'"):
        Regular({"all": "[0-9]+", "teens": "1[0-9]"}, {"1": 0.1})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Regular({"as": "a+", "b": "b"}, {"a": 1.0, "b": 9.0}), "the cell 'regular:as' .* such as 'a'"),
        (lambda: Regular({"ab": "[ab]+"}, {"a": 0.5, "b": 0.5}), "the cell 'regular:ab' must have finite mass"),
        (lambda: Regular({"l": r"\p{lower}+"}, {"lowercase": 1.5}), "the cell 'regular:l' .* 'a'"),
        (lambda: Regular({"a": "a"}, {"a": math.nan}), "weights of characters must be finite and 0 or more"),
        (lambda: Regular({"a": "a"}, {"a": -0.1}), "weights of characters must be finite and 0 or more"),
        (lambda: Numbers("fr", ratio=1.0), "the cell of long numbers, '10000000' among them, has no finite mass"),
        (lambda: Numbers("fr", ratio=0.0), "between 0 and 1, found 0.0"),
        (lambda: Numbers("fr", ratio=0.9), "the cell 'number:.*' must have finite mass"),
        (lambda: LengthRanges((4, 2)), r"must be 1 or more and rise, found \[4, 2\]"),
        (lambda: LengthRanges((0, 2)), "must be 1 or more"),
        (lambda: Spelling(["a"], lengths=(8, 4)), r"rise, found \[8, 4\]"),
        (lambda: Spelling([]), "a spelling needs words to learn from, found none"),
        (lambda: Vocabulary([EOS], domains=[Spelling(["ab", "b"], order=1)]), "order 2 or more, found 1"),
        (lambda: Names({}, spelling()), "the gazetteer of 'name' is empty"),
        (lambda: Names({"a": []}, spelling(), share=1.0), "must lie between 0 and 1, found 1.0"),
        (lambda: Names({"a\n": []}, spelling()), "it holds a line break"),
        (lambda: Names({"a": []}, spelling(), weights={"a": math.inf}), "must be finite and above 0"),
        (
            lambda: Names({"1984": [], "a": []}, spelling().without(numbers("fr").language)),
            "holds '1984', which was taken out of its spelling",
        ),
        (
            lambda: Vocabulary([EOS], domains=[numbers("fr"), Numbers("en", name="other")]),
            "two domains hold the string '0': 'other' and one before it",
        ),
        (lambda: disjoint([spelling(), numbers("fr")]), "two domains hold the string '0': 'number'"),
        (
            lambda: disjoint([numbers("fr"), restore(*spelling().described())]),
            "comes from a model folder and cannot be cut any further",
        ),
        (lambda: restore(*with_label(spelling(), 10**9)), "labels of the automaton must be below .* found 1000000000"),
    ],
)
def test_what_is_no_domain_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        make()


def with_label(domain: Spelling, label: int) -> tuple[Any, Any]:
    """What is saved of a spelling, with another label."""
    plain, arrays = domain.described()
    automaton = plain["automaton"]
    return {**plain, "automaton": {**automaton, "labels": [*automaton["labels"][:-1], label]}}, arrays


def test_a_model_that_does_not_end_is_refused() -> None:
    with pytest.raises(DomainError, match="a spelling must end"):
        _ = Spelling(["ab" * 50], order=6).log_mass


def test_two_domains_of_one_name_are_refused() -> None:
    ones, twos = Regular({"c": "1"}, {"1": 0.5}), Regular({"c": "2"}, {"2": 0.5})
    with pytest.raises(VocabularyError, match="'‹regular:c›' is listed more than once"):
        Vocabulary([EOS], domains=[ones, twos])


def test_a_uniform_background_over_infinitely_many_strings_is_refused() -> None:
    vocabulary = opened()
    cell, witness = vocabulary.symbols[-1], vocabulary.witnesses[len(vocabulary) - 1][0]
    with pytest.raises(BackgroundError, match=re.escape(f"the cell {cell} alone holds {witness!r}")):
        backgrounds.Uniform().bind(vocabulary)


@pytest.mark.parametrize(
    "phi",
    [
        features.Suffixes(4, min_count=1),
        features.Attributes(Lexicon({types()[0]: frozenset({"POS:DET"}), "zyzzyva": frozenset({"POS:NOUN"})})),
        features.Function(lambda word: {f"first {word[0]}": 1.0}),
        features.Function(lambda word: {"length": float(len(word))}),
        features.Prefixes(1, min_count=1),
    ],
    ids=repr,
)
def test_a_feature_that_is_not_constant_on_a_cell_is_refused_with_two_strings(phi: Features) -> None:
    with pytest.raises(FeatureError, match="the same on all strings of a cell") as caught:
        compile_features(phi, opened())
    found = re.search(r"on '(.*)' and .* on '(.*)', both in the cell (‹.*›);", str(caught.value))
    assert found is not None
    one, other, cell = found.groups()
    assert {opened().symbols[opened().id(word)] for word in (one, other)} == {cell}
    assert phi.group != "Attributes" or "zyzzyva" in (one, other)
    compile_features(phi.of_listed() + features.Identity(top=1), opened())


def test_features_that_agree_with_the_cells_are_taken() -> None:
    lexicon = Lexicon({types()[0]: frozenset({"POS:NOUN"})})
    phi = features.CellAttributes() + features.Identity() + features.Attributes(lexicon)
    matrix = compile_features(phi, opened())
    vocabulary = opened()
    for symbol, strings in vocabulary.witnesses.items():
        row = matrix.row(symbol)
        domain = vocabulary.domains[0 if symbol - len(vocabulary.words) < len(vocabulary.domains[0].cells) else 1]
        cell = int(domain.locate(strings[:1])[0][0])
        assert {*domain.cells[cell].attributes} <= row.keys()
        assert f"Word:{vocabulary.symbols[symbol]}" in row


def test_a_finite_cell_of_millions_is_not_written_out() -> None:
    """Half a billion licence plates are as good as infinitely many, and take no longer."""
    letters = dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 0.02)
    plates = Regular({"plate": "[a-z]{2}-[0-9]{3}-[a-z]{2}"}, letters | dict.fromkeys("0123456789", 0.05) | {"-": 0.5})
    assert plates.members(0) is None
    assert plates.log_mass[0] == pytest.approx(np.log(0.52**4 * 0.5**3 * 0.5**2))
    left = np.exp(plates.log_mass[0]) - np.exp(plates.locate(["ab-123-cd"])[1][0])
    assert np.exp(log_mass_left(plates, ["ab-123-cd", "car"])[0]) == pytest.approx(left, rel=1e-12)


@pytest.mark.slow
def test_cells_are_the_same_in_every_process() -> None:
    """Weights are drawn and saved by the numbers of cells: they may not depend on the hash of strings."""
    code = (
        "from llrnn.languages.domains import Spelling\n"
        "words = 'maisons raisons grande petites belles mangent chantent vert verte bleu'.split()\n"
        "made = Spelling(words, order=3, endings=6, longest=3, lengths=(4,), min_counts=())\n"
        "print([cell.name for cell in made.cells], made.log_mass.tolist())\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
