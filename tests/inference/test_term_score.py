"""Terms as search: gains of every text over a few symbols against counts by regular expressions, in any cut."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Mapping, Sequence

import pytest
import torch

from llrnn import GRU, LLRNN, Corpus, features
from llrnn.ground.errors import ConfigError, FeatureError
from llrnn.inference.term_score import TermScore
from llrnn.knowledge.contextual.terms import START, TermLists, Terms
from llrnn.knowledge.process import Batch
from llrnn.text.token_bytes import Spelled
from llrnn.text.vocabulary import EOS, Vocabulary

GROUPS = {"names": ["no no", "no", "now", "o'w", "no no w."], "other": ["no", "o", "w no", ". w"]}
WEIGHTS = {"names": 1.7, "other": -0.6}
SYMBOLS: dict[Spelled, tuple[str, ...]] = {
    "pieces": ("▁", "n", "o", "▁no", "w", "'w", ".", "no▁no", "▁o'w."),
    "bytes": ("Ġ", "n", "o", "Ġno", "w", "'w", ".", "noĠno", "Ġo'w."),
    "words": ("no", "now", "o'w", "w", "w.", ".", "o'no", "_no"),
}


def text_of(symbols: Sequence[str], spelled: Spelled) -> str:
    if spelled == "words":
        return "".join(f" {symbol}" for symbol in symbols)
    return "".join(symbols).replace("▁", " ").replace("Ġ", " ")


def counted(text: str, groups: Mapping[str, Sequence[str]], weights: Mapping[str, float]) -> float:
    """Σ weight of every occurrence of a term that no word goes into, and none goes on after."""
    found = 0.0
    for name, terms in groups.items():
        for term in {" ".join(one.split()) for one in terms}:
            found += weights[name] * len(re.findall(rf"(?<!\w)(?={re.escape(term)}(?!\w))", text))
    return found


@pytest.mark.parametrize("spelled", SYMBOLS)
def test_gains_of_every_text_add_up_to_its_completed_terms(spelled: Spelled) -> None:
    score = TermScore(GROUPS, WEIGHTS, spelled=spelled)
    there = set[float]()
    for length in range(5):
        for symbols in itertools.product(SYMBOLS[spelled], repeat=length):
            state, total = score.start, 0.0
            for symbol in (*symbols, EOS):
                gain, state = score.gain(state, symbol)
                total += gain
            expected = counted(text_of(symbols, spelled), GROUPS, WEIGHTS)
            assert total == pytest.approx(expected, abs=1e-9), symbols
            assert score.total(symbols) == pytest.approx(expected, abs=1e-9), symbols
            assert state == START
            there.add(round(expected, 9))
    assert len(there) > 10  # texts differ


def test_totals_of_paths_are_those_of_the_model_and_the_terms() -> None:
    """The sum along a path, as a beam adds it up: log p of each symbol given those before, and its gain."""
    symbols = SYMBOLS["pieces"]
    corpus = Corpus.from_sentences([symbols, ["▁no", "▁no", "w", "."], ["n", "o", "."]])
    model = LLRNN(
        Vocabulary.from_corpus(corpus), output_features=features.Identity(), controller=GRU(4), seed=1
    ).double()
    score, paths = TermScore(GROUPS, WEIGHTS, spelled="pieces"), list(itertools.product(symbols, repeat=3))
    rows = torch.tensor([[model.vocabulary.eos, *model.vocabulary.ids(path), model.vocabulary.eos] for path in paths])
    batch = Batch(rows[:, :-1], rows[:, 1:], torch.ones_like(rows[:, 1:], dtype=torch.bool))
    with torch.no_grad():
        log_p = model.log_prob(batch).view(len(paths), -1)
    for path, own in zip(paths, log_p.tolist(), strict=True):
        state, total = score.start, 0.0
        for symbol, log in zip((*path, EOS), own, strict=True):
            gain, state = score.gain(state, symbol)
            total += log + gain
        assert total == pytest.approx(sum(own) + counted(text_of(path, "pieces"), GROUPS, WEIGHTS), abs=1e-9)


def test_what_a_beginning_was_given_is_taken_back() -> None:
    score = TermScore({"places": ["New York", "Newark"]}, 3.0, spelled="pieces")
    gain, new = score.gain(score.start, "▁New")
    assert gain == pytest.approx(3.0 * 3 / 6)  # Newark has the largest share
    gain, york = score.gain(new, "▁York")
    assert gain == pytest.approx(1.5)
    assert score.gain(york, EOS)[0] == score.gain(york, ".")[0] == score.gain(york, "▁is")[0] == 0.0
    assert score.gain(york, "shire")[0] == pytest.approx(-3.0)
    assert score.gain(new, "▁Zealand")[0] == score.gain(new, EOS)[0] == pytest.approx(-1.5)


def test_characters_that_are_cut() -> None:
    score = TermScore({"menu": ["café", "日本"]}, 1.0, spelled="bytes")
    for cut in (["ĠcafÃ©"], ["ĠcafÃ", "©"], ["Ġ", "c", "af", "Ã", "©", "."], ["æĹ", "¥æľ¬"], ["æĹ¥æľ¬"]):
        assert score.total(cut) == 1.0
    assert score.total(["ĠcafÃ©", "s"]) == score.total(["ĠcafÃ"]) == 0.0


def test_states_are_those_of_the_model() -> None:
    """`Terms` follows symbols by its tables, `TermScore` byte by byte."""
    vocabulary = Vocabulary([EOS, *SYMBOLS["pieces"]])
    lists, drawn = TermLists(GROUPS), random.Random(2)
    terms, score = Terms(lists, spelled="pieces").bind(vocabulary), TermScore(lists, WEIGHTS, spelled="pieces")
    for _ in range(300):
        ours = theirs = START
        for symbol in drawn.choices(vocabulary.symbols, k=8):
            theirs = terms.advance(theirs, vocabulary.id(symbol))
            ours = score.gain(ours, symbol)[1]
            assert ours == theirs


@pytest.mark.parametrize(
    ("groups", "weight", "message"),
    [
        ({"a": ["b"]}, {"c": 1.0}, "weights are of the groups a, found 'c'"),
        ({"a": ["b"]}, math.nan, "must be finite"),
        ({"a": ["b"]}, {"a": math.inf}, "must be finite"),
        ({"a": [" "]}, 1.0, "one term or more"),
        ({}, 1.0, "one term or more"),
    ],
)
def test_mistakes(groups: dict[str, list[str]], weight: float | dict[str, float], message: str) -> None:
    with pytest.raises((ConfigError, FeatureError), match=message) as caught:
        TermScore(groups, weight)
    assert len(str(caught.value).splitlines()) == 1
    assert TermScore({"a": ["b"]}, {"a": 1.0}).total(["b", "b"]) == 2.0
    assert TermScore({"a": ["b"], "c": ["d"]}, {"a": 1.0}).total(["b", "d"]) == 1.0  # without a weight: 0
