"""Priming by the condition: over any base, with words or cells as entities, fitted, revised, and back from disk."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brute import Array
from helpers import shaken, small_model, small_vocabulary
from llrnn import GRU, LLRNN, Corpus, Vocabulary, domains, features, load
from llrnn.ground.errors import BackgroundError, CheckpointError, LLRNNError, UnknownWordError, ZeroMassError
from llrnn.knowledge.backgrounds import (
    Background,
    Mask,
    Mixture,
    Model,
    NGram,
    Primed,
    Product,
    Static,
    Uniform,
    Unigram,
    entity_words,
    restore,
)
from llrnn.knowledge.backgrounds.primed import words_of
from llrnn.knowledge.process import Batch, Process, Saved, State
from llrnn.layer.priors import DensePrior, Prior, SparsePrior
from llrnn.model.testing import check_background
from llrnn.model.words import Entry, add, remove
from llrnn.text.conditions import Act, Slot, parse_act
from llrnn.text.corpus import Sentence, Token
from llrnn.text.vocabulary import EOS
from strategies import MINUS_INFINITY, QUICK, Case, feature_rows, log_masses, vocabulary_of
from test_ngrams import quiet
from test_words import NEW, closed_model, entries, ngram, open_model, prefixes, unigram

pytestmark = pytest.mark.usefixtures("each_sum")

pytestmark = quiet


class WrittenOut(Background):
    """A base that gives all values at once, as a neural model does."""

    def __init__(self, base: Background) -> None:
        self._base = base

    def bind(self, vocabulary: Vocabulary) -> WrittenOut:
        return WrittenOut(self._base.bind(vocabulary))

    def initial(self, condition: object = None) -> State:
        return self._base.initial(condition)

    def advance(self, state: State, symbol: int) -> State:
        return self._base.advance(state, symbol)

    def prior(self, states: Sequence[State]) -> Prior:
        return self._base.prior(states).dense(len(states))


def log_b_after(background: Background, condition: object, prefix: Sequence[int]) -> Array:
    """log b of every symbol, asked for one context alone, of a background that is bound, (V,)."""
    state = background.initial(condition)
    for symbol in prefix:
        state = background.advance(state, symbol)
    return background.prior([state]).dense(1).log_b[0].numpy()


def by_definition(
    base: Array,
    vocabulary: Vocabulary,
    entities: Sequence[str],
    evidence: Mapping[str, float],
    boost: float,
    absent: float,
) -> Array:
    """The three lines of the equation, word by word."""
    found = []
    for word, log in zip(vocabulary, base.tolist(), strict=True):
        factor = 1.0 if word not in entities else evidence[word] * boost if word in evidence else absent
        found.append(log + math.log(factor) if factor > 0 else MINUS_INFINITY)
    return np.array(found)


# --- the equation -----------------------------------------------------------------------------------------------------


@st.composite
def bases(draw: st.DrawFn, vocabulary: Vocabulary, kinds: Sequence[str]) -> Background:
    kind = draw(st.sampled_from(kinds))
    if kind == "static":
        log_b = [draw(log_masses) for _ in vocabulary]
        return Static(torch.tensor([*log_b[:-1], -0.5], dtype=torch.float64))  # the end has mass, and is no entity
    if kind == "n-gram":
        sentence = st.lists(st.sampled_from(vocabulary.words[:-1]), min_size=1, max_size=4)
        text = Corpus.from_sentences(draw(st.lists(sentence, min_size=1, max_size=4)))
        return NGram.from_corpus(text, order=draw(st.integers(1, 3)), folds=0)
    parts = [draw(bases(vocabulary, ("static", "n-gram"))) for _ in range(2)]
    if kind == "mixture":
        return Mixture(*parts, weights=[0.3, 0.7])
    if kind == "product":
        return Product(*parts)
    if kind == "written out":
        return WrittenOut(parts[0])
    return Primed(parts[0], [vocabulary.words[0]], boost=2.0, absent=0.25)


KINDS = ("static", "n-gram", "mixture", "product", "primed", "written out")


@st.composite
def conditions(draw: st.DrawFn, words: Sequence[str]) -> object:
    said = draw(st.lists(st.sampled_from([*words, "elsewhere"]), max_size=4))
    forms: list[object] = [
        None,
        " ".join(said),
        said,
        {"one": said[:1], "other": " ".join(said[1:])},
        Act("inform", (Slot("asked"), *(Slot("of", word) for word in said))),
    ]
    return draw(st.sampled_from(forms))


def everywhere(condition: object) -> dict[str, float]:
    """Evidence of several strengths; none at all, where it is 0."""
    return dict(zip(words_of(condition), itertools.cycle([0.5, 0.0, 3.0]), strict=False))


@st.composite
def primed_cases(draw: st.DrawFn) -> tuple[Primed, Background, Vocabulary, list[object], list[list[int]], Array]:
    """A primed background, its base, the contexts in a rectangle, and log b there by definition, (B · T, V)."""
    vocabulary = vocabulary_of(draw(st.integers(2, 6)))
    words = vocabulary.words[:-1]
    base = draw(bases(vocabulary, KINDS))
    entities = sorted(draw(st.sets(st.sampled_from(words))))
    evidence = draw(st.sampled_from([words_of, everywhere]))
    boost, absent = draw(st.floats(0.1, 50.0)), draw(st.sampled_from([0.0, 1e-12, 0.2, 1.5]))
    said = [draw(conditions(words)) for _ in range(draw(st.integers(1, 3)))]
    length = draw(st.integers(1, 4))
    symbol = st.integers(0, len(vocabulary) - 1)
    rows = [[vocabulary.eos, *(draw(symbol) for _ in range(length - 1))] for _ in said]
    bound = base.bind(vocabulary)
    wanted = [
        by_definition(
            log_b_after(bound, condition, row[: t + 1]), vocabulary, entities, evidence(condition), boost, absent
        )
        for condition, row in zip(said, rows, strict=True)
        for t in range(length)
    ]
    primed = Primed(base, entities, evidence=evidence, boost=boost, absent=absent)
    return primed, base, vocabulary, said, rows, np.array(wanted)


@given(primed_cases())
@QUICK
def test_one_by_one_in_steps_and_in_batches_it_is_what_the_equation_says(case: Any) -> None:
    primed, _, vocabulary, said, rows, wanted = case
    bound = primed.bind(vocabulary)
    alone = [log_b_after(bound, c, row[: t + 1]) for c, row in zip(said, rows, strict=True) for t in range(len(row))]
    npt.assert_allclose(np.array(alone), wanted, rtol=1e-12, atol=1e-12)
    starts = [bound.initial(condition) for condition in said]
    scanned = [state for row in bound.scan(starts, rows) for state in row]
    npt.assert_allclose(bound.prior(scanned).dense(len(wanted)).log_b.numpy(), wanted, rtol=1e-12, atol=1e-12)
    seen, after = bound.follow(
        starts, Batch(torch.tensor(rows), torch.tensor(rows), torch.ones(len(rows), len(rows[0]), dtype=torch.bool))
    )
    npt.assert_allclose(bound.prior(seen).dense(len(wanted)).log_b.numpy(), wanted, rtol=1e-12, atol=1e-12)
    last = wanted.reshape(len(rows), -1, len(vocabulary))[:, -1]
    npt.assert_allclose(bound.prior(list(after)).dense(len(rows)).log_b.numpy(), last, rtol=1e-12, atol=1e-12)


@given(primed_cases(), st.data())
@QUICK
def test_positions_that_do_not_count_are_left_out(case: Any, data: st.DataObject) -> None:
    primed, _, vocabulary, said, rows, wanted = case
    bound = primed.bind(vocabulary)
    flags = data.draw(st.lists(st.booleans(), min_size=len(wanted), max_size=len(wanted)))
    mask = torch.tensor(flags).view(len(rows), -1)
    seen, _ = bound.follow(
        [bound.initial(condition) for condition in said], Batch(torch.tensor(rows), torch.tensor(rows), mask)
    )
    found = bound.prior(seen).dense(sum(flags)).log_b.numpy()
    npt.assert_allclose(found, wanted[np.array(flags)], rtol=1e-12, atol=1e-12)


@given(primed_cases(), st.data())
@QUICK
def test_sparse_is_dense_is_brute_force(case: Any, data: st.DataObject) -> None:
    primed, _, vocabulary, said, rows, wanted = case
    bound = primed.bind(vocabulary)
    starts = [bound.initial(condition) for condition in said]
    prior = bound.prior([state for row in bound.scan(starts, rows) for state in row])
    made = Case(data.draw(feature_rows(len(vocabulary))), prior, wanted, [], data.draw(st.integers(0, 99)), 2)
    brute = made.brute().log_probs
    npt.assert_allclose(made.distribution().log_probs().detach().numpy(), brute, rtol=1e-9, atol=1e-9)
    dense = made.distribution(prior=DensePrior(torch.from_numpy(wanted)))
    npt.assert_allclose(dense.log_probs().detach().numpy(), brute, rtol=1e-9, atol=1e-9)


@given(primed_cases())
@QUICK
def test_the_laws_hold(case: Any) -> None:
    primed, base, vocabulary, said, _, _ = case
    check_background(primed, vocabulary, conditions=said, prefixes=3, length=3)
    assert not primed.is_static
    assert repr(primed) == f"Primed({base!r}, {len(primed.entities)} entities)"


def test_a_sparse_base_stays_sparse_with_one_table_for_good() -> None:
    """Class masses are remembered by table: a new one for each batch would be summed over V each time."""
    bound = Primed(ngram(), small_vocabulary().words[3:6], absent=0.1).bind(small_vocabulary())
    first, again = (bound.prior([bound.initial(c)]) for c in (None, small_vocabulary().words[3]))
    assert isinstance(first, SparsePrior)
    assert isinstance(again, SparsePrior)
    assert len(first.tables) == 1
    assert first.tables[0] is again.tables[0]


def test_the_base_follows_a_batch_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not symbol by symbol."""
    bound = Primed(ngram(), small_vocabulary().words[3:6]).bind(small_vocabulary())

    def refuse(self: Process, state: State, symbol: int) -> State:
        raise AssertionError("symbol by symbol")

    for kind in (NGram, type(bound._factor)):
        monkeypatch.setattr(kind, "advance", refuse)
    inputs = torch.tensor([[small_vocabulary().eos, 3, 4, 5]] * 2)
    seen, _ = bound.follow(
        [bound.initial(None), bound.initial("x")], Batch(inputs, inputs, torch.ones(2, 4, dtype=torch.bool))
    )
    assert bound.prior(seen).n == 8


def test_folds_of_the_base_are_left_out_in_training() -> None:
    base = ngram(folds=3).bind(small_vocabulary())
    bound = Primed(base, small_vocabulary().words[3:6], absent=0.1).bind(small_vocabulary())
    inputs, mask = torch.tensor([[small_vocabulary().eos, 3, 4]] * 2), torch.ones(2, 3, dtype=torch.bool)
    keys = torch.tensor([[4] * 3, [5] * 3])
    found, wanted = (
        one.prior(one.follow([one.initial()] * 2, Batch(inputs, inputs, mask, None, keys))[0]).dense(6).log_b
        for one in (bound, base)
    )
    others = [x for x in range(len(small_vocabulary())) if x not in (3, 4, 5)]
    npt.assert_allclose(found[:, others], wanted[:, others])
    npt.assert_allclose(found[:, 3:6], wanted[:, 3:6] + math.log(0.1))


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("inform(name='trattoria contadina';near)", {"trattoria", "contadina"}),
        ("inform(price=cheap;price='not cheap')", {"cheap", "not"}),
        ("goodbye()", set()),
    ],
)
def test_the_words_of_an_act_are_those_of_its_values(condition: str, words: set[str]) -> None:
    act = parse_act(condition)
    assert words_of(act) == dict.fromkeys(words, 1.0)
    assert words_of([act, "more words"]) == dict.fromkeys([*words, "more", "words"], 1.0)


# --- cells ------------------------------------------------------------------------------------------------------------


@cache
def open_words() -> Vocabulary:
    listed = [EOS, "at", "the", "Lyon", "1999"]
    held = [domains.Numbers("fr"), domains.Spelling(["Lyon", "Paris", "Grenoble", "Meylan"], order=2, endings=0)]
    return Vocabulary(listed, counts=[9, 7, 5, 3, 1], domains=held)


def open_base() -> Background:
    return Unigram(dict(zip(open_words().words, open_words().counts, strict=False)))


def factors(primed: Primed, condition: object) -> dict[str, float]:
    """b over what the base says, of every symbol."""
    log_b, base = (log_b_after(one.bind(open_words()), condition, [open_words().eos]) for one in (primed, primed.base))
    return dict(zip(open_words().symbols, np.exp(log_b - base).tolist(), strict=True))


def cell_of(word: str) -> str:
    return open_words().symbols[int(open_words().cells_of([word])[0])]


def test_all_cells_may_need_evidence() -> None:
    """An unlisted name or number counts for its cell; a listed one for itself."""
    primed = Primed(open_base(), ["Lyon"], boost=4.0, absent=0.25, cells=True)
    cells = open_words().symbols[5:]
    assert factors(primed, None) == pytest.approx(
        {EOS: 1.0, "at": 1.0, "the": 1.0, "Lyon": 0.25, "1999": 1.0} | dict.fromkeys(cells, 0.25)
    )
    found = factors(primed, Act("inform", (Slot("city", "Meylan"), Slot("year", "1848"), Slot("then", "1999"))))
    with_evidence = {cell_of("Meylan"), cell_of("1848")}
    assert {word for word, factor in found.items() if factor == pytest.approx(4.0)} == with_evidence
    assert found["1999"] == found["the"] == pytest.approx(1.0)
    assert factors(primed, ["1999", "Lyon"])[cell_of("1999")] == pytest.approx(0.25)
    assert repr(primed).endswith(", 1 entities and all cells)")


def test_some_cells_may_be_named() -> None:
    primed = Primed(open_base(), ["the", cell_of("1848")], boost=4.0, absent=0.25)
    found = factors(primed, "Meylan 1848")
    assert found.pop(cell_of("1848")) == pytest.approx(4.0)
    assert found.pop("the") == pytest.approx(0.25)
    assert list(found.values()) == pytest.approx([1.0] * len(found))
    assert factors(primed, "1999 12")[cell_of("1848")] == pytest.approx(0.25)


def test_the_strongest_word_of_a_cell_speaks_for_it() -> None:
    evidence = {"1848": 0.5, "1871": 3.0, "1789": 0.0, cell_of("12"): 7.0}
    primed = Primed(open_base(), [], evidence=lambda condition: evidence, boost=2.0, cells=True)
    assert cell_of("1848") == cell_of("1871") == cell_of("1789")
    found = factors(primed, None)
    assert found[cell_of("1848")] == pytest.approx(6.0)
    assert found[cell_of("12")] == pytest.approx(14.0)


def test_a_name_that_is_not_listed_says_nothing_of_its_cell() -> None:
    found = factors(Primed(open_base(), ["Meylan", "1848"]), "Meylan")
    assert found == pytest.approx(dict.fromkeys(found, 1.0))
    with pytest.raises(UnknownWordError, match=re.escape("Primed(entities=...): the word '?!' is not among")):
        Primed(Unigram({"un": 1.0}), ["?!"]).bind(Vocabulary([EOS, "un"], domains=[domains.Numbers("fr")]))


# --- words added and removed ------------------------------------------------------------------------------------------

SOME = [word for word in small_vocabulary().words if word != EOS][4:30:5]
CONDITIONS = [None, " ".join(SOME[:2]), {"who": SOME[2], "what": "zorglub 1234 77"}]

PRIMED: dict[str, Callable[[], LLRNN]] = {
    "closed, unigrams": lambda: closed_model(Primed(unigram(), SOME, boost=5.0, absent=0.1)),
    "closed, n-grams": lambda: closed_model(Primed(ngram(), SOME, boost=5.0, absent=0.1)),
    "closed, cross-fitted": lambda: closed_model(Primed(ngram(folds=3), SOME, boost=5.0)),
    "closed, mixture": lambda: closed_model(Mixture(Primed(unigram(), SOME), ngram(), weights=[0.5, 0.5])),
    "closed, product": lambda: closed_model(Product(ngram(), Primed(unigram(), SOME, absent=0.2))),
    "closed, primed twice": lambda: closed_model(Primed(Primed(ngram(), SOME[:3], absent=0.1), SOME, absent=0.5)),
    "open, words": lambda: open_model(Primed(unigram(), [*SOME, "zorglub"], boost=5.0, absent=0.1)),
    "open, cells": lambda: open_model(Primed(ngram(), SOME, boost=5.0, absent=0.1, cells=True)),
    "open, a cell": lambda: open_model(Primed(unigram(), [*SOME, "‹number:digits2›"], boost=5.0, absent=0.1)),
}
every_model = pytest.mark.parametrize("make", PRIMED.values(), ids=PRIMED.keys())


def distributions(model: LLRNN, condition: object = None) -> Array:
    """log p of every symbol after some prefixes, (n, V)."""
    rows = []
    with torch.no_grad():
        for prefix in prefixes()[::2]:
            state = model.start([condition])
            for word in [EOS, *prefix]:
                distribution, state = model.step(state, model.vocabulary.ids([word]))
            rows.append(distribution.log_probs()[0].double().numpy())
    return np.stack(rows)


def one_factor(change: Array) -> None:
    npt.assert_allclose(change, np.broadcast_to(change[:, :1], change.shape), atol=1e-9)


def possible(log_p: Array) -> list[int]:
    """The columns with mass."""
    return np.flatnonzero(np.isfinite(log_p).all(0)).tolist()


def primed_fields(saved: Saved) -> list[dict[str, Any]]:
    own = [saved.fields] if saved.kind == "primed" else []
    return own + [fields for part in saved.parts for fields in primed_fields(part)]


@every_model
def test_old_words_change_by_one_factor(make: Callable[[], LLRNN]) -> None:
    model = make()
    more = add(model, entries(model))
    n = len(model.vocabulary.words)
    for condition in CONDITIONS:
        old, new = distributions(model, condition)[:, :n], distributions(more, condition)
        with_mass = possible(old)
        assert with_mass == possible(new[:, :n])
        assert len(with_mass) > n // 2
        one_factor(new[:, with_mass] - old[:, with_mass])
        npt.assert_allclose(np.exp(new).sum(1), 1.0, atol=1e-9)
        assert np.isfinite(new[:, n : n + len(NEW)]).all()


@every_model
def test_removed_again_and_back_from_disk(make: Callable[[], LLRNN], tmp_path: Path) -> None:
    model = make()
    more = add(model, entries(model))
    again = remove(more, NEW)
    assert primed_fields(again.background.saved()) == primed_fields(model.background.saved())
    for condition in CONDITIONS:
        npt.assert_allclose(distributions(again, condition), distributions(model, condition), atol=1e-9)
    for name, one in (("more", more), ("again", again)):
        one.save(tmp_path / name)
        loaded = load(tmp_path / name)
        for condition in CONDITIONS:
            npt.assert_array_equal(distributions(loaded, condition), distributions(one, condition))


@every_model
def test_removing_changes_the_others_by_one_factor(make: Callable[[], LLRNN], tmp_path: Path) -> None:
    """Entities among those that are gone, where they are not in the context."""
    model = make()
    used = {word for prefix in prefixes() for word in prefix} | {EOS}
    unused = [word for word in model.vocabulary.words if word not in used]
    gone = {*unused[::7], *(word for word in SOME if word in unused)}
    assert gone.intersection(SOME)
    fewer = remove(model, sorted(gone))
    fewer.save(tmp_path)
    loaded = load(tmp_path)
    stay = [word for word in model.vocabulary.words if word not in gone]
    for condition in CONDITIONS:
        new = distributions(fewer, condition)
        old = distributions(model, condition)[:, model.vocabulary.ids(stay)]
        one_factor(new[:, possible(old)] - old[:, possible(old)])
        npt.assert_allclose(np.exp(new).sum(1), 1.0, atol=1e-9)
        npt.assert_array_equal(distributions(loaded, condition), new)


@pytest.mark.parametrize("count", [None, 4])
@pytest.mark.parametrize(
    ("entities", "cells", "are"),
    [
        ((), True, {"1234", "zorglub"}),
        (("zorglub",), False, {"zorglub"}),
        (("‹number:digits4›",), False, set()),
        (("‹number:year›",), False, {"1234"}),
    ],
)
def test_new_words_are_entities_if_their_cell_is_or_they_are_named(
    entities: tuple[str, ...], cells: bool, are: set[str], count: int | None
) -> None:
    model = open_model(Primed(unigram(), entities, boost=8.0, absent=0.25, cells=cells))
    plain = open_model(unigram())
    given = [Entry("1234", count=count), Entry("zorglub", count=count)]
    more, wanted = (add(one, given).background for one in (model, plain))
    n = len(model.vocabulary.words)
    for condition, factor in ((None, 0.25), ("1234 zorglub", 8.0)):
        log_b = [log_b_after(one, condition, [more.vocabulary.eos]) for one in (more, wanted)]
        found = dict(zip(["1234", "zorglub"], np.exp(log_b[0] - log_b[1])[n : n + 2].tolist(), strict=True))
        assert found == pytest.approx({word: factor if word in are else 1.0 for word in found})


def test_the_last_word_of_a_cell_that_is_an_entity() -> None:
    """It takes all that was left, and brings it back."""
    digits = [str(digit) for digit in range(10)]
    background = Primed(open_base(), [], boost=3.0, absent=0.5, cells=True)
    model = LLRNN(
        open_words(), output_features=features.CellAttributes(), background=background, controller=GRU(3)
    ).double()
    shaken(model, 2.0)
    full = add(model, [Entry(digit) for digit in digits], unchanged=True)
    assert isinstance(full.background, Primed)
    assert full.background.entities == frozenset(digits)
    again = remove(full, digits)
    assert isinstance(again.background, Primed)
    assert again.background.entities == frozenset()
    for condition in (None, "7", "77"):
        states = [one.step(one.start([condition]), [one.vocabulary.eos])[0].log_probs() for one in (model, again)]
        npt.assert_allclose(states[1].detach().numpy(), states[0].detach().numpy(), atol=1e-9)


def test_a_name_stays_an_entity_where_it_may_come_back() -> None:
    vocabulary = Vocabulary([EOS, "le", "Lyon", "<unk>"], counts=[1, 1, 1, 1], unknown="<unk>")
    primed = Primed(Uniform(), ["Lyon", "Paris"])
    model = LLRNN(vocabulary, output_features=features.Shape(), background=primed, controller=GRU(3))
    removed = remove(model, ["Lyon"]).background
    assert isinstance(removed, Primed)
    assert removed.entities == {"Lyon", "Paris"}
    added = add(model, [Entry("Paris", count=1), Entry("Metz", count=1)]).background
    found = dict(zip(added.vocabulary, np.exp(log_b_after(added, "Metz", [0])), strict=True))
    assert found["Paris"] == 0.0
    assert found["Metz"] > 0.0


def test_a_base_that_cannot_take_words_says_so() -> None:
    model = closed_model(Primed(Model(small_model()), SOME, absent=0.1))
    with pytest.raises(LLRNNError, match="words cannot be added to Model"):
        add(model, [Entry("zorglub", count=1)])


@every_model
def test_a_batch_says_what_the_steps_say(make: Callable[[], LLRNN]) -> None:
    model = make()
    more = add(model, entries(model))
    rows = [[EOS, *prefixes()[-1], "zorglub"], [EOS, "zorglub", *prefixes()[-1]]]
    fed = torch.tensor([more.vocabulary.ids(row) for row in rows])
    said = CONDITIONS[1:]
    with torch.no_grad():
        batch = Batch(fed, fed, torch.ones_like(fed, dtype=torch.bool), said)
        whole = more.scan(batch)[0].log_probs().view(*fed.shape, -1)
        state = more.start(said)
        for t in range(fed.shape[1]):
            stepped, state = more.step(state, fed[:, t].tolist())
            npt.assert_allclose(whole[:, t].numpy(), stepped.log_probs().numpy(), atol=1e-9)


# --- on disk ----------------------------------------------------------------------------------------------------------


def test_what_is_saved_comes_back() -> None:
    for base in (unigram(), ngram(), Mixture(ngram(), unigram()), Primed(unigram(), SOME[:2], absent=0.5)):
        bound = Primed(base, SOME, boost=3.0, absent=0.1, cells=True).bind(small_vocabulary())
        again = restore(bound.saved()).bind(small_vocabulary())
        assert isinstance(again, Primed)
        assert again.saved().fields == bound.saved().fields
        for prefix in ([], [3, 4]):
            found, wanted = (log_b_after(one, " ".join(SOME[1:]), prefix) for one in (again, bound))
            npt.assert_array_equal(found, wanted)


def test_a_folder_of_the_former_version_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = closed_model(Primed(unigram(), SOME, boost=3.0, absent=0.1))
    now = model.background.saved()
    former = {name: now.fields[name] for name in ("entities", "boost", "absent")}
    with monkeypatch.context() as before:
        before.setattr(Primed, "saved", lambda self: Saved("primed", former, parts=now.parts))
        model.save(tmp_path)
    npt.assert_array_equal(distributions(load(tmp_path), CONDITIONS[1]), distributions(model, CONDITIONS[1]))


def test_evidence_and_bases_of_ones_own_are_given_again() -> None:
    for own in (Primed(unigram(), SOME, evidence=everywhere), Primed(WrittenOut(unigram()), SOME)):
        with pytest.raises(CheckpointError, match="of your own"):
            restore(own.bind(small_vocabulary()).saved())


# --- learnt -----------------------------------------------------------------------------------------------------------


def pair(condition: object, target: str) -> Sentence:
    return Sentence(tuple(Token(word) for word in target.split()), condition, name=target)


PAIRS = Corpus.from_sentences(
    [
        pair(parse_act("inform(name='the nile';food=thai)"), "the nile serves thai food"),
        pair(parse_act("inform(name='red door';area='north side')"), "red door is in the north"),
        pair(parse_act("inform(name=nile;price=cheap)"), "nile is cheap"),
        pair({"name": "door", "price": ["cheap", "dear"]}, "the door is dear or cheap"),
        pair(parse_act("?request(area)"), "in which area"),
        pair(parse_act("confirm(food='thai or greek';kids=yes)"), "greek or thai , yes"),
        pair(parse_act("inform(count=2)"), "red and cheap and thai"),
        pair(None, "goodbye"),
    ]
)
V = Vocabulary.from_corpus(PAIRS, others=["unsaid", "moscow"])


def test_entities_are_words_that_are_said_because_of_their_condition() -> None:
    found = entity_words(PAIRS)
    assert found == {
        "dear": frozenset({"price"}),
        "door": frozenset({"name"}),
        "greek": frozenset({"food"}),
        "nile": frozenset({"name"}),
        "north": frozenset({"area"}),
    }
    assert list(found) == sorted(found)
    # cheap and thai were said 3 times, twice because of it; red once of two; `the` once of four; yes is no value
    assert set(entity_words(PAIRS, support=2 / 3)) == {*found, "cheap", "thai"}
    assert set(entity_words(PAIRS, support=0.5)) == {*found, "cheap", "thai", "red"}
    assert set(entity_words(PAIRS, support=0.01)) == {*found, "cheap", "thai", "red", "the"}
    assert set(entity_words(PAIRS, ["name"])) == {"nile", "door"}
    assert set(entity_words(PAIRS, {"area", "food"}, support=0.5)) == {"north", "greek", "thai"}
    assert entity_words(PAIRS[-1:]) == {}


def test_a_word_of_several_slots_and_a_text_without_any() -> None:
    pairs = Corpus.from_sentences(
        [pair({"near": "nile"}, "near nile"), pair({"name": "nile"}, "nile"), pair("chat noir", "le chat")]
    )
    assert entity_words(pairs) == {"chat": frozenset(), "nile": frozenset({"name", "near"})}
    assert entity_words(pairs, ["name"]) == {"nile": frozenset({"name"})}


def likelihood(base: Background, corpus: Corpus, vocabulary: Vocabulary, **given: Any) -> float:
    """Σ log b(C, x) / Z(C) over all words and ends of the targets."""
    entities = given.pop("entities")
    bound = Primed(base, entities, **given).bind(vocabulary)
    total = 0.0
    for sentence in corpus:
        log_b = log_b_after(bound, sentence.condition, [])
        ids = [*vocabulary.ids(sentence.words), vocabulary.eos]
        total += math.fsum((log_b - np.logaddexp.reduce(log_b))[ids].tolist())
    return total


def check_optimum(
    base: Background, corpus: Corpus, vocabulary: Vocabulary, fitted: Primed, cells: bool = False
) -> float:
    """No place around it is better, and the gradient is 0; or absent is as low as it may be, and the slope falls."""

    def at(log_boost: float, log_absent: float) -> float:
        boost, absent = math.exp(log_boost), math.exp(log_absent)
        return likelihood(base, corpus, vocabulary, entities=fitted.entities, boost=boost, absent=absent, cells=cells)

    here = math.log(fitted.boost), math.log(fitted.absent)
    best = at(*here)
    for left, right in itertools.product([-3.0, -0.7, -0.05, 0.0, 0.05, 0.7, 3.0], repeat=2):
        if math.exp(here[1] + right) >= 1e-6:
            assert at(here[0] + left, here[1] + right) <= best + 1e-9
    h = 1e-4
    slopes = [(at(here[0] + x, here[1] + y) - at(here[0] - x, here[1] - y)) / (2 * h) for x, y in ((h, 0), (0, h))]
    assert abs(slopes[0]) < 1e-6
    if fitted.absent > 1.0000001e-6:
        assert abs(slopes[1]) < 1e-6
    else:
        assert fitted.absent == pytest.approx(1e-6)
        assert slopes[1] <= 1e-6
    return best


@pytest.mark.parametrize("support", [0.1, 0.5, 0.6, 0.9])
def test_the_fit_is_the_optimum(support: float) -> None:
    base = Unigram.from_corpus(PAIRS, smoothing=0.5)
    fitted = Primed.fitted(base, PAIRS, V, support=support)
    assert fitted.entities == set(entity_words(PAIRS, support=support))
    best = check_optimum(base, PAIRS, V, fitted)
    assert best > likelihood(base, PAIRS, V, entities=[], boost=1.0, absent=1.0)
    assert fitted.boost > 1.0 > fitted.absent


def test_a_coarse_grid_finds_the_same_weights() -> None:
    base = Unigram.from_corpus(PAIRS, smoothing=0.5)
    fitted = Primed.fitted(base, PAIRS, V, support=0.5)
    centre, width = (0.0, 0.0), 8.0

    def at(place: tuple[float, float]) -> float:
        boost, absent = math.exp(place[0]), math.exp(place[1])
        return likelihood(base, PAIRS, V, entities=fitted.entities, boost=boost, absent=absent)

    while width > 1e-4:
        steps = [-width, -width / 2, 0.0, width / 2, width]
        centre = max(((centre[0] + x, centre[1] + y) for x in steps for y in steps), key=at)
        width /= 2
    assert (math.log(fitted.boost), math.log(fitted.absent)) == pytest.approx(centre, abs=1e-3)


@given(st.data())
@QUICK
def test_every_fit_is_an_optimum(data: st.DataObject) -> None:
    words = ["a", "b", "c", "d"]
    said = st.lists(st.sampled_from(words), max_size=4)
    drawn = data.draw(st.lists(st.tuples(said, said), min_size=1, max_size=4))
    corpus = Corpus.from_sentences([pair({"of": own}, " ".join(target)) for own, target in drawn])
    vocabulary = Vocabulary([*words, EOS])
    base = Static(torch.tensor([*data.draw(st.lists(st.floats(-6.0, 2.0), min_size=4, max_size=4)), 0.0]))
    support = data.draw(st.sampled_from([0.2, 0.5, 0.9]))
    if not entity_words(corpus, support=support):
        with pytest.raises(BackgroundError, match="there is nothing to fit"):
            Primed.fitted(base, corpus, vocabulary, support=support)
        return
    check_optimum(base, corpus, vocabulary, Primed.fitted(base, corpus, vocabulary, support=support))


def test_cells_are_fitted_too() -> None:
    corpus = Corpus.from_sentences(
        [
            pair({"y": "1848"}, "at 1848 the"),
            pair({"y": "1999"}, "at 1999"),
            pair(None, "the 77"),
            pair({"y": "5"}, "at"),
        ]
    )
    fitted = Primed.fitted(open_base(), corpus, open_words(), cells=True)
    assert fitted.entities == {"1848", "1999"}
    assert fitted.absent > 1e-6
    check_optimum(open_base(), corpus, open_words(), fitted, cells=True)


def test_a_fitted_background_is_any_other() -> None:
    fitted = Primed.fitted(Mixture(Unigram.from_corpus(PAIRS), Uniform()), PAIRS, V, slots=["name"])
    assert fitted.entities == {"nile", "door"}
    check_background(fitted, V, conditions=[sentence.condition for sentence in PAIRS])
    again = Primed(NGram.from_corpus(PAIRS, order=2), fitted.entities, boost=fitted.boost, absent=fitted.absent)
    check_background(again, V, conditions=[sentence.condition for sentence in PAIRS])


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: Primed.fitted(NGram.from_corpus(PAIRS, order=2), PAIRS, V),
            "the weights of Primed can be fitted over a static base such as Unigram only, found NGram.from_corpus(8",
        ),
        (lambda: Primed.fitted(Uniform(), PAIRS[4:5], V), "so there is nothing to fit in Corpus(1 sentences"),
        (lambda: Primed.fitted(Uniform(), PAIRS[:0], V), "so there is nothing to fit in Corpus(0 sentences"),
        (
            lambda: Primed.fitted(Uniform(), PAIRS, V, support=0.0),
            "support must be a share above 0, 1 at most, found 0.0",
        ),
        (lambda: entity_words(PAIRS, support=1.5), "support must be a share above 0, 1 at most, found 1.5"),
        (lambda: entity_words(PAIRS, support=math.nan), "support must be a share above 0, 1 at most, found nan"),
        (
            lambda: entity_words(PAIRS[:2], ["name", "stars"]),
            "no condition has a slot 'stars'; there are: area, food, name",
        ),
        (lambda: entity_words(PAIRS[-1:], ["name"]), "no condition has a slot 'name'; there are: none"),
        (
            lambda: Primed(Uniform(), "nile"),
            "Primed(entities=...) must be a collection of words, found the text 'nile'",
        ),
        (lambda: Primed(Uniform(), [], boost=math.nan), "Primed needs boost > 0 and absent >= 0, found nan and 0.0"),
        (lambda: Primed(Uniform(), [], absent=math.inf), "Primed needs boost > 0 and absent >= 0, found 1.0 and inf"),
    ],
)
def test_what_cannot_be_primed(made: Callable[[], Any], message: str) -> None:
    with pytest.raises(BackgroundError, match=re.escape(message)):
        made()


def test_a_fit_needs_mass_on_what_was_said() -> None:
    base = Unigram.from_corpus(PAIRS) * Mask(forbidden=["greek"])
    with pytest.raises(ZeroMassError, match=r"gives 'greek' of 'greek or thai , yes' no mass, whatever the weights"):
        Primed.fitted(base, PAIRS, V)


def test_a_fit_names_words_of_another_vocabulary() -> None:
    with pytest.raises(UnknownWordError, match="Primed"):
        Primed.fitted(Uniform(), PAIRS, Vocabulary([EOS, "the", "nile"]))
