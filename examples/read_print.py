"""Print read again: what Tesseract saw of one line, a model of a few sentences, and a word of the user's own.

Run: python examples/read_print.py
"""

import llrnn
from llrnn import backgrounds, domains, features
from llrnn.inference.reading.channel import Channel
from llrnn.inference.reading.decoding import Decoder, SearchSettings
from llrnn.inference.reading.hocr import printed_line
from llrnn.inference.reading.words import WordModel
from llrnn.model.words import Entry, add

SENTENCES = ["the heron stands in the river", "a river runs in the valley", "the valley is wide", "a heron is shy"]
# a word as Tesseract wrote it, and for each character its choices with confidences
SEEN = [
    ("lhe", [[("l", 91.0), ("t", 88.0)], [("h", 99.0)], [("e", 98.0)]]),
    ("herou", [[(" ", 98.0)], *([(c, 97.0)] for c in "hero"), [("u", 81.0), ("n", 79.0)]]),
    ("of", [[(" ", 98.0)], [("o", 99.0)], [("f", 99.0)]]),
    ("0uze", [[(" ", 98.0)], [("0", 84.0), ("O", 80.0), ("o", 78.0)], *([(c, 98.0)] for c in "uze")]),
]

corpus = llrnn.Corpus.from_sentences([sentence.split() for sentence in SENTENCES] * 5)
words = [*corpus.counts(), "of"]
vocabulary = llrnn.Vocabulary.from_corpus(corpus, domains=[domains.Spelling(words, order=3, endings=10)], as_new=0.5)
model = llrnn.LLRNN(
    vocabulary,
    output_features=features.Identity(top=30) + features.CellAttributes(),
    background=backgrounds.Discounted.from_corpus(corpus),
    controller=llrnn.GRU(hidden=16),
)
for _ in llrnn.train(model, corpus, valid=corpus, epochs=5, learning_rate=0.02):
    pass
print(f"as trained {llrnn.evaluate(model, corpus).log_perplexity:.3f} nats a word")
line, channel = printed_line(SEEN), Channel.default()
print("Tesseract:   ", line.text)
for name, own in (("with a model:", model), ("with a word: ", add(model, [Entry("ouze", count=5)]))):
    read = Decoder(WordModel(own.eval()), channel, SearchSettings(weight=0.8)).read([line])
    print(name, read[0].text)
