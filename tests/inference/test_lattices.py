"""Rescored lattices against the list of all their paths, which `rescore` scores one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llrnn import LLRNN, LSTM, Corpus, Vocabulary, backgrounds, cli, features
from llrnn.ground.errors import ConfigError, CorpusError
from llrnn.inference.lattices import Edge, Lattice, read_lattices, rescore_lattice
from llrnn.inference.nbest import Hypothesis, NBest, NBestLists, Words
from llrnn.inference.rescoring import ModelScorer, Weights, rescore
from llrnn.languages.ngrams import estimate
from llrnn.model.checkpoint import ngram_model
from llrnn.text.encoded import EncodedText
from strategies import draws
from test_cli import Capture, as_json, done, refused

WORDS = ("le", "la", "chat", "dort")
CORPUS = Corpus.from_sentences([["le", "chat", "dort"], ["la", "chat"], ["le", "le", "dort"], ["dort", "la", "chat"]])
VOCABULARY = Vocabulary.from_corpus(CORPUS)
KALDI = "utt7\n0 1 le 1.5,10,1_2\n0 1 la 1,11,\n1 2 chat 0.5,2,\n1 2 <eps> 0,4,\n2 0.25,0,\n\nutt8\n0 1 dort 1,1,\n1\n"
ARCS = "".join(f"{i} {j} {word} 1,{i},\n" for i in range(5) for j in (i + 1, i + 2) for word in ("le", "la", "dort"))
WIDE = f"wide\n{ARCS}5\n6\n"


def network() -> LLRNN:
    phi = features.Identity()
    background = backgrounds.Unigram.from_corpus(CORPUS)
    return LLRNN(VOCABULARY, output_features=phi, background=background, controller=LSTM(5), seed=2).eval()


def ngrams() -> LLRNN:
    return ngram_model(estimate(EncodedText.encode(CORPUS, VOCABULARY).stream(), VOCABULARY.symbols, order=3))


MODELS = {"network": network(), "ngrams": ngrams()}
scores = st.tuples(st.floats(-5, 0), st.floats(-5, 0))


@st.composite
def lattices(draw: st.DrawFn) -> Lattice:
    """States in a row, arcs forward: a lattice in which every state is on a path."""
    n = draw(st.integers(2, 5))
    edges = [Edge(i, i + 1, draw(st.sampled_from(WORDS)), draw(scores)) for i in range(n - 1)]
    for _ in range(draw(st.integers(0, 6))):
        source = draw(st.integers(0, n - 2))
        word = draw(st.sampled_from([*WORDS, None]))
        edges.append(Edge(source, draw(st.integers(source + 1, n - 1)), word, draw(scores)))
    return Lattice("u", 0, tuple(edges), {n - 1: draw(scores)})


def paths(lattice: Lattice) -> Iterator[tuple[Words, tuple[float, float]]]:
    """Every path, with its words and scores."""

    def from_state(state: int) -> Iterator[tuple[Words, tuple[float, float]]]:
        if state in lattice.finals:
            yield (), lattice.finals[state]
        for edge in (one for one in lattice.edges if one.source == state):
            for words, scores in from_state(edge.target):
                own = () if edge.word is None else (edge.word,)
                yield (*own, *words), (edge.scores[0] + scores[0], edge.scores[1] + scores[1])

    return from_state(lattice.start)


def by_list(model: LLRNN, lattice: Lattice, weights: Weights) -> list[tuple[tuple[str, ...], float]]:
    """All paths as an n-best list, rescored; the best of those that have the same words."""
    hypotheses = tuple(Hypothesis(words, scores) for words, scores in paths(lattice))
    lists = NBestLists(("am", "lm"), (NBest("u", hypotheses),))
    (entry,) = rescore(lists, {"llrnn": ModelScorer(model)}, weights).lists
    found: dict[tuple[str, ...], float] = {}
    for hypothesis, total in zip(entry.hypotheses, weights.totals(entry), strict=True):
        found.setdefault(hypothesis.words, float(total))
    return [*found.items()]


@pytest.mark.parametrize("kind", MODELS)
@settings(max_examples=draws(40))
@given(lattice=lattices(), own=st.floats(0.1, 2), words=st.floats(-1, 1), am=st.floats(0, 1))
def test_a_lattice_is_the_list_of_its_paths(kind: str, lattice: Lattice, own: float, words: float, am: float) -> None:
    weights = Weights({"am": am, "lm": 0.5, "llrnn": own, "words": words})
    wanted = by_list(MODELS[kind], lattice, weights)
    found = rescore_lattice(MODELS[kind], lattice, weights, n=len(wanted) + 3)
    assert not found.cut
    assert {h.words for h in found.best.hypotheses} == {words for words, _ in wanted}
    totals = weights.totals(found.best)
    assert totals.tolist() == pytest.approx([total for _, total in wanted], abs=1e-4)
    assert sorted(totals, reverse=True) == pytest.approx(totals.tolist(), abs=1e-4)


def sausage(slots: int, *, alternatives: int = 2) -> Lattice:
    words = WORDS[:alternatives]
    edges = [Edge(i, i + 1, word, (-0.1 * k, -0.2)) for i in range(slots) for k, word in enumerate(words)]
    return Lattice("u", 0, tuple(edges), {slots: (0.0, 0.0)})


def test_histories_merge() -> None:
    weights, lattice = Weights({"am": 1, "lm": 1, "llrnn": 1}), sausage(12)
    exact = rescore_lattice(MODELS["ngrams"], lattice, weights, n=5)
    assert exact.steps < 12 * 5 < 2**12  # trigrams: four histories at a state
    merged = rescore_lattice(MODELS["network"], lattice, weights, n=5, merge=2)
    assert merged.steps <= 1 + 2 + 11 * 4
    all_of_them = by_list(MODELS["network"], lattice, weights)
    totals = weights.totals(merged.best)
    assert totals[0] <= all_of_them[0][1] + 1e-4
    assert totals[0] >= all_of_them[0][1] - 0.5
    narrow = rescore_lattice(MODELS["network"], lattice, weights, width=20)
    assert narrow.cut
    assert narrow.steps <= 1 + 20 * 12
    assert weights.totals(narrow.best)[0] == pytest.approx(all_of_them[0][1], abs=0.5)
    near = rescore_lattice(MODELS["network"], lattice, weights, beam=2.0)
    assert near.cut
    assert near.steps < 2**12
    wide = rescore_lattice(MODELS["network"], lattice, weights, beam=1e9)
    assert not wide.cut


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("am", [0.5, 4.0])
def test_a_network_does_not_follow_what_cannot_be_among_the_best(am: float, n: int) -> None:
    generator = np.random.default_rng(n)
    edges = [
        Edge(i, i + 1, word, (float(generator.normal()), float(generator.normal())))
        for i in range(11)
        for word in generator.choice(WORDS, size=2, replace=False)
    ]
    lattice = Lattice("u", 0, tuple(edges), {11: (0.0, 0.0)})
    assert lattice.number_of_paths() == len([*paths(lattice)]) == 2**11
    weights = Weights({"am": am, "lm": 0.5, "llrnn": 1, "words": -0.3})
    wanted = by_list(MODELS["network"], lattice, weights)[:n]
    found = rescore_lattice(MODELS["network"], lattice, weights, n=n)
    assert not found.cut
    assert [h.words for h in found.best.hypotheses] == [words for words, _ in wanted]
    assert weights.totals(found.best).tolist() == pytest.approx([total for _, total in wanted], abs=1e-4)
    assert found.steps < 2**12 / 2  # those of the list
    against = Weights({"am": am, "lm": 0.5, "llrnn": -1, "words": -0.3})  # then log p promises nothing
    assert rescore_lattice(MODELS["network"], lattice, against, n=n).steps >= 2**11


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("limit", [1, 30])
def test_beyond_the_limit_fewer_go_on_and_the_result_says_so(
    kind: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lattice's own scores leave no doubt which path is the best; what was cut off is counted."""
    weights, lattice = Weights({"am": 3, "lm": 1, "llrnn": 1}), sausage(6, alternatives=4)
    wanted = by_list(MODELS[kind], lattice, weights)
    exact = rescore_lattice(MODELS[kind], lattice, weights)
    assert exact.cut == 0
    monkeypatch.setattr("llrnn.inference.lattices.MOST_ARCS", dict.fromkeys(["n-grams", "network"], limit))
    found = rescore_lattice(MODELS[kind], lattice, weights)
    assert found.cut > 0
    assert found.steps < exact.steps or kind == "network"
    for one in (exact, found):
        assert one.best.hypotheses[0].words == wanted[0][0]
        assert weights.totals(one.best)[0] == pytest.approx(wanted[0][1], abs=1e-4)


def wide_lattice(slots: int, alternatives: int) -> tuple[Corpus, Lattice]:
    """Random scores, and a text with the words."""
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(alternatives)]
    edges = [Edge(i, i + 1, word, (float(rng.normal()), 0.0)) for i in range(slots) for word in words]
    corpus = Corpus.from_sentences([[str(word) for word in rng.permutation(words)] for _ in range(60)])
    return corpus, Lattice("u", 0, tuple(edges), {slots: (0.0, 0.0)})


@pytest.mark.parametrize(
    ("kind", "slots", "alternatives", "limit"),
    [
        ("network", 12, 5, 5_000),
        ("ngrams", 100, 10, 5_000),
        pytest.param("network", 12, 5, None, marks=pytest.mark.slow),
        pytest.param("ngrams", 5000, 10, None, marks=pytest.mark.slow),
    ],
)
def test_large_lattices_end(
    kind: str, slots: int, alternatives: int, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5 words in 12 places took 1.4 GB with a network, 10 in 5,000 took 1.9 GB with n-grams: now both have a bound."""
    corpus, lattice = wide_lattice(slots, alternatives)
    vocabulary = Vocabulary.from_corpus(corpus)
    model = (
        LLRNN(vocabulary, output_features=features.Identity(), controller=LSTM(5), seed=2).eval()
        if kind == "network"
        else ngram_model(estimate(EncodedText.encode(corpus, vocabulary).stream(), vocabulary.symbols, order=3))
    )
    most = (limit or 1_000_000) * 2 + slots * alternatives * 8
    if limit is not None:
        monkeypatch.setattr("llrnn.inference.lattices.MOST_ARCS", dict.fromkeys(["n-grams", "network"], limit))
    found = rescore_lattice(model, lattice, Weights({"am": 0.1, "lm": 1, "llrnn": 1}), n=3)
    assert found.cut > 0
    assert found.steps < most
    assert len(found.best.hypotheses) == 3
    assert {len(h.words) for h in found.best.hypotheses} == {slots}


def test_the_same_words_on_many_paths_are_one() -> None:
    """2 ** 60 paths, one text: whoever asks for two gets one, at once."""
    edges = [Edge(3 * i, 3 * i + k, "le", (-0.1 * k, 0.0)) for i in range(60) for k in (1, 2)]
    edges += [Edge(3 * i + k, 3 * i + 3, "la", (0.0, 0.0)) for i in range(60) for k in (1, 2)]
    lattice = Lattice("u", 0, tuple(edges), {180: (0.0, 0.0)})
    found = rescore_lattice(MODELS["ngrams"], lattice, Weights({"am": 1, "lm": 1, "llrnn": 1}), n=2)
    assert [h.words for h in found.best.hypotheses] == [("le", "la") * 60]
    assert found.best.hypotheses[0].scores[0] == pytest.approx(-6.0)


def test_arcs_without_words_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [Edge(i, i + 1, word, (0.0, 0.0)) for i in range(30) for word in ("le", None)]
    lattice = Lattice("u", 0, tuple(edges), {30: (0.0, 0.0)})
    assert rescore_lattice(MODELS["ngrams"], lattice, Weights({"am": 1, "lm": 1, "llrnn": 1})).best
    monkeypatch.setattr("llrnn.inference.lattices.MOST_ARCS", {"n-grams": 100, "network": 100})
    with pytest.raises(CorpusError, match="lattice u: arcs without a word must not lead to millions of others"):
        rescore_lattice(MODELS["ngrams"], lattice, Weights({"am": 1, "lm": 1, "llrnn": 1}))


def test_the_text_of_kaldi(tmp_path: Path) -> None:
    (tmp_path / "k.txt").write_text(KALDI, encoding="utf8")
    first, second = read_lattices(tmp_path / "k.txt")
    assert (first.utterance, second.utterance) == ("utt7", "utt8")
    assert dict(paths(second)) == {("dort",): (-1.0, -1.0)}
    assert dict(paths(first)) == {
        ("le", "chat"): (-12.0, -2.25),
        ("la", "chat"): (-13.0, -1.75),
        ("le",): (-14.0, -1.75),
        ("la",): (-15.0, -1.25),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "u\n0 1 a 1,1,\n1 2 b 1,1,\n2 1 c 1,1,\n2\n",
            r"l\.txt:1: .* no cycle, found one through the states 1 and 2",
        ),
        ("u\n0 1 a 1,1,\n", r"l\.txt:1: .* must have a state to end in"),
        ("u\n0 1 a x,1,\n1\n", r"l\.txt:2.*graph,acoustic,alignment, found 'x,1,'"),
        ("u\n0 1 a b 1,1, c\n1\n", r"l\.txt:2.*found 6 fields"),
        ("u\n0 b a 1,1,\n1\n", r"l\.txt:2.*number of a state is required, found 'b'"),
        ("u v\n0 1 a\n1\n", r"l\.txt:1.*the name of an utterance alone"),
        ("u\n\nv\n0 1 a\n1\n", r"l\.txt:1.*a lattice must have arcs"),
        ("\n\n", "at least one lattice is required"),
    ],
)
def test_a_bad_lattice_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "l.txt").write_text(text, encoding="utf8")
    with pytest.raises(CorpusError, match=said):
        read_lattices(tmp_path / "l.txt")


def test_a_lattice_without_a_way_through() -> None:
    broken = Lattice("u", 0, (Edge(0, 1, "le", (0.0, 0.0)), Edge(2, 3, "la", (0.0, 0.0))), {3: (0.0, 0.0)})
    with pytest.raises(CorpusError, match="lattice u: a path from the start to an end is required"):
        rescore_lattice(MODELS["network"], broken, Weights({"am": 1, "lm": 1, "llrnn": 1}))
    with pytest.raises(ConfigError, match="above 0"):
        rescore_lattice(MODELS["network"], broken, Weights({"am": 1, "lm": 1, "llrnn": 1}), n=0)


def test_on_the_command_line(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    MODELS["network"].save("net")
    Path("train.txt").write_text("".join(" ".join(one.words) + "\n" for one in CORPUS), encoding="utf8")
    assert cli.run(["ngram", "estimate", "train.txt", "--order", "2", "--out", "u.arpa"]) == 0
    Path("lat.txt").write_text(KALDI, encoding="utf8")
    Path("ref.txt").write_text("utt7 la chat\nutt8 dort\n", encoding="utf8")
    weights = ["--weights", "am=1,lm=0,llrnn=1"]
    for model in ("net", "u.arpa"):
        found = as_json(capsys, "rescore", model, "lat.txt", "--lattices", *weights, "--references", "ref.txt")
        assert (found["best"]["utt7"], found["best"]["utt8"]) == ("le chat", "dort")
        assert found["errors"]["rescored"]["rate"] == pytest.approx(1 / 3)
    done(capsys, "rescore", "net", "lat.txt", "--lattices", "--paths", "3", "--out", "lists.tsv", *weights)
    rows = Path("lists.tsv").read_text(encoding="utf8").splitlines()
    assert rows[0] == "#utterance\thypothesis\tam\tlm\tllrnn"
    assert sum(row.startswith("utt7") for row in rows) == 3
    tuned = ["--dev", "lat.txt", "--dev-references", "ref.txt", "--references", "ref.txt"]
    found = as_json(capsys, "rescore", "net", "lat.txt", "--lattices", "--paths", "9", *tuned)
    assert found["errors"]["oracle"]["rate"] == 0.0
    assert (found["cut"], Path("wide.txt").write_text(WIDE, encoding="utf8") > 0) == ({}, True)
    monkeypatch.setattr("llrnn.inference.lattices.MOST_ARCS", {"n-grams": 9, "network": 9})
    assert as_json(capsys, "rescore", "u.arpa", "wide.txt", "--lattices", *weights)["cut"]["wide"] > 0
    assert cli.run(["rescore", "u.arpa", "wide.txt", "--lattices", *weights]) == 0
    assert "histories of 1 lattices (wide) were cut off, by --beam or beyond" in capsys.readouterr().err
    Path("bad.txt").write_text("u\n0 1 a 1,1,\n1 0 b 1,1,\n1\n", encoding="utf8")
    assert "bad.txt:1: a lattice must have no cycle" in refused(capsys, "rescore", "net", "bad.txt", "--lattices")
    Path("odd.txt").write_text("u\n0 1 zorg 1,1,\n1\n", encoding="utf8")
    assert "lattice u: the word 'zorg'" in refused(capsys, "rescore", "net", "odd.txt", "--lattices")
    skipped = as_json(capsys, "rescore", "u.arpa", "odd.txt", "--lattices", "--oov", "skip")
    assert skipped["best"] == {"u": "zorg"}
    assert "--lattices" in refused(capsys, "rescore", "net", "lat.txt", "--beam", "3")
    missing = refused(capsys, "rescore", "net", "lat.txt", "--lattices", "--references", "train.txt")
    assert "train.txt" in missing
    assert math.isfinite(skipped["steps"])
