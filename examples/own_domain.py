"""A domain of one's own: licence plates, which nobody lists, and any other string beside them.

Run: python examples/own_domain.py
"""

import torch

import llrnn
from llrnn import backgrounds, domains, features
from llrnn.model.testing import check_domain

PLATES = ["aa-229-aa", "bc-710-xk", "dm-042-qz", "gh-555-ts", "ka-817-rf"]
SENTENCES = [f"the car with the plate {plate} is {colour} ." for plate in PLATES for colour in ("red", "blue", "old")]

letters, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
plates = domains.Regular(
    {"plate": "[a-z]{2}-[0-9]{3}-[a-z]{2}"},  # the cells, as patterns
    dict.fromkeys(letters, 0.02) | dict.fromkeys(digits, 0.05) | {"-": 0.5},  # what a character weighs
    attributes={"plate": ["Plate"]},
    name="car",
)
check_domain(plates)

corpus = llrnn.Corpus.from_sentences([sentence.split() for sentence in SENTENCES] * 4)
words = [word for word in corpus.counts() if word not in PLATES]
vocabulary = llrnn.Vocabulary([*words, llrnn.EOS], domains=[plates, domains.Spelling(words, order=3, endings=10)])
model = llrnn.LLRNN(
    vocabulary,
    output_features=features.Identity(top=20) + features.CellAttributes(),
    background=backgrounds.Unigram.from_corpus(corpus),
    controller=llrnn.GRU(hidden=16),
)
for _ in llrnn.train(model, corpus, valid=corpus, epochs=20, learning_rate=0.02):
    pass
print(f"{llrnn.evaluate(model, corpus).log_perplexity:.3f} nats a word, every plate that could be included")
for text in llrnn.generate(model, prefix="the car with", count=3, generator=torch.Generator().manual_seed(1)):
    print(text)
new = llrnn.explain(model, prefix="the car with the plate", word="zz-999-zz", rival="zzzzz")
print(f"zz-999-zz is exp({new.log_ratio:.1f}) times as likely there as zzzzz")
