"""A table as an expert: the network says when a telephone number comes, the table says which.

Then the table is changed, and the same weights say the new number.
Run: python examples/look_it_up.py
"""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import llrnn
from llrnn import KnowledgeBase, backgrounds, contextual, features
from llrnn.model.controllers import Attentive, Encoder
from llrnn.model.decode import write
from llrnn.model.steering import swap
from llrnn.model.testing import check_contextual
from llrnn.model.words import value_attribute
from llrnn.text.conditions import Slots

NAMES = ("golden wok", "blue door", "zur post", "chez anna", "la luna", "taj", "river cafe", "anchor")
ANSWERS = {
    "phone": ("the number of {name} is {phone} .", "call {name} at {phone} ."),
    "area": ("{name} is in the {area} .", "you find it in the {area} ."),
}


def venue(rng: random.Random, name: str) -> dict[str, str]:
    """Numbers have two groups of digits or three: only the table knows when one is at its end."""
    groups = [str(rng.randrange(100, 1000)) for _ in range(rng.choice([2, 3]))]
    return {"name": name, "phone": " ".join(groups), "area": rng.choice(["north", "south", "old town"])}


def answer(rng: random.Random, kb: KnowledgeBase) -> llrnn.Sentence:
    """A question, as a record, and an answer that is right by the table."""
    row, wanted = rng.choice(kb.rows), rng.choice(list(ANSWERS))
    words = rng.choice(ANSWERS[wanted]).format(**row).split()
    return llrnn.Sentence(tuple(llrnn.Token(word) for word in words), {"name": row["name"], "wanted": wanted})


def asked_for(kb: KnowledgeBase, condition: Any, prefix: tuple[str, ...]) -> Iterable[Mapping[str, str]]:
    """The query: which rows are right now. Here those of the venue that was asked for, whatever was said so far."""
    return kb.where(name=condition["name"])


rng = random.Random(0)
venues = KnowledgeBase("venues", tuple(venue(rng, name) for name in NAMES))
train, valid = llrnn.Corpus.from_sentences([answer(rng, venues) for _ in range(340)]).split(300)

lookup = contextual.Lookup(venues, asked_for, "name", "phone", "area", name="venues")
vocabulary = llrnn.Vocabulary.from_corpus(train, others=lookup.words_of_table)
check_contextual(lookup, vocabulary, conditions=[sentence.condition for sentence in valid])

# Words of the table have no identity, only their column: so the network cannot learn a number by heart.
columns = {word: [value_attribute(column)] for column, words in lookup.words_by_column.items() for word in words}
# What is asked for is all that the network reads of the condition, as one vector; the name is for the query.
encoder = Encoder.for_conditions(Slots(ignored=["name"]), [s.condition for s in train], 8, kind="none")
model = llrnn.LLRNN(
    vocabulary,
    output_features=features.Identity(without=columns) + features.Attributes(llrnn.Lexicon.from_mapping(columns)),
    background=backgrounds.Unigram.from_corpus(train, smoothing=0.5),
    controller=Attentive(llrnn.GRU(24), encoder, llrnn.GRU(24, inputs=24 + 8)),
    contextual=[lookup],
)
batches = {"kind": "sentences", "words": 128}
for record in llrnn.train(model, train, valid=valid, epochs=12, learning_rate=0.02, batches=batches):
    if record.event == "epoch" and record.epoch % 4 == 3:
        print(f"epoch {record.epoch + 1}: valid {record.valid:.3f} nats a word")

question = {"name": "blue door", "wanted": "phone"}
print(f"the table of training: {venues.where(name='blue door')[0]['phone']}")
print(f"  {write(model, [question], beam=3)[0]}")

moved = [{**row, "phone": "0555 88 1234 7"} if row["name"] == "blue door" else row for row in venues.rows]
opened = {"name": "kiosk", "phone": "4711", "area": "harbour"}
changed = KnowledgeBase("venues", (*moved, opened))
other = swap(model, tables={"venues": changed})  # the same weights
print("another table: blue door has another number, and a kiosk has opened at the harbour")
for asked in (question, {"name": "kiosk", "wanted": "phone"}, {"name": "kiosk", "wanted": "area"}):
    print(f"  {write(other, [asked], beam=3)[0]}")

why = llrnn.explain(other, prefix="call blue door at 0555", word="88", rival=".", condition=question)
print(f"log p(88) - log p(.) after 0555 = {why.log_ratio:+.3f}, of which")
print(f"  {'background':14} {why.log_b_difference:+.3f}")
for term in why.terms:
    print(f"  {term.name:14} {term.share:+.3f}")
