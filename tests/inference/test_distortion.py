"""How much a constraint changes a model, against sums over V that are written out in float64.

The language is written by hand: x and y anywhere, brackets that close; so is a weighted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
import torch

from helpers import shaken
from llrnn import GRU, LLRNN, Corpus, Vocabulary, contextual, features
from llrnn.ground.errors import ZeroMassError
from llrnn.inference.evaluation import evaluate
from llrnn.inference.rescoring import Distortion, measure_distortion
from llrnn.knowledge.backgrounds import (
    Automaton,
    Background,
    Dictionary,
    Grammar,
    Mask,
    Mixture,
    NGram,
    Primed,
    Product,
    Uniform,
    Unigram,
)
from llrnn.knowledge.backgrounds.constraint import Constraint, without
from llrnn.knowledge.contextual import ContextualFeature, Expert
from llrnn.languages.domains import Regular
from llrnn.model.steering import constrained
from llrnn.text.readers import Sentence, Token
from llrnn.text.vocabulary import EOS

Array = npt.NDArray[np.float64]
Factor = Callable[[Sequence[str]], dict[str, float]]  # what each symbol weighs after a prefix; 0 for those not named

BRACKETS = 'start: item*\nitem: "x" | "y" | "(" item* ")"'
SYMBOLS = ("(", ")", "x", "y", "z", EOS)
TEXT = ("x ( y ) x", "( ( x ) y )", "", "y", "( )")
OUTSIDE = ("x z", "( x")


def corpus(*lines: str, condition: object = None) -> Corpus:
    return Corpus.from_sentences([sentence(line.split(), condition) for line in lines])


def sentence(words: Iterable[str], condition: object) -> Sentence:
    return Sentence(tuple(Token(word) for word in words), condition=condition)


def brackets(prefix: Sequence[str]) -> dict[str, float]:
    depth = prefix.count("(") - prefix.count(")")
    return {"x": 1.0, "y": 1.0, "(": 1.0, **({")": 1.0} if depth else {EOS: 1.0})}


def softly(prefix: Sequence[str]) -> dict[str, float]:
    """For a factor of 0.1, once; then it does not matter any more."""
    left = any(prefix[i] not in brackets(prefix[:i]) for i in range(len(prefix)))
    return dict.fromkeys(SYMBOLS, 1.0) if left else {**dict.fromkeys(SYMBOLS, 0.1), **brackets(prefix)}


def weighted(prefix: Sequence[str]) -> dict[str, float]:
    return {"x": 0.3, "y": 0.05, "(": 0.2, ")": 0.1, EOS: 0.35}


CONSTRAINTS: dict[str, tuple[Callable[[], Constraint], Factor]] = {
    "grammar": (lambda: Grammar(BRACKETS), brackets),
    "soft": (lambda: Grammar(BRACKETS, violation=0.1), softly),
    "weighted": (lambda: Automaton('( x <0.3> | y <0.05> | "(" <0.2> | ")" <0.1> )*'), weighted),
}
COUNTED = Unigram({"(": 3, ")": 2, "x": 5, "y": 1, "z": 4, EOS: 6})
BIGRAMS = NGram.from_corpus(corpus("x ( y ) x z", "z z x", "( ) y"), order=2, folds=0)
KNOWLEDGE: dict[str, tuple[Callable[[], Background | None], Callable[[], list[ContextualFeature]]]] = {
    "nothing": (lambda: None, list),
    "unigrams": (lambda: COUNTED, lambda: [contextual.Repeated(3)]),
    "mixture": (lambda: Mixture(COUNTED, BIGRAMS, weights=[0.3, 0.7]), list),
    "primed": (lambda: Primed(COUNTED, ["x", "y"], boost=3.0, absent=0.5), list),
    "experts": (lambda: BIGRAMS, lambda: [Expert(COUNTED, name="count"), Expert(Grammar(BRACKETS, violation=0.2))]),
}


def make_model(background: Background | None, context: Sequence[ContextualFeature] = (), seed: int = 0) -> LLRNN:
    vocabulary = Vocabulary(SYMBOLS)
    model = LLRNN(
        vocabulary, output_features=features.Identity(), background=background, controller=GRU(4), contextual=context
    ).double()
    shaken(model, 2.0, seed)
    return model


def rows(model: LLRNN, words: Sequence[str], condition: object) -> list[Array]:
    """p over V at every position of a sentence, walked through `model.step`."""
    state, found = model.start([condition]), []
    with torch.no_grad():
        for symbol in [EOS, *words]:
            p, state = model.step(state, [model.vocabulary.id(symbol)])
            found.append(np.asarray(p.log_probs()[0].exp().numpy()))
    return found


def by_hand(model: LLRNN, text: Corpus, factor: Factor, outside: Factor | None = None) -> list[tuple[float, ...]]:
    """(forbidden, KL, best is forbidden, log p, log q) of every position, in plain sums."""
    found = list[tuple[float, ...]]()
    for each in text:
        for i, p in enumerate(rows(model, each.words, each.condition)):
            prefix = each.words[:i]
            target = SYMBOLS.index([*each.words, EOS][i])
            c = [factor(prefix).get(symbol, 0.0) for symbol in SYMBOLS]
            total = math.fsum(own * share for own, share in zip(p, c, strict=True))
            q = [own * share / total for own, share in zip(p, c, strict=True)]
            kl = math.fsum(one * math.log(one / own) for one, own in zip(q, p, strict=True) if one > 0)
            bad = [symbol not in (outside or factor)(prefix) for symbol in SYMBOLS]
            forbidden = math.fsum(own for own, is_bad in zip(p, bad, strict=True) if is_bad)
            found.append((forbidden, kl, float(bad[int(p.argmax())]), math.log(p[target]), math.log(q[target])))
    return found


def language_until_it_is_left(prefix: Sequence[str]) -> dict[str, float]:
    left = any(prefix[i] not in brackets(prefix[:i]) for i in range(len(prefix)))
    return dict.fromkeys(SYMBOLS, 1.0) if left else brackets(prefix)


def check(found: Distortion, expected: list[tuple[float, ...]]) -> None:
    steps = found.steps
    columns = (steps.forbidden, steps.divergence, steps.best_is_forbidden, steps.log_p, steps.log_q)
    for column, own in zip(columns, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(column, own, rtol=0, atol=1e-10)
    means = np.array(expected).mean(0)
    logs = (found.log_perplexity_free, found.log_perplexity_constrained)
    assert (found.forbidden, found.divergence, found.best_is_forbidden) == pytest.approx(tuple(means[:3]), abs=1e-10)
    assert logs == pytest.approx((-means[3], -means[4]), abs=1e-10)


@pytest.mark.filterwarnings("ignore:.*too little text")  # for n-grams of five words
@pytest.mark.parametrize("knowledge", KNOWLEDGE)
@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_every_figure_is_a_sum_over_the_vocabulary(kind: str, knowledge: str) -> None:
    make, factor = CONSTRAINTS[kind]
    background, context = KNOWLEDGE[knowledge]
    model = make_model(background(), context())
    text = corpus(*TEXT, condition="x") if kind != "soft" else corpus(*TEXT, *OUTSIDE, condition="x")
    found = measure_distortion(model, text, make())
    check(found, by_hand(model, text, factor, language_until_it_is_left if kind == "soft" else None))
    assert found.words == sum(len(each.words) + 1 for each in text)
    assert not found.held
    assert found.steps.sentence.tolist() == sorted(found.steps.sentence.tolist())
    assert [SYMBOLS[i] for i in found.steps.target.tolist()][:6] == ["x", "(", "y", ")", "x", EOS]
    assert found.steps.place[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_of_a_boolean_constraint_the_divergence_is_that_of_the_forbidden_mass() -> None:
    found = measure_distortion(make_model(COUNTED), corpus(*TEXT), Grammar(BRACKETS))
    np.testing.assert_allclose(found.steps.divergence, -np.log1p(-found.steps.forbidden), atol=1e-12)
    assert found.divergence > 0.1
    gained = found.log_perplexity_free - found.log_perplexity_constrained
    assert gained == pytest.approx(found.divergence, abs=1e-12)  # every target is allowed: it gains −log C


@pytest.mark.parametrize("many", [0, 4096])
def test_large_vocabularies_and_single_precision(many: int) -> None:
    """In the table form, and over so many symbols that batches are cut."""
    vocabulary = Vocabulary([*SYMBOLS[:-1], *(f"w{i}" for i in range(many)), EOS])
    grammar = Grammar('start: item*\nitem: "x" | "y" | W | "(" item* ")"\nW: /w[0-9]+/')
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(4))
    shaken(model, 2.0)
    assert measure_distortion(model, corpus(*TEXT), grammar).forbidden == pytest.approx(
        measure_distortion(model.double(), corpus(*TEXT), grammar).forbidden, rel=1e-4
    )
    found, free = measure_distortion(model, corpus(*TEXT), grammar), rows(model, ("x", "("), None)
    forbidden = [p[1] + p[4] for p in free[:2]] + [
        free[2][4] + free[2][-1]
    ]  # ) and z, and within brackets z and the end
    np.testing.assert_allclose(found.steps.forbidden[:2], forbidden[:2], atol=1e-12)
    assert found.steps.forbidden[2] == pytest.approx(forbidden[2], abs=1e-12)


def test_the_free_log_perplexity_is_that_of_evaluate() -> None:
    model = make_model(COUNTED, [contextual.Repeated(3)])
    found = measure_distortion(model, corpus(*TEXT, *OUTSIDE), Grammar(BRACKETS))
    assert found.log_perplexity_free == pytest.approx(evaluate(model, corpus(*TEXT)).log_perplexity)
    assert found.log_perplexity_of_all == pytest.approx(evaluate(model, corpus(*TEXT, *OUTSIDE)).log_perplexity)
    held = constrained(model, Grammar(BRACKETS))
    assert found.log_perplexity_constrained == pytest.approx(evaluate(held, corpus(*TEXT)).log_perplexity)


def test_sentences_outside_the_language_are_named_and_left_out() -> None:
    model = make_model(COUNTED)
    found = measure_distortion(model, corpus(OUTSIDE[0], *TEXT, OUTSIDE[1]), Grammar(BRACKETS, name="brackets"))
    assert (found.sentences, len(found.outside), found.soft) == (5, 2, False)
    assert "'z' at position 2 is outside the language of Grammar(brackets)" in found.outside[0].reason
    assert "'</s>' at position 3 is outside" in found.outside[1].reason
    assert set(found.steps.sentence.tolist()) == {1, 2, 3, 4, 5}
    check(found, by_hand(model, corpus(*TEXT), brackets))
    with pytest.raises(ZeroMassError, match=r"found none of 2; .*'z' at position 2 is outside"):
        measure_distortion(model, corpus(*OUTSIDE), Grammar(BRACKETS))
    with pytest.raises(ZeroMassError, match="found none of 0"):
        measure_distortion(model, corpus(), Grammar(BRACKETS))


def test_in_a_soft_constraint_they_stay_in_and_are_told() -> None:
    found = measure_distortion(make_model(COUNTED), corpus(*TEXT, *OUTSIDE), Grammar(BRACKETS, violation=0.5))
    assert (found.sentences, len(found.outside), found.soft) == (7, 2, True)
    assert found.log_perplexity_of_all == found.log_perplexity_free


@pytest.mark.parametrize(
    "make",
    [
        lambda held: held,
        lambda held: COUNTED * held,
        lambda held: held * COUNTED * Mask(allowed=SYMBOLS),
        lambda held: Primed(COUNTED * held, ["x"], boost=2.0, absent=0.5),
        lambda held: Primed(held, ["x"], boost=2.0, absent=0.5) * COUNTED,
    ],
    ids=["alone", "first", "of three", "under priming", "primed itself"],
)
@pytest.mark.parametrize("how", [{}, {"violation": 0.2}, {"longest": 9}, {"name": "b.lark"}], ids=str)
def test_a_model_that_holds_the_constraint_is_measured_without_it(
    make: Callable[[Background], Background], how: dict[str, object]
) -> None:
    """However it is held to: strictly, at a length, by another name."""
    held, free = make_model(make(Grammar(BRACKETS, **how))), make_model(make(Uniform()))  # type: ignore[arg-type]
    found = measure_distortion(held, corpus(*TEXT, condition="x"), Grammar(BRACKETS))
    assert found.held
    check(found, by_hand(free, corpus(*TEXT, condition="x"), brackets))
    assert measure_distortion(free, corpus(*TEXT, condition="x"), Grammar(BRACKETS)).forbidden == pytest.approx(
        found.forbidden
    )


def test_another_constraint_stays_part_of_the_model() -> None:
    other = Grammar(BRACKETS.replace('"x"', '"x" | "z"'))
    model = make_model(COUNTED * other)
    found = measure_distortion(model, corpus(*TEXT), Grammar(BRACKETS))
    assert not found.held
    check(found, by_hand(model, corpus(*TEXT), brackets))
    mixed = make_model(Mixture(Grammar(BRACKETS), COUNTED))  # within a mixture it is no factor
    found = measure_distortion(mixed, corpus(*TEXT), Grammar(BRACKETS))
    assert not found.held
    check(found, by_hand(mixed, corpus(*TEXT), brackets))


def test_what_is_the_same_constraint() -> None:
    pattern = Automaton("( x | y )*", weighted=False)
    assert pattern.is_of(Automaton("( x | y )*<0.2>", weighted=True)) is False  # another expression
    assert pattern.is_of(Automaton("( x | y )*", weighted=False, violation=0.1, longest=3))
    assert not pattern.is_of(Automaton("( x | y )*", weighted=False, spelling={"a": "b"}))
    assert not pattern.is_of(Grammar('start: ("x" | "y")*'))
    assert not Grammar(BRACKETS).is_of(Grammar(BRACKETS, over="characters"))
    assert Dictionary(["a", "b"]).is_of(Dictionary(["b", "a"], longest=4))
    assert not Dictionary(["a", "b"]).is_of(Dictionary(["a"]))
    assert not Grammar(BRACKETS).is_of(COUNTED)


def test_without_leaves_other_backgrounds_as_they_are() -> None:
    for background in (
        COUNTED,
        COUNTED * Mask(allowed=SYMBOLS),
        Mixture(Grammar(BRACKETS), COUNTED),
        Primed(COUNTED, []),
    ):
        assert without(background, Grammar(BRACKETS)) is background
    left = without(Product(COUNTED, Grammar(BRACKETS), Grammar(BRACKETS)), Grammar(BRACKETS))
    assert repr(left) == repr(COUNTED)
    nothing = without(Product(Grammar(BRACKETS)), Grammar(BRACKETS)).bind(Vocabulary(SYMBOLS))
    assert not nothing.prior([]).dense(1).log_b.any()


def test_conditions_say_what_the_language_is() -> None:
    """A dictionary over characters: what the condition has may be spelled, and nothing else."""
    vocabulary = Vocabulary([*"abc", EOS])
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(4)).double()
    shaken(model, 2.0)
    pairs = [sentence("ab", {"name": "ab"}), sentence("ab", {"name": "ac"})]
    found = measure_distortion(model, Corpus.from_sentences(pairs), Dictionary(["c"]))
    assert (found.sentences, len(found.outside)) == (1, 1)
    assert "'b' at position 2 is outside" in found.outside[0].reason
    p = rows(model, tuple("ab"), {"name": "ab"})
    forbidden = [p[0][1] + p[0][3], p[1][0] + p[1][2] + p[1][3], p[2][:3].sum()]
    np.testing.assert_allclose(found.steps.forbidden, forbidden, atol=1e-12)


def test_the_given_model_stays_as_it_is() -> None:
    model = make_model(COUNTED * Grammar(BRACKETS))
    before = evaluate(model, corpus(*TEXT)).log_perplexity
    measure_distortion(model, corpus(*TEXT), Grammar(BRACKETS))
    assert evaluate(model, corpus(*TEXT)).log_perplexity == before


def test_an_open_vocabulary_has_cells_in_the_language() -> None:
    """A cell is a symbol by its name; which string of it a word is does not depend on the constraint."""
    vocabulary = Vocabulary(["a", "c", EOS], domains=[Regular({"b": "b+"}, {"b": 0.5})])
    grammar = Grammar('start: (A | CELL)*\nA: "a"\nCELL: /‹.*›/')
    counted = Unigram({"a": 3, "c": 2, "bb": 1, EOS: 1}, smoothing=0.1)
    text = corpus("a bb", "a bbb a", "c")
    for background in (counted, counted * grammar, grammar):
        model = LLRNN(vocabulary, output_features=features.Identity(), background=background, controller=GRU(4))
        shaken(model.double(), 2.0)
        found = measure_distortion(model, text, grammar)
        assert [one.sentence for one in found.outside] == ["sentence 3"]
        free, held = model if background is counted else None, constrained(model, grammar)
        assert found.log_perplexity_constrained == pytest.approx(evaluate(held, text[:2]).log_perplexity)
        if free is not None:
            assert found.log_perplexity_of_all == pytest.approx(evaluate(free, text).log_perplexity)
        assert found.held == (background is not counted)
