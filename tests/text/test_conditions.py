"""Conditions: read from files as text or as acts, taken apart into values and symbols, and taken out of sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llrnn.config import parse_config
from llrnn.config.keys import CorpusConfig
from llrnn.config.project import read_corpora
from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.text.conditions import (
    DEEPEST,
    MOST_SLOTS,
    NOT_SAID,
    Act,
    Characters,
    Slot,
    Slots,
    Value,
    Whole,
    Words,
    fields_of,
    make_tokenizer,
    map_texts,
    parse_act,
    values_of,
    words_of,
)
from llrnn.text.corpus import Corpus, Sentence, Token, delexicalise, read_tsv
from llrnn.text.encoded import EncodedText
from llrnn.text.readers import Line, _JsonRecord
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.studies.nlg_data import relexicalise

DATA = Path(__file__).parents[3] / "shared" / "data" / "rnnlg_restaurant"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the restaurant corpus is not at {DATA}")

THAI = Act("inform", (Slot("name", "bangkok tokyo"), Slot("food", "thai")))


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(content: str, name: str) -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf8")
        return path

    return write


def refusal(path: Path, **options: str) -> str:
    """What reading a file is answered, without the folder."""
    with pytest.raises(CorpusError) as caught:
        Corpus.from_file(path, **options)  # type: ignore[arg-type]
    return str(caught.value).replace(f"{path.parent}/", "")


# --- two columns


def test_two_columns(file: Callable[[str, str], Path]) -> None:
    path = file("Formal\tCould  you\n\n  \n\thelp me\n C \tx\n", "f.tsv")
    assert list(read_tsv(path, lowercase=True)) == [
        Sentence((Token("could"), Token("you")), "formal", f"{path}:1"),
        Sentence((Token("help"), Token("me")), None, f"{path}:4"),
        Sentence((Token("x"),), "c", f"{path}:5"),
    ]
    assert Corpus.from_file(path)[0].words == ("Could", "you")
    assert Corpus.from_file([path, path])[5].condition == "C"
    assert Corpus.from_file(file("a\tb\n", "f.dat"), format="tsv").tokens == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a", "f.tsv:2:2: 2 columns (condition TAB target) are required, found 1"),
        ("a\tb\tc", "f.tsv:2:4: 2 columns (condition TAB target) are required, found 3"),
        ("ab\t", "f.tsv:2:4: the target must have a word, found none"),
        ("\t", "f.tsv:2:2: the target must have a word"),
    ],
)
def test_bad_columns(file: Callable[[str, str], Path], line: str, expected: str) -> None:
    assert refusal(file(f"fine\tfine\n{line}\n", "f.tsv")).startswith(expected)


# --- acts as conditions


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("f.tsv", "{}\tx"),
        ("f.tsv", "  {} \tx"),
        ("f.jsonl", '{{"condition": "{}", "target": "x"}}'),
        ("f.jsonl", '{{"target": "x", "condition" :\t"{}"}}'),
    ],
)
def test_acts_are_read(file: Callable[[str, str], Path], name: str, line: str) -> None:
    path = file(line.format(THAI) + "\n", name)
    assert Corpus.from_file(path, conditions="act")[0].condition == THAI
    assert str(Corpus.from_file(path)[0].condition).strip() == str(THAI)


@pytest.mark.parametrize(
    ("name", "line", "place", "reason"),
    [
        ("f.tsv", "inform(food=thai\tx", "2:17", "`;` or `)` is required behind a slot, found the end; correct it"),
        ("f.tsv", " inform(=thai)\tx", "2:9", "the name of a slot is required, found '=thai)'"),
        ("f.tsv", "thai\tx", "2:1", "a name and `(` are required"),
        ("f.tsv", "\tx", "2:1", "a dialog act is required before the TAB"),
        ("f.jsonl", '{"condition": "inform(=thai)", "target": "x"}', "2:23", "the name of a slot is required"),
        ("f.jsonl", '{"target": "condition", "condition": "inform(=thai)"}', "2:46", "the name of a slot"),
        # with an escape only the key has a place in the line
        ("f.jsonl", '{"target": "x", "condition": "inform(\\u0061=)"}', "2:17", "at column 10 of the act"),
        ("f.jsonl", '{"target": "x", "condition": ""}', "2:17", "found a blank string"),
        ("f.jsonl", '{"target": "x", "condition": {"food": "thai"}}', "2:17", "found an object; give one"),
        ("f.jsonl", '{"target": "x", "condition": null}', "2:17", "found null"),
        ("f.jsonl", '{"target": "x"}', "2:1", "found none; give one"),
    ],
)
def test_what_is_no_act_is_placed(
    file: Callable[[str, str], Path], name: str, line: str, place: str, reason: str
) -> None:
    fine = {"f.tsv": "goodbye()\tbye", "f.jsonl": '{"condition": "goodbye()", "target": "bye"}'}[name]
    found = refusal(file(f"{fine}\n{line}\n", name), conditions="act")
    assert found.startswith(f"{name}:{place}: a dialog act ")
    assert reason in found


def test_the_column_of_a_fault_is_carried() -> None:
    with pytest.raises(CorpusError) as caught:
        parse_act("inform(=thai)")
    assert (caught.value.column, caught.value.line) == (8, None)
    assert caught.value.reason == "the name of a slot is required, found '=thai)'"


def test_other_ways_to_read_conditions_are_refused(file: Callable[[str, str], Path]) -> None:
    assert "conditions must be 'plain' or 'act', found 'acts'" in refusal(file("a\tb", "f.tsv"), conditions="acts")
    assert "conditions='act' needs a file with conditions" in refusal(file("a b", "f.txt"), conditions="act")


def test_a_configuration_says_how_conditions_are_read(file: Callable[[str, str], Path]) -> None:
    path = file(f"{THAI}\tx\n", "f.tsv")
    table = {"train": [str(path)], "conditions": "act"}
    config = parse_config({"kind": "softmax", "corpus": table}, "here")
    assert read_corpora(config)["train"][0].condition == THAI
    assert CorpusConfig(train=["a"]).conditions == "plain"
    with pytest.raises(ConfigError, match=r"corpus\.conditions"):
        parse_config({"kind": "softmax", "corpus": table | {"conditions": "acts"}}, "here")


def test_different_acts_are_different_texts() -> None:
    def digest(condition: object) -> str:
        corpus = Corpus((Sentence((Token("x"),), condition),))
        return EncodedText.encode(corpus, Vocabulary.from_corpus(corpus)).digest()

    other = Act("inform", (Slot("name", "bangkok tokyo"), Slot("food", "greek")))
    assert digest(THAI) == digest(parse_act(str(THAI)))
    assert len({digest(one) for one in (THAI, other, [THAI], [other], Act("goodbye"), None)}) == 6
    assert digest(object()) == digest(object())  # by its type: an address is not what was trained on


# --- what a condition says


def test_the_values_of_an_act() -> None:
    act = parse_act("?select(food='thai or north greek';area=dontcare;area=No;near;food=thai;count=2)")
    assert values_of(act) == (Value("food", ("thai",)), Value("food", ("north", "greek")), Value("count", ("2",)))
    assert list(fields_of(act))[3] == ("near", None)
    assert words_of(act) == "thai or north greek dontcare No thai 2".split()  # noqa: SIM905


def test_the_values_of_other_conditions() -> None:
    record = {"food": ["thai", "greek"], "price": 37, "near": None, "where": {"area": "nob hill"}, "kids": True}
    assert values_of(record) == (
        Value("food", ("thai",)),
        Value("food", ("greek",)),
        Value("price", ("37",)),
        Value("where", ("nob", "hill")),
    )
    assert values_of("a text") == values_of(None) == values_of(3) == ()
    assert (words_of("a text"), words_of(None)) == (["a", "text"], [])


def test_an_act_as_words_slots_and_whole() -> None:
    act = Act("inform", (Slot("name", "bangkok tokyo"), Slot("food", "dontcare"), Slot("area")))
    words = "inform name bangkok tokyo food dontcare area".split()  # noqa: SIM905
    assert Words().tokens(act) == [(f"Word:{word}",) for word in words]
    assert Slots().tokens(act) == [
        ("Act:inform",),
        ("Slot:name", "First", "Word:bangkok", "name=bangkok"),
        ("Slot:name", "Last", "Word:tokyo", "name=tokyo"),
        ("Slot:food", "First", "Last", "Word:dontcare", "food=dontcare"),
        ("Slot:area", "Asked"),
    ]
    assert Whole().tokens(act) == [("Act:inform", "name=bangkok tokyo", "food=dontcare", "Slot:area")]


def test_an_act_spelled() -> None:
    act = Act("inform", (Slot("name", "so  x"), Slot("food", "dontcare"), Slot("area")))
    assert Characters().tokens(act) == [
        ("Act:inform",),
        ("Slot:name", "Spelled"),
        ("Slot:name", "Character:s", "Behind: ", "Behind:  "),
        ("Slot:name", "Character:o", "Behind:s", "Behind: s"),
        ("Slot:name", "Character: ", "Behind:o", "Behind:so"),
        ("Slot:name", "Character:x", "Behind: ", "Behind:o "),
        ("Slot:food", "food=dontcare"),
        ("Slot:area", "Asked"),
    ]
    assert Characters().tokens("a b") == [("Character:a",), ("Character: ",), ("Character:b",)]


def test_what_is_not_read_of_a_slot_is_its_words() -> None:
    named, other = (Act("inform", (Slot("name", name),)) for name in ("bangkok tokyo", "la mar"))
    careless = Act("inform", (Slot("name", "dontcare"),))
    assert Slots(["name"]).tokens(named) == Slots(["name"]).tokens(other)
    assert Slots(["name"]).tokens(named) != Slots(["name"]).tokens(careless)


def test_other_conditions_as_words_slots_and_whole() -> None:
    assert Words().tokens("a b") == Slots().tokens("a b") == [("Word:a",), ("Word:b",)]
    assert Words().tokens(["a", {"k": 3}]) == [("Word:a",), ("Word:3",)]
    assert Whole().tokens("formal") == [("Value:formal",)]
    assert Words().tokens(None) == Slots().tokens(None) == []


@pytest.mark.parametrize(
    "reading", [Words(), Slots(["phone", "name"]), Characters(), Whole()], ids=lambda reading: reading.kind
)
def test_a_reading_is_made_again_from_its_settings(reading: Words | Slots | Characters | Whole) -> None:
    again = make_tokenizer(reading.settings())
    assert type(again) is type(reading)
    assert again.settings() == reading.settings()


def test_another_reading_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="unknown way to read a condition 'letters': use one of words, slots, spelled"
    ):
        make_tokenizer({"kind": "letters"})


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(plain)
def test_every_plain_condition_can_be_read(condition: object) -> None:
    assert all(value.words and "" not in value.words for value in values_of(condition))
    assert all(isinstance(word, str) and word for word in words_of(condition))
    for reading in (Words(), Slots(["a"]), Characters(), Whole()):
        assert all(isinstance(name, str) for token in reading.tokens(condition) for name in token)
        assert all(reading.tokens(condition))  # a symbol without a feature is none
    assert relexicalise(["SLOT_A"], condition)


texts = st.text(st.sampled_from("ab1 'é"), max_size=9) | st.sampled_from(sorted(NOT_SAID)) | st.just("a or b")


@given(st.dictionaries(st.sampled_from(["name", "food", "near"]), st.lists(texts | st.none(), max_size=3)))
def test_an_act_and_a_record_with_its_fields_are_the_same(record: dict[str, list[str | None]]) -> None:
    act = Act("inform", tuple(Slot(slot, value) for slot, values in record.items() for value in values))
    assert values_of(act) == values_of(record)
    assert list(fields_of(act)) == list(fields_of(record))
    assert words_of(act) == words_of(record)
    assert relexicalise(["SLOT_FOOD", "SLOT_FOOD"], act) == relexicalise(["SLOT_FOOD", "SLOT_FOOD"], record)


# --- values out of sentences and in again


def one(words: str, condition: object) -> Corpus:
    return Corpus((Sentence(tuple(Token(word) for word in words.split()), condition),), "one")


@pytest.mark.parametrize(
    ("words", "act", "expected"),
    [
        ("bangkok tokyo serves thai food", "inform(name='bangkok tokyo';food=thai)", "SLOT_NAME serves SLOT_FOOD food"),
        ("bangkok is not tokyo", "inform(name='bangkok tokyo')", "bangkok is not tokyo"),
        ("thai thai x", "inform(food=thai)", "SLOT_FOOD SLOT_FOOD x"),
        ("thai or greek", "?select(food=thai;food=greek)", "SLOT_FOOD or SLOT_FOOD"),
        ("little thai thai", "inform(food=thai;name='little thai')", "SLOT_NAME SLOT_FOOD"),  # the longest first
        ("a b c d", "inform(food='a b';name='b c d')", "a SLOT_NAME"),
        ("near x", "inform(near=x)", "near x"),  # a slot that was not asked for
    ],
)
def test_values_leave_and_come_back(words: str, act: str, expected: str) -> None:
    corpus = delexicalise(one(words, parse_act(act)), ["name", "food"])
    assert " ".join(corpus[0].words) == expected
    assert corpus[0].condition == parse_act(act)
    assert relexicalise(corpus[0].words, corpus[0].condition) == words.split()


def test_values_of_a_record_leave_too() -> None:
    record = {"food": ["thai", "greek"], "count": 2}
    corpus = delexicalise(one("2 serve greek", record), {"food", "count"})
    assert corpus[0].words == ("SLOT_COUNT", "serve", "SLOT_FOOD")
    assert relexicalise(corpus[0].words, record) == ["2", "serve", "thai"]  # the values in their order


def test_more_placeholders_than_values_and_none() -> None:
    words = ["SLOT_FOOD", "SLOT_FOOD", "SLOT_FOOD", "SLOT_AREA", "SLOT_NAME"]
    act = parse_act("?select(food=thai;food='north greek';area)")
    assert relexicalise(words, act) == ["thai", "north", "greek", "north", "greek", "SLOT_AREA", "SLOT_NAME"]
    assert relexicalise(words, None) == words


def test_heads_do_not_outlive_their_positions() -> None:
    tokens = (Token("bangkok", head=3), Token("tokyo", head=1), Token("serves", pos="VERB", head=0))
    (sentence,) = delexicalise(Corpus((Sentence(tokens, THAI),)), ["name"])
    assert sentence.tokens == (Token("SLOT_NAME"), Token("serves", pos="VERB"))
    unchanged = Sentence(tokens, Act("goodbye"))
    assert delexicalise(Corpus((unchanged,)), ["name"])[0] is unchanged


def test_one_name_is_no_list_of_slots() -> None:
    with pytest.raises(CorpusError, match=r"found the str 'name'; write \['name'\]"):
        delexicalise(one("x", None), "name")


@needs_data
def test_the_restaurant_corpus_comes_back() -> None:
    lines = (DATA / "test.json").read_text(encoding="utf8").splitlines()
    rows = json.loads("\n".join(line for line in lines if not line.startswith("#")))
    acts = [(parse_act(act), text.lower().split()) for act, text, _ in rows if "'\"" not in act]
    corpus = Corpus(tuple(Sentence(tuple(Token(word) for word in words), act) for act, words in acts))
    slots = ["name", "phone", "address", "postcode"]
    without = delexicalise(corpus, slots)
    left = [slot for sentence in without for slot in slots if f"SLOT_{slot.upper()}" in sentence.words]
    assert len(left) > 700
    # two names in the other order is the one thing that does not come back
    single = [i for i, (act, _) in enumerate(acts) if all(len(act.values(slot)) < 2 for slot in slots)]
    assert len(single) > 950
    for i in single:
        assert relexicalise(without[i].words, without[i].condition) == acts[i][1]


def test_small_letters_in_conditions_too(file: Callable[[str, str], Path]) -> None:
    """Values are compared with words, so they are written as the words are; names of slots are not words."""
    path = file("inform(Name='Chez Paul';food)\tChez Paul\n", "f.tsv")
    small, asis = (Corpus.from_file(path, conditions="act", lowercase=lower)[0].condition for lower in (True, False))
    assert small == Act("inform", (Slot("Name", "chez paul"), Slot("food")))
    assert asis == Act("inform", (Slot("Name", "Chez Paul"), Slot("food")))
    record = {"A": ["B", {"C": "D"}, 3, None]}
    assert map_texts(record, str.lower) == {"A": ["b", {"C": "d"}, 3, None]}


def nested(depth: int) -> object:
    made: object = "A"
    for _ in range(depth):
        made = [made]
    return made


def test_conditions_that_nest_too_deeply_or_say_too_much_are_refused() -> None:
    assert list(fields_of({"a": nested(DEEPEST - 1)})) == [("a", "A")]
    assert repr(map_texts(nested(DEEPEST), str.lower)) == repr(nested(DEEPEST)).lower()
    lower = lambda condition: map_texts(condition, str.lower)  # noqa: E731
    for walk in (lambda condition: values_of({"a": condition}), lower, Words().tokens):
        for depth in (DEEPEST + 1, 100_000):
            with pytest.raises(CorpusError, match=f"lists and records {DEEPEST} deep, found one that is deeper"):
                walk(nested(depth))
    assert len(values_of({"a": [str(n) for n in range(MOST_SLOTS)]})) == MOST_SLOTS
    for many in ({"a": ["x"] * (MOST_SLOTS + 1)}, Act("inform", (Slot("a", "b"),) * (MOST_SLOTS + 1))):
        with pytest.raises(CorpusError, match="may have 1,000 values in its slots"):
            values_of(many)


class CountedKey(str):
    """A key that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedKey.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_key_that_comes_again_is_found_in_linear_time(tmp_path: Path) -> None:
    pairs: list[tuple[str, object]] = [(CountedKey(f"k{number}"), 0) for number in range(500)]
    record = object.__new__(_JsonRecord)
    record.line = Line("file", 1, "")
    CountedKey.compared = 0
    with pytest.raises(CorpusError, match="each key may stand once in an object, found 'k499' again"):
        record.unrepeated([*pairs, pairs[-1], pairs[-1]])
    assert CountedKey.compared < 10 * len(pairs)
