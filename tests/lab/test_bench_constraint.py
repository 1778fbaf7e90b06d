"""`llrnn bench constraint`: that all engines are asked the same; and, among the slow tests, what is claimed of it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llrnn.ground.errors import ConfigError
from llrnn.languages.grammars import rows
from llrnn.text.vocabulary import EOS, Vocabulary
from llrnn_lab.bench.constraint import (
    FEWEST,
    LLGuidance,
    Ours,
    Outlines,
    _Masks,
    constraint,
    cut,
    documents,
    drawn_pieces,
    learnt_pieces,
    nested_json,
    spelled,
    written,
)
from llrnn_lab.cli import show as lab_show

SIZE = 6_000
DEPTH = 3
WARM = ("warm", "warm, in strings", "warm, elsewhere", "written", "advance")


@pytest.fixture(scope="module")
def pieces() -> list[str]:
    return drawn_pieces(SIZE)


@pytest.fixture(scope="module")
def vocabulary(pieces: list[str]) -> Vocabulary:
    return Vocabulary(pieces)


@pytest.fixture(scope="module")
def ours(vocabulary: Vocabulary) -> Ours:
    return Ours(vocabulary)


@pytest.fixture(scope="module")
def texts(pieces: list[str]) -> list[list[int]]:
    ids = {piece: number for number, piece in enumerate(pieces)}
    return [cut(written(one), ids) for one in documents(12, depth=DEPTH, seed=3)]


def test_pieces_are_drawn_from_a_seed(pieces: list[str]) -> None:
    assert len(pieces) == len(set(pieces)) == SIZE
    assert len({spelled(piece) for piece in pieces}) == SIZE
    assert {EOS, "Ġ", "Ċ", '"', "{", '},{"', "999"} <= set(pieces)
    assert pieces == drawn_pieces(SIZE)
    assert pieces != drawn_pieces(SIZE, seed=1)
    with pytest.raises(ConfigError, match="4,000 pieces at least"):
        drawn_pieces(FEWEST - 1)


def test_documents_are_json_and_cut_into_the_longest_pieces(pieces: list[str], texts: list[list[int]]) -> None:
    for text, tokens in zip(documents(12, depth=DEPTH, seed=3), texts, strict=True):
        assert "".join(spelled(pieces[token]) for token in tokens) == text
        assert nesting(json.loads(text)) <= DEPTH
    assert cut("abcab", {"a": 0, "ab": 1, "b": 2, "c": 3, "bc": 4}) == [1, 3, 1]
    assert len({len(text) for text in documents(12, depth=DEPTH, seed=4)}) > 6


def nesting(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(nesting, value.values()), default=0)
    return 1 + max(map(nesting, value), default=0) if isinstance(value, list) else 0


def test_pieces_of_a_text(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    path = tmp_path / "text.txt"
    path.write_text("the cat naïvely sat on the mat that the cat had\n" * 50, encoding="utf8")
    found = learnt_pieces(path, FEWEST)
    assert len(found) == len(set(found)) == FEWEST
    assert {"Ġthe", "Ġcat", EOS, '"'} <= set(found)


def test_ours_reads_all_documents_and_nothing_else(ours: Ours, vocabulary: Vocabulary, texts: list[list[int]]) -> None:
    for tokens in texts:
        ours.begin()
        for token in tokens:
            assert ours.allowed()[token]
            ours.advance(token)
        assert ours.allowed()[vocabulary.eos]
    ours.begin()
    assert not ours.allowed()[vocabulary.eos]
    assert ours.advance(vocabulary.words.index("}")) is None


def test_llguidance_allows_the_same_tokens(ours: Ours, vocabulary: Vocabulary, texts: list[list[int]]) -> None:
    peer = LLGuidance(pytest.importorskip("llguidance"), [spelled(s) for s in vocabulary.symbols], vocabulary.eos)
    for tokens in texts:
        ours.begin()
        peer.begin()
        for token in (*tokens, None):
            assert np.array_equal(ours.allowed(), peer.allowed())
            assert_adds(ours, peer)
            if token is not None:
                ours.advance(token)
                assert peer.advance(token)


def assert_adds(*engines: _Masks | Ours) -> None:
    """All add 0 to the logits of allowed tokens, and minus infinity to others."""
    logits = torch.arange(float(SIZE))
    for engine in engines:
        out = torch.zeros(SIZE)
        engine.add(logits, out)
        allowed = torch.from_numpy(engine.allowed())
        assert torch.equal(out, torch.where(allowed, logits, -torch.inf))


def test_outlines_forbids_brackets_that_are_too_deep(
    ours: Ours, vocabulary: Vocabulary, texts: list[list[int]]
) -> None:
    """Its language is smaller: what it forbids beyond the grammar opens a bracket.

    At the very start it also forbids `0.`, though a number may be a whole document (outlines-core 0.2.14 takes no token
    that ends just after a shorter match).
    """
    module = pytest.importorskip("outlines_core")
    peer = Outlines(module, [spelled(s) for s in vocabulary.symbols], vocabulary.eos, DEPTH)
    opening = np.array(["{" in symbol or "[" in symbol for symbol in vocabulary.symbols])
    differ = 0
    for tokens in texts[:6]:
        ours.begin()
        peer.begin()
        for step, token in enumerate(tokens):
            a, b = ours.allowed(), peer.allowed()
            assert not (b & ~a).any()
            beyond = [vocabulary.words[number] for number in np.flatnonzero(a & ~b & ~opening)]
            assert beyond == ([] if step else ["0."])
            differ += bool((a & ~b).any())
            ours.advance(token)
            peer.advance(token)
        assert np.array_equal(ours.allowed(), peer.allowed())
    assert differ > 0


def test_summaries_allow_what_a_walk_of_all_tokens_allows(
    vocabulary: Vocabulary, texts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = allowed_at_all_steps(Ours(vocabulary), texts)
    monkeypatch.setattr(rows.SymbolReader, "_summarised", lambda reader, node, end: None)
    assert np.array_equal(allowed_at_all_steps(Ours(vocabulary), texts), expected)


def allowed_at_all_steps(engine: Ours, texts: list[list[int]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found = []
    for tokens in texts:
        engine.begin()
        for token in tokens:
            found.append(engine.allowed())
            engine.advance(token)
    return np.stack(found)


def test_json_of_some_depth_as_a_regular_expression() -> None:
    flat, nested = re.compile(nested_json(0)), re.compile(nested_json(2))
    assert flat.fullmatch(' "a\\n" ')
    assert not flat.fullmatch("[]")
    assert nested.fullmatch('{"a" : [ 1,-0.5e3 ], "b":{}}')
    assert not nested.fullmatch("[[[]]]")
    assert not nested.fullmatch("[1,]")


def check(found: dict[str, Any], names: set[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert (found["V"], found["documents"], found["depth"]) == (SIZE, 4, 1)
    assert found["engines"].keys() == {"llrnn", *names}
    for figures in found["engines"].values():
        for what in (*WARM, "first", "new"):
            assert 0 < figures[what]["median_us"] <= figures[what]["p90_us"]
    assert found["ratio"].keys() == found["same tokens"].keys() == names
    ours = found["engines"]["llrnn"]
    assert 0 < ours["rows"] <= ours["nodes"]
    for name in names:
        peer = found["engines"][name]
        for what in WARM:
            assert found["ratio"][name][what] == pytest.approx(peer[what]["median_us"] / ours[what]["median_us"])
    lab_show.bench_constraint(found)
    return capsys.readouterr().out


def test_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llguidance")
    pytest.importorskip("outlines_core")
    found = constraint(vocabulary=SIZE, count=2, depth=1, rounds=1)
    shown = check(found, {"llguidance", "outlines-core"}, capsys)
    same = found["same tokens"]["llguidance"]
    assert same["steps"] == same["equal"] == found["tokens"] + 4  # and after the last token of each document
    assert found["same tokens"]["outlines-core"]["only peer"] == 0
    assert "warm, elsewhere" in shown
    assert "nested up to a depth only" in " ".join(shown.split())


def test_without_peers_ours_is_timed_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    monkeypatch.setitem(sys.modules, "outlines_core", None)
    shown = check(constraint(vocabulary=SIZE, count=2, depth=1, rounds=1), set(), capsys)
    assert "llguidance is not installed: pip install llguidance to compare" in shown
