"""An n-gram model as an expert: the network learns how far to trust it, and the explanation shows its share."""

import llrnn
from llrnn import backgrounds, contextual, features, french
from llrnn.model.steering import Change, steer

corpus = llrnn.Corpus.from_sentences(french.sentences(1200)).lowercased()
train, valid = corpus.split(1100)
vocabulary = llrnn.Vocabulary.from_corpus(corpus)

# Cross-fitted by default: a training sentence sees the counts of all others but its fold.
expert = contextual.Expert(backgrounds.NGram.from_corpus(train, order=3), name="kn")
model = llrnn.LLRNN(
    vocabulary,
    output_features=features.Identity(top=100) + features.Suffixes(3, min_count=20),
    background=backgrounds.Unigram.from_corpus(train, smoothing=0.5),
    controller=llrnn.LSTM(hidden=32),
    contextual=[expert],
)
for record in llrnn.train(model, train, valid=valid, epochs=2, learning_rate=0.01):
    if record.event == "epoch":
        print(f"validation {record.valid:.3f}")

found = llrnn.explain(model, prefix="elle est", word="très")
for term in found.terms:
    print(f"{term.name:>14}: weight {term.weight:6.2f} · value {term.value:6.2f} = {term.share:6.2f}")

half = steer(model, [Change.parse("kn=*0.5")])  # the expert at half its weight, renormalised exactly
print(f"as trained {llrnn.evaluate(model, valid).log_perplexity:.3f} nats a word", end=", ")
print(f"with half the expert {llrnn.evaluate(half, valid).log_perplexity:.3f}")
