"""A background of one's own: saying the same word twice in a row is a hundred times less likely than it would be.

Three methods: where a sequence starts, how a word changes the state, and what the states say of the next word.
Run: python examples/own_background.py
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import torch

import llrnn
from llrnn import backgrounds, features, french
from llrnn.layer.priors import Prior, SparsePrior, Table
from llrnn.model.testing import check_background

PENALTY = math.log(0.01)


class NoStutter(backgrounds.Background[int | None]):
    """b = 0.01 for the word just said, 1 for all others: one exception a position, whatever |V| is."""

    everything: Table

    def bind(self, vocabulary: llrnn.Vocabulary) -> Self:
        bound = super().bind(vocabulary)
        bound.everything = Table(torch.zeros(len(vocabulary)))  # log 1
        return bound

    def initial(self, condition: object = None) -> int | None:
        return None

    def advance(self, state: int | None, symbol: int) -> int | None:
        return symbol

    def prior(self, states: Sequence[int | None]) -> Prior:
        return SparsePrior.listed(self.everything, [{} if last is None else {last: PENALTY} for last in states])


corpus = llrnn.Corpus.from_sentences(french.sentences(400)).lowercased()
vocabulary = llrnn.Vocabulary.from_corpus(corpus)
background = backgrounds.Unigram.from_corpus(corpus) * NoStutter()
check_background(background, vocabulary)

model = llrnn.LLRNN(
    vocabulary,
    output_features=features.Identity(top=100) + features.Attributes(llrnn.Lexicon.from_corpus(corpus)),
    background=background,
    controller=llrnn.GRU(hidden=48),
)
for record in llrnn.train(model, corpus, epochs=2, learning_rate=0.01):
    if record.event == "epoch":
        print(f"epoch {record.epoch + 1}: train {record.train:.3f} nats a word")

texts = llrnn.generate(model, count=20, generator=torch.Generator().manual_seed(0))
twice = sum(left == right for text in texts for left, right in pairwise(text.words))
print(f"20 sentences, {twice} times the same word twice in a row; the first: {texts[0]}")
