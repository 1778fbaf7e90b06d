"""From a dialog act to a sentence, about a restaurant that nobody has heard of.

The network decides when a name is said; which name, only the act says. So all names are alike to it, a new one too.
Run: python examples/from_meaning.py
"""

import random

import llrnn
from llrnn import backgrounds, contextual, domains, features
from llrnn.model.controllers import Attentive, Encoder
from llrnn.model.decode import prepared, write
from llrnn.model.words import value_attribute
from llrnn.text.conditions import Slots, parse_act

FOODS, AREAS = ("thai", "greek", "french"), ("north", "south", "old town")
SAYINGS = {
    "inform(name='{name}';food={food})": "{name} serves {food} food",
    "inform(name='{name}';phone={phone})": "you can call {name} at {phone}",
    "inform(name='{name}';food={food};area='{area}')": "{name} is a {food} restaurant in the {area}",
    "?request(food)": "what kind of food would you like",
}


def invented(rng: random.Random) -> str:
    return "".join(rng.choice("bdfglmnprst") + rng.choice("aeiou") for _ in range(rng.choice([2, 3])))


def example(rng: random.Random) -> llrnn.Sentence:
    """An act, and what a dull waiter makes of it; names have one word or two."""
    facts = {
        "name": " ".join(invented(rng) for _ in range(rng.choice([1, 2]))),
        "phone": str(rng.randrange(10**6, 10**7)),
        "food": rng.choice(FOODS),
        "area": rng.choice(AREAS),
    }
    act, text = rng.choice(list(SAYINGS.items()))
    words = text.format(**facts).split()
    return llrnn.Sentence(tuple(llrnn.Token(word) for word in words), parse_act(act.format(**facts)))


rng = random.Random(0)
train, valid = llrnn.Corpus.from_sentences([example(rng) for _ in range(340)]).split(300)

# Words that are said because a condition has them. They are known by their slot, not by who they are.
entities = backgrounds.entity_words(train, ["name", "phone"])
lexicon = llrnn.Lexicon.from_mapping({word: map(value_attribute, slots) for word, slots in entities.items()})
vocabulary = llrnn.Vocabulary.from_corpus(
    train, domains=[domains.Numbers("any"), domains.Spelling(list(train.counts()), order=2, endings=0)]
)
encoder = Encoder.for_conditions(
    Slots(unread=["name", "phone"]), [sentence.condition for sentence in train], 16, kind="gru"
)
model = llrnn.LLRNN(
    vocabulary,
    output_features=features.Identity(without=entities) + features.Attributes(lexicon).of_listed(),
    background=backgrounds.Primed.fitted(backgrounds.Discounted.from_corpus(train), train, vocabulary, cells=True),
    controller=Attentive(llrnn.GRU(24), encoder, llrnn.GRU(24, inputs=24 + 16)),
    contextual=[
        contextual.Copied("name", "phone", "food", "area"),
        contextual.Continued(),
        contextual.Mentioned(),
        contextual.Unmentioned(),
    ],
)
batches = {"kind": "sentences", "words": 128}
for record in llrnn.train(model, train, valid=valid, epochs=12, learning_rate=0.02, batches=batches):
    if record.event == "epoch" and record.epoch % 4 == 3:
        print(f"epoch {record.epoch + 1}: valid {record.valid:.3f} nats a word")

act = parse_act("inform(name='quixote kitchen';food=greek;area='old town')")
assert not any(word in vocabulary for word in ("quixote", "kitchen"))
(found,) = write(model, [act], beam=3)
print(f"{act}\n  {found}")

# `write` lists the words of the act for the time, and so does `prepared`, for an explanation of one of them.
why = llrnn.explain(prepared(model, [act]), prefix="quixote", word="kitchen", rival="is", condition=act)
print(f"log p(kitchen) - log p(is) after quixote = {why.log_ratio:+.3f}, of which")
print(f"  {'background':14} {why.log_b_difference:+.3f}")
for term in why.terms:
    print(f"  {term.name:14} {term.share:+.3f}")
assert abs(why.total - why.log_ratio) < 1e-4
