"""How models introduce themselves: a sentence, a telling word, examples, what conditions look like."""

from __future__ import annotations

import pytest

from helpers import small_corpus, small_model
from llrnn import GRU, LLRNN, LSTM, Vocabulary, backgrounds, bias, contextual, domains, explain, features
from llrnn.knowledge.features import Function
from llrnn.model.controllers import Attentive, Encoder
from llrnn.model.decode import check_condition, read_condition
from llrnn.model.modern import Transformer
from llrnn.model.words import by_ending
from llrnn.serve import introduction
from llrnn.serve.introduction import (
    about,
    alike,
    condition_hint,
    examples,
    knowing,
    language,
    lists,
    network,
    new_word,
    telling,
)
from llrnn.text.conditions import Slots, Whole, parse_act
from llrnn.text.vocabulary import EOS
from served_models import PREFIX, tiny_model

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


def test_a_new_word_is_like_most_words_of_its_ending_and_the_others_keep_their_ratios() -> None:
    model = tiny_model()
    words = model.vocabulary.words
    ending = next(word[-4:] for word in words if len(word) > 6 and sum(one.endswith(word[-4:]) for one in words) == 3)
    form = f"zzz{ending}"
    rows = [model.output_features.row(model.vocabulary.id(one)) for one in words if one.endswith(ending)]
    attributes = [frozenset(name for name in row if name.startswith(("POS:", "Gender:", "Number:"))) for row in rows]
    own = {name for name in by_ending(model, [form])[0].attributes if name.startswith(("POS:", "Gender:", "Number:"))}
    assert attributes.count(frozenset(own)) == max(map(attributes.count, attributes))
    made = knowing(model, [form, "maison"])
    assert [*made.vocabulary.words] == [*words, form]
    before, after = (explain(one, PREFIX, word="grande", rival="petit") for one in (model, made))
    assert after.log_ratio == pytest.approx(before.log_ratio, abs=1e-5)
    assert explain(made, PREFIX, word=form).log_p > -20
    assert knowing(model, ["maison"]) is model
    assert by_ending(model, ["qx"])[0].attributes == frozenset()


def test_words_that_are_alike_share_most_features_by_hand() -> None:
    """One by one, without matrices."""
    model = tiny_model()
    vocabulary, phi = model.vocabulary, model.output_features
    own = {name for name, group in zip(phi.names, phi.groups, strict=True) if group != "Identity"}
    features = {word: own & set(phi.row(vocabulary.id(word))) for word in vocabulary.words}
    for word in ("maison", "grande"):
        alikeness = {
            other: len(features[word] & found) / len(features[word] | found)
            for other, found in features.items()
            if other not in (word, EOS)
        }
        best = max(alikeness.values())
        assert alike(model, word) == [one for one, found in alikeness.items() if found == best][:6]
    assert alike(model, "zzz") == []


def test_the_language_and_a_word_to_add() -> None:
    model = tiny_model()
    assert language(model) == "French"
    assert "French words" in about(model)
    assert new_word(model) == "grenobloise"
    early = [EOS, "les", "une", "est", "dans", "pas", "avec", "il", "très", *(f"x{i}" for i in range(1000))]
    late = ["grenobloise", "the", "of", "and", "is", "was", "with", "that", "not"]  # long lists have foreign words, too
    long = LLRNN(Vocabulary([*early, *late]), output_features=features.Suffixes(2), controller=GRU(4))
    assert (language(long), new_word(long)) == ("French", "quimpéroise")
    plain = LLRNN(Vocabulary([EOS, "a", "b"]), output_features=features.Identity(), controller=GRU(4))
    assert language(plain) == ""
    assert new_word(plain) is None  # it has no weights for what it was not trained on


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
