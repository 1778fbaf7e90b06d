"""`llrnn compare`: outputs against sums in float64, classes against brute force, and the whole on a small text."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from llrnn import cli
from llrnn.model.controllers import GRU
from llrnn.text import french
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.readers import conllu_lines
from llrnn.text.vocabulary import Vocabulary
from llrnn_lab.studies import compare
from llrnn_lab.studies.outputs import (
    BinaryTree,
    MaxEnt,
    Output,
    Peer,
    TwoLevel,
    brown_classes,
    frequency_classes,
    huffman,
    peer_log_probs,
)

SAID = [["a", "b", "c"], ["a", "c"], ["b", "b", "a", "c"], ["d"], ["a", "b"]]


def text() -> tuple[EncodedText, np.ndarray]:
    corpus = Corpus.from_sentences(SAID)
    vocabulary = Vocabulary.from_corpus(corpus)
    encoded = EncodedText.encode(corpus, vocabulary)
    counts = np.bincount([s for one in encoded.sentences for s in (*one, encoded.eos)], minlength=len(vocabulary)) + 0.5
    return encoded, counts


def outputs() -> dict[str, Output]:
    encoded, counts = text()
    return {
        "two levels": TwoLevel(4, np.array([0, 1, 0, 2, 1]), counts),
        "tree": BinaryTree(4, counts),
        "maxent": MaxEnt(4, encoded, counts, order=3, size=7),
    }


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def everything(output: Output, h: torch.Tensor, before: torch.Tensor, V: int) -> torch.Tensor:
    """log p of all words at one position."""
    return output.log_prob(h.expand(V, -1), torch.arange(V), before.expand(V, -1))


@pytest.mark.parametrize("name", ["two levels", "tree", "maxent"])
def test_outputs_sum_to_one_and_begin_as_unigrams(name: str) -> None:
    output, (_, counts) = outputs()[name].double(), text()
    before = torch.tensor([[0, 1]])
    output.unigram()
    unigram = torch.from_numpy(np.log(counts / counts.sum()))
    with torch.no_grad():
        found = everything(output, torch.zeros(1, 4, dtype=torch.double), before, 5)
        torch.testing.assert_close(found, unigram, rtol=0, atol=1e-6)  # biases were set in float32
        for seed, parameter in enumerate(output.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=seed))
        for seed in range(3):
            log_p = everything(output, drawn(1, 4, seed=seed), before, 5)
            assert log_p.exp().sum().item() == pytest.approx(1.0, abs=1e-12)


def test_two_levels_at_once_as_class_by_class() -> None:
    output = outputs()["two levels"].double()
    assert isinstance(output, TwoLevel)
    h, targets = drawn(5, 4), torch.arange(5)
    own = output.class_of[targets]
    torch.testing.assert_close(output._at_once(h, targets, own), output._by_class(h, targets, own))


def test_n_gram_features_by_hand() -> None:
    encoded, counts = text()
    output = MaxEnt(4, encoded, counts, order=3, size=10_007).double()
    with torch.no_grad():
        for seed, parameter in enumerate(output.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=seed))
    h = drawn(1, 4, seed=9)
    run = [[encoded.eos, encoded.eos, *one.tolist(), encoded.eos] for one in encoded.sentences]
    seen = {tuple(one[i : i + n]) for one in run for n in (2, 3) for i in range(2 - n + 1, len(one) - n + 1) if i >= 0}
    before = [encoded.sentences[0][0], encoded.sentences[0][1]]  # a b
    with torch.no_grad():
        logits = output.softmax(h)[0]
        plain = logits.clone()
        for n in (1, 2):
            context = tuple(int(word) for word in before[2 - n :])
            words, slots = output.followed[context]
            assert {(*context, int(word)) for word in words} == {gram for gram in seen if gram[:-1] == context}
            for word, slot in zip(words, slots, strict=True):
                logits[word] += output.weights[slot]
        found = everything(output, h, torch.tensor([before]), 5)
    assert not torch.equal(logits, plain)
    torch.testing.assert_close(found, torch.log_softmax(logits, 0))


def test_the_tree_is_a_shortest_code() -> None:
    counts = np.array([8.0, 1.0, 1.0, 2.0, 4.0])
    nodes, signs, mass = huffman(counts)
    lengths = (signs != 0).sum(1)
    assert lengths.tolist() == [1, 4, 4, 3, 2]
    codes = {tuple(zip(n[s != 0].tolist(), s[s != 0].tolist(), strict=True)) for n, s in zip(nodes, signs, strict=True)}
    assert len(codes) == 5
    assert len(mass) == 4


def test_a_peer_scores_sentences_in_the_order_of_the_text() -> None:
    encoded, counts = text()
    peer = Peer(5, GRU(4), TwoLevel(4, np.array([0, 1, 0, 2, 1]), counts), seed=1)
    found = peer_log_probs(peer, encoded)
    assert [len(one) for one in found] == [len(one) + 1 for one in SAID]
    alone = EncodedText(encoded.sentences[2:3], encoded.conditions[2:3], encoded.eos)
    np.testing.assert_allclose(found[2], peer_log_probs(peer, alone)[0], atol=1e-6)


def test_classes_by_frequency() -> None:
    counts = np.array([100.0, 81.0, 4.0, 1.0, 1.0, 25.0])
    found = frequency_classes(counts, 3)
    order = np.argsort(-counts, kind="stable")
    assert (np.diff(found[order]) >= 0).all()  # the most frequent words first
    assert set(found.tolist()) == {0, 1, 2}


def information(pairs: list[tuple[int, int]]) -> float:
    """The mutual information of neighbours, by its definition."""
    joint = Counter(pairs)
    left, right, n = Counter(a for a, _ in pairs), Counter(b for _, b in pairs), len(pairs)
    return sum(c / n * math.log(c * n / (left[a] * right[b])) for (a, b), c in joint.items())


def brute_brown(stream: list[int], size: int, classes: int) -> list[set[int]]:
    counts = Counter(stream)
    order = sorted(range(size), key=lambda word: (-counts[word], word))
    groups = [{word} for word in order[:classes]]
    for word in order[classes:]:
        groups.append({word})
        of = {own: i for i, group in enumerate(groups) for own in group}
        pairs = [(of[a], of[b]) for a, b in itertools.pairwise(stream) if a in of and b in of]

        def after(i: int, j: int, pairs: list[tuple[int, int]] = pairs) -> float:
            return information([(i if a == j else a, i if b == j else b) for a, b in pairs])

        i, j = max(itertools.combinations(range(len(groups)), 2), key=lambda two: round(after(*two), 9))
        groups[i] |= groups[j]
        if j != len(groups) - 1:
            groups[j] = groups[-1]
        groups.pop()
    return groups


@pytest.mark.parametrize("seed", range(4))
def test_browns_clusters_are_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stream = rng.choice(9, size=200, p=np.arange(9, 0, -1) / 45)
    found = brown_classes(stream, 9, 4)
    groups = brute_brown(stream.tolist(), 9, 4)
    assert {frozenset(np.flatnonzero(found == c).tolist()) for c in set(found.tolist())} == set(map(frozenset, groups))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "small.conllu"
    path.write_text("".join(f"{line}\n" for line in conllu_lines(french.sentences(120))), encoding="utf8")
    return path


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")  # of so little text
def test_all_rows_on_a_small_text(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    out = corpus.parent / "out"
    command = ["compare", str(corpus), "--out", str(out), "--seeds", "1", "--tries", "1", "--hidden", "8"]
    assert cli.run([*command, "--epochs", "1"]) == 0
    printed = capsys.readouterr().out
    found = json.loads((out / "compare.json").read_bytes())
    assert [*found["rows"]] == [*compare.ROWS]
    assert printed.endswith(compare.table(found) + "\n")
    assert (out / "compare.md").read_text(encoding="utf8") == compare.table(found)
    assert (out / "compare.png").stat().st_size > 10_000
    rows = found["rows"]
    words = {part: found["words"][part] for part in ("valid", "test")}
    for run in (out / "runs").glob("*/scores.npz"):
        with np.load(run) as scores:  # the same words for all
            assert {part: len(scores[part]) for part in words} == words
            assert all((scores[part] < 0).all() for part in words)
    assert all(row["parameters"] > 0 and math.isfinite(row["test"][0]) for row in rows.values())
    assert rows["LSTM and KN5"]["valid"][0] <= min(rows["LSTM"]["valid"][0], rows["KN5"]["valid"][0]) + 1e-6
    kept = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("result.json")}
    assert cli.run([*command, "--epochs", "1"]) == 0  # all of it is there
    assert capsys.readouterr().out == compare.table(found) + "\n"
    assert kept == {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("result.json")}


@pytest.mark.slow  # processes begin
@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")  # of so little text
def test_side_by_side_as_one_by_one(corpus: Path) -> None:
    pytest.importorskip("matplotlib")
    texts = compare.Texts.read([corpus], None, None, min_count=2)
    settings = compare.Settings(hidden=8, epochs=1, tries=1, seeds=2)
    rows = ["Elman", "LSTM mixture of seeds"]
    alone, both = corpus.parent / "alone", corpus.parent / "both"
    wanted = compare.compare(texts, alone, settings, only=rows)["rows"]
    found = compare.compare(texts, both, settings, only=rows, parallel=2)["rows"]
    assert [found[name]["test"] for name in rows] == [pytest.approx(wanted[name]["test"]) for name in rows]
    late = list[str]()
    none = compare.compare(texts, corpus.parent / "late", settings, only=rows, seconds=0, tell=late.append)
    assert none["rows"] == {}
    assert all("not begun" in said and "run the same command again" in said for said in late)
    again = compare.compare(texts, both, settings, only=rows, seconds=0)  # what is there is told however late it is
    assert again["rows"] == found


@pytest.mark.filterwarnings("ignore::llrnn.ground.errors.LLRNNWarning")  # of so little text
def test_runs_of_other_texts_or_settings_are_not_taken_for_these(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    other = corpus.with_name("other.txt")
    other.write_text("a b c d\n" * 30, encoding="utf8")
    command = ["compare", str(corpus), "--out", str(corpus.parent / "out"), "--only", "KN5"]
    assert cli.run(command) == 0
    assert cli.run([*command, "--seeds", "1", "--tries", "1"]) == 0
    capsys.readouterr()
    for changed, said in (
        ([*command, "--hidden", "16"], "out: the runs there had hidden = 128, found 16; name another folder"),
        ([*command, "--test", str(other)], "out: the runs there had another"),
        (["compare", str(other), *command[2:]], "out: the runs there had another train text; name another folder"),
    ):
        assert cli.run(changed) == 2
        assert said in capsys.readouterr().err


def test_processes_read_files(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(corpus.parent / "out")
    assert cli.run(["compare", "-", "--out", out, "--parallel", "2"]) == 2
    assert "every process read the texts, found -; give files" in capsys.readouterr().err


def test_what_cannot_be_compared(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(corpus.parent / "out")
    assert cli.run(["compare", str(corpus), "--out", out, "--only", "Mamba"]) == 2
    assert "--only must be a row of the table, found 'Mamba': one of KN5, feed-forward" in capsys.readouterr().err
    short = corpus.parent / "short.txt"
    short.write_text("a b\nb a\n")
    assert cli.run(["compare", str(short), "--out", out]) == 2
    assert "short.txt: 20 sentences or more are required to cut, found 2" in capsys.readouterr().err
