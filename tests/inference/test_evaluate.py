"""Figures of a model on a text, each computed a second way; and the audit that says when not to believe them."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import llrnn_lab.studies
from helpers import sentence_log_probs, small_corpus, small_features, small_model, small_vocabulary
from llrnn import (
    GRU,
    LLRNN,
    Corpus,
    Lexicon,
    Sliding,
    Vocabulary,
    cli,
    contextual,
    domains,
    evaluate,
    explain,
    features,
    generate,
)
from llrnn.ground.errors import AuditError, ConfigError, CorpusError, FeatureError, NumericalError, UnknownWordError
from llrnn.inference.evaluation import BANDS, Audit, Coverage
from llrnn.text.contract import Contract, difference, require_comparable
from llrnn.text.encoded import EncodedText, TrainingSummary

TEST = small_corpus()[40:]


@pytest.fixture(scope="module")
def model() -> LLRNN:
    return small_model(context=[contextual.Repeated(6)])


def losses_by_hand(model: LLRNN, corpus: Corpus) -> list[tuple[str, float]]:
    """(word, −log p) of every word and end, sentence by sentence through `model.step`."""
    return [
        (word, -log)
        for sentence in corpus
        for word, log in zip((*sentence.words, "</s>"), sentence_log_probs(model, sentence.words), strict=True)
    ]


def test_log_perplexity_is_the_mean_walked_by_hand(model: LLRNN) -> None:
    found = evaluate(model, TEST)
    losses = [loss for _, loss in losses_by_hand(model, TEST)]
    assert found.words == len(losses) == TEST.tokens + len(TEST)
    assert found.sentences == len(TEST)
    assert found.log_perplexity == pytest.approx(math.fsum(losses) / len(losses), abs=1e-5)
    assert found.perplexity == pytest.approx(math.exp(found.log_perplexity))


def test_a_perplexity_that_no_float_can_hold_is_infinite(model: LLRNN) -> None:
    """exp(710) overflows; the figure is printed, and JSON has null for it."""
    found = replace(evaluate(model, TEST), log_perplexity=710.0)
    assert found.perplexity == math.inf
    assert "log-perplexity 710.0000 nats a word, perplexity inf," in found._repr_html_()


def test_bits_per_character(model: LLRNN) -> None:
    found = evaluate(model, TEST)
    characters = sum(len(" ".join(sentence.words)) + 1 for sentence in TEST)
    bits = math.fsum(loss for _, loss in losses_by_hand(model, TEST)) / math.log(2)
    assert found.characters == characters
    assert found.bits_per_character == pytest.approx(bits / characters, abs=1e-5)


def test_bands_of_frequency_add_up_to_all_words(model: LLRNN) -> None:
    found = evaluate(model, TEST)
    assert model.training_summary is not None
    by_hand: dict[str, list[float]] = {}
    for word, loss in losses_by_hand(model, TEST):
        seen = int(model.training_summary.counts[model.vocabulary.id(word)])
        (band,) = [name for low, high, name in BANDS if low <= seen and (high is None or seen <= high)]
        by_hand.setdefault(band, []).append(loss)
    assert {name: part.words for name, part in found.by_frequency.items()} == {
        name: len(losses) for name, losses in by_hand.items()
    }
    assert "unseen" in by_hand
    assert sum(part.words for part in found.by_frequency.values()) == found.words
    for name, part in found.by_frequency.items():
        assert part.log_perplexity == pytest.approx(sum(by_hand[name]) / len(by_hand[name]), abs=1e-5)


def test_slices_by_feature(model: LLRNN) -> None:
    found = evaluate(model, TEST)
    by_hand: dict[str, list[float]] = {}
    for word, loss in losses_by_hand(model, TEST):
        for name in model.output_features.row(model.vocabulary.id(word)):
            by_hand.setdefault(name, []).append(loss)
    groups = dict(zip(model.output_features.names, model.output_features.groups, strict=True))
    wanted = {name: losses for name, losses in by_hand.items() if groups[name] != "Identity"}
    assert found.by_feature.keys() == wanted.keys()
    for name, part in found.by_feature.items():
        assert part.words == len(wanted[name])
        assert part.log_perplexity == pytest.approx(sum(wanted[name]) / len(wanted[name]), abs=1e-5)
    sizes = [part.words for part in found.by_feature.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_other_batches_count_the_same_words(model: LLRNN) -> None:
    assert evaluate(model, TEST, batching=Sliding(5, 7)).words == TEST.tokens + len(TEST)


def test_an_honest_model_has_no_problems() -> None:
    found = evaluate(small_model(output_features=features.Identity()), TEST, contexts_checked=30)
    assert found.audit.problems() == []
    assert found.audit.worst_sum_error < 1e-4
    assert found.audit.contexts_checked == 30
    assert found.audit.words_counted == found.audit.words_expected == found.words
    assert found.audit.seen_in_training == 0.0
    assert "|unknown:none|" in str(found.contract)


# --- what the audit finds ------------------------------------------------------------------------------------------


def test_training_sentences_in_the_test_are_found(model: LLRNN) -> None:
    half = small_corpus()[30:50]  # the model has seen the first 40
    audit = evaluate(model, half).audit
    assert audit.seen_in_training == pytest.approx(0.5)
    assert any("50% of the sentences were in the training text" in problem for problem in audit.problems())


def test_a_lexicon_that_knows_only_test_words_is_suspicious() -> None:
    leaking = small_model(output_features=features.Identity(top=30) + features.Attributes(Lexicon.from_corpus(TEST)))
    coverage = evaluate(leaking, TEST).audit.coverage["Attributes"]
    assert coverage.suspicious
    assert coverage.only_here == 1.0
    problems = evaluate(leaking, TEST).audit.problems()
    assert any("Attributes" in problem and "favours the test words" in problem for problem in problems)


def test_a_lexicon_of_the_training_text_or_of_everything_is_not_suspicious() -> None:
    for known in (small_corpus()[:40], small_corpus()):
        lexicon = Lexicon.from_corpus(known)
        honest = small_model(output_features=features.Identity(top=30) + features.Attributes(lexicon))
        assert not evaluate(honest, TEST).audit.coverage["Attributes"].suspicious


def test_coverage_by_hand() -> None:
    model = small_model(output_features=small_features())
    assert model.training_summary is not None
    here = {word for sentence in TEST for word in sentence.words}
    seen = {word: int(model.training_summary.counts[model.vocabulary.id(word)]) for word in model.vocabulary}
    rare = [word for word, count in seen.items() if 1 <= count <= 2 and word not in here]
    only_here = [word for word in here if seen[word] == 0]

    def share(words: list[str], group: str) -> float:
        groups = dict(zip(model.output_features.names, model.output_features.groups, strict=True))
        rows = [model.output_features.row(model.vocabulary.id(word)) for word in words]
        return sum(any(groups[name] == group for name in row) for row in rows) / len(rows)

    for group, found in evaluate(model, TEST).audit.coverage.items():
        assert found.rare_in_training == pytest.approx(share(rare, group))
        assert found.only_here == pytest.approx(share(only_here, group))


def test_a_model_that_does_not_know_its_training_text_says_so(model: LLRNN) -> None:
    stranger = small_model()
    stranger.training_summary = None
    found = evaluate(stranger, TEST)
    assert found.audit.seen_in_training is None
    assert found.audit.coverage == {}
    assert sum(part.words for part in found.by_frequency.values()) == found.words


def test_problems_are_named() -> None:
    bad = Audit(0.5, 10, 9, 10, 0.9, {"Leak": Coverage(0.1, 0.9), "Fine": Coverage(0.5, 0.5)})
    problems = bad.problems()
    assert len(problems) == 4
    assert "sum to one" in problems[0]
    assert "9 words were counted where 10" in problems[1]
    assert "90%" in problems[2]
    assert problems[3].startswith("Leak")


def test_unknown_words_are_counted_where_they_have_a_symbol() -> None:
    vocabulary = Vocabulary.from_corpus(small_corpus()[:40], top=50, unknown="<unk>")
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(4))
    model.training_summary = TrainingSummary.of(EncodedText.encode(small_corpus()[:40], vocabulary), len(vocabulary))
    found = evaluate(model, TEST)
    outside = sum(1 for sentence in TEST for word in sentence.words if word not in vocabulary)
    assert outside > 0
    assert f"|unknown:<unk> {outside}|" in str(found.contract)


def test_figures_that_are_counted_differently_are_in_no_table() -> None:
    few, many, closed = (
        Vocabulary.from_corpus(small_corpus()[:n], top=top, unknown=unknown, domains=held)
        for n, top, unknown, held in (
            (40, 50, None, [domains.Spelling(["un", "deux"])]),
            (300, None, None, [domains.Spelling(["un", "deux"])]),
            (40, 50, "<unk>", []),
        )
    )
    one, more, other = (Contract.of(TEST, vocabulary) for vocabulary in (few, many, closed))
    assert one.spelled > more.spelled
    assert difference({"one": one, "more": more}) is None
    assert difference({"all listed": Contract.of(TEST[:1], many), "all": Contract.of(TEST[:1], few)}) is None
    lines = [other, Contract.of(TEST.running(9), many), Contract.of(TEST, many, 7), replace(one, case="mixed")]
    for line in [*lines, Contract.of(replace(TEST, cut_by="learnt"), many)]:
        with pytest.raises(ConfigError, match="counted alike") as caught:
            require_comparable({"one": one, "more": more, "other": line})
        assert f"{more} (more) and {line} (other)" in str(caught.value)


def test_models_that_count_differently_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text("\n".join(" ".join(one.words) for one in TEST), encoding="utf8")
    vocabularies = {
        "all": Vocabulary.from_corpus(small_corpus()),
        "some": Vocabulary.from_corpus(TEST[:9], unknown="<unk>"),
    }
    for name, vocabulary in vocabularies.items():
        LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(4)).save(tmp_path / name)
    paths = [str(tmp_path / name) for name in ("all", "some", "t.txt")]
    assert cli.run(["evaluate", *paths]) == 0
    found = " ".join(capsys.readouterr().err.split())
    assert "perplexities must be counted alike to be compared" in found
    assert cli.run(["evaluate", paths[0], paths[0], paths[2]]) == 0
    assert "counted alike" not in capsys.readouterr().err


def test_an_unlisted_word_is_an_error_that_names_the_sentence() -> None:
    model = small_model()
    strange = Corpus.from_sentences([["zzz"]])
    with pytest.raises(UnknownWordError, match=r"sentence 0: the word 'zzz'"):
        evaluate(model, strange)


def test_no_text_is_an_error(model: LLRNN) -> None:
    with pytest.raises(CorpusError, match="at least one sentence"):
        evaluate(model, small_corpus()[:0])


def test_the_vocabulary_of_these_tests_lists_the_test_words() -> None:
    assert all(word in small_vocabulary() for sentence in TEST for word in sentence.words)


# --- numbers that are none ------------------------------------------------------------------------------------------


class Broken(contextual.ContextualFeature):
    """A feature of one's own whose value on one word is what it is given."""

    reads_conditions = False

    def __init__(self, given: float) -> None:
        self._given = given

    def initial(self, condition: object = None) -> object:
        return None

    def advance(self, state: object, symbol: int) -> object:
        return None

    def value(self, state: object) -> tuple[float, dict[int, float]]:
        return 0.0, {3: self._given}


@pytest.mark.parametrize("given", [math.nan, math.inf, 1e39, 10**400])
def test_a_contextual_value_that_no_model_can_compute_with(given: float) -> None:
    word = small_vocabulary().symbols[3]
    message = f"the feature 'Broken' must be a finite number of at most 3.4e[+]38.* on '{word}' at position 0"
    with pytest.raises(FeatureError, match=message):
        evaluate(small_model(context=[Broken(given)]), TEST)


@pytest.mark.parametrize("context", [(), (contextual.Repeated(3),)])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_scores_that_are_no_numbers_are_told(number: float, context: tuple[contextual.ContextualFeature, ...]) -> None:
    """Never `log p = nan` in a figure, a text, an explanation or a list."""
    broken = small_model(context=context)
    with torch.no_grad():
        broken.layer.bias[0] = number
    asked: list[Callable[[], object]] = [
        lambda: evaluate(broken, TEST),
        lambda: generate(broken),
        lambda: generate(broken, beam=2, count=2),
        lambda: explain(broken, word=small_vocabulary().symbols[0]),
    ]
    for ask in asked:
        with pytest.raises(NumericalError, match=r"must be a finite number, found (nan|inf|-inf)"):
            ask()


def test_an_audit_that_fails_is_an_error_in_a_study(model: LLRNN, monkeypatch: pytest.MonkeyPatch) -> None:
    assert evaluate(model, TEST).sound("here").words > 0
    monkeypatch.setattr(sys.modules["llrnn.inference.evaluation"], "_check_contexts", lambda *given: 2e-5)
    with pytest.raises(AuditError, match=r"^study, test: probabilities do not sum to one \(off by 2.0e-05\)"):
        evaluate(model, TEST).sound("study, test")
    monkeypatch.setattr(sys.modules["llrnn.inference.evaluation"], "_check_contexts", lambda *given: math.nan)
    assert evaluate(model, TEST).audit.failures()


def test_every_study_asks_for_sound_figures() -> None:
    """A figure that goes into a file must not fail its audit silently."""
    for path in Path(llrnn_lab.studies.__file__).parent.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf8"))))
        calls = [node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "evaluate"]
        sound = [node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr == "sound"]
        assert all(call in sound for call in calls), path
