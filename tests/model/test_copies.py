"""Whole models are copied and pickled: they say the same, have weights of their own, and nothing of what was cached."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence

import pytest
import torch

from helpers import small_corpus, small_model, small_vocabulary
from llrnn import GRU, LLRNN, LSTM, KnowledgeBase, backgrounds, contextual, features
from llrnn.knowledge.contextual import Lookup, Matching
from llrnn.model.controllers import Attentive, Encoder
from llrnn.text.conditions import Words

WORDS = small_vocabulary().words
ALL = " | ".join(f'"{word}"' for word in WORDS if '"' not in word)
TABLE = KnowledgeBase("table", tuple({"name": WORDS[i], "kind": WORDS[i + 1]} for i in range(4)))


def unigram() -> backgrounds.Background:
    return backgrounds.Unigram.from_corpus(small_corpus(), smoothing=0.5)


def ngram() -> backgrounds.Background:
    return backgrounds.NGram.from_corpus(small_corpus(), order=2)


def short_words(condition: object, prefix: tuple[str, ...]) -> Sequence[str]:
    return [word for word in WORDS if len(word) < 4 + len(prefix)]


def attentive() -> Attentive:
    encoder = Encoder.for_conditions(Words(), ["a b c"], 4, kind="gru")
    return Attentive(GRU(5, inputs=3), encoder, LSTM(6, inputs=9))


MODELS: dict[str, Callable[[], LLRNN]] = {
    "plain": small_model,
    "tied": lambda: small_model(tied=True),
    "two layers": lambda: small_model(controller=LSTM(4, layers=2, inputs=3)),
    "attentive": lambda: small_model(controller=attentive()),
    "n-gram and mask": lambda: small_model(background=ngram() * backgrounds.Mask(allowed=short_words)),
    "grammar": lambda: small_model(background=backgrounds.Grammar(f"start: W start | W\nW: {ALL}")),
    "automaton": lambda: small_model(background=unigram() * backgrounds.Automaton(f"( {ALL} )*", weighted=False)),
    "another model": lambda: small_model(background=backgrounds.Model(small_model())),
    "contextual": lambda: small_model(context=[contextual.Repeated(4), contextual.Expert(ngram(), name="kn")]),
    "lookup": lambda: small_model(context=[Lookup(TABLE, Matching("name", on=("kind",)), "name", "kind")]),
    "softmax": lambda: small_model(output_features=features.Identity()),
}
COPIES: dict[str, Callable[[LLRNN], LLRNN]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),  # noqa: S301
}


def said(model: LLRNN) -> torch.Tensor:
    """log p of all words along the most probable ones, for two conditions."""
    rows, word = [], [model.vocabulary.eos] * 2
    with torch.no_grad():
        state = model.start([" ".join(WORDS[:2]), WORDS[1]])
        for _ in range(4):
            p, state = model.step(state, word)
            rows.append(p.log_probs())
            word = rows[-1].argmax(1).tolist()
    return torch.cat(rows)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", MODELS)
def test_a_copy_says_the_same_and_lives_alone(name: str, way: str) -> None:
    model = MODELS[name]()
    before = said(model)
    again = COPIES[way](model)
    assert again.embedding._table._kept is None
    assert again.layer._kept.few._kept is None
    assert len(again.layer.classes.masses) == 0
    assert torch.equal(said(again), before)
    assert (again.layer.weight is again.embedding.weight) == model.tied
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.add_(0.5)
    assert not torch.allclose(said(again), before)
    assert torch.equal(said(model), before)
