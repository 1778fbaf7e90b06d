"""Rescoring: files, word errors, shared prefixes, weights and simulated lists, each against a slower way."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from hypothesis import given
from hypothesis import strategies as st

from helpers import small_corpus, small_model, tiny_model
from llrnn import LLRNN, Vocabulary, backgrounds, cli, contextual, features
from llrnn.cli.rescore import rescore_verb
from llrnn.ground.errors import ConfigError, CorpusError, LLRNNError, LLRNNWarning, UnknownWordError
from llrnn.inference.nbest import (
    Errors,
    Hypothesis,
    NBest,
    NBestLists,
    count_errors,
    errors_of_lists,
    oracle,
    read_nbest,
    read_references,
    write_nbest,
)
from llrnn.inference.rescoring import (
    ModelScorer,
    ScoreTable,
    Weights,
    add_scores,
    errors_along,
    rescore,
    score_lists,
    tune,
)
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import GRU, LSTM
from llrnn.text.corpus import Corpus
from llrnn.text.vocabulary import EOS
from llrnn_lab.studies.confusions import Channel, Confusables, confuse
from strategies import QUICK

LISTS = NBestLists(
    ("am", "lm"),
    (
        NBest("a", (Hypothesis(("il", "dort"), (-1.5, -2.0)), Hypothesis(("il", "dors"), (-1.0, -4.0)))),
        NBest(
            "b-2", (Hypothesis((), (-0.1, -1e-9)), Hypothesis((), (-0.1, -1e-9)), Hypothesis(("œil",), (-3.0, -9.0)))
        ),
    ),
)


# --- files


@pytest.mark.parametrize("name", ["n.tsv", "n.tsv.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    write_nbest(tmp_path / name, LISTS)
    assert read_nbest(tmp_path / name) == LISTS
    first = (tmp_path / name).read_bytes()
    write_nbest(tmp_path / name, LISTS)
    assert (tmp_path / name).read_bytes() == first


def test_tsv_without_header_names_scores_by_number(tmp_path: Path) -> None:
    (tmp_path / "n.tsv").write_text("a\til  dort\t-1\t2e-1\n\nb\t\t.5\t-inf\na\til\t0\t0\n", encoding="utf8")
    read = read_nbest(tmp_path / "n.tsv")
    assert read.names == ("score1", "score2")
    assert read.lists == (
        NBest("a", (Hypothesis(("il", "dort"), (-1.0, 0.2)), Hypothesis(("il",), (0.0, 0.0)))),
        NBest("b", (Hypothesis((), (0.5, -math.inf)),)),
    )


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a\tb\t1\na\tc\n", 2, "found 2 columns"),
        ("a\tb\t1\na\tc\t1\t2\n", 2, "1 scores (score1) are required as in the first line, found 2"),
        (f"a\tb\t{'a.' * 9_999}\n", 1, f"a score must be a number, found '{'a.' * 39}…; correct it"),
        ("a\tb\tnan\n", 1, "a score must be a number, found 'nan'"),
        ("a\tb\t1\na\tb\tinf\n", 2, "a score must be a number, found 'inf'"),
        ("a\tb\t1_0\n", 1, "found '1_0'"),
        ("a\tb\t\n", 1, "found ''"),
        ("\tb\t1\n", 1, "the name of an utterance"),
        ("a b\tb\t1\n", 1, "the name of an utterance"),
        ("#utterance\thypothesis\nx\ty\t1\n", 1, "a header is"),
        ("#utterance\thypothesis\tam\tam\n", 1, "found 'am' twice"),
        ("#utterance\thypothesis\twords\n", 1, "other than 'words'"),
        ("#utterance\thypothesis\tam\n", None, "at least one hypothesis"),
        ("\n\n", None, "at least one hypothesis"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, line: int | None, reason: str) -> None:
    (tmp_path / "n.tsv").write_text(text, encoding="utf8")
    with pytest.raises(CorpusError) as caught:
        read_nbest(tmp_path / "n.tsv")
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "n.tsv"), line)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"a\tb\t1\na\t\xe9t\xe9\t1\n", 2, "UTF-8 is required"),
        (gzip.compress(b"a\tb\t1\n" * 9999, mtime=0)[:-20], None, "cut short"),
        (b"", None, "empty"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: bytes, line: int | None, reason: str) -> None:
    (tmp_path / "n.tsv").write_bytes(content)
    with pytest.raises(CorpusError, match=reason) as caught:
        read_nbest(tmp_path / "n.tsv")
    assert line is None or caught.value.line == line


def test_references(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("a il dort\nb-2\n", encoding="utf8")
    assert read_references(tmp_path / "r.txt", {"a", "b-2"}) == {"a": ("il", "dort"), "b-2": ()}
    with pytest.raises(CorpusError, match=r"r\.txt:2:1: .* found 'b-2'"):
        read_references(tmp_path / "r.txt", {"a"})
    with pytest.raises(CorpusError, match="found none for 'b-2'"):
        errors_of_lists(LISTS, {"a": ("il",)})


@pytest.mark.parametrize(
    ("names", "lists"),
    [
        (("am",), ()),
        (("am",), (NBest("a", ()),)),
        (("am",), (NBest("a", (Hypothesis(("b",), ()),)),)),
        (("am",), (NBest("a", (Hypothesis(("b",), (math.nan,)),)),)),
        (("am",), (NBest("a", (Hypothesis((), (1.0,)),)), NBest("a", (Hypothesis((), (1.0,)),)))),
    ],
)
def test_lists_that_are_none_are_refused(names: tuple[str, ...], lists: tuple[NBest, ...]) -> None:
    with pytest.raises(CorpusError):
        NBestLists(names, lists)


def test_a_word_with_a_space_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="whitespace"):
        write_nbest(tmp_path / "n.tsv", NBestLists(("am",), (NBest("a", (Hypothesis(("b c",), (0.0,)),)),)))


# --- word errors


def brute_errors(reference: Sequence[str], hypothesis: Sequence[str]) -> tuple[int, int, int]:
    """(substitutions, deletions, insertions) with the fewest errors, and of those the fewest substitutions."""

    @cache
    def best(i: int, j: int) -> tuple[int, int, int, int]:
        if i == 0 or j == 0:
            return i + j, 0, i, j
        total, s, d, n = best(i - 1, j - 1)
        wrong = int(reference[i - 1] != hypothesis[j - 1])
        ways = [(total + wrong, s + wrong, d, n)]
        total, s, d, n = best(i - 1, j)
        ways.append((total + 1, s, d + 1, n))
        total, s, d, n = best(i, j - 1)
        ways.append((total + 1, s, d, n + 1))
        return min(ways)

    return best(len(reference), len(hypothesis))[1:]


sentences = st.lists(st.sampled_from("abc"), max_size=7).map(tuple)


@QUICK
@given(st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=4)), min_size=1, max_size=5))
def test_word_errors_are_those_of_the_table(cases: list[tuple[tuple[str, ...], list[tuple[str, ...]]]]) -> None:
    lists = [NBest(str(i), tuple(Hypothesis(h) for h in heard)) for i, (_, heard) in enumerate(cases)]
    found = errors_of_lists(lists, {str(i): said for i, (said, _) in enumerate(cases)})
    for (said, heard), own in zip(cases, found, strict=True):
        assert own == [Errors(*brute_errors(said, hypothesis), len(said)) for hypothesis in heard]
    fewest = sum(min(sum(brute_errors(said, hypothesis)) for hypothesis in heard) for said, heard in cases)
    assert oracle(found).total == fewest


def test_errors_add_up() -> None:
    (one,) = count_errors([(("le", "chat", "dort", "bien"), ("la", "chat", "bien", "ici"))])
    assert (one, one.rate) == (Errors(1, 1, 1, 4), 0.75)
    assert one + Errors(0, 1, 0, 2) == Errors(1, 2, 1, 6)
    with pytest.raises(CorpusError, match="a reference with a word"):
        _ = count_errors([((), ("a",))])[0].rate


# --- scores


def alone(model: LLRNN, words: Sequence[str]) -> float:
    """log p of one hypothesis by `model.log_prob`, nothing shared."""
    symbols = [model.vocabulary.eos, *model.vocabulary.ids(words), model.vocabulary.eos]
    row = torch.tensor([symbols])
    with torch.no_grad():
        batch = Batch(row[:, :-1], row[:, 1:], torch.ones(1, len(symbols) - 1, dtype=torch.bool))
        return float(model.log_prob(batch).double().sum())


@cache
def tiny(kind: str) -> LLRNN:
    if kind == "repeated":
        return tiny_model()
    return tiny_model(background=backgrounds.Mask(forbidden=lambda _, before: {"w1"} if len(before) % 2 else {"w2"}))


tiny_lists = st.lists(
    st.lists(st.lists(st.sampled_from(["w0", "w1", "w2"]), max_size=5).map(tuple), min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


@QUICK
@given(tiny_lists, st.sampled_from(["repeated", "mask"]), st.integers(1, 12))
def test_shared_prefixes_change_nothing(heard: list[list[tuple[str, ...]]], kind: str, rows: int) -> None:
    model = tiny(kind)
    lists = [NBest(str(i), tuple(map(Hypothesis, own))) for i, own in enumerate(heard)]
    found = score_lists(model, lists, rows=rows)
    for entry, own in zip(lists, found.log_probs, strict=True):
        for hypothesis, log_p in zip(entry.hypotheses, own, strict=True):
            assert log_p == pytest.approx(step_by_step(model, hypothesis.words), abs=1e-9)
    assert found.steps <= found.steps_without_sharing == sum(len(h) + 1 for own in heard for h in own)


def step_by_step(model: LLRNN, words: Sequence[str]) -> float:
    """`alone`, but −infinity instead of an error for what the background forbids."""
    try:
        return alone(model, words)
    except LLRNNError:
        return -math.inf


@pytest.mark.parametrize("controller", [GRU(6), LSTM(5, layers=2)])
def test_a_model_of_french_scores_lists_as_hypotheses(controller: GRU | LSTM) -> None:
    model = small_model(context=[contextual.Repeated(5)], controller=controller)
    lists, _ = french_lists(8)
    for made, tolerance in ((model, 1e-5), (model.double(), 1e-9)):
        found = score_lists(made, lists.lists)
        for entry, own in zip(lists, found.log_probs, strict=True):
            expected = [alone(made, hypothesis.words) for hypothesis in entry.hypotheses]
            assert own == pytest.approx(expected, rel=tolerance, abs=tolerance)
    assert found.steps < 0.7 * found.steps_without_sharing


def test_what_cannot_go_on_is_impossible() -> None:
    model = tiny_model(background=backgrounds.Mask(allowed=lambda _, before: {"w0", EOS} - {*before}))
    heard = [("w0",), ("w1",), ("w0", "w0"), ("w1", "w2"), ()]
    (found,) = score_lists(model, [NBest("a", tuple(map(Hypothesis, heard)))]).log_probs
    assert [log_p > -math.inf for log_p in found] == [True, False, False, False, True]
    assert not any(map(math.isnan, found))
    model = tiny_model(background=backgrounds.Mask(allowed=lambda _, before: set() if before else {"w0", EOS}))
    (found,) = score_lists(model, [NBest("a", tuple(map(Hypothesis, heard)))]).log_probs
    assert found[:4] == [-math.inf] * 4  # after any word nothing can follow, not even the end


def test_steps_are_distinct_prefixes() -> None:
    heard = [("w0", "w1"), ("w0", "w2"), ("w0", "w2", "w1"), ("w0", "w1")]
    found = score_lists(tiny("repeated"), [NBest("a", tuple(map(Hypothesis, heard)))])
    assert (found.steps, found.steps_without_sharing) == (5, 13)
    assert found.log_probs[0][0] == found.log_probs[0][3]


def test_unknown_words() -> None:
    with pytest.raises(UnknownWordError, match="utterance u7: the word 'zut'"):
        score_lists(tiny("repeated"), [NBest("u7", (Hypothesis(("w0", "zut")),))])
    with pytest.raises(CorpusError, match="utterance u7: </s>"):
        score_lists(tiny("repeated"), [NBest("u7", (Hypothesis(("w0", EOS)),))])
    vocabulary = Vocabulary(["a", "<unk>", EOS], unknown="<unk>")
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=GRU(3))
    with pytest.warns(LLRNNWarning, match="1 of 2 distinct words of the hypotheses"):
        first, second = score_lists(model, [NBest("u", (Hypothesis(("zut",)), Hypothesis(("<unk>",))))]).log_probs[0]
    assert first == second


def test_a_model_that_reads_small_letters_is_given_them() -> None:
    model = small_model()
    word = next(word for word in model.vocabulary if word.isalpha())
    model.provenance = {"config": {"corpus": {"lowercase": True}}}
    small, large = score_lists(model, [NBest("u", (Hypothesis((word,)), Hypothesis((word.upper(),))))]).log_probs[0]
    assert small == large


# --- weights


@st.composite
def tables(draw: st.DrawFn) -> ScoreTable:
    """Small numbers with many ties, lists of different lengths."""
    L, N = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    number = st.integers(-3, 3).map(float) | st.floats(-3, 3).map(lambda x: round(x, 2))
    values = np.array([[[draw(number) for _ in range(3)] for _ in range(N)] for _ in range(L)])
    errors = np.array([[draw(st.integers(0, 5)) for _ in range(N)] for _ in range(L)])
    for list_values, list_errors in zip(values, errors, strict=True):
        n = draw(st.integers(1, N))
        list_values[n:], list_errors[n:] = list_values[n - 1], list_errors[n - 1]
    return ScoreTable(values, errors)


@QUICK
@given(tables(), st.integers(0, 2), st.lists(st.sampled_from([0.0, 1.0, -0.5, 0.37]), min_size=3, max_size=3))
def test_the_line_search_is_exact(table: ScoreTable, coordinate: int, start: list[float]) -> None:
    weights = np.array(start)
    steps = table.along(weights, coordinate)
    assert (np.diff(steps.edges) > 0).all()
    for x in np.linspace(-9, 9, 721) + 0.000123:
        if len(steps.edges) == 0 or np.abs(steps.edges - x).min() > 1e-9:
            weights[coordinate] = x
            if not rounding_decides(table, weights):
                assert steps.errors[np.searchsorted(steps.edges, x)] == table.errors_at(weights)


def rounding_decides(table: ScoreTable, weights: np.ndarray) -> bool:
    """Whether two hypotheses of one list are equal but for rounding, and best: 1 + x - 1 is not x to a computer."""
    scores = table.values @ weights
    close = (scores.max(1, keepdims=True) - scores < 1e-9) & (scores < scores.max(1, keepdims=True))
    return bool(close.any())


@QUICK
@given(tables(), st.sampled_from([-math.inf, 0.0]))
def test_the_lowest_place_is_as_low_as_the_grid(table: ScoreTable, least: float) -> None:
    weights = np.array([1.0, 0.0, 0.0])
    found = table.along(weights, 1).lowest(least)
    assert found is not None
    x, fewest = found
    assert x >= least
    grid = [g for g in np.linspace(-9, 9, 721) + 0.000123 if g >= least]
    assert fewest <= min(table.errors_at(np.array([1.0, g, 0.0])) for g in grid)
    assert table.errors_at(np.array([1.0, x, 0.0])) == fewest


def test_lines_that_cross_in_one_place() -> None:
    a, b = np.array([[0.0, 0.0, 0.0, -1.0]]), np.array([[-1.0, 0.0, 1.0, 1.0]])
    steps = errors_along(a, b, np.array([[1, 7, 2, 9]]))
    assert (steps.edges.tolist(), steps.errors.tolist()) == ([0.0], [1, 2])


def noisy_lists(seed: int, *, utterances: int = 40, n: int = 12) -> tuple[NBestLists, dict[str, tuple[str, ...]]]:
    """Two scores that both know something of what was said, on different scales."""
    rng = np.random.default_rng(seed)
    lists, said = [], {}
    for index in range(utterances):
        reference = tuple(rng.choice(list("abcdef"), 6).tolist())
        heard = []
        for _ in range(n):
            kept = tuple(str(w) if rng.random() < 0.8 else str(rng.choice(list("xyz"))) for w in reference)
            wrong = count_errors([(reference, kept)])[0].total
            heard.append(Hypothesis(kept, (-wrong + rng.normal(0, 2), -30 * wrong + rng.normal(0, 70))))
        lists.append(NBest(f"u{index}", tuple(heard)))
        said[f"u{index}"] = reference
    return NBestLists(("am", "lm"), tuple(lists)), said


@pytest.mark.parametrize("seed", range(3))
def test_tuned_weights_are_no_worse_than_any_score_alone(seed: int) -> None:
    lists, said = noisy_lists(seed)
    tuned = tune(lists, said, seed=1)
    together = rescore(lists, {}, tuned.weights).errors(said)
    assert together == tuned.errors
    single = [rescore(lists, {}, Weights.only(name, lists.names)).errors(said) for name in lists.names]
    assert together.total < min(errors.total for errors in single)
    assert oracle(errors_of_lists(lists, said)).total <= together.total
    assert min(tuned.weights[name] for name in lists.names) >= 0
    assert tune(lists, said, seed=1) == tuned


def test_tuning_finds_the_penalty_of_a_word() -> None:
    """The recogniser likes short sentences; each word is worth between 1 and 2."""
    heard = NBest(
        "a", (Hypothesis(("x",), (0.0,)), Hypothesis(("x", "y"), (-1.0,)), Hypothesis(("x", "y", "z"), (-3.0,)))
    )
    tuned = tune(NBestLists(("am",), (heard,)), {"a": ("x", "y")})
    assert tuned.errors.total == 0
    assert 1 < tuned.weights["words"] / tuned.weights["am"] < 2


def test_an_impossible_hypothesis_is_not_chosen_and_can_be_tuned_on() -> None:
    heard = NBest("a", (Hypothesis(("x",), (0.0, -math.inf)), Hypothesis(("y",), (-50.0, -1.0))))
    lists = NBestLists(("am", "lm"), (heard,))
    assert rescore(lists, {}).best == {"a": ("y",)}
    assert rescore(lists, {}, Weights({"am": 1.0, "lm": 0.0})).best == {"a": ("x",)}
    assert tune(lists, {"a": ("y",)}).errors.total == 0


def test_weights_are_written_and_read() -> None:
    weights = Weights.parse("am=1, lm=0.5,words=-0.1")
    assert weights == Weights({"am": 1.0, "lm": 0.5, "words": -0.1})
    assert Weights.parse(str(weights)) == weights
    assert [*weights.for_scores(("lm", "am")).items()] == [("lm", 0.5), ("am", 1.0), ("words", -0.1)]
    with pytest.raises(ConfigError, match="am, llrnn"):
        weights.for_scores(("am", "llrnn"))


@pytest.mark.parametrize("text", ["", "am", "am=", "am=x", "am=nan", "am=1,am=2", "=1"])
def test_bad_weights_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="weights are written"):
        Weights.parse(text)


# --- rescoring


def test_rescoring_ranks_by_the_total() -> None:
    def by_length(lists: Sequence[NBest], /) -> list[list[float]]:
        return [[float(len(h.words)) for h in entry.hypotheses] for entry in lists]

    result = rescore(LISTS, {"length": by_length}, Weights({"length": 100.0, "lm": 0.0, "am": 1.0}))
    assert result.best == {"a": ("il", "dors"), "b-2": ("œil",)}
    assert result.lists.names == ("am", "lm", "length")
    assert result.lists.lists[0].hypotheses[1] == Hypothesis(("il", "dort"), (-1.5, -2.0, 2.0))
    assert rescore(LISTS, {}).best == {"a": ("il", "dort"), "b-2": ()}
    with pytest.raises(CorpusError, match="'am' twice"):
        add_scores(LISTS, {"am": by_length})


def test_a_model_helps() -> None:
    """One that has learnt the words of the text from their counts already corrects the acoustics."""
    lists, said = french_lists(60)
    model = small_model(loud=0.0)
    scored = add_scores(lists, {"llrnn": ModelScorer(model)})
    tuned = tune(scored, said, restarts=2)
    before = rescore(lists, {}).errors(said)
    assert tuned.errors.total < before.total


# --- simulated lists


@cache
def french_lists(count: int) -> tuple[NBestLists, dict[str, tuple[str, ...]]]:
    return confuse(small_corpus()[:count], Confusables(small_corpus().counts()), n=20)


spelled = st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=12, unique=True)


@QUICK
@given(spelled, st.text("abc", min_size=1, max_size=8))
def test_confusable_words_are_those_of_small_distance(words: list[str], asked: str) -> None:
    def allowed(word: str) -> int:
        return 1 if len(word) < 5 else 2

    expected = {
        (word, sum(brute_errors(asked, word)))
        for word in words
        if word != asked and sum(brute_errors(asked, word)) <= min(allowed(asked), allowed(word))
    }
    found = Confusables({word: len(word) for word in words}).of(asked, 100)
    assert set(found) == expected
    assert [distance for _, distance in found] == sorted(distance for _, distance in found)


def test_simulated_lists_are_decided_by_the_seed() -> None:
    confusables = Confusables(small_corpus().counts())
    lists, said = confuse(small_corpus()[:10], confusables, n=20)
    assert confuse(small_corpus()[:10], confusables, n=20) == (lists, said)
    assert confuse(small_corpus()[:10], confusables, n=20, seed=1)[0] != lists
    assert confuse(small_corpus()[:5], confusables, n=20)[0].lists == lists.lists[:5]


def test_simulated_lists_are_lists() -> None:
    lists, said = french_lists(60)
    assert [said[entry.utterance] for entry in lists] == [sentence.words for sentence in small_corpus()]
    known = set(small_corpus().counts())
    for entry in lists:
        assert len({h.words for h in entry.hypotheses}) == len(entry.hypotheses) == 20
        assert [h.scores for h in entry.hypotheses] == sorted((h.scores for h in entry.hypotheses), reverse=True)
        assert {word for h in entry.hypotheses for word in h.words} <= known
    errors = errors_of_lists(lists, said)
    first = sum((own[0] for own in errors), Errors())
    assert 0.05 < first.rate < 0.4
    assert min(first.substitutions, first.deletions, first.insertions) > 0
    share = sum(any(one.total == 0 for one in own) for own in errors) / len(errors)
    assert 0.5 < share <= 1.0
    assert oracle(errors).rate < 0.5 * first.rate


def test_words_without_letters_are_heard_right_and_empty_sentences_are_short() -> None:
    corpus = Corpus.from_sentences([["12", "...", "?"], []])
    (numbers, nothing), _ = confuse(corpus, Confusables({"a": 1, "le": 3, "12": 9}), n=50)
    assert all([w for w in h.words if w not in ("a", "le")] == ["12", "...", "?"] for h in numbers.hypotheses)
    assert {h.words for h in nothing.hypotheses} == {(), ("a",), ("le",)}


def test_without_noise_the_truth_is_likeliest() -> None:
    lists, said = confuse(small_corpus(), Confusables(small_corpus().counts()), n=30, channel=Channel(noise=0.0))
    best = {entry.utterance: entry.hypotheses[0].words for entry in lists}
    assert sum(best[utterance] == words for utterance, words in said.items()) > 0.8 * len(said)


@pytest.mark.parametrize(
    "bad", [{"substitution": 0.0}, {"deletion": 1.0}, {"noise": math.nan}, {"similar": 0}, {"temperature": 0.0}]
)
def test_a_channel_that_is_none_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Channel(**bad)


# --- the command line


Capture = pytest.CaptureFixture[str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verb alone, in a folder with a model, lists and references."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(rescore_verb)
    monkeypatch.setattr(cli, "app", app)
    monkeypatch.chdir(tmp_path)
    small_model(loud=0.3).save("model")
    lists, said = french_lists(60)
    halves = {"dev": lists.lists[:30], "test": lists.lists[30:]}
    for name, half in halves.items():
        write_nbest(f"{name}.tsv", NBestLists(lists.names, half))
        rows = (" ".join((entry.utterance, *said[entry.utterance])) for entry in half)
        Path(f"{name}.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf8")


def done(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert cli.run(["model", "test.tsv", *arguments]) == 0
    return capsys.readouterr().out


def refused(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert cli.run(list(arguments)) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    return captured.err


@pytest.mark.usefixtures("command")
def test_the_command_tunes_rescores_and_writes(capsys: Capture) -> None:
    tuning = ["--references", "test.txt", "--dev", "dev.tsv", "--dev-references", "dev.txt"]
    told = json.loads(done(capsys, *tuning, "--out", "out.tsv", "--json"))
    assert set(told["errors"]) == {"am alone", "llrnn alone", "rescored", "oracle"}
    assert set(told["weights"]) == {"am", "llrnn", "words"}
    assert told["steps"] < told["steps_without_sharing"]
    written = read_nbest("out.tsv")
    assert written.names == ("am", "llrnn")
    assert {entry.utterance: " ".join(entry.hypotheses[0].words) for entry in written} == told["best"]
    shown = done(capsys, *tuning)
    assert f"{told['errors']['rescored']['rate']:.2%}" in shown
    assert "tuned on dev.tsv" in shown


@pytest.mark.usefixtures("command")
def test_the_command_without_references_prints_what_was_chosen(capsys: Capture) -> None:
    lines = done(capsys).splitlines()
    assert "equal, 1 for each score" in lines[1]
    assert len(lines) == 2 + 30
    lists = read_nbest("test.tsv")
    only_acoustics = done(capsys, "--weights", "am=1,llrnn=0").splitlines()
    assert only_acoustics[2:] == [" ".join((e.utterance, *e.hypotheses[0].words)) for e in lists]


@pytest.mark.usefixtures("command")
def test_mistakes_are_one_line(capsys: Capture) -> None:
    assert "belong together" in refused(capsys, "model", "test.tsv", "--dev", "dev.tsv")
    both = ["--dev", "dev.tsv", "--dev-references", "dev.txt", "--weights", "am=1,llrnn=1"]
    assert "found both" in refused(capsys, "model", "test.tsv", *both)
    assert "am, llrnn" in refused(capsys, "model", "test.tsv", "--weights", "am=1")
    assert "dev.txt:1:1" in refused(capsys, "model", "test.tsv", "--references", "dev.txt")
    assert "none of this name" in refused(capsys, "model", "nothing.tsv")
    assert "--out" in refused(capsys, "model", "test.tsv", "--out", "no/such/folder.tsv")
    Path("short.txt").write_text(Path("test.txt").read_text(encoding="utf8").split("\n")[0] + "\n", encoding="utf8")
    assert "short.txt" in refused(capsys, "model", "test.tsv", "--references", "short.txt")
    Path("odd.tsv").write_text("u1\tdonaudampfschiff\t-1\n", encoding="utf8")
    assert "utterance u1" in refused(capsys, "model", "odd.tsv")
    Path("again.tsv").write_text("#utterance\thypothesis\tllrnn\nu1\tle\t-1\n", encoding="utf8")
    assert "again.tsv" in refused(capsys, "model", "again.tsv")
    assert cli.run(["--help"]) == 0
    assert "Example: llrnn rescore runs/french nbest.tsv" in capsys.readouterr().out
