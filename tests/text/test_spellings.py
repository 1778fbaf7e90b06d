"""Words as arrays: the same vocabulary as from a list, found without making all of it; folders of many words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import llrnn
from helpers import small_corpus, small_model
from llrnn import LLRNN, Corpus, Vocabulary
from llrnn.ground import bundle as bundles
from llrnn.ground.errors import CheckpointError, UnknownWordError, VocabularyError
from llrnn.ground.files import sealed_json
from llrnn.languages.domains import Numbers, Regular, Spelling
from llrnn.model import saving as models
from llrnn.model.scoring import score
from llrnn.text import vocabulary as vocabulary_module
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import EOS, Domain, Spellings
from strategies import QUICK

WORDS = [EOS, "été", "le", "l", "lé", "zut", "𝒳", "les", "a" * 300, "‹x›", *(f"w{i}" for i in range(400))]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=6), unique=True), st.text(max_size=6))
@QUICK
def test_words_are_found_where_they_are(words: list[str], other: str) -> None:
    made = Spellings.of(words)
    assert list(made) == words
    assert [made[i] for i in range(len(words))] == words
    assert [made.find(word) for word in words] == list(range(len(words)))
    assert made.find(other) == (words.index(other) if other in words else None)


def test_what_is_no_word_is_not_found() -> None:
    made = Spellings.of(WORDS)
    assert made.find("\ud800") is None
    assert made.find(3) is None
    assert made.find("") is None
    with pytest.raises(IndexError):
        made[len(WORDS)]
    with pytest.raises(IndexError):
        made[-1]
    with pytest.raises(VocabularyError, match="UTF-8"):
        Spellings.of(["\ud800"])


def test_arrays_come_back_and_broken_ones_do_not() -> None:
    arrays = Spellings.of(WORDS).arrays()
    assert list(Spellings.from_arrays(arrays)) == WORDS
    cut = {"text": arrays["text"][:-1], "ends": arrays["ends"][:-1], "order": arrays["order"].astype(np.float64)}
    for name, broken in cut.items():
        with pytest.raises(VocabularyError, match="fit together"):
            Spellings.from_arrays({**arrays, name: broken})


def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    counts = list(range(len(WORDS)))
    listed = Vocabulary(WORDS, counts=counts, unknown="zut", domains=[Numbers("fr")])
    stored = Vocabulary(
        Spellings.of(WORDS), counts=np.array(counts), unknown="zut", domains=listed.domains, checked=True
    )
    return listed, stored


def test_a_vocabulary_of_arrays_is_the_same() -> None:
    listed, stored = vocabularies()
    asked = [*WORDS[:10], "4711", "nowhere"]
    assert "words" not in stored.__dict__
    assert stored.locate(asked[:10])[0].tolist() == list(range(10))
    assert "words" not in stored.__dict__
    assert stored.locate(asked)[0].tolist() == listed.locate(asked)[0].tolist()
    assert [stored.symbol(i) for i in range(len(WORDS))] == WORDS
    assert [word in stored for word in asked] == [word in listed for word in asked]
    assert (len(stored), stored.eos, repr(stored)) == (len(listed), listed.eos, repr(listed))
    assert stored == listed
    assert (stored.words, stored.symbols, stored.counts) == (listed.words, listed.symbols, listed.counts)
    assert stored.symbol(len(WORDS)) == listed.symbols[len(WORDS)]
    assert stored.digest() == listed.digest()


def test_a_few_words_do_not_make_all_of_them_and_many_do() -> None:
    words = [EOS, *(f"w{i}" for i in range(400))]
    stored = Vocabulary(Spellings.of(words))
    assert stored.ids(["w3", "w399", EOS]) == [4, 400, 0]
    assert stored.symbol(4) == "w3"
    assert not {"words", "symbols", "_ids"} & stored.__dict__.keys()
    with pytest.raises(UnknownWordError):
        stored.id("w400")
    assert stored.ids(words) == list(range(401))
    assert "_ids" in stored.__dict__


def test_words_that_are_written_nearly_so_are_found() -> None:
    vocabulary = Vocabulary(["maison", "Maisons", "raison", "été", "chat", EOS])
    assert vocabulary.near("maisn")[:2] == ["maison", "Maisons"]
    assert vocabulary.near("ete") == ["été"]
    assert vocabulary.near("maison") == ["Maisons", "raison"]
    assert vocabulary.near("") == vocabulary.near("qqqqqq") == []


def test_what_is_no_symbol_is_refused() -> None:
    for wrong in ("", " a", "a\nb"):
        with pytest.raises(VocabularyError, match="a symbol must be a non-empty text on one line"):
            Vocabulary(["a", wrong, EOS])
    with pytest.raises(VocabularyError, match="that symbol marks ends of sentences: remove or rename it"):
        Vocabulary.from_corpus(Corpus.from_sentences([["a", EOS]]))
    with pytest.raises(VocabularyError, match="symbols are numbered 0 to 1, found 7"):
        Vocabulary(["a", EOS]).spelled(7, np.random.default_rng(0))


def test_what_a_vocabulary_must_hold_is_checked() -> None:
    with pytest.raises(VocabularyError, match="end-of-sentence"):
        Vocabulary(Spellings.of(["a"]))
    with pytest.raises(VocabularyError, match="unknown"):
        Vocabulary(Spellings.of([EOS]), unknown="u")
    with pytest.raises(VocabularyError, match="one count"):
        Vocabulary(Spellings.of([EOS]), counts=[1, 2, 3])


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=4), unique=True, min_size=2), st.data())
@QUICK
def test_words_that_come_and_go(words: list[str], data: st.DataObject) -> None:
    """The arrays are those of the list that is left, or longer."""
    cut = data.draw(st.integers(1, len(words) - 1))
    longer, whole = Spellings.of(words[:cut]).with_words(words[cut:]), Spellings.of(words)
    stay = np.array(sorted(data.draw(st.sets(st.integers(0, len(words) - 1)))), dtype=np.int64)
    fewer, left = whole.of_words(stay), Spellings.of([words[i] for i in stay.tolist()])
    for found, expected in ((longer, whole), (fewer, left)):
        for name, array in expected.arrays().items():
            np.testing.assert_array_equal(found.arrays()[name], array)


@pytest.mark.parametrize("domains", [[], [Numbers("fr")], [Numbers("fr"), Spelling(["abc", "bcd", "cab"], order=2)]])
def test_many_words_are_revised_as_few_are(domains: list[Domain], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the cells is subtracted, and the same as if every word were looked up again."""
    few = Vocabulary([EOS, "le", "7", "abc", "12"], counts=[3, 2, 1, 1, 0], domains=domains)
    new, stay = ["bab", "41", "zut"], np.array([0, 1, 3, 5])
    expected = few.with_words(new, [4, 0, 1])
    monkeypatch.setattr(vocabulary_module, "MANY_WORDS", 2)
    found = few.with_words(new, [4, 0, 1])
    assert found == expected
    assert found.counts == expected.counts
    assert "cell_log_mass" in found.__dict__ or not domains  # none of the words was looked up again
    np.testing.assert_allclose(found.log_left, expected.log_left, rtol=1e-12)
    again = found.of_words(stay)
    assert again.words == (EOS, "le", "abc", "bab")
    assert again.counts[:4] == (3, 2, 1, 4)
    expected = Vocabulary(again.words, counts=[3, 2, 1, 4], domains=domains)
    np.testing.assert_allclose(again.log_left, expected.log_left, rtol=1e-12)


def test_a_cell_of_which_nothing_is_left_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By subtraction it would be rounding."""
    digits = Regular({"digit": "[0-9]"}, dict.fromkeys("0123456789", 0.1))
    most = Vocabulary([EOS, *"012345678"], domains=[digits])
    monkeypatch.setattr(vocabulary_module, "MANY_WORDS", 2)
    full = most.with_words(["9"], [0])
    assert full.log_left.tolist() == [-np.inf]
    back = full.of_words(np.arange(10))
    np.testing.assert_allclose(back.log_left, most.log_left, rtol=1e-12)


# --- folders -------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a few words were many, and a small file a large one."""
    monkeypatch.setattr(models, "MANY_WORDS", 10)
    monkeypatch.setattr(bundles, "_MAPPED_ABOVE", 1_000)


def log_probs(model: LLRNN) -> torch.Tensor:
    return score(model, EncodedText.encode(small_corpus()[:8], model.vocabulary)).log_probs


def format_of(folder: Path) -> int:
    return int(json.loads((folder / "model.json").read_text("utf8"))["format"])


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("verify", [True, False])
def test_a_folder_of_many_words_opens_without_making_them(tmp_path: Path, verify: bool) -> None:
    model = small_model()
    model.save(tmp_path)
    assert format_of(tmp_path) == 2
    assert "symbols" not in json.loads((tmp_path / "model.json").read_text("utf8"))["data"]
    back = llrnn.load(tmp_path, verify=verify)
    assert torch.equal(log_probs(back), log_probs(model))
    assert back.vocabulary == model.vocabulary
    assert back.vocabulary.counts == model.vocabulary.counts
    again = tmp_path / "again"
    back.save(again)
    assert (again / "model.json").read_bytes() == (tmp_path / "model.json").read_bytes()


@pytest.mark.usefixtures("many")
def test_opening_looks_at_no_word(tmp_path: Path) -> None:
    small_model().save(tmp_path)
    back = llrnn.load(tmp_path)
    assert not {"words", "symbols", "counts", "_ids"} & back.vocabulary.__dict__.keys()
    assert back.layer.classes._by_class is None


def test_few_words_are_written_as_before(tmp_path: Path) -> None:
    small_model().save(tmp_path)
    assert format_of(tmp_path) == 1
    assert json.loads((tmp_path / "model.json").read_text("utf8"))["data"]["symbols"][:3]


def test_a_folder_of_before_opens(tmp_path: Path) -> None:
    """One without the digest of the header: the name of the data file is the digest of all of it."""
    small_model().save(tmp_path)
    path = tmp_path / "model.json"
    manifest = json.loads(path.read_text("utf8"))
    del manifest["header"], manifest["seal"]
    path.write_bytes(sealed_json(manifest))
    assert torch.equal(log_probs(llrnn.load(tmp_path)), log_probs(small_model()))
    (data,) = tmp_path.glob("*.safetensors")
    data.rename(tmp_path / f"model-{'0' * 16}.safetensors")
    manifest["file"] = f"model-{'0' * 16}.safetensors"
    path.write_bytes(sealed_json(manifest))
    with pytest.raises(CheckpointError, match="altered"):
        llrnn.load(tmp_path)


@pytest.mark.usefixtures("many")
def test_damage_to_a_mapped_file_is_seen(tmp_path: Path) -> None:
    small_model().save(tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    places = [0, 3, 9, header // 2, header - 2, header, header + 777, len(whole) - 1]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            llrnn.load(tmp_path)
        if place < header:
            with pytest.raises(CheckpointError):
                llrnn.load(tmp_path, verify=False)
    for cut in (whole[:-1], whole[: header - 1], whole[:5], whole + b"\0"):
        path.write_bytes(cut)
        for verify in (True, False):
            with pytest.raises(CheckpointError):
                llrnn.load(tmp_path, verify=verify)
    path.write_bytes(whole)
    llrnn.load(tmp_path)


@pytest.mark.usefixtures("many")
def test_a_copy_does_not_care_what_becomes_of_the_file(tmp_path: Path) -> None:
    small_model().save(tmp_path)
    back = llrnn.load(tmp_path, copy=True)
    (path,) = tmp_path.glob("*.safetensors")
    os.truncate(path, 0)  # a mapped page that is used now would end the process
    assert torch.equal(log_probs(back), log_probs(small_model()))


@pytest.mark.usefixtures("many")
def test_a_mapped_file_that_is_cut_short_does_not_end_the_process_silently(tmp_path: Path) -> None:
    """In a process of its own, for it ends."""
    path = tmp_path / "cut"
    path.write_bytes(bytes(1 << 16))
    program = (
        "import os, sys, faulthandler; from llrnn.ground import bundle; from llrnn.ground.files import open_file\n"
        "numbers = bundle._mapped(open_file(sys.argv[1])); os.truncate(sys.argv[1], 0); print(numbers.sum())"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGBUS
    assert "Bus error" in done.stderr


@pytest.mark.usefixtures("many")
def test_a_model_as_background_keeps_its_words_too(tmp_path: Path) -> None:
    inner = small_model()
    outer = small_model(background=llrnn.backgrounds.Model(inner))
    outer.save(tmp_path)
    assert torch.equal(log_probs(llrnn.load(tmp_path)), log_probs(outer))
