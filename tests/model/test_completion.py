"""Completion against brute force: every string written out, in float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import shaken, small_corpus
from llrnn import EOS, GRU, LLRNN, Corpus, Vocabulary, complete, domains, features, testing, words
from llrnn.ground.errors import ConfigError, DomainError, UnknownWordError
from llrnn.knowledge.backgrounds import Discounted, Recent
from llrnn.languages.domains import Names, Numbers, Regular, Spelling
from llrnn.model.completion import Completer, split_letters
from llrnn.model.steering import swap
from llrnn.model.words import with_text_words
from llrnn.text.conditions import Before
from llrnn.text.vocabulary import Domain
from strategies import QUICK, draws

LETTERS = st.text("abA-1z", max_size=3)


def plate() -> Regular:
    return Regular(
        {"plate": "[ab]{1,3}-[01]+", "letters": "c[ab]*"},
        dict.fromkeys("ab01-c", 0.2),
        log_scale={"letters": 0.7},
        name="plate",
    )


GIVEN = ["abba", "ab", "bab", "Ab", "a-b", "bbb", "b1"]


def some_spelling() -> Spelling:
    return Spelling(GIVEN, order=3, endings=3, longest=2, lengths=(2, 4))


DOMAINS: dict[str, Callable[[], Any]] = {  # made when they are asked for, not when tests are collected
    "plate": plate,
    "numbers": lambda: Numbers("fr"),
    "spelling": some_spelling,
    "one cell": lambda: Spelling(GIVEN, order=2, cells=False),
    "names": lambda: Names({"ab": ["City"], "bab": ["Person"], "Abba": ["City"]}, some_spelling()),
}


@cache
def some_domain(name: str) -> Any:
    return DOMAINS[name]()


def columns(domain: Any) -> tuple[str, ...]:
    """The characters of every column: of one, all weigh the same."""
    inner = getattr(domain, "_domain", domain)
    return (inner._model.alphabet if isinstance(inner, Spelling) else inner._alphabet).characters_of


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("letters", ["", "ab", "A", "z", "\n"])
def test_mass_of_letters_is_the_string_itself_and_one_letter_more(name: str, letters: str) -> None:
    """Q(u) = q(u) + Σ_a Q(ua), in every cell; with Q() = Q this leaves one solution."""
    domain = some_domain(name)
    found, expected = np.exp(domain.log_mass_of(letters)), np.zeros(len(domain.cells))
    cell, log_q = domain.locate([letters])
    expected[cell[cell >= 0]] += np.exp(log_q[cell >= 0])
    special = {one for one in domain._listed if one.startswith(letters)} if name in ("headed", "names") else set()
    followers = {one[len(letters)] for one in special if len(one) > len(letters)}
    for characters in columns(domain):
        own = [character for character in sorted(followers) if character in characters]
        other = next((character for character in characters if character not in followers), None)
        rest = [] if other is None else [(other, len(characters) - len(own))]
        for character, count in [*((one, 1) for one in own), *rest]:
            expected += count * np.exp(domain.log_mass_of(letters + character))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)
    if not letters:
        np.testing.assert_allclose(found, np.exp(domain.log_mass), rtol=1e-9)


@settings(QUICK, max_examples=draws(40))
@given(st.sampled_from(list(DOMAINS)), LETTERS, st.integers(0, 10_000), st.integers(1, 12))
def test_ranked_strings_are_the_best_ones_in_their_order(name: str, letters: str, seed: int, k: int) -> None:
    domain = some_domain(name)
    weight = np.random.default_rng(seed).normal(0, 4, len(domain.cells))
    weight[np.random.default_rng(seed).random(len(weight)) < 0.2] = -np.inf
    found = list(itertools.islice(domain.ranked(letters, weight), k))
    strings = [text for _, text in found]
    assert len(set(strings)) == len(strings)
    assert all(text.startswith(letters) for text in strings)
    assert [log for log, _ in found] == sorted((log for log, _ in found), reverse=True)
    if strings:
        cells, log_q = domain.locate(strings)
        np.testing.assert_allclose([log for log, _ in found], log_q + weight[cells], rtol=1e-9, atol=1e-9)
    on = [characters[0] for characters in columns(domain) if characters and not characters[0].isspace()]
    tails = ["".join(tail) for n in range(3) for tail in itertools.product(on, repeat=n)]
    every = [text for text in dict.fromkeys(letters + tail for tail in tails) if text]
    cells, log_q = domain.locate(every)
    score = np.where(cells >= 0, log_q + np.where(cells >= 0, weight[cells], -np.inf), -np.inf)
    least = found[-1][0] if len(found) == k else -np.inf
    missed = [
        text for text, log in zip(every, score.tolist(), strict=True) if log > least + 1e-9 and text not in strings
    ]
    assert not missed


@cache
def open_model(lowercase: bool = False) -> LLRNN:
    """Random weights, in float64."""
    types = tuple(sorted(word for word in small_corpus().counts() if word.isalpha()))
    held = [Numbers("fr"), Spelling(types, order=3, endings=6, longest=2, lengths=(4,))]
    vocabulary = Vocabulary.from_corpus(small_corpus()[:40], domains=held, as_new=0.5)
    phi = features.Identity(top=30) + features.CellAttributes() + features.Suffixes(2, min_count=3).of_listed()
    background = Discounted.from_corpus(small_corpus()[:40])
    model = LLRNN(vocabulary, output_features=phi, background=background, controller=GRU(6)).double()
    shaken(model, 1.5)
    model.provenance = {"config": {"corpus": {"lowercase": lowercase}}}
    return model


def brute(model: LLRNN, prefix: tuple[str, ...], letters: str, longest: int) -> dict[str, float]:
    """log p of every listed word, and of every string with up to `longest` more letters, that begins so."""
    vocabulary = model.vocabulary
    told = vocabulary.domains[1]._model.alphabet.characters  # type: ignore[attr-defined]
    tails = ("".join(tail) for n in range(longest + 1) for tail in itertools.product([*told, "7"], repeat=n))
    strings = {*(word for word in vocabulary.words if word.startswith(letters)), *(letters + t for t in tails)}
    strings -= {EOS, ""}
    state, fed = model.start(), [vocabulary.eos, *vocabulary.ids(prefix)]
    with torch.no_grad():
        for one in fed:
            p, state = model.step(state, [one])
        log_p = p.log_probs()[0].numpy()
    named = sorted(strings)
    ids, inside = vocabulary.find(named)
    return {
        word: float(log_p[i] + log) for word, i, log in zip(named, ids.tolist(), inside.tolist(), strict=True) if i >= 0
    }


@settings(QUICK, max_examples=draws(15))
@given(
    st.sampled_from([(), ("le",), ("la", "reine")]),
    st.sampled_from(["", "p", "gr", "1", "z", "qu", "xx"]),
    st.integers(1, 9),
)
def test_completions_are_the_best_of_all_strings(prefix: tuple[str, ...], letters: str, k: int) -> None:
    model = open_model()
    found = complete(model, prefix, letters, k=k)
    every = brute(model, prefix, letters, 2)
    assert len(found) == k
    for one in found:
        word = every.get(one.word, one.log_p)
        assert one.log_p == pytest.approx(word, abs=1e-9)
        assert (one.cell is None) == (one.word in model.vocabulary)
    missed = [
        word for word, log in every.items() if log > found[-1].log_p + 1e-9 and word not in [c.word for c in found]
    ]
    assert not missed
    assert [one.log_p for one in found] == sorted((one.log_p for one in found), reverse=True)


@pytest.mark.parametrize("prefix", [(), ("le",)])
def test_the_mass_of_no_letters_is_all_but_the_end(prefix: tuple[str, ...]) -> None:
    model = open_model()
    found = complete(model, prefix)
    with torch.no_grad():
        p = found._after.p.log_probs()[0]
    assert math.exp(found.log_mass) == pytest.approx(1 - math.exp(float(p[model.vocabulary.eos])), abs=1e-12)


def test_the_mass_of_letters_adds_up_over_the_next_letter() -> None:
    """p(u…) = p(u) + Σ_a p(ua…), listed words and all domains together."""
    model = open_model()
    alphabet = model.vocabulary.domains[1]._model.alphabet  # type: ignore[attr-defined]
    numbers = model.vocabulary.domains[0]._alphabet  # type: ignore[attr-defined]
    told = {*alphabet.characters, *numbers.characters, *(word[2] for word in model.vocabulary.words if len(word) > 2)}
    whole = math.exp(complete(model, "le", "pe").log_mass)
    ids, inside = model.vocabulary.find(["pe"])
    log_p = complete(model, "le")._after.p.log_probs()[0]
    total = math.exp(float(log_p[int(ids[0])]) + float(inside[0]))
    total += sum(math.exp(complete(model, "le", "pe" + c).log_mass) for c in told)
    for column in range(len(alphabet.characters), len(alphabet)):
        others = [c for c in alphabet.characters_of[column] if c not in told]
        total += len(others) * math.exp(complete(model, "le", "pe" + others[0]).log_mass) if others else 0.0
    assert total == pytest.approx(whole, rel=1e-9)


def test_shares_are_of_the_mass_of_the_letters() -> None:
    found = complete(open_model(), "le", "p", k=5)
    assert found.share(found[0]) == pytest.approx(found[0].p / math.exp(found.log_mass))
    assert "given the letters" in str(found.sheet())


def test_a_completer_reads_each_word_once_and_says_the_same() -> None:
    model = open_model()
    keyboard = Completer(model)
    for prefix, letters in [("", "l"), ("le", ""), ("le", "p"), ("la reine", "e"), ("la", "r"), ("", "")]:
        once, again = complete(model, prefix, letters, k=4), keyboard.complete(prefix, letters, k=4)
        assert [c.word for c in once] == [c.word for c in again]
        assert [c.log_p for c in once] == pytest.approx([c.log_p for c in again], abs=1e-12)


def with_recent() -> LLRNN:
    model = open_model()
    return swap(model, background=Recent(model.background, mu=0.3, kappa=2.0, fading=5.0)).eval()


@pytest.mark.parametrize("letters", ["", "p", "zin", "re"])
def test_words_of_the_text_come_again(letters: str) -> None:
    """Sentences that a completer was given are the text before, whose words, and those of the sentence, are listed."""
    keyboard, text, prefix = Completer(with_recent()), "le zinzolin petit la reine zinzolin", "le zigzag"
    keyboard.read("le zinzolin petit")
    keyboard.complete("zut", "")  # of a sentence that was left, nothing comes again
    keyboard.read(["la", "reine", "zinzolin"])
    corpus = Corpus.from_sentences([text.split(), prefix.split()])
    ready = with_text_words(with_recent(), corpus.running(500))
    expected = complete(ready, prefix, letters, k=5, condition=Before.of(text))
    found = keyboard.complete(prefix, letters, k=5)
    assert [one.word for one in found] == [one.word for one in expected]
    assert [one.log_p for one in found] == pytest.approx([one.log_p for one in expected], abs=1e-9)
    assert found.log_mass == pytest.approx(expected.log_mass, abs=1e-9)
    assert [one.word for one in keyboard.complete(prefix, "zin", k=1)] == ["zinzolin"]


def test_words_that_come_again_are_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="background `Recent`"):
        Completer(open_model()).read("le")
    with pytest.raises(ConfigError, match="without conditions"):
        Completer(with_recent(), condition="le").read("le")


def test_words_that_were_passed_over_are_left_out() -> None:
    model = open_model()
    every = [one.word for one in complete(model, "le", "a", k=8)]
    passed = {every[0], every[3], "zut"}
    assert [one.word for one in complete(model, "le", "a", k=4, without=passed)] == [
        one for one in every if one not in passed
    ][:4]


def test_capitals_are_kept_as_they_are_typed_where_the_text_is_lowercase() -> None:
    model = open_model(lowercase=True)
    small, large = complete(model, "le", "p"), complete(model, "Le", "P")
    assert [one.word[1:] for one in small] == [one.word[1:] for one in large]
    assert all(one.word.startswith("P") for one in large)
    assert [one.log_p for one in small] == [one.log_p for one in large]


def test_a_closed_vocabulary_completes_its_words_alone() -> None:
    corpus = Corpus.from_sentences([["le", "petit", "pont"], ["le", "pont"]])
    vocabulary = Vocabulary.from_corpus(corpus, unknown="<unk>")
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(3))
    assert {one.word for one in complete(model, "le", "p")} == {"petit", "pont"}
    assert {one.word for one in complete(model, "le", k=9)} == {"le", "petit", "pont"}
    assert complete(model, "le", "x").best == ()
    assert complete(model, "le", "x").log_mass == -math.inf


def test_words_are_added_on_the_fly_and_removed_again() -> None:
    model = open_model()
    assert "zinzolin" not in [one.word for one in complete(model, "le", "zin", k=1)]
    more = words.add(model, [words.Entry("zinzolin", count=3)])
    assert complete(more, "le", "zin", k=1)[0].word == "zinzolin"
    less = words.remove(more, ["zinzolin"])
    before, after = complete(model, "le", "p", k=5), complete(less, "le", "p", k=5)
    assert [one.word for one in before] == [one.word for one in after]
    assert [one.log_p for one in before] == pytest.approx([one.log_p for one in after], abs=1e-9)


class Unsearched(Regular):
    """Says nothing of letters, as a domain of one's own may."""

    log_mass_of, ranked = Domain.log_mass_of, Domain.ranked


def test_a_domain_of_ones_own_that_cannot_be_listed_says_what_it_needs() -> None:
    endless = Unsearched({"a": "a+"}, {"a": 0.5}, name="endless")
    with pytest.raises(DomainError, match="log_mass_of"):
        endless.log_mass_of("a")
    with pytest.raises(DomainError, match="too many to list"):
        next(endless.ranked("a", np.zeros(1)))


def test_a_finite_domain_is_searched_by_its_members() -> None:
    finite = Regular({"two": "[ab]{1,2}", "c": "c[ab]"}, {"a": 0.3, "b": 0.2, "c": 0.1}, name="finite")
    weight = np.array([0.5, 2.0])
    for letters in ("", "a", "c", "x"):
        np.testing.assert_allclose(Domain.log_mass_of(finite, letters), finite.log_mass_of(letters))
        expected = list(Domain.ranked(finite, letters, weight))
        found = list(finite.ranked(letters, weight))
        assert sorted(text for _, text in found) == sorted(text for _, text in expected)
        np.testing.assert_allclose([log for log, _ in found], [log for log, _ in expected])


def test_mistakes_are_told_in_one_line() -> None:
    with pytest.raises(ConfigError, match="k must be 1 or more"):
        complete(open_model(), k=0)
    with pytest.raises(ConfigError, match="letters of one word"):
        complete(open_model(), "le", " p")
    closed = LLRNN(Vocabulary(["le", EOS]), output_features=features.Identity(), controller=GRU(2))
    with pytest.raises(UnknownWordError):
        complete(closed, "xyz")


def test_a_text_is_split_into_words_and_letters() -> None:
    model = open_model()
    assert split_letters(model, "la reine est gr") == (("la", "reine", "est"), "gr")
    assert split_letters(model, "la reine est ") == (("la", "reine", "est"), "")
    assert [split_letters(model, text) for text in ("", "l", " \t")] == [((), ""), ((), "l"), ((), "")]


def test_domains_that_can_be_typed_pass_their_laws() -> None:
    for domain in map(some_domain, DOMAINS):
        testing.check_domain(domain, draws=20, members=False)
    assert domains.Spelling is Spelling
