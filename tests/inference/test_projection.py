"""Networks as n-grams, against the definition: means place by place."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from brute_ngrams import contexts, listed, log_p
from llrnn import LLRNN, LSTM, Corpus, Vocabulary, backgrounds, features
from llrnn.ground.errors import ConfigError
from llrnn.inference.projection import distil, written
from llrnn.languages.ngrams import NGramTable, estimate, read_arpa
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import EOS
from test_cli import Capture, as_json, refused

SENTENCES = [["le", "chat", "dort"], ["le", "chat", "mange"], ["la", "reine", "dort"], ["la", "reine"], ["le", "chat"]]
CORPUS = Corpus.from_sentences(SENTENCES)


def network(*, expert: bool = False) -> LLRNN:
    vocabulary = Vocabulary.from_corpus(CORPUS)
    background: backgrounds.Background = backgrounds.Unigram.from_corpus(CORPUS)
    if expert:
        stream = EncodedText.encode(CORPUS, vocabulary).stream()
        background = backgrounds.NGram(estimate(stream, vocabulary.symbols, order=2))
    phi = features.Identity(top=2) + features.Suffixes(1, min_count=1)
    return LLRNN(vocabulary, output_features=phi, background=background, controller=LSTM(6), seed=3).eval()


def means(model: LLRNN, longest: int) -> dict[tuple[str, ...], np.ndarray]:
    """The mean distribution behind every context, place by place, by steps; behind a shorter context than the longest
    that there are, every longer one counts once."""
    found: dict[tuple[str, ...], dict[object, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    for sentence in SENTENCES:
        state, before = model.start(), list[str]()
        for word in [EOS, *sentence]:
            distribution, state = model.step(state, [model.vocabulary.id(word)])
            before.append(word)
            row = distribution.log_probs()[0].double().exp().detach().numpy()
            for k in range(min(longest, len(before)) + 1):
                longer = tuple(before[len(before) - k - 1 :]) if k < min(longest, len(before)) else object()
                found[tuple(before[len(before) - k :])][longer].append(row)
    return {context: np.mean([np.mean(rows, 0) for rows in own.values()], 0) for context, own in found.items()}


@pytest.mark.parametrize("expert", [False, True])
def test_probabilities_are_the_means_of_the_network(expert: bool) -> None:
    model = network(expert=expert)
    table = distil(model, CORPUS, order=3, threshold=1e-13)
    grams, words = listed(table), model.vocabulary.symbols
    for context, wanted in means(model, 2).items():
        found = [math.exp(log_p(grams, context, word)) for word in words]
        np.testing.assert_allclose(found, wanted, atol=2e-5)
    for context in contexts(words, 2):  # also those that the text does not have
        assert math.fsum(math.exp(log_p(grams, context, word)) for word in words) == pytest.approx(1.0, abs=1e-6)


def test_what_is_listed_has_the_mean_and_the_rest_its_mass() -> None:
    model = network()
    table = distil(model, CORPUS, order=3, threshold=3e-3)
    wanted = means(model, 2)
    assert table.size < distil(model, CORPUS, order=3, threshold=1e-13).size
    for *context, word in listed(table):
        found = math.exp(listed(table)[*context, word][0])
        assert found == pytest.approx(wanted[tuple(context)][model.vocabulary.id(word)], abs=1e-6)


def sampled(model: LLRNN, sentences: int) -> NGramTable:
    """Kneser-Ney on sentences that the model writes."""
    stream = EncodedText.encode(written(model, sentences), model.vocabulary).stream()
    return estimate(stream, model.vocabulary.symbols, order=3)


def test_closer_than_kneser_ney_on_sampled_text() -> None:
    model = network()
    near, drawn = distil(model, CORPUS, order=3, threshold=1e-6), sampled(model, 200)
    distances = []
    for table in (near, drawn):
        grams, words = listed(table), model.vocabulary.symbols
        found = means(model, 2).items()
        rows = [(p, np.array([math.exp(log_p(grams, c, word)) for word in words])) for c, p in found if len(c) == 2]
        distances.append(np.mean([np.sum(p * np.log(p / q)) for p, q in rows]))
    assert distances[0] < 1e-3 < distances[1]


def test_contexts_of_sentences_that_the_network_writes() -> None:
    model = network()
    more = written(model, 400, seed=2)
    assert len(more) == 400
    assert [one.words for one in more] == [one.words for one in written(model, 400, seed=2)]
    alone, grams = (listed(distil(model, text, order=3, threshold=1e-9)) for text in (CORPUS, CORPUS + more))
    longest = [{gram[:2] for gram in own if len(gram) == 3} for own in (alone, grams)]
    assert longest[0] < longest[1]
    words = model.vocabulary.symbols
    assert math.fsum(math.exp(log_p(grams, ("chat", "la"), word)) for word in words) == pytest.approx(1.0, abs=1e-6)


def test_sentences_shorter_than_the_order() -> None:
    assert distil(network(), Corpus.from_sentences([["chat"]]), order=5, threshold=1e-9).order < 4


def test_what_cannot_be_distilled_is_said() -> None:
    with pytest.raises(ConfigError, match="an order of 1 to 9 and a threshold above 0"):
        distil(network(), CORPUS, threshold=0.0)


def test_on_the_command_line(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network().save("net")
    Path("train.txt").write_text("".join(" ".join(one) + "\n" for one in SENTENCES), encoding="utf8")
    told = as_json(capsys, "ngram", "distil", "net", "--text", "train.txt", "--order", "3", "--out", "net.arpa")
    assert told["ngrams"] == [len(level) for level in read_arpa("net.arpa").levels]
    (found,) = as_json(capsys, "evaluate", "net.arpa", "train.txt")
    (wanted,) = as_json(capsys, "evaluate", "net", "train.txt")
    assert abs(found["log_perplexity"] - wanted["log_perplexity"]) < 0.05  # a history of two words is nearly all here
    assert "--text" in refused(capsys, "ngram", "distil", "net", "--out", "x.arpa")
    kenlm = pytest.importorskip("kenlm")
    read, table = kenlm.Model("net.arpa"), listed(read_arpa("net.arpa"))
    for sentence in SENTENCES:
        text = [EOS, *sentence, EOS]
        own = math.fsum(log_p(table, tuple(text[max(0, i - 2) : i]), text[i]) for i in range(1, len(text)))
        assert read.score(" ".join(sentence)) * math.log(10) == pytest.approx(own, abs=1e-4)
