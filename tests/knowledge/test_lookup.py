"""Knowledge-base experts: tables from files, the rows that are right now, and p by brute force over all words."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.testing as npt
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from brute import Array, Brute
from helpers import sentence_log_probs, shaken
from llrnn import EOS, GRU, LLRNN, KnowledgeBase, LLRNNError, Vocabulary, load, words
from llrnn.ground.errors import FeatureError, TableError
from llrnn.knowledge.backgrounds import Static, Unigram
from llrnn.knowledge.contextual import ContextualFeature, Lookup, Matching, Repeated
from llrnn.knowledge.features import Function, Identity
from llrnn.knowledge.process import Batch
from llrnn.languages.domains import Numbers
from llrnn.model.testing import check_contextual
from llrnn.text.conditions import parse_act
from strategies import QUICK, draws

pytestmark = pytest.mark.usefixtures("each_sum")

Prefix = tuple[str, ...]
Rows = Sequence[Mapping[str, str]]

VENUES: list[dict[str, Any]] = [
    {"name": "pizza hut", "food": "italian", "area": "centre", "phone": "01223 323737"},
    {"name": "pizza hut city", "food": "italian", "area": "south", "phone": "01223 358786"},
    {"name": "golden wok", "food": "chinese", "area": "north", "phone": "01223 350688"},
    {"name": "city", "food": "chinese", "area": "centre", "phone": None},
    {"name": "la la land", "food": "modern european", "area": "centre", "phone": "99 99 12"},
]
KB = KnowledgeBase("venues", tuple(VENUES))
QUERY = Matching(subject="name", on=("food", "area"), history=("turns", "now"))
COLUMNS = ("name", "food", "phone")
OTHERS = ("the", "is", "at", "please", "in", "old", "venue")


def lookup(kb: KnowledgeBase = KB, **given: Any) -> Lookup:
    return Lookup(kb, QUERY, *COLUMNS, name="db", **given)


V = Vocabulary([*lookup().words_of_table, *OTHERS, EOS])


# --- the oracle: the definition, word by word, with nothing remembered -----------------------------------------------


def ends_with(prefix: Prefix, part: Prefix) -> bool:
    return len(part) <= len(prefix) and prefix[len(prefix) - len(part) :] == part


def goes_on(word: str, value: str, prefix: Prefix) -> bool:
    """The prefix ends with the first n words of the value, for no larger n, and the word is the one after them."""
    said = tuple(value.split())
    begun = [n for n in range(1, len(said) + 1) if ends_with(prefix, said[:n])]
    return bool(begun) and said[max(begun) :][:1] == (word,)


def is_right(word: str, value: str, prefix: Prefix) -> bool:
    return word == value.split()[0] or goes_on(word, value, prefix)


def dumb_value(column: str, word: str, rows: Rows, prefix: Prefix, table: Rows, former: Sequence[str] = ()) -> float:
    domain = {w for row in table for w in row.get(column, "").split()} | {*former}
    if word not in domain:
        return 1.0
    return float(any(is_right(word, row[column], prefix) for row in rows if column in row))


def dumb_begun(columns: Sequence[str], word: str, rows: Rows, prefix: Prefix) -> float:
    """Some value of some column goes on with the word, whatever else the word may be."""
    return float(any(goes_on(word, row[column], prefix) for row in rows for column in columns if column in row))


def dumb_last_subject(table: Rows, text: Sequence[str]) -> list[Mapping[str, str]]:
    """Of all places where a name stands, the one that ends last, then the one that begins first."""
    found = []
    for row in table:
        name = row["name"].lower().split()
        found += [
            (end, -begin, row)
            for begin in range(len(text))
            for end in range(begin + 1, len(text) + 1)
            if [w.lower() for w in text[begin:end]] == name
        ]
    best = max((entry[:2] for entry in found), default=None)
    return [row for end, begin, row in found if (end, begin) == best]


def dumb_query(kb: KnowledgeBase, condition: Any, prefix: Sequence[str]) -> list[Mapping[str, str]]:
    condition = condition or {}
    now = [condition["now"]] if "now" in condition else []
    for text in [" ".join(prefix), *reversed([*condition.get("turns", []), *now])]:
        rows = dumb_last_subject(kb.rows, text.split())
        if rows:
            return rows
    return [row for row in kb.rows if all(dumb_fits(row, column, condition.get(column)) for column in ("food", "area"))]


def dumb_fits(row: Mapping[str, str], column: str, wanted: Any) -> bool:
    options = [w.lower() for w in ([wanted] if isinstance(wanted, str) else wanted or [])]
    options = [w for w in options if w not in ("dontcare", "dont_care", "none")]
    return not options or row.get(column, "").lower() in options


def written_out(feature: ContextualFeature, states: Sequence[Any], vocabulary: Vocabulary = V) -> Array:
    """The values on every word, (N, V, k)."""
    values, n, size = feature.values(states), len(states), len(vocabulary)
    found = values.at(torch.arange(n).repeat_interleave(size), torch.arange(size).repeat(n), size)
    return np.array(found.view(n, size, -1).tolist()).reshape(n, size, len(feature.names))


def dumb_values(
    condition: Any, prefix: Prefix, kb: KnowledgeBase = KB, former: Mapping[str, Any] | None = None
) -> Array:
    rows, given = dumb_query(kb, condition, prefix), former or {}
    found = [[dumb_value(c, w, rows, prefix, kb.rows, given.get(c, ())) for c in COLUMNS] for w in V]
    return np.array([[*own, dumb_begun(COLUMNS, w, rows, prefix)] for own, w in zip(found, V, strict=True)])


# --- values, against the oracle -------------------------------------------------------------------------------------

WORDS = st.sampled_from([word for word in V if word != EOS])
SENTENCES = st.lists(WORDS, max_size=7)
NAMES = st.sampled_from([[*str(row["name"]).split()] for row in VENUES])
TALK = st.lists(st.one_of(SENTENCES, NAMES), max_size=3).map(lambda parts: [word for part in parts for word in part])
FOODS = st.sampled_from(["italian", "Chinese", "modern european", "dontcare", "none", "martian"])
CONDITIONS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "food": FOODS | st.lists(FOODS, max_size=2),
        "area": st.sampled_from(["centre", "NORTH", "dont_care"]),
        "turns": st.lists(TALK.map(" ".join), max_size=3),
        "now": TALK.map(" ".join),
    },
)


def state_after(feature: ContextualFeature, condition: object, prefix: Sequence[str]) -> Any:
    state = feature.initial(condition)
    for word in (EOS, *prefix):
        state = feature.advance(state, V.id(word))
    return state


@QUICK
@given(st.lists(st.tuples(CONDITIONS, TALK), min_size=1, max_size=4))
def test_values_are_those_of_the_definition(asked: list[tuple[Any, list[str]]]) -> None:
    bound = lookup().bind(V)
    states = [state_after(bound, condition, prefix) for condition, prefix in asked]
    wanted = np.array([dumb_values(condition, tuple(prefix)) for condition, prefix in asked])
    npt.assert_array_equal(written_out(bound, states), wanted)
    for state, values in zip(states, wanted, strict=True):
        rest, own = bound.value(state)
        npt.assert_array_equal([own.get(x, rest) for x in range(len(V))], values)


# --- columns that are asked for ---------------------------------------------------------------------------------------

ASKING: dict[str, Any] = {"asked": ("wanted",), "unnamed": ("nameless",)}


def is_due(column: str, condition: Any, rows: Rows, prefix: Prefix) -> bool:
    """The column is asked for, all rows say the same, and the sentence does not."""
    values = {row[column] for row in rows if column in row}
    named = [*condition.get("wanted", []), *condition.get("nameless", [])]
    return column in named and len(values) == 1 and f" {min(values)} " not in f" {' '.join(prefix)} "


def dumb_asked(condition: Any, prefix: Prefix, word: str) -> list[float]:
    rows = dumb_query(KB, condition, prefix)
    values = {column: [row[column] for row in rows if column in row] for column in COLUMNS}
    right = {column: any(is_right(word, value, prefix) for value in own) for column, own in values.items()}
    own = [float(right[column] and column not in condition.get("nameless", [])) for column in COLUMNS]
    due = [column for column in COLUMNS if is_due(column, condition, rows, prefix)]
    on = {column: {w for w in V for value in own if goes_on(w, value, prefix)} for column, own in values.items()}
    asked = any(word in (on[column] or {values[column][0].split()[0]}) for column in due)
    strange = word in lookup().words_of_table and not any(right.values())
    begun = dumb_begun(COLUMNS, word, rows, prefix)
    return [*own, begun, float(not strange), float(asked), float(bool(due) and word == EOS)]


COLUMN_NAMES = st.lists(st.sampled_from(COLUMNS), max_size=2)


@settings(QUICK)
@given(CONDITIONS, COLUMN_NAMES, COLUMN_NAMES, TALK)
@example({"turns": ["city"]}, ["phone", "food"], [], [])  # no number
@example({"turns": ["pizza hut"]}, ["phone"], ["food"], ["01223"])
@example({"turns": ["pizza hut"]}, [], ["phone"], ["01223", "323737"])
@example({"turns": ["la la land"]}, ["phone"], [], ["99", "99"])
def test_columns_that_are_asked_for(condition: Any, asked: list[str], unnamed: list[str], prefix: list[str]) -> None:
    whole = {**(condition or {}), "wanted": asked, "nameless": unnamed}
    bound = lookup(**ASKING).bind(V)
    state = bound.initial(whole)
    for word in prefix:
        state = bound.advance(state, V.id(word))
    assert bound.names[-4:] == ("db:begun", "db:any", "db:asked", "db:untold")
    npt.assert_array_equal(
        written_out(bound, [state])[0], np.array([dumb_asked(whole, tuple(prefix), word) for word in V])
    )


def test_columns_that_are_asked_for_are_saved_and_stay_with_another_table() -> None:
    own = lookup(**ASKING)
    for other in (Lookup.restored(own.saved().fields), own.with_table(KB)):
        assert other.names == own.names
        state = other.bind(V).initial({"turns": ["city"], "nameless": ["food"]})
        npt.assert_array_equal(written_out(other.bind(V), [state]), written_out(own.bind(V), [state]))


@QUICK
@given(CONDITIONS, TALK)
def test_matching_finds_the_rows_of_the_definition(condition: Any, prefix: list[str]) -> None:
    assert list(QUERY(KB, condition, prefix)) == dumb_query(KB, condition, prefix)


SMALL = st.sampled_from(["a", "b", "c"])


@QUICK
@given(st.lists(st.lists(SMALL, min_size=1, max_size=4), min_size=1, max_size=4), st.lists(SMALL, max_size=6))
@example([["a", "b", "a"]], ["a", "b", "a"])  # said in full: b is not next
@example([["a", "b", "a", "c"], ["b"], ["c"]], ["a", "b", "a"])  # c, not b
def test_values_that_overlap_themselves_and_each_other(values: list[list[str]], prefix: list[str]) -> None:
    kb = KnowledgeBase("t", tuple({"x": " ".join(value)} for value in values))
    vocabulary = Vocabulary(["a", "b", "c", "d", EOS])
    bound = Lookup(kb, lambda kb, condition, prefix: kb.rows[:2], "x").bind(vocabulary)
    state = bound.scan([bound.initial()], [vocabulary.ids([EOS, *prefix])])[0][-1]
    wanted = [dumb_value("x", word, kb.rows[:2], tuple(prefix), kb.rows) for word in vocabulary]
    begun = [dumb_begun(["x"], word, kb.rows[:2], tuple(prefix)) for word in vocabulary]
    npt.assert_array_equal(written_out(bound, [state], vocabulary)[0].T, [wanted, begun])


def right_words(feature: ContextualFeature, condition: object, text: str, column: int) -> set[str]:
    """The domain words on which the feature is 1."""
    domain = {word for row in KB.rows for word in row.get(COLUMNS[column], "").split()}
    found = written_out(feature, [state_after(feature, condition, text.split())])[0, :, column]
    return {word for word, value in zip(V, found, strict=True) if value == 1.0 and word in domain}


@pytest.mark.parametrize(
    ("condition", "text", "column", "wanted"),
    [
        ({"food": "chinese"}, "", 0, {"golden", "city"}),
        ({"food": "chinese"}, "golden", 0, {"golden", "city", "wok"}),
        ({"food": "chinese"}, "golden wok", 2, {"01223"}),
        ({"food": "chinese"}, "golden wok is at 01223", 2, {"01223", "350688"}),
        ({"food": "chinese"}, "golden wok is at 01223 350688", 2, {"01223"}),
        (None, "pizza hut", 2, {"01223"}),
        (None, "pizza hut 01223", 2, {"01223", "323737"}),
        (None, "pizza hut city 01223", 2, {"01223", "358786"}),
        (None, "the city is", 2, set()),  # its number is missing
        (None, "la la land at 99", 2, {"99"}),  # 99 99 12 goes on with its second word, which is its first too
        (None, "la la land at 99 99", 2, {"99", "12"}),
        ({"turns": ["golden wok", "Pizza Hut please"]}, "01223", 2, {"01223", "323737"}),
        ({"turns": ["golden wok", "Pizza Hut please"], "now": "the GOLDEN wok"}, "01223", 2, {"01223", "350688"}),
        ({"food": ["italian", "modern european"], "area": "centre"}, "", 0, {"pizza", "la"}),
        ({"food": "martian"}, "", 0, set()),
        ({"food": "dontcare", "area": "north"}, "", 1, {"chinese"}),
    ],
)
def test_what_is_right_now(condition: object, text: str, column: int, wanted: set[str]) -> None:
    assert right_words(lookup().bind(V), condition, text, column) == wanted


@pytest.mark.parametrize(
    ("condition", "text", "wanted"),
    [
        (None, "", set()),
        (None, "the", set()),
        ({"food": "chinese"}, "golden", {"wok"}),
        ({"food": "italian"}, "golden", set()),  # begun, but not by a right value
        ({"food": "chinese"}, "golden wok", set()),  # said in full, as far as this one goes
        ({"food": "italian"}, "pizza hut", set()),  # the name decides that it is this one: the other is not begun
        ({"food": "italian"}, "pizza", {"hut"}),
        ({"food": "italian"}, "pizza hut city", set()),
        (None, "golden wok is at 01223", {"350688"}),  # another column
        (None, "golden wok is at 01223 350688", set()),
        (None, "golden wok 01223 at", set()),  # no longer at the end of the prefix
        (None, "la la land at 99", {"99"}),  # which is a first word too
        (None, "la la land at 99 99", {"12"}),
        (None, "la la land 99 99 99", {"12"}),
        ({"turns": ["la la land"]}, "la", {"la"}),
        ({"turns": ["la la land"]}, "modern", {"european"}),
        ({"turns": ["la la land"]}, "la modern", {"european"}),
    ],
)
def test_what_has_been_begun(condition: object, text: str, wanted: set[str]) -> None:
    bound = lookup().bind(V)
    assert bound.names[-1] == "db:begun"
    found = written_out(bound, [state_after(bound, condition, text.split())])[0, :, -1]
    assert {word: value for word, value in zip(V, found.tolist(), strict=True) if value} == dict.fromkeys(wanted, 1.0)


def test_values_of_two_columns_may_be_begun_at_once() -> None:
    kb = KnowledgeBase("t", ({"x": "a b", "y": "a c"},))
    vocabulary = Vocabulary(["a", "b", "c", "d", EOS])
    bound = Lookup(kb, lambda kb, condition, prefix: kb.rows, "x", "y").bind(vocabulary)
    state = bound.scan([bound.initial()], [vocabulary.ids([EOS, "a"])])[0][-1]
    rest, (a, b, c) = [1.0, 1.0, 0.0], ([1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    assert bound.value(state) == (rest, {0: a, 1: b, 2: c})  # b is no word of y, nor c of x


def test_the_words_of_the_table_by_column() -> None:
    feature = lookup(domain={"food": ["old"]})
    assert feature.words_by_column == {
        "name": ("city", "golden", "hut", "la", "land", "pizza", "wok"),
        "food": ("chinese", "european", "italian", "modern"),
        "phone": ("01223", "12", "323737", "350688", "358786", "99"),
    }
    assert set(feature.words_of_table) == {word for words in feature.words_by_column.values() for word in words}
    assert list(feature.words_of_table) == sorted(feature.words_of_table)
    assert feature.with_table(NEW).words_by_column["name"] == ("old", "venue")


def test_acts_and_records_are_the_same_to_a_query() -> None:
    assert QUERY(KB, parse_act("inform(food='chinese';area=north)"), ()) == (KB.rows[2],)


def test_several_rows_may_have_one_name() -> None:
    kb = KnowledgeBase("t", ({"name": "Golden Wok", "x": "1"}, {"name": "golden wok", "x": "2"}, {"name": "wok"}, {}))
    query = Matching("name")
    assert query(kb, None, ("the", "golden", "WOK", "is")) == kb.rows[:2]
    assert query(kb, None, ("wok",)) == kb.rows[2:3]
    assert query(kb, None, ("golden",)) == kb.rows


def test_a_table_is_not_taken_for_another() -> None:
    """One query over several tables, also those that are gone."""
    query = Matching("name", on=["x"])
    for n in range(50):
        kb = KnowledgeBase("t", ({"name": "wok", "x": f"{n}"}, {"name": "hut", "x": "x"}))
        assert query(kb, {"x": "X"}, ()) == kb.rows[1:]
        assert query(kb, {"x": f"{n}"}, ()) == query(kb, {}, ("wok",)) == kb.rows[:1]


def test_every_query_is_asked_once_for_a_prefix() -> None:
    asked: list[Prefix] = []

    def query(kb: KnowledgeBase, condition: object, prefix: Prefix) -> Rows:
        asked.append(prefix)
        return kb.rows[:1]

    bound = Lookup(KB, query, *COLUMNS).bind(V)
    states = bound.scan([bound.initial("c")], [V.ids([EOS, "pizza", "the", EOS, "hut"])])[0]
    bound.values(states)
    bound.values(states)
    assert asked == [(), ("pizza",), ("pizza", "the"), (), ("hut",)]
    assert [state.condition for state in states] == ["c"] * 5


def test_no_states() -> None:
    values = lookup().bind(V).values([])
    assert (values.rest.shape, values.value.shape, values.word.shape) == ((0, 4), (0, 4), (0,))


# --- laws, and p over all words -------------------------------------------------------------------------------------

ASKED: list[Any] = [None, {"food": "chinese"}, {"turns": ["golden wok"]}, {"area": "centre", "now": "la la land"}]


def test_lookups_obey_the_laws() -> None:
    check_contextual(lookup(), V, conditions=ASKED)
    check_contextual(lookup(domain={"food": ["old", "venue"]}), V, conditions=ASKED)
    check_contextual(Lookup(KB, lambda kb, condition, prefix: [], "name"), V)
    empty = KnowledgeBase("empty", (), ("name", "food", "area", "phone"))
    check_contextual(lookup(empty), V)


STATIC = {word: {f"length {len(word) % 3}": 1.0, **({"first": 0.5} if word < "h" else {})} for word in V}
LOG_B = np.linspace(-3.0, 0.5, len(V))


def model_with(*context: ContextualFeature, seed: int = 0) -> LLRNN:
    model = LLRNN(
        V,
        output_features=Function({**STATIC, EOS: {}}.__getitem__),
        background=Static(torch.from_numpy(LOG_B)),
        controller=GRU(3),
        contextual=context,
    ).double()
    shaken(model, 3.0, seed)
    return model


def batch_of(asked: Sequence[tuple[Any, list[str]]]) -> Batch:
    length = max(len(prefix) for _, prefix in asked) + 1
    rows = [[EOS, *prefix, *["the"] * (length - 1 - len(prefix))] for _, prefix in asked]
    inputs = torch.tensor([V.ids(row) for row in rows])
    mask = torch.tensor([[t <= len(prefix) for t in range(length)] for _, prefix in asked])
    return Batch(inputs, inputs.roll(-1, 1), mask, [condition for condition, _ in asked])


@QUICK
@given(st.lists(st.tuples(CONDITIONS, TALK), min_size=1, max_size=3), st.integers(0, 20))
def test_sparse_is_dense_is_the_sum_over_all_words(asked: list[tuple[Any, list[str]]], seed: int) -> None:
    """And step by step the same."""
    model = model_with(lookup(), Repeated(2), seed=seed)
    fed = [(condition, tuple(prefix[:t])) for condition, prefix in asked for t in range(len(prefix) + 1)]
    repeated = np.array([[[float(word in prefix[-2:])] for word in V] for _, prefix in fed])
    values = np.concatenate([np.array([dumb_values(*one) for one in fed]), repeated], 2)
    with torch.no_grad():
        distribution, _ = model.scan(batch_of(asked))
        layer, h = model.layer, distribution.h
        a = torch.cat([h @ layer.weight.t() + layer.bias, h @ layer.context_weight.t() + layer.context_bias], 1)
        rows = [{**STATIC, EOS: {}}[word] for word in V]
        log_b = np.broadcast_to(LOG_B, (len(fed), len(V)))
        brute = Brute(model.output_features.names, rows, log_b, values, a.numpy())
        targets = [n % len(V) for n in range(len(fed))]
        found = distribution.log_prob(torch.tensor(targets))  # the sparse way
        npt.assert_allclose(found.numpy(), brute.log_probs[range(len(fed)), targets], rtol=0, atol=1e-9)
        npt.assert_allclose(distribution.log_probs().numpy(), brute.log_probs, rtol=0, atol=1e-9)
        npt.assert_allclose(distribution.expected_features().numpy(), brute.expected_features, rtol=0, atol=1e-8)
        condition, prefix = asked[0]
        state = model.start([condition])
        for t, word in enumerate([EOS, *prefix]):
            one, state = model.step(state, [V.id(word)])
            npt.assert_allclose(one.log_probs()[0].numpy(), brute.log_probs[t], rtol=0, atol=1e-9)


# --- another table ---------------------------------------------------------------------------------------------------

NEW = KnowledgeBase("venues", ({"name": "old venue", "food": "chinese", "area": "north", "phone": "99 01223"},))


@QUICK
@given(CONDITIONS, TALK)
def test_another_table_says_what_is_right_of_all_words(condition: Any, prefix: list[str]) -> None:
    former = {c: [w for row in KB.rows for w in row.get(c, "").split()] for c in COLUMNS}
    for changed in (lookup().with_table(NEW), lookup().bind(V).with_table(NEW), lookup(NEW, domain=former)):
        bound = changed.bind(V)
        wanted = dumb_values(condition, tuple(prefix), NEW, former)
        npt.assert_array_equal(written_out(bound, [state_after(bound, condition, prefix)])[0], wanted)


def test_another_table_changes_the_answers_and_no_weight(tmp_path: Path) -> None:
    model = model_with(lookup())
    with torch.no_grad():
        model.layer.context_weight.zero_()
        model.layer.context_bias.copy_(torch.tensor([0.0, 0.0, 20.0, 0.0]))
    model.save(tmp_path)
    changed = load(tmp_path, contextual=[lookup().with_table(NEW)])
    assert all(torch.equal(old, new) for old, new in zip(model.parameters(), changed.parameters(), strict=True))
    said = {"food": "chinese", "area": "north"}
    text = ["old", "venue", "01223", "golden", "wok", "01223", "350688"]
    before, after = (sentence_log_probs(one, text, said) for one in (model, changed))
    assert before[6] > -10.0 > after[6] + 5.0  # the number of a venue that is gone
    text = ["old", "venue", "99", "01223"]
    before, after = (sentence_log_probs(one, text, said) for one in (model, changed))
    assert after[2] > -10.0 > before[2] + 5.0


@pytest.mark.parametrize("changed", [False, True])
def test_a_saved_model_has_its_table_with_it(tmp_path: Path, changed: bool) -> None:
    model = model_with(Repeated(3), lookup().with_table(NEW) if changed else lookup())
    model.save(tmp_path)
    again = load(tmp_path)
    assert repr(again.contextual) == repr(model.contextual)
    assert again.context_names == ("Repeated", "db:name", "db:food", "db:phone", "db:begun")
    for condition in ASKED:
        for text in (["pizza", "hut", "01223"], ["old", "venue", "99", "01223"]):
            assert sentence_log_probs(again, text, condition) == sentence_log_probs(model, text, condition)


@pytest.mark.parametrize(
    "own",
    [
        Lookup(KB, lambda kb, condition, prefix: kb.rows, "name"),
        Lookup(KB, QUERY, "name", words=lambda text: text.split("-")),
        Lookup(KB, Matching("name", words=lambda text: text.split("-")), "name"),
    ],
)
def test_what_cannot_be_written_down_is_given_again(own: Lookup) -> None:
    assert own.saved().kind == "custom"


def test_words_are_cut_as_the_user_says() -> None:
    kb = KnowledgeBase("t", ({"name": "l'atelier", "phone": "01-02"},))

    def cut(text: str) -> list[str]:
        return text.replace("'", "' ").replace("-", " ").split()

    feature = Lookup(kb, Matching("name", words=cut), "phone", words=cut)
    assert feature.words_of_table == ("01", "02")
    vocabulary = Vocabulary(["l'", "atelier", "01", "02", EOS])
    bound = feature.bind(vocabulary)
    state = bound.scan([bound.initial()], [vocabulary.ids(["l'", "atelier", "01"])])[0][-1]
    assert bound.value(state) == ([1.0, 0.0], {2: [1.0, 0.0], 3: [1.0, 1.0]})
    assert feature._query(kb, {}, ("l'", "atelier")) == kb.rows


# --- vocabularies ----------------------------------------------------------------------------------------------------


def test_a_closed_vocabulary_must_list_the_words() -> None:
    short = Vocabulary([word for word in V if word not in ("wok", "golden")])
    with pytest.raises(
        FeatureError, match=r"'venues', but 2 are not listed \('golden', 'wok'\); list them: voc.*words"
    ):
        lookup().bind(short)
    lookup(domain={"name": ["nobody"]}).bind(V)  # a word of a former table need not be there any more


@pytest.mark.parametrize("opened", [{"domains": [Numbers()]}, {"unknown": "?"}], ids=["domains", "unknown"])
def test_elsewhere_a_word_is_in_the_domain_once_it_is_listed(opened: dict[str, Any]) -> None:
    listed = ["pizza", "hut", "city", "golden", "wok", "la", "land", "?", EOS]
    vocabulary = Vocabulary(listed, **opened)
    bound = lookup().bind(vocabulary)
    found = written_out(bound, [bound.initial({"food": "chinese"})], vocabulary)[0]
    assert [float(found[vocabulary.id(word), 0]) for word in ("golden", "city", "hut")] == [1.0, 1.0, 0.0]
    assert (found[:, 1:3] == 1.0).all()
    assert (found[len(vocabulary.words) :, :3] == 1.0).all()
    assert (found[:, 3] == 0.0).all()
    state = bound.scan([bound.initial({"food": "chinese"})], [vocabulary.ids([EOS, "golden"])])[0][-1]
    begun = written_out(bound, [state], vocabulary)[0, :, 3]
    assert begun.sum() == begun[vocabulary.id("wok")] == 1.0


def test_words_that_are_added_to_a_model_are_looked_up() -> None:
    vocabulary = Vocabulary(["pizza", "hut", "city", EOS], domains=[Numbers()])
    model = LLRNN(
        vocabulary,
        output_features=Identity(),
        background=Unigram({"pizza": 2}, smoothing=1.0),
        controller=GRU(3),
        contextual=[lookup()],
    )
    larger = words.add(model, [words.Entry("323737")])
    (feature,) = larger.contextual
    assert feature.vocabulary is larger.vocabulary
    text = [EOS, "pizza", "hut", "01223"]  # the last is a string of a cell, so that nothing goes on with it
    states = feature.scan([feature.initial()], [larger.vocabulary.ids(text)])[0]
    found = written_out(feature, states, larger.vocabulary)
    assert found[:, larger.vocabulary.id("323737"), 2].tolist() == [0.0] * 4
    largest = words.add(larger, [words.Entry("01223")])
    (feature,) = largest.contextual
    states = feature.scan([feature.initial()], [largest.vocabulary.ids(text)])[0]
    found = written_out(feature, states, largest.vocabulary)
    assert found[:, largest.vocabulary.id("323737"), 2].tolist() == [0.0, 0.0, 0.0, 1.0]


# --- queries that fail -----------------------------------------------------------------------------------------------


def raising(kb: KnowledgeBase, condition: object, prefix: Prefix) -> Rows:
    raise KeyError("no\nfood")


def lazily(kb: KnowledgeBase, condition: object, prefix: Prefix) -> Any:
    return (row["nothing"] for row in kb.rows)


def wrong_column(kb: KnowledgeBase, condition: object, prefix: Prefix) -> Rows:
    return kb.where(price="cheap")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (raising, r"its query raised KeyError: 'no\\nfood'; the condition was {'long': 'xxx"),
        (lazily, r"its query raised KeyError: 'nothing'; the condition"),
        (wrong_column, r"raised TableError: the table 'venues' has no column 'price'; it has name, food, area, phone;"),
        (lambda kb, condition, prefix: None, r"must return rows .* found None; the condition was"),
        (lambda kb, condition, prefix: "pizza", r"must return rows .* found 'pizza'"),
        (lambda kb, condition, prefix: kb.rows[0], r"must return rows .* found {'name'"),
        (lambda kb, condition, prefix: ["pizza"], r"must return rows .* found \['pizza'\]"),
        (
            lambda kb, condition, prefix: [{"name": "wimpy"}],
            r"returned 'wimpy' in column 'name', but only words of that",
        ),
        (lambda kb, condition, prefix: [{"name": "italian"}], r"returned 'italian' in column 'name'"),
        (lambda kb, condition, prefix: [{"name": ["city"]}], r"returned \"\['city'\]\" in column 'name'"),
    ],
)
def test_queries_that_fail_say_so_on_one_line(query: Any, message: str) -> None:
    bound = Lookup(KB, query, "name", name="db").bind(V)
    with pytest.raises(FeatureError, match=rf"^lookup 'db': .*{message}") as caught:
        bound.initial({"long": "x" * 500})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert str(caught.value).endswith("x" * 40 + "…")


def test_a_query_may_make_rows_of_its_own() -> None:
    made: list[dict[str, Any]] = [{"name": "city hut", "other": "ignored"}, {"name": None}, {"name": ""}, {}]
    made.append({"phone": 99})
    bound = Lookup(KB, lambda kb, condition, prefix: iter(made), "name", "phone").bind(V)
    found, phone, begun = written_out(bound, [state_after(bound, None, ["city"])])[0].T
    assert begun.sum() == begun[V.id("hut")] == 1.0
    assert (phone[V.id("99")], phone[V.id("01223")]) == (1.0, 0.0)
    domain = {word for name in KB.values("name") for word in name.split()}
    assert {word for word, value in zip(V, found, strict=True) if value == 1.0} & domain == {"city", "hut"}


BAD_LOOKUPS: list[tuple[Callable[[], object], str]] = [
    (lambda: Lookup(KB, QUERY), "one or more distinct columns are required"),
    (lambda: Lookup(KB, QUERY, "name", "name"), "distinct columns"),
    (lambda: Lookup(KnowledgeBase("t", (), ("begun",)), QUERY, "begun"), "another name than 'begun'.*; rename it"),
    (lambda: Lookup(KB, QUERY, "price"), "no column 'price'; it has name, food, area, phone"),
    (lambda: Lookup(KB, Matching("title"), "name"), "no column 'title'"),
    (lambda: Lookup(KB, Matching("name", on=["stars"]), "name"), "no column 'stars'"),
    (lambda: Lookup(KB, "name", "food"), "a function of"),  # type: ignore[arg-type]
    (lambda: lookup(domain={"area": ["west"]}), r"`domain` takes .* found \['west'\] for 'area'"),
    (lambda: lookup(domain={"name": "west"}), "`domain` takes"),
    (lambda: Matching("name", on="food"), r"takes a list of names, found 'food'; write \['food'\]"),
    (lambda: Matching(history=["turns"]), "subject=..."),
    (lambda: lookup().initial(), "must be bound"),
    (lambda: lookup().values([]), "must be bound"),
]


@pytest.mark.parametrize(("make", "message"), BAD_LOOKUPS)
def test_lookups_that_cannot_be(make: Callable[[], object], message: str) -> None:
    with pytest.raises(LLRNNError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


# --- tables from files -----------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=6)
TABLES = st.lists(
    st.fixed_dictionaries({"a": st.none() | TEXTS, "b c": st.none() | TEXTS | st.integers(-(2**63), 2**63 - 1)}),
    min_size=1,
)


def cell(value: Any) -> str:
    return "" if value is None else str(value)


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], delimiter: str = ",") -> str:
    quoted = [columns, *([cell(row.get(column)) for column in columns] for row in rows)]
    return "".join(delimiter.join('"' + x.replace('"', '""') + '"' for x in line) + "\n" for line in quoted)


@settings(QUICK, max_examples=draws(20))
@given(TABLES, st.booleans())
def test_all_files_give_the_same_table(tmp_path_factory: Any, rows: list[dict[str, Any]], lowercase: bool) -> None:
    folder, columns = tmp_path_factory.mktemp("tables"), ("a", "b c")
    wanted = [{c: cell(row[c]).strip() for c in columns if cell(row[c]).strip()} for row in rows]
    if lowercase:
        wanted = [{c: x.lower() for c, x in row.items()} for row in wanted]
    rows = [{c: row[c] for c in columns} for row in rows]
    texts = {
        "table.csv": csv_text(rows, columns),
        "table.tsv": csv_text(rows, columns, "\t"),
        "table.json": "# a comment\n\n#[another]\n" + json.dumps(rows, indent=1),
        "table.jsonl": "# a comment\n" + "\n\n".join(json.dumps(row) for row in rows),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf8", newline="")
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    files = sorted(folder.iterdir())
    assert len(files) == 8
    for file in files:
        found = KnowledgeBase.from_file(file, lowercase=lowercase)
        assert found == KnowledgeBase("table", tuple(wanted), columns)
        assert list(found.rows) == wanted


def test_what_a_table_holds() -> None:
    assert KB.columns == ("name", "food", "area", "phone")
    assert KB.values("area") == ("centre", "south", "north")
    assert len(KB.values("phone")) == 4  # one is missing
    assert KB.where(area="CENTRE", food="Italian") == KB.where({"area": "centre", "food": "italian"}) == KB.rows[:1]
    assert KB.where(area=" Centre ") == (KB.rows[0], KB.rows[3], KB.rows[4])
    assert KB.where() == KB.rows
    assert KB.where(area="west") == ()
    assert KnowledgeBase("venues", KB.rows) == KB
    assert len({KB, KnowledgeBase("venues", KB.rows)}) == 1
    assert repr(KB) == "KnowledgeBase('venues', 5 rows of name, food, area, phone)"
    assert KnowledgeBase("t", ({"a": True, "b": 1.5, "c": 2},)).rows == ({"a": "true", "b": "1.5", "c": "2"},)  # type: ignore[dict-item]


def test_numbers_of_json_stay_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('[{"a": 1.50, "b": 7e1}]', encoding="utf8")
    assert KnowledgeBase.from_json(tmp_path / "t.json").rows == ({"a": "1.50", "b": "7e1"},)


BAD_FILES: list[tuple[str, str | bytes, str]] = [
    ("t.csv", "", r"t.csv: text is required, but the file is empty"),
    ("t.csv", "\n\n", r"t.csv:1: named columns are required, but there are none"),
    ("t.csv", "a,b\n1,2\n1\n", r"t.csv:3: 2 values are required, as in the header, but here are 1; leave none out"),
    ("t.csv", 'a,b\n"1\n1",2\n1,2,3\n', r"t.csv:4: 2 values are required, as in the header, but here are 3"),
    ("t.csv", "a,b, a\n1,2,3\n", r"t.csv:1: columns must be distinct, but 'a' comes 2 times; rename them"),
    ("t.csv", ",a\n1,2\n", r"t.csv:1: every column needs a name, found ''"),
    ("t.csv", 'a,b\n1,"2\n3,4\n', r"t.csv:2: values between ',' are required: unexpected end of data"),
    ("t.csv", 'a,b\n1,"2"x\n', r"t.csv:2: values between ',' are required: ',' expected after '\"'"),
    ("t.csv", b"a,b\n1,\xff\n", r"t.csv:2:3: UTF-8 is required"),
    ("t.tsv", "a\tb\n1,2\n", r"t.tsv:2: 2 values are required"),
    ("t.csv", b"SQLite format 3\0", r"t.csv:1:1: text is required, but this looks like an SQLite database"),
    ("t.json", "", r"t.json: text is required, but the file is empty"),
    ("t.json", "# nothing\n", r"t.json: JSON is required, but the file holds comments only"),
    ("t.json", "[]", r"t.json: named columns are required, but there are none"),
    ("t.json", '#c\n\n[{"a": 1},\n\n {"a" 2}]', r"t.json:5:7: JSON is required: Expecting ':' delimiter"),
    ("t.json", "name,food", r"t.json:1:1: JSON is required: Expecting value"),
    ("t.json", '"text"', r"t.json: entry 1: a flat object with named values is required, found 'text'"),
    ("t.json", '[{"a": 1}, 5]', r"t.json: entry 2: a flat object with named values is required, found '5'"),
    (
        "t.json",
        '[{"a": 1}, {"a": [1]}]',
        r"t.json: entry 2: a text or a number is required in column 'a', found \['1'\]",
    ),
    ("t.json", '[{"a": {"b": 1}}]', r"t.json: entry 1: a text or a number is required in column 'a'"),
    ("t.json", '[{"a": 1, "a": 2}]', r"t.json: entry 1: columns must be distinct, but 'a' comes 2 times"),
    ("t.json", '[{"a": NaN}]', r"t.json: entry 1: a text or a number is required in column 'a', found nan"),
    ("t.json", '[{"a": "\\ud800"}]', r"t.json: entry 1: a text or a number is required"),
    ("t.json", "[" * 100_000, r"t.json:1:1: JSON is required: too deep nesting"),
    ("t.jsonl", '#c\n{"a": 1}\n\n{"a": 1', r"t.jsonl:4:8: JSON is required: Expecting ',' delimiter"),
    ("t.jsonl", '{"a": 1}\n[2]', r"t.jsonl:2: a flat object with named values is required, found \['2'\]"),
    ("t.jsonl", '{"a": 1}\n{"": 2}', r"t.jsonl:2: every column needs a name"),
    ("t.db", b"SQLite format 3\0", r"t.db: a table is required .*a database: sqlite3 -json FILE"),
    ("t.txt", "a\n1\n", r"t.txt: a table is required \(.csv, .tsv, .json, .jsonl; also with"),
    ("t.db.gz", "a\n1\n", r"t.db.gz: a table is required"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_FILES)
def test_bad_files_say_so_on_one_line(name: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TableError, match=rf"^\S*{message}") as caught:
        KnowledgeBase.from_file(file)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


@pytest.mark.parametrize("name", ["none.csv", "none.json"])
def test_a_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=rf"{name}: .*there is no"):
        KnowledgeBase.from_file(tmp_path / name)
    with pytest.raises(TableError):
        KnowledgeBase.from_file(tmp_path / f"a\0{name}")


BAD_TABLES: list[tuple[Callable[[], object], str]] = [
    (lambda: KnowledgeBase("t", ()), "named columns are required"),
    (lambda: KnowledgeBase("t", ({"a": "1", "b": "2"},), ("a",)), "a row has the column 'b', but there are only a"),
    (lambda: KnowledgeBase("t", (), ("a", "a")), "distinct"),
    (lambda: KnowledgeBase("t", ({"a": ["x"]},)), "a text or a number is required in column 'a'"),  # type: ignore[dict-item]
    (lambda: KB.values("p" * 9_999), "has no column 'p{78}…; it has name, food"),
    (lambda: KnowledgeBase("t", ({"n" * 9_999: "a"},)).values("price"), "has no column 'price'; it has n{79}…$"),
    (lambda: KB.values("price"), "the table 'venues' has no column 'price'; it has name, food, area, phone"),
    (lambda: KB.where(price="cheap"), "no column 'price'; it has name, food, area, phone"),
]


@pytest.mark.parametrize(("make", "message"), BAD_TABLES)
def test_tables_that_cannot_be(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TableError, match=message):
        make()


def test_a_table_of_very_many_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({f"c{n}": 1}) + "\n" for n in range(20_000)), encoding="utf8")
    with pytest.raises(TableError, match="a table may have 2,000 columns, found 20,000; leave some out"):
        KnowledgeBase.from_file(tmp_path / "t.jsonl")


def test_nested_json_is_refused_however_deep(tmp_path: Path) -> None:
    for depth in (5, 300, 900, 100_000):
        (tmp_path / "t.json").write_text('[{"a": ' + "[" * depth + "]" * depth + "}]", encoding="utf8")
        with pytest.raises(TableError, match=r"a text or a number is required|too deep nesting"):
            KnowledgeBase.from_file(tmp_path / "t.json")
