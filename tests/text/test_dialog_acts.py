"""Dialog acts are read, written and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llrnn.ground.errors import CorpusError
from llrnn.text.conditions import MOST_SLOTS, Act, Slot, parse_act

DATA = Path(__file__).parents[3] / "shared" / "data" / "rnnlg_restaurant"


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("goodbye()", Act("goodbye")),
        ("?request(food)", Act("?request", (Slot("food"),))),
        (
            "inform(name='trattoria contadina';pricerange=moderate)",
            Act("inform", (Slot("name", "trattoria contadina"), Slot("pricerange", "moderate"))),
        ),
        (
            "inform( near = 'lower; nob (hill)' ; count=2 )",
            Act("inform", (Slot("near", "lower; nob (hill)"), Slot("count", "2"))),
        ),
        ("inform(name='chef's table')", Act("inform", (Slot("name", "chef's table"),))),
        ('inform(name="a b")', Act("inform", (Slot("name", "a b"),))),
        ("?select(food=thai;food=greek)", Act("?select", (Slot("food", "thai"), Slot("food", "greek")))),
    ],
)
def test_acts_are_read(text: str, act: Act) -> None:
    assert parse_act(text) == act
    assert parse_act(str(act)) == act


def test_the_values_of_a_slot() -> None:
    act = parse_act("?select(food=thai;food=greek;area)")
    assert act.values("food") == ("thai", "greek")
    assert act.values("area") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1 .* a name and `\\(` are required .* found the end"),
        ("inform", "column 1 "),
        ("inform(name=", "column 13 .* the slot 'name' has no value"),
        ("inform(name=;food=thai)", "column 13 .* the slot 'name' has no value"),
        ("inform(name='';food=thai)", "the slot 'name' has no value"),
        ("inform(name='thai)", "column 13 .* the quote ' is not closed"),
        ("inform(name='x'", "column 16 .*: `;` or `.` is required behind a value, found the end"),
        ("inform(name='x' food=y)", "column 16 .*: `;` or `.` is required behind a value, found ' food=y.'"),
        ("inform(=thai)", "column 8 .* the name of a slot is required, found '=thai\\)'"),
        ("inform(food=thai", "column 17 .* `;` or `\\)` is required behind a slot, found the end"),
        ("inform(food=thai) now", "column 18 .* nothing may follow"),
        ("inform(food=thai;)", "column 18 .* the name of a slot is required"),
    ],
)
def test_what_does_not_parse_is_refused_with_its_column(text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        parse_act(text)


names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
values = st.text(st.sampled_from("ab é;()1-'"), min_size=1, max_size=12).filter(
    lambda text: text.strip() == text and "';" not in text.replace(" ", "") and "')" not in text.replace(" ", "")
)


@given(names, st.lists(st.tuples(names, values | st.none()), max_size=4))
def test_what_is_written_is_read_again(name: str, slots: list[tuple[str, str | None]]) -> None:
    act = Act(name, tuple(Slot(*slot) for slot in slots))
    assert parse_act(str(act)) == act


def read_or_reason(text: str) -> Act | str:
    """The act, or why it is none."""
    try:
        return parse_act(text)
    except CorpusError as error:
        return str(error)


@given(st.text(max_size=40) | st.text(st.sampled_from("a(;=)' "), max_size=20).map("inform(".__add__))
def test_any_text_is_read_or_refused(text: str) -> None:
    found = read_or_reason(text)
    assert isinstance(found, Act) or found.startswith("column ")


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data/rnnlg_restaurant")
def test_the_acts_of_the_restaurant_corpus_are_read() -> None:
    """One of them has a quote too many, and is told with its column."""
    found: list[Act | str] = []
    for part in ("train", "valid", "test"):
        lines = (DATA / f"{part}.json").read_text(encoding="utf8").splitlines()
        rows = json.loads("\n".join(line for line in lines if not line.startswith("#")))
        found += [read_or_reason(row[0]) for row in rows]
    refused = [reason for reason in found if isinstance(reason, str)]
    assert len(found) == 5192
    assert len(refused) == 1
    assert refused[0].startswith("column 49 of the dialog act")


def test_an_act_of_very_many_slots_is_refused_by_its_limit() -> None:
    most = Act("inform", tuple(Slot(f"s{number}", "it's") for number in range(MOST_SLOTS)))
    assert parse_act(str(most)) == most
    with pytest.raises(
        CorpusError, match=r"an act may have 1,000 slots, and this one has more; leave some out"
    ) as found:
        parse_act(f"inform({';'.join(['food=thai'] * 100_000)})")
    assert len(str(found.value)) < 500  # the act itself is not shown to its end
