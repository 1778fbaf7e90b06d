"""Languages as backgrounds: the dense form, exceptions and tables say the same; products, mixtures, saving, words,
decoding and training with them are exact.

The language is written by hand (`goes_on`): brackets that close, and words of three kinds between them.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import llrnn
from helpers import shaken
from llrnn import GRU, LLRNN, Corpus, Vocabulary, contextual, features, train
from llrnn.ground.errors import BackgroundError, ZeroMassError
from llrnn.inference.evaluation import evaluate
from llrnn.knowledge.backgrounds import Automaton, Background, Grammar, Mask, Mixture, NGram, Primed, Uniform, Unigram
from llrnn.knowledge.backgrounds import constraint as module
from llrnn.knowledge.backgrounds.constraint import constraints_of
from llrnn.knowledge.contextual import ContextualFeature, Expert
from llrnn.knowledge.process import Batch
from llrnn.languages.grammars import rows
from llrnn.model.decode import Greedy, Sampling, generate
from llrnn.model.steering import constrained
from llrnn.model.testing import check_background, check_contextual
from llrnn.model.words import Entry, add
from llrnn.text.readers import Sentence, Token
from llrnn.text.vocabulary import EOS

TEXT = 'start: item*\nitem: A | B | "(" item* ")"\nA: /a[0-9]*/\nB: /b[0-9]*/'
MINUS_INFINITY = float("-inf")


def vocabulary_of(size: int) -> Vocabulary:
    """( ) and a third each of words a…, b… and c…; c is in no language here."""
    return Vocabulary(["(", ")", *("abc"[i % 3] + str(i) for i in range(size)), EOS])


SMALL, LARGE = vocabulary_of(9), vocabulary_of(5_000)


def goes_on(prefix: Sequence[str], symbol: str) -> bool:
    depth = prefix.count("(") - prefix.count(")")
    return symbol == "(" or symbol[0] in "ab" or (depth > 0 if symbol == ")" else symbol == EOS and depth == 0)


def words_inside(vocabulary: Vocabulary, length: int, seed: int) -> list[str]:
    """A beginning of a string of the language."""
    draw, found = random.Random(seed), list[str]()
    for _ in range(length):
        some = ["(", ")", *draw.choices(vocabulary.symbols[2:-1], k=9)]
        found.append(draw.choice([symbol for symbol in some if goes_on(found, symbol)]))
    return found


def states_along(background: Background, words: Sequence[str], condition: object = None) -> list[Any]:
    state, found = background.advance(background.initial(condition), background.vocabulary.eos), []
    for word in words:
        found.append(state)
        state = background.advance(state, background.vocabulary.id(word))
    return [*found, state]


def written(background: Background, states: Sequence[object]) -> torch.Tensor:
    return background.prior(states).dense(len(states)).log_b


def expected(vocabulary: Vocabulary, words: Sequence[str]) -> torch.Tensor:
    """log b by hand along a beginning of a string, (N, V)."""
    rows = [[goes_on(words[:i], symbol) for symbol in vocabulary.symbols] for i in range(len(words) + 1)]
    return torch.tensor(rows).double().log()


@pytest.fixture(params=["dense", "exceptions", "tables"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The three forms of an answer, over any vocabulary."""
    monkeypatch.setattr(module, "_SMALL", 10**9 if request.param == "dense" else 0)
    monkeypatch.setattr(module, "_FEW", 10**9 if request.param == "exceptions" else 0)
    return str(request.param)


# --- the forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocabulary", [SMALL, LARGE], ids=["small", "large"])
def test_all_forms_say_what_is_written_by_hand(vocabulary: Vocabulary, form: str) -> None:
    grammar = Grammar(TEXT).bind(vocabulary)
    for seed in range(3):
        words = words_inside(vocabulary, 7, seed)
        states = states_along(grammar, words)
        assert torch.equal(written(grammar, states), expected(vocabulary, words))
        for i, state in enumerate(states):  # alone as in company
            assert torch.equal(written(grammar, [state])[0], expected(vocabulary, words)[i])
        assert grammar.allowed(states[-1]) == [x for x in vocabulary.symbols if goes_on(words, x)]


def test_large_vocabularies_have_tables_and_exceptions() -> None:
    """Unless they are forced to, as in the other tests."""
    grammar = Grammar('start: "(" A ")"\nA: /a[0-9]*/').bind(LARGE)
    prior = grammar.prior(states_along(grammar, ["(", "a0", ")"]))
    assert not isinstance(prior, llrnn.layer.priors.FullPrior)
    assert len(prior.tables) == 2
    assert prior.exceptions.position.tolist() == [0, 2, 3]  # one symbol each; in the middle are 1,667


def test_outside_nothing_is_possible_in_any_form(form: str) -> None:
    grammar = Grammar(TEXT).bind(SMALL)
    states = states_along(grammar, ["a0", "c2", "a0"])
    assert torch.equal(written(grammar, states)[2:], torch.full((2, len(SMALL)), MINUS_INFINITY).double())
    assert torch.equal(written(grammar, states)[1], expected(SMALL, ["a0"])[1])
    assert written(grammar, [grammar.advance(states[-1], SMALL.eos)]).isfinite().any()  # the next sentence begins
    assert "'c2' at position 2" in str(grammar.refusal(states[-1]))


def test_soft_constraints_cost_once_and_then_nothing() -> None:
    for vocabulary in (SMALL, LARGE):
        soft = Grammar(TEXT, violation=0.25).bind(vocabulary)
        found = written(soft, states_along(soft, ["a0", "c2", "c5"]))
        rows = expected(vocabulary, ["a0"])
        assert torch.allclose(found[:2], rows.clamp(min=math.log(0.25)))
        assert torch.equal(found[2:], torch.zeros_like(found[2:]))
        assert constraints_of(soft) == ()
        assert soft.refusal(states_along(soft, ["c2"])[-1]) is None


# --- the laws ------------------------------------------------------------------------------------------------------

COUNTS = Unigram({symbol: 1.0 + i % 7 for i, symbol in enumerate(LARGE.symbols)})
KNOWLEDGE: dict[str, Callable[[], Background]] = {
    "grammar": lambda: Grammar(TEXT),
    "soft": lambda: Grammar(TEXT, violation=0.01),
    "weighted": lambda: Grammar(TEXT, weights={}),
    "longest": lambda: Grammar(TEXT, longest=4),
    "automaton": lambda: Automaton('( /a.*/ <0.0001> | "(" <0.1> )*'),
    "soft automaton": lambda: Automaton('( /a.*/ | "(" )*', weighted=False, violation=0.5),
    "product": lambda: Unigram({x: 1.0 + i for i, x in enumerate(SMALL.symbols)}, smoothing=0.1) * Grammar(TEXT),
    "mixture": lambda: Mixture(Grammar(TEXT), Uniform(), weights=[0.2, 0.8]),
    "mask": lambda: Mask(forbidden=["a0"]) * Grammar(TEXT),
    "primed": lambda: Primed(Grammar(TEXT), ["a0", "b1"], absent=0.5),
    "two": lambda: Grammar(TEXT) * Automaton("( /a.*/ | /b.*/ )*", weighted=False),
}


@pytest.mark.parametrize("kind", KNOWLEDGE)
@pytest.mark.parametrize("vocabulary", [SMALL, LARGE], ids=["small", "large"])
def test_laws_of_backgrounds(kind: str, vocabulary: Vocabulary) -> None:
    check_background(KNOWLEDGE[kind](), vocabulary, conditions=[None, "b1"], prefixes=3, length=3)


def test_laws_of_backgrounds_in_every_form(form: str) -> None:
    for kind in KNOWLEDGE:
        check_background(KNOWLEDGE[kind](), SMALL, conditions=[None, "b1"], prefixes=4, length=4)


@pytest.mark.parametrize("vocabulary", [SMALL, LARGE], ids=["small", "large"])
def test_laws_of_experts(vocabulary: Vocabulary) -> None:
    for background in (Grammar(TEXT, violation=0.01), Grammar(TEXT), Automaton('( /a.*/ | "(" )*', weighted=False)):
        check_contextual(Expert(background), vocabulary, prefixes=3, length=3)


@pytest.mark.parametrize("violation", [0.0, 0.01])
def test_an_expert_says_log_b_up_to_its_limit(violation: float) -> None:
    expert = Expert(Grammar(TEXT, violation=violation)).bind(LARGE)
    words = ["(", "a0", ")"]
    values = expert.values(states_along(expert.followed, words))
    assert len(values.position) <= 4 * 2 * 1_700  # only what is allowed is listed
    everything = torch.arange(len(LARGE))
    low = math.log(violation) if violation else -50.0
    for n in range(4):
        found = values.at(torch.full_like(everything, n), everything, len(LARGE))[:, 0]
        assert torch.allclose(found.double(), expected(LARGE, words)[n].clamp(min=low))


# --- together with other knowledge ---------------------------------------------------------------------------------


def bigrams() -> Background:
    draw = random.Random(1)
    lines = [draw.choices(SMALL.symbols[:-1], k=5) for _ in range(20)]
    text = Corpus.from_sentences([Sentence(tuple(Token(word) for word in line)) for line in lines])
    return NGram.from_corpus(text, order=2, folds=0)


@pytest.mark.filterwarnings("ignore:.*too little text")
def test_products_and_mixtures_are_sums_of_what_the_parts_say(form: str) -> None:
    counted = Unigram({symbol: 1.0 + i for i, symbol in enumerate(SMALL.symbols)})
    words, condition = words_inside(SMALL, 6, 3), "b1"
    for other in (counted, bigrams(), Mask(forbidden=["a0"]), Primed(counted, ["a0", "b1"], absent=0.1)):
        alone = other.bind(SMALL)
        theirs = written(alone, states_along(alone, words, condition)).expand(len(words) + 1, -1)
        for product in (other * Grammar(TEXT), Grammar(TEXT) * other):
            bound = product.bind(SMALL)
            found = written(bound, states_along(bound, words, condition))
            assert torch.allclose(found, theirs + expected(SMALL, words), atol=1e-12)
        mixed = Mixture(Grammar(TEXT), other, weights=[0.3, 0.7]).bind(SMALL)
        outside = [*words, "c2", "c5"]  # where only the other part has anything to say
        theirs = written(alone, states_along(alone, outside, condition)).expand(len(outside) + 1, -1)
        ours = torch.cat([expected(SMALL, words), torch.full((2, len(SMALL)), MINUS_INFINITY).double()])
        found = written(mixed, states_along(mixed, outside, condition))
        assert torch.allclose(found, torch.logaddexp(ours + math.log(0.3), theirs + math.log(0.7)), atol=1e-12)
        assert constraints_of(mixed) == ()
        assert [repr(one) for one in constraints_of(product.bind(SMALL))] == ["Grammar(8 alternatives)"]


def test_priming_over_a_grammar_looks_at_the_grammar_at_every_step() -> None:
    """At one position a row of many symbols has no exceptions, and looks as if it held everywhere."""
    primed = Primed(Grammar("start: A B\nA: /a[0-9]*/\nB: /b[0-9]*/"), ["a0", "b1"], absent=0.5).bind(LARGE)
    for state, kind in zip(states_along(primed, ["a0", "b1"], "b1"), ["a", "b", EOS], strict=True):
        allowed = written(primed, [state])[0] > MINUS_INFINITY
        assert {LARGE.symbols[i][: len(kind)] for i in torch.nonzero(allowed).view(-1).tolist()} == {kind}


# --- models --------------------------------------------------------------------------------------------------------


def make_model(
    background: Background | None, vocabulary: Vocabulary = SMALL, context: Sequence[ContextualFeature] = ()
) -> LLRNN:
    """Words of a kind share a class, but for a few."""
    phi = features.Function(lambda symbol: {f"kind:{symbol[0]}": 1.0, f"end:{symbol[-1]}": 0.5})
    model = LLRNN(vocabulary, output_features=phi, background=background, controller=GRU(4), contextual=context)
    shaken(model.double(), 2.0)
    return model


def batch_of(vocabulary: Vocabulary, *sentences: Sequence[str]) -> Batch:
    length = max(map(len, sentences)) + 1
    lines = [[*vocabulary.ids(words), *[vocabulary.eos] * (length - len(words))] for words in sentences]
    inputs = torch.tensor([[vocabulary.eos, *line[:-1]] for line in lines])
    mask = torch.tensor([[i <= len(words) for i in range(length)] for words in sentences])
    return Batch(inputs, torch.tensor(lines), mask)


SENTENCES: tuple[list[str], ...] = (["a0", "(", "b1", ")"], ["(", "(", ")", "a3", ")"], [], ["b4"])


def test_log_z_and_gradients_are_those_of_the_sum_over_v(form: str) -> None:
    """Class by class, exception by exception or written out: one number, and one gradient."""
    counted = Unigram({symbol: 1.0 + i for i, symbol in enumerate(SMALL.symbols)})
    for background in (Grammar(TEXT), counted * Grammar(TEXT), counted * Grammar(TEXT, violation=0.1)):
        model = make_model(background, context=[contextual.Repeated(3)])
        batch = batch_of(SMALL, *SENTENCES)
        ours = model.log_prob(batch)
        assert ours.isfinite().all()
        found = torch.autograd.grad(ours.sum(), list(model.parameters()))
        distribution, _ = model.scan(batch)
        rows = torch.log_softmax(distribution.word_terms[0], -1)
        theirs = rows.gather(1, batch.targets[batch.mask][:, None])[:, 0]
        for own, other in zip(found, torch.autograd.grad(theirs.sum(), list(model.parameters())), strict=True):
            assert torch.allclose(own, other, atol=1e-10)
        assert torch.allclose(ours, theirs, atol=1e-10)


def test_class_by_class_over_a_large_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and exceptions through the sums over classes, against the same written out."""
    monkeypatch.setattr("llrnn.layer.distribution.Distribution.way", "static")
    model = make_model(COUNTS * Grammar(TEXT), LARGE, [contextual.Repeated(3)])
    batch = batch_of(LARGE, *SENTENCES)
    ours = model.log_prob(batch)
    found = torch.autograd.grad(ours.sum(), list(model.parameters()))
    distribution, _ = model.scan(batch)
    assert not isinstance(distribution.prior, llrnn.layer.priors.FullPrior)
    rows = torch.log_softmax(distribution.word_terms[0], -1)
    theirs = rows.gather(1, batch.targets[batch.mask][:, None])[:, 0]
    assert torch.allclose(ours, theirs, atol=1e-9)
    for own, other in zip(found, torch.autograd.grad(theirs.sum(), list(model.parameters())), strict=True):
        assert torch.allclose(own, other, atol=1e-9)


def small_text(count: int = 30) -> Corpus:
    found = [words_inside(SMALL, 5, seed) for seed in range(count)]
    closed = [[*words, *[")"] * (words.count("(") - words.count(")"))] for words in found]
    return Corpus.from_sentences([Sentence(tuple(Token(word) for word in words)) for words in closed])


@pytest.mark.parametrize("background", ["grammar", "soft", "longest"])
def test_training_with_a_grammar_gets_better(background: str, form: str) -> None:
    model = make_model(Grammar(TEXT, longest=30) if background == "longest" else KNOWLEDGE[background]())
    before = evaluate(model, small_text()).log_perplexity
    records = list(train(model, small_text(), epochs=3, seed=1))
    after = evaluate(model, small_text())
    assert math.isfinite(after.log_perplexity)
    assert after.log_perplexity < before
    assert after.audit.worst_sum_error < 1e-9
    assert records


def test_a_sentence_outside_is_refused_with_its_word() -> None:
    model = make_model(Grammar(TEXT))
    with pytest.raises(ZeroMassError, match="'c2'"):
        model.log_prob(batch_of(SMALL, ["a0", "c2"]))


def in_language(words: Sequence[str]) -> bool:
    return all(goes_on(words[:i], word) for i, word in enumerate([*words, EOS]))


@pytest.mark.parametrize("vocabulary", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("strategy", [Sampling(), Greedy(), Sampling(2.0), Sampling(top_k=3), Sampling(top_p=0.6)])
def test_what_is_drawn_is_in_the_language(vocabulary: Vocabulary, strategy: Sampling | Greedy, form: str) -> None:
    model = constrained(make_model(COUNTS if vocabulary is LARGE else None, vocabulary), Grammar(TEXT, longest=8))
    found = generate(model, strategy=strategy, count=8, generator=torch.Generator().manual_seed(0))
    for one in found:
        assert one.finished
        assert len(one.words) <= 8
        assert in_language(one.words)
    for one in generate(model, beam=4, count=4):
        assert one.finished
        assert in_language(one.words)
    for one in generate(model, prefix="( a0 (", strategy=strategy, count=3, generator=torch.Generator().manual_seed(0)):
        assert in_language((*one.prefix, *one.words))


def test_beams_find_the_best_string_and_samples_come_as_often_as_they_are_probable(form: str) -> None:
    """All strings of a small language, by hand."""
    vocabulary = Vocabulary(["(", ")", "a0", "b1", EOS])
    model = constrained(make_model(None, vocabulary), Grammar(TEXT, longest=3))
    strings = [
        words
        for length in range(4)
        for words in itertools.product(vocabulary.symbols[:-1], repeat=length)
        if in_language(words)
    ]
    with torch.no_grad():
        log_p = {words: float(model.log_prob(batch_of(vocabulary, words)).sum()) for words in strings}
    assert math.fsum(map(math.exp, log_p.values())) == pytest.approx(1.0, abs=1e-12)
    best = sorted(log_p, key=lambda words: -log_p[words])
    found = generate(model, beam=40, count=40)
    assert [one.words for one in found[:5]] == best[:5]
    assert [one.log_prob for one in found[:5]] == pytest.approx([log_p[words] for words in best[:5]])
    drawn = Counter(one.words for one in generate(model, count=4_000, generator=torch.Generator().manual_seed(0)))
    assert set(drawn) <= set(strings)
    for words in best[:5]:
        share = math.exp(log_p[words])
        assert drawn[words] / 4_000 == pytest.approx(share, abs=5 * math.sqrt(share / 4_000))


def test_constrained_leaves_the_model_as_it_is_and_shares_its_weights() -> None:
    model = make_model(None)
    batch = batch_of(SMALL, ["a0", "b1"])
    with torch.no_grad():
        before = model.log_prob(batch)
        held = constrained(model, Grammar(TEXT))
        assert torch.equal(model.log_prob(batch), before)
        assert (held.log_prob(batch) > before).all()
    assert constraints_of(model.background) == ()
    assert len(constraints_of(held.background)) == 1
    for (name, ours), theirs in zip(model.named_parameters(), held.parameters(), strict=True):
        assert torch.equal(ours, theirs), name


# --- saving, and other words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "background",
    [
        Grammar(TEXT, longest=9, name="brackets"),
        Grammar(TEXT, weights={"item/1": 2.0}),
        Grammar(TEXT, violation=0.01),
        Uniform() * Grammar(TEXT) * Automaton('( /a.*/ | /b.*/ | "(" | ")" )*<0.01>'),
        Mixture(Grammar(TEXT), Uniform(), weights=[0.5, 0.5]),
        Primed(Grammar(TEXT), ["a0"], absent=0.5),
    ],
    ids=repr,
)
def test_a_saved_model_says_the_same(background: Background, tmp_path: Path) -> None:
    model = make_model(background, context=[Expert(Grammar(TEXT, violation=0.1), name="syntax")])
    model.save(tmp_path / "model")
    again = llrnn.load(tmp_path / "model")
    batch = batch_of(SMALL, *SENTENCES)
    with torch.no_grad():
        assert torch.allclose(again.double().log_prob(batch), model.log_prob(batch), atol=1e-6)
    assert repr(again.background) == repr(model.background)
    assert len(constraints_of(again.background)) == len(constraints_of(model.background))


def test_new_words_are_in_the_language_by_what_they_are_called() -> None:
    counted = Unigram({symbol: 1.0 + i for i, symbol in enumerate(SMALL.symbols)})
    seen = Vocabulary(SMALL.symbols, counts=[1 + i for i in range(len(SMALL))])
    model = make_model(counted * Grammar(TEXT), seen)
    more = add(model, [Entry("a77", frozenset(), count=1), Entry("c88", frozenset(), count=1)])
    with torch.no_grad():
        old, _ = model.step(model.start(), [model.vocabulary.eos])
        new, _ = more.step(more.start(), [more.vocabulary.eos])
        ours, theirs = old.log_probs()[0], new.log_probs()[0]
    ids = [more.vocabulary.id(symbol) for symbol in SMALL.symbols]
    allowed = torch.tensor([goes_on([], symbol) for symbol in SMALL.symbols])
    assert torch.equal(theirs[ids] > MINUS_INFINITY, allowed)
    gap = (theirs[ids] - ours)[allowed]
    assert torch.allclose(gap, gap[:1].expand_as(gap), atol=1e-9)  # what stays, stays in proportion
    assert theirs[more.vocabulary.id("a77")] > MINUS_INFINITY
    assert theirs[more.vocabulary.id("c88")] == MINUS_INFINITY
    advised = add(make_model(None, seen, [Expert(Grammar(TEXT, violation=0.1))]), [Entry("a77", frozenset(), count=1)])
    (expert,), place = advised.contextual, torch.tensor([advised.vocabulary.id("a77"), advised.vocabulary.id("c2")])
    values = expert.values([expert.initial()]).at(torch.zeros_like(place), place, len(advised.vocabulary))
    assert values[:, 0].tolist() == pytest.approx([0.0, math.log(0.1)])


# --- lengths, and what is remembered -------------------------------------------------------------------------------


@pytest.mark.parametrize("longest", range(5))
def test_with_a_limit_a_symbol_is_possible_if_a_string_within_it_goes_on_so(longest: int, form: str) -> None:
    vocabulary = Vocabulary(["(", ")", "a0", "c1", EOS])
    grammar = Grammar(TEXT, longest=longest).bind(vocabulary)
    letters = vocabulary.symbols[:-1]
    whole = [w for n in range(longest + 1) for w in itertools.product(letters, repeat=n) if in_language(w)]
    begun = {words[:i] for words in whole for i in range(len(words) + 1)}
    for words in begun:
        state = states_along(grammar, words)[-1]
        allowed = {symbol for symbol in letters if (*words, symbol) in begun} | ({EOS} if words in whole else set())
        assert set(grammar.allowed(state)) == allowed
        found = written(grammar, [state])[0] > MINUS_INFINITY
        assert {vocabulary.symbols[i] for i in torch.nonzero(found).view(-1).tolist()} == allowed
        for symbol in {*letters} - allowed:
            assert grammar.advance(state, vocabulary.id(symbol)).node is None


def test_a_limit_that_no_string_keeps_is_refused() -> None:
    with pytest.raises(BackgroundError, match="the shortest string has 2 letters, but longest=1"):
        Grammar('start: "(" ")"', longest=1).bind(SMALL)


def test_what_is_forgotten_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested brackets have a node for each depth, and the same few rows."""
    monkeypatch.setattr(rows, "MOST_NODES", 5)
    grammar = Grammar(TEXT).bind(SMALL)
    deep = ["("] * 30 + [")"] * 30
    for _ in range(2):
        assert torch.equal(written(grammar, states_along(grammar, deep)), expected(SMALL, deep))
    reader = grammar.initial(None).reader
    assert len(reader._rows) <= 6
    assert len(reader._interned) <= 2
    monkeypatch.setattr(rows, "MOST_CACHED", 1)
    assert torch.equal(written(grammar, states_along(grammar, deep)), expected(SMALL, deep))


def test_an_expert_does_not_compile_its_language_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counter[str]()
    made = Grammar.bind

    def bind(self: Grammar, vocabulary: Vocabulary) -> Grammar:
        counted["bound"] += 1
        return made(self, vocabulary)

    monkeypatch.setattr(Grammar, "bind", bind)
    Expert(Grammar(TEXT, violation=0.1)).bind(SMALL)
    assert counted["bound"] == 1
