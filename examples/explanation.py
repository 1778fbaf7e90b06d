"""Why this word? The difference between two words, feature by feature, adding up exactly.

Run: python examples/explanation.py
"""

import llrnn
from llrnn import backgrounds, features, french

corpus = llrnn.Corpus.from_sentences(french.sentences(900)).lowercased()
train, valid = corpus.split(800)
vocabulary = llrnn.Vocabulary.from_corpus(corpus)
phi = features.Identity(top=150) + features.Attributes(llrnn.Lexicon.from_corpus(corpus))

model = llrnn.LLRNN(
    vocabulary,
    output_features=phi,
    background=backgrounds.Unigram.from_corpus(corpus),
    controller=llrnn.LSTM(hidden=64),
)
for record in llrnn.train(model, train, valid=valid, epochs=5, learning_rate=0.01):
    if record.event == "epoch":
        print(f"epoch {record.epoch + 1}: valid {record.valid:.3f} nats a word")

found = llrnn.explain(model, prefix="la maison est", word="grande", rival="grand")
print(f"log p(grande) - log p(grand) = {found.log_ratio:+.3f}, of which")
print(f"  {'background':16} {found.log_b_difference:+.3f}")
for term in found.terms:
    print(f"  {term.name:16} {term.share:+.3f}")
assert abs(found.total - found.log_ratio) < 1e-4
