"""Adaptation: a frozen base model as the background of a small log-linear model of the domain (paper §4).

    p(x | K) ∝ b(K, x) · exp(a(h)·φ(K, x))        b = λ · base + (1 − λ) · n-grams of the domain

The base is another LL-RNN, an n-gram model or a Hugging Face language model. The n-grams are cross-fitted, and λ is set
on the domain text by EM, each sentence under the n-grams of the other folds. φ: the words of the domain text, what is
known of words in general, and the n-grams once more as an expert. The output weights begin at 0: training begins at the
mixture; where the base is an LL-RNN, the adaptor's body begins as a copy of its body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from llrnn.ground.bundle import require_base
from llrnn.knowledge import features
from llrnn.knowledge.backgrounds import Background, HuggingFace, Mixture, Model, NGram
from llrnn.knowledge.backgrounds.neural import tokenised
from llrnn.knowledge.backgrounds.ngram import over_own_words
from llrnn.knowledge.contextual import Expert
from llrnn.knowledge.features import Features
from llrnn.languages.ngrams.arpa import read_table
from llrnn.model.checkpoint import holds_lm, holds_model, load, open_background
from llrnn.model.controllers import LSTM, make_controller
from llrnn.model.decode import read_corpus
from llrnn.model.ensembles import fitted_shares
from llrnn.model.network import LLRNN
from llrnn.model.scoring import Sentences
from llrnn.text.corpus import Corpus
from llrnn.text.encoded import EncodedText
from llrnn.text.readers import read_lines
from llrnn.text.vocabulary import Vocabulary
from llrnn.training.settings import SentenceBatches, TrainingSettings

EXPERT = "domain"
_FOLDS, _POSITIONS = 10, 512


@dataclass(frozen=True)
class Base:
    """A language model to be adapted to a domain text: its vocabulary, and its p(x | K) as a prior, `background`.

    `vocabulary`, `background`: the two; `donor`: the LL-RNN itself where the model is one, whose network the adapted
    model copies, else None. `tokenizer`: the Hugging Face tokenizer whose tokens are the vocabulary, None for models
    over words. Made by `open_base(path)` or `base_of(model)`.
    """

    vocabulary: Vocabulary
    background: Background
    donor: LLRNN | None = None
    tokenizer: Any = None

    def read(self, path: str | PathLike[str], *, lowercase: bool | None = None) -> Corpus:
        """Return a text file, one sentence a line, as a corpus in the words (or tokens) of this model.

        It is cut and lowercased as this model's training text was, or as `lowercase` says. A model with a tokenizer
        ignores that.
        """
        if self.tokenizer is not None:
            return tokenised(self.tokenizer, (line for _, line in read_lines(path)), name=str(path))
        if self.donor is not None:
            return read_corpus(self.donor, path, lowercase=lowercase)
        return Corpus.from_file(path, lowercase=bool(lowercase))


def open_base(path: str | PathLike[str]) -> Base:
    """Return the language model at `path` as a `Base` for `adaptor`, which adapts it to a domain text.

    It is an llrnn folder, what `open_lm` opens, an ARPA file or an n-gram folder; raises ConfigError where the path
    does not exist.

        base = open_base("runs/french")
    """
    require_base(path)
    path = Path(path)
    if holds_model(path):
        return base_of(load(path))
    if holds_lm(path):
        background = open_background(path)
        assert isinstance(background, HuggingFace)
        return Base(background.vocabulary, background, tokenizer=background.tokenizer)
    ngram = over_own_words(read_table(path))
    return Base(ngram.vocabulary, ngram)


def base_of(model: LLRNN) -> Base:
    """Return a trained model as a `Base` for `adaptor`, which adapts it to a domain text; the model is not changed."""
    return Base(model.vocabulary, Model(model), model)


def adaptor(
    base: Base, corpus: Corpus, *, order: int = 3, hidden: int = 128, seed: int = 0, device: str = "cpu"
) -> LLRNN:
    """Return a model to be trained on `corpus`, whose prior is a frozen base mixed with n-grams of that text.

    Until it is trained it predicts λ · base + (1 − λ) · n-grams, with λ fitted on the corpus. `base` comes from
    `open_base` or `base_of`; `corpus` is the domain text; `order` is that of its n-grams, `hidden` the size of the LSTM
    where the base is no LL-RNN (else the model begins with a copy of its network), `seed` decides the initial weights;
    the model is returned on `device`.

        model = adaptor(base, corpus)
        records = list(train(model, corpus, settings=default_settings(corpus.tokens)))
    """
    donor, phi = base.donor, _features(base, corpus)
    domain = NGram.from_corpus(corpus, order=order, folds=min(_FOLDS, max(2, len(corpus) // 2)))
    domain, frozen = domain.bind(base.vocabulary), base.background.bind(base.vocabulary)
    share = base_share(frozen, domain, EncodedText.to_train_on(corpus, base.vocabulary), device=device)
    controller = LSTM(hidden=hidden, dropout=0.5) if donor is None else make_controller(donor.controller.settings())
    model = LLRNN(
        base.vocabulary,
        output_features=phi,
        input_features=None if donor is None else donor.input_features,
        background=Mixture(frozen, domain, weights=[share, 1.0 - share]),
        controller=controller,
        contextual=[Expert(domain, name=EXPERT)],
        word_dropout=0.1,
        seed=seed,
    )
    with torch.no_grad():
        for weight in (model.layer.weight, model.layer.bias, model.layer.context_weight, model.layer.context_bias):
            weight.zero_()
        if donor is not None:
            model.controller.load_state_dict(donor.controller.state_dict())
            model.embedding.weight.copy_(donor.embedding.weight)
            model.provenance = {
                key: donor.provenance[key] for key in ("config", "tokeniser") if key in donor.provenance
            }
    return model.to(device)


@torch.no_grad()
def base_share(base: Background, domain: Background, text: EncodedText, *, device: str = "cpu") -> float:
    """Return λ, between 0.001 and 0.999, that maximises the likelihood of a text under λ · base + (1 − λ) · domain.

    Fitted by EM. `base`, `domain`: two priors over the next word, bound to the vocabulary that `text` is encoded with;
    `device`: where both are computed.
    """
    share, _ = fitted_shares(torch.stack([_log_probs(part, text, device).double() for part in (base, domain)]))
    return min(max(share, 0.001), 0.999)


@torch.no_grad()
def base_log_perplexity(base: Base, corpus: Corpus) -> float:
    """Return −Σ log p / N of a text under the base alone, in nats; N counts its words and ends of sentences."""
    bound, text = base.background.bind(base.vocabulary), EncodedText.encode(corpus, base.vocabulary)
    log_p = _log_probs(bound, text)
    return -(float(log_p.sum()) + sum(float(one.sum()) for one in text.inside or ())) / len(log_p)


def _log_probs(background: Background, text: EncodedText, device: str = "cpu") -> Tensor:
    """Return log b(K, x) of each of the N words of a text under a prior, ends of sentences included, (N,) on the CPU.

    `background`: the prior, bound to the vocabulary of the text; `device`: where it is computed. Sentences are sorted
    into batches by length: their order is not that of the text.
    """
    found = []
    for planned in Sentences(_POSITIONS).plan(text):
        batch = planned.to(torch.device(device))
        start = [background.initial(condition) for condition in batch.conditions or [None] * len(batch.inputs)]
        states, _ = background.follow(start, batch)
        targets = batch.picked(batch.targets)
        positions = torch.arange(len(targets), device=targets.device)
        found.append(background.prior(states).to(targets.device).at(positions, targets).cpu())
    return torch.cat(found)


def default_settings(words: int, *, seed: int = 0) -> TrainingSettings:
    """Return settings for training an `adaptor` model on a text of `words` words: about twenty updates in an epoch.

    Batches have a 20th of the text, between 128 and 2048 words, so that early stopping acts in time on a small text,
    and a large one is not slow. AdamW, at most 40 epochs, patience 3 (epochs without improvement).

        records = list(train(model, corpus, settings=default_settings(corpus.tokens)))
    """
    size = max(128, min(2048, words // 20))
    return TrainingSettings(
        batches=SentenceBatches(words=size),
        learning_rate=0.001,
        weight_decay=0.01,
        average=0.98,
        epochs=40,
        patience=3,
        seed=seed,
    )


def _features(base: Base, corpus: Corpus) -> Features:
    seen = frozenset(word for word, count in corpus.counts().items() if count > 1)
    if base.donor is not None:
        return _Domain(seen, {word: base.donor.output_features.row(i) for i, word in enumerate(base.vocabulary)})
    spelled = (features.Suffixes(3, min_count=20) + features.Shape() + features.Numeric()).fitted(base.vocabulary)
    return _Domain(seen, {word: spelled(word) for word in base.vocabulary})


class _Domain(Features):
    """Features of the words of an adapted model: the base's, and the word's identity if the domain text has it often.

    `seen`: a collection of the words that get an identity feature `Word:...` (those that come twice or more); `known`:
    {word: {feature name: value}} of the base.
    """

    def __init__(self, seen: frozenset[str], known: Mapping[str, Mapping[str, float]]) -> None:
        self._seen, self._known = seen, known

    def __call__(self, symbol: str) -> Mapping[str, float]:
        own = {f"Word:{symbol}": 1.0} if symbol in self._seen else {}
        return {**self._known.get(symbol, {}), **own}

    def __repr__(self) -> str:
        return f"Domain({len(self._seen)} words)"
