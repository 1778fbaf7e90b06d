"""Language generation character by character: the spelled texts, the automaton of words and values, the scores."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import llrnn
from llrnn import Corpus, Vocabulary, backgrounds, features
from llrnn.ground.errors import BackgroundError
from llrnn.knowledge.backgrounds import Dictionary
from llrnn.knowledge.backgrounds.constraint import constraints_of
from llrnn.model.decode import generate
from llrnn.model.network import LLRNN
from llrnn.model.testing import check_background
from llrnn.text.conditions import parse_act
from llrnn.text.readers import PlainTokens, Sentence
from llrnn_lab.studies import char_nlg
from llrnn_lab.studies.char_data import (
    ALPHABET,
    dictionary_of,
    in_words,
    joined,
    outside_values,
    read_part,
    spelled,
    write_parts,
)
from llrnn_lab.studies.char_scores import non_words, scores
from llrnn_lab.studies.nlg_scores import Inventory
from test_cli import Capture, done
from test_writing import examples

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data" / "rnnlg_restaurant"
ALAMO = parse_act("inform(name='alamo square';food=thai)")
CHARACTERS = Vocabulary([*ALPHABET, llrnn.EOS])


def sentence(act: str, text: str) -> Sentence:
    tokens = PlainTokens()
    return Sentence(tuple(tokens[word] for word in text.split()), parse_act(act), act)


TEXT = Corpus(
    (
        sentence("inform(name='alamo square';food=thai)", "alamo square serves thai food"),
        sentence("inform(name=russian)", "russian is near the square"),
        sentence("inform(food='thai or greek')", "thai and greek food"),
    ),
    "text",
)


# --- spelled texts


@given(st.lists(st.text("ab1'é", min_size=1, max_size=4), max_size=5))
def test_words_come_back_from_their_characters(words: list[str]) -> None:
    assert joined(spelled(words)) == tuple(words)
    assert all(len(character) == 1 and character.split() == [character] for character in spelled(words))


def test_the_dictionary_holds_what_is_said_outside_the_values_of_the_own_act() -> None:
    assert dictionary_of(TEXT) == ["and", "food", "is", "near", "serves", "square", "the"]
    assert outside_values(TEXT[0]) == ["serves", "food"]


# --- the automaton


@pytest.fixture
def dictionary() -> Dictionary:
    return Dictionary(dictionary_of(TEXT), longest=40).bind(CHARACTERS)


def objection(dictionary: Dictionary, act: object, text: str) -> str | None:
    return dictionary.objection(act, CHARACTERS.ids(spelled(text.split())))


def test_every_sentence_is_a_text_of_its_own_dictionary(dictionary: Dictionary) -> None:
    assert all(objection(dictionary, one.condition, " ".join(one.words)) is None for one in TEXT)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("alamo is near", 7),  # half of a value
        ("russian food", 1),  # a value of another act
        ("squar", 6),  # half of a word: it may not end
        ("foodfood", 5),
    ],
)
def test_what_is_no_word_and_no_value_is_refused(dictionary: Dictionary, text: str, wrong: int) -> None:
    assert f"at position {wrong} is outside the language of Dictionary(7 words)" in str(
        objection(dictionary, ALAMO, text)
    )


def test_only_named_slots_may_be_written() -> None:
    foods = Dictionary(["is"], slots=["food"]).bind(CHARACTERS)
    assert objection(foods, ALAMO, "thai is") is None
    assert objection(foods, ALAMO, "alamo square is") is not None
    assert objection(foods, parse_act("inform(name=so)"), "is") is None  # nothing of the act


def test_the_laws_of_backgrounds(dictionary: Dictionary) -> None:
    check_background(dictionary, CHARACTERS, conditions=[ALAMO, parse_act("goodbye()")])
    check_background(Dictionary(["is"], violation=0.1), CHARACTERS, conditions=[ALAMO])


def test_a_dictionary_is_kept_in_the_folder_of_a_model(dictionary: Dictionary, tmp_path: Path) -> None:
    model = LLRNN(CHARACTERS, output_features=features.Identity(), background=dictionary)
    model.save(tmp_path)
    again = llrnn.load(tmp_path).background
    assert isinstance(again, Dictionary)
    assert (again.listed, again.slots, again.longest) == (dictionary.listed, dictionary.slots, 40)
    assert isinstance(backgrounds.restore(Dictionary(["a"], slots=["food"]).saved()), Dictionary)


def test_conditions_with_the_same_values_share_what_is_remembered(dictionary: Dictionary) -> None:
    other = parse_act("?confirm(food=thai;near='alamo square')")
    assert dictionary.initial(ALAMO).reader is dictionary.initial(other).reader
    assert dictionary.initial(ALAMO).reader is not dictionary.initial(parse_act("goodbye()")).reader


def test_samples_are_words_and_values_and_come_to_an_end(dictionary: Dictionary) -> None:
    model = LLRNN(CHARACTERS, output_features=features.Identity(), background=dictionary, seed=3)
    found = generate(model, conditions=[ALAMO] * 40, max_words=60, seed=0)
    known = {*dictionary.listed, "thai", "alamo"}
    assert all(one.finished and len(one.words) <= 40 for one in found)
    assert all(set(joined(one.words)) <= known for one in found)
    assert any("alamo" in joined(one.words) for one in found)  # otherwise this shows nothing


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(BackgroundError, match="a word of a dictionary has no blank and is not empty, found 'a b'"):
        Dictionary(["a b"])
    with pytest.raises(BackgroundError, match="takes a list of words"):
        Dictionary("abc")
    with pytest.raises(BackgroundError, match=r"missing\.txt: a file is required"):
        Dictionary.from_file(tmp_path / "missing.txt")


# --- scores


def test_non_words_are_neither_in_the_training_text_nor_in_the_act() -> None:
    known = {word for one in TEXT for word in one.words}
    assert non_words(ALAMO, "alamo sqare serves russian thaii food".split(), known) == ["sqare", "thaii"]  # noqa: SIM905
    new = parse_act("inform(name=zubrowka)")
    assert non_words(new, ["zubrowka", "zubrovka"], known) == ["zubrovka"]


def test_scores_of_the_references_are_perfect() -> None:
    known = {word for one in TEXT for word in one.words}
    found = scores(TEXT, [one.words for one in TEXT], Inventory.of(TEXT), known)
    assert found["slot_error_rate"] == found["non_word_share"] == 0
    assert found["bleu"] == pytest.approx(100)
    worse = scores(TEXT, [("alamo", "sqare"), ("is",), ("food",)], Inventory.of(TEXT), known)
    assert worse["non_words"] == 1
    assert worse["words"] == 4
    assert worse["slot_error_rate"] == 1


# --- the study


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("shared/rnnlg_restaurant")
    folder.mkdir(parents=True)
    for seed, (part, count) in enumerate((("train", 40), ("valid", 8), ("test", 8))):
        rows = [[row["condition"], row["target"], row["target"]] for row in examples(count, seed)]
        (folder / f"{part}.json").write_text(f"# rights\n{json.dumps(rows)}")
    Path("small").mkdir()
    for path in (ROOT / "configs" / "char-nlg").glob("*.toml"):
        text = path.read_text()
        for key, value in (("hidden", 8), ("size", 8), ("epochs", 1)):
            text = re.sub(rf"^{key} = \d+$", f"{key} = {value}", text, flags=re.MULTILINE)
        (Path("small") / path.name).write_text(text)


@pytest.mark.slow
def test_char_nlg(capsys: Capture, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(char_nlg, "STEPS", 3)
    out = done(capsys, "experiment", "char-nlg", "--data", "shared", "--out", "out", "--configs", "small")
    found = json.loads(Path("out/char-nlg.json").read_text())
    assert set(found["systems"]) == set(char_nlg.ROWS)
    assert all(seconds > 0 for seconds in found["seconds_of_a_step"].values())
    for name, (result,) in found["systems"].items():
        for part in char_nlg.TESTS:
            assert (result["tests"][part]["non_words"] == result["tests"][part]["cut_off"] == 0) or name == "softmax"
    alone, masked = (found["systems"][name][0]["tests"]["test"]["log_perplexity"] for name in ("softmax", "masked"))
    assert masked < alone  # what is forbidden leaves its mass to the rest
    assert len([line for line in out.splitlines() if line.startswith("|")]) == 2 + 9
    held, plain = (llrnn.load(f"out/models/both.seed0/{name}") for name in ("automaton", "softmax"))
    assert [type(one) for one in constraints_of(held.background)] == [Dictionary]
    assert not constraints_of(plain.background)
    assert not torch.equal(held.layer.weight, plain.layer.weight)  # both have learnt, and not the same


@pytest.mark.skipif(not SHARED.exists(), reason=f"needs the restaurant corpus in {SHARED}")
def test_the_real_texts_are_texts_of_the_dictionary(tmp_path: Path) -> None:
    parts = write_parts(tmp_path, SHARED)
    assert {path.stem: count for path, count in parts.files.items()}["known"] == 1000  # of 1,039
    bound = Dictionary.from_file(tmp_path / "dictionary.txt").bind(CHARACTERS)
    assert len(bound.listed) == 347
    for part in ("train", "known"):
        for one in list(read_part(tmp_path / f"{part}.jsonl"))[:150]:
            assert bound.objection(one.condition, CHARACTERS.ids(one.words)) is None
    words = in_words(read_part(tmp_path / "train.jsonl"))
    assert set(dictionary_of(words)) == set(bound.listed)
