"""Lists of terms: features by brute force over the strings, Σ p = 1, gradients, states in any cut, saved and opened."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import llrnn
from llrnn import features, testing
from llrnn.ground.errors import ConfigError, FeatureError
from llrnn.inference.terms import bias, fit_bias
from llrnn.knowledge.contextual.terms import Terms, TermsInside, expanded
from llrnn.knowledge.process import Batch
from llrnn.model.controllers import Silent
from llrnn.text.lexicon import Lexicon
from llrnn.text.token_bytes import in_words, spelling
from llrnn.text.vocabulary import EOS, Vocabulary

GROUPS = {"names": ["new york", "york", "yorkshire", "o'b", "no"], "other": ["york", "on", "new"]}
PIECES = [
    "▁",
    "n",
    "e",
    "w",
    "▁ne",
    "▁new",
    "y",
    "o",
    "r",
    "k",
    "▁york",
    "york",
    "▁no",
    "sh",
    "ire",
    ".",
    "'",
    "▁o",
    "b",
    "n.",
]


def vocabulary() -> Vocabulary:
    return Vocabulary([EOS, *PIECES])


def model(weight: float = 0.7, seed: int = 0) -> llrnn.LLRNN:
    """A model of pieces with random unigrams and all weights of terms drawn."""
    words, terms = vocabulary(), Terms(GROUPS, spelled="pieces")
    made = llrnn.LLRNN(
        words,
        output_features=features.Function(lambda symbol: {}, name="none"),
        contextual=[terms, TermsInside(terms)],
        controller=Silent(),
        seed=None,
    ).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.layer.context_bias.copy_(weight * torch.randn(len(made.context_names), generator=generator).double())
    return made.eval()


def boundary(text: str, i: int) -> bool:
    """Whether a word may begin or end between text[i - 1] and text[i]."""
    if not 0 < i < len(text):
        return True
    inside = [one.isalnum() or one == "_" for one in text[i - 1 : i + 1]]
    return not (inside[0] and inside[1])


def live(text: str, group: str) -> list[tuple[int, str]]:
    """(start, term) of all terms of a group that the end of a text may be the beginning of, or which end there."""
    starts = [i for i in range(len(text)) if i == 0 or not text[i - 1].isalnum()]
    return [(i, term) for i in starts for term in GROUPS[group] if term.startswith(text[i:]) and not text[i:].isspace()]


def brute(before: str, token: str, group: str) -> dict[str, float]:
    """The five features of a token after a text, from the strings alone; token "" is the end of the text."""
    text = before + token
    starts = [i for i in range(len(text)) if i == 0 or not text[i - 1].isalnum()]

    def matches(i: int, term: str) -> bool:  # the term is begun at i, and is not broken by this token
        seen = text[i:]
        return term.startswith(seen) or (seen.startswith(term) and boundary(text, i + len(term)))

    begins = any(
        i >= len(before) and not text[i:].isspace() and text[i] != " " and matches(i, term)
        for i in starts
        for term in GROUPS[group]
    )
    whole = any(
        i >= len(before) and (text[i:] == term or (text[i:].startswith(term) and boundary(text, i + len(term))))
        for i in starts
        for term in GROUPS[group]
    )
    ends = any(
        i < len(before) < i + len(term)
        and (text[i:] == term or (text[i:].startswith(term) and boundary(text, i + len(term))))
        for i in starts
        for term in GROUPS[group]
    )
    continues = token != "" and any(
        i < len(before) and len(term) > len(before) - i and term.startswith(before[i:]) and matches(i, term)
        for i in starts
        for term in GROUPS[group]
    )
    ended = any(before[i:] == term for i in starts if i < len(before) for term in GROUPS[group])
    completes = ended and (token == "" or not (token[0].isalnum() or token[0] == "_"))
    found = {"begins": begins, "whole": whole, "continues": continues, "ends": ends, "completes": completes}
    return {name: float(value) for name, value in found.items()}


def spelled(tokens: Sequence[str]) -> str:
    return "".join(tokens).replace("▁", " ")


def prefixes(count: int) -> list[list[str]]:
    drawn = random.Random(3)
    return [[drawn.choice(PIECES) for _ in range(drawn.randrange(8))] for _ in range(count)]


@pytest.mark.parametrize("tokens", [*prefixes(60), ["▁new", "▁york"], ["y", "o", "r", "k"], ["▁o", "'"], ["n."]])
def test_features_are_those_of_the_strings(tokens: list[str]) -> None:
    made, before = model(), spelled(tokens)
    ids = [made.vocabulary.eos, *made.vocabulary.ids(tokens)]
    inputs = torch.tensor([ids])
    mask = torch.zeros_like(inputs, dtype=torch.bool).index_fill(1, torch.tensor(len(ids) - 1), True)
    p, _ = made.scan(Batch(inputs, inputs, mask))
    a = dict(zip(made.context_names, made.layer.context_bias.tolist(), strict=True))
    scores = []
    for symbol in made.vocabulary.symbols:
        token = "" if symbol == EOS else spelled([symbol])
        found = {(g, name): value for g in GROUPS for name, value in brute(before, token, g).items()}
        scores.append(sum(value * a[f"{g}:{name}"] for (g, name), value in found.items()))
    expected = torch.log_softmax(torch.tensor(scores, dtype=torch.float64), 0)
    for way in ("words", "adding", "leaving"):
        p, _ = made.scan(Batch(inputs, inputs, mask))
        p.way = way
        torch.testing.assert_close(p.log_probs()[0], expected, rtol=0, atol=1e-9)
        torch.testing.assert_close(
            p.log_prob(torch.arange(len(expected)), position=torch.zeros(len(expected), dtype=torch.long)), expected
        )


def test_laws() -> None:
    terms = Terms(GROUPS, spelled="pieces")
    testing.check_contextual(terms, vocabulary())
    testing.check_contextual(TermsInside(terms), vocabulary())


def test_a_saved_model_says_the_same(tmp_path: Path) -> None:
    made = model()
    made.save(tmp_path)
    found = llrnn.load(tmp_path)
    inputs = torch.tensor([[made.vocabulary.eos, *made.vocabulary.ids(["▁new", "▁york", "sh", "▁no"])]])
    batch = Batch(inputs[:, :-1], inputs[:, 1:], torch.ones(1, 4, dtype=torch.bool))
    assert torch.equal(found.log_prob(batch), made.log_prob(batch))
    linear, inside = found.contextual
    assert linear.lists is inside.followed.lists  # type: ignore[attr-defined]
    assert linear.state_key == inside.state_key


def words() -> llrnn.LLRNN:
    corpus = llrnn.Corpus.from_sentences([["we", "saw", "new", "york", "."], ["york", "is", "not", "new", "jersey"]])
    return llrnn.LLRNN(
        llrnn.Vocabulary.from_corpus(corpus),
        output_features=features.Identity(),
        background=llrnn.backgrounds.Unigram.from_corpus(corpus),
        controller=llrnn.GRU(4),
    ).eval()


def test_a_list_on_a_trained_model_of_words() -> None:
    base = words()
    made = bias(base, {"places": ["new york"]}, 2.0)
    of = {name: dict(zip(*next_words(one, "we saw new"), strict=True)) for name, one in (("b", base), ("m", made))}
    z = 1 - of["b"]["york"] + of["b"]["york"] * np.exp(2.0)
    assert of["m"]["york"] == pytest.approx(of["b"]["york"] * np.exp(2.0) / z, rel=1e-5)
    assert of["m"]["jersey"] == pytest.approx(of["b"]["jersey"] / z, rel=1e-5)
    found = llrnn.explain(made, prefix="we saw new", word="york", rival="jersey")
    assert {term.name: term.share for term in found.terms}["places:continues"] == pytest.approx(2.0)
    assert bias(base, {"places": ["york"]}).contextual[0].unspelled() == set()  # type: ignore[attr-defined]
    assert bias(base, {"places": ["york", "leeds"]}).contextual[0].unspelled() == {"leeds"}  # type: ignore[attr-defined]


def next_words(one: llrnn.LLRNN, prefix: str) -> tuple[list[str], list[float]]:
    state = one.start()
    for x in [one.vocabulary.eos, *one.vocabulary.ids(prefix.split())]:
        p, state = one.step(state, [x])
    return list(one.vocabulary.symbols), p.log_probs()[0].double().exp().tolist()


def test_no_weights_are_the_model_itself() -> None:
    base = words()
    made, text = bias(base, {"places": ["new york"]}), [["we", "saw", "york"]]
    corpus = llrnn.Corpus.from_sentences(text)
    assert llrnn.evaluate(made, corpus).log_perplexity == pytest.approx(llrnn.evaluate(base, corpus).log_perplexity)


def test_fitted_weights_are_those_of_the_largest_likelihood() -> None:
    made = bias(words(), {"places": ["new york", "york"], "other": ["not new"]})
    texts = ["we saw new york . york is not new", "new york is not new york", "we saw new jersey . york is new"]
    found = fit_bias(made, texts)
    assert list(found) == list(made.context_names)

    def value(a: torch.Tensor) -> float:  # by log p of the model itself
        with torch.no_grad():
            made.layer.context_bias.copy_(a)
        total = -float((a.double() ** 2).sum()) / 2
        for text in texts:
            ids = torch.tensor([[made.vocabulary.eos, *made.vocabulary.ids(text.split())]])
            batch = Batch(ids[:, :-1], ids[:, 1:], torch.ones_like(ids[:, 1:], dtype=torch.bool))
            total += float(made.log_prob(batch).detach().double().sum())
        return total

    best = torch.tensor(list(found.values()))
    highest = value(best)
    for n in range(len(best)):
        for step in (-0.05, 0.05):
            assert value(best + step * (torch.arange(len(best)) == n)) < highest
    with pytest.raises(ConfigError, match="texts to fit"):
        fit_bias(made, [])


@pytest.mark.parametrize("groups", [{}, {"a": []}, {"": ["b"]}, {"a": [" "]}])
def test_lists_that_are_none(groups: dict[str, list[str]]) -> None:
    with pytest.raises(FeatureError, match="one term or more"):
        Terms(groups)
    Terms({"a": ["b"]})


def test_other_scripts_and_ways_to_spell() -> None:
    assert spelling("Ġtum", "bytes") == b" tum"
    assert spelling("Ã©", "bytes") == "é".encode()
    assert spelling("▁a", "pieces") == b" a"
    assert spelling("<0x0A>", "pieces") == b"\n"
    assert spelling("mot", "words") == b" mot"
    assert spelling(EOS, "bytes") == b""
    assert in_words("é-ा1_ ".encode()) == [True, True, False, True, True, True, True, True, False]
    assert in_words("é".encode()[:1]) == [True]
    plain = expanded(["tumour", "", "zoo", "tumour"], Lexicon.from_mapping({"tumours": ["Lemma:tumour"]}))
    assert plain == ["tumour", "tumours", "zoo"]
    assert expanded(["tumour"], capitals=True) == ["tumour", "Tumour", "TUMOUR"]


def test_many_terms_cost_a_position_no_more() -> None:
    """What is listed at a position does not follow the list: only what goes on with what has begun."""
    drawn = random.Random(1)
    many = ["".join(drawn.choices("neworksh", k=6)) for _ in range(20_000)]
    terms = Terms({"many": many}, spelled="pieces").bind(vocabulary())
    inside = TermsInside(terms).bind(vocabulary())
    state = terms.advance(terms.initial(), vocabulary().id("▁new"))
    values = inside.values([terms.initial(), state])
    assert values.position.tolist() == [1] * len(values.word)
    assert 0 < len(values.word) <= len(PIECES)
