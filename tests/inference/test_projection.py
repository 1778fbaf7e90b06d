"""Networks as n-grams, n-grams as automata, each against its definition: means place by place, one path a sentence."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brute_ngrams import Grams, contexts, listed, log_p
from llrnn import LLRNN, LSTM, Corpus, Vocabulary, backgrounds, features, french
from llrnn.ground.errors import ConfigError
from llrnn.inference.openfst import EPSILON, PHI, Fst, constraint_fst, ngram_fst
from llrnn.inference.projection import distil, written
from llrnn.languages.ngrams import NGramTable, estimate, pruned, read_arpa, write_arpa
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
    assert "distil" in refused(capsys, "export", "fst", "net", "--out", "x.fst.txt")
    kenlm = pytest.importorskip("kenlm")
    read, table = kenlm.Model("net.arpa"), listed(read_arpa("net.arpa"))
    for sentence in SENTENCES:
        text = [EOS, *sentence, EOS]
        own = math.fsum(log_p(table, tuple(text[max(0, i - 2) : i]), text[i]) for i in range(1, len(text)))
        assert read.score(" ".join(sentence)) * math.log(10) == pytest.approx(own, abs=1e-4)


# --- automata --------------------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """The text of an automaton, read once, by a reader that knows phi arcs alone."""

    arcs: dict[int, dict[str, tuple[int, float]]]
    finals: dict[int, float]

    @classmethod
    def of(cls, fst: Fst) -> Reader:
        found = cls(defaultdict(dict), {})
        for line in fst.lines():
            source, *more = line.split("\t")
            if len(more) == 1:
                found.finals[int(source)] = float(more[0])
                continue
            target, label, out, weight = more
            assert label == out
            assert label not in found.arcs[int(source)]  # deterministic
            found.arcs[int(source)][label] = int(target), float(weight)
        return found

    def weight(self, sentence: list[str]) -> float:
        """Of the only path of a sentence."""
        state, total = 0, 0.0
        for word in sentence:
            while word not in self.arcs[state]:
                if PHI not in self.arcs[state]:
                    return math.inf
                state, weight = self.arcs[state][PHI]
                total += weight
            state, weight = self.arcs[state][word]
            total += weight
        return total + self.finals.get(state, math.inf)


def accepted(fst: Fst, sentence: list[str]) -> float:
    return Reader.of(fst).weight(sentence)


def sentences_of(corpus: Corpus, words: Sequence[str], count: int) -> list[list[str]]:
    """Half of a text, half at random, the empty one too."""
    generator = np.random.default_rng(0)
    texts = [list(one.words) for one in corpus[: count // 2]]
    drawn = [[*generator.choice(words, size=generator.integers(0, 7))] for _ in range(count - len(texts))]
    return [*texts, *drawn]


def weight_of(grams: Grams, sentence: list[str]) -> float:
    """−log p of a sentence by trigrams."""
    text = [EOS, *sentence, EOS]
    return -math.fsum(log_p(grams, tuple(text[max(0, i - 2) : i]), text[i]) for i in range(1, len(text)))


@pytest.fixture(scope="module")
def trigrams() -> tuple[NGramTable, Corpus]:
    corpus = Corpus.from_sentences(french.sentences(500, skip=5000))
    vocabulary = Vocabulary.from_corpus(corpus)
    return estimate(EncodedText.encode(corpus, vocabulary).stream(), vocabulary.symbols, order=3), corpus


@pytest.mark.parametrize("threshold", [None, 1e-5])
def test_an_automaton_accepts_with_the_weights_of_the_ngrams(
    trigrams: tuple[NGramTable, Corpus], threshold: float | None
) -> None:
    table, corpus = trigrams
    table = table if threshold is None else pruned(table, threshold)
    fst, grams = ngram_fst(table), listed(table)
    reader, sentences = Reader.of(fst), sentences_of(corpus, fst.words, 1000)
    assert len(sentences) == 1000
    for sentence in sentences:
        assert reader.weight(sentence) == pytest.approx(weight_of(grams, sentence), abs=1e-4)


@dataclass
class KaldiReader:
    """What `llrnn export fst` writes, as kaldifst compiles it: arcs by state and label, in its own numbers."""

    arcs: dict[int, dict[int, tuple[int, float]]]
    finals: dict[int, float]
    start: int
    number: dict[str, int]

    @classmethod
    def of(cls, told: dict[str, Any], text: Path) -> KaldiReader:
        kaldifst = pytest.importorskip("kaldifst")
        table = kaldifst.SymbolTable.read_text(told["symbols"])
        fst = kaldifst.compile(text.read_text(encoding="utf8"), acceptor=False, isymbols=table, osymbols=table)
        states = list(kaldifst.StateIterator(fst))
        arcs = {
            state: {arc.ilabel: (arc.nextstate, arc.weight.value) for arc in kaldifst.ArcIterator(fst, state)}
            for state in states
        }
        assert len(states) == told["states"]
        assert sum(map(len, arcs.values())) == told["arcs"]
        lines = Path(told["symbols"]).read_text(encoding="utf8").splitlines()
        number = {word: int(place) for word, place in (line.split("\t") for line in lines)}
        return cls(arcs, {state: fst.final(state).value for state in states}, fst.start, number)

    def weight(self, sentence: list[str], backoff: str) -> float:
        """By the arc of each word, and through back-off where there is none."""
        state, total = self.start, 0.0
        for label in (self.number[word] for word in sentence):
            while label not in self.arcs[state]:
                state, weight = self.arcs[state][self.number[backoff]]
                total += weight
            state, weight = self.arcs[state][label]
            total += weight
        return total + self.finals[state]


@pytest.mark.parametrize("backoff", [PHI, EPSILON])
def test_kaldifst_reads_it(trigrams: tuple[NGramTable, Corpus], tmp_path: Path, capsys: Capture, backoff: str) -> None:
    pytest.importorskip("kaldifst")
    write_arpa(trigrams[0], tmp_path / "t.arpa")
    out, name = tmp_path / "t.fst.txt", {PHI: "phi", EPSILON: "epsilon"}[backoff]
    told = as_json(capsys, "export", "fst", str(tmp_path / "t.arpa"), "--out", str(out), "--backoff", name)
    assert told["backoff"] == backoff
    reader, grams = KaldiReader.of(told, out), listed(trigrams[0])
    words = [word for word in reader.number if word not in (EPSILON, PHI)]
    for sentence in sentences_of(trigrams[1], words, 1000):
        assert reader.weight(sentence, backoff) == pytest.approx(weight_of(grams, sentence), abs=1e-4)


def test_the_best_path_by_kaldifst_is_no_dearer(
    trigrams: tuple[NGramTable, Corpus], tmp_path: Path, capsys: Capture
) -> None:
    kaldifst = pytest.importorskip("kaldifst")
    write_arpa(trigrams[0], tmp_path / "t.arpa")
    out = tmp_path / "t.fst.txt"
    told = as_json(capsys, "export", "fst", str(tmp_path / "t.arpa"), "--out", str(out), "--backoff", "epsilon")
    table = kaldifst.SymbolTable.read_text(told["symbols"])
    number = KaldiReader.of(told, out).number
    fst = kaldifst.compile(out.read_text(encoding="utf8"), acceptor=False, isymbols=table, osymbols=table)
    kaldifst.arcsort(fst, sort_type="ilabel")
    grams = listed(trigrams[0])
    for one in trigrams[1][:5]:  # at most −log p: that is the path by the arcs that are listed
        line = kaldifst.make_linear_acceptor([number[word] for word in one.words])
        best = kaldifst.shortest_path(kaldifst.compose(line, fst))
        _, _, _, weight = kaldifst.get_linear_symbol_sequence(best)
        assert weight.value <= weight_of(grams, list(one.words)) + 1e-3


def test_a_constraint_is_an_automaton() -> None:
    vocabulary = Vocabulary([EOS, "la", "petite", "grande", "reine"])
    fst = constraint_fst(backgrounds.Automaton("la ( petite | grande )+ reine", weighted=False).bind(vocabulary))
    assert accepted(fst, ["la", "petite", "grande", "reine"]) == 0.0
    for wrong in (["la", "reine"], ["la", "petite"], []):
        assert accepted(fst, wrong) == math.inf
    short = constraint_fst(
        backgrounds.Automaton("la ( petite | grande )+ reine", weighted=False, longest=3).bind(vocabulary)
    )
    assert accepted(short, ["la", "petite", "reine"]) == 0.0
    assert accepted(short, ["la", "petite", "grande", "reine"]) == math.inf
    nested = backgrounds.Grammar('start: "la" start "reine" | "petite"').bind(vocabulary)
    with pytest.raises(ConfigError, match=r"at most 50 states .* --longest"):
        constraint_fst(nested, most=50)
