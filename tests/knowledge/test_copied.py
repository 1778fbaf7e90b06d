"""Copying from the condition: what is offered, begun, said and left, word by word from the definitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from brute import Array, Brute
from helpers import sentence_log_probs, shaken
from llrnn import EOS, GRU, LLRNN, Greedy, Vocabulary, contextual, explain, generate, load, words
from llrnn.ground.errors import CheckpointError, FeatureError, LLRNNError
from llrnn.inference.explanation import Explanation
from llrnn.knowledge.backgrounds import Mask, Uniform, Unigram
from llrnn.knowledge.contextual import ContextualFeature, Continued, Copied, Expert, Mentioned, Unmentioned
from llrnn.knowledge.features import Identity, compile_features
from llrnn.knowledge.process import Batch, Saved
from llrnn.languages.domains import Numbers
from llrnn.layer.loglinear import LogLinear
from llrnn.model.testing import check_contextual
from llrnn.model.words import Entry
from llrnn.text.conditions import parse_act
from strategies import QUICK

pytestmark = pytest.mark.usefixtures("each_sum")

WORDS = ["a", "b", EOS, "c", "d"]
VOCABULARY = Vocabulary(WORDS)
V = len(WORDS)
SLOTS = ("name", "food", "area")

Phrases = Sequence[tuple[str, ...]]
Values = Mapping[str, list[tuple[str, ...]]]
ALL: list[ContextualFeature] = [
    Copied(),
    Copied("name"),
    Copied("food", "name"),
    Continued(),
    Mentioned(),
    Mentioned("area", "name"),
    Unmentioned(),
    Unmentioned("food", "area"),
]


def condition_of(values: Values) -> dict[str, list[str]]:
    return {slot: [" ".join(value) for value in several] for slot, several in values.items()}


# --- the oracle: the definitions, on lists of words -----------------------------------------------------------------


def sentence_of(fed: Sequence[str]) -> list[str]:
    """The words after the last EOS."""
    last = max((i for i, word in enumerate(fed) if word == EOS), default=-1)
    return list(fed[last + 1 :])


def occurrences(value: Sequence[str], sentence: Sequence[str]) -> list[set[int]]:
    """The places of its words, for each."""
    n = len(value)
    return [set(range(i, i + n)) for i in range(len(sentence)) if list(sentence[i : i + n]) == list(value)]


def was_said(value: Sequence[str], sentence: Sequence[str], every: Phrases) -> bool:
    """Somewhere, not within a longer value of the condition."""
    longer = [places for other in every if len(other) > len(value) for places in occurrences(other, sentence)]
    return any(not any(places <= others for others in longer) for places in occurrences(value, sentence))


def matching(value: Sequence[str], sentence: Sequence[str]) -> int:
    lengths = [k for k in range(1, len(value)) if k <= len(sentence) and list(sentence[-k:]) == list(value[:k])]
    return max(lengths, default=0)


def defined(kind: str, values: Phrases, others: Phrases, every: Phrases, fed: Sequence[str], word: str) -> float:
    """One feature on one word; `values` are those of its slot, `others` of all slots that it has, `every` of all."""
    sentence = sentence_of(fed)
    left = [value for value in values if not was_said(value, sentence, every)]
    offered = {value[i] for value in left for i in (0, matching(value, sentence))}
    if kind == "Copied":
        return float(word in offered)
    if kind == "Continued":
        begun = [(value, matching(value, sentence)) for value in left]
        return float(any(k >= 1 and value[k] == word for value, k in begun))
    if kind == "Mentioned":
        spoken = any(was_said(value, sentence, every) and value[0] == word for value in values)
        return float(spoken and not defined("Copied", others, others, every, fed, word))
    return float(len(left)) if word == EOS else 0.0


def oracle(feature: ContextualFeature, values: Values, fed: Sequence[str], listed: Sequence[str] = WORDS) -> Array:
    """(V, width)"""
    kind, *asked = feature.names[0].split(":")
    slots = [name.split(":")[1] for name in feature.names] if asked else unsaid_slots(feature)
    all_known = {
        slot: [value for value in dict.fromkeys(several) if all(w in listed and w != EOS for w in value)]
        for slot, several in values.items()
    }
    every = [value for several in all_known.values() for value in several]
    known = {slot: several for slot, several in all_known.items() if slot in slots or not slots}
    everything = [value for several in known.values() for value in several]
    columns = [known.get(slot, []) for slot in slots] if asked else [everything]
    return np.array([[defined(kind, column, everything, every, fed, word) for column in columns] for word in listed])


def unsaid_slots(feature: ContextualFeature) -> list[str]:
    """Its one feature does not name them."""
    slots: list[str] = feature.saved().fields["slots"]
    return slots


def states_along(feature: ContextualFeature, condition: object, fed: Sequence[str]) -> list[object]:
    """The state before any word, and after each."""
    first = feature.initial(condition)
    return [first, *feature.scan([first], [feature.vocabulary.ids(fed)])[0]]


def written_out(feature: ContextualFeature, states: Sequence[object], size: int = V) -> Array:
    """(N, V, width)"""
    found, n = feature.values(states), len(states)
    key = found.position * size + found.word
    assert bool((key[1:] > key[:-1]).all()), "sorted, each once"
    assert bool((found.value != 0).any(1).all()), "only words with a value are exceptions"
    at = found.at(torch.arange(n).repeat_interleave(size), torch.arange(size).repeat(n), size)
    dense: Array = at.view(n, size, -1).double().numpy()
    return dense


# --- the values -----------------------------------------------------------------------------------------------------

some_words = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(tuple)
odd_words = st.sampled_from([("a", "new"), ("new",), (EOS,), ("a", EOS, "b")])  # what cannot be pointed at
some_values = st.dictionaries(
    st.sampled_from([*SLOTS, "phone"]), st.lists(st.one_of(some_words, some_words, odd_words), max_size=3), max_size=4
)
some_text = st.lists(st.sampled_from(["a", "a", "b", "b", "c", "d", EOS]), max_size=14)


@QUICK
@given(some_values, some_text)
@example({"name": [("a", "a", "b"), ("a", "b", "a")]}, ["a", "a", "a", "b", "a"])
@example({"name": [("a", "b", "a", "b", "c")], "food": [("b",)]}, f"{EOS} a b a b a b c {EOS} {EOS} a b".split())
@example({"name": [("a", "b")], "food": [("a", "c")], "area": [("a",)]}, f"a b a c {EOS} a".split())
@example({"name": [("a", "b", "c")], "food": [("b", "c")], "area": [("b",)]}, f"a b c b c b {EOS} b c a b c".split())
def test_the_values_are_those_of_the_definition(values: Values, fed: Sequence[str]) -> None:
    for unbound in ALL:
        feature = unbound.bind(VOCABULARY)
        states = states_along(feature, condition_of(values), fed)
        wanted = np.stack([oracle(feature, values, fed[:n]) for n in range(len(states))])
        npt.assert_array_equal(written_out(feature, states), wanted, err_msg=repr(feature))
        rest, own = feature.value(states[-1])
        assert [own.get(x, rest) for x in range(V)] == [row if len(row) > 1 else row[0] for row in wanted[-1].tolist()]


ACT = parse_act("inform(name='trattoria contadina';pricerange=moderate;near='the trattoria';kidsallowed=yes;phone)")
SPOKEN = Vocabulary([EOS, "the", "trattoria", "contadina", "is", "moderate", "and", "cheap"])


def fires(feature: ContextualFeature, text: str, condition: object = ACT) -> dict[str, object]:
    bound = feature.bind(SPOKEN)
    _, own = bound.value(states_along(bound, condition, text.split())[-1])
    return {SPOKEN.symbols[x]: value for x, value in own.items()}


def test_a_name_that_holds_a_value_does_not_say_it() -> None:
    both = {"name": "the moderate trattoria", "pricerange": "moderate"}
    assert fires(Unmentioned(), "the moderate", both) == {EOS: 1.0}  # as long as the name is not all there
    assert fires(Unmentioned(), "the moderate trattoria", both) == {EOS: 1.0}
    assert fires(Copied("pricerange"), "the moderate trattoria is", both) == {"moderate": 1.0}
    assert fires(Unmentioned(), "the moderate trattoria is moderate", both) == {}
    assert fires(Unmentioned(), "moderate is the moderate trattoria and the moderate trattoria", both) == {}


def test_an_act_that_is_spoken() -> None:
    assert fires(Copied("name"), EOS) == {"trattoria": 1.0}
    assert fires(Copied("name"), f"{EOS} the trattoria") == {"trattoria": 1.0, "contadina": 1.0}
    assert fires(Copied("name", "near"), f"{EOS} the") == {"trattoria": [1.0, 1.0], "the": [0.0, 1.0]}
    assert fires(Copied(), "the trattoria contadina is") == {"moderate": 1.0}
    assert fires(Continued(), EOS) == {}
    assert fires(Continued(), "trattoria") == {"contadina": 1.0}
    assert fires(Continued(), "the") == {"trattoria": 1.0}
    assert fires(Mentioned(), "trattoria contadina") == {"trattoria": 1.0}  # `the trattoria` would begin with another
    assert fires(Mentioned(), "trattoria contadina and the") == {}  # but now it goes on with this one
    assert fires(Mentioned("name", "pricerange"), "moderate trattoria contadina") == {
        "trattoria": [1.0, 0.0],
        "moderate": [0.0, 1.0],
    }
    assert fires(Unmentioned(), EOS) == {EOS: 3.0}
    assert fires(Unmentioned("name", "pricerange"), "the trattoria is moderate") == {EOS: 1.0}
    assert fires(Unmentioned(), f"the trattoria contadina is moderate {EOS}") == {EOS: 3.0}
    assert fires(Unmentioned(), "the trattoria contadina is moderate") == {}


def test_what_has_no_slots_has_nothing_to_copy() -> None:
    nothing: list[object] = [
        None,
        "the trattoria contadina",
        3,
        ["the"],
        {},
        parse_act("hello()"),
        parse_act("?request(a)"),
    ]
    for condition in nothing:
        for feature in ALL:
            assert fires(feature, "the trattoria", condition) == {}
    assert fires(Copied("food"), "the trattoria") == {}


def test_names() -> None:
    assert [feature.names for feature in ALL[:4]] == [
        ("Copied",), ("Copied:name",), ("Copied:food", "Copied:name"), ("Continued",),
    ]  # fmt: skip
    assert [feature.names for feature in ALL[4:]] == [
        ("Mentioned",),
        ("Mentioned:area", "Mentioned:name"),
        ("Unmentioned",),
        ("Unmentioned",),
    ]
    assert repr(ALL[2]) == "Copied('food', 'name')"
    assert repr(Continued()) == "Continued()"
    for given_slots in (("name", "name"), (["name"],)):
        with pytest.raises(FeatureError, match=r"Copied\(...\) takes the names of slots, each once, found"):
            Copied(*given_slots)
    with pytest.raises(LLRNNError, match="must be bound to a vocabulary"):
        Copied().initial(ACT)


CONDITIONS: list[object] = [
    {"name": ["a a b", "a b a"], "food": "a", "phone": "c"},
    None,
    parse_act("inform(name='b a b c';area=d;food='a d')"),
    "a b",
    {"name": "d a", "food": ["d", "new", "d b"], "area": ["b", "c c"]},
]


@pytest.mark.parametrize("feature", ALL, ids=repr)
def test_the_laws(feature: ContextualFeature) -> None:
    check_contextual(feature, VOCABULARY, conditions=CONDITIONS, prefixes=20, length=8)
    check_contextual(feature, Vocabulary([EOS, "a"]), conditions=CONDITIONS)


# --- in the log-linear layer ----------------------------------------------------------------------------------------


@QUICK
@given(some_values, some_text, st.integers(0, 1000), st.booleans())
def test_log_p_is_the_sum_over_all_words(values: Values, fed: Sequence[str], seed: int, masked: bool) -> None:
    """Sparse, written out, and by brute force, with the gradient."""
    bound = [feature.bind(VOCABULARY) for feature in ALL]
    n, width = len(fed) + 1, sum(len(feature.names) for feature in bound)
    background = Uniform() * Mask(forbidden=["b"]) if masked else Unigram({"a": 3.0, "c": 1.0}, smoothing=0.3)
    prior = background.bind(VOCABULARY).prior([])
    found = [feature.values(states_along(feature, condition_of(values), fed)) for feature in bound]
    matrix = compile_features(Identity(), VOCABULARY)
    layer, generator = LogLinear(matrix, 3, width, zero=True).double(), torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        parameter.data.copy_(2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    h = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    a = torch.cat([h @ layer.weight.t() + layer.bias, h @ layer.context_weight.t() + layer.context_bias], 1)
    wanted = [np.concatenate([oracle(feature, values, fed[:i]) for feature in bound], 1) for i in range(n)]
    log_b = prior.dense(n).log_b.numpy()
    brute = Brute(matrix.names, [matrix.row(x) for x in range(V)], log_b, np.stack(wanted), a.detach().numpy())
    distribution = layer(h, prior, found)
    npt.assert_allclose(distribution.log_probs().detach().numpy(), brute.log_probs, rtol=0, atol=1e-9)
    npt.assert_allclose(layer(h, prior.dense(n), found).log_probs().detach().numpy(), brute.log_probs, atol=1e-9)
    targets = [0] * n
    distribution.log_prob(torch.tensor(targets)).sum().backward()
    gradient = brute.gradient(targets)[:, len(matrix.names) :].sum(0)
    assert layer.context_bias.grad is not None
    npt.assert_allclose(layer.context_bias.grad.numpy(), gradient, rtol=0, atol=1e-8)


# --- in a model -----------------------------------------------------------------------------------------------------

FOUR = (Copied(*SLOTS), Continued(), Mentioned(*SLOTS), Unmentioned())


def a_model(seed: int = 0, vocabulary: Vocabulary = VOCABULARY, features: Sequence[ContextualFeature] = FOUR) -> LLRNN:
    background = Unigram(dict.fromkeys(vocabulary.words, 1.0), smoothing=1.0)
    model = LLRNN(
        vocabulary, output_features=Identity(), background=background, controller=GRU(4), contextual=features
    ).double()
    shaken(model, 2.0, seed)
    return model


def a_batch(texts: Sequence[str], conditions: Sequence[object]) -> Batch:
    """Rows that go on over several sentences, the shorter ones filled up."""
    rows = [[VOCABULARY.eos, *VOCABULARY.ids(text.split())] for text in texts]
    longest = max(map(len, rows))
    filled = torch.tensor([row + [VOCABULARY.eos] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[t < len(row) for t in range(longest)] for row in rows])
    return Batch(filled, filled.roll(-1, 1), mask, conditions)


def part_of(batch: Batch, columns: slice) -> Batch:
    cut = [part[:, columns] for part in (batch.inputs, batch.targets, batch.mask)]
    return Batch(cut[0], cut[1], cut[2], batch.conditions)


TEXTS = [f"a a a b a {EOS} a b", "c d a b", f"a b a b c {EOS} {EOS} d a d b", f"{EOS} a", "d b c c d a d"]


def test_a_batch_at_once_is_word_by_word() -> None:
    model, batch = a_model(), a_batch(TEXTS, CONDITIONS)
    with torch.no_grad():
        distribution, after = model.scan(batch)
        rows = iter(distribution.log_probs())
        for number, text in enumerate(TEXTS):
            state = model.start([CONDITIONS[number]])
            for word in [EOS, *text.split()]:
                one, state = model.step(state, [VOCABULARY.id(word)])
                npt.assert_allclose(one.log_probs()[0].numpy(), next(rows).numpy(), atol=1e-12)
            if len(text.split()) + 1 == batch.inputs.shape[1]:
                assert [states[0] for states in state.knowledge] == [states[number] for states in after.knowledge]
        first, rest = (part_of(batch, slice(0, 5)), part_of(batch, slice(5, None)))
        begun, state = model.scan(first)
        ended, _ = model.scan(rest, state)
        halves = torch.cat([begun.log_prob(first.targets[first.mask]), ended.log_prob(rest.targets[rest.mask])])
        assert float(halves.sum()) == pytest.approx(float(model.log_prob(batch).sum()), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_several_conditions_are_spoken_of_together_as_alone(seed: int) -> None:
    model, eos = a_model(seed), VOCABULARY.eos
    alone = [generate(model, condition=one, strategy=Greedy(), max_words=8)[0] for one in CONDITIONS]
    state, fed = model.start(CONDITIONS), [eos] * len(CONDITIONS)
    spoken: list[list[int]] = [[] for _ in CONDITIONS]
    with torch.no_grad():
        for _ in range(8):
            distribution, state = model.step(state, fed)
            fed = Greedy().choose(distribution, None)
            for row, word in zip(spoken, fed, strict=True):
                row += [word] if not row or row[-1] != eos else []
    assert [[VOCABULARY.symbols[x] for x in row if x != eos] for row in spoken] == [list(one.words) for one in alone]
    for one, condition in zip(alone, CONDITIONS, strict=True):
        log_probs = sentence_log_probs(model, one.words, condition)
        assert one.log_prob == pytest.approx(sum(log_probs if one.finished else log_probs[:-1]), abs=1e-9)


def test_strong_weights_say_everything_once() -> None:
    """By hand: copy what is there, go on with what was begun, do not end before all is said."""
    features = (Copied(), Continued(), Unmentioned())
    model = a_model(vocabulary=SPOKEN, features=features)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.layer.context_bias.copy_(torch.tensor([5.0, 2.0, -9.0]))
        model.layer.bias[model.output_features.names.index(f"Word:{EOS}")] = 1.0
    condition = {"name": "the trattoria", "price": "moderate"}
    (found,) = generate(model, condition=condition, strategy=Greedy())
    assert found.words in {("the", "trattoria", "moderate"), ("moderate", "the", "trattoria")}
    assert found.finished
    told = explain(model, prefix=("the",), word="trattoria", condition=condition)
    assert isinstance(told, Explanation)
    assert {term.name: term.value for term in told.terms if term.weight} == {"Copied": 1.0, "Continued": 1.0}


def test_a_saved_model_copies_as_before(tmp_path: Path) -> None:
    model, batch = a_model(), a_batch(TEXTS, CONDITIONS)
    model.float().save(tmp_path)
    again = load(tmp_path)
    assert repr(again.contextual) == repr(model.contextual)
    assert again.context_names == model.context_names
    assert torch.equal(again.log_prob(batch), model.log_prob(batch))
    for feature in ALL:
        restored = contextual.restore(feature.saved())
        assert (type(restored), restored.names, repr(restored)) == (type(feature), feature.names, repr(feature))


class Mine(Copied):
    """Of a user."""


def test_a_class_made_of_one_of_these_is_given_again() -> None:
    assert Mine("name").saved() == Saved("custom", {"repr": "Mine('name')"})
    with pytest.raises(CheckpointError, match=r"of your own, Mine\('name'\)"):
        contextual.restore(Mine("name").saved())


# --- words that are not listed --------------------------------------------------------------------------------------


def test_only_listed_words_can_be_pointed_at() -> None:
    """A number of an open vocabulary has no symbol but its cell; once it is listed, it is copied like any other."""
    listed = [EOS, "a", "b", "12"]
    opened = Vocabulary(listed, counts=[4, 3, 2, 1], domains=[Numbers("en")])
    condition = {"name": ["a 345", "a 12", "345"]}
    model = a_model(vocabulary=opened, features=(Copied(), Continued(), Mentioned(), Unmentioned()))
    fed = [EOS, "a", "12", "a", "345", "a"]
    values: Values = {"name": [("a", "345"), ("a", "12"), ("345",)]}
    more = words.add(model, [Entry("345")])
    for made, known in ((model, listed), (more, [*listed, "345"])):
        size = len(made.vocabulary)
        for feature in made.contextual:
            found = written_out(feature, states_along(feature, condition, fed), size)
            wanted = [oracle(feature, values, fed[:n], known) for n in range(len(fed) + 1)]
            npt.assert_array_equal(found[:, : len(known)], np.stack(wanted))
            assert not found[:, len(known) :].any()  # no cell is ever pointed at
        assert math.isclose(sum(math.exp(explained(made, x, condition)) for x in range(size)), 1.0, abs_tol=1e-9)


def explained(model: LLRNN, symbol: int, condition: object) -> float:
    with torch.no_grad():
        distribution, _ = model.step(model.start([condition]), [model.vocabulary.eos])
        return float(distribution.log_probs()[0, symbol])


def test_a_symbol_for_unknown_words_is_not_the_word() -> None:
    vocabulary = Vocabulary([EOS, "a", "<unk>"], unknown="<unk>")
    feature = Unmentioned().bind(vocabulary)
    assert feature.value(feature.initial({"name": ["a", "other", "a other"]})) == (0.0, {0: 1.0})


def test_beside_other_knowledge() -> None:
    """Names do not clash with those of experts, and weights go to the right coordinate."""
    model = a_model(features=(Expert(Unigram({"a": 1.0}, smoothing=1.0)), *FOUR))
    wanted = ("expert", *(f"Copied:{s}" for s in SLOTS), "Continued", *(f"Mentioned:{s}" for s in SLOTS), "Unmentioned")
    assert model.context_names == wanted
    told = explain(model, prefix=("d",), word="a", condition=CONDITIONS[4])
    assert isinstance(told, Explanation)
    values = {term.name: term.value for term in told.terms if term.name.split(":")[0] in ("Copied", "Continued")}
    assert values == {"Copied:name": 1.0, "Continued": 1.0}
