"""Frames: which slot the words before a value announce, from counts over lists of words, without states."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from llrnn import EOS, GRU, LLRNN, Corpus, Vocabulary, load, train
from llrnn.ground.errors import FeatureError, TrainingError
from llrnn.knowledge.backgrounds import Uniform
from llrnn.knowledge.contextual import Framed, PredictedSlot, restore_input
from llrnn.knowledge.features import Identity
from llrnn.knowledge.process import Batch
from llrnn.model.testing import check_contextual, check_contextual_input
from llrnn.text.encoded import sentence_key

PAIRS = [
    ({"name": "la luna", "phone": "123"}, "the phone number for la luna is 123"),
    ({"name": "la luna", "address": "5 high street"}, "the address of la luna is 5 high street"),
    ({"name": "roma", "address": "9 low road", "phone": "77"}, "the address is 9 low road . call 77 for roma"),
    ({"name": "roma", "phone": "77"}, "the phone number is 77"),
    ({"name": "roma", "food": "thai"}, "roma serves thai food"),
    ({"name": "thai house", "food": "thai"}, "thai house serves thai food"),
]
NEW = {"name": "zig zag", "phone": "999", "address": "1 new lane", "food": "thai"}


def corpus_of(pairs: Sequence[tuple[dict[str, str], str]]) -> Corpus:
    sentences = Corpus.from_sentences([text.split() for _, text in pairs]).sentences
    return Corpus(tuple(replace(one, condition=c) for one, (c, _) in zip(sentences, pairs, strict=True)), "pairs")


CORPUS = corpus_of(PAIRS)
VOCABULARY = Vocabulary(
    [*{word: None for _, text in PAIRS for word in text.split()}, "zig", "zag", "999", "1", "new", "lane", EOS]
)


def symbols(condition: dict[str, str], text: str) -> list[str]:
    """Values in a text as their slots, the longest first."""
    for slot, value in sorted(condition.items(), key=lambda one: -len(one[1].split())):
        text = f" {text} ".replace(f" {value} ", f" <{slot}> ").strip()
    return ["<s>", *text.split()]


def witten_bell(pairs: Sequence[tuple[dict[str, str], str]], before: Sequence[str], order: int) -> dict[str, float]:
    """log p(s | before) − log p(s), by the definition, from all beginnings one by one."""
    seen = [
        (sentence[max(0, i - order) : i], symbol[1:-1])
        for sentence in (symbols(*pair) for pair in pairs)
        for i, symbol in enumerate(sentence)
        if i and symbol.startswith("<")
    ]
    slots = sorted({slot for condition, _ in PAIRS for slot in condition})
    share = {slot: (sum(s == slot for _, s in seen) + 1) / (len(seen) + len(slots)) for slot in slots}
    found, context = dict(share), list(before)[-order:]
    for length in range(1, len(context) + 1):
        after = Counter(slot for own, slot in seen if own[-length:] == context[-length:])
        if after:
            rest = len(after)
            found = {s: (after[s] + rest * found[s]) / (after.total() + rest) for s in slots}
    return {slot: math.log(found[slot] / share[slot]) for slot in slots}


def said(framed: Framed, condition: object, prefix: str) -> dict[str, float]:
    """The values at a prefix, by word."""
    bound = framed.bind(VOCABULARY)
    state = bound.initial(condition)
    for word in (EOS, *prefix.split()):
        state = bound.advance(state, VOCABULARY.id(word))
    rest, own = bound.value(state)
    assert rest == 0.0
    return {VOCABULARY.symbol(word): value for word, value in own.items() if isinstance(value, float)}


@pytest.mark.parametrize("order", [1, 2, 4, 6])
@pytest.mark.parametrize("prefix", ["", "the phone number for zig zag is", "the address is", "zig zag serves", "call"])
def test_values_are_the_log_ratio_of_their_slot(order: int, prefix: str) -> None:
    wanted = witten_bell(PAIRS, symbols(NEW, prefix), order)
    found = said(Framed.counted(CORPUS, order=order, folds=0), NEW, prefix)
    left = {slot: value for slot, value in NEW.items() if value not in prefix}  # what was said is not due again
    assert found == pytest.approx({value.split()[0]: wanted[slot] for slot, value in left.items()}, abs=1e-12)


def test_a_frame_wants_its_own_slot() -> None:
    framed = Framed.counted(CORPUS, folds=0)
    found = said(framed, NEW, "the phone number for zig zag is")
    assert found["999"] > 0.5 > -0.5 > max(found["1"], found["thai"])
    found = said(framed, NEW, "the address of zig zag is")
    assert found["1"] > 0.5 > -0.5 > max(found["999"], found["thai"])


def test_no_frame_is_due_within_a_value_and_none_for_a_slot_never_seen() -> None:
    framed = Framed.counted(CORPUS, folds=0)
    overlapping = {"name": "thai house", "near": "house of wax", "food": "thai"}
    assert "house" not in said(framed, {**overlapping, "near": "house"}, "thai")  # the name goes on with it
    assert set(said(framed, overlapping, "")) == {"thai"}  # nobody knows frames of near, nor the word wax
    assert said(framed, None, "the address is") == {}


def test_a_longer_value_takes_the_place_of_one_within_it() -> None:
    both = {"name": "thai house", "food": "thai", "phone": "77"}
    framed, behind = Framed.counted(CORPUS, folds=0), "thai house serves"
    wanted = witten_bell(PAIRS, ["<s>", "<name>", "serves"], 6)
    due = {"thai": "food", "77": "phone"}  # a name that holds it does not say it
    assert said(framed, both, behind) == {word: pytest.approx(wanted[slot], abs=1e-12) for word, slot in due.items()}


def test_a_frame_that_comes_again_does_not_want_what_was_said() -> None:
    framed, act = Framed.counted(CORPUS, folds=0), {"phone": "999", "address": "1 new lane"}
    again = "the phone number is 999 . the phone number is"
    assert {*said(framed, act, "the phone number is")} == {"999", "1"}
    assert {*said(framed, act, again)} == {"1"}
    bound = framed.bind(VOCABULARY)
    state = bound.initial(act)
    for word in ("the", "phone", "number", "is", "999", EOS, "the", "phone", "number", "is"):
        state = bound.advance(state, VOCABULARY.id(word))
    assert VOCABULARY.id("999") in bound.value(state)[1]  # in the next sentence it is due again


def test_the_network_may_read_which_slot_is_announced() -> None:
    framed = Framed.counted(CORPUS, folds=0)
    announced = restore_input(PredictedSlot(framed).saved()).bind(VOCABULARY)
    state = announced.initial(NEW)
    for word in (EOS, "the", "phone", "number", "is"):
        state = announced.advance(state, VOCABULARY.id(word))
    wanted = witten_bell(PAIRS, ["<s>", "the", "phone", "number", "is"], 6)
    assert announced.names == tuple(f"{slot} announced" for slot in sorted(wanted))
    assert announced.numbers([state])[0].tolist() == pytest.approx([wanted[slot] for slot in sorted(wanted)], abs=1e-6)
    check_contextual_input(announced, VOCABULARY, conditions=[NEW, None])


def test_of_one_word_for_several_slots_the_best_counts() -> None:
    framed = Framed.counted(CORPUS, folds=0)
    wanted = witten_bell(PAIRS, ["<s>", "the", "phone", "number", "is"], 6)
    found = said(framed, {"phone": "77", "address": "77 low road"}, "the phone number is")
    assert found == pytest.approx({"77": max(wanted["phone"], wanted["address"])}, abs=1e-12)


def test_training_sentences_see_the_counts_without_their_fold() -> None:
    folds = 3
    framed = Framed.counted(CORPUS, folds=folds).bind(VOCABULARY)
    for condition, text in PAIRS:
        words = text.split()
        fold = sentence_key(words) % folds
        others = [pair for pair in PAIRS if sentence_key(pair[1].split()) % folds != fold]
        inputs = torch.tensor([[VOCABULARY.eos, *VOCABULARY.ids(words)]])
        keys = torch.full_like(inputs, sentence_key(words))
        batch = Batch(inputs, inputs.roll(-1, 1), torch.ones_like(inputs, dtype=torch.bool), [condition], keys)
        states, _ = framed.follow([framed.initial(condition)], batch)
        for n in range(len(words)):
            _, own = framed.value(states[n])
            wanted = witten_bell(others, symbols(condition, " ".join(words[:n])), 6)
            for slot, value in condition.items():
                first = VOCABULARY.id(value.split()[0])
                if first in own and sum(v.split()[0] == value.split()[0] for v in condition.values()) == 1:
                    assert own[first] == pytest.approx(wanted[slot], abs=1e-12)


def test_the_laws() -> None:
    check_contextual(Framed.counted(CORPUS, folds=0), VOCABULARY, conditions=[None, NEW, PAIRS[0][0]])


def a_model() -> LLRNN:
    return LLRNN(
        VOCABULARY,
        output_features=Identity(),
        background=Uniform(),
        controller=GRU(4),
        contextual=[Framed.counted(CORPUS, folds=2)],
    )


def test_a_saved_model_knows_its_frames_and_not_the_folds(tmp_path: Path) -> None:
    model = a_model()
    model.save(tmp_path)
    again = load(tmp_path)
    assert repr(again.contextual) == repr(model.contextual)
    (kept,) = again.contextual
    assert isinstance(kept, Framed)
    assert said(kept, NEW, "the address is") == said(Framed.counted(CORPUS, folds=2), NEW, "the address is")
    with pytest.raises(TrainingError, match="its folds are not kept in the model folder; give it again"):
        list(train(again, CORPUS, epochs=1))
    list(train(a_model(), CORPUS, epochs=1))


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(FeatureError, match=r"order=...\) must be 1 or more, found 0"):
        Framed.counted(CORPUS, order=0)
    with pytest.raises(FeatureError, match=r"folds=...\) must be 0, or 2 or more, found 1"):
        Framed.counted(CORPUS, folds=1)
    with pytest.raises(FeatureError, match="values of conditions are required in the training text, found none"):
        Framed.counted(Corpus.from_sentences([["a"]]))
