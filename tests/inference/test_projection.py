"""Networks as n-grams, n-grams as automata, each against its definition: means place by place, one path a sentence."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from brute_ngrams import contexts, listed, log_p
from llrnn import LLRNN, LSTM, Corpus, Vocabulary, backgrounds, features, french
from llrnn.ground.errors import ConfigError
from llrnn.inference.openfst import EPSILON, PHI, Fst, constraint_fst, ngram_fst
from llrnn.inference.projection import distil, sampled
from llrnn.languages.ngrams import NGramTable, estimate, pruned, read_arpa, write_arpa
from llrnn.text.corpus import EncodedText
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


def test_closer_than_kneser_ney_on_sampled_text() -> None:
    model = network()
    near, drawn = distil(model, CORPUS, order=3, threshold=1e-6), sampled(model, 200, order=3, seed=0)
    distances = []
    for table in (near, drawn):
        grams, words = listed(table), model.vocabulary.symbols
        found = means(model, 2).items()
        rows = [(p, np.array([math.exp(log_p(grams, c, word)) for word in words])) for c, p in found if len(c) == 2]
        distances.append(np.mean([np.sum(p * np.log(p / q)) for p, q in rows]))
    assert distances[0] < 1e-3 < distances[1]
    assert listed(sampled(model, 50, order=2, seed=1)) == listed(sampled(model, 50, order=2, seed=1))


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
    assert "give one" in refused(capsys, "ngram", "distil", "net", "--out", "x.arpa")
    assert "distil" in refused(capsys, "export", "fst", "net", "--out", "x.fst.txt")
    kenlm = pytest.importorskip("kenlm")
    read, table = kenlm.Model("net.arpa"), listed(read_arpa("net.arpa"))
    for sentence in SENTENCES:
        text = [EOS, *sentence, EOS]
        own = math.fsum(log_p(table, tuple(text[max(0, i - 2) : i]), text[i]) for i in range(1, len(text)))
        assert read.score(" ".join(sentence)) * math.log(10) == pytest.approx(own, abs=1e-4)


# --- automata --------------------------------------------------------------------------------------------------------


def accepted(fst: Fst, sentence: list[str]) -> float:
    """The weight of the only path of a sentence, by a reader of its text that knows phi arcs alone."""
    arcs: dict[int, dict[str, tuple[int, float]]] = defaultdict(dict)
    finals: dict[int, float] = {}
    for line in fst.lines():
        source, *more = line.split("\t")
        if len(more) == 1:
            finals[int(source)] = float(more[0])
        else:
            assert more[1] == more[2]
            assert more[1] not in arcs[int(source)]  # deterministic
            arcs[int(source)][more[1]] = int(more[0]), float(more[3])
    state, total = 0, 0.0
    for word in sentence:
        while word not in arcs[state]:
            if PHI not in arcs[state]:
                return math.inf
            state, weight = arcs[state][PHI]
            total += weight
        state, weight = arcs[state][word]
        total += weight
    return total + finals.get(state, math.inf)


@pytest.fixture(scope="module")
def trigrams() -> tuple[NGramTable, Corpus]:
    corpus = Corpus.from_sentences(french.sentences(300, seed=5))
    vocabulary = Vocabulary.from_corpus(corpus)
    return estimate(EncodedText.encode(corpus, vocabulary).stream(), vocabulary.symbols, order=3), corpus


@pytest.mark.parametrize("threshold", [None, 1e-5])
def test_an_automaton_accepts_with_the_weights_of_the_ngrams(
    trigrams: tuple[NGramTable, Corpus], threshold: float | None
) -> None:
    table, corpus = trigrams
    table = table if threshold is None else pruned(table, threshold)
    fst, grams = ngram_fst(table), listed(table)
    generator = np.random.default_rng(0)
    sentences = [list(one.words) for one in corpus[:10]]
    sentences += [list(generator.choice(fst.words, size=generator.integers(0, 7))) for _ in range(30)]
    for sentence in sentences:
        text = [EOS, *sentence, EOS]
        wanted = -math.fsum(log_p(grams, tuple(text[max(0, i - 2) : i]), text[i]) for i in range(1, len(text)))
        assert accepted(fst, sentence) == pytest.approx(wanted, abs=1e-4)


def test_kaldifst_reads_it(trigrams: tuple[NGramTable, Corpus], tmp_path: Path, capsys: Capture) -> None:
    kaldifst = pytest.importorskip("kaldifst")
    write_arpa(trigrams[0], tmp_path / "t.arpa")
    out = tmp_path / "t.fst.txt"
    told = as_json(capsys, "export", "fst", str(tmp_path / "t.arpa"), "--out", str(out), "--backoff", "epsilon")
    assert told["backoff"] == EPSILON
    table = kaldifst.SymbolTable.read_text(told["symbols"])
    number = dict(line.split("\t") for line in Path(told["symbols"]).read_text(encoding="utf8").splitlines())
    fst = kaldifst.compile(out.read_text(encoding="utf8"), acceptor=False, isymbols=table, osymbols=table)
    assert fst.num_states == told["states"]
    assert sum(fst.num_arcs(state) for state in kaldifst.StateIterator(fst)) == told["arcs"]
    kaldifst.arcsort(fst, sort_type="ilabel")
    grams = listed(trigrams[0])
    for one in trigrams[1][:5]:  # the best path is at most −log p: by the arcs that are listed
        text = [EOS, *one.words, EOS]
        wanted = -math.fsum(log_p(grams, tuple(text[max(0, i - 2) : i]), text[i]) for i in range(1, len(text)))
        line = kaldifst.make_linear_acceptor([int(number[word]) for word in one.words])
        best = kaldifst.shortest_path(kaldifst.compose(line, fst))
        _, _, _, weight = kaldifst.get_linear_symbol_sequence(best)
        assert weight.value <= wanted + 1e-3


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
