"""Caches and dynamic evaluation, each against its definition."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from llrnn import LLRNN, LSTM, Corpus, Vocabulary, features
from llrnn.ground.errors import ConfigError
from llrnn.inference.documents import SEGMENT, DocumentContext, cache_log_probs, gradient_scales, read_as_one
from llrnn.inference.evaluation import evaluate
from llrnn.model.controllers import learning_rnns
from llrnn.model.scoring import Continuous, Sentences, score
from llrnn.text.encoded import EncodedText
from test_cli import Capture, as_json, refused

SAID = [["le", "chat", "dort"], ["la", "reine"], ["le", "chat"], ["chat"]] * 6


def network(layers: int = 1, dropout: float = 0.5) -> tuple[LLRNN, EncodedText]:
    corpus = Corpus.from_sentences(SAID)
    vocabulary = Vocabulary.from_corpus(corpus)
    body = LSTM(5, layers=layers, dropout=dropout)
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=body, seed=1).eval()
    return model, EncodedText.encode(corpus, vocabulary)


def test_a_cache_counts_by_what_the_network_saw() -> None:
    generator = torch.Generator().manual_seed(0)
    h, targets = torch.randn(700, 3, generator=generator), torch.randint(0, 6, (700,), generator=generator)
    for words, sharpness in ((5, 0.7), (600, 0.7), (3800, 0.0)):
        found = cache_log_probs(h, targets, words, sharpness)
        assert found[0] == -math.inf
        for t in (1, 2, 4, 5, 6, 511, 512, 513, 699):
            last = range(max(0, t - words), t)
            weights = {i: math.exp(sharpness * float(h[t].double() @ h[i].double())) for i in last}
            share = sum(weight for i, weight in weights.items() if targets[i] == targets[t]) / sum(weights.values())
            assert math.exp(found[t]) == pytest.approx(share, rel=1e-5)


def test_a_sharp_cache_says_what_came_after_the_same() -> None:
    """The words alternate; a cache that looks at what the network saw is nearly certain, one that counts is not."""
    h, targets = 5 * torch.eye(2)[torch.arange(40) % 2], torch.arange(40) % 2
    assert cache_log_probs(h, targets, 20, 1.0)[2:].exp().min() > 0.999
    assert cache_log_probs(h, targets, 20, 0.0)[2:].exp().max() < 0.7


def test_a_cache_is_mixed_word_by_word() -> None:
    model, text = network()
    read = read_as_one(model, text)
    assert read.targets.tolist() == text.stream()[1:].tolist()
    torch.testing.assert_close(read.log_p, score(model, text, Continuous(1, 7)).log_probs)  # carried from line to line
    found = DocumentContext(cache=0.3, words=4, sharpness=0.5).log_probs(model, text)
    recent = cache_log_probs(read.h, read.targets, 4, 0.5)
    assert found[0] == pytest.approx(float(read.log_p[0]))  # there is no word before it
    np.testing.assert_allclose(np.exp(found[1:]), (0.7 * read.log_p.exp() + 0.3 * recent.exp())[1:].numpy())


@pytest.mark.parametrize("krause", [False, True])
def test_dynamic_evaluation_is_a_step_behind_every_five_words(krause: bool) -> None:
    model, text = network()
    before = {name: own.clone() for name, own in model.state_dict().items()}
    scales = gradient_scales(model, text, Continuous(2, SEGMENT), 3) if krause else None
    step, back = (0.003, 0.01) if krause else (0.5, 0.0)
    found = DocumentContext(step=step, back=back, scales=scales).log_probs(model, text)
    by_hand, state, wanted = copy.deepcopy(model), None, []
    for batch in Continuous(1, SEGMENT).plan(text):
        distribution, state = by_hand.scan(batch, state)
        log_p, state = by_hand.targets_log_prob(distribution, batch), state.detached()
        wanted.append(log_p.detach())
        by_hand.zero_grad()
        (-log_p.mean()).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for name, own in by_hand.named_parameters():
                if own.grad is None:  # of weights without entries
                    continue
                r = torch.ones_like(own) if scales is None else scales[name]
                own.sub_(step * own.grad / (r if scales is None else r + 0.5 * r.mean()))
                own.add_((back * r / r.mean()).clamp(max=1) * (before[name] - own))
    np.testing.assert_allclose(found, torch.cat(wanted).double().numpy(), atol=1e-5)
    assert all(torch.equal(own, before[name]) for name, own in model.state_dict().items())  # it stays as it is
    assert found.mean() > float(read_as_one(model, text).log_p.mean())  # the text says the same again and again


def test_scales_are_root_mean_squares_of_gradients() -> None:
    model, text = network()
    found, state = gradient_scales(model, text, Continuous(2, 6)), None
    squares = torch.zeros_like(model.layer.weight)
    plan = Continuous(2, 6).plan(text)
    for batch in plan:
        distribution, state = model.scan(batch, state)
        loss, state = -model.targets_log_prob(distribution, batch).mean(), state.detached()
        squares = squares + torch.autograd.grad(loss, model.layer.weight)[0] ** 2
    torch.testing.assert_close(found["layer.weight"], (squares / len(plan)) ** 0.5)
    assert all(own.grad is None for own in model.parameters())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(("layers", "dropout"), [(1, 0.5), (2, 0.0)])  # the second is one call of cuDNN
def test_dynamic_evaluation_on_a_gpu(layers: int, dropout: float) -> None:
    model, text = network(layers, dropout)
    wanted = DocumentContext(step=0.5).log_probs(model, text)
    found = DocumentContext(step=0.5).log_probs(model.to("cuda"), text)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_what_learns_for_a_step_rests_again() -> None:
    model, text = network(2)
    with learning_rnns(model):
        assert {type(part).__name__ for part in model.modules() if part.training} == {"LSTM", "TorchLSTM"}
        log_p = [model.log_prob(batch) for batch in Sentences(10**9).plan(text)]
    assert not any(part.training for part in model.modules())
    for own, batch in zip(log_p, Sentences(10**9).plan(text), strict=True):  # nothing was dropped
        torch.testing.assert_close(own, model.log_prob(batch))


def test_evaluate_has_the_figures_of_the_document() -> None:
    model, text = network()
    context = DocumentContext(cache=0.2, step=0.1)
    found = evaluate(model, Corpus.from_sentences(SAID), following=context)
    log_p = context.log_probs(model, text)
    assert found.log_perplexity == pytest.approx(-log_p.mean())
    assert found.words == len(log_p)


def test_on_the_command_line(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, text = network()
    model.save("net")
    Path("text.txt").write_text("".join(" ".join(one) + "\n" for one in SAID), encoding="utf8")
    (plain,), (found,) = (
        as_json(capsys, "evaluate", "net", "text.txt", *more) for more in ([], ["--cache", "0.2", "--dynamic", "0.1"])
    )
    wanted = DocumentContext(cache=0.2, step=0.1).log_probs(model, text)
    assert found["log_perplexity"] == pytest.approx(-wanted.mean(), abs=1e-5)
    assert found["log_perplexity"] < plain["log_perplexity"]
    assert "give it as well" in refused(capsys, "evaluate", "net", "text.txt", "--cache-words", "5")
    assert "from 0 to below 1" in refused(capsys, "evaluate", "net", "text.txt", "--cache", "1.5")
    ngrams = ["ngram", "estimate", "text.txt", "--order", "2", "--out", "text.arpa"]
    as_json(capsys, *ngrams)
    (found,) = as_json(capsys, "evaluate", "text.arpa", "text.txt", "--cache", "0.2", "--cache-sharpness", "0.3")
    assert 0 < found["log_perplexity"] < math.log(10)
    assert "found n-grams alone" in refused(capsys, "evaluate", "text.arpa", "text.txt", "--dynamic", "0.1")


def test_what_cannot_be_followed() -> None:
    with pytest.raises(ConfigError, match=r"found -0\.1, 3800, 0"):
        DocumentContext(cache=-0.1)
