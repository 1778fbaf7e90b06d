"""A tiny model to serve in tests: untrained, of the embedded French corpus, made in a moment."""

from __future__ import annotations

from pathlib import Path

import torch

from llrnn import LLRNN, LSTM, Corpus, Lexicon, Vocabulary, backgrounds, features, french

PREFIX = "la maison est"


def tiny_model(sentences: int = 400, hidden: int = 16) -> LLRNN:
    corpus = Corpus.from_sentences(french.sentences(sentences)).lowercased()
    phi = features.Identity(top=40) + features.Attributes(Lexicon.from_corpus(corpus)) + features.Suffixes(2)
    return LLRNN(
        Vocabulary.from_corpus(corpus),
        output_features=phi,
        background=backgrounds.Unigram.from_corpus(corpus),
        controller=LSTM(hidden=hidden),
        seed=0,
    )


def saved_tiny_model(folder: Path) -> Path:
    """The model as a folder, for a server in a process of its own."""
    torch.set_num_threads(1)
    tiny_model().save(folder)
    return folder
