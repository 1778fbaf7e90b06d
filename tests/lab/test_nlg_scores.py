"""The restaurant corpus of dialog acts: its files, its unseen values, BLEU and slot errors."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from llrnn.ground.errors import CorpusError, MissingExtraError
from llrnn.inference.meanings import bleu, references_of
from llrnn.text.conditions import Act, parse_act, required_values
from llrnn.text.corpus import Corpus, Sentence, Token
from llrnn_lab.studies.nlg_data import NEW_SLOTS, all_words, name_endings, read_rnnlg, unseen_values, write_parts
from llrnn_lab.studies.nlg_scores import (
    FEW,
    UNCOUNTED,
    Inventory,
    SlotErrors,
    announced,
    placeholder_errors,
    slot_errors,
    sum_of_errors,
)

DATA = Path(__file__).parents[3] / "shared" / "data" / "rnnlg_restaurant"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the restaurant corpus is not at {DATA}")

ROWS = [
    ["inform(name='little thai';food=thai)", "Little Thai serves  thai food", "b"],
    ["inform(name=chow;phone='4155522469')", "the number of chow is 4155522469", "b"],
    ["?request(food)", "do you like thai or north greek", "b"],
    ["inform(name='chow and little thai';near='mission bay')", "chow and little thai are near mission bay", "b"],
    ["inform(name=chow;address='1 chow street')", "chow 's address is 1 chow street", "b"],
    ["inform(name=chow;near=mission)", "chows is near mission", "b"],
    ["?select(food=thai';food=greek)", "thai or greek", "b"],
    ["inform(name='chow grill';food='north greek')", "chow grill is north greek", "b"],
    ["inform(name='red grill';phone=4150000000)", "red grill has 4150000000", "b"],
]


def corpus(*pairs: tuple[str, str]) -> Corpus:
    sentences = (Sentence(tuple(map(Token, text.split())), parse_act(act)) for act, text in pairs)
    return Corpus(tuple(sentences))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.json").write_text("####\n# rights\n" + json.dumps(ROWS, indent=1), encoding="utf8")
    return tmp_path


# --- reading and writing


def test_the_corpus_is_read_and_what_is_left_out_is_told(source: Path) -> None:
    found, problems = read_rnnlg(source / "train.json")
    assert len(found) == 8
    assert found[0].words == ("little", "thai", "serves", "thai", "food")
    assert found[0].condition == parse_act(ROWS[0][0])
    (problem,) = problems
    assert problem.startswith(f"{source / 'train.json'}: item 7 is left out: column 18 of the dialog act")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("# x\n[[1, ]]", "f.json:2:6: JSON is required"),
        ('[["goodbye()"]]', "f.json: [act, reference, baseline] is required, found \"['goodbye()']\" at item 1"),
        ('[["goodbye()", " "]]', "f.json: [act, reference, baseline] is required"),
        ('{"a": 1}', "f.json: [act, reference, baseline] is required"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "f.json").write_text(content, encoding="utf8")
    with pytest.raises(CorpusError, match=re.escape(expected)):
        read_rnnlg(tmp_path / "f.json")


def test_parts_are_nested_and_read_again(source: Path, tmp_path: Path) -> None:
    parts = write_parts(tmp_path / "out", source, shares=(25, 50, 100))
    assert {path.name: size for path, size in parts.files.items()} == {
        "train.jsonl": 8,
        "train-25.jsonl": 2,
        "train-50.jsonl": 4,
        "valid.jsonl": 8,
        "valid-unseen.jsonl": 8,
        "test.jsonl": 8,
        "unseen.jsonl": 8,
    }
    assert len(parts.problems) == 3
    texts = {path.stem: Corpus.from_file(path, conditions="act") for path in parts.files}
    lines = {part: [(str(one.condition), one.words) for one in text] for part, text in texts.items()}
    assert set(lines["train-25"]) < set(lines["train-50"]) < set(lines["train"])
    assert lines["train"] == [(str(one.condition), one.words) for one in read_rnnlg(source / "train.json")[0]]
    before = {path: path.read_bytes() for path in parts.files}
    write_parts(tmp_path / "out", source, shares=(25, 50, 100))
    assert {path: path.read_bytes() for path in parts.files} == before
    write_parts(tmp_path / "out", source, shares=(25, 50, 100), seed=1)
    assert any(path.read_bytes() != before[path] for path in parts.files)


def test_a_share_is_a_percentage(source: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"percentages from 1 to 100, found \[0, 5\]"):
        write_parts(tmp_path / "out", source, shares=(0, 5))


# --- unseen values


def test_unseen_values_are_new_and_consistent(source: Path) -> None:
    old, _ = read_rnnlg(source / "test.json")
    assert name_endings(old) == ["grill"]
    new, values, not_said = unseen_values(old, avoid=["x"], endings=["grill"])
    assert not_said == 1  # chows
    assert len(set(values.values())) == len(values) == 6
    known = all_words(old) - {"grill"}
    assert not known & {word for value in values.values() for word in value.split()}
    chow, thai = values["name", "chow"], values["name", "little thai"]
    assert re.fullmatch(r"[2-9]\d{9}", values["phone", "4155522469"])
    said = [" ".join(sentence.words) for sentence in new]
    assert said[0] == f"{thai} serves thai food"
    assert said[1] == f"the number of {chow} is {values['phone', '4155522469']}"
    assert said[3] == f"{chow} and {thai} are near mission bay"
    assert said[4] == f"{chow} 's address is 1 chow street"  # within an address it is no name
    assert said[5] == "chows is near mission"
    assert str(new[4].condition) == str(Act("inform", parse_act(f"a(name='{chow}';address='1 chow street')").slots))
    assert new[2] == old[2]


def test_unseen_values_depend_on_the_seed_alone(source: Path) -> None:
    old, _ = read_rnnlg(source / "test.json")
    assert unseen_values(old, seed=3) == unseen_values(old, seed=3)
    assert unseen_values(old, seed=3).values != unseen_values(old, seed=4).values


def test_no_two_new_values_share_a_word() -> None:
    """So many that some would be alike by chance."""
    many = corpus(*((f"inform(name=old{i})", f"old{i} is nice") for i in range(4000)))
    words = [word for value in unseen_values(many).values.values() for word in value.split()]
    assert len(set(words)) == len(words) > 4000


def test_unseen_values_need_acts() -> None:
    with pytest.raises(CorpusError, match="a dialog act is required as condition, found 'formal'"):
        unseen_values(Corpus((Sentence((Token("x"),), "formal"),)))


# --- BLEU


def test_bleu_of_the_references_and_of_something_else() -> None:
    reference = "chow is a nice restaurant near mission bay".split()  # noqa: SIM905
    assert bleu([[reference]], [reference]) == pytest.approx(100)
    assert bleu([[reference]], [["goodbye"]]) < 1
    # 4 of 4, 3, 2 and 1 n-grams, half as long: exp(1 - 8 / 4)
    assert bleu([[reference]], [reference[:4]]) == pytest.approx(100 * 2.718281828**-1, rel=1e-6)


def test_bleu_takes_the_best_of_several_references() -> None:
    outputs = ["a b c d e".split(), "p q r s".split()]  # noqa: SIM905
    more = [["v w x y z".split(), outputs[0]], [outputs[1]]]  # noqa: SIM905
    assert bleu(more, outputs) == pytest.approx(100)
    assert bleu([more[0][:1], more[1]], outputs) < 90


def test_references_are_those_of_the_same_act() -> None:
    found = references_of(corpus(("a(x=1)", "one"), ("b()", "two"), ("a(x='1')", "three"), ("a(x=1)", "one")))
    assert found == [[("one",), ("three",)], [("two",)], [("one",), ("three",)], [("one",), ("three",)]]


@pytest.mark.parametrize(("references", "outputs"), [([], []), ([[["a"]]], [["a"], ["b"]]), ([[]], [["a"]])])
def test_every_output_needs_a_reference(references: list[list[list[str]]], outputs: list[list[str]]) -> None:
    with pytest.raises(CorpusError, match="one or several references for each output are required"):
        bleu(references, outputs)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(MissingExtraError, match=r"needs sacrebleu, .* 'llrnn\[nlg\]'"):
        bleu([[["a"]]], [["a"]])


# --- slot errors

INVENTORY = Inventory(
    {
        tuple(value.split()): frozenset(slots)
        for value, slots in {
            "chow": {"name"},
            "range": {"name"},
            "little thai": {"name"},
            "thai": {"food"},
            "greek": {"food"},
            "north greek": {"food"},
            "mission": {"near"},
            "mission bay": {"near", "area"},
            "cheap": {"pricerange"},
            "2": {"count"},
        }.items()
    },
    ordinary=frozenset({("range",)}),
    uncounted=UNCOUNTED,
)


@pytest.mark.parametrize(
    ("act", "words", "expected"),
    [
        ("inform(name=chow;food=thai)", "chow serves thai food", SlotErrors(2, 0, 0, 0)),
        ("inform(name=chow;food=thai)", "chow serves food", SlotErrors(2, 1, 0, 0)),
        ("inform(name=chow;food=thai)", "it serves greek food", SlotErrors(2, 2, 0, 1)),
        ("inform(name=chow;food=thai)", "chow chow serves thai food , thai thai", SlotErrors(2, 0, 3, 0)),
        ("inform(name='little thai')", "thai little", SlotErrors(1, 1, 0, 1)),  # in a row, in their order
        # within a longer value: not missing, not once more, not wrong
        ("inform(name='little thai';food=thai)", "little thai serves thai food", SlotErrors(2, 0, 0, 0)),
        ("inform(name='little thai';food=thai)", "little thai", SlotErrors(2, 0, 0, 0)),
        ("inform(name='little thai')", "little thai", SlotErrors(1, 0, 0, 0)),
        ("inform(food='thai or north greek')", "north greek", SlotErrors(2, 1, 0, 0)),
        ("inform(name='chow and little thai')", "little thai and chow", SlotErrors(2, 0, 0, 0)),
        ("inform(near='mission bay')", "near mission", SlotErrors(1, 1, 0, 1)),
        ("inform(near=mission)", "near mission bay", SlotErrors(1, 0, 0, 0)),  # bay alone is no value
        ("inform(food=thai)", "north greek thai", SlotErrors(1, 0, 0, 1)),  # the longest, once
        ("inform(near='mission bay';area='mission bay')", "mission bay mission bay", SlotErrors(2, 0, 0, 0)),
        ("inform(near='mission bay';area='mission bay')", "mission bay", SlotErrors(2, 0, 0, 0)),
        ("inform(near='mission bay';area='mission bay')", "bay", SlotErrors(2, 2, 0, 0)),
        # not to be said: restaurant, yes and no, what nobody cares about
        ("inform(type=restaurant;kidsallowed=no;food=dont_care)", "no thai", SlotErrors(0, 0, 0, 0)),
        ("?request(food)", "thai or north greek , or cheap", SlotErrors(0, 0, 0, 1)),
        ("inform(name=chow)", "chow is in the cheap price range", SlotErrors(1, 0, 0, 1)),
        ("inform(name=range)", "range is in the price range", SlotErrors(1, 0, 0, 0)),
        ("inform(count=2)", "there are 2", SlotErrors(1, 0, 0, 0)),
        ("goodbye()", "", SlotErrors(0, 0, 0, 0)),
    ],
)
def test_slot_errors(act: str, words: str, expected: SlotErrors) -> None:
    assert slot_errors(parse_act(act), words.split(), INVENTORY) == expected


@pytest.mark.parametrize(
    ("act", "words", "expected"),
    [
        ("inform(name=chow;food=thai)", "SLOT_NAME serves SLOT_FOOD food", SlotErrors(2, 0, 0)),
        ("inform(name=chow;food=thai)", "chow serves thai food", SlotErrors(2, 0, 0)),  # values are replaced first
        ("inform(name=chow;food=thai)", "SLOT_NAME SLOT_NAME SLOT_AREA", SlotErrors(2, 1, 2)),
        ("inform(food='thai or greek';type=restaurant)", "SLOT_FOOD or greek restaurant", SlotErrors(2, 0, 0)),
        ("inform(food=dontcare)", "any food", SlotErrors(0, 0, 0)),
    ],
)
def test_errors_as_the_authors_of_the_corpus_count_them(act: str, words: str, expected: SlotErrors) -> None:
    assert placeholder_errors(parse_act(act), words.split()) == expected


def rate(corpus: Corpus, outputs: Sequence[Sequence[str]], inventory: Inventory) -> float:
    acts = [sentence.condition for sentence in corpus]
    return sum_of_errors(slot_errors(act, words, inventory) for act, words in zip(acts, outputs, strict=True)).rate


def test_errors_are_summed_and_divided() -> None:
    pairs = corpus(("inform(name=chow;food=thai)", ""), ("inform(name=chow)", ""), ("goodbye()", ""))
    outputs = [["chow"], ["chow", "chow", "greek"], ["2"]]
    assert rate(pairs, outputs, INVENTORY) == (1 + 2 + 1) / 3
    assert sum_of_errors([]) == SlotErrors(0, 0, 0, 0)
    with pytest.raises(CorpusError, match="needs an act with a value to say"):
        _ = SlotErrors().rate


def test_the_inventory_leaves_ordinary_words_out() -> None:
    named = ("inform(name=so;type=restaurant)", "so is a restaurant")
    often = [("?request(area)", f"so {i}") for i in range(FEW + 1)]
    assert Inventory.of(corpus(named, *often[1:])).ordinary == frozenset()
    found = Inventory.of(corpus(named), corpus(*often), uncounted=UNCOUNTED)
    assert found == Inventory({("so",): frozenset({"name"})}, frozenset({("so",)}), UNCOUNTED)
    # of a slot that is asked for it may be said by everybody, and is no ordinary word for that
    asked = [("?request(name)", f"so {i}") for i in range(FEW + 1)]
    assert Inventory.of(corpus(named, *asked)).ordinary == frozenset()


# --- the corpus itself


@needs_data
def test_the_restaurant_corpus(tmp_path: Path) -> None:
    """What people said scores low, and as low with values that nobody has seen."""
    parts = write_parts(tmp_path, DATA)
    sizes = {path.stem: size for path, size in parts.files.items()}
    held_out = dict.fromkeys(("valid", "valid-unseen", "test", "unseen"), 1039)
    assert sizes == {"train": 3113, "train-5": 156, "train-20": 623, **held_out}
    assert len(parts.problems) == 1
    assert "item 251 is left out" in parts.problems[0]
    assert parts.not_said == 2
    texts = {path.stem: Corpus.from_file(path, conditions="act") for path in parts.files}
    assert [one.condition for one in texts["test"]] == [one.condition for one in read_rnnlg(DATA / "test.json")[0]]
    inventory = Inventory.of(texts["train"], texts["test"], uncounted=UNCOUNTED)
    assert inventory.ordinary == {("range",), ("so",)}
    for part, expected in {"train": SlotErrors(4571, 0, 1, 17), "test": SlotErrors(1598, 2, 0, 4)}.items():
        assert sum_of_errors(slot_errors(one.condition, one.words, inventory) for one in texts[part]) == expected
    unseen = Inventory.of(texts["train"], texts["unseen"], uncounted=UNCOUNTED)
    said = [one.words for one in texts["unseen"]]
    assert rate(texts["unseen"], said, unseen) == 6 / 1598
    assert bleu(references_of(texts["unseen"]), said) == pytest.approx(100)


@needs_data
def test_unseen_names_share_nothing_with_the_training_text() -> None:
    train, test = (read_rnnlg(DATA / f"{part}.json")[0] for part in ("train", "test"))
    endings = name_endings(train)
    assert {"restaurant", "cafe", "bistro"} <= set(endings)
    new = unseen_values(test, avoid=all_words(train), endings=endings).corpus
    known = all_words(train)
    values = {value for one in new for slot, value in required_values(one.condition) if slot in NEW_SLOTS}
    assert len(values) > 100
    assert all(word not in known for value in values for word in value[: -1 if value[-1] in endings else None])
    assert any(value[-1] in endings for value in values)
    assert all(value[0] not in known for value in values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the phone number for la luna is 555 and the address is 9 mill road", (2, 0)),
        ("the phone number for la luna is 9 mill road , the address is 555", (2, 2)),
        ("the address is unknown . the postcode is 555", (2, 1)),
        ("the phone number . it is 555", (0, 0)),
        ("la luna is at 9 mill road , phone number 555 is", (0, 0)),
    ],
)
def test_what_is_announced(text: str, expected: tuple[int, int]) -> None:
    act = parse_act("inform(name='la luna';phone=555;address='9 mill road')")
    assert announced(act, text.split()) == expected


@pytest.mark.parametrize(
    ("text", "expected", "as_read"),
    [
        ("the price range for x is between 5 and 9 euro", (1, 1), (1, 0)),
        ("x is in the cheap price range and the phone number is 77", (2, 1), (1, 0)),
        ("the phone number for x is between 5 and 9 euro", (1, 1), (1, 1)),
        ("the price range is 77", (1, 1), (1, 1)),
    ],
)
def test_a_price_is_a_price_range_to_a_reader(text: str, expected: tuple[int, int], as_read: tuple[int, int]) -> None:
    act = parse_act("inform(name=x;pricerange=cheap;price='between 5 and 9 euro';phone=77)")
    assert announced(act, text.split()) == expected
    assert announced(act, text.split(), as_read=True) == as_read
