"""How models introduce themselves: a sentence, a telling word, examples, what conditions look like."""

from __future__ import annotations

import pytest

from helpers import small_corpus, small_model
from llrnn import GRU, LLRNN, LSTM, Vocabulary, backgrounds, bias, contextual, domains, explain, features
from llrnn.knowledge.features import Function
from llrnn.model.controllers import Attentive, Encoder
from llrnn.model.decode import check_condition, read_condition
from llrnn.model.modern import Transformer
from llrnn.serve import introduction
from llrnn.serve.introduction import about, condition_hint, examples, lists, network, telling
from llrnn.text.conditions import Slots, Whole, parse_act
from llrnn.text.vocabulary import EOS

KINDS = {"le": "DET", "chat": "NOUN", "noir": "ADJ", "est": "AUX", "dort": "VERB", ".": "PUNCT", "rapidement": "ADV"}


def tagged() -> LLRNN:
    """Words with their parts of speech; those that end in t have a second feature."""
    names = Function(lambda word: [f"POS:{KINDS[word]}"] if word in KINDS else [], name="tags")
    endings = Function(lambda word: ["Ends:t"] if word.endswith("t") else [], name="endings")
    return LLRNN(Vocabulary([EOS, *KINDS]), output_features=names + endings, controller=GRU(4))


@pytest.mark.parametrize(
    ("best", "wanted"),
    [
        ([".", EOS, "le", "chat", "dort"], "chat"),  # content, and several features
        ([".", "noir", "chat"], "chat"),  # noir has one feature alone
        ([".", "noir", "est"], "noir"),
        ([EOS, ".", "est", "rapidement"], "est"),
        ([EOS, "."], "."),
        ([EOS], EOS),
        ([], None),
    ],
)
def test_a_telling_word_is_a_content_word_of_several_parts(best: list[str], wanted: str | None) -> None:
    model = tagged()
    found = telling(model, model.vocabulary.ids(best))
    assert (None if found is None else model.vocabulary.symbol(found)) == wanted


def test_without_parts_of_speech_frequent_words_tell_little_and_cells_nothing() -> None:
    words = [f"mot{n}" for n in range(60)]
    model = LLRNN(
        Vocabulary([EOS, *words], domains=[domains.Numbers()]),
        output_features=features.Identity() + features.Suffixes(1, min_count=1).of_listed(),
        background=backgrounds.Unigram({EOS: 3, **dict.fromkeys(words, 2), "12": 1}),
        controller=GRU(4),
    )
    cells = range(model.vocabulary.n_words, len(model.vocabulary))
    assert telling(model, [*cells, 1, 2, 55, 58]) == 55
    assert telling(model, [*cells, 2, 1]) == 2
    assert telling(model, [*cells]) is None


def test_networks_in_words() -> None:
    encoder = Encoder.for_conditions(Slots(), [parse_act("inform(food=thai)")], 4)
    assert network(LSTM(160)) == "An LSTM of 160 units"
    assert network(GRU(8, layers=2)) == "A GRU of 8 units in each of 2 layers"
    assert network(Transformer(16, layers=2, heads=2)) == "A Transformer of 16 units in each of 2 layers"
    attentive = Attentive(GRU(8), encoder, GRU(6, inputs=8 + 4))
    assert network(attentive) == "A GRU of 6 units, looking at the condition,"


def test_about_counts_what_there_is() -> None:
    model = tagged()
    learned = sum(parameter.numel() for parameter in model.parameters())
    classes = model.output_features.n_classes
    assert about(model) == (
        f"It knows 8 words, each described by some of 8 features; words with equal ones form {classes} classes. "
        f"A GRU of 4 units says how much each feature counts; {learned:,} numbers were learned."
    )


def test_examples_are_of_words_that_it_has_and_features_that_speak_for_them() -> None:
    model = small_model(context=[contextual.Expert(backgrounds.NGram.from_corpus(small_corpus(), order=2), name="kn")])
    found = examples(model)
    assert 1 <= len(found) <= introduction.EXAMPLES
    assert examples(model) == found  # seeded
    assert len({one["prefix"] for one in found}) == len(found)
    for one in found:
        assert one["rival"] is not None
        assert one["rival"] != one["word"]
        both = explain(model, one["prefix"], word=one["word"], rival=one["rival"])
        assert both.total == pytest.approx(both.log_ratio, abs=1e-4)
        alone = explain(model, one["prefix"], word=one["word"])
        assert one["feature"] is None or any(term.name == one["feature"] for term in (*both.terms, *alone.terms))


def test_a_model_that_can_write_nothing_has_no_examples() -> None:
    allowing_nothing = backgrounds.Mask(allowed=lambda condition, prefix: ())
    assert examples(small_model(background=allowing_nothing)) == []


def test_conditions_have_names_and_an_example_that_can_be_read() -> None:
    acts = [parse_act("inform(name='la luna';food=thai)"), parse_act("?request(area)")]
    controller = Attentive(GRU(8), Encoder.for_conditions(Slots(), acts, 4, kind="gru"), GRU(8, inputs=8 + 4))
    model = LLRNN(Vocabulary([EOS, "la", "luna"]), output_features=features.Identity(), controller=controller)
    model.provenance = {"config": {"corpus": {"conditions": "act"}}}
    found = condition_hint(model)
    assert found["acts"] == ["?request", "inform"]
    assert found["slots"] == ["area", "food", "name"]
    assert found["example"] == "inform(food=thai;name=la)"
    check_condition(model, read_condition(model, found["example"]))


def test_records_numbers_and_models_without_conditions() -> None:
    records = [{"topic": "rain", "place": "north"}]
    whole = Attentive(GRU(8), Encoder.for_conditions(Whole(), records, 4, kind="none"), GRU(8, inputs=8 + 4))
    vocabulary = Vocabulary([EOS, "la"])
    hint = condition_hint(LLRNN(vocabulary, output_features=features.Identity(), controller=whole))
    assert hint == {"acts": [], "slots": ["place", "topic"], "example": '{"place": "north", "topic": "rain"}'}
    numbers = [contextual.ConditionNumbers.fitted([{"price": 3}, {"price": 5}])]
    hint = condition_hint(LLRNN(vocabulary, output_features=features.Identity(), contextual_inputs=numbers))
    assert hint == {"acts": [], "slots": ["price"], "example": '{"price": 4.0}'}
    assert condition_hint(small_model()) == {"acts": [], "slots": [], "example": ""}


def test_lists_are_named_with_the_weights_of_their_features() -> None:
    model = bias(tagged(), {"pets": ["chat noir"], "verbs": ["dort"]}, weight={"pets": 2.0})
    found = lists(model)
    weights = {"begins": 0.0, "whole": 2.0, "continues": 2.0, "completes": 2.0, "ends": 0.0}
    assert found == {
        "pets": {f"pets:{one}": a for one, a in weights.items()},
        "verbs": dict.fromkeys(found["verbs"], 0),
    }
    assert lists(tagged()) == {}
