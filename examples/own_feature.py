"""A feature of one's own: what days and seasons have in common, and no corpus needs to tell.

Run: python examples/own_feature.py
"""

import llrnn
from llrnn import backgrounds, features, french
from llrnn.model.testing import check_features

TIMES = {
    "Time:day": {"lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"},
    "Time:season": {"printemps", "été", "automne", "hiver"},
    "Time:part of the day": {"matin", "midi", "soir", "nuit"},
}


def time_words(word: str) -> list[str]:
    """The names of the features that fire on a word; what is not named is 0."""
    return [name for name, words in TIMES.items() if word in words]


corpus = llrnn.Corpus.from_sentences(french.sentences(400)).lowercased()
train, valid = corpus.split(350)
vocabulary = llrnn.Vocabulary.from_corpus(corpus)
lexicon = llrnn.Lexicon.from_corpus(corpus)

phi = features.Identity(top=100) + features.Attributes(lexicon) + features.Function(time_words)
check_features(phi, vocabulary)

model = llrnn.LLRNN(
    vocabulary,
    output_features=phi,
    background=backgrounds.Unigram.from_corpus(corpus),
    controller=llrnn.GRU(hidden=48),
)
for record in llrnn.train(model, train, valid=valid, epochs=2, learning_rate=0.01):
    if record.event == "epoch":
        print(f"epoch {record.epoch + 1}: valid {record.valid:.3f} nats a word")

found = llrnn.explain(model, prefix="il est", word="matin")
print("il est … matin:", ", ".join(f"{term.name} {term.share:+.2f}" for term in found.terms))
