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
from llrnn.inference.documents import EVERY, DocumentContext, recent_log_probs
from llrnn.inference.evaluation import evaluate
from llrnn.model.controllers import learning_rnns
from llrnn.model.scoring import Sentences, sentence_log_probs
from llrnn.text.encoded import EncodedText
from test_cli import Capture, as_json, refused

SAID = [["le", "chat", "dort"], ["la", "reine"], ["le", "chat"], ["chat"]] * 6


def network(layers: int = 1, dropout: float = 0.5) -> tuple[LLRNN, EncodedText]:
    corpus = Corpus.from_sentences(SAID)
    vocabulary = Vocabulary.from_corpus(corpus)
    body = LSTM(5, layers=layers, dropout=dropout)
    model = LLRNN(vocabulary, output_features=features.Identity(), controller=body, seed=1).eval()
    return model, EncodedText.encode(corpus, vocabulary)


def test_the_cache_is_the_share_among_the_last_words() -> None:
    stream = np.array([3, 1, 2, 1, 1, 4, 1])
    found = np.exp(recent_log_probs(stream, 3))
    #          1 of 3   2 of 3 1   1 of 3 1 2   1 of 1 2 1   4 of 2 1 1   1 of 1 1 4
    assert found.tolist() == pytest.approx([0, 0, 1 / 3, 2 / 3, 0, 2 / 3])


def test_a_cache_is_mixed_word_by_word() -> None:
    model, text = network()
    plain, found = sentence_log_probs(model, text), DocumentContext(cache=0.3, words=4).log_probs(model, text)
    assert [len(one) for one in found] == [len(one) for one in plain]
    stream = text.stream().tolist()
    for t, (log_p, log_q) in enumerate(zip(np.concatenate(found), np.concatenate(plain), strict=True), 1):
        last = stream[max(0, t - 4) : t]
        wanted = 0.7 * math.exp(log_q) + 0.3 * last.count(stream[t]) / len(last)
        assert math.exp(log_p) == pytest.approx(wanted)


def test_dynamic_evaluation_is_a_step_behind_every_ten_sentences() -> None:
    model, text = network()
    before = {name: own.clone() for name, own in model.state_dict().items()}
    found = DocumentContext(step=0.5).log_probs(model, text)
    by_hand = copy.deepcopy(model)
    for first in range(0, len(SAID), EVERY):
        some = EncodedText(text.sentences[first : first + EVERY], text.conditions[first : first + EVERY], text.eos)
        for own, wanted in zip(found[first:], sentence_log_probs(by_hand, some), strict=False):
            np.testing.assert_allclose(own, wanted, atol=1e-6)
        optimizer = torch.optim.SGD(by_hand.parameters(), lr=0.5)
        optimizer.zero_grad()
        words = sum(len(one) + 1 for one in some.sentences)
        total = torch.stack([by_hand.log_prob(batch).sum() for batch in Sentences(10**9).plan(some)]).sum()
        (-total / words).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert all(torch.equal(own, before[name]) for name, own in model.state_dict().items())  # it stays as it is
    plain = np.concatenate(sentence_log_probs(model, text)).mean()
    assert np.concatenate(found).mean() > plain + 0.01  # the text says the same again and again


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(("layers", "dropout"), [(1, 0.5), (2, 0.0)])  # the second is one call of cuDNN
def test_dynamic_evaluation_on_a_gpu(layers: int, dropout: float) -> None:
    model, text = network(layers, dropout)
    wanted = DocumentContext(step=0.5).log_probs(model, text)
    found = DocumentContext(step=0.5).log_probs(model.to("cuda"), text)
    np.testing.assert_allclose(np.concatenate(found), np.concatenate(wanted), atol=1e-4)


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
    log_p = np.concatenate(context.log_probs(model, text))
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
    wanted = np.concatenate(DocumentContext(cache=0.2, step=0.1).log_probs(model, text))
    assert found["log_perplexity"] == pytest.approx(-wanted.mean(), abs=1e-5)
    assert found["log_perplexity"] < plain["log_perplexity"]
    assert "give it as well" in refused(capsys, "evaluate", "net", "text.txt", "--cache-words", "5")
    assert "from 0 to below 1" in refused(capsys, "evaluate", "net", "text.txt", "--cache", "1.5")
    ngrams = ["ngram", "estimate", "text.txt", "--order", "2", "--out", "text.arpa"]
    as_json(capsys, *ngrams)
    assert "found n-grams alone" in refused(capsys, "evaluate", "text.arpa", "text.txt", "--dynamic", "0.1")


def test_what_cannot_be_followed() -> None:
    with pytest.raises(ConfigError, match=r"found -0\.1, 1000, 0"):
        DocumentContext(cache=-0.1)
