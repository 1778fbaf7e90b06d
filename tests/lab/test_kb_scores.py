"""The Cambridge restaurant dialogues: their words, their files, a changed table, and what a turn says of a venue."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llrnn.ground.errors import CorpusError, TableError
from llrnn.text.corpus import Corpus
from llrnn.text.tables import KnowledgeBase
from llrnn_lab.studies.kb_data import (
    COLUMNS,
    DIALOGUES,
    VENUES,
    changed,
    read_dialogues,
    tokens,
    with_unnamed,
    write_parts,
)
from llrnn_lab.studies.kb_scores import Rate, Statement, rates, required, stated

DATA = Path(__file__).parents[3] / "shared" / "data" / "camrest676"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the restaurant dialogues are not at {DATA}")

VALUES = [
    *("01223 323737", "0871 942 9180", "C.B 2, 1 A.B", "C.B 25, 9 A.Q", "34 - 35 Green Street", "14 -16 Bridge Street"),
    *("47-53 Regent Street", "St. Michael's Church Trinity Street", "2G Cambridge Leisure Park", "Frankie and Benny's"),
    *("12 St. Johns Street City Centre", "pizza hut city centre"),
]


# --- words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's a nice Restaurant.", "it 's a nice restaurant ."),
        ("I don't, you're; can’t!", "i do n't , you 're ; ca n't !"),
        ("in the west.Would you", "in the west . would you"),
        ("Nandos' phone:01223 327908.", "nandos ' phone : 01223 327908 ."),
        ("call 01223327908.", "call 01223 327908 ."),
        ("call 01223-327908", "call 01223 327908"),
        ("call 08719429180", "call 0871 942 9180"),
        ("C.B 2, 1 A.B.", "c.b 2 , 1 a.b ."),
        ("at CB259AQ, and", "at c.b 25 , 9 a.q , and"),
        ("c.b2 1ab", "c.b 2 , 1 a.b"),
        ("C.B. 4 1 U.Y", "c.b 4 , 1 u.y"),
        ("C B 17, 1 D Y.", "c.b 17 , 1 d.y ."),
        ("c.b 4, 1.uy. Is", "c.b 4 , 1 u.y . is"),
        ("cb 12345 ab", "cb 12345 ab"),  # no postcode
        ("012233279081 is too long", "012233279081 is too long"),
        ("33-34 Saint Andrews", "33 - 34 saint andrews"),
        ("12 St. Johns Street", "12 st. johns street"),
        ("on Regent St.", "on regent st ."),
        ("", ""),
    ],
)
def test_words(text: str, expected: str) -> None:
    assert " ".join(tokens(text)) == expected


PIECES = st.sampled_from(
    [*VALUES, *" .,'’-_aAn9", "n't", "'s", "st.", "c.b", "cb21ab", "01223", "323737", "1 a b", "é", "İ"]
)


@example("CB00 ST. A")
@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_words_are_cut_once_for_all(text: str) -> None:
    """A text of words is its words, so that `str.split` cuts what is written down."""
    words = tokens(text)
    assert tokens(" ".join(words)) == words
    assert all(word.split() == [word] for word in words)


@given(
    st.sampled_from(VALUES),
    st.sampled_from(["", "the address is ", "It's at: ", "(", "call"]),
    st.sampled_from(["", ".", ", and", "! Bye", "? I don't know", "'s", ")"]),
)
def test_the_words_of_a_value_stand_in_a_sentence_that_says_it(value: str, before: str, after: str) -> None:
    sentence = tokens(f"{before}{' ' if before == 'call' else ''}{value}{after}")
    assert f" {' '.join(tokens(value))} " in f" {' '.join(sentence)} "


# --- files


def slu(*slots: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [{"act": act, "slots": [[slot, value]]} for act, slot, value in slots]


def turn(user: str, system: str, *slots: tuple[str, str, str]) -> dict[str, Any]:
    return {"turn": 0, "usr": {"transcript": user, "slu": slu(*slots)}, "sys": {"sent": system, "DA": []}}


def row(name: str, area: str, price: str, phone: str | None, address: str, postcode: str) -> dict[str, str]:
    found = {"name": name, "area": area, "pricerange": price, "address": address, "postcode": postcode, "food": "Thai"}
    return {**found, "id": "1"} if phone is None else {**found, "phone": phone, "id": "1"}


ROWS = [
    row("Curry Garden", "centre", "expensive", "01223 302330", "106 Regent Street City Centre", "C.B 2, 1 D.P"),
    row("nandos", "south", "cheap", "01223 327908", "Cambridge Leisure Park Clifton Way", "C.B 1, 7 D.Y"),
    row("nandos city centre", "centre", "cheap", "01223 327909", "33-34 Saint Andrews Street", "C.B 2, 3 A.R"),
    row("bloomsbury", "east", "moderate", "0871 942 9180", "Crowne Plaza Hotel 20 East Road", "C.B 2, 3 D.T"),
    row("ugly duckling", "north", "moderate", None, "12 St. Johns Street", "C.B 2, 1 T.W"),
]
DIALOGUE = [
    turn("A cheap one, please.", "Where?", ("inform", "pricerange", "cheap"), ("inform", "food", "Sri Lankan")),
    turn("Anywhere.", " ", ("request", "area", "dontcare")),
    turn("Phone?", "It's 01223327908.", ("request", "slot", "phone"), ("inform", "slot", "address")),
    turn("Bye", "Bye!", ("inform", "area", "north"), ("inform", "area", "south"), ("inform", "name", "nandos")),
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    dialogues = [{"dial": DIALOGUE}, *({"dial": [turn(f"u{i}", f"s{i}")]} for i in range(9))]
    (tmp_path / DIALOGUES).write_bytes(gzip.compress(f"# rights\n{json.dumps(dialogues)}".encode()))
    (tmp_path / VENUES).write_text(f"# rights\n{json.dumps(ROWS)}", encoding="utf8")
    return tmp_path


def test_the_files_of_a_study(source: Path, tmp_path: Path) -> None:
    parts = write_parts(tmp_path / "out", source)
    assert parts.dialogues == {"train": 6, "valid": 2, "test": 2}
    assert [path.name for path in parts.files] == [
        *(f"{p}.jsonl" for p in parts.dialogues),
        *(f"{p}-read.jsonl" for p in (*parts.dialogues, "changed")),
        "train-unnamed.jsonl",
        "venues.json",
        "changed.json",
    ]
    assert all(len(corpus(path)) == size for path, size in parts.files.items() if path.suffix == ".jsonl")
    assert (parts.respelled, parts.empty) == (1, 1)
    *acts, missing = [problem.split(": ", 1)[1] for problem in parts.problems]
    assert acts == [
        "dialogue 1: request(area=dontcare) is read by its slot, not by its act",
        "dialogue 1: inform(slot=address) is read by its slot, not by its act",
        "dialogue 1: inform(area=south) is left out, a turn has one of each of food, area, pricerange",
        "dialogue 1: inform(name=nandos) is left out, a turn has one of each of food, area, pricerange",
    ]
    assert missing == "'ugly duckling' has no phone"
    texts = [path for path in parts.files if path.stem in parts.dialogues]
    lines = {line.words: line.condition for path in texts for line in corpus(path)}
    assert len(lines) == 12
    for path in texts:  # what a softmax reads: the same, and the rows that experts would look up
        for line, read in zip(corpus(path), corpus(path.with_stem(f"{path.stem}-read")), strict=True):
            known: Any = read.condition
            assert all(row.startswith("name ") for row in known.pop("table"))
            assert known == line.condition
    assert lines["where", "?"] == {
        "user": "a cheap one , please .",
        "said": [],
        "asked": [],
        "pricerange": "cheap",
        "food": "sri lankan",
    }
    assert lines["it", "'s", "01223", "327908", "."] == {
        "user": "phone ?",
        "said": ["where ?"],
        "asked": ["phone", "address"],
    }
    assert lines["bye", "!"] == {
        "user": "bye",
        "said": ["where ?", "it 's 01223 327908 ."],
        "asked": [],
        "area": "north",
    }
    before = {path: path.read_bytes() for path in parts.files}
    assert write_parts(tmp_path / "out", source) == parts
    assert {path: path.read_bytes() for path in parts.files} == before
    write_parts(tmp_path / "out", source, seed=1)
    assert any(path.read_bytes() != before[path] for path in parts.files)


def corpus(path: Path) -> Corpus:
    return Corpus.from_file(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("# x\n[{]", "f.json:2:3: JSON is required, a list of dialogues"),
        ('{"dial": [{"usr": {"transcript": "a", "slu": []}}]}', "is required, found {'dial': [{'usr':"),
        (json.dumps([{"dial": [{**turn("a", "b"), "sys": {"sent": None}}]}]), "as dialogue 1; fetch it anew"),
        ("[[]]", "is required, found [] as dialogue 1; fetch it anew"),
        ("3", "is required, found 3 as dialogue 1; fetch it anew"),
        (json.dumps([{"dial": [turn("a", "b", ("inform", "food", "x"))]}, {"dial": [{"usr": "x"}]}]), "dialogue 2"),
    ],
)
def test_what_are_no_dialogues_is_refused(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "f.json").write_text(content, encoding="utf8")
    with pytest.raises(CorpusError, match=re.escape(expected)):
        read_dialogues(tmp_path / "f.json")


def check_changed(old: KnowledgeBase, new: KnowledgeBase) -> None:
    """Names and foods stay; the rest is another's; what is invented is nobody's."""
    assert len(new.rows) == len(old.rows)
    for before, after in zip(old.rows, new.rows, strict=True):
        assert set(after) >= {*COLUMNS} - {"food"}
        assert [before["name"], before.get("food")] == [after["name"], after.get("food")]
        assert all(before.get(column) != after[column] for column in COLUMNS if column not in ("name", "food"))
        assert after["phone"].split()[0] == before.get("phone", "01223").split()[0]
        assert [len(word) for word in after["phone"].split()] == [
            len(w) for w in before.get("phone", "0" * 5 + " " + "0" * 6).split()
        ]
        assert re.fullmatch(r"c\.b \d\d? , \d [a-z]\.[a-z]", after["postcode"])
        assert re.fullmatch(r"\d+ [a-z]+ (street|road|avenue)", after["address"])
        assert all(tokens(value) == value.split() for value in after.values())
    for column in ("area", "pricerange"):
        assert set(new.values(column)) <= set(old.values(column))
    for column in ("phone", "postcode", "address"):
        assert len(set(new.values(column))) == len(new.rows)
        assert not set(new.values(column)) & set(old.values(column))


def test_a_changed_table(source: Path, tmp_path: Path) -> None:
    write_parts(tmp_path / "out", source)
    old, new = (KnowledgeBase.from_file(tmp_path / "out" / f"{name}.json") for name in ("venues", "changed"))
    assert old.columns == new.columns == COLUMNS
    assert old.rows[0]["address"] == "106 regent street city centre"
    assert old.rows[0]["postcode"] == "c.b 2 , 1 d.p"
    check_changed(old, new)
    assert changed(old, seed=1) == changed(old, seed=1) != changed(old, seed=2)
    known = {new.rows[0]["address"].split()[1]}
    assert not known & {word for one in changed(old, known).rows for word in one["address"].split()}


# --- statements


def table(name: str, rows: list[dict[str, str]]) -> KnowledgeBase:
    cut = [{column: " ".join(tokens(value)) for column, value in one.items() if column in COLUMNS} for one in rows]
    return KnowledgeBase(name, tuple(cut), COLUMNS)


OLD = table("old", ROWS)
NEW = table("new", [row("nandos", "west", "expensive", "01223 111111", "7 Zapaford Road", "C.B 9, 9 Z.Z")])
GARDEN = {"user": "what is the phone number of curry garden ?", "said": ["nandos is cheap ."], "asked": []}


def found(text: str, condition: object = None, kb: KnowledgeBase = OLD) -> list[str]:
    """Statements as `column value`, with a ! before what is wrong."""
    statements = stated(text.split(), condition, kb, NEW)
    return [f"{'' if right else '!'}{column} {value}" for column, value, right in statements]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nandos has 01223 327908 .", ["phone 01223 327908"]),
        ("nandos has 01223 327909 .", ["!phone 01223 327909"]),  # another's
        ("nandos has 01223 999999 33 .", ["!phone 01223 999999"]),  # nobody's
        ("nandos has 01223 .", ["!phone 01223"]),
        ("nandos has 327908 or 999999 .", ["phone 327908", "!phone 999999"]),
        ("bloomsbury has 0871 942 9180 , or 0871 942 .", ["phone 0871 942 9180", "!phone 0871 942"]),
        ("ugly duckling has 01223 327908", ["!phone 01223 327908"]),
        ("01223 327908 is the number of nandos , not of curry garden", ["phone 01223 327908"]),
        ("nandos city centre has 01223 327909", ["phone 01223 327909"]),  # the longest name, and no area
        ("nandos has 01223 327908 , curry garden 01223 302330", ["phone 01223 327908", "phone 01223 302330"]),
        ("nandos : c.b 1 , 7 d.y .", ["postcode c.b 1 , 7 d.y"]),
        ("nandos : c.b 1 , 7 d.p .", ["!postcode c.b 1 , 7 d.p"]),
        ("nandos : c.b 1 , and", ["!postcode c.b 1 ,"]),
        ("nandos : c.b c.b", ["!postcode c.b", "!postcode c.b"]),
    ],
)
def test_numbers_and_postcodes(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("curry garden is at 106 regent street city centre .", ["address 106 regent street city centre"]),
        (
            "curry garden is at 106 regent street , city centre , c.b",
            ["address 106 regent street city centre", "!postcode c.b"],
        ),
        ("curry garden is at 106 regent street and", ["address 106 regent street"]),
        ("curry garden is on regent street", ["!address regent street"]),  # without its number
        ("curry garden is at 107 regent street", ["!address 107 regent street"]),
        ("curry garden is at 106 andrews street city centre", ["!address 106 andrews street city centre"]),
        ("curry garden is at 106 zapaford road", ["!address 106 zapaford road"]),  # of the other table
        ("curry garden is at 3 nowhere street", ["!address 3 nowhere street"]),  # of no table
        ("curry garden is at 106 regent", ["!address 106 regent"]),
        (
            "bloomsbury , crowne plaza hotel 20 east road , 0871 942 9180",
            ["address crowne plaza hotel 20 east road", "phone 0871 942 9180"],
        ),
        ("bloomsbury is at 20 east road", ["address 20 east road"]),  # and east is no area
        ("nandos city centre : 33 - 34 saint andrews street", ["address 33 - 34 saint andrews street"]),
        ("ugly duckling is at 12 st. johns street , the", ["address 12 st. johns street"]),
        ("nandos is one of 2 city hotel venues by the park", []),
        ("nandos is a cambridge restaurant , the crowne plaza hotel .", []),
    ],
)
def test_addresses(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nandos is cheap and in the south .", ["pricerange cheap", "area south"]),
        (
            "nandos is moderately priced , inexpensive , in the city center",
            ["!pricerange moderate", "pricerange cheap", "!area centre"],
        ),
        ("there is a cheap one in the south , nandos .", ["pricerange cheap", "area south"]),
        ("i searched the north . nandos is cheap .", ["pricerange cheap"]),  # a name behind, in another sentence
        ("there are cheap ones in the north : curry garden .", []),
        ("there are two : nandos in the south , curry garden in the north .", ["area south", "!area north"]),
        ("nandos is not in the north . it is cheap", ["pricerange cheap"]),
        ("nandos is good . do you want cheap or expensive ?", []),
        ("how about nandos in the south ?", ["area south"]),
        ("nandos serves north american food", []),
        ("nandos is a cheap indian restaurant", ["pricerange cheap"]),
        ("nandos is the least expensive", []),
        ("cheap", []),
        ("", []),
    ],
)
def test_areas_and_prices(text: str, expected: list[str]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("text", "condition", "expected"),
    [
        ("it is 01223 302330 .", GARDEN, ["phone 01223 302330"]),  # the user's name is newer than the system's
        ("it is 01223 302330 .", {**GARDEN, "user": "thanks"}, ["!phone 01223 302330"]),
        ("it is 01223 327908 .", {"said": ["nandos", "curry garden", "yes"]}, ["!phone 01223 327908"]),
        ("nandos : 01223 327908 .", GARDEN, ["phone 01223 327908"]),
        # without a venue: of some row that the user allows
        ("call 01223 302330", {"area": "centre", "food": "dontcare"}, ["phone 01223 302330"]),
        ("call 01223 302330", {"area": "south"}, ["!phone 01223 302330"]),
        ("call 01223 302330", {"area": "centre", "food": "greek"}, ["!phone 01223 302330"]),
        # prices and areas of a venue of an earlier turn
        ("it is expensive .", GARDEN, ["pricerange expensive"]),
        ("in the south .", GARDEN, []),
        ("in the south .", {**GARDEN, "asked": ["area"]}, ["!area south"]),
        ("cheap ones are in the south .", GARDEN, []),
        ("it is cheap .", {"pricerange": "cheap"}, []),
    ],
)
def test_the_venue_under_discussion(text: str, condition: object, expected: list[str]) -> None:
    assert found(text, condition) == expected


def test_another_table_gives_other_answers() -> None:
    text = "nandos is at 7 zapaford road , 01223 111111 , in the west"
    assert found(text) == ["!address 7 zapaford road", "!phone 01223 111111", "!area west"]
    assert found(text, kb=NEW) == ["address 7 zapaford road", "phone 01223 111111", "area west"]


def test_a_table_must_have_the_columns() -> None:
    with pytest.raises(TableError, match="has no column 'phone'"):
        stated(["a"], None, KnowledgeBase("t", ({"name": "a"},)))


def test_rates() -> None:
    said = [Statement("phone", "1", True), Statement("phone", "2", False), Statement("area", "north", True)]
    result = rates(said)
    assert list(result) == ["phone", "address", "postcode", "pricerange", "area", "all"]
    assert (result["phone"], result["area"], result["all"]) == (Rate(2, 1), Rate(1, 1), Rate(3, 2))
    assert result["phone"].share == 0.5
    assert result["address"].share is None


# --- the dialogues themselves


def line_of(user: str, *asked: str) -> dict[str, Any]:
    return {"condition": {"user": user, "said": ["nandos ."], "asked": [*asked]}, "target": "yes"}


def test_copies_without_the_name_of_a_column() -> None:
    lines = [line_of("hello"), line_of("the phone number and address , please", "phone", "address")]
    found = [line["condition"] for line in with_unnamed(lines)]
    assert sorted(map(str, found)) == sorted(
        str(condition)
        for condition in (
            *(line["condition"] for line in lines),
            {"user": "the and address , please", "said": ["nandos ."], "asked": ["address"], "unnamed": ["phone"]},
            {"user": "the phone number and , please", "said": ["nandos ."], "asked": ["phone"], "unnamed": ["address"]},
        )
    )
    assert with_unnamed(lines[:1] * 3) == lines[:1] * 3


@pytest.mark.parametrize(
    ("text", "asked", "said", "expected"),
    [
        ("it is 01223 327908 .", ["phone"], ["nandos ?"], {"phone"}),
        ("it is 01223 999999 .", ["phone"], ["nandos ?"], {"phone"}),  # people err
        ("it is 01223 327908 .", ["phone"], [], set()),  # of which venue?
        ("it is 01223 327908 .", ["address"], ["nandos ?"], set()),
        ("it is nice .", ["phone"], ["nandos ?"], set()),
    ],
)
def test_what_an_answer_has_to_state(text: str, asked: list[str], said: list[str], expected: set[str]) -> None:
    assert required(text.split(), {"user": "", "said": said, "asked": asked}, OLD, NEW) == expected


@pytest.mark.slow
@needs_data
def test_the_restaurant_dialogues(tmp_path: Path) -> None:
    """What people said is mostly right by the table, and wrong by a changed one."""
    parts = write_parts(tmp_path, DATA)
    assert parts.dialogues == {"train": 406, "valid": 135, "test": 135}
    sizes = {path.stem: size for path, size in parts.files.items()}
    read = {"train-read": 1660, "valid-read": 539, "test-read": 545, "changed-read": 545}
    assert sizes.pop("train-unnamed") == 2396
    assert sizes == {"train": 1660, "valid": 539, "test": 545, **read, "venues": 110, "changed": 110}
    assert (parts.respelled, parts.empty, len(parts.problems)) == (74, 0, 8)
    old, new = (KnowledgeBase.from_file(tmp_path / f"{name}.json") for name in ("venues", "changed"))
    check_changed(old, new)
    expected = {
        "train": [Rate(327, 317), Rate(313, 301), Rate(77, 70), Rate(264, 263), Rate(332, 324), Rate(1313, 1275)],
        "valid": [Rate(104, 103), Rate(113, 111), Rate(38, 35), Rate(82, 82), Rate(100, 99), Rate(437, 430)],
        "test": [Rate(108, 104), Rate(114, 110), Rate(32, 30), Rate(91, 90), Rate(98, 96), Rate(443, 430)],
    }
    for part, human in expected.items():
        turns = list(corpus(tmp_path / f"{part}.jsonl"))
        judged = rates(one for turn in turns for one in stated(turn.words, turn.condition, old, new))
        assert list(judged.values()) == human
        other = rates(one for turn in turns for one in stated(turn.words, turn.condition, new, old))
        assert [rate.said for rate in other.values()] == [rate.said for rate in human]
        assert other["all"].right <= 2
        due = Counter(one for turn in turns for one in required(turn.words, turn.condition, old, new))
        assert due == Counter(one for turn in turns for one in required(turn.words, turn.condition, new, old))
        assert due.total() == {"train": 543, "valid": 180, "test": 182}[part]


@needs_data
def test_no_new_street_is_known_from_the_dialogues(tmp_path: Path) -> None:
    parts = write_parts(tmp_path, DATA)
    texts = [path for path in parts.files if path.suffix == ".jsonl" and path.name != "changed-read.jsonl"]
    known = {
        word
        for path in texts
        for line in path.read_text(encoding="utf8").splitlines()
        for word in re.findall(r"\w+", line)
    }
    streets = {one["address"].split()[1] for one in KnowledgeBase.from_file(tmp_path / "changed.json").rows}
    assert len(streets) == 110
    assert not streets & known
