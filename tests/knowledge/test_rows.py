"""One position of many, and weights changed position by position: the same numbers as one at a time."""

from __future__ import annotations

import pytest
import torch

from helpers import small_corpus, small_model, tiny_model
from llrnn import GRU, LLRNN, Corpus, Vocabulary, backgrounds, contextual, features, influence
from llrnn.ground.errors import ConfigError, UnknownWordError
from llrnn.knowledge.backgrounds import Background
from llrnn.layer.distribution import Distribution
from llrnn.layer.weights import WeightChange
from llrnn.model.scoring import Sentences
from llrnn.model.steering import Change, scale_and_offset, steer
from llrnn.text.encoded import EncodedText
from llrnn.text.vocabulary import EOS


def ngram() -> Background:
    return backgrounds.NGram.from_corpus(small_corpus(), order=2)


def neural() -> Background:
    return backgrounds.Model(small_model(loud=1.0))


BACKGROUNDS = {
    "static": lambda: backgrounds.Unigram.from_corpus(small_corpus()),
    "n-grams": ngram,
    "mixture": lambda: backgrounds.Mixture(ngram(), backgrounds.Uniform(), weights=[0.7, 0.3]),
    "dense": neural,
}


def model_with(background: str) -> LLRNN:
    context = [contextual.Repeated(4), contextual.Expert(ngram(), name="kn")]
    return small_model(background=BACKGROUNDS[background](), context=context).double()


def positions(model: LLRNN, change: WeightChange | None = None) -> Distribution:
    """The distributions at all positions of a few sentences."""
    text = EncodedText.encode(Corpus(small_corpus().sentences[:5]), model.vocabulary)
    (batch,) = Sentences().plan(text)
    with torch.no_grad():
        return model.scan(batch, change=change)[0]


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_a_row_is_what_all_rows_say_there(background: str) -> None:
    model = model_with(background)
    everywhere = positions(model)
    expected = everywhere.log_probs()
    for n in (0, 3, everywhere.n - 1):
        alone = everywhere.row(n)
        assert alone.n == 1
        torch.testing.assert_close(alone.log_probs()[0], expected[n])
        torch.testing.assert_close(alone.log_z[0], everywhere.log_z[n])
        word = torch.tensor([7])
        torch.testing.assert_close(alone.log_prob(word)[0], expected[n, 7])
        torch.testing.assert_close(alone.context_values(word)[0], everywhere.context_values(word, torch.tensor([n]))[0])
        torch.testing.assert_close(alone.entropy()[0], everywhere.entropy()[n])
        assert alone.top(5)[1].tolist()[0] == everywhere.top(5)[1].tolist()[n]


CHANGES = [
    [Change("POS:*", scale=0.5), Change("Gender:Fem", offset=1.5)],
    [Change("kn", scale=-0.7)],
    [Change("repeated", scale=0.0, offset=2.0), Change("Suffix:*", offset=-0.3)],
    [],
]


def repeated_name(model: LLRNN) -> str:
    return model.contextual[0].names[0]


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_every_position_has_weights_of_its_own(background: str) -> None:
    model = model_with(background)
    named = [
        [Change(repeated_name(model), c.scale, c.offset) if c.feature == "repeated" else c for c in changes]
        for changes in CHANGES
    ]
    n = positions(model).n
    pairs = [scale_and_offset(model, named[i % len(named)]) for i in range(n)]
    scale, offset = (torch.stack(part) for part in zip(*pairs, strict=True))
    found = positions(model, WeightChange(scale, offset))
    expected = [positions(steer(model, changes)).log_probs() for changes in named]
    for i in range(n):
        torch.testing.assert_close(found.log_probs()[i], expected[i % len(named)][i])
        torch.testing.assert_close(found.row(i).log_probs()[0], expected[i % len(named)][i])
        torch.testing.assert_close(found.class_probabilities()[i].sum(), torch.tensor(1.0, dtype=torch.float64))
    targets = torch.arange(n) % len(model.vocabulary)
    torch.testing.assert_close(found.log_prob(targets), found.log_probs()[torch.arange(n), targets])


def test_one_change_for_all_positions_and_none_at_all() -> None:
    model = model_with("static")
    scale, offset = scale_and_offset(model, CHANGES[0])
    found = positions(model, WeightChange(scale[None], offset[None]))
    torch.testing.assert_close(found.log_probs(), positions(steer(model, CHANGES[0])).log_probs())
    assert found.row(2).weights is found.weights
    torch.testing.assert_close(found.row(2).log_probs()[0], found.log_probs()[2])
    ones, zeros = scale_and_offset(model, [])
    assert bool((ones == 1).all())
    assert bool((zeros == 0).all())


def test_words_that_tie_come_in_the_order_of_the_vocabulary() -> None:
    vocabulary = Vocabulary([EOS, *(f"w{i}" for i in range(200))])
    phi = features.Function(lambda word: {"even": 1.0} if word[1:].isdigit() and int(word[1:]) % 2 == 0 else {})
    model = LLRNN(vocabulary, output_features=phi, controller=GRU(4))
    with torch.no_grad():
        model.layer.bias.fill_(1.0)
    for n in (1, 3, 40):  # whatever else is computed
        p, _ = model.step(model.start([None] * n), [0] * n)
        log_p, words = p.top(103)
        evens = [vocabulary.id(f"w{i}") for i in range(0, 200, 2)]
        assert words.tolist() == [[*evens, vocabulary.eos, vocabulary.id("w1"), vocabulary.id("w3")]] * n
        assert bool((log_p[:, 1:] <= log_p[:, :-1]).all())
    forbidden = LLRNN(
        vocabulary, output_features=phi, background=backgrounds.Mask(allowed={"w5", "w3"}), controller=GRU(4)
    )
    log_p, words = forbidden.step(forbidden.start([None]), [0])[0].top(4)
    assert words[0, :2].tolist() == [vocabulary.id("w3"), vocabulary.id("w5")]
    assert log_p[0, 2:].tolist() == [float("-inf")] * 2


def nudged(model: LLRNN, words: list[int], k: int, t: int, row: int, size: float) -> float:
    """a_k when one more (or less) of one input feature stood at one position; by hand, in the input."""
    with torch.no_grad():
        psi = model.embedding(torch.tensor([words])).clone()
        psi[0, t] += size * model.embedding.weight[row]
        h, _ = model.controller.scan(psi, model.start([None]).controller)
        a = model.layer.weights().full_adaptor(h[:, -1])
    return float(a[0, k])


@pytest.mark.parametrize("prefix", [(), ("la",), tuple(small_corpus().sentences[0].words[:4])])
def test_influence_is_the_slope_times_the_input(prefix: tuple[str, ...]) -> None:
    model = model_with("static")
    for feature in ("Gender:Fem", "kn"):
        found = influence(model, feature=feature, prefix=prefix)
        k = model.feature_names.index(feature)
        ids = [model.vocabulary.eos, *model.vocabulary.ids(prefix)]
        assert found.weight == pytest.approx(nudged(model, ids, k, 0, 0, 0.0))
        for term in found.terms:
            row = model.input_features.column_of[term.name]
            up, down = (nudged(model, ids, k, term.position + 1, row, sign * 1e-5) for sign in (1, -1))
            assert term.share == pytest.approx(term.value * (up - down) / 2e-5, rel=1e-5, abs=1e-9)
        fired = [(term.position, term.name) for term in found.terms]
        expected = [(t - 1, name) for t, word in enumerate(ids) for name in model.input_features.row(word)]
        assert sorted(fired) == sorted(expected)
        assert found.of_word(-1) == pytest.approx(sum(term.share for term in found.terms if term.position == -1))


def test_influence_is_shown_word_by_word() -> None:
    model = model_with("static")
    found = influence(model, feature="Gender:Fem", prefix=("la",))
    chart = found.chart()
    assert [bar.name for bar in chart.bars] == ["<s>", "la"]
    assert [bar.value for bar in chart.bars] == [found.of_word(-1), found.of_word(0)]
    html = found._repr_html_()
    assert "&lt;s&gt;" in html
    assert "<s>" not in html
    for term in found.terms:
        assert f"{term.share:+.4f}" in html


def test_influence_needs_a_feature_and_words_that_are_there() -> None:
    model = tiny_model()
    with pytest.raises(ConfigError, match=r"found 'Gender:\*'; names look like"):
        influence(model, feature="Gender:*", prefix="w0")
    with pytest.raises(UnknownWordError, match="'w9'"):
        influence(model, feature=model.feature_names[0], prefix="w9")
