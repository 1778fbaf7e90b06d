"""A grammar as part of the distribution: in decoding only, in training, with weights, and as advice.

A model learns logical forms from few examples. Without help it forgets a bracket now and then; with the grammar as
background it cannot, and need not learn what is known. Run: python examples/hold_to_a_grammar.py
"""

import random

import torch

import llrnn
from llrnn import backgrounds, contextual, features
from llrnn.model.decode import generate
from llrnn.model.steering import constrained

GRAMMAR = """
start: "answer" "(" set ")"
set: KIND -> kind
    | "near" "(" set ")" -> near
    | "and" "(" set "," set ")" -> both
    | "most" "(" PROPERTY "," set ")" -> most
KIND: "river" | "city" | "lake" | "state"
PROPERTY: "long" | "large" | "high"
"""
KINDS, PROPERTIES = ("river", "city", "lake", "state"), ("long", "large", "high")


def form(rng: random.Random, depth: int = 0) -> str:
    """A set of things, as the grammar has it."""
    kind = rng.choice(["kind", "near", "both", "most"] if depth < 3 else ["kind"])
    if kind == "near":
        return f"near ( {form(rng, depth + 1)} )"
    if kind == "both":
        return f"and ( {form(rng, depth + 1)} , {form(rng, depth + 1)} )"
    return f"most ( {rng.choice(PROPERTIES)} , {form(rng, depth + 1)} )" if kind == "most" else rng.choice(KINDS)


def text(count: int, seed: int) -> llrnn.Corpus:
    rng = random.Random(seed)
    words = [f"answer ( {form(rng)} )".split() for _ in range(count)]
    return llrnn.Corpus.from_sentences([llrnn.Sentence(tuple(map(llrnn.Token, one))) for one in words])


train, test = text(150, seed=0), text(200, seed=1)
vocabulary = llrnn.Vocabulary.from_corpus(train)
grammar = backgrounds.Grammar(GRAMMAR, longest=60, name="forms")


def trained(background: backgrounds.Background) -> llrnn.LLRNN:
    model = llrnn.LLRNN(
        vocabulary, output_features=features.Identity(), background=background, controller=llrnn.LSTM(32), seed=0
    )
    for _ in llrnn.train(model, train, epochs=8, learning_rate=0.01, batches={"kind": "sentences", "words": 256}):
        pass
    return model


def well_formed(model: llrnn.LLRNN) -> float:
    """The share of 300 samples that are strings of the grammar."""
    judge = grammar.bind(vocabulary)
    samples = generate(model, count=300, max_words=80, generator=torch.Generator().manual_seed(0))
    return sum(judge.objection(None, vocabulary.ids(found.words)) is None for found in samples) / len(samples)


free, held = trained(backgrounds.Uniform()), trained(grammar)
for name, model in {"free": free, "masked in decoding": constrained(free, grammar), "trained with it": held}.items():
    loss = llrnn.evaluate(model, test).log_perplexity
    print(f"{name:20} {loss:.3f} nats a word, {100 * well_formed(model):.1f} % well-formed")

# With weights the grammar is a distribution of its own: what can still follow is counted in.
weighted = backgrounds.Grammar(GRAMMAR, weights={"kind": 4, "near": 1, "both": 1, "most": 1}).bind(vocabulary)
state = weighted.initial()
for word in ("answer", "(", "most", "("):
    state = weighted.advance(state, vocabulary.id(word))
log_b = weighted.prior([state]).dense(1).log_b[0]
print("after answer ( most (:", {word: round(float(log_b[vocabulary.id(word)].exp()), 3) for word in PROPERTIES})

# As advice: a violation is possible, and how much it counts is the network's to say.
advice = contextual.Expert(backgrounds.Grammar(GRAMMAR, violation=0.01), name="syntax")
advised = llrnn.LLRNN(
    vocabulary,
    output_features=features.Identity(),
    background=backgrounds.Uniform(),
    contextual=[advice],
    controller=llrnn.LSTM(32),
)
for _ in llrnn.train(advised, train, epochs=8, learning_rate=0.01, batches={"kind": "sentences", "words": 256}):
    pass
print(
    f"{'advised':20} {llrnn.evaluate(advised, test).log_perplexity:.3f} nats a word, {100 * well_formed(advised):.1f} %"
)
